"""An embedder that asks a server, by the API for embeddings that OpenAI made and many speak."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

import anyio
import numpy as np
from anyio.lowlevel import RunVar

from airw._concurrency import in_thread, map_bounded
from airw.embedders._http_calls import Server, TooMuch, ask, new_client, tls
from airw.embedders._http_urls import base_url
from airw.embedders._texts import checked_texts
from airw.errors import ArgumentError, EmbedderError
from airw.limits import check_count
from airw.values import Floats

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpEmbedder"]


@dataclass(slots=True)
class _Flight:
    """A query on its way: whoever holds the lock asks, the others wait for what comes of it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    row: Floats | None = None
    error: EmbedderError | None = None

    @property
    def has_landed(self) -> bool:
        return self.row is not None or self.error is not None


@dataclass(slots=True)
class _Here:
    """What one embedder holds on one event loop."""

    room: anyio.CapacityLimiter
    flights: dict[str, _Flight] = field(default_factory=dict)
    entered: int = 0
    client: "httpx.AsyncClient | None" = None


# Both ways weak: it ends with the event loop, and with the embedder.
_HERE: RunVar[WeakKeyDictionary[Server, _Here]] = RunVar("http embedders")


class HttpEmbedder:
    """Embeds with a model behind an OpenAI-compatible `/v1/embeddings`, on asyncio and trio.

    Making one sends nothing and loads nothing. Texts travel in batches, several at once; where a server takes less in a
    request, the batch is halved. A request is sent again after 429, 500, 502, 503, 504, a time-out and a connection
    that failed or broke: after a random wait of up to 0.5 s, then 1 s, and so on to 30 s, and as long as `Retry-After`
    asks, but never longer than 60 s. Redirects are not followed. Equal queries at the same time share one request.

    Connections are kept from call to call only inside `async with embedder:` or with a `client` of yours, which stays
    open. Otherwise each call opens its own and closes them, so that there is nothing to close.

    A key comes from the environment, is read for each request, and is held nowhere. `AIRW_EMBEDDER_KEY` goes to
    whatever server the embedder names, which for a corpus opened from a file is the one that the file names; pass
    `embedder=` when opening a stranger's. `OPENAI_API_KEY` goes to `https://api.openai.com` only.

    Args:
        url: The base of the API, such as `http://localhost:8080/v1`.
        model: The model's name, as the server knows it.
        dimensions: The width to ask the server for, where its model can be cut; otherwise the model's own.
        batch_size: Texts in one request, at most.
        max_chars: Characters in one request, at most; a longer text travels alone.
        max_concurrency: Requests on their way at once, queries included.
        timeout: Seconds that sending may stall or the server be silent; connecting gets at most 10 of them. An attempt
            as a whole gets twice that.
        retries: Further attempts after the first one.
        api_key_env: The environment variable that holds the key, which must then be set. Left out, `OPENAI_API_KEY` for
            OpenAI, otherwise `AIRW_EMBEDDER_KEY`; where that is not set, no key is sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; it stays yours to close. An
            authorization that it brings replaces the key.

    Raises:
        ArgumentError: The URL is not one, or holds a password or a query, or another value cannot be used.

    Example:
        >>> embedder = HttpEmbedder("http://localhost:8080/v1", "BAAI/bge-small-en-v1.5")
        >>> embedder
        HttpEmbedder('http://localhost:8080/v1', 'BAAI/bge-small-en-v1.5')
        >>> embedder.id
        'api:BAAI/bge-small-en-v1.5'
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        dimensions: int | None = None,
        batch_size: int = 128,
        max_chars: int = 200_000,
        max_concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 4,
        api_key_env: str | None = None,
        client: "httpx.AsyncClient | None" = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError(f"model must be a name that the server knows, not {model!r}")
        if api_key_env is not None and not (isinstance(api_key_env, str) and api_key_env.isidentifier()):
            raise ArgumentError("api_key_env must be the name of an environment variable, never the key itself")
        if client is not None and not all(hasattr(client, part) for part in ("aclose", "send", "build_request")):
            raise ArgumentError(f"client must be an httpx.AsyncClient, not {type(client).__name__}")
        self._server = Server(
            url=base_url(url),
            model=model.strip(),
            dimensions=None if dimensions is None else check_count("dimensions", dimensions, least=1),
            timeout=_seconds(timeout),
            retries=check_count("retries", retries),
            api_key_env=api_key_env,
        )
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._max_chars = check_count("max_chars", max_chars, least=1)
        self._max_concurrency = check_count("max_concurrency", max_concurrency, least=1)
        self._client = client
        self._dim = dimensions

    def __repr__(self) -> str:
        cut = "" if self._server.dimensions is None else f", dimensions={self._server.dimensions}"
        return f"{type(self).__name__}({self._server.url!r}, {self._server.model!r}{cut})"

    def __eq__(self, other: object) -> bool:
        """Equal are those of the same model at the same server and of the same width; how they ask does not matter."""
        return self._what == other._what if isinstance(other, HttpEmbedder) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._what)

    @property
    def id(self) -> str:
        """Name the model, `api:<model>`, with `@<dimensions>` where they were asked for; never the server.

        The server is trusted to keep the weights of a name, so a corpus built on one host opens with another.
        """
        width = "" if self._server.dimensions is None else f"@{self._server.dimensions}"
        return f"api:{self._server.model}{width}"

    @property
    def dim(self) -> int:
        """Give the width of the vectors.

        Raises:
            EmbedderError: Neither were `dimensions` given, nor has the server answered yet.
        """
        if self._dim is None:
            raise EmbedderError(
                f"the width of {self.id!r} is known once its server has answered: embed something first, "
                "or pass dimensions="
            )
        return self._dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Give `(len(texts), dim) float32` unit rows, in the order of the texts.

        No texts make no request, unless the width is not known yet: then the server is asked for one vector.

        Raises:
            EmbedderUnavailable: The environment variable that `api_key_env` names is not set.
            EmbedderError: `texts` is not a list of strings, the server cannot be reached or refuses, or its answer
                cannot be used.

        Example:
            >>> import anyio, httpx
            >>> def answer(request):  # stands for a server
            ...     return httpx.Response(200, json={"data": [{"index": 0, "embedding": [3.0, 4.0]}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            ...         embedder = HttpEmbedder("http://localhost:8080/v1", "my-model", client=client)
            ...         return await embedder.embed_documents(["a text"])
            >>> anyio.run(main).round(2).tolist()
            [[0.6000000238418579, 0.800000011920929]]
        """
        given = checked_texts(texts, of=self._server.label)
        if not given and self._dim is not None:
            return np.zeros((0, self._dim), np.float32)
        batches = list(_batches(given or ["a"], self._batch_size, self._max_chars))
        async with await self._session() as client:
            parts = await map_bounded(partial(self._embed, client), batches, limit=self._max_concurrency)
        return (await in_thread(np.concatenate, parts))[: len(given)]

    async def embed_query(self, text: str) -> Floats:
        """Give `(dim,) float32`, of length one.

        Raises:
            EmbedderUnavailable: The environment variable that `api_key_env` names is not set.
            EmbedderError: `text` is not a string, the server cannot be reached or refuses, or its answer cannot be
                used.
        """
        checked_texts([text], of=self._server.label)
        flights = self._here().flights
        flight = flights.setdefault(text, _Flight())
        flight.waiting += 1
        try:
            async with flight.lock:  # who waits takes over from one that was cancelled
                if flight.error is not None:
                    raise type(flight.error)(*flight.error.args) from flight.error.__cause__
                if flight.row is None:
                    await self._fly(text, flight)
                row: Floats = np.array(flight.row)
                return row
        finally:
            flight.waiting -= 1
            if flights.get(text) is flight and (flight.has_landed or not flight.waiting):
                del flights[text]

    async def aclose(self) -> None:
        """Close the connections kept on this event loop; closing twice is harmless, and it can be used again."""
        here = self._here()
        client, here.client = here.client, None
        if client is not None:
            with anyio.CancelScope(shield=True):
                await client.aclose()

    async def __aenter__(self) -> Self:
        self._here().entered += 1
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        here = self._here()
        here.entered -= 1
        if not here.entered:
            await self.aclose()

    @property
    def _what(self) -> tuple[str, str, int | None]:
        return self._server.url, self._server.model, self._server.dimensions

    def _here(self) -> _Here:
        embedders = _HERE.get(None)
        if embedders is None:
            embedders = WeakKeyDictionary()
            _HERE.set(embedders)
        if self._server not in embedders:
            embedders[self._server] = _Here(anyio.CapacityLimiter(self._max_concurrency))
        return embedders[self._server]

    async def _session(self) -> AbstractAsyncContextManager["httpx.AsyncClient"]:
        """Give the client to use, closed on leaving where it is for one call only."""
        if self._client is not None:
            return nullcontext(self._client)
        await in_thread(tls)
        here = self._here()
        if not here.entered:
            return new_client(self._max_concurrency)
        if here.client is None:
            here.client = new_client(self._max_concurrency)
        return nullcontext(here.client)

    async def _fly(self, text: str, flight: _Flight) -> None:
        try:
            async with await self._session() as client:
                flight.row = (await self._embed(client, _Batch(0, [text])))[0]
        except EmbedderError as error:
            flight.error = error
            raise

    async def _embed(self, client: "httpx.AsyncClient", batch: "_Batch") -> Floats:
        """Give the rows of one batch, halving it for as long as the server takes less."""
        body = await in_thread(_body, self._server, batch)
        try:
            rows = await ask(self._server, client, self._here().room, body, len(batch.texts))
        except TooMuch as refusal:
            if len(batch.texts) == 1:
                raise EmbedderError(
                    f"{self._server.label} refuses text {batch.start} by itself ({len(batch.texts[0]):,} characters): "
                    f"{refusal}; shorten it"
                ) from None
            return np.concatenate([await self._embed(client, half) for half in batch.halves()])
        self._settle(rows.shape[1])
        return rows

    def _settle(self, width: int) -> None:
        """Learn the width from the first answer, and hold every other one to it."""
        if self._dim is None:
            self._dim = width
        if width != self._dim:
            why = "as asked for" if self._server.dimensions is not None else "as before"
            raise EmbedderError(f"{self._server.label} answered with vectors of width {width}, not {self._dim} {why}")


