"""Discovery: search corpora, select the few hits worth acting on, disclose them.

Several corpora are searched at once and fused by rank, or walked as one graph.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.discovery._planning import (
        Corpora as Corpora,
        DiscoverOptions as DiscoverOptions,
        check_corpora as check_corpora,
        members_of as members_of,
    )
    from airw.discovery.disclosure import (
        LEVELS as LEVELS,
        Disclosure as Disclosure,
        DiscoveryResult as DiscoveryResult,
        Level as Level,
        Loader as Loader,
        SourceAnswered as SourceAnswered,
        check_loading as check_loading,
        disclose as disclose,
    )
    from airw.discovery.discovery import (
        DiscoveryStream as DiscoveryStream,
        discover as discover,
        discover_stream as discover_stream,
    )
    from airw.discovery.expansion import (
        SentenceWindow as SentenceWindow,
        WholeArtifact as WholeArtifact,
        expand as expand,
    )
    from airw.discovery.federated import FederatedCorpus as FederatedCorpus
    from airw.discovery.llm_selection import (
        Chooser as Chooser,
        LlmSelector as LlmSelector,
        make_llm_selector as make_llm_selector,
    )
    from airw.discovery.selection import (
        REASONS as REASONS,
        STRATEGIES as STRATEGIES,
        Selection as Selection,
        Strategy as Strategy,
        select as select,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
