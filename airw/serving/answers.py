"""Answers in JSON: encoded and sent in pieces, under a budget of unread bytes."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from airw._base.json import dump_json, iter_json
from airw.protocols.wire import JSON_TYPE
from airw.serving.limits import ServingLimits
from airw.serving.metrics import Metrics
from airw.serving.problems import AnswerTooLarge, TooManyRequests, problem

PIECE = 32_768
"""The bytes that are sent at once."""

_SHORT = 2 * PIECE  # bytes that the buffers of a connection take at once
_MOMENT = 1.0  # seconds without progress after which an answer may be cut for others
_RETRY_AFTER = 1  # seconds


class ClientGone(Exception):
    """The client has gone away, or takes no data."""


async def send_within(send: Send, message: Message, *, seconds: float) -> None:
    """Send a part of an answer; wait until the client takes it.

    Raises:
        ClientGone: If the client has gone away, or takes nothing for so many seconds.
    """
    with anyio.move_on_after(seconds) as scope:
        try:
            await send(message)
        except OSError as error:  # from servers that report a lost connection
            raise ClientGone from error
    if scope.cancelled_caught:
        raise ClientGone


def encode_pieces(value: Any, dump: Callable[[Any], str] = dump_json, *, most: int) -> list[bytes]:
    """Return the JSON of a value in pieces of about 32 KiB.

    Other threads can work in between; see `airw._base.json.iter_json`.

    Args:
        value: The value.
        dump: Returns the JSON of a part of it.
        most: The largest number of bytes.

    Raises:
        AnswerTooLarge: If it has more.
    """
    pieces, piece, size = [], bytearray(), 0
    for text in iter_json(value, dump):
        piece += text.encode()
        if size + len(piece) > most:
            raise AnswerTooLarge(f"the answer has more than {most:,} bytes; ask for less at once")
        if len(piece) >= PIECE:
            pieces.append(bytes(piece))
            size += len(piece)
            piece.clear()
    return [*pieces, bytes(piece)] if piece else pieces


class _Held:
    """A long answer that is being sent.

    Attributes:
        client: Who asked.
        size: The bytes that were not taken yet.
        last_taken: When the client took a piece.
        scope: Around the sending; to cancel it cuts the answer.
    """

    __slots__ = ("client", "last_taken", "scope", "size")

    def __init__(self, client: str, size: int) -> None:
        self.client, self.size = client, size
        self.last_taken = anyio.current_time()
        self.scope = anyio.CancelScope()

    def take(self, count: int) -> None:
        """Count bytes that the client has taken."""
        self.size -= count
        self.last_taken = anyio.current_time()


class UnsentAnswers:
    """Counts the bytes of long answers that clients have not taken yet.

    If an answer does not fit, those that were not read for longest are cut, once nothing of them was taken for a
    second. If that does not make room, the answer is refused. So clients that read nothing keep others waiting only
    for a moment. A single answer fits in any case.

    Args:
        limits: The limits.
        metrics: Where refusals are counted, and the bytes can be read.

    Example:
        >>> UnsentAnswers(ServingLimits()).size
        0
    """

    def __init__(self, limits: ServingLimits, metrics: Metrics | None = None) -> None:
        self._limits = limits
        self._metrics = metrics or Metrics()
        self._held: dict[_Held, None] = {}  # a set that keeps its order
        self._metrics.add_gauge("airw_unsent_bytes", "Bytes of long answers that wait for clients.", lambda: self.size)

    @property
    def size(self) -> int:
        """The bytes of all answers."""
        return sum(each.size for each in self._held)

    @contextmanager
    def hold(self, client: str, size: int) -> Iterator[_Held]:
        """Count an answer of so many bytes while it is sent.

        Raises:
            TooManyRequests: If there is no room for it.
        """
        limits = self._limits
        own = [each for each in self._held if each.client == client]
        self._make_room(own, size, limits.max_unsent_per_client)
        self._make_room([*self._held], size, limits.max_unsent)
        held = _Held(client, size)
        self._held[held] = None
        try:
            yield held
        finally:
            self._held.pop(held, None)

    def _make_room(self, held: Sequence[_Held], size: int, most: int) -> None:
        excess = sum(each.size for each in held) + size - most
        if not held or excess <= 0:
            return
        latest = anyio.current_time() - _MOMENT
        stalled = sorted((each for each in held if each.last_taken <= latest), key=lambda each: each.last_taken)
        if sum(each.size for each in stalled) < min(excess, sum(each.size for each in held)):
            self._metrics.count_refusal("unsent")
            raise TooManyRequests("too many answers wait to be read; read them first, and ask again", _RETRY_AFTER)
        for each in stalled:
            if excess > 0:
                excess -= each.size
                del self._held[each]
                each.scope.cancel()


class JsonAnswer(Response):
    """An answer of encoded JSON.

    Args:
        pieces: Its bytes.
        client: Who asked.
        unsent: Counts what the client has not taken yet.
        max_stall: The seconds for which the client may take nothing; then the answer is cut.
    """

    media_type = JSON_TYPE

    def __init__(self, pieces: Sequence[bytes], *, client: str, unsent: UnsentAnswers, max_stall: float) -> None:
        # Not the constructor of `Response`, which would need the bytes as one.
        self.status_code: int = 200
        self.background: BackgroundTask | None = None
        self._size = sum(map(len, pieces))
        self._pieces = deque(pieces) if self._size > _SHORT else deque([b"".join(pieces)])
        self._client, self._unsent, self._max_stall = client, unsent, max_stall
        self.init_headers({"Content-Length": str(self._size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; leave it unfinished if the client does not take it."""
        try:
            if len(self._pieces) == 1:
                await self._send(send, None)
                return
            with self._unsent.hold(self._client, self._size) as held, held.scope:
                await self._send(send, held)
        except ClientGone:
            return
        except TooManyRequests as error:  # nothing was sent yet, so the error is the answer
            await problem(error)(scope, receive, send)

    async def _send(self, send: Send, held: _Held | None) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send_within(send, start, seconds=self._max_stall)
        while self._pieces:
            piece = self._pieces.popleft()
            message = {"type": "http.response.body", "body": piece, "more_body": bool(self._pieces)}
            await send_within(send, message, seconds=self._max_stall)
            if held is not None:
                held.take(len(piece))
