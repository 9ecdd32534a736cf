"""Corpora without their embedder, and which embedders a stranger's file may name.

The servers listen on the loopback interface, and the files are real ones.
"""

import os
import shutil
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from airw import FederatedCorpus, build, discover, from_mapping, open_corpus, register, search
from airw.corpora import list_corpora, records_for_artifact, unregister
from airw.embedders import HashingEmbedder, HttpEmbedder, MissingEmbedder, embedder_from, resolve_embedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable, StoreCorrupt
from airw.protocols import ArtifactIds, Change, Config, ask
from airw.stores import SqliteStore
from tests.support.embedding_server import EmbeddingServer, alone

pytestmark = pytest.mark.asyncio_only

TEXTS = {"keys": "rotate the signing keys", "bread": "bake a loaf of bread", "stars": "stars and planets"}


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture
def server():
    with EmbeddingServer(width=64) as running:
        yield running


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "files" / "notes.airw"


@pytest.fixture(scope="module")
def light_file(tmp_path_factory) -> Path:
    """A corpus that a stranger built."""
    path = tmp_path_factory.mktemp("stranger") / "notes.airw"

    async def make():
        async with build(from_mapping(TEXTS, name="notes"), store=path, embedder="light"):
            pass

    anyio.run(make)
    return path


@pytest.fixture
def craft(light_file, file):
    """Write the corpus of a stranger whose settings name another embedder."""

    async def write(**settings) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(light_file, file)
        async with await SqliteStore.open(file) as store, store.writing():
            await store.apply(Change(config={**await ask(store, Config()), **settings}))
        return file

    return write


async def reason_of(file: Path, mode: str = "dense") -> str:
    """Return the error of a search in a corpus that opens and answers a lexical search."""
    async with open_corpus(file) as corpus:
        assert [hit.artifact_id for hit in await corpus.search("loaf", mode="lexical")] == ["bread"]
        with pytest.raises(EmbedderError) as caught:
            await corpus.search("a private question", mode=mode)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("or search with mode='lexical'")
    return str(caught.value)


# --- a corpus without its embedder ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
async def test_a_corpus_of_an_embedder_object_opens_and_only_vectors_need_the_object(file, mode):
    file.parent.mkdir()
    lengths = embedder_from(lambda texts: [[len(text), 1.0] for text in texts], id="lengths-v1", dim=2)
    async with build(from_mapping(TEXTS, name="notes"), store=file, embedder=lengths):
        pass
    said = await reason_of(file, mode)
    assert said.startswith("the embedder of corpus 'notes', 'lengths-v1', is not here: ")
    assert "pass embedder=..." in said
    assert [record.text for record in await records_for_artifact(file, "bread")] == [TEXTS["bread"]]
    assert [hit.artifact_id for hit in await search(file, "planets", mode="lexical")] == ["stars"]
    async with open_corpus(file) as corpus:
        assert isinstance(corpus.embedder, MissingEmbedder)
        assert (corpus.embedder_id, corpus.embedder.dim) == ("lengths-v1", 2)
    async with open_corpus(file, embedder=lengths) as corpus:
        assert len(await corpus.search("loaf", mode=mode)) == 3


