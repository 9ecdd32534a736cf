"""The async functions of airw, for scripts and notebooks that do not await."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw._base.background import run as run
    from airw.sync.corpora import (
        SyncCorpus as SyncCorpus,
        SyncRetriever as SyncRetriever,
        adapt as adapt,
        as_retriever as as_retriever,
        build as build,
        build_corpus as build_corpus,
        maintain as maintain,
        open_corpus as open_corpus,
        register as register,
        search as search,
    )
    from airw.sync.discovery import (
        disclose as disclose,
        discover as discover,
        discover_stream as discover_stream,
        expand as expand,
    )
    from airw.sync.walking import (
        SyncStream as SyncStream,
        SyncWalk as SyncWalk,
        merge as merge,
        prefetch as prefetch,
        top_k as top_k,
        traverse as traverse,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
