"""The structure of a whole graph: its edges as arrays, its components, and its cycles."""

import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread
from airw.links._path_search import PAGE
from airw.links.paths import LinkCycle
from airw.protocols import ArtifactIds, EdgeRow, Edges, Store, ask
from airw.values import Edge, LinkFilter

R = TypeVar("R")
Ints: TypeAlias = NDArray[np.int32]

SlicedWork: TypeAlias = Generator[None, None, R]
"""A long computation that yields now and then, so that it can be stopped there; its return value is the result."""

_SLICE_SECONDS = 0.02  # the longest that a cancelled caller waits
_ROUNDS_PER_PAUSE = 256  # a pause reads the clock, which takes longer than one round


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTable:
    """The distinct pairs of artifacts that links connect, as positions in `ids`.

    Args:
        ids: All artifacts, in the order of the store.
        sources: `(n,) int32`, ascending: the position where each edge begins.
        targets: `(n,) int32`: the position where it ends; ascending per source.
    """

    ids: Sequence[Any]
    sources: Ints
    targets: Ints

    def to_rows(self) -> tuple[Ints, Ints]:
        """Return the edges as compressed sparse rows: all targets, and the bounds of each row.

        The targets of the artifact at position `i` are `targets[bounds[i] : bounds[i + 1]]`.
        """
        return self.targets, np.searchsorted(self.sources, np.arange(len(self.ids) + 1)).astype(np.int32)


async def read_edges(store: Store, link_filter: LinkFilter) -> EdgeTable:
    """Read all edges between the artifacts of a store, in pages.

    Raises:
        ArgumentError: If the store cannot list its artifacts.
    """
    ids: list[Any] = list(await ask(store, ArtifactIds()))
    positions = await in_thread(_index_positions, ids)
    pages = []
    for start in range(0, len(ids), PAGE):
        page = ids[start : start + PAGE]
        edges = await ask(store, Edges(page, links=link_filter))
        pages.append(await in_thread(_to_pairs, start, list(map(EdgeRow.of, page, edges)), positions))
    return EdgeTable(ids, *(await in_thread(np.concatenate, pages, 1) if pages else np.empty((2, 0), np.int32)))


def _index_positions(ids: Sequence[Any]) -> dict[Any, int]:
    return {id: position for position, id in enumerate(ids)}


def _to_pairs(start: int, rows: Sequence[EdgeRow], positions: dict[Any, int]) -> Ints:
    """Return pairs of positions, `(2, n)`, without duplicates.

    Targets without a position are skipped: they are in another corpus, or were removed while the graph is read.
    """
    pairs = (
        (source, target)
        for source, row in enumerate(rows, start)
        for target in sorted({positions[end] for end in row.ends if end in positions})
    )
    return np.array([*pairs], np.int32).reshape(-1, 2).T


async def run_in_slices(work: SlicedWork[R]) -> R:
    """Run a long computation in worker threads, some milliseconds at a time.

    A thread cannot be stopped, so a cancelled caller waits for it. Between two slices it can leave.
    """
    while True:
        result = await in_thread(_run_slice, work)
        if result:
            return result[0]


def _run_slice(work: SlicedWork[R]) -> tuple[R] | None:
    deadline = time.perf_counter() + _SLICE_SECONDS
    while time.perf_counter() < deadline:
        try:
            next(work)
        except StopIteration as stop:
            return (stop.value,)
    return None


async def find_components(table: EdgeTable) -> list[list[Any]]:
    """Return the groups of artifacts that edges connect, in either direction.

    The largest group is first; of equal groups, the one with the smallest id.
    """
    return await in_thread(_group_by_label, table.ids, await run_in_slices(label_components(table)))


def _group_by_label(ids: Sequence[Any], labels: Ints) -> list[list[Any]]:
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    groups = sorted(np.split(order, cuts), key=len, reverse=True) if len(ids) else []
    return [[ids[position] for position in group.tolist()] for group in groups]


def label_components(table: EdgeTable) -> SlicedWork[Ints]:
    """Return for each artifact the lowest position in its component: `(n,) int32`.

    The method is hooking and pointer jumping (Shiloach and Vishkin, 1982): it works on whole arrays at once.
    """
    labels = np.arange(len(table.ids), dtype=np.int32)
    while True:
        source_labels, target_labels = labels[table.sources], labels[table.targets]
        if np.array_equal(source_labels, target_labels):
            return labels
        # Hook: if an edge connects two groups, the group with the higher label takes the lower one.
        lower = np.minimum(source_labels, target_labels)
        parents = labels.copy()
        np.minimum.at(parents, np.maximum(source_labels, target_labels), lower)
        # Jump: replace labels by their labels until nothing changes. Chains of groups collapse in few rounds.
        while not np.array_equal(parents, labels):
            yield
            labels, parents = parents, parents[parents]


async def find_cycles(table: EdgeTable, store: Store, link_filter: LinkFilter) -> list[LinkCycle]:
    """Return the groups of artifacts that all lead to one another, largest first.

    Each has the first of its shortest cycles.
    """
    groups = await run_in_slices(_strong_components(table))
    cycles = [await run_in_slices(_shortest_cycle(table, group)) for group in groups]
    # The table has positions only. Read the stored edges again, but just those of the artifacts on the cycles.
    cycle_ids = [[table.ids[position] for position in cycle] for cycle in cycles]
    nodes = [id for ids in cycle_ids for id in ids]
    edges = await ask(store, Edges(nodes, links=link_filter)) if nodes else []
    edges_of = dict(zip(nodes, edges, strict=True))  # no artifact is in two groups
    return [
        LinkCycle(tuple(table.ids[position] for position in group), tuple(ids), tuple(_edges_along(ids, edges_of)))
        for group, ids in zip(groups, cycle_ids, strict=True)
    ]


