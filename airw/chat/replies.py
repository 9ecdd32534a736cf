"""What a chat server said, read without trusting it."""

import re
from typing import Any

from airw._base.http import told
from airw.errors import ChatError

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_UNFINISHED = {
    "length": "was cut off in the middle of its answer: raise max_tokens",
    "content_filter": "was stopped by its server's content filter",
}


def tokens_told(answer: object) -> int | None:
    """Give the tokens that a request took, as the answer tells; `None` where it does not.

    Example:
        >>> tokens_told({"usage": {"total_tokens": 31}}), tokens_told({"usage": None})
        (31, None)
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and total >= 0 else None


def text_told(answer: Any, *, of: str) -> str:
    """Give the text of an answer, without white space around it and without thoughts that precede it.

    Raises:
        ChatError: It holds no text, or not all of it. `of` names who answered.

    Example:
        >>> text_told({"choices": [{"message": {"content": "<think>hm</think> Yes. "}}]}, of="the model")
        'Yes.'
    """
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ChatError(f"{of} answered with JSON that holds no message: {told(answer)}")
    if message.get("refusal"):
        raise ChatError(f"{of} refused to answer: {told(message['refusal'])}")
    ended = choice.get("finish_reason")
    if isinstance(ended, str) and ended in _UNFINISHED:
        raise ChatError(f"{of} {_UNFINISHED[ended]}")
    content = message.get("content")
    if not isinstance(content, str):
        instead = "calls of tools" if message.get("tool_calls") else f"{told(content)} for content"
        raise ChatError(f"{of} answered with no text, but with {instead}")
    return _whole(_THOUGHTS.sub("", content).strip(), of)


def _whole(text: str, of: str) -> str:
    """Give a text back where it can be stored and sent on."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ChatError(f"{of} answered with half a character (a lone surrogate)") from None
    return text
