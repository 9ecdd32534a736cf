"""What follows the vectors in a file: a matrix in memory while they are few, indexes beside the file above that."""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from airw.filters import Filter
from airw.stores._large import LargeIndex
from airw.stores._matrix import DenseIndex
from airw.stores._nearby import Nearby, live_rows
from airw.stores._packing import unpacked
from airw.stores._sql_filter import compile_filter
from airw.values import NDArray

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

EXACT_ROWS = 200_000  # up to here every row is compared with every query, from memory

_BLOCK = 512  # rows read at a time: what reading takes besides stays small
_SMALL = 1 << 23  # numbers, compared with a query faster than another thread can be asked to
_FILTERS = 16  # remembered, each with eight bytes a row that it keeps


@dataclass(slots=True)
class _Kept:
    """The numbers of the rows that a filter keeps, as far as it was asked; some may have left."""

    until: int = 0
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class Mirror:
    """Follows the vectors of a file and answers questions about them; one user at a time.

    The work of following grows with what changed, not with the corpus.
    """

    def __init__(self, folder: Path) -> None:
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
        later = partial(ask, self._index, self._allowed(connection, filter))
        if len(self._index) * (self._index.dim or 0) > _SMALL:
            return later, False
        found = later()
        return lambda: found, True

    def _forget(self, room: int = 0) -> None:
        self._index = DenseIndex(room)
        self._record = self._gone = 0
        self._filters: OrderedDict[str, _Kept] = OrderedDict()

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

    def _allowed(self, connection: "sqlite3.Connection", filter: Filter | None) -> NDArray[np.int64] | None:
        """Give the numbers of the rows that a filter keeps; only rows that are new since it was last asked are read."""
        if filter is None:
            return None
        condition, parameters = compile_filter(filter, "metadata")
        key = json.dumps([condition, parameters])
        kept = self._filters.setdefault(key, _Kept())
        self._filters.move_to_end(key)
        if len(self._filters) > _FILTERS:
            self._filters.popitem(last=False)
        if len(kept.numbers) > 2 * len(self._index) + _BLOCK:  # most of them have left
            kept.until, kept.numbers = 0, np.empty(0, np.int64)
        if kept.until < self._record:
            rows = connection.execute(
                f"SELECT rowid FROM record WHERE rowid > ? AND {condition}", [kept.until, *parameters]
            ).fetchall()
            kept.numbers = np.concatenate([kept.numbers, np.array([row for (row,) in rows], np.int64)])
            kept.until = self._record
        return kept.numbers