def _edges_along(cycle: Sequence[Any], edges_of: dict[Any, list[Edge]]) -> Iterator[Edge]:
    for source, target in pairwise([*cycle, cycle[0]]):
        yield next(edge for edge in edges_of[source] if edge.target == target)


def _strong_components(table: EdgeTable) -> SlicedWork[list[list[int]]]:
    """Return the strongly connected components of two or more artifacts, largest first.

    The method is Tarjan's (Depth-First Search and Linear Graph Algorithms, 1972), without recursion: a long chain of
    links would exceed Python's recursion limit.
    """
    targets, bounds = (array.tolist() for array in table.to_rows())
    yield
    count = len(table.ids)
    index, low = [0] * count, [0] * count  # the order of discovery from 1 on, and the lowest index reached from here
    is_done = bytearray(count)  # the artifact is in a component already
    next_edge = bounds[:-1]
    stack: list[int] = []
    components: list[list[int]] = []
    discovered = rounds = 0
    for root in range(count):
        path = [] if index[root] else [root]
        while path:
            rounds += 1
            if not rounds % _ROUNDS_PER_PAUSE:
                yield
            node = path[-1]
            if not index[node]:
                discovered += 1
                index[node] = low[node] = discovered
                stack.append(node)
            # Go along the next edge: down to a new artifact, or back to one whose component is still open.
            if next_edge[node] < bounds[node + 1]:
                target = targets[next_edge[node]]
                next_edge[node] += 1
                if not index[target]:
                    path.append(target)
                elif not is_done[target]:
                    low[node] = min(low[node], index[target])
                continue
            # All edges are done. If none leads back beyond this artifact, it is the first of a component.
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[node])
            if low[node] == index[node]:
                components.append(_pop_component(stack, node, is_done))
    groups = (sorted(component) for component in components if len(component) > 1)
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _pop_component(stack: list[int], root: int, is_done: bytearray) -> list[int]:
    component = []
    while True:
        node = stack.pop()
        component.append(node)
        is_done[node] = True
        if node == root:
            return component


def _shortest_cycle(table: EdgeTable, group: Sequence[int]) -> SlicedWork[list[int]]:
    """Return the first shortest cycle of a group, by breadth-first search from each artifact."""
    successors, predecessors = _inner_edges(table, group)
    yield
    best: list[int] = []
    for start in group:
        if start in successors:
            best = (yield from _shortest_cycle_through(start, successors, len(best))) or best
            if len(best) == 2:  # no cycle is shorter
                break
            # All cycles through `start` have been seen. Without it, later searches read less, and each cycle is
            # found from its lowest position.
            yield from _remove_with_dead_ends(start, successors, predecessors)
    return best


def _inner_edges(
    table: EdgeTable, group: Sequence[int]
) -> tuple[dict[int, dict[int, None]], dict[int, dict[int, None]]]:
    """Return the successors and the predecessors of each artifact within its group."""
    targets, bounds = table.to_rows()
    members = set(group)
    successors: dict[int, dict[int, None]] = {}
    predecessors: dict[int, dict[int, None]] = {node: {} for node in group}
    for node in group:
        ends = targets[bounds[node] : bounds[node + 1]].tolist()
        successors[node] = {end: None for end in ends if end in members}
        for end in successors[node]:
            predecessors[end][node] = None
    return successors, predecessors


def _shortest_cycle_through(
    start: int, successors: dict[int, dict[int, None]], best_length: int
) -> SlicedWork[list[int]]:
    """Return the first shortest cycle through `start` that is shorter than `best_length`.

    It is empty if there is none. A `best_length` of 0 means that no cycle is known so far.
    """
    parents: dict[int, int] = {}
    queue, depths = deque([start]), {start: 1}
    while queue:
        yield
        node = queue.popleft()
        if best_length and depths[node] >= best_length:
            break
        for end in successors[node]:
            if end == start:
                return _trace_cycle(node, start, parents)
            if end not in depths:
                depths[end] = depths[node] + 1
                parents[end] = node
                queue.append(end)
    return []


def _trace_cycle(last: int, start: int, parents: dict[int, int]) -> list[int]:
    cycle = [last]
    while cycle[-1] != start:
        cycle.append(parents[cycle[-1]])
    return cycle[::-1]


def _remove_with_dead_ends(
    start: int, successors: dict[int, dict[int, None]], predecessors: dict[int, dict[int, None]]
) -> SlicedWork[None]:
    """Remove an artifact, and then all that are left without a successor or a predecessor.

    Those are on no cycle any more. Without this, each search would go along the same long chains again.
    """
    dead = [start]
    while dead:
        yield
        node = dead.pop()
        for edges, opposite in ((successors, predecessors), (predecessors, successors)):
            for end in edges.pop(node, ()):
                opposite[end].pop(node, None)
                if not opposite[end]:
                    dead.append(end)
