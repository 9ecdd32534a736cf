"""Calls that wait together are answered by one call."""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel

Q = TypeVar("Q")
A = TypeVar("A")

_MAX_TOGETHER = 64  # questions in one call: more would make each wait longer, and hardly save time


@dataclass(slots=True, eq=False, repr=False)
class _Request(Generic[Q]):
    """A question that waits for its answer, or for its turn to ask.

    Args:
        question: The question.
        called: Set when there is an answer, or when its caller is to ask; only a request that waits has it.
        is_next: Whether its caller is to ask.
        is_alone: Whether it must not be asked together with others, because such a call has failed.
        is_gone: Whether its caller was cancelled.
        answers: The answer; empty until there is one.
    """

    question: Q
    called: anyio.Event = field(init=False)
    is_next: bool = False
    is_alone: bool = False
    is_gone: bool = False
    answers: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class _Line(Generic[Q]):
    """The requests of one kind: how many calls run, and which requests wait."""

    running: int = 0
    waiting: deque[_Request[Q]] = field(default_factory=deque)


class Coalescer(Generic[Q, A]):
    """Asks questions that wait for the same kind of call together.

    A question that need not wait is asked at once, alone. While it is asked, others of its kind wait. Then the caller
    of the first one asks all of them in one call. If that caller is cancelled, the next one asks. If a call for several
    questions fails, each is asked alone, so that an error reaches only its own caller. So no work runs without a caller
    that waits for it.

    Args:
        lanes: The number of calls of one kind at the same time.

    Example:
        >>> calls = []
        >>> async def double(numbers):
        ...     calls.append(numbers)
        ...     await anyio.sleep(0.01)
        ...     return [2 * number for number in numbers]
        >>> async def main():
        ...     coalescer = Coalescer()
        ...     async with anyio.create_task_group() as group:
        ...         for number in range(4):
        ...             group.start_soon(coalescer.ask, "double", number, double)
        >>> anyio.run(main)
        >>> calls
        [[0], [1, 2, 3]]
    """

    def __init__(self, lanes: int = 1) -> None:
        self._lanes = lanes
        self._lines: dict[Hashable, _Line[Q]] = {}

    async def ask(self, kind: Hashable, question: Q, answer: Callable[[list[Q]], Awaitable[Sequence[A]]]) -> A:
        """Return the answer to a question.

        Args:
            kind: What questions have in common that can be asked together.
            question: The question.
            answer: Returns one answer for each of several questions of this kind.
        """
        # Tasks of several event loops cannot wait for each other.
        key = (anyio.lowlevel.current_token(), kind)
        line = self._lines.get(key) or self._lines.setdefault(key, _Line())
        request = _Request(question)
        if line.running < self._lanes:
            line.running += 1
        elif not await self._wait_for_turn(key, line, request):
            return cast("A", request.answers.pop())
        try:
            while not request.answers:
                await _ask_together(line, request, answer)
        finally:
            self._call_next(key, line)
        return cast("A", request.answers.pop())

    async def _wait_for_turn(self, key: Hashable, line: _Line[Q], request: _Request[Q]) -> bool:
        """Wait; return True if the caller is to ask, and False if the request is answered."""
        request.called = anyio.Event()
        line.waiting.append(request)
        try:
            await request.called.wait()
        except anyio.get_cancelled_exc_class():
            request.is_gone = True
            if request.is_next:
                self._call_next(key, line)
            elif request in line.waiting:
                line.waiting.remove(request)
            raise
        return request.is_next

    def _call_next(self, key: Hashable, line: _Line[Q]) -> None:
        """Hand the lane that is free now to the first request that waits."""
        if line.waiting:
            following = line.waiting.popleft()
            following.is_next = True
            following.called.set()
            return
        line.running -= 1
        if not line.running:
            self._lines.pop(key, None)


async def _ask_together(
    line: _Line[Q], request: _Request[Q], answer: Callable[[list[Q]], Awaitable[Sequence[Any]]]
) -> None:
    """Ask this question together with all that wait; if that fails, each is to be asked alone."""
    companions = [] if request.is_alone else [each for each in line.waiting if not each.is_alone]
    together = [request, *companions[: _MAX_TOGETHER - 1]]
    for each in together[1:]:
        line.waiting.remove(each)
    try:
        answers = await answer([each.question for each in together])
    except Exception:
        if len(together) == 1:
            raise
        for each in together:
            each.is_alone = True
        _put_back(line, together[1:])
    except BaseException:  # cancelled: the next one asks
        _put_back(line, together[1:])
        raise
    else:
        for each, its_answer in zip(together, answers, strict=True):
            each.answers.append(its_answer)
        for each in together[1:]:
            each.called.set()


def _put_back(line: _Line[Q], requests: Sequence[_Request[Q]]) -> None:
    line.waiting.extendleft(each for each in reversed(requests) if not each.is_gone)
