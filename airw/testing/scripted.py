"""A store with scripted delays and failures that counts and logs its calls."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial, wraps
from inspect import signature
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from airw.errors import ArgumentError
from airw.protocols import AdjacencyReader, LanguageKeeper, SchemaReader, Store, TermStatistics

if TYPE_CHECKING:  # the methods are added below the class; a checker takes them from a store that has them all
    from airw.stores import MemoryStore as _TypedStore
else:
    _TypedStore = object

T = TypeVar("T")

Delays: TypeAlias = float | Sequence[float] | Callable[[], float]
"""Delays in seconds: a number for all calls, a list for the first calls, or a function called for each call."""
Failures: TypeAlias = Exception | Sequence[Exception | None]
"""Errors: one for all calls, or a list for the first calls, in which `None` lets a call succeed."""


class _ScriptableStore(AdjacencyReader, TermStatistics, LanguageKeeper, SchemaReader, Store, Protocol):
    """A store with all methods that a script may name."""


_METHODS = tuple(name for name in dir(_ScriptableStore) if not name.startswith("_"))
_OPTIONAL_METHODS = (
    "term_statistics",
    "language",
    "set_language",
    "surface_kinds",
    "has_fields",
    "field_names",
    "artifact_numbers",
    "neighbor_columns",
)


class Call(NamedTuple):
    """A call of a store: the method, its positional arguments and its keyword arguments."""

    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class ScriptedStore(_TypedStore):
    """A `Store` that passes its calls on to another store, with scripted delays and failures.

    Each call is counted and logged when it begins. It then waits for its delay (0 seconds is still a checkpoint), and
    fails or is passed on. A cancelled call stops counting as running at once. With a delay of `math.inf`, a call hangs
    until it is cancelled.

    Args:
        store: The store that answers. It is closed with this one.
        delays: For all methods except `aclose`, or by method name. Methods that are not named do not wait.
        failures: By method name. Methods that are not named do not fail. The same exception object is raised.

    Attributes:
        calls: The number of calls by method.
        log: All calls, in the order in which they began.
        running: The number of calls that run now. Holding the lock of `writing` does not count as a call.
        most_running: The largest number of calls that ran at the same time.
        open_iterators: The number of iterators of `iterate` that are open: begun, but neither at their end nor closed.

    Raises:
        ArgumentError: If a method does not exist, or a delay or failure is not valid.

    Example:
        Count the calls of one walk:

        >>> from dataclasses import replace
        >>> from airw import build, from_mapping, traverse
        >>> from airw.policies import Eager
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "cake"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         store = ScriptedStore(corpus.store, delays={"best_of": 0.001})
        ...         async with traverse("keys", replace(corpus, store=store), policy=Eager()) as walk:
        ...             ids = [hit.artifact_id async for hit in walk]
        ...     return ids, store.calls["search_vectors"], store.calls["neighbors"]
        >>> anyio.run(main)
        (['a', 'b'], 1, 1)

        Make the second call of `neighbors` fail:
        `ScriptedStore(store, failures={"neighbors": [None, StoreError("disk full")]})`.
    """

    def __init__(
        self,
        store: Store,
        *,
        delays: Delays | Mapping[str, Delays] = 0.0,
        failures: Mapping[str, Failures] | None = None,
    ) -> None:
        by_method = delays if isinstance(delays, Mapping) else dict.fromkeys({*_METHODS} - {"aclose"}, delays)
        unknown = sorted({*by_method, *(failures or {})} - set(_METHODS))
        if unknown:
            raise ArgumentError(f"a store has no method {unknown[0]!r}; it has {', '.join(_METHODS)}")
        self._store = store
        self._delays = {method: _to_delays(delay) for method, delay in by_method.items()}
        self._failures = {method: _to_failures(failure) for method, failure in (failures or {}).items()}
        self.calls: Counter[str] = Counter()
        self.log: list[Call] = []
        self.running: int = 0
        self.most_running: int = 0
        self.open_iterators: int = 0
        # Attributes, as since Python 3.12 `isinstance` with a protocol finds nothing that `__getattr__` returns.
        vars(self).update({m: partial(_forward(m), self) for m in _OPTIONAL_METHODS if hasattr(store, m)})

    def iterate(self, items: Iterable[T], *, delays: Delays = 0.0, failures: Failures = ()) -> "_ScriptedIterator[T]":
        """Return an async iterator over the items, such as a database cursor is.

        It has an `aclose`, and is open from its first step to its end.

        Args:
            items: The items to yield; may be infinite.
            delays: As for a method, one per step.
            failures: As for a method, one per step. `[None, None, error]` fails instead of yielding the third item.

        Raises:
            ArgumentError: If a delay or failure is not valid.

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
        return _ScriptedIterator(self, items, _to_delays(delays), _to_failures(failures))

    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - the protocol's
        """Lock the store for one builder; delay and failure come before the lock."""
        async with AsyncExitStack() as lock:
            async with self._call("writing", timeout=timeout):
                await lock.enter_async_context(self._store.writing(timeout=timeout))
            yield

    @asynccontextmanager
    async def _call(self, method: str, /, *arguments: Any, **options: Any) -> AsyncIterator[None]:
        """Count and log a call, then wait or fail as the script says, then run the body."""
        self.calls[method] += 1
        self.log.append(Call(method, arguments, options))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await _follow_script(self._delays.get(method), self._failures.get(method))
            yield
        finally:
            self.running -= 1


