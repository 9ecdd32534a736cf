"""The values that all other packages share: frozen, slotted dataclasses without I/O.

An `Artifact` is one item of a corpus. An indexing strategy splits it into an `IndexPlan` of `Surface`s, and a store
saves each surface as a `Record`. A `Link` is a reference from one artifact to another. Once its target has been found,
walks follow it as an `Edge`. Searches and walks return `SearchHit`s.

These values contain no vectors: vectors travel as one `(n, dim)` array beside a list of ids.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw._base.arrays import Floats, NDArray
    from airw.values.analysers import LANGUAGES, Analyser, Language, check_language
    from airw.values.artifacts import Artifact, ArtifactChange, IndexPlan, ItemProblem, LedgerEntry, Record, Surface
    from airw.values.hit_batches import HitBatch
    from airw.values.hits import Passage, Ranking, SearchHit, check_hit
    from airw.values.limits import STOP_REASONS, Limits, StopReason
    from airw.values.links import (
        DIRECTIONS,
        ORIGINS,
        ArtifactRef,
        Direction,
        Edge,
        Extraction,
        Link,
        LinkCount,
        LinkFilter,
        LinkState,
        NodeId,
        NodeIdLike,
        UnresolvedLink,
        canonical_node_id,
        fold_name,
        round_weight,
    )
    from airw.values.term_counts import TermCounts, check_term_counts, formula_of, weigh_word
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airw._base.arrays": ["Floats", "NDArray"],
            "analysers": ["LANGUAGES", "Analyser", "Language", "check_language"],
            "artifacts": ["Artifact", "ArtifactChange", "IndexPlan", "ItemProblem", "LedgerEntry", "Record", "Surface"],
            "hit_batches": ["HitBatch"],
            "hits": ["Passage", "Ranking", "SearchHit", "check_hit"],
            "limits": ["Limits", "STOP_REASONS", "StopReason"],
            "links": [
                "DIRECTIONS",
                "ORIGINS",
                "ArtifactRef",
                "Direction",
                "Edge",
                "Extraction",
                "Link",
                "LinkCount",
                "LinkFilter",
                "LinkState",
                "NodeId",
                "NodeIdLike",
                "UnresolvedLink",
                "canonical_node_id",
                "fold_name",
                "round_weight",
            ],
            "term_counts": ["TermCounts", "check_term_counts", "formula_of", "weigh_word"],
        },
    )

__all__ = [
    "DIRECTIONS",
    "LANGUAGES",
    "ORIGINS",
    "STOP_REASONS",
    "Analyser",
    "Artifact",
    "ArtifactChange",
    "ArtifactRef",
    "Direction",
    "Edge",
    "Extraction",
    "Floats",
    "HitBatch",
    "IndexPlan",
    "ItemProblem",
    "Language",
    "LedgerEntry",
    "Limits",
    "Link",
    "LinkCount",
    "LinkFilter",
    "LinkState",
    "NDArray",
    "NodeId",
    "NodeIdLike",
    "Passage",
    "Ranking",
    "Record",
    "SearchHit",
    "StopReason",
    "Surface",
    "TermCounts",
    "UnresolvedLink",
    "canonical_node_id",
    "check_hit",
    "check_language",
    "check_term_counts",
    "fold_name",
    "formula_of",
    "round_weight",
    "weigh_word",
]
