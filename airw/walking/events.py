"""The events of a walk, for drawing or logging it: nodes, edges, steps and the end."""

from collections.abc import AsyncGenerator, Coroutine, Hashable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from airw._base.concurrency import take_turn
from airw._base.json import fields_to_json, json_clean
from airw.values import Edge, SearchHit
from airw.walking.answers import find_edge
from airw.walking.policy import WalkPolicy
from airw.walking.record import ReadEdge
from airw.walking.run import WalkRun, to_exception
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
        return {"type": "progress", **fields_to_json(self)}


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
        self._run, self._stages = run, run.stages
        self._stages.record.read_edges = [] if edges else None
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
        events: list[WalkEvent] = []
        while event is not None:
            events.append(event)
            if len(events) == _EVENTS_PER_CHECKPOINT:
                break
            # An error of `stop` is raised by a request of its own, so that it takes no events with it.
            event = next(self._step_events, None) if self._stages.asks_stop else self._pop_without_waiting()
        return events

    def _pop_without_waiting(self) -> WalkEvent | None:
        """Return the next event if it is ready and nothing else comes before it."""
        stages, run = self._stages, self._run
        if run.busy or run.has_ended or self._event_count % _EVENTS_PER_CHECKPOINT == 0:
            return None
        try:
            event = next(self._step_events, None)
            if event is None and stages.next < stages.end and stages.call_stop() is False:
                event = self._pop_committed()
        except BaseException as error:
            run.fail(error)
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
        summary = self._run.summary
        if event is None and summary is not None and summary.stop != "closed":
            event = WalkEnded(summary)
        return event

    def _pop_committed(self) -> NodeCommitted | None:
        row = self._stages.pop_row()
        if row is None:
            return None
        entry, hit = self._stages.entries[row], self._stages.hits[row]
        # A policy may give a hit another score than its node had when it was selected.
        return NodeCommitted(entry.id, entry.depth, entry.score if hit is None else hit.score, entry.parent, hit)

    async def _work_for_event(self) -> WalkEvent | None:
        """Work until there is an event; return `None` when the walk has ended."""
        run, stages = self._run, self._stages
        more = True
        while more and not run.has_ended:
            event = self._pop_committed()
            if event is not None:
                return event
            more = not stages.is_over() and (await run.run_until_deadline(self._work()) or False)
            if stages.step_to_report is not None:
                record, step_done = stages.record, StepDone(*stages.step_to_report)
                stages.step_to_report = None
                edges, record.read_edges = record.read_edges or [], None if record.read_edges is None else []
                self._step_events = _events_of_step(stages.policy, edges, step_done)
                return next(self._step_events)
        run.end(stages.stop_reason or "exhausted")
        return None

    async def _work(self) -> bool:
        await take_turn()
        return await self._stages.advance()


def _events_of_step(policy: WalkPolicy, edges: Iterable[ReadEdge], step_done: StepDone) -> Iterator[WalkEvent]:
    """Yield the edges that a step has read, then its end.

    Each event is created when it is requested, because a step may have very many edges. A generator of a method would
    be a cycle of references, and keep a walk that was dropped.
    """
    for source, target, is_known, node in edges:
        edge = find_edge(policy, node)
        yield EdgeFound(source, target, None if edge is None else edge.type, is_known, edge)
    yield step_done
