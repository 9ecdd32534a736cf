"""Where nodes lead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airw.compat._missing import missing
from airw.compat.graph_retriever.content import Content
from airw.errors import ArgumentError
from airw.values import Record

ID = "$id"


class Id:
    """The id in the place of a field; write `"$id"`."""


EdgeSpec: TypeAlias = tuple[str | Id, str | Id]


@dataclass(frozen=True)
class MetadataEdge:
    """Leads to the nodes whose field is a value, or holds it."""

    incoming_field: str
    value: Any = field(hash=False)


@dataclass(frozen=True)
class IdEdge:
    """Leads to the node of an id."""

    id: str


Edge: TypeAlias = MetadataEdge | IdEdge


@dataclass
class Edges:
    """What leads to a node, and from it. airw goes by what leads from it, and finds the rest in the fields."""

    incoming: set[Edge]
    outgoing: set[Edge]


EdgeFunction: TypeAlias = Callable[[Content], Edges]


def edges_of(edges: list[EdgeSpec] | EdgeFunction) -> Any:
    """Return edges as airw takes them.

    Raises:
        ArgumentError: They are neither a list of pairs nor a function.
    """
    if isinstance(edges, list):
        return [tuple(ID if isinstance(side, Id | type) else side for side in pair) for pair in edges]
    if not callable(edges):
        raise ArgumentError(f"Invalid edges: {edges!r:.80}; write [('keywords', 'keywords')], or a function")

    def leads_to(record: Record) -> Iterator[tuple[str, Any]]:
        content = Content(record.artifact_id, record.text, (), dict(record.metadata))
        for edge in sorted(edges(content).outgoing, key=repr):
            yield (ID, edge.id) if isinstance(edge, IdEdge) else (edge.incoming_field, edge.value)

    return leads_to


__getattr__ = missing(__name__, {"MetadataEdgeFunction": "write the list of pairs itself: edges=[…]"})
