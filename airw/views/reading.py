"""Turns the events of a walk along links into a tree."""

from contextlib import aclosing
from types import EllipsisType
from typing import Any, NamedTuple

from airw._base.checks import check_choice, check_count, check_kind
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.values import DIRECTIONS, Direction, Edge, NodeId
from airw.values.hits import get_fact
from airw.views.model import NodeView, TreeLink, WalkTree, node_view
from airw.walking import EdgeFound, NodeCommitted, StepDone, Walk, WalkEnded, WalkEvent, WalkSummary

VIEW_LIMIT_NAMES = {"max_depth": "max_hops", "node_budget": "max_nodes"}
"""Names of the limits of a walk in views, if they differ."""


def limits_of(summary: WalkSummary | None) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """Return how much the limits of a walk left out.

    Limits have the names of `VIEW_LIMIT_NAMES`. The unknown limits include `timeout` if a deadline ended the walk, and
    `corpora` if the walk lost one of several. They are `("closed",)` if `summary` is `None`: the walk has not reached
    its end.

    Returns:
        Three values: how many items each limit left out, the limits whose count is a lower bound, and the limits whose
        count is unknown.
    """
    if summary is None:
        return {}, (), ("closed",)
    left_out = {VIEW_LIMIT_NAMES.get(name, name): count for name, count in summary.left_out.items()}
    at_least = {VIEW_LIMIT_NAMES.get(name, name) for name in summary.at_least}
    unknown = {VIEW_LIMIT_NAMES.get(name, name) for name in summary.unknown} | {"timeout"} & {summary.stop}
    unknown |= {"corpora"} if summary.lost else set()
    return dict(sorted(left_out.items())), tuple(sorted(at_least)), tuple(sorted(unknown))


class OutlineEdge(NamedTuple):
    """A stored edge as the walk first met it.

    `type` is its name when followed from `source`, perhaps that of the inverse.
    """

    source: Any
    target: Any
    type: str
    edge: Edge


class Outline:
    """The artifacts and edges of a walk so far, in the order of the walk.

    A walk reports artifacts when it commits them and edges when it meets them. A tree needs to know which edge reached
    each artifact, and which edges lead to an artifact that another edge reached. The outline keeps this without
    recursion, event by event.

    Attributes:
        roots: The ids of the roots.
        nodes: The committed artifacts, by id.
        hops: Their depths.
        edges: Each stored edge, as it was first met.
        edges_of: The same edges, by the artifact at which they were met.
        tree_edges: For each artifact except the roots, the edge that reached it.
        expanded: The artifacts whose edges are all known.
        summary: The summary of the walk, once it has ended.
    """

    def __init__(self, inverses: Inverses | None) -> None:
        """Begin without events."""
        self._inverses = inverses
        self.roots: list[Any] = []
        self.nodes: dict[Any, NodeView] = {}
        self.hops: dict[Any, int] = {}
        self.edges: dict[Edge, OutlineEdge] = {}
        self.edges_of: dict[Any, list[OutlineEdge]] = {}
        self.tree_edges: dict[Any, OutlineEdge] = {}
        self.expanded: set[Any] = set()
        self.summary: WalkSummary | None = None
        self._edges_by_ends: dict[tuple[Any, Any], list[OutlineEdge]] = {}
        self._step_nodes: list[Any] = []

    def add(self, event: WalkEvent) -> None:
        """Add the next event.

        Raises:
            ArgumentError: If an event has no edge, or an artifact is committed before an edge to it was reported.
        """
        match event:
            case NodeCommitted():
                self._add_node(event)
            case EdgeFound():
                self._add_edge(event)
            case StepDone():
                # A step commits artifacts first and then meets their edges. At its end, these edges are complete.
                self.expanded.update(self._step_nodes)
                self._step_nodes.clear()
            case WalkEnded():
                # The last step may be cut short by a limit; no more edges will come.
                self.summary = event.summary
                self.expanded.update(self._step_nodes)

    def _add_node(self, event: NodeCommitted) -> None:
        id: Any = event.id
        if event.parent is None:
            self.roots.append(id)
        else:
            self.tree_edges[id] = self._find_tree_edge(event)
        self.nodes[id] = node_view(id, event.hit)
        self.hops[id] = event.depth
        self._step_nodes.append(id)

    def _find_tree_edge(self, event: NodeCommitted) -> OutlineEdge:
        """Return the edge from its parent by which an artifact was reached."""
        edges = self._edges_by_ends.get((event.parent, event.id), [])
        if not edges:
            raise ArgumentError(
                f"the walk reports no edge from {short_repr(event.parent)} to {short_repr(event.id)}; a tree needs one"
            )
        if len(edges) == 1:
            return edges[0]
        # Several edges may connect the two. The hit knows the type of the one that was followed; a router has no hit,
        # and then the first edge represents all of them.
        type_ = None if event.hit is None else get_fact(event.hit.metadata, "walk_edge")
        return next((edge for edge in edges if edge.edge.type == type_), edges[0])

    def _add_edge(self, event: EdgeFound) -> None:
        edge = event.edge
        if edge is None:
            raise ArgumentError(
                f"the walk reports no edge from {short_repr(event.source)} to {short_repr(event.target)}; "
                "use walk_links, which reports all edges"
            )
        name = edge.type if self._inverses is None else self._inverses.name_of(edge, event.source)  # type: ignore[arg-type]
        outline_edge = OutlineEdge(event.source, event.target, name, edge)
        # A walk in both directions meets an edge from both ends; a tree shows it where it was met first.
        if self.edges.setdefault(edge, outline_edge) is not outline_edge:
            return
        self.edges_of.setdefault(event.source, []).append(outline_edge)
        self._edges_by_ends.setdefault((event.source, event.target), []).append(outline_edge)

    def is_tree_edge(self, edge: OutlineEdge) -> bool:
        """Return True if the walk reached the target by this edge, so its subtree follows here."""
        return self.tree_edges.get(edge.target) is edge

    def count_unlisted(self) -> dict[NodeId, int]:
        """Return the number of uncommitted neighbours of each artifact; only numbers above 0."""
        counts: dict[NodeId, int] = {}
        for source, target in self._edges_by_ends:
            if target not in self.nodes:
                counts[source] = counts.get(source, 0) + 1
        return counts

    def drop_unlisted(self) -> None:
        """Remove the edges to uncommitted artifacts from `edges_of`; `edges` keeps them."""
        self.edges_of = {
            id: [edge for edge in edges if edge.target in self.nodes] for id, edges in self.edges_of.items()
        }

    @classmethod
    def from_tree(cls, tree: WalkTree) -> "Outline":
        """Return the outline of a finished tree, with only the attributes that printing needs.

        `edges`, `hops` and `summary` stay empty, and `count_unlisted` returns nothing.
        """
        outline = cls(None)
        outline.roots = list(tree.roots)
        outline.nodes = {node.id: node for node in tree.nodes}
        outline.expanded = set(outline.nodes)
        links = {link.edge: link for link in (*tree.spanning_tree, *tree.references)}
        tree_edges = {link.edge for link in tree.spanning_tree}
        # `tree.edges` has the order in which the walk met the edges; the links only add how each was met.
        for edge in tree.edges:
            link = links[edge]
            outline_edge = OutlineEdge(link.source, link.target, link.type, edge)
            outline.edges_of.setdefault(link.source, []).append(outline_edge)
            if edge in tree_edges:
                outline.tree_edges[link.target] = outline_edge
        return outline


