"""The locks of a store in memory, and decorators that make its methods async."""

import threading
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio.lowlevel

from airw._base.concurrency import in_thread
from airw._base.fairness import without_pause

P = ParamSpec("P")
R = TypeVar("R")
_Body = Callable[Concatenate[Any, P], R]
_Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]


def hold_lock(body: _Body[P, R]) -> _Method[P, R]:
    """Return an async method that runs `body` in a worker thread, under the lock of the store."""

    @wraps(body)
    async def method(self: "LockedStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.call_locked(partial(body, self, *args, **kwargs))

    return method


def hold_both_locks(body: _Body[P, R]) -> _Method[P, R]:
    """Return an async method like `hold_lock` that also holds the lock of the texts."""

    @wraps(body)
    async def method(self: "LockedStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.call_locked(partial(body, self, *args, **kwargs), uses_texts=True)

    return method


def prepare_under_lock(body: _Body[P, Callable[[], R]]) -> _Method[P, R]:
    """Return an async method that runs `body` under the lock, then the function it returns.

    The lock is released in between, so a long answer holds up no other call.
    """

    @wraps(body)
    async def method(self: "LockedStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.prepare_locked(partial(body, self, *args, **kwargs))

    return method


def hold_lock_inline_if(is_quick: Callable[..., bool]) -> Callable[[_Body[P, R]], _Method[P, R]]:
    """Return a decorator like `hold_lock` that skips the thread for quick work.

    The thread is skipped only if the lock is free, as waiting for it would block the event loop.

    Args:
        is_quick: Returns whether the work is quick. It is called with the arguments of the method, while the lock is
            held, and must be quick itself.
    """

    def decorate(body: _Body[P, R]) -> _Method[P, R]:
        @wraps(body)
        async def method(self: "LockedStore", /, *args: P.args, **kwargs: P.kwargs) -> R:
            def work() -> tuple[R] | None:
                return (body(self, *args, **kwargs),) if is_quick(self, *args, **kwargs) else None

            found = await self.call_if_free(self.lock, work)
            if found is not None:
                return found[0]
            return await self.call_locked(partial(body, self, *args, **kwargs))

        return method

    return decorate


class LockedStore:
    """A store whose calls run under a lock, in worker threads."""

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        # Taken before the other one, so a lexical search holds up only its like.
        self.texts_lock: threading.Lock = threading.Lock()

    def check_open(self) -> None:
        """Raise a `StoreError` if the store is closed."""
        raise NotImplementedError

    async def call_locked(self, work: Callable[[], R], *, uses_texts: bool = False) -> R:
        """Return `work()`, called in a worker thread under the lock of the store."""

        def prepare() -> Callable[[], R]:
            result = work()
            return lambda: result

        return await self.prepare_locked(prepare, uses_texts=uses_texts)

    async def call_if_free(self, lock: threading.Lock, work: Callable[[], R]) -> R | None:
        """Return `work()`, called without a thread under a lock; `None` if others hold it."""
        # Without a thread, the call would never yield to the event loop.
        await anyio.lowlevel.checkpoint()
        if not lock.acquire(blocking=False):
            return None
        try:
            self.check_open()
            return work()
        finally:
            lock.release()

    async def prepare_locked(self, prepare: Callable[[], Callable[[], R]], *, uses_texts: bool = False) -> R:
        """Return `prepare()()`, called in a worker thread; only `prepare` holds the lock.

        All of it holds the lock of the texts, if it uses them.
        """

        def run() -> R:
            with self.texts_lock if uses_texts else nullcontext():
                with self.lock, without_pause():
                    self.check_open()
                    finish = prepare()
                return finish()

        return await in_thread(run)
