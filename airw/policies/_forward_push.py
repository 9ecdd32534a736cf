"""Personalised PageRank of a graph of which only a part is known, by forward push, and how far off it may be.

Personalised PageRank is where a walker is found that goes on to a random neighbour with probability `1 - restart` and
else, or where there is no neighbour, starts again from the seeds. Forward push (Andersen, Chung and Lang, "Local Graph
Partitioning using PageRank Vectors", FOCS 2006) splits it into an estimate and a residual that still has to walk:

    exact[v] = estimate[v] + sum over u of residual[u] * exact_from_u[v]

It holds after every push, in whatever order nodes are explored. Nodes are numbers, in order of discovery.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from airw._base.arrays import NDArray

ROUNDING = 1e-12
"""Numbers that differ by less are equal: `settled` leaves far less to be pushed."""

_COMPLETE = 1e-14  # of the mass
_ROUGH = 0.01  # of the mass that waits to be explored
_ROUGH_SWEEPS = 16  # what they leave is pushed on after the next exploration
_SWEEPS = 4_000  # at a restart of 0.01 or more they leave nothing; what they leave below that widens the bounds


class Bounds(NamedTuple):
    """Between what the exact values lie: `(n,) float64` each; no node that is not known has more than `unseen`."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    unseen: float


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """A forward push so far.

    Args:
        restart: The probability to start again, between 0 and 1.
        seeds: `(n,) float64`, where the walker starts; the sum is 1.
        estimate: `(n,) float64`, the mass that came to rest.
        residual: `(n,) float64`, the mass that still has to walk; the sum of both is 1.
        explored: `(m,) intp`, the nodes whose neighbours are known.
        degrees: `(m,) intp`, how many each of them has.
        targets: The neighbours of the first, then those of the second, and so on.
    """

    restart: float
    seeds: NDArray[np.float64]
    estimate: NDArray[np.float64]
    residual: NDArray[np.float64]
    explored: NDArray[np.intp]
    degrees: NDArray[np.intp]
    targets: NDArray[np.intp]

    @classmethod
    def start(cls, masses: Sequence[float], restart: float) -> "Push":
        """Begin with the seeds, numbered from 0, in proportion to their masses."""
        seeds = np.array(masses, np.float64)
        seeds /= seeds.sum()
        none = np.empty(0, np.intp)
        return cls(restart, seeds, np.zeros(len(seeds)), seeds, none, none, none)

    def explore(self, nodes: Sequence[int], neighbors: Sequence[Sequence[int]], size: int) -> "Push":
        """Learn the neighbours of nodes that were not explored, each once, and with them of all nodes below `size`."""
        more = np.zeros(size - len(self.seeds))
        return replace(
            self,
            seeds=np.concatenate([self.seeds, more]),
            estimate=np.concatenate([self.estimate, more]),
            residual=np.concatenate([self.residual, more]),
            explored=np.concatenate([self.explored, np.array(nodes, np.intp)]),
            degrees=np.concatenate([self.degrees, np.fromiter(map(len, neighbors), np.intp)]),
            targets=np.concatenate([self.targets, np.fromiter(chain.from_iterable(neighbors), np.intp)]),
        )

    def pushed_on(self) -> "Push":
        """Push from the explored nodes until little is left there beside what waits to be explored."""
        return self._pushed(_ROUGH, _ROUGH_SWEEPS)

    def settled(self) -> "Push":
        """Push from the explored nodes until nothing is left there."""
        return self._pushed(0.0, _SWEEPS)

    def _pushed(self, share: float, sweeps: int) -> "Push":
        """Push from all explored nodes at once, at most so often, until they hold no more than a share of the rest.

        What reaches the others is added up and handed over once.
        """
        rows, places = self._rows(), np.full(len(self.seeds), -1, np.intp)
        places[self.explored] = np.arange(len(self.explored))
        within = places[self.targets]
        here, there = rows[within >= 0], within[within >= 0]
        rate, lost = self._rates()
        seeds = self.seeds[self.explored]
        held = self.residual[self.explored]
        waiting, passed = float(self.residual.sum() - held.sum()), np.zeros(len(held))
        for _ in range(sweeps):
            total = float(held.sum())
            if total <= max(share * waiting, _COMPLETE):
                break
            passed += held
            arrived = np.bincount(there, (held * rate)[here], len(held)) + float(held @ lost) * seeds
            waiting += (1 - self.restart) * total - float(arrived.sum())
            held = arrived
        return self._after(passed, held, rows)

    def _after(self, passed: NDArray[np.float64], held: NDArray[np.float64], rows: NDArray[np.intp]) -> "Push":
        """Let what passed through the explored nodes leave its part there and arrive at the others."""
        rate, lost = self._rates()
        arrived = np.bincount(self.targets, (passed * rate)[rows], len(self.seeds)) + float(passed @ lost) * self.seeds
        estimate = self.estimate.copy()
        estimate[self.explored] += self.restart * passed
        residual = self.residual + arrived
        residual[self.explored] = held
        return replace(self, estimate=estimate, residual=residual)

    def _rows(self) -> NDArray[np.intp]:
        """Give for each target the row of the node it is behind."""
        return np.repeat(np.arange(len(self.explored)), self.degrees)

    def _rates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give what part of a row's mass goes to each of its neighbours, and what part back to the seeds."""
        walks = 1 - self.restart
        return walks / np.maximum(self.degrees, 1), np.where(self.degrees == 0, walks, 0.0)

    def bounds(self, *, may_loop: bool) -> Bounds:
        """Bound the exact values from both sides, in the whole graph, whatever the part of it that is not known.

        Of the mass that reaches a node at least `restart` stays at the first visit. With all returns it is at most
        `restart / (1 - g)`, where `g`, the discounted chance to return, is at most `w * q + w**2 * (1 - q)`: `w` is
        `1 - restart` and `q` the chance to return in one step, the others take two or more. From any other node a
        visit takes at least one step, which costs the factor `w`.

        Args:
            may_loop: Whether a node that is not explored may be its own neighbour.
        """
        walks, total = 1 - self.restart, float(self.residual.sum())
        most = 1 / (1 + walks * (1 - self._at_once(may_loop=may_loop)))
        lower = self.estimate + self.restart * self.residual
        upper = self.estimate + most * (self.residual + walks * (total - self.residual))
        return Bounds(lower, upper, total * walks / (1 if may_loop else 1 + walks))

    def _at_once(self, *, may_loop: bool) -> NDArray[np.float64]:
        """Give for each node the most that the chance to return to it in one step can be.

        Without neighbours a node returns to itself as often as the walker starts there; a seed that is not explored may
        turn out to be such a node.
        """
        chances = np.ones(len(self.seeds)) if may_loop else self.seeds.copy()
        rows = self._rows()
        loops = np.bincount(rows[self.targets == self.explored[rows]], minlength=len(self.explored))
        known = loops / np.maximum(self.degrees, 1)
        chances[self.explored] = np.where(self.degrees == 0, self.seeds[self.explored], known)
        return chances

    def neighbor_counts(self) -> NDArray[np.intp]:
        """Give how many neighbours each node has, -1 for those that are not explored."""
        counts = np.full(len(self.seeds), -1, np.intp)
        counts[self.explored] = self.degrees
        return counts


def are_final(bounds: Bounds, order: NDArray[np.intp], rivals: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say of each node in `order` whether the bounds prove that it belongs exactly there, equals in any order.

    All before it must not be below it; all after it, all rivals, which are not in `order`, and the unseen not above.
    """
    lower, upper = bounds.lower[order], bounds.upper[order]
    others = max(bounds.unseen, float(bounds.upper[rivals].max(initial=0.0)))
    before = np.concatenate([[np.inf], np.minimum.accumulate(lower)])[:-1]
    after = np.concatenate([np.maximum.accumulate(upper[::-1])[::-1], [others]])[1:]
    proven: NDArray[np.bool_] = (upper <= before + ROUNDING) & (lower + ROUNDING >= np.maximum(after, others))
    return proven


def are_first(bounds: Bounds, order: NDArray[np.intp], rivals: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Say of each node in `order` whether the bounds prove that fewer than `count` others are above it."""
    lower, upper = bounds.lower[order] + ROUNDING, bounds.upper[order]
    highest = np.sort(np.concatenate([upper, bounds.upper[rivals]]))
    above = len(highest) - np.searchsorted(highest, lower, side="right") - (upper > lower)
    proven: NDArray[np.bool_] = (above < count) & (bounds.unseen <= lower)
    return proven
