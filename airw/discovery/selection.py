"""Rules that commit to the few hits worth acting on, or to none.

More candidates are not better ones: what reads them is led astray by those that nearly fit. Scores are compared with
the best one, by ratio, so that one rule serves cosines, BM25 and fused masses alike.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, Literal, TypeAlias, cast

from airw._base.checks import check_choice, check_count, check_number
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError
from airw.values import SearchHit

Strategy: TypeAlias = Literal["conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap"]

STRATEGIES: tuple[Strategy, ...] = ("conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap")
"""The rules that `select` knows by name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector committed to.

    Args:
        selected: The chosen hits, best first.
        candidates: All hits it could choose from, as they were given.
        abstained: True where none is chosen.
        reason: The rule that ended the choice; `abstain:...` where none is chosen.
        signals: The numbers behind it.

    Example:
        >>> chosen = select([SearchHit("a", "document", 0.8, ""), SearchHit("b", "document", 0.3, "")])
        >>> chosen.selected_ids, chosen.reason, chosen.sufficient
        (['a'], 'rel_threshold', True)
    """

    selected: list[SearchHit]
    candidates: list[SearchHit]
    abstained: bool
    reason: str
    signals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def selected_ids(self) -> list[str]:
        """The artifact ids of the chosen hits, best first."""
        return [hit.artifact_id for hit in self.selected]

    @property
    def sufficient(self) -> bool:
        """Whether there is something to act on: a hint for those who would ask again otherwise."""
        return not self.abstained and bool(self.selected)

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values, the candidates as their number."""
        return {
            "selected": [hit.to_dict() for hit in self.selected],
            "selected_ids": self.selected_ids,
            "abstained": self.abstained,
            "sufficient": self.sufficient,
            "reason": self.reason,
            "signals": json_clean(self.signals),
            "n_candidates": len(self.candidates),
        }


