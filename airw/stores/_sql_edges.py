"""Edges in SQL: few rows that hold many ends each, as making Python values of a row takes longer than reading it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from airw.stores._linkbook import LinkChoice
from airw.stores._sql_links import set_json
from airw.values import Direction, Edge

if TYPE_CHECKING:
    import sqlite3

__all__ = ["neighbors"]

_Bundle: TypeAlias = tuple[str, str, bool, str, Collection[str]]
"""Edges of one artifact: their type, ":" and the corpus they lead to if it is another, whether inward, origin, ends."""

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


def neighbors(
    connection: "sqlite3.Connection", ids: Sequence[str], direction: Direction, choice: LinkChoice, limit: int | None
) -> list[list[Edge]]:
    """Give the edges of each artifact, in one statement a direction, and one more where links lead to other corpora."""
    found: defaultdict[str, list[_Bundle]] = defaultdict(list)
    if direction != "in":
        away = []
        for here, kind, origin, ends, count in _ask(connection, _OUT, ids, choice):
            if ends is not None:
                found[here].append((kind, "", False, origin, {*ends.split("\0")} - {here}))
            if count:
                away.append(here)
        for here, kind, origin, ends, corpus in _ask(connection, _AWAY, away, choice) if away else ():
            found[here].append((kind, corpus, False, origin, {*ends.split("\0")}))
    if direction != "out":
        for here, kind, origin, ends in _ask(connection, _IN, ids, choice):
            found[here].append((kind, "", True, origin, {*ends.split("\0")} - {here}))
    return [_edges(here, found.get(here, ()), limit) for here in ids]


def _ask(
    connection: "sqlite3.Connection", question: str, ids: Iterable[str], choice: LinkChoice
) -> Iterable[tuple[Any, ...]]:
    bound, chosen = {"ids": set_json(ids)}, ""
    for name, condition, values in (
        ("types", "type IN", choice.types),
        ("exclude", "type NOT IN", choice.exclude or None),
        ("origins", "origin IN", choice.origins),
    ):
        if values is not None:
            bound[name] = set_json(values)
            chosen += f" AND {condition} (SELECT value FROM json_each(:{name}))"
    return connection.execute(question.format(chosen=chosen), bound).fetchall()


def _edges(here: str, bundles: Sequence[_Bundle], limit: int | None) -> list[Edge]:
    """Give the edges of one artifact, ordered by type, then by the artifact at the other end."""
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
