"""The base class of policies that admit only some neighbours in each step."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.checks import MAX_HITS, check_count
from airw._base.overriding import override
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable, require
from airw.policies._read_ahead import MAX_ENDS, ReadOptions
from airw.policies._several_corpora import Id
from airw.policies._shared_fields import ID, Edges, field_values, find_artifacts
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy, to_nodes
from airw.values import Record
from airw.walking import Columns, CommittedNode, Frontier, WalkState

B = TypeVar("B", bound="AdmittingMemory")


@dataclass(slots=True, eq=False)
class Node:
    """An artifact, as a scorer or a strategy receives it.

    The field names are those of graph-retriever.

    Args:
        id: The id of the artifact.
        content: The text of its best surface.
        depth: The number of steps from the start.
        similarity_score: The cosine of the best surface to the query.
        embedding: The vector of the best surface, `(dim,) float32`, of unit length.
        metadata: The fields of the artifact; do not change them.
        extra_metadata: Fields that a strategy adds to the hit; fields of `metadata` with the same name win.
    """

    id: str
    content: str
    depth: int
    similarity_score: float
    embedding: Floats
    metadata: dict[str, Any] = field(default_factory=dict)
    extra_metadata: dict[str, Any] = field(default_factory=dict)


class StepAdmission(NamedTuple):
    """The artifacts that a step admits.

    Args:
        positions: Their positions, nearest first.
        reached_again: Those that were discovered before, and wait no more.
        rest: With `edges`, the positions of artifacts that wait for another field value.
    """

    positions: NDArray[np.intp]
    reached_again: Collection[Id] = ()
    rest: Mapping[Id, int] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class AdmittingMemory(ArtifactMemory):
    """The memory of one walk of an admitting policy.

    Args:
        followed_values: The keys of the field values that were followed.
        last_neighbors: The artifacts that the last step reached by field values, in order.
        not_admitted: The positions of artifacts that were discovered and not admitted.
        traverse_count: The number of artifacts whose neighbours were read.
        hits_due: The number of hits that the walk will have yielded at the end of this step.
        rows: The vectors of all discoveries by position, `(n, dim) float32`, if they are kept; further rows are unused.
        row_count: The number of discoveries with a row.
    """

    followed_values: set[Any] = field(default_factory=set)
    last_neighbors: dict[Id, None] = field(default_factory=dict)
    not_admitted: dict[Id, int] = field(default_factory=dict)
    traverse_count: int = 0
    hits_due: int = 0
    rows: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    row_count: int = 0

    def add_rows(self, rows: Floats) -> None:
        """Append the vectors of the nodes discovered in a step."""
        end = self.row_count + len(rows)
        old_rows = self.rows if self.row_count else np.empty((0, rows.shape[1]), np.float32)
        self.rows = reserve(old_rows, end)
        self.rows[self.row_count : end] = rows
        self.row_count = end

    def keep_admission(self, admission: StepAdmission) -> None:
        """Note what a step admits.

        Call it after the last `await` of `select`: a call that a deadline cancelled is repeated.
        """
        for id in admission.reached_again:
            del self.not_admitted[id]
        self.not_admitted.update(admission.rest)
        self.last_neighbors = {}

    def to_node(self, id: Id, record: Record, depth: int, embedding: Floats) -> Node:
        """Return an artifact that was scored as a `Node`."""
        cosine = self.best_surfaces[id][1]
        return Node(id, record.text, depth, cosine, embedding, dict(record.metadata))


@dataclass(frozen=True, kw_only=True)
class AdmittingPolicy(ArtifactPolicy[B]):
    """A policy that starts from a search and admits the nearest neighbours of each step.

    A subclass selects among the admitted artifacts. With links, an artifact that was not admitted is dropped until
    another link leads to it. With `edges`, it waits until another field value leads to it. It then keeps the least
    depth at which it was reached, as in graph-retriever. The other parameters are those of `ArtifactPolicy`.

    Args:
        select_k: The number of hits that are enough; `None` to run to the limits of the walk.
        start_k: The number of artifacts to start from, found by the seeding; 0 for `roots` alone.
        adjacent_k: The number of new artifacts to admit per step, nearest to the query first; `None` for all. With
            `edges`, artifacts that were reached before count too, as in graph-retriever.
        max_traverse: The number of artifacts whose neighbours are read, in order of commitment; `None` for all.
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_traverse: int | None = None
    speaks_columns = True

    @property
    def _needs_vectors(self) -> bool:
        """True if the vectors of new artifacts are compared."""
        return False

    @property
    def _needs_records(self) -> bool:
        """True if the records of admitted artifacts are read before the walk selects from them."""
        return False

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        for name in ("select_k", "start_k", "adjacent_k", "max_traverse"):
            value = getattr(self, name)
            if value is not None or name == "start_k":
                check_count(name, value, most=MAX_HITS)

    async def seed(self, state: WalkState[B], store: Walkable) -> list[ArtifactNode] | Numbers:
        """Return the start: the artifacts of one search, and the roots."""
        start = await self._find_start(state, store, self.start_k)
        return await self._to_seeds(state, start, store)

    async def _score_and_keep_vectors(
        self, state: WalkState[B], nodes: Sequence[ArtifactNode] | Numbers, store: Walkable, setting: str = ""
    ) -> NDArray[np.float64]:
        """Score artifacts, and keep the vectors of their best surfaces; one store call."""
        vectors = require(store, "vectors_of", self._name, setting)
        rows = await state.memory.best_vectors(state.memory.ids_of(nodes), store, vectors)
        scores = await super().score(state, nodes, store)
        state.memory.add_rows(rows)
        return scores

    @property
    @override
    def _read_options(self) -> ReadOptions:
        options = super()._read_options._replace(with_vectors=self._needs_vectors)
        if not self._needs_records:
            return options
        # Those that a step admits are among the nearest of each artifact.
        most = MAX_ENDS if self.adjacent_k is None else self.adjacent_k
        return options._replace(max_records=max(options.max_records, most))

    @override
    def _filter_followed(self, state: WalkState[B], committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        if self.select_k is not None and len(state.results) + len(committed) >= self.select_k:
            return []  # the walk is likely to end with these hits
        followed = super()._filter_followed(state, committed)
        return followed if self.max_traverse is None else followed[: self.max_traverse - state.memory.traverse_count]

    @override
    def _filter_crossable(self, memory: B, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        to_expand = super()._filter_crossable(memory, committed)
        if self.max_traverse is not None:
            to_expand = to_expand[: self.max_traverse - memory.traverse_count]
        return to_expand

    @override
    async def expand(
        self, state: WalkState[B], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[Any]] | Columns:
        neighbors = await super().expand(state, committed, store)
        if self.max_traverse is not None:
            state.memory.traverse_count += len(self._filter_crossable(state.memory, committed))
        return neighbors

    @override
    async def _neighbors_by_fields(
        self, state: WalkState[B], committed: Sequence[CommittedNode], store: Walkable, edges: Edges
    ) -> list[list[ArtifactNode]]:
        # Each field value is followed once per walk. If artifacts of one step share it, the shallowest one follows it.
        memory = state.memory
        by_depth = sorted(committed, key=lambda entry: entry.depth)
        values_of = await self._field_values(state, by_depth, store, edges)
        followed: set[Any] = set()
        for id, values in values_of.items():
            new = [each for each in values if each.key not in followed and each.key not in memory.followed_values]
            values_of[id] = new
            followed.update(each.key for each in new)
        new_values = [value for values in values_of.values() for value in values]
        artifacts = await find_artifacts(new_values, require(store, "matching", self._name, "edges=..."))
        memory.last_neighbors = dict.fromkeys(id for ids in artifacts.values() for id in ids)
        neighbors = [to_nodes(entry.id, values_of[entry.id], artifacts) for entry in committed]
        await self._read_found(state, committed, neighbors, store)
        memory.followed_values |= followed
        return neighbors

    @override
    def _likely_neighbors(self, state: WalkState[B], store: Walkable) -> list[list[ArtifactNode]]:
        # Only ids lead to artifacts without asking the store.
        if self.edges is None or callable(self.edges) or any(field != ID for _, field in self.edges):
            return []
        memory = state.memory
        ids = [entry.id for entry in memory.filter_crossable(memory.ahead.likely)]
        memory.keep_records(ids)
        return [
            [
                ArtifactNode(value.value)
                for value in field_values(id, record, self.edges, store)
                if isinstance(value.value, str)
            ]
            for id, record in zip(ids, memory.records_in_memory(ids), strict=True)
            if record is not None
        ]

    def _admit(self, state: WalkState[B], frontier: Frontier) -> StepAdmission:
        """Return what to admit: the whole start, or the `adjacent_k` nearest of a step."""
        live = self._selectable(state, frontier)
        fresh = live[live >= frontier.fresh.start].tolist()
        # 1. The start is admitted as the search ordered it.
        if not state.visited:
            return StepAdmission(np.array(fresh, np.intp))
        memory, last_neighbors = state.memory, state.memory.last_neighbors
        # 2. Candidates are the new discoveries and, with `edges`, those not admitted that were reached once more.
        reached_again = {memory.not_admitted[id]: id for id in last_neighbors if id in memory.not_admitted}
        id_of = dict(sorted(reached_again.items())) | dict(zip(fresh, memory.ids_at(frontier, fresh), strict=True))
        positions, ids = np.fromiter(id_of, np.intp, len(id_of)), list(id_of.values())
        # 3. The nearest are admitted, ties in order of discovery.
        order = np.argsort(-memory.cosines(ids), kind="stable")
        limit = self._admission_limit(state, last_neighbors, set(ids))
        if self.scores_paths and limit is not None:  # all paths to an artifact are admitted with it
            waiting = set(memory.ids_at(frontier, live[live < frontier.fresh.start].tolist()))
            new = dict.fromkeys(ids[row] for row in order.tolist() if ids[row] not in waiting)
            nearest = waiting.union(list(new)[:limit])
            is_admitted = np.array([ids[row] in nearest for row in order.tolist()], np.bool_)
            order, limit = np.concatenate([order[is_admitted], order[~is_admitted]]), int(is_admitted.sum())
        rest = order[len(order) if limit is None else limit :].tolist()
        # 4. The rest waits for another field value to lead to it, or leaves the frontier, so that it can be discovered
        #    once more.
        waiting_on = {ids[row]: int(positions[row]) for row in rest} if self.edges is not None else {}
        if self.edges is None and self.keeps_frontier:
            frontier.drop(positions[rest].tolist())
        return StepAdmission(positions[order[:limit]], list(reached_again.values()), waiting_on)

    def _admission_limit(self, state: WalkState[B], neighbors: Collection[Id], candidates: Container[Id]) -> int | None:
        """Return how many candidates `adjacent_k` admits; `None` for all.

        With `edges`, artifacts that were reached before count towards `adjacent_k`, as in graph-retriever.
        """
        if self.adjacent_k is None or self.edges is None:
            return self.adjacent_k
        if len(neighbors) <= self.adjacent_k:
            return None
        scored = [id for id in neighbors if id in state.memory.best_surfaces]
        ids = [id for id, excluded in zip(scored, self._are_excluded(state, scored), strict=True) if not excluded]
        nearest = np.argsort(-state.memory.cosines(ids), kind="stable")[: self.adjacent_k]
        return sum(ids[index] in candidates for index in nearest.tolist())

    def _select_nothing(self, state: WalkState[B], frontier: Frontier) -> list[int]:
        """Return an empty selection, and drop the artifacts that were not admitted.

        If nothing else waits, the walk then ends as `exhausted`, and not as if the policy had seen enough.
        """
        frontier.drop(state.memory.not_admitted.values())
        state.memory.not_admitted.clear()
        return []

    def _expect_hits(self, state: WalkState[B], selected: Iterable[Id]) -> None:
        """Store the number of hits that the walk will have yielded at the end of this step."""
        memory = state.memory
        hits = sum(memory.has_surface(id) and memory.permissions_of(id).keep for id in selected)
        memory.hits_due = len(state.results) + hits

    def _has_complete_step(self, state: WalkState[B]) -> bool:
        """Return whether `select_k` hits were yielded, and all hits of the step."""
        return self._has_enough(state) and len(state.results) >= state.memory.hits_due

    def _has_enough(self, state: WalkState[B]) -> bool:
        """Return whether `select_k` hits were yielded."""
        return self.select_k is not None and len(state.results) >= self.select_k
