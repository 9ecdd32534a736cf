"""The encoding of vectors in a file: bytes and a checksum per vector.

With the checksum, a flipped bit is an error and not a wrong score.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.errors import StoreCorrupt
from airw.stores.sqlite._schema import MEND


def encode_vectors(vectors: Floats) -> Iterator[tuple[bytes, int]]:
    """Return each row of `(n, dim) float32` as little-endian bytes, with its checksum."""
    rows = np.ascontiguousarray(vectors, "<f4")
    return zip((row.tobytes() for row in rows), compute_sums(rows).tolist(), strict=True)


def decode_vectors(data: Sequence[bytes], sums: Sequence[int]) -> Floats:
    """Return stored vectors as `(n, dim) float32`.

    Raises:
        StoreCorrupt: If a checksum does not match.
    """
    if not data:
        return np.empty((0, 0), np.float32)
    try:
        rows = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        is_intact = len({*map(len, data)}) == 1 and np.array_equal(compute_sums(rows), sums)
    except (TypeError, ValueError):
        is_intact = False
    if not is_intact:
        raise StoreCorrupt(f"a vector in the corpus's file is damaged; {MEND}")
    return rows.astype(np.float32, copy=False)


def compute_sums(rows: Floats) -> NDArray[np.int64]:
    """Return the sum of the bytes of each vector, in words of four or eight."""
    # If the width is even, add 64-bit words, which are half as many. A sum that wraps around still detects changes.
    words = rows.view("<i8" if rows.shape[1] % 2 == 0 else "<i4")
    sums: NDArray[np.int64] = words.sum(axis=1, dtype=np.int64)
    return sums
