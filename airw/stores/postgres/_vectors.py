"""Dense search: the server ranks, and the client scores the best again.

The server's scores differ from those of the other stores in their last bits. So a search reads a few more vectors than
it needs, and scores them with `exact_scores`. Then ids, order and scores are those of every other exact search.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores
from airw.protocols import ArtifactVectors, BestRecords
from airw.stores._changes import check_width
from airw.stores._indexes.dense_index import check_queries
from airw.stores.postgres import _filter_sql
from airw.stores.postgres._filter_sql import Parameters
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import decode_vectors, encode_vectors
from airw.values import ArtifactChange, Ranking
from airw.values.filters import Filter

if TYPE_CHECKING:
    from asyncpg import Connection, Record

_SPARE = 16  # rows that a shortlist has besides those wanted
# The width of the stored vectors; by the primary key, as that skips removed rows.
_WIDTH = "(SELECT vector_dims(value) FROM embedding ORDER BY artifact_id, number LIMIT 1)"
_COLUMNS = "v.number, v.artifact_id, v.record_id, v.idx, v.value, v.distance"


class _ScoredRow(NamedTuple):
    """A row of a shortlist, and how well it matches the query."""

    score: float
    artifact_id: str
    idx: int
    number: int
    record_id: str

    @property
    def rank(self) -> tuple[float, str, int, int]:
        """Return what rows are ordered by."""
        return -self.score, self.artifact_id, self.idx, self.number


async def prepare_insert(c: "Connection", puts: Sequence[ArtifactChange], vectors: Floats) -> None:
    """Check that new vectors are as wide as the stored ones.

    Call it after rows were removed, and before new ones are inserted.

    Raises:
        StoreError: If they are not.
    """
    stored = await c.fetchval(f"SELECT {_WIDTH}")
    if stored is not None:
        check_width(puts, vectors, stored)


async def search(
    c: "Connection",
    queries: Floats,
    k: int,
    filter: Filter | None,
    surfaces: Sequence[str] | None,
    *,
    per_artifact: bool,
) -> list[Ranking]:
    """Return the `k` best records or artifacts of each query."""
    queries = check_queries(queries, None)
    wanted = max(k, 0)
    parameters = Parameters()
    vectors = parameters.add(encode_vectors(queries), "vector[]")
    width = parameters.add(queries.shape[1], "integer")
    limit = parameters.add(wanted + _SPARE if wanted else 0, "bigint")
    condition = _compile_condition(filter, surfaces, parameters)
    margins = [_find_margin(query) for query in queries]
    near = _rank_artifacts(condition, limit) if per_artifact else _rank_records(condition, limit)
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {_WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT query.place, near.* FROM unnest({vectors}, {parameters.add(margins, "float8[]")})
            WITH ORDINALITY AS query (aim, margin, place)
            CROSS JOIN LATERAL ({near.replace("$width", f"known.width = {width}")}) near) found ON true""",
        *parameters.values,
    )
    check_queries(queries, rows[0]["width"])
    groups: defaultdict[int, list[Record]] = defaultdict(list)
    for row in rows:
        if row["place"] is not None:
            groups[row["place"] - 1].append(row)
    rankings = []
    for place, query in enumerate(queries):
        found = _score_rows(query, groups[place])
        kept = _keep_best(found, wanted, per_artifact=per_artifact)
        if _may_miss(groups[place], kept, wanted, margins[place], per_artifact=per_artifact):
            tied = await _read_ties(c, query, kept, margins[place], (filter, surfaces))
            kept = _keep_best(_score_rows(query, tied), wanted, per_artifact=per_artifact)
        rankings.append(_to_ranking(kept))
    return rankings


def _compile_condition(filter: Filter | None, surfaces: Sequence[str] | None, parameters: Parameters) -> str:
    """Return the SQL condition that rows of `embedding v` must meet."""
    conditions = ["true"]
    if surfaces is not None:
        conditions.append(f"v.kind = ANY ({parameters.add(keep_storable(surfaces), 'text[]')})")
    if filter is not None:
        matches = _filter_sql.compile_filter(filter, "r.fields", parameters)
        conditions.append(
            f"EXISTS (SELECT 1 FROM record r WHERE r.artifact_id = v.artifact_id AND r.number = v.number AND {matches})"
        )
    return " AND ".join(conditions)


