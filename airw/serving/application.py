"""`app`: the server as an application, which another one may mount."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airw._base.checks import check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.serving import artifacts, catalogue, finding, health, links, store_calls, walks
from airw.serving.access import Access, Token
from airw.serving.admission import Admission
from airw.serving.answers import UnsentAnswers
from airw.serving.corpora import ServableCorpora, ServedCorpora
from airw.serving.held_walks import HeldWalks
from airw.serving.limits import ServingLimits
from airw.serving.metrics import Metrics
from airw.serving.middleware import answer_metrics, surround
from airw.serving.openapi import openapi_route
from airw.serving.page import page_routes
from airw.serving.problems import answer_problem
from airw.serving.service import Endpoint, Service, answer_with


def app(
    corpora: ServableCorpora,
    *,
    tokens: Sequence[Token] = (),
    writable: Collection[str] = (),
    limits: ServingLimits | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    rerankers: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> Starlette:
    """Return an application that serves corpora over HTTP, alone or inside another one.

    Corpora passed by name or path are opened at their first use. A write to them waits for the disk, so an acknowledged
    one survives a power failure. When a server that runs this application alone shuts down, it closes them. A server
    that runs an application in which this one is mounted does not: enter its lifespan in yours, as below. Corpora that
    are passed open stay open; close them yourself.

    Clients know the corpora by name, and reach no others: neither paths nor addresses. Embedders are those of the
    corpora.

    Args:
        corpora: Open corpora, or names, paths or addresses of corpora. A mapping gives them other names, which their
            hits then carry as source.
        tokens: The tokens that clients send; without any, everybody may read all corpora.
        writable: Without tokens: the names of the corpora that everybody may change; `"*"` for all.
        limits: What one request, one client and all clients may ask for.
        roots: The folders whose files may be disclosed, except hidden ones, and those of corpora that a client may not
            read. Without them, clients get no bodies of files.
        rerankers: The values of `rerank` that clients may choose, such as `"cross-encoder"`.
        hosts: The names in the header `Host` to which the server answers; `"*"` for all. By default all if there are
            tokens, else only loopback names and IP addresses.
        origins: The origins of other sites whose pages may use the server, such as `"https://app.example"`.

    Raises:
        ArgumentError: If there is no corpus, two have the same name, or another value cannot be used.

    Example:
        >>> import anyio, httpx
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         transport = httpx.ASGITransport(app([corpus]))
        ...         async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        ...             answer = await client.post("/search", json={"corpus": "notes", "query": "keys"})
        ...     return [hit["artifact_id"] for hit in answer.json()["hits"]]
        >>> anyio.run(main)
        ['a']

        Inside another application:

        >>> from contextlib import asynccontextmanager
        >>> from starlette.applications import Starlette
        >>> from starlette.routing import Mount
        >>> api = app(["notes", "manuals"])
        >>> @asynccontextmanager
        ... async def lifespan(_):
        ...     async with api.router.lifespan_context(api):  # closes the corpora
        ...         yield
        >>> site = Starlette(routes=[Mount("/kb", api)], lifespan=lifespan)
    """
    service = make_service(corpora, tokens=tokens, writable=writable, limits=limits, roots=roots, rerankers=rerankers)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    routes = _routes(service)
    application = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=surround(service, routes, hosts=hosts, origins=origins),
        exception_handlers={HTTPException: _answer_no_route},
    )
    # A redirect to the path without its last slash would repeat the Host header of the client.
    application.router.redirect_slashes = False
    application.state.service = service  # for whoever runs it alone, and tells its streams that it stops
    return application


def make_service(
    corpora: ServableCorpora,
    *,
    tokens: Sequence[Token] = (),
    writable: Collection[str] = (),
    limits: ServingLimits | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    rerankers: Sequence[str] = (),
) -> Service:
    """Return the parts of a server, from the arguments of `app`.

    Raises:
        ArgumentError: If one cannot be used.
    """
    bounds = ServingLimits() if limits is None else limits
    if not isinstance(bounds, ServingLimits):
        raise ArgumentError(f"limits must be a ServingLimits object, not {short_repr(limits)}")
    folders = _check_roots(roots)
    served = ServedCorpora(corpora)
    metrics = Metrics()
    return Service(
        served,
        bounds,
        Access(served.names, tokens, writable=writable),
        Admission(bounds, metrics),
        UnsentAnswers(bounds, metrics),
        HeldWalks(bounds, metrics),
        folders,
        check_strings("rerankers", rerankers),
        metrics,
    )


def _check_roots(roots: object) -> list[Path]:
    # The letters of a string would be roots, too, and "/" would allow every file.
    if not isinstance(roots, list | tuple) or not all(isinstance(root, str | os.PathLike) and root for root in roots):
        raise ArgumentError(f"roots must be a list of folders, not {short_repr(roots)}")
    return [Path(root).absolute() for root in roots]


_ENDPOINTS: Mapping[tuple[str, str], Endpoint] = {
    ("POST", "/search"): finding.search,
    ("POST", "/discover"): finding.discover,
    ("GET", "/traverse"): walks.traverse,
    ("POST", "/traverse"): walks.traverse,
    ("POST", "/traverse/continue"): walks.continue_walk,
    ("GET", "/artifact"): artifacts.read_artifact,
    ("PUT", "/artifact"): artifacts.put_artifact,
    ("DELETE", "/artifact"): artifacts.delete_artifact,
    ("GET", "/tree"): links.tree,
    ("GET", "/path"): links.path,
    ("GET", "/corpora"): catalogue.list_corpora,
    ("POST", "/embed"): store_calls.embed,
    ("POST", "/store/describe"): store_calls.describe_corpus,
    ("POST", "/store/read"): store_calls.read_store,
    ("POST", "/stores/read"): store_calls.read_stores,
}
"""The endpoints by method and path."""


def _routes(service: Service) -> list[Route]:
    """Return one route for each path, so that a wrong method gets all that would do."""
    methods: dict[str, dict[str, Endpoint]] = {}
    for (method, path), endpoint in _ENDPOINTS.items():
        methods.setdefault(path, {})[method] = endpoint
    return [
        *(Route(path, _by_method(service, each), methods=list(each)) for path, each in methods.items()),
        Route("/healthz", health.answer_alive, methods=["GET"]),
        Route("/readyz", health.Readiness(service).answer, methods=["GET"]),
        Route("/metrics", partial(answer_metrics, service), methods=["GET"]),
        openapi_route(service),
        *page_routes(),
    ]


def _by_method(service: Service, endpoints: Mapping[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    answers = {method: answer_with(service, endpoint) for method, endpoint in endpoints.items()}

    async def answer(request: Request) -> Response:
        return await answers["GET" if request.method == "HEAD" else request.method](request)

    return answer


async def _answer_no_route(request: Request, error: Exception) -> Response:
    """Answer a request for a path or with a method that is not there, as every other error."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = {404: "there is no such path here", 405: f"{request.method} is not a method of this path"}
    content = {"error": "AirwError", "status": status, "detail": known.get(status, "the request cannot be answered")}
    return answer_problem(content, getattr(error, "headers", None))
