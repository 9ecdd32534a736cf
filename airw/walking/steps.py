"""The steps of a walk: expand, score, select and commit; every limit is enforced here."""

import inspect
from collections.abc import Awaitable, Hashable, Sequence
from functools import partial
from itertools import chain, compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import Pacer, in_thread, offload_if
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
from airw.walking.policy import LazyNeighbors, Neighbors, Policy, WalkPolicy, WalkState
from airw.walking.provenance import Provenance
from airw.walking.reading import (
    SLICE_SIZE,
    NeighborReader,
    check_batch,
    read_exactly,
    read_seeds,
    read_selection,
    split_columns,
)
from airw.walking.record import WalkRecord
from airw.walking.slips import await_answer, find_edge, label_error, label_errors, require_plain
from airw.walking.spans import note_step, start_walk_span
from airw.walking.summary import LossyCorpus, WalkCounts, WalkSummary

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


class Steps:
    """The work of one walk, in pieces that `WalkRun` requests one by one.

    The walk begins with its seeds. A step scores the discovered nodes, selects from the frontier, commits the selection
    in slices, and expands the committed nodes. The hits of a slice are delivered before the next slice is committed.
    All state is in fields, so that nothing has to stay open while the consumer works.

    `is_idle` is set by `WalkRun`: True between two requests, until the walk ends. `stop_reason` is the reason found
    here; `WalkRun` finds the others. `steps_done` is the number of steps whose expansion is done or was skipped.
    `read_edges` collects the neighbours of a step for events; `None` if the walk is read as hits. `span` is the span of
    the walk from its first request to its end; `None` if nobody wants spans.
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
        self.asks_stop = getattr(policy.stop, "__func__", None) is not Policy.stop
        # The nodes of the record: listed, or numbers if this is a walk in columns.
        self._listed: ListedNodes = self.record.nodes  # type: ignore[assignment]
        self._numbers: NumberedNodes | None = None
        self.delivery = Delivery(self.counts, has_quick_hits=not self.asks_stop)
        self.state = WalkState(query, max_depth, node_budget, limits, self.record, self.delivery)
        self.state.may_use_numbers = callable(getattr(policy, "name_nodes", None))
        self._reader = NeighborReader(policy, limits, self.counts)
        self._provenance = Provenance(policy, self.record)
        self._pacer = Pacer()
        self.stop_reason: StopReason | None = None
        self.is_idle = False
        self.steps_done = 0
        self.read_edges: list[ReadEdges] | None = None
        self.span: OpenSpan | None = None
        self._stop_answer: bool | Awaitable[bool] | None = False  # `None`: the policy was not asked since the last hit
        # The selection of this step, cut to the budget, and how much of it is committed.
        self._selected = _NO_POSITIONS
        self._selected_done = 0
        self._at_depth_cap: list[CommittedNodes] = []  # committed nodes that are not expanded because of the depth cap
        self._first_edge = 0  # the number of the first neighbour in the last answer in columns
        self._has_discovered = False

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
        limits: Any = {"max_depth": self._max_depth, "node_budget": self._budget, "timeout": timeout}
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
            self.delivery.to_expand = []
        self.steps_done = self.counts.steps
        if self.span is not None and self.steps_done:
            note_step(self.span, self.steps_done, self.counts, self.record.waiting_count)
        self._has_discovered = True

    async def _seed(self) -> None:
        self._create_memory()
        with label_errors("seed", self.policy):
            seeds = await await_answer("seed", self.policy, self.policy.seed(self.state, self._store))
            if speaks_in_numbers(self.policy, seeds):
                nodes = self._numbers = self.record.nodes = NumberedNodes(self.policy)
                numbers = nodes.check(seeds, "seed")
                self.counts.refuse("max_frontier", len(numbers) - self._limits.max_frontier)
                numbers = numbers[: self._limits.max_frontier]
                none = np.full(len(numbers), -1)
                await self._admit_numbers(nodes, NumberedNeighbors(numbers, none, none))
                return
            listed = await read_seeds(seeds, self.policy, self._limits, self.counts)
        await self._admit_listed(listed, np.full(len(listed), -1))

    def _create_memory(self) -> None:
        """Store the memory that `begin` of the policy returns; a policy without `begin` has none."""
        begin = getattr(self.policy, "begin", None)
        if callable(begin):
            with label_errors("begin", self.policy):
                self.state.memory = require_plain("begin", self.policy, begin(self.state))

    async def _expand(self) -> None:
        below_cap, at_cap = self._split_at_depth_cap()
        self._at_depth_cap += at_cap
        if not below_cap:
            return
        committed = self._join(below_cap)
        positions = committed.positions
        with label_errors("expand", self.policy):
            answer = await self._call_expand(committed)
            if isinstance(answer, Columns) and self._numbers is not None:
                await self._admit_numbers(self._numbers, self._read_columns(answer, positions, self._numbers))
                return
            nodes, counts = await self._reader.read_in_row(self._to_lists(answer, len(positions)), committed)
        parents = np.repeat(positions, counts)
        if self._numbers is not None:
            numbers = self._numbers.check_list(nodes)
            await self._admit_numbers(self._numbers, NumberedNeighbors(numbers, np.full(len(nodes), -1), parents))
            return
        with label_errors("node_id", self.policy):
            self._listed.require_stable(positions)
        await self._admit_listed(nodes, parents)

    def _read_columns(self, answer: Columns, positions: Positions, nodes: NumberedNodes) -> NumberedNeighbors:
        """Return the neighbours from an answer in columns, as far as the limits allow."""
        numbers = nodes.check(answer.ids, "expand")
        counts, places = self._reader.read_columns(answer, len(positions))
        self._first_edge = start = nodes.add_answer(answer)
        parents = np.repeat(positions, counts)
        if places is None:
            return NumberedNeighbors(numbers, np.arange(start, start + len(numbers)), parents)
        return NumberedNeighbors(numbers[places], places + start, parents)

    def _to_lists(self, answer: Columns | list[Neighbors], count: int) -> Sequence[Neighbors]:
        return split_columns(answer, count, self.policy) if isinstance(answer, Columns) else answer

    def _join(self, parts: list[CommittedNodes]) -> CommittedNodes:
        """Return committed nodes as one sequence."""
        if len(parts) == 1:
            return parts[0]
        return CommittedNodes(self.record, np.concatenate([part.positions for part in parts]))

    def _split_at_depth_cap(self) -> tuple[list[CommittedNodes], list[CommittedNodes]]:
        """Return the nodes to expand that are below the depth cap, and those at it."""
        cap, nodes = self._max_depth, self.delivery.to_expand
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

    async def _admit_listed(self, nodes: list[Any], parents: Positions) -> None:
        """Enter listed nodes in the walk record, in batches between which other tasks may run."""
        compares = self.read_edges is not None and self.counts.steps > 0  # seeds are not read from edges
        for start in range(0, len(nodes), _NODES_PER_BATCH):
            part = slice(start, start + _NODES_PER_BATCH)
            with label_errors("node_id", self.policy):
                batch = nodes[part]
                found = ListedNeighbors(batch, self._listed.identify(batch), parents[part])
                is_known = self.record.admit(found, compares=compares)
            if is_known is not None and self.read_edges is not None:
                sources = self.record.ids_at(found.parents)
                self.read_edges.append(ReadEdges(sources, found.ids, is_known.tolist(), batch, None))
            await self._pacer.pace()

    async def _admit_numbers(self, nodes: NumberedNodes, found: NumberedNeighbors) -> None:
        """Enter numbered nodes in the walk record, and note the edges for events."""
        compares = self.read_edges is not None and self.counts.steps > 0
        is_long = len(found.numbers) > _LONG
        admit = partial(self.record.admit, found, compares=compares)
        is_known = await in_thread(admit) if is_long else admit()
        if is_known is None or self.read_edges is None:
            return
        if nodes.has_names:
            await nodes.name(found.numbers, self.state, self._store)
        sources = await offload_if(is_long, self.record.ids_at, found.parents)
        targets, edges = nodes.names_of(found.numbers), await nodes.edges(found.edges)
        self.read_edges.append(ReadEdges(sources, targets, is_known.tolist(), (), edges))

    async def _score_and_select(self) -> None:
        """Score the nodes discovered in this step, and select from all that wait."""
        self._has_discovered = False
        await self._score()
        selected = await self._select() if self.record.waiting_count else _NO_POSITIONS
        if len(selected):
            self.counts.steps += 1
            await offload_if(len(selected) > _LONG, self.record.drop_unselected, selected)
            # The node budget cuts the selection, whatever the policy returned. The rest of it waits.
            self._selected, self._selected_done = selected[: self._budget - self.counts.committed], 0
        elif self.record.waiting_count:
            self.stop_reason = "sufficient"  # the policy declined to select from the waiting nodes
        else:
            self.stop_reason = "exhausted"

    async def _score(self) -> None:
        nodes, again = self.record.fresh_nodes(), self.record.found_again
        paths = None if again is None else again.pop_new()
        if again is not None and paths is not None:
            await self._score_again(nodes, paths, again)
        elif len(nodes):
            if self._numbers is not None and self.counts.steps:
                self.state.fresh_edges = self.record.fresh_edges(self._numbers) - self._first_edge
            with label_errors("score", self.policy):
                answer = self.policy.score(self.state, nodes, self._store)
                self.record.score_fresh(await await_answer("score", self.policy, answer))
            await self._pacer.pace()

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
        is_better = again.are_better(paths, scores[count:])
        if is_better.any():
            better = paths.take(is_better)
            again.keep(better, scores[count:][is_better], await self._edge_types(better))
        await self._pacer.pace()

    async def _edge_types(self, paths: FoundPaths) -> list[str | None]:
        """Return the types of the last edges of paths."""
        if self._numbers is not None:
            return await self._numbers.types_of(paths.edges)
        edges = [find_edge(self.policy, node) for node in paths.nodes]
        return [None if edge is None else edge.type for edge in edges]

    async def _select(self) -> Positions:
        with label_errors("select", self.policy):
            frontier = self.record.frontier()
            answer = self.policy.select(self.state, frontier)
            # Arrays are usual, and asking whether one is awaitable takes time.
            positions = answer if isinstance(answer, np.ndarray) or not inspect.isawaitable(answer) else await answer
            selected = await read_selection(positions, self.record, self.policy)
            if frontier.dropped:
                await offload_if(len(frontier.dropped) > _NODES_PER_BATCH, self.record.drop, frontier.dropped, selected)
            return selected

    async def _commit_slice(self) -> None:
        """Commit the next slice of the selection, and ask the policy for its hits."""
        positions = self._selected[self._selected_done : self._selected_done + SLICE_SIZE]
        self._selected_done += len(positions)
        with label_errors("node_id", self.policy):
            nodes = self.record.commit(positions)
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
        if self._limits.max_hits is not None:
            self.delivery.end_within(self._limits.max_hits - self.counts.emitted)

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
        if not self._limits.count_beyond_limits:
            self.counts.unknown.update(unexpanded)
            return
        # 1. One call for the nodes of all limits.
        committed = self._join(list(unexpanded.values()))
        counts = WalkCounts()  # its own counts: this is not part of the walk
        reader = NeighborReader(self.policy, self._limits, counts)
        sizes = list(map(len, unexpanded.values()))
        with label_errors("expand", self.policy):
            answer = await self._call_expand(committed)
            if isinstance(answer, Columns) and self._numbers is not None:
                unreached = await self._count_columns(answer, sizes, reader, self._numbers)
            else:
                unreached = await self._count_lists(self._to_lists(answer, len(committed)), committed, sizes, reader)
        # 2. Share the answer out among the limits. If reading was cut short, each limit is in `at_least`.
        for limit, count in zip(unexpanded, unreached, strict=True):
            self.counts.refuse(limit, count)
            if counts.left_out:
                self.counts.at_least.add(limit)

    async def _count_columns(
        self, answer: Columns, sizes: Sequence[int], reader: NeighborReader, nodes: NumberedNodes
    ) -> list[int]:
        """Return how many nodes behind each limit were not reached, from an answer in columns."""
        numbers = nodes.check(answer.ids, "expand")
        counts, places = reader.read_columns(answer, sum(sizes))
        numbers = numbers if places is None else numbers[places]
        ends = np.cumsum(counts)[np.cumsum(sizes) - 1].tolist()
        parts = [numbers[start:end] for start, end in pairwise([0, *ends])]
        return [await offload_if(len(part) > _LONG, nodes.count_unreached, part) for part in parts]

    async def _count_lists(
        self, sources: Sequence[Neighbors], committed: CommittedNodes, sizes: Sequence[int], reader: NeighborReader
    ) -> list[int]:
        """Return how many nodes behind each limit were not reached, from an answer in lists."""
        # The ids of lazy neighbours are enough: no nodes are created.
        are_ids = [isinstance(source, LazyNeighbors) for source in sources]
        plain = [source.ids if isinstance(source, LazyNeighbors) else source for source in sources]
        neighbors = await reader.read(plain, committed)
        unreached, start = [], 0
        for size in sizes:
            part = slice(start, start := start + size)
            unreached.append(await self._count_listed(neighbors[part], are_ids[part]))
        return unreached

    async def _count_listed(self, neighbors: Sequence[Sequence[Any]], are_ids: Sequence[bool]) -> int:
        """Return how many nodes the walk has not reached, among nodes and ids."""
        if self._numbers is not None:
            return self._numbers.count_unreached(self._numbers.check_list(list(chain.from_iterable(neighbors))))
        unreached: set[Hashable] = set()
        for as_ids in (False, True):
            nodes = list(chain.from_iterable(compress(neighbors, (is_ids is as_ids for is_ids in are_ids))))
            for start in range(0, len(nodes), _NODES_PER_BATCH):
                with label_errors("node_id", self.policy):
                    unreached |= self._listed.find_unreached(nodes[start : start + _NODES_PER_BATCH], are_ids=as_ids)
                await self._pacer.pace()
        return len(unreached)
