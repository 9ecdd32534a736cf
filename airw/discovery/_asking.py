"""One source of a discovery: it answers, or fails, or runs out of time, and the others go on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from airw.corpora import borrowed
from airw.discovery._planning import AUTO, SKILLS, Member, Plan, SharedQueries, calibrated_floor
from airw.discovery.results import Answer
from airw.errors import ArgumentError, DiscoveryError, FilterError
from airw.protocols import OpenCorpus
from airw.retrieval import answer, formulated
from airw.values import SearchHit
from airw.walking import WalkPolicy, traverse


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What all sources of one discovery are asked, and until when."""

    plan: Plan
    queries: tuple[str, ...]
    shared: SharedQueries
    start: float
    deadline: float


async def begin(plan: Plan) -> Asking:
    """Formulate the queries, once for all sources.

    Raises:
        DiscoveryError: That alone took the time of them all.
    """
    start = anyio.current_time()
    whole = math.inf if plan.timeout is None else start + plan.timeout
    queries: tuple[str, ...] = (plan.question.text,)
    if plan.walk is None and plan.question.formulate is not None:
        with anyio.move_on_after(plan.timeout) as scope:
            queries = await formulated(plan.question)
        if scope.cancelled_caught:
            raise DiscoveryError(f"no source was asked: formulating the query took all of timeout={plan.timeout:g} s")
    now = anyio.current_time()
    own = math.inf if plan.source_timeout is None else now + plan.source_timeout
    return Asking(plan, queries, SharedQueries(), now, min(whole, own))


class _Late(Exception):
    """The time of a source is up, and it has nothing."""


@dataclass(slots=True)
class _Found:
    """What a source has given so far, and the scope it works in."""

    scope: anyio.CancelScope
    hits: Sequence[SearchHit] | None = None
    floor: float | None = None
    floor_note: str | None = None
    embedder_id: str = ""
    walked: Mapping[str, Any] | None = None


async def ask_source(member: Member, asking: Asking) -> Answer:
    """Ask one source; what goes wrong with it is told, and raised only where the question itself is at fault."""
    found, error = _Found(anyio.CancelScope(deadline=asking.deadline)), None
    with found.scope:
        try:
            async with borrowed(member.corpus) as corpus:
                await _find(found, member, corpus, asking)
        except (ArgumentError, FilterError):
            raise
        except _Late:
            pass
        except Exception as failure:  # noqa: BLE001 - whatever it is, the other sources go on
            error = failure
    return _answer(member.name, found, error, asking)


async def _find(found: _Found, member: Member, corpus: OpenCorpus, asking: Asking) -> None:
    plan, view = asking.plan, asking.shared.view(corpus)
    found.embedder_id = corpus.embedder.id
    floor = plan.floors[member.name]
    if floor == AUTO:
        found.floor, found.floor_note = await calibrated_floor(corpus, plan.question)
    else:
        found.floor = floor
    if plan.walk is None:
        hits = await answer(view, plan.question, asking.queries)
    else:
        hits = await _walked(found, view, asking, plan.walk)
    hits = _deduplicated(hits, plan.dedup_by, member.name)
    found.hits = [
        replace(hit, source=member.name) if hit.source in (None, corpus.name) and hit.source != member.name else hit
        for hit in hits
    ]


async def _walked(found: _Found, corpus: OpenCorpus, asking: Asking, policy: WalkPolicy) -> list[SearchHit]:
    """Walk a corpus, and rank artifacts by their best hit; a walk that runs out of time gives what it has."""
    plan = asking.plan
    left = asking.deadline - anyio.current_time()
    timeout = None if math.isinf(left) else max(left, 0.0)
    query, budget = plan.question.text, plan.node_budget
    found.scope.deadline = math.inf  # from here on the walk has the deadline, as it keeps what it has found
    async with traverse(query, corpus, policy=policy, node_budget=budget, timeout=timeout) as walk:
        async for _ in walk:
            pass
    if walk.summary is not None and walk.summary.stop == "timeout" and not walk.ranking:
        raise _Late
    found.walked = walk.summary.to_dict() if walk.summary is not None else None
    best: dict[Any, SearchHit] = {}
    for hit in walk.ranking or ():
        best.setdefault(hit.key, hit)
    return list(best.values())[: plan.question.k]


def _deduplicated(hits: Sequence[SearchHit], key: str | None, name: str) -> list[SearchHit]:
    """Keep the first hit of each value in a field; hits without the field are never copies of each other."""
    if key == "auto":
        key = "name" if name.casefold() == SKILLS else None
    if key is None:
        return list(hits)
    kept: dict[Any, SearchHit] = {}
    for at, hit in enumerate(hits):
        value = hit.metadata.get(key)
        kept.setdefault((at,) if value is None else repr(value), hit)
    return list(kept.values())


def _answer(name: str, found: _Found, error: Exception | None, asking: Asking) -> Answer:
    hits = tuple(found.hits or ())
    top = hits[0].score if hits else None
    reason = None if error else _abstains(hits, top, found.floor, asking.plan)
    late = error is None and found.hits is None
    if late:
        error = TimeoutError(f"no answer within {max(0.0, asking.deadline - asking.start):.3g} s")
    report: dict[str, Any] = {
        "status": "timeout" if late else "failed" if error else "ok",
        "error": None if error is None else _told(error),
        "seconds": anyio.current_time() - asking.start,
        "n_retrieved": len(hits),
        "top_score": top,
        "floor": found.floor,
        "abstained": error is not None or reason is not None,
        "reason": reason,
    }
    if found.floor_note is not None:
        report["floor_note"] = found.floor_note
    if found.walked is not None:
        report["walk"] = found.walked
    return Answer(name, hits, report, error, found.embedder_id, found.floor_note)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _abstains(hits: Sequence[SearchHit], top: float | None, floor: float | None, plan: Plan) -> str | None:
    """Say why a source takes no part: nothing found, nothing above its floor, or nothing that speaks for any hit."""
    if floor is not None and plan.strategy != "abs_threshold" and (top is None or not top >= floor):
        return "below_floor"
    if top is None:
        return "no_hits"
    if plan.walk is None and not plan.question.has_evidence(hits):
        return "no_evidence"
    return None
