"""Which records satisfy a filter: columns in memory, one for each field that was asked for.

A column keeps every distinct value of its field once. What a condition says of a value it says of all the rows that
hold it, so it is decided by value, and rows are looked up.
"""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.stores._recent import recall
from airw.stores._sql_filter import compile_filter, field_text
from airw.values import Record
from airw.values.filters import MISSING, And, Compare, Filter, Not, Or, as_key, get_field, matches

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Column", "Columns", "RecordColumns"]

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.int64]

_BLOCK = 4096  # rows read at a time
_FEW, _PART = 256, 256  # so many values are decided one by one, or one in so many: sorting them takes longer
_VALUE, _CHARACTER = 150, 4  # bytes that a value takes, about, and each character of its JSON text
_DEAR = 1 << 26  # bytes: a field of more is asked for in SQL
_ROOM = 1 << 28  # bytes of all columns


class Column:
    """The values of one field, row after row; equal ones, as filters compare, are kept once.

    Example:
        >>> column = Column()
        >>> column.add_texts(["2019", None, "2021", "2021.0"])
        >>> column.holds("$gte", 2020).tolist()
        [False, False, True, True]
        >>> column.holds("$exists", False).tolist()
        [False, True, False, False]
    """

    def __init__(self) -> None:
        self._codes: NDArray[np.int32] = np.empty(0, np.int32)
        self._keys: list[Any] = [MISSING]  # of the values, as `as_key` gives them
        self._code_of: dict[Hashable, int] = {MISSING: 0}
        self._of_kind: defaultdict[type, list[int]] = defaultdict(list)
        self._sorted = 0  # so many values, those known first, are in these orders
        self._orders: dict[type, tuple[list[Any], Rows]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._codes)

    @property
    def size(self) -> int:
        """Give the bytes that it takes, about."""
        return self._bytes + self._codes.nbytes

    @property
    def is_dear(self) -> bool:
        """Say whether it takes too much to be kept."""
        return self.size > _DEAR

    @property
    def distinct(self) -> int:
        """Count the values known, those that no row holds any more included."""
        return len(self._keys)

    def add(self, values: Iterable[Any]) -> None:
        """Take in more rows: the value of each, JSON-clean, `MISSING` where there is none."""
        self._add_codes([self._code(value) for value in values])

    def add_texts(self, texts: Sequence[str | None]) -> None:
        """Take in more rows: the JSON text of the value of each, `None` where there is none."""
        distinct = [text for text in dict.fromkeys(texts) if text is not None]
        values = json.loads(f"[{','.join(distinct)}]")  # all at once takes a fraction of the time
        codes: dict[str | None, int] = {None: 0, **dict(zip(distinct, map(self._code, values, distinct), strict=True))}
        self._add_codes([codes[text] for text in texts])

    def _add_codes(self, codes: list[int]) -> None:
        self._codes = np.concatenate([self._codes, np.array(codes, np.int32)])

    def _code(self, value: Any, text: str = "") -> int:
        key = as_key(value)
        code = self._code_of.setdefault(key, len(self._keys))
        if code == len(self._keys):
            self._keys.append(key)
            self._of_kind[_kind(key)].append(code)
            self._bytes += _VALUE + _CHARACTER * len(text)
        return code

    def keep(self, rows: Mask) -> None:
        """Forget the other rows; more rows than it has yet may be named."""
        self._codes = self._codes[rows[: len(self)]]

    def holds(self, op: str, operand: Any) -> Mask:
        """Say of each row whether its value satisfies a condition, exactly as `filters.matches` does."""
        if op in ("$ne", "$nin"):
            return ~self.holds("$eq" if op == "$ne" else "$in", operand)
        chosen = np.zeros(len(self._keys), np.bool_)
        for codes in self._chosen(op, operand):
            chosen[codes] = True
        kept: Mask = chosen.take(self._codes)
        return kept

    def _chosen(self, op: str, operand: Any) -> Iterable[Any]:
        """Give the codes of the values that satisfy a condition."""
        match op:
            case "$exists":
                return [slice(1, None) if operand else slice(1)]
            case "$eq":
                return [self._known([operand])]
            case "$in":
                return self._among(operand)
            case "$contains":
                return self._containing(operand)
        return self._ordered(op, operand)

    def _known(self, values: Iterable[Any]) -> list[int]:
        return [self._code_of[key] for key in map(as_key, values) if key in self._code_of]

    def _among(self, operand: Sequence[Any]) -> Iterable[Any]:
        yield self._known(item for item in operand if not isinstance(item, list))
        wanted = {*map(as_key, operand)}  # a list matches by what it holds
        yield [code for code in self._of_kind[tuple] if not wanted.isdisjoint(self._keys[code])]

    def _containing(self, operand: Any) -> Iterable[Any]:
        key = as_key(operand)
        for kind in (tuple, str) if isinstance(operand, str) else (tuple,):
            yield [code for code in self._of_kind[kind] if key in self._keys[code]]

    def _ordered(self, op: str, operand: Any) -> Iterable[Any]:
        self._sort()
        leaf = Compare("v", op, operand)
        fresh = enumerate(self._keys[self._sorted :], self._sorted)
        yield [code for code, key in fresh if matches(leaf, {"v": key})]  # what has an order is its own key
        if _kind(operand) in self._orders:
            keys, codes = self._orders[_kind(operand)]
            at = (bisect_left if op in ("$gte", "$lt") else bisect_right)(keys, operand)
            yield codes[at:] if op in ("$gt", "$gte") else codes[:at]

    def _sort(self) -> None:
        """Sort the values, once many are new; Python compares numbers of all kinds exactly."""
        if len(self._keys) - self._sorted <= _FEW + self._sorted // _PART:
            return
        for kind in (str, float):
            codes = sorted(self._of_kind[kind], key=self._keys.__getitem__)
            self._orders[kind] = [self._keys[code] for code in codes], np.array(codes, np.int64)
        self._sorted = len(self._keys)


