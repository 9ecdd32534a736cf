"""Best first by a score of one's own."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from airw._concurrency import Pacer, map_bounded
from airw.errors import ArgumentError, shown
from airw.limits import check_count
from airw.policies._artifacts import ArtifactNode, best_records, best_vectors, keep_records
from airw.policies._nodes import Node, node_of
from airw.policies._selecting import Selecting
from airw.protocols import OpenCorpus
from airw.values import NDArray, SearchHit
from airw.walk import Frontier, WalkState

__all__ = ["Scored"]


@dataclass(frozen=True, kw_only=True)
class Scored(Selecting):
    """Start from a search and always go on from the best that was admitted so far.

    Hits stream in order of commitment, which is not final: `walk.ranking` orders by score, ties in order of commitment,
    and cuts at `select_k`. A step is committed whole, so the stream may hold more than that.

    Args:
        scorer: Gives a number for a `Node`, higher is better; sync or async. `None` for the cosine to the query.
        per_iteration_limit: Artifacts per step that have something behind them; `None` for as many as are still to be
            selected. Those at the depth cap are committed in passing.
        select_k: End with the step in which this many hits are out; `None` to run to the limits of the walk.
        start_k: Artifacts to start from, found by search; 0 for `roots` alone.
        adjacent_k: New artifacts admitted per step, the nearest to the query first; `None` for all.
        max_traverse: Artifacts to go on from, in order of commitment; `None` for all.
        seeding: What finds the start: `"dense"`, `"lexical"` or `"hybrid"` search, or `"titles"` in the query.
        roots: Ids of artifacts to start from besides those found.
        edges: Instead of links, fields that lead on; see `Eager`.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        scope: What may be started from, crossed and returned.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> Scored(scorer=lambda node: node.metadata["year"], select_k=10).per_iteration_limit is None
        True
    """

    scorer: Callable[[Node], float | Awaitable[float]] | None = None
    per_iteration_limit: int | None = None
    keeps_frontier = True

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        if self.scorer is not None and not callable(self.scorer):
            raise ArgumentError(f"scorer must be a function of a node, not {shown(self.scorer)}")
        if self.per_iteration_limit is not None:
            check_count("per_iteration_limit", self.per_iteration_limit, least=1)

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        if self.scorer is not None:
            keep_records(state)
        return await super().seed(state, store)

    async def score(self, state: WalkState, nodes: Sequence[ArtifactNode], store: OpenCorpus) -> NDArray[np.float64]:
        """Ask the scorer, `-inf` for artifacts without surfaces; two store calls, but then none for the hits."""
        if self.scorer is None:
            return await super().score(state, nodes, store)
        ids = [node.id for node in nodes]
        rows = await best_vectors(state, ids, store)
        await super().score(state, nodes, store)
        read = zip(ids, await best_records(state, ids, store), rows, strict=True)
        seen = [node_of(state, record, state.depth_of(id) or 0, row) for id, record, row in read if record is not None]
        given = dict(zip((node.id for node in seen), await self._scores(state, seen), strict=True))
        return np.array([given.get(id, -np.inf) for id in ids], np.float64)

    async def _scores(self, state: WalkState, nodes: Sequence[Node]) -> list[Any]:
        if inspect.iscoroutinefunction(self.scorer):
            return await map_bounded(self._ask, nodes, limit=state.limits.max_concurrency)
        scores, pacer = [], Pacer()
        for node in nodes:
            scores.append(await self._ask(node))
            await pacer.pace()
        return scores

    async def _ask(self, node: Node) -> Any:
        try:
            said = cast("Callable[[Node], Any]", self.scorer)(node)
            return await said if inspect.isawaitable(said) else said
        except Exception as error:
            error.add_note(f"for node {shown(node.id)}")
            raise

    def select(self, state: WalkState, frontier: Frontier) -> list[int]:
        """Commit the best of all that was admitted."""
        pool: list[int] = state.cache.setdefault("pool", [])
        pool += self._admitted(state, frontier).tolist()
        pool.sort()
        if self._has_enough(state):
            return []
        order = np.argsort(-frontier.scores[pool], kind="stable").tolist()
        chosen = self._chosen(state, frontier, [pool[at] for at in order])
        state.cache["pool"] = sorted(set(pool) - set(chosen))
        state.cache["due"] = len(state.results) + len(chosen)
        return chosen or self._rest(state, frontier)

    def _chosen(self, state: WalkState, frontier: Frontier, best: Sequence[int]) -> list[int]:
        """Take the best until as many as may have something behind them are taken."""
        room = len(best) if self.select_k is None else self.select_k - len(state.results)
        room = min(room, self.per_iteration_limit or room)
        chosen: list[int] = []
        for position in best:
            if room <= 0:
                break
            chosen.append(position)
            room -= state.max_depth is None or frontier.depths[position] < state.max_depth
        return chosen

    def stop(self, state: WalkState) -> bool:
        """Stop at the end of the step in which `select_k` hits are out."""
        return self._has_enough(state) and len(state.results) >= state.cache["due"]

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Order by score, and cut at `select_k`."""
        return super().rank(state, hits)[: self.select_k]
