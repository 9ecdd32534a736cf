"""Which records satisfy a filter: columns in memory, one for each field that was asked for.

A column keeps every distinct value of its field once. A condition is decided once for each value, and rows look up
what was decided for theirs.
"""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw.values.filters import MISSING, And, Compare, Filter, Not, Or, as_key, matches

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.int64]

_FIELDS = 32  # of which columns are kept, those that filters named last
_SPARE = 4096  # values that nobody holds any more may be kept
_FEW, _PART = 256, 256  # so many new values, or one in so many, are compared one by one; of more, all are sorted
_VALUE, _CHARACTER = 150, 4  # bytes that a value takes, about, and each character of its JSON text


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
        self.clear()

    def clear(self) -> None:
        """Forget all rows and values."""
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
        """The bytes that it takes, about."""
        return self._bytes + self._codes.nbytes

    @property
    def distinct(self) -> int:
        """How many values are known, those that no row holds any more included."""
        return len(self._keys)

    def add(self, values: Iterable[Any]) -> None:
        """Append rows: the value of each, JSON-clean, `MISSING` where there is none."""
        self._add_codes([self._code(value) for value in values])

    def add_texts(self, texts: Sequence[str | None]) -> None:
        """Append rows: the JSON text of the value of each, `None` where there is none."""
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
        """Forget the other rows; more rows than it has yet may be named.

        Where most values are of rows that left, it forgets everything, and is filled again when it is asked for.
        """
        self._codes = self._codes[rows[: len(self)]]
        if self.distinct > 2 * np.count_nonzero(rows) + _SPARE:
            self.clear()

    def holds(self, op: str, operand: Any) -> Mask:
        """Return for each row whether its value satisfies a condition, exactly as `filters.matches` does."""
        if op in ("$ne", "$nin"):
            return ~self.holds("$eq" if op == "$ne" else "$in", operand)
        chosen = np.zeros(len(self._keys), np.bool_)
        for codes in self._find_codes(op, operand):
            chosen[codes] = True
        kept: Mask = chosen.take(self._codes)
        return kept

    def _find_codes(self, op: str, operand: Any) -> Iterable[Any]:
        """Return the codes of the values that satisfy a condition."""
        match op:
            case "$exists":
                return [slice(1, None) if operand else slice(1)]
            case "$eq":
                return [self._codes_of([operand])]
            case "$in":
                return self._codes_among(operand)
            case "$contains":
                return self._codes_containing(operand)
        return self._codes_in_order(op, operand)

    def _codes_of(self, values: Iterable[Any]) -> list[int]:
        return [self._code_of[key] for key in map(as_key, values) if key in self._code_of]

    def _codes_among(self, operand: Sequence[Any]) -> Iterable[Any]:
        yield self._codes_of(item for item in operand if not isinstance(item, list))
        wanted = {*map(as_key, operand)}  # a list matches by what it holds
        yield [code for code in self._of_kind[tuple] if not wanted.isdisjoint(self._keys[code])]

    def _codes_containing(self, operand: Any) -> Iterable[Any]:
        key = as_key(operand)
        for kind in (tuple, str) if isinstance(operand, str) else (tuple,):
            yield [code for code in self._of_kind[kind] if key in self._keys[code]]

    def _codes_in_order(self, op: str, operand: Any) -> Iterable[Any]:
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
    """Return `str` or `float` for what has an order, numbers of all kinds together."""
    return str if isinstance(key, str) else float if isinstance(key, (int, float)) else type(key)


class FilterColumns:
    """The numbers of records, ascending, and a column for each of the fields that filters named last."""

    def __init__(self) -> None:
        self.columns = LruCache[str, Column](_FIELDS)
        self.clear()

    def clear(self) -> None:
        """Forget all records, but not which fields were asked for."""
        self.numbers: Rows = np.empty(0, np.int64)
        for column in self.columns.values():
            column.clear()

    def column(self, path: str) -> Column:
        """Return the column of a field; it may have fewer rows than there are records."""
        return self.columns.get_or_create(path, lambda _: Column())

    def append(self, numbers: Sequence[int]) -> None:
        """Append records; their columns follow later."""
        self.numbers = np.concatenate([self.numbers, np.array(numbers, np.int64)])

    def keep(self, live: Mask) -> None:
        """Forget the other records."""
        self.numbers = self.numbers[live]
        for column in self.columns.values():
            column.keep(live)

    def find(self, filter: Filter, columns: Mapping[str, Column]) -> Rows:
        """Return the numbers of the records that satisfy a filter; the columns of its fields must be complete."""
        return self.numbers[_match_rows(filter, columns, len(self.numbers))]


def fields_of(filter: Filter) -> list[str]:
    """Return the paths of the fields that a filter looks at, sorted."""
    return sorted(_paths(filter))


def _paths(filter: Filter) -> set[str]:
    match filter:
        case Compare(path):
            return {path}
        case Not(part):
            return _paths(part)
        case And(parts) | Or(parts):
            return set().union(*map(_paths, parts))


def _match_rows(filter: Filter, columns: Mapping[str, Column], count: int) -> Mask:
    """Return for each of `count` rows whether it satisfies the filter."""
    match filter:
        case Compare(path, op, operand):
            return columns[path].holds(op, operand)
        case Not(part):
            return ~_match_rows(part, columns, count)
        case And(parts) | Or(parts):
            combine = np.logical_and if isinstance(filter, And) else np.logical_or
            kept = np.full(count, isinstance(filter, And))
            for part in parts:
                kept = combine(kept, _match_rows(part, columns, count))
            return kept
