"""How the stores on this machine answer requests, from content in memory and in a file.

A home, such as `MemoryStore`, holds the content still for a moment, by a lock or by the snapshot of a file. Meanwhile
its `Content` prepares all answers of a call, so they are of one state. What takes long is done afterwards, when others
may write again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.protocols import CAPABILITIES, Capability, Change, Fed, Rank, Request, Vectors, VectorsOf, check_able, fill
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._waiting import WaitingRequests
from airw.stores.own_store import METHODS
from airw.values.filters import Filter

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
    def rank_texts(self, request: Rank, allowed: NDArray[np.int64] | None) -> Finish:
        """Rank texts; `allowed` are the numbers of the records to rank, `None` for all."""

    def prepare(self, request: Request[Any]) -> Finish:
        """Prepare the answer to a request that is not fed."""
        finish: Finish = getattr(self, METHODS[type(request)])(request)
        return finish

    def rank(self, request: Rank) -> Finish:
        """Rank by vectors or by words, after all conditions."""
        allowed = None if request.filter is None else self.match(request.filter)
        if request.needs == "dense":
            index = self.dense()
            return lambda: index.search(
                request.queries,  # type: ignore[arg-type]
                len(index) if request.k is None else request.k,
                allowed=allowed,
                surfaces=request.surfaces,
                per_artifact=request.per_artifact,
            )
        if request.needs == "lexical":
            if request.among is not None or request.records is not None:
                allowed = self.dense().number(request.among, request.records, allowed)
            return self.rank_texts(request, allowed)
        return rank_named(self.dense(), request, allowed)

    def vectors(self, request: Vectors) -> Finish:
        """Return the vectors of records."""
        index = self.dense()
        return lambda: index.vectors(request.ids)

    def vectors_of(self, request: VectorsOf) -> Finish:
        """Return the vectors of artifacts."""
        index = self.dense()
        return lambda: index.vectors_of(request.artifact_ids)  # type: ignore[arg-type]


def rank_named(index: DenseIndex, request: Rank, allowed: NDArray[np.int64] | None = None) -> Finish:
    """Rank artifacts or records that a request names by their vectors."""
    return lambda: index.rank_named(
        request.queries,  # type: ignore[arg-type]
        request.k,
        artifacts=request.among,
        records=request.records,
        allowed=allowed,
        surfaces=request.surfaces,
        per_artifact=request.per_artifact,
    )


def rank_named_if_quick(index: DenseIndex, request: Rank, most: int) -> Finish | None:
    """Rank what a request names, if that is little and compared with one vector; else `None`."""
    ids: Any = request.among or ()
    is_few = len(request.records or ()) <= most and index.has_few(ids, most)
    return rank_named(index, request) if is_few and request.filter is None and len(request.queries) == 1 else None


def prepare_all(prepare: Callable[[Request[Any]], Finish], requests: Sequence[Request[Any]]) -> Finish:
    """Prepare the answers to the requests of a call; those that feed others come at once."""
    feeding = {id(request.by.of) for request in requests if isinstance(request, Fed)}
    answers, finishes = dict[int, Any](), dict[int, Finish]()
    for request in requests:
        finish = prepare(fill(request, answers))
        if id(request) in feeding:
            answers[id(request)] = finish()
            finish = ready(answers[id(request)])
        finishes[id(request)] = finish
    return lambda: [finishes[id(request)]() for request in requests]


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


class EngineStore(ABC):
    """The base of the stores that answer requests from a `Content`."""

    def __init__(self) -> None:
        self._waiting = WaitingRequests()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return what the store can do: everything."""
        return CAPABILITIES

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request, all of one state; see `airw.protocols.Store.read`."""
        check_able(self, *requests)
        if len(requests) == 1:
            return [await self._waiting.ask(requests[0], self._answer_one)]
        return await self._answer(requests)

    async def _answer_one(self, request: Request[Any]) -> Any:
        [answer] = await self._answer([request])
        return answer

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
