"""Functions that read records, vectors, the ledger and settings from a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import find_text_fault
from airw._base.messages import error_text
from airw._base.slices import consume_in_slices, iterate_slices, sort_in_slices
from airw.errors import StoreCorrupt
from airw.stores._stored_values import DamagedValue, check_types, parse_mappings
from airw.stores.sqlite._field_sql import compile_field, keys_json, set_json
from airw.stores.sqlite._schema import MEND
from airw.values import LedgerEntry, Record
from airw.values.artifacts import make_records

if TYPE_CHECKING:
    import sqlite3

# The first record of each artifact: its key in the list of ids, then columns of the record.
_FIRST = """
    SELECT requested.key, {columns} FROM json_each(:ids) AS requested CROSS JOIN record ON record.rowid = (
        SELECT min(rowid) FROM record WHERE artifact_id = requested.value{of_kinds}
    )"""
_RECORD = "record.rowid, record.id, record.artifact_id, record.kind, record.idx, record.text, record.metadata"

_get_place = itemgetter(0, 1)  # of a row: the position of its id among the arguments, and its rowid
_ENTRY = "artifact.id, version, embedder_id, strategy_id, extractor_id, source, record.id"


def get_records(connection: "sqlite3.Connection", ids: Sequence[str]) -> list[Record | None]:
    """Return the record of each id, or `None`."""
    records: list[Record | None] = [None] * len(ids)
    rows = connection.execute(
        f"""SELECT requested.key, {_RECORD} FROM json_each(?) AS requested
        CROSS JOIN record ON record.id = requested.value""",
        [keys_json(ids)],
    )
    for part in iterate_slices(rows):
        for (position, *_), record in zip(part, _make_records(part), strict=True):
            records[position] = record
    return records


def records_of(
    connection: "sqlite3.Connection", artifact_ids: Sequence[str], kinds: Sequence[str] | None, limit: int | None
) -> list[list[Record] | None]:
    """Return the records of each artifact in plan order; `None` for an unknown artifact."""
    records: list[list[Record] | None] = [None] * len(artifact_ids)
    bound: dict[str, Any] = {} if kinds is None else {"kinds": set_json(kinds)}
    of_kinds = "" if kinds is None else " AND kind IN (SELECT value FROM json_each(:kinds))"
    if limit == 1:
        _read_first(connection, artifact_ids, of_kinds, bound, records)
    else:
        _read_several(connection, artifact_ids, of_kinds, bound | {"limit": limit}, records)
    # An artifact without matching records has no row: tell it from an unknown one.
    positions = [position for position, artifact_records in enumerate(records) if artifact_records is None]
    for position in _find_artifacts(connection, artifact_ids, positions):
        records[position] = []
    return records


def _read_first(
    connection: "sqlite3.Connection",
    artifact_ids: Sequence[str],
    of_kinds: str,
    bound: Mapping[str, Any],
    records: list[list[Record] | None],
) -> None:
    """Store the first record of each artifact in `records`; walks read thousands."""
    order = _order_in_file(artifact_ids)
    cursor = connection.execute(
        _FIRST.format(columns=_RECORD, of_kinds=of_kinds),
        {**bound, "ids": keys_json(artifact_ids[position] for position in order)},
    )
    for part in iterate_slices(cursor):
        for row, record in zip(part, _make_records(part), strict=True):
            records[order[row[0]]] = [record]


def _order_in_file(artifact_ids: Sequence[str]) -> list[int]:
    """Return the places of artifacts in the order of their ids.

    In this order they often stand together in the file: fewer pages are read.
    """
    names = [*map(str, artifact_ids)]  # pairs, too, which name artifacts of other corpora
    return sorted(range(len(names)), key=names.__getitem__)


def _read_several(
    connection: "sqlite3.Connection",
    artifact_ids: Sequence[str],
    of_kinds: str,
    bound: Mapping[str, Any],
    records: list[list[Record] | None],
) -> None:
    """Store the records of each artifact in `records`, in plan order."""
    condition = f"record.artifact_id = requested.value{of_kinds}"
    if bound["limit"] is not None:
        condition = f"record.rowid IN (SELECT rowid FROM record WHERE {condition} ORDER BY rowid LIMIT :limit)"
    cursor = connection.execute(
        f"SELECT requested.key, {_RECORD} FROM json_each(:ids) AS requested CROSS JOIN record ON {condition}",
        {**bound, "ids": keys_json(artifact_ids)},
    )
    rows = [row for part in iterate_slices(cursor) for row in part]
    # The rows usually are in order already. Then this sort costs less than one in SQLite.
    rows = sort_in_slices(rows, key=_get_place)
    pairs = (
        pair for part in iterate_slices(consume_in_slices(rows)) for pair in zip(part, _make_records(part), strict=True)
    )
    for position, group in groupby(pairs, lambda pair: pair[0][0]):
        records[position] = [record for _, record in group]


def _find_artifacts(
    connection: "sqlite3.Connection", artifact_ids: Sequence[str], positions: Sequence[int]
) -> list[int]:
    """Return those of the positions whose artifact exists."""
    if not positions:
        return []
    rows = connection.execute(
        "SELECT requested.key FROM json_each(?) AS requested CROSS JOIN artifact ON artifact.id = requested.value",
        [keys_json(artifact_ids[position] for position in positions)],
    )
    return [positions[index] for (index,) in rows]


def _make_records(rows: Sequence[tuple[Any, ...]]) -> list[Record]:
    """Return the records of rows of a position and the columns `_RECORD`."""
    if not rows:
        return []
    _, _, *columns, metadata = zip(*rows, strict=True)
    check_types(columns, [str, str, str, int, str])
    return make_records(len(rows), [*columns, parse_mappings(metadata)])


def parse_value(text: str) -> Any:
    """Return the value of a JSON text in the file.

    Raises:
        DamagedValue: If it is not JSON.
    """
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedValue(f"a value is no JSON text: {error_text(error)}") from error


def check_columns(*columns: Sequence[object]) -> None:
    """Check that these columns contain only text.

    Raises:
        DamagedValue: If one does not.
    """
    check_types(columns, [str] * len(columns))


def ledger(connection: "sqlite3.Connection", ids: Sequence[str] | None) -> list[LedgerEntry | None]:
    """Return the ledger entry of each artifact; without ids, all entries, ordered by id."""
    if ids is None:
        rows = connection.execute(
            f"""SELECT 0, {_ENTRY} FROM artifact LEFT JOIN record ON record.artifact_id = artifact.id
            ORDER BY artifact.id, record.rowid"""
        )
        return [entry for _, entry in _make_entries(rows)]
    entries: list[LedgerEntry | None] = [None] * len(ids)
    rows = connection.execute(
        f"""SELECT requested.key, {_ENTRY} FROM json_each(?) AS requested JOIN artifact ON artifact.id = requested.value
        LEFT JOIN record ON record.artifact_id = artifact.id ORDER BY requested.key, record.rowid""",
        [keys_json(ids)],
    )
    for position, entry in _make_entries(rows):
        entries[position] = entry
    return entries


def _make_entries(record_rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, LedgerEntry]]:
    """Yield one ledger entry per artifact, from consecutive rows of its records."""
    for (position, _), group in groupby(chain.from_iterable(iterate_slices(record_rows)), itemgetter(0, 1)):
        rows = list(group)
        _, artifact_id, version, embedder_id, strategy_id, extractor_id, source, _ = rows[0]
        record_ids = tuple(row[-1] for row in rows if row[-1] is not None)
        yield (
            position,
            LedgerEntry(artifact_id, version, embedder_id, strategy_id, extractor_id, source, record_ids),
        )


def find_changed(connection: "sqlite3.Connection", versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
    """Return the artifacts whose ledger entry has another version, or differs from `stamp`."""
    # A text that cannot be stored is in no ledger entry, and SQLite would read another one. Nearly always, all can.
    if find_text_fault("".join([*versions, *versions.values()]), allow_nul=False) is not None:
        faults = {name: find_text_fault(name + version, allow_nul=False) for name, version in versions.items()}
        storable = {name: version for name, version in versions.items() if faults[name] is None}
        return [*(name for name in versions if name not in storable), *find_changed(connection, storable, stamp)]
    # One row for all results, and only changed artifacts: in most builds, nearly all are unchanged.
    (changed_json,) = connection.execute(
        """SELECT json_group_array(requested.key) FROM json_each(?) AS requested
        LEFT JOIN artifact ON artifact.id = requested.key
        WHERE version IS NOT requested.value OR (embedder_id, strategy_id, extractor_id, source) IS NOT (?, ?, ?, ?)""",
        [json.dumps(versions), stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source],
    ).fetchone()
    return list(json.loads(changed_json))


def artifact_ids(connection: "sqlite3.Connection") -> list[str]:
    """Return the ids of all artifacts, sorted."""
    return [artifact_id for (artifact_id,) in connection.execute("SELECT id FROM artifact ORDER BY id")]


def read_settings(connection: "sqlite3.Connection", kind: str) -> dict[str, Any]:
    """Return the JSON values of one kind of setting, by key."""
    rows = connection.execute("SELECT key, value FROM setting WHERE kind = ? ORDER BY key", [kind]).fetchall()
    return dict(zip([key for key, _ in rows], parse_mappings([value for _, value in rows]), strict=True))


def surface_kinds(connection: "sqlite3.Connection") -> list[str]:
    """Return the surface kinds of all records, sorted."""
    return [kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM record ORDER BY kind")]


def has_fields(connection: "sqlite3.Connection", paths: Sequence[str]) -> list[bool]:
    """Return, for each path, whether any record has the field.

    Reading ends at the first that has it.
    """
    answers = []
    for path in paths:
        field, parameters = compile_field(path, "metadata")
        query = f"SELECT EXISTS (SELECT 1 FROM record WHERE {field} IS NOT NULL)"
        answers.append(bool(connection.execute(query, parameters).fetchone()[0]))
    return answers


def field_names(connection: "sqlite3.Connection", limit: int) -> list[str]:
    """Return the names of the fields of the first records, sorted."""
    rows = connection.execute(
        """SELECT DISTINCT field.key FROM (SELECT metadata FROM record ORDER BY rowid LIMIT ?) AS first
        CROSS JOIN json_each(first.metadata) AS field ORDER BY field.key""",
        [limit],
    )
    # Metadata of a damaged or foreign file may be a list.
    return [name for (name,) in rows if isinstance(name, str)]


def counts(connection: "sqlite3.Connection") -> dict[str, int]:
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
    """Return stored vectors as `(n, dim) float32`.

    Raises:
        StoreCorrupt: If a checksum does not match.
    """
    if not data:
        return np.empty((0, 0), np.float32)
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
