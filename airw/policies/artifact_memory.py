"""The memory of a walk over artifacts: surfaces, scores, the scope, what was read ahead.

Artifacts are identified by the ids of their store. Policies compare ids and look them up, but never take them apart.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
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
from airw.values import Contains, Ranking, Record, SearchHit
from airw.walking import CommittedNode

_OFFLOAD_ABOVE = 1 << 20  # numbers; comparing this many with a query takes about a millisecond
_MAX_KNOWN = 5_000  # ids that are sent with a call, so that the store does not compare these artifacts again
_ALLOWED = Permissions(start=True, cross=True, keep=True)

MAX_ENDS = 1_000
"""The most ends that one call compares; those of a hub that are more take a second call."""

MAX_START = 64
"""The most artifacts whose records are read before it is known whether they are committed."""

A = TypeVar("A", bound="ArtifactMemory")
Part: TypeAlias = tuple[Request[Any], Callable[[Any], None]]
"""A request, and what keeps its answer."""


@dataclass(slots=True, eq=False)
class ArtifactMemory:
    """The memory of one walk over artifacts.

    With the links of a step comes what lies at their ends, as far as the next steps need it. What follows finds it
    here, and reads what is missing.

    Args:
        query: The query of the walk.
        scope: The artifacts that the walk may start from, cross and return.
        keeps_records: Whether records are kept once they are read, because their fields lead on or decide the scope.
        contains: What the artifacts must contain that the search for the start finds.
        vector: The vector of the query, `(dim,) float32`; `None` until it is embedded.
        best_surfaces: The record id of the best surface of each artifact that was compared with the query; `None` for
            one without surfaces.
        cosine_of: Its cosine; `-inf` for an artifact without surfaces.
        passages: The record id of the surface by which the search for the start found an artifact, as far as it did.
            A hit shows it, as that of the search does; it scores by its best surface all the same.
        permissions: What the walk may do with each artifact, as far as the scope was applied.
        artifacts_by_value: The artifacts that each field value leads to, by the key of the `FieldValue`.
        unchecked_roots: The roots of which nobody knows yet whether they exist.
        records: Records that were kept or read ahead, by id.
        edges: The edges of artifacts that are expanded next.
        vector_of: The vector of each artifact's best surface, `(dim,) float32`; that of an artifact without surfaces is
            zero. `None` if artifacts are not compared with each other.
    """

    query: str
    scope: Scope = ALLOW_ALL
    keeps_records: bool = False
    contains: Contains | None = None
    vector: Floats | None = None
    best_surfaces: dict[Id, str | None] = field(default_factory=dict)
    cosine_of: dict[Id, float] = field(default_factory=dict)
    passages: dict[Id, str] = field(default_factory=dict)
    permissions: dict[Id, Permissions] = field(default_factory=dict)
    artifacts_by_value: dict[Hashable, Sequence[Id]] = field(default_factory=dict)
    unchecked_roots: list[Id] = field(default_factory=list)
    records: dict[str, Record | None] = field(default_factory=dict)
    edges: dict[Id, EdgeRow] = field(default_factory=dict)
    vector_of: dict[Id, Floats] | None = None

    # Scores.

    async def embed_query(self, corpus: OpenCorpus) -> Floats:
        """Return the query's vector, `(dim,) float32`; it is embedded once per walk."""
        if self.vector is None:
            self.vector = await embed(corpus, self.query)
        return self.vector

    def cosines(self, ids: Iterable[Id]) -> NDArray[np.float64]:
        """Return the cosines of artifacts that were compared; `-inf` for one without surfaces."""
        return np.fromiter(map(self.cosine_of.__getitem__, ids), np.float64)

    def keep_surfaces(self, ids: Sequence[Id], best: Sequence[str | None], cosines: Sequence[float]) -> None:
        """Note best surfaces; one that was chosen before stays."""
        surfaces, cosine_of = self.best_surfaces, self.cosine_of
        for id, surface, cosine in zip(ids, best, cosines, strict=True):
            surfaces.setdefault(id, surface)
            cosine_of.setdefault(id, cosine)

    def find_new(self, ids: Iterable[Id]) -> list[Id]:
        """Return the artifacts that were not compared."""
        known: Container[Id] = self.best_surfaces if self.vector_of is None else self.vector_of
        return [id for id in ids if id not in known]

    def has_surface(self, id: Id) -> bool:
        """Return whether an artifact that was compared has a surface."""
        return self.best_surfaces[id] is not None

    # Records.

    async def best_records(self, ids: Sequence[Id], corpus: OpenCorpus) -> list[Record | None]:
        """Return the record of each artifact's best surface.

        One store call for the records that are not kept.
        """
        return await self._read_records(ids, [self.best_surfaces[id] for id in ids], corpus)

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
        passage_of, best_of = self.passages.get, self.best_surfaces.get
        # The fields are those of the best surface, and a hit may show another one.
        needed = [passage_of(id) or best_of(id) for id in ids]
        needed += map(best_of, ids if self.keeps_records else ())
        return [id for id in dict.fromkeys(needed) if id is not None and id not in self.records]

    def records_in_memory(self, ids: Iterable[Id]) -> list[Record | None]:
        """Return the record of each artifact's best surface; `None` if none was kept."""
        return [self.records.get(self.best_surfaces[id] or "") for id in ids]

    async def make_hits(
        self, committed: Sequence[CommittedNode], scores: Sequence[float], corpus: OpenCorpus
    ) -> list[SearchHit | None]:
        """Return each artifact as a hit, by the surface that a search would show.

        It is `None` if it has no surface or may not be kept.
        """
        kept = self.list_kept(committed)
        shown = [self.passages.get(id) or self.best_surfaces[id] for id in kept]
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
                is_long = isinstance(answer, ArtifactVectors) and answer.vectors.size > _OFFLOAD_ABOVE
                await offload_if(is_long, keep, answer)

    def ask_best(self, of: Sequence[Id] | Ends, limit: int | None) -> list[Part]:
        """Ask for the best surfaces of artifacts, and for the records of the nearest `limit`.

        The query was embedded.
        """
        parts: list[Part] = []
        if self.vector_of is not None:
            parts.append((_about(of, VectorsOf, "artifact_ids"), partial(self._keep_vectors, of)))
        if limit != 0 or not parts:
            rank = _about(of, partial(Rank, cast("Floats", self.vector)[np.newaxis], per_artifact=True), "among")
            parts.append((rank, lambda answer: self._keep_ranking(of, *answer)))
            if limit != 0:
                parts.append((Fed(Records(()), Best(rank, limit)), self._keep_records))
        return parts

    def ask_first(self, of: Sequence[Id] | Ends) -> Part:
        """Ask for the first surfaces of artifacts and for their records.

        They take the place of the best ones. Their score is 0; that of an unknown artifact is `-inf`.
        """
        request = _about(of, partial(RecordsOf, limit=1), "artifact_ids")
        return request, lambda answer: self._keep_first(self._list_ids(of), answer)

    def ask_records(self, ids: Sequence[str]) -> Part:
        """Ask for records."""
        return Records(ids), lambda answer: self.records.update(zip(ids, answer, strict=True))

    def ask_edges(self, edges: Edges) -> Part:
        """Ask for the edges of artifacts; those within the walked corpora are kept."""
        return edges, lambda answer: self.edges.update(
            (id, EdgeRow.of(id, row).inside) for id, row in zip(edges.ids, answer, strict=True)
        )

    def ends_of(self, edges: Edges, visited: Container[Id]) -> Ends:
        """Return the other ends of edges, without those that were compared.

        Those whose records may still be needed are not left out.
        """
        known = self.best_surfaces if self.vector_of is None else self.vector_of
        few = len(known) <= _MAX_KNOWN
        without: dict[Id, Any] = {**known} if few else dict.fromkeys(islice(reversed(known), _MAX_KNOWN))
        for id, needed in (self.best_surfaces if self.keeps_records else self.passages).items():
            if id not in visited and needed not in self.records:
                without.pop(id, None)
        return Ends(edges, MAX_ENDS, without)

    def _list_ids(self, of: Sequence[Id] | Ends) -> Sequence[Id]:
        return of.take([self.edges[id] for id in of.of.ids]) if isinstance(of, Ends) else of

    def _keep_ranking(self, of: Sequence[Id] | Ends, ranking: Ranking) -> None:
        self.keep_surfaces(ranking.artifact_ids, ranking.record_ids, ranking.scores.tolist())
        # The others have no surface. A full ranking has all that were compared.
        most = MAX_ENDS if isinstance(of, Ends) else len(of)
        ids = self._list_ids(of) if len(ranking) < most else ()
        without = [id for id in ids if id not in self.best_surfaces]
        self.best_surfaces.update(dict.fromkeys(without))
        self.cosine_of.update(dict.fromkeys(without, -np.inf))

    def _keep_records(self, records: Iterable[Record | None]) -> None:
        self.records.update((record.id, record) for record in records if record is not None)

    def _keep_first(self, ids: Sequence[Id], surfaces: Sequence[Sequence[Record] | None]) -> None:
        best = [records[0].id if records else None for records in surfaces]
        self.keep_surfaces(ids, best, [-np.inf if records is None else 0.0 for records in surfaces])
        self._keep_records(chain.from_iterable(records or () for records in surfaces))

    def _keep_vectors(self, of: Sequence[Id] | Ends, answer: ArtifactVectors) -> None:
        rows, ids, query = answer.vectors, self._list_ids(of), cast("Floats", self.vector)
        scores = exact_scores(rows, query) if len(rows) else np.empty(0, np.float32)
        cosines: list[float] = np.where(np.isnan(scores), -np.inf, scores).tolist()
        best: list[int | None] = []
        start = 0
        for id, own in zip(ids, answer.record_ids, strict=True):
            # Of equal surfaces it is the first. If the search for the start has chosen one, that choice stands.
            choice, places = self.best_surfaces.get(id), range(start, start + len(own))
            best.append(
                places[own.index(choice)] if choice in own else max(places, key=cosines.__getitem__, default=None)
            )
            start = places.stop
        names = list(chain.from_iterable(answer.record_ids))
        self.keep_surfaces(
            ids,
            [None if row is None else names[row] for row in best],
            [-np.inf if row is None else cosines[row] for row in best],
        )
        vectors = np.zeros((len(best), len(query)), np.float32)
        for vector, row in zip(vectors, best, strict=True):
            if row is not None:
                vector[:] = rows[row]
        cast("dict[Id, Floats]", self.vector_of).update(zip(ids, vectors, strict=True))


def _about(of: Sequence[Id] | Ends, make: Callable[..., Any], field: str) -> Any:
    """Return a request about artifacts, or about those at the other ends of edges."""
    return Fed(make(**{field: ()}), of) if isinstance(of, Ends) else make(**{field: of})


def node_of_hit(hit: SearchHit, nodes: Container[Id]) -> Id:
    """Return the node of a hit: its key if `nodes` contains it, else the id of its artifact."""
    return hit.key if hit.key in nodes else hit.artifact_id
