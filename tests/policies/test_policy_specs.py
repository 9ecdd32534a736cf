"""A policy becomes JSON, and JSON becomes an equal policy; nothing else does."""

import dataclasses
import json

import pytest

from airw import policies
from airw.errors import ArgumentError, FilterError
from airw.policies.specs import list_policies, name_of, parameters_of, policy_from_spec, policy_spec
from airw.values.filters import parse_filter, to_mapping

NEEDED = {"reverse-dependency": {"seeds": ["a"]}}
SCOPE = policies.Scope(keep={"status": "Final", "year": {"$gte": 2020, "$lt": 2024}}, cross={"$not": {"draft": True}})
POLICIES = [
    *(kind(**NEEDED.get(name, {})) for name, kind in list_policies().items()),
    policies.Beam(width=8, roots=[("notes", "a"), "b"], seeding=["titles", "hybrid"], max_depth=None),
    policies.PersonalizedPageRank(restart=0.25, weighting="score", edges=[("tags", "tags"), ("$id", "parent")]),
    policies.LinkWalk(roots=["a"], types=("cites",), exclude=["x"], weighted=True, scope=SCOPE),
    policies.Mmr(min_mmr_score=0.25, lambda_mult=1.0),
    policies.Eager(scope=policies.Scope.only({"$or": [{"a": 1}, {"b": {"$in": [1, 2]}}]})),
]


@pytest.mark.parametrize("policy", POLICIES, ids=name_of)
def test_a_specification_makes_an_equal_policy(policy):
    spec = policy_spec(policy)
    assert policy_from_spec(json.loads(json.dumps(spec, allow_nan=False))) == policy
    assert policy_spec(policy_from_spec(spec)) == spec


def test_a_specification_has_all_parameters_that_json_can_express():
    for name, kind in list_policies().items():
        params = policy_spec(kind(**NEEDED.get(name, {})))["params"]
        assert set(params) | {"min_mmr_score"} >= {field.name for field in parameters_of(kind)}


@pytest.mark.parametrize("name", [name for name in list_policies() if name not in NEEDED])
def test_a_name_alone_is_the_policy_with_its_defaults(name):
    assert policy_from_spec(name) == list_policies()[name]() == policy_from_spec({"name": name, "params": {}})


class OwnBeam(policies.Beam):
    pass


@pytest.mark.parametrize(
    "policy",
    [
        OwnBeam(),
        policies.Scored(scorer=lambda node: 1.0),
        policies.Eager(edges=lambda record: []),
        policies.Mmr(min_mmr_score=float("inf")),
        object(),
    ],
    ids=["derived", "scorer", "function", "infinite", "object"],
)
def test_what_json_cannot_express_is_an_error(policy):
    with pytest.raises(ArgumentError, match=r"specification|cannot be written as JSON"):
        policy_spec(policy)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("beem", "there is no policy 'beem'; known: beam, "),
        (None, "policy must be a name, or "),
        ([], "policy must be a name, or "),
        ({"params": {}}, "policy must be a name, or "),
        ({"name": "beam", "parms": {}}, "policy must be a name, or "),
        ({"name": ["beam"]}, "there is no policy"),
        ({"name": "Strategy"}, "there is no policy 'Strategy'"),
        ({"name": "beam", "params": []}, "params of policy beam must be an object"),
        ({"name": "beam", "params": {"wdith": 8}}, "policy beam has no parameter 'wdith'; it has seeding, "),
        ({"name": "beam", "params": {"width": "8"}}, "width must be"),
        ({"name": "beam", "params": {"width": 10**400}}, "width must be"),
        ({"name": "beam", "params": {"direction": ["in"]}}, "direction must be"),
        ({"name": "beam", "params": {"direction": {}}}, "direction must be"),
        ({"name": "beam", "params": {"types": "cites"}}, "types must be"),
        ({"name": "beam", "params": {"types": [["cites"]]}}, "types must be"),
        ({"name": "beam", "params": {"roots": [[["a"]]]}}, "roots must be"),
        ({"name": "beam", "params": {"roots": {"a": 1}}}, "roots must be"),
        ({"name": "beam", "params": {"edges": 3}}, "edges must be"),
        ({"name": "beam", "params": {"seeding": [{}]}}, "seeding must be"),
        ({"name": "beam", "params": {"scope": {"kep": {}}}}, "scope takes filters named start, cross or keep"),
        ({"name": "scored", "params": {"scorer": "os.system"}}, "policy scored has no parameter 'scorer'"),
        ({"name": "mmr", "params": {"lambda_mult": float("nan")}}, "lambda_mult must be a finite number"),
        ({"name": "mmr", "params": {"lambda_mult": [1]}}, "lambda_mult must be"),
        ({"name": "reverse-dependency"}, "policy reverse-dependency needs the parameter seeds"),
        ({"name": "x" * 10_000}, "there is no policy 'xxx"),
    ],
)
def test_a_wrong_specification_is_one_line(spec, said):
    with pytest.raises(ArgumentError, match=said) as error:
        policy_from_spec(spec)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_a_wrong_filter_in_a_scope_is_an_error_of_the_filter():
    with pytest.raises(FilterError):
        policy_from_spec({"name": "beam", "params": {"scope": {"keep": {"$nope": 1}}}})


@pytest.mark.parametrize("kind", list_policies().values())
def test_no_parameter_takes_a_value_of_another_type_for_another_error(kind):
    for field in dataclasses.fields(kind):
        for value in ({}, [], [[]], [{}], "", "x", True, None, -1, 0.5, 10**400, [None], {"a": {"b": []}}):
            params = {**NEEDED.get(name_of(kind.__new__(kind)), {}), field.name: value}
            try:
                policy_from_spec({"name": name_of(kind.__new__(kind)), "params": params})
            except (ArgumentError, FilterError):
                continue


@pytest.mark.parametrize(
    "filter",
    [
        None,
        {"a": 1},
        {"a": {"$gt": 1, "$lt": 3}, "b": {"$in": ["x"]}},
        {"$or": [{"a": 1}, {"$not": {"b": {"$exists": True}}}]},
        {"$and": [{"a": {"$gt": 1}}, {"a": {"$gt": 2}}]},
        {"a": {"$eq": {"b": 1}}},
    ],
)
def test_a_parsed_filter_becomes_a_mapping_again(filter):
    parsed = parse_filter(filter)
    assert parse_filter(to_mapping(parsed)) == parsed
