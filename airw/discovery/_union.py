"""The union of several corpora.

A search in it equals a search in one corpus that contains them all.

Each channel is ranked over all corpora. Cosines of one embedder can be compared. For BM25, the corpora first add up
their word counts, so that a word weighs the same in all of them. What cannot be compared is a channel of its own: the
cosines of another embedder, and the BM25 scores of a store that cannot count words.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any, cast

import anyio

from airw._base.concurrency import offload_if
from airw.discovery._federated_reading import (
    FederatedRecord,
    group_by_corpus,
    join_rows,
    merge_by_score,
    to_federated_record,
)
from airw.discovery._sharing import CorpusView
from airw.discovery._sources import Discovery
from airw.protocols import OpenCorpus, Records, RecordsOf, Request, try_many
from airw.retrieval import Mode, SearchQuery, embed_text, run_search
from airw.retrieval.merging import ChannelRankings, cut_ranking, extends_rankings
from airw.retrieval.query import PassageReader, default_alpha, rank_weights
from airw.retrieval.searching import join_rankings, rank_requests
from airw.stores import OwnStore
from airw.values import ArtifactRef, Ranking, Record, SearchHit

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
        union = _Union(run, live, deadline, failures)
        alphas = [default_alpha(id) for id in sorted({corpus.embedder.id for corpus in live.values()})]
        each = search if search.alpha is not None else replace(search, alpha=fmean(alphas))
        if callable(each.rerank_text):
            each = replace(each, rerank_text=_route_reader(live, each.rerank_text))
        corpus = CorpusView("", union, next(iter(live.values())).embedder)
        hits = await run_search(corpus, each, run.queries, rank=union.rank_channels, weigh=weigh)
        live = {name: corpus for name, corpus in live.items() if name not in failures}
        # A source that fails halfway may have pushed others down in one channel: search once more without it.
        if len(live) == len(union.corpora):
            channels = {channel.kind: channel for channel in union.channels}
            is_plain = len(channels) == len(union.channels) and len(run.queries) == 1
            return UnionAnswer(hits, each, failures, channels if is_plain else {})
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
class _Union(OwnStore):
    """Several sources as one, and the store of their records.

    Artifacts and records are `(source, id)`. A source that fails is noted in `failures`, and answers nothing from then
    on. `channels` are the last rankings.
    """

    capabilities = frozenset({"records"})
    run: Discovery
    corpora: Mapping[str, OpenCorpus]
    deadline: float
    failures: dict[str, Exception]
    channels: Sequence[ChannelRankings] = ()

    async def rank_channels(self, search: SearchQuery) -> Sequence[ChannelRankings]:
        """Return the rankings of each channel over all sources.

        There is a dense channel for each embedder, and a lexical one for each formula. A store that cannot count words
        has a lexical channel of its own. One that lacks a channel has no part in it.
        """
        run, groups = self.run, dict[tuple[Mode, Hashable], dict[str, Sequence[Ranking]]]()
        ranked = await self._collect_rankings(search)
        for kind in search.channels:
            for name in self.corpora:
                if name in ranked[kind]:
                    groups.setdefault((kind, run.sources[name].scales[kind]), {})[name] = ranked[kind][name]
        depth = search.ranking_depth(len(groups) * len(run.queries), has_later_stage=bool(run.factors))
        channels = []
        for (kind, scale), own in groups.items():
            # The cosines of each embedder have the weight that suits it.
            is_own = kind == "dense" and run.union.alpha is None
            alpha = default_alpha(str(scale)) if is_own else search.alpha or 0.0
            rankings = []
            for place in range(len(run.queries)):
                rows = [(name, each[place]) for name, each in own.items()]
                is_long = sum(len(ranking) for _, ranking in rows) > _OFFLOAD_ABOVE
                rankings.append(await offload_if(is_long, _merge, rows, depth, search))
            channels.append(ChannelRankings(kind, rankings, rank_weights(search.channels, alpha)[kind]))
        self.channels = channels
        return channels

    async def _collect_rankings(self, search: SearchQuery) -> Mapping[Mode, Mapping[str, Sequence[Ranking]]]:
        """Return what each source ranks in each channel.

        Texts are ranked with the word counts of all sources, if all have counted.
        """
        run = self.run
        ranked = await self._rank_small(search)
        alone = {name: run.sources[name] for name in self.corpora if name not in run.stacked or not ranked}
        missing = {name: ranks for name, source in alone.items() if (ranks := source.list_pooled_ranks())}
        for name, answers in (await self._ask(missing)).items():
            run.sources[name].pooled = join_rankings(answers)
        ranked = ranked or {kind: {} for kind in search.channels}
        for name, source in alone.items():
            if name not in self.failures:
                for kind, own in source.rankings.items():
                    ranked[kind][name] = source.pooled if kind == "lexical" and source.pooled is not None else own
        return ranked

    async def _rank_small(self, search: SearchQuery) -> dict[Mode, dict[str, Sequence[Ranking]]]:
        """Return what the small sources rank, which answer together; nothing if they cannot."""
        run, ranked = self.run, dict[Mode, dict[str, Sequence[Ranking]]]()
        small = run.stacked & self.corpora.keys() - self.failures.keys()
        if not small or run.stack is None:
            return {}
        first = run.sources[min(small)]
        with anyio.move_on_at(self.deadline):
            for kind in search.channels:
                is_dense = kind == "dense"
                asked = await embed_text(self.corpora[first.member.name], search.text) if is_dense else run.queries
                counts = None if is_dense or first.counts is None else run.pooled.get(first.counts.formula)
                requests = rank_requests(search, asked, run.union_depth, counts)
                [own] = await run.stack.read(run.stacked, requests, without=run.stacked - small) or [None]
                if own is None:
                    return {}
                ranked[kind] = own
            return ranked
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
        own = group_by_corpus(ids, self.corpora)
        answers = await self._ask({source: [make(ids)] for source, ids in own.items()})
        return join_rows(ids, ((source, own[source], rows) for source, [rows] in answers.items()), convert)

    async def _ask(self, requests: Mapping[str, Sequence[Request[Any]]]) -> dict[str, list[Any]]:
        """Ask each store that has not failed; return its answers by source."""
        names = [name for name in requests if name not in self.failures]
        calls = [(self.corpora[name].store, requests[name]) for name in names]
        found = await try_many(calls, timeout=max(self.deadline - anyio.current_time(), 0.0))
        self.failures |= {name: each for name, each in zip(names, found, strict=True) if isinstance(each, Exception)}
        return {name: each for name, each in zip(names, found, strict=True) if not isinstance(each, Exception)}


def _merge(rankings: Sequence[tuple[str, Ranking]], depth: int, search: SearchQuery) -> Ranking:
    longest = None if extends_rankings(search) else depth
    return cut_ranking(merge_by_score(rankings, longest, ArtifactRef), depth, search)
