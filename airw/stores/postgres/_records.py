"""Functions that read records, ledger entries and settings from a PostgreSQL server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airw._base.concurrency import offload_if
from airw.protocols import Columns, Rank, requests as forms
from airw.stores._stored_values import check_types, detect_damage, parse_mappings
from airw.stores.own_store import find_changed as compare_entries
from airw.stores.postgres._filter_sql import Parameters, compile_exists, compile_filter, dump_wanted
from airw.stores.postgres._keys import keep_storable
from airw.values import LedgerEntry, Record
from airw.values.artifacts import make_records

if TYPE_CHECKING:
    from asyncpg import Connection

MOST = 2**40
"""More rows than a server has."""

# Making records of so many rows, or of so much metadata, takes about a millisecond.
_LONG, _LONG_METADATA = 1_000, 50_000
_RECORD = "record.id, record.artifact_id, record.kind, record.idx, record.text, record.metadata"
_ENTRIES = """
    SELECT id, version, embedder_id, strategy_id, extractor_id, source,
        array(SELECT record.id FROM record WHERE record.artifact_id = artifact.id ORDER BY number)
    FROM artifact"""


async def get_records(c: "Connection", request: forms.Records) -> list[Record | None]:
    """Return the record of each id, or `None`."""
    found = await c.fetch(
        f"SELECT {_RECORD} FROM record WHERE record.id = ANY($1::text[])", keep_storable(dict.fromkeys(request.ids))
    )
    records = await offload_if(_is_long(found), decode_records, found)
    by_id = {record.id: record for record in records}
    return [by_id.get(id) for id in request.ids]


# An artifact without matching records has one row of nulls: this tells it from an unknown one.
_OF_ARTIFACTS = """
    SELECT record.id, artifact.id, kind, idx, text, metadata FROM artifact
    LEFT JOIN LATERAL (
        SELECT * FROM record WHERE record.artifact_id = artifact.id AND ($2::text[] IS NULL OR kind = ANY($2))
        ORDER BY number LIMIT $3::bigint
    ) AS record ON true
    WHERE artifact.id = ANY($1::text[]) ORDER BY artifact.id, number"""


async def records_of(c: "Connection", request: forms.RecordsOf) -> list[list[Record] | None]:
    """Return the records of each artifact in plan order; `None` for an unknown artifact."""
    names = keep_storable(dict.fromkeys(request.artifact_ids))
    kinds = None if request.kinds is None else keep_storable(request.kinds)
    found = await c.fetch(_OF_ARTIFACTS, names, kinds, request.limit)
    by_name = await offload_if(_is_long(found), _group_records, found)
    if len(names) == len(request.artifact_ids):
        return [*map(by_name.get, names)]
    # A name that is requested twice has two lists, as the caller may change them.
    return [None if (records := by_name.get(str(name))) is None else [*records] for name in request.artifact_ids]


@detect_damage()
def _group_records(rows: Sequence[Sequence[Any]]) -> dict[str, list[Record]]:
    by_name: dict[str, list[Record]] = {row[1]: [] for row in rows}
    for record in decode_records([row for row in rows if row[0] is not None]):
        by_name[record.artifact_id].append(record)
    return by_name


def _is_long(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether making records of rows, whose metadata is last, takes a millisecond."""
    return len(rows) > _LONG or sum(len(row[-1]) for row in rows if row[-1] is not None) > _LONG_METADATA


@detect_damage()
def decode_records(rows: Sequence[Sequence[Any]]) -> list[Record]:
    """Return the records of rows with the columns `_RECORD`."""
    if not rows:
        return []
    *columns, texts, metadata = zip(*rows, strict=True)
    check_types(columns, [str, str, str, int])
    return make_records(len(rows), [*columns, map(bytes.decode, texts), parse_mappings(metadata)])


async def ledger(c: "Connection", request: forms.Ledger) -> list[LedgerEntry | None]:
    """Return the ledger entry of each artifact; without ids, all entries, ordered by id."""
    ids: Any = request.ids
    if ids is None:
        rows = await c.fetch(f"{_ENTRIES} ORDER BY artifact.id")
    else:
        rows = await c.fetch(f"{_ENTRIES} WHERE artifact.id = ANY($1::text[])", keep_storable(dict.fromkeys(ids)))
    entries = await offload_if(len(rows) > _LONG, _make_entries, rows)
    return [*entries.values()] if ids is None else [entries.get(name) for name in ids]


@detect_damage()
def _make_entries(rows: Sequence[Sequence[Any]]) -> dict[str, LedgerEntry]:
    check_types([[part for row in rows for part in row[:-1]]], [str])
    return {row[0]: LedgerEntry(*[*row[:-1], tuple(row[-1])]) for row in rows}


