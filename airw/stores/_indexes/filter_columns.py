"""A filter index in memory: one column per field, to find the records that match.

A column contains each distinct value of its field once, and a code per row. A condition is evaluated once per distinct
value; each row then looks up the result of its value.
"""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw._base.slices import sort_in_slices
from airw.values.filters import MISSING, And, Compare, Filter, Not, Or, as_key, find_moment, matches

Mask: TypeAlias = NDArray[np.bool_]
RecordNumbers: TypeAlias = NDArray[np.int64]

_ORDERS = {"$gt", "$gte", "$lt", "$lte"}
_CACHED_FIELDS = 32  # fields whose column is kept, those that filters used last
_MAX_UNUSED = 4096  # values without a row that a column may keep, besides one per row
# Up to 256 unsorted values, plus 1/256 of the sorted ones, are compared one by one; beyond that, all are sorted.
_MAX_UNSORTED = 256
_UNSORTED_PART = 256
_VALUE_BYTES = 150  # rough memory of a value
_CHARACTER_BYTES = 4  # rough memory of each character of its JSON text


class Column:
    """The values of one field, one per row; values that are equal for filters are stored once.

    Example:
        >>> column = Column()
        >>> column.add_texts(["2019", None, "2021", "2021.0"])
        >>> column.match("$gte", 2020).tolist()
        [False, False, True, True]
        >>> column.match("$exists", False).tolist()
        [False, True, False, False]
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all rows and values."""
        self._codes: NDArray[np.int32] = np.empty(0, np.int32)
        self._keys: list[Any] = [MISSING]  # code -> the key of its value; see `as_key`
        self._code_of: dict[Hashable, int] = {MISSING: 0}
        self._codes_of_type: defaultdict[type, list[int]] = defaultdict(list)
        # The first `_sorted_count` values are sorted: their keys and codes, for strings and for numbers.
        self._sorted_count = 0
        self._orders: dict[type, tuple[list[Any], RecordNumbers]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._codes)

    @property
    def size(self) -> int:
        """Return the rough number of bytes in memory."""
        return self._bytes + self._codes.nbytes

    @property
    def value_count(self) -> int:
        """Return the number of distinct values, including those whose rows were all removed."""
        return len(self._keys)

    def add(self, values: Iterable[Any]) -> None:
        """Append rows with these values, JSON-clean; `MISSING` for a row without the field."""
        self._add_codes([self._get_code(value) for value in values])

    def add_texts(self, texts: Sequence[str | None]) -> None:
        """Append rows with values of these JSON texts; `None` for a row without the field."""
        distinct = [text for text in dict.fromkeys(texts) if text is not None]
        values = json.loads(f"[{','.join(distinct)}]")  # one call, as one per text takes several times as long
        codes: dict[str | None, int] = {None: 0}
        codes.update(zip(distinct, map(self._get_code, values, distinct), strict=True))
        self._add_codes([codes[text] for text in texts])

    def _add_codes(self, codes: list[int]) -> None:
        self._codes = np.concatenate([self._codes, np.array(codes, np.int32)])

    def _get_code(self, value: Any, text: str = "") -> int:
        key = as_key(value)
        code = self._code_of.setdefault(key, len(self._keys))
        if code == len(self._keys):
            self._keys.append(key)
            self._codes_of_type[_order_type(key)].append(code)
            self._bytes += _VALUE_BYTES + _CHARACTER_BYTES * len(text)
        return code

    def keep(self, rows: Mask) -> None:
        """Remove all rows except these; the mask may be longer than the column.

        If most values are no longer used by any row, the column is cleared. It is filled again at its next use.
        """
        self._codes = self._codes[rows[: len(self)]]
        if self.value_count > 2 * np.count_nonzero(rows) + _MAX_UNUSED:
            self.clear()

    def match(self, op: str, operand: Any) -> Mask:
        """Return a mask of the rows whose value satisfies a condition.

        The result is exactly that of `filters.matches`.
        """
        if op in ("$ne", "$nin"):
            return ~self.match("$eq" if op == "$ne" else "$in", operand)
        # Evaluate the condition per value, then look up the result of each row.
        is_match = np.zeros(len(self._keys), np.bool_)
        for codes in self._find_codes(op, operand):
            is_match[codes] = True
        mask: Mask = is_match.take(self._codes)
        return mask

    def _find_codes(self, op: str, operand: Any) -> Iterable[Any]:
        """Return groups of codes, whose values satisfy the condition."""
        # One moment has several texts, and moments have another order than these.
        if op in ("$eq", "$in"):
            moments = {find_moment(item) for item in (operand if op == "$in" else [operand])} - {None}
            if moments:
                texts = self._codes_of_type[str]
                yield [code for code in texts if find_moment(self._keys[code]) in moments]
        elif op in _ORDERS and find_moment(operand) is not None:
            leaf = Compare("v", op, operand)
            yield [code for code in self._codes_of_type[str] if matches(leaf, {"v": self._keys[code]})]
            return
        yield from self._find_codes_by_key(op, operand)

    def _find_codes_by_key(self, op: str, operand: Any) -> Iterable[Any]:
        match op:
            case "$exists":
                return [slice(1, None) if operand else slice(1)]
            case "$eq":
                return [self._look_up([operand])]
            case "$in":
                return self._find_codes_in(operand)
            case "$contains":
                return self._find_codes_containing(operand)
        return self._find_codes_by_order(op, operand)

    def _look_up(self, values: Iterable[Any]) -> list[int]:
        return [self._code_of[key] for key in map(as_key, values) if key in self._code_of]

    def _find_codes_in(self, operand: Sequence[Any]) -> Iterable[Any]:
        yield self._look_up(item for item in operand if not isinstance(item, list))
        keys = {*map(as_key, operand)}  # a list matches if it contains one of these
        yield [code for code in self._codes_of_type[tuple] if not keys.isdisjoint(self._keys[code])]

    def _find_codes_containing(self, operand: Any) -> Iterable[Any]:
        key = as_key(operand)
        for type_ in (tuple, str) if isinstance(operand, str) else (tuple,):
            yield [code for code in self._codes_of_type[type_] if key in self._keys[code]]

    def _find_codes_by_order(self, op: str, operand: Any) -> Iterable[Any]:
        self._sort()
        leaf = Compare("v", op, operand)
        # Unsorted values one by one; strings and numbers are their own keys.
        unsorted = enumerate(self._keys[self._sorted_count :], self._sorted_count)
        yield [code for code, key in unsorted if matches(leaf, {"v": key})]
        # Sorted values by binary search.
        if _order_type(operand) in self._orders:
            keys, codes = self._orders[_order_type(operand)]
            bisect = bisect_left if op in ("$gte", "$lt") else bisect_right
            position = bisect(keys, operand)
            yield codes[position:] if op in ("$gt", "$gte") else codes[:position]

    def _sort(self) -> None:
        """Sort all values if many are unsorted."""
        if len(self._keys) - self._sorted_count <= _MAX_UNSORTED + self._sorted_count // _UNSORTED_PART:
            return
        # Python's own sort, as numpy would compare large ints as floats.
        for type_ in (str, float):
            codes = sort_in_slices(self._codes_of_type[type_], key=self._keys.__getitem__)
            self._orders[type_] = [self._keys[code] for code in codes], np.array(codes, np.int64)
        self._sorted_count = len(self._keys)


