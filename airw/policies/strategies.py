"""Policies that admit the nearest of each step: `Eager`, `Scored`, `Mmr`, `Strategy`."""

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.checks import check_count, check_kind
from airw._base.concurrency import Pacer, map_bounded, offload_if
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw._base.overriding import override
from airw._base.vectors import exact_scores
from airw.errors import ArgumentError, PolicyError
from airw.policies._corpora import Id, Walkable
from airw.policies._shared_fields import FieldEdges
from airw.policies._start import Seeding
from airw.policies.admitting_policy import (
    AdmittingMemory,
    AdmittingParameters,
    AdmittingPolicy,
    Node,
    NodePath,
    NodeTracker,
)
from airw.policies.artifact_memory import node_of_hit
from airw.policies.artifact_policy import ArtifactNode
from airw.policies.scope import ALLOW_ALL, Scope
from airw.protocols import EdgeRow
from airw.values import Direction, NodeIdLike, SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

_OFFLOAD_ABOVE = 5_000  # artifacts; sorting this many takes about a millisecond
_OFFLOAD_NUMBERS_ABOVE = 1 << 19  # numbers; comparing this many takes about a millisecond
_MAX_LIKELY = 3  # artifacts whose links are read with those of a choice
_MAX_PICKS = 64  # choices per step, if they are at the depth cap and nothing new can compete in between

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Eager(AdmittingParameters, AdmittingPolicy[AdmittingMemory]):
    """Start from a search and walk breadth-first, nearest artifacts of each layer first.

    The start is committed in the order of the search. Each further layer is committed by cosine to the query, best
    first; ties in order of discovery. The order of the stream is final. An artifact scores by its best surface. A
    hit shows the surface that the search for the start has found, else the best one.

    The other parameters are those of `AdmittingParameters`.

    Args:
        select_k: Stop after this number of hits; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> Eager(select_k=10, edges=[("keywords", "keywords")]).max_depth is None
        True
    """

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override] # it depends on a parameter
        """True with `edges`: artifacts that were not admitted wait for another field value."""
        return self.edges is not None


@dataclass(slots=True, eq=False)
class ScoredMemory(AdmittingMemory):
    """The memory of one walk of `Scored`.

    Args:
        pool: The score at each position that was admitted and not selected.
        selected_scores: The score of each artifact that was selected.
        paths: With a path scorer: the path to each position of the pool, if its artifact has a surface.
        selected_paths: With a path scorer: the path to each artifact that was selected.
    """

    pool: dict[int, float] = field(default_factory=dict)
    selected_scores: dict[Id, float] = field(default_factory=dict)
    paths: dict[int, NodePath] = field(default_factory=dict)
    selected_paths: dict[Id, NodePath] = field(default_factory=dict)

    def path_to(self, step: ArtifactNode, node: Node) -> NodePath:
        """Return the path to an artifact, by the edge that led to it from one that was selected."""
        id, edge = step.id, step.edge
        before = None
        if edge is not None:
            before = self.selected_paths.get(edge.target if edge.source == id else edge.source)
        if edge is None or before is None:
            return NodePath((node,))
        return NodePath((*before.nodes, node), (*before.edges, edge))


