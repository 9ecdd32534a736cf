"""One API of a server: its connections, and many texts asked about in batches, on any event loop."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from airw._base.checks import check_count
from airw._base.concurrency import in_thread, map_bounded
from airw._base.http.batches import Batch, batches_of, body_of
from airw._base.http.calls import Server, TooMuch, ask, new_client, tls
from airw._base.http.loops import PerLoop
from airw.errors import ArgumentError

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")


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
        """Give the answers to the texts, cut into batches within both bounds, in their order.

        Where the server takes less in one request, a batch is halved.

        Raises:
            AirwError: Of the kinds that the server names: it cannot be reached, refuses, or answers with what cannot be
                used.
        """
        batches = list(batches_of(texts, batch_size, max_chars))
        async with await self._session() as client:
            answers = await map_bounded(partial(self._ask, client, exchange), batches, limit=self._most)
        return [answer for parts in answers for answer in parts]

    async def _ask(self, client: "httpx.AsyncClient", exchange: Exchange[R], batch: Batch) -> list[R]:
        count = len(batch.texts)
        body = await in_thread(body_of, exchange.payload, self.server, batch)
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
        """Give the client to use, closed on leaving where it is for one call only."""
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


def _new_here(max_concurrency: int) -> _Here:
    return _Here(anyio.CapacityLimiter(max_concurrency))
