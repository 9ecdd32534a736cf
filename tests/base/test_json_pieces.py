"""JSON in pieces: the same text as in one, and no piece is long."""

import json

import pytest
from hypothesis import given, strategies as st

from airw._base.json import dump_json, iter_json

LONG = 8_000  # characters that are one piece
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@given(VALUES, st.sampled_from([1, 40, 3_000]))
def test_the_pieces_are_the_text_of_the_whole(value, times):
    for each in (value, [value] * times, {"x": [{"y": value, "z": [value] * times}], "text": "é\u202e\ud83d" * times}):
        assert "".join(iter_json(each)) == dump_json(each)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        ["x" * 100] * 1_000,
        [[["x"] * 20_000]],
        {"a": [[1.5, None, True]] * 10_000},
        {str(at): at for at in range(5_000)},
        [["x" * 7_000, "y" * 7_000]] * 10,
        [1, "x" * 20_000, 2, {"a": "y" * 20_000}, 3],
    ],
    ids=lambda value: repr(value)[:20],
)
def test_no_piece_is_long(value):
    pieces = [*iter_json(value)]
    assert max(map(len, pieces)) <= 2 * LONG
    assert json.loads("".join(pieces)) == value
