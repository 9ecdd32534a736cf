"""Committing to the few hits worth acting on, or to none: by rules over the scores, or by asking a language model."""

from airw.selection.llm import Chooser, LlmSelector, make_llm_selector
from airw.selection.rules import STRATEGIES, Selection, Strategy, select

__all__ = ["STRATEGIES", "Chooser", "LlmSelector", "Selection", "Strategy", "make_llm_selector", "select"]
