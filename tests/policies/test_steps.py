"""Walks are the same, whether or not the store reads a whole step in one call."""

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.drawn_walks import compare_with_and_without_steps


@settings(max_examples=6)
@given(draw=st.randoms(use_true_random=False))
async def test_they_are_equal(draw):
    await compare_with_and_without_steps(draw)


@pytest.mark.slow
@settings(max_examples=100)
@given(draw=st.randoms(use_true_random=False))
async def test_they_are_equal_in_many_cases(draw):
    await compare_with_and_without_steps(draw)
