"""Links, names and edges on a PostgreSQL server.

Each link is stored with its target (see `_link_writing`), so reading edges needs no lookup of names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airw._base.concurrency import offload_if
from airw._base.lru import LruCache
from airw.protocols import Edges, LinkCounts, MaxFanIn, Names, Referrers, UnresolvedLinks
from airw.stores._link_rows import FOLDED_TIER, fold_differing
from airw.stores._stored_values import check_types, detect_damage
from airw.stores.postgres._keys import keep_storable, prefix_of, to_keys
from airw.values import ArtifactRef, Direction, Edge, Link, LinkCount, NodeId, UnresolvedLink

if TYPE_CHECKING:
    from asyncpg import Connection

T = TypeVar("T")

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


# Of several links that are one edge, the largest weight counts, which is null for 1.
_EDGES = """
    SELECT DISTINCT ON (near, type, corpus, far, is_incoming, origin)
        near, type, corpus, far, is_incoming, origin, weight
    FROM ({links}) AS link
    ORDER BY near, type, corpus NULLS FIRST, far, is_incoming, origin, weight DESC NULLS FIRST"""
_FIRST_EDGES = f"""
    SELECT near, type, corpus, far, is_incoming, origin, weight FROM (
        SELECT *, row_number() OVER (
            PARTITION BY near ORDER BY type, corpus NULLS FIRST, far, is_incoming, origin
        ) AS number FROM ({_EDGES}) AS edge
    ) AS edge WHERE number <= $5 ORDER BY near, number"""
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


async def neighbors(c: "Connection", request: Edges) -> list[list[Edge]]:
    """Return the edges of each artifact, by type, then by the other end; in one statement."""
    ids, links = list[Any](request.ids), request.links
    parameters: list[Any] = [to_keys(ids), *map(_keep_storable, (links.types, links.exclude, links.origins))]
    statement = (_EDGES if request.limit is None else _FIRST_EDGES).format(links=_LINKS[request.direction])
    rows = await c.fetch(statement, *parameters, *([] if request.limit is None else [request.limit]))
    return await offload_if(len(rows) > _FEW_EDGES, _group_edges, ids, rows)


@detect_damage()
def _group_edges(ids: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[list[Edge]]:
    """Return the edges of each artifact, made of rows of edges."""
    edges_of: dict[Any, list[Edge]] = {id: [] for id in ids}
    check_types([[row[place] for row in rows] for place in (1, 3, 5)], [str, str, str])
    for near, type_, corpus, far, is_incoming, origin, weight in rows:
        # Another artifact may have the prefix of a long id as its own.
        if near in edges_of:
            node = far if corpus is None else ArtifactRef(corpus, far)
            source, target = (node, near) if is_incoming else (near, node)
            edges_of[near].append(Edge(source, target, type_, origin, 1.0 if weight is None else weight))
    return [[*edges_of[id]] for id in ids]


def _keep_storable(texts: Sequence[str] | None) -> list[str] | None:
    return None if texts is None else keep_storable(texts)


async def resolve(c: "Connection", request: Names) -> list[list[str]]:
    """Return the artifacts that carry each reference in its strongest tier, sorted."""
    folded = filter(None, map(fold_differing, request.refs))
    rows = await c.fetch(_RESOLVE, to_keys([*request.refs, *folded]))
    with detect_damage():
        find = find_carriers({(key, tier): artifact_ids for key, tier, artifact_ids in rows})
        return [[*found[1]] if (found := find(ref)) else [] for ref in request.refs]


def find_carriers(rows: Mapping[tuple[str, int], T]) -> Callable[[str], tuple[int, T] | None]:
    """Return a function from a name to its strongest tier, and who carries it there.

    Args:
        rows: Who carries each name in each tier.
    """
    carriers: dict[str, tuple[int, T]] = {}
    for (key, tier), found in rows.items():
        if key not in carriers or tier < carriers[key][0]:
            carriers[key] = tier, found

    def find(name: str) -> tuple[int, T] | None:
        other = fold_differing(name) or name
        if name in carriers or (other, FOLDED_TIER) not in rows:
            return carriers.get(name)
        return FOLDED_TIER, rows[other, FOLDED_TIER]

    return find


async def referrers(c: "Connection", request: Referrers) -> list[list[str]]:
    """Return the artifacts that link to each node, sorted."""
    nodes = list[Any](request.nodes)
    texts = (node if isinstance(node, str) else node[1] for node in nodes)
    rows = await c.fetch(_REFERRERS, to_keys(texts), _keep_storable(request.types))
    ids = {node for kind, _, node, _ in rows if kind == _ID}
    found: dict[NodeId, list[str]] = {
        node if corpus is None else ArtifactRef(corpus, node): artifact_ids
        for kind, corpus, node, artifact_ids in rows
        if kind in (_ARTIFACT, _FOREIGN) or (kind == _TEXT and node not in ids)
    }
    return [[*found.get(node, ())] for node in nodes]


async def max_fan_in(c: "Connection", cache: LruCache[Any, tuple[str | None, int]], request: MaxFanIn) -> int:
    """Return the largest fan-in of all nodes, from the cache if no link has changed."""
    types = _keep_storable(request.types)
    key = None if types is None else tuple(types)
    known_state, known = cache.get(key, ("", 0))
    state, counted = await c.fetchrow(_MAX_FAN_IN, types, known_state)
    largest = known if counted is None else int(counted)
    cache.discard(key)
    cache.get_or_create(key, lambda _: (state, largest))
    return largest


async def list_unresolved(c: "Connection", request: UnresolvedLinks) -> list[UnresolvedLink]:
    """Return the dangling and ambiguous links of these artifacts, or of all artifacts."""
    ids = None if request.artifact_ids is None else list[Any](request.artifact_ids)
    some = () if ids is None else (to_keys(ids), keep_storable(ids))
    rows = await c.fetch(_ALL_UNRESOLVED if ids is None else _SOME_UNRESOLVED, request.limit, *some)
    with detect_damage():
        return [UnresolvedLink(id, Link(*link), tuple(sorted({*candidates}))) for id, *link, candidates in rows]


async def link_counts(c: "Connection", _: LinkCounts) -> list[LinkCount]:
    """Return the number of links per type, origin and state, sorted by these three."""
    rows = await c.fetch("SELECT type, origin, state, count(*) FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    with detect_damage():
        check_types([[part for row in rows for part in row[:3]]], [str])
        return [LinkCount(*row) for row in rows]
