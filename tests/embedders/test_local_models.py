"""Models that run in this process, by torch or onnxruntime, do not block other tasks."""

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder
from airw.errors import EmbedderError

pytestmark = [pytest.mark.models, pytest.mark.slow]

LONG = "how to bake sourdough bread at home, a recipe for a loaf of bread, stock prices fell on Monday " * 3


@pytest.fixture(scope="module", params=["torch", "onnxruntime"])
def model(request):
    """Return the same model, run by torch or onnxruntime; the first use loads it."""
    if request.param == "torch":
        return SentenceTransformerEmbedder(request.getfixturevalue("minilm_folder"))
    return OnnxEmbedder(request.getfixturevalue("minilm_export"))


async def test_the_loop_keeps_ticking_while_a_batch_is_encoded(model):
    await model.embed_query("loads the model")
    ticks = []

    async def tick():
        while True:
            ticks.append(await anyio.sleep(0.001))

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await model.embed_documents([LONG] * 64)
        group.cancel_scope.cancel()
    assert len(ticks) > 20


async def test_a_query_does_not_wait_for_all_documents(model):
    await model.embed_query("loads the model")
    finished = []

    async def documents():
        await model.embed_documents([LONG] * 96)
        finished.append("documents")

    async with anyio.create_task_group() as group:
        group.start_soon(documents)
        await anyio.sleep(0.05)
        await model.embed_query("bread")
        finished.append("query")
    assert finished == ["query", "documents"]


async def test_cancelling_takes_effect_between_batches(model, monkeypatch):
    """After cancelling in the first of ten batches no other one is started."""
    await model.embed_query("loads the model")
    began, run = [], model._turns.run
    scope = anyio.CancelScope()

    async def run_first(function):
        def work():
            began.append(function)
            anyio.from_thread.run_sync(scope.cancel)
            return function()

        return await run(work)

    monkeypatch.setattr(model._turns, "run", run_first)
    with scope:
        await model.embed_documents([LONG] * 320)
    monkeypatch.undo()
    assert scope.cancelled_caught
    assert len(began) == 1
    assert (await model.embed_query("still works")).shape == (384,)


async def test_waiting_queries_occupy_no_worker_threads(model):
    await model.embed_query("loads the model")
    used, answered = [], []

    async def ask(number):
        await model.embed_query(f"query {number}")
        answered.append(number)

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(ask, number)
        while len(answered) < 50:
            await anyio.sleep(0.001)
            used.append(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
    assert max(used) == 1


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ("bread", "not one string"),
        (["fine", 3], "takes strings, not 3"),
        (["bread", "bread \ud800 recipe"], "text 1: it contains an unpaired surrogate at position 6"),
    ],
)
async def test_a_value_that_is_not_a_list_of_valid_strings_is_refused_and_not_replaced(model, texts, why):
    with pytest.raises(EmbedderError, match=why):
        await model.embed_documents(texts)
