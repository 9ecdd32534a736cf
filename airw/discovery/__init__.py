"""Several corpora as one: asked at once and fused by rank, or walked as one graph."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.discovery.disclosure.disclosing import LEVELS, Disclosure, Level, Loader, check_loading, disclose
    from airw.discovery.discovery import discover
    from airw.discovery.expansion import expand, parent_policy, sentence_window_policy
    from airw.discovery.federated import FederatedCorpus
    from airw.discovery.results import DiscoveryResult, SourceAnswered
    from airw.discovery.selection.llm import Chooser, LlmSelector, make_llm_selector
    from airw.discovery.selection.rules import STRATEGIES, Selection, Strategy, select
    from airw.discovery.stream import DiscoveryStream, discover_stream
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "federated": ["FederatedCorpus"],
            "disclosure.disclosing": ["Disclosure", "LEVELS", "Level", "Loader", "check_loading", "disclose"],
            "discovery": ["discover"],
            "expansion": ["expand", "parent_policy", "sentence_window_policy"],
            "results": ["DiscoveryResult", "SourceAnswered"],
            "selection.llm": ["Chooser", "LlmSelector", "make_llm_selector"],
            "selection.rules": ["STRATEGIES", "Selection", "Strategy", "select"],
            "stream": ["DiscoveryStream", "discover_stream"],
        },
    )

__all__ = [
    "LEVELS",
    "STRATEGIES",
    "Chooser",
    "Disclosure",
    "DiscoveryResult",
    "DiscoveryStream",
    "FederatedCorpus",
    "Level",
    "LlmSelector",
    "Loader",
    "Selection",
    "SourceAnswered",
    "Strategy",
    "check_loading",
    "disclose",
    "discover",
    "discover_stream",
    "expand",
    "make_llm_selector",
    "parent_policy",
    "select",
    "sentence_window_policy",
]
