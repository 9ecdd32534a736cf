"""A store whose delays and failures are written down beforehand, and which counts what is asked of it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from inspect import signature
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from airw.errors import ArgumentError
from airw.protocols import Store

T = TypeVar("T")

Delays: TypeAlias = float | Sequence[float] | Callable[[], float]
"""Seconds: for every call; for the first calls, one each; or whatever a function says when a call begins."""
Failures: TypeAlias = Exception | Sequence[Exception | None]
"""An error: of every call; or for the first calls, one each, where `None` lets a call pass."""

_METHODS = tuple(name for name in dir(Store) if not name.startswith("_"))


class Call(NamedTuple):
    """One call of a store: its method, and what it was given by position and by name."""

    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


_AnyStore: Any = object  # the methods are made below; a checker takes the class for whatever store is asked for


class ScriptedStore(_AnyStore):  # type: ignore[misc]
    """A `Store` that answers as another one, after scripted delays, unless a scripted failure comes first.

    Each call is counted and logged when it begins, waits its delay (0 seconds is still a checkpoint), then fails or is
    passed on. A cancelled call is counted down at once. `math.inf` as a delay is a call that hangs until cancelled.

    Args:
        store: What answers. It is closed when this one is.
        delays: For every method but `aclose`, or by method name; methods that are not named do not wait.
        failures: By method name; methods that are not named do not fail. The error is raised as the object given.

    Attributes:
        calls: How often each method was called.
        log: Every call, in the order in which they began.
        running: How many calls run now; a lock that `writing` gave out does not count as one.
        most_running: The most that ever ran at the same time.
        open_iterators: How many iterators of `iterate` have begun and neither ended nor been closed.

    Raises:
        ArgumentError: A method does not exist, or a delay or failure is none.

    Example:
        Count what one walk asks of a corpus:

        >>> from dataclasses import replace
        >>> from airw import build, from_mapping, traverse
        >>> from airw.policies import Eager
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "cake"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         store = ScriptedStore(corpus.store, delays={"best_of": 0.001})
        ...         async with traverse("keys", replace(corpus, store=store), policy=Eager()) as walk:
        ...             found = [hit.artifact_id async for hit in walk]
        ...     return found, store.calls["search_vectors"], store.calls["neighbors"]
        >>> anyio.run(main)
        (['a', 'b'], 1, 1)

        Let the second of its calls fail: `ScriptedStore(store, failures={"neighbors": [None, StoreError("gone")]})`.
    """

    def __init__(
        self,
        store: Store,
        *,
        delays: Delays | Mapping[str, Delays] = 0.0,
        failures: Mapping[str, Failures] | None = None,
    ) -> None:
        named = delays if isinstance(delays, Mapping) else dict.fromkeys({*_METHODS} - {"aclose"}, delays)
        unknown = sorted({*named, *(failures or {})} - set(_METHODS))
        if unknown:
            raise ArgumentError(f"a store has no method {unknown[0]!r}; it has {', '.join(_METHODS)}")
        self._store = store
        self._delays = {method: _seconds(delay) for method, delay in named.items()}
        self._failures = {method: _errors(failure) for method, failure in (failures or {}).items()}
        self.calls: Counter[str] = Counter()
        self.log: list[Call] = []
        self.running = self.most_running = self.open_iterators = 0

    def iterate(self, items: Iterable[T], *, delays: Delays = 0.0, failures: Failures = ()) -> "_Cursor[T]":
        """Return the items one by one, as a cursor does: with an `aclose`, and open from its first step on.

        Args:
            items: What to give; may be endless.
            delays: As of a method, one a step.
            failures: As of a method, one a step: `[None, None, error]` fails where the third item would come.

        Raises:
            ArgumentError: A delay or failure is none.

        Example:
            >>> from airw.stores import MemoryStore
            >>> async def main():
            ...     store = ScriptedStore(MemoryStore())
            ...     numbers = store.iterate(range(10))
            ...     first, while_open = await anext(numbers), store.open_iterators
            ...     await numbers.aclose()
            ...     return first, while_open, store.open_iterators
            >>> anyio.run(main)
            (0, 1, 0)
        """
        return _Cursor(self, items, _seconds(delays), _errors(failures))

    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - the protocol's
        """Hold the store for one builder; delay and failure come before the lock."""
        async with AsyncExitStack() as lock:
            async with self._call("writing", timeout=timeout):
                await lock.enter_async_context(self._store.writing(timeout=timeout))
            yield

    @asynccontextmanager
    async def _call(self, method: str, /, *arguments: Any, **options: Any) -> AsyncIterator[None]:
        """Count and log a call, and play its part of the script before the body."""
        self.calls[method] += 1
        self.log.append(Call(method, arguments, options))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await _play(self._delays.get(method), self._failures.get(method))
            yield
        finally:
            self.running -= 1


def _forward(method: str) -> Callable[..., Any]:
    """Return a method that plays its part of the script and then passes the call on."""
    declared = signature(getattr(Store, method))

    @wraps(getattr(Store, method))
    async def call(self: ScriptedStore, /, *arguments: Any, **options: Any) -> Any:
        given = declared.bind(self, *arguments, **options)
        given.apply_defaults()
        async with self._call(method, *given.args[1:], **given.kwargs):
            return await getattr(self._store, method)(*given.args[1:], **given.kwargs)

    return call


for _method in _METHODS:
    if _method != "writing":
        setattr(ScriptedStore, _method, _forward(_method))


class _Cursor(AsyncIterator[T]):
    """What `ScriptedStore.iterate` gives: an iterator that its store counts while it is open."""

    def __init__(
        self, store: ScriptedStore, items: Iterable[T], delays: Iterator[float], failures: Iterator[Exception | None]
    ) -> None:
        self._store, self._items, self._delays, self._failures = store, iter(items), delays, failures
        self._is_open: bool | None = None  # before the first step

    async def __anext__(self) -> T:
        """Return the next item, after its delay, unless its failure comes first."""
        if self._is_open is None:
            self._is_open = True
            self._store.open_iterators += 1
        if not self._is_open:
            raise StopAsyncIteration
        try:
            await _play(self._delays, self._failures)
            return next(self._items)
        except StopIteration:
            self._shut()
            raise StopAsyncIteration from None
        except Exception:
            self._shut()
            raise

    async def aclose(self) -> None:
        """Close it; twice is harmless."""
        self._shut()  # first, as a cancelled task closes too
        await anyio.lowlevel.checkpoint()

    def _shut(self) -> None:
        if self._is_open:
            self._store.open_iterators -= 1
        self._is_open = False


async def _play(delays: Iterator[float] | None, failures: Iterator[Exception | None] | None) -> None:
    """Wait as long as the script says, then fail if it says so; both are read before the wait, in order of calling."""
    delay, failure = next(delays or repeat(0.0)), next(failures or repeat(None))
    await anyio.sleep(delay)
    if failure is not None:
        raise failure


def _seconds(delays: Delays) -> Iterator[float]:
    """Return the delay of each call."""
    if callable(delays):
        return iter(delays, None)
    each = [delays] if isinstance(delays, int | float) else [*delays]
    bad = [delay for delay in each if not isinstance(delay, int | float) or not delay >= 0]
    if bad:
        raise ArgumentError(f"a delay must be a number of seconds of at least 0, not {bad[0]!r}")
    return repeat(delays) if isinstance(delays, int | float) else chain(each, repeat(0.0))


def _errors(failures: Failures) -> Iterator[Exception | None]:
    """Return the failure of each call; `None` for none."""
    each = [failures] if isinstance(failures, Exception) else [*failures]
    bad = [failure for failure in each if failure is not None and not isinstance(failure, Exception)]
    if bad:
        raise ArgumentError(f"a failure must be an exception, or None, not {bad[0]!r}")
    return repeat(failures) if isinstance(failures, Exception) else chain(each, repeat(None))
