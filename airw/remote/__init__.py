"""Corpora on other machines, behind the same protocols as those on this one."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.remote.calls import Timeouts as Timeouts
    from airw.remote.corpus import RemoteCorpus as RemoteCorpus
    from airw.remote.embedder import RemoteEmbedder as RemoteEmbedder
    from airw.remote.store import RemoteStore as RemoteStore
    from airw.remote.walk import RemoteWalk as RemoteWalk
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
