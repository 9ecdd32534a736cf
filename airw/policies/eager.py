"""Breadth-first over links: commit whatever is found, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from airw.errors import ArgumentError
from airw.limits import check_choice, check_count
from airw.policies._artifacts import ArtifactNode, artifact_hits, score_artifacts, seed_artifacts
from airw.protocols import OpenCorpus
from airw.retrieval import MODES, Mode
from airw.values import DIRECTIONS, Direction, Edge, NDArray, SearchHit
from airw.walk import Entry, Frontier, Policy, WalkState

__all__ = ["Eager"]


@dataclass(frozen=True, kw_only=True)
class Eager(Policy):
    """Start from a search and follow links breadth-first, committing every artifact found.

    Each layer is committed by cosine to the query, best first, ties in order of discovery; that order is final. An
    artifact scores by its best surface, and that surface is the hit.

    Args:
        select_k: Stop once this many hits are out; `None` to run to the limits of the walk.
        start_k: Artifacts to start from, found by search; 0 for `roots` alone.
        adjacent_k: New artifacts committed per layer, the nearest first; `None` for all.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        seeding: Search mode that finds the start: `"dense"`, `"lexical"` or `"hybrid"`.
        roots: Ids of artifacts to start from besides those found.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> Eager(select_k=10, direction="both").max_depth is None
        True
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_depth: int | None = None
    direction: Direction = "out"
    types: Sequence[str] | None = None
    seeding: Mode = "dense"
    roots: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        for name in ("select_k", "start_k", "adjacent_k", "max_depth"):
            value = getattr(self, name)
            if value is not None or name == "start_k":
                check_count(name, value)
        check_choice("direction", self.direction, DIRECTIONS)
        check_choice("seeding", self.seeding, MODES)
        if isinstance(self.roots, str):
            raise ArgumentError(f"roots must be a list of ids, not the string {self.roots!r}")

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        return await seed_artifacts(state, store, k=self.start_k, seeding=self.seeding, roots=self.roots)

    async def score(self, state: WalkState, nodes: Sequence[ArtifactNode], store: OpenCorpus) -> NDArray[np.float64]:
        """Score by cosine of the best surface; one store call, none for those that the search has scored."""
        return await score_artifacts(state, [node.id for node in nodes], store)

    def select(self, state: WalkState, frontier: Frontier) -> NDArray[np.intp]:
        """Commit the whole start, then the `adjacent_k` nearest of each layer."""
        return frontier.best_first(self.adjacent_k if state.visited else None)

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[ArtifactNode]]:
        """Give the artifacts at the other ends of each one's links; one store call."""
        ids = [entry.node.id for entry in committed]
        edges = await store.store.neighbors(ids, direction=self.direction, types=self.types)
        return [_other_ends(id, found) for id, found in zip(ids, edges, strict=True)]

    def node_id(self, node: ArtifactNode) -> str:
        """Identify a node by its artifact."""
        return node.id

    def edge_of(self, node: ArtifactNode) -> Edge | None:
        """Give the link it was reached by."""
        return node.edge

    def stop(self, state: WalkState) -> bool:
        """Stop once `select_k` hits are out."""
        return self.select_k is not None and len(state.results) >= self.select_k

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        """Give each artifact's best surface; one store call."""
        return await artifact_hits(state, committed, store)

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Keep the order of the walk, cut at `select_k`."""
        return hits[: self.select_k]


def _other_ends(id: str, edges: Sequence[Edge]) -> list[ArtifactNode]:
    ends = ((edge.target if edge.source == id else edge.source, edge) for edge in edges)
    return [ArtifactNode(end, edge) for end, edge in ends if isinstance(end, str)]
