"""The policy `Eager`: breadth-first, layer by layer."""

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
    """Start from a search and walk breadth-first, nearest artifacts of each layer first.

    The start is committed in the order of the search. Each further layer is committed by cosine to the query, best
    first; ties in order of discovery. The order of the stream is final. An artifact scores by its best surface, and
    that surface is the hit.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        select_k: Stop after this number of hits; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> Eager(select_k=10, edges=[("keywords", "keywords")]).max_depth is None
        True
    """

    speaks_columns = True

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override] # it depends on a parameter
        """True with `edges`: artifacts that were not admitted wait for another field value."""
        return self.edges is not None

    @override
    def begin(self, state: State) -> AdmittingMemory:
        return AdmittingMemory(state.query, self.scope, self._reads_fields)

    def select(self, state: State, frontier: Frontier) -> Sequence[int]:
        """Commit all admitted artifacts."""
        if self._has_enough(state):
            return self._select_nothing(state, frontier)
        admission = self._admit(state, frontier)
        state.memory.keep_admission(admission)
        admitted: list[int] = admission.positions.tolist()
        return admitted or self._select_nothing(state, frontier)

    def stop(self, state: State) -> bool:
        """Stop after `select_k` hits."""
        return self._has_enough(state)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the first `select_k` hits in order of commitment."""
        return hits[: self.select_k]
