"""The balance of the channels for one query: scores on one scale, and weights of ranks.

A cosine is at most 1. A BM25 score has no such bound, but a query has: no record can score higher than one that is full
of the query's words. So the share of this score is a number from 0 to 1, too. It is small if no record has much of the
query, which a division by the best score of the list would hide. Bruch, Gai and Ingber compare such bounds in "An
Analysis of Fusion Functions for Hybrid Retrieval", ACM Transactions on Information Systems, 2023.

A ranking whose scores differ says more than one whose scores are all alike. Their standard deviation predicts how good
a ranking is; see Shtok et al., "Predicting Query Performance by Query-Drift Estimation", ACM Transactions on
Information Systems, 2012.

Nothing here does I/O, and all depends on the rankings alone. So rankings of several corpora that were merged give what
those of one corpus would.
"""

import math
from collections.abc import Sequence

import numpy as np

from airw._base.arrays import NDArray
from airw.retrieval.query import Mode
from airw.values import Ranking

LIST_LENGTH = 50
"""The hits of a list that its weight depends on; `k` does not decide."""


def rank_shares(ranking: Ranking) -> NDArray[np.float64] | None:
    """Return the BM25 scores of a ranking as shares of the highest possible one.

    The result is `None` if the store does not know that score.

    Example:
        >>> rank_shares(Ranking(["r1", "r2"], ["a", "b"], np.array([6.0, 3.0]), max_score=12.0)).tolist()
        [0.5, 0.25]
    """
    highest = ranking.max_score
    if highest is None or not math.isfinite(highest):
        return None
    return ranking.scores / highest if highest > 0 else np.zeros(len(ranking))


def find_spread(scores: NDArray[np.float64], length: int) -> float:
    """Return the standard deviation of the best scores.

    Args:
        scores: The scores, best first.
        length: The number of scores that count; missing ones are 0.

    Example:
        >>> find_spread(np.array([0.75, 0.75]), 4)
        0.375
    """
    used = np.zeros(length)
    used[: len(scores)] = scores[:length]
    return float(np.std(used)) if length else 0.0


def weigh_channels(rankings: Sequence[tuple[Mode, Ranking]], weights: Sequence[float]) -> list[float]:
    """Return the weight of the ranks of each channel for one query.

    It is proportional to the weight of the channel times the spread of its scores. The sum of the weights stays. They
    are unchanged if all scores are equal, or if a store does not know the highest BM25 score.

    Args:
        rankings: The kind and the ranking of each channel.
        weights: The weight of each channel, whatever the query is.

    Example:
        >>> dense = Ranking(["r1", "r2"], ["a", "b"], np.array([0.5, 0.25]))
        >>> lexical = Ranking(["r2"], ["b"], np.array([6.0]), max_score=8.0)
        >>> weigh_channels([("dense", dense), ("lexical", lexical)], [1.0, 1.0])
        [0.5, 1.5]
    """
    longest = max(len(ranking) for _, ranking in rankings)
    spreads = list[float]()
    for kind, ranking in rankings:
        scores = ranking.scores if kind == "dense" else rank_shares(ranking)
        if scores is None or len(rankings) < 2:
            return [*weights]
        # A text that no word of the query is in has the score 0, but is in no list: it counts as if it were.
        length = longest if kind == "lexical" else len(scores)
        spreads.append(find_spread(scores, min(length, LIST_LENGTH)))
    return share_weights(spreads, weights)


def share_weights(spreads: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return weights in proportion to spreads times weights, with the sum of the weights."""
    products = [spread * weight for spread, weight in zip(spreads, weights, strict=True)]
    total = sum(products)
    return [product / total * sum(weights) for product in products] if total > 0 else [*weights]
