"""Stitching of records: text that overlaps by offsets appears once, and none is lost."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, strategies as st

from airw.indexing import Chunked, Notes
from airw.retrieval.searching import stitch
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


def test_text_that_two_neighbours_share_appears_once():
    assert stitch([cut(0, WHOLE, 0, 18), cut(1, WHOLE, 11, 34)]) == WHOLE


def test_a_chunk_that_begins_at_the_end_of_the_last_one_follows_without_a_gap():
    assert stitch([cut(4, WHOLE, 0, 14), cut(5, WHOLE, 14, 34)]) == WHOLE


def test_an_overlap_shorter_than_a_word_is_dropped_too():
    assert stitch([cut(0, WHOLE, 0, 10), cut(1, WHOLE, 9, 34)]) == WHOLE


def test_no_records_make_an_empty_text_and_one_record_makes_its_own_text():
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
def test_a_record_without_a_proven_overlap_is_separated_by_a_blank_line_and_kept_whole(second, why):
    assert stitch([cut(0, WHOLE, 0, 18), second]) == f"{WHOLE[:18]}\n\n{second.text}", why


def test_metadata_fields_called_start_and_end_are_not_mistaken_for_offsets():
    """Every record carries the filter fields of its artifact, such as a first and a last year."""
    chunks = [record(at, text, start=2024, end=2024) for at, text in enumerate(["one", "two"])]
    assert stitch(chunks) == "one\n\ntwo"


def test_a_line_that_occurs_in_two_chunks_stays_twice():
    """F34: text is never lost because it happens to repeat."""
    whole = "the same line of text\nthe same line of text\n"
    assert stitch([cut(0, whole, 0, 22), cut(1, whole, 22, 44)]) == whole
    assert stitch([record(0, whole[:22]), record(1, whole[22:])]).count("the same line of text") == 2


def test_a_record_is_compared_only_with_the_one_before_it():
    assert stitch([cut(0, WHOLE, 0, 10), cut(1, WHOLE, 7, 18), cut(2, WHOLE, 11, 34)]) == WHOLE


TEXTS = st.text(st.sampled_from("ab .\n"), max_size=60)


@given(TEXTS, st.integers(1, 12), st.integers(0, 11))
def test_stitching_all_chunks_restores_the_text_except_white_space(text, size, overlap):
    assume(overlap < size)
    records = records_of(Chunked(chunk_size=size, overlap=overlap), text)
    whole = stitch(records)
    assert "".join(whole.split()) == "".join(text.split())
    if records and all(after.metadata["start"] <= before.metadata["end"] for before, after in pairwise(records)):
        assert whole == text.strip()


@given(TEXTS, st.integers(1, 12), st.integers(0, 11), st.data())
def test_stitching_any_records_of_an_artifact_loses_no_character(text, size, overlap, data):
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
        assert place >= 0, "it contains the text of each record, in their order"
