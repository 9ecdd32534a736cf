"""Walks and streams in sync code."""

import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from types import EllipsisType, TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from airw import traversal, walking
from airw._base.background import background_loop, close, close_with_owner, run
from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw._base.signatures import convert_result
from airw.errors import ArgumentError
from airw.sync._wrapping import check_process
from airw.values import SearchHit
from airw.walking import Walk, WalkEvent, WalkPolicy, WalkSummary
from airw.walking.events import WalkEvents
from airw.walking.streams import Order
from airw.walking.walk import read_ready

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Output = TypeVar("Output")


class SyncWalk(Iterator[SearchHit]):
    """A walk for sync code: an iterator of hits, which `airw.sync.traverse` returns.

    Each step of the walk runs when its first hit is requested. Between two requests nothing runs, so you can leave the
    loop at any moment. A walk is closed at the end of its `with` block, or when it is dropped. Ctrl-C stops it. Several
    threads may share one walk: each hit goes to one of them. The hits of a step arrive together: summary and ranking
    of a walk that you left also count those of its last step that you did not take.

    Args:
        walk: Any walk, as functions such as `airw.links.walk_links` return it, before its first hit is requested.

    Example:
        >>> from airw import from_mapping, sync
        >>> from airw.stores import MemoryStore
        >>> source = from_mapping({"a": "signing keys", "b": "door keys"}, name="docs", embedder="light")
        >>> with sync.build(source, store=MemoryStore()) as corpus:
        ...     walk = sync.traverse("rotate the signing keys", corpus)
        ...     for hit in walk:
        ...         print(hit.artifact_id, walk.path(hit))
        ...     print(walk.summary.stop)
        a ['a']
        b ['b']
        exhausted
    """

    def __init__(self, walk: Walk) -> None:
        if not isinstance(walk, Walk):
            raise ArgumentError(
                f"SyncWalk takes an async walk, not {short_repr(walk)}; pass one, such as airw.views.walk_links returns"
            )
        self.walk = walk
        """The async walk, of which all properties may be read."""
        self._ready: Iterator[SearchHit] = iter(())
        self._lock = threading.Lock()
        self._loop = background_loop()
        close_with_owner(self, walk)

    def __next__(self) -> SearchHit:
        """Return the next hit.

        Raises:
            StopIteration: If the walk has ended.
            RuntimeError: If the walk is read as events.
            StoreError: If the process was forked since the walk was started.
        """
        with self._lock:
            hit = next(self._ready, None)
            if hit is None:
                # One request brings all hits of a step, because a change of threads costs more than most hits.
                self._check_process()
                self._ready = iter(run(read_ready, self.walk))
                hit = next(self._ready)
            return hit

    # The iterators below refer to this object, because a walk is closed when it is dropped.

    def _iterate_events(self, events: WalkEvents) -> Iterator[WalkEvent]:
        self._check_process()
        while ready := run(events.read_batch):
            yield from ready

    def _check_process(self) -> None:
        check_process(self._loop, "this walk was started", "start another one")

    @property
    def policy(self) -> WalkPolicy:
        """The policy of the walk."""
        return self.walk.policy

    @property
    def summary(self) -> WalkSummary | None:
        """Why the walk ended and how much it left out; `None` until it has ended."""
        return self.walk.summary

    @property
    def ranking(self) -> list[SearchHit] | None:
        """The hits in the policy's final order, best first; `None` until the walk has ended."""
        return self.walk.ranking

    def path(self, hit: SearchHit) -> list[Hashable]:
        """Return the ids of the nodes from the seed to a hit of this walk; see `airw.Walk.path`."""
        return self.walk.path(hit)

    def extend(
        self,
        *,
        node_budget: int | EllipsisType = ...,
        max_depth: int | EllipsisType | None = ...,
        timeout: float | EllipsisType | None = ...,
    ) -> Self:
        """Raise limits of a walk that has ended, and return it; see `airw.Walk.extend`."""
        self.walk.extend(node_budget=node_budget, max_depth=max_depth, timeout=timeout)
        self._loop.open.add(self.walk)  # its block may have ended
        return self

    def events(self, *, edges: bool = True) -> Iterator[WalkEvent]:
        """Return the walk as an iterator of events instead of hits; see `airw.Walk.events`."""
        return self._iterate_events(self.walk.events(edges=edges))

    def close(self) -> None:
        """Close the walk; closing it again does nothing."""
        self._check_process()
        close(self.walk)
        self._ready = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Stream(Protocol[Item_co]):
    """An async block whose items are read inside it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __aiter__(self) -> AsyncIterator[Item_co]: ...
    async def __anext__(self) -> Item_co: ...


class SyncStream(Iterator[Output], Generic[Output]):
    """The block that `airw.sync.prefetch`, `merge` and `discover_stream` return.

    Enter it with `with`, and iterate over it. The work goes on in the background until the block is left.
    """

    def __init__(
        self,
        stream: _Stream[Any],
        to_output: Callable[[Any], Output] = lambda item: item,
        walks: Sequence[SyncWalk] = (),
    ) -> None:
        self._stream, self._to_output = stream, to_output
        self._walks = walks  # a walk to which nobody refers is closed
        self._loop = background_loop()
        # One task enters and leaves the block, because its cancel scopes belong to that task.
        self._block = self._loop.portal.wrap_async_context_manager(stream)

    def __enter__(self) -> Self:
        self._check_process()
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._check_process()
        self._block.__exit__(kind, error, trace)

    def __next__(self) -> Output:
        """Return the next item; within the block only."""
        self._check_process()
        try:
            item = run(self._stream.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        return self._to_output(item)

    def _check_process(self) -> None:
        check_process(self._loop, "this block was made", "make another one")


traverse: Final = convert_result(traversal.traverse, SyncWalk)


def top_k(walk: SyncWalk, k: int = 10) -> list[SearchHit]:
    """Run a walk to its end, close it, and return the first `k` hits of its final ranking.

    Raises:
        ArgumentError: If `walk` is not a sync walk, or `k` is not a whole number of at least 0.

    Example:
        >>> from airw import from_mapping, sync
        >>> from airw.stores import MemoryStore
        >>> source = from_mapping({"a": "signing keys", "b": "cake"}, name="docs", embedder="light")
        >>> with sync.build(source, store=MemoryStore()) as corpus:
        ...     print([hit.artifact_id for hit in top_k(sync.traverse("cake", corpus), k=1)])
        ['b']
    """
    check_count("k", k)
    with _check_walk("top_k", walk):
        for _ in walk:
            pass
    return (walk.ranking or [])[:k]


def prefetch(walk: SyncWalk, *, buffer: int = 32) -> SyncStream[SearchHit]:
    """Run a walk ahead of its consumer while the block is open; see `airw.prefetch`.

    Example:
        >>> from airw import from_mapping, sync
        >>> from airw.stores import MemoryStore
        >>> source = from_mapping({"a": "signing keys"}, name="docs", embedder="light")
        >>> with sync.build(source, store=MemoryStore()) as corpus, prefetch(sync.traverse("keys", corpus)) as hits:
        ...     print([hit.artifact_id for hit in hits])
        ['a']
    """
    stream = walking.prefetch(_check_walk("prefetch", walk).walk, buffer=buffer)
    return SyncStream(stream, walks=[walk])


def merge(*walks: SyncWalk, buffer: int = 32, order: Order = "arrival") -> SyncStream[tuple[SyncWalk, SearchHit]]:
    """Run several walks at once and yield pairs `(walk, hit)`; see `airw.merge`.

    Example:
        >>> from airw import from_mapping, sync
        >>> from airw.stores import MemoryStore
        >>> source = from_mapping({"a": "signing keys"}, name="docs", embedder="light")
        >>> with sync.build(source, store=MemoryStore()) as corpus:
        ...     one, other = sync.traverse("keys", corpus), sync.traverse("signing", corpus)
        ...     with merge(one, other, order="turns") as pairs:
        ...         print([(walk is one, hit.artifact_id) for walk, hit in pairs])
        [(True, 'a'), (False, 'a')]
    """
    sync_walks = {id(_check_walk("merge", walk).walk): walk for walk in walks}
    stream = walking.merge(*(walk.walk for walk in walks), buffer=buffer, order=order)
    return SyncStream(stream, lambda pair: (sync_walks[id(pair[0])], pair[1]), walks)


def _check_walk(function: str, walk: SyncWalk) -> SyncWalk:
    if not isinstance(walk, SyncWalk):
        raise ArgumentError(
            f"{function} takes walks of airw.sync, not {short_repr(walk)}; pass what airw.sync.traverse returns"
        )
    return walk
