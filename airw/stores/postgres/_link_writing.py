"""What a write does to links and names on a PostgreSQL server."""

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from airw._base.concurrency import offload_if
from airw.stores._link_rows import LinkRow, NameRow, fold_differing, make_link_rows, make_name_rows
from airw.stores.postgres._keys import prefix_of, to_keys
from airw.stores.postgres._links import find_carriers
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
    UPDATE link SET target = meant.target, state = meant.state
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS meant (ref, or_ref, target, state)
    WHERE {prefix_of("link.ref")} = ANY ($5::text[]) AND link.ref = meant.ref
        AND link.or_ref IS NOT DISTINCT FROM meant.or_ref AND link.target_source IS NULL
        AND (link.target, link.state) IS DISTINCT FROM (meant.target, meant.state)"""

_Ref = tuple[str, str | None]
"""A reference within the corpus: its name, and the second one if it has one."""

_Meaning = tuple[str | None, LinkState]
"""What a reference means: its target if it is one artifact, and its state."""


class NewLinks(NamedTuple):
    """What a write does to links and names.

    Args:
        names: The rows of new names.
        rows: The rows of new links, resolved.
        affected: The references of other links that may mean something else now, each with its meaning.
    """

    names: AbstractSet[NameRow]
    rows: Sequence[LinkRow]
    affected: Mapping[_Ref, _Meaning]


async def resolve_links(
    c: "Connection", extractions: Mapping[str, Extraction], removed: Iterable[Sequence[Any]]
) -> NewLinks:
    """Return the links and names to insert, and how others change their meaning.

    The caller has a transaction open, and no other writer has one. New links are resolved before they are inserted, and
    of the others those are changed whose meaning has changed.

    Args:
        c: The connection.
        extractions: The links and names of each new artifact.
        removed: What `DELETE` returned.
    """
    old_names = {NameRow(*row) for row in removed}
    is_long = len(old_names) + sum(len(each.links) + len(each.names) + 1 for each in extractions.values()) > _FEW_ROWS
    names, rows = await offload_if(is_long, _make_rows, extractions)
    refs: set[_Ref] = {(row.ref, row.or_ref) for row in rows if row.target_source is None}
    # A link of another artifact changes its meaning only if a name in its reference has changed. In a repeated build
    # that is rare.
    changed = to_keys(key for key, _, _ in names ^ old_names)
    affected = {(ref, or_ref) for ref, or_ref in await c.fetch(_AFFECTED, changed)} if changed else set[_Ref]()
    refs |= affected
    keys = await offload_if(is_long, _list_keys, refs)
    carriers = await c.fetch(_CARRIERS, keys) if keys else []
    meanings = await offload_if(is_long, _find_meanings, refs, carriers, names)
    for place, row in enumerate(rows):
        if row.target_source is None:
            target, state = meanings[row.ref, row.or_ref]
            rows[place] = row._replace(target=target, state=state)
    return NewLinks(names, rows, {ref: meanings[ref] for ref in affected})


async def change_targets(c: "Connection", links: NewLinks) -> None:
    """Change the stored links whose meaning is another one now."""
    if links.affected:
        names, or_names = zip(*links.affected, strict=True)
        targets, states = zip(*links.affected.values(), strict=True)
        await c.execute(_CHANGE_TARGETS, names, or_names, targets, states, to_keys(names))


def _make_rows(extractions: Mapping[str, Extraction]) -> tuple[set[NameRow], list[LinkRow]]:
    """Return the names of new artifacts, with the id of each, and their links."""
    names = {NameRow(id, 0, id) for id in extractions}
    for id, extraction in extractions.items():
        if extraction.names or extraction.fold_case:
            names |= make_name_rows(id, extraction)
    return names, [row for id, extraction in extractions.items() for row in make_link_rows(id, extraction)]


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
    find = find_carriers(found)
    meanings: dict[_Ref, _Meaning] = {}
    for ref in refs:
        sides = [side for name in ref if name is not None and (side := find(name))]
        # A name resolves if exactly one artifact carries it. Of two that do, the stronger tier counts, then the first.
        resolved = min(
            [(tier, first) for tier, (first, number) in sides if number == 1], key=itemgetter(0), default=None
        )
        state: LinkState = "resolved" if resolved else "ambiguous" if sides else "dangling"
        meanings[ref] = resolved and resolved[1], state
    return meanings
