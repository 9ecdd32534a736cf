"""The policy `CollapsedTree`: from summaries to the parts of their artifacts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import MAX_HITS, check_count, check_flag, check_strings
from airw._base.overriding import override
from airw.policies._corpora import Walkable, embed
from airw.policies._start import require_query
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import Rank, RecordsOf, ask
from airw.values import ParsedQuery, Record, SearchHit, read_operators
from airw.values.hits import add_facts
from airw.walking import CommittedNode, Policy, WalkState

SUMMARY_KINDS = ("description", "synopsis", "capability", "document")
LEAF_KINDS = ("chunk", "readme_chunk")


@dataclass(slots=True, eq=False)
class TreeMemory:
    """The memory of one walk of `CollapsedTree`.

    Args:
        query: The vector of the query, `(dim,) float32`.
        cosines: The cosine to the query of each scored record, by record id.
        leaves: The leaves of each router, by the record id of the router.
    """

    query: Floats = field(init=False)
    cosines: dict[str, float] = field(default_factory=dict)
    leaves: dict[str, list[Record]] = field(default_factory=dict)


State: TypeAlias = WalkState[TreeMemory]


@dataclass(frozen=True, kw_only=True)
class CollapsedTree(Policy[TreeMemory]):
    """Walk from the best-matching summaries down to the parts of their artifacts.

    A node is a record. A summary is a router if its artifact has leaf surfaces; otherwise it is itself the hit. Hits
    score by cosine. The order of each depth is final when it streams; `walk.ranking` orders all depths. The collapsed
    tree is that of RAPTOR (Sarthi et al., ICLR 2024), without calls of a language model.

    Args:
        summary_kinds: The surface kinds to search for the start.
        leaf_kinds: The surface kinds to descend to.
        seed_k: The number of artifacts to start from.
        operators: Read operators in the query; see `SearchParameters`.
        scope: The summaries to start from (`start`) and to descend from (`cross`), and the surfaces to return (`keep`).
            The filters are applied to each surface itself. A summary that may not be crossed is a hit, like one without
            parts.
        max_depth: The depth cap if the caller of `traverse` passes none.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> CollapsedTree(seed_k=3).leaf_kinds
        ('chunk', 'readme_chunk')
    """

    summary_kinds: Sequence[str] = SUMMARY_KINDS
    leaf_kinds: Sequence[str] = LEAF_KINDS
    seed_k: int = 10
    operators: bool = False
    scope: Scope = ALLOW_ALL
    max_depth: int | None = 2

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("summary_kinds", "leaf_kinds"):
            object.__setattr__(self, name, check_strings(name, getattr(self, name)))
        check_count("seed_k", self.seed_k, most=MAX_HITS)
        check_scope(self.scope)
        check_flag("operators", self.operators)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)

    @override
    def begin(self, state: State) -> TreeMemory:
        return TreeMemory()

    async def seed(self, state: State, store: Walkable) -> list[Record]:
        """Return the best summaries of `seed_k` artifacts, and read their leaves; two store calls."""
        require_query(state.query, "CollapsedTree")
        memory = state.memory
        asked = read_operators(state.query) if self.operators else ParsedQuery(state.query, None)
        memory.query = query = await embed(store, asked.text)
        start = Rank(
            query[None, :],
            self.seed_k,
            filter=self.scope.start_filter,
            surfaces=self.summary_kinds,
            per_artifact=True,
            contains=asked.contains,
        )
        [ranking] = await ask(store.store, start)
        kinds = [*self.summary_kinds, *self.leaf_kinds]
        surfaces = await ask(store.store, RecordsOf(ranking.artifact_ids, kinds=kinds))
        memory.cosines.update(zip(ranking.record_ids, ranking.scores.tolist(), strict=True))
        admitted = []
        for id, records in zip(ranking.record_ids, surfaces, strict=True):
            own = {record.id: record for record in records or ()}
            if id not in own:  # it was removed after the search
                continue
            allowed = self.scope.permissions_of(own[id].metadata)
            parts = [record for record in own.values() if record.surface_kind in self.leaf_kinds]
            if parts and allowed.cross:
                memory.leaves[id] = [part for part in parts if self.scope.permissions_of(part.metadata).keep]
            if id in memory.leaves or allowed.keep:
                admitted.append(own[id])
        return admitted

    async def score(self, state: State, nodes: Sequence[Record], store: Walkable) -> NDArray[np.float64]:
        """Score by cosine; the search has scored the start, and one store call scores the leaves."""
        cosines = state.memory.cosines
        new_ids = [node.id for node in nodes if node.id not in cosines]
        if new_ids:
            [ranking] = await ask(store.store, Rank(state.memory.query[None, :], records=new_ids))
            cosines.update(dict.fromkeys(new_ids, -np.inf))
            cosines.update(zip(ranking.record_ids, ranking.scores.tolist(), strict=True))
        return np.array([cosines[node.id] for node in nodes])

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[list[Record]]:
        """Return the leaves of each router, which `seed` has read."""
        return [state.memory.leaves.get(cast("str", entry.id), []) for entry in committed]

    @override
    def node_id(self, node: Record) -> str:
        return node.id

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each record as a hit, except routers; the `seed` of a leaf is its artifact."""
        routers = state.memory.leaves
        hits = [None if entry.id in routers else entry.node.as_hit(entry.score, store.name) for entry in committed]
        for hit, entry in zip(hits, committed, strict=True):
            if hit is not None and entry.depth:
                add_facts(hit.metadata, {"seed": hit.artifact_id})
        return hits
