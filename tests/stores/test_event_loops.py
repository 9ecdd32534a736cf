"""A corpus that event loops in several threads use together, or a forked process."""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx
import pytest

import airw
from airw.errors import StoreBusy, StoreError
from airw.protocols import ArtifactIds, Change, Counts, ask
from airw.serving import app
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from tests.support.waiting import PATIENCE, wait_for

ROOT = Path(__file__).parents[2]
TEXTS = {f"n{number}": f"rotate the keys {number} [n{number + 1}](n{number + 1})" for number in range(60)}


def open_notes(store):
    async def make():
        return await airw.build(airw.from_mapping(TEXTS, name="notes", embedder="light"), store=store)

    return asyncio.run(make())


@pytest.fixture(params=["file", "memory"])
def corpus(request, tmp_path):
    """Return a corpus that was opened in an event loop that has ended."""
    opened = open_notes(tmp_path / "notes.airw" if request.param == "file" else MemoryStore())
    yield opened
    asyncio.run(opened.aclose())


def run_in_threads(work, count=4):
    """Return what `await work(number)` returns, called in threads with an event loop each."""

    async def limit(number):
        with anyio.fail_after(PATIENCE):
            return await work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda number: asyncio.run(limit(number)), range(count)))


async def ask_all(corpus, turns=6):
    """Return the answers of searches that wait for each other, and of a walk."""
    answers = []
    for turn in range(turns):
        modes = ("dense", "lexical", "hybrid")
        together = [airw.search(corpus, f"rotate keys {turn}", k=5, mode=mode) for mode in modes]
        answers += await asyncio.gather(*together)
    answers.append(await airw.top_k(airw.traverse("keys 7", corpus, policy=airw.policies.Beam()), k=5))
    return answers


def test_searches_and_walks_of_several_loops_answer_as_those_of_one(corpus):
    expected = asyncio.run(ask_all(corpus))
    assert run_in_threads(lambda _: ask_all(corpus)) == [expected] * 4


@pytest.mark.slow
def test_several_loops_write_and_each_finds_what_it_wrote(corpus):
    async def write(number):
        for turn in range(4):
            await corpus.upsert({f"new {number} {turn}": f"signing of house {number}{turn}"})
            hits = await airw.search(corpus, f"house {number}{turn}", k=1, mode="lexical")
            assert [hit.artifact_id for hit in hits] == [f"new {number} {turn}"]

    run_in_threads(write)
    ids = asyncio.run(ask(corpus.store, ArtifactIds()))
    assert len(ids) == len(TEXTS) + 16


@pytest.mark.slow
def test_a_retriever_that_several_loops_ask_first_opens_its_corpus_once(tmp_path):
    asyncio.run(open_notes(tmp_path / "notes.airw").aclose())
    retrieve = airw.corpora.as_retriever(tmp_path / "notes.airw")

    async def ask_in_loop(_):
        hits = await asyncio.gather(*(retrieve(f"keys {number}") for number in range(4)))
        return id(retrieve.corpus), [len(each) for each in hits]

    assert len({str(answer) for answer in run_in_threads(ask_in_loop, 8)}) == 1
    asyncio.run(retrieve.aclose())


@pytest.mark.slow
def test_an_application_is_asked_in_several_loops(corpus):
    served = app({"notes": corpus})

    async def ask_in_loop(_):
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(3):
                found = await client.post("/search", json={"corpus": "notes", "query": "keys 7", "k": 2})
                ready = await client.get("/readyz")
                assert (found.status_code, len(found.json()["hits"]), ready.status_code) == (200, 2, 200)

    run_in_threads(ask_in_loop)


@pytest.mark.slow
def test_a_builder_waits_for_that_of_another_loop(corpus):
    entered, is_held, has_failed = [], [], []

    async def hold(number):
        async with corpus.store.writing():
            entered.append(number)
            await anyio.sleep(0.05)
            assert entered[-1] == number

    run_in_threads(hold)

    async def wait_in_vain(number):
        if number:
            await wait_for(lambda: is_held)
            with pytest.raises(StoreBusy):
                async with corpus.store.writing(timeout=0.05):
                    pass
            has_failed.append(True)
        else:
            async with corpus.store.writing():
                is_held.append(True)
                await wait_for(lambda: has_failed)

    run_in_threads(wait_in_vain, 2)


def test_the_loop_that_opened_a_corpus_and_another_use_it_together(tmp_path):
    async def main():
        async with SqliteStore(tmp_path / "s.airw") as store:
            await store.apply(Change([put("a", "one")]))

            async def count():
                return [await ask(store, Counts()) for _ in range(100)]

            with ThreadPoolExecutor(1) as threads:
                other = threads.submit(asyncio.run, count())
                own = await count()
                return own + await asyncio.wait_for(asyncio.wrap_future(other), PATIENCE)

    answers = asyncio.run(main())
    assert len(answers) == 200
    assert {answer["artifacts"] for answer in answers} == {1}


def test_a_builder_whose_loop_has_stopped_is_an_error_at_once():
    store, loop, entered = MemoryStore(), asyncio.new_event_loop(), []

    async def hold():
        async with store.writing():
            entered.append(True)
            await anyio.sleep_forever()

    async def write():
        async with store.writing(timeout=PATIENCE):
            return "written"

    builder = loop.create_task(hold())
    while not entered:
        loop.run_until_complete(asyncio.sleep(0))
    with pytest.raises(StoreError, match="an event loop that has stopped; run that loop again"):
        asyncio.run(write())
    builder.cancel()
    loop.run_until_complete(asyncio.wait([builder]))
    loop.close()
    assert asyncio.run(write()) == "written"


def test_a_store_works_on_after_a_loop_was_closed_during_a_call(tmp_path):
    store = SqliteStore(tmp_path / "s.airw")
    asyncio.run(store.__aenter__())
    loop, complaints = asyncio.new_event_loop(), []
    loop.set_exception_handler(lambda *_: None)  # asyncio complains that the call was not ended
    hook, threading.excepthook = threading.excepthook, complaints.append
    try:
        call = loop.create_task(ask(store, Counts()))
        for _ in range(3):  # it waits for the thread of its connection by then
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        del call
        assert asyncio.run(asyncio.wait_for(ask(store, Counts()), PATIENCE))["artifacts"] == 0
        asyncio.run(store.aclose())
    finally:
        threading.excepthook = hook
    assert not complaints


FORKED = """
import asyncio, os, signal, sys, warnings
import airw
from airw.protocols import Counts, ask
from airw.stores import SqliteStore
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, from Python 3.12 on

async def make():
    corpus = await airw.build(airw.from_mapping({"a": "signing keys"}, name="notes", embedder="light"))
    await corpus.search("keys")
    return corpus

corpus = asyncio.run(make())
child = os.fork()
if child == 0:
    signal.alarm(60)
    for use in (
        lambda: corpus.search("keys"),
        lambda: corpus.delete(["a"]),
        lambda: ask(corpus.store, Counts()),
        corpus.aclose,
    ):
        async def call():
            await use()
        try:
            asyncio.run(call())
        except airw.AirwError as error:
            print(type(error).__name__, str(error).split("' was ")[1], flush=True)
    print(len(asyncio.run(airw.search("notes", "keys"))), flush=True)
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print(len(asyncio.run(corpus.search("keys"))))
asyncio.run(corpus.aclose())
"""


@pytest.mark.slow
def test_a_forked_process_is_told_at_once_to_open_the_file_again(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "AIRW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    told = "StoreError opened before this process was forked; open it again here\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told * 4 + "1\n1\n", "")
