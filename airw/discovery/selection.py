"""Strategies that select the few hits worth acting on, or none.

More candidates are not better: hits that nearly fit mislead the agent or person that reads them. Scores are compared
with the best score by ratio, so one rule works for cosines and BM25 scores.

A sum of reciprocal ranks orders hits, and has no magnitude: of a hundred equal documents, the third scores 0.85 of the
first. So such hits are compared by what ranked them, their cosines and BM25 scores. Each counts as a share of the best
one on its scale, as embedders and formulas of BM25 have scales of their own. Nothing here does I/O.
"""

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, takewhile
from typing import Any, Final, Literal, TypeAlias, get_args

from airw._base.checks import check_choice, check_count, check_kind, check_number
from airw._base.json import fields_to_json
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.retrieval import SearchQuery
from airw.retrieval.query import default_alpha, rank_weights
from airw.values import SearchHit, check_hit
from airw.values.hits import get_fact

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


_COMPARE_HITS = {"conservative", "rel_threshold", "score_gap"}
_OWN = "own"  # the channel of a hit that has only the score of its source


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
        told = fields_to_json(self, "selected", "selected_ids", "abstained", "sufficient", "reason", "signals")
        return {**told, "n_candidates": len(self.candidates)}


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


def _match_candidates(chosen: Iterable[SearchHit], candidates: list[SearchHit]) -> list[SearchHit]:
    """Return the candidates that a function chose, in its order, without duplicates."""
    if inspect.isawaitable(chosen):
        if inspect.iscoroutine(chosen):
            chosen.close()  # else Python warns that it was never awaited
        advice = "chosen = await selector(hits), then select(hits, strategy=lambda _: chosen); or pass it to discover"
        raise ArgumentError(f"strategy cannot be an async selector: {advice}")
    check_kind("strategy", chosen, Iterable, "return a list of the hits it selects, empty to abstain")
    # Compare by identity first: a candidate may be in the list twice, as equal but separate hits.
    places = {id(hit): place for place, hit in enumerate(candidates)}
    selected: dict[int, SearchHit] = {}
    for hit in chosen:
        if id(hit) not in places and hit not in candidates:
            raise ArgumentError(f"strategy may only select hits that it received, not {short_repr(hit)}")
        place = places[id(hit)] if id(hit) in places else candidates.index(hit)
        selected.setdefault(place, candidates[place])
    return list(selected.values())


@dataclass(frozen=True, slots=True)
class SourceScales:
    """The scales of the scores of one source.

    Args:
        names: What names the scale of each channel: two sources with the same name can be compared.
        weights: The weight of each channel.
    """

    names: Mapping[str, Hashable] = field(default_factory=dict)
    weights: Mapping[Any, float] = field(default_factory=dict)


def list_scales(search: SearchQuery, embedder_id: str, formula: Hashable = "", source: str = "") -> SourceScales:
    """Return the scales of the hits of a search in one source.

    Args:
        search: The search.
        embedder_id: The id of the embedder.
        formula: What names the formula of BM25.
        source: What names the scale of hits that have only the score of their source.
    """
    alpha = default_alpha(embedder_id) if search.alpha is None else search.alpha
    scales = {"dense": embedder_id, "lexical": formula, _OWN: source}
    return SourceScales(scales, rank_weights(search.channels, alpha))


def sums_ranks(search: SearchQuery, hits: Iterable[SearchHit]) -> bool:
    """Return whether the scores of the hits of a search are sums of reciprocal ranks."""
    if search.rerank is not None or (search.adds_scores and search.formulate is None):
        return False
    # The hits of a single ranking keep its scores, and have no others.
    channels = search.channels
    return any(get_fact(hit.metadata, f"{channel}_score") is not None for hit in hits for channel in channels)


def weigh_hits(hits: Sequence[SearchHit], scales_of: Callable[[SearchHit], SourceScales]) -> list[float]:
    """Return the evidence of each hit: the weighted sum of its shares of the best scores.

    A channel that did not rank a hit adds nothing. A best score below 0 counts as -1, so that its ratios stay without
    meaning.

    Args:
        hits: The hits of a fusion by rank.
        scales_of: Returns the scales of the source of a hit.

    Example:
        >>> scales = SourceScales({"dense": "", "lexical": ""}, {"dense": 1.0, "lexical": 1.0})
        >>> scores = {"a": {"dense_score": 0.5, "lexical_score": 4.0}, "b": {"dense_score": 0.25}}
        >>> weigh_hits([SearchHit(id, "document", 0.1, "", each) for id, each in scores.items()], lambda _: scales)
        [2.0, 0.5]
    """
    rows = [_list_scores(hit, scales_of(hit)) for hit in hits]
    best: dict[Hashable, float] = {}
    for scale, _, score in chain.from_iterable(rows):
        best[scale] = max(score, best.get(scale, score))
    evidence = []
    for hit, row in zip(hits, rows, strict=True):
        total = sum((weight * (score / abs(best[scale])) for scale, weight, score in row if best[scale]), 0.0)
        earlier = _find_score(hit, "retrieval") or 0.0
        # A `boost` has moved the score by this factor.
        evidence.append(total * (hit.score / earlier) if earlier > 0 else total)
    return evidence


def select_by_evidence(
    hits: Sequence[SearchHit],
    evidence: Sequence[float],
    *,
    strategy: Strategy = "conservative",
    min_score: float | None = None,
    **bounds: Any,
) -> Selection:
    """Select as `airw.select` does, with the evidence of each hit as its score.

    The first hit stays the first, whatever the others have. The selected hits are in the order of the ranking.

    Args:
        hits: The ranked hits.
        evidence: The evidence of each.
        strategy: The name of a strategy; only some compare hits.
        min_score: The floor, as in `select`: a score, not evidence.
        bounds: `max_k`, `rel` and `gap_ratio` of `select`.
    """
    ranked = select(hits, strategy=strategy, min_score=min_score, **bounds)
    # With an evidence of 0 nothing can be compared, and only the scores have a floor.
    if strategy not in _COMPARE_HITS or not any(evidence[:1]) or ranked.reason == "abstain:below_floor":
        return ranked
    order = sorted(range(len(hits)), key=lambda place: -min(evidence[place], evidence[0]))
    weighed = select([replace(hits[place], score=evidence[place]) for place in order], strategy=strategy, **bounds)
    # What is selected are the first of those that were weighed.
    selected = [hits[place] for place in sorted(order[: len(weighed.selected)])]
    signals = {**weighed.signals, "top_score": hits[0].score}
    return replace(weighed, selected=selected, candidates=list(hits), signals=signals)


def _list_scores(hit: SearchHit, scales: SourceScales) -> list[tuple[Hashable, float, float]]:
    """Return scale, weight and score of each channel that ranked a hit, or of its source."""
    found = {name: _find_score(hit, name) for name in ("dense", "lexical")}
    scores = {name: score for name, score in found.items() if score is not None}
    scores = scores or {_OWN: _find_score(hit, "source", hit.score) or 0.0}
    return [((name, scales.names.get(name)), scales.weights.get(name, 1.0), score) for name, score in scores.items()]


def _find_score(hit: SearchHit, name: str, default: float | None = None) -> float | None:
    """Return a score among the facts of a hit; `None` if it is no number."""
    with suppress(ArgumentError):
        return check_number(name, get_fact(hit.metadata, f"{name}_score", default))
    return None
