"""Rerankers of all kinds: their names, calls and checks, and boosts by dependency."""

import functools
import math
import sys
import threading
from collections import deque
from fractions import Fraction
from itertools import repeat
from types import ModuleType

import anyio
import anyio.lowlevel
import ir
import numpy as np
import pytest
from hypothesis import given, strategies as st

import airw
from airw import SearchHit
from airw.errors import ArgumentError, ArgumentKindError, EmbedderError, RerankerError, RerankerUnavailable
from airw.reranking import (
    RERANK_TEXTS,
    CrossEncoderReranker,
    calibration_key,
    dependency_evidence_boost,
    is_anonymous,
    rerank_tag,
    resolve_reranker,
    score_texts,
)
from tests.support.waiting import wait_until

TEXTS = ["rotate keys", "bread", "keys"]


def count_shared(query, texts):
    """Return the number of shared words; as a module function this reranker has a name."""
    return [float(len({*query.split()} & {*text.split()})) for text in texts]


async def count_shared_async(query, texts):
    await anyio.lowlevel.checkpoint()
    return count_shared(query, texts)


class Scorer:
    def score(self, query, texts):
        return count_shared(query, texts)

    @staticmethod
    def static(query, texts):
        return count_shared(query, texts)

    def __call__(self, query, texts):
        return count_shared(query, texts)


class AsyncScorer(Scorer):
    async def __call__(self, query, texts):
        return await count_shared_async(query, texts)


def with_id(id):
    scorer = Scorer()
    scorer.id = id
    return scorer


# --- specifications -------------------------------------------------------------------------------------------------


def test_none_and_callables_are_returned_unchanged():
    assert resolve_reranker(None) is None
    for callable_ in (count_shared, count_shared_async, Scorer(), Scorer().score, len):
        assert resolve_reranker(callable_) is callable_


@pytest.mark.parametrize("spec", ["", "bm25", "cross-encoder:", "cross-encoder: ", "Cross-Encoder", "http://host/v1"])
def test_an_unknown_string_is_refused_with_a_remedy(spec):
    with pytest.raises(ArgumentError, match=r"rerank must be 'cross-encoder', .* or a callable") as caught:
        resolve_reranker(spec)
    assert not isinstance(caught.value, TypeError)


@pytest.mark.parametrize("spec", [3, True, [], ["cross-encoder"], b"cross-encoder"])
def test_a_value_that_is_neither_string_nor_callable_is_refused(spec):
    with pytest.raises(ArgumentKindError, match="rerank must be"):
        resolve_reranker(spec)


