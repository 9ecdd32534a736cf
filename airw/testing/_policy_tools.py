"""Tools of the policy cases: the fixture, finished walks, a policy that reports calls."""

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

from airw.protocols import Fed, Request, Store
from airw.stores import Wrapper
from airw.testing.exam import Case
from airw.testing.scripted import Asked, Delays, Failures, ScriptedStore
from airw.values import Limits, SearchHit
from airw.walking import Frontier, Walk, WalkPolicy, WalkState, WalkSummary, start_walk

PolicyCase: TypeAlias = "Case[PolicyFixture]"

_OBSERVED = ("seed", "score", "select", "expand", "to_hits", "stop")
BUDGET = 200  # the default node budget of walks in cases


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """A finished call of a policy's method during a walk.

    Args:
        method: The name of the method.
        state: The state of the walk.
        items: The nodes, committed nodes or positions passed to it; empty for `seed` and `stop`.
        answer: The value it returned.
        calls: Its calls of the store, by each kind of request that is in them; empty if the store cannot be observed.
        changed: The names of the fields of the state that it changed, except the policy's own memory.
    """

    method: str
    state: WalkState
    items: Sequence[Any]
    answer: Any
    calls: Counter[str]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishedWalk:
    """A walk at its end, with its hits and copies of them as JSON values."""

    walk: Walk
    hits: list[SearchHit]
    hit_dicts: list[dict[str, Any]]

    @property
    def summary(self) -> WalkSummary:
        """The summary of the walk; it exists because the walk has ended."""
        return cast("WalkSummary", self.walk.summary)


@dataclass(frozen=True, slots=True)
class PolicyFixture:
    """The fixture of one case: the policy to check and the data to walk.

    Args:
        policy: The policy to check.
        make_another: A function that makes an equal policy; `None` if the suite was passed a policy.
        store: An open corpus, or other data that the policy walks.
        query: The query of the walks.
        is_corpus: Whether `store` is a dataclass with a field `store`, such as a `Corpus`.
        max_calls: Maximum calls of the store in one step with requests of one kind; `None` for any number.
    """

    policy: WalkPolicy
    make_another: Callable[[], WalkPolicy] | None
    store: Any
    query: str
    is_corpus: bool
    max_calls: int | None

    def with_scripted_store(
        self, delays: Delays | dict[type[Asked], Delays] = 0.0, failures: dict[type[Asked], Failures] | None = None
    ) -> tuple[Any, ScriptedStore]:
        """Return the corpus with its store wrapped in a `ScriptedStore`, and that store."""
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
        """Start a walk with the policy, data and query of the fixture, unless passed here."""
        return start_walk(
            self.query if query is None else query,
            self.store if store is None else store,
            policy or self.policy,
            limits=limits,
            **{"node_budget": BUDGET, **options},
        )

    async def run_walk(self, **options: Any) -> FinishedWalk:
        """Start a walk and collect all its hits."""
        return await collect_hits(self.start(**options))

    async def record_walk(self, **options: Any) -> tuple[FinishedWalk, list[PolicyCall]]:
        """Run a walk; return it with all calls of the policy."""
        calls: list[PolicyCall] = []
        return await self.observe_walk(calls.append, **options), calls

    async def observe_walk(
        self, report: Callable[[PolicyCall], None], *, store: Any = None, **options: Any
    ) -> FinishedWalk:
        """Run a walk; call `report` after each call of the policy. `report` may raise."""
        counting_store: _CountingStore | None = None
        if self.is_corpus and store is None:
            counting_store = _CountingStore(self.store.store)
            store = replace(self.store, store=counting_store)
        policy = cast("WalkPolicy", _ObservedPolicy(self.policy, report, counting_store))
        return await self.run_walk(policy=policy, store=store, **options)


async def collect_hits(walk: Walk) -> FinishedWalk:
    """Collect all hits of a walk."""
    async with walk:
        hits = [hit async for hit in walk]
    return FinishedWalk(walk, hits, [hit.to_dict() for hit in hits])


def hit_key(hit: SearchHit) -> Hashable:
    """Return a key that no two hits of one walk share."""
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index


def containers(value: Any) -> Iterator[Any]:
    """Yield every dict, list and set in a value, including the value itself."""
    if isinstance(value, dict | list | set):
        yield value
    if isinstance(value, dict | list | set | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@contextmanager
def track_generators() -> Iterator[list[AsyncGenerator[Any, Any]]]:
    """Collect the async generators that start to run inside the block."""
    started: list[AsyncGenerator[Any, Any]] = []
    hooks = sys.get_asyncgen_hooks()

    def on_start(generator: AsyncGenerator[Any, Any]) -> None:
        started.append(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(on_start, hooks.finalizer)
    try:
        yield started
    finally:
        sys.set_asyncgen_hooks(*hooks)


class _CountingStore(Wrapper):
    """A store that counts its calls by each kind of request that is in them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: Counter[str] = Counter()

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request."""
        plain = [request.request if isinstance(request, Fed) else request for request in requests]
        self.calls.update({type(request).__name__ for request in plain})
        return await super().read(*requests)


class _ObservedPolicy:
    """A policy that passes all calls on and reports those that take the state."""

    def __init__(self, policy: WalkPolicy, report: Callable[[PolicyCall], None], store: _CountingStore | None) -> None:
        self._policy, self._report, self._store = policy, report, store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._policy, name)
        return self._observe(name, method) if name in _OBSERVED else method

    def _observe(self, name: str, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(state: WalkState, *arguments: Any) -> Any:
            argument = arguments[0] if arguments and name != "seed" else ()
            items = argument.live.tolist() if isinstance(argument, Frontier) else argument
            state_before, calls_before = _snapshot(state), self._store_calls()
            answer = method(state, *arguments)
            answer = await answer if isawaitable(answer) else answer
            # An answer may be an iterator, which can be read once. Read one item too many, so that the walk notices it.
            if name in ("select", "expand", "to_hits"):
                answer = list(islice(answer, len(items) + (name != "select")))
            state_after = _snapshot(state)
            changed = tuple(part for part in state_before if state_before[part] != state_after[part])
            self._report(PolicyCall(name, state, items, answer, self._store_calls() - calls_before, changed))
            return answer

        return call

    def _store_calls(self) -> Counter[str]:
        return Counter() if self._store is None else self._store.calls.copy()


def _snapshot(state: WalkState) -> dict[str, Any]:
    """Return the parts of the state that a policy must not change, as values to compare."""
    fields = ("query", "max_depth", "node_budget", "limits")
    return {
        **{name: getattr(state, name) for name in fields},
        "visited": (id(state.visited), frozenset(state.visited)),
        "results": (id(state.results), [(id(hit), dict(hit.metadata)) for hit in state.results]),
    }
