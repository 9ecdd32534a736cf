"""Where a walk may go from an artifact: along its links, or to artifacts that share a field's value with it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.policies._artifacts import ArtifactNode
from airw.protocols import OpenCorpus
from airw.values import Edge, Record
from airw.values.filters import MISSING, as_key, get_field
from airw.walking import Entry, WalkState

EdgeFunction: TypeAlias = Callable[[Record], Iterable[tuple[str, Any]]]
Edges: TypeAlias = Sequence[tuple[str, str]] | EdgeFunction
"""Pairs of fields `(from, to)`, or a function of a record that gives `(to, value)` pairs; `"$id"` is the id."""

ID = "$id"


class _Way(NamedTuple):
    """To all artifacts whose field equals a value or holds it; the type is what an edge along it is called."""

    field: str
    value: Any
    type: str
    key: Hashable  # equal for equal ways, whatever they are called


def check_edges(edges: object) -> None:
    """Refuse what is neither a list of pairs of fields nor a function.

    Raises:
        ArgumentError: It is not.
    """
    if edges is None or callable(edges):
        return
    if not isinstance(edges, list | tuple):
        raise ArgumentError(
            f"edges must be a list of pairs of fields or a function of a record, not {short_repr(edges)}"
        )
    for pair in edges:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise ArgumentError(f"an edge is a pair of fields such as ('keywords', 'keywords'), not {short_repr(pair)}")


def ways_of(record: Record, edges: Edges) -> list[_Way]:
    """Give the ways that lead on from a record, each once, in the order of `edges` and of the values in a field.

    Raises:
        PolicyError: A function gives something else than pairs.
    """
    ways = _given(record, edges) if callable(edges) else _declared(record, edges)
    once: dict[Hashable, _Way] = {}
    for way in ways:
        once.setdefault(way.key, way)
    return list(once.values())


def _declared(record: Record, edges: Sequence[tuple[str, str]]) -> Iterator[_Way]:
    for here, there in edges:
        value = record.artifact_id if here == ID else get_field(record.metadata, here)
        if value is not MISSING:
            for item in value if isinstance(value, list) else [value]:
                if item is not None:
                    yield _way(record, there, item, there if here == ID else here)


def _given(record: Record, function: EdgeFunction) -> Iterator[_Way]:
    answer = function(record)
    if not isinstance(answer, Iterable):
        raise PolicyError(f"edges must give (field, value) pairs for {record.artifact_id!r}, not {short_repr(answer)}")
    for pair in answer:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise PolicyError(
                f"edges must give (field, value) pairs for {record.artifact_id!r}, not {short_repr(pair)}"
            )
        value = json_clean(pair[1])
        if value is not None:
            yield _way(record, pair[0], value, pair[0])


def _way(record: Record, field: str, value: Any, type: str) -> _Way:
    value = _as_id(value, record.artifact_id) if field == ID else value
    return _Way(field, value, type, (field, value if isinstance(value, str) else as_key(value)))


def _as_id(value: Any, home: Any) -> Any:
    """Give the artifact that a value names; of several corpora, in that of `home` unless it names its own."""
    if isinstance(home, str):
        return str(value)
    match value:
        case [str() as source, str() as id]:
            return source, id
    return home[0], str(value)


async def shared_neighbors(
    state: WalkState, records: Mapping[Any, Record], committed: Sequence[Entry], corpus: OpenCorpus, edges: Edges
) -> list[list[ArtifactNode]]:
    """Give the artifacts behind the ways of each entry; at most one store call, whatever the number of values.

    A way that several share is taken once a walk, by the shallowest of those that come to it together, then the first.
    """
    taken = state.cache.setdefault("taken", set())
    ways: dict[Any, list[_Way]] = {}
    for entry in sorted(committed, key=lambda entry: entry.depth):
        record = records.get(entry.id)
        new = [way for way in ways_of(record, edges) if way.key not in taken] if record else []
        taken.update(way.key for way in new)
        ways[entry.id] = new
    answers = await _followed([way for each in ways.values() for way in each], corpus)
    state.cache["found"] = dict.fromkeys(id for ids in answers.values() for id in ids)
    return [_behind(entry.node.id, ways[entry.id], answers) for entry in committed]


async def all_neighbors(
    state: WalkState, records: Mapping[Any, Record], committed: Sequence[Entry], corpus: OpenCorpus, edges: Edges
) -> list[list[ArtifactNode]]:
    """Give the artifacts behind all ways of each entry, whoever took them before; each way is asked for once."""
    answers = state.cache.setdefault("answers", {})
    ways = {entry.id: ways_of(records[entry.id], edges) if entry.id in records else [] for entry in committed}
    new = {way.key: way for each in ways.values() for way in each if way.key not in answers}
    answers.update(await _followed(list(new.values()), corpus))
    return [_behind(entry.node.id, ways[entry.id], answers) for entry in committed]


async def _followed(ways: Sequence[_Way], corpus: OpenCorpus) -> dict[Hashable, list[str]]:
    """Give the artifacts that each way leads to; an id leads to itself, whether it exists or not."""
    asked = [way for way in ways if way.field != ID]
    found = await corpus.store.matching([(way.field, way.value) for way in asked]) if asked else []
    answers: dict[Hashable, list[str]] = {way.key: [way.value] for way in ways if way.field == ID}
    return answers | {way.key: ids for way, ids in zip(asked, found, strict=True)}


def _behind(id: str, ways: Sequence[_Way], answers: Mapping[Hashable, Sequence[str]]) -> list[ArtifactNode]:
    """Give each artifact once, by the first way to it; that one shares a value with itself leads nowhere."""
    found: dict[str, ArtifactNode] = {}
    for way in ways:
        for end in answers[way.key]:
            if end not in found and (end != id or way.field == ID):
                found[end] = ArtifactNode(end, Edge(id, end, way.type, "derived"))
    return list(found.values())


async def linked_neighbors(
    committed: Sequence[Entry], corpus: OpenCorpus, *, direction: Any, types: Sequence[str] | None
) -> list[list[ArtifactNode]]:
    """Give the artifacts at the other ends of each one's links; one store call."""
    ids = [entry.node.id for entry in committed]
    edges = await corpus.store.neighbors(ids, direction=direction, types=types) if ids else []
    return [
        [ArtifactNode(end, edge) for end, edge in other_ends(id, found)] for id, found in zip(ids, edges, strict=True)
    ]


def other_ends(id: Any, edges: Sequence[Edge]) -> list[tuple[Any, Edge]]:
    """Give the artifacts at the other ends of the edges of one, each with its edge.

    In one corpus these are ids, and a pair, which is of another, is none; in several all are pairs.
    """
    ends = ((edge.target if edge.source == id else edge.source, edge) for edge in edges)
    return [(end, edge) for end, edge in ends if type(end) is type(id)]
