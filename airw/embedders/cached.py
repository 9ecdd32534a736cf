"""An embedder that remembers: a text embedded once is read back instead of embedded again."""

import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, cast

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import in_thread, offload_if
from airw._base.vectors import unit_rows
from airw.embedders._cache_file import CacheFile, Found
from airw.embedders.specs import resolve_embedder
from airw.errors import ArgumentError, EmbedderError, StoreBusy
from airw.protocols import EmbedderLike

R = TypeVar("R")
Args = TypeVarTuple("Args")

_SLICE = 2048  # texts looked up at once: about 15 ms
_INLINE = 64  # texts; so few rows are put in order faster than a worker thread is reached
_ASK_EVERY = 0.01  # seconds between attempts at a file that another process keeps locked
_PENDING_USES = 1 << 14  # of entries whose new place in the order of use is not written down yet
_WAIT = 30.0  # seconds until that is an error


class CachedEmbedder:
    """Answers as another embedder does, and embeds with it only what it has not embedded before.

    It has the other's `id` and `dim` and gives its vectors bit for bit, so one can stand for the other. Vectors are
    kept under a hash of the embedder's id, the text, and whether it is a document or a query, which a model may embed
    in different ways; texts are not kept. A call embeds all texts that are missing, each once, in one call of the other
    embedder; the least recently used make room for them. Any number of embedders and processes may share one file on a
    local disk; calls at the same time may each embed the same text. Runs on asyncio and trio.

    A cache that cannot be read or written is an error, not a reason to go on without it: nobody would notice that every
    text is paid for again. A stored vector that is damaged is embedded again. A process killed at any moment leaves the
    file whole.

    Closing it is optional: one that is forgotten is closed when it is garbage-collected and loses no vector, only the
    order in which the latest were used.

    Args:
        embedder: The embedder that is asked for what is missing, or its specification.
        path: A file, made where there is none; left out, the cache is in memory and ends with this object.
        max_bytes: The most that all entries may count: 128 bytes each, and 4 for each number of the vector. The file
            takes up to a third more than that, and beside it lies a log of some megabytes while it is open.

    Raises:
        ArgumentError: `embedder`, `path` or `max_bytes` cannot be used.

    Example:
        >>> import anyio
        >>> def embed(texts):
        ...     print("embedding", texts)
        ...     return [[len(text), 1.0] for text in texts]
        >>> async def main():
        ...     async with CachedEmbedder(embedder_from(embed, id="lengths-v1", dim=2)) as embedder:
        ...         await embedder.embed_documents(["keys", "bread"])
        ...         return (await embedder.embed_documents(["bread", "salt", "keys"])).shape
        >>> from airw.embedders.adapters import embedder_from
        >>> anyio.run(main)
        embedding ['keys', 'bread']
        embedding ['salt']
        (3, 2)
    """

    def __init__(
        self, embedder: EmbedderLike, *, path: str | os.PathLike[str] | None = None, max_bytes: int = 256 << 20
    ) -> None:
        self._embedder = resolve_embedder(embedder)
        self._path = _checked_path(path)
        self._file = CacheFile(self._path, check_count("max_bytes", max_bytes, least=1))
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        place = f", path={str(self._path)!r}" if self._path else ""
        return f"{type(self).__name__}({self._embedder!r}{place})"

    @property
    def id(self) -> str:
        """Return the other embedder's id, with the errors that it raises."""
        return self._embedder.id

    @property
    def dim(self) -> int:
        """Return the width of the other embedder's vectors, with the errors that it raises."""
        return self._embedder.dim

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Write down the order of use and let go of the file; closing twice is harmless, the other embedder stays open.

        Raises:
            StoreBusy: Another process kept the file locked for 30 seconds.
            StoreError: It could not be written; it is closed all the same.
        """
        try:
            if self._path is not None and self._file.pending_uses:
                await self._run(self._file.write_uses)
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(self._file.close)

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` rows as the other embedder would, in the order of the texts.

        Raises:
            EmbedderError: `texts` is not a list of strings, or the other embedder failed or gave unusable vectors.
            StoreError: The cache is closed, damaged, locked by another process for 30 seconds, or cannot be written.
        """
        given = check_texts(texts, of=type(self).__name__, error=EmbedderError)
        if not given:
            return await self._embedder.embed_documents(given)
        return await self._embed(given, "document", self._embedder.embed_documents)

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32` as the other embedder would; errors are those of `embed_documents`."""

        async def ask(texts: list[str]) -> Any:
            row = await self._embedder.embed_query(texts[0])
            return row[None] if isinstance(row, np.ndarray) else [row]

        given = check_texts([text], of=type(self).__name__, error=EmbedderError)
        row: Floats = (await self._embed(given, "query", ask))[0]
        return row

    async def _embed(self, texts: list[str], kind: str, ask: Callable[[list[str]], Awaitable[Any]]) -> Floats:
        keys: list[str] = []
        rows: dict[str, Floats] = {}
        damaged: list[int] = []
        dim: int | None = None
        for start in range(0, len(texts), _SLICE):
            hashed, found = await self._run(self._look_up, kind, texts[start : start + _SLICE], dim)
            dim = found.rows.shape[1] if found.keys else dim
            keys += hashed
            rows.update(zip(found.keys, found.rows, strict=True))
            damaged += found.damaged
        if missing := {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}:
            answer = await ask(list(missing.values()))
            made = await in_thread(self._checked, answer, len(missing), dim)
            await self._keep(list(missing), made, damaged)
            rows.update(zip(missing, made, strict=True))
        elif self._file.pending_uses >= _PENDING_USES:
            await self._run(self._file.write_uses)
        return await offload_if(len(keys) > _INLINE, np.stack, [rows[key] for key in keys])

    def _look_up(self, kind: str, texts: list[str], dim: int | None) -> tuple[list[str], Found]:
        keys = self._hashed(kind, texts)
        return keys, self._file.read(list(dict.fromkeys(keys)), self._dim_if_known() if dim is None else dim)

    def _hashed(self, kind: str, texts: list[str]) -> list[str]:
        """Hash embedder, kind and text; the lengths of the first two keep them from running into what follows."""
        start = blake2b(digest_size=16)
        for part in (self._embedder.id, kind):
            encoded = part.encode("utf-8", "surrogatepass")
            start.update(len(encoded).to_bytes(8, "little") + encoded)
        keys = []
        for text in texts:
            one = start.copy()
            one.update(text.encode("utf-8", "surrogatepass"))
            keys.append(one.hexdigest())
        return keys

    def _dim_if_known(self) -> int | None:
        """Return the width, unless it is known only once the model is loaded: what is cached needs no model."""
        try:
            return self._embedder.dim
        except EmbedderError:
            return None

    def _checked(self, answer: Any, count: int, dim: int | None) -> Floats:
        """Return the answer as it is where it is what an embedder must give, else bring it to that or refuse it."""
        dim = self._dim_if_known() if dim is None else dim
        is_right = isinstance(answer, np.ndarray) and answer.dtype == np.float32 and answer.shape == (count, dim)
        if is_right and np.isfinite(answer).all():
            return cast("Floats", answer)
        return unit_rows(answer, count=count, dim=dim, of=f"embedder {self._embedder.id!r}")

    async def _keep(self, keys: list[str], rows: Floats, damaged: list[int]) -> None:
        for start in range(0, len(keys), _SLICE):
            part = slice(start, start + _SLICE)
            await self._run(self._file.write, keys[part], rows[part], damaged)
            damaged = []

    async def _run(self, work: Callable[[*Args], R], *args: *Args) -> R:
        """Work on the file in a worker thread; while another process holds it, wait where that can be cancelled."""
        deadline = anyio.current_time() + _WAIT
        while True:
            try:
                return await in_thread(work, *args)
            except StoreBusy:
                if anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(_ASK_EVERY)


def _checked_path(path: object) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not str(path).strip() or str(path) == ":memory:":
        raise ArgumentError(f"path must name a file, not {path!r}; leave it out for a cache in memory")
    return Path(path).expanduser().absolute()
