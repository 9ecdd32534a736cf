"""The matrix in memory that follows the vectors in the file."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from airw.filters import Filter
from airw.stores._matrix import DenseIndex
from airw.stores._sql_records import allowed_ids
from airw.values import Floats

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

_BLOCK = 4096  # rows read at a time


class Position(NamedTuple):
    """How far a matrix has followed the file."""

    record: int = 0
    gone: int = 0


class Block(NamedTuple):
    """Rows of a matrix, as aligned columns."""

    ids: Sequence[str]
    artifact_ids: Sequence[str]
    kinds: Sequence[str]
    indexes: Sequence[int]
    vectors: Floats


@dataclass(frozen=True, slots=True)
class News:
    """What a matrix does not know yet, as of one state of the file, and the records a filter keeps in that state."""

    position: Position
    is_all: bool
    gone: Sequence[str]
    blocks: Sequence[Block]
    allowed: Sequence[str] | None


def read_news(connection: "sqlite3.Connection", seen: Position, filter: Filter | None) -> News:
    """Read what changed since `seen`: only that, however large the corpus; on one state of the file."""
    oldest, newest, last = connection.execute(
        "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone), (SELECT max(rowid) FROM record)"
    ).fetchone()
    # Tombstones are forgotten in time; whoever missed some starts again.
    is_all = not seen.record or (oldest or 0) > seen.gone + 1
    if is_all:
        seen = Position(0, newest or 0)
    gone = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [seen.gone]).fetchall()
    return News(
        position=Position(max(last or 0, seen.record), newest or seen.gone),
        is_all=is_all,
        gone=[record_id for (record_id,) in gone],
        blocks=list(_read_blocks(connection, seen.record)),
        allowed=allowed_ids(connection, filter),
    )


def _read_blocks(connection: "sqlite3.Connection", after: int) -> Iterator[Block]:
    rows = connection.execute(
        "SELECT id, artifact_id, kind, idx, data FROM record JOIN vector USING (rowid) WHERE record.rowid > ? "
        "ORDER BY record.rowid",
        [after],
    )
    while block := rows.fetchmany(_BLOCK):
        ids, artifact_ids, kinds, indexes, data = zip(*block, strict=True)
        vectors = np.frombuffer(b"".join(data), "<f4").reshape(len(data), -1)
        yield Block(ids, artifact_ids, kinds, indexes, vectors.astype(np.float32, copy=False))


class Mirror:
    """A `DenseIndex` and how far it has followed the file; one user at a time."""

    def __init__(self) -> None:
        self._index = DenseIndex()
        self.position = Position()

    def answer(self, news: News, ask: Callable[[DenseIndex, Sequence[str] | None], R]) -> R:
        """Take in what is new, then ask."""
        if news.is_all:
            self._index = DenseIndex()
        self._index.drop(news.gone)
        for block in news.blocks:
            self._index.put(*block)
        self.position = news.position
        return ask(self._index, news.allowed)
