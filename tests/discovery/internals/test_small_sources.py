"""A discovery in many small corpora asks them together, and answers as if one by one."""

import gc
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from weakref import ref

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, build, discover, discover_stream, from_mapping
from airw.discovery import _union
from airw.errors import EmbedderError, StoreError
from airw.protocols import Change
from airw.stores import MemoryStore, SqliteStore, Wrapper
from airw.stores.memory.stack import Stack
from tests.support.drawing import examples

WORDS = ["keys", "tea", "loaf", "rain", "sun", "über", "日本", "vault"]


def draw_texts(draw, number, most=6):
    texts = {f"d{at}": " ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for at in range(draw.randint(1, most))}
    return {**texts, f"own{number}": "the keys of the vault"} if draw.random() < 0.5 else texts


@asynccontextmanager
async def open_corpora(draw, count, folder=None, most=6):
    async with AsyncExitStack() as stack:
        corpora = []
        for number in range(count):
            texts = draw_texts(draw, number, most)
            store = SqliteStore(Path(folder) / f"{number}.airw") if folder and number % 3 == 0 else MemoryStore()
            await stack.enter_async_context(store)
            source = from_mapping(texts, name=f"c{number}", embedder="light")
            corpora.append(await build(source, store=store))
        yield corpora


def without_times(result):
    found = result.to_dict()
    for report in found["signals"]["per_source"].values():
        del report["seconds"]
    return found


async def ask_each(corpora, query, **options):
    """Return the result of the stream, which asks each source by itself."""
    async with discover_stream(corpora, query, **options) as updates:
        return [update async for update in updates][-1]


@pytest.fixture
def counts(monkeypatch):
    """Return a list to which the number of sources that are asked together is added."""
    numbers, ask = [], _union.ask_together

    async def count(request, members):
        answers = await ask(request, members)
        numbers.append(len(answers))
        return answers

    monkeypatch.setattr("airw.discovery.discovery.ask_together", count)
    return numbers


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["dense", "lexical", "hybrid"]),
        "k": st.integers(1, 12),
        "fetch_k": st.sampled_from([1, 4, 50]),
        "max_k": st.integers(1, 9),
        "strategy": st.sampled_from(["top_k", "conservative", "score_gap"]),
        "fusion": st.sampled_from(["ranks", "scores", "rrf"]),
        "min_score": st.sampled_from([None, "auto", {"c1": 0.5, "c2": None}]),
        "dedup_by": st.sampled_from([None, "auto"]),
        "merge_weights": st.just({"c3": 2.0}),
        "alpha": st.sampled_from([None, 0.4]),
    },
)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 1 << 20), OPTIONS, st.sampled_from(["keys", "keys tea keys", "日本 rain", "zebra", "the vault"]))
@pytest.mark.filterwarnings("ignore:min_score='auto'")
def test_together_they_answer_as_one_by_one(seed, options, query):
    async def main():
        draw = Random(seed)
        with TemporaryDirectory() as folder:
            async with open_corpora(draw, draw.randint(8, 12), folder) as corpora:
                for _ in range(3):
                    together = await discover(corpora, query, **options)
                    assert without_times(together) == without_times(await ask_each(corpora, query, **options))
                    await corpora[0].store.apply(Change(removals=[draw.choice(["d0", "d1"])]))

    anyio.run(main)


async def test_corpora_that_have_measured_floors_are_asked_together(counts):
    async with open_corpora(Random(1), 9, most=60) as corpora:
        await discover(corpora, "keys")
        together = await discover(corpora, "keys of the vault")
        floors = [report["floor"] for report in together.signals["per_source"].values()]
        assert any(floors)
        assert without_times(together) == without_times(await ask_each(corpora, "keys of the vault"))
    assert counts == [0, 9]


async def test_what_was_written_since_is_found(counts):
    async with open_corpora(Random(2), 8) as corpora:
        for _ in range(2):
            assert (await discover(corpora, "zebra")).ids == []
        await build(from_mapping({"new": "zebra"}, name="c5", embedder="light"), store=corpora[5].store, full=False)
        assert (await discover(corpora, "zebra")).ids == ["new"]
    assert counts == [0, 8, 8]


class Broken(Wrapper):
    async def read(self, *requests):
        raise StoreError("out of reach")


async def test_a_corpus_that_is_not_small_or_not_here_is_asked_alone(counts):
    async with open_corpora(Random(3), 10) as corpora:
        broken = Corpus("broken", Broken(corpora[0].store), corpora[0].embedder)
        await corpora[9].store.aclose()
        for _ in range(2):
            result = await discover([broken, *corpora], "keys", strategy="top_k")
            assert [*result.missing] == ["broken", "c9"]
            assert result.signals["per_source"]["c1"]["status"] == "ok"
    assert counts == [0, 9]


