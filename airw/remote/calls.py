"""Calls of a server of corpora: connections, time-outs, retries and typed errors."""

import json
import random
import re
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import anyio
import httpx

from airw import errors
from airw._base.checks import check_kind, check_seconds, check_token
from airw._base.concurrency import in_thread, offload_if
from airw._base.http import PerLoop, base_url
from airw._base.http.body import Body
from airw._base.http.calls import encoding_of, load_tls, read_body
from airw._base.http.replies import message_of, retry_after
from airw._base.messages import one_line
from airw.errors import AirwError, ArgumentError, FilterError, RemoteError, StoreBusy, WalkNotExtendable
from airw.protocols.wire import API_VERSIONS, EVENT_STREAM, JSON_TYPE, VERSION_HEADER, WireFault

T = TypeVar("T")

_RETRIES: Final = 2
_FIRST_PAUSE = 0.1  # seconds
_LONGEST_PAUSE = 10.0
_RETRY_STATUSES = frozenset({429, 502, 503})
# A lost connection is tried again; a server that hangs would hang again.
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)

_LARGEST_ANSWER = 1 << 27  # bytes
_LARGEST_ERROR = 1 << 16
_LONG_TEXT = 20_000  # bytes; encoding or decoding more takes about a millisecond
_LONGEST_DETAIL = 400  # characters of a message from the server
_MOST_PIECES = 1_000  # that have arrived already when a stream is left
_MAX_CONNECTIONS = 32

