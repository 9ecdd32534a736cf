"""Approximate vector search in a large file, by one index of usearch beside it.

The index contains the rows of the saved vectors, under the numbers of their records. It has one byte per number of a
vector, so its results are only candidates. It is mapped into memory, so that opening it takes almost no time, and
processes share it (`bench_large`).

It is a graph of HNSW, from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using
Hierarchical Navigable Small World graphs", IEEE TPAMI, 2018.
"""

import ctypes
import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.file_lock import sync_file
from airw._base.overriding import override
from airw.stores._indexes.dense_index import DenseIndex, check_queries, multiply
from airw.stores._indexes.vector_rows import CODE, NUMBER, FirstRows, Rows
from airw.values import Ranking

EXACT_ROWS = 200_000  # up to this number of records, search is exact and needs no index

_BUILD_EFFORT = 128  # candidates among which a new row looks for its neighbours
_HELD_OUT = 64  # each such row is added last, to measure the recall of an index with rows that are not in it
_NEAREST = 10
_QUERIES = 128  # rows with which it is measured
_RECALL = 0.99  # required recall of the nearest
_GOOD_RECALL = 0.995  # with which no more effort is tried: what is measured with few rows may be too good
# Rows that a search keeps (ef in the paper); the smallest that suffices is chosen. With 40, as many as there are
# candidates for ten results, other queries found 0.98 of the nearest where the measured ones found 0.995.
_EFFORTS = (64, 96, 128, 192, 256, 512)

_SHORTLIST = 4  # candidates per result, as bytes rank neighbours badly
_MARGIN = 2  # candidates per result that must be left, as the index may miss rows near the end of its list
_GROWTH = 8  # factor by which there are more candidates if too few are left
_MAX_CANDIDATES = 1024  # beyond that, a product with all rows is as fast, and misses none
_ALLOWED_PER_CANDIDATE = 16  # allowed rows that are compared in the time in which the index finds one candidate


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


def restore_index(path: Path, known: Mapping[str, Any], dim: int, *, view: bool) -> Any:
    """Return the index in a file, mapped or in memory, or `None` if it cannot be read.

    It must be what `NearMaker.save` returned. A damaged file is removed, so that the next write builds it again.
    """
    if not is_installed() or not known.get("effort"):
        return None
    # usearch trusts what it reads: a damaged or foreign file can end the process.
    with suppress(OSError, RuntimeError, ValueError):
        if _compute_checksum(path) == known.get("checksum"):
            index = _import_usearch().Index.restore(str(path), view=view)
            if index is not None and index.ndim == dim:
                return index
    with suppress(OSError):
        # If the file cannot even be read, it may be intact, and the system out of memory or file handles.
        path.read_bytes()
        path.unlink()
    return None


