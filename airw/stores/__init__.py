"""Stores of a corpus: in memory, in a file, on a PostgreSQL server, or made of functions."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.stores.function_store import FunctionStore as FunctionStore
    from airw.stores.memory.store import MemoryStore as MemoryStore
    from airw.stores.own_store import OwnStore as OwnStore, Wrapper as Wrapper
    from airw.stores.postgres.addresses import (
        check_corpus_address as check_corpus_address,
        has_password as has_password,
        hide_password as hide_password,
        is_server_address as is_server_address,
        refuse_mistaken_address as refuse_mistaken_address,
        refuse_password as refuse_password,
        split_corpus as split_corpus,
    )
    from airw.stores.postgres.store import PostgresStore as PostgresStore
    from airw.stores.sqlite.durability import DURABILITIES as DURABILITIES, Durability as Durability
    from airw.stores.sqlite.files import check_file as check_file, copy_file as copy_file, replace_file as replace_file
    from airw.stores.sqlite.store import SqliteStore as SqliteStore
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
