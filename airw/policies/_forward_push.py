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
        degrees: `(n,) intp`, the number of neighbours of each node; -1 if it is not explored.
        sources: `(m,) intp`, the node at the start of each edge from an explored node.
        targets: `(m,) intp`, the neighbour at the end of each of these edges.
    """

    restart: float
    seeds: NDArray[np.float64]
    estimate: NDArray[np.float64]
    residual: NDArray[np.float64]
    degrees: NDArray[np.intp]
    sources: NDArray[np.intp]
    targets: NDArray[np.intp]

    @classmethod
    def start(cls, masses: Sequence[float], restart: float) -> "ForwardPush":
        """Return a push that starts at the seeds, numbered from 0, in proportion to their masses.

        Masses are at least 0, and one of them is above 0.
        """
        seeds, none = np.array(masses, np.float64), np.empty(0, np.intp)
        seeds /= seeds.sum()
        return cls(restart, seeds, np.zeros(len(seeds)), seeds, np.full(len(seeds), -1), none, none)

    @property
    def explored(self) -> NDArray[np.bool_]:
        """Return for each node whether its neighbours are known, `(n,) bool`."""
        return self.degrees >= 0

    def explore(self, nodes: Sequence[int], neighbors: Sequence[Sequence[int]], size: int) -> "ForwardPush":
        """Add the neighbours of nodes; no mass moves yet.

        Args:
            nodes: The nodes, none of them explored before; this is not checked.
            neighbors: The neighbours of each node, without duplicates.
            size: The number of nodes discovered so far, these neighbours included.
        """
        new, counts = np.zeros(size - len(self.seeds)), list(map(len, neighbors))
        degrees = np.concatenate([self.degrees, np.full(len(new), -1)])
        degrees[nodes] = counts
        return replace(
            self,
            seeds=np.concatenate([self.seeds, new]),
            estimate=np.concatenate([self.estimate, new]),
            residual=np.concatenate([self.residual, new]),
            degrees=degrees,
            sources=np.concatenate([self.sources, np.repeat(np.array(nodes, np.intp), counts)]),
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
        # Mass goes to the seeds only if there are no neighbours.
        walks, explored, size = 1 - self.restart, self.explored, len(self.seeds)
        per_edge = (walks / np.maximum(self.degrees, 1))[self.sources]
        to_seeds = np.where(self.degrees == 0, walks, 0.0)
        residual, passed = self.residual, np.zeros(size)
        for _ in range(sweeps):
            moving = np.where(explored, residual, 0.0)
            total = float(moving.sum())
            if total <= max(share * (float(residual.sum()) - total), _NEGLIGIBLE):
                break
            passed += moving
            along_edges = np.bincount(self.targets, moving[self.sources] * per_edge, size)
            residual = residual - moving + along_edges + float(moving @ to_seeds) * self.seeds
        return replace(self, estimate=self.estimate + self.restart * passed, residual=residual)

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
        # 1. Bound `q`. From a node without neighbours the walker starts again, so it returns with the seed probability
        #    of the node. A seed that is not explored may be such a node.
        loops = np.bincount(self.sources[self.sources == self.targets], minlength=len(self.seeds))
        returns = np.where(self.degrees > 0, loops / np.maximum(self.degrees, 1), self.seeds)
        if may_loop:
            returns[~self.explored] = 1
        # 2. Bound the values. With `restart = 1 - w`, `restart / (1 - g)` is `1 / (1 + w * (1 - q))`.
        most = 1 / (1 + walks * (1 - returns))
        lower = self.estimate + self.restart * self.residual
        upper = self.estimate + most * (self.residual + walks * (total - self.residual))
        # A node that was not discovered has no estimate and no residual, and is no seed.
        return Bounds(lower, upper, total * walks / (1 if may_loop else 1 + walks))


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
    least_before = np.minimum.accumulate([np.inf, *lower])[:-1]
    most_after = np.maximum.accumulate([highest_rival, *upper[::-1]])[::-1][1:]
    proven: NDArray[np.bool_] = (upper <= least_before + ROUNDING) & (lower + ROUNDING >= most_after)
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
