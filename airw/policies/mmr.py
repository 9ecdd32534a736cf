"""Near the query, and unlike what was chosen already."""

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
from airw.policies._capabilities import Walkable
from airw.policies._several_corpora import Id
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy
from airw.policies.artifact_policy import ArtifactNode
from airw.values import SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

_PICKS = 64  # without anything behind them, chosen in one go
_MANY = 1 << 19  # numbers, compared in about a millisecond


class Pick(NamedTuple):
    """Why an artifact was chosen: `score` is its relevance less its redundancy, each with its weight."""

    position: int
    score: float
    redundancy: float


class Pool:
    """What may be chosen, in columns without holes, and the vectors of what was."""

    def __init__(self, weight: float) -> None:
        """Start with nothing to choose from."""
        self._weight = weight
        self.count = 0
        self._numbers = np.empty((3, 0))  # position, relevance, redundancy
        self._rows: Floats = np.empty((0, 0), np.float32)
        self._chosen: Floats = np.empty((0, 0), np.float32)
        self._picks = 0

    @property
    def size(self) -> int:
        """Count the numbers that each choice is compared with."""
        return self.count * int(self._rows.shape[1])

    def admit(self, positions: NDArray[np.intp], relevance: NDArray[np.float64], rows: Floats) -> None:
        """Let in nodes by position, with cosines to the query, `(n,) float64`, and vectors, `(n, dim) float32`."""
        redundancy = np.zeros(len(rows))
        if self._picks:
            redundancy = np.einsum("ij,kj->ik", rows, self._chosen[: self._picks]).max(axis=1).astype(np.float64)
        until = self.count + len(rows)
        self._rows = reserve(self._rows if len(self._rows) else rows[:0], until)
        self._numbers = reserve(self._numbers, until, axis=1)
        self._rows[self.count : until] = rows
        self._numbers[:, self.count : until] = positions, relevance, redundancy
        self.count = until

    def pick(self, least: float) -> Pick | None:
        """Choose the best, first discovered of equals; `None` below `least`."""
        if not self.count:
            return None
        position, relevance, redundancy = self._numbers[:, : self.count]
        with np.errstate(invalid="ignore"):  # 0 times -inf, of what has no surfaces
            scores = self._weight * relevance - (1 - self._weight) * redundancy
        scores[np.isneginf(relevance)] = -np.inf
        best = scores.max()
        if best < least:
            return None
        equal = np.flatnonzero(scores == best)
        at = int(equal[position[equal].argmin()])
        picked = Pick(int(position[at]), float(best), float(redundancy[at]))
        self._choose(at)
        return picked

    def _choose(self, at: int) -> None:
        """Take one out, the last moves into its place, and raise the redundancy of the others."""
        row = self._rows[at].copy()
        self._chosen = reserve(self._chosen if len(self._chosen) else row[np.newaxis][:0], self._picks + 1)
        self._chosen[self._picks] = row
        self._picks += 1
        self.count -= 1
        self._rows[at], self._numbers[:, at] = self._rows[self.count], self._numbers[:, self.count]
        others = self._numbers[2, : self.count]
        np.maximum(others, exact_scores(self._rows[: self.count], row), out=others)


@dataclass(slots=True, eq=False)
class MmrMemory(AdmittingMemory):
    """What one walk remembers besides: what may be chosen, and why what was chosen was."""

    pool: Pool = field(kw_only=True)
    picks: dict[Id, Pick] = field(default_factory=dict)


State: TypeAlias = WalkState[MmrMemory]


@dataclass(frozen=True)  # what is its own may be given by position, as in graph-retriever
class Mmr(AdmittingPolicy[MmrMemory]):
    """Start from a search and choose, one after another, what is near the query and unlike what was chosen.

    Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998) over all that was admitted so far: `lambda_mult`
    times the cosine to the query, less `1 - lambda_mult` times the redundancy, the highest cosine to anything chosen.
    What was admitted before the first choice has redundancy 0 or more. What lies behind a choice is admitted before the
    next one. The order of choice is final when it streams; ties in order of discovery. A hit's score is its cosine to
    the query; `mmr_score` and `redundancy` in its metadata say why it was chosen.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        lambda_mult: From 0, unlike all others, to 1, near the query.
        min_mmr_score: Choose nothing below this; the walk ends there.
        select_k: Stop once this many hits are out; `None` to run to the limits of the walk.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> Mmr(lambda_mult=0.3).select_k
        5
    """

    lambda_mult: float = 0.5
    min_mmr_score: float = -np.inf
    keeps_frontier = True

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        for name, low, high in (("lambda_mult", 0.0, 1.0), ("min_mmr_score", -np.inf, np.inf)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ArgumentError(f"{name} must be a number from {low:g} to {high:g}, not {short_repr(value)}")

    @override
    def begin(self, state: State) -> MmrMemory:
        return MmrMemory(state.query, self.scope, self._reads_fields, pool=Pool(self.lambda_mult))

    async def score(self, state: State, nodes: Sequence[ArtifactNode], store: Walkable) -> NDArray[np.float64]:
        """Score by cosine of the best surface, and keep its vector; one store call."""
        await self._keep_vectors(state, nodes, store)
        return await super().score(state, nodes, store)

    async def select(self, state: State, frontier: Frontier) -> list[int]:
        """Choose until one is chosen that has something behind it."""
        memory, admitted = state.memory, self._admit(state, frontier)
        if len(admitted):
            memory.pool.admit(admitted, frontier.scores[admitted], memory.rows[admitted])
        picks = 1 if state.max_depth is None else _PICKS
        return await offload_if(memory.pool.size * picks > _MANY, self._choose, state, frontier)

    def _choose(self, state: State, frontier: Frontier) -> list[int]:
        memory = state.memory
        room = memory.pool.count if self.select_k is None else self.select_k - len(state.results)
        chosen: list[int] = []
        for _ in range(min(room, _PICKS)):
            pick = memory.pool.pick(self.min_mmr_score)
            if pick is None:
                break
            chosen.append(pick.position)
            memory.picks[frontier.ids[pick.position]] = pick
            if state.max_depth is None or frontier.depths[pick.position] < state.max_depth:
                break
        return chosen or self._select_nothing(state, frontier)

    def stop(self, state: State) -> bool:
        """Stop once `select_k` hits are out."""
        return self._has_enough(state)

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, and why it was chosen; one store call."""
        hits = await super().to_hits(state, committed, store)
        for entry, hit in zip(committed, hits, strict=True):
            if hit is not None:
                _, hit.metadata["mmr_score"], hit.metadata["redundancy"] = state.memory.picks[entry.id]
        return hits

    def rank(self, state: State, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Keep the order of the walk, cut at `select_k`."""
        return hits[: self.select_k]
