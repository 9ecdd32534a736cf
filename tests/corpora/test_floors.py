"""The floors that a build measures by itself."""

from dataclasses import replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build, finish_ingest, ingest_partition, open_corpus, prepare_ingest
from airw.corpora.floors import BuiltFloor, load_built_floor, measure_floors
from airw.embedders import HashingEmbedder, embedder_from
from airw.errors import EmbedderError
from airw.protocols import Calibrations, Change, Config, ask
from airw.retrieval.evidence import Evidence, evidence_of, find_evidence, match_strength
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from airw.values import Ranking, TermCounts
from tests.support.drawing import examples
from tests.support.manuals import FOREIGN, OWN, manual
from tests.support.watched import Limited

pytestmark = pytest.mark.asyncio_only  # the builds of other tests measure floors on trio too


async def floors_of(corpus):
    return {mode: await load_built_floor(corpus, mode) for mode in ("dense", "lexical", "hybrid")}


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
async def test_a_build_ships_a_floor_that_own_questions_pass_and_foreign_ones_do_not(mode):
    async with build(manual(), store=MemoryStore()) as corpus:
        floor = await load_built_floor(corpus, mode)
        assert corpus.report.floors[mode] == floor
        own = [await find_evidence(corpus, text, mode) for text in OWN]
        foreign = [await find_evidence(corpus, text, mode) for text in FOREIGN]
    assert [floor.allows(evidence) for evidence in own] == [True] * 3
    assert [floor.allows(evidence) for evidence in foreign] == [False] * 3
    assert (floor.reason, floor.embedder_id) == ("built", corpus.embedder.id)
    assert floor.own_kept >= 0.95
    assert floor.foreign_rejected > 0.5
    assert (floor.artifacts, floor.n_own, floor.n_foreign) == (60, 48, 48)


@pytest.mark.slow
async def test_floors_depend_only_on_the_content():
    async with build(manual(), store=MemoryStore()) as one, build(manual(), store=MemoryStore()) as two:
        assert await floors_of(one) == await floors_of(two)
        assert list((await floors_of(one)).values()) == await measure_floors(one)


@pytest.mark.slow
async def test_a_file_has_the_floors_of_memory_and_keeps_them(tmp_path):
    async with build(manual(), store=MemoryStore()) as corpus:
        expected = await floors_of(corpus)
    async with build(manual(), store=tmp_path / "manual.airw"):
        pass
    async with open_corpus(tmp_path / "manual.airw") as corpus:
        assert await floors_of(corpus) == expected


async def test_a_corpus_of_a_few_notes_has_no_floor_and_nothing_is_stored():
    async with build(manual(15), store=MemoryStore()) as corpus:
        assert corpus.report.floors == {}
        assert await ask(corpus.store, Calibrations()) == {}
        assert {floor.reason for floor in await measure_floors(corpus)} == {"too_small"}


@pytest.mark.slow
async def test_a_corpus_whose_own_questions_score_as_foreign_ones_has_no_floor():
    chance = np.random.default_rng(5)
    random_vectors = embedder_from(lambda texts: chance.standard_normal((len(texts), 8)), id="random", dim=8)
    source = replace(manual(), embedder=random_vectors)
    async with build(source, store=MemoryStore()) as corpus:
        floor = corpus.report.floors["dense"]
    assert (floor.min_evidence, floor.reason) == (None, "inseparable")
    assert floor.allows(Evidence(dense=-1.0))


@pytest.mark.slow
async def test_copies_of_one_page_do_not_raise_the_floor_beyond_what_foreign_questions_need():
    async with build(manual(), store=MemoryStore()) as corpus:
        usual = corpus.report.floors["lexical"]
    copies = {f"copy{number}": "the server renews a certificate at midnight." for number in range(40)}
    async with build(from_mapping(copies, name="copies", embedder="light"), store=MemoryStore()) as corpus:
        floor = corpus.report.floors["lexical"]
        assert floor.allows(await find_evidence(corpus, "which certificate is renewed at midnight?", "lexical"))
    assert usual.min_evidence is not None


@pytest.mark.slow
async def test_floors_are_measured_again_only_if_a_fifth_of_the_artifacts_changed():
    store, source = MemoryStore(), manual()
    await build(source, store=store)
    first = (await ask(store, Calibrations())).get("built:hybrid", {})
    pages = dict(source.scope)
    for number in range(12):
        pages[f"page{number:03}"] += " the audit log."
        async with build(from_mapping(pages, name="manual", embedder="light"), store=store) as corpus:
            assert corpus.report.floors["hybrid"].changed == number + 1
    assert {**(await ask(store, Calibrations())).get("built:hybrid", {}), "changed": 0} == first
    pages["page012"] += " the audit log."
    async with build(from_mapping(pages, name="manual", embedder="light"), store=store) as corpus:
        assert corpus.report.floors["hybrid"].changed == 0
        assert corpus.report.floors["hybrid"].to_dict() != first


