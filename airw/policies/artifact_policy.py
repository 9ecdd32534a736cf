"""The base of policies that walk from artifact to artifact, along links or to those that share a field's value."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count, check_strings
from airw._base.overriding import override
from airw.errors import ArgumentError
from airw.policies._capabilities import Walkable, require
from airw.policies._seeding import SEEDINGS, Seeding, find_start
from airw.policies._several_corpora import Id, check_nodes, other_ends
from airw.policies._shared_fields import Edges, Way, check_edges, edges_along, follow, ways_of
from airw.policies.artifact_memory import A, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import OpenCorpus, RecordLookup
from airw.values import DIRECTIONS, Direction, Edge, NodeIdLike, SearchHit
from airw.walking import CommittedNode, Frontier, Policy, WalkState


class ArtifactNode(NamedTuple):
    """An artifact on the frontier, and the edge that led to it."""

    id: Id
    edge: Edge | None = None


@dataclass(frozen=True, kw_only=True)
class ArtifactPolicy(Policy[A]):
    """Nodes are artifacts, scored by the cosine of their best surface, which is the hit.

    A policy adds what it starts from, what it commits, and when it has enough. At most three store calls a step:
    neighbours, scores, records.

    Args:
        seeding: What finds the start: `"dense"`, `"lexical"` or `"hybrid"` search, or `"titles"` in the query.
        roots: Ids of artifacts to start from besides those found; of several corpora, `(source, id)` pairs.
        edges: Instead of links, fields that lead on: pairs such as `("keywords", "keywords")`, from a value of the
            first to artifacts whose second equals it or is a list with it, or a function of a `Record` that gives
            `(field, value)` pairs; `"$id"` stands for the id.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        scope: What may be started from, crossed and returned.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.
    """

    seeding: Seeding = "dense"
    roots: Sequence[NodeIdLike] = ()
    edges: Edges | None = None
    direction: Direction = "out"
    types: Sequence[str] | None = None
    scope: Scope = ALLOW_ALL
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

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _reads_fields(self) -> bool:
        return self.edges is not None or self.scope != ALLOW_ALL

    async def _find_start(self, state: WalkState[A], corpus: Walkable, k: int) -> list[ArtifactNode]:
        """Find the start: `k` artifacts by search, and the roots."""
        if self.edges is not None:
            require(corpus, "matching", self._name, "edges=...")
        found = await find_start(
            state.memory, corpus, self._name, k=k, seeding=self.seeding, roots=self.roots, filter=self.scope.of_starts
        )
        return [ArtifactNode(id) for id in found]

    async def score(self, state: WalkState[A], nodes: Sequence[ArtifactNode], store: Walkable) -> NDArray[np.float64]:
        """Score by cosine of the best surface; one store call, none for those that the search has scored."""
        ids = [node.id for node in nodes]
        scores = await state.memory.score(ids, store)
        await state.memory.judge(ids, store)
        return scores

    async def expand(self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable) -> list[list[Any]]:
        """Return the artifacts behind each one; one store call."""
        crossed = state.memory.crossed(committed)
        found = dict(zip((entry.id for entry in crossed), await self._neighbors(state, crossed, store), strict=True))
        return [found.get(entry.id, []) for entry in committed]

    async def _neighbors(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        """Return the artifacts behind each one; one store call, and one for records that are not kept."""
        if self.edges is not None:
            return await self._sharing_fields(state, committed, store, self.edges)
        ids: list[Id] = [entry.node.id for entry in committed]
        links = await store.store.neighbors(ids, direction=self.direction, types=self.types) if ids else []
        return [list(map(ArtifactNode, *other_ends(id, found))) for id, found in zip(ids, links, strict=True)]

    async def _sharing_fields(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable, edges: Edges
    ) -> list[list[ArtifactNode]]:
        """Return the artifacts behind all ways of each one; a way is asked for once a walk."""
        ways, answers = await self._ways(state, committed, store, edges), state.memory.answers
        new = {way.key: way for each in ways.values() for way in each if way.key not in answers}
        answers.update(await follow(list(new.values()), require(store, "matching", self._name, "edges=...")))
        return [nodes_along(entry.node.id, ways[entry.node.id], answers) for entry in committed]

    async def _ways(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: OpenCorpus[RecordLookup], edges: Edges
    ) -> dict[Id, list[Way]]:
        """Return the ways that lead on from each one; only the records of routers are not at hand."""
        ids = [entry.node.id for entry in committed]
        records = zip(ids, await state.memory.best_records(ids, store), strict=True)
        return {id: [] if record is None else ways_of(id, record, edges, store) for id, record in records}

    def _selectable(self, state: WalkState[A], frontier: Frontier) -> NDArray[np.intp]:
        """Return the live positions without those to be passed over, which wait no longer."""
        if not self._reads_fields:
            return frontier.live
        return selectable(frontier, lambda ids: self._are_excluded(state, ids))

    def _are_excluded(self, state: WalkState[A], ids: Sequence[Id]) -> list[bool]:
        """Return for each artifact whether it is passed over: out of scope, or no record where only fields lead on."""
        excluded = state.memory.are_excluded(ids, is_start=not state.visited)
        if self.edges is None:
            return excluded
        return [out or not state.memory.has_surface(id) for id, out in zip(ids, excluded, strict=True)]

    @override
    def node_id(self, node: ArtifactNode) -> Id:
        return node.id

    @override
    def edge_of(self, node: ArtifactNode) -> Edge | None:
        return node.edge

    async def to_hits(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface; one store call."""
        return await state.memory.make_hits(committed, store)


def nodes_along(id: Id, ways: Sequence[Way], answers: Mapping[Hashable, Sequence[Id]]) -> list[ArtifactNode]:
    """Return the artifacts that ways lead to from one, each once, by the first way to it."""
    return [ArtifactNode(edge.target, edge) for edge in edges_along(id, ways, answers)]
