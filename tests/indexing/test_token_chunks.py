"""Chunks within a budget of tokens: with any tokenizer, a model reads each chunk whole."""

import re
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import example, given, strategies as st

from airw.errors import ArgumentError
from airw.indexing import Chunked, Notes, Package, strategy_spec, token_offsets
from airw.values import Artifact

PIECES = ["a", "bb", "é.", "。", "🎉", "c" * 50, "\0", " ", "\t", "\r\n", "\n\n", "\u3000", " " * 30, "\n" * 20]
PROSE = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


def words(text):
    """Return the spans of words and signs; NUL belongs to none."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s\0]", text)]


def pieces(text):
    """Return pieces of at most three characters of each word, counted from its start.

    Half a word alone has other pieces than inside the word.
    """
    return [(start, min(start + 3, end)) for first, end in words(text) for start in range(first, end, 3)]


def octets(text):
    """Return a token for each UTF-8 byte; those of one character share its offsets."""
    return [(at, at + 1) for at, character in enumerate(text) for _ in character.encode()]


def uneven(text):
    """Return more tokens for a part of a word than for the whole word.

    `cccc` has two tokens, and `ccc` has three.
    """
    return [span for start, end in words(text) for span in _split_unevenly(start, end)]


def _split_unevenly(start, end):
    if (end - start) % 4:
        return [(at, at + 1) for at in range(start, end)]
    return [(at, at + 2) for at in range(start, end, 2)]


EXACT = st.sampled_from([words, pieces])
BUDGETS = st.tuples(st.integers(1, 30), st.sampled_from([(1200, 200), (10, 0), (10, 9), (100, 50), (400, 1)]))


def chunks_of(text, tokenizer, max_tokens, window=(1200, 200)):
    strategy = Chunked(chunk_size=window[0], overlap=window[1], max_tokens=max_tokens, tokenizer=tokenizer)
    return strategy.decompose(Artifact("a", text)).surfaces


def places(chunks):
    return [(chunk.metadata["start"], chunk.metadata["end"]) for chunk in chunks]


@given(PROSE, st.sampled_from([words, pieces, octets, uneven]), BUDGETS)
def test_chunks_cover_every_character_except_white_space_and_have_their_offsets(text, tokenizer, budget):
    chunks = chunks_of(text, tokenizer, *budget)
    covered = {position for place in places(chunks) for position in range(*place)}
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered
    for index, (chunk, (start, end)) in enumerate(zip(chunks, places(chunks), strict=True)):
        assert text[start:end] == chunk.text == chunk.text.strip() != ""
        assert (chunk.metadata["chunk_index"], chunk.metadata["n_chunks"]) == (index, len(chunks))


@given(PROSE, EXACT, BUDGETS)
def test_no_chunk_is_over_the_budget_when_it_is_measured_alone(text, tokenizer, budget):
    assert all(len(tokenizer(chunk.text)) <= budget[0] for chunk in chunks_of(text, tokenizer, *budget))


@given(PROSE, st.integers(4, 30))
def test_the_same_is_true_for_a_tokenizer_with_more_tokens_for_a_part_of_a_word(text, max_tokens):
    assert all(len(uneven(chunk.text)) <= max_tokens for chunk in chunks_of(text, uneven, max_tokens))


@given(PROSE, BUDGETS)
def test_only_a_single_character_is_ever_over_the_budget(text, budget):
    for chunk in chunks_of(text, octets, *budget):
        assert len(octets(chunk.text)) <= budget[0] or len(chunk.text) == 1


@given(PROSE, st.sampled_from([words, pieces, octets, uneven]), BUDGETS)
@example("aaaa bbb" + " " * 30 + "c" * 50, pieces, (6, (10, 5)))
def test_chunks_overlap_at_most_by_the_setting_and_none_is_inside_another(text, tokenizer, budget):
    max_tokens, (chunk_size, overlap) = budget
    most = min(round(max_tokens * overlap / chunk_size), max_tokens - 1)
    tokens = tokenizer(text)
    for (start, end), (next_start, next_end) in pairwise(places(chunks_of(text, tokenizer, *budget))):
        assert start < next_start
        assert end < next_end
        assert sum(1 for first, last in tokens if last > next_start and first < end and next_start < end) <= most


@given(PROSE, BUDGETS)
def test_chunks_begin_and_end_between_tokens(text, budget):
    tokens = words(text)
    for start, end in places(chunks_of(text, words, *budget)):
        assert not any(first < edge < last for first, last in tokens for edge in (start, end))


@given(PROSE, st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))))
def test_a_tokenizer_of_characters_cuts_like_the_count_of_characters(text, window):
    def characters(text):
        return [(at, at + 1) for at in range(len(text))]

    plain = Chunked(chunk_size=window[0], overlap=window[1]).decompose(Artifact("a", text)).surfaces
    assert chunks_of(text, characters, window[0], window) == plain


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("one two three\n\nfour five six", "one two three"),
        ("one two three\nfour five. six", "one two three"),
        ("I. two three four five six", "I. two three"),  # the sentence ends too early to be worth a cut
        ("one two three. four five six", "one two three."),
    ],
)
def test_a_cut_is_at_the_best_place_in_the_second_half_of_the_window(text, first):
    assert chunks_of(text, words, 4, (10, 0))[0].text == first


def test_the_overlap_is_the_same_share_of_tokens_as_of_characters():
    text = " ".join("abcdefghijkl")
    assert [chunk.text for chunk in chunks_of(text, words, 6, (1200, 400))] == ["a b c d e f", "e f g h i j", "i j k l"]


@given(PROSE, st.sampled_from([words, pieces, octets, uneven]), st.integers(1, 30))
def test_frontmatter_changes_only_the_offsets_of_the_chunks_of_a_note(body, tokenizer, max_tokens):
    head = "---\ntitle: of several tokens\n---\n"
    strategy = Notes(max_tokens=max_tokens, tokenizer=tokenizer)
    chunks = [each for each in strategy.decompose(Artifact("n.md", head + body)).surfaces if each.kind == "chunk"]
    alone = chunks_of(body, tokenizer, max_tokens)
    assert [chunk.text for chunk in chunks] == [chunk.text for chunk in alone]
    assert [start - len(head) for start, _ in places(chunks)] == [start for start, _ in places(alone)]


def test_notes_and_packages_keep_the_budget_in_descriptions_and_chunks_alike():
    text = "---\ntitle: Keys\n---\n" + "Rotate the keys yearly. " * 40
    about, *chunks = Notes(max_tokens=12, tokenizer=words).decompose(Artifact("n.md", text)).surfaces
    assert len(words(about.text)) <= 12
    assert len(chunks) > 10
    assert all(len(words(chunk.text)) <= 12 for chunk in chunks)
    assert all(text[slice(*place)] == chunk.text for place, chunk in zip(places(chunks), chunks, strict=True))
    package = Package(max_tokens=12, tokenizer=words).decompose(Artifact("p", {"readme": text}))
    assert all(len(words(surface.text)) <= 12 for surface in package.surfaces)
    assert len(package.surfaces) > 10


@pytest.mark.parametrize("make", [Chunked, Notes, Package])
@pytest.mark.parametrize(
    "parameters",
    [
        {"max_tokens": 250},
        {"tokenizer": words},
        {"max_tokens": 0, "tokenizer": words},
        {"max_tokens": True, "tokenizer": words},
        {"max_tokens": 2.5, "tokenizer": words},
        {"max_tokens": 250, "tokenizer": "all-MiniLM-L6-v2"},
        {"max_tokens": 250, "tokenizer": 7},
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused_on_construction(make, parameters):
    with pytest.raises(ArgumentError, match=r"max_tokens|tokenizer"):
        make(**parameters)


@pytest.mark.parametrize(
    "offsets",
    [
        [(0, 2), (1, 1)],
        [(3, 5), (0, 2)],
        [(0, 99)],
        [(-1, 2)],
        [(2, 1)],
        [(0, 0), (0, 3), (0, 0)],
        [1, 2],
        [(0, 1, 2)],
        [(0.0, 1.0)],
        ["ab"],
        None,
        {"input_ids": [1]},
    ],
)
def test_invalid_offsets_are_an_error_that_describes_the_result_of_a_tokenizer(offsets):
    strategy = Chunked(max_tokens=3, tokenizer=token_offsets(lambda text: offsets, id="odd"))
    with pytest.raises(
        ArgumentError, match=r"a tokenizer must return the \(start, end\) of each token.*; odd returned"
    ) as caught:
        strategy.decompose(Artifact("a", "one two"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [
        ([(7, 8), (5, 10)], (5, 10)),
        ([(0, 2), (1, 1)], (1, 1)),
        ([(3, 5), (0, 2)], (0, 2)),
        ([(0, 3), (0, 99)], (0, 99)),
        ([(2, 1), (3, 4)], (2, 1)),
    ],
)
def test_the_error_names_the_first_token_that_is_wrong(offsets, fault):
    with pytest.raises(ArgumentError, match=rf"odd returned \({fault[0]}, {fault[1]}\)$"):
        token_offsets(lambda text: offsets, id="odd")("one two three")


def test_an_id_contains_the_tokenizer_and_equal_tokenizers_make_equal_strategies():
    one, again = (Chunked(max_tokens=9, tokenizer=lambda text: words(text)[:]) for _ in range(2))
    assert one == again
    assert hash(one) == hash(again)
    ids = {one.id, Chunked(max_tokens=9, tokenizer=pieces).id, Chunked(max_tokens=8, tokenizer=words).id, Chunked().id}
    assert len(ids) == 4
    named = token_offsets(words, id="words-1")
    assert "TokenOffsets(id='words-1')" in Chunked(max_tokens=9, tokenizer=named).id
    assert token_offsets(named) == named
    assert token_offsets(named, id="words-2") != named
    assert strategy_spec(one) is None


def test_a_tokenizer_without_a_stable_identity_needs_an_id():
    state = iter([])
    generator = (item for item in state)
    with pytest.raises(ArgumentError, match="add an `id` attribute to it"):
        Chunked(max_tokens=9, tokenizer=lambda text: list(generator))
    with pytest.raises(ArgumentError, match="id must name"):
        token_offsets(words, id=" ")


@pytest.mark.slow
def test_a_megabyte_of_tokens_is_cut_quickly():
    for text in ("abc " * 250_000, "x" * 200_000, "a. " * 100_000 + "\n" * 100_000 + "x"):
        found = places(chunks_of(text, pieces, 250))
        assert found[-1][1] == len(text.rstrip())


HASHED = """
import sys
from tokenizers import Tokenizer
from airw.indexing import Chunked
print(Chunked(max_tokens=9, tokenizer=Tokenizer.from_file(sys.argv[1])).id)
"""


@pytest.mark.models
@pytest.mark.slow
def test_with_the_tokenizer_of_the_model_the_model_truncates_no_chunk(minilm_folder):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    file = minilm_folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    as_shipped = tokenizer.to_str()
    text = (
        "Rotate the signing keys — naïvely, 🎉 — antidisestablishmentarianism. 一二三四五六。\n\n" * 60 + "x1y2" * 900
    )
    plain = Tokenizer.from_str(as_shipped)
    plain.no_truncation()
    plain.no_padding()
    for max_tokens in (7, 40, 250):
        chunks = chunks_of(text, tokenizer, max_tokens)
        counts = [len(plain.encode(chunk.text, add_special_tokens=False).ids) for chunk in chunks]
        assert max_tokens / 2 < max(counts) <= max_tokens
        covered = {position for place in places(chunks) for position in range(*place)}
        assert {position for position, character in enumerate(text) if not character.isspace()} <= covered
    assert tokenizer.to_str() == as_shipped  # it still truncates at the limit of its owner

    fast = AutoTokenizer.from_pretrained(str(minilm_folder))
    assert chunks_of(text, fast, 40) == chunks_of(text, tokenizer, 40)
    elsewhere = subprocess.run([sys.executable, "-c", HASHED, file], check=True, capture_output=True, text=True).stdout
    assert elsewhere.strip() == Chunked(max_tokens=9, tokenizer=tokenizer).id
