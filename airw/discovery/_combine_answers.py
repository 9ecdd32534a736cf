"""Combine the answers of all sources into one result: fuse, select, disclose."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from airw.discovery.disclosure import disclose
from airw.discovery.hit_evidence import SourceScales, list_scales, select_by_evidence, sums_ranks, weigh_hits
from airw.discovery.results import DiscoveryResult
from airw.discovery.selection import Selection, abstain, select
from airw.errors import ArgumentError, DiscoveryError
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
    merge: str = "custom" if callable(plan.merge) else plan.merge
    if plan.searches_union:
        hits, merge = await _fuse_union(run, merge)
    else:
        hits = await _fuse_sources(plan, sources, needs_evidence=not plan.is_multi_source and plan.walk is None)
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
    reports = {name: source.report for name, source in run.sources.items()}
    [only, *_] = reports
    if not run.plan.is_multi_source and reports[only]["status"] == "failed":
        raise causes[only]
    errors = "; ".join(f"{name}: {report['error']}" for name, report in reports.items())
    raise DiscoveryError(f"no source answered: {errors}", causes) from ExceptionGroup("sources", list(causes.values()))


async def _fuse_union(run: Discovery, merge: str) -> tuple[Sequence[SearchHit], str]:
    """Return the candidates of all sources, and how they were merged."""
    plan, now, deadline = run.plan, anyio.current_time(), run.union_deadline
    embedders = {name: source.embedder_id for name, source in run.sources.items() if source.error is None}
    # Cosines of different embedders are on different scales.
    if (merge == "score" or plan.union_search.adds_scores) and len({*embedders.values()}) > 1:
        named = ", ".join(f"{source}: {id}" for source, id in embedders.items())
        raise ArgumentError(f"merge={merge!r} needs one embedder for all corpora, not {named}; use 'rrf'")
    with anyio.CancelScope(deadline=deadline) as scope:
        # A source that is late in the union has half the time: the rest is for the union without it.
        union = await search_union(run, _take_part(run.sources.values()), deadline=(now + deadline) / 2)
    if scope.cancelled_caught:
        # A reranker may hang, too. What the sources have ranked is here, and is fused without asking anyone.
        return await _fuse_sources(plan, [*run.sources.values()], needs_evidence=True), "rrf-by-source"
    for name, error in union.failures.items():
        run.sources[name].fail(error)
    _require_answer(run)
    return _drop_copies(plan, union.hits), merge


def _take_part(sources: Iterable[AskedSource]) -> list[str]:
    """Return the names of the sources that take part in the union.

    They have answered, and are not below their floor.

    A source without evidence takes part: one corpus that contains all would rank its artifacts too.
    """
    able = (source for source in sources if source.error is None and source.report["reason"] != "below_floor")
    return [source.member.name for source in able]


def _drop_copies(plan: DiscoveryPlan, hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Return the hits with evidence, without copies of the same thing."""
    by_source: dict[str | None, list[SearchHit]] = {}
    candidates = list(filter(plan.search.has_evidence, hits))
    for hit in candidates:
        by_source.setdefault(hit.source, []).append(hit)
    kept = {id(hit) for source, own in by_source.items() for hit in drop_copies(own, plan.dedup_by, source or "")}
    return merge_copies([hit for hit in candidates if id(hit) in kept], plan.identity)


async def _fuse_sources(
    plan: DiscoveryPlan, sources: Sequence[AskedSource], *, needs_evidence: bool
) -> list[SearchHit]:
    """Fuse the rankings of the sources, or let the function of the caller do it."""
    surviving = {source.member.name: source.survivors for source in _order_sources(plan, sources)}
    if needs_evidence:
        surviving = {source: [*filter(plan.search.has_evidence, hits)] for source, hits in surviving.items()}
    surviving = {source: hits for source, hits in surviving.items() if hits}
    if callable(plan.merge):
        hits = list(await call_user_function(plan.merge, surviving))
        others = [hit for hit in hits if not isinstance(hit, SearchHit)]
        if others:
            raise ArgumentError(f"merge must return SearchHits, not {short_repr(others[0])}")
        return hits
    return fuse_hits(surviving, rrf_k=plan.rrf_k, weights=plan.merge_weights, identity=plan.identity, k=plan.search.k)


