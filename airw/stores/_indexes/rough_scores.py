"""The approximate scores of all rows, and the scores that the best rows have at least."""

from collections.abc import Sequence

import numpy as np

from airw._base.arrays import Floats, NDArray

_FOLD = 16  # rows that share a place when the lowest score of a shortlist is sought
_SMALL = 400_000  # multiplications in a product for which BLAS copies no operand
_LEAST_ROWS = 128  # rows of such a product; for fewer, the calls take longer than the copies
_BLOCK = 4096  # rows of larger products, whose scores stay in the cache of the processor


def multiply(queries: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return the products of all queries with the rows of all matrices, `(m, n)`.

    BLAS copies the operands of a large product to rearrange them. For one row per query that takes longer than the
    product itself (`bench_concurrency`). So few queries are multiplied in small products, and many from the other side:
    then the copied operand is that of the queries.
    """
    if len(queries) == 1 and len(matrices) == 1:
        scores = np.empty((1, len(matrices[0])), np.float32)
        np.dot(matrices[0], queries[0], out=scores[0])
        return scores
    scores = np.empty((len(queries), sum(map(len, matrices))), np.float32)
    small_rows = _SMALL // max(1, queries.size)
    rows, start = (small_rows if small_rows >= _LEAST_ROWS else _BLOCK), 0
    for matrix in matrices:
        for first in range(0, len(matrix), rows):
            block = matrix[first : first + rows]
            part = scores[:, start + first : start + first + len(block)]
            if rows == small_rows:
                np.matmul(queries, block.T, out=part)
            else:
                part[:] = (block @ queries.T).T
        start += len(matrix)
    return scores


def find_cuts(rough: Floats, k: int) -> Floats:
    """Return for each query a score that at least `k` rows have.

    It is minus infinity if there are too few rows. Among many rows, it is a little less than the `k`-th highest score:
    rows share places, and each place counts once, by its highest score.
    """
    places = rough.shape[1] // _FOLD
    if places > 4 * k:
        rough = rough[:, : _FOLD * places].reshape(len(rough), _FOLD, places).max(axis=1)
    place = rough.shape[1] - k
    if place <= 0:
        return np.full(len(rough), -np.inf, np.float32)
    return np.partition(rough, place, axis=1)[:, place]


def find_cut_per_code(scores: Floats, codes: NDArray[np.int64], k: int) -> float:
    """Return the `k`-th highest of the best scores of each code, or a little less."""
    best = np.full(int(codes.max()) + 1, -np.inf, np.float32)
    np.maximum.at(best, codes, scores)
    return float(find_cuts(best[best > -np.inf][np.newaxis], k)[0])
