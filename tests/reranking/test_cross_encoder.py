"""The cross-encoder with a tiny model of random weights, created here without a download."""

import importlib.util
import json
import math
import shutil
import threading
from functools import partial

import anyio
import anyio.to_thread
import numpy as np
import pytest

from airw import build, from_mapping
from airw.errors import RerankerError, RerankerUnavailable
from airw.reranking import CrossEncoderReranker, is_anonymous, rerank_tag, resolve_reranker, score_texts
from airw.stores import MemoryStore
from tests.support.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.models, pytest.mark.slow]

QUERY = "rotate the signing keys"
WORDS = "rotate the signing keys bake a loaf of bread stars and planets".split()  # noqa: SIM905 - easier to read
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def texts_of(count):
    """Return texts of one to twelve words, in cycles of all lengths."""
    return [" ".join(WORDS[(at * 5 + step) % 12] for step in range(1 + at % 12)) for at in range(count)]


@pytest.fixture(scope="module")
def libraries():
    """Go offline, or skip the test if the libraries of the model are not installed."""
    for needed in ("torch", "transformers", "sentence_transformers"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield


def make_model(folder, *, labels=1, **settings):
    """Save a model whose weights are so large that texts get different scores.

    `settings` are added to its configuration.
    """
    import torch
    import transformers

    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    transformers.BertTokenizer.from_pretrained(str(folder)).save_pretrained(folder)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=0.7,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    if settings:
        saved = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**saved, **settings}))
    return folder


