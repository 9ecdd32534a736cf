"""Meters: what one query costs, and when each of its hits arrives."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, cast

from airw import protocols
from airw.corpora import Corpus
from airw.protocols import OpenCorpus, SearchStore

_COUNTERS: Mapping[str, tuple[str, Callable[[Any], int]]] = {
    "get_records": ("texts", lambda records: sum(record is not None for record in records)),
    "records_of": ("texts", lambda groups: sum(len(group or ()) for group in groups)),
    "first_surfaces": ("texts", lambda found: sum(kind is not None for kind in found.kinds)),
    "best_of": ("cosines", lambda best: len(best.record_ids)),
    "read_step": ("texts", lambda answer: sum(record is not None for record in answer.records)),
    "similarities": ("cosines", len),
    "vectors": ("cosines", len),
    "vectors_of": ("cosines", lambda found: len(found.vectors)),
}
"""What the results of a method count as, and how many they are."""

_CAPABILITIES = ("AdjacencyReader", "FirstSurfaceReader", "SchemaReader", "StepReader", "Store", "TermStatistics")
_UNCOUNTED = {"aclose", "writing"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one query costs.

    Args:
        calls: The calls of the store.
        nodes: The nodes that a walk committed; for a search, its hits.
        texts: The records read from the store.
        cosines: The vectors compared one by one; for `best_of` one per artifact. Rankings by an index do not count.
        first_ms: The milliseconds until the first hit; `None` without a hit.
        last_ms: The milliseconds until the last hit; `None` without a hit.

    Example:
        >>> Cost(calls=3, nodes=2, texts=2).to_dict()["calls"]
        3
    """

    calls: int = 0
    nodes: int = 0
    texts: int = 0
    cosines: int = 0
    first_ms: float | None = None
    last_ms: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in COST_COLUMNS}


COST_COLUMNS = ("calls", "nodes", "texts", "cosines", "first_ms", "last_ms")
"""The fields of a `Cost`, as the columns of a table."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A hit that arrives.

    Args:
        artifact_id: The artifact.
        reads: The records read from the store until then.
        ms: The milliseconds since the query was asked.
    """

    artifact_id: str
    reads: int
    ms: float


@dataclass(slots=True)
class Meter:
    """A meter of one query; it starts when it is made.

    A system searches the corpus of `watch`, and reports each hit with `arrive`.

    Example:
        >>> meter = Meter()
        >>> meter.arrive("keys.md")
        >>> meter.to_cost().nodes, [arrival.artifact_id for arrival in meter.arrivals]
        (1, ['keys.md'])
    """

    calls: int = 0
    texts: int = 0
    cosines: int = 0
    nodes: int | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def watch(self, corpus: OpenCorpus[Any]) -> Corpus[SearchStore]:
        """Return the same corpus with a store that counts its calls in this meter."""
        kind_of_store: Any = type(corpus.store)
        kind = _class_over(kind_of_store, frozenset(getattr(corpus.store, "__dict__", ())))
        return Corpus(corpus.name, cast("SearchStore", kind(corpus.store, self)), corpus.embedder)

    def arrive(self, artifact_id: str) -> None:
        """Record that a hit has arrived."""
        self.arrivals.append(Arrival(artifact_id, self.texts, 1000 * (time.perf_counter() - self.started)))

    def to_cost(self) -> Cost:
        """Return the cost until now."""
        ms = [arrival.ms for arrival in self.arrivals]
        return Cost(
            calls=self.calls,
            nodes=len(ms) if self.nodes is None else self.nodes,
            texts=self.texts,
            cosines=self.cosines,
            first_ms=ms[0] if ms else None,
            last_ms=ms[-1] if ms else None,
        )


class _MeteredStore:
    """A store that passes its calls on to another one, and counts them."""

    def __init__(self, store: Any, meter: Meter) -> None:
        self._store, self._meter = store, meter


@cache
def _class_over(kind: Any, attributes: frozenset[str]) -> type[_MeteredStore]:
    """Return a class with the methods and attributes of a store and no others.

    Functions look at the class of a store to learn its capabilities, so a general `__getattr__` would promise too much.
    """
    names = [name for name in {*dir(kind), *attributes} if not name.startswith("_")]
    members = {name: _count(name) if name in _store_methods() else _forward(name) for name in names}
    if hasattr(kind, "__getattr__"):
        members["__getattr__"] = lambda self, name: getattr(self._store, name)
    return type(f"Metered{kind.__name__}", (_MeteredStore,), members)


@cache
def _store_methods() -> frozenset[Hashable]:
    """Return the names of the async methods of all capabilities of stores."""
    kinds = (getattr(protocols, name) for name in _CAPABILITIES)
    return frozenset(name for kind in kinds for name in dir(kind) if not name.startswith("_")) - _UNCOUNTED


def _count(method: str) -> Callable[..., Any]:
    field_and_size = _COUNTERS.get(method)

    @wraps(getattr(protocols.Store, method, _count))
    async def call(self: _MeteredStore, *arguments: Any, **options: Any) -> Any:
        meter = self._meter
        meter.calls += 1
        result = await getattr(self._store, method)(*arguments, **options)
        if field_and_size is not None:
            column, size_of = field_and_size
            setattr(meter, column, getattr(meter, column) + size_of(result))
        return result

    return call


def _forward(name: str) -> property:
    return property(lambda self: getattr(self._store, name))
