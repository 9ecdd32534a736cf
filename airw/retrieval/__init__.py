"""Search one open corpus: dense, lexical or hybrid.

`airw.corpora` opens corpora by name or path; this package searches a corpus that is open already.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.retrieval.formulation import make_llm_formulator as make_llm_formulator
    from airw.retrieval.fusion import fuse_hits as fuse_hits, tag_source as tag_source
    from airw.retrieval.query import (
        FUSIONS as FUSIONS,
        MODES as MODES,
        SEARCH_DEFAULTS as SEARCH_DEFAULTS,
        Boost as Boost,
        Fusion as Fusion,
        Mode as Mode,
        PassageReader as PassageReader,
        SearchOptions as SearchOptions,
        SearchQuery as SearchQuery,
        SearchTuning as SearchTuning,
        channels_of as channels_of,
        hybrid_depth as hybrid_depth,
    )
    from airw.retrieval.searching import (
        answer_query as answer_query,
        channel_rankings as channel_rankings,
        check_corpus as check_corpus,
        describe_mistaken_corpus as describe_mistaken_corpus,
        embed_text as embed_text,
        explain_no_hits as explain_no_hits,
        formulate_queries as formulate_queries,
        retrieve as retrieve,
        run_search as run_search,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
