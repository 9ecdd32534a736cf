"""A reranker that asks a server, by the two APIs for reranking that servers speak."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw._base.http import Api, ApiClient, Exchange, Server, base_url, decode_json, describe_reply, order_by_index
from airw.errors import ArgumentError, RerankerError, RerankerUnavailable
from airw.reranking.scores import check_asked, numbers_of

if TYPE_CHECKING:
    import httpx

PATH = "/rerank"
_MAX_CHARS = 200_000


class HttpReranker(ApiClient):
    """Scores with a model behind a server's `/rerank`, on asyncio and trio.

    ```text
             sent to `<url>/rerank`                               who speaks it
    model    {"model": …, "query": …, "documents": […]}           Jina, Cohere, vLLM, llama.cpp, Infinity
    none     {"query": …, "texts": […], "truncate": true}         Text Embeddings Inference
    ```

    Either way both kinds of answer are read: `{"results": [{"index": 0, "relevance_score": 0.9}, …]}` and
    `[{"index": 0, "score": 0.9}, …]`. Scores are the server's own, on the scale of its model.

    Making one sends nothing and loads nothing. Texts travel in batches of `batch_size` and about 200,000 characters,
    several at once; where a server takes less in a request, the batch is halved. Requests are sent again, keys are
    read, connections are kept and redirects are refused just as an `HttpEmbedder` does it; the key is
    `AIRW_RERANKER_KEY`.

    Args:
        url: The base of the API, such as `http://localhost:8080` or `https://api.jina.ai/v1`.
        model: The model's name, as the server knows it; left out where the server has one only.
        id: Names model and weights, where the model's name does not; see `id`.
        batch_size: Texts in one request, at most.
        max_concurrency: Requests on their way at once.
        timeout: Seconds that sending may stall or the server be silent; connecting gets at most 10 of them. An attempt
            as a whole gets twice that.
        retries: Further attempts after the first one.
        api_key_env: The environment variable that holds the key, which must then be set. Left out, `AIRW_RERANKER_KEY`;
            where that is not set, no key is sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; it stays yours to close. An
            authorization that it brings replaces the key.

    Raises:
        ArgumentError: The URL is not one, or holds a password or a query, or another value cannot be used.

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
        self._model = _name("model", model)
        self._id = _name("id", id) or (self._model and f"api:{self._model}")
        asked = (
            f"the reranker {self._model!r} at {base}" if self._model else f"the reranker at {base} (without a model)"
        )
        server = Server(
            url=base,
            path=PATH,
            label=asked,
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

    def __eq__(self, other: object) -> bool:
        """Equal are those of the same model at the same server; how they ask does not matter."""
        return self._what == other._what if isinstance(other, HttpReranker) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._what)

    @property
    def id(self) -> str | None:
        """Name the model, `api:<model>` unless `id` was given; never the server.

        `None` where neither was given: only the server knows then which model it runs, so that no floor is kept for it.
        """
        return self._id

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the server's score for each text, in their order; higher is more relevant. No texts make no request.

        Raises:
            RerankerUnavailable: The environment variable that `api_key_env` names is not set.
            RerankerError: `query` or a text is no string, the server cannot be reached or refuses, or its answer cannot
                be used.

        Example:
            >>> import anyio, httpx
            >>> def answer(request):  # stands for a server
            ...     return httpx.Response(200, json={"results": [{"index": 0, "relevance_score": 0.75}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            ...         reranker = HttpReranker("http://localhost:8080/v1", "my-model", client=client)
            ...         return await reranker("signing keys", ["rotate the signing keys"])
            >>> anyio.run(main)
            [0.75]
        """
        given = check_asked(query, texts, of=self._api.server.label)
        if not given:
            return []
        exchange = Exchange(partial(self._payload, query), self._read)
        parts = await self._api.ask_all(given, exchange, batch_size=self._batch_size, max_chars=_MAX_CHARS)
        return [score for part in parts for score in part]

    @property
    def _what(self) -> tuple[str, str | None, str | None]:
        return self._api.server.url, self._model, self._id

    def _payload(self, query: str, texts: list[str]) -> Mapping[str, object]:
        if self._model:
            return {"model": self._model, "query": query, "documents": texts}
        return {"query": query, "texts": texts, "truncate": True}  # by itself it refuses what its model cannot hold

    async def _read(self, content: bytes, count: int) -> list[float]:
        return await in_thread(partial(_scores_of, content, count, of=self._api.server.label))


def _name(what: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{what} must be a name or None, not {value!r}")
    return value.strip()


def _scores_of(content: bytes, count: int, *, of: str) -> list[float]:
    """Return the scores of an answer in the order of the texts.

    Raises:
        RerankerError: It is not an answer, or not one number for each text. `of` names who answered.
    """
    answer = decode_json(content, of=of, error=RerankerError)
    items = answer.get("results") if isinstance(answer, dict) else answer
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RerankerError(
            f"{of} answered with JSON that holds no list of scores, nor one as 'results': {describe_reply(answer)}"
        )
    ordered = order_by_index(items, count, noun="score", of=of, error=RerankerError)
    return numbers_of([item.get("relevance_score", item.get("score")) for item in ordered], lambda: of)
