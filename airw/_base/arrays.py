"""Array types, and arrays that grow."""

from typing import Any, TypeAlias, TypeVar

import numpy as np

Scalar = TypeVar("Scalar", bound=np.generic)
# The same as `numpy.typing.NDArray`, without the time to import `numpy.typing`.
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Scalar]]
Floats: TypeAlias = NDArray[np.float32]


def reserve(array: NDArray[Scalar], count: int, *, axis: int = 0) -> NDArray[Scalar]:
    """Return an array with room for at least `count` items along an axis.

    If the array is long enough, it is returned itself; else a copy that is at least twice as long, with zeros at the
    end. Appending items one by one thus costs O(1) each on average.

    Example:
        >>> reserve(np.ones((2, 3)), 3).shape, reserve(np.ones((2, 3)), 9, axis=1).shape
        ((4, 3), (2, 9))
    """
    size = array.shape[axis]
    if count <= size:
        return array
    shape = list(array.shape)
    shape[axis] = max(count, 2 * size)
    grown = np.zeros(shape, array.dtype)
    grown[tuple(slice(length) for length in array.shape)] = array
    return grown
