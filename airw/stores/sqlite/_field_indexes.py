"""Indexes over filter fields that follow a file: the records that a filter keeps, the artifacts that hold a value."""

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
from airw.stores._indexes.filter_columns import Column, FilterColumns, Rows, find_fields
from airw.stores._indexes.value_index import ValueIndex
from airw.stores.sqlite._filter_sql import compile_filter, field_text
from airw.stores.sqlite._record_log import RecordLog, read_records
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

_BLOCK = 4096  # rows read at a time
_MAX_COLUMN_BYTES = 1 << 26  # bytes: a column that takes more is not kept, and its field is looked at in SQL
_MAX_BYTES = 1 << 28  # bytes of all columns
_CACHED_SCANS = 32  # filters of which the answers are remembered


@dataclass(slots=True)
class _CachedScan:
    """The numbers of the records for which a filter was found to hold in SQL, and the state of the file then."""

    numbers: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    record: int = 0
    gone: int = 0

    @property
    def size(self) -> int:
        return self.numbers.nbytes


class FilterIndex:
    """Follows the filter fields of the records in a file; one user at a time.

    The work of following grows with what changed, not with the corpus. It may be interrupted at any statement: what was
    read counts, and the next call reads on. The first filter on a field is left to SQL and remembered, as reading
    columns takes longer; the next one, if it is another, has them read.
    """

    def __init__(self) -> None:
        self._scans = LruCache[str, _CachedScan](_CACHED_SCANS)
        self._table = FilterColumns()
        self._hashes: NDArray[np.int64] = np.empty(0, np.int64)  # of the records' ids
        self._too_large: set[str] = set()  # fields of which no column is kept
        self._log = RecordLog()

    def match(self, connection: "sqlite3.Connection", filter: Filter) -> Rows:
        """Return the numbers (rowids) of the records that satisfy a filter in the file's present state.

        Returns:
            `(n,) int64`, ascending; not to be changed.
        """
        fields = find_fields(filter)
        is_known = all(each in self._table.columns for each in fields) and repr(filter) not in self._scans
        for each in fields:
            if each not in self._too_large:
                self._table.column(each)
        if is_known:
            self._update(connection, fields)
            if self._too_large.isdisjoint(fields):
                found = self._table.match(filter, self._table.columns)
                _evict(self._table.columns)
                return found
        return self._scan(connection, filter)

    def _scan(self, connection: "sqlite3.Connection", filter: Filter) -> Rows:
        """Find them in SQL; of a filter asked for before, only what changed since is looked at."""
        scan = self._scans.get_or_create(repr(filter), lambda _: _CachedScan())
        record, gone = connection.execute(
            "SELECT coalesce((SELECT max(rowid) FROM record), 0), coalesce((SELECT max(seq) FROM gone), 0)"
        ).fetchone()
        if not scan.record:
            scan.gone = gone
        if record > scan.record:
            condition, parameters = compile_filter(filter, "metadata")
            rows = connection.execute(
                f"SELECT rowid FROM record WHERE rowid > ? AND {condition} ORDER BY rowid", [scan.record, *parameters]
            ).fetchall()
            scan.numbers = np.concatenate([scan.numbers, np.array([number for (number,) in rows], np.int64)])
            scan.record = record
        if gone != scan.gone:
            if len(scan.numbers):
                self._update(connection, [])
                scan.numbers = scan.numbers[np.isin(scan.numbers, self._table.numbers)]
            scan.gone = gone
        _evict(self._scans)
        return scan.numbers

    def _update(self, connection: "sqlite3.Connection", fields: Sequence[str]) -> None:
        """Take in which records there are now, and what they hold in these fields."""
        self._log.drop_removed(connection, partial(self._drop, connection), restart=self._restart)
        self._read_new(connection, fields)

    def _restart(self) -> None:
        self._table.clear()
        self._hashes = np.empty(0, np.int64)

    def _drop(self, connection: "sqlite3.Connection", record_ids: Sequence[str]) -> None:
        """Forget the records that left."""
        places = np.flatnonzero(np.isin(self._hashes, np.array([*map(hash, record_ids)], np.int64)))
        if not len(places):
            return
        # Another id may have the same hash: who is still there stays.
        numbers = self._table.numbers
        asked = json.dumps(numbers[places].tolist())
        found = connection.execute("SELECT rowid FROM record WHERE rowid IN (SELECT value FROM json_each(?))", [asked])
        there = np.array([number for (number,) in found], np.int64)
        live = np.ones(len(numbers), np.bool_)
        live[places] = np.isin(numbers[places], there)
        self._hashes = self._hashes[live]
        self._table.keep(live)

    def _read_new(self, connection: "sqlite3.Connection", fields: Sequence[str]) -> None:
        """Read the rows that are new, and those that the columns of these fields lack."""
        columns = {each: self._table.columns[each] for each in fields}
        complete = [each for each, column in columns.items() if len(column) == len(self._table.numbers)]
        for rows in self._log.read_new(connection, *_texts_of(complete), block=_BLOCK):
            numbers, ids, *texts = zip(*rows, strict=True)
            self._table.append(numbers)
            self._hashes = np.concatenate([self._hashes, np.array([*map(hash, ids)], np.int64)])
            for each, values in zip(complete, texts, strict=True):
                if columns[each].size <= _MAX_COLUMN_BYTES:
                    columns[each].add_texts(values)
        for each, column in columns.items():
            if len(column) < len(self._table.numbers):
                self._catch_up(connection, each, column)
            if column.size > _MAX_COLUMN_BYTES:
                self._too_large.add(each)
                self._table.columns.discard(each)

    def _catch_up(self, connection: "sqlite3.Connection", path: str, column: Column) -> None:
        last = int(self._table.numbers[len(column) - 1]) if len(column) else 0
        blocks = read_records(connection, *_texts_of([path]), after=last, block=_BLOCK)
        while column.size <= _MAX_COLUMN_BYTES and (rows := next(blocks, None)):
            column.add_texts([text for _, _, text in rows])


