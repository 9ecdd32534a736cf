"""`sse`: a walk as a stream of server-sent events, written while the walk goes on."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, TypeAlias

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message as ASGIMessage, Receive, Scope, Send

from airw._base.checks import check_count, check_seconds
from airw._base.concurrency import first_error, offload_if, take_turn
from airw._base.json import iter_json
from airw._base.messages import short_repr
from airw.discovery.discovery import DiscoveryStream
from airw.errors import ArgumentError
from airw.protocols.wire import EVENT_STREAM
from airw.serving.answers import PIECE, ClientGone, send_within
from airw.serving.ending import Ending
from airw.serving.logs import RequestRecord, record_of
from airw.serving.paths import hide_paths
from airw.serving.problems import ServerStopping, describe_problem
from airw.serving.service import answer_error, log_failure
from airw.serving.stream_budgets import StreamBudget
from airw.serving.stream_messages import DiscoveryMessages, Message, Messages, WalkMessages
from airw.serving.ui_messages import UI_HEADERS, encode_ui_message, wants_ui_messages
from airw.serving.walk_keeper import WalkKeeper
from airw.walking import Walk

END = "end"
"""The id of the last event."""
MOST_DIGITS = 15
"""The digits of the id of an event at most."""

_HEARTBEAT = b": \n\n"
_LONG = 16  # messages of usual length; encoding more of them takes about a millisecond


def sse(
    stream: Walk | DiscoveryStream,
    *,
    edges: bool = False,
    best: int | None = None,
    max_hits: int | None = None,
    max_chars: int | None = None,
    max_tokens: int | None = None,
    heartbeat: float = 15.0,
    max_stall: float = 60.0,
) -> Response:
    """Return a response that sends each hit of a walk as a server-sent event.

    Any endpoint of Starlette or FastAPI can return it. The walk works while the response is sent, one step after the
    other, and no further than the buffers of the connection hold. If the client goes away, the walk stops at once.

    ```text
    hit        a hit, with its path
    progress   a step is done
    summary    the walk has ended: why, what was left out, and the final order of the hits
    error      the walk has failed
    edge       an edge that was read, and `router` a node without a hit; both with `edges` only
    best       the best hits so far; with `best` only
    ```

    A discovery sends a `source` for each answer, and its `result` at the end.

    A walk that fails before its first event gets the answer of an error instead, such as 404. The last event has the id
    `end`. A client that reconnects sends the id of the last event it has: the walk is then walked again, and the events
    up to there are left out. After `end`, the answer is 204, and an `EventSource` stops.

    A client that asks for `text/event-stream; format=ui-messages`, or sends `x-vercel-ai-ui-message-stream: v1`, gets
    the UI message stream of the AI SDK.

    Args:
        stream: A walk, as `airw.traverse` returns it, or what `airw.discover_stream` returns. The response closes it.
        edges: Send the edges and the routers of a walk, too, to draw it.
        best: Send the best so many hits whenever they change, instead of each hit. A list of more than ten may come
            later: for each hit that was found, at most ten are sent. The last list is that of the final ranking.
        max_hits: The number of hits to send at most.
        max_chars: The number of characters of their texts. The first hit that does not fit is cut, and ends the stream.
        max_tokens: The number of tokens of their texts, as `airw.views.estimate_tokens` estimates them.
        heartbeat: The number of seconds without an event after which a comment is sent, so that proxies keep the
            connection.
        max_stall: The number of seconds that a client may take no data before the stream is cut.

    Raises:
        ArgumentError: If an argument cannot be used.
        RuntimeError: If the walk is being read already.

    Example:
        >>> import airw
        >>> async def find(request):
        ...     return sse(airw.traverse(request.query_params["q"], corpus, timeout=10))
    """
    budget = StreamBudget(max_hits=max_hits, max_chars=max_chars, max_tokens=max_tokens)
    return EventStream(
        to_messages(stream, edges=edges, routers=edges, best=best, budget=budget),
        heartbeat=check_seconds("heartbeat", heartbeat),
        max_stall=check_seconds("max_stall", max_stall),
    )


def to_messages(
    stream: object,
    *,
    edges: bool,
    routers: bool,
    best: int | None,
    budget: StreamBudget,
    keeper: WalkKeeper | None = None,
) -> Messages:
    """Return the messages of a walk or a discovery.

    Raises:
        ArgumentError: If it is neither, or the arguments do not fit together.
    """
    if not isinstance(stream, Walk | DiscoveryStream):
        raise ArgumentError(
            f"stream must be a walk, as airw.traverse returns it, or a DiscoveryStream, not {short_repr(stream)}"
        )
    if best is not None:
        check_count("best", best, least=1)
        if not budget.is_unlimited:
            raise ArgumentError("best sends whole lists of hits, so it takes no budget; leave out one of both")
    if isinstance(stream, Walk):
        return WalkMessages(stream, edges=edges, routers=routers, best=best, budget=budget, keeper=keeper)
    if edges or best is not None or not budget.is_unlimited:
        raise ArgumentError("edges, best and budgets are for walks; a discovery has k and max_k")
    return DiscoveryMessages(stream)


class EventStream(Response):
    """The response that `sse` returns.

    Args:
        messages: What to send, in a block of its own.
        heartbeat: The number of seconds without an event after which a comment is sent.
        max_stall: The number of seconds that the client may take no data.
        admit: Returns a block in which the stream may run; it raises an error if it may not.
        hide: Returns JSON without what the client must not see.
        ending: Tells that the server is going to stop.
    """

    media_type = EVENT_STREAM

    def __init__(
        self,
        messages: AbstractAsyncContextManager[Messages],
        *,
        heartbeat: float,
        max_stall: float,
        admit: Callable[[], AbstractContextManager[None]] = nullcontext,
        hide: Callable[[Any], Any] = hide_paths,
        ending: Ending | None = None,
    ) -> None:
        # Not the constructor of `Response`, which would count the bytes of a body.
        self.status_code: int = 200
        self.background: None = None
        self.messages: AbstractAsyncContextManager[Messages] = messages
        self.heartbeat: float = heartbeat
        self.max_stall: float = max_stall
        self.hide: Callable[[Any], Any] = hide
        self.ending: Ending = ending or Ending()
        self._admit = admit
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; what it reads from is closed at the end."""
        headers = Headers(scope=scope)
        try:
            skipped = _parse_last_id(headers.get("last-event-id"))
            if skipped is None:
                await Response(status_code=204)(scope, receive, send)
                return
            encode: Encode = encode_event
            if wants_ui_messages(headers):
                self.headers.update(UI_HEADERS)
                encode = encode_ui_message
            sending = _Sending(self, encode, skipped, send, record_of(scope))
            if scope["method"] == "HEAD":
                await sending.send(b"", more=False)
                return
            with self._admit():
                await sending.run(receive)
        except Exception as error:  # noqa: BLE001 - nothing was sent yet, so the error is the answer
            await answer_error(error)(scope, receive, send)


