"""Links, names and edges in the file of a corpus.

Unlike in memory, each link is stored with its target. It is resolved when it is written, and again whenever a write
changes the names in its reference. So reading edges needs no lookup of names.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airw._base.lru import LruCache
from airw._base.messages import short_repr
from airw._base.slices import split_in_slices
from airw.errors import ArgumentError
from airw.stores._link_rows import FOLDED_TIER, make_link_rows, make_name_rows
from airw.stores._stored_values import DamagedValue
from airw.stores.sqlite._field_sql import keys_json, set_json
from airw.values import (
    Direction,
    Extraction,
    Link,
    LinkCount,
    LinkFilter,
    NodeId,
    UnresolvedLink,
    fold_name,
    round_weight,
)

if TYPE_CHECKING:
    import sqlite3

FanInKey: TypeAlias = tuple[int, LinkFilter]
"""The last change of a link in the file, and the links that count."""

FIRST_WITH_WEIGHTS = 7
"""The first format of files in which links have a weight."""

_MAX_CHANGES = 500  # artifacts whose links one write has changed; if there are more, readers read all links again
_KEPT_CHANGES = 10_000  # rows that tell readers of changes; a reader that has missed more reads all links again

# The artifacts that a reference may mean: those that carry it in the strongest tier in which any artifact does. An
# artifact carries its own id in tier 0; the table `name` contains only other names. If nobody carries it, the folded
# reference is looked up in the weakest tier. A reference that equals its folded form has none in the table: the lookup
# of other names finds the weakest tier, too. LIMIT 2 suffices to tell one carrier from several.
_CARRIERS = f"""
    SELECT 0 AS tier, id AS artifact_id FROM artifact WHERE id = link.{{ref}}
    UNION ALL
    SELECT tier, artifact_id FROM name
    WHERE key = link.{{ref}} AND tier = CASE WHEN EXISTS (SELECT 1 FROM artifact WHERE id = link.{{ref}}) THEN 0
        ELSE (SELECT min(tier) FROM name WHERE key = link.{{ref}}) END
    UNION ALL
    SELECT tier, artifact_id FROM name
    WHERE key = link.{{folded}} AND tier = {FOLDED_TIER} AND NOT EXISTS (SELECT 1 FROM name WHERE key = link.{{ref}})
        AND NOT EXISTS (SELECT 1 FROM artifact WHERE id = link.{{ref}})
    LIMIT 2"""
_STRONGEST = """(
    CASE WHEN EXISTS (SELECT 1 FROM artifact WHERE id = requested.value) THEN 0
    ELSE (SELECT min(tier) FROM name WHERE key = requested.value) END)"""
# A reference resolves if exactly one artifact carries it.
_RESOLVE = f"""
    UPDATE link SET (target, state) = (
        SELECT CASE count(*) WHEN 1 THEN min(artifact_id) END,
            CASE count(*) WHEN 0 THEN 'dangling' WHEN 1 THEN 'resolved' ELSE 'ambiguous' END
        FROM ({_CARRIERS.format(ref="ref", folded="folded")})
    )
    WHERE target_source IS NULL AND or_ref IS NULL AND {{column}} IN (SELECT value FROM json_each(:changed))"""
# One row for one of two names, or no row if nobody carries it.
_SIDE = f"""
    SELECT * FROM (
        SELECT count(*) > 1 AS is_many, tier, {{place}} AS place, min(artifact_id) AS artifact_id
        FROM ({_CARRIERS})
        GROUP BY tier
    )"""
# Of two names, one that resolves wins over an ambiguous one, then the stronger tier, then the first name. The row with
# 2 stands for "dangling": it is first if neither name has a row. The "+" makes SQLite use the index of {column}.
_RESOLVE_PAIR = f"""
    UPDATE link SET (target, state) = (
        SELECT CASE is_many WHEN 0 THEN artifact_id END,
            CASE is_many WHEN 0 THEN 'resolved' WHEN 1 THEN 'ambiguous' ELSE 'dangling' END
        FROM (
            {_SIDE.format(place=0, ref="ref", folded="folded")}
            UNION ALL {_SIDE.format(place=1, ref="or_ref", folded="or_folded")}
            UNION ALL SELECT 2, 0, 0, NULL
        )
        ORDER BY is_many, tier, place LIMIT 1
    )
    WHERE target_source IS NULL AND +or_ref IS NOT NULL AND {{column}} IN (SELECT value FROM json_each(:changed))"""
# The three kinds of nodes: artifacts, texts of unresolved references, and artifacts of other corpora. A text that is
# the id of an artifact is never the second kind.
_REFERRERS = """
    WITH requested (place, corpus, node) AS MATERIALIZED (SELECT key, value ->> 0, value ->> 1 FROM json_each(:nodes))
    SELECT place, artifact_id FROM requested JOIN link ON target = node
    WHERE corpus IS NULL AND artifact_id <> node {condition}
    UNION
    SELECT place, artifact_id FROM requested JOIN link ON ref = node
    WHERE corpus IS NULL AND state IN ('dangling', 'ambiguous') AND node NOT IN (SELECT id FROM artifact) {condition}
    UNION
    SELECT place, artifact_id FROM requested JOIN link ON ref = node WHERE target_source = corpus {condition}"""
_MAX_FAN_IN = """
    SELECT coalesce(max(count), 0) FROM (
        SELECT count(DISTINCT artifact_id) AS count FROM link
        WHERE (target_source IS NOT NULL OR artifact_id <> coalesce(target, ref))
            AND NOT (state = 'ambiguous' AND ref IN (SELECT id FROM artifact)) {condition}
        GROUP BY target_source, coalesce(target, ref)
    )"""
# Each column has an index of its own.
_WITH_NAMES = (
    " UNION ".join(
        f"SELECT artifact_id FROM link WHERE {column} IN (SELECT value FROM json_each(:names))"
        for column in ("ref", "folded", "or_ref", "or_folded")
    )
    + " LIMIT :limit"
)
# These group in the order of an index, as SQLite would sort all rows otherwise. Ids are joined by NUL, which no id
# contains: one row per group is much less to convert to Python than one per edge.
_OUT = """
    SELECT artifact_id, type, origin, group_concat(target, char(0)), count(target_source), {weight_count} FROM link
    WHERE artifact_id IN (SELECT value FROM json_each(:ids)) GROUP BY artifact_id, type, origin"""
_OUT_FOREIGN = """
    SELECT artifact_id, type, origin, group_concat(ref, char(0)), ':' || target_source FROM link
    WHERE artifact_id IN (SELECT value FROM json_each(:ids)) AND target_source IS NOT NULL
    GROUP BY artifact_id, type, origin, target_source"""
_IN = """
    SELECT target, type, origin, group_concat(artifact_id, char(0)), {weight_count} FROM link
    WHERE target IN (SELECT value FROM json_each(:ids)) GROUP BY target, type, origin"""
# The same for artifacts with weights: several links that are one edge count with the largest.
_WEIGHTED = """
    SELECT near, type, origin, corpus, weight, group_concat(far, char(0)) FROM (
        SELECT {near} AS near, type, origin, {corpus} AS corpus, {far} AS far, max(coalesce(weight, 1.0)) AS weight
        FROM link WHERE {near} IN (SELECT value FROM json_each(:ids)) AND {far} IS NOT NULL GROUP BY 1, 2, 3, 4, 5
    ) GROUP BY near, type, origin, corpus, weight"""
_WEIGHTED_OUT = _WEIGHTED.format(
    near="artifact_id",
    far="CASE WHEN target_source IS NULL THEN target ELSE ref END",
    corpus="CASE WHEN target_source IS NULL THEN '' ELSE ':' || target_source END",
)
_WEIGHTED_IN = _WEIGHTED.format(near="target", far="artifact_id", corpus="''")


class EdgeGroup(NamedTuple):
    """Edges of one artifact that differ only in their other ends.

    Args:
        type: Their type.
        origin: Their origin.
        ends: The artifacts at the other ends.
        corpus: The corpus of the ends: `""`, or ":" and the name of another corpus, so that these sort last.
        is_incoming: Whether they lead to the artifact.
        weight: Their weight.
    """

    type: str
    origin: str
    ends: set[str]
    corpus: str = ""
    is_incoming: bool = False
    weight: float = 1.0


def replace_links(
    connection: "sqlite3.Connection", extractions: Mapping[str, Extraction], removed: Sequence[str]
) -> None:
    """Remove the links and names of `removed`, insert new ones, and resolve affected links."""
    had_links = _has_links(connection)
    removed_ids = {"ids": keys_json(removed)}
    old_names = set(
        connection.execute(
            "SELECT key, tier, artifact_id FROM name WHERE artifact_id IN (SELECT value FROM json_each(:ids))",
            removed_ids,
        )
    )
    new_names = {
        row
        for artifact_id, extraction in extractions.items()
        if extraction.names or extraction.fold_case
        for row in make_name_rows(artifact_id, extraction)
    }
    for table in ("link", "name"):
        connection.execute(f"DELETE FROM {table} WHERE artifact_id IN (SELECT value FROM json_each(:ids))", removed_ids)
    connection.executemany("INSERT INTO name (key, tier, artifact_id) VALUES (?, ?, ?)", new_names)
    connection.executemany(
        "INSERT INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row for artifact_id, extraction in extractions.items() for row in make_link_rows(artifact_id, extraction)),
    )
    if not had_links and not _has_links(connection):
        return  # there is nothing to resolve, and nobody's edges have changed
    # A link of another artifact changes its meaning only if a name in its reference was added, removed or moved to
    # another tier. In a repeated build that is rare, so few links are resolved again. An id is a name, too.
    old_ids, new_ids = set(removed), set(extractions)
    changed_names = set_json({key for key, _, _ in old_names ^ new_names} | (old_ids ^ new_ids))
    _resolve_links(connection, set_json(extractions), changed_names)
    _log_changes(connection, old_ids | new_ids, changed_names)


def _has_links(connection: "sqlite3.Connection") -> bool:
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM link)").fetchone()[0])


def _log_changes(connection: "sqlite3.Connection", artifact_ids: set[str], names: str) -> None:
    """Note for readers that links of these artifacts or with these names have changed.

    One row without an artifact stands for many.
    """
    changed = artifact_ids
    if len(changed) <= _MAX_CHANGES:
        # A limit of its own, as there may be any number of links with such a name.
        rows = connection.execute(_WITH_NAMES, {"names": names, "limit": _MAX_CHANGES + 1})
        changed = changed.union(id for (id,) in rows)
    entries = sorted(changed) if len(changed) <= _MAX_CHANGES else [None]
    connection.executemany("INSERT INTO link_change (artifact_id) VALUES (?)", ([id] for id in entries))
    connection.execute("DELETE FROM link_change WHERE seq <= (SELECT max(seq) FROM link_change) - ?", [_KEPT_CHANGES])


def _resolve_links(connection: "sqlite3.Connection", artifact_ids: str, names: str) -> None:
    """Resolve the links of these artifacts, and all links with one of these names."""
    changed = [("artifact_id", artifact_ids), ("ref", names), ("folded", names)]
    for column, values in changed:
        connection.execute(_RESOLVE.format(column=column), {"changed": values})
    # Most corpora have no reference with two names, and skip five statements.
    (has_pairs,) = connection.execute("SELECT EXISTS (SELECT 1 FROM link WHERE or_ref IS NOT NULL)").fetchone()
    if not has_pairs:
        return
    for column, values in [*changed, ("or_ref", names), ("or_folded", names)]:
        connection.execute(_RESOLVE_PAIR.format(column=column), {"changed": values})


def resolve(connection: "sqlite3.Connection", refs: Sequence[str]) -> list[list[str]]:
    """Return the artifacts that carry each reference in its strongest tier, sorted."""
    carriers = _find_carriers(connection, refs, _STRONGEST)
    missing = [position for position, artifact_ids in enumerate(carriers) if not artifact_ids]
    if missing:
        folded = _find_carriers(connection, [fold_name(refs[position]) for position in missing], str(FOLDED_TIER))
        for position, artifact_ids in zip(missing, folded, strict=True):
            carriers[position] = artifact_ids
    return carriers


def _find_carriers(connection: "sqlite3.Connection", keys: Sequence[str], tier: str) -> list[list[str]]:
    """Return the artifacts that carry each key in a tier, which is an SQL expression; sorted."""
    carriers: list[list[str]] = [[] for _ in keys]
    for position, artifact_id in connection.execute(
        f"""SELECT requested.key, artifact_id FROM json_each(:keys) AS requested JOIN name
            ON name.key = requested.value WHERE tier = {tier}
        UNION SELECT requested.key, artifact.id FROM json_each(:keys) AS requested JOIN artifact
            ON artifact.id = requested.value
            WHERE 0 = {tier}
        ORDER BY 1, 2""",
        {"keys": keys_json(keys)},
    ):
        carriers[position].append(artifact_id)
    return carriers


def referrers(connection: "sqlite3.Connection", nodes: Sequence[NodeId], links: LinkFilter) -> list[list[str]]:
    """Return the artifacts that link to each node, sorted."""
    artifacts: list[list[str]] = [[] for _ in nodes]
    for place, artifact_id in _execute(
        connection, f"{_REFERRERS} ORDER BY place, artifact_id", links, nodes=_nodes_to_json(nodes)
    ):
        artifacts[place].append(artifact_id)
    return artifacts


def max_fan_in(connection: "sqlite3.Connection", cache: LruCache[FanInKey, int], links: LinkFilter) -> int:
    """Return the largest fan-in of all nodes, from the cache if the file is unchanged."""
    (last_change,) = connection.execute("SELECT coalesce(max(seq), 0) FROM link_change").fetchone()
    return cache.get_or_create(
        (last_change, links), lambda _: int(_execute(connection, _MAX_FAN_IN, links).fetchone()[0])
    )


def list_unresolved(
    connection: "sqlite3.Connection", artifact_ids: Sequence[str] | None, limit: int | None
) -> list[UnresolvedLink]:
    """Return the dangling and ambiguous links of these artifacts, or of all artifacts."""
    condition = "" if artifact_ids is None else "AND artifact_id IN (SELECT value FROM json_each(:ids))"
    rows = connection.execute(
        f"""SELECT artifact_id, {link_columns(connection)} FROM link
        WHERE state IN ('dangling', 'ambiguous') {condition} ORDER BY artifact_id, position LIMIT :limit""",
        {"ids": set_json(artifact_ids or ()), "limit": -1 if limit is None else limit},
    )
    unresolved = [
        (artifact_id, replace(Link(*link), weight=_check_weight(weight))) for artifact_id, *link, weight in rows
    ]
    # Links are stored without their candidates, so look these up.
    refs = list(dict.fromkeys(ref for _, link in unresolved for ref in _get_names(link)))
    candidates = dict(zip(refs, resolve(connection, refs), strict=True))
    return [
        UnresolvedLink(artifact_id, link, tuple(sorted({id for ref in _get_names(link) for id in candidates[ref]})))
        for artifact_id, link in unresolved
    ]


def link_columns(connection: "sqlite3.Connection") -> str:
    """Return the columns of a link that are the parameters of `Link`."""
    weight = "coalesce(weight, 1.0)" if has_weights(connection) else "1.0"
    return f"ref, type, origin, target_source, file, line, or_ref, {weight}"


def _get_names(link: Link) -> tuple[str, ...]:
    return (link.target_ref,) if link.or_ref is None else (link.target_ref, link.or_ref)


def link_counts(connection: "sqlite3.Connection") -> list[LinkCount]:
    """Return the number of links per type, origin and state, sorted by these three."""
    rows = connection.execute("SELECT type, origin, state, count(*) FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return [LinkCount(*row) for row in rows]


def _nodes_to_json(nodes: Sequence[NodeId]) -> str:
    """Return nodes as JSON pairs of corpus and id.

    The corpus is null for nodes of this corpus. A node with NUL, which no store contains, becomes a pair of nulls.
    """
    pairs = [(None, node) if isinstance(node, str) else node for node in nodes]
    return json.dumps([(None, None) if any("\0" in text for text in pair if text) else pair for pair in pairs])


def read_edge_groups(
    connection: "sqlite3.Connection", ids: Sequence[str], direction: Direction
) -> Mapping[str, Sequence[EdgeGroup]]:
    """Return the edges of each artifact that has any, in one statement per direction.

    Links to other corpora, and weights, take one more statement each.
    """
    groups: defaultdict[str, list[EdgeGroup]] = defaultdict(list)
    weight_count = "count(weight)" if has_weights(connection) else "0"
    if direction != "in":
        for id, group in _read_outgoing(connection, ids, weight_count):
            groups[id].append(group)
    if direction != "out":
        for id, group in _read_incoming(connection, ids, weight_count):
            groups[id].append(group)
    return groups


def has_weights(connection: "sqlite3.Connection") -> bool:
    """Return whether links in the file have a weight; before format 7 they had none."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(version >= FIRST_WITH_WEIGHTS)


