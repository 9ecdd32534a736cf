"""What a role that owns a corpus can do to others who use it, and what it gives to them."""

from pathlib import Path

import numpy as np
import pytest

from airw.errors import CorpusNotFound, StoreError
from airw.protocols import ArtifactIds, Change, Rank, ask
from airw.stores import PostgresStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.support.postgres import PostgresServer, drop_corpus, fresh_name

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

DOCUMENT = Path(__file__).parents[3] / "docs" / "postgres.md"


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
async def ada(server):
    """The address of a role that makes corpora."""
    await server.execute("CREATE EXTENSION vector; CREATE ROLE ada LOGIN; GRANT CREATE ON DATABASE postgres TO ada")
    return server.dsn(user="ada")


async def run_as(dsn, *statements):
    """Run statements."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def change(id):
    """An artifact of one record."""
    record = Record(Record.make_id(id, "document", 0), id, "document", 0, "sign the keys")
    return ArtifactChange(LedgerEntry(id, "v1", "e", "s"), [record], np.eye(1, 8, dtype=np.float32))


RIGHTS = """
SELECT relname, relowner::regrole::text, relacl::text FROM pg_class
WHERE relnamespace = '{0}'::regnamespace AND relkind IN ('r', 'S') UNION ALL
SELECT nspname, nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE nspname = '{0}' ORDER BY 1"""


async def test_a_corpus_that_is_replaced_keeps_its_owner_and_rights(server, ada):
    name = fresh_name()
    schema = f"airw_{name}"
    await server.execute('CREATE ROLE "the reader" LOGIN; CREATE ROLE former LOGIN')
    async with PostgresStore(ada, name) as store:
        await store.apply(Change([change("old")]))
    await server.execute(
        f'GRANT USAGE ON SCHEMA {schema} TO "the reader" WITH GRANT OPTION;'
        f'GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO "the reader"; GRANT SELECT ON {schema}.record TO PUBLIC;'
        f'GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO "the reader";'
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO former"
    )
    before = await server.fetch(RIGHTS.format(schema))
    try:
        async with PostgresStore.replace_corpus(server.dsn(), name, replace=True) as new:
            await new.apply(Change([change("new")]))
        assert await server.fetch(RIGHTS.format(schema)) == before
        async with await PostgresStore.open(server.dsn(user="the%20reader"), name) as store:
            assert await ask(store, ArtifactIds()) == ["new"]
        async with PostgresStore.replace_corpus(ada, name, replace=True):
            pass
        assert await server.fetch(RIGHTS.format(schema)) == before
    finally:
        await server.execute("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM former")
        await drop_corpus(server.dsn(), name)


async def test_the_documented_rights_suffice(server):
    roles = DOCUMENT.read_text(encoding="utf-8").partition("## Roles")[2]
    statements = roles.partition("```sql")[2].partition("```")[0]
    assert "`INSERT`, `UPDATE` and `DELETE`\non its tables, and `USAGE` and `UPDATE` on its sequence" in roles
    await server.execute("CREATE DATABASE kb")
    await run_as(server.dsn("kb"), "CREATE EXTENSION vector; CREATE ROLE kb_writer LOGIN", statements)
    builder, reader, writer = (server.dsn("kb", user=f"kb_{role}") for role in ("builder", "reader", "writer"))
    async with PostgresStore(builder, "shared") as store:
        await store.apply(Change([change("a")]))
    await run_as(
        builder,
        "GRANT USAGE ON SCHEMA airw_shared TO kb_writer; GRANT USAGE, UPDATE ON SEQUENCE airw_shared.record_number"
        " TO kb_writer; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA airw_shared TO kb_writer",
    )
    await run_as(server.dsn("kb"), "GRANT CONNECT ON DATABASE kb TO kb_writer")
    async with await PostgresStore.open(writer, "shared") as store, store.writing():
        await store.apply(Change([change("b")], removals=["a"]))
        await store.apply(Change(language=None))
        await store.apply(Change(config={"a": 1}))
    async with await PostgresStore.open(reader, "shared") as store:
        assert await ask(store, ArtifactIds()) == ["b"]
        assert (await ask(store, Rank(["keys"], 3)))[0].record_ids
        with pytest.raises(StoreError, match="this role may not do that"):
            await store.apply(Change([change("c")]))


async def test_a_schema_made_for_a_role_becomes_its_corpus(server, ada):
    name = fresh_name()
    await server.execute("CREATE ROLE guest LOGIN")
    guest = server.dsn(user="guest")
    with pytest.raises(StoreError, match="this role may not create a schema; the owner") as error:
        await PostgresStore.open(guest, name, create=True)
    statement = str(error.value).partition("runs: ")[2].partition(",")[0]
    await server.execute(statement.replace("this_role", "guest"))
    try:
        with pytest.raises(CorpusNotFound):
            await PostgresStore.open(guest, name)
        assert not await PostgresStore(guest, name).exists()
        async with PostgresStore(guest, name) as store:
            await store.apply(Change([change("a")]))
        with pytest.raises(StoreError, match="GRANT CREATE ON DATABASE postgres TO this_role") as error:
            async with PostgresStore.replace_corpus(guest, name, replace=True):
                pytest.fail("the block must not run")
        assert "~" not in str(error.value)
        await server.execute(f"GRANT USAGE ON SCHEMA airw_{name} TO ada")
        with pytest.raises(StoreError, match="is of the role guest, so this one may not replace it"):
            async with PostgresStore.replace_corpus(ada, name, replace=True):
                pytest.fail("the block must not run")
    finally:
        await drop_corpus(server.dsn(), name)
