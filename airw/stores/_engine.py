"""How the stores on this machine answer requests, from content in memory and in a file.

A home, such as `MemoryStore`, holds the content still for a moment, by a lock or by the snapshot of a file. Meanwhile
its `Content` prepares all answers of a call, so they are of one state. What takes long is done afterwards, when others
may write again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.coalescing import Coalescer
from airw.protocols import (
    CAPABILITIES,
    Capability,
    Change,
    Fed,
    Rank,
    Records,
    Request,
    Vectors,
    VectorsOf,
    check_able,
    fill,
)
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores.own_store import METHODS
from airw.values import Contains
from airw.values.filters import Filter

_FEW_QUERIES, _FEW_RECORDS = 8, 16  # a request with more is not held up by others, nor holds them up

Finish: TypeAlias = Callable[[], Any]
"""The last step of an answer: it returns the answer, and may run while others write."""


def ready(answer: Any) -> Finish:
    """Return the last step of an answer that is complete."""
    return lambda: answer


class Content(ABC):
    """The content of a store at one moment, which prepares answers.

    It has a method for each kind of request, of the same name as in `OwnStore`, that returns a `Finish`.
    """

    @abstractmethod
    def dense(self) -> DenseIndex:
        """Return the index of the vectors, as it is now."""

    @abstractmethod
    def match(self, filter: Filter) -> NDArray[np.int64]:
        """Return the numbers of the records that match a filter."""

    @abstractmethod
    def find_texts(self, contains: Contains) -> NDArray[np.int64]:
        """Return the numbers of the records of artifacts whose texts contain what they must."""

    @abstractmethod
    def rank_texts(self, request: Rank, allowed: NDArray[np.int64] | None) -> Finish:
        """Rank texts; `allowed` are the numbers of the records to rank, `None` for all."""

    def prepare(self, request: Request[Any]) -> Finish:
        """Prepare the answer to a request that is not fed."""
        finish: Finish = getattr(self, METHODS[type(request)])(request)
        return finish

    def rank(self, request: Rank) -> Finish:
        """Rank by vectors or by words, after all conditions."""
        allowed = None if request.filter is None else self.match(request.filter)
        if request.contains is not None:
            found = self.find_texts(request.contains)
            allowed = found if allowed is None else np.intersect1d(allowed, found, assume_unique=True)
        if request.needs != "lexical":
            return rank_vectors(self.dense(), request, allowed)
        if request.among is not None or request.records is not None:
            allowed = self.dense().number(request.among, request.records, allowed)
        return self.rank_texts(request, allowed)

    def vectors(self, request: Vectors) -> Finish:
        """Return the vectors of records."""
        index = self.dense()
        return lambda: index.vectors(request.ids)

    def vectors_of(self, request: VectorsOf) -> Finish:
        """Return the vectors of artifacts."""
        index = self.dense()
        return lambda: index.vectors_of(request.artifact_ids)  # type: ignore[arg-type]


def rank_vectors(index: DenseIndex, request: Rank, allowed: NDArray[np.int64] | None = None) -> Finish:
    """Rank by vectors: all records, or what a request names."""
    options: Any = {"allowed": allowed, "surfaces": request.surfaces, "per_artifact": request.per_artifact}
    queries: Any = request.queries
    if request.needs == "dense":
        return lambda: index.search(queries, len(index) if request.k is None else request.k, **options)
    return lambda: index.rank_named(queries, request.k, artifacts=request.among, records=request.records, **options)


def rank_named_if_quick(index: DenseIndex, request: Rank, most: int) -> Finish | None:
    """Rank what a request names, if that is little and compared with one vector; else `None`."""
    ids: Any = request.among or ()
    is_few = len(request.records or ()) <= most and index.has_few(ids, most)
    is_plain = request.filter is None and request.contains is None and len(request.queries) == 1
    return rank_vectors(index, request) if is_few and is_plain else None


def prepare_all(prepare: Callable[[Request[Any]], Finish], requests: Sequence[Request[Any]]) -> Finish:
    """Prepare the answers to the requests of a call; those that feed others come at once."""
    feeding = {id(request.by.of) for request in requests if isinstance(request, Fed)}
    answers, finishes = dict[int, Any](), list[Finish]()
    for request in requests:
        finish = prepare(fill(request, answers))
        if id(request) in feeding:
            answers[id(request)] = finish()
            finish = ready(answers[id(request)])
        finishes.append(finish)
    return lambda: [finish() for finish in finishes]


def answer_quickly(
    prepare_if_quick: Callable[[Request[Any]], Finish | None], requests: Sequence[Request[Any]]
) -> list[Any] | None:
    """Return all answers of a call; `None` if one may take more than about a millisecond."""
    answers: dict[int, Any] = {}
    for request in requests:
        finish = prepare_if_quick(fill(request, answers))
        if finish is None:
            return None
        answers[id(request)] = finish()
    return [answers[id(request)] for request in requests]


def _find_kind(request: Request[Any]) -> Hashable:
    """Return what requests that can be answered together have in common; else `None`.

    Searches with few queries and look-ups of few records are answered together, if they differ in these alone.
    """
    if isinstance(request, Records):
        return "records" if len(request.ids) <= _FEW_RECORDS else None
    if not isinstance(request, Rank) or len(request.queries) > _FEW_QUERIES:
        return None
    if any(value is not None for value in (request.statistics, request.among, request.records, request.contains)):
        return None
    is_vectors = isinstance(request.queries, np.ndarray)
    form: Hashable = (request.queries.shape[1:], request.queries.dtype) if is_vectors else None  # type: ignore[union-attr]
    options = (request.k, request.filter, request.surfaces, request.per_artifact, form)
    return options if request.filter is None and request.surfaces is None else repr(options)


class EngineStore(ABC):
    """The base of the stores that answer requests from a `Content`."""

    def __init__(self) -> None:
        # Requests that wait for their turn become one call; each capability has a line of its own.
        self._lines = {"dense": Coalescer[Any, Any](lanes=2), "lexical": Coalescer(), "records": Coalescer()}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return what the store can do: everything."""
        return CAPABILITIES

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request, all of one state; see `airw.protocols.Store.read`."""
        check_able(self, *requests)
        kind = _find_kind(requests[0]) if len(requests) == 1 else None
        if kind is None:
            return await self._answer(requests)
        return [await self._lines[requests[0].needs].ask(kind, requests[0], self._answer_together)]

    async def _answer_together(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Return the answers to requests that differ in their queries or ids alone."""
        if len(requests) == 1:
            return await self._answer(requests)
        name = "ids" if isinstance(requests[0], Records) else "queries"
        parts = [getattr(request, name) for request in requests]
        together = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [*chain.from_iterable(parts)]
        [answers] = await self._answer([replace(requests[0], **{name: together})])  # type: ignore[type-var]
        remaining = iter(answers)
        return [[*islice(remaining, len(part))] for part in parts]

    @abstractmethod
    async def _answer(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Return the answers to all requests of a call."""

    @abstractmethod
    async def version(self) -> Hashable:
        """Return what is different after each write; `None` if that is unknown."""

    @abstractmethod
    async def put_aside(self) -> None:
        """Free what the store need not hold until its next call, if many stores are open."""

    @abstractmethod
    async def apply(self, change: Change) -> None:
        """Write a change in one transaction; see `airw.protocols.Store.apply`."""

    @abstractmethod
    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Return what locks the store for one builder; see `airw.protocols.Store.writing`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the store and release its resources; closing twice is harmless."""
