"""Links, names and edges in SQL; a reference is resolved when it is written or when its meaning changes."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from airw._base.checks import check_count
from airw._base.lru import LruCache
from airw.stores.sqlite._conditions import keys_json, set_json
from airw.values import Direction, Edge, Extraction, Link, LinkCount, LinkFilter, NodeId, UnresolvedLink

if TYPE_CHECKING:
    import sqlite3

MaxOf: TypeAlias = tuple[int, LinkFilter]
"""The version of the file, as one connection sees it, and the links that count."""

_Bundle: TypeAlias = tuple[str, str, bool, str, Collection[str]]
"""Edges of one artifact: their type, ":" and the corpus they lead to if it is another, whether inward, origin, ends."""

# A reference means the artifact that carries it in the strongest tier where any does, if that is only one.
_RESOLVE = """
    UPDATE link SET (target, state) = (
        SELECT CASE count(*) WHEN 1 THEN min(artifact_id) END,
            CASE count(*) WHEN 0 THEN 'dangling' WHEN 1 THEN 'resolved' ELSE 'ambiguous' END
        FROM (
            SELECT artifact_id FROM name
            WHERE key = link.ref AND tier = (SELECT min(tier) FROM name WHERE key = link.ref) LIMIT 2
        )
    )
    WHERE target_source IS NULL AND or_ref IS NULL AND {column} IN (SELECT value FROM json_each(:changed))"""
_SIDE = """
    SELECT * FROM (
        SELECT count(*) > 1 AS is_many, tier, {place} AS place, min(artifact_id) AS artifact_id
        FROM (
            SELECT tier, artifact_id FROM name
            WHERE key = link.{ref} AND tier = (SELECT min(tier) FROM name WHERE key = link.{ref}) LIMIT 2
        )
        GROUP BY tier
    )"""
# Of two names that mean one artifact each, that in the stronger tier counts, of equals the first.
_RESOLVE_EITHER = f"""
    UPDATE link SET (target, state) = (
        SELECT CASE is_many WHEN 0 THEN artifact_id END,
            CASE is_many WHEN 0 THEN 'resolved' WHEN 1 THEN 'ambiguous' ELSE 'dangling' END
        FROM (
            {_SIDE.format(place=0, ref="ref")}
            UNION ALL {_SIDE.format(place=1, ref="or_ref")}
            UNION ALL SELECT 2, 0, 0, NULL
        )
        ORDER BY is_many, tier, place LIMIT 1
    )
    WHERE target_source IS NULL AND +or_ref IS NOT NULL AND {{column}} IN (SELECT value FROM json_each(:changed))"""
# The links to each node asked for, of all three kinds; an artifact's id is no dangling or ambiguous reference.
_REFERRERS = """
    WITH asked (place, corpus, node) AS MATERIALIZED (SELECT key, value ->> 0, value ->> 1 FROM json_each(:nodes))
    SELECT place, artifact_id FROM asked JOIN link ON target = node
    WHERE corpus IS NULL AND artifact_id <> node {chosen}
    UNION
    SELECT place, artifact_id FROM asked JOIN link ON ref = node
    WHERE corpus IS NULL AND state IN ('dangling', 'ambiguous') AND node NOT IN (SELECT id FROM artifact) {chosen}
    UNION
    SELECT place, artifact_id FROM asked JOIN link ON ref = node WHERE target_source = corpus {chosen}"""
_MAX_FAN_IN = """
    SELECT coalesce(max(count), 0) FROM (
        SELECT count(DISTINCT artifact_id) AS count FROM link
        WHERE (target_source IS NOT NULL OR artifact_id <> coalesce(target, ref))
            AND NOT (state = 'ambiguous' AND ref IN (SELECT id FROM artifact)) {chosen}
        GROUP BY target_source, coalesce(target, ref)
    )"""
# Each in the order of an index, or rows would be sorted first. No id holds NUL.
_OUT = """
    SELECT artifact_id, type, origin, group_concat(target, char(0)), count(target_source) FROM link
    WHERE artifact_id IN (SELECT value FROM json_each(:ids)) {chosen} GROUP BY artifact_id, type, origin"""
_AWAY = """
    SELECT artifact_id, type, origin, group_concat(ref, char(0)), ':' || target_source FROM link
    WHERE artifact_id IN (SELECT value FROM json_each(:ids)) AND target_source IS NOT NULL {chosen}
    GROUP BY artifact_id, type, origin, target_source"""
_IN = """
    SELECT target, type, origin, group_concat(artifact_id, char(0)) FROM link
    WHERE target IN (SELECT value FROM json_each(:ids)) {chosen} GROUP BY target, type, origin"""


def replace_links(
    connection: "sqlite3.Connection", extractions: Mapping[str, Extraction], removed: Sequence[str]
) -> None:
    """Put links and names of some artifacts in place of those of `removed`, and resolve again what that changes."""
    gone = {"ids": keys_json(removed)}
    before = set(
        connection.execute(
            "SELECT key, tier, artifact_id FROM name WHERE artifact_id IN (SELECT value FROM json_each(:ids))", gone
        )
    )
    after = {name for artifact_id, extraction in extractions.items() for name in _names(artifact_id, extraction)}
    for table in ("link", "name"):
        connection.execute(f"DELETE FROM {table} WHERE artifact_id IN (SELECT value FROM json_each(:ids))", gone)
    connection.executemany("INSERT INTO name (key, tier, artifact_id) VALUES (?, ?, ?)", after)
    connection.executemany(
        "INSERT INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row for artifact_id, extraction in extractions.items() for row in _links(artifact_id, extraction)),
    )
    _resolve_again(connection, set_json(extractions), set_json({key for key, _, _ in before ^ after}))


def _resolve_again(connection: "sqlite3.Connection", artifact_ids: str, names: str) -> None:
    """Resolve the links of these artifacts, and those that give any of these names."""
    changed = [("artifact_id", artifact_ids), ("ref", names)]
    for column, values in changed:
        connection.execute(_RESOLVE.format(column=column), {"changed": values})
    (has_either,) = connection.execute("SELECT EXISTS (SELECT 1 FROM link WHERE or_ref IS NOT NULL)").fetchone()
    for column, values in [*changed, ("or_ref", names)] if has_either else ():
        connection.execute(_RESOLVE_EITHER.format(column=column), {"changed": values})


def _names(artifact_id: str, extraction: Extraction) -> set[tuple[str, int, str]]:
    tiers = [[artifact_id], *extraction.names]
    return {(name, max(0, tier - 1), artifact_id) for tier, names in enumerate(tiers) for name in names}


def _links(artifact_id: str, extraction: Extraction) -> Iterable[tuple[Any, ...]]:
    for position, link in enumerate(extraction.links):
        foreign = link.target_source is not None
        yield (
            artifact_id,
            position,
            link.target_ref,
            link.type,
            link.origin,
            link.target_source,
            link.file,
            link.line,
            link.or_ref,
            None,
            "foreign" if foreign else "",  # to be resolved
        )


def resolve(connection: "sqlite3.Connection", refs: Sequence[str]) -> list[list[str]]:
    """Return for each reference the artifacts, sorted, that carry it in the strongest tier where any does."""
    found: list[list[str]] = [[] for _ in refs]
    for position, artifact_id in connection.execute(
        """SELECT asked.key, artifact_id FROM json_each(?) AS asked JOIN name ON name.key = asked.value
        WHERE tier = (SELECT min(tier) FROM name WHERE key = asked.value) ORDER BY asked.key, artifact_id""",
        [keys_json(refs)],
    ):
        found[position].append(artifact_id)
    return found


def referrers(connection: "sqlite3.Connection", nodes: Sequence[NodeId], links: LinkFilter) -> list[list[str]]:
    """Return for each node the artifacts, sorted, that link to it."""
    found: list[list[str]] = [[] for _ in nodes]
    for place, artifact_id in _ask(
        connection, f"{_REFERRERS} ORDER BY place, artifact_id", links, nodes=_nodes_json(nodes)
    ):
        found[place].append(artifact_id)
    return found


def fan_in(connection: "sqlite3.Connection", nodes: Sequence[NodeId], links: LinkFilter) -> list[int]:
    """Count for each node the artifacts that link to it."""
    found = [0] * len(nodes)
    counted = f"SELECT place, count(*) FROM ({_REFERRERS}) GROUP BY place"
    for place, count in _ask(connection, counted, links, nodes=_nodes_json(nodes)):
        found[place] = count
    return found


def max_fan_in(connection: "sqlite3.Connection", known: LruCache[MaxOf, int], links: LinkFilter) -> int:
    """Count the artifacts that link to the node to which most do; `known` is from earlier calls."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return known.get_or_create((version, links), lambda _: int(_ask(connection, _MAX_FAN_IN, links).fetchone()[0]))


