"""Ask many small sources of this process together.

Each answers as it would alone, but hundreds of them need a few array operations instead of a few calls each.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock
from typing import Any, TypeAlias, cast, overload
from weakref import ref

import anyio
import anyio.lowlevel

from airw._base.concurrency import in_thread
from airw._base.telemetry import record_span
from airw.discovery._floors import find_floor
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan
from airw.discovery._remembering import RememberingStore
from airw.discovery._sources import AskedSource, Discovery
from airw.errors import AirwError
from airw.protocols import Calibrations, Config, OpenCorpus, Rank, Store
from airw.retrieval import Mode, SearchQuery, embed_text
from airw.retrieval.evidence import CANDIDATES, evidence_of
from airw.retrieval.merging import Candidate, ChannelRankings, merge_rankings
from airw.retrieval.query import rank_weights
from airw.stores.memory.stack import OwnRanking, Stack, choose_small
from airw.values import Record, SearchHit, TermCounts
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


class RankedHits(Sequence[SearchHit]):
    """The hits of a source, which are made when somebody looks.

    Of most sources they are only counted.

    Args:
        candidates: What is ranked, best first.
        make: Makes a hit.
    """

    def __init__(self, candidates: Sequence[Candidate], make: Callable[[Candidate], SearchHit]) -> None:
        self._candidates, self._make = candidates, make

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, place: int) -> SearchHit: ...
    @overload
    def __getitem__(self, place: slice) -> list[SearchHit]: ...
    def __getitem__(self, place: int | slice) -> SearchHit | list[SearchHit]:
        if isinstance(place, slice):
            return [*map(self._make, self._candidates[place])]
        return self._make(self._candidates[place])


_Own: TypeAlias = tuple[Mapping[Mode, OwnRanking], RankedHits]
"""What each channel of a source ranks, and its hits."""


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
    opened = {name: cast("OpenCorpus", run.sources[name].member.corpus) for name in names}
    stores = {name: corpus.store for name, corpus in opened.items()}
    search, stack = run.plan.search, _find_stack(stores)
    if stack is None:
        return []
    found: Mapping[str, _Own] = {}
    views = {name: run.view(corpus, 0) for name, corpus in opened.items()}
    # Whoever is asked alone raises the errors of an embedder, too.
    with anyio.move_on_after((run.deadline - anyio.current_time()) / 2), suppress(AirwError):
        stacked = await stack.update(stores, most=_MOST_COPIED)
        own = await _rank(search, stack, {name: views[name] for name in sorted(stacked)})
        found = await in_thread(
            lambda: {name: (own[name], _merge(search, name, views[name], own[name])) for name in own}
        )
    if found:
        run.stack, run.stacked = stack, frozenset(found)
    counts = [ranked["lexical"].counts for ranked, _ in found.values() if "lexical" in ranked]
    pooled = TermCounts.sum(filter(None, counts)) if any(counts) else None
    for name, (_, hits) in found.items():
        source = run.sources[name]
        source.corpus, source.hits, source.has_counted, source.counts = views[name], hits, True, pooled
        run.stop_waiting_for(name)
    for place, (name, (ranked, _)) in enumerate(found.items()):
        if place % _AT_ONCE == 0:
            await anyio.lowlevel.checkpoint()
        with record_span("source", name, search.text, dict[str, Any]) as span:
            await _find_floor(run.sources[name], ranked, *stack.settings_of(name))
            run.sources[name].make_report(span)
    return [run.sources[name] for name in found]


async def _rank(
    search: SearchQuery, stack: Stack, corpora: Mapping[str, OpenCorpus]
) -> dict[str, dict[Mode, OwnRanking]]:
    """Return what each source ranks alone in each channel.

    The result is empty if the stack has other stores by now.
    """
    found: dict[str, dict[Mode, OwnRanking]] = {name: {} for name in corpora}
    depth = max(search.ranking_depth(len(search.channels)), CANDIDATES)
    for channel in search.channels if corpora else ():
        corpus = next(iter(corpora.values()))
        queries: Any = await embed_text(corpus, search.text) if channel == "dense" else [search.text]
        rankings = await stack.rank_apart(frozenset(corpora), Rank(queries, depth, per_artifact=True))
        if rankings is None:  # for one channel: a later one may find the same stores again
            return {}
        found = {name: {**found[name], channel: own} for name, own in rankings.items()}
    return found


def _merge(search: SearchQuery, source: str, corpus: OpenCorpus, found: Mapping[Mode, OwnRanking]) -> RankedHits:
    """Merge what the channels of a source have ranked."""
    query, depth = search.for_embedder(corpus.embedder.id), search.ranking_depth(len(search.channels))
    weights = rank_weights(search.channels, query.alpha or 0.0)
    channels = [ChannelRankings(kind, [found[kind].ranking.first(depth)], weight) for kind, weight in weights.items()]
    records = {
        id: record for own in found.values() for id, record in zip(own.ranking.record_ids, own.records, strict=True)
    }
    return RankedHits(merge_rankings(channels, query, query.k), partial(_to_hit, source, records))


def _to_hit(source: str, records: Mapping[str, Record], candidate: Candidate) -> SearchHit:
    hit = replace(records[candidate.record_id], artifact_id=candidate.artifact_id).as_hit(candidate.score, source)
    add_facts(hit.metadata, candidate.earlier_scores)
    return hit


async def _find_floor(
    source: AskedSource, found: Mapping[Mode, OwnRanking], config: Mapping[str, Any], calibrations: Mapping[str, Any]
) -> None:
    """Find the floor of a source, if it may have one."""
    plan, name, corpus = source.run.plan, source.member.name, source.corpus
    if corpus is not None and (calibrations or plan.floors[name] != AUTO or plan.is_floor_requested):
        store = cast("RememberingStore", corpus.store)
        store.learn(Config(), config)
        store.learn(Calibrations(), calibrations)
        rankings = {kind: own.ranking for kind, own in found.items()}
        counts = found["lexical"].counts if "lexical" in found else None
        evidence = evidence_of(rankings.get("dense"), rankings.get("lexical"), counts)
        source.found = await find_floor(corpus, plan, name, evidence)
