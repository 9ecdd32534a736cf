"""A server's parts in one place, and the way of each request through them."""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from airw._base.checks import check_number
from airw._base.concurrency import first_error, offload_if
from airw._base.json import dump_json
from airw._base.messages import error_text, short_repr
from airw._base.overriding import override
from airw.errors import AirwError, ArgumentError
from airw.protocols import OpenCorpus
from airw.serving.access import Access, Caller, client_of
from airw.serving.admission import Admission
from airw.serving.answers import JsonAnswer, UnsentAnswers, encode_pieces
from airw.serving.bodies import (
    FieldKinds,
    check_fields,
    check_texts_of,
    parse_object,
    parse_query,
    read_body,
)
from airw.serving.corpora import ServedCorpora
from airw.serving.ending import Ending
from airw.serving.held_walks import HeldWalks
from airw.serving.limits import ServingLimits
from airw.serving.logs import LOGGER, record_of
from airw.serving.metrics import Metrics
from airw.serving.paths import hide_paths
from airw.serving.problems import BodyTooSlow, DeadlinePassed, problem, status_of

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # the escape of half a character, or of one of two halves
_WITHOUT_BODY = ("GET", "HEAD", "DELETE")


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """The parts of a server that its endpoints share.

    Args:
        corpora: The corpora.
        limits: The limits of requests and streams.
        access: Finds out who calls.
        admission: Bounds what runs at the same time.
        unsent: Bounds what clients have not read yet.
        held: The walks that clients may go on with.
        roots: The folders whose files may be disclosed, as absolute paths.
        rerankers: The values of `rerank` that clients may choose.
        metrics: The numbers of this server.
        ending: Tells streams that the server is going to stop.
    """

    corpora: ServedCorpora
    limits: ServingLimits
    access: Access
    admission: Admission
    unsent: UnsentAnswers
    held: HeldWalks
    roots: Sequence[Path] = ()
    rerankers: Sequence[str] = ()
    metrics: Metrics = field(default_factory=Metrics)
    ending: Ending = field(default_factory=Ending)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open corpora and hold walks inside the block; close and drop them after it."""
        async with self.corpora.running(), self.held.running():
            yield


@dataclass(frozen=True, slots=True, eq=False)
class ClientCall:
    """One call of a client: who calls, and what was sent.

    Args:
        service: The server.
        caller: Who calls.
        body: The fields that were sent.
    """

    service: Service
    caller: Caller
    body: dict[str, Any]

    async def open(self, name: str) -> OpenCorpus:
        """Return an open corpus that the caller may read.

        Raises:
            CorpusNotFound: If there is no such corpus, or the caller may not see it.
            StoreError: If it cannot be opened.
        """
        return await self.service.corpora.get(name, visible=self.caller.readable)

    async def open_all(self, names: Sequence[str], *, seconds: float = math.inf) -> dict[str, OpenCorpus]:
        """Return several open corpora by name, after the caller's right to each is checked.

        If one cannot be opened within the seconds, each call of its store raises the reason: a search or walk of
        several corpora goes on without it.

        Raises:
            ArgumentError: If there is none, one is named twice, or there are more than `max_corpora`.
            CorpusNotFound: If there is no such corpus, or the caller may not see it. None is opened then.
            StoreError: If none can be opened.
        """
        most = self.service.limits.max_corpora
        if not 1 <= len(names) <= most or len(set(names)) < len(names):
            raise ArgumentError(f"corpora must be 1 to {most} different names, not {short_repr(names)}")
        return await self.service.corpora.get_all(names, visible=self.caller.readable, seconds=seconds)

    def hide_paths(self, value: Any) -> Any:
        """Return a JSON value without absolute paths of this machine; see `airw.serving.paths`."""
        return hide_paths(value, self.service.roots)

    def timeout(self) -> float:
        """Return the seconds that the call may take: its field `timeout`, within the limit.

        Raises:
            ArgumentError: If the field is not a number of seconds.
        """
        most = self.service.limits.max_timeout
        asked = self.body.get("timeout")
        return most if asked is None else min(most, check_number("timeout", asked, least=0))

    def seconds_left(self) -> float:
        """Return the seconds that the next piece of work may take."""
        return self.timeout()

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Bound the time of a block by `seconds_left()`.

        Raises:
            DeadlinePassed: If the block takes longer.
        """
        with anyio.move_on_after(self.seconds_left()) as scope:
            yield
        if scope.cancelled_caught:
            seconds = f"{self.timeout():g} seconds"
            raise DeadlinePassed(f"the request took longer than {seconds}; ask for less, or allow more time")


