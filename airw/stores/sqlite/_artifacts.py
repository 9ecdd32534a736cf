"""Whole artifacts in the file of a corpus, as they were written."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import Floats
from airw.stores._link_rows import make_extraction
from airw.stores.sqlite._field_sql import keys_json
from airw.stores.sqlite._links import link_columns
from airw.stores.sqlite._records import decode_vectors, ledger, records_of
from airw.values import ArtifactChange, Extraction, Link

if TYPE_CHECKING:
    import sqlite3


def read_artifacts(connection: "sqlite3.Connection", ids: Sequence[str]) -> list[ArtifactChange | None]:
    """Return artifacts as they were written, or `None`."""
    vectors, extractions = _read_vectors(connection, ids), _read_extractions(connection, ids)
    none = np.empty((0, 0), np.float32)
    found = zip(ids, ledger(connection, ids), records_of(connection, ids, None, None), strict=True)
    return [
        None if entry is None else ArtifactChange(entry, records or [], vectors.get(id, none), extractions[id])
        for id, entry, records in found
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
