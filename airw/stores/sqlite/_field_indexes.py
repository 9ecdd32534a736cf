"""Indexes in memory of the filter fields in a file: records by filter, artifacts by value."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import NDArray
from airw._base.fairness import give_way
from airw.stores._indexes.filter_columns import Column, FilterColumns, RecordNumbers, find_fields
from airw.stores._indexes.value_index import ValueIndex
from airw.stores._stored_values import detect_damage, parse_mappings
from airw.stores.sqlite._field_sql import compile_field
from airw.stores.sqlite._records import RecordLog, read_records
from airw.values.filters import Filter, matches

if TYPE_CHECKING:
    import sqlite3

_BLOCK = 4096  # rows per read
_FIELDS = 500  # columns per read; SQLite returns up to 2,000
_MAX_COLUMN_BYTES = 1 << 26  # a larger column is dropped, and filters on its field compare records one by one
_MAX_BYTES = 1 << 28  # memory of all columns


class FilterIndex:
    """Finds the records of a file that match a filter; one user at a time.

    The first filter on a field fills its column. An update takes time in proportion to the changes, not to the corpus.
    It may be interrupted at any statement; the next call continues there.
    """

    def __init__(self) -> None:
        self._table = FilterColumns()
        self._hashes: NDArray[np.int64] = np.empty(0, np.int64)  # of the record ids, in the order of the table
        self._too_large: set[str] = set()  # fields whose column would take too much memory
        self._log = RecordLog()

    def match(self, connection: "sqlite3.Connection", filter: Filter) -> RecordNumbers:
        """Return the numbers (rowids) of the records that match a filter now.

        Returns:
            `(n,) int64`, ascending. The caller must not change it.
        """
        fields = find_fields(filter)
        if self._too_large.isdisjoint(fields):
            self._log.drop_removed(connection, partial(self._drop, connection), restart=self._restart)
            columns = self._read_new(connection, fields)
        if not self._too_large.isdisjoint(fields):
            return _scan(connection, filter)
        numbers = self._table.match(filter, columns)
        # Remove the least recently used columns while all take too much memory; the last one stays.
        kept = self._table.columns
        while len(kept) > 1 and sum(column.size for column in kept.values()) > _MAX_BYTES:
            kept.discard(next(iter(kept)))
        return numbers

    def _restart(self) -> None:
        self._table.clear()
        self._hashes = np.empty(0, np.int64)

    def _drop(self, connection: "sqlite3.Connection", record_ids: Sequence[str]) -> None:
        """Remove these records from the table."""
        # Ids are kept as an array of hashes, which is small and compared in one step. Two ids may have the same hash:
        # so records that still exist stay.
        is_met = np.isin(self._hashes, np.array([*map(hash, record_ids)], np.int64))
        rows = connection.execute(
            "SELECT rowid FROM record WHERE rowid IN (SELECT value FROM json_each(?))",
            [json.dumps(self._table.numbers[is_met].tolist())],
        )
        live = ~is_met | np.isin(self._table.numbers, np.array([number for (number,) in rows], np.int64))
        self._hashes = self._hashes[live]
        self._table.keep(live)

    def _read_new(self, connection: "sqlite3.Connection", fields: Sequence[str]) -> dict[str, Column]:
        """Append new records, and the missing rows of these columns; return the columns."""
        for rows in self._log.read_new(connection, "id", block=_BLOCK):
            numbers, ids = zip(*rows, strict=True)
            self._table.append(numbers)
            self._hashes = np.concatenate([self._hashes, np.array([*map(hash, ids)], np.int64)])
        columns = {path: self._table.column(path) for path in fields}
        # Columns that were used together lack the same rows: these are read in one pass.
        lacking: dict[tuple[int, int], list[str]] = {}
        for at, (path, column) in enumerate(columns.items()):
            lacking.setdefault((len(column), at // _FIELDS), []).append(path)
        for (count, _), paths in lacking.items():
            texts = [compile_field(path, "metadata") for path in paths]
            sql, parameters = ", ".join(text for text, _ in texts), [value for _, values in texts for value in values]
            after = int(self._table.numbers[count - 1]) if count else 0
            for rows in read_records(connection, sql, parameters, after=after, block=_BLOCK):
                for path, values in zip(paths, [*zip(*rows, strict=True)][1:], strict=True):
                    with detect_damage():
                        columns[path].add_texts(values)
                    if columns[path].size > _MAX_COLUMN_BYTES:
                        self._too_large.add(path)
                        self._table.columns.discard(path)
                if not self._too_large.isdisjoint(paths):
                    return columns
        return columns


def _scan(connection: "sqlite3.Connection", filter: Filter) -> RecordNumbers:
    """Return the records that match a filter, compared one by one."""
    found = list[int]()
    for rows in read_records(connection, "metadata", after=0, block=_BLOCK):
        give_way()
        numbers, metadata = zip(*rows, strict=True)
        matching = (matches(filter, fields) for fields in parse_mappings(metadata))
        found += compress(numbers, matching)
    return np.array(found, np.int64)


class FieldIndex:
    """Finds the artifacts of a file by the values of one field; one user at a time.

    An update takes time in proportion to the changes, not to the corpus. It may be interrupted at any statement; the
    next call continues there.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._log = RecordLog()
        self._restart()

    def _restart(self) -> None:
        self._index = ValueIndex()
        self._artifacts: dict[str, str] = {}  # record -> artifact, for one record per value

    def update(self, connection: "sqlite3.Connection") -> ValueIndex:
        """Update the index to the present state of the file, and return it."""
        self._log.drop_removed(connection, self._drop, restart=self._restart)
        text, parameters = compile_field(self._field, "metadata")
        for rows in self._log.read_new(connection, f"id, artifact_id, {text}", parameters):
            self._add(rows)
        return self._index

    def _drop(self, record_ids: Sequence[str]) -> None:
        # Artifacts are always removed with all of their records, so one removed record is enough to know.
        for record_id in record_ids:
            artifact_id = self._artifacts.pop(record_id, None)
            if artifact_id is not None:
                self._index.discard(artifact_id)

    def _add(self, rows: Sequence[tuple[int, str, str, str | None]]) -> None:
        for artifact_id, records in groupby(rows, itemgetter(2)):
            values = {value: record_id for _, record_id, _, value in records if value is not None}
            for value, record_id in values.items():
                self._artifacts[record_id] = artifact_id
                with detect_damage():
                    parsed = json.loads(value)
                self._index.add(artifact_id, parsed)
