"""The base class of embedders that run a model in this process."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from airw._base.arrays import Floats
from airw._base.checks import check_texts
from airw._base.concurrency import in_thread
from airw._base.local_models import SerialWorker, run_batches
from airw.errors import EmbedderError

R = TypeVar("R")


class LocalEmbedder:
    """Embeds in batches, one at a time, in a worker thread; a class adds the model."""

    _batch_size: int
    _turns: SerialWorker

    @property
    def _label(self) -> str:
        """The name of the model in messages."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Return the width of the vectors."""
        raise NotImplementedError

    def _has_width(self) -> bool:
        """Return whether the width is known before the model is loaded; it may read files."""
        raise NotImplementedError

    async def _load(self) -> None:
        """Load the model, unless it is loaded already."""
        raise NotImplementedError

    def _encode(self, kind: str, texts: list[str]) -> Floats:
        """Return the unit rows of a batch of texts of a kind, `query` or `document`."""
        raise NotImplementedError

    def _find_ends(self, texts: list[str]) -> list[int]:
        """Return the position up to which the model reads each text of a batch."""
        raise NotImplementedError

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` unit rows, in the order of the texts.

        Raises:
            EmbedderUnavailable: If a package or the model is missing, damaged or changed.
            EmbedderError: If `texts` is not a list of strings, one contains an unpaired surrogate, or the model fails.
        """
        checked = await self._prepare(texts)
        if not checked and not await in_thread(self._has_width):
            await self._load()
        run = partial(self._run_batch, partial(self._encode, "document"))
        return await run_batches(checked, size=self._batch_size, dim=self.dim, encode=run)

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, of length one, with the prompt of the model for queries."""
        row: Floats = (await self._run_batch(partial(self._encode, "query"), await self._prepare([text])))[0]
        return row

    async def find_ends(self, texts: Sequence[str]) -> list[int]:
        """Return the position up to which the model reads each text.

        Errors are those of `embed_documents`.
        """
        checked, size = await self._prepare(texts), self._batch_size
        batches = [checked[start : start + size] for start in range(0, len(checked), size)]
        return [end for batch in batches for end in await self._run_batch(self._find_ends, batch)]

    async def _prepare(self, texts: Sequence[str]) -> list[str]:
        """Check the texts, and load the model if there are any."""
        checked = check_texts(texts, of=self._label, error=EmbedderError, encodable=True)
        if checked:
            await self._load()
        return checked

    async def _run_batch(self, function: Callable[[list[str]], R], batch: list[str]) -> R:
        return await self._turns.run(partial(function, batch))
