"""Reads what is left in the damaged file of a corpus, artifact by artifact."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from airw.errors import StoreCorrupt
from airw.stores._indexes.texts import read_language
from airw.stores._link_rows import make_extraction
from airw.stores._stored_values import parse_mappings
from airw.stores.sqlite._links import link_columns
from airw.stores.sqlite._records import ledger, records_of
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.values import ArtifactChange, Extraction, Language, LedgerEntry, Link

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")


@dataclass(slots=True)
class Salvage:
    """The readable content of a damaged file.

    Args:
        changes: The artifacts that can be read as a whole.
        lost: The ids of artifacts that are known, but cannot be read.
        settings: The settings that can be read: kind, key and value.
        language: The language of the text index; that of a new file if it cannot be read.
    """

    changes: list[ArtifactChange] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    settings: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    language: Language | None = "en"


def read_whole_artifacts(connection: "sqlite3.Connection") -> Salvage:
    """Read each artifact and each setting that is not damaged."""
    import sqlite3

    salvage = Salvage()
    with suppress(sqlite3.Error):
        salvage.language = read_language(connection)
    for kind, key, text in _read_from_both_ends(connection, "kind, key, value", "setting", "kind, key"):
        with suppress(ValueError):
            # The rows of an unfinished ingest are about the old file, and so is its mark.
            if kind in ("config", "calibration"):
                salvage.settings.append((kind, key, parse_mappings([text])[0]))
    for artifact_id in _list_artifacts(connection):
        change = _attempt(_read_artifact, connection, artifact_id)
        if change is None:
            salvage.lost.append(artifact_id)
        else:
            salvage.changes.append(change)
    return salvage


def _list_artifacts(connection: "sqlite3.Connection") -> list[str]:
    """Return the ids of all artifacts that any table knows."""
    ids = {id for (id,) in _read_from_both_ends(connection, "id", "artifact", "id")}
    ids |= {id for (id,) in _read_from_both_ends(connection, "artifact_id", "record", "rowid")}
    return sorted(id for id in ids if isinstance(id, str) and id)


def _read_from_both_ends(
    connection: "sqlite3.Connection", columns: str, table: str, order: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows before the first damaged page of a table, then those after the last one."""
    import sqlite3

    for direction in ("ASC", "DESC"):
        keys = ", ".join(f"{key} {direction}" for key in order.split(", "))
        try:
            yield from connection.execute(f"SELECT {columns} FROM {table} ORDER BY {keys}")
        except sqlite3.Error:
            continue
        return


def _attempt(read: Callable[..., R], *args: Any) -> R | None:
    """Return the result of `read`, or `None` if it meets damage."""
    import sqlite3

    with suppress(sqlite3.Error, StoreCorrupt, ValueError, TypeError):
        return read(*args)
    return None


def _read_artifact(connection: "sqlite3.Connection", artifact_id: str) -> ArtifactChange | None:
    [entry], [records] = ledger(connection, [artifact_id]), records_of(connection, [artifact_id], None, None)
    if entry is None or records is None or [record.id for record in records] != list(entry.record_ids):
        return None
    vectors = np.empty((0, 0), np.float32)
    if records:
        rows = connection.execute(
            "SELECT data, sum FROM record JOIN vector USING (rowid) WHERE artifact_id = ? ORDER BY record.rowid",
            [artifact_id],
        ).fetchall()
        vectors = decode_vectors(*zip(*rows, strict=True)) if rows else vectors
    if len(vectors) != len(records) or not all(map(_is_valid, records)):
        return None
    return ArtifactChange(entry, records, vectors, _read_extraction(connection, artifact_id))


def _is_valid(record: Any) -> bool:
    texts = (record.id, record.artifact_id, record.surface_kind, record.text)
    return all(isinstance(text, str) for text in texts) and isinstance(record.surface_index, int)


def _read_extraction(connection: "sqlite3.Connection", artifact_id: str) -> Extraction:
    links = connection.execute(
        f"SELECT {link_columns(connection)} FROM link WHERE artifact_id = ? ORDER BY position",
        [artifact_id],
    )
    names = connection.execute("SELECT key, tier FROM name WHERE artifact_id = ?", [artifact_id])
    return make_extraction(artifact_id, [Link(*row) for row in links], names)


def forget_version(change: ArtifactChange) -> ArtifactChange:
    """Return the change with an unknown version.

    So the next build indexes the artifact again.
    """
    entry = change.entry
    unknown = LedgerEntry(
        entry.artifact_id, "", entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source, entry.record_ids
    )
    return ArtifactChange(unknown, change.records, change.vectors, change.extraction)
