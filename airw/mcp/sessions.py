"""The sessions of clients over HTTP: so many for each, and room in place of idle ones."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airw.serving.limits import ServingLimits
from airw.serving.problems import TooManyRequests

_SESSION = "mcp-session-id"


@dataclass(slots=True, eq=False)
class _Session:
    """A session, or one that begins: whose it is, and how many of its requests run."""

    client: str
    user: object
    running: int = 0


class ClientSessions:
    """An application whose sessions are counted.

    Many clients never end a session. So a new one takes the place of the one that was not used for longest: of the same
    client, if that has `max_streams_per_client`; of the client with the most, if all together have `max_streams`. A
    session with a request that runs keeps its place.

    Args:
        application: The application, which makes and ends sessions by the protocol.
        limits: The limits of the server.
    """

    def __init__(self, application: ASGIApp, limits: ServingLimits) -> None:
        self._application, self._limits = application, limits
        self._sessions: dict[str, _Session] = {}  # the one that was not used for longest first
        self._begun = 0

    async def answer(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a client.

        Raises:
            TooManyRequests: If it would begin a session for which there is no room. Nothing is sent then.
        """
        headers = Headers(scope=scope)
        id = headers.get(_SESSION)
        if id is None and headers.get("mcp-protocol-version", "") in ("", *HANDSHAKE_PROTOCOL_VERSIONS):
            await self._make_room(client)
            await self._begin(client, scope, receive, send)
            return
        with self._using(id):
            await self._application(scope, receive, send)
        if scope["method"] == "DELETE":
            self._sessions.pop(id or "", None)

    async def _begin(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request that begins a session, which takes its place at once."""
        self._begun += 1
        place = f"begins {self._begun}"
        session = self._sessions[place] = _Session(client, scope.get("user"), running=1)

        async def note_id(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                id = Headers(raw=message["headers"]).get(_SESSION)
                if id is not None and self._sessions.pop(place, None) is not None:
                    self._sessions[id] = session
            await send(message)

        try:
            await self._application(scope, receive, note_id)
        finally:
            session.running -= 1
            self._sessions.pop(place, None)

    @contextmanager
    def _using(self, id: str | None) -> Iterator[None]:
        session = self._sessions.pop(id or "", None)
        if id is None or session is None:  # the application knows no such session, or needs none
            yield
            return
        self._sessions[id] = session
        session.running += 1
        try:
            yield
        finally:
            session.running -= 1

    async def _make_room(self, client: str) -> None:
        """End a session if a client, or all together, have too many.

        Raises:
            TooManyRequests: If each that could end has a request that runs.
        """
        counts = Counter(session.client for session in self._sessions.values())
        if counts[client] >= self._limits.max_streams_per_client:
            if not await self._end_idle(client):
                message = f"you have {counts[client]:,} sessions already; end one before the next"
                raise TooManyRequests(message, 1)
        elif len(self._sessions) >= self._limits.max_streams:
            for greedy, _ in counts.most_common():
                if await self._end_idle(greedy):
                    return
            raise TooManyRequests(f"{len(self._sessions):,} sessions run already; try again later", 1)

    async def _end_idle(self, client: str) -> bool:
        """End the session of a client that was not used for longest.

        The answer is False if all are in use.
        """
        idle = (id for id, session in self._sessions.items() if session.client == client and not session.running)
        id = next(idle, None)
        if id is None:
            return False
        session = self._sessions.pop(id)
        scope = {"type": "http", "method": "DELETE", "path": "/", "query_string": b"", "user": session.user}
        scope["headers"] = [(_SESSION.encode(), id.encode())]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            return

        with anyio.CancelScope(shield=True):
            await self._application(scope, receive, send)
        return True
