"""The union of several corpora.

A search in it equals a search in one corpus that contains them all.

Each channel is ranked over all corpora. Cosines of one embedder can be compared. For BM25, the corpora first add up
their word counts, so that a word weighs the same in all of them. What cannot be compared is a channel of its own: the
cosines of another embedder, and the BM25 scores of a store that cannot count words.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar, cast

import anyio

from airw._base.arrays import Floats
from airw._base.checks import offers
from airw._base.concurrency import map_bounded, offload_if
from airw.discovery._federated_answers import (
    FederatedRecord,
    group_by_corpus,
    merge_by_score,
    scatter_in_order,
    to_federated_record,
)
from airw.embedders import first_usable
from airw.protocols import Embedder, OpenCorpus, SchemaReader, SearchStore, TermStatistics, methods_of
from airw.retrieval import Mode, SearchQuery
from airw.retrieval.merging import ChannelRankings
from airw.retrieval.query import PassageReader, can_rank, default_alpha, rank_weights
from airw.retrieval.searching import Channel, run_search
from airw.values import ArtifactRef, NodeIdLike, Ranking, Record, SearchHit, TermCounts
from airw.values.filters import Filter

K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")

_MAX_CONCURRENCY = 16  # stores called at once
_OFFLOAD_ABOVE = 1_000  # ranked rows: merging more of them takes longer than about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class CorpusView:
    """A corpus with another store or another embedder."""

    name: str
    store: Any
    embedder: Embedder


class RememberingStore:
    """A store that remembers its answers during one discovery.

    A discovery asks each source for its own ranking, for the evidence of its best hits, and then for its part of the
    union: most answers are the same. All calls of a discovery have the same filter and surfaces.

    Args:
        store: The store.
        depth: The length of the longest ranking that will be needed; a shorter one is read as long at once.
    """

    def __init__(self, store: SearchStore, depth: int = 0) -> None:
        self._store, self._depth = store, depth
        self._rankings: dict[tuple[object, ...], tuple[int, list[Ranking]]] = {}
        self._records: dict[str, Record | None] = {}
        self._counts: dict[tuple[str, ...], TermCounts] = {}
        # Attributes, as since Python 3.12 `isinstance` with a protocol finds nothing that `__getattr__` returns.
        if self.can_count:
            self.term_statistics = self._count_terms
        if isinstance(store, SchemaReader):
            vars(self).update({method: getattr(store, method) for method in methods_of(SchemaReader)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def offers(self, method: str) -> bool:
        """Return whether the store has a method."""
        return offers(self._store, method)

    @property
    def can_count(self) -> bool:
        """Return whether the store can count words."""
        return isinstance(self._store, TermStatistics)

    async def _count_terms(self, queries: Sequence[str]) -> TermCounts:
        key = tuple(queries)
        if key not in self._counts:
            self._counts[key] = await cast("TermStatistics", self._store).term_statistics(queries)
        return self._counts[key]

    async def search_vectors(self, queries: Floats, k: int, **options: Any) -> list[Ranking]:
        """Return the rankings of the store by cosine."""
        key = (queries.tobytes(), options["per_artifact"])
        return await self._remember(key, k, lambda depth: self._store.search_vectors(queries, depth, **options))

    async def search_text(self, queries: Sequence[str], k: int, **options: Any) -> list[Ranking]:
        """Return the rankings of the store by BM25."""
        key = (*queries, options["per_artifact"], id(options.get("statistics")))
        return await self._remember(key, k, lambda depth: self._store.search_text(queries, depth, **options))

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Return the record of each id."""
        new_ids = [id for id in ids if id not in self._records]
        if new_ids:
            self._records.update(zip(new_ids, await self._store.get_records(new_ids), strict=True))
        return [self._records[id] for id in ids]

    async def _remember(
        self, key: tuple[object, ...], k: int, rank: Callable[[int], Awaitable[list[Ranking]]]
    ) -> list[Ranking]:
        depth, rankings = self._rankings.get(key, (-1, []))
        # A longer ranking begins with the shorter one.
        if depth < k:
            depth = max(k, self._depth)
            rankings = await rank(depth)
            self._rankings[key] = depth, rankings
        if depth == k:
            return rankings
        return [Ranking(one.record_ids[:k], one.artifact_ids[:k], one.scores[:k], one.max_score) for one in rankings]


@dataclass(frozen=True, slots=True, eq=False)
class UnionMember:
    """A source that takes part in a union: its open corpus, and its word counts or `None`."""

    corpus: OpenCorpus[Any]
    counts: TermCounts | None


async def count_terms(corpus: OpenCorpus[Any], search: SearchQuery, queries: Sequence[str]) -> TermCounts | None:
    """Return the word counts of a corpus for these queries; `None` if its store cannot count.

    They are also `None` if the search ranks no texts.
    """
    if "lexical" not in search.channels or not isinstance(corpus.store, TermStatistics):
        return None
    return await corpus.store.term_statistics(queries)


