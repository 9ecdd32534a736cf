"""Meters: what one query costs, and when each of its hits arrives."""

import time
from dataclasses import dataclass, field
from typing import Any

from airw.corpora import Corpus
from airw.protocols import OpenCorpus, Rank, Records, RecordsOf, Request, Store, Vectors, VectorsOf, fill
from airw.stores import Wrapper


@dataclass(frozen=True, slots=True)
class Cost:
    """What one query costs.

    Args:
        calls: The requests to the store.
        nodes: The nodes that a walk committed; for a search, its hits.
        texts: The records read from the store.
        cosines: The vectors compared one by one; of rankings among given artifacts or records, one each. Rankings of
            the whole corpus do not count.
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

    def watch(self, corpus: OpenCorpus) -> Corpus:
        """Return the same corpus with a store that counts its requests in this meter."""
        return Corpus(corpus.name, _MeteredStore(corpus.store, self), corpus.embedder)

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


class _MeteredStore(Wrapper):
    """A store that counts what it is asked and what it answers."""

    def __init__(self, store: Store, meter: Meter) -> None:
        super().__init__(store)
        self._meter = meter

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request."""
        self._meter.calls += len(requests)
        answers = await super().read(*requests)
        by_request = {id(request): answer for request, answer in zip(requests, answers, strict=True)}
        for request, answer in zip(requests, answers, strict=True):
            self._count(fill(request, by_request), answer)
        return answers

    def _count(self, request: Request[Any], answer: Any) -> None:
        match request:
            case Records():
                self._meter.texts += sum(record is not None for record in answer)
            case RecordsOf():
                self._meter.texts += sum(len(records or ()) for records in answer)
            case Vectors():
                self._meter.cosines += len(answer)
            case VectorsOf():
                self._meter.cosines += len(answer.vectors)
            case Rank(needs="scores"):
                chosen = request.records if request.among is None else request.among
                self._meter.cosines += len(request.queries) * len(chosen or ())
