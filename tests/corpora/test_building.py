"""Builds in memory: the same content as a fresh build, the least work, and no losses."""

import zlib
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import BuildProgress, build
from airw.corpora.source_pages import SourcePages
from airw.embedders import embedder_from
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, SourceError, StoreError
from airw.indexing import Chunked, WholeText
from airw.links import TitleMentions, extractor_from
from airw.protocols import ArtifactIds, Change, Config, Counts, Edges, Ledger, RecordsOf, Vectors, ask
from airw.sources import CorpusSource, content_hash, from_files, from_mapping
from airw.stores import MemoryStore
from airw.values import Artifact, ArtifactChange, Extraction, IndexPlan, ItemProblem, Link, Record, Surface
from tests.support.asked import Asked
from tests.support.corpora import at_each_page
from tests.support.drawing import examples
from tests.support.stored import content_of
from tests.support.waiting import wait_for
from tests.support.watched import Watched

TEXTS = {"a": "alpha", "b": "beta", "c": "gamma", "d": "delta", "e": "epsilon"}


class Counting:
    """An embedder that remembers the texts that it has embedded."""

    def __init__(self, id="count-v1", dim=8):
        self.texts = []
        self.dim = dim
        self.embedder = embedder_from(self.embed, id=id, dim=dim)

    def embed(self, texts):
        self.texts += texts
        return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(self.dim) for text in texts]


@dataclass
class Scripted:
    """A source of these items; an exception among them is raised at its place."""

    script: list
    name: str = "notes"
    indexing_strategy: object = field(default_factory=WholeText)
    embedder: object = field(default_factory=lambda: Counting().embedder)
    edge_extractor: object = None
    given: int = 0
    closed: int = 0

    def change_signal(self, artifact):
        return content_hash(artifact)

    async def items(self):
        try:
            for item in self.script:
                await anyio.lowlevel.checkpoint()
                if isinstance(item, BaseException):
                    raise item
                self.given += 1
                yield item
        finally:
            self.closed += 1


def notes(items, **options):
    return from_mapping(items, **{"name": "notes", "embedder": Counting().embedder, **options})


async def outcome(source, store, **options):
    corpus = await build(source, store=store, **options)
    report = corpus.report
    return report.added, report.updated, report.unchanged, report.removed


STATES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.sampled_from(["one", "two words", "", "three\n\nparts\n\nhere"]), st.lists(st.sampled_from("abcxyz"))),
)
SETTINGS = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from([WholeText(), Chunked(chunk_size=6, overlap=0)]),
        "embedder": st.sampled_from([("one", 4), ("two", 4), ("three", 6)]),
        "batch_size": st.integers(1, 4),
        "links": st.booleans(),
    }
)


async def build_state(state, store, *, strategy, embedder, batch_size, links):
    extractor = extractor_from(lambda _, fields: {"REF": fields["refs"]}, id="refs") if links else None
    source = notes(
        {name: text for name, (text, _) in state.items()},
        strategy=strategy,
        embedder=Counting(*embedder).embedder,
        edge_extractor=extractor,
        metadata_of=lambda name, _: {"refs": state[name][1]},
    )
    return await build(source, store=store, batch_size=batch_size, force=True)


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(st.lists(st.tuples(STATES, SETTINGS), min_size=1, max_size=4))
def test_any_sequence_of_builds_equals_one_fresh_build_of_the_last_state(steps):
    async def main():
        store, fresh = MemoryStore(), MemoryStore()
        for state, options in steps:
            corpus = await build_state(state, store, **options)
        await build_state(steps[-1][0], fresh, **steps[-1][1])
        report = corpus.report
        assert report.added + report.updated + report.unchanged == len(steps[-1][0])
        assert await content_of(store) == await content_of(fresh)

    anyio.run(main)


async def test_a_build_processes_only_new_and_changed_items():
    counting, store = Counting(), MemoryStore()
    options = {"embedder": counting.embedder}
    assert await outcome(notes(TEXTS, **options), store) == (5, 0, 0, 0)
    assert sorted(counting.texts) == sorted(TEXTS.values())
    counting.texts.clear()
    before = await content_of(store)
    assert await outcome(notes(TEXTS, **options), store) == (0, 0, 5, 0)
    assert counting.texts == []
    assert await content_of(store) == before
    changed = {**TEXTS, "b": "beta, again", "f": "zeta"}
    del changed["a"]
    assert await outcome(notes(changed, **options), store) == (1, 1, 3, 1)
    assert sorted(counting.texts) == ["beta, again", "zeta"]
    assert await ask(store, ArtifactIds()) == ["b", "c", "d", "e", "f"]


async def test_without_full_nothing_is_removed():
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    assert await outcome(notes({"b": "new"}), store, full=False) == (0, 1, 0, 0)
    assert await outcome(notes({}), store, full=False) == (0, 0, 0, 0)
    assert await ask(store, ArtifactIds()) == sorted(TEXTS)


