"""The operator: score the frontier, select, commit, expand, test stop; every bound is enforced here."""

import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Hashable, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.lowlevel
import numpy as np

from airw._concurrency import Pacer
from airw.errors import ArgumentError, PolicyError
from airw.limits import Limits, StopReason
from airw.traversal.reading import SLICE, NeighborReader, exactly, read_seeds, read_selection, stage
from airw.values import SearchHit
from airw.walk import Entry, Tally, WalkPolicy, WalkRecord, WalkState, WalkSummary

__all__ = ["Walk"]

T = TypeVar("T")
_HITS_PER_CHECKPOINT = 100
_PATH_DEPTH = 64


class Walk(AsyncGenerator[SearchHit, None]):
    """One walk: an async generator of hits that holds nothing open between them.

    One task takes hits at a time. Leaving `async with`, `aclose()`, a cancelled request or the deadline stop all work
    in flight; a walk that is dropped half-way needs no finaliser. `asend(x)` is `anext`; `athrow(e)` closes and raises
    `e`. Made by `airw.traverse`.
    """

    def __init__(
        self,
        query: str,
        store: Any,
        policy: WalkPolicy,
        *,
        max_depth: int | None,
        node_budget: int,
        timeout: float,
        limits: Limits,
    ) -> None:
        """Prepare a walk; nothing runs before the first request."""
        self.policy = policy
        self.summary: WalkSummary | None = None
        self._store = store
        self._max_depth, self._budget, self._timeout, self._limits = max_depth, node_budget, timeout, limits
        self._tally = Tally()
        self._record = WalkRecord(policy, limits.max_frontier, self._tally)
        self._state = WalkState(query, max_depth, node_budget, limits, self._record)
        self._visited, self._results = self._state.visited, self._state.results
        self._reader = NeighborReader(limits, self._tally)
        self._pacer = Pacer()
        self._hits: list[SearchHit] = []
        self._nodes_of: dict[Hashable, Hashable] = {}
        self._seeds: dict[Hashable, str] = {}
        self._selected: list[int] = []
        self._ready: list[tuple[Entry, SearchHit | None]] = []
        self._step: list[Entry] = []
        self._at_cap: list[Entry] = []
        self._unspent = 0
        self._start: float | None = None
        self._scope: anyio.CancelScope | None = None
        self._busy = self._closing = False
        self._idle: anyio.Event | None = None
        self._stop: StopReason | None = None
        self._ranking: list[SearchHit] | None = None

    # The generator's manners.

    async def __aenter__(self) -> Self:
        """Give the walk itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walk."""
        await self.aclose()

    async def asend(self, value: None, /) -> SearchHit:
        """Give the next hit, as `anext` does."""
        if self.summary is not None:
            raise StopAsyncIteration
        if self._busy:
            raise RuntimeError("another task is taking hits from this walk; one task takes them at a time")
        self._busy = True
        try:
            hit = await self._request()
        except GeneratorExit:  # the request itself was dropped, perhaps after the end of the event loop
            self.summary = self._tally.summary("closed", 0.0)
            raise
        except BaseException as error:
            self._end("closed" if _is_cancellation(error) else "failed")
            raise
        finally:
            self._busy = False
            if self._idle is not None:
                self._end("closed")
                self._idle.set()
        if hit is None:
            raise StopAsyncIteration
        return hit

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> SearchHit:
        """Close the walk and raise the exception."""
        await self.aclose()
        error = next((given for given in (typ, val) if isinstance(given, BaseException)), None)
        error = error or (typ() if val is None else typ(val))
        raise error.with_traceback(tb) if tb is not None else error

    async def aclose(self) -> None:
        """Stop the walk; from another task, cancel its running step, wait for it, and end that task's loop."""
        if self._busy:
            self._closing = True
            self._idle = self._idle or anyio.Event()
            if self._scope is not None:
                self._scope.cancel()
            await self._idle.wait()
        self._end("closed")

    def _end(self, stop: StopReason) -> None:
        """Say how the walk ended, once."""
        if self.summary is None:
            seconds = 0.0 if self._start is None else anyio.current_time() - self._start
            self.summary = self._tally.summary(stop, seconds)

    # What the caller may ask of it.

    @property
    def ranking(self) -> list[SearchHit] | None:
        """The policy's final order of the hits, best first; `None` until the walk has ended."""
        if self._ranking is None and self.summary is not None:
            with stage("rank", self.policy):
                ranked = list(islice(self.policy.rank(self._state, tuple(self._hits)), len(self._hits) + 1))
            if not Counter(map(_identity, ranked)) <= Counter(map(_identity, self._hits)):
                raise PolicyError(f"{type(self.policy).__name__}.rank must not add hits")
            self._ranking = ranked
        return self._ranking

    def path(self, hit: SearchHit) -> list[Hashable]:
        """Give the ids of the nodes from the seed to a hit of this walk, routers included.

        Raises:
            ArgumentError: The hit is not of this walk.
        """
        key = id(hit) if id(hit) in self._nodes_of else _identity(hit)
        if key not in self._nodes_of:
            raise ArgumentError(f"the hit {hit.artifact_id!r} is not of this walk")
        return self._record.path(self._nodes_of[key])

    # The loop.

    async def _request(self) -> SearchHit | None:
        """Give the next hit, or `None` at the end."""
        if self._start is None:
            self._start = anyio.current_time()
        if self._hits and await self._enough():
            self._end("sufficient")
            return None
        if self._ready:
            hit = await self._next_ready()
            if hit is not None or self.summary is not None:
                return hit
        hit = await self._in_time(self._next())
        if hit is None:
            self._end(self._stop or "exhausted")
        return hit

    async def _in_time(self, work: Awaitable[T]) -> T | None:
        """Await what may wait, in one scope with the deadline; when that is cut short, the walk has ended."""
        answer = None
        with anyio.CancelScope(deadline=(self._start or 0.0) + self._timeout) as self._scope:
            answer = await work
        if self._scope.cancelled_caught:
            self._interrupted()
        self._scope = None
        return answer

    async def _next_ready(self) -> SearchHit | None:
        """Give the next hit of a completed step; no deadline takes those back."""
        if self._tally.emitted % _HITS_PER_CHECKPOINT == 0:
            await anyio.lowlevel.checkpoint()
            if self._closing:
                self._end("closed")
                return None
        return self._pop()

    def _interrupted(self) -> None:
        if self._closing:
            self._end("closed")
        elif self._stop is not None:  # everything was yielded; only the look over the edge was cut short
            self._tally.unknown.update(self._edges_to_look_over())
            self._end(self._stop)
        else:
            self._end("timeout")

    async def _enough(self) -> bool:
        """Ask the policy whether to stop; also true when the walk ended while it thought."""
        with stage("stop", self.policy):
            said = self.policy.stop(self._state)
            if isinstance(said, bool):
                return said
            answer = await self._in_time(said) if inspect.isawaitable(said) else said
        if self.summary is not None or isinstance(answer, bool | np.bool_):
            return self.summary is not None or bool(answer)
        raise PolicyError(f"{type(self.policy).__name__}.stop must give True or False, not {answer!r}")

    async def _next(self) -> SearchHit | None:
        await anyio.lowlevel.checkpoint()
        while True:
            hit = self._pop()
            if hit is not None:
                return hit
            if self._selected:
                await self._materialise()
            elif self._stop is not None or not await self._walk_on():
                await self._look_over()
                return None

    def _pop(self) -> SearchHit | None:
        """Commit ready entries up to the next hit; `None` when none is ready or `max_hits` is reached."""
        while self._ready:
            entry, hit = self._ready[-1]
            if hit is not None and self._tally.emitted == self._limits.max_hits:
                self._hold_back()
                return None
            self._ready.pop()
            self._step.append(entry)
            self._tally.depth = max(self._tally.depth, entry.depth)
            if hit is not None:
                self._tally.emitted += 1
                self._hits.append(hit)
                self._results.append(hit)
                self._nodes_of[id(hit)] = entry.id
                self._nodes_of.setdefault(_identity(hit), entry.id)
                return hit
            self._tally.routed += 1
        return None

    def _hold_back(self) -> None:
        held = sum(hit is not None for _, hit in self._ready)
        self._tally.refuse("max_hits", held, at_least=bool(self._selected or self._unspent))
        self._stop = "max_hits"
        self._ready.clear()
        self._selected.clear()

    async def _materialise(self) -> None:
        """Commit the next slice of the selection and ask the policy for its hits."""
        positions, self._selected = self._selected[:SLICE], self._selected[SLICE:]
        entries = self._record.commit(positions)
        self._visited.update(entry.id for entry in entries)
        with stage("to_hits", self.policy):
            answer = await self.policy.to_hits(self._state, tuple(entries), self._store)
            hits = exactly(answer, len(entries), "to_hits")
        for entry, hit in zip(entries, hits, strict=True):
            if hit is not None:
                self._stamp(entry, hit)
        self._ready = list(zip(entries, hits, strict=True))[::-1]

    def _stamp(self, entry: Entry, hit: SearchHit) -> None:
        """Write into a hit how it was reached."""
        if not isinstance(hit, SearchHit) or not isinstance(hit.metadata, dict):
            raise PolicyError(f"to_hits must give SearchHit values with a metadata dict, not {hit!r}")
        hit.metadata["walk_depth"] = entry.depth
        hit.metadata["walk_parent"] = entry.parent
        if entry.depth <= _PATH_DEPTH:
            hit.metadata["walk_path"] = self._record.path(entry.id)
        if entry.depth == 0:
            self._seeds[entry.id] = hit.artifact_id
        else:
            root = self._record.root_of(entry.id)
            hit.metadata.setdefault("seed", self._seeds.get(root, root))
        with stage("edge_of", self.policy, entry.node):
            edge = self.policy.edge_of(entry.node)
        if edge is not None:
            hit.metadata["walk_edge"] = edge.type

    async def _walk_on(self) -> bool:
        """Expand what was committed, score what was found, select from it; false when the walk has ended."""
        if self._tally.steps and self._is_spent():
            return False
        self._record.begin_step()
        await (self._expand() if self._tally.steps else self._seed())
        self._step = []
        await self._score()
        selected = await self._select() if self._record.waiting_count else []
        if not selected:
            self._stop = "sufficient" if self._record.waiting_count else "exhausted"
            return False
        self._tally.steps += 1
        room = self._budget - self._tally.committed
        self._selected = selected[:room]
        kept = self.policy.keeps_frontier
        self._unspent = (self._record.waiting_count if kept else len(selected)) - len(self._selected)
        return True

    def _is_spent(self) -> bool:
        """Say whether a completed step ended on a limit, and count the entries that are left."""
        full = self._tally.committed >= self._budget
        self._stop = "max_hits" if self._tally.emitted == self._limits.max_hits else "node_budget" if full else None
        if self._stop is not None:
            self._tally.refuse("node_budget" if full else self._stop, self._unspent)
        return self._stop is not None

    async def _seed(self) -> None:
        with stage("seed", self.policy):
            seeds = await self.policy.seed(self._state, self._store)
            nodes = await read_seeds(seeds, self._limits, self._tally)
        await self._admit([(-1, nodes)])

    async def _expand(self) -> None:
        open_entries = [entry for entry in self._step if self._is_open(entry)]
        self._at_cap += [entry for entry in self._step if not self._is_open(entry)]
        if open_entries:
            found = await self._neighbors(open_entries, self._reader)
            parents = [self._record.position_of(entry.id) for entry in open_entries]
            await self._admit(list(zip(parents, found, strict=True)))

    async def _neighbors(self, entries: Sequence[Entry], reader: NeighborReader) -> list[list[Any]]:
        with stage("expand", self.policy):
            answer = await self.policy.expand(self._state, tuple(entries), self._store)
            return await reader.read(answer, entries)

    async def _admit(self, found: Sequence[tuple[int, list[Any]]]) -> None:
        for parent, nodes in found:
            for start in range(0, len(nodes), SLICE):
                with stage("node_id", self.policy):
                    self._record.admit(nodes[start : start + SLICE], parent)
                await self._pacer.pace()

    async def _score(self) -> None:
        nodes = self._record.fresh_nodes()
        if nodes:
            with stage("score", self.policy):
                scores = await self.policy.score(self._state, nodes, self._store)
            self._record.score_fresh(scores)
            await self._pacer.pace()

    async def _select(self) -> list[int]:
        with stage("select", self.policy):
            picked = self.policy.select(self._state, self._record.frontier())
            return await read_selection(await picked if inspect.isawaitable(picked) else picked, self._record)

    def _is_open(self, entry: Entry) -> bool:
        return self._max_depth is None or entry.depth < self._max_depth

    # The look over the edge.

    def _edges_to_look_over(self) -> dict[str, list[Entry]]:
        """Give, by limit, the entries that were committed but not expanded because of it."""
        at_cap = self._at_cap + [entry for entry in self._step if not self._is_open(entry)]
        last = [entry for entry in self._step if self._is_open(entry)]
        edges = {"max_depth": at_cap}
        if self._stop in ("node_budget", "max_hits") and not self._tally.left_out[self._stop]:
            edges[self._stop] = last
        return {limit: entries for limit, entries in edges.items() if entries}

    async def _look_over(self) -> None:
        """Count, by one expansion after the last hit, the unknown nodes that a limit kept the walk from reaching."""
        edges = self._edges_to_look_over()
        if self._stop == "sufficient" or not edges:
            return
        if not self._limits.look_over:
            self._tally.unknown.update(edges)
            return
        counted = Tally()
        reader = NeighborReader(self._limits, counted)
        found = await self._neighbors([entry for entries in edges.values() for entry in entries], reader)
        for limit, entries in edges.items():
            mine, found = found[: len(entries)], found[len(entries) :]
            unknown: set[Hashable] = set()
            for nodes in mine:
                with stage("node_id", self.policy):
                    unknown |= self._record.unknown(nodes)
                await self._pacer.pace()
            self._tally.refuse(limit, len(unknown))
            if counted.left_out:
                self._tally.at_least.add(limit)


def _is_cancellation(error: BaseException) -> bool:
    """Say whether an error is the task's cancellation, alone or as the groups in which trio's nurseries wrap it."""
    kind = anyio.get_cancelled_exc_class()
    rest = error.split(kind)[1] if isinstance(error, BaseExceptionGroup) else error
    return rest is None or isinstance(rest, kind)


def _identity(hit: SearchHit) -> Hashable:
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index
