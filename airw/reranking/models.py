"""Two rerankers: a cross-encoder in this process, and a model behind a server."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw._base.http import Api, ApiClient, Exchange, Server, base_url, read_items
from airw._base.hub_models import HubModel
from airw._base.local_models import folder_id, run_batches, usable_cores
from airw._base.overriding import override
from airw.errors import AirwError, ArgumentError, RerankerError, RerankerUnavailable
from airw.reranking.calling import check_inputs, to_floats

if TYPE_CHECKING:
    import httpx

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
_FIX = "pass a folder saved by sentence-transformers' CrossEncoder, or a name on the hub"
PATH = "/rerank"
_MAX_CHARS = 200_000


class CrossEncoderReranker(HubModel):
    """A reranker that runs a cross-encoder of sentence-transformers.

    A cross-encoder reads the query together with each text. The constructor loads nothing: the model is loaded in a
    worker thread on first use. One batch is scored at a time, always in a worker thread. A score is the sigmoid of the
    model's single output, from 0 to 1, also if the model's own settings name another activation. The same text may
    score about 1e-6 differently in another batch.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string that contains a path separator
            and names a folder.
        batch_size: The number of texts scored at once; cancellation takes effect between batches.

    Raises:
        ArgumentError: If `model` is neither a name nor a path, or `batch_size` is not a positive whole number.

    Example:
        >>> CrossEncoderReranker()
        CrossEncoderReranker('cross-encoder/ms-marco-MiniLM-L-6-v2')
    """

    _NOUN: ClassVar[str] = "reranker"
    _MAKER: ClassVar[str] = "CrossEncoder"
    _ERROR: ClassVar[type[AirwError]] = RerankerError
    _UNAVAILABLE: ClassVar[type[AirwError]] = RerankerUnavailable

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32) -> None:
        super().__init__(model, fix=_FIX)
        self._batch_size = check_count("batch_size", batch_size, least=1)

    @cached_property
    def id(self) -> str:
        """Return the id of the model.

        It is `ce:<name>` for a model on the hub, `ce:<architecture>-<width>@<hash>` for a folder. The hash covers
        weights and settings, so the id does not depend on the place of the folder. The first access reads the weights,
        which takes about 0.1 s for 90 MB: use a worker thread.

        Raises:
            RerankerUnavailable: If the folder does not exist, or is not a model folder.
        """
        if self._folder is None:
            return f"ce:{self._name}"
        return f"ce:{folder_id(self._folder, error=RerankerUnavailable, fix=_FIX)}"

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in their order; higher is more relevant.

        Raises:
            RerankerUnavailable: If sentence-transformers is not installed, or the model is not found.
            RerankerError: If `query` or a text is not a string or contains an unpaired surrogate, or if the model
                fails or returns NaN.
        """
        checked = check_inputs(query, texts, of=self._label)
        if checked:
            await self._load()

        async def read(batch: list[str]) -> Floats:
            return await self._turns.run(partial(self._predict, query, batch))

        logits = await run_batches(checked, size=self._batch_size, dim=1, encode=read)
        with np.errstate(over="ignore"):  # exp overflows to infinity for very low logits: the score is 0
            scores = 1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))
        return to_floats(scores.tolist(), lambda: self._label)

    def _predict(self, query: str, texts: list[str]) -> Floats:
        """Return the logit of each text, as a column."""
        torch = import_module("torch")
        torch.set_num_threads(usable_cores())  # before each batch: an embedder may have changed the process-wide count
        pairs, identity = [(query, text) for text in texts], torch.nn.Identity()
        answer = self._run_model(self._model, "predict", pairs, batch_size=len(pairs), activation_fn=identity)
        rows = np.asarray(answer, np.float32)
        if rows.size != len(texts):
            raise RerankerError(f"{self._label} returns {rows.shape[1:]} numbers a text, not one: is it a classifier?")
        return rows.reshape(len(texts), 1)


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
