"""Links, names and edges on a PostgreSQL server.

Each link is stored with its target (see `_link_writing`), so reading edges needs no lookup of names.
"""

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from airw._base.checks import check_choice, check_limit
from airw._base.concurrency import offload_if
from airw._base.lru import LruCache
from airw.stores._link_rows import FOLDED_TIER, fold_differing
from airw.stores._stored_values import check_types, detect_damage
from airw.stores.postgres._keys import prefix_of, to_keys
from airw.stores.postgres._texts import keep_storable
from airw.values import (
    DIRECTIONS,
    ArtifactRef,
    Direction,
    Edge,
    Link,
    LinkCount,
    LinkFilter,
    NodeId,
    UnresolvedLink,
)

if TYPE_CHECKING:
    from asyncpg import Connection

_FEW_EDGES = 1_000  # edges that are made in less than a millisecond

# Kinds of nodes in `_REFERRERS`.
_ARTIFACT, _TEXT, _FOREIGN, _ID = range(4)

# The first parameter, not as such: for a few keys, the server would plan anew in each call, which takes longer than the
# rest. It cannot see how many keys a subquery has, so it keeps its plan.
_KEYS = "(SELECT $1::text[])::text[]"
# A filter of links as parameters: types or null, excluded types, origins or null.
_ACCEPTED = """($2::text[] IS NULL OR type = ANY ($2)) AND type <> ALL ($3::text[])
    AND ($4::text[] IS NULL OR origin = ANY ($4))"""
# Edges as both their ends see them. `far` is the other end, in another corpus if `corpus` is not null.
_OUT = f"""
    SELECT artifact_id AS near, type, NULL AS corpus, target AS far, false AS is_incoming, origin, weight FROM link
    WHERE is_covered AND artifact_id = ANY ({_KEYS}) AND {_ACCEPTED}
    UNION ALL
    SELECT artifact_id, type, target_source, coalesce(target, ref), false, origin, weight FROM link
    WHERE NOT is_covered AND {prefix_of("artifact_id")} = ANY ({_KEYS}) AND state IN ('resolved', 'foreign')
        AND target IS DISTINCT FROM artifact_id AND {_ACCEPTED}"""
_IN = f"""
    SELECT target AS near, type, NULL AS corpus, artifact_id AS far, true AS is_incoming, origin, weight FROM link
    WHERE is_covered AND target = ANY ({_KEYS}) AND {_ACCEPTED}
    UNION ALL
    SELECT target, type, NULL, artifact_id, true, origin, weight FROM link
    WHERE NOT is_covered AND target IS NOT NULL AND {prefix_of("target")} = ANY ({_KEYS}) AND target <> artifact_id
        AND {_ACCEPTED}"""
_LINKS: dict[Direction, str] = {"out": _OUT, "in": _IN, "both": f"{_OUT} UNION ALL {_IN}"}
EDGE_ORDER = "type, corpus NULLS FIRST, far, is_incoming, origin"


@cache
def select_edges(direction: Direction, *, is_limited: bool, is_filtered: bool = True) -> str:
    """Return the SQL of the edges of artifacts, in the order of `neighbors`.

    Its columns are `near`, `type`, `corpus`, `far`, `is_incoming`, `origin` and `weight`, which is null for 1. There
    may be edges of artifacts that were not asked for. Its parameters are those that `edge_parameters` returns, without
    a filter only the first, and then the limit, if there is one.
    """
    links = _LINKS[direction] if is_filtered else _LINKS[direction].replace(f"AND {_ACCEPTED}", "")
    # Of several links that are one edge, the largest weight counts.
    edges = f"""
        SELECT DISTINCT ON (near, type, corpus, far, is_incoming, origin)
            near, type, corpus, far, is_incoming, origin, weight
        FROM ({links}) AS link ORDER BY near, {EDGE_ORDER}, weight DESC NULLS FIRST"""
    if not is_limited:
        return edges
    return f"""
        SELECT near, type, corpus, far, is_incoming, origin, weight FROM (
            SELECT *, row_number() OVER (PARTITION BY near ORDER BY {EDGE_ORDER}) AS number FROM ({edges}) AS edge
        ) AS edge WHERE number <= ${5 if is_filtered else 2} ORDER BY near, number"""


