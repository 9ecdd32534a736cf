"""Vectors in numpy: unit rows, cosine scores, and the stable best k."""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.slices import sort_in_slices
from airw.errors import EmbedderError

_FEW = 64  # scores that Python sorts as fast as numpy


def unit_rows(vectors: Any, *, count: int, dim: int | None = None, of: str = "the embedder") -> Floats:
    """Return `vectors` as `(count, dim) float32` rows of length one; zero rows stay zero.

    Args:
        vectors: An array, or anything that numpy can convert to one.
        count: The expected number of rows.
        dim: The expected width; `None` for any width.
        of: The name of the embedder in error messages.

    Raises:
        EmbedderError: If they are not numbers, not finite, or of another shape.
    """
    try:
        array = np.asarray(vectors)
    except ValueError as error:
        raise EmbedderError(f"{of} must return rows of one width, not of several widths") from error
    if array.dtype.kind not in "fiub":
        raise EmbedderError(f"{of} must return rows of numbers, not {type(vectors).__name__} of {array.dtype}")
    # An overflow becomes infinity, which the check of the lengths finds.
    with np.errstate(over="ignore"):
        rows = array.astype(np.float32)
    if count == 0 and rows.size == 0:
        return np.zeros((0, dim or 0), np.float32)
    if rows.ndim != 2 or rows.shape[0] != count or (dim is not None and rows.shape[1] != dim):
        raise EmbedderError(f"{of} must return shape ({count}, {dim or 'dim'}), not {rows.shape}")
    # In float64, because the squares of large float32 numbers overflow.
    wide = rows.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    if not np.isfinite(lengths).all():
        rows_at = np.flatnonzero(~np.isfinite(lengths)).tolist()
        refused = dict.fromkeys(rows_at, "its vector is not finite")
        raise EmbedderError(f"{of} returned a vector that is not finite (row {rows_at[0]} of {count})", refused)
    lengths[lengths == 0] = 1.0
    wide /= lengths
    return wide.astype(np.float32)


def exact_scores(vectors: Floats, query: Floats) -> Floats:
    """Return the dot product of each row with the query: `(n,) float32`.

    Equal rows have equal scores, wherever they are in the array. A matrix product does not promise that: BLAS splits
    the rows into blocks and rounds differently in each. `einsum` without `optimize` does not use BLAS.
    """
    scores: Floats = np.einsum("ij,j->i", vectors, query)
    return scores


def best_first(
    scores: NDArray[Any], k: int, tie_keys: Callable[[NDArray[np.intp]], Iterable[Any]] | None = None
) -> NDArray[np.intp]:
    """Return the positions of the `k` highest scores, best first.

    Ties are ordered by `tie_keys(positions)`, which yields a key for each of many positions, and by position if these
    are equal or there are none. The work is O(n) plus the sorting of the result, however many scores are equal.
    """
    k = min(k, scores.shape[0])
    if k <= 0:
        return np.empty(0, np.intp)
    if scores.shape[0] <= _FEW:  # Python sorts them faster than numpy begins; mostly, none are equal
        values = scores.tolist()
        places = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        if tie_keys is None or len({values[place] for place in places[: k + 1]}) == min(k + 1, len(places)):
            return np.array(places[:k], np.intp)
    if k < scores.shape[0]:
        # The k-th highest score splits the others in O(n): scores above it are in the result, scores below are not.
        threshold = np.partition(scores, scores.shape[0] - k)[scores.shape[0] - k]
        above, tied = np.flatnonzero(scores > threshold), np.flatnonzero(scores == threshold)
        # Of the scores equal to it, only some have room; `np.partition` alone would choose any of them.
        room = k - above.shape[0]
        if tie_keys is not None and tied.shape[0] > room:
            keyed = sort_in_slices(zip(tie_keys(tied), tied.tolist(), strict=True), limit=room)
            tied = np.array([position for _, position in keyed], np.intp)
        best = np.sort(np.concatenate([above, tied[:room]]))
    else:
        best = np.arange(k)
    # The positions are ascending, so a stable sort orders ties by position.
    order = best[np.argsort(-scores[best], kind="stable")]
    if tie_keys is None:
        return order
    # Only runs of equal scores need keys.
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(starts, append=k)
    is_run = lengths > 1
    is_tied = np.repeat(is_run, lengths)
    tied = order[is_tied].tolist()
    key_of, remaining = dict(zip(tied, tie_keys(order[is_tied]), strict=True)), iter(tied)
    runs = (sort_in_slices(islice(remaining, length), key=key_of.__getitem__) for length in lengths[is_run].tolist())
    order[is_tied] = [*chain.from_iterable(runs)]
    return order
