"""Functions that read the answers of a policy.

They check each answer, read it lazily and within the limits, and close it before the step ends.
"""

import sys
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence, Sized
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, cast

import anyio
import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import Pacer, map_bounded, offload_if
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw.errors import PolicyError
from airw.values import HitBatch, Limits
from airw.walking.columns import Columns
from airw.walking.committed import CommittedNode
from airw.walking.numbered import is_number_array
from airw.walking.policy import LazyNeighbors, Neighbors
from airw.walking.record import WalkRecord
from airw.walking.slips import is_iterable
from airw.walking.summary import WalkCounts

T = TypeVar("T")
Positions = NDArray[np.intp]
SLICE_SIZE = 512  # nodes that are selected or committed at once; other work can run between two slices
_CLOSE_SECONDS = 1.0  # how long the clean-up of an async iterator may take after a cancellation
_NODES_PER_PORTION = 4_096
_LONG = 20_000  # handling an array of this length takes about a millisecond
_copy = itemgetter(slice(None))
_PLAIN_TYPES = frozenset({list, tuple})
_LIST_TYPES = _PLAIN_TYPES | {LazyNeighbors}


class _ReadResult(NamedTuple):
    """The items read from one iterable.

    `size` is its length, `None` if it has none; `more` is then True if at least one item was left unread.
    """

    items: list[Any]
    size: int | None
    more: bool = False


class ReadColumns(NamedTuple):
    """The neighbours read from an answer in columns.

    `counts` has the number of neighbours of each committed node, `places` their places in the answer; `None` for all.
    """

    counts: Positions
    places: Positions | None


def read_exactly(answer: Iterable[T], count: int, method: str, policy: object) -> list[T]:
    """Return the items of an answer that must contain exactly `count` items.

    An endless answer is read no further than that.

    Raises:
        PolicyError: If it contains fewer or more items, or is no iterable.
    """
    if type(answer) is list and len(answer) == count:
        return answer[:]
    where = f"{type(policy).__name__}.{method}"
    required = f"return a list with one item per committed node ({count})"
    if not is_iterable(answer) or isinstance(answer, str | bytes):
        raise PolicyError(f"{where} returned {short_repr(answer)}; {required}")
    items = list(islice(answer, count + 1))
    if len(items) != count:
        actual = len(items) if len(items) < count else f"more than {count}"
        raise PolicyError(f"{where} returned {actual} items; {required}")
    return items


def check_batch(batch: HitBatch, count: int, policy: object) -> None:
    """Check that a batch has one row per committed node, and a number as each score.

    Raises:
        PolicyError: If it does not.
    """
    where = f"{type(policy).__name__}.to_hits returned a HitBatch"
    for name in ("artifact_ids", "surface_kinds", "scores", "texts", "sources", "surface_indexes"):
        column = getattr(batch, name)
        if column is not None and not isinstance(column, str) and len(column) != count:
            raise PolicyError(f"{where} with {len(column)} {name}; return one per committed node ({count})")
    if not (isinstance(batch.scores, np.ndarray) and batch.scores.dtype.kind in "iuf" and batch.scores.ndim == 1):
        raise PolicyError(f"{where} with scores {short_repr(batch.scores)}; return an array of numbers")


async def read_selection(selection: Iterable[Any], record: WalkRecord, policy: object) -> Positions:
    """Read the positions that a policy selected, without duplicates.

    At most as many are read as nodes wait, so an endless selection ends too.

    Raises:
        PolicyError: If they are not positions, or one of them is not live.
    """
    if is_number_array(selection):
        positions = np.asarray(selection)[: record.waiting_count].astype(np.intp, copy=False)
        return await offload_if(len(positions) > _LONG, record.check_selection, positions)
    answer = selection.tolist() if isinstance(selection, np.ndarray) else selection
    if not is_iterable(answer):
        raise PolicyError(f"{type(policy).__name__}.select returned {short_repr(answer)}; return a list of positions")
    parts, items, pacer = [np.empty(0, np.intp)], islice(answer, record.waiting_count), Pacer()
    while part := list(islice(items, SLICE_SIZE)):
        parts.append(record.to_positions(part))
        await pacer.pace()
    positions = np.concatenate(parts)
    return await offload_if(len(positions) > _LONG, record.check_selection, positions)


async def read_items(source: Neighbors, cap: int, method: str, policy: object) -> _ReadResult:
    """Read at most `cap` items of one iterable or async iterable, and close it.

    Raises:
        PolicyError: If the answer is neither.
    """
    cap = min(cap, sys.maxsize - 1)
    if isinstance(source, AsyncIterable):
        return await _read_async(source, cap)
    if isinstance(source, str | bytes) or not is_iterable(source):
        where = f"{type(policy).__name__}.{method}"
        each = " for each committed node" if method == "expand" else ""
        raise PolicyError(f"{where} returned {short_repr(source)}; return an iterable or async iterable of nodes{each}")
    if isinstance(source, Sized):
        return _ReadResult(list(islice(source, cap)), len(source))
    # An iterator has no length: one item more shows whether the cap left something out.
    iterator = iter(source)
    try:
        items = list(islice(iterator, cap + 1))
    finally:
        close = getattr(iterator, "close", None)
        if callable(close):
            close()
    return _ReadResult(items[:cap], None, more=len(items) > cap)


