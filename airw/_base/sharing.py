"""A lock that tasks of several event loops share."""

import asyncio
from collections import deque
from collections.abc import Callable
from threading import RLock

import anyio
import anyio.lowlevel

from airw.errors import StoreError

_LOOK_EVERY = 1.0  # seconds between two looks at whether the event loop of the holder still runs


class Signal:
    """An event that one task waits for, and that any thread may set."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._token = anyio.lowlevel.current_token()
        self._call_soon: Callable[[Callable[[], object]], object]
        self.is_alive: Callable[[], bool]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a loop of trio, which never ends before its tasks
            import trio

            self._call_soon, self.is_alive = trio.lowlevel.current_trio_token().run_sync_soon, lambda: True
        else:
            self._call_soon, self.is_alive = loop.call_soon_threadsafe, loop.is_running

    def set(self) -> bool:
        """Wake the task; return False if its event loop is closed."""
        try:
            is_here = anyio.lowlevel.current_token() is self._token
        except RuntimeError:  # no event loop runs in this thread
            is_here = False
        try:
            if is_here:
                self._event.set()
            else:
                self._call_soon(self._event.set)
        except RuntimeError:
            return False
        return True

    async def wait(self) -> None:
        """Wait until the signal is set."""
        await self._event.wait()


class SharedLock:
    """A lock that tasks take in turn, also tasks of event loops in other threads.

    Args:
        name: What is used within the lock, for messages.

    Raises:
        StoreError: On entering, if the lock is held by a task whose event loop runs no more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Reentrant: a garbage collection inside may close a coroutine that holds this lock, in the same thread.
        self._guard = RLock()
        self._holder: Signal | None = None
        self._waiting: deque[Signal] = deque()

    @property
    def is_held(self) -> bool:
        """Return whether a task holds the lock."""
        return self._holder is not None

    async def acquire(self) -> None:
        """Wait for a turn and take the lock; the caller must `release` it."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        turn = Signal()
        with self._guard:
            if self._holder is None:
                self._holder = turn
                return
            self._waiting.append(turn)
        try:
            await self._wait_for(turn)
        except BaseException:
            with self._guard:
                if self._holder is turn:
                    self.release()
                elif turn in self._waiting:
                    self._waiting.remove(turn)
            raise

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *exc_info: object) -> None:
        self.release()

    async def _wait_for(self, turn: Signal) -> None:
        while self._holder is not turn:
            with anyio.move_on_after(_LOOK_EVERY):
                await turn.wait()
            holder = self._holder
            if holder is not None and not holder.is_alive():
                raise StoreError(
                    f"{self._name} is used by a call of an event loop that has stopped; run that loop again, or open "
                    "another one"
                )

    def release(self) -> None:
        """Leave the lock to the task that has waited longest."""
        with self._guard:
            self._holder = None
            while self._waiting and self._holder is None:
                turn = self._waiting.popleft()
                self._holder = turn
                if not turn.set():
                    self._holder = None
