"""Words on a PostgreSQL server: the records, order and scores of a file, to the last bit."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings

from airw.errors import ArgumentError
from airw.protocols import Change, Rank, TextLanguage, Words, ask
from airw.stores import PostgresStore, SqliteStore
from airw.testing.changes import put
from airw.values import TermCounts
from tests.support.drawing import examples
from tests.support.postgres import drop_corpus, fresh_name, fresh_store, server_dsn
from tests.support.text_histories import SCOPES, STEPS, expect_same_words, replay

pytestmark = pytest.mark.asyncio_only


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(steps=STEPS, scope=SCOPES)
def test_words_rank_as_in_a_file_after_any_history(steps, scope):
    async def main(folder):
        async with SqliteStore(folder / "words.airw") as file, fresh_store() as server:
            await replay(steps, [file, server])
            await expect_same_words(file, server, scope)

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, Path(folder))


@pytest.mark.slow
async def test_a_search_while_others_write_finds_whole_states():
    """The names of records are read after their words; others may remove a record in between."""
    async with fresh_store() as store:
        await store.apply(Change([put(f"a{at}", "keys " * (1 + at % 3)) for at in range(30)]))
        done = anyio.Event()

        async def search():
            while not done.is_set():
                [ranking] = await ask(store, Rank(["keys"], 100))
                assert len(ranking) == 30
                assert len({*ranking.artifact_ids}) == 30

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(search)
            for turn in range(40):
                await store.apply(Change([put(f"a{at}", "keys " * (1 + turn % 5)) for at in range(turn % 7, 30, 7)]))
            done.set()


@pytest.mark.slow
async def test_another_store_sees_a_new_language_at_its_next_call():
    name = fresh_name()
    async with PostgresStore(server_dsn(), name, language=None) as store:
        await store.apply(Change([put("a", "signing keys"), put("b", "")]))
        async with await PostgresStore.open(server_dsn(), name) as other:
            assert [each.artifact_ids for each in await ask(other, Rank(["sign the key"], 9))] == [[]]
            await store.apply(Change(language="en"))
            assert await ask(other, TextLanguage()) == "en"
            assert [each.artifact_ids for each in await ask(other, Rank(["sign the key"], 9))] == [["a"]]
            counts = await ask(other, Words(["key"]))
        assert (counts.records, counts.words, counts.frequencies) == (2, 2, {"kei": 1})
        with pytest.raises(ArgumentError, match="language must be 'en', or None"):
            await store.apply(Change(language="de"))
        with pytest.raises(ArgumentError, match="no count of the word 'lock'"):
            await ask(store, Rank(["lock"], 5, statistics=counts))
        with pytest.raises(ArgumentError, match="of the formula 'tf-idf'"):
            await ask(store, Rank(["key"], 5, statistics=TermCounts("tf-idf", 1, 1, {"key": 1})))
    await drop_corpus(server_dsn(), name)