def select(
    hits: Iterable[SearchHit],
    *,
    strategy: Strategy | Callable[[Sequence[SearchHit]], Iterable[SearchHit]] = "conservative",
    max_k: int = 3,
    rel: float = 0.9,
    gap_ratio: float = 0.5,
    min_score: float | None = None,
) -> Selection:
    """Commit to some of the ranked hits, or to none.

    ```text
    strategy         chooses, at most max_k                       and then says
    conservative     the first, and those that follow while       single, rel_threshold (one was too far off),
                     their score is rel of the first one's        max_k, exhausted, nonpositive_top
    top_k            the first                                    top_k
    abs_threshold    those that score min_score or more           abs_threshold
    rel_threshold    those that score rel of the first or more    rel_threshold
    score_gap        until one scores less than gap_ratio of      score_gap
                     the one before, or that one 0 or less
    a function       what it gives of the hits it is given        custom
    ```

    `conservative` abstains with `abstain:no_candidates`, `abstain:below_floor` (the first scores less than
    `min_score`) or `abstain:no_evidence`; the others with `abstain:` and what they would say. A first score of 0 is no
    evidence, also for `rel_threshold`; of a negative one, no share can be taken: both then choose the first alone. No
    rule with a name chooses a hit whose score is not a number, or looks at it: with no other, `abstain:no_scores`.

    Signals: `n_candidates`, `n_selected`, `top_score` (`None` where no score is a number); of `conservative` also
    `min_ratio`, the least share of the first score among the chosen, and `min_score` where the first was below it.

    Args:
        hits: Ranked hits, best first; their order is not looked into.
        strategy: The rule: a name, or a function of the hits. It may choose no others than those it is given; what it
            chooses twice counts once.
        max_k: Choose at most this many.
        rel: The share of the first score that is near enough.
        gap_ratio: The share of the score before that is near enough.
        min_score: The least score, of `abs_threshold` for every hit and of `conservative` for the first.

    Raises:
        ArgumentError: A parameter cannot be used, `abs_threshold` comes without `min_score`, or a function is async or
            chooses what it was not given.

    Example:
        >>> hits = [SearchHit(name, "document", score, "") for name, score in [("a", 0.8), ("b", 0.78), ("c", 0.3)]]
        >>> select(hits).selected_ids, select(hits, max_k=1).reason, select(hits, min_score=0.9).reason
        (['a', 'b'], 'max_k', 'abstain:below_floor')
    """
    bounds = _Bounds(
        check_count("max_k", max_k, least=1),
        check_number("rel", rel, least=0, most=1),
        check_number("gap_ratio", gap_ratio, least=0, most=1),
        _check_floor(min_score, strategy),
    )
    given = list(hits)
    if callable(strategy):
        name, choice = "custom", _Choice(_own(strategy(list(given)), given)[: bounds.max_k])
    else:
        name = check_choice("strategy", strategy, STRATEGIES)
        scored = [hit for hit in given if not math.isnan(hit.score)]
        choice = _named(name, scored, bounds) if scored or not given else _Choice(reason="abstain:no_scores")
    return Selection(
        selected=choice.hits,
        candidates=given,
        abstained=not choice.hits,
        reason=choice.reason or (name if choice.hits else f"abstain:{name}"),
        signals=_signals(name, given, choice),
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The numbers of a rule, checked."""

    max_k: int
    rel: float
    gap_ratio: float
    min_score: float | None


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a rule chose, why where that is not its name, and the floor that the first was below."""

    hits: list[SearchHit] = field(default_factory=list)
    reason: str = ""
    floor: float | None = None


def _named(name: Strategy, hits: list[SearchHit], bounds: _Bounds) -> _Choice:
    """Choose by a rule that has a name from hits whose scores are numbers."""
    match name:
        case "conservative":
            return _conservative(hits, bounds)
        case "rel_threshold":
            return _near_the_first(hits, bounds)
        case "abs_threshold":
            hits = [hit for hit in hits if hit.score >= cast("float", bounds.min_score)]
        case "score_gap":
            hits = _before_the_gap(hits, bounds.gap_ratio)
    return _Choice(hits[: bounds.max_k])


def _conservative(hits: list[SearchHit], bounds: _Bounds) -> _Choice:
    if not hits:
        return _Choice(reason="abstain:no_candidates")
    top, near = hits[0].score, hits[: bounds.max_k]
    if bounds.min_score is not None and top < bounds.min_score:
        return _Choice(reason="abstain:below_floor", floor=bounds.min_score)
    if top == 0:
        return _Choice(reason="abstain:no_evidence")
    kept = list(takewhile(lambda hit: _share(hit, hits[0]) >= bounds.rel, near)) if top > 0 else near[:1]
    if top > 0 and len(kept) < len(near):
        return _Choice(kept, "rel_threshold")
    if len(hits) == 1:
        return _Choice(kept, "single")
    if top < 0:
        return _Choice(kept, "nonpositive_top")
    return _Choice(kept, "max_k" if len(kept) < len(hits) else "exhausted")


def _share(hit: SearchHit, first: SearchHit) -> float:
    """Give a score as a share of the first one, which is above 0 and may be infinite."""
    return 1.0 if hit.score == first.score else float(hit.score) / float(first.score)


def _near_the_first(hits: list[SearchHit], bounds: _Bounds) -> _Choice:
    if not hits:
        return _Choice()
    top = float(hits[0].score)
    if top == 0:
        return _Choice(reason="abstain:no_evidence")
    if top < 0:
        return _Choice(hits[:1])
    return _Choice([hit for hit in hits if hit.score == top or hit.score >= bounds.rel * top][: bounds.max_k])


def _before_the_gap(hits: list[SearchHit], gap_ratio: float) -> list[SearchHit]:
    follows = takewhile(lambda pair: pair[0].score > 0 and pair[1].score >= gap_ratio * pair[0].score, pairwise(hits))
    return hits[:1] + [hit for _, hit in follows]


def _own(chosen: object, given: list[SearchHit]) -> list[SearchHit]:
    """Give the hits that a function chose, each once, as they were given to it."""
    if inspect.isawaitable(chosen):
        if inspect.iscoroutine(chosen):
            chosen.close()  # or it would warn that nobody awaited it
        advice = "chosen = await selector(hits), then select(hits, strategy=lambda _: chosen); or give it to discover"
        raise ArgumentError(f"an async selector cannot be a strategy: {advice}")
    if not isinstance(chosen, Iterable):
        raise ArgumentKindError(f"a selector must give the hits it chooses, none to abstain, not {short_repr(chosen)}")
    places = {id(hit): place for place, hit in enumerate(given)}
    found: dict[int, SearchHit] = {}
    for hit in chosen:
        place = places.get(id(hit))
        if place is None:
            place = next((place for place, own in enumerate(given) if own == hit), None)
        if place is None:
            raise ArgumentError(f"a selector may only choose from the hits it was given, not {short_repr(hit)}")
        found.setdefault(place, given[place])
    return list(found.values())


def _signals(name: str, given: list[SearchHit], choice: _Choice) -> dict[str, Any]:
    scores = (float(hit.score) for hit in given)
    top = next((score for score in scores if not math.isnan(score)), None)
    signals: dict[str, Any] = {"n_candidates": len(given), "n_selected": len(choice.hits), "top_score": top}
    if name == "conservative":
        shares = [_share(hit, choice.hits[0]) for hit in choice.hits]
        signals["min_ratio"] = min(shares) if shares else None
        if choice.floor is not None:
            signals["min_score"] = choice.floor
    return signals


def _check_floor(value: object, strategy: object) -> float | None:
    if value is None:
        if not callable(strategy) and strategy == "abs_threshold":
            raise ArgumentError("strategy='abs_threshold' needs min_score=..., the least score to keep")
        return None
    return check_number("min_score", value)
