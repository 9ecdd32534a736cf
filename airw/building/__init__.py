"""Building: from a source to an open corpus, incrementally, in one go or in partitions."""

from airw.building.builder import build
from airw.building.partitions import IngestPlan, PartitionReport, finish_ingest, ingest_partition, prepare_ingest
from airw.ingestion import BuildProgress

__all__ = [
    "BuildProgress",
    "IngestPlan",
    "PartitionReport",
    "build",
    "finish_ingest",
    "ingest_partition",
    "prepare_ingest",
]
