"""A walk along links read as a tree: what it has told so far, and the whole of it."""

from contextlib import aclosing
from types import EllipsisType
from typing import Any, NamedTuple

from airw._base.checks import check_choice, check_count
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.values import DIRECTIONS, Direction, Edge, NodeId
from airw.views.model import NodeView, TreeLink, WalkTree, node_view
from airw.walking import EdgeFound, NodeCommitted, StepDone, Walk, WalkEnded, WalkEvent, WalkSummary

LIMIT_NAMES = {"max_depth": "max_hops", "node_budget": "max_nodes"}


def limit_names(summary: WalkSummary | None) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """Give what a walk left out, the limits where that is a lower bound, and those behind which nobody looked.

    Limits have the names that people give them: `max_hops` for `max_depth`, `max_nodes` for `node_budget`. A deadline
    that ended the walk is one more limit, `timeout`, and so is `closed` where the walk has not ended by itself.
    """
    if summary is None:
        return {}, (), ("closed",)
    left_out = {LIMIT_NAMES.get(name, name): count for name, count in summary.left_out.items()}
    at_least = {LIMIT_NAMES.get(name, name) for name in summary.at_least}
    unknown = {LIMIT_NAMES.get(name, name) for name in summary.unknown} | {"timeout"} & {summary.stop}
    return dict(sorted(left_out.items())), tuple(sorted(at_least)), tuple(sorted(unknown))


class Met(NamedTuple):
    """An edge where it was met first: walked from `source`, called `type` there."""

    source: Any
    target: Any
    type: str
    edge: Edge


class Outline:
    """Artifacts and edges in the order of a walk.

    `nodes` are the artifacts committed so far and `hops` their depths; `met` are the stored edges, each where it was
    met first, and `found` the same by where that was; `ways` is the edge that each artifact but the roots was reached
    by; of the artifacts in `told` all edges are known.
    """

    def __init__(self, inverses: Inverses | None) -> None:
        """Start before the first event."""
        self._inverses = inverses
        self.roots: list[Any] = []
        self.nodes: dict[Any, NodeView] = {}
        self.hops: dict[Any, int] = {}
        self.met: dict[Edge, Met] = {}
        self.found: dict[Any, list[Met]] = {}
        self.ways: dict[Any, Edge] = {}
        self.told: set[Any] = set()
        self.summary: WalkSummary | None = None
        self._between: dict[tuple[Any, Any], list[Edge]] = {}
        self._in_step: list[Any] = []

    def add(self, event: WalkEvent) -> None:
        """Take the next event.

        Raises:
            ArgumentError: The walk names no edges, or no way to an artifact.
        """
        match event:
            case NodeCommitted():
                self._commit(event)
            case EdgeFound():
                self._meet(event)
            case StepDone():
                self.told.update(self._in_step)
                self._in_step.clear()
            case WalkEnded():
                self.summary = event.summary
                self.told.update(self._in_step)

    def _commit(self, event: NodeCommitted) -> None:
        id: Any = event.id
        if event.parent is None:
            self.roots.append(id)
        else:
            self.ways[id] = self._way(event)
        self.nodes[id] = node_view(id, event.hit)
        self.hops[id] = event.depth
        self._in_step.append(id)

    def _way(self, event: NodeCommitted) -> Edge:
        """Give the edge an artifact was reached by: of those from its parent the first of the type that its hit says.

        A router says none; the first one then stands for all, whichever of them was cheapest.
        """
        edges = self._between.get((event.parent, event.id), [])
        if not edges:
            raise ArgumentError(
                f"the walk names no edge from {short_repr(event.parent)} to {short_repr(event.id)}; a tree has one"
            )
        type_ = None if event.hit is None else event.hit.metadata.get("walk_edge")
        return next((edge for edge in edges if edge.type == type_), edges[0])

    def _meet(self, event: EdgeFound) -> None:
        edge = event.edge
        if edge is None:
            raise ArgumentError(
                f"the walk names no edge from {short_repr(event.source)} to {short_repr(event.target)}; "
                "walk_links names all"
            )
        if edge in self.met:
            return
        name = edge.type if self._inverses is None else self._inverses.named(edge, event.source)  # type: ignore[arg-type]
        self.met[edge] = met = Met(event.source, event.target, name, edge)
        self.found.setdefault(event.source, []).append(met)
        self._between.setdefault((event.source, event.target), []).append(edge)

    def is_way(self, met: Met) -> bool:
        """Say whether the target was reached by this edge."""
        return self.ways.get(met.target) == met.edge

    def unlisted(self) -> dict[NodeId, int]:
        """Count by artifact those that were found there first and not committed, where there are any."""
        counts: dict[NodeId, int] = {}
        for source, target in self._between:
            if target not in self.nodes:
                counts[source] = counts.get(source, 0) + 1
        return counts

    def drop_unlisted(self) -> None:
        """Forget the edges to artifacts that were not committed."""
        self.found = {id: [each for each in found if each.target in self.nodes] for id, found in self.found.items()}

    @classmethod
    def of(cls, tree: WalkTree) -> "Outline":
        """Give what a walk has told from the tree of it."""
        outline = cls(None)
        outline.roots = list(tree.roots)
        outline.nodes = {node.id: node for node in tree.nodes}
        outline.told = set(outline.nodes)
        outline.ways = {link.target: link.edge for link in tree.spanning_tree}
        links = {link.edge: link for link in (*tree.spanning_tree, *tree.references)}
        for edge in tree.edges:
            link = links[edge]
            outline.found.setdefault(link.source, []).append(Met(link.source, link.target, link.type, edge))
        return outline


