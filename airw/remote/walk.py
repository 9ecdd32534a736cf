"""`RemoteWalk`: a walk that a server walks, and whose hits arrive as they are committed."""

import json
import math
from collections import deque
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import EllipsisType
from typing import Any, Literal, Self

import anyio
import httpx

from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import AirwError, ArgumentError, RemoteError
from airw.protocols.wire import (
    COUNT,
    FLAG,
    NODE,
    NUMBER,
    OBJECT,
    TEXT,
    WireFault,
    list_of,
    map_of,
    optional,
    read_fields,
    unpack_hit,
)
from airw.remote.calls import CorpusServer, WalkGone, close_response, encode_json, error_of_problem, leave_stream
from airw.remote.frames import Frame, FrameReader
from airw.values import STOP_REASONS, Edge, Limits, SearchHit, StopReason
from airw.walking import LostCorpus, Walk, WalkPolicy, WalkSummary
from airw.walking.events import EdgeFound, NodeCommitted, StepDone, WalkEnded, WalkEvent, WalkEvents
from airw.walking.summary import check_bounds, check_extendable, check_raised

_BOUNDS = ("node_budget", "max_depth", "timeout")
_LATENESS = 10.0  # seconds after its deadline that a walk may be waited for, in all
_LONGEST_END = 0.5  # seconds
_MOST_EVENTS = 100  # read at once
_LONG_FRAME = 20_000  # characters; reading more takes about a millisecond


