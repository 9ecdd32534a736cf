"""Following the records of a file, for indexes in memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3


class RecordLog:
    """How far an index has followed the records of a file: which have left since, and which are new.

    The work grows with what changed. It may be interrupted at any statement: what was taken in counts, and the next
    call goes on from there.
    """

    def __init__(self) -> None:
        self.last = 0  # the highest rowid taken in; rowids only grow, and none is used twice
        self._gone = 0  # the last tombstone taken in

    def drop_gone(
        self, connection: "sqlite3.Connection", drop: Callable[[list[str]], None], *, start_again: Callable[[], None]
    ) -> None:
        """Call `drop` with the ids of the records that left since the last call; or `start_again`."""
        oldest, newest = connection.execute(
            "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)"  # one of them at a time reads no table
        ).fetchone()
        # Tombstones are forgotten in time; whoever missed some starts again.
        if not self.last or (oldest or 0) > self._gone + 1:
            self.last = 0
            start_again()
        elif (newest or 0) > self._gone:
            gone = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [self._gone])
            drop([record_id for (record_id,) in gone])
        self._gone = newest or 0

    def read_new(
        self,
        connection: "sqlite3.Connection",
        columns: str,
        parameters: Sequence[Any] = (),
        *,
        tables: str = "record",
        block: int = 512,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the new records in blocks, each record with its rowid before these columns."""
        for rows in read_records(connection, columns, parameters, tables=tables, after=self.last, block=block):
            yield rows
            self.last = rows[-1][0]


def read_records(
    connection: "sqlite3.Connection",
    columns: str,
    parameters: Sequence[Any] = (),
    *,
    tables: str = "record",
    after: int,
    block: int,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the records after a rowid in blocks, each record with its rowid before these columns."""
    found = connection.execute(
        f"SELECT record.rowid, {columns} FROM {tables} WHERE record.rowid > ? ORDER BY record.rowid",
        [*parameters, after],
    )
    while rows := found.fetchmany(block):
        yield rows