async def _read_async(source: AsyncIterable[Any], cap: int) -> _ReadResult:
    iterator, pacer = aiter(source), Pacer()
    items: list[Any] = []
    try:
        while len(items) <= cap:
            items.append(await anext(iterator))
            await pacer.pace()
    except StopAsyncIteration:
        pass
    finally:
        # The iterator may hold a connection: its clean-up runs even if the step was cancelled, but not for ever.
        aclose = getattr(iterator, "aclose", None)
        if aclose is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await aclose()
    return _ReadResult(items[:cap], None, more=len(items) > cap)


async def read_seeds(source: Neighbors, policy: object, limits: Limits, counts: WalkCounts) -> list[Any]:
    """Read the seeds, at most `max_frontier` of them."""
    result = await read_items(source, limits.max_frontier, "seed", policy)
    if result.size is not None:
        counts.refuse("max_frontier", result.size - len(result.items))
    elif result.more:
        counts.refuse("max_frontier", 1, at_least=True)
    return result.items


class NeighborReader:
    """Reads the answers of `expand` for one walk.

    It reads at most `max_fanout` neighbours per node and `max_edges` in all.
    """

    def __init__(self, policy: object, limits: Limits, counts: WalkCounts) -> None:
        """Start with all edges unread."""
        self._policy = policy
        self._limits = limits
        self._counts = counts
        self._edges_left = limits.max_edges

    def read_columns(self, answer: Columns, count: int) -> "ReadColumns":
        """Return the neighbours of `count` committed nodes from an answer in columns.

        Raises:
            PolicyError: If its offsets do not fit.
        """
        sizes, highest = _read_sizes(answer, count, self._policy)
        total = len(answer.ids)
        if total <= self._edges_left and highest <= self._limits.max_fanout:
            self._edges_left -= total
            self._counts.edges += total
            return ReadColumns(sizes, None)
        # 1. Of each node `max_fanout` neighbours, in the order of the nodes, while there is room for edges.
        within = np.minimum(sizes, self._limits.max_fanout)
        read = np.clip(self._edges_left - (np.cumsum(within) - within), 0, within)
        self._counts.refuse("max_fanout", int((sizes - within).sum()))
        self._counts.refuse("max_edges", int((within - read).sum()))
        # 2. The first of each node's neighbours are read.
        rank = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = np.flatnonzero(rank < np.repeat(read, sizes))
        self._edges_left -= len(places)
        self._counts.edges += len(places)
        return ReadColumns(read, places)

    async def read_in_row(
        self, sources: Sequence[Neighbors], entries: Sequence[CommittedNode]
    ) -> tuple[list[Any], list[int]]:
        """Return the neighbours of all nodes in a row, and how many each node has; see `read`."""
        if _PLAIN_TYPES.issuperset(map(type, sources)):
            sizes: list[int] = list(map(len, sources))  # type: ignore[arg-type]
            if sum(sizes) < _NODES_PER_PORTION and self._takes_all(sizes):
                return list(chain.from_iterable(sources)), sizes  # type: ignore[arg-type]
        neighbors = await self.read(sources, entries)
        return list(chain.from_iterable(neighbors)), list(map(len, neighbors))

    def _takes_all(self, sizes: Sequence[int]) -> bool:
        """Charge the neighbours of some nodes to the limits, if that leaves none of them out."""
        total = sum(sizes)
        fits = max(sizes, default=0) <= self._limits.max_fanout and total <= self._edges_left
        if fits:
            self._edges_left -= total
            self._counts.edges += total
        return fits

    async def read(self, sources: Sequence[Neighbors], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        """Return the neighbours of each committed node, in the order of `entries`.

        Async iterables are read concurrently. If reading is cancelled, nothing counts as read.

        Raises:
            PolicyError: If an answer is no iterable of nodes.
        """
        left, counts = self._edges_left, self._counts
        edges, left_out, at_least = counts.edges, dict(counts.left_out), set(counts.at_least)
        try:
            return await self._read_all(sources, entries)
        except anyio.get_cancelled_exc_class():
            self._edges_left, counts.edges, counts.left_out, counts.at_least = left, edges, left_out, at_least
            raise

    async def _read_all(self, sources: Sequence[Neighbors], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        are_lists = _LIST_TYPES.issuperset(map(type, sources))
        neighbors: list[list[Any]] = []
        pacer, width = Pacer(), self._limits.max_concurrency
        for part in _split_portions(sources) if are_lists else _split_slices(len(sources), width):
            group, owners = sources[part], entries[part]
            neighbors += self._read_lists(group, owners) if are_lists else await self._read_group(group, owners)
            await pacer.pace()
        return neighbors

    async def _read_group(self, group: Sequence[Neighbors], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        pairs = list(zip(group, entries, strict=True))
        if any(isinstance(source, AsyncIterable) for source in group):
            results = await map_bounded(self._read_source, pairs, limit=self._limits.max_concurrency)
            return [self._charge(result) for result in results]
        return [self._charge(await self._read_source(pair)) for pair in pairs]

    async def _read_source(self, pair: tuple[Neighbors, CommittedNode]) -> _ReadResult:
        source, entry = pair
        try:
            return await read_items(source, min(self._limits.max_fanout, self._edges_left), "expand", self._policy)
        except Exception as error:
            add_note(error, f"for node {short_repr(entry.node)}")
            raise

    def _charge(self, result: _ReadResult) -> list[Any]:
        """Charge the neighbours of one node to the limits, and return those that are within them.

        Called in the order of the nodes, not of arrival, so that concurrency does not change what is left out.
        """
        items = result.items[: self._edges_left]
        if result.size is not None:
            self._count_unread(result.size, len(items))
        elif result.more or len(items) < len(result.items):
            at_fanout = len(items) == self._limits.max_fanout
            self._counts.refuse("max_fanout" if at_fanout else "max_edges", 1, at_least=True)
        self._edges_left -= len(items)
        self._counts.edges += len(items)
        return items

    def _read_lists(self, sources: Sequence[Any], entries: Sequence[CommittedNode]) -> list[list[Any]]:
        """Read and charge lists, tuples and lazy neighbours, whose lengths are known beforehand.

        They are copied, because their owner may change them later.
        """
        sizes, neighbors = list(map(len, sources)), cast("list[list[Any]]", [])
        fits = max(sizes, default=0) <= self._limits.max_fanout and sum(sizes) <= self._edges_left
        try:
            neighbors += map(_copy, sources) if fits else map(self._read_list, sources, sizes)
        except Exception as error:
            add_note(error, f"for node {short_repr(entries[len(neighbors)].node)}")
            raise
        if len(neighbors) < len(sources):
            raise StopIteration  # a source raised it, and `map` ended early; `label_errors` reports it
        if fits:
            self._takes_all(sizes)
        return neighbors

    def _read_list(self, source: Any, size: int) -> list[Any]:
        return self._charge(_ReadResult(list(source[: min(self._limits.max_fanout, self._edges_left)]), size))

    def _count_unread(self, size: int, read: int) -> None:
        within_fanout = min(size, self._limits.max_fanout)
        self._counts.refuse("max_fanout", size - within_fanout)
        self._counts.refuse("max_edges", within_fanout - read)


def _read_sizes(answer: Columns, count: int, policy: object) -> tuple[Positions, int]:
    """Return how many neighbours each node has, and the most of one node.

    Raises:
        PolicyError: If the offsets do not fit.
    """
    offsets = answer.offsets
    if not is_number_array(offsets) or len(offsets) != count + 1:
        raise PolicyError(
            f"{type(policy).__name__}.expand returned Columns with offsets {short_repr(offsets)}; return an integer "
            f"array of {count + 1}, one more than there are committed nodes"
        )
    offsets = offsets.astype(np.intp, copy=False)
    sizes: Positions = offsets[1:] - offsets[:-1]
    # As an unsigned number, a negative size is too high.
    highest = int(np.maximum.reduce(sizes.view(np.uintp))) if count else 0
    if offsets[0] != 0 or offsets[-1] != len(answer.ids) or highest > len(answer.ids):
        raise PolicyError(
            f"{type(policy).__name__}.expand returned Columns with offsets {short_repr(offsets)}; they must rise "
            f"from 0 to the number of ids ({len(answer.ids)})"
        )
    return sizes, highest


def to_lists(answer: Columns | list[Neighbors], count: int, policy: object) -> Sequence[Neighbors]:
    """Return the neighbours of each of `count` committed nodes as a list.

    Raises:
        PolicyError: If the offsets of an answer in columns do not fit.
    """
    if not isinstance(answer, Columns):
        return answer
    _read_sizes(answer, count, policy)
    offsets = answer.offsets.tolist()
    ids = answer.ids.tolist() if isinstance(answer.ids, np.ndarray) else answer.ids
    return [ids[start:end] for start, end in pairwise(offsets)]


def _split_portions(lists: Sequence[Any]) -> Iterator[slice]:
    """Yield slices of `lists` that take about a millisecond to read; no list is split."""
    start, room = 0, _NODES_PER_PORTION
    for end, items in enumerate(lists, 1):
        room -= len(items) + 1
        if room <= 0 or end == len(lists):
            yield slice(start, end)
            start, room = end, _NODES_PER_PORTION


def _split_slices(count: int, width: int) -> Iterator[slice]:
    return (slice(start, start + width) for start in range(0, count, width))
