"""The protocols of all replaceable parts, such as stores, and what a store can be asked.

A class need not inherit from a protocol: having its methods is enough. Methods that may block are async, and one call
serves many ids or texts.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.protocols.adjacency import (
        EdgeLabel as EdgeLabel,
        EdgeRow as EdgeRow,
    )
    from airw.protocols.finding import (
        Formulator as Formulator,
        MaybeAwaitable as MaybeAwaitable,
        NeighborhoodPolicy as NeighborhoodPolicy,
        Reranker as Reranker,
        Retriever as Retriever,
        Selector as Selector,
    )
    from airw.protocols.indexing import (
        CorpusWideExtractor as CorpusWideExtractor,
        EdgeExtractor as EdgeExtractor,
        Embedder as Embedder,
        EmbedderLike as EmbedderLike,
        IndexingStrategy as IndexingStrategy,
        Source as Source,
        Survey as Survey,
        Synthesizer as Synthesizer,
    )
    from airw.protocols.requests import (
        ALL_LINKS as ALL_LINKS,
        CAPABILITIES as CAPABILITIES,
        SNAPSHOT_CAPABILITIES as SNAPSHOT_CAPABILITIES,
        ArtifactIds as ArtifactIds,
        Artifacts as Artifacts,
        ArtifactVectors as ArtifactVectors,
        Best as Best,
        Calibrations as Calibrations,
        Capability as Capability,
        Change as Change,
        Columns as Columns,
        Config as Config,
        Counts as Counts,
        Edges as Edges,
        Ends as Ends,
        Fed as Fed,
        Ledger as Ledger,
        LinkCounts as LinkCounts,
        Matching as Matching,
        MaxFanIn as MaxFanIn,
        Names as Names,
        Rank as Rank,
        Records as Records,
        RecordsOf as RecordsOf,
        Referrers as Referrers,
        Request as Request,
        Schema as Schema,
        Stale as Stale,
        TextLanguage as TextLanguage,
        UnresolvedLinks as UnresolvedLinks,
        Vectors as Vectors,
        VectorsOf as VectorsOf,
        Words as Words,
    )
    from airw.protocols.runs import IngestRun as IngestRun, RunKeeper as RunKeeper, RunRows as RunRows
    from airw.protocols.stores import (
        OpenCorpus as OpenCorpus,
        Store as Store,
        ask as ask,
        ask_all as ask_all,
        check_able as check_able,
        check_capabilities as check_capabilities,
        check_store as check_store,
        fill as fill,
        try_many as try_many,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
