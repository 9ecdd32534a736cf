"""The onnxruntime embedder, with the real all-MiniLM-L6-v2, offline."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest

from airw import build, open_corpus
from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder, resolve_embedder
from airw.errors import EmbedderUnavailable
from airw.sources import from_mapping
from airw.testing import EmbedderSuite
from tests.support.onnx_export import export_model

pytestmark = [pytest.mark.models, pytest.mark.slow]

TEXTS = ["how to bake sourdough bread at home", "a recipe for a loaf of bread", "stock prices fell on Monday"]
MANY = [
    *TEXTS,
    "",
    " ",
    "  Crème brûlée, naïve café — 東京の天気 🌧️\n\n1,234.56 € ",
    "x" * 5_000,
    "keys and vaults and " * 200,
    *(" ".join(TEXTS[: number % 4]) + f" {number}" for number in range(50)),
]
LONG = " ".join(TEXTS) * 3


@pytest.fixture(scope="module")
def original(minilm_folder) -> Path:
    return minilm_folder


@pytest.fixture(scope="module")
def bare(minilm_export) -> Path:
    return minilm_export


@pytest.fixture(scope="module")
def onnx(bare) -> OnnxEmbedder:
    return OnnxEmbedder(bare)


@pytest.fixture(scope="module")
def torch(original) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(original)


def copy_model(folder: Path, place: Path) -> Path:
    """Copy a folder; large files become links, so tests replace them and never write to them."""
    return shutil.copytree(folder, place, copy_function=_copy_or_link)


def _copy_or_link(source: str, target: str) -> None:
    if Path(source).stat().st_size > 1_000_000:
        Path(target).symlink_to(source)
    else:
        shutil.copyfile(source, target)


def replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


@pytest.fixture
def whole(original, bare, tmp_path) -> Path:
    """Return a folder with the weights and their export."""
    folder = copy_model(original, tmp_path / "whole")
    copy_model(bare / "airw-onnx", folder / "airw-onnx")
    return folder


def run_code(code: str) -> str:
    """Run code in a new interpreter and return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- the same model -------------------------------------------------------------------------------------------------


async def test_id_width_and_vectors_equal_those_of_torch(onnx, torch):
    """The texts are short, long, empty, cut and mixed, in several batches, also as queries."""
    ours, theirs = await onnx.embed_documents(MANY), await torch.embed_documents(MANY)
    assert (onnx.id, onnx.dim) == (torch.id, torch.dim)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for text in MANY[:8]:
        np.testing.assert_allclose(await onnx.embed_query(text), await torch.embed_query(text), atol=1e-5)


@pytest.mark.asyncio_only
@pytest.mark.parametrize("builder", ["onnx", "torch"])
async def test_a_corpus_built_with_one_opens_and_searches_with_the_other(builder, onnx, torch, tmp_path):
    first, second = (onnx, torch) if builder == "onnx" else (torch, onnx)
    file = tmp_path / "notes.airw"
    source = from_mapping(dict(zip("abc", TEXTS, strict=True)), name="notes")
    async with build(source, store=file, embedder=first) as corpus:
        before = await corpus.search("baking a loaf", mode="dense")
    async with open_corpus(file, embedder=second) as corpus:
        after = await corpus.search("baking a loaf", mode="dense")
    assert [hit.artifact_id for hit in after] == [hit.artifact_id for hit in before]
    np.testing.assert_allclose([hit.score for hit in after], [hit.score for hit in before], atol=1e-4)
    async with build(source, store=file, embedder=second) as corpus:
        assert corpus.report.unchanged == 3


