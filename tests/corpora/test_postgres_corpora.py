"""Corpora on a real server, by address and by registered name: the same as in a file."""

import anyio
import pytest

import airw
from airw.corpora import (
    build,
    build_corpus,
    coverage,
    home,
    list_corpora,
    maintain,
    open_corpus,
    register,
    remove_corpus,
    retriever_for,
    retrievers,
)
from airw.discovery import discover
from airw.embedders import HashingEmbedder
from airw.errors import CorpusNotFound, EmbedderUnavailable, SourceError, StoreBusy, StoreError
from airw.protocols import Change, Config, Counts, Edges, ask
from airw.sources import from_mapping
from airw.stores import PostgresStore
from tests.support.postgres import fresh_name, get_server, server_dsn

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

TEXTS = {f"n{number}": f"note {number} about signing keys and bread" for number in range(24)}


@pytest.fixture
async def name():
    """The name of a corpus on the server, which is removed at the end if a test has built it."""
    name = fresh_name("corpus")
    yield name
    if await PostgresStore(server_dsn(), name).exists():
        await PostgresStore.remove(server_dsn(), name)


def source(name, texts=TEXTS):
    return from_mapping(texts, name=name)


async def schemas():
    rows = await get_server().fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'airw%'")
    return {row["nspname"] for row in rows}


async def test_a_corpus_is_built_opened_changed_and_removed_by_its_address(name):
    address = f"{server_dsn()}#{name}"
    async with build(source(name), store=server_dsn(), embedder="light") as corpus:
        assert (corpus.name, corpus.report.added) == (name, 24)
        async with build(source("file"), store=home() / "x.airw", embedder="light") as in_file:
            for mode in ("dense", "lexical", "hybrid"):
                ours, theirs = [await each.search("bread 7", k=5, mode=mode) for each in (corpus, in_file)]
                assert [hit.artifact_id for hit in ours] == [hit.artifact_id for hit in theirs]
                assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-6)
            walks = [[hit.artifact_id async for hit in airw.traverse("bread 7", each)] for each in (corpus, in_file)]
            assert walks[0] == walks[1]
    async with open_corpus(address) as corpus:
        assert (corpus.name, corpus.embedder.id) == (name, HashingEmbedder().id)
        report = await corpus.upsert({"new": "rotate the spare tyre"})
        assert (report.added, await corpus.delete(["n0", "n1"])) == (1, 2)
    assert [hit.artifact_id for hit in await airw.search(address, "tyre", k=1)] == ["new"]
    async with build(source(name), store=address, embedder="light") as corpus:
        assert (corpus.report.added, corpus.report.unchanged) == (2, 22)
    found = await discover([address], "rotate the spare tyre")
    assert list(found.signals["per_source"]) == [name]
    await remove_corpus(address)
    with pytest.raises(CorpusNotFound):
        await open_corpus(address)


async def test_opening_and_removing_a_missing_corpus_create_nothing(name):
    before = await schemas()
    for call in (open_corpus(f"{server_dsn()}#{name}"), remove_corpus(f"{server_dsn()}#{name}")):
        with pytest.raises(CorpusNotFound, match=name):
            await call
    assert await schemas() == before


class Failing(HashingEmbedder):
    async def embed_documents(self, texts):
        raise RuntimeError("no vectors today")


@pytest.mark.parametrize("fails", ["source", "embedder", "cancelled"])
async def test_a_first_build_that_wrote_nothing_leaves_no_schema(name, fails, tmp_path):
    before = await schemas()
    if fails == "cancelled":
        with anyio.move_on_after(0.3):
            await build(source(name), store=server_dsn(), embedder=Endless())
    else:
        broken = airw.sources.from_notes(tmp_path / "missing", name=name) if fails == "source" else source(name)
        embedder = Failing() if fails == "embedder" else "light"
        with pytest.raises((SourceError, RuntimeError, airw.errors.EmbedderError)):
            await build(broken, store=server_dsn(), embedder=embedder)
    assert await schemas() == before


class Endless(HashingEmbedder):
    async def embed_documents(self, texts):
        await anyio.sleep_forever()