def _forward(method: str) -> Callable[..., Any]:
    """Return a method that follows the script and then passes the call on."""
    declared = signature(getattr(_ScriptableStore, method))

    @wraps(getattr(_ScriptableStore, method))
    async def call(self: ScriptedStore, /, *arguments: Any, **options: Any) -> Any:
        # Log every call in the same form: the defaults of the protocol filled in, as the protocol orders them.
        bound = declared.bind(self, *arguments, **options)
        bound.apply_defaults()
        # An option of an optional capability: a store without it does not know the name.
        if bound.kwargs.get("statistics", bound) is None:
            del bound.arguments["statistics"]
        async with self._call(method, *bound.args[1:], **bound.kwargs):
            return await getattr(self._store, method)(*bound.args[1:], **bound.kwargs)

    return call


for _method in _METHODS:
    if _method not in ("writing", *_OPTIONAL_METHODS):
        setattr(ScriptedStore, _method, _forward(_method))


class _ScriptedIterator(AsyncIterator[T]):
    """An iterator of `ScriptedStore.iterate`, which its store counts while it is open."""

    def __init__(
        self, store: ScriptedStore, items: Iterable[T], delays: Iterator[float], failures: Iterator[Exception | None]
    ) -> None:
        self._store, self._items, self._delays, self._failures = store, iter(items), delays, failures
        self._is_open: bool | None = None  # None before the first step

    async def __anext__(self) -> T:
        """Wait for the delay of this step, then return the next item or raise the failure."""
        if self._is_open is None:
            self._is_open = True
            self._store.open_iterators += 1
        if not self._is_open:
            raise StopAsyncIteration
        try:
            await _follow_script(self._delays, self._failures)
            return next(self._items)
        except StopIteration:
            self._mark_closed()
            raise StopAsyncIteration from None
        except Exception:
            self._mark_closed()
            raise

    async def aclose(self) -> None:
        """Close the iterator; closing it again does nothing."""
        self._mark_closed()  # before the checkpoint, which raises in a cancelled task
        await anyio.lowlevel.checkpoint()

    def _mark_closed(self) -> None:
        if self._is_open:
            self._store.open_iterators -= 1
        self._is_open = False


async def _follow_script(delays: Iterator[float] | None, failures: Iterator[Exception | None] | None) -> None:
    """Wait for the next delay, then raise the next failure if there is one."""
    # Take both before the wait: concurrent calls get them in the order in which they began.
    delay, failure = next(delays or repeat(0.0)), next(failures or repeat(None))
    await anyio.sleep(delay)
    if failure is not None:
        raise failure


def _to_delays(delays: Delays) -> Iterator[float]:
    """Return an iterator over the delays of all calls."""
    if callable(delays):
        return iter(delays, None)
    listed = [delays] if isinstance(delays, int | float) else [*delays]
    bad = [delay for delay in listed if not isinstance(delay, int | float) or not delay >= 0]
    if bad:
        raise ArgumentError(f"a delay must be a number of seconds of at least 0, not {bad[0]!r}")
    return repeat(delays) if isinstance(delays, int | float) else chain(listed, repeat(0.0))


def _to_failures(failures: Failures) -> Iterator[Exception | None]:
    """Return an iterator over the failures of all calls; `None` for a call that succeeds."""
    listed = [failures] if isinstance(failures, Exception) else [*failures]
    bad = [failure for failure in listed if failure is not None and not isinstance(failure, Exception)]
    if bad:
        raise ArgumentError(f"a failure must be an exception or None, not {bad[0]!r}")
    return repeat(failures) if isinstance(failures, Exception) else chain(listed, repeat(None))
