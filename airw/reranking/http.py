"""A reranker that calls a server, by either of the two common rerank APIs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw._base.http import Api, ApiClient, Exchange, Server, base_url, read_items
from airw._base.overriding import override
from airw.errors import ArgumentError, RerankerError, RerankerUnavailable
from airw.reranking.calling import check_inputs, to_floats

if TYPE_CHECKING:
    import httpx

PATH = "/rerank"
_MAX_CHARS = 200_000


class HttpReranker(ApiClient):
    """A reranker that scores with a model behind a server's `/rerank`, on asyncio and trio.

    ```text
             request to `<url>/rerank`                            servers
    model    {"model": …, "query": …, "documents": […]}           Jina, Cohere, vLLM, llama.cpp, Infinity
    none     {"query": …, "texts": […], "truncate": true}         Text Embeddings Inference
    ```

    With either request, both forms of reply are accepted: `{"results": [{"index": 0, "relevance_score": 0.9}, …]}` and
    `[{"index": 0, "score": 0.9}, …]`. Scores are those of the server, on the scale of its model.

    The constructor sends nothing and loads nothing. Texts are sent in batches of at most `batch_size` texts and about
    200,000 characters, several batches at once. If the server refuses a batch as too large, it is sent again in halves.
    Retries, keys, connections and redirects work as in `HttpEmbedder`; the key is in `AIRW_RERANKER_KEY`.

    Args:
        url: The base of the API, such as `http://localhost:8080` or `https://api.jina.ai/v1`.
        model: The name of the model on the server; `None` if the server has only one.
        id: A name for model and weights, if the model's name does not identify them; see `id`.
        batch_size: The largest number of texts in one request.
        max_concurrency: The largest number of requests in flight.
        timeout: Seconds that sending may stall or the server may stay silent; at most 10 of them for connecting. An
            attempt as a whole takes at most twice as long.
        retries: The number of further attempts after the first one.
        api_key_env: The environment variable with the key, which must be set. The default is `AIRW_RERANKER_KEY`; if
            that is not set, no key is sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; you close it. An authorization header
            of the client replaces the key.

    Raises:
        ArgumentError: If `url` is not a URL or contains a password or a query, or another value cannot be used.

    Example:
        >>> reranker = HttpReranker("http://localhost:8080/v1", "BAAI/bge-reranker-base")
        >>> reranker
        HttpReranker('http://localhost:8080/v1', 'BAAI/bge-reranker-base')
        >>> reranker.id
        'api:BAAI/bge-reranker-base'
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        id: str | None = None,
        batch_size: int = 100,
        max_concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 4,
        api_key_env: str | None = None,
        client: "httpx.AsyncClient | None" = None,
    ) -> None:
        base = base_url(url, path=PATH)
        self._model = _check_name("model", model)
        self._id = _check_name("id", id) or (self._model and f"api:{self._model}")
        label = (
            f"the reranker {self._model!r} at {base}" if self._model else f"the reranker at {base} (without a model)"
        )
        server = Server(
            url=base,
            path=PATH,
            label=label,
            key="AIRW_RERANKER_KEY",
            timeout=timeout,
            retries=retries,
            api_key_env=api_key_env,
            error=RerankerError,
            unavailable=RerankerUnavailable,
        )
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._api = Api(server, max_concurrency=max_concurrency, client=client)

    def __repr__(self) -> str:
        model = f", {self._model!r}" if self._model else ""
        return f"{type(self).__name__}({self._api.server.url!r}{model})"

    @property
    def id(self) -> str | None:
        """Return the id of the model: the `id` of the constructor, or `api:<model>`.

        The server is not part of it. The id is `None` if there is neither. Only the server knows then which model it
        runs, so no floor can be stored for this reranker.
        """
        return self._id

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the server's score for each text, in their order; higher is more relevant.

        Without texts no request is sent.

        Raises:
            RerankerUnavailable: If the environment variable `api_key_env` is not set.
            RerankerError: If `query` or a text is not a string, if the server cannot be reached or refuses, or if its
                reply cannot be used.

        Example:
            >>> import anyio, httpx
            >>> def reply(request):  # in place of a server
            ...     return httpx.Response(200, json={"results": [{"index": 0, "relevance_score": 0.75}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as client:
            ...         reranker = HttpReranker("http://localhost:8080/v1", "my-model", client=client)
            ...         return await reranker("signing keys", ["rotate the signing keys"])
            >>> anyio.run(main)
            [0.75]
        """
        checked = check_inputs(query, texts, of=self._api.server.label)
        if not checked:
            return []
        exchange = Exchange(partial(self._make_payload, query), self._read_scores)
        parts = await self._api.ask_all(checked, exchange, batch_size=self._batch_size, max_chars=_MAX_CHARS)
        return [score for part in parts for score in part]

    @property
    @override
    def _identity(self) -> tuple[str, str | None, str | None]:
        # Batch size, timeout and retries do not matter.
        return self._api.server.url, self._model, self._id

    def _make_payload(self, query: str, texts: list[str]) -> Mapping[str, object]:
        if self._model:
            return {"model": self._model, "query": query, "documents": texts}
        # Without `truncate` the server refuses texts that are too long for its model.
        return {"query": query, "texts": texts, "truncate": True}

    async def _read_scores(self, content: bytes, count: int) -> list[float]:
        """Return the scores of a reply, in the order of the texts.

        Raises:
            RerankerError: If the reply does not contain one finite number for each text.
        """
        of = self._api.server.label
        read = partial(read_items, key="results", noun="score", of=of, error=RerankerError, is_ordered=False)
        items = await in_thread(read, content, count)
        return to_floats([item.get("relevance_score", item.get("score")) for item in items], lambda: of)


def _check_name(parameter: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value and value.strip()
    raise ArgumentError(f"{parameter} must be a name or None, not {value!r}")