@dataclass(frozen=True)  # its own parameters may be passed by position, as in graph-retriever
class Scored(AdmittingParameters, AdmittingPolicy[ScoredMemory]):
    """Start from a search and always go on from the best artifacts admitted so far.

    Hits stream in order of commitment, which is not final. `walk.ranking` orders them by score, ties in order of
    commitment, and contains the first `select_k`. A step is always committed as a whole, so the stream may contain
    more.

    The other parameters are those of `AdmittingParameters`.

    Args:
        scorer: A function of a `Node` that returns a number; higher is better. It is called once per admitted artifact;
            an `async def` runs for several at a time. `None` for the cosine to the query.
        path_scorer: A function of a list of `NodePath` that returns one number per path; an `async def` is awaited. It
            is called once a step, with each path to each admitted artifact; the best path to an artifact counts. With
            `edges`, an artifact has one path. It takes the place of `scorer`.
        per_iteration_limit: The number of artifacts to expand per step; `None` for as many as are still to be selected.
            Artifacts at the depth cap are committed too and do not count.
        select_k: End with the step in which this number of hits is reached; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> Scored(scorer=lambda node: node.metadata["year"], select_k=10).per_iteration_limit is None
        True

        A path is as good as its weakest artifact:

        >>> import anyio
        >>> from airw import build, from_mapping, top_k, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.links import MarkdownLinks
        >>> from airw.stores import MemoryStore
        >>> notes = {"a": "signing keys, see [[b]]", "b": "bread, see [[c]]", "c": "signing keys again"}
        >>> async def weakest(paths):
        ...     return [min(node.similarity_score for node in path.nodes) for path in paths]
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         policy = Scored(path_scorer=weakest, start_k=0, roots=["a"], direction="out")
        ...         hits = await top_k(traverse("signing keys", corpus, policy=policy))
        ...     return [(hit.artifact_id, hit.score == hits[1].score) for hit in hits]
        >>> anyio.run(main)
        [('a', False), ('b', True), ('c', True)]
    """

    scorer: Callable[[Node], float | Awaitable[float]] | None = None
    per_iteration_limit: int | None = None
    path_scorer: Callable[[Sequence[NodePath]], Sequence[float] | Awaitable[Sequence[float]]] | None = None
    keeps_frontier = True
    _memory = ScoredMemory

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_kind("scorer", self.scorer, Callable | None, "be a function of a node or None", error=ArgumentError)
        check_kind(
            "path_scorer", self.path_scorer, Callable | None, "be a function of paths or None", error=ArgumentError
        )
        if self.path_scorer is not None and self.scorer is not None:
            raise ArgumentError("path_scorer takes the place of scorer; pass one of the two")
        if self.per_iteration_limit is not None:
            check_count("per_iteration_limit", self.per_iteration_limit, least=1)

    @property
    def scores_paths(self) -> bool:  # type: ignore[override]
        """True with a path scorer: each path to an artifact is scored on its own."""
        # A shared value is followed once a walk, so with `edges` there is one path.
        return self.path_scorer is not None and self.edges is None

    @property
    @override
    def _vector_setting(self) -> str | None:
        if self.path_scorer is not None:
            return "path_scorer=..."
        return None if self.scorer is None else "scorer=..."

    @property
    @override
    def _needs_records(self) -> bool:
        return self._vector_setting is not None

    async def select(self, state: WalkState[ScoredMemory], frontier: Frontier) -> Sequence[int]:
        """Commit the best of all admitted artifacts; one store call.

        The scorer is called once for each artifact, the path scorer once.
        """
        if self._has_enough(state):
            return self._select_nothing(state, frontier)
        memory, admission = state.memory, await self._admit(state, frontier)
        pool, admitted = memory.pool, sorted(admission.positions)
        pool.update(zip(admitted, await self._scores(state, frontier, admitted), strict=True))
        best = await offload_if(len(pool) > _OFFLOAD_ABOVE, lambda: sorted(pool, key=lambda at: (-pool[at], at)))
        memory.keep_admission(admission)
        selected = self._choose(state, frontier, best)
        ids = [frontier.ids[position] for position in selected]
        memory.selected_scores.update(zip(ids, map(pool.pop, selected), strict=True))
        if self.path_scorer is not None:
            memory.selected_paths.update(
                (id, memory.paths[at]) for id, at in zip(ids, selected, strict=True) if at in memory.paths
            )
            for other in [at for at in pool if frontier.ids[at] in memory.selected_scores]:
                del pool[other]
        self._expect_hits(state, ids)
        return selected or self._select_nothing(state, frontier)

    async def _scores(
        self, state: WalkState[ScoredMemory], frontier: Frontier, positions: Sequence[int]
    ) -> Sequence[float]:
        """Return the score of the node at each position; `-inf` for artifacts without surfaces."""
        if not self._needs_records or not positions:
            scores: list[float] = frontier.scores[positions].tolist()
            return scores
        memory, ids = state.memory, [frontier.ids[position] for position in positions]
        records = await memory.best_records(ids, memory.corpus)
        nodes = {
            position: memory.to_node(id, record, frontier.depths[position])
            for position, id, record in zip(positions, ids, records, strict=True)
            if record is not None
        }
        if self.path_scorer is None:
            answers = await self._call_scorer(state, list(nodes.values()))
        else:
            paths = {at: memory.path_to(frontier.nodes[at], node) for at, node in nodes.items()}
            memory.paths.update(paths)
            answers = await self._call_path_scorer(list(paths.values()))
        scores_of = dict(zip(nodes, answers, strict=True))
        return [scores_of.get(position, -np.inf) for position in positions]

    async def _call_path_scorer(self, paths: list[NodePath]) -> list[float]:
        answer: Any = cast("Callable[[Sequence[NodePath]], Any]", self.path_scorer)(paths) if paths else []
        answer = await answer if inspect.isawaitable(answer) else answer
        is_list = answer.ndim > 0 if isinstance(answer, np.ndarray) else isinstance(answer, Collection)
        if not is_list or len(answer) != len(paths):
            raise PolicyError(f"path_scorer returned {short_repr(answer)}; return {len(paths)} numbers, one per path")
        return [_to_score("path_scorer", value, path.nodes[-1]) for value, path in zip(answer, paths, strict=True)]

    async def _call_scorer(self, state: WalkState[ScoredMemory], nodes: Sequence[Node]) -> list[float]:
        pacer = Pacer()

        async def call(node: Node) -> float:
            try:
                answer = cast("Callable[[Node], Any]", self.scorer)(node)
                answer = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:
                add_note(error, f"for node {short_repr(node.id)}")
                raise
            await pacer.pace()
            return _to_score("scorer", answer, node)

        # Only a function that can wait gains from running several times at once.
        limit = state.limits.max_concurrency if inspect.iscoroutinefunction(self.scorer) else 1
        return await map_bounded(call, nodes, limit=limit)

    def _choose(self, state: WalkState[ScoredMemory], frontier: Frontier, best: Sequence[int]) -> list[int]:
        """Return the best positions, until as many as allowed are above the depth cap."""
        room = len(best) if self.select_k is None else self.select_k - len(state.results)
        room = min(room, self.per_iteration_limit or room)
        selected: dict[Id, int] = {}
        for position in best:
            if room <= 0:
                break
            if frontier.ids[position] not in selected:  # the best path to an artifact comes first
                selected[frontier.ids[position]] = position
                # An artifact at the depth cap cannot lead to a better one, so it does not use up the limit.
                room -= state.max_depth is None or frontier.depths[position] < state.max_depth
        return list(selected.values())

    @override
    def _hit_scores(self, state: WalkState[ScoredMemory], committed: Sequence[CommittedNode]) -> list[float]:
        return [state.memory.selected_scores[entry.id] for entry in committed]

    def rank(self, state: WalkState[ScoredMemory], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the `select_k` hits with the highest scores, best first."""
        return sorted(hits, key=lambda hit: -hit.score)[: self.select_k]


def _to_score(scorer: str, answer: Any, node: Node) -> float:
    """Return the answer of a scorer as a number.

    Raises:
        PolicyError: If it is none.
    """
    try:
        score = float(answer) if isinstance(answer, Real) and not isinstance(answer, bool) else math.nan
    except OverflowError:
        score = math.nan
    if math.isnan(score):
        raise PolicyError(f"{scorer} returned {short_repr(answer)} for {node.id!r}; return a number")
    return score


class Pick(NamedTuple):
    """A choice: its position, its MMR score, and its redundancy when it was chosen."""

    position: int
    score: float
    redundancy: float


class Pool:
    """The candidates of `Mmr` in columns, a row for each, and which of them wait."""

    def __init__(self, weight: float) -> None:
        """Start an empty pool; `weight` is `lambda_mult`."""
        self._weight = weight
        self._positions = np.empty(0, np.intp)
        self._weighted = np.empty(0)  # relevance
        self._redundancy = np.empty(0)
        self._waits = np.empty(0, np.bool_)
        self._vectors: Floats = np.empty((0, 0), np.float32)  # with room for more

    @property
    def waiting(self) -> int:
        """The number of candidates that were not chosen."""
        return int(self._waits.sum())

    @property
    def size(self) -> int:
        """The number of numbers that each choice is compared with."""
        return len(self._waits) * int(self._vectors.shape[1])

    def admit(self, positions: Sequence[int], relevance: NDArray[np.float64], vectors: Floats) -> None:
        """Add candidates.

        Args:
            positions: Their positions in the walk record.
            relevance: Their cosines to the query, `(n,) float64`.
            vectors: Their vectors, `(n, dim) float32`.
        """
        # They are compared with all choices once; `pick` compares them with each later choice.
        start, redundancy = len(self._waits), np.zeros(len(vectors))
        chosen = self._vectors[:start][~self._waits]
        if len(chosen):
            redundancy[:] = np.einsum("ij,kj->ik", vectors, chosen).max(axis=1)
        self._vectors = reserve(self._vectors if start else vectors[:0], start + len(vectors))
        self._vectors[start : start + len(vectors)] = vectors
        with np.errstate(invalid="ignore"):  # 0 times -inf, of an artifact without surfaces
            weighted = np.where(np.isneginf(relevance), -np.inf, self._weight * relevance)
        self._positions = np.append(self._positions, positions)
        self._weighted = np.append(self._weighted, weighted)
        self._redundancy = np.append(self._redundancy, redundancy)
        self._waits = np.append(self._waits, np.ones(len(vectors), np.bool_))

    def _scores(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the rows of candidates that wait, and their scores."""
        rows = np.flatnonzero(self._waits)
        weighted = self._weighted[rows]
        scores = weighted - (1 - self._weight) * self._redundancy[rows]
        scores[np.isneginf(weighted)] = -np.inf  # the redundancy may be NaN, if a file has a vector of NaN
        return rows, scores

    def pick(self, least: float) -> Pick | None:
        """Choose the candidate with the highest score; `None` if none reaches `least`.

        Ties are broken by order of discovery.
        """
        rows, scores = self._scores()
        if not len(rows) or (best := scores.max()) < least:
            return None
        ties = rows[scores == best]
        row = ties[self._positions[ties].argmin()]
        choice = Pick(int(self._positions[row]), float(best), float(self._redundancy[row]))
        self._waits[row] = False
        # Redundancy is a maximum over all choices, so only the new one has to be compared.
        similarities = exact_scores(self._vectors[: len(self._waits)], self._vectors[row])
        self._redundancy = np.maximum(self._redundancy, similarities)
        return choice

    def find_best(self, count: int) -> list[int]:
        """Return the positions of the candidates with the highest scores now, in any order."""
        rows, scores = self._scores()
        best: list[int] = self._positions[rows[np.argsort(-scores)[: max(count, 0)]]].tolist()
        return best


@dataclass(slots=True, eq=False)
class MmrMemory(AdmittingMemory):
    """The memory of one walk of `Mmr`: candidates, the choice for each, and likely next ones."""

    pool: Pool = field(init=False)
    picks: dict[Id, Pick] = field(default_factory=dict)
    likely: Sequence[Id] = ()


@dataclass(frozen=True)  # its own parameters may be passed by position, as in graph-retriever
class Mmr(AdmittingParameters, AdmittingPolicy[MmrMemory]):
    """Start from a search and choose artifacts near the query and unlike each other.

    They are chosen one after another, by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), from all
    artifacts admitted so far. The score of a candidate is `lambda_mult` times its cosine to the query, minus `1 -
    lambda_mult` times its redundancy. The redundancy is the highest cosine to an artifact chosen before. It is at least
    0 for candidates admitted before the first choice. The neighbours of a choice are admitted before the next choice.

    The order of the stream is the order of choice, and final; ties in order of discovery. The score of a hit is its
    cosine to the query. Its metadata contain `mmr_score` and `redundancy` at the time of the choice.

    The other parameters are those of `AdmittingParameters`.

    Args:
        lambda_mult: A number from 0 (unlike the others) to 1 (near the query).
        min_mmr_score: The least score of a choice; the walk ends if no candidate reaches it.
        select_k: Stop after this number of hits; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> Mmr(lambda_mult=0.3).select_k
        5
    """

    lambda_mult: float = 0.5
    min_mmr_score: float = -np.inf
    keeps_frontier = True
    _memory = MmrMemory
    _vector_setting = ""

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        for name, low, high in (("lambda_mult", 0.0, 1.0), ("min_mmr_score", -np.inf, np.inf)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ArgumentError(f"{name} must be a number from {low:g} to {high:g}, not {short_repr(value)}")

    @override
    def begin(self, state: WalkState[MmrMemory]) -> MmrMemory:
        memory = super().begin(state)
        memory.pool = Pool(self.lambda_mult)
        return memory

    async def select(self, state: WalkState[MmrMemory], frontier: Frontier) -> list[int]:
        """Choose artifacts up to and including the first one above the depth cap.

        The neighbours of that one compete for the next choice.
        """
        picks = 1 if state.max_depth is None else _MAX_PICKS
        is_long = state.memory.pool.size * picks > _OFFLOAD_NUMBERS_ABOVE
        return await offload_if(is_long, self._choose, state, frontier)

    def _choose(self, state: WalkState[MmrMemory], frontier: Frontier) -> list[int]:
        memory, pool, admission = state.memory, state.memory.pool, self._find_admission(state, frontier)
        memory.keep_admission(admission)
        admitted = admission.positions
        if admitted:
            vector_of = cast("dict[Id, Floats]", memory.vector_of)
            vectors = np.array([vector_of[frontier.ids[position]] for position in admitted])
            pool.admit(admitted, frontier.scores[admitted], vectors)
        room = pool.waiting if self.select_k is None else self.select_k - len(state.results)
        chosen: list[int] = []
        for _ in range(min(room, _MAX_PICKS)):
            pick = pool.pick(self.min_mmr_score)
            if pick is None:
                break
            chosen.append(pick.position)
            memory.picks[frontier.ids[pick.position]] = pick
            if state.max_depth is None or frontier.depths[pick.position] < state.max_depth:
                break
        # A choice lowers the scores of others a little, so the next ones are nearly always among the best of now. The
        # last of all is not expanded.
        likely = pool.find_best(min(_MAX_LIKELY, room - len(chosen) - 1)) if self.max_traverse is None else []
        cap = math.inf if state.max_depth is None else state.max_depth
        memory.likely = [frontier.ids[at] for at in likely if frontier.depths[at] < cap]
        return chosen or self._select_nothing(state, frontier)

    @override
    def _list_expected(self, memory: MmrMemory) -> Sequence[Id]:
        return [id for id in memory.likely if memory.permissions_of(id).cross]

    @override
    def _count_ahead(self, state: WalkState[MmrMemory]) -> int | None:
        # With fields, a choice is known to lead on only by its record. With links, its record is read with them.
        return super()._count_ahead(state) if self._reads_fields else 0

    @override
    def _facts(self, state: WalkState[MmrMemory], entry: CommittedNode) -> dict[str, Any]:
        _, score, redundancy = state.memory.picks[entry.id]
        return {"mmr_score": score, "redundancy": redundancy}


@dataclass(slots=True, eq=False)
class StrategyMemory(AdmittingMemory):
    """The memory of one walk of a strategy.

    Args:
        strategy: The copy of the strategy that this walk works with.
        tracker: The nodes that it selects and traverses.
        waiting: The positions of nodes that were passed to `iteration` and wait.
        nodes: The nodes that were passed to `iteration`, by id.
        selected: The nodes that were selected in this step, by id.
        is_over: Whether enough nodes are selected, or no node is to be traversed.
        is_iterating: Whether `iteration` was called and has not returned.
    """

    strategy: "Strategy" = field(init=False)
    tracker: NodeTracker = field(init=False)
    waiting: dict[Id, int] = field(default_factory=dict)
    nodes: dict[Id, Node] = field(default_factory=dict)
    selected: dict[Id, Node] = field(default_factory=dict)
    is_over: bool = False
    is_iterating: bool = False


@dataclass(kw_only=True)
class Strategy(AdmittingPolicy[StrategyMemory], ABC):
    """A policy that decides in one method, `iteration`.

    `iteration` receives the new nodes of a step and a tracker. In each step, the walk commits the nodes that
    `iteration` selects or traverses. A node must be selected and traversed in the same step, if both. The walk ends
    with the step in which `select_k` nodes are selected, or no node is traversed. Artifacts without surfaces are not
    passed to `iteration`.

    The order of the stream is the order of selection. It is final, unless `finalize_nodes` reorders: `walk.ranking` is
    the order that it returns.

    A strategy may store data in its own fields, because each walk works on a deep copy. So it is a plain dataclass, as
    in graph-retriever, and not frozen. Do not change it while it walks.

    The other parameters are those of `AdmittingParameters`.

    Args:
        select_k: End with the step in which this number of nodes is selected; `None` to run to the limits of the walk.

    Example:
        >>> class Nearest(Strategy):
        ...     def iteration(self, nodes, tracker):
        ...         tracker.select_and_traverse(sorted(nodes, key=lambda node: -node.similarity_score)[:1])
        >>> Strategy.build(Nearest(start_k=1), k=7).select_k
        7
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_traverse: int | None = None
    max_depth: int | None = None
    seeding: Seeding | None = None
    roots: Sequence[NodeIdLike] = ()
    edges: FieldEdges | None = None
    direction: Direction = "both"
    types: Sequence[str] | None = None
    operators: bool = False
    scope: Scope = ALLOW_ALL
    keeps_frontier = True
    _memory = StrategyMemory
    _vector_setting = ""
    _needs_records = True
    query_embedding: Floats | None = field(default=None, init=False, repr=False, compare=False)

    @abstractmethod
    def iteration(self, nodes: Iterable[Node], tracker: NodeTracker) -> Awaitable[None] | None:
        """Select and traverse nodes by calls of the tracker; it may be async.

        Args:
            nodes: The nodes admitted in this step, nearest first; there may be none.
            tracker: The tracker of the walk.
        """

    def finalize_nodes(self, selected: Iterable[Node]) -> Iterable[Node]:
        """Return the selected nodes in their final order; by default the first `select_k`."""
        return list(selected)[: self.select_k]

    @staticmethod
    def build(base: S, **options: Any) -> S:
        """Return a copy of a policy with other parameters.

        Args:
            base: The policy to copy.
            options: The parameters to change; `k` means `select_k`. An option `strategy` replaces `base`, and must come
                first.

        Raises:
            ArgumentError: If `strategy` is not the first option or no policy, or if a parameter cannot be used.
            TypeError: If there is no such parameter.

        Example:
            >>> from airw.policies import Eager
            >>> Strategy.build(Eager(select_k=10), select_k=5).select_k
            5
        """
        if "strategy" in options and next(iter(options)) != "strategy":
            raise ArgumentError("strategy must come before the other options")
        base = options.pop("strategy", base)
        if isinstance(base, type) or not is_dataclass(base) or not hasattr(base, "to_hits"):
            raise ArgumentError(f"strategy must be a policy such as Eager(), not {short_repr(base)}")
        if "k" in options:
            options["select_k"] = options.pop("k")
        return cast("S", replace(cast("Any", base), **options))

    @override
    def begin(self, state: WalkState[StrategyMemory]) -> StrategyMemory:
        memory = super().begin(state)
        memory.strategy = copy.deepcopy(self)
        memory.tracker = NodeTracker(
            self.select_k, state.max_depth, lambda node_id: memory.permissions_of(node_id).keep
        )
        return memory

    async def select(self, state: WalkState[StrategyMemory], frontier: Frontier) -> list[int]:
        """Call `iteration`, and return the positions of the nodes that it selects, then traverses."""
        memory = state.memory
        if memory.is_over or self.select_k == 0:
            return self._select_nothing(state, frontier)
        tracker = memory.tracker
        memory.strategy.query_embedding = memory.vector
        # 1. A waiting node may have been reached on a shorter path since it was passed to `iteration`.
        for id, position in memory.waiting.items():
            memory.nodes[id].depth = frontier.depths[position]
        # 2. Admit the artifacts with surfaces; their records take one store call.
        admission = await self._admit(state, frontier)
        ids: list[Id] = [frontier.ids[position] for position in admission.positions]
        records = await memory.best_records(ids, memory.corpus)
        memory.keep_admission(admission)
        new: list[Node] = []
        for id, position, record in zip(ids, admission.positions, records, strict=True):
            if record is not None:
                new.append(memory.to_node(id, record, frontier.depths[position]))
                memory.waiting[id], memory.nodes[id] = position, new[-1]
        # 3. Let the strategy decide about them. Earlier ones it may have kept for itself.
        count_before = len(tracker.selected)
        answer = memory.strategy.iteration(new, tracker)
        if answer is not None:
            memory.is_iterating = True
            await answer
            memory.is_iterating = False
        # 4. Commit what it selected, then what it only traverses, which becomes a router.
        memory.selected = {node.id: node for node in tracker.selected[count_before:]}
        memory.is_over = not (tracker.num_remaining and tracker.to_traverse)
        positions = []
        for id in dict.fromkeys([*memory.selected, *tracker.to_traverse]):
            if id not in memory.waiting:
                raise PolicyError(
                    f"{self._name}.iteration selected or traversed {id!r}, which does not wait; "
                    "select and traverse a node in the same step, and only once"
                )
            positions.append(memory.waiting.pop(id))
        self._expect_hits(state, memory.selected)
        return positions or self._select_nothing(state, frontier)

    @override
    def _filter_crossable(self, memory: StrategyMemory, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        tracker = memory.tracker
        chosen = [entry for entry in committed if entry.id in tracker.to_traverse or entry.id in tracker.at_cap]
        return super()._filter_crossable(memory, chosen)

    @override
    async def _find_edges(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[EdgeRow]:
        rows = await super()._find_edges(state, committed, store)
        state.memory.tracker.to_traverse.clear()
        return rows

    @override
    async def to_hits(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        hits = await super().to_hits(state, committed, store)
        for index, (entry, hit) in enumerate(zip(committed, hits, strict=True)):
            if hit is not None:
                node = state.memory.selected.get(entry.node.id)
                hits[index] = replace(hit, metadata=node.extra_metadata | hit.metadata) if node else None
        return hits

    @override
    def rank(self, state: WalkState[StrategyMemory], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        if not hits:
            return hits  # the walk may have no memory yet
        memory = state.memory
        final_nodes = {node.id: node for node in memory.strategy.finalize_nodes(list(memory.tracker.selected))}
        hit_of = {node_of_hit(hit, final_nodes): hit for hit in hits}
        return [
            replace(hit_of[id], metadata=node.extra_metadata | hit_of[id].metadata)
            for id, node in final_nodes.items()
            if id in hit_of
        ]

    @override
    def find_obstacle(self, state: WalkState[StrategyMemory]) -> str | None:
        # The cancelled call may have changed fields, so it cannot be repeated. Before `seed` the memory is None.
        is_cut = getattr(state.memory, "is_iterating", False)
        return f"a deadline has cancelled {type(self).__name__}.iteration" if is_cut else None
