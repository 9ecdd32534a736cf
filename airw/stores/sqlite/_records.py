"""Reading a corpus's file: records, the ledger, settings; functions of one connection."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from airw.stores.sqlite._conditions import keys_json, set_json
from airw.values import LedgerEntry, Record

if TYPE_CHECKING:
    import sqlite3

_RECORD = "record.rowid, record.id, record.artifact_id, record.kind, record.idx, record.text, record.metadata"
_PLACE = itemgetter(0, 1)
_ENTRY = "artifact.id, version, embedder_id, strategy_id, extractor_id, source, record.id"


def get_records(connection: "sqlite3.Connection", ids: Sequence[str]) -> list[Record | None]:
    """Return the record of each id."""
    found: list[Record | None] = [None] * len(ids)
    rows = connection.execute(
        f"SELECT asked.key, {_RECORD} FROM json_each(?) AS asked CROSS JOIN record ON record.id = asked.value",
        [keys_json(ids)],
    ).fetchall()
    for (position, *_), record in zip(rows, _records(rows), strict=True):
        found[position] = record
    return found


def records_of(
    connection: "sqlite3.Connection", artifact_ids: Sequence[str], kinds: Sequence[str] | None, limit: int | None
) -> list[list[Record] | None]:
    """Return the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts."""
    bound: dict[str, Any] = {"ids": keys_json(artifact_ids), "limit": limit}
    which = "record.artifact_id = asked.value"
    if kinds is not None:
        bound["kinds"] = set_json(kinds)
        which += " AND kind IN (SELECT value FROM json_each(:kinds))"
    if limit is not None:
        which = f"record.rowid IN (SELECT rowid FROM record WHERE {which} ORDER BY rowid LIMIT :limit)"
    found: list[list[Record] | None] = [None] * len(artifact_ids)
    rows = connection.execute(
        f"SELECT asked.key, {_RECORD} FROM json_each(:ids) AS asked CROSS JOIN record ON {which}", bound
    ).fetchall()
    rows.sort(key=_PLACE)  # where they are in order already, that costs less than to have SQLite do it
    for position, group in groupby(zip(rows, _records(rows), strict=True), lambda each: each[0][0]):
        found[position] = [record for _, record in group]
    for position in _known(connection, artifact_ids, [at for at, records in enumerate(found) if records is None]):
        found[position] = []
    return found


def _known(connection: "sqlite3.Connection", artifact_ids: Sequence[str], places: Sequence[int]) -> list[int]:
    """Return those of some places at which there is the id of an artifact."""
    if not places:
        return []
    rows = connection.execute(
        "SELECT asked.key FROM json_each(?) AS asked CROSS JOIN artifact ON artifact.id = asked.value",
        [keys_json(artifact_ids[at] for at in places)],
    )
    return [places[at] for (at,) in rows]


def _records(rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    """Return the records in rows that begin with a place and a rowid; reading all metadata at once takes less time."""
    metadata = json.loads(f"[{','.join([row[-1] for row in rows])}]")
    if len(metadata) != len(rows):  # one is damaged, and says so when it is read alone
        metadata = [json.loads(row[-1]) for row in rows]
    return [
        Record(record_id, artifact_id, kind, index, text, fields)
        for (_, _, record_id, artifact_id, kind, index, text, _), fields in zip(rows, metadata, strict=True)
    ]


def ledger(connection: "sqlite3.Connection", ids: Sequence[str] | None) -> list[LedgerEntry | None]:
    """Return the ledger entry of each artifact; of all, ordered by id, when no ids are given."""
    if ids is None:
        rows = connection.execute(
            f"""SELECT 0, {_ENTRY} FROM artifact LEFT JOIN record ON record.artifact_id = artifact.id
            ORDER BY artifact.id, record.rowid"""
        )
        return [entry for _, entry in _entries(rows)]
    found: list[LedgerEntry | None] = [None] * len(ids)
    rows = connection.execute(
        f"""SELECT asked.key, {_ENTRY} FROM json_each(?) AS asked JOIN artifact ON artifact.id = asked.value
        LEFT JOIN record ON record.artifact_id = artifact.id ORDER BY asked.key, record.rowid""",
        [keys_json(ids)],
    )
    for position, entry in _entries(rows):
        found[position] = entry
    return found


def _entries(lines: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, LedgerEntry]]:
    """Gather consecutive rows, one a record, into one entry an artifact."""
    for (position, _), group in groupby(lines, itemgetter(0, 1)):
        rows = list(group)
        _, artifact_id, version, embedder_id, strategy_id, extractor_id, source, _ = rows[0]
        record_ids = tuple(row[-1] for row in rows if row[-1] is not None)
        yield (
            position,
            LedgerEntry(artifact_id, version, embedder_id, strategy_id, extractor_id, source, record_ids),
        )


def find_changed(connection: "sqlite3.Connection", versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
    """Return the artifacts whose ledger entry is not of this version or not like `stamp` in all but the records."""
    asked = {name: None if "\0" in version else version for name, version in versions.items()}
    # One row for all, and none for what is as it was: that is most, whenever a corpus is built again.
    (found,) = connection.execute(
        """SELECT json_group_array(asked.key) FROM json_each(?) AS asked LEFT JOIN artifact ON artifact.id = asked.key
        WHERE version IS NOT asked.value OR (embedder_id, strategy_id, extractor_id, source) IS NOT (?, ?, ?, ?)""",
        [json.dumps(asked), stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source],
    ).fetchone()
    return list(json.loads(found))


def artifact_ids(connection: "sqlite3.Connection") -> list[str]:
    """Return the ids of all artifacts, sorted."""
    return [artifact_id for (artifact_id,) in connection.execute("SELECT id FROM artifact ORDER BY id")]


def settings(connection: "sqlite3.Connection", kind: str) -> dict[str, Any]:
    """Return everything set of one kind, by key."""
    rows = connection.execute("SELECT key, value FROM setting WHERE kind = ? ORDER BY key", [kind])
    return {key: json.loads(value) for key, value in rows}


def counts(connection: "sqlite3.Connection") -> dict[str, int]:
    """Count artifacts, records, and links by state."""
    artifacts, records = connection.execute(
        "SELECT (SELECT count(*) FROM artifact), (SELECT coalesce(sum(live), 0) FROM bucket)"
    ).fetchone()
    links = dict(connection.execute("SELECT state, count(*) FROM link GROUP BY state"))
    states = {state: links.get(state, 0) for state in ("resolved", "dangling", "ambiguous", "foreign")}
    return {"artifacts": artifacts, "records": records, **states}
