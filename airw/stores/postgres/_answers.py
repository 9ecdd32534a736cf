"""Answers from the database of a corpus."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.protocols import CAPABILITIES, SNAPSHOT_CAPABILITIES, Columns, Rank, Request, requests as forms
from airw.stores._indexes.dense_index import check_queries
from airw.stores.own_store import OwnStore
from airw.stores.postgres import _links, _records, _settings, _vectors, _words
from airw.stores.postgres._copying import read_artifacts
from airw.stores.postgres._errors import translate_errors
from airw.stores.postgres._vector_index import KnownIndex
from airw.values import (
    ArtifactChange,
    Edge,
    Language,
    LedgerEntry,
    LinkCount,
    LinkFilter,
    Ranking,
    Record,
    TermCounts,
    UnresolvedLink,
)

if TYPE_CHECKING:
    from asyncpg import Connection


class KnownState:
    """What a store knows of its database without asking.

    Args:
        language: The language of the texts.
        index: The state of the vector index.
    """

    def __init__(self, language: _words.KnownLanguage, index: KnownIndex) -> None:
        self.language, self.index = language, index
        self.max_fan_in = LruCache[LinkFilter, tuple[str | None, int]](32)


class DatabaseContent(OwnStore):
    """The content of a database, as one connection sees it.

    Args:
        c: The connection.
        known: What is known of the database.
    """

    capabilities = CAPABILITIES

    def __init__(self, c: "Connection", known: KnownState) -> None:
        self._c, self._known = c, known

    # Records, ledger and settings: _records.py

    @override
    async def records(self, request: forms.Records) -> list[Record | None]:
        return await _records.get_records(self._c, request.ids)

    @override
    async def records_of(self, request: forms.RecordsOf) -> list[list[Record] | None]:
        ids: Any = request.artifact_ids
        return await _records.records_of(self._c, ids, request.kinds, request.limit)

    @override
    async def ledger(self, request: forms.Ledger) -> list[LedgerEntry | None]:
        ids: Any = request.ids
        return await _records.ledger(self._c, ids)

    @override
    async def artifact_ids(self, request: forms.ArtifactIds) -> list[str]:
        return await _records.artifact_ids(self._c)

    @override
    async def stale(self, request: forms.Stale) -> list[str]:
        return await _records.find_changed(self._c, request.versions, request.stamp)

    @override
    async def config(self, request: forms.Config) -> dict[str, Any]:
        return dict((await _settings.read_settings(self._c, "config")).get("", {}))

    @override
    async def calibrations(self, request: forms.Calibrations) -> dict[str, dict[str, Any]]:
        return await _settings.read_settings(self._c, "calibration")

    async def artifacts(self, request: forms.Artifacts) -> list[ArtifactChange | None]:
        """Return whole artifacts."""
        return await read_artifacts(self._c, request.ids)

    async def counts(self, request: forms.Counts) -> dict[str, int]:
        """Return how much there is."""
        return await _records.counts(self._c)

    async def schema(self, request: forms.Schema) -> Columns:
        """Return the kinds and the fields of records."""
        has_fields = await _records.has_fields(self._c, request.paths)
        fields = await _records.field_names(self._c, request.limit)
        return Columns(await _records.surface_kinds(self._c), has_fields, fields)

    # Rankings: _vectors.py, _words.py

    async def rank(self, request: Rank) -> list[Ranking]:
        """Rank by vectors or by words."""
        k = _vectors.MOST if request.k is None else request.k
        queries: Any = request.queries
        if request.needs == "lexical":
            return await self._rank_texts(request, k)
        wanted = _vectors.DenseRequest(
            k, request.filter, request.surfaces, request.per_artifact, request.among, request.records
        )
        if request.needs == "dense":
            return await _vectors.search(self._c, self._known.index, queries, wanted)
        return [await _vectors.rank_named(self._c, query, wanted) for query in check_queries(queries, None)]

    async def _rank_texts(self, request: Rank, k: int) -> list[Ranking]:
        queries: Any = request.queries
        is_named = request.among is not None or request.records is not None
        per_artifact = request.per_artifact and request.records is None
        scope = _words.TextScope(_vectors.MOST if is_named else k, request.filter, request.surfaces, per_artifact)
        found = await _words.search(self._c, self._known.language, queries, scope, request.statistics)
        return [_select(ranking, request) for ranking in found] if is_named else found

    async def words(self, request: forms.Words) -> TermCounts:
        """Return the counts behind the scores of texts."""
        return await _words.count_terms(self._c, self._known.language, request.queries)

    async def language(self, request: forms.TextLanguage) -> Language | None:
        """Return the language of the texts."""
        return await _words.read_language(self._c)

    async def vectors(self, request: forms.Vectors) -> Floats:
        """Return the vectors of records."""
        return await _vectors.vectors(self._c, request.ids)

    async def vectors_of(self, request: forms.VectorsOf) -> forms.ArtifactVectors:
        """Return the vectors of artifacts."""
        ids: Any = request.artifact_ids
        return await _vectors.vectors_of(self._c, ids)

    # Links: _links.py; links are written and resolved by _link_writing.py

    async def edges(self, request: forms.Edges) -> list[list[Edge]]:
        """Return the edges of artifacts."""
        ids: Any = request.ids
        return await _links.neighbors(self._c, ids, request.direction, request.links, request.limit)

    async def names(self, request: forms.Names) -> list[list[str]]:
        """Return what references mean."""
        return await _links.resolve(self._c, request.refs)

    async def referrers(self, request: forms.Referrers) -> list[list[str]]:
        """Return the artifacts that link to nodes."""
        nodes: Any = request.nodes
        return await _links.referrers(self._c, nodes, LinkFilter(types=request.types))

    async def max_fan_in(self, request: forms.MaxFanIn) -> int:
        """Return the largest number of referrers."""
        return await _links.max_fan_in(self._c, self._known.max_fan_in, LinkFilter(types=request.types))

    async def link_counts(self, request: forms.LinkCounts) -> list[LinkCount]:
        """Return the number of links of each kind."""
        return await _links.link_counts(self._c)

    async def unresolved_links(self, request: forms.UnresolvedLinks) -> list[UnresolvedLink]:
        """Return the links that lead to no artifact, or to several."""
        ids: Any = request.artifact_ids
        return await _links.list_unresolved(self._c, ids, request.limit)

    async def matching(self, request: forms.Matching) -> list[list[str]]:
        """Return the artifacts with values of fields."""
        return await _records.matching(self._c, request.wanted, request.limit)


class Snapshot(DatabaseContent):
    """The content of a database at one moment.

    Args:
        c: A connection in a transaction.
        known: What is known of the database.
        place: The database, in words.
    """

    capabilities = SNAPSHOT_CAPABILITIES

    def __init__(self, c: "Connection", known: KnownState, place: str) -> None:
        super().__init__(c, known)
        self._place = place

    @override
    async def read(self, *requests: Request[Any]) -> list[Any]:
        with translate_errors(self._place):
            return await super().read(*requests)


def is_of_one_state(requests: Sequence[Request[Any]]) -> bool:
    """Return whether answers are of one state without a transaction, as of one statement."""
    match requests:
        case [Rank(queries, needs="scores")]:
            return len(queries) == 1
        case [request]:
            return not isinstance(request, forms.Schema)
    return False


def _select(ranking: Ranking, request: Rank) -> Ranking:
    """Return the part of a ranking about the artifacts or records that a request names."""
    artifacts, records = (None if ids is None else frozenset(ids) for ids in (request.among, request.records))
    places, seen = list[int](), set[str]()
    for place, (record_id, artifact_id) in enumerate(zip(ranking.record_ids, ranking.artifact_ids, strict=True)):
        is_named = (artifacts is None or artifact_id in artifacts) and (records is None or record_id in records)
        if is_named and not (request.per_artifact and artifact_id in seen):
            places.append(place)
            seen.add(artifact_id)
    places = places[: request.k]
    ids, artifact_ids = ([column[at] for at in places] for column in (ranking.record_ids, ranking.artifact_ids))
    return Ranking(ids, artifact_ids, np.asarray(ranking.scores)[places], ranking.max_score)
