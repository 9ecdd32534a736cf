"""Admission: how many requests and streams run at the same time, and how many wait."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from airw.serving.limits import ServingLimits
from airw.serving.metrics import Metrics
from airw.serving.problems import TooManyRequests

_RETRY_AFTER = 1  # seconds


class _Turn:
    """A request that waits for its turn."""

    __slots__ = ("client", "is_admitted", "is_over")

    def __init__(self, client: str) -> None:
        self.client = client
        self.is_admitted = False
        self.is_over = anyio.Event()


class Admission:
    """Counts what runs and what waits, and refuses the rest.

    A free place goes to the client with the fewest places; of several, to the one that got its last place first. If too
    many wait, the client with the most waiting requests loses its last one. So one client can take neither all places
    nor the whole queue.

    Args:
        limits: The limits.
        metrics: Where refusals are counted, and what runs and waits can be read.

    Example:
        >>> Admission(ServingLimits(max_requests=2)).running
        0
    """

    def __init__(self, limits: ServingLimits, metrics: Metrics | None = None) -> None:
        self._limits = limits
        self._metrics = metrics or Metrics()
        self._places: Counter[str] = Counter()
        self._turns: dict[str, deque[_Turn]] = {}  # of each client that waits
        self._last_served: dict[str, int] = {}  # of each client that runs or waits
        self._served = 0
        self._waiting = 0
        self._arrivals: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self._metrics.add_gauge("airw_requests_running", "Requests that work now.", lambda: self.running)
        self._metrics.add_gauge("airw_requests_waiting", "Requests that wait for others.", lambda: self.waiting)
        self._metrics.add_gauge("airw_streams_open", "Streams that are open.", self.streams.total)

    @property
    def running(self) -> int:
        """The requests that run."""
        return self._places.total()

    @property
    def waiting(self) -> int:
        """The requests that wait."""
        return self._waiting

    @contextmanager
    def arrival(self, client: str) -> Iterator[None]:
        """Count a request of a client while its body arrives, before it waits for a place.

        Raises:
            TooManyRequests: If too many bodies arrive at the same time.
        """
        limits = self._limits
        most, own = limits.max_waiting, limits.max_requests_per_client
        if self._arrivals.total() >= most or self._arrivals[client] >= own:
            raise self._refusal("bodies", "too many bodies arrive at the same time; try again later")
        self._arrivals[client] += 1
        try:
            yield
        finally:
            _decrease(self._arrivals, client)

    @asynccontextmanager
    async def request(self, client: str = "") -> AsyncIterator[None]:
        """Count a request of a client while it runs, after waiting for others if needed.

        Raises:
            TooManyRequests: If too many wait already, or the wait takes too long.
        """
        if self._waiting or not self._has_place(client):
            await self._wait(client)
        else:
            self._take_place(client)
        try:
            yield
        finally:
            self._free_place(client)

    def _take_place(self, client: str) -> None:
        self._places[client] += 1
        self._served += 1
        self._last_served[client] = self._served

    def _free_place(self, client: str) -> None:
        _decrease(self._places, client)
        self._admit_next()
        self._forget(client)

    def _forget(self, client: str) -> None:
        """Forget a client that neither runs nor waits, so that clients never add up."""
        if client not in self._places and client not in self._turns:
            self._last_served.pop(client, None)

    def _has_place(self, client: str) -> bool:
        limits = self._limits
        return self.running < limits.max_requests and self._places[client] < limits.max_requests_per_client

    async def _wait(self, client: str) -> None:
        """Wait for a place, and take it."""
        if self._waiting >= self._limits.max_waiting:
            self._refuse_one_for(client)
        turn = _Turn(client)
        self._turns.setdefault(client, deque()).append(turn)
        self._waiting += 1
        self._admit_next()
        try:
            with anyio.move_on_after(self._limits.max_wait):
                await turn.is_over.wait()
        except BaseException:
            # The place may have come together with the cancellation.
            self._leave(turn)
            raise
        if not turn.is_admitted:
            was_refused = turn.is_over.is_set()
            self._leave(turn)
            raise self._refusal(
                "queue" if was_refused else "wait",
                "others wait for fewer requests than you do; send fewer at the same time"
                if was_refused
                else f"the server was busy for {self._limits.max_wait:g} seconds; try again later",
            )

    def _leave(self, turn: _Turn) -> None:
        """Forget a request that no longer waits."""
        if turn.is_admitted:
            self._free_place(turn.client)
        elif not turn.is_over.is_set():
            self._remove(turn)

    def _remove(self, turn: _Turn) -> None:
        turns = self._turns[turn.client]
        turns.remove(turn)
        self._waiting -= 1
        if not turns:
            del self._turns[turn.client]
            self._forget(turn.client)

    def _refuse_one_for(self, client: str) -> None:
        """Make room in the queue: the client with the most waiting requests loses its last."""
        longest = max(self._turns.values(), key=len)
        if len(longest) <= len(self._turns.get(client, ())) + 1:
            raise self._refusal("queue", f"{self._waiting:,} requests wait already; try again later")
        last = longest[-1]
        self._remove(last)
        last.is_over.set()

    def _admit_next(self) -> None:
        """Hand free places to those who wait, to the client with the fewest places first."""
        while self._turns and self.running < self._limits.max_requests:
            client = min(self._turns, key=lambda each: (self._places[each], self._last_served.get(each, 0)))
            if not self._has_place(client):
                return
            turn = self._turns[client][0]
            self._remove(turn)
            self._take_place(client)
            turn.is_admitted = True
            turn.is_over.set()

    @contextmanager
    def stream(self, client: str) -> Iterator[None]:
        """Count a stream of a client while it runs.

        Raises:
            TooManyRequests: If the client, or all together, have too many.
        """
        total, own = self.streams.total(), self.streams[client]
        if total >= self._limits.max_streams:
            raise self._refusal("streams", f"{total:,} streams run already; try again later")
        if own >= self._limits.max_streams_per_client:
            raise self._refusal("streams_per_client", f"you have {own:,} streams already; end one before the next")
        self.streams[client] += 1
        try:
            yield
        finally:
            _decrease(self.streams, client)

    def _refusal(self, reason: str, message: str) -> TooManyRequests:
        self._metrics.count_refusal(reason)
        return TooManyRequests(message, _RETRY_AFTER)


def _decrease(counts: Counter[str], client: str) -> None:
    counts[client] -= 1
    if not counts[client]:
        del counts[client]
