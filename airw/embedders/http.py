"""An embedder for servers with an OpenAI-compatible API for embeddings."""

import re
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
    TextsRefused,
    base_url,
    read_items,
)
from airw._base.overriding import override
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

if TYPE_CHECKING:
    import httpx

PATH = "/embeddings"

# The tokens that well-known models read of a text, by the name of the model. Some servers refuse longer texts. Others,
# such as those of Ollama, Cohere and Google, cut them without a word.
_KNOWN_LIMITS = (
    (r"all-minilm", 256),
    (r"(bge-(small|base|large)|e5-(small|base|large)|gte-(small|base|large)|mxbai-embed|snowflake-arctic-embed)", 512),
    (r"embed-(english|multilingual)(-light)?-v3", 512),
    (r"(gemini-embedding|text-embedding-00[45]|embeddinggemma|nomic-embed-text)", 2048),
    (r"(text-embedding-3-|text-embedding-ada-002)", 8191),
    (r"(bge-m3|jina-embeddings-v[23]|mistral-embed)", 8192),
)
_TOKEN_BYTES = 5  # more than most tokens have: a text that may fit does not count as cut


@dataclass(slots=True)
class _SharedQuery:
    """A query that several calls embed at the same time, with one request.

    The call that has the lock sends the request; the others wait for the lock and take its result.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    row: Floats | None = None
    error: EmbedderError | None = None

    @property
    def is_done(self) -> bool:
        return self.row is not None or self.error is not None


class HttpEmbedder(ApiClient):
    """An embedder that sends texts to an OpenAI-compatible `/v1/embeddings`.

    It runs on asyncio and trio. Creating one sends and loads nothing. Texts are sent in batches, several at the same
    time. If a server refuses a batch as too large, the batch is halved until it
    fits; a single text that is too large is an error. Equal queries at the same time share one
    request. Redirects are not followed.

    A request is sent again after the status 429, 500, 502, 503 or 504, after a time-out, and if the connection failed
    or broke. The wait is random, up to 0.5 s, then 1 s, and so on to 30 s. The time in `Retry-After` is
    added to it; no wait is longer than 60 s.

    Connections are kept between calls only inside `async with embedder:` or with your own `client`, which stays open.
    Otherwise each call opens and closes its own connections, so there is nothing to close.

    The key is read from the environment for each request and is stored nowhere. `AIRW_EMBEDDER_KEY` contains one key,
    or a list such as `https://a.example=KEY1,http://localhost:8080=KEY2`: then each key is sent only to its origin. A
    server that only the file of a corpus names is not contacted at all; see `open_corpus`. `OPENAI_API_KEY` is sent
    only to `https://api.openai.com`. Answers are requested without compression, and compressed ones are refused.

    Args:
        url: The base of the API, such as `http://localhost:8080/v1`.
        model: The name of the model on the server.
        dimensions: The width to request, if the model supports several; by default the model's own width.
        batch_size: The maximum number of texts in one request.
        max_chars: The maximum number of characters in one request; a longer text is sent alone.
        max_concurrency: The maximum number of simultaneous requests per event loop, including queries.
        max_tokens: The number of tokens that the model reads of a text, which builds take into account; by default that
            of a well-known model.
        timeout: Seconds that sending may stall or the server may be silent; connecting may take at most 10 s. A whole
            attempt may take twice as long.
        retries: The number of attempts after the first one.
        api_key_env: The environment variable of the key, which must then be set. By default it is
            `AIRW_EMBEDDER_KEY`; for OpenAI it is `OPENAI_API_KEY` if that is set. If the variable is not set, no key is
            sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; you close it. If it has an
            authorization, that replaces the key.

    Raises:
        ArgumentError: If the URL is invalid or contains a password or a query, or another value cannot be used.

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
        max_tokens: int | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        api_key_env: str | None = None,
        client: "httpx.AsyncClient | None" = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError(f"model must be the name of a model on the server, not {model!r}")
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
        self._shared_queries: PerLoop[dict[str, _SharedQuery]] = PerLoop(dict)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._max_chars = check_count("max_chars", max_chars, least=1)
        self._max_tokens = None if max_tokens is None else check_count("max_tokens", max_tokens, least=1)
        self._dim = dimensions

    def __repr__(self) -> str:
        cut = "" if self._dimensions is None else f", dimensions={self._dimensions}"
        return f"{type(self).__name__}({self._api.server.url!r}, {self._model!r}{cut})"

    @property
    def id(self) -> str:
        """Return `api:<model>`, with `@<dimensions>` if they are set.

        The server is not part of the id, so a corpus built with one host opens with another. Servers are trusted to
        have the same weights under the same name.
        """
        width = "" if self._dimensions is None else f"@{self._dimensions}"
        return f"api:{self._model}{width}"

    @property
    def dim(self) -> int:
        """Return the width of the vectors.

        Raises:
            EmbedderError: If `dimensions` is not set and the server has not answered yet.
        """
        if self._dim is None:
            raise EmbedderError(
                f"dim of {self.id!r} is not known before the first answer of its server; embed a text first, "
                "or pass dimensions"
            )
        return self._dim

    @property
    def max_tokens(self) -> int | None:
        """Return how many tokens of a text the model reads; `None` if it is not known."""
        name = self._model.lower()
        known = (limit for pattern, limit in _KNOWN_LIMITS if re.search(pattern, name))
        return self._max_tokens or next(known, None)

    async def find_ends(self, texts: Sequence[str]) -> list[int]:
        """Return about the position up to which the model reads each text, if its limit is known.

        No request is sent; tokens are taken to have 5 bytes.
        """
        checked = check_texts(texts, of=self._api.server.label, error=EmbedderError, encodable=True)
        limit = self.max_tokens
        if limit is None:
            return list(map(len, checked))
        return [len(text.encode()[: limit * _TOKEN_BYTES].decode(errors="ignore")) for text in checked]

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` unit rows, in the order of the texts.

        An empty list makes no request, unless the width is not known yet: then one text is embedded to learn it.

        Raises:
            EmbedderUnavailable: If the variable `api_key_env` is not set, or the key is not printable ASCII.
            EmbedderError: If `texts` is not a list of strings, a text is not valid UTF-8, the server cannot be reached
                or refuses, or its answer cannot be used. If it refuses single texts as too large, the attribute
                `refused` has their positions.

        Example:
            >>> import anyio, httpx
            >>> def answer(request):  # in place of a server
            ...     return httpx.Response(200, json={"data": [{"index": 0, "embedding": [3.0, 4.0]}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            ...         embedder = HttpEmbedder("http://localhost:8080/v1", "my-model", client=client)
            ...         return await embedder.embed_documents(["a text"])
            >>> anyio.run(main).round(2).tolist()
            [[0.6000000238418579, 0.800000011920929]]
        """
        checked = check_texts(texts, of=self._api.server.label, error=EmbedderError)
        if not checked and self._dim is not None:
            return np.zeros((0, self._dim), np.float32)
        parts = await self._embed(checked or ["a"])
        return (await in_thread(np.concatenate, parts))[: len(checked)]

    async def embed_query(self, text: str) -> Floats:
        """Return a unit vector, `(dim,) float32`; a zero vector of the server stays zero.

        Errors are those of `embed_documents`.
        """
        check_texts([text], of=self._api.server.label, error=EmbedderError)
        # Calls with the same text at the same time share an entry, as many walks start with the same query.
        queries = self._shared_queries.get()
        query = queries.setdefault(text, _SharedQuery())
        query.waiting += 1
        try:
            # If the call that sends the request is cancelled, it releases the lock, and the next one sends it again.
            async with query.lock:
                if query.error is not None:
                    # A new exception for each call, because one exception must not be raised in several tasks.
                    raise type(query.error)(*query.error.args) from query.error.__cause__
                if query.row is None:
                    await self._send_query(text, query)
                # A copy for each call, so that no caller can change the row of another.
                row: Floats = np.array(query.row)
                return row
        finally:
            query.waiting -= 1
            # Remove the entry when it has a result: a later call must ask again, for results are not cached here.
            if queries.get(text) is query and (query.is_done or not query.waiting):
                del queries[text]

    @property
    @override
    def _identity(self) -> tuple[str, str, int | None]:
        # Batch size, timeout and retries do not matter.
        return self._api.server.url, self._model, self._dimensions

    async def _send_query(self, text: str, query: _SharedQuery) -> None:
        try:
            query.row = (await self._embed([text]))[0][0]
        except EmbedderError as error:
            query.error = error
            raise

    async def _embed(self, texts: list[str]) -> list[Floats]:
        """Return the rows of the texts, in order, one array for each request."""
        exchange = Exchange(self._to_payload, self._read_answer)
        try:
            return await self._api.ask_all(texts, exchange, batch_size=self._batch_size, max_chars=self._max_chars)
        except EmbedderError as error:
            if not isinstance(error.__cause__, TextsRefused):
                raise
            raise EmbedderError(str(error), error.__cause__.reasons) from None

    def _to_payload(self, texts: list[str]) -> dict[str, object]:
        width = {} if self._dimensions is None else {"dimensions": self._dimensions}
        return {"model": self._model, "input": texts, **width}

    async def _read_answer(self, content: bytes, count: int) -> Floats:
        rows = await in_thread(partial(_parse_rows, content, count, of=self._api.server.label))
        self._check_width(rows.shape[1])
        return rows

    def _check_width(self, width: int) -> None:
        """Remember the width of the first answer, and refuse answers of another width."""
        if self._dim is None:
            self._dim = width
        if width != self._dim:
            reason = "as requested" if self._dimensions is not None else "as before"
            label = self._api.server.label
            raise EmbedderError(f"{label} answered with vectors of width {width}, not {self._dim} {reason}")


def _parse_rows(content: bytes, count: int, *, of: str) -> Floats:
    """Return an answer as `(count, dim) float32` unit rows, in the order of the texts.

    Raises:
        EmbedderError: If the answer does not contain one usable vector for each text. The message begins with `of`.
    """
    items = read_items(content, count, key="data", noun="vector", of=of, error=EmbedderError, is_ordered=True)
    rows = unit_rows([item.get("embedding") for item in items], count=count, of=of)
    if not rows.shape[1]:
        raise EmbedderError(f"{of} answered with empty vectors")
    return rows
