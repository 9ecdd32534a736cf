"""`RemoteStore` answers over HTTP as the served store does: it passes the exam of stores."""

from contextlib import asynccontextmanager

import httpx
import pytest

from airw.corpora import Corpus
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError
from airw.remote import RemoteCorpus
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore
from airw.testing.stores import StoreSuite

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
