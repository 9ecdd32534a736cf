"""What surrounds all endpoints of a server: the border, the log, the numbers."""

from collections.abc import Collection, Iterable, Sequence
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airw._base.concurrency import in_thread
from airw.errors import AirwError
from airw.protocols.wire import API_VERSIONS, VERSION_HEADER
from airw.serving.access import ALL
from airw.serving.hosts import Border, HostRule, OriginRule
from airw.serving.logs import LOGGER, record_of
from airw.serving.metrics import MEDIA_TYPE
from airw.serving.problems import problem
from airw.serving.service import Service
from airw.serving.shared_metrics import publish_metrics, read_metrics

_OTHER = "other"
_VERSIONS = ", ".join(map(str, API_VERSIONS))


def surround(
    service: Service,
    routes: Iterable[BaseRoute],
    *,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> Sequence[Middleware]:
    """Return the middleware of a server, the outermost first.

    Args:
        service: The server.
        routes: Its routes. Requests are counted by the first part of their paths.
        hosts: The hosts that it answers to; `"*"` for any. `None`: `localhost` and addresses in numbers; with tokens,
            any. A site that points its own name to this machine has no token.
        origins: The origins whose pages may ask.

    Raises:
        ArgumentError: If a host or an origin is none.
    """
    rule = HostRule([ALL]) if hosts is None and service.access.needs_token else HostRule(hosts)
    endpoints = frozenset(_first_part(route.path) for route in routes if isinstance(route, Route))
    return [
        Middleware(Recorder, service=service, endpoints=endpoints),
        Middleware(Border, hosts=rule, origins=OriginRule(origins)),
    ]


class Recorder:
    """The middleware that writes a line of the log for each request, and counts it.

    Args:
        application: The application.
        service: The server.
        endpoints: The first parts of its paths.
    """

    def __init__(self, app: ASGIApp, *, service: Service, endpoints: frozenset[str]) -> None:
        self._application = app
        self._service = service
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and record it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        record = record_of(scope)
        endpoint = self._endpoint_of(scope)  # before a router changes the scope

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[VERSION_HEADER] = _VERSIONS
                if self._service.ending.is_near:  # the next request of this client goes to another process
                    headers["Connection"] = "close"
            await send(message)

        try:
            await self._application(scope, receive, send_and_note)
        except Exception:
            record.status = record.status or 500
            raise
        finally:
            seconds = perf_counter() - record.began
            metrics = self._service.metrics
            metrics.count_request(endpoint, record.method, record.status, seconds)
            if record.stop is not None:
                metrics.count_walk(record.stop, record.hits, record.first_hit)
            LOGGER.info("%s", record.to_line(seconds))

    def _endpoint_of(self, scope: Scope) -> str:
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        first = _first_part(path)
        return first if first in self._endpoints else _OTHER


def _first_part(path: str) -> str:
    return "/" + path.removeprefix("/").partition("/")[0]


async def answer_metrics(service: Service, request: Request) -> Response:
    """Answer `GET /metrics`: the numbers of all processes that serve together.

    It waits for no other request, so that a busy server can still be watched. If the server has tokens, it needs one.
    """
    try:
        record_of(request.scope).label = service.access.identify(request.headers.get("authorization")).label
    except AirwError as error:
        return problem(error)
    text = service.metrics.to_text()
    if service.metrics.folder is not None:
        await in_thread(publish_metrics, service.metrics.folder, text)
        text = await in_thread(read_metrics, service.metrics.folder)
    return PlainTextResponse(text, media_type=MEDIA_TYPE)
