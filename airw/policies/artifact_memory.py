"""The memory of a walk over artifacts: surfaces, scores, the scope, what was read ahead.

Artifacts are identified by the ids of their store. Policies compare ids and look them up, but never take them apart.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import offload_if
from airw._base.vectors import exact_scores
from airw.policies._corpora import Id, embed
from airw.policies.scope import ALLOW_ALL, Permissions, Scope
from airw.protocols import (
    ArtifactVectors,
    Best,
    EdgeRow,
    Edges,
    Ends,
    Fed,
    OpenCorpus,
    Rank,
    Records,
    RecordsOf,
    Request,
    VectorsOf,
)
from airw.values import Ranking, Record, SearchHit
from airw.walking import CommittedNode

_OFFLOAD_ABOVE = 1 << 20  # numbers; comparing this many with a query takes about a millisecond
_MAX_KNOWN = 5_000  # ids that are sent with a call, so that the store does not compare these artifacts again
_ALLOWED = Permissions(start=True, cross=True, keep=True)

MAX_ENDS = 1_000
"""The most ends that one call compares; those of a hub that are more take a second call."""

MAX_START = 64
"""The most artifacts whose records are read before it is known whether they are committed."""

A = TypeVar("A", bound="ArtifactMemory")
Surface: TypeAlias = tuple[str | None, float]
"""The record id and the cosine of a surface; `None` and `-inf` for an artifact without surfaces."""

Part: TypeAlias = tuple[Request[Any], Callable[[Any], None]]
"""A request, and what keeps its answer."""


@dataclass(slots=True, eq=False)
class ArtifactMemory:
    """The memory of one walk over artifacts.

    The last three fields have what was read ahead: with the links of a step comes what lies at their ends. What follows
    takes it from there, and reads what is missing.

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
    edges: dict[Id, EdgeRow] = field(default_factory=dict)
    surfaces: dict[Id, Surface] = field(default_factory=dict)
    vectors: dict[Id, tuple[list[str], Floats]] = field(default_factory=dict)

    # Scores.

    async def embed_query(self, corpus: OpenCorpus) -> Floats:
        """Return the query's vector, `(dim,) float32`; it is embedded once per walk."""
        if self.vector is None:
            self.vector = await embed(corpus, self.query)
        return self.vector

    def take_surfaces(self, ids: Sequence[Id]) -> list[Id]:
        """Take over best surfaces that were read; return the ids of which none is known."""
        best, read = self.best_surfaces, self.surfaces
        new_ids = [id for id in ids if id not in best]
        for id in new_ids if read else ():
            if id in read:  # not again if it is among the ids twice
                best[id] = read.pop(id)
        return [id for id in new_ids if id not in best]

    def cosines(self, ids: Iterable[Id]) -> NDArray[np.float64]:
        """Return the cosines of artifacts that were scored; `-inf` for one without surfaces."""
        return np.array([self.best_surfaces[id][1] for id in ids], np.float64)

    def has_surface(self, id: Id) -> bool:
        """Return whether an artifact that was scored has a surface."""
        return self.best_surfaces[id][0] is not None

    async def take_vectors(self, ids: Sequence[Id]) -> Floats:
        """Return the vector of each artifact's best surface, and remember surface and cosine.

        The vectors of all their surfaces were read. The result is `(n, dim) float32`. An artifact without surfaces has
        the zero vector.
        """
        query = cast("Floats", self.vector)
        found = [self.vectors.pop(id) for id in ids]
        rows = np.concatenate([own for _, own in found if len(own)] or [np.empty((0, len(query)), np.float32)])
        record_ids = [own for own, _ in found]
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

    # Records.

    async def best_records(self, ids: Sequence[Id], corpus: OpenCorpus) -> list[Record | None]:
        """Return the record of each artifact's best surface.

        One store call for the records that are not kept.
        """
        return await self._read_records(ids, [self.best_surfaces[id][0] for id in ids], corpus)

    async def _read_records(
        self, ids: Sequence[Id], record_ids: Sequence[str | None], corpus: OpenCorpus
    ) -> list[Record | None]:
        """Return records of artifacts; one store call at most."""
        missing = [id for id in record_ids if id is not None and id not in self.records]
        if self.keeps_records:
            missing += self.find_missing(ids)
        if missing:
            await self.read(corpus, [self.ask_records(list(dict.fromkeys(missing)))])
        records = [None if id is None else self.records[id] for id in record_ids]
        if not self.keeps_records:
            for id in record_ids:
                self.records.pop(id or "", None)
        return records

    def find_missing(self, ids: Iterable[Id]) -> list[str]:
        """Return the known records to read for the hits of artifacts and for their fields."""
        needed: dict[str | None, None] = {}
        for id in ids:
            passage = self.passages.get(id)
            # The fields are those of the best surface, and a hit may show another one.
            if self.keeps_records or passage is None:
                needed[(self.best_surfaces.get(id) or self.surfaces.get(id) or (None,))[0]] = None
            needed[passage] = None
        return [id for id in needed if id is not None and id not in self.records]

    def find_passages(self) -> list[str]:
        """Return records to read, as links may lead to what the search for the start has found.

        These are other surfaces than the best ones, at most `MAX_START`.
        """
        best, records = self.best_surfaces, self.records
        passages = (
            record_id
            for id, record_id in self.passages.items()
            if record_id not in records and record_id != best.get(id, (None,))[0]
        )
        return list(islice(passages, MAX_START))

    def records_in_memory(self, ids: Iterable[Id]) -> list[Record | None]:
        """Return the record of each artifact's best surface; `None` if none was kept."""
        return [self.records.get(self.best_surfaces[id][0] or "") for id in ids]

    async def make_hits(
        self, committed: Sequence[CommittedNode], scores: Sequence[float], corpus: OpenCorpus
    ) -> list[SearchHit | None]:
        """Return each artifact as a hit, by the surface that a search would show.

        It is `None` if it has no surface or may not be kept.
        """
        kept = self.list_kept(committed)
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

    async def apply_scope(self, ids: Sequence[Id], corpus: OpenCorpus) -> None:
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

    def list_kept(self, committed: Sequence[CommittedNode]) -> list[Id]:
        """Return the artifacts that may be hits."""
        ids: list[Id] = [entry.id for entry in committed]
        return [id for id in ids if self.permissions_of(id).keep] if self.permissions else ids

    def filter_crossable(self, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes that the walk may cross."""
        if not self.permissions:
            return committed
        return [entry for entry in committed if self.permissions_of(entry.id).cross]

    # Reading: what to ask a store for, and what keeps the answers.

    async def read(self, corpus: OpenCorpus, parts: Sequence[Part]) -> None:
        """Read all parts in one call; none if there are no parts."""
        if parts:
            answers = await corpus.store.read(*(request for request, _ in parts))
            for (_, keep), answer in zip(parts, answers, strict=True):
                keep(answer)

    def ask_best(self, of: Sequence[Id] | Ends, limit: int | None) -> list[Part]:
        """Ask for the best surfaces of artifacts, and for the records of the nearest `limit`.

        The query was embedded.
        """
        rank = _about(of, partial(Rank, cast("Floats", self.vector)[np.newaxis], per_artifact=True), "among")
        parts: list[Part] = [(rank, lambda answer: self._keep_ranking(of, *answer))]
        if limit != 0:
            parts.append((Fed(Records(()), Best(rank, limit)), self._keep_records))
        return parts

    def ask_first(self, of: Sequence[Id] | Ends) -> Part:
        """Ask for the first surfaces of artifacts and for their records.

        They take the place of the best ones. Their score is 0; that of an unknown artifact is `-inf`.
        """
        request = _about(of, partial(RecordsOf, limit=1), "artifact_ids")
        return request, lambda answer: self._keep_first(self._list_ids(of), answer)

    def ask_vectors(self, of: Sequence[Id] | Ends) -> Part:
        """Ask for the vectors of all surfaces of artifacts."""
        return _about(of, VectorsOf, "artifact_ids"), lambda answer: self._keep_vectors(self._list_ids(of), answer)

    def ask_records(self, ids: Sequence[str]) -> Part:
        """Ask for records."""
        return Records(ids), lambda answer: self.records.update(zip(ids, answer, strict=True))

    def ask_edges(self, edges: Edges) -> Part:
        """Ask for the edges of artifacts; those within the walked corpora are kept."""
        return edges, lambda answer: self.edges.update(
            (id, EdgeRow.of(id, row).inside) for id, row in zip(edges.ids, answer, strict=True)
        )

    def ends_of(self, edges: Edges, visited: Container[Id], limit: int) -> Ends:
        """Return the other ends of edges, without those that were compared.

        Those whose records may still be needed are not left out.
        """
        records, known = self.records, self.best_surfaces
        if len(known) > _MAX_KNOWN:
            known = dict(islice(reversed(known.items()), _MAX_KNOWN))
        if self.keeps_records:
            return Ends(edges, limit, [id for id, (best, _) in known.items() if id in visited or best in records])
        without = dict.fromkeys(known)
        for id, passage in self.passages.items():
            if id not in visited and passage not in records:
                without.pop(id, None)
        return Ends(edges, limit, without)

    def _list_ids(self, of: Sequence[Id] | Ends) -> Sequence[Id]:
        return of.take([self.edges[id] for id in of.of.ids]) if isinstance(of, Ends) else of

    def _keep_ranking(self, of: Sequence[Id] | Ends, ranking: Ranking) -> None:
        if isinstance(of, Ends) and len(ranking) < MAX_ENDS:  # none was left out, so their order does not matter
            ends = set[Id]().union(*(self.edges[id].ends for id in of.of.ids))
            ids: Iterable[Id] = ends.difference(of.of.ids, self.best_surfaces)
        else:
            ids = self._list_ids(of)
        found = zip(ranking.artifact_ids, zip(ranking.record_ids, ranking.scores.tolist(), strict=True), strict=True)
        self.surfaces.update(dict.fromkeys(ids, (None, -np.inf)) | dict(found))

    def _keep_records(self, records: Iterable[Record | None]) -> None:
        self.records.update((record.id, record) for record in records if record is not None)

    def _keep_first(self, ids: Iterable[Id], surfaces: Iterable[Sequence[Record] | None]) -> None:
        for id, records in zip(ids, surfaces, strict=True):
            self.surfaces[id] = (records[0].id if records else None, -np.inf if records is None else 0.0)
            self._keep_records(records or ())

    def _keep_vectors(self, ids: Iterable[Id], answer: ArtifactVectors) -> None:
        start = 0
        for id, own in zip(ids, answer.record_ids, strict=True):
            self.vectors[id] = own, answer.vectors[start : start + len(own)]
            start += len(own)


def _about(of: Sequence[Id] | Ends, make: Callable[..., Any], field: str) -> Any:
    """Return a request about artifacts, or about those at the other ends of edges."""
    return Fed(make(**{field: ()}), of) if isinstance(of, Ends) else make(**{field: of})


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
