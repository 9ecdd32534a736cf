"""Breadth-first: commit whatever is found, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from airw._base.overriding import override
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy
from airw.values import SearchHit
from airw.walking import Frontier, WalkState

State: TypeAlias = WalkState[AdmittingMemory]


@dataclass(frozen=True, kw_only=True)
class Eager(AdmittingPolicy[AdmittingMemory]):
    """Start from a search and walk breadth-first, committing the nearest artifacts of every layer.

    The start is committed as it was found, each further layer by cosine to the query, best first, ties in order of
    discovery; that order is final when it streams. An artifact scores by its best surface, and that surface is the hit.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        select_k: Stop once this many hits are out; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> Eager(select_k=10, edges=[("keywords", "keywords")]).max_depth is None
        True
    """

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override] # it depends on a parameter
        """Whether what was found and not admitted waits for another way to it."""
        return self.edges is not None

    @override
    def begin(self, state: State) -> AdmittingMemory:
        return AdmittingMemory(state.query, self.scope, self._reads_fields)

    def select(self, state: State, frontier: Frontier) -> Sequence[int]:
        """Commit all that is admitted."""
        admitted: list[int] = [] if self._has_enough(state) else self._admit(state, frontier).tolist()
        return admitted or self._select_nothing(state, frontier)

    def stop(self, state: State) -> bool:
        """Stop once `select_k` hits are out."""
        return self._has_enough(state)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Keep the order of the walk, cut at `select_k`."""
        return hits[: self.select_k]
