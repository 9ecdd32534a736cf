"""Strategies that select the few hits worth acting on, or none.

More candidates are not better: hits that nearly fit mislead the agent or person that reads them. Scores are compared
with the best score by ratio, so one rule works for cosines, BM25 scores and RRF scores.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, Final, Literal, TypeAlias, get_args

from airw._base.checks import check_choice, check_count, check_number
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError
from airw.values import SearchHit, check_hit

Strategy: TypeAlias = Literal["conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap"]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""The names of the strategies of `select`."""

REASONS: Final[Mapping[str, str]] = {
    "abs_threshold": "each document scores at least the floor",
    "custom": "the rule of the program",
    "exhausted": "every document found scores close to the best one",
    "max_k": "more documents score close to the best one, but max_k of them are enough",
    "nonpositive_top": "the scores are negative, so only the best document is chosen",
    "rel_threshold": "the next document scores less than rel times the best one",
    "score_gap": "the next document scores far less than the one before it",
    "single": "it is the only document found",
    "top_k": "the first documents of the ranking",
    "abstain:abs_threshold": "no document scores as much as the floor",
    "abstain:all_sources_below_floor": "in each corpus, even the best score is below the floor",
    "abstain:below_floor": "even the best score is below the floor",
    "abstain:custom": "the rule of the program chose nothing",
    "abstain:no_candidates": "nothing was found",
    "abstain:no_evidence": "no document has a word of the query or is near it in meaning",
    "abstain:no_scores": "no document has a score",
    "abstain:no_surviving_sources": "each corpus found nothing, or only what is below its floor",
    "abstain:rel_threshold": "nothing was found",
    "abstain:score_gap": "nothing was found",
    "abstain:top_k": "nothing was found",
}
"""What each reason of a selection means, in a sentence for people."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of a selection.

    Args:
        selected: The selected hits, best first.
        candidates: All hits that the strategy chose from, in their original order.
        abstained: True if no hit is selected.
        reason: The rule that ended the selection; `abstain:...` if no hit is selected.
        signals: The numbers behind the decision.

    Example:
        >>> selection = select([SearchHit("a", "document", 0.8, ""), SearchHit("b", "document", 0.3, "")])
        >>> selection.selected_ids, selection.reason, selection.sufficient
        (['a'], 'rel_threshold', True)
    """

    selected: list[SearchHit]
    candidates: list[SearchHit]
    abstained: bool
    reason: str
    signals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def selected_ids(self) -> list[str]:
        """Return the artifact ids of the selected hits, best first."""
        return [hit.artifact_id for hit in self.selected]

    @property
    def sufficient(self) -> bool:
        """Return whether there is a hit to act on.

        If not, an agent may try another query.
        """
        return not self.abstained and bool(self.selected)

    @property
    def explanation(self) -> str:
        """Return what the reason means, in words; the reason itself if it is not one of `REASONS`."""
        return REASONS.get(self.reason, self.reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; of the candidates only their number."""
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
    """Select at most `max_k` of the ranked hits, or abstain.

    The strategies:

    - `conservative` selects the first hit, and the hits after it until one scores less than `rel` times the first
      score. Its reasons: `single` (there is only one hit), `rel_threshold` (the next hit scores too low), `max_k` (the
      limit), `exhausted` (all hits are selected), `nonpositive_top` (the first score is negative).
    - `top_k` selects the first hits.
    - `abs_threshold` selects the hits that score at least `min_score`.
    - `rel_threshold` selects the hits that score at least `rel` times the first score.
    - `score_gap` selects the hits before the first gap. A gap is a score below `gap_ratio` times the previous score, or
      a previous score of at most 0.
    - A function receives the hits and returns those it selects; the reason is `custom`.

    The reason of a strategy other than `conservative` is its name. If it selects nothing, the reason is `abstain:` and
    the name. `conservative` abstains with `abstain:no_candidates`, `abstain:below_floor` (the first hit scores less
    than `min_score`) or `abstain:no_evidence` (the first score is 0). `rel_threshold` also abstains with
    `abstain:no_evidence`. Ratios of a negative score mean nothing, so both select only the first hit then. No named
    strategy selects a hit whose score is NaN. If all scores are NaN, the reason is `abstain:no_scores`.

    The signals are `n_candidates`, `n_selected` and `top_score` (`None` if all scores are NaN). `conservative` adds
    `min_ratio`, the smallest ratio of a selected score to the first one, and `min_score` if the first hit scores less.

    Args:
        hits: Ranked hits, best first; the order is not checked.
        strategy: The name of a strategy, or a function of the hits. A function may only return hits that it received;
            duplicates count once.
        max_k: Select at most this many hits.
        rel: The ratio to the first score that a hit must reach, from 0 to 1.
        gap_ratio: The ratio to the previous score below which there is a gap, from 0 to 1.
        min_score: The lowest score of every hit for `abs_threshold`, of the first hit for `conservative`.

    Raises:
        ArgumentError: If a value cannot be used, `abs_threshold` lacks `min_score`, or the function is async or returns
            a hit that it did not receive.

    Example:
        >>> hits = [SearchHit(name, "document", score, "") for name, score in [("a", 0.8), ("b", 0.78), ("c", 0.3)]]
        >>> select(hits).selected_ids, select(hits, max_k=1).reason, select(hits, min_score=0.9).reason
        (['a', 'b'], 'max_k', 'abstain:below_floor')
    """
    check_count("max_k", max_k, least=1)
    check_number("rel", rel, least=0, most=1)
    check_number("gap_ratio", gap_ratio, least=0, most=1)
    floor = -math.inf if min_score is None else check_number("min_score", min_score)
    candidates = [check_hit(hit) for hit in hits]
    # NaN compares false with everything, so no rule could handle it.
    scored = [hit for hit in candidates if not math.isnan(hit.score)]
    name = "custom" if callable(strategy) else check_choice("strategy", strategy, STRATEGIES)
    if name == "abs_threshold" and min_score is None:
        raise ArgumentError("strategy='abs_threshold' needs min_score, the lowest score to select")
    reason = ""
    if callable(strategy):
        # The function gets a copy, so that it cannot change the candidates.
        chosen = _match_candidates(strategy(list(candidates)), candidates)
    elif candidates and not scored:
        chosen, reason = [], "abstain:no_scores"
    elif name in ("conservative", "rel_threshold"):
        chosen, reason = _choose_close(name, scored, max_k, rel, floor)
    elif name == "score_gap":
        chosen = _cut_at_gap(scored, gap_ratio)
    else:
        chosen = [hit for hit in scored if name == "top_k" or hit.score >= floor]
    selected = chosen[:max_k]
    signals = _signals(candidates, selected)
    if name == "conservative":
        signals["min_ratio"] = min((_score_ratio(hit, selected[0]) for hit in selected), default=None)
    if reason == "abstain:below_floor":
        signals["min_score"] = floor
    reason = reason or (name if selected else f"abstain:{name}")
    return Selection(selected, candidates, not selected, reason, signals)


def abstain(hits: Iterable[SearchHit], reason: str, **signals: Any) -> Selection:
    """Select nothing, for a reason that the scores of the hits do not show.

    Args:
        hits: The hits that are not selected.
        reason: The reason, without `abstain:`.
        signals: Further numbers behind the decision.

    Example:
        >>> hits = [SearchHit("a", "document", 0.8, "")]
        >>> selection = abstain(hits, "below_floor", evidence=0.1, floor=0.4)
        >>> selection.selected_ids, selection.reason, selection.signals["evidence"]
        ([], 'abstain:below_floor', 0.1)
    """
    candidates = list(hits)
    told = {**_signals(candidates, []), "min_ratio": None, **signals}
    return Selection([], candidates, abstained=True, reason=f"abstain:{reason}", signals=told)


def _choose_close(
    strategy: str, hits: list[SearchHit], max_k: int, rel: float, floor: float
) -> tuple[list[SearchHit], str]:
    """Return the hits close to the first one, and the reason.

    The reason is empty if it is the name of the strategy.
    """
    is_conservative = strategy == "conservative"
    if not hits:
        return [], "abstain:no_candidates" if is_conservative else ""
    first, top = hits[0], float(hits[0].score)
    # Below the floor even the best hit is probably no answer.
    if is_conservative and top < floor:
        return [], "abstain:below_floor"
    # A score of exactly 0 means that nothing matched, whatever the scale is.
    if top == 0:
        return [], "abstain:no_evidence"
    if not is_conservative:
        # A ratio to a negative score is meaningless, so only the first hit is safe. The equality covers an infinite
        # first score with `rel=0`, whose product would be NaN.
        return hits[:1] if top < 0 else [hit for hit in hits if hit.score == top or hit.score >= rel * top], ""
    if len(hits) == 1 or top < 0:
        return [first], "single" if len(hits) == 1 else "nonpositive_top"
    # Hits far behind the best one mislead more often than they help.
    close = list(takewhile(lambda hit: _score_ratio(hit, first) >= rel, hits))
    if len(close) < min(len(hits), max_k):
        return close, "rel_threshold"
    return close, "max_k" if len(hits) > max_k else "exhausted"


def _cut_at_gap(hits: list[SearchHit], gap_ratio: float) -> list[SearchHit]:
    """Return the hits before the first gap; a previous score of at most 0 is a gap too."""
    pairs = takewhile(lambda pair: pair[0].score > 0 and pair[1].score >= gap_ratio * pair[0].score, pairwise(hits))
    return hits[:1] + [hit for _, hit in pairs]


def _score_ratio(hit: SearchHit, first: SearchHit) -> float:
    """Return the ratio of a hit's score to the first score, which is not 0."""
    # Equal scores may both be infinite, and their quotient would be NaN.
    return 1.0 if hit.score == first.score else float(hit.score) / float(first.score)


def _signals(candidates: Sequence[SearchHit], selected: Sequence[SearchHit]) -> dict[str, Any]:
    top = next((float(hit.score) for hit in candidates if not math.isnan(hit.score)), None)
    return {"n_candidates": len(candidates), "n_selected": len(selected), "top_score": top}


def _match_candidates(chosen: object, candidates: list[SearchHit]) -> list[SearchHit]:
    """Return the candidates that a function chose, in its order, without duplicates."""
    if inspect.isawaitable(chosen):
        if inspect.iscoroutine(chosen):
            chosen.close()  # else Python warns that it was never awaited
        advice = "chosen = await selector(hits), then select(hits, strategy=lambda _: chosen); or pass it to discover"
        raise ArgumentError(f"strategy cannot be an async selector: {advice}")
    if not isinstance(chosen, Iterable):
        raise ArgumentKindError(
            f"strategy must return a list of the hits it selects, empty to abstain, not {short_repr(chosen)}"
        )
    # Compare by identity first: a candidate may be in the list twice, as equal but separate hits.
    places = {id(hit): place for place, hit in enumerate(candidates)}
    selected: dict[int, SearchHit] = {}
    for hit in chosen:
        if id(hit) not in places and hit not in candidates:
            raise ArgumentError(f"strategy may only select hits that it received, not {short_repr(hit)}")
        place = places[id(hit)] if id(hit) in places else candidates.index(hit)
        selected.setdefault(place, candidates[place])
    return list(selected.values())
