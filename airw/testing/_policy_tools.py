"""What the policy cases are made of: what is examined, walks to compare, and a policy that is watched at work."""

import sys
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import isawaitable
from itertools import islice
from typing import Any, TypeAlias, cast

from airw.protocols import Store
from airw.testing.exam import Case
from airw.testing.scripted import Delays, Failures, ScriptedStore
from airw.values import Limits, SearchHit
from airw.walking import Entry, Frontier, Neighbors, Walk, WalkPolicy, WalkState, WalkSummary, traverse

__all__ = [
    "BUDGET",
    "Asked",
    "Examinee",
    "PolicyCase",
    "Walked",
    "containers",
    "fact",
    "generators",
    "identity",
    "take",
]

PolicyCase: TypeAlias = "Case[Examinee]"
Check: TypeAlias = "Callable[[Examinee], Coroutine[Any, Any, None]]"

BUDGET = 200  # nodes that a walk of a case may commit, unless it says otherwise


def fact(cases: list[PolicyCase], *needs: str) -> Callable[[Check], Check]:
    """Add a check to the cases; its function's name, read as a sentence, is the promise."""

    def add(check: Check) -> Check:
        name = check.__name__.strip("_")
        cases.append(Case(name, f"{name[0].upper()}{name[1:].replace('_', ' ')}.", check, frozenset(needs)))
        return check

    return add


@dataclass(frozen=True, slots=True)
class Asked:
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
class Walked:
    """A walk at its end: its hits, and what each said then, as JSON-clean values."""

    walk: Walk
    hits: list[SearchHit]
    told: list[dict[str, Any]]

    @property
    def summary(self) -> WalkSummary:
        """Give the summary of a walk that has ended."""
        return cast("WalkSummary", self.walk.summary)


@dataclass(frozen=True, slots=True)
class Examinee:
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
        """Give the corpus over a scripted store, and that store."""
        store = ScriptedStore(self.store.store, delays=delays, failures=failures)
        protocol: Store = store
        return replace(self.store, store=protocol), store

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

    async def walked(self, **options: Any) -> Walked:
        """Start a walk and take all its hits."""
        return await take(self.start(**options))

    async def watched(self, **options: Any) -> tuple[Walked, list[Asked]]:
        """Walk under observation: give the walk, and what the policy was asked."""
        asked: list[Asked] = []
        return await self.watch(asked.append, **options), asked

    async def watch(self, tell: Callable[[Asked], None], *, store: Any = None, **options: Any) -> Walked:
        """Walk under observation; `tell` hears of each call as soon as it has ended, and may raise."""
        scripted: ScriptedStore | None = None
        if self.is_corpus and store is None:
            store, scripted = self.scripted()
        return await self.walked(
            policy=cast("WalkPolicy", _Observed(self.policy, tell, scripted)), store=store, **options
        )


async def take(walk: Walk) -> Walked:
    """Take all hits of a walk."""
    async with walk:
        hits = [hit async for hit in walk]
    return Walked(walk, hits, [hit.to_dict() for hit in hits])


def identity(hit: SearchHit) -> Hashable:
    """Give what tells the hits of one walk apart."""
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index


def containers(value: Any) -> Iterator[Any]:
    """Give every dict, list and set inside a value, itself included."""
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

    def __init__(self, policy: WalkPolicy, tell: Callable[[Asked], None], store: ScriptedStore | None) -> None:
        self._policy, self._tell, self._store = policy, tell, store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    async def seed(self, state: WalkState, store: Any) -> Neighbors:
        with self._watched("seed", state, ()) as call:
            call.answer = await self._policy.seed(state, store)
        return cast("Neighbors", call.answer)

    async def score(self, state: WalkState, nodes: Sequence[Any], store: Any) -> Any:
        with self._watched("score", state, nodes) as call:
            call.answer = await self._policy.score(state, nodes, store)
        return call.answer

    async def select(self, state: WalkState, frontier: Frontier) -> Iterable[int]:
        with self._watched("select", state, frontier.live.tolist()) as call:
            picked = self._policy.select(state, frontier)
            positions = await picked if isawaitable(picked) else picked
            call.answer = list(islice(positions, len(frontier.live)))
        return cast("list[int]", call.answer)

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: Any) -> Sequence[Neighbors]:
        with self._watched("expand", state, committed) as call:
            call.answer = list(islice(await self._policy.expand(state, committed, store), len(committed) + 1))
        return cast("list[Neighbors]", call.answer)

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: Any) -> Sequence[SearchHit | None]:
        with self._watched("to_hits", state, committed) as call:
            call.answer = list(islice(await self._policy.to_hits(state, committed, store), len(committed) + 1))
        return cast("list[SearchHit | None]", call.answer)

    async def stop(self, state: WalkState) -> bool:
        with self._watched("stop", state, ()) as call:
            said: bool | Awaitable[bool] = self._policy.stop(state)
            call.answer = await said if isawaitable(said) else said
        return cast("bool", call.answer)

    @contextmanager
    def _watched(self, method: str, state: WalkState, items: Sequence[Any]) -> Iterator["_Call"]:
        before, counted = _portrait(state), self._counted()
        yield (call := _Call())
        after = _portrait(state)
        changed = tuple(name for name in before if before[name] != after[name])
        self._tell(Asked(method, state, items, call.answer, self._counted() - counted, changed))

    def _counted(self) -> Counter[str]:
        return Counter() if self._store is None else Counter(self._store.calls)


@dataclass(slots=True)
class _Call:
    answer: Any = None


def _portrait(state: WalkState) -> dict[str, Any]:
    """Give all that a policy must leave alone, as values to compare."""
    fields = ("query", "max_depth", "node_budget", "limits")
    return {
        **{name: getattr(state, name) for name in fields},
        "visited": (id(state.visited), frozenset(state.visited)),
        "results": (id(state.results), [(id(hit), dict(hit.metadata)) for hit in state.results]),
    }