async def test_a_missing_package_is_named_together_with_what_would_do(craft, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    await craft(embedder="default", embedder_id=resolve_embedder("default").id)
    said = await reason_of(file)
    assert "pip install 'airw[sentence-transformers]'" in said
    assert "AIRW_MODEL_DIR" in said


async def test_an_upsert_without_the_embedder_fails_and_changes_nothing(craft, file):
    await craft(embedder="custom", embedder_id="mine-v1")
    async with open_corpus(file) as corpus:
        with pytest.raises(EmbedderUnavailable, match="pass embedder="):
            await corpus.upsert({"new": "a new text"})
        assert await corpus.delete(["keys"]) == 1
        assert sorted(await ask(corpus.store, ArtifactIds())) == ["bread", "stars"]


async def test_a_build_never_adopts_the_embedder_of_a_stranger(server, file, home):
    """Not even if nothing has to be embedded; else it would be registered as the user's own."""
    from airw.cli import main

    corpus = home / "corpora" / "notes.airw"
    notes = file.parent / "notes"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("hello")
    arguments = ["build", str(notes), "--name", "notes"]
    assert await anyio.to_thread.run_sync(main, [*arguments, "--embedder", "light"]) == 0
    async with await SqliteStore.open(corpus) as store, store.writing():
        await store.apply(Change(config={**await ask(store, Config()), "embedder": f"{server.url}#m"}))
    await unregister("notes")
    assert await anyio.to_thread.run_sync(main, arguments) == 2
    assert list_corpora() == {}
    async with open_corpus(corpus) as opened:
        with pytest.raises(EmbedderUnavailable, match="is not allowed here"):
            await build(from_mapping(TEXTS, name="notes"), store=corpus, embedder=opened.embedder)
    assert server.requests == []


async def test_an_embedder_that_is_passed_must_fit_when_the_corpus_is_opened(craft, file, tmp_path):
    await craft()
    with pytest.raises(EmbedderMismatch, match="hashing-v2-64"):
        await open_corpus(file, embedder=HashingEmbedder(dim=64))
    with pytest.raises(EmbedderUnavailable, match="no model folder"):
        await open_corpus(file, embedder=tmp_path / "gone")
    with pytest.raises(ArgumentError, match="embedder must be 'light'"):
        await open_corpus(file, embedder="")


@pytest.mark.parametrize(
    "settings",
    [
        *({"embedder": spec} for spec in (7, None, "/" * 100_000, "x" * 100_000, "a\0b")),
        *({"embedder_id": ["a"]}, {"dim": "4"}, {"dim": True}),
    ],
    ids=range(8),
)
async def test_settings_that_name_no_embedder_are_a_damaged_corpus(craft, file, settings):
    with pytest.raises(StoreCorrupt, match="the settings of corpus 'notes' are damaged: ") as caught:
        await open_corpus(await craft(**settings))
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "spec",
    [
        "http://",
        "http://host/v1",
        "ftp://host/v1#m",
        "\ud800".encode("utf-8", "replace").decode(),
        "ligth",
        " ",
    ],
)
async def test_settings_that_name_something_impossible_are_a_typed_error(craft, file, spec):
    await craft(embedder=spec, embedder_id="mine-v1")
    assert len(await reason_of(file)) < 700


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
async def test_a_corpus_without_its_embedder_harms_no_other_of_the_same_id(file, order):
    """In a discovery it fails alone; a walk of both uses the embedder of the other."""
    file.parent.mkdir()
    lengths = embedder_from(lambda texts: [[len(text), 1.0] for text in texts], id="lengths-v1", dim=2)
    files = {name: file.with_name(f"{name}.airw") for name in order}
    for name, target in files.items():
        texts = {f"{name} {id}": text for id, text in TEXTS.items()}
        async with build(from_mapping(texts, name=name), store=target, embedder=lengths):
            pass
    async with open_corpus(files["one"]) as one, open_corpus(files["two"], embedder=lengths) as two:
        members = {"one": one, "two": two}
        found = await discover({name: members[name] for name in order}, "a loaf", mode="dense", strategy="top_k")
        assert found.signals["per_source"]["two"]["status"] == "ok"
        assert "two" in {result.source for result in found.results}
        federated = FederatedCorpus({name: members[name] for name in order})
        assert federated.embedder is two.embedder