def list_unresolved(
    connection: "sqlite3.Connection", artifact_ids: Sequence[str] | None, limit: int | None
) -> list[UnresolvedLink]:
    """Return the links of these artifacts, or of all, that dangle or are ambiguous, in two statements."""
    of_ids = "" if artifact_ids is None else "AND artifact_id IN (SELECT value FROM json_each(:ids))"
    rows = connection.execute(
        f"""SELECT artifact_id, ref, type, origin, target_source, file, line, or_ref FROM link
        WHERE state IN ('dangling', 'ambiguous') {of_ids} ORDER BY artifact_id, position LIMIT :limit""",
        {"ids": set_json(artifact_ids or ()), "limit": -1 if limit is None else check_count("limit", limit)},
    )
    found = [(artifact_id, Link(*link)) for artifact_id, *link in rows]
    refs = list(dict.fromkeys(ref for _, link in found for ref in _names_in(link)))
    meant = dict(zip(refs, resolve(connection, refs), strict=True))
    return [
        UnresolvedLink(artifact_id, link, tuple(sorted({id for ref in _names_in(link) for id in meant[ref]})))
        for artifact_id, link in found
    ]


def _names_in(link: Link) -> tuple[str, ...]:
    return (link.target_ref,) if link.or_ref is None else (link.target_ref, link.or_ref)


