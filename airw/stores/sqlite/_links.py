"""Links, names and edges in the file of a corpus.

Unlike in memory, each link is stored with its target. It is resolved when it is written, and again whenever a write
changes the names in its reference. So reading edges needs no lookup of names. Edges that were asked for stay in memory,
and follow the changes of the file.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from sys import intern
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from airw._base.lru import LruCache
from airw._base.messages import short_repr
from airw._base.slices import consume_in_slices, sort_in_slices, split_in_slices
from airw.errors import ArgumentError
from airw.protocols import EdgeLabel, EdgeRow, Edges, MaxFanIn, Names, Referrers, UnresolvedLinks
from airw.stores._indexes.adjacency import Adjacency
from airw.stores._link_rows import FOLDED_TIER, make_link_rows, make_name_rows
from airw.stores._stored_values import DamagedValue
from airw.stores.sqlite._connection import FileVersion
from airw.stores.sqlite._field_sql import keys_json
from airw.values import (
    ArtifactRef,
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

FIRST_WITH_WEIGHTS = 7
"""The first format of files in which links have a weight."""

_MAX_CHANGES = 500  # artifacts whose links one write has changed; if there are more, readers read all links again
_KEPT_CHANGES = 10_000  # rows that tell readers of changes; a reader that has missed more reads all links again
_MAX_DROPPED = 1_000  # changed artifacts whose edges in memory are dropped; if there are more, all are
_QUICK_EDGES = 10_000  # looking at the ends of so many takes about half a millisecond

# The artifacts that a reference may mean: those that carry it in the strongest tier in which any artifact does. An
# artifact carries its own id in tier 0; the table `name` contains only other names. If nobody carries it, the folded
# reference is looked up in the weakest tier. A reference that equals its folded form has none in the table: the lookup
# of other names finds the weakest tier, too. LIMIT 2 suffices to tell one carrier from several. There is one row for
# one of the two names of a link, or no row if nobody carries it.
_SIDE = f"""
    SELECT * FROM (
        SELECT count(*) > 1 AS is_many, tier, {{place}} AS place, min(artifact_id) AS artifact_id
        FROM (
            SELECT 0 AS tier, id AS artifact_id FROM artifact WHERE id = link.{{ref}}
            UNION ALL
            SELECT tier, artifact_id FROM name
            WHERE key = link.{{ref}} AND tier = CASE WHEN EXISTS (SELECT 1 FROM artifact WHERE id = link.{{ref}})
                THEN 0 ELSE (SELECT min(tier) FROM name WHERE key = link.{{ref}}) END
            UNION ALL
            SELECT tier, artifact_id FROM name
            WHERE key = link.{{folded}} AND tier = {FOLDED_TIER}
                AND NOT EXISTS (SELECT 1 FROM name WHERE key = link.{{ref}})
                AND NOT EXISTS (SELECT 1 FROM artifact WHERE id = link.{{ref}})
            LIMIT 2
        )
        GROUP BY tier
    )"""
# A reference resolves if exactly one artifact carries it. Of two names, one that resolves wins over an ambiguous one,
# then the stronger tier, then the first name. The row with 2 stands for "dangling": it is first if neither name has a
# row.
_RESOLVE = f"""
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
    WHERE target_source IS NULL AND {{column}} IN (SELECT value FROM json_each(:changed))"""
# The same for references that are looked up by themselves: all carriers in the strongest tier.
_CARRIERS = f"""
    WITH requested (place, ref, folded) AS MATERIALIZED (SELECT key, value ->> 0, value ->> 1 FROM json_each(?)),
    carrier (place, tier, artifact_id) AS (
        SELECT place, 0, id FROM requested JOIN artifact ON id = ref
        UNION SELECT place, tier, artifact_id FROM requested JOIN name ON key = ref
        UNION SELECT place, tier, artifact_id FROM requested JOIN name ON key = folded AND tier = {FOLDED_TIER}
    )
    SELECT place, artifact_id FROM (
        SELECT place, artifact_id, tier, min(tier) OVER (PARTITION BY place) AS strongest FROM carrier
    ) WHERE tier = strongest ORDER BY place, artifact_id"""
_IS_ASKED = "(:types IS NULL OR type IN (SELECT value FROM json_each(:types)))"
# The three kinds of nodes: artifacts, texts of unresolved references, and artifacts of other corpora. A text that is
# the id of an artifact is never the second kind.
_REFERRERS = f"""
    WITH requested (place, corpus, node) AS MATERIALIZED (SELECT key, value ->> 0, value ->> 1 FROM json_each(:nodes))
    SELECT place, artifact_id FROM requested JOIN link ON target = node
    WHERE corpus IS NULL AND artifact_id <> node AND {_IS_ASKED}
    UNION
    SELECT place, artifact_id FROM requested JOIN link ON ref = node
    WHERE corpus IS NULL AND state IN ('dangling', 'ambiguous') AND node NOT IN (SELECT id FROM artifact)
        AND {_IS_ASKED}
    UNION
    SELECT place, artifact_id FROM requested JOIN link ON ref = node WHERE target_source = corpus AND {_IS_ASKED}
    ORDER BY place, artifact_id"""
_MAX_FAN_IN = f"""
    SELECT coalesce(max(count), 0) FROM (
        SELECT count(DISTINCT artifact_id) AS count FROM link
        WHERE (target_source IS NOT NULL OR artifact_id <> coalesce(target, ref))
            AND NOT (state = 'ambiguous' AND ref IN (SELECT id FROM artifact)) AND {_IS_ASKED}
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
# contains: one row per group is much less to convert to Python than one per edge. Edges with a weight, or to other
# corpora, are few; each is a JSON text.
_OUT = """
    SELECT artifact_id, type, origin, group_concat(target, char(0)) FILTER (WHERE {weight} IS NULL),
        group_concat(json_array(target_source, coalesce(target, ref), {weight}), char(0))
            FILTER (WHERE target_source IS NOT NULL OR (target IS NOT NULL AND {weight} IS NOT NULL))
    FROM link WHERE artifact_id IN (SELECT value FROM json_each(:ids)) GROUP BY artifact_id, type, origin"""
_IN = """
    SELECT target, type, origin, group_concat(artifact_id, char(0)) FILTER (WHERE {weight} IS NULL),
        group_concat(json_array(NULL, artifact_id, {weight}), char(0)) FILTER (WHERE {weight} IS NOT NULL)
    FROM link WHERE target IN (SELECT value FROM json_each(:ids)) GROUP BY target, type, origin"""

_Key: TypeAlias = tuple[str, str, str, bool, str]  # of an edge: type, corpus, end, whether it is incoming, origin
_Group: TypeAlias = tuple[str, str, str | None, str | None, bool]  # the columns of `_OUT` or `_IN` after the first


# Writing


def replace_links(
    connection: "sqlite3.Connection", extractions: Mapping[str, Extraction], removed: Sequence[str]
) -> None:
    """Remove the links and names of `removed`, insert new ones, and resolve affected links."""
    has_links = "SELECT EXISTS (SELECT 1 FROM link)"
    had_links, of_removed = connection.execute(has_links).fetchone(), [keys_json(removed)]
    old_names = set(
        connection.execute(
            "SELECT key, tier, artifact_id FROM name WHERE artifact_id IN (SELECT value FROM json_each(?))", of_removed
        )
    )
    new_names = {
        row
        for artifact_id, extraction in extractions.items()
        if extraction.names or extraction.fold_case
        for row in make_name_rows(artifact_id, extraction)
    }
    for table in ("link", "name"):
        connection.execute(f"DELETE FROM {table} WHERE artifact_id IN (SELECT value FROM json_each(?))", of_removed)
    connection.executemany("INSERT INTO name (key, tier, artifact_id) VALUES (?, ?, ?)", new_names)
    connection.executemany(
        "INSERT INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row for artifact_id, extraction in extractions.items() for row in make_link_rows(artifact_id, extraction)),
    )
    if had_links == connection.execute(has_links).fetchone() == (0,):
        return  # there is nothing to resolve, and nobody's edges have changed
    # A link of another artifact changes its meaning only if a name in its reference was added, removed or moved to
    # another tier. In a repeated build that is rare, so few links are resolved again. An id is a name, too.
    old_ids, new_ids = set(removed), set(extractions)
    names = keys_json({key for key, _, _ in old_names ^ new_names} | (old_ids ^ new_ids))
    connection.execute(_RESOLVE.format(column="artifact_id"), {"changed": keys_json(extractions)})
    for column in ("ref", "folded", "or_ref", "or_folded"):
        connection.execute(_RESOLVE.format(column=column), {"changed": names})
    # Note for readers whose links have changed, also by a name. One row without an artifact stands for many.
    changed = old_ids | new_ids
    if len(changed) <= _MAX_CHANGES:
        # A limit of its own, as there may be any number of links with such a name.
        rows = connection.execute(_WITH_NAMES, {"names": names, "limit": _MAX_CHANGES + 1})
        changed.update(id for (id,) in rows)
    entries = sorted(changed) if len(changed) <= _MAX_CHANGES else [None]
    connection.executemany("INSERT INTO link_change (artifact_id) VALUES (?)", ([id] for id in entries))
    connection.execute("DELETE FROM link_change WHERE seq <= (SELECT max(seq) FROM link_change) - ?", [_KEPT_CHANGES])


# Answers


def names(connection: "sqlite3.Connection", request: Names) -> list[list[str]]:
    """Return the artifacts that carry each reference in its strongest tier, sorted."""
    carriers: list[list[str]] = [[] for _ in request.refs]
    # SQLite reads NUL as the end of a text, and no store contains it.
    pairs = [(None, None) if "\0" in ref else (ref, fold_name(ref)) for ref in request.refs]
    for place, artifact_id in connection.execute(_CARRIERS, [json.dumps(pairs)]):
        carriers[place].append(artifact_id)
    return carriers


def referrers(connection: "sqlite3.Connection", request: Referrers) -> list[list[str]]:
    """Return the artifacts that link to each node, sorted."""
    artifacts: list[list[str]] = [[] for _ in request.nodes]
    # Pairs of corpus and id; the corpus is null for nodes of this one. A node with NUL becomes a pair of nulls.
    pairs = [(None, node) if isinstance(node, str) else node for node in request.nodes]
    nodes = json.dumps([(None, None) if any("\0" in text for text in pair if text) else pair for pair in pairs])
    for place, artifact_id in connection.execute(_REFERRERS, {"nodes": nodes, "types": _types_json(request.types)}):
        artifacts[place].append(artifact_id)
    return artifacts


def max_fan_in(
    connection: "sqlite3.Connection", cache: LruCache[tuple[int, str | None], int], request: MaxFanIn
) -> int:
    """Return the largest fan-in of all nodes, from the cache if the file is unchanged."""
    (last_change,) = connection.execute("SELECT coalesce(max(seq), 0) FROM link_change").fetchone()
    types = _types_json(request.types)
    return cache.get_or_create(
        (last_change, types), lambda _: int(connection.execute(_MAX_FAN_IN, {"types": types}).fetchone()[0])
    )


def _types_json(types: Sequence[str] | None) -> str | None:
    return None if types is None else keys_json(LinkFilter(types=types).types or ())  # which checks them


def unresolved_links(connection: "sqlite3.Connection", request: UnresolvedLinks) -> list[UnresolvedLink]:
    """Return the dangling and ambiguous links of these artifacts, or of all artifacts."""
    ids: Any = request.artifact_ids
    condition = "" if ids is None else "AND artifact_id IN (SELECT value FROM json_each(:ids))"
    rows = connection.execute(
        f"""SELECT artifact_id, {_link_columns(connection)} FROM link
        WHERE state IN ('dangling', 'ambiguous') {condition} ORDER BY artifact_id, position LIMIT :limit""",
        {"ids": keys_json(ids or ()), "limit": -1 if request.limit is None else request.limit},
    )
    unresolved = [(artifact_id, _make_link(columns)) for artifact_id, *columns in rows]
    # Links are stored without their candidates, so look these up.
    refs = [*dict.fromkeys(ref for _, link in unresolved for ref in (link.target_ref, link.or_ref) if ref is not None)]
    candidates: dict[str | None, list[str]] = dict(zip(refs, names(connection, Names(refs)), strict=True))
    return [
        UnresolvedLink(
            artifact_id, link, tuple(sorted({*candidates[link.target_ref], *candidates.get(link.or_ref, ())}))
        )
        for artifact_id, link in unresolved
    ]


def link_counts(connection: "sqlite3.Connection", _: object = None) -> list[LinkCount]:
    """Return the number of links per type, origin and state, sorted by these three."""
    rows = connection.execute("SELECT type, origin, state, count(*) FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return [LinkCount(*row) for row in rows]


def read_links(
    connection: "sqlite3.Connection", ids: Sequence[str]
) -> tuple[Mapping[str, list[Link]], Mapping[str, list[tuple[str, int]]]]:
    """Return the links of each artifact as they were written, and its names with their tiers."""
    links, names, wanted = defaultdict(list), defaultdict(list), [keys_json(ids)]
    for id, *columns in connection.execute(
        f"""SELECT artifact_id, {_link_columns(connection)} FROM link
        WHERE artifact_id IN (SELECT value FROM json_each(?)) ORDER BY artifact_id, position""",
        wanted,
    ):
        links[id].append(_make_link(columns))
    for id, key, tier in connection.execute(
        "SELECT artifact_id, key, tier FROM name WHERE artifact_id IN (SELECT value FROM json_each(?))", wanted
    ):
        names[id].append((key, tier))
    return links, names


def weight_column(connection: "sqlite3.Connection") -> str:
    """Return the SQL for the weight of a link; before format 7 they had none."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return "weight" if version >= FIRST_WITH_WEIGHTS else "NULL"


def _link_columns(connection: "sqlite3.Connection") -> str:
    """Return the columns that are the parameters of `_make_link`."""
    return f"ref, type, origin, target_source, file, line, or_ref, {weight_column(connection)}"


def _make_link(columns: Sequence[Any]) -> Link:
    values = [*columns[:-1], _check_weight(columns[-1])]
    return Link(*values)


def _check_weight(weight: object) -> float:
    """Return the weight in a row, null for 1; airw wrote it, so another value is damage."""
    try:
        return 1.0 if weight is None else round_weight("weight", weight)
    except ArgumentError as error:
        raise DamagedValue(f"a link has the weight {short_repr(weight)}") from error


class LinkIndex:
    """The edges of the artifacts that were asked about, in memory.

    An update takes time in proportion to the changes: rows that a write has changed are dropped, and read again when
    they are next asked for. It may be interrupted at any statement; the next call continues there.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._adjacency = Adjacency()
        self._last = -1  # the last row of the table `link_change` that was read
        self._version: FileVersion | None = None  # nothing is out of date as long as this is the file's

    def clear(self) -> None:
        """Forget all edges, as the file is another one."""
        with self._lock:
            self._adjacency.clear()
            self._last, self._version = -1, None

    def find_at_once(self, request: Edges, version: FileVersion | None) -> list[EdgeRow] | None:
        """Return these edges if that is quick and the file has this version; else `None`."""
        if version is None or version != self._version or not self._lock.acquire(blocking=False):
            return None
        try:
            adjacency, ids, direction = self._adjacency, request.ids, request.direction
            if adjacency.list_missing(ids, direction) or adjacency.count(ids, direction) > _QUICK_EDGES:
                return None
            return adjacency.find(ids, direction, request.links, request.limit)
        finally:
            self._lock.release()

    def read(self, connection: "sqlite3.Connection", request: Edges, version: FileVersion | None) -> list[EdgeRow]:
        """Return these edges in the snapshot of the connection; the caller holds the lock.

        Args:
            connection: A connection whose snapshot is not older than that of the last call.
            request: What is asked.
            version: A version of the file that is not newer than the snapshot; `None` if unknown.
        """
        self._update(connection)
        self._version = version
        ids, direction = request.ids, request.direction
        self._adjacency.read_missing(ids, direction, partial(self._read_rows, connection, direction))
        return self._adjacency.find(ids, direction, request.links, request.limit)

    def _update(self, connection: "sqlite3.Connection") -> None:
        """Drop the rows that have changed since the last call."""
        oldest, newest = connection.execute(
            "SELECT (SELECT coalesce(min(seq), 0) FROM link_change), (SELECT coalesce(max(seq), 0) FROM link_change)"
        ).fetchone()
        if newest == self._last:
            return
        rows = connection.execute(
            "SELECT DISTINCT artifact_id FROM link_change WHERE seq > ? LIMIT ?", [self._last, _MAX_DROPPED + 1]
        )
        changed = [id for (id,) in rows]
        # The oldest changes are deleted from time to time. Whoever has missed one must start again.
        is_known = oldest - 1 <= self._last < newest and all(isinstance(id, str) for id in changed)
        if is_known and len(changed) <= _MAX_DROPPED:
            ends = connection.execute(
                "SELECT DISTINCT target FROM link WHERE target IS NOT NULL AND artifact_id IN "
                "(SELECT value FROM json_each(?))",
                [keys_json(changed)],
            )
            self._adjacency.drop_changed(changed, [id for (id,) in ends])
        else:
            self._adjacency.clear()
        self._last = newest

    def _read_rows(
        self, connection: "sqlite3.Connection", direction: Direction, ids: Sequence[str]
    ) -> Iterator[EdgeRow]:
        groups: defaultdict[str, list[_Group]] = defaultdict(list)
        for sql, other_direction, is_incoming in ((_OUT, "in", False), (_IN, "out", True)):
            if direction != other_direction:
                statement = sql.format(weight=weight_column(connection))
                for id, *columns in connection.execute(statement, {"ids": keys_json(ids)}):
                    groups[id].append((*columns, is_incoming))
        return (self._make_row(id, groups.get(id, ())) for id in ids)

    def _make_row(self, id: str, groups: Sequence[_Group]) -> EdgeRow:
        """Return the edges of one artifact, ordered by type, then by the other artifact."""
        weights: dict[_Key, float] = {}
        for type_, origin, plain, others, is_incoming in groups:
            for part in split_in_slices(plain, "\0") if plain is not None else ():
                for end in part:
                    weights[type_, "", end, is_incoming, origin] = 1.0
            for part in split_in_slices(others or "", "\0"):
                for corpus, end, weight in json.loads(f"[{','.join(part)}]"):
                    # Other corpora sort last. Of several links that are one edge, the largest weight counts.
                    key = (type_, "" if corpus is None else f":{corpus}", end, is_incoming, origin)
                    weights[key] = max(weights.get(key, 0.0), _check_weight(weight))
        nodes, labels = list[NodeId](), list[EdgeLabel]()
        for key in consume_in_slices(sort_in_slices(weights)):
            type_, corpus, end, is_incoming, origin = key
            if end != id or corpus:
                nodes.append(ArtifactRef(corpus[1:], end) if corpus else intern(end))
                label = EdgeLabel(type_, origin, is_incoming, bool(corpus), weights[key])
                labels.append(self._adjacency.keep_label(label))
        return EdgeRow(id, tuple(nodes), tuple(labels))
