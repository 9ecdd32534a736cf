"""What the stores of several corpora answer, turned into what one store of them all would; pure."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.vectors import best_first
from airw.errors import EmbedderMismatch
from airw.protocols import ArtifactVectors, BestRecords
from airw.retrieval.fusion import fuse_ranks
from airw.values import (
    ArtifactRef,
    Edge,
    LedgerEntry,
    LinkCount,
    LinkState,
    NodeId,
    NodeIdLike,
    Ranking,
    Record,
    SearchHit,
    UnresolvedLink,
)

R = TypeVar("R")
S = TypeVar("S")
_ref = partial(tuple.__new__, ArtifactRef)  # a third of the time of `ArtifactRef(...)`, which matters once an edge
Places: TypeAlias = Mapping[str, Sequence[int]]
"""The places of what each corpus, by name, is asked about among all that is asked."""


@dataclass(frozen=True, slots=True)
class MemberRecord(Record):
    """A record of one of several corpora: its `id` is `source/id`, its `artifact_id` that in the corpus `source`."""

    source: str = field(kw_only=True)

    def as_hit(self, score: float, source: str | None) -> SearchHit:
        """Return the record as a fresh hit of the corpus that holds it, whatever the source of those who ask."""
        return Record.as_hit(self, score, self.source)


@dataclass(frozen=True, slots=True)
class MemberEntry(LedgerEntry):
    """A ledger entry of one of several corpora: its record ids are `source/id`, the corpus is `member`."""

    member: str = field(kw_only=True)


class Found(NamedTuple):
    """An edge of the artifact at a position, and whether the link names the corpus it leads to."""

    at: int
    edge: Edge
    is_named: bool


def split_ids(record_ids: Sequence[str]) -> list[ArtifactRef]:
    """Return for each record its corpus and its id there."""
    return [_ref((source, id)) for source, _, id in (each.partition("/") for each in record_ids)]


def joined_id(source: str, id: str) -> str:
    """Give the id of a record among those of several corpora."""
    return f"{source}/{id}"


def refs_to(source: str, ids: Iterable[str]) -> list[ArtifactRef]:
    """Return the artifacts of one corpus as those of several."""
    return [_ref((source, id)) for id in ids]


def ref_to(source: str, node: NodeId) -> ArtifactRef:
    """Return an artifact as its store calls it as one of several corpora: one that names no corpus is of this one."""
    return _ref((source, node)) if isinstance(node, str) else _ref(node)


def of_member(source: str, record: Record) -> Record:
    """Return a record as one of several corpora."""
    return MemberRecord(
        joined_id(source, record.id),
        record.artifact_id,
        record.surface_kind,
        record.surface_index,
        record.text,
        record.metadata,
        source=source,
    )


def entry_of_member(source: str, entry: LedgerEntry | None) -> LedgerEntry | None:
    """Return a ledger entry as one of several corpora."""
    if entry is None:
        return None
    own = {each.name: getattr(entry, each.name) for each in fields(LedgerEntry)}
    ids = tuple(joined_id(source, id) for id in entry.record_ids)
    return MemberEntry(**(own | {"record_ids": ids}), member=source)


def edge_of_member(source: str, edge: Edge) -> Edge:
    """Return an edge with references as both ends."""
    return Edge(ref_to(source, edge.source), ref_to(source, edge.target), edge.type, edge.origin)


def link_of_member(source: str, found: UnresolvedLink) -> UnresolvedLink:
    """Return an unresolved link as one of several corpora: its source and its candidates become references."""
    candidates = tuple(ref_to(source, id) for id in found.candidates)
    return UnresolvedLink(ref_to(source, found.source), found.link, candidates)


def summed(answers: Mapping[str, Iterable[LinkCount]]) -> list[LinkCount]:
    """Give the counts of all corpora together."""
    counts: Counter[tuple[str, str, LinkState]] = Counter()
    for answer in answers.values():
        for each in answer:
            counts[each.type, each.origin, each.state] += each.count
    return [LinkCount(*key, count) for key, count in sorted(counts.items())]


def shared_out(ids: Sequence[NodeIdLike], sources: Container[str]) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """Give the places of what is of each corpus, and the ids there; an id that names no corpus is of none."""
    places: dict[str, list[int]] = {}
    asked: dict[str, list[str]] = {}
    for at, each in enumerate(ids):
        if not isinstance(each, str) and each[0] in sources:
            places.setdefault(each[0], []).append(at)
            asked.setdefault(each[0], []).append(each[1])
    return places, asked


def in_order(
    answer: list[S], places: Places, answers: Mapping[str, Sequence[R]], made: Callable[[str, R], S]
) -> list[S]:
    """Put what is made of the answers of each corpus where it belongs."""
    for source, found in answers.items():
        for at, each in zip(places[source], found, strict=True):
            answer[at] = made(source, each)
    return answer


def own_edges(places: Places, answers: Mapping[str, Iterable[Iterable[Edge]]]) -> list[Found]:
    """Give the edges that each corpus knows of its own artifacts."""
    return [
        Found(at, edge_of_member(source, edge), edge.leads_out)
        for source, found in answers.items()
        for at, edges in zip(places[source], found, strict=True)
        for edge in edges
    ]


def edges_to(nodes: Sequence[NodeIdLike], answers: Mapping[str, Iterable[Iterable[Edge]]]) -> list[Found]:
    """Give those edges that lead to some nodes by links that name their corpus."""
    places: dict[NodeIdLike, list[int]] = {}
    for at, node in enumerate(nodes):
        places.setdefault(node, []).append(at)
    return [
        Found(at, edge_of_member(source, edge), is_named=True)
        for source, found in answers.items()
        for edges in found
        for edge in edges
        if edge.leads_out
        for at in places.get(edge.target, ())
    ]


def as_asked(node: NodeIdLike, source: str) -> list[NodeId]:
    """Return what one corpus calls a node of several: its own artifact goes by its id and by its reference."""
    if isinstance(node, str):
        return [node]
    ref = ArtifactRef(*node)
    return [ref.id, ref] if ref.source == source else [ref]


def as_said(value: Any, source: str) -> list[Any]:
    """Give a value as the fields of one corpus may hold it: an artifact as `[source, id]`, its own also as an id."""
    if not isinstance(value, tuple):
        return [value]
    return [value[1], list(value)] if value[0] == source else [list(value)]


def ranked_by_score(rankings: Mapping[str, Ranking], k: int) -> Ranking:
    """Merge rankings of one scale: score descending, then the order of the corpora, then that of each."""
    every = _joined(rankings)
    return _picked(every, best_first(every.scores, k), every.scores)


def ranked_by_rank(rankings: Mapping[str, Ranking], k: int) -> Ranking:
    """Merge rankings of several scales by reciprocal rank, which is the score then; ties as in `ranked_by_score`."""
    every, ends = _joined(rankings), np.cumsum([len(each) for each in rankings.values()])
    lists = [range(end - len(each), end) for end, each in zip(ends.tolist(), rankings.values(), strict=True)]
    fused = fuse_ranks(lists)[:k]
    masses = np.zeros(len(every))
    masses[[at for at, _ in fused]] = [mass for _, mass in fused]
    return _picked(every, np.array([at for at, _ in fused], np.intp), masses)


def _joined(rankings: Mapping[str, Ranking]) -> Ranking:
    """Give the rankings one after another."""
    records = [joined_id(source, id) for source, each in rankings.items() for id in each.record_ids]
    artifacts: list[Any] = [ref for source, each in rankings.items() for ref in refs_to(source, each.artifact_ids)]
    return Ranking(records, artifacts, np.concatenate([np.asarray(each.scores) for each in rankings.values()]))


def _picked(ranking: Ranking, places: NDArray[np.intp], scores: NDArray[np.float64]) -> Ranking:
    at = places.tolist()
    return Ranking([ranking.record_ids[each] for each in at], [ranking.artifact_ids[each] for each in at], scores[at])


def best_in_order(count: int, places: Places, answers: Mapping[str, BestRecords]) -> BestRecords:
    """Give the best records of `count` artifacts, and their cosines."""
    records: list[str | None] = [None] * count
    scores = np.full(count, np.nan, np.float32)
    for source, (best, cosines) in answers.items():
        scores[places[source]] = cosines
        for at, id in zip(places[source], best, strict=True):
            records[at] = None if id is None else joined_id(source, id)
    return BestRecords(records, scores)


def rows_in_order(count: int, places: Places, answers: Mapping[str, ArtifactVectors]) -> ArtifactVectors:
    """Give the record ids of `count` artifacts, and all their vectors in that order.

    Raises:
        EmbedderMismatch: The vectors are of several widths.
    """
    width = width_of(rows for _, rows in answers.values())
    flat = np.concatenate([rows for _, rows in answers.values() if rows.shape[1] == width])
    records: list[list[str]] = [[] for _ in range(count)]
    spans = [range(0)] * count
    start = 0
    for source, (owned, _) in answers.items():
        for at, ids in zip(places.get(source, ()), owned, strict=True):
            records[at] = [joined_id(source, id) for id in ids]
            spans[at] = range(start, start := start + len(ids))
    return ArtifactVectors(records, flat[np.array([at for span in spans for at in span], np.intp)])


def width_of(rows: Iterable[Floats]) -> int:
    """Give the width of vectors of several corpora; 0 where nothing is stored.

    Raises:
        EmbedderMismatch: They are of several widths.
    """
    widths = {each.shape[1] for each in rows} - {0}
    if len(widths) > 1:
        raise EmbedderMismatch(f"the vectors of these corpora are {' and '.join(map(str, sorted(widths)))} wide")
    return max(widths, default=0)


def edges_in_order(
    ids: Sequence[NodeIdLike],
    found: Iterable[Found],
    unknown: AbstractSet[NodeIdLike],
    places: Mapping[str, int],
    limit: int | None,
) -> list[list[Edge]]:
    """Give the edges of each artifact, once each, by type, then by the artifact at the other end.

    Left out are those to what is unknown, or to itself. Artifacts are in the order of their corpora, then by id.
    """
    edges: list[dict[Edge, tuple[Any, ...]]] = [{} for _ in ids]
    for at, edge, _ in found:
        if edge.target not in unknown and edge.source != edge.target:
            is_inward = edge.source != ids[at]
            source, id = cast("ArtifactRef", edge.source if is_inward else edge.target)
            edges[at][edge] = (edge.type, places[source], id, is_inward, edge.origin)
    return [sorted(each, key=each.__getitem__)[:limit] for each in edges]
