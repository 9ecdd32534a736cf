"""Edges between nodes, as pairs of fields or as a function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from airw.compat._missing_names import explain_missing
from airw.compat.graph_retriever.content import Content
from airw.errors import ArgumentError
from airw.values import Record

ID = "$id"


class Id:
    """The id of a node in place of a field; `"$id"` means the same."""


EdgeSpec: TypeAlias = tuple[str | Id, str | Id]


@dataclass(frozen=True)
class MetadataEdge:
    """An edge to the nodes whose field equals a value or contains it."""

    incoming_field: str
    value: Any = field(hash=False)


@dataclass(frozen=True)
class IdEdge:
    """An edge to the node with an id."""

    id: str


Edge: TypeAlias = MetadataEdge | IdEdge


@dataclass
class Edges:
    """The incoming and outgoing edges of a node.

    airw uses the outgoing edges only; it finds their targets by the fields of the nodes.
    """

    incoming: set[Edge]
    outgoing: set[Edge]


EdgeFunction: TypeAlias = Callable[[Content], Edges]


def edges_of(edges: list[EdgeSpec] | EdgeFunction) -> Any:
    """Return edges in the form of airw's policies.

    Raises:
        ArgumentError: If they are neither a list of pairs nor a function.
    """
    if isinstance(edges, list):
        return [tuple(ID if isinstance(side, Id | type) else side for side in pair) for pair in edges]
    if not callable(edges):
        raise ArgumentError(f"Invalid edges: {edges!r:.80}; pass [('keywords', 'keywords')] or a function")

    def follow(record: Record) -> Iterator[tuple[str, Any]]:
        content = Content(record.artifact_id, record.text, (), dict(record.metadata))
        for edge in sorted(edges(content).outgoing, key=repr):
            yield (ID, edge.id) if isinstance(edge, IdEdge) else (edge.incoming_field, edge.value)

    return follow


__getattr__: Final = explain_missing(__name__, {"MetadataEdgeFunction": "pass the list of pairs itself: edges=[…]"})
