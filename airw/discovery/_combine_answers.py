"""Combine the answers of all sources into one result: fuse, select, disclose."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from airw._base.concurrency import call_user_function, offload_if
from airw._base.messages import short_repr
from airw.discovery._final_places import PendingBound, bounds_of, final_places, final_union_places
from airw.discovery._planning import DiscoveryPlan
from airw.discovery._sources import AskedSource, Discovery, drop_copies
from airw.discovery._union import search_union
from airw.discovery.disclosure import DiscoveryResult, disclose
from airw.discovery.federated import no_answer
from airw.discovery.selection import (
    Selection,
    SourceScales,
    abstain,
    list_scales,
    select,
    select_by_evidence,
    sums_ranks,
    weigh_hits,
)
from airw.errors import ArgumentError
from airw.retrieval import Mode, explain_no_hits, fuse_hits
from airw.retrieval.fusion import fuse_entries, merge_copies
from airw.values import SearchHit
from airw.values.hits import with_facts

_OFFLOAD_ABOVE = 500  # pairs of artifacts; comparing so many takes about half a millisecond


async def combine_answers(run: Discovery) -> DiscoveryResult:
    """Return the result of a discovery; it does not depend on the order of the answers.

    Raises:
        DiscoveryError: If no source answered.
        ArgumentError: If the scores of the sources cannot be merged, or a function returns something else than hits.
    """
    plan, sources = run.plan, [*run.sources.values()]
    _require_answer(run)
    if plan.walk is None and not any(source.hits or source.error for source in sources):
        await explain_no_hits(plan.search, [source.corpus for source in sources if source.corpus])
    hits = await _fuse_union(run) if plan.searches_union else None
    merge = "custom" if callable(plan.merge) else plan.merge
    if hits is None:
        # A reranker may hang in the union. What the sources have ranked is here, and is fused without asking anyone.
        merge = "rrf-by-source" if plan.searches_union else merge
        has_evidence = plan.walk is None and (plan.searches_union or not plan.is_multi_source)
        hits = await _fuse_sources(run, needs_evidence=has_evidence)
    selection = await _select_hits(run, hits)
    corpora = None
    if plan.expand is not None:
        corpora = {source: corpus for member in plan.members for source, corpus in member.corpora.items()}
    results = await disclose(
        selection,
        level=plan.disclose_level,
        loader=plan.loader,
        store=plan.store,
        expand=plan.expand,
        corpus=corpora,
        roots=plan.roots,
    )
    return DiscoveryResult(
        query=plan.query,
        mode=plan.mode,
        strategy="custom" if callable(plan.strategy) else plan.strategy,
        disclose_level=plan.disclose_level,
        results=results,
        abstained=selection.abstained,
        reason=_reason(plan, selection, sources),
        n_retrieved=sum(len(source.hits) for source in sources),
        signals=_signals(run, selection, merge),
    )


def _require_answer(run: Discovery) -> None:
    """Raise if all sources failed; a single corpus raises its own error."""
    causes = {name: source.error for name, source in run.sources.items() if source.error is not None}
    if len(causes) < len(run.sources):
        return
    only = next(iter(run.sources.values()))
    if not run.plan.is_multi_source and only.error is not None and only.report["status"] == "failed":
        raise only.error
    raise no_answer("no source answered", causes)


async def _fuse_union(run: Discovery) -> Sequence[SearchHit] | None:
    """Return the candidates of all sources; `None` if that takes too long."""
    plan, now, deadline = run.plan, anyio.current_time(), run.union_deadline
    embedders = {name: source.embedder_id for name, source in run.sources.items() if source.error is None}
    # Cosines of different embedders are on different scales.
    if (plan.merge == "score" or plan.union_search.adds_scores) and len({*embedders.values()}) > 1:
        named = ", ".join(f"{source}: {id}" for source, id in embedders.items())
        raise ArgumentError(f"merge={plan.merge!r} needs one embedder for all corpora, not {named}; use 'rrf'")
    with anyio.move_on_at(deadline):
        # A source that is late in the union has half the time: the rest is for the union without it.
        union = await search_union(run, _take_part(run.sources.values()), deadline=(now + deadline) / 2)
        for name, error in union.failures.items():
            run.sources[name].fail(error)
        _require_answer(run)
        return _drop_copies(plan, union.hits)
    return None


def _take_part(sources: Iterable[AskedSource]) -> list[str]:
    """Return the names of the sources that take part in the union.

    They have answered, and are not below their floor.

    A source without evidence takes part: one corpus that contains all would rank its artifacts too.
    """
    able = (source for source in sources if source.error is None and source.report["reason"] != "below_floor")
    return [source.member.name for source in able]


def _drop_copies(plan: DiscoveryPlan, hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Return the hits with evidence, without copies of the same thing."""
    candidates = [*filter(plan.search.has_evidence, hits)]
    by_source: dict[str, list[SearchHit]] = {}
    for hit in candidates:
        by_source.setdefault(hit.source or "", []).append(hit)
    kept = {id(hit) for source, own in by_source.items() for hit in drop_copies(own, plan.dedup_by, source)}
    return merge_copies([hit for hit in candidates if id(hit) in kept], plan.identity)


