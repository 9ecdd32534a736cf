"""Vectors as bytes in a file, each with the sum of its words: a flipped bit is an error and not a wrong score."""

from collections.abc import Iterator, Sequence

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.errors import StoreCorrupt


def encode_vectors(vectors: Floats) -> Iterator[tuple[bytes, int]]:
    """Return each row of `(n, dim) float32` as little-endian bytes and their sum."""
    rows = np.ascontiguousarray(vectors, "<f4")
    return zip((row.tobytes() for row in rows), _sums(rows).tolist(), strict=True)


def decode_vectors(data: Sequence[bytes], sums: Sequence[int]) -> Floats:
    """Return stored vectors as `(n, dim) float32`.

    Raises:
        StoreCorrupt: They are not what was stored.
    """
    if not data:
        return np.empty((0, 0), np.float32)
    try:
        rows = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        is_whole = len({*map(len, data)}) == 1 and np.array_equal(_sums(rows), sums)
    except (TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise StoreCorrupt("a vector in the corpus's file is damaged; restore it, or remove it and build it again")
    return rows.astype(np.float32, copy=False)


def _sums(rows: Floats) -> NDArray[np.int64]:
    # Words of 64 bits where they fit: half as many to add up. Sums wrap around, which loses nothing.
    words = rows.view("<i8" if rows.shape[1] % 2 == 0 else "<i4")
    sums: NDArray[np.int64] = words.sum(axis=1, dtype=np.int64)
    return sums
