"""Running a server: one process or several on one port, until it is told to stop.

A server that stops takes no new connections, answers the requests it has, and tells its streams.
"""

import asyncio
import errno
import gc
import logging
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import anyio.lowlevel
import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from airw._base.concurrency import first_error
from airw.errors import ArgumentError, UnknownFieldWarning
from airw.serving.application import app
from airw.serving.ending import Ending
from airw.serving.limits import ServingLimits
from airw.serving.logs import LOGGER
from airw.serving.token_files import read_tokens

LONGEST_END = 10
"""The seconds that running requests have to end when the server stops."""

_LAST_ARRIVALS = 2.0  # seconds in which the clients of open connections may send requests, to be told to leave
_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 16  # connections; asyncio tries so often, even after the system has said that there is no room
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_COMPLAINT_PAUSE = 60.0  # seconds
_LARGEST_HEAD = 65_536  # bytes of the headers of a request
_SEND_BUFFER = 262_144  # bytes of answers that the system keeps for a slow client; else up to 4 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of `airw serve`, from which each process makes its application.

    Args:
        corpora: The names, paths or addresses of the corpora.
        tokens: The file of the tokens; each process reads it when it starts.
        writable: Without tokens: the corpora that everybody may change.
        roots: The folders whose files may be disclosed.
        rerankers: The rerankers that clients may choose, as specifications.
        hosts: The names that the server answers to, in addition to its addresses.
        origins: The origins whose pages may ask.
        limits: The limits of requests and streams.
    """

    corpora: Sequence[str]
    tokens: Path | None = None
    writable: Sequence[str] = ()
    roots: Sequence[Path] = ()
    rerankers: Sequence[str] = ()
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    limits: ServingLimits = field(default_factory=ServingLimits)

    def make_app(self) -> Starlette:
        """Return the application.

        Raises:
            ArgumentError: If the token file, a host or an origin cannot be used, or a corpus is not served.
        """
        return app(
            list(self.corpora),
            tokens=() if self.tokens is None else read_tokens(self.tokens),
            writable=self.writable,
            roots=self.roots,
            rerankers=self.rerankers,
            hosts=self.hosts or None,
            origins=self.origins,
            limits=self.limits,
        )


def log_to_stderr() -> None:
    """Write a line for each request to stderr, and the warnings and errors of the server.

    Python's warnings about filters are switched off: they contain what a client sent, and Python keeps each text.
    """
    warnings.filterwarnings("ignore", category=UnknownFieldWarning)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    for name, level in (("airw.serving", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def listen(host: str, port: int, *, max_stall: float = 60.0) -> socket.socket:
    """Return a socket that listens; port 0 is one that the system chooses.

    Args:
        host: The address.
        port: The port.
        max_stall: The seconds after which the system drops a client that takes nothing of what was sent to it. A
            server cannot: it would wait for that client to take the rest.

    Raises:
        ArgumentError: If the port is in use, or this machine has no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ArgumentError(f"cannot listen at {host} port {port}: {error.strerror or error}") from error
    # The connections that it accepts inherit both.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(max_stall * 1000) + 1000)
    return listener


def spare_collector() -> None:
    """Make Python's collector of cycles stop this process seldom, and not for long.

    A full collection looks at every object while all requests wait: 60 ms for the modules that are loaded. With a
    thousand walks, a third of the time went there. Yet requests and walks leave almost no cycles.

    The settings are those of the whole process, so an application that others run does not change them.
    """
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked at again
    gc.set_threshold(10_000, 5, 10)


class _Protocol(H11Protocol):
    """The protocol of uvicorn, which ends a connection whose request is malformed.

    Such a request gets one answer, and not that of the application as well.
    """

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the answer of the application goes nowhere
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class GracefulServer(uvicorn.Server):
    """A server of uvicorn that loses no request when it stops.

    Whoever runs it handles signals, and sets `should_exit`.

    Args:
        config: Its configuration.
        ending: Told at once when the server begins to stop.
    """

    def __init__(self, config: uvicorn.Config, ending: Ending) -> None:
        super().__init__(config)
        self.has_started: anyio.Event = anyio.Event()
        self._ending = ending
        self._next_complaint = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and set the event `has_started`."""
        asyncio.get_running_loop().set_exception_handler(self._note_error)
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(_BACKLOG)  # asyncio has made the queue as short as what it accepts at once
        spare_collector()
        self.has_started.set()

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that reached the event loop.

        Of connections for which there is no room, it logs one line a minute.
        """
        error = context.get("exception")
        if self.should_exit and isinstance(error, ValueError) and "handle" in context:
            return  # it tries again to accept connections, at a socket that is closed by now
        if not isinstance(error, OSError) or error.errno not in _NO_ROOM or "socket" not in context:
            loop.default_exception_handler(context)
        elif loop.time() >= self._next_complaint:
            self._next_complaint = loop.time() + _COMPLAINT_PAUSE
            LOGGER.warning("new connections wait (%s); raise the limit with ulimit -n", error.strerror)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer what has arrived, then close all connections."""
        self._ending.begin()
        await self._stop_listening(sockets or [])
        with anyio.move_on_after(_LAST_ARRIVALS):
            while self.server_state.connections and not self.force_exit:  # noqa: ASYNC110 - uvicorn has no event for that
                await anyio.sleep(0.02)
        await super().shutdown(sockets)

    async def _stop_listening(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for listener in sockets:
            with suppress(NotImplementedError):  # on Windows
                loop.remove_reader(listener)
        # Closing at once would drop connections that are accepted and have no transport yet.
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        for server in self.servers:
            server.close()
        for listener in sockets:
            listener.close()


def new_server(application: Starlette) -> GracefulServer:
    """Return a server of an application that was made by `app`."""
    config = uvicorn.Config(
        application,
        http=_Protocol,  # it bounds the headers of a request; the other parser that uvicorn may find does not
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=LONGEST_END,
    )
    return GracefulServer(config, application.state.service.ending)


async def run_server(application: Starlette, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve in this process, until Ctrl-C or SIGTERM; a second one ends running requests, too.

    Args:
        application: What `app` returned.
        listener: The socket.
        announce: Called once the server answers.
    """
    server = new_server(application)

    async def announce_start() -> None:
        await server.has_started.wait()
        announce()

    with first_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_at_signal, server)
            tasks.start_soon(announce_start)
            await server.serve([listener])
            tasks.cancel_scope.cancel()


async def _stop_at_signal(server: uvicorn.Server) -> None:
    with anyio.open_signal_receiver(SIGINT, SIGTERM) as signals:
        async for _ in signals:
            server.force_exit = server.should_exit
            server.should_exit = True
