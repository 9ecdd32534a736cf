"""Prompt templates for chat models, and answers that are lists."""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from airw._base.checks import check_kind
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
    """A prompt template together with the chat model to send it to.

    Args:
        chat: The chat model.
        prompt: The template. Each `{name}` is replaced by the value of that name; other braces stay.
    """

    chat: ChatModel
    prompt: str

    @property
    def id(self) -> str:
        """The id of the model, and a hash of the template."""
        return f"{self.chat.id} prompt={hashlib.sha256(self.prompt.encode()).hexdigest()[:12]}"

    async def __call__(self, **values: object) -> str:
        """Send the template with these values to the model, and return its answer.

        Raises:
            ArgumentKindError: If the model returns something else than a string.
            Exception: Any error of the model.
        """
        complete: Callable[[str], str | Awaitable[str]] = self.chat.complete
        answer: object = await call_user_function(complete, fill_template(self.prompt, values))
        if not isinstance(answer, str):
            raise ArgumentKindError(f"complete() of a chat model returned {short_repr(answer)}; return a string")
        return answer


def fill_template(prompt: str, values: Mapping[str, object]) -> str:
    """Replace each `{name}` of a template by the value of that name.

    All values are inserted at once, so that braces inside a value stay unchanged.

    Example:
        >>> fill_template('{"query": "{query}"}', {"query": "{n} {query}"})
        '{"query": "{n} {query}"}'
    """
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda match: str(values[match[1]]), prompt)


def function_or_prompt(
    function: F | None, name: str, *, model: ChatLike | None, prompt: str | None, default: str, needs: Sequence[str]
) -> F | ChatPrompt:
    """Return the caller's function or, if there is none, a prompt for a model.

    Args:
        function: The function that the caller passed, or `None`.
        name: The parameter of the function, for errors.
        model: The chat model, or its specification; `None` for the model of the environment.
        prompt: The prompt template; `None` for `default`.
        default: The default template.
        needs: The names that a template must contain, each as `{name}`.

    Raises:
        ArgumentError: If a needed name is missing in the template, or there are a function and a model or prompt.
        ChatUnavailable: If there is neither a function nor a model.
    """
    if function is not None:
        check_kind(name, function, Callable, "be a function")
        if model is not None or prompt is not None:
            raise ArgumentError(f"{name} cannot be combined with model or prompt; pass either {name} or these")
        return function
    template = default if prompt is None else prompt
    for needed in needs:
        if not isinstance(template, str) or f"{{{needed}}}" not in template:
            raise ArgumentError(f"prompt must contain {{{needed}}}, not be {short_repr(template)}")
    return ChatPrompt(resolve_chat(model), template)


def list_items(answer: str) -> list[str]:
    r"""Return the items of a list in an answer: its lines, or the strings of a JSON list.

    Empty items and code fences are skipped. A first line that ends with a colon is an introduction and skipped, too.
    Bullets and quotes stay; see `strip_bullet`.

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
    items = _parse_json_list("\n".join(lines))
    return lines if items is None else [item.strip() for item in items if item.strip()]


def strip_bullet(line: str) -> str:
    """Return a list item without its number or bullet, and without quotes around it.

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


def _parse_json_list(text: str) -> list[str] | None:
    """Return the strings of a JSON list; `None` if the text is something else."""
    try:
        items = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else None