class TreeReader:
    """Makes a tree of the events of a walk along links, without I/O.

    Args:
        direction: Which way links are followed.
        max_hops: The cap on hops; `None` for none.
        inverses: What edges are called against their direction; `None` for the type as stored.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> from airw.values import Edge
        >>> from airw.walking import NodeCommitted, EdgeFound
        >>> reader = TreeReader()
        >>> reader.add(NodeCommitted("a", 0, 0.0, None, None))
        >>> reader.add(EdgeFound("a", "b", "supports", False, Edge("b", "a", "supports")))
        >>> reader.add(NodeCommitted("b", 1, -1.0, "a", None))
        >>> [(link.source, link.type, link.target) for link in reader.tree().spanning_tree]
        [('a', 'supported-by', 'b')]
    """

    def __init__(
        self, *, direction: Direction = "both", max_hops: int | None = None, inverses: Inverses | None = INVERSES
    ) -> None:
        self._direction = check_choice("direction", direction, DIRECTIONS)
        self._max_hops = None if max_hops is None else check_count("max_hops", max_hops)
        self._outline = Outline(inverses)

    def add(self, event: WalkEvent) -> None:
        """Take the next event of the walk.

        Raises:
            ArgumentError: The walk does not name its edges.
        """
        self._outline.add(event)

    def tree(self) -> WalkTree:
        """Give the tree of all events so far; before the end of the walk it is truncated: `unknown` names `closed`."""
        outline = self._outline
        listed = [met for met in outline.met.values() if met.target in outline.nodes]
        left_out, at_least, unknown = limit_names(outline.summary)
        ways = {id: outline.met[edge] for id, edge in outline.ways.items()}
        return WalkTree(
            roots=tuple(outline.roots),
            direction=self._direction,
            max_hops=self._max_hops,
            nodes=tuple(outline.nodes.values()),
            edges=tuple(met.edge for met in listed),
            spanning_tree=tuple(map(self._link, ways.values())),
            references=tuple(self._link(met) for met in listed if not outline.is_way(met)),
            unlisted=outline.unlisted(),
            left_out=left_out,
            at_least=at_least,
            unknown=unknown,
            timed_out=outline.summary is not None and outline.summary.stop == "timeout",
        )

    def _link(self, met: Met) -> TreeLink:
        return TreeLink(met.source, met.target, self._outline.hops[met.target], met.type, met.edge)


async def read_tree(
    walk: Walk,
    *,
    direction: Direction | None = None,
    max_hops: int | EllipsisType | None = ...,
    inverses: Inverses | None = INVERSES,
) -> WalkTree:
    """Read a walk along links to its end and give it as a tree.

    Args:
        walk: What `walk_links` returns, or any walk whose policy names edges, before its first hit.
        direction: Which way it follows links; left out, what its policy says, else `"both"`.
        max_hops: Its cap on hops, `None` for none; left out, its policy's. To be said where `traverse` was given
            another one.
        inverses: What edges are called against their direction; `None` for the type as stored. Those of the walk,
            where it chooses edges by them.

    Raises:
        ArgumentError: It is no walk, or names no edges.
        RuntimeError: The walk is being read already.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import MarkdownLinks
        >>> from airw.views.links import walk_links
        >>> notes = {"a.md": "See [[b]] and [[c]].", "b.md": "See [[c]].", "c.md": "A leaf."}
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return await read_tree(walk_links(corpus, ["a.md"]))
        >>> tree = anyio.run(main)
        >>> [(link.source, link.target, link.hop) for link in tree.spanning_tree], tree.truncated
        ([('a.md', 'b.md', 1), ('a.md', 'c.md', 1)], False)
        >>> [(link.source, link.target) for link in tree.references]
        [('b.md', 'c.md')]
    """
    if not isinstance(walk, Walk):
        raise ArgumentError(f"read_tree takes what walk_links returns, not {short_repr(walk)}")
    reader = TreeReader(
        direction=getattr(walk.policy, "direction", "both") if direction is None else direction,
        max_hops=walk.policy.max_depth if max_hops is ... else max_hops,
        inverses=inverses,
    )
    async with aclosing(walk.events()) as events:
        async for event in events:
            reader.add(event)
    return await in_thread(reader.tree)
