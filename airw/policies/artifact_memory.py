"""The memory of a walk over artifacts: their best surfaces, their cosines, and the scope.

Artifacts are identified by the ids of their store. Policies compare ids and look them up, but never take them apart.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Any, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import offload_if
from airw._base.vectors import exact_scores
from airw.links.columns import LinkColumnReader, Numbers
from airw.policies._capabilities import embed, require
from airw.policies._read_ahead import Lookahead, ReadOptions
from airw.policies._several_corpora import Id
from airw.policies.scope import ALLOW_ALL, Permissions, Scope
from airw.protocols import OpenCorpus, RecordLookup, StepReader, VectorSearch
from airw.values import Record, SearchHit
from airw.walking import CommittedNode, CommittedNodes, Frontier

_OFFLOAD_ABOVE = 1 << 20  # numbers; comparing this many with a query takes about a millisecond
_MAX_KNOWN = 1_000  # ids that are sent with a call, so that the store does not compare these artifacts again
_ALLOWED = Permissions(start=True, cross=True, keep=True)

A = TypeVar("A", bound="ArtifactMemory")


@dataclass(slots=True, eq=False)
class ArtifactMemory:
    """The memory of one walk over artifacts.

    Args:
        query: The query of the walk.
        scope: The artifacts that the walk may start from, cross and return.
        keeps_records: Whether records are kept once they are read, because their fields lead on or decide the scope.
        vector: The vector of the query, `(dim,) float32`; `None` until it is embedded.
        best_surfaces: The record id and the cosine of each artifact's best surface. An artifact without surfaces has
            the record id `None`.
        records: The records that were kept, by id.
        permissions: What the walk may do with each artifact, as far as the scope was applied.
        artifacts_by_value: The artifacts that each field value leads to, by the key of the `FieldValue`.
        unchecked_roots: The roots of which nobody knows yet whether they exist.
        reader: Reads the links of a walk in columns, and names its nodes; `None` in any other walk.
        ahead: What was read for the next calls, from a store that reads a whole step in one call.
    """

    query: str
    scope: Scope = ALLOW_ALL
    keeps_records: bool = False
    vector: Floats | None = None
    best_surfaces: dict[Id, tuple[str | None, float]] = field(default_factory=dict)
    records: dict[str, Record | None] = field(default_factory=dict)
    permissions: dict[Id, Permissions] = field(default_factory=dict)
    artifacts_by_value: dict[Hashable, Sequence[Id]] = field(default_factory=dict)
    unchecked_roots: list[Id] = field(default_factory=list)
    reader: LinkColumnReader | None = None
    ahead: Lookahead = field(default_factory=Lookahead)

    def ids_of(self, nodes: Sequence[Any] | Numbers) -> list[Id]:
        """Return the ids of nodes; in a walk in columns these are numbers."""
        if isinstance(nodes, np.ndarray):
            return self._name(nodes)
        return [node.id for node in nodes]

    def ids_at(self, frontier: Frontier, positions: Sequence[int]) -> list[Id]:
        """Return the ids at positions of the frontier."""
        if self.reader is None:
            return [frontier.ids[position] for position in positions]
        return self._name(cast("Numbers", frontier.nodes)[np.array(positions, np.intp)])

    def ids_of_committed(self, committed: Sequence[CommittedNode]) -> list[Id]:
        """Return the ids of committed nodes."""
        if self.reader is None:
            return [entry.node.id for entry in committed]
        return cast("CommittedNodes", committed).ids

    def _name(self, numbers: Numbers) -> list[Id]:
        return cast("LinkColumnReader", self.reader).find_ids(numbers)

    async def embed_query(self, corpus: OpenCorpus[object]) -> Floats:
        """Return the query's vector, `(dim,) float32`; it is embedded once per walk."""
        if self.vector is None:
            self.vector = await embed(corpus, self.query)
        return self.vector

    async def score(self, ids: Sequence[Id], corpus: OpenCorpus[object]) -> NDArray[np.float64]:
        """Return the cosine of each artifact's best surface; `-inf` for one without surfaces.

        One store call for the artifacts that were not scored before.
        """
        query = await self.embed_query(corpus)
        new_ids = [id for id in ids if id not in self.best_surfaces]
        self.best_surfaces.update(self.ahead.take_best(new_ids))
        new_ids = [id for id in new_ids if id not in self.best_surfaces]
        if new_ids:
            store = require(corpus, "best_of", "a policy that scores artifacts")
            self.remember(new_ids, *await store.best_of(query, new_ids))
        return self.cosines(ids)

    async def read_step(
        self,
        ids: Sequence[Id],
        hit_ids: Sequence[Id],
        store: StepReader,
        *,
        query: Floats | None,
        links: Mapping[str, Any],
        options: ReadOptions,
        visited: Container[Id],
    ) -> None:
        """Read a step in one call, for the calls that follow.

        Args:
            ids: The artifacts whose edges to read.
            hit_ids: The artifacts whose best records to read.
            store: The store.
            query: The vector of the query; `None` for first records.
            links: The options of `neighbors`.
            options: What to read of the ends.
            visited: The artifacts that are committed.
        """

        def is_known(id: Id) -> bool:
            if options.with_vectors:  # an artifact that was dropped needs its vectors once more
                return id in visited
            return not options.max_records or self.has_record(id)

        has_ends = bool(ids) and options.max_ends > 0
        known = islice(filter(is_known, reversed(self.best_surfaces)), _MAX_KNOWN) if has_ends else ()
        answer = await store.read_step(ids, query, **links, hit_ids=hit_ids, known_ids=list(known), **options._asdict())
        self.ahead.add(ids, answer, self.best_surfaces)

    def remember(self, ids: Sequence[Id], records: Sequence[str | None], scores: Floats) -> None:
        """Store the best surface of each artifact and its cosine; NaN means no surface."""
        cosines = np.where(np.isnan(scores), -np.inf, scores).tolist()
        self.best_surfaces.update(zip(ids, zip(records, cosines, strict=True), strict=True))

    def cosines(self, ids: Iterable[Id]) -> NDArray[np.float64]:
        """Return the cosines of artifacts that were scored; `-inf` for one without surfaces."""
        return np.array([self.best_surfaces[id][1] for id in ids], np.float64)

    def has_surface(self, id: Id) -> bool:
        """Return whether an artifact that was scored has a surface."""
        return self.best_surfaces[id][0] is not None

    async def best_records(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> list[Record | None]:
        """Return the record of each artifact's best surface.

        One store call for the records that are not kept.
        """
        records = self.records if self.keeps_records else {}
        record_ids = [self.best_surfaces[id][0] for id in ids]
        records.update(self.ahead.take_records(record_ids))
        missing_ids = [record_id for record_id in record_ids if record_id is not None and record_id not in records]
        if missing_ids:
            records.update(zip(missing_ids, await corpus.store.get_records(missing_ids), strict=True))
        return [None if record_id is None else records.get(record_id) for record_id in record_ids]

    def has_record(self, id: Id) -> bool:
        """Return whether nothing has to be read for the hit of an artifact."""
        best = self.best_surfaces.get(id) or self.ahead.best.get(id)
        if best is None:
            return False
        record_id = best[0]
        return record_id is None or record_id in self.records or record_id in self.ahead.records

    def keep_records(self, ids: Iterable[Id]) -> None:
        """Keep the records of artifacts that were scored, as far as they were read ahead."""
        self.records.update(self.ahead.take_records([self.best_surfaces[id][0] for id in ids]))

    def records_in_memory(self, ids: Iterable[Id]) -> list[Record | None]:
        """Return the kept record of each artifact's best surface; `None` if none was kept."""
        return [self.records.get(self.best_surfaces[id][0] or "") for id in ids]

    async def apply_scope(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> None:
        """Apply the scope to artifacts that were scored.

        One store call at most, and none if the scope allows everything.
        """
        if self.scope == ALLOW_ALL:
            return
        self.apply_scope_to_records(ids, await self.best_records(ids, corpus))

    def apply_scope_to_records(self, ids: Iterable[Id], records: Iterable[Record | None]) -> None:
        """Apply the scope to artifacts by the record of each."""
        for id, record in zip(ids, records, strict=True):
            self.permissions[id] = self.scope.permissions_of({} if record is None else record.metadata)

    def permissions_of(self, id: Id) -> Permissions:
        """Return the permissions of an artifact; all if the scope was not applied to it."""
        return self.permissions.get(id, _ALLOWED)

    def filter_crossable(self, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes that the walk may cross."""
        if not self.permissions:
            return committed
        return [entry for entry in committed if self.permissions_of(entry.id).cross]

    def are_excluded(self, ids: Sequence[Id], *, is_start: bool) -> list[bool]:
        """Return for each artifact whether the scope excludes it.

        An artifact is excluded if it may be neither crossed nor kept or, at the start, if it may not be a start.
        """
        if not self.permissions:
            return [False] * len(ids)
        permissions = [self.permissions_of(id) for id in ids]
        return [not (may.cross or may.keep) or (is_start and not may.start) for may in permissions]

    async def make_hits(
        self, committed: Sequence[CommittedNode], scores: Sequence[float], corpus: OpenCorpus[RecordLookup]
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface as a hit; `None` if it has none or may not be kept."""
        ids = self.ids_of_committed(committed)
        kept_ids = [id for id in ids if self.permissions_of(id).keep] if self.permissions else ids
        record_of = dict(zip(kept_ids, await self.best_records(kept_ids, corpus), strict=True))
        rows = zip(map(record_of.get, ids), scores, strict=True)
        return [None if record is None else record.as_hit(score, corpus.name) for record, score in rows]

    async def best_vectors(self, ids: Sequence[Id], corpus: OpenCorpus[object], store: VectorSearch) -> Floats:
        """Return the vector of each artifact's best surface, and remember surface and cosine.

        The result is `(n, dim) float32`. An artifact without surfaces has the zero vector. One store call.
        """
        query = await self.embed_query(corpus)
        record_ids, rows = self.ahead.take_vectors(ids) or await store.vectors_of(ids)
        # Artifacts with one surface each are common, and need no choice.
        if set(map(len, record_ids)) == {1}:
            scores = await offload_if(rows.size > _OFFLOAD_ABOVE, exact_scores, rows, query)
            cosines = np.where(np.isnan(scores), -np.inf, scores).tolist()
            for id, [record_id], cosine in zip(ids, record_ids, cosines, strict=True):
                self.best_surfaces.setdefault(id, (record_id, cosine))
            return rows
        best_rows, scores = await offload_if(rows.size > _OFFLOAD_ABOVE, _find_best_rows, rows, query, record_ids)
        # If the search for the start has chosen the best surface of an artifact, that choice stands.
        first_row = 0
        for position, (id, surfaces) in enumerate(zip(ids, record_ids, strict=True)):
            best = self.best_surfaces[id][0] if id in self.best_surfaces else None
            if best is not None and best in surfaces:
                best_rows[position] = first_row + surfaces.index(best)
            first_row += len(surfaces)
        # The other artifacts can be scored now, because their vectors have been read.
        id_of_row = [record_id for surfaces in record_ids for record_id in surfaces]
        best_ids = [id_of_row[row] if row >= 0 else None for row in best_rows.tolist()]
        new = [position for position, id in enumerate(ids) if id not in self.best_surfaces]
        self.remember([ids[position] for position in new], [best_ids[position] for position in new], scores[new])
        vectors = np.zeros((len(ids), len(query)), np.float32)
        if len(rows):  # an empty `rows` may have no width
            vectors[best_rows >= 0] = rows[best_rows[best_rows >= 0]]
        return vectors


def _find_best_rows(
    rows: Floats, query: Floats, record_ids: Sequence[Sequence[str]]
) -> tuple[NDArray[np.intp], Floats]:
    """Return the row of each artifact's best surface, and its cosine; of equal ones the first.

    The rows of an artifact are adjacent, in the order of `record_ids`. An artifact without rows has row -1 and NaN.
    """
    counts = np.array([len(surfaces) for surfaces in record_ids], np.intp)
    has_rows, first_rows = counts > 0, np.cumsum(counts) - counts
    best_rows = np.full(len(record_ids), -1, np.intp)
    best_scores = np.full(len(record_ids), np.nan, np.float32)
    if len(rows):
        scores = exact_scores(rows, query)
        # Sort by artifact, then by falling score: the first row of each artifact is its best one.
        order = np.lexsort((-scores, np.repeat(np.arange(len(record_ids)), counts)))
        best_rows[has_rows] = order[first_rows[has_rows]]
        best_scores[has_rows] = scores[best_rows[has_rows]]
    return best_rows, best_scores


def selectable(
    memory: ArtifactMemory, frontier: Frontier, are_excluded: Callable[[Sequence[Id]], list[bool]]
) -> NDArray[np.intp]:
    """Return the live positions that are not excluded, and drop the excluded ones.

    Only the positions of this step are checked: earlier ones were checked in their own step.
    """
    fresh = frontier.fresh
    excluded = list(compress(fresh, are_excluded(memory.ids_at(frontier, fresh))))
    if not excluded:
        return frontier.live
    frontier.drop(excluded)
    return frontier.live[~np.isin(frontier.live, excluded)]


def node_of_hit(hit: SearchHit, nodes: Container[Id]) -> Id:
    """Return the node of a hit: its key if `nodes` contains it, else the id of its artifact."""
    return hit.key if hit.key in nodes else hit.artifact_id
