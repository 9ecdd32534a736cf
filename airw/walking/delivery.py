"""What a walk has committed: the hits that are ready, and those that were delivered."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw.values import HitBatch, SearchHit
from airw.walking.committed import CommittedNode, CommittedNodes
from airw.walking.summary import WalkCounts

_HITS_PER_CHECKPOINT = 100  # a consumer that never waits would starve other tasks


class _Slice(NamedTuple):
    """Nodes that were committed at once, and one hit per node, `None` for a router."""

    positions: NDArray[np.intp]
    hits: Sequence[SearchHit | None]


class Delivery:
    """The slice of nodes that is being delivered, and what was delivered before.

    `next` is the index of the next node of the slice, and `end` the index after the last one that may be delivered. Up
    to `rest_at`, hits need no checkpoint; up to `quick_end`, they need nothing at all. Counts and lists are brought up
    to date when they are read, not per hit.
    """

    def __init__(self, counts: WalkCounts, *, has_quick_hits: bool) -> None:
        """Start without nodes; with `has_quick_hits`, hits that are ready just leave."""
        self._counts = counts
        self.has_quick_hits: bool = has_quick_hits
        self._slices: list[_Slice] = []  # the last one is being delivered
        self._nodes: CommittedNodes
        self.hits: Sequence[SearchHit | None] = ()  # of the slice
        self._is_hit: list[bool] | None = None  # None: each node is one
        self.next: int = 0
        self.end: int = 0
        self.quick_end: int = 0
        self.rest_at: int = 0
        self._next_to_count = 0
        self.to_expand: list[CommittedNodes] = []
        # What the state of the policy shows, once it was looked at. These are copies, because a policy may change them.
        self._shown_ids: set[Hashable] | None = None
        self._shown_hits: list[SearchHit] | None = None
        self._shown_count = 0
        self._unshown: list[CommittedNodes] = []
        # The delivered hits and their positions, as far as they were asked for.
        self._listed: list[SearchHit] = []
        self._listed_positions: list[int] = []
        self._listed_slices = self._listed_rows = 0

    # The slice.

    def note_committed(self, nodes: CommittedNodes) -> None:
        """Show nodes as visited in the state of the policy."""
        self._unshown.append(nodes[:])  # without the entries that the policy made of them

    def start_slice(self, nodes: CommittedNodes, hits: Sequence[SearchHit | None]) -> None:
        """Note the nodes to deliver next, and their hits."""
        self._nodes, self.hits = nodes, hits
        if isinstance(hits, HitBatch):
            self._is_hit = [id is not None for id in hits.artifact_ids] if hits.has_routers else None
        else:
            self._is_hit = [hit is not None for hit in hits] if type(None) in set(map(type, hits)) else None
        self._slices.append(_Slice(nodes.positions, hits))
        self.next = self._next_to_count = self.quick_end = self.rest_at = 0
        self.end = len(nodes)

    def end_within(self, hits_left: int) -> None:
        """Deliver at most `hits_left` hits of the slice, and nothing after them."""
        if self._is_hit is None:
            self.end = min(self.end, hits_left)
            return
        for index, is_hit in enumerate(self._is_hit):
            hits_left -= is_hit
            if hits_left < 0:
                self.end = index
                return

    def withhold(self) -> int:
        """Leave out the nodes that may not be delivered; return how many hits that are."""
        rows = slice(self.end, len(self.hits))
        withheld = rows.stop - rows.start if self._is_hit is None else sum(self._is_hit[rows])
        self.hits = self.hits[: self.end]
        return withheld

    @property
    def has_withheld(self) -> bool:
        """True if a limit keeps nodes of the slice back."""
        return self.end < len(self.hits)

    # Delivering.

    def allow_quick(self) -> None:
        """Begin a run of hits that need no checkpoint; it ends where the next one is due."""
        self.rest_at = min(self.end, self.next + _HITS_PER_CHECKPOINT - 1)
        self.quick_end = self.rest_at if self.has_quick_hits else 0

    def forbid_quick(self) -> None:
        """Make each hit wait for a request."""
        self.rest_at = self.quick_end = 0

    def pop_hit(self) -> SearchHit | None:
        """Deliver the next hit; `None` if none is ready."""
        if isinstance(self.hits, HitBatch):
            self.hits = list(self.hits)
        hits, index = self.hits, self.next
        while index < self.end:
            hit = hits[index]
            index += 1
            if hit is not None:
                self.next = index
                return hit
        self.next = index
        return None

    def pop_node(self) -> tuple[CommittedNode, SearchHit | None] | None:
        """Deliver the next committed node, routers included, and its hit; `None` if none is ready."""
        index = self.next
        if index == self.end:
            return None
        self.next = index + 1
        return self._nodes[index], self.hits[index]

    def pop_nodes(self, count: int) -> tuple[CommittedNodes | tuple[()], Sequence[SearchHit | None]]:
        """Deliver the next nodes, up to `count`, and their hits."""
        rows = slice(self.next, min(self.end, self.next + count))
        if rows.start == rows.stop:
            return (), ()
        self.next = rows.stop
        return self._nodes[rows], self.hits[rows]

    def pop_batch(self) -> Sequence[SearchHit]:
        """Deliver all hits that are ready."""
        rows = slice(self.next, self.end)
        if rows.start == rows.stop:
            return ()
        self.next = self.end
        is_whole = self._is_hit is None and rows == slice(0, len(self.hits))
        return self.hits if is_whole else [hit for hit in self.hits[rows] if hit is not None]  # type: ignore[return-value]

    def count(self) -> None:
        """Count the nodes delivered since the last call, and note them as nodes to expand."""
        if self._next_to_count == self.next:
            return
        rows = slice(self._next_to_count, self.next)
        self._next_to_count = self.next
        nodes = self._nodes if rows == slice(0, len(self._nodes)) else self._nodes[rows]
        hit_count = len(nodes) if self._is_hit is None else sum(self._is_hit[rows])
        self.to_expand.append(nodes)
        counts = self._counts
        counts.emitted += hit_count
        counts.routed += len(nodes) - hit_count

    # What was delivered.

    def show_progress(self) -> None:
        """Bring up to date what a policy has looked at, because it may have kept it."""
        if self._shown_ids is not None:
            _ = self.visited
        if self._shown_hits is not None:
            _ = self.results

    @property
    def visited(self) -> set[Hashable]:
        """The ids committed so far, for the state of the policy."""
        if self._shown_ids is None:
            self._shown_ids = set()
        for nodes in self._unshown:
            self._shown_ids.update(nodes.ids)
        self._unshown.clear()
        return self._shown_ids

    @property
    def results(self) -> list[SearchHit]:
        """The hits delivered so far, for the state of the policy."""
        if self._shown_hits is None:
            self._shown_hits = []
        self._list_hits()
        self._shown_hits += self._listed[self._shown_count :]
        self._shown_count = len(self._listed)
        return self._shown_hits

    @property
    def positions(self) -> NDArray[np.intp]:
        """The positions of the nodes delivered so far, routers included."""
        if not self._slices:
            return np.empty(0, np.intp)
        *before, last = [each.positions for each in self._slices]
        return np.concatenate([*before, last[: self.next]])

    @property
    def delivered(self) -> list[SearchHit]:
        """The hits delivered so far."""
        self._list_hits()
        return self._listed

    def iterate_from(self, count: int) -> Iterator[tuple[SearchHit, int]]:
        """Yield the hits after the first `count`, each with its position."""
        self._list_hits()
        return zip(self._listed[count:], self._listed_positions[count:], strict=True)

    def _list_hits(self) -> None:
        while self._listed_slices < len(self._slices):
            positions, hits = self._slices[self._listed_slices]
            is_last = self._listed_slices == len(self._slices) - 1
            rows = slice(self._listed_rows, self.next if is_last else len(hits))
            for hit, position in (
                zip(hits[rows], positions[rows].tolist(), strict=True) if rows.start < rows.stop else ()
            ):
                if hit is not None:
                    self._listed.append(hit)
                    self._listed_positions.append(position)
            if is_last:
                self._listed_rows = rows.stop
                return
            self._listed_slices, self._listed_rows = self._listed_slices + 1, 0
