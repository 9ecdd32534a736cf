"""A lock that tasks of several event loops share."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import RLock

import anyio
import anyio.lowlevel

from airw.errors import StoreError

_LOOK_EVERY = 1.0  # seconds between two looks at whether the event loop of the holder still runs


class Signal:
    """An event that one task waits for, and that any thread may set."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None
        self._is_set = False
        self._call_soon: Callable[[Callable[[], object]], object]
        self.runs: Callable[[], bool]
        self.has_closed: Callable[[], bool]
        self.loop: object = _running_loop()
        if isinstance(self.loop, asyncio.AbstractEventLoop):
            self._call_soon = self.loop.call_soon_threadsafe
            self.runs, self.has_closed = self.loop.is_running, self.loop.is_closed
        else:  # a loop of trio, which never ends before its tasks
            import trio

            self.loop = trio.lowlevel.current_trio_token()
            self._call_soon, self.runs, self.has_closed = self.loop.run_sync_soon, lambda: True, lambda: False

    def set(self) -> bool:
        """Wake the task; return False if its event loop has closed."""
        self._is_set = True
        if self._event is None:
            return not self.has_closed()
        try:
            if _running_loop() is self.loop:  # without a message to the loop itself
                self._event.set()
            else:
                self._call_soon(self._event.set)
        except RuntimeError:
            return False
        return True

    async def wait(self) -> None:
        """Wait until the signal is set."""
        self._event = self._event or anyio.Event()
        if not self._is_set:
            await self._event.wait()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class SharedLock:
    """A lock that tasks take in turn, also tasks of event loops in other threads.

    Args:
        name: What is used within the lock, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Reentrant: a garbage collection inside may close a coroutine that holds this lock, in the same thread.
        self._guard = RLock()
        self._holder: Signal | None = None
        self._waiting: deque[Signal] = deque()
        self._is_shared = False  # once a task has waited for one of another loop

    @property
    def is_held(self) -> bool:
        """Return whether a task holds the lock."""
        return self._holder is not None

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock while the block runs.

        Raises:
            StoreError: If it is held by a task whose event loop has stopped.
        """
        turn = await self.acquire()
        try:
            yield
        finally:
            self.release(turn)

    async def acquire(self) -> Signal:
        """Wait for a turn, take the lock, and return what `release` needs."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        turn = Signal()
        with self._guard:
            if self._holder is None:
                self._holder = turn
                return turn
            self._waiting.append(turn)
            self._is_shared |= self._holder.loop is not turn.loop
        try:
            await self._wait_for(turn)
        except BaseException:
            with self._guard:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                self.release(turn)
            raise
        return turn

    async def _wait_for(self, turn: Signal) -> None:
        while self._holder is not turn:
            holder = self._holder
            if holder is not None and holder.has_closed():
                self.release(holder)  # its task will never go on
                continue
            if holder is not None and not holder.runs():
                raise StoreError(
                    f"{self._name} is used by a call of an event loop that has stopped; run that loop again, or open "
                    "another one"
                )
            if self._is_shared:
                with anyio.move_on_after(_LOOK_EVERY):
                    await turn.wait()
            else:
                await turn.wait()  # for a task of the same loop, which runs as long as this one waits

    def release(self, turn: Signal) -> None:
        """Leave the lock to the task that waits longest, unless another one has it by now."""
        with self._guard:
            if self._holder is not turn:
                return
            self._holder = None
            while self._waiting and self._holder is None:
                turn = self._waiting.popleft()
                self._holder = turn
                if not turn.set():
                    self._holder = None
