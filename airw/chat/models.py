"""Chat models: the protocol, and how to name a model by a string."""

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
    """A language model that answers a prompt with text.

    `ChatClient` is one. Any other object with these two members can take its place.
    """

    @property
    def id(self) -> str:
        """The name of the model and of the settings that change its answers, without the server.

        Callers compare ids to decide whether stored answers are still valid.
        """
        ...

    async def complete(self, prompt: str) -> str:
        """Send a prompt and return the model's answer."""
        ...


ChatLike: TypeAlias = str | ChatModel
"""A chat model, or the specification of one; see `resolve_chat`."""


def resolve_chat(spec: ChatLike | None) -> ChatModel:
    """Return the chat model of a specification; nothing is sent.

    ```text
    "http://host:8080/v1#model"  ChatClient(url, model)
    a ChatModel                  itself
    None                         the model in the environment variable AIRW_CHAT, as a URL with a model
    ```

    Raises:
        ChatUnavailable: If `spec` is `None` and `AIRW_CHAT` is not set.
        ArgumentError: If the specification is not a URL with a model.
        ArgumentKindError: If `spec` has another type.

    Example:
        >>> resolve_chat("http://localhost:8080/v1#my-model")
        ChatClient('http://localhost:8080/v1', 'my-model')
    """
    if spec is None:
        environment_spec = os.environ.get(VARIABLE, "").strip()
        if not environment_spec:
            raise ChatUnavailable(
                f"no chat model is set; pass model=, or set the environment variable {VARIABLE}, for example to "
                f"{_EXAMPLE}"
            )
        return _client_from(environment_spec, f"the environment variable {VARIABLE}")
    if isinstance(spec, str):
        return _client_from(spec, "a chat model")
    id: object = getattr(spec, "id", None)
    if not isinstance(spec, type) and callable(getattr(spec, "complete", None)) and isinstance(id, str):
        return spec
    raise ArgumentKindError(
        f"a chat model must be {_EXAMPLE}, a ChatClient, or an object with `id` and async `complete`, "
        f"not {short_repr(spec)}"
    )


def _client_from(spec: str, name: str) -> ChatClient:
    if "://" not in spec:
        raise ArgumentError(f"{name} must be the URL of an API with a model, such as {_EXAMPLE}")
    url, _, model = spec.partition("#")
    base = base_url(url, path=PATH)
    if not model.strip():
        raise ArgumentError(f"{name} is a URL without a model; use {base + '#model'!r}")
    return ChatClient(base, model)