def _order_sources(plan: DiscoveryPlan, sources: Sequence[AskedSource]) -> Sequence[AskedSource]:
    """Return the sources in the order that decides ties.

    In `ir`, whose fusion is `"rrf-by-source"`, this is the order of the caller. Elsewhere the best score decides, then
    the name: nothing may depend on the order in which the corpora are listed.
    """
    if plan.merge == "rrf-by-source" or callable(plan.merge):
        return sources
    return sorted(sources, key=lambda source: (-(source.hits[0].score if source.hits else 0.0), source.member.name))


async def _select_hits(run: Discovery, hits: Sequence[SearchHit]) -> Selection:
    plan = run.plan
    # Fused scores have no floor: the floors of several sources were applied before the fusion.
    floor = None
    if not plan.is_multi_source:
        [only] = run.sources.values()
        floor, is_below = only.report["floor"], only.report["reason"] == "below_floor"
        if is_below and "evidence" in only.report:
            return abstain(only.hits, "below_floor", floor=floor, evidence=only.report["evidence"])
        if "evidence" in only.report:
            floor = None  # this floor applies to the evidence, not to scores
        elif is_below:
            # It has no survivors. Select among its own hits, so that the selection abstains with the right reason and
            # signals, whatever the strategy is.
            return select(only.hits, max_k=plan.max_k, min_score=floor)
    if callable(plan.strategy):
        chosen = list(await call_user_function(plan.strategy, hits))
        return select(hits, strategy=lambda _: chosen, max_k=plan.max_k)
    # Sums of reciprocal ranks are weighed; `ir`, which fuses as `"rrf-by-source"` does, compares them all the same.
    if callable(plan.merge) or plan.merge == "rrf-by-source":
        is_sum = False
    elif plan.walk is not None:
        is_sum = plan.is_multi_source
    else:
        is_sum = sums_ranks(plan.union_search, hits)
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
    if not run.plan.is_multi_source:
        (only,) = scales.values()
        return weigh_hits(hits, lambda _: only)
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


def _rank_sources_so_far(run: Discovery, heard: Sequence[AskedSource]) -> list[SearchHit]:
    plan, weights = run.plan, run.plan.merge_weights or {}
    if plan.merge == "rrf-by-source":
        # Pending sources stay in the mapping, without hits: positions of sources decide ties, and must not shift later.
        hits = {name: source.survivors if source in heard else () for name, source in run.sources.items()}
        places = enumerate(run.sources.items())
        pending = {place: weights.get(name, 1.0) for place, (name, source) in places if source not in heard}
    else:
        # A pending source may turn out to have the best score of all, and then comes first.
        hits = {source.member.name: source.survivors for source in _order_sources(plan, heard)}
        names = [name for name, source in run.sources.items() if source not in heard]
        pending = {-place: weights.get(name, 1.0) for place, name in enumerate(names, start=1)}
    options: dict[str, Any] = {"rrf_k": plan.rrf_k, "weights": plan.merge_weights, "identity": plan.identity}
    entries = fuse_entries(hits, **options)
    final = final_places(entries, pending, rrf_k=plan.rrf_k, may_merge=plan.identity is not None)
    return _mark_final(fuse_hits(hits, **options, k=plan.search.k), final)


def _mark_final(hits: Iterable[SearchHit], final: Iterable[bool]) -> list[SearchHit]:
    return [
        replace(hit, metadata=with_facts(hit.metadata, {"rank_final": is_final}))
        for hit, is_final in zip(hits, final, strict=False)
    ]
