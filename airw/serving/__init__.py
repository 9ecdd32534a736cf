"""Corpora over HTTP: searches, discoveries, and walks whose hits arrive one by one."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.serving.access import Token
    from airw.serving.application import app
    from airw.serving.event_streams import sse
    from airw.serving.limits import ServingLimits
    from airw.serving.token_files import read_tokens
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "access": ["Token"],
            "application": ["app"],
            "event_streams": ["sse"],
            "limits": ["ServingLimits"],
            "token_files": ["read_tokens"],
        },
        extra="serve",
    )

__all__ = ["ServingLimits", "Token", "app", "read_tokens", "sse"]
