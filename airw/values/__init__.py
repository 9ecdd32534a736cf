"""The nouns: frozen, slotted values without I/O.

An `Artifact` is one item of a corpus. A strategy decomposes it into an `IndexPlan` of `Surface`s, and each surface is
stored as a `Record`. A `Link` is what an artifact says about another one; resolved, it is an `Edge`. A `SearchHit` is a
result. Vectors never sit inside these values: they travel as one `(n, dim)` array beside a list of ids.
"""

from airw._json import json_clean
from airw.values.arrays import Floats, NDArray
from airw.values.artifacts import Artifact, ArtifactChange, IndexPlan, ItemProblem, LedgerEntry, Record, Surface
from airw.values.hits import Passage, Ranking, SearchHit
from airw.values.links import (
    DIRECTIONS,
    Direction,
    Edge,
    Extraction,
    Link,
    LinkCount,
    LinkState,
    NodeId,
    UnresolvedLink,
    canonical_node_id,
)

__all__ = [
    "DIRECTIONS",
    "Artifact",
    "ArtifactChange",
    "Direction",
    "Edge",
    "Extraction",
    "Floats",
    "IndexPlan",
    "ItemProblem",
    "LedgerEntry",
    "Link",
    "LinkCount",
    "LinkState",
    "NDArray",
    "NodeId",
    "Passage",
    "Ranking",
    "Record",
    "SearchHit",
    "Surface",
    "UnresolvedLink",
    "canonical_node_id",
    "json_clean",
]