# --- servers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
async def test_a_server_that_a_file_names_gets_neither_the_question_nor_the_key(craft, server, file, monkeypatch, mode):
    monkeypatch.setenv("AIRW_EMBEDDER_KEY", "sk-SECRET")
    await craft(embedder=f"{server.url}#m", embedder_id="api:m", dim=64)
    said = await reason_of(file, mode)
    assert f"set AIRW_ALLOWED_ORIGINS={server.url.removesuffix('/v1')}; pass embedder=" in said
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/v1#m", "http://[::1]:1/v1#m", "http://10.0.0.1/v1#m", "https://api.example.com/v1#m"],
)
async def test_no_address_is_contacted_unless_it_is_listed(craft, file, url, monkeypatch):
    monkeypatch.setenv("AIRW_ALLOWED_ORIGINS", "https://other.example.com,http://api.example.com")
    assert "is not allowed here" in await reason_of(await craft(embedder=url, embedder_id="api:m"))


@pytest.mark.parametrize("entry", ["{origin}", " http://x.example , {origin}/v1,", "{upper}"])
async def test_a_listed_origin_is_used(craft, server, file, monkeypatch, entry):
    origin = server.url.removesuffix("/v1")
    monkeypatch.setenv("AIRW_ALLOWED_ORIGINS", entry.format(origin=origin, upper=origin.upper()))
    monkeypatch.setenv("AIRW_EMBEDDER_KEY", "sk-SECRET")
    await craft(embedder=f"{server.url}#m", embedder_id="api:m")
    async with open_corpus(file) as corpus:
        assert corpus.embedder == HttpEmbedder(server.url, "m")
        with pytest.raises(EmbedderError, match="64"):  # the stranger's vectors are wider
            await corpus.search("loaf", mode="dense")
    assert server.requests[0].headers["Authorization"] == "Bearer sk-SECRET"


async def test_a_list_that_is_no_list_of_origins_is_refused(craft, file, monkeypatch):
    await craft(embedder="http://localhost:1/v1#m", embedder_id="api:m")
    monkeypatch.setenv("AIRW_ALLOWED_ORIGINS", "localhost:8080")
    with pytest.raises(ArgumentError, match=r"AIRW_ALLOWED_ORIGINS must list origins .*, not 'localhost:8080'"):
        await open_corpus(file)


async def test_a_list_with_a_relative_folder_is_refused(craft, monkeypatch):
    monkeypatch.setenv("AIRW_ALLOWED_FOLDERS", "/srv,models")
    with pytest.raises(ArgumentError, match=r"AIRW_ALLOWED_FOLDERS must list whole paths .*, not 'models'"):
        await open_corpus(await craft(embedder="/", embedder_id="mine-v1"))


async def test_a_build_here_allows_its_folder_here_and_nowhere_else(file, tmp_path, monkeypatch):
    folder = make_model(tmp_path / "mini")
    rows = embedder_from(lambda texts: [[1.0, 0, 0, 0]] * len(texts), id=resolve_embedder(folder).id, dim=4)
    file.parent.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("airw.corpora.building.resolve_embedder", lambda spec: rows)
        async with build(from_mapping(TEXTS, name="notes"), store=file, embedder=folder):
            pass
    monkeypatch.setattr("airw._base.hub_models.find_spec", lambda name: name)
    async with open_corpus(file) as corpus:
        assert corpus.embedder == resolve_embedder(folder)
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "another user"))
    assert "is not allowed here" in await reason_of(file)


async def test_a_build_here_allows_its_server_here_and_nowhere_else(server, file, tmp_path, monkeypatch):
    file.parent.mkdir()
    async with build(from_mapping(TEXTS, name="notes"), store=file, embedder=f"{server.url}#m"):
        pass
    copy = shutil.copy(file, tmp_path / "copy.airw")
    for place in (file, copy):
        async with open_corpus(place) as corpus:
            assert (await corpus.search("loaf", k=1, mode="dense"))[0].artifact_id == "bread"
    requests = len(server.requests)
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "another user"))
    assert "is not allowed here" in await reason_of(file)
    assert len(server.requests) == requests


async def test_a_build_in_a_home_that_cannot_be_written_succeeds(server, file, tmp_path, monkeypatch):
    file.parent.mkdir()
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    async with build(from_mapping(TEXTS, name="notes"), store=file, embedder=f"{server.url}#m") as corpus:
        assert corpus.report.added == 3
    assert "is not allowed here" in await reason_of(file)


