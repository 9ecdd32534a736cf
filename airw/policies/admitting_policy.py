"""The base of graph-retriever's strategies: how many to start from, to admit at each step, and to select."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.checks import check_count
from airw._base.overriding import override
from airw.policies._capabilities import Walkable, require
from airw.policies._several_corpora import Id
from airw.policies._shared_fields import Edges, follow
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy, nodes_along
from airw.protocols import OpenCorpus
from airw.values import Record
from airw.walking import CommittedNode, Frontier, WalkState

B = TypeVar("B", bound="AdmittingMemory")


@dataclass(slots=True, eq=False)
class Node:
    """An artifact as a scorer or a strategy sees it, under the names that graph-retriever gives.

    Args:
        id: The artifact.
        content: The text of its best surface.
        depth: Steps from the start.
        similarity_score: The cosine of that surface to the query.
        embedding: Its vector, `(dim,) float32`, a unit row.
        metadata: Its fields; not to be changed.
        extra_metadata: What a strategy writes here comes with the hit, below fields of the same name.
    """

    id: str
    content: str
    depth: int
    similarity_score: float
    embedding: Floats
    metadata: dict[str, Any] = field(default_factory=dict)
    extra_metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AdmittingMemory(ArtifactMemory):
    """What one walk remembers besides: the ways it took, what waits outside, and how many hits are to come.

    Args:
        taken: The keys of the ways along shared fields that were taken.
        found: What the last step found along them, in order.
        outside: The positions of artifacts that were found and not admitted.
        traversed: How many artifacts were gone on from.
        due: How many hits are out when this step is.
        rows: `(n, dim) float32`, the vectors of all discoveries by position, where they are kept; more rows are room.
        row_count: The number of discoveries with a row.
    """

    taken: set[Any] = field(default_factory=set)
    found: dict[Id, None] = field(default_factory=dict)
    outside: dict[Id, int] = field(default_factory=dict)
    traversed: int = 0
    due: int = 0
    rows: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    row_count: int = 0

    def add_rows(self, rows: Floats) -> None:
        """Append the vectors of a step's discoveries."""
        until = self.row_count + len(rows)
        held = self.rows if self.row_count else np.empty((0, rows.shape[1]), np.float32)
        self.rows = reserve(held, until)
        self.rows[self.row_count : until] = rows
        self.row_count = until

    def node(self, id: Id, record: Record, depth: int, embedding: Floats) -> Node:
        """Return an artifact that was scored as a scorer or a strategy sees it."""
        return Node(id, record.text, depth, self.best[id][1], embedding, dict(record.metadata))


