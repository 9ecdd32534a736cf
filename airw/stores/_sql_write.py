"""Writing a corpus's file: whole artifacts, one transaction a call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats
from airw.errors import StoreError
from airw.stores._fts import insert_records
from airw.stores._packing import packed
from airw.stores._schema import transaction
from airw.stores._segments import BUCKET_BITS
from airw.stores._sql_filter import metadata_json
from airw.stores._sql_links import keys_json, replace_links
from airw.values import ArtifactChange, Extraction, Record

if TYPE_CHECKING:
    import sqlite3

_TOMBSTONES = 100_000  # a matrix further behind than this is read again as a whole


@dataclass(slots=True)
class Rows:
    """Checked content, ready to be stored."""

    artifacts: list[tuple[str, ...]] = field(default_factory=list)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    vectors: Floats | None = None
    extractions: dict[str, Extraction] = field(default_factory=dict)


def apply_changes(connection: "sqlite3.Connection", puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
    """Put and remove whole artifacts in one transaction.

    Raises:
        StoreError: Something cannot be stored; nothing is then.
    """
    rows = checked(puts)
    with transaction(connection, "IMMEDIATE"):
        write(connection, rows, removals)


def write(connection: "sqlite3.Connection", rows: "Rows", removals: Sequence[str]) -> None:
    """Put and remove whole artifacts in the transaction that has begun.

    Raises:
        StoreError: They do not fit what is stored.
    """
    import sqlite3

    removed = [*dict.fromkeys([*removals, *rows.extractions])]
    _remove(connection, keys_json(removed))
    _check_width(connection, rows)
    connection.executemany("INSERT INTO artifact VALUES (?, ?, ?, ?, ?, ?)", rows.artifacts)
    try:
        first = insert_records(connection, rows.records)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise StoreError("two records of different artifacts have one id; make ids with Record.make_id") from error
    if rows.vectors is not None:
        stored = ((rowid, *each) for rowid, each in enumerate(packed(rows.vectors), first))
        connection.executemany("INSERT INTO vector (rowid, data, sum) VALUES (?, ?, ?)", stored)
    _count_rows(connection, 1, "rowid >= ?", first)
    replace_links(connection, rows.extractions, removed)


def _remove(connection: "sqlite3.Connection", artifact_ids: str) -> None:
    theirs = "artifact_id IN (SELECT value FROM json_each(?))"
    _count_rows(connection, -1, theirs, artifact_ids)
    connection.execute(f"INSERT INTO gone (record_id) SELECT id FROM record WHERE {theirs}", [artifact_ids])
    connection.execute("DELETE FROM gone WHERE seq <= (SELECT max(seq) FROM gone) - ?", [_TOMBSTONES])
    connection.execute(f"DELETE FROM vector WHERE rowid IN (SELECT rowid FROM record WHERE {theirs})", [artifact_ids])
    connection.execute(f"DELETE FROM record WHERE {theirs}", [artifact_ids])
    connection.execute("DELETE FROM artifact WHERE id IN (SELECT value FROM json_each(?))", [artifact_ids])


def _count_rows(connection: "sqlite3.Connection", sign: int, which: str, parameter: str | int) -> None:
    connection.execute(
        f"""INSERT INTO bucket SELECT rowid >> {BUCKET_BITS}, {sign} * count(*) FROM record WHERE {which} GROUP BY 1
        ON CONFLICT (number) DO UPDATE SET live = live + excluded.live""",
        [parameter],
    )


def _check_width(connection: "sqlite3.Connection", rows: Rows) -> None:
    """Refuse vectors of another width than those that stay."""
    stored = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if stored and rows.vectors is not None and rows.vectors.shape[1] != stored[0]:
        raise StoreError(
            f"the vectors, such as that of record {rows.records[0][0]!r}, are {rows.vectors.shape[1]} wide, those of "
            f"the corpus {stored[0]}; use the embedder it was built with"
        )


def checked(puts: Sequence[ArtifactChange]) -> Rows:
    """Give what is to be stored of some artifacts.

    Raises:
        StoreError: Something cannot be stored.
    """
    rows = Rows(vectors=_checked_vectors(puts))
    _check_keys(puts)
    for change in puts:
        entry = change.entry
        if entry.artifact_id in rows.extractions:
            raise StoreError(f"{entry.artifact_id!r} is put twice in one call; put it once")
        rows.artifacts.append(
            (entry.artifact_id, entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source)
        )
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
        yield from (link.target_ref, link.or_ref or "", link.type, link.origin)
        yield from (link.target_source or "", link.file or "")
    for names in change.extraction.names:
        yield from names


def _check_keys(puts: Sequence[ArtifactChange]) -> None:
    """Refuse what SQLite could not look up again."""
    together = "".join(text for change in puts for text in _keys_of(change))
    if not _is_key(together):
        for change in puts:
            for text in _keys_of(change):
                _check_key(text, change.entry.artifact_id)


def _is_key(text: str) -> bool:
    try:
        return text.encode() is not None and "\0" not in text
    except UnicodeEncodeError:
        return False


def _check_key(text: str, artifact_id: str) -> None:
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


def _checked_vectors(puts: Sequence[ArtifactChange]) -> Floats | None:
    """Give the vectors of all records as one `(n, dim)` array, little-endian; `None` when there are none."""
    blocks: list[Floats] = []
    for change in puts:
        if change.records:
            blocks.append(_checked_block(change))
            if blocks[-1].shape[1] != blocks[0].shape[1]:
                raise StoreError(
                    f"the vector of record {change.records[0].id!r} is {blocks[-1].shape[1]} wide, others of the call "
                    f"{blocks[0].shape[1]}; use one embedder"
                )
    if not blocks:
        return None
    vectors = np.concatenate(blocks)
    are_finite = np.isfinite(vectors).all(axis=1)
    if not are_finite.all():
        record = [record for change in puts for record in change.records][int(are_finite.argmin())]
        raise StoreError(f"the vector of record {record.id!r} of {record.artifact_id!r} holds NaN or infinity")
    return vectors


def _checked_block(change: ArtifactChange) -> Floats:
    vectors = np.asarray(change.vectors, "<f4")
    if vectors.ndim != 2 or vectors.shape[0] != len(change.records):
        raise StoreError(
            f"{change.entry.artifact_id!r} has {len(change.records)} records and needs vectors of shape "
            f"({len(change.records)}, dim), not {vectors.shape}"
        )
    return vectors


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
