"""The links and names of a store in memory; synchronous.

References are resolved when a caller first reads edges, not when links are stored. So a write changes only the entries
of its own artifacts, and other edges appear, disappear or become ambiguous without any work. Edges that were read stay
in memory until the next write.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from airw._base.lru import LruCache
from airw._base.slices import consume_in_slices, sort_in_slices
from airw.protocols import EdgeLabel, EdgeRow
from airw.stores._indexes.adjacency import Adjacency
from airw.values import (
    ArtifactRef,
    Direction,
    Extraction,
    Link,
    LinkCount,
    LinkFilter,
    LinkState,
    NodeId,
    UnresolvedLink,
    fold_name,
)

K = TypeVar("K")
V = TypeVar("V")

_FOLDED_TIER = 1 << 30  # the weakest tier: the folded names of artifacts whose names count in any case
_QUICK_IDS = 1_000  # artifacts: looking them up takes less than a millisecond
_QUICK_EDGES = 10_000  # edges in memory; looking at their ends takes about half of one
_QUICK_REFERENCES = 100  # references that must be resolved; the same
_CACHED_FILTERS = 32  # link filters whose `max_fan_in` is cached


@dataclass(frozen=True, slots=True)
class _NamePair:
    """A reference with two different names, as in `[[one|other]]`."""

    first: str
    second: str


_Ref: TypeAlias = NodeId | _NamePair
"""A reference as written: a name, a node of another corpus, or a pair of names."""

_End: TypeAlias = tuple[str, bool, NodeId, bool, str]
"""The other end of an edge: type, whether in another corpus, node, whether incoming, origin.