class RemoteWalk(Walk):
    """A walk that the server of a corpus walks, returned by `RemoteCorpus.traverse`.

    It is used as every walk is. Between two hits only a connection is open, on which the server waits: it walks no
    further than it may send. Closing the walk closes the connection, and the server stops within a step.
    """

    # It has the interface of a walk, and nothing of its working: it takes no steps.
    def __init__(self, server: CorpusServer, corpus: str, policy: WalkPolicy, fields: Mapping[str, Any]) -> None:
        """Prepare a walk; nothing is sent before the first request."""
        self._server, self._corpus, self._policy = server, corpus, policy
        self._fields = {**fields, "routers": True}  # a path leads through them
        self._label = server.label(corpus)
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._frames, self._ready = FrameReader(), deque[Frame]()
        self._scope: anyio.CancelScope | None = None
        self._stopped = anyio.Event()
        self._failure: Exception | None = None  # raised after the events that came before it
        self._deadline = self._late_at = math.inf  # and when the walk is given up
        self._late = anyio.CancelScope()
        self._left_at = math.nan  # when the consumer was last given something
        self._read_as = ""
        self._hits: list[SearchHit] = []
        self._parents: dict[Hashable, Hashable | None] = {}
        self._nodes: dict[Hashable, Hashable] = {}  # by the identity of a hit
        self._delivered: dict[Hashable, SearchHit] = {}  # by their nodes
        self._routed = 0
        self._progress = StepDone(0, 0, 0, 0)
        self._depth = 0
        self._start, self._seconds = math.nan, 0.0  # and the seconds before the walk went on
        self._summary: WalkSummary | None = None
        self._ranking: list[SearchHit] | None = None
        self.has_lost_items: bool = False  # see `WalkRun`
        self._token: str | None = None  # of the walk, if the server holds it
        self._sent: list[SearchHit] = []  # the hits as the server counts them
        self._sent_nodes = self._edges = 0
        self._repeated_nodes = self._repeated_edges = 0  # those that a walk from the beginning sends again

    @override
    def extend(
        self,
        *,
        node_budget: int | EllipsisType = ...,
        max_depth: int | EllipsisType | None = ...,
        timeout: float | EllipsisType | None = ...,
    ) -> Self:
        """Raise limits of a walk that has ended, and return the walk, as `Walk.extend` does.

        The server holds the walk for a while. If it no longer does, it walks again from the beginning, and the hits
        that have arrived before are left out. The hits are the same, but the calls of the store are made again.

        Raises:
            ArgumentError: If an argument cannot be used, or lowers a limit.
            WalkNotExtendable: If the walk cannot go on.
        """
        before = {
            "node_budget": self._fields["node_budget"],
            "max_depth": self._fields.get("max_depth", self._policy.max_depth),
            "timeout": self._fields.get("timeout"),
        }
        given = {"node_budget": node_budget, "max_depth": max_depth, "timeout": timeout}
        raised: dict[str, Any] = {name: value for name, value in given.items() if value is not ...}
        after = before | raised
        check_bounds(after["max_depth"], after["node_budget"], after["timeout"])
        for name, value in after.items():
            check_raised(name, value, before[name])
        check_extendable(
            self._summary,
            self._policy,
            Limits(**self._fields.get("limits", {})),
            max_depth=before["max_depth"],
            raises_depth=after["max_depth"] != before["max_depth"],
            has_lost_items=self.has_lost_items,
        )
        if raised.get("timeout") == math.inf:
            raised["timeout"] = None
        self._fields |= raised
        self._go_on()
        return self

    def _go_on(self) -> None:
        """Take back the end of the walk; its clock runs on with the next request."""
        self._seconds = 0.0 if self._summary is None else self._summary.seconds
        self._summary = self._ranking = self._failure = None
        self._frames, self._ready = FrameReader(), deque[Frame]()
        self._late_at = math.inf

    @override
    async def __anext__(self) -> SearchHit:
        """Return the next hit.

        Raises:
            StopAsyncIteration: If the walk has ended.
            RuntimeError: If another task is waiting for a hit, or the walk is read as events.
            AirwError: What went wrong on the server.
            RemoteError: If the server cannot be reached, was lost, or sends what cannot be used.
        """
        for hit in await self._read_ready(most=1):
            return hit
        raise StopAsyncIteration

    @override
    async def _read_ready(self, *, most: int = _MOST_EVENTS) -> list[SearchHit]:
        while events := await self.read_events("hits", most=most):
            if hits := [event.hit for event in events if isinstance(event, NodeCommitted) and event.hit is not None]:
                return hits
        return []

    @override
    async def aclose(self) -> None:
        """Close the walk and its connection.

        If another task is waiting for a hit, its loop over the walk ends.
        """
        if self._scope is not None:
            self._end("closed")
            self._scope.cancel()
            await self._stopped.wait()
        await self._close("closed")

    @property
    @override
    def policy(self) -> WalkPolicy:
        """The policy of the walk."""
        return self._policy

    @property
    @override
    def summary(self) -> WalkSummary | None:
        """Why the walk ended and how much it left out; `None` until it has ended.

        It is that of the server. If the walk is closed or fails, it has the counts that had arrived by then.
        """
        return self._summary

    @property
    @override
    def ranking(self) -> list[SearchHit] | None:
        """The hits in the policy's final order, best first; `None` until the walk has ended.

        If the walk is closed or fails, it is the order of the scores.
        """
        if self._ranking is None and self._summary is not None:
            self._ranking = sorted(self._hits, key=lambda hit: -hit.score)
        return self._ranking

    @override
    def path(self, hit: SearchHit) -> list[Hashable]:
        node = self._nodes.get(id(hit), self._nodes.get(_surface_of(hit)))
        if node is None:
            raise ArgumentError(
                f"hit {short_repr(hit.artifact_id)} is not of this walk; pass a hit that the walk yielded"
            )
        path = [node]
        while (node := self._parents[node]) is not None:
            path.append(node)
        return path[::-1]

    @override
    def events(self, *, edges: bool = True) -> "RemoteWalkEvents":
        if self._read_as:
            raise RuntimeError("this walk is being read already; call events() before the first request")
        self._read_as = "events"
        self._fields["edges"] = edges
        return RemoteWalkEvents(self)

    async def read_events(self, form: str, *, most: int = _MOST_EVENTS) -> list[WalkEvent]:
        """Return the events that have arrived, at least one; none at the end.

        Args:
            form: What the walk is read as.
            most: The largest number of events.

        Raises:
            RuntimeError: If another task is waiting, or the walk is read in another form.
            AirwError: What went wrong on the server, or on the way.
        """
        if self._scope is not None:
            raise RuntimeError("another task is waiting for this walk; use airw.prefetch to read ahead")
        self._read_as = self._read_as or form
        if self._read_as != form:
            raise RuntimeError(f"this walk is read as {self._read_as}; read its {self._read_as}, or start another walk")
        if self._summary is not None:
            return []
        # A consumer may take its time, and all other time after the deadline counts, whatever the server sends.
        if not math.isnan(self._left_at):
            self._late_at += max(0.0, anyio.current_time() - max(self._left_at, self._deadline))
        events: list[WalkEvent] = []
        self._stopped = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                events = await self._next_events(most)
        except BaseException as error:
            await self._close("failed" if isinstance(error, Exception) else "closed")
            raise
        finally:
            self._scope = None
            self._stopped.set()
        if events and isinstance(events[-1], WalkEnded):
            await self._finish()
        self._left_at = anyio.current_time()
        return events

    async def _next_events(self, most: int) -> list[WalkEvent]:
        if self._failure is not None:
            raise self._failure
        events: list[WalkEvent] = []
        try:
            with anyio.CancelScope(deadline=self._late_at) as self._late:
                await self._collect(events, most)
            if self._late.cancelled_caught:
                raise self._lateness()
        except WireFault as fault:
            failure = RemoteError(f"{self._label} sent an event that cannot be used: {fault}")
            failure.__cause__ = fault
            self._failure = failure
        except AirwError as error:
            self._failure = error
        if self._failure is not None and not events:
            raise self._failure
        return events

    async def _collect(self, events: list[WalkEvent], most: int) -> None:
        """Append the events that have arrived, at least one."""
        if self._response is None:
            self._response = await self._start_stream()
            self._pieces = self._response.aiter_raw()
        while not events or (self._ready and len(events) < most):
            while not self._ready:
                await self._read_piece()
            frame = self._ready.popleft()
            event = await offload_if(len(frame.data) > _LONG_FRAME, self._read_frame, frame)
            if event is not None:
                events.append(event)

    async def _start_stream(self) -> httpx.Response:
        """Begin the walk on the server, or let it go on."""
        token, self._token = self._token, None
        if token is not None:
            bounds = {name: self._fields[name] for name in _BOUNDS if name in self._fields}
            body = await encode_json({"continue": token, **bounds})
            self._start_clock(self._seconds)
            with suppress(WalkGone):
                return await self._server.start_stream("/traverse/continue", of=self._corpus, body=body)
        # What has arrived before is sent again.
        self._sent, self._sent_nodes = [], 0
        self._repeated_nodes, self._repeated_edges = len(self._parents), self._edges
        self._start_clock(0.0)
        body = await encode_json({"corpus": self._corpus, **self._fields})
        return await self._server.start_stream("/traverse", of=self._corpus, body=body)

    def _start_clock(self, seconds: float) -> None:
        """Start the clock of the walk, of which so many seconds are over."""
        timeout = self._fields.get("timeout")
        self._start = anyio.current_time() - seconds
        self._deadline = self._start + (math.inf if timeout is None else timeout)
        self._late_at = self._late.deadline = self._deadline + _LATENESS

    async def _read_piece(self) -> None:
        assert self._pieces is not None  # noqa: S101 - for the type checker
        with self._server.translate_errors(self._label):
            piece = await anext(self._pieces, None)
        if piece is None:
            raise RemoteError(f"{self._label} ended the stream of a walk before the end of the walk")
        self._ready.extend(self._frames.feed(piece))
        if anyio.current_time() > self._late_at:  # pieces that are there already may leave no moment to be cancelled
            raise self._lateness()

    def _lateness(self) -> RemoteError:
        return RemoteError(f"{self._label} walks on after the deadline of the walk")

    def _read_frame(self, frame: Frame) -> WalkEvent | None:
        """Return the event of a frame; `None` for one of a kind that is not known.

        Raises:
            WireFault: If it is not of the form of its kind.
            AirwError: The error that ended the walk on the server.
        """
        try:
            data = json.loads(frame.data)
        except (ValueError, RecursionError) as error:
            raise WireFault("it is not JSON") from error
        if not isinstance(data, dict):
            raise WireFault("it is not an object")
        match frame.event:
            case "hit" | "router":
                return self._read_node(data, is_hit=frame.event == "hit")
            case "edge":
                edge = _read_edge(data)
                if self._repeated_edges > 0:
                    self._repeated_edges -= 1
                    return None
                self._edges += 1
                return edge
            case "progress" if self._repeated_nodes <= 0:
                self._progress = read_fields(StepDone, data)
                return self._progress
            case "summary":
                self._summary = _read_summary(data)
                self._ranking = self._read_ranking(data)
                self._token = optional(TEXT)(data.get("continue"))
                return WalkEnded(self._summary)
            case "error":
                raise error_of_problem(data, self._label, self._server.redact)
        return None

    def _read_node(self, data: dict[str, Any], *, is_hit: bool) -> NodeCommitted | None:
        hit = unpack_hit(data, source=self._corpus) if is_hit else None
        depth, score = COUNT(data.get("depth")), optional(NUMBER)(data.get("score"))
        node, parent = NODE(data.get("id")), optional(NODE)(data.get("parent"))
        if parent is not None and parent not in self._parents:
            raise WireFault(f"the node {short_repr(node)} has the parent {short_repr(parent)}, which was not sent")
        # Of a server that never stops, no more is kept than was asked for.
        self._sent_nodes += 1
        if self._sent_nodes > self._fields["node_budget"]:
            raise WireFault(f"the walk has more nodes than its budget of {self._fields['node_budget']:,}")
        if self._repeated_nodes > 0 and node in self._parents:
            self._repeated_nodes -= 1
            if hit is not None:
                self._sent.append(self._delivered.get(node, hit))
            return None
        self._repeated_nodes = self._repeated_edges = 0
        self._parents.setdefault(node, parent)
        if hit is None:
            self._routed += 1
        else:
            self._hits.append(hit)
            self._sent.append(hit)
            self._delivered[node] = hit
            self._nodes[id(hit)] = node
            self._nodes.setdefault(_surface_of(hit), node)
        self._depth = max(self._depth, depth)
        return NodeCommitted(node, depth, math.nan if score is None else score, parent, hit)

    def _read_ranking(self, data: Mapping[str, Any]) -> list[SearchHit]:
        ranking = []
        for entry in list_of(OBJECT)(data.get("ranking")):
            place = COUNT(entry.get("hit"))
            if not 0 <= place < len(self._sent):
                raise WireFault(f"its ranking names the hit {place}, and there are {len(self._sent)}")
            ranking.append(self._read_ranked(self._sent[place], entry))
        return ranking

    def _read_ranked(self, hit: SearchHit, entry: Mapping[str, Any]) -> SearchHit:
        """Return a hit as the ranking has it: perhaps with another score, or replaced."""
        if entry.get("replaced") is not None:
            return unpack_hit(entry["replaced"], source=self._corpus)
        score, metadata = optional(NUMBER)(entry.get("score")), entry.get("metadata")
        if metadata is None and (score is None or score == hit.score):
            return hit
        changed = OBJECT({} if metadata is None else metadata)
        return replace(hit, score=hit.score if score is None else score, metadata={**hit.metadata, **changed})

    async def _finish(self) -> None:
        """Read the end of the stream, so that its connection can be used again."""
        with anyio.move_on_after(_LONGEST_END), suppress(RemoteError), self._server.translate_errors(self._label):
            # Nothing more is expected: a piece that comes all the same ends the reading.
            if self._pieces is not None and await anext(self._pieces, None) is None:
                self._pieces = None
        await self._close("closed")

    async def _close(self, stop: StopReason) -> None:
        self._end(stop)
        response, self._response = self._response, None
        pieces, self._pieces = self._pieces, None
        if response is not None:
            if pieces is not None:
                await leave_stream(pieces)
            await close_response(response)

    def _end(self, stop: StopReason) -> None:
        """Note why the walk has ended, unless that is known."""
        if self._summary is None:
            seconds = 0.0 if math.isnan(self._start) else anyio.current_time() - self._start
            steps, edges = self._progress.step, self._progress.edges
            self._summary = WalkSummary(
                stop,
                emitted=len(self._hits),
                routed=self._routed,
                steps=steps,
                edges=edges,
                depth=self._depth,
                seconds=seconds,
                left_out={},
                at_least=(),
                unknown=(),
            )


