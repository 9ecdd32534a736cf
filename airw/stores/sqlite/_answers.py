"""Answers from the file of a corpus, and from the indexes of it in memory."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.protocols import Fed, Rank, Request, requests as forms
from airw.stores._engine import Content, Finish, rank_named_if_quick, ready
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.texts import find_texts, read_language
from airw.stores._indexes.value_index import ValueIndex, match_values
from airw.stores.sqlite import _links, _records
from airw.stores.sqlite._connection import FileVersion
from airw.stores.sqlite._field_indexes import FieldIndex, FilterIndex
from airw.stores.sqlite._vectors import VectorIndex
from airw.values import Contains
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

_CACHED = 32  # fields of `Matching`, and kinds of links of `MaxFanIn`, that are kept in memory
_QUICK = 100  # artifacts or records: comparing them takes less than a millisecond


class FileIndexes:
    """The indexes of a file in memory.

    Each is brought up to date by one reader at a time, in snapshots that only get newer: under its lock.

    Args:
        folder: The folder of the saved vectors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filters_lock, self._vectors_lock, self._fields_lock, self._links_lock = (Lock() for _ in range(4))
        self.edges = _links.LinkIndex(self._links_lock)
        self.clear()

    def clear(self) -> None:
        """Forget all, as the file is closed or another one."""
        self.filters = FilterIndex()
        self.vectors = VectorIndex(self._folder)
        self.words = InvertedIndex()
        self.words_version: FileVersion | None = None  # of which `words` shows the texts, if known
        self.config: tuple[FileVersion | None, dict[str, Any]] = (None, {})  # the settings, and of which version
        self.fields = LruCache[str, FieldIndex](_CACHED)
        self.edges.clear()
        self.max_fan_in = LruCache[tuple[int, str | None], int](_CACHED)

    def locks_for(self, requests: Sequence[Request[Any]]) -> list[Lock]:
        """Return the locks of the indexes that requests use, in the order in which they are taken."""
        used = set[Lock]()
        for fed in requests:
            request = fed.request if isinstance(fed, Fed) else fed
            if isinstance(request, Rank) and request.filter is not None:
                used.add(self._filters_lock)
            if isinstance(request, forms.Matching):
                used.add(self._fields_lock)
            elif isinstance(request, forms.Edges | forms.MaxFanIn):
                used.add(self._links_lock)
            elif isinstance(request, forms.Vectors | forms.VectorsOf) or (
                isinstance(request, Rank)
                and (request.needs != "lexical" or request.among is not None or request.records is not None)
            ):
                used.add(self._vectors_lock)
        locks = (self._filters_lock, self._vectors_lock, self._fields_lock, self._links_lock)
        return [lock for lock in locks if lock in used]

    def prepare_if_quick(self, version: FileVersion | None, request: Request[Any]) -> Finish | None:
        """Prepare an answer from memory if that has this version and is quick; else `None`."""
        answer: Any = None
        match request:
            case Rank(queries, int(k), None, None, per_artifact, None, None, counts, None) if (
                request.needs == "lexical"
            ):
                if version is not None and version == self.words_version:
                    options: Any = {"per_artifact": per_artifact, "statistics": counts}
                    answer = self.words.rank_if_quick(queries, k, **options)  # type: ignore[arg-type]
            case forms.Config():
                known, config = self.config
                answer = deepcopy(config) if version is not None and version == known else None
            case forms.Edges():
                answer = self.edges.find_at_once(request, version)
            case Rank() | forms.VectorsOf() if request.needs != "lexical":
                index = self.vectors.find_latest(version)
                return None if index is None else _prepare_if_quick(index, request)
        return None if answer is None else ready(answer)


def _prepare_if_quick(index: DenseIndex, request: "Rank | forms.VectorsOf") -> Finish | None:
    """Prepare an answer from vectors, if that is quick."""
    match request:
        case forms.VectorsOf(ids):
            return partial(index.vectors_of, ids) if index.has_few(ids, _QUICK) else None  # type: ignore[arg-type]
        case Rank(queries, int(k), None, None, per_artifact, None, None, None, None):
            found = index.search_if_quick(queries, k, per_artifact=per_artifact)  # type: ignore[arg-type]
            return None if found is None else ready(found)
        case Rank(needs="scores"):
            return rank_named_if_quick(index, request, _QUICK)
    return None


_READERS: Mapping[type, Callable[["sqlite3.Connection", Any], Any]] = {
    forms.Records: _records.records,
    forms.RecordsOf: _records.records_of,
    forms.Ledger: _records.ledger,
    forms.Artifacts: _records.artifacts,
    forms.ArtifactIds: _records.artifact_ids,
    forms.Stale: _records.stale,
    forms.Config: _records.config,
    forms.Calibrations: _records.calibrations,
    forms.Counts: _records.counts,
    forms.Schema: _records.schema,
    forms.TextLanguage: lambda connection, _: read_language(connection),
    forms.Names: _links.names,
    forms.Referrers: _links.referrers,
    forms.LinkCounts: _links.link_counts,
    forms.UnresolvedLinks: _links.unresolved_links,
}
"""What answers the requests that need no index in memory."""


class FileContent(Content):
    """The content of a file in one snapshot.

    Args:
        connection: A connection in the snapshot.
        indexes: The indexes of the file; the caller holds the locks of those that are used.
        version: A version of the file that is not newer than the snapshot; `None` if it is unknown.
    """

    def __init__(self, connection: "sqlite3.Connection", indexes: FileIndexes, version: FileVersion | None) -> None:
        self._connection, self._indexes, self._version = connection, indexes, version

    @override
    def prepare(self, request: Request[Any]) -> Finish:
        read = _READERS.get(type(request))
        return super().prepare(request) if read is None else ready(read(self._connection, request))

    # Rankings

    @override
    def dense(self) -> DenseIndex:
        return self._indexes.vectors.update(self._connection, self._version)

    @override
    def match(self, filter: Filter) -> NDArray[np.int64]:
        return self._indexes.filters.match(self._connection, filter)

    @override
    def find_texts(self, contains: Contains) -> NDArray[np.int64]:
        return find_texts(self._connection, contains)

    @override
    def rank_texts(self, request: Rank, allowed: NDArray[np.int64] | None) -> Finish:
        return partial(
            self._indexes.words.rank,
            self._connection,
            request.queries,  # type: ignore[arg-type]
            1 << 40 if request.k is None else request.k,
            allowed=allowed,
            surfaces=request.surfaces,
            per_artifact=request.per_artifact,
            statistics=request.statistics,
            contains=request.contains,
        )

    def words(self, request: forms.Words) -> Finish:
        """Return the counts behind the scores of texts."""
        return partial(self._indexes.words.count_terms, self._connection, request.queries)

    # Links

    def edges(self, request: forms.Edges) -> Finish:
        """Return the edges of artifacts."""
        return ready(self._indexes.edges.read(self._connection, request, self._version))

    def max_fan_in(self, request: forms.MaxFanIn) -> Finish:
        """Return the largest number of referrers."""
        return ready(_links.max_fan_in(self._connection, self._indexes.max_fan_in, request))

    def matching(self, request: forms.Matching) -> Finish:
        """Return the artifacts with values of fields."""

        def index_of(name: str) -> ValueIndex:
            return self._indexes.fields.get_or_create(name, FieldIndex).update(self._connection)

        return ready(match_values(index_of, request.wanted, request.limit))
