"""Rows in the binary format of COPY, encoded by columns in a thread.

https://www.postgresql.org/docs/current/sql-copy.html describes the format. asyncpg encodes row by row on the event
loop, which would stand still for a second with the rows of a large page.
"""

import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np

from airw._base.concurrency import in_thread

if TYPE_CHECKING:
    from asyncpg import Connection

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_SLICE = 4_096  # rows that are joined and sent at a time
_LENGTHS = [length.to_bytes(4, "big") for length in range(4_096)]
_NULL = b"\xff\xff\xff\xff"


def encode_bytes(values: Iterable[bytes]) -> list[bytes]:
    r"""Return values of `bytea`, or of any type in its own binary format, as fields of rows.

    Example:
        >>> encode_bytes([b"ab"])
        [b'\x00\x00\x00\x02ab']
    """
    known = len(_LENGTHS)
    return [(_LENGTHS[len(value)] if len(value) < known else len(value).to_bytes(4, "big")) + value for value in values]


def encode_texts(values: Iterable[str | None]) -> list[bytes]:
    """Return values of `text` or `json` as fields of rows; `None` is NULL."""
    known = len(_LENGTHS)
    fields = []
    for value in values:
        if value is None:
            fields.append(_NULL)
            continue
        data = value.encode()
        fields.append((_LENGTHS[len(data)] if len(data) < known else len(data).to_bytes(4, "big")) + data)
    return fields


def encode_jsonb(values: Iterable[str]) -> list[bytes]:
    """Return JSON texts as fields of rows of type `jsonb`, which begin with its version."""
    return encode_bytes([b"\1" + value.encode() for value in values])


def encode_numbers(values: Sequence[int] | np.ndarray, type: str = ">i8") -> list[bytes]:
    r"""Return numbers as fields of rows.

    Args:
        values: The numbers.
        type: Their type in numpy, with the highest byte first: `">i8"` for `bigint`, `">i4"` for `integer`.

    Example:
        >>> encode_numbers([1], ">i4")
        [b'\x00\x00\x00\x04\x00\x00\x00\x01']
    """
    rows = np.empty(len(values), [("length", ">i4"), ("value", type)])
    rows["length"], rows["value"] = np.dtype(type).itemsize, values
    size = rows.dtype.itemsize
    data = rows.tobytes()
    return [data[start : start + size] for start in range(0, len(data), size)]


def encode_optional(values: Iterable[float | None], format: str) -> list[bytes]:
    r"""Return numbers as fields of rows; `None` is NULL.

    Args:
        values: The numbers.
        format: Their type as in the module `struct`: `">q"` for `bigint`, `">d"` for `double precision`.

    Example:
        >>> encode_optional([True, None], ">?")
        [b'\x00\x00\x00\x01\x01', b'\xff\xff\xff\xff']
    """
    pack, length = struct.Struct(format).pack, _LENGTHS[struct.calcsize(format)]
    return [_NULL if value is None else length + pack(value) for value in values]


async def copy_columns(c: "Connection", table: str, columns: Mapping[str, Sequence[bytes]]) -> None:
    """Insert rows by COPY.

    Args:
        c: The connection.
        table: The table.
        columns: The fields of the rows by column, from the functions of this module.
    """
    fields = [*columns.values()]
    count = len(fields[0]) if fields else 0
    if count:
        await c.copy_to_table(table, source=_yield_rows(fields, count), columns=[*columns], format="binary")


async def _yield_rows(fields: Sequence[Sequence[bytes]], count: int) -> AsyncIterator[bytes]:
    yield _HEADER
    for start in range(0, count, _SLICE):
        yield await in_thread(_join, fields, start)
    yield _END


def _join(fields: Sequence[Sequence[bytes]], start: int) -> bytes:
    width = len(fields).to_bytes(2, "big")
    return b"".join(
        chain.from_iterable(zip(repeat(width), *(column[start : start + _SLICE] for column in fields), strict=False))
    )