async def _fuse_sources(run: Discovery, *, needs_evidence: bool) -> list[SearchHit]:
    """Fuse the rankings of the sources, or let the function of the caller do it."""
    plan, ranked = run.plan, _rank_by_source(run, {*run.sources.values()})
    if needs_evidence:
        ranked = {source: [*filter(plan.search.has_evidence, hits)] for source, hits in ranked.items()}
    if not callable(plan.merge):
        return _fuse(plan, ranked)
    hits = [*await call_user_function(plan.merge, {source: hits for source, hits in ranked.items() if hits})]
    others = [hit for hit in hits if not isinstance(hit, SearchHit)]
    if others:
        raise ArgumentError(f"merge must return SearchHits, not {short_repr(others[0])}")
    return hits


def _rank_by_source(run: Discovery, heard: Collection[AskedSource]) -> dict[str, Sequence[SearchHit]]:
    """Return the hits of each source that take part, in the order that decides ties.

    In `ir`, whose fusion is `"rrf-by-source"`, this is the order of the caller. Elsewhere the best score decides, then
    the name: nothing may depend on the order in which the corpora are listed. A source that is pending has no hits,
    and comes first: it may turn out to have the best score of all.
    """
    sources = [*run.sources.values()]
    if not _keeps_order(run.plan):
        sources.sort(key=lambda each: (each in heard, -(each.hits[0].score if each.hits else 0.0), each.member.name))
    return {source.member.name: source.survivors if source in heard else () for source in sources}


def _fuse(plan: DiscoveryPlan, ranked: Mapping[str, Sequence[SearchHit]]) -> list[SearchHit]:
    """Fuse the rankings of the sources by rank."""
    return fuse_hits(ranked, **_fusion_of(plan), k=plan.search.k)


def _fusion_of(plan: DiscoveryPlan) -> dict[str, Any]:
    return {"rrf_k": plan.rrf_k, "weights": plan.merge_weights, "identity": plan.identity}


def _keeps_order(plan: DiscoveryPlan) -> bool:
    """Return whether the order of the caller decides ties: in `ir`, or if a function merges."""
    return callable(plan.merge) or plan.merge == "rrf-by-source"


async def _select_hits(run: Discovery, hits: Sequence[SearchHit]) -> Selection:
    plan = run.plan
    # Fused scores have no floor: the floors of several sources were applied before the fusion.
    floor = None
    if not plan.is_multi_source:
        [only] = run.sources.values()
        is_below, evidence = only.report["reason"] == "below_floor", only.report.get("evidence")
        if is_below and evidence is not None:
            return abstain(only.hits, "below_floor", floor=only.report["floor"], evidence=evidence)
        # A floor of the evidence does not apply to scores.
        floor = only.report["floor"] if evidence is None else None
        if is_below:
            # It has no survivors. Select among its own hits, so that the selection abstains with the right reason and
            # signals, whatever the strategy is.
            return select(only.hits, max_k=plan.max_k, min_score=floor)
    if callable(plan.strategy):
        chosen = list(await call_user_function(plan.strategy, hits))
        return select(hits, strategy=lambda _: chosen, max_k=plan.max_k)
    # Sums of reciprocal ranks are weighed; `ir`, which fuses as `"rrf-by-source"` does, compares them all the same.
    is_sum = not _keeps_order(plan) and (
        sums_ranks(plan.union_search, hits) if plan.walk is None else plan.is_multi_source
    )
    choose: Callable[..., Selection] = partial(select_by_evidence, evidence=_weigh(run, hits)) if is_sum else select
    return choose(
        hits, strategy=plan.strategy, min_score=floor, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio
    )


def _weigh(run: Discovery, hits: Sequence[SearchHit]) -> list[float]:
    """Return the evidence of each hit, on the scales of its source."""
    scales: dict[str | None, SourceScales] = {}
    for name, source in run.sources.items():
        # BM25 scores can only be compared if words were counted by one formula; walks rank each on its own.
        scales[name] = list_scales(run.plan.search, source.embedder_id, source.scales["lexical"], name)
    return weigh_hits(hits, lambda hit: scales.get(hit.source) or SourceScales())