def _rank_records(condition: str, limit: str) -> str:
    return f"""SELECT {_COLUMNS} FROM (
        SELECT v.*, v.value <#> query.aim AS distance FROM embedding v WHERE $width AND {condition}
        ORDER BY v.value <#> query.aim, v.artifact_id, v.idx, v.number LIMIT {limit}) v"""


def _rank_artifacts(condition: str, limit: str) -> str:
    """Return SQL for the records of the best artifacts that may be the best of their artifact."""
    return f"""SELECT {_COLUMNS} FROM (
        SELECT v.*, v.value <#> query.aim AS distance, best.distance AS least FROM (
            SELECT v.artifact_id, min(v.value <#> query.aim) AS distance FROM embedding v WHERE $width AND {condition}
            GROUP BY v.artifact_id ORDER BY 2, 1 LIMIT {limit}) best
        JOIN embedding v ON v.artifact_id = best.artifact_id WHERE {condition}) v
        WHERE distance <= least + query.margin"""


async def _read_ties(
    c: "Connection",
    query: Floats,
    kept: Sequence[_ScoredRow],
    margin: float,
    scope: tuple[Filter | None, Sequence[str] | None],
) -> "list[Record]":
    """Return all rows that may be as good as the worst that is kept.

    Of equal vectors, these are only as many as can be kept. This is for a shortlist that ends within rows of equal
    scores, of which there may be very many.
    """
    parameters = Parameters()
    vector, limit = parameters.add(encode_vectors(query[None])[0], "vector"), parameters.add(len(kept), "bigint")
    farthest = parameters.add(margin - kept[-1].score, "float8")
    condition = _compile_condition(*scope, parameters)
    rows: list[Record] = await c.fetch(
        f"""SELECT {_COLUMNS} FROM (
            SELECT v.*, v.value <#> {vector} AS distance,
            row_number() OVER (PARTITION BY v.value ORDER BY v.artifact_id, v.idx, v.number) AS record_place,
            dense_rank() OVER (PARTITION BY v.value ORDER BY v.artifact_id) AS artifact_place,
            row_number() OVER (PARTITION BY v.value, v.artifact_id ORDER BY v.idx, v.number) AS own_place
            FROM embedding v WHERE v.value <#> {vector} <= {farthest} AND {condition}) v
        WHERE record_place <= {limit} OR (artifact_place <= {limit} AND own_place = 1)""",
        *parameters.values,
    )
    return rows


def _find_margin(query: Floats) -> float:
    """Return how far apart the server's scores of two unit vectors in the wrong order are at most.

    Its scores and the exact ones each differ from the true score by at most dim * 2**-24 * |query|.
    """
    wide = query.astype(np.float64)
    return 5 * len(query) * 2.0**-24 * float(np.sqrt(np.dot(wide, wide)))


def _score_rows(query: Floats, rows: "Sequence[Record]") -> list[_ScoredRow]:
    scores = exact_scores(decode_vectors([row["value"] for row in rows], len(query)), query).tolist()
    return [
        _ScoredRow(score, row["artifact_id"], row["idx"], row["number"], row["record_id"])
        for score, row in zip(scores, rows, strict=True)
    ]


def _keep_best(rows: list[_ScoredRow], k: int, *, per_artifact: bool) -> list[_ScoredRow]:
    """Return the `k` best rows, or the best rows of the `k` best artifacts."""
    rows.sort(key=lambda row: row.rank)
    if per_artifact:
        best: dict[str, _ScoredRow] = {}
        for row in rows:
            best.setdefault(row.artifact_id, row)
        rows = [*best.values()]
    return rows[:k]


