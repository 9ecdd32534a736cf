"""A walk along links, or a path, as text: one line for each artifact or reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airw._base.messages import escape_controls
from airw.links import INVERSES, Inverses
from airw.values import NodeId
from airw.views.model import NodeView, WalkTree, format_counts, id_text
from airw.views.reading import Outline, OutlineEdge, limits_of
from airw.walking import WalkEnded, WalkEvent

_BRANCH, _LAST_BRANCH = "├─ ", "└─ "
_INDENT, _LAST_INDENT = "│  ", "   "
_MAX_INDENT = 300  # characters: the length of a text grows with the square of the depth of a chain


def tree_text(tree: WalkTree) -> str:
    """Write a tree of links for people to read.

    Each root has a line of its own, `id  Title`. The edges met at an artifact are indented below it, in the order of
    the walk. Each shows an arrow (`→` along the edge, `←` against it), the type in that direction, id and title. An
    edge to an artifact that is printed elsewhere ends with `(seen)` and is not expanded. `… 2 more` counts neighbours
    that were left out. If anything was left out, the last line names the limits and how much each left out. After 100
    levels, the indentation begins again with the number of hops in brackets.

    Args:
        tree: The result of `read_tree`.

    Returns:
        Lines separated by newlines, without one at the end. Unprintable characters are written as Python escapes, so an
        artifact never takes more than one line.

    Example:
        >>> from airw.values import Edge
        >>> from airw.views.model import TreeLink
        >>> nodes = [NodeView("a", "Alpha"), NodeView("b"), NodeView("c")]
        >>> ab, cb, ac = Edge("a", "b", "supports"), Edge("c", "b", "supports"), Edge("c", "a", "related")
        >>> links = [TreeLink("a", "b", 1, "supports", ab), TreeLink("b", "c", 2, "supported-by", cb)]
        >>> seen = [TreeLink("c", "a", 0, "related", ac)]
        >>> print(tree_text(WalkTree(["a"], "both", 2, nodes, [ab, cb, ac], links, seen, left_out={"max_hops": 3})))
        a  Alpha
        └─ → supports  b
           └─ ← supported-by  c
              └─ → related  a  Alpha (seen)
        left out: max_hops 3
    """
    lines = _TreePrinter(Outline.from_tree(tree), tree.unlisted).advance()
    rest = limits_text(format_counts(tree.left_out, tree.at_least, tree.unknown))
    return "\n".join([*lines, rest] if rest else lines)


class TreeTextWriter:
    """A writer of the lines of `tree_text` while the walk runs.

    A line is written as soon as no other line can come before it. A root is written when it is committed. An edge is
    written when its step is done, its target is committed, and all lines above it are written. The other lines, and the
    line about limits, follow at the end of the walk.

    Args:
        inverses: The names of edge types against their direction; `None` for the stored type.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import MarkdownLinks
        >>> from airw.views.links import walk_links
        >>> notes = {"a.md": "See [[b]].", "b.md": "See [[c]] and [[a]].", "c.md": "A leaf."}
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         lines = TreeTextWriter()
        ...         async for event in walk_links(corpus, ["a.md"], max_hops=1).events():
        ...             for line in lines.add(event):
        ...                 print(line)
        >>> anyio.run(main)
        a.md
        ├─ → related  b.md
        └─ ← related  b.md (seen)
        left out: max_hops 1
    """

    def __init__(self, *, inverses: Inverses | None = INVERSES) -> None:
        self._outline = Outline(inverses)
        self._unlisted: dict[NodeId, int] = {}
        self._cursor = _TreePrinter(self._outline, self._unlisted)

    def add(self, event: WalkEvent) -> list[str]:
        """Add the next event of the walk; return the lines that are final now, without newlines.

        Raises:
            ArgumentError: If the walk does not report its edges.
        """
        self._outline.add(event)
        # Until the end, an uncommitted neighbour may still be committed, so nothing can be counted as left out.
        if not isinstance(event, WalkEnded):
            return self._cursor.advance()
        self._unlisted.update(self._outline.count_unlisted())
        self._outline.drop_unlisted()
        rest = limits_text(format_counts(*limits_of(event.summary)))
        return [*self._cursor.advance(), *([rest] if rest else [])]


@dataclass(slots=True)
class _Frame:
    """An artifact whose subtree is being written, and how many of its edges are written."""

    id: NodeId
    indent: str
    written: int = 0


class _TreePrinter:
    """A printer of an outline in depth-first order that stops before a line that is not final.

    The walk runs breadth-first, but the text is depth-first. `_stack` keeps the place between two calls. `unlisted` is
    empty until the walk has ended.
    """

    def __init__(self, outline: Outline, unlisted: Mapping[NodeId, int]) -> None:
        self._outline, self._unlisted = outline, unlisted
        self._stack: list[_Frame] = []
        self._roots = 0

    def advance(self) -> list[str]:
        """Return the next lines that are final."""
        lines: list[str] = []
        outline = self._outline
        while self._stack or self._roots < len(outline.roots):
            if not self._stack:
                self._print_root(outline.roots[self._roots], lines)
            elif not self._print_next(self._stack[-1], lines):
                break
        return lines

    def _print_root(self, root: NodeId, lines: list[str]) -> None:
        self._roots += 1
        lines.append(node_text(self._outline.nodes[root]))
        self._stack.append(_Frame(root, ""))

    def _print_next(self, frame: _Frame, lines: list[str]) -> bool:
        """Print the next line below an artifact, or leave it; return False if it is not final."""
        # Before its step is done, an artifact may get more edges, so its last one is not known yet.
        if frame.id not in self._outline.expanded:
            return False
        edges = self._outline.edges_of.get(frame.id, [])
        more = self._unlisted.get(frame.id, 0)
        # All edges are written: go back to the parent.
        if frame.written == len(edges):
            if more:
                lines.append(f"{frame.indent}{_LAST_BRANCH}… {more} more")
            self._stack.pop()
            return True
        # An edge is printed with the title of its target, and only if the target is committed: wait for that.
        edge = edges[frame.written]
        if edge.target not in self._outline.nodes:
            return False
        frame.written += 1
        is_last = frame.written == len(edges) and not more
        lines.append(self._edge_line(edge, frame.indent, _LAST_BRANCH if is_last else _BRANCH))
        # The subtree of the target follows below the edge that reached it; all other edges are references.
        if self._outline.is_tree_edge(edge):
            indent = frame.indent + (_LAST_INDENT if is_last else _INDENT)
            if len(indent) >= _MAX_INDENT:
                indent = f"[{len(self._stack) + 1}] "  # the hops from the root to the next line
            self._stack.append(_Frame(edge.target, indent))
        return True

    def _edge_line(self, edge: OutlineEdge, indent: str, branch: str) -> str:
        step = step_text(self._outline.nodes[edge.target], edge.type, against=edge.edge.source != edge.source)
        return f"{indent}{branch}{step}{'' if self._outline.is_tree_edge(edge) else ' (seen)'}"


def node_text(node: NodeView) -> str:
    """Return an artifact on one line: its id, and its title if it has one."""
    return id_text(node.id) if node.title is None else f"{id_text(node.id)}  {escape_controls(node.title)}"


def step_text(node: NodeView, type: str, *, against: bool) -> str:
    """Return a step on one line: an arrow, the type of the edge, and the artifact it leads to."""
    return f"{'←' if against else '→'} {escape_controls(type)}  {node_text(node)}"


def limits_text(counts: Sequence[tuple[str, str]]) -> str:
    """Return how much the limits left out, on one line; `""` if nothing."""
    limits = [f"{name} {_count_text(count)}" for name, count in counts]
    return f"left out: {', '.join(limits)}" if limits else ""


def _count_text(count: str) -> str:
    if count == "?":
        return "unknown"
    return f"at least {count[:-1]}" if count.endswith("+") else count
