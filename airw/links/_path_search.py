"""The search for a path within limits: the one with the fewest hops, or the cheapest.

It is Dijkstra's search (A Note on Two Problems in Connexion with Graphs, 1959), from both ends and many artifacts at a
time. Artifacts are numbers, and the links of many are a few arrays; ids and edges are made for the path alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.concurrency import offload_if
from airw.links.costs import COST_EPSILON, COST_SCALE, artifact_value, type_factor
from airw.links.inverses import FollowedLinks
from airw.links.paths import LinkPath, PathLimits
from airw.protocols import EdgeRow, RecordsOf, Store, ask
from airw.values import Edge

Numbers: TypeAlias = NDArray[np.int64]

PAGE = 1_000
"""The most artifacts in one store call: it keeps each call short."""

_MANY_READ = 500  # links; turning more into columns, or sorting them by name, takes about a millisecond
_MANY = 1 << 15  # links; following more takes long enough for a worker thread
_MANY_STATES = 500  # the same for links that are looked up one by one

# The price of a path is one whole number: its cost, and below that its hops. So prices add up without rounding errors,
# and of paths with equal cost the one with fewer hops has the lower price. In a search by hops, a link costs 1. Prices
# begin so far below zero that zero means: not reached. An array of zeros costs nothing until it is written.
_HOP_BITS = 20
_HOPS = (1 << _HOP_BITS) - 1
_GRAINS = 1 << 12  # per cost unit: costs that differ by a millionth of a link are equal
_ROOT = -1 << 61


async def find_path(
    store: Store,
    links: FollowedLinks,
    limits: PathLimits,
    ends: tuple[Any, Any],
    *,
    is_weighted: bool,
    corpus_positions: Mapping[str, int],
) -> LinkPath:
    """Return the best path between two different artifacts; one that is unknown has no links.

    Args:
        store: The store to read links and values from.
        links: The links to follow, and their names in each direction.
        limits: The limits of the search.
        ends: The artifacts where the path begins and ends.
        is_weighted: Whether the cheapest path is the best, not the one with the fewest hops.
        corpus_positions: The position of each corpus, by name. It orders the artifacts of several corpora.
    """
    search = partial(_PathSearch, store, links, corpus_positions=corpus_positions, is_weighted=is_weighted)
    if is_weighted and limits == PathLimits(max_hops=limits.max_hops):
        # The cheapest path rarely has too many hops, and is found faster where they need not be counted.
        path = await search(replace(limits, max_hops=None)).run(*ends)
        if limits.max_hops is None or len(path.edges) <= limits.max_hops:
            return replace(path, max_hops=limits.max_hops)
    # Only a search from the start alone can say whether what a limit left out could be on a cheaper path.
    return await search(limits, from_both=not is_weighted).run(*ends)


class _Links(NamedTuple):
    """Links as columns with one entry per link; the links of one artifact stand in a row.

    Args:
        owners: The number of the artifact whose links were read.
        ends: The number of the artifact at the other end.
        labels: The number of the label of the link.
    """

    owners: Numbers
    ends: Numbers
    labels: Numbers

    def select(self, mask: NDArray[np.bool_]) -> "_Links":
        """Return the links that a mask selects."""
        return _Links(*(column[mask] for column in self))


class _Numbered(dict[Any, int]):
    """The numbers of things, in the order in which they were met; `names` has them by number."""

    def __init__(self) -> None:
        self.names: list[Any] = []

    def __missing__(self, name: Any) -> int:
        """Return the next number, which a new thing gets."""
        self.names.append(name)
        return self.setdefault(name, len(self.names) - 1)


class _FollowedStates(NamedTuple):
    """Links that were followed, and the states that they connect.

    `prices` are those of reaching `far` by them.
    """

    links: _Links
    near: Numbers
    far: Numbers
    prices: Numbers


@dataclass(slots=True, eq=False)
class _Side:
    """The half of a search that begins at one end of the path.

    It goes from state to state. A state is an artifact or, if `counts_hops`, an artifact at a number of hops: with a
    cap on hops, an expensive path of few hops can be continued where a cheaper one is already too long.

    Args:
        root: The artifact where this half begins.
        is_backward: True for the half that begins at the end of the path and goes against the steps.
        counts_hops: Whether states with different hops differ.
        prices: By state, the lowest known price of reaching it.
        lowest: By artifact, the lowest price of its states.
        queue: The states to expand, in order of discovery.
        low: The lowest of their prices; it is final.
        steps: All links that were followed.
    """

    root: int
    is_backward: bool
    counts_hops: bool
    prices: Numbers = field(default_factory=lambda: np.zeros(1, np.int64))
    lowest: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    queue: Numbers = field(init=False)
    low: int = _ROOT
    steps: list[_FollowedStates] = field(default_factory=list)
    _states: dict[int, int] = field(default_factory=dict)  # by artifact and hops as one number
    _fewest: dict[int, int] = field(default_factory=dict)  # by artifact, the fewest hops at which it was expanded

    def __post_init__(self) -> None:
        self.make_room(self.root + 1)
        self.queue = self.find_states(np.array([self.root]), np.array([_ROOT]))
        self.prices[self.queue] = _ROOT

    def make_room(self, size: int) -> None:
        """Make room for so many artifacts."""
        if size > len(self.lowest):
            # Before the first step only the root is reached: there is nothing to copy.
            self.lowest = reserve(self.lowest if self.steps else self.lowest[:0], size)
            self.lowest[self.root] = _ROOT
        if not self.counts_hops:
            self.prices = self.lowest

    def find_states(self, artifacts: Numbers, prices: Numbers) -> Numbers:
        """Return the states of artifacts that are reached at these prices."""
        if not self.counts_hops:
            return artifacts
        keys = (artifacts << _HOP_BITS | prices & _HOPS).tolist()
        states = np.array([self._states.setdefault(key, len(self._states)) for key in keys], np.int64)
        self.prices = reserve(self.prices, len(self._states))
        return states

    def pop(self, below: int) -> tuple[Numbers, Numbers]:
        """Remove the states whose price is below, and return them with their artifacts.

        The cheapest is first.
        """
        self.queue = self.queue[np.argsort(self.prices[self.queue], kind="stable")]
        prices = self.prices[self.queue]
        count = int(prices.searchsorted(below))
        states, self.queue = self.queue[:count], self.queue[count:]
        self.low = int(prices[count]) if len(self.queue) else 0
        if not self.counts_hops:
            return states, states
        # A state costs no less than those of its artifact that were expanded. So it is useful only with fewer hops.
        artifacts, useful = np.array(list(self._states))[states] >> _HOP_BITS, list[int]()
        for position, (artifact, price) in enumerate(zip(artifacts.tolist(), prices.tolist(), strict=False)):
            if price & _HOPS < self._fewest.get(artifact, _HOPS):
                self._fewest[artifact] = price & _HOPS
                useful.append(position)
        return states[useful], artifacts[useful]

    def reach(self, links: _Links, near: Numbers, prices: Numbers) -> Numbers:
        """Go from states along links; return the artifacts that were not reached before."""
        far = self.find_states(links.ends, prices)
        self.steps.append(_FollowedStates(links, near, far, prices))
        found = new = _find_first(far[self.prices[far] == 0])
        np.minimum.at(self.prices, far, prices)
        if self.counts_hops:
            found = _find_first(links.ends[self.lowest[links.ends] == 0])
            np.minimum.at(self.lowest, links.ends, prices)
        self.queue = np.concatenate([self.queue, new])
        self.low = int(self.prices[self.queue].min(initial=0))
        return found


class _Refusal(NamedTuple):
    """Links that a limit left out.

    `prices` are those of reaching their ends, and `rest` is the least price of the other half of a path.
    """

    side: _Side
    ends: Numbers
    prices: Numbers
    rest: int


class _BestStep(NamedTuple):
    """A step of a best path from an artifact, and the state and the artifact that it leads to."""

    start: Any
    edge: Edge
    state: int
    end: int


@dataclass(slots=True, eq=False)
class _PathSearch:
    """A search for the path with the lowest price.

    It goes on from the end with fewer states to expand: the many neighbours of a hub are then often never expanded. It
    stops when the lowest prices of both sides together reach the price of the best path. A better path would have to
    cross a step between artifacts that neither side has expanded, and so would cost more than that sum. For the same
    reason, all steps of all paths of that price have been read by then.

    Within limits, the sides may follow different links, and the path may not be the best one. The links that could
    improve it must not be followed; they are counted.
    """

    store: Store
    links: FollowedLinks
    limits: PathLimits
    corpus_positions: Mapping[str, int]
    is_weighted: bool
    from_both: bool = True
    _numbers: _Numbered = field(default_factory=_Numbered)  # of artifacts
    _label_numbers: _Numbered = field(default_factory=_Numbered)
    _sides: tuple[_Side, _Side] = field(init=False)
    _costs: NDArray[Any] = field(default_factory=lambda: np.zeros(1))  # by artifact, of a link to it; 0 if unread
    _best: int = _ROOT  # a path costs less, as both of its halves begin there
    _meeting: set[int] = field(default_factory=set)  # the artifacts where the sides meet on best paths
    _visited: int = 2
    _edges: int = 0
    _refusals: dict[str, list[_Refusal]] = field(init=False)
    _spent: set[str] = field(default_factory=set)  # limits that leave no more links to follow
    _at_least: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._refusals = {limit.name: [] for limit in fields(self.limits)}

    async def run(self, start: Any, end: Any) -> LinkPath:
        """Search for the path.

        A round makes one or two store calls; one of more than 1,000 states makes them per 1,000.
        """
        first, last = self._numbers[start], self._numbers[end]
        # By hops, the price of a state says its hops. By cost from both ends, hops are not limited.
        counts_hops = not self.from_both and self.limits.max_hops is not None
        from_start = _Side(first, is_backward=False, counts_hops=counts_hops)
        from_end = _Side(last, is_backward=True, counts_hops=False)
        self._sides = side, other = from_start, from_end
        least = _to_price(COST_EPSILON if self.is_weighted else 1)  # of a link
        # A path that is not found yet has a link after the next state of the start, whatever the other side knows.
        while from_start.low + max(from_end.low, _ROOT + least - 1) < self._best:
            if self.from_both:
                side, other = self._sides if len(from_start.queue) <= len(from_end.queue) else self._sides[::-1]
            # States that cost less than one link more than the cheapest are final, too. Those that cost more than the
            # best path leaves to the other side are on no better one.
            await self._expand(side, other, below=min(side.low + least, self._best - other.low))
            if self._spent and not self._meeting:
                break
        size = sum(len(steps.near) for each in self._sides for steps in each.steps)
        path = await offload_if(size > _MANY, self._trace_path) if self._meeting else []
        cost = float(len(path))
        if self.is_weighted:
            cost = sum(type_factor(choice.edge.type) * float(self._costs[choice.end]) for choice in path) / COST_SCALE
        left_out = await offload_if(size > _MANY, self._count_left_out)
        if not path and "max_hops" in left_out:
            # If nothing new leads to the other root, there is no path of any length.
            for position in range(0, len(other.queue), PAGE):
                links, _ = await self._read(other.queue[position : position + PAGE], other)
                if (other.lowest[links.ends] == 0).any():
                    break
            else:
                del left_out["max_hops"]
        return LinkPath(
            start,
            end,
            self.links.direction,
            self.limits.max_hops,
            nodes=(start, *(self._numbers.names[choice.end] for choice in path)) if path else (),
            edges=tuple(choice.edge for choice in path),
            cost=cost if path else None,
            visited=self._visited,
            left_out=left_out,
            at_least=tuple(name for name in self._at_least if name in left_out),
        )

    async def _expand(self, side: _Side, other: _Side, *, below: int) -> None:
        """Follow the links of all states of a side whose price is below."""
        states, artifacts = await offload_if(len(side.queue) > _MANY, side.pop, below)
        for start in range(0, len(states), PAGE):
            if self._spent and not self._meeting:
                self._at_least = tuple(self._spent)
                break
            page = artifacts[start : start + PAGE]
            links, offsets = await self._read(page, side)
            if self.is_weighted:
                await self._read_costs(page if side.is_backward else links.ends)
            is_long = len(links.ends) > (_MANY_STATES if side.counts_hops else _MANY)
            await offload_if(is_long, self._follow, side, other, states[start : start + PAGE], links, offsets)

    async def _read(self, artifacts: Numbers, side: _Side) -> tuple[_Links, Numbers]:
        """Return the links that are followed from artifacts, and where those of each begin."""
        ids = [self._numbers.names[number] for number in artifacts.tolist()]
        edges = await ask(self.store, self.links.ask(ids, is_backward=side.is_backward))
        rows = [EdgeRow.of(id, row).inside for id, row in zip(ids, edges, strict=True)]
        links, offsets = await offload_if(sum(map(len, rows)) > _MANY_READ, self._number, artifacts, rows, side)
        for each in self._sides:  # artifacts may be new to the store
            each.make_room(len(self._numbers))
        return links, offsets

    def _number(self, artifacts: Numbers, rows: Sequence[EdgeRow], side: _Side) -> tuple[_Links, Numbers]:
        rows = [self.links.arrange(row, self._node_key, is_backward=side.is_backward) for row in rows]
        counts = [len(row) for row in rows]
        ends = np.array([self._numbers[end] for row in rows for end in row.ends], np.int64)
        labels = np.array([self._label_numbers[label] for row in rows for label in row.labels], np.int64)
        return _Links(np.repeat(artifacts, counts), ends, labels), np.cumsum([0, *counts])

    async def _read_costs(self, artifacts: Numbers) -> None:
        """Read what links to these artifacts cost; at most one store call."""
        self._costs = reserve(self._costs, len(self._numbers.names))
        missing = np.unique(artifacts[self._costs[artifacts] == 0]).tolist()
        nodes: list[Any] = [self._numbers.names[number] for number in missing]
        records = await ask(self.store, RecordsOf(nodes, limit=1)) if nodes else []
        for number, first in zip(missing, records, strict=True):
            self._costs[number] = COST_SCALE - artifact_value(first[0] if first else None)

    def _follow(self, side: _Side, other: _Side, states: Numbers, links: _Links, offsets: Numbers) -> None:
        """Follow the links of states, as far as the limits allow."""
        limits, counts = self.limits, offsets[1:] - offsets[:-1]
        near = np.repeat(states, counts) if side.counts_hops else links.owners
        steps: Any = _to_price(1)
        if self.is_weighted:
            _, first, labels = np.unique(links.labels, return_index=True, return_inverse=True)
            types = [self._label_numbers.names[label].type for label in links.labels[first].tolist()]
            factors = np.array([*map(type_factor, types)], np.float64)
            steps = _to_price(factors[labels] * self._costs[links.owners if side.is_backward else links.ends])
        prices = np.repeat(side.prices[states], counts) + steps

        def keep(is_allowed: NDArray[np.bool_], limit: str) -> None:
            nonlocal links, near, prices
            self._refusals[limit].append(_Refusal(side, links.ends[~is_allowed], prices[~is_allowed], other.low))
            links, near, prices = links.select(is_allowed), near[is_allowed], prices[is_allowed]

        # Each limit cuts what the one before left: those of `max_fanout` of one artifact, the others of all.
        hops = (side.prices[states] & _HOPS) + (other.low & _HOPS)
        if limits.max_hops is not None and hops.max() >= limits.max_hops:
            keep(np.repeat(hops < limits.max_hops, counts), "max_hops")
            counts = counts[hops < limits.max_hops]
        if limits.max_fanout is not None:
            ranks = np.arange(len(near)) - np.repeat(np.cumsum(counts) - counts, counts)
            keep(ranks < limits.max_fanout, "max_fanout")
        if limits.max_edges is not None:
            keep(np.arange(len(near)) < limits.max_edges - self._edges, "max_edges")
            self._edges += len(near)
        if limits.max_nodes is not None:
            new = _find_first(links.ends[(side.lowest[links.ends] == 0) & (other.lowest[links.ends] == 0)])
            keep(~np.isin(links.ends, new[limits.max_nodes - self._visited :]), "max_nodes")
        new = side.reach(links, near, prices)
        self._visited += int(np.count_nonzero(other.lowest[new] == 0))
        # By hops, an artifact that was reached before has not become cheaper.
        self._meet(side, other, links.ends if self.is_weighted else new)
        # After the last of `max_edges` no link can be followed. By hops, all states are too far at once.
        for limit in ("max_edges", "max_hops") if self.from_both else ("max_edges",):
            if any((refusal.side.lowest[refusal.ends] == 0).any() for refusal in self._refusals[limit][-1:]):
                self._spent.add(limit)

    def _meet(self, side: _Side, other: _Side, artifacts: Numbers) -> None:
        """Record at which of the artifacts that one side has reached both meet on a best path."""
        there = other.lowest[artifacts]
        if there.min(initial=0) < 0:
            wholes = side.lowest[artifacts] + there
            if (best := int(wholes.min())) < self._best:
                self._best, self._meeting = best, set()
            self._meeting.update(artifacts[wholes == self._best].tolist())

    def _trace_path(self) -> list[_BestStep]:
        """Return the steps of the best path that is first in order."""
        from_start, _ = self._sides
        # From the states where the sides meet back to both roots: keep only the steps on best paths.
        meeting = np.array(sorted(self._meeting))
        meeting = from_start.find_states(meeting, from_start.lowest[meeting])
        choices: dict[int, list[tuple[int, _Side, _Links, int]]] = {}
        for side in self._sides:
            is_on_path = np.zeros(max(len(side.prices), len(from_start.prices)), np.bool_)
            is_on_path[meeting] = True
            for links, nears, fars, prices in reversed(side.steps):
                for at in np.flatnonzero(is_on_path[fars]).tolist():
                    near, far = int(nears[at]), int(fars[at])
                    if prices[at] == side.prices[far]:
                        is_on_path[near] = True
                        state, next_state = (far, near) if side.is_backward else (near, far)
                        choices.setdefault(state, []).append((next_state, side, links, at))
        # Every choice among these steps leads to the end, so taking the first step each time gives the first path.
        path = list[_BestStep]()
        state = 0 if from_start.counts_hops else from_start.root
        while state in choices:
            path.append(min(map(self._make_choice, choices[state]), key=self._sort_key))
            state = path[-1].state
        return path

    def _make_choice(self, choice: tuple[int, _Side, _Links, int]) -> _BestStep:
        state, side, links, at = choice
        owner, end, label = (int(column[at]) for column in links)
        names = self._numbers.names
        [edge] = EdgeRow(names[owner], names[end : end + 1], self._label_numbers.names[label : label + 1])
        start, end = (end, owner) if side.is_backward else (owner, end)
        return _BestStep(self._numbers.names[start], edge, state, end)

    def _sort_key(self, choice: _BestStep) -> tuple[Any, ...]:
        """Return what steps from one artifact are sorted by.

        That is the name of the link, then its end, out before in, and its origin.
        """
        edge, name = choice.edge, self.links.name_of(choice.edge, choice.start)
        return name, self._node_key(self._numbers.names[choice.end]), edge.source != choice.start, edge.origin

    def _node_key(self, node: Any) -> Any:
        """Return what artifacts are sorted by: their ids; in several corpora, the corpus first."""
        positions = self.corpus_positions
        return node if isinstance(node, str) else (positions.get(node[0], len(positions)), *node)

    def _count_left_out(self) -> dict[str, int]:
        """Count what each limit left out that could be on a better path."""
        counts = {}
        for limit, refusals in self._refusals.items():
            ends = list[int]()
            for side, refused, prices, rest in refusals:
                could_be_best = prices + rest >> _HOP_BITS < self._best >> _HOP_BITS
                is_cheaper = prices >> _HOP_BITS < side.lowest[refused] >> _HOP_BITS
                ends += refused[could_be_best & is_cheaper].tolist()
            counts[limit] = len(set(ends) if limit in ("max_hops", "max_nodes") else ends)
        return {limit: count for limit, count in counts.items() if count}


def _to_price(cost: Any) -> Any:
    """Return the price of a link, or of several, with this cost."""
    return np.rint(np.multiply(cost, _GRAINS)).astype(np.int64) << _HOP_BITS | 1


def _find_first(numbers: Numbers) -> Numbers:
    """Return each number once, in order of first occurrence."""
    # Written backwards, the place of each number is its first one in the end. This is faster than sorting.
    places, positions = np.empty(numbers.max(initial=-1) + 1, np.int64), np.arange(len(numbers))
    places[numbers[::-1]] = positions[::-1]
    first: Numbers = numbers[places[numbers] == positions]
    return first
