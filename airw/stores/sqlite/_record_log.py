"""A reader of the changes in a file, from which indexes in memory are updated."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3


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