async def test_a_change_of_metadata_only_reaches_the_hits():
    store = MemoryStore()
    for owner in ("ada", "bob"):
        source = notes({"a": "text"}, metadata_of=lambda *_, owner=owner: {"owner": owner})
        corpus = await build(source, store=store)
        (hit,) = await corpus.search("text", filter={"owner": owner})
        assert hit.metadata["owner"] == owner


async def test_another_strategy_decomposes_again_and_another_extractor_extracts_again():
    store = MemoryStore()
    await build(notes({"a": "one\n\ntwo", "b": "three"}), store=store)
    chunked = {"strategy": Chunked(chunk_size=4, overlap=0)}
    assert await outcome(notes({"a": "one\n\ntwo", "b": "three"}, **chunked), store) == (0, 2, 0, 0)
    assert len((await ask(store, RecordsOf(["a"])))[0]) == 2
    assert (await ask(store, Edges(["a"]))) == [[]]
    extractor = extractor_from(lambda name, _: {"REF": ["b"]} if name == "a" else {}, id="to-b")
    source = notes({"a": "one\n\ntwo", "b": "three"}, **chunked)
    assert await outcome(source, store, edge_extractor=extractor) == (0, 2, 0, 0)
    assert [edge.target for edge in (await ask(store, Edges(["a"])))[0]] == ["b"]
    assert await outcome(source, store, force=True) == (0, 2, 0, 0)
    assert (await ask(store, Edges(["a"]))) == [[]]


@pytest.mark.parametrize("dim", [8, 5])
async def test_another_embedder_of_any_width_embeds_everything_again(dim):
    store, other = MemoryStore(), Counting("other-v1", dim)
    await build(notes(TEXTS), store=store)
    assert await outcome(notes(TEXTS), store, embedder=other.embedder, batch_size=2) == (0, 5, 0, 0)
    assert sorted(other.texts) == sorted(TEXTS.values())
    config = await ask(store, Config())
    assert (config["embedder_id"], config["dim"], config["embedder"]) == ("other-v1", dim, "custom")
    fresh = MemoryStore()
    await build(notes(TEXTS), store=fresh, embedder=other.embedder)
    assert await content_of(store) == await content_of(fresh)


async def test_a_change_of_embedder_is_refused_if_it_does_not_reach_every_artifact():
    store, other = MemoryStore(), Counting("other-v1").embedder
    await build(notes(TEXTS), store=store)
    with pytest.raises(EmbedderMismatch, match="full=False"):
        await build(notes({"a": "alpha"}), store=store, embedder=other, full=False)
    await build(notes({"x": "xi"}, name="more"), store=store)
    before = await content_of(store)
    with pytest.raises(EmbedderMismatch, match="'more'"):
        await build(notes(TEXTS), store=store, embedder=other)
    assert await content_of(store) == before


async def test_an_unreadable_item_with_vectors_of_another_embedder_is_removed_and_reported():
    store = MemoryStore()
    await build(Scripted([Artifact("a", "alpha"), Artifact("b", "beta")]), store=store)
    source = Scripted([ItemProblem("a", "cannot be read"), Artifact("b", "beta")])
    corpus = await build(source, store=store, embedder=Counting("other-v1").embedder, on_error="skip")
    assert await ask(store, ArtifactIds()) == ["b"]
    assert "another embedder" in corpus.report.problems[0].reason
    assert (corpus.report.updated, corpus.report.removed) == (1, 1)


async def test_a_new_embedder_that_fails_on_its_first_page_changes_nothing():
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    before = await content_of(store)
    with pytest.raises(EmbedderError):
        await build(notes(TEXTS), store=store, embedder=embedder_from(lambda _: 1 / 0, id="broken", dim=3))
    assert await content_of(store) == before


async def test_a_source_without_items_never_empties_a_corpus_unless_forced():
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    before = await content_of(store)
    for embedder in (Counting().embedder, Counting("other-v1").embedder):
        with pytest.raises(SourceError, match="force=True"):
            await build(notes({}), store=store, embedder=embedder)
        assert await content_of(store) == before
    assert await outcome(notes({}), store, force=True) == (0, 0, 0, 5)
    assert await ask(store, Counts()) == await ask(MemoryStore(), Counts())


async def test_an_empty_mapping_makes_an_empty_corpus():
    async with build(notes({}), store=MemoryStore()) as corpus:
        assert await corpus.search("anything", mode="hybrid") == []
        assert (await ask(corpus.store, Config()))["embedder_id"] == "count-v1"


