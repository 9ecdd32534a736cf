"""Several sources together: small ones asked at once, and all of them as one corpus.

Many small sources of this process need a few array operations instead of a few calls each. Each answers as it would
alone.

A search in the union of several corpora equals a search in one corpus that contains them all. Each channel is ranked
over all corpora. Cosines of one embedder can be compared. For BM25, the corpora first add up their word counts, so that
a word weighs the same in all of them. What cannot be compared is a channel of its own: the cosines of another embedder,
and the BM25 scores of a store that cannot count words.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from threading import RLock
from typing import Any, cast, overload
from weakref import ref

import anyio
import anyio.lowlevel

from airw._base.concurrency import in_thread, offload_if
from airw._base.telemetry import record_span
from airw.discovery._federated_reading import (
    FederatedRecord,
    group_by_corpus,
    join_rows,
    merge_by_score,
    to_federated_record,
)
from airw.discovery._floors import Settings
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan
from airw.discovery._sources import AskedSource, CorpusView, Discovery
from airw.errors import AirwError
from airw.protocols import OpenCorpus, Rank, Records, RecordsOf, Request, Store, try_many
from airw.retrieval import Mode, SearchQuery, embed_text, run_search
from airw.retrieval.evidence import CANDIDATES
from airw.retrieval.merging import ChannelRankings, cut_ranking, extends_rankings, merge_rankings
from airw.retrieval.query import PassageReader, default_alpha, rank_weights
from airw.retrieval.searching import join_rankings, rank_requests
from airw.stores import OwnStore
from airw.stores.memory.stack import Stack, choose_small
from airw.stores.memory.store import GroupRanking
from airw.values import ArtifactRef, Ranking, Record, SearchHit
from airw.values.hits import add_facts

_OFFLOAD_ABOVE = 1_000  # ranked rows: merging more of them takes longer than about a millisecond
_AT_ONCE = 32  # answers that are put together without a break: some milliseconds

_MOST_RECORDS = 500  # of one store: ranking more of them together takes as long as one by one
_MOST_IN_ALL = 20_000  # records that are copied: some 60 MB
_MOST_COPIED = 2_000  # records in one discovery, so that it takes little longer than without copies
_MOST_STACKS = 3

_STACKS = dict[frozenset[tuple[str, ref[Store]]], Stack]()
"""The copies of the stores of earlier discoveries, the last discovery at the end."""
_STACKS_LOCK = RLock()  # reentrant: a store may be collected inside


def _find_stack(stores: Mapping[str, Store]) -> Stack | None:
    """Return the copies of stores.

    At first there are none: copies are of use only if the same stores are asked again.
    """
    key = frozenset((name, ref(store, _drop_copies)) for name, store in stores.items())
    with _STACKS_LOCK:
        known = _STACKS.pop(key, None)
        _STACKS[key] = known or Stack(most_records=_MOST_RECORDS, most_in_all=_MOST_IN_ALL)
        for oldest in [*_STACKS][:-_MOST_STACKS]:
            _STACKS.pop(oldest, None)
        return known


def _drop_copies(gone: ref[Store]) -> None:
    """Drop the copies of stores that nobody can ask together any more, as one of them is gone."""
    with _STACKS_LOCK:
        for key in [*_STACKS]:
            if any(store is gone for _, store in key):
                _STACKS.pop(key, None)


class LazyHits(Sequence[SearchHit]):
    """The hits of a source; they are made when somebody looks.

    Of most sources they are only counted, and the best score is found.

    Args:
        source: The name of the source.
        query: Its search.
        found: What it ranks in each channel.
    """

    def __init__(self, source: str, query: SearchQuery, found: Mapping[Mode, GroupRanking]) -> None:
        self._source, self._query, self._found, self._hits = source, query, found, list[SearchHit]()
        depth, weights = query.ranking_depth(len(found)), rank_weights(query.channels, query.alpha or 0.0)
        self._channels = [
            ChannelRankings(kind, [found[kind].ranking.first(depth)], weights[kind]) for kind in query.channels
        ]
        ids = {id for channel in self._channels for id in channel.rankings[0].artifact_ids}
        self._count = min(query.k, len(ids))
        self.top_score = merge_rankings(self._channels, query, 1)[0].score if ids else None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> SearchHit: ...
    @overload
    def __getitem__(self, place: slice) -> list[SearchHit]: ...
    def __getitem__(self, place: int | slice) -> SearchHit | list[SearchHit]:
        if not self._hits:
            records = {record.id: record for own in self._found.values() for record in own.records}
            for record_id, _, score, earlier_scores in merge_rankings(self._channels, self._query, self._count):
                self._hits.append(records[record_id].as_hit(score, self._source))
                add_facts(self._hits[-1].metadata, earlier_scores)
        return self._hits[place]


def choose_small_sources(plan: DiscoveryPlan) -> Collection[str]:
    """Return the names of the sources that may be asked together.

    There are none if the search needs what only each of them can answer.
    """
    search = plan.search
    has_conditions = any(value is not None for value in search.conditions.values())
    is_plain = search.k and not search.has_second_stage and search.formulate is None and not has_conditions
    if not plan.searches_union or not is_plain or plan.dedup_by not in (None, AUTO):
        return ()
    opened: dict[str, Any] = {member.name: member.corpus for member in plan.members if hasattr(member.corpus, "store")}
    embedders = [corpus.embedder.id for corpus in opened.values()]
    most = max({*embedders}, key=embedders.count, default=None)
    # Copies of skills are told apart by their names, which each source knows.
    return choose_small(
        {
            name: corpus.store
            for name, corpus in opened.items()
            if corpus.embedder.id == most and (plan.dedup_by is None or name.casefold() != SKILLS)
        }
    ).keys()


async def ask_together(run: Discovery, names: Collection[str]) -> list[AskedSource]:
    """Ask the sources that can be asked together, and return them.

    The others must be asked one by one.

    Args:
        run: The discovery, which learns what the union of all sources needs.
        names: The sources that may be asked together.
    """
    given = {name: cast("OpenCorpus", run.sources[name].member.corpus) for name in names}
    stores = {name: corpus.store for name, corpus in given.items()}
    stack, asked = _find_stack(stores) if stores else None, list[AskedSource]()
    if stack is None:
        return []
    # Whoever is asked alone raises the errors of an embedder, too.
    with anyio.move_on_after((run.deadline - anyio.current_time()) / 2), suppress(AirwError):
        corpora = {name: run.view(given[name]) for name in sorted(await stack.update(stores, most=_MOST_COPIED))}
        ranked = await _rank(run, stack, corpora)
        query = run.plan.search.for_embedder(next(iter(given.values())).embedder.id)
        hits = await in_thread(lambda: {name: LazyHits(name, query, found) for name, found in ranked.items()})
        for name, found in ranked.items():
            source = run.sources[name]
            source.corpus, source.settings = corpora[name], Settings(*stack.settings_of(name))
            source.rankings, source.hits = {kind: [own.ranking] for kind, own in found.items()}, hits[name]
            source.top_score = hits[name].top_score
            # The best hit has evidence if there is a cosine above 0.
            cosine = max(source.rankings["dense"][0].scores[:1].tolist(), default=0.0) if "dense" in found else 1.0
            source.has_evidence = bool(hits[name]) and (cosine > 0 or any(map(query.has_evidence, hits[name])))
            source.counts, source.has_counted = found["lexical"].counts if "lexical" in found else None, True
            asked.append(source)
        run.stack, run.stacked = stack, frozenset(ranked)
    for place, source in enumerate(asked):
        if place % _AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        run.stop_waiting_for(source.member.name)
        with record_span("source", source.member.name, run.plan.search.text, dict[str, Any]) as span:
            await source.find_floor()
            source.make_report(span)
    return asked


async def _rank(run: Discovery, stack: Stack, corpora: Mapping[str, OpenCorpus]) -> dict[str, dict[Mode, GroupRanking]]:
    """Return what each source ranks alone in each channel.

    The result is empty if the stack has other stores by now.
    """
    search, found = run.plan.search, dict[str, dict[Mode, GroupRanking]]()
    depth = max(search.list_depth, run.union_depth, CANDIDATES)
    for channel in search.channels if corpora else ():
        corpus = next(iter(corpora.values()))
        queries: Any = await embed_text(corpus, search.text) if channel == "dense" else [search.text]
        rankings = await stack.rank_apart(frozenset(corpora), Rank(queries, depth, per_artifact=True))
        if rankings is None:  # for one channel: a later one may find the same stores again
            return {}
        for name, own in rankings.items():
            found.setdefault(name, {})[channel] = own
    return found


# All sources as one


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
    search, names = run.union if has_later_stages else replace(run.union, rerank=None, boost=None), sorted(names)
    # A union of one source is that source.
    if len(run.sources) == len(names) == 1 and search == run.search and not run.factors:
        return UnionAnswer(run.sources[names[0]].hits, search, {})
    weigh = (lambda ref: run.factors.get(ref[0], 1.0)) if run.factors else None
    failures: dict[str, Exception] = {}
    # In the order of their names: nothing may depend on the order in which the caller lists them.
    live = {name: corpus for name in names if (corpus := run.sources[name].corpus) is not None}
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
        run, small = self.run, self.run.stacked & self.corpora.keys() - self.failures.keys()
        if not small or run.stack is None:
            return {}
        counts = run.sources[min(small)].counts
        pooled = None if counts is None else run.pooled.get(counts.formula)
        with anyio.move_on_at(self.deadline):
            requests = list[Rank]()
            for kind in search.channels:
                is_dense = kind == "dense"
                asked = await embed_text(self.corpora[min(small)], search.text) if is_dense else run.queries
                requests += rank_requests(search, asked, run.union_depth, None if is_dense else pooled)
            rankings = await run.stack.read(run.stacked, requests, without=run.stacked - small)
            return dict(zip(search.channels, rankings or (), strict=False))
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
