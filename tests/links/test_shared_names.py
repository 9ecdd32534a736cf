"""Links between notes that share a rare name: what a name is, which count, and builds."""

import pickle
import time
import tracemalloc

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError
from airw.indexing import Notes
from airw.links import (
    MarkdownLinks,
    SharedNameFinder,
    SharedNames,
    TitleMentions,
    extractor_from_spec,
    extractor_spec,
)
from airw.protocols import ArtifactIds, CorpusWideExtractor, EdgeExtractor, Edges, ask
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from airw.values import Artifact, Link
from tests.support.drawing import examples
from tests.support.waiting import PATIENCE


def links_in(texts, **options):
    """Return the pairs of notes that shared names link."""
    notes = [Artifact(name, text) for name, text in texts.items()]
    finder = SharedNames(**options).over(notes)
    return {
        (note.id, link.target_ref) for note in notes for link in finder.extract(note, {}).links if link.type == "shares"
    }


def is_shared(first, second):
    """Return whether two texts share a name."""
    found = links_in({"a.md": first, "b.md": second})
    assert found in (set(), {("a.md", "b.md"), ("b.md", "a.md")})
    return bool(found)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Patented by Hedy Lamarr.", "They saw Hedy Lamarr, and left."),
        ("When Hedy Lamarr came.", "Then Hedy Lamarr left."),
        ("Hedy Lamarr's film.", "A film of Hedy Lamarr\N{RIGHT SINGLE QUOTATION MARK}s time."),
        ("by Hedy\nLamarr", "by HEDY LAMARR"),
        ("# Hedy Lamarr (actress)\n\nShe was born.", "by Hedy Lamarr"),
        ("He sailed to Vienna.", 'The film "Vienna" was made.'),
        ("for the Duke of York", "as Duke of York"),
        ("a book by J. R. R. Tolkien", "by J. R. R. Tolkien himself"),
        ("in **Élan Vital**", "of E\N{COMBINING ACUTE ACCENT}lan Vital."),
        ("Der Hans öffnete.", "mit Hans überall"),
        ("東京 Tokyo", "a day in Tokyo"),
        ("they met _Hedy Lamarr_ there", "by Hedy Lamarr"),
        ("by Hedy  Lamarr then", "by Hedy Lamarr"),
        ("they met\n  Lamarr there", "by Lamarr"),
    ],
)
def test_a_run_of_words_with_capitals_is_a_name(first, second):
    assert is_shared(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("However it was.", "However they came."),
        ("on the road", "on the road"),
        ("In `Hedy Lamarr`", "in `Hedy Lamarr`"),
        ("see [Hedy Lamarr](x.md)", "see [Hedy Lamarr](x.md)"),
        ("about Bob", "about Bob"),
        ("in 1990", "in 1990"),
        ("東京", "東京"),
        ("of A\N{COMBINING ACUTE ACCENT}ria Stone", "of E\N{COMBINING ACUTE ACCENT}bia Stone"),
        ("מלון דן", "מלון דן"),
    ],
)
def test_other_words_are_none(first, second):
    assert not is_shared(first, second)


def test_a_word_that_more_notes_write_small_is_no_name():
    texts = {"a.md": "made in Reading", "b.md": "a trip to Reading"}
    small = {f"{number}.md": "They like reading." for number in range(3)}
    assert links_in(texts) == {("a.md", "b.md"), ("b.md", "a.md")}
    assert links_in({**texts, **small}) == set()
    texts = {name: f"{text.split()[0]} Long-term" for name, text in texts.items()}
    small = {f"{number}.md": "They plan for the long-term." for number in range(3)}
    assert links_in(texts)
    assert not links_in({**texts, **small})


def test_a_name_counts_if_few_notes_share_it():
    texts = {f"{number}.md": f"note {number} is by Hedy Lamarr" for number in range(5)}
    everyone = {(first, second) for first in texts for second in texts if first != second}
    assert links_in(texts) == everyone
    assert links_in(texts, rare=4) == set()
    assert links_in({**texts, "x.md": "by Hedy Lamarr"}) == set()
    assert links_in({"a.md": "by Hedy Lamarr, of Hedy Lamarr"}) == set()


def test_a_link_has_the_place_of_the_first_shared_name_and_a_weight():
    notes = [Artifact("a.md", "# A\n\nby Erik Berg\n\nby Hedy Lamarr"), Artifact("b.md", "by Hedy Lamarr, Erik Berg")]
    finder = SharedNames(weight=0.5, type="names").over(notes)
    assert finder.extract(notes[0], {}).links == [
        Link("b.md", "names", "derived", file="a.md", line=3, weight=0.5),
    ]
    assert finder.extract(Artifact("new.md", "to Erik Berg"), {}).links == [
        Link(target, "names", "derived", file="new.md", line=1, weight=0.5) for target in ("a.md", "b.md")
    ]


