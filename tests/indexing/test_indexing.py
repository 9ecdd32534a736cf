"""Strategies: the searched texts of an artifact and their positions in it."""

from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from airw.errors import ArgumentError, SourceError
from airw.indexing import Chunked, Notes, WholeText
from airw.protocols import IndexingStrategy
from airw.values import Artifact

PIECES = ["a", "bb", "é.", "。", "🎉", "c" * 50, " ", "\t", "\r\n", "\n\n", "\u3000", " " * 30, "\n" * 70]
PROSE = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
WINDOWS = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def chunks_of(text, chunk_size=1200, overlap=200):
    return Chunked(chunk_size=chunk_size, overlap=overlap).decompose(Artifact("a", text)).surfaces


def place(surface):
    return surface.metadata["start"], surface.metadata["end"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("naïve 🎉".encode(), "naïve 🎉"),
        ({"text": "T", "title": "Keys"}, "Keys\n\nT"),
        ({"text": "# Keys\n\nT", "title": "Keys"}, "# Keys\n\nT"),
        ({"text": None, "title": "Keys"}, "Keys"),
        ({"text": "T", "title": 5, "body": "left out"}, "T"),
        ({"text": "T", "title": " "}, "T"),
        ({"title": "T", "year": 2026, "body": "B"}, "T\nB"),
        ({}, None),
        (" \n\t", None),
    ],
)
def test_whole_text_is_one_document_surface_and_blank_text_has_none(raw, text):
    surfaces = WholeText().decompose(Artifact("a", raw)).surfaces
    assert [(s.artifact_id, s.kind, s.text, s.granularity) for s in surfaces] == (
        [] if text is None else [("a", "document", text, "document")]
    )


def test_a_text_key_reads_only_that_field():
    strategy = WholeText(text_key="body", kind="body")
    assert [s.text for s in strategy.decompose(Artifact("a", {"text": "T", "body": "B"})).surfaces] == ["B"]
    assert strategy.decompose(Artifact("a", {"text": "T"})).surfaces == []


@pytest.mark.parametrize("strategy", [WholeText(), Chunked(), Notes()])
@pytest.mark.parametrize("raw", [["x"], 7, None, b"\xff\xfe", {"text": ["x"]}])
def test_a_raw_value_without_text_is_an_error_that_names_the_artifact_and_its_content(strategy, raw):
    with pytest.raises(SourceError, match=r"'odd'.*(list|int|NoneType|not UTF-8 at offset 0)") as caught:
        strategy.decompose(Artifact("odd", raw))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", [WholeText(), Chunked(), Notes()])
def test_filter_fields_are_only_the_metadata_as_clean_json(strategy):
    plan = strategy.decompose(Artifact("a", {"text": "T", "owner": "raw"}, {"tags": ("x", "y"), "bad": float("nan")}))
    assert plan.filter_fields == {"tags": ["x", "y"], "bad": None}


@pytest.mark.parametrize("strategy", [WholeText(), Chunked(), Notes()])
def test_strategies_are_hashable_values_that_satisfy_the_protocol(strategy):
    assert isinstance(strategy, IndexingStrategy)
    assert hash(strategy) == hash(type(strategy)())


def test_an_id_names_the_class_and_every_parameter():
    settings = "chunk_size=1200, overlap=200, text_key=None, kind='chunk', max_tokens=None, tokenizer=None"
    assert Chunked().id == f"Chunked({settings}) with titles"
    assert WholeText(text_key="b").id == "WholeText(text_key='b', kind='document')"
    ids = {WholeText().id, WholeText(text_key="b").id, WholeText(kind="k").id, Chunked().id, Chunked(overlap=1).id}
    assert len(ids | {Notes().id, Notes(chunk_size=900).id}) == 7


