"""Combine the answers of all sources into one result: merge, select, disclose."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from airw._base.concurrency import call_user_function, offload_if
from airw._base.messages import error_text, short_repr
from airw.discovery._planning import DiscoveryPlan
from airw.discovery._query_source import SourceRequest, drop_copies
from airw.discovery._rank_bounds import final_places
from airw.discovery._union import UnionMember, UnionSearch
from airw.discovery._union_bounds import PendingBound, bounds_of, final_union_places
from airw.discovery.disclosure import disclose
from airw.discovery.hit_evidence import SourceScales, list_scales, select_by_evidence, sums_ranks, weigh_hits
from airw.discovery.results import Answer, DiscoveryResult
from airw.discovery.selection import Selection, abstain, select
from airw.errors import ArgumentError, DiscoveryError
from airw.retrieval import Mode, explain_no_hits, fuse_hits
from airw.retrieval.fusion import fuse_entries, merge_copies
from airw.values import SearchHit
from airw.values.hits import with_facts

_OFFLOAD_ABOVE = 500  # pairs of artifacts; comparing so many takes about half a millisecond


async def combine_answers(request: SourceRequest, answers: Mapping[str, Answer]) -> DiscoveryResult:
    """Return the result of a discovery; it does not depend on the order of the answers.

    Raises:
        DiscoveryError: If no source answered.
        ArgumentError: If the scores of the sources cannot be merged, or a function returns something else than hits.
    """
    plan = request.plan
    # Answers arrive in any order; report them in that of the sources.
    ordered: Sequence[Answer] = [answers[member.name] for member in plan.members]
    _require_answer(plan, ordered)
    if plan.walk is None and not any(answer.hits or answer.error for answer in ordered):
        await explain_no_hits(plan.search, request.corpora)
    merge: str = "custom" if callable(plan.merge) else plan.merge
    if plan.searches_union:
        # A source may still fail while the union is searched.
        hits, ordered, merge = await _search_union(request, ordered)
    else:
        hits = await _merge_sources(plan, ordered)
    selection = await _select_hits(request, hits, ordered)
    corpora = {source: corpus for member in plan.members for source, corpus in member.corpora.items()}
    results = await disclose(
        selection,
        level=plan.disclose_level,
        loader=plan.loader,
        store=plan.store,
        expand=plan.expand,
        corpus=None if plan.expand is None else corpora,
        roots=plan.roots,
    )
    return DiscoveryResult(
        query=plan.search.text,
        mode=plan.mode,
        strategy="custom" if callable(plan.strategy) else plan.strategy,
        disclose_level=plan.disclose_level,
        results=results,
        abstained=selection.abstained,
        reason=_reason(plan, selection, ordered),
        n_retrieved=sum(len(answer.hits) for answer in ordered),
        signals=_signals(plan, selection, ordered, merge),
    )


def _require_answer(plan: DiscoveryPlan, answers: Sequence[Answer]) -> None:
    """Raise if all sources failed; a single corpus raises its own error."""
    causes = {answer.source: answer.error for answer in answers if answer.error is not None}
    if len(causes) < len(answers):
        return
    if not plan.is_multi_source and answers[0].report["status"] == "failed":
        raise causes[answers[0].source]
    errors = "; ".join(f"{answer.source}: {answer.report['error']}" for answer in answers)
    raise DiscoveryError(f"no source answered: {errors}", causes) from ExceptionGroup("sources", list(causes.values()))


async def _search_union(
    request: SourceRequest, answers: Sequence[Answer]
) -> tuple[Sequence[SearchHit], Sequence[Answer], str]:
    """Return the candidates of all sources, the answers, and how they were merged."""
    plan, now = request.plan, anyio.current_time()
    _require_one_embedder(plan, answers)
    union = request.union_search(has_later_stages=True)
    # A source that is late in the union has half the time: the rest is for the union without it.
    in_time = replace(union, deadline=(now + union.deadline) / 2)
    with anyio.CancelScope(deadline=union.deadline) as scope:
        answer = await in_time.run(_take_part(request, answers))
    if scope.cancelled_caught:
        # A reranker may hang, too. What the sources have ranked is here, and is fused without asking anyone.
        return await _merge_sources(plan, _drop_weak(plan, answers)), answers, "rrf-by-source"
    answers = [_with_failure(item, answer.failures.get(item.source)) for item in answers]
    _require_answer(plan, answers)
    return _drop_copies(plan, answer.hits), answers, plan.merge if isinstance(plan.merge, str) else "custom"


def _take_part(request: SourceRequest, answers: Iterable[Answer]) -> dict[str, UnionMember]:
    """Return the sources that take part in the union.

    They have answered, and are not below their floor.

    A source without evidence takes part: one corpus that contains all would rank its artifacts too.
    """
    return {
        answer.source: request.members[answer.source]
        for answer in answers
        if answer.error is None and answer.report["reason"] != "below_floor"
    }


def _with_failure(answer: Answer, error: Exception | None) -> Answer:
    """Return the answer of a source that failed while the union was searched."""
    if error is None:
        return answer
    status = "timeout" if isinstance(error, TimeoutError) else "failed"
    changes = {"status": status, "error": error_text(error), "abstained": True, "reason": None}
    return replace(answer, error=error, report={**answer.report, **changes})


def _drop_copies(plan: DiscoveryPlan, hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Return the hits with evidence, without copies of the same thing."""
    by_source: dict[str | None, list[SearchHit]] = {}
    candidates = list(filter(plan.search.has_evidence, hits))
    for hit in candidates:
        by_source.setdefault(hit.source, []).append(hit)
    kept = {id(hit) for source, own in by_source.items() for hit in drop_copies(own, plan.dedup_by, source or "")}
    return merge_copies([hit for hit in candidates if id(hit) in kept], plan.identity)


