"""Passages around a hit: windows, whole artifacts, custom policies, and the oracle `ir`."""

from dataclasses import dataclass, replace

import anyio
import ir
import numpy as np
import pytest
from hypothesis import given, strategies as st
from ir.store import CorpusStore

from airw import build, embedder_from, from_mapping
from airw.corpora import Corpus, corpus_path, open_corpus, records_for_artifact
from airw.discovery import SentenceWindow, WholeArtifact, expand
from airw.errors import ArgumentError, ArgumentKindError, CorpusNotFound, NoLedgerEntry, SeedNotFound
from airw.indexing import Chunked, Notes
from airw.protocols import RecordsOf
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.values import IndexPlan, Passage, SearchHit, Surface

EMBEDDER = embedder_from(lambda texts: [[1.0] for _ in texts], id="ones", dim=1)
TEXT = "zero one two three four five six seven"


@dataclass(frozen=True)
class Kinds:
    """A strategy that takes surfaces from an artifact: pairs of kind and text."""

    id: str = "kinds"

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, kind, text) for kind, text in artifact.raw])


def corpus_of(items, strategy=None, store=None, name="notes"):
    source = from_mapping(items, name=name, strategy=strategy or Kinds(), embedder=EMBEDDER)
    return build(source, store=MemoryStore() if store is None else store)


def corpus_of_chunks(**options):
    """Open a corpus of one artifact whose chunks overlap: zero one / one two / two three / …"""
    return corpus_of({"a": TEXT}, Chunked(chunk_size=10, overlap=5), **options)


def hit(index, kind="chunk", artifact_id="a"):
    return SearchHit(artifact_id, kind, 0.5, "the hit's own", {}, "notes", index)


PAIRS = [("title", "T"), ("chunk", "zero"), ("chunk", "one"), ("deps", "D"), ("chunk", "two"), ("chunk", "three")]


async def test_by_default_a_passage_has_one_record_on_either_side_of_the_hit():
    async with corpus_of_chunks() as corpus:
        records = await records_for_artifact(corpus, "a")
        passage = await expand(hit(2), corpus)
    assert passage == Passage(
        "a", "chunk", 0.5, "one two three four", tuple(each.id for each in records[1:4]), "notes", 2
    )


@pytest.mark.parametrize(
    ("k", "at", "text"),
    [
        (0, 2, "two three"),
        (1, 0, "zero one two"),
        (1, 6, "five six seven"),
        (2, 0, "zero one two three"),
        (99, 3, TEXT),
    ],
)
async def test_a_window_has_at_most_k_records_on_each_side(k, at, text):
    async with corpus_of_chunks() as corpus:
        assert (await expand(hit(at), corpus, policy=SentenceWindow(k))).text == text


async def test_a_window_has_records_of_one_kind_and_blank_lines_between_records_that_are_not_adjacent():
    async with corpus_of({"a": PAIRS}) as corpus:
        assert (await expand(hit(2), corpus)).text == "zero\n\none\n\ntwo"
        assert (await expand(hit(0, "title"), corpus)).text == "T"


async def test_the_parent_policy_returns_the_whole_artifact_in_plan_order_and_needs_no_position():
    async with corpus_of({"a": PAIRS}) as corpus:
        passage = await expand(hit(None, "no kind"), corpus, policy=WholeArtifact())
    assert passage.text == "T\n\nzero\n\none\n\nD\n\ntwo\n\nthree"
    assert (passage.surface_kind, passage.surface_index, len(passage.record_ids)) == ("no kind", None, 6)


async def test_order_and_repeats_of_what_a_policy_chooses_do_not_matter():
    async with corpus_of_chunks() as corpus:
        for policy in (lambda _, siblings: [*siblings[2:0:-1], siblings[2]], lambda _, siblings: iter(siblings[1:3])):
            assert (await expand(hit(2), corpus, policy=policy)).text == "one two three"


async def test_if_a_policy_chooses_nothing_the_passage_has_the_text_of_the_hit():
    async with corpus_of_chunks() as corpus:
        passage = await expand(hit(2), corpus, policy=lambda *_: [])
    assert passage == Passage("a", "chunk", 0.5, "the hit's own", (), "notes", 2)


