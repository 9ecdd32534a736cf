"""Convert the answers of the stores of several corpora into those of one store.

Nothing here does I/O. A store knows its artifacts by plain ids and its records by plain record ids. Outside it, an
artifact is an `ArtifactRef(source, id)`, and the id of a record is `source/id`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
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
# This takes a third of the time of `ArtifactRef(...)`, which matters because it runs once an edge.
_ref = partial(tuple.__new__, ArtifactRef)
Positions: TypeAlias = Mapping[str, Sequence[int]]
"""For each corpus, the positions of its items among all requested items."""


@dataclass(frozen=True, slots=True)
class FederatedRecord(Record):
    """A record of one of several corpora.

    Its `id` is `source/id`; its `artifact_id` is the plain id in the corpus `source`.
    """

    source: str = field(kw_only=True)

    def as_hit(self, score: float, source: str | None) -> SearchHit:
        """Return the record as a new hit of its own corpus; the argument `source` is ignored."""
        return Record.as_hit(self, score, self.source)


@dataclass(frozen=True, slots=True)
class FederatedEntry(LedgerEntry):
    """A ledger entry of one of several corpora, whose record ids are `source/id`."""

    corpus: str = field(kw_only=True)


class FederatedEdge(NamedTuple):
    """An edge of the artifact at a position of the request.

    `names_corpus` is true if the link names the corpus that it leads to: its target may then not exist.
    """

    position: int
    edge: Edge
    names_corpus: bool


# Ids inside a corpus and outside it


def split_ids(record_ids: Sequence[str]) -> list[ArtifactRef]:
    """Return the corpus of each record, and its id there."""
    return [_ref((source, id)) for source, _, id in (record_id.partition("/") for record_id in record_ids)]


def join_id(source: str, id: str) -> str:
    """Return the federated id of a record."""
    return f"{source}/{id}"


def refs_to(source: str, ids: Iterable[str]) -> list[ArtifactRef]:
    """Return references to artifacts of one corpus."""
    return [_ref((source, id)) for id in ids]


def ref_to(source: str, node: NodeId) -> ArtifactRef:
    """Return a reference to a node of a store; a plain id is in the store's own corpus."""
    return _ref((source, node)) if isinstance(node, str) else _ref(node)


def node_spellings(node: NodeIdLike, source: str) -> list[NodeId]:
    """Return the names of a node inside one corpus.

    Links inside a corpus use the plain id of its artifacts or a reference, links from elsewhere a reference.
    """
    if isinstance(node, str):
        return [node]
    ref = ArtifactRef(*node)
    return [ref.id, ref] if ref.source == source else [ref]


def value_spellings(value: Any, source: str) -> list[Any]:
    """Return the forms of a value in the metadata fields of one corpus.

    An artifact, which is a tuple here, is `[source, id]` in a field; in its own corpus it may also be the plain id.
    """
    if not isinstance(value, tuple):
        return [value]
    return [value[1], list(value)] if value[0] == source else [list(value)]


# Values of a store as federated values


def to_federated_record(source: str, record: Record) -> Record:
    """Return a record of one corpus as a federated one."""
    return FederatedRecord(
        join_id(source, record.id),
        record.artifact_id,
        record.surface_kind,
        record.surface_index,
        record.text,
        record.metadata,
        source=source,
    )


def to_federated_entry(source: str, entry: LedgerEntry | None) -> LedgerEntry | None:
    """Return a ledger entry of one corpus as a federated one."""
    if entry is None:
        return None
    values = {item.name: getattr(entry, item.name) for item in fields(LedgerEntry)}
    record_ids = tuple(join_id(source, id) for id in entry.record_ids)
    return FederatedEntry(**(values | {"record_ids": record_ids}), corpus=source)


def to_federated_edge(source: str, edge: Edge) -> Edge:
    """Return an edge of one corpus with references as both ends."""
    return Edge(ref_to(source, edge.source), ref_to(source, edge.target), edge.type, edge.origin, edge.weight)


def to_federated_link(source: str, unresolved: UnresolvedLink) -> UnresolvedLink:
    """Return an unresolved link of one corpus with references instead of plain ids."""
    candidates = tuple(ref_to(source, id) for id in unresolved.candidates)
    return UnresolvedLink(ref_to(source, unresolved.source), unresolved.link, candidates)


# Splitting a request, and putting the answers back in order


