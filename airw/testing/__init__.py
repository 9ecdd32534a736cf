"""Exams for what can be replaced: any implementation of a protocol can take them, with and without a test framework."""

from airw.testing._exam import Case, Outcome, Report
from airw.testing.clock import run_on_virtual_clock
from airw.testing.embedders import EmbedderSuite
from airw.testing.policies import PolicySuite
from airw.testing.scripted import ScriptedStore
from airw.testing.stores import CAPABILITIES, StoreSuite

__all__ = [
    "CAPABILITIES",
    "Case",
    "EmbedderSuite",
    "Outcome",
    "PolicySuite",
    "Report",
    "ScriptedStore",
    "StoreSuite",
    "run_on_virtual_clock",
]
