"""An ingest in partitions equals one build.

Partitions may come in any order, repeatedly, at the same time, after kills and beside builds.
"""

import os
import pickle
import random
import signal
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build, finish_ingest, ingest_partition, open_corpus, prepare_ingest
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, EmbedderMismatch, PartitionsMissing, SourceError
from airw.indexing import Chunked, WholeText
from airw.links import extractor_from
from airw.protocols import ArtifactIds, Ledger, RecordsOf, Referrers, ask
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from airw.values import Artifact, ItemProblem
from tests.support import partitions_work as work
from tests.support.corpora import assert_same, content, source
from tests.support.drawing import examples
from tests.support.stored import content_of

TEXTS = {f"n{at}": f"text {at}" for at in range(10)}


def notes(items=(), **options):
    return from_mapping(dict(items), **{"name": "notes", "embedder": "light", **options})


def split_items(items, size):
    """Return the items in partitions of some size, in order."""
    items = list(items.items())
    return [dict(items[at : at + size]) for at in range(0, len(items), size)]


async def ingest_all(plan, parts, order=None, **options):
    for number in range(len(parts)) if order is None else order:
        await ingest_partition(plan, number, parts[number])
    return await finish_ingest(plan, partitions=len(parts), **options)


def counts(report):
    return report.added, report.updated, report.unchanged, report.removed


# The law

STATES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.sampled_from(["one", "two words", "three\n\nparts\n\nhere"]), st.lists(st.sampled_from("abcxyz"))),
    min_size=1,
)
STEPS = st.tuples(
    STATES,
    st.sampled_from([WholeText(), Chunked(chunk_size=6, overlap=0)]),
    st.sampled_from([HashingEmbedder(dim=32), HashingEmbedder(dim=64)]),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.lists(STEPS, min_size=1, max_size=3))
def test_any_sequence_of_ingests_has_the_content_and_reports_of_the_same_sequence_of_builds(steps):
    async def main():
        store, other = MemoryStore(), MemoryStore()
        for state, strategy, embedder, size, chance in steps:
            links = extractor_from(lambda name, fields: {"REF": fields["refs"]}, id="refs")
            whole = notes(
                {name: text for name, (text, _) in state.items()},
                strategy=strategy,
                embedder=embedder,
                edge_extractor=links,
                metadata_of=lambda name, _, state=state: {"refs": state[name][1]},
            )
            parts = split_items(whole.scope, size)
            order = list(range(len(parts))) * 2
            chance.shuffle(order)
            plan = await prepare_ingest(whole, store=store)
            corpus = await ingest_all(plan, parts, order)
            expected = await build(whole, store=other)
            assert counts(corpus.report) == counts(expected.report)
        assert await content_of(store) == await content_of(other)

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_partitions_of_linked_notes_written_at_once_to_one_file_equal_one_build(tmp_path):
    whole = source(count=60)
    plan = await prepare_ingest(whole, store=tmp_path / "parts.airw")
    parts = split_items(whole.scope, 7)
    async with anyio.create_task_group() as group:
        for number in random.Random(3).sample(range(len(parts)), len(parts)):
            group.start_soon(ingest_partition, plan, number, parts[number])
            group.start_soon(ingest_partition, plan, number, parts[number])
    async with finish_ingest(plan, partitions=len(parts)) as corpus, build(whole, store=tmp_path / "one.airw") as one:
        assert_same(await content(corpus.store), await content(one.store))
        assert counts(corpus.report) == counts(one.report)
        assert corpus.report.seconds > 0


async def test_partitions_treat_problems_as_a_build_does(tmp_path):
    given = {**TEXTS, "n3": 3, "n7": None}
    store, other = MemoryStore(), MemoryStore()
    for on_error_items in (TEXTS, given):
        plan = await prepare_ingest(notes(), store=store, on_error="skip")
        corpus = await ingest_all(plan, split_items(on_error_items, 4), [2, 0, 1])
        one = await build(notes(on_error_items), store=other, on_error="skip")
        assert corpus.report.problems == one.report.problems
        assert counts(corpus.report) == counts(one.report)
    assert [problem.item for problem in corpus.report.problems] == ["n3", "n7"]
    assert await content_of(store) == await content_of(other)
    plan = await prepare_ingest(notes(), store=store)
    with pytest.raises(SourceError, match=r"'n3'.*on_error='skip'"):
        await ingest_partition(plan, 0, given)