@pytest.mark.slow
async def test_an_unchanged_build_asks_nothing():
    class Counting(HashingEmbedder):
        asked = 0

        async def embed_query(self, text):
            Counting.asked += 1
            return await HashingEmbedder.embed_query(self, text)

    store, embedder = MemoryStore(), Counting()
    await build(manual(), store=store, embedder=embedder)
    assert embedder.asked == 96
    async with build(manual(), store=store, embedder=embedder) as corpus:
        assert corpus.report.floors["hybrid"].reason == "built"
    assert embedder.asked == 96


@pytest.mark.slow
async def test_a_floor_of_another_embedder_or_method_counts_as_none():
    async with build(manual(), store=MemoryStore()) as corpus:
        floor = await load_built_floor(corpus, "hybrid")
        for other in (replace(floor, embedder_id="other"), replace(floor, method="sentences 0")):
            await corpus.store.apply(Change(calibrations={floor.key: other.to_dict()}))
            assert await load_built_floor(corpus, "hybrid") is None
        await corpus.store.apply(Change(calibrations={floor.key: {**floor.to_dict(), "from_the_future": 1}}))
        assert await load_built_floor(corpus, "hybrid") == floor


@pytest.mark.slow
async def test_another_embedder_gets_floors_of_its_own():
    store = MemoryStore()
    await build(manual(), store=store)
    async with build(manual(), store=store, embedder=HashingEmbedder(dim=64)) as corpus:
        assert corpus.report.floors["hybrid"].embedder_id == corpus.embedder.id
        assert await load_built_floor(corpus, "hybrid") == corpus.report.floors["hybrid"]


@pytest.mark.slow
async def test_an_embedder_that_fails_on_questions_costs_the_floors_but_not_the_build():
    class Failing(HashingEmbedder):
        async def embed_query(self, text):
            raise EmbedderError("no more credit")

    store = MemoryStore()
    async with build(manual(), store=store, embedder=Failing()) as corpus:
        assert corpus.report.added == 60
        assert {floor.reason for floor in corpus.report.floors.values()} == {"embedder_failed"}
    assert await ask(store, Calibrations()) == {}
    async with build(manual(), store=store) as corpus:
        assert corpus.report.floors["hybrid"].reason == "built"


async def test_a_store_that_cannot_search_is_built_without_floors():
    store = Limited(MemoryStore(), without=["lexical"])
    async with build(manual(), store=store) as corpus:
        assert (corpus.report.added, corpus.report.floors) == (60, {})


@pytest.mark.slow
async def test_upserts_leave_the_floors_to_the_next_build():
    store = MemoryStore()
    async with build(from_mapping({}, name="manual", embedder="light"), store=store) as corpus:
        await corpus.upsert(manual().scope)
        assert await ask(store, Calibrations()) == {}
        assert await load_built_floor(corpus, "hybrid") is None
    async with build(from_mapping({}, name="manual", embedder="light"), store=store) as corpus:
        assert corpus.report.floors["hybrid"].artifacts == 60


@pytest.mark.slow
async def test_an_ingest_in_partitions_ships_the_floors_of_a_build():
    source = manual()
    async with build(source, store=MemoryStore()) as corpus:
        expected = await floors_of(corpus)
    plan = await prepare_ingest(replace(source, scope={}), store=MemoryStore())
    pages = list(source.scope.items())
    for number in range(3):
        await ingest_partition(plan, number, dict(pages[number::3]))
    async with finish_ingest(plan, partitions=3) as corpus:
        assert await floors_of(corpus) == corpus.report.floors == expected


@pytest.mark.slow
async def test_a_calibration_and_a_built_floor_do_not_replace_each_other():
    store = MemoryStore()
    async with build(manual(), store=store) as corpus:
        await store.apply(Change(calibrations={"hybrid": {"min_score": 0.5}}))
        assert (await load_built_floor(corpus, "hybrid")).min_evidence is not None
        assert sorted(await ask(store, Calibrations())) == ["built:dense", "built:hybrid", "built:lexical", "hybrid"]


# Evidence


def counts_of(*frequencies, records=100):
    return TermCounts("bm25", records, 900, {f"word{number}": value for number, value in enumerate(frequencies)})


def test_unknown_words_weaken_a_match():
    known, unknown = match_strength(6.0, counts_of(2, 2)), match_strength(6.0, counts_of(2, 0))
    assert known > unknown > match_strength(6.0, counts_of(2, 0, 0, 0)) > 0
    assert match_strength(6.0, counts_of(2, 1), own={"word1": 1}) < match_strength(6.0, counts_of(2, 1))


