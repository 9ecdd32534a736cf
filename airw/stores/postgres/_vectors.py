"""Dense search: the server ranks, and the client scores the best again.

The server's scores differ from those of the other stores in their last bits. So a search reads a few more vectors than
it needs, and scores them with `exact_scores`. Then ids, order and scores are those of every other exact search. With an
approximate index, this holds for what the index finds.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores, unit_rows
from airw.protocols import ArtifactVectors
from airw.stores._changes import check_width
from airw.stores._indexes.dense_index import check_queries
from airw.stores._stored_values import check_types
from airw.stores.postgres._filter_sql import Parameters, compile_filter
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import decode_vectors, encode_queries, encode_vectors
from airw.stores.postgres._vector_index import WIDTH, KnownIndex, distance_sql, drop_indexes
from airw.values import ArtifactChange, Ranking
from airw.values.filters import Filter

if TYPE_CHECKING:
    from asyncpg import Connection, Record

_SPARE = 16  # rows that a shortlist has besides those wanted
MOST = 2**40  # more rows than a server has
_COLUMNS = "v.number, v.artifact_id, v.record_id, v.idx, v.value, v.distance"
# So many rows an index is asked for, the least that suffice: few numbers, as each is another statement. With the number
# as a parameter, the server would plan for any number of rows, and prefer to sort all.
_DEPTHS = (32, 64, 128, 256, 512, 1024, 2048)


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


@dataclass(frozen=True, slots=True)
class DenseRequest:
    """What is searched for, the same for all queries of a call."""

    k: int
    filter: Filter | None = None
    surfaces: Sequence[str] | None = None
    per_artifact: bool = False
    among: Sequence[Any] | None = None
    records: Sequence[str] | None = None


@dataclass(slots=True)
class _Scope:
    """The SQL of the rows that may be found.

    Args:
        tables: The tables of an exact search: `embedding v`, perhaps joined with `record r`.
        condition: The condition on their rows.
        near: The same for an index, which has rows of `embedding v` only.
        sampled: The same for rows of `record r`.
    """

    tables: str = "embedding v"
    condition: str = "true"
    near: str = "true"
    sampled: str = ""

    @classmethod
    def of(cls, wanted: DenseRequest, parameters: Parameters) -> "_Scope":
        scope, of_records = cls(), []
        if wanted.surfaces is not None:
            kinds = parameters.add(keep_storable(wanted.surfaces), "text[]")
            scope.condition = scope.near = f"v.kind = ANY ({kinds})"
            of_records.append(f"r.kind = ANY ({kinds})")
        if wanted.filter is not None:
            matches = compile_filter(wanted.filter, "r.fields", parameters)
            of_records.append(matches)
            joined = "r.artifact_id = v.artifact_id AND r.number = v.number"
            scope.tables = f"embedding v JOIN record r ON {joined}"
            scope.condition += f" AND {matches}"
            # A join might be planned as a sort of all rows. So each row is looked up that the index finds.
            scope.near += f" AND (SELECT {matches} FROM record r WHERE {joined})"
        for column, ids in (("artifact_id", wanted.among), ("record_id", wanted.records)):
            if ids is not None:
                scope.condition += f" AND v.{column} = ANY ({parameters.add(keep_storable({*ids}), 'text[]')})"
        scope.sampled = " AND ".join(of_records)
        return scope


async def prepare_insert(c: "Connection", puts: Sequence[ArtifactChange], vectors: Floats) -> None:
    """Prepare the tables for new vectors, which must be as wide as the stored ones.

    Call it after rows were removed, and before new ones are inserted.

    Raises:
        StoreError: If they are not as wide.
    """
    stored = await c.fetchval(f"SELECT {WIDTH}")
    if stored is not None:
        check_width(puts, vectors, stored)
    else:
        # An index takes vectors of one width only.
        await drop_indexes(c)


async def search(c: "Connection", known: KnownIndex, queries: Floats, wanted: DenseRequest) -> list[Ranking]:
    """Return the `k` best records or artifacts of each query."""
    queries = check_queries(queries, None)
    width = queries.shape[1]
    if not known.knows(width):
        state = await c.fetchrow(f"SELECT {known.state_sql(width)}")
        check_queries(queries, state["width"])
        known.note(state, width)
    depth = _find_depth(known, wanted)
    while known.has_index(width) and depth is not None and len(queries):
        rows = await _ask_index(c, known, queries, wanted, depth)
        check_queries(queries, rows[0]["width"])
        known.note(rows[0], width)
        groups = _group(rows, len(queries))
        kept = [_keep_best(_score_rows(query, group), wanted) for query, group in zip(queries, groups, strict=True)]
        is_common = rows[0]["is_common"]
        if all(
            _is_enough(group, best, wanted, (depth, is_common, _find_margin(query)))
            for query, group, best in zip(queries, groups, kept, strict=True)
        ):
            _note_crowding(known, groups)
            return [_to_ranking(group) for group in kept]
        # The index found too few artifacts, or too few rows in time: ask for more, or compare all.
        is_cut = is_common and any(len(group) == depth for group in groups)
        depth = next((more for more in _DEPTHS if more > 2 * depth), None) if is_cut else None
    return await _search_all(c, known, queries, wanted)


def _find_depth(known: KnownIndex, wanted: DenseRequest) -> int | None:
    """Return how many rows to ask an index for; `None` if comparing all is better."""
    least = 2.0 * wanted.k * (known.crowding if wanted.per_artifact else 1)
    # With a filter, the last rows that an index finds are worse than some that it passes by.
    least *= 1.6 if wanted.filter is not None or wanted.surfaces is not None else 1
    return next((depth for depth in _DEPTHS if depth >= least), None) if wanted.k > 0 else None


def _is_enough(
    rows: "Sequence[Record]", kept: Sequence[_ScoredRow], wanted: DenseRequest, asked: tuple[int, bool, float]
) -> bool:
    """Return whether rows answer a query; `asked` are its depth, `is_common` and margin."""
    depth, is_common, margin = asked
    if is_common:
        return len(kept) == wanted.k
    # All matching rows were compared.
    return len(rows) < depth or (
        len(kept) == wanted.k and not _may_miss(rows, kept, margin, per_artifact=wanted.per_artifact)
    )


def _note_crowding(known: KnownIndex, groups: "Sequence[Sequence[Record]]") -> None:
    artifacts = sum(len({row["artifact_id"] for row in group}) for group in groups)
    known.crowding = max(1.0, sum(map(len, groups)) / max(1, artifacts))


async def _ask_index(
    c: "Connection", known: KnownIndex, queries: Floats, wanted: DenseRequest, depth: int
) -> "list[Record]":
    """Return what the index finds; if few records match, all of them compared."""
    parameters, width = Parameters(), queries.shape[1]
    # The length of a query does not matter for the order. A long one might be too large for a small type.
    asked = _add_queries(parameters, unit_rows(queries, count=len(queries)), [0.0] * len(queries))
    wide = f"known.width = {parameters.add(width, 'integer')}"
    scope = _Scope.of(wanted, parameters)
    distance = distance_sql("v.value", "query.aim", width)
    near = f"""SELECT {_COLUMNS} FROM (
        SELECT v.*, 0.0::float8 AS distance FROM embedding v
        WHERE {wide} AND known.is_common AND {scope.near} ORDER BY {distance} LIMIT {depth}) v"""
    is_common = "true"
    if scope.sampled:
        sample, least = known.sample(width)
        is_common = f"""(SELECT count(*) >= {parameters.add(least, "bigint")} FROM
            unnest({parameters.add([*map(str, sample)], "text[]")}) at (number),
            LATERAL (SELECT * FROM record r WHERE r.number >= at.number::bigint ORDER BY r.number LIMIT 1) r
            WHERE {scope.sampled})"""
        near = f"""({near}) UNION ALL (SELECT {_COLUMNS} FROM (
            SELECT v.*, v.value <#> query.aim AS distance FROM {scope.tables}
            WHERE {wide} AND NOT known.is_common AND {scope.condition}
            ORDER BY v.value <#> query.aim, v.artifact_id, v.idx, v.number LIMIT {depth}) v)"""
    rows: list[Record] = await c.fetch(
        f"""SELECT known.*, found.* FROM (SELECT {known.state_sql(width)}, {is_common} AS is_common) known
        LEFT JOIN LATERAL (SELECT query.place, near.* FROM {asked} CROSS JOIN LATERAL ({near}) near) found ON true""",
        *parameters.values,
    )
    return rows


def _add_queries(parameters: Parameters, queries: Floats, margins: Sequence[float]) -> str:
    """Return the table `query` of a statement, with a row for each query."""
    encoded = encode_queries(queries)
    if len(encoded) == 1:
        # Without an array: the first array of a type in a connection costs asyncpg two more round trips.
        aim, margin = parameters.add(encoded[0], "vector"), parameters.add(margins[0], "float8")
        return f"(SELECT {aim} AS aim, {margin} AS margin, 1 AS place) query"
    arrays = f"{parameters.add(encoded, 'vector[]')}, {parameters.add([*margins], 'float8[]')}"
    return f"unnest({arrays}) WITH ORDINALITY AS query (aim, margin, place)"


async def _search_all(
    c: "Connection", known: KnownIndex, queries: Floats, wanted: DenseRequest, *, with_ties: bool = False
) -> list[Ranking]:
    """Return the rankings of an exact search."""
    k, width = min(max(wanted.k, 0), MOST), queries.shape[1]
    parameters, margins = Parameters(), [_find_margin(query) for query in queries]
    asked = _add_queries(parameters, queries, margins)
    limit = parameters.add(k if with_ties or not k else k + _SPARE, "bigint")
    wide = f"known.width = {parameters.add(width, 'integer')}"
    scope = _Scope.of(wanted, parameters)
    if with_ties:
        best = _best_with_ties(scope, wide, limit, per_artifact=wanted.per_artifact)
    else:
        best = (_best_artifacts if wanted.per_artifact else _best_records)(scope, wide, limit)
    rows = await c.fetch(
        f"""SELECT known.*, found.* FROM (SELECT {known.state_sql(width)}) known LEFT JOIN LATERAL (
            SELECT query.place, near.* FROM {asked} CROSS JOIN LATERAL ({best}) near) found ON true""",
        *parameters.values,
    )
    check_queries(queries, rows[0]["width"])
    known.note(rows[0], width)
    rankings = []
    for query, group, margin in zip(queries, _group(rows, len(queries)), margins, strict=True):
        kept = _keep_best(_score_rows(query, group), wanted)
        count = len({row["artifact_id"] for row in group}) if wanted.per_artifact else len(group)
        is_cut = not with_ties and k > 0 and count == k + _SPARE
        if is_cut and _may_miss(group, kept, margin, per_artifact=wanted.per_artifact):
            # Rare. All again, as what is found at two moments does not fit together.
            return await _search_all(c, known, queries, wanted, with_ties=True)
        rankings.append(_to_ranking(kept))
    return rankings


def _best_records(scope: _Scope, wide: str, limit: str) -> str:
    return f"""SELECT {_COLUMNS} FROM (
        SELECT v.*, v.value <#> query.aim AS distance FROM {scope.tables} WHERE {wide} AND {scope.condition}
        ORDER BY v.value <#> query.aim, v.artifact_id, v.idx, v.number LIMIT {limit}) v"""


def _best_artifacts(scope: _Scope, wide: str, limit: str) -> str:
    """Return SQL for records of the best artifacts that may be their best ones."""
    # The first OFFSET keeps vectors out of the rows that are grouped. The second keeps the order of the loops: the
    # planner does not know that a pair of artifact and number has one record, and expects too few rows.
    return f"""SELECT {_COLUMNS} FROM (
            SELECT v.artifact_id, min(v.distance) AS distance FROM (
                SELECT v.artifact_id, v.value <#> query.aim AS distance FROM {scope.tables}
                WHERE {wide} AND {scope.condition} OFFSET 0) v
            GROUP BY v.artifact_id ORDER BY 2, 1 LIMIT {limit}) best
        CROSS JOIN LATERAL (
            SELECT v.*, v.value <#> query.aim AS distance FROM {scope.tables}
            WHERE v.artifact_id = best.artifact_id AND {scope.condition} OFFSET 0) v
        WHERE v.distance <= best.distance + query.margin"""


def _best_with_ties(scope: _Scope, wide: str, limit: str, *, per_artifact: bool) -> str:
    """Return SQL for all records that may be as good as the worst that is kept.

    Of equal vectors, these are only as many as can be kept. This is for a shortlist that ends within records of equal
    scores, of which there may be very many.
    """
    where = f"{wide} AND {scope.condition}"
    cut = f"SELECT v.artifact_id, v.value <#> query.aim AS distance FROM {scope.tables} WHERE {where} OFFSET 0"
    if per_artifact:
        cut = f"SELECT min(v.distance) AS distance FROM ({cut}) v GROUP BY v.artifact_id"
    return f"""SELECT {_COLUMNS} FROM (
            SELECT v.*,
            row_number() OVER (PARTITION BY v.value ORDER BY v.artifact_id, v.idx, v.number) AS record_place,
            dense_rank() OVER (PARTITION BY v.value ORDER BY v.artifact_id) AS artifact_place,
            row_number() OVER (PARTITION BY v.value, v.artifact_id ORDER BY v.idx, v.number) AS own_place
            FROM (SELECT v.*, v.value <#> query.aim AS distance FROM {scope.tables} WHERE {where} OFFSET 0) v
            WHERE v.distance <= query.margin + (SELECT max(cut.distance) FROM
                (SELECT near.distance FROM ({cut}) near ORDER BY near.distance LIMIT {limit}) cut)) v
        WHERE record_place <= {limit} OR (artifact_place <= {limit} AND own_place = 1)"""


def _find_margin(query: Floats) -> float:
    """Return how far apart two of the server's scores in the wrong order are at most.

    Its scores of unit vectors and the exact ones each differ from the true score by at most dim * 2**-24 * |query|.
    """
    wide = query.astype(np.float64)
    return 5 * len(query) * 2.0**-24 * float(np.sqrt(np.dot(wide, wide)))


def _group(rows: "Sequence[Record]", count: int) -> "list[list[Record]]":
    """Return the rows of each query."""
    groups: list[list[Record]] = [[] for _ in range(count)]
    for row in rows:
        if row["place"] is not None:
            groups[row["place"] - 1].append(row)
    return groups


def _score_rows(query: Floats, rows: "Sequence[Record]") -> list[_ScoredRow]:
    check_types([[row[name] for row in rows] for name in ("artifact_id", "record_id", "idx")], [str, str, int])
    scores = exact_scores(decode_vectors([row["value"] for row in rows], len(query)), query).tolist()
    return [
        _ScoredRow(score, row["artifact_id"], row["idx"], row["number"], row["record_id"])
        for score, row in zip(scores, rows, strict=True)
    ]


def _keep_best(rows: Sequence[_ScoredRow], wanted: DenseRequest) -> list[_ScoredRow]:
    """Return the `k` best rows, or the best rows of the `k` best artifacts."""
    ranked = sorted(rows, key=lambda row: row.rank)
    if wanted.per_artifact:
        best: dict[str, _ScoredRow] = {}
        for row in ranked:
            best.setdefault(row.artifact_id, row)
        ranked = [*best.values()]
    return ranked[: max(wanted.k, 0)]


def _may_miss(rows: "Sequence[Record]", kept: Sequence[_ScoredRow], margin: float, *, per_artifact: bool) -> bool:
    """Return whether a row outside of the shortlist may be as good as the last one kept."""
    best: dict[Any, float] = {}
    for row in rows:
        key = row["artifact_id"] if per_artifact else row["number"]
        best[key] = min(row["distance"], best.get(key, np.inf))
    return -max(best.values()) >= kept[-1].score - margin


def _to_ranking(rows: Sequence[_ScoredRow]) -> Ranking:
    scores = np.array([row.score for row in rows], np.float64)
    return Ranking([row.record_id for row in rows], [row.artifact_id for row in rows], scores)


async def rank_named(c: "Connection", query: Floats, wanted: DenseRequest) -> Ranking:
    """Return the ranking of the artifacts or records that are named."""
    parameters = Parameters()
    aim, width = parameters.add(encode_queries(query[None])[0], "vector"), parameters.add(len(query), "integer")
    scope = _Scope.of(wanted, parameters)
    rows = await c.fetch(
        f"""SELECT known.width, best.* FROM (SELECT {WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT {"DISTINCT ON (v.artifact_id)" if wanted.per_artifact else ""}
            v.artifact_id, v.record_id, v.idx, v.number, v.value <#> {aim} AS distance FROM {scope.tables}
            WHERE known.width = {width} AND {scope.condition}
            ORDER BY v.artifact_id, v.value <#> {aim}, v.idx, v.number) best ON true""",
        *parameters.values,
    )
    check_queries(query[None], rows[0]["width"])
    # Without records, the only row has nulls.
    found = [
        _ScoredRow(float(np.float32(-distance)), artifact_id, idx, number, record_id)
        for _, artifact_id, record_id, idx, number, distance in rows
        if distance is not None
    ]
    return _to_ranking(_keep_best(found, wanted))


async def vectors(c: "Connection", ids: Sequence[str]) -> Floats:
    """Return the vector of each record; a row of NaN for an unknown record."""
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {WIDTH} AS width) known LEFT JOIN LATERAL (
            SELECT record_id, value FROM embedding WHERE record_id = ANY ($1::text[])) found ON true""",
        keep_storable({*ids}),
    )
    width = rows[0]["width"] or 0
    values = {record_id: value for _, record_id, value in rows}
    unknown = encode_vectors(np.full((1, width), np.nan, np.float32))[0]
    return decode_vectors([values.get(record_id, unknown) for record_id in ids], width)


async def vectors_of(c: "Connection", artifact_ids: Sequence[str]) -> ArtifactVectors:
    """Return the record ids of each artifact, ordered by number, with all their vectors."""
    rows = await c.fetch(
        f"""SELECT known.width, found.* FROM (SELECT {WIDTH} AS width) known LEFT JOIN LATERAL (
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
