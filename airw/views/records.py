"""A walk along links, or a path, as records: one line a fact, made to be cut to a budget of characters."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from airw._base.checks import check_count
from airw.errors import ArgumentError
from airw.links import LinkPath
from airw.values import Edge, NodeId
from airw.views.model import NodeView, WalkTree, counted

_SPECIAL = re.compile('[\\s%",|\\\\\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_HIDDEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NONE = "-"


def tree_records(tree: WalkTree, *, max_chars: int | None = None) -> str:
    """Write a tree of links as records: a header, then each artifact, and each edge once both its ends are listed.

    ```text
    H airw=1 records=1 mode=link.tree root=a.md direction=both max_hops=3 truncated=true left_out=max_hops:2
    N a.md note "Alpha" tags=x,y path=notes/a.md
    N b.md - "" tags=- path=-
    E a.md b.md supports typed
    ```

    Fields are divided by single spaces, and `-` stands for none. In ids, types, tags and paths spaces, commas, quotes,
    backslashes, `|`, `%` and what cannot be printed are percent-encoded; an id of several corpora is `source|id`, and
    several roots are divided by commas. Titles are JSON strings. Edges are as they are stored. `left_out` says for each
    limit how much it left out, `3+` for at least 3 and `?` where nobody looked; `max_chars` counts lines.

    Args:
        tree: What `read_tree` gives.
        max_chars: Characters of the answer, at most; lines are left out whole, from the end. `None` for no bound.

    Returns:
        Lines, each with its newline.

    Raises:
        ArgumentError: `max_chars` is no whole number, or less than the header takes.

    Example:
        >>> from airw.values import Edge
        >>> nodes = [NodeView("a", "Alpha", "note", ("x", "y")), NodeView("b c")]
        >>> tree = WalkTree(["a"], "out", 3, nodes, [Edge("a", "b c", "supports", "typed")], [])
        >>> print(tree_records(tree), end="")
        H airw=1 records=1 mode=link.tree root=a direction=out max_hops=3 truncated=false
        N a note "Alpha" tags=x,y path=-
        N b%20c - "" tags=- path=-
        E a b%20c supports typed
        >>> print(tree_records(tree, max_chars=140), end="")
        H airw=1 records=1 mode=link.tree root=a direction=out max_hops=3 truncated=true left_out=max_chars:2
        N a note "Alpha" tags=x,y path=-
    """
    about = [
        "mode=link.tree",
        f"root={','.join(map(id_token, tree.roots)) or _NONE}",
        f"direction={tree.direction}",
        f"max_hops={_NONE if tree.max_hops is None else tree.max_hops}",
    ]
    counts = counted(tree.left_out, tree.at_least, tree.unknown)
    return _written(about, counts, list(_lines(tree.nodes, tree.edges)), max_chars)


def path_records(path: LinkPath, nodes: Sequence[NodeView], *, max_chars: int | None = None) -> str:
    """Write a path as records: a header, then its artifacts and between them its edges, as stored.

    Args:
        path: What the search for it gave.
        nodes: What is told of its artifacts: `await describe(corpus, path.nodes)`.
        max_chars: Characters of the answer, at most; see `tree_records`.

    Returns:
        Lines, each with its newline, in the form of `tree_records`; the header says `from`, `to`, whether a path was
        `found`, its `length` in hops and its `cost`.

    Raises:
        ArgumentError: `max_chars` is no whole number, or less than the header takes.

    Example:
        >>> path = LinkPath("a", "b", "in", 9, ("a", "b"), (Edge("b", "a", "related"),), 1.0)
        >>> print(path_records(path, [NodeView("a"), NodeView("b")]), end="")
        H airw=1 records=1 mode=link.path from=a to=b direction=in max_hops=9 found=true length=1 cost=1 truncated=false
        N a - "" tags=- path=-
        N b - "" tags=- path=-
        E b a related inline
    """
    about = [
        "mode=link.path",
        f"from={id_token(path.start)} to={id_token(path.end)} direction={path.direction}",
        f"max_hops={_NONE if path.max_hops is None else path.max_hops}",
        f"found={str(path.found).lower()}",
        f"length={len(path.edges) if path.found else _NONE} cost={_NONE if path.cost is None else f'{path.cost:.12g}'}",
    ]
    counts = counted(path.left_out, path.at_least, ())
    return _written(about, counts, list(_lines(nodes, path.edges)), max_chars)


def token(text: str | None) -> str:
    """Write text without a space in it; `-` for none.

    Example:
        >>> token("50% of a, b"), token(None), token("-")
        ('50%25%20of%20a%2C%20b', '-', '%2D')
    """
    if not text or text == _NONE:
        return "%2D" if text else _NONE
    return _SPECIAL.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), text)


def _bytes(character: str) -> bytes:
    return character.encode("utf-8", "surrogatepass")


def id_token(id: NodeId) -> str:
    """Write an id so; of several corpora as `source|id`."""
    return token(id) if isinstance(id, str) else "|".join(map(token, id))


def _lines(nodes: Iterable[NodeView], edges: Sequence[Edge]) -> Iterator[str]:
    """Give the artifacts, and behind each the edges to it and to those before it."""
    waiting: dict[NodeId, list[Edge]] = {}
    for edge in edges:
        for end in {edge.source: None, edge.target: None}:
            waiting.setdefault(end, []).append(edge)
    listed: set[NodeId] = set()
    for node in nodes:
        listed.add(node.id)
        yield node_line(node)
        yield from (edge_line(edge) for edge in waiting.get(node.id, ()) if {edge.source, edge.target} <= listed)


def node_line(node: NodeView) -> str:
    """Write what is told of an artifact as one line."""
    title = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(node.title or "", ensure_ascii=False))
    tags = ",".join(map(token, node.tags)) or _NONE
    return f"N {id_token(node.id)} {token(node.type)} {title} tags={tags} path={token(node.path)}"


def edge_line(edge: Edge) -> str:
    """Write an edge, as it is stored, as one line."""
    return f"E {id_token(edge.source)} {id_token(edge.target)} {token(edge.type)} {token(edge.origin)}"


def _written(
    about: Sequence[str], counts: Sequence[tuple[str, str]], lines: Sequence[str], max_chars: int | None
) -> str:
    """Put a header before as many lines as there is room for."""

    def header(cut: int) -> str:
        rest = sorted([*counts, *([("max_chars", str(cut))] if cut else [])])
        left_out = f" left_out={','.join(f'{name}:{count}' for name, count in rest)}" if rest else ""
        return f"H airw=1 records=1 {' '.join(about)} truncated={str(bool(rest)).lower()}{left_out}"

    kept = len(lines) if max_chars is None else _room(header, lines, check_count("max_chars", max_chars))
    return "".join(f"{line}\n" for line in (header(len(lines) - kept), *lines[:kept]))


def _room(header: Callable[[int], str], lines: Sequence[str], max_chars: int) -> int:
    """Count the lines that fit, the header with what it says of the others included."""
    sizes = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for kept in range(len(lines), -1, -1):
        if sizes[kept] < max_chars and sizes[kept] + len(header(len(lines) - kept)) + 1 <= max_chars:
            return kept
    least = min(len(header(len(lines))) + 1, len(header(0)) + 1 + sizes[-1])
    raise ArgumentError(f"max_chars must be at least {least}, which the header takes, not {max_chars}")
