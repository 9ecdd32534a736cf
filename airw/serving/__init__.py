"""Corpora over HTTP: searches, discoveries, and walks whose hits arrive one by one."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.serving.access import Token as Token
    from airw.serving.application import app as app
    from airw.serving.event_streams import sse as sse
    from airw.serving.limits import ServingLimits as ServingLimits
    from airw.serving.token_files import read_tokens as read_tokens
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, extra="serve")
