"""What a copy of a corpus is called until it takes its place."""

import pytest

from airw.errors import ArgumentError, CorpusNotFound
from airw.stores import PostgresStore
from airw.stores.postgres._copying import name_copy
from airw.stores.postgres._schema import schema_of
from tests.support.postgres import fresh_name, server_dsn

pytestmark = [pytest.mark.asyncio_only]


def test_each_corpus_has_a_copy_whose_name_no_other_corpus_can_have():
    for name in ("notes", "é" * 29, "a" * 58, "𝄞" * 14):
        assert schema_of(name_copy(name)) != schema_of(name)
    for name in ("~", "a~b", "~01234567", "a~b~01234567"):
        with pytest.raises(ArgumentError, match="without NUL and ~"):
            schema_of(name)


@pytest.mark.slow
async def test_what_a_killed_copy_left_is_removed_with_or_without_its_corpus():
    for has_corpus in (True, False):
        name = fresh_name("é" * 25)
        async with PostgresStore(server_dsn(), name_copy(name)):
            pass
        if has_corpus:
            async with PostgresStore(server_dsn(), name):
                pass
        await PostgresStore.remove(server_dsn(), name)
        assert not await PostgresStore(server_dsn(), name_copy(name)).exists()
        with pytest.raises(CorpusNotFound):
            await PostgresStore.remove(server_dsn(), name)
