"""A walk in batches, for consumers that do not need single hits."""

from collections.abc import AsyncGenerator, Coroutine, Sequence
from types import TracebackType
from typing import Any

from airw._base.concurrency import take_turn
from airw.values import SearchHit
from airw.walking.run import WalkRun, to_exception


class WalkBatches(AsyncGenerator[Sequence[SearchHit], None]):
    """The hits of one walk in batches, returned by `walk.batches()`.

    A batch has all hits that are ready, at least one, in the order in which the walk would yield them. Like a walk, it
    has nothing open between two batches. A policy that may stop the walk is asked after each hit, so the last batch
    ends with the hit that was enough.
    """

    def __init__(self, run: WalkRun) -> None:
        """Prepare the batches; nothing runs before the first request."""
        self._run, self._steps = run, run.steps
        self._error: Exception | None = None  # of `stop`; raised after the hits before it were delivered

    async def __anext__(self) -> Sequence[SearchHit]:
        """Return the next batch.

        Raises:
            StopAsyncIteration: If the walk has ended.
            RuntimeError: If another task is waiting for a batch.
        """
        return await self._run.serve(self._next_batch)

    def asend(self, value: None, /) -> Coroutine[Any, Any, Sequence[SearchHit]]:
        """Return the next batch, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> Sequence[SearchHit]:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise to_exception(typ, val, tb)

    async def aclose(self) -> None:
        """Close the walk."""
        await self._run.close()

    async def _next_batch(self) -> Sequence[SearchHit] | None:
        """Return the next batch; `None` at the end of the walk."""
        run, steps = self._run, self._steps
        if self._error is not None:
            raise self._error
        # Most policies have no rule to stop, and then a batch costs no question.
        if steps.call_stop() is not False and await run.should_end():
            return None
        # Hits that are ready need no work, so the deadline does not apply to them.
        if steps.has_ready_node:
            if not await run.run_other_tasks():
                return None
            ready = self._pop_batch()
            if ready:
                return ready
        batch = await run.run_until_deadline(self._work())
        if not batch:
            run.end(steps.stop_reason or "exhausted")
        return batch

    async def _work(self) -> Sequence[SearchHit] | None:
        await take_turn()
        while await self._steps.advance():
            batch = self._pop_batch()
            if batch:
                return batch
        return None

    def _pop_batch(self) -> Sequence[SearchHit]:
        """Deliver the hits that are ready, up to one after which the policy may stop the walk."""
        steps = self._steps
        if not steps.asks_stop:
            return steps.delivery.pop_batch()
        batch = []
        while (hit := steps.pop_hit()) is not None:
            batch.append(hit)
            try:
                if steps.call_stop() is not False:
                    break
            except Exception as error:  # noqa: BLE001 - raised by the next request
                self._error = error
                break
        return batch
