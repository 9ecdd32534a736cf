"""The counts behind BM25, which several corpora can add up."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError

_FTS5 = "bm25 of fts5"
_MAX_FACTOR = 2.2  # k1 + 1
_LEAST_WEIGHT = 1e-6

_MAX_COUNT = (
    1 << 53
)  # floats contain all whole numbers up to here, so that averages do not depend on the order of a sum


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The counts from which BM25 weighs the words of queries, in one corpus or several.

    Args:
        formula: The id of the rules that split texts into words, and of the formula of BM25.
        records: The number of records.
        words: The number of words in all records together.
        frequencies: For each word of the queries, the number of records that contain it.

    Raises:
        ArgumentError: If a number is not a whole number of at least 0, or is too large.

    Example:
        >>> here = TermCounts("bm25", records=2, words=9, frequencies={"keys": 1})
        >>> there = TermCounts("bm25", records=1, words=4, frequencies={"keys": 1})
        >>> TermCounts.sum([here, there])
        TermCounts(formula='bm25', records=3, words=13, frequencies={'keys': 2})
    """

    formula: str
    records: int
    words: int
    frequencies: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, value in (("records", self.records), ("words", self.words)):
            if check_count(f"TermCounts: {name}", value) > _MAX_COUNT:
                raise ArgumentError(f"TermCounts: {name} must be at most 2**53, not {short_repr(value)}")
        for word, value in self.frequencies.items():
            if check_count(f"TermCounts: the frequency of {short_repr(word)}", value) > self.records:
                raise ArgumentError(
                    f"TermCounts: {short_repr(word)} cannot be in {value} of {self.records} records; "
                    "a frequency is a number of records"
                )

    def max_score(self, part: "TermCounts") -> float:
        """Return a BM25 score that no record of a part of these records exceeds.

        The bound is that of a record which is full of the words: however often a word occurs, it adds less than 2.2
        times its weight. It is infinite for other formulas than that of FTS5.

        Args:
            part: The counts of some of the records, for the same queries.

        Example:
            >>> both = TermCounts("bm25 of fts5", records=9, words=90, frequencies={"keys": 1})
            >>> round(both.max_score(TermCounts("bm25 of fts5", 4, 40, {"keys": 1})), 2)
            3.82
        """
        if not self.formula.startswith(_FTS5):
            return math.inf if any(part.frequencies.values()) else 0.0
        weights = (
            max(math.log((self.records - self.frequencies[word] + 0.5) / (self.frequencies[word] + 0.5)), _LEAST_WEIGHT)
            for word, count in part.frequencies.items()
            if count
        )
        return sum(weight * _MAX_FACTOR for weight in weights)

    @classmethod
    def sum(cls, counts: Iterable["TermCounts"]) -> "TermCounts":
        """Return the counts that one corpus with the records of all would have.

        Args:
            counts: The counts of each corpus, all for the same queries.

        Raises:
            ArgumentError: If there are none, or if they differ in their formula or their words.

        Example:
            >>> TermCounts.sum([TermCounts("bm25", 1, 4, {"keys": 1}), TermCounts("bm25", 1, 3, {"keys": 0})]).words
            7
        """
        items = [*counts]
        if not items:
            raise ArgumentError("TermCounts.sum needs the counts of at least one store")
        first = items[0]
        for other in items[1:]:
            if other.formula != first.formula:
                raise ArgumentError(
                    f"TermCounts.sum cannot add counts of {short_repr(first.formula)} and of "
                    f"{short_repr(other.formula)}; add only counts of one formula"
                )
            if different := first.frequencies.keys() ^ other.frequencies.keys():
                raise ArgumentError(
                    f"TermCounts.sum: only some of the counts contain the word {short_repr(min(different))}; "
                    "call term_statistics of each store with the same queries"
                )
        return cls(
            first.formula,
            records=sum(each.records for each in items),
            words=sum(each.words for each in items),
            frequencies={word: sum(each.frequencies[word] for each in items) for word in first.frequencies},
        )