def pool_counts(counts: Sequence[TermCounts | None]) -> dict[str, TermCounts]:
    """Return the sums of word counts by formula."""
    groups = _group((item for item in counts if item is not None), lambda item: item.formula)
    return {formula: TermCounts.sum(group) for formula, group in groups.items()}


@dataclass(frozen=True, slots=True, eq=False)
class UnionAnswer:
    """The answer of a union.

    Args:
        hits: The hits, best first.
        failures: The error of each member that failed meanwhile. The hits are those of the other members.
        channels: The ranking of each kind of channel; empty if there are several channels of a kind, or queries.
        search: The search, with the `alpha` of the embedder.
    """

    hits: Sequence[SearchHit]
    failures: Mapping[str, Exception]
    channels: Mapping[Mode, ChannelRankings]
    search: SearchQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionSearch:
    """A search in the union of several sources.

    Args:
        search: The search.
        queries: The formulated queries.
        pooled: The word counts of all sources by formula. A source that has counted but not answered is included:
            the scores must not depend on who answers first. If empty, each source uses its own counts.
        weights: The factor of each source in the ranking; 1.0 if it is not named.
        deadline: The time on the clock of the event loop at which a source fails that has not answered.
    """

    search: SearchQuery
    queries: Sequence[str]
    pooled: Mapping[str, TermCounts]
    weights: Mapping[str, float]
    deadline: float

    async def run(self, members: Mapping[str, UnionMember]) -> UnionAnswer:
        """Search the union of these members; a member that fails is left out."""
        failures: dict[str, Exception] = {}
        # In the order of their names: nothing may depend on the order in which the caller lists them.
        live = dict(sorted(members.items()))
        while live:
            store = _UnionStore(live, self.deadline, failures)
            search = self._with_alpha(live)
            hits, channels = await self._search(store, search)
            live = {name: member for name, member in live.items() if name not in failures}
            # A member that fails halfway may have pushed others down in one channel. Search once more without it; what
            # the others have ranked is remembered.
            if len(live) == len(store.members):
                return UnionAnswer(hits, failures, channels, search)
        return UnionAnswer((), failures, {}, self.search)

    async def rank_texts(self, member: UnionMember) -> None:
        """Rank the texts of a source with the counts of all; its store remembers the ranking."""
        if member.counts is not None:
            n_rankings = len(self.search.channels) * len(self.queries)
            await member.corpus.store.search_text(
                self.queries,
                self.search.ranking_depth(n_rankings, has_later_stage=bool(self.weights)),
                filter=self.search.filter,
                surfaces=self.search.surfaces,
                per_artifact=self.search.ranks_artifacts,
                statistics=self.pooled[member.counts.formula],
            )

    def _with_alpha(self, members: Mapping[str, UnionMember]) -> SearchQuery:
        """Return the search with the `alpha` that suits the embedders; the mean if they differ."""
        alphas = [default_alpha(id) for id in sorted({member.corpus.embedder.id for member in members.values()})]
        return self.search if self.search.alpha is not None else replace(self.search, alpha=fmean(alphas))

    async def _search(
        self, store: "_UnionStore", search: SearchQuery
    ) -> tuple[list[SearchHit], Mapping[Mode, ChannelRankings]]:
        weights = self.weights
        if callable(search.rerank_text):
            search = replace(search, rerank_text=_route_reader(store, search.rerank_text))
        channels = self._channels(store, search)
        weigh = (lambda ref: weights.get(ref[0], 1.0)) if weights else None
        corpus = CorpusView("", store, channels[0].corpus.embedder)
        hits = await run_search(corpus, search, self.queries, channels=channels, weigh=weigh)
        if len(channels) > len(search.channels) or len(self.queries) > 1:
            return hits, {}
        rankings = {channel.kind: cast("_UnionStore", channel.corpus.store).rankings for channel in channels}
        return hits, {item.kind: ChannelRankings(item.kind, rankings[item.kind], item.weight) for item in channels}

    def _channels(self, store: "_UnionStore", search: SearchQuery) -> list[Channel]:
        """Return a dense channel for each embedder, and a lexical one for each formula.

        A store that cannot count words has a lexical channel of its own. One that lacks a channel has no part in it.
        """
        split_by: dict[Mode, Callable[[UnionMember], object]] = {"dense": _embedder_id, "lexical": _formula}
        channels = []
        for kind in search.channels:
            able = [item for item in store.members.items() if can_rank(item[1].corpus.store, kind)]
            for part in _group(able, lambda item: split_by[kind](item[1])).values():  # noqa: B023
                members = dict(part)
                first = part[0][1]
                pooled = None if first.counts is None else self.pooled.get(first.counts.formula)
                embedder = first_usable(member.corpus.embedder for member in members.values())
                view = CorpusView("", replace(store, members=members, pooled=pooled), embedder)
                channels.append(Channel(kind, view, self._weight(kind, embedder.id, search)))
        return channels

    def _weight(self, kind: Mode, embedder_id: str, search: SearchQuery) -> float:
        alpha = search.alpha or 0.0
        # The cosines of each embedder have the weight that suits it.
        if kind == "dense" and self.search.alpha is None:
            alpha = default_alpha(embedder_id)
        return rank_weights(search.channels, alpha)[search.channels.index(kind)]


