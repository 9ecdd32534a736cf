"""Convert the answers of the stores of several corpora into those of one store.

Nothing here does I/O. A store knows its artifacts by plain ids and its records by plain record ids. Outside it, an
artifact is an `ArtifactRef(source, id)`, and the id of a record is `source/id`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import accumulate, islice
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats
from airw.errors import EmbedderMismatch
from airw.protocols import ArtifactVectors, EdgeRow
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

# This takes a third of the time of `ArtifactRef(...)`, which matters because it runs once an edge.
_ref = partial(tuple.__new__, ArtifactRef)
Found: TypeAlias = tuple[str, Sequence[str], Any]
"""The name of a corpus, the plain ids that it was asked about, and its answer."""


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


def reference_spellings(ref: NodeIdLike, source: str) -> list[str]:
    """Return a reference for one corpus: a text is for each, a pair for its own."""
    if isinstance(ref, str):
        return [ref]
    return [ref[1]] if ref[0] == source else []


def field_spellings(pair: tuple[str, Any], source: str) -> list[tuple[str, Any]]:
    """Return a field with the forms of its value in the metadata of one corpus.

    An artifact, which is a tuple here, is `[source, id]` in a field; in its own corpus it may also be the plain id.
    """
    name, value = pair
    if not isinstance(value, tuple):
        return [pair]
    return [(name, value[1]), (name, [*value])] if value[0] == source else [(name, [*value])]


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


def to_federated_entry(source: str, entry: LedgerEntry) -> LedgerEntry:
    """Return a ledger entry of one corpus as a federated one."""
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


def join_rows(
    refs: Sequence[Any], found: Iterable[Found], convert: Callable[[str, Any], Any] = lambda _, row: row
) -> list[Any]:
    """Return the row of each artifact or record, `None` for an unknown one.

    Args:
        refs: The artifacts or records.
        found: What the corpora have answered, a row for each id.
        convert: Returns a row as it is outside its corpus.
    """
    rows = {
        ref: convert(name, row)
        for name, ids, own in found
        for ref, row in zip(refs_to(name, ids), own, strict=True)
        if row is not None
    }
    return [rows.get(ref) for ref in refs]


def join_vectors(refs: Sequence[Any], found: Sequence[Found]) -> Floats:
    """Return the vectors of records, a row of NaN for an unknown one.

    Raises:
        EmbedderMismatch: If the vectors have several widths.
    """
    width = common_width(vectors for _, _, vectors in found)
    unknown = np.full(width, np.nan, np.float32)
    # A store without vectors answers with width 0, and would not fit the others.
    rows = [unknown if row is None or not row.size else row for row in join_rows(refs, found)]
    return np.array(rows, np.float32).reshape(len(refs), width)


def join_vectors_of(refs: Sequence[Any], found: Sequence[Found]) -> ArtifactVectors:
    """Return the record ids of artifacts and their vectors, in the order of the request.

    Raises:
        EmbedderMismatch: If the vectors have several widths.
    """
    empty = np.empty((0, common_width(answer.vectors for _, _, answer in found)), np.float32)
    groups = join_rows(refs, [(name, ids, _split_groups(answer)) for name, ids, answer in found], _to_federated_group)
    # A store without vectors answers with width 0, and would not fit the others.
    vectors = [rows for _, rows in filter(None, groups) if rows.size]
    return ArtifactVectors(
        [[] if group is None else [*group[0]] for group in groups], np.concatenate([empty, *vectors])
    )


def _split_groups(answer: ArtifactVectors) -> list[tuple[list[str], Floats]]:
    """Return the record ids of each artifact with their vectors."""
    ends = accumulate(map(len, answer.record_ids))
    return [(ids, answer.vectors[end - len(ids) : end]) for ids, end in zip(answer.record_ids, ends, strict=True)]


def _to_federated_group(source: str, group: tuple[list[str], Floats]) -> tuple[list[str], Floats]:
    return [join_id(source, id) for id in group[0]], group[1]


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


def keep_only(ranking: Ranking, artifacts: Iterable[Any] | None, records: Iterable[str] | None) -> Ranking:
    """Return the rows of a ranking of these artifacts or, if none are named, of these records."""
    ids, kept = (ranking.record_ids, records) if artifacts is None else (ranking.artifact_ids, artifacts)
    wanted = {*(kept or ())}
    rows = [row for row, id in enumerate(ids) if id in wanted]
    record_ids, artifact_ids = ([ids[row] for row in rows] for ids in (ranking.record_ids, ranking.artifact_ids))
    return Ranking(record_ids, artifact_ids, ranking.scores[rows], ranking.max_score)


def sum_counts(answers: Mapping[str, Iterable[LinkCount]]) -> list[LinkCount]:
    """Return the sums of the link counts of all corpora."""
    sums: Counter[tuple[str, str, LinkState]] = Counter()
    for counts in answers.values():
        for count in counts:
            sums[count.type, count.origin, count.state] += count.count
    return [LinkCount(*key, total) for key, total in sorted(sums.items())]


def merge_by_score(
    rankings: Iterable[tuple[str, Ranking]], k: int | None, record_key: Callable[[str, str], Any] = join_id
) -> Ranking:
    """Return the `k` best rows of rankings whose scores are on one scale.

    Ties are in the order of the artifact ids, then of the corpus names: as in one corpus that contains them all.

    Args:
        rankings: Rankings, each with the name of its corpus.
        k: The number of rows; `None` for all.
        record_key: Returns the id of a record outside its corpus.
    """
    every = [*rankings]
    rows = [*islice(heapq.merge(*(_to_rows(name, ranking) for name, ranking in every)), k)]
    highest = [ranking.max_score for _, ranking in every if ranking.max_score is not None]
    return Ranking(
        [record_key(name, record_id) for _, _, name, _, record_id in rows],
        [cast("Any", _ref((name, artifact_id))) for _, artifact_id, name, _, _ in rows],
        np.array([-score for score, *_ in rows], np.float64),
        max(highest) if highest and len(highest) == len(every) else None,
    )


def _to_rows(name: str, ranking: Ranking) -> Iterator[tuple[float, str, str, int, str]]:
    """Yield the rows of a ranking, in the form that sorts them among those of others."""
    columns = zip(ranking.scores.tolist(), ranking.artifact_ids, ranking.record_ids, strict=True)
    for place, (score, artifact_id, record_id) in enumerate(columns):
        yield -score, artifact_id, name, place, record_id


def merge_by_rank(rankings: Iterable[tuple[str, Ranking]], k: int | None) -> Ranking:
    """Merge rankings of different scales by rank; the scores become RRF scores.

    Ties are in the order of the corpora, then in that of each ranking.
    """
    # Each corpus has records of its own, so no row is in two rankings.
    rows = fuse_ranks(
        [
            [(join_id(name, id), ref) for id, ref in zip(own.record_ids, refs_to(name, own.artifact_ids), strict=True)]
            for name, own in rankings
        ]
    )[:k]
    return Ranking(
        [record_id for (record_id, _), _ in rows],
        [cast("Any", ref) for (_, ref), _ in rows],
        np.array([score for _, score in rows], np.float64),
    )


# Edges


def sort_edges(
    ids: Sequence[NodeIdLike],
    edges: Iterable[tuple[int, Edge]],
    missing: AbstractSet[NodeIdLike],
    order: Mapping[str, int],
    limit: int | None,
) -> list[EdgeRow]:
    """Return the edges of each artifact without duplicates.

    They are sorted by type, then by the artifact at the other end.

    Args:
        ids: The requested artifacts.
        edges: Their edges, each with the place of its artifact among `ids`.
        missing: Targets that no store contains; edges to them are left out, and those of an artifact to itself.
        order: The place of each corpus; artifacts are sorted by it, then by id.
        limit: The largest number of edges of each artifact.
    """
    edges_by_key: list[dict[tuple[Any, ...], Edge]] = [{} for _ in ids]
    for place, edge in edges:
        if edge.target not in missing and edge.source != edge.target:
            is_inward = edge.source != ids[place]
            source, id = cast("ArtifactRef", edge.source if is_inward else edge.target)
            key = (edge.type, order[source], id, is_inward, edge.origin)
            # Several links can be one edge; the largest weight counts.
            best = edges_by_key[place].setdefault(key, edge)
            if best.weight < edge.weight:
                edges_by_key[place][key] = edge
    return [
        EdgeRow.of(id, [by_key[key] for key in sorted(by_key)[:limit]])
        for id, by_key in zip(ids, edges_by_key, strict=True)
    ]
