"""The border of a server: its hosts, the origins that may ask, and headers of answers.

A page of any site can send requests to a server on the reader's own machine. Three checks keep it out:

- The header `Host` must name this server. Otherwise a site could let its own name point to this machine.
- The header `Origin`, which browsers add, must name this server or an origin that the operator allows.
- A browser that says `Sec-Fetch-Site: cross-site` without an origin embeds an answer: it gets none.
"""

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.serving.access import ALL
from airw.serving.problems import AccessDenied, problem

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Last-Event-ID, traceparent, tracestate, X-Vercel-AI-UI-Message-Stream, "
        "Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
    ),
    "Access-Control-Max-Age": "600",
}
_EXPOSED = "Airw-Api, Retry-After, X-Vercel-AI-UI-Message-Stream, Mcp-Session-Id"
_ANSWER_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class HostRule:
    """The values of `Host` that a server answers to.

    Args:
        names: Names of hosts without port; `"*"` for any. `None`: `localhost` and all addresses in numbers, since no
            site can let a name point to those.

    Raises:
        ArgumentError: If a name is no host, such as a URL.

    Example:
        >>> rule = HostRule()
        >>> rule.allows("127.0.0.1:8000"), rule.allows("[::1]"), rule.allows("evil.example")
        (True, True, False)
        >>> HostRule(["kb.example"]).allows("KB.example:443")
        True
    """

    names: Collection[str] | None = None

    def __post_init__(self) -> None:
        """Check the names."""
        if isinstance(self.names, str):
            raise ArgumentError(f"hosts must be a list of names, not {short_repr(self.names)}")
        for name in self.names or ():
            if name != ALL and (not isinstance(name, str) or _host_of(name) != name.casefold()):
                raise ArgumentError(f"hosts must contain names such as 'kb.example', not {short_repr(name)}")

    def allows(self, host: str) -> bool:
        """Return True if the server answers to this value of `Host`."""
        if self.names is not None and ALL in self.names:
            return True
        name = _host_of(host)
        if name is None:
            return False
        if name == "localhost" or _is_number(name):
            return True
        return name in {each.casefold() for each in self.names or ()}


@dataclass(frozen=True, slots=True)
class OriginRule:
    """The origins whose pages may send requests from a browser.

    The server's own page may, always.

    Args:
        origins: Origins, such as `"https://kb.example"`; `"*"` for any.

    Raises:
        ArgumentError: If one is no origin: it has a path, for example.

    Example:
        >>> rule = OriginRule(["https://kb.example"])
        >>> rule.is_foreign("https://kb.example", host="127.0.0.1:8000"), rule.is_foreign("null", host="127.0.0.1:8000")
        (True, None)
        >>> rule.is_foreign("http://127.0.0.1:8000", host="127.0.0.1:8000")
        False
    """

    origins: Collection[str] = ()

    def __post_init__(self) -> None:
        """Check the origins."""
        if isinstance(self.origins, str):
            raise ArgumentError(f"origins must be a list, not {short_repr(self.origins)}")
        for origin in self.origins:
            if origin != ALL and not _is_origin(origin):
                raise ArgumentError(
                    f"origins must contain origins such as 'https://kb.example', not {short_repr(origin)}"
                )

    def is_foreign(self, origin: str, *, host: str) -> bool | None:
        """Return False for the own page, True for another that may ask, None for the rest."""
        own = origin.casefold() in {f"http://{host.casefold()}", f"https://{host.casefold()}"}
        if own:
            return False
        return True if ALL in self.origins or origin.casefold() in map(str.casefold, self.origins) else None


class Border:
    """The middleware that checks hosts and origins, and adds headers to every answer.

    It passes each message on as it comes, so that a stream stays a stream.

    Args:
        application: The application behind the border.
        hosts: The hosts that it answers to.
        origins: The origins that may ask.
    """

    def __init__(self, application: ASGIApp, hosts: HostRule, origins: OriginRule) -> None:
        self._application = application
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            foreign = self._check(headers)
        except AccessDenied as error:
            await problem(error)(scope, receive, _with_headers(send, None))
            return
        origin = headers.get("origin") if foreign else None
        application: ASGIApp = self._application
        if origin is not None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            application = Response(status_code=204, headers=_PREFLIGHT)
        await application(scope, receive, _with_headers(send, origin))

    def _check(self, headers: Headers) -> bool:
        """Return True if a page of another origin asks.

        Raises:
            AccessDenied: If the server does not answer to this host or origin.
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._hosts.allows(hosts[0]):
            named = short_repr(", ".join(hosts))
            raise AccessDenied(f"this server does not answer to the host {named}; its operator can add it", 421)
        origins = headers.getlist("origin")
        if not origins:
            site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
            if site in ("cross-site", "same-site") and mode != "navigate":
                raise AccessDenied("pages of other sites cannot embed answers of this server", 403)
            return False
        foreign = self._origins.is_foreign(origins[0], host=hosts[0]) if len(origins) == 1 else None
        if foreign is None:
            raise AccessDenied(
                f"pages of {short_repr(', '.join(origins))} cannot ask this server; its operator can add the origin",
                403,
            )
        return foreign


def _with_headers(send: Send, origin: str | None) -> Send:
    """Return a `send` that adds the headers of every answer, and of one to an origin."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ANSWER_HEADERS.items():
                headers.setdefault(name, value)
            headers.add_vary_header("Origin")
            if origin is not None:
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = _EXPOSED
        await send(message)

    return send_with_headers


def _host_of(value: str) -> str | None:
    """Return the host in a value of `Host`, without port, or None if it is no host."""
    try:
        parts = urlsplit(f"//{value}")
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return None
    is_plain = parts.netloc == value and "@" not in value and value.isascii() and value.isprintable()
    return parts.hostname if is_plain and " " not in value else None


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_origin(origin: object) -> bool:
    if not isinstance(origin, str):
        return False
    scheme, _, host = origin.partition("://")
    return scheme.casefold() in ("http", "https") and _host_of(host) is not None
