"""An embedder with a cache: a text is embedded once and then read from the cache."""

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
from airw.embedders._cache_file import CachedRows, CacheFile
from airw.embedders.specs import resolve_embedder
from airw.errors import ArgumentError, EmbedderError, StoreBusy
from airw.protocols import EmbedderLike

R = TypeVar("R")
Args = TypeVarTuple("Args")

_SLICE = 2048  # texts in one look-up, which takes about 15 ms
_INLINE = 64  # rows; stacking fewer takes less time than reaching a worker thread
_RETRY_EVERY = 0.01  # seconds between attempts to use a file that another process has locked
_WAIT = 30.0  # seconds until a locked file is an error
_PENDING_USES = 1 << 14  # uses; a call that writes nothing else writes them if more are pending


class CachedEmbedder:
    """An embedder that caches the vectors of another embedder.

    It has the `id` and `dim` of the other embedder and returns the same vectors, bit for bit, so it can replace it. The
    key of a vector is a hash of the embedder's id, the text and its kind: models may embed documents and queries
    differently. Texts are not stored. Each call embeds all missing texts, without duplicates,
    in one call of the other embedder; the least recently used vectors make room for them. Any number of embedders and
    processes may share one file on a local disk; simultaneous calls may each embed the same text. Runs on asyncio and
    trio.

    If the cache cannot be read or written, embedding fails. Otherwise you would not notice that every text is paid for
    again. A damaged vector is embedded again. The file stays whole if a process is killed at any moment.

    Closing is optional. A cache that is not closed is closed by garbage collection. It then loses no vectors, only the
    order of their latest uses.

    Args:
        embedder: The embedder of the missing texts, or its specification.
        path: The path of the file, which is created if it does not exist. Without a path, the cache is in memory.
        max_bytes: The maximum size of all entries: 128 bytes each, plus 4 for each number of the vector. The file
            takes up to a third more, and while it is open there is a log of some megabytes beside it.

    Raises:
        ArgumentError: If `embedder`, `path` or `max_bytes` cannot be used.

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
        self._path = _resolve_path(path)
        self._file = CacheFile(self._path, check_count("max_bytes", max_bytes, least=1))
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        place = f", path={str(self._path)!r}" if self._path else ""
        return f"{type(self).__name__}({self._embedder!r}{place})"

    @property
    def id(self) -> str:
        """Return the id of the other embedder; its errors are raised unchanged."""
        return self._embedder.id

    @property
    def dim(self) -> int:
        """Return the width of the other embedder's vectors; its errors are raised unchanged."""
        return self._embedder.dim

    @property
    def max_tokens(self) -> int | None:
        """Return how many tokens of a text the other embedder reads; `None` if it does not tell."""
        return getattr(self._embedder, "max_tokens", None)

    async def find_ends(self, texts: Sequence[str]) -> list[int]:
        """Return the position up to which the other embedder reads each text.

        It is the end of the text if that embedder does not tell.
        """
        find_ends: Callable[[Sequence[str]], Awaitable[list[int]]] | None = getattr(self._embedder, "find_ends", None)
        return list(map(len, texts)) if find_ends is None else await find_ends(texts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Write the order of use and close the file.

        Closing twice has no effect. The other embedder stays open.

        Raises:
            StoreBusy: If another process locked the file for 30 seconds.
            StoreError: If the file cannot be written; it is closed nevertheless.
        """
        try:
            if self._path is not None and self._file.pending_uses:
                await self._run(self._file.write_uses)
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(self._file.close)

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` rows of the other embedder, in the order of texts.

        Raises:
            EmbedderError: If `texts` is not a list of strings, or the other embedder fails or returns unusable vectors.
            StoreError: If the cache is closed, damaged, not writable, or locked by another process for 30 seconds.
        """
        checked = check_texts(texts, of=type(self).__name__, error=EmbedderError)
        if not checked:
            return await self._embedder.embed_documents(checked)
        return await self._embed(checked, "document", self._embedder.embed_documents)

    async def embed_query(self, text: str) -> Floats:
        """Return the row of the other embedder, `(dim,) float32`; errors as in `embed_documents`."""

        async def embed_one(texts: list[str]) -> Any:
            row = await self._embedder.embed_query(texts[0])
            return row[None] if isinstance(row, np.ndarray) else [row]

        checked = check_texts([text], of=type(self).__name__, error=EmbedderError)
        row: Floats = (await self._embed(checked, "query", embed_one))[0]
        return row

    async def _embed(self, texts: list[str], kind: str, embed: Callable[[list[str]], Awaitable[Any]]) -> Floats:
        keys: list[str] = []
        rows: dict[str, Floats] = {}
        damaged: list[int] = []
        dim: int | None = None
        # Look up all texts, slice by slice, so that a long list can be cancelled.
        for start in range(0, len(texts), _SLICE):
            slice_keys, cached = await self._run(self._look_up, kind, texts[start : start + _SLICE], dim)
            dim = cached.rows.shape[1] if cached.keys else dim
            keys += slice_keys
            rows.update(zip(cached.keys, cached.rows, strict=True))
            damaged += cached.damaged
        # Embed the missing texts in one call, so that the other embedder can form its own batches.
        if missing := {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}:
            try:
                answer = await embed(list(missing.values()))
            except EmbedderError as error:
                if not error.refused:
                    raise
                reasons = {key: error.refused.get(at) for at, key in enumerate(missing)}
                refused = {at: reason for at, key in enumerate(keys) if (reason := reasons.get(key))}
                raise EmbedderError(str(error), refused) from error
            new_rows = await in_thread(self._check_answer, answer, len(missing), dim)
            await self._store(list(missing), new_rows, damaged)
            rows.update(zip(missing, new_rows, strict=True))
        # If every text is in the cache, nothing is written for long, and uses would pile up in memory.
        elif self._file.pending_uses >= _PENDING_USES:
            await self._run(self._file.write_uses)
        return await offload_if(len(keys) > _INLINE, np.stack, [rows[key] for key in keys])

    def _look_up(self, kind: str, texts: list[str], dim: int | None) -> tuple[list[str], CachedRows]:
        keys = self._hash_keys(kind, texts)
        return keys, self._file.read(list(dict.fromkeys(keys)), self._dim_if_known() if dim is None else dim)

    def _hash_keys(self, kind: str, texts: list[str]) -> list[str]:
        """Return a key for each text: a hash of the embedder's id, the kind and the text."""
        # The lengths of id and kind are hashed too, so that no two different triples give the same bytes.
        prefix = blake2b(digest_size=16)
        for part in (self._embedder.id, kind):
            encoded = part.encode("utf-8", "surrogatepass")
            prefix.update(len(encoded).to_bytes(8, "little") + encoded)
        keys = []
        for text in texts:
            key = prefix.copy()
            key.update(text.encode("utf-8", "surrogatepass"))
            keys.append(key.hexdigest())
        return keys

    def _dim_if_known(self) -> int | None:
        """Return the width, or None if only the loaded model knows it: reading needs no model."""
        try:
            return self._embedder.dim
        except EmbedderError:
            return None

    def _check_answer(self, answer: Any, count: int, dim: int | None) -> Floats:
        """Return an answer unchanged if it is valid, else convert it to unit rows or refuse it."""
        dim = self._dim_if_known() if dim is None else dim
        # Valid rows are not normalized again: they must stay the same, bit for bit.
        is_valid = isinstance(answer, np.ndarray) and answer.dtype == np.float32 and answer.shape == (count, dim)
        if is_valid and np.isfinite(answer).all():
            return cast("Floats", answer)
        return unit_rows(answer, count=count, dim=dim, of=f"embedder {self._embedder.id!r}")

    async def _store(self, keys: list[str], rows: Floats, damaged: list[int]) -> None:
        for start in range(0, len(keys), _SLICE):
            part = slice(start, start + _SLICE)
            await self._run(self._file.write, keys[part], rows[part], damaged)
            damaged = []  # removed by the first write

    async def _run(self, work: Callable[[*Args], R], *args: *Args) -> R:
        """Call a function in a worker thread; if another process locks the file, wait and retry."""
        deadline = anyio.current_time() + _WAIT
        while True:
            try:
                return await in_thread(work, *args)
            except StoreBusy:
                if anyio.current_time() >= deadline:
                    raise
            # Wait here and not in SQLite, because a wait in a thread cannot be cancelled.
            await anyio.sleep(_RETRY_EVERY)


def _resolve_path(path: object) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not str(path).strip() or str(path) == ":memory:":
        raise ArgumentError(f"path must be the path of a file, not {path!r}; omit it for a cache in memory")
    return Path(path).expanduser().absolute()
