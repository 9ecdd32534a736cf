"""What the policies that walk from artifact to artifact share; each adds what it commits, and when it has enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count, check_strings
from airw.errors import ArgumentError
from airw.policies._artifacts import (
    OPEN,
    ArtifactNode,
    are_shut,
    artifact_hits,
    best_of,
    best_records,
    judge,
    keep_records,
    open_positions,
    score_artifacts,
    verdict,
)
from airw.policies._edges import Edges, check_edges, linked_neighbors, shared_neighbors
from airw.policies._seeding import SEEDINGS, Seeding, check_nodes, seed_artifacts
from airw.policies.scope import Scope, check_scope
from airw.protocols import OpenCorpus
from airw.values import DIRECTIONS, Direction, Edge, NodeId, Record, SearchHit
from airw.walking import Entry, Frontier, Policy, WalkState


@dataclass(frozen=True, kw_only=True)
class ArtifactWalker(Policy):
    """Nodes are artifacts, scored by the cosine of their best surface, which is the hit.

    At most three store calls a step: neighbours, scores, records.
    """

    seeding: Seeding = "dense"
    roots: Sequence[NodeId] = ()
    edges: Edges | None = None
    direction: Direction = "out"
    types: Sequence[str] | None = None
    scope: Scope = OPEN
    max_depth: int | None = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_choice("seeding", self.seeding, SEEDINGS)
        check_choice("direction", self.direction, DIRECTIONS)
        check_edges(self.edges)
        object.__setattr__(self, "roots", check_nodes("roots", self.roots))
        if self.types is not None:
            object.__setattr__(self, "types", check_strings("types", self.types))
        if self.edges is not None and self.types is not None:
            raise ArgumentError("types are those of links; with edges, leave out the pairs that are not to be followed")
        if self.edges is not None and self.direction != type(self).direction:
            raise ArgumentError("direction is that of links; with edges, turn a pair of fields round")
        check_scope(self.scope)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)

    async def _start(self, state: WalkState, corpus: OpenCorpus, k: int) -> list[ArtifactNode]:
        """Find the start: `k` artifacts by search, and the roots."""
        if self.edges is not None or self.scope != OPEN:
            keep_records(state)
        return await seed_artifacts(
            state, corpus, k=k, seeding=self.seeding, roots=self.roots, filter=self.scope.of_starts
        )

    async def score(self, state: WalkState, nodes: Sequence[ArtifactNode], store: OpenCorpus) -> NDArray[np.float64]:
        """Score by cosine of the best surface; one store call, none for those that the search has scored."""
        ids = [node.id for node in nodes]
        scores = await score_artifacts(state, ids, store)
        await judge(state, ids, store, self.scope)
        return scores

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[ArtifactNode]]:
        """Give the artifacts behind each one; one store call."""
        crossed = [entry for entry in committed if verdict(state, entry.id).cross]
        found = dict(zip((entry.id for entry in crossed), await self._neighbors(state, crossed, store), strict=True))
        return [found.get(entry.id, []) for entry in committed]

    async def _neighbors(
        self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus
    ) -> list[list[ArtifactNode]]:
        if self.edges is None:
            return await linked_neighbors(committed, store, direction=self.direction, types=self.types)
        records = await self._records(state, committed, store)
        return await shared_neighbors(state, records, committed, store, self.edges)

    async def _records(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> dict[Any, Record]:
        """Give the records of what was committed; only those of routers are not at hand."""
        ids = [entry.node.id for entry in committed]
        read = await best_records(state, ids, store)
        return {id: record for id, record in zip(ids, read, strict=True) if record is not None}

    def _open(self, state: WalkState, frontier: Frontier) -> NDArray[np.intp]:
        """Give the live positions without those to be passed over, which wait no longer."""
        if self.edges is None and self.scope == OPEN:
            return frontier.live
        return open_positions(frontier, partial(self._are_shut, state))

    def _are_shut(self, state: WalkState, ids: Sequence[Any]) -> list[bool]:
        """Say of artifacts whether to pass them over: out of scope, or without a record where only fields lead on."""
        shut = [False] * len(ids) if self.scope == OPEN else are_shut(state, ids)
        if self.edges is None:
            return shut
        best = best_of(state)
        return [out or best[id][0] is None for id, out in zip(ids, shut, strict=True)]

    def node_id(self, node: ArtifactNode) -> NodeId:
        """Identify a node by its artifact."""
        id: NodeId = node.id
        return id

    def edge_of(self, node: ArtifactNode) -> Edge | None:
        """Give the edge it was reached by."""
        return node.edge

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        """Give each artifact's best surface; one store call."""
        return await artifact_hits(state, committed, store)
