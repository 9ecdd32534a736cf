"""What follows the vectors in a file: a matrix in memory while they are few, indexes beside the file above that."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airw.stores._columns import Columns
from airw.stores._large import LargeIndex
from airw.stores._matrix import DenseIndex
from airw.stores._nearby import Nearby, live_rows
from airw.stores._packing import unpacked
from airw.stores._sql_filter import compile_filter
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

EXACT_ROWS = 200_000  # up to here every row is compared with every query, from memory

_BLOCK = 512  # rows read at a time: what reading takes besides stays small
_SMALL = 1 << 23  # numbers, compared with a query faster than another thread can be asked to


class Mirror:
    """Follows the vectors of a file and answers questions about them; one user at a time.

    The work of following grows with what changed, not with the corpus.

    Args:
        folder: Where the indexes lie.
        columns: What says which rows a filter keeps.
    """

    def __init__(self, folder: Path, columns: Columns) -> None:
        self._columns = columns
        self._nearby = Nearby(folder)
        self._forget()

    def answer(
        self,
        connection: "sqlite3.Connection",
        ask: Callable[[DenseIndex | LargeIndex, Any], R],
        filter: Filter | None = None,
    ) -> tuple[Callable[[], R], bool]:
        """Follow the file to its present state and answer `ask(index, allowed)`.

        `allowed` is what the filter keeps, in the form that the index understands.

        Returns:
            What gives the answer, and whether it is there already. Otherwise it takes a while, and needs the connection
            no longer: call it in another thread.
        """
        live = live_rows(connection)
        count = sum(live.values())
        if count > EXACT_ROWS:
            self._forget()
            self._nearby.follow(connection, live)
            condition = None if filter is None else compile_filter(filter, "record.metadata")
            found = ask(LargeIndex(connection, self._nearby), condition)
            return lambda: found, True
        self._follow(connection, count)
        allowed = None if filter is None else self._columns.allowed(connection, filter)
        later = partial(ask, self._index, allowed)
        if len(self._index) * (self._index.dim or 0) > _SMALL:
            return later, False
        found = later()
        return lambda: found, True

    def _forget(self, room: int = 0) -> None:
        self._index = DenseIndex(room)
        self._record = self._gone = 0

    def _follow(self, connection: "sqlite3.Connection", count: int) -> None:
        oldest, newest = connection.execute(
            "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)"  # one of them at a time reads no table
        ).fetchone()
        # Tombstones are forgotten in time; whoever missed some starts again.
        if not self._record or (oldest or 0) > self._gone + 1:
            self._forget(room=count)
        else:
            gone = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [self._gone]).fetchall()
            self._index.drop(record_id for (record_id,) in gone)
        self._gone = newest or self._gone
        rows = connection.execute(
            "SELECT id, record.rowid, artifact_id, kind, idx, data, sum FROM record JOIN vector USING (rowid) "
            "WHERE record.rowid > ? ORDER BY record.rowid",
            [self._record],
        )
        while block := rows.fetchmany(_BLOCK):
            ids, numbers, artifact_ids, kinds, indexes, *stored = zip(*block, strict=True)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=unpacked(*stored))
            self._record = numbers[-1]
