"""A whole graph at once: its edges as numbers, what hangs together, what goes round in circles."""

import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread
from airw.errors import ArgumentError
from airw.links._path_search import PAGE
from airw.links.paths import LinkCycle
from airw.protocols import LinkReader, Store
from airw.values import Edge, LinkFilter

R = TypeVar("R")
Ints: TypeAlias = NDArray[np.int32]
Slices: TypeAlias = Generator[None, None, R]

_SLICE = 0.02  # seconds of work that a cancelled caller may have to wait for
_OFTEN = 256  # rounds between two looks at the clock


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTable:
    """The distinct pairs of artifacts that links lead between, by position.

    Args:
        ids: All artifacts, in the order of the store.
        sources: `(n,) int32`, ascending: where each pair begins.
        targets: `(n,) int32`: where it ends; ascending for each source.
    """

    ids: Sequence[Any]
    sources: Ints
    targets: Ints

    def rows(self) -> tuple[Ints, Ints]:
        """Give the targets of all artifacts one after another, and where those of each begin and end."""
        return self.targets, _bounds(self.sources, len(self.ids))


async def read_edges(store: Store, chosen: LinkFilter) -> EdgeTable:
    """Read all edges between artifacts of a store, in pages.

    Raises:
        ArgumentError: The store cannot list its artifacts.
    """
    if not hasattr(store, "artifact_ids"):
        raise ArgumentError(
            f"{type(store).__name__} has no artifact_ids: a whole graph needs a store that lists its own"
        )
    ids: list[Any] = list(await store.artifact_ids())
    places = await in_thread(_places, ids)
    pages = []
    for at in range(0, len(ids), PAGE):
        edges = await store.neighbors(ids[at : at + PAGE], direction="out", **chosen.options())
        pages.append(await in_thread(_pairs, at, edges, places))
    return EdgeTable(ids, *(await in_thread(np.concatenate, pages, 1) if pages else np.empty((2, 0), np.int32)))


def _places(ids: Sequence[Any]) -> dict[Any, int]:
    return {id: place for place, id in enumerate(ids)}


def _pairs(at: int, edges: Sequence[Sequence[Edge]], places: dict[Any, int]) -> Ints:
    """Give pairs of places, `(2, n)`; a target that is not here is of another corpus, or was just now removed."""
    rows = (
        (source, target)
        for source, each in enumerate(edges, at)
        for target in sorted({places[edge.target] for edge in each if edge.target in places})
    )
    return np.array([*rows], np.int32).reshape(-1, 2).T


def _bounds(ascending: Ints, count: int) -> Ints:
    bounds: Ints = np.searchsorted(ascending, np.arange(count + 1)).astype(np.int32)
    return bounds


async def sliced(work: Slices[R]) -> R:
    """Do work that pauses now and then in worker threads, some milliseconds in each: it can be cancelled between."""
    while True:
        done = await in_thread(_advance, work)
        if done:
            return done[0]


def _advance(work: Slices[R]) -> tuple[R] | None:
    end = time.perf_counter() + _SLICE
    while time.perf_counter() < end:
        try:
            next(work)
        except StopIteration as stop:
            return (stop.value,)
    return None


async def components_of(table: EdgeTable) -> list[list[Any]]:
    """Give the artifacts that edges connect, group by group: the largest first, of equal ones that of the first id."""
    return await in_thread(_groups, table.ids, await sliced(labelled(table)))


def _groups(ids: Sequence[Any], labels: Ints) -> list[list[Any]]:
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    groups = sorted(np.split(order, cuts), key=len, reverse=True) if len(ids) else []
    return [[ids[at] for at in group.tolist()] for group in groups]


def labelled(table: EdgeTable) -> Slices[Ints]:
    """Give each artifact the lowest place of all that edges connect it with: `(n,) int32`."""
    labels = np.arange(len(table.ids), dtype=np.int32)
    while True:
        one, other = labels[table.sources], labels[table.targets]
        if np.array_equal(one, other):
            return labels
        lower = np.minimum(one, other)
        joined = labels.copy()
        np.minimum.at(joined, np.maximum(one, other), lower)
        while not np.array_equal(joined, labels):
            yield
            labels, joined = joined, joined[joined]


