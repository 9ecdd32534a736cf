"""The union of several corpora.

A search in it equals a search in one corpus that contains them all.

Each channel is ranked over all corpora. Cosines of one embedder can be compared. For BM25, the corpora first add up
their word counts, so that a word weighs the same in all of them. What cannot be compared is a channel of its own: the
cosines of another embedder, and the BM25 scores of a store that cannot count words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar, cast

import anyio
import numpy as np

from airw._base.concurrency import offload_if
from airw.discovery._federated_answers import (
    FederatedRecord,
    group_by_corpus,
    join_rows,
    merge_by_score,
    to_federated_record,
)
from airw.embedders import first_usable
from airw.protocols import (
    Calibrations,
    Config,
    Embedder,
    Fed,
    OpenCorpus,
    Rank,
    Records,
    RecordsOf,
    Request,
    Store,
    Words,
    ask,
    try_many,
)
from airw.retrieval import Mode, SearchQuery
from airw.retrieval.merging import ChannelRankings
from airw.retrieval.query import PassageReader, default_alpha, rank_weights
from airw.retrieval.searching import Channel, run_search
from airw.stores import OwnStore, Wrapper
from airw.stores.memory.stack import Stack
from airw.values import ArtifactRef, Ranking, Record, SearchHit, TermCounts

K = TypeVar("K")

_OFFLOAD_ABOVE = 1_000  # ranked rows: merging more of them takes longer than about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class CorpusView:
    """A corpus with another store or another embedder."""

    name: str
    store: Store
    embedder: Embedder


class RememberingStore(Wrapper):
    """A store that remembers its answers during one discovery.

    A discovery asks each source for its own ranking, for the evidence of its best hits, and then for its part of the
    union: most answers are the same. All searches of a discovery have the same filter and surfaces.

    Args:
        store: The store.
        depth: The length of the longest ranking that will be needed; a shorter one is read as long at once.
    """

    def __init__(self, store: Store, depth: int = 0) -> None:
        super().__init__(store)
        self._depth = depth
        self._rankings: dict[tuple[object, ...], tuple[int, list[Ranking]]] = {}
        self._records: dict[str, Record | None] = {}
        self._others: dict[object, Any] = {}  # counts of words, by the queries, and settings, by the kind of request

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request; the store is asked for what is not known yet."""
        if any(isinstance(request, Fed) for request in requests):
            return await self.store.read(*requests)  # a chain names requests that must be sent then
        new = [self._find_new(request) for request in requests]
        answers = iter(await self.store.read(*(request for request in new if request is not None)) if any(new) else ())
        return [
            self._recall(request, asked, None if asked is None else next(answers))
            for request, asked in zip(requests, new, strict=True)
        ]

    def learn(self, request: Request[Any], answer: Any) -> None:
        """Remember an answer of the store that somebody else has."""
        self._recall(request, request, answer)

    def _find_new(self, request: Request[Any]) -> Request[Any] | None:
        """Return what the store must be asked for an answer, or `None`."""
        match request:
            case Records():
                ids = [id for id in request.ids if id not in self._records]
                return Records(ids) if ids else None
            case Words() | Calibrations() | Config():
                return None if _key_of_other(request) in self._others else request
            case Rank(k=int(k), among=None, records=None):
                depth, _ = self._rankings.get(_key_of(request), (-1, []))
                return None if depth >= k else replace(request, k=max(k, self._depth))
        return request

    def _recall(self, request: Request[Any], asked: Any, answer: Any) -> Any:
        """Note an answer of the store, and return that of the request."""
        match request:
            case Records():
                if asked is not None:
                    self._records.update(zip(asked.ids, answer, strict=True))
                return [self._records[id] for id in request.ids]
            case Words() | Calibrations() | Config():
                return self._others.setdefault(_key_of_other(request), answer)
            case Rank(k=int(k), among=None, records=None):
                if asked is not None:
                    self._rankings[_key_of(request)] = asked.k, answer
                depth, rankings = self._rankings[_key_of(request)]
                # A longer ranking begins with the shorter one.
                return rankings if depth == k else [ranking.first(k) for ranking in rankings]
        return answer


def _key_of(rank: Rank) -> tuple[object, ...]:
    queries = rank.queries.tobytes() if isinstance(rank.queries, np.ndarray) else tuple(rank.queries)
    return queries, rank.per_artifact, id(rank.statistics)


def _key_of_other(request: Request[Any]) -> object:
    return tuple(request.queries) if isinstance(request, Words) else type(request)


@dataclass(frozen=True, slots=True, eq=False)
class SmallSources:
    """Sources that rank together, by their names, and the copies of their stores that do so."""

    stack: Stack
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class UnionMember:
    """A source that takes part in a union: its open corpus, and its word counts or `None`."""

    corpus: OpenCorpus
    counts: TermCounts | None


