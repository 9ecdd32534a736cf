"""Functions that read records, ledger entries and settings from a PostgreSQL server."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import repeat
from typing import TYPE_CHECKING, Any

from airw._base.concurrency import offload_if
from airw.stores._stored_values import check_types, detect_damage, parse_mappings
from airw.stores.postgres._filter_sql import Parameters, compile_exists, dump_wanted
from airw.stores.postgres._texts import keep_storable
from airw.values import LedgerEntry, Record
from airw.values.artifacts import make_records

if TYPE_CHECKING:
    from asyncpg import Connection

# Making records of so many rows, or of so much metadata, takes about a millisecond.
_LONG, _LONG_METADATA = 1_000, 50_000
_RECORD = "record.id, record.artifact_id, record.kind, record.idx, record.text, record.metadata"
_COLUMNS = tuple(getattr(LedgerEntry, item.name).__set__ for item in fields(LedgerEntry))
_ENTRIES = """
    SELECT id, version, embedder_id, strategy_id, extractor_id, source,
        array(SELECT record.id FROM record WHERE record.artifact_id = artifact.id ORDER BY number)
    FROM artifact"""


async def get_records(c: "Connection", ids: Sequence[str]) -> list[Record | None]:
    """Return the record of each id, or `None`."""
    found = await c.fetch(
        f"SELECT {_RECORD} FROM record WHERE record.id = ANY($1::text[])", keep_storable(dict.fromkeys(ids))
    )
    records = await offload_if(_is_long(found), decode_records, found)
    by_id = {record.id: record for record in records}
    return [by_id.get(id) for id in ids]


# An artifact without matching records has one row of nulls: this tells it from an unknown one. Only those of which
# nothing was found are looked up.
_OF_ARTIFACTS = f"""
    WITH found AS MATERIALIZED (
        SELECT {_RECORD} FROM record
        WHERE artifact_id = ANY($1::text[]) AND ($2::text[] IS NULL OR kind = ANY($2)) ORDER BY artifact_id, number
    )
    SELECT * FROM found UNION ALL
    SELECT NULL, id, NULL, NULL, NULL, NULL FROM artifact
    WHERE id = ANY(ARRAY(SELECT unnest($1::text[]) EXCEPT SELECT artifact_id FROM found))"""
_FIRST_OF_ARTIFACTS = """
    SELECT record.id, artifact.id, kind, idx, text, metadata FROM artifact
    LEFT JOIN LATERAL (
        SELECT * FROM record WHERE record.artifact_id = artifact.id AND ($2::text[] IS NULL OR kind = ANY($2))
        ORDER BY number LIMIT $3::bigint
    ) AS record ON true
    WHERE artifact.id = ANY($1::text[]) ORDER BY artifact.id, number"""


async def records_of(
    c: "Connection", artifact_ids: Sequence[str], kinds: Sequence[str] | None, limit: int | None
) -> list[list[Record] | None]:
    """Return the records of each artifact in plan order; `None` for an unknown artifact."""
    names, of_kinds = keep_storable(dict.fromkeys(artifact_ids)), None if kinds is None else keep_storable(kinds)
    if limit is None:
        found = await c.fetch(_OF_ARTIFACTS, names, of_kinds)
    else:
        found = await c.fetch(_FIRST_OF_ARTIFACTS, names, of_kinds, limit)
    by_name = await offload_if(_is_long(found), _group_records, found)
    if len(names) == len(artifact_ids):
        return [*map(by_name.get, artifact_ids)]
    # A name that is requested twice has two lists, as the caller may change them.
    return [None if (records := by_name.get(name)) is None else [*records] for name in artifact_ids]


@detect_damage()
def _group_records(rows: Sequence[Sequence[Any]]) -> dict[str, list[Record]]:
    by_name: dict[str, list[Record]] = {row[1]: [] for row in rows}
    for record in decode_records([row for row in rows if row[0] is not None]):
        by_name[record.artifact_id].append(record)
    return by_name


def _is_long(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether making records of rows takes a millisecond; their metadata is last."""
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


