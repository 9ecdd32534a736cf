"""Vectors in the binary format of pgvector: as bytes between numpy and the connection.

A connection leaves the bytes as they are. So many vectors are encoded or decoded at once, without a Python object for
each number.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import Floats
from airw.stores._stored_values import DamagedValue, detect_damage

if TYPE_CHECKING:
    from asyncpg import Connection

MAX_WIDTH = 16_000
"""The numbers that a vector on a server has at most."""

_HEADER = 4  # bytes before the numbers: the width and an unused one, of two bytes each


async def register_codec(connection: "Connection", schema: str) -> None:
    """Make a connection take and return values of the type `vector` as bytes.

    Args:
        connection: The connection.
        schema: The schema of the extension `vector`.
    """
    await connection.set_type_codec("vector", schema=schema, encoder=_keep, decoder=_keep, format="binary")


def _keep(value: bytes) -> bytes:
    return value


def encode_vectors(vectors: Floats) -> list[bytes]:
    r"""Return each row of `(n, dim) float32` as a value for a statement or a COPY.

    Example:
        >>> encode_vectors(np.array([[1.0, 0.5]], np.float32))
        [b'\x00\x02\x00\x00?\x80\x00\x00?\x00\x00\x00']
    """
    rows = np.empty((len(vectors), _HEADER + 4 * vectors.shape[1]), np.uint8)
    rows[:, :_HEADER] = np.frombuffer(np.array([vectors.shape[1], 0], ">u2").tobytes(), np.uint8)
    rows[:, _HEADER:] = np.ascontiguousarray(vectors, ">f4").view(np.uint8)
    return [row.tobytes() for row in rows]


def encode_queries(queries: Floats) -> list[bytes]:
    """Return queries as `encode_vectors` does, cut to what a server takes.

    A wider one is compared with no vector, as all are narrower: the statement that has it also asks for their width.

    Example:
        >>> len(encode_queries(np.zeros((1, 70_000), np.float32))[0])
        64004
    """
    return encode_vectors(queries[:, :MAX_WIDTH])


@detect_damage()
def decode_vectors(values: Sequence[bytes], width: int) -> Floats:
    r"""Return values of a statement as `(n, width) float32`.

    Raises:
        DamagedValue: If one is missing, or of another width.

    Example:
        >>> decode_vectors([b"\x00\x02\x00\x00?\x80\x00\x00?\x00\x00\x00"], 2)
        array([[1. , 0.5]], dtype=float32)
    """
    if {*map(len, values)} - {_HEADER + 4 * width}:
        raise DamagedValue(f"a vector is not one of {width} numbers")
    rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), _HEADER + 4 * width)
    return rows[:, _HEADER:].view(">f4").astype(np.float32)