_CLIENT_PARTS = ("send", "build_request", "aclose")
_VERSIONS = dict.fromkeys(map(str, API_VERSIONS)).keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How many seconds each phase of a request to a server may take.

    Args:
        connect: To connect.
        read: To wait for the next data. It must be longer than the server's pause between heartbeats, 15 seconds.
        write: To send the next data.
        pool: To wait for a free connection.
        total: For a call with its retries. The stream of a walk may take longer.

    Raises:
        ArgumentError: If one is not a number of seconds above 0.

    Example:
        >>> Timeouts(total=10)
        Timeouts(connect=5.0, read=30.0, write=10.0, pool=10.0, total=10)
    """

    connect: float = 5.0
    read: float = 30.0
    write: float = 10.0
    pool: float = 10.0
    total: float = 60.0

    def __post_init__(self) -> None:
        """Check all times."""
        for item in fields(self):
            check_seconds(item.name, getattr(self, item.name))


class _ServerBusy(Exception):
    """A refusal that another attempt may not meet.

    `error` is what it means if it is the last one.
    """

    def __init__(self, error: AirwError, pause: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause = pause


class RefusedArgument(RemoteError, ArgumentError):
    """A server refused the value of an argument, perhaps because of a limit of its own."""


class TooMuchAtOnce(RefusedArgument):
    """The body or the answer of a call has more bytes than the server takes or sends at once."""


class WalkGone(RemoteError, WalkNotExtendable):
    """A server does not hold a walk, or no longer."""


class RefusedFilter(RemoteError, FilterError):
    """A server refused a filter, perhaps because of a limit of its own."""


_KINDS: Mapping[int, type[AirwError]] = {410: WalkGone, 413: TooMuchAtOnce}
"""What statuses mean, whatever the server calls it."""


class CorpusServer:
    """A server of corpora, and the connections to it.

    Args:
        url: The base URL of the server.
        token: The token to send; it is shown nowhere.
        client: The client to send with; `None` for one of its own, which `aclose` closes.
        timeouts: The time that each phase may take.

    Raises:
        ArgumentError: If an argument cannot be used.
    """

    def __init__(self, url: str, *, token: str | None, client: httpx.AsyncClient | None, timeouts: Timeouts) -> None:
        if isinstance(url, str) and "@" in url.partition("://")[2].partition("/")[0]:
            raise ArgumentError("url must not contain a user or password; pass the token as token=...")
        self.url: str = base_url(url, path="/search")
        self._headers = {"Accept": JSON_TYPE, "Accept-Encoding": "identity"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {check_token('token', token)}"
        self._token = token
        if client is not None and not all(hasattr(client, part) for part in _CLIENT_PARTS):
            raise ArgumentError(f"client must be an httpx.AsyncClient, not {type(client).__name__}")
        check_kind("timeouts", timeouts, Timeouts, "be a Timeouts object", error=ArgumentError)
        self.timeouts = timeouts
        self._client = client
        self.is_closed: bool = False
        self._is_in_use = False  # by a first event loop
        self._own_clients: PerLoop[list[httpx.AsyncClient]] = PerLoop(list)  # none or one, as connections are of a loop

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def identity(self) -> Hashable:
        """Return what is equal for two objects that may send each other's calls."""
        return self.url, self._token, self.timeouts, self._client and id(self._client)

    async def aclose(self) -> None:
        """Close the connections of this event loop, unless the caller passed the client.

        Closing twice is harmless.
        """
        self.is_closed = True
        for client in self._own_clients.get():
            with anyio.CancelScope(shield=True):
                await client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        of: str,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        read: Callable[[Any], T],
        may_repeat: bool = True,
    ) -> T:
        """Send a request and return the result of `read(answer)`, where the answer is JSON.

        Args:
            method: The method of HTTP.
            path: The path below the base URL.
            of: The corpus, for messages.
            body: The JSON to send.
            params: The query string.
            read: Reads the answer. It raises `WireFault` for one of another form; a long one is read in a thread.
            may_repeat: Whether the call may be sent again after a lost connection, or if the server was busy.

        Raises:
            AirwError: What the server says went wrong there.
            RemoteError: If it cannot be reached, or its answer cannot be used.
        """
        label = self.label(of)
        request = await self._request(method, path, body, params, label)
        _, content = await self._repeat(request, label, retries=_RETRIES * may_repeat)
        return await offload_if(len(content) > _LONG_TEXT, _read_answer, content, read, label)

    async def start_stream(self, path: str, *, of: str, body: bytes) -> httpx.Response:
        """Send a request and return the stream that answers it, which the caller reads and closes.

        Raises:
            AirwError: What the server says went wrong there.
            RemoteError: If it cannot be reached.
        """
        label = self.label(of)
        request = await self._request("POST", path, body, None, label)
        request.headers["Accept"] = EVENT_STREAM
        response, _ = await self._repeat(request, label, retries=_RETRIES, is_stream=True)
        return response

    async def _repeat(
        self, request: httpx.Request, label: str, *, retries: int, is_stream: bool = False
    ) -> tuple[httpx.Response, bytes]:
        """Send until there is an answer, within the time of a call."""
        try:
            with self.deadline(label):
                for failures in range(1, retries + 1):
                    try:
                        return await self._send(request, label, is_stream=is_stream)
                    except RemoteError as error:
                        if not isinstance(error.__cause__, _LOST):
                            raise
                        pause = 0.0
                    except _ServerBusy as refusal:
                        pause = refusal.pause
                    # Many clients that lost the same server do not come back at the same moment.
                    backoff = random.uniform(0, _FIRST_PAUSE * 2**failures)  # noqa: S311 - no secret
                    await anyio.sleep(min(_LONGEST_PAUSE, pause + backoff))
                return await self._send(request, label, is_stream=is_stream)
        except _ServerBusy as refusal:
            raise refusal.error from None

    @contextmanager
    def deadline(self, label: str) -> Iterator[None]:
        """Bound the time of a call, with all that is sent for it.

        Raises:
            RemoteError: If the block takes longer.
        """
        try:
            with anyio.fail_after(self.timeouts.total):
                yield
        except TimeoutError as error:
            if isinstance(error, AirwError):  # the server's own: `StoreBusy`
                raise
            raise RemoteError(f"{label} did not answer within total={self.timeouts.total:g} s") from error

    def label(self, corpus: str) -> str:
        """Return the name of a corpus and its server, for messages."""
        return f"corpus {corpus!r} at {self.url}"

    async def _request(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str] | None, label: str
    ) -> httpx.Request:
        own_clients = self._own_clients.get()
        if self._client is None and not own_clients and not self.is_closed:
            await in_thread(load_tls)
            # Nobody closes the connections of further loops, so they end with each answer.
            kept, self._is_in_use = 0 if self._is_in_use else _MAX_CONNECTIONS, True
            limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=kept)
            # No proxy of the environment: it would see the token. Who needs one passes a client.
            own_clients[:] = own_clients or [httpx.AsyncClient(verify=load_tls(), limits=limits, trust_env=False)]
        times = self.timeouts
        timeout = httpx.Timeout(connect=times.connect, read=times.read, write=times.write, pool=times.pool)
        request = self._open_client(label).build_request(
            method, self.url + path, content=body, params=params, headers=self._headers, timeout=timeout
        )
        if body is not None:
            request.headers["Content-Type"] = JSON_TYPE
            request.stream = Body(body)
        return request

    def _open_client(self, label: str) -> httpx.AsyncClient:
        client = self._client or next(iter(self._own_clients.get()), None)
        if client is None or client.is_closed or self.is_closed:
            raise RemoteError(f"{label} is closed; use it inside `async with`")
        return client

    async def _send(self, request: httpx.Request, label: str, *, is_stream: bool) -> tuple[httpx.Response, bytes]:
        """Send a request once; return an answer that succeeded, and its content.

        A stream is returned open, without content.
        """
        with self.translate_errors(label):
            # Redirects would take the query, and perhaps the token, to another server.
            response = await self._open_client(label).send(request, stream=True, follow_redirects=False)
            encoding, kind = encoding_of(response), response.headers.get("Content-Type", "").partition(";")[0]
            # A server may be upgraded while its corpus is open. What stands between may answer without a version.
            theirs = response.headers.get(VERSION_HEADER)
            is_ours = theirs is None or not _VERSIONS.isdisjoint(re.split(r"[,\s]+", theirs))
            if is_stream and is_ours and response.status_code == 200 and kind == EVENT_STREAM and not encoding:
                return response, b""
            largest = _LARGEST_ANSWER if response.is_success and not is_stream else _LARGEST_ERROR
            try:
                # A compressed body is never read: a small one may unpack to gigabytes.
                content = await read_body(response, largest) if is_ours and not encoding else b""
            finally:
                await close_response(response)
        if not is_ours:
            ours, told = ", ".join(_VERSIONS), one_line(str(theirs), longest=40)
            raise RemoteError(f"{label} speaks version {told} of the API, and this library {ours}")
        if not response.is_success:
            raise self._refusal(response, content, label)
        if is_stream:
            raise RemoteError(f"{label} answered {one_line(kind)!r}, not a stream of events; is it a server of airw?")
        if encoding:
            raise RemoteError(f"{label} answered in the encoding {encoding!r}, although the request asked for none")
        if len(content) > largest:
            raise RemoteError(f"{label} answered with more than {largest:,} bytes; ask for less at once")
        return response, content

    def _refusal(self, response: httpx.Response, content: bytes, label: str) -> Exception:
        """Return the error that an answer other than success means.

        It is `_ServerBusy` if another attempt may help.
        """
        status, (kind, message) = response.status_code, _read_problem(content)
        kind = _KINDS.get(status, kind)
        detail = one_line(self.redact(message or message_of(content)), longest=_LONGEST_DETAIL)
        if response.has_redirect_location:
            place = one_line(self.redact(response.headers["Location"]))
            answered = f"{label} answered {status} and points to {place!r}"
            return RemoteError(f"{answered}; use the URL of the server itself")
        if kind is None:
            advice = "; pass a token that it accepts as token=..." if status == 401 else ""
            error: AirwError = RemoteError(f"{label} answered {status}: {detail}{advice}")
        else:
            error = kind(f"{label}: {detail}")
        pause = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        # Of a missing package or a damaged file, another attempt would hear the same.
        may_pass = status in _RETRY_STATUSES and (kind is None or pause is not None or kind is StoreBusy)
        return _ServerBusy(error, pause or 0.0) if may_pass else error

    def redact(self, text: str) -> str:
        """Return a text of the server without the token."""
        return text.replace(self._token, "***") if self._token else text

    @contextmanager
    def translate_errors(self, label: str) -> Iterator[None]:
        """Turn errors of httpx into those of the library."""
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise self.describe_loss(label, error) from error

    def describe_loss(self, label: str, error: BaseException) -> RemoteError:
        """Return the error of a call whose connection has failed."""
        described = one_line(self.redact(f"{type(error).__name__}: {error}".strip(": ")))
        return RemoteError(f"{label} sent no complete answer ({described}); is it running?")


