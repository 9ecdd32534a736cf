"""The memory of a walk over artifacts: surfaces, scores, the scope, what was read ahead.

Artifacts are identified by the ids of their store. Policies compare ids and look them up, but never take them apart.
"""

from collections.abc import Awaitable, Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import map_bounded, offload_if
from airw._base.vectors import exact_scores
from airw.policies._corpora import Id, embed, require
from airw.policies.scope import ALLOW_ALL, Permissions, Scope
from airw.protocols import ArtifactVectors, BestRecords, OpenCorpus, RecordLookup, StepAnswer, StepReader, VectorSearch
from airw.values import Edge, Record, SearchHit
from airw.walking import CommittedNode

_OFFLOAD_ABOVE = 1 << 20  # numbers; comparing this many with a query takes about a millisecond
_MAX_KNOWN = 1_000  # ids that are sent with a call, so that the store does not compare these artifacts again
_ALLOWED = Permissions(start=True, cross=True, keep=True)

MAX_ENDS = 1_000
"""The most ends that one call compares; those of a hub that are more take a second call."""

MAX_START = 64
"""The most artifacts whose records are read before it is known whether they are committed."""

A = TypeVar("A", bound="ArtifactMemory")
Surface: TypeAlias = tuple[str | None, float]
"""The record id and the cosine of a surface; `None` and `-inf` for an artifact without surfaces."""


class ReadOptions(NamedTuple):
    """What to read of the ends of edges; see `StepReader.read_step`.

    Args:
        max_ends: The most ends to compare with the query.
        max_records: The most records of ends per artifact.
        with_vectors: Whether to read vectors.
    """

    max_ends: int = MAX_ENDS
    max_records: int = 0
    with_vectors: bool = False


