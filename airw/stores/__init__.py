"""Stores of a corpus: `MemoryStore`, and `SqliteStore` in one file."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.stores.memory.store import MemoryStore
    from airw.stores.sqlite.durability import DURABILITIES, Durability
    from airw.stores.sqlite.files import check_file, copy_file, repair_file
    from airw.stores.sqlite.store import SqliteStore
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "memory.store": ["MemoryStore"],
            "sqlite.durability": ["DURABILITIES", "Durability"],
            "sqlite.files": ["check_file", "copy_file", "repair_file"],
            "sqlite.store": ["SqliteStore"],
        },
    )

__all__ = [
    "DURABILITIES",
    "Durability",
    "MemoryStore",
    "SqliteStore",
    "check_file",
    "copy_file",
    "repair_file",
]
