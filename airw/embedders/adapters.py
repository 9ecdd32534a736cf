"""An embedder from any function."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import call_user_function, in_thread
from airw._base.messages import error_text
from airw._base.vectors import unit_rows
from airw.errors import AirwError, ArgumentError, EmbedderError
from airw.protocols import Embedder


def embedder_from(
    fn: Callable[[list[str]], Any] | Callable[[list[str]], Awaitable[Any]], *, id: str, dim: int
) -> Embedder:
    """Make an embedder of a function, sync or async, that takes a list of texts and gives one row of numbers for each.

    A sync function runs in a worker thread. Rows are brought to length one; zero rows stay zero. It is not called for
    an empty list.

    Args:
        fn: Called with a list of one or more texts; gives rows in their order, as an array or nested lists.
        id: Names the model and its weights. A corpus is pinned to it, so another model needs another id.
        dim: The width of the rows.

    Raises:
        ArgumentError: `fn` cannot be called, `id` is empty, or `dim` is not a whole number of at least 1.
        EmbedderError: (when embedding) the function failed, or answered with another count or width of rows, with
            something that is not numbers, or with numbers that are not finite.

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
        given = check_texts(texts, of=f"embedder {self.id!r}", error=EmbedderError)
        if not given:
            return np.zeros((0, self.dim), np.float32)
        rows = await self._call(given)
        check = partial(unit_rows, rows, count=len(given), dim=self.dim, of=f"embedder {self.id!r}")
        return await in_thread(check)

    async def embed_query(self, text: str) -> Floats:
        row: Floats = (await self.embed_documents([text]))[0]
        return row

    async def _call(self, texts: list[str]) -> Any:
        """Call the function; what it raises becomes an `EmbedderError`."""
        try:
            return await call_user_function(self.fn, texts)
        except AirwError:
            raise
        except Exception as error:
            raise EmbedderError(f"embedder {self.id!r} failed: {error_text(error)}") from error
