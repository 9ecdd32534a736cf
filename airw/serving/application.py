"""`app`: the server as an application, which another one may mount."""

import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route

from airw.serving import finding, store_calls
from airw.serving.access import Access, Token
from airw.serving.admission import Admission
from airw.serving.corpora import ServableCorpora, ServedCorpora
from airw.serving.limits import ServingLimits
from airw.serving.page import page_routes
from airw.serving.service import Endpoint, Service, answer_with


def app(
    corpora: ServableCorpora,
    *,
    tokens: Sequence[Token] = (),
    writable: Collection[str] = (),
    limits: ServingLimits | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    rerankers: Sequence[str] = (),
) -> Starlette:
    """Return an application that serves corpora over HTTP.

    Example:
        >>> app(["notes"]).routes != []
        True
    """
    bounds = limits or ServingLimits()
    served = ServedCorpora(corpora)
    service = Service(
        served,
        bounds,
        Access(served.names, tokens, writable=writable),
        Admission(bounds),
        [Path(root) for root in roots],
        rerankers,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await served.aclose()

    return Starlette(routes=_routes(service), lifespan=lifespan)


def _routes(service: Service) -> list[Route]:
    endpoints: dict[tuple[str, str], Endpoint] = {
        ("POST", "/search"): finding.search,
        ("POST", "/embed"): store_calls.embed,
        ("POST", "/store/describe"): store_calls.describe_corpus,
        ("POST", "/store/{method}"): store_calls.call_store,
    }
    routes = [Route(path, answer_with(service, each), methods=[method]) for (method, path), each in endpoints.items()]
    return [*routes, *page_routes()]
