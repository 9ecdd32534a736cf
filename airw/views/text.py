"""A walk along links, or a path, as text: indented, with branches, one line an artifact or reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airw.links import INVERSES, Inverses
from airw.values import NodeId
from airw.views.model import NodeView, WalkTree, counted, id_text, one_line
from airw.views.reading import Met, Outline, limit_names
from airw.walking import WalkEnded, WalkEvent

_MORE, _LAST, _OPEN, _SHUT = "├─ ", "└─ ", "│  ", "   "


def tree_text(tree: WalkTree) -> str:
    """Write a tree of links for people to read.

    Each root stands on a line of its own, `id  Title`, and what was found at an artifact is indented below it, in the
    order of the walk: an arrow (`→` along the edge, `←` against it), what the edge is called in that direction, id and
    title. An edge to an artifact that stands elsewhere ends with `(seen)` and is not expanded; `… 2 more` counts what
    was found there and left out. Where anything was left out, the last line says by which limits, and how much.

    Args:
        tree: What `read_tree` gives.

    Returns:
        Lines divided by newlines, none at the end. What cannot be printed is written as Python would, so that an
        artifact never takes more than its line.

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
    lines = _Cursor(Outline.of(tree), tree.unlisted).advance()
    rest = left_out_text(counted(tree.left_out, tree.at_least, tree.unknown))
    return "\n".join([*lines, rest] if rest else lines)


class TreeTextWriter:
    """Writes the lines of `tree_text` while a walk along links goes on, each once nothing can come before it any more.

    A root is written when it is committed; below it an edge, when the step that found it is done and its target is
    committed, after all that stands above it. The rest, and what was left out, follow at the end of the walk.

    Args:
        inverses: What edges are called against their direction; `None` for the type as stored.

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
        self._cursor = _Cursor(self._outline, self._unlisted)

    def add(self, event: WalkEvent) -> list[str]:
        """Take the next event of the walk and give the lines that are final by now, without newlines.

        Raises:
            ArgumentError: The walk does not name its edges.
        """
        self._outline.add(event)
        if not isinstance(event, WalkEnded):
            return self._cursor.advance()
        self._unlisted.update(self._outline.unlisted())
        self._outline.drop_unlisted()
        rest = left_out_text(counted(*limit_names(event.summary)))
        return [*self._cursor.advance(), *([rest] if rest else [])]


@dataclass(slots=True)
class _Frame:
    """An artifact whose subtree is being written: its indentation, and how many of its edges are done."""

    id: NodeId
    indent: str
    done: int = 0


class _Cursor:
    """Writes an outline from the top, as far as it is known; `unlisted` is known at the end."""

    def __init__(self, outline: Outline, unlisted: Mapping[NodeId, int]) -> None:
        self._outline, self._unlisted = outline, unlisted
        self._stack: list[_Frame] = []
        self._roots = 0

    def advance(self) -> list[str]:
        """Give the next lines that nothing can change any more."""
        lines: list[str] = []
        outline = self._outline
        while self._stack or self._roots < len(outline.roots):
            if not self._stack:
                self._begin(outline.roots[self._roots], lines)
            elif not self._go_on(self._stack[-1], lines):
                break
        return lines

    def _begin(self, root: NodeId, lines: list[str]) -> None:
        self._roots += 1
        lines.append(node_text(self._outline.nodes[root]))
        self._stack.append(_Frame(root, ""))

    def _go_on(self, frame: _Frame, lines: list[str]) -> bool:
        """Write the next line below an artifact, or leave it; false where that is not known yet."""
        if frame.id not in self._outline.told:
            return False
        found = self._outline.found.get(frame.id, [])
        more = self._unlisted.get(frame.id, 0)
        if frame.done == len(found):
            if more:
                lines.append(f"{frame.indent}{_LAST}… {more} more")
            self._stack.pop()
            return True
        met = found[frame.done]
        if met.target not in self._outline.nodes:
            return False
        frame.done += 1
        is_last = frame.done == len(found) and not more
        lines.append(self._step(met, frame.indent, _LAST if is_last else _MORE))
        if self._outline.is_way(met):
            self._stack.append(_Frame(met.target, frame.indent + (_SHUT if is_last else _OPEN)))
        return True

    def _step(self, met: Met, indent: str, branch: str) -> str:
        step = step_text(self._outline.nodes[met.target], met.type, against=met.edge.source != met.source)
        return f"{indent}{branch}{step}{'' if self._outline.is_way(met) else ' (seen)'}"


def node_text(node: NodeView) -> str:
    """Give an artifact as one line: its id, and its title where it has one."""
    return id_text(node.id) if node.title is None else f"{id_text(node.id)}  {one_line(node.title)}"


def step_text(node: NodeView, type: str, *, against: bool) -> str:
    """Give a step to an artifact as one line: an arrow, what the edge is called, and the artifact."""
    return f"{'←' if against else '→'} {one_line(type)}  {node_text(node)}"


def left_out_text(counts: Sequence[tuple[str, str]]) -> str:
    """Give what was left out as one line; `""` where nothing was."""
    said = [f"{name} {'unknown' if n == '?' else f'at least {n[:-1]}' if n[-1] == '+' else n}" for name, n in counts]
    return f"left out: {', '.join(said)}" if said else ""
