"""Writing a corpus's file: whole artifacts, one transaction a call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airw._base.arrays import Floats
from airw.stores._changes import check_changes, check_record, check_width, settings_json
from airw.stores._indexes.texts import insert_records
from airw.stores.sqlite import _segments
from airw.stores.sqlite._conditions import keys_json
from airw.stores.sqlite._links import replace_links
from airw.stores.sqlite._schema import transaction
from airw.stores.sqlite._vector_codec import encode_vectors
from airw.values import ArtifactChange, Extraction

if TYPE_CHECKING:
    import sqlite3

_TOMBSTONES = 100_000  # a matrix further behind than this is read again as a whole


@dataclass(slots=True)
class Rows:
    """Checked content, ready to be stored."""

    puts: Sequence[ArtifactChange]
    vectors: Floats | None
    artifacts: list[tuple[str, ...]] = field(default_factory=list)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    extractions: dict[str, Extraction] = field(default_factory=dict)


def apply_changes(connection: "sqlite3.Connection", puts: Sequence[ArtifactChange], removals: Sequence[str]) -> None:
    """Put and remove whole artifacts in one transaction.

    Raises:
        StoreError: Something cannot be stored; nothing is then.
    """
    rows = prepare_rows(puts)
    with transaction(connection, "IMMEDIATE"):
        write(connection, rows, removals)


def write(connection: "sqlite3.Connection", rows: Rows, removals: Sequence[str]) -> None:
    """Put and remove whole artifacts in the transaction that has begun.

    Raises:
        StoreError: They do not fit what is stored.
    """
    removed = [*dict.fromkeys([*removals, *rows.extractions])]
    _remove(connection, keys_json(removed))
    stored = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if stored and rows.vectors is not None:
        check_width(rows.puts, rows.vectors, stored[0])
    connection.executemany("INSERT INTO artifact VALUES (?, ?, ?, ?, ?, ?)", rows.artifacts)
    first = insert_records(connection, rows.records)
    if rows.vectors is not None:
        encoded = ((rowid, *each) for rowid, each in enumerate(encode_vectors(rows.vectors), first))
        connection.executemany("INSERT INTO vector (rowid, data, sum) VALUES (?, ?, ?)", encoded)
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
        f"""INSERT INTO bucket SELECT rowid >> {_segments.BUCKET_BITS}, {sign} * count(*) FROM record
        WHERE {which} GROUP BY 1 ON CONFLICT (number) DO UPDATE SET live = live + excluded.live""",
        [parameter],
    )


def prepare_rows(puts: Sequence[ArtifactChange]) -> Rows:
    """Return what is to be stored of some artifacts.

    Raises:
        StoreError: Something cannot be stored.
    """
    rows = Rows(puts, check_changes(puts))
    for change in puts:
        entry = change.entry
        rows.artifacts.append(
            (entry.artifact_id, entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source)
        )
        for each in change.records:
            metadata = check_record(each, entry.artifact_id)
            rows.records.append((each.id, each.artifact_id, each.surface_kind, each.surface_index, metadata, each.text))
        rows.extractions[entry.artifact_id] = change.extraction
    return rows


def set_setting(connection: "sqlite3.Connection", kind: str, key: str, value: Mapping[str, Any]) -> None:
    """Replace a JSON value.

    Raises:
        StoreError: It is not JSON.
    """
    connection.execute(
        "INSERT OR REPLACE INTO setting (kind, key, value) VALUES (?, ?, ?)", [kind, key, settings_json(value)]
    )