def _embedder_id(member: UnionMember) -> object:
    return member.corpus.embedder.id


def _formula(member: UnionMember) -> object:
    # A member without counts is its own formula: its scores can be compared with no other.
    return member if member.counts is None else member.counts.formula


def _route_reader(store: "_UnionStore", reader: PassageReader) -> PassageReader:
    """Return a reader that calls `reader` with the corpus of a record.

    The record is the one that its corpus knows.
    """

    def read(_: OpenCorpus[Any], record: Record) -> Any:
        source = cast("FederatedRecord", record).source
        own = Record(
            record.id.removeprefix(f"{source}/"),
            record.artifact_id,
            record.surface_kind,
            record.surface_index,
            record.text,
            record.metadata,
        )
        return reader(store.members[source].corpus, own)

    return read


@dataclass(slots=True, eq=False)
class _UnionStore:
    """The reading methods that a search needs, answered by several stores.

    Artifacts and records are `(source, id)`. A store that fails is noted in `failures` and answers nothing from then
    on. `rankings` are those of the last search.
    """

    members: Mapping[str, UnionMember]
    deadline: float
    failures: dict[str, Exception]
    pooled: TermCounts | None = None
    rankings: Sequence[Ranking] = ()

    async def search_vectors(
        self, queries: Floats, k: int, *, filter: Filter | None, surfaces: Sequence[str] | None, per_artifact: bool
    ) -> list[Ranking]:
        """Return the `k` best of all stores by cosine for each query."""
        options: dict[str, Any] = {"filter": filter, "surfaces": surfaces, "per_artifact": per_artifact}
        answers = await self._call_all(lambda store: store.search_vectors(queries, k, **options))
        return await self._merge(answers, len(queries), k)

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> list[Ranking]:
        """Return the `k` best of all stores by BM25 for each query."""
        options: dict[str, Any] = {"filter": filter, "surfaces": surfaces, "per_artifact": per_artifact}
        if self.pooled is not None:
            options["statistics"] = self.pooled
        answers = await self._call_all(lambda store: store.search_text(queries, k, **options))
        return await self._merge(answers, len(queries), k)

    async def get_records(self, ids: Sequence[NodeIdLike]) -> list[Record | None]:
        """Return the record of each `(source, id)`."""
        positions, requests = group_by_corpus(ids, self.members)
        answers = await self._call(requests, lambda store, own: store.get_records(own))
        records: list[Record | None] = [None] * len(ids)
        return scatter_in_order(records, positions, answers, _to_union_record)

    async def records_of(self, artifact_ids: Sequence[NodeIdLike]) -> list[list[Record] | None]:
        """Return the records of each artifact."""
        positions, requests = group_by_corpus(artifact_ids, self.members)
        answers = await self._call(requests, lambda store, own: store.records_of(own))
        records: list[list[Record] | None] = [None] * len(artifact_ids)
        return scatter_in_order(records, positions, answers, lambda _, own: own)

    async def _merge(self, answers: Mapping[str, Sequence[Ranking]], count: int, k: int) -> list[Ranking]:
        rankings = []
        for position in range(count):
            own = {source: rankings[position] for source, rankings in answers.items()}
            is_long = sum(map(len, own.values())) > _OFFLOAD_ABOVE
            rankings.append(await offload_if(is_long, merge_by_score, own, k, _record_key))
        self.rankings = rankings
        return rankings

    async def _call_all(self, call: Callable[[Any], Awaitable[R]]) -> dict[str, R]:
        return await self._call(dict.fromkeys(self.members), lambda store, _: call(store))

    async def _call(self, requests: Mapping[str, T], call: Callable[[Any, T], Awaitable[R]]) -> dict[str, R]:
        """Call each store that has a request and has not failed; return the answers by source."""
        answers: dict[str, R] = {}

        async def call_store(name: str) -> None:
            with anyio.CancelScope(deadline=self.deadline) as scope:
                try:
                    answers[name] = await call(self.members[name].corpus.store, requests[name])
                except Exception as error:  # noqa: BLE001 - a source may fail in any way; the other sources go on
                    self.failures[name] = error
            if scope.cancelled_caught:
                self.failures[name] = TimeoutError("no answer in time")

        names = [name for name in requests if name not in self.failures]
        await map_bounded(call_store, names, limit=_MAX_CONCURRENCY)
        return {name: answers[name] for name in names if name in answers}


def _to_union_record(source: str, record: Record | None) -> Record | None:
    return None if record is None else to_federated_record(source, record)


def _record_key(source: str, record_id: str) -> ArtifactRef:
    # Unlike a text, a pair has no separator that the name of a source could contain.
    return ArtifactRef(source, record_id)


def _group(items: Any, key: Callable[[Any], K]) -> dict[K, list[Any]]:
    groups: dict[K, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
