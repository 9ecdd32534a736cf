"""Records from functions, references and lists: artifacts, problems and threads."""

import itertools
import math
import sys
import threading
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Chunked, WholeText
from airw.protocols import ArtifactIds, ask
from airw.sources import CorpusSource, from_records, split_reference
from airw.stores import MemoryStore
from airw.values import Artifact, ItemProblem
from tests.support.drawing import examples
from tests.support.reading import read, read_reasons

RECORDS = [{"id": "a", "text": "alpha", "year": 2026}, {"id": 7, "text": "beta", "tags": ["x"]}, {"text": "gamma"}]
MODULE = """
import threading

THREAD = threading.get_ident()
RECORDS = [{"id": "a", "text": "alpha", "year": 2026}, {"id": 7, "text": "beta", "tags": ["x"]}, {"text": "gamma"}]

def records():
    return RECORDS

class Shop:
    @staticmethod
    async def records():
        return RECORDS
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A package `shelf` with a module `notes`, not imported yet."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").write_text("")
    (tmp_path / "shelf" / "notes.py").write_text(MODULE)
    (tmp_path / "shelf" / "broken.py").write_text("raise RuntimeError('no\\nluck')")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "shelf"
    for name in [name for name in sys.modules if name.partition(".")[0] == "shelf"]:
        del sys.modules[name]


def generator():
    yield from RECORDS


async def asynchronous():
    await anyio.lowlevel.checkpoint()
    return RECORDS


async def async_generator():
    for record in RECORDS:
        await anyio.lowlevel.checkpoint()
        yield record


async def later():
    return async_generator()


@pytest.mark.parametrize(
    "fetcher",
    [
        RECORDS,
        tuple(RECORDS),
        lambda: RECORDS,
        lambda: iter(RECORDS),
        dict(enumerate(RECORDS)).values,
        generator,
        asynchronous,
        async_generator,
        later,
        "shelf.notes:records",
        "shelf.notes.records",
        "shelf.notes:RECORDS",
        "shelf.notes:Shop.records",
    ],
)
@pytest.mark.usefixtures("shelf")
async def test_records_are_the_same_from_any_kind_of_fetcher_and_at_each_reading(fetcher):
    source = from_records(fetcher, name="r")
    expected = [
        Artifact("a", {"text": "alpha", "year": 2026}, {"year": 2026}),
        Artifact("7", {"text": "beta", "tags": ["x"]}, {"tags": ["x"]}),
        Artifact("r_2", {"text": "gamma"}),
    ]
    assert await read(source) == expected
    assert await read(source) == expected


async def test_keys_choose_the_id_the_text_and_the_metadata():
    record = {"key": 0, "body": "B", "text": "T", "x": 5, "y": {"z": 1}}
    source = from_records([record], name="r", id_key="key", text_key="body")
    (item,) = await read(source)
    assert (item.id, item.metadata) == ("0", {"text": "T", "x": 5, "y": {"z": 1}})
    assert source.indexing_strategy == Chunked(text_key="body")
    assert [surface.text for surface in source.indexing_strategy.decompose(item).surfaces] == ["B"]
    (item,) = await read(from_records([record], name="r", id_key="key", metadata_keys=["y", "absent"]))
    assert item.metadata == {"y": {"z": 1}}


async def test_the_id_is_no_part_of_the_text_and_the_records_stay_as_they_are():
    record = {"id": "secret", "title": "T", "body": "B"}
    source = from_records([record], name="r")
    (item,) = await read(source)
    assert [surface.text for surface in source.indexing_strategy.decompose(item).surfaces] == ["T\nB"]
    assert record == {"id": "secret", "title": "T", "body": "B"}


def test_the_defaults_of_the_source_are_as_documented():
    source = from_records(generator, name="r", strategy=WholeText(), embedder="light")
    assert isinstance(source, CorpusSource)
    assert (source.name, source.indexing_strategy, source.embedder) == ("r", WholeText(), "light")
    assert from_records(generator, name="r").indexing_strategy == Chunked(chunk_size=1200, overlap=200)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("text", "must be a mapping of fields, not 'text'"),
        (None, "must be a mapping of fields, not None"),
        ([("id", "x")], "must be a mapping"),
        ({"id": True}, "'id' must be a string or a number, not True"),
        ({"id": math.nan}, "not nan"),
        ({"id": math.inf}, "not inf"),
        ({"id": ["x"]}, "not ['x']"),
        ({"id": b"x"}, "not b'x'"),
        ({"id": "a"}, "the id 'a' at position 1 is already at position 0, counted from 0"),
        ({"id": "\ud800"}, "surrogate"),
    ],
)
async def test_a_record_that_cannot_be_kept_is_a_problem_that_names_it_and_the_rest_is_read(record, words):
    artifacts, problems = await read_reasons(from_records([{"id": "a"}, record, {"id": "b"}], name="r"))
    assert list(artifacts) == ["a", "b"]
    ((item, reason),) = problems.items()
    assert item == ("\\ud800" if words == "surrogate" else "r[1]")
    assert words in reason


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([{"id": 0}, {"id": "0"}], "the id '0' at position 1 is already at position 0"),
        ([{"text": "x"}, {"id": "r_0"}], "the id 'r_0' at position 1 is already at position 0"),
        ([{"id": "r_1"}, {"id": None}], "the id 'r_1' at position 1 is already at position 0"),
        ([{"id": "r_1"}, {"id": ""}], "the id 'r_1' at position 1 is already at position 0"),
        ([{"id": "a"}, *({"id": number} for number in range(200)), {"id": "a"}], "at position 201 is already at"),
    ],
)
async def test_a_duplicate_id_belongs_to_the_first_record(records, words):
    artifacts, problems = await read_reasons(from_records(records, name="r"))
    assert len(artifacts) == len(records) - 1
    ((item, reason),) = problems.items()
    assert item == f"r[{len(records) - 1}]"
    assert words in reason


async def test_a_build_ends_at_a_problem_or_reports_and_leaves_it_out():
    source = from_records([*RECORDS, "no record", {"id": "a"}], name="r", embedder="light")
    with pytest.raises(
        SourceError, match=r"source 'r': 'r\[3\]' a record must be a mapping of fields, not 'no record'"
    ):
        await build(source, store=MemoryStore())
    corpus = await build(source, store=MemoryStore(), on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["r[3]", "r[4]"]
    assert await ask(corpus.store, ArtifactIds()) == ["7", "a", "r_2"]
    (hit,) = await corpus.search("alpha", filter={"year": 2026})
    assert (hit.artifact_id, hit.metadata["year"]) == ("a", 2026)


async def test_a_function_is_called_in_a_worker_thread_and_an_async_one_in_the_event_loop():
    threads = []

    def blocking():
        threads.append(threading.get_ident())
        yield {"text": threading.get_ident()}

    async def in_event_loop():
        threads.append(threading.get_ident())
        return []

    for fetcher in (blocking, in_event_loop):
        await read(from_records(fetcher, name="r"))
    assert (threads[0] == threading.get_ident(), threads[1] == threading.get_ident()) == (False, True)


async def test_the_first_records_arrive_before_the_last_ones_are_created():
    async def endless():
        for number in itertools.count():
            await anyio.lowlevel.checkpoint()
            yield {"id": number}

    for fetcher in (lambda: ({"id": number} for number in itertools.count()), endless):
        async with aclosing(from_records(fetcher, name="r").items()) as items:
            assert [(await anext(items)).id for _ in range(100)] == [str(number) for number in range(100)]


async def test_leaving_early_closes_the_generators_of_the_function():
    closed, kept = [], []

    def records():
        try:
            yield from [{}] * 1000
        finally:
            closed.append("here")

    def plain_records():
        kept.append(records())
        return kept[-1]

    async def async_records():
        try:
            for _ in range(1000):
                yield {}
        finally:
            closed.append("async")

    for fetcher in (plain_records, async_records):
        async with aclosing(from_records(fetcher, name="r").items()) as items:
            await anext(items)
    assert closed == ["here", "async"]


async def test_cancelling_reaches_an_async_function():
    async def asleep():
        await anyio.sleep_forever()

    async def half_asleep():
        yield {}
        await anyio.sleep_forever()

    for fetcher in (asleep, half_asleep):
        with anyio.move_on_after(0.05) as scope:
            await read(from_records(fetcher, name="r"))
        assert scope.cancelled_caught


def failing(error, *, after):
    def records():
        yield from [{}] * after
        raise error

    return records


@pytest.mark.parametrize("error", [ValueError("no\nluck"), OSError("gone"), StopIteration("early"), KeyError("x")])
async def test_a_function_that_fails_is_an_error_that_names_it_and_keeps_the_cause(error):
    def fails():
        raise error

    async def fails_later():
        raise error

    for fetcher in (fails, fails_later):
        with pytest.raises(SourceError, match=r"the fetcher '.*fails.*' failed: ") as caught:
            await read(from_records(fetcher, name="r"))
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None


async def test_the_error_of_a_function_that_fails_midway_contains_the_number_of_records():
    async def breaks():
        for _ in range(70):
            yield {}
        raise ValueError("no luck")

    for fetcher in (failing(ValueError("no luck"), after=70), breaks):
        source = from_records(fetcher, name="r", embedder="light")
        with pytest.raises(SourceError, match="failed after 64 records: ValueError: no luck") as caught:
            await read(source)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(SourceError, match="no luck"):
            await build(source, store=MemoryStore(), on_error="skip")


@pytest.mark.parametrize("given", [None, 3, "text", b"bytes", {"a": {}}])
async def test_a_function_that_returns_no_records_is_an_error(given):
    with pytest.raises(SourceError, match=r"returned .*; return an iterable of records"):
        await read(from_records(lambda: given, name="r"))


async def test_a_custom_scope_may_be_an_async_generator_of_pages():
    async def pages():
        for letter in "ab":
            await anyio.lowlevel.checkpoint()
            yield [Artifact(letter, letter), ItemProblem(letter * 2, "lost")]

    assert [getattr(item, "id", None) for item in await read(CorpusSource("letters", pages))] == ["a", None, "b", None]


# References


@pytest.mark.parametrize("fetcher", [None, 3, b"bytes", object()])
def test_a_value_that_is_neither_function_nor_name_nor_list_is_refused_on_construction(fetcher):
    with pytest.raises(ArgumentKindError, match="fetcher must be a function or 'module:attribute', not ") as caught:
        from_records(fetcher, name="r")
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("fetcher", [generator(), iter(RECORDS), zip(RECORDS), async_generator()])
def test_a_value_that_can_be_read_only_once_is_refused_on_construction(fetcher):
    with pytest.raises(ArgumentKindError, match="read only once; pass a function that returns it"):
        from_records(fetcher, name="r")


def test_the_error_for_a_mapping_names_the_function_to_use():
    with pytest.raises(ArgumentKindError, match="from_mapping"):
        from_records({"a": {}}, name="r")


@pytest.mark.parametrize(
    "text", ["", "records", ":records", "module:", "a b:c", "a:b:c", "a..b", ".a.b", "a.b ", "1.b"]
)
def test_a_string_that_is_no_reference_is_refused_on_construction(text):
    for refuses in (split_reference, lambda text: from_records(text, name="r")):
        with pytest.raises(ArgumentError, match=r"'module:attribute' or 'module\.attribute'"):
            refuses(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("m:a", ("m", "a")),
        ("m.a", ("m", "a")),
        ("p.m:a", ("p.m", "a")),
        ("p.m.a", ("p.m", "a")),
        ("p.m:c.a", ("p.m", "c.a")),
        ("päckchen._m:a_1", ("päckchen._m", "a_1")),
    ],
)
def test_a_reference_names_a_module_and_an_attribute(text, parts):
    assert split_reference(text) == parts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shelf.missing:records", "cannot import 'shelf.missing': ModuleNotFoundError"),
        ("nowhere_at_all.records", "cannot import 'nowhere_at_all'"),
        ("shelf.notes:missing", "the module 'shelf.notes' has no 'missing'"),
        ("shelf.notes:Shop.missing", "the module 'shelf.notes' has no 'Shop.missing'"),
        ("shelf.broken:records", "cannot import 'shelf.broken': RuntimeError: no luck"),
    ],
)
async def test_the_error_on_reading_a_broken_reference_names_module_and_attribute(shelf, text, words):
    source = from_records(text, name="r")
    with pytest.raises(SourceError, match=words) as caught:
        await read(source)
    assert text in str(caught.value)
    assert caught.value.__cause__ is not None


async def test_nothing_is_imported_before_the_records_are_read_and_then_in_a_worker_thread(shelf):
    source = from_records("shelf.notes:records", name="r")
    assert "shelf.notes" not in sys.modules
    await read(source)
    assert threading.get_ident() != sys.modules["shelf.notes"].THREAD


@pytest.mark.parametrize(
    "settings", [{"name": "a/b"}, {"id_key": ""}, {"id_key": None}, {"text_key": ""}, {"metadata_keys": "year"}]
)
def test_settings_that_cannot_work_are_refused_on_construction(settings):
    with pytest.raises(ArgumentError, match="|".join(settings)):
        from_records(RECORDS, **{"name": "r", **settings})


IDS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "0", "r_0", "r_1", "a"])


@settings(max_examples=examples(50))
@given(st.lists(st.none() | st.fixed_dictionaries({}, optional={"id": IDS, "text": st.text(max_size=3)}), max_size=8))
async def test_every_record_is_an_artifact_with_an_id_of_its_own_or_a_problem(records):
    items = await read(from_records(records, name="r"))
    assert len(items) == len(records)
    ids = [item.id for item in items if isinstance(item, Artifact)]
    assert len(ids) == len(set(ids))
    assert all(item.lost for item in items if isinstance(item, ItemProblem))
