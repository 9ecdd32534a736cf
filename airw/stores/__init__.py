"""Where a corpus is kept: in memory, or in one SQLite file."""

from airw.stores.memory import MemoryStore
from airw.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore"]
