"""Search one open corpus: dense, lexical or hybrid.

`airw.corpora` opens corpora by name or path; this package searches a corpus that is open already.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.retrieval.formulation import make_llm_formulator
    from airw.retrieval.fusion import fuse_hits, tag_source
    from airw.retrieval.no_hits import explain_no_hits
    from airw.retrieval.query import (
        FUSIONS,
        MODES,
        SEARCH_DEFAULTS,
        Boost,
        Fusion,
        Mode,
        PassageReader,
        SearchOptions,
        SearchQuery,
        SearchTuning,
        channels_of,
        hybrid_depth,
    )
    from airw.retrieval.searching import (
        answer_query,
        channel_rankings,
        check_corpus,
        describe_mistaken_corpus,
        embed_text,
        formulate_queries,
        retrieve,
        run_search,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "searching": [
                "answer_query",
                "run_search",
                "channel_rankings",
                "check_corpus",
                "describe_mistaken_corpus",
                "embed_text",
                "formulate_queries",
                "retrieve",
            ],
            "formulation": ["make_llm_formulator"],
            "fusion": ["fuse_hits", "tag_source"],
            "no_hits": ["explain_no_hits"],
            "query": [
                "Boost",
                "FUSIONS",
                "Fusion",
                "MODES",
                "Mode",
                "PassageReader",
                "SEARCH_DEFAULTS",
                "SearchOptions",
                "SearchQuery",
                "SearchTuning",
                "channels_of",
                "hybrid_depth",
            ],
        },
    )

__all__ = [
    "FUSIONS",
    "MODES",
    "SEARCH_DEFAULTS",
    "Boost",
    "Fusion",
    "Mode",
    "PassageReader",
    "SearchOptions",
    "SearchQuery",
    "SearchTuning",
    "answer_query",
    "channel_rankings",
    "channels_of",
    "check_corpus",
    "describe_mistaken_corpus",
    "embed_text",
    "explain_no_hits",
    "formulate_queries",
    "fuse_hits",
    "hybrid_depth",
    "make_llm_formulator",
    "retrieve",
    "run_search",
    "tag_source",
]
