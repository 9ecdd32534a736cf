"""A store in memory: what every other store must equal.

Its methods are written as they work, at once; `_locked` makes each of them asynchronous.
"""

import json
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import anyio.lowlevel

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_count
from airw._base.concurrency import in_thread
from airw._base.json import deep_copy
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.errors import StoreBusy, StoreError
from airw.protocols import ArtifactVectors, BestRecords, IngestRun, RunKeeper, RunRows, Store
from airw.stores._changes import check_changes, check_record, check_width, settings_json
from airw.stores._indexes.columns import Rows
from airw.stores._indexes.dense import DenseIndex
from airw.stores._indexes.values import ValueIndex, find_holders
from airw.stores.memory._links import LinkTable
from airw.stores.memory._record_indexes import RecordFilterIndex, TextIndex
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
from airw.values.filters import MISSING, Filter, get_field

_FEW = 100  # records, links or vectors, which take less than a millisecond
_FIELDS = 32  # of which values are indexed, those that `matching` was asked about last
P = ParamSpec("P")
R = TypeVar("R")
_Body = Callable[Concatenate["MemoryStore", P], R]
_Method = Callable[Concatenate["MemoryStore", P], Coroutine[Any, Any, R]]


def _locked(body: _Body[P, R]) -> _Method[P, R]:
    """Make a method asynchronous: it holds the store's lock in a worker thread."""

    @wraps(body)
    async def method(self: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(self._run_locked, partial(body, self, *args, **kwargs))

    return method


def _locked_here_if(is_short: Callable[..., bool]) -> Callable[[_Body[P, R]], _Method[P, R]]:
    """Make a method asynchronous, and spare the thread where work is short and the lock is free.

    Args:
        is_short: Called as the method is, with the lock held; it must not take long itself.
    """

    def decorate(body: _Body[P, R]) -> _Method[P, R]:
        @wraps(body)
        async def method(self: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
            await anyio.lowlevel.checkpoint()
            if self._lock.acquire(blocking=False):
                try:
                    self._check_open()
                    if is_short(self, *args, **kwargs):
                        return body(self, *args, **kwargs)
                finally:
                    self._lock.release()
            return await in_thread(self._run_locked, partial(body, self, *args, **kwargs))

        return method

    return decorate


def _has_few_vectors(store: "MemoryStore", artifact_ids: Sequence[str], **_: object) -> bool:
    return len(artifact_ids) <= _FEW and sum(map(store._vectors.count_of, artifact_ids)) <= _FEW  # noqa: SLF001


def _has_few_links(store: "MemoryStore", ids: Sequence[str], *, direction: Direction = "out", **_: object) -> bool:
    return len(ids) <= _FEW and sum(store._links.degree(each, direction) for each in ids) <= _FEW  # noqa: SLF001


def _has_few_holders(store: "MemoryStore", wanted: Sequence[tuple[str, Any]], **_: object) -> bool:
    """Return whether few artifacts match; not, where the index of a field has yet to be made."""
    values = store._values  # noqa: SLF001
    is_known = len(wanted) <= _FEW and all(field in values for field, _ in wanted)
    return is_known and sum(values[field].count(value) for field, value in wanted) <= _FEW


@dataclass(slots=True)
class _BegunRun:
    """A run and the rows of its parts, as JSON texts."""

    mark: str
    row: str
    parts: dict[int, str] = field(default_factory=dict)


class MemoryStore(Store, RunKeeper):
    """A `Store` in memory, for tests, trials and corpora that are made anew each time; runs on asyncio and trio.

    Every call works under one lock, so no reader ever sees half of a write, and in a worker thread unless it is a small
    question that need not wait. Closing it lets go of everything it holds; one that is forgotten is closed when it is
    garbage-collected.

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
        self._lock = threading.Lock()
        self._builder = anyio.Semaphore(1)
        self._clear()
        self._close = weakref.finalize(self, self._texts.close)

    def _clear(self) -> None:
        self._ledger: dict[str, LedgerEntry] = {}
        self._records: dict[str, Record] = {}
        self._numbers: dict[str, int] = {}  # of each record, as the texts are numbered; never used again
        self._vectors = DenseIndex()
        self._texts = TextIndex()
        self._links = LinkTable()
        self._filters = RecordFilterIndex()
        self._values = LruCache[str, ValueIndex](_FIELDS)
        self._config = "{}"
        self._calibration: dict[str, str] = {}
        self._runs: dict[str, _BegunRun] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        await in_thread(self._shut)

    def _shut(self) -> None:
        with self._lock:
            self._close()
            self._clear()

    def _run_locked(self, work: Callable[[], R]) -> R:
        with self._lock:
            self._check_open()
            return work()

    def _check_open(self) -> None:
        if not self._close.alive:
            raise StoreError("the store is closed; make another MemoryStore")

    # Records, the ledger and settings

    @override
    @_locked_here_if(lambda _, ids: len(ids) <= _FEW)
    def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        return [_copy(self._records[each]) if each in self._records else None for each in ids]

    @override
    @_locked
    def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        return [self._records_of(each, kinds, limit) if each in self._ledger else None for each in artifact_ids]

    def _records_of(self, artifact_id: str, kinds: Sequence[str] | None, limit: int | None) -> list[Record]:
        records = map(self._records.__getitem__, self._ledger[artifact_id].record_ids)
        chosen = (record for record in records if kinds is None or record.surface_kind in kinds)
        return list(map(_copy, islice(chosen, limit)))

    @override
    @_locked
    def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        return [self._ledger.get(each) for each in (sorted(self._ledger) if ids is None else ids)]

    @override
    @_locked
    def artifact_ids(self) -> list[str]:
        return sorted(self._ledger)

    @override
    @_locked
    def counts(self) -> dict[str, int]:
        return {"artifacts": len(self._ledger), "records": len(self._records), **self._links.counts()}

    @override
    @_locked
    def config(self) -> dict[str, Any]:
        return dict(json.loads(self._config))

    @override
    @_locked
    def set_config(self, config: Mapping[str, Any]) -> None:
        self._config = settings_json(config)

    @override
    @_locked
    def calibration(self, key: str | None = None) -> dict[str, Any]:
        if key is None:
            return {each: json.loads(value) for each, value in self._calibration.items()}
        return dict(json.loads(self._calibration.get(key, "{}")))

    @override
    @_locked
    def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        self._calibration[key] = settings_json(value)

    # Writing

    @override
    @_locked
    def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        self._apply(puts, removals)

    def _apply(self, puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
        """Put and remove whole artifacts, all or nothing: what can fail comes first."""
        vectors = check_changes(puts)
        puts = [_copy_change(change) for change in puts]
        leaving = [*({*removals, *(change.entry.artifact_id for change in puts)} & self._ledger.keys())]
        stays = len(self._vectors) - sum(len(self._ledger[each].record_ids) for each in leaving)
        if vectors is not None and self._vectors.dim is not None and stays:
            check_width(puts, vectors, self._vectors.dim)
        records = [record for change in puts for record in change.records]
        first = self._texts.replace(leaving, records)
        for artifact_id in leaving:
            self._remove(artifact_id)
        for change in puts:
            self._ledger[change.entry.artifact_id] = change.entry
            self._links.put(change.entry.artifact_id, change.extraction)
        self._add(records, first, vectors)

    def _remove(self, artifact_id: str) -> None:
        entry = self._ledger.pop(artifact_id)
        for record_id in entry.record_ids:
            del self._records[record_id]
        self._filters.drop(self._numbers.pop(each) for each in entry.record_ids)
        for index in self._values.values():
            index.discard(artifact_id)
        self._vectors.drop(entry.record_ids)
        self._links.remove(artifact_id)

    def _add(self, records: Sequence[Record], first: int, vectors: Floats | None) -> None:
        if vectors is None:
            return
        numbers = range(first, first + len(records))
        for record, number in zip(records, numbers, strict=True):
            self._records[record.id] = record
            self._numbers[record.id] = number
        for name, index in self._values.items():
            _add_values(index, name, records)
        self._vectors.put(
            [each.id for each in records],
            numbers,
            [each.artifact_id for each in records],
            [each.surface_kind for each in records],
            [each.surface_index for each in records],
            vectors=vectors,
        )

    @override
    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - the protocol's
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

    # Runs

    @override
    @_locked
    def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        begun = _BegunRun(run.mark, settings_json(row))
        self._apply([], removals)
        self._runs[run.name] = begun

    @override
    @_locked
    def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        begun = self._find_run(run)
        if begun is None:
            return None
        wanted = sorted(begun.parts if parts is None else begun.parts.keys() & {*parts})
        return RunRows(json.loads(begun.row), {part: json.loads(begun.parts[part]) for part in wanted})

    @override
    @_locked
    def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        begun = self._find_run(run)
        if begun is None or not run.fits(json.loads(self._config)):
            return None
        if part not in begun.parts:
            text = settings_json(row)
            self._apply(puts, ())
            begun.parts[part] = text
        return dict(json.loads(begun.parts[part]))

    @override
    @_locked
    def forget_run(self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()) -> None:
        begun = self._find_run(run)
        if begun is None:
            return
        self._apply([], removals)
        if parts is None:
            del self._runs[run.name]
        else:
            begun.parts = {part: row for part, row in begun.parts.items() if part not in parts}

    def _find_run(self, run: IngestRun) -> _BegunRun | None:
        """Return what is kept of a run; `None` where it was replaced or forgotten."""
        begun = self._runs.get(run.name)
        return begun if begun is not None and begun.mark == run.mark else None

    # Search

    @override
    @_locked
    def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        allowed = self._allowed(filter)
        return self._vectors.search(queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    @override
    @_locked_here_if(lambda _, query, record_ids: len(record_ids) <= _FEW)  # noqa: ARG005
    def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        return self._vectors.similarities(query, record_ids)

    @override
    @_locked_here_if(lambda self, query, artifact_ids, **_: _has_few_vectors(self, artifact_ids))  # noqa: ARG005
    def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        return self._vectors.best_of(query, artifact_ids, surfaces)

    @override
    @_locked
    def vectors(self, ids: Sequence[str]) -> Floats:
        return self._vectors.vectors(ids)

    @override
    @_locked_here_if(_has_few_vectors)
    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        return self._vectors.vectors_of(artifact_ids)

    @override
    @_locked
    def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        allowed = self._allowed(filter)
        return self._texts.rank(queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    def _allowed(self, filter: Filter | None) -> Rows | None:
        """Return the numbers of the records that the filter lets through; `None` for all."""
        return None if filter is None else self._filters.allowed(self._records, self._numbers, filter)

    # Links

    @override
    @_locked_here_if(_has_few_links)
    def neighbors(
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
        return [self._links.neighbors(each, direction, links)[:limit] for each in ids]

    @override
    @_locked
    def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        return [list(self._links.resolve(each)) for each in refs]

    @override
    @_locked
    def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        links = LinkFilter(types=types)
        return [sorted(self._links.referrers(each, links)) for each in nodes]

    @override
    @_locked
    def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        links = LinkFilter(types=types)
        return [len(self._links.referrers(each, links)) for each in nodes]

    @override
    @_locked
    def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        return self._links.max_fan_in(LinkFilter(types=types))

    @override
    @_locked_here_if(_has_few_holders)
    def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        return find_holders(lambda field: self._values.get_or_create(field, self._index_values), wanted, limit)

    def _index_values(self, field: str) -> ValueIndex:
        index = ValueIndex()
        _add_values(index, field, self._records.values())
        return index

    @override
    @_locked
    def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        most = None if limit is None else check_count("limit", limit)
        return list(islice(self._links.unresolved_links(artifact_ids), most))

    @override
    @_locked
    def link_counts(self) -> list[LinkCount]:
        return self._links.link_counts()


def _add_values(index: ValueIndex, field: str, records: Iterable[Record]) -> None:
    for record in records:
        value = get_field(record.metadata, field)
        if value is not MISSING:
            index.add(record.artifact_id, value)


def _copy(record: Record) -> Record:
    return replace(record, metadata=deep_copy(record.metadata))


def _copy_change(change: ArtifactChange) -> ArtifactChange:
    """Return a copy of one artifact's content that nobody else holds.

    Raises:
        StoreError: A record cannot be stored.
    """
    name = change.entry.artifact_id
    records = [replace(each, metadata=json.loads(check_record(each, name))) for each in change.records]
    entry = replace(change.entry, record_ids=tuple(each.id for each in records))
    return replace(change, entry=entry, records=records)
