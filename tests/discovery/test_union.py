"""Several corpora that share an embedder answer as one corpus that contains them all."""

import string
import threading
from dataclasses import replace
from itertools import count, permutations
from math import inf

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import adapt
from airw.corpora.floors import BuiltFloor
from airw.discovery import discover
from airw.errors import ArgumentError, DiscoveryError, StoreError, UnknownFieldWarning
from airw.protocols import Change, Rank, Records, Words, ask
from airw.retrieval.fusion import fuse_hits
from airw.testing import run_on_virtual_clock
from tests.support.discoveries import LIGHT, Counting, Without, corpora
from tests.support.drawing import examples
from tests.support.virtual_time import on_virtual_clock
from tests.support.waiting import PATIENCE

WORDS = ("rotate", "signing", "keys", "bread", "loaf", "river", "bank", "stone", "light", "water")
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
PARTS = st.lists(st.lists(TEXT, max_size=5), min_size=1, max_size=4)
QUERY = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


def name_parts(parts):
    """Return texts by corpus and artifact; no id occurs in two corpora."""
    ids = iter(f"{letter}{digit}" for digit in string.digits for letter in string.ascii_lowercase)
    return {f"corpus{place}": {next(ids): text for text in texts} for place, texts in enumerate(parts)}


def outcome(result):
    """Return what a discovery found, without the names of the corpora."""
    hits = [(hit.artifact_id, hit.score, hit.metadata.get("retrieval_score")) for hit in result.results]
    return hits, result.abstained


def count_letters(query, texts):
    """Return a score for each text, as a reranker does."""
    return [len(set(query) & set(text)) + len(text) / 100 for text in texts]


OPTIONS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["hybrid", "dense", "lexical"]),
        "k": st.sampled_from([1, 2, 5, 30]),
        "rrf_k": st.sampled_from([1, 60]),
    },
    optional={
        "fusion": st.sampled_from(["scores", "ranks", "rrf", "blend"]),
        "alpha": st.sampled_from([0.0, 0.3, 1.0]),
        "rerank": st.just(count_letters),
        "rerank_text": st.just("artifact"),
        "boost": st.just(lambda hit: 0.01 * len(hit.text)),
        "surface_weights": st.just({"document": 2.0, "body": 0.5}),
        "formulate": st.just(lambda query: [query, "river bank"]),
        "fetch_k": st.sampled_from([1, 3]),
    },
)


@pytest.mark.slow
@given(PARTS, QUERY, OPTIONS, st.randoms())
@settings(max_examples=examples(40))
def test_a_discovery_in_several_corpora_equals_one_in_a_corpus_that_contains_them_all(parts, query, options, random):
    texts = name_parts(parts)
    whole = {id: text for part in texts.values() for id, text in part.items()}

    async def main():
        async with corpora({"whole": whole}) as (one,), corpora(texts) as many:
            random.shuffle(many)
            selection = {"strategy": "top_k", "max_k": 30, "min_score": None}
            return [await discover(corpus, query, **selection, **options) for corpus in (one, many)]

    one, many = anyio.run(main)
    assert outcome(many) == outcome(one)


@pytest.mark.slow
@given(PARTS, QUERY, st.sampled_from(["rrf", "blend"]), st.data())
@settings(max_examples=examples(20))
def test_no_order_of_the_corpora_gives_another_result(parts, query, merge, data):
    texts = name_parts(parts)
    # Some corpora have another embedder, and some a store that cannot count words.
    others = data.draw(st.sets(st.sampled_from(sorted(texts)))) if merge == "rrf" else set()
    without_counts = data.draw(st.sets(st.sampled_from(sorted(texts))))

    async def main():
        async with corpora(texts, embedders=dict.fromkeys(others, Counting("other"))) as many:
            some = [
                replace(each, store=Without(each.store, "words")) if each.name in without_counts else each
                for each in many
            ]
            options = {"merge": merge, "strategy": "top_k", "max_k": 30}
            return [outcome(await discover(list(order), query, **options)) for order in permutations(some)]

    first, *rest = anyio.run(main)
    assert all(result == first for result in rest)


UNRELATED = {
    "cakes": {"c1": "bake the cake", "c2": "melt the sugar"},
    "cars": {"a1": "change the oil", "a2": "the brakes and the wheels"},
    "keys": {"k1": "rotate the signing keys", "k2": "keys of the vault"},
}


async def test_the_corpus_that_knows_the_answer_comes_first_in_any_order():
    async with corpora(UNRELATED) as many:
        for order in permutations(many):
            result = await discover(list(order), "rotate the signing keys")
            assert result.ids[0] == "k1"


