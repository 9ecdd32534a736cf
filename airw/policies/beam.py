"""The policy `Beam`: the best few paths of each step."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy
from airw.values import Edge
from airw.walking import Columns, CommittedNode, CommittedNodes, Frontier, WalkState

_OFFLOAD_ABOVE = 2_000  # paths; comparing this many takes about a millisecond


class PathNode(NamedTuple):
    """An artifact at the end of a path.

    The path is represented by a sum and not by a mean, so that rounding errors do not add up.

    Args:
        id: The artifact.
        edge: The last edge of the path.
        before: The number of artifacts before this one.
        total: The sum of their cosines.
    """

    id: str
    edge: Edge | None = None
    before: int = 0
    total: float = 0.0


@dataclass(slots=True, eq=False)
class BeamMemory(ArtifactMemory):
    """The memory of one walk of `Beam`; paths are used in a walk in columns only.

    Args:
        paths: The fields `before` and `total` of the path at each position, `(2, n) float64`.
        next_paths: The same for each neighbour that was read last.
    """

    paths: NDArray[np.float64] = field(default_factory=lambda: np.empty((2, 0)))
    next_paths: NDArray[np.float64] = field(default_factory=lambda: np.empty((2, 0)))


State: TypeAlias = WalkState[BeamMemory]


@dataclass(frozen=True, kw_only=True)
class Beam(ArtifactPolicy[BeamMemory]):
    """Start from a search and keep in each step the `width` artifacts with the best paths.

    A path scores by the mean cosine of its artifacts to the query. An artifact scores by the best path to it that goes
    on from the last step; that path is the hit's `walk_path`, and its score is the hit's score. The start is a step
    like the others: of the artifacts found and the roots, the `width` nearest are committed. An artifact that a step
    does not commit is dropped, but a later path may lead to it again.

    The cosine of an artifact is that of its best surface, which is also the hit. An artifact without surfaces has no
    cosine, so no path leads through it. A router that the scope allows counts in its paths and in the width.

    Each step is one layer, best path first; ties in order of discovery. That order is final. `walk.ranking` orders all
    layers by path score, ties in order of commitment. The algorithm is the beam search of Lowerre (The HARPY Speech
    Recognition System, 1976). It uses a mean instead of a sum, so that longer paths can compete with shorter ones.

    The other parameters are those of `ArtifactPolicy`.

    Args:
        width: The number of artifacts to commit per step.
        seed_k: The number of artifacts to start from, found by the seeding; 0 for `roots` alone.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import extractor_from
        >>> texts = {"a": "rotate keys", "b": "signing keys", "c": "bread", "d": "rotate signing keys"}
        >>> links = extractor_from(lambda id, _: {"next": {"a": ["b", "c"], "b": ["d"]}.get(id, [])}, id="links")
        >>> beam = Beam(width=1, seed_k=0, roots=["a"])
        >>> async def main():
        ...     source = from_mapping(texts, name="notes", embedder=HashingEmbedder(), edge_extractor=links)
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         walk = traverse("rotate signing keys", corpus, policy=beam)
        ...         return [hit.metadata["walk_path"] async for hit in walk]
        >>> anyio.run(main)
        [['a'], ['a', 'b'], ['a', 'b', 'd']]
    """

    width: int = 4
    seed_k: int = 4
    max_depth: int | None = 3
    speaks_columns = True
    scores_paths = True  # with Beam's scores the first path is the best one; a subclass may score differently

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("width", self.width, least=1)
        check_count("seed_k", self.seed_k, most=MAX_HITS)

    @override
    def begin(self, state: State) -> BeamMemory:
        return BeamMemory(state.query, self.scope, self._reads_fields)

    async def seed(self, state: State, store: Walkable) -> list[PathNode] | Numbers:
        """Return the start: the artifacts of one search, and the roots."""
        start = [PathNode(node.id) for node in await self._find_start(state, store, self.seed_k)]
        return await self._to_seeds(state, start, store)

    async def score(self, state: State, nodes: Sequence[Any] | Numbers, store: Walkable) -> NDArray[np.float64]:
        """Score by the mean cosine of each path; one store call.

        Several paths to one artifact do not cost more.
        """
        memory = state.memory
        if isinstance(nodes, np.ndarray):
            await super().score(state, np.unique(nodes), store)
            seeds = np.zeros((2, len(nodes)))
            paths = memory.next_paths[:, state.fresh_edges] if len(state.fresh_edges) else seeds
            memory.paths = np.concatenate([memory.paths, paths], axis=1)
        else:
            await super().score(state, list({node.id: node for node in nodes}.values()), store)
            paths = np.array([[node.before for node in nodes], [node.total for node in nodes]])
        before, totals = paths
        means: NDArray[np.float64] = (memory.cosines(memory.ids_of(nodes)) + totals) / (before + 1)
        return means

    async def select(self, state: State, frontier: Frontier) -> list[int]:
        """Commit the best path to each of the `width` best artifacts."""
        return await offload_if(len(frontier.live) > _OFFLOAD_ABOVE, self._select_best_paths, state, frontier)

    def _select_best_paths(self, state: State, frontier: Frontier) -> list[int]:
        # 1. Excluded artifacts, and those without a cosine, cannot be part of a path.
        live = self._selectable(state, frontier)
        scores = frontier.scores[live]
        live, scores = live[np.isfinite(scores)], scores[np.isfinite(scores)]
        # 2. Read best first, the first path to an artifact is its best one. Stop at `width` distinct artifacts.
        best: dict[Hashable, int] = {}
        for position in live[np.argsort(-scores, kind="stable")].tolist():
            best.setdefault(frontier.ids[position], position)
            if len(best) == self.width:
                break
        return list(best.values())

    async def expand(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[Any]] | Columns:
        """Return the paths that lead on from each artifact; one store call."""
        memory, neighbors = state.memory, await super().expand(state, committed, store)
        if isinstance(neighbors, Columns):
            nodes = cast("CommittedNodes", committed)
            before, totals = memory.paths[:, nodes.positions]
            longer = np.array([before + 1, totals + memory.cosines(nodes.ids)])
            memory.next_paths = np.repeat(longer, np.diff(neighbors.offsets), axis=1)
            return neighbors
        best_surfaces = memory.best_surfaces
        return [
            _extend(entry.node, best_surfaces[entry.node.id][1], nodes)
            for entry, nodes in zip(committed, neighbors, strict=True)
        ]


def _extend(path: PathNode, cosine: float, nodes: Sequence[ArtifactNode]) -> list[PathNode]:
    """Return the path extended by each neighbour; `cosine` is that of its last artifact."""
    before, total = path.before + 1, path.total + cosine
    return [PathNode(node.id, node.edge, before, total) for node in nodes]