# One row per artifact, with its edges as columns, for statements that return other rows, too. A column that nearly
# always is the same is null then.
EDGE_COLUMNS = """
    SELECT near, array_agg(type), array_agg(far), array_agg(origin),
        CASE WHEN bool_or(is_incoming) THEN array_agg(is_incoming) END,
        CASE WHEN count(corpus) > 0 THEN array_agg(corpus) END,
        CASE WHEN count(weight) > 0 THEN array_agg(coalesce(weight, 1)) END
    FROM ({}) AS edge GROUP BY near"""
# The artifacts that carry a name, by tier.
_RESOLVE = f"""
    SELECT key, tier, array_agg(artifact_id ORDER BY artifact_id) FROM name
    WHERE {prefix_of("key")} = ANY ({_KEYS}) GROUP BY key, tier"""
# The three kinds of nodes: artifacts, texts of unresolved references, and artifacts of other corpora. A text that is
# the id of an artifact is never the second kind; such texts come as a fourth kind, which has no referrers.
_OF_TYPES = "($2::text[] IS NULL OR type = ANY ($2))"
_REFERRERS = f"""
    SELECT kind, corpus, node, array_agg(DISTINCT artifact_id) FROM (
        SELECT {_ARTIFACT} AS kind, NULL AS corpus, target AS node, artifact_id FROM link
        WHERE is_covered AND target = ANY ({_KEYS}) AND {_OF_TYPES}
        UNION ALL
        SELECT {_ARTIFACT}, NULL, target, artifact_id FROM link
        WHERE NOT is_covered AND target IS NOT NULL AND {prefix_of("target")} = ANY ({_KEYS})
            AND target <> artifact_id AND {_OF_TYPES}
        UNION ALL
        SELECT CASE WHEN target_source IS NULL THEN {_TEXT} ELSE {_FOREIGN} END, target_source, ref, artifact_id
        FROM link WHERE {prefix_of("ref")} = ANY ({_KEYS}) AND state <> 'resolved' AND {_OF_TYPES}
        UNION ALL
        SELECT {_ID}, NULL, key, NULL FROM name
        WHERE {prefix_of("key")} = ANY ({_KEYS}) AND tier = 0 AND artifact_id = key
    ) AS found GROUP BY kind, corpus, node"""
# Counting takes a second for a million links. So it is done only if links have changed since the value in the cache.
_MAX_FAN_IN = f"""
    SELECT state, CASE WHEN state IS DISTINCT FROM $2 THEN (
        SELECT coalesce(max(count), 0) FROM (
            SELECT count(*) AS count FROM (
                SELECT DISTINCT target_source, coalesce(target, ref) AS node, artifact_id FROM link
                WHERE (target_source IS NOT NULL OR artifact_id <> coalesce(target, ref))
                    AND NOT (state = 'ambiguous' AND EXISTS (
                        SELECT FROM name
                        WHERE {prefix_of("key")} = {prefix_of("link.ref")} AND key = link.ref AND artifact_id = key
                    )) AND ($1::text[] IS NULL OR type = ANY ($1))
            ) AS referrer GROUP BY target_source, node
        ) AS node
    ) END
    FROM (VALUES ((SELECT value::text FROM setting WHERE kind = 'links'))) AS known (state)"""