def test_it_adds_to_the_links_of_others_and_repeats_no_mention():
    texts = {"a.md": "# Hedy Lamarr", "b.md": "by Hedy Lamarr, see [a](a.md)", "c.md": "of Hedy Lamarr"}
    notes = [Artifact(name, text) for name, text in texts.items()]
    finder = SharedNames(inner=TitleMentions()).over(notes)
    found = [(link.target_ref, link.type, link.weight) for link in finder.extract(notes[1], {}).links]
    assert found == [("a.md", "related", 1.0), ("a.md", "mentions", 1.0), ("c.md", "shares", 0.85)]
    assert finder.extract(notes[0], {}).names == MarkdownLinks().extract(notes[0], {}).names


@pytest.mark.parametrize(
    "options",
    [{"inner": None}, {"inner": SharedNames()}, {"type": ""}, {"rare": 1}, {"weight": 0}, {"weight": 2}],
)
def test_meaningless_settings_are_refused(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        SharedNames(**options)


def test_the_finder_is_pickled_and_has_a_specification():
    notes = [Artifact("a.md", "# Sort\n\nby Hedy Lamarr"), Artifact("b.md", "by Hedy Lamarr")]
    for inner in (MarkdownLinks(), TitleMentions()):
        asked = SharedNames(inner=inner, rare=3, weight=0.5)
        assert extractor_from_spec(extractor_spec(asked)) == asked
        finder = asked.over(notes)
        assert isinstance(finder, EdgeExtractor)
        assert not isinstance(finder, CorpusWideExtractor)
        for again in (pickle.loads(pickle.dumps(finder)), extractor_from_spec(extractor_spec(finder))):
            assert (again, again.id) == (finder, finder.id)
            assert again.extract(notes[0], {}) == finder.extract(notes[0], {})
    assert asked.over(notes) == asked.over(notes[::-1])
    assert extractor_from_spec({"name": "SharedNames"}) == SharedNames()
    with pytest.raises(ArgumentError, match="over"):
        SharedNames().extract(notes[0], {})
    with pytest.raises(ArgumentError, match="names must be a mapping"):
        SharedNameFinder(MarkdownLinks(), "shares", 0.85, {"00": "a"})
    with pytest.raises(ArgumentError, match="stored names of SharedNameFinder cannot be read; build the corpus again"):
        extractor_from_spec({"name": "SharedNameFinder", "params": {**extractor_spec(finder)["params"], "names": "%"}})
    with pytest.raises(ArgumentError, match="there is no inner edge extractor 'SharedNames'"):
        extractor_from_spec({"name": "SharedNames", "params": {"inner": {"name": "SharedNames"}}})


def test_the_survey_keeps_few_bytes_for_each_name():
    notes = [
        Artifact(f"{note}.md", ", ".join(f"by Name{note}of{number}" for number in range(1_000))) for note in range(3)
    ]
    survey = SharedNames().survey()
    survey.add(notes[:1])
    tracemalloc.start()
    try:
        survey.add(notes)
        assert tracemalloc.get_traced_memory()[0] < 2_000 * 30
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["A'" * 100_000, "Aa " * 100_000, "A of the " * 50_000, "A. " * 100_000])
def test_odd_texts_take_linear_time(text):
    began = time.process_time()
    SharedNames().over([Artifact("a", text), Artifact("b", "x")])
    assert time.process_time() - began < PATIENCE


NAMES = ["a.md", "b.md", "c.md", "d.md"]
TEXTS = st.lists(st.sampled_from(["by Hedy Lamarr", "Hedy", "of Vienna,", "vienna", "\n\n", "# Erik Berg"]), max_size=5)
EDITS = st.lists(
    st.lists(st.tuples(st.sampled_from(NAMES), st.none() | TEXTS.map(" ".join)), max_size=2), min_size=1, max_size=3
)


async def check_builds(edits, store):
    state = dict.fromkeys(NAMES[:2], "by Hedy Lamarr, in Vienna")
    for edit in ((), *edits):
        state = {name: text for name, text in {**state, **dict(edit)}.items() if text is not None}
        extractor = SharedNames(inner=TitleMentions(), rare=2)
        options = {"strategy": Notes(), "embedder": HashingEmbedder(dim=8), "edge_extractor": extractor}
        source, fresh = from_mapping(state, name="notes", **options), MemoryStore()
        await build(source, store=store, force=True, batch_size=2)
        await build(source, store=fresh)
        ids = await ask(store, ArtifactIds())
        assert ids == await ask(fresh, ArtifactIds())
        assert await ask(store, Edges(ids, "both")) == await ask(fresh, Edges(ids, "both"))


@pytest.mark.slow
@given(edits=EDITS)
@settings(max_examples=examples(12))
def test_after_any_changes_a_build_has_the_links_of_a_fresh_one(tmp_path_factory, edits):
    async def main():
        async with SqliteStore(tmp_path_factory.mktemp("law") / "law.airw") as store:
            await check_builds(edits, store)

    anyio.run(main)
