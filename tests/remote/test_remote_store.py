"""`RemoteStore` answers over HTTP as the served store does: it passes the exam of stores."""

from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest

from airw.corpora import Corpus
from airw.embedders import MissingEmbedder
from airw.errors import ArgumentError, EmbedderError, RemoteError
from airw.remote import RemoteCorpus
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore
from airw.stores.steps import compose_step
from airw.testing.changes import put
from airw.testing.stores import StoreSuite
from airw.values import Link

URL = "http://127.0.0.1:8000"
READING = (
    *("records", "config", "calibration", "vectors", "text", "links", "statistics", "language", "steps", "schema"),
    *("graph", "walk", "search", "closing"),
)


class WrittenStore:
    """A store that is written where it is, and read over HTTP."""

    def __init__(self, written, read):
        self.written, self.read = written, read

    def __getattr__(self, name):
        return getattr(self.read, name)

    async def apply(self, *arguments, **options):
        await self.read.counts()  # a closed store refuses
        await self.written.apply(*arguments, **options)

    async def set_language(self, language):
        await self.written.set_language(language)


@asynccontextmanager
async def serve_store(_folder, *, limits=ServingLimits(max_conditions=100_000)):  # noqa: B008 - immutable
    embedder = MissingEmbedder("e", 4, EmbedderError("nothing embeds here"))
    async with MemoryStore() as memory:
        transport = httpx.ASGITransport(app([Corpus("notes", memory, embedder)], limits=limits))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            RemoteCorpus(URL, "notes", client=client) as corpus,
        ):
            yield WrittenStore(memory, corpus.store)


@asynccontextmanager
async def serve_store_in_small_calls(folder):
    async with serve_store(folder, limits=ServingLimits(max_ids=400, max_body=20_000)) as store:
        yield store


SUITE = StoreSuite(serve_store, capabilities=[*READING, "set_language"])
SMALL = StoreSuite(serve_store_in_small_calls, capabilities=READING)
QUICK = ("a_step_without", "search_text_answers", "metadata_comes", "a_direction", "closes_again_as_text")


def is_quick(case):
    return any(name in case.name for name in QUICK)


@pytest.mark.parametrize("case", [each for each in SUITE.cases if is_quick(each)], ids=str)
async def test_the_exam_of_stores_holds_over_http(case):
    await SUITE.check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [each for each in SUITE.cases if not is_quick(each)], ids=str)
async def test_the_whole_exam_of_stores_holds_over_http(case):
    await SUITE.check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [each for each in SMALL.cases if "thousands" in each.name], ids=str)
async def test_the_exam_of_stores_holds_in_calls_that_are_split(case):
    await SMALL.check(case)


NAMES = [f"n{at:03}" for at in range(300)]


async def fill(store):
    await store.apply([put(id, "keys", metadata={"note": "x" * 9_000}, links=[Link("n000")]) for id in NAMES])


@pytest.mark.slow
@pytest.mark.parametrize("most", [90_000, 10**8])
async def test_a_call_whose_answer_is_too_long_is_split(most):
    """Duplicates, which the server refuses, are answered too."""
    ids = [*NAMES, "none", "n007", *NAMES]
    async with serve_store(None, limits=ServingLimits(max_answer=most)) as store:
        await fill(store)
        for method in ("records_of", "neighbors", "vectors_of", "referrers", "resolve"):
            mine, expected = [await getattr(each, method)(ids) for each in (store.read, store.written)]
            for column, wanted in zip(mine, expected, strict=True):
                assert np.array_equal(column, wanted) if isinstance(wanted, np.ndarray) else column == wanted
        options = {"hit_ids": ids, "known_ids": ids, "max_ends": 50}
        step, wanted = (
            await store.read_step(ids, None, **options),
            await compose_step(store.written, ids, None, **options),
        )
        assert (step.edges, step.artifact_ids, step.records) == (wanted.edges, wanted.artifact_ids, wanted.records)


async def test_a_single_answer_that_is_too_long_is_an_error_that_says_so():
    async with serve_store(None, limits=ServingLimits(max_answer=8_000)) as store:
        await fill(store)
        with pytest.raises(ArgumentError, match="the answer has more than 8,000 bytes; ask for less at once") as error:
            await store.records_of(["n001", "n002"])
        assert isinstance(error.value, RemoteError)
        assert "127.0.0.1" in str(error.value)


async def test_ids_that_are_no_texts_are_refused_by_name():
    async with serve_store(None) as store:
        with pytest.raises(ArgumentError, match="artifact_ids must be ids"):
            await store.records_of([["a"]])


async def test_a_call_with_more_bytes_than_a_server_takes_is_split():
    ids = [f"{'x' * 100}{number:02}" for number in range(50)]
    async with serve_store(None, limits=ServingLimits(max_body=2_000)) as store:
        await store.apply([put(id, "keys") for id in ids])
        assert [[record.artifact_id for record in records] for records in await store.records_of(ids)] == [
            [id] for id in ids
        ]