@dataclass(frozen=True, kw_only=True)
class AdmittingPolicy(ArtifactPolicy[B]):
    """Starts from a search, admits the nearest of what each step finds, and selects among the admitted.

    What was found and not admitted waits, with `edges`, for another way to it, and keeps the least depth at which it
    was found, as in graph-retriever; with links it is forgotten until then. The other parameters are those of
    `ArtifactPolicy`.

    Args:
        select_k: How many hits are enough; `None` to run to the limits of the walk.
        start_k: Artifacts to start from, found by search; 0 for `roots` alone.
        adjacent_k: New artifacts admitted per step, those nearest to the query; `None` for all. With `edges`, what is
            known already takes up places too, as in graph-retriever.
        max_traverse: Artifacts to go on from, in order of commitment; `None` for all.
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_traverse: int | None = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        for name in ("select_k", "start_k", "adjacent_k", "max_traverse"):
            value = getattr(self, name)
            if value is not None or name == "start_k":
                check_count(name, value)

    async def seed(self, state: WalkState[B], store: Walkable) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        return await self._find_start(state, store, self.start_k)

    async def _keep_vectors(
        self, state: WalkState[B], nodes: Sequence[ArtifactNode], store: OpenCorpus[object], setting: str = ""
    ) -> None:
        """Keep the vector of each artifact's best surface, by position; one store call."""
        vectors = require(store, "vectors_of", self._name, setting)
        state.memory.add_rows(await state.memory.best_vectors([node.id for node in nodes], store, vectors))

    async def expand(
        self, state: WalkState[B], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        """Return the artifacts behind each one, as long as `max_traverse` lasts; one store call."""
        crossed = state.memory.crossed(committed)
        if self.max_traverse is not None:
            crossed = crossed[: self.max_traverse - state.memory.traversed]
            state.memory.traversed += len(crossed)
        found = dict(zip((entry.id for entry in crossed), await super().expand(state, crossed, store), strict=True))
        return [found.get(entry.id, []) for entry in committed]

    @override
    async def _sharing_fields(
        self, state: WalkState[B], committed: Sequence[CommittedNode], store: Walkable, edges: Edges
    ) -> list[list[ArtifactNode]]:
        # A way that several share is taken once a walk, by the shallowest of those that come to it together.
        memory = state.memory
        ways = await self._ways(state, sorted(committed, key=lambda entry: entry.depth), store, edges)
        for id, all_ways in ways.items():
            ways[id] = [way for way in all_ways if way.key not in memory.taken]
            memory.taken.update(way.key for way in ways[id])
        matcher = require(store, "matching", self._name, "edges=...")
        answers = await follow([way for each in ways.values() for way in each], matcher)
        memory.found = dict.fromkeys(id for ids in answers.values() for id in ids)
        return [nodes_along(entry.id, ways[entry.id], answers) for entry in committed]

    def _admit(self, state: WalkState[B], frontier: Frontier) -> NDArray[np.intp]:
        """Return the positions let in at this step: the whole start as it was found, then the `adjacent_k` nearest."""
        live = self._selectable(state, frontier)
        fresh = live[live >= frontier.fresh.start].tolist()
        if not state.visited:
            return np.array(fresh, np.intp)
        memory = state.memory
        found, outside, memory.found = memory.found, memory.outside, {}
        new = {id: outside.pop(id) for id in found if id in outside} | {frontier.ids[at]: at for at in fresh}
        positions = np.array(sorted(new.values()), np.intp)
        ids = [frontier.ids[at] for at in positions.tolist()]
        order = np.argsort(-memory.cosines(ids), kind="stable")
        room = self._room(state, found, new)
        rest = order[len(order) if room is None else room :].tolist()
        if self.edges is not None:
            outside.update((ids[at], int(positions[at])) for at in rest)
        elif self.keeps_frontier:
            frontier.drop(positions[rest].tolist())
        return positions[order[:room]]

    def _room(self, state: WalkState[B], found: Iterable[Id], new: Container[Id]) -> int | None:
        """Return how many new artifacts `adjacent_k` admits; `None` for all.

        With `edges`, artifacts that were known before use up places too, as in graph-retriever.
        """
        if self.adjacent_k is None or self.edges is None:
            return self.adjacent_k
        known = [id for id in found if id in state.memory.best]
        ids = [id for id, out in zip(known, self._are_excluded(state, known), strict=True) if not out]
        nearest = np.argsort(-state.memory.cosines(ids), kind="stable")[: self.adjacent_k]
        return sum(ids[at] in new for at in nearest.tolist())

    def _select_nothing(self, state: WalkState[B], frontier: Frontier) -> list[int]:
        """Choose nothing more: what was not let in waits no longer."""
        frontier.drop(state.memory.outside.values())
        state.memory.outside.clear()
        return []

    def _expect(self, state: WalkState[B], chosen: Iterable[Id]) -> None:
        """Note how many hits are out when this step is."""
        memory = state.memory
        hits = sum(memory.has_surface(id) and memory.verdict(id).keep for id in chosen)
        memory.due = len(state.results) + hits

    def _has_step(self, state: WalkState[B]) -> bool:
        """Return whether `select_k` hits are out, and with them all hits of the step."""
        return self._has_enough(state) and len(state.results) >= state.memory.due

    def _has_enough(self, state: WalkState[B]) -> bool:
        """Return whether `select_k` hits are out."""
        return self.select_k is not None and len(state.results) >= self.select_k