def _require_one_embedder(plan: DiscoveryPlan, answers: Sequence[Answer]) -> None:
    if plan.merge == "score" or plan.union_search.adds_scores:
        # Cosines of different embedders are on different scales.
        ids = {answer.source: answer.embedder_id for answer in answers if answer.error is None}
        if len(set(ids.values())) > 1:
            embedders = ", ".join(f"{source}: {id}" for source, id in ids.items())
            raise ArgumentError(f"merge={plan.merge!r} needs one embedder for all corpora, not {embedders}; use 'rrf'")


async def _merge_sources(plan: DiscoveryPlan, answers: Sequence[Answer]) -> list[SearchHit]:
    if not plan.is_multi_source and plan.walk is None:
        answers = _drop_weak(plan, answers)
    surviving = {answer.source: answer.survivors for answer in _order_sources(plan, answers) if answer.survivors}
    if callable(plan.merge):
        hits = list(await call_user_function(plan.merge, surviving))
        others = [hit for hit in hits if not isinstance(hit, SearchHit)]
        if others:
            raise ArgumentError(f"merge must return SearchHits, not {short_repr(others[0])}")
        return hits
    return fuse_hits(surviving, rrf_k=plan.rrf_k, weights=plan.merge_weights, identity=plan.identity, k=plan.search.k)


def _drop_weak(plan: DiscoveryPlan, answers: Iterable[Answer]) -> list[Answer]:
    """Return the answers with the hits that have evidence."""
    return [replace(item, hits=tuple(filter(plan.search.has_evidence, item.hits))) for item in answers]


def _order_sources(plan: DiscoveryPlan, answers: Sequence[Answer]) -> Sequence[Answer]:
    """Return the answers in the order that decides ties.

    In `ir`, whose fusion is `"rrf-by-source"`, this is the order of the caller. Elsewhere the best score decides, then
    the name: nothing may depend on the order in which the corpora are listed.
    """
    if plan.merge == "rrf-by-source" or callable(plan.merge):
        return answers
    return sorted(answers, key=lambda answer: (-(answer.hits[0].score if answer.hits else 0.0), answer.source))


async def _select_hits(request: SourceRequest, hits: Sequence[SearchHit], answers: Sequence[Answer]) -> Selection:
    # Fused scores have no floor: the floors of several sources were applied before the fusion.
    plan, report = request.plan, answers[0].report
    strategy, floor = plan.strategy, None if plan.is_multi_source else report["floor"]
    if "evidence" in report and not plan.is_multi_source:
        # This floor applies to the evidence, not to scores.
        if report["reason"] == "below_floor":
            return abstain(answers[0].hits, "below_floor", floor=floor, evidence=report["evidence"])
        floor = None
    # A single source below its floor has no survivors. Select among its own hits, so that the selection abstains with
    # the right reason and signals, whatever the strategy is.
    if not plan.is_multi_source and answers[0].report["reason"] == "below_floor":
        return select(answers[0].hits, max_k=plan.max_k, min_score=floor)
    if callable(strategy):
        chosen = list(await call_user_function(strategy, hits))
        return select(hits, strategy=lambda _: chosen, max_k=plan.max_k)
    bounds: dict[str, Any] = {"max_k": plan.max_k, "rel": plan.rel, "gap_ratio": plan.gap_ratio}
    if _sums_ranks(plan, hits):
        evidence = weigh_hits(hits, _find_scales(request, answers))
        return select_by_evidence(hits, evidence, strategy=strategy, min_score=floor, **bounds)
    return select(hits, strategy=strategy, min_score=floor, **bounds)


def _sums_ranks(plan: DiscoveryPlan, hits: Sequence[SearchHit]) -> bool:
    """Return whether the scores of the hits are sums of reciprocal ranks, to be weighed.

    With `"rrf-by-source"` they are such sums, but `ir` compares them all the same.
    """
    if callable(plan.merge) or plan.merge == "rrf-by-source":
        return False
    return plan.is_multi_source if plan.walk is not None else sums_ranks(plan.union_search, hits)


