"""A store in one SQLite file."""

import atexit
import os
import sys
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import anyio.lowlevel

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.overriding import override
from airw._base.sharing import SharedLock
from airw.errors import StoreError
from airw.protocols import Change, ContentReader, IngestRun, Request, RunKeeper, RunRows, StoreContent
from airw.stores._engine import EngineStore, Finish, answer_quickly, prepare_all
from airw.stores._indexes.texts import read_language
from airw.stores.sqlite import _records, _runs
from airw.stores.sqlite._answers import FileContent, FileIndexes
from airw.stores.sqlite._connection import Connection, FileReplaced
from airw.stores.sqlite._content import hold_content
from airw.stores.sqlite._known_state import is_new, is_state_known, note_state
from airw.stores.sqlite._readers import Readers
from airw.stores.sqlite._schema import check_removable, remove_files, run_in_snapshot
from airw.stores.sqlite._segment_building import build_segments
from airw.stores.sqlite._segments import segment_folder
from airw.stores.sqlite._vector_saving import save_vectors
from airw.stores.sqlite._writing import apply_change, prepare_rows
from airw.stores.sqlite.durability import DURABILITIES, Durability
from airw.values import ArtifactChange, Language, check_language

if TYPE_CHECKING:
    import sqlite3

_OPENINGS = 5  # of a file that is replaced again and again while it is read
_WRITER_CACHE = 4_096  # KiB of pages that the writer keeps: what one write changes
P = ParamSpec("P")
R = TypeVar("R")

_OPEN: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


@atexit.register
def _abandon_all() -> None:
    """Close the stores that are still open at the end of the program, while threads still run."""
    for store in list(_OPEN):
        store._abandon()  # noqa: SLF001 - a part of the store, outside of it only for `atexit`


