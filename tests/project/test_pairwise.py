"""Tests marked `pairwise` run on few cases.

In these, each two values of any two parameters occur together.
"""

from itertools import combinations, product
from random import Random

import pytest

from tests.support.pairwise import select_rows


def pairs_of(rows):
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@pytest.mark.parametrize("sizes", [(2, 2), (3, 8, 2), (2, 2, 2, 2), (3, 9, 4, 2, 2)])
def test_every_pair_occurs_in_few_rows(sizes):
    rows = list(product(*map(range, sizes)))
    chosen = [rows[at] for at in select_rows(rows)]
    assert pairs_of(chosen) == pairs_of(rows)
    first, second = sorted(sizes)[-2:]
    assert first * second <= len(chosen) <= 1.5 * first * second


def test_only_rows_that_exist_are_chosen_and_no_pair_of_them_is_lost():
    rows = Random(1).sample(list(product(range(4), repeat=4)), 60)
    chosen = [rows[at] for at in select_rows(rows)]
    assert pairs_of(chosen) == pairs_of(rows)
    assert len(chosen) < 40
