"""Rows that airw never writes: each call answers, or names the corpus in one line."""

import asyncpg
import numpy as np
import pytest

from airw.errors import StoreCorrupt, StoreError
from airw.protocols import (
    ArtifactIds,
    Artifacts,
    Best,
    Calibrations,
    Change,
    Config,
    Counts,
    Edges,
    Ends,
    Fed,
    IngestRun,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Schema,
    Stale,
    TextLanguage,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    Words,
    ask,
)
from airw.stores import PostgresStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record
from tests.support.postgres import fresh_store, server_dsn

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

QUERY = np.eye(1, 4, dtype=np.float32)
RUN = IngestRun("run", "mark", {})


def change(name, links=("b",)):
    records = [Record(Record.make_id(name, "document", i), name, "document", i, f"red {name} text") for i in range(2)]
    extraction = Extraction([Link(target) for target in links], [[f"name of {name}"]])
    return ArtifactChange(LedgerEntry(name, "v1", "e", "s"), records, np.eye(2, 4, dtype=np.float32), extraction)


def nullable(table, column):
    """Statements that put NULL into a column."""
    return f"ALTER TABLE {table} ALTER {column} DROP NOT NULL; UPDATE {table} SET {column} = NULL"


# Statements by what they damage; each is noticed by some call as `StoreCorrupt`.
DAMAGED = {
    "text_of_no_encoding": r"UPDATE record SET text = '\xff'",
    "text_missing": nullable("record", "text"),
    "kind_missing": nullable("record", "kind"),
    "kind_a_number": "ALTER TABLE record ALTER kind TYPE integer USING 7",
    "index_missing": nullable("record", "idx"),
    "index_a_text": "ALTER TABLE record ALTER idx TYPE text",
    "metadata_missing": nullable("record", "metadata"),
    "metadata_a_list": "UPDATE record SET metadata = '[1]'",
    "metadata_no_json": "ALTER TABLE record ALTER metadata TYPE text; UPDATE record SET metadata = '{'",
    "metadata_two_values": "ALTER TABLE record ALTER metadata TYPE text; UPDATE record SET metadata = '{},{}'",
    "metadata_bytes": r"ALTER TABLE record ALTER metadata TYPE bytea USING '\x7b7d'",
    "metadata_deep": "UPDATE record SET metadata = (repeat('[', 5000) || repeat(']', 5000))::json",
    "version_a_number": "ALTER TABLE artifact ALTER version TYPE integer USING 1",
    "source_missing": nullable("artifact", "source"),
    "settings_missing": nullable("setting", "value"),
    "settings_lists": "UPDATE setting SET value = '[1]'",
    "settings_with_other_keys": "UPDATE setting SET key = E'\\x01z' WHERE kind = 'config'",
    "run_without_row": """UPDATE setting SET value = '{"mark": "mark"}' WHERE kind LIKE 'run %'""",
    "run_with_a_list": """UPDATE setting SET value = '{"mark": "mark", "row": [], "last_number": []}'
        WHERE kind LIKE 'run %'""",
    "language_unknown": "UPDATE texts SET language = 'xx', records = -1",
    "totals_negative": "UPDATE texts SET records = -1, words = -5",
    "totals_absurd": "UPDATE texts SET records = 9000000000000000000",
    "count_missing": nullable("posting", "count"),
    "totals_small": "UPDATE texts SET records = 1",
    "totals_missing": nullable("texts", "words"),
    "no_words": "UPDATE texts SET words = 0",
    "texts_gone": "DELETE FROM texts",
    "vectors_missing": nullable("embedding", "value"),
    "vectors_unlike": "UPDATE embedding SET value = '[1,2]' WHERE artifact_id = 'b'",
    "vector_index_missing": nullable("embedding", "idx"),
    "vector_name_missing": nullable("embedding", "record_id"),
    "link_type_missing": nullable("link", "type"),
    "link_weight_absurd": "ALTER TABLE link DROP CONSTRAINT link_weight_check; UPDATE link SET weight = 'NaN'",
}
# What a statement of the server notices; these say so as any `StoreError`.
TABLES = ("setting", "artifact", "record", "embedding", "posting", "texts", "link", "name")
REFUSED = {f"without_{table}": f"DROP TABLE {table}" for table in TABLES} | {
    "vectors_of_text": "ALTER TABLE embedding ALTER value TYPE text",
    "without_column": "ALTER TABLE record DROP text",
    "names_of_no_tier": nullable("name", "tier"),
}


async def read_content(store):
    async with store.snapshot() as content:
        await ask(content, Artifacts(await ask(content, ArtifactIds())))
        await content.read(Config(), Calibrations(), TextLanguage())


