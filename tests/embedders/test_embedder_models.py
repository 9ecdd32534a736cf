"""The sentence-transformers embedder with the real all-MiniLM-L6-v2, offline."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw.embedders import SentenceTransformerEmbedder, check_embedder, resolve_embedder
from airw.errors import EmbedderUnavailable

pytestmark = [pytest.mark.models, pytest.mark.slow]

TEXTS = ["how to bake sourdough bread at home", "a recipe for a loaf of bread", "stock prices fell on Monday"]


@pytest.fixture(scope="module")
def folder(minilm_folder) -> Path:
    return minilm_folder


@pytest.fixture(scope="module")
def minilm(folder) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(folder)


async def test_meaning_ranks_bread_with_bread_and_not_with_stocks(minilm):
    rows = await minilm.embed_documents(TEXTS)
    assert rows.shape == (3, 384)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[1] > 0.5
    assert rows[0] @ rows[2] < 0.2


async def test_rows_keep_the_order_of_the_texts_over_several_batches(folder, minilm):
    texts = [" ".join(TEXTS[: 1 + number % 3]) + f" {number}" for number in range(20)]
    small = SentenceTransformerEmbedder(folder, batch_size=3)
    rows, alone = await small.embed_documents(texts), [await minilm.embed_query(text) for text in texts]
    np.testing.assert_allclose(rows, alone, atol=1e-5)


async def test_a_mapped_folder_serves_the_default(folder, minilm, monkeypatch):
    monkeypatch.setenv("AIRW_MODEL_DIR", str(folder))
    default = resolve_embedder("default")
    assert default.id == minilm.id
    assert abs(await default.embed_query("bread") @ await minilm.embed_query("bread") - 1) < 1e-5
    check_embedder(default, minilm.id, 384, "notes")


def test_the_id_depends_on_the_weights_and_not_on_the_path(folder, tmp_path):
    same = shutil.copytree(folder, tmp_path / "elsewhere")
    other = shutil.copytree(folder, tmp_path / "changed")
    with (other / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)
        weights.seek(-1, 2)
        weights.write(bytes([last[0] ^ 1]))
    ids = [SentenceTransformerEmbedder(place).id for place in (folder, same, other)]
    assert ids[0] == ids[1] != ids[2]
    assert str(tmp_path) not in "".join(ids)


async def test_concurrent_first_calls_load_one_model(folder, monkeypatch):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    made = []
    original = sentence_transformers.SentenceTransformer

    def load_and_record(*args, **kwargs):
        made.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", load_and_record)
    fresh = SentenceTransformerEmbedder(folder)
    async with anyio.create_task_group() as group:
        for text in TEXTS:
            group.start_soon(fresh.embed_query, text)
    assert made == [(str(folder),)]


def test_the_thread_count_is_the_requested_one(folder):
    """A new process reads it from torch after encoding, because it applies to the process."""
    code = (
        "import sys, anyio, torch; from airw.embedders import SentenceTransformerEmbedder as E;"
        f"anyio.run(E({str(folder)!r}, threads=1).embed_query, 'x'); print(torch.get_num_threads())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


async def test_loading_a_model_prints_nothing(folder, capfd):
    """Its progress bars would end up in pipes, and in the program's own display."""
    await SentenceTransformerEmbedder(folder).embed_query("text")
    assert capfd.readouterr() == ("", "")


async def test_a_missing_model_is_an_error_with_a_remedy(folder):
    """The hub name was never downloaded; the fixture `folder` skips without the libraries."""
    embedder = SentenceTransformerEmbedder("no-such-org/no-such-model")
    with pytest.raises(EmbedderUnavailable, match=r"no-such-model.*AIRW_MODEL_DIR.*folder.*'light'") as caught:
        await embedder.embed_query("text")
    assert "\n" not in str(caught.value)