@pytest.fixture(scope="module")
def folder(libraries, tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def reranker(folder):
    return CrossEncoderReranker(folder)


def logits_of(folder, texts):
    """Return the logits of the model, computed without sentence-transformers and text by text."""
    import torch
    import transformers

    tokenizer = transformers.BertTokenizer.from_pretrained(str(folder))
    model = transformers.BertForSequenceClassification.from_pretrained(str(folder)).eval()
    with torch.inference_mode():
        return [model(**tokenizer(QUERY, text, return_tensors="pt")).logits[0, 0].item() for text in texts]


# --- scores ---------------------------------------------------------------------------------------------------------


async def test_scores_are_the_sigmoid_of_the_logits_in_the_order_of_the_texts(folder, reranker):
    texts = texts_of(40)
    scores = await reranker(QUERY, texts)
    expected = [1 / (1 + math.exp(-logit)) for logit in logits_of(folder, texts)]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert all(0 < score < 1 for score in scores)
    assert max(scores) - min(scores) > 0.1
    assert {type(score) for score in scores} == {float}


async def test_the_model_reads_the_query_first_and_the_text_second(reranker):
    assert abs((await reranker("bread", ["stars"]))[0] - (await reranker("stars", ["bread"]))[0]) > 1e-3


@pytest.mark.parametrize("size", [1, 3, 32, 1000])
async def test_scores_do_not_depend_on_the_batch_size(folder, reranker, size):
    texts = texts_of(50)
    scores = await CrossEncoderReranker(folder, batch_size=size)(QUERY, texts)
    np.testing.assert_allclose(scores, await reranker(QUERY, texts), atol=1e-5)


@pytest.mark.parametrize("activation", ["torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"])
async def test_a_model_with_its_own_activation_gets_no_second_sigmoid(libraries, reranker, tmp_path, activation):
    own = make_model(tmp_path / "own", sentence_transformers={"activation_fn": activation, "version": "5.0.0"})
    np.testing.assert_allclose(
        await CrossEncoderReranker(own)(QUERY, texts_of(9)), await reranker(QUERY, texts_of(9)), atol=1e-6
    )


async def test_a_text_that_the_model_scores_with_nan_is_an_error(folder):
    import torch

    broken = CrossEncoderReranker(folder)
    await broken(QUERY, ["bread"])
    with torch.no_grad():
        broken._model[0].auto_model.bert.embeddings.word_embeddings.weight[VOCABULARY.index("bread")] = math.nan
    for call in (broken, partial(score_texts, broken)):
        with pytest.raises(RerankerError, match=r"must return finite numbers, not nan \(text 1\)"):
            await call(QUERY, ["stars", "a loaf of bread", "planets", "bread"])
    assert len(await broken(QUERY, ["stars", "planets"])) == 2


async def test_extreme_logits_become_zero_or_one_without_a_warning(folder, monkeypatch):
    extreme = np.array([[-1e30], [-800], [-math.inf], [math.inf], [1e30]], np.float32)
    reranker = CrossEncoderReranker(folder)
    await reranker(QUERY, ["loads the model"])
    monkeypatch.setattr(reranker._model, "predict", lambda *_, **__: extreme)
    scores = await reranker(QUERY, ["same length"] * 5)
    assert scores == [0.0, 0.0, 0.0, 1.0, 1.0]


async def test_an_error_of_the_model_names_it_and_is_the_cause(folder, monkeypatch):
    def run_out_of_memory(*_, **__):
        raise RuntimeError("out of memory")

    reranker = CrossEncoderReranker(folder)
    await reranker(QUERY, ["loads the model"])
    monkeypatch.setattr(reranker._model, "predict", run_out_of_memory)
    with pytest.raises(RerankerError, match=r"the reranker 'tiny' failed: .*out of memory") as caught:
        await reranker(QUERY, ["bread"])
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_a_text_longer_than_the_input_of_the_model_is_cut(reranker):
    (score,) = await reranker(QUERY, ["bread " * 5_000])
    assert 0 < score < 1


async def test_a_classifier_of_several_labels_is_refused(libraries, tmp_path):
    three = make_model(tmp_path / "three", labels=3)
    with pytest.raises(RerankerError, match=r"'three' returns \(3,\) numbers a text, not one: is it a classifier\?"):
        await CrossEncoderReranker(three)(QUERY, ["bread", "stars"])


@pytest.mark.parametrize(
    ("query", "texts", "why"),
    [
        (QUERY, "bread", "not one string"),
        (QUERY, ["fine", 3], r"takes strings, not 3 \(text 1 of 2\)"),
        (QUERY, ["bread", "bread \ud800"], "text 1: it contains an unpaired surrogate at position 6"),
        (3, ["bread"], "the query: it contains 3, which is not a string"),
    ],
)
async def test_values_that_are_not_strings_are_refused(reranker, query, texts, why):
    with pytest.raises(RerankerError, match=why):
        await reranker(query, texts)


# --- how it runs ----------------------------------------------------------------------------------------------------


async def test_without_texts_no_model_is_loaded(folder):
    fresh = CrossEncoderReranker(folder)
    assert await fresh(QUERY, []) == []
    assert fresh._model is None


async def test_concurrent_calls_load_one_model_and_do_not_mix_their_scores(folder, reranker, monkeypatch):
    loads, original = [], CrossEncoderReranker._make_model

    def load_and_record(self, library, source):
        loads.append(source)
        return original(self, library, source)

    monkeypatch.setattr(CrossEncoderReranker, "_make_model", load_and_record)
    fresh, answers = CrossEncoderReranker(folder, batch_size=4), {}

    async def ask(query):
        answers[query] = await fresh(query, texts_of(11))

    async with anyio.create_task_group() as group:
        for query in WORDS[:8]:
            group.start_soon(ask, query)
    assert loads == [str(folder)]
    for query in WORDS[:8]:
        np.testing.assert_allclose(answers[query], await reranker(query, texts_of(11)), atol=1e-5)


def test_one_reranker_serves_several_event_loops(reranker):
    async def use():
        return await reranker(QUERY, texts_of(5))

    assert len({tuple(anyio.run(use, backend=backend)) for backend in ("asyncio", "trio", "asyncio")}) == 1


@pytest.fixture
async def slow_batches(folder, monkeypatch):
    """Return a reranker whose batches wait for an event, that event, and a list of them."""
    reranker = CrossEncoderReranker(folder, batch_size=1)
    await reranker(QUERY, ["loads the model"])
    original, may_go, batches = reranker._model.predict, threading.Event(), []

    def wait_and_predict(pairs, **options):
        batches.append(pairs)
        may_go.wait(PATIENCE)
        return original(pairs, **options)

    monkeypatch.setattr(reranker._model, "predict", wait_and_predict)
    return reranker, may_go, batches


async def test_a_cancelled_call_ends_after_the_batch_that_runs_and_leaves_no_thread(slow_batches):
    reranker, may_go, batches = slow_batches
    async with anyio.create_task_group() as group:
        group.start_soon(score_texts, reranker, QUERY, texts_of(500))
        await wait_for(lambda: batches)
        group.cancel_scope.cancel()
        may_go.set()
    assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    await anyio.sleep(0.1)
    assert len(batches) == 1
    assert len(await reranker(QUERY, ["bread"])) == 1


async def test_a_short_call_does_not_wait_for_all_of_a_long_one(slow_batches):
    reranker, may_go, batches = slow_batches
    finished = []

    async def ask(name, count):
        await reranker(QUERY, texts_of(count))
        finished.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "long", 20)
        await wait_for(lambda: batches)
        group.start_soon(ask, "short", 1)
        await anyio.wait_all_tasks_blocked()
        may_go.set()
    assert finished == ["short", "long"]


