"""The words of a query, their weights, and which of them a text holds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import offload_if
from airw.policies._capabilities import has_method
from airw.policies._several_corpora import member_names
from airw.protocols import OpenCorpus
from airw.values import Analyser, TermCounts

_PUNCTUATION = ".,;:!?\"'()[]{}<>*_`\u201c\u201d\u2018\u2019"
_END_OF_SENTENCE = tuple(".!?:;")
_OFFLOAD_ABOVE = 20_000  # characters; splitting so many into words takes about two milliseconds
_SHORT = 3  # characters; a short word with a dot, such as "J." or "Mr.", does not end a sentence

Splitter = Callable[[Sequence[str]], Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True, eq=False)
class QueryWords:
    """The words of a query as the store counts them; none if it does not count words.

    Args:
        terms: The words in the form in which the store compares them. Words that no text holds are left out.
        spellings: The same words as the query writes them.
        weights: The weight of each word, `(words,)`: its inverse document frequency, squared. It counts once for the
            query and once for the text, as in the cosine of two tf-idf vectors (Salton and Buckley, 1988).
        are_names: Which words the query writes with a capital, but not at the start of a sentence, `(words,) bool`.
        split: Returns the words of texts in the form of `terms`.
    """

    terms: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    are_names: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    split: Splitter | None = None

    def find_in(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of the words each text holds, `(texts, words) bool`."""
        if self.split is None or not texts:
            return np.empty((len(texts), len(self.terms)), np.bool_)
        words = map(set, self.split(texts))
        return np.array([[term in held for term in self.terms] for held in words], np.bool_)

    def spell(self, held: NDArray[np.bool_]) -> list[str]:
        """Return these words as the query writes them, without duplicates."""
        return list(dict.fromkeys(word for word, is_held in zip(self.spellings, held.tolist(), strict=True) if is_held))


async def read_query_words(query: str, corpus: OpenCorpus[Any]) -> QueryWords:
    """Return the words of a query with their weights; one store call.

    There are none if the store does not count words.
    """
    # The store of several corpora adds up the counts of all, if they are of one kind.
    method = "pool_counts" if member_names(corpus) else "term_statistics"
    counts: TermCounts | None = await getattr(corpus.store, method)([query]) if has_method(corpus, method) else None
    if counts is None:
        return QueryWords()
    return await offload_if(len(query) > _OFFLOAD_ABOVE, _weigh_words, query, counts)


def _weigh_words(query: str, counts: TermCounts) -> QueryWords:
    # The rules of another store are not known; its words are then taken as they are.
    split = (counts.analyser or Analyser(None)).split
    terms = tuple(term for term, frequency in counts.frequencies.items() if frequency)
    if not terms:
        return QueryWords()
    # The first spelling of a word counts.
    spelling, names = dict[str, str](), set[str]()
    words = list(_find_words(query))
    for (word, is_name), own in zip(words, split([word for word, _ in words]), strict=True):
        for term in own:
            spelling.setdefault(term, word)
        if is_name:
            names.update(own)
    return QueryWords(
        terms,
        tuple(spelling.get(term, term) for term in terms),
        np.array([counts.weigh(term) ** 2 for term in terms]),
        np.array([term in names for term in terms], np.bool_),
        split,
    )


def _find_words(query: str) -> Iterator[tuple[str, bool]]:
    """Yield each word of a query, and whether it is written like a name.

    A name has a capital and at least two characters, and does not begin a sentence.
    """
    begins = True
    for line in query.splitlines():
        for written in line.split():
            word = written.strip(_PUNCTUATION)
            yield word, len(word) > 1 and word[0].isupper() and not begins
            begins = written.rstrip("\"')]}\u201d\u2019").endswith(_END_OF_SENTENCE) and not (
                written.endswith(".") and len(written) <= _SHORT
            )
        begins = True
