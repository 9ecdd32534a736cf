"""Answers about records, artifacts, the ledger and settings, read from a file.

The first functions take a connection and a request, and return the answer.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import find_text_fault
from airw._base.slices import iterate_slices
from airw.errors import StoreCorrupt
from airw.protocols import Artifacts, Columns, Ledger, Records, RecordsOf, Schema, Stale
from airw.stores._link_rows import make_extraction
from airw.stores._stored_values import check_types, parse_mappings
from airw.stores.sqlite._field_sql import compile_field, keys_json
from airw.stores.sqlite._links import read_links
from airw.stores.sqlite._schema import MEND
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.artifacts import make_records

if TYPE_CHECKING:
    import sqlite3

_RECORD = "record.id, record.artifact_id, record.kind, record.idx, record.text, record.metadata"


def records(connection: "sqlite3.Connection", request: Records) -> list[Record | None]:
    """Return the record of each id, or `None`."""
    found: list[Record | None] = [None] * len(request.ids)
    rows = connection.execute(
        f"""SELECT {_RECORD}, requested.key FROM json_each(?) AS requested
        CROSS JOIN record ON record.id = requested.value""",
        [keys_json(request.ids)],
    )
    for part in iterate_slices(rows):
        for row, record in zip(part, _make_records(part), strict=True):
            found[row[-1]] = record
    return found


def records_of(connection: "sqlite3.Connection", request: RecordsOf) -> list[list[Record] | None]:
    """Return the records of each artifact in plan order; `None` for an unknown artifact."""
    ids = [*map(str, request.artifact_ids)]  # pairs, too, which name artifacts of other corpora
    # In the order of their ids, artifacts often stand together in the file: fewer pages are read.
    order = sorted(range(len(ids)), key=ids.__getitem__)
    rows = connection.execute(
        f"""SELECT {_RECORD}, requested.key, coalesce(record.id, (SELECT id FROM artifact WHERE id = requested.value))
        FROM json_each(:ids) AS requested LEFT JOIN record ON record.rowid IN (
            SELECT rowid FROM record WHERE artifact_id = requested.value
            AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds))) ORDER BY rowid LIMIT :limit
        ) ORDER BY requested.key, record.rowid""",
        {
            "ids": keys_json(request.artifact_ids[place] for place in order),
            "kinds": None if request.kinds is None else keys_json(request.kinds),
            "limit": -1 if request.limit is None else request.limit,
        },
    )
    found: dict[int, list[Record]] = {}
    for part in iterate_slices(rows):
        for *_, place, known_id in part:
            if known_id is not None:
                found.setdefault(order[place], [])
        with_record = [row for row in part if row[0] is not None]
        for row, record in zip(with_record, _make_records(with_record), strict=True):
            found[order[row[-2]]].append(record)
    return [*map(found.get, range(len(ids)))]


def _make_records(rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    """Return the records of rows that begin with the columns `_RECORD`."""
    if not rows:
        return []
    *columns, metadata = [*zip(*rows, strict=True)][:6]
    check_types(columns, [str, str, str, int, str])
    return make_records(len(rows), [*columns, parse_mappings(metadata)])


def ledger(connection: "sqlite3.Connection", request: Ledger) -> list[LedgerEntry | None]:
    """Return the ledger entry of each artifact; without ids, all entries, ordered by id."""
    ids: Any = artifact_ids(connection) if request.ids is None else request.ids
    entries: list[LedgerEntry | None] = [None] * len(ids)
    rows = connection.execute(
        """SELECT requested.key, artifact.id, version, embedder_id, strategy_id, extractor_id, source, record.id
        FROM json_each(?) AS requested JOIN artifact ON artifact.id = requested.value
        LEFT JOIN record ON record.artifact_id = artifact.id ORDER BY requested.key, record.rowid""",
        [keys_json(ids)],
    )
    for place, group in groupby(chain.from_iterable(iterate_slices(rows)), itemgetter(0)):
        of_artifact = [*group]
        values = [*of_artifact[0][1:-1], tuple(row[-1] for row in of_artifact if row[-1] is not None)]
        entries[place] = LedgerEntry(*values)
    return entries


def artifacts(connection: "sqlite3.Connection", request: Artifacts) -> list[ArtifactChange | None]:
    """Return artifacts as they were written, or `None`."""
    ids = request.ids
    rows = connection.execute(
        """SELECT requested.value, data, sum FROM json_each(?) AS requested
        CROSS JOIN record ON record.artifact_id = requested.value
        JOIN vector ON vector.rowid = record.rowid ORDER BY requested.key, record.rowid""",
        [keys_json(ids)],
    )
    vectors = {
        id: decode_vectors(*zip(*((data, total) for _, data, total in group), strict=True))
        for id, group in groupby(rows, itemgetter(0))
    }
    links, names = read_links(connection, ids)
    none = np.empty((0, 0), np.float32)
    found = zip(ids, ledger(connection, Ledger(ids)), records_of(connection, RecordsOf(ids)), strict=True)
    return [
        None
        if entry is None
        else ArtifactChange(entry, records or [], vectors.get(id, none), make_extraction(id, links[id], names[id]))
        for id, entry, records in found
    ]


def artifact_ids(connection: "sqlite3.Connection", _: object = None) -> list[str]:
    """Return the ids of all artifacts, sorted."""
    return [artifact_id for (artifact_id,) in connection.execute("SELECT id FROM artifact ORDER BY id")]


def stale(connection: "sqlite3.Connection", request: Stale) -> list[str]:
    """Return the artifacts whose ledger entry has another version, or differs from the stamp."""
    versions, stamp = request.versions, request.stamp
    storable = versions
    # A text that cannot be stored is in no ledger entry, and SQLite would read another one. Nearly always, all can.
    if find_text_fault("".join([*versions, *versions.values()]), allow_nul=False) is not None:
        storable = {id: text for id, text in versions.items() if find_text_fault(id + text, allow_nul=False) is None}
    # One row for all results, and only changed artifacts: in most builds, nearly all are unchanged.
    (row,) = connection.execute(
        """SELECT json_group_array(requested.key) FROM json_each(?) AS requested
        LEFT JOIN artifact ON artifact.id = requested.key
        WHERE version IS NOT requested.value OR (embedder_id, strategy_id, extractor_id, source) IS NOT (?, ?, ?, ?)""",
        [json.dumps(storable), stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source],
    ).fetchone()
    changed = {*json.loads(row)}
    return [id for id in versions if id in changed or id not in storable]


def read_settings(connection: "sqlite3.Connection", kind: str) -> dict[str, Any]:
    """Return the JSON values of one kind of setting, by key."""
    rows = connection.execute("SELECT key, value FROM setting WHERE kind = ? ORDER BY key", [kind]).fetchall()
    return dict(zip([key for key, _ in rows], parse_mappings([value for _, value in rows]), strict=True))


def config(connection: "sqlite3.Connection", _: object = None) -> dict[str, Any]:
    """Return the settings of the corpus."""
    return dict(read_settings(connection, "config").get("", {}))


def calibrations(connection: "sqlite3.Connection", _: object = None) -> dict[str, Any]:
    """Return the calibrations by key."""
    return read_settings(connection, "calibration")


def schema(connection: "sqlite3.Connection", request: Schema) -> Columns:
    """Return the surface kinds, which fields any record has, and the first names of fields."""
    has_fields = []
    for path in request.paths:  # reading ends at the first record that has it
        field, parameters = compile_field(path, "metadata")
        query = f"SELECT EXISTS (SELECT 1 FROM record WHERE {field} IS NOT NULL)"
        has_fields.append(bool(connection.execute(query, parameters).fetchone()[0]))
    names = connection.execute(
        """SELECT DISTINCT field.key FROM (SELECT metadata FROM record ORDER BY rowid LIMIT ?) AS first
        CROSS JOIN json_each(first.metadata) AS field ORDER BY field.key""",
        [request.limit],
    )
    kinds = [kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM record ORDER BY kind")]
    # Metadata of a damaged or foreign file may be a list.
    return Columns(kinds, has_fields, [name for (name,) in names if isinstance(name, str)])


def counts(connection: "sqlite3.Connection", _: object = None) -> dict[str, int]:
    """Return the numbers of artifacts, of records, and of links in each state."""
    artifacts, records = connection.execute(
        "SELECT (SELECT count(*) FROM artifact), (SELECT coalesce(sum(live), 0) FROM bucket)"
    ).fetchone()
    links = dict(connection.execute("SELECT state, count(*) FROM link GROUP BY state"))
    states = {state: links.get(state, 0) for state in ("resolved", "dangling", "ambiguous", "foreign")}
    return {"artifacts": artifacts, "records": records, **states}


# What an index in memory has not read yet


class RecordLog:
    """The position of an index in the history of a file.

    It yields the records that were removed or added since then. An update takes time in proportion to the changes. It
    may be interrupted at any statement: the position then is that of the last complete step, and the next call
    continues there.
    """

    def __init__(self, last: int = 0, last_tombstone: int = 0) -> None:
        self.last = last  # the highest rowid that was read; rowids only grow, and none is used twice
        self._last_tombstone = last_tombstone  # the last row of the table `gone` that was read

    def drop_removed(
        self, connection: "sqlite3.Connection", drop: Callable[[list[str]], None], *, restart: Callable[[], None]
    ) -> None:
        """Call `drop` with the ids of the records removed since the last call.

        If these are no longer known, call `restart` instead.
        """
        oldest, newest = read_tombstones(connection)
        # The oldest tombstones are deleted from time to time. An index that has missed some must start again.
        if not self.last or oldest > self._last_tombstone + 1:
            self.last = 0
            restart()
        elif newest > self._last_tombstone:
            rows = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [self._last_tombstone])
            drop([record_id for (record_id,) in rows])
        self._last_tombstone = newest

    def read_new(
        self,
        connection: "sqlite3.Connection",
        columns: str,
        parameters: Sequence[Any] = (),
        *,
        tables: str = "record",
        block: int = 512,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the new records in blocks of rows: the rowid, then these columns."""
        # A block counts as read only when the caller asks for the next one, and so has used it.
        for rows in read_records(connection, columns, parameters, tables=tables, after=self.last, block=block):
            yield rows
            self.last = rows[-1][0]


