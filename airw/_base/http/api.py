"""A client of one API of a server: its connections, and its requests in batches of texts."""

import json
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

from airw._base.checks import check_count, find_text_fault
from airw._base.concurrency import in_thread, map_bounded
from airw._base.http.calls import RequestTooLarge, Server, load_tls, new_client, request_with_retries
from airw.errors import ArgumentError

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")
T = TypeVar("T")


class PerLoop(Generic[T]):
    """A value for each event loop, made at its first use.

    Connections and locks belong to one event loop, but one client may be used on several. A value ends with its event
    loop, or with the `PerLoop` object if that ends first.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Create an object whose values are made by `make`.

        Neither `make` nor the values may refer to this object, or it would never end.
        """
        self._make = make

    def get(self) -> T:
        """Return the value of the running event loop."""
        # The event loop owns the dictionary, and its keys are weak: neither keeps the other alive.
        values = LOOP_VALUES.get(None)
        if values is None:
            values = WeakKeyDictionary()
            LOOP_VALUES.set(values)
        if self not in values:
            values[self] = self._make()
        value: T = values[self]
        return value


LOOP_VALUES: RunVar["WeakKeyDictionary[PerLoop[Any], Any]"] = RunVar("values of PerLoop objects")


class TextsRefused(Exception):
    """The cause of an error about texts that a server refuses as too large, each by itself.

    `reasons` maps the position of each text to why.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"texts {', '.join(map(str, reasons))}")
        self.reasons = reasons


@dataclass(slots=True)
class _Verdicts:
    """The texts of one call that the server refuses, and whether it has accepted others."""

    refused: dict[int, str] = field(default_factory=dict)
    has_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """The texts of one request, and the position of the first one among all texts."""

    start: int
    texts: list[str]

    def halves(self) -> "tuple[Batch, Batch]":
        """Return the two halves of the batch."""
        middle = len(self.texts) // 2
        return Batch(self.start, self.texts[:middle]), Batch(self.start + middle, self.texts[middle:])


def split_batches(texts: list[str], max_count: int, max_chars: int) -> Iterator[Batch]:
    """Yield batches of at most `max_count` texts and `max_chars` characters, in order.

    A text that is longer than `max_chars` is alone in its batch.
    """
    start = chars = 0
    for position, text in enumerate(texts):
        if position > start and (position - start == max_count or chars + len(text) > max_chars):
            yield Batch(start, texts[start:position])
            start, chars = position, 0
        chars += len(text)
    yield Batch(start, texts[start:])


def _encode_body(payload: Callable[[list[str]], Mapping[str, object]], server: Server, batch: Batch) -> bytes:
    """Return the body of a request as JSON in UTF-8."""
    try:
        return json.dumps(payload(batch.texts), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        position, fault = next(
            (position, fault)
            for position, text in enumerate(batch.texts, batch.start)
            if (fault := find_text_fault(text))
        )
        raise server.error(f"{server.label} cannot receive text {position}: it contains {fault}") from error


@dataclass(frozen=True, slots=True)
class Exchange(Generic[R]):
    """The form of a request and its answer.

    Args:
        payload: A function of the texts of a batch that returns the JSON to send.
        read: A function of the body of the answer and the number of texts that returns the result.
    """

    payload: Callable[[list[str]], Mapping[str, object]]
    read: Callable[[bytes, int], Awaitable[R]]


@dataclass(slots=True)
class _LoopState:
    """The state of one API on one event loop; `entered` counts `enter` minus `leave`."""

    limiter: anyio.CapacityLimiter
    entered: int = 0
    client: "httpx.AsyncClient | None" = None


class Api:
    """A client that sends at most `max_concurrency` requests at once per event loop.

    Connections stay open from call to call only between `enter` and `leave`, or if the caller passes a `client`.

    Raises:
        ArgumentError: If `client` is not an `httpx.AsyncClient`, or `max_concurrency` is not a whole number above 0.
    """

    def __init__(self, server: Server, *, max_concurrency: int, client: "httpx.AsyncClient | None") -> None:
        if client is not None and not all(hasattr(client, part) for part in ("aclose", "send", "build_request")):
            raise ArgumentError(f"client must be an httpx.AsyncClient, not {type(client).__name__}")
        self.server = server
        self._max_concurrency = check_count("max_concurrency", max_concurrency, least=1)
        self._client = client
        self._loop_state = PerLoop(partial(_new_state, max_concurrency))

    async def ask_all(self, texts: list[str], exchange: Exchange[R], *, batch_size: int, max_chars: int) -> list[R]:
        """Send the texts in batches and return the results of the batches, in order.

        A batch that the server refuses as too large is halved. If it refuses a single text, no other batch is begun.
        Those that are under way find out all their texts that are too large, and a `TextsRefused` with them is the
        cause of the error.

        Args:
            texts: The texts to send.
            exchange: The form of the requests and answers.
            batch_size: The largest number of texts in a request.
            max_chars: The largest number of characters in a request; a longer text is sent alone.

        Raises:
            AirwError: If the server cannot be reached, refuses, or sends an answer that cannot be used; of the types
                that `server` names.
        """
        batches = list(split_batches(texts, batch_size, max_chars))
        verdicts = _Verdicts()
        async with await self._session() as client:

            async def ask_unless_refused(batch: Batch) -> list[R]:
                return [] if verdicts.refused else await self._ask(client, exchange, batch, verdicts)

            answers = await map_bounded(ask_unless_refused, batches, limit=self._max_concurrency)
        if verdicts.refused:
            refused = dict(sorted(verdicts.refused.items()))
            first, *others = refused
            more = f" (and {len(others)} more texts)" if others else ""
            message = f"{self.server.label} refuses text {first} by itself {refused[first]}; shorten it{more}"
            reasons = {at: f"the server refuses it by itself {why}" for at, why in refused.items()}
            raise self.server.error(message) from TextsRefused(reasons)
        return [answer for batch_answers in answers for answer in batch_answers]

    async def _ask(
        self, client: "httpx.AsyncClient", exchange: Exchange[R], batch: Batch, verdicts: _Verdicts
    ) -> list[R]:
        count = len(batch.texts)
        # In a worker thread, because encoding long texts would delay other tasks.
        body = await in_thread(_encode_body, exchange.payload, self.server, batch)
        limiter = self._loop_state.get().limiter
        try:
            answer = await request_with_retries(self.server, client, limiter, body, texts=count, read=exchange.read)
        except RequestTooLarge as refusal:
            # The limits of servers differ and are rarely documented: halve the batch until it fits.
            if count == 1:
                verdicts.refused[batch.start] = f"({len(batch.texts[0]):,} characters): {refusal}"
                return []
        else:
            verdicts.has_accepted = True
            return [answer]
        first, second = batch.halves()
        answers = await self._ask(client, exchange, first, verdicts)
        # A server that has accepted nothing may have another reason than the length: do not ask it about each text.
        if verdicts.has_accepted or not verdicts.refused:
            answers += await self._ask(client, exchange, second, verdicts)
        return answers

    async def _session(self) -> AbstractAsyncContextManager["httpx.AsyncClient"]:
        """Return the HTTP client to use; leaving the context closes it if it is for one call only."""
        if self._client is not None:
            return nullcontext(self._client)
        await in_thread(load_tls)
        state = self._loop_state.get()
        # Outside `async with` nobody would close the connections, so each call opens its own.
        if not state.entered:
            return new_client(self._max_concurrency)
        if state.client is None:
            state.client = new_client(self._max_concurrency)
        return nullcontext(state.client)

    def enter(self) -> None:
        """Keep connections open from call to call on this event loop, until `leave`."""
        self._loop_state.get().entered += 1

    async def leave(self) -> None:
        """Close the connections once this has been called as often as `enter`."""
        state = self._loop_state.get()
        state.entered -= 1
        if not state.entered:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop; afterwards the API can still be used."""
        state = self._loop_state.get()
        client = state.client
        state.client = None
        # Shielded: a cancelled task still closes its connections.
        if client is not None:
            with anyio.CancelScope(shield=True):
                await client.aclose()


class ApiClient:
    """The base class of API clients: `async with` keeps their connections from call to call.

    Two of the same class and identity are equal.
    """

    _api: Api

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> Hashable:
        """Return what decides whether two clients are equal; by default each only equals itself."""
        return id(self)

    async def aclose(self) -> None:
        """Close the connections of this event loop; afterwards the client can still be used."""
        await self._api.aclose()

    async def __aenter__(self) -> Self:
        self._api.enter()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._api.leave()


def _new_state(max_concurrency: int) -> _LoopState:
    return _LoopState(anyio.CapacityLimiter(max_concurrency))
