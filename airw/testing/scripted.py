"""A store with scripted delays and failures that counts and logs what it is asked."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any, TypeAlias

import anyio

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import Change, Fed, Request, Store
from airw.stores import Wrapper

Asked: TypeAlias = Request[Any] | Change
"""What a store is asked: to answer a request, or to write a change."""
Delays: TypeAlias = float | Sequence[float] | Callable[[], float]
"""Delays in seconds: a number for all requests, a list for the first ones, or a function that is called for each."""
Failures: TypeAlias = Exception | Sequence[Exception | None]
"""Errors: one for all requests, or a list for the first ones, in which `None` lets a request succeed."""


class ScriptedStore(Wrapper):
    """A `Store` that passes on what it is asked to another, with scripted delays and failures.

    The kind of a request is its class. `Change` is the kind of what is written. A request of a chain (`Fed`) is of the
    kind of the request that is fed.

    Each call of `read` and `apply` is counted and logged when it begins. It then waits for the longest delay of its
    requests (0 seconds is still a checkpoint), and raises the first of their failures or is passed on. A cancelled call
    stops counting as running at once. With a delay of `math.inf`, a call hangs until it is cancelled.

    Args:
        store: The store that answers. It is closed with this one.
        delays: For all kinds, or by kind. Kinds that are not named do not wait.
        failures: By kind. Kinds that are not named do not fail. The same exception object is raised.

    Attributes:
        calls: The number of requests by kind.
        reads: The number of calls of `read`.
        log: All requests and changes, in the order in which they came; of a chain, the requests that are fed.
        running: The number of calls that run now. Holding the lock of `writing` does not count as a call.
        most_running: The largest number of calls that ran at the same time.

    Raises:
        ArgumentError: If a kind does not exist, or a delay or failure is not valid.

    Example:
        Count the requests of one walk:

        >>> from dataclasses import replace
        >>> from airw import build, from_mapping, traverse
        >>> from airw.policies import Eager
        >>> from airw.protocols import Edges, Rank
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "door keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         store = ScriptedStore(corpus.store, delays={Rank: 0.001})
        ...         async with traverse("signing keys", replace(corpus, store=store), policy=Eager()) as walk:
        ...             ids = [hit.artifact_id async for hit in walk]
        ...     return ids, store.calls[Edges]
        >>> anyio.run(main)
        (['a', 'b'], 1)

        Make the second request for edges fail:
        `ScriptedStore(store, failures={Edges: [None, StoreError("disk full")]})`.
    """

    def __init__(
        self,
        store: Store,
        *,
        delays: Delays | Mapping[type[Asked], Delays] = 0.0,
        failures: Mapping[type[Asked], Failures] | None = None,
    ) -> None:
        super().__init__(store)
        by_kind, of_others = (delays, 0.0) if isinstance(delays, Mapping) else ({}, delays)
        for kind in (*by_kind, *(failures or {})):
            if not (isinstance(kind, type) and issubclass(kind, Request | Change)) or kind is Fed:
                raise ArgumentError(f"{short_repr(kind)} is no kind of request; name a class, such as Edges or Change")
        self._delays = {kind: _to_delays(delay) for kind, delay in by_kind.items()}
        self._delays_of_others = _to_delays(of_others)
        self._failures = {kind: _to_failures(failure) for kind, failure in (failures or {}).items()}
        self.calls: Counter[type[Asked]] = Counter()
        self.reads: int = 0
        self.log: list[Asked] = []
        self.running: int = 0
        self.most_running: int = 0

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request."""
        self.reads += 1
        async with self._call([request.request if isinstance(request, Fed) else request for request in requests]):
            return await super().read(*requests)

    async def apply(self, change: Change) -> None:
        """Write a change."""
        async with self._call([change]):
            await super().apply(change)

    @asynccontextmanager
    async def _call(self, asked: Sequence[Asked]) -> AsyncIterator[None]:
        """Count and log a call, then wait or fail as the script says, then run the body."""
        self.calls.update(map(type, asked))
        self.log.extend(asked)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            # Take all before the wait: concurrent calls get theirs in the order in which they began.
            delays = [next(self._delays.get(type(one), self._delays_of_others)) for one in asked]
            failures = [next(self._failures[type(one)]) for one in asked if type(one) in self._failures]
            await anyio.sleep(max(delays, default=0.0))
            for failure in failures:
                if failure is not None:
                    raise failure
            yield
        finally:
            self.running -= 1


def _to_delays(delays: Delays) -> Iterator[float]:
    """Return an iterator over the delays of all requests."""
    if callable(delays):
        return iter(delays, None)
    listed = [delays] if isinstance(delays, int | float) else [*delays]
    bad = [delay for delay in listed if not isinstance(delay, int | float) or not delay >= 0]
    if bad:
        raise ArgumentError(f"a delay must be a number of seconds of at least 0, not {bad[0]!r}")
    return repeat(delays) if isinstance(delays, int | float) else chain(listed, repeat(0.0))


def _to_failures(failures: Failures) -> Iterator[Exception | None]:
    """Return an iterator over the failures of all requests; `None` for one that succeeds."""
    listed = [failures] if isinstance(failures, Exception) else [*failures]
    bad = [failure for failure in listed if failure is not None and not isinstance(failure, Exception)]
    if bad:
        raise ArgumentError(f"a failure must be an exception or None, not {bad[0]!r}")
    return repeat(failures) if isinstance(failures, Exception) else chain(listed, repeat(None))
