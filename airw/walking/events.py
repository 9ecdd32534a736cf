"""A walk as events, for those who draw or log it: every commitment, every edge, every step, and the end."""

from collections.abc import AsyncGenerator, Coroutine, Hashable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

import anyio.lowlevel

from airw._base.json import json_clean
from airw.values import Edge, SearchHit
from airw.walking.reading import explain
from airw.walking.run import Run, thrown
from airw.walking.summary import WalkSummary

_EVENTS_PER_CHECKPOINT = 100


@dataclass(frozen=True, slots=True)
class NodeCommitted:
    """A node was committed.

    Args:
        id: The node.
        depth: Hops from its seed.
        score: That of its hit; what the policy gave a node that only routes.
        parent: The node it was reached from; `None` for a seed.
        hit: The hit it is; `None` where it only routes.
    """

    id: Hashable
    depth: int
    score: float
    parent: Hashable | None
    hit: SearchHit | None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values: of type `hit` with the fields of the hit, or of type `router`."""
        about = {"id": self.id, "depth": self.depth, "parent": self.parent, "score": self.score}
        found = {} if self.hit is None else self.hit.to_dict()
        return {"type": "router" if self.hit is None else "hit", **json_clean(about), **found}


@dataclass(frozen=True, slots=True)
class EdgeFound:
    """A neighbour of a committed node was read.

    Args:
        source: The committed node.
        target: The neighbour, in the direction of the walk.
        type: The type of the edge, where the policy names one.
        known: Whether the neighbour was committed or waiting already.
        edge: The edge as it is stored, where the policy names one; walked against where it does not begin at `source`.
    """

    source: Hashable
    target: Hashable
    type: str | None
    known: bool
    edge: Edge | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values, of type `edge`."""
        ends = {"source": json_clean(self.source), "target": json_clean(self.target)}
        origin = None if self.edge is None else self.edge.origin
        return {"type": "edge", **ends, "edge_type": self.type, "origin": origin, "known": self.known}


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step is done: its nodes are committed, and their neighbours read.

    Args:
        step: Its number; the first is 1.
        committed: Nodes committed so far.
        edges: Neighbours read so far.
        waiting: Nodes that wait to be selected.
    """

    step: int
    committed: int
    edges: int
    waiting: int

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values, of type `progress`."""
        counts = {"committed": self.committed, "edges": self.edges, "waiting": self.waiting}
        return {"type": "progress", "step": self.step, **counts}


@dataclass(frozen=True, slots=True)
class WalkEnded:
    """The walk ended; `summary` says why, and what was left out."""

    summary: WalkSummary

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON-clean values, of type `summary`."""
        return {"type": "summary", **self.summary.to_dict()}


WalkEvent: TypeAlias = NodeCommitted | EdgeFound | StepDone | WalkEnded
"""What `walk.events()` yields; `to_dict()` of each is one line of streaming JSON."""


class WalkEvents(AsyncGenerator[WalkEvent, None]):
    """The events of one walk, with the manners of a walk: nothing is open between two of them.

    Each step tells what it committed, then the edges found from there, then that it is done; the summary comes last.
    What the look over the edge sees is counted in the summary and no event. A walk that fails raises, and one that is
    closed ends, without a summary among its events. Made by `walk.events()`.
    """

    def __init__(self, run: Run) -> None:
        """Prepare; nothing runs before the first request."""
        self._run, self._steps = run, run.steps
        self._steps.noted = []
        self._pending: Iterator[WalkEvent] = iter(())
        self._given = self._told = 0

    async def __anext__(self) -> WalkEvent:
        """Give the next event.

        Raises:
            StopAsyncIteration: The walk has ended.
            RuntimeError: Another task waits for an event.
        """
        event = self._at_once()
        return await self._run.take(self._next) if event is None else event

    def asend(self, value: None, /) -> Coroutine[Any, Any, WalkEvent]:
        """Give the next event, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> WalkEvent:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise thrown(typ, val, tb)

    async def aclose(self) -> None:
        """Stop the walk, as closing the walk itself does."""
        await self._run.close()

    def _at_once(self) -> WalkEvent | None:
        """Give the next event where that takes no waiting, as `Steps.hit_at_once` does for hits."""
        steps = self._steps
        if not steps.at_rest or self._given % _EVENTS_PER_CHECKPOINT == 0:
            return None
        try:
            event = next(self._pending, None)
            if event is None and steps.at_hand and steps.ask() is False:
                event = self._committed()
        except BaseException:
            self._run.end("failed")
            raise
        self._given += event is not None
        return event

    async def _next(self) -> WalkEvent | None:
        self._given += 1
        if self._given % _EVENTS_PER_CHECKPOINT == 1 and not await self._run.rest():
            return None
        event = next(self._pending, None)
        if event is None and not await self._run.enough():
            event = await self._from_steps()
        return self._end() if event is None else event

    def _committed(self) -> NodeCommitted | None:
        ready = self._steps.next_entry()
        if ready is None:
            return None
        entry, hit = ready
        score = entry.score if hit is None else hit.score  # which a policy may know better by now
        return NodeCommitted(entry.id, entry.depth, score, entry.parent, hit)

    async def _from_steps(self) -> WalkEvent | None:
        """Give the next event that needs work; `None` when the walk has ended."""
        run, steps = self._run, self._steps
        more = True
        while more and run.summary is None:
            event = self._committed()
            if event is not None:
                return event
            more = await run.in_time(self._work()) or False
            if steps.done > self._told:
                self._told = steps.done
                self._pending = self._of_step()
                return next(self._pending)
        run.end(steps.stop or "exhausted")
        return None

    async def _work(self) -> bool:
        await anyio.lowlevel.checkpoint()
        return await self._steps.advance()

    def _of_step(self) -> Iterator[WalkEvent]:
        """Give what a step found, made one by one as it is asked for: there may be many."""
        steps, noted = self._steps, self._steps.noted or []
        steps.noted = []
        counts = StepDone(steps.done, steps.tally.committed, steps.tally.edges, steps.record.waiting_count)
        edge_of, id_at = steps.policy.edge_of, steps.record.id_at
        for groups, ids, known in noted:
            told = zip(ids, known, strict=True)
            for parent, nodes in groups:
                source = id_at(parent)
                for node, (id, was) in zip(nodes, told, strict=False):  # those of the other groups follow
                    try:
                        edge = edge_of(node)
                    except Exception as error:
                        explain(error, "edge_of", steps.policy)
                        raise
                    yield EdgeFound(source, id, None if edge is None else edge.type, was, edge)
        yield counts

    def _end(self) -> WalkEvent | None:
        summary = self._run.summary
        return None if summary is None or summary.stop == "closed" else WalkEnded(summary)
