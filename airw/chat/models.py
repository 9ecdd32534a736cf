"""What can be asked, and how to name it."""

import os
from typing import Protocol, TypeAlias, runtime_checkable

from airw._base.http import base_url
from airw._base.messages import short_repr
from airw.chat.client import PATH, ChatClient
from airw.errors import ArgumentError, ArgumentKindError, ChatUnavailable

VARIABLE = "AIRW_CHAT"
_EXAMPLE = "'http://localhost:8080/v1#model'"


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt with text: a `ChatClient`, or anything else that has these two."""

    @property
    def id(self) -> str:
        """Name the model and what changes its answers, never a server; equal ids mean interchangeable answers."""
        ...

    async def complete(self, prompt: str) -> str:
        """Return the model's answer."""
        ...


ChatLike: TypeAlias = str | ChatModel
"""A chat model, or its specification."""


def resolve_chat(spec: ChatLike | None) -> ChatModel:
    """Make the chat model that a specification names; nothing is sent.

    ```text
    "http://host:8080/v1#model"  ChatClient(url, model)
    a ChatModel                  itself
    None                         what the environment variable AIRW_CHAT names, in the form above
    ```

    Raises:
        ChatUnavailable: None is named, nor does `AIRW_CHAT` name one.
        ArgumentError: A specification is no URL with a model.
        ArgumentKindError: It is something else.

    Example:
        >>> resolve_chat("http://localhost:8080/v1#my-model")
        ChatClient('http://localhost:8080/v1', 'my-model')
    """
    if spec is None:
        named = os.environ.get(VARIABLE, "").strip()
        if not named:
            raise ChatUnavailable(
                f"no language model is named: pass model=, or set the environment variable {VARIABLE}, such as to "
                f"{_EXAMPLE}"
            )
        return _served(named, f"the environment variable {VARIABLE}")
    if isinstance(spec, str):
        return _served(spec, "a chat model")
    id: object = getattr(spec, "id", None)
    if not isinstance(spec, type) and callable(getattr(spec, "complete", None)) and isinstance(id, str):
        return spec
    raise ArgumentKindError(
        f"a chat model is {_EXAMPLE}, a ChatClient, or anything with an `id` and an async `complete`, "
        f"not {short_repr(spec)}"
    )


def _served(spec: str, what: str) -> ChatClient:
    if "://" not in spec:
        raise ArgumentError(f"{what} must be the URL of an API and a model, such as {_EXAMPLE}")
    url, _, model = spec.partition("#")
    base = base_url(url, path=PATH)
    if not model.strip():
        raise ArgumentError(f"{what} names a server; add the model to ask: {base + '#model'!r}")
    return ChatClient(base, model)
