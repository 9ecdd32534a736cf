"""Unit rows and the stable best k: laws that every ranking relies on."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from airw._base.vectors import best_first, unit_rows
from airw.errors import EmbedderError

FINITE = st.floats(-1e6, 1e6, width=32)
MATRICES = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=FINITE)
SCORES = hnp.arrays(
    np.float64,
    st.integers(0, 30),
    elements=st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, float("inf"), float("-inf")]) | FINITE,
)


def rank_by_definition(scores, k, tie_key):
    return sorted(range(len(scores)), key=lambda at: (-scores[at], tie_key(at)))[:k]


@given(MATRICES)
def test_unit_rows_have_length_one_or_zero_and_keep_their_direction(matrix):
    rows = unit_rows(matrix, count=len(matrix))
    assert rows.shape == matrix.shape
    assert rows.dtype == np.float32
    for given_row, row in zip(matrix.astype(np.float64), rows.astype(np.float64), strict=True):
        length = np.linalg.norm(given_row)
        assert np.linalg.norm(row) == pytest.approx(1.0 if length else 0.0, abs=1e-5)
        assert row * length == pytest.approx(given_row, rel=1e-5, abs=1e-5 * length)


@given(MATRICES)
def test_unit_rows_do_not_change_their_argument(matrix):
    before = matrix.copy()
    unit_rows(matrix, count=len(matrix))[:] = 7.0
    assert np.array_equal(matrix, before)


@pytest.mark.parametrize("scale", [1e-30, 1e-42, 1e30, 3e38])
def test_tiny_and_huge_vectors_become_unit_rows(scale):
    rows = unit_rows(np.full((1, 4), scale, np.float32), count=1)
    assert rows == pytest.approx(np.full((1, 4), 0.5), abs=1e-6)


def test_lists_and_other_number_types_are_accepted():
    assert unit_rows([[3, 4]], count=1, dim=2).tolist() == [pytest.approx([0.6, 0.8])]
    assert unit_rows(np.eye(2, dtype=np.float16), count=2).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_value_too_large_for_float32_is_an_error_and_not_a_warning():
    with pytest.raises(EmbedderError, match="not finite"):
        unit_rows([[1e300, 0.0]], count=1)


def test_no_texts_give_no_rows_of_the_known_width():
    assert unit_rows([], count=0, dim=5).shape == (0, 5)
    assert unit_rows(np.empty((0, 5)), count=0, dim=5).shape == (0, 5)


@pytest.mark.parametrize(
    ("vectors", "count", "dim", "message"),
    [
        ([[1.0, float("nan")]], 1, 2, r"row 0 of 1"),
        ([[1.0, 0.0], [float("inf"), 0.0]], 2, 2, r"row 1 of 2"),
        ([[1.0, 0.0]], 2, 2, r"\(2, 2\), not \(1, 2\)"),
        ([[1.0, 0.0]], 1, 3, r"\(1, 3\), not \(1, 2\)"),
        ([1.0, 0.0], 2, None, r"\(2, dim\), not \(2,\)"),
        ([[1.0], [1.0, 2.0]], 2, None, "rows of one width"),
        ([["a"]], 1, None, "rows of numbers"),
        (None, 1, None, "rows of numbers, not NoneType"),
        ([["1.0"]], 1, None, "rows of numbers"),
        (np.array([[1 + 2j]]), 1, None, "rows of numbers"),
    ],
)
def test_an_unusable_answer_is_an_error_of_one_line_that_names_the_embedder(vectors, count, dim, message):
    with pytest.raises(EmbedderError, match=message) as caught:
        unit_rows(vectors, count=count, dim=dim, of="model 'm'")
    assert str(caught.value).startswith("model 'm'")
    assert "\n" not in str(caught.value)


@given(SCORES, st.integers(-1, 35))
def test_best_first_is_the_stable_descending_order_cut_at_k(scores, k):
    assert best_first(scores, k).tolist() == rank_by_definition(scores, max(k, 0), lambda at: at)


@given(SCORES, st.integers(0, 35), st.randoms(use_true_random=False))
def test_best_first_breaks_ties_by_the_key_also_at_the_cut(scores, k, random):
    keys = [random.randrange(4) for _ in scores]
    found = best_first(scores, k, lambda places: map(keys.__getitem__, places))
    assert found.tolist() == rank_by_definition(scores, k, lambda at: (keys[at], at))


@given(SCORES, st.integers(0, 10), st.integers(0, 10))
def test_a_longer_list_begins_with_the_shorter_one(scores, k, more):
    assert best_first(scores, k + more).tolist()[:k] == best_first(scores, k).tolist()[:k]


def test_a_hundred_thousand_ties_are_not_all_sorted():
    """The work is linear: a full sort would need over a million comparisons."""
    compared = 0

    class Key:
        def __init__(self, at):
            self.at = -at

        def __lt__(self, other):
            nonlocal compared
            compared += 1
            return self.at < other.at

    found = best_first(np.zeros(100_000), 3, lambda places: (Key((at * 7919) % 100_003) for at in places.tolist()))
    assert len(found) == 3
    assert compared < 150_000


def test_only_the_ten_best_of_many_are_sorted(monkeypatch):
    scores = np.random.default_rng(0).random(100_000)
    full, sizes = np.argsort(-scores, kind="stable")[:10], []
    for name in ("sort", "argsort"):
        sort = getattr(np, name)
        monkeypatch.setattr(np, name, lambda a, sort=sort, **options: (sizes.append(a.size), sort(a, **options))[1])
    assert best_first(scores, 10).tolist() == full.tolist()
    assert max(sizes) == 10
