"""Copies between files and servers are equal, and whole or absent at every moment."""

import contextlib

import anyio
import numpy as np
import pytest

from airw.corpora import build, copy_corpus, home, locate, open_corpus, register, restore_corpus
from airw.errors import ArgumentError, CorpusNotFound, StoreBusy, StoreError
from airw.protocols import ArtifactIds, Artifacts, Calibrations, Change, Config, TextLanguage, ask
from airw.sources import from_mapping
from airw.stores import PostgresStore, SqliteStore
from airw.testing._store_tools import artifacts_with_names, describe, diverse_artifacts, read_all, requests_about
from airw.testing.changes import put
from tests.support.postgres import fresh_name, get_server, server_dsn

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

SETTINGS = {"name": "notes", "embedder": "light", "embedder_id": "e", "dim": 8, "own": {"nested": [1, None, "é"]}}
CALIBRATIONS = {"hybrid": {"min_score": 0.25, "k": 3}, "built dense": {"weights": {"dense": 1.5}}}


def artifacts():
    names = {change.entry.artifact_id: change for change in artifacts_with_names()}
    others = [change for change in diverse_artifacts() if change.entry.artifact_id not in names]
    # A server keeps ids of up to 2,000 bytes.
    return [change for change in (*others, *names.values()) if len(change.entry.artifact_id.encode()) <= 2_000]


@contextlib.asynccontextmanager
async def new_name():
    name = fresh_name("copy")
    try:
        yield name
    finally:
        for each in await PostgresStore.list_corpora(server_dsn()):
            if each.startswith(name):
                await PostgresStore.remove(server_dsn(), each)


@pytest.fixture
async def name():
    async with new_name() as name:
        yield name


async def fill(store):
    await store.apply(Change(artifacts()))
    await store.apply(Change(config=SETTINGS))
    for key, value in CALIBRATIONS.items():
        await store.apply(Change(calibrations={key: value}))


async def answers(store):
    """Return what a store answers to requests of all kinds about all artifacts, by request."""
    requests = requests_about(artifacts())
    found = await read_all(store, requests)
    return {f"{place} {describe(request)}": found[place] for place, request in enumerate(requests)}


def assert_equal(ours, theirs, *, exactly):
    assert ours.keys() == theirs.keys()
    for request in ours:
        if exactly or "Rank(" not in request:
            np.testing.assert_equal(ours[request], theirs[request], err_msg=request)


async def contents(store):
    async with store.snapshot() as content:
        changes = await ask(content, Artifacts(await ask(content, ArtifactIds())))
        return await content.read(Config(), Calibrations(), TextLanguage()), [
            (c.entry, list(c.records), np.asarray(c.vectors).tobytes(), c.extraction) for c in changes
        ]


@pytest.mark.parametrize("language", ["en", None])
async def test_a_copy_to_a_server_and_back_equals_the_first_file_in_every_method(name, language, tmp_path):
    first, back = tmp_path / "notes.airw", tmp_path / "back.airw"
    async with SqliteStore(first, language=language) as store:
        await fill(store)
        before, content = await answers(store), await contents(store)
    address = f"{server_dsn()}#{name}"
    assert str(await copy_corpus(first, address)) == address
    async with await PostgresStore.open(server_dsn(), name) as store:
        assert_equal(await answers(store), before, exactly=False)
        assert await contents(store) == content
    assert await copy_corpus(address, back) == back
    async with await SqliteStore.open(back) as store:
        assert_equal(await answers(store), before, exactly=True)
        assert await contents(store) == content


async def test_a_copy_from_a_server_to_a_server_is_equal(name):
    async with PostgresStore(server_dsn(), name, language=None) as store:
        await fill(store)
        before = await contents(store)
    other = f"{name}.other"
    await copy_corpus(f"{server_dsn()}#{name}", f"{server_dsn()}#{other}")
    async with await PostgresStore.open(server_dsn(), other) as store:
        assert await contents(store) == before


