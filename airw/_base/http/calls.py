"""A request to a server: its URL, key, time-outs, retries and errors."""

import os
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import anyio

from airw._base.checks import check_count, check_seconds
from airw._base.http.keys import KeyFault, describe_key, read_key
from airw._base.http.replies import message_of, retry_after
from airw._base.messages import one_line
from airw.errors import AirwError, ArgumentError

if TYPE_CHECKING:
    import ssl

    import httpx

R = TypeVar("R")

OPENAI_KEY = "OPENAI_API_KEY"

# Seconds.
FIRST_PAUSE = 0.5
LONGEST_BACKOFF = 30.0
LONGEST_PAUSE = 60.0
LONGEST_CONNECT = 10.0

# Bytes of JSON that are read for each text; a vector of 4,096 numbers takes about 90,000.
LARGEST_ITEM = 1 << 20
LARGEST_ERROR = 1 << 16

_RETRY_STATUSES = {429, 500, 502, 503, 504}

# These statuses mean that the request is too large.
_TOO_LARGE_STATUSES = {413, 422}
# Other statuses mean it only if their message has certain words. For 400 many words count: halving a batch for another
# reason only repeats the error. For 429 and 500 few words count, because these are usually worth a retry.
_SIZE_WORDS = re.compile(r"too (many|long|large|big)|maximum|\bmax_|exceed|longer than|reduce|context", re.IGNORECASE)
_CLEAR_SIZE_WORDS = re.compile(r"too (long|large)|context (length|size)", re.IGNORECASE)
_SIZE_WORDS_BY_STATUS = {400: _SIZE_WORDS, 429: _CLEAR_SIZE_WORDS, 500: _CLEAR_SIZE_WORDS}
_OPENAI = re.compile(r"https://api\.openai\.com(:443)?(/.*)?")


class TransientError(Exception):
    """A failure of one attempt; another attempt may succeed.

    Args:
        message: The text of the error.
        pause: The seconds that the server asks to wait.
    """

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class RequestTooLarge(Exception):
    """A refusal of a request because it is too large."""


class AnswerRefused(Exception):
    """The cause of an error about an answer that arrived and is not read.

    The server has done its work, so a budget charges for it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server and the settings of the requests to it.

    Args:
        url: The base URL of the API.
        path: The path of the requests below it.
        label: The name of the server and its model in error messages.
        key: The default environment variable of the key.
        timeout: The seconds that connecting, sending or waiting for data may take.
        retries: The number of attempts after the first one.
        api_key_env: The caller's environment variable of the key, which must then be set.
        error: The type of errors in requests and answers.
        unavailable: The type of errors about keys.

    Raises:
        ArgumentError: If `timeout`, `retries` or `api_key_env` cannot be used.
    """

    url: str
    path: str
    label: str
    key: str
    timeout: float
    retries: int
    api_key_env: str | None
    error: type[AirwError]
    unavailable: type[AirwError]

    def __post_init__(self) -> None:
        """Check the values that users pass."""
        check_seconds("timeout", self.timeout)
        check_count("retries", self.retries)
        if self.api_key_env is not None and not (isinstance(self.api_key_env, str) and self.api_key_env.isidentifier()):
            raise ArgumentError("api_key_env must be the name of an environment variable, never the key itself")

    @property
    def key_variable(self) -> str:
        """Return the name of the environment variable with the key.

        OpenAI's key is sent to OpenAI only, because a URL may come from a corpus that somebody else made.
        """
        if self.api_key_env:
            return self.api_key_env
        return OPENAI_KEY if self.is_openai and os.environ.get(OPENAI_KEY) else self.key

    @property
    def is_openai(self) -> bool:
        """Return whether this is the server of OpenAI."""
        return _OPENAI.fullmatch(self.url) is not None


@cache
def load_tls() -> "ssl.SSLContext":
    """Load httpx and the certificates, once per process.

    The first call takes long, so it belongs in a worker thread.

    Raises:
        ArgumentError: If the environment names certificates that cannot be read.
    """
    import httpx

    with _check_environment():
        context = httpx.create_ssl_context()
    # The first client imports the transport: let that happen in the worker thread too.
    httpx.AsyncClient(verify=context, trust_env=False)
    return context


