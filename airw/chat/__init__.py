"""Asking a language model."""

from airw.chat.client import ChatClient
from airw.chat.model import ChatModel
from airw.chat.specs import ChatLike, resolve_chat

__all__ = ["ChatClient", "ChatLike", "ChatModel", "resolve_chat"]
