"""Corpora on other machines, behind the same protocols as those on this one."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.remote.calls import Timeouts
    from airw.remote.corpus import RemoteCorpus
    from airw.remote.embedder import RemoteEmbedder
    from airw.remote.store import RemoteStore
    from airw.remote.walk import RemoteWalk
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "calls": ["Timeouts"],
            "corpus": ["RemoteCorpus"],
            "embedder": ["RemoteEmbedder"],
            "store": ["RemoteStore"],
            "walk": ["RemoteWalk"],
        },
    )

__all__ = ["RemoteCorpus", "RemoteEmbedder", "RemoteStore", "RemoteWalk", "Timeouts"]
