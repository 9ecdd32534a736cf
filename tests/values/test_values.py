"""The values: identities that never collide, and a form that is always valid JSON."""

import datetime
import enum
import json
import uuid
from dataclasses import FrozenInstanceError, fields
from pathlib import PurePosixPath
from types import MappingProxyType

import anyio
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw import Selection, disclose, select
from airw._base.json import json_clean
from airw.errors import ArgumentError
from airw.values import Artifact, Edge, Record, SearchHit, Surface, check_hit


class Colour(enum.Enum):
    RED = "red"


@given(st.tuples(st.text(), st.text(), st.integers(0, 99)), st.tuples(st.text(), st.text(), st.integers(0, 99)))
def test_record_ids_are_equal_exactly_if_all_three_parts_are(one, other):
    assert (Record.make_id(*one) == Record.make_id(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a\u241fb", "c", 0), ("a", "b\u241fc", 0)),
        (("a", "b1", 0), ("a", "b", 10)),
        (("1:a", "b", 0), ("1", ":ab", 0)),
        (("ab", "", 0), ("a", "b", 0)),
        (("é", "k", 0), ("e\u0301", "k", 0)),
    ],
)
def test_separators_in_a_part_never_make_two_record_ids_equal(one, other):
    assert Record.make_id(*one) != Record.make_id(*other)


def test_record_ids_are_those_of_every_earlier_version():
    assert Record.make_id("a.md", "chunk", 0) == "b86931bf364215e1e93dd62a"


def test_a_vector_in_place_of_the_metadata_is_an_error_in_one_line():
    for wrong in (np.ones(2, np.float32), [0.5], None, "text"):
        with pytest.raises(ArgumentError, match=r"^Record.metadata must be a mapping, not .*; pass vectors to"):
            Record("i", "a", "k", 0, "t", wrong)


def test_records_do_not_share_default_metadata():
    one, other = Record("i", "a", "k", 0, "t"), Record("i", "a", "k", 0, "t")
    assert one == other
    assert one.metadata == {}
    assert one.metadata is not other.metadata
    assert Record("i", "a", "k", 0, "t", metadata=(given := MappingProxyType({"x": 1}))).metadata is given


def test_an_id_that_is_no_valid_file_name_has_a_record_id():
    assert len(Record.make_id("\ud800", "chunk", 0)) == 24
    assert len(Record.make_id("x" * 10_000 + "/../🦊", "chunk", 0)) == 24


def test_the_pointer_is_the_skill_path_or_the_path_or_none():
    assert SearchHit("a", "k", 1.0, "", {"path": "/p", "skill_path": "/s"}).pointer == "/s"
    assert SearchHit("a", "k", 1.0, "", {"path": "/p", "skill_path": ""}).pointer == "/p"
    assert SearchHit("a", "k", 1.0, "", {"path": ""}).pointer is None
    assert SearchHit("a", "k", 1.0, "").pointer is None


def test_the_identity_of_a_hit_is_its_source_and_id():
    assert SearchHit("a", "k", 1.0, "").key == (None, "a")
    assert SearchHit("a", "k", 1.0, "", source="s").key == ("s", "a")


def test_a_hit_as_a_dict_has_seven_fields_in_order():
    hit = SearchHit("a", "chunk", 0.5, "text", {"n": 1}, "s", 3)
    assert list(hit.to_dict().items()) == [
        ("artifact_id", "a"),
        ("surface_kind", "chunk"),
        ("score", 0.5),
        ("text", "text"),
        ("metadata", {"n": 1}),
        ("source", "s"),
        ("surface_index", 3),
    ]


def test_a_hit_as_a_dict_shares_nothing_with_the_hit():
    hit = SearchHit("a", "chunk", 0.5, "text", {"tags": ["x"]})
    hit.to_dict()["metadata"]["tags"].append("y")
    assert hit.metadata == {"tags": ["x"]}


def test_a_hit_with_numpy_numbers_or_an_infinite_score_becomes_json():
    hit = SearchHit("a", "chunk", np.float32("inf"), "", {"v": np.arange(2)}, surface_index=np.int64(4))
    assert json.dumps(hit.to_dict(), allow_nan=False)
    assert hit.to_dict()["score"] is None
    assert type(hit.to_dict()["surface_index"]) is int


def test_hits_of_one_walk_do_not_share_their_metadata():
    one, other = SearchHit("a", "k", 1.0, ""), SearchHit("b", "k", 1.0, "")
    one.metadata["x"] = 1
    assert other.metadata == {}


@pytest.mark.parametrize("value", [Artifact("a", "raw"), Surface("a", "k", "t"), Edge("a", "b", "t")])
def test_values_cannot_be_changed(value):
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, "b")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.float64("nan"), None),
        (float("-inf"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),  # noqa: FBT003
        (np.str_("x"), "x"),
        (np.array([[1.0, float("nan")]]), [[1.0, None]]),
        (np.array(5), 5),
        (np.datetime64("2026-11-21"), "2026-11-21"),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1: {None: ()}}, {"1": {"None": []}}),
        (datetime.datetime(2026, 11, 21, 5, 30, tzinfo=datetime.UTC), "2026-11-21T05:30:00+00:00"),
        (datetime.time(5, 30), "05:30:00"),
        (PurePosixPath("/a/b"), "/a/b"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "Colour.RED"),
    ],
)
def test_a_value_becomes_valid_json(value, expected):
    cleaned = json_clean(value)
    assert cleaned == expected
    assert type(cleaned) is type(expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json_values_stay_equal_in_fresh_containers(value):
    cleaned = json_clean(value)
    assert cleaned == value
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == value
    if isinstance(value, list | dict):
        assert cleaned is not value


ODD = st.recursive(
    st.floats() | st.binary() | st.dates() | st.complex_numbers() | st.decimals() | st.integers(),
    lambda inner: st.tuples(inner, inner) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(ODD)
def test_the_result_for_any_value_is_json_and_cleaning_it_again_changes_nothing(value):
    cleaned = json_clean(value)
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == cleaned
    assert json_clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("artifact_id", 1),
        ("surface_kind", None),
        ("score", "high"),
        ("score", True),
        ("score", 10**400),
        ("text", None),
        ("metadata", []),
        ("source", 1),
        ("surface_index", 0.5),
    ],
)
def test_a_hit_with_a_field_of_another_type_is_named(field, value):
    hit = SearchHit(**{"artifact_id": "a", "surface_kind": "chunk", "score": 1, "text": "x", field: value})
    with pytest.raises(ArgumentError, match=f"{field} of a hit must"):
        check_hit(hit)
    for call in (
        lambda: select([hit]),
        lambda: anyio.run(disclose, Selection([hit], [hit], abstained=False, reason="x")),
    ):
        with pytest.raises(ArgumentError, match=f"{field} of a hit must"):
            call()


def test_metadata_of_a_hit_may_nest_a_hundred_levels():
    metadata = {"a": 1}
    for _ in range(99):
        metadata = {"a": metadata}
    check_hit(SearchHit("a", "chunk", 1, "x", metadata))
    with pytest.raises(ArgumentError, match="metadata of a hit must not nest deeper than 100 levels"):
        check_hit(SearchHit("a", "chunk", 1, "x", {"a": metadata}))