async def test_a_policy_may_only_choose_from_the_records_of_the_artifact():
    async with corpus_of({"a": PAIRS, "b": PAIRS}) as corpus:
        [foreign, *_] = await records_for_artifact(corpus, "b")
        for answer in ([foreign], ["a"], [None]):
            with pytest.raises(ArgumentError, match="may only choose from the records of 'a'"):
                await expand(hit(1), corpus, policy=lambda *_, answer=answer: answer)


async def test_a_policy_that_changes_a_record_still_gets_the_stored_text():
    async with corpus_of({"a": PAIRS}) as corpus:
        policy = lambda _, siblings: [replace(siblings[1], text="made up")]  # noqa: E731
        assert (await expand(hit(1), corpus, policy=policy)).text == "zero"


async def test_a_policy_cannot_change_what_it_chooses_from():
    async with corpus_of_chunks() as corpus:
        with pytest.raises(AttributeError, match="reverse"):
            await expand(hit(1), corpus, policy=lambda _, siblings: siblings.reverse() or siblings)


async def test_a_policy_that_returns_no_records_is_refused_and_an_async_one_leaves_no_warning():
    async def late(hit, siblings):
        return siblings

    async with corpus_of_chunks() as corpus:
        for policy in (lambda *_: None, lambda *_: 3, late, "window", 3):
            with pytest.raises(ArgumentKindError, match="policy must"):
                await expand(hit(1), corpus, policy=policy)


async def test_a_hit_without_a_position_has_no_window():
    async with corpus_of_chunks() as corpus:
        with pytest.raises(ArgumentError, match=r"surface_index.*WholeArtifact\(\)"):
            await expand(hit(None), corpus)


@pytest.mark.parametrize("stale", [hit(70), hit(0, "title"), hit(-1)])
async def test_a_hit_whose_surface_was_removed_has_no_window(stale):
    async with corpus_of_chunks() as corpus:
        with pytest.raises(SeedNotFound, match="older build") as caught:
            await expand(stale, corpus)
        assert isinstance(caught.value, ValueError)
        assert (await expand(stale, corpus, policy=WholeArtifact())).text == TEXT


async def test_an_artifact_missing_from_the_corpus_is_an_error_that_names_both():
    async with corpus_of_chunks() as corpus:
        with pytest.raises(NoLedgerEntry, match="'notes' contains no artifact 'z'") as caught:
            await expand(hit(0, artifact_id="z"), corpus)
    assert isinstance(caught.value, KeyError)


async def test_an_artifact_without_records_has_a_passage_with_the_text_of_the_hit():
    async with corpus_of({"a": []}) as corpus:
        assert (await expand(hit(0), corpus, policy=WholeArtifact())).text == "the hit's own"
        with pytest.raises(SeedNotFound):
            await expand(hit(0), corpus)


@pytest.mark.parametrize("k", [-1, 1.5, True, None, "1"])
def test_an_invalid_width_is_refused_when_the_window_is_created(k):
    with pytest.raises(ArgumentError, match="k must be a whole number"):
        SentenceWindow(k)


def test_policies_compare_by_value():
    assert SentenceWindow() == SentenceWindow(1) != SentenceWindow(2)
    assert WholeArtifact() == WholeArtifact()
    assert len({SentenceWindow(2), SentenceWindow(2), WholeArtifact()}) == 2
    assert (repr(SentenceWindow(2)), repr(WholeArtifact())) == ("SentenceWindow(k=2)", "WholeArtifact()")


async def test_a_value_that_is_no_hit_or_no_corpus_is_refused():
    async with corpus_of_chunks() as corpus:
        with pytest.raises(ArgumentKindError, match="hit must be a SearchHit"):
            await expand("a", corpus)
    with pytest.raises(ArgumentError, match="open corpus"):
        await expand(hit(0), {"notes": corpus})


async def test_one_expansion_is_one_store_call():
    async with corpus_of_chunks() as corpus:
        store = ScriptedStore(corpus.store)
        await expand(hit(2), Corpus(corpus.name, store, corpus.embedder))
    assert store.calls == {RecordsOf: 1}


@pytest.mark.asyncio_only
async def test_a_corpus_opens_by_name_and_by_path_without_its_embedder():
    path = corpus_path("notes")
    path.parent.mkdir(parents=True)
    async with corpus_of_chunks(store=path):
        pass
    for corpus in ("notes", "NOTES", str(path), path):
        assert (await expand(hit(2), corpus)).text == "one two three four"
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        assert (await expand(hit(2), corpus)).text == "one two three four"
    with pytest.raises(CorpusNotFound):
        await expand(hit(2), "absent")