@pytest.mark.parametrize("make", [Chunked, Notes])
@pytest.mark.parametrize(
    ("chunk_size", "overlap"), [(0, 0), (-1, 0), (10, 10), (10, 11), (10, -1), (1.5, 0), (True, 0), ("9", 1)]
)
def test_windows_that_cannot_work_are_refused_on_construction(make, chunk_size, overlap):
    with pytest.raises(ArgumentError, match=r"chunk_size|overlap"):
        make(chunk_size=chunk_size, overlap=overlap)


@pytest.mark.parametrize("parameters", [{"kind": ""}, {"kind": None}, {"text_key": ""}, {"text_key": 3}])
@pytest.mark.parametrize("make", [WholeText, Chunked])
def test_blank_names_are_refused_on_construction(make, parameters):
    with pytest.raises(ArgumentError, match=r"kind|text_key"):
        make(**parameters)


@given(PROSE, WINDOWS)
def test_chunks_cover_every_character_but_white_space_within_their_size(text, window):
    chunk_size, overlap = window
    chunks = chunks_of(text, chunk_size, overlap)
    covered = {position for chunk in chunks for position in range(*place(chunk))}
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered
    for index, chunk in enumerate(chunks):
        start, end = place(chunk)
        assert text[start:end] == chunk.text == chunk.text.strip()
        assert 0 < len(chunk.text) <= chunk_size
        assert (chunk.kind, chunk.granularity) == ("chunk", "chunk")
        assert (chunk.metadata["chunk_index"], chunk.metadata["n_chunks"]) == (index, len(chunks))


@given(PROSE, WINDOWS)
@example(
    "aaaa bbb" + " " * 30 + "c" * 50, (40, 10)
)  # the overlap, the gap and a long word: just too long for one chunk
@example("aaaa bbb" + " " * 100 + "c" * 50, (40, 10))  # a gap wider than a chunk
def test_chunks_overlap_at_most_by_the_setting_and_none_is_inside_another(text, window):
    places = [place(chunk) for chunk in chunks_of(text, *window)]
    for (start, end), (next_start, next_end) in pairwise(places):
        assert start < next_start
        assert end < next_end
        assert end - next_start <= window[1]


@pytest.mark.parametrize(("length", "count"), [(1200, 1), (1201, 2), (1400, 2), (2200, 2), (2201, 3)])
def test_a_text_without_blank_lines_has_no_useless_last_chunk(length, count):
    chunks = chunks_of("x" * length)
    assert len(chunks) == count
    assert place(chunks[-1])[1] == length


def test_paragraphs_are_packed_near_the_size_and_cut_at_blank_lines():
    text = "\n\n".join(f"Paragraph {number}. " + "word " * 30 + "end." for number in range(40))
    chunks = chunks_of(text, 1200, 0)
    assert len(chunks) < 8
    assert all(chunk.text.startswith("Paragraph") and chunk.text.endswith("end.") for chunk in chunks)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaa bb.\ncc dd ee", "aaaa bb."),  # a line end before a space
        ("aaaa bb. cc dd ee", "aaaa bb."),  # a sentence end before a space
        ("aaaa bb cc dd ee", "aaaa bb cc"),  # the last space
        ("aaaaaaaaaaaaaaaa", "aaaaaaaaaa"),  # no better place
        ("一二三四五六。七八九十", "一二三四五六。"),  # sentences without spaces
        ("aa\n\nbbb ccc ddd", "aa\n\nbbb"),  # a blank line too early to be worth a cut
        ("aaaaaa\r\n\r\nbbb ccc", "aaaaaa"),  # Windows line ends
    ],
)
def test_a_cut_is_at_the_best_place_in_the_second_half_of_the_window(text, first):
    assert chunks_of(text, 10, 0)[0].text == first


def test_the_overlap_begins_at_a_word():
    assert [chunk.text for chunk in chunks_of("alpha beta gamma delta", 12, 6)] == [
        "alpha beta",
        "beta gamma",
        "gamma delta",
    ]


