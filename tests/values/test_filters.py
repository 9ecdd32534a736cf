"""The meaning of filters, which every store must follow."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.errors import AirwError, FilterError
from airw.values.filters import MISSING, And, Compare, Not, Or, get_field, matches, parse_filter

ADA = {
    "author": {"name": "Ada", "born": 1815},
    "author.name": "literal",
    "tags": ["a", "b", 1],
    "year": 2020,
    "ratio": 0.5,
    "draft": False,
    "status": "Final",
    "nothing": None,
    "deep": {"x": {"y": [1, [2]]}},
    "at": "2024-01-05T11:00:00+02:00",
    "seen": ["2024-01-05T11:00:00+02:00"],
}

CASES = [
    ({}, True),
    ({"status": "Final"}, True),
    ({"status": "final"}, False),
    ({"status": "Fin"}, False),
    ({"year": 2020.0}, True),
    ({"draft": 0}, True),
    ({"draft": False}, True),
    ({"draft": None}, False),
    ({"nothing": None}, True),
    ({"absent": None}, False),
    # lists: $eq is the whole list, $in is overlap, $contains is membership
    ({"tags": "a"}, False),
    ({"tags": ["a", "b", 1]}, True),
    ({"tags": ("a", "b", 1)}, True),
    ({"tags": ["b", "a", 1]}, False),
    ({"tags": {"$ne": "a"}}, True),
    ({"tags": {"$in": ["z", "b"]}}, True),
    ({"tags": {"$in": {"z", "b"}}}, True),
    ({"tags": {"$in": [True]}}, True),
    ({"tags": {"$in": [["a", "b", 1]]}}, False),
    ({"tags": {"$in": []}}, False),
    ({"tags": {"$nin": ["z"]}}, True),
    ({"tags": {"$nin": ["a", "z"]}}, False),
    ({"tags": {"$contains": "a"}}, True),
    ({"tags": {"$contains": "z"}}, False),
    ({"tags": {"$contains": ["a"]}}, False),
    ({"deep.x.y": {"$contains": [2]}}, True),
    ({"status": {"$contains": "ina"}}, True),
    ({"status": {"$contains": ""}}, True),
    ({"status": {"$contains": 1}}, False),
    ({"year": {"$contains": 2020}}, False),
    ({"author": {"$contains": "name"}}, False),
    # order: numbers with numbers, strings with strings, nothing else
    ({"year": {"$gt": 2019, "$lt": 2021}}, True),
    ({"year": {"$gt": 2020}}, False),
    ({"year": {"$gte": 2020, "$lte": 2020.0}}, True),
    ({"year": {"$gt": "1"}}, False),
    ({"year": {"$lt": "9"}}, False),
    ({"status": {"$gt": "Fina"}}, True),
    ({"status": {"$lt": 5}}, False),
    ({"draft": {"$lt": 1}}, True),
    # dates with a time and a zone are moments, in any spelling; others are texts
    ({"at": "2024-01-05T09:00:00Z"}, True),
    ({"at": {"$ne": "2024-01-05 09:00:00.000+00"}}, False),
    ({"at": {"$in": ["2020", "2024-01-05T10:00:00+01:00"]}}, True),
    ({"at": {"$nin": ["2024-01-05T10:00:00+01:00"]}}, False),
    ({"at": {"$lt": "2024-01-05T10:00:00Z"}}, True),
    ({"at": {"$gt": "2024-01-05T10:00:00+01:30"}}, True),
    ({"at": datetime.datetime(2024, 1, 5, 9, tzinfo=datetime.UTC)}, True),
    ({"at": {"$gt": datetime.datetime(2024, 1, 5, 8, 59, tzinfo=datetime.UTC)}}, True),
    ({"at": {"$lt": "2024-01-05T12:00:00"}}, True),
    ({"at": {"$gt": "2024-01-05"}}, True),
    ({"at": "2024-01-05"}, False),
    ({"seen": {"$contains": "2024-01-05T09:00:00Z"}}, True),
    ({"seen": {"$contains": "2024-01-05T09:00:00"}}, False),
    ({"seen": ["2024-01-05 09:00Z"]}, True),
    ({"seen": {"$in": ["2024-01-05T11:00:00+02:00"]}}, True),
    ({"at": {"$contains": "T11"}}, True),
    # decimals are numbers
    ({"year": Decimal("2020.0")}, True),
    ({"ratio": {"$lt": Decimal("0.51"), "$gt": Decimal("0.49")}}, True),
    ({"tags": {"$gt": ["a"]}}, False),
    ({"nothing": {"$lte": 0}}, False),
    # a missing field matches only $ne, $nin and $exists: False
    ({"absent": {"$ne": 1}}, True),
    ({"absent": {"$nin": [1]}}, True),
    ({"absent": {"$exists": False}}, True),
    ({"absent": {"$exists": True}}, False),
    ({"absent": {"$gt": 0}}, False),
    ({"absent": {"$in": [None]}}, False),
    ({"absent": {"$contains": "a"}}, False),
    ({"nothing": {"$exists": True}}, True),
    ({"nothing": {"$exists": False}}, False),
    # paths
    ({"author.born": 1815}, True),
    ({"author.name": "literal"}, True),
    ({"author.name": "Ada"}, False),
    ({"author": {"$eq": {"name": "Ada", "born": 1815}}}, True),
    ({"deep.x.y": {"$eq": [1, [2]]}}, True),
    ({"deep.x.y.0": {"$exists": True}}, False),
    ({"status.x": {"$exists": True}}, False),
    ({"": {"$exists": True}}, False),
    # combinations
    ({"status": "Final", "year": 1}, False),
    ({"$and": []}, True),
    ({"$or": []}, False),
    ({"$or": [{"year": 1}, {"year": 2020}]}, True),
    ({"$and": [{"year": 2020}, {"status": "x"}]}, False),
    ({"$not": {"year": 1}}, True),
    ({"$not": {}}, False),
    ({"$not": {"absent": {"$gt": 1}}}, True),
    ({"$or": [{}, {"year": 1}]}, True),
    ({"$and": [{"$or": [{"$not": {"year": 1}}]}], "draft": False}, True),
]


@pytest.mark.parametrize(("condition", "expected"), CASES)
def test_a_filter_matches_as_documented(condition, expected):
    assert matches(parse_filter(condition), ADA) is expected


def test_dates_and_tuples_compare_as_they_are_stored():
    assert matches(parse_filter({"day": datetime.date(2026, 11, 21)}), {"day": "2026-11-21"})
    assert matches(parse_filter({"day": {"$gt": datetime.date(2026, 1, 1)}}), {"day": "2026-11-21"})
    assert matches(parse_filter({"day": {"$in": (datetime.date(2026, 11, 21),)}}), {"day": "2026-11-21"})


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"n": {"$regex": "1"}}, r"'n' has the unknown operator '\$regex'.*\$contains"),
        ({"n": {"$eq": 1, "x": 2}}, "unknown operator 'x'"),
        ({"n": {1: 2}}, "unknown operator 1"),
        ({"n": {}}, "is empty"),
        ({"$nor": []}, r"unknown operator '\$nor' in place of a field"),
        ({"$and": {"n": 1}}, r"\$and takes a list"),
        ({"$or": "n"}, r"\$or takes a list"),
        ({"$not": [{"n": 1}]}, r"\$not takes a mapping"),
        ({"n": {"$in": "abc"}}, "takes a list"),
        ({"n": {"$nin": 5}}, "takes a list"),
        ({"n": {"$exists": 1}}, "True or False"),
        ({"n": float("nan")}, "finite"),
        ({"n": {"$gt": float("inf")}}, "finite"),
        ({"n": {"$in": [1.0, float("nan")]}}, "finite"),
        ({"n": [float("inf")]}, "finite"),
        ({"n": {"$eq": {"x": float("nan")}}}, "finite"),
        ({"n": np.float32("nan")}, "finite"),
        *(({"n": {"$lt": Decimal(number)}}, "finite") for number in ("nan", "snan", "-inf", "1e400")),
        ({1: 2}, "keys must be strings"),
        ({"$and": [None]}, "contains None"),
        ({"$or": ["x"]}, "must be a mapping"),
        ({"n": "\ud800"}, "character that no text contains"),
        ({"n": {"$in": ["a", "b\udfff"]}}, "character that no text contains"),
        ({"n": {"$eq": {"\ud800": 1}}}, "character that no text contains"),
        ({"\ud800": 1}, "character that no text contains"),
        ([("n", 1)], "must be a mapping"),
        ("n", "must be a mapping"),
    ],
)
def test_a_malformed_filter_is_refused_in_one_line(condition, message):
    with pytest.raises(FilterError, match=message) as caught:
        parse_filter(condition)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, AirwError)
    assert isinstance(caught.value, ValueError)


def test_a_parsed_filter_is_a_value_that_can_be_compared_and_parsed_again():
    parsed = parse_filter({"a": 1, "$or": [{"b": 2}, {"$not": {"c": {"$gt": 3}}}]})
    assert parsed == And((Compare("a", "$eq", 1), Or((Compare("b", "$eq", 2), Not(Compare("c", "$gt", 3))))))
    assert parse_filter(parsed) is parsed
    assert parse_filter(None) is None
    assert parse_filter({}) is None


def test_later_changes_of_a_filter_do_not_change_the_parsed_one():
    tags = ["a"]
    parsed = parse_filter({"tags": {"$in": tags}})
    tags.append("b")
    assert not matches(parsed, {"tags": ["b"]})


def test_a_missing_field_differs_from_an_empty_one():
    assert get_field({"a": None}, "a") is None
    assert get_field({"a": {}}, "a.b") is MISSING
    assert get_field({"a": [{"b": 1}]}, "a.b") is MISSING


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5, "", "a", "ab", "1"])
VALUES = SCALARS | st.lists(SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
METADATA = st.dictionaries(st.sampled_from(["a", "b", "a.b"]), VALUES | st.dictionaries(st.just("b"), VALUES))
PATHS = st.sampled_from(["a", "b", "a.b", "c"])
LEAVES = st.one_of(
    st.builds(lambda path, op, value: {path: {op: value}}, PATHS, st.sampled_from(["$eq", "$ne", "$contains"]), VALUES),
    st.builds(
        lambda path, op, value: {path: {op: value}}, PATHS, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), SCALARS
    ),
    st.builds(
        lambda path, op, values: {path: {op: values}},
        PATHS,
        st.sampled_from(["$in", "$nin"]),
        st.lists(VALUES, max_size=3),
    ),
    st.builds(lambda path, flag: {path: {"$exists": flag}}, PATHS, st.booleans()),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: {"$and": parts}),
        st.lists(inner, max_size=3).map(lambda parts: {"$or": parts}),
        inner.map(lambda part: {"$not": part}),
    ),
    max_leaves=5,
)


@given(FILTERS, METADATA)
def test_not_is_the_complement_and_combinations_follow_logic(condition, metadata):
    matches_condition = matches(parse_filter(condition), metadata)
    assert matches(parse_filter({"$not": condition}), metadata) is not matches_condition
    assert matches(parse_filter({"$and": [condition, {}]}), metadata) is matches_condition
    assert matches(parse_filter({"$or": [condition, {"$or": []}]}), metadata) is matches_condition


@given(PATHS, VALUES, METADATA)
def test_negated_operators_are_the_complements_of_their_positives(path, value, metadata):
    assert matches(parse_filter({path: {"$ne": value}}), metadata) is not matches(
        parse_filter({path: {"$eq": value}}), metadata
    )
    assert matches(parse_filter({path: {"$nin": [value]}}), metadata) is not matches(
        parse_filter({path: {"$in": [value]}}), metadata
    )


@given(PATHS, SCALARS, METADATA)
def test_an_order_holds_in_one_direction_or_in_neither(path, value, metadata):
    def matches_condition(op):
        return matches(parse_filter({path: {op: value}}), metadata)

    assert matches_condition("$gte") == (
        matches_condition("$gt") or (matches_condition("$gte") and matches_condition("$lte"))
    )
    assert not (matches_condition("$gt") and matches_condition("$lte"))
    assert not (matches_condition("$gt") and matches_condition("$lt"))


def nest(levels, inner, wrap):
    for _ in range(levels):
        inner = wrap(inner)
    return inner


WRAPS = {
    "not": lambda part: {"$not": part},
    "and": lambda part: {"$and": [part]},
    "or of two": lambda part: {"$or": [part, {"b": 1}]},
    "two fields": lambda part: {"b": 1, "$not": part},
    "not, parsed": Not,
    "and, parsed": lambda part: And((part,)),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=[*WRAPS])
def test_a_filter_may_nest_fifty_levels_deep_and_no_deeper(wrap):
    inner = Compare("a", "$eq", 1) if isinstance(wrap({"a": 1}), Not | And) else {"a": 1}
    parsed = parse_filter(nest(50, inner, wrap))
    assert parse_filter(parsed) is parsed
    assert matches(parsed, {"a": 1}) in {True, False}
    for levels in (120, 400, 100_000):
        with pytest.raises(FilterError, match="nests deeper than 50 levels") as refusal:
            parse_filter(nest(levels, inner, wrap))
        assert len(str(refusal.value)) < 1_000


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"x": value}], ids=["lists", "mappings"])
def test_values_to_compare_with_are_bounded_too(wrap):
    for filter in ({"a": {"$eq": nest(100, 1, wrap)}}, Compare("a", "$eq", nest(10_000, 1, wrap))):
        with pytest.raises(FilterError, match="nests deeper than 50 levels"):
            parse_filter(filter)


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        ({"$or": [{"a": 1}] * 5_001}, "more than 5,000 conditions"),
        ({"a": {"$in": range(1_000_001)}}, "takes a list"),
        ({"a": {"$in": ["x"] * 1_000_001}}, "more than 1,000,000 values"),
        ({"a": 10**5_000}, "thousands of digits"),
        ({"a": {"$in": [-(10**5_000)]}}, "thousands of digits"),
    ],
    ids=["conditions", "a range", "values", "digits", "digits in a list"],
)
def test_the_size_of_a_filter_is_bounded(filter, reason):
    with pytest.raises(FilterError, match=reason) as refusal:
        parse_filter(filter)
    assert len(str(refusal.value)) < 1_000


LONG = "x" * 10_000_000


@pytest.mark.parametrize(
    "filter",
    [
        LONG,
        {"$" + LONG: 1},
        {"$and": LONG},
        {"$not": LONG},
        {LONG: {}},
        {LONG: {"$foo": 1}},
        {LONG: {"$in": LONG}},
        {LONG: {"$exists": LONG}},
        {LONG: float("nan")},
        {"a": {"$" + LONG: 1}},
        {LONG: 10**5_000},
    ],
    ids=range(11),
)
def test_the_message_about_a_filter_of_ten_megabytes_is_short(filter):
    with pytest.raises(FilterError) as refusal:
        parse_filter(filter)
    assert len(str(refusal.value)) < 1_000
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("metadata", [{"a": 1}, {}])
def test_an_unknown_operator_of_a_parsed_filter_is_a_filter_error(metadata):
    with pytest.raises(FilterError, match="unknown operator"):
        matches(Compare("a", "$foo", 1), metadata)
    with pytest.raises(FilterError, match="unknown operator"):
        parse_filter(Not(And((Compare("a", "$foo", 1),))))