class RemoteWalkEvents(WalkEvents):
    """The events of a walk on a server, returned by `RemoteWalk.events`."""

    def __init__(self, walk: RemoteWalk) -> None:
        self._walk = walk

    @override
    async def __anext__(self) -> WalkEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: If the walk has ended.
            AirwError: What went wrong on the server, or on the way.
        """
        for event in await self._walk.read_events("events", most=1):
            return event
        raise StopAsyncIteration

    @override
    async def aclose(self) -> None:
        await self._walk.aclose()

    @override
    async def read_batch(self) -> list[WalkEvent]:
        """Return the events that have arrived, at least one and at most 100; none at the end."""
        return await self._walk.read_events("events")


def _surface_of(hit: SearchHit) -> Hashable:
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index


def _read_edge(data: Mapping[str, Any]) -> EdgeFound:
    source, target = (NODE(data.get(name)) for name in ("source", "target"))
    kind, origin = (optional(TEXT)(data.get(name)) for name in ("edge_type", "origin"))
    weight = NUMBER(data.get("weight", 1.0))
    edge = None if kind is None or origin is None else Edge(source, target, kind, origin, weight)
    return EdgeFound(source, target, kind, FLAG(data.get("known")), edge)


def _read_summary(data: Mapping[str, Any]) -> WalkSummary:
    if (stop := TEXT(data.get("stop"))) not in STOP_REASONS:
        raise WireFault(f"a walk does not stop for the reason {stop!r}")
    lost = []
    for each in list_of(map_of(TEXT))(data.get("lost")):
        status: Literal["failed", "timeout"] = "timeout" if each.get("status") == "timeout" else "failed"
        lost.append(LostCorpus(each.get("name", ""), status, each.get("error", "")))
    summary: WalkSummary = read_fields(WalkSummary, data, lost=tuple(lost))
    return summary
