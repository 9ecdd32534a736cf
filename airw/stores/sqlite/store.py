"""A store in one SQLite file."""

import atexit
import os
import sys
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

import anyio
import anyio.lowlevel

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.overriding import override
from airw._base.sharing import SharedLock
from airw.errors import CorpusNotFound, StoreError
from airw.protocols import (
    SNAPSHOT_CAPABILITIES,
    Change,
    IngestRun,
    Request,
    RunKeeper,
    RunRows,
    Store,
    check_able,
)
from airw.stores._engine import EngineStore, Finish, answer_quickly, prepare_all, ready
from airw.stores._indexes.texts import read_language
from airw.stores.own_store import OwnStore
from airw.stores.sqlite import _records, _runs
from airw.stores.sqlite._answers import FileContent, FileIndexes
from airw.stores.sqlite._connection import Connection, FileReplaced
from airw.stores.sqlite._readers import Readers
from airw.stores.sqlite._saved_vectors import save_vectors, vector_folder
from airw.stores.sqlite._schema import (
    check_removable,
    connect,
    is_new,
    is_state_known,
    log_paths,
    note_state,
    remove_files,
)
from airw.stores.sqlite._writing import apply_change, prepare_rows
from airw.stores.sqlite.durability import DURABILITIES, Durability
from airw.values import ArtifactChange, Language, check_language

if TYPE_CHECKING:
    import sqlite3

_MOST_IN_USE = 64  # stores whose files stay open once they are used; each has a thread
_MOST_UNUSED = 6  # files that are open though they are not used yet
_MOST_CONNECTED = 3  # files that are open if there are more than _MOST_IN_USE stores
_IDLE = 0.005  # seconds without a call, after which a file may be put aside
_PATIENCE = 0.5  # seconds that a call waits for another file to be put aside
_OPENINGS = 5  # of a file that is replaced again and again while it is read
_WRITER_CACHE = 4_096  # KiB of pages that the writer keeps: what one write changes; also for a copy
P = ParamSpec("P")
R = TypeVar("R")

_OPEN: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()
_CONNECTED: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()  # those whose file is not put aside
_CONNECTED_LOCK = Lock()


@atexit.register
def _abandon_all() -> None:
    """Close the stores that are still open at the end of the program, while threads still run."""
    for store in list(_OPEN):
        store._abandon()  # noqa: SLF001 - a part of the store, outside of it only for `atexit`


