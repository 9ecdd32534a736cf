"""Policies written one node at a time, as `ir` has them, run by the batched operator."""

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from airw._base.concurrency import Pacer, map_bounded
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.values import SearchHit
from airw.walking import CommittedNode, Frontier, Neighbors, Policy, WalkState

T = TypeVar("T")
_WIDTHS: WeakKeyDictionary[WalkState, int] = WeakKeyDictionary()  # kept here, as a policy may rewrite its state
_METHODS = ("seed", "score", "expand", "node_id", "to_hit")


def per_node(policy: Any) -> "PerNode":
    """Adapt a policy whose methods take one node at a time, sync or async, named and called as in `ir`.

    It has `seed(state, store)`, `score(state, node, store)`, `expand(state, node, store)`, `node_id(node)` and
    `to_hit(state, node, score, depth)`, and may have `select(state, scored)` over `(node, depth, score)` triples and
    `stop(state)`. Async methods run concurrently, at most `limits.max_concurrency` at once; results keep their order.
    Each path to a node is scored and shown to `select`; the first one returned is committed, with the depth and score
    that the operator recorded. `to_hit` sees the state as it was at the start of the step's slice.

    Raises:
        ArgumentError: A method is missing.

    Example:
        >>> class Countdown:
        ...     def seed(self, state, store): return [3]
        ...     def score(self, state, node, store): return float(node)
        ...     def expand(self, state, node, store): return [node - 1] if node else []
        ...     def node_id(self, node): return node
        ...     def to_hit(self, state, node, score, depth): return SearchHit(str(node), "number", score, "")
        >>> import airw, anyio
        >>> hits = anyio.run(airw.top_k, airw.traverse("count", None, policy=airw.policies.per_node(Countdown())))
        >>> [hit.artifact_id for hit in hits]
        ['3', '2', '1']
    """
    if isinstance(policy, type):
        raise ArgumentError(f"policy must be an instance; write {policy.__name__}(...)")
    missing = [name for name in _METHODS if not callable(getattr(policy, name, None))]
    if missing:
        raise ArgumentError(f"{short_repr(policy)} is not a per-node policy: it has no {', '.join(missing)}")
    return PerNode(policy)


@dataclass(frozen=True)
class PerNode(Policy):
    """A per-node policy as the operator runs it; made by `per_node`."""

    policy: Any
    max_depth: int | None = 2
    scores_paths = True

    async def seed(self, state: WalkState, store: Any) -> Neighbors:
        """Ask the policy."""
        _width(state)  # before the policy sees the state
        seeds: Neighbors = await _settled(self.policy.seed(state, store))
        return seeds

    async def score(self, state: WalkState, nodes: Sequence[Any], store: Any) -> list[float]:
        """Ask the policy for each node."""
        return await self._each(self.policy.score, nodes, state, lambda node: (state, node, store))

    async def select(self, state: WalkState, frontier: Frontier) -> Iterable[int]:
        """Show the policy triples and find the positions of those it returns."""
        live = frontier.live.tolist()
        triples = [(frontier.nodes[at], frontier.depths[at], float(frontier.scores[at])) for at in live]
        if not callable(getattr(self.policy, "select", None)):
            best: list[int] = frontier.best_first().tolist()
            return best
        picked = await _settled(self.policy.select(state, triples))
        if not isinstance(picked, Iterable):
            raise PolicyError(f"select must return (node, depth, score) triples, not {short_repr(picked)}")
        return self._positions(islice(picked, len(triples)), dict(zip(live, triples, strict=True)), state)

    def _positions(self, picked: Iterable[Any], offered: dict[int, Any], state: WalkState) -> Iterator[int]:
        places: dict[Hashable, list[int]] = {}
        for position, (node, _, _) in offered.items():
            places.setdefault(self.policy.node_id(node), []).append(position)
        for triple in picked:
            try:
                node, depth, score = triple
            except (TypeError, ValueError):
                raise PolicyError(
                    f"select must return (node, depth, score) triples, not {short_repr(triple)}"
                ) from None
            id = self.policy.node_id(node)
            if id in places:
                exact = (at for at in places[id] if offered[at][1:] == (depth, score))
                yield next(exact, places[id][0])
            elif id not in state.visited:
                raise PolicyError(f"select returned a node that was not offered: {short_repr(node)}")

    async def expand(self, state: WalkState, committed: Sequence[CommittedNode], store: Any) -> list[Neighbors]:
        """Ask the policy for each node."""
        return await self._each(self.policy.expand, committed, state, lambda entry: (state, entry.node, store))

    def node_id(self, node: Any) -> Hashable:
        """Ask the policy."""
        id: Hashable = self.policy.node_id(node)
        return id

    def stop(self, state: WalkState) -> bool | Awaitable[bool]:
        """Ask the policy, if it has an opinion."""
        answer: bool | Awaitable[bool] = self.policy.stop(state) if hasattr(self.policy, "stop") else False
        return answer

    async def to_hits(self, state: WalkState, committed: Sequence[CommittedNode], store: Any) -> list[SearchHit | None]:
        """Ask the policy for each node; whatever hit it makes becomes a fresh one."""
        arguments = lambda entry: (state, entry.node, entry.score, entry.depth)  # noqa: E731 (one line)
        return [_fresh(hit) for hit in await self._each(self.policy.to_hit, committed, state, arguments)]

    async def _each(
        self,
        method: Callable[..., Any],
        items: Sequence[T],
        state: WalkState,
        arguments: Callable[[T], tuple[Any, ...]],
    ) -> list[Any]:
        async def ask(item: T) -> Any:
            state, node, *others = arguments(item)
            try:
                return await _settled(method(state, node, *others))
            except Exception as error:
                error.add_note(f"for node {short_repr(node)}")
                raise

        if inspect.iscoroutinefunction(method):
            return await map_bounded(ask, items, limit=_width(state))
        pacer, answers = Pacer(), []
        for item in items:
            answers.append(await ask(item))
            await pacer.pace()
        return answers


def _width(state: WalkState) -> int:
    """Give how many calls of this walk's policy may run at once."""
    if state not in _WIDTHS:
        _WIDTHS[state] = state.limits.max_concurrency
    return _WIDTHS[state]


async def _settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _fresh(hit: Any) -> SearchHit | None:
    """Copy a hit, ours or one that only looks like it."""
    if hit is None:
        return None
    try:
        return SearchHit(
            artifact_id=hit.artifact_id,
            surface_kind=hit.surface_kind,
            score=hit.score,
            text=hit.text,
            metadata=dict(hit.metadata),
            source=hit.source,
            surface_index=hit.surface_index,
        )
    except AttributeError as error:
        raise PolicyError(f"to_hit must return a SearchHit or None, not {short_repr(hit)}") from error
