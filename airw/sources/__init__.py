"""Where artifacts come from."""

from airw.sources.files import from_files
from airw.sources.jsonl import from_jsonl
from airw.sources.notes import from_notes
from airw.sources.source import CorpusSource, content_hash, from_mapping, is_valid_name

__all__ = ["CorpusSource", "content_hash", "from_files", "from_jsonl", "from_mapping", "from_notes", "is_valid_name"]
