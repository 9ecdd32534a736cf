"""A store in memory, which is the reference for all other stores."""

import json
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Self, TypeVar

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
from airw.stores._changes import check_changes, check_width, encode_metadata, settings_json
from airw.stores._engine import Content, EngineStore, Finish, answer_quickly, prepare_all, rank_named_if_quick, ready
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.value_index import ValueIndex, match_values
from airw.stores.memory._links import LinkTable
from airw.stores.memory._record_indexes import RecordFilterIndex, TextIndex
from airw.stores.own_store import find_changed
from airw.values import (
    ArtifactChange,
    Contains,
    Language,
    LedgerEntry,
    LinkFilter,
    Ranking,
    Record,
    TermCounts,
    check_language,
)
from airw.values.filters import MISSING, Filter, get_field

R = TypeVar("R")

_QUICK = 100  # records or links: this work takes less than a millisecond
_QUICK_STORE = 100  # records of a store, for each query: any request about them takes about as long
_QUICK_VECTORS = 256  # vectors, the same
_CACHED_FIELDS = 32  # fields of `Matching` whose value index is kept


class GroupRanking(NamedTuple):
    """The ranking of a group of artifacts alone.

    Args:
        ranking: The ranking, with the ids of the group.
        records: The ranked records. All callers share them: nobody may change them.
        counts: The word counts of the group, if texts were ranked.
    """

    ranking: Ranking
    records: Sequence[Record]
    counts: TermCounts | None


class _Groups:
    """The records of a store as several groups.

    Args:
        version: The version of the content.
        records: The records, in their order.
        split: Returns the name of the group of a record, and the record as the group knows it.
    """

    def __init__(
        self, version: object, records: Sequence[Record], split: Callable[[Record], tuple[str, Record]]
    ) -> None:
        names, artifacts = dict[str, int](), dict[str, int]()
        self.version = version
        self.records: list[Record] = []
        self.row_of: dict[str, int] = {}
        # The number of the group, the number of the artifact, and the place among records of equal scores.
        self.codes: NDArray[np.int64] = np.empty(len(records), np.int64)
        self.artifacts: NDArray[np.int64] = np.empty(len(records), np.int64)
        self.places: NDArray[np.int64] = np.empty(len(records), np.int64)
        for row, record in enumerate(chain.from_iterable(iterate_slices(records))):
            name, own = split(record)
            self.records.append(own)
            self.row_of[record.id] = row
            self.codes[row] = names.setdefault(name, len(names))
            self.artifacts[row] = artifacts.setdefault(record.artifact_id, len(artifacts))
        keys = ((each.artifact_id, each.surface_index, each.id, row) for row, each in enumerate(records))
        self.places[[row for *_, row in sort_in_slices(keys)]] = np.arange(len(records))
        self.names: list[str] = [*names]

    def split(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        k: int | None,
        counts: Sequence[TermCounts | None],
    ) -> dict[str, GroupRanking]:
        """Return the best rows of each group.

        Args:
            rows: The ranked records, best first.
            scores: Their scores.
            k: The number of rows of each group; `None` for all.
            counts: The word counts of each group, if texts were ranked.
        """
        order, rankings = np.argsort(self.codes[rows], kind="stable"), dict[str, GroupRanking]()
        ends = np.searchsorted(self.codes[rows[order]], np.arange(1, len(self.names)))
        for name, places, count in zip(self.names, np.split(order, ends), counts, strict=True):
            own = [self.records[row] for row in rows[places[:k]].tolist()]
            ids = [record.id for record in own], [record.artifact_id for record in own]
            highest = None if count is None else count.max_score(count)
            rankings[name] = GroupRanking(Ranking(*ids, scores[places[:k]], highest), own, count)
        return rankings


