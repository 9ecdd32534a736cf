"""The events of a walk, for drawing or logging it: nodes, edges, steps and the end."""

from collections.abc import AsyncGenerator, Coroutine, Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, TypeAlias

from airw._base.concurrency import take_turn
from airw._base.json import json_clean
from airw.values import Edge, SearchHit
from airw.walking.committed import CommittedNode
from airw.walking.run import WalkRun, to_exception
from airw.walking.slips import find_edge
from airw.walking.summary import WalkSummary

_EVENTS_PER_CHECKPOINT = 100


@dataclass(frozen=True, slots=True)
class NodeCommitted:
    """The event that a node was committed.

    Args:
        id: The id of the node.
        depth: The number of hops from its seed.
        score: The score of its hit; for a router the score of the node.
        parent: The id of the node it was reached from; `None` for a seed.
        hit: The hit; `None` for a router.
    """

    id: Hashable
    depth: int
    score: float
    parent: Hashable | None
    hit: SearchHit | None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values, of type `hit` or `router`.

        A hit has all fields of `SearchHit.to_dict`.
        """
        node_fields = {"id": self.id, "depth": self.depth, "parent": self.parent, "score": self.score}
        hit_fields = {} if self.hit is None else self.hit.to_dict()
        return {"type": "router" if self.hit is None else "hit", **json_clean(node_fields), **hit_fields}


@dataclass(frozen=True, slots=True)
class EdgeFound:
    """The event that a neighbour of a committed node was read.

    Args:
        source: The id of the committed node.
        target: The id of the neighbour, in the direction of the walk.
        type: The type of the edge; `None` if the policy names no edge.
        known: Whether the neighbour was committed or waiting before.
        edge: The edge as it is stored; `None` if the policy names none. It was walked backwards if it does not begin at
            `source`.
    """

    source: Hashable
    target: Hashable
    type: str | None
    known: bool
    edge: Edge | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values, of type `edge`."""
        ends = {"source": json_clean(self.source), "target": json_clean(self.target)}
        origin = None if self.edge is None else self.edge.origin
        weight = {} if self.edge is None or self.edge.weight == 1 else {"weight": self.edge.weight}
        return {"type": "edge", **ends, "edge_type": self.type, "origin": origin, **weight, "known": self.known}


@dataclass(frozen=True, slots=True)
class StepDone:
    """The event that a step is complete: nodes are committed, neighbours are read.

    Args:
        step: The number of the step; the first is 1.
        committed: The number of nodes committed so far.
        edges: The number of neighbours read so far.
        waiting: The number of nodes that wait to be selected.
    """

    step: int
    committed: int
    edges: int
    waiting: int

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values, of type `progress`."""
        counts = {"committed": self.committed, "edges": self.edges, "waiting": self.waiting}
        return {"type": "progress", "step": self.step, **counts}


@dataclass(frozen=True, slots=True)
class WalkEnded:
    """The event that the walk ended; `summary` reports why, and what was left out."""

    summary: WalkSummary

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a dict of JSON values, of type `summary`."""
        return {"type": "summary", **self.summary.to_dict()}


WalkEvent: TypeAlias = NodeCommitted | EdgeFound | StepDone | WalkEnded
"""An event that `walk.events()` yields; its `to_dict()` is one line of streaming JSON."""