def group_by_corpus(
    ids: Sequence[NodeIdLike], sources: Container[str]
) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """Return, for each corpus, the positions of its artifacts or records and their plain ids.

    Ids that name no corpus, or another one, are left out.
    """
    positions: dict[str, list[int]] = {}
    ids_by_corpus: dict[str, list[str]] = {}
    for position, id in enumerate(ids):
        if not isinstance(id, str) and id[0] in sources:
            positions.setdefault(id[0], []).append(position)
            ids_by_corpus.setdefault(id[0], []).append(id[1])
    return positions, ids_by_corpus


def scatter_in_order(
    result: list[S], positions: Positions, answers: Mapping[str, Sequence[R]], convert: Callable[[str, R], S]
) -> list[S]:
    """Convert the answers of each corpus and write them to their positions in `result`."""
    for source, values in answers.items():
        for position, value in zip(positions[source], values, strict=True):
            result[position] = convert(source, value)
    return result


def scatter_best_records(count: int, positions: Positions, answers: Mapping[str, BestRecords]) -> BestRecords:
    """Return the best records of `count` artifacts, in the order of the request."""
    record_ids: list[str | None] = [None] * count
    scores = np.full(count, np.nan, np.float32)
    for source, (best, cosines) in answers.items():
        scores[positions[source]] = cosines
        for position, id in zip(positions[source], best, strict=True):
            record_ids[position] = None if id is None else join_id(source, id)
    return BestRecords(record_ids, scores)


def scatter_vectors(count: int, positions: Positions, answers: Mapping[str, ArtifactVectors]) -> ArtifactVectors:
    """Return the record ids and the vectors of `count` artifacts, in order of the request.

    Raises:
        EmbedderMismatch: If the vectors have several widths.
    """
    width = common_width(vectors for _, vectors in answers.values())
    # A store without vectors answers with width 0, and would not fit the others.
    stacked = np.concatenate([vectors for _, vectors in answers.values() if vectors.shape[1] == width])
    record_ids: list[list[str]] = [[] for _ in range(count)]
    spans = [range(0)] * count
    start = 0
    for source, (ids_by_artifact, _) in answers.items():
        for position, ids in zip(positions.get(source, ()), ids_by_artifact, strict=True):
            record_ids[position] = [join_id(source, id) for id in ids]
            spans[position] = range(start, start + len(ids))
            start += len(ids)
    rows = [row for span in spans for row in span]
    return ArtifactVectors(record_ids, stacked[np.array(rows, np.intp)])


def common_width(arrays: Iterable[Floats]) -> int:
    """Return the width of the vectors of several corpora; 0 if nothing is stored.

    Raises:
        EmbedderMismatch: If they have several widths.
    """
    widths = {array.shape[1] for array in arrays} - {0}
    if len(widths) > 1:
        raise EmbedderMismatch(f"the vectors of these corpora are {' and '.join(map(str, sorted(widths)))} wide")
    return max(widths, default=0)


# Merging answers


def sum_counts(answers: Mapping[str, Iterable[LinkCount]]) -> list[LinkCount]:
    """Return the sums of the link counts of all corpora."""
    sums: Counter[tuple[str, str, LinkState]] = Counter()
    for counts in answers.values():
        for count in counts:
            sums[count.type, count.origin, count.state] += count.count
    return [LinkCount(*key, total) for key, total in sorted(sums.items())]


class _Row(NamedTuple):
    """A row of a ranking.

    Rows sort best first, ties by artifact id, source and place in the ranking.
    """

    negative_score: float
    artifact_id: str
    source: str
    place: int
    record_id: str


def merge_by_score(rankings: Mapping[str, Ranking], k: int, record_key: Callable[[str, str], Any] = join_id) -> Ranking:
    """Return the `k` best rows of rankings whose scores are on one scale.

    Ties are in the order of the artifact ids, then of the corpus names: as in one corpus that contains them all.

    Args:
        rankings: The ranking of each corpus.
        k: The number of rows.
        record_key: Returns the id of a record outside its corpus.
    """
    rows = list(islice(heapq.merge(*(_to_rows(source, ranking) for source, ranking in rankings.items())), k))
    record_ids = [record_key(row.source, row.record_id) for row in rows]
    artifact_ids: list[Any] = [_ref((row.source, row.artifact_id)) for row in rows]
    highest = [ranking.max_score for ranking in rankings.values() if ranking.max_score is not None]
    is_known = bool(highest) and len(highest) == len(rankings)
    scores = np.array([-row.negative_score for row in rows], np.float64)
    return Ranking(record_ids, artifact_ids, scores, max(highest) if is_known else None)


