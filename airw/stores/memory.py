"""A store in memory: what every other store must equal."""

import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.lowlevel

from airw._base.arrays import Floats
from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw.errors import StoreBusy, StoreError
from airw.protocols import ArtifactVectors, BestRecords, Run, RunRows
from airw.stores._content import Content
from airw.stores._linkbook import LinkChoice
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

__all__ = ["MemoryStore"]

_FEW = 100  # records, links or vectors, which take less than a millisecond
R = TypeVar("R")
Args = TypeVarTuple("Args")


class MemoryStore:
    """A `Store` in memory, for tests, trials and corpora that are made anew each time; runs on asyncio and trio.

    Every call works under one lock, so no reader ever sees half of a write, and in a worker thread unless it is a small
    question that need not wait. Closing it lets go of
    everything it holds; one that is forgotten is closed when it is garbage-collected.

    Example:
        >>> import numpy as np
        >>> async def main():
        ...     record = Record(Record.make_id("a", "document", 0), "a", "document", 0, "rotate the keys")
        ...     change = ArtifactChange(LedgerEntry("a", "v1", "e", "s"), [record], np.ones((1, 1), np.float32))
        ...     async with MemoryStore() as store:
        ...         await store.apply([change])
        ...         [ranking] = await store.search_text(["keys"], k=10)
        ...         return ranking.artifact_ids
        >>> list(anyio.run(main))
        ['a']
    """

    def __init__(self) -> None:
        self._content = Content()
        self._lock = threading.Lock()
        self._builder = anyio.Semaphore(1)
        self._close = weakref.finalize(self, self._content.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release everything held; closing twice is harmless."""
        await in_thread(self._shut)

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Give the record of each id."""
        return await self._call(self._content.get_records, ids, few=len(ids) <= _FEW)

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts."""
        return await self._call(self._content.records_of, artifact_ids, kinds, limit)

    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        """Give the ledger entry of each artifact; of all, ordered by id, when no ids are given."""
        return await self._call(self._content.entries, ids)

    async def artifact_ids(self) -> list[str]:
        """Give the ids of all artifacts, sorted."""
        return await self._call(self._content.artifact_ids)

    async def counts(self) -> dict[str, int]:
        """Count `artifacts`, `records`, and the links that are `resolved`, `dangling`, `ambiguous` and `foreign`."""
        return await self._call(self._content.counts)

    async def config(self) -> dict[str, Any]:
        """Give the settings the corpus was built with; empty before the first build."""
        return await self._call(self._content.settings)

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings; values are JSON.

        Raises:
            StoreError: A value is not JSON.
        """
        await self._call(self._content.set_settings, config)

    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        """Give the calibration stored under a key, or all of them by key; empty when there is none."""
        return await self._call(self._content.calibration_of, key)

    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace the calibration stored under a key; values are JSON.

        Raises:
            StoreError: A value is not JSON.
        """
        await self._call(self._content.set_calibration, key, value)

    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        """Put and remove whole artifacts with their records, vectors, ledger entries and links, all or nothing.

        Raises:
            StoreError: A vector is not finite or of another width than those that stay, or a text cannot be stored;
                nothing of the call is stored then.
        """
        await self._call(self._content.apply, puts, removals)

    async def begin_run(self, run: Run, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        """Keep a row for a run, in place of an earlier run of its name and all its parts, and remove artifacts."""
        await self._call(self._content.begin_run, run, row, removals)

    async def read_run(self, run: Run, parts: Sequence[int] | None = None) -> RunRows | None:
        """Give the row of a run and those of these parts, or of all, where they are; `None` once it was replaced."""
        return await self._call(self._content.read_run, run, parts)

    async def apply_part(
        self, run: Run, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        """Put artifacts and a row for the part; where one is already, put nothing and give that one.

        `None`, and nothing is put, when the run was replaced or forgotten, or the settings are not what it needs.

        Raises:
            StoreError: As for `apply`, or the row is not JSON; nothing of the call is stored then.
        """
        return await self._call(self._content.apply_part, run, part, row, puts)

    async def forget_run(self, run: Run, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()) -> None:
        """Forget these parts of a run, or all of it, and remove artifacts; nothing, where the run was replaced."""
        await self._call(self._content.forget_run, run, parts, removals)

    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - the protocol's
        """Hold the store for one builder; a second one waits.

        Raises:
            StoreBusy: Another builder still held it after `timeout` seconds.
        """
        try:
            self._builder.acquire_nowait()
        except anyio.WouldBlock:
            try:
                with anyio.fail_after(timeout):
                    await self._builder.acquire()
            except TimeoutError:
                raise StoreBusy(f"another builder still holds the store after {timeout:g} seconds; try later") from None
        try:
            yield
        finally:
            self._builder.release()

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
        search = partial(
            self._content.search_vectors, queries, k, filter=filter, surfaces=surfaces, per_artifact=per_artifact
        )
        return await self._call(search)

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Give the cosine of `query` `(dim,)` to each record: `(n,) float32`, NaN where there is no such record."""
        few = len(record_ids) <= _FEW
        return await self._call(self._content.index.similarities, query, record_ids, few=few)

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Give for each artifact the id and the cosine of its best record; `None` and NaN where it has none."""
        few = self._content.few_rows(artifact_ids, _FEW)
        return await self._call(self._content.index.best_of, query, artifact_ids, surfaces, few=few)

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Give the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record."""
        return await self._call(self._content.index.vectors, ids)

    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Give the record ids of each artifact in plan order, and their vectors in that order: `(n, dim) float32`."""
        few = self._content.few_rows(artifact_ids, _FEW)
        return await self._call(self._content.index.vectors_of, artifact_ids, few=few)

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
        search = partial(
            self._content.search_text, queries, k, filter=filter, surfaces=surfaces, per_artifact=per_artifact
        )
        return await self._call(search)

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
        few, choice = self._content.few_links(ids, direction, _FEW), LinkChoice(types, exclude, origins)
        return await self._call(self._content.neighbors, ids, direction, choice, limit, few=few)

    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Give for each reference the sorted ids of the artifacts that it may mean: none, one or several."""
        return await self._call(self._content.resolve, refs)

    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        """Give for each node the sorted ids of the artifacts that link to it, each once and never the node itself."""
        return await self._call(self._content.referrers, nodes, types)

    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Count the referrers of each node."""
        return await self._call(self._content.fan_in, nodes, types)

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Count the referrers of the node that has most; 0 without links."""
        return await self._call(self._content.max_fan_in, types)

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        """Give for each `(field, value)` the sorted ids of the artifacts whose filter field equals it or lists it."""
        few = self._content.few_holders(wanted, _FEW)
        return await self._call(self._content.matching, wanted, limit, few=few)

    async def unresolved(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous; by artifact id, then as written.

        Raises:
            ArgumentError: The limit is no whole number of at least 0.
        """
        return await self._call(self._content.unresolved, artifact_ids, limit)

    async def link_counts(self) -> list[LinkCount]:
        """Count all stored links by type, origin and state, in that order; what counts zero is left out."""
        return await self._call(self._content.link_counts)

    async def _call(self, function: Callable[[Unpack[Args]], R], *args: *Args, few: bool = False) -> R:
        """Call in a worker thread; or here, where it takes less time than asking one, and need not wait."""
        if few:
            await anyio.lowlevel.checkpoint()
            if self._lock.acquire(blocking=False):
                try:
                    return self._opened(function, *args)
                finally:
                    self._lock.release()
        return await in_thread(self._locked, function, *args)

    def _locked(self, function: Callable[[Unpack[Args]], R], *args: *Args) -> R:
        with self._lock:
            return self._opened(function, *args)

    def _opened(self, function: Callable[[Unpack[Args]], R], *args: *Args) -> R:
        if not self._close.alive:
            raise StoreError("the store is closed; make another MemoryStore")
        return function(*args)

    def _shut(self) -> None:
        with self._lock:
            self._close()
            self._content = Content()
