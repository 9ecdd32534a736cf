"""A store in memory, which is the reference for all other stores.

Its methods are written as plain functions. The decorators `hold_lock` and `hold_lock_inline_if` make them async.
"""

import json
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar

import anyio

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_limit
from airw._base.concurrency import in_thread
from airw._base.json import deep_copy
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw._base.sharing import SharedLock
from airw._base.slices import iterate_slices, sort_in_slices
from airw.errors import StoreBusy, StoreError
from airw.protocols import (
    AdjacencyReader,
    ArtifactVectors,
    BestRecords,
    IngestRun,
    LanguageKeeper,
    NeighborColumns,
    RunKeeper,
    RunRows,
    SchemaReader,
    Store,
    TermStatistics,
)
from airw.stores._changes import check_changes, check_width, copy_change, settings_json
from airw.stores._indexes.adjacency import Numbers
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.filter_columns import RecordNumbers
from airw.stores._indexes.value_index import ValueIndex, match_values
from airw.stores._waiting import WaitingSearches
from airw.stores.memory._links import LinkTable
from airw.stores.memory._locking import LockedStore, hold_both_locks, hold_lock, hold_lock_inline_if, prepare_under_lock
from airw.stores.memory._record_indexes import RecordFilterIndex, TextIndex
from airw.values import (
    DIRECTIONS,
    ArtifactChange,
    Direction,
    Edge,
    Language,
    LedgerEntry,
    LinkCount,
    LinkFilter,
    NodeId,
    Ranking,
    Record,
    TermCounts,
    UnresolvedLink,
    check_language,
)
from airw.values.filters import MISSING, Filter, get_field

_MAX_INLINE = 100  # records or links: this work takes less than a millisecond
_MAX_VECTORS_INLINE = 256  # vectors, the same
_CACHED_FIELDS = 32  # fields of `matching` whose value index is kept
P = ParamSpec("P")
R = TypeVar("R")


def _has_few_vectors(store: "MemoryStore", artifact_ids: Sequence[str], **_: object) -> bool:
    return store._vectors.has_few(artifact_ids, _MAX_VECTORS_INLINE)  # noqa: SLF001


def _has_few_links(store: "MemoryStore", ids: Sequence[str], *, direction: Direction = "out", **_: object) -> bool:
    return len(ids) <= _MAX_INLINE and _has_few_edges(store, store._links.artifact_numbers(ids), direction=direction)  # noqa: SLF001


def _has_few_edges(
    store: "MemoryStore", numbers: Sequence[int] | Numbers, *, direction: Direction = "out", **_: object
) -> bool:
    check_choice("direction", direction, DIRECTIONS)
    return store._links.is_quick(numbers, direction)  # noqa: SLF001


def _has_few_matches(store: "MemoryStore", wanted: Sequence[tuple[str, Any]], **_: object) -> bool:
    """Return whether all fields have an index, and few artifacts match."""
    indexes = store._values  # noqa: SLF001
    if len(wanted) > _MAX_INLINE or not all(field in indexes for field, _ in wanted):
        return False
    return sum(indexes[field].count_artifacts(value) for field, value in wanted) <= _MAX_INLINE


@dataclass(slots=True)
class _StoredRun:
    """An ingest run with its rows as JSON texts."""

    mark: str
    row: str
    parts: dict[int, str] = field(default_factory=dict)