def _read_outgoing(
    connection: "sqlite3.Connection", ids: Sequence[str], weight_count: str
) -> Iterator[tuple[str, EdgeGroup]]:
    # `_OUT` also counts weights and links to other corpora, so that most calls skip the statements that read them.
    rows = connection.execute(_OUT.format(weight_count=weight_count), {"ids": set_json(ids)}).fetchall()
    weighted_ids = {id for id, *_, count in rows if count}
    foreign_ids = {id for id, *_, count, _ in rows if count} - weighted_ids
    for id, type_, origin, ends, *_ in rows:
        if ends is not None and id not in weighted_ids:
            yield id, EdgeGroup(type_, origin, _split_ids(ends, id))
    if foreign_ids:
        for id, type_, origin, ends, corpus in connection.execute(_OUT_FOREIGN, {"ids": set_json(foreign_ids)}):
            yield id, EdgeGroup(type_, origin, _split_ids(ends), corpus)
    if weighted_ids:
        yield from _read_weighted(connection, _WEIGHTED_OUT, weighted_ids, is_incoming=False)


def _read_incoming(
    connection: "sqlite3.Connection", ids: Sequence[str], weight_count: str
) -> Iterator[tuple[str, EdgeGroup]]:
    rows = connection.execute(_IN.format(weight_count=weight_count), {"ids": set_json(ids)}).fetchall()
    weighted_ids = {id for id, *_, count in rows if count}
    for id, type_, origin, ends, _ in rows:
        if id not in weighted_ids:
            yield id, EdgeGroup(type_, origin, _split_ids(ends, id), is_incoming=True)
    if weighted_ids:
        yield from _read_weighted(connection, _WEIGHTED_IN, weighted_ids, is_incoming=True)


