"""How an async function becomes a sync one, and what a forked process may not use."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from airw._base.background import LoopThread, background_loop, run
from airw.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")


def blocking(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """Return an async function as a sync one, which returns when the work is done.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> blocking(double)(21)
        42
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        return run(function, *args, **options)

    return call


def check_process(loop: LoopThread, made: str, advice: str) -> None:
    """Check that this process was not forked since an object was made on its loop.

    Raises:
        StoreError: If it was.
    """
    # A forked process has neither the threads of a store nor the loop: a call would wait forever.
    if loop is not background_loop():
        raise StoreError(f"{made} before this process was forked; {advice} here")
