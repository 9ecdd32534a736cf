"""Suites that check your own stores, policies and embedders, in any test framework."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.testing.clock import run_on_virtual_clock as run_on_virtual_clock
    from airw.testing.embedders import EmbedderSuite as EmbedderSuite
    from airw.testing.exam import Case as Case, Outcome as Outcome, Report as Report
    from airw.testing.policies import PolicySuite as PolicySuite
    from airw.testing.scripted import ScriptedStore as ScriptedStore
    from airw.testing.stores import CAPABILITIES as CAPABILITIES, StoreSuite as StoreSuite
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
