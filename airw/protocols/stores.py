"""`Store`, which answers requests and applies changes; how to ask one; and its corpus."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar, overload

import anyio

from airw._base.concurrency import map_bounded
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols.indexing import Embedder
from airw.protocols.requests import CAPABILITIES, Capability, Change, Fed, Request

_AT_ONCE = 16  # stores that are asked at the same time

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Store(Protocol):
    """A store: it answers requests about a corpus, and writes changes.

    `airw.stores.OwnStore` is the base of stores that people write, `airw.stores.Wrapper` that of stores that pass
    requests on. Functions call a store with `ask` and `ask_all`, which know the type of each answer.
    """

    @property
    def capabilities(self) -> Collection[Capability]:
        """Return what the store can do; it refuses any other request by name, before any work."""
        ...

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request, all of one state of the store.

        A request may be fed by an earlier one of the same call; see `Fed`.

        Raises:
            ArgumentError: If the store cannot answer one of them.
        """
        ...

    async def apply(self, change: Change) -> None:
        """Write a change in one transaction: readers see all of it, or nothing.

        Raises:
            StoreError: If the change has an artifact twice, a text or vector that cannot be stored, vectors of another
                width, or a setting that is not JSON; or if the write fails. Nothing of it is stored then.
        """
        ...

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Return a context manager that locks the store for one builder; another builder waits.

        Builds hold the lock for their whole duration, so that they do not undo each other's changes. Readers never
        wait.

        Raises:
            StoreBusy: If another builder still holds the lock after `timeout` seconds.
        """
        ...

    async def aclose(self) -> None:
        """Close the store and release its resources; closing twice is harmless."""
        ...


class OpenCorpus(Protocol):
    """A corpus: an object with a name, a store and an embedder."""

    @property
    def name(self) -> str:
        """Return the name of the corpus, which its hits carry as `source`."""
        ...

    @property
    def store(self) -> Store:
        """Return the store of the corpus."""
        ...

    @property
    def embedder(self) -> Embedder:
        """Return the embedder of the stored vectors; queries must be embedded with it, too."""
        ...


async def ask(store: Store, request: Request[A]) -> A:
    """Return the answer of a store to a request.

    Raises:
        ArgumentError: If the store cannot answer requests of this kind.

    Example:
        >>> import anyio
        >>> from airw.protocols import Records
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         return await ask(store, Records(["none"]))
        >>> anyio.run(main)
        [None]
    """
    answer: A
    [answer] = await store.read(request)
    return answer


@overload
async def ask_all(store: Store, one: Request[A], two: Request[B], /) -> tuple[A, B]: ...
@overload
async def ask_all(store: Store, one: Request[A], two: Request[B], three: Request[C], /) -> tuple[A, B, C]: ...
@overload
async def ask_all(
    store: Store, one: Request[A], two: Request[B], three: Request[C], four: Request[D], /
) -> tuple[A, B, C, D]: ...
async def ask_all(store: Store, *requests: Request[Any]) -> tuple[Any, ...]:
    """Return the answers of a store to several requests, all of one state of the store.

    The answers are in the order of the requests.

    Raises:
        ArgumentError: If the store cannot answer one of them.
        StoreError: If the store fails.

    Example:
        >>> import anyio
        >>> from airw.protocols import Records, RecordsOf
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         return await ask_all(store, Records(["none"]), RecordsOf(["none"]))
        >>> anyio.run(main)
        ([None], [None])
    """
    return tuple(await store.read(*requests))


async def try_many(
    calls: Sequence[tuple[Store, Sequence[Request[Any]]]],
    *,
    timeout: float = math.inf,  # noqa: ASYNC109 - of each store
) -> list[list[Any] | Exception]:
    """Ask many stores, 16 at a time; return the answers of each store, or its error.

    Args:
        calls: Pairs of a store and what it is asked.
        timeout: The seconds that a store may take; afterwards its error is a `TimeoutError`.

    Returns:
        For each call, one answer a request, or the error: no store ends the work of others.

    Example:
        >>> import anyio
        >>> from airw.protocols import Counts, Records
        >>> from airw.stores import MemoryStore, OwnStore
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         return await try_many([(store, [Records(["none"])]), (OwnStore(), [Counts()])])
        >>> anyio.run(main)
        [[[None]], ArgumentError("Counts needs a store with the capability 'counts'; OwnStore offers nothing")]
    """

    async def call(pair: tuple[Store, Sequence[Request[Any]]]) -> list[Any] | Exception:
        store, requests = pair
        try:
            with anyio.fail_after(timeout):
                return await store.read(*requests)
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            return error

    return await map_bounded(call, calls, limit=_AT_ONCE)


def check_store(store: object) -> None:
    """Check that a value is a store.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_store({"a": "text"})
        Traceback (most recent call last):
        airw.errors.ArgumentError: dict is not a store: derive its class from airw.stores.OwnStore, or use airw.adapt
    """
    kind = store if isinstance(store, type) else type(store)
    advice = "derive its class from airw.stores.OwnStore, or use airw.adapt"
    if kind is store or not callable(getattr(kind, "read", None)) or not hasattr(store, "capabilities"):
        raise ArgumentError(f"{kind.__name__} is not a store: {advice}")
    unknown = {*given} - CAPABILITIES if isinstance(given := store.capabilities, Collection) else {given}
    if unknown:
        raise ArgumentError(
            f"capabilities of {kind.__name__} must be among {', '.join(sorted(CAPABILITIES))}, "
            f"not {short_repr(min(unknown, key=str))}; {advice}"
        )


def check_capabilities(verb: str, store: Store, *needed: Capability) -> None:
    """Check that a store can do what a function needs.

    Args:
        verb: The name of the function.
        store: The store.
        needed: The capabilities.

    Raises:
        ArgumentError: If it lacks one; the message names the function and what the store can do.

    Example:
        >>> from airw.stores import OwnStore
        >>> check_capabilities("delete", OwnStore(), "writing")
        Traceback (most recent call last):
        airw.errors.ArgumentError: delete() needs a store with the capability 'writing'; OwnStore offers nothing
    """
    for capability in needed:
        if capability not in store.capabilities:
            raise ArgumentError(f"{verb}() needs a store with the capability {capability!r}; {_describe(store)}")


def check_able(store: Store, *requests: Request[Any], advice: Mapping[Capability, str] | None = None) -> None:
    """Check that a store can answer requests.

    Args:
        store: The store.
        requests: The requests.
        advice: What adds a capability that is missing.

    Raises:
        ArgumentError: If it cannot; the message says what it can do, or the advice.
    """
    for request in requests:
        missing = request.all_needs.difference(store.capabilities)
        if missing:
            kind, need = type(request.request if isinstance(request, Fed) else request).__name__, min(missing)
            ending = (advice or {}).get(need) or _describe(store)
            raise ArgumentError(f"{kind} needs a store with the capability {need!r}; {ending}")


def _describe(store: Store) -> str:
    """Return what a store can do, in words."""
    return f"{type(store).__name__} offers {', '.join(sorted(store.capabilities)) or 'nothing'}"


def fill(request: Request[A], answers: Mapping[int, Any]) -> Request[A]:
    """Return a request with the ids that an earlier one of the same call has found.

    Args:
        request: The request; one that is not fed is returned as it is.
        answers: The answers until now, by the `id()` of the request.

    Raises:
        ArgumentError: If the request that feeds it does not stand before it.
    """
    if not isinstance(request, Fed):
        return request
    if id(request.by.of) not in answers:
        raise ArgumentError("a request is fed by one that does not stand before it in the same call")
    return request.fill(answers[id(request.by.of)])