class TreeReader:
    """A reader that builds a tree from the events of a walk along links, without I/O.

    Args:
        direction: The direction in which the walk follows links.
        max_hops: The limit of hops; `None` for no limit.
        inverses: The names of edge types against their direction; `None` for the stored type.

    Raises:
        ArgumentError: If a parameter cannot be used.

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
        """Add the next event of the walk.

        Raises:
            ArgumentError: If the walk does not report its edges.
        """
        self._outline.add(event)

    def tree(self) -> WalkTree:
        """Return the tree of all events so far.

        Before the end of the walk, the tree is truncated, and `unknown` contains `closed`.
        """
        outline = self._outline
        # Edges to artifacts that a limit kept out would leave the tree; `unlisted` counts those artifacts instead.
        listed = [edge for edge in outline.edges.values() if edge.target in outline.nodes]
        left_out, at_least, unknown = limits_of(outline.summary)
        return WalkTree(
            roots=tuple(outline.roots),
            direction=self._direction,
            max_hops=self._max_hops,
            nodes=tuple(outline.nodes.values()),
            edges=tuple(edge.edge for edge in listed),
            spanning_tree=tuple(map(self._to_link, outline.tree_edges.values())),
            references=tuple(self._to_link(edge) for edge in listed if not outline.is_tree_edge(edge)),
            unlisted=outline.count_unlisted(),
            left_out=left_out,
            at_least=at_least,
            unknown=unknown,
            timed_out=outline.summary is not None and outline.summary.stop == "timeout",
        )

    def _to_link(self, edge: OutlineEdge) -> TreeLink:
        return TreeLink(edge.source, edge.target, self._outline.hops[edge.target], edge.type, edge.edge)


async def read_tree(
    walk: Walk,
    *,
    direction: Direction | None = None,
    max_hops: int | EllipsisType | None = ...,
    inverses: Inverses | None = INVERSES,
) -> WalkTree:
    """Read a walk along links to its end and return it as a tree.

    Args:
        walk: A walk that was not read yet, from `walk_links` or with another policy that reports edges.
        direction: The direction in which it follows links; by default that of its policy, else `"both"`.
        max_hops: Its limit of hops, `None` for no limit; by default that of its policy. Pass it if `traverse` got
            another limit.
        inverses: The names of edge types against their direction; `None` for the stored type. If the walk chooses edges
            by inverses, pass the same ones.

    Raises:
        ArgumentError: If `walk` is not a walk, or does not report its edges.
        RuntimeError: If hits or events of the walk were requested before, even if it has ended.

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
    check_kind("walk", walk, Walk, "be a walk, such as walk_links returns", error=ArgumentError)
    reader = TreeReader(
        direction=getattr(walk.policy, "direction", "both") if direction is None else direction,
        max_hops=walk.policy.max_depth if max_hops is ... else max_hops,
        inverses=inverses,
    )
    async with aclosing(walk.events()) as events:
        while batch := await events.read_batch():
            for event in batch:
                reader.add(event)
    return await in_thread(reader.tree)
