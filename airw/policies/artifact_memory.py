"""What one walk remembers of artifacts: how near they are, what stands for each, and what its scope says of it.

An artifact is called as its store calls it. Policies compare these ids and look them up, and never look into them.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import offload_if
from airw._base.vectors import exact_scores
from airw.policies._capabilities import embed
from airw.policies._several_corpora import Id
from airw.policies.scope import ALLOW_ALL, Scope, Verdict
from airw.protocols import BestRecordFinder, OpenCorpus, RecordLookup, VectorSearch
from airw.values import Record, SearchHit
from airw.walking import CommittedNode, Frontier

_MANY = 1 << 20  # numbers, compared with a query in about a millisecond
_ALLOWED = Verdict(start=True, cross=True, keep=True)

A = TypeVar("A", bound="ArtifactMemory")


@dataclass(slots=True, eq=False)
class ArtifactMemory:
    """What one walk remembers of artifacts: how near they are, what stands for each, and what its scope says of it.

    Args:
        query: What the walk looks for.
        scope: Which artifacts may be started from, crossed and returned.
        keeps_records: Whether records that were read are kept: their fields lead on, or decide.
        vector: The query as `(dim,) float32`, once it is embedded.
        best: The record of each artifact's best surface, `None` where it has none, and its cosine to the query.
        records: The kept records by id.
        verdicts: What the scope said of artifacts.
        answers: The artifacts that each way along shared fields leads to, by the key of the way.
    """

    query: str
    scope: Scope = ALLOW_ALL
    keeps_records: bool = False
    vector: Floats | None = None
    best: dict[Id, tuple[str | None, float]] = field(default_factory=dict)
    records: dict[str, Record | None] = field(default_factory=dict)
    verdicts: dict[Id, Verdict] = field(default_factory=dict)
    answers: dict[Hashable, Sequence[Id]] = field(default_factory=dict)

    async def embed_query(self, corpus: OpenCorpus[object]) -> Floats:
        """Return the query's vector, `(dim,) float32`; it is embedded once a walk."""
        if self.vector is None:
            self.vector = await embed(corpus, self.query)
        return self.vector

    async def score(self, ids: Sequence[Id], corpus: OpenCorpus[BestRecordFinder]) -> NDArray[np.float64]:
        """Return the cosine of each artifact's best surface, `-inf` where it has none; one store call for new ones."""
        query = await self.embed_query(corpus)
        new = [id for id in ids if id not in self.best]
        if new:
            self.remember(new, *await corpus.store.best_of(query, new))
        return self.cosines(ids)

    def remember(self, ids: Sequence[Id], records: Sequence[str | None], scores: Floats) -> None:
        """Keep the best surface of each artifact, and its cosine."""
        known = np.where(np.isnan(scores), -np.inf, scores).tolist()
        self.best.update(zip(ids, zip(records, known, strict=True), strict=True))

    def cosines(self, ids: Iterable[Id]) -> NDArray[np.float64]:
        """Return the cosines of artifacts that were scored; `-inf` for one without surfaces."""
        return np.array([self.best[id][1] for id in ids], np.float64)

    def has_surface(self, id: Id) -> bool:
        """Return whether an artifact that was scored has a surface."""
        return self.best[id][0] is not None

    async def best_records(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> list[Record | None]:
        """Return the record of each artifact's best surface; one store call for those that are not kept."""
        kept = self.records if self.keeps_records else {}
        wanted = [self.best[id][0] for id in ids]
        new = [id for id in wanted if id is not None and id not in kept]
        if new:
            kept.update(zip(new, await corpus.store.get_records(new), strict=True))
        return [None if id is None else kept.get(id) for id in wanted]

    def kept_records(self, ids: Iterable[Id]) -> list[Record | None]:
        """Return the kept record that stands for each artifact."""
        return [self.records.get(self.best[id][0] or "") for id in ids]

    async def judge(self, ids: Sequence[Id], corpus: OpenCorpus[RecordLookup]) -> None:
        """Ask the scope about artifacts that were scored; one store call, none where it lets all through."""
        if self.scope == ALLOW_ALL:
            return
        self.judge_by(ids, await self.best_records(ids, corpus))

    def judge_by(self, ids: Iterable[Id], records: Iterable[Record | None]) -> None:
        """Ask the scope about artifacts by the records that stand for them."""
        for id, record in zip(ids, records, strict=True):
            self.verdicts[id] = self.scope.verdict({} if record is None else record.metadata)

    def verdict(self, id: Id) -> Verdict:
        """Return what the scope said of an artifact; one it was not asked about is let through."""
        return self.verdicts.get(id, _ALLOWED)

    def crossed(self, committed: Iterable[CommittedNode]) -> list[CommittedNode]:
        """Return the entries that the walk may cross."""
        return [entry for entry in committed if self.verdict(entry.id).cross]

    def are_excluded(self, ids: Sequence[Id], *, is_start: bool) -> list[bool]:
        """Return for each artifact whether the scope has it passed over: neither crossed nor kept, or no start."""
        if not self.verdicts:
            return [False] * len(ids)
        verdicts = [self.verdict(id) for id in ids]
        return [not (each.cross or each.keep) or (is_start and not each.start) for each in verdicts]

    async def make_hits(
        self, committed: Sequence[CommittedNode], corpus: OpenCorpus[RecordLookup]
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface as a hit; `None` for one without surfaces, or not to be kept."""
        kept = [entry for entry in committed if self.verdict(entry.id).keep]
        records = await self.best_records([entry.node.id for entry in kept], corpus)
        found = dict(zip((entry.id for entry in kept), records, strict=True))
        pairs = [(entry, found.get(entry.id)) for entry in committed]
        return [None if record is None else record.as_hit(entry.score, corpus.name) for entry, record in pairs]

    async def best_vectors(self, ids: Sequence[Id], corpus: OpenCorpus[object], store: VectorSearch) -> Floats:
        """Return the vector of each artifact's best surface, and remember that surface and its cosine.

        `(n, dim) float32`; one store call. An artifact without surfaces has the zero vector.
        """
        query = await self.embed_query(corpus)
        records, rows = await store.vectors_of(ids)
        places, scores = await offload_if(rows.size > _MANY, _best_rows, rows, query, records)
        start = 0
        for position, (id, owned) in enumerate(zip(ids, records, strict=True)):
            held = self.best[id][0] if id in self.best else None
            if held is not None and held in owned:  # the search has chosen
                places[position] = start + owned.index(held)
            start += len(owned)
        flat = [id for each in records for id in each]
        chosen = [flat[at] if at >= 0 else None for at in places.tolist()]
        new = [position for position, id in enumerate(ids) if id not in self.best]
        self.remember([ids[at] for at in new], [chosen[at] for at in new], scores[new])
        found = np.zeros((len(ids), len(query)), np.float32)
        if len(rows):  # where there are none, they may have no width either
            found[places >= 0] = rows[places[places >= 0]]
        return found


def _best_rows(rows: Floats, query: Floats, owned: Sequence[Sequence[str]]) -> tuple[NDArray[np.intp], Floats]:
    """Return for each owner of rows the place of the best one, the first of equals, and its cosine.

    The rows of an owner lie together; one without rows has the place `-1` and NaN.
    """
    counts = np.array([len(each) for each in owned], np.intp)
    if len(rows) and (counts == 1).all():
        return np.arange(len(owned)), exact_scores(rows, query)
    has_any, starts = counts > 0, np.cumsum(counts) - counts
    places, best = np.full(len(owned), -1, np.intp), np.full(len(owned), np.nan, np.float32)
    if len(rows):
        scores = exact_scores(rows, query)
        order = np.lexsort((-scores, np.repeat(np.arange(len(owned)), counts)))
        places[has_any] = order[starts[has_any]]
        best[has_any] = scores[places[has_any]]
    return places, best


def selectable(frontier: Frontier, are_excluded: Callable[[Sequence[Id]], list[bool]]) -> NDArray[np.intp]:
    """Return the live positions without those just discovered that are to be passed over, which wait no longer."""
    fresh = frontier.fresh
    excluded = list(compress(fresh, are_excluded(frontier.ids[fresh.start : fresh.stop])))
    if not excluded:
        return frontier.live
    frontier.drop(excluded)
    return frontier.live[~np.isin(frontier.live, excluded)]


def node_of_hit(hit: SearchHit, known: Container[Id]) -> Id:
    """Return the node of a hit: its key where the walk knows artifacts by that, else its artifact's id."""
    return hit.key if hit.key in known else hit.artifact_id