def _compute_checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NearMaker:
    """Builds an index, a few rows at a time, on all cores.

    Args:
        dim: The width of the vectors.
        index: The index to begin with; `None` for an empty one.
        effort: The number of candidates that a search of that index keeps.
        last: The highest number in that index.
    """

    def __init__(self, dim: int, index: Any = None, effort: int = 0, last: int = 0) -> None:
        empty = {"ndim": dim, "metric": "cos", "dtype": "i8", "connectivity": 16}
        self._index = _import_usearch().Index(**empty) if index is None else index
        self._index.expansion_add, self._effort = _BUILD_EFFORT, effort
        self._last = last
        self._held_out: list[tuple[NDArray[np.int64], Floats]] = []  # rows that are added in the end

    def add(self, numbers: NDArray[np.int64], vectors: Floats) -> None:
        """Add the rows that are not in the index yet."""
        is_new = numbers > self._last
        numbers, vectors = numbers[is_new], vectors[is_new]
        if not len(numbers):
            return
        is_held_out = np.arange(len(numbers)) % _HELD_OUT == 0
        self._held_out.append((numbers[is_held_out], vectors[is_held_out]))
        self._index.add(numbers[~is_held_out].astype(np.uint64), vectors[~is_held_out])

    def save(self, path: Path) -> dict[str, Any]:
        """Measure the effort of a search, and write the file.

        Returns what `restore_index` must know.
        There is no file if no effort suffices, as for vectors without any structure: then a search compares all rows.
        """
        if self._held_out:
            numbers, vectors = map(np.concatenate, zip(*self._held_out, strict=True))
            self._effort = self._measure_effort(vectors[:: -(-len(vectors) // _QUERIES)])
            self._index.add(numbers.astype(np.uint64), vectors)
        if not self._effort:
            return {"effort": 0}
        self._index.save(str(path))
        sync_file(path)
        return {"effort": self._effort, "checksum": _compute_checksum(path)}

    def _measure_effort(self, queries: Floats) -> int:
        """Return the smallest effort that reaches the required recall; 0 if none does.

        The queries are rows that are not in the index yet: each would find itself, and the rows that it was linked
        with.
        """
        farthest = np.atleast_2d(self._index.search(queries, _NEAREST, threads=1, exact=True).distances)[:, -1:]
        # Try one effort after the other, and count the results at least as near as the tenth.
        effort, recall = 0, 0.0
        for effort in _EFFORTS:
            self._index.expansion_search = effort
            found = np.atleast_2d(self._index.search(queries, _SHORTLIST * _NEAREST, threads=1).distances)
            recall = float(np.minimum((found <= farthest).sum(axis=1), _NEAREST).mean()) / _NEAREST
            if recall >= _GOOD_RECALL:
                break
        return effort if recall >= _RECALL else 0


class NearRows:
    """An open index.

    Args:
        index: The index of usearch.
        effort: The number of candidates that a search keeps.
    """

    def __init__(self, index: Any, effort: int) -> None:
        self._index, self._effort = index, effort
        # A search in one thread uses working memory of the index, and its only setting.
        self._searching = Lock()

    def find(self, query: Floats, count: int) -> NDArray[np.int64]:
        """Return the numbers of about `count` nearest rows; a few may be missed."""
        with self._searching:
            self._index.expansion_search = max(count, self._effort)
            numbers: NDArray[np.int64] = self._index.search(query, count, threads=1).keys.astype(np.int64)
        return numbers


class NearIndex(DenseIndex):
    """The vectors of all records of a file, of which the first may be in an index of usearch.

    Candidates come from that index, and from a product with the other rows; they are nearly always the nearest rows.
    They are then filtered, and scored and ranked as by `DenseIndex`, so scores are exact. If too few are left, there
    are more candidates, and in the end all rows are compared. So results are exact for a filter that matches few rows,
    or none near the query. Without that index, all results are exact.
    """

    def __init__(self, room: int = 0, first: FirstRows | None = None, near: NearRows | None = None) -> None:
        super().__init__(room, first)
        self.near = near  # `None` to compare all rows

    @override
    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: NDArray[np.int64] | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        options: Any = {"allowed": allowed, "surfaces": surfaces, "per_artifact": per_artifact}
        wanted = _SHORTLIST * k
        if allowed is not None:
            wanted = wanted * len(self) // max(len(allowed), 1)
        is_narrow = allowed is not None and len(allowed) <= _ALLOWED_PER_CANDIDATE * wanted
        if self.near is None or is_narrow or not 0 < wanted <= _MAX_CANDIDATES:
            return super().search(queries, k, **options)
        rankings = list[Ranking]()
        for query in check_queries(queries, self.dim)[:, np.newaxis]:
            rows = self._find_near(self.near, query, k, wanted, **options)
            if rows is None:
                rankings += super().search(query, k, **options)
            else:
                rankings += self._rank(query, [rows], k, per_artifact=per_artifact)
        return rankings

    @override
    def search_if_quick(self, queries: Floats, k: int, *, per_artifact: bool = False) -> list[Ranking] | None:
        # A query finds the same whether it is quick or not.
        return super().search_if_quick(queries, k, per_artifact=per_artifact) if self.near is None else None

    def _find_near(
        self,
        near: NearRows,
        query: Floats,
        k: int,
        wanted: int,
        *,
        allowed: NDArray[np.int64] | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> Rows | None:
        """Return enough allowed candidates; `None` if these are too many."""
        numbers = self._column(NUMBER, slice(self._start))
        while wanted <= _MAX_CANDIDATES:
            found = near.find(query[0], wanted)
            # The index has rows that were removed before its vectors were saved.
            places, is_saved = _find_ascending(numbers, found)
            rows: Rows = np.concatenate([places[is_saved], self._find_added(query, wanted)])
            is_candidate = ~self._dead[rows]
            if allowed is not None:
                is_candidate &= _find_ascending(allowed, self._column(NUMBER, rows))[1]
            if surfaces is not None:
                is_candidate &= self._match_kinds(rows, surfaces)
            rows = rows[is_candidate]
            if len(np.unique(self._column(CODE, rows)) if per_artifact else rows) >= _MARGIN * k:
                return rows
            wanted *= _GROWTH
        return None

    def _find_added(self, query: Floats, count: int) -> Rows:
        """Return the nearest of the rows that are not in the index, or a few more."""
        matrices = self._matrices(self._start)
        if not matrices:
            return np.empty(0, np.int64)
        scores = multiply(query, matrices)[0]
        scores[self._dead[self._start : self._count]] = -np.inf
        nearest: Rows = self._start + scores.argpartition(max(0, len(scores) - count))[-count:]
        return nearest


def _find_ascending(ascending: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return where each number is, and whether it is there."""
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return places, ascending[places] == numbers
