"""Ask many small sources of this process together.

Each answers as it would alone, but hundreds of them need a few array operations instead of a few calls each.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from threading import RLock
from typing import Any, cast, overload
from weakref import ref

import anyio
import anyio.lowlevel

from airw._base.concurrency import in_thread
from airw._base.telemetry import record_span
from airw.discovery._floors import Settings
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan
from airw.discovery._sources import AskedSource, Discovery
from airw.errors import AirwError
from airw.protocols import OpenCorpus, Rank, Store
from airw.retrieval import Mode, SearchQuery, embed_text
from airw.retrieval.evidence import CANDIDATES
from airw.retrieval.merging import ChannelRankings, merge_rankings
from airw.retrieval.query import rank_weights
from airw.stores.memory.stack import OwnRanking, Stack, choose_small
from airw.values import SearchHit
from airw.values.hits import add_facts

_AT_ONCE = 32  # answers that are put together without a break: some milliseconds

_MOST_RECORDS = 500  # of one store: ranking more of them together takes as long as one by one
_MOST_IN_ALL = 20_000  # records that are copied: some 60 MB
_MOST_COPIED = 2_000  # records in one discovery, so that it takes little longer than without copies
_MOST_STACKS = 3


@dataclass(slots=True, eq=False)
class _Asked:
    """The stores of an earlier discovery, by name, and their copies.

    The copies are `None` if one of the stores is gone.
    """

    stores: Mapping[str, ref[Store]]
    stack: Stack | None


_ASKED = list[_Asked]()  # the last one is that of the last discovery
_ASKED_LOCK = RLock()  # reentrant: a store may be collected inside


def _find_stack(stores: Mapping[str, Store]) -> Stack | None:
    """Return the copies of stores.

    At first they are `None`: copies are of use only if the same stores are asked again.
    """
    wanted = {name: ref(store) for name, store in stores.items()}
    with _ASKED_LOCK:
        asked = next((each for each in _ASKED if each.stores == wanted), None)
        if asked is None:
            stack = Stack(most_records=_MOST_RECORDS, most_in_all=_MOST_IN_ALL)
            new = _Asked({name: ref(store, _drop_copies) for name, store in stores.items()}, stack)
            _ASKED[:] = [*_ASKED, new][-_MOST_STACKS:]
            return None
        _ASKED.remove(asked)
        _ASKED.append(asked)
        return asked.stack


def _drop_copies(_: object) -> None:
    """Drop the copies of stores that nobody can ask together any more, as one of them is gone."""
    for asked in [*_ASKED]:
        if any(store() is None for store in asked.stores.values()):
            asked.stack = None


class LazyHits(Sequence[SearchHit]):
    """The hits of a source: the first one is made at once, the others when somebody looks.

    Of most sources they are only counted.

    Args:
        source: The name of the source.
        query: Its search.
        found: What it ranks in each channel.
    """

    def __init__(self, source: str, query: SearchQuery, found: Mapping[Mode, OwnRanking]) -> None:
        self._source, self._query, self._found = source, query, found
        depth, weights = query.ranking_depth(len(found)), rank_weights(query.channels, query.alpha or 0.0)
        rankings = {kind: found[kind].ranking.first(depth) for kind in query.channels}
        self._channels = [ChannelRankings(kind, [ranking], weights[kind]) for kind, ranking in rankings.items()]
        self._count = min(query.k, len({id for ranking in rankings.values() for id in ranking.artifact_ids}))
        self._hits = self._make(1)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> SearchHit: ...
    @overload
    def __getitem__(self, place: slice) -> list[SearchHit]: ...
    def __getitem__(self, place: int | slice) -> SearchHit | list[SearchHit]:
        if place != 0 and len(self._hits) < self._count:
            self._hits = self._make(self._count)
        return self._hits[place]

    def _make(self, limit: int) -> list[SearchHit]:
        """Return the best hits."""
        rows = (zip(own.ranking.record_ids, own.records, strict=True) for own in self._found.values())
        records, hits = dict(chain.from_iterable(rows)), list[SearchHit]()
        for record_id, artifact_id, score, earlier_scores in merge_rankings(self._channels, self._query, limit):
            hit = replace(records[record_id], artifact_id=artifact_id).as_hit(score, self._source)
            add_facts(hit.metadata, earlier_scores)
            hits.append(hit)
        return hits


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
    corpora = {name: run.view(cast("OpenCorpus", run.sources[name].member.corpus)) for name in names}
    stores = {name: cast("OpenCorpus", run.sources[name].member.corpus).store for name in names}
    stack, asked = _find_stack(stores), list[AskedSource]()
    if stack is None:
        return []
    # Whoever is asked alone raises the errors of an embedder, too.
    with anyio.move_on_after((run.deadline - anyio.current_time()) / 2), suppress(AirwError):
        stacked = await stack.update(stores, most=_MOST_COPIED)
        ranked = await _rank(run, stack, {name: corpora[name] for name in sorted(stacked)})
        query = run.plan.search.for_embedder(next(iter(corpora.values())).embedder.id)
        hits = await in_thread(lambda: {name: LazyHits(name, query, found) for name, found in ranked.items()})
        for name, found in ranked.items():
            source = run.sources[name]
            source.corpus, source.hits, source.settings = corpora[name], hits[name], Settings(*stack.settings_of(name))
            source.rankings = {kind: [own.ranking] for kind, own in found.items()}
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


async def _rank(run: Discovery, stack: Stack, corpora: Mapping[str, OpenCorpus]) -> dict[str, dict[Mode, OwnRanking]]:
    """Return what each source ranks alone in each channel.

    The result is empty if the stack has other stores by now.
    """
    search, found = run.plan.search, dict[str, dict[Mode, OwnRanking]]()
    depth = max(search.list_depth, run.union_depth, CANDIDATES)
    for channel in search.channels if corpora else ():
        corpus = next(iter(corpora.values()))
        queries: Any = await embed_text(corpus, search.text) if channel == "dense" else [search.text]
        rank = Rank(queries, depth, per_artifact=True)
        rankings = await stack.rank_apart(frozenset(corpora), rank)
        if rankings is None:  # for one channel: a later one may find the same stores again
            return {}
        found = {name: {**found.get(name, {}), channel: own} for name, own in rankings.items()}
    return found
