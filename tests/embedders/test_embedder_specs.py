"""Embedders from functions, specifications and model folders, without any model installed."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw.embedders import (
    HashingEmbedder,
    HttpEmbedder,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
    check_embedder,
    embedder_from,
    resolve_embedder,
)
from airw.errors import AirwError, ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable
from airw.protocols import Embedder

# --- embedder_from --------------------------------------------------------------------------------------------------


def rows_of(texts):
    return [[len(text), 1.0] for text in texts]


async def async_rows_of(texts):
    await anyio.lowlevel.checkpoint()
    return rows_of(texts)


class AsyncCallable:
    async def __call__(self, texts):
        return rows_of(texts)


@pytest.mark.parametrize(
    "fn",
    [
        rows_of,
        async_rows_of,
        AsyncCallable(),
        lambda texts: async_rows_of(list(texts)),  # not known to be async before it is called
        lambda texts: np.array(rows_of(texts)),
    ],
)
async def test_any_function_from_texts_to_rows_becomes_an_embedder(fn):
    embedder = embedder_from(fn, id="lengths-v1", dim=2)
    rows = await embedder.embed_documents(["abc", ""])
    assert (embedder.id, embedder.dim) == ("lengths-v1", 2)
    np.testing.assert_allclose(rows, [[3 / math.sqrt(10), 1 / math.sqrt(10)], [0, 1]], rtol=1e-6)
    assert rows.dtype == np.float32
    assert (await embedder.embed_query("abc") == rows[0]).all()


async def test_a_function_receives_a_list_and_is_not_called_without_texts():
    seen = []
    embedder = embedder_from(lambda texts: seen.append(texts) or rows_of(texts), id="x", dim=2)
    assert (await embedder.embed_documents(())).shape == (0, 2)
    await embedder.embed_documents(("a", "b"))
    assert seen == [["a", "b"]]


async def test_a_sync_function_runs_in_a_worker_thread_an_async_one_on_the_loop():
    threads = []

    def note(texts):
        threads.append(threading.get_ident())
        return rows_of(texts)

    async def note_async(texts):
        return note(texts)

    await embedder_from(note, id="x", dim=2).embed_query("a")
    await embedder_from(note_async, id="x", dim=2).embed_query("a")
    assert threads[0] != threading.get_ident()
    assert threads[1] == threading.get_ident()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([[1.0, 2.0]], "shape"),
        ([[1.0], [2.0]], "shape"),
        ([[1.0, 2.0], [1.0]], "one width"),
        ([[1.0, math.nan], [1.0, 2.0]], "not finite"),
        ([[1.0, 2.0], [math.inf, 2.0]], "not finite"),
        ([["a", "b"], ["c", "d"]], "numbers"),
        (None, "must return"),
        ([1.0, 2.0], "shape"),
    ],
)
async def test_the_error_about_an_invalid_answer_names_the_embedder_and_the_fault(answer, why):
    with pytest.raises(EmbedderError, match=why) as caught:
        await embedder_from(lambda texts: answer, id="mine-v1", dim=2).embed_documents(["a", "b"])
    assert "'mine-v1'" in str(caught.value)


async def test_an_error_of_a_function_is_the_cause_of_the_error():
    def fail(texts):
        raise RuntimeError("quota\nspent")

    with pytest.raises(EmbedderError, match="'mine-v1' failed: RuntimeError: quota spent") as caught:
        await embedder_from(fail, id="mine-v1", dim=2).embed_query("a")
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_an_error_of_this_library_is_not_wrapped():
    error = EmbedderUnavailable("no key")

    def fail(texts):
        raise error

    with pytest.raises(EmbedderUnavailable) as caught:
        await embedder_from(fail, id="x", dim=2).embed_query("a")
    assert caught.value is error


@pytest.mark.parametrize(
    "change", [{"id": ""}, {"id": "  "}, {"id": None}, {"dim": 0}, {"dim": 2.0}, {"fn": "not a function"}]
)
def test_embedder_from_refuses_a_missing_id_or_width(change):
    with pytest.raises(ArgumentError, match=next(iter(change))):
        embedder_from(**{"fn": rows_of, "id": "x", "dim": 2, **change})


# --- specifications -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["light", " Light "])
def test_light_names_the_hashing_embedder(spec):
    assert resolve_embedder(spec) == HashingEmbedder(512)


@pytest.mark.parametrize("spec", ["default", " Default ", "all-MiniLM-L6-v2"])
def test_default_names_minilm_and_reads_nothing(spec):
    assert resolve_embedder(spec).id == "st:all-MiniLM-L6-v2"


def test_another_name_is_a_model_on_the_hub():
    assert resolve_embedder("all-mpnet-base-v2").id == "st:all-mpnet-base-v2"
    assert resolve_embedder("BAAI/bge-small-en").id == "st:BAAI/bge-small-en"


def test_a_url_with_a_model_is_a_server():
    spec = " https://Example.org/v1/#BAAI/bge-small-en "
    assert resolve_embedder(spec) == HttpEmbedder("https://example.org/v1", "BAAI/bge-small-en")


def test_a_url_without_a_model_is_refused_with_a_remedy():
    with pytest.raises(ArgumentError, match=r"add the model.*'http://localhost:8080/v1#model'"):
        resolve_embedder("http://localhost:8080/v1")


@pytest.mark.parametrize(
    "spec", ["http://me:s3cret@host/v1#m", "http://host/v1?key=s3cret#m", "ftp://me:s3cret@host/v1"]
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(spec):
    with pytest.raises(ArgumentError, match="environment") as caught:
        resolve_embedder(spec)
    assert "s3cret" not in str(caught.value)


def test_an_embedder_passes_through():
    for embedder in (HashingEmbedder(7), embedder_from(rows_of, id="x", dim=2), SentenceTransformerEmbedder("org/m")):
        assert resolve_embedder(embedder) is embedder


@pytest.mark.parametrize("spec", ["", "  ", None, 3, rows_of, HashingEmbedder])
def test_any_other_value_is_refused_with_a_list_of_valid_ones(spec):
    with pytest.raises(ArgumentError, match=r"'light'.*'default'.*folder.*embedder_from") as caught:
        resolve_embedder(spec)
    assert "\n" not in str(caught.value)


def test_all_are_embedders():
    assert isinstance(HashingEmbedder(), Embedder)
    assert isinstance(embedder_from(rows_of, id="x", dim=2), Embedder)


def test_a_corpus_accepts_the_embedder_it_was_built_with():
    check_embedder(HashingEmbedder(), "hashing-v2-512", 512, "notes")
    check_embedder(SentenceTransformerEmbedder("org/model"), "st:org/model", 384, "notes")


def test_a_corpus_refuses_another_embedder_with_a_remedy():
    with pytest.raises(EmbedderMismatch, match=r"'notes'.*'st:all-MiniLM-L6-v2'.*'hashing-v2-512'.*rebuild"):
        check_embedder(HashingEmbedder(), "st:all-MiniLM-L6-v2", 384, "notes")


def test_a_corpus_refuses_the_same_id_with_another_width():
    with pytest.raises(EmbedderMismatch, match=r"'notes'.*width 3, not 2, the width of 'x'.*rebuild"):
        check_embedder(embedder_from(rows_of, id="x", dim=2), "x", 3, "notes")


# --- SentenceTransformerEmbedder, without its library ---------------------------------------------------------------


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


def make_folder(folder: Path, *, weights=b"weights", **pooling) -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 384}')
    (folder / "modules.json").write_text(
        '[{"path": "", "type": "s.models.Transformer"}, {"path": "1_Pooling", "type": "s.models.Pooling"}]'
    )
    modes = pooling or {"pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(str(modes).replace("'", '"').replace("True", "true"))
    (folder / "model.safetensors").write_bytes(weights)
    return folder


async def test_without_the_library_the_error_names_the_command_that_installs_it(no_library):
    with pytest.raises(EmbedderUnavailable, match=r"pip install 'airw\[sentence-transformers\]'.*'light'"):
        await SentenceTransformerEmbedder().embed_query("text")


async def test_a_missing_folder_is_an_error_with_a_remedy(tmp_path):
    embedder = SentenceTransformerEmbedder(tmp_path / "gone")
    with pytest.raises(EmbedderUnavailable, match=r"gone.*AIRW_MODEL_DIR.*'light'"):
        _ = embedder.id
    with pytest.raises(EmbedderUnavailable, match="gone"):
        _ = embedder.dim
    with pytest.raises(EmbedderUnavailable, match="gone"):
        await embedder.embed_documents(["text"])


def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(EmbedderUnavailable, match="no weights"):
        _ = SentenceTransformerEmbedder(tmp_path).id
    with pytest.raises(EmbedderUnavailable, match="cannot be read as a model folder"):
        _ = SentenceTransformerEmbedder(tmp_path).dim
    (make_folder(tmp_path / "model") / "config.json").write_text("{broken")
    with pytest.raises(EmbedderUnavailable, match="cannot be read as a model folder"):
        _ = SentenceTransformerEmbedder(tmp_path / "model").id


def test_id_and_width_are_read_from_a_folder_without_the_library(no_library, tmp_path):
    embedder = SentenceTransformerEmbedder(make_folder(tmp_path / "minilm"))
    name, _, digest = embedder.id.partition("@")
    assert (name, len(digest), embedder.dim) == ("bert-384", 12, 384)


def test_the_id_depends_on_the_content_and_not_on_the_path(tmp_path, monkeypatch):
    one, other = make_folder(tmp_path / "a" / "one"), make_folder(tmp_path / "b" / "other")
    ids = {SentenceTransformerEmbedder(one).id, resolve_embedder(str(other)).id, resolve_embedder(other).id}
    monkeypatch.setenv("AIRW_MODEL_DIR", str(one))
    ids |= {resolve_embedder("default").id, resolve_embedder("sentence-transformers/all-MiniLM-L6-v2").id}
    assert len(ids) == 1
    assert resolve_embedder("all-mpnet-base-v2").id == "st:all-mpnet-base-v2"


def test_other_weights_or_settings_change_the_id(tmp_path):
    folders = [
        make_folder(tmp_path / "one"),
        make_folder(tmp_path / "weights", weights=b"weightS"),
        make_folder(tmp_path / "pooling", pooling_mode_cls_token=True),
    ]
    assert len({SentenceTransformerEmbedder(folder).id for folder in folders}) == 3


def test_embedders_of_the_same_model_are_equal(tmp_path):
    default = SentenceTransformerEmbedder()
    assert default == resolve_embedder("default") == SentenceTransformerEmbedder(threads=1)
    assert default not in {SentenceTransformerEmbedder("org/model"), SentenceTransformerEmbedder(tmp_path)}
    assert default != HashingEmbedder()


def test_a_width_that_only_the_loaded_model_knows_is_not_guessed(tmp_path):
    two = make_folder(tmp_path / "two", pooling_mode_cls_token=True, pooling_mode_mean_tokens=True)
    for embedder in (SentenceTransformerEmbedder(two), SentenceTransformerEmbedder("org/model")):
        with pytest.raises(EmbedderError, match="before it is loaded"):
            _ = embedder.dim


async def test_without_texts_no_library_is_needed_if_the_folder_contains_the_width(no_library, tmp_path):
    embedder = SentenceTransformerEmbedder(make_folder(tmp_path / "model"))
    assert (await embedder.embed_documents([])).shape == (0, 384)


@pytest.mark.parametrize("options", [{"model": ""}, {"model": 3}, {"batch_size": 0}, {"threads": 0}])
def test_invalid_options_are_refused_when_an_embedder_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        SentenceTransformerEmbedder(**options)


def test_every_error_is_one_of_this_library():
    assert issubclass(EmbedderUnavailable, AirwError)
    assert issubclass(EmbedderMismatch, ValueError)


@pytest.mark.slow
def test_importing_the_embedders_loads_no_model_library():
    code = "import sys, airw.embedders; print({'torch', 'sentence_transformers', 'httpx'} & {*sys.modules})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("options", [{"folder": " "}, {"folder": 3}, {"batch_size": 0}, {"threads": 0}])
def test_invalid_options_of_an_exported_model_are_refused_when_it_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        OnnxEmbedder(**{"folder": "model", **options})


@pytest.mark.parametrize("text", ["", "{broken", "[]", '{"format": 1}', '{"format": 2}'])
def test_a_manifest_that_cannot_be_read_is_an_error_in_one_line(text, tmp_path):
    (tmp_path / "airw-onnx").mkdir()
    (tmp_path / "airw-onnx" / "export.json").write_text(text)
    with pytest.raises(EmbedderUnavailable, match=r"export\.json' cannot be .*export the model again") as caught:
        _ = OnnxEmbedder(tmp_path).id
    assert "\n" not in str(caught.value)
