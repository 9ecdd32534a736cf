"""What a walk has told so far, as far as a tree of it needs."""

from typing import Any, NamedTuple

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links import Inverses
from airw.values import Edge, NodeId
from airw.views.model import NodeView, WalkTree, node_view
from airw.walking import Committed, EdgeFound, Ended, StepDone, WalkEvent, WalkSummary

__all__ = ["Met", "Outline"]


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
            case Committed():
                self._commit(event)
            case EdgeFound():
                self._meet(event)
            case StepDone():
                self.told.update(self._in_step)
                self._in_step.clear()
            case Ended():
                self.summary = event.summary
                self.told.update(self._in_step)

    def _commit(self, event: Committed) -> None:
        id: Any = event.id
        if event.parent is None:
            self.roots.append(id)
        else:
            self.ways[id] = self._way(event)
        self.nodes[id] = node_view(id, event.hit)
        self.hops[id] = event.depth
        self._in_step.append(id)

    def _way(self, event: Committed) -> Edge:
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
