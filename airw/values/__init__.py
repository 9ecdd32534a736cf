"""The values that all other packages share: frozen, slotted dataclasses without I/O.

An `Artifact` is one item of a corpus. An indexing strategy splits it into an `IndexPlan` of `Surface`s, and a store
saves each surface as a `Record`. A `Link` is a reference from one artifact to another. Once its target has been found,
walks follow it as an `Edge`. Searches and walks return `SearchHit`s.

These values contain no vectors: vectors travel as one `(n, dim)` array beside a list of ids.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw._base.arrays import Floats as Floats, NDArray as NDArray
    from airw.values.analysers import (
        LANGUAGES as LANGUAGES,
        Analyser as Analyser,
        Language as Language,
        check_language as check_language,
    )
    from airw.values.artifacts import (
        Artifact as Artifact,
        ArtifactChange as ArtifactChange,
        IndexPlan as IndexPlan,
        ItemProblem as ItemProblem,
        LedgerEntry as LedgerEntry,
        Record as Record,
        Surface as Surface,
    )
    from airw.values.contains import (
        Contains as Contains,
        ParsedQuery as ParsedQuery,
        read_operators as read_operators,
    )
    from airw.values.hits import Passage as Passage, Ranking as Ranking, SearchHit as SearchHit, check_hit as check_hit
    from airw.values.limits import STOP_REASONS as STOP_REASONS, Limits as Limits, StopReason as StopReason
    from airw.values.links import (
        DIRECTIONS as DIRECTIONS,
        ORIGINS as ORIGINS,
        ArtifactRef as ArtifactRef,
        Direction as Direction,
        Edge as Edge,
        Extraction as Extraction,
        Link as Link,
        LinkCount as LinkCount,
        LinkFilter as LinkFilter,
        LinkState as LinkState,
        NodeId as NodeId,
        NodeIdLike as NodeIdLike,
        UnresolvedLink as UnresolvedLink,
        canonical_node_id as canonical_node_id,
        fold_name as fold_name,
        round_weight as round_weight,
    )
    from airw.values.term_counts import (
        TermCounts as TermCounts,
        check_term_counts as check_term_counts,
        formula_of as formula_of,
        weigh_word as weigh_word,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
