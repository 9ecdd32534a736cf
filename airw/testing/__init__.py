"""Suites that check your own stores, policies and embedders, in any test framework."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.testing.clock import run_on_virtual_clock
    from airw.testing.embedders import EmbedderSuite
    from airw.testing.exam import Case, Outcome, Report
    from airw.testing.policies import PolicySuite
    from airw.testing.scripted import ScriptedStore
    from airw.testing.stores import CAPABILITIES, StoreSuite
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "exam": ["Case", "Outcome", "Report"],
            "clock": ["run_on_virtual_clock"],
            "embedders": ["EmbedderSuite"],
            "policies": ["PolicySuite"],
            "scripted": ["ScriptedStore"],
            "stores": ["CAPABILITIES", "StoreSuite"],
        },
    )

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
