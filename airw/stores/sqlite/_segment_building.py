"""Builds HNSW segments in the folder of a database, after writes and when a store closes.

Segments grow as in a log-structured merge tree: new records become a small segment, and a segment becomes a part of a
larger one when it is no longer small beside it. So a row is added to few segments in its life, a file has few segments,
and few rows are in none.
"""

import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.messages import short_repr
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores._stored_values import DamagedValue
from airw.stores.sqlite import _segments
from airw.stores.sqlite._records import read_settings
from airw.stores.sqlite._schema import write_transaction
from airw.stores.sqlite._segments import Numbers, SegmentFile, SegmentMaker
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.stores.sqlite._writing import set_setting

if TYPE_CHECKING:
    import sqlite3

_Call: TypeAlias = Callable[..., Awaitable[Any]]
_Block: TypeAlias = list[tuple[int, bytes, int]]

_SEGMENT = "segment"  # the kind of the settings with the checksums of segments
_BLOCK = 4096  # rows per read
_SLICE = 512  # rows per call when a segment is built; a build can be cancelled between calls


class Pace(NamedTuple):
    """When rows are added to a segment.

    Args:
        rows: At least so many rows.
        share: At least so many rows of the segment for each new one; else they become a segment of their own.
    """

    rows: int
    share: int


AFTER_WRITE = Pace(rows=4096, share=8)
AT_END = Pace(rows=1024, share=64)


class SegmentPlan(NamedTuple):
    """The segments to build and to remove.

    Args:
        corpus: The mark of the database.
        base: The segment to which rows are added; `None` to begin a new one.
        checksum: The checksum of its file.
        after: The number after which the records to add begin.
        last: The number of the last record to add; `after` if there is none.
        obsolete: The segment files that are no longer needed then.
        forgotten: The names of segments that have no useful file then.
    """

    corpus: str
    base: SegmentFile | None
    checksum: str
    after: int
    last: int
    obsolete: Sequence[Path]
    forgotten: Sequence[str]

    @property
    def is_due(self) -> bool:
        """Return whether rows are to be added."""
        return self.last > self.after


def count_live_rows(connection: "sqlite3.Connection") -> int:
    """Return the number of records."""
    (count,) = connection.execute("SELECT coalesce(sum(max(CAST(live AS INTEGER), 0)), 0) FROM bucket").fetchone()
    return int(count)


def read_corpus_mark(connection: "sqlite3.Connection") -> str:
    """Return the mark of this database.

    It differs from the mark of an earlier database at the same path.
    """
    row = connection.execute("SELECT value FROM setting WHERE kind = 'file' AND key = 'mark'").fetchone()
    mark = str(row and row[0]).strip('"')
    # It becomes part of a file name.
    if not _segments.is_mark(mark):
        raise DamagedValue(f"the mark of the file is {short_repr(mark)}")
    return mark


def read_checksums(connection: "sqlite3.Connection") -> dict[str, str]:
    """Return the checksums of the segments of this database, by file name."""
    settings = read_settings(connection, _SEGMENT)
    return {name: str(setting.get("checksum")) for name, setting in settings.items()}


def _record_segments(connection: "sqlite3.Connection", checksums: Mapping[str, str], obsolete: Iterable[str]) -> None:
    """Store the checksums of new segments, and forget obsolete ones."""
    with write_transaction(connection):
        connection.executemany(
            "DELETE FROM setting WHERE kind = ? AND key = ?", [(_SEGMENT, name) for name in obsolete]
        )
        for name, checksum in checksums.items():
            set_setting(connection, _SEGMENT, name, {"checksum": checksum})


