"""Summary routing: find artifacts by their summaries, descend to their parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from airw.limits import check_count
from airw.policies._artifacts import query_vector
from airw.protocols import OpenCorpus
from airw.values import NDArray, Record, SearchHit
from airw.walk import Entry, Policy, WalkState

__all__ = ["CollapsedTree", "collapsed_tree_policy"]

SUMMARY_KINDS = ("description", "synopsis", "capability", "document")
LEAF_KINDS = ("chunk", "readme_chunk")


@dataclass(frozen=True, kw_only=True)
class CollapsedTree(Policy):
    """Route from the best-matching summaries down to the parts of their artifacts.

    A summary whose artifact has leaf surfaces only routes; one without is itself the hit. Hits score by cosine; the
    order of each depth is final when it streams, the order over all depths is `walk.ranking`. The collapsed tree is
    that of RAPTOR (Sarthi et al., ICLR 2024), without a model in the loop.

    Args:
        summary_kinds: Surface kinds to search for the start.
        leaf_kinds: Surface kinds to descend to.
        seed_k: Artifacts to route from.
        max_depth: The depth cap when the caller of `traverse` names none.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> CollapsedTree(seed_k=3).leaf_kinds
        ('chunk', 'readme_chunk')
    """

    summary_kinds: Sequence[str] = SUMMARY_KINDS
    leaf_kinds: Sequence[str] = LEAF_KINDS
    seed_k: int = 10
    max_depth: int | None = 2

    def __post_init__(self) -> None:
        """Check the parameters at birth."""
        check_count("seed_k", self.seed_k)

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[Record]:
        """Find the best summary of each of `seed_k` artifacts, and their leaves; two store calls."""
        query = await query_vector(state, store)
        search = store.store.search_vectors
        ranking = (await search(query[None, :], self.seed_k, surfaces=self.summary_kinds, per_artifact=True))[0]
        kinds = [*self.summary_kinds, *self.leaf_kinds]
        found = [each or [] for each in await store.store.records_of(ranking.artifact_ids, kinds=kinds)]
        leaves = [[record for record in each if record.surface_kind in self.leaf_kinds] for each in found]
        state.cache["leaves"] = dict(zip(ranking.artifact_ids, leaves, strict=True))
        state.cache["cosines"] = dict(zip(ranking.record_ids, ranking.scores.tolist(), strict=True))
        records = {record.id: record for each in found for record in each}
        return [records[id] for id in ranking.record_ids if id in records]

    async def score(self, state: WalkState, nodes: Sequence[Record], store: OpenCorpus) -> NDArray[np.float64]:
        """Score by cosine; the search has scored the start, one store call scores the leaves."""
        cosines = state.cache["cosines"]
        new = [node.id for node in nodes if node.id not in cosines]
        if new:
            scores = await store.store.similarities(await query_vector(state, store), new)
            cosines.update(zip(new, np.nan_to_num(scores.astype(np.float64), nan=-np.inf).tolist(), strict=True))
        return np.array([cosines[node.id] for node in nodes])

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[Record]]:
        """Give the leaves of each router, read when the walk was seeded."""
        return [_leaves(state, entry) if _is_router(state, entry) else [] for entry in committed]

    def node_id(self, node: Record) -> str:
        """Identify a node by its record."""
        return node.id

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        """Give each record as a hit, routers aside; a leaf names the artifact that routed to it as its `seed`."""
        hits = [None if _is_router(state, entry) else entry.node.as_hit(entry.score, store.name) for entry in committed]
        for hit, entry in zip(hits, committed, strict=True):
            if hit is not None and entry.depth:
                hit.metadata["seed"] = hit.artifact_id
        return hits


def _leaves(state: WalkState, entry: Entry) -> list[Record]:
    found: list[Record] = state.cache["leaves"].get(entry.node.artifact_id, [])
    return found


def _is_router(state: WalkState, entry: Entry) -> bool:
    """Say whether a node is a summary that has leaves below it; leaves themselves are reached at depth 1."""
    return entry.depth == 0 and bool(_leaves(state, entry))


def collapsed_tree_policy(
    *, summary_kinds: Sequence[str] = SUMMARY_KINDS, leaf_kinds: Sequence[str] = LEAF_KINDS, seed_k: int = 10
) -> CollapsedTree:
    """Make a `CollapsedTree`, under the name and with the parameters that `ir` gives it.

    Example:
        >>> collapsed_tree_policy(seed_k=3) == CollapsedTree(seed_k=3)
        True
    """
    return CollapsedTree(summary_kinds=summary_kinds, leaf_kinds=leaf_kinds, seed_k=seed_k)
