"""Array types."""

from typing import Any, TypeAlias, TypeVar

import numpy as np

__all__ = ["Floats", "NDArray"]

Scalar = TypeVar("Scalar", bound=np.generic)
# As in `numpy.typing`, which takes longer to import than numpy's arrays do.
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Scalar]]
Floats: TypeAlias = NDArray[np.float32]
