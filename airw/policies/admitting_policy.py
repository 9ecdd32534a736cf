"""The base class of policies that admit only some neighbours in each step."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import MAX_HITS, check_count
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.policies._corpora import Id, Walkable, require
from airw.policies._shared_fields import FieldValue
from airw.policies.artifact_memory import MAX_ENDS, ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode, SearchingPolicy, SearchParameters
from airw.protocols import EdgeRow
from airw.values import Edge, Record, SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

_MANY = 5_000  # new artifacts; ordering so many takes about a millisecond

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


@dataclass(frozen=True, slots=True, eq=False)
class NodePath:
    """A path from the start of a walk to an artifact, as a path scorer receives it.

    Args:
        nodes: The artifacts on the path; the last one is scored. After an artifact without surfaces a path begins anew.
        edges: The edges between them, one less. An edge that was walked backwards begins at the later artifact.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()


class NodeTracker:
    """The nodes that a strategy has selected and wants to traverse; a strategy receives one.

    To traverse a node means to read its neighbours in the next step.

    Args:
        select_k: The number of nodes to select; `None` for no end.
        max_depth: The depth cap: nodes at this depth are not traversed; `None` for no cap.
        keeps: A function that returns whether an id may be a hit; others are not selected.
    """

    def __init__(
        self, select_k: int | None, max_depth: int | None, keeps: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._select_k, self._max_depth, self._keeps = select_k, max_depth, keeps
        self._visited: set[str] = set()
        self.at_cap: set[str] = set()
        self.selected: list[Node] = []
        self.to_traverse: dict[str, Node] = {}

    @property
    def num_remaining(self) -> int:
        """The number of nodes still to be selected."""
        return 2**63 - 1 if self._select_k is None else max(self._select_k - len(self.selected), 0)

    def select(self, nodes: Iterable[Node]) -> None:
        """Add nodes to the hits, in this order."""
        new = [node for node in nodes if self._keeps(node.id)]
        for node in new:
            node.extra_metadata |= {"_depth": node.depth, "_similarity_score": node.similarity_score}
        self.selected += new

    def traverse(self, nodes: Iterable[Node]) -> int:
        """Add nodes to be traversed, and return how many were added.

        Nodes at the depth cap, and nodes that were added before in this walk, are left out.
        """
        candidates = {node.id: node for node in nodes if node.id not in self._visited}
        cap = math.inf if self._max_depth is None else self._max_depth
        new = {id: node for id, node in candidates.items() if node.depth < cap}
        self.at_cap |= candidates.keys() - new.keys()
        self.to_traverse.update(new)
        self._visited.update(new)
        return len(new)

    def select_and_traverse(self, nodes: Iterable[Node]) -> int:
        """Select and traverse nodes, and return how many were added to be traversed."""
        node_list = list(nodes)
        self.select(node_list)
        return self.traverse(node_list)


class StepAdmission(NamedTuple):
    """The artifacts that a step admits.

    Args:
        positions: Their positions, nearest first.
        reached_again: Those that were discovered before, and wait no more.
        rest: With `edges`, the positions of artifacts that wait for another field value.
    """

    positions: list[int]
    reached_again: Collection[Id] = ()
    rest: Mapping[Id, int] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class AdmittingMemory(ArtifactMemory):
    """The memory of one walk of an admitting policy.

    Args:
        followed_values: The keys of the field values that were followed.
        new_values: Those of the last step.
        last_neighbors: The artifacts that the last step reached by field values, in order.
        not_admitted: The positions of artifacts that were discovered and not admitted.
        traverse_count: The number of artifacts whose neighbours were read.
        hits_due: The number of hits that the walk will have yielded at the end of this step.
        corpus: The walked corpus; `select` needs it and does not receive it.
    """

    followed_values: set[Any] = field(default_factory=set)
    new_values: set[Any] = field(default_factory=set)
    last_neighbors: Collection[Id] = ()
    not_admitted: dict[Id, int] = field(default_factory=dict)
    traverse_count: int = 0
    hits_due: int = 0
    corpus: Walkable = field(init=False)

    def keep_admission(self, admission: StepAdmission) -> None:
        """Note what a step admits.

        Call it after the last `await` of `select`: a call that a deadline cancelled is repeated.
        """
        for id in admission.reached_again:
            del self.not_admitted[id]
        self.not_admitted.update(admission.rest)
        self.last_neighbors = ()

    def to_node(self, id: Id, record: Record, depth: int) -> Node:
        """Return an artifact that was scored as a `Node`."""
        vector = cast("dict[Id, Floats]", self.vector_of)[id]
        return Node(id, record.text, depth, self.cosine_of[id], vector, dict(record.metadata))


@dataclass(frozen=True, kw_only=True)
class AdmittingParameters(SearchParameters):
    """The parameters of a policy that admits the nearest neighbours of each step.

    The other parameters are those of `SearchParameters`.

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


class AdmittingPolicy(SearchingPolicy[B]):
    """A policy that starts from a search and admits the nearest neighbours of each step.

    A subclass has the fields of `AdmittingParameters`, and selects among the admitted artifacts. With links, an
    artifact that was not admitted is dropped until another link leads to it. With `edges`, it waits until another field
    value leads to it. It then keeps the least depth at which it was reached, as in graph-retriever.
    """

    select_k: int | None
    start_k: int
    adjacent_k: int | None
    max_traverse: int | None
    _memory = AdmittingMemory

    @property
    def _vector_setting(self) -> str | None:
        """The setting that needs vectors of new artifacts; `""` if all do, `None` if none does."""
        return None

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

    @override
    def begin(self, state: WalkState[B]) -> B:
        memory = super().begin(state)
        memory.keeps_records = self._reads_fields or self._needs_records
        memory.vector_of = None if self._vector_setting is None else {}
        return memory

    async def seed(self, state: WalkState[B], store: Walkable) -> list[ArtifactNode]:
        """Return the start: the artifacts of one search, and the roots."""
        state.memory.corpus = store
        if self._vector_setting is not None:
            require(store, "vectors", self._name, self._vector_setting)
        return await self._find_start(state, store, self.start_k)

    @override
    def _count_ahead(self, state: WalkState[B]) -> int | None:
        most = super()._count_ahead(state)
        if most is None or self.edges is not None:
            return most
        adjacent_k = MAX_ENDS if self.adjacent_k is None else self.adjacent_k
        # What is admitted is looked at, whether the walk may commit it or not.
        return adjacent_k if self._needs_records else min(most, adjacent_k)

    @override
    def _filter_followed(self, state: WalkState[B], committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        if self.select_k is not None and len(state.results) + len(committed) >= self.select_k:
            return []  # the walk is likely to end with these hits
        followed = super()._filter_followed(state, committed)
        return followed if self.max_traverse is None else followed[: self.max_traverse - state.memory.traverse_count]

    @override
    def _filter_crossable(self, memory: B, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        crossable = super()._filter_crossable(memory, committed)
        return crossable if self.max_traverse is None else crossable[: self.max_traverse - memory.traverse_count]

    @override
    async def _find_edges(
        self, state: WalkState[B], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[EdgeRow]:
        memory = state.memory
        memory.new_values = set()
        rows = await super()._find_edges(state, committed, store)
        memory.traverse_count += len(committed)
        if self.edges is not None:
            memory.followed_values |= memory.new_values
            found = (ids for key, ids in memory.artifacts_by_value.items() if key in memory.new_values)
            memory.last_neighbors = dict.fromkeys(id for ids in found for id in ids)
        return rows

    @override
    def _choose_values(self, memory: B, values: list[FieldValue]) -> list[FieldValue]:
        # Each field value is followed once per walk.
        new, followed = memory.new_values, memory.followed_values
        chosen = [value for value in values if value.key not in new and value.key not in followed]
        new.update(value.key for value in chosen)
        return chosen

    def select(self, state: WalkState[B], frontier: Frontier) -> Sequence[int] | Awaitable[Sequence[int]]:
        """Commit all admitted artifacts."""
        if self._has_enough(state):
            return self._select_nothing(state, frontier)

        def commit(admission: StepAdmission) -> Sequence[int]:
            state.memory.keep_admission(admission)
            return admission.positions or self._select_nothing(state, frontier)

        async def admit_many() -> Sequence[int]:
            return commit(await self._admit(state, frontier))

        return admit_many() if len(frontier.fresh) > _MANY else commit(self._find_admission(state, frontier))

    async def _admit(self, state: WalkState[B], frontier: Frontier) -> StepAdmission:
        """Return what to admit: the whole start, or the `adjacent_k` nearest of a step."""
        is_long = len(frontier.fresh) > _MANY
        return await offload_if(is_long, self._find_admission, state, frontier)

    def _find_admission(self, state: WalkState[B], frontier: Frontier) -> StepAdmission:
        live, memory, first = self._selectable(state, frontier), state.memory, frontier.fresh.start
        fresh = live[live >= first].tolist()
        # 1. The start is admitted as the search ordered it.
        if not state.visited:
            return StepAdmission(fresh)
        # 2. Candidates are the new discoveries and, with `edges`, those not admitted that were reached once more.
        reached_again = [id for id in memory.last_neighbors if id in memory.not_admitted]
        again, new_ids = sorted(memory.not_admitted[id] for id in reached_again), frontier.ids[first:]
        positions = [*again, *fresh]
        ids: list[Id] = [*map(frontier.ids.__getitem__, again), *[new_ids[at - first] for at in fresh]]
        # 3. The nearest are admitted, ties in order of discovery. All paths to an artifact are admitted with it, also
        #    those that lead to one that waits.
        order: list[int] = np.argsort(-memory.cosines(ids), kind="stable").tolist()
        limit = self._admission_limit(state, ids)
        nearest, others = (order, []) if limit is None else (order[:limit], order[limit:])
        if self.scores_paths:
            waiting = {frontier.ids[at] for at in live[live < first].tolist()}
            new = list(dict.fromkeys(ids[row] for row in order if ids[row] not in waiting))
            admitted = waiting.union(new[:limit])
            nearest, others = ([row for row in order if (ids[row] in admitted) is is_in] for is_in in (True, False))
        # 4. The rest waits for another field value to lead to it, or leaves the frontier, so that it can be discovered
        #    once more.
        rest = {} if self.edges is None else {ids[row]: positions[row] for row in others}
        if self.edges is None and self.keeps_frontier:
            frontier.drop([positions[row] for row in others])
        return StepAdmission([positions[row] for row in nearest], reached_again, rest)

    def _admission_limit(self, state: WalkState[B], candidates: Collection[Id]) -> int | None:
        """Return how many candidates `adjacent_k` admits; `None` for all.

        With `edges`, artifacts that were reached before count towards `adjacent_k`, as in graph-retriever.
        """
        neighbors, memory = state.memory.last_neighbors, state.memory
        if self.adjacent_k is None or self.edges is None:
            return self.adjacent_k
        if len(neighbors) <= self.adjacent_k:
            return None
        scored = [id for id in neighbors if id in memory.best_surfaces]
        ids = [id for id, excluded in zip(scored, self._are_excluded(state, scored), strict=True) if not excluded]
        nearest = np.argsort(-memory.cosines(ids), kind="stable")[: self.adjacent_k]
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

    def _has_enough(self, state: WalkState[B]) -> bool:
        """Return whether `select_k` hits were yielded."""
        return self.select_k is not None and len(state.results) >= self.select_k

    def stop(self, state: WalkState[B]) -> bool:
        """Stop after `select_k` hits or, if steps are committed whole, at the end of that step."""
        return self._has_enough(state) and len(state.results) >= state.memory.hits_due

    def rank(self, state: WalkState[B], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the first `select_k` hits in order of commitment."""
        return hits[: self.select_k]
