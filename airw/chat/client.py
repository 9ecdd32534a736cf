"""A client of the API for conversations that OpenAI made and many servers speak."""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airw._base.checks import check_count, check_number, find_text_fault
from airw._base.concurrency import in_thread
from airw._base.http import Api, ApiClient, Exchange, Server, base_url, decode_json, describe_reply
from airw._base.messages import short_repr
from airw.chat.budget import Budget, Charge, estimated
from airw.errors import ArgumentError, ArgumentKindError, ChatError, ChatUnavailable

if TYPE_CHECKING:
    import httpx

PATH = "/chat/completions"
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_UNFINISHED = {
    "length": "was cut off in the middle of its answer: raise max_tokens",
    "content_filter": "was stopped by its server's content filter",
}


class ChatClient(ApiClient):
    """Asks a language model behind an OpenAI-compatible `/v1/chat/completions`, on asyncio and trio.

    Making one sends nothing and loads nothing. Each prompt is one request, a conversation of its own; several are on
    their way at once. Requests are sent again, keys are read, connections are kept and redirects are refused just as
    an `HttpEmbedder` does it; the key is `AIRW_CHAT_KEY`, and `OPENAI_API_KEY` for `https://api.openai.com` only.

    With a `token_budget` a request is sent only where an estimate of its tokens, a quarter of the prompt's characters
    and `max_tokens`, is left; it waits while requests on their way may still leave enough. Then it is charged what the
    server says that it took (`usage.total_tokens`); the estimate where it says nothing, does not answer in time or is
    cancelled; nothing where it refuses or cannot be reached. Being sent again counts once.

    Args:
        url: The base of the API, such as `http://localhost:8080/v1`.
        model: The model's name, as the server knows it.
        temperature: How freely the model chooses its words, from 0; `None` leaves that to the server.
        max_tokens: Tokens of one answer; one that would be longer is an error, not cut.
        token_budget: Tokens that this client may use in its life; `None` for any number.
        max_concurrency: Requests on their way at once on each event loop.
        timeout: Seconds that sending may stall or the server be silent; connecting gets at most 10 of them. An attempt
            as a whole gets twice that.
        retries: Further attempts after the first one.
        api_key_env: The environment variable that holds the key, which must then be set. Left out, `OPENAI_API_KEY` for
            OpenAI, otherwise `AIRW_CHAT_KEY`; where that is not set, no key is sent.
        client: An `httpx.AsyncClient` to use, with its proxies and certificates; it stays yours to close. An
            authorization that it brings replaces the key.

    Raises:
        ArgumentError: The URL is not one, or holds a password or a query, or another value cannot be used.

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
            raise ArgumentError(f"model must be a name that the server knows, not {model!r}")
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
        most = None if token_budget is None else check_count("token_budget", token_budget)
        self._budget = Budget(most, server.label)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._api.server.url!r}, {self._model!r})"

    @property
    def id(self) -> str:
        """Name the model and what changes its answers, `api:<model> temperature=<number>`; never the server.

        The server is trusted to keep the weights of a name, so that what was asked of one host holds for another.
        """
        heat = "" if self._temperature is None else f" temperature={self._temperature}"
        return f"api:{self._model}{heat}"

    @property
    def tokens_used(self) -> int:
        """Count the tokens charged so far; requests on their way are not among them yet."""
        return self._budget.used

    async def complete(self, prompt: str) -> str:
        """Return the model's answer, without white space around it and without thoughts in `<think>` that precede it.

        Raises:
            ChatBudgetSpent: The request may take more tokens than are left; it is not sent.
            ChatUnavailable: The environment variable that `api_key_env` names is not set.
            ChatError: The server cannot be reached or refuses, or its answer is no text or was cut off.
            ArgumentKindError: `prompt` is no string.

        Example:
            >>> import anyio, httpx
            >>> def answer(request):  # stands for a server
            ...     return httpx.Response(200, json={"choices": [{"message": {"content": "Twice a year."}}]})
            >>> async def main():
            ...     async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            ...         return await ChatClient("http://localhost:8080/v1", "my-model", client=client).complete("When?")
            >>> anyio.run(main)
            'Twice a year.'
        """
        if not isinstance(prompt, str):
            raise ArgumentKindError(f"prompt must be a string, not {short_repr(prompt)}")
        async with self._budget.reserved(estimated(prompt, self._max_tokens)) as charge:
            exchange = Exchange(self._payload, partial(self._read, charge))
            (answer,) = await self._api.ask_all([prompt], exchange, batch_size=1, max_chars=1)
        return answer

    def _payload(self, texts: list[str]) -> Mapping[str, object]:
        heat = {} if self._temperature is None else {"temperature": self._temperature}
        messages = [{"role": "user", "content": text} for text in texts]
        # OpenAI has renamed it, and refuses the old name for newer models; the servers that follow know the old one.
        limit = "max_completion_tokens" if self._api.server.is_openai else "max_tokens"
        return {"model": self._model, "messages": messages, limit: self._max_tokens, "stream": False, **heat}

    async def _read(self, charge: Charge, content: bytes, _: int) -> str:
        label = self._api.server.label
        answer = await in_thread(partial(decode_json, content, of=label, error=ChatError))
        tokens = _read_tokens(answer)
        charge.tokens = charge.estimate if tokens is None else tokens
        return _read_text(answer, of=label)


def _read_tokens(answer: object) -> int | None:
    """Return the tokens that a request took, where the answer tells."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and total >= 0 else None


def _read_text(answer: Any, *, of: str) -> str:
    """Return the text of an answer, without white space around it and without thoughts that precede it.

    Raises:
        ChatError: It holds no text, or not all of it. `of` names who answered.
    """
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ChatError(f"{of} answered with JSON that holds no message: {describe_reply(answer)}")
    if message.get("refusal"):
        raise ChatError(f"{of} refused to answer: {describe_reply(message['refusal'])}")
    ended = choice.get("finish_reason")
    if isinstance(ended, str) and ended in _UNFINISHED:
        raise ChatError(f"{of} {_UNFINISHED[ended]}")
    content = message.get("content")
    if not isinstance(content, str):
        instead = "calls of tools" if message.get("tool_calls") else f"{describe_reply(content)} for content"
        raise ChatError(f"{of} answered with no text, but with {instead}")
    text = _THOUGHTS.sub("", content).strip()
    if fault := find_text_fault(text):
        raise ChatError(f"{of} answered with {fault}")
    return text
