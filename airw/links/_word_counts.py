"""Counts of the texts that contain a word, in little memory."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from airw._base.arrays import NDArray

_CELLS = 1 << 20  # per row of counts
_WORD = re.compile(r"\w+")


class WordCounts:
    """The number of texts that contain each word, in 8 MB of memory for any vocabulary.

    It is a count-min sketch (Cormode and Muthukrishnan, 2005) of two rows: a word has a cell in each, and the lower of
    the two counts is its count. It is never too low. It is too high only if other words share both cells, which is
    rare. The order of the texts does not matter.
    """

    def __init__(self) -> None:
        self.text_count = 0
        self._counts = np.zeros((2, _CELLS), np.uint32)

    def add(self, words: Iterable[str]) -> None:
        """Count the words of a text."""
        self.text_count += 1
        for row, cells in zip(self._counts, _cells_of(list(set(words))), strict=True):
            row[np.unique(cells)] += np.uint32(1)

    def counts(self, hashes: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the number of texts with each word; words are given by their hashes."""
        cells = zip(self._counts, _place(hashes), strict=True)
        counts: NDArray[np.int64] = np.min([row[places] for row, places in cells], axis=0).astype(np.int64)
        return counts

    def share(self, title: str) -> float:
        """Return the share of texts with all words of a title, if words are independent."""
        share = 1.0
        for word in sorted(set(_WORD.findall(title))):
            # Without arrays, as these take 20 times as long for the few words of a title.
            number = hash_word(word)
            share *= min(int(self._counts[0, number % _CELLS]), int(self._counts[1, number >> 12])) / self.text_count
        return share


def hash_word(word: str) -> int:
    """Return the hash by which a word is counted."""
    return crc32(word.encode("utf-8", "surrogatepass"))


def _cells_of(words: Sequence[str]) -> NDArray[Any]:
    """Return the cells of words, `(2, n)`: one per row of the sketch."""
    return _place(np.array(list(map(hash_word, words)), np.uint32))


def _place(hashes: NDArray[np.uint32]) -> NDArray[Any]:
    return np.stack([hashes % _CELLS, hashes >> 12])
