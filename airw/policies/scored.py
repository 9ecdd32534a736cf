"""The policy `Scored`: best first, by a score of the caller."""

import inspect
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count
from airw._base.concurrency import Pacer, map_bounded, offload_if
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw._base.overriding import override
from airw.errors import ArgumentError, PolicyError
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable
from airw.policies._several_corpora import Id
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy, Node
from airw.policies.artifact_policy import ArtifactNode
from airw.values import Edge, SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

_OFFLOAD_ABOVE = 5_000  # artifacts; sorting this many takes about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class NodePath:
    """A path from the start of a walk to an artifact, as a path scorer receives it.

    Args:
        nodes: The artifacts on the path; the last one is scored. After an artifact without surfaces a path begins anew.
        edges: The edges between them, one less. An edge that was walked backwards begins at the later artifact.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()


@dataclass(slots=True, eq=False)
class ScoredMemory(AdmittingMemory):
    """The memory of one walk of `Scored`.

    Args:
        corpus: The walked corpus; `select` needs it and does not receive it.
        pool: The score at each position that was admitted and not selected.
        selected_scores: The score of each artifact that was selected.
        paths: With a path scorer: the paths to each artifact of the pool, by position; `None` without surfaces.
        selected_paths: With a path scorer: the path to each artifact that was selected.
    """

    corpus: Walkable = field(init=False)
    pool: dict[int, float] = field(default_factory=dict)
    selected_scores: dict[Id, float] = field(default_factory=dict)
    paths: dict[Id, dict[int, NodePath | None]] = field(default_factory=dict)
    selected_paths: dict[Id, NodePath | None] = field(default_factory=dict)

    def path_to(self, id: Id, edge: Edge | None, node: Node) -> NodePath:
        """Return the path to an artifact, by the edge that led to it from one that was selected."""
        before = None
        if edge is not None:
            before = self.selected_paths.get(edge.target if edge.source == id else edge.source)
        if edge is None or before is None:
            return NodePath((node,))
        return NodePath((*before.nodes, node), (*before.edges, edge))

    def select_paths(self, positions: Mapping[Id, int]) -> None:
        """Remember the paths of selected artifacts; take others to them out of the pool."""
        for id, position in positions.items():
            paths = self.paths.pop(id)
            self.selected_paths[id] = paths[position]
            for other in paths:
                self.pool.pop(other, None)


State: TypeAlias = WalkState[ScoredMemory]


@dataclass(frozen=True)  # its own parameters may be passed by position, as in graph-retriever
class Scored(AdmittingPolicy[ScoredMemory]):
    """Start from a search and always go on from the best artifacts admitted so far.

    Hits stream in order of commitment, which is not final. `walk.ranking` orders them by score, ties in order of
    commitment, and contains the first `select_k`. A step is always committed as a whole, so the stream may contain
    more.

    The other parameters are those of `AdmittingPolicy`.

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
    speaks_columns = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        if self.scorer is not None and not callable(self.scorer):
            raise ArgumentError(f"scorer must be a function of a node or None, not {short_repr(self.scorer)}")
        if self.path_scorer is not None and not callable(self.path_scorer):
            raise ArgumentError(f"path_scorer must be a function of paths or None, not {short_repr(self.path_scorer)}")
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
    def _has_scorer(self) -> bool:
        return self.scorer is not None or self.path_scorer is not None

    @property
    @override
    def _needs_vectors(self) -> bool:
        return self._has_scorer

    @property
    @override
    def _needs_records(self) -> bool:
        return self._has_scorer

    @override
    def begin(self, state: State) -> ScoredMemory:
        return ScoredMemory(state.query, self.scope, self._reads_fields or self._has_scorer)

    @override
    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode] | Numbers:
        state.memory.corpus = store
        if self.path_scorer is not None:  # a path has edges, which a walk in columns does not make
            return await self._find_start(state, store, self.start_k)
        return await super().seed(state, store)

    async def score(
        self, state: State, nodes: Sequence[ArtifactNode] | Numbers, store: Walkable
    ) -> NDArray[np.float64]:
        """Score by the cosine of the best surface, for admission; one store call."""
        if self._has_scorer:
            setting = "scorer=..." if self.path_scorer is None else "path_scorer=..."
            return await self._score_and_keep_vectors(state, nodes, store, setting)
        return await super().score(state, nodes, store)

    async def select(self, state: State, frontier: Frontier) -> Sequence[int]:
        """Commit the best of all admitted artifacts; one store call.

        The scorer is called once for each artifact, the path scorer once.
        """
        if self._has_enough(state):
            return self._select_nothing(state, frontier)
        pool, admission = state.memory.pool, self._admit(state, frontier)
        admitted = np.sort(admission.positions).tolist()
        pool.update(zip(admitted, await self._scores(state, frontier, admitted), strict=True))
        best = await offload_if(len(pool) > _OFFLOAD_ABOVE, _sort_pool, pool)
        state.memory.keep_admission(admission)
        selected = self._choose(state, frontier, best)
        ids = state.memory.ids_at(frontier, selected)
        state.memory.selected_scores.update(zip(ids, map(pool.pop, selected), strict=True))
        if self.path_scorer is not None:
            state.memory.select_paths(dict(zip(ids, selected, strict=True)))
        self._expect_hits(state, ids)
        return selected or self._select_nothing(state, frontier)

    async def _scores(self, state: State, frontier: Frontier, positions: list[int]) -> list[float]:
        """Return the score of the node at each position; `-inf` for artifacts without surfaces."""
        if not self._has_scorer or not positions:
            scores: list[float] = frontier.scores[positions].tolist()
            return scores
        memory, ids = state.memory, state.memory.ids_at(frontier, positions)
        records = await memory.best_records(ids, memory.corpus)
        nodes = {
            position: memory.to_node(id, record, int(frontier.depths[position]), row)
            for position, id, record, row in zip(positions, ids, records, memory.rows[positions], strict=True)
            if record is not None
        }
        if self.path_scorer is None:
            answers = await self._call_scorer_for_all(state, list(nodes.values()))
        else:
            id_of = dict(zip(positions, ids, strict=True))
            paths = {at: memory.path_to(id_of[at], frontier.nodes[at].edge, node) for at, node in nodes.items()}
            for at, id in id_of.items():
                memory.paths.setdefault(id, {})[at] = paths.get(at)
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

    async def _call_scorer_for_all(self, state: State, nodes: Sequence[Node]) -> list[float]:
        if inspect.iscoroutinefunction(self.scorer):
            return await map_bounded(self._call_scorer, nodes, limit=state.limits.max_concurrency)
        scores, pacer = [], Pacer()
        for node in nodes:
            scores.append(await self._call_scorer(node))
            await pacer.pace()
        return scores

    async def _call_scorer(self, node: Node) -> float:
        try:
            answer = cast("Callable[[Node], Any]", self.scorer)(node)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            add_note(error, f"for node {short_repr(node.id)}")
            raise
        return _to_score("scorer", answer, node)

    def _choose(self, state: State, frontier: Frontier, best: NDArray[np.intp]) -> list[int]:
        """Return the best positions, until as many as allowed are above the depth cap."""
        room = len(best) if self.select_k is None else self.select_k - len(state.results)
        room = min(room, self.per_iteration_limit or room)
        selected: list[int] = []
        ids: set[Id] = set()
        for position in map(int, best):
            if room <= 0:
                break
            if self.scores_paths:  # the best path to an artifact comes first
                if frontier.ids[position] in ids:
                    continue
                ids.add(frontier.ids[position])
            selected.append(position)
            # An artifact at the depth cap cannot lead to a better one, so it does not use up the limit.
            room -= state.max_depth is None or frontier.depths[position] < state.max_depth
        return selected

    def stop(self, state: State) -> bool:
        """Stop at the end of the step in which `select_k` hits are reached."""
        return self._has_complete_step(state)

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, with its score; at most one store call."""
        await self._read_step(state, committed, store)
        scores = state.memory.selected_scores
        return await state.memory.make_hits(committed, [scores[entry.id] for entry in committed], store)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the `select_k` hits with the highest scores, best first."""
        return super().rank(state, hits)[: self.select_k]


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


def _sort_pool(pool: Mapping[int, float]) -> NDArray[np.intp]:
    """Return the positions, highest score first; ties in order of discovery."""
    positions = np.fromiter(pool, np.intp, len(pool))
    scores = np.fromiter(pool.values(), np.float64, len(pool))
    best: NDArray[np.intp] = positions[np.lexsort((positions, -scores))]
    return best