Encode: TypeAlias = Callable[[int, Message, Any], str]
"""Returns a message as text, from its number, itself and its data."""


def encode_event(number: int, message: Message, data: Any) -> str:
    r"""Return a message as one server-sent event.

    Example:
        >>> message = Message("progress", dict)
        >>> print(encode_event(3, message, {"text": "one\nline"}), end="")
        id: 3
        event: progress
        data: {"text": "one\nline"}
        <BLANKLINE>
    """
    # JSON escapes what ends a line, so a text of a document can neither end an event nor begin one.
    # Without an id, a client that reconnects goes on after the event before.
    has_id = message.is_last or message.kind != "error"
    id_line = f"id: {END if message.is_last else number}\n" if has_id else ""
    text = "".join(iter_json(data))
    return f"{id_line}event: {message.kind}\ndata: {text}\n\n"


def _parse_last_id(last_id: str | None) -> int | None:
    """Return how many events a client has already; `None` if it has them all."""
    if last_id == END:
        return None
    if not last_id:
        return 0
    if not last_id.isdecimal() or not last_id.isascii() or len(last_id) > MOST_DIGITS:
        raise ArgumentError(f"Last-Event-ID must be the id of an event of this stream, not {short_repr(last_id)}")
    return int(last_id)


class _Sending:
    """The sending of one stream to one client.

    The status and the headers leave with the first bytes. So a stream that fails before can still be another answer.
    """

    def __init__(self, stream: EventStream, encode: Encode, skipped: int, send: Send, record: RequestRecord) -> None:
        self._stream, self._encode, self._skipped = stream, encode, skipped
        self._send, self._record = send, record
        self._turn = anyio.Lock(fast_acquire=True)
        self._has_started = False
        self._count = 0  # messages so far, those of earlier streams included
        self._messages: Messages | None = None
        self._last_sent = anyio.current_time()

    async def run(self, receive: Receive) -> None:
        """Send all messages; stop if the client goes away.

        Raises:
            Exception: The failure of a stream from which nothing was sent.
        """
        failure = None
        stop: str | None = "disconnected"
        with suppress(ClientGone), first_error():
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, receive, group.cancel_scope)
                group.start_soon(self._beat)
                try:
                    stop = await self._send_all()
                except ClientGone:
                    pass
                except Exception as error:  # noqa: BLE001 - raised below, and not as a group
                    failure, stop = error, "failed"
                group.cancel_scope.cancel()
        if self._messages is not None and self._messages.stop is not None and stop is not None:
            self._record.stop = stop
        if failure is not None:
            raise failure

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        """Stop everything once the client has gone away."""
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _beat(self) -> None:
        """Send a comment whenever nothing was sent for a while."""
        while True:
            await anyio.sleep_until(self._last_sent + self._stream.heartbeat)
            async with self._turn:
                if anyio.current_time() >= self._last_sent + self._stream.heartbeat:
                    await self._send_pieces(_HEARTBEAT, more=True)

    async def _send_all(self) -> str | None:
        """Send everything; return why the walk ended, if there is one."""
        try:
            async with self._stream.messages as messages:
                self._messages, self._count = messages, messages.earlier
                return await self._send_messages(messages)
        except ClientGone:
            raise
        except Exception as error:
            async with self._turn:  # a heartbeat may be about to start the answer
                has_started = self._has_started
            if not has_started:
                raise
            log_failure(error)
            # After a failure, a client must not reconnect to fail again; when a server stops, it shall.
            is_last = not isinstance(error, ServerStopping)
            message = Message("error", partial(describe_problem, error), is_last=is_last)
            await self.send(await self._encode_all([message]), more=False)
            return "failed" if is_last else "stopping"

    async def _send_messages(self, messages: Messages) -> str | None:
        """Send the messages of each step before the next step begins.

        Raises:
            ServerStopping: If the server is going to stop.
        """
        while True:
            ready: list[Message] = []
            with self._stream.ending.scope():
                ready = await messages.read()
            is_last = bool(ready) and ready[-1].is_last
            first = self._count + 1
            await take_turn()  # encoding and sending are work, too
            await self.send(await self._encode_all(ready), more=not is_last)
            self._count_hits(ready, first)
            if is_last:
                return messages.stop
            if self._stream.ending.is_near:
                raise ServerStopping("the server is going to stop; ask again")

    def _count_hits(self, messages: Sequence[Message], first: int) -> None:
        for number, message in enumerate(messages, first):
            if number > self._skipped and message.kind in ("hit", "best"):
                self._record.count_hit()

    async def _encode_all(self, messages: Sequence[Message]) -> bytes:
        first = self._count + 1
        self._count += len(messages)
        is_long = sum(message.weight for message in messages) > _LONG
        return await offload_if(is_long, self._encode_now, messages, first)

    def _encode_now(self, messages: Sequence[Message], first: int) -> bytes:
        return "".join(
            self._encode(number, message, self._stream.hide(message.make_data()))
            for number, message in enumerate(messages, first)
            if number > self._skipped or message.is_last
        ).encode()

    async def send(self, data: bytes, *, more: bool) -> None:
        """Send data, after the headers if they have not left yet; wait until the client takes it.

        Raises:
            ClientGone: If the client has gone away, or takes nothing for `max_stall` seconds.
        """
        if data or not more:
            async with self._turn:
                await self._send_pieces(data, more=more)

    async def _send_pieces(self, data: bytes, *, more: bool) -> None:
        # Pieces, so that a client that reads slowly is not taken for one that does not read.
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)] or [b""]
        if not self._has_started:
            self._has_started = True
            headers = self._stream.raw_headers
            await self._deliver({"type": "http.response.start", "status": 200, "headers": headers})
        for index, piece in enumerate(pieces):
            is_more = more or index < len(pieces) - 1
            await self._deliver({"type": "http.response.body", "body": piece, "more_body": is_more})
        self._last_sent = anyio.current_time()

    async def _deliver(self, message: ASGIMessage) -> None:
        await send_within(self._send, message, seconds=self._stream.max_stall)
