"""Standby servers that take reads while they are not far behind the primary."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from airw.stores.postgres._pool import ConnectionPool, finish

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

_CHECK_EVERY = 1.0  # seconds
_ANSWER_WITHIN = 2.0  # seconds for a check
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

    Attributes:
        pool: The connections to it.
        replayed: The position in the log up to which it has all changes.
        fresh_at: A moment up to which it has all changes.
        retry_at: The moment from which it may be tried again after a failure.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self.replayed = -1
        self.fresh_at = self.retry_at = -float("inf")
        self._pause = _FIRST_PAUSE

    def note_failure(self) -> None:
        """Leave the server alone for a while, each time longer."""
        self.fresh_at = -float("inf")
        self.retry_at = anyio.current_time() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def note_success(self, replayed: int, fresh_at: float) -> None:
        """Note up to where the server has the changes."""
        self.replayed, self.fresh_at, self._pause = replayed, fresh_at, _FIRST_PAUSE


class Replicas:
    """The standby servers of a primary.

    How far one is behind is measured here, without clocks of servers: a server that has replayed the log up to where
    the primary had written it at some moment has all changes of that moment.

    Args:
        primary: The connections to the primary.
        pools: The connections to each standby.
        max_lag: The seconds that a server may be behind.
    """

    def __init__(self, primary: ConnectionPool, pools: Sequence[ConnectionPool], max_lag: float) -> None:
        self._primary, self._max_lag = primary, max_lag
        self._all = deque(Replica(pool) for pool in pools)
        self._positions: deque[tuple[float, int]] = deque(maxlen=_KEPT_POSITIONS)
        self._own_position = 0  # what this store has written, or found when it was opened, ends here
        self._unknown = set[object]()  # writes whose end in the log is not known yet
        self._checked_at = -float("inf")
        self._is_checking = False

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

    async def choose(self) -> Replica | None:
        """Return a server that may be read now, each in turn, or `None`."""
        now = anyio.current_time()
        if now - self._checked_at >= min(_CHECK_EVERY, self._max_lag / 4) and not self._is_checking:
            await self._check()
        oldest = anyio.current_time() - self._max_lag
        for _ in range(len(self._all)):
            self._all.rotate(-1)
            replica = self._all[-1]
            is_near = replica.fresh_at >= oldest and replica.replayed >= self._own_position
            if is_near and not self._unknown and not replica.pool.is_busy:
                return replica
        return None

    async def _check(self) -> None:
        self._is_checking = True
        try:
            due = [replica for replica in self._all if anyio.current_time() >= replica.retry_at]
            with suppress(Exception), anyio.move_on_after(_ANSWER_WITHIN * 2):
                at, unknown = anyio.current_time(), set(self._unknown)
                written = await self._primary.run(lambda c: c.fetchrow(_WRITTEN))
                self._positions.append((at, written["position"]))
                if unknown:
                    self._note_own(unknown, written["position"])
                async with anyio.create_task_group() as group:
                    for replica in due:
                        group.start_soon(self._check_replica, replica, written["system_identifier"])
        finally:
            self._is_checking, self._checked_at = False, anyio.current_time()

    async def _check_replica(self, replica: Replica, identifier: int) -> None:
        try:
            with anyio.fail_after(_ANSWER_WITHIN):
                row = await replica.pool.run(lambda c: c.fetchrow(_REPLAYED))
        except Exception:  # noqa: BLE001 - whatever is wrong with a standby, the primary answers
            replica.note_failure()
            return
        if row["position"] is None or row["system_identifier"] != identifier:
            replica.note_failure()  # not a standby, or that of another server
            return
        reached = [at for at, position in self._positions if position <= row["position"]]
        replica.note_success(row["position"], reached[-1] if reached else -float("inf"))

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
