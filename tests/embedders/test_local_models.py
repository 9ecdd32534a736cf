"""How a model that runs in this process shares it with others: by torch and by onnxruntime alike."""

import gc
import time

import anyio
import anyio.to_thread
import numpy as np
import pytest

from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder
from airw.errors import EmbedderError

pytestmark = [pytest.mark.models, pytest.mark.slow]

LONG = "how to bake sourdough bread at home, a recipe for a loaf of bread, stock prices fell on Monday " * 3


@pytest.fixture(scope="module", params=["torch", "onnxruntime"])
def model(request):
    """The same model, run by either; loaded by the first test that asks it."""
    if request.param == "torch":
        return SentenceTransformerEmbedder(request.getfixturevalue("minilm_folder"))
    return OnnxEmbedder(request.getfixturevalue("minilm_export"))


async def seconds(model, texts) -> float:
    start = time.perf_counter()
    await model.embed_documents(texts)
    return time.perf_counter() - start


async def test_the_loop_keeps_ticking_while_a_batch_is_encoded(model):
    await model.embed_query("loads the model")
    gaps = []

    async def tick():
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            gaps.append(time.perf_counter() - start)

    gc.collect()
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        took = await seconds(model, [LONG] * 64)
        group.cancel_scope.cancel()
    assert took > 0.2
    assert len(gaps) > 20
    assert np.percentile(gaps, 95) < 0.05


async def test_a_query_does_not_wait_for_all_documents(model):
    await model.embed_query("loads the model")
    finished = []

    async def documents():
        await model.embed_documents([LONG] * 160)
        finished.append("documents")

    async with anyio.create_task_group() as group:
        group.start_soon(documents)
        await anyio.sleep(0.05)
        await model.embed_query("bread")
        finished.append("query")
    assert finished == ["query", "documents"]


async def test_cancelling_takes_effect_between_batches(model):
    """Ten batches, cancelled in the first: it takes the time of about one."""
    await model.embed_query("loads the model")
    one = await seconds(model, [LONG] * 32)
    start = time.perf_counter()
    with anyio.move_on_after(one / 10) as scope:
        await model.embed_documents([LONG] * 320)
    assert scope.cancelled_caught
    assert time.perf_counter() - start < 5 * one
    assert (await model.embed_query("still works")).shape == (384,)


async def test_waiting_queries_hold_no_worker_threads(model):
    await model.embed_query("loads the model")
    used = []
    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(model.embed_query, f"query {number}")
        for _ in range(10):
            await anyio.sleep(0.005)
            used.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
    assert max(used) == 1


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ("bread", "not one string"),
        (["fine", 3], "takes strings, not 3"),
        (["bread", "bread \ud800 recipe"], "text 1: it holds an unpaired surrogate at position 6"),
    ],
)
async def test_what_is_no_list_of_whole_strings_is_refused_and_nothing_put_in_its_place(model, texts, why):
    with pytest.raises(EmbedderError, match=why):
        await model.embed_documents(texts)
