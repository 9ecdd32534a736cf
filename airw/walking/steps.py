"""The steps of a walk: expand, score, select and commit; every limit is enforced here."""

import inspect
from collections.abc import Awaitable, Hashable, Iterator, Sequence
from itertools import chain, compress, islice
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from airw._base.concurrency import Pacer, offload_if
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import Limits, SearchHit, StopReason
from airw.walking.policy import CommittedNode, LazyNeighbors, Neighbors, WalkPolicy, WalkState
from airw.walking.provenance import Provenance
from airw.walking.reading import (
    SLICE_SIZE,
    NeighborReader,
    read_exactly,
    read_seeds,
    read_selection,
)
from airw.walking.record import WalkRecord
from airw.walking.slips import await_answer, label_error, label_errors, require_plain
from airw.walking.summary import LossyCorpus, WalkCounts, WalkSummary

NodeGroups: TypeAlias = list[tuple[int, list[Any]]]
"""Nodes in groups: the position of the node they follow (`-1` for seeds), and the nodes."""

ReadEdges: TypeAlias = tuple[NodeGroups, list[Hashable], list[bool]]
"""Groups of neighbours, the ids of all of them in a row, and for each whether the walk had reached it before."""

_depth = attrgetter("depth")
_NODES_PER_BATCH = 2_048  # entering this number of nodes takes about a millisecond
_HITS_PER_CHECKPOINT = 100  # a consumer that never waits would starve other tasks


