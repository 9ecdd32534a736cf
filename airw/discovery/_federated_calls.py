"""The store of several corpora, which calls their stores in rounds."""

import math
from collections.abc import Collection, Mapping, Sequence, Set as AbstractSet
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Literal, TypeAlias

import anyio
import numpy as np

from airw._base.concurrency import map_bounded, offload_if
from airw._base.messages import error_text, one_line
from airw._base.notes import add_note
from airw.discovery._federated_reading import STACK, Reading, field_of
from airw.errors import AirwError, ArgumentError, DiscoveryError, FilterError, RemoteError, StoreError
from airw.protocols import CAPABILITIES, Capability, Change, Rank, Request, Store, Words, check_able
from airw.stores.memory.stack import Stack
from airw.values import Ranking
from airw.walking import LostCorpus

OnMemberError: TypeAlias = Literal["skip", "raise"]

# A search needs one corpus that can, as do links. Whoever asks about given artifacts needs an answer for each.
_BY_ONE: Final[frozenset[Capability]] = frozenset({"dense", "edges", "lexical", "links"})
_BY_ALL: Final[frozenset[Capability]] = frozenset(
    {"ledger", "matching", "names", "phrases", "records", "scores", "vectors", "words"}
)
_AT_ONCE = 16  # stores that are called at the same time
_OFFLOAD_ABOVE = 1_000  # ids or rows: splitting and joining more of them takes longer than about a millisecond


class _NotTogether(Exception):
    """The small stores cannot answer together."""


def is_callers_fault(error: Exception) -> bool:
    """Return whether an error is about an argument, and would come from each corpus.

    What a server refuses is not: it may have limits of its own, and must not end the work of others.
    """
    return isinstance(error, ArgumentError | FilterError) and not isinstance(error, RemoteError)


class FederatedStore:
    """A read-only store that is answered by the stores of several corpora.

    Artifacts are `ArtifactRef(source, id)`, records are `source/id`. An artifact of a corpus that is not a member is
    unknown. So is a plain text, except in `Names` and `Referrers`. If answers are ranked together, ties are in the
    order of the artifact ids.

    All requests of one call advance together, in rounds: a round is at most one call of each store. A store is asked
    only about its own artifacts. Most requests take one round. Texts are ranked in two, as the stores count words
    first. Edges take a second one if links lead from corpus to corpus. A chain takes no more rounds than its first
    request, as far as its parts lie in one corpus.

    With `on_error="skip"`, a corpus that fails is left out: it answers nothing from then on, as if it were empty, and
    `lost` reports it. A corpus that is too slow is left out at once, another one that fails from `leave_out_lost` on.
    The walk calls that between its stages. So the calls that a policy makes at the same time are the same, whichever of
    them fails first.

    Args:
        stores: The stores by the name of their corpus; a name must not contain `/`.
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
        on_error: OnMemberError = "raise",
        timeout: float | None = None,
        walk_timeout: float = math.inf,
        stack: Stack | None = None,
    ) -> None:
        self.stores: dict[str, Store] = dict(stores)
        self.stack: Stack = stack or Stack()
        self._able: Mapping[Capability, Sequence[str]] = {
            need: [name for name, store in stores.items() if need in store.capabilities] for need in CAPABILITIES
        }
        by_all = {need for need in _BY_ALL if len(self._able[need]) == len(stores)}
        self.capabilities: Collection[Capability] = by_all.union(need for need in _BY_ONE if self._able[need])
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

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request.

        Raises:
            ArgumentError: If the stores cannot answer one of them.
            DiscoveryError: If every corpus has failed.
        """
        check_able(self, *requests)
        stacked: AbstractSet[str] = frozenset()
        # Whoever counts words or ranks all that there is asks every store.
        if any(isinstance(request, Words | Rank) and field_of(request) is None for request in requests):
            # Part of the time of the walk must be left for the walk.
            with anyio.move_on_after(min(self._longest, self._half / 2)):
                stacked = await self.stack.update(self.stores)
        try:
            return await self._read(requests, stacked if stacked.isdisjoint(self._left_out) else frozenset())
        except _NotTogether:
            return await self._read(requests, frozenset())

    async def _read(self, requests: Sequence[Request[Any]], stacked: AbstractSet[str]) -> list[Any]:
        """Return the answer of each request; `stacked` are the stores that are ranked together."""
        reading = Reading([*self.stores], self._able, stacked, requests)
        answers: dict[tuple[str, int], Any] = {}
        values = [getattr(request, field_of(request) or "", ()) for request in requests]
        while reading.plans:
            is_long = sum(map(_count_items, values)) > _OFFLOAD_ABOVE
            asked = await offload_if(is_long, reading.advance, answers)
            answers = await self._call(asked, stacked)
            values = [*answers.values()]
        return [reading.answers[id(request)] for request in requests]

    async def apply(self, change: Change) -> None:
        """Refuse to write."""
        raise ArgumentError("several corpora are read together: write to one of them")

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Refuse to write."""
        raise ArgumentError("several corpora are read together: write to one of them")

    async def aclose(self) -> None:
        """Close nothing: whoever opened the corpora closes them."""

    # The calls of one round

    async def _call(
        self, requests: Mapping[str, Sequence[Request[Any]]], stacked: AbstractSet[str]
    ) -> dict[tuple[str, int], Any]:
        """Call every store that has requests.

        Args:
            requests: The requests by store. Those to `STACK` are answered by small stores together.
            stacked: The names of these stores.

        Returns:
            The answers, by store and by the `id` of the request.

        Raises:
            DiscoveryError: If every corpus has failed.
            _NotTogether: If the small stores must be asked one by one, so that a failure is that of its store.
        """
        answers: dict[tuple[str, int], Any] = {}

        def keep(name: str, own: Sequence[Any]) -> None:
            answers.update(((name, id(request)), answer) for request, answer in zip(requests[name], own, strict=True))

        async def call(name: str) -> None:
            try:
                keep(name, await self._read_in_time(name, requests[name]))
            except Exception as error:
                add_note(error, f"from corpus {name!r}")
                if not self._skips_errors or is_callers_fault(error):
                    raise
                # Of several errors of one stage, timing decides which comes first; it must not decide which one counts.
                self._errors[name] = min(self._errors.get(name, error), error, key=error_text)

        if STACK in requests:
            with anyio.move_on_after(self._longest), suppress(AirwError):  # such as of vectors of another width
                together = await self.stack.read(stacked, requests[STACK])
                if together is not None:
                    keep(STACK, together)
            if not answers:
                raise _NotTogether
        await map_bounded(
            call, [name for name in self.stores if name in requests.keys() - self._left_out], limit=_AT_ONCE
        )
        if len(self._errors) == len(self.stores):
            causes = {name: self._errors[name] for name in self.stores}
            texts = "; ".join(f"{name}: {error_text(error)}" for name, error in causes.items())
            told = "every corpus of the walk failed"
            reason = ExceptionGroup(told, [*causes.values()])
            raise DiscoveryError(f"{told}: {one_line(texts, longest=600)}", causes) from reason
        return answers

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


def _count_items(value: object) -> int:
    """Return the number of items in a list and in the lists within."""
    if not isinstance(value, list | tuple):
        return len(value) if isinstance(value, np.ndarray) else 0
    return len(value) + sum(len(item) for item in value if isinstance(item, list | Ranking))
