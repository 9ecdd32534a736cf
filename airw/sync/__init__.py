"""The async functions of airw, for scripts and notebooks that do not await."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw._base.background import run
    from airw.sync.corpora import (
        SyncCorpus,
        SyncRetriever,
        adapt,
        as_retriever,
        build,
        build_corpus,
        maintain,
        open_corpus,
        register,
        search,
    )
    from airw.sync.discovery import disclose, discover, discover_stream, expand
    from airw.sync.walking import SyncStream, SyncWalk, merge, prefetch, top_k, traverse
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airw._base.background": ["run"],
            "corpora": [
                "SyncCorpus",
                "SyncRetriever",
                "adapt",
                "as_retriever",
                "build",
                "build_corpus",
                "maintain",
                "open_corpus",
                "register",
                "search",
            ],
            "discovery": ["disclose", "discover", "discover_stream", "expand"],
            "walking": ["SyncStream", "SyncWalk", "merge", "prefetch", "top_k", "traverse"],
        },
    )

__all__ = [
    "SyncCorpus",
    "SyncRetriever",
    "SyncStream",
    "SyncWalk",
    "adapt",
    "as_retriever",
    "build",
    "build_corpus",
    "disclose",
    "discover",
    "discover_stream",
    "expand",
    "maintain",
    "merge",
    "open_corpus",
    "prefetch",
    "register",
    "run",
    "search",
    "top_k",
    "traverse",
]
