"""Limits are checked on construction; the reasons to stop a walk have an order."""

import typing
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from airw._base.checks import check_count
from airw.errors import ArgumentError
from airw.values import STOP_REASONS, Limits, StopReason

BOUNDS = ["max_fanout", "max_edges", "max_frontier", "max_hits", "max_concurrency"]


def test_the_defaults_are_as_documented():
    assert {each.name: getattr(Limits(), each.name) for each in fields(Limits)} == {
        "max_fanout": 1_000,
        "max_edges": 100_000,
        "max_frontier": 100_000,
        "max_hits": None,
        "max_concurrency": 16,
        "count_beyond_limits": False,
    }


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [-1, 1.0, "5", True, float("inf"), float("nan"), [1]])
def test_a_bound_that_is_no_whole_number_is_refused_on_construction_by_name(name, value):
    with pytest.raises(ArgumentError, match=name) as caught:
        Limits(**{name: value})
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["max_fanout", "max_edges", "max_frontier", "max_concurrency"])
def test_only_max_hits_may_be_none(name):
    assert Limits(max_hits=None).max_hits is None
    with pytest.raises(ArgumentError, match=name):
        Limits(**{name: None})


def test_zero_is_a_valid_bound_except_for_frontier_and_concurrency():
    assert Limits(max_fanout=0, max_edges=0, max_hits=0).max_edges == 0
    for name in ("max_frontier", "max_concurrency"):
        with pytest.raises(ArgumentError, match=f"{name} must be a whole number of at least 1"):
            Limits(**{name: 0})


@pytest.mark.parametrize("value", [None, 0, 1, "yes"])
def test_count_beyond_limits_is_true_or_false(value):
    with pytest.raises(ArgumentError, match="count_beyond_limits"):
        Limits(count_beyond_limits=value)


def test_limits_cannot_be_changed_but_copied():
    limits = Limits(max_hits=10)
    with pytest.raises(FrozenInstanceError):
        limits.max_hits = 20
    assert replace(limits, max_hits=20) == Limits(max_hits=20)
    assert len({limits, Limits(max_hits=10)}) == 1
    with pytest.raises(ArgumentError):
        replace(limits, max_hits=-1)


def test_limits_are_passed_by_name():
    with pytest.raises(TypeError):
        Limits(5)


def test_the_reasons_to_stop_are_in_order_of_precedence_and_complete():
    assert STOP_REASONS == ("failed", "closed", "timeout", "sufficient", "max_hits", "node_budget", "exhausted")
    assert set(typing.get_args(StopReason)) == set(STOP_REASONS)


def test_a_count_is_returned_or_refused_with_its_name_and_least_value():
    assert check_count("k", 0) == 0
    assert check_count("k", 10**18, least=1) == 10**18
    for value in (10**18 + 1, 10**30, 10**5_000):
        with pytest.raises(ArgumentError, match="k must be at most 1,000,000,000,000,000,000, not "):
            check_count("k", value)
    for value in (0, -1, True, None, 1.5, "1"):
        with pytest.raises(ArgumentError, match="k must be a whole number of at least 1, not "):
            check_count("k", value, least=1)
