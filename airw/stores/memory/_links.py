"""Links as they were written, and what each reference means right now; in memory, synchronous.

Nothing is resolved ahead of time: a reference is looked up among the published names when it is asked for, so an edge
appears, vanishes or becomes ambiguous with the artifacts themselves.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from airw._base.lru import LruCache
from airw.values import (
    ArtifactRef,
    Direction,
    Edge,
    Extraction,
    Link,
    LinkCount,
    LinkFilter,
    LinkState,
    NodeId,
    UnresolvedLink,
)

_FILTERS = 32  # of which the answers of `max_fan_in` are kept


@dataclass(frozen=True, slots=True)
class _Either:
    """A reference that gives two names, which differ."""

    first: str
    second: str


_Ref: TypeAlias = NodeId | _Either
"""A reference as it was written, or a pair where it says which other corpus it is for."""


class LinkTable:
    """The links and names of all artifacts, keyed both ways.

    Example:
        >>> table = LinkTable()
        >>> table.put("a", Extraction(links=[Link("Beta")]))
        >>> table.put("b", Extraction(names=[[], ["Beta"]]))
        >>> [edge.source for edge in table.neighbors("b", "in", LinkFilter())]
        ['a']
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, int]] = {}  # artifact -> name -> its strongest tier there
        self._holders: dict[str, dict[str, int]] = {}  # name -> artifact -> that tier
        self._written: dict[str, Sequence[Link]] = {}  # artifact -> its links, in order
        self._mentions: dict[str, dict[_Ref, list[Link]]] = {}  # artifact -> reference -> links
        self._sources: dict[_Ref, set[str]] = {}  # reference -> artifacts that hold it
        self._choices: dict[str, set[_Either]] = {}  # name -> references that give it and another one
        self._most = LruCache[LinkFilter, int](_FILTERS)  # what `max_fan_in` said since the last change

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
        self._written[artifact_id] = tuple(extraction.links)
        mentions = self._mentions[artifact_id] = {}
        for link in extraction.links:
            ref = _ref_of(link)
            mentions.setdefault(ref, []).append(link)
            self._sources.setdefault(ref, set()).add(artifact_id)
            if isinstance(ref, _Either):
                for name in (ref.first, ref.second):
                    self._choices.setdefault(name, set()).add(ref)

    def remove(self, artifact_id: str) -> None:
        """Forget the links and names of one artifact; what others say about it stays."""
        for name in self._names.pop(artifact_id, ()):
            del self._holders[name][artifact_id]
            if not self._holders[name]:
                del self._holders[name]
        self._most.clear()
        self._written.pop(artifact_id, None)
        for ref in self._mentions.pop(artifact_id, ()):
            self._sources[ref].discard(artifact_id)
            if not self._sources[ref]:
                self._forget(ref)

    def _forget(self, ref: _Ref) -> None:
        del self._sources[ref]
        if isinstance(ref, _Either):
            for name in (ref.first, ref.second):
                self._choices[name].discard(ref)
                if not self._choices[name]:
                    del self._choices[name]

    def resolve(self, ref: str) -> Sequence[str]:
        """Return the artifacts, sorted, that carry this name in the strongest tier where any does."""
        return self._find_carriers(ref)[1]

    def _find_carriers(self, name: str) -> tuple[int, Sequence[str]]:
        """Return the strongest tier of a name, and the artifacts, sorted, that carry it there."""
        holders = self._holders.get(name, {})
        strongest = min(holders.values(), default=0)
        return strongest, sorted(artifact_id for artifact_id, tier in holders.items() if tier == strongest)

    def _find_candidates(self, ref: str | _Either) -> Sequence[str]:
        """Return the artifacts, sorted, that a reference may mean: where one of two names means one, that one."""
        if isinstance(ref, str):
            return self.resolve(ref)
        sides = [self._find_carriers(ref.first), self._find_carriers(ref.second)]
        single = [side for side in sides if len(side[1]) == 1]
        if single:
            return min(single, key=lambda side: side[0])[1]
        return sorted({artifact_id for _, carriers in sides for artifact_id in carriers})

    def referrers(self, node: NodeId, links: LinkFilter) -> set[str]:
        """Return the artifacts, other than the node itself, that link to it."""
        return {source for ref in self._refs_to(node) for source in self._find_sources(ref, links)} - {node}

    def max_fan_in(self, links: LinkFilter) -> int:
        """Count the referrers of the node that has most."""
        return self._most.get_or_create(links, self._count_most)

    def _count_most(self, links: LinkFilter) -> int:
        return max((len(self.referrers(node, links)) for node in set(map(self._find_meant, self._sources))), default=0)

    def degree(self, artifact_id: str, direction: Direction) -> int:
        """Count the references that `neighbors` would look at."""
        there = len(self._mentions.get(artifact_id, ())) if direction != "in" else 0
        names = self._names.get(artifact_id, ()) if direction != "out" else ()
        return there + sum(len(self._sources[ref]) for name in names for ref in self._refs_with(name))

    def counts(self) -> dict[str, int]:
        """Count the links that are `resolved`, `dangling`, `ambiguous` and `foreign`."""
        counts = Counter(resolved=0, dangling=0, ambiguous=0, foreign=0)
        for ref, sources in self._sources.items():
            counts[self._get_state(ref)] += sum(len(self._mentions[source][ref]) for source in sources)
        return dict(counts)

    def link_counts(self) -> list[LinkCount]:
        """Count the links by type, origin and state, in that order."""
        counts: Counter[tuple[str, str, LinkState]] = Counter()
        for ref, sources in self._sources.items():
            state = self._get_state(ref)
            counts.update((link.type, link.origin, state) for each in sources for link in self._mentions[each][ref])
        return [LinkCount(*key, count) for key, count in sorted(counts.items())]

    def unresolved_links(self, artifact_ids: Iterable[str] | None) -> Iterator[UnresolvedLink]:
        """Yield the links of these artifacts, or of all, that dangle or are ambiguous, by artifact, then as written."""
        for artifact_id in sorted(self._written if artifact_ids is None else {*artifact_ids} & self._written.keys()):
            for link in self._written[artifact_id]:
                ref = _ref_of(link)
                candidates = () if isinstance(ref, tuple) else self._find_candidates(ref)
                if not isinstance(ref, tuple) and len(candidates) != 1:
                    yield UnresolvedLink(artifact_id, link, tuple(candidates))

    def _get_state(self, ref: _Ref) -> LinkState:
        if isinstance(ref, tuple):
            return "foreign"
        candidates = len(self._find_candidates(ref))
        return "dangling" if not candidates else "resolved" if candidates == 1 else "ambiguous"

    def neighbors(self, artifact_id: str, direction: Direction, links: LinkFilter) -> list[Edge]:
        """Return the edges of one artifact, ordered by type, then by the id at the other end."""
        edges: dict[Edge, tuple[str, tuple[str, str], bool, str]] = {}
        if direction != "in":
            for edge in self._list_outgoing(artifact_id, links.accepts):
                edges[edge] = (edge.type, _sort_key(edge.target), False, edge.origin)
        if direction != "out":
            for edge in self._list_incoming(artifact_id, links.accepts):
                edges[edge] = (edge.type, _sort_key(edge.source), True, edge.origin)
        return sorted(edges, key=lambda edge: edges[edge])

    def _list_outgoing(self, artifact_id: str, keeps: Callable[[Link], bool]) -> Iterator[Edge]:
        for ref, links in self._mentions.get(artifact_id, {}).items():
            targets = [ref] if isinstance(ref, tuple) else self._find_candidates(ref)
            if len(targets) == 1 and targets[0] != artifact_id:
                yield from (Edge(artifact_id, targets[0], link.type, link.origin) for link in links if keeps(link))

    def _list_incoming(self, artifact_id: str, keeps: Callable[[Link], bool]) -> Iterator[Edge]:
        for ref in self._refs_to(artifact_id) if artifact_id in self._names else ():
            for source in self._sources[ref] - {artifact_id}:
                links = self._mentions[source][ref]
                yield from (Edge(source, artifact_id, link.type, link.origin) for link in links if keeps(link))

    def _refs_to(self, node: NodeId) -> Iterable[_Ref]:
        """Return the references, among those that any artifact holds, by which links lead to a node."""
        if isinstance(node, tuple):
            return [node] if node in self._sources else []
        if node not in self._names:
            return [ref for ref in self._refs_with(node) if self._find_meant(ref) == node]
        known = dict.fromkeys(ref for name in self._names[node] for ref in self._refs_with(name))
        return [ref for ref in known if self._find_candidates(ref) == [node]]

    def _refs_with(self, name: str) -> Iterator[str | _Either]:
        """Return the references, among those that any artifact holds, that give a name, alone or beside another one."""
        if name in self._sources:
            yield name
        yield from self._choices.get(name, ())

    def _find_meant(self, ref: _Ref) -> NodeId:
        """Return the one artifact that a reference means, or what is written first where it means none or several."""
        if isinstance(ref, tuple):
            return ref
        artifacts = self._find_candidates(ref)
        if len(artifacts) == 1:
            return artifacts[0]
        return ref if isinstance(ref, str) else ref.first

    def _find_sources(self, ref: _Ref, links: LinkFilter) -> Iterator[str]:
        """Return the artifacts that hold a link, of those that count, with this reference."""
        return (source for source in self._sources[ref] if any(map(links.accepts, self._mentions[source][ref])))


def _ref_of(link: Link) -> _Ref:
    if link.target_source is not None:
        return ArtifactRef(link.target_source, link.target_ref)
    if link.or_ref is None or link.or_ref == link.target_ref:
        return link.target_ref
    return _Either(link.target_ref, link.or_ref)


def _sort_key(node: NodeId) -> tuple[str, str]:
    """Order the ids of this corpus before those of others."""
    return ("", node) if isinstance(node, str) else node
