"""Several corpora as one: asked at once and fused by rank, or walked as one graph."""

from airw.federation.corpora import FederatedCorpus
from airw.federation.discovery import discover
from airw.federation.results import DiscoveryResult, SourceAnswered
from airw.federation.stream import DiscoveryStream, discover_stream

__all__ = [
    "DiscoveryResult",
    "DiscoveryStream",
    "FederatedCorpus",
    "SourceAnswered",
    "discover",
    "discover_stream",
]