async def test_items_may_be_artifacts_and_problems_as_a_source_yields_them():
    plan = await prepare_ingest(notes(), store=MemoryStore(), on_error="skip")
    report = await ingest_partition(plan, 0, [Artifact("a", "one", {"x": 1}), ItemProblem("b", "is locked")])
    assert (report.added, report.problems) == (1, (ItemProblem("b", "is locked"),))
    assert report == await ingest_partition(plan, 0, iter([Artifact("never", "read")]))
    corpus = await finish_ingest(plan, partitions=1)
    [[record]] = await ask(corpus.store, RecordsOf(["a"]))
    assert record.metadata["x"] == 1


# Repeated and missing partitions


async def test_only_changed_items_are_embedded_again():
    store = MemoryStore()
    for texts, expected in ((TEXTS, 10), ({**TEXTS, "n1": "changed"}, 1)):
        embedder = work.Counting()
        plan = await prepare_ingest(notes(embedder=embedder), store=store)
        await ingest_all(plan, split_items(texts, 4))
        assert len(embedder.texts) == expected


async def test_another_extractor_finds_links_again_without_embedding_anything():
    store, embedder = MemoryStore(), work.Counting()
    for target, expected in (("n1", 10), ("n2", 0)):
        embedder.texts.clear()
        links = extractor_from(lambda name, _, to=target: {"REF": [to]}, id=target)
        plan = await prepare_ingest(notes(embedder=embedder), store=store, edge_extractor=links)
        await ingest_all(plan, split_items(TEXTS, 4))
        assert len(embedder.texts) == expected
        assert [len(ids) for ids in await ask(store, Referrers([target]))] == [9]


async def test_a_written_partition_returns_its_report_again_without_work():
    def unreadable():
        raise OSError
        yield

    plan = await prepare_ingest(notes(), store=MemoryStore())
    first = await ingest_partition(plan, 0, TEXTS)
    assert await ingest_partition(plan, 0, unreadable()) == first
    with pytest.raises(SourceError, match="OSError"):
        await ingest_partition(plan, 1, unreadable())


async def test_of_several_workers_with_the_same_partition_one_writes_and_all_return_its_report():
    store = MemoryStore()
    plan = await prepare_ingest(notes(), store=store)
    reports = []

    async def ingest():
        reports.append(await ingest_partition(plan, 0, TEXTS))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ingest)
    assert [(report.added, report.updated, report.unchanged) for report in reports] == [(10, 0, 0)] * 5


async def test_finishing_too_early_names_the_partitions_that_are_missing_and_removes_nothing():
    store = MemoryStore()
    await build(notes({"old": "text"}), store=store)
    plan = await prepare_ingest(notes(), store=store)
    await ingest_partition(plan, 1, {"a": "one"})
    with pytest.raises(PartitionsMissing, match=r"'notes': partitions 0, 2, 3 of 4 are missing") as caught:
        await finish_ingest(plan, partitions=4)
    assert caught.value.partitions == (0, 2, 3)
    assert pickle.loads(pickle.dumps(caught.value)).partitions == (0, 2, 3)
    assert await ask(store, ArtifactIds()) == ["a", "old"]
    with pytest.raises(ArgumentError, match="partitions=1, but partition 1 was ingested"):
        await finish_ingest(plan, partitions=1)


async def test_finishing_prunes_artifacts_of_its_source_that_were_in_no_partition():
    store = MemoryStore()
    await build(notes({"old": "text"}), store=store)
    await build(notes({"other": "text"}, name="others"), store=store)
    for full, left in ((False, ["a", "old", "other"]), (True, ["a", "other"])):
        plan = await prepare_ingest(notes(), store=store)
        corpus = await ingest_all(plan, [{"a": "one"}], full=full)
        assert await ask(store, ArtifactIds()) == left
    assert counts(corpus.report) == (0, 0, 1, 1)


async def test_empty_partitions_do_not_empty_a_corpus_without_force():
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    plan = await prepare_ingest(notes(), store=store)
    with pytest.raises(SourceError, match="returned nothing to index, but 10"):
        await ingest_all(plan, [{}, {}])
    assert len(await ask(store, ArtifactIds())) == 10
    corpus = await finish_ingest(plan, partitions=2, force=True)
    assert counts(corpus.report) == (0, 0, 0, 10)


# The same id twice


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_an_id_of_two_partitions_in_any_order_is_an_error_at_the_end(order):
    plan = await prepare_ingest(notes(), store=MemoryStore())
    with pytest.raises(SourceError, match="'a' is in partition 1 and in partition 0; ids must differ"):
        await ingest_all(plan, [{"a": "one"}, {"a": "two"}], order)