@dataclass(frozen=True, slots=True, eq=False)
class ApiCall(ClientCall):
    """One request over HTTP.

    Args:
        service: The server.
        caller: Who calls.
        body: The fields of the JSON body. For GET and DELETE, those of the query string, each a string.
        request: The request; only its headers, its path and its query string are left to read.
        may_have_halves: Whether the body may contain half a character, as only an escape can.
    """

    request: Request
    may_have_halves: bool = False

    def fields(self, known: FieldKinds, *, of: str) -> dict[str, Any]:
        """Return what was sent, once its names and types are checked.

        Args:
            known: The types of the known fields, by name.
            of: The request, for messages, such as `"/search"`.

        Raises:
            ArgumentError: For the first wrong field.
        """
        if self.request.method in _WITHOUT_BODY:
            return parse_query(
                self.request.query_params.multi_items(), known, of=of, max_nesting=self.service.limits.max_nesting
            )
        check_fields(self.body, known, of=of)
        if self.may_have_halves:
            check_texts_of(self.body)
        return dict(self.body)

    async def answer(self, value: Any, *, is_long: bool = False) -> Response:
        """Return the answer with a JSON value.

        Args:
            value: The value.
            is_long: Encode it in a worker thread, as that takes more than a millisecond.

        Raises:
            AnswerTooLarge: If it has more than `max_answer` bytes.
        """
        return self.answer_pieces(await offload_if(is_long, self.encode, value))

    def encode(self, value: Any, dump: Callable[[Any], str] = dump_json) -> list[bytes]:
        """Return the JSON of a value in pieces; `dump` returns that of a part.

        Raises:
            AnswerTooLarge: If it has more than `max_answer` bytes.
        """
        return encode_pieces(value, dump, most=self.service.limits.max_answer)

    def answer_pieces(self, pieces: Sequence[bytes]) -> Response:
        """Return the answer with JSON that is encoded already."""
        service, client = self.service, client_of(self.caller, self.request.scope)
        return JsonAnswer(pieces, client=client, unsent=service.unsent, max_stall=service.limits.max_stall)

    @override
    def timeout(self) -> float:
        asked = self.body.get("timeout")
        if isinstance(asked, str):  # of a query string
            known: FieldKinds = {"timeout": float}
            fields = parse_query([("timeout", asked)], known, of=self.request.scope["path"], max_nesting=1)
            return replace(self, body=fields).timeout()
        return ClientCall.timeout(self)


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
        record_of(request.scope).label = caller.label
        client = client_of(caller, request.scope)
        # Before it takes a place: a client that sends its body slowly must not take that of others.
        with service.admission.arrival(client):
            body = await _read_body(service.limits, request)

        async def respond() -> Response:
            # Parsed only now: a body that waits as objects takes many times its bytes.
            return await endpoint(await _parse_call(service, request, caller, body))

        return await _run_while_connected(service, request, client, respond)
    except ClientDisconnect:
        return _NOBODY
    except Exception as error:  # noqa: BLE001 - each error is an answer
        return answer_error(error)


def answer_error(error: Exception) -> Response:
    """Return the answer to a request that failed, and log what nobody expected."""
    log_failure(error)
    return problem(error)


def log_failure(error: Exception) -> None:
    """Log an error of the server, of which the client learns little."""
    if status_of(error) >= 500 and not isinstance(error, DeadlinePassed):
        # The answer contains no details: they may be secret. For errors of the library, the message is enough.
        is_known = isinstance(error, AirwError)
        LOGGER.error("%s", error_text(error), exc_info=None if is_known else error)


async def _run_while_connected(
    service: Service, request: Request, client: str, respond: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the answer of a function; stop if the client leaves or the longest time is over."""
    answer, is_late = _NOBODY, False
    with first_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_if_disconnected, request, tasks.cancel_scope)
            async with service.admission.request(client):
                with anyio.move_on_after(service.limits.max_timeout) as scope:
                    answer = await respond()
                is_late = scope.cancelled_caught
            tasks.cancel_scope.cancel()
    if is_late:
        raise DeadlinePassed(f"the request took longer than {service.limits.max_timeout:g} seconds; ask for less")
    return answer


async def _cancel_if_disconnected(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


_NOBODY = Response(status_code=499)  # nobody receives it


async def _read_body(limits: ServingLimits, request: Request) -> bytes:
    """Return the body of a request; GET and DELETE have none.

    Raises:
        BodyTooLarge: If it is too long.
        BodyTooSlow: If it does not arrive in time.
    """
    if request.method in _WITHOUT_BODY:
        return b""
    seconds = min(limits.max_body_wait, limits.max_timeout)
    with anyio.move_on_after(seconds):
        async with aclosing(request.stream()) as pieces:
            return await read_body(pieces, max_bytes=limits.max_body)
    raise BodyTooSlow(f"the body did not arrive within {seconds:g} seconds; send it faster")


async def _parse_call(service: Service, request: Request, caller: Caller, body: bytes) -> ApiCall:
    """Return a request with its body parsed.

    Raises:
        ArgumentError: If the body is not a JSON object.
    """
    if request.method in _WITHOUT_BODY:
        return ApiCall(service, caller, dict(request.query_params), request)
    fields = await parse_object(body, max_nesting=service.limits.max_nesting)
    return ApiCall(service, caller, fields, request, _HALF.search(body) is not None)