def read_tombstones(connection: "sqlite3.Connection") -> tuple[int, int]:
    """Return the first and the last row of the table `gone`; 0 if it is empty."""
    oldest, newest = connection.execute(
        # Two subqueries read two entries; min and max in one query would read the whole table.
        "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)"
    ).fetchone()
    return oldest or 0, newest or 0


def read_records(
    connection: "sqlite3.Connection",
    columns: str,
    parameters: Sequence[Any] = (),
    *,
    tables: str = "record",
    after: int,
    block: int,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the records after a rowid in blocks of rows: the rowid, then these columns."""
    cursor = connection.execute(
        f"SELECT record.rowid, {columns} FROM {tables} WHERE record.rowid > ? ORDER BY record.rowid",
        [*parameters, after],
    )
    while rows := cursor.fetchmany(block):
        yield rows


# Vectors are bytes with a checksum each, so that a flipped bit is an error and not a wrong score


def encode_vectors(vectors: Floats) -> Iterator[tuple[bytes, int]]:
    """Return each row of `(n, dim) float32` as little-endian bytes, with its checksum."""
    rows = np.ascontiguousarray(vectors, "<f4")
    return zip((row.tobytes() for row in rows), compute_sums(rows).tolist(), strict=True)


def decode_vectors(data: Sequence[bytes], sums: Sequence[int]) -> Floats:
    """Return stored vectors, at least one, as `(n, dim) float32`.

    Raises:
        StoreCorrupt: If a checksum does not match.
    """
    try:
        rows = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        is_intact = len({*map(len, data)}) == 1 and np.array_equal(compute_sums(rows), sums)
    except (TypeError, ValueError):
        is_intact = False
    if not is_intact:
        raise StoreCorrupt(f"a vector in the corpus's file is damaged; {MEND}")
    return rows.astype(np.float32, copy=False)


def compute_sums(rows: Floats) -> NDArray[np.int64]:
    """Return the sum of the bytes of each vector, in words of four or eight."""
    # If the width is even, add 64-bit words, which are half as many. A sum that wraps around still detects changes.
    words = rows.view("<i8" if rows.shape[1] % 2 == 0 else "<i4")
    sums: NDArray[np.int64] = words.sum(axis=1, dtype=np.int64)
    return sums
