"""The steps of a walk: expand, score, select and commit; every limit is enforced here."""

import inspect
from collections.abc import Awaitable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import anyio
import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import Pacer, offload_if
from airw._base.messages import short_repr
from airw._base.telemetry import OpenSpan
from airw.errors import PolicyError
from airw.values import Edge, HitBatch, Limits, SearchHit, StopReason
from airw.walking.columns import Columns
from airw.walking.committed import CommittedNode, CommittedNodes
from airw.walking.delivery import Delivery
from airw.walking.found_again import FoundAgain, FoundPaths
from airw.walking.listed import ListedNeighbors, ListedNodes
from airw.walking.numbered import NumberedNeighbors, NumberedNodes, speaks_in_numbers
from airw.walking.policy import Frontier, Neighbors, Policy, WalkPolicy, WalkState
from airw.walking.provenance import Provenance
from airw.walking.reading import (
    SLICE_SIZE,
    NeighborReader,
    check_batch,
    read_exactly,
    read_seeds,
    read_selection,
    to_lists,
)
from airw.walking.record import WalkRecord
from airw.walking.slips import await_answer, find_edge, label_error, label_errors, require_plain
from airw.walking.spans import note_step, start_walk_span
from airw.walking.summary import LossyCorpus, WalkCounts, WalkSummary
from airw.walking.unreached import UnreachedCount

Positions = NDArray[np.intp]
_NO_POSITIONS = np.empty(0, np.intp)
_NODES_PER_BATCH = 2_048  # entering this many listed nodes takes about a millisecond
_LONG = 20_000  # handling arrays of this length takes about a millisecond


class ReadEdges(NamedTuple):
    """The neighbours read in a step, for events.

    Args:
        sources: The ids of the nodes that they follow.
        targets: Their own ids.
        are_known: Whether the walk had reached them before.
        nodes: The neighbours themselves, in a walk of lists.
        edges: The edges to them, in a walk in columns.
    """

    sources: Sequence[Hashable]
    targets: Sequence[Hashable]
    are_known: Sequence[bool]
    nodes: Sequence[Any]
    edges: Sequence[Edge | None] | None


@dataclass(slots=True)
class _Arrivals:
    """Nodes that were read, and enter the walk record.

    Args:
        found: The nodes themselves, or the numbers of those of a walk in columns.
        parents: The position of the node that each follows; -1 for a seed.
        entered: How many of them are in the record.
    """

    found: list[Any] | NumberedNeighbors
    parents: Positions
    entered: int = 0


