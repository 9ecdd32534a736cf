"""Stores of a corpus: in memory, in a file, on a PostgreSQL server, or made of functions."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.stores.function_store import FunctionStore
    from airw.stores.memory.store import MemoryStore
    from airw.stores.postgres.addresses import (
        check_corpus_address,
        has_password,
        hide_password,
        is_server_address,
        refuse_mistaken_address,
        refuse_password,
        split_corpus,
    )
    from airw.stores.postgres.store import PostgresStore
    from airw.stores.sqlite.durability import DURABILITIES, Durability
    from airw.stores.sqlite.files import check_file, copy_file, replace_file
    from airw.stores.sqlite.store import SqliteStore
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "function_store": ["FunctionStore"],
            "memory.store": ["MemoryStore"],
            "postgres.addresses": [
                "check_corpus_address",
                "has_password",
                "hide_password",
                "is_server_address",
                "refuse_mistaken_address",
                "refuse_password",
                "split_corpus",
            ],
            "postgres.store": ["PostgresStore"],
            "sqlite.durability": ["DURABILITIES", "Durability"],
            "sqlite.files": ["check_file", "copy_file", "replace_file"],
            "sqlite.store": ["SqliteStore"],
        },
    )

__all__ = [
    "DURABILITIES",
    "Durability",
    "FunctionStore",
    "MemoryStore",
    "PostgresStore",
    "SqliteStore",
    "check_corpus_address",
    "check_file",
    "copy_file",
    "has_password",
    "hide_password",
    "is_server_address",
    "refuse_mistaken_address",
    "refuse_password",
    "replace_file",
    "split_corpus",
]