async def test_the_other_corpora_are_asked_for_their_counts_once_and_for_their_cosines_once():
    async with corpora(UNRELATED) as many:
        await discover(many, "signing keys")
        for corpus in many:
            assert corpus.store.calls[Words] == 1
            ranked = [request.needs for request in corpus.store.log if isinstance(request, Rank)]
            assert sorted(ranked) == ["dense", "lexical", "lexical"]  # with its own counts, and with those of all


async def test_a_corpus_that_fails_while_the_union_is_searched_leaves_the_union_of_the_others():
    # The searches by vector and with its own counts succeed, the one with the counts of all fails.
    failures = {"cars": {Rank: [None, None, StoreError("gone")]}}
    async with corpora(UNRELATED, failures=failures) as many:
        result = await discover(many, "the keys", strategy="top_k", max_k=9)
    report = result.signals["per_source"]["cars"]
    assert (report["status"], report["error"], report["abstained"]) == ("failed", "StoreError: gone", True)
    assert {hit.source for hit in result.results} == {"cakes", "keys"}


@pytest.mark.parametrize("options", [{}, {"formulate": lambda query: [query, "keys of the vault"]}])
@on_virtual_clock
async def test_if_all_corpora_fail_while_the_union_is_searched_the_error_names_them(options):
    # Their own searches succeed. Those with the counts of all are missing, because one corpus counts no words in time.
    failures = {name: {Rank: [None, None, *[StoreError("gone")] * 9]} for name in UNRELATED}
    delays = {"slow": {Words: inf}}
    async with corpora(UNRELATED | {"slow": {"s1": "keys"}}, failures=failures, delays=delays) as many:
        with pytest.raises(DiscoveryError, match="no source answered: cakes: StoreError: gone; cars: StoreError: gone"):
            await discover(many, "the keys", source_timeout=5, **options)


@pytest.mark.parametrize("count", [1, 3, 9])  # nine are asked together if they are asked again
@pytest.mark.parametrize("options", [{"mode": "lexical"}, {"mode": "dense"}])
async def test_a_lone_channel_gives_k_hits_however_few_a_fusion_would_fetch(count, options):
    texts = {f"c{number}": {f"{number}-{at}": "keys" + " tea" * at for at in range(9)} for number in range(count)}
    async with corpora(texts) as scripted:
        many = [replace(corpus, store=corpus.store.store) for corpus in scripted]
        for _ in range(2):
            result = await discover(many, "keys", k=8, fetch_k=2, max_k=8, strategy="top_k", min_score=None, **options)
            assert (len(result.results), result.n_retrieved) == (8, 8 * count)


@pytest.mark.parametrize("merge", ["rrf", "rrf-by-source"])
@pytest.mark.parametrize(
    "options", [{}, {"formulate": lambda query: [query, "oil"]}, {"surface_weights": {"body": 2.0}}]
)
@pytest.mark.parametrize("channel", ["dense", "lexical"])
async def test_a_store_without_a_channel_takes_part_in_the_other_one(channel, options, merge):
    async with corpora(UNRELATED) as many:
        formula = (await ask(many[0].store, Words([""]))).formula
        floor = BuiltFloor(-9.0, "hybrid", LIGHT.id, weights={"dense": 1.0, "lexical": 1.0}, formula=formula)
        await many[2].store.apply(Change(calibrations={floor.key: floor.to_dict()}))
        many[2] = replace(many[2], store=Without(many[2].store, channel))  # it still counts words
        result = await discover(many, "signing keys", strategy="top_k", merge=merge, **options)
    assert result.missing == {}
    assert "k1" in result.ids


async def test_the_weight_of_a_corpus_multiplies_the_scores_of_its_hits():
    async with corpora(UNRELATED) as many:
        options = {"strategy": "top_k", "max_k": 9}
        question = "rotate the keys, the oil and the wheels"
        plain = await discover(many, question, **options)
        heavy = await discover(many, question, merge_weights={"cars": 9.0}, **options)
    assert plain.results[0].source == "keys"
    assert [hit.source for hit in heavy.results[:2]] == ["cars", "cars"]


async def test_copies_of_the_same_thing_are_one_hit_that_names_its_sources():
    texts = {"a": {"x": "rotate the keys"}, "b": {"x": "rotate the keys", "y": "keys"}}
    async with corpora(texts) as many:
        result = await discover(many, "rotate keys", identity=lambda hit: hit.text, strategy="top_k")
    assert [hit.artifact_id for hit in result.results] == ["x", "y"]
    assert result.results[0].metadata["fused_sources"] == ["a", "b"]


