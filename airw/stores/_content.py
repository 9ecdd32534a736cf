"""Everything a `MemoryStore` holds: dicts, one matrix, one in-memory text index; synchronous."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_count
from airw._base.json import json_clean
from airw.errors import StoreError
from airw.protocols import Run, RunRows
from airw.stores._columns import RecordColumns
from airw.stores._fields import FieldIndex, look_up
from airw.stores._fts import TEXT_TABLES, insert_records, one_of, prepare_texts
from airw.stores._linkbook import LinkBook, LinkChoice
from airw.stores._matrix import DenseIndex
from airw.stores._postings import Postings
from airw.stores._recent import recall
from airw.stores._runbook import RunBook
from airw.values import ArtifactChange, Direction, Edge, LedgerEntry, LinkCount, NodeId, Ranking, Record, UnresolvedLink
from airw.values.filters import MISSING, Filter, get_field

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Content"]


class Content:
    """Everything stored, without locks and without waiting; what goes in and out is copied."""

    def __init__(self) -> None:
        self.index = DenseIndex()
        self._ledger: dict[str, LedgerEntry] = {}
        self._records: dict[str, Record] = {}
        self._numbers: dict[str, int] = {}  # of each record, as the texts are numbered; never used again
        self._links = LinkBook()
        self._settings = "{}"
        self._calibration: dict[str, str] = {}
        self._runs = RunBook()
        self._fields: dict[str, FieldIndex] = {}
        self._columns = RecordColumns()
        self._texts: sqlite3.Connection | None = None
        self._postings = Postings()

    def close(self) -> None:
        """Let go of the text index."""
        if self._texts is not None:
            self._texts.close()

    def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Give the record of each id."""
        return [_copied(self._records[each]) if each in self._records else None for each in ids]

    def records_of(
        self, artifact_ids: Sequence[str], kinds: Sequence[str] | None, limit: int | None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts."""
        return [self._of(each, kinds, limit) if each in self._ledger else None for each in artifact_ids]

    def _of(self, artifact_id: str, kinds: Sequence[str] | None, limit: int | None) -> list[Record]:
        records = map(self._records.__getitem__, self._ledger[artifact_id].record_ids)
        chosen = (record for record in records if kinds is None or record.surface_kind in kinds)
        return list(map(_copied, islice(chosen, limit)))

    def entries(self, ids: Sequence[str] | None) -> list[LedgerEntry | None]:
        """Give the ledger entry of each artifact; of all, ordered by id, when no ids are given."""
        return [self._ledger.get(each) for each in (sorted(self._ledger) if ids is None else ids)]

    def counts(self) -> dict[str, int]:
        """Count artifacts, records, and links by what they mean."""
        return {"artifacts": len(self._ledger), "records": len(self._records), **self._links.counts()}

    def calibration_of(self, key: str | None) -> dict[str, Any]:
        """Give the calibration stored under a key, or all of them by key."""
        if key is None:
            return {each: json.loads(value) for each, value in self._calibration.items()}
        return dict(json.loads(self._calibration.get(key, "{}")))

    def matching(self, wanted: Sequence[tuple[str, Any]], limit: int | None) -> list[list[str]]:
        """Give for each field and value the artifacts that hold it."""
        return look_up(lambda field: recall(self._fields, field, self._index_of), wanted, limit)

    def artifact_ids(self) -> list[str]:
        """Give the ids of all artifacts, sorted."""
        return sorted(self._ledger)

    def settings(self) -> dict[str, Any]:
        """Give the settings."""
        return dict(json.loads(self._settings))

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Replace the settings."""
        self._settings = _to_json(settings)

    def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace the calibration stored under a key."""
        self._calibration[key] = _to_json(value)

    def search_vectors(
        self, queries: Floats, k: int, *, filter: Filter | None, surfaces: Sequence[str] | None, per_artifact: bool
    ) -> list[Ranking]:
        """Rank records, or artifacts, by cosine for each query."""
        allowed = self._allowed(filter)
        return self.index.search(queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> list[Ranking]:
        """Rank records, or artifacts, by BM25 for each query."""
        texts, allowed = self._open_texts(), self._allowed(filter)
        return self._postings.rank(texts, queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    def neighbors(
        self, ids: Sequence[str], direction: Direction, choice: LinkChoice, limit: int | None
    ) -> list[list[Edge]]:
        """Give the edges of each artifact."""
        return [self._links.neighbors(each, direction, choice)[:limit] for each in ids]

    def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Give the artifacts that each reference may mean."""
        return [list(self._links.resolve(each)) for each in refs]

    def referrers(self, nodes: Sequence[NodeId], types: Sequence[str] | None) -> list[list[str]]:
        """Give the artifacts that link to each node."""
        return [sorted(self._links.referrers(each, LinkChoice(types))) for each in nodes]

    def fan_in(self, nodes: Sequence[NodeId], types: Sequence[str] | None) -> list[int]:
        """Count the artifacts that link to each node."""
        return [len(self._links.referrers(each, LinkChoice(types))) for each in nodes]

    def max_fan_in(self, types: Sequence[str] | None) -> int:
        """Count the referrers of the node that has most."""
        return self._links.max_fan_in(LinkChoice(None if types is None else tuple(types)))

    def unresolved(self, artifact_ids: Sequence[str] | None, limit: int | None) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous."""
        most = None if limit is None else check_count("limit", limit)
        return list(islice(self._links.unresolved(artifact_ids), most))

    def link_counts(self) -> list[LinkCount]:
        """Count the links by type, origin and state."""
        return self._links.link_counts()

    def few_links(self, ids: Sequence[str], direction: Direction, most: int) -> bool:
        """Say, without looking at them, whether the artifacts have at most so many links."""
        return len(ids) <= most and sum(self._links.degree(each, direction) for each in ids) <= most

    def few_rows(self, artifact_ids: Sequence[str], most: int) -> bool:
        """Say, without looking at them, whether the artifacts have at most so many vectors."""
        return len(artifact_ids) <= most and sum(map(self.index.count_of, artifact_ids)) <= most

    def few_holders(self, wanted: Sequence[tuple[str, Any]], most: int) -> bool:
        """Say, without looking at them, whether at most so many artifacts match; no, where nobody knows yet."""
        known = len(wanted) <= most and all(field in self._fields for field, _ in wanted)
        return known and sum(self._fields[field].count(value) for field, value in wanted) <= most

    def apply(self, puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
        """Put and remove whole artifacts, all or nothing: what can fail comes first."""
        puts = [_checked(change) for change in puts]
        leaving = {*removals, *(change.entry.artifact_id for change in puts)} & self._ledger.keys()
        self._check_together(puts, leaving)
        numbers = count(self._write_texts(puts, leaving))
        for artifact_id in leaving:
            self._remove(artifact_id)
        for change in puts:
            self._put(change, numbers)

    def begin_run(self, run: Run, row: Mapping[str, Any], removals: Sequence[str]) -> None:
        """Keep a row for a run, and remove artifacts."""
        text = _to_json(row)
        self.apply([], removals)
        self._runs.begin(run, text)

    def read_run(self, run: Run, parts: Sequence[int] | None) -> RunRows | None:
        """Give the row of a run and those of its parts; `None` where it was replaced."""
        return self._runs.read(run, parts) if self._runs.holds(run) else None

    def apply_part(
        self, run: Run, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        """Put artifacts and a row for the part, unless there is one; `None` where the run can no longer be written."""
        if not self._runs.holds(run) or not run.fits(self.settings()):
            return None
        if not self._runs.read(run, [part]).parts:
            text = _to_json(row)
            self.apply(puts, [])
            self._runs.keep(run, part, text)
        return self._runs.read(run, [part]).parts[part]

    def forget_run(self, run: Run, parts: Sequence[int] | None, removals: Sequence[str]) -> None:
        """Forget parts of a run, or all of it, and remove artifacts; nothing, where the run was replaced."""
        if self._runs.holds(run):
            self.apply([], removals)
            self._runs.forget(run, parts)

    def _index_of(self, field: str) -> FieldIndex:
        index = FieldIndex()
        for record in self._records.values():
            _add_value(index, field, record)
        return index

    def _allowed(self, filter: Filter | None) -> NDArray[np.int64] | None:
        """Give the numbers of the records that the filter lets through; `None` for all."""
        return None if filter is None else self._columns.allowed(self._records, self._numbers, filter)

    def _check_together(self, puts: Sequence[ArtifactChange], leaving: Collection[str]) -> None:
        """Refuse what would fail half-way."""
        names = Counter(change.entry.artifact_id for change in puts)
        if twice := [name for name, count in names.items() if count > 1]:
            raise StoreError(f"{twice[0]!r} is put {names[twice[0]]} times in one call; put it once")
        rows = sum(len(self._ledger[each].record_ids) for each in leaving)
        width = self.index.dim if rows < len(self.index) else None
        for change in puts:
            if change.records:
                width = width or change.vectors.shape[1]
                if change.vectors.shape[1] != width:
                    raise StoreError(
                        f"the vectors of {change.entry.artifact_id!r} are {change.vectors.shape[1]} wide, "
                        f"those of the corpus {width}; use the embedder it was built with"
                    )

    def _write_texts(self, puts: Sequence[ArtifactChange], leaving: Iterable[str]) -> int:
        """Replace texts; give the number of the first one put, which the next ones follow."""
        with _transaction(self._open_texts()) as texts:
            condition, values = one_of("artifact_id", list(leaving))
            texts.execute(f"DELETE FROM record WHERE {condition}", values)
            return insert_records(
                texts,
                [
                    (each.id, each.artifact_id, each.surface_kind, each.surface_index, "", each.text)
                    for change in puts
                    for each in change.records
                ],
            )

    def _open_texts(self) -> "sqlite3.Connection":
        """Give the database that ranks texts, made when it is first needed."""
        if self._texts is None:
            import sqlite3

            self._texts = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            prepare_texts(self._texts)
            for statement in TEXT_TABLES:
                self._texts.execute(statement)
        return self._texts

    def _remove(self, artifact_id: str) -> None:
        entry = self._ledger.pop(artifact_id)
        for record_id in entry.record_ids:
            del self._records[record_id]
        self._columns.drop(self._numbers.pop(each) for each in entry.record_ids)
        for index in self._fields.values():
            index.discard(artifact_id)
        self.index.drop(entry.record_ids)
        self._links.remove(artifact_id)

    def _put(self, change: ArtifactChange, numbers: Iterator[int]) -> None:
        records = change.records
        self._ledger[change.entry.artifact_id] = change.entry
        for record in records:
            self._records[record.id] = record
            self._numbers[record.id] = next(numbers)
            for field, index in self._fields.items():
                _add_value(index, field, record)
        if records:
            self.index.put(
                change.entry.record_ids,
                [self._numbers[each] for each in change.entry.record_ids],
                [record.artifact_id for record in records],
                [record.surface_kind for record in records],
                [record.surface_index for record in records],
                vectors=change.vectors,
            )
        self._links.put(change.entry.artifact_id, change.extraction)


def _add_value(index: FieldIndex, field: str, record: Record) -> None:
    value = get_field(record.metadata, field)
    if value is not MISSING:
        index.add(record.artifact_id, value)


def _copied(record: Record) -> Record:
    return replace(record, metadata=json_clean(record.metadata))


def _checked(change: ArtifactChange) -> ArtifactChange:
    """Give a copy of one artifact's content that nobody else holds.

    Raises:
        StoreError: It cannot be stored.
    """
    name, count = change.entry.artifact_id, len(change.records)
    vectors = np.asarray(change.vectors, np.float32)
    if count and (vectors.ndim != 2 or vectors.shape[0] != count):
        raise StoreError(f"{name!r} has {count} records and needs vectors of shape ({count}, dim), not {vectors.shape}")
    if strangers := [each.artifact_id for each in change.records if each.artifact_id != name]:
        raise StoreError(f"a record of {strangers[0]!r} is put as one of {name!r}")
    if not np.isfinite(vectors).all():
        raise StoreError(f"a vector of {name!r} holds NaN or infinity; nothing was stored")
    records = [_copied(record) for record in change.records]
    entry = replace(change.entry, record_ids=tuple(record.id for record in records))
    checked = replace(change, entry=entry, records=records, vectors=vectors)
    _check_texts(checked)
    return checked


def _check_texts(change: ArtifactChange) -> None:
    """Refuse what UTF-8 has no bytes for, and NUL where SQLite would read it as the end of an id or a name."""
    entry = change.entry
    keys = [entry.artifact_id, entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source]
    texts = []
    for record in change.records:
        keys += [record.id, record.surface_kind]
        texts += [record.text, json.dumps(record.metadata, ensure_ascii=False)]
    for link in change.extraction.links:
        keys += [link.target_ref, link.type, link.origin, link.target_source or "", link.file or "", link.or_ref or ""]
    for names in change.extraction.names:
        keys += names
    try:
        "".join(keys + texts).encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{entry.artifact_id!r} holds a lone surrogate and cannot be stored; take it out") from error
    if "\0" in "".join(keys):
        raise StoreError(f"an id or name of {entry.artifact_id!r} holds a NUL character; take it out")


def _to_json(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"settings must be JSON: {error}") from error


@contextmanager
def _transaction(connection: "sqlite3.Connection") -> "Iterator[sqlite3.Connection]":
    import sqlite3

    connection.execute("BEGIN")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException as error:
        connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise StoreError(f"the texts cannot be stored: {error}") from error
        raise
