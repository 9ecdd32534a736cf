"""From the answers of all sources to one result: merge, select, disclose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airw._base.concurrency import call_user_function
from airw._base.messages import short_repr
from airw.discovery._planning import DiscoveryPlan
from airw.discovery.disclosure import disclose
from airw.discovery.results import Answer, DiscoveryResult
from airw.discovery.selection import Selection, select
from airw.errors import ArgumentError, DiscoveryError
from airw.retrieval import fuse_hits
from airw.retrieval.fusion import FusedEntry, fuse_entries
from airw.values import SearchHit


async def finish(plan: DiscoveryPlan, answers: Mapping[str, Answer]) -> DiscoveryResult:
    """Make the result of a discovery; what the order of the answers was does not matter.

    Raises:
        DiscoveryError: No source answered.
        ArgumentError: The sources that answered cannot be merged by score, or a function gave what is no hit.
    """
    ordered = [answers[member.name] for member in plan.members]
    _check_answered(plan, ordered)
    hits = await _merged(plan, ordered)
    selection = await _selected(plan, hits, ordered)
    results = await disclose(
        selection,
        level=plan.disclose_level,
        loader=plan.loader,
        store=plan.store,
        expand=plan.expand,
        corpus=None if plan.expand is None else dict(part for member in plan.members for part in member.parts.items()),
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


def _check_answered(plan: DiscoveryPlan, answers: Sequence[Answer]) -> None:
    causes = {answer.source: answer.error for answer in answers if answer.error is not None}
    if len(causes) < len(answers):
        return
    if not plan.many and answers[0].report["status"] == "failed":
        raise causes[answers[0].source]
    told = "; ".join(f"{answer.source}: {answer.report['error']}" for answer in answers)
    raise DiscoveryError(f"no source answered: {told}", causes) from ExceptionGroup("sources", list(causes.values()))


async def _merged(plan: DiscoveryPlan, answers: Sequence[Answer]) -> list[SearchHit]:
    surviving = {answer.source: answer.survivors for answer in answers if answer.survivors}
    if callable(plan.merge):
        hits = list(await call_user_function(plan.merge, surviving))
        strange = [hit for hit in hits if not isinstance(hit, SearchHit)]
        if strange:
            raise ArgumentError(f"merge must give hits, not {short_repr(strange[0])}")
        return hits
    if plan.merge == "score":
        return _by_score(plan, answers)
    return fuse_hits(surviving, rrf_k=plan.rrf_k, weights=plan.merge_weights, identity=plan.identity, k=plan.search.k)


def _by_score(plan: DiscoveryPlan, answers: Sequence[Answer]) -> list[SearchHit]:
    ids = {answer.source: answer.embedder_id for answer in answers if answer.survivors}
    if len(set(ids.values())) > 1:
        told = ", ".join(f"{source}: {id}" for source, id in ids.items())
        raise ArgumentError(f"merge='score' needs one embedder for all corpora, not {told}; use 'rrf'")
    hits = [hit for answer in answers for hit in answer.survivors]
    return sorted(hits, key=lambda hit: -hit.score)[: plan.search.k]


async def _selected(plan: DiscoveryPlan, hits: Sequence[SearchHit], answers: Sequence[Answer]) -> Selection:
    """Commit to a few of the hits; where a lone corpus has nothing above its floor, the selection says so itself."""
    strategy, floor = plan.strategy, None if plan.many else answers[0].report["floor"]
    if not plan.many and answers[0].report["reason"] == "below_floor":
        return select(answers[0].hits, max_k=plan.max_k, min_score=floor)
    if callable(strategy):
        chosen = list(await call_user_function(strategy, hits))
        return select(hits, strategy=lambda _: chosen, max_k=plan.max_k)
    return select(hits, strategy=strategy, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio, min_score=floor)


def _reason(plan: DiscoveryPlan, selection: Selection, answers: Sequence[Answer]) -> str:
    """Tell why nothing was left to select from, where that is so; otherwise what the selection says."""
    if any(answer.survivors for answer in answers):
        return selection.reason
    reports = [answer.report for answer in answers if answer.error is None]
    reasons = [report["reason"] for report in reports]
    if not plan.many:
        return "abstain:no_evidence" if reasons[0] == "no_evidence" else selection.reason
    if "below_floor" in reasons:
        all_floored = all(report["floor"] is not None for report in reports)
        return "abstain:all_sources_below_floor" if all_floored else "abstain:no_surviving_sources"
    return "abstain:no_evidence" if "no_evidence" in reasons else selection.reason


def _signals(plan: DiscoveryPlan, selection: Selection, answers: Sequence[Answer]) -> dict[str, Any]:
    signals = dict(selection.signals)
    if not plan.many:
        report = answers[0].report
        told = {name: report[name] for name in ("floor_note", "walk") if name in report}
        return signals | {"n_candidates": len(answers[0].hits)} | told
    signals["merge"] = "custom" if callable(plan.merge) else plan.merge
    signals["sources"] = [answer.source for answer in answers]
    signals["per_source"] = {answer.source: dict(answer.report) for answer in answers}
    if plan.merge == "rrf":
        signals["merge_rrf_k"] = plan.rrf_k
    return signals


def ranked_so_far(plan: DiscoveryPlan, answers: Mapping[str, Answer]) -> list[SearchHit]:
    """Give what the sources that have answered give together, with `rank_final` in each hit's metadata.

    Only a merge by rank has bounds: with any other, nothing is final, or told, before all have answered.
    """
    pending = {at: member.name for at, member in enumerate(plan.members) if member.name not in answers}
    if plan.merge != "rrf":
        return []
    hits = {member.name: answers[member.name].survivors if member.name in answers else () for member in plan.members}
    options: dict[str, Any] = {"rrf_k": plan.rrf_k, "weights": plan.merge_weights, "identity": plan.identity}
    entries = fuse_entries(hits, **options)
    weights = {at: (plan.merge_weights or {}).get(name, 1.0) for at, name in pending.items()}
    final = final_places(entries, weights, rrf_k=plan.rrf_k, may_merge=plan.identity is not None)
    ranking = fuse_hits(hits, **options, k=plan.search.k)
    return [
        replace(hit, metadata={**hit.metadata, "rank_final": is_final})
        for hit, is_final in zip(ranking, final, strict=False)
    ]


def final_places(
    entries: Sequence[FusedEntry], pending: Mapping[int, float], *, rrf_k: int = 60, may_merge: bool = False
) -> list[bool]:
    """Return for each entry of a fused ranking whether its place, and the hit that stands there, is final.

    A source that has not answered gives a hit at most `weight / (rrf_k + 1)`, the mass of its first rank. What lies
    beyond the bound of all the rest is decided: the idea of the threshold algorithms (Fagin, Lotem and Naor, "Optimal
    aggregation algorithms for middleware", 2003).

    Args:
        entries: The ranking so far, as `airw.retrieval.fusion.fused` gives it.
        pending: The weight of each source that has not answered, by its position among all.
        rrf_k: The rank constant.
        may_merge: Whether hits of several sources may be one thing, so that known ones can still grow.

    Returns:
        One answer an entry: true if no pending source can still change it.

    Example:
        >>> from airw.retrieval.fusion import fuse_entries
        >>> from airw.values import SearchHit
        >>> hits = [SearchHit("x", "document", 1.0, ""), SearchHit("y", "document", 1.0, "")]
        >>> entries = fuse_entries({"a": hits, "b": []})
        >>> final_places(entries, {1: 1.0})
        [True, False]
    """
    most = {position: weight / (rrf_k + 1) for position, weight in pending.items()}
    if not may_merge:
        return [not any(_comes_before(mass, position, entry) for position, mass in most.items()) for entry in entries]
    if not most:
        return [True] * len(entries)
    bounds = [entry.rrf_score + (sum(most.values()) if _may_grow(entry) else 0.0) for entry in entries]
    return [_is_final(place, entries, bounds, most) for place in range(len(entries))]


def _is_final(place: int, entries: Sequence[FusedEntry], bounds: Sequence[float], most: Mapping[int, float]) -> bool:
    """Return whether an entry keeps its place.

    Args:
        place: Where it stands.
        entries: The ranking.
        bounds: The mass that each entry can reach.
        most: The mass of the first hit of each pending source, by the source's position.
    """
    entry = entries[place]
    if _may_grow(entry) and any((1, position) < (entry.rank, entry.position) for position in most):
        return False  # another hit may come to stand for it
    if len(most) == 1:
        is_displaced = any(_comes_before(mass, position, entry) for position, mass in most.items())
    else:
        is_displaced = not _exceeds(entry.rrf_score, sum(most.values()))  # one thing may be first in all of them
    above, below = range(place), range(place + 1, len(entries))
    return (
        not is_displaced
        and all(_stays_above(entries[other], entry, bounds[place]) for other in above)
        and all(_stays_above(entry, entries[other], bounds[other]) for other in below)
    )


def _comes_before(mass: float, position: int, entry: FusedEntry) -> bool:
    """Return whether a first hit of this mass, from the source at this position, would stand before an entry."""
    return (-mass, 1, position) < (-entry.rrf_score, entry.rank, entry.position)


def _may_grow(entry: FusedEntry) -> bool:
    """Return whether another source may hold it: what is known by its source and id alone cannot be found elsewhere."""
    return entry.key != entry.hit.key


def _stays_above(upper: FusedEntry, lower: FusedEntry, bound: float) -> bool:
    """Return whether an entry stays above another one, whose mass has a bound; its own growth only helps."""
    return not _may_grow(lower) or _exceeds(upper.rrf_score, bound)


def _exceeds(mass: float, bound: float) -> bool:
    """Return whether a mass is greater by more than sums of the same terms in another order may differ."""
    return mass > bound * (1 + 1e-12)