def _read_weighted(
    connection: "sqlite3.Connection", sql: str, ids: Iterable[str], *, is_incoming: bool
) -> Iterator[tuple[str, EdgeGroup]]:
    """Yield the edges of artifacts of which some have a weight below 1."""
    for id, type_, origin, corpus, weight, ends in connection.execute(sql, {"ids": set_json(ids)}):
        found = _split_ids(ends) if corpus else _split_ids(ends, id)
        yield id, EdgeGroup(type_, origin, found, corpus, is_incoming, _check_weight(weight))


def _check_weight(weight: object) -> float:
    """Return the weight in a row; airw wrote it, so another value is damage."""
    try:
        return round_weight("weight", weight)
    except ArgumentError as error:
        raise DamagedValue(f"a link has the weight {short_repr(weight)}") from error


def _split_ids(ids: str, *excluded: str) -> set[str]:
    """Return the distinct ids of a text in which NUL separates them."""
    found: set[str] = set()
    for part in split_in_slices(ids, "\0"):
        found.update(part)
    found.difference_update(excluded)
    return found


def _execute(connection: "sqlite3.Connection", sql: str, links: LinkFilter, **parameters: str) -> "sqlite3.Cursor":
    """Execute SQL in which `{condition}` stands for the conditions of the link filter."""
    condition = ""
    clauses = [
        ("types", "type IN", links.types),
        ("exclude", "type NOT IN", links.exclude or None),
        ("origins", "origin IN", links.origins),
    ]
    for name, clause, values in clauses:
        if values is not None:
            parameters[name] = set_json(values)
            condition += f" AND {clause} (SELECT value FROM json_each(:{name}))"
    return connection.execute(sql.format(condition=condition), parameters)
