"""Records put together: what offsets prove to be shared is said once, and nothing is lost."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airw.indexing import Chunked, Notes
from airw.retrieval.stitching import stitch
from airw.values import Artifact, Record


def record(index, text, kind="chunk", **metadata):
    return Record(f"r{index}", "a", kind, index, text, metadata)


def cut(index, whole, start, end, kind="chunk"):
    return record(index, whole[start:end], kind, start=start, end=end)


def records_of(strategy, text):
    plan = strategy.decompose(Artifact("a.md", text))
    return [
        Record(f"r{at}", "a.md", each.kind, at, each.text, {**plan.filter_fields, **each.metadata})
        for at, each in enumerate(plan.surfaces)
    ]


WHOLE = "rotate the signing keys every year"


def test_what_two_neighbours_share_is_said_once():
    assert stitch([cut(0, WHOLE, 0, 18), cut(1, WHOLE, 11, 34)]) == WHOLE


def test_a_chunk_that_begins_where_the_last_one_ends_follows_it_at_once():
    assert stitch([cut(4, WHOLE, 0, 14), cut(5, WHOLE, 14, 34)]) == WHOLE


def test_a_repeat_shorter_than_a_word_is_dropped_too_where_the_offsets_prove_it():
    assert stitch([cut(0, WHOLE, 0, 10), cut(1, WHOLE, 9, 34)]) == WHOLE


def test_no_records_are_no_text_and_one_is_its_own():
    assert stitch([]) == ""
    assert stitch([record(3, "alone")]) == "alone"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (cut(2, WHOLE, 11, 34), "not adjacent"),
        (cut(1, WHOLE, 11, 34, "title"), "of another kind"),
        (cut(1, WHOLE, 19, 34), "behind a gap"),
        (record(1, WHOLE[11:34]), "without offsets"),
        (record(1, WHOLE[11:34], start="11", end="34"), "with offsets that are no numbers"),
        (record(1, WHOLE[11:34], start=11.0, end=34.0), "with offsets that are not whole"),
        (record(1, WHOLE[11:34], start=11.0, end=34), "with one that is not whole"),
        (record(1, WHOLE[11:34], start=None, end=34), "with one offset"),
        (record(1, WHOLE[11:34], start=0, end=23), "with offsets of another text"),
        (record(1, WHOLE[11:34], start=11, end=2026), "with offsets that do not fit its length"),
        (record(1, "another text altogether", start=11, end=34), "with offsets of a text that was changed"),
    ],
)
def test_what_is_no_proven_neighbour_is_parted_by_a_blank_line_and_kept_whole(second, why):
    assert stitch([cut(0, WHOLE, 0, 18), second]) == f"{WHOLE[:18]}\n\n{second.text}", why


def test_fields_called_start_and_end_that_are_no_offsets_join_nothing():
    """Every record of an artifact carries its filter fields, such as the years in which something began and ended."""
    chunks = [record(at, text, start=2024, end=2024) for at, text in enumerate(["one", "two"])]
    assert stitch(chunks) == "one\n\ntwo"


def test_a_line_that_two_chunks_both_have_stays_twice():
    """F34: text is never lost because it happens to repeat."""
    whole = "the same line of text\nthe same line of text\n"
    assert stitch([cut(0, whole, 0, 22), cut(1, whole, 22, 44)]) == whole
    assert stitch([record(0, whole[:22]), record(1, whole[22:])]).count("the same line of text") == 2


def test_neighbours_are_compared_with_the_record_before_alone():
    assert stitch([cut(0, WHOLE, 0, 10), cut(1, WHOLE, 7, 18), cut(2, WHOLE, 11, 34)]) == WHOLE


TEXTS = st.text(st.sampled_from("ab .\n"), max_size=60)


@given(TEXTS, st.integers(1, 12), st.integers(0, 11))
def test_chunks_of_any_text_give_back_all_of_it_but_white_space(text, size, overlap):
    assume(overlap < size)
    records = records_of(Chunked(chunk_size=size, overlap=overlap), text)
    whole = stitch(records)
    assert "".join(whole.split()) == "".join(text.split())
    if records and all(after.metadata["start"] <= before.metadata["end"] for before, after in pairwise(records)):
        assert whole == text.strip()


@given(TEXTS, st.integers(1, 12), st.integers(0, 11), st.data())
def test_any_records_of_an_artifact_lose_no_character_of_any(text, size, overlap, data):
    assume(overlap < size)
    records = records_of(Notes(chunk_size=size, overlap=overlap), f"# T\n\n{text}")
    chosen = [each for each in records if data.draw(st.booleans())]
    spoilt = [
        replace(each, metadata=each.metadata | data.draw(st.sampled_from([{}, {}, {"start": 0}, {"end": 3}])))
        for each in chosen
    ]
    whole, place = stitch(spoilt), 0
    for each in spoilt:
        place = whole.find(each.text, place)
        assert place >= 0, "each record's text is in it, in their order"
