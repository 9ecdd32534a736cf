"""An embedder that asks a server, by the API for embeddings that OpenAI made and many speak."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import in_thread
from airw._base.http import (
    Api,
    ApiClient,
    Exchange,
    PerLoop,
    Server,
    base_url,
    decode_json,
    describe_reply,
    order_by_index,
)
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

if TYPE_CHECKING:
    import httpx

PATH = "/embeddings"


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


class HttpEmbedder(ApiClient):
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
        base = base_url(url, path=PATH)
        self._model = model.strip()
        self._dimensions = None if dimensions is None else check_count("dimensions", dimensions, least=1)
        server = Server(
            url=base,
            path=PATH,
            label=f"the embedder {self._model!r} at {base}",
            key="AIRW_EMBEDDER_KEY",
            timeout=timeout,
            retries=retries,
            api_key_env=api_key_env,
            error=EmbedderError,
            unavailable=EmbedderUnavailable,
        )
        self._api = Api(server, max_concurrency=max_concurrency, client=client)
        self._flights: PerLoop[dict[str, _Flight]] = PerLoop(dict)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._max_chars = check_count("max_chars", max_chars, least=1)
        self._dim = dimensions

    def __repr__(self) -> str:
        cut = "" if self._dimensions is None else f", dimensions={self._dimensions}"
        return f"{type(self).__name__}({self._api.server.url!r}, {self._model!r}{cut})"

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
        width = "" if self._dimensions is None else f"@{self._dimensions}"
        return f"api:{self._model}{width}"

    @property
    def dim(self) -> int:
        """Return the width of the vectors.

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
        """Return `(len(texts), dim) float32` unit rows, in the order of the texts.

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
        given = check_texts(texts, of=self._api.server.label, error=EmbedderError)
        if not given and self._dim is not None:
            return np.zeros((0, self._dim), np.float32)
        parts = await self._embed(given or ["a"])
        return (await in_thread(np.concatenate, parts))[: len(given)]

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, of length one; errors are those of `embed_documents`."""
        check_texts([text], of=self._api.server.label, error=EmbedderError)
        flights = self._flights.get()
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

    @property
    def _what(self) -> tuple[str, str, int | None]:
        return self._api.server.url, self._model, self._dimensions

    async def _fly(self, text: str, flight: _Flight) -> None:
        try:
            flight.row = (await self._embed([text]))[0][0]
        except EmbedderError as error:
            flight.error = error
            raise

    async def _embed(self, texts: list[str]) -> list[Floats]:
        """Return the rows of the texts, in one array for each answer."""
        exchange = Exchange(self._payload, self._read)
        return await self._api.ask_all(texts, exchange, batch_size=self._batch_size, max_chars=self._max_chars)

    def _payload(self, texts: list[str]) -> dict[str, object]:
        width = {} if self._dimensions is None else {"dimensions": self._dimensions}
        return {"model": self._model, "input": texts, **width}

    async def _read(self, content: bytes, count: int) -> Floats:
        rows = await in_thread(partial(_rows_of, content, count, of=self._api.server.label))
        self._settle(rows.shape[1])
        return rows

    def _settle(self, width: int) -> None:
        """Learn the width from the first answer, and hold every other one to it."""
        if self._dim is None:
            self._dim = width
        if width != self._dim:
            why = "as asked for" if self._dimensions is not None else "as before"
            label = self._api.server.label
            raise EmbedderError(f"{label} answered with vectors of width {width}, not {self._dim} {why}")


def _rows_of(content: bytes, count: int, *, of: str) -> Floats:
    """Return the vectors of an answer as `(count, dim) float32` unit rows, in the order of the texts.

    Raises:
        EmbedderError: It is not an answer, or not one usable vector for each text. `of` names who answered.
    """
    answer = decode_json(content, of=of, error=EmbedderError)
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderError(
            f"{of} answered with JSON that holds no list of vectors as 'data': {describe_reply(answer)}"
        )
    ordered = order_by_index(items, count, noun="vector", of=of, error=EmbedderError)
    rows = unit_rows([item.get("embedding") for item in ordered], count=count, of=of)
    if not rows.shape[1]:
        raise EmbedderError(f"{of} answered with empty vectors")
    return rows
