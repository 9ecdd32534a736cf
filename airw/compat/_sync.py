"""Call async functions from sync code, as the names of other libraries do."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from airw._base import background

T = TypeVar("T")


def run(function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Call an async function from sync code and return its result.

    Raises:
        RuntimeError: If an event loop runs in this thread; it would be blocked during the call.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> run(double, 21)
        42
    """
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:  # no event loop runs in this thread
        return background.run(function, *args, **options)
    raise RuntimeError(
        f"a sync call would stop the event loop that runs in this thread: await {_name_replacement(function)} instead"
    )


def _name_replacement(function: Callable[..., Any]) -> str:
    import airw

    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "")
    if name in airw.__all__:
        return f"airw.{name}"
    if module.startswith("airw.") and not module.startswith("airw.compat."):
        return f"{module}.{name}"
    return "airw's own function"


class SyncFunction:
    """A sync version of an async function, `inner`, with the same attributes."""

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self.inner = inner

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the async function and return its result."""
        return run(self.inner, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def to_async(function: Any) -> Any:
    """Return the async function inside a `SyncFunction`; any other object unchanged."""
    return function.inner if isinstance(function, SyncFunction) else function
