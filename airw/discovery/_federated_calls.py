"""Calls of the stores of several corpora, and what becomes of a corpus that fails."""

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import anyio

from airw._base.concurrency import map_bounded
from airw._base.messages import error_text, one_line
from airw._base.notes import add_note
from airw.errors import AirwError, ArgumentError, DiscoveryError, FilterError, RemoteError, StoreError
from airw.protocols import Request, Store
from airw.stores.memory.stack import Stack
from airw.walking import LostCorpus

OnMemberError: TypeAlias = Literal["skip", "raise"]

STACK: Final = "/"
"""In the place of a name: the small stores of this process, which are ranked together."""

_MAX_CONCURRENCY = 16  # stores called at once


class NotTogether(Exception):
    """The small stores cannot answer together."""


def is_callers_fault(error: Exception) -> bool:
    """Return whether an error is about an argument, and would come from each corpus.

    What a server refuses is not: it may have limits of its own, and must not end the work of others.
    """
    return isinstance(error, ArgumentError | FilterError) and not isinstance(error, RemoteError)


class MemberCalls:
    """The calls of the stores of several corpora, for one walk or outside of walks.

    With `on_error="skip"`, a corpus that fails is left out: its artifacts are unknown from then on, and `lost` reports
    it. A corpus that is too slow is left out at once, another one that fails from `leave_out_lost` on. The walk calls
    that between its stages. So the calls that a policy makes at the same time are the same, whichever of them fails
    first.

    Args:
        stores: The stores by the name of their corpus.
        on_error: Leave out a corpus that fails, or raise its error.
        timeout: How many seconds a store may take for one call; `None` for any time.
        walk_timeout: The seconds of the walk. As soon as one corpus has answered, the others may take half of it, or
            twice the time of that answer.
        stack: The small ones among the stores, if they are known already.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        *,
        on_error: OnMemberError,
        timeout: float | None,
        walk_timeout: float = math.inf,
        stack: Stack | None = None,
    ) -> None:
        self.stores: dict[str, Store] = dict(stores)
        self.stack: Stack = stack or Stack()
        # If there is one corpus only, nothing would be left.
        self._skips_errors = on_error == "skip" and len(self.stores) > 1
        self._timeout = math.inf if timeout is None else timeout
        # Otherwise one corpus that hangs would take all the time of the walk, and the answers of the others.
        self._half = walk_timeout / 2 if self._skips_errors and timeout is not None else math.inf
        self._longest = self._timeout  # that a call may take by now
        self._has_answer = False
        self._running: dict[anyio.CancelScope, float] = {}  # with the time at which each call began
        self._errors: dict[str, Exception] = {}
        self._late: set[str] = set()
        self._left_out: set[str] = set()

    @property
    def lost(self) -> tuple[LostCorpus, ...]:
        """The corpora that failed so far, in the order of the corpora."""
        return tuple(
            LostCorpus(name, "timeout" if name in self._late else "failed", error_text(self._errors[name]))
            for name in self.stores
            if name in self._errors
        )

    def leave_out_lost(self) -> None:
        """Call the corpora that failed so far no more."""
        self._left_out.update(self._errors)

    async def read(
        self, requests: Mapping[str, Sequence[Request[Any]]], stacked: AbstractSet[str] = frozenset()
    ) -> dict[str, list[Any]]:
        """Call every store that has requests, 16 at a time; return the answers by store.

        Args:
            requests: The requests by store. Those to `STACK` are answered by small stores together.
            stacked: These stores, as `update_stack` has named them.

        Raises:
            DiscoveryError: If every corpus has failed.
            NotTogether: If the small stores must be asked one by one, so that a failure is that of its store.
        """
        answers: dict[str, list[Any]] = {}
        if STACK in requests:
            with anyio.move_on_after(self._longest), suppress(AirwError):  # such as of vectors of another width
                together = await self.stack.read(stacked, requests[STACK])
                if together is not None:
                    answers[STACK] = together
            if not answers:
                raise NotTogether

        async def call_member(name: str) -> None:
            try:
                answers[name] = await self._read_in_time(name, requests[name])
            except Exception as error:
                add_note(error, f"from corpus {name!r}")
                if not self._skips_errors or is_callers_fault(error):
                    raise
                # Of several errors of one stage, timing decides which comes first; it must not decide which one counts.
                known = self._errors.get(name, error)
                self._errors[name] = min(known, error, key=error_text)

        names = [name for name in self.stores if name in requests and name not in self._left_out]
        await map_bounded(call_member, names, limit=_MAX_CONCURRENCY)
        if len(self._errors) == len(self.stores):
            raise self._total_loss()
        # In the order of the corpora, not of the answers.
        return {name: answers[name] for name in (STACK, *names) if name in answers}

    async def update_stack(self) -> AbstractSet[str]:
        """Return the names of the small stores that can be asked together, as `STACK`."""
        names: AbstractSet[str] = frozenset()
        # Part of the time of the walk must be left for the walk.
        with anyio.move_on_after(min(self._longest, self._half / 2)):
            names = await self.stack.update(self.stores)
        return names if names.isdisjoint(self._left_out) else frozenset()

    async def _read_in_time(self, name: str, requests: Sequence[Request[Any]]) -> list[Any]:
        began = anyio.current_time()
        scope = anyio.CancelScope(deadline=began + self._longest)
        self._running[scope] = began
        try:
            with scope:
                answers = await self.stores[name].read(*requests)
                if not self._has_answer:
                    self._wait_less(anyio.current_time() - began)
                return answers
        finally:
            del self._running[scope]
        # Nobody waits for this corpus a second time.
        self._late.add(name)
        self._left_out.add(name)
        is_own = self._longest == self._timeout
        limit = f"member_timeout={self._timeout:g} s" if is_own else f"{self._longest:.3g} s, and another one did"
        raise StoreError(f"corpus {name!r} did not answer within {limit}")

    def _wait_less(self, first: float) -> None:
        """Wait less for corpora from now on, as one has answered within `first` seconds."""
        self._has_answer = True
        self._longest = min(self._timeout, max(self._half, 2 * first))
        for scope, began in self._running.items():
            scope.deadline = began + self._longest

    def _total_loss(self) -> DiscoveryError:
        causes = {name: self._errors[name] for name in self.stores}
        texts = "; ".join(f"{name}: {error_text(error)}" for name, error in causes.items())
        failure = DiscoveryError(f"every corpus of the walk failed: {one_line(texts, longest=600)}", causes)
        failure.__cause__ = ExceptionGroup("every corpus of the walk failed", list(causes.values()))
        return failure
