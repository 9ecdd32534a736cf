"""The union of several corpora.

A search in it equals a search in one corpus that contains them all.

Each channel is ranked over all corpora. Cosines of one embedder can be compared. For BM25, the corpora first add up
their word counts, so that a word weighs the same in all of them. What cannot be compared is a channel of its own: the
cosines of another embedder, and the BM25 scores of a store that cannot count words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any, cast

import anyio

from airw._base.concurrency import offload_if
from airw.discovery._federated_answers import (
    FederatedRecord,
    group_by_corpus,
    join_rows,
    merge_by_score,
    to_federated_record,
)
from airw.discovery._remembering import CorpusView
from airw.discovery._sources import Discovery
from airw.embedders import first_usable
from airw.protocols import OpenCorpus, Rank, Records, RecordsOf, Request, try_many
from airw.retrieval import Mode, SearchQuery
from airw.retrieval.merging import ChannelRankings
from airw.retrieval.query import PassageReader, default_alpha, rank_weights
from airw.retrieval.searching import Channel, run_search
from airw.stores import OwnStore
from airw.values import ArtifactRef, Ranking, Record, SearchHit, TermCounts

_OFFLOAD_ABOVE = 1_000  # ranked rows: merging more of them takes longer than about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class UnionAnswer:
    """The answer of a union.

    Args:
        hits: The hits, best first.
        search: The search, with the `alpha` of the embedder.
        failures: The error of each source that failed meanwhile. The hits are those of the other sources.
        channels: The ranking of each kind of channel; empty if there are several channels of a kind, or queries.
    """

    hits: Sequence[SearchHit]
    search: SearchQuery
    failures: Mapping[str, Exception]
    channels: Mapping[Mode, ChannelRankings] = field(default_factory=dict)


async def search_union(
    run: Discovery, names: Iterable[str], *, deadline: float, has_later_stages: bool = True
) -> UnionAnswer:
    """Search the union of several sources; one that fails is left out.

    Args:
        run: The discovery.
        names: The sources.
        deadline: The time on the clock of the event loop at which a source fails that has not answered.
        has_later_stages: Whether to rerank and boost.
    """
    search = run.union if has_later_stages else replace(run.union, rerank=None, boost=None)
    weigh = (lambda ref: run.factors.get(ref[0], 1.0)) if run.factors else None
    failures: dict[str, Exception] = {}
    # In the order of their names: nothing may depend on the order in which the caller lists them.
    live = {name: corpus for name in sorted(names) if (corpus := run.sources[name].corpus) is not None}
    while live:
        store = _UnionStore(run, live, deadline, failures)
        alphas = [default_alpha(id) for id in sorted({corpus.embedder.id for corpus in live.values()})]
        each = search if search.alpha is not None else replace(search, alpha=fmean(alphas))
        if callable(each.rerank_text):
            each = replace(each, rerank_text=_route_reader(live, each.rerank_text))
        parts = store.split(each)
        channels = [channel for channel, _ in parts]
        corpus = CorpusView("", store, channels[0].corpus.embedder)
        hits = await run_search(corpus, each, run.queries, channels=channels, weigh=weigh)
        live = {name: corpus for name, corpus in live.items() if name not in failures}
        # A source that fails halfway may have pushed others down in one channel. Search once more without it; what the
        # others have ranked is remembered.
        if len(live) == len(store.corpora):
            if len(channels) > len(search.channels) or len(run.queries) > 1:
                return UnionAnswer(hits, each, failures)
            rankings = [ChannelRankings(channel.kind, part.rankings, channel.weight) for channel, part in parts]
            return UnionAnswer(hits, each, failures, {channel.kind: channel for channel in rankings})
    return UnionAnswer((), search, failures)


def _route_reader(corpora: Mapping[str, OpenCorpus], reader: PassageReader) -> PassageReader:
    """Return a reader that calls `reader` with the corpus of a record.

    The record is the one that its corpus knows.
    """

    def read(_: OpenCorpus, record: Record) -> Any:
        source = cast("FederatedRecord", record).source
        own = {item.name: getattr(record, item.name) for item in fields(Record)}
        return reader(corpora[source], Record(**own | {"id": record.id.removeprefix(f"{source}/")}))

    return read


@dataclass(slots=True, eq=False)
class _UnionStore(OwnStore):
    """What a search needs, answered by several stores.

    Artifacts and records are `(source, id)`. A store that fails is noted in `failures` and answers nothing from then
    on. `rankings` are those of the last search.
    """

    capabilities = frozenset({"dense", "lexical", "phrases", "records"})
    run: Discovery
    corpora: Mapping[str, OpenCorpus]
    deadline: float
    failures: dict[str, Exception]
    pooled: TermCounts | None = None
    rankings: Sequence[Ranking] = ()

    def split(self, search: SearchQuery) -> list[tuple[Channel, "_UnionStore"]]:
        """Return the channels, each with its store.

        There is a dense channel for each embedder, and a lexical one for each formula. A store that cannot count words
        has a lexical channel of its own. One that lacks a channel has no part in it.
        """
        groups: dict[tuple[Mode, object], dict[str, OpenCorpus]] = {}
        for kind in search.channels:
            for name, corpus in self.corpora.items():
                counts = self.run.sources[name].counts
                scale = corpus.embedder.id if kind == "dense" else name if counts is None else (counts.formula,)
                if kind in corpus.store.capabilities:
                    groups.setdefault((kind, scale), {})[name] = corpus
        parts = []
        for (kind, _), corpora in groups.items():
            embedder = first_usable(corpus.embedder for corpus in corpora.values())
            # The cosines of each embedder have the weight that suits it.
            is_own = kind == "dense" and self.run.union.alpha is None
            alpha = default_alpha(embedder.id) if is_own else search.alpha or 0.0
            weight = rank_weights(search.channels, alpha)[kind]
            counts = self.run.sources[next(iter(corpora))].counts
            pooled = None if counts is None else self.run.pooled.get(counts.formula)
            part = replace(self, corpora=corpora, pooled=pooled)
            parts.append((Channel(kind, CorpusView("", part, embedder), weight), part))
        return parts

    async def rank(self, request: Rank) -> list[Ranking]:
        """Return the best of all stores for each query."""
        if request.needs == "lexical" and self.pooled is not None:
            request = replace(request, statistics=self.pooled)
        small = self.run.stacked & self.corpora.keys() - self.failures.keys()
        together: dict[str, list[Ranking]] | None = None
        if small and self.run.stack is not None:
            with anyio.move_on_at(self.deadline):
                without = self.run.stacked - small
                [together] = await self.run.stack.read(self.run.stacked, [request], without=without) or [None]
        asked = self.corpora if together is None else self.corpora.keys() - small
        answers = (together or {}) | await self._ask({name: request for name in self.corpora if name in asked})
        rankings = []
        for place in range(len(request.queries)):
            own = [(source, ranked[place]) for source, ranked in answers.items()]
            is_long = sum(len(ranking) for _, ranking in own) > _OFFLOAD_ABOVE
            rankings.append(await offload_if(is_long, merge_by_score, own, request.k, ArtifactRef))
        self.rankings = rankings
        return rankings

    async def records(self, request: Records) -> list[Record | None]:
        """Return the record of each `(source, id)`."""
        return await self._read_rows(request.ids, Records, to_federated_record)

    async def records_of(self, request: RecordsOf) -> list[list[Record] | None]:
        """Return the records of each artifact, as its corpus knows them."""
        return await self._read_rows(request.artifact_ids, RecordsOf, lambda _, records: records)

    async def _read_rows(
        self, ids: Sequence[Any], make: Callable[[list[str]], Request[Any]], convert: Callable[[str, Any], Any]
    ) -> list[Any]:
        _, own = group_by_corpus(ids, self.corpora)
        answers = await self._ask({source: make(ids) for source, ids in own.items()})
        return join_rows(ids, ((source, own[source], rows) for source, rows in answers.items()), convert)

    async def _ask(self, requests: Mapping[str, Request[Any]]) -> dict[str, Any]:
        """Ask each store that has not failed; return the answers by source."""
        names = [name for name in requests if name not in self.failures]
        calls = [(self.corpora[name].store, [requests[name]]) for name in names]
        found = await try_many(calls, timeout=max(self.deadline - anyio.current_time(), 0.0))
        answers: dict[str, Any] = {}
        for name, answer in zip(names, found, strict=True):
            if isinstance(answer, Exception):
                self.failures[name] = answer
            else:
                [answers[name]] = answer
        return answers