async def ledger(c: "Connection", ids: Sequence[str] | None) -> list[LedgerEntry | None]:
    """Return the ledger entry of each artifact; without ids, all entries, ordered by id."""
    if ids is None:
        rows = await c.fetch(f"{_ENTRIES} ORDER BY artifact.id")
    else:
        rows = await c.fetch(f"{_ENTRIES} WHERE artifact.id = ANY($1::text[])", keep_storable(dict.fromkeys(ids)))
    entries = await offload_if(len(rows) > _LONG, _make_entries, rows)
    return [*entries.values()] if ids is None else [entries.get(name) for name in ids]


@detect_damage()
def _make_entries(rows: Sequence[Sequence[Any]]) -> dict[str, LedgerEntry]:
    if not rows:
        return {}
    *columns, record_ids = zip(*rows, strict=True)
    check_types(columns, [str] * len(columns))
    # A frozen dataclass sets its fields one by one; the setters of its slots take half the time.
    entries = list(map(LedgerEntry.__new__, repeat(LedgerEntry, len(rows))))
    for set_field, column in zip(_COLUMNS, [*columns, map(tuple, record_ids)], strict=True):
        deque(map(set_field, entries, column), maxlen=0)
    return dict(zip(columns[0], entries, strict=True))


async def find_changed(c: "Connection", versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
    """Return the artifacts whose ledger entry has another version, or differs from `stamp`."""
    stamps = [stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source]
    # What cannot be stored is in no ledger entry. Nearly always, everything can.
    if len(keep_storable([*versions, *versions.values(), *stamps])) < 2 * len(versions) + len(stamps):
        if len(keep_storable(stamps)) < len(stamps):
            return [*versions]
        storable = {name: version for name, version in versions.items() if len(keep_storable([name, version])) == 2}
        return [*(name for name in versions if name not in storable), *await find_changed(c, storable, stamp)]
    changed: list[str] | None = await c.fetchval(
        """SELECT array_agg(requested.id) FROM unnest($1::text[], $2::text[]) AS requested (id, version)
        LEFT JOIN artifact ON artifact.id = requested.id
        WHERE artifact.version IS DISTINCT FROM requested.version
        OR ARRAY[embedder_id, strategy_id, extractor_id, source] IS DISTINCT FROM $3::text[]""",
        [*versions],
        [*versions.values()],
        stamps,
    )
    return changed or []


async def artifact_ids(c: "Connection") -> list[str]:
    """Return the ids of all artifacts, sorted."""
    ids: list[str] | None = await c.fetchval("SELECT array(SELECT id FROM artifact ORDER BY id)")
    return ids or []


async def surface_kinds(c: "Connection") -> list[str]:
    """Return the surface kinds of all records, sorted."""
    rows = await c.fetch("SELECT DISTINCT kind FROM record ORDER BY kind")
    kinds = [row[0] for row in rows]
    check_types([kinds], [str])
    return kinds


async def has_fields(c: "Connection", paths: Sequence[str]) -> list[bool]:
    """Return, for each path, whether any record has the field."""
    if not paths:
        return []
    parameters = Parameters()
    tests = [f"EXISTS (SELECT 1 FROM record WHERE {compile_exists(path, 'fields', parameters)})" for path in paths]
    return list(await c.fetchval(f"SELECT ARRAY[{', '.join(tests)}]", *parameters.values))


async def field_names(c: "Connection", limit: int) -> list[str]:
    """Return the names of the fields of the first records, sorted."""
    rows = await c.fetch("SELECT metadata FROM record ORDER BY number LIMIT $1", limit)
    return sorted({name for mapping in parse_mappings([row[0] for row in rows]) for name in mapping})


async def counts(c: "Connection") -> dict[str, int]:
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


async def matching(c: "Connection", wanted: Sequence[tuple[str, Any]], limit: int | None) -> list[list[str]]:
    """Return, for each pair of field and value, the sorted ids of the artifacts that have it."""
    found: list[list[str]] = [[] for _ in wanted]
    for place, artifact_ids in await c.fetch(_MATCHING, dump_wanted(wanted), limit):
        found[place] = artifact_ids
    return found
