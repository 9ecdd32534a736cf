"""HNSW segments: approximate vector indexes beside a database, one per bucket of rows.

A bucket is a range of consecutive rowids. Rowids only grow, so a full bucket never gets another row. Its segment is
built then, and never changed. Removed rows stay in the segment; they are dropped when its results are looked up in the
database. A segment contains rowids, and vectors of one byte per number. It is mapped into memory, so that opening it
takes almost no time, and processes share it. A search in a million rows takes an eleventh of the time of exact search
(`bench_large`).

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import ctypes
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.file_lock import sync_file

Numbers = NDArray[np.int64]

BUCKET_BITS = 16  # 65,536 rows per bucket: a segment is built in seconds, and a million rows have sixteen
SHORTLIST = 64  # least number of candidates to score again, as one byte per number ranks neighbours badly

_SLICE_ROWS = 512  # rows per call when a segment is built; a build can be cancelled between calls
_SAMPLE_ROWS = 64  # rows used as queries to measure the recall of a segment
_EFFORTS = (64, 128, 256, 512)  # candidates that a search keeps (ef in the paper); the smallest that suffices is used
_MAX_GRAPH_COUNT = 1024  # beyond this number of results, a search compares all rows
_RECALL = 0.99  # required recall of the ten nearest rows
_MARK = re.compile(r"[0-9A-F]{12}")
_NAME = re.compile(r"([0-9A-F]{12})-(\d+)-(\d+)-(\d+)\.usearch")


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
        corpus: The mark of its database.
        number: The number of its bucket.
        rows: The number of rows in the segment.
        effort: The number of candidates that a search keeps; 0 to compare all rows.
    """

    path: Path
    corpus: str
    number: int
    rows: int
    effort: int

    def open(self, checksum: str) -> "Segment | None":
        """Open the segment, or return `None` if it cannot be read.

        It must have this checksum. A damaged file is removed, so that the next write builds the segment again.
        """
        # usearch trusts what it maps: a damaged or foreign file can end the process.
        with suppress(OSError, RuntimeError, ValueError):
            if compute_checksum(self.path) == checksum:
                return Segment(self)
        with suppress(OSError):
            # If the file cannot even be read, it may be intact, and the system out of memory or file handles.
            self.path.read_bytes()
            self.path.unlink()
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
        SegmentFile(folder / name, match[1], int(match[2]), int(match[3]), int(match[4]))
        for name, match in matches
        if match
    ]


class Segment:
    """An open segment, mapped into memory; one user at a time.

    Raises:
        ValueError, RuntimeError, OSError: If the file is not a segment, or is truncated.
    """

    def __init__(self, file: SegmentFile) -> None:
        self._index = _import_usearch().Index.restore(str(file.path), view=True)
        if self._index is None or len(self._index) != file.rows:
            raise ValueError(f"{str(file.path)!r} is not a segment")
        self.name = file.path.name
        self._effort = file.effort
        self.dim = int(self._index.ndim)

    def find_nearest(self, query: Floats, count: int) -> tuple[Numbers, Floats]:
        """Return the rowids of approximately the `count` nearest rows, with approximate cosines."""
        # For many results, the graph is no faster than comparing all rows, and misses rows with few links to them.
        is_exact = not self._effort or count > _MAX_GRAPH_COUNT or 8 * count > len(self._index)
        self._index.expansion_search = max(self._effort, count)
        matches = self._index.search(query, count, threads=1, exact=is_exact)
        return matches.keys.astype(np.int64), 1 - matches.distances


class SegmentMaker:
    """Builds the segment of one bucket, one slice of rows at a time.

    Args:
        numbers: `(n,) int64`, the rowids.
        vectors: `(n, dim) float32`, their vectors.
    """

    def __init__(self, numbers: Numbers, vectors: Floats) -> None:
        self._numbers, self._vectors = numbers, vectors
        self._index: Any = _import_usearch().Index(
            ndim=vectors.shape[1], metric="cos", dtype="i8", connectivity=16, expansion_add=128
        )

    def slices(self) -> Iterator[slice]:
        """Return the slices to pass to `add`, in order."""
        return (slice(start, start + _SLICE_ROWS) for start in range(0, len(self._numbers), _SLICE_ROWS))

    def add(self, part: slice) -> None:
        """Add the rows of one slice, on all cores."""
        self._index.add(self._numbers[part].astype(np.uint64), self._vectors[part])

    def save(self, folder: Path, corpus: str, number: int) -> tuple[str, str]:
        """Measure the effort that a search needs, and write the file, all or nothing.

        Returns:
            The name of the file, and its checksum.
        """
        final = folder / f"{corpus}-{number}-{len(self._numbers)}-{self._measure_effort()}.usearch"
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

    def _measure_effort(self) -> int:
        """Return the smallest effort that reaches the required recall.

        The result is 0 if none does, as for vectors without any structure: then a search compares all rows.
        """
        # The queries are rows of the bucket. Find the exact cosine of the tenth nearest other row of each.
        step = max(1, len(self._numbers) // _SAMPLE_ROWS)
        queries = self._vectors[::step]
        cosines = queries @ self._vectors.T
        # A row is not its own neighbour.
        cosines[np.arange(len(queries)), np.arange(0, len(self._numbers), step)] = -np.inf
        ten = min(10, len(self._numbers) - 1)
        tenth = np.partition(cosines, -ten, axis=1)[:, -ten, None] if ten else cosines
        # Try one effort after the other, and count the results at least as near as the tenth.
        position_of = {number: position for position, number in enumerate(self._numbers.tolist())}
        for effort in _EFFORTS:
            self._index.expansion_search = effort
            matches = self._index.search(queries, SHORTLIST)
            hits = 0
            for row, (keys, count) in enumerate(zip(matches.keys, matches.counts, strict=True)):
                positions = [position_of[int(key)] for key in keys[:count]]
                hits += int((cosines[row, positions] >= tenth[row]).sum())
            if hits >= _RECALL * ten * len(queries):
                return effort
        return 0