def _candidates(ref: str, folded: str) -> str:
    """Return the SQL of the artifacts that carry a name of a link, in any case if need be."""

    def carriers(column: str, tier: str) -> str:
        return f"""(SELECT array_agg(artifact_id) FROM name
            WHERE {prefix_of("key")} = {prefix_of(f"link.{column}")} AND key = link.{column} AND tier = {tier})"""

    strongest = f"""(SELECT min(tier) FROM name
        WHERE {prefix_of("key")} = {prefix_of(f"link.{ref}")} AND key = link.{ref})"""
    return f"coalesce({carriers(ref, strongest)}, {carriers(folded, str(FOLDED_TIER))}, ARRAY[]::text[])"


_UNRESOLVED = f"""
    SELECT artifact_id, ref, type, origin, target_source, file, line, or_ref, coalesce(weight, 1),
        {_candidates("ref", "folded")} || {_candidates("or_ref", "or_folded")}
    FROM link WHERE NOT is_covered AND state IN ('dangling', 'ambiguous') {{condition}}
    ORDER BY artifact_id, position LIMIT $1"""
_ALL_UNRESOLVED = _UNRESOLVED.format(condition="")
_SOME_UNRESOLVED = _UNRESOLVED.format(
    condition=f"""AND {prefix_of("artifact_id")} = ANY ($2::text[])
        AND EXISTS (SELECT FROM unnest($3::text[]) AS requested (id) WHERE id = artifact_id)"""
)


async def neighbors(
    c: "Connection", ids: Sequence[str], direction: Direction, links: LinkFilter, limit: int | None
) -> list[list[Edge]]:
    """Return the edges of each artifact, by type, then by the other end; in one statement."""
    check_choice("direction", direction, DIRECTIONS)
    check_limit(limit)
    # Most calls have no filter, and a shorter statement.
    is_filtered = links != LinkFilter()
    parameters: list[Any] = [*edge_parameters(ids, links)] if is_filtered else [to_keys(ids)]
    if limit is not None:
        parameters.append(limit)
    sql = select_edges(direction, is_limited=limit is not None, is_filtered=is_filtered)
    rows = await c.fetch(sql, *parameters)
    return await offload_if(len(rows) > _FEW_EDGES, _group_edges, ids, rows)


@detect_damage()
def _group_edges(ids: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Edge]]:
    """Return the edges of each artifact, made of the rows of `select_edges`."""
    edges_of: dict[str, list[Edge]] = {id: [] for id in ids}
    for place in (1, 3, 5):
        check_types([[row[place] for row in rows]], [str])
    for near, type_, corpus, far, is_incoming, origin, weight in rows:
        node = far if corpus is None else ArtifactRef(corpus, far)
        source, target = (node, near) if is_incoming else (near, node)
        edge = Edge(source, target, type_, origin) if weight is None else Edge(source, target, type_, origin, weight)
        # Another artifact may have the prefix of a long id as its own.
        if near in edges_of:
            edges_of[near].append(edge)
    return [[*edges_of[id]] for id in ids] if len(edges_of) < len(ids) else [*edges_of.values()]


def edge_parameters(ids: Sequence[str], links: LinkFilter) -> list[list[str] | None]:
    """Return the parameters of `select_edges`."""
    return [to_keys(ids), _keep_storable(links.types), _keep_storable(links.exclude), _keep_storable(links.origins)]


def _keep_storable(texts: Sequence[str] | None) -> list[str] | None:
    return None if texts is None else keep_storable(texts)


@detect_damage()
def make_edges(ids: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Edge]]:
    """Return the edges of each artifact, made of the rows of `EDGE_COLUMNS`."""
    columns_of = {row[0]: row[1:] for row in rows}
    return [_make_row(id, columns_of[id]) if id in columns_of else [] for id in ids]