def test_wide_gaps_and_blank_texts_make_no_blank_chunk():
    assert [chunk.text for chunk in chunks_of("a" + " " * 9_000 + "b", 50, 40)] == ["a", "b"]
    assert chunks_of(" \n" * 5_000) == []


def test_a_megabyte_is_cut_quickly():
    """The time is linear: each case takes minutes if a step reads the whole text."""
    for text in ("x" * 1_000_000, "a b. " * 200_000, "\n" * 1_000_000 + "x", "a\n\n" * 333_333):
        places = [place(chunk) for chunk in chunks_of(text)]
        assert places[-1][1] == len(text.rstrip())
        assert len(places) < 1_700


NOTE = """---
title: Signing keys
tags: [ops]
---

# Another title

![logo](logo.png)

```sh
# not a heading
```

Rotate the [signing *keys*](keys.md "t") with `rotate_all`;
see [[Vault|the vault]].<!-- secret -->

## More

Body text.
"""


def test_a_note_is_a_description_then_the_chunks_of_its_body():
    about, chunk = Notes().decompose(Artifact("ops/keys.md", NOTE)).surfaces
    assert (about.kind, about.granularity) == ("description", "field")
    assert about.text == "Signing keys\n\nRotate the signing keys with rotate_all; see the vault."
    assert (chunk.kind, chunk.granularity) == ("chunk", "chunk")
    assert chunk.text.startswith("# Another title")
    assert "tags:" not in chunk.text


@given(PROSE, WINDOWS)
def test_offsets_of_the_chunks_of_a_note_count_from_the_start_of_the_file(body, window):
    text = "---\ntitle: T\n---\n" + body
    strategy = Notes(chunk_size=window[0], overlap=window[1])
    chunks = [s for s in strategy.decompose(Artifact("a.md", text)).surfaces if s.kind == "chunk"]
    assert all(text[slice(*place(chunk))] == chunk.text and place(chunk)[0] >= 17 for chunk in chunks)
    assert bool(chunks) == bool(body.strip())


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("", "note"),
        ("---\ntitle: T\n---\n", "T"),
        ("---\ntitle: T\ndescription: D d.\n---\nparagraph", "T\n\nD d."),
        ("---\ntitle: T\ndescription: [list]\n---\nparagraph", "T\n\nparagraph"),
        ("---\ntitle: 2026\n---\n", "2026"),
        ("---\ntitle:\n---\n# Heading ##\n\ntext", "Heading\n\ntext"),
        ("```\n# code\n```\n# Heading", "Heading"),
        ("Over\n====\n\ntext", "Over\n\ntext"),
        ("\ufeff---\r\ntitle: T\r\n---\r\n\r\n- one\r\n- two\r\n\r\nmore", "T\n\none two"),
        ("# H\n\n<!-- a\n\nb -->\n\n---\n\ntext", "H\n\ntext"),
        ("---\ntitle: a: b\n---\nbody", "note\n\nbody"),
    ],
)
def test_a_description_is_the_title_and_the_first_text_of_the_note(text, description):
    surfaces = Notes().decompose(Artifact("folder/note.md", text)).surfaces
    assert surfaces[0].text == description


def test_frontmatter_that_cannot_be_read_stays_searchable_in_the_body():
    surfaces = Notes().decompose(Artifact("n.md", "---\nprose: between: rules\n---\nmore")).surfaces
    assert "between: rules" in surfaces[1].text


def test_a_description_is_never_longer_than_a_chunk():
    surfaces = Notes(chunk_size=80, overlap=0).decompose(Artifact("n.md", "# T\n\n" + "word " * 100)).surfaces
    assert all(len(surface.text) <= 80 for surface in surfaces)


@pytest.mark.parametrize("text", ["[" * 100_000, "![" * 50_000, "[a](" * 30_000, "<a" * 50_000, "<!--" * 30_000])
def test_hostile_markup_is_described_in_linear_time(text):
    surfaces = Notes().decompose(Artifact("n.md", text)).surfaces
    assert surfaces[0].text.startswith("n\n\n")