class Steps:
    """The work of one walk, in pieces that `WalkRun` requests one by one.

    The walk begins with its seeds. A step scores the discovered nodes, selects from the frontier, commits the selection
    in slices, and expands the committed nodes. The hits of a slice are delivered before the next slice is committed.
    All state is in fields, so that nothing has to stay open while the consumer works. A deadline may cancel a piece of
    work. What it had finished stays in the fields; the call that was cancelled is repeated if the walk goes on.

    `is_idle` is set by `WalkRun`: True between two requests, until the walk ends. `stop_reason` is the reason found
    here; `WalkRun` finds the others. `has_step_to_report` is True from the end of a step, or the limit that ends the
    walk in it, until a reader of events has reported it. `read_edges` collects the neighbours of a step for events;
    `None` if the walk is read as hits. `span` is the span of the walk from its first request to its end; `None` if
    nobody wants spans.
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
        self.policy = policy
        # The type is looked at, because a store that records its calls would take a look at itself for a call.
        self._corpora: LossyCorpus | None = store.begin_walk(timeout) if hasattr(type(store), "begin_walk") else None
        self._store = store if self._corpora is None else self._corpora
        self.max_depth: int | None = max_depth
        self.node_budget: int = node_budget
        self.limits: Limits = limits
        self.counts: WalkCounts = WalkCounts()
        self.record: WalkRecord = WalkRecord(policy, limits.max_frontier, self.counts)
        self.asks_stop: bool = getattr(policy.stop, "__func__", None) is not Policy.stop
        # The nodes of the record: listed, or numbers if this is a walk in columns.
        self._listed: ListedNodes = self.record.nodes  # type: ignore[assignment]
        self._numbers: NumberedNodes | None = None
        self.delivery: Delivery = Delivery(self.counts, has_quick_hits=not self.asks_stop)
        self.state: WalkState[Any] = WalkState(query, max_depth, node_budget, limits, self.record, self.delivery)
        self.state.may_use_numbers = callable(getattr(policy, "name_nodes", None))
        self._reader = NeighborReader(policy, limits, self.counts)
        self._provenance = Provenance(policy, self.record)
        self._pacer = Pacer()
        self.stop_reason: StopReason | None = None
        self.is_idle: bool = False
        self.has_step_to_report: bool = False
        self.read_edges: list[ReadEdges] | None = None
        self.span: OpenSpan | None = None
        self._stop_answer: bool | Awaitable[bool] | None = False  # `None`: the policy was not asked since the last hit
        # The piece of work of this step that is done next, and what it has finished.
        self._has_discovered = self._has_scored = False
        self._arrivals: _Arrivals | None = None
        self._choice: tuple[Frontier, Any] | None = None  # the answer of `select`, which was not read yet
        self._found_paths: FoundPaths | None = None  # paths to committed nodes that have no scores yet
        self._better_paths: tuple[FoundPaths, NDArray[np.float64]] | None = None  # they have no edge types yet
        self._committing: CommittedNodes | None = None  # they have no hits yet
        # The selection of this step, where the budget ends it, and how much of it is committed.
        self._selected = _NO_POSITIONS
        self._selected_end = self._selected_done = 0
        self._at_depth_cap: list[CommittedNodes] = []  # committed nodes that are not expanded because of the depth cap
        self._first_edge = 0  # the number of the first neighbour in the last answer in columns

    def extend(self, *, max_depth: int | None, node_budget: int) -> None:
        """Raise the limits of an ended walk, so that `advance` goes on where it stopped."""
        self.counts.forget_end()
        if self.stop_reason == "node_budget":
            self.stop_reason, self._has_discovered = None, False
        self._selected_end = min(len(self._selected), self._selected_end + node_budget - self.node_budget)
        # Without a frontier that is kept, all nodes at the depth cap are of the last step, and nothing else followed.
        if self._at_depth_cap and max_depth != self.max_depth:
            self.delivery.to_expand, self._at_depth_cap = self._at_depth_cap, []
            self.stop_reason, self._has_discovered = None, False
        self.node_budget = self.state.node_budget = node_budget
        self.max_depth = self.state.max_depth = max_depth

    # The hits of an ended walk.

    def hits_to_rank(self) -> list[SearchHit]:
        """Return the delivered hits; those found again by a better path have its score."""
        again = self.record.found_again
        best = {} if again is None else again.best_paths()
        if not best:
            return self.delivery.delivered
        return [
            self._provenance.improve(hit, position, best[position]) if position in best else hit
            for hit, position in self.delivery.iterate_from(0)
        ]

    # Delivering hits and nodes that are ready.

    @property
    def has_ready_node(self) -> bool:
        """True if a committed node waits to be delivered."""
        return self.delivery.next < self.delivery.end

    def start_span(self, timeout: float) -> None:
        """Start the span of the walk, if the program wants spans."""
        limits: Any = {"max_depth": self.max_depth, "node_budget": self.node_budget, "timeout": timeout}
        self.span = start_walk_span(self.state.query, self._store, self.policy, **limits)

    def set_idle(self, is_idle: bool) -> None:  # noqa: FBT001
        """Note whether the walk is between two requests.

        Then hits that are ready may leave without one.
        """
        self.is_idle = is_idle
        if is_idle:
            self.delivery.allow_quick()
        else:
            self.delivery.forbid_quick()

    def pop_hit(self) -> SearchHit | None:
        """Deliver the next hit; `None` if none is ready."""
        hit = self.delivery.pop_hit()
        if hit is not None:
            self._stop_answer = None
        return hit

    def pop_node(self) -> tuple[CommittedNode, SearchHit | None] | None:
        """Deliver the next committed node, routers included, and its hit; `None` if none is ready."""
        node = self.delivery.pop_node()
        if node is not None and node[1] is not None:
            self._stop_answer = None
        return node

    def pop_hit_without_waiting(self) -> SearchHit | None:
        """Deliver the next hit if nothing has to be awaited for it; else return `None`.

        That is so if it is ready, the policy does not stop the walk, and no checkpoint is due. A checkpoint is due
        before the first hit and after every 100. An awaitable answer of `stop` is kept for `should_stop`.
        """
        if self.delivery.next < self.delivery.rest_at and self.call_stop() is False:
            return self.pop_hit()
        return None

    def summarize(self, stop: StopReason, seconds: float) -> WalkSummary:
        """Return the summary of the walk, with the nodes delivered so far."""
        self.delivery.count()
        self.counts.depth = int(np.maximum.reduce(self.record.depths_at(self.delivery.positions), initial=0))
        if stop == "sufficient":
            # Nobody looked behind the depth cap, and without it the policy might have found other nodes.
            self.counts.unknown.update(self.nodes_not_expanded())
        return self.counts.summary(stop, seconds, () if self._corpora is None else self._corpora.lost)

    def call_stop(self) -> bool | Awaitable[bool]:
        """Return the answer of `policy.stop`, which is called once after each delivered hit."""
        if self._stop_answer is None:
            if not self.asks_stop:
                return False
            self.delivery.show_progress()
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
            self._stop_answer = None  # an answer cannot be awaited twice: if this is interrupted, ask again
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
        self.delivery.count()
        self.delivery.show_progress()
        if self._corpora is not None:
            self._corpora.leave_out_lost()
        # Hits beyond `max_hits` are withheld here, and not when they are created: the policy may stop the
        # walk before it gets to them.
        if self.delivery.has_withheld:
            self._withhold_hits()
        # Count beyond the limits only now, when every hit has been delivered.
        if self.stop_reason is not None:
            await self._count_beyond_limits()
            return False
        # One slice at a time, so that the first hits of a large step leave before the others are created.
        if self._committing is not None or self._selected_done < self._selected_end:
            await self._commit_slice()
        elif self._has_discovered:
            await self._score_and_select()
        else:
            await self._discover()
        return True

    async def _discover(self) -> None:
        """Seed the walk, or expand the nodes of the last step unless a limit is reached."""
        if self._arrivals is None and not self.counts.steps:
            self.record.begin_step()
            self._arrivals = await self._seed()
        elif self._arrivals is None and not self._has_reached_limit():
            self.record.begin_step()
            self._arrivals = await self._expand()
        if self._arrivals is not None:
            await self._admit(self._arrivals)
            self._at_depth_cap += self._split_at_depth_cap()[1]
            self.delivery.to_expand, self._arrivals = [], None
        self.has_step_to_report = self.counts.steps > 0
        if self.span is not None and self.has_step_to_report:
            note_step(self.span, self.counts.steps, self.counts, self.record.waiting_count)
        self._has_discovered = True

    async def _seed(self) -> _Arrivals:
        self._create_memory()
        with label_errors("seed", self.policy):
            seeds = await await_answer("seed", self.policy, self.policy.seed(self.state, self._store))
            if speaks_in_numbers(self.policy, seeds):
                nodes = self._numbers = self.record.nodes = NumberedNodes(self.policy)
                numbers = nodes.check(seeds, "seed")
                self.counts.refuse("max_frontier", len(numbers) - self.limits.max_frontier)
                numbers = numbers[: self.limits.max_frontier]
                none = np.full(len(numbers), -1)
                return _Arrivals(NumberedNeighbors(numbers, none, none), none)
            listed = await read_seeds(seeds, self.policy, self.limits, self.counts)
        return _Arrivals(listed, np.full(len(listed), -1))

    def _create_memory(self) -> None:
        """Store the memory that `begin` of the policy returns; a policy without `begin` has none."""
        begin = getattr(self.policy, "begin", None)
        if callable(begin):
            with label_errors("begin", self.policy):
                self.state.memory = require_plain("begin", self.policy, begin(self.state))

    async def _expand(self) -> _Arrivals:
        below_cap, _ = self._split_at_depth_cap()
        if not below_cap:
            return _Arrivals([], _NO_POSITIONS)
        committed = self._join(below_cap)
        positions = committed.positions
        with label_errors("expand", self.policy):
            answer = await self._call_expand(committed)
            if isinstance(answer, Columns) and self._numbers is not None:
                found = self._read_columns(answer, positions, self._numbers)
                return _Arrivals(found, found.parents)
            sources = to_lists(answer, len(positions), self.policy)
            nodes, counts = await self._reader.read_in_row(sources, committed)
        parents = np.repeat(positions, counts)
        if self._numbers is not None:
            numbers = self._numbers.check_list(nodes)
            return _Arrivals(NumberedNeighbors(numbers, np.full(len(nodes), -1), parents), parents)
        with label_errors("node_id", self.policy):
            self._listed.require_stable(positions)
        return _Arrivals(nodes, parents)

    def _read_columns(self, answer: Columns, positions: Positions, nodes: NumberedNodes) -> NumberedNeighbors:
        """Return the neighbours from an answer in columns, as far as the limits allow."""
        numbers = nodes.check(answer.ids, "expand")
        counts, places = self._reader.read_columns(answer, len(positions))
        self._first_edge = start = nodes.add_answer(answer)
        parents = np.repeat(positions, counts)
        if places is None:
            return NumberedNeighbors(numbers, np.arange(start, start + len(numbers)), parents)
        return NumberedNeighbors(numbers[places], places + start, parents)

    def _join(self, parts: list[CommittedNodes]) -> CommittedNodes:
        """Return committed nodes as one sequence."""
        if len(parts) == 1:
            return parts[0]
        return CommittedNodes(self.record, np.concatenate([part.positions for part in parts]))

    def _split_at_depth_cap(self) -> tuple[list[CommittedNodes], list[CommittedNodes]]:
        """Return the nodes to expand that are below the depth cap, and those at it."""
        cap, nodes = self.max_depth, self.delivery.to_expand
        if cap is None or not nodes:
            return nodes, []
        positions = self._join(nodes).positions
        is_below = self.record.depths_at(positions) < cap
        if is_below.all():
            return nodes, []
        below_cap, at_cap = positions[is_below], positions[~is_below]
        below = [CommittedNodes(self.record, below_cap)] if len(below_cap) else []
        return below, [CommittedNodes(self.record, at_cap)]

    async def _call_expand(self, committed: CommittedNodes) -> Columns | list[Neighbors]:
        answer = await await_answer("expand", self.policy, self.policy.expand(self.state, committed, self._store))
        return answer if isinstance(answer, Columns) else read_exactly(answer, len(committed), "expand", self.policy)

    async def _admit(self, arrivals: _Arrivals) -> None:
        """Enter nodes that were read in the walk record."""
        if isinstance(arrivals.found, NumberedNeighbors):
            if self._numbers is not None:
                await self._admit_numbers(self._numbers, arrivals.found)
        else:
            await self._admit_listed(arrivals, arrivals.found)

    async def _admit_listed(self, arrivals: _Arrivals, nodes: list[Any]) -> None:
        """Enter listed nodes in the walk record, in batches between which other tasks may run."""
        compares = self.read_edges is not None and self.counts.steps > 0  # seeds are not read from edges
        while arrivals.entered < len(nodes):
            part = slice(arrivals.entered, arrivals.entered + _NODES_PER_BATCH)
            with label_errors("node_id", self.policy):
                batch = nodes[part]
                found = ListedNeighbors(batch, self._listed.identify(batch), arrivals.parents[part])
                is_known = self.record.admit(found, compares=compares)
            if is_known is not None and self.read_edges is not None:
                sources = self.record.ids_at(found.parents)
                self.read_edges.append(ReadEdges(sources, found.ids, is_known.tolist(), batch, None))
            arrivals.entered += len(batch)
            await self._pacer.pace()

    async def _admit_numbers(self, nodes: NumberedNodes, found: NumberedNeighbors) -> None:
        """Enter numbered nodes in the walk record, and note the edges for events."""
        is_long = len(found.numbers) > _LONG
        if self.read_edges is None or not self.counts.steps:  # seeds are not read from edges
            await offload_if(is_long, partial(self.record.admit, found, compares=False))
            return
        # What has to be awaited comes first, because nodes enter the record only once.
        if nodes.has_names:
            await nodes.name(found.numbers, self.state, self._store)
        sources = await offload_if(is_long, self.record.ids_at, found.parents)
        targets, edges = nodes.names_of(found.numbers), await nodes.edges(found.edges)
        is_known = await offload_if(is_long, partial(self.record.admit, found, compares=True))
        self.read_edges.append(ReadEdges(sources, targets, [] if is_known is None else is_known.tolist(), (), edges))

    async def _score_and_select(self) -> None:
        """Score the nodes discovered in this step, and select from all that wait."""
        await self._score()
        selected = _NO_POSITIONS
        if self.record.waiting_count:
            self._choice = self._choice or await self._call_select()
            # This is short, and has no calls of the policy: only between two of them may a deadline end the work.
            with anyio.CancelScope(shield=True):
                selected = await self._read_choice(*self._choice)
        self._has_discovered, self._has_scored, self._choice = False, False, None
        if len(selected):
            self.counts.steps += 1
            # The node budget cuts the selection, whatever the policy returned. The rest of it waits.
            self._selected, self._selected_done = selected, 0
            self._selected_end = min(len(selected), self.node_budget - self.counts.committed)
        elif self.record.waiting_count:
            self.stop_reason = "sufficient"  # the policy declined to select from the waiting nodes
        else:
            self.stop_reason = "exhausted"

    async def _score(self) -> None:
        if not self._has_scored:
            await self._score_new()
            self._has_scored = True
        if self._better_paths is not None and self.record.found_again is not None:
            better, scores = self._better_paths
            self.record.found_again.keep(better, scores, await self._edge_types(better))
            self._better_paths = None
        await self._pacer.pace()

    async def _score_new(self) -> None:
        nodes, again = self.record.fresh_nodes(), self.record.found_again
        if again is not None and self._found_paths is None:
            self._found_paths = again.pop_new()
        if again is not None and self._found_paths is not None:
            await self._score_again(nodes, self._found_paths, again)
        elif len(nodes):
            if self._numbers is not None and self.counts.steps:
                self.state.fresh_edges = self.record.fresh_edges(self._numbers) - self._first_edge
            with label_errors("score", self.policy):
                answer = self.policy.score(self.state, nodes, self._store)
                self.record.score_fresh(await await_answer("score", self.policy, answer))

    async def _score_again(self, fresh: Any, paths: FoundPaths, again: FoundAgain) -> None:
        """Score the nodes discovered in this step and, in the same call, paths to committed nodes."""
        record, count, numbers = self.record, len(fresh), self._numbers
        nodes: Any = [*fresh, *paths.nodes] if numbers is None else np.concatenate([fresh, paths.nodes])
        if numbers is not None:
            edges = np.concatenate([record.fresh_edges(numbers), paths.edges])
            self.state.fresh_edges = edges - self._first_edge
        with label_errors("score", self.policy):
            answer = await await_answer("score", self.policy, self.policy.score(self.state, nodes, self._store))
            scores = record.check_scores(answer, nodes)
            if count:
                record.score_fresh(scores[:count])
        is_better, self._found_paths = again.are_better(paths, scores[count:]), None
        if is_better.any():
            self._better_paths = paths.take(is_better), scores[count:][is_better]

    async def _edge_types(self, paths: FoundPaths) -> list[str | None]:
        """Return the types of the last edges of paths."""
        if self._numbers is not None:
            return await self._numbers.types_of(paths.edges)
        edges = [find_edge(self.policy, node) for node in paths.nodes]
        return [None if edge is None else edge.type for edge in edges]

    async def _call_select(self) -> tuple[Frontier, Any]:
        """Return the frontier that the policy saw, and its answer."""
        with label_errors("select", self.policy):
            frontier = self.record.frontier()
            answer = self.policy.select(self.state, frontier)
            # Arrays are usual, and asking whether one is awaitable takes time.
            if not isinstance(answer, np.ndarray) and inspect.isawaitable(answer):
                answer = await answer
        return frontier, answer

    async def _read_choice(self, frontier: Frontier, answer: Any) -> Positions:
        """Return the positions that the policy selected, and drop those that leave the frontier."""
        with label_errors("select", self.policy):
            selected = await read_selection(answer, self.record, self.policy)
            if frontier.dropped:
                await offload_if(len(frontier.dropped) > _NODES_PER_BATCH, self.record.drop, frontier.dropped, selected)
        if len(selected):
            await offload_if(len(selected) > _LONG, self.record.drop_unselected, selected)
        return selected

    async def _commit_slice(self) -> None:
        """Commit the next slice of the selection, and ask the policy for its hits."""
        if self._committing is None:
            positions = self._selected[self._selected_done : min(self._selected_end, self._selected_done + SLICE_SIZE)]
            self._selected_done += len(positions)
            with label_errors("node_id", self.policy):
                self._committing = self.record.commit(positions)
        nodes, positions = self._committing, self._committing.positions
        edge_types = None
        if self._numbers is not None:
            # A number does not say which edge led to it, so `edge_of` is asked in walks of lists only.
            if self._numbers.has_names:
                await self._numbers.name(self._numbers.nodes_at(positions), self.state, self._store)
            no_types = [None] * len(positions)
            edge_types = await self._numbers.edge_types(positions) if self._numbers.has_edges else no_types
        self.delivery.note_committed(nodes)
        self.delivery.show_progress()
        with label_errors("to_hits", self.policy):
            answer = await await_answer("to_hits", self.policy, self.policy.to_hits(self.state, nodes, self._store))
            if isinstance(answer, HitBatch):
                check_batch(answer, len(nodes), self.policy)
                hits: Sequence[SearchHit | None] = self._provenance.annotate_batch(nodes, answer, edge_types)
            else:
                hits = read_exactly(answer, len(nodes), "to_hits", self.policy)
                self._provenance.annotate(nodes, hits, edge_types)
        self.delivery.start_slice(nodes, hits)
        self._committing = None
        if self.limits.max_hits is not None:
            self.delivery.end_within(self.limits.max_hits - self.counts.emitted)

    # Limits on hits and committed nodes.

    def _withhold_hits(self) -> None:
        """End the walk at `max_hits`, and count the hits of this slice that it leaves out."""
        # Nodes that wait, after this slice or in the frontier, have no hits yet. So the count is a lower bound.
        self.counts.refuse("max_hits", self.delivery.withhold(), at_least=self.record.waiting_count > 0)
        self.stop_reason = "max_hits"

    def _has_reached_limit(self) -> bool:
        """Return whether `max_hits` or the node budget is spent.

        If so, set the stop reason and count the nodes that still wait.
        """
        is_spent = self.counts.committed >= self.node_budget
        if self.counts.emitted == self.limits.max_hits:  # `max_hits` precedes `node_budget` in `STOP_REASONS`
            self.stop_reason = "max_hits"
        elif is_spent:
            self.stop_reason = "node_budget"
        else:
            return False
        # A spent budget keeps waiting nodes out, even if `max_hits` is the reason to stop.
        self.counts.refuse("node_budget" if is_spent else self.stop_reason, self.record.waiting_count)
        return True

    # The count beyond the limits.

    def nodes_not_expanded(self) -> dict[str, CommittedNodes]:
        """Return, by limit, the nodes that were committed but not expanded because of it."""
        below_cap, at_cap = self._split_at_depth_cap()
        unexpanded = {"max_depth": self._at_depth_cap + at_cap}
        # Behind a limit that has a count already nothing is expanded: `left_out` is the first count above 0.
        if self.stop_reason in ("node_budget", "max_hits") and self.stop_reason not in self.counts.left_out:
            unexpanded[self.stop_reason] = below_cap
        return {limit: self._join(parts) for limit, parts in unexpanded.items() if parts}

    async def _count_beyond_limits(self) -> None:
        """Count the nodes that limits kept out of the walk, by one expansion after the last hit."""
        unexpanded = self.nodes_not_expanded()
        # After `sufficient` nothing is counted: the policy did not want more.
        if self.stop_reason == "sufficient" or not unexpanded:
            return
        if not self.limits.count_beyond_limits:
            self.counts.unknown.update(unexpanded)
            return
        # 1. One call for the nodes of all limits.
        committed = self._join(list(unexpanded.values()))
        counts = WalkCounts()  # its own counts: this is not part of the walk
        reader = NeighborReader(self.policy, self.limits, counts)
        unreached = UnreachedCount(self.policy, self.record.nodes, reader)
        sizes = list(map(len, unexpanded.values()))
        with label_errors("expand", self.policy):
            numbers = await unreached.count(await self._call_expand(committed), committed, sizes)
        # 2. Share the answer out among the limits. If reading was cut short, each limit is in `at_least`.
        for limit, count in zip(unexpanded, numbers, strict=True):
            self.counts.refuse(limit, count)
            if counts.left_out:
                self.counts.at_least.add(limit)