async def test_a_passage_of_a_note_repeats_no_line():
    """F34: text that chunks share appears once; a line repeated on purpose stays."""
    body = "\n".join(["the same line of text"] * 40)
    async with corpus_of({"a.md": f"# Title\n\n{body}\n"}, Notes(chunk_size=100, overlap=30)) as corpus:
        [*_, chunk] = await records_for_artifact(corpus, "a.md", surface_kind="chunk")
        found = await expand(hit(chunk.surface_index, artifact_id="a.md"), corpus, policy=SentenceWindow(999))
    assert found.text == f"# Title\n\n{body}"


def test_a_passage_converts_to_json():
    passage = Passage("a", "chunk", np.float32(0.5), "text", ("r1",), "notes", 2)
    assert passage.to_dict() == {
        "artifact_id": "a",
        "surface_kind": "chunk",
        "score": 0.5,
        "text": "text",
        "record_ids": ["r1"],
        "source": "notes",
        "surface_index": 2,
    }


# As in `ir`


@dataclass(frozen=True)
class TheirKinds:
    """A strategy for `ir` with the surfaces of `Kinds`."""

    strategy_id: str = "kinds"

    def decompose(self, artifact_id, source, metadata):
        surfaces = [ir.Surface(artifact_id, kind, text) for kind, text in source["surfaces"]]
        return ir.IndexPlan({}, surfaces)


def their_corpus(items):
    def embed(texts):
        return np.ones((len(texts), 1), np.float32)

    embed.embedder_id = "ones"
    items = {id: {"surfaces": surfaces} for id, surfaces in items.items()}
    source = ir.CorpusSource.from_mapping(items, name="notes", strategy=TheirKinds(), embedder=embed)
    return ir.build(source, store=CorpusStore.memory())


def outcome(call):
    """Return the passage of a call, or the kind of its error.

    Record ids are counted only, because the two libraries compute them differently.
    """
    try:
        passage = call()
    except (ValueError, KeyError) as error:
        return type(error).__name__.replace("ArgumentError", "ValueError")
    return {**passage.to_dict(), "record_ids": len(passage.record_ids)}


# Texts of one letter share nothing. So `ir`, which compares texts, separates them like this library does.
SURFACES = st.lists(st.tuples(st.sampled_from(["chunk", "title"]), st.sampled_from("abcdefgh")), min_size=1, max_size=6)
POLICIES = {
    "window": (SentenceWindow, ir.sentence_window_policy),
    "wide": (lambda: SentenceWindow(3), lambda: ir.sentence_window_policy(3)),
    "seed": (lambda: SentenceWindow(0), lambda: ir.sentence_window_policy(0)),
    "parent": (WholeArtifact, ir.parent_policy),
    "none": (lambda: lambda *_: [], lambda: lambda *_: []),
    "backwards": (lambda: lambda _, own: [*own[::-1], own[0]], lambda: lambda _, own: [*own[::-1], own[0]]),
}


@given(
    SURFACES,
    st.none() | st.integers(0, 6),
    st.sampled_from(["chunk", "title"]),
    st.sampled_from(["a", "a", "a", "z"]),
    st.sampled_from(sorted(POLICIES)),
)
def test_random_hits_have_the_same_passages_as_in_ir(surfaces, index, kind, artifact_id, policy):
    """Text, identity and errors are equal.

    Chunks that overlap are not generated: `ir` compares texts to find overlaps, this library compares offsets.
    """
    ours, theirs = POLICIES[policy]
    seed = hit(index, kind, artifact_id)

    async def main():
        async with corpus_of({"a": surfaces}) as corpus:
            try:
                passage = await expand(seed, corpus, policy=ours())
            except (ValueError, KeyError) as error:
                return error
            return passage

    mine = anyio.run(main)

    def return_or_raise():
        if isinstance(mine, Exception):
            raise mine
        return mine

    own_seed = ir.SearchHit(artifact_id, kind, 0.5, "the hit's own", {}, "notes", index)
    assert outcome(return_or_raise) == outcome(
        lambda: ir.expand(own_seed, their_corpus({"a": surfaces}), policy=theirs())
    )