class MemoryStore(LockedStore, AdjacencyReader, TermStatistics, LanguageKeeper, Store, RunKeeper, SchemaReader):
    """A `Store` in memory, for tests, trials and corpora that are built in each process.

    It runs on asyncio and trio. One lock keeps calls apart, so a reader never sees half of a write. It is released
    before a vector search, and before a long answer is put together. Calls run in a worker thread, except quick ones
    that need not wait for the lock. Closing the store releases its content. A store
    that is never closed is closed when it is garbage-collected.

    Now and then, Python's garbage collector stops all threads to look at every object. With hundreds of thousands of
    records that takes up to a second. Call `gc.freeze()` once such a store is filled.

    Args:
        language: The language of the texts: `"en"`, or `None` for words as they are.

    Raises:
        ArgumentError: If there is no such language.

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

    def __init__(self, *, language: Language | None = "en") -> None:
        super().__init__()
        self._new_language = check_language(language)
        self._builder = SharedLock("the store")
        self._waiting = WaitingSearches()
        self._clear()
        self._finalizer = weakref.finalize(self, self._texts.close)

    def _clear(self) -> None:
        self._ledger: dict[str, LedgerEntry] = {}
        self._records: dict[str, Record] = {}
        self._numbers: dict[str, int] = {}  # record -> its number in the text index, never used again
        self._vectors = DenseIndex()
        self._texts = TextIndex(self._new_language)
        self._links = LinkTable()
        self._filters = RecordFilterIndex()
        self._values = LruCache[str, ValueIndex](_CACHED_FIELDS)
        self._config = "{}"
        self._calibration: dict[str, str] = {}
        self._runs: dict[str, _StoredRun] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        await in_thread(self._close)

    def _close(self) -> None:
        with self.texts_lock, self.lock:
            self._finalizer()
            self._clear()

    @override
    def check_open(self) -> None:
        if not self._finalizer.alive:
            raise StoreError("the store is closed; make another MemoryStore")

    # Records, the ledger and settings

    @override
    @hold_lock_inline_if(lambda _, ids: len(ids) <= _MAX_INLINE)
    def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        return [
            _copy(self._records[id]) if id in self._records else None for part in iterate_slices(ids) for id in part
        ]

    @override
    @prepare_under_lock
    def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> Callable[[], list[list[Record] | None]]:
        check_limit(limit)
        ledger, records = self._ledger, self._records
        if len(artifact_ids) > _MAX_INLINE:
            ledger, records = ledger.copy(), records.copy()  # faster than to look up many under the lock

        def select(artifact_id: str) -> list[Record] | None:
            entry = ledger.get(artifact_id)
            if entry is None:
                return None
            every = map(records.__getitem__, entry.record_ids)
            selected = (record for record in every if kinds is None or record.surface_kind in kinds)
            return list(map(_copy, islice(selected, limit)))

        def select_all() -> list[list[Record] | None]:
            return [select(id) for part in iterate_slices(artifact_ids) for id in part]

        if records is not self._records:
            return select_all
        selected = select_all()
        return lambda: selected

    @override
    @prepare_under_lock
    def ledger(self, ids: Sequence[str] | None = None) -> Callable[[], list[LedgerEntry | None]]:
        if ids is not None:
            entries = [self._ledger.get(id) for id in ids]
            return lambda: entries
        ledger = self._ledger.copy()
        return lambda: [ledger[id] for part in iterate_slices(sort_in_slices(ledger)) for id in part]

    @override
    @prepare_under_lock
    def artifact_ids(self) -> Callable[[], list[str]]:
        return partial(sort_in_slices, [*self._ledger])

    @override
    @hold_lock
    def counts(self) -> dict[str, int]:
        return {"artifacts": len(self._ledger), "records": len(self._records), **self._links.counts()}

    @override
    @hold_lock
    def surface_kinds(self) -> list[str]:
        return sorted({record.surface_kind for record in self._records.values()})

    @override
    @hold_lock
    def has_fields(self, paths: Sequence[str]) -> list[bool]:
        fields = [record.metadata for record in self._records.values()]
        return [any(get_field(metadata, path) is not MISSING for metadata in fields) for path in paths]

    @override
    @hold_lock
    def field_names(self, *, limit: int = 10_000) -> list[str]:
        return sorted({name for record in islice(self._records.values(), limit) for name in record.metadata})

    @override
    @hold_lock
    def config(self) -> dict[str, Any]:
        return dict(json.loads(self._config))

    @override
    @hold_lock
    def set_config(self, config: Mapping[str, Any]) -> None:
        self._config = settings_json(config)

    @override
    @hold_lock
    def calibration(self, key: str | None = None) -> dict[str, Any]:
        if key is None:
            return {name: json.loads(value) for name, value in self._calibration.items()}
        return dict(json.loads(self._calibration.get(key, "{}")))

    @override
    @hold_lock
    def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        self._calibration[key] = settings_json(value)

    # Writing

    @override
    @hold_both_locks
    def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        self._apply(puts, removals)

    def _apply(self, puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
        """Write and remove whole artifacts, all or nothing."""
        # Every step that can fail comes before the first change. The last of them writes the texts, in a transaction.
        vectors = check_changes(puts)
        puts = [copy_change(change) for change in puts]
        removed_ids = [*({*removals, *(change.entry.artifact_id for change in puts)} & self._ledger.keys())]
        remaining_rows = len(self._vectors) - sum(len(self._ledger[id].record_ids) for id in removed_ids)
        if vectors is not None and self._vectors.dim is not None and remaining_rows:
            check_width(puts, vectors, self._vectors.dim)
        records = [record for change in puts for record in change.records]
        first = self._texts.replace(removed_ids, records)
        # From here on, nothing can fail.
        for artifact_id in removed_ids:
            self._remove(artifact_id)
        for change in puts:
            self._ledger[change.entry.artifact_id] = change.entry
            self._links.put(change.entry.artifact_id, change.extraction)
        self._add(records, first, vectors)

    def _remove(self, artifact_id: str) -> None:
        entry = self._ledger.pop(artifact_id)
        for record_id in entry.record_ids:
            del self._records[record_id]
        self._filters.drop(self._numbers.pop(record_id) for record_id in entry.record_ids)
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
            [record.id for record in records],
            numbers,
            [record.artifact_id for record in records],
            [record.surface_kind for record in records],
            [record.surface_index for record in records],
            vectors=vectors,
        )

    @override
    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - the protocol's
        try:
            with anyio.fail_after(timeout if self._builder.is_held else None):
                turn = await self._builder.acquire()
        except TimeoutError:
            raise StoreBusy(
                f"another builder still holds the store after {timeout:g} seconds; wait for it to finish"
            ) from None
        try:
            yield
        finally:
            self._builder.release(turn)

    # Runs

    @override
    @hold_both_locks
    def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        stored_run = _StoredRun(run.mark, settings_json(row))
        self._apply([], removals)
        self._runs[run.name] = stored_run

    @override
    @hold_lock
    def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        stored_run = self._find_run(run)
        if stored_run is None:
            return None
        numbers = sorted(stored_run.parts if parts is None else stored_run.parts.keys() & {*parts})
        return RunRows(json.loads(stored_run.row), {part: json.loads(stored_run.parts[part]) for part in numbers})

    @override
    @hold_both_locks
    def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        stored_run = self._find_run(run)
        if stored_run is None or not run.fits(json.loads(self._config)):
            return None
        if part not in stored_run.parts:
            text = settings_json(row)
            self._apply(puts, ())
            stored_run.parts[part] = text
        return dict(json.loads(stored_run.parts[part]))

    @override
    @hold_both_locks
    def forget_run(self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()) -> None:
        stored_run = self._find_run(run)
        if stored_run is None:
            return
        self._apply([], removals)
        if parts is None:
            del self._runs[run.name]
        else:
            stored_run.parts = {part: row for part, row in stored_run.parts.items() if part not in parts}

    def _find_run(self, run: IngestRun) -> _StoredRun | None:
        """Return the stored run; `None` if it was replaced or forgotten."""
        stored_run = self._runs.get(run.name)
        return stored_run if stored_run is not None and stored_run.mark == run.mark else None

    # Search

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
        async def search(queries: Floats) -> list[Ranking]:
            if filter is None and surfaces is None:
                # Others may ask meanwhile; they are answered together, by one product.
                index = await self.call_if_free(self.lock, self._vectors.freeze)
                found = None if index is None else index.search_if_quick(queries, k, per_artifact=per_artifact)
                if found is not None:
                    return found
            return await self.prepare_locked(
                lambda: partial(
                    self._vectors.freeze().search,
                    queries,
                    k,
                    allowed=self._match_filter(filter),
                    surfaces=surfaces,
                    per_artifact=per_artifact,
                )
            )

        return await self._waiting.search_vectors(queries, (k, filter, surfaces, per_artifact), search)

    @override
    @hold_lock_inline_if(lambda _, query, record_ids: len(record_ids) <= _MAX_INLINE)  # noqa: ARG005
    def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        return self._vectors.similarities(query, record_ids)

    @override
    @hold_lock_inline_if(lambda self, query, artifact_ids, **_: _has_few_vectors(self, artifact_ids))  # noqa: ARG005
    def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        return self._vectors.best_of(query, artifact_ids, surfaces)

    @override
    @prepare_under_lock
    def vectors(self, ids: Sequence[str]) -> Callable[[], Floats]:
        return partial(self._vectors.freeze().vectors, ids)

    @override
    @hold_lock_inline_if(_has_few_vectors)
    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        return self._vectors.vectors_of(artifact_ids)

    @override
    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
        statistics: TermCounts | None = None,
    ) -> list[Ranking]:
        async def search(queries: Sequence[str]) -> list[Ranking]:
            if filter is None and surfaces is None and statistics is None:
                rank = partial(self._texts.rank_if_quick, queries, k, per_artifact=per_artifact)
                found = await self.call_if_free(self.texts_lock, rank)
                if found is not None:
                    return found
            return await self.prepare_locked(
                lambda: partial(
                    self._texts.rank,
                    queries,
                    k,
                    allowed=self._match_filter(filter),
                    surfaces=surfaces,
                    per_artifact=per_artifact,
                    statistics=statistics,
                ),
                uses_texts=True,
            )

        if statistics is not None:
            return await search(queries)
        return await self._waiting.search_text(queries, (k, filter, surfaces, per_artifact), search)

    @override
    @hold_both_locks
    def term_statistics(self, queries: Sequence[str]) -> TermCounts:
        return self._texts.count_terms(queries)

    @override
    @hold_lock
    def language(self) -> Language | None:
        return self._texts.language

    @override
    async def set_language(self, language: Language | None) -> None:
        check_language(language)
        # That may take seconds, so only what needs the texts waits.
        await self.prepare_locked(lambda: partial(self._texts.change_language, language), uses_texts=True)

    def _match_filter(self, filter: Filter | None) -> RecordNumbers | None:
        """Return the numbers of the records that match the filter; `None` for all records."""
        return None if filter is None else self._filters.match(self._records, self._numbers, filter)

    # Links

    @override
    @hold_lock_inline_if(_has_few_links)
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
        check_limit(limit)
        links = LinkFilter(types=types, exclude=exclude, origins=origins)
        return self._links.neighbors(ids, direction, links, limit)

    @override
    @hold_lock_inline_if(lambda _, ids: len(ids) <= _MAX_INLINE)
    def artifact_numbers(self, ids: Sequence[str]) -> Numbers:
        return self._links.artifact_numbers(ids)

    @override
    @hold_lock_inline_if(_has_few_edges)
    def neighbor_columns(
        self,
        numbers: Sequence[int] | Numbers,
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> NeighborColumns:
        check_choice("direction", direction, DIRECTIONS)
        check_limit(limit)
        links = LinkFilter(types=types, exclude=exclude, origins=origins)
        return self._links.neighbor_columns(numbers, direction, links, limit)

    @override
    @hold_lock
    def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        return [list(self._links.resolve(ref)) for ref in refs]

    @override
    @hold_lock
    def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        links = LinkFilter(types=types)
        return [sort_in_slices(self._links.referrers(node, links)) for node in nodes]

    @override
    @hold_lock
    def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        links = LinkFilter(types=types)
        return [len(self._links.referrers(node, links)) for node in nodes]

    @override
    @hold_lock
    def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        return self._links.max_fan_in(LinkFilter(types=types))

    @override
    @hold_lock_inline_if(_has_few_matches)
    def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        check_limit(limit)
        return match_values(lambda field: self._values.get_or_create(field, self._index_values), wanted, limit)

    def _index_values(self, field: str) -> ValueIndex:
        index = ValueIndex()
        _add_values(index, field, self._records.values())
        return index

    @override
    @hold_lock
    def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        check_limit(limit)
        return list(islice(self._links.list_unresolved(artifact_ids), limit))

    @override
    @hold_lock
    def link_counts(self) -> list[LinkCount]:
        return self._links.link_counts()


def _add_values(index: ValueIndex, field: str, records: Iterable[Record]) -> None:
    for record in records:
        value = get_field(record.metadata, field)
        if value is not MISSING:
            index.add(record.artifact_id, value)


def _copy(record: Record) -> Record:
    return replace(record, metadata=deep_copy(record.metadata))
