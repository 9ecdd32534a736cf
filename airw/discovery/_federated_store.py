"""The store of a federated corpus: it calls the stores of its corpora and merges answers."""

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import offers
from airw._base.concurrency import map_bounded, offload_if
from airw.discovery._federated_answers import (
    FederatedEdge,
    Positions,
    collect_edges_to,
    collect_own_edges,
    common_width,
    group_by_corpus,
    merge_by_rank,
    merge_by_score,
    node_spellings,
    refs_to,
    scatter_best_records,
    scatter_in_order,
    scatter_vectors,
    sort_edges,
    split_ids,
    sum_counts,
    to_federated_entry,
    to_federated_link,
    to_federated_record,
    value_spellings,
)
from airw.discovery._federated_calls import MemberCalls
from airw.protocols import ArtifactVectors, BestRecords, Store, TermStatistics
from airw.values import (
    ArtifactRef,
    Direction,
    Edge,
    LedgerEntry,
    LinkCount,
    NodeIdLike,
    Ranking,
    Record,
    TermCounts,
    UnresolvedLink,
)
from airw.values.filters import Filter

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")

_ANSWERED_BY_SOME = {"search_vectors", "search_text", "neighbors", "referrers", "fan_in"}
_OWN = {"pool_counts", "read_step"}  # put together from other methods
_OFFLOAD_ABOVE = 1_000  # ids or edges: grouping and merging more of them takes longer than about a millisecond


