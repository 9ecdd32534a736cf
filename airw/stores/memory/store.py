"""A store in memory, which is the reference for all other stores."""

import json
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Self, TypeVar

import anyio
import anyio.lowlevel
import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import in_thread
from airw._base.fairness import without_pause
from airw._base.json import deep_copy
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw._base.sharing import SharedLock
from airw._base.slices import iterate_slices, sort_in_slices
from airw.errors import StoreBusy, StoreError
from airw.protocols import Change, Columns, Fed, IngestRun, Rank, Request, RunKeeper, RunRows, requests as forms
from airw.stores._changes import check_changes, check_width, copy_change, settings_json
from airw.stores._engine import Content, EngineStore, Finish, answer_quickly, prepare_all, rank_named_if_quick, ready
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.value_index import ValueIndex, match_values
from airw.stores.memory._links import LinkTable
from airw.stores.memory._record_indexes import RecordFilterIndex, TextIndex
from airw.stores.own_store import find_changed
from airw.values import ArtifactChange, Language, LedgerEntry, LinkFilter, Record, check_language
from airw.values.filters import MISSING, Filter, get_field

R = TypeVar("R")

_QUICK = 100  # records or links: this work takes less than a millisecond
_QUICK_STORE = 100  # records of a store, for each query: any request about them takes about as long
_QUICK_VECTORS = 256  # vectors, the same
_CACHED_FIELDS = 32  # fields of `Matching` whose value index is kept
_AT_ONCE = (forms.Config, forms.Calibrations, forms.TextLanguage)  # each is a look at a small value


@dataclass(slots=True)
class _StoredRun:
    """An ingest run with its rows as JSON texts."""

    mark: str
    row: str
    parts: dict[int, str] = field(default_factory=dict)


