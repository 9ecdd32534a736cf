"""Named corpora: how each is made, kept in one file, built again when due."""

from airw.registry.building import BuildOptions, build_corpus
from airw.registry.coverage import Coverage, coverage
from airw.registry.definitions import Definition
from airw.registry.file import corpora, register, unregister
from airw.registry.kinds import PRESETS
from airw.registry.maintenance import Maintained, MaintenanceReport, maintain
from airw.registry.retrievers import Retrievers, retriever_for, retrievers
from airw.registry.schedules import Maintenance

__all__ = [
    "PRESETS",
    "BuildOptions",
    "Coverage",
    "Definition",
    "Maintained",
    "Maintenance",
    "MaintenanceReport",
    "Retrievers",
    "build_corpus",
    "corpora",
    "coverage",
    "maintain",
    "register",
    "retriever_for",
    "retrievers",
    "unregister",
]