class FederatedStore:
    """The reading methods of a store, answered by the stores of several corpora.

    Artifacts are `ArtifactRef(source, id)`, records are `source/id`. A call is one call of each store whose artifacts
    it concerns; the docstrings of `neighbors` and `max_fan_in` name their further calls. An artifact of a corpus that
    is not a member is unknown. So is a plain text, except in `resolve`, `referrers` and `fan_in`. If answers are ranked
    together, ties are in the order of the artifact ids. A store that `calls` leaves out answers nothing, as if its
    corpus were empty.

    Args:
        calls: The calls of the stores, by the name of their corpus; a name must not contain `/`.
    """

    def __init__(self, calls: MemberCalls) -> None:
        self.calls = calls
        self._stores, self._call = calls.stores, calls.call
        self._corpus_order = {name: position for position, name in enumerate(self._stores)}

    def offers(self, method: str) -> bool:
        """Return whether the stores have a method between them.

        A search needs one store that has it, as do links. Whoever asks about given artifacts needs an answer for each.
        """
        if getattr(type(self), method, None) is None:
            return False
        enough = any if method in _ANSWERED_BY_SOME else all
        return method in _OWN or enough(offers(store, method) for store in self._stores.values())

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Return the record of each id."""

        def convert(source: str, record: Record | None) -> Record | None:
            return None if record is None else to_federated_record(source, record)

        pairs = await offload_if(len(ids) > _OFFLOAD_ABOVE, split_ids, ids)
        return await self._route_and_align(pairs, lambda store, own: store.get_records(own), convert, missing=None)

    async def records_of(
        self, artifact_ids: Sequence[NodeIdLike], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Return the records of each artifact, in the order of its surfaces; `None` if unknown."""

        def convert(source: str, records: list[Record] | None) -> list[Record] | None:
            return None if records is None else [to_federated_record(source, record) for record in records]

        return await self._route_and_align(
            artifact_ids, lambda store, own: store.records_of(own, kinds=kinds, limit=limit), convert, missing=None
        )

    async def ledger(self, ids: Sequence[NodeIdLike] | None = None) -> list[LedgerEntry | None]:
        """Return the ledger entry of each artifact; without `ids`, all entries, store by store."""
        if ids is not None:
            return await self._route_and_align(
                ids, lambda store, own: store.ledger(own), to_federated_entry, missing=None
            )
        answers = await self._call_all(lambda store: store.ledger())
        return [to_federated_entry(source, entry) for source, entries in answers.items() for entry in entries]

    async def artifact_ids(self) -> list[ArtifactRef]:
        """Return the ids of all artifacts, store by store, sorted."""
        answers = await self._call_all(lambda store: store.artifact_ids())
        return [ref for source, ids in answers.items() for ref in refs_to(source, ids)]

    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` best records or artifacts of all stores for each row of `queries`.

        Order: score descending, then `(artifact_id, surface_index)`.
        """
        answers = await self._call_able(
            "search_vectors",
            lambda store: store.search_vectors(queries, k, filter=filter, surfaces=surfaces, per_artifact=per_artifact),
        )
        return [
            merge_by_score({name: rankings[row] for name, rankings in answers.items()}, k)
            for row in range(len(queries))
        ]

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` best records or artifacts of all stores for each query.

        BM25 depends on how often a word occurs, so the stores first add up their counts: the scores are those of one
        corpus that contains all records. If a store cannot count words, or counts by another formula, the rankings are
        fused by rank instead, and the scores are RRF scores. The first hits of all stores then come first, in the order
        of the stores, then the second hits, and so on.
        """
        options: dict[str, Any] = {"filter": filter, "surfaces": surfaces, "per_artifact": per_artifact}
        pooled = await self.pool_counts(queries)
        merge = merge_by_rank if pooled is None else merge_by_score
        if pooled is not None:
            options["statistics"] = pooled
        answers = await self._call_able("search_text", lambda store: store.search_text(queries, k, **options))
        return [merge({name: rankings[row] for name, rankings in answers.items()}, k) for row in range(len(queries))]

    async def pool_counts(self, queries: Sequence[str]) -> TermCounts | None:
        """Return the word counts of all stores together; `None` if they cannot be added up."""
        if not all(isinstance(store, TermStatistics) for store in self._stores.values()):
            return None
        counts = await self._call_all(lambda store: cast("TermStatistics", store).term_statistics(queries))
        formulas = {item.formula for item in counts.values()}
        return TermCounts.sum(counts.values()) if len(formulas) == 1 else None

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Return the cosine of the query to each record: `(n,) float32`, NaN if unknown."""
        pairs = await offload_if(len(record_ids) > _OFFLOAD_ABOVE, split_ids, record_ids)
        positions, answers = await self._route(pairs, lambda store, own: store.similarities(query, own))
        scores = np.full(len(record_ids), np.nan, np.float32)
        for source, cosines in answers.items():
            scores[positions[source]] = cosines
        return scores

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[NodeIdLike], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Return the best record of each artifact and its cosine; `None` and NaN without one."""
        count = len(artifact_ids)
        positions, answers = await self._route(
            artifact_ids, lambda store, own: store.best_of(query, own, surfaces=surfaces)
        )
        return await offload_if(count > _OFFLOAD_ABOVE, scatter_best_records, count, positions, answers)

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record: `(n, dim) float32`, a row of NaN for unknown records.

        Raises:
            EmbedderMismatch: If the vectors have several widths.
        """
        pairs = await offload_if(len(ids) > _OFFLOAD_ABOVE, split_ids, ids)
        positions, answers = await self._route(
            pairs, lambda store, own: store.vectors(own), default=self._empty_requests
        )
        rows = np.full((len(ids), common_width(answers.values())), np.nan, np.float32)
        for source, vectors in answers.items():
            # A store without vectors answers with width 0.
            if vectors.size:
                rows[positions[source]] = vectors
        return rows

    async def vectors_of(self, artifact_ids: Sequence[NodeIdLike]) -> ArtifactVectors:
        """Return the record ids of each artifact and their vectors: `(n, dim) float32`.

        Rows are in the order of the request. An unknown artifact has no ids and no rows.

        Raises:
            EmbedderMismatch: If the vectors have several widths.
        """
        count = len(artifact_ids)
        positions, answers = await self._route(
            artifact_ids, lambda store, own: store.vectors_of(own), default=self._empty_requests
        )
        return await offload_if(count > _OFFLOAD_ABOVE, scatter_vectors, count, positions, answers)

    async def resolve(self, refs: Sequence[NodeIdLike]) -> list[list[ArtifactRef]]:
        """Return the artifacts that each reference resolves to, store by store, sorted.

        A plain text is resolved by every store, a pair `(source, text)` by one store. Each store resolves on its own: a
        match of a strong name tier in one corpus does not hide a match of a weak tier in another one.
        """
        positions = {
            name: [position for position, ref in enumerate(refs) if isinstance(ref, str) or ref[0] == name]
            for name in self._stores
        }
        requests = {name: [_text(refs[position]) for position in own] for name, own in positions.items() if own}
        answers = await self._call(requests, lambda store, own: store.resolve(own))
        resolved: list[list[ArtifactRef]] = [[] for _ in refs]
        for source, id_lists in answers.items():
            for position, ids in zip(positions[source], id_lists, strict=True):
                resolved[position] += refs_to(source, ids)
        return resolved

    async def referrers(
        self, nodes: Sequence[NodeIdLike], *, types: Sequence[str] | None = None
    ) -> list[list[ArtifactRef]]:
        """Return the artifacts that link to each node, store by store, sorted.

        The node itself is left out. A node is a pair or a text. For the pair of a member, its own store counts links by
        any name of the artifact, and all stores count links by the pair. A text has the meaning that each store gives
        it.
        """
        requests = {
            name: [spelling for node in nodes for spelling in node_spellings(node, name)] for name in self._stores
        }
        answers = await self._call(requests, lambda store, own: store.referrers(own, types=types))
        # Each store gives one answer for each spelling, in order: take as many answers for a node as it has spellings.
        remaining = {source: iter(answer) for source, answer in answers.items()}
        referrers: list[list[ArtifactRef]] = []
        for node in nodes:
            refs = [
                ref
                for source, id_lists in remaining.items()
                for ref in refs_to(source, _take_union(id_lists, len(node_spellings(node, source))))
            ]
            referrers.append([ref for ref in refs if ref != node])
        return referrers

    async def fan_in(self, nodes: Sequence[NodeIdLike], *, types: Sequence[str] | None = None) -> list[int]:
        """Return the number of referrers of each node."""
        return [len(refs) for refs in await self.referrers(nodes, types=types)]

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Return the largest number of referrers of any node; 0 without links.

        A node that is not an artifact of any store is counted in each store separately. An artifact that links to
        itself by its pair counts as one of its own referrers: its store takes the pair for an artifact of another
        corpus. The method makes two calls of each store. If there are links to other corpora, it makes two more: for
        all artifact ids, and for their referrers.
        """
        maxima = await self._call_all(lambda store: store.max_fan_in(types=types))
        counts = await self._call_all(lambda store: store.counts())
        # Only links between corpora can add referrers from several stores to one artifact.
        has_foreign_links = any(count["foreign"] for count in counts.values())
        artifacts = await self.artifact_ids() if has_foreign_links else []
        fan_ins = await self.fan_in(artifacts, types=types) if artifacts else []
        return max([*maxima.values(), *fan_ins], default=0)

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[ArtifactRef]]:
        """Return the artifacts whose field equals or lists the value of each `(field, value)`.

        They are in the order of the stores, sorted. A tuple as a value is an artifact, which a field contains as
        `[source, id]`, or as the plain id in its own corpus.
        """
        requests = {
            name: [(field, spelling) for field, value in wanted for spelling in value_spellings(value, name)]
            for name in self._stores
        }
        answers = await self._call(requests, lambda store, own: store.matching(own, limit=limit))
        remaining = {source: iter(answer) for source, answer in answers.items()}
        return [
            [
                ref
                for source, id_lists in remaining.items()
                for ref in refs_to(source, _take_union(id_lists, len(value_spellings(value, source))))
            ][:limit]
            for _, value in wanted
        ]

    async def neighbors(
        self,
        ids: Sequence[NodeIdLike],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        """Return the edges of each artifact.

        They are sorted by type, then by the store and the id of the other end. A link to another corpus is an edge if
        that corpus is a member and contains the artifact. One call of each store reads them, one more checks targets in
        other corpora. For incoming edges, two more calls find the links from other corpora. Duplicates, and edges of an
        artifact to itself, are left out. `limit` counts the edges of one artifact.
        """
        link_filter: dict[str, Any] = {"types": types, "exclude": exclude, "origins": origins}
        readers: list[Callable[[], Awaitable[list[FederatedEdge]]]] = [
            partial(self._read_own_edges, ids, direction, link_filter)
        ]
        # A store knows the links of its own artifacts only, so links from other corpora are in the other stores.
        if direction != "out":
            readers.append(partial(self._read_edges_by_pair, ids, link_filter))
        edge_lists = await map_bounded(lambda reader: reader(), readers, limit=2)
        edges = [edge for edge_list in edge_lists for edge in edge_list]
        return await self._arrange_edges(ids, edges, limit)

    async def _arrange_edges(
        self,
        ids: Sequence[NodeIdLike],
        edges: Sequence[FederatedEdge],
        limit: int | None,
        existing: Container[NodeIdLike] = (),
    ) -> list[list[Edge]]:
        """Return the edges of each artifact in order, without those that lead to nothing.

        A store cannot know whether an artifact of another corpus exists. So one call of each store checks the targets
        that name a corpus, except `existing`.
        """
        named = dict.fromkeys(edge.edge.target for edge in edges if edge.names_corpus)
        targets = [target for target in named if target not in existing]
        entries = await self.ledger(targets) if targets else []
        missing = {target for target, entry in zip(targets, entries, strict=True) if entry is None}
        is_long = len(edges) > _OFFLOAD_ABOVE
        return await offload_if(is_long, sort_edges, ids, edges, missing, self._corpus_order, limit)

    async def unresolved_links(
        self, artifact_ids: Sequence[NodeIdLike] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Return the dangling and ambiguous links of these artifacts, or of all, store by store.

        Sources and candidates are `ArtifactRef`s. A link that is unresolved in its own corpus is unresolved here, even
        if another corpus contains an artifact of that name.
        """
        if artifact_ids is None:
            answers = await self._call_all(lambda store: store.unresolved_links(limit=limit))
        else:
            _, requests = group_by_corpus(artifact_ids, self._stores)
            answers = await self._call(requests, lambda store, own: store.unresolved_links(own, limit=limit))
        return [to_federated_link(source, link) for source, links in answers.items() for link in links][:limit]

    async def link_counts(self) -> list[LinkCount]:
        """Return the number of links of all stores by type, origin and state, in that order.

        Each store counts on its own: a link to another corpus is `foreign`, even if that corpus is a member.
        """
        return sum_counts(await self._call_all(lambda store: store.link_counts()))

    async def _read_own_edges(
        self, ids: Sequence[NodeIdLike], direction: Direction, link_filter: Mapping[str, Any]
    ) -> list[FederatedEdge]:
        """Return the edges that the store of each artifact contains."""
        able = self._able("neighbors")

        async def read(store: Store, own: list[str]) -> list[list[Edge]]:
            if able and not offers(store, "neighbors"):
                return [[] for _ in own]
            return await store.neighbors(own, direction=direction, **link_filter)

        positions, answers = await self._route(ids, read)
        return await offload_if(_count_items(answers) > _OFFLOAD_ABOVE, collect_own_edges, positions, answers)

    async def _read_edges_by_pair(
        self, ids: Sequence[NodeIdLike], link_filter: Mapping[str, Any]
    ) -> list[FederatedEdge]:
        """Return the edges to each artifact by links that name its corpus, in any store."""
        nodes = [ArtifactRef(*id) for id in dict.fromkeys(ids) if not isinstance(id, str)]
        if not nodes:
            return []
        # First the artifacts that link here, then their edges: stores cannot be asked for incoming edges of an
        # artifact that is not theirs.
        types = link_filter["types"]
        # A store that only follows its own links knows no referrers, and nothing of other corpora.
        answers = await self._call(self._able("referrers"), lambda store, _: store.referrers(nodes, types=types))
        referrers = {name: sorted({id for ids in id_lists for id in ids}) for name, id_lists in answers.items()}
        requests = {name: own for name, own in referrers.items() if own}
        edges = await self._call(requests, lambda store, own: store.neighbors(own, direction="out", **link_filter))
        return await offload_if(_count_items(edges) > _OFFLOAD_ABOVE, collect_edges_to, ids, edges)

    def _empty_requests(self) -> dict[str, list[str]]:
        return {name: [] for name in self._stores}

    async def _route_and_align(
        self,
        ids: Sequence[NodeIdLike],
        call: Callable[[Store, list[str]], Awaitable[Sequence[R]]],
        convert: Callable[[str, R], S],
        *,
        missing: S,
    ) -> list[S]:
        """Call each store with its own ids, and put the converted answers in order."""
        positions, answers = await self._route(ids, call)
        result = [missing] * len(ids)
        return await offload_if(len(ids) > _OFFLOAD_ABOVE, scatter_in_order, result, positions, answers, convert)

    async def _route(
        self,
        ids: Sequence[NodeIdLike],
        call: Callable[[Store, list[str]], Awaitable[R]],
        *,
        default: Callable[[], Mapping[str, list[str]]] = dict,
    ) -> tuple[Positions, dict[str, R]]:
        """Call each store with its own artifacts or records.

        Returns:
            The positions of the ids of each store, and the answers by store.

        `default` makes the requests if no store answers for the ids: the answer needs the width of the vectors even
        then.
        """
        positions, requests = await offload_if(len(ids) > _OFFLOAD_ABOVE, group_by_corpus, ids, self._stores)
        return positions, await self._call(requests, call) or await self._call(default(), call)

    async def _call_able(self, method: str, call: Callable[[Store], Awaitable[R]]) -> dict[str, R]:
        """Call the stores that have a method. If none has it, call all: the error then names it."""
        return await self._call(self._able(method) or self._empty_requests(), lambda store, _: call(store))

    def _able(self, method: str) -> dict[str, list[str]]:
        """Return an empty request for each store that has a method; a store may have few."""
        return {name: [] for name, store in self._stores.items() if offers(store, method)}

    async def _call_all(self, call: Callable[[Store], Awaitable[R]]) -> dict[str, R]:
        return await self._call(self._empty_requests(), lambda store, _: call(store))


def _count_items(answers: Mapping[str, Iterable[Sequence[object]]]) -> int:
    return sum(len(items) for answer in answers.values() for items in answer)


def _text(ref: NodeIdLike) -> str:
    return ref if isinstance(ref, str) else ref[1]


def _take_union(id_lists: Iterator[Iterable[str]], count: int) -> list[str]:
    """Return all ids of the next `count` lists, sorted."""
    return sorted({id for ids in islice(id_lists, count) for id in ids})
