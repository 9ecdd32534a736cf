"""Writes links and names on a PostgreSQL server, and resolves the links at once."""

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airw._base.concurrency import in_thread, offload_if
from airw.stores._link_rows import FOLDED_TIER, LinkRow, NameRow, fold_differing, make_link_rows, make_name_rows
from airw.stores.postgres._copy_rows import copy_columns, encode_numbers, encode_optional, encode_texts
from airw.stores.postgres._keys import MAX_COVERED, prefix_of, to_keys
from airw.values import Extraction, LinkState

if TYPE_CHECKING:
    from asyncpg import Connection

_FEW_ROWS = 500  # rows that are made in less than a millisecond

DELETE = f"""
    covered AS (DELETE FROM link WHERE is_covered AND artifact_id = ANY ($1::text[])), others AS (
        DELETE FROM link USING unnest($1::text[]) AS removed (id)
        WHERE NOT is_covered AND {prefix_of("link.artifact_id")} = ANY ($2::text[]) AND link.artifact_id = removed.id
    )
    DELETE FROM name USING unnest($1::text[]) AS removed (id)
    WHERE {prefix_of("name.artifact_id")} = ANY ($2::text[]) AND name.artifact_id = removed.id
    RETURNING name.key, name.tier, name.artifact_id"""
"""The end of a statement that removes artifacts, of their ids and `to_keys` of these; it returns their names."""

_CARRIERS = f"""
    SELECT key, tier, min(artifact_id), count(*) FROM name
    WHERE {prefix_of("key")} = ANY ($1::text[]) GROUP BY key, tier"""
_AFFECTED = " UNION ".join(
    f"""SELECT ref, or_ref FROM link
    WHERE {prefix_of(column)} = ANY ($1::text[]) AND {column} IS NOT NULL AND target_source IS NULL"""
    for column in ("ref", "folded", "or_ref", "or_folded")
)
_CHANGE_TARGETS = f"""
    UPDATE link SET target = meant.target, state = meant.state, is_covered = coalesce(
        meant.target <> link.artifact_id AND length(link.artifact_id) + length(meant.target) + length(link.type)
            + length(link.origin) <= {MAX_COVERED},
        false
    )
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS meant (ref, or_ref, target, state)
    WHERE {prefix_of("link.ref")} = ANY ($5::text[]) AND link.ref = meant.ref
        AND link.or_ref IS NOT DISTINCT FROM meant.or_ref AND link.target_source IS NULL
        AND (link.target, link.state) IS DISTINCT FROM (meant.target, meant.state)"""

_COLUMNS = (*LinkRow._fields, "is_covered")
_TYPES = {"position": "integer", "line": "bigint", "weight": "double precision", "is_covered": "boolean"}
_ARRAYS = ", ".join(f"${place}::{_TYPES.get(name, 'text')}[]" for place, name in enumerate(_COLUMNS, 4))
# The setting tells readers that links may have changed; see `max_fan_in`.
_WRITE = f"""
    WITH changed AS (
        INSERT INTO setting VALUES ('links', '', to_json(gen_random_uuid()))
        ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value
    ), names AS (
        INSERT INTO name ({", ".join(NameRow._fields)}) SELECT * FROM unnest($1::text[], $2::integer[], $3::text[])
    )
    INSERT INTO link ({", ".join(_COLUMNS)}) SELECT * FROM unnest({_ARRAYS})"""

_Ref = tuple[str, str | None]
"""A reference within the corpus: its name, and the second one if it has one."""

_Meaning = tuple[str | None, LinkState]
"""What a reference means: its target if it is one artifact, and its state."""


class _Carriers(NamedTuple):
    """The artifacts that carry a name in its strongest tier.

    Args:
        tier: The tier.
        first: The first of them; `None` if there is none.
        number: How many they are.
    """

    tier: int
    first: str | None
    number: int


_NOBODY = _Carriers(FOLDED_TIER, None, 0)


class _Changes(NamedTuple):
    """What a write changes.

    Args:
        names: The names of the new artifacts.
        refs: Their references within the corpus.
        keys: The names that were added, removed or moved to another tier, for a statement.
    """

    names: set[NameRow]
    refs: set[_Ref]
    keys: list[str]


async def replace_links(
    c: "Connection", extractions: Mapping[str, Extraction], removed: Iterable[Sequence[Any]]
) -> None:
    """Insert links and names, and resolve all links that they or the removed names affect.

    The caller has a transaction open, and no other writer has one. New links are resolved before they are inserted, and
    of the others those are changed whose meaning has changed.

    Args:
        c: The connection.
        extractions: The links and names of each new artifact.
        removed: What `DELETE` returned.
    """
    old_names = {NameRow(*row) for row in removed}
    count = len(old_names) + sum(len(each.links) + len(each.names) + 1 for each in extractions.values())
    changes = await offload_if(count > _FEW_ROWS, _find_changes, extractions, old_names)
    # A link of another artifact changes its meaning only if a name in its reference has changed. In a repeated build
    # that is rare.
    affected = {(ref, or_ref) for ref, or_ref in await c.fetch(_AFFECTED, changes.keys)} if changes.keys else set()
    meanings = await _resolve(c, changes.refs | affected, changes.names)
    rows = await offload_if(count > _FEW_ROWS, _make_rows, extractions, meanings)
    is_few = len(rows) + len(changes.names) <= _FEW_ROWS
    values = [*_list_columns(changes.names, len(NameRow._fields)), *_list_columns(rows, len(_COLUMNS))]
    await c.execute(_WRITE, *(values if is_few else [[]] * len(values)))
    if not is_few:
        await copy_columns(c, "name", await in_thread(_encode_names, changes.names))
        await copy_columns(c, "link", await in_thread(_encode_links, rows))
    if affected:
        await _change_targets(c, [*affected], meanings)


