"""Writing a corpus's file: whole artifacts, one transaction a call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from airw.errors import StoreError
from airw.stores._schema import transaction
from airw.stores._sql_filter import metadata_json
from airw.stores._sql_links import keys_json, replace_links
from airw.values import ArtifactChange, Extraction, Record

if TYPE_CHECKING:
    import sqlite3

_TOMBSTONES = 100_000  # a matrix further behind than this is read again as a whole


@dataclass(slots=True)
class _Rows:
    """Checked content, ready to be stored."""

    artifacts: list[tuple[str, ...]] = field(default_factory=list)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    vectors: list[tuple[bytes, str]] = field(default_factory=list)
    extractions: dict[str, Extraction] = field(default_factory=dict)
    width: int | None = None


def apply_changes(connection: "sqlite3.Connection", puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
    """Put and remove whole artifacts in one transaction.

    Raises:
        StoreError: Something cannot be stored; nothing is then.
    """
    import sqlite3

    rows = _checked(puts)
    removed = [*dict.fromkeys([*removals, *rows.extractions])]
    with transaction(connection, "IMMEDIATE"):
        _remove(connection, keys_json(removed))
        _check_width(connection, rows)
        connection.executemany("INSERT INTO artifact VALUES (?, ?, ?, ?, ?, ?)", rows.artifacts)
        try:
            connection.executemany(
                "INSERT INTO record (id, artifact_id, kind, idx, metadata, text) VALUES (?, ?, ?, ?, ?, ?)",
                rows.records,
            )
        except sqlite3.IntegrityError as error:
            raise StoreError("two records of different artifacts have one id; make ids with Record.make_id") from error
        connection.executemany(
            "INSERT INTO vector (data, rowid) SELECT ?, rowid FROM record WHERE id = ?", rows.vectors
        )
        replace_links(connection, rows.extractions, removed)


def _remove(connection: "sqlite3.Connection", artifact_ids: str) -> None:
    theirs = "artifact_id IN (SELECT value FROM json_each(?))"
    connection.execute(f"INSERT INTO gone (record_id) SELECT id FROM record WHERE {theirs}", [artifact_ids])
    connection.execute("DELETE FROM gone WHERE seq <= (SELECT max(seq) FROM gone) - ?", [_TOMBSTONES])
    connection.execute(f"DELETE FROM vector WHERE rowid IN (SELECT rowid FROM record WHERE {theirs})", [artifact_ids])
    connection.execute(f"DELETE FROM record WHERE {theirs}", [artifact_ids])
    connection.execute("DELETE FROM artifact WHERE id IN (SELECT value FROM json_each(?))", [artifact_ids])


def _check_width(connection: "sqlite3.Connection", rows: _Rows) -> None:
    """Refuse vectors of another width than those that stay."""
    stored = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if stored and rows.width not in (None, stored[0]):
        raise StoreError(
            f"the vectors, such as that of record {rows.records[0][0]!r}, are {rows.width} wide, those of the corpus "
            f"{stored[0]}; use the embedder it was built with"
        )


def _checked(puts: Sequence[ArtifactChange]) -> _Rows:
    rows = _Rows()
    for change in puts:
        entry = change.entry
        if entry.artifact_id in rows.extractions:
            raise StoreError(f"{entry.artifact_id!r} is put twice in one call; put it once")
        for text in _keys_of(change):
            _check_key(text, entry.artifact_id)
        rows.artifacts.append(
            (entry.artifact_id, entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source)
        )
        rows.vectors += _checked_vectors(rows, change)
        rows.records += (_checked_record(record, entry.artifact_id) for record in change.records)
        rows.extractions[entry.artifact_id] = change.extraction
    return rows


def _keys_of(change: ArtifactChange) -> Iterator[str]:
    entry = change.entry
    yield from (
        entry.artifact_id,
        entry.version,
        entry.embedder_id,
        entry.strategy_id,
        entry.extractor_id,
        entry.source,
    )
    for record in change.records:
        yield from (record.id, record.artifact_id, record.surface_kind)
    for link in change.extraction.links:
        yield from (link.target_ref, link.type, link.origin, link.target_source or "", link.file or "")
    for names in change.extraction.names:
        yield from names


def _check_key(text: str, artifact_id: str) -> None:
    """Refuse what SQLite could not look up again."""
    if "\0" in text:
        raise StoreError(f"{text!r} of {artifact_id!r} holds a NUL character and cannot be stored; take it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(
            f"{text!r} of {artifact_id!r} holds a lone surrogate and cannot be stored; take it out"
        ) from error


def _checked_record(record: Record, artifact_id: str) -> tuple[Any, ...]:
    if record.artifact_id != artifact_id:
        raise StoreError(
            f"record {record.id!r} of {record.artifact_id!r} came with {artifact_id!r}; put it with its own"
        )
    try:
        metadata = metadata_json(record.metadata)
        (record.text + metadata).encode()
    except ValueError as error:  # a lone surrogate, or a number too long to write
        raise StoreError(
            f"the text or metadata of record {record.id!r} of {artifact_id!r} cannot be stored: {error}"
        ) from error
    return record.id, artifact_id, record.surface_kind, record.surface_index, metadata, record.text


def _checked_vectors(rows: _Rows, change: ArtifactChange) -> list[tuple[bytes, str]]:
    """Give the vectors of one artifact as bytes with their record ids; every artifact's must be of one width."""
    if not change.records:
        return []
    vectors = np.asarray(change.vectors, "<f4")
    if vectors.ndim != 2 or vectors.shape[0] != len(change.records):
        raise StoreError(
            f"{change.entry.artifact_id!r} has {len(change.records)} records and needs vectors of shape "
            f"({len(change.records)}, dim), not {vectors.shape}"
        )
    for record, is_finite in zip(change.records, np.isfinite(vectors).all(axis=1), strict=True):
        if not is_finite:
            raise StoreError(f"the vector of record {record.id!r} of {record.artifact_id!r} holds NaN or infinity")
    if rows.width not in (None, vectors.shape[1]):
        raise StoreError(
            f"the vector of record {change.records[0].id!r} is {vectors.shape[1]} wide, others of the call "
            f"{rows.width}; use one embedder"
        )
    rows.width = vectors.shape[1]
    return [(row.tobytes(), record.id) for record, row in zip(change.records, vectors, strict=True)]


def set_setting(connection: "sqlite3.Connection", kind: str, key: str, value: Mapping[str, Any]) -> None:
    """Replace a JSON value.

    Raises:
        StoreError: It is not JSON.
    """
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"settings must be JSON: {error}") from error
    connection.execute("INSERT OR REPLACE INTO setting (kind, key, value) VALUES (?, ?, ?)", [kind, key, text])
