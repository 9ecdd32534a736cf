"""The exam of embedders: ours pass it, and each fault is caught by the case that names it."""

import os
import subprocess
import sys
import time

import anyio
import numpy as np
import pytest

from airw.embedders import CachedEmbedder, HashingEmbedder, SentenceTransformerEmbedder, embedder_from
from airw.errors import ArgumentError, EmbedderError
from airw.testing import EmbedderSuite

GOOD = HashingEmbedder(64)


def hash_texts(texts):
    return anyio.run(GOOD.embed_documents, texts)  # in a worker thread, which has no event loop of its own


async def hash_texts_async(texts):
    return await GOOD.embed_documents(texts)


OURS = {
    "hashing": EmbedderSuite(HashingEmbedder),
    "sync-function": EmbedderSuite(lambda: embedder_from(hash_texts, id="hashed", dim=64)),
    "async-function": EmbedderSuite(lambda: embedder_from(hash_texts_async, id="hashed", dim=64)),
    "cached": EmbedderSuite(lambda: CachedEmbedder(HashingEmbedder())),
    "one-cache": EmbedderSuite(CachedEmbedder(HashingEmbedder())),
}


def cases(suites):
    for name, suite in suites.items():
        for case in suite.cases:
            yield pytest.param(suite, case, id=f"{name}-{case}")


ON_EVERY_LOOP = {name: OURS[name] for name in ("async-function", "cached")}


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    ("suite", "case"), list(cases({name: OURS[name] for name in OURS if name not in ON_EVERY_LOOP}))
)
async def test_ours_pass(suite, case):
    await suite.check(case)


@pytest.mark.parametrize(("suite", "case"), list(cases(ON_EVERY_LOOP)))
async def test_ours_pass_on_every_event_loop(suite, case):
    await suite.check(case)


@pytest.mark.slow
async def test_a_cache_in_a_file_passes(tmp_path):
    report = await EmbedderSuite(lambda: CachedEmbedder("light", path=tmp_path / "vectors.cache")).run()
    assert report.passed, str(report)


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.asyncio_only  # the exam has run on both event loops, and takes a minute of a processor with this model
async def test_a_real_model_passes(minilm_folder):
    report = await EmbedderSuite(SentenceTransformerEmbedder(minilm_folder)).run()
    assert report.passed, str(report)


# --- faults are caught ----------------------------------------------------------------------------------------------


class Good:
    """An embedder that keeps every promise; each subclass breaks one."""

    id = "good-v1"
    dim = 64

    async def embed_documents(self, texts):
        return await GOOD.embed_documents(texts)

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]


class Reversed(Good):
    async def embed_documents(self, texts):
        return (await super().embed_documents(texts))[::-1]


class SortedByLength(Good):
    async def embed_documents(self, texts):
        rows = await super().embed_documents(texts)
        return rows[np.argsort([len(text) for text in texts], kind="stable")]


class Doubles(Good):
    async def embed_documents(self, texts):
        return (await super().embed_documents(texts)).astype(np.float64)


class Lists(Good):
    async def embed_documents(self, texts):
        return (await super().embed_documents(texts)).tolist()


class TooWide(Good):
    dim = 65


class NotUnit(Good):
    async def embed_documents(self, texts):
        return (await super().embed_documents(texts)) * np.float32(1.01)


class QueryAsRow(Good):
    async def embed_query(self, text):
        return await self.embed_documents([text])


class ZeroQuery(Good):
    async def embed_query(self, text):
        return np.zeros(64, np.float32)


class DependsOnTheBatch(Good):
    async def embed_documents(self, texts):
        rows = (await super().embed_documents(texts)).astype(np.float64)
        rows[:, 0] += 1e-4 * (len(texts) - 1)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class BlocksTheLoop(Good):
    async def embed_documents(self, texts):
        time.sleep(0.3 if len(texts) == 100 else 0)  # noqa: ASYNC251 - the promise it breaks
        return await super().embed_documents(texts)


class NotANumber(Good):
    async def embed_documents(self, texts):
        rows = await super().embed_documents(texts)
        rows[[not text for text in texts]] = np.nan  # as after a division by a length of zero
        return rows


