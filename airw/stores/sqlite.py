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
from airw.errors import StoreError
from airw.protocols import ArtifactVectors, BestRecords, Run, RunRows
from airw.stores import _fields, _sql_links, _sql_records, _sql_runs
from airw.stores._columns import Columns
from airw.stores._connection import Connection
from airw.stores._large import LargeIndex
from airw.stores._linkbook import LinkChoice
from airw.stores._matrix import DenseIndex
from airw.stores._mirror import EXACT_ROWS, Mirror
from airw.stores._nearby import due
from airw.stores._postings import Postings
from airw.stores._removing import remove_files
from airw.stores._schema import check_removable, in_snapshot
from airw.stores._segments import segment_folder
from airw.stores._sql_edges import neighbors
from airw.stores._sql_write import apply_changes, checked, set_setting
from airw.stores._upkeep import index_buckets
from airw.values import (
    DIRECTIONS,
    ArtifactChange,
    Direction,
    Edge,
    LedgerEntry,
    LinkCount,
    NodeId,
    Ranking,
    Record,
    UnresolvedLink,
)
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteStore"]

P = ParamSpec("P")
R = TypeVar("R")


class SqliteStore:
    """A `Store` in one SQLite file, safe to share between tasks and processes; runs on asyncio only, as aiosqlite does.

    Readers see whole writes, those of other processes included, at their next call, and never wait for a writer. A
    cancelled call is stopped at once, and what it wrote is undone. Calls through one store take turns; a text or id
    with NUL or a lone surrogate where it would be looked up is refused. The 32 fields that `matching` was asked about
    last are indexed in memory, each at its first question; those that filters named last, at the second filter. Each
    of its two connections keeps up to 32 MiB of the file in memory.

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
        self._columns = Columns()
        self._mirror = Mirror(self._segments, self._columns)
        self._mirror_turn = anyio.Lock()
        self._postings = Postings()
        self._fields: dict[str, _fields.FollowedField] = {}
        self._max_fan_in: dict[_sql_links.MaxOf, int] = {}
        self._writer_turn = anyio.Lock()

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

    async def aclose(self) -> None:
        """Release everything held; closing twice is harmless."""
        with anyio.CancelScope(shield=True):
            async with self._writer_turn:
                for connection in (self._writer, self._reader):
                    if connection is not None:
                        await connection.aclose()
        self._columns = Columns()
        self._mirror, self._fields, self._max_fan_in = Mirror(self._segments, self._columns), {}, {}
        self._postings = Postings()

    def __del__(self) -> None:
        left = [each for each in (self._writer, self._reader) if each is not None and each.is_open]
        for connection in left:
            connection.abandon()
        if left:
            message = f"{str(self._path)!r} was left open; use `async with`, or `await store.aclose()`"
            warnings.warn(message, ResourceWarning, source=self, stacklevel=2)

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Give the record of each id."""
        return await self._read(_sql_records.get_records, ids)

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts."""
        return await self._read(_sql_records.records_of, artifact_ids, kinds, limit)

    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        """Give the ledger entry of each artifact; of all, ordered by id, when no ids are given."""
        return await self._read(_sql_records.ledger, ids)

    async def changed(self, versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
        """Give the artifacts whose ledger entry is not of this version or not like `stamp` in all but the records."""
        return await self._read(_sql_records.changed, versions, stamp)

    async def artifact_ids(self) -> list[str]:
        """Give the ids of all artifacts, sorted."""
        return await self._read(_sql_records.artifact_ids)

    async def counts(self) -> dict[str, int]:
        """Count `artifacts`, `records`, and the links that are `resolved`, `dangling`, `ambiguous` and `foreign`."""
        return await self._read(_sql_records.counts)

    async def config(self) -> dict[str, Any]:
        """Give the settings the corpus was built with; empty before the first build."""
        return dict((await self._read(_sql_records.settings, "config")).get("", {}))

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings; values are JSON.

        Raises:
            StoreError: A value is not JSON.
        """
        await self._write(set_setting, "config", "", config)

    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        """Give the calibration stored under a key, or all of them by key; empty when there is none."""
        found = await self._read(_sql_records.settings, "calibration")
        return found if key is None else dict(found.get(key, {}))

    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace the calibration stored under a key; values are JSON.

        Raises:
            StoreError: A value is not JSON.
        """
        await self._write(set_setting, "calibration", key, value)

    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        """Put and remove whole artifacts with their records, vectors, ledger entries and links, all or nothing.

        Raises:
            StoreError: A vector is not finite or of another width than those that stay, or a text cannot be stored;
                nothing of the call is stored then.
            StoreBusy: Other writers held the file for ten seconds.
        """
        await self._write(apply_changes, puts, removals)

    async def begin_run(self, run: Run, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        """Keep a row for a run, in place of an earlier run of its name and all its parts, and remove artifacts."""
        await self._write(_sql_runs.begin_run, run, row, removals)

    async def read_run(self, run: Run, parts: Sequence[int] | None = None) -> RunRows | None:
        """Give the row of a run and those of these parts, or of all, where they are; `None` once it was replaced."""
        return await self._read(_sql_runs.read_run, run, parts)

    async def apply_part(
        self, run: Run, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        """Put artifacts and a row for the part; where one is already, put nothing and give that one.

        `None`, and nothing is put, when the run was replaced or forgotten, or the settings are not what it needs.

        Raises:
            StoreError: As for `apply`, or the row is not JSON; nothing of the call is stored then.
            StoreBusy: Other writers held the file for ten seconds.
        """
        rows = await in_thread(checked, puts)  # once, however often this has to wait for other writers
        return await self._write(_sql_runs.apply_part, run, part, row, rows)

    async def forget_run(self, run: Run, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()) -> None:
        """Forget these parts of a run, or all of it, and remove artifacts; nothing, where the run was replaced."""
        await self._write(_sql_runs.forget_run, run, parts, removals)

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Hold the store for one builder, across tasks and processes; a second one waits.

        Raises:
            StoreBusy: Another builder still held it after `timeout` seconds.
        """
        return hold_file(self._path.with_name(self._path.name + "-lock"), timeout=timeout)

    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each row of `queries` `(m, dim)` the best `k` records, or artifacts by their best record.

        Order: score descending, then `(artifact_id, surface_index)`.

        Raises:
            EmbedderMismatch: The queries are not as wide as the stored vectors.
        """
        return await self._ask_mirror(
            lambda index, allowed: index.search(
                queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact
            ),
            filter,
        )

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Give the cosine of `query` `(dim,)` to each record: `(n,) float32`, NaN where there is no such record."""
        return await self._ask_mirror(lambda index, _: index.similarities(query, record_ids))

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Give for each artifact the id and the cosine of its best record; `None` and NaN where it has none."""
        return await self._ask_mirror(lambda index, _: index.best_of(query, artifact_ids, surfaces))

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Give the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record."""
        return await self._ask_mirror(lambda index, _: index.vectors(ids))

    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Give the record ids of each artifact in plan order, and their vectors in that order: `(n, dim) float32`."""
        return await self._ask_mirror(lambda index, _: index.vectors_of(artifact_ids))

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts, that hold at least one of its words, by BM25.

        Order: score descending, then `(artifact_id, surface_index)`.
        """
        return await self._read(
            _sql_records.search_text,
            self._postings,
            self._columns,
            queries,
            k,
            filter=filter,
            surfaces=surfaces,
            per_artifact=per_artifact,
        )

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
        """Give the edges of each artifact as stored, ordered by type, then by the id at the other end."""
        check_choice("direction", direction, DIRECTIONS)
        choice = LinkChoice(types, exclude, origins)
        return await self._read(neighbors, ids, direction, choice, limit)

    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Give for each reference the sorted ids of the artifacts that it may mean: none, one or several."""
        return await self._read(_sql_links.resolve, refs)

    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        """Give for each node the sorted ids of the artifacts that link to it, each once and never the node itself."""
        return await self._read(_sql_links.referrers, nodes, types)

    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Count the referrers of each node."""
        return await self._read(_sql_links.fan_in, nodes, types)

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Count the referrers of the node that has most; 0 without links."""
        return await self._read(_sql_links.max_fan_in, self._max_fan_in, types)

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        """Give for each `(field, value)` the sorted ids of the artifacts whose filter field equals it or lists it."""
        return await self._read(_fields.matching, self._fields, wanted, limit)

    async def unresolved(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous; by artifact id, then as written.

        Raises:
            ArgumentError: The limit is no whole number of at least 0.
        """
        return await self._read(_sql_links.unresolved, artifact_ids, limit)

    async def link_counts(self) -> list[LinkCount]:
        """Count all stored links by type, origin and state, in that order; what counts zero is left out."""
        return await self._read(_sql_links.link_counts)

    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work` where it sees one state of the file."""
        return await self._opened().run(in_snapshot, lambda connection: work(connection, *args, **kwargs))

    async def _write(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work`, which writes in one transaction; wait, where it can be cancelled, for other writers."""
        async with self._writer_turn:
            reader = self._opened()
            if self._writer is None:
                reader.check_same()
                self._writer = await Connection.open(self._path, writable=True)
        answer = await self._writer.run_in_turn(work, *args, **kwargs)
        await index_buckets(self._path, await self._read(due, self._segments, EXACT_ROWS), self._read)
        return answer

    async def _ask_mirror(self, ask: Callable[[DenseIndex | LargeIndex, Any], R], filter: Filter | None = None) -> R:
        """Bring what follows the vectors up to date and ask it, both of one state of the file."""
        async with self._mirror_turn:
            answer, is_ready = await self._read(self._mirror.answer, ask, filter)
            return answer() if is_ready else await in_thread(answer)

    def _opened(self) -> Connection:
        if self._reader is None:
            raise StoreError(f"{str(self._path)!r} is not open; use `async with`, or `await SqliteStore.open(path)`")
        if not self._reader.is_open:
            raise StoreError(f"{str(self._path)!r} is closed; open it again")
        return self._reader