@pytest.mark.parametrize("before", [{}, {"a": "one"}, {"a": "two"}])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_an_id_of_two_partitions_in_any_order_belongs_to_the_lower_number(before, order):
    store, parts = MemoryStore(), [{"a": "one", "b": "b"}, {"c": "c", "a": "two"}]
    if before:
        await build(notes(before), store=store)
    plan = await prepare_ingest(notes(), store=store, on_error="skip")
    try:
        corpus = await ingest_all(plan, parts, order)
    except PartitionsMissing as error:
        again = error.partitions
        corpus = await ingest_all(plan, parts, again)
    assert [problem.item for problem in corpus.report.problems] == ["a"]
    fresh = await build(notes({"a": "one", "b": "b", "c": "c"}), store=MemoryStore())
    assert await content_of(store) == await content_of(fresh.store)


# Beside other builds


async def test_another_embedder_replaces_the_vectors_of_the_old_one_as_in_a_build():
    store, other = MemoryStore(), MemoryStore()
    for dim in (32, 64):
        whole = notes(TEXTS, embedder=HashingEmbedder(dim=dim))
        corpus = await ingest_all(await prepare_ingest(whole, store=store), split_items(TEXTS, 4))
        one = await build(whole, store=other)
    assert counts(corpus.report) == counts(one.report) == (0, 10, 0, 0)
    assert await content_of(store) == await content_of(other)
    await build(notes({"x": "x"}, name="others", embedder=HashingEmbedder(dim=64)), store=store)
    with pytest.raises(EmbedderMismatch, match="contains artifacts of 'others'"):
        await prepare_ingest(notes(embedder=HashingEmbedder(dim=32)), store=store)


async def test_a_partition_is_refused_once_a_build_has_changed_the_embedder():
    store = MemoryStore()
    plan = await prepare_ingest(notes(), store=store)
    await ingest_partition(plan, 0, {"a": "one"})
    await build(notes({"a": "one"}, embedder=HashingEmbedder(dim=64)), store=store)
    before = await content_of(store)
    for refused in (ingest_partition(plan, 1, {"b": "two"}), finish_ingest(plan, partitions=1)):
        with pytest.raises(EmbedderMismatch, match=r"no longer has embedder 'hashing-v2-512'.*prepare_ingest"):
            await refused
    assert await content_of(store) == before


async def test_a_partition_is_refused_if_the_embedder_changes_while_it_is_embedded():
    store, embedder = MemoryStore(), work.Waiting()
    plan = await prepare_ingest(notes(embedder=embedder), store=store)
    async with anyio.create_task_group() as group:

        async def ingest():
            with pytest.raises(EmbedderMismatch):
                await ingest_partition(plan, 0, {"a": "one"})

        group.start_soon(ingest)
        await embedder.asked.wait()
        await build(notes({"b": "two"}, embedder=HashingEmbedder(dim=32)), store=store)
        embedder.go.set()
    assert await ask(store, ArtifactIds()) == ["b"]


async def test_a_partition_is_embedded_beside_a_builder_and_written_after_it():
    store, embedder = MemoryStore(), work.Waiting()
    plan = await prepare_ingest(notes(embedder=embedder), store=store)
    async with anyio.create_task_group() as group, store.writing():
        group.start_soon(ingest_partition, plan, 0, {"a": "one"})
        await embedder.asked.wait()
        embedder.go.set()
        await anyio.sleep(0.05)
        assert len(embedder.texts) == 1
        assert await ask(store, ArtifactIds()) == []
    assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_finished_or_replaced_ingest_refuses_further_partitions():
    store = MemoryStore()
    for is_finished in (True, False):
        plan = await prepare_ingest(notes(), store=store)
        await ingest_partition(plan, 0, {"a": "one"})
        await (finish_ingest(plan, partitions=1) if is_finished else prepare_ingest(notes(), store=store))
        for refused in (ingest_partition(plan, 0, {"b": "two"}), finish_ingest(plan, partitions=1)):
            with pytest.raises(SourceError, match="has ended: it was finished, or another one was prepared"):
                await refused
    assert await ask(store, ArtifactIds()) == ["a"]


async def test_artifacts_that_a_build_removed_meanwhile_must_be_ingested_again():
    store, parts = MemoryStore(), split_items(TEXTS, 4)
    plan = await prepare_ingest(notes(), store=store)
    for number, part in enumerate(parts):
        await ingest_partition(plan, number, part)
    await build(notes({"n1": "text 1", "n2": "text 2", "n3": "text 3", "n0": "newer"}), store=store)
    with pytest.raises(PartitionsMissing, match=r"ingest partitions 0, 1, 2 again") as caught:
        await finish_ingest(plan, partitions=3)
    corpus = await ingest_all(plan, parts, caught.value.partitions)
    fresh = await build(notes(TEXTS), store=MemoryStore())
    assert await content_of(corpus.store) == await content_of(fresh.store)


