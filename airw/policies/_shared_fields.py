"""Edges between artifacts that share the value of a field."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.policies._corpora import Id, id_from_field
from airw.protocols import EdgeLabel, EdgeRow, Matching, OpenCorpus, Store, ask
from airw.values import Record
from airw.values.filters import MISSING, as_key, get_field

EdgeFunction: TypeAlias = Callable[[Record], Iterable[tuple[str, Any]]]
FieldEdges: TypeAlias = Sequence[tuple[str, str]] | EdgeFunction
"""Pairs of fields `(from, to)`, or a function of a record that returns `(to, value)` pairs; `"$id"` is the id."""

ID = "$id"


class FieldValue(NamedTuple):
    """A value to look for in a field.

    An edge leads to every artifact whose field equals or contains the value.

    Args:
        field: The field to look in; `"$id"` for the id.
        value: The value to look for.
        type: The type of the edges.
        key: A key that is equal for equal fields and values, whatever the type.
    """

    field: str
    value: Any
    type: str
    key: Hashable


def check_edges(edges: object) -> None:
    """Check that the argument `edges` is `None`, a list of pairs of fields, or a function.

    Raises:
        ArgumentError: If it is something else.
    """
    if edges is None or callable(edges):
        return
    if not isinstance(edges, list | tuple):
        raise ArgumentError(
            f"edges must be a list of pairs of fields or a function of a record, not {short_repr(edges)}"
        )
    for pair in edges:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise ArgumentError(
                f"edges must be pairs of fields such as ('keywords', 'keywords'), not {short_repr(pair)}"
            )


def field_values(id: Id, record: Record, edges: FieldEdges, corpus: OpenCorpus) -> list[FieldValue]:
    """Return the field values that lead on from an artifact, without duplicates.

    They are in the order of `edges`, and within a field in the order of its values.

    Raises:
        PolicyError: If a function returns something else than pairs.
    """
    by_key: dict[Hashable, FieldValue] = {}
    for field, value, type in _read_values(id, record, edges):
        if value is not None and value is not MISSING:
            target = id_from_field(value, id, corpus) if field == ID else value
            key = (field, as_key(target))
            by_key.setdefault(key, FieldValue(field, target, type, key))
    return list(by_key.values())


def _read_values(id: Id, record: Record, edges: FieldEdges) -> Iterator[tuple[str, Any, str]]:
    """Yield `(field, value, edge type)` for each value, also a missing one."""
    if not callable(edges):
        for from_field, to_field in edges:
            value = id if from_field == ID else get_field(record.metadata, from_field)
            for item in value if isinstance(value, list) else [value]:
                yield to_field, item, to_field if from_field == ID else from_field
        return
    answer = edges(record)
    for pair in answer if isinstance(answer, Iterable) else [answer]:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise PolicyError(f"edges returned {short_repr(pair)} for {id!r}; return (field, value) pairs")
        yield pair[0], json_clean(pair[1]), pair[0]


async def find_artifacts(values: Sequence[FieldValue], store: Store) -> dict[Hashable, Sequence[Id]]:
    """Return the artifacts that each field value leads to, by the key of the value.

    An id leads to itself, whether the artifact exists or not. There is one store call at most, whatever the number of
    values.
    """
    artifacts: dict[Hashable, Sequence[Id]] = {value.key: [value.value] for value in values}
    wanted = {value.key: (value.field, value.value) for value in values if value.field != ID}
    matches = await ask(store, Matching(list(wanted.values()))) if wanted else []
    return artifacts | dict(zip(wanted, matches, strict=True))


def edges_from(id: Id, values: Sequence[FieldValue], artifacts: Mapping[Hashable, Sequence[Id]]) -> EdgeRow:
    """Return an edge to each artifact that the field values lead to, without duplicates.

    Args:
        id: The artifact that the edges start from.
        values: Its field values; if several lead to one artifact, the first gives the edge its type.
        artifacts: The result of `find_artifacts`.
    """
    labels: dict[Id, EdgeLabel] = {}
    for value in values:
        for target in artifacts[value.key]:
            # An artifact has all its values in common with itself: that is no edge, but naming its own id is one.
            if target not in labels and (target != id or value.field == ID):
                labels[target] = EdgeLabel(value.type, "derived", is_incoming=False, is_foreign=False)
    return EdgeRow(id, tuple(labels), tuple(labels.values()))
