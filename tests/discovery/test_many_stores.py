"""Many small stores of one process rank together what each of them would rank by itself."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus, build, discover, from_mapping
from airw.errors import StoreError
from airw.protocols import Best, Change, Fed, Rank, Records, Words, ask, ask_all
from airw.stores import MemoryStore, SqliteStore, Wrapper
from airw.stores.memory.stack import Stack
from airw.values import Ranking
from tests.support.artifact_corpora import EIGHTHS
from tests.support.drawing import examples
from tests.support.stored import change

WORDS = ["keys", "tea", "loaf", "rain", "sun", "über", "日本"]


@dataclass(frozen=True)
class Part:
    name: str
    store: object
    embedder: object = EIGHTHS


@asynccontextmanager
async def open_stores(count, folder=None, **options):
    """Yield stores by name: some in files if there is a folder."""
    async with AsyncExitStack() as stack:
        stores = {}
        for number in range(count):
            is_file = folder is not None and number % 3 == 0
            store = SqliteStore(Path(folder) / f"{number}.airw", **options) if is_file else MemoryStore(**options)
            stores[f"c{number}"] = await stack.enter_async_context(store)
        yield stores


def federate(stores):
    return FederatedCorpus([Part(name, store) for name, store in stores.items()]).store


def draw_change(draw):
    """Return a random change of a store: artifacts whose ids several stores have."""
    puts = [
        change(f"a{id}", " ".join(draw.choices(WORDS, k=draw.randint(0, 5))), seed=draw.random(), metadata={"year": id})
        for id in draw.sample(range(6), draw.randint(0, 3))
    ]
    put = {item.entry.artifact_id for item in puts}
    return Change(puts, removals=[id for id in draw.sample(["a0", "a1", "a7"], 2) if id not in put])


def draw_requests(draw):
    queries = np.array(draw.choices([[1, 0, 0, 0], [0, 0.6, 0.8, 0], [0, 0, 0, 0]], k=draw.randint(1, 2)), np.float32)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(0, 3))) for _ in queries]
    options = {
        "filter": draw.choice([None, {"year": {"$gte": 3}}]),
        "surfaces": draw.choice([None, None, ["chunk"], ["other"]]),
        "per_artifact": draw.choice([False, True]),
    }
    dense = Rank(queries, draw.choice([0, 1, 3, 100, None]), **options)
    lexical = Rank(texts, draw.choice([0, 1, 3, 100, None]), **options)
    return [dense, lexical, Words(texts), Fed(Records(()), Best(draw.choice([dense, lexical])))]


def show(answer):
    """Return an answer as values that are equal if it is."""
    if isinstance(answer, Ranking):
        return list(answer.record_ids), list(answer.artifact_ids), answer.scores.tolist(), answer.max_score
    return [*map(show, answer)] if isinstance(answer, list | tuple) else answer


async def compare(stores, draw):
    together, one_by_one = federate(stores), federate({name: Wrapper(store) for name, store in stores.items()})
    for _ in range(4):
        for store in draw.sample([*stores.values()], draw.choice([0, 1, 3, len(stores)])):
            await store.apply(draw_change(draw))
        requests = draw_requests(draw)
        assert show(await together.read(*requests)) == show(await one_by_one.read(*requests))


@given(number=st.integers(0, 2**32), count=st.integers(7, 12))
@settings(max_examples=examples(20))
def test_rankings_and_counts_are_those_of_the_stores_one_by_one(number, count):
    async def main():
        async with open_stores(count) as stores:
            await compare(stores, Random(number))

    anyio.run(main)


@given(number=st.integers(0, 2**32))
@settings(max_examples=examples(3))
def test_rankings_of_files_are_those_of_the_files_one_by_one(number):
    async def main(folder):
        async with open_stores(9, folder) as stores:
            await compare(stores, Random(number))

    with TemporaryDirectory() as folder:
        anyio.run(main, folder)


async def fill(stores, dim=4):
    for name, store in stores.items():
        await store.apply(Change([change(f"of-{name}", f"the keys of {name}", dim=dim)]))


@pytest.mark.asyncio_only
async def test_a_file_that_another_store_writes_is_read_again(tmp_path):
    async with open_stores(9, tmp_path) as stores, SqliteStore(tmp_path / "0.airw") as writer:
        await fill(stores)
        together = federate(stores)
        await ask(together, Rank(["keys"], 3))
        await writer.apply(Change([change("new", "keys keys keys")]))
        [ranking] = await ask(together, Rank(["keys"], 1))
        assert ranking.artifact_ids == [("c0", "new")]


async def test_stores_in_another_language_rank_by_themselves():
    async with open_stores(9) as stores, MemoryStore(language=None) as odd:
        stores["odd"] = odd
        await fill(stores)
        [dense], counts = await ask_all(federate(stores), Rank(np.eye(4, dtype=np.float32)[:1], 99), Words(["keys"]))
        assert len(dense) == 10
        assert counts.formula == ""  # the formulas differ, so no counts can be added up
        [lexical] = await ask(federate(stores), Rank(["keys"], 99))
        assert {ref.source for ref in lexical.artifact_ids} == {*stores}


async def test_a_closed_store_among_many_is_named():
    async with open_stores(9) as stores:
        await fill(stores)
        together = federate(stores)
        await ask(together, Rank(["keys"], 3))
        await stores["c4"].aclose()
        with pytest.raises(StoreError, match="closed") as caught:
            await ask(together, Rank(["keys"], 3))
        assert any("c4" in note for note in caught.value.__notes__)


async def test_a_store_that_overrides_read_is_asked():
    class Blind(MemoryStore):
        async def read(self, *requests):
            answers = await super().read(*requests)
            nothing = Ranking([], [], np.empty(0))
            return [
                [nothing] if isinstance(item, Rank) else answer for item, answer in zip(requests, answers, strict=True)
            ]

    async with open_stores(9) as stores, Blind() as blind:
        stores["blind"] = blind
        await fill(stores)
        [ranking] = await ask(federate(stores), Rank(["keys"], 99))
        assert {ref.source for ref in ranking.artifact_ids} == stores.keys() - {"blind"}


async def test_a_stack_that_has_lost_a_store_meanwhile_is_not_asked():
    async with open_stores(9) as stores:
        await fill(stores)
        stack = Stack()
        names = await stack.update(stores)
        assert names == stores.keys()
        [counts] = await stack.read(names, [Words(["keys"])])
        assert counts.records == 9
        await stores["c4"].aclose()
        assert await stack.update(stores) == names - {"c4"}
        assert await stack.read(names, [Words(["keys"])]) is None


async def test_stores_that_cannot_answer_are_left_out_one_by_one():
    async with open_stores(9) as stores, MemoryStore() as other:
        await fill(stores)
        await fill({"other": other}, dim=3)
        corpus = FederatedCorpus([Part(name, store) for name, store in [*stores.items(), ("other", other)]])
        walked = corpus.begin_walk()
        [ranking] = await ask(walked.store, Rank(np.eye(3, dtype=np.float32)[:1], 99))
        assert [ref.source for ref in ranking.artifact_ids] == ["other"]
        assert [lost.name for lost in walked.lost] == [*stores]


async def test_a_store_that_fails_in_any_way_is_left_out():
    class Broken(MemoryStore):
        async def version(self):
            raise RuntimeError("no version")

        async def read(self, *requests):
            raise RuntimeError("no answer")

    async with open_stores(9) as stores, Broken() as broken:
        await fill(stores)
        corpus = FederatedCorpus([Part(name, store) for name, store in [*stores.items(), ("broken", broken)]])
        walked = corpus.begin_walk()
        [ranking] = await ask(walked.store, Rank(np.eye(4, dtype=np.float32)[:1], 99))
        assert {ref.source for ref in ranking.artifact_ids} == stores.keys()
        assert [lost.name for lost in walked.lost] == ["broken"]


async def test_walks_that_update_a_stack_at_the_same_time_miss_no_store():
    async with open_stores(10) as stores:
        await fill(stores)
        corpus = FederatedCorpus([Part(name, store) for name, store in stores.items()])

        async def read_often():
            for _ in range(20):
                [ranking] = await ask(corpus.begin_walk().store, Rank(np.eye(4, dtype=np.float32)[:1], 999))
                assert {ref.source for ref in ranking.artifact_ids} == stores.keys()

        async def write_often():
            for number in range(20):
                await stores["c3"].apply(Change(language="en" if number % 2 else None))

        async with anyio.create_task_group() as group:
            for work in (read_often, read_often, read_often, write_often):
                group.start_soon(work)


@pytest.mark.asyncio_only
async def test_files_that_hang_do_not_cost_the_answers_of_many_others(tmp_path):
    class Hanging(SqliteStore):
        async def read(self, *requests):
            await anyio.sleep_forever()

    path = tmp_path / "notes.airw"
    source = from_mapping({"a": "rotate the keys"}, name="notes", embedder="light")
    async with build(source, store=path) as corpus, Hanging(path) as hanging:
        hung = {f"hung{at}": replace(corpus, store=hanging) for at in range(4)}
        others = {f"c{at}": corpus for at in range(66)}
        found = await discover({**hung, **others}, "rotate the keys", source_timeout=4.0)
    reports = found.signals["per_source"]
    assert {reports[name]["status"] for name in hung} == {"timeout"}
    assert {reports[name]["status"] for name in others} == {"ok"}
    assert found.ids == ["a", "a", "a"]
