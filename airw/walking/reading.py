"""Reading what a policy answers: checked, lazily, under the caps, and closed within the step."""

import inspect
import sys
from collections.abc import AsyncIterable, Awaitable, Hashable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

import anyio
import numpy as np

from airw._base.concurrency import Pacer, map_bounded
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import Limits
from airw.walking.policy import CommittedNode, LazyNeighbors, Neighbors
from airw.walking.record import WalkRecord
from airw.walking.summary import WalkCounts

T = TypeVar("T")
SLICE = 512
_CLOSE_SECONDS = 1.0
_NODES_PER_PORTION = 4_096
_all_of = itemgetter(slice(None))
_LISTS = frozenset({list, tuple, LazyNeighbors})


class _Read(NamedTuple):
    """What was taken of one iterable; its size where it has one, else whether there was at least one more."""

    items: list[Any]
    size: int | None
    more: bool = False


class stage:  # noqa: N801 (a context manager, read as a verb)
    """Note on any error where in the walk it happened; a stray `StopIteration` would end a loop silently otherwise."""

    __slots__ = ("_policy", "_what")

    def __init__(self, what: str, policy: object) -> None:
        """Name the method of the policy that is about to be called."""
        self._what, self._policy = what, policy

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Add the note, or turn a stray `StopIteration` into a `PolicyError`."""
        if isinstance(error, Exception):
            explain(error, self._what, self._policy)


def explain(error: Exception, what: str, policy: object, *nodes: Any) -> None:
    """Note on an error which method of the policy it came from, and about which node.

    Raises:
        PolicyError: It is a stray `StopIteration` or `StopAsyncIteration`.
    """
    where = f"{type(policy).__name__}.{what}"
    stray = error.__cause__ if isinstance(error, RuntimeError) else error
    if isinstance(stray, StopIteration | StopAsyncIteration):
        raise PolicyError(f"{where} raised {type(stray).__name__}; return instead") from error
    if not any(note.startswith("raised in") for note in getattr(error, "__notes__", ())):  # the innermost says it
        error.add_note(f"raised in {where} during a walk" + "".join(f", for node {short_repr(node)}" for node in nodes))


async def awaited(method: str, policy: object, answer: Awaitable[T]) -> T:
    """Return what a method of a policy returns once it is awaited.

    Raises:
        PolicyError: It cannot be awaited.
    """
    if not inspect.isawaitable(answer):
        where = f"{type(policy).__name__}.{method}"
        raise PolicyError(f"{where} must be an `async def` that returns; {short_repr(answer)} cannot be awaited")
    return await answer


def plain(method: str, policy: object, answer: T) -> T:
    """Return what a method of a policy returns at once.

    Raises:
        PolicyError: It would have to be awaited.
    """
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise PolicyError(f"{type(policy).__name__}.{method} must be a plain function, not an `async def`")
    return answer


def exactly(answer: Iterable[T], count: int, what: str) -> list[T]:
    """Give the items of an answer that must hold exactly `count`, reading no more than that and one.

    Raises:
        PolicyError: It holds fewer or more, or cannot be iterated over.
    """
    if not isinstance(answer, Iterable):
        raise PolicyError(f"{what} must give {count} answers, one a committed node, not {short_repr(answer)}")
    items = list(islice(answer, count + 1))
    if len(items) != count:
        found = len(items) if len(items) < count else f"more than {count}"
        raise PolicyError(f"{what} must give {count} answers, one a committed node, not {found}")
    return items


async def read_selection(picked: Iterable[Any], record: WalkRecord) -> list[int]:
    """Read the positions that a policy selected: at most as many as there are live entries, each once.

    Raises:
        PolicyError: They are not positions, or one is not live.
    """
    positions = picked.tolist() if isinstance(picked, np.ndarray) else picked
    if not isinstance(positions, Iterable):
        raise PolicyError(f"select must give positions, not {short_repr(positions)}")
    chosen: dict[Hashable, int] = {}
    items, pacer = islice(positions, record.waiting_count), Pacer()
    while part := list(islice(items, SLICE)):
        record.choose(part, chosen)
        await pacer.pace()
    return list(chosen.values())


async def read_one(source: Neighbors, cap: int) -> _Read:
    """Take at most `cap` items of one iterable, and close it."""
    cap = min(cap, sys.maxsize - 1)
    if isinstance(source, AsyncIterable):
        return await _read_async(source, cap)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise PolicyError(f"a policy must offer an iterable or async iterable of nodes, not {short_repr(source)}")
    if isinstance(source, Sized):
        return _Read(list(islice(source, cap)), len(source))
    iterator = iter(source)
    try:
        items = list(islice(iterator, cap + 1))
    finally:
        close = getattr(iterator, "close", None)
        if callable(close):
            close()
    return _Read(items[:cap], None, more=len(items) > cap)


async def _read_async(source: AsyncIterable[Any], cap: int) -> _Read:
    iterator, pacer = aiter(source), Pacer()
    items: list[Any] = []
    try:
        while len(items) <= cap:
            items.append(await anext(iterator))
            await pacer.pace()
    except StopAsyncIteration:
        pass
    finally:
        aclose = getattr(iterator, "aclose", None)
        if aclose is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await aclose()
    return _Read(items[:cap], None, more=len(items) > cap)


async def read_seeds(source: Neighbors, limits: Limits, tally: WalkCounts) -> list[Any]:
    """Take the seeds, at most `max_frontier` of them."""
    read = await read_one(source, limits.max_frontier)
    if read.size is not None:
        tally.refuse("max_frontier", read.size - len(read.items))
    elif read.more:
        tally.refuse("max_frontier", 1, at_least=True)
    return read.items


class NeighborReader:
    """Reads the answers of `expand` for one walk: at most `max_fanout` a node and `max_edges` in all."""

    def __init__(self, limits: Limits, tally: WalkCounts) -> None:
        """Start with all edges to spend."""
        self._limits = limits
        self._tally = tally
        self._left = limits.max_edges

    async def read(self, offers: Sequence[Neighbors], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        """Take the neighbours of each entry, in request order; async iterables are read concurrently.

        Raises:
            PolicyError: One is no iterable of nodes.
        """
        are_lists = _LISTS.issuperset(map(type, offers))
        taken: list[list[Any]] = []
        pacer, width = Pacer(), self._limits.max_concurrency
        for part in _portions(offers) if are_lists else _slices(len(offers), width):
            group, owners = offers[part], entries[part]
            taken += self._take_lists(group, owners) if are_lists else await self._read_group(group, owners)
            await pacer.pace()
        return taken

    async def _read_group(self, group: Sequence[Neighbors], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        offers = list(zip(group, entries, strict=True))
        if any(isinstance(source, AsyncIterable) for source in group):
            read = await map_bounded(self._read, offers, limit=self._limits.max_concurrency)
            return [self._take(each) for each in read]
        return [self._take(await self._read(offer)) for offer in offers]

    async def _read(self, offer: tuple[Neighbors, CommittedNode]) -> _Read:
        source, entry = offer
        try:
            return await read_one(source, min(self._limits.max_fanout, self._left))
        except Exception as error:
            error.add_note(f"for node {short_repr(entry.node)}")
            raise

    def _take(self, read: _Read) -> list[Any]:
        """Charge one node's neighbours to the limits, in request order."""
        items = read.items[: self._left]
        if read.size is not None:
            self._refuse(read.size, len(items))
        elif read.more or len(items) < len(read.items):
            at_fanout = len(items) == self._limits.max_fanout
            self._tally.refuse("max_fanout" if at_fanout else "max_edges", 1, at_least=True)
        self._left -= len(items)
        self._tally.edges += len(items)
        return items

    def _take_lists(self, sources: Sequence[Any], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        """Do the same for what are lists, or made as such: copies of them, as their owner may change them."""
        sizes, taken = list(map(len, sources)), cast("list[list[Any]]", [])
        fits = max(sizes, default=0) <= self._limits.max_fanout and sum(sizes) <= self._left
        try:
            taken += map(_all_of, sources) if fits else map(self._take_part, sources, sizes)
        except Exception as error:
            error.add_note(f"for node {short_repr(entries[len(taken)].node)}")
            raise
        if len(taken) < len(sources):
            raise StopIteration  # which `map` took for the end
        if fits:
            self._left -= sum(sizes)
            self._tally.edges += sum(sizes)
        return taken

    def _take_part(self, source: Any, size: int) -> list[Any]:
        return self._take(_Read(list(source[: min(self._limits.max_fanout, self._left)]), size))

    def _refuse(self, size: int, taken: int) -> None:
        within = min(size, self._limits.max_fanout)
        self._tally.refuse("max_fanout", size - within)
        self._tally.refuse("max_edges", within - taken)


def _portions(lists: Sequence[Any]) -> Iterator[slice]:
    """Part lists so that what is in each portion is made in about a millisecond, but for a long list."""
    start, room = 0, _NODES_PER_PORTION
    for end, each in enumerate(lists, 1):
        room -= len(each) + 1
        if room <= 0 or end == len(lists):
            yield slice(start, end)
            start, room = end, _NODES_PER_PORTION


def _slices(count: int, width: int) -> Iterator[slice]:
    return (slice(start, start + width) for start in range(0, count, width))