async def test_the_loop_keeps_ticking_while_texts_are_scored(reranker):
    await reranker(QUERY, ["loads the model"])
    ticks = []

    async def tick():
        while True:
            ticks.append(await anyio.sleep(0.001))

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await reranker(QUERY, texts_of(1_000))
        group.cancel_scope.cancel()
    assert len(ticks) > 10


# --- identity -------------------------------------------------------------------------------------------------------


def test_the_id_of_a_folder_depends_on_its_weights_and_not_on_its_path(folder, tmp_path):
    same = shutil.copytree(folder, tmp_path / "elsewhere")
    other = shutil.copytree(folder, tmp_path / "changed")
    with (other / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)
        weights.seek(-1, 2)
        weights.write(bytes([last[0] ^ 1]))
    ids = [CrossEncoderReranker(place).id for place in (folder, same, other)]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith("ce:bert-16@")
    assert str(tmp_path) not in "".join(ids)
    assert not is_anonymous(rerank_tag(CrossEncoderReranker(folder)))


def test_a_specification_with_a_folder_always_returns_the_same_reranker(folder):
    first = resolve_reranker(f"cross-encoder:{folder}")
    assert first == CrossEncoderReranker(folder)
    assert resolve_reranker(f"cross-encoder:{folder}") is first


async def test_a_search_is_reranked_by_a_specification(folder, reranker):
    source = from_mapping({"keys": QUERY, "bread": "bake a loaf of bread", "stars": "stars and planets"}, name="notes")
    async with build(source, store=MemoryStore(), embedder="light") as corpus:
        hits = await corpus.search(QUERY, k=2, mode="dense", rerank=f"cross-encoder:{folder}")
    best = sorted(await reranker(QUERY, [QUERY, "bake a loaf of bread", "stars and planets"]), reverse=True)
    np.testing.assert_allclose([hit.score for hit in hits], best[:2], atol=1e-5)


@pytest.mark.parametrize("contents", [None, {}, {"config.json": "{"}, {"model.safetensors": ""}])
async def test_a_folder_without_a_model_is_an_error_with_a_remedy(libraries, tmp_path, contents):
    place = tmp_path / "empty"
    if contents is not None:
        place.mkdir()
    for name, text in (contents or {}).items():
        (place / name).write_text(text)
    reranker = CrossEncoderReranker(place)
    for ask in (lambda: rerank_tag(reranker), lambda: None):
        with pytest.raises(RerankerUnavailable, match=r"empty'.*; pass a folder saved by.*CrossEncoder") as caught:
            ask() or await reranker(QUERY, ["bread"])
        assert "\n" not in str(caught.value)
        assert "embedder" not in str(caught.value)


async def test_a_name_that_is_not_on_the_hub_is_an_error_with_a_remedy(libraries):
    with pytest.raises(RerankerUnavailable, match=r"no-such-model.*not in the cache.*pass a folder") as caught:
        await score_texts(CrossEncoderReranker("no-such-org/no-such-model"), QUERY, ["bread"])
    assert "\n" not in str(caught.value)
