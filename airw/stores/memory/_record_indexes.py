"""Indexes over the records of a store in memory: one for texts, one for filter fields."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import NDArray
from airw.errors import StoreError
from airw.protocols import Rank
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.filter_columns import FilterColumns, RecordNumbers, find_fields
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.texts import (
    RECORD_TABLES,
    change_language,
    create_index,
    delete_records,
    find_texts,
    insert_records,
    prepare_texts,
)
from airw.values import Contains, Language, Ranking, Record, TermCounts
from airw.values.filters import Filter, get_field

if TYPE_CHECKING:
    import sqlite3


_ALL = 1 << 40


@contextmanager
def _storing() -> Iterator[None]:
    """Raise errors of the database as `StoreError`."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the texts cannot be stored: {error}") from error


class TextIndex:
    """An index that ranks the texts of records by BM25.

    The texts are in an SQLite database in memory, which is created at first use. So both stores split texts into words
    in the same way.

    Args:
        language: The language of the texts; `None` for words as they are.
    """

    def __init__(self, language: Language | None) -> None:
        self.language = language
        self._connection: sqlite3.Connection | None = None
        self._inverted_index = InvertedIndex()
        self._is_current = False  # whether the index shows the last write

    def replace(self, removals: Sequence[str], records: Sequence[Record]) -> int:
        """Remove the texts of some artifacts and add these records, in one transaction.

        Returns:
            The number of the first record. The others are numbered consecutively.

        Raises:
            StoreError: If the texts cannot be stored.
        """
        rows = [
            (record.id, record.artifact_id, record.surface_kind, record.surface_index, "", record.text)
            for record in records
        ]
        self._is_current = False
        with _storing(), self._open() as connection:
            delete_records(connection, removals)
            return insert_records(connection, rows)

    def find(self, contains: Contains) -> RecordNumbers:
        """Return the records of artifacts that contain what they must; see `find_texts`."""
        return find_texts(self._open(), contains)

    def rank(self, request: Rank, allowed: RecordNumbers | None) -> list[Ranking]:
        """Rank texts, among the `allowed` numbers; see `InvertedIndex.rank`."""
        queries: Any = request.queries
        rankings = self._inverted_index.rank(
            self._open(),
            queries,
            _ALL if request.k is None else request.k,
            allowed=allowed,
            surfaces=request.surfaces,
            per_artifact=request.per_artifact,
            statistics=request.statistics,
            contains=request.contains,
        )
        self._is_current = True
        return rankings

    def rank_if_quick(self, queries: Sequence[str], k: int, *, per_artifact: bool) -> list[Ranking] | None:
        """Return what `rank` returns; `None` if that may take more than about a millisecond."""
        return self._inverted_index.rank_if_quick(queries, k, per_artifact=per_artifact) if self._is_current else None

    def count_terms(self, queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the scores of these queries; see `InvertedIndex.count_terms`."""
        return self._inverted_index.count_terms(self._open(), queries)

    def score_apart(
        self, query: str, groups: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[TermCounts]]:
        """Score texts as if each group were all that there is; see `InvertedIndex.score_apart`."""
        return self._inverted_index.score_apart(self._open(), query, groups)

    def change_language(self, language: Language | None) -> None:
        """Index all texts again for a language.

        Raises:
            StoreError: If the texts cannot be stored. The language stays the same then.
        """
        if language == self.language:
            return
        self._is_current = False
        if self._connection is not None:
            with _storing(), self._connection as connection:
                connection.execute("BEGIN")
                change_language(connection, language)
        self.language = language

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> "sqlite3.Connection":
        if self._connection is None:
            import sqlite3

            self._connection = sqlite3.connect(":memory:", check_same_thread=False)
            prepare_texts(self._connection)
            for statement in RECORD_TABLES:
                self._connection.execute(statement)
            create_index(self._connection, self.language)
        return self._connection


class RecordFilterIndex:
    """An index of filter fields.

    An update takes time in proportion to the changes, not to the number of records.
    """

    def __init__(self) -> None:
        self._table = FilterColumns()
        self._removed: list[int] = []

    def drop(self, numbers: RecordNumbers) -> None:
        """Mark the records with these numbers as removed; the next `match` drops them."""
        last = self._table.numbers[-1] if len(self._table.numbers) else 0  # higher numbers are not indexed yet
        self._removed.extend(numbers[numbers <= last].tolist())

    def match(self, records: dict[str, Record], index: DenseIndex, filter: Filter) -> RecordNumbers:
        """Return the numbers of the records that match a filter, ascending.

        Args:
            records: All present records, in the order of their numbers.
            index: The numbers of the records. That of a removed record is never used again.
            filter: A parsed filter.
        """
        # Drop removed records, append new ones, then fill the columns of the fields that this filter names.
        if self._removed:
            self._table.keep(~np.isin(self._table.numbers, self._removed))
            self._removed = []

        def records_from(start: int) -> list[Record]:
            """Return the records from a position on; counted from the end, as new records are few."""
            return [*islice(reversed(records.values()), len(records) - start)][::-1]

        ids = [record.id for record in records_from(len(self._table.numbers))]
        self._table.append(index.number(None, ids, None).tolist())
        columns = {path: self._table.column(path) for path in find_fields(filter)}
        for path, column in columns.items():
            column.add(get_field(record.metadata, path) for record in records_from(len(column)))
        return self._table.match(filter, columns)
