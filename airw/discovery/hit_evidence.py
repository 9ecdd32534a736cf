"""Select hits whose scores are sums of reciprocal ranks.

Such a score orders hits, and has no magnitude: of a hundred equal documents, the third scores 0.85 of the first. So
hits are compared by what ranked them, their cosines and BM25 scores. Each counts as a share of the best one on its
scale, as embedders and formulas of BM25 have scales of their own. Nothing here does I/O.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeGuard

from airw.discovery.selection import Selection, Strategy, select
from airw.retrieval import SearchQuery
from airw.retrieval.query import default_alpha, rank_weights
from airw.values import SearchHit
from airw.values.hits import get_fact

_COMPARE_HITS = {"conservative", "rel_threshold", "score_gap"}
_OWN = "own"  # the channel of a hit that has only the score of its source


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
        earlier = get_fact(hit.metadata, "retrieval_score")
        # A `boost` has moved the score by this factor.
        evidence.append(total * (hit.score / earlier) if _is_number(earlier) and earlier > 0 else total)
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
    facts = {name: get_fact(hit.metadata, f"{name}_score") for name in ("dense", "lexical")}
    scores = {name: float(score) for name, score in facts.items() if _is_number(score)}
    if not scores:
        own = get_fact(hit.metadata, "source_score", hit.score)
        scores = {_OWN: float(own) if _is_number(own) else 0.0}
    return [((name, scales.names.get(name)), scales.weights.get(name, 1.0), score) for name, score in scores.items()]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