class SqliteStore(EngineStore, RunKeeper, ContentReader):
    """A `Store` in one SQLite file, safe to share between tasks, event loops and processes.

    It runs on asyncio only, because aiosqlite does. Event loops in several threads may use it at the same time. In a
    process that was forked since it was opened, its calls raise `StoreError`: open it again there. A reader sees only
    complete writes, also those of other processes, from its next call on, and never waits for a writer. A write that
    waits ten seconds for other writers raises `StoreBusy`. A cancelled call stops at once, and its changes are undone.
    A long call holds up no other one: reads use two connections, and up to eight while long calls run. Searches that
    wait together are answered together. Ids and names with NUL are refused, and so is any text with an unpaired
    surrogate.

    Vectors are mapped from a file in the folder `<path>-ann`, so that opening reads none of them, and processes share
    them. Records newer than that file are read from the database. It is written after a write of many records, and when
    a store that has written closes. Up to 200,000 records, vectors are searched exactly. Above that, records are
    also in HNSW segments in the same folder, which need the extra `ann`. A write after which 4,096 records are in none
    adds them to one. This takes a second, and now and then many; so does closing a store that has written many records.
    Segments find nearly all of the best records, and their scores are exact. The recall of the ten nearest is measured
    for each segment when it is built, and must be 99 %. You may delete segments; the next write builds them again.
    Until then, and without the extra, all vectors are compared.

    The store keeps indexes in memory for the 32 fields last used by `matching`, each from its first use on. It also
    does so for the 32 fields last used by filters, each from its second filter on. Edges stay in memory from their
    first use on, until a write changes them. One of its connections caches up to 16 MiB of the file, the one that
    writes 4 MiB, and the others 1 MiB each.

    A write that has returned survives a kill of the process. After a power failure, the last writes may be missing, but
    what is there is whole: the state after one of the writes. With `durability="full"`, no write is missing either;
    each then waits for the disk.

    If the file is replaced while the store is open, reads continue with the new file. A write that was prepared for the
    old file raises `StoreError`, and the next one goes to the new file.

    Args:
        path: The file. If it does not exist, entering the store creates it; its folder must exist.
        durability: `"normal"` or `"full"`.
        language: The language of the texts in a new file: `"en"`, or `None` for words as they are. A file that exists
            keeps its own; a `Change` with `language` replaces it.

    Raises:
        ArgumentError: If `durability` or `language` is none of these.
        StoreCorrupt: On opening, if the file is not a corpus, is damaged, or is from a newer version.
        StoreError: On opening, if the file cannot be read or created, or the event loop is not asyncio.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from airw.protocols import Change, Rank, ask
        >>> from airw.values import ArtifactChange, LedgerEntry, Record
        >>> async def main(folder):
        ...     record = Record(Record.make_id("a", "document", 0), "a", "document", 0, "rotate the keys")
        ...     change = ArtifactChange(LedgerEntry("a", "v1", "e", "s"), [record], np.ones((1, 1), np.float32))
        ...     async with SqliteStore(f"{folder}/notes.airw") as store:
        ...         await store.apply(Change([change]))
        ...         [ranking] = await ask(store, Rank(["keys"], k=10))
        ...         return ranking.artifact_ids
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ['a']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        language: Language | None = "en",
    ) -> None:
        super().__init__()
        self._process = os.getpid()  # first: `__del__` reads it, also if an argument is refused
        self._reader: Readers | None = None
        self._writer: Connection | None = None
        self._process = os.getpid()
        self._path = Path(path).absolute()  # as the writer opens later, perhaps in another working folder
        self._durability: Durability = check_choice("durability", durability, DURABILITIES)
        self._new_language = check_language(language)
        self._segments = segment_folder(self._path)
        self._writer_lock = SharedLock(repr(str(self._path)))
        self._indexes = FileIndexes(self._segments)
        self._embedder_id: object = None
        self._is_closed = False
        self._is_known = False
        self._lock_count = 0  # blocks that hold `writing`

    @property
    def durability(self) -> Durability:
        """The durability of a write: `"full"` survives a power failure, too."""
        return self._durability

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        durability: Durability = "normal",
        language: Language | None = "en",
    ) -> Self:
        """Open the store of an existing file; close it with `aclose`.

        Raises:
            ArgumentError: If `durability` or `language` cannot be used.
            CorpusNotFound: If there is no such file, and `create` is not set.
            StoreCorrupt: If the file is not a corpus, is damaged, or is from a newer version.
            StoreError: If the file cannot be read or created, or the event loop is not asyncio.
        """
        store = cls(path, durability=durability, language=language)
        await store._open(create=create)
        return store

    @classmethod
    async def remove(cls, path: str | os.PathLike[str]) -> None:
        """Remove the file of a store and all files that belong to it.

        The call waits until no builder holds the lock of the store.

        Raises:
            StoreBusy: If a builder still holds the lock after 30 seconds.
            StoreError: If a file cannot be removed, or the path is not that of a corpus.
        """
        store = cls(path)
        await in_thread(check_removable, store._path)
        async with store.writing():
            await remove_files(store._path, store._segments)

    async def discard(self) -> None:
        """Close the store and remove its files; the caller holds `writing`.

        Raises:
            StoreError: If a file cannot be removed.
        """
        await self.aclose()
        await remove_files(self._path, self._segments)

    async def __aenter__(self) -> Self:
        if self._reader is None:
            await self._open(create=True)
        return self

    async def _open(self, *, create: bool) -> None:
        is_known = await in_thread(lambda: is_new(self._path) or is_state_known(self._path))
        connection, self._embedder_id = await self._connect(create=create)
        self._process = os.getpid()
        self._reader, self._is_closed, self._is_known = Readers(self._path, connection), False, is_known
        _OPEN.add(self)

    async def _connect(self, *, create: bool) -> tuple[Connection, object]:
        """Return a new connection, and the id of the embedder of the vectors."""
        connection = await Connection.open(self._path, create=create, language=self._new_language)
        try:
            return connection, await connection.run(_read_embedder_id)
        except BaseException:
            await connection.aclose()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        self._check_process()
        try:
            await self._save_indexes(at_end=True)
        finally:
            await self._close()

    async def _close(self) -> None:
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                for connection in (self._writer, self._reader):
                    if connection is not None:
                        await connection.aclose()
                if self._is_known:
                    self._is_known = False
                    await in_thread(note_state, self._path)
        self._indexes.clear()

    def __del__(self) -> None:
        # At the end of the interpreter no thread can be started or ended; `_abandon_all` has run before.
        if not sys.is_finalizing():
            self._abandon()

    def _abandon(self) -> None:
        """Close what was left open, and warn."""
        if self._process != os.getpid():
            return  # the process that opened it closes it
        connections = (self._writer, self._reader)
        open_connections = [connection for connection in connections if connection is not None and connection.is_open]
        for connection in open_connections:
            connection.abandon()
        if open_connections:
            message = f"the corpus {str(self._path)!r} was left open; use `async with`, or `await corpus.aclose()`"
            # Python deletes a store anywhere: a place in some file would only mislead, and take more lines.
            warnings.warn_explicit(message, ResourceWarning, "airw", 1)

    @override
    async def _answer(self, requests: Sequence[Request[Any]]) -> list[Any]:
        # Without a thread, the call would never yield to the event loop; and others may ask meanwhile.
        await anyio.lowlevel.checkpoint()
        reader, version, indexes = await self._get_reader(), None, self._indexes
        if indexes.may_be_quick(requests):
            version = await reader.read_version()
            quick = answer_quickly(partial(indexes.prepare_if_quick, version), requests)
            # Another call may have brought an index up to date between two of the answers.
            if quick is not None and (len(requests) == 1 or version == await reader.read_version()):
                return quick

        def prepare(connection: "sqlite3.Connection") -> Finish:
            return prepare_all(FileContent(connection, indexes, version).prepare, requests)

        answers: list[Any] = await self._use_reader(
            lambda reader: reader.run_locked(prepare, indexes.locks_for(requests))
        )
        if any(request.needs == "lexical" for request in requests):
            # Nobody has written since this version, if it still is the present one when it is compared.
            indexes.words_version = version or indexes.words_version
        return answers

    @override
    async def apply(self, change: Change) -> None:
        if change == Change(language=change.language) and change.language in ("same", await self._language()):
            return  # an unchanged file is not written
        await self._write(apply_change, change)
        if change.config is not None:
            self._embedder_id = change.config.get("embedder_id")

    async def _language(self) -> Language | None:
        return await self._read(read_language)

    @override
    async def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        await self._write(_runs.begin_run, run, row, removals)

    @override
    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        return await self._read(_runs.read_run, run, parts)

    @override
    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        rows = await in_thread(prepare_rows, puts)  # here, as `_write` may try several times
        return await self._write(_runs.apply_part, run, part, row, rows)

    @override
    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        await self._write(_runs.forget_run, run, parts, removals)

    @override
    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - it becomes an error
        async with hold_file(self._path.with_name(self._path.name + "-lock"), timeout=timeout):
            if self._reader is not None and not self._is_closed:
                # What is read and written in this block must be about one file.
                await self._read(_read_embedder_id)
            self._lock_count += 1
            try:
                yield
            finally:
                self._lock_count -= 1
            # Once for all writes of the block, as a build makes many.
            if not self._lock_count:
                await self._save_indexes()

    @override
    def hold_content(self) -> AbstractAsyncContextManager[StoreContent]:
        return hold_content(self._path)

    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return `work(connection, …)`, called on a reader, in one snapshot of the file."""
        return await self._use_reader(
            lambda reader: reader.run(run_in_snapshot, lambda connection: work(connection, *args, **kwargs))
        )

    async def _use_reader(self, call: Callable[[Readers], Awaitable[R]]) -> R:
        """Return what the call returns; if the file was replaced, open the new one and call again."""
        for _ in range(_OPENINGS):
            reader = await self._get_reader()
            try:
                return await call(reader)
            except FileReplaced:
                if self._lock_count:
                    raise  # what was read so far is about another file
                await self._reopen(reader)
            except StoreError:
                if self._reader is reader and (reader.is_open or self._is_closed):
                    raise
                # Another task has closed this reader, to open the new file: wait for it.
                await self._reopen(reader)
        raise FileReplaced(f"{str(self._path)!r} is replaced again and again; try again later")

    async def _write(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work` on the writer; it must be one transaction.

        Then save new vectors and segments, if that is due. A block of `writing` does so at its end.
        """
        reader = await self._get_reader()
        try:
            async with self._writer_lock.hold():
                if self._writer is None:
                    await reader.check_same()
                    self._writer = await Connection.open(
                        self._path, writable=True, durability=self._durability, cache=_WRITER_CACHE
                    )
                writer = self._writer
            result = await writer.run_with_retry(work, *args, **kwargs)
        except FileReplaced:
            # The write was prepared for the old file. So it fails, and the next one goes to the new file.
            if not self._lock_count:
                await self._reopen(reader)
            raise
        if not self._lock_count:
            await self._save_indexes()
        return result

    async def _save_indexes(self, *, at_end: bool = False) -> None:
        """Save new vectors beside the file, and add them to segments, if that is due."""
        for save in (save_vectors, build_segments):
            if self._writer is not None and self._writer.is_open and not self._is_closed:
                await save(self._path, self._read, self._writer.run_with_retry, at_end=at_end)

    async def _reopen(self, reader: Readers) -> None:
        """Open the file that is at the path now, unless another task has done so.

        Raises:
            StoreError: If that fails, or the vectors in it are of another embedder.
        """
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                if self._reader is not reader or self._is_closed:
                    return
                # Close first: connections of one process to one file share what they know of its log.
                for connection in (self._writer, reader):
                    if connection is not None:
                        await connection.aclose()
                self._writer, self._is_known = None, False
                self._indexes.clear()
                self._reader = await self._open_successor()

    async def _open_successor(self) -> Readers:
        """Open the file that has replaced the one of this store."""
        connection, embedder_id = await self._connect(create=False)
        if embedder_id != self._embedder_id:
            await connection.aclose()
            raise StoreError(f"{str(self._path)!r} was replaced by a corpus of another embedder; open it again")
        return Readers(self._path, connection)

    def _check_process(self) -> None:
        # A forked process lacks the threads of the connections: a call would wait for ever.
        if self._reader is not None and not self._is_closed and self._process != os.getpid():
            raise StoreError(f"{str(self._path)!r} was opened before this process was forked; open it again here")

    async def _get_reader(self) -> Readers:
        self._check_process()
        if self._reader is None:
            raise StoreError(f"{str(self._path)!r} is not open; use `async with`, or `await SqliteStore.open(path)`")
        if self._is_closed:
            raise StoreError(f"{str(self._path)!r} is closed; open it again")
        if not self._reader.is_open:  # the file was replaced, and the new one could not be opened before
            await self._reopen(self._reader)
        return self._reader


def _read_embedder_id(connection: "sqlite3.Connection") -> object:
    return _records.read_settings(connection, "config").get("", {}).get("embedder_id")
