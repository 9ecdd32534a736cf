"""A walk along links, or a path, as one page for a browser: it needs no network and runs no script but its own."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from itertools import pairwise
from string import Template

from airw.links import INVERSES, Inverses, LinkPath
from airw.values import Direction, NodeId
from airw.views.model import NodeView, TreeLink, WalkTree, counted, id_text, one_line
from airw.views.reading import Met, Outline
from airw.views.text import left_out_text

_WAYS: Mapping[Direction, str] = {"out": "along links", "in": "against links", "both": "links both ways"}
_DEEPEST = 30  # lists nested deeper would leave the window, and browsers stop nesting at 512 elements
_LONGEST = 200  # characters of a heading
_POLICY = "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"

_FIRST = """{ // where a script fails, the list is shown, as without any
const page = document.documentElement.classList;
page.add("drawn");
addEventListener("error", () => page.remove("drawn"));
}"""


def tree_page(tree: WalkTree, *, title: str | None = None) -> str:
    """Write a walk along links as one HTML page: a drawing to explore, and the same as a nested list.

    The page is complete in itself: a content security policy forbids everything but its own script and style, so that
    nothing is loaded or sent, and titles and ids are shown as the text they are. At most 2,000 artifacts are drawn at
    once, which the page then says; the list has them all. Without scripts, in print and for screen readers there is
    the list. The walk is in it as JSON, in the element with the id `walk`.

    Args:
        tree: The walk.
        title: The heading; left out, it names the roots.

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
    facts = [f"From {_bdi(', '.join(map(id_text, tree.roots)))}", _WAYS[tree.direction], _hops(tree.max_hops)]
    facts += [_count(len(tree.nodes), "artifact"), _count(len(tree.edges), "link")]
    return _page(tree, title or f"Links of {roots}", facts)


def path_page(
    path: LinkPath, nodes: Sequence[NodeView] = (), *, title: str | None = None, inverses: Inverses | None = INVERSES
) -> str:
    """Write a path as one HTML page, like that of a walk; where none was found, it shows both ends and says so.

    Args:
        path: What the search for a path found.
        nodes: What is told of the artifacts on it, in any order; of one that is missing the id is told.
        title: The heading; left out, it names both ends.
        inverses: What an edge is called in the list where the path goes against it; `None` for its own type.

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
    told = [views.get(id) or NodeView(id) for id in ids]
    steps = [
        TreeLink(source, target, hop, edge.type if inverses is None else inverses.named(edge, source), edge)
        for hop, ((source, target), edge) in enumerate(zip(pairwise(path.nodes), path.edges, strict=True), 1)
    ]
    tree = WalkTree(
        roots=ids[:1] if path.found else ids,
        direction=path.direction,
        max_hops=path.max_hops,
        nodes=told,
        edges=path.edges,
        spanning_tree=steps,
        left_out=path.left_out,
        at_least=path.at_least,
    )
    ends = f"{told[0].title or id_text(path.start)} to {told[-1].title or id_text(path.end)}"
    return _page(tree, title or f"Path from {ends}", _path_facts(path))


def _path_facts(path: LinkPath) -> list[str]:
    hops = len(path.nodes) - 1
    cost = "" if path.cost in {None, hops} else f", cost {path.cost:g}"
    found = f"{_count(hops, 'hop')}{cost}" if path.found else "no path found"
    ends = f"From {_bdi(id_text(path.start))} to {_bdi(id_text(path.end))}"
    return [ends, _WAYS[path.direction], _hops(path.max_hops), found, f"{_count(path.visited, 'artifact')} reached"]


def _page(tree: WalkTree, title: str, facts: Sequence[str]) -> str:
    parts = _parts()
    unknown = [*tree.unknown, *(["timeout"] * tree.timed_out)]
    left_out = left_out_text(counted(tree.left_out, tree.at_least, unknown))
    policy = _POLICY.format(script=f"{_hash(_FIRST)} {_hash(parts['script'])}", style=_hash(parts["css"]))
    return Template(parts["html"]).substitute(
        policy=policy,
        css=parts["css"],
        first=_FIRST,
        script=parts["script"],
        title=_escaped(_cut(title)),
        facts=" · ".join(facts),
        mark=' class="cut"' if tree.truncated else "",
        left_out=_escaped(left_out or "nothing left out"),
        list="\n".join(_nested(_lines(tree))),
        data=_data(tree),
    )


@cache
def _parts() -> Mapping[str, str]:
    """Read what every page is made of from beside this module."""
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
    """Write the walk as JSON that cannot end the element it is in, with what a drawing needs besides."""
    places = {edge: place for place, edge in enumerate(tree.edges)}
    page = {
        "steps": [places[step.edge] for step in tree.spanning_tree],
        "unlisted": [tree.unlisted.get(node.id, 0) for node in tree.nodes],
    }
    return json.dumps(tree.to_dict() | {"page": page}, separators=(",", ":")).replace("<", "\\u003c")


def _lines(tree: WalkTree) -> Iterator[tuple[int, str]]:
    """Give the depth and the text of each line of the list, below an artifact what was found there."""
    outline = Outline.of(tree)
    waiting: list[tuple[int, NodeId | None, str]] = [(0, id, _told(outline.nodes[id])) for id in reversed(tree.roots)]
    while waiting:
        depth, id, line = waiting.pop()
        yield depth, line
        if id is None:
            continue
        if more := tree.unlisted.get(id, 0):
            waiting.append((depth + 1, None, f"… {more:,} more, left out"))
        for met in reversed(outline.found.get(id, ())):
            is_way = outline.is_way(met)
            line = _found(met, outline.nodes[met.target], depth + 1, seen=not is_way)
            waiting.append((depth + 1, met.target if is_way else None, line))


def _found(met: Met, node: NodeView, depth: int, *, seen: bool) -> str:
    hop = f"hop {depth:,}: " if depth > _DEEPEST else ""
    arrow = "→" if met.edge.source == met.source else "←"
    how = f'{hop}{arrow} <span class="type">{_bdi(met.type)}</span> '
    return f'<span class="seen">{how}{_named(node)} (seen)</span>' if seen else how + _told(node)


def _told(node: NodeView) -> str:
    path = [node.path] if node.path and node.path != node.id else []
    return " ".join([_named(node), *map(_bdi, [*(f"#{tag}" for tag in node.tags), *path])])


def _named(node: NodeView) -> str:
    id = f"<code>{_bdi(id_text(node.id))}</code>"
    return f"{_bdi(node.title)} {id}" if node.title else id


def _nested(lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Write lines as lists in lists, with each element closed."""
    at = -1
    for depth, line in lines:
        level = min(depth, _DEEPEST)
        yield "<ul>" * (level > at) + "</li>" * (level <= at) + "</ul></li>" * (at - level) + f"<li>{line}"
        at = level
    yield "</li></ul>" * (at + 1)


def _hops(most: int | None) -> str:
    return "any number of hops" if most is None else f"at most {_count(most, 'hop')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _bdi(text: str) -> str:
    """Keep the direction of a text to itself."""
    return f"<bdi>{_escaped(text)}</bdi>"


def _escaped(text: str) -> str:
    """Escape for HTML; what is no character, or would turn the direction of the rest, is written as Python would."""
    return escape(one_line(text))