class Steps:
    """The work of one walk, in pieces that `WalkRun` requests one by one.

    The walk begins with its seeds. A step scores the discovered nodes, selects from the frontier, commits the selection
    in slices, and expands the committed nodes. The hits of a slice are delivered before the next slice is committed.
    All state is in fields, so that nothing has to stay open while the consumer works.

    `is_idle` is set by `WalkRun`: True between two requests, until the walk ends. `stop_reason` is the reason found
    here; `WalkRun` finds the others. `steps_done` is the number of steps whose expansion is done or was skipped.
    `read_edges` collects the neighbours of a step for events; `None` if the walk is read as hits.
    """

    def __init__(
        self, query: str, store: Any, policy: WalkPolicy, *, max_depth: int | None, node_budget: int, limits: Limits
    ) -> None:
        """Prepare a walk; nothing runs before the first `advance`."""
        self.policy = policy
        # The type is looked at, because a store that records its calls would take a look at itself for a call.
        self._corpora: LossyCorpus | None = store.begin_walk() if hasattr(type(store), "begin_walk") else None
        self._store = store if self._corpora is None else self._corpora
        self._max_depth = max_depth
        self._budget = node_budget
        self._limits = limits
        self.counts = WalkCounts()
        self.record = WalkRecord(policy, limits.max_frontier, self.counts)
        self.state = WalkState(query, max_depth, node_budget, limits, self.record)
        # A policy may overwrite fields of its state; the operator keeps writing to these two objects.
        self._visited, self._results = self.state.visited, self.state.results
        self._reader = NeighborReader(policy, limits, self.counts)
        self._provenance = Provenance(policy)
        self._pacer = Pacer()
        self.stop_reason: StopReason | None = None
        self.is_idle = False
        self.steps_done = 0
        self.hits: list[SearchHit] = []
        self.ids_of_hits: list[Hashable] = []
        self.read_edges: list[ReadEdges] | None = None
        self._stop_answer: bool | Awaitable[bool] | None = False  # `None`: the policy was not asked since the last hit
        # The selection of this step, cut to the budget, and how much of it is committed.
        self._selected: list[int] = []
        self._selected_done = 0
        # The slice being delivered: its nodes and hits, the next index to deliver and to count, and the end.
        self._slice: list[CommittedNode] = []
        self._slice_hits: list[SearchHit | None] = []
        self._next = self._next_to_count = self._slice_end = 0
        # The nodes to expand next, and those that are not expanded because of the depth cap.
        self._to_expand: list[CommittedNode] = []
        self._at_depth_cap: list[CommittedNode] = []
        self._has_discovered = False

    # Delivering hits and nodes that are ready.

    @property
    def has_ready_node(self) -> bool:
        """True if a committed node waits to be delivered."""
        return self._next < self._slice_end

    def pop_hit(self) -> SearchHit | None:
        """Deliver the next hit; `None` if none is ready."""
        hits, index = self._slice_hits, self._next
        while index < self._slice_end:
            hit = hits[index]
            index += 1
            if hit is not None:
                self._next = index
                self._record_hit(hit)
                return hit
        self._next = index
        return None

    def _record_hit(self, hit: SearchHit) -> None:
        self._stop_answer = None
        self.counts.emitted += 1
        self.hits.append(hit)
        self._results.append(hit)

    def pop_hit_without_waiting(self) -> SearchHit | None:
        """Deliver the next hit if nothing has to be awaited for it; else return `None`.

        That is so if it is ready, the policy does not stop the walk, and no checkpoint is due. A checkpoint is due
        before the first hit and after every 100. An awaitable answer of `stop` is kept for `should_stop`.
        """
        if (
            self.is_idle
            and self._next < self._slice_end
            and self.counts.emitted % _HITS_PER_CHECKPOINT
            and self.call_stop() is False
        ):
            return self.pop_hit()
        return None

    def pop_node(self) -> tuple[CommittedNode, SearchHit | None] | None:
        """Deliver the next committed node, routers included, and its hit; `None` if none is ready."""
        index = self._next
        if index == self._slice_end:
            return None
        hit = self._slice_hits[index]
        if hit is not None:
            self._record_hit(hit)
        self._next = index + 1
        return self._slice[index], hit

    def count_delivered(self) -> None:
        """Count the nodes delivered since the last call, and note them as nodes to expand."""
        if self._next_to_count == self._next:
            return
        delivered = slice(self._next_to_count, self._next)
        nodes, hits = self._slice[delivered], self._slice_hits[delivered]
        self._next_to_count = self._next
        self._to_expand += nodes
        new_hits = len(self.hits) - len(self.ids_of_hits)
        self.counts.routed += len(nodes) - new_hits
        self.ids_of_hits += [entry.id for entry, hit in zip(nodes, hits, strict=True) if hit is not None]
        self.counts.depth = max(self.counts.depth, *map(_depth, nodes))

    def summarize(self, stop: StopReason, seconds: float) -> WalkSummary:
        """Return the summary of the walk, with the nodes delivered so far."""
        self.count_delivered()
        if stop == "sufficient":
            # Nobody looked behind the depth cap, and without it the policy might have found other nodes.
            self.counts.unknown.update(self.nodes_not_expanded())
        return self.counts.summary(stop, seconds, () if self._corpora is None else self._corpora.lost)

    def call_stop(self) -> bool | Awaitable[bool]:
        """Return the answer of `policy.stop`, which is called once after each delivered hit."""
        if self._stop_answer is None:
            try:
                self._stop_answer = self.policy.stop(self.state)
            except Exception as error:
                label_error(error, "stop", self.policy)
                raise
        return self._stop_answer

    async def should_stop(self) -> bool:
        """Return whether the policy wants to stop; its answer is awaited if it has to be.

        Raises:
            PolicyError: If the answer is not a bool.
        """
        answer = self.call_stop()
        if answer is not False:
            with label_errors("stop", self.policy):
                answer = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(answer, bool | np.bool_):
                name = type(self.policy).__name__
                raise PolicyError(f"{name}.stop returned {short_repr(answer)}; return True or False")
            self._stop_answer = bool(answer)
        return bool(answer)

    # Working.

    async def advance(self) -> bool:
        """Do the next piece of work; return False at the end of the walk.

        Call it when everything that was ready has been delivered. Afterwards a node may be ready, or not yet.

        Raises:
            PolicyError: If the policy returns an unusable answer; its own errors pass through.
        """
        self.count_delivered()
        if self._corpora is not None:
            self._corpora.leave_out_lost()
        # Hits beyond `max_hits` are withheld here, and not when they are created: the policy may stop the
        # walk before it gets to them.
        if self._slice_end < len(self._slice_hits):
            self._withhold_hits()
        # Count beyond the limits only now, when every hit has been delivered.
        if self.stop_reason is not None:
            await self._count_beyond_limits()
            return False
        # One slice at a time, so that the first hits of a large step leave before the others are created.
        if self._selected_done < len(self._selected):
            await self._commit_slice()
        elif self._has_discovered:
            await self._score_and_select()
        else:
            await self._discover()
        return True

    async def _discover(self) -> None:
        """Seed the walk, or expand the nodes of the last step unless a limit is reached."""
        if not self.counts.steps:
            self.record.begin_step()
            await self._seed()
        elif not self._has_reached_limit():
            self.record.begin_step()
            await self._expand()
            self._to_expand = []
        self.steps_done = self.counts.steps
        self._has_discovered = True

    async def _seed(self) -> None:
        self._create_memory()
        with label_errors("seed", self.policy):
            seeds = await await_answer("seed", self.policy, self.policy.seed(self.state, self._store))
            nodes = await read_seeds(seeds, self.policy, self._limits, self.counts)
        await self._admit([(-1, nodes)])

    def _create_memory(self) -> None:
        """Store the memory that `begin` of the policy returns; a policy without `begin` has none."""
        begin = getattr(self.policy, "begin", None)
        if callable(begin):
            with label_errors("begin", self.policy):
                self.state.memory = require_plain("begin", self.policy, begin(self.state))

    async def _expand(self) -> None:
        below_cap, at_cap = self._split_at_depth_cap()
        self._at_depth_cap += at_cap
        if below_cap:
            with label_errors("expand", self.policy):
                neighbors = await self._reader.read(await self._call_expand(below_cap), below_cap)
            with label_errors("node_id", self.policy):
                positions = self.record.positions_of(below_cap)
            await self._admit(list(zip(positions, neighbors, strict=True)))

    def _split_at_depth_cap(self) -> tuple[list[CommittedNode], list[CommittedNode]]:
        """Return the nodes to expand that are below the depth cap, and those at it."""
        cap = self._max_depth
        if cap is None:
            return self._to_expand, []
        below_cap = [entry for entry in self._to_expand if entry.depth < cap]
        return below_cap, [entry for entry in self._to_expand if entry.depth >= cap]

    async def _call_expand(self, entries: Sequence[CommittedNode]) -> list[Neighbors]:
        answer = await await_answer("expand", self.policy, self.policy.expand(self.state, tuple(entries), self._store))
        return read_exactly(answer, len(entries), "expand", self.policy)

    async def _admit(self, groups: NodeGroups) -> None:
        """Enter discovered nodes in the walk record, in batches between which other tasks may run."""
        with label_errors("node_id", self.policy):
            for batch in _split_groups(groups):
                first_position = self.record.size
                ids = self.record.admit(batch)
                if self.read_edges is not None and self.counts.steps:  # seeds are not read from edges
                    self.read_edges.append((batch, ids, self.record.already_reached(ids, first_position)))
                await self._pacer.pace()

    async def _score_and_select(self) -> None:
        """Score the nodes discovered in this step, and select from all that wait."""
        self._has_discovered = False
        await self._score()
        selected = await self._select() if self.record.waiting_count else []
        if selected:
            self.counts.steps += 1
            await offload_if(len(selected) > _NODES_PER_BATCH, self.record.drop_unselected, selected)
            # The node budget cuts the selection, whatever the policy returned. The rest of it waits.
            self._selected, self._selected_done = selected[: self._budget - self.counts.committed], 0
        elif self.record.waiting_count:
            self.stop_reason = "sufficient"  # the policy declined to select from the waiting nodes
        else:
            self.stop_reason = "exhausted"

    async def _score(self) -> None:
        nodes = self.record.fresh_nodes()
        if nodes:
            with label_errors("score", self.policy):
                answer = self.policy.score(self.state, nodes, self._store)
                self.record.score_fresh(await await_answer("score", self.policy, answer))
            await self._pacer.pace()

    async def _select(self) -> list[int]:
        with label_errors("select", self.policy):
            frontier = self.record.frontier()
            answer = self.policy.select(self.state, frontier)
            positions = await answer if inspect.isawaitable(answer) else answer
            selected = await read_selection(positions, self.record, self.policy)
            if frontier.dropped:
                is_long = len(frontier.dropped) > _NODES_PER_BATCH
                await offload_if(is_long, self.record.drop, frontier.dropped, selected)
            return selected

    async def _commit_slice(self) -> None:
        """Commit the next slice of the selection, and ask the policy for its hits."""
        positions = self._selected[self._selected_done : self._selected_done + SLICE_SIZE]
        self._selected_done += len(positions)
        with label_errors("node_id", self.policy):
            entries = self.record.commit(positions)
            self._visited.update([entry.id for entry in entries])
        with label_errors("to_hits", self.policy):
            answer = self.policy.to_hits(self.state, tuple(entries), self._store)
            hits = read_exactly(
                await await_answer("to_hits", self.policy, answer), len(entries), "to_hits", self.policy
            )
            self._provenance.annotate(entries, hits)
        self._slice, self._slice_hits, self._next, self._next_to_count = entries, hits, 0, 0
        self._slice_end = self._end_within_max_hits()

    # Limits on hits and committed nodes.

    def _end_within_max_hits(self) -> int:
        """Return the number of nodes to deliver: all, or those before the first hit too many."""
        if self._limits.max_hits is not None:
            hits_left = self._limits.max_hits - self.counts.emitted
            for index, hit in enumerate(self._slice_hits):
                hits_left -= hit is not None
                if hits_left < 0:
                    return index
        return len(self._slice_hits)

    def _withhold_hits(self) -> None:
        """End the walk at `max_hits`, and count the hits of this slice that it leaves out."""
        withheld = sum(hit is not None for hit in self._slice_hits[self._slice_end :])
        # Nodes that wait, after this slice or in the frontier, have no hits yet. So the count is a lower bound.
        self.counts.refuse("max_hits", withheld, at_least=self.record.waiting_count > 0)
        self.stop_reason = "max_hits"
        del self._slice_hits[self._slice_end :]

    def _has_reached_limit(self) -> bool:
        """Return whether `max_hits` or the node budget is spent.

        If so, set the stop reason and count the nodes that still wait.
        """
        is_spent = self.counts.committed >= self._budget
        if self.counts.emitted == self._limits.max_hits:  # `max_hits` precedes `node_budget` in `STOP_REASONS`
            self.stop_reason = "max_hits"
        elif is_spent:
            self.stop_reason = "node_budget"
        else:
            return False
        # A spent budget keeps waiting nodes out, even if `max_hits` is the reason to stop.
        self.counts.refuse("node_budget" if is_spent else self.stop_reason, self.record.waiting_count)
        return True

    # The count beyond the limits.

    def nodes_not_expanded(self) -> dict[str, list[CommittedNode]]:
        """Return, by limit, the nodes that were committed but not expanded because of it."""
        below_cap, at_cap = self._split_at_depth_cap()
        unexpanded = {"max_depth": self._at_depth_cap + at_cap}
        # Behind a limit that has a count already nothing is expanded: `left_out` is the first count above 0.
        if self.stop_reason in ("node_budget", "max_hits") and self.stop_reason not in self.counts.left_out:
            unexpanded[self.stop_reason] = below_cap
        return {limit: entries for limit, entries in unexpanded.items() if entries}

    async def _count_beyond_limits(self) -> None:
        """Count the nodes that limits kept out of the walk, by one expansion after the last hit."""
        unexpanded = self.nodes_not_expanded()
        # After `sufficient` nothing is counted: the policy did not want more.
        if self.stop_reason == "sufficient" or not unexpanded:
            return
        if not self._limits.count_beyond_limits:
            self.counts.unknown.update(unexpanded)
            return
        # 1. One call for the nodes of all limits. The ids of lazy neighbours are enough: no nodes are created.
        entries = [entry for group in unexpanded.values() for entry in group]
        counts = WalkCounts()  # its own counts: this is not part of the walk
        with label_errors("expand", self.policy):
            answers = await self._call_expand(entries)
            are_ids = [isinstance(answer, LazyNeighbors) for answer in answers]
            sources = [answer.ids if isinstance(answer, LazyNeighbors) else answer for answer in answers]
            neighbors = await NeighborReader(self.policy, self._limits, counts).read(sources, entries)
        # 2. Share the answer out among the limits. If reading was cut short, each limit is in `at_least`.
        start = 0
        for limit, group in unexpanded.items():
            part = slice(start, start := start + len(group))
            self.counts.refuse(limit, len(await self._ids_not_reached(neighbors[part], are_ids[part])))
            if counts.left_out:
                self.counts.at_least.add(limit)

    async def _ids_not_reached(self, neighbors: Sequence[Sequence[Any]], are_ids: Sequence[bool]) -> set[Hashable]:
        """Return the ids, of nodes or given as such, that are neither committed nor waiting."""
        unreached: set[Hashable] = set()
        for as_ids in (False, True):
            nodes = chain.from_iterable(compress(neighbors, (is_ids is as_ids for is_ids in are_ids)))
            while batch := list(islice(nodes, _NODES_PER_BATCH)):
                with label_errors("node_id", self.policy):
                    unreached |= self.record.ids_not_reached(batch, are_ids=as_ids)
                await self._pacer.pace()
        return unreached


def _split_groups(groups: NodeGroups) -> Iterator[NodeGroups]:
    """Yield the groups in batches that take about a millisecond each; a large group is split.

    A batch has at most twice `_NODES_PER_BATCH` nodes and groups. The last of several batches may be empty.
    """
    if len(groups) + sum(len(nodes) for _, nodes in groups) <= _NODES_PER_BATCH:
        yield groups
        return
    batch: NodeGroups = []
    room = _NODES_PER_BATCH
    for parent, nodes in groups:
        for start in range(0, len(nodes), _NODES_PER_BATCH):
            part = nodes[start : start + _NODES_PER_BATCH]
            batch.append((parent, part))
            room -= len(part)
            if room <= 0:
                yield batch
                batch, room = [], _NODES_PER_BATCH
        room -= 1  # a group without nodes takes time too
    yield batch
