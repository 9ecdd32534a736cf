"""A walk as events: every commitment, router or hit, every edge, every step, and the end."""

from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import TracebackType
from typing import Any

import anyio.lowlevel

from airw.walking.events import Committed, EdgeFound, Ended, StepDone, WalkEvent
from airw.walking.reading import explain
from airw.walking.run import Run, thrown

__all__ = ["WalkEvents"]

_EVENTS_PER_CHECKPOINT = 100


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

    def _committed(self) -> Committed | None:
        ready = self._steps.next_entry()
        if ready is None:
            return None
        entry, hit = ready
        score = entry.score if hit is None else hit.score  # which a policy may know better by now
        return Committed(entry.id, entry.depth, score, entry.parent, hit)

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
        return None if summary is None or summary.stop == "closed" else Ended(summary)
