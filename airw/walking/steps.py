"""The steps of a walk: score the frontier, select, commit, expand; every bound is enforced here."""

import inspect
from collections.abc import Awaitable, Hashable, Iterator, Sequence
from itertools import chain, compress, islice
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from airw._base.concurrency import Pacer
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import Limits, SearchHit, StopReason
from airw.walking.policy import CommittedNode, LazyNeighbors, Neighbors, WalkPolicy, WalkState
from airw.walking.provenance import Provenance
from airw.walking.reading import (
    SLICE,
    NeighborReader,
    awaited,
    exactly,
    explain,
    plain,
    read_seeds,
    read_selection,
    stage,
)
from airw.walking.record import WalkRecord
from airw.walking.summary import WalkCounts, WalkSummary

Found: TypeAlias = list[tuple[int, list[Any]]]
"""Nodes by the position of the entry they were found behind."""

Noted: TypeAlias = tuple[Found, list[Hashable], list[bool]]
"""What was found, the ids of all its nodes in a row, and which of them were known."""

_depth = attrgetter("depth")
_NODES_PER_PACE = 2_048
_HITS_PER_REST = 100


class Steps:
    """One walk without its consumer: does a piece of work when asked to, and holds what is ready to be handed out.

    `at_rest` is for its owner to set between two requests; `stop` is the reason to end, once it is known; `done` is the
    last step that is complete; `noted` collects what each expansion found, where events are wanted.
    """

    def __init__(
        self, query: str, store: Any, policy: WalkPolicy, *, max_depth: int | None, node_budget: int, limits: Limits
    ) -> None:
        """Prepare a walk; nothing runs before the first `advance`."""
        self.policy, self._store = policy, store
        self._max_depth, self._budget, self._limits = max_depth, node_budget, limits
        self.tally = WalkCounts()
        self.record = WalkRecord(policy, limits.max_frontier, self.tally)
        self.state = WalkState(query, max_depth, node_budget, limits, self.record)
        self._visited, self._results = self.state.visited, self.state.results
        self._reader = NeighborReader(limits, self.tally)
        self._provenance = Provenance(policy)
        self._pacer = Pacer()
        self.stop: StopReason | None = None
        self.at_rest = False
        self.done = 0
        self.hits: list[SearchHit] = []
        self.ids_of_hits: list[Hashable] = []
        self.noted: list[Noted] | None = None
        self._asked: bool | Awaitable[bool] | None = False
        self._selected: list[int] = []
        self._taken = 0
        self._unspent = 0
        self._entries: list[CommittedNode] = []
        self._made: list[SearchHit | None] = []
        self._at = self._settled = self._bound = 0
        self._committed: list[CommittedNode] = []
        self._at_cap: list[CommittedNode] = []
        self._found = False

    # What is ready.

    @property
    def at_hand(self) -> bool:
        """Say whether committed entries wait to be handed out."""
        return self._at < self._bound

    def next_hit(self) -> SearchHit | None:
        """Hand out the next hit; `None` when none is ready."""
        made, at = self._made, self._at
        while at < self._bound:
            hit = made[at]
            at += 1
            if hit is not None:
                self._at = at
                self._hand_out(hit)
                return hit
        self._at = at
        return None

    def _hand_out(self, hit: SearchHit) -> None:
        self._asked = None
        self.tally.emitted += 1
        self.hits.append(hit)
        self._results.append(hit)

    def hit_at_once(self) -> SearchHit | None:
        """Hand out the next hit where that takes no waiting: it is made, the policy goes on, and no rest is due."""
        if self.at_rest and self._at < self._bound and self.tally.emitted % _HITS_PER_REST and self.ask() is False:
            return self.next_hit()
        return None

    def next_entry(self) -> tuple[CommittedNode, SearchHit | None] | None:
        """Hand out the next committed entry, a router too; `None` when none is ready."""
        at = self._at
        if at == self._bound:
            return None
        hit = self._made[at]
        if hit is not None:
            self._hand_out(hit)
        self._at = at + 1
        return self._entries[at], hit

    def settle(self) -> None:
        """Count the entries that were handed out."""
        if self._settled == self._at:
            return
        done, made = self._entries[self._settled : self._at], self._made[self._settled : self._at]
        self._settled = self._at
        self._committed += done
        self.tally.routed += len(done) - (len(self.hits) - len(self.ids_of_hits))
        self.ids_of_hits += [entry.id for entry, hit in zip(done, made, strict=True) if hit is not None]
        self.tally.depth = max(self.tally.depth, *map(_depth, done))

    def summed_up(self, stop: StopReason, seconds: float) -> WalkSummary:
        """Say how the walk ended, and what of it was handed out."""
        self.settle()
        return self.tally.summary(stop, seconds)

    def ask(self) -> bool | Awaitable[bool]:
        """Ask the policy whether to stop, once for each hit handed out."""
        if self._asked is None:
            try:
                self._asked = self.policy.stop(self.state)
            except Exception as error:
                explain(error, "stop", self.policy)
                raise
        return self._asked

    async def enough(self) -> bool:
        """Ask the policy whether to stop, and wait for its answer."""
        said = self.ask()
        if said is not False:
            with stage("stop", self.policy):
                said = await said if inspect.isawaitable(said) else said
            if not isinstance(said, bool | np.bool_):
                raise PolicyError(f"{type(self.policy).__name__}.stop must give True or False, not {short_repr(said)}")
            self._asked = bool(said)
        return bool(said)

    # The work.

    async def advance(self) -> bool:
        """Do the next piece of work, once nothing is ready: find, choose, or materialise; false at the end."""
        self.settle()
        if self._bound < len(self._made):
            self._hold_back()
        if self.stop is not None:
            await self._look_over()
            return False
        if self._taken < len(self._selected):
            await self._materialise()
        elif self._found:
            await self._choose()
        else:
            await self._find()
        return True

    async def _find(self) -> None:
        """Seed, or expand what the last step committed, unless a limit is spent."""
        if not self.tally.steps:
            self.record.begin_step()
            await self._seed()
        elif not self._is_spent():
            self.record.begin_step()
            await self._expand()
            self._committed = []
        self.done = self.tally.steps
        self._found = True

    async def _seed(self) -> None:
        self._begin()
        with stage("seed", self.policy):
            seeds = await awaited("seed", self.policy, self.policy.seed(self.state, self._store))
            nodes = await read_seeds(seeds, self._limits, self.tally)
        await self._admit([(-1, nodes)])

    def _begin(self) -> None:
        """Let the policy make what this walk is to remember; one written without `begin` remembers nothing here."""
        begin = getattr(self.policy, "begin", None)
        if callable(begin):
            with stage("begin", self.policy):
                self.state.memory = plain("begin", self.policy, begin(self.state))

    async def _expand(self) -> None:
        entries, at_cap = self._split()
        self._at_cap += at_cap
        if entries:
            with stage("expand", self.policy):
                found = await self._reader.read(await self._offers(entries), entries)
            await self._admit(list(zip(self.record.positions_of(entries), found, strict=True)))

    def _split(self) -> tuple[list[CommittedNode], list[CommittedNode]]:
        """Part the entries of this step in those below the depth cap and those at it."""
        cap = self._max_depth
        if cap is None:
            return self._committed, []
        below = [entry for entry in self._committed if entry.depth < cap]
        return below, [entry for entry in self._committed if entry.depth >= cap]

    async def _offers(self, entries: Sequence[CommittedNode]) -> list[Neighbors]:
        answer = await awaited("expand", self.policy, self.policy.expand(self.state, tuple(entries), self._store))
        return exactly(answer, len(entries), "expand")

    async def _admit(self, found: Found) -> None:
        with stage("node_id", self.policy):
            for groups in _batches(found):
                first = self.record.size
                ids = self.record.admit(groups)
                if self.noted is not None and self.tally.steps:  # seeds lie behind no edge
                    self.noted.append((groups, ids, self.record.known_before(ids, first)))
                await self._pacer.pace()

    async def _choose(self) -> None:
        """Score what was found and select from all that waits."""
        self._found = False
        await self._score()
        selected = await self._select() if self.record.waiting_count else []
        self._selected, self._taken = selected[: self._budget - self.tally.committed], 0
        left = self.record.waiting_count if self.policy.keeps_frontier else len(selected)
        self._unspent = left - len(self._selected)
        if selected:
            self.tally.steps += 1
        else:
            self.stop = "sufficient" if self.record.waiting_count else "exhausted"

    async def _score(self) -> None:
        nodes = self.record.fresh_nodes()
        if nodes:
            with stage("score", self.policy):
                scores = await awaited("score", self.policy, self.policy.score(self.state, nodes, self._store))
                self.record.score_fresh(scores)
            await self._pacer.pace()

    async def _select(self) -> list[int]:
        with stage("select", self.policy):
            frontier = self.record.frontier()
            picked = self.policy.select(self.state, frontier)
            chosen = await read_selection(await picked if inspect.isawaitable(picked) else picked, self.record)
            if frontier.dropped:
                self.record.drop(frontier.dropped, chosen)
            return chosen

    async def _materialise(self) -> None:
        """Commit the next slice of the selection and ask the policy for its hits."""
        positions = self._selected[self._taken : self._taken + SLICE]
        self._taken += len(positions)
        entries = self.record.commit(positions)
        self._visited.update([entry.id for entry in entries])
        with stage("to_hits", self.policy):
            answer = await awaited("to_hits", self.policy, self.policy.to_hits(self.state, tuple(entries), self._store))
            hits = exactly(answer, len(entries), "to_hits")
            self._provenance.stamp(entries, hits)
        self._entries, self._made, self._at, self._settled = entries, hits, 0, 0
        self._bound = self._within_max_hits()

    # The limits on what is committed.

    def _within_max_hits(self) -> int:
        """Count the entries of this slice up to the first hit that is one too many."""
        if self._limits.max_hits is not None:
            room = self._limits.max_hits - self.tally.emitted
            for at, hit in enumerate(self._made):
                room -= hit is not None
                if room < 0:
                    return at
        return len(self._made)

    def _hold_back(self) -> None:
        held = sum(hit is not None for hit in self._made[self._bound :])
        more = self._taken < len(self._selected) or self._unspent
        self.tally.refuse("max_hits", held, at_least=bool(more))
        self.stop = "max_hits"
        del self._made[self._bound :]

    def _is_spent(self) -> bool:
        """Say whether a completed step ended on a limit, and count the entries that are left."""
        full = self.tally.committed >= self._budget
        self.stop = "max_hits" if self.tally.emitted == self._limits.max_hits else "node_budget" if full else None
        if self.stop is not None:
            self.tally.refuse("node_budget" if full else self.stop, self._unspent)
        return self.stop is not None

    # The look over the edge.

    def edges_to_look_over(self) -> dict[str, list[CommittedNode]]:
        """Give, by limit, the entries that were committed but not expanded because of it."""
        below, at_cap = self._split()
        edges = {"max_depth": self._at_cap + at_cap}
        if self.stop in ("node_budget", "max_hits") and self.stop not in self.tally.left_out:
            edges[self.stop] = below
        return {limit: entries for limit, entries in edges.items() if entries}

    async def _look_over(self) -> None:
        """Count, by one expansion after the last hit, the unknown nodes that a limit kept the walk from reaching."""
        edges = self.edges_to_look_over()
        if self.stop == "sufficient" or not edges:
            return
        if not self._limits.count_beyond_limits:
            self.tally.unknown.update(edges)
            return
        counted, everyone = WalkCounts(), [entry for entries in edges.values() for entry in entries]
        with stage("expand", self.policy):
            offers = await self._offers(everyone)
            are_ids = [isinstance(each, LazyNeighbors) for each in offers]
            seen = [each.ids if isinstance(each, LazyNeighbors) else each for each in offers]
            found = await NeighborReader(self._limits, counted).read(seen, everyone)
        start = 0
        for limit, entries in edges.items():
            mine = slice(start, start := start + len(entries))
            self.tally.refuse(limit, len(await self._unknown(found[mine], are_ids[mine])))
            if counted.left_out:
                self.tally.at_least.add(limit)

    async def _unknown(self, found: Sequence[Sequence[Any]], are_ids: Sequence[bool]) -> set[Hashable]:
        """Give the ids, among nodes or ids, of what is neither committed nor waiting."""
        unknown: set[Hashable] = set()
        for kind in (False, True):
            nodes = chain.from_iterable(compress(found, (each is kind for each in are_ids)))
            while part := list(islice(nodes, _NODES_PER_PACE)):
                with stage("node_id", self.policy):
                    unknown |= self.record.unknown(part, are_ids=kind)
                await self._pacer.pace()
        return unknown


def _batches(found: Found) -> Iterator[Found]:
    """Give what was found in portions that take about a millisecond."""
    if sum(len(nodes) for _, nodes in found) <= _NODES_PER_PACE:
        yield found
        return
    batch: Found = []
    room = _NODES_PER_PACE
    for parent, nodes in found:
        for start in range(0, len(nodes), _NODES_PER_PACE):
            part = nodes[start : start + _NODES_PER_PACE]
            batch.append((parent, part))
            room -= len(part)
            if room <= 0:
                yield batch
                batch, room = [], _NODES_PER_PACE
    yield batch
