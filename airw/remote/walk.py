"""`RemoteWalk`: a walk that a server walks, and whose hits arrive as they are committed."""

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
import httpx

from airw._base.concurrency import offload_if
from airw.errors import RemoteError
from airw.remote.calls import CorpusServer, close_response, encode_json, error_of_problem, leave_stream
from airw.remote.frames import Frame, FrameReader
from airw.remote.wire import (
    COUNT,
    FLAG,
    NODE,
    NUMBER,
    TEXT,
    TEXTS,
    VALUE,
    WireFault,
    list_of,
    map_of,
    optional,
    unpack_hit,
)
from airw.values import STOP_REASONS, Edge, SearchHit, StopReason
from airw.walking import LostCorpus, WalkSummary
from airw.walking.events import EdgeFound, NodeCommitted, StepDone, WalkEnded, WalkEvent

_LATENESS = 10.0  # seconds after its deadline that a walk may be waited for, in all
_LONGEST_END = 0.5  # seconds
_LONG_FRAME = 20_000  # characters; reading more takes about a millisecond


class RemoteWalk(AsyncGenerator[SearchHit, None]):
    """A walk that the server of a corpus walks, returned by `RemoteCorpus.traverse`.

    It is an async generator of hits, as the walks of `airw.traverse` are, and an async context manager that closes
    itself. Between two hits only a connection is open, on which the server waits: it walks no further than it may send.
    Closing the walk closes the connection, and the server stops within a step.
    """

    def __init__(self, server: CorpusServer, corpus: str, fields: Mapping[str, Any]) -> None:
        """Prepare a walk; nothing is sent before the first request."""
        self._server, self._corpus, self._fields = server, corpus, dict(fields)
        self._label = server.label(corpus)
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._frames, self._ready = FrameReader(), deque[Frame]()
        self._scope: anyio.CancelScope | None = None
        self._stopped = anyio.Event()
        self._grace = _LATENESS
        self._read_as = ""
        self._hits: list[SearchHit] = []
        self._routed = 0
        self._progress = StepDone(0, 0, 0, 0)
        self._depth = 0
        self._start = math.nan
        self._summary: WalkSummary | None = None
        self._ranking: list[SearchHit] | None = None

    async def __aenter__(self) -> Self:
        """Return the walk itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walk."""
        await self.aclose()

    async def __anext__(self) -> SearchHit:
        """Return the next hit.

        Raises:
            StopAsyncIteration: If the walk has ended.
            RuntimeError: If another task is waiting for a hit, or the walk is read as events.
            AirwError: What went wrong on the server.
            RemoteError: If the server cannot be reached, was lost, or sends what cannot be used.
        """
        while (event := await self.read_event("hits")) is not None:
            if isinstance(event, NodeCommitted) and event.hit is not None:
                return event.hit
        raise StopAsyncIteration

    def asend(self, value: None, /) -> Coroutine[Any, Any, SearchHit]:
        """Return the next hit, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> SearchHit:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise _to_exception(typ, val, tb)

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
    def summary(self) -> WalkSummary | None:
        """Why the walk ended and how much it left out; `None` until it has ended.

        It is that of the server. If the walk is closed or fails, it has the counts that had arrived by then.
        """
        return self._summary

    @property
    def ranking(self) -> list[SearchHit] | None:
        """The hits in the policy's final order, best first; `None` until the walk has ended."""
        if self._ranking is None and self._summary is not None:
            self._ranking = sorted(self._hits, key=lambda hit: -hit.score)
        return self._ranking

    def events(self) -> "RemoteWalkEvents":
        """Return the walk as a stream of events instead of hits, for drawing or logging it.

        An edge has the direction in which it was walked. Call it before the first hit is requested.

        Raises:
            RuntimeError: If hits or events of this walk were requested before.
        """
        if self._read_as:
            raise RuntimeError("this walk is being read already; call events() before the first request")
        self._read_as, self._fields["edges"] = "events", True
        return RemoteWalkEvents(self)

    async def read_event(self, form: str) -> WalkEvent | None:
        """Return the next event; `None` at the end.

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
            return None
        event: WalkEvent | None = None
        self._stopped = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                event = await self._next_event()
        except BaseException as error:
            await self._close("failed" if isinstance(error, Exception) else "closed")
            raise
        finally:
            self._scope = None
            self._stopped.set()
        if isinstance(event, WalkEnded):
            await self._finish()
        return event

    async def _next_event(self) -> WalkEvent:
        if self._response is None:
            self._start = anyio.current_time()
            body = await encode_json({"corpus": self._corpus, **self._fields})
            self._response = await self._server.start_stream("/traverse", of=self._corpus, body=body)
            self._pieces = self._response.aiter_raw()
        deadline = self._start + self._fields.get("timeout", math.inf)
        try:
            while True:
                while not self._ready:
                    await self._read_piece(deadline)
                frame = self._ready.popleft()
                event = await offload_if(len(frame.data) > _LONG_FRAME, self._read_frame, frame)
                if event is not None:
                    return event
        except WireFault as fault:
            raise RemoteError(f"{self._label} sent an event that cannot be used: {fault}") from fault

    async def _read_piece(self, deadline: float) -> None:
        assert self._pieces is not None  # noqa: S101 - for the type checker
        piece: bytes | None = b""
        start = anyio.current_time()
        seconds = max(deadline - start, 0.0) + self._grace
        with anyio.move_on_after(seconds) as scope, self._server.translate_errors(self._label):
            piece = await anext(self._pieces, None)
        # A server that does not keep the deadline is waited for once, whatever it sends. A consumer may take its time.
        self._grace -= max(0.0, anyio.current_time() - max(deadline, start))
        if scope.cancelled_caught or self._grace <= 0:
            raise RemoteError(f"{self._label} walks on after the deadline of the walk")
        if piece is None:
            raise RemoteError(f"{self._label} ended the stream of a walk before the end of the walk")
        self._ready.extend(self._frames.feed(piece))

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
                return _read_edge(data)
            case "progress":
                counts = (COUNT.unpack(data.get(name)) for name in ("step", "committed", "edges", "waiting"))
                self._progress = StepDone(*counts)
                return self._progress
            case "summary":
                self._summary = _read_summary(data)
                self._ranking = self._read_ranking(data)
                return WalkEnded(self._summary)
            case "error":
                raise error_of_problem(data, self._label, self._server.redact)
        return None

    def _read_node(self, data: dict[str, Any], *, is_hit: bool) -> NodeCommitted:
        hit = unpack_hit(data, source=self._corpus) if is_hit else None
        depth, score = COUNT.unpack(data.get("depth")), optional(NUMBER).unpack(data.get("score"))
        if hit is None:
            self._routed += 1
        else:
            self._hits.append(hit)
        # Of a server that never stops, no more is kept than was asked for.
        if len(self._hits) + self._routed > self._fields["node_budget"]:
            raise WireFault(f"the walk has more nodes than its budget of {self._fields['node_budget']:,}")
        self._depth = max(self._depth, depth)
        parent = optional(NODE).unpack(data.get("parent"))
        return NodeCommitted(NODE.unpack(data.get("id")), depth, math.nan if score is None else score, parent, hit)

    def _read_ranking(self, data: Mapping[str, Any]) -> list[SearchHit]:
        ranking = []
        for entry in list_of(map_of(VALUE)).unpack(data.get("ranking")):
            place = COUNT.unpack(entry.get("hit"))
            if not 0 <= place < len(self._hits):
                raise WireFault(f"its ranking names the hit {place}, and there are {len(self._hits)}")
            ranking.append(self._read_ranked(self._hits[place], entry))
        return ranking

    def _read_ranked(self, hit: SearchHit, entry: Mapping[str, Any]) -> SearchHit:
        """Return a hit as the ranking has it: perhaps with another score, or replaced."""
        if entry.get("replaced") is not None:
            return unpack_hit(entry["replaced"], source=self._corpus)
        score, metadata = optional(NUMBER).unpack(entry.get("score")), entry.get("metadata")
        if metadata is None and (score is None or score == hit.score):
            return hit
        changed = map_of(VALUE).unpack({} if metadata is None else metadata)
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


class RemoteWalkEvents(AsyncGenerator[WalkEvent, None]):
    """The events of a walk on a server, returned by `RemoteWalk.events`."""

    def __init__(self, walk: RemoteWalk) -> None:
        self._walk = walk

    async def __anext__(self) -> WalkEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: If the walk has ended.
            AirwError: What went wrong on the server, or on the way.
        """
        event = await self._walk.read_event("events")
        if event is None:
            raise StopAsyncIteration
        return event

    def asend(self, value: None, /) -> Coroutine[Any, Any, WalkEvent]:
        """Return the next event, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> WalkEvent:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise _to_exception(typ, val, tb)

    async def aclose(self) -> None:
        """Close the walk."""
        await self._walk.aclose()


def _to_exception(typ: Any, val: Any, tb: TracebackType | None) -> BaseException:
    error: BaseException = typ if isinstance(typ, BaseException) else typ() if val is None else val
    return error if tb is None else error.with_traceback(tb)


def _read_edge(data: Mapping[str, Any]) -> EdgeFound:
    source, target = (NODE.unpack(data.get(name)) for name in ("source", "target"))
    kind, origin = (optional(TEXT).unpack(data.get(name)) for name in ("edge_type", "origin"))
    weight = NUMBER.unpack(data.get("weight", 1.0))
    edge = None if kind is None or origin is None else Edge(source, target, kind, origin, weight)
    return EdgeFound(source, target, kind, FLAG.unpack(data.get("known")), edge)


def _read_summary(data: Mapping[str, Any]) -> WalkSummary:
    stop = TEXT.unpack(data.get("stop"))
    if stop not in STOP_REASONS:
        raise WireFault(f"a walk does not stop for the reason {stop!r}")
    names = ("emitted", "routed", "steps", "edges", "depth")
    counts: dict[str, Any] = {name: COUNT.unpack(data.get(name)) for name in names}
    lost = [_read_lost(each) for each in list_of(map_of(TEXT)).unpack(data.get("lost"))]
    return WalkSummary(
        stop=stop,
        **counts,
        seconds=float(NUMBER.unpack(data.get("seconds"))),
        left_out=map_of(COUNT).unpack(data.get("left_out")),
        at_least=tuple(TEXTS.unpack(data.get("at_least"))),
        unknown=tuple(TEXTS.unpack(data.get("unknown"))),
        lost=tuple(lost),
        improved=COUNT.unpack(data.get("improved")),
    )


def _read_lost(data: Mapping[str, str]) -> LostCorpus:
    status = data.get("status")
    return LostCorpus(data.get("name", ""), "timeout" if status == "timeout" else "failed", data.get("error", ""))