async def test_two_sources_are_ingested_into_one_corpus_at_once():
    store = MemoryStore()
    plans = [await prepare_ingest(notes(name=name), store=store) for name in ("one", "two")]
    for plan in plans:
        await ingest_partition(plan, 0, {plan.source.name: "text"})
    for plan in plans:
        await finish_ingest(plan, partitions=1)
    assert await ask(store, ArtifactIds()) == ["one", "two"]


async def test_a_custom_source_provides_the_settings_and_is_not_read():
    class Own:
        name, indexing_strategy, embedder, edge_extractor = "own", WholeText(), "light", None

        def change_signal(self, artifact):
            return f"revision {artifact.raw.split()[-1]}"

        def items(self):
            raise AssertionError

    store = MemoryStore()
    for texts, expected in (({"a": "text 1"}, (2, 0, 0, 0)), ({"a": "other 1"}, (0, 0, 2, 0)), ({}, (0, 0, 1, 1))):
        corpus = await ingest_all(await prepare_ingest(Own(), store=store), [texts, {"b": "text 2"}])
        assert counts(corpus.report) == expected
    assert [entry.version for entry in await ask(store, Ledger())] == ["revision 2"]


# Other processes


@pytest.mark.asyncio_only
async def test_an_ingest_without_a_store_creates_the_corpus_with_the_name_of_the_source(home):
    plan = await prepare_ingest(notes())
    assert plan.store == home / "corpora" / "notes.airw"
    async with await ingest_all(plan, [{"a": "alpha"}]) as corpus:
        assert corpus.name == "notes"
    async with open_corpus("notes") as corpus:
        assert [hit.artifact_id for hit in await corpus.search("alpha")] == ["a"]


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_plan_and_its_reports_can_be_pickled_and_contain_the_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = work.source()
    plan = pickle.loads(pickle.dumps(await prepare_ingest(whole, store=Path("notes.airw"))))
    assert plan.store == tmp_path / "notes.airw"
    report = await ingest_partition(plan, 0, work.part(0))
    assert pickle.loads(pickle.dumps(report)) == report
    async with finish_ingest(plan, partitions=1) as corpus:
        assert corpus.report.added == len(work.part(0))


@pytest.mark.asyncio_only
async def test_a_worker_with_another_model_is_refused(tmp_path):
    plan = await prepare_ingest(notes(), store=tmp_path / "notes.airw")
    with pytest.raises(EmbedderMismatch, match=r"hashing-v2-512.*not 'hashing-v2-64'"):
        await ingest_partition(replace(plan, embedder=HashingEmbedder(dim=64)), 0, {"a": "one"})


async def test_a_store_without_runs_and_invalid_items_are_refused_by_name():
    class Plain:
        writing = MemoryStore().writing

    with pytest.raises(ArgumentError, match="a store that keeps runs, such as SqliteStore, not <"):
        await prepare_ingest(notes(), store=Plain())
    plan = await prepare_ingest(notes(), store=MemoryStore())
    for items in ("a text", 7, None):
        with pytest.raises(ArgumentError, match="ingest_partition takes"):
            await ingest_partition(plan, 0, items)
    with pytest.raises(ArgumentError, match="number"):
        await ingest_partition(plan, -1, {})
    with pytest.raises(ArgumentError, match="partitions"):
        finish_ingest(plan, partitions=1.5)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_workers_killed_at_random_moments_leave_whole_partitions_and_the_ingest_equals_one_build(tmp_path):
    """A row is written together with its artifacts or not at all."""
    chance = random.Random(7)
    plan = await prepare_ingest(work.source(), store=tmp_path / "notes.airw")
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    for first in range(8):
        with work.start_workers(tmp_path / "plan", first) as workers:
            for worker in workers:
                assert worker.stdout.readline()  # it has written a partition, or one was already written
            await anyio.sleep(chance.uniform(0, 0.06))
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)
                assert worker.wait() == -signal.SIGKILL
        async with await SqliteStore.open(plan.store) as store:
            _, rows = await store.read_run(plan.run)
            ids = [name for number in sorted(rows) for name in work.part(number)]
            assert await ask(store, ArtifactIds()) == sorted(ids)
    for number in range(work.PARTS):
        await ingest_partition(plan, number, work.part(number))
    one = await build(work.source(whole=True), store=MemoryStore())
    async with finish_ingest(plan, partitions=work.PARTS) as corpus:
        assert await content_of(corpus.store) == await content_of(one.store)
