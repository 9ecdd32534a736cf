"""The counts behind BM25, which several corpora can add up."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values.analysers import EARLIER_LANGUAGES, LANGUAGES, Analyser

K1, B = 1.2, 0.75
"""The constants of BM25: how soon more occurrences add little, and how much the length of a text counts."""

_MAX_COUNT = (
    1 << 53
)  # floats contain all whole numbers up to here, so that averages do not depend on the order of a sum


def weigh_word(records: int, frequency: int) -> float:
    """Return the weight of a word in BM25: its inverse document frequency.

    It is that of Lucene, which is above 0 for every word. The weight of
    [Robertson and Zaragoza](https://doi.org/10.1561/1500000019) is below 0 for a word in more than half of the records.

    Args:
        records: The number of records.
        frequency: The number of those that contain the word.

    Example:
        >>> round(weigh_word(100, 2), 2), round(weigh_word(100, 100), 3)
        (3.7, 0.005)
    """
    return math.log1p((records - frequency + 0.5) / (frequency + 0.5))


def formula_of(analyser: Analyser) -> str:
    """Return the id of BM25 over the words of an analyser.

    Scores of one formula can be compared.

    Example:
        >>> formula_of(Analyser("en")) == formula_of(Analyser(None))
        False
    """
    # It changes with any rule that a score depends on: the constants, the weight, how texts and queries are split.
    rules = f"{'folded words' if analyser.folds else 'words of unicode61'}, unspaced letters in pairs"
    if analyser.stems:
        rules += ", stems and stop words of en"
    return f"bm25 with k1={K1:g}, b={B:g} and the weights of lucene; {rules}"


@cache
def _analysers_by_formula() -> dict[str, Analyser]:
    return {formula_of(analyser): analyser for analyser in map(Analyser, (*LANGUAGES, *EARLIER_LANGUAGES, None))}


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The counts from which BM25 weighs the words of queries, in one corpus or several.

    Args:
        formula: The id of the rules that split texts into words, and of the formula of BM25.
        records: The number of records.
        words: The number of words in all records together.
        frequencies: For each word of the queries that counts, the number of records that contain it.
        repeats: For each word that a query has more than once, how often. With several queries, the most.

    Raises:
        ArgumentError: If a number is not a whole number of at least 0, or is too large.

    Example:
        >>> here = TermCounts("bm25", records=2, words=9, frequencies={"keys": 1})
        >>> there = TermCounts("bm25", records=1, words=4, frequencies={"keys": 1})
        >>> TermCounts.sum([here, there])
        TermCounts(formula='bm25', records=3, words=13, frequencies={'keys': 2}, repeats={})
    """

    formula: str
    records: int
    words: int
    frequencies: Mapping[str, int]
    repeats: Mapping[str, int] = field(default_factory=dict)

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
        for word, value in self.repeats.items():
            check_count(f"TermCounts: the repeats of {short_repr(word)}", value, least=1)

    @property
    def analyser(self) -> Analyser | None:
        """Return the analyser of these words; `None` if the formula is not one of airw's stores.

        A policy that looks for the words of a query in a text splits the text with it.

        Example:
            >>> counts = TermCounts(formula_of(Analyser("en")), 9, 90, frequencies={"kei": 1})
            >>> counts.analyser.terms("signing keys")
            ['sign', 'kei']
        """
        return _analysers_by_formula().get(self.formula)

    def weigh(self, word: str) -> float:
        """Return the weight of a word of the queries: its inverse document frequency.

        Example:
            >>> counts = TermCounts("bm25", records=100, words=900, frequencies={"keys": 5, "zebra": 0})
            >>> round(counts.weigh("keys"), 2), round(counts.weigh("zebra"), 2)
            (2.91, 5.31)
        """
        return weigh_word(self.records, self.frequencies[word])

    def max_score(self, part: "TermCounts") -> float:
        """Return a BM25 score that no record of a part of these records exceeds.

        The bound is that of a record which is full of the words: however often a word occurs, it adds less than 2.2
        times its weight. It is infinite for formulas of other stores.

        Args:
            part: The counts of some of the records, for the same queries.

        Example:
            >>> formula = formula_of(Analyser("en"))
            >>> both = TermCounts(formula, records=9, words=90, frequencies={"kei": 1})
            >>> round(both.max_score(TermCounts(formula, 4, 40, {"kei": 1})), 2)
            4.17
        """
        found = [word for word, count in part.frequencies.items() if count]
        if self.analyser is None:
            return math.inf if found else 0.0
        return sum(self.weigh(word) * self.repeats.get(word, 1) * (K1 + 1) for word in found)

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
            repeats=first.repeats,
        )


def check_term_counts(statistics: object, words_by_query: Iterable[Iterable[str]], formula: str) -> None:
    """Check that the counts that `search_text` received fit these queries and this formula.

    Raises:
        ArgumentError: If they are no counts, of another formula, or without the count of a word.

    Example:
        >>> check_term_counts(TermCounts("bm25", 2, 9, {"key": 1}), [["key"]], "bm25")
    """
    if not isinstance(statistics, TermCounts):
        raise ArgumentError(
            f"search_text: statistics must be TermCounts, as term_statistics returns, not {short_repr(statistics)}"
        )
    if statistics.formula != formula:
        raise ArgumentError(
            f"search_text: the statistics are of the formula {short_repr(statistics.formula)}, but this store "
            f"computes {formula!r}; add only counts of stores with one formula"
        )
    for word in (word for words in words_by_query for word in words if word not in statistics.frequencies):
        raise ArgumentError(
            f"search_text: the statistics have no count of the word {short_repr(word)}; "
            "pass the sum of what term_statistics returns for the same queries"
        )