def _make_row(id: str, columns: Sequence[Any]) -> list[Edge]:
    """Return the edges of one artifact, made of the columns of `EDGE_COLUMNS`."""
    types, ends, origins, incoming, corpora, weights = columns
    # Most artifacts have links within the corpus in one direction: a shorter path for these.
    if incoming is None and corpora is None and weights is None:
        return [Edge(id, end, type_, origin) for type_, end, origin in zip(types, ends, origins, strict=True)]
    edges: list[Edge] = []
    nothing = repeat(None)
    for type_, end, origin, is_incoming, corpus, weight in zip(
        types, ends, origins, incoming or nothing, corpora or nothing, weights or repeat(1.0), strict=False
    ):
        node = end if corpus is None else ArtifactRef(corpus, end)
        source, target = (node, id) if is_incoming else (id, node)
        edges.append(Edge(source, target, type_, origin, weight))
    return edges


async def resolve(c: "Connection", refs: Sequence[str]) -> list[list[str]]:
    """Return the artifacts that carry each reference in its strongest tier, sorted."""
    folded = [fold_differing(ref) for ref in refs]
    rows = await c.fetch(_RESOLVE, to_keys([*refs, *filter(None, folded)]))
    return _choose_carriers(refs, folded, rows)


@detect_damage()
def _choose_carriers(
    refs: Sequence[str], folded: Sequence[str | None], rows: Sequence[Sequence[Any]]
) -> list[list[str]]:
    """Return the artifacts that carry each reference, from the rows of `_RESOLVE`."""
    carriers: dict[str, tuple[int, list[str]]] = {}
    folded_carriers: dict[str, list[str]] = {}
    for key, tier, artifact_ids in rows:
        if tier == FOLDED_TIER:
            folded_carriers[key] = artifact_ids
        if key not in carriers or tier < carriers[key][0]:
            carriers[key] = tier, artifact_ids
    return [
        [*carriers[ref][1]] if ref in carriers else [*folded_carriers.get(other or ref, ())]
        for ref, other in zip(refs, folded, strict=True)
    ]


async def referrers(c: "Connection", nodes: Sequence[NodeId], links: LinkFilter) -> list[list[str]]:
    """Return the artifacts that link to each node, sorted."""
    texts = (node if isinstance(node, str) else node[1] for node in nodes)
    rows = await c.fetch(_REFERRERS, to_keys(texts), _keep_storable(links.types))
    ids = {node for kind, _, node, _ in rows if kind == _ID}
    found: dict[NodeId, list[str]] = {
        node if corpus is None else ArtifactRef(corpus, node): artifact_ids
        for kind, corpus, node, artifact_ids in rows
        if kind in (_ARTIFACT, _FOREIGN) or (kind == _TEXT and node not in ids)
    }
    return [[*found.get(node, ())] for node in nodes]


async def max_fan_in(c: "Connection", cache: LruCache[LinkFilter, tuple[str | None, int]], links: LinkFilter) -> int:
    """Return the largest fan-in of all nodes, from the cache if no link has changed."""
    known_state, known = cache.get(links, ("", 0))
    state, counted = await c.fetchrow(_MAX_FAN_IN, _keep_storable(links.types), known_state)
    largest = known if counted is None else int(counted)
    cache.discard(links)
    cache.get_or_create(links, lambda _: (state, largest))
    return largest


async def list_unresolved(
    c: "Connection", artifact_ids: Sequence[str] | None, limit: int | None
) -> list[UnresolvedLink]:
    """Return the dangling and ambiguous links of these artifacts, or of all artifacts."""
    if artifact_ids is None:
        rows = await c.fetch(_ALL_UNRESOLVED, limit)
    else:
        rows = await c.fetch(_SOME_UNRESOLVED, limit, to_keys(artifact_ids), keep_storable(artifact_ids))
    with detect_damage():
        return [UnresolvedLink(id, Link(*link), tuple(sorted({*candidates}))) for id, *link, candidates in rows]


async def link_counts(c: "Connection") -> list[LinkCount]:
    """Return the number of links per type, origin and state, sorted by these three."""
    rows = await c.fetch("SELECT type, origin, state, count(*) FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    with detect_damage():
        check_types([[part for row in rows for part in row[:3]]], [str])
        return [LinkCount(*row) for row in rows]
