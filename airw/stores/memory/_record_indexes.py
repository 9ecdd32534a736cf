"""Indexes over the records of a store in memory: their texts, and their filter fields."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from airw.errors import StoreError
from airw.stores._indexes.columns import FilterColumns, Rows, fields_of
from airw.stores._indexes.postings import Postings
from airw.stores._indexes.texts import TEXT_TABLES, delete_records, insert_records, prepare_texts
from airw.values import Ranking, Record
from airw.values.filters import Filter, get_field

if TYPE_CHECKING:
    import sqlite3


class TextIndex:
    """The texts of records in an SQLite database in memory, made when it is first needed; ranks them by BM25."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._postings = Postings()

    def replace(self, removals: Sequence[str], records: Sequence[Record]) -> int:
        """Put texts in place of those of some artifacts; return the number of the first, which the others follow."""
        import sqlite3

        rows = [(each.id, each.artifact_id, each.surface_kind, each.surface_index, "", each.text) for each in records]
        try:
            with self._open() as connection:  # one transaction
                delete_records(connection, removals)
                return insert_records(connection, rows)
        except sqlite3.Error as error:
            raise StoreError(f"the texts cannot be stored: {error}") from error

    def rank(
        self,
        queries: Sequence[str],
        k: int,
        *,
        allowed: Rows | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts; see `Postings.rank`."""
        return self._postings.rank(
            self._open(), queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact
        )

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> "sqlite3.Connection":
        if self._connection is None:
            import sqlite3

            self._connection = sqlite3.connect(":memory:", check_same_thread=False)
            prepare_texts(self._connection)
            for statement in TEXT_TABLES:
                self._connection.execute(statement)
        return self._connection


class RecordFilterIndex:
    """Follows the filter fields of records; the work of following grows with what changed."""

    def __init__(self) -> None:
        self._table = FilterColumns()
        self._left: list[int] = []

    def drop(self, numbers: Iterable[int]) -> None:
        """Take note that the records of these numbers left."""
        last = self._table.numbers[-1] if len(self._table.numbers) else 0  # others were never known
        self._left.extend(number for number in numbers if number <= last)

    def allowed(self, records: dict[str, Record], numbers: Mapping[str, int], filter: Filter) -> Rows:
        """Return the numbers, ascending, of the records that satisfy a filter.

        Args:
            records: All that there are now, those with lower numbers first.
            numbers: The number of each, never used again.
            filter: A parsed filter.
        """
        if self._left:
            self._table.keep(~np.isin(self._table.numbers, self._left))
            self._left = []
        self._table.append([numbers[each.id] for each in _records_from(records, len(self._table.numbers))])
        columns = {path: self._table.column(path) for path in fields_of(filter)}
        for path, column in columns.items():
            column.add(get_field(each.metadata, path) for each in _records_from(records, len(column)))
        return self._table.find(filter, columns)


def _records_from(records: dict[str, Record], start: int) -> list[Record]:
    """Return the records from a place on, which is near the end."""
    return [*islice(reversed(records.values()), len(records) - start)][::-1]
