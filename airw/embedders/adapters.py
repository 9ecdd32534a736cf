"""An adapter from functions to embedders."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import call_user_function, offload_if
from airw._base.messages import error_text
from airw._base.vectors import unit_rows
from airw.errors import AirwError, ArgumentError, EmbedderError
from airw.protocols import Embedder

_FEW = 64  # rows: checking them takes less time than reaching a worker thread


def embedder_from(
    fn: Callable[[list[str]], Any] | Callable[[list[str]], Awaitable[Any]], *, id: str, dim: int
) -> Embedder:
    """Create an embedder from a function that returns a row of numbers for each text.

    The function is sync or async; a sync one runs in a worker thread. Rows are scaled to length one; zero rows stay
    zero. The function is not called for an empty list.

    Args:
        fn: Called with a list of one or more texts. It returns their rows in order, as an array or nested lists.
        id: The name of the model and its weights. A corpus remembers it, so another model needs another id.
        dim: The width of the rows.

    Raises:
        ArgumentError: If `fn` is not callable, `id` is empty, or `dim` is not a whole number of at least 1.
        EmbedderError: When embedding, if the function fails or returns unusable rows: another number or width of them,
            values that are not numbers, or numbers that are not finite.

    Example:
        >>> import anyio
        >>> embedder = embedder_from(lambda texts: [[len(text), 1.0] for text in texts], id="lengths-v1", dim=2)
        >>> anyio.run(embedder.embed_documents, ["abc", ""]).round(2).tolist()
        [[0.949999988079071, 0.3199999928474426], [0.0, 1.0]]
    """
    if not callable(fn):
        raise ArgumentError(f"fn must be a function from a list of texts to rows, not {fn!r}")
    if not isinstance(id, str) or not id.strip():
        raise ArgumentError(f"id must name the model and its weights, such as 'my-model-v1', not {id!r}")
    return _FunctionEmbedder(fn, id, check_count("dim", dim, least=1))


@dataclass(frozen=True, slots=True)
class _FunctionEmbedder:
    fn: Callable[[list[str]], Any] = field(repr=False)
    id: str
    dim: int

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        checked = check_texts(texts, of=f"embedder {self.id!r}", error=EmbedderError)
        if not checked:
            return np.zeros((0, self.dim), np.float32)
        rows = await self._call(checked)
        check = partial(unit_rows, rows, count=len(checked), dim=self.dim, of=f"embedder {self.id!r}")
        return await offload_if(len(checked) > _FEW, check)

    async def embed_query(self, text: str) -> Floats:
        row: Floats = (await self.embed_documents([text]))[0]
        return row

    async def _call(self, texts: list[str]) -> Any:
        """Call the function, and turn its exceptions into `EmbedderError`."""
        try:
            return await call_user_function(self.fn, texts)
        except AirwError:
            raise
        except Exception as error:
            raise EmbedderError(f"embedder {self.id!r} failed: {error_text(error)}") from error
