"""A client for chat servers with the API of OpenAI, which many servers offer."""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airw._base.checks import check_count, check_kind, check_number, find_text_fault
from airw._base.concurrency import in_thread
from airw._base.http import Api, ApiClient, Exchange, Server, base_url, decode_json, describe_reply
from airw._base.messages import short_repr
from airw.chat.budget import Charge, TokenBudget, estimate_tokens
from airw.errors import ArgumentError, ChatError, ChatUnavailable

if TYPE_CHECKING:
    import httpx

PATH = "/chat/completions"
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_UNFINISHED = {
    "length": "was cut off in the middle of its answer; raise max_tokens",
    "content_filter": "was stopped by the content filter of its server",
}


class ChatClient(ApiClient):
    """A client for a language model behind an OpenAI-compatible `/v1/chat/completions`.

    It works on asyncio and trio. Creating a client sends nothing and loads nothing. Each prompt is one request and a
    new conversation; several requests can run at the same time. Retries, keys, connections and redirects work as in
    `HttpEmbedder`. The key is in `AIRW_CHAT_KEY` or, only for `https://api.openai.com`, in `OPENAI_API_KEY`.

    With a `token_budget`, a request is sent only if enough tokens are left for its estimate. The estimate is a quarter
    of the prompt's characters plus `max_tokens`. A request waits while running requests may still leave enough. Then it
    costs:

    - the tokens that the server reports (`usage.total_tokens`);
    - the estimate, if the server reports nothing, does not answer in time, or the request is cancelled;
    - nothing, if the server refuses the request or cannot be reached.

    Retries of a request cost nothing extra.

    Args:
        url: The base URL of the API, such as `http://localhost:8080/v1`.
        model: The name of the model on the server.
        temperature: The randomness of the answers, from 0; `None` for the server's default.
        max_tokens: The most tokens of one answer. A longer answer is an error; it is not cut.
        token_budget: The most tokens that this client may use in its lifetime; `None` for no limit.
        max_concurrency: The most requests at the same time, per event loop.
        timeout: The seconds for which sending may stall or the server may be silent; for connecting, at most 10. A
            whole attempt may take twice as long.
        retries: The number of further attempts after the first one.
        api_key_env: The environment variable that contains the key; it must be set then. The default is
            `OPENAI_API_KEY` for OpenAI and `AIRW_CHAT_KEY` for others; if it is not set, no key is sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; the caller closes it. Its
            authorization, if it has one, replaces the key.

    Raises:
        ArgumentError: If the URL is not valid, or contains a password or a query, or another value is not valid.

    Example:
        >>> chat = ChatClient("http://localhost:8080/v1", "Qwen/Qwen3-8B")
        >>> chat
        ChatClient('http://localhost:8080/v1', 'Qwen/Qwen3-8B')
        >>> chat.id
        'api:Qwen/Qwen3-8B temperature=0.0'
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        temperature: float | None = 0.0,
        max_tokens: int = 512,
        token_budget: int | None = None,
        max_concurrency: int = 8,
        timeout: float = 60.0,
        retries: int = 2,
        api_key_env: str | None = None,
        client: "httpx.AsyncClient | None" = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError(f"model must be the name of a model on the server, not {short_repr(model)}")
        base = base_url(url, path=PATH)
        self._model = model.strip()
        self._temperature = None if temperature is None else check_number("temperature", temperature, least=0)
        self._max_tokens = check_count("max_tokens", max_tokens, least=1)
        server = Server(
            url=base,
            path=PATH,
            label=f"the model {self._model!r} at {base}",
            key="AIRW_CHAT_KEY",
            timeout=timeout,
            retries=retries,
            api_key_env=api_key_env,
            error=ChatError,
            unavailable=ChatUnavailable,
        )
        self._api = Api(server, max_concurrency=max_concurrency, client=client)
        limit = None if token_budget is None else check_count("token_budget", token_budget)
        self._budget = TokenBudget(limit, server.label)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._api.server.url!r}, {self._model!r})"

    @property
    def id(self) -> str:
        """The name of the model and its temperature: `api:<model> temperature=<number>`.

        It does not contain the server: the same name is expected to mean the same weights on every host, so that
        stored answers stay valid if the host changes.
        """
        temperature = "" if self._temperature is None else f" temperature={self._temperature}"
        return f"api:{self._model}{temperature}"

    @property
    def tokens_used(self) -> int:
        """The number of tokens used so far, without requests that are still running."""
        return self._budget.used

    async def complete(self, prompt: str) -> str:
        """Send a prompt and return the model's answer.

        White space around the answer is removed, and so are thoughts in `<think>` before it.

        Raises:
            ChatBudgetSpent: If the request may use more tokens than are left; it is not sent.
            ChatUnavailable: If the environment variable `api_key_env` is not set.
            ChatError: If the server cannot be reached or refuses, or its answer is not text or was cut off.
            ArgumentKindError: If `prompt` is not a string.

        Example:
            >>> import anyio, httpx
            >>> def answer(request):  # in place of a server
            ...     return httpx.Response(200, json={"choices": [{"message": {"content": "Twice a year."}}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            ...         return await ChatClient("http://localhost:8080/v1", "my-model", client=client).complete("When?")
            >>> anyio.run(main)
            'Twice a year.'
        """
        check_kind("prompt", prompt, str, "be a string")
        async with self._budget.reserve(estimate_tokens(prompt, self._max_tokens)) as charge:
            exchange = Exchange(self._make_payload, partial(self._read_reply, charge))
            (answer,) = await self._api.ask_all([prompt], exchange, batch_size=1, max_chars=1)
        return answer

    def _make_payload(self, texts: list[str]) -> Mapping[str, object]:
        temperature = {} if self._temperature is None else {"temperature": self._temperature}
        messages = [{"role": "user", "content": text} for text in texts]
        # OpenAI rejects the name `max_tokens` for newer models; compatible servers know only that name.
        limit = "max_completion_tokens" if self._api.server.is_openai else "max_tokens"
        return {"model": self._model, "messages": messages, limit: self._max_tokens, "stream": False, **temperature}

    async def _read_reply(self, charge: Charge, content: bytes, _: int) -> str:
        label = self._api.server.label
        answer = await in_thread(partial(decode_json, content, of=label, error=ChatError))
        tokens = _read_tokens(answer)
        charge.tokens = charge.estimate if tokens is None else tokens
        return _read_text(answer, of=label)


def _read_tokens(answer: object) -> int | None:
    """Return the tokens that a request used; `None` if the answer does not contain it."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and total >= 0 else None


def _read_text(answer: Any, *, of: str) -> str:
    """Return the text of an answer, without white space around it and thoughts before it.

    Args:
        answer: The decoded JSON.
        of: The name of the model and its server in errors.

    Raises:
        ChatError: If the answer contains no text, or only a part of it.
    """
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ChatError(f"{of} answered with JSON without a message: {describe_reply(answer)}")
    if message.get("refusal"):
        raise ChatError(f"{of} refused to answer: {describe_reply(message['refusal'])}")
    finish_reason = choice.get("finish_reason")
    if isinstance(finish_reason, str) and finish_reason in _UNFINISHED:
        raise ChatError(f"{of} {_UNFINISHED[finish_reason]}")
    content = message.get("content")
    if not isinstance(content, str):
        instead = "tool calls" if message.get("tool_calls") else f"the content {describe_reply(content)}"
        raise ChatError(f"{of} answered without text, but with {instead}")
    text = _THOUGHTS.sub("", content).strip()
    if fault := find_text_fault(text):
        raise ChatError(f"{of} answered with {fault}")
    return text
