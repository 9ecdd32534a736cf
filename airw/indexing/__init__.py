"""Strategies that split an artifact into fields to filter by and surfaces to search."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.indexing._identity import identity as identity
    from airw.indexing.chunked import Chunked as Chunked
    from airw.indexing.notes import Notes as Notes
    from airw.indexing.package import Package as Package
    from airw.indexing.skill import Skill as Skill
    from airw.indexing.specs import strategy_from_spec as strategy_from_spec, strategy_spec as strategy_spec
    from airw.indexing.synopsis import (
        ThinDescription as ThinDescription,
        make_llm_synthesizer as make_llm_synthesizer,
        with_synopsis as with_synopsis,
    )
    from airw.indexing.whole import FittedText as FittedText, WholeText as WholeText
    from airw.indexing.windows import token_offsets as token_offsets
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
