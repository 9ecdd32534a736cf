"""Personalised PageRank by forward push, with error bounds while the graph is unexplored.

Personalised PageRank is the probability to meet a random walker at each node. With probability `1 - restart` the walker
goes on to a random neighbour. Otherwise, or if there is no neighbour, it starts again from the seeds. The same values
arise if the walker stops with probability `restart` at each node: its mass then *comes to rest* there. At a node
without neighbours the other mass goes to the seeds.

Forward push (Andersen, Chung and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006) keeps two numbers
per node: an estimate, and a residual, the probability mass that still has to walk on from there. A push from a node
turns the part `restart` of its residual into estimate, and hands the rest to its neighbours. This equation holds
before and after every push:

    exact[v] = estimate[v] + sum over u of residual[u] * exact_from_u[v]

Here `exact[v]` is the exact value of `v`, and `exact_from_u[v]` the part of the mass at `u` that will come to rest at
`v`. So the nodes can be explored in any order, and the residual that is left bounds the error. Nodes are numbered in
order of discovery.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from airw._base.arrays import NDArray

ROUNDING = 1e-12
"""Numbers that differ by less count as equal; `push_fully` leaves less mass than this if `restart` is at least 0.01."""

_NEGLIGIBLE = 1e-14  # a push ends when the explored nodes have at most this mass
_ROUGH_SHARE = 0.01  # a rough push leaves at most this share of the mass that waits at unexplored nodes
_ROUGH_SWEEPS = 16  # or stops after this number of sweeps; the next push continues with the rest
_SWEEPS = 4_000  # enough to leave nothing if `restart` is 0.01 or more; a smaller one leaves wider bounds


class Bounds(NamedTuple):
    """Bounds of the exact values.

    Args:
        lower: `(n,) float64`, the lower bound of each node.
        upper: `(n,) float64`, the upper bound of each node.
        unseen: The upper bound of every node that was not discovered.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    unseen: float


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPush:
    """The state of a forward push; it is immutable, and each method returns a new one.

    Args:
        restart: The probability to start again, between 0 and 1.
        seeds: `(n,) float64`, the probability to start at each node; the sum is 1.
        estimate: `(n,) float64`, the mass that has come to rest.
        residual: `(n,) float64`, the mass that still has to walk; the sum of both is 1.
        explored: `(m,) intp`, the nodes whose neighbours are known.
        degrees: `(m,) intp`, the number of neighbours of each explored node.
        targets: The neighbours of the first explored node, then those of the second, and so on.
    """

    restart: float
    seeds: NDArray[np.float64]
    estimate: NDArray[np.float64]
    residual: NDArray[np.float64]
    explored: NDArray[np.intp]
    degrees: NDArray[np.intp]
    targets: NDArray[np.intp]

    @classmethod
    def start(cls, masses: Sequence[float], restart: float) -> "ForwardPush":
        """Return a push that starts at the seeds, numbered from 0, in proportion to their masses.

        Masses are at least 0, and one of them is above 0.
        """
        seeds = np.array(masses, np.float64)
        seeds /= seeds.sum()
        none = np.empty(0, np.intp)
        return cls(restart, seeds, np.zeros(len(seeds)), seeds, none, none, none)

    def explore(self, nodes: Sequence[int], neighbors: Sequence[Sequence[int]], size: int) -> "ForwardPush":
        """Add the neighbours of nodes; no mass moves yet.

        Args:
            nodes: The nodes, none of them explored before; this is not checked.
            neighbors: The neighbours of each node, without duplicates.
            size: The number of nodes discovered so far, these neighbours included.
        """
        new = np.zeros(size - len(self.seeds))
        return replace(
            self,
            seeds=np.concatenate([self.seeds, new]),
            estimate=np.concatenate([self.estimate, new]),
            residual=np.concatenate([self.residual, new]),
            explored=np.concatenate([self.explored, np.array(nodes, np.intp)]),
            degrees=np.concatenate([self.degrees, np.fromiter(map(len, neighbors), np.intp)]),
            targets=np.concatenate([self.targets, np.fromiter(chain.from_iterable(neighbors), np.intp)]),
        )

    def push_roughly(self) -> "ForwardPush":
        """Push until the explored nodes have at most 1% of the other residual, or for 16 sweeps."""
        return self._push(_ROUGH_SHARE, _ROUGH_SWEEPS)

    def push_fully(self) -> "ForwardPush":
        """Push until at most 1e-14 of the mass is left at explored nodes, or for 4,000 sweeps."""
        return self._push(0.0, _SWEEPS)

    def _push(self, share: float, sweeps: int) -> "ForwardPush":
        """Push from all explored nodes, in sweeps.

        Andersen, Chung and Lang push from one node at a time. Here a sweep pushes from all explored nodes at once,
        because numpy does that in a few array operations. The equation of forward push allows any order.

        Args:
            share: Stop when the residual of the explored nodes is at most this share of the other residual.
            sweeps: Stop after this number of sweeps.
        """
        # 1. Take the edges between explored nodes. Mass that leaves along other edges waits at unexplored nodes, so the
        #    sweeps need only these.
        rows = self._source_rows()
        row_of_node = np.full(len(self.seeds), -1, np.intp)
        row_of_node[self.explored] = np.arange(len(self.explored))
        target_rows = row_of_node[self.targets]
        is_inside = target_rows >= 0
        inside_sources, inside_targets = rows[is_inside], target_rows[is_inside]
        to_neighbor, to_seeds = self._shares()
        seeds = self.seeds[self.explored]
        # 2. Sweep. `passed` sums up the mass pushed from each node; it is delivered to the other nodes once, at the
        #    end. The sweeps themselves need only `waiting`, the residual of all nodes that are not explored.
        residual = self.residual[self.explored]
        waiting, passed = float(self.residual.sum() - residual.sum()), np.zeros(len(residual))
        for _ in range(sweeps):
            total = float(residual.sum())
            if total <= max(share * waiting, _NEGLIGIBLE):
                break
            passed += residual
            along_edges = np.bincount(inside_targets, (residual * to_neighbor)[inside_sources], len(residual))
            arrived = along_edges + float(residual @ to_seeds) * seeds
            waiting += (1 - self.restart) * total - float(arrived.sum())
            residual = arrived
        return self._apply(passed, residual, rows)

    def _apply(self, passed: NDArray[np.float64], left: NDArray[np.float64], rows: NDArray[np.intp]) -> "ForwardPush":
        """Return the push after `passed` was pushed from the explored nodes and `left` remains."""
        to_neighbor, to_seeds = self._shares()
        along_edges = np.bincount(self.targets, (passed * to_neighbor)[rows], len(self.seeds))
        arrived = along_edges + float(passed @ to_seeds) * self.seeds
        estimate = self.estimate.copy()
        estimate[self.explored] += self.restart * passed
        residual = self.residual + arrived
        residual[self.explored] = left
        return replace(self, estimate=estimate, residual=residual)

    def _source_rows(self) -> NDArray[np.intp]:
        """Return for each target the row, in `explored`, of the node it is a neighbour of."""
        return np.repeat(np.arange(len(self.explored)), self.degrees)

    def _shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return, per explored node, the shares of its mass for each neighbour and for the seeds.

        Mass goes to the seeds only if there are no neighbours.
        """
        walks = 1 - self.restart
        return walks / np.maximum(self.degrees, 1), np.where(self.degrees == 0, walks, 0.0)

    def bounds(self, *, may_loop: bool) -> Bounds:
        """Return bounds of the exact values, whatever the unexplored part of the graph is.

        Let `w = 1 - restart`. Of the mass that reaches a node, at least `restart` comes to rest there at the first
        visit. With all later visits it is at most `restart / (1 - g)`, where `g` is the probability to come back before
        coming to rest. Let `q` be the probability to return in one step. Any other return takes two steps or more. So
        `g` is at most `w * q + w**2 * (1 - q)`. Mass at any other node needs one step or more to get here, which costs
        a factor `w`.

        Args:
            may_loop: Whether a node that is not explored may be its own neighbour.
        """
        walks, total = 1 - self.restart, float(self.residual.sum())
        # With `restart = 1 - w`, `restart / (1 - g)` is `1 / (1 + w * (1 - q))`.
        most = 1 / (1 + walks * (1 - self._return_probabilities(may_loop=may_loop)))
        lower = self.estimate + self.restart * self.residual
        upper = self.estimate + most * (self.residual + walks * (total - self.residual))
        # A node that was not discovered has no estimate and no residual, and is no seed.
        return Bounds(lower, upper, total * walks / (1 if may_loop else 1 + walks))

    def _return_probabilities(self, *, may_loop: bool) -> NDArray[np.float64]:
        """Return for each node an upper bound of the probability to return to it in one step.

        From a node without neighbours the walker starts again, so it returns with the seed probability of the node. A
        seed that is not explored may be such a node.
        """
        probabilities = np.ones(len(self.seeds)) if may_loop else self.seeds.copy()
        rows = self._source_rows()
        loops = np.bincount(rows[self.targets == self.explored[rows]], minlength=len(self.explored))
        along_loops = loops / np.maximum(self.degrees, 1)
        probabilities[self.explored] = np.where(self.degrees == 0, self.seeds[self.explored], along_loops)
        return probabilities

    def neighbor_counts(self) -> NDArray[np.intp]:
        """Return the number of neighbours of each node; -1 if it is not explored."""
        counts = np.full(len(self.seeds), -1, np.intp)
        counts[self.explored] = self.degrees
        return counts


def has_final_rank(bounds: Bounds, order: NDArray[np.intp], rivals: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each node in `order` whether its place there is proven to be its exact rank.

    No node before it may be below it. No node after it, no rival and no undiscovered node may be above it. Nodes that
    are equal may be in any order.

    Args:
        bounds: The bounds of all nodes.
        order: The ranked nodes, best first.
        rivals: `(n,) bool`, the nodes outside `order` that may be above ranked ones.
    """
    lower, upper = bounds.lower[order], bounds.upper[order]
    highest_rival = max(bounds.unseen, float(bounds.upper[rivals].max(initial=0.0)))
    least_before = np.concatenate([[np.inf], np.minimum.accumulate(lower)])[:-1]
    most_after = np.concatenate([np.maximum.accumulate(upper[::-1])[::-1], [highest_rival]])[1:]
    is_below_those_before = upper <= least_before + ROUNDING
    is_above_the_others = lower + ROUNDING >= np.maximum(most_after, highest_rival)
    proven: NDArray[np.bool_] = is_below_those_before & is_above_the_others
    return proven


def is_among_first(bounds: Bounds, order: NDArray[np.intp], rivals: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Return for each node in `order` whether it is proven to be among the first `count`.

    That is so if the bounds allow fewer than `count` other nodes above it, and no undiscovered node: of those there may
    be many. Of equal nodes at the border all are proven, so more than `count` may be.

    Args:
        bounds: As in `has_final_rank`.
        order: As in `has_final_rank`.
        rivals: As in `has_final_rank`.
        count: How many nodes are first.
    """
    raised_lower, upper = bounds.lower[order] + ROUNDING, bounds.upper[order]
    # Count the nodes whose upper bound is above this node's lower bound, without the node itself.
    highest = np.sort(np.concatenate([upper, bounds.upper[rivals]]))
    above = len(highest) - np.searchsorted(highest, raised_lower, side="right") - (upper > raised_lower)
    proven: NDArray[np.bool_] = (above < count) & (bounds.unseen <= raised_lower)
    return proven