class Mute:
    id, dim = "mute", 512

    async def embed_documents(self, texts):
        raise EmbedderError("no server")

    async def embed_query(self, text):
        raise EmbedderError("no server")


async def test_if_the_query_cannot_be_embedded_each_corpus_says_so(counts):
    async with open_corpora(Random(4), 8) as corpora:
        mute = [Corpus(corpus.name, corpus.store, Mute()) for corpus in corpora]
        other = await build(from_mapping({"k": "keys"}, name="other", embedder="light"), store=MemoryStore())
        for _ in range(2):
            result = await discover([*mute, other], "keys")
            assert [*result.missing] == [corpus.name for corpus in mute]
            assert result.ids == ["k"]
    assert counts == [0, 0]


async def test_metadata_of_a_hit_belong_to_whoever_gets_it():
    async with AsyncExitStack() as stack:
        corpora = []
        for number in range(8):
            store = await stack.enter_async_context(MemoryStore())
            source = from_mapping({"k": {"text": "keys", "tags": ["a"]}}, name=f"c{number}", embedder="light")
            corpora.append(await build(source, store=store))
        await discover(corpora, "keys")
        first = await discover(corpora, "keys", max_k=1, disclose_level="body")
        first.results[0].metadata["tags"].append("b")
        second = await discover(corpora, "keys", max_k=1, disclose_level="body")
        assert second.results[0].metadata["tags"] == ["a"]


async def test_two_discoveries_in_other_corpora_of_the_same_names_do_not_meet(counts):
    async with open_corpora(Random(5), 8) as some, open_corpora(Random(6), 8) as others:
        for corpora in (some, [some[0], *others[1:]]) * 2:
            await discover(corpora, "keys")
        found = {}

        async def ask(number, corpora):
            found[number] = await discover(corpora, "keys", strategy="top_k")

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(ask, number, [some[0], *others[1:]] if number % 2 else some)
        for number, corpora in enumerate([some, [some[0], *others[1:]]]):
            expected = without_times(await ask_each(corpora, "keys", strategy="top_k"))
            assert all(without_times(found[other]) == expected for other in range(number, 6, 2))
    assert counts[4:] == [8] * 6


async def test_only_what_is_asked_again_is_copied_and_little_at_a_time(counts, monkeypatch):
    monkeypatch.setattr(_union, "_MOST_COPIED", 1)
    monkeypatch.setattr(_union, "_MOST_RECORDS", 6)
    async with open_corpora(Random(7), 12, most=5) as corpora:
        for number in range(4):
            await discover(corpora[number:] + corpora[:number], "keys")
        # What was copied and has changed meanwhile is not asked as it was.
        for corpus in corpora:
            await build(from_mapping({"new": "zebra"}, name=corpus.name, embedder="light"), store=corpus.store)
        result = await discover(corpora, "zebra", strategy="top_k", max_k=99, k=99)
        assert result.ids == ["new"] * 12
        await discover(corpora[1:], "keys")
    assert counts == [0, 4, 8, 12, 4, 0]


async def test_copies_are_released_with_any_of_the_stores():
    sources = [from_mapping({"d": "keys"}, name=f"c{number}", embedder="light") for number in range(8)]
    corpora = [await build(source, store=MemoryStore()) for source in sources]
    for _ in range(2):
        await discover(corpora, "keys")
    stack = ref([*_union._STACKS.values()][-1])
    assert stack() is not None
    await corpora.pop().store.aclose()
    gc.collect()
    assert stack() is None
    for corpus in corpora:
        await corpus.store.aclose()


async def test_each_source_that_is_asked_together_is_a_span(counts, recorder):
    async with open_corpora(Random(9), 8) as corpora:
        for _ in range(2):
            result = await discover(corpora, "keys")
        assert counts == [0, 8]
        for corpus in corpora:
            *_, span = (span for span in recorder.spans if span.name == f"source {corpus.name}")
            assert recorder.parent_of(span) == "discover"
            report = result.signals["per_source"][corpus.name]
            assert span.attributes["airw.source.n_retrieved"] == report["n_retrieved"]
            assert span.attributes["airw.source.seconds"] == report["seconds"]


async def test_if_the_stack_changes_between_two_channels_each_is_asked_alone(counts, monkeypatch):
    rank_apart, numbers = Stack.rank_apart, iter(range(99))

    async def rank(self, names, request):
        return await rank_apart(self, names, request) if next(numbers) else None

    monkeypatch.setattr(Stack, "rank_apart", rank)
    async with open_corpora(Random(10), 8) as corpora:
        results = [without_times(await discover(corpora, "keys")) for _ in range(3)]
    assert results == results[:1] * 3
    assert counts == [0, 0, 8]
