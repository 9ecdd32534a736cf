"""Reading what a policy offers, lazily and under the caps, and closing it within the step."""

from collections.abc import AsyncIterable, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import anyio

from airw._concurrency import Pacer, map_bounded
from airw.errors import PolicyError
from airw.limits import Limits
from airw.walk import Neighbors, Tally

_CLOSE_SECONDS = 1.0


class _Read(NamedTuple):
    """What was taken of one iterable; its size where it has one, else whether there was at least one more."""

    items: list[Any]
    size: int | None
    more: bool = False


@contextmanager
def stage(what: str, policy: object) -> Iterator[None]:
    """Note on any error where in the walk it happened; a stray `StopIteration` would end a loop silently otherwise."""
    where = f"{type(policy).__name__}.{what}"
    try:
        yield
    except (StopIteration, StopAsyncIteration) as error:
        raise PolicyError(f"{where} raised {type(error).__name__}; return instead") from error
    except RuntimeError as error:
        if isinstance(error.__cause__, StopIteration | StopAsyncIteration):
            raise PolicyError(f"{where} raised {type(error.__cause__).__name__}; return instead") from error
        error.add_note(f"raised in {where} during a walk")
        raise
    except Exception as error:
        error.add_note(f"raised in {where} during a walk")
        raise


async def read_one(source: Neighbors, cap: int) -> _Read:
    """Take at most `cap` items of one iterable, and close it."""
    if isinstance(source, list | tuple):
        return _Read(list(source[:cap]), len(source))
    if isinstance(source, AsyncIterable):
        return await _read_async(source, cap)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise PolicyError(f"a policy must offer an iterable or async iterable of nodes, not {source!r}")
    if isinstance(source, Sized):
        return _Read(list(islice(source, cap)), len(source))
    iterator = iter(source)
    try:
        items = list(islice(iterator, cap + 1))
    finally:
        if isinstance(iterator, Generator):
            iterator.close()
    return _Read(items[:cap], None, more=len(items) > cap)


async def _read_async(source: AsyncIterable[Any], cap: int) -> _Read:
    iterator, pacer = aiter(source), Pacer()
    items: list[Any] = []
    try:
        async for item in iterator:
            items.append(item)
            await pacer.pace()
            if len(items) > cap:
                break
    finally:
        aclose = getattr(iterator, "aclose", None)
        if aclose is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await aclose()
    return _Read(items[:cap], None, more=len(items) > cap)


async def read_seeds(source: Neighbors, limits: Limits, tally: Tally) -> list[Any]:
    """Take the seeds, at most `max_frontier` of them."""
    read = await read_one(source, limits.max_frontier)
    if read.size is not None:
        tally.refuse("max_frontier", read.size - len(read.items))
    elif read.more:
        tally.refuse("max_frontier", 1, at_least=True)
    return read.items


class NeighborReader:
    """Reads the answers of `expand` for one walk: at most `max_fanout` a node and `max_edges` in all."""

    def __init__(self, limits: Limits, tally: Tally) -> None:
        """Start with all edges to spend."""
        self._limits = limits
        self._tally = tally
        self._left = limits.max_edges

    async def read(self, answer: Sequence[Neighbors], count: int) -> list[list[Any]]:
        """Take the neighbours of `count` nodes, in request order; async iterables are read concurrently.

        Raises:
            PolicyError: The answer does not hold exactly one iterable a node.
        """
        sources = list(islice(answer, count + 1))
        if len(sources) != count:
            found = len(sources) if len(sources) < count else f"more than {count}"
            raise PolicyError(f"expand must give {count} iterables, one a committed node, not {found}")
        taken: list[list[Any]] = []
        pacer, width = Pacer(), self._limits.max_concurrency
        for start in range(0, count, width):
            group = sources[start : start + width]
            cap = min(self._limits.max_fanout, self._left)
            if any(isinstance(source, AsyncIterable) for source in group):
                reads = await map_bounded(lambda source: read_one(source, cap), group, limit=width)  # noqa: B023 (awaited here)
                taken += [self._take(read) for read in reads]
            else:
                for source in group:
                    cap = min(self._limits.max_fanout, self._left)
                    taken.append(self._take(await read_one(source, cap)))
            await pacer.pace()
        return taken

    def _take(self, read: _Read) -> list[Any]:
        """Charge one node's neighbours to the limits, in request order."""
        fanout = self._limits.max_fanout
        items = read.items[: self._left]
        if read.size is not None:
            within = min(read.size, fanout)
            self._tally.refuse("max_fanout", read.size - within)
            self._tally.refuse("max_edges", within - len(items))
        elif read.more or len(items) < len(read.items):
            self._tally.refuse("max_fanout" if len(items) == fanout else "max_edges", 1, at_least=True)
        self._left -= len(items)
        self._tally.edges += len(items)
        return items
