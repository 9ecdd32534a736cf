"""Links as they were written, and what each reference means right now; in memory, synchronous.

Nothing is resolved ahead of time: a reference is looked up among the published names when it is asked for, so an edge
appears, vanishes or becomes ambiguous with the artifacts themselves.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from airw.stores._recent import recall
from airw.values import Direction, Edge, Extraction, Link, NodeId

__all__ = ["LinkBook", "LinkChoice"]


@dataclass(frozen=True, slots=True)
class LinkChoice:
    """Which links count: `None` keeps every type or origin, `exclude` drops types."""

    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None

    def keeps(self, link: Link) -> bool:
        """Say whether this link counts."""
        return (
            (self.types is None or link.type in self.types)
            and link.type not in self.exclude
            and (self.origins is None or link.origin in self.origins)
        )


class LinkBook:
    """The links and names of all artifacts, keyed both ways.

    Example:
        >>> book = LinkBook()
        >>> book.put("a", Extraction(links=[Link("Beta")]))
        >>> book.put("b", Extraction(names=[[], ["Beta"]]))
        >>> [edge.source for edge in book.neighbors("b", "in", LinkChoice())]
        ['a']
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, int]] = {}  # artifact -> name -> its strongest tier there
        self._holders: dict[str, dict[str, int]] = {}  # name -> artifact -> that tier
        # A reference is as it was written, or a pair where it says which other corpus it is for.
        self._mentions: dict[str, dict[NodeId, list[Link]]] = {}  # artifact -> reference -> links
        self._sources: dict[NodeId, set[str]] = {}  # reference -> artifacts that hold it
        self._most: dict[LinkChoice, int] = {}  # what `max_fan_in` said since the last change

    def put(self, artifact_id: str, extraction: Extraction) -> None:
        """Replace the links and names of one artifact; its own id is always among the strongest names."""
        self.remove(artifact_id)
        names = {artifact_id: 0}
        for tier, group in enumerate(extraction.names):
            for name in group:
                names.setdefault(name, tier)
        self._names[artifact_id] = names
        for name, tier in names.items():
            self._holders.setdefault(name, {})[artifact_id] = tier
        mentions = self._mentions[artifact_id] = {}
        for link in extraction.links:
            ref = link.target_ref if link.target_source is None else (link.target_source, link.target_ref)
            mentions.setdefault(ref, []).append(link)
            self._sources.setdefault(ref, set()).add(artifact_id)

    def remove(self, artifact_id: str) -> None:
        """Forget the links and names of one artifact; what others say about it stays."""
        for name in self._names.pop(artifact_id, ()):
            del self._holders[name][artifact_id]
            if not self._holders[name]:
                del self._holders[name]
        self._most.clear()
        for ref in self._mentions.pop(artifact_id, ()):
            self._sources[ref].discard(artifact_id)
            if not self._sources[ref]:
                del self._sources[ref]

    def resolve(self, ref: str) -> Sequence[str]:
        """Give the artifacts, sorted, that carry this name in the strongest tier where any does."""
        holders = self._holders.get(ref, {})
        strongest = min(holders.values(), default=0)
        return sorted(artifact_id for artifact_id, tier in holders.items() if tier == strongest)

    def referrers(self, node: NodeId, choice: LinkChoice) -> set[str]:
        """Give the artifacts, other than the node itself, that link to it."""
        return {source for ref in self._refs_to(node) for source in self._holding(ref, choice)} - {node}

    def max_fan_in(self, choice: LinkChoice) -> int:
        """Count the referrers of the node that has most; the choice must hash."""
        return recall(self._most, choice, self._count_most)

    def _count_most(self, choice: LinkChoice) -> int:
        return max((len(self.referrers(node, choice)) for node in set(map(self._meant, self._sources))), default=0)

    def degree(self, artifact_id: str, direction: Direction) -> int:
        """Count the references that `neighbors` would look at."""
        there = len(self._mentions.get(artifact_id, ())) if direction != "in" else 0
        names = self._names.get(artifact_id, ()) if direction != "out" else ()
        return there + sum(len(self._sources.get(name, ())) for name in names)

    def counts(self) -> dict[str, int]:
        """Count the links that are `resolved`, `dangling`, `ambiguous` and `foreign`."""
        counts = Counter(resolved=0, dangling=0, ambiguous=0, foreign=0)
        for ref, sources in self._sources.items():
            at_home = ("dangling", "resolved", "ambiguous")
            meaning = at_home[min(len(self.resolve(ref)), 2)] if isinstance(ref, str) else "foreign"
            counts[meaning] += sum(len(self._mentions[source][ref]) for source in sources)
        return dict(counts)

    def neighbors(self, artifact_id: str, direction: Direction, choice: LinkChoice) -> list[Edge]:
        """Give the edges of one artifact, ordered by type, then by the id at the other end."""
        edges: dict[Edge, tuple[str, tuple[str, str], bool, str]] = {}
        if direction != "in":
            for edge in self._outgoing(artifact_id, choice.keeps):
                edges[edge] = (edge.type, _sortable(edge.target), False, edge.origin)
        if direction != "out":
            for edge in self._incoming(artifact_id, choice.keeps):
                edges[edge] = (edge.type, _sortable(edge.source), True, edge.origin)
        return sorted(edges, key=lambda edge: edges[edge])

    def _outgoing(self, artifact_id: str, keeps: Callable[[Link], bool]) -> Iterator[Edge]:
        for ref, links in self._mentions.get(artifact_id, {}).items():
            targets = self.resolve(ref) if isinstance(ref, str) else [ref]
            if len(targets) == 1 and targets[0] != artifact_id:
                yield from (Edge(artifact_id, targets[0], link.type, link.origin) for link in links if keeps(link))

    def _incoming(self, artifact_id: str, keeps: Callable[[Link], bool]) -> Iterator[Edge]:
        for name in self._refs_to(artifact_id) if artifact_id in self._names else ():
            for source in self._sources[name] - {artifact_id}:
                links = self._mentions[source][name]
                yield from (Edge(source, artifact_id, link.type, link.origin) for link in links if keeps(link))

    def _refs_to(self, node: NodeId) -> Sequence[NodeId]:
        """Give the references, among those that any artifact holds, by which links lead to a node."""
        if isinstance(node, str) and node in self._names:
            return [name for name in self._names[node] if name in self._sources and self.resolve(name) == [node]]
        return [node] if node in self._sources and self._meant(node) == node else []

    def _meant(self, ref: NodeId) -> NodeId:
        """Give the one artifact that a reference means, or itself where it means none or several."""
        artifacts = self.resolve(ref) if isinstance(ref, str) else ()
        return artifacts[0] if len(artifacts) == 1 else ref

    def _holding(self, ref: NodeId, choice: LinkChoice) -> Iterator[str]:
        """Give the artifacts that hold a link, of those that count, with this reference."""
        return (source for source in self._sources[ref] if any(map(choice.keeps, self._mentions[source][ref])))


def _sortable(node: NodeId) -> tuple[str, str]:
    """Order the ids of this corpus before those of others."""
    return ("", node) if isinstance(node, str) else node