def test_a_missing_extra_is_an_error_with_the_command_and_without_a_substitute(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for spec in ("cross-encoder", "cross-encoder:some/model"):
        with pytest.raises(RerankerUnavailable, match=r"pip install 'airw\[sentence-transformers\]'"):
            resolve_reranker(spec)
    with pytest.raises(ValueError, match="sentence-transformers"):
        resolve_reranker("cross-encoder")


async def test_a_cross_encoder_without_its_extra_fails_when_it_is_called(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(RerankerUnavailable, match=r"pip install 'airw\[sentence-transformers\]'"):
        await score_texts(CrossEncoderReranker(), "q", ["a"])


def test_each_model_has_one_cross_encoder(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", spec_only("sentence_transformers"))
    default, other = resolve_reranker("cross-encoder"), resolve_reranker("cross-encoder:org/other")
    assert isinstance(default, CrossEncoderReranker)
    assert resolve_reranker("cross-encoder:cross-encoder/ms-marco-MiniLM-L-6-v2") is default
    assert resolve_reranker("cross-encoder:org/other") is other
    assert default != other
    assert (default.id, other.id) == ("ce:cross-encoder/ms-marco-MiniLM-L-6-v2", "ce:org/other")


def spec_only(name):
    """Return a module that seems to be installed as long as nobody imports it."""
    module = ModuleType(name)
    module.__spec__ = object()
    return module


# --- calling --------------------------------------------------------------------------------------------------------

KINDS = [
    count_shared,
    count_shared_async,
    Scorer(),
    AsyncScorer(),
    Scorer().score,
    functools.partial(count_shared),
    functools.partial(count_shared_async),
    lambda query, texts: count_shared_async(query, list(texts)),
]


@pytest.mark.parametrize("reranker", KINDS)
async def test_sync_and_async_functions_objects_and_methods_are_rerankers(reranker):
    assert await score_texts(reranker, "rotate the keys", TEXTS) == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "answer",
    [
        (2, 0, 1),
        deque([2.0, 0.0, 1.0]),
        np.array([2, 0, 1], np.int8),
        np.array([2, 0, 1], np.float16),
        [np.float32(2), np.int64(0), Fraction(1)],
    ],
)
async def test_numbers_of_any_kind_become_floats(answer):
    scores = await score_texts(lambda query, texts: answer, "q", TEXTS)
    assert scores == [2.0, 0.0, 1.0]
    assert {type(score) for score in scores} == {float}


async def test_without_texts_the_reranker_is_not_called():
    assert await score_texts(lambda query, texts: 1 / 0, "q", []) == []


async def test_a_reranker_receives_the_query_and_a_copy_of_the_texts():
    texts, seen = list(TEXTS), []

    def greedy(query, given):
        seen.append((query, list(given)))
        given.clear()
        return [0.0] * 3

    await score_texts(greedy, "the query", texts)
    assert seen == [("the query", TEXTS)]
    assert texts == TEXTS


UNUSABLE = {
    "NaN": ([1.0, math.nan, 0.5], r"must return finite numbers, not nan \(text 1\)"),
    "infinity": ([1.0, 0.5, math.inf], r"must return finite numbers, not inf \(text 2\)"),
    "minus infinity": (np.array([-math.inf, 0, 0]), r"must return finite numbers, not -inf \(text 0\)"),
    "too few": ([1.0, 2.0], "returned 2 scores for 3 texts"),
    "too many": ([1.0] * 4, "returned 4 scores for 3 texts"),
    "none": ([], "returned 0 scores for 3 texts"),
    "nothing": (None, "must return a list of numbers, one a text, not None"),
    "a number": (0.5, "must return a list"),
    "a numpy number": (np.float32(0.5), "must return a list"),
    "a string": ("123", "must return a list"),
    "bytes": (b"123", "must return a list"),
    "a mapping": ({0: 1.0, 1: 2.0, 2: 3.0}, "must return a list"),
    "a set": ({1.0, 2.0, 3.0}, "must return a list"),
    "without end": (repeat(1.0), "must return a list"),
    "a bool": ([0.1, True, 0.2], r"must return finite numbers, not True \(text 1\)"),
    "bools": (np.array([True, False, True]), r"not True \(text 0\)"),
    "a word": ([0.1, 0.2, "0.3"], r"not '0.3' \(text 2\)"),
    "nothing inside": ([None, 0.2, 0.3], r"not None \(text 0\)"),
    "complex": ([1j, 0.2, 0.3], r"not 1j \(text 0\)"),
    "columns": (np.ones((3, 1)), r"not \[1.0\] \(text 0\)"),
    "endless": ([0.1, 10**400, 0.3], r"not 1000.*… \(text 1\)"),
}


@pytest.mark.parametrize(("answer", "why"), UNUSABLE.values(), ids=UNUSABLE)
async def test_invalid_scores_are_an_error_that_names_the_reranker(answer, why):
    def odd(query, texts):
        return answer

    odd.id = "odd-1"
    with pytest.raises(RerankerError, match=f"the reranker 'odd-1' .*{why}") as caught:
        await score_texts(odd, "q", TEXTS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [RuntimeError("out of\nmemory"), StopIteration(3), KeyError("q"), TimeoutError()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_error_of_a_third_party_reranker_is_wrapped_with_its_cause(error, is_async):
    def broken(query, texts):
        raise error

    async def broken_async(query, texts):
        raise error

    with pytest.raises(RerankerError, match=r"the reranker '.*broken.*' failed: ") as caught:
        await score_texts(broken_async if is_async else broken, "q", TEXTS)
    cause = caught.value.__cause__
    assert cause is error or isinstance(cause, RuntimeError)  # Python turns a StopIteration into a RuntimeError
    assert "\n" not in str(caught.value)


async def test_an_error_of_this_library_is_not_wrapped():
    async def embeds(query, texts):
        raise EmbedderError("the embedder is away")

    with pytest.raises(EmbedderError, match="is away"):
        await score_texts(embeds, "q", TEXTS)


async def test_an_object_without_a_working_repr_is_named_in_the_error():
    class Hidden:
        @property
        def id(self):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

        def __call__(self, query, texts):
            return []

    with pytest.raises(RerankerError, match=r"the reranker <.*Hidden object .*> returned 0 scores for 3 texts"):
        await score_texts(Hidden(), "q", TEXTS)


async def test_the_name_is_read_only_for_an_error():
    """Computing it may be expensive: it may be the hash of a model's weights."""

    class Named(Scorer):
        @property
        def id(self):
            pytest.fail("the name was asked for")

    assert await score_texts(Named(), "keys", TEXTS) == [1.0, 0.0, 1.0]


async def test_cancelling_is_not_a_failure_of_the_reranker():
    async def endless(query, texts):
        await anyio.sleep_forever()

    with anyio.move_on_after(0.05) as scope:
        await score_texts(endless, "q", TEXTS)
    assert scope.cancelled_caught


async def test_a_blocking_reranker_does_not_block_the_event_loop():
    ticks, threads = [], []

    def slow(query, texts):
        threads.append(threading.current_thread())
        wait_until(lambda: len(ticks) > 3)
        return [0.0] * len(texts)

    async def tick():
        while True:
            ticks.append(await anyio.sleep(0.001))

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await score_texts(slow, "q", TEXTS)
        group.cancel_scope.cancel()
    assert threads[0] is not threading.main_thread()


# --- names ----------------------------------------------------------------------------------------------------------


def make_namesake(name):
    """Return a module with a function `score`."""
    module = ModuleType(name)
    exec("def score(query, texts): return [0.0] * len(texts)", vars(module))
    return module


@pytest.fixture
def modules(monkeypatch):
    made = [make_namesake(name) for name in ("scorers_a", "scorers_b")]
    for module in made:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_module_functions_are_named_by_module_and_function(modules):
    tags = [rerank_tag(module.score) for module in modules]
    assert tags == ["rerank-scorers_a.score+surface", "rerank-scorers_b.score+surface"]
    assert not any(map(is_anonymous, tags))


def test_a_static_method_is_named_by_its_path(modules):
    modules[0].Scorer = type("Scorer", (), {"static": staticmethod(modules[0].score)})
    modules[0].score.__qualname__ = "Scorer.static"
    assert rerank_tag(modules[0].Scorer.static) == "rerank-scorers_a.Scorer.static+surface"


def closure(weight):
    def score(query, texts):
        return [weight] * len(texts)

    return score


def disguise_closure(weight):
    """Return a closure that has the name of another function."""
    return functools.wraps(count_shared)(closure(weight))


ANONYMOUS = {
    "lambda": lambda query, texts: [0.0] * len(texts),
    "closure": closure(1),
    "a closure that poses as another": disguise_closure(1),
    "partial": functools.partial(count_shared),
    "bound method": Scorer().score,
    "instance": Scorer(),
    "id no string": with_id(7),
    "id blank": with_id("  "),
}


@pytest.mark.parametrize("reranker", ANONYMOUS.values(), ids=ANONYMOUS)
def test_a_reranker_without_a_name_of_its_own_is_anonymous(reranker):
    for text in (*RERANK_TEXTS, count_shared):
        tag = rerank_tag(reranker, text)
        assert is_anonymous(tag)
        assert is_anonymous(calibration_key("hybrid", tag))


def test_a_function_of_the_main_module_is_anonymous(monkeypatch):
    main = make_namesake("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert is_anonymous(rerank_tag(main.score))
    main.score.id = "mine-1"
    assert rerank_tag(main.score) == "rerank-mine-1+surface"


def test_an_object_with_an_id_is_named_by_it():
    assert rerank_tag(with_id("org/model")) == "rerank-org%2Fmodel+surface"
    assert not is_anonymous(rerank_tag(with_id("~anonymous")))


def test_without_a_reranker_there_is_no_tag():
    assert rerank_tag(None) is None
    assert not is_anonymous(None)


def test_the_text_that_is_read_is_part_of_the_tag(modules):
    one = with_id("m")
    assert rerank_tag(one, "artifact") == "rerank-m+artifact"
    assert rerank_tag(one, "artifact", max_chars=500) == "rerank-m+artifact@500"
    assert rerank_tag(one, "surface", max_chars=500) == "rerank-m+surface"
    assert rerank_tag(one, modules[0].score) == "rerank-m+fn-scorers_a.score"
    assert is_anonymous(rerank_tag(one, lambda corpus, record: record.text))


@pytest.mark.parametrize(
    "options",
    [{"rerank_text": "body"}, {"rerank_text": None}, {"rerank_text": 3}, {"max_chars": 0}, {"max_chars": True}],
)
def test_invalid_settings_are_refused_even_without_a_reranker(options):
    for reranker in (None, count_shared):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            rerank_tag(reranker, **options)


ids = st.text(min_size=1, max_size=200).filter(str.strip) | st.sampled_from(["a/b", "a-b", "a+artifact", "a~b", "A/B"])


@given(st.lists(st.tuples(ids, st.sampled_from([*RERANK_TEXTS, "fn"])), min_size=2, max_size=6, unique=True))
def test_different_names_give_different_tags_that_are_safe_and_short(pairs):
    tags = [rerank_tag(with_id(id), with_id(id + "text") if text == "fn" else text) for id, text in pairs]
    assert len({*tags}) == len(tags)
    for tag in tags:
        assert len(tag) <= 120
        assert tag.isascii()
        assert not {*tag} & {*'/\\ :*?"<>|\n\0'}
        assert not is_anonymous(tag)


def test_a_long_tag_is_shortened_and_still_distinct_and_still_anonymous():
    tags = [rerank_tag(with_id("m" * 200 + end)) for end in "ab"]
    assert len({*tags}) == 2
    assert {len(tag) for tag in tags} == {120}
    long = [with_id("t" * 200 + end) for end in "ab"]
    anonymous = [rerank_tag(Scorer(), text) for text in long] + [rerank_tag(one, Scorer()) for one in long]
    assert len({*anonymous}) == 4
    assert all(is_anonymous(tag) and len(tag) <= 120 for tag in anonymous)


# --- keys -----------------------------------------------------------------------------------------------------------


def test_the_key_of_a_plain_search_is_its_mode_like_in_ir():
    for mode in ("dense", "lexical", "hybrid"):
        assert calibration_key(mode) == ir.calibration_key(mode) == mode
        assert calibration_key(mode, "rerank-m+artifact") == ir.calibration_key(mode, "rerank-m+artifact")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"fusion": "blend"}, "hybrid+blend"),
        ({"fusion": "blend", "alpha": 0.3}, "hybrid+blend+alpha=0.3"),
        ({"fusion": "blend", "bm25_sat_k": 4}, "hybrid+blend+bm25_sat_k=4.0"),
        ({"fusion": "blend", "alpha": 1, "bm25_sat_k": 4.0}, "hybrid+blend+alpha=1.0+bm25_sat_k=4.0"),
        ({"fusion": "blend", "alpha": 0.5, "bm25_sat_k": 8, "rrf_k": 20}, "hybrid+blend"),
        ({"rrf_k": 20}, "hybrid+rrf_k=20"),
        ({"rrf_k": 60, "alpha": 0.5, "bm25_sat_k": 1.0}, "hybrid"),
        ({"alpha": 0.1}, "hybrid+alpha=0.1"),
    ],
)
def test_a_hybrid_search_on_another_scale_has_another_key(options, key):
    assert calibration_key("hybrid", **options) == key


@pytest.mark.parametrize("options", [{"fusion": "blend", "alpha": 0.3}, {"rrf_k": 20}])
def test_the_fusion_is_not_in_the_key_if_it_does_not_score(options):
    assert calibration_key("dense", **options) == "dense"
    assert calibration_key("lexical", **options) == "lexical"
    assert calibration_key("hybrid", "rerank-m+surface", **options) == "hybrid+rerank-m+surface"


def test_an_unknown_fusion_is_refused():
    with pytest.raises(ArgumentError, match="fusion must be one of 'scores', 'ranks', 'rrf', 'blend'"):
        calibration_key("hybrid", fusion="max")


# --- dependencies ---------------------------------------------------------------------------------------------------


def hit(deps):
    return SearchHit("a", "document", 0.5, "", {"deps": deps})


@pytest.mark.parametrize(
    ("deps", "n"),
    [
        (["NetworkX>=3", "anyio"], 1),
        (["scikit_learn[extra]>=1 ; python_version>'3'", "networkx"], 2),
        (["Scikit.Learn", "scikit--learn", "SCIKIT_LEARN"], 1),
        ("networkx", 1),
        (("networkx @ https://host/x.whl",), 1),
        ({"networkx"}, 1),
        ([], 0),
        (None, 0),
        (["", "[x]", 3, None, ["networkx"]], 0),
        ({"networkx": ">=3"}, 0),
        (3, 0),
        ("networkx-extra", 0),
    ],
)
def test_a_boost_counts_the_libraries_in_any_spelling(deps, n):
    for saturate in (1, 2, 3):
        boost = dependency_evidence_boost(["networkx", "Scikit-Learn", " "], weight=0.3, saturate=saturate)
        assert boost(hit(deps)) == pytest.approx(0.3 * min(n, saturate) / saturate)


requirements = st.lists(
    st.sampled_from(
        ["numpy", "NumPy>=2", "scikit_learn", "Scikit-Learn[x]~=1", "anyio;python_version>'3'", "zope.event"]
    )
)


@given(requirements, st.sets(st.sampled_from(["numpy", "scikit.learn", "ANYIO", "zope-event"])), st.integers(1, 4))
def test_a_boost_equals_the_one_of_ir(deps, libraries, saturate):
    options = {"weight": 0.25, "saturate": saturate, "deps_field": "deps"}
    theirs = ir.dependency_evidence_boost(libraries, **options)
    assert dependency_evidence_boost(libraries, **options)(hit(deps)) == pytest.approx(theirs(hit(deps)))


def test_a_boost_reads_the_given_field_and_may_be_negative():
    boost = dependency_evidence_boost({"numpy"}, weight=-0.2, deps_field="requires")
    assert boost(SearchHit("a", "document", 0.5, "", {"requires": ["numpy"]})) == -0.2
    assert boost(hit(["numpy"])) == 0.0
    assert boost == dependency_evidence_boost(["NumPy"], weight=-0.2, deps_field="requires")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"relevant_libs": "numpy"}, TypeError),
        ({"relevant_libs": [3]}, TypeError),
        ({"weight": math.nan}, ValueError),
        ({"weight": math.inf}, ValueError),
        ({"weight": True}, ValueError),
        ({"weight": "1"}, ValueError),
        ({"saturate": 0}, ValueError),
        ({"saturate": 1.5}, ValueError),
        ({"deps_field": ""}, ValueError),
        ({"deps_field": None}, ValueError),
    ],
)
def test_an_invalid_boost_is_refused_when_it_is_created(options, kind):
    with pytest.raises(kind, match=next(iter(options))) as caught:
        dependency_evidence_boost(**{"relevant_libs": ["numpy"], "weight": 0.1, **options})
    assert isinstance(caught.value, airw.errors.ArgumentError)


@pytest.mark.parametrize("options", [{"model": ""}, {"model": 3}, {"batch_size": 0}, {"batch_size": True}])
def test_invalid_options_of_a_cross_encoder_are_refused_when_it_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        CrossEncoderReranker(**options)