@settings(max_examples=examples(50))
@given(st.floats(0, 1e6), st.lists(st.integers(0, 100), max_size=8))
def test_a_match_is_a_number_from_zero(score, frequencies):
    strength = match_strength(score, counts_of(*frequencies))
    assert 0 <= strength < float("inf")
    assert strength <= score / 1e-6


def test_no_ranking_is_no_evidence():
    assert evidence_of() == Evidence()
    assert evidence_of(Ranking([], [], np.array([]))) == Evidence(dense=0.0)
    assert evidence_of(lexical=Ranking(["r"], ["a"], np.array([3.0]))).lexical is None


def test_a_floor_allows_what_it_cannot_weigh():
    floor = BuiltFloor(0.5, "hybrid", "e", weights={"dense": 1.0, "lexical": 1.0}, offset=2.0)
    assert floor.weigh(Evidence(dense=0.1)) is None
    assert floor.allows(Evidence(dense=0.1))
    assert not floor.allows(Evidence(dense=0.1, lexical=0.2))
    assert BuiltFloor.from_dict(floor.to_dict()) == floor


@pytest.mark.slow
async def test_strong_evidence_of_one_channel_suffices_without_the_other():
    # Vectors of `light` by another name: as those of a model that knows meanings.
    embedder = embedder_from(HashingEmbedder().embed_documents, id="meanings", dim=HashingEmbedder().dim)
    async with build(manual(), store=MemoryStore(), embedder=embedder) as corpus:
        floor = corpus.report.floors["hybrid"]
    # As of a question in another language, and of an error code.
    assert floor.allows(Evidence(dense=floor.enough["dense"], lexical=0.0))
    assert floor.allows(Evidence(dense=-1.0, lexical=floor.enough["lexical"]))
    assert not floor.allows(Evidence(dense=-1.0, lexical=0.0))
    assert not floor.allows(Evidence(dense=0.5 * floor.enough["dense"], lexical=0.0))


@pytest.mark.slow
async def test_measuring_runs_in_a_file_without_stopping_the_event_loop(tmp_path):
    ticks = []

    async def tick():
        while True:
            ticks.append(anyio.current_time())
            await anyio.sleep(0.001)

    async with build(manual(300), store=tmp_path / "m.airw") as corpus, anyio.create_task_group() as group:
        assert isinstance(corpus.store, SqliteStore)
        group.start_soon(tick)
        await measure_floors(corpus)
        group.cancel_scope.cancel()
    assert len(ticks) > 5


@pytest.mark.slow
async def test_a_floor_belongs_to_the_embedder_by_the_id_that_the_corpus_knows_it_by():
    async with build(manual(), store=MemoryStore()) as corpus:
        renamed = replace(corpus, embedder=embedder_from(lambda texts: [[1.0]] * len(texts), id="alias", dim=1))
        assert await load_built_floor(renamed, "hybrid") == corpus.report.floors["hybrid"]
        await corpus.store.apply(Change(config={**await ask(corpus.store, Config()), "embedder_id": "other"}))
        assert await load_built_floor(renamed, "hybrid") is None


async def test_vectors_that_know_words_alone_say_nothing_beside_the_words():
    async with build(manual(), store=MemoryStore()) as corpus:
        floor = corpus.report.floors["hybrid"]
    assert floor.weights.keys() == {"lexical"}
    assert not floor.allows(Evidence(dense=0.9, lexical=0.0))


async def test_a_floor_that_an_earlier_version_measured_still_applies():
    async with build(manual(), store=MemoryStore()) as corpus:
        floor = replace(corpus.report.floors["hybrid"], method="sentences 1")
        await corpus.store.apply(Change(calibrations={floor.key: floor.to_dict()}))
        assert await load_built_floor(corpus, "hybrid") == floor


async def test_a_large_corpus_is_asked_fewer_questions_and_no_vectors(monkeypatch):
    monkeypatch.setattr("airw.corpora.floors._MOST_RECORDS", 59)
    async with build(manual(), store=MemoryStore()) as corpus:
        floors = corpus.report.floors
        assert [floors[mode].reason for mode in ("dense", "lexical", "hybrid")] == ["too_large", "built", "built"]
        assert list(floors["hybrid"].weights) == ["lexical"]
        assert (floors["hybrid"].n_own, floors["hybrid"].n_foreign) == (16, 16)
        for text in FOREIGN:
            assert not floors["hybrid"].allows(await find_evidence(corpus, text))
        for text in OWN:
            assert floors["hybrid"].allows(await find_evidence(corpus, text))
