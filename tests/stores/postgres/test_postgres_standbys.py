"""Standby servers: they are read by their own address, and may take over."""

import anyio
import pytest

from airw.corpora import build, open_corpus
from airw.errors import StoreError
from airw.protocols import ArtifactIds, Change, Config, ask
from airw.sources import from_mapping
from airw.stores import PostgresStore
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]


@pytest.fixture(scope="module")
def primary():
    with PostgresServer() as server:
        yield server


async def wait_until_equal(primary, standby):
    """Wait until a standby has all changes of its primary."""
    [row] = await primary.fetch("SELECT pg_current_wal_lsn() AS position")
    is_equal = "SELECT pg_last_wal_replay_lsn() >= $1 AS is_equal"
    with anyio.fail_after(30):
        while not (await standby.fetch(is_equal, row["position"]))[0]["is_equal"]:  # noqa: ASYNC110 - the server sends no event
            await anyio.sleep(0.01)


async def test_the_address_of_a_standby_opens_a_corpus_that_can_only_be_read(primary):
    texts = from_mapping({"keys": "rotate the keys", "bread": "bake the bread"}, name="notes", embedder="light")
    with PostgresServer(copy_of=primary) as standby:
        async with build(texts, store=f"{primary.dsn()}#notes"):
            pass
        await wait_until_equal(primary, standby)
        async with open_corpus(f"{standby.dsn()}#notes") as corpus:
            assert [hit.artifact_id for hit in await corpus.search("keys", k=1)] == ["keys"]
            for change in (corpus.upsert({"tea": "boil water"}), corpus.delete(["keys"])):
                with pytest.raises(StoreError, match=r"cannot be written here .* connect to the primary server"):
                    await change
            assert await ask(corpus.store, ArtifactIds()) == ["bread", "keys"]


async def test_a_standby_that_takes_over_is_found_among_several_hosts():
    with PostgresServer() as primary, PostgresServer(copy_of=primary) as standby:
        both = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
        async with PostgresStore(both, "moved") as store:
            await store.apply(Change(config={"a": 1}))
            await wait_until_equal(primary, standby)
            primary.kill()
            async with anyio.create_task_group() as group:
                group.start_soon(ask, store, Config())  # it waits a little for the next primary
                await anyio.sleep(0.3)
                await standby.execute("SELECT pg_promote()")
            assert await ask(store, Config()) == {"a": 1}
            await store.apply(Change(config={"a": 2}))
            assert await ask(store, Config()) == {"a": 2}
