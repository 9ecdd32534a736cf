"""The stages of a walk, from the seeds to the end; every limit is enforced here."""

import inspect
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from itertools import chain, islice
from types import CoroutineType
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.concurrency import Pacer
from airw._base.messages import short_repr
from airw._base.telemetry import OpenSpan
from airw.errors import PolicyError
from airw.values import Limits, SearchHit, StopReason
from airw.walking.answers import (
    Found,
    cut,
    read_exactly,
    read_neighbors,
    read_positions,
    read_scores,
    read_seeds,
    require_awaitable,
    require_plain,
)
from airw.walking.policy import CommittedNode, CommittedNodes, LazyNeighbors, Policy, WalkPolicy, WalkState
from airw.walking.provenance import Provenance
from airw.walking.record import WalkRecord
from airw.walking.summary import LossyCorpus, WalkCounts, WalkSummary

_SLICE = 512  # nodes that are committed at once; their hits leave before the next ones are made
_MANY = 10_000  # nodes that wait; sorting more takes long, so `select` of the policy does it in a worker thread
_PORTION = 2_048  # nodes that are admitted at once; it takes about a millisecond
_HITS_PER_CHECKPOINT = 100  # a consumer that never waits would starve other tasks
Stage: TypeAlias = Callable[["WalkStages"], "Awaitable[Stage | None] | Stage | None"]