def change_pooling(folder: Path, mode: str) -> None:
    pooling = {"word_embedding_dimension": 384, "pooling_mode": mode}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def test_another_pooling_and_the_prompts_of_the_model_are_used(original, tmp_path):
    folder = copy_model(original, tmp_path / "minilm")
    change_pooling(folder, "cls")
    prompts = {"prompts": {"query": "search for this: ", "document": "a note: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    export_model(folder, folder)
    ours, theirs = OnnxEmbedder(folder), SentenceTransformerEmbedder(folder)
    rows = anyio.run(ours.embed_documents, MANY[:8])
    query = anyio.run(ours.embed_query, MANY[0])
    np.testing.assert_allclose(rows, anyio.run(theirs.embed_documents, MANY[:8]), atol=1e-5)
    np.testing.assert_allclose(query, anyio.run(theirs.embed_query, MANY[0]), atol=1e-5)
    assert ours.id == theirs.id
    assert query @ rows[0] < 0.99


def test_it_passes_the_exam_of_embedders(bare):
    report = anyio.run(EmbedderSuite(lambda: OnnxEmbedder(bare)).run)
    assert report.passed, str(report)


# --- running --------------------------------------------------------------------------------------------------------


def test_neither_torch_nor_its_libraries_are_loaded_or_needed(bare):
    """In this new process importing them fails."""
    heavy = ("torch", "sentence_transformers", "transformers", "onnx")
    code = f"""
import sys
for name in {heavy!r}:
    sys.modules[name] = None
import anyio
from airw.embedders import resolve_embedder
embedder = resolve_embedder({str(bare)!r})
assert "onnxruntime" not in sys.modules and "tokenizers" not in sys.modules
rows = anyio.run(embedder.embed_documents, {TEXTS!r})
print(type(embedder).__name__, rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2])
print(any(sys.modules[name] for name in {heavy!r}))
"""
    assert run_code(code) == "OnnxEmbedder True\nFalse"


def test_a_forked_process_can_embed(bare):
    """The model was used before the fork; the child has no other threads of the parent."""
    code = f"""
import os, anyio
from airw.embedders import OnnxEmbedder
embedder = OnnxEmbedder({str(bare)!r}, threads=2)
anyio.run(embedder.embed_documents, {TEXTS!r} * 20)
child = os.fork()
if child == 0:
    os._exit(0 if anyio.run(embedder.embed_documents, {TEXTS!r} * 20).shape == (60, 384) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_code(code) == "0"


@pytest.mark.parametrize("threads", [1, 3])
async def test_the_number_of_threads_changes_no_vector(threads, bare, onnx):
    rows = await OnnxEmbedder(bare, threads=threads, batch_size=7).embed_documents(MANY)
    np.testing.assert_allclose(rows, await onnx.embed_documents(MANY), atol=1e-5)


async def test_rows_keep_the_order_of_the_texts(onnx):
    alone = [await onnx.embed_query(text) for text in MANY[:40]]
    np.testing.assert_allclose(await onnx.embed_documents(MANY[:40]), alone, atol=1e-5)


async def test_concurrent_first_calls_load_one_model_and_occupy_one_thread(bare, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    made, used, answered = [], [], []
    original = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda *args, **kwargs: made.append(args) or original(*args, **kwargs)
    )
    embedder = OnnxEmbedder(bare)

    async def ask(number):
        await embedder.embed_query(f"query {number}")
        answered.append(number)

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(ask, number)
        while len(answered) < 30:
            await anyio.sleep(0.001)
            used.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
    assert len(made) == 1
    assert max(used) == 1


async def test_both_read_the_same_part_of_a_text(onnx, torch, bare, original):
    assert (onnx.max_tokens, torch.max_tokens) == (256, 256)
    assert SentenceTransformerEmbedder(original).max_tokens == 256  # without loading it
    long = "one two three " * 200
    texts = ["short", "", long, long[:1000], "punctuation! " * 400]
    ends = await onnx.find_ends(texts)
    assert await torch.find_ends(texts) == ends
    assert ends[:2] == [5, 0]
    assert texts[2][: ends[2]].split() == texts[2].split()[:254]  # and two special tokens
    assert ends[3] == 1000
    whole, read = await onnx.embed_documents([long, long[: ends[2]]])
    np.testing.assert_allclose(whole, read, atol=1e-5)
    assert abs(whole - (await onnx.embed_documents([long[: ends[2] - 20]]))[0]).max() > 1e-4


async def test_a_prompt_for_documents_is_read_too(original, tmp_path):
    folder = copy_model(original, tmp_path / "minilm")
    prompt = "passage, which is a part of a document: "
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"document": prompt}}))
    text = "word " * 400
    ends = [await SentenceTransformerEmbedder(each).find_ends([text]) for each in (original, folder)]
    assert ends[0][0] - ends[1][0] == 5 * 10  # the tokens of the prompt


async def test_without_texts_there_are_no_rows_and_nothing_is_loaded(bare, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert (await OnnxEmbedder(bare).embed_documents([])).shape == (0, 384)


def test_embedders_of_the_same_folder_are_equal(bare, tmp_path):
    assert OnnxEmbedder(bare) == OnnxEmbedder(str(bare), threads=1)
    assert OnnxEmbedder(bare) not in {OnnxEmbedder(tmp_path), SentenceTransformerEmbedder(bare)}
    assert repr(OnnxEmbedder(bare)) == f"OnnxEmbedder({str(bare)!r})"


# --- choice of the embedder -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers"])
def test_a_folder_is_run_by_the_installed_library(missing, whole, bare, original, monkeypatch):
    assert resolve_embedder(whole) == resolve_embedder(f"{whole}/") == OnnxEmbedder(whole)
    assert resolve_embedder(original) == SentenceTransformerEmbedder(original)
    monkeypatch.setenv("AIRW_MODEL_DIR", str(whole))
    assert resolve_embedder("default") == resolve_embedder("all-MiniLM-L6-v2") == OnnxEmbedder(whole)
    monkeypatch.setitem(sys.modules, missing, None)
    assert resolve_embedder(whole) == SentenceTransformerEmbedder(whole)
    assert resolve_embedder("default") == SentenceTransformerEmbedder()
    with pytest.raises(EmbedderUnavailable, match=r"onnxruntime and tokenizers: pip install 'airw\[onnx\]'"):
        anyio.run(resolve_embedder(bare).embed_query, "text")


# --- mismatched files -----------------------------------------------------------------------------------------------


def test_other_weights_than_those_of_the_export_are_an_error(whole):
    assert OnnxEmbedder(whole).id == SentenceTransformerEmbedder(whole).id
    weights = whole / "model.safetensors"
    content = weights.read_bytes()
    replace(weights, content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(EmbedderUnavailable, match=r"weights.*changed after.*export the model again"):
        _ = OnnxEmbedder(whole).id


def test_other_prompts_than_those_of_the_export_are_an_error(whole):
    (whole / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: "}}')
    with pytest.raises(EmbedderUnavailable, match=r"settings.*changed after.*export the model again"):
        anyio.run(OnnxEmbedder(whole).embed_query, "text")


@pytest.mark.parametrize(("name", "fault"), [("model.onnx", "changed"), ("tokenizer.json", "gone")])
def test_a_file_that_was_not_exported_is_an_error(name, fault, bare, tmp_path):
    path = copy_model(bare, tmp_path / "copy") / "airw-onnx" / name
    content = path.read_bytes()
    middle = len(content) // 2
    if fault == "gone":
        path.unlink()
    else:
        replace(path, content[:middle] + b"!" + content[middle + 1 :])
    with pytest.raises(
        EmbedderUnavailable, match=rf"{name}' is missing or is not the exported file.*export the model, again"
    ):
        anyio.run(OnnxEmbedder(tmp_path / "copy").embed_query, "text")


def test_a_folder_without_an_export_names_what_it_needs(original, tmp_path):
    with pytest.raises(EmbedderUnavailable, match=r"no ONNX export; it needs airw-onnx/export\.json, model\.onnx"):
        _ = OnnxEmbedder(original).id
    with pytest.raises(EmbedderUnavailable, match="there is no model folder"):
        _ = OnnxEmbedder(tmp_path / "gone").dim