@dataclass(frozen=True, slots=True)
class _Batch:
    """Texts for one request, and the position of the first among all."""

    start: int
    texts: list[str]

    def halves(self) -> "tuple[_Batch, _Batch]":
        middle = len(self.texts) // 2
        return _Batch(self.start, self.texts[:middle]), _Batch(self.start + middle, self.texts[middle:])


def _batches(texts: list[str], most: int, most_chars: int) -> Iterator[_Batch]:
    """Cut the texts into batches, in their order, within both bounds."""
    start = chars = 0
    for at, text in enumerate(texts):
        if at > start and (at - start == most or chars + len(text) > most_chars):
            yield _Batch(start, texts[start:at])
            start, chars = at, 0
        chars += len(text)
    yield _Batch(start, texts[start:])


def _body(server: Server, batch: _Batch) -> bytes:
    """Write a request in UTF-8, which has no place for half characters."""
    asked: dict[str, object] = {"model": server.model, "input": batch.texts}
    if server.dimensions is not None:
        asked["dimensions"] = server.dimensions
    try:
        return json.dumps(asked, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        at = next(at for at, text in enumerate(batch.texts) if _HALF.search(text))
        raise EmbedderError(
            f"{server.label} takes no half characters: text {batch.start + at} holds a lone surrogate"
        ) from error


def _seconds(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ArgumentError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    return float(timeout)


_HALF = re.compile("[\ud800-\udfff]")
