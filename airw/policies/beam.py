"""The policy `Beam`: the best few paths of each step."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.policies._corpora import Id, Walkable
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, SearchingPolicy, SearchParameters, ids_of, parents_of
from airw.walking import CommittedNode, Frontier, LazyNeighbors, WalkState

_AHEAD = 4  # artifacts whose records are read ahead, for each that a step commits
_OFFLOAD_ABOVE = 5_000  # paths; comparing this many takes about a millisecond


@dataclass(slots=True, eq=False)
class BeamMemory(ArtifactMemory):
    """The memory of a walk of `Beam`: the path to each committed artifact, as two numbers.

    A path is represented by a sum and not by a mean, so that rounding errors do not add up.

    Args:
        lengths: The number of artifacts on it. `None` stands for the path before the start.
        totals: The sum of their cosines.
    """

    lengths: dict[Id | None, int] = field(default_factory=lambda: {None: 0})
    totals: dict[Id | None, float] = field(default_factory=lambda: {None: 0.0})


State: TypeAlias = WalkState[BeamMemory]


@dataclass(frozen=True, kw_only=True)
class Beam(SearchParameters, SearchingPolicy[BeamMemory]):
    """Start from a search and keep in each step the `width` artifacts with the best paths.

    A path scores by the mean cosine of its artifacts to the query. An artifact scores by the best path to it that goes
    on from the last step; that path is the hit's `walk_path`, and its score is the hit's score. The start is a step
    like the others: of the artifacts found and the roots, the `width` nearest are committed. An artifact that a step
    does not commit is dropped, but a later path may lead to it again.

    The cosine of an artifact is that of its best surface. An artifact without surfaces has no
    cosine, so no path leads through it. A router that the scope allows counts in its paths and in the width.

    Each step is one layer, best path first; ties in order of discovery. That order is final. `walk.ranking` orders all
    layers by path score, ties in order of commitment. The algorithm is the beam search of Lowerre (The HARPY Speech
    Recognition System, 1976). It uses a mean instead of a sum, so that longer paths can compete with shorter ones.

    The other parameters are those of `SearchParameters`.

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
    _memory = BeamMemory
    scores_paths = True  # with Beam's scores the first path is the best one; a subclass may score differently

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("width", self.width, least=1)
        check_count("seed_k", self.seed_k, most=MAX_HITS)

    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode]:
        """Return the start: the artifacts of one search, and the roots."""
        return await self._find_start(state, store, self.seed_k)

    @override
    def _count_ahead(self, state: State) -> int | None:
        # The ends of the best paths are nearly always among so many of the nearest.
        most = super()._count_ahead(state)
        return most if most is None or self.edges is not None else min(most, _AHEAD * self.width)

    def value(self, state: State, nodes: Sequence[Any]) -> NDArray[np.float64]:
        """Return the mean cosine of each path."""
        memory, parents = state.memory, parents_of(nodes)
        totals = np.fromiter(map(memory.totals.__getitem__, parents), np.float64)
        lengths = np.fromiter(map(memory.lengths.__getitem__, parents), np.intp)
        means: NDArray[np.float64] = (memory.cosines(ids_of(nodes)) + totals) / (lengths + 1)
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

    async def follow(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[LazyNeighbors]:
        """Return the paths that lead on from each artifact; two store calls at most."""
        memory = state.memory
        for entry in committed:
            memory.lengths[entry.id] = memory.lengths[entry.parent] + 1
            memory.totals[entry.id] = memory.totals[entry.parent] + memory.cosine_of[entry.id]
        return await super().follow(state, committed, store)
