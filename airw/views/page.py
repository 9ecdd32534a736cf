"""A walk along links, or a path, as one HTML page.

The page needs no network and runs no script but its own.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from string import Template

from airw._base.messages import CONTROLS, escape_controls
from airw.links import INVERSES, Inverses, LinkPath
from airw.values import Direction, NodeId
from airw.views.model import NodeView, TreeLink, WalkTree, format_counts, id_text
from airw.views.reading import Outline, OutlineEdge
from airw.views.text import limits_text

_DIRECTIONS: Mapping[Direction, str] = {"out": "along links", "in": "against links", "both": "links both ways"}
_DEEPEST = 30  # deeper lists would not fit the window, and browsers stop nesting at 512 elements
_LONGEST = 200  # characters of a heading
_POLICY = "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"

_FIRST = """{ // if a script fails, show the list, as without scripts
const page = document.documentElement.classList;
page.add("drawn");
addEventListener("error", () => page.remove("drawn"));
}"""


def tree_page(tree: WalkTree, *, title: str | None = None) -> str:
    """Write a walk along links as an HTML page, with an interactive drawing and a list.

    The page is self-contained. Its content security policy allows only its own script and style, so it loads and sends
    nothing. Titles and ids are escaped. The drawing has at most 2,000 artifacts at once; if there are more, the page
    says so. The list has all of them. Without scripts, in print and for screen readers, the list replaces the drawing.
    The element with the id `walk` contains the walk as JSON.

    Args:
        tree: The walk.
        title: The heading; by default it names the roots.

    Returns:
        The page; write it to a file in UTF-8.

    Example:
        >>> from airw.values import Edge
        >>> nodes = [NodeView("a.md", "Keys"), NodeView("b.md", "Rotating <keys>")]
        >>> edge = Edge("a.md", "b.md", "supports")
        >>> step = TreeLink("a.md", "b.md", 1, "supports", edge)
        >>> page = tree_page(WalkTree(["a.md"], "out", 3, nodes, [edge], [step]))
        >>> "<title>Links of Keys</title>" in page, "Rotating &lt;keys&gt;" in page, "Rotating <keys>" in page
        (True, True, False)
    """
    titles = {node.id: node.title for node in tree.nodes}
    roots = ", ".join(titles.get(root) or id_text(root) for root in tree.roots)
    facts = [f"From {_bdi(', '.join(map(id_text, tree.roots)))}", _DIRECTIONS[tree.direction], _hops(tree.max_hops)]
    facts += [_count(len(tree.nodes), "artifact"), _count(len(tree.edges), "link")]
    return _page(tree, title or f"Links of {roots}", facts)


def path_page(
    path: LinkPath, nodes: Sequence[NodeView] = (), *, title: str | None = None, inverses: Inverses | None = INVERSES
) -> str:
    """Write a path as one HTML page, like the page of a walk.

    If no path was found, the page shows both ends and says so.

    Args:
        path: The result of the search for a path.
        nodes: The artifacts of the path, in any order; a missing one is shown by its id.
        title: The heading; by default it names both ends.
        inverses: The names of edge types against their direction; `None` for the stored type.

    Returns:
        The page; write it to a file in UTF-8.

    Example:
        >>> from airw.values import Edge
        >>> path = LinkPath("a.md", "b.md", "both", 10, ("a.md", "b.md"), (Edge("b.md", "a.md", "supports"),), 1.0)
        >>> "supported-by" in path_page(path)
        True
    """
    views = {node.id: node for node in nodes}
    ids = path.nodes or tuple(dict.fromkeys((path.start, path.end)))
    path_nodes = [views.get(id) or NodeView(id) for id in ids]
    steps = [
        TreeLink(source, target, hop, edge.type if inverses is None else inverses.name_of(edge, source), edge)
        for hop, ((source, target), edge) in enumerate(zip(pairwise(path.nodes), path.edges, strict=True), 1)
    ]
    tree = WalkTree(
        roots=ids[:1] if path.found else ids,
        direction=path.direction,
        max_hops=path.max_hops,
        nodes=path_nodes,
        edges=path.edges,
        spanning_tree=steps,
        left_out=path.left_out,
        at_least=path.at_least,
    )
    ends = f"{path_nodes[0].title or id_text(path.start)} to {path_nodes[-1].title or id_text(path.end)}"
    return _page(tree, title or f"Path from {ends}", _path_facts(path))


def _path_facts(path: LinkPath) -> list[str]:
    hops = len(path.nodes) - 1
    cost = "" if path.cost in {None, hops} else f", cost {path.cost:g}"
    length = f"{_count(hops, 'hop')}{cost}" if path.found else "no path found"
    ends = f"From {_bdi(id_text(path.start))} to {_bdi(id_text(path.end))}"
    return [
        ends,
        _DIRECTIONS[path.direction],
        _hops(path.max_hops),
        length,
        f"{_count(path.visited, 'artifact')} reached",
    ]


def _page(tree: WalkTree, title: str, facts: Sequence[str]) -> str:
    parts = _parts()
    unknown = [*tree.unknown, *(["timeout"] * tree.timed_out)]
    left_out = limits_text(format_counts(tree.left_out, tree.at_least, unknown))
    policy = _POLICY.format(script=f"{_hash(_FIRST)} {_hash(parts['script'])}", style=_hash(parts["css"]))
    return Template(parts["html"]).substitute(
        policy=policy,
        css=parts["css"],
        first=_FIRST,
        script=parts["script"],
        title=_escape(_cut(title)),
        facts=" · ".join(facts),
        mark=' class="cut"' if tree.truncated else "",
        left_out=_escape(left_out or "nothing left out"),
        list="\n".join(_nest_lists(_lines(tree))),
        data=_data(tree),
    )


@cache
def _parts() -> Mapping[str, str]:
    """Read the HTML, CSS and scripts that all pages share."""
    from importlib.resources import files

    def read(name: str) -> str:
        return files("airw.views").joinpath(name).read_text(encoding="utf-8")

    return {
        "html": read("page.html"),
        "css": read("page.css"),
        "script": f"{read('page_layout.js')}\n{read('page.js')}",
    }


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(tree: WalkTree) -> str:
    """Return the walk as JSON for the page, with what else the drawing needs."""
    places = {edge: place for place, edge in enumerate(tree.edges)}
    page = {
        "controls": f"[{CONTROLS}]",
        "steps": [places[step.edge] for step in tree.spanning_tree],
        "unlisted": [tree.unlisted.get(node.id, 0) for node in tree.nodes],
    }
    # Without `<`, no title or id can end the element that contains the JSON.
    return json.dumps(tree.to_dict() | {"page": page}, separators=(",", ":")).replace("<", "\\u003c")


def _lines(tree: WalkTree) -> Iterator[tuple[int, str]]:
    """Yield the depth and the HTML of each line of the list, depth-first."""
    outline = Outline.from_tree(tree)
    # A stack instead of recursion: a walk may be deeper than Python's stack. What is pushed last is printed first.
    stack: list[tuple[int, NodeId | None, str]] = [
        (0, id, _node_html(outline.nodes[id])) for id in reversed(tree.roots)
    ]
    while stack:
        depth, id, line = stack.pop()
        yield depth, line
        if id is None:
            continue
        if more := tree.unlisted.get(id, 0):
            stack.append((depth + 1, None, f"… {more:,} more, left out"))
        for edge in reversed(outline.edges_of.get(id, ())):
            is_tree_edge = outline.is_tree_edge(edge)
            line = _edge_html(edge, outline.nodes[edge.target], depth + 1, seen=not is_tree_edge)
            stack.append((depth + 1, edge.target if is_tree_edge else None, line))


def _edge_html(edge: OutlineEdge, node: NodeView, depth: int, *, seen: bool) -> str:
    hop = f"hop {depth:,}: " if depth > _DEEPEST else ""
    arrow = "→" if edge.edge.source == edge.source else "←"
    step = f'{hop}{arrow} <span class="type">{_bdi(edge.type)}</span> '
    return f'<span class="seen">{step}{_name_html(node)} (seen)</span>' if seen else step + _node_html(node)


def _node_html(node: NodeView) -> str:
    path = [node.path] if node.path and node.path != node.id else []
    return " ".join([_name_html(node), *map(_bdi, [*(f"#{tag}" for tag in node.tags), *path])])


def _name_html(node: NodeView) -> str:
    id = f"<code>{_bdi(id_text(node.id))}</code>"
    return f"{_bdi(node.title)} {id}" if node.title else id


def _nest_lists(lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the HTML of nested lists, and close each element."""
    current = -1
    for depth, line in lines:
        level = min(depth, _DEEPEST)
        if level > current:
            yield f"<ul><li>{line}"
        else:
            yield f"</li>{'</ul></li>' * (current - level)}<li>{line}"
        current = level
    yield "</li></ul>" * (current + 1)


def _hops(max_hops: int | None) -> str:
    return "any number of hops" if max_hops is None else f"at most {_count(max_hops, 'hop')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _bdi(text: str) -> str:
    """Isolate the text direction of a title or id from the text around it."""
    return f"<bdi>{_escape(text)}</bdi>"


def _escape(text: str) -> str:
    """Escape text for HTML, and make control characters visible."""
    return escape(escape_controls(text))
