"""A walk along links, or a path, as records: one line for each node or edge.

Records can be cut after any line, so they fit into a budget of characters.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from airw._base.checks import check_count
from airw._base.json import dump_json
from airw._base.messages import CONTROLS
from airw.errors import ArgumentError
from airw.links import LinkPath
from airw.values import Edge, NodeId
from airw.views.model import NodeView, WalkTree, format_counts

_SPECIAL = re.compile(rf'[\s%",|\\{CONTROLS}]')
_NONE = "-"


def tree_records(tree: WalkTree, *, max_chars: int | None = None) -> str:
    """Write a tree of links as records: a header, then artifacts and edges, one line each.

    An edge follows as soon as both its ends are listed, so that a tight budget keeps edges too.

    ```text
    H airw=1 records=1 mode=link.tree root=a.md direction=both max_hops=3 truncated=true left_out=max_hops:2
    N a.md note "Alpha" tags=x,y path=notes/a.md
    N b.md - "" tags=- path=-
    E a.md supports b.md typed
    ```

    Fields are separated by single spaces; `-` means that there is no value. In ids, types, tags and paths, these
    characters are percent-encoded: spaces, commas, quotes, backslashes, `|`, `%` and unprintable ones. For several
    corpora, an id is `source|id`; several roots are separated by commas. Titles are JSON strings. Edges are written as
    stored. `left_out` contains how much each limit left out: `3`, `3+` for at least 3, or `?` if unknown. For
    `max_chars` it counts lines.

    The lines are those of qipu's specification, with five differences:

    - The header begins `H airw=1`. It names no `store`, as a tree can have several corpora: an id then names its own.
    - The header has `left_out` beside `truncated`.
    - There are no `S` lines with summaries: `bundle` is for texts.
    - An edge is listed after the later of its ends, not after the note where it begins.
    - Special characters are percent-encoded, so that every line can be parsed.

    Args:
        tree: The result of `read_tree`.
        max_chars: The maximum length of the result in characters; whole lines are left out, from the end. `None` for
            no limit.

    Returns:
        Lines, each with its newline.

    Raises:
        ArgumentError: If `max_chars` is not a whole number, or is smaller than the header.

    Example:
        >>> from airw.values import Edge
        >>> nodes = [NodeView("a", "Alpha", "note", ("x", "y")), NodeView("b c")]
        >>> tree = WalkTree(["a"], "out", 3, nodes, [Edge("a", "b c", "supports", "typed")], [])
        >>> print(tree_records(tree), end="")
        H airw=1 records=1 mode=link.tree root=a direction=out max_hops=3 truncated=false
        N a note "Alpha" tags=x,y path=-
        N b%20c - "" tags=- path=-
        E a supports b%20c typed
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
    counts = format_counts(tree.left_out, tree.at_least, tree.unknown)
    return _fit_lines(about, counts, list(_lines(tree.nodes, tree.edges)), max_chars)


def path_records(path: LinkPath, nodes: Sequence[NodeView], *, max_chars: int | None = None) -> str:
    """Write a path as records: a header, then its artifacts and stored edges in order.

    Args:
        path: The result of the search for a path.
        nodes: Its artifacts: `await describe(corpus, path.nodes)`.
        max_chars: The maximum length of the result in characters; see `tree_records`.

    Returns:
        Lines, each with its newline, in the format of `tree_records`. The header has the fields `from`, `to`, `found`,
        `length` in hops, and `cost`.

    Raises:
        ArgumentError: If `max_chars` is not a whole number, or is smaller than the header.

    Example:
        >>> path = LinkPath("a", "b", "in", 9, ("a", "b"), (Edge("b", "a", "related"),), 1.0)
        >>> print(path_records(path, [NodeView("a"), NodeView("b")]), end="")
        H airw=1 records=1 mode=link.path from=a to=b direction=in max_hops=9 found=true length=1 cost=1 truncated=false
        N a - "" tags=- path=-
        N b - "" tags=- path=-
        E b related a inline
    """
    about = [
        "mode=link.path",
        f"from={id_token(path.start)} to={id_token(path.end)} direction={path.direction}",
        f"max_hops={_NONE if path.max_hops is None else path.max_hops}",
        f"found={str(path.found).lower()}",
        f"length={len(path.edges) if path.found else _NONE} cost={_NONE if path.cost is None else f'{path.cost:.12g}'}",
    ]
    counts = format_counts(path.left_out, path.at_least, ())
    return _fit_lines(about, counts, list(_lines(nodes, path.edges)), max_chars)


