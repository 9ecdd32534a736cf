"""Combine the answers of all sources into one result: merge, select, disclose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airw._base.concurrency import call_user_function
from airw._base.messages import short_repr
from airw.discovery._planning import DiscoveryPlan
from airw.discovery._rank_bounds import final_places
from airw.discovery.disclosure import disclose
from airw.discovery.results import Answer, DiscoveryResult
from airw.discovery.selection import Selection, select
from airw.errors import ArgumentError, DiscoveryError
from airw.retrieval import fuse_hits
from airw.retrieval.fusion import fuse_entries
from airw.values import SearchHit


async def combine_answers(plan: DiscoveryPlan, answers: Mapping[str, Answer]) -> DiscoveryResult:
    """Return the result of a discovery; it does not depend on the order of the answers.

    Raises:
        DiscoveryError: If no source answered.
        ArgumentError: If the scores of the sources cannot be merged, or a function returns something else than hits.
    """
    # Answers arrive in any order: use the order of the sources, which decides ties.
    ordered = [answers[member.name] for member in plan.members]
    _require_answer(plan, ordered)
    hits = await _merge_hits(plan, ordered)
    selection = await _select_hits(plan, hits, ordered)
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
        signals=_signals(plan, selection, ordered),
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


async def _merge_hits(plan: DiscoveryPlan, answers: Sequence[Answer]) -> list[SearchHit]:
    surviving = {answer.source: answer.survivors for answer in answers if answer.survivors}
    if callable(plan.merge):
        hits = list(await call_user_function(plan.merge, surviving))
        others = [hit for hit in hits if not isinstance(hit, SearchHit)]
        if others:
            raise ArgumentError(f"merge must return SearchHits, not {short_repr(others[0])}")
        return hits
    if plan.merge == "score":
        return _merge_by_score(plan, answers)
    return fuse_hits(surviving, rrf_k=plan.rrf_k, weights=plan.merge_weights, identity=plan.identity, k=plan.search.k)


def _merge_by_score(plan: DiscoveryPlan, answers: Sequence[Answer]) -> list[SearchHit]:
    # Cosines of different embedders are on different scales.
    ids = {answer.source: answer.embedder_id for answer in answers if answer.survivors}
    if len(set(ids.values())) > 1:
        embedders = ", ".join(f"{source}: {id}" for source, id in ids.items())
        raise ArgumentError(f"merge='score' needs one embedder for all corpora, not {embedders}; use 'rrf'")
    hits = [hit for answer in answers for hit in answer.survivors]
    return sorted(hits, key=lambda hit: -hit.score)[: plan.search.k]


async def _select_hits(plan: DiscoveryPlan, hits: Sequence[SearchHit], answers: Sequence[Answer]) -> Selection:
    # Fused scores have no floor: the floors of several sources were applied before the fusion.
    strategy, floor = plan.strategy, None if plan.is_multi_source else answers[0].report["floor"]
    # A single source below its floor has no survivors. Select among its own hits, so that the selection abstains with
    # the right reason and signals, whatever the strategy is.
    if not plan.is_multi_source and answers[0].report["reason"] == "below_floor":
        return select(answers[0].hits, max_k=plan.max_k, min_score=floor)
    if callable(strategy):
        chosen = list(await call_user_function(strategy, hits))
        return select(hits, strategy=lambda _: chosen, max_k=plan.max_k)
    return select(hits, strategy=strategy, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio, min_score=floor)


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


def _signals(plan: DiscoveryPlan, selection: Selection, answers: Sequence[Answer]) -> dict[str, Any]:
    signals = dict(selection.signals)
    if not plan.is_multi_source:
        report = answers[0].report
        extras = {name: report[name] for name in ("floor_note", "walk") if name in report}
        return signals | {"n_candidates": len(answers[0].hits)} | extras
    signals["merge"] = "custom" if callable(plan.merge) else plan.merge
    signals["sources"] = [answer.source for answer in answers]
    signals["per_source"] = {answer.source: dict(answer.report) for answer in answers}
    if plan.merge == "rrf":
        signals["merge_rrf_k"] = plan.rrf_k
    return signals


def rank_so_far(plan: DiscoveryPlan, answers: Mapping[str, Answer]) -> list[SearchHit]:
    """Return the fused ranking of the sources that have answered so far.

    The metadata of each hit gain `rank_final`. Only ranks have bounds, so the list is empty if the merge is not
    `"rrf"`.
    """
    if plan.merge != "rrf":
        return []
    # Pending sources stay in the mapping, without hits: positions of sources decide ties, and must not shift later.
    hits = {member.name: answers[member.name].survivors if member.name in answers else () for member in plan.members}
    options: dict[str, Any] = {"rrf_k": plan.rrf_k, "weights": plan.merge_weights, "identity": plan.identity}
    entries = fuse_entries(hits, **options)
    weights = plan.merge_weights or {}
    pending = {
        position: weights.get(member.name, 1.0)
        for position, member in enumerate(plan.members)
        if member.name not in answers
    }
    final = final_places(entries, pending, rrf_k=plan.rrf_k, may_merge=plan.identity is not None)
    ranking = fuse_hits(hits, **options, k=plan.search.k)
    return [
        replace(hit, metadata={**hit.metadata, "rank_final": is_final})
        for hit, is_final in zip(ranking, final, strict=False)
    ]
