"""The rows with the best BM25 scores for a few words, found without scoring all rows.

A word that is in many rows adds little to a score. So the rows of the rarest words are merged first. As soon as enough
rows have a score that no row with only the other words can reach, the others are looked up for the rows that are left.
The scores of these are then computed in the order of the query, so that rounding never depends on the other rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.values.term_counts import K1, B, weigh_word

Rows: TypeAlias = NDArray[np.int32]
Scores: TypeAlias = NDArray[np.float64]
RowTest: TypeAlias = Callable[[Rows], NDArray[np.bool_]]

_MAX_FACTOR = K1 + 1.0
_FEW = 1_000  # rows that are merged as fast as a word is looked up
_MARGIN = 1e-9  # far more than the rounding errors of a sum, relative to it


class Weighing(NamedTuple):
    """What scores depend on besides the rows: the weight of the word, and the average length."""

    weight: float
    average: float

    @classmethod
    def of(cls, frequency: int, row_count: int, word_count: int, repeats: int = 1) -> "Weighing":
        """Return the weighing of a word.

        It is in `frequency` of all rows, and `repeats` times in the query.
        """
        # A word that no row contains adds nothing to the highest possible score.
        weight = repeats * weigh_word(row_count, frequency) if frequency else 0.0
        return cls(weight, word_count / row_count if word_count else 1.0)

    @property
    def bound(self) -> float:
        """Return a score that no number of occurrences exceeds."""
        return self.weight * _MAX_FACTOR

    def score(self, counts: NDArray[np.int32], lengths: Scores) -> Scores:
        """Return the scores of rows of these lengths that contain the word so often."""
        norms = K1 * (1 - B + B * lengths / self.average)
        scores: Scores = self.weight * (counts * _MAX_FACTOR / (counts + norms))
        return scores


@dataclass(slots=True, eq=False, repr=False)
class Gains:
    """What a word adds to the score of each row that contains it.

    Args:
        weighing: What the gains were computed with.
        values: The gains, aligned with the rows of the word.
        highest: The highest of them.
    """

    weighing: Weighing
    values: Scores
    highest: float
    _floor: tuple[int, float] = (0, 0.0)

    def find_floor(self, depth: int) -> float:
        """Return the `depth`-th highest gain; 0 if there are fewer."""
        known = self._floor
        if known[0] != depth:
            self._floor = known = depth, _find_floor(self.values, depth)
        return known[1]


@dataclass(slots=True, eq=False, repr=False)
class Postings:
    """The rows that contain a word, ascending, and how often each does.

    Neither is ever changed. The last gains are kept here, for the next query with the same weighing.
    """

    rows: Rows
    counts: NDArray[np.int32]
    gains: Gains | None = None

    @property
    def size(self) -> int:
        """Return the number of bytes in memory once there are gains."""
        return self.rows.nbytes + self.counts.nbytes + len(self.rows) * np.dtype(np.float64).itemsize


class Word:
    """A word of a query.

    Args:
        postings: The postings of the word.
        weighing: What its scores depend on.
        read_lengths: Returns the number of words in each of some rows.
    """

    def __init__(self, postings: Postings, weighing: Weighing, read_lengths: Callable[[Rows], Scores]) -> None:
        self.frequency = len(postings.rows)
        self.limit = weighing.bound
        self.rows = postings.rows
        self._postings = postings
        self._weighing = weighing
        self._read_lengths = read_lengths
        gains = postings.gains
        self._gains = gains if gains is not None and gains.weighing == weighing else None

    @property
    def bound(self) -> float:
        """Return a score that the word alone does not exceed in any row."""
        return self._weighing.bound if self._gains is None else self._gains.highest

    def score_all(self) -> Gains:
        """Return the gains in all rows of the word."""
        if self._gains is None:
            values = self._weighing.score(self._postings.counts, self._read_lengths(self.rows))
            self._gains = self._postings.gains = Gains(self._weighing, values, float(values.max(initial=0.0)))
        return self._gains

    def score_rows(self, rows: Rows) -> Scores:
        """Return the gain in each of some rows; 0 where the word is missing."""
        if not len(self.rows):
            return np.zeros(len(rows))
        places = self.rows.searchsorted(rows)
        is_there = self.rows.take(places, mode="clip") == rows
        if self._gains is not None:
            gains = self._gains.values.take(places, mode="clip")
        else:
            gains = self._weighing.score(self._postings.counts.take(places, mode="clip"), self._read_lengths(rows))
        gains *= is_there
        return gains


class CommonWord:
    """A word of a query that is in so many rows that its postings take long to read.

    They are read only if many rows are looked up.

    Args:
        frequency: The number of rows that contain the word.
        weighing: What its scores depend on.
        read_lengths: Returns the number of words in each of some rows.
        count: Returns how often each of some rows contains the word.
        read: Returns the word with its postings.
    """

    def __init__(
        self,
        frequency: int,
        weighing: Weighing,
        read_lengths: Callable[[Rows], Scores],
        *,
        count: Callable[[Rows], NDArray[np.int32]],
        read: Callable[[], Word],
    ) -> None:
        self.frequency = frequency
        self.bound = self.limit = weighing.bound
        self._weighing = weighing
        self._read_lengths = read_lengths
        self._count = count
        self._read = cache(read)

    @property
    def rows(self) -> Rows:
        """Return the rows that contain the word."""
        return self._read().rows

    def score_all(self) -> Gains:
        """Return the gains in all rows of the word."""
        return self._read().score_all()

    def score_rows(self, rows: Rows) -> Scores:
        """Return the gain in each of some rows; 0 where the word is missing."""
        lengths = self._read_lengths(rows)
        # Reading the texts takes about as long as reading the postings of a word in as many rows as they have words.
        if lengths.sum() > self.frequency:
            return self._read().score_rows(rows)
        return self._weighing.score(self._count(rows), lengths)


AnyWord: TypeAlias = Word | CommonWord


class RowScorer:
    """Finds the best of `row_count` rows; several threads may use it at the same time."""

    def __init__(self, row_count: int) -> None:
        self._row_count = row_count
        self._zeros: list[Scores] = []  # arrays for sums, all 0 while they are here

    def find_best(self, words: Sequence[AnyWord], depth: int, is_allowed: RowTest | None) -> tuple[Rows, Scores]:
        """Return the `depth` best rows and perhaps others, with their scores.

        All rows that tie with the last of the best are among them. If fewer rows have any of the words, they are all
        returned.

        Args:
            words: The words of the query, in the order in which scores are added up.
            depth: How many rows are asked for.
            is_allowed: Returns which rows may be in the result; `None` if all may.
        """
        words = [word for word in words if word.frequency]
        others = sorted(words, key=lambda word: word.bound, reverse=True)
        rows, sums = self._merge_rarest(words, others, depth, is_allowed)
        if not others:
            return _drop_hopeless(rows, sums, depth, 0.0)
        # Look up the words that were not merged, and drop the rows that can no longer be among the best.
        while others:
            rows, sums = _drop_hopeless(rows, sums, depth, _add_bounds(others))
            sums = sums + others.pop(0).score_rows(rows)
        rows, _ = _drop_hopeless(rows, sums, depth, 0.0)
        scores = np.zeros(len(rows))
        for word in words:
            scores += word.score_rows(rows)
        return rows, scores

    def _merge_rarest(
        self, words: Sequence[AnyWord], others: list[AnyWord], depth: int, is_allowed: RowTest | None
    ) -> tuple[Rows, Scores]:
        """Remove the first of the other words; return their rows, with the sums of gains.

        Enough words are merged that no row with only the others can be among the best.
        """
        parts: dict[AnyWord, tuple[Rows, Scores]] = {}
        floor = cut = 0.0  # `depth` rows reach the floor, and a row below the cut cannot reach it with all other words
        while others and (cut <= 0 or others[0].frequency <= _FEW):
            word = others.pop(0)
            rows, gains = word.rows, word.score_all()
            if is_allowed is None:
                parts[word] = rows, gains.values
                floor = max(floor, gains.find_floor(depth))
            else:
                keep = is_allowed(rows)
                parts[word] = rows[keep], gains.values[keep]
                floor = max(floor, _find_floor(parts[word][1], depth))
            cut = floor * (1 - _MARGIN) - _add_bounds(others)
        # Add up in the order of the query: so the sums are the scores, to the last bit, if all words are merged.
        return _keep(*self._add_up([parts[word] for word in words if word in parts]), cut)

    def _add_up(self, parts: Sequence[tuple[Rows, Scores]]) -> tuple[Rows, Scores]:
        """Return the rows of all parts, with their sums; 0 where a row comes again."""
        if not parts:
            return np.empty(0, np.int32), np.empty(0)
        if len(parts) == 1:
            return parts[0]
        # An array of zeros is kept for the next query, as the system needs longer to make one than most queries take.
        sums = self._zeros.pop() if self._zeros else np.zeros(self._row_count)
        for rows, gains in parts:
            sums[rows] += gains
        sums_of_parts = []
        for rows, _ in parts:
            sums_of_parts.append(sums[rows])
            sums[rows] = 0.0
        self._zeros.append(sums)
        return np.concatenate([rows for rows, _ in parts]), np.concatenate(sums_of_parts)


def _add_bounds(words: Sequence[AnyWord]) -> float:
    return sum(word.bound for word in words)


def _keep(rows: Rows, sums: Scores, cut: float) -> tuple[Rows, Scores]:
    """Return the rows whose sum is not 0, and not below the cut."""
    places = (sums >= cut if cut > 0 else sums).nonzero()[0]
    return rows[places], sums[places]


def _drop_hopeless(rows: Rows, sums: Scores, depth: int, still: float) -> tuple[Rows, Scores]:
    """Return the rows that can be among the `depth` best once sums grew by up to `still`."""
    if len(rows) <= depth:
        return rows, sums
    return _keep(rows, sums, _find_floor(sums, depth) * (1 - _MARGIN) - still)


def _find_floor(scores: Scores, depth: int) -> float:
    """Return the `depth`-th highest score; 0 if there are fewer."""
    place = len(scores) - depth
    return float(np.partition(scores, place)[place]) if place >= 0 else 0.0
