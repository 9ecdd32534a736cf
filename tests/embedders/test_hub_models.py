"""Models of the hub: its cache, one id for the same weights, and a hub that is silent.

The cache is a real one, in the layout of the hub's library. A hub that hangs is a socket on the loopback interface.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import anyio
import pytest

from airw import build, from_mapping, open_corpus
from airw._base import hub, local_models
from airw.embedders import SentenceTransformerEmbedder, check_embedder, embedder_from, is_same_model, resolve_embedder
from airw.errors import EmbedderMismatch, EmbedderUnavailable, RerankerUnavailable
from airw.protocols import Change, Config, ask
from airw.reranking import CrossEncoderReranker, resolve_reranker
from tests.support.embedding_server import alone
from tests.support.waiting import PATIENCE, cancel_once

NAME = "all-MiniLM-L6-v2"
REPOSITORY = f"models--sentence-transformers--{NAME}"


@pytest.fixture(autouse=True)
def hub_home(monkeypatch, tmp_path) -> Path:
    """The home of the hub's libraries, which does not exist yet."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    alone(monkeypatch)
    return tmp_path / "hf"


def make_folder(folder: Path, weights=b"weights") -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 4}')
    (folder / "modules.json").write_text(
        '[{"path": "", "type": "s.models.Transformer"}, {"path": "1_Pooling", "type": "s.models.Pooling"}]'
    )
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def put_in_cache(folder: Path, hub_home: Path, repository=REPOSITORY, commit="0123abc") -> Path:
    """Put a model into the cache of the hub as its library does.

    These are blobs, and a snapshot of links to them.
    """
    place = hub_home / "hub" / repository
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        # Large files are named by their SHA-256, small ones by the SHA-1 of git.
        hashed = hashlib.sha256(content) if file.suffix == ".safetensors" else hashlib.sha1(content)
        blob = place / "blobs" / hashed.hexdigest()
        link = place / "snapshots" / commit / file.relative_to(folder)
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        if not blob.exists():
            blob.write_bytes(content)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    return place / "snapshots" / commit


