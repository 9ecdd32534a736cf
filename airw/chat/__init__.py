"""A client for language models, and prompts to send to them."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.chat.client import ChatClient
    from airw.chat.models import ChatLike, ChatModel, resolve_chat
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "client": ["ChatClient"],
            "models": ["ChatLike", "ChatModel", "resolve_chat"],
        },
    )

__all__ = [
    "ChatClient",
    "ChatLike",
    "ChatModel",
    "resolve_chat",
]