def _may_miss(
    rows: "Sequence[Record]", kept: Sequence[_ScoredRow], k: int, margin: float, *, per_artifact: bool
) -> bool:
    """Return whether a row outside of the shortlist may be as good as the last one kept."""
    if per_artifact:
        best: dict[str, float] = {}
        for row in rows:
            best[row["artifact_id"]] = min(row["distance"], best.get(row["artifact_id"], np.inf))
        distances = [*best.values()]
    else:
        distances = [row["distance"] for row in rows]
    is_cut = k > 0 and len(distances) >= k + _SPARE
    return is_cut and -max(distances) >= kept[-1].score - margin


def _to_ranking(rows: Sequence[_ScoredRow]) -> Ranking:
    scores = np.array([row.score for row in rows], np.float64)
    return Ranking([row.record_id for row in rows], [row.artifact_id for row in rows], scores)


async def best_of(
    c: "Connection", query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None
) -> BestRecords:
    """Return the best record of each artifact; `None` and NaN for an artifact without records."""
    query = check_queries(query[None], None)[0]
    rows = await c.fetch(
        f"""SELECT known.width, best.* FROM (SELECT {_WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT DISTINCT ON (artifact_id) artifact_id, record_id, value <#> $1::vector AS distance FROM embedding
            WHERE known.width = $2 AND artifact_id = ANY ($3::text[])
            AND ($4::text[] IS NULL OR kind = ANY ($4::text[]))
            ORDER BY artifact_id, value <#> $1::vector, idx, number) best ON true""",
        encode_vectors(query[None])[0],
        len(query),
        keep_storable({*artifact_ids}),
        None if surfaces is None else keep_storable(surfaces),
    )
    check_queries(query[None], rows[0]["width"])
    best = {row["artifact_id"]: (row["record_id"], -row["distance"]) for row in rows if row["artifact_id"] is not None}
    found = [best.get(artifact_id, (None, np.nan)) for artifact_id in artifact_ids]
    return BestRecords([record_id for record_id, _ in found], np.array([score for _, score in found], np.float32))


async def similarities(c: "Connection", query: Floats, record_ids: Sequence[str]) -> Floats:
    """Return the cosine between the query and each record; NaN for an unknown record."""
    query = check_queries(query[None], None)[0]
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {_WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT record_id, value <#> $1::vector AS distance FROM embedding
            WHERE known.width = $2 AND record_id = ANY ($3::text[])) found ON true""",
        encode_vectors(query[None])[0],
        len(query),
        keep_storable({*record_ids}),
    )
    check_queries(query[None], rows[0]["width"])
    scores = {row["record_id"]: -row["distance"] for row in rows if row["record_id"] is not None}
    return np.array([scores.get(record_id, np.nan) for record_id in record_ids], np.float32)


async def vectors(c: "Connection", ids: Sequence[str]) -> Floats:
    """Return the vector of each record; a row of NaN for an unknown record."""
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {_WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT record_id, value FROM embedding WHERE record_id = ANY ($1::text[])) found ON true""",
        keep_storable({*ids}),
    )
    width = rows[0]["width"] or 0
    stored = [row for row in rows if row["record_id"] is not None]
    matrix = np.vstack(
        [decode_vectors([row["value"] for row in stored], width), np.full((1, width), np.nan, np.float32)]
    )
    place_of = {row["record_id"]: place for place, row in enumerate(stored)}
    return matrix[[place_of.get(record_id, -1) for record_id in ids]].reshape(len(ids), width)


async def vectors_of(c: "Connection", artifact_ids: Sequence[str]) -> ArtifactVectors:
    """Return the record ids of each artifact, ordered by number, with all their vectors."""
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {_WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT artifact_id, record_id, value FROM embedding WHERE artifact_id = ANY ($1::text[])
            ORDER BY artifact_id, number) found ON true""",
        keep_storable({*artifact_ids}),
    )
    width = rows[0]["width"] or 0
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row["artifact_id"] is not None:
            groups[row["artifact_id"]].append(row)
    ids = [[row["record_id"] for row in groups.get(name, ())] for name in artifact_ids]
    values = [row["value"] for name in artifact_ids for row in groups.get(name, ())]
    return ArtifactVectors(ids, decode_vectors(values, width))
