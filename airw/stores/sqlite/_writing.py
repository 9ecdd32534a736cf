"""Functions that write artifacts and settings to the file of a corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airw._base.arrays import Floats
from airw.protocols import Change
from airw.stores._changes import check_changes, check_width, encode_metadata, settings_json
from airw.stores._indexes.texts import change_language, delete_records, insert_records
from airw.stores.sqlite._field_sql import keys_json
from airw.stores.sqlite._links import replace_links
from airw.stores.sqlite._records import encode_vectors
from airw.stores.sqlite._schema import write_transaction
from airw.values import ArtifactChange, Extraction, check_language

if TYPE_CHECKING:
    import sqlite3

_BUCKET_BITS = 16  # 65,536 numbers per row of the table `bucket`, which counts the records of each
_MAX_TOMBSTONES = 100_000  # ids of removed records that are kept; an index that has missed more is read again


@dataclass(slots=True, eq=False, repr=False)
class ArtifactRows:
    """The rows of checked artifacts, ready to be inserted."""

    puts: Sequence[ArtifactChange]
    vectors: Floats | None
    artifacts: list[tuple[str, ...]]
    records: list[tuple[Any, ...]]
    extractions: dict[str, Extraction]


def apply_change(connection: "sqlite3.Connection", change: Change) -> None:
    """Write a change in one transaction.

    Raises:
        ArgumentError: If there is no such language.
        StoreError: If an artifact cannot be stored, or a setting is not JSON. Nothing is stored then.
    """
    rows = prepare_rows(change.puts)
    with write_transaction(connection):
        if change.language != "same":
            change_language(connection, check_language(change.language))
        if change.puts or change.removals:
            write_rows(connection, rows, change.removals)
        if change.config is not None:
            set_setting(connection, "config", "", change.config)
        for key, value in change.calibrations.items():
            set_setting(connection, "calibration", key, value)


def write_rows(connection: "sqlite3.Connection", rows: ArtifactRows, removals: Sequence[str]) -> None:
    """Write and remove whole artifacts in the open transaction.

    Raises:
        StoreError: If the vectors are not as wide as the stored ones.
    """
    # Remove first: if all other artifacts go, vectors of any width fit.
    removed = _find_stored(connection, [*removals, *rows.extractions])
    if removed:
        _remove(connection, removed)
    stored = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if stored and rows.vectors is not None:
        check_width(rows.puts, rows.vectors, stored[0])
    connection.executemany("INSERT INTO artifact VALUES (?, ?, ?, ?, ?, ?)", rows.artifacts)
    first = insert_records(connection, rows.records)
    if rows.vectors is not None:
        encoded = ((rowid, *vector) for rowid, vector in enumerate(encode_vectors(rows.vectors), first))
        connection.executemany("INSERT INTO vector (rowid, data, sum) VALUES (?, ?, ?)", encoded)
    _update_buckets(connection, 1, "rowid >= ?", first)
    replace_links(connection, rows.extractions, removed)


def _find_stored(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> list[str]:
    """Return those of the artifacts that are stored, once each: in a first build, none is."""
    # A damaged file may contain records without their artifact.
    rows = connection.execute(
        """SELECT DISTINCT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM artifact WHERE id = value)
        OR EXISTS (SELECT 1 FROM record WHERE artifact_id = value)""",
        [keys_json(artifact_ids)],
    )
    return [artifact_id for (artifact_id,) in rows]


def _remove(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> None:
    condition, ids = "artifact_id IN (SELECT value FROM json_each(?))", keys_json(artifact_ids)
    _update_buckets(connection, -1, condition, ids)
    # Tombstones are for indexes in memory, also those of other processes.
    connection.execute(f"INSERT INTO gone (record_id) SELECT id FROM record WHERE {condition}", [ids])
    connection.execute("DELETE FROM gone WHERE seq <= (SELECT max(seq) FROM gone) - ?", [_MAX_TOMBSTONES])
    rowids = f"SELECT rowid FROM record WHERE {condition}"
    connection.execute(f"DELETE FROM vector WHERE rowid IN ({rowids})", [ids])
    delete_records(connection, artifact_ids)
    connection.execute("DELETE FROM artifact WHERE id IN (SELECT value FROM json_each(?))", [ids])


def _update_buckets(connection: "sqlite3.Connection", sign: int, condition: str, parameter: str | int) -> None:
    """Add the number of matching records, times `sign`, to the row count of their buckets."""
    connection.execute(
        f"""INSERT INTO bucket SELECT rowid >> {_BUCKET_BITS}, {sign} * count(*) FROM record
        WHERE {condition} GROUP BY 1 ON CONFLICT (number) DO UPDATE SET live = live + excluded.live""",
        [parameter],
    )


def prepare_rows(puts: Sequence[ArtifactChange]) -> ArtifactRows:
    """Check changes of artifacts, and return their rows.

    Raises:
        StoreError: If an artifact cannot be stored.
    """
    vectors = check_changes(puts)
    entries = [change.entry for change in puts]
    records = [record for change in puts for record in change.records]
    return ArtifactRows(
        puts,
        vectors,
        [
            (entry.artifact_id, entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source)
            for entry in entries
        ],
        [
            (record.id, record.artifact_id, record.surface_kind, record.surface_index, metadata, record.text)
            for record, metadata in zip(records, encode_metadata(puts), strict=True)
        ],
        {change.entry.artifact_id: change.extraction for change in puts},
    )


def set_setting(connection: "sqlite3.Connection", kind: str, key: str, value: Mapping[str, Any]) -> None:
    """Replace one setting in the open transaction.

    Raises:
        StoreError: If the value is not JSON.
    """
    connection.execute(
        "INSERT OR REPLACE INTO setting (kind, key, value) VALUES (?, ?, ?)", [kind, key, settings_json(value)]
    )
