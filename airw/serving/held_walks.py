"""`HeldWalks`: the few walks that a server keeps, for clients that may go on with them."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import TypeVar

import anyio

from airw._base.concurrency import first_error
from airw.serving.limits import ServingLimits
from airw.serving.metrics import Metrics
from airw.serving.problems import WalkNotHeld

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _HeldWalk:
    """A walk that is held, for whom, and until when."""

    walk: object
    owner: str
    until: float


class HeldWalks:
    """The walks of a server that wait for their clients, by token.

    Walks are held inside the block of `running` only, and dropped when their time is over. Of too many, the client with
    the most loses its oldest. A walk that waits has nothing open, so dropping it is all that needs to be done.

    Args:
        limits: The limits of the server.
        metrics: Where the number of walks can be read.

    Example:
        >>> len(HeldWalks(ServingLimits()))
        0
    """

    def __init__(self, limits: ServingLimits, metrics: Metrics | None = None) -> None:
        self._limits = limits
        self._walks: dict[str, _HeldWalk] = {}  # the oldest first
        self._is_running = False
        self._was_added = anyio.Event()
        if metrics is not None:
            metrics.add_gauge("airw_walks_held", "Walks that wait for their clients to go on.", lambda: len(self))

    def __len__(self) -> int:
        """Return the number of walks that are held."""
        return len(self._walks)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold walks inside the block, and drop all of them at its end."""
        self._is_running = True
        try:
            with first_error():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._drop_in_time)
                    yield
                    tasks.cancel_scope.cancel()
        finally:
            self._is_running = False
            self._walks.clear()

    def hold(self, walk: object, owner: str) -> str | None:
        """Hold a walk of a client, and return its token; `None` if no walks are held."""
        if not self._is_running:
            return None
        counts = Counter(held.owner for held in self._walks.values())
        if counts[owner] >= self._limits.max_held_per_client:
            self._drop_oldest_of(owner)
        elif len(self._walks) >= self._limits.max_held_walks:
            self._drop_oldest_of(counts.most_common(1)[0][0])
        token = token_urlsafe(16)
        self._walks[token] = _HeldWalk(walk, owner, anyio.current_time() + self._limits.max_hold)
        self._was_added.set()
        return token

    @contextmanager
    def take(self, token: str, kind: type[T], owner: str) -> Iterator[T]:
        """Lend a walk to the block; if the block raises no error, the walk is held no longer.

        Args:
            token: The token.
            kind: The class of what was held.
            owner: The client that asks.

        Raises:
            WalkNotHeld: If no such walk of this client is held.
        """
        held = self._walks.get(token)
        is_late = held is not None and held.until <= anyio.current_time()
        if held is None or is_late or held.owner != owner or not isinstance(held.walk, kind):
            raise WalkNotHeld(
                "continue is no token of a walk that waits here: each works once, in the process that gave it, for "
                f"{self._limits.max_hold:g} seconds at most; start another walk with the larger limits"
            )
        yield held.walk
        self._walks.pop(token, None)

    def _drop_oldest_of(self, owner: str) -> None:
        del self._walks[next(token for token, held in self._walks.items() if held.owner == owner)]

    async def _drop_in_time(self) -> None:
        """Drop each walk when its time is over, whether anybody asks or not."""
        while True:
            self._was_added = anyio.Event()
            if not self._walks:
                await self._was_added.wait()
            oldest = next(iter(self._walks.values()), None)  # it may have been dropped meanwhile
            if oldest is not None:
                await anyio.sleep_until(oldest.until)
            now = anyio.current_time()
            for token in [token for token, held in self._walks.items() if held.until <= now]:
                del self._walks[token]
