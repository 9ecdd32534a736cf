"""Admission: how many requests and streams run at the same time, and how many wait."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from airw.serving.limits import ServingLimits
from airw.serving.problems import TooManyRequests

_RETRY_AFTER = 1  # seconds


class Admission:
    """Counts what runs and what waits, and refuses the rest.

    Example:
        >>> Admission(ServingLimits(max_requests=2)).running
        0
    """

    def __init__(self, limits: ServingLimits) -> None:
        self._limits = limits
        self._room = anyio.Semaphore(limits.max_requests)
        self.waiting = 0
        self.running = 0
        self.streams: Counter[str] = Counter()

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Count a request while it runs, after waiting for others if needed.

        Raises:
            TooManyRequests: If too many wait already, or the wait takes too long.
        """
        await self._wait_for_room()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._room.release()

    async def _wait_for_room(self) -> None:
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            pass
        else:
            return
        if self.waiting >= self._limits.max_waiting:
            raise TooManyRequests(f"{self.waiting:,} requests wait already; try again later", _RETRY_AFTER)
        self.waiting += 1
        try:
            with anyio.fail_after(self._limits.max_wait):
                await self._room.acquire()
        except TimeoutError:
            raise TooManyRequests(
                f"the server was busy for {self._limits.max_wait:g} seconds; try again later", _RETRY_AFTER
            ) from None
        finally:
            self.waiting -= 1

    @contextmanager
    def stream(self, client: str) -> Iterator[None]:
        """Count a stream of a client while it runs.

        Raises:
            TooManyRequests: If the client, or all together, have too many.
        """
        if self.streams.total() >= self._limits.max_streams:
            raise TooManyRequests(f"{self.streams.total():,} streams run already; try again later", _RETRY_AFTER)
        if self.streams[client] >= self._limits.max_streams_per_client:
            raise TooManyRequests(
                f"you have {self.streams[client]:,} streams already; end one before the next", _RETRY_AFTER
            )
        self.streams[client] += 1
        try:
            yield
        finally:
            self.streams[client] -= 1
            if not self.streams[client]:
                del self.streams[client]