async def count_terms(
    corpus: OpenCorpus, search: SearchQuery | None, queries: Sequence[str], *, with_settings: bool = False
) -> TermCounts | None:
    """Return the word counts of a corpus for these queries; `None` if its store cannot count.

    Args:
        corpus: The corpus.
        search: The search; if it ranks no texts, or is `None`, no words are counted.
        queries: The queries.
        with_settings: Whether to read the settings in the same call, as the floor needs them soon.
    """
    can = corpus.store.capabilities
    requests: list[Request[Any]] = [Calibrations(), Config()] if with_settings and "settings" in can else []
    if search is not None and "lexical" in search.channels and "words" in can:
        requests.append(Words(queries))
    answers = await corpus.store.read(*requests) if requests else [None]
    return answers[-1] if requests and isinstance(requests[-1], Words) else None


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
        stack: The small sources, which rank together.
    """

    search: SearchQuery
    queries: Sequence[str]
    pooled: Mapping[str, TermCounts]
    weights: Mapping[str, float]
    deadline: float
    stack: SmallSources | None = None

    async def run(self, members: Mapping[str, UnionMember]) -> UnionAnswer:
        """Search the union of these members; a member that fails is left out."""
        failures: dict[str, Exception] = {}
        # In the order of their names: nothing may depend on the order in which the caller lists them.
        live = dict(sorted(members.items()))
        while live:
            store = _UnionStore(live, self.deadline, failures, self.stack)
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
            await ask(
                member.corpus.store,
                Rank(
                    self.queries,
                    self.search.ranking_depth(n_rankings, has_later_stage=bool(self.weights)),
                    filter=self.search.filter,
                    surfaces=self.search.surfaces,
                    per_artifact=self.search.ranks_artifacts,
                    statistics=self.pooled[member.counts.formula],
                ),
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
            able = [item for item in store.members.items() if kind in item[1].corpus.store.capabilities]
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

    def read(_: OpenCorpus, record: Record) -> Any:
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
class _UnionStore(OwnStore):
    """What a search needs, answered by several stores.

    Artifacts and records are `(source, id)`. A store that fails is noted in `failures` and answers nothing from then
    on. `rankings` are those of the last search, and `together` are the small sources that have answered it together.
    """

    capabilities = frozenset({"dense", "lexical", "records"})
    members: Mapping[str, UnionMember]
    deadline: float
    failures: dict[str, Exception]
    stack: SmallSources | None = None
    pooled: TermCounts | None = None
    rankings: Sequence[Ranking] = ()
    together: frozenset[str] = frozenset()

    async def rank(self, request: Rank) -> list[Ranking]:
        """Return the best of all stores for each query."""
        if request.needs == "lexical" and self.pooled is not None:
            request = replace(request, statistics=self.pooled)
        answers = await self._rank_small(request)
        answers |= await self._ask({name: request for name in self.members if name not in self.together})
        rankings = []
        for place in range(len(request.queries)):
            own = [(source, ranked[place]) for source, ranked in answers.items()]
            is_long = sum(len(ranking) for _, ranking in own) > _OFFLOAD_ABOVE
            rankings.append(await offload_if(is_long, merge_by_score, own, request.k, ArtifactRef))
        self.rankings = rankings
        return rankings

    async def _rank_small(self, request: Rank) -> dict[str, list[Ranking]]:
        """Return the rankings of the small sources that have rows among the best.

        All that were asked are noted in `together`.
        """
        self.together = frozenset()
        small = self.stack.names & self.members.keys() - self.failures.keys() if self.stack else frozenset[str]()
        if self.stack and small:
            with anyio.move_on_at(self.deadline):
                found = await self.stack.stack.read(self.stack.names, [request], without=self.stack.names - small)
                if found is not None:
                    self.together = small
                    return dict(found[0])
        return {}

    async def records(self, request: Records) -> list[Record | None]:
        """Return the record of each `(source, id)`."""
        return await self._read_rows(request.ids, Records, to_federated_record)

    async def records_of(self, request: RecordsOf) -> list[list[Record] | None]:
        """Return the records of each artifact, as its corpus knows them."""
        return await self._read_rows(request.artifact_ids, RecordsOf, lambda _, records: records)

    async def _read_rows(
        self, ids: Sequence[Any], make: Callable[[list[str]], Request[Any]], convert: Callable[[str, Any], Any]
    ) -> list[Any]:
        _, own = group_by_corpus(ids, self.members)
        answers = await self._ask({source: make(ids) for source, ids in own.items()})
        return join_rows(ids, ((source, own[source], rows) for source, rows in answers.items()), convert)

    async def _ask(self, requests: Mapping[str, Request[Any]]) -> dict[str, Any]:
        """Ask each store that has not failed; return the answers by source."""
        names = [name for name in requests if name not in self.failures]
        calls = [(self.members[name].corpus.store, [requests[name]]) for name in names]
        found = await try_many(calls, timeout=max(self.deadline - anyio.current_time(), 0.0))
        answers: dict[str, Any] = {}
        for name, answer in zip(names, found, strict=True):
            if isinstance(answer, Exception):
                self.failures[name] = answer
            else:
                [answers[name]] = answer
        return answers


def _group(items: Any, key: Callable[[Any], K]) -> dict[K, list[Any]]:
    groups: dict[K, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
