"""The names of the records that rank best, and their order among equal scores."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import dump_in_slices
from airw.stores._indexes.word_tables import check_consistent

if TYPE_CHECKING:
    import sqlite3

# artifact id, surface index, rowid, record id
_Name: TypeAlias = tuple[str, int, int, str]
RankedRow: TypeAlias = tuple[float, str, int, int, str]
"""The negative score and the name of a record: so rows sort by rank."""

_FEW = 1_000  # rows that are sorted here; more of them are sorted by SQLite, which does not stop other threads
_MAX_BYTES = 1 << 22  # memory of all names
_NAME_BYTES = 300  # rough memory of a name besides its letters


class RecordNames:
    """Reads the names of records by rowid, and keeps the last ones.

    A rowid always means the same record. Several threads may use it, each with its own connection.
    """

    def __init__(self) -> None:
        self._names: dict[int, _Name] = {}
        self._bytes = 0

    def rank(
        self, connection: "sqlite3.Connection", rowids: NDArray[np.int64], scores: NDArray[np.float64], depth: int
    ) -> list[RankedRow]:
        """Return the `depth` best of these records; ties by artifact id, then surface index."""
        if not len(rowids):
            return []
        cut = max(len(scores) - depth, 0)
        last_score = np.partition(scores, cut)[cut]
        best = (scores >= last_score).nonzero()[0]
        if len(best) <= _FEW:
            numbers, best_scores = rowids[best].tolist(), scores[best].tolist()
            names = self._read(connection, numbers)
            pairs = zip(numbers, best_scores, strict=True)
            return sorted([(-score, *names[number]) for number, score in pairs if number in names])[:depth]
        # Very many may tie with the last one that ranks, and SQLite returns only those of them that are missing.
        better, equal = np.flatnonzero(scores > last_score), np.flatnonzero(scores == last_score)
        rows = [*_read_in_order(connection, rowids[better], scores[better], depth)]
        # The rows come in the order of ties, which a stable sort by score keeps.
        order = np.argsort(np.fromiter((row[0] for row in rows), np.float64, len(rows)), kind="stable")
        ranked_rows = [rows[place] for place in order.tolist()]
        return [*ranked_rows, *_read_in_order(connection, rowids[equal], scores[equal], depth - len(rows))]

    def _read(self, connection: "sqlite3.Connection", rowids: list[int]) -> dict[int, _Name]:
        """Return the names of the records with these rowids."""
        names = {rowid: name for rowid in rowids if (name := self._names.get(rowid)) is not None}
        missing = [rowid for rowid in rowids if rowid not in names]
        if missing:
            rows = connection.execute(
                """SELECT record.rowid, artifact_id, CAST(idx AS INTEGER), record.id
                FROM json_each(?) AS wanted CROSS JOIN record ON record.rowid = wanted.value""",
                [json.dumps(missing)],
            )
            found: dict[int, _Name] = {
                rowid: (artifact_id, index, rowid, record_id) for rowid, artifact_id, index, record_id in rows
            }
            for artifact_id, _, _, record_id in found.values():
                _check_texts(artifact_id, record_id)
            self._keep(found)
            names.update(found)
        return names

    def _keep(self, names: dict[int, _Name]) -> None:
        if self._bytes > _MAX_BYTES:
            self._names, self._bytes = {}, 0
        self._names.update(names)
        self._bytes += sum(len(name[0]) + len(name[3]) + _NAME_BYTES for name in names.values())


def _read_in_order(
    connection: "sqlite3.Connection", rowids: NDArray[np.int64], scores: NDArray[np.float64], limit: int
) -> Iterator[RankedRow]:
    """Yield at most `limit` of the rows, ordered by artifact id and surface index."""
    row_scores = scores.tolist()
    for position, artifact_id, index, number, record_id in connection.execute(
        """SELECT key, artifact_id, CAST(idx AS INTEGER), record.rowid, record.id
        FROM json_each(?) JOIN record ON record.rowid = value
        ORDER BY artifact_id, idx, record.rowid LIMIT ?""",
        [dump_in_slices(rowids.tolist()), limit],
    ):
        _check_texts(artifact_id, record_id)
        yield -row_scores[position], artifact_id, index, number, record_id


def _check_texts(*values: object) -> None:
    """Check that a damaged or foreign file has no bytes here."""
    check_consistent(all(isinstance(value, str) for value in values))
