"""Work in slices has the results of the functions of Python that do it at once."""

import json

import pytest
from hypothesis import given, strategies as st

from airw._base import slices


@pytest.fixture(autouse=True, scope="module")
def _short_slices():
    """Make slices so short that a few items are long work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_SLICE", 8)
        patch.setattr(slices, "_PART", 8)
        patch.setattr(slices, "_FEW", 2)
        patch.setattr(slices, "_SLICE_CHARS", 3)
        yield


ITEMS = st.lists(st.integers(0, 30), max_size=200)


@given(ITEMS, st.none() | st.integers(0, 250))
def test_a_sort_in_slices_equals_sorted_and_keeps_the_order_of_ties(items, limit):
    assert slices.sort_in_slices(items, limit=limit) == sorted(items)[:limit]
    assert slices.sort_in_slices(iter(items), limit=limit) == sorted(items)[:limit]
    pairs = [(item, number) for number, item in enumerate(items)]
    kept = list(pairs)
    assert (
        slices.sort_in_slices(pairs, key=lambda pair: pair[0], limit=limit)
        == sorted(pairs, key=lambda pair: pair[0])[:limit]
    )
    assert pairs == kept


@given(ITEMS)
def test_slices_hold_all_items_in_order(items):
    parts = list(slices.iterate_slices(items))
    assert [item for part in parts for item in part] == items
    assert all(0 < len(part) <= 8 for part in parts)
    assert json.loads(slices.dump_in_slices(items)) == items
    consumed = list(items)
    assert list(slices.consume_in_slices(consumed)) == items
    assert consumed == []


@given(st.text(alphabet="ab,", max_size=40))
def test_a_text_is_split_as_by_str_split(text):
    assert [piece for part in slices.split_in_slices(text, ",") for piece in part] == text.split(",")