def token(text: str | None) -> str:
    """Return text as one field: percent-encoded, and `-` if there is none.

    Example:
        >>> token("50% of a, b"), token(None), token("-")
        ('50%25%20of%20a%2C%20b', '-', '%2D')
    """
    if not text or text == _NONE:
        return "%2D" if text else _NONE
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in _bytes(match[0])), text)


def _bytes(character: str) -> bytes:
    return character.encode("utf-8", "surrogatepass")


def id_token(id: NodeId) -> str:
    """Return an id as one field; for several corpora, as `source|id`."""
    return token(id) if isinstance(id, str) else "|".join(map(token, id))


def _lines(nodes: Iterable[NodeView], edges: Sequence[Edge]) -> Iterator[str]:
    """Yield a line for each artifact, then its edges to itself and to artifacts before it."""
    waiting: dict[NodeId, list[Edge]] = {}
    for edge in edges:
        for end in dict.fromkeys((edge.source, edge.target)):
            waiting.setdefault(end, []).append(edge)
    listed: set[NodeId] = set()
    for node in nodes:
        listed.add(node.id)
        yield node_line(node)
        yield from (edge_line(edge) for edge in waiting.get(node.id, ()) if {edge.source, edge.target} <= listed)


def node_line(node: NodeView) -> str:
    """Return an artifact as one line."""
    title = dump_json(node.title or "")
    tags = ",".join(map(token, node.tags)) or _NONE
    return f"N {id_token(node.id)} {token(node.type)} {title} tags={tags} path={token(node.path)}"


def edge_line(edge: Edge) -> str:
    """Return a stored edge as one line."""
    weight = "" if edge.weight == 1 else f" weight={edge.weight}"
    return f"E {id_token(edge.source)} {token(edge.type)} {id_token(edge.target)} {token(edge.origin)}{weight}"


def _fit_lines(
    about: Sequence[str], counts: Sequence[tuple[str, str]], lines: Sequence[str], max_chars: int | None
) -> str:
    """Return the header and as many lines as fit into `max_chars`."""

    def write_header(cut: int) -> str:
        rest = sorted([*counts, *([("max_chars", str(cut))] if cut else [])])
        left_out = f" left_out={','.join(f'{name}:{count}' for name, count in rest)}" if rest else ""
        return f"H airw=1 records=1 {' '.join(about)} truncated={str(bool(rest)).lower()}{left_out}"

    count = len(lines)
    if max_chars is not None:
        count = _count_fitting(write_header, lines, check_count("max_chars", max_chars))
    return "".join(f"{line}\n" for line in (write_header(len(lines) - count), *lines[:count]))


def _count_fitting(write_header: Callable[[int], str], lines: Sequence[str], max_chars: int) -> int:
    """Return how many lines fit beside the header, which counts the other lines."""
    # From the most lines down, because leaving out one line more can make the header longer.
    sizes = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for count in range(len(lines), -1, -1):
        if sizes[count] < max_chars and sizes[count] + len(write_header(len(lines) - count)) + 1 <= max_chars:
            return count
    least = min(len(write_header(len(lines))) + 1, len(write_header(0)) + 1 + sizes[-1])
    raise ArgumentError(f"max_chars must be at least {least}, the length of the header, not {max_chars}")