class WalkStages:
    """The work of one walk, a chain of stages that `WalkRun` requests one by one.

    A stage asks the policy once, changes the walk after its last `await`, and returns the next stage. So a stage that a
    deadline cancels is simply run again if the walk goes on, and nothing has to stay open while the consumer works.

    What is committed is in lists, a row for each node: its position in the record, the node, and its hit, `None` for a
    router. The rows below `next` are delivered, and those below `end` may be. Up to `ready_until` they need no request;
    it is 0 during one. `stop_reason` is the reason found here; `WalkRun` finds the others. `step_to_report` has
    the numbers of `StepDone` from the end of a step until somebody has reported it. `span` is the span of the walk from
    its first request to its end; `None` if nobody wants spans.
    """

    def __init__(
        self,
        query: str,
        store: Any,
        policy: WalkPolicy,
        *,
        max_depth: int | None,
        node_budget: int,
        timeout: float,
        limits: Limits,
    ) -> None:
        """Prepare a walk; nothing runs before the first `advance`."""
        self.policy: WalkPolicy = policy
        self.max_depth: int | None = max_depth
        self.node_budget: int = node_budget
        self.limits: Limits = limits
        # The type is looked at, because a store that records its calls would take a look at itself for a call.
        self._corpora: LossyCorpus | None = store.begin_walk(timeout) if hasattr(type(store), "begin_walk") else None
        self.store: Any = store if self._corpora is None else self._corpora
        self.counts: WalkCounts = WalkCounts()
        self.record: WalkRecord = WalkRecord(policy, limits.max_frontier, self.counts)
        self.state: WalkState[Any] = WalkState(query, max_depth, node_budget, limits, self.record)
        self.asks_stop: bool = getattr(policy.stop, "__func__", None) is not Policy.stop
        self._selects_all = getattr(policy.select, "__func__", None) is Policy.select
        self.asking: str = "begin"  # the method of the policy that was asked last
        self.stop_reason: StopReason | None = None
        self.steps: int = 0
        self.step_to_report: tuple[int, int, int, int] | None = None
        self.span: OpenSpan | None = None
        # A function and no method: with a cycle of references, a dropped walk would wait for the garbage collector.
        self._stage: Stage | None = WalkStages._seed
        self._pacer = Pacer()
        self._provenance = Provenance(policy, self.record)
        # The lists that the state shows. A policy may replace them there.
        self._visited, self._results = self.state.visited, self.state.results
        self._found: deque[tuple[Found, list[int]]] = deque()  # nodes that were read, with their parents
        self._selected: list[int] = []
        self._selected_done = 0  # so many of them are committed
        # What is committed, by row.
        self._positions: list[int] = []
        self.entries: list[CommittedNode] = []
        self.hits: list[SearchHit | None] = []
        self._routers: list[int] = []  # their rows
        self.next: int = 0
        self.end: int = 0
        self.ready_until: int = 0
        self._step_start = 0  # rows from here on were committed in this step, and are not expanded
        self._at_cap: list[int] = []  # rows that are not expanded because of the depth cap
        self._shown = 0  # rows below are in the results that the state shows
        self._stop_answer: bool | Awaitable[bool] | None = False  # `None`: the policy was not asked since the last hit
        self._stop_error: Exception | None = None

    # Working.

    async def advance(self) -> bool:
        """Run the next stage; return False at the end of the walk.

        Call it when everything that was ready has been delivered. Afterwards a node may be ready, or not yet.

        Raises:
            PolicyError: If the policy returns an unusable answer; its own errors pass through.
        """
        if self.is_over():
            return False
        self._begin_stage()
        answer = cast("Stage", self._stage)(self)
        self._stage = await answer if isinstance(answer, CoroutineType) else cast("Stage | None", answer)
        return True

    def is_over(self) -> bool:
        """Return whether the walk has ended, as far as one knows without waiting.

        Call it when everything that was ready has been delivered.
        """
        if self._stage is WalkStages._commit:
            self._begin_stage()
            self._stage = self._commit()
        return self._stage is None

    def _begin_stage(self) -> None:
        self._show_results()
        if self._corpora is not None:
            self._corpora.leave_out_lost()

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of an async method of the policy."""
        self.asking = method
        answer = getattr(self.policy, method)(self.state, *arguments, self.store)
        if type(answer) is not CoroutineType:  # coroutines are usual
            require_awaitable(method, self.policy, answer)
        return await answer

    async def _seed(self) -> Stage | None:
        begin = getattr(self.policy, "begin", None)
        if callable(begin):
            self.state.memory = require_plain("begin", self.policy, begin(self.state))
        seeds = await read_seeds(await self._ask("seed"), self.policy, self.limits, self.counts)
        return self._begin_step([seeds], [-1])

    async def _expand(self) -> Stage | None:
        """Read the neighbours of the nodes of the last step that are below the depth cap."""
        below, at_cap = self._split_at_cap()
        neighbors: list[Found] = []
        if below:
            entries = CommittedNodes(map(self.entries.__getitem__, below))
            answer = read_exactly(await self._ask("expand", entries), len(entries), "expand", self.policy)
            neighbors = await read_neighbors(answer, entries, self.policy, self.limits, self.counts)
            self.record.require_stable([self._positions[row] for row in below])
        self._at_cap += at_cap
        self._step_start = self.next
        return self._begin_step(neighbors, [self._positions[row] for row in below])

    def _begin_step(self, neighbors: list[Found], positions: list[int]) -> Stage | None:
        """Divide the neighbours of some positions into portions; those in lists are put together."""
        parents = [[position] * len(nodes) for position, nodes in zip(positions, neighbors, strict=True)]
        if not any(isinstance(nodes, LazyNeighbors) for nodes in neighbors):
            neighbors, parents = [list(chain.from_iterable(neighbors))], [list(chain.from_iterable(parents))]
        self._found = deque(
            (cut(nodes, start, start + _PORTION), own[start : start + _PORTION])
            for nodes, own in zip(neighbors, parents, strict=True)
            for start in range(0, len(own), _PORTION)
        )
        self.record.fresh_start = len(self.record.ids)
        return WalkStages._admit

    async def _admit(self) -> Stage | None:
        """Enter the nodes that were read in the record; other tasks run between portions."""
        while self._found:
            self.asking = "expand" if isinstance(self._found[0][0], LazyNeighbors) else "node_id"
            self.record.admit(*self._found[0])
            self._found.popleft()
            if self._found:
                await self._pacer.pace()
        self._end_step()
        return WalkStages._score

    def _end_step(self) -> None:
        if self.steps:
            self.step_to_report = self.steps, self.next, self.counts.edges, self.record.waiting
            if self.span is not None:
                names = ("step", "committed", "edges", "waiting")
                numbers = dict(zip((f"airw.walk.{name}" for name in names), self.step_to_report, strict=True))
                self.span.note("airw.walk.step", numbers)

    async def _score(self) -> Stage | None:
        """Score the nodes discovered in this step and, in the same call, paths to committed nodes."""
        record = self.record
        nodes = record.new_nodes()
        if record.found_again:
            nodes = [*nodes, *(path.node for path in record.found_again)]
        if nodes:
            shown = nodes[:] if isinstance(nodes, list) else nodes  # the policy may change a list
            scores = read_scores(await self._ask("score", shown), nodes, self.policy)
            count = len(nodes) - len(record.found_again)
            record.keep_better(record.found_again, scores[count:])
            record.scores += scores[:count]
            record.found_again = []
        return WalkStages._select

    async def _select(self) -> Stage | None:
        await self._pacer.pace()  # a policy may never wait
        record, selected = self.record, list[int]()
        if self._selects_all and record.waiting < _MANY:
            selected = record.best_first()
        elif record.waiting:
            self.asking = "select"
            frontier = record.frontier()
            answer = self.policy.select(self.state, frontier)
            # Arrays are usual, and asking whether one is awaitable takes time.
            if not isinstance(answer, np.ndarray) and inspect.isawaitable(answer):
                answer = await answer
            selected = record.choose(read_positions(answer, record.waiting, self.policy))
            if frontier.dropped:
                record.drop(frontier.dropped, selected)
        if not selected:
            # If nodes wait, the policy declined to select from them.
            return self._end("sufficient" if record.waiting else "exhausted")
        record.drop_unselected(selected)
        self.steps += 1
        self._selected, self._selected_done = selected, 0
        return WalkStages._commit

    def _commit(self) -> Stage | None:
        """Commit the next slice of the selection, or end the step; this stage never waits."""
        if self.end < len(self.hits):
            # Nodes that wait, after this slice or in the frontier, have no hits yet. So the count is a lower bound.
            withheld = sum(hit is not None for hit in self.hits[self.end :])
            self.counts.refuse("max_hits", withheld, at_least=self.record.waiting > 0)
            return self._end("max_hits")
        # The node budget cuts the selection, whatever the policy returned. The rest of it waits.
        size = min(_SLICE, self.node_budget - self.next, len(self._selected) - self._selected_done)
        if size > 0:
            positions = self._selected[self._selected_done : self._selected_done + size]
            self.asking = "node_id"
            entries = self.record.commit(positions)
            self._selected_done += size
            self._positions += positions
            self.entries += entries
            self._visited.update(entry.id for entry in entries)
            return WalkStages._make_hits
        is_spent = self.next >= self.node_budget
        if not is_spent and self.emitted != self.limits.max_hits:
            return WalkStages._expand
        # A spent budget keeps waiting nodes out, even if `max_hits`, which comes first, is the reason to stop.
        self.counts.refuse("node_budget" if is_spent else "max_hits", self.record.waiting)
        self._end_step()
        return self._end("max_hits" if self.emitted == self.limits.max_hits else "node_budget")

    async def _make_hits(self) -> Stage | None:
        entries = CommittedNodes(self.entries[self.end :])
        hits: list[SearchHit | None] = read_exactly(
            await self._ask("to_hits", entries), len(entries), "to_hits", self.policy
        )
        self._provenance.annotate(self._positions[self.end :], entries, hits)
        hit_rows = [row for row, hit in enumerate(hits, self.end) if hit is not None]
        self._routers += [row for row, hit in enumerate(hits, self.end) if hit is None]
        self.hits += hits
        # Hits beyond `max_hits` are withheld when the walk gets there: the policy may stop it before.
        room = len(hits) if self.limits.max_hits is None else self.limits.max_hits - self.emitted
        self.end = hit_rows[room] if room < len(hit_rows) else len(self.hits)
        return WalkStages._commit

    # The end, and the count beyond the limits.

    def _end(self, reason: StopReason) -> Stage | None:
        """Note the reason to end, and return the last stage."""
        self.stop_reason = reason
        # After `sufficient` nothing is counted: the policy did not want more.
        unexpanded = {} if reason == "sufficient" else self.nodes_not_expanded()
        if unexpanded and self.limits.count_beyond_limits:
            return WalkStages._count_beyond_limits
        self.counts.unknown.update(unexpanded)
        return None

    def _split_at_cap(self) -> tuple[list[int], list[int]]:
        """Return the rows of this step that are below the depth cap, and those at it."""
        rows, cap = list(range(self._step_start, self.next)), self.max_depth
        if cap is None:
            return rows, []
        below = [row for row in rows if self.entries[row].depth < cap]
        return below, [row for row in rows if self.entries[row].depth >= cap]

    def nodes_not_expanded(self) -> dict[str, list[int]]:
        """Return, by limit, the rows of nodes that were committed but not expanded because of it."""
        below, at_cap = self._split_at_cap()
        unexpanded = {"max_depth": self._at_cap + at_cap}
        # Behind a limit that has a count already nothing is expanded: `left_out` is the first count above 0.
        if self.stop_reason in ("node_budget", "max_hits") and self.stop_reason not in self.counts.left_out:
            unexpanded[self.stop_reason] = below
        return {limit: rows for limit, rows in unexpanded.items() if rows}

    async def _count_beyond_limits(self) -> Stage | None:
        """Count the nodes that limits kept out of the walk, by one expansion after the last hit."""
        unexpanded = self.nodes_not_expanded()
        # 1. One call for the nodes of all limits, with counts of its own: this is not part of the walk.
        counts, policy = WalkCounts(), self.policy
        entries = CommittedNodes(self.entries[row] for rows in unexpanded.values() for row in rows)
        sources = read_exactly(await self._ask("expand", entries), len(entries), "expand", policy)
        neighbors = await read_neighbors(sources, entries, policy, self.limits, counts)
        # 2. Share the answer out among the limits. If reading was cut short, each limit is in `at_least`.
        self.asking = "node_id"
        found, numbers = iter(neighbors), dict[str, int]()
        for limit, rows in unexpanded.items():
            unreached: set[Hashable] = set()
            for nodes in islice(found, len(rows)):
                unreached |= self.record.find_unreached(nodes)
                await self._pacer.pace()
            numbers[limit] = len(unreached)
        for limit, number in numbers.items():
            self.counts.refuse(limit, number)
            if counts.left_out:
                self.counts.at_least.add(limit)
        return None

    def extend(self, *, max_depth: int | None, node_budget: int) -> None:
        """Raise the limits of an ended walk, so that `advance` goes on where it stopped."""
        self.counts.forget_end()
        if self.stop_reason == "node_budget":
            self.stop_reason, self._stage = None, WalkStages._commit
        # Without a frontier that is kept, all nodes at the depth cap are of the last step, and nothing else followed.
        if self._at_cap and max_depth != self.max_depth:
            self._step_start, self._at_cap = self._at_cap[0], []
            self.stop_reason, self._stage = None, WalkStages._expand
        self.node_budget = self.state.node_budget = node_budget
        self.max_depth = self.state.max_depth = max_depth
        if self.stop_reason is not None:
            self._stage = WalkStages._end_again

    def _end_again(self) -> Stage | None:
        return None if self.stop_reason is None else self._end(self.stop_reason)

    # Delivering what is ready.

    @property
    def emitted(self) -> int:
        """The number of hits that were delivered."""
        return self.next - bisect_left(self._routers, self.next)

    def open_ready(self) -> None:
        """Mark the rows that may leave without a request, up to where the next checkpoint is due."""
        self.ready_until = min(self.end, self.next + _HITS_PER_CHECKPOINT - 1)

    def pop_row(self) -> int | None:
        """Deliver the next committed node, also a router; return its row, `None` if none is ready."""
        row = self.next
        if row == self.end:
            return None
        self.next = row + 1
        if self.hits[row] is not None:
            self._stop_answer = None
        return row

    def pop_hit(self) -> SearchHit | None:
        """Deliver the next hit; `None` if none is ready."""
        while (row := self.pop_row()) is not None:
            if (hit := self.hits[row]) is not None:
                return hit
        return None

    def call_stop(self) -> bool | Awaitable[bool]:
        """Return the answer of `policy.stop`, which is called once after each delivered hit."""
        if self._stop_error is not None:
            raise self._stop_error
        if self._stop_answer is None:
            if not self.asks_stop:
                return False
            self._show_results()
            self.asking = "stop"
            self._stop_answer = self.policy.stop(self.state)
        return self._stop_answer

    def pop_ready(self) -> SearchHit | None:
        """Deliver the next hit; `None` if it is not ready, or the policy may stop before it.

        If the policy fails, the next call of `call_stop` raises its error.
        """
        try:
            may_pop = self.next < self.ready_until and self.call_stop() is False
        except Exception as error:  # noqa: BLE001 - it must not take the hits before it along
            self._stop_error, may_pop = error, False
        return self.pop_hit() if may_pop else None

    async def should_stop(self) -> bool:
        """Return whether the policy wants to stop; its answer is awaited if it has to be.

        Raises:
            PolicyError: If the answer is not a bool.
        """
        answer = self.call_stop()
        if answer is not False:
            self._stop_answer = None  # an answer cannot be awaited twice: if this is interrupted, ask again
            answer = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(answer, bool | np.bool_):
                name = type(self.policy).__name__
                raise PolicyError(f"{name}.stop returned {short_repr(answer)}; return True or False")
            self._stop_answer = bool(answer)
        return bool(answer)

    def _show_results(self) -> None:
        """Show the delivered hits in the state of the policy."""
        if self._shown < self.next:
            self._results += [hit for hit in self.hits[self._shown : self.next] if hit is not None]
            self._shown = self.next

    # What was delivered.

    def hits_since(self, start: int = 0) -> Iterator[tuple[int, SearchHit]]:
        """Yield the delivered hits from a row on, each with its position."""
        for row in range(start, self.next):
            hit = self.hits[row]
            if hit is not None:
                yield self._positions[row], hit

    def hits_to_rank(self) -> list[SearchHit]:
        """Return the delivered hits; those found again by a better path have its score."""
        self._show_results()
        better = self.record.better_paths
        return [
            self._provenance.improve(hit, position, better[position]) if position in better else hit
            for position, hit in self.hits_since()
        ]

    def summarize(self, stop: StopReason, seconds: float) -> WalkSummary:
        """Return the summary of the walk, with the nodes delivered so far."""
        counts, emitted = self.counts, self.emitted
        if stop == "sufficient":
            # Nobody looked behind the depth cap, and without it the policy might have found other nodes.
            counts.unknown.update(self.nodes_not_expanded())
        return WalkSummary(
            stop=stop,
            emitted=emitted,
            routed=self.next - emitted,
            steps=self.steps,
            edges=counts.edges,
            depth=max((entry.depth for entry in self.entries[: self.next]), default=0),
            seconds=seconds,
            left_out=dict(sorted(counts.left_out.items())),
            at_least=tuple(sorted(counts.at_least)),
            unknown=tuple(sorted(counts.unknown)),
            lost=() if self._corpora is None else tuple(self._corpora.lost),
            improved=len(self.record.better_paths),
        )
