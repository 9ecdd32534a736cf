"""Ways from an artifact to those that share a field's value with it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.policies._several_corpora import Id, named_in_field
from airw.protocols import LinkReader, OpenCorpus
from airw.values import Edge, Record
from airw.values.filters import MISSING, as_key, get_field

EdgeFunction: TypeAlias = Callable[[Record], Iterable[tuple[str, Any]]]
Edges: TypeAlias = Sequence[tuple[str, str]] | EdgeFunction
"""Pairs of fields `(from, to)`, or a function of a record that gives `(to, value)` pairs; `"$id"` is the id."""

ID = "$id"


class Way(NamedTuple):
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


def ways_of(id: Id, record: Record, edges: Edges, corpus: OpenCorpus[object]) -> list[Way]:
    """Return the ways that lead on from an artifact, each once, in the order of `edges` and of the values in a field.

    Raises:
        PolicyError: A function gives something else than pairs.
    """
    once: dict[Hashable, Way] = {}
    for field, value, type in _given(id, record, edges) if callable(edges) else _declared(id, record, edges):
        end = named_in_field(value, id, corpus) if field == ID else value
        way = Way(field, end, type, (field, end if isinstance(end, str) else as_key(end)))
        once.setdefault(way.key, way)
    return list(once.values())


def _declared(id: Id, record: Record, edges: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any, str]]:
    for here, there in edges:
        value = id if here == ID else get_field(record.metadata, here)
        if value is not MISSING:
            for item in value if isinstance(value, list) else [value]:
                if item is not None:
                    yield there, item, there if here == ID else here


def _given(id: Id, record: Record, function: EdgeFunction) -> Iterator[tuple[str, Any, str]]:
    answer = function(record)
    if not isinstance(answer, Iterable):
        raise PolicyError(f"edges must give (field, value) pairs for {id!r}, not {short_repr(answer)}")
    for pair in answer:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise PolicyError(f"edges must give (field, value) pairs for {id!r}, not {short_repr(pair)}")
        value = json_clean(pair[1])
        if value is not None:
            yield pair[0], value, pair[0]


async def follow(ways: Sequence[Way], store: LinkReader) -> dict[Hashable, Sequence[Id]]:
    """Return the artifacts that each way leads to, by its key; an id leads to itself, whether it exists or not.

    At most one store call, whatever the number of values.
    """
    asked = [way for way in ways if way.field != ID]
    found = await store.matching([(way.field, way.value) for way in asked]) if asked else []
    answers: dict[Hashable, Sequence[Id]] = {way.key: [way.value] for way in ways if way.field == ID}
    return answers | {way.key: ids for way, ids in zip(asked, found, strict=True)}


def edges_along(id: Id, ways: Sequence[Way], answers: Mapping[Hashable, Sequence[Id]]) -> list[Edge]:
    """Return an edge to each artifact that ways lead to from one, by the first way to it.

    That an artifact shares a value with itself leads nowhere.
    """
    found: dict[Id, Edge] = {}
    for way in ways:
        for end in answers[way.key]:
            if end not in found and (end != id or way.field == ID):
                found[end] = Edge(id, end, way.type, "derived")
    return list(found.values())
