"""`per_node`: policies that work one node at a time, as in `ir`, for the batched operator."""

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from airw._base.concurrency import Pacer, map_bounded
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.values import SearchHit
from airw.walking import CommittedNode, Frontier, Neighbors, Policy, WalkState
from airw.walking.answers import label_error
from airw.walking.policy import is_iterable

_AT_ONCE = 64  # calls of a method; between them, other tasks may run
_WIDTHS: WeakKeyDictionary[WalkState, int] = WeakKeyDictionary()  # not in the state, which a policy may overwrite
_METHODS = ("seed", "score", "expand", "node_id", "to_hit")


def per_node(policy: Any) -> "PerNode":
    """Return a walk policy that runs a policy whose methods take one node at a time.

    The methods have the names and arguments of `ir`: `seed(state, store)`, `score(state, node, store)`,
    `expand(state, node, store)`, `node_id(node)` and `to_hit(state, node, score, depth)`. They may be sync or async.
    `select(state, scored)` over `(node, depth, score)` triples and `stop(state)` are optional.

    Async methods run concurrently, at most `limits.max_concurrency` at once; results keep their order. Each path to a
    node is scored and passed to `select`. Of the paths that `select` returns, the first is committed, with the depth
    and score that the operator has recorded. `to_hit` sees the state at the start of the slice that is committed.

    Raises:
        ArgumentError: If a method is missing.

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
        raise ArgumentError(f"policy must be an instance, not the class {policy.__name__}; pass {policy.__name__}(...)")
    missing = [name for name in _METHODS if not callable(getattr(policy, name, None))]
    if missing:
        raise ArgumentError(
            f"policy must be a per-node policy, not {short_repr(policy)}, which has no {', '.join(missing)}"
        )
    return PerNode(policy)


@dataclass(frozen=True)
class PerNode(Policy):
    """A walk policy that calls a per-node policy for each node; created by `per_node`."""

    policy: Any
    max_depth: int | None = 2
    scores_paths = True  # as in `ir`, where `select` receives every path

    async def seed(self, state: WalkState, store: Any) -> Neighbors:
        """Call `seed` of the policy."""
        _WIDTHS[state] = state.limits.max_concurrency
        seeds: Neighbors = await _await_if_needed(self.policy.seed(state, store))
        return seeds

    async def score(self, state: WalkState, nodes: Sequence[Any], store: Any) -> list[float]:
        """Call `score` of the policy for each node."""
        return await self._call_for_each("score", [(state, node, store) for node in nodes], state)

    async def select(self, state: WalkState, frontier: Frontier) -> Iterable[int]:
        """Call `select` of the policy with triples, and return the positions of those it returns."""
        if not callable(getattr(self.policy, "select", None)):
            return frontier.best_first()
        live = frontier.live.tolist()
        nodes, depths = map(frontier.nodes.__getitem__, live), map(frontier.depths.__getitem__, live)
        triples = list(zip(nodes, depths, frontier.scores[frontier.live].tolist(), strict=True))
        selected = await _await_if_needed(self.policy.select(state, triples))
        if not is_iterable(selected):
            raise PolicyError(
                f"{self._name}.select returned {short_repr(selected)}; return (node, depth, score) triples"
            )
        # As many triples as were passed are read at most, so an endless selection ends.
        chosen = list(islice(selected, len(triples)))
        return list(self._find_positions(chosen, dict(zip(live, triples, strict=True)), state))

    def _find_positions(self, selected: Iterable[Any], offered: dict[int, Any], state: WalkState) -> Iterator[int]:
        """Yield the position of each selected triple."""
        positions_of: dict[Hashable, list[int]] = {}
        for position, (node, _, _) in offered.items():
            positions_of.setdefault(self.policy.node_id(node), []).append(position)
        for triple in selected:
            try:
                node, depth, score = triple
            except (TypeError, ValueError):
                raise PolicyError(
                    f"{self._name}.select returned {short_repr(triple)}; return (node, depth, score) triples"
                ) from None
            id = self.policy.node_id(node)
            if id in positions_of:
                # The path with this depth and score; if the policy changed them, the first path to the node.
                exact = (position for position in positions_of[id] if offered[position][1:] == (depth, score))
                yield next(exact, positions_of[id][0])
            elif id not in state.visited:
                raise PolicyError(
                    f"{self._name}.select returned node {short_repr(node)}, which does not wait; "
                    "return only triples of `scored`"
                )

    async def expand(self, state: WalkState, committed: Sequence[CommittedNode], store: Any) -> list[Neighbors]:
        """Call `expand` of the policy for each node."""
        return await self._call_for_each("expand", [(state, entry.node, store) for entry in committed], state)

    def node_id(self, node: Any) -> Hashable:
        """Call `node_id` of the policy."""
        id: Hashable = self.policy.node_id(node)
        return id

    def stop(self, state: WalkState) -> bool | Awaitable[bool]:
        """Call `stop` of the policy; return False if it has none."""
        answer: bool | Awaitable[bool] = self.policy.stop(state) if hasattr(self.policy, "stop") else False
        return answer

    async def to_hits(self, state: WalkState, committed: Sequence[CommittedNode], store: Any) -> list[SearchHit | None]:
        """Call `to_hit` of the policy for each node, and copy its hits."""
        calls = [(state, entry.node, entry.score, entry.depth) for entry in committed]
        return list(map(_copy_hit, await self._call_for_each("to_hit", calls, state)))

    @property
    def _name(self) -> str:
        return type(self.policy).__name__

    async def _call_for_each(self, name: str, calls: Sequence[tuple[Any, ...]], state: WalkState) -> list[Any]:
        """Call a method with each of these arguments; return the answers in their order."""
        method: Callable[..., Any] = getattr(self.policy, name)

        async def call(arguments: tuple[Any, ...]) -> Any:
            try:
                return await method(*arguments)
            except Exception as error:
                label_error(error, name, self.policy, arguments[1])
                raise

        # Only a method that can wait gains from running several times at once.
        if inspect.iscoroutinefunction(method):
            return await map_bounded(call, calls, limit=_WIDTHS.get(state) or state.limits.max_concurrency)
        pacer, answers = Pacer(), list[Any]()
        for arguments in calls:
            try:
                answers.append(method(*arguments))
            except Exception as error:
                label_error(error, name, self.policy, arguments[1])
                raise
            if len(answers) % _AT_ONCE == 0:
                await pacer.pace()
        if any(hasattr(kind, "__await__") for kind in set(map(type, answers))):
            answers = [await _await_if_needed(answer) for answer in answers]
        return answers


async def _await_if_needed(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _copy_hit(hit: Any) -> SearchHit | None:
    """Return a copy of a hit.

    The walk writes into its hits, and a policy may return the same one twice or a hit of its own class.
    """
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
    except (AttributeError, TypeError, ValueError) as error:
        raise PolicyError(f"to_hit returned {short_repr(hit)}; return a SearchHit or None") from error
