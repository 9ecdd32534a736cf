"""A store in one SQLite file."""

import atexit
import os
import sys
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

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
from airw.stores.sqlite._connection import Connection, FileReplaced, FileVersion, Readers
from airw.stores.sqlite._schema import (
    beside,
    check_removable,
    file_state,
    is_new,
    is_state_known,
    note_state,
    remove_files,
)
from airw.stores.sqlite._vectors import save_vectors, vector_folder
from airw.stores.sqlite._writing import apply_change, prepare_rows
from airw.stores.sqlite.durability import DURABILITIES, Durability
from airw.values import ArtifactChange, Language, check_language

if TYPE_CHECKING:
    import sqlite3

_MOST_IN_USE = 64  # stores whose files stay open once they are used
_MOST_UNUSED = 6  # files that are open though they are not used yet
_MOST_CONNECTED = 6  # files that are open if there are more than _MOST_IN_USE stores
_IDLE = 0.005  # seconds between two looks for a file that may be put aside
_PATIENCE = 0.5  # seconds that a call waits for another file to be put aside
_TICK = 20_000_000  # nanoseconds; two writes within a tick of the disk's clock may leave the same state of a file
_OPENINGS = 5  # of a file that is replaced again and again while it is read
_WRITER_CACHE = 4_096  # KiB of pages that the writer keeps: what one write changes; also for a copy
Args = TypeVarTuple("Args")
R = TypeVar("R")