async def close_response(response: httpx.Response) -> None:
    """Close an answer; the connection of one that is not complete is closed, too."""
    with anyio.CancelScope(shield=True):
        await response.aclose()


async def leave_stream(pieces: AsyncIterator[bytes]) -> None:
    """End the reading of a stream, with all async generators inside httpx.

    Closing the outermost one would leave the others unfinished, and trio would warn of them. So the reading goes on
    and is cancelled at once.
    """
    with anyio.CancelScope(shield=True), anyio.CancelScope() as reading:
        reading.cancel()
        with suppress(httpx.HTTPError, httpx.StreamError):
            for _ in range(_MOST_PIECES):
                if await anext(pieces, None) is None:
                    break


async def encode_json(value: Any) -> bytes:
    """Return a JSON value as bytes; ids that no text can contain travel as escapes."""
    parts = value.values() if isinstance(value, Mapping) else ()
    return await offload_if(any(len(part) > 1_000 for part in parts if isinstance(part, list | str)), dump_body, value)


def dump_body(value: Any) -> bytes:
    """Return a JSON value as bytes; see `encode_json`.

    Raises:
        ArgumentError: If it has a number that JSON has not.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except ValueError as error:
        raise ArgumentError(f"an argument cannot be sent: {error}") from error


def _read_answer(content: bytes, read: Callable[[Any], T], label: str) -> T:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        start = one_line(content[:40].decode(errors="replace")) or "nothing"
        raise RemoteError(f"{label} answered with {start!r}, which is not JSON; is it a server of airw?") from error
    try:
        return read(value)
    except WireFault as fault:
        described = one_line(str(fault), longest=_LONGEST_DETAIL)
        raise RemoteError(f"{label} sent an answer that cannot be used: {described}") from fault


def error_of_problem(problem: object, label: str, redact: Callable[[str], str]) -> AirwError:
    """Return the error that a problem of a server describes, of the class that it names."""
    kind, message = _read_problem(problem)
    detail = one_line(redact(message), longest=_LONGEST_DETAIL) or "no reason given"
    return (kind or RemoteError)(f"{label}: {detail}")


def _read_problem(problem: object) -> tuple[type[AirwError] | None, str]:
    """Return the class that a problem names, or `None`, and its message, or `""`.

    The problem is a value of JSON, or the bytes of one.
    """
    if isinstance(problem, bytes):
        try:
            problem = json.loads(problem)
        except (ValueError, RecursionError):
            problem = None
    name, detail = (problem.get("error"), problem.get("detail")) if isinstance(problem, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(detail, str):
        return None, ""
    kind: Any = getattr(errors, name) if name in errors.__all__ else AirwError
    if not issubclass(kind, AirwError) or kind is AirwError:
        return None, detail
    # Still errors of a server: those of one must not end a discovery in many as a wrong argument does.
    refused = RefusedArgument if issubclass(kind, ArgumentError) else RefusedFilter if kind is FilterError else kind
    return refused, detail
