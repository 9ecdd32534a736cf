"""Async retrieval: walk a corpus or a graph, and stream each hit the moment it is committed."""

from airw.building import BuildProgress, build
from airw.corpus import BuildReport, Corpus, open_corpus, records_for_artifact, search
from airw.embedders import HashingEmbedder, SentenceTransformerEmbedder, embedder_from
from airw.errors import (
    AirwError,
    ArgumentError,
    CorpusNotFound,
    EmbedderError,
    EmbedderMismatch,
    EmbedderUnavailable,
    FilterError,
    NoLedgerEntry,
    PolicyError,
    SourceError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
)
from airw.fusion import fuse_hits, tag_source
from airw.indexing import Chunked, Notes, WholeText
from airw.limits import Limits
from airw.policies import collapsed_tree_policy, per_node
from airw.sources import CorpusSource, from_files, from_jsonl, from_mapping, from_notes
from airw.stores import MemoryStore, SqliteStore
from airw.streams import merge, prefetch, top_k
from airw.traversal import Walk, traverse
from airw.values import Artifact, Edge, IndexPlan, ItemProblem, Link, Record, SearchHit, Surface
from airw.walk import (
    Committed,
    EdgeFound,
    Ended,
    Entry,
    Frontier,
    Policy,
    StepDone,
    WalkEvent,
    WalkPolicy,
    WalkState,
    WalkSummary,
)

__all__ = [
    "AirwError",
    "ArgumentError",
    "Artifact",
    "BuildProgress",
    "BuildReport",
    "Chunked",
    "Committed",
    "Corpus",
    "CorpusNotFound",
    "CorpusSource",
    "Edge",
    "EdgeFound",
    "EmbedderError",
    "EmbedderMismatch",
    "EmbedderUnavailable",
    "Ended",
    "Entry",
    "FilterError",
    "Frontier",
    "HashingEmbedder",
    "IndexPlan",
    "ItemProblem",
    "Limits",
    "Link",
    "MemoryStore",
    "NoLedgerEntry",
    "Notes",
    "Policy",
    "PolicyError",
    "Record",
    "SearchHit",
    "SentenceTransformerEmbedder",
    "SourceError",
    "SqliteStore",
    "StepDone",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "Surface",
    "Walk",
    "WalkEvent",
    "WalkPolicy",
    "WalkState",
    "WalkSummary",
    "WholeText",
    "build",
    "collapsed_tree_policy",
    "embedder_from",
    "from_files",
    "from_jsonl",
    "from_mapping",
    "from_notes",
    "fuse_hits",
    "merge",
    "open_corpus",
    "per_node",
    "prefetch",
    "records_for_artifact",
    "search",
    "tag_source",
    "top_k",
    "traverse",
]
