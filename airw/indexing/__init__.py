"""Strategies that split an artifact into fields to filter by and surfaces to search."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.indexing._identity import identity
    from airw.indexing.chunked import Chunked
    from airw.indexing.notes import Notes
    from airw.indexing.package import Package
    from airw.indexing.skill import Skill
    from airw.indexing.specs import strategy_from_spec, strategy_spec
    from airw.indexing.synopsis import (
        ThinDescription,
        make_llm_synthesizer,
        with_synopsis,
    )
    from airw.indexing.whole import WholeText
    from airw.indexing.windows import token_offsets
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "chunked": ["Chunked"],
            "_identity": ["identity"],
            "notes": ["Notes"],
            "package": ["Package"],
            "skill": ["Skill"],
            "specs": ["strategy_from_spec", "strategy_spec"],
            "synopsis": ["ThinDescription", "make_llm_synthesizer", "with_synopsis"],
            "whole": ["WholeText"],
            "windows": ["token_offsets"],
        },
    )

__all__ = [
    "Chunked",
    "Notes",
    "Package",
    "Skill",
    "ThinDescription",
    "WholeText",
    "identity",
    "make_llm_synthesizer",
    "strategy_from_spec",
    "strategy_spec",
    "token_offsets",
    "with_synopsis",
]