def make_chain(ids):
    edges = Edges(ids)
    best = Fed(Rank(QUERY, per_artifact=True, among=()), Ends(edges))
    return edges, best, Fed(Records(()), Best(best, limit=2)), Fed(VectorsOf(()), Ends(edges))


def list_calls(store):
    """Every call of the store; the last ones write."""
    ids, records = ["a", "b"], [Record.make_id("a", "document", 0)]
    return {
        "get_records": lambda: ask(store, Records(records)),
        "records_of": lambda: ask(store, RecordsOf(ids)),
        "records_of_some": lambda: ask(store, RecordsOf(ids, limit=1)),
        "ledger": lambda: ask(store, Ledger(ids)),
        "ledger_of_all": lambda: ask(store, Ledger()),
        "find_changed": lambda: ask(store, Stale({"a": "v1"}, LedgerEntry("", "", "e", "s"))),
        "artifact_ids": lambda: ask(store, ArtifactIds()),
        "counts": lambda: ask(store, Counts()),
        "schema": lambda: ask(store, Schema(["x"])),
        "matching": lambda: ask(store, Matching([("x", 1)])),
        "config": lambda: ask(store, Config()),
        "calibrations": lambda: ask(store, Calibrations()),
        "read_run": lambda: store.read_run(RUN),
        "search_vectors": lambda: ask(store, Rank(QUERY, 3)),
        "search_artifacts": lambda: ask(store, Rank(QUERY, 3, per_artifact=True)),
        "artifacts": lambda: ask(store, Rank(QUERY, among=ids, per_artifact=True)),
        "records": lambda: ask(store, Rank(QUERY, records=records)),
        "vectors": lambda: ask(store, Vectors(records)),
        "vectors_of": lambda: ask(store, VectorsOf(ids)),
        "search_text": lambda: ask(store, Rank(["red text"], 3)),
        "term_statistics": lambda: ask(store, Words(["red"])),
        "language": lambda: ask(store, TextLanguage()),
        "neighbors": lambda: ask(store, Edges(ids, "both")),
        "chain": lambda: store.read(*make_chain(ids)),
        "resolve": lambda: ask(store, Names(["a", "name of b"])),
        "referrers": lambda: ask(store, Referrers(ids)),
        "max_fan_in": lambda: ask(store, MaxFanIn()),
        "unresolved_links": lambda: ask(store, UnresolvedLinks()),
        "link_counts": lambda: ask(store, LinkCounts()),
        "snapshot": lambda: read_content(store),
        "describe_index": store.describe_index,
        "apply_part": lambda: store.apply_part(RUN, 1, {}, [change("c")]),
        "apply": lambda: store.apply(Change([change("a", ["c"])], removals=["b"])),
        "set_config": lambda: store.apply(Change(config={})),
        "set_language": lambda: store.apply(Change(language=None)),
        "forget_run": lambda: store.forget_run(RUN),
    }


async def run_statement(store, statement):
    connection = await asyncpg.connect(server_dsn())
    try:
        path = await connection.fetchval(
            "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = $1", "vector"
        )
        await connection.execute(f'SET search_path = "{store._database.schema}", {path}; {statement}')
    finally:
        await connection.close()


async def collect_errors(store, statement):
    """Return the error of each call on a damaged corpus."""
    await store.apply(Change([change("a"), change("b", ["nowhere", "a"])]))
    await store.apply(Change(config={"a": 1}))
    await store.begin_run(RUN, {})
    await run_statement(store, statement)
    errors = {}
    for name, call in list_calls(store).items():
        try:
            await call()
        except StoreError as error:
            text = str(error)
            assert repr(store._database.schema.removeprefix("airw_")) in text, (name, text)
            assert text.isprintable(), (name, text)
            assert len(text) < 500, (name, text)
            errors[name] = error
    return errors


@pytest.mark.parametrize("damage", DAMAGED)
async def test_damaged_rows_are_named_with_the_corpus(damage):
    async with fresh_store() as store:
        errors = await collect_errors(store, DAMAGED[damage])
        assert any(isinstance(error, StoreCorrupt) for error in errors.values()), errors


@pytest.mark.parametrize("damage", REFUSED)
async def test_damaged_tables_are_named_with_the_corpus(damage):
    async with fresh_store() as store:
        assert await collect_errors(store, REFUSED[damage])


@pytest.mark.parametrize("mark", ["0", "-1", "01", "²", "9" * 5000])
async def test_only_a_known_format_is_a_corpus(mark):
    async with fresh_store() as store:
        name = store._database.schema.removeprefix("airw_")
        await run_statement(store, f"COMMENT ON SCHEMA airw_{name} IS 'airw corpus, format {mark}'")
        with pytest.raises(StoreCorrupt, match="is not a corpus"):
            await PostgresStore.open(server_dsn(), name)
