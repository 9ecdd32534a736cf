"""A standby server that takes reads while it is not far behind the primary."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from airw.errors import StoreError
from airw.stores.postgres._pool import ConnectionPool, finish

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

R = TypeVar("R")

_CHECK_EVERY = 1.0  # seconds
_ANSWER_WITHIN = 2.0  # seconds for a check
_CATCH_UP_WITHIN, _ASK_EVERY = 0.1, 0.01  # seconds that reads wait for a standby that is only a moment behind
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before a server that failed is tried again
_KEPT_POSITIONS = 64
# Positions in the log are counted in bytes. The identifier is that of the primary and all its standbys.
_WRITTEN = """
SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::bigint AS position, system_identifier
FROM pg_catalog.pg_control_system()
"""
_REPLAYED = """
SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0')::bigint END AS position,
    system_identifier
FROM pg_catalog.pg_control_system()
"""


class Replica:
    """One standby server, and what is known of it.

    Args:
        make_pool: Return new connections to it.

    Attributes:
        pool: The connections to it.
        replayed: The position in the log up to which it has all changes.
        fresh_at: A moment up to which it has all changes.
        retry_at: The moment from which it may be tried again after a failure.
        has_failed: Whether it failed when it was last tried.
    """

    def __init__(self, make_pool: Callable[[], ConnectionPool]) -> None:
        self._make_pool = make_pool
        self.pool = make_pool()
        self.replayed = -1
        self.fresh_at = self.retry_at = -float("inf")
        self.has_failed = False
        self._pause = _FIRST_PAUSE

    def note_failure(self) -> None:
        """Leave the server alone for a while, each time longer."""
        self.fresh_at, self.has_failed = -float("inf"), True
        self.retry_at = anyio.current_time() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def note_success(self, replayed: int, fresh_at: float) -> None:
        """Note up to where the server has the changes."""
        self.replayed, self.fresh_at, self.has_failed, self._pause = replayed, fresh_at, False, _FIRST_PAUSE

    def disconnect(self) -> None:
        """End all connections, and with them the calls that would wait for ever."""
        self.pool.abandon()
        self.pool = self._make_pool()


class Replicas:
    """The standby servers of a primary.

    How far one is behind is measured here, without clocks of servers: a server that has replayed the log up to where
    the primary had written it at some moment has all changes of that moment.

    Reads stay with one server while it is near, as a server never goes back in time. They move to a standby only if it
    has all changes up to the last answer of the server before.

    Args:
        primary: The connections to the primary.
        make_pools: Functions that return new connections to a standby.
        max_lag: The seconds that a server may be behind.
    """

    def __init__(
        self, primary: ConnectionPool, make_pools: Sequence[Callable[[], ConnectionPool]], max_lag: float
    ) -> None:
        self._primary, self._max_lag = primary, max_lag
        # Many stores share the standbys, as each begins with another.
        self._all = [Replica(make_pool) for make_pool in random.sample(make_pools, len(make_pools))]
        self._current: Replica | None = None  # the server that is read; `None` is the primary
        self._answered_at = -float("inf")
        self._positions: deque[tuple[float, int]] = deque(maxlen=_KEPT_POSITIONS)
        self._own_position = 0  # what this store has written, or found when it was opened, ends here
        self._unknown = set[object]()  # writes whose end in the log is not known yet
        self._checked_at = -float("inf")
        self._is_checking = False
        self._is_decided = asyncio.Event()  # not while a check looks for a server to move to
        self._is_decided.set()

    async def note_position(self, connection: "Session") -> None:
        """Read nothing older than this moment from a standby.

        The connection is one to the primary.
        """
        write = object()
        self._unknown.add(write)
        with suppress(Exception):  # what was saved is saved; the next check finds a later position
            row = await connection.fetchrow(_WRITTEN)
            self._note_own({write}, row["position"])

    def _note_own(self, writes: set[object], position: int) -> None:
        """Note a position in the log that is not before the end of these writes."""
        self._own_position = max(self._own_position, position)
        self._unknown -= writes

    async def run(self, read: Callable[[ConnectionPool | None], Awaitable[R]]) -> R:
        """Return `read(pool)` of a standby, or `read(None)` if none can be read.

        Raises:
            StoreError: If the primary fails; a standby that fails is replaced by it.
        """
        answer, replica = await self._try(read)
        if replica is not self._current:
            # Others read another server by now, which may have less than this answer.
            answer, replica = await self._try(read)
        self._answered_at = anyio.current_time()
        return answer

    async def _try(self, read: Callable[[ConnectionPool | None], Awaitable[R]]) -> tuple[R, Replica | None]:
        """Return an answer, and the server that gave it."""
        replica = await self._choose()
        if replica is not None:
            try:
                return await self._run_watched(replica, read), replica
            except StoreError:  # the primary answers, or has the same error
                if self._current is replica:
                    self._leave(replica)
        return await read(None), None

    def _leave(self, replica: Replica) -> None:
        replica.note_failure()
        if self._current is replica:
            self._current = None

    async def _run_watched(self, replica: Replica, read: Callable[[ConnectionPool | None], Awaitable[R]]) -> R:
        """Return `read(pool)`; if it takes long, make sure that the server still answers others."""
        watch: asyncio.Task[None] | None = None

        def start() -> None:
            nonlocal watch
            watch = asyncio.ensure_future(self._watch(replica))

        timer = asyncio.get_running_loop().call_later(_CHECK_EVERY, start)
        try:
            return await read(replica.pool)
        finally:
            timer.cancel()
            if watch is not None:
                await finish(_end(watch))

    async def _watch(self, replica: Replica) -> None:
        pool = replica.pool
        while replica.pool is pool:
            try:
                await self._ask(replica)
            except Exception:  # noqa: BLE001 - whatever is wrong with a standby, the primary answers
                if replica.pool is pool:
                    self._leave(replica)
                    replica.disconnect()
                return
            await anyio.sleep(_CHECK_EVERY)

    async def _choose(self) -> Replica | None:
        """Return the server that may be read now, or `None` for the primary."""
        if not self._is_checking and anyio.current_time() - self._checked_at >= min(_CHECK_EVERY, self._max_lag / 4):
            await self._check()
        elif self._current is None:
            await self._is_decided.wait()
        if self._current is not None and not self._is_near(self._current):
            self._current = None
        return self._current

    def _is_near(self, replica: Replica) -> bool:
        """Return whether a server has all changes that a reader must see."""
        is_fresh = replica.fresh_at >= anyio.current_time() - self._max_lag
        return is_fresh and replica.replayed >= self._own_position and not self._unknown

    async def _check(self) -> None:
        """Find out how far the servers are, and move to one of them if none is read."""
        self._is_checking = True
        now = anyio.current_time()
        failed = [replica for replica in self._all if replica.has_failed and now >= replica.retry_at]
        try:
            # Answers of the primary in the meantime would be newer than what is found here.
            self._is_decided.clear()
            try:
                await self._check_all([replica for replica in self._all if not replica.has_failed])
                self._move()
            finally:
                self._is_decided.set()
            # One that does not answer holds up only this call. If it does, reads move to it at the next check.
            await self._check_all(failed)
        finally:
            self._is_checking, self._checked_at = False, anyio.current_time()

    def _move(self) -> None:
        if self._current is not None and self._is_near(self._current):
            return
        known = (replica for replica in self._all if replica.fresh_at >= self._answered_at and self._is_near(replica))
        self._current = next(known, None)

    async def _check_all(self, replicas: Sequence[Replica]) -> None:
        if not replicas:
            return
        with suppress(Exception), anyio.move_on_after(_ANSWER_WITHIN * 2):
            at, unknown = anyio.current_time(), set(self._unknown)
            written = await self._primary.run(lambda c: c.fetchrow(_WRITTEN))
            self._positions.append((at, written["position"]))
            if unknown:
                self._note_own(unknown, written["position"])
            async with anyio.create_task_group() as group:
                for replica in replicas:
                    group.start_soon(self._check_replica, replica, written)

    async def _check_replica(self, replica: Replica, written: Any) -> None:
        deadline = anyio.current_time() + _CATCH_UP_WITHIN
        while True:
            try:
                row = await self._ask(replica)
            except Exception:  # noqa: BLE001 - whatever is wrong with a standby, the primary answers
                self._leave(replica)
                replica.disconnect()
                return
            if row["position"] is None or row["system_identifier"] != written["system_identifier"]:
                self._leave(replica)  # not a standby, or that of another server
                return
            reached = [at for at, position in self._positions if position <= row["position"]]
            replica.note_success(row["position"], reached[-1] if reached else -float("inf"))
            now = anyio.current_time()
            is_close = self._current is None and replica.fresh_at > now - _CHECK_EVERY
            if row["position"] >= written["position"] or not is_close or now > deadline:
                return
            await anyio.sleep(_ASK_EVERY)

    async def _ask(self, replica: Replica) -> Any:
        """Return where a server is, or raise an error if it does not answer in time."""

        async def ask(connection: "Session") -> Any:
            try:
                return await connection.fetchrow(_REPLAYED)
            except BaseException:
                connection.terminate()  # nobody waits for a server that hangs
                raise

        with anyio.fail_after(_ANSWER_WITHIN):
            return await replica.pool.run(ask, is_urgent=True)

    async def aclose(self) -> None:
        """Close all connections to the standby servers."""
        # A cancelled caller closes the others, too.
        await finish(self._close_pools())

    async def _close_pools(self) -> None:
        async with anyio.create_task_group() as group:
            for replica in self._all:
                group.start_soon(replica.pool.aclose)

    def abandon(self) -> None:
        """End all connections without an event loop."""
        for replica in self._all:
            replica.pool.abandon()


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel a task, again and again, since what it waits for may swallow one request."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CATCH_UP_WITHIN)