def _order_type(key: Any) -> type:
    """Return the type within which a key is ordered: `str` or `float`.

    All numbers are ordered as `float`. Other keys have no order, and their own type.
    """
    if isinstance(key, str):
        return str
    return float if isinstance(key, int | float) else type(key)


class FilterColumns:
    """The numbers of all records, ascending, with a column for each recently used field."""

    def __init__(self) -> None:
        self.columns = LruCache[str, Column](_CACHED_FIELDS)
        self.clear()

    def clear(self) -> None:
        """Remove all records; the columns stay, without rows."""
        self.numbers: RecordNumbers = np.empty(0, np.int64)
        for column in self.columns.values():
            column.clear()

    def column(self, path: str) -> Column:
        """Return the column of a field, which may lack rows for the newest records."""
        return self.columns.get_or_create(path, lambda _: Column())

    def append(self, numbers: Sequence[int]) -> None:
        """Append records; the caller adds their rows to the columns later."""
        self.numbers = np.concatenate([self.numbers, np.array(numbers, np.int64)])

    def keep(self, live: Mask) -> None:
        """Remove all records except these."""
        self.numbers = self.numbers[live]
        for column in self.columns.values():
            column.keep(live)

    def match(self, filter: Filter, columns: Mapping[str, Column]) -> RecordNumbers:
        """Return the numbers of the records that match a filter; its columns must be complete."""
        return self.numbers[_match_rows(filter, columns, len(self.numbers))]


def find_fields(filter: Filter) -> list[str]:
    """Return the paths of all fields in a filter, sorted."""
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
    """Return a mask of the rows, `count` in all, that match the filter."""
    match filter:
        case Compare(path, op, operand):
            return columns[path].match(op, operand)
        case Not(part):
            return ~_match_rows(part, columns, count)
        case And(parts) | Or(parts):
            combine = np.logical_and if isinstance(filter, And) else np.logical_or
            mask = np.full(count, isinstance(filter, And))
            for part in parts:
                mask = combine(mask, _match_rows(part, columns, count))
            return mask