class SqliteStore(EngineStore, RunKeeper):
    """A `Store` in one SQLite file, safe to share between tasks, event loops and processes.

    It runs on asyncio only. Event loops in several threads may use it at the same time. In a
    process that was forked since it was opened, its calls raise `StoreError`: open it again there. A reader sees only
    complete writes, also those of other processes, from its next call on, and never waits for a writer. A write that
    waits ten seconds for other writers raises `StoreBusy`. A cancelled call stops at once, and its changes are undone.
    A long call holds up no other one: reads use two connections, and up to eight while long calls run. Searches that
    wait together are answered together. Ids and names with NUL are refused, and so is any text with an unpaired
    surrogate. If a process has more than 64 open stores, the files that nobody uses are closed until their next call.

    Vectors are mapped from a file in the folder `<path>-ann`, so that opening reads none of them, and processes share
    them. Records newer than that file are read from the database. It is written after a write that leaves 4,096 records
    and an eighth out of it, and when a store that has written closes. Up to 200,000 records, vectors are searched
    exactly. Above that, an HNSW index is beside the file, which needs the extra `ann`. It is saved with the vectors,
    which then takes a second, or many. The index finds nearly all of the best records, and their scores are exact. The
    recall of the ten nearest is measured when it is built, and must be 99 %. You may delete the folder; the next write
    makes it again. Until then, and without the extra, all vectors are compared.

    The store keeps indexes in memory for the 32 fields last used by `Matching`, and for the 32 fields last used by
    filters, each from its first use on. Edges stay in memory from their first use on, until a write changes them. One
    of its connections caches up to 16 MiB of the file, the one that writes 4 MiB, and the others 1 MiB each.

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
        self._folder = vector_folder(self._path)
        self._writer_lock = SharedLock(repr(str(self._path)))
        self._indexes = FileIndexes(self._folder)
        self._embedder_id: object = None
        self._is_closed = False
        self._is_known = False
        self._lock_count = 0  # blocks that hold `writing`
        self._calls = 0  # that read now
        self._seen: Hashable = None  # what tells the present state of the file from earlier ones
        self._version = object()  # another one after each write, also while the file is put aside

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
            await remove_files(store._path, store._folder)

    async def discard(self) -> None:
        """Close the store and remove its files; the caller holds `writing`.

        Raises:
            StoreError: If a file cannot be removed.
        """
        await self.aclose()
        await remove_files(self._path, self._folder)

    async def __aenter__(self) -> Self:
        if self._reader is None:
            await self._open(create=True)
        return self

    async def _open(self, *, create: bool) -> None:
        is_known = await in_thread(lambda: is_new(self._path) or is_state_known(self._path))
        connection, self._embedder_id = await self._connect(create=create)
        self._process = os.getpid()
        self._reader, self._is_closed, self._is_known = Readers(self._path, connection), False, is_known
        with _CONNECTED_LOCK:
            _OPEN.add(self)
            _CONNECTED.add(self)
        await self.put_aside()  # whoever opens many files uses them later, if at all

    async def _connect(self, *, create: bool) -> tuple[Connection, object]:
        """Return a new connection, and the id of the embedder of the vectors."""
        opening = partial(connect, self._path, create=create, language=self._new_language)
        connection = await Connection.open(self._path, opening)
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
            await self._save_vectors(at_end=True)
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
        with _CONNECTED_LOCK:
            _CONNECTED.discard(self)
            _OPEN.discard(self)

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
    async def version(self) -> Hashable:
        self._check_open()
        reader = self._reader
        is_open = reader is not None and reader.is_open
        seen = await reader.read_version() if is_open and reader else _read_file_state(self._path)
        if seen != self._seen:
            self._seen, self._version = seen, object()
        return None if seen is None else self._version

    @override
    async def put_aside(self) -> None:
        """Close the file until the next call, if many files are open and no call uses this one.

        What is in memory stays there, and is used again if nobody has written to the file.
        """
        reader = self._reader
        most = _MOST_CONNECTED if len(_OPEN) > _MOST_IN_USE else _MOST_UNUSED
        if len(_CONNECTED) < most or reader is None or not self._may_rest(reader):
            return
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                if self._reader is not reader or not self._may_rest(reader):
                    return
                version = await self.version()
                before = await in_thread(_read_file_state, self._path)
                known = version is await self.version()
                await reader.aclose()
                with _CONNECTED_LOCK:
                    _CONNECTED.discard(self)
                # Closing may move a log into the file. Otherwise, whoever changes it from now on changes its state.
                self._seen = await in_thread(_read_file_state, self._path)
                if not known or self._seen != before:
                    self._version = object()

    async def _rest_if_idle(self) -> bool:
        """Put the file aside if it is idle; return whether it will be, as only a call uses it now."""
        reader = self._reader
        if reader is None or not reader.is_open or self._writer is not None or self._lock_count:
            return False
        if reader.is_idle(_IDLE):
            await self.put_aside()
        return reader.is_open

    def _may_rest(self, reader: Readers) -> bool:
        """Return whether the file may be closed: it is open, idle, and nobody writes to it."""
        is_used = self._calls or self._lock_count or self._writer is not None or self._is_closed
        return not is_used and self._process == os.getpid() and reader.is_open and reader.is_idle()

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
                await self._save_vectors()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Store]:
        """Yield a store that reads this moment until the end of the block, such as for a copy.

        Raises:
            StoreError: If the file cannot be read.
        """
        # A connection of its own, as others could not read newer content meanwhile.
        connection = await Connection.open(self._path, partial(connect, self._path, cache=_WRITER_CACHE))
        try:
            await connection.run(_begin_snapshot)
            yield _Snapshot(connection, self._folder)
        finally:
            await connection.aclose()

    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return `work(connection, …)`, called on a reader, in one snapshot of the file."""
        return await self._use_reader(
            lambda reader: reader.run_locked(lambda raw: ready(work(raw, *args, **kwargs)), [])
        )

    async def _use_reader(self, call: Callable[[Readers], Awaitable[R]]) -> R:
        """Return what the call returns; if the file was replaced, open the new one and call again."""
        self._calls += 1
        try:
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
        finally:
            self._calls -= 1
        raise FileReplaced(f"{str(self._path)!r} is replaced again and again; try again later")

    async def _write(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work` on the writer; it must be one transaction.

        Then save new vectors, if that is due. A block of `writing` does so at its end.
        """
        before, reader = self._reader, await self._get_reader()
        if before is not None and reader.key != before.key:  # replaced while it was put aside
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")
        try:
            async with self._writer_lock.hold():
                if self._writer is None:
                    await reader.check_same()
                    options: Any = {"durability": self._durability, "cache": _WRITER_CACHE}
                    self._writer = await Connection.open(
                        self._path, partial(connect, self._path, writable=True, **options)
                    )
                writer = self._writer
            result = await writer.run_with_retry(lambda raw: work(raw, *args, **kwargs))
        except FileReplaced:
            # The write was prepared for the old file. So it fails, and the next one goes to the new file.
            if not self._lock_count:
                await self._reopen(reader)
            raise
        if not self._lock_count:
            await self._save_vectors()
        return result

    async def _save_vectors(self, *, at_end: bool = False) -> None:
        """Save new vectors beside the file, if that is due."""
        if self._writer is not None and self._writer.is_open and not self._is_closed:
            await save_vectors(self._path, self._read, self._writer.run_with_retry, at_end=at_end)

    async def _reopen(self, reader: Readers) -> None:
        """Open the file that is at the path now, unless another task has done so.

        Raises:
            StoreError: If that fails, or the vectors in it are of another embedder.
        """
        was_aside = self not in _CONNECTED  # a writer has been opened since then, if there is one
        if was_aside:
            await _make_room()
            with _CONNECTED_LOCK:
                _CONNECTED.add(self)
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                if self._reader is not reader or self._is_closed:
                    return
                # Close first: connections of one process to one file share what they know of its log.
                for connection in (None if was_aside else self._writer, reader):
                    if connection is not None:
                        await connection.aclose()
                if not was_aside:
                    self._writer = None
                state, version = await in_thread(_read_file_state, self._path), self._version
                is_same = was_aside and state is not None and state == self._seen
                if not is_same:
                    self._is_known = False
                    self._indexes.clear()
                try:
                    self._reader = await self._open_successor()
                except BaseException:
                    with _CONNECTED_LOCK:
                        _CONNECTED.discard(self)
                    raise
                await self.version()
                seen, after = self._seen, await in_thread(_read_file_state, self._path)
                if is_same and after == state and self._seen is seen:
                    self._version = version

    async def _open_successor(self) -> Readers:
        """Open the file that has replaced the one of this store."""
        try:
            connection, embedder_id = await self._connect(create=False)
        except CorpusNotFound as error:
            raise StoreError(f"{str(self._path)!r} was removed while open; build it again") from error
        if embedder_id != self._embedder_id:
            await connection.aclose()
            raise StoreError(f"{str(self._path)!r} was replaced by a corpus of another embedder; open it again")
        return Readers(self._path, connection)

    def _check_open(self) -> None:
        self._check_process()
        if self._reader is None:
            raise StoreError(f"{str(self._path)!r} is not open; use `async with`, or `await SqliteStore.open(path)`")
        if self._is_closed:
            raise StoreError(f"{str(self._path)!r} is closed; open it again")

    def _check_process(self) -> None:
        # A forked process lacks the threads of the connections: a call would wait for ever.
        if self._reader is not None and not self._is_closed and self._process != os.getpid():
            raise StoreError(f"{str(self._path)!r} was opened before this process was forked; open it again here")

    async def _get_reader(self) -> Readers:
        self._check_open()
        reader = cast("Readers", self._reader)
        if not reader.is_open:  # put aside; or the file was replaced, and the new one could not be opened before
            await self._reopen(reader)
        return cast("Readers", self._reader)


async def _make_room() -> None:
    """Put files aside that no call uses, if there are too many stores.

    If calls use them all, wait a little.
    """
    deadline = time.monotonic() + _PATIENCE
    while len(_OPEN) > _MOST_IN_USE and len(_CONNECTED) >= _MOST_CONNECTED:
        with _CONNECTED_LOCK:
            stores = [*_CONNECTED]
        # Others are not put aside, such as those with a writer.
        stores = [store for store in stores if await store._rest_if_idle()]  # noqa: SLF001 - its own
        if not stores or time.monotonic() > deadline:
            return
        await anyio.sleep(_IDLE)


def _forget_all() -> None:
    """Forget the stores of the process that this one was forked from."""
    global _CONNECTED_LOCK  # noqa: PLW0603 - a thread that is not here may hold it
    _CONNECTED_LOCK = Lock()
    _OPEN.clear()
    _CONNECTED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _read_file_state(path: Path) -> Hashable:
    """Return what changes with each write to a file that nobody has open.

    It is `None` if there is no file, or a log, which is written again from its beginning.
    """
    log, _ = log_paths(path)
    try:
        if log.exists() and log.stat().st_size:
            return None
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class _Snapshot(OwnStore):
    """The content of a file at one moment.

    Args:
        connection: A connection in a transaction.
        folder: The folder of the saved vectors.
    """

    capabilities = SNAPSHOT_CAPABILITIES

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection, self._indexes = connection, FileIndexes(folder)

    @override
    async def read(self, *requests: Request[Any]) -> list[Any]:
        check_able(self, *requests)

        def answer(connection: "sqlite3.Connection") -> Any:
            return prepare_all(FileContent(connection, self._indexes, None).prepare, requests)()

        return cast("list[Any]", await self._connection.run(answer))


def _begin_snapshot(connection: "sqlite3.Connection") -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _read_embedder_id(connection: "sqlite3.Connection") -> object:
    return _records.read_settings(connection, "config").get("", {}).get("embedder_id")
