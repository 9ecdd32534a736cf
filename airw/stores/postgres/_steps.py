"""A step of a walk in one statement: edges, best records, and their scores."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_count, check_limit
from airw._base.concurrency import offload_if
from airw.protocols import ArtifactVectors, BestRecords, StepAnswer
from airw.stores._indexes.dense_index import check_queries
from airw.stores._stored_values import detect_damage
from airw.stores.postgres._links import EDGE_COLUMNS, EDGE_ORDER, edge_parameters, make_edges, select_edges
from airw.stores.postgres._records import decode_records
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import decode_vectors, encode_queries
from airw.stores.postgres._vector_index import WIDTH
from airw.values import DIRECTIONS, Direction, LinkFilter, Record

if TYPE_CHECKING:
    from asyncpg import Connection

_FEW = 500  # edges and artifacts that are made in less than a millisecond
_EDGE, _COMPARED, _RECORD, _VECTOR = range(4)  # the parts of the answer

# The pieces of the statement; one that is not needed is left out, as planning it would take longer than running it. A
# name in braces is a parameter.
#
# The server cannot see how many artifacts there are, and takes them for few. In a plain join it would compare each row
# of one part with all rows of the other. So parts meet in a FULL JOIN, or in a subquery with IS TRUE, which is not made
# a join: these are hashed or sorted. Rows of a FULL JOIN are only left out above a window function, since a condition
# on the join itself would make it a plain one.
_ASKED = f"""
    edge AS MATERIALIZED (
        SELECT * FROM (
            SELECT asked.place AS owner, row_number() OVER (ORDER BY asked.place, {EDGE_ORDER}) AS place, link.*
            FROM ({{edges}}) AS link
            FULL JOIN unnest ({{ids}}::text[]) WITH ORDINALITY AS asked (id, place) ON asked.id = near
        ) AS asked WHERE owner IS NOT NULL AND near IS NOT NULL
    ),"""
_HITS = "SELECT id, 0 AS place FROM unnest ({hits}::text[]) AS hit (id)"
_ENDS = """
        UNION ALL
        (SELECT far, min(place) FROM edge
        WHERE corpus IS NULL
            AND (far IN (SELECT unnest ({hits}::text[] || {known}::text[]))) IS NOT TRUE
        GROUP BY far ORDER BY min(place) LIMIT {ends}::bigint)"""
_BEST = f"""
    known AS MATERIALIZED (SELECT {WIDTH} AS width),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (artifact_id) artifact_id, record_id, number, value <#> {{query}}::vector AS distance
        FROM embedding
        WHERE artifact_id = ANY (ARRAY (SELECT id FROM compared)) AND (SELECT width FROM known) = {{width}}::integer
        ORDER BY artifact_id, value <#> {{query}}::vector, idx, number
    )"""
_FIRST = f"""
    known AS MATERIALIZED (SELECT {WIDTH} AS width),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (artifact_id) artifact_id, record_id, number, NULL::float8 AS distance FROM embedding
        WHERE artifact_id = ANY (ARRAY (SELECT id FROM compared))
        ORDER BY artifact_id, number
    )"""
_FOUND = """,
    found AS MATERIALIZED (
        SELECT id, place, record_id, number, distance FROM compared FULL JOIN best ON artifact_id = id
    )"""
_OF_HITS = "SELECT id AS artifact_id, number FROM found WHERE place = 0 AND number IS NOT NULL"
# The nearest ends of each artifact.
_OF_ENDS = """
        UNION
        SELECT id, number FROM (
            SELECT found.id, found.number,
                row_number() OVER (PARTITION BY owner ORDER BY number IS NULL, distance, own.place) AS rank
            FROM (SELECT owner, far, min(place) AS place FROM edge WHERE corpus IS NULL GROUP BY owner, far) AS own
            FULL JOIN (SELECT * FROM found WHERE place > 0) AS found ON found.id = own.far
        ) AS near WHERE rank <= {records}::bigint AND number IS NOT NULL"""
# Parts that are unlike share the columns of a row.
_FOUND_ROW = f"""
    SELECT {_COMPARED} AS part, (SELECT width FROM known)::text AS name, NULL::text[] AS texts, array_agg(id) AS ids,
        array_agg(record_id) AS kinds, NULL::boolean[] AS flags, NULL::text[] AS others,
        array_agg(distance) AS numbers, NULL::bigint[] AS places, NULL::bytea[] AS bytes
    FROM (SELECT * FROM found ORDER BY place) AS found"""
_EDGE_ROWS = f"""
    UNION ALL
    SELECT {_EDGE}, *, NULL, NULL FROM ({EDGE_COLUMNS.format("SELECT * FROM edge ORDER BY place")}) AS of_artifact"""
_RECORD_ROW = f"""
    UNION ALL
    SELECT {_RECORD}, NULL, array_agg(metadata::text), array_agg(id), array_agg(kind), NULL, array_agg(artifact_id),
        NULL, array_agg(idx), array_agg(text)
    FROM record
    WHERE artifact_id = ANY (ARRAY (SELECT artifact_id FROM carried))
        AND (number IN (SELECT number FROM carried)) IS TRUE"""
_VECTOR_ROW = f"""
    UNION ALL
    SELECT {_VECTOR}, NULL, array_agg(artifact_id), array_agg(record_id), NULL, NULL, NULL, NULL,
        NULL, array_agg(vector_send(value))
    FROM (
        SELECT artifact_id, record_id, value FROM embedding
        WHERE artifact_id = ANY (ARRAY (SELECT id FROM compared)) ORDER BY artifact_id, number
    ) AS own"""
_OF_EDGES = slice(1, 8)  # the columns of `EDGE_COLUMNS` in a row


class StepRequest(NamedTuple):
    """The request of a step; see `StepReader.read_step`.

    Args:
        ids: The artifacts whose edges are read.
        query: The vector of the query; `None` for first records.
        direction: The direction of the edges.
        links: The filter of the edges.
        limit: The most edges per artifact.
        hit_ids: Artifacts to compare, whose records are read.
        known_ids: Ends that are not compared.
        max_ends: The most ends to compare.
        max_records: The most records of ends per artifact.
        with_vectors: Whether vectors are read.
    """

    ids: Sequence[str]
    query: Floats | None
    direction: Direction
    links: LinkFilter
    limit: int | None
    hit_ids: Sequence[str]
    known_ids: Sequence[str]
    max_ends: int
    max_records: int
    with_vectors: bool


class _Shape(NamedTuple):
    """What a statement depends on besides the values of its parameters."""

    direction: Direction
    is_limited: bool
    has_query: bool
    has_ids: bool
    has_ends: bool
    has_records: bool
    has_vectors: bool


@lru_cache(maxsize=128)
def _make_statement(shape: _Shape) -> tuple[str, tuple[str, ...]]:
    """Return a statement, and the names of its parameters after those of the edges."""
    pieces = [
        "WITH",
        _ASKED if shape.has_ids else "",
        f"\n    compared AS MATERIALIZED ({_HITS}{_ENDS if shape.has_ends else ''}),",
        _BEST if shape.has_query else _FIRST,
        _FOUND,
        f",\n    carried AS MATERIALIZED ({_OF_HITS}{_OF_ENDS if shape.has_records else ''})",
        _FOUND_ROW,
        _EDGE_ROWS if shape.has_ids else "",
        _RECORD_ROW,
        _VECTOR_ROW if shape.has_vectors else "",
    ]
    sql = "".join(pieces)
    names = tuple(dict.fromkeys(name for name in re.findall(r"{(\w+)}", sql) if name != "edges"))
    first = 1 + shape.has_ids * (4 + shape.is_limited)  # after the parameters of the edges
    numbers = {name: f"${number}" for number, name in enumerate(names, first)}
    edges = select_edges(shape.direction, is_limited=shape.is_limited)
    return sql.format(edges=edges, **numbers), names


async def read_step(c: "Connection", request: StepRequest) -> StepAnswer:
    """Return the edges of artifacts, and the best records of these and of the other ends."""
    check_choice("direction", request.direction, DIRECTIONS)
    check_limit(request.limit)
    check_count("max_ends", request.max_ends)
    check_count("max_records", request.max_records)
    ids, query, limit = keep_storable(dict.fromkeys(request.ids)), request.query, request.limit
    if query is not None:
        query = check_queries(query[None], None)[0]
    has_ends = bool(ids and request.max_ends)
    has_records = bool(has_ends and request.max_records)
    shape = _Shape(
        request.direction,
        limit is not None,
        query is not None,
        bool(ids),
        has_ends,
        has_records,
        request.with_vectors,
    )
    sql, names = _make_statement(shape)
    values = {
        "ids": ids,
        "query": None if query is None else encode_queries(query[None])[0],
        "width": None if query is None else len(query),
        "hits": keep_storable(dict.fromkeys(request.hit_ids)),
        "known": keep_storable(request.known_ids),
        "ends": request.max_ends,
        "records": request.max_records,
    }
    of_edges = [*edge_parameters(ids, request.links), *([] if limit is None else [limit])] if ids else []
    rows = await c.fetch(sql, *of_edges, *(values[name] for name in names))
    parts = {row["part"]: row for row in rows}
    if query is not None:
        width = parts[_COMPARED]["name"]
        check_queries(query[None], None if width is None else int(width))
    size = sum(len(row["ids"] or ()) for row in rows)
    return await offload_if(size > _FEW, _make_answer, request, rows, parts)


@detect_damage()
def _make_answer(request: StepRequest, rows: Sequence[Any], parts: dict[int, Any]) -> StepAnswer:
    """Return an answer, made of the rows of its parts."""
    edges = [row[_OF_EDGES] for row in rows if row["part"] == _EDGE]
    # 1. The compared artifacts that the server knows; hits come in any order, ends in that of the edges.
    found = parts[_COMPARED]
    columns = (found["ids"] or (), found["kinds"] or (), found["numbers"] or ())
    best = {id: (record_id, distance) for id, record_id, distance in zip(*columns, strict=True)}
    artifact_ids = list(dict.fromkeys([*request.hit_ids, *best]))
    nothing = (None, None)
    record_ids = [best.get(id, nothing)[0] for id in artifact_ids]
    distances = [best.get(id, nothing)[1] for id in artifact_ids]
    scores = np.array([np.nan if distance is None else -distance for distance in distances], np.float32)
    # 2. Their records and vectors.
    record_of = {record.id: record for record in _to_records(parts[_RECORD])}
    return StepAnswer(
        make_edges(request.ids, edges),
        artifact_ids,
        BestRecords(record_ids, scores),
        [None if record_id is None else record_of.get(record_id) for record_id in record_ids],
        _make_vectors(artifact_ids, parts) if request.with_vectors else None,
    )


def _to_records(row: Any) -> list[Record]:
    columns = [row[name] or () for name in ("ids", "others", "kinds", "places", "bytes", "texts")]
    return decode_records([*zip(*columns, strict=True)])


def _make_vectors(artifact_ids: Sequence[str], parts: dict[int, Any]) -> ArtifactVectors:
    """Return the vectors of artifacts, each with those of its records in their order."""
    row = parts[_VECTOR]
    owners, record_ids, values = (row[name] or () for name in ("texts", "ids", "bytes"))
    rows_of: dict[str, list[int]] = {}
    for number, owner in enumerate(owners):
        rows_of.setdefault(owner, []).append(number)
    rows = [rows_of.get(id, []) for id in artifact_ids]
    ids = [[record_ids[number] for number in own] for own in rows]
    stored = [values[number] for own in rows for number in own]
    return ArtifactVectors(ids, decode_vectors(stored, int(parts[_COMPARED]["name"] or 0)))
