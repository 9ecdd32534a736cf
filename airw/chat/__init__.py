"""A client for language models, and prompts to send to them."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.chat.client import ChatClient as ChatClient
    from airw.chat.models import ChatLike as ChatLike, ChatModel as ChatModel, resolve_chat as resolve_chat
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