async def find_changed(c: "Connection", request: forms.Stale) -> list[str]:
    """Return the artifacts whose ledger entry has another version, or differs from `stamp`."""
    versions, stamp = request.versions, request.stamp
    stamps = [stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source]
    texts = [*versions, *versions.values(), *stamps]
    if len(keep_storable(texts)) < len(texts):  # rare, and no parameter
        return compare_entries(versions, stamp, await ledger(c, forms.Ledger([*versions])))
    ids: list[str] | None = await c.fetchval(
        """SELECT array_agg(requested.id) FROM unnest($1::text[], $2::text[]) AS requested (id, version)
        LEFT JOIN artifact ON artifact.id = requested.id
        WHERE artifact.version IS DISTINCT FROM requested.version
        OR ARRAY[embedder_id, strategy_id, extractor_id, source] IS DISTINCT FROM $3::text[]""",
        [*versions],
        [*versions.values()],
        stamps,
    )
    return ids or []


async def artifact_ids(c: "Connection", _: forms.ArtifactIds) -> list[str]:
    """Return the ids of all artifacts, sorted."""
    ids: list[str] | None = await c.fetchval("SELECT array(SELECT id FROM artifact ORDER BY id)")
    return ids or []


async def schema(c: "Connection", request: forms.Schema) -> Columns:
    """Return the surface kinds and the fields of records, and which paths any of them has."""
    parameters = Parameters()
    tests = [
        f"EXISTS (SELECT FROM record WHERE {compile_exists(path, 'fields', parameters)})" for path in request.paths
    ]
    limit = parameters.add(request.limit, "bigint")
    kinds, has_fields, metadata = await c.fetchrow(
        f"""SELECT array(SELECT DISTINCT kind FROM record ORDER BY kind), ARRAY[{", ".join(tests)}]::boolean[],
        array(SELECT metadata FROM record ORDER BY number LIMIT {limit})""",
        *parameters.values,
    )
    check_types([kinds], [str])
    return Columns(kinds, has_fields, sorted({name for mapping in parse_mappings(metadata) for name in mapping}))


def list_conditions(request: Rank, parameters: Parameters, table: str, *, id: str = "id") -> list[str]:
    """Return the conditions on what a request ranks.

    Args:
        request: The request.
        parameters: Those of the statement; the conditions add their own.
        table: A table with the artifact and the kind of records. A filter needs the table `record`, too.
        id: Its column of the ids of records.
    """
    columns = {"kind": request.surfaces, "artifact_id": request.among, id: request.records}
    conditions = [
        f"{table}.{name} = ANY ({parameters.add(keep_storable(values), 'text[]')})"
        for name, values in columns.items()
        if values is not None
    ]
    if request.filter is not None:
        conditions.append(compile_filter(request.filter, "record.fields", parameters))
    return conditions


async def counts(c: "Connection", _: forms.Counts) -> dict[str, int]:
    """Return the numbers of artifacts, of records, and of links in each state."""
    row = await c.fetchrow(
        """SELECT (SELECT count(*) FROM artifact) AS artifacts, (SELECT count(*) FROM record) AS records,
        count(*) FILTER (WHERE state = 'resolved') AS resolved, count(*) FILTER (WHERE state = 'dangling') AS dangling,
        count(*) FILTER (WHERE state = 'ambiguous') AS ambiguous, count(*) FILTER (WHERE state = 'foreign') AS foreign
        FROM link"""
    )
    return dict(row)


# The index finds each pair, whatever the statistics say: there is no other way. `OFFSET 0` hides the order that is
# wanted, in which the planner would otherwise read the whole table. Of a JSON list, it does not know the length: so it
# makes one plan for all calls, not one for each.
_MATCHING = """
    SELECT wanted.place, array(SELECT DISTINCT artifact_id FROM (
        SELECT artifact_id FROM record
        WHERE (fields @> wanted.first OR fields @> wanted.second OR fields @> wanted.third OR fields @> wanted.fourth)
        AND CASE
            WHEN wanted.key IS NULL THEN true
            WHEN wanted.value IS NULL
                THEN fields -> wanted.key IS NULL OR fields @> wanted.first OR fields @> wanted.second
            ELSE (
                SELECT held = wanted.value OR CASE jsonb_typeof(held)
                    WHEN 'array' THEN EXISTS (SELECT FROM jsonb_array_elements(held) AS item WHERE item = wanted.value)
                    ELSE false END
                FROM coalesce(fields -> wanted.key, jsonb_path_query_first(fields, wanted.path, silent => true)) AS held
            )
        END OFFSET 0
    ) AS found ORDER BY artifact_id LIMIT $2) FROM jsonb_to_recordset($1) AS wanted (
        place integer, first jsonb, second jsonb, third jsonb, fourth jsonb, key text, value jsonb, path jsonpath
    )"""


async def matching(c: "Connection", request: forms.Matching) -> list[list[str]]:
    """Return, for each pair of field and value, the sorted ids of the artifacts that have it."""
    found: list[list[str]] = [[] for _ in request.wanted]
    for place, artifact_ids in await c.fetch(_MATCHING, dump_wanted(request.wanted), request.limit):
        found[place] = artifact_ids
    return found