def link_counts(connection: "sqlite3.Connection") -> list[LinkCount]:
    """Count all links by type, origin and state."""
    rows = connection.execute("SELECT type, origin, state, count(*) FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return [LinkCount(*row) for row in rows]


def _nodes_json(nodes: Sequence[NodeId]) -> str:
    """Write nodes as pairs, those of this corpus without a corpus; what no id can hold becomes a pair of nulls."""
    pairs = [(None, node) if isinstance(node, str) else node for node in nodes]
    return json.dumps([(None, None) if any("\0" in each for each in pair if each) else pair for pair in pairs])


def neighbors(
    connection: "sqlite3.Connection", ids: Sequence[str], direction: Direction, links: LinkFilter, limit: int | None
) -> list[list[Edge]]:
    """Return the edges of each artifact: one statement a direction, and one more where links lead to other corpora."""
    found: defaultdict[str, list[_Bundle]] = defaultdict(list)
    if direction != "in":
        away = []
        for here, kind, origin, ends, count in _ask(connection, _OUT, links, ids=set_json(ids)):
            if ends is not None:
                found[here].append((kind, "", False, origin, {*ends.split("\0")} - {here}))
            if count:
                away.append(here)
        for here, kind, origin, ends, corpus in _ask(connection, _AWAY, links, ids=set_json(away)) if away else ():
            found[here].append((kind, corpus, False, origin, {*ends.split("\0")}))
    if direction != "out":
        for here, kind, origin, ends in _ask(connection, _IN, links, ids=set_json(ids)):
            found[here].append((kind, "", True, origin, {*ends.split("\0")} - {here}))
    return [_edges(here, found.get(here, ()), limit) for here in ids]


def _ask(connection: "sqlite3.Connection", question: str, links: LinkFilter, **bound: str) -> "sqlite3.Cursor":
    """Execute a question, whose `{chosen}` becomes the conditions of the filter, with these parameters."""
    chosen = ""
    conditions = [
        ("types", "type IN", links.types),
        ("exclude", "type NOT IN", links.exclude or None),
        ("origins", "origin IN", links.origins),
    ]
    for name, condition, values in conditions:
        if values is not None:
            bound[name] = set_json(values)
            chosen += f" AND {condition} (SELECT value FROM json_each(:{name}))"
    return connection.execute(question.format(chosen=chosen), bound)


def _edges(here: str, bundles: Sequence[_Bundle], limit: int | None) -> list[Edge]:
    """Return the edges of one artifact, ordered by type, then by the artifact at the other end."""
    if len(bundles) == 1 and not bundles[0][1]:  # as most are
        [(kind, _, is_inward, origin, ends)] = bundles
        if is_inward:
            return [Edge(end, here, kind, origin) for end in sorted(ends)[:limit]]
        return [Edge(here, end, kind, origin) for end in sorted(ends)[:limit]]
    ways = sorted(
        (kind, corpus, end, is_inward, origin) for kind, corpus, is_inward, origin, ends in bundles for end in ends
    )
    return [
        Edge(end, here, kind, origin) if is_inward else Edge(here, (corpus[1:], end) if corpus else end, kind, origin)
        for kind, corpus, end, is_inward, origin in ways[:limit]
    ]
