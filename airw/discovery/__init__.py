"""Discovery: search corpora, select the few hits worth acting on, disclose them.

Several corpora are searched at once and fused by rank, or walked as one graph.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.discovery._planning import Corpora, DiscoverOptions, check_corpora, members_of
    from airw.discovery.disclosure import LEVELS, Disclosure, Level, Loader, check_loading, disclose
    from airw.discovery.discovery import DiscoveryStream, discover, discover_stream
    from airw.discovery.expansion import SentenceWindow, WholeArtifact, expand
    from airw.discovery.federated import FederatedCorpus
    from airw.discovery.llm_selection import Chooser, LlmSelector, make_llm_selector
    from airw.discovery.results import DiscoveryResult, SourceAnswered
    from airw.discovery.selection import STRATEGIES, Selection, Strategy, select
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_planning": ["Corpora", "DiscoverOptions", "check_corpora", "members_of"],
            "disclosure": ["Disclosure", "LEVELS", "Level", "Loader", "check_loading", "disclose"],
            "discovery": ["DiscoveryStream", "discover", "discover_stream"],
            "expansion": ["SentenceWindow", "WholeArtifact", "expand"],
            "federated": ["FederatedCorpus"],
            "llm_selection": ["Chooser", "LlmSelector", "make_llm_selector"],
            "results": ["DiscoveryResult", "SourceAnswered"],
            "selection": ["STRATEGIES", "Selection", "Strategy", "select"],
        },
    )

__all__ = [
    "LEVELS",
    "STRATEGIES",
    "Chooser",
    "Corpora",
    "Disclosure",
    "DiscoverOptions",
    "DiscoveryResult",
    "DiscoveryStream",
    "FederatedCorpus",
    "Level",
    "LlmSelector",
    "Loader",
    "Selection",
    "SentenceWindow",
    "SourceAnswered",
    "Strategy",
    "WholeArtifact",
    "check_corpora",
    "check_loading",
    "disclose",
    "discover",
    "discover_stream",
    "expand",
    "make_llm_selector",
    "members_of",
    "select",
]
