"""One API of a server: its connections, and many texts asked about in batches, on any event loop."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

from airw._base.checks import check_count, find_text_fault
from airw._base.concurrency import in_thread, map_bounded
from airw._base.http.calls import Server, TooMuch, ask, new_client, tls
from airw.errors import ArgumentError

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")
T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each event loop, made when it is first asked for.

    Both ways weak: a value ends with its event loop, and with the object that holds this.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Make values by `make`, which must not lead back to this object, nor may they."""
        self._make = make

    def get(self) -> T:
        """Return the value for the event loop that runs."""
        held = HELD.get(None)
        if held is None:
            held = WeakKeyDictionary()
            HELD.set(held)
        if self not in held:
            held[self] = self._make()
        value: T = held[self]
        return value


HELD: RunVar["WeakKeyDictionary[PerLoop[Any], Any]"] = RunVar("held per loop")


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts for one request, and the position of the first among all."""

    start: int
    texts: list[str]

    def halves(self) -> "tuple[Batch, Batch]":
        """Return the batch cut in two."""
        middle = len(self.texts) // 2
        return Batch(self.start, self.texts[:middle]), Batch(self.start + middle, self.texts[middle:])


def split_batches(texts: list[str], most: int, most_chars: int) -> Iterator[Batch]:
    """Cut the texts into batches, in their order, within both bounds; a longer text is alone in its batch."""
    start = chars = 0
    for at, text in enumerate(texts):
        if at > start and (at - start == most or chars + len(text) > most_chars):
            yield Batch(start, texts[start:at])
            start, chars = at, 0
        chars += len(text)
    yield Batch(start, texts[start:])


def _encode_body(payload: Callable[[list[str]], Mapping[str, object]], server: Server, batch: Batch) -> bytes:
    """Return a request as JSON in UTF-8."""
    try:
        return json.dumps(payload(batch.texts), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        faults = ((at, fault) for at, text in enumerate(batch.texts, batch.start) if (fault := find_text_fault(text)))
        at, fault = next(faults)
        raise server.error(f"{server.label} cannot be sent text {at}: it holds {fault}") from error


@dataclass(frozen=True, slots=True)
class Exchange(Generic[R]):
    """What to send about some texts, and what to make of the answer, which is given with their count."""

    payload: Callable[[list[str]], Mapping[str, object]]
    read: Callable[[bytes, int], Awaitable[R]]


@dataclass(slots=True)
class _Here:
    """What one API holds on one event loop."""

    room: anyio.CapacityLimiter
    entered: int = 0
    client: "httpx.AsyncClient | None" = None


class Api:
    """Asks a server, at most `max_concurrency` requests at once on each event loop.

    Connections are kept from call to call only between `enter` and `leave`, or with a `client` of the caller's.

    Raises:
        ArgumentError: `client` is none of httpx's, or `max_concurrency` is not a whole number of at least 1.
    """

    def __init__(self, server: Server, *, max_concurrency: int, client: "httpx.AsyncClient | None") -> None:
        if client is not None and not all(hasattr(client, part) for part in ("aclose", "send", "build_request")):
            raise ArgumentError(f"client must be an httpx.AsyncClient, not {type(client).__name__}")
        self.server = server
        self._most = check_count("max_concurrency", max_concurrency, least=1)
        self._client = client
        self._here = PerLoop(partial(_new_here, max_concurrency))

    async def ask_all(self, texts: list[str], exchange: Exchange[R], *, batch_size: int, max_chars: int) -> list[R]:
        """Return the answers to the texts, cut into batches within both bounds, in their order.

        Where the server takes less in one request, a batch is halved.

        Raises:
            AirwError: Of the kinds that the server names: it cannot be reached, refuses, or answers with what cannot be
                used.
        """
        batches = list(split_batches(texts, batch_size, max_chars))
        async with await self._session() as client:
            answers = await map_bounded(partial(self._ask, client, exchange), batches, limit=self._most)
        return [answer for parts in answers for answer in parts]

    async def _ask(self, client: "httpx.AsyncClient", exchange: Exchange[R], batch: Batch) -> list[R]:
        count = len(batch.texts)
        body = await in_thread(_encode_body, exchange.payload, self.server, batch)
        try:
            room = self._here.get().room
            return [await ask(self.server, client, room, body, texts=count, read=exchange.read)]
        except TooMuch as refusal:
            if count == 1:
                raise self.server.error(
                    f"{self.server.label} refuses text {batch.start} by itself ({len(batch.texts[0]):,} characters): "
                    f"{refusal}; shorten it"
                ) from None
            return [answer for half in batch.halves() for answer in await self._ask(client, exchange, half)]

    async def _session(self) -> AbstractAsyncContextManager["httpx.AsyncClient"]:
        """Return the client to use, closed on leaving where it is for one call only."""
        if self._client is not None:
            return nullcontext(self._client)
        await in_thread(tls)
        here = self._here.get()
        if not here.entered:
            return new_client(self._most)
        if here.client is None:
            here.client = new_client(self._most)
        return nullcontext(here.client)

    def enter(self) -> None:
        """Keep connections from call to call on this event loop."""
        self._here.get().entered += 1

    async def leave(self) -> None:
        """Close them when this has been called as often as `enter`."""
        here = self._here.get()
        here.entered -= 1
        if not here.entered:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connections kept on this event loop; closing twice is harmless, and it can be used again."""
        here = self._here.get()
        client, here.client = here.client, None
        if client is not None:
            with anyio.CancelScope(shield=True):
                await client.aclose()


class ApiClient:
    """The base of what asks an API: `async with` keeps its connections from call to call."""

    _api: Api

    async def aclose(self) -> None:
        """Close the connections kept on this event loop; closing twice is harmless, and it can be used again."""
        await self._api.aclose()

    async def __aenter__(self) -> Self:
        self._api.enter()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._api.leave()


def _new_here(max_concurrency: int) -> _Here:
    return _Here(anyio.CapacityLimiter(max_concurrency))