async def test_a_reranker_reads_each_text_once_and_its_reader_gets_the_corpus_of_the_record():
    read, scored = [], []

    async def read_text(corpus, record):
        read.append((corpus.name, record.artifact_id))
        assert (await ask(corpus.store, Records([record.id])))[0].text == record.text
        return record.text

    def rerank(query, texts):
        scored.extend(texts)
        return [len(text) for text in texts]

    async with corpora(UNRELATED) as many:
        result = await discover(many, "the keys", rerank=rerank, rerank_text=read_text, strategy="top_k", max_k=9)
    assert sorted(scored) == sorted(set(scored))
    assert set(read) == {(name, id) for name, texts in UNRELATED.items() for id in texts}
    lengths = [len(UNRELATED[hit.source][hit.artifact_id]) for hit in result.results]
    assert lengths == sorted(lengths, reverse=True)


def test_if_a_reranker_hangs_in_the_union_the_rankings_of_the_sources_are_fused_when_the_time_is_over():
    calls, numbers = [], count()

    async def read(_, record):
        return f"{record.text} {next(numbers)}"  # another text each time, so that no score is remembered

    async def rerank(query, texts):
        calls.append(texts)
        await anyio.sleep(0 if len(calls) <= len(UNRELATED) else float("inf"))
        return [1.0] * len(texts)

    async def main():
        async with corpora(UNRELATED) as many:
            options = {"rerank": rerank, "rerank_text": read, "strategy": "top_k", "max_k": 9}
            result = await discover(many, "the keys", timeout=2, **options)
            return anyio.current_time(), result

    time, result = run_on_virtual_clock(main)
    assert time == pytest.approx(2)
    assert {hit.source for hit in result.results} == set(UNRELATED)
    assert result.signals["merge"] == "rrf-by-source"


# Ten times as long as a busy machine needs for the other sources.
@pytest.mark.slow
@pytest.mark.parametrize("options", [{"source_timeout": 3}, {"timeout": 3}])
async def test_a_source_that_cannot_be_interrupted_does_not_cost_the_answers_of_the_others(options):
    released = threading.Event()

    def search(query, k):
        released.wait(PATIENCE)
        return [("slow", 1.0)]

    async def release():
        await anyio.sleep(4)
        released.set()

    async with corpora(UNRELATED) as many, anyio.create_task_group() as tasks:
        tasks.start_soon(release)
        result = await discover([*many, adapt(search=search, name="slow")], "signing keys", **options)
    assert result.ids[0] == "k1"
    assert result.signals["per_source"]["slow"]["status"] == "timeout"


async def test_a_source_with_one_channel_is_asked_once_however_long_the_union_ranks():
    asked = []

    async def search(query, k):
        asked.append(k)
        return [("other", 1.0)]

    async with corpora(UNRELATED) as many:
        result = await discover([*many, adapt(search=search, name="other")], "signing keys", strategy="top_k")
    assert "other" in result.ids
    assert len(asked) == 1


@pytest.mark.parametrize("options", [{}, {"mode": "lexical", "formulate": lambda query: [query, "keys"]}])
async def test_the_order_of_an_adapted_function_stays_if_it_gives_equal_scores(options):
    found = [("c", 1.0), ("a", 1.0), ("d", 1.0), ("b", 1.0)]
    other = adapt(search=lambda query, k: found[:k], name="other")
    async with corpora(UNRELATED) as many:
        result = await discover([*many, other], "zebra", strategy="top_k", max_k=9, **options)
    assert [hit.artifact_id for hit in result.results if hit.source == "other"] == ["c", "a", "d", "b"]


async def test_a_blend_needs_one_embedder():
    async with corpora(UNRELATED, embedders={"cars": Counting("other")}) as many:
        with pytest.raises(ArgumentError, match=r"merge='blend' needs one embedder.*use 'rrf'"):
            await discover(many, "keys", merge="blend")
        assert (await discover(many, "signing keys")).ids[0] == "k1"


async def test_rrf_by_source_fuses_the_rankings_of_the_sources():
    async with corpora(UNRELATED) as many:
        own = {corpus.name: await corpus.search("the keys", mode="hybrid", fusion="rrf") for corpus in many}
        result = await discover(many, "the keys", merge="rrf-by-source", strategy="top_k", max_k=9)
    assert [(hit.source, hit.artifact_id) for hit in result.results] == [hit.key for hit in fuse_hits(own, k=9)]
    assert LIGHT.id == many[0].embedder.id


async def test_a_surface_that_no_corpus_has_is_an_error_and_a_field_that_none_has_a_warning():
    async with corpora(UNRELATED) as many:
        with pytest.raises(ArgumentError, match="no record of 'cakes', 'cars', 'keys' is of the kind 'chunks'"):
            await discover(many, "keys", surfaces=["chunks"])
        with pytest.warns(UnknownFieldWarning, match="'titel'"):
            assert (await discover(many, "keys", filter={"titel": "x"})).abstained
        with pytest.raises(ArgumentError, match="'chunks'"):
            await discover(many[0], "keys", surfaces=["chunks"])