async def cycles_of(table: EdgeTable, store: LinkReader, chosen: LinkFilter) -> list[LinkCycle]:
    """Give the groups of artifacts that all lead to one another, each with its first shortest cycle; largest first."""
    groups = await sliced(_strong_groups(table))
    rings = [await sliced(_shortest_ring(table, group)) for group in groups]
    ids = [[table.ids[at] for at in ring] for ring in rings]
    nodes = [id for ring in ids for id in ring]
    found = [] if not nodes else await store.neighbors(nodes, direction="out", **chosen.options())
    edges = dict(zip(nodes, found, strict=True))  # no artifact is in two groups
    return [
        LinkCycle(tuple(table.ids[at] for at in group), tuple(ring), tuple(_edges_round(ring, edges)))
        for group, ring in zip(groups, ids, strict=True)
    ]


def _edges_round(ring: Sequence[Any], edges: dict[Any, list[Edge]]) -> Iterator[Edge]:
    for here, there in pairwise([*ring, ring[0]]):
        yield next(edge for edge in edges[here] if edge.target == there)


def _strong_groups(table: EdgeTable) -> Slices[list[list[int]]]:
    """Find the strongly connected groups of two or more: Tarjan's search (1972), without recursion."""
    flat, bounds = (each.tolist() for each in table.rows())
    yield
    count = len(table.ids)
    number, low, done = [0] * count, [0] * count, bytearray(count)
    upcoming = bounds[:-1]
    open_: list[int] = []
    groups: list[list[int]] = []
    found = rounds = 0
    for root in range(count):
        path = [] if number[root] else [root]
        while path:
            rounds += 1
            if not rounds % _OFTEN:
                yield
            here = path[-1]
            if not number[here]:
                found += 1
                number[here] = low[here] = found
                open_.append(here)
            if upcoming[here] < bounds[here + 1]:
                there = flat[upcoming[here]]
                upcoming[here] += 1
                if not number[there]:
                    path.append(there)
                elif not done[there]:
                    low[here] = min(low[here], number[there])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[here])
            if low[here] == number[here]:
                groups.append(_taken(open_, here, done))
    return sorted((sorted(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group[0]))


def _taken(open_: list[int], root: int, done: bytearray) -> list[int]:
    """Take a whole group, which ends the list of what is open."""
    group = []
    while True:
        group.append(open_.pop())
        done[group[-1]] = True
        if group[-1] == root:
            return group


def _shortest_ring(table: EdgeTable, group: Sequence[int]) -> Slices[list[int]]:
    """Find the first shortest cycle of a group: through each of its artifacts by breadth-first search.

    What a search began with is taken away after it, and with it whatever is on no cycle without it, so that each search
    finds cycles that begin with their lowest place, and long chains are gone over once.
    """
    onward, back = _within(table, group)
    yield
    best: list[int] = []
    for start in group:
        if start in onward:
            best = (yield from _ring_from(start, onward, len(best))) or best
            if len(best) == 2:  # none is shorter
                break
            yield from _take_away(start, onward, back)
    return best


def _within(table: EdgeTable, group: Sequence[int]) -> tuple[dict[int, dict[int, None]], dict[int, dict[int, None]]]:
    flat, bounds = table.rows()
    inside = set(group)
    onward: dict[int, dict[int, None]] = {}
    back: dict[int, dict[int, None]] = {each: {} for each in group}
    for here in group:
        ends = flat[bounds[here] : bounds[here + 1]].tolist()
        onward[here] = {there: None for there in ends if there in inside}
        for there in onward[here]:
            back[there][here] = None
    return onward, back


def _ring_from(start: int, onward: dict[int, dict[int, None]], below: int) -> Slices[list[int]]:
    """Find the first shortest cycle through one artifact that is shorter than `below`, where that is not 0."""
    before: dict[int, int] = {}
    waiting, depths = deque([start]), {start: 1}
    while waiting:
        yield
        here = waiting.popleft()
        if below and depths[here] >= below:
            break
        for there in onward[here]:
            if there == start:
                return _ring(here, start, before)
            if there not in depths:
                depths[there], before[there] = depths[here] + 1, here
                waiting.append(there)
    return []


def _ring(last: int, start: int, before: dict[int, int]) -> list[int]:
    ring = [last]
    while ring[-1] != start:
        ring.append(before[ring[-1]])
    return ring[::-1]


def _take_away(start: int, onward: dict[int, dict[int, None]], back: dict[int, dict[int, None]]) -> Slices[None]:
    gone = [start]
    while gone:
        yield
        here = gone.pop()
        for one, other in ((onward, back), (back, onward)):
            for there in one.pop(here, ()):
                other[there].pop(here, None)
                if not other[there]:
                    gone.append(there)
