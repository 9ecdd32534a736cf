"""The policy `Mmr`: near the query and unlike the artifacts chosen before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.vectors import exact_scores
from airw.errors import ArgumentError
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable
from airw.policies._several_corpora import Id
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy
from airw.policies.artifact_policy import ArtifactNode
from airw.values import SearchHit
from airw.values.hits import add_facts
from airw.walking import CommittedNode, Frontier, WalkState

_MAX_PICKS = 64  # choices per step, if they are at the depth cap and nothing new can compete in between
_MAX_LIKELY = 3  # artifacts that are read ahead with a choice, if the store reads steps
_OFFLOAD_ABOVE = 1 << 19  # numbers; comparing this many takes about a millisecond


class Pick(NamedTuple):
    """A choice: its position, its MMR score, and its redundancy when it was chosen."""

    position: int
    score: float
    redundancy: float


class Pool:
    """The candidates in columns without gaps, and the vectors of the artifacts chosen so far."""

    def __init__(self, weight: float) -> None:
        """Start an empty pool; `weight` is `lambda_mult`."""
        self._weight = weight
        self.count: int = 0
        self._columns = np.empty((3, 0))  # position, weighted relevance, redundancy
        self._rows: Floats = np.empty((0, 0), np.float32)
        self._chosen_rows: Floats = np.empty((0, 0), np.float32)
        self._pick_count = 0

    @property
    def size(self) -> int:
        """The number of numbers that each choice is compared with."""
        return self.count * int(self._rows.shape[1])

    def admit(self, positions: NDArray[np.intp], relevance: NDArray[np.float64], rows: Floats) -> None:
        """Add candidates.

        Args:
            positions: Their positions in the walk record, `(n,) intp`.
            relevance: Their cosines to the query, `(n,) float64`.
            rows: Their vectors, `(n, dim) float32`.
        """
        # New candidates are compared with all choices once; `_remove` compares them with each later choice.
        redundancy = np.zeros(len(rows))
        if self._pick_count:
            chosen_rows = self._chosen_rows[: self._pick_count]
            redundancy = np.einsum("ij,kj->ik", rows, chosen_rows).max(axis=1).astype(np.float64)
        end = self.count + len(rows)
        self._rows = reserve(self._rows if len(self._rows) else rows[:0], end)
        self._columns = reserve(self._columns, end, axis=1)
        self._rows[self.count : end] = rows
        with np.errstate(invalid="ignore"):  # 0 times -inf, of an artifact without surfaces
            weighted = np.where(np.isneginf(relevance), -np.inf, self._weight * relevance)
        self._columns[:, self.count : end] = positions, weighted, redundancy
        self.count = end

    def pick(self, least: float) -> Pick | None:
        """Choose the candidate with the highest score; `None` if none reaches `least`.

        Ties are broken by order of discovery.
        """
        if not self.count:
            return None
        position, weighted, redundancy = self._columns[:, : self.count]
        scores = weighted - (1 - self._weight) * redundancy
        scores[np.isneginf(weighted)] = -np.inf  # the redundancy may be NaN, if a file has a vector of NaN
        best = scores.max()
        if best < least:
            return None
        # Columns are not in order of discovery, because `_remove` moves the last one.
        ties = np.flatnonzero(scores == best)
        index = int(ties[position[ties].argmin()])
        choice = Pick(int(position[index]), float(best), float(redundancy[index]))
        self._remove(index)
        return choice

    def find_best(self, count: int) -> list[int]:
        """Return the positions of the candidates with the highest scores now, in any order."""
        if count <= 0 or not self.count:
            return []
        position, weighted, redundancy = self._columns[:, : self.count]
        scores = weighted - (1 - self._weight) * redundancy
        best = np.argpartition(-scores, count)[:count] if count < self.count else slice(None)
        return [int(each) for each in position[best]]

    def _remove(self, index: int) -> None:
        """Move a candidate to the choices, and raise the redundancy of the others."""
        row = self._rows[index].copy()
        self._chosen_rows = reserve(
            self._chosen_rows if len(self._chosen_rows) else row[np.newaxis][:0], self._pick_count + 1
        )
        self._chosen_rows[self._pick_count] = row
        self._pick_count += 1
        # The last candidate fills the gap, so that nothing else has to move.
        self.count -= 1
        self._rows[index], self._columns[:, index] = self._rows[self.count], self._columns[:, self.count]
        # Redundancy is a maximum over all choices, so only the new one has to be compared.
        redundancy = self._columns[2, : self.count]
        np.maximum(redundancy, exact_scores(self._rows[: self.count], row), out=redundancy)


@dataclass(slots=True, eq=False)
class MmrMemory(AdmittingMemory):
    """The memory of one walk of `Mmr`: the candidates, and the choice made for each artifact."""

    pool: Pool = field(kw_only=True)
    picks: dict[Id, Pick] = field(default_factory=dict)


State: TypeAlias = WalkState[MmrMemory]


@dataclass(frozen=True)  # its own parameters may be passed by position, as in graph-retriever
class Mmr(AdmittingPolicy[MmrMemory]):
    """Start from a search and choose artifacts near the query and unlike each other.

    They are chosen one after another, by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), from all
    artifacts admitted so far. The score of a candidate is `lambda_mult` times its cosine to the query, minus `1 -
    lambda_mult` times its redundancy. The redundancy is the highest cosine to an artifact chosen before. It is at least
    0 for candidates admitted before the first choice. The neighbours of a choice are admitted before the next choice.

    The order of the stream is the order of choice, and final; ties in order of discovery. The score of a hit is its
    cosine to the query. Its metadata contain `mmr_score` and `redundancy` at the time of the choice.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        lambda_mult: A number from 0 (unlike the others) to 1 (near the query).
        min_mmr_score: The least score of a choice; the walk ends if no candidate reaches it.
        select_k: Stop after this number of hits; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> Mmr(lambda_mult=0.3).select_k
        5
    """

    lambda_mult: float = 0.5
    min_mmr_score: float = -np.inf
    keeps_frontier = True
    speaks_columns = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        for name, low, high in (("lambda_mult", 0.0, 1.0), ("min_mmr_score", -np.inf, np.inf)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ArgumentError(f"{name} must be a number from {low:g} to {high:g}, not {short_repr(value)}")

    @property
    @override
    def _needs_vectors(self) -> bool:
        return True

    @override
    def begin(self, state: State) -> MmrMemory:
        return MmrMemory(state.query, self.scope, self._reads_fields, pool=Pool(self.lambda_mult))

    async def score(
        self, state: State, nodes: Sequence[ArtifactNode] | Numbers, store: Walkable
    ) -> NDArray[np.float64]:
        """Score by the cosine of the best surface, and keep its vector; one store call."""
        return await self._score_and_keep_vectors(state, nodes, store)

    async def select(self, state: State, frontier: Frontier) -> list[int]:
        """Choose artifacts up to and including the first one above the depth cap.

        The neighbours of that one compete for the next choice.
        """
        picks = 1 if state.max_depth is None else _MAX_PICKS
        return await offload_if(state.memory.pool.size * picks > _OFFLOAD_ABOVE, self._choose, state, frontier)

    def _choose(self, state: State, frontier: Frontier) -> list[int]:
        memory, admission = state.memory, self._admit(state, frontier)
        memory.keep_admission(admission)
        admitted = admission.positions
        if len(admitted):
            memory.pool.admit(admitted, frontier.scores[admitted], memory.rows[admitted])
        room = memory.pool.count if self.select_k is None else self.select_k - len(state.results)
        chosen: list[int] = []
        for _ in range(min(room, _MAX_PICKS)):
            pick = memory.pool.pick(self.min_mmr_score)
            if pick is None:
                break
            chosen.append(pick.position)
            memory.picks[memory.ids_at(frontier, [pick.position])[0]] = pick
            if state.max_depth is None or frontier.depths[pick.position] < state.max_depth:
                break
        if memory.ahead.vectors_read:
            memory.ahead.likely = self._find_likely(state, frontier, room - len(chosen))
        return chosen or self._select_nothing(state, frontier)

    def _find_likely(self, state: State, frontier: Frontier, room: int) -> list[CommittedNode]:
        """Return artifacts that are likely among the next choices, and will be expanded."""
        if self.max_traverse is not None:
            return []
        # A choice lowers the scores of others a little, so the next ones are nearly always among the best of now. The
        # last of all is not expanded.
        positions = state.memory.pool.find_best(min(_MAX_LIKELY, room - 1))
        ids = state.memory.ids_at(frontier, positions)
        depths = [int(frontier.depths[position]) for position in positions]
        return [
            CommittedNode(ArtifactNode(id), id, depth, 0.0, None)
            for id, depth in zip(ids, depths, strict=True)
            if state.max_depth is None or depth < state.max_depth
        ]

    def stop(self, state: State) -> bool:
        """Stop after `select_k` hits."""
        return self._has_enough(state)

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, with the numbers of its choice; one store call."""
        hits = await super().to_hits(state, committed, store)
        for entry, hit in zip(committed, hits, strict=True):
            if hit is not None:
                _, score, redundancy = state.memory.picks[entry.id]
                add_facts(hit.metadata, {"mmr_score": score, "redundancy": redundancy})
        return hits

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the first `select_k` hits in order of choice."""
        return hits[: self.select_k]