def _kind(key: Any) -> type:
    """Give `str` or `float` for what has an order, numbers of all kinds together."""
    return str if isinstance(key, str) else float if isinstance(key, (int, float)) else type(key)


@dataclass(slots=True)
class _Scan:
    """The numbers of the records for which a filter was found to hold in SQL, and the state of the file then."""

    numbers: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    record: int = 0
    gone: int = 0

    @property
    def size(self) -> int:
        """Give the bytes that it takes, about."""
        return self.numbers.nbytes


class Columns:
    """Follows the filter fields of the records in a file; one user at a time.

    The work of following grows with what changed, not with the corpus. It may be interrupted at any statement: what was
    read counts, and the next call reads on. The first filter on a field is left to SQL and remembered, as reading
    columns takes longer; the next one, if it is another, has them read.
    """

    def __init__(self) -> None:
        self._scans: dict[str, _Scan] = {}
        self._columns: dict[str, Column] = {}  # of the fields asked for
        self._dear: set[str] = set()  # fields of which no column is kept
        self._forget()

    def _forget(self) -> None:
        self._numbers: Rows = np.empty(0, np.int64)  # of the records, ascending
        self._hashes: NDArray[np.int64] = np.empty(0, np.int64)  # of their ids
        self._columns = {path: Column() for path in self._columns}
        self._record = self._gone = 0

    def allowed(self, connection: "sqlite3.Connection", filter: Filter) -> Rows:
        """Give the numbers (rowids) of the records that satisfy a filter in the file's present state.

        Returns:
            `(n,) int64`, ascending; not to be changed.
        """
        paths = sorted(_paths(filter))
        is_known = all(path in self._columns for path in paths) and repr(filter) not in self._scans
        for path in paths:
            if path not in self._dear:
                recall(self._columns, path, lambda _: Column())
        if is_known:
            self._follow(connection, paths)
            if self._dear.isdisjoint(paths):
                found = self._numbers[_kept(filter, self._columns, len(self._numbers))]
                _make_room(self._columns)
                return found
        return self._scan(connection, filter)

    def _scan(self, connection: "sqlite3.Connection", filter: Filter) -> Rows:
        """Find them in SQL; of a filter asked for before, only what changed since is looked at."""
        scan = recall(self._scans, repr(filter), lambda _: _Scan())
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
                self._follow(connection, [])
                scan.numbers = scan.numbers[np.isin(scan.numbers, self._numbers)]
            scan.gone = gone
        _make_room(self._scans)
        return scan.numbers

    def _follow(self, connection: "sqlite3.Connection", paths: Sequence[str]) -> None:
        """Take in which records there are now, and what they hold in these fields."""
        oldest, newest = connection.execute(
            "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)"  # one of them at a time reads no table
        ).fetchone()
        # Tombstones are forgotten in time; whoever missed some starts again.
        if not self._record or (oldest or 0) > self._gone + 1:
            self._forget()
        else:
            gone = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [self._gone]).fetchall()
            self._drop(connection, [hash(record_id) for (record_id,) in gone])
        self._gone = newest or 0
        self._read_on(connection, paths)

    def _drop(self, connection: "sqlite3.Connection", hashes: Sequence[int]) -> None:
        """Forget the records that left, whose ids have these hashes."""
        places = np.flatnonzero(np.isin(self._hashes, np.array(hashes, np.int64)))
        if not len(places):
            return
        # Another id may have the same hash: who is still there stays.
        asked = json.dumps(self._numbers[places].tolist())
        found = connection.execute("SELECT rowid FROM record WHERE rowid IN (SELECT value FROM json_each(?))", [asked])
        there = np.array([number for (number,) in found], np.int64)
        live = np.ones(len(self._numbers), np.bool_)
        live[places] = np.isin(self._numbers[places], there)
        self._numbers, self._hashes = self._numbers[live], self._hashes[live]
        _keep(self._columns, live)

    def _read_on(self, connection: "sqlite3.Connection", paths: Sequence[str]) -> None:
        """Read the rows that are new, and those that the columns of these fields lack."""
        columns = {path: self._columns[path] for path in paths}
        level = [path for path, column in columns.items() if len(column) == len(self._numbers)]
        for numbers, ids, *texts in _blocks(connection, level, after=self._record):
            self._numbers = np.concatenate([self._numbers, np.array(numbers, np.int64)])
            self._hashes = np.concatenate([self._hashes, np.array([*map(hash, ids)], np.int64)])
            self._record = numbers[-1]
            for path, values in zip(level, texts, strict=True):
                if not columns[path].is_dear:
                    columns[path].add_texts(values)
        for path, column in columns.items():
            if not column.is_dear and len(column) < len(self._numbers):
                self._catch_up(connection, path, column)
            if column.is_dear:
                self._dear.add(path)
                del self._columns[path]

    def _catch_up(self, connection: "sqlite3.Connection", path: str, column: Column) -> None:
        last = int(self._numbers[len(column) - 1]) if len(column) else 0
        for _, _, values in _blocks(connection, [path], after=last):
            column.add_texts(values)
            if column.is_dear:
                break


