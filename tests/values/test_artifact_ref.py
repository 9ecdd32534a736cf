"""A node of one of several corpora: one type, equal to a pair."""

import json

import pytest

import airw
from airw._base.json import json_clean
from airw.errors import ArgumentError
from airw.policies import Eager, LinkWalk, ReverseDependency
from airw.values import ArtifactRef, Edge, canonical_node_id

REF = ArtifactRef("notes", "n1")


def test_a_reference_equals_its_pair():
    assert REF == ("notes", "n1")
    assert hash(REF) == hash(("notes", "n1"))
    assert {REF: 1}["notes", "n1"] == 1
    assert repr(REF) == "('notes', 'n1')"
    assert json.loads(json.dumps(REF)) == json_clean(REF) == ["notes", "n1"]
    assert airw.ArtifactRef is ArtifactRef


@pytest.mark.parametrize("given", [("notes", "n1"), REF])
def test_an_edge_converts_pairs_to_references(given):
    for edge in (Edge("a", given, "r"), Edge(given, "a", "r")):
        ends = {type(edge.source), type(edge.target)}
        assert ends == {str, ArtifactRef}
    assert Edge("a", given, "r") == Edge("a", REF, "r")


def test_only_an_edge_from_an_id_to_a_reference_leads_out():
    assert Edge("a", REF, "r").leads_out
    assert not Edge("a", "b", "r").leads_out
    assert not Edge(REF, ArtifactRef("books", "b1"), "r").leads_out


def test_the_canonical_id_is_a_reference_if_there_is_a_source():
    for target, source in (("n1", "notes"), (("notes", "n1"), "books"), (["notes", "n1"], None), (REF, "books")):
        found = canonical_node_id(target, source=source)
        assert found == REF
        assert type(found) is ArtifactRef
    assert canonical_node_id("n1", source=None) == (None, "n1")
    with pytest.raises(ArgumentError, match="a node must be an id or a pair"):
        canonical_node_id(7, source="notes")


def test_policies_convert_pairs_of_callers_to_references():
    for given in (("notes", "n1"), ["notes", "n1"], REF):
        for policy in (Eager(roots=["x", given]), LinkWalk(roots=["x", given])):
            assert policy.roots == ("x", REF)
            assert type(policy.roots[1]) is ArtifactRef
        assert ReverseDependency(seeds=[given, "x"]).seeds == ("x", REF)