class NoDuplicates(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents(dict.fromkeys(texts))


class Drifting(Good):
    def __init__(self):
        self.calls = 0

    async def embed_documents(self, texts):
        self.calls += 1
        rows = await super().embed_documents(texts)
        return np.roll(rows, self.calls % 2, axis=1)


class MovingId(Drifting):
    @property
    def id(self):
        return f"good-v{self.calls}"

    async def embed_documents(self, texts):
        self.calls += 1
        return await GOOD.embed_documents(texts)


class NoId(Good):
    id = ""


class PathAsId(Good):
    id = os.path.abspath("model")  # noqa: PTH100 - a string is wanted


class WidthAsText(Good):
    dim = "64"


class OwnId(Good):
    @property
    def id(self):
        return f"good-{id(self)}"


class NothingForNothing(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents(texts) if texts else np.array([], np.float32)


class TakesOneString(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents(list(texts))


class ForeignError(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents(["".join(text) for text in texts])


class LongError(Good):
    async def embed_documents(self, texts):
        try:
            return await super().embed_documents(texts)
        except EmbedderError as error:
            raise EmbedderError(f"{error}\nand more") from error


class TakesNumbers(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents([text if isinstance(text, str | bytes) else str(text) for text in texts])


class NoSurrogates(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents([text.encode().decode() for text in texts])


class NoNul(Good):
    async def embed_documents(self, texts):
        if any("\0" in text for text in texts):
            raise EmbedderError("embedded null character")
        return await super().embed_documents(texts)


class NoEmpty(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents([text for text in texts if text.strip()])


class NoLongTexts(Good):
    async def embed_documents(self, texts):
        if max(map(len, texts), default=0) > 50_000:
            raise EmbedderError("too many tokens")
        return await super().embed_documents(texts)


class AtMost512(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents(texts[:512])


class KeepsState(Good):
    async def embed_documents(self, texts):
        self.texts = texts
        await anyio.lowlevel.checkpoint()
        return await super().embed_documents(self.texts)


class StaysBusy(Good):
    busy = False

    async def embed_documents(self, texts):
        if self.busy:
            raise EmbedderError("another call is under way")
        self.busy = True
        await anyio.sleep(0.002)
        rows = await super().embed_documents(texts)
        self.busy = False
        return rows


class HangsAfterwards(Good):
    def __init__(self):
        self.turn = anyio.Semaphore(1)

    async def embed_documents(self, texts):
        await self.turn.acquire()
        await anyio.sleep(0.002)
        rows = await super().embed_documents(texts)
        self.turn.release()
        return rows


class OneArray(Good):
    def __init__(self):
        self.answers = {}

    async def embed_documents(self, texts):
        if tuple(texts) not in self.answers:
            self.answers[tuple(texts)] = await super().embed_documents(texts)
        return self.answers[tuple(texts)]


class Consumes(Good):
    async def embed_documents(self, texts):
        rows = await super().embed_documents(texts)
        if isinstance(texts, list):
            texts.clear()
        return rows


class OnlyLists(Good):
    async def embed_documents(self, texts):
        return await super().embed_documents([] + texts)  # noqa: RUF005 - which fails for a tuple


class NoWidth(Good):
    @property
    def dim(self):
        raise AttributeError("dim")


ROWS = "documents_give_one_finite_row_of_float32_and_length_one_each"
ALONE = "a_vector_is_that_of_its_text_alone_"
BROKEN = [
    (Reversed, ALONE + "in_any_order", "text 0"),
    (SortedByLength, ALONE + "in_any_order", "among 9 others: expected .* to differ by at most 1e-05 .*, got "),
    (Doubles, ROWS, "expected float32, got float64"),
    (Lists, ROWS, "expected a numpy array, got list"),
    (TooWide, ROWS, r"expected 65, got 64"),
    (NotUnit, ROWS, r"expected length 1 or 0 .*, got 1\.01"),
    (QueryAsRow, "a_query_gives_one_vector_of_float32_and_length_one", r"expected \(64,\), got \(1, 64\)"),
    (ZeroQuery, "a_query_gives_one_vector_of_float32_and_length_one", "expected length 1 .*, got 0"),
    (DependsOnTheBatch, ALONE + "beside_a_longer_text", "at most 1e-05"),
    (DependsOnTheBatch, ALONE + "beside_a_shorter_text_and_one_in_capitals", "at most 1e-05"),
    (DependsOnTheBatch, ALONE + "among_texts_of_all_lengths", "at most 1e-05"),
    (BlocksTheLoop, "the_event_loop_keeps_running_while_a_batch_is_embedded", r"at most 0\.25 s, got [\d.]+ s"),
    (NotANumber, ROWS, "vector of '', got nan"),
    (NoDuplicates, ALONE + "as_often_as_it_is_there", r"expected 21 vectors, got shape \(10, 64\)"),
    (Drifting, "a_query_asked_twice_gives_the_same_vector", "a second time: expected .* at most 1e-05"),
    (MovingId, "id_and_dim_are_there_and_stay_the_same", "expected 'good-v0', got 'good-v2'"),
    (NoId, "id_and_dim_are_there_and_stay_the_same", "got ''"),
    (PathAsId, "id_and_dim_are_there_and_stay_the_same", "got the path"),
    (WidthAsText, "id_and_dim_are_there_and_stay_the_same", "got '64'"),
    (OwnId, "another_embedder_made_the_same_way_has_the_same_id_and_the_same_vectors", "expected 'good-.*, got 'good-"),
    (NothingForNothing, "no_texts_give_no_rows_of_the_right_width", r"expected \(0, 64\), got \(0,\)"),
    (TakesOneString, "one_string_in_place_of_a_list_is_refused", "expected EmbedderError, got no error"),
    (ForeignError, "what_is_no_string_is_refused", "expected EmbedderError, got TypeError"),
    (LongError, "one_string_in_place_of_a_list_is_refused", "expected a message of one line, got "),
    (TakesNumbers, "what_is_no_string_is_refused", r"\[None\]\): expected"),
    (NoSurrogates, "half_characters_are_embedded_or_refused", "expected no error, got UnicodeEncodeError"),
    (NoNul, ALONE + "among_empty_texts_line_breaks_emoji_nul_and_other_scripts", "embedded null character"),
    (NoEmpty, ALONE + "among_empty_texts_line_breaks_emoji_nul_and_other_scripts", "expected 21 vectors, got "),
    (NoLongTexts, ALONE + "beside_a_very_long_text", "too many tokens"),
    (AtMost512, ALONE + "among_a_thousand", r"expected 1000 vectors, got shape \(512, 64\)"),
    (KeepsState, "concurrent_calls_each_get_their_own_answer", "vectors, got shape|during other calls"),
    (StaysBusy, "a_cancelled_call_leaves_the_embedder_usable", "another call is under way"),
    (HangsAfterwards, "a_cancelled_call_leaves_the_embedder_usable", "got none in"),
    (OneArray, "an_answer_is_the_callers_own", "after an answer was changed"),
    (Consumes, "texts_are_read_and_not_changed_as_a_list_or_a_tuple", r"expected \['how to .*, got \[\]"),
    (OnlyLists, "texts_are_read_and_not_changed_as_a_list_or_a_tuple", "TypeError"),
    (NoWidth, "the_protocol_is_there_method_by_method", "expected an Embedder, got NoWidth"),
]


WAITING = {BlocksTheLoop, HangsAfterwards}  # the exam waits for these


def case_named(name, suite):
    [case] = [case for case in suite.cases if str(case) == name]
    return case


@pytest.mark.asyncio_only  # the faults are the same on every event loop
@pytest.mark.parametrize(
    ("broken", "name", "why"),
    [
        pytest.param(broken, *rest, id=f"{broken.__name__}-{rest[0]}", marks=[pytest.mark.slow] * (broken in WAITING))
        for broken, *rest in BROKEN
    ],
)
async def test_a_broken_promise_is_caught_by_the_case_that_names_it(broken, name, why, monkeypatch):
    if broken is HangsAfterwards:
        monkeypatch.setattr(EmbedderSuite, "patience", 0.5)
    suite = EmbedderSuite(broken)
    with pytest.raises(AssertionError, match=f"^{name}: .*({why})") as caught:
        await suite.check(case_named(name, suite))
    assert "\n" not in str(caught.value)


def test_every_case_catches_some_broken_embedder():
    assert {str(case) for case in EmbedderSuite(Good).cases} == {name for _, name, _ in BROKEN}


async def test_a_good_embedder_passes_every_case():
    report = await EmbedderSuite(Good).run()
    assert report.passed, str(report)
    assert len(report.outcomes) == len(EmbedderSuite(Good).cases)


# --- the suite ------------------------------------------------------------------------------------------------------


async def test_a_report_continues_after_a_failure_and_prints_each_promise_and_the_reason():
    report = await EmbedderSuite(Doubles(), max_gap=None).run()
    assert not report.passed
    assert [outcome.name for outcome in report.failed] == [
        ROWS,
        "a_query_gives_one_vector_of_float32_and_length_one",
        "no_texts_give_no_rows_of_the_right_width",
    ]
    printed = str(report)
    assert printed.startswith("embedder: 18 passed, 3 failed, 2 left out")
    assert "`embed_documents` returns one float32 row per text, finite and of length 1 or 0." in printed
    assert "expected float32, got float64" in printed
    assert "needs factory" in printed
    assert "needs max_gap" in printed


@pytest.mark.slow
async def test_one_embedder_takes_all_cases_and_those_of_a_factory_are_closed():
    closed = []

    class Closing(Good):
        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            closed.append(self)

    suite = EmbedderSuite(Closing)
    for case in suite.cases:
        await suite.check(case)
    assert len(set(closed)) == len(closed) == len(suite.cases) + 1  # one case needs a second embedder
    closed.clear()
    assert (await EmbedderSuite(Closing()).run()).passed
    assert closed == []


async def test_the_bounds_are_those_of_the_options():
    name = ALONE + "beside_a_longer_text"
    loose = EmbedderSuite(DependsOnTheBatch, tolerance=0.1)
    await loose.check(case_named(name, loose))
    patient = EmbedderSuite(BlocksTheLoop, max_gap=10)
    await patient.check(case_named("the_event_loop_keeps_running_while_a_batch_is_embedded", patient))


@pytest.mark.parametrize(
    ("options", "name"),
    [({"embedder": "light"}, "embedder"), ({"tolerance": -1}, "tolerance"), ({"max_gap": "1"}, "max_gap")],
)
def test_unusable_options_are_refused_on_construction(options, name):
    with pytest.raises(ArgumentError, match=name):
        EmbedderSuite(**{"embedder": Good, **options})


@pytest.mark.slow
def test_the_exam_needs_no_test_framework():
    code = (
        "import sys, anyio; from airw.testing import EmbedderSuite; from airw.embedders import HashingEmbedder;"
        "report = anyio.run(EmbedderSuite(HashingEmbedder, max_gap=None).run); print(report.passed);"
        "print({'pytest', 'hypothesis', '_pytest'} & {*sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["True", "set()"]
