"""The names of typed edges when they are walked against their direction."""

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.values import Edge

PAIRS = [
    ("part-of", "has-part"), ("follows", "precedes"), ("supports", "supported-by"), ("contradicts", "contradicted-by"),
    ("answers", "answered-by"), ("refines", "refined-by"), ("derived-from", "derived-to"), ("alias-of", "has-alias"),
    ("requires", "required-by"), ("mentions", "mentioned-by"), ("NEXT", "PREV"), ("PARENT", "CHILD"),
    ("related", "related"), ("same-as", "same-as"),
]  # fmt: skip
STANDARD = sorted({type for pair in PAIRS for type in pair})
CUSTOM = {"cites": "cited-by", "supports": "held-by", "odd": "inverse-odd", "inverse-x": "x-again"}

unmarked = st.text(max_size=5).filter(lambda text: not text.startswith("inverse-") and text not in STANDARD)
unknown = unmarked | st.builds("inverse-{}".format, unmarked)
names = st.sampled_from([*STANDARD, *CUSTOM, *CUSTOM.values(), "x"])
types = st.builds(str.__add__, st.sampled_from(["", "inverse-", "inverse-inverse-"]), names | st.text(max_size=3))
books = st.sampled_from([INVERSES, Inverses(CUSTOM)]) | st.builds(Inverses, st.dictionaries(names, names, max_size=4))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_standard_names_come_in_pairs(one, other):
    assert (INVERSES.of(one), INVERSES.of(other)) == (other, one)


@given(st.sampled_from(STANDARD) | unknown)
def test_the_inverse_of_the_inverse_is_the_type_itself(type):
    assert INVERSES.of(INVERSES.of(type)) == type


def test_an_unknown_type_is_marked_and_a_marked_one_is_not():
    assert (INVERSES.of("cites"), INVERSES.of("inverse-cites")) == ("inverse-cites", "cites")


@given(books, types, types)
def test_to_returns_exactly_the_types_with_that_inverse(inverses, type, other):
    found = inverses.to(type)
    assert list(found) == sorted(set(found))
    assert all(inverses.of(each) == type for each in found)
    assert (other in found) == (inverses.of(other) == type)
    assert other in inverses.to(inverses.of(other))


@given(books, st.lists(types, max_size=3), types)
def test_to_stored_types_returns_the_types_with_that_name_in_a_direction(inverses, wanted, stored):
    along, against = stored in wanted, inverses.of(stored) in wanted
    expected = {"out": along, "in": against, "both": along or against}
    for direction, is_called_so in expected.items():
        found = inverses.to_stored_types(wanted, direction)
        assert (stored in found) == is_called_so
        assert list(found) == sorted(set(found))


def test_a_custom_inverse_takes_precedence_and_holds_in_one_direction_only():
    inverses = Inverses(CUSTOM)
    assert (inverses.of("supports"), inverses.of("held-by")) == ("held-by", "inverse-held-by")
    assert (inverses.of("supported-by"), inverses.to("supported-by")) == ("supports", ("inverse-supported-by",))
    assert inverses.to("cited-by") == ("cites", "inverse-cited-by")


@pytest.mark.parametrize("ends", [("a", "b"), (("one", "a"), ("two", "a"))])
def test_an_edge_has_its_own_name_at_its_source_and_the_inverse_at_its_target(ends):
    edge = Edge(*ends, "supports")
    assert [INVERSES.name_of(edge, end) for end in ends] == ["supports", "supported-by"]


@pytest.mark.parametrize("names", [None, ["x"], {"x": ""}, {"": "x"}, {"x": None}, {1: "x"}])
def test_a_value_that_does_not_map_types_to_types_is_refused(names):
    with pytest.raises(ArgumentError, match="names must be a mapping"):
        Inverses(names)


def test_later_changes_of_the_mapping_do_not_change_the_inverses():
    given = {"cites": "cited-by"}
    inverses = Inverses(given)
    given.clear()
    assert inverses == Inverses({"cites": "cited-by"}) != INVERSES
    assert hash(inverses) == hash(Inverses({"cites": "cited-by"}))
    with pytest.raises(TypeError):
        inverses.names["x"] = "y"
