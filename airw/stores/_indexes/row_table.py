"""The rows of a text index in one state of the database, and the words in them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import NDArray
from airw.stores._indexes.best_rows import Rows, RowScorer, Scores
from airw.stores._indexes.word_tables import TextState, check_consistent, read_lengths, read_lengths_of, read_texts_of
from airw.values import Analyser

if TYPE_CHECKING:
    import sqlite3

_FEW = 16  # lengths are read one by one for less than one in so many rows, as that takes about as long as reading all


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowTable:
    """All rows in one state of the database.

    Removed rows keep their position, so that postings stay valid.

    Args:
        state: The state.
        count: The number of live rows.
        word_count: The number of words in them.
        rowids: The rowid of each row, ascending.
        is_live: Which rows were not removed.
        lengths: The number of words in each row; -1 while it is unknown. All threads write the same values into it.
        scorer: Finds the best rows.
    """

    state: TextState
    count: int
    word_count: int
    rowids: NDArray[np.int64]
    is_live: NDArray[np.bool_]
    lengths: Scores
    scorer: RowScorer

    @property
    def analyser(self) -> Analyser:
        """Return the analyser of the texts and of queries."""
        return Analyser(self.state.language)

    @property
    def removal_count(self) -> int:
        """Return the number of removed rows."""
        return len(self.rowids) - self.count

    def locate(self, rowids: NDArray[np.int64]) -> Rows:
        """Return the rows with these rowids.

        Raises:
            sqlite3.DatabaseError: If there is no such row, because the text index is damaged.
        """
        rows, is_there = self._search(rowids)
        check_consistent(is_there.all())
        return rows

    def mark(self, rowids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows have one of these rowids."""
        rows, is_there = self._search(rowids)
        marks = np.zeros(len(self.rowids), np.bool_)
        marks[rows[is_there]] = True
        return marks

    def _search(self, rowids: NDArray[np.int64]) -> tuple[Rows, NDArray[np.bool_]]:
        """Return a row for each rowid, and whether it is the right one."""
        if not len(self.rowids):
            return np.zeros(len(rowids), np.int32), np.zeros(len(rowids), np.bool_)
        first, last = int(self.rowids[0]), int(self.rowids[-1])
        has_gaps = last - first >= len(self.rowids)
        rows = self.rowids.searchsorted(rowids) if has_gaps else rowids - first
        is_there = self.rowids.take(rows, mode="clip") == rowids
        return rows.astype(np.int32), is_there

    def read_lengths(self, connection: "sqlite3.Connection", rows: Rows) -> Scores:
        """Return the number of words in each of these rows."""
        lengths = self.lengths[rows]
        is_missing = lengths < 0
        if is_missing.any():
            missing = rows[is_missing]
            if self.has_few(missing):
                self.lengths[missing] = read_lengths_of(connection, self.rowids[missing])
            else:
                rowids, values = read_lengths(connection, 0)
                self.lengths[self.locate(rowids)] = values
            lengths = self.lengths[rows]
            check_consistent(lengths.min() >= 0)
        return lengths

    def has_few(self, rows: Rows) -> bool:
        """Return whether these are so few rows that they are read one by one."""
        return len(rows) * _FEW <= len(self.rowids)


class RowTexts:
    """The words of some rows, split once for all words of a query."""

    def __init__(self, connection: "sqlite3.Connection", table: RowTable) -> None:
        self._connection = connection
        self._table = table
        self._words: dict[int, list[str]] = {}

    def count(self, word: str, rows: Rows) -> NDArray[np.int32]:
        """Return how often each of these rows contains a word."""
        missing = [row for row in rows.tolist() if row not in self._words]
        if missing:
            texts = read_texts_of(self._connection, self._table.rowids[missing])
            self._words.update(zip(missing, self._table.analyser.split(texts), strict=True))
        return np.fromiter((self._words[row].count(word) for row in rows.tolist()), np.int32, len(rows))
