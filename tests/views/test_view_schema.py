"""The published schemas: outputs follow them, and they refuse invalid objects."""

import copy
import json

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus
from airw.links import LinkPath
from airw.values import Edge
from airw.views import NodeView, path_dict, path_schema, tree_schema
from tests.support.drawing import examples
from tests.support.link_corpora import BACKENDS, Graph, bounds, corpus_of, graphs, note, text_of_graph, tree_of, vault

TREE = jsonschema.Draft202012Validator(tree_schema())
PATH = jsonschema.Draft202012Validator(path_schema())


@pytest.mark.parametrize("schema", [tree_schema(), path_schema()])
def test_a_schema_is_valid_and_each_call_returns_a_new_copy(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    schema.clear()
    assert tree_schema()
    assert path_schema()


def objects(schema):
    """Yield every part of a schema that describes an object with named fields."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


@pytest.mark.parametrize("schema", [tree_schema(), path_schema()])
def test_every_object_requires_all_its_fields_and_allows_no_others(schema):
    found = list(objects(schema))
    assert len(found) >= 3
    for part in found:
        assert part["additionalProperties"] is False
        assert set(part["required"]) == set(part["properties"]) - {"weight"}  # which is 1 for most edges


@pytest.mark.parametrize("weight", [0.85, 1])
def test_a_path_over_weighted_edges_follows_the_schema(weight):
    path = LinkPath("a", "b", "both", 10, ("a", "b"), (Edge("a", "b", "shares", "derived", weight),), 1.0)
    printed = path_dict(path, [NodeView("a", None), NodeView("b", None)])
    PATH.validate(printed)
    assert printed["edges"][0].get("weight", 1) == weight


@given(graphs(), st.integers(1, 2), bounds, st.sampled_from(BACKENDS))
@settings(max_examples=examples(40))
def test_every_tree_follows_the_schema(graph, roots, given_bounds, backend):
    printed = text_of_graph(graph, roots, backend, **given_bounds).tree.to_dict()
    TREE.validate(printed)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed


async def test_trees_of_several_corpora_and_with_a_timeout_of_zero_follow_the_schema(tmp_path):
    graph = Graph(2, ((0, 1, "cites", "typed"),))
    async with vault(tmp_path, {"a": note("b", tags="[x]"), "b": note()}) as one, corpus_of(graph) as two:
        both = FederatedCorpus([one, two])
        printed = (await tree_of(both, ("vault", "a.md"), ("graph", "n0"))).to_dict()
        late = (await tree_of(one, "a.md", timeout=0)).to_dict()
    TREE.validate(printed)
    TREE.validate(late)
    assert printed["root"] == ["vault", "a.md"]
    assert (late["root"], late["truncated"], late["unknown"]) == (None, True, ["timeout"])


TOLD = {
    "root": "a", "roots": ["a"], "direction": "both", "max_hops": 1, "truncated": True, "left_out": {"max_hops": 1},
    "at_least": [], "unknown": [],
    "nodes": [
        {"id": "a", "title": None, "type": None, "tags": [], "path": None},
        {"id": "b", "title": "B", "type": "note", "tags": ["x"], "path": "b.md"},
    ],
    "edges": [{"from": "b", "to": "a", "type": "supports", "source": "typed"}],
    "spanning_tree": [{"from": "a", "to": "b", "hop": 1, "type": "supported-by"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("direction",), "sideways"),
        (("max_hops",), -1),
        (("max_hops",), 1.5),
        (("truncated",), False),
        (("truncated",), "true"),
        (("left_out",), {}),
        (("left_out",), {"max_hops": 0}),
        (("left_out",), {"max_depth": 1}),
        (("at_least",), ["max_hops", "max_hops"]),
        (("unknown",), ["nothing"]),
        (("root",), 7),
        (("root",), ["a"]),
        (("root",), ["a", "b", "c"]),
        (("root",), ""),
        (("roots",), ["a", "a"]),
        (("nodes", 0, "tags"), "x"),
        (("nodes", 0, "title"), ""),
        (("nodes", 0, "extra"), 1),
        (("nodes", 0), "a"),
        (("edges", 0, "via"), "c"),
        (("edges", 0, "source"), None),
        (("spanning_tree", 0, "hop"), 0),
        (("spanning_tree", 0, "hop"), 1.5),
        (("extra",), None),
    ],
)
def test_an_invalid_tree_is_refused(place, value):
    TREE.validate(TOLD)
    wrong = copy.deepcopy(TOLD)
    part = wrong
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    assert not TREE.is_valid(wrong)


@pytest.mark.parametrize("name", sorted(TOLD))
def test_every_field_of_a_tree_is_required(name):
    assert not TREE.is_valid({key: value for key, value in TOLD.items() if key != name})


def test_a_tree_that_left_nothing_out_is_not_truncated():
    whole = {**TOLD, "truncated": False, "left_out": {}}
    assert TREE.is_valid(whole)
    assert not TREE.is_valid({**whole, "truncated": True})
    assert TREE.is_valid({**whole, "truncated": True, "unknown": ["timeout"]})
    assert not TREE.is_valid({**whole, "unknown": ["timeout"]})


FOUND = LinkPath("a", ("s", "b"), "both", None, ("a", ("s", "b")), (Edge("a", ("s", "b"), "x"),), 1.5)
HIDDEN = LinkPath("a", "b", "out", 2, left_out={"max_hops": 2}, at_least=("max_hops",))


@pytest.mark.parametrize(
    ("path", "nodes"),
    [
        (FOUND, [NodeView("a", "A"), NodeView(("s", "b"))]),
        (HIDDEN, []),
        (LinkPath("a", "b", "in", 10), []),
        (LinkPath("a", "a", "in", 10, ("a",), (), 0.0), [NodeView("a")]),
    ],
)
def test_every_path_follows_the_schema(path, nodes):
    printed = path_dict(path, nodes)
    PATH.validate(printed)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (HIDDEN, {"found": True}),
        (HIDDEN, {"truncated": False}),
        (HIDDEN, {"reason": None}),
        (HIDDEN, {"path_length": 0}),
        (HIDDEN, {"left_out": {}, "at_least": []}),
        (FOUND, {"found": False}),
        (FOUND, {"reason": "none"}),
        (FOUND, {"cost": None}),
        (FOUND, {"nodes": []}),
        (FOUND, {"notes": []}),
    ],
)
def test_an_invalid_path_is_refused(path, wrong):
    printed = path_dict(path, [NodeView(id) for id in path.nodes])
    assert PATH.is_valid(printed)
    assert not PATH.is_valid({**printed, **wrong})
