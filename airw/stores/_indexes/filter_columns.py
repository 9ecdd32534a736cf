"""A filter index in memory: one column per field, to find the records that match.

A column contains each distinct value of its field once, and a code per row. A condition is evaluated once per distinct
value; each row then looks up the result of its value.
"""

import json
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw.values.filters import MISSING, And, Compare, Filter, Moment, Not, Or, as_key

Mask: TypeAlias = NDArray[np.bool_]
RecordNumbers: TypeAlias = NDArray[np.int64]

_ORDERS: dict[str, Any] = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_TEXT_ORDERS: dict[str, Any] = {"$gt": str.__gt__, "$gte": str.__ge__, "$lt": str.__lt__, "$lte": str.__le__}
_ORDERED = {str, Moment, float}  # kinds of values that have an order
_CACHED_FIELDS = 32  # fields whose column is kept, those that filters used last
_MAX_UNUSED = 4096  # values without a row that a column may keep, besides one per row
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
        self._code_of: dict[Hashable, int] = {MISSING: 0}  # by key, but moments by their texts
        self._codes_of_kind: defaultdict[type, list[int]] = defaultdict(list)
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
        key: Any = as_key(value)
        code = self._code_of.setdefault(key[:] if isinstance(key, Moment) else key, len(self._keys))
        if code == len(self._keys):
            self._keys.append(key)
            self._codes_of_kind[_kind_of(key)].append(code)
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
        is_match[[*self._find_codes(op, operand)]] = True
        mask: Mask = is_match.take(self._codes)
        return mask

    def _find_codes(self, op: str, operand: Any) -> Iterator[int]:
        """Yield the codes of the values that satisfy the condition."""
        keys, of_kind = self._keys, self._codes_of_kind
        wanted: Any = operand if op == "$exists" else as_key(operand)
        match op, _kind_of(wanted):
            case "$exists", _:
                yield from range(1, len(keys)) if wanted else (0,)
            case "$eq" | "$in", _:
                among = {wanted} if op == "$eq" else {*wanted}
                known = among & self._code_of.keys()
                yield from (self._code_of[key] for key in known if op == "$eq" or type(key) is not tuple)
                if Moment in {*map(type, among)}:  # which may have several texts
                    yield from (code for code in of_kind[Moment] if keys[code] in among)
                if op == "$in":
                    yield from (code for code in of_kind[tuple] if not among.isdisjoint(keys[code]))
            case "$contains", kind:
                for each in (tuple, str, Moment) if issubclass(kind, str) else (tuple,):
                    yield from (code for code in of_kind[each] if wanted in keys[code])
            case _, kind if kind in _ORDERED:
                # In Python, as numpy would compare large ints as floats. A moment and any other text compare as texts.
                for ordered in (float,) if kind is float else (str, Moment):
                    compare = (_TEXT_ORDERS if (ordered, kind) == (Moment, str) else _ORDERS)[op]
                    yield from (code for code in of_kind[ordered] if compare(keys[code], wanted))


def _kind_of(value: Hashable) -> type:
    """Return `float` for numbers, `str` for texts but moments; for others their type."""
    if isinstance(value, str | int | float) and not isinstance(value, Moment):
        return str if isinstance(value, str) else float
    return type(value)


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
    match filter:
        case Compare(path):
            return [path]
        case Not(part):
            return find_fields(part)
        case And(parts) | Or(parts):
            return sorted({path for part in parts for path in find_fields(part)})


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