def _texts_of(fields: Sequence[str]) -> tuple[str, list[Any]]:
    """Return the SQL of the ids and of the JSON texts of these fields, and its parameters."""
    texts = [field_text(each, "metadata") for each in fields]
    return ", ".join(["id", *(text for text, _ in texts)]), [value for _, values in texts for value in values]


def _evict(known: LruCache[str, Column] | LruCache[str, _CachedScan]) -> None:
    """Forget what was asked for longest ago while all of it takes too much; the last one stays."""
    total = sum(each.size for each in known.values())
    for name in [*known][:-1]:
        if total > _MAX_BYTES:
            total -= known[name].size
            known.discard(name)


class FieldIndex:
    """Follows the values of one field of the records in a file; one user at a time.

    The work of following grows with what changed, not with the corpus. It may be interrupted at any statement: what was
    read counts, and the next call reads on.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._log = RecordLog()
        self._restart()

    def _restart(self) -> None:
        self._index = ValueIndex()
        self._artifacts: dict[str, str] = {}  # of one record each: artifacts leave with all of their records

    def update(self, connection: "sqlite3.Connection") -> ValueIndex:
        """Return the index of the file's present state."""
        self._log.drop_removed(connection, self._drop, restart=self._restart)
        text, parameters = field_text(self._field, "metadata")
        for rows in self._log.read_new(connection, f"id, artifact_id, {text}", parameters):
            self._add(rows)
        return self._index

    def _drop(self, record_ids: Sequence[str]) -> None:
        for record_id in record_ids:
            artifact_id = self._artifacts.pop(record_id, None)
            if artifact_id is not None:
                self._index.discard(artifact_id)

    def _add(self, rows: Sequence[tuple[int, str, str, str | None]]) -> None:
        for artifact_id, records in groupby(rows, itemgetter(2)):
            values = {value: record_id for _, record_id, _, value in records if value is not None}
            for value, record_id in values.items():
                self._artifacts[record_id] = artifact_id
                self._index.add(artifact_id, json.loads(value))