class WalkEvents(AsyncGenerator[WalkEvent, None]):
    """The events of one walk, returned by `walk.events()`.

    Like a walk, it has nothing open between two events. For each step it yields the committed nodes, then the edges
    read from them, then `StepDone`. `WalkEnded` comes last. Nodes that are only counted beyond the limits are in the
    summary and are not events. If the walk fails, the error is raised; if it is closed, the events end. In both cases
    there is no `WalkEnded`.
    """

    def __init__(self, run: WalkRun, *, edges: bool = True) -> None:
        """Prepare the events; nothing runs before the first request."""
        self._run, self._steps = run, run.steps
        self._steps.read_edges = [] if edges else None
        self._step_events: Iterator[WalkEvent] = iter(())
        self._event_count = 0

    async def __anext__(self) -> WalkEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: If the walk has ended.
            RuntimeError: If another task is waiting for an event.
        """
        event = self._pop_without_waiting()
        return await self._run.serve(self._next_event) if event is None else event

    def asend(self, value: None, /) -> Coroutine[Any, Any, WalkEvent]:
        """Return the next event, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> WalkEvent:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise to_exception(typ, val, tb)

    async def aclose(self) -> None:
        """Close the walk; see `Walk.aclose`."""
        await self._run.close()

    async def read_batch(self) -> list[WalkEvent]:
        """Return the events that are ready, at least one and at most 100; none at the end.

        It costs one request. If the walk fails, events before the failure may be missing.
        """
        event = await anext(self, None)
        return [] if event is None else [event, *self._pop_ready()]

    def _pop_ready(self) -> list[WalkEvent]:
        """Return the events that are ready, up to the next checkpoint."""
        steps, room = self._steps, -self._event_count % _EVENTS_PER_CHECKPOINT
        if not steps.is_idle:
            return []
        try:
            events = [*islice(self._step_events, room)]
            # A policy that may stop the walk is asked after each hit.
            if not steps.asks_stop and len(events) < room:
                nodes, hits = steps.delivery.pop_nodes(room - len(events))
                events += map(_make_node_event, nodes, hits)
        except BaseException:
            self._run.end("failed")
            raise
        self._event_count += len(events)
        return events

    def _pop_without_waiting(self) -> WalkEvent | None:
        """Return the next event if it is ready; see `Steps.pop_hit_without_waiting`."""
        steps = self._steps
        if not steps.is_idle or self._event_count % _EVENTS_PER_CHECKPOINT == 0:
            return None
        try:
            event = next(self._step_events, None)
            if event is None and steps.has_ready_node and steps.call_stop() is False:
                event = self._pop_committed()
        except BaseException:
            self._run.end("failed")
            raise
        self._event_count += event is not None
        return event

    async def _next_event(self) -> WalkEvent | None:
        self._event_count += 1
        if self._event_count % _EVENTS_PER_CHECKPOINT == 1 and not await self._run.run_other_tasks():
            return None
        # The events of the last step need no work, so the deadline does not apply to them.
        event = next(self._step_events, None)
        if event is None and not await self._run.should_end():
            event = await self._work_for_event()
        return self._last_event() if event is None else event

    def _pop_committed(self) -> NodeCommitted | None:
        ready = self._steps.pop_node()
        return None if ready is None else _make_node_event(*ready)

    async def _work_for_event(self) -> WalkEvent | None:
        """Work until there is an event; return `None` when the walk has ended."""
        run, steps = self._run, self._steps
        more = True
        while more and run.summary is None:
            event = self._pop_committed()
            if event is not None:
                return event
            more = await run.run_until_deadline(self._work()) or False
            if steps.has_step_to_report:
                steps.has_step_to_report = False
                self._step_events = self._events_of_step()
                return next(self._step_events)
        run.end(steps.stop_reason or "exhausted")
        return None

    async def _work(self) -> bool:
        await take_turn()
        return await self._steps.advance()

    def _events_of_step(self) -> Iterator[WalkEvent]:
        """Yield the edges that a step has read, then its end.

        Each event is created when it is requested, because a step may have very many edges.
        """
        steps, read_edges = self._steps, self._steps.read_edges or []
        steps.read_edges = None if steps.read_edges is None else []
        # The counts are those at the end of the step, whenever the consumer requests the event.
        step_done = StepDone(steps.counts.steps, steps.counts.committed, steps.counts.edges, steps.record.waiting_count)
        for sources, targets, are_known, nodes, edges in read_edges:
            columns = zip(sources, targets, are_known, nodes if edges is None else edges, strict=True)
            for source, target, is_known, node_or_edge in columns:
                edge = find_edge(steps.policy, node_or_edge) if edges is None else node_or_edge
                yield EdgeFound(source, target, None if edge is None else edge.type, is_known, edge)
        yield step_done

    def _last_event(self) -> WalkEvent | None:
        summary = self._run.summary
        return None if summary is None or summary.stop == "closed" else WalkEnded(summary)


def _make_node_event(entry: CommittedNode, hit: SearchHit | None) -> NodeCommitted:
    # A policy may give a hit another score than its node had when it was selected.
    score = entry.score if hit is None else hit.score
    return NodeCommitted(entry.id, entry.depth, score, entry.parent, hit)