class MemoryContent(Content):
    """What a store in memory holds; whoever uses it holds the lock of the store."""

    def __init__(self, language: Language | None) -> None:
        self.entries: dict[str, LedgerEntry] = {}
        self.by_id: dict[str, Record] = {}
        self.index: DenseIndex = DenseIndex()  # it numbers the records as the texts do; no number is used again
        self.texts: TextIndex = TextIndex(language)
        self.links: LinkTable = LinkTable()
        self.filters: RecordFilterIndex = RecordFilterIndex()
        self.values: LruCache[str, ValueIndex] = LruCache(_CACHED_FIELDS)
        self.settings = "{}"
        self.calibration: dict[str, str] = {}
        # The mark of each run, and its rows: that of the run has no number.
        self.runs: dict[str, tuple[str, dict[int | None, str]]] = {}
        self.version: object = object()  # another one after each write
        self.groups: _Groups | None = None  # of the last call of `rank_apart`

    def prepare_if_quick(self, request: Request[Any]) -> Finish | None:
        """Prepare an answer that takes less than about a millisecond; `None` if it may take more."""
        count = len(request.queries) if isinstance(request, Rank | forms.Words) else 1
        is_quick = count * len(self.by_id) <= _QUICK_STORE
        match request:
            case _ if is_quick:
                pass
            case Rank(needs="scores"):
                return rank_named_if_quick(self.index, request, _QUICK_VECTORS)
            case Rank(queries, int(k), None, None, per_artifact, None, None, None, None):
                search: Any = self.index.search_if_quick if request.needs == "dense" else self.texts.rank_if_quick
                found = search(queries, k, per_artifact=per_artifact)
                return None if found is None else ready(found)
            case forms.Records(ids):
                is_quick = len(ids) <= _QUICK
            case forms.RecordsOf(ids, limit=limit):
                most: Any = len(self.by_id) if limit is None else limit
                found = [min(most, len(self.entries[id].record_ids)) for id in ids[:_QUICK] if id in self.entries]
                is_quick = len(ids) <= _QUICK and sum(found) <= _QUICK
            case forms.VectorsOf(ids):
                is_quick = self.index.has_few(ids, _QUICK_VECTORS)  # type: ignore[arg-type]
            case forms.Edges(ids, direction):
                is_quick = self.links.is_quick(ids, direction)
            case forms.Matching(wanted):
                counts = [
                    self.values[name].count_artifacts(value) for name, value in wanted[:_QUICK] if name in self.values
                ]
                is_quick = len(counts) == len(wanted) and sum(counts) + len(wanted) <= _QUICK
        return self.prepare(request) if is_quick else None

    # Records, the ledger and settings

    def records(self, request: forms.Records) -> Finish:
        """Return records by id."""
        records = map(self.by_id.get, request.ids)
        return ready([record and _copy_record(record) for part in iterate_slices(records) for record in part])

    def records_of(self, request: forms.RecordsOf) -> Finish:
        """Return the records of artifacts."""
        entries, by_id, kinds = self.entries, self.by_id, request.kinds
        is_long = len(request.artifact_ids) > _QUICK
        if is_long:
            entries, by_id = entries.copy(), by_id.copy()  # faster than to look up many under the lock

        def select() -> list[list[Record] | None]:
            found: list[list[Record] | None] = []
            ids: Sequence[Any] = request.artifact_ids
            for entry in (entries.get(id) for part in iterate_slices(ids) for id in part):
                records = map(by_id.__getitem__, entry.record_ids) if entry else ()
                chosen = (record for record in records if kinds is None or record.surface_kind in kinds)
                found.append([*map(_copy_record, islice(chosen, request.limit))] if entry else None)
            return found

        return select if is_long else ready(select())

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
        return lambda: Columns(
            sorted({record.surface_kind for record in records}),
            [any(get_field(record.metadata, path) is not MISSING for record in records) for path in request.paths],
            sorted({name for record in records[: request.limit] for name in record.metadata}),
        )

    # Rankings

    @override
    def dense(self) -> DenseIndex:
        return self.index.freeze()

    @override
    def match(self, filter: Filter) -> NDArray[np.int64]:
        return self.filters.match(self.by_id, self.index, filter)

    @override
    def find_texts(self, contains: Contains) -> NDArray[np.int64]:
        return self.texts.find(contains)

    @override
    def rank_texts(self, request: Rank, allowed: NDArray[np.int64] | None) -> Finish:
        return partial(self.texts.rank, request, allowed)

    def rank_apart(self, request: Rank, split: Callable[[Record], tuple[str, Record]]) -> dict[str, GroupRanking]:
        """Return the ranking of each group of artifacts, as if it were all that there is.

        Args:
            request: Ranks the artifacts for one query, without conditions.
            split: Returns the name of the group of a record, and the record as the group knows it.
        """
        if self.groups is None or self.groups.version is not self.version:
            self.groups = _Groups(self.version, [*self.by_id.values()], split)
        groups, counts = self.groups, list[TermCounts | None]([None] * len(self.groups.names))
        if request.needs == "dense":
            [ranking] = self.dense().search(request.queries, len(self.index), per_artifact=True)  # type: ignore[arg-type]
            rows, scores = np.array([groups.row_of[id] for id in ranking.record_ids], np.int64), ranking.scores
        else:
            [query] = request.queries
            rows, scores, counts[:] = self.texts.score_apart(query, groups.codes)
            order = np.lexsort((groups.places[rows], -scores))
            # Of each artifact, the best record counts.
            _, firsts = np.unique(groups.artifacts[rows[order]], return_index=True)
            best = order[np.sort(firsts)]
            rows, scores = rows[best], scores[best]
        return groups.split(rows, scores, request.k, counts)

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

        def make_index(name: str) -> ValueIndex:
            index = ValueIndex()
            _add_values(index, name, self.by_id.values())
            return index

        return ready(
            match_values(lambda name: self.values.get_or_create(name, make_index), request.wanted, request.limit)
        )

    # Writing

    def replace(self, puts: Sequence[ArtifactChange], vectors: Floats | None, removals: Sequence[str]) -> None:
        """Write and remove whole artifacts, all or nothing."""
        # Every step that can fail comes before the first change. The last of them writes the texts, in a transaction.
        removed_ids = [*({*removals, *(change.entry.artifact_id for change in puts)} & self.entries.keys())]
        remaining_rows = len(self.index) - sum(len(self.entries[id].record_ids) for id in removed_ids)
        if vectors is not None and self.index.dim is not None and remaining_rows:
            check_width(puts, vectors, self.index.dim)
        records = [record for change in puts for record in change.records]
        first = self.texts.replace(removed_ids, records)
        # From here on, nothing can fail.
        self.version = object()
        for artifact_id in removed_ids:
            self._remove(artifact_id)
        for change in puts:
            self.entries[change.entry.artifact_id] = change.entry
            self.links.put(change.entry.artifact_id, change.extraction)
        if vectors is None:
            return
        self.by_id |= {record.id: record for record in records}
        for name, index in self.values.items():
            _add_values(index, name, records)
        self.index.put(
            [record.id for record in records],
            range(first, first + len(records)),
            [record.artifact_id for record in records],
            [record.surface_kind for record in records],
            [record.surface_index for record in records],
            vectors=vectors,
        )

    def _remove(self, artifact_id: str) -> None:
        entry = self.entries.pop(artifact_id)
        for record_id in entry.record_ids:
            del self.by_id[record_id]
        self.filters.drop(self.index.number(None, entry.record_ids, None))
        for index in self.values.values():
            index.discard(artifact_id)
        self.index.drop(entry.record_ids)
        self.links.remove(artifact_id)


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
        plain = [request.request if isinstance(request, Fed) else request for request in requests]
        uses_texts = any(request.all_needs & {"lexical", "phrases", "words"} for request in plain)

        def answer() -> list[Any]:
            with self._texts_lock if uses_texts else nullcontext():
                with self._lock, without_pause():
                    self._check_open()
                    finish = prepare_all(self._content.prepare, requests)
                answers: list[Any] = finish()
                return answers

        # Here, if that is quick and nobody holds a lock, as waiting would block.
        with ExitStack() as held:
            for lock in (self._texts_lock, self._lock) if uses_texts else (self._lock,):
                if not lock.acquire(blocking=False):
                    break
                held.callback(lock.release)
            else:
                self._check_open()
                answers = answer_quickly(self._content.prepare_if_quick, requests)
                if answers is not None:
                    return answers
        return await in_thread(answer)

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
        puts, vectors = _copy_puts(change.puts)
        with self._texts_lock:
            with self._lock, without_pause():
                self._check_open()
                self._content.replace(puts, vectors, change.removals)
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
            text = settings_json(row)
            self._content.replace([], None, removals)
            self._content.runs[run.name] = run.mark, {None: text}

        await self._write(begin)

    @override
    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        def read() -> RunRows | None:
            rows = self._find_rows(run)
            if rows is None:
                return None
            numbers = sorted(part for part in rows if part is not None and (parts is None or part in parts))
            return RunRows(json.loads(rows[None]), {part: json.loads(rows[part]) for part in numbers})

        return await self._write(read)

    @override
    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        def apply() -> dict[str, Any] | None:
            rows = self._find_rows(run)
            if rows is None or not run.fits(json.loads(self._content.settings)):
                return None
            if part not in rows:
                text = settings_json(row)
                self._content.replace(*_copy_puts(puts), ())
                rows[part] = text
            return dict(json.loads(rows[part]))

        return await self._write(apply)

    @override
    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        def forget() -> None:
            rows = self._find_rows(run)
            if rows is None:
                return
            self._content.replace([], None, removals)
            if parts is None:
                del self._content.runs[run.name]
            for part in parts or ():
                rows.pop(part, None)

        await self._write(forget)

    async def _write(self, work: Callable[[], R]) -> R:
        """Return `work()`, called in a worker thread under both locks."""

        def run() -> R:
            with self._texts_lock, self._lock, without_pause():
                self._check_open()
                return work()

        return await in_thread(run)

    def _find_rows(self, run: IngestRun) -> dict[int | None, str] | None:
        """Return the stored rows of a run; `None` if it was replaced or forgotten."""
        stored = self._content.runs.get(run.name)
        return stored[1] if stored is not None and stored[0] == run.mark else None


def _copy_puts(puts: Sequence[ArtifactChange]) -> tuple[list[ArtifactChange], Floats | None]:
    """Return checked copies of artifacts, and their vectors.

    Raises:
        StoreError: If an artifact cannot be stored.
    """
    vectors, fields, copies = check_changes(puts), map(json.loads, encode_metadata(puts)), []
    for change in puts:
        records = [replace(record, metadata=next(fields)) for record in change.records]
        entry = replace(change.entry, record_ids=tuple(record.id for record in records))
        copies.append(replace(change, entry=entry, records=records))
    return copies, vectors


def _add_values(index: ValueIndex, name: str, records: Iterable[Record]) -> None:
    for record in records:
        value = get_field(record.metadata, name)
        if value is not MISSING:
            index.add(record.artifact_id, value)


def _copy_record(record: Record) -> Record:
    # `replace` takes three times as long.
    kind, index = record.surface_kind, record.surface_index
    return Record(record.id, record.artifact_id, kind, index, record.text, deep_copy(record.metadata))
