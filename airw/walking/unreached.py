"""The count of the nodes behind the limits of a walk: those that it has not reached."""

from collections.abc import Hashable, Sequence
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np

from airw._base.concurrency import Pacer, offload_if
from airw.walking.columns import Columns
from airw.walking.committed import CommittedNodes
from airw.walking.listed import ListedNodes
from airw.walking.numbered import NumberedNodes
from airw.walking.policy import LazyNeighbors, Neighbors, WalkPolicy
from airw.walking.reading import NeighborReader, to_lists
from airw.walking.slips import label_errors

_NODES_PER_BATCH = 2_048  # looking up this many listed nodes takes about a millisecond
_LONG = 20_000  # handling an array of this length takes about a millisecond


class UnreachedCount:
    """Counts the nodes behind one expansion that are neither committed nor waiting."""

    def __init__(self, policy: WalkPolicy, nodes: ListedNodes | NumberedNodes, reader: NeighborReader) -> None:
        """Prepare the count; `nodes` are those that the walk has reached."""
        self._policy, self._nodes, self._reader = policy, nodes, reader
        self._pacer = Pacer()

    async def count(
        self, answer: Columns | list[Neighbors], committed: CommittedNodes, sizes: Sequence[int]
    ) -> list[int]:
        """Return the count for each part of the committed nodes, whose sizes are `sizes`."""
        if isinstance(answer, Columns) and isinstance(self._nodes, NumberedNodes):
            return await self._count_columns(answer, sizes, self._nodes)
        return await self._count_lists(to_lists(answer, len(committed), self._policy), committed, sizes)

    async def _count_columns(self, answer: Columns, sizes: Sequence[int], nodes: NumberedNodes) -> list[int]:
        numbers = nodes.check(answer.ids, "expand")
        counts, places = self._reader.read_columns(answer, sum(sizes))
        numbers = numbers if places is None else numbers[places]
        ends = np.cumsum(counts)[np.cumsum(sizes) - 1].tolist()
        parts = [numbers[start:end] for start, end in pairwise([0, *ends])]
        return [await offload_if(len(part) > _LONG, nodes.count_unreached, part) for part in parts]

    async def _count_lists(
        self, sources: Sequence[Neighbors], committed: CommittedNodes, sizes: Sequence[int]
    ) -> list[int]:
        # The ids of lazy neighbours are enough: no nodes are created.
        are_ids = [isinstance(source, LazyNeighbors) for source in sources]
        plain = [source.ids if isinstance(source, LazyNeighbors) else source for source in sources]
        neighbors = await self._reader.read(plain, committed)
        counts, start = [], 0
        for size in sizes:
            part = slice(start, start := start + size)
            counts.append(await self._count_part(neighbors[part], are_ids[part]))
        return counts

    async def _count_part(self, neighbors: Sequence[Sequence[Any]], are_ids: Sequence[bool]) -> int:
        """Return how many nodes the walk has not reached, among nodes and ids."""
        if isinstance(self._nodes, NumberedNodes):
            return self._nodes.count_unreached(self._nodes.check_list(list(chain.from_iterable(neighbors))))
        unreached: set[Hashable] = set()
        for as_ids in (False, True):
            nodes = list(chain.from_iterable(compress(neighbors, (is_ids is as_ids for is_ids in are_ids))))
            for start in range(0, len(nodes), _NODES_PER_BATCH):
                with label_errors("node_id", self._policy):
                    unreached |= self._nodes.find_unreached(nodes[start : start + _NODES_PER_BATCH], are_ids=as_ids)
                await self._pacer.pace()
        return len(unreached)
