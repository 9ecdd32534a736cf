"""Prompts with places to fill in, and answers that are lists."""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from airw._base.concurrency import call_user_function
from airw._base.messages import short_repr
from airw.chat.models import ChatLike, ChatModel, resolve_chat
from airw.errors import ArgumentError, ArgumentKindError

F = TypeVar("F")

_FENCE = re.compile(r"```[\w-]*|~~~[\w-]*")
_MARKER = re.compile(r"(?:[-*+•–]|\(?\d{1,3}[.)])\s+")  # noqa: RUF001
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "**": "**"}


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A prompt for a chat model, filled in at each call.

    Args:
        chat: The model to ask.
        prompt: The text to send; `{name}` is where the value of that name goes, any other brace is itself.
    """

    chat: ChatModel
    prompt: str

    @property
    def id(self) -> str:
        """Name the model and, by its hash, the prompt."""
        return f"{self.chat.id} prompt={hashlib.sha256(self.prompt.encode()).hexdigest()[:12]}"

    async def __call__(self, **values: object) -> str:
        """Ask the model, and return its answer.

        Raises:
            ChatError: The model answered with what is no text.
            Exception: Whatever the model raises.
        """
        complete: Callable[[str], str | Awaitable[str]] = self.chat.complete
        answer: object = await call_user_function(complete, filled(self.prompt, values))
        if not isinstance(answer, str):
            raise ArgumentKindError(f"a chat model must answer with a string, not {short_repr(answer)}")
        return answer


def filled(prompt: str, values: Mapping[str, object]) -> str:
    """Put values into the places of a prompt, all at once, so that braces in a value stay as they are.

    Example:
        >>> filled('{"query": "{query}"}', {"query": "{n} {query}"})
        '{"query": "{n} {query}"}'
    """
    places = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({places})\}}", lambda place: str(values[place[1]]), prompt)


def function_or_prompt(
    function: F | None, name: str, *, model: ChatLike | None, prompt: str | None, default: str, needs: Sequence[str]
) -> F | ChatPrompt:
    """Return a function back, the parameter `name`, or where there is none the question to ask a model instead.

    Raises:
        ArgumentError: The prompt has not the places that it `needs`, or there is a model or a prompt beside a function.
        ChatUnavailable: There is neither a function nor a model.
    """
    if function is not None:
        if not callable(function):
            raise ArgumentKindError(f"{name} must be a function, not {short_repr(function)}")
        if model is not None or prompt is not None:
            raise ArgumentError(f"pass either {name}, which is called, or a model and its prompt, which is asked")
        return function
    text = default if prompt is None else prompt
    missing = [place for place in needs if not isinstance(text, str) or f"{{{place}}}" not in text]
    if missing:
        raise ArgumentError(f"prompt must be a text with {{{missing[0]}}} in it, where the {missing[0]} goes")
    return ChatPrompt(resolve_chat(model), text)


def list_items(answer: str) -> list[str]:
    r"""Return the items of a list, one a line or a JSON list of strings, as they stand, without blank ones and fences.

    A first line that ends with a colon only announces the others.

    Example:
        >>> list_items("Here you are:\n```\n- keys\n2. 'key rotation'\n```")
        ['- keys', "2. 'key rotation'"]
        >>> list_items('["keys", "key rotation"]')
        ['keys', 'key rotation']
    """
    lines = [line.strip() for line in answer.splitlines()]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if lines and lines[0].endswith(":") and len(lines) > 1:
        del lines[0]
    items = _decoded("\n".join(lines))
    return lines if items is None else [item.strip() for item in items if item.strip()]


def strip_bullet(line: str) -> str:
    """Return an item of a list without its number or bullet, and without quotes around it.

    Example:
        >>> strip_bullet("1. “key rotation”"), strip_bullet("- `keys.md`"), strip_bullet("3.5 mm jack")
        ('key rotation', 'keys.md', '3.5 mm jack')
    """
    item = _MARKER.sub("", line, count=1) if _MARKER.match(line) else line
    for opening, closing in _QUOTES.items():
        inner = item.removeprefix(opening).removesuffix(closing)
        if len(inner) == len(item) - len(opening) - len(closing) and closing not in inner:
            return inner.strip()
    return item.strip()


def _decoded(text: str) -> list[str] | None:
    """Return the strings of a JSON list; `None` where it is none."""
    try:
        items = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else None