Ends sort as `neighbors` orders edges.
"""


class LinkTable:
    """The links and names of all artifacts, indexed in both directions.

    Example:
        >>> table = LinkTable()
        >>> table.put("a", Extraction(links=[Link("Beta")]))
        >>> table.put("b", Extraction(names=[[], ["Beta"]]))
        >>> [[edge]] = table.neighbors(["b"], "in", LinkFilter())
        >>> edge.source
        'a'
    """

    def __init__(self) -> None:
        # Names, by artifact and by name. A name counts in the strongest tier in which its artifact has it.
        self._names: dict[str, dict[str, int]] = {}  # artifact -> name -> tier
        self._carriers: dict[str, dict[str, int]] = {}  # name -> artifact -> tier
        # The folded names of artifacts whose names count in any case.
        self._folded: dict[str, Sequence[str]] = {}  # artifact -> folded names
        self._folded_carriers: dict[str, set[str]] = {}  # folded name -> artifacts
        # Links, by artifact and by reference. `_pairs` leads from one name to all pairs that contain it.
        self._links: dict[str, Sequence[Link]] = {}  # artifact -> its links, in order
        self._mentions: dict[str, dict[_Ref, list[Link]]] = {}  # artifact -> reference -> links
        self._sources: dict[_Ref, set[str]] = {}  # reference -> artifacts with such a link
        self._pairs: dict[str, set[_NamePair]] = {}  # name -> references
        self._spellings: dict[str, set[str]] = {}  # folded name -> other names in references
        # Both are emptied by each change, as one name can change the meaning of any link.
        self._adjacency = Adjacency()
        self._max_fan_in = LruCache[LinkFilter, int](_CACHED_FILTERS)

    def put(self, artifact_id: str, extraction: Extraction) -> None:
        """Replace the links and names of one artifact.

        Its id is always one of its names, in the strongest tier.
        """
        self.remove(artifact_id)
        names = {artifact_id: 0}
        for tier, group in enumerate(extraction.names):
            for name in group:
                names.setdefault(name, tier)
        self._names[artifact_id] = names
        for name, tier in names.items():
            self._carriers.setdefault(name, {})[artifact_id] = tier
        if extraction.fold_case:
            folded_names = self._folded[artifact_id] = tuple(dict.fromkeys(map(fold_name, names)))
            for name in folded_names:
                self._folded_carriers.setdefault(name, set()).add(artifact_id)
        self._links[artifact_id] = tuple(extraction.links)
        mentions = self._mentions[artifact_id] = {}
        for link in extraction.links:
            ref = _get_ref(link)
            mentions.setdefault(ref, []).append(link)
            if ref not in self._sources:
                self._add_ref(ref)
            self._sources[ref].add(artifact_id)

    def remove(self, artifact_id: str) -> None:
        """Remove the links and names of one artifact; the links of other artifacts to it stay."""
        for name in self._names.pop(artifact_id, ()):
            del self._carriers[name][artifact_id]
            if not self._carriers[name]:
                del self._carriers[name]
        for name in self._folded.pop(artifact_id, ()):
            _discard(self._folded_carriers, name, artifact_id)
        self._adjacency.clear()
        self._max_fan_in.clear()
        self._links.pop(artifact_id, None)
        for ref in self._mentions.pop(artifact_id, ()):
            self._sources[ref].discard(artifact_id)
            if not self._sources[ref]:
                self._remove_ref(ref)

    def _add_ref(self, ref: _Ref) -> None:
        self._sources[ref] = set()
        if isinstance(ref, _NamePair):
            for name in (ref.first, ref.second):
                self._pairs.setdefault(name, set()).add(ref)
        for name in _get_names(ref):
            if (folded_name := fold_name(name)) != name:
                self._spellings.setdefault(folded_name, set()).add(name)

    def _remove_ref(self, ref: _Ref) -> None:
        del self._sources[ref]
        if isinstance(ref, _NamePair):
            for name in (ref.first, ref.second):
                _discard(self._pairs, name, ref)
        for name in _get_names(ref):
            if (folded_name := fold_name(name)) != name and name not in self._sources and name not in self._pairs:
                _discard(self._spellings, folded_name, name)

    def resolve(self, ref: str) -> Sequence[str]:
        """Return the artifacts that carry a name in its strongest tier, sorted."""
        return self._find_carriers(ref)[1]

    def _find_carriers(self, name: str) -> tuple[int, Sequence[str]]:
        """Return the strongest tier of a name, and the artifacts that carry it there, sorted."""
        carriers = self._carriers.get(name)
        if carriers is None:
            return _FOLDED_TIER, sorted(self._folded_carriers.get(fold_name(name), ()))
        strongest = min(carriers.values())
        return strongest, sorted(artifact_id for artifact_id, tier in carriers.items() if tier == strongest)

    def _find_candidates(self, ref: str | _NamePair) -> Sequence[str]:
        """Return the artifacts that a reference may mean, sorted.

        It resolves if there is one, dangles if there is none, and is ambiguous otherwise.
        """
        if isinstance(ref, str):
            return self.resolve(ref)
        sides = [self._find_carriers(ref.first), self._find_carriers(ref.second)]
        # A writer of `[[one|other]]` may have meant either side as the label, so each name is resolved alone. Of two
        # names that resolve, the stronger tier wins; `min` prefers the first name if the tiers are equal.
        resolved_sides = [side for side in sides if len(side[1]) == 1]
        if resolved_sides:
            return min(resolved_sides, key=lambda side: side[0])[1]
        return sorted({artifact_id for _, carriers in sides for artifact_id in carriers})

    def referrers(self, node: NodeId, links: LinkFilter) -> set[str]:
        """Return the artifacts that link to a node, without the node itself."""
        return {source for ref in self._find_refs_to(node) for source in self._find_sources(ref, links)} - {node}

    def max_fan_in(self, links: LinkFilter) -> int:
        """Return the largest number of referrers of any node."""
        return self._max_fan_in.get_or_create(links, self._compute_max_fan_in)

    def _compute_max_fan_in(self, links: LinkFilter) -> int:
        nodes = set(map(self._find_target, self._sources))
        return max((len(self.referrers(node, links)) for node in nodes), default=0)

    def counts(self) -> dict[str, int]:
        """Return the number of links in each state; see `RecordReader.counts`."""
        counts = Counter(resolved=0, dangling=0, ambiguous=0, foreign=0)
        for ref, sources in self._sources.items():
            counts[self._get_state(ref)] += sum(len(self._mentions[source][ref]) for source in sources)
        return dict(counts)

    def link_counts(self) -> list[LinkCount]:
        """Return the number of links per type, origin and state, sorted by these three."""
        counts: Counter[tuple[str, str, LinkState]] = Counter()
        for ref, sources in self._sources.items():
            state = self._get_state(ref)
            counts.update((link.type, link.origin, state) for source in sources for link in self._mentions[source][ref])
        return [LinkCount(*key, count) for key, count in sorted(counts.items())]

    def list_unresolved(self, artifact_ids: Iterable[str] | None) -> Iterator[UnresolvedLink]:
        """Yield the dangling and ambiguous links of these artifacts, or of all.

        The order is by artifact id, then as written.
        """
        for artifact_id in sorted(self._links if artifact_ids is None else {*artifact_ids} & self._links.keys()):
            for link in self._links[artifact_id]:
                ref = _get_ref(link)
                candidates = () if isinstance(ref, tuple) else self._find_candidates(ref)
                if not isinstance(ref, tuple) and len(candidates) != 1:
                    yield UnresolvedLink(artifact_id, link, tuple(candidates))

    def _get_state(self, ref: _Ref) -> LinkState:
        if isinstance(ref, tuple):
            return "foreign"
        match len(self._find_candidates(ref)):
            case 0:
                return "dangling"
            case 1:
                return "resolved"
        return "ambiguous"

    def neighbors(
        self, ids: Sequence[Any], direction: Direction, links: LinkFilter, limit: int | None = None
    ) -> list[EdgeRow]:
        """Return the edges of each artifact, ordered by type, then by the id at the other end."""
        self._adjacency.read_missing(ids, direction, lambda ids: (self._read_row(id, direction) for id in ids))
        return self._adjacency.find(ids, direction, links, limit)

    def is_quick(self, ids: Sequence[Any], direction: Direction) -> bool:
        """Return whether reading the edges of these artifacts takes less than a millisecond."""
        if len(ids) > _QUICK_IDS or self._adjacency.count(ids, direction) > _QUICK_EDGES:
            return False
        missing = self._adjacency.list_missing(ids, direction)
        return sum(self._degree(id, direction) for id in missing) <= _QUICK_REFERENCES

    def _degree(self, node: str, direction: Direction) -> int:
        """Return the number of references that `_read_row` looks at."""
        outgoing = len(self._mentions.get(node, ())) if direction != "in" else 0
        names = self._list_spellings(node) if direction != "out" else ()
        return outgoing + sum(len(self._sources[ref]) for name in names for ref in self._find_refs_with(name))

    def _read_row(self, artifact_id: str, direction: Direction) -> EdgeRow:
        """Return the edges of one artifact in their order, without duplicates."""
        # A dict removes duplicates. It is emptied on the way, as releasing a large one at once would stop all threads.
        weights: dict[_End, float] = {}
        outgoing = self._list_outgoing(artifact_id) if direction != "in" else ()
        incoming = self._list_incoming(artifact_id) if direction != "out" else ()
        for end, weight in chain(outgoing, incoming):
            if weight > weights.get(end, 0):  # of several links that are one edge, the largest weight counts
                weights[end] = weight
        nodes, labels = list[NodeId](), list[EdgeLabel]()
        for (type_, is_foreign, node, is_incoming, origin), weight in consume_in_slices(
            sort_in_slices(weights.popitem() for _ in range(len(weights)))
        ):
            nodes.append(node)
            labels.append(self._adjacency.keep_label(EdgeLabel(type_, origin, is_incoming, is_foreign, weight)))
        return EdgeRow(artifact_id, tuple(nodes), tuple(labels))

    def _list_outgoing(self, artifact_id: str) -> Iterator[tuple[_End, float]]:
        for ref, links in self._mentions.get(artifact_id, {}).items():
            targets = [ref] if isinstance(ref, tuple) else self._find_candidates(ref)
            if len(targets) == 1 and targets[0] != artifact_id:
                is_foreign, target = isinstance(ref, tuple), targets[0]
                yield from (((link.type, is_foreign, target, False, link.origin), link.weight) for link in links)

    def _list_incoming(self, artifact_id: str) -> Iterator[tuple[_End, float]]:
        for ref in self._find_refs_to(artifact_id) if artifact_id in self._names else ():
            for source in self._sources[ref]:
                if source != artifact_id:
                    links = self._mentions[source][ref]
                    yield from (((link.type, False, source, True, link.origin), link.weight) for link in links)

    def _find_refs_to(self, node: NodeId) -> Iterable[_Ref]:
        """Return the stored references that lead to a node."""
        if isinstance(node, tuple):
            return [node] if node in self._sources else []
        # A text that is no id is the node of the unresolved references written so.
        if node not in self._names:
            return [ref for ref in self._find_refs_with(node) if self._find_target(ref) == node]
        # Another artifact may carry a name of this node in a stronger tier, so each reference is resolved.
        refs = dict.fromkeys(ref for name in self._list_spellings(node) for ref in self._find_refs_with(name))
        return [ref for ref in refs if self._find_candidates(ref) == [node]]

    def _list_spellings(self, artifact_id: str) -> Iterable[str]:
        """Return the texts of references that may lead to an artifact."""
        names, folded_names = self._names.get(artifact_id, {}), self._folded.get(artifact_id)
        if not folded_names:
            return names
        spellings = chain.from_iterable(self._spellings.get(name, ()) for name in folded_names)
        return dict.fromkeys(chain(names, folded_names, spellings))

    def _find_refs_with(self, name: str) -> Iterator[str | _NamePair]:
        """Return the stored references with a name, alone or in a pair."""
        if name in self._sources:
            yield name
        yield from self._pairs.get(name, ())

    def _find_target(self, ref: _Ref) -> NodeId:
        """Return the node to which a reference leads.

        That is an artifact if the reference resolves, else its text, of two names the first.
        """
        if isinstance(ref, tuple):
            return ref
        artifacts = self._find_candidates(ref)
        if len(artifacts) == 1:
            return artifacts[0]
        return ref if isinstance(ref, str) else ref.first

    def _find_sources(self, ref: _Ref, links: LinkFilter) -> Iterator[str]:
        """Return the artifacts that have an accepted link with this reference."""
        return (source for source in self._sources[ref] if any(map(links.accepts, self._mentions[source][ref])))


def _get_ref(link: Link) -> _Ref:
    if link.target_source is not None:
        return ArtifactRef(link.target_source, link.target_ref)
    if link.or_ref is None or link.or_ref == link.target_ref:
        return link.target_ref
    return _NamePair(link.target_ref, link.or_ref)


def _get_names(ref: _Ref) -> Iterable[str]:
    """Return the names in a reference to this corpus."""
    if isinstance(ref, tuple):
        return ()
    return (ref,) if isinstance(ref, str) else (ref.first, ref.second)


def _discard(sets: dict[K, set[V]], key: K, value: V) -> None:
    """Remove a value from the set of a key, and the key with its last value."""
    sets[key].discard(value)
    if not sets[key]:
        del sets[key]
