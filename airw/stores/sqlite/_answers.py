"""Answers from the file of a corpus, and from the indexes of it in memory."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.protocols import Columns, Fed, Rank, Request, requests as forms
from airw.stores._engine import Content, Finish, rank_named_if_quick, ready
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.texts import read_language
from airw.stores._indexes.value_index import ValueIndex, match_values
from airw.stores.sqlite import _links, _records
from airw.stores.sqlite._adjacency import LinkIndex
from airw.stores.sqlite._artifacts import read_artifacts
from airw.stores.sqlite._field_indexes import FieldIndex, FilterIndex
from airw.stores.sqlite._vector_index import VectorIndex
from airw.stores.sqlite._watch import FileVersion
from airw.values import LinkFilter
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
        self.edges = LinkIndex(self._links_lock)
        self.clear()

    def clear(self) -> None:
        """Forget all, as the file is closed or another one."""
        self.filters = FilterIndex()
        self.vectors = VectorIndex(self._folder)
        self.words = InvertedIndex()
        self.words_version: FileVersion | None = None  # of which `words` shows the texts, if known
        self.fields = LruCache[str, FieldIndex](_CACHED)
        self.edges.clear()
        self.max_fan_in = LruCache[_links.FanInKey, int](_CACHED)

    def locks_for(self, requests: Sequence[Request[Any]]) -> list[Lock]:
        """Return the locks of the indexes that requests use, in the order in which they are taken."""
        kinds = {type(request.request if isinstance(request, Fed) else request) for request in requests}
        ranks = [request for request in _plain(requests) if isinstance(request, Rank)]
        uses = {
            self._filters_lock: any(request.filter is not None for request in ranks),
            self._vectors_lock: bool({forms.Vectors, forms.VectorsOf} & kinds) or any(map(_uses_vectors, ranks)),
            self._fields_lock: forms.Matching in kinds,
            self._links_lock: bool({forms.Edges, forms.MaxFanIn} & kinds),
        }
        return [lock for lock, is_used in uses.items() if is_used]

    def may_be_quick(self, requests: Sequence[Request[Any]]) -> bool:
        """Return whether all may be answered from memory; a process has nothing there at first."""

        def is_used(request: Request[Any]) -> bool:
            if isinstance(request, forms.Edges):
                return self.edges.is_used
            if request.needs == "lexical":
                return self.words.is_used
            return isinstance(request, Rank | forms.VectorsOf) and self.vectors.is_used

        return all(map(is_used, _plain(requests)))

    def prepare_if_quick(self, version: FileVersion | None, request: Request[Any]) -> Finish | None:
        """Prepare an answer from memory if that has this version and is quick; else `None`."""
        match request:
            case Rank(queries, int(k), None, None, per_artifact, None, None, None) if request.needs == "lexical":
                if version is None or version != self.words_version:
                    return None
                found = self.words.rank_if_quick(queries, k, per_artifact=per_artifact)  # type: ignore[arg-type]
                return None if found is None else ready(found)
            case forms.Edges():
                rows = self.edges.find_at_once(request, version)
                return None if rows is None else ready(rows)
            case Rank() | forms.VectorsOf() if request.needs != "lexical":
                index = self.vectors.find_latest(version)
                return None if index is None else _prepare_if_quick(index, request)
        return None


def _plain(requests: Sequence[Request[Any]]) -> list[Request[Any]]:
    return [request.request if isinstance(request, Fed) else request for request in requests]


def _uses_vectors(request: Rank) -> bool:
    return request.needs != "lexical" or request.among is not None or request.records is not None


def _prepare_if_quick(index: DenseIndex, request: "Rank | forms.VectorsOf") -> Finish | None:
    """Prepare an answer from vectors, if that is quick."""
    match request:
        case forms.VectorsOf(ids):
            return partial(index.vectors_of, ids) if index.has_few(ids, _QUICK) else None  # type: ignore[arg-type]
        case Rank(queries, int(k), None, None, per_artifact, None, None, None):
            found = index.search_if_quick(queries, k, per_artifact=per_artifact)  # type: ignore[arg-type]
            return None if found is None else ready(found)
        case Rank(needs="scores"):
            return rank_named_if_quick(index, request, _QUICK)
    return None


class FileContent(Content):
    """The content of a file in one snapshot.

    Args:
        connection: A connection in the snapshot.
        indexes: The indexes of the file; the caller holds the locks of those that are used.
        version: A version of the file that is not newer than the snapshot; `None` if it is unknown.
    """

    def __init__(self, connection: "sqlite3.Connection", indexes: FileIndexes, version: FileVersion | None) -> None:
        self._connection, self._indexes, self._version = connection, indexes, version

    # Records, the ledger and settings

    def records(self, request: forms.Records) -> Finish:
        """Return records by id."""
        return ready(_records.get_records(self._connection, request.ids))

    def records_of(self, request: forms.RecordsOf) -> Finish:
        """Return the records of artifacts."""
        ids: Any = request.artifact_ids
        return ready(_records.records_of(self._connection, ids, request.kinds, request.limit))

    def ledger(self, request: forms.Ledger) -> Finish:
        """Return ledger entries, of some artifacts or of all."""
        ids: Any = request.ids
        return ready(_records.ledger(self._connection, ids))

    def artifacts(self, request: forms.Artifacts) -> Finish:
        """Return whole artifacts."""
        return ready(read_artifacts(self._connection, request.ids))

    def artifact_ids(self, request: forms.ArtifactIds) -> Finish:
        """Return all ids, sorted."""
        return ready(_records.artifact_ids(self._connection))

    def stale(self, request: forms.Stale) -> Finish:
        """Return the artifacts to index again."""
        return ready(_records.find_changed(self._connection, request.versions, request.stamp))

    def config(self, request: forms.Config) -> Finish:
        """Return the settings."""
        return ready(dict(_records.read_settings(self._connection, "config").get("", {})))

    def calibrations(self, request: forms.Calibrations) -> Finish:
        """Return the calibrations by key."""
        return ready(_records.read_settings(self._connection, "calibration"))

    def counts(self, request: forms.Counts) -> Finish:
        """Return how much there is."""
        return ready(_records.counts(self._connection))

    def schema(self, request: forms.Schema) -> Finish:
        """Return the kinds and the fields of records."""
        connection = self._connection
        kinds, fields = _records.surface_kinds(connection), _records.field_names(connection, request.limit)
        return ready(Columns(kinds, _records.has_fields(connection, request.paths), fields))

    # Rankings

    @override
    def dense(self) -> DenseIndex:
        return self._indexes.vectors.update(self._connection, self._version)

    @override
    def match(self, filter: Filter) -> NDArray[np.int64]:
        return self._indexes.filters.match(self._connection, filter)

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
        )

    def words(self, request: forms.Words) -> Finish:
        """Return the counts behind the scores of texts."""
        return partial(self._indexes.words.count_terms, self._connection, request.queries)

    def language(self, request: forms.TextLanguage) -> Finish:
        """Return the language of the texts."""
        return ready(read_language(self._connection))

    # Links

    def edges(self, request: forms.Edges) -> Finish:
        """Return the edges of artifacts."""
        return ready(self._indexes.edges.read(self._connection, request, self._version))

    def names(self, request: forms.Names) -> Finish:
        """Return what references mean."""
        return ready(_links.resolve(self._connection, request.refs))

    def referrers(self, request: forms.Referrers) -> Finish:
        """Return the artifacts that link to nodes."""
        nodes: Any = request.nodes
        return ready(_links.referrers(self._connection, nodes, LinkFilter(types=request.types)))

    def max_fan_in(self, request: forms.MaxFanIn) -> Finish:
        """Return the largest number of referrers."""
        links = LinkFilter(types=request.types)
        return ready(_links.max_fan_in(self._connection, self._indexes.max_fan_in, links))

    def link_counts(self, request: forms.LinkCounts) -> Finish:
        """Return the number of links of each kind."""
        return ready(_links.link_counts(self._connection))

    def unresolved_links(self, request: forms.UnresolvedLinks) -> Finish:
        """Return the links that lead to no artifact, or to several."""
        ids: Any = request.artifact_ids
        return ready(_links.list_unresolved(self._connection, ids, request.limit))

    def matching(self, request: forms.Matching) -> Finish:
        """Return the artifacts with values of fields."""

        def index_of(name: str) -> ValueIndex:
            return self._indexes.fields.get_or_create(name, FieldIndex).update(self._connection)

        return ready(match_values(index_of, request.wanted, request.limit))