async def test_a_build_that_fails_later_keeps_the_corpus(name):
    await (await build(source(name), store=server_dsn(), embedder="light")).aclose()
    with pytest.raises(SourceError):
        await build(source(name, {}), store=server_dsn(), embedder="light")
    async with open_corpus(f"{server_dsn()}#{name}") as corpus:
        assert (await ask(corpus.store, Counts()))["artifacts"] == 24


async def test_a_second_builder_of_the_same_corpus_waits(name, monkeypatch):
    store = PostgresStore(server_dsn(), name)
    async with store.writing():
        with anyio.move_on_after(0.5) as scope:
            await build(source(name), store=server_dsn(), embedder="light")
        assert scope.cancelled_caught
        with pytest.raises(StoreBusy):
            async with PostgresStore(server_dsn(), name).writing(timeout=0.1):
                pass
    async with build(source(name), store=server_dsn(), embedder="light") as corpus:
        assert corpus.report.added == 24


async def test_a_registered_name_leads_to_its_server_everywhere(name, tmp_path):
    (tmp_path / "a.md").write_text("rotate the signing keys, see [[b]]")
    (tmp_path / "b.md").write_text("bake a loaf of bread")
    await register(name, "notes", root=tmp_path, embedder="light", store=server_dsn())
    assert (await coverage(name)).missing == ("a.md", "b.md")
    with pytest.raises(CorpusNotFound):
        await open_corpus(name)
    [outcome] = (await maintain()).corpora
    assert (outcome.action, outcome.report.added) == ("built", 2)
    assert not (home() / "corpora").exists()
    async with open_corpus(name.upper()) as corpus:
        assert corpus.name == name
        assert "maintained" in await ask(corpus.store, Config())
        assert [(edge.source, edge.target) for [edge] in await ask(corpus.store, Edges(["a.md"]))] == [("a.md", "b.md")]
    (tmp_path / "b.md").unlink()
    async with build_corpus(name) as corpus:
        assert (corpus.report.unchanged, corpus.report.removed) == (1, 1)
    assert (await coverage(name)).ratio == 1
    async with retriever_for(name) as retriever, retrievers(mode="lexical") as known:
        assert [hit.source for hit in await retriever("keys")] == [name]
        assert [hit.artifact_id for hit in await known[name]("keys")] == ["a.md"]
    assert list(list_corpora()) == [name]


async def test_the_settings_on_a_server_are_the_word_of_a_stranger(name, monkeypatch):
    address = f"{server_dsn()}#{name}"
    await (await build(source(name), store=address, embedder="light")).aclose()
    async with await PostgresStore.open(server_dsn(), name) as store:
        await store.apply(Change(config={**await ask(store, Config()), "embedder": "http://10.0.0.1:1/v1#model"}))
    async with open_corpus(address) as corpus:
        assert [hit.artifact_id for hit in await corpus.search("7", mode="lexical", k=1)] == ["n7"]
        with pytest.raises(EmbedderUnavailable, match="which is not allowed here"):
            await corpus.search("bread")


async def test_an_embedder_named_in_a_build_is_remembered_for_a_server_too(name, tmp_path):
    spec = "http://10.0.0.1:1/v1#model"
    await (await build(source(name), store=server_dsn(), embedder="light")).aclose()
    with pytest.raises(airw.errors.EmbedderError):
        await build(source(name), store=server_dsn(), embedder=spec)
    # That build failed, as there is no such server; but the user has named it here.
    assert len(list((home() / "embedders").iterdir())) == 1


async def test_a_password_in_a_variable_opens_a_corpus(name, monkeypatch):
    monkeypatch.setenv("KB_PASSWORD", "s3c/ret@")
    address = server_dsn().replace("postgres@", "postgres:$KB_PASSWORD@")
    async with build(source(name), store=address, embedder="light") as corpus:
        assert "s3c" not in repr(corpus)
    monkeypatch.delenv("KB_PASSWORD")
    with pytest.raises(StoreError, match="environment variable KB_PASSWORD"):
        await open_corpus(f"{address}#{name}")
