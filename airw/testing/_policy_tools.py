"""What the policy cases are made of: what is examined, walks to compare, and a policy that is watched at work."""

import sys
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Hashable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import isawaitable
from itertools import islice
from typing import Any, TypeAlias, cast

from airw.testing.exam import Case
from airw.testing.scripted import Delays, Failures, ScriptedStore
from airw.values import Limits, SearchHit
from airw.walking import Frontier, Walk, WalkPolicy, WalkState, WalkSummary, traverse

PolicyCase: TypeAlias = "Case[ExaminedPolicy]"

_OBSERVED = ("seed", "score", "select", "expand", "to_hits", "stop")
BUDGET = 200  # nodes that a walk of a case may commit, unless it says otherwise


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """One call of a policy's method during a walk, after it.

    Args:
        method: Its name.
        state: What it was given.
        items: The nodes, entries or positions it was asked about; none for `seed` and `stop`.
        answer: What it answered.
        calls: How often it called each method of the store, where that is known.
        changed: The fields of the state, `cache` aside, that were not the same afterwards.
    """

    method: str
    state: WalkState
    items: Sequence[Any]
    answer: Any
    calls: Counter[str]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishedWalk:
    """A walk at its end: its hits, and what each said then, as JSON-clean values."""

    walk: Walk
    hits: list[SearchHit]
    told: list[dict[str, Any]]

    @property
    def summary(self) -> WalkSummary:
        """The summary of a walk that has ended."""
        return cast("WalkSummary", self.walk.summary)


@dataclass(frozen=True, slots=True)
class ExaminedPolicy:
    """What a case is given: the policy, a maker of another one where there is one, and what to walk.

    Args:
        policy: What is examined.
        make_another: Makes an equal policy.
        store: An open corpus, or whatever the policy walks.
        query: What the walks look for.
        is_corpus: Whether `store` is a dataclass with a `store` of its own, as a `Corpus` is.
        max_calls: The most calls of the store that one step may take; `None` for any number.
    """

    policy: WalkPolicy
    make_another: Callable[[], WalkPolicy] | None
    store: Any
    query: str
    is_corpus: bool
    max_calls: int | None

    def scripted(
        self, delays: Delays | dict[str, Delays] = 0.0, failures: dict[str, Failures] | None = None
    ) -> tuple[Any, ScriptedStore]:
        """Return the corpus over a scripted store, and that store."""
        store = ScriptedStore(self.store.store, delays=delays, failures=failures)
        return replace(self.store, store=store), store

    def start(
        self,
        *,
        policy: WalkPolicy | None = None,
        store: Any = None,
        query: str | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> Walk:
        """Start a walk."""
        return traverse(
            self.query if query is None else query,
            self.store if store is None else store,
            policy=policy or self.policy,
            limits=limits,
            **{"node_budget": BUDGET, **options},
        )

    async def walked(self, **options: Any) -> FinishedWalk:
        """Start a walk and take all its hits."""
        return await take(self.start(**options))

    async def watched(self, **options: Any) -> tuple[FinishedWalk, list[PolicyCall]]:
        """Walk under observation; return the walk, and what the policy was asked."""
        asked: list[PolicyCall] = []
        return await self.watch(asked.append, **options), asked

    async def watch(self, tell: Callable[[PolicyCall], None], *, store: Any = None, **options: Any) -> FinishedWalk:
        """Walk under observation; `tell` hears of each call as soon as it has ended, and may raise."""
        scripted: ScriptedStore | None = None
        if self.is_corpus and store is None:
            store, scripted = self.scripted()
        return await self.walked(
            policy=cast("WalkPolicy", _Observed(self.policy, tell, scripted)), store=store, **options
        )


async def take(walk: Walk) -> FinishedWalk:
    """Take all hits of a walk."""
    async with walk:
        hits = [hit async for hit in walk]
    return FinishedWalk(walk, hits, [hit.to_dict() for hit in hits])


def identity(hit: SearchHit) -> Hashable:
    """Return what tells the hits of one walk apart."""
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index


def containers(value: Any) -> Iterator[Any]:
    """Yield every dict, list and set inside a value, itself included."""
    if isinstance(value, dict | list | set):
        yield value
    if isinstance(value, dict | list | set | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@contextmanager
def generators() -> Iterator[list[AsyncGenerator[Any, Any]]]:
    """Collect the async generators that begin to run inside the block."""
    begun: list[AsyncGenerator[Any, Any]] = []
    hooks = sys.get_asyncgen_hooks()

    def begin(generator: AsyncGenerator[Any, Any]) -> None:
        begun.append(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(begin, hooks.finalizer)
    try:
        yield begun
    finally:
        sys.set_asyncgen_hooks(*hooks)


class _Observed:
    """Does as a policy does, and tells of each call of its methods that take the state."""

    def __init__(self, policy: WalkPolicy, tell: Callable[[PolicyCall], None], store: ScriptedStore | None) -> None:
        self._policy, self._tell, self._store = policy, tell, store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._policy, name)
        return self._observe(name, method) if name in _OBSERVED else method

    def _observe(self, name: str, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(state: WalkState, *arguments: Any) -> Any:
            about = arguments[0] if arguments and name != "seed" else ()
            items = about.live.tolist() if isinstance(about, Frontier) else about
            before, counted = _portrait(state), self._counted()
            answer = method(state, *arguments)
            answer = await answer if isawaitable(answer) else answer
            if name in ("select", "expand", "to_hits"):
                answer = list(islice(answer, len(items) + (name != "select")))
            after = _portrait(state)
            changed = tuple(part for part in before if before[part] != after[part])
            self._tell(PolicyCall(name, state, items, answer, self._counted() - counted, changed))
            return answer

        return call

    def _counted(self) -> Counter[str]:
        return Counter() if self._store is None else Counter(self._store.calls)


def _portrait(state: WalkState) -> dict[str, Any]:
    """Return all that a policy must leave alone, as values to compare."""
    fields = ("query", "max_depth", "node_budget", "limits")
    return {
        **{name: getattr(state, name) for name in fields},
        "visited": (id(state.visited), frozenset(state.visited)),
        "results": (id(state.results), [(id(hit), dict(hit.metadata)) for hit in state.results]),
    }