_OPEN: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()
_CONNECTED: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()  # those whose file is not put aside
_CONNECTED_LOCK = Lock()
_ROOM = SharedLock("the place for one more open file")  # of the stores that wait, the first one looks for a place


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
        self._process = os.getpid()  # first: `__del__` reads these three, also if an argument is refused
        self._reader: Readers | None = None
        self._writer: Connection | None = None
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
        self._seen: Hashable = None  # what tells the present state of the file from earlier ones
        self._aside: Hashable = None  # the state of the file when it was put aside: what is in memory is of that state
        self._is_settled = False  # whether each write to the file that is put aside leaves another state
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
            await in_thread(remove_files, store._path, store._folder)

    async def discard(self) -> None:
        """Close the store and remove its files; the caller holds `writing`.

        Raises:
            StoreError: If a file cannot be removed.
        """
        await self.aclose()
        await in_thread(remove_files, self._path, self._folder)

    async def __aenter__(self) -> Self:
        if self._reader is None:
            await self._open(create=True)
        return self

    async def _open(self, *, create: bool) -> None:
        with _CONNECTED_LOCK:
            _OPEN.add(self)
        try:
            await self._take_place()
            is_known = await in_thread(lambda: is_new(self._path) or is_state_known(self._path))
            reader, self._seen, config = await self._connect(create=create)
        except BaseException:
            self._forget()
            raise
        self._process, self._embedder_id = os.getpid(), config.get("embedder_id")
        self._reader, self._is_closed, self._is_known = reader, False, is_known
        self._indexes.config = None if self._seen is None else self._version, config
        await self.put_aside()  # whoever opens many files uses them later, if at all

    async def _connect(self, *, create: bool) -> tuple[Readers, FileVersion | None, dict[str, Any]]:
        """Return new connections that read, the version of the file, and its settings.

        The settings are of this version, or of a later one.
        """
        connection = await Connection.open(self._path, create=create, language=self._new_language)
        reader = Readers(self._path, connection, at_once=1 if len(_OPEN) > _MOST_IN_USE else 2)
        try:
            return reader, reader.read_version(), await connection.run(_records.config)
        except BaseException:
            await reader.aclose()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        self._check_process()
        try:
            await self._save_vectors(at_end=True)
        finally:
            self._is_closed = True
            with anyio.CancelScope(shield=True):
                async with self._writer_lock.hold():
                    await self._close_connections()
                    if self._is_known:
                        self._is_known = False
                        await in_thread(note_state, self._path)
            self._indexes.clear()
            self._forget()

    def _forget(self) -> None:
        with _CONNECTED_LOCK:
            _CONNECTED.discard(self)
            _OPEN.discard(self)

    async def _close_connections(self) -> None:
        for connection in (self._writer, self._reader):
            if connection is not None:
                await connection.aclose()

    def __del__(self) -> None:
        # At the end of the interpreter no thread can be started or ended; `_abandon_all` has run before.
        if not sys.is_finalizing():
            self._abandon()

    def _abandon(self) -> None:
        """Close what was left open, and warn."""
        if self._reader is None or not self._reader.first.is_open or self._process != os.getpid():
            return  # it is closed; or the process that opened it closes it
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.abandon()
        message = f"the corpus {str(self._path)!r} was left open; use `async with`, or `await corpus.aclose()`"
        # Python deletes a store anywhere: a place in some file would only mislead, and take more lines.
        warnings.warn_explicit(message, ResourceWarning, "airw", 1)

    @override
    async def version(self) -> Hashable:
        return self._read_version()

    def _read_version(self) -> FileVersion | None:
        reader = self._check_open()
        seen: Hashable = reader.read_version() if reader.first.is_open else _read_file_state(self._path)
        if seen != self._seen:
            self._seen, self._version = seen, object()
        return None if seen is None else self._version

    @override
    async def put_aside(self) -> None:
        """Close the file until the next call, if some files are open and no call uses this one.

        What is in memory stays there, and is used again if nobody has written to the file. If many stores are open, the
        file stays open until another one needs its place.
        """
        if len(_OPEN) <= _MOST_IN_USE and len(_CONNECTED) >= _MOST_UNUSED:
            await self._rest()

    async def _rest(self) -> None:
        """Close the file until the next call, if it may be closed."""
        if not self._may_rest():
            return
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                if not self._may_rest():
                    return
                before = _read_file_state(self._path)
                self._read_version()
                await self._close_connections()
                with _CONNECTED_LOCK:
                    _CONNECTED.discard(self)
                # Closing may move a log into the file. Otherwise, whoever changes it from now on changes its state.
                state = self._seen = self._aside = _read_file_state(self._path)
                self._is_settled = state is not None and time.time_ns() - max(state[-2:]) > _TICK
                if state != before:
                    self._version = object()

    def _may_rest(self) -> bool:
        """Return whether the file may be closed: it is open, idle, and nobody writes to it."""
        reader = self._reader
        is_writing = self._lock_count or self._writer is not None or self._is_closed or self._process != os.getpid()
        return not is_writing and reader is not None and reader.first.is_open and reader.is_idle

    @override
    async def _answer(self, requests: Sequence[Request[Any]]) -> list[Any]:
        # Without a thread, the call would never yield to the event loop; and others may ask meanwhile.
        await anyio.lowlevel.checkpoint()
        # A file that is put aside is not opened for an answer from memory.
        is_comparable, indexes = self._check_open().first.is_open or self._is_settled, self._indexes
        version = self._read_version() if is_comparable else None
        quick = answer_quickly(partial(indexes.prepare_if_quick, version), requests)
        # Another call may have brought an index up to date between two of the answers.
        if quick is not None and (len(requests) == 1 or version == self._read_version()):
            return quick
        await self._get_reader()
        version = self._read_version()

        def prepare(connection: "sqlite3.Connection") -> Finish:
            return prepare_all(FileContent(connection, indexes, version).prepare, requests)

        answers: list[Any] = await self._use_reader(prepare, indexes.locks_for(requests))
        if any(request.needs == "lexical" for request in requests):
            # Nobody has written since this version, if it still is the present one when it is compared.
            indexes.words_version = version or indexes.words_version
        return answers

    @override
    async def apply(self, change: Change) -> None:
        if change == Change(language=change.language) and change.language in ("same", await self._read(read_language)):
            return  # an unchanged file is not written
        await self._write(apply_change, change)
        if change.config is not None:
            self._embedder_id = change.config.get("embedder_id")

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
        async with hold_file(beside(self._path, "-lock"), timeout=timeout):
            if self._reader is not None and not self._is_closed:
                # What is read and written in this block must be about one file.
                await self._read(_records.config)
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
        connection = await Connection.open(self._path, cache=_WRITER_CACHE)
        try:
            await connection.run(lambda raw: raw.execute("BEGIN").execute("SELECT 1 FROM sqlite_schema").fetchone())
            yield _Snapshot(connection, self._folder)
        finally:
            await connection.aclose()

    async def _read(self, work: "Callable[[sqlite3.Connection, *Args], R]", *args: *Args) -> R:
        """Return `work(connection, …)`, called on a reader, in one snapshot of the file."""
        return await self._use_reader(lambda raw: ready(work(raw, *args)), [])

    async def _use_reader(self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]) -> R:
        """Return `prepare(connection)()`, called on a reader.

        If the file was replaced, that is one of the new file.
        """
        for _ in range(_OPENINGS):
            reader = await self._get_reader()
            try:
                return await reader.run_locked(prepare, locks)
            except FileReplaced:
                if self._lock_count:
                    raise  # what was read so far is about another file
            except StoreError:
                # Another task may have closed this reader, to open the new file: wait for it.
                if self._reader is reader and (reader.first.is_open or self._is_closed):
                    raise
            await self._reopen(reader)
        raise FileReplaced(f"{str(self._path)!r} is replaced again and again; try again later")

    async def _write(self, work: "Callable[[sqlite3.Connection, *Args], R]", *args: *Args) -> R:
        """Call `work` on the writer; it must be one transaction.

        Then save new vectors, if that is due. A block of `writing` does so at its end.
        """
        before, reader = self._reader, await self._get_reader()
        if before is not None and reader.first.key != before.first.key:  # replaced while it was put aside
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")
        try:
            async with self._writer_lock.hold():
                if self._writer is None:
                    reader.first.check_same()
                    self._writer = await Connection.open(
                        self._path, writable=True, durability=self._durability, cache=_WRITER_CACHE
                    )
                writer = self._writer
            result = await writer.run_with_retry(lambda raw: work(raw, *args))
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
        if not reader.first.is_open:  # it was put aside, or the new file could not be opened before
            await self._take_place()
        with anyio.CancelScope(shield=True):
            async with self._writer_lock.hold():
                if self._is_closed:
                    self._forget()
                if self._reader is not reader or self._is_closed:
                    return
                aside = None if reader.first.is_open else self._aside
                # Close first: connections of one process to one file share what they know of its log.
                if reader.first.is_open:
                    await self._close_connections()
                    self._writer = None
                await reader.aclose()  # the others, if only the first one has closed, as it met another file
                try:
                    successor = await self._open_successor()
                except BaseException:
                    self._is_known = False
                    with _CONNECTED_LOCK:
                        _CONNECTED.discard(self)
                    raise
                # Who writes between these two looks changes the second one.
                seen, state = successor.read_version(), _read_file_state(self._path)
                if aside is None or state != aside:
                    self._is_known, self._version = False, object()
                    self._indexes.clear()
                self._seen, self._reader = seen, successor

    async def _open_successor(self) -> Readers:
        """Open the file that has replaced the one of this store."""
        try:
            reader, _, config = await self._connect(create=False)
        except CorpusNotFound as error:
            raise StoreError(f"{str(self._path)!r} was removed while open; build it again") from error
        if config.get("embedder_id") != self._embedder_id:
            await reader.aclose()
            raise StoreError(f"{str(self._path)!r} was replaced by a corpus of another embedder; open it again")
        return reader

    async def _take_place(self) -> None:
        """Become one of the stores whose file is open.

        If there are too many stores, another file is put aside.
        """
        if len(_OPEN) > _MOST_IN_USE:
            async with _ROOM.hold():
                await _make_room()
        with _CONNECTED_LOCK:
            _CONNECTED.add(self)

    def _check_open(self) -> Readers:
        """Return the connections that read, which may be put aside."""
        self._check_process()
        if self._reader is None:
            raise StoreError(f"{str(self._path)!r} is not open; use `async with`, or `await SqliteStore.open(path)`")
        if self._is_closed:
            raise StoreError(f"{str(self._path)!r} is closed; open it again")
        return self._reader

    def _check_process(self) -> None:
        # A forked process lacks the threads of the connections: a call would wait for ever.
        if self._reader is not None and not self._is_closed and self._process != os.getpid():
            raise StoreError(f"{str(self._path)!r} was opened before this process was forked; open it again here")

    async def _get_reader(self) -> Readers:
        reader = self._check_open()
        if not reader.first.is_open:
            await self._reopen(reader)
        return self._check_open()