def plan_segments(connection: "sqlite3.Connection", folder: Path, pace: Pace) -> SegmentPlan:
    """Return the plan by which nearly all records of a large corpus are in few segments.

    If more than half of the rows in segments were removed, all are built again.
    """
    corpus, checksums, live = read_corpus_mark(connection), read_checksums(connection), count_live_rows(connection)
    # The highest number ever used, also by records removed since.
    (last,) = connection.execute(
        "SELECT max(CAST(seq AS INTEGER)) FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    last = last or 0
    is_large = live > _segments.EXACT_ROWS
    kept = _segments.find_chain(folder, checksums) if is_large else []
    after = kept[-1].last if kept else 0
    # At most the new records were removed.
    if sum(file.rows for file in kept) > 2 * max(live - (last - after), 0):
        kept, after = [], 0
    base = _find_base(kept, last - after, pace)
    if base is not None:
        kept, after = kept[: kept.index(base)], base.last
    elif not is_large or last - after < pace.rows:
        last = after
    useful = {file.path.name for file in kept}
    obsolete = [file for file in folder.glob("*.usearch") if file.name not in useful]
    checksum = checksums[base.path.name] if base else ""
    return SegmentPlan(corpus, base, checksum, after, last, obsolete, sorted(checksums.keys() - useful))


def _find_base(chain: Sequence[SegmentFile], new: int, pace: Pace) -> SegmentFile | None:
    """Return the first segment to which all rows after it are to be added; `None` for none."""
    for place, file in enumerate(chain):
        later = new + sum(each.rows for each in chain[place + 1 :])
        if later >= pace.rows and file.rows < min(pace.share * later, _segments.MAX_ROWS):
            return file
    return None


async def build_segments(path: Path, read: _Call, write: _Call, *, at_end: bool = False) -> None:
    """Build and remove segments if that is due, unless another writer is doing so.

    A failure is a warning, not an error: the write itself has succeeded, and search works without segments.

    Args:
        path: The database.
        read: Calls a function with a connection to one snapshot, and returns its result.
        write: The same with a connection that may write.
        at_end: Whether the store is about to be closed.
    """
    folder, pace = _segments.segment_folder(path), AT_END if at_end else AFTER_WRITE
    try:
        plan: SegmentPlan = await read(plan_segments, folder, pace)
        if plan.is_due and not _segments.is_installed():
            if not at_end:  # the writes before have warned
                _warn(path, "usearch is not installed: pip install 'airw[ann]'")
        elif plan.is_due or plan.obsolete or plan.forgotten:
            await anyio.Path(folder).mkdir(exist_ok=True)
            async with hold_file(folder / "writer.lock", timeout=0):
                # Another writer may have carried the plan out meanwhile.
                await _carry_out(folder, await read(plan_segments, folder, pace), read, write)
    except (StoreBusy, StoreCorrupt):
        return  # the other writer builds them; or the next reading call reports the damage
    except (OSError, RuntimeError, StoreError) as error:
        _warn(path, f"a segment cannot be written ({error}); the next write tries again")


async def _carry_out(folder: Path, plan: SegmentPlan, read: _Call, write: _Call) -> None:
    names, after, maker = set[str](), plan.after, None
    if plan.base is not None:
        maker = await in_thread(SegmentMaker.extend, plan.base, plan.checksum)
    while after < plan.last:
        maker, after = await _fill(maker, after, plan, read)
        if maker is None:  # all of these records were removed
            break
        name, checksum = await in_thread(maker.save, folder, plan.corpus, after)
        # Without its checksum in the database, the file is not opened: it may be anything.
        await write(_record_segments, {name: checksum}, [each for each in plan.forgotten if each not in names])
        names.add(name)
        maker = None
    if plan.forgotten and not names:
        await write(_record_segments, {}, plan.forgotten)
    for path in plan.obsolete:
        if path.name not in names:  # a new file may have the name of an old one
            await anyio.Path(path).unlink(missing_ok=True)


async def _fill(
    maker: SegmentMaker | None, after: int, plan: SegmentPlan, read: _Call
) -> tuple[SegmentMaker | None, int]:
    """Add rows to a segment, or to a new one, until it is full or has all of them.

    Returns:
        The segment, `None` if there are no rows, and the last number of its range.
    """
    start = after
    while block := await read(_read_block, after, plan.last):
        numbers, vectors = await in_thread(_decode, block)
        if maker is None:
            maker = await in_thread(SegmentMaker.create, start, vectors.shape[1])
        if vectors.shape[1] != maker.dim:
            raise StoreError("all were embedded again meanwhile")
        # Short calls, so that a cancelled write stops between them.
        for first in range(0, len(numbers), _SLICE):
            part = slice(first, first + _SLICE)
            await in_thread(maker.add, numbers[part], vectors[part])
        after = int(numbers[-1])
        if len(maker) >= _segments.MAX_ROWS:
            return maker, after
    return maker, plan.last


def _read_block(connection: "sqlite3.Connection", after: int, last: int) -> _Block:
    return connection.execute(
        "SELECT rowid, data, sum FROM vector WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?",
        [after, last, _BLOCK],
    ).fetchall()


def _decode(block: _Block) -> tuple[Numbers, Floats]:
    numbers, data, sums = zip(*block, strict=True)
    return np.array(numbers, np.int64), decode_vectors(data, sums)


def _warn(path: Path, reason: str) -> None:
    message = f"search in {str(path)!r} compares all vectors that have no segment, because {reason}"
    warnings.warn(message, RuntimeWarning, stacklevel=6)