async def test_a_target_that_exists_is_replaced_only_on_request(name, tmp_path):
    source, address = from_mapping({"a": "signing keys"}, name="notes"), f"{server_dsn()}#{name}"
    async with (
        build(source, store=tmp_path / "a.airw", embedder="light"),
        build(from_mapping({"b": "bread"}, name=name), store=address, embedder="light") as old,
    ):
        with pytest.raises(StoreError, match="exists; pass replace=True"):
            await copy_corpus(tmp_path / "a.airw", address)
        with pytest.raises(ArgumentError, match="same corpus"):
            await copy_corpus(address, address, replace=True)
        assert await ask(old.store, ArtifactIds()) == ["b"]
        await copy_corpus(tmp_path / "a.airw", address, replace=True)
        # A store that is open goes on with the new corpus.
        assert await ask(old.store, ArtifactIds()) == ["a"]
        assert [hit.artifact_id for hit in await old.search("keys")] == ["a"]
    with pytest.raises(CorpusNotFound):
        await copy_corpus(f"{server_dsn()}#{name}.none", tmp_path / "none.airw")
    assert not list(tmp_path.glob("none*"))


async def test_a_copy_that_fails_or_is_cancelled_leaves_the_target_as_it_was(name, tmp_path, monkeypatch):
    address = f"{server_dsn()}#{name}"
    many = from_mapping({f"n{number:04}": f"text {number}" for number in range(2_000)}, name=name)
    async with build(many, store=tmp_path / "a.airw", embedder="light"):
        pass
    async with build(from_mapping({"b": "bread"}, name=name), store=address, embedder="light"):
        pass
    seconds, cancelled = 0.02, 0
    while True:
        with anyio.move_on_after(seconds) as scope:
            await copy_corpus(tmp_path / "a.airw", address, replace=True)
        async with open_corpus(address) as corpus:
            ids = await ask(corpus.store, ArtifactIds())
        if not scope.cancelled_caught:
            break
        assert ids == ["b"] or len(ids) == 2_000  # cancelled after the last step
        seconds, cancelled = 1.5 * seconds, cancelled + 1
    assert (len(ids), cancelled > 2) == (2_000, True)
    schemas = await get_server().fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'airw%~%'")
    assert not schemas
    target = tmp_path / "back.airw"
    async with PostgresStore(server_dsn(), name).writing():
        with pytest.raises(StoreBusy):
            async with PostgresStore(server_dsn(), name).writing(timeout=0.05):
                pass
        # Reading a corpus needs no lock.
        await copy_corpus(address, target)
    assert target.exists()
    assert not list(tmp_path.glob("*partial*"))


async def test_what_a_killed_copy_left_is_replaced_and_never_listed(name, tmp_path):
    from airw.stores.postgres._copying import name_copy

    async with SqliteStore(tmp_path / "a.airw") as store:
        await store.apply(Change([put("a", "text")]))
    async with PostgresStore(server_dsn(), name_copy(name)) as left:
        await left.apply(Change([put("left", "text")]))
    assert not [each for each in await PostgresStore.list_corpora(server_dsn()) if "~" in each]
    await copy_corpus(tmp_path / "a.airw", f"{server_dsn()}#{name}")
    async with await PostgresStore.open(server_dsn(), name) as store:
        assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_copy_shows_one_moment_while_others_write(name, tmp_path):
    async with PostgresStore(server_dsn(), name) as store:
        await store.apply(Change([put(f"n{number:04}", f"text {number}") for number in range(600)]))
        async with store.snapshot() as content:
            ids = await ask(content, ArtifactIds())
            first = await ask(content, Artifacts(ids[:256]))
            await store.apply(Change(removals=ids))
            rest = await ask(content, Artifacts(ids[256:]))
    assert len(first) + len(rest) == 600
    assert all(change.records for change in rest)


async def test_a_corpus_is_restored_where_its_name_leads(name, tmp_path):
    await register(name, "notes", root=tmp_path, embedder="light", store=server_dsn())
    async with build(from_mapping({"a": "signing keys"}, name="notes"), store=tmp_path / "a.airw", embedder="light"):
        pass
    assert await restore_corpus(name, tmp_path / "a.airw") == locate(name).place
    async with open_corpus(name) as corpus:
        assert (corpus.name, await ask(corpus.store, ArtifactIds())) == (name, ["a"])
        await corpus.delete(["a"])
    backup = await copy_corpus(name, f"{server_dsn()}#{name}.backup")
    await restore_corpus(name, str(backup))
    await restore_corpus("local", f"{server_dsn()}#{name}")
    async with open_corpus(home() / "corpora" / "local.airw") as corpus:
        assert await ask(corpus.store, ArtifactIds()) == []