@contextmanager
def _check_environment() -> Iterator[None]:
    """Raise what httpx raises about variables of the environment as an error that names them."""
    import httpx

    try:
        yield
    except (OSError, ImportError, ValueError, httpx.InvalidURL) as error:
        raise ArgumentError(
            f"a proxy or certificates of the environment cannot be used ({type(error).__name__}); check SSL_CERT_FILE, "
            "SSL_CERT_DIR, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
        ) from error


def new_client(keepalive: int) -> "httpx.AsyncClient":
    """Return an HTTP client that keeps up to `keepalive` idle connections.

    The number of busy connections is not limited here: the limiter of the `Api` does that.

    Raises:
        ArgumentError: If the environment has a proxy that cannot be used.
    """
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=keepalive)
    with _check_environment():
        return httpx.AsyncClient(verify=load_tls(), limits=limits)


async def request_with_retries(
    server: Server,
    client: "httpx.AsyncClient",
    limiter: anyio.CapacityLimiter,
    body: bytes,
    *,
    texts: int,
    read: Callable[[bytes, int], Awaitable[R]],
) -> R:
    """Send a request and return the result of `read(answer, texts)`; retry if that may help.

    Raises:
        RequestTooLarge: If the server refuses the request because it is too large.
        AirwError: If all attempts failed, or one failed in a way that a retry would not help.
    """
    for failures in count(1):
        try:
            async with limiter:
                return await _send_once(server, client, body, texts=texts, read=read)
        except TransientError as failure:
            if failures > server.retries:
                raise server.error(f"{failure} ({failures} attempts)") from failure.__cause__
            pause = _pause(failures, failure.pause)
        # Wait outside the limiter, so that other requests can be sent meanwhile.
        await anyio.sleep(pause)
    raise AssertionError  # never reached: `count` is infinite


def _pause(failures: int, requested: float | None) -> float:
    """Return the seconds to wait: the requested ones, and a random backoff on top.

    `requested` comes from the server. The bound of the backoff doubles with each failure.
    """
    # Random, so that many clients do not all come back at the same moment.
    backoff = random.uniform(0, min(LONGEST_BACKOFF, FIRST_PAUSE * 2 ** (failures - 1)))  # noqa: S311
    return min(LONGEST_PAUSE, (requested or 0.0) + backoff)


async def _send_once(
    server: Server,
    client: "httpx.AsyncClient",
    body: bytes,
    *,
    texts: int,
    read: Callable[[bytes, int], Awaitable[R]],
) -> R:
    if client.is_closed:
        raise server.error(f"{server.label} cannot be used: its client is closed; use it inside `async with`")
    # httpx limits each single read: a server that sends a byte now and then would never time out without `fail_after`.
    with _translate_errors(server), anyio.fail_after(2 * server.timeout):
        request = _build_request(server, client, body)
        # Do not follow redirects: they would take the texts, and perhaps the key, to another server.
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            max_bytes = (1 + texts) * LARGEST_ITEM if response.is_success else LARGEST_ERROR
            encoding = encoding_of(response)
            # A compressed body is never read: a small one may unpack to gigabytes.
            content = b"" if encoding else await read_body(response, max_bytes)
        finally:
            await response.aclose()
    if not response.is_success:
        raise _error_of_status(server, response, content)
    if encoding:
        refusal = f"answered in the encoding {encoding!r}, although the request asked for none; turn compression off"
        raise server.error(f"{server.label} {refusal}") from AnswerRefused(encoding)
    if len(content) > max_bytes:
        refusal = f"answered with more than {max_bytes:,} bytes for {texts} texts"
        raise server.error(f"{server.label} {refusal}") from AnswerRefused(refusal)
    # The error may quote the answer, and the answer may repeat the key.
    try:
        return await read(content, texts)
    except server.error as error:
        raise server.error(_redact(str(error), request)) from error.__cause__