async def _make_room() -> None:
    """Put the files aside that no call has used for the longest time.

    If calls use them all, wait a little.
    """
    deadline = time.monotonic() + _PATIENCE
    while len(_CONNECTED) >= _MOST_CONNECTED:
        with _CONNECTED_LOCK:
            # Others are not put aside, such as those with a writer.
            stores = [store for store in _CONNECTED if store._writer is None and not store._lock_count]  # noqa: SLF001
        idle = [(store._reader.used_at, id(store), store) for store in stores if store._may_rest() and store._reader]  # noqa: SLF001
        if idle:
            await min(idle)[-1]._rest()  # noqa: SLF001
        elif not stores or time.monotonic() > deadline:
            return
        else:
            await anyio.sleep(_IDLE)


def _forget_all() -> None:
    """Forget the stores of the process that this one was forked from."""
    global _CONNECTED_LOCK, _ROOM
    _CONNECTED_LOCK, _ROOM = Lock(), SharedLock("the place for one more open file")
    _OPEN.clear()
    _CONNECTED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _read_file_state(path: Path) -> tuple[int, ...] | None:
    """Return what changes with each write to a file that nobody has open.

    It is `None` if there is no file, or a log, which is written again from its beginning.
    """
    try:
        with suppress(FileNotFoundError):
            if os.stat(f"{path}-wal").st_size:  # noqa: PTH116 - of hundreds of files, their `Path`s cost more
                return None
        return file_state(path)
    except OSError:
        return None


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

        return await self._connection.run(
            lambda raw: list[Any](prepare_all(FileContent(raw, self._indexes, None).prepare, requests)())
        )
