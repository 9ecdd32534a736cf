"""Sources: where the artifacts of a corpus come from."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.sources._hashing import content_hash
    from airw.sources.files import from_files
    from airw.sources.jsonl import from_jsonl
    from airw.sources.notes import from_notes
    from airw.sources.packages import from_packages
    from airw.sources.records import from_records, split_reference
    from airw.sources.reports import from_md_reports
    from airw.sources.skills import SKILL_FOLDERS, from_skills
    from airw.sources.source import CorpusSource, from_mapping, to_metadata
    from airw.sources.tools import from_mcp_tools
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_hashing": ["content_hash"],
            "files": ["from_files"],
            "jsonl": ["from_jsonl"],
            "notes": ["from_notes"],
            "packages": ["from_packages"],
            "records": ["from_records", "split_reference"],
            "reports": ["from_md_reports"],
            "skills": ["SKILL_FOLDERS", "from_skills"],
            "source": ["CorpusSource", "from_mapping", "to_metadata"],
            "tools": ["from_mcp_tools"],
        },
    )

__all__ = [
    "SKILL_FOLDERS",
    "CorpusSource",
    "content_hash",
    "from_files",
    "from_jsonl",
    "from_mapping",
    "from_mcp_tools",
    "from_md_reports",
    "from_notes",
    "from_packages",
    "from_records",
    "from_skills",
    "split_reference",
    "to_metadata",
]