@dataclass(slots=True, eq=False)
class ArtifactMemory:
    """The memory of one walk over artifacts.

    The last five fields have what was read ahead, from a store that reads a whole step in one call. The calls that
    follow take it from there, and read what is missing.

    Args:
        query: The query of the walk.
        scope: The artifacts that the walk may start from, cross and return.
        keeps_records: Whether records are kept once they are read, because their fields lead on or decide the scope.
        vector: The vector of the query, `(dim,) float32`; `None` until it is embedded.
        best_surfaces: The best surface of each artifact that was scored.
        passages: The record id of the surface by which the search for the start found an artifact, as far as it did.
            A hit shows it, as that of the search does; it scores by its best surface all the same.
        permissions: What the walk may do with each artifact, as far as the scope was applied.
        artifacts_by_value: The artifacts that each field value leads to, by the key of the `FieldValue`.
        unchecked_roots: The roots of which nobody knows yet whether they exist.
        records: Records that were kept or read ahead, by id.
        edges: The edges of artifacts that are expanded next.
        surfaces: The best surfaces of artifacts that are scored next.
        vectors: The record ids of artifacts that are scored next, and their vectors.
        vectors_read: The artifacts whose vectors were read ahead.
        likely: Artifacts that wait, and are likely to be committed soon.
    """

    query: str
    scope: Scope = ALLOW_ALL
    keeps_records: bool = False
    vector: Floats | None = None
    best_surfaces: dict[Id, Surface] = field(default_factory=dict)
    passages: dict[Id, str] = field(default_factory=dict)
    permissions: dict[Id, Permissions] = field(default_factory=dict)
    artifacts_by_value: dict[Hashable, Sequence[Id]] = field(default_factory=dict)
    unchecked_roots: list[Id] = field(default_factory=list)
    records: dict[str, Record | None] = field(default_factory=dict)
    edges: dict[Id, list[Edge]] = field(default_factory=dict)
    surfaces: dict[Id, Surface] = field(default_factory=dict)
    vectors: dict[Id, tuple[list[str], Floats]] = field(default_factory=dict)
    vectors_read: set[Id] = field(default_factory=set)
    likely: Sequence[CommittedNode] = ()

    # Scores.

    async def embed_query(self, corpus: OpenCorpus[object]) -> Floats:
        """Return the query's vector, `(dim,) float32`; it is embedded once per walk."""
        if self.vector is None:
            self.vector = await embed(corpus, self.query)
        return self.vector

    async def score(self, ids: Sequence[Id], corpus: OpenCorpus[object]) -> None:
        """Remember the best surface of each artifact; one store call for those that are new."""
        query = await self.embed_query(corpus)
        new_ids = self.take_surfaces(ids)
        if new_ids:
            store = require(corpus, "best_of", "a policy that scores artifacts")
            self.best_surfaces.update(zip(new_ids, _to_surfaces(await store.best_of(query, new_ids)), strict=True))

    def take_surfaces(self, ids: Sequence[Id]) -> list[Id]:
        """Take over best surfaces that were read ahead; return the ids of which none is known."""
        if self.surfaces:
            for id in ids:
                if id in self.surfaces and id not in self.best_surfaces:
                    self.best_surfaces[id] = self.surfaces.pop(id)
        return [id for id in ids if id not in self.best_surfaces]

    def cosines(self, ids: Iterable[Id]) -> NDArray[np.float64]:
        """Return the cosines of artifacts that were scored; `-inf` for one without surfaces."""
        return np.array([self.best_surfaces[id][1] for id in ids], np.float64)

    def has_surface(self, id: Id) -> bool:
        """Return whether an artifact that was scored has a surface."""
        return self.best_surfaces[id][0] is not None

    async def best_vectors(self, ids: Sequence[Id], corpus: OpenCorpus[object], store: VectorSearch) -> Floats:
        """Return the vector of each artifact's best surface, and remember surface and cosine.

        The result is `(n, dim) float32`. An artifact without surfaces has the zero vector. One store call.
        """
        query = await self.embed_query(corpus)
        record_ids, rows = self._take_vectors(ids) or await store.vectors_of(ids)
        # If the search for the start has chosen the best surface of an artifact, that choice stands.
        chosen = [self.best_surfaces.get(id, (None, 0.0))[0] for id in ids]
        is_long = rows.size > _OFFLOAD_ABOVE
        best, cosines = await offload_if(is_long, _find_best_rows, rows, query, record_ids, chosen)
        names = [record_id for own in record_ids for record_id in own]
        vectors = np.zeros((len(ids), len(query)), np.float32)
        for place, (id, row) in enumerate(zip(ids, best, strict=True)):
            self.best_surfaces.setdefault(id, (None, -np.inf) if row is None else (names[row], cosines[row]))
            if row is not None:
                vectors[place] = rows[row]
        return vectors

    def _take_vectors(self, ids: Sequence[Id]) -> ArtifactVectors | None:
        """Remove and return vectors that were read ahead; `None` if not all are known."""
        if not ids or not self.vectors.keys() >= set(ids):
            return None
        found = [self.vectors[id] for id in ids]
        for id in ids:
            self.vectors.pop(id, None)
        return ArtifactVectors([own for own, _ in found], np.concatenate([rows for _, rows in found]))

    # Records.

    async def best_records(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> list[Record | None]:
        """Return the record of each artifact's best surface.

        One store call for the records that are not kept.
        """
        return await self._read_records(ids, [self.best_surfaces[id][0] for id in ids], corpus)

    async def _read_records(
        self, ids: Sequence[Id], record_ids: Sequence[str | None], corpus: OpenCorpus[RecordLookup]
    ) -> list[Record | None]:
        """Return records of artifacts; one store call at most."""
        needed = [*record_ids]
        if self.keeps_records:  # the fields are those of the best surface, and a hit may show another one
            needed += [self.best_surfaces[id][0] for id in ids] + [self.passages.get(id) for id in ids]
        missing_ids = [id for id in dict.fromkeys(needed) if id is not None and id not in self.records]
        if missing_ids:
            self.records.update(zip(missing_ids, await corpus.store.get_records(missing_ids), strict=True))
        records = [None if id is None else self.records[id] for id in record_ids]
        if not self.keeps_records:
            for id in record_ids:
                self.records.pop(id or "", None)
        return records

    def has_record(self, id: Id) -> bool:
        """Return whether nothing has to be read for the hit of an artifact and for its fields."""
        best = self.best_surfaces.get(id) or self.surfaces.get(id)
        if best is None:
            return False
        needed = (
            {self.passages.get(id) or best[0], best[0]} if self.keeps_records else {self.passages.get(id) or best[0]}
        )
        return self.records.keys() >= needed - {None}

    def records_in_memory(self, ids: Iterable[Id]) -> list[Record | None]:
        """Return the record of each artifact's best surface; `None` if none was kept."""
        return [self.records.get(self.best_surfaces[id][0] or "") for id in ids]

    async def make_hits(
        self, committed: Sequence[CommittedNode], scores: Sequence[float], corpus: OpenCorpus[RecordLookup]
    ) -> list[SearchHit | None]:
        """Return each artifact as a hit, by the surface that a search would show.

        It is `None` if it has no surface or may not be kept.
        """
        kept = [entry.id for entry in committed if self.permissions_of(entry.id).keep]
        shown = [self.passages.get(id) or self.best_surfaces[id][0] for id in kept]
        records = await self._read_records(kept, shown, corpus)
        if self.scope.keep is not None:
            # The scope was applied to the best surface. Another one is shown only if it may be kept, too.
            records = [
                record if record is None or self.scope.permissions_of(record.metadata).keep else best
                for record, best in zip(records, self.records_in_memory(kept), strict=True)
            ]
        record_of = dict(zip(kept, records, strict=True))
        rows = zip(map(record_of.get, (entry.id for entry in committed)), scores, strict=True)
        return [None if record is None else record.as_hit(score, corpus.name) for record, score in rows]

    # The scope.

    async def apply_scope(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> None:
        """Apply the scope to artifacts that were scored.

        One store call at most, and none if the scope allows everything.
        """
        if self.scope == ALLOW_ALL:
            return
        for id, record in zip(ids, await self.best_records(ids, corpus), strict=True):
            self.permissions[id] = self.scope.permissions_of({} if record is None else record.metadata)

    def permissions_of(self, id: Id) -> Permissions:
        """Return the permissions of an artifact; all if the scope was not applied to it."""
        return self.permissions.get(id, _ALLOWED)

    def filter_crossable(self, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes that the walk may cross."""
        if not self.permissions:
            return committed
        return [entry for entry in committed if self.permissions_of(entry.id).cross]

    # Reading ahead.

    async def read_ahead(
        self,
        ids: Sequence[Id],
        hit_ids: Sequence[Id],
        corpus: OpenCorpus[RecordLookup],
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
            corpus: The open corpus; its store reads steps.
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
        known = list(islice(filter(is_known, reversed(self.best_surfaces)), _MAX_KNOWN)) if has_ends else []
        read_step = cast("StepReader", corpus.store).read_step
        calls: list[Callable[[], Awaitable[Any]]] = [
            partial(read_step, ids, query, **links, hit_ids=hit_ids, known_ids=known, **options._asdict())
        ]
        # What the search has found is read meanwhile, as it may be another surface than the best one.
        passages = self._passages_to_read(hit_ids)
        if passages:
            calls.append(partial(corpus.store.get_records, passages))
        answer, *more = await map_bounded(lambda call: call(), calls, limit=2)
        for records in more:
            self.records.update(zip(passages, records, strict=True))
        self._keep_step(ids, answer)

    def _passages_to_read(self, hit_ids: Sequence[Id]) -> list[str]:
        """Return the records that a search shows of these artifacts, then those of others."""

        def is_missing(id: Id) -> bool:
            passage, (best, _) = self.passages[id], self.best_surfaces.get(id, (None, 0.0))
            return passage != best and passage not in self.records

        needed = [id for id in hit_ids if id in self.passages and is_missing(id)]
        ids = dict.fromkeys([*needed, *filter(is_missing, self.passages)] if needed else ())
        return [self.passages[id] for id in islice(ids, MAX_START)]

    def _keep_step(self, ids: Sequence[Id], answer: StepAnswer) -> None:
        self.edges.update(zip(ids, answer.edges, strict=True))
        for id, surface in zip(answer.artifact_ids, _to_surfaces(answer.best), strict=True):
            if id not in self.best_surfaces:  # what is known stays as it is
                self.surfaces[id] = surface
        self.records.update((record.id, record) for record in answer.records if record is not None)
        if answer.vectors is not None:
            start = 0
            for id, own in zip(answer.artifact_ids, answer.vectors.record_ids, strict=True):
                self.vectors[id] = own, answer.vectors.vectors[start : start + len(own)]
                start += len(own)
            self.vectors_read.update(answer.artifact_ids)


def _to_surfaces(best: BestRecords) -> list[Surface]:
    """Return record ids and cosines; NaN means no surface."""
    record_ids, scores = best
    return list(zip(record_ids, np.where(np.isnan(scores), -np.inf, scores).tolist(), strict=True))


def _find_best_rows(
    rows: Floats, query: Floats, record_ids: Sequence[Sequence[str]], chosen: Sequence[str | None]
) -> tuple[list[int | None], list[float]]:
    """Return the row of each artifact's best surface, and the cosines of all rows.

    Of equal surfaces it is the first. A surface that was chosen before stays the best. The rows of an artifact are
    adjacent, in the order of `record_ids`. An artifact without rows has no best row.
    """
    scores = exact_scores(rows, query) if len(rows) else np.empty(0, np.float32)
    cosines = np.where(np.isnan(scores), -np.inf, scores).tolist()
    best: list[int | None] = []
    start = 0
    for own, choice in zip(record_ids, chosen, strict=True):
        end = start + len(own)
        if choice in own:
            best.append(start + own.index(choice))
        else:
            best.append(max(range(start, end), key=cosines.__getitem__, default=None))
        start = end
    return best, cosines


def node_of_hit(hit: SearchHit, nodes: Container[Id]) -> Id:
    """Return the node of a hit: its key if `nodes` contains it, else the id of its artifact."""
    return hit.key if hit.key in nodes else hit.artifact_id