@contextlib.contextmanager
def hanging_hub():
    """Yield the URL of a hub that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def has_library(monkeypatch):
    """Pretend that sentence-transformers is installed; it is never loaded."""
    monkeypatch.setattr("airw._base.hub_models.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


# --- one id for the same weights ------------------------------------------------------------------------------------


def test_a_model_has_one_id_by_folder_and_by_its_name_on_the_hub(tmp_path, hub_home):
    folder = make_folder(tmp_path / "mini")
    assert SentenceTransformerEmbedder(NAME).id == f"st:{NAME}"
    put_in_cache(folder, hub_home)
    names = [NAME, f"sentence-transformers/{NAME}", "default"]
    assert {resolve_embedder(spec).id for spec in [*names, folder]} == {SentenceTransformerEmbedder(folder).id}
    assert resolve_embedder(NAME).dim == 4


def test_the_weights_in_the_cache_are_not_read_for_their_id(tmp_path, hub_home, monkeypatch):
    """Hashing a model of 2 GB would take seconds, each time a corpus is opened."""
    folder, read = make_folder(tmp_path / "mini"), []
    expected = SentenceTransformerEmbedder(folder).id
    put_in_cache(folder, hub_home)
    original = local_models.file_hash
    monkeypatch.setattr(local_models, "file_hash", lambda path: read.append(path.suffix) or original(path))
    assert SentenceTransformerEmbedder(NAME).id == expected
    assert set(read) == {".json"}


@pytest.mark.parametrize(
    "missing", ["model.safetensors", "config.json", "1_Pooling/config.json", "tokenizer.json", "../../refs/main"]
)
def test_a_part_of_a_model_in_the_cache_does_not_count(tmp_path, hub_home, missing):
    snapshot = put_in_cache(make_folder(tmp_path / "mini"), hub_home)
    assert hub.find_snapshot(NAME) == snapshot
    (snapshot / missing).unlink()
    assert hub.find_snapshot(NAME) is None
    assert SentenceTransformerEmbedder(NAME).id == f"st:{NAME}"


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME"])
def test_the_cache_is_found_where_the_libraries_put_it(tmp_path, hub_home, monkeypatch, variable):
    snapshot = put_in_cache(make_folder(tmp_path / "mini"), hub_home, repository="models--org--model")
    assert hub.find_snapshot("org/model") == snapshot
    moved = Path(shutil.move(hub_home / "hub", tmp_path / "moved"))
    assert hub.find_snapshot("org/model") is None
    monkeypatch.setenv(variable, str(moved))
    assert hub.find_snapshot("org/model") == moved / snapshot.relative_to(hub_home / "hub")


def test_an_index_that_knows_the_weights_by_their_name_fits_both_spellings(tmp_path, hub_home):
    folder, other = make_folder(tmp_path / "mini"), make_folder(tmp_path / "other", b"other weights")
    put_in_cache(folder, hub_home)
    for embedder in (resolve_embedder(NAME), resolve_embedder(folder)):
        for stored_id in (f"st:{NAME}", f"st:sentence-transformers/{NAME}", SentenceTransformerEmbedder(folder).id):
            check_embedder(embedder, stored_id, 4, "notes")
    with pytest.raises(EmbedderMismatch):
        check_embedder(resolve_embedder(other), f"st:{NAME}", 4, "notes")
    assert not is_same_model(resolve_embedder(folder), "st:../mini")


@pytest.mark.asyncio_only
async def test_an_index_built_under_the_older_id_opens_and_is_not_built_again(tmp_path, hub_home, has_library):
    """A build with a model of the hub once stored the name; all its vectors stay valid."""
    folder, file = make_folder(tmp_path / "mini"), tmp_path / "notes.airw"
    rows = {"rows": lambda texts: [[1.0, 0.0, 0.0, 0.0]] * len(texts)}
    source = from_mapping({"a": "text", "b": "more"}, name="notes")
    older = embedder_from(rows["rows"], id=f"st:{NAME}", dim=4)
    async with build(source, store=file, embedder=older) as corpus:
        await corpus.store.apply(Change(config={**await ask(corpus.store, Config()), "embedder": "default"}))
    put_in_cache(folder, hub_home)
    newer = embedder_from(rows["rows"], id=SentenceTransformerEmbedder(folder).id, dim=4)
    for embedder in (None, folder, newer):
        async with open_corpus(file, embedder=embedder) as corpus:
            assert corpus.embedder.id == newer.id
    async with build(source, store=file, embedder=newer) as corpus:
        assert (corpus.report.unchanged, corpus.report.updated) == (2, 0)
        await corpus.upsert({"a": "new text"})
    async with build(source, store=file, embedder=newer) as corpus:
        assert (corpus.report.unchanged, corpus.report.updated) == (1, 1)


@pytest.mark.asyncio_only
async def test_a_corpus_of_weights_that_are_not_downloaded_yet_opens(tmp_path, hub_home, has_library):
    """Its id is compared as soon as the model is here."""
    folder, file = make_folder(tmp_path / "mini"), tmp_path / "notes.airw"
    rows = embedder_from(lambda texts: [[1.0, 0, 0, 0]] * len(texts), id=resolve_embedder(folder).id, dim=4)
    async with build(from_mapping({"a": "text"}, name="notes"), store=file, embedder=rows) as corpus:
        await corpus.store.apply(Change(config={**await ask(corpus.store, Config()), "embedder": "org/model"}))
    async with open_corpus(file) as corpus:
        assert corpus.embedder == resolve_embedder("org/model")
        assert corpus.embedder_id == rows.id
    put_in_cache(make_folder(tmp_path / "other", b"other weights"), hub_home, repository="models--org--model")
    async with open_corpus(file) as corpus:
        with pytest.raises(EmbedderMismatch, match="was built with embedder 'bert-4@"):
            await corpus.search("text", mode="dense")


# --- a hub that does not answer -------------------------------------------------------------------------------------


@pytest.fixture(params=["embedder", "reranker"])
def asking(request, has_library):
    """A function that needs a model of the hub, and the type of its error."""
    if request.param == "embedder":
        return SentenceTransformerEmbedder("org/model").embed_query, EmbedderUnavailable
    return lambda text: CrossEncoderReranker("org/model")("query", [text]), RerankerUnavailable


async def test_a_hub_that_refuses_is_an_error_at_once(asking, monkeypatch):
    call, error = asking
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    said = r"'org/model' cannot be downloaded: the hub 'http://127.0.0.1:9' is not reached"
    with anyio.fail_after(PATIENCE), pytest.raises(error, match=said) as caught:
        await call("text")
    assert "\n" not in str(caught.value)


async def test_a_hub_that_hangs_is_an_error_within_seconds(asking, monkeypatch):
    call, error = asking
    monkeypatch.setattr(hub, "PATIENCE", 0.2)
    with hanging_hub() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        said = r"is not reached .*0\.2 s|is not reached .*Timeout"
        with anyio.fail_after(PATIENCE), pytest.raises(error, match=said):
            await call("text")


async def test_waiting_for_a_hub_can_be_cancelled(asking, monkeypatch):
    call, _ = asking
    monkeypatch.setattr(hub, "PATIENCE", 600)
    with hanging_hub() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        with anyio.fail_after(PATIENCE), anyio.move_on_after(0.1) as scope:
            await call("text")
    assert scope.cancelled_caught


async def test_offline_a_model_that_is_not_in_the_cache_is_an_error_at_once(asking, monkeypatch):
    call, error = asking
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(error, match="is not in the cache of the hub, and HF_HUB_OFFLINE forbids to download it"):
        await call("text")


async def test_a_download_can_be_cancelled_and_left_behind():
    began, may_end = threading.Event(), threading.Event()
    await cancel_once(began.is_set, hub.run_abandonable, lambda: (began.set(), may_end.wait(PATIENCE)))
    may_end.set()


async def test_a_result_or_an_error_of_a_download_arrives():
    assert await hub.run_abandonable(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await hub.run_abandonable(lambda: 1 / 0)


# --- told before any work of a model --------------------------------------------------------------------------------


def test_a_missing_folder_of_a_reranker_is_named_before_a_query_is_embedded(tmp_path, has_library):
    with pytest.raises(RerankerUnavailable, match="there is no model folder"):
        resolve_reranker(f"cross-encoder:{tmp_path / 'gone'}")


@pytest.mark.asyncio_only
async def test_a_missing_folder_of_an_embedder_is_named_before_the_source_is_read(tmp_path):
    read = []

    class Source(dict):
        def items(self):
            read.append(self)
            return super().items()

    with pytest.raises(EmbedderUnavailable, match="there is no model folder"):
        await build(from_mapping(Source(a="text"), name="notes"), embedder=tmp_path / "gone")
    assert read == []


# --- the library ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["5.1.0", "5.6.0.dev0", "", "unknown"])
async def test_a_library_that_runs_code_of_a_model_folder_is_refused(tmp_path, monkeypatch, version):
    package = tmp_path / "old" / "sentence_transformers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__version__ = {version!r}\nloaded = []\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "sentence_transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(package.parent)
    for call in (
        SentenceTransformerEmbedder(make_folder(tmp_path / "mini")).embed_query,
        CrossEncoderReranker(tmp_path),
    ):
        arguments = ("text",) if hasattr(call, "__func__") else ("query", ["text"])
        with pytest.raises((EmbedderUnavailable, RerankerUnavailable), match="needs sentence-transformers 6 or newer"):
            await call(*arguments)
    del sys.modules["sentence_transformers"]


async def test_a_name_on_the_hub_never_means_a_folder_of_that_name(tmp_path, monkeypatch):
    embedder = SentenceTransformerEmbedder("model")
    make_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EmbedderUnavailable, match=r"is a name on the hub, but there is a folder 'model' here too"):
        embedder._download(None)


# --- the real model -------------------------------------------------------------------------------------------------


@pytest.mark.models
@pytest.mark.slow
async def test_the_real_model_loads_from_the_cache_and_asks_no_hub(minilm_folder, hub_home, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    put_in_cache(minilm_folder, hub_home)
    by_name, by_folder = resolve_embedder("default"), resolve_embedder(minilm_folder)
    assert by_name.id == by_folder.id
    assert by_name.id.startswith("bert-384@")
    assert abs(await by_name.embed_query("bread") @ await by_folder.embed_query("bread") - 1) < 1e-6