class RecordColumns:
    """Follows the filter fields of records in memory; the work of following grows with what changed."""

    def __init__(self) -> None:
        self._numbers: Rows = np.empty(0, np.int64)
        self._columns: dict[str, Column] = {}
        self._left: list[int] = []

    def drop(self, numbers: Iterable[int]) -> None:
        """Take note that the records of these numbers left."""
        last = self._numbers[-1] if len(self._numbers) else 0  # others were never known
        self._left.extend(number for number in numbers if number <= last)

    def allowed(self, records: dict[str, Record], numbers: Mapping[str, int], filter: Filter) -> Rows:
        """Give the numbers, ascending, of the records that satisfy a filter.

        Args:
            records: All that there are now, those with lower numbers first.
            numbers: The number of each, never used again.
            filter: A parsed filter.
        """
        self._forget_left()
        fresh = [numbers[record.id] for record in _from(records, len(self._numbers))]
        self._numbers = np.concatenate([self._numbers, np.array(fresh, np.int64)])
        columns = {path: recall(self._columns, path, lambda _: Column()) for path in sorted(_paths(filter))}
        for path, column in columns.items():
            column.add(get_field(record.metadata, path) for record in _from(records, len(column)))
        return self._numbers[_kept(filter, columns, len(self._numbers))]

    def _forget_left(self) -> None:
        if self._left:
            live = ~np.isin(self._numbers, self._left)
            self._numbers, self._left = self._numbers[live], []
            _keep(self._columns, live)


def _from(records: dict[str, Record], start: int) -> Iterable[Record]:
    """Give the records from a place on, which is near the end."""
    return [*islice(reversed(records.values()), len(records) - start)][::-1]


def _keep(columns: dict[str, Column], live: Mask) -> None:
    """Forget rows, and columns of values that mostly nobody holds any more."""
    for path, column in columns.items():
        column.keep(live)
        if column.distinct > 2 * np.count_nonzero(live) + _BLOCK:
            columns[path] = Column()


def _blocks(
    connection: "sqlite3.Connection", paths: Sequence[str], *, after: int
) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Give, block by block, columns of the rows after this one: rowids, ids, and the JSON texts of each field."""
    texts = [field_text(path, "metadata") for path in paths]
    wanted = ", ".join(["rowid", "id", *(text for text, _ in texts)])
    parameters = [value for _, values in texts for value in values]
    rows = connection.execute(f"SELECT {wanted} FROM record WHERE rowid > ? ORDER BY rowid", [*parameters, after])
    while block := rows.fetchmany(_BLOCK):
        yield zip(*block, strict=True)


def _make_room(known: dict[str, Column] | dict[str, _Scan]) -> None:
    """Forget what was asked for longest ago while all of it takes too much; the last one stays."""
    sizes = {name: each.size for name, each in known.items()}
    for name in [*sizes][:-1]:
        if sum(sizes.values()) > _ROOM:
            del known[name], sizes[name]


def _paths(filter: Filter) -> set[str]:
    match filter:
        case Compare(path):
            return {path}
        case Not(part):
            return _paths(part)
        case And(parts) | Or(parts):
            return set().union(*map(_paths, parts))


def _kept(filter: Filter, columns: Mapping[str, Column], count: int) -> Mask:
    """Say of each of `count` rows whether it satisfies the filter."""
    match filter:
        case Compare(path, op, operand):
            return columns[path].holds(op, operand)
        case Not(part):
            return ~_kept(part, columns, count)
        case And(parts) | Or(parts):
            combine = np.logical_and if isinstance(filter, And) else np.logical_or
            kept = np.full(count, isinstance(filter, And))
            for part in parts:
                kept = combine(kept, _kept(part, columns, count))
            return kept
