"""The pool of a store on a server while the store closes."""

import asyncio
from functools import partial

import anyio
import pytest

from airw.errors import StoreError
from airw.protocols import Change, Config, ask
from airw.stores.postgres import _database
from tests.support.postgres import fresh_store

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]


async def test_a_store_closed_while_a_call_connects_writes_no_more(monkeypatch):
    connecting, connect = asyncio.Event(), _database.connect

    async def connect_slowly(*arguments):
        connecting.set()
        await anyio.sleep(0.1)
        return await connect(*arguments)

    async with fresh_store(max_connections=2) as store, asyncio.TaskGroup() as group:
        started = asyncio.Event()
        group.create_task(_error_of(store._database.read(partial(_doze, started))))
        await started.wait()
        monkeypatch.setattr(_database, "connect", connect_slowly)
        writing = group.create_task(_error_of(store.apply(Change(config={"a": 1}))))
        await connecting.wait()
        await store.aclose()
        assert str(await writing).endswith("is closed; open it again")
        async with store:
            assert await ask(store, Config()) == {}


async def _doze(started, connection):
    started.set()
    await connection.execute("SELECT pg_sleep(1)")


async def _error_of(call):
    with pytest.raises(StoreError) as caught:
        await call
    return caught.value
