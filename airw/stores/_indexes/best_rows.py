"""The rows with the best BM25 scores for a few words, found without scoring all rows.

A word that is in many rows adds little to a score. So the words that tell most are added up first. As soon as enough
rows have a score that no row with only the other words can reach, the others are looked up for the rows that are left.
The scores of these are then computed in the order of the query, so that rounding never depends on the other rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.values.term_counts import K1, B, weigh_word

Rows: TypeAlias = NDArray[np.int32]
Scores: TypeAlias = NDArray[np.float64]

_MAX_FACTOR = K1 + 1.0
_MARGIN = 1e-9  # far more than the rounding errors of a sum, relative to it
_MAX_FLOORS = 16  # depths of which a word keeps its highest score


@dataclass(slots=True, eq=False, repr=False)
class Postings:
    """The rows that contain a word.

    These columns are never changed. What was last computed from them is kept for the next query.

    Args:
        rows: The rows, ascending.
        counts: How often each of them contains the word.
        lengths: The number of words in each of them.
    """

    rows: Rows
    counts: NDArray[np.int32]
    lengths: NDArray[np.int32]
    _average: float = 0.0  # the average length of all rows for which the factors and floors are
    _factors: Scores | None = None
    _floors: dict[int, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the number of bytes in memory once there are factors."""
        return 20 * len(self.rows)

    def find_factors(self, average: float) -> tuple[Scores, dict[int, float]]:
        """Return the score of each row at a weight of 1, and a place to keep the highest of them."""
        factors, floors = self._factors, self._floors
        if factors is None or self._average != average:
            factors, floors = factors_of(self.counts, self.lengths, average), {}
            # Another thread may do the same for another average: what is returned belongs together in any case.
            self._average, self._factors, self._floors = average, factors, floors
        return factors, floors


def factors_of(counts: NDArray[np.int32], lengths: NDArray[np.int32], average: float | Scores) -> Scores:
    """Return the score of each row at a weight of 1.

    A factor is below 2.2. It grows with the occurrences in the row, and falls with its length.

    Args:
        counts: How often each row contains the word.
        lengths: The number of words in each row.
        average: The average length of all rows; or of the rows that each of them is compared with.
    """
    norms = K1 * (1 - B + B * lengths / average)
    factors: Scores = counts * _MAX_FACTOR / (counts + norms)
    return factors


class Word:
    """A word of a query, with its postings and weight.

    Args:
        postings: The rows that contain the word.
        frequency: The number of rows of the corpus that contain it; or of several corpora.
        records: The number of all rows of these.
        words: The number of words in them.
        repeats: How often the query has the word.
    """

    def __init__(self, postings: Postings, frequency: int, records: int, words: int, repeats: int = 1) -> None:
        # A word that no row contains adds nothing to the highest possible score.
        self._weight = repeats * weigh_word(records, frequency) if frequency else 0.0
        self.rows = postings.rows
        self._factors, self._floors = postings.find_factors(words / records if words else 1.0)
        self.limit = self._weight * _MAX_FACTOR  # no number of occurrences exceeds it
        self.bound = self.find_floor(1)

    def find_floor(self, depth: int) -> float:
        """Return the `depth`-th highest score of the word alone; 0 if there are fewer."""
        if depth not in self._floors:
            if len(self._floors) > _MAX_FLOORS:
                self._floors.clear()
            self._floors[depth] = _find_floor(self._factors, depth)
        return self._weight * self._floors[depth]

    def score_all(self) -> Scores:
        """Return what the word adds to the score of each of its rows."""
        scores: Scores = self._weight * self._factors
        return scores

    def score_rows(self, rows: NDArray[np.int64]) -> Scores:
        """Return what the word adds to the score of each of some rows; 0 where it is missing."""
        if not len(self.rows):
            return np.zeros(len(rows))
        places = self.rows.searchsorted(rows)
        scores: Scores = self._weight * self._factors.take(places, mode="clip")
        scores *= self.rows.take(places, mode="clip") == rows
        return scores


def find_best(
    words: Sequence[Word], depth: int, row_count: int, allowed: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], Scores]:
    """Return the `depth` best rows and perhaps others, with their scores.

    All rows that tie with the last of the best are among them. If fewer rows have any of the words, they are all
    returned.

    Args:
        words: The words of the query, in the order in which scores are added up.
        depth: How many rows are asked for.
        row_count: The number of all rows.
        allowed: Which rows may be in the result; `None` if all may.
    """
    others = sorted(words, key=lambda word: word.bound, reverse=True)
    sums, floor, cut = np.zeros(row_count), 0.0, 0.0
    # `depth` rows reach the floor, and a row below the cut cannot reach it with all other words.
    while others and cut <= 0:
        word = others.pop(0)
        gains = word.score_all() if allowed is None else word.score_all() * allowed[word.rows]
        sums[word.rows] += gains
        floor = max(floor, word.find_floor(depth) if allowed is None else _find_floor(gains, depth))
        cut = floor * (1 - _MARGIN) - sum(each.bound for each in others)
    rows = (sums >= cut if cut > 0 else sums).nonzero()[0]
    sums = sums[rows]
    # Look up the other words, and drop the rows that can no longer be among the best.
    for place in range(len(others) + 1):
        if len(rows) > depth:
            still = sum(each.bound for each in others[place:])
            is_near = sums >= _find_floor(sums, depth) * (1 - _MARGIN) - still
            rows, sums = rows[is_near], sums[is_near]
        if place < len(others):
            sums = sums + others[place].score_rows(rows)
    scores = np.zeros(len(rows))
    for word in words:
        scores += word.score_rows(rows)
    return rows, scores


def _find_floor(scores: Scores, depth: int) -> float:
    """Return the `depth`-th highest score; 0 if there are fewer."""
    place = len(scores) - depth
    return float(np.partition(scores, place)[place]) if place >= 0 else 0.0
