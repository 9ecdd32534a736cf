"""A server's parts in one place, and the way of each request through them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from starlette.requests import Request
from starlette.responses import Response

from airw._base.checks import check_number
from airw.protocols import OpenCorpus
from airw.serving.access import Access, Caller
from airw.serving.admission import Admission
from airw.serving.bodies import parse_object, read_body
from airw.serving.corpora import ServedCorpora
from airw.serving.limits import ServingLimits
from airw.serving.problems import problem


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """The parts of a server that its endpoints share.

    Args:
        corpora: The corpora.
        limits: The limits of requests and streams.
        access: Finds out who calls.
        admission: Bounds what runs at the same time.
        roots: The folders whose files may be disclosed.
        rerankers: The values of `rerank` that clients may choose.
    """

    corpora: ServedCorpora
    limits: ServingLimits
    access: Access
    admission: Admission
    roots: Sequence[Path] = ()
    rerankers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ApiCall:
    """One request: who calls, and what was sent.

    Args:
        service: The server.
        request: The request; only its headers, its path and its query string are left to read.
        caller: Who calls.
        body: The fields of the JSON body. For GET and DELETE, those of the query string, each a string.
    """

    service: Service
    request: Request
    caller: Caller
    body: dict[str, Any]

    async def open(self, name: str) -> OpenCorpus[Any]:
        """Return an open corpus that the caller may read.

        Raises:
            CorpusNotFound: If there is no such corpus, or the caller may not see it.
            StoreError: If it cannot be opened.
        """
        return await self.service.corpora.get(name, visible=self.caller.readable)

    def timeout(self) -> float:
        """Return the seconds that the request may take: its field `timeout`, within the limit.

        Raises:
            ArgumentError: If the field is not a number of seconds.
        """
        most = self.service.limits.max_timeout
        asked = self.body.get("timeout")
        return most if asked is None else min(most, check_number("timeout", asked, least=0))


Endpoint: TypeAlias = Callable[[ApiCall], Awaitable[Response]]
"""A function that answers one call; an error it raises becomes an answer, see `airw.serving.problems`."""


def answer_with(service: Service, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint of Starlette, which counts as one of `max_requests`.

    In this order: who calls, what may run, the body, the answer or the error.
    """
    return partial(_answer, service, endpoint)


async def _answer(service: Service, endpoint: Endpoint, request: Request) -> Response:
    try:
        caller = service.access.identify(request.headers.get("authorization"))
        async with service.admission.request():
            call = await read_call(service, request, caller)
            with anyio.fail_after(service.limits.max_timeout):
                return await endpoint(call)
    except Exception as error:  # noqa: BLE001 - each error is an answer; unexpected ones are logged
        return problem(error)


async def read_call(service: Service, request: Request, caller: Caller) -> ApiCall:
    """Return a request with its body read and parsed.

    Raises:
        ArgumentError: If the body is too large or not a JSON object, or a parameter is given twice.
    """
    limits = service.limits
    if request.method in ("GET", "HEAD", "DELETE"):
        return ApiCall(service, request, caller, dict(request.query_params))
    body = await read_body(request.stream(), max_bytes=limits.max_body)
    return ApiCall(service, request, caller, await parse_object(body, max_depth=limits.max_depth))
