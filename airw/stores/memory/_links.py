"""The links and names of a store in memory; synchronous.

References are resolved when a caller first reads edges, not when links are stored. So a write changes only the entries
of its own artifacts, and other edges appear, disappear or become ambiguous without any work. Edges that were read stay
in memory until the next write.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from airw._base.lru import LruCache
from airw._base.slices import consume_in_slices, sort_in_slices
from airw.protocols import EdgeLabel, EdgeRow
from airw.stores._indexes.adjacency import Adjacency
from airw.stores._link_rows import FOLDED_TIER
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

_QUICK_IDS = 1_000  # artifacts: looking them up takes less than a millisecond
_QUICK_EDGES = 10_000  # edges in memory; looking at their ends takes about half of one
_QUICK_REFERENCES = 100  # references that must be resolved; the same
_CACHED_FILTERS = 32  # link filters whose `max_fan_in` is cached

_End: TypeAlias = tuple[str, bool, NodeId, bool, str]
"""The other end of an edge: type, whether in another corpus, node, whether incoming, origin.

Ends sort as `neighbors` orders edges.
"""


class _Ref(NamedTuple):
    """A reference as written.

    Args:
        corpus: The corpus of the target, if it is another one.
        first: The name.
        second: The other name in `[[one|other]]`; else the same one.
    """

    corpus: str | None
    first: str
    second: str

    @classmethod
    def of(cls, link: Link) -> "_Ref":
        """Return the reference of a link."""
        second = link.target_ref if link.or_ref is None or link.target_source is not None else link.or_ref
        return cls(link.target_source, link.target_ref, second)

    @property
    def node(self) -> NodeId:
        """Return the node that the reference leads to if it means no artifact here."""
        return self.first if self.corpus is None else ArtifactRef(self.corpus, self.first)

    @property
    def keys(self) -> set[Hashable]:
        """Return what names of artifacts are compared with: names, and folded names in tuples."""
        if self.corpus is not None:
            return {self.node}
        return {self.first, self.second, (fold_name(self.first),), (fold_name(self.second),)}


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
        # A name counts in the strongest tier in which its artifact has it. Keys are those of `_Ref.keys`.
        self._names: dict[NodeId, dict[Hashable, int]] = {}  # artifact -> key -> tier
        self._carriers: dict[Hashable, dict[str, int]] = {}  # key -> artifact -> tier
        self._links: dict[str, Sequence[Link]] = {}  # artifact -> its links, in order
        self._mentions: dict[_Ref, dict[str, list[Link]]] = {}  # reference -> artifact -> its links with the reference
        self._refs: dict[Hashable, dict[_Ref, None]] = {}  # key -> references
        # Both are emptied by each change, as one name can change the meaning of any link.
        self._adjacency = Adjacency()
        self._max_fan_in = LruCache[LinkFilter, int](_CACHED_FILTERS)

    def put(self, artifact_id: str, extraction: Extraction) -> None:
        """Replace the links and names of one artifact.

        Its id is always one of its names, in the strongest tier.
        """
        self.remove(artifact_id)
        names: dict[Hashable, int] = {artifact_id: 0}
        for tier, group in enumerate(extraction.names):
            for name in group:
                names.setdefault(name, tier)
        if extraction.fold_case:
            names |= {(fold_name(name),): FOLDED_TIER for name in (artifact_id, *chain.from_iterable(extraction.names))}
        self._names[artifact_id] = names
        for key, tier in names.items():
            self._carriers.setdefault(key, {})[artifact_id] = tier
        self._links[artifact_id] = tuple(extraction.links)
        for link in extraction.links:
            ref = _Ref.of(link)
            if ref not in self._mentions:
                self._mentions[ref] = {}
                for key in ref.keys:
                    self._refs.setdefault(key, {})[ref] = None
            self._mentions[ref].setdefault(artifact_id, []).append(link)

    def remove(self, artifact_id: str) -> None:
        """Remove the links and names of one artifact; the links of other artifacts to it stay."""
        self._adjacency.clear()
        self._max_fan_in.clear()
        for key in self._names.pop(artifact_id, ()):
            _discard(self._carriers, key, artifact_id)
        for ref in set(map(_Ref.of, self._links.pop(artifact_id, ()))):
            _discard(self._mentions, ref, artifact_id)
            if ref not in self._mentions:
                for key in ref.keys:
                    _discard(self._refs, key, ref)

    def resolve(self, ref: str) -> Sequence[str]:
        """Return the artifacts that carry a name in its strongest tier, sorted."""
        return self._find_carriers(ref)[1]

    def _find_carriers(self, name: str) -> tuple[int, Sequence[str]]:
        """Return the strongest tier of a name, and the artifacts that carry it there, sorted."""
        carriers = self._carriers.get(name) or self._carriers.get((fold_name(name),), {})
        strongest = min(carriers.values(), default=FOLDED_TIER)
        return strongest, sorted(artifact_id for artifact_id, tier in carriers.items() if tier == strongest)

    def _find_candidates(self, ref: _Ref) -> Sequence[NodeId]:
        """Return the nodes that a reference may mean, sorted.

        It resolves if there is one, dangles if there is none, and is ambiguous otherwise.
        """
        if ref.corpus is not None:
            return [ref.node]
        if ref.first == ref.second:
            return self.resolve(ref.first)
        sides = [self._find_carriers(ref.first), self._find_carriers(ref.second)]
        # A writer of `[[one|other]]` may have meant either side as the label, so each name is resolved alone. Of two
        # names that resolve, the stronger tier wins; `min` prefers the first name if the tiers are equal.
        resolved_sides = [side for side in sides if len(side[1]) == 1]
        if resolved_sides:
            return min(resolved_sides, key=lambda side: side[0])[1]
        return sorted({artifact_id for _, carriers in sides for artifact_id in carriers})

    def _find_refs_to(self, node: NodeId) -> Iterator[_Ref]:
        """Yield the stored references that lead to a node."""
        for ref in dict.fromkeys(ref for key in self._names.get(node, (node,)) for ref in self._refs.get(key, ())):
            # Another artifact may carry a name of this node in a stronger tier, so each reference is resolved. A text
            # that is no id is the node of the unresolved references written so.
            candidates = self._find_candidates(ref)
            is_resolved = len(candidates) == 1
            if (candidates[0] if is_resolved else ref.node) == node and (is_resolved or node not in self._names):
                yield ref

    def referrers(self, node: NodeId, links: LinkFilter) -> set[str]:
        """Return the artifacts that link to a node, without the node itself."""
        mentions = (item for ref in self._find_refs_to(node) for item in self._mentions[ref].items())
        return {source for source, found in mentions if any(map(links.accepts, found))} - {node}

    def max_fan_in(self, links: LinkFilter) -> int:
        """Return the largest number of referrers of any node."""

        def compute(links: LinkFilter) -> int:
            found = ((ref.node, self._find_candidates(ref)) for ref in self._mentions)
            nodes = {candidates[0] if len(candidates) == 1 else node for node, candidates in found}
            return max((len(self.referrers(node, links)) for node in nodes), default=0)

        return self._max_fan_in.get_or_create(links, compute)

    def link_counts(self) -> list[LinkCount]:
        """Return the number of links per type, origin and state, sorted by these three."""
        counts: Counter[tuple[str, str, LinkState]] = Counter()
        for ref, mentions in self._mentions.items():
            state: LinkState = "foreign"
            if ref.corpus is None:
                count = len(self._find_candidates(ref))
                state = "dangling" if not count else "resolved" if count == 1 else "ambiguous"
            counts.update((link.type, link.origin, state) for links in mentions.values() for link in links)
        return [LinkCount(*key, count) for key, count in sorted(counts.items())]

    def counts(self) -> dict[str, int]:
        """Return the number of links in each state."""
        counts = {"resolved": 0, "dangling": 0, "ambiguous": 0, "foreign": 0}
        for item in self.link_counts():
            counts[item.state] += item.count
        return counts

    def list_unresolved(self, artifact_ids: Iterable[str] | None) -> Iterator[UnresolvedLink]:
        """Yield the dangling and ambiguous links of these artifacts, or of all.

        The order is by artifact id, then as written.
        """
        for artifact_id in sorted(self._links if artifact_ids is None else {*artifact_ids} & self._links.keys()):
            for link in self._links[artifact_id]:
                candidates: Any = self._find_candidates(_Ref.of(link))
                if len(candidates) != 1:
                    yield UnresolvedLink(artifact_id, link, tuple(candidates))

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
        count = 0  # of the references that must be looked at
        for id in self._adjacency.list_missing(ids, direction):
            count += len(self._links.get(id, ())) if direction != "in" else 0
            if direction != "out":
                count += sum(
                    len(self._mentions[ref]) for key in self._names.get(id, ()) for ref in self._refs.get(key, ())
                )
        return count <= _QUICK_REFERENCES

    def _read_row(self, artifact_id: str, direction: Direction) -> EdgeRow:
        """Return the edges of one artifact in their order, without duplicates."""
        # A dict removes duplicates. It is emptied on the way, as releasing a large one at once would stop all threads.
        weights: dict[_End, float] = {}
        for end, weight in self._list_ends(artifact_id, direction):
            if weight > weights.get(end, 0):  # of several links that are one edge, the largest weight counts
                weights[end] = weight
        nodes, labels = list[NodeId](), list[EdgeLabel]()
        for (type_, is_foreign, node, is_incoming, origin), weight in consume_in_slices(
            sort_in_slices(weights.popitem() for _ in range(len(weights)))
        ):
            nodes.append(node)
            labels.append(self._adjacency.keep_label(EdgeLabel(type_, origin, is_incoming, is_foreign, weight)))
        return EdgeRow(artifact_id, tuple(nodes), tuple(labels))

    def _list_ends(self, artifact_id: str, direction: Direction) -> Iterator[tuple[_End, float]]:
        """Yield the other end and the weight of each link from and to an artifact but itself."""
        if direction != "in":
            for ref in dict.fromkeys(map(_Ref.of, self._links.get(artifact_id, ()))):
                targets = self._find_candidates(ref)
                if len(targets) == 1 and targets[0] != artifact_id:
                    for link in self._mentions[ref][artifact_id]:
                        yield (link.type, ref.corpus is not None, targets[0], False, link.origin), link.weight
        if direction != "out" and artifact_id in self._names:
            for ref in self._find_refs_to(artifact_id):
                for source, links in self._mentions[ref].items():
                    if source != artifact_id:
                        yield from (((link.type, False, source, True, link.origin), link.weight) for link in links)


def _discard(mappings: dict[K, dict[V, Any]], key: K, value: V) -> None:
    """Remove a value from the mapping of a key, and the key with its last value."""
    del mappings[key][value]
    if not mappings[key]:
        del mappings[key]
