"""Asking a language model."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.chat.client import ChatClient
    from airw.chat.model import ChatModel
    from airw.chat.specs import ChatLike, resolve_chat
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "client": ["ChatClient"],
            "model": ["ChatModel"],
            "specs": ["ChatLike", "resolve_chat"],
        },
    )

__all__ = [
    "ChatClient",
    "ChatLike",
    "ChatModel",
    "resolve_chat",
]
