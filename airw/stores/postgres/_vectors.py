"""Dense search: the server ranks, and the client scores the best again.

The server's scores differ from those of the other stores in their last bits. So a search reads all vectors that may be
among the best, and scores them with `exact_scores`. Then ids, order and scores are those of every other exact search.
With an approximate index, this holds for what the index finds. What a request names has the scores of the server.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores, unit_rows
from airw.protocols import ArtifactVectors, Rank, Vectors, VectorsOf
from airw.stores._indexes.dense_index import check_queries
from airw.stores._stored_values import check_types
from airw.stores.postgres._filter_sql import Parameters
from airw.stores.postgres._keys import keep_storable
from airw.stores.postgres._records import MOST, list_conditions
from airw.stores.postgres._vector_codec import MAX_WIDTH, decode_vectors, encode_queries, encode_vectors
from airw.stores.postgres._vector_index import WIDTH, has_index_sql, is_common_sql
from airw.values import Ranking

if TYPE_CHECKING:
    from asyncpg import Connection, Record

# So many rows an index is asked for, the least that suffice: few numbers, as each is another statement. With the number
# as a parameter, the server would plan for any number of rows, and prefer to sort all.
_DEPTHS = (32, 64, 128, 256, 512, 1024, 2048)
_COLUMNS = "v.artifact_id, v.record_id, v.idx, v.number, v.value"
_JOINED = "record.artifact_id = v.artifact_id AND record.number = v.number"


async def rank(c: "Connection", request: Rank) -> list[Ranking]:
    """Return the best records or artifacts of each query; see `Rank`."""
    given: Any = request.queries
    queries, is_named = check_queries(given, None), request.needs == "scores"
    k = MOST if request.k is None else min(request.k, MOST)
    # With a filter, the last rows that an index finds are worse than some that it passes by.
    is_filtered = request.filter is not None or request.surfaces is not None
    least = 2.0 * k * (2.0 if request.per_artifact else 1.0) * (1.6 if is_filtered else 1.0)
    depths = [] if is_named or k == 0 else [depth for depth in _DEPTHS if depth >= least]
    while True:
        depth = depths[0] if depths else None
        sql, values = _select_near(queries, request, k, depth)
        rows = await c.fetch(sql, *values)
        check_queries(queries, rows[0]["width"])
        groups: list[list[Record]] = [[] for _ in queries]
        for row in rows:
            if row["place"] is not None:
                groups[row["place"] - 1].append(row)
        pairs = zip(queries, groups, strict=True)
        rankings = [_rank_rows(query, group, k, request, is_named=is_named) for query, group in pairs]
        if not rows[0]["by_index"] or all(len(ranking) == k for ranking in rankings):
            return rankings
        # The index found too few artifacts, or too few rows in time: ask for more, or compare all.
        is_cut = any(len(group) == depth for group in groups)
        depths = [more for more in depths if is_cut and depth is not None and more > 2 * depth]


def _select_near(queries: Floats, request: Rank, k: int, depth: int | None) -> tuple[str, list[Any]]:
    """Return the statement for the rows that may be the best, with its parameters.

    Args:
        queries: The queries.
        request: The request.
        k: The number of results.
        depth: The rows that an index is asked for, if there is one; `None` for an exact search.
    """
    parameters, width, is_named = Parameters(), queries.shape[1], request.needs == "scores"
    # Two of the server's scores in the wrong order are at most so far apart: its scores of unit vectors and the exact
    # ones each differ from the true score by at most dim * 2**-24 * |query|.
    margins = (5 * width * 2.0**-24 * np.linalg.norm(queries.astype(np.float64), axis=1)).tolist()
    # The length of a query does not matter for an index. A long one might be too large for its small type.
    units = unit_rows(queries, count=len(queries))
    columns = (encode_queries(queries), "vector"), (encode_queries(units), "vector"), (margins, "float8")
    arrays = ", ".join([parameters.add(column, f"{type}[]") for column, type in columns])
    asked = f"unnest({arrays}) WITH ORDINALITY AS query (aim, unit, margin, place)"
    wide = f"known.width = {parameters.add(width, 'integer')}"
    conditions = list_conditions(request, parameters, "v", id="record_id")
    tables = "embedding v" if request.filter is None else f"embedding v JOIN record ON {_JOINED}"
    where = " AND ".join([wide, "NOT known.by_index", *conditions])
    if is_named:
        near = _select_named(tables, where, per_artifact=request.per_artifact)
    else:
        near = _select_best(tables, where, parameters.add(k, "bigint"), per_artifact=request.per_artifact)
    by_index = "false"
    if depth is not None:
        by_index = has_index_sql(width)
        if conditions:
            sampled = " AND ".join(list_conditions(request, parameters, "record"))
            by_index = f"CASE WHEN {by_index} THEN {is_common_sql(sampled)} ELSE false END"
        if request.filter is not None:
            # A join might be planned as a sort of all rows. So each row is looked up that the index finds.
            conditions[-1] = f"(SELECT {conditions[-1]} FROM record WHERE {_JOINED})"
        half = f"halfvec({min(width, MAX_WIDTH)})"
        near = f"""(SELECT {_COLUMNS}, NULL::float8 AS distance FROM embedding v
            WHERE {" AND ".join([wide, "known.by_index", *conditions])}
            ORDER BY (v.value::{half}) <#> query.unit::{half} LIMIT {depth}) UNION ALL ({near})"""
    sql = f"""
        SELECT known.*, found.* FROM (SELECT {WIDTH} AS width, {by_index} AS by_index) known LEFT JOIN LATERAL (
            SELECT query.place, near.* FROM {asked} CROSS JOIN LATERAL ({near}) near) found ON true"""
    return sql, parameters.values


def _select_named(tables: str, where: str, *, per_artifact: bool) -> str:
    """Return SQL for the records that are named, or the best of each artifact."""
    return f"""
        SELECT {"DISTINCT ON (v.artifact_id)" if per_artifact else ""}
            v.artifact_id, v.record_id, v.idx, v.number, NULL::vector AS value, v.value <#> query.aim AS distance
        FROM {tables} WHERE {where} ORDER BY v.artifact_id, v.value <#> query.aim, v.idx, v.number"""


def _select_best(tables: str, where: str, limit: str, *, per_artifact: bool) -> str:
    """Return SQL for all records that may be among the best.

    These are as near as the last of the best, or a little less. There may be very many of equal vectors; of these, only
    as many as can be among the best. `OFFSET 0` has the server look up the others one by one.
    """
    best, of_artifact = "near", ""
    places = "row_number() OVER (PARTITION BY v.value ORDER BY v.artifact_id, v.idx, v.number) <= {limit}"
    if per_artifact:
        best = "(SELECT artifact_id, min(distance) AS distance FROM near GROUP BY artifact_id)"
        of_artifact = (
            f"JOIN {best} own ON own.artifact_id = near.artifact_id AND near.distance <= own.distance + query.margin"
        )
        places = """row_number() OVER (PARTITION BY v.value, v.artifact_id ORDER BY v.idx, v.number) = 1
            AND dense_rank() OVER (PARTITION BY v.value ORDER BY v.artifact_id) <= {limit}"""
    return f"""
        WITH near AS MATERIALIZED (
            SELECT v.artifact_id, v.number, v.value <#> query.aim AS distance FROM {tables} WHERE {where}
        )
        SELECT {_COLUMNS}, v.distance FROM (
            SELECT {_COLUMNS}, near.distance, {places.format(limit=limit)} AS is_best
            FROM near {of_artifact} CROSS JOIN LATERAL (
                SELECT * FROM embedding v WHERE v.artifact_id = near.artifact_id AND v.number = near.number OFFSET 0
            ) v
            WHERE {"own" if per_artifact else "near"}.distance <= query.margin + (
                SELECT max(distance) FROM (SELECT distance FROM {best} best ORDER BY distance LIMIT {limit}) best
            )
        ) v WHERE is_best"""


def _rank_rows(query: Floats, rows: "Sequence[Record]", k: int, request: Rank, *, is_named: bool) -> Ranking:
    """Return the ranking of one query, from the rows that may be the best."""
    check_types([[row[name] for row in rows] for name in ("artifact_id", "record_id", "idx")], [str, str, int])
    if is_named:
        scores = np.array([-row["distance"] for row in rows], np.float32)
    else:
        scores = exact_scores(decode_vectors([row["value"] for row in rows], len(query)), query)
    ranked = sorted(
        (-score, row["artifact_id"], row["idx"], row["number"], row["record_id"])
        for score, row in zip(scores.tolist(), rows, strict=True)
    )
    if request.per_artifact:
        best: dict[str, tuple[float, str, int, int, str]] = {}
        for each in ranked:
            best.setdefault(each[1], each)
        ranked = [*best.values()]
    ranked = ranked[:k]
    values = np.array([-each[0] for each in ranked], np.float64)
    return Ranking([each[4] for each in ranked], [each[1] for each in ranked], values)


async def vectors(c: "Connection", request: Vectors) -> Floats:
    """Return the vector of each record; a row of NaN for an unknown record."""
    width, rows = await _read(c, "record_id", request.ids)
    values = {row["record_id"]: row["value"] for row in rows}
    unknown = encode_vectors(np.full((1, width), np.nan, np.float32))[0]
    return decode_vectors([values.get(record_id, unknown) for record_id in request.ids], width)


async def vectors_of(c: "Connection", request: VectorsOf) -> ArtifactVectors:
    """Return the record ids of each artifact, ordered by number, with all their vectors."""
    width, rows = await _read(c, "artifact_id", request.artifact_ids)
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        groups[row["artifact_id"]].append(row)
    found = [groups.get(name, []) for name in request.artifact_ids]
    values = [row["value"] for group in found for row in group]
    return ArtifactVectors([[row["record_id"] for row in group] for group in found], decode_vectors(values, width))


async def _read(c: "Connection", column: str, ids: Sequence[Any]) -> "tuple[int, list[Record]]":
    """Return the width of all vectors, and the rows with these ids in a column."""
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT artifact_id, record_id, value FROM embedding WHERE {column} = ANY ($1::text[])
            ORDER BY artifact_id, number) found ON true""",
        keep_storable({*ids}),
    )
    return rows[0]["width"] or 0, [row for row in rows if row["record_id"] is not None]
