"""Reads the whole content of the file of a corpus in one snapshot."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import Floats
from airw.protocols.contents import StoreContent
from airw.stores._indexes.texts import read_language
from airw.stores._link_rows import make_extraction
from airw.stores.sqlite._connection import Connection
from airw.stores.sqlite._filter_sql import keys_json
from airw.stores.sqlite._links import link_columns
from airw.stores.sqlite._records import artifact_ids, ledger, read_settings, records_of
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.values import ArtifactChange, Extraction, Link

if TYPE_CHECKING:
    import sqlite3

_CACHE = 4_096  # KiB of pages; each is read once


@asynccontextmanager
async def hold_content(path: Path) -> AsyncIterator[StoreContent]:
    """Yield the content of a file; its snapshot ends with the block."""
    # A connection of its own, as others could not read newer content meanwhile.
    connection = await Connection.open(path, cache=_CACHE)
    try:
        config, calibrations, language, ids = await connection.run(_begin)

        async def read(ids: Sequence[str]) -> list[ArtifactChange]:
            return await connection.run(_read_artifacts, ids)

        yield StoreContent(config.get("", {}), calibrations, language, ids, read)
    finally:
        await connection.aclose()


def _begin(connection: "sqlite3.Connection"):  # type: ignore[no-untyped-def] # noqa: ANN202
    """Begin the snapshot, and return what is read of it at once."""
    connection.execute("BEGIN")
    settings = (read_settings(connection, kind) for kind in ("config", "calibration"))
    return *settings, read_language(connection), artifact_ids(connection)


def _read_artifacts(connection: "sqlite3.Connection", ids: Sequence[str]) -> list[ArtifactChange]:
    """Return artifacts as they were written."""
    vectors, extractions = _read_vectors(connection, ids), _read_extractions(connection, ids)
    none = np.empty((0, 0), np.float32)
    return [
        ArtifactChange(entry, records, vectors.get(id, none), extractions[id])
        for id, entry, records in zip(
            ids, ledger(connection, ids), records_of(connection, ids, None, None), strict=True
        )
        if entry is not None and records is not None
    ]


def _read_vectors(connection: "sqlite3.Connection", ids: Sequence[str]) -> dict[str, Floats]:
    """Return the vectors of each artifact, in the order of its records."""
    rows = connection.execute(
        """SELECT requested.value, data, sum FROM json_each(?) AS requested
        CROSS JOIN record ON record.artifact_id = requested.value
        JOIN vector ON vector.rowid = record.rowid ORDER BY requested.key, record.rowid""",
        [keys_json(ids)],
    )
    return {
        id: decode_vectors(*zip(*((data, total) for _, data, total in group), strict=True))
        for id, group in groupby(rows, itemgetter(0))
    }


def _read_extractions(connection: "sqlite3.Connection", ids: Sequence[str]) -> dict[str, Extraction]:
    """Return the links and names of each artifact."""
    links: dict[str, list[Link]] = {}
    names: dict[str, list[tuple[str, int]]] = {}
    for id, *link in connection.execute(
        f"""SELECT artifact_id, {link_columns(connection)} FROM link
        WHERE artifact_id IN (SELECT value FROM json_each(?)) ORDER BY artifact_id, position""",
        [keys_json(ids)],
    ):
        links.setdefault(id, []).append(Link(*link))
    for id, key, tier in connection.execute(
        "SELECT artifact_id, key, tier FROM name WHERE artifact_id IN (SELECT value FROM json_each(?))",
        [keys_json(ids)],
    ):
        names.setdefault(id, []).append((key, tier))
    return {id: make_extraction(id, links.get(id, []), names.get(id, [])) for id in ids}
