"""A parser of server-sent events, and a client whose reading is scripted."""

import json
from typing import Any, NamedTuple

import anyio


class Event(NamedTuple):
    """One event as a browser would see it."""

    id: str
    kind: str
    data: Any


def parse_events(body):
    """Return the events of a stream, parsed as the standard says; comments are left out.

    Only its line ends count, CR, LF and CR LF: `str.splitlines` would know others.
    """
    events = []
    for block in body.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            assert fields.keys() <= {"id", "event", "data"}, fields
            events.append(Event(fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return events


class StreamClient:
    """A client of one response, without a socket.

    Args:
        headers: The headers of the request.
        method: Its method.
        path: Its path.
        leaves_after: The number of sends that it takes before it goes away; `None` to stay.
        stalls_after: The number of sends after which it takes nothing more.
        pause: The seconds that each send takes it.
        error: The error of each send after it has left, as some servers raise it.

    Attributes:
        body: What it received.
        status: The status of the answer.
        sends: The time and the bytes of each send.
    """

    def __init__(
        self,
        headers=None,
        *,
        method="GET",
        path="/traverse",
        leaves_after=None,
        stalls_after=None,
        pause=0.0,
        error=None,
    ):
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [
                (name.lower().encode(), value.encode())
                for name, value in {"Host": "localhost", **(headers or {})}.items()
            ],
        }
        self.leaves_after, self.stalls_after, self.pause, self.error = leaves_after, stalls_after, pause, error
        self.sends, self.status, self.headers, self.is_complete = [], None, {}, False
        self._has_left = anyio.Event()

    async def call(self, app):
        """Send one request to an application, or read one response, and return this client."""
        if self.leaves_after == 0:
            self._has_left.set()
        await app(self.scope, self._receive, self._send)
        return self

    async def _receive(self):
        await self._has_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await anyio.sleep(self.pause)
        if self._has_left.is_set() and self.error is not None:
            raise self.error
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        if self.stalls_after is not None and len(self.sends) >= self.stalls_after:
            await anyio.sleep_forever()
        self.sends.append((anyio.current_time(), message["body"]))
        self.is_complete = not message.get("more_body", False)
        if self.leaves_after is not None and len(self.sends) >= self.leaves_after:
            self._has_left.set()

    @property
    def body(self):
        return b"".join(data for _, data in self.sends)

    @property
    def events(self):
        return parse_events(self.body)

    @property
    def kinds(self):
        return [event.kind for event in self.events]