class MemoryContent(Content):
    """What a store in memory holds; whoever uses it holds the lock of the store."""

    def __init__(self, language: Language | None) -> None:
        self.entries: dict[str, LedgerEntry] = {}
        self.by_id: dict[str, Record] = {}
        self.numbers: dict[str, int] = {}  # record -> its number in the text index, never used again
        self.index: DenseIndex = DenseIndex()
        self.texts: TextIndex = TextIndex(language)
        self.links: LinkTable = LinkTable()
        self.filters: RecordFilterIndex = RecordFilterIndex()
        self.values: LruCache[str, ValueIndex] = LruCache(_CACHED_FIELDS)
        self.settings = "{}"
        self.calibration: dict[str, str] = {}
        self.runs: dict[str, _StoredRun] = {}
        self.version: object = object()  # another one after each write

    def prepare_if_quick(self, request: Request[Any]) -> Finish | None:
        """Prepare an answer that takes less than about a millisecond; `None` if it may take more."""
        count = len(request.queries) if isinstance(request, Rank | forms.Words) else 1
        if count * len(self.by_id) <= _QUICK_STORE:
            return self.prepare(request)
        match request:
            case Rank(needs="scores"):
                return rank_named_if_quick(self.index, request, _QUICK_VECTORS)
            case Rank(queries, int(k), None, None, per_artifact, None, None, None):
                search: Any = self.index.search_if_quick if request.needs == "dense" else self.texts.rank_if_quick
                found = search(queries, k, per_artifact=per_artifact)
                return None if found is None else ready(found)
            case forms.Records(ids):
                is_quick = len(ids) <= _QUICK
            case forms.RecordsOf(ids, limit=limit):
                is_quick = self._count_records(ids, limit) <= _QUICK
            case forms.VectorsOf(ids):
                is_quick = self.index.has_few(ids, _QUICK_VECTORS)  # type: ignore[arg-type]
            case forms.Edges(ids, direction):
                is_quick = self.links.is_quick(ids, direction)
            case forms.Matching(wanted):
                is_quick = self._count_matches(wanted) <= _QUICK
            case forms.Ledger(ids):
                is_quick = ids is not None and len(ids) <= _QUICK
            case _:
                is_quick = isinstance(request, _AT_ONCE)
        return self.prepare(request) if is_quick else None

    def _count_records(self, ids: Sequence[Any], limit: int | None) -> int:
        """Return the number of records of artifacts, or more than are quick."""
        if len(ids) > _QUICK:
            return len(ids)
        found = (self.entries.get(id) for id in ids)
        counts = (len(entry.record_ids) for entry in found if entry is not None)
        return sum(counts if limit is None else (min(limit, count) for count in counts))

    def _count_matches(self, wanted: Sequence[tuple[str, Any]]) -> int:
        """Return the number of matching artifacts, or more than are quick if an index is missing."""
        if len(wanted) > _QUICK or not all(name in self.values for name, _ in wanted):
            return _QUICK + 1
        return sum(self.values[name].count_artifacts(value) for name, value in wanted)

    # Records, the ledger and settings

    def records(self, request: forms.Records) -> Finish:
        """Return records by id."""
        by_id = self.by_id
        return ready([_copy(by_id.get(id)) for part in iterate_slices(request.ids) for id in part])

    def records_of(self, request: forms.RecordsOf) -> Finish:
        """Return the records of artifacts."""
        entries, by_id, kinds = self.entries, self.by_id, request.kinds
        if len(request.artifact_ids) > _QUICK:
            entries, by_id = entries.copy(), by_id.copy()  # faster than to look up many under the lock

        def select(artifact_id: Any) -> list[Record] | None:
            entry = entries.get(artifact_id)
            if entry is None:
                return None
            selected = (by_id[id] for id in entry.record_ids if kinds is None or by_id[id].surface_kind in kinds)
            return [*map(_copy_record, islice(selected, request.limit))]

        def select_all() -> list[list[Record] | None]:
            return [select(id) for part in iterate_slices(request.artifact_ids) for id in part]

        return select_all if by_id is not self.by_id else ready(select_all())

    def ledger(self, request: forms.Ledger) -> Finish:
        """Return ledger entries, of some artifacts or of all."""
        if request.ids is not None:
            ids: Sequence[Any] = request.ids
            return ready([self.entries.get(id) for id in ids])
        entries = self.entries.copy()
        return lambda: [entries[id] for part in iterate_slices(sort_in_slices(entries)) for id in part]

    def artifact_ids(self, request: forms.ArtifactIds) -> Finish:
        """Return all ids, sorted."""
        return partial(sort_in_slices, [*self.entries])

    def stale(self, request: forms.Stale) -> Finish:
        """Return the artifacts to index again."""
        entries = [*map(self.entries.get, request.versions)]
        return lambda: find_changed(request.versions, request.stamp, entries)

    def config(self, request: forms.Config) -> Finish:
        """Return the settings."""
        return ready(json.loads(self.settings))

    def calibrations(self, request: forms.Calibrations) -> Finish:
        """Return the calibrations by key."""
        return ready({key: json.loads(value) for key, value in self.calibration.items()})

    def counts(self, request: forms.Counts) -> Finish:
        """Return how much there is."""
        return ready({"artifacts": len(self.entries), "records": len(self.by_id), **self.links.counts()})

    def schema(self, request: forms.Schema) -> Finish:
        """Return the kinds and the fields of records."""
        records = [*self.by_id.values()]

        def list_columns() -> Columns:
            kinds = sorted({record.surface_kind for record in records})
            fields = sorted({name for record in records[: request.limit] for name in record.metadata})
            return Columns(kinds, [_has_field(records, path) for path in request.paths], fields)

        return list_columns

    # Rankings

    @override
    def dense(self) -> DenseIndex:
        return self.index.freeze()

    @override
    def match(self, filter: Filter) -> NDArray[np.int64]:
        return self.filters.match(self.by_id, self.numbers, filter)

    @override
    def rank_texts(self, request: Rank, allowed: NDArray[np.int64] | None) -> Finish:
        return partial(
            self.texts.rank,
            request.queries,  # type: ignore[arg-type]
            len(self.by_id) if request.k is None else request.k,
            allowed=allowed,
            surfaces=request.surfaces,
            per_artifact=request.per_artifact,
            statistics=request.statistics,
        )

    def words(self, request: forms.Words) -> Finish:
        """Return the counts behind the scores of texts."""
        return partial(self.texts.count_terms, request.queries)

    def language(self, request: forms.TextLanguage) -> Finish:
        """Return the language of the texts."""
        return ready(self.texts.language)

    # Links

    def edges(self, request: forms.Edges) -> Finish:
        """Return the edges of artifacts."""
        ids: Sequence[Any] = request.ids
        return ready(self.links.neighbors(ids, request.direction, request.links, request.limit))

    def names(self, request: forms.Names) -> Finish:
        """Return what references mean."""
        return ready([list(self.links.resolve(ref)) for ref in request.refs])

    def referrers(self, request: forms.Referrers) -> Finish:
        """Return the artifacts that link to nodes."""
        nodes: Sequence[Any] = request.nodes
        links = LinkFilter(types=request.types)
        return ready([sort_in_slices(self.links.referrers(node, links)) for node in nodes])

    def max_fan_in(self, request: forms.MaxFanIn) -> Finish:
        """Return the largest number of referrers."""
        return ready(self.links.max_fan_in(LinkFilter(types=request.types)))

    def link_counts(self, request: forms.LinkCounts) -> Finish:
        """Return the number of links of each kind."""
        return ready(self.links.link_counts())

    def unresolved_links(self, request: forms.UnresolvedLinks) -> Finish:
        """Return the links that lead to no artifact, or to several."""
        ids: Any = request.artifact_ids
        return ready([*islice(self.links.list_unresolved(ids), request.limit)])

    def matching(self, request: forms.Matching) -> Finish:
        """Return the artifacts with values of fields."""

        def index_of(name: str) -> ValueIndex:
            return self.values.get_or_create(name, self._index_values)

        return ready(match_values(index_of, request.wanted, request.limit))

    def _index_values(self, name: str) -> ValueIndex:
        index = ValueIndex()
        _add_values(index, name, self.by_id.values())
        return index

    # Writing

    def replace(
        self, puts: Sequence[ArtifactChange], records: Sequence[Record], vectors: Floats | None, removals: Sequence[str]
    ) -> None:
        """Write and remove whole artifacts, all or nothing."""
        # Every step that can fail comes before the first change. The last of them writes the texts, in a transaction.
        removed_ids = [*({*removals, *(change.entry.artifact_id for change in puts)} & self.entries.keys())]
        remaining_rows = len(self.index) - sum(len(self.entries[id].record_ids) for id in removed_ids)
        if vectors is not None and self.index.dim is not None and remaining_rows:
            check_width(puts, vectors, self.index.dim)
        first = self.texts.replace(removed_ids, records)
        # From here on, nothing can fail.
        self.version = object()
        for artifact_id in removed_ids:
            self._remove(artifact_id)
        for change in puts:
            self.entries[change.entry.artifact_id] = change.entry
            self.links.put(change.entry.artifact_id, change.extraction)
        self._add(records, first, vectors)

    def _remove(self, artifact_id: str) -> None:
        entry = self.entries.pop(artifact_id)
        for record_id in entry.record_ids:
            del self.by_id[record_id]
        self.filters.drop(self.numbers.pop(record_id) for record_id in entry.record_ids)
        for index in self.values.values():
            index.discard(artifact_id)
        self.index.drop(entry.record_ids)
        self.links.remove(artifact_id)

    def _add(self, records: Sequence[Record], first: int, vectors: Floats | None) -> None:
        if vectors is None:
            return
        numbers = range(first, first + len(records))
        for record, number in zip(records, numbers, strict=True):
            self.by_id[record.id] = record
            self.numbers[record.id] = number
        for name, index in self.values.items():
            _add_values(index, name, records)
        self.index.put(
            [record.id for record in records],
            numbers,
            [record.artifact_id for record in records],
            [record.surface_kind for record in records],
            [record.surface_index for record in records],
            vectors=vectors,
        )