def encoding_of(response: "httpx.Response") -> str:
    """Return the encoding of a body, such as `gzip`, or `""` if it is sent as it is."""
    encoding = one_line(response.headers.get("Content-Encoding", ""), longest=40)
    return "" if encoding.lower() == "identity" else encoding


async def read_body(response: "httpx.Response", max_bytes: int) -> bytes:
    """Return the body of an answer, cut soon after `max_bytes`: it may be endless."""
    content = bytearray()
    with anyio.CancelScope() as reading:
        async for chunk in response.aiter_bytes():
            content += chunk
            # Cancel instead of `break`, which would leave async generators inside httpx unfinished.
            if len(content) > max_bytes:
                reading.cancel()
    return bytes(content)


def _build_request(server: Server, client: "httpx.AsyncClient", body: bytes) -> "httpx.Request":
    """Return the request, with the key unless the client has an authorization of its own."""
    import httpx

    from airw._base.http.body import Body

    timeout = httpx.Timeout(server.timeout, connect=min(server.timeout, LONGEST_CONNECT))
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    request = client.build_request("POST", server.url + server.path, content=body, headers=headers, timeout=timeout)
    request.stream = Body(body)
    key = None if "Authorization" in request.headers or client.auth else _read_key(server)
    if key:
        request.headers["Authorization"] = f"Bearer {key}"
    return request


def _read_key(server: Server) -> str:
    try:
        key = read_key(server.key_variable, server.url)
    except KeyFault as fault:
        raise server.unavailable(str(fault)) from None
    if not key and server.api_key_env:
        raise server.unavailable(f"{server.label} needs a key: set the environment variable {server.api_key_env}")
    return key


@contextmanager
def _translate_errors(server: Server) -> Iterator[None]:
    """Turn errors of httpx into a `TransientError` if a retry may help, else into an error."""
    import httpx

    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        kind = type(error).__name__ if isinstance(error, httpx.TimeoutException) else "the whole attempt"
        raise TransientError(f"{server.label} did not answer within timeout={server.timeout:g} s ({kind})") from error
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        message, cause = _describe(error)
        raise TransientError(f"{server.label} sent no complete answer ({message}); is it running?") from cause
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message, cause = _describe(error)
        raise server.error(f"{server.label} failed ({message})") from cause


def _describe(error: Exception) -> tuple[str, Exception]:
    """Return the message of an error without the key, and the error itself as its cause.

    If the error contains the key, the cause is another error without it, so that no traceback shows it.
    """
    message = f"{type(error).__name__}: {error}"
    # The public property `request` raises if there is no request.
    request = getattr(error, "_request", None)
    redacted = _redact(message, request) if request else message
    return one_line(redacted), error if redacted == message else AnswerRefused(one_line(redacted))


def _error_of_status(server: Server, response: "httpx.Response", content: bytes) -> Exception:
    """Return the error for an answer whose status is not success."""
    status = response.status_code
    message = _redact(message_of(content), response.request)
    answered = f"{server.label} answered {status}: {one_line(message)}"
    # Size comes before retries: a request that is too large fails again and again.
    size_words = _SIZE_WORDS_BY_STATUS.get(status)
    if status in _TOO_LARGE_STATUSES or (size_words is not None and size_words.search(message)):
        return RequestTooLarge(f"{status}: {one_line(message)}")
    if status in _RETRY_STATUSES:
        return TransientError(answered, retry_after(response.headers.get("Retry-After"), datetime.now(UTC)))
    if status in (401, 403):
        return server.error(f"{answered}; its key is read from {describe_key(server.key_variable, server.url)}")
    if response.has_redirect_location:
        location = _redact(response.headers["Location"], response.request)
        return server.error(f"{answered}, and points to {one_line(location)!r}; use the URL of the API itself")
    return server.error(f"{answered}; check the URL and the model")


def _redact(text: str, request: "httpx.Request") -> str:
    """Return a text of the server with the key of the request replaced by `***`."""
    authorization = request.headers.get("Authorization", "")
    # Both the whole header and the key alone, without "Bearer".
    for secret in (authorization, authorization.rpartition(" ")[2]):
        text = text.replace(secret, "***") if secret else text
    return text