async def test_a_build_prunes_only_artifacts_of_its_source_and_takes_no_id_of_another():
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    assert await outcome(notes({"x": "xi", "y": "upsilon"}, name="more"), store) == (2, 0, 0, 0)
    assert await outcome(notes({"x": "xi"}, name="more"), store) == (0, 0, 1, 1)
    before = await content_of(store)
    with pytest.raises(SourceError, match=r"'a'.*from source 'notes'"):
        await build(notes({"x": "xi", "a": "mine"}, name="more"), store=store)
    corpus = await build(notes({"x": "xi", "a": "mine"}, name="more"), store=store, on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["a"]
    assert await content_of(store) == before
    assert corpus.name == "notes"


async def test_a_build_takes_over_artifacts_that_belong_to_no_source():
    store = MemoryStore()
    await build(notes({"a": "alpha", "b": "beta"}), store=store)
    for artifact_id in ("a", "b"):
        [entry], [records] = await ask(store, Ledger([artifact_id])), await ask(store, RecordsOf([artifact_id]))
        vectors = await ask(store, Vectors(entry.record_ids))
        await store.apply(Change([ArtifactChange(replace(entry, source=""), records, vectors)]))
    assert await outcome(notes({"a": "alpha"}), store) == (0, 1, 0, 0)
    assert await outcome(notes({"c": "gamma"}), store) == (1, 0, 0, 1)
    assert await ask(store, ArtifactIds()) == ["b", "c"]


class Choosy:
    """A strategy that returns the raw value of an artifact as its plan."""

    id = "choosy"

    def decompose(self, artifact):
        if isinstance(artifact.raw, Exception):
            raise artifact.raw
        if isinstance(artifact.raw, IndexPlan):
            return artifact.raw
        return IndexPlan({}, [Surface(artifact.id, "document", artifact.raw)])


class Signalled(Scripted):
    def change_signal(self, artifact):
        return str(artifact.raw)


async def test_a_records_metadata_are_the_filter_fields_overlaid_by_those_of_its_surface_and_json_clean():
    surfaces = [Surface("a", "document", "text", metadata={"part": np.int64(1), "kind": "own"}), Surface("a", "x", "t")]
    source = Signalled(
        [Artifact("a", IndexPlan({"kind": "all", "tags": ("x",)}, surfaces))], indexing_strategy=Choosy()
    )
    async with build(source, store=MemoryStore()) as corpus:
        first, second = (await ask(corpus.store, RecordsOf(["a"])))[0]
    assert first.metadata == {"kind": "own", "tags": ["x"], "part": 1}
    assert second.metadata == {"kind": "all", "tags": ["x"]}
    assert [first.id, second.id] == [Record.make_id("a", "document", 0), Record.make_id("a", "x", 1)]


BAD = {
    "problem": (ItemProblem("bad", "cannot be read"), "cannot be read"),
    "duplicate": (Artifact("a", "again"), "twice"),
    "empty id": (Artifact("", "text"), "not empty"),
    "number as id": (Artifact(7, "text"), "must be a string"),
    "lone surrogate in the id": (Artifact("half\ud800", "text"), "unpaired surrogate"),
    "lone surrogate in the text": (Artifact("bad", "half \ud800"), "unpaired surrogate"),
    "lone surrogate in a field": (
        Artifact("bad", IndexPlan({"by": "half \udfff"}, [Surface("bad", "document", "text")])),
        "unpaired surrogate",
    ),
    "NUL in the id": (Artifact("a\0b", "text"), "NUL"),
    "NUL in a surface's kind": (Artifact("bad", IndexPlan({}, [Surface("bad", "do\0c", "text")])), "NUL"),
    "text that is none": (Artifact("bad", 7), "expected text, not 7"),
    "no plan": (Artifact("bad", IndexPlan(None, None)), "TypeError"),
    "a strategy that refuses": (Artifact("bad", SourceError("wrong kind")), "wrong kind"),
    "a strategy that fails": (Artifact("bad", KeyError("title")), "KeyError: 'title'"),
    "no item": ("just text", "Artifact or ItemProblem"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_item_is_an_error_that_names_it_or_a_line_of_the_report(case):
    bad, reason = BAD[case]
    source = Signalled([Artifact("a", "alpha"), bad, Artifact("z", "omega")], indexing_strategy=Choosy())
    with pytest.raises(SourceError, match=reason) as caught:
        await build(source, store=MemoryStore())
    assert "source 'notes'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert source.closed == 1
    async with build(source, store=MemoryStore(), on_error="skip") as corpus:
        assert await ask(corpus.store, ArtifactIds()) == ["a", "z"]
        (problem,) = corpus.report.problems
        assert problem.lost
        assert reason in problem.reason
        problem.item.encode()


async def test_an_indexed_item_is_kept_if_it_cannot_be_read_now():
    store = MemoryStore()
    items = [Artifact("a", "alpha"), Artifact("b", "beta"), Artifact("deep/c", "gamma"), Artifact("gone", "old")]
    await build(Signalled(items, indexing_strategy=Choosy()), store=store)
    before = await ask(store, RecordsOf(["a", "b", "deep/c"]))
    script = [ItemProblem("a", "cannot be read"), Artifact("b", 1), ItemProblem("deep", "cannot be listed")]
    corpus = await build(Signalled(script, indexing_strategy=Choosy()), store=store, on_error="skip")
    assert await ask(store, RecordsOf(["a", "b", "deep/c"])) == before
    assert await ask(store, ArtifactIds()) == ["a", "b", "deep/c"]
    assert corpus.report.removed == 1
    assert all("kept" in problem.reason for problem in corpus.report.problems)


async def test_a_problem_that_loses_nothing_is_only_reported():
    class Doubting:
        id = "doubting"

        def extract(self, artifact, fields):
            return Extraction([Link("b")], [[artifact.id]], ["line 3: a link without a target"])

    script = [Artifact("a", "alpha"), ItemProblem("a", "its frontmatter is ignored", lost=False)]
    async with build(Scripted(script), store=MemoryStore(), edge_extractor=Doubting()) as corpus:
        assert await ask(corpus.store, ArtifactIds()) == ["a"]
        assert sorted(problem.reason for problem in corpus.report.problems) == [
            "its frontmatter is ignored",
            "line 3: a link without a target",
        ]
        assert not any(problem.lost for problem in corpus.report.problems)


@pytest.mark.parametrize(
    "artifact_id", ["../../evil", "a/b", "/etc/passwd", ".hidden", "🦊" * 20, "x" * 10_000, "a\nb", " "]
)
async def test_any_string_can_be_an_id(artifact_id):
    store = MemoryStore()
    assert await outcome(notes({artifact_id: "fox den", "a": "alpha"}), store) == (2, 0, 0, 0)
    assert await outcome(notes({artifact_id: "fox den", "a": "alpha"}), store) == (0, 0, 2, 0)
    corpus = await build(notes({artifact_id: "fox den", "a": "alpha"}), store=store)
    (hit,) = await corpus.search("fox", mode="lexical")
    assert hit.artifact_id == artifact_id


@pytest.mark.parametrize(
    "answer", [[[float("nan")] * 2], [[1.0] * 3], [[1.0, 0.0]] * 2, [["x", "y"]], None, [[float("inf"), 1.0]]]
)
async def test_unusable_vectors_are_an_embedder_error_and_their_page_is_not_stored(answer):
    def embed(texts):
        return answer if "bad" in texts else [[1.0, 0.0]] * len(texts)

    store, good = MemoryStore(), embedder_from(embed, id="e", dim=2)
    with pytest.raises(EmbedderError, match="'e'"):
        await build(notes({"a": "alpha", "b": "bad", "c": "gamma"}), store=store, embedder=good, batch_size=1)
    assert "b" not in await ask(store, ArtifactIds())
    assert (await ask(store, Counts()))["records"] == len(await ask(store, ArtifactIds()))


@pytest.mark.parametrize(
    ("error", "kind"), [(SourceError("folder is gone"), SourceError), (OSError("disk is gone"), SourceError)]
)
async def test_a_source_that_fails_half_way_is_closed_and_indexed_artifacts_stay(error, kind):
    store = MemoryStore()
    await build(notes(TEXTS), store=store)
    source = Scripted([Artifact("a", "new alpha"), Artifact("f", "zeta"), error])
    with pytest.raises(kind, match="is gone"):
        await build(source, store=store, batch_size=1, on_error="skip")
    assert source.closed == 1
    assert set(TEXTS) <= set(await ask(store, ArtifactIds()))
    assert await outcome(notes(TEXTS), store) in [(0, 0, 5, 0), (0, 1, 4, 0), (0, 1, 4, 1), (0, 0, 5, 1)]


@pytest.mark.parametrize("error", [EmbedderError("model is gone"), StoreError("disk is full")])
async def test_a_failing_embedder_or_store_always_ends_the_build_with_its_own_error(error):
    class FailingStore(MemoryStore):
        async def apply(self, change):
            if isinstance(error, StoreError) and change.puts:
                raise error
            await super().apply(change)

    def embed(texts):
        raise error

    source = Scripted([Artifact(str(number), f"text {number}") for number in range(50)])
    embedder = embedder_from(embed, id="e", dim=2) if isinstance(error, EmbedderError) else None
    with pytest.raises(type(error)) as caught:
        await build(source, store=FailingStore(), embedder=embedder, batch_size=2, on_error="skip")
    assert caught.value is error
    assert source.closed == 1


async def test_an_error_of_the_progress_callback_is_raised_unchanged():
    def progress(counts):
        raise LookupError("no terminal")

    with pytest.raises(LookupError, match="no terminal"):
        await build(notes(TEXTS), store=MemoryStore(), progress=progress)


async def test_progress_is_reported_after_each_page():
    seen, store = [], MemoryStore()
    await build(notes({"a": "alpha", "b": "beta"}), store=store)
    items = [Artifact("a", "alpha"), Artifact("b", "new"), Artifact("c", "gamma"), ItemProblem("d", "cannot be read")]
    await build(Scripted(items), store=store, batch_size=2, on_error="skip", progress=seen.append)
    written = dict.fromkeys((counts.added, counts.updated, counts.unchanged, counts.problems) for counts in seen)
    assert list(written) == [(0, 0, 0, 0), (0, 1, 1, 0), (1, 1, 1, 1)]
    assert seen[-1] == BuildProgress(1, 1, 1, 1, read=4, embedded=2, stage="finish")
    assert (seen[-1].written, seen[-1].done, seen[-1].fraction) == (2, 3, 1.0)


@pytest.mark.slow
async def test_the_total_and_the_counts_are_known_before_the_first_page_is_embedded():
    seen, at_first_call = [], []

    async def embed(texts):
        if len(texts) > 1:  # a text alone is a question that the floor is measured with
            await wait_for(lambda: seen and seen[-1].total)  # the source is counted while a model works
            at_first_call.append(seen[-1])
        return [[1.0, 0.0]] * len(texts)

    texts = {f"{number:03}": f"text {number}" for number in range(100)}
    await build(notes(texts, embedder=embedder_from(embed, id="e", dim=2)), store=MemoryStore(), progress=seen.append)
    assert (at_first_call[0].total, at_first_call[0].read, at_first_call[0].fraction) == (100, 100, 0.0)
    # The first calls embed few texts, so that a slow model shows progress inside its first page.
    assert [counts.embedded for counts in at_first_call] == [0, 32, 96]
    shares = [counts.fraction for counts in seen if counts.total is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


async def test_a_source_that_must_be_read_twice_reports_both_readings():
    seen = []
    texts = {"a": "Beta", "b": "beta"}
    await build(notes(texts), store=MemoryStore(), edge_extractor=TitleMentions(), progress=seen.append)
    stages = list(dict.fromkeys((counts.stage, counts.read) for counts in seen))
    assert stages == [("survey", 0), ("survey", 2), ("index", 0), ("index", 2), ("finish", 2)]


@pytest.mark.parametrize("count", [lambda: None, lambda: 1 // 0])
async def test_a_source_that_cannot_count_its_items_is_built_without_a_total(count):
    seen = []
    source = replace(notes(TEXTS), count=count)
    await build(source, store=MemoryStore(), progress=seen.append)
    assert {counts.total for counts in seen} == {None}
    assert seen[0].fraction is None


@pytest.mark.parametrize("pages", [1, 2, 4])
async def test_a_cancelled_build_leaves_a_valid_corpus_that_the_next_build_completes(pages):
    store, fresh, calls = MemoryStore(), MemoryStore(), []
    items = [Artifact(f"{number:02}", f"text {number}") for number in range(10)]

    def count_page():
        calls.append(1)
        if len(calls) == pages:
            scope.cancel()

    source = Scripted(items)
    with anyio.CancelScope() as scope:
        await build(source, store=store, batch_size=2, progress=at_each_page(count_page))
    assert scope.cancelled_caught
    assert source.closed == 1
    assert await ask(store, ArtifactIds()) == [artifact.id for artifact in items[: 2 * pages]]
    async with build(Scripted(items), store=store) as corpus:
        assert corpus.report.unchanged == 2 * pages
    await build(Scripted(items), store=fresh)
    assert await content_of(store) == await content_of(fresh)


async def test_reading_continues_while_a_page_is_embedded_but_only_a_few_pages_ahead():
    read_on = anyio.Event()

    class Watched(Scripted):
        async def items(self):
            for item in self.script:
                self.given += 1
                if self.given == 3:
                    read_on.set()
                yield item

    source = Watched([Artifact(f"{number:02}", f"text {number}") for number in range(12)])
    ahead = []

    async def embed(texts):
        await read_on.wait()
        if not ahead:
            while source.given < 3:  # noqa: ASYNC110 - a source tells nobody
                await anyio.sleep(0.001)
            await anyio.sleep(0.05)  # enough time to read everything if the build did not limit the source
        ahead.append(source.given)
        return [[1.0, 0.0]] * len(texts)

    with anyio.fail_after(60):
        async with build(source, store=MemoryStore(), embedder=embedder_from(embed, id="e", dim=2), batch_size=1):
            pass
    assert 3 <= ahead[0] <= 8


async def test_a_page_needs_one_call_of_each_kind():
    calls = []

    def embed(texts):
        if len(texts) > 1:  # a text alone is a question that the floor is measured with
            calls.append("embed")
        return [[1.0, 0.0]] * len(texts)

    source = notes(
        {str(number): f"text {number}" for number in range(30)}, embedder=embedder_from(embed, id="e", dim=2)
    )
    store = Watched(MemoryStore())
    await build(source, store=store, batch_size=10, full=False)
    assert calls == ["embed"] * 3
    assert len([change for change in store.changes if change.puts]) == 3
    assert len(store.of(Ledger)) == 3


async def test_the_second_of_two_builders_waits_for_the_first():
    store, order = MemoryStore(), []

    async def one(name, text):
        source = Scripted([Artifact(str(number), f"{text} {number}") for number in range(6)])
        await build(source, store=store, batch_size=1, progress=at_each_page(lambda: order.append(name)))

    async with anyio.create_task_group() as group:
        group.start_soon(one, "first", "alpha")
        group.start_soon(one, "second", "beta")
    assert order in (["first"] * 6 + ["second"] * 6, ["second"] * 6 + ["first"] * 6)
    texts = [records[0].text for records in await ask(store, RecordsOf(await ask(store, ArtifactIds())))]
    assert len({text.split()[0] for text in texts}) == 1


async def test_the_store_of_the_caller_stays_open_and_the_corpus_has_the_report():
    store = MemoryStore()
    corpus = await build(notes(TEXTS), store=store)
    await corpus.aclose()
    await corpus.aclose()
    assert len(await ask(store, ArtifactIds())) == 5
    assert corpus.report.seconds > 0
    assert replace(corpus.report, seconds=0).added == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be"),
        ({"on_error": "ignore"}, "'raise', 'skip'"),
        ({"embedder": 7}, "embedder"),
        ({"store": 7}, "name, path or address of a corpus"),
    ],
)
async def test_a_bad_argument_is_an_error_that_names_valid_values(options, message):
    options = {"store": MemoryStore(), **options}
    with pytest.raises(ArgumentError, match=message):
        await build(notes(TEXTS), **options)


async def test_a_folder_that_is_missing_or_empty_is_a_source_error_and_nothing_is_lost(tmp_path):
    store, root = MemoryStore(), tmp_path / "notes"
    root.mkdir()
    (root / "a.md").write_text("alpha")
    options = {"name": "notes", "embedder": Counting().embedder}
    await build(from_files(root, **options), store=store)
    before = await content_of(store)
    (root / "a.md").unlink()
    with pytest.raises(SourceError, match="no file"):
        await build(from_files(root, **options), store=store)
    root.rmdir()
    with pytest.raises(SourceError, match="does not exist"):
        await build(from_files(root, **options), store=store)
    assert await content_of(store) == before


async def test_unreadable_files_are_named_and_their_indexed_artifacts_stay(tmp_path):
    store = MemoryStore()
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").write_text(f"{name} text")
    options = {"name": "notes", "embedder": Counting().embedder}
    await build(from_files(tmp_path, **options), store=store)
    before = await content_of(store)
    (tmp_path / "a.md").write_bytes(b"caf\xe9")
    (tmp_path / "b.md").write_bytes(b"\x00\x01")
    (tmp_path / "new.md").write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"'a\.md'.*not UTF-8"):
        await build(from_files(tmp_path, **options), store=store)
    corpus = await build(from_files(tmp_path, **options), store=store, on_error="skip")
    assert await content_of(store) == before
    assert {problem.item: "is kept" in problem.reason for problem in corpus.report.problems} == {
        "a.md": True,
        "b.md": True,
        "new.md": False,
    }


@pytest.mark.slow
async def test_a_file_that_vanishes_while_its_folder_is_read_is_a_problem(tmp_path):
    for number in range(600):
        (tmp_path / f"{number:03}.md").write_text(f"text {number}")
    last = tmp_path / "599.md"

    def progress(counts):
        if counts.read:  # the folder is listed by now
            last.unlink(missing_ok=True)

    source = from_files(tmp_path, name="notes", embedder=Counting().embedder)
    corpus = await build(source, store=MemoryStore(), batch_size=10, on_error="skip", progress=progress)
    assert [problem.item for problem in corpus.report.problems] == ["599.md"]
    assert corpus.report.added == 599


@pytest.mark.parametrize("given", [{"a": "text"}, "notes", from_mapping, CorpusSource])
def test_a_value_that_is_no_source_is_refused_at_the_call_with_an_example(given):
    with pytest.raises(ArgumentError, match=r"build takes a source, such as from_notes"):
        build(given)


@dataclass
class Asking:
    """An async strategy, similar to one that calls a server.

    It waits, and it may fail or return half of a plan.
    """

    id: str = "asking"
    waits: int = 1
    asked: list = field(default_factory=list)
    at_once: int = 0
    most: int = 0
    fails: frozenset = frozenset()
    halves: frozenset = frozenset()

    async def decompose(self, artifact):
        self.asked.append(artifact.id)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            for _ in range(self.waits):
                await anyio.lowlevel.checkpoint()
            if artifact.id in self.fails:
                raise ValueError("no answer")
        finally:
            self.at_once -= 1
        surfaces = [Surface(artifact.id, "document", artifact.raw)]
        return IndexPlan({}, surfaces, ["no synopsis: no answer"] if artifact.id in self.halves else [])


@pytest.mark.slow
async def test_several_plans_of_an_async_strategy_are_awaited_at_once_and_only_for_changed_items():
    strategy, store = Asking(waits=5), MemoryStore()
    texts = {f"{number:02}": f"text {number}" for number in range(40)}
    await build(notes(texts, strategy=strategy), store=store)
    assert (sorted(strategy.asked), strategy.most) == (sorted(texts), 16)
    plain = MemoryStore()
    await build(notes(texts), store=plain)
    assert (await content_of(store))[1:4] == (await content_of(plain))[1:4]
    strategy.asked.clear()
    assert await outcome(notes({**texts, "00": "new"}, strategy=strategy), store) == (0, 1, 39, 0)
    assert strategy.asked == ["00"]


async def test_an_async_strategy_that_fails_ends_the_build_or_leaves_the_item_out():
    failing, store = Asking(fails=frozenset("b"), waits=3), MemoryStore()
    with pytest.raises(SourceError, match="'b' ValueError: no answer") as caught:
        await build(notes(TEXTS, strategy=failing), store=store)
    assert isinstance(caught.value.__cause__, ValueError)
    assert failing.at_once == 0
    corpus = await build(notes(TEXTS, strategy=failing), store=store, on_error="skip")
    assert corpus.report.problems == (ItemProblem("b", "ValueError: no answer"),)
    assert await ask(store, ArtifactIds()) == ["a", "c", "d", "e"]


async def test_a_plan_with_problems_is_indexed_reported_and_repeated_by_the_next_build():
    store, problem = MemoryStore(), ItemProblem("b", "no synopsis: no answer", lost=False)
    for halves, expected in [("b", (5, 0)), ("b", (0, 1)), ("", (0, 1)), ("", (0, 0))]:
        strategy = Asking(halves=frozenset(halves))
        corpus = await build(notes(TEXTS, strategy=strategy), store=store)
        assert (corpus.report.added, corpus.report.updated) == expected
        assert corpus.report.problems == ((problem,) if halves else ())
        assert [hit.artifact_id for hit in await corpus.search("beta", mode="lexical")] == ["b"]
    fresh = MemoryStore()
    await build(notes(TEXTS, strategy=Asking()), store=fresh)
    assert await content_of(store) == await content_of(fresh)


async def test_a_cancelled_build_leaves_no_running_plan():
    strategy = Asking(waits=10**9)

    async def work():
        await build(notes(TEXTS, strategy=strategy), store=MemoryStore())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        while len(strategy.asked) < 5:  # noqa: ASYNC110 - a strategy tells nobody
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    assert (len(strategy.asked), strategy.at_once) == (5, 0)


# Unchanged texts


def refs_to(*names, id):
    return extractor_from(lambda own_name, _: {"REF": [name for name in names if name != own_name]}, id=id)


@pytest.mark.parametrize("strategy", [WholeText(), Chunked(chunk_size=4, overlap=0), Asking(halves=frozenset("b"))])
async def test_another_extractor_finds_links_again_without_embedding_anything(strategy):
    counting, store, fresh = Counting(), MemoryStore(), MemoryStore()
    source = notes(TEXTS, strategy=strategy, embedder=counting.embedder)
    await build(source, store=store, edge_extractor=refs_to("a", id="to-a"))
    await build(source, store=fresh, edge_extractor=refs_to("b", "x", id="to-b"))
    counting.texts.clear()
    extractor = refs_to("b", "x", id="to-b")
    assert await outcome(source, store, edge_extractor=extractor, batch_size=2) == (0, 5, 0, 0)
    assert counting.texts == []
    assert await content_of(store) == await content_of(fresh)


async def test_with_another_extractor_only_changed_artifacts_are_embedded():
    counting, store = Counting(), MemoryStore()
    await build(notes(TEXTS, embedder=counting.embedder), store=store)
    counting.texts.clear()
    changed = notes({**TEXTS, "b": "beta, again", "f": "zeta"}, embedder=counting.embedder)
    assert await outcome(changed, store, edge_extractor=refs_to("a", id="to-a")) == (1, 5, 0, 0)
    assert sorted(counting.texts) == ["beta, again", "zeta"]
    fresh = MemoryStore()
    await build(changed, store=fresh, edge_extractor=refs_to("a", id="to-a"))
    assert await content_of(store) == await content_of(fresh)


async def test_a_change_of_metadata_or_strategy_with_the_same_texts_embeds_nothing():
    counting, store = Counting(), MemoryStore()
    for options in ({}, {"metadata_of": lambda *_: {"owner": "ada"}}, {"strategy": Asking()}):
        await build(notes(TEXTS, embedder=counting.embedder, **options), store=store)
        fresh = MemoryStore()
        await build(notes(TEXTS, **options), store=fresh)
        assert await content_of(store) == await content_of(fresh)
    assert len(counting.texts) == len(TEXTS)


async def test_a_changed_text_with_an_unchanged_signal_is_embedded_with_the_new_links():
    store, fresh = MemoryStore(), MemoryStore()
    for text, where in (("old", [store]), ("new", [store, fresh])):
        source = CorpusSource("notes", {"a": text, "b": "same"}, change_signal=lambda _: "1")
        for each in where:
            await build(source, store=each, embedder=Counting().embedder, edge_extractor=refs_to("a", id=text))
    assert await content_of(store) == await content_of(fresh)


async def test_an_interrupted_extraction_of_links_is_completed_without_embedding():
    counting, store, fresh = Counting(), MemoryStore(), MemoryStore()
    artifacts = [Artifact(name, text) for name, text in TEXTS.items()]
    await build(Scripted(artifacts), store=store, embedder=counting.embedder, edge_extractor=refs_to("a", id="to-a"))
    extractor = refs_to("b", id="to-b")
    counting.texts.clear()
    for at in (2, 4):
        broken = Scripted([*artifacts[:at], OSError("disk is gone")])
        with pytest.raises(SourceError, match="is gone"):
            await build(broken, store=store, embedder=counting.embedder, edge_extractor=extractor, batch_size=1)
    await build(Scripted(artifacts), store=store, embedder=counting.embedder, edge_extractor=extractor)
    assert counting.texts == []
    await build(Scripted(artifacts), store=fresh, embedder=counting.embedder, edge_extractor=extractor)
    assert await content_of(store) == await content_of(fresh)


@pytest.mark.slow
async def test_finding_links_again_needs_one_call_of_each_kind_per_page():
    store = Asked(MemoryStore())
    source = notes({str(number): f"text {number}" for number in range(30)})
    await build(source, store=store)
    assert not {"Records", "Vectors"} & {*store.calls}
    await build(source, store=store, edge_extractor=refs_to("1", id="to-1"), batch_size=10)
    assert store.calls.count("Records") == store.calls.count("Vectors") == 3


async def test_artifacts_with_another_text_read_no_stored_vectors():
    """A store may have to read all vectors to return one."""

    store = Asked(MemoryStore())
    for texts in ({"a": "one", "b": "two"}, {"a": "other", "b": "two"}):
        corpus = await build(from_mapping(texts, name="notes", embedder="light"), store=store)
    assert (corpus.report.updated, corpus.report.unchanged) == (1, 1)
    assert "Vectors" not in store.calls


@pytest.mark.parametrize("signal", [None, 1, b"v1", ("v", 1)])
async def test_a_change_signal_that_is_no_string_is_a_problem_that_names_it(signal):
    class Hesitant(WholeText):
        def decompose(self, artifact):
            return replace(super().decompose(artifact), problems=["later"])

    for strategy in (WholeText(), Hesitant()):
        source = CorpusSource("notes", {"a": "text"}, strategy, change_signal=lambda _: signal, embedder="light")
        with pytest.raises(SourceError, match=r"'a'.*change_signal must return a string, not"):
            await build(source, store=MemoryStore())
        async with build(source, store=MemoryStore(), on_error="skip") as corpus:
            assert [problem.item for problem in corpus.report.problems] == ["a"]


async def test_fields_that_nest_too_deeply_are_a_problem_of_their_item():
    deep = "x"
    for _ in range(200):
        deep = [deep]
    source = from_mapping({"a": {"text": "x", "deep": deep}, "b": "y"}, name="notes", embedder="light")
    async with build(source, store=MemoryStore(), on_error="skip") as corpus:
        assert [problem.item for problem in corpus.report.problems] == ["a"]
        assert "nest deeper than 100 levels" in corpus.report.problems[0].reason
        assert await ask(corpus.store, ArtifactIds()) == ["b"]


@pytest.mark.parametrize("options", [{"progress": "bar"}, {"full": 1}, {"force": "no"}])
async def test_options_of_another_type_are_refused_before_the_build(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        await build(from_mapping({"a": "x"}, name="notes", embedder="light"), store=MemoryStore(), **options)


async def test_the_error_of_an_item_is_short_whatever_its_name():
    source = from_mapping({"x" * 100_000: 5}, name="notes", embedder="light")
    with pytest.raises(SourceError) as refusal:
        await build(source, store=MemoryStore())
    assert len(str(refusal.value)) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("x" * 3_000_000, [3, 3, 1]),
        ({"text": "x" * 3_000_000}, [3, 3, 1]),
        ({"rows": [[]] * 60_000}, [3, 3, 1]),
        ("x" * 1_000, [7]),
    ],
)
async def test_a_page_ends_early_if_its_texts_are_long(raw, expected):
    async with aclosing(SourcePages(from_mapping(dict.fromkeys("abcdefg", raw), name="notes"), 256)) as pages:
        sizes = []
        while page := await pages.next():
            sizes.append(len(page))
    assert sizes == expected
