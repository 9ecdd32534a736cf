"""Indexes over many vectors: HNSW, one file for each bucket of rows, beside the database.

Records are numbered upwards and no number is used twice, so a bucket of consecutive numbers, once full, never gains a
row. Its index is made then, and never changed: rows that leave stay in it, and are dropped when what it finds is looked
up in the database. An index holds the numbers and the vectors in bytes instead of floats, and is mapped into memory, so
that opening it costs next to nothing and many processes share it.

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import ctypes
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

Numbers = NDArray[np.int64]

BUCKET_BITS = 16  # 65,536 rows: made in seconds; a million rows are sixteen of them
SHORTLIST = 64  # how many are scored again exactly, at least; bytes alone order neighbours badly

_SLICE_ROWS = 512  # rows added at a time: cancellation takes effect between them
_SAMPLE_ROWS = 64  # rows that are searched for to measure an index
_EFFORTS = (64, 128, 256, 512)  # how many candidates a search keeps (ef), to choose from
_MAX_GRAPH_COUNT = 1024  # candidates
_RECALL = 0.99  # of the ten nearest rows of the bucket, that an effort must find
_NAME = re.compile(r"([0-9A-F]{12})-(\d+)-(\d+)-(\d+)\.usearch")


def is_installed() -> bool:
    """Return whether the extra `ann` is installed."""
    return find_spec("usearch") is not None


def _import_usearch() -> Any:
    if sys.platform == "linux":
        # Its wheels (2.26) put a C++ runtime of their own before everybody's: whatever C++ library is loaded after it,
        # such as torch or onnxruntime, crashes or hangs. The system's runtime, made visible first, stays in its place.
        with suppress(OSError):
            ctypes.CDLL("libstdc++.so.6", mode=ctypes.RTLD_GLOBAL)
    return import_module("usearch.index")


def segment_folder(database: Path) -> Path:
    """Return the folder that the indexes of a database lie in."""
    return database.with_name(database.name + "-ann")


class SegmentFile(NamedTuple):
    """What the name of an index says.

    Args:
        path: Where it is.
        corpus: The mark of the database that it belongs to.
        number: The bucket.
        rows: How many it was made of.
        effort: How many candidates a search keeps; 0 to compare all rows.
    """

    path: Path
    corpus: str
    number: int
    rows: int
    effort: int

    def open(self) -> "Segment | None":
        """Open it; one that is damaged is removed, so that the next write makes it again."""
        try:
            return Segment(self)
        except (OSError, RuntimeError, ValueError):
            with suppress(OSError):
                self.path.read_bytes()  # or else it may be whole, and the system short of something
                self.path.unlink()
            return None


def segment_files(folder: Path) -> list[SegmentFile]:
    """Return all that lie in a folder, also those of a database that was at this place before."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return [
        SegmentFile(folder / name, match[1], int(match[2]), int(match[3]), int(match[4]))
        for name, match in found
        if match
    ]


class Segment:
    """The index of one bucket, read where it lies; one user at a time.

    Raises:
        ValueError, RuntimeError, OSError: The file is no index, or is cut short.
    """

    def __init__(self, file: SegmentFile) -> None:
        self._index = _import_usearch().Index.restore(str(file.path), view=True)
        if self._index is None or len(self._index) != file.rows:
            raise ValueError(f"{str(file.path)!r} is no index")
        self._effort = file.effort
        self.dim = int(self._index.ndim)

    def nearest(self, query: Floats, count: int) -> tuple[Numbers, Floats]:
        """Return the numbers of about the `count` nearest rows, and about their cosines."""
        # Asked for much, a graph is no faster, and leaves out what few links lead to.
        is_exact = not self._effort or count > _MAX_GRAPH_COUNT or 8 * count > len(self._index)
        self._index.expansion_search = max(self._effort, count)
        found = self._index.search(query, count, threads=1, exact=is_exact)
        return found.keys.astype(np.int64), 1 - found.distances


class SegmentMaker:
    """Makes the index of one bucket, a slice at a time.

    Args:
        numbers: `(n,)`, of the rows.
        vectors: `(n, dim) float32`.
    """

    def __init__(self, numbers: Numbers, vectors: Floats) -> None:
        self._numbers, self._vectors = numbers, vectors
        self._index: Any = _import_usearch().Index(
            ndim=vectors.shape[1], metric="cos", dtype="i8", connectivity=16, expansion_add=128
        )

    def slices(self) -> Iterator[slice]:
        """Return the slices to `add`, in order."""
        return (slice(start, start + _SLICE_ROWS) for start in range(0, len(self._numbers), _SLICE_ROWS))

    def add(self, part: slice) -> None:
        """Add some rows, on all cores."""
        self._index.add(self._numbers[part].astype(np.uint64), self._vectors[part])

    def save(self, folder: Path, corpus: str, number: int) -> None:
        """Measure what effort a search needs, and write the file as a whole or not at all."""
        final = folder / f"{corpus}-{number}-{len(self._numbers)}-{self._measure_effort()}.usearch"
        partial = folder / "partial"  # one name, as one writer at a time makes indexes: a killed one leaves no litter
        try:
            self._index.save(str(partial))
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)

    def _measure_effort(self) -> int:
        """Return the least effort that finds enough, or 0: compare all; vectors without any structure need that."""
        step = max(1, len(self._numbers) // _SAMPLE_ROWS)
        queries = self._vectors[::step]
        cosines = queries @ self._vectors.T
        cosines[np.arange(len(queries)), np.arange(0, len(self._numbers), step)] = -np.inf  # not itself
        ten = min(10, len(self._numbers) - 1)
        tenth = np.partition(cosines, -ten, axis=1)[:, -ten, None] if ten else cosines
        place = {number: at for at, number in enumerate(self._numbers.tolist())}
        for effort in _EFFORTS:
            self._index.expansion_search = effort
            found = self._index.search(queries, SHORTLIST)
            hits = 0
            for row, (keys, count) in enumerate(zip(found.keys, found.counts, strict=True)):
                hits += int((cosines[row, [place[int(key)] for key in keys[:count]]] >= tenth[row]).sum())
            if hits >= _RECALL * ten * len(queries):
                return effort
        return 0