def _find_scales(request: SourceRequest, answers: Iterable[Answer]) -> Callable[[SearchHit], SourceScales]:
    """Return a function that tells on which scales the scores of a hit are."""
    scales: dict[str | None, SourceScales] = {}
    for answer in answers:
        member = request.members.get(answer.source)
        counts = None if member is None else member.counts
        # BM25 scores can only be compared if words were counted by one formula; walks rank each on its own.
        formula = answer.source if counts is None else counts.formula
        scales[answer.source] = list_scales(request.plan.search, answer.embedder_id, formula, answer.source)
    if not request.plan.is_multi_source:
        (only,) = scales.values()
        return lambda _: only
    return lambda hit: scales.get(hit.source) or SourceScales()


def _reason(plan: DiscoveryPlan, selection: Selection, answers: Sequence[Answer]) -> str:
    """Return the reason of the selection, or why all sources abstained if they did."""
    if any(answer.survivors for answer in answers):
        return selection.reason
    reports = [answer.report for answer in answers if answer.error is None]
    reasons = [report["reason"] for report in reports]
    if not plan.is_multi_source:
        return "abstain:no_evidence" if reasons[0] == "no_evidence" else selection.reason
    if "below_floor" in reasons:
        all_have_floors = all(report["floor"] is not None for report in reports)
        return "abstain:all_sources_below_floor" if all_have_floors else "abstain:no_surviving_sources"
    return "abstain:no_evidence" if "no_evidence" in reasons else selection.reason


def _signals(plan: DiscoveryPlan, selection: Selection, answers: Sequence[Answer], merge: str) -> dict[str, Any]:
    signals = dict(selection.signals)
    if not plan.is_multi_source:
        report = answers[0].report
        extras = {name: report[name] for name in ("floor_note", "evidence", "explanation", "walk") if name in report}
        if report["floor"] is not None:
            extras |= {"floor": report["floor"], "floor_kind": report["floor_kind"]}
        return signals | {"n_candidates": len(answers[0].hits)} | extras
    signals["merge"] = merge
    signals["sources"] = [answer.source for answer in answers]
    signals["per_source"] = {answer.source: dict(answer.report) for answer in answers}
    if merge in ("rrf", "rrf-by-source"):
        signals["merge_rrf_k"] = plan.rrf_k
    return signals


async def rank_so_far(request: SourceRequest, answers: Mapping[str, Answer]) -> list[SearchHit]:
    """Return the fused ranking of the sources that have answered so far.

    The metadata of each hit gain `rank_final`. The list is empty if `merge` is a function.
    """
    plan = request.plan
    if plan.searches_union:
        return await _rank_union_so_far(request, answers)
    return [] if callable(plan.merge) else _rank_sources_so_far(plan, answers)


async def _rank_union_so_far(request: SourceRequest, answers: Mapping[str, Answer]) -> list[SearchHit]:
    plan = request.plan
    union = request.union_search(has_later_stages=False)
    pending = [member.name for member in plan.members if member.name not in answers]
    # Before the next `await`: other sources may count their words meanwhile, but these scores know nothing of them.
    bounds = _pending_bounds(request, union, pending)
    answer = await union.run(_take_part(request, answers.values()))
    hits = _drop_copies(plan, answer.hits)
    # Further stages give scores that have no bounds; so does a factor of a source.
    has_bounds = bounds is not None and answer.channels and not plan.search.has_second_stage and not union.weights
    if pending and has_bounds:
        # Each hit is compared with each artifact in the rankings.
        pairs = len(hits) * sum(len(channel.rankings[0]) for channel in answer.channels.values())
        options = hits, answer.channels, bounds or [], answer.search
        return _mark_final(hits, await offload_if(pairs > _OFFLOAD_ABOVE, final_union_places, *options))
    return _mark_final(hits, [not pending] * len(hits))


def _pending_bounds(
    request: SourceRequest, union: UnionSearch, pending: Iterable[str]
) -> list[Mapping[Mode, PendingBound]] | None:
    """Return the bounds of each pending source.

    The result is `None` if not all have counted, or one cannot be compared.
    """
    if not request.all_counted.is_set():
        return None
    members = [request.members.get(name) for name in pending]
    known = [member for member in members if member is not None]
    embedders = {member.corpus.embedder.id for member in request.members.values()}
    counts = [member.counts for member in known if member.counts is not None]
    if len(counts) < len(members) or len(embedders) > 1 or len(union.pooled) > 1:
        return None
    pooled = next(iter(union.pooled.values()), None)
    return [] if pooled is None else [bounds_of(item, pooled, union.search.channels) for item in counts]


def _rank_sources_so_far(plan: DiscoveryPlan, answers: Mapping[str, Answer]) -> list[SearchHit]:
    ordered = _order_sources(plan, [answers[member.name] for member in plan.members if member.name in answers])
    weights = plan.merge_weights or {}
    if plan.merge == "rrf-by-source":
        # Pending sources stay in the mapping, without hits: positions of sources decide ties, and must not shift later.
        hits = {item.name: answers[item.name].survivors if item.name in answers else () for item in plan.members}
        pending = {place: weights.get(name, 1.0) for place, name in enumerate(hits) if name not in answers}
    else:
        # A pending source may turn out to have the best score of all, and then comes first.
        hits = {answer.source: answer.survivors for answer in ordered}
        names = [member.name for member in plan.members if member.name not in answers]
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
