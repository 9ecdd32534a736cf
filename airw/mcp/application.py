"""`app`: the tools over HTTP, alone or inside another application."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from airw.mcp.calls import DEFAULT_LIMITS
from airw.mcp.server import make_server
from airw.mcp.sessions import ClientSessions
from airw.serving.access import Token, client_of
from airw.serving.application import make_service
from airw.serving.corpora import ServableCorpora
from airw.serving.limits import ServingLimits
from airw.serving.logs import record_of
from airw.serving.middleware import surround
from airw.serving.problems import AccessDenied, ServerStopping, TooManyRequests, problem
from airw.serving.service import Service

PATH = "/mcp"
"""The path of the tools."""


def app(
    corpora: ServableCorpora,
    *,
    tokens: Sequence[Token] = (),
    limits: ServingLimits | None = None,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> Starlette:
    """Return an application that offers corpora as tools at `/mcp`, by MCP's streamable HTTP.

    Corpora that are passed by name are opened at their first use, and closed when the application ends. Inside another
    application, enter its lifespan in yours, as with `airw.serving.app`. It runs once: make another one to run again.

    Args:
        corpora: Open corpora, or names, paths or addresses of corpora. A mapping gives them other names.
        tokens: The tokens that clients send; without any, everybody may read all corpora.
        limits: What one call, one client and all clients may ask for. `max_streams_per_client` and `max_streams` bound
            the sessions: a new one ends one that nobody uses. By default as for `airw.serving.app`, but with 50 seconds
            for a call, as clients often give up after 60.
        hosts: The names in the header `Host` to which it answers; by default as `airw.serving.app`.
        origins: The origins of other sites whose pages may use it.

    Raises:
        ArgumentError: If there is no corpus, two have the same name, or another value cannot be used.
    """
    service = make_service(corpora, tokens=tokens, limits=limits or DEFAULT_LIMITS)
    # The border of airw.serving checks hosts and origins, so the SDK need not.
    sessions = StreamableHTTPSessionManager(
        make_server(service),
        max_request_body_size=service.limits.max_body,
        max_sessions=None,  # `ClientSessions` bounds them
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with service.running(), sessions.run():
            yield

    routes = [Route(PATH, _Guard(service, ClientSessions(sessions.asgi_app, service.limits)))]
    application = Starlette(
        routes=routes, lifespan=lifespan, middleware=surround(service, routes, hosts=hosts, origins=origins)
    )
    application.router.redirect_slashes = False
    application.state.service = service
    return application


class _Guard:
    """The check of a request's token, and the end of streams when the server stops.

    A session belongs to the token that began it: no other one can use it.

    Args:
        service: The server.
        sessions: The application behind it.
    """

    def __init__(self, service: Service, sessions: ClientSessions) -> None:
        self._service, self._sessions = service, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        try:
            caller = self._service.access.identify(Headers(scope=scope).get("authorization"))
            record_of(scope).label = caller.label
            if caller.key:
                scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.key, scopes=[]))
            client = client_of(caller, scope)
            if scope["method"] != "GET":
                await self._sessions.answer(client, scope, receive, send)
                return
            # The stream for messages that answer no call lasts as long as its session, and must not hold up the end.
            if self._service.ending.is_near:
                await problem(ServerStopping("the server stops; ask again"))(scope, receive, send)
                return
            with self._service.ending.scope() as ended:
                await self._sessions.answer(client, scope, receive, send)
            if ended.cancelled_caught:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (AccessDenied, TooManyRequests) as error:
            await problem(error)(scope, receive, send)