class MemoryStore(EngineStore, RunKeeper):
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
        >>> from airw.protocols import Change, Rank, ask
        >>> async def main():
        ...     record = Record(Record.make_id("a", "document", 0), "a", "document", 0, "rotate the keys")
        ...     change = ArtifactChange(LedgerEntry("a", "v1", "e", "s"), [record], np.ones((1, 1), np.float32))
        ...     async with MemoryStore() as store:
        ...         await store.apply(Change([change]))
        ...         [ranking] = await ask(store, Rank(["keys"], k=10))
        ...         return ranking.artifact_ids
        >>> list(anyio.run(main))
        ['a']
    """

    def __init__(self, *, language: Language | None = "en") -> None:
        super().__init__()
        self._new_language = check_language(language)
        self._builder = SharedLock("the store")
        self._lock = threading.Lock()
        self._texts_lock = threading.Lock()  # taken before the other one, so a search for words holds up only its like
        self._clear()
        self._finalizer = weakref.finalize(self, self._content.texts.close)

    def _clear(self) -> None:
        self._content = MemoryContent(self._new_language)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @override
    async def aclose(self) -> None:
        await in_thread(self._close)

    def _close(self) -> None:
        with self._texts_lock, self._lock:
            self._finalizer()
            self._clear()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise StoreError("the store is closed; make another MemoryStore")

    @override
    async def version(self) -> Hashable:
        self._check_open()
        return self._content.version

    @override
    async def put_aside(self) -> None:
        """Free nothing: all that a store in memory holds is its content."""

    @override
    async def _answer(self, requests: Sequence[Request[Any]]) -> list[Any]:
        # Without a thread, the call would never yield to the event loop.
        await anyio.lowlevel.checkpoint()
        uses_texts = any(map(_uses_texts, requests))
        answers = self._answer_at_once(requests, uses_texts=uses_texts)
        if answers is None:
            answers = await in_thread(partial(self._answer_in_turn, requests, uses_texts=uses_texts))
        return answers

    def _answer_at_once(self, requests: Sequence[Request[Any]], *, uses_texts: bool) -> list[Any] | None:
        """Return the answers if that is quick and nobody holds a lock, as waiting would block."""
        with ExitStack() as held:
            for lock in (self._texts_lock, self._lock) if uses_texts else (self._lock,):
                if not lock.acquire(blocking=False):
                    return None
                held.callback(lock.release)
            self._check_open()
            return answer_quickly(self._content.prepare_if_quick, requests)

    def _answer_in_turn(self, requests: Sequence[Request[Any]], *, uses_texts: bool) -> list[Any]:
        with self._texts_lock if uses_texts else nullcontext():
            with self._lock, without_pause():
                self._check_open()
                finish = prepare_all(self._content.prepare, requests)
            answers: list[Any] = finish()
            return answers

    # Writing

    @override
    async def apply(self, change: Change) -> None:
        await in_thread(self._apply, change)

    def _apply(self, change: Change) -> None:
        # All that can fail by the values of the change is done beside readers.
        if change.language != "same":
            check_language(change.language)
        config = None if change.config is None else settings_json(change.config)
        calibrations = {key: settings_json(value) for key, value in change.calibrations.items()}
        puts, records, vectors = _copy_puts(change.puts)
        with self._texts_lock:
            with self._lock, without_pause():
                self._check_open()
                self._content.replace(puts, records, vectors, change.removals)
                self._content.settings = self._content.settings if config is None else config
                self._content.calibration.update(calibrations)
            # Last, as stored records may refuse the puts. It may take seconds, so only what needs the texts waits.
            if change.language != "same":
                self._content.texts.change_language(change.language)
                self._content.version = object()

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
    async def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        def begin() -> None:
            stored_run = _StoredRun(run.mark, settings_json(row))
            self._content.replace([], [], None, removals)
            self._content.runs[run.name] = stored_run

        await self._write(begin)

    @override
    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        def read() -> RunRows | None:
            stored_run = self._find_run(run)
            if stored_run is None:
                return None
            numbers = sorted(stored_run.parts if parts is None else stored_run.parts.keys() & {*parts})
            return RunRows(json.loads(stored_run.row), {part: json.loads(stored_run.parts[part]) for part in numbers})

        return await self._write(read)

    @override
    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        def apply() -> dict[str, Any] | None:
            stored_run = self._find_run(run)
            if stored_run is None or not run.fits(json.loads(self._content.settings)):
                return None
            if part not in stored_run.parts:
                text = settings_json(row)
                self._content.replace(*_copy_puts(puts), ())
                stored_run.parts[part] = text
            return dict(json.loads(stored_run.parts[part]))

        return await self._write(apply)

    @override
    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        def forget() -> None:
            stored_run = self._find_run(run)
            if stored_run is None:
                return
            self._content.replace([], [], None, removals)
            if parts is None:
                del self._content.runs[run.name]
            else:
                stored_run.parts = {part: row for part, row in stored_run.parts.items() if part not in parts}

        await self._write(forget)

    async def _write(self, work: Callable[[], R]) -> R:
        """Return `work()`, called in a worker thread under both locks."""

        def run() -> R:
            with self._texts_lock, self._lock, without_pause():
                self._check_open()
                return work()

        return await in_thread(run)

    def _find_run(self, run: IngestRun) -> _StoredRun | None:
        """Return the stored run; `None` if it was replaced or forgotten."""
        stored_run = self._content.runs.get(run.name)
        return stored_run if stored_run is not None and stored_run.mark == run.mark else None


def _uses_texts(request: Request[Any]) -> bool:
    plain = request.request if isinstance(request, Fed) else request
    return plain.needs in ("lexical", "words")


def _copy_puts(puts: Sequence[ArtifactChange]) -> tuple[list[ArtifactChange], list[Record], Floats | None]:
    """Return checked copies of artifacts, their records and their vectors.

    Raises:
        StoreError: If an artifact cannot be stored.
    """
    vectors = check_changes(puts)
    copies = [copy_change(change) for change in puts]
    return copies, [record for change in copies for record in change.records], vectors


def _has_field(records: Sequence[Record], path: str) -> bool:
    return any(get_field(record.metadata, path) is not MISSING for record in records)


def _add_values(index: ValueIndex, name: str, records: Iterable[Record]) -> None:
    for record in records:
        value = get_field(record.metadata, name)
        if value is not MISSING:
            index.add(record.artifact_id, value)


def _copy(record: Record | None) -> Record | None:
    return None if record is None else _copy_record(record)


def _copy_record(record: Record) -> Record:
    # `replace` takes three times as long.
    kind, index = record.surface_kind, record.surface_index
    return Record(record.id, record.artifact_id, kind, index, record.text, deep_copy(record.metadata))
