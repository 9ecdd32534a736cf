"""Sources: where the artifacts of a corpus come from."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.sources._hashing import content_hash as content_hash
    from airw.sources.files import from_files as from_files
    from airw.sources.jsonl import from_jsonl as from_jsonl
    from airw.sources.notes import from_notes as from_notes
    from airw.sources.packages import from_packages as from_packages
    from airw.sources.records import from_records as from_records, split_reference as split_reference
    from airw.sources.reports import from_md_reports as from_md_reports
    from airw.sources.skills import SKILL_FOLDERS as SKILL_FOLDERS, from_skills as from_skills
    from airw.sources.source import (
        CorpusSource as CorpusSource,
        from_mapping as from_mapping,
        to_metadata as to_metadata,
    )
    from airw.sources.tools import from_mcp_tools as from_mcp_tools
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
