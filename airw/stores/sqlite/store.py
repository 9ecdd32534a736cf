"""A store in one SQLite file."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import anyio

from airw._base.arrays import Floats
from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.errors import StoreError
from airw.protocols import ArtifactVectors, BestRecords, ChangeFinder, IngestRun, RunKeeper, RunRows, Store
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.value_index import ValueIndex, find_holders
from airw.stores.sqlite import _links, _records, _runs
from airw.stores.sqlite._connection import Connection
from airw.stores.sqlite._field_indexes import FieldIndex, FilterIndex
from airw.stores.sqlite._schema import check_removable, in_snapshot, remove_files
from airw.stores.sqlite._segmented_index import build_segments, plan_segments
from airw.stores.sqlite._segments import segment_folder
from airw.stores.sqlite._vector_index import SqlVectorSearch, VectorIndex
from airw.stores.sqlite._writing import apply_changes, prepare_rows, set_setting
from airw.values import (
    DIRECTIONS,
    ArtifactChange,
    Direction,
    Edge,
    LedgerEntry,
    LinkCount,
    LinkFilter,
    NodeId,
    Ranking,
    Record,
    UnresolvedLink,
)
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

_REMEMBERED = 32  # fields, and sets of link types, that were asked about last
P = ParamSpec("P")
R = TypeVar("R")


class SqliteStore(Store, RunKeeper, ChangeFinder):
    """A `Store` in one SQLite file, safe to share between tasks and processes; runs on asyncio only, as aiosqlite does.

    Readers see whole writes, those of other processes included, at their next call, and never wait for a writer. A
    write that other writers hold up for ten seconds raises `StoreBusy`. A cancelled call is stopped at once, and what
    it wrote is undone. Calls through one store take turns. Ids and names with NUL, and any text with an unpaired
    surrogate, are refused. The 32 fields that `matching` was asked about last are indexed in memory, each at its first
    question; those that filters named last, at the second filter. Each of its two connections keeps up to 8 MiB of the
    file in memory.

    Up to 200,000 records, vectors are searched exactly, in a matrix in memory that follows the file. Above that, the
    write that fills another 65,536 rows makes an HNSW index of them in the folder `<path>-ann`, which needs the extra
    `ann` and takes seconds. Those indexes find nearly all of the best records, whose scores stay exact; each is
    measured when it is made, to find 99 % of the ten nearest. They may be deleted: until the next write makes them
    again, as without the extra, all vectors are read into memory and compared.

    Args:
        path: The file. Entering the store makes it where there is none; its folder must exist.

    Raises:
        StoreCorrupt: On opening: the file is something else, damaged, or from a newer version.
        StoreError: On opening: it cannot be read or made, or the event loop is not asyncio.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> async def main(folder):
        ...     record = Record(Record.make_id("a", "document", 0), "a", "document", 0, "rotate the keys")
        ...     change = ArtifactChange(LedgerEntry("a", "v1", "e", "s"), [record], np.ones((1, 1), np.float32))
        ...     async with SqliteStore(f"{folder}/notes.airw") as store:
        ...         await store.apply([change])
        ...         [ranking] = await store.search_text(["keys"], k=10)
        ...         return ranking.artifact_ids
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ['a']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader: Connection | None = None
        self._writer: Connection | None = None
        self._path = Path(path).absolute()  # the second connection opens later
        self._segments = segment_folder(self._path)
        self._writer_turn = anyio.Lock()
        self._vectors_turn = anyio.Lock()
        self._forget_indexes()

    def _forget_indexes(self) -> None:
        self._filters = FilterIndex()
        self._vectors = VectorIndex(self._segments, self._filters)
        self._inverted_index = InvertedIndex()
        self._fields = LruCache[str, FieldIndex](_REMEMBERED)
        self._max_fan_in = LruCache[_links.MaxOf, int](_REMEMBERED)

    @classmethod
    async def open(cls, path: str | os.PathLike[str], *, create: bool = False) -> Self:
        """Open the store of an existing file; close it with `aclose`.

        Raises:
            CorpusNotFound: There is no such file, and `create` is not set.
            StoreCorrupt: The file is something else, damaged, or from a newer version.
            StoreError: It cannot be read or made, or the event loop is not asyncio.
        """
        store = cls(path)
        store._reader = await Connection.open(store._path, create=create)
        return store

    @classmethod
    async def remove(cls, path: str | os.PathLike[str]) -> None:
        """Remove a store's file and what SQLite keeps beside it, once no builder holds it.

        Raises:
            StoreBusy: A builder still held it after 30 seconds.
            StoreError: A file cannot be removed, or the path is that of something else.
        """
        store = cls(path)
        await in_thread(check_removable, store._path)
        async with store.writing():
            await remove_files(store._path, store._segments)

    async def __aenter__(self) -> Self:
        if self._reader is None:
            self._reader = await Connection.open(self._path, create=True)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._writer_turn:
                for connection in (self._writer, self._reader):
                    if connection is not None:
                        await connection.aclose()
        self._forget_indexes()

    def __del__(self) -> None:
        left = [each for each in (self._writer, self._reader) if each is not None and each.is_open]
        for connection in left:
            connection.abandon()
        if left:
            message = f"{str(self._path)!r} was left open; use `async with`, or `await store.aclose()`"
            warnings.warn(message, ResourceWarning, source=self, stacklevel=2)

    @override
    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        return await self._read(_records.get_records, ids)

    @override
    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        return await self._read(_records.records_of, artifact_ids, kinds, limit)

    @override
    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        return await self._read(_records.ledger, ids)

    @override
    async def find_changed(self, versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
        return await self._read(_records.find_changed, versions, stamp)

    @override
    async def artifact_ids(self) -> list[str]:
        return await self._read(_records.artifact_ids)

    @override
    async def counts(self) -> dict[str, int]:
        return await self._read(_records.counts)

    @override
    async def config(self) -> dict[str, Any]:
        return dict((await self._read(_records.settings, "config")).get("", {}))

    @override
    async def set_config(self, config: Mapping[str, Any]) -> None:
        await self._write(set_setting, "config", "", config)

    @override
    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        found = await self._read(_records.settings, "calibration")
        return found if key is None else dict(found.get(key, {}))

    @override
    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        await self._write(set_setting, "calibration", key, value)

    @override
    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        await self._write(apply_changes, puts, removals)

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
        rows = await in_thread(prepare_rows, puts)  # once, however often this has to wait for other writers
        return await self._write(_runs.apply_part, run, part, row, rows)

    @override
    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        await self._write(_runs.forget_run, run, parts, removals)

    @override
    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        return hold_file(self._path.with_name(self._path.name + "-lock"), timeout=timeout)

    @override
    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        return await self._ask_vectors(
            lambda index, allowed: index.search(
                queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact
            ),
            filter,
        )

    @override
    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        return await self._ask_vectors(lambda index, _: index.similarities(query, record_ids))

    @override
    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        return await self._ask_vectors(lambda index, _: index.best_of(query, artifact_ids, surfaces))

    @override
    async def vectors(self, ids: Sequence[str]) -> Floats:
        return await self._ask_vectors(lambda index, _: index.vectors(ids))

    @override
    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        return await self._ask_vectors(lambda index, _: index.vectors_of(artifact_ids))

    @override
    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        def rank(connection: "sqlite3.Connection") -> list[Ranking]:
            allowed = None if filter is None else self._filters.match(connection, filter)
            return self._inverted_index.rank(
                connection, queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact
            )

        return await self._read(rank)

    @override
    async def neighbors(
        self,
        ids: Sequence[str],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        check_choice("direction", direction, DIRECTIONS)
        links = LinkFilter(types=types, exclude=exclude, origins=origins)
        return await self._read(_links.neighbors, ids, direction, links, limit)

    @override
    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        return await self._read(_links.resolve, refs)

    @override
    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        return await self._read(_links.referrers, nodes, LinkFilter(types=types))

    @override
    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        return await self._read(_links.fan_in, nodes, LinkFilter(types=types))

    @override
    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        return await self._read(_links.max_fan_in, self._max_fan_in, LinkFilter(types=types))

    @override
    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        def match(connection: "sqlite3.Connection") -> list[list[str]]:
            def index_of(field: str) -> ValueIndex:
                return self._fields.get_or_create(field, FieldIndex).follow(connection)

            return find_holders(index_of, wanted, limit)

        return await self._read(match)

    @override
    async def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        return await self._read(_links.list_unresolved, artifact_ids, limit)

    @override
    async def link_counts(self) -> list[LinkCount]:
        return await self._read(_links.link_counts)

    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work` where it sees one state of the file."""
        return await self._get_reader().run(in_snapshot, lambda connection: work(connection, *args, **kwargs))

    async def _write(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work`, which writes in one transaction; wait, where it can be cancelled, for other writers."""
        async with self._writer_turn:
            reader = self._get_reader()
            if self._writer is None:
                reader.check_same()
                self._writer = await Connection.open(self._path, writable=True)
        answer = await self._writer.run_in_turn(work, *args, **kwargs)
        await build_segments(self._path, await self._read(plan_segments, self._segments), self._read)
        return answer

    async def _ask_vectors(
        self, ask: Callable[[DenseIndex | SqlVectorSearch, Any], R], filter: Filter | None = None
    ) -> R:
        """Bring what follows the vectors up to date and ask it, both of one state of the file."""
        async with self._vectors_turn:
            answer, is_ready = await self._read(self._vectors.answer, ask, filter)
            return answer() if is_ready else await in_thread(answer)

    def _get_reader(self) -> Connection:
        if self._reader is None:
            raise StoreError(f"{str(self._path)!r} is not open; use `async with`, or `await SqliteStore.open(path)`")
        if not self._reader.is_open:
            raise StoreError(f"{str(self._path)!r} is closed; open it again")
        return self._reader