def _to_rows(source: str, ranking: Ranking) -> Iterator[_Row]:
    columns = zip(ranking.scores.tolist(), ranking.artifact_ids, ranking.record_ids, strict=True)
    for place, (score, artifact_id, record_id) in enumerate(columns):
        yield _Row(-score, artifact_id, source, place, record_id)


def merge_by_rank(rankings: Mapping[str, Ranking], k: int) -> Ranking:
    """Merge rankings of different scales by rank; the scores become RRF scores.

    Ties are in the order of the corpora, then in that of each ranking.
    """
    merged = _concatenate(rankings)
    ends = np.cumsum([len(ranking) for ranking in rankings.values()])
    # Each corpus has records of its own, so the keys of the fusion are the rows of the concatenated ranking.
    row_lists = [range(end - len(ranking), end) for end, ranking in zip(ends.tolist(), rankings.values(), strict=True)]
    fused = fuse_ranks(row_lists)[:k]
    rows = [row for row, _ in fused]
    scores = np.zeros(len(merged))
    scores[rows] = [score for _, score in fused]
    return _take_rows(merged, np.array(rows, np.intp), scores)


def _concatenate(rankings: Mapping[str, Ranking]) -> Ranking:
    records = [join_id(source, id) for source, ranking in rankings.items() for id in ranking.record_ids]
    artifacts: list[Any] = [
        ref for source, ranking in rankings.items() for ref in refs_to(source, ranking.artifact_ids)
    ]
    # If the corpora that can rank have all failed, there is no ranking.
    scores = np.concatenate([np.empty(0), *(np.asarray(ranking.scores) for ranking in rankings.values())])
    return Ranking(records, artifacts, scores)


def _take_rows(ranking: Ranking, rows: NDArray[np.intp], scores: NDArray[np.float64]) -> Ranking:
    indexes = rows.tolist()
    return Ranking(
        [ranking.record_ids[index] for index in indexes],
        [ranking.artifact_ids[index] for index in indexes],
        scores[indexes],
    )


# Edges


def collect_own_edges(positions: Positions, answers: Mapping[str, Iterable[Iterable[Edge]]]) -> list[FederatedEdge]:
    """Return the edges that each store has of its own artifacts."""
    return [
        FederatedEdge(position, to_federated_edge(source, edge), edge.leads_out)
        for source, edge_lists in answers.items()
        for position, edges in zip(positions[source], edge_lists, strict=True)
        for edge in edges
    ]


def collect_edges_to(
    nodes: Sequence[NodeIdLike], answers: Mapping[str, Iterable[Iterable[Edge]]]
) -> list[FederatedEdge]:
    """Return the edges whose links name their corpus and lead to one of the nodes."""
    positions: dict[NodeIdLike, list[int]] = {}
    for position, node in enumerate(nodes):
        positions.setdefault(node, []).append(position)
    return [
        FederatedEdge(position, to_federated_edge(source, edge), names_corpus=True)
        for source, edge_lists in answers.items()
        for edges in edge_lists
        for edge in edges
        if edge.leads_out
        for position in positions.get(edge.target, ())
    ]


def sort_edges(
    ids: Sequence[NodeIdLike],
    edges: Iterable[FederatedEdge],
    missing: AbstractSet[NodeIdLike],
    corpus_order: Mapping[str, int],
    limit: int | None,
) -> list[list[Edge]]:
    """Return the edges of each artifact without duplicates.

    They are sorted by type, then by the artifact at the other end.

    Args:
        ids: The requested artifacts.
        edges: Their edges.
        missing: Targets that no store contains; edges to them are left out, and those of an artifact to itself.
        corpus_order: The position of each corpus; artifacts are sorted by it, then by id.
        limit: The largest number of edges of each artifact.
    """
    edges_by_key: list[dict[tuple[Any, ...], Edge]] = [{} for _ in ids]
    for position, edge, _ in edges:
        if edge.target not in missing and edge.source != edge.target:
            is_inward = edge.source != ids[position]
            source, id = cast("ArtifactRef", edge.source if is_inward else edge.target)
            key = (edge.type, corpus_order[source], id, is_inward, edge.origin)
            # Several links can be one edge; the largest weight counts.
            best = edges_by_key[position].setdefault(key, edge)
            if best.weight < edge.weight:
                edges_by_key[position][key] = edge
    return [[by_key[key] for key in sorted(by_key)[:limit]] for by_key in edges_by_key]
