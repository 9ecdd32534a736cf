"""Words on a PostgreSQL server: the records, order and scores of a file, to the last bit."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings

from airw.errors import ArgumentError, StoreError
from airw.protocols import Change, Counts, Edges, Rank, TextLanguage, Words, ask
from airw.stores import MemoryStore, PostgresStore, SqliteStore
from airw.testing.changes import put
from airw.values import Contains, Link, TermCounts
from tests.support.drawing import examples
from tests.support.postgres import drop_corpus, fresh_name, fresh_store, get_server, server_dsn
from tests.support.relay import PostgresRelay
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
async def test_beginnings_of_very_long_words_are_found_and_digests_of_them_are_not():
    letters = "0123456789abcdef"
    terms = [
        "ab*",
        "ab" + "y" * 498 + "*",
        *(f"{one}{two}*" for one in letters for two in letters if one + two != "ab"),
    ]
    async with fresh_store() as store:
        await store.apply(Change([put("long", "ab" + "y" * 600)]))
        found = [await ask(store, Rank(["other"], 9, contains=Contains((term,)))) for term in terms]
        assert [[*ranking.artifact_ids] for [ranking] in found] == [["long"]] * 2 + [[]] * 255


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
            async with other.snapshot() as content:
                assert (await ask(content, Rank(["keys"], 9)))[0].artifact_ids == ["a"]
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


async def test_a_search_costs_a_round_trip_if_nothing_has_changed():
    async with PostgresRelay(get_server()).run() as relay, fresh_store(relay.dsn(), max_connections=1) as store:
        await store.apply(Change([put("a", "signing keys"), put("b", "other keys")]))
        costs = []
        for _ in range(8):
            before = relay.questions
            await ask(store, Rank(["keys", "other things"], 3))
            costs.append(relay.questions - before)
        await store.apply(Change([put("c", "new keys")]))
        before = relay.questions
        assert len((await ask(store, Rank(["keys", "other things"], 3)))[0]) == 3
        assert (costs[-1], relay.questions - before) == (1, 2)


FORMER_TABLES = """
    DROP TABLE posting, texts;
    CREATE TABLE posting (code integer, run bigint, part integer, directory bytea, entries bytea);
    CREATE TABLE text_run (first bigint, last bigint, records bigint, words bigint, pairs bigint, depth integer);
    INSERT INTO setting VALUES ('language', '', '{value}');
    ALTER TABLE record DROP length;
    UPDATE record SET fields = metadata::jsonb;
    ALTER TABLE link ALTER is_covered DROP EXPRESSION;
    COMMENT ON SCHEMA {schema} IS 'airw corpus, format 1'"""


async def make_former(name, value):
    """Make the tables of a corpus those of format 1."""
    statement = FORMER_TABLES.format(value=value, schema=f'"airw_{name}"')
    await get_server().execute(f'SET search_path = "airw_{name}"; {statement}')


@pytest.mark.slow
async def test_a_corpus_of_the_first_format_stays_closed_for_a_role_that_cannot_bring_it_up_to_date():
    server, name = get_server(), fresh_name()
    async with PostgresStore(server_dsn(), name) as store:
        await store.apply(Change([put("a", "keys")]))
    await make_former(name, '"en, words with marks"')
    await server.execute(
        f"CREATE ROLE {name}_reader LOGIN; GRANT USAGE ON SCHEMA airw_{name} TO {name}_reader;"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA airw_{name} TO {name}_reader"
    )
    reader = PostgresStore(server.dsn(user=f"{name}_reader"), name)
    for _ in range(2):
        with pytest.raises(StoreError, match="may not"):
            await reader.__aenter__()
    await drop_corpus(server_dsn(), name)


async def test_beginnings_find_words_of_any_length():
    long = "ab" * 300
    async with fresh_store() as store, MemoryStore() as other:
        for each in (store, other):
            await each.apply(Change([put("a", f"{long} key"), put("b", "abide key"), put("c", "key")]))
        for letters in ("a", "aba", "ab" * 100, *"0123456789cdef"):
            request = Rank(["key"], None, contains=Contains((f"{letters}*",)))
            rankings = [(await ask(each, request))[0] for each in (store, other)]
            assert rankings[0].record_ids == rankings[1].record_ids, letters
            assert rankings[0].scores.tolist() == rankings[1].scores.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "value"), [("en", '"en, words with marks"'), (None, '"words with marks"'), ("unicode61", "null")]
)
async def test_a_corpus_of_the_first_format_is_brought_up_to_date_when_it_is_opened(language, value):
    name, later = f"{fresh_name()}.of all", {"at": {"$gte": "2024-01-05T11:30:00+02:00"}}
    requests = (
        Rank(["signing key"], 9),
        Rank(["keys"], 9, filter=later),
        Words(["signing key"]),
        TextLanguage(),
        Edges(["a", "b"], "both"),
        Counts(),
    )

    def compare(answers):
        [ranking], [filtered], *others = answers
        assert filtered.artifact_ids == ["b"]
        return [ranking.record_ids, ranking.scores.tolist(), ranking.max_score, *others]

    async with PostgresStore(server_dsn(), name) as store:
        moment = {"at": "2024-01-05T10:00:00Z"}
        links = [Link("b"), Link("a"), Link("nowhere"), Link("x", target_source="else")]
        await store.apply(
            Change([put("a", "signing keys", "keys", links=links), put("b", "किताब keys", metadata=moment)])
        )
        await store.apply(Change(language=language))
        before = compare(await store.read(*requests))
    await make_former(name, value)
    role = fresh_name("reader")
    await get_server().execute(
        f'CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA "airw_{name}" TO {role}; '
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "airw_{name}" TO {role}'
    )
    reader = server_dsn().replace("postgres@", f"{role}@")
    assert reader != server_dsn()
    with pytest.raises(StoreError, match=r"earlier version of airw.*; open it once as its owner"):
        await PostgresStore.open(reader, name)
    for dsn in (server_dsn(), server_dsn(), reader):
        async with await PostgresStore.open(dsn, name) as store:
            assert compare(await store.read(*requests)) == before
    async with await PostgresStore.open(server_dsn(), name) as store:
        await store.apply(Change([put("b", "none")]))
        assert (await ask(store, Rank(["keys"], 9)))[0].artifact_ids == ["a", "a"]
        await store.apply(Change(removals=["a"]))
        assert await ask(store, Edges(["a", "b"], "both")) == [[], []]
    await drop_corpus(server_dsn(), name)
