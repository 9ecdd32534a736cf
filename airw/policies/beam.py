"""The policy `Beam`: the best few paths of each step."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.policies._corpora import Walkable
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import SearchingPolicy, SearchParameters
from airw.protocols import EdgeRow
from airw.values import Edge
from airw.walking import CommittedNode, Frontier, LazyNeighbors, WalkState

_AHEAD = 4  # artifacts whose records are read ahead, for each that a step commits
_OFFLOAD_ABOVE = 2_000  # paths; comparing this many takes about a millisecond


class PathNode(NamedTuple):
    """An artifact at the end of a path.

    The path is represented by a sum and not by a mean, so that rounding errors do not add up.

    Args:
        id: The artifact.
        row: The row in which the last edge of the path stands; `None` at the start.
        place: Its place there.
        before: The number of artifacts before this one.
        total: The sum of their cosines.
    """

    id: str
    row: EdgeRow | None = None
    place: int = 0
    before: int = 0
    total: float = 0.0

    @property
    def edge(self) -> Edge | None:
        """The last edge of the path, made now."""
        return None if self.row is None else self.row[self.place]


State: TypeAlias = WalkState[ArtifactMemory]
_new_path = partial(tuple.__new__, PathNode)  # takes half the time of `PathNode(...)`


@dataclass(frozen=True, kw_only=True)
class Beam(SearchParameters, SearchingPolicy[ArtifactMemory]):
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
    scores_paths = True  # with Beam's scores the first path is the best one; a subclass may score differently

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("width", self.width, least=1)
        check_count("seed_k", self.seed_k, most=MAX_HITS)

    @override
    def begin(self, state: State) -> ArtifactMemory:
        return ArtifactMemory(state.query, self.scope, self._reads_fields)

    async def seed(self, state: State, store: Walkable) -> list[PathNode]:
        """Return the start: the artifacts of one search, and the roots."""
        return [PathNode(node.id) for node in await self._find_start(state, store, self.seed_k)]

    @override
    def _count_ahead(self, state: State) -> int | None:
        # The ends of the best paths are nearly always among so many of the nearest.
        most = super()._count_ahead(state)
        return most if most is None or self.edges is not None else min(most, _AHEAD * self.width)

    def value(self, state: State, nodes: Sequence[PathNode]) -> NDArray[np.float64]:
        """Return the mean cosine of each path."""
        best = state.memory.best_surfaces
        return np.array([(best[id][1] + total) / (before + 1) for id, _, _, before, total in nodes], np.float64)

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
        paths = []
        for (node, *_), row in zip(committed, await self._find_edges(state, committed, store), strict=True):
            total = node.total + state.memory.best_surfaces[node.id][1]
            paths.append(LazyNeighbors(row.ends, partial(_make_paths, row, node.before + 1, total)))
        return paths


def _make_paths(row: EdgeRow, before: int, total: float, part: slice) -> list[PathNode]:
    places = range(len(row))[part]
    return list(map(_new_path, zip(row.ends[part], repeat(row), places, repeat(before), repeat(total))))
