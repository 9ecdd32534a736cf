"""One request to a server: its URL, key, time and retries, and the errors it can end with."""

import math
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

from airw._base.checks import check_count
from airw._base.http.replies import message_of, retry_after
from airw._base.messages import one_line
from airw.errors import AirwError, ArgumentError

if TYPE_CHECKING:
    import ssl

    import httpx

R = TypeVar("R")

OPENAI_KEY = "OPENAI_API_KEY"

FIRST_PAUSE = 0.5
LONGEST_BACKOFF = 30.0
LONGEST_PAUSE = 60.0
LONGEST_CONNECT = 10.0
LARGEST_ITEM = 1 << 20  # bytes of JSON for each text: a vector of 4,096 numbers takes about 90,000
LARGEST_COMPLAINT = 1 << 16

_RETRIED = {429, 500, 502, 503, 504}
_REFUSED_SIZE = {413, 422}
# Others say so in words: those with 400 broadly, as nothing else is lost by halving; those with 429 and 500 narrowly.
_SIZE = re.compile(r"too (many|long|large|big)|maximum|\bmax_|exceed|longer than|reduce|context", re.IGNORECASE)
_SURE_SIZE = re.compile(r"too (long|large)|context (length|size)", re.IGNORECASE)
_SIZE_WORDS = {400: _SIZE, 429: _SURE_SIZE, 500: _SURE_SIZE}
_OPENAI = re.compile(r"https://api\.openai\.com(:443)?(/.*)?")
_URL = re.compile(
    r"(?P<origin>https?://(\[(?P<v6>[\da-f:.]+)\]|(?P<host>[\w.-]+))(:(?P<port>\d{1,5}))?)(?P<path>(/[^\s\\\0-\x1f\x7f]*)?)",
    re.ASCII | re.IGNORECASE,
)
_EXAMPLE = "such as 'http://localhost:8080/v1'"


def base_url(url: str, *, path: str) -> str:
    """Return the base of an API in one spelling, without the `path` that requests go to below it.

    What may be secret in a URL is never repeated.

    Raises:
        ArgumentError: It is not one.
    """
    if not isinstance(url, str):
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {type(url).__name__}")
    given = url.strip()
    if "@" in re.split(r"[/?#\\]", given.partition("://")[2], maxsplit=1)[0]:
        raise ArgumentError("url must hold no user or password: keys are read from the environment, see api_key_env")
    if "?" in given:
        raise ArgumentError(
            f"url must be the base of an API without a query, {_EXAMPLE}: keys are read from the environment"
        )
    if "#" in given:
        raise ArgumentError(f"url must be the base of an API without '#', {_EXAMPLE}: the model is the second argument")
    parts = _URL.fullmatch(given)
    if parts is None or not _is_host(parts["host"], parts["v6"]) or int(parts["port"] or 0) > 65_535:
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {given[:200]!r}")
    base = parts["origin"].lower() + parts["path"].rstrip("/")
    if base.endswith(path):
        raise ArgumentError(f"url must be the base of an API, so write {base.removesuffix(path)!r}")
    return base


def _is_host(name: str | None, v6: str | None) -> bool:
    """Return whether the HTTP library will take a host for one."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    try:
        if v6:
            IPv6Address(v6)
        elif name and re.fullmatch(r"[\d.]+", name):
            IPv4Address(name)
    except AddressValueError:
        return False
    return bool(v6 or (name and not name.startswith((".", "-"))))


class Transient(Exception):
    """An attempt failed in a way that another one may not."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class TooMuch(Exception):
    """The server takes less in one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where requests go, and how; `label` names in errors what is asked, `error` and `unavailable` are their kinds.

    Raises:
        ArgumentError: `timeout`, `retries` or `api_key_env` cannot be used.
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
        """Check what the user gave."""
        timeout = self.timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ArgumentError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        check_count("retries", self.retries)
        if self.api_key_env is not None and not (isinstance(self.api_key_env, str) and self.api_key_env.isidentifier()):
            raise ArgumentError("api_key_env must be the name of an environment variable, never the key itself")

    @property
    def key_variable(self) -> str:
        """Name the environment variable that the key comes from.

        OpenAI's key is for OpenAI alone, as a URL may come out of a stranger's corpus.
        """
        if self.api_key_env:
            return self.api_key_env
        return OPENAI_KEY if self.is_openai and os.environ.get(OPENAI_KEY) else self.key

    @property
    def is_openai(self) -> bool:
        """Return whether it is OpenAI's own server."""
        return _OPENAI.fullmatch(self.url) is not None


@cache
def tls() -> "ssl.SSLContext":
    """Load httpx and the certificates, once: that takes long enough to want a worker thread."""
    import httpx

    context = httpx.create_ssl_context()
    httpx.AsyncClient(verify=context)  # the first one imports the transport
    return context


def new_client(keepalive: int) -> "httpx.AsyncClient":
    """Make a client that keeps as many idle connections; how many are busy is bounded elsewhere."""
    import httpx

    return httpx.AsyncClient(
        verify=tls(), limits=httpx.Limits(max_connections=None, max_keepalive_connections=keepalive)
    )


