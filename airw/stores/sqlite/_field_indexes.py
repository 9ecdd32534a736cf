"""Indexes in memory of the filter fields in a file: records by filter, artifacts by value."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw.stores._indexes.filter_columns import Column, FilterColumns, RecordNumbers, find_fields
from airw.stores._indexes.value_index import ValueIndex
from airw.stores.sqlite._filter_sql import compile_field, compile_filter
from airw.stores.sqlite._record_log import RecordLog, read_records
from airw.stores.sqlite._records import parse_value
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

_BLOCK = 4096  # rows per read
_MAX_COLUMN_BYTES = 1 << 26  # a larger column is dropped, and filters on its field are evaluated in SQL
_MAX_BYTES = 1 << 28  # memory of all columns; the same for all cached scans
_CACHED_SCANS = 32  # filters whose matching records are cached


@dataclass(slots=True, eq=False, repr=False)
class _CachedScan:
    """The records that matched a filter in SQL, and the state of the file at that time.

    Args:
        numbers: The rowids of these records, ascending.
        last_record: The highest rowid at that time.
        last_tombstone: The last row of the table `gone` at that time.
    """

    numbers: RecordNumbers = field(default_factory=lambda: np.empty(0, np.int64))
    last_record: int = 0
    last_tombstone: int = 0

    @property
    def size(self) -> int:
        return self.numbers.nbytes


class FilterIndex:
    """Finds the records of a file that match a filter; one user at a time.

    The first filter on a field is evaluated in SQL, and its result cached, because filling a column takes longer. The
    next different filter on that field fills the column. An update takes time in proportion to the changes, not to the
    corpus. It may be interrupted at any statement; the next call continues there.
    """

    def __init__(self) -> None:
        self._scans = LruCache[str, _CachedScan](_CACHED_SCANS)
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
        # Use columns if all fields occurred in earlier filters, unless this very filter has a cached scan.
        use_columns = all(path in self._table.columns for path in fields) and repr(filter) not in self._scans
        # Request the columns in any case, so that the next filter on these fields uses them.
        for path in fields:
            if path not in self._too_large:
                self._table.column(path)
        if use_columns:
            self._update(connection, fields)
            if self._too_large.isdisjoint(fields):
                numbers = self._table.match(filter, self._table.columns)
                _evict(self._table.columns)
                return numbers
        return self._scan(connection, filter)

    def _scan(self, connection: "sqlite3.Connection", filter: Filter) -> RecordNumbers:
        """Return the matching records by SQL, updating a cached scan if there is one."""
        scan = self._scans.get_or_create(repr(filter), lambda _: _CachedScan())
        last_record, last_tombstone = connection.execute(
            "SELECT coalesce((SELECT max(rowid) FROM record), 0), coalesce((SELECT max(seq) FROM gone), 0)"
        ).fetchone()
        if not scan.last_record:
            scan.last_tombstone = last_tombstone
        # Evaluate the filter on new records.
        if last_record > scan.last_record:
            condition, parameters = compile_filter(filter, "metadata")
            rows = connection.execute(
                f"SELECT rowid FROM record WHERE rowid > ? AND {condition} ORDER BY rowid",
                [scan.last_record, *parameters],
            ).fetchall()
            scan.numbers = np.concatenate([scan.numbers, np.array([number for (number,) in rows], np.int64)])
            scan.last_record = last_record
        # Drop removed records.
        if last_tombstone != scan.last_tombstone:
            if len(scan.numbers):
                self._update(connection, [])
                scan.numbers = scan.numbers[np.isin(scan.numbers, self._table.numbers)]
            scan.last_tombstone = last_tombstone
        _evict(self._scans)
        return scan.numbers

    def _update(self, connection: "sqlite3.Connection", fields: Sequence[str]) -> None:
        """Update the table to the present records, and the columns of these fields."""
        self._log.drop_removed(connection, partial(self._drop, connection), restart=self._restart)
        self._read_new(connection, fields)

    def _restart(self) -> None:
        self._table.clear()
        self._hashes = np.empty(0, np.int64)

    def _drop(self, connection: "sqlite3.Connection", record_ids: Sequence[str]) -> None:
        """Remove these records from the table."""
        # Ids are kept as an array of hashes, which is small and compared in one step.
        positions = np.flatnonzero(np.isin(self._hashes, np.array([*map(hash, record_ids)], np.int64)))
        if not len(positions):
            return
        # Two ids may have the same hash, so keep records that still exist.
        numbers = self._table.numbers
        numbers_json = json.dumps(numbers[positions].tolist())
        rows = connection.execute(
            "SELECT rowid FROM record WHERE rowid IN (SELECT value FROM json_each(?))", [numbers_json]
        )
        existing = np.array([number for (number,) in rows], np.int64)
        live = np.ones(len(numbers), np.bool_)
        live[positions] = np.isin(numbers[positions], existing)
        self._hashes = self._hashes[live]
        self._table.keep(live)

    def _read_new(self, connection: "sqlite3.Connection", fields: Sequence[str]) -> None:
        """Append new records, and the missing rows of the columns of these fields."""
        columns = {path: self._table.columns[path] for path in fields}
        # Columns that were complete before need only the new records: read all of them in one pass.
        complete = [path for path, column in columns.items() if len(column) == len(self._table.numbers)]
        for rows in self._log.read_new(connection, *_text_columns(complete), block=_BLOCK):
            numbers, ids, *texts = zip(*rows, strict=True)
            self._table.append(numbers)
            self._hashes = np.concatenate([self._hashes, np.array([*map(hash, ids)], np.int64)])
            for path, values in zip(complete, texts, strict=True):
                if columns[path].size <= _MAX_COLUMN_BYTES:
                    columns[path].add_texts(values)
        # All other columns lack rows, each from another record on.
        for path, column in columns.items():
            if len(column) < len(self._table.numbers):
                self._complete_column(connection, path, column)
            if column.size > _MAX_COLUMN_BYTES:
                self._too_large.add(path)
                self._table.columns.discard(path)

    def _complete_column(self, connection: "sqlite3.Connection", path: str, column: Column) -> None:
        last = int(self._table.numbers[len(column) - 1]) if len(column) else 0
        blocks = read_records(connection, *_text_columns([path]), after=last, block=_BLOCK)
        while column.size <= _MAX_COLUMN_BYTES and (rows := next(blocks, None)):
            column.add_texts([text for _, _, text in rows])


def _text_columns(fields: Sequence[str]) -> tuple[str, list[Any]]:
    """Return the SQL of the id and of the JSON texts of these fields, with its parameters."""
    texts = [compile_field(path, "metadata") for path in fields]
    return ", ".join(["id", *(text for text, _ in texts)]), [value for _, values in texts for value in values]


def _evict(cache: LruCache[str, Column] | LruCache[str, _CachedScan]) -> None:
    """Remove the least recently used items while all take too much memory; the last one stays."""
    total = sum(item.size for item in cache.values())
    for name in [*cache][:-1]:
        if total > _MAX_BYTES:
            total -= cache[name].size
            cache.discard(name)


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
                self._index.add(artifact_id, parse_value(value))
