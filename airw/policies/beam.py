"""Path beam: the best few artifacts of each step, by how near the whole way to them is."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.policies._capabilities import Walkable
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy
from airw.values import Edge
from airw.walking import CommittedNode, Frontier, WalkState

_MANY = 2_000  # paths, compared in about a millisecond


class PathNode(NamedTuple):
    """An artifact at the end of one path: the last edge, and how many artifacts come before, with what sum of cosines.

    A sum is carried and not a mean, so that no rounding piles up.
    """

    id: str
    edge: Edge | None = None
    before: int = 0
    total: float = 0.0


State: TypeAlias = WalkState[ArtifactMemory]


@dataclass(frozen=True, kw_only=True)
class Beam(ArtifactPolicy[ArtifactMemory]):
    """Start from a search and keep, step by step, the `width` artifacts to which the nearest paths lead.

    A path scores by the mean of the cosines of its artifacts to the query, and an artifact by the best path to it from
    what the step before committed; that path is the hit's `walk_path`, its score the hit's. The start is a step like
    any other: of what was found and the roots, the `width` nearest. What a step does not commit is dropped; a later
    path may lead there again. An artifact scores by its best surface, and that surface is the hit. One without
    surfaces has no score for a path to go through: it is passed over. One that the scope lets through as a router
    counts in its paths and in the width.

    Each step is one layer: best path first, ties in order of discovery, and that order is final when it streams.
    `walk.ranking` orders all layers by path score, ties in order of commitment. The search is that of Lowerre (The
    HARPY Speech Recognition System, 1976), with a mean so that longer paths can compare with shorter ones.

    The other parameters are those of `ArtifactPolicy`.

    Args:
        width: Artifacts to commit per step.
        seed_k: Artifacts to start from, found by search; 0 for `roots` alone.

    Raises:
        ArgumentError: A parameter cannot be used.

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
    scores_paths = True  # by these scores the best path is always found first; by those of a subclass it need not be

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        check_count("width", self.width, least=1)
        check_count("seed_k", self.seed_k)

    @override
    def begin(self, state: State) -> ArtifactMemory:
        return ArtifactMemory(state.query, self.scope, self._reads_fields)

    async def seed(self, state: State, store: Walkable) -> list[PathNode]:
        """Search for the start; one search, and the roots."""
        return [PathNode(node.id) for node in await self._find_start(state, store, self.seed_k)]

    async def score(self, state: State, nodes: Sequence[Any], store: Walkable) -> NDArray[np.float64]:
        """Score by the mean cosine of each path; one store call, however many paths lead to an artifact."""
        await super().score(state, list({node.id: node for node in nodes}.values()), store)
        totals = state.memory.cosines(node.id for node in nodes) + np.array([node.total for node in nodes])
        means: NDArray[np.float64] = totals / np.array([node.before + 1 for node in nodes])
        return means

    async def select(self, state: State, frontier: Frontier) -> list[int]:
        """Commit the best path to each of the `width` best artifacts."""
        return await offload_if(len(frontier.live) > _MANY, self._best_paths, state, frontier)

    def _best_paths(self, state: State, frontier: Frontier) -> list[int]:
        live = self._selectable(state, frontier)
        scores = frontier.scores[live]
        live, scores = live[np.isfinite(scores)], scores[np.isfinite(scores)]
        best: dict[Hashable, int] = {}
        for position in live[np.argsort(-scores, kind="stable")].tolist():
            best.setdefault(frontier.ids[position], position)
            if len(best) == self.width:
                break
        return list(best.values())

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[list[Any]]:
        """Return the paths that lead on from each one; one store call."""
        found = await super().expand(state, committed, store)
        best = state.memory.best
        return [
            _extend(entry.node, best[entry.node.id][1], nodes) for entry, nodes in zip(committed, found, strict=True)
        ]


def _extend(path: PathNode, cosine: float, nodes: Sequence[ArtifactNode]) -> list[PathNode]:
    """Return a path, to an artifact of this cosine, once for each artifact behind it."""
    before, total = path.before + 1, path.total + cosine
    return [PathNode(node.id, node.edge, before, total) for node in nodes]