def _reason(plan: DiscoveryPlan, selection: Selection, sources: Sequence[AskedSource]) -> str:
    """Return the reason of the selection, or why all sources abstained if they did."""
    if any(source.survivors for source in sources):
        return selection.reason
    reports = [source.report for source in sources if source.error is None]
    reasons = {report["reason"] for report in reports}
    if plan.is_multi_source and "below_floor" in reasons:
        all_have_floors = all(report["floor"] is not None for report in reports)
        return "abstain:all_sources_below_floor" if all_have_floors else "abstain:no_surviving_sources"
    return "abstain:no_evidence" if "no_evidence" in reasons else selection.reason


def _signals(run: Discovery, selection: Selection, merge: str) -> dict[str, Any]:
    if not run.plan.is_multi_source:
        [only] = run.sources.values()
        names = ["floor_note", "evidence", "explanation", "walk"]
        names += [] if only.report["floor"] is None else ["floor", "floor_kind"]
        told = {name: only.report[name] for name in names if name in only.report}
        return {**selection.signals, "n_candidates": len(only.hits), **told}
    return {
        **selection.signals,
        "merge": merge,
        "sources": [*run.sources],
        "per_source": {name: dict(source.report) for name, source in run.sources.items()},
        **({"merge_rrf_k": run.plan.rrf_k} if merge in {"rrf", "rrf-by-source"} else {}),
    }


async def rank_so_far(run: Discovery, heard: Sequence[AskedSource]) -> list[SearchHit]:
    """Return the fused ranking of the sources that have answered so far.

    The metadata of each hit gain `rank_final`. The list is empty if `merge` is a function.
    """
    if run.plan.searches_union:
        return await _rank_union_so_far(run, heard)
    return [] if callable(run.plan.merge) else _rank_sources_so_far(run, heard)


async def _rank_union_so_far(run: Discovery, heard: Sequence[AskedSource]) -> list[SearchHit]:
    plan, pending = run.plan, [source for source in run.sources.values() if source not in heard]
    # Before the next `await`: other sources may count their words meanwhile, but these scores know nothing of them.
    bounds = _pending_bounds(run, pending)
    names = _take_part(heard)
    union = await search_union(run, names, deadline=run.union_deadline, has_later_stages=False)
    hits = _drop_copies(plan, union.hits)
    # Further stages give scores that have no bounds; so does a factor of a source.
    if bounds is None or not union.channels or plan.search.has_second_stage or run.factors:
        return _mark_final(hits, [not pending] * len(hits))
    # Each hit is compared with each artifact in the rankings.
    pairs = len(hits) * sum(len(channel.rankings[0]) for channel in union.channels.values())
    options = hits, union.channels, bounds, union.search
    return _mark_final(hits, await offload_if(pairs > _OFFLOAD_ABOVE, final_union_places, *options))


def _pending_bounds(run: Discovery, pending: Sequence[AskedSource]) -> list[Mapping[Mode, PendingBound]] | None:
    """Return the bounds of each pending source.

    The result is `None` if there is none, not all have counted, or one cannot be compared.
    """
    contains, pooled = run.union.contains, run.pooled
    # Nobody has counted the words of a beginning.
    if not pending or not run.all_counted.is_set() or (contains is not None and contains.beginnings):
        return None
    embedders = {source.embedder_id for source in run.sources.values() if source.has_counted}
    known = [source.counts for source in pending if source.counts is not None]
    if len(known) < len(pending) or len(embedders) > 1 or len(pooled) > 1:
        return None
    [pool] = pooled.values()
    return [bounds_of(counts, pool, run.union.channels) for counts in known]


def _rank_sources_so_far(run: Discovery, heard: Collection[AskedSource]) -> list[SearchHit]:
    plan, weights = run.plan, run.plan.merge_weights or {}
    ranked, waiting = _rank_by_source(run, heard), {*run.sources}.difference(source.member.name for source in heard)
    pending = {place: weights.get(name, 1.0) for place, name in enumerate(ranked) if name in waiting}
    entries = fuse_entries(ranked, **_fusion_of(plan))
    final = final_places(entries, pending, rrf_k=plan.rrf_k, may_merge=plan.identity is not None)
    return _mark_final(_fuse(plan, ranked), final)


def _mark_final(hits: Iterable[SearchHit], final: Iterable[bool]) -> list[SearchHit]:
    return [
        replace(hit, metadata=with_facts(hit.metadata, {"rank_final": is_final}))
        for hit, is_final in zip(hits, final, strict=False)
    ]
