"""Unit rows, cosine and the stable best k, in numpy and without I/O."""

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.errors import EmbedderError


def unit_rows(vectors: Any, *, count: int, dim: int | None = None, of: str = "the embedder") -> Floats:
    """Give `vectors` as `(count, dim) float32` rows of length one; zero rows stay zero.

    Raises:
        EmbedderError: They are not numbers, not finite, or of another shape. `of` names who answered.
    """
    try:
        given = np.asarray(vectors)
    except ValueError as error:
        raise EmbedderError(f"{of} must answer with rows of one width, not rows of several") from error
    if given.dtype.kind not in "fiub":
        raise EmbedderError(f"{of} must answer with rows of numbers, not {type(vectors).__name__} of {given.dtype}")
    with np.errstate(over="ignore"):  # what overflows is found below
        rows = given.astype(np.float32)
    if count == 0 and rows.size == 0:
        return np.zeros((0, dim or 0), np.float32)
    if rows.ndim != 2 or rows.shape[0] != count or (dim is not None and rows.shape[1] != dim):
        raise EmbedderError(f"{of} must answer with shape ({count}, {dim or 'dim'}), not {rows.shape}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise EmbedderError(f"{of} gave a vector that is not finite (row {row} of {count})")
    lengths[lengths == 0] = 1.0
    unit: Floats = (rows / lengths).astype(np.float32)
    return unit


def exact_scores(vectors: Floats, query: Floats) -> Floats:
    """Give the dot product of each row with the query, the same wherever the row lies.

    Every BLAS blocks by position; einsum without `optimize` does not.
    """
    scores: Floats = np.einsum("ij,j->i", vectors, query)
    return scores


def best_first(scores: NDArray[Any], k: int, tie_key: Callable[[int], Any] | None = None) -> NDArray[np.intp]:
    """Give the positions of the `k` highest scores, best first; ties by `tie_key(position)`, else by position.

    Work is O(n) plus the sorting of what is returned, whatever the number of ties at the cut.
    """
    k = min(k, scores.shape[0])
    if k <= 0:
        return np.empty(0, np.intp)
    if k < scores.shape[0]:
        cut = np.partition(scores, scores.shape[0] - k)[scores.shape[0] - k]
        above, level = np.flatnonzero(scores > cut), np.flatnonzero(scores == cut)
        room = k - above.shape[0]
        if tie_key is not None and level.shape[0] > room:
            level = np.array(heapq.nsmallest(room, level.tolist(), key=tie_key), np.intp)
        chosen = np.sort(np.concatenate([above, level[:room]]))
    else:
        chosen = np.arange(k)
    if tie_key is None:
        return chosen[np.argsort(-scores[chosen], kind="stable")]
    order = sorted(chosen.tolist(), key=lambda at: (-scores[at], tie_key(at)))
    return np.array(order, np.intp)