async def test_a_registration_allows_its_server(craft, server, file):
    await craft(embedder=f"{server.url}#m", embedder_id="api:m")
    await register("mine", "notes", root=file.parent, embedder=f"{server.url}#m")
    async with open_corpus(file) as corpus:
        assert corpus.embedder == HttpEmbedder(server.url, "m")


async def test_a_server_that_the_caller_names_needs_no_permission(craft, server, file):
    await craft(embedder=f"{server.url}#m", embedder_id="api:m", dim=64)
    for embedder in (f"{server.url}#m", HttpEmbedder(server.url, "m")):
        async with open_corpus(file, embedder=embedder) as corpus:
            assert corpus.embedder == HttpEmbedder(server.url, "m")


# --- folders --------------------------------------------------------------------------------------------------------


def make_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 4}')
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("spec", ["data/model", "./data/model", "../files/data/model", "data", ".", "~/model"])
async def test_a_relative_folder_is_never_used(craft, file, spec, monkeypatch):
    """With older libraries, the model beside the file could run code of its own."""
    folder = make_model(file.parent / "data" / "model")
    await craft(embedder=spec, embedder_id=resolve_embedder(folder).id, dim=4)
    monkeypatch.chdir(file.parent)
    monkeypatch.setenv("AIRW_ALLOWED_FOLDERS", str(file.parent))
    assert f"relative model folder {spec!r}, which is never used" in await reason_of(file)


@pytest.mark.parametrize("spec", ["//server/share/model", "\\\\server\\share\\model"])
async def test_a_network_folder_is_not_even_looked_for(craft, file, spec, monkeypatch):
    monkeypatch.setenv("AIRW_ALLOWED_FOLDERS", "/")
    said = await reason_of(await craft(embedder=spec, embedder_id="mine-v1"))
    assert "name the network folder" in said


async def test_a_folder_is_used_only_if_it_or_one_above_is_listed(craft, file, tmp_path, monkeypatch):
    folder = make_model(tmp_path / "models" / "mini")
    (tmp_path / "models" / "link").symlink_to(make_model(tmp_path / "elsewhere"))
    await craft(embedder=str(folder), embedder_id=resolve_embedder(folder).id, dim=4)
    assert "set AIRW_ALLOWED_FOLDERS to it or to a folder above it" in await reason_of(file)
    monkeypatch.setattr("airw._base.hub_models.find_spec", lambda name: name)
    for variable, value in (
        ("AIRW_ALLOWED_FOLDERS", str(folder)),
        ("AIRW_ALLOWED_FOLDERS", f"/srv/x, {tmp_path / 'models'}"),
        ("AIRW_MODEL_DIR", str(folder)),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            async with open_corpus(file) as corpus:
                assert corpus.embedder == resolve_embedder(folder)
    monkeypatch.setenv("AIRW_ALLOWED_FOLDERS", str(tmp_path / "models"))
    for outside in (tmp_path / "models" / ".." / "elsewhere", tmp_path / "models" / "link", tmp_path / "models2"):
        os.makedirs(outside, exist_ok=True)  # noqa: PTH103 - a path with `..` as it is
        await craft(embedder=str(outside), embedder_id="mine-v1")
        assert "is not allowed here" in await reason_of(file)


async def test_a_name_on_the_hub_needs_no_permission_and_is_not_asked_for(craft, file, monkeypatch):
    monkeypatch.setattr("airw._base.hub_models.find_spec", lambda name: name)
    await craft(embedder="org/model", embedder_id="st:org/model")
    async with open_corpus(file) as corpus:
        assert corpus.embedder == resolve_embedder("org/model")
    await craft(embedder="org/other", embedder_id="st:org/model")
    assert "was built with embedder 'st:org/model', not 'st:org/other'" in await reason_of(file)
