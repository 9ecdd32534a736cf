"""An embeddings server on the loopback interface, in its own thread, with planned faults.

It answers `POST /v1/embeddings` and records all requests. Each request gets the next planned fault, or `always` if none
is left. Without a fault, the answer is correct: the vector of a text counts its words in `width` buckets.
"""

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zlib import crc32

from airw._base.http import api, calls


def alone(monkeypatch):
    """Remove models, keys and proxies from the environment, shorten pauses, import httpx."""
    calls.load_tls()
    for name in ("AIRW_CHAT", "AIRW_CHAT_KEY", "AIRW_EMBEDDER_KEY", "AIRW_RERANKER_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.002)


def count_resources() -> int:
    """Return the number of objects that own resources of this event loop."""
    return len(api.LOOP_VALUES.get({}))


@dataclass(frozen=True)
class ServerRequest:
    """A request that the server has received."""

    path: str
    headers: dict[str, str]
    payload: dict[str, object]
    at: float

    @property
    def texts(self) -> list[str]:
        return next(self.payload[key] for key in ("input", "documents", "texts", "messages") if key in self.payload)


class EmbeddingServer:
    """A server that runs during a `with` block and closes all connections at its end."""

    def __init__(self, *, width=8, always=None):
        self.width = width
        self.always = always
        self.faults = []
        self.requests: list[ServerRequest] = []
        self.connections = 0
        self.drips = 0  # bytes of answers that arrive slowly
        self.busy = self.most_busy = 0
        self.arrived = threading.Semaphore(0)  # incremented by each request
        self.hung_up = threading.Event()
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()

    def __enter__(self):
        self._http = _Listener(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self.closing.set()
        self._http.shutdown()
        with self.lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()  # waits for the threads of all connections
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def sizes(self) -> list[int]:
        return [len(request.texts) for request in self.requests]

    def plan(self, *faults) -> None:
        self.faults += faults

    def row(self, text: str) -> list[float]:
        row = [0.0] * self.width
        for word in text.lower().split() or [""]:
            row[crc32(word.encode()) % self.width] += 1.0
        return row

    def answer(self, texts: list[str]) -> dict[str, object]:
        items = [{"object": "embedding", "index": at, "embedding": self.row(text)} for at, text in enumerate(texts)]
        return {"object": "list", "data": items, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


Fault = Callable[["_Handler", list[str]], None]


def status(code: int, body: object = None, **headers: str) -> Fault:
    """Return a fault: an answer with a status.

    A dict is sent as JSON, a string as HTML. `{authorization}` is replaced by the header of the request.
    """

    def send(handler, texts):
        def fill_in(text):
            return text.replace("{authorization}", handler.headers.get("Authorization", ""))

        text = body if isinstance(body, str) else json.dumps(body if body is not None else {"error": f"no {code}"})
        kind = "text/html" if isinstance(body, str) else "application/json"
        names = {name.replace("_", "-"): fill_in(value) for name, value in headers.items()}
        handler.send(code, fill_in(text).encode(), kind, names)

    return send


def alter(change: Callable[[dict], object]) -> Fault:
    """Return a fault: the correct answer, changed by a function; a string is sent unchanged."""

    def send(handler, texts):
        answer = change(handler.owner.answer(texts))
        handler.send(200, (answer if isinstance(answer, str) else json.dumps(answer)).encode())

    return send


def later(seconds: float) -> Fault:
    """Return a fault: a delay, which ends early if the client hangs up or the server closes."""

    def send(handler, texts):
        if handler.waits(seconds):
            handler.send_rows(texts)

    return send


def dripping(seconds: float) -> Fault:
    """Return a fault: a body without end, sent byte by byte."""

    def send(handler, texts):
        handler.start(200, 1_000_000)
        while handler.waits(seconds):
            handler.wfile.write(b" ")
            handler.owner.drips += 1

    return send


def flooding(handler, texts) -> None:
    """Send a body without end as fast as the client reads it."""
    handler.start(200, 1 << 50)
    while not handler.owner.closing.is_set():
        try:
            handler.wfile.write(b" " * 65_536)
        except OSError:
            handler.owner.hung_up.set()
            raise


def half(handler, texts) -> None:
    """Announce a whole body, send half of it, and close the connection."""
    body = json.dumps(handler.owner.answer(texts)).encode()
    handler.start(200, len(body))
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def cut(handler, texts) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def raw(answer: Callable[["_Handler"], bytes]) -> Fault:
    """Return a fault: bytes that need not be valid HTTP."""

    def send(handler, texts):
        handler.wfile.write(answer(handler))
        handler.close_connection = True

    return send


def at_most(most: int, code: int, body: object = None) -> Fault:
    """Return a fault: a status for requests with more than `most` texts."""

    def send(handler, texts):
        if len(texts) > most:
            status(code, body)(handler, texts)
        else:
            handler.send_rows(texts)

    return send


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64
    owner: EmbeddingServer

    def handle_error(self, request, client_address):
        """Print nothing: tests make clients hang up on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counted = 0
    disable_nagle_algorithm = True

    @property
    def owner(self) -> EmbeddingServer:
        return self.server.owner

    def setup(self):
        with self.owner.lock:
            self.owner.connections += 1
            self.owner._open.add(self.request)
        super().setup()

    def finish(self):
        with self.owner.lock:
            self.owner._open.discard(self.request)
        super().finish()

    def log_message(self, *args):
        """Print nothing."""

    def do_POST(self):
        owner = self.owner
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = ServerRequest(self.path, dict(self.headers), payload, time.monotonic())
        with owner.lock:
            owner.requests.append(asked)
            owner.arrived.release()
            owner.busy += 1
            self.counted = 1
            owner.most_busy = max(owner.most_busy, owner.busy)
            fault = owner.faults.pop(0) if owner.faults else owner.always
        try:
            (fault or _Handler.send_rows)(self, asked.texts)
        finally:
            self.leave()

    def leave(self):
        """Stop counting as busy, at the latest before the first byte of an answer."""
        with self.owner.lock:
            self.owner.busy -= self.counted
            self.counted = 0

    def send_rows(self, texts):
        self.send(200, json.dumps(self.owner.answer(texts)).encode())

    def send(self, code, body, kind="application/json", headers=()):
        self.start(code, len(body), kind, headers)
        self.wfile.write(body)

    def start(self, code, length, kind="application/json", headers=()):
        self.leave()
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()

    def waits(self, seconds: float) -> bool:
        """Wait; return whether the client is still connected and the server still runs."""
        deadline = time.monotonic() + seconds
        while not self.owner.closing.is_set():
            left = deadline - time.monotonic()
            if select.select([self.connection], [], [], max(0.0, min(0.01, left)))[0]:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    self.owner.hung_up.set()
                break
            if left <= 0:
                return True
        self.close_connection = True
        return False