def _list_columns(rows: Iterable[Sequence[Any]], count: int) -> list[list[Any]]:
    return [*map(list, zip(*rows, strict=True))] or [[] for _ in range(count)]


def _encode_names(names: Iterable[NameRow]) -> dict[str, list[bytes]]:
    keys, tiers, ids = _list_columns(names, len(NameRow._fields))
    fields = encode_texts(keys), encode_numbers(tiers, ">i4"), encode_texts(ids)
    return dict(zip(NameRow._fields, fields, strict=True))


def _encode_links(rows: Sequence[Sequence[Any]]) -> dict[str, list[bytes]]:
    encoders = {
        "position": partial(encode_numbers, type=">i4"),
        "line": partial(encode_optional, format=">q"),
        "weight": partial(encode_optional, format=">d"),
        "is_covered": partial(encode_optional, format=">?"),
    }
    columns = zip(_COLUMNS, _list_columns(rows, len(_COLUMNS)), strict=True)
    return {name: encoders.get(name, encode_texts)(values) for name, values in columns}


def _find_changes(extractions: Mapping[str, Extraction], old_names: AbstractSet[NameRow]) -> _Changes:
    """Return what a write changes, if the artifacts that it removes had these names."""
    names = {NameRow(id, 0, id) for id in extractions}
    for id, extraction in extractions.items():
        if extraction.names or extraction.fold_case:
            names |= make_name_rows(id, extraction)
    refs = {
        (link.target_ref, link.or_ref)
        for extraction in extractions.values()
        for link in extraction.links
        if link.target_source is None
    }
    return _Changes(names, refs, to_keys(key for key, _, _ in names ^ old_names))


async def _resolve(c: "Connection", refs: AbstractSet[_Ref], names: AbstractSet[NameRow]) -> dict[_Ref, _Meaning]:
    """Return what each reference means; `names` are not inserted yet."""
    is_long = len(refs) + len(names) > _FEW_ROWS
    keys = await offload_if(is_long, _list_keys, refs)
    rows = await c.fetch(_CARRIERS, keys) if keys else []
    return await offload_if(is_long, _find_meanings, refs, rows, names)


def _list_keys(refs: AbstractSet[_Ref]) -> list[str]:
    """Return the names in references, as written and folded, for a statement."""
    names = {name for ref in refs for name in ref if name is not None}
    return to_keys(names | {folded for name in names if (folded := fold_differing(name)) is not None})


def _find_meanings(
    refs: AbstractSet[_Ref], rows: Iterable[Sequence[Any]], names: Iterable[NameRow]
) -> dict[_Ref, _Meaning]:
    """Return what each reference means, from rows of `_CARRIERS` and from new names."""
    found = {(key, tier): (first, number) for key, tier, first, number in rows}
    for key, tier, id in names:
        first, number = found.get((key, tier), (id, 0))
        found[key, tier] = min(first, id), number + 1
    carriers: dict[str, _Carriers] = {}
    folded_carriers: dict[str, _Carriers] = {}
    for (key, tier), (first, number) in found.items():
        if tier == FOLDED_TIER:
            folded_carriers[key] = _Carriers(tier, first, number)
        if key not in carriers or tier < carriers[key].tier:
            carriers[key] = _Carriers(tier, first, number)

    def find(name: str) -> _Carriers:
        return carriers.get(name) or folded_carriers.get(fold_differing(name) or name, _NOBODY)

    return {ref: _choose([find(name) for name in ref if name is not None]) for ref in refs}


def _choose(sides: Iterable[_Carriers]) -> _Meaning:
    """Return what a reference means, from the carriers of its names.

    A name resolves if exactly one artifact carries it. Of two that do, the stronger tier counts, then the first name.
    """
    sides = [side for side in sides if side.number]
    if not sides:
        return None, "dangling"
    resolved = [side for side in sides if side.number == 1]
    if not resolved:
        return None, "ambiguous"
    return min(resolved, key=lambda side: side.tier).first, "resolved"


def _make_rows(extractions: Mapping[str, Extraction], meanings: Mapping[_Ref, _Meaning]) -> list[tuple[Any, ...]]:
    """Return the links of artifacts, resolved."""
    rows: list[tuple[Any, ...]] = []
    for id, extraction in extractions.items():
        for row in make_link_rows(id, extraction):
            if row.target_source is not None:
                rows.append((*row, False))
                continue
            target, state = meanings[row.ref, row.or_ref]
            is_covered = target not in (None, id) and (
                len(id) + len(target) + len(row.type) + len(row.origin) <= MAX_COVERED
            )
            rows.append((*row._replace(target=target, state=state), is_covered))
    return rows


async def _change_targets(c: "Connection", refs: Sequence[_Ref], meanings: Mapping[_Ref, _Meaning]) -> None:
    """Change the stored links with these references whose meaning is another one now."""
    names, or_names = [ref for ref, _ in refs], [or_ref for _, or_ref in refs]
    targets, states = [meanings[ref][0] for ref in refs], [meanings[ref][1] for ref in refs]
    await c.execute(_CHANGE_TARGETS, names, or_names, targets, states, to_keys(names))
