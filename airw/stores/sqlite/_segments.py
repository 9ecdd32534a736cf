"""HNSW segments: approximate vector indexes beside a database, of ranges of records.

A segment contains the records whose numbers (rowids) are in a range. Numbers only grow, so new records are in the range
of no segment yet. A segment never changes: when there are many new records, a larger segment takes its place. Removed
records stay in it, and those who search drop them. A segment has one byte per number of a vector, so its results are
only candidates. It is mapped into memory, so that opening it takes almost no time, and processes share it
(`bench_large`).

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import ctypes
import hashlib
import re
import sys
from collections.abc import Container
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.file_lock import sync_file

Numbers = NDArray[np.int64]

BUCKET_BITS = 16  # 65,536 rows per bucket: the table `bucket` counts the records of each
EXACT_ROWS = 200_000  # up to this number of records, search is exact and needs no segments
MAX_ROWS = 1 << 20  # rows in a segment: it must be in memory while rows are added to it

_BUILD_EFFORT = 128  # candidates among which a new row looks for its neighbours
SHORTLIST = 4  # candidates per result, as bytes rank neighbours badly
_HELD_OUT = 64  # each such row is added last, to measure the recall of a segment with rows that are not in it
_QUERIES = 128  # rows with which it is measured
_RECALL = 0.99  # required recall of the ten nearest
_GOOD_RECALL = 0.995  # with which no more effort is tried: what is measured with few rows may be too good
# Rows that a search keeps (ef in the paper); the smallest that suffices is chosen. With 40, as many as there are
# candidates for ten results, other queries found 0.98 of the nearest where the measured ones found 0.995.
_EFFORTS = (64, 96, 128, 192, 256, 512)
_QUICK_EFFORT = 128  # a search that keeps no more takes less than half a millisecond
_MARK = re.compile(r"[0-9A-F]{12}")
_NAME = re.compile(r"([0-9A-F]{12})-(\d+)-(\d+)-(\d+)-(\d+)\.usearch")


def is_installed() -> bool:
    """Return whether the extra `ann` is installed."""
    return find_spec("usearch") is not None


def _import_usearch() -> Any:
    if sys.platform == "linux":
        # Wheels of usearch 2.26 contain a C++ runtime that hides the one of the system. C++ libraries that are loaded
        # afterwards, such as torch or onnxruntime, crash or hang. Loading the runtime of the system first prevents it.
        with suppress(OSError):
            ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
    return import_module("usearch.index")


def segment_folder(database: Path) -> Path:
    """Return the folder of the segments of a database."""
    return database.with_name(database.name + "-ann")


class SegmentFile(NamedTuple):
    """A segment file, described by its name.

    Args:
        path: The file.
        after: The number before the range of its records.
        last: The last number of that range.
        rows: The number of rows in the segment.
        effort: The number of candidates that a search keeps; 0 to compare all rows.
    """

    path: Path
    after: int
    last: int
    rows: int
    effort: int

    def open(self, checksum: str) -> "Segment | None":
        """Open the segment, or return `None` if it cannot be read; see `_restore`."""
        index = _restore(self, checksum, view=True)
        return None if index is None else Segment(self, index)


def _restore(file: SegmentFile, checksum: str, *, view: bool) -> Any:
    """Return the index in a file, mapped or in memory, or `None` if it cannot be read.

    It must have this checksum. A damaged file is removed, so that the next write builds the segment again.
    """
    # usearch trusts what it reads: a damaged or foreign file can end the process.
    with suppress(OSError, RuntimeError, ValueError):
        if compute_checksum(file.path) == checksum:
            index = _import_usearch().Index.restore(str(file.path), view=view)
            if index is not None and len(index) == file.rows:
                return index
    with suppress(OSError):
        # If the file cannot even be read, it may be intact, and the system out of memory or file handles.
        file.path.read_bytes()
        file.path.unlink()
    return None


def is_mark(mark: str) -> bool:
    """Return whether a text can be the mark of a database.

    The names of its segments begin with it.
    """
    return _MARK.fullmatch(mark) is not None


def compute_checksum(path: Path) -> str:
    """Return the checksum of a segment file.

    Raises:
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_segment_files(folder: Path) -> list[SegmentFile]:
    """Return all segment files in a folder, including those of earlier databases."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
    matches = ((name, _NAME.fullmatch(name)) for name in names)
    return [
        SegmentFile(folder / name, *(int(match[group]) for group in (2, 3, 4, 5))) for name, match in matches if match
    ]


def find_chain(folder: Path, known: Container[str]) -> list[SegmentFile]:
    """Return the known files whose ranges follow each other, from the first record on."""
    chain = list[SegmentFile]()
    files = [file for file in list_segment_files(folder) if file.path.name in known]
    for file in sorted(files, key=lambda file: file.after):
        if file.after == (chain[-1].last if chain else 0):
            chain.append(file)
    return chain


class Segment:
    """An open segment, mapped into memory."""

    def __init__(self, file: SegmentFile, index: Any) -> None:
        self.file = file
        self.dim = int(index.ndim)
        self._index = index
        # A search in one thread uses working memory of the index, and its only setting.
        self._searching = Lock()

    @property
    def is_quick(self) -> bool:
        """Return whether a search for few rows takes less than about half a millisecond now."""
        return 0 < self.file.effort <= _QUICK_EFFORT and not self._searching.locked()

    def find_nearest(self, queries: Floats, count: int) -> Numbers:
        """Return the numbers of the `count` nearest rows of each query.

        There are fewer if there are fewer rows. A few may be missed. The result is `(m, n) int64`, with 0 for a number
        that is lacking.
        """
        count = min(count, self.file.rows)
        with self._searching:
            self._index.expansion_search = max(count, self.file.effort)
            return _search(self._index, queries, count, exact=not self.file.effort)[0]


def _search(index: Any, queries: NDArray[Any], count: int, *, exact: bool = False) -> tuple[Numbers, Floats]:
    """Return numbers and distances of the nearest rows; 0 and infinity for what is lacking."""
    matches = index.search(queries, count, threads=1, exact=exact)
    numbers, distances = np.atleast_2d(matches.keys).astype(np.int64), np.atleast_2d(matches.distances)
    if len(queries) > 1:
        is_lacking = np.arange(numbers.shape[1]) >= np.asarray(matches.counts, np.int64)[:, None]
        numbers[is_lacking], distances[is_lacking] = 0, np.inf
    return numbers, distances


class SegmentMaker:
    """Builds a segment, a few rows at a time.

    Args:
        after: The number before the range of its records.
        index: The index to which rows are added.
        effort: The number of candidates that a search of its present rows keeps.
    """

    def __init__(self, after: int, index: Any, effort: int = 0) -> None:
        self.dim = int(index.ndim)
        self._after = after
        self._index = index
        self._effort = effort
        self._index.expansion_add = _BUILD_EFFORT
        self._held_out: list[tuple[Numbers, Floats]] = []  # rows that are added in the end

    @classmethod
    def create(cls, after: int, dim: int) -> Self:
        """Begin an empty segment of vectors with this width."""
        return cls(after, _import_usearch().Index(ndim=dim, metric="cos", dtype="i8", connectivity=16))

    @classmethod
    def extend(cls, file: SegmentFile, checksum: str) -> Self | None:
        """Begin with the rows of a segment; `None` if it cannot be read.

        Its file stays as it is. A damaged one is removed.
        """
        index = _restore(file, checksum, view=False)
        return None if index is None else cls(file.after, index, file.effort)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._index) + sum(len(numbers) for numbers, _ in self._held_out)

    def add(self, numbers: Numbers, vectors: Floats) -> None:
        """Add rows, on all cores."""
        is_held_out = np.arange(len(numbers)) % _HELD_OUT == 0
        self._held_out.append((numbers[is_held_out], vectors[is_held_out]))
        self._index.add(numbers[~is_held_out].astype(np.uint64), vectors[~is_held_out])

    def save(self, folder: Path, corpus: str, last: int) -> tuple[str, str]:
        """Measure the effort that a search needs, and write the file, all or nothing.

        Args:
            folder: The folder of the file.
            corpus: The mark of the database.
            last: The last number in the range of its records.

        Returns:
            The name of the file, and its checksum.
        """
        if self._held_out:
            numbers, vectors = map(np.concatenate, zip(*self._held_out, strict=True))
            self._held_out.clear()
            self._effort = self._measure_effort(vectors[:: -(-len(vectors) // _QUERIES)])
            self._index.add(numbers.astype(np.uint64), vectors)
        final = folder / f"{corpus}-{self._after}-{last}-{len(self)}-{self._effort}.usearch"
        # Always the same name, which the next build overwrites if this one is killed. Only one writer builds at a time.
        partial = folder / "partial"
        try:
            self._index.save(str(partial))
            checksum = compute_checksum(partial)
            # Else a power failure could leave the name without the content.
            sync_file(partial)
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)
        return final.name, checksum

    def _measure_effort(self, queries: Floats) -> int:
        """Return the smallest effort that reaches the required recall.

        The queries are rows that are not in the index yet: each would find itself, and the rows that it was linked
        with. The result is 0 if no effort suffices, as for vectors without any structure, or if there are very few
        rows: then a search compares all rows.
        """
        effort, recall, nearest = 0, 0.0, min(10, len(self))
        if not nearest:
            return 0
        _, exact = _search(self._index, queries, nearest, exact=True)
        # Try one effort after the other, and count the results at least as near as the tenth.
        for effort in _EFFORTS:
            self._index.expansion_search = effort
            _, found = _search(self._index, queries, min(SHORTLIST * nearest, len(self)))
            recall = float(np.minimum((found <= exact[:, -1:]).sum(axis=1), nearest).mean()) / nearest
            if recall >= _GOOD_RECALL:
                return effort
        return effort if recall >= _RECALL else 0
