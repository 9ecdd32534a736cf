"""Best first by a score of one's own."""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count
from airw._base.concurrency import Pacer, map_bounded, offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import ArgumentError, PolicyError
from airw.policies._capabilities import Walkable
from airw.policies._several_corpora import Id
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy, Node
from airw.policies.artifact_policy import ArtifactNode
from airw.values import SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

_MANY = 5_000  # of which the order takes about a millisecond


@dataclass(slots=True, eq=False)
class ScoredMemory(AdmittingMemory):
    """What one walk remembers besides: the scores of what was admitted, and the corpus, which `select` is not given.

    Args:
        corpus: The corpus that is walked.
        pool: The score at each position that was admitted and not chosen.
        given: The score of each artifact that was chosen.
    """

    corpus: Walkable = field(init=False)
    pool: dict[int, float] = field(default_factory=dict)
    given: dict[Id, float] = field(default_factory=dict)


State: TypeAlias = WalkState[ScoredMemory]


@dataclass(frozen=True)  # what is its own may be given by position, as in graph-retriever
class Scored(AdmittingPolicy[ScoredMemory]):
    """Start from a search and always go on from the best that was admitted so far.

    Hits stream in order of commitment, which is not final: `walk.ranking` orders by score, ties in order of commitment,
    and cuts at `select_k`. A step is committed whole, so the stream may hold more than that.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        scorer: Gives a number for a `Node`, higher is better, and is asked about each that is admitted, once; an
            `async def` is asked about several at a time. `None` for the cosine to the query.
        per_iteration_limit: Artifacts per step that have something behind them; `None` for as many as are still to be
            selected. Those at the depth cap are committed in passing.
        select_k: End with the step in which this many hits are out; `None` to run to the limits of the walk.

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
            raise ArgumentError(f"scorer must be a function of a node, not {short_repr(self.scorer)}")
        if self.per_iteration_limit is not None:
            check_count("per_iteration_limit", self.per_iteration_limit, least=1)

    @override
    def begin(self, state: State) -> ScoredMemory:
        return ScoredMemory(state.query, self.scope, self._reads_fields or self.scorer is not None)

    @override
    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode]:
        state.memory.corpus = store
        return await super().seed(state, store)

    async def score(self, state: State, nodes: Sequence[ArtifactNode], store: Walkable) -> NDArray[np.float64]:
        """Score by cosine of the best surface, by which is admitted; one store call."""
        if self.scorer is not None:
            await self._keep_vectors(state, nodes, store, "scorer=...")
        return await super().score(state, nodes, store)

    async def select(self, state: State, frontier: Frontier) -> Sequence[int]:
        """Commit the best of all that was admitted; the scorer is asked about each once, after one store call."""
        if self._has_enough(state):
            return self._select_nothing(state, frontier)
        pool = state.memory.pool
        admitted = np.sort(self._admit(state, frontier)).tolist()
        pool.update(zip(admitted, await self._scores(state, frontier, admitted), strict=True))
        best = await offload_if(len(pool) > _MANY, _best, pool)
        chosen = self._choose(state, frontier, best)
        given = {frontier.ids[position]: pool.pop(position) for position in chosen}
        state.memory.given.update(given)
        self._expect(state, given)
        return chosen or self._select_nothing(state, frontier)

    async def _scores(self, state: State, frontier: Frontier, positions: list[int]) -> list[float]:
        """Return the score of each node at a position; `-inf` for artifacts without surfaces."""
        if self.scorer is None or not positions:
            scores: list[float] = frontier.scores[positions].tolist()
            return scores
        memory, ids = state.memory, [frontier.ids[position] for position in positions]
        records = await memory.best_records(ids, memory.corpus)
        nodes = {
            at: memory.node(id, record, frontier.depths[at], row)
            for at, id, record, row in zip(positions, ids, records, memory.rows[positions], strict=True)
            if record is not None
        }
        answers = dict(zip(nodes, await self._ask_all(state, list(nodes.values())), strict=True))
        return [answers.get(position, -np.inf) for position in positions]

    async def _ask_all(self, state: State, nodes: Sequence[Node]) -> list[float]:
        if inspect.iscoroutinefunction(self.scorer):
            return await map_bounded(self._ask, nodes, limit=state.limits.max_concurrency)
        scores, pacer = [], Pacer()
        for node in nodes:
            scores.append(await self._ask(node))
            await pacer.pace()
        return scores

    async def _ask(self, node: Node) -> float:
        try:
            said = cast("Callable[[Node], Any]", self.scorer)(node)
            said = await said if inspect.isawaitable(said) else said
        except Exception as error:
            error.add_note(f"for node {short_repr(node.id)}")
            raise
        try:
            score = float(said) if isinstance(said, Real) and not isinstance(said, bool) else math.nan
        except OverflowError:
            score = math.nan
        if math.isnan(score):
            raise PolicyError(f"the scorer must give a number for {node.id!r}, not {short_repr(said)}")
        return score

    def _choose(self, state: State, frontier: Frontier, best: NDArray[np.intp]) -> list[int]:
        """Take the best until as many as may have something behind them are taken."""
        room = len(best) if self.select_k is None else self.select_k - len(state.results)
        room = min(room, self.per_iteration_limit or room)
        chosen: list[int] = []
        for position in map(int, best):
            if room <= 0:
                break
            chosen.append(position)
            room -= state.max_depth is None or frontier.depths[position] < state.max_depth
        return chosen

    def stop(self, state: State) -> bool:
        """Stop at the end of the step in which `select_k` hits are out."""
        return self._has_step(state)

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, with its score; one store call, none after a scorer."""
        given = state.memory.given
        return await super().to_hits(state, [entry._replace(score=given[entry.id]) for entry in committed], store)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Order by score, and cut at `select_k`."""
        return super().rank(state, hits)[: self.select_k]


def _best(pool: Mapping[int, float]) -> NDArray[np.intp]:
    """Return the positions, highest score first, ties in order of discovery."""
    positions = np.fromiter(pool, np.intp, len(pool))
    scores = np.fromiter(pool.values(), np.float64, len(pool))
    best: NDArray[np.intp] = positions[np.lexsort((positions, -scores))]
    return best