async def ask(
    server: Server,
    client: "httpx.AsyncClient",
    room: anyio.CapacityLimiter,
    body: bytes,
    *,
    texts: int,
    read: Callable[[bytes, int], Awaitable[R]],
) -> R:
    """Return what `read` makes of the answer about the texts in `body`; waits between attempts hold no room.

    Raises:
        TooMuch: The server takes less in one request.
        AirwError: Every attempt failed, or one in a way that trying again would not help.
    """
    for failures in count(1):
        try:
            async with room:
                return await _attempt(server, client, body, texts=texts, read=read)
        except Transient as failure:
            if failures > server.retries:
                raise server.error(f"{failure} ({failures} attempts)") from failure.__cause__
            pause = _pause(failures, failure.pause)
        await anyio.sleep(pause)
    raise AssertionError  # not reached: the count has no end


def _pause(failures: int, asked: float | None) -> float:
    """Return the seconds to wait: what the server asked for, and up to a doubling bound on top."""
    backoff = random.uniform(0, min(LONGEST_BACKOFF, FIRST_PAUSE * 2 ** (failures - 1)))  # noqa: S311
    return min(LONGEST_PAUSE, (asked or 0.0) + backoff)


async def _attempt(
    server: Server,
    client: "httpx.AsyncClient",
    body: bytes,
    *,
    texts: int,
    read: Callable[[bytes, int], Awaitable[R]],
) -> R:
    if client.is_closed:
        raise server.error(f"{server.label} cannot be asked: its client is closed; use it inside `async with`")
    with _mapped(server), anyio.fail_after(2 * server.timeout):
        request = _signed(server, client, body)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            largest = (1 + texts) * LARGEST_ITEM if response.is_success else LARGEST_COMPLAINT
            content = await _body_read(response, largest)
        finally:
            await response.aclose()
    if not response.is_success:
        raise _refusal(server, response, content)
    if len(content) > largest:
        raise server.error(f"{server.label} answered with more than {largest:,} bytes for {texts} texts")
    try:
        return await read(content, texts)
    except server.error as error:
        raise server.error(_hidden(str(error), request)) from error.__cause__


async def _body_read(response: "httpx.Response", largest: int) -> bytes:
    """Read a body, and little more of it than `largest` bytes."""
    content = bytearray()
    with anyio.CancelScope() as reading:
        async for part in response.aiter_bytes():
            content += part
            if len(content) > largest:
                reading.cancel()  # leaving the loop would leave the generators inside httpx unfinished
    return bytes(content)


def _signed(server: Server, client: "httpx.AsyncClient", body: bytes) -> "httpx.Request":
    """Make the request, with the key from the environment unless the client brings an authorization of its own."""
    import httpx

    from airw._base.http.body import Body

    timeout = httpx.Timeout(server.timeout, connect=min(server.timeout, LONGEST_CONNECT))
    headers = {"Content-Type": "application/json"}
    request = client.build_request("POST", server.url + server.path, content=body, headers=headers, timeout=timeout)
    request.stream = Body(body)
    key = None if "Authorization" in request.headers or client.auth else _key(server)
    if key:
        request.headers["Authorization"] = f"Bearer {key}"
    return request


def _key(server: Server) -> str:
    key = os.environ.get(server.key_variable, "").strip()
    if not key and server.api_key_env:
        raise server.unavailable(f"{server.label} needs a key: set the environment variable {server.api_key_env}")
    if not key.isascii() or not key.isprintable():  # the HTTP library would show it in its error
        raise server.unavailable(f"the environment variable {server.key_variable} holds no key that HTTP can carry")
    return key


@contextmanager
def _mapped(server: Server) -> Iterator[None]:
    """Turn what httpx raises into an error of ours, or into a reason to try again."""
    import httpx

    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        kind = type(error).__name__ if isinstance(error, httpx.TimeoutException) else "the whole attempt"
        raise Transient(f"{server.label} did not answer within timeout={server.timeout:g} s ({kind})") from error
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        said, cause = _describe(error)
        raise Transient(f"{server.label} gave no whole answer ({said}); is it running?") from cause
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said, cause = _describe(error)
        raise server.error(f"{server.label} failed ({said})") from cause


def _describe(error: Exception) -> tuple[str, Exception | None]:
    """Return an error's message, and itself as a cause unless it quotes what the request was authorised with."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    request = getattr(error, "_request", None)  # `request` raises where there is none
    hidden = _hidden(said, request) if request else said
    return one_line(hidden), error if hidden == said else None


def _refusal(server: Server, response: "httpx.Response", content: bytes) -> Exception:
    """Return the error that an answer without success means."""
    status = response.status_code
    said = _hidden(message_of(content), response.request)
    answered = f"{server.label} answered {status}: {one_line(said)}"
    if status in _REFUSED_SIZE or (status in _SIZE_WORDS and _SIZE_WORDS[status].search(said)):
        return TooMuch(f"{status}: {one_line(said)}")
    if status in _RETRIED:
        return Transient(answered, retry_after(response.headers.get("Retry-After"), datetime.now(UTC)))
    if status in (401, 403):
        return server.error(f"{answered}; its key is read from {_origin(server)}")
    if response.has_redirect_location:
        place = _hidden(response.headers["Location"], response.request)
        return server.error(f"{answered}, and points to {one_line(place)!r}: give the URL of the API itself")
    return server.error(f"{answered}; check the URL and the model")


def _origin(server: Server) -> str:
    is_set = os.environ.get(server.key_variable, "").strip()
    return f"the environment variable {server.key_variable}, which is {'set' if is_set else 'not set'}"


def _hidden(text: str, request: "httpx.Request") -> str:
    """Take what the request was authorised with out of a text that the server wrote."""
    sent = request.headers.get("Authorization", "")
    for secret in (sent, sent.rpartition(" ")[2]):
        text = text.replace(secret, "***") if secret else text
    return text
