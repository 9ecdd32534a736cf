"""Cases of what a policy is, and of what its methods answer."""

import copy
import json
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from inspect import isfunction
from itertools import islice
from numbers import Real
from typing import Any, cast

import numpy as np

from airw._base.messages import short_repr
from airw.testing._policy_tools import Asked, Examinee, PolicyCase, fact, identity
from airw.testing.exam import expect, expect_equal
from airw.values import Edge, SearchHit
from airw.walking import WalkPolicy

__all__ = ["CASES"]

CASES: list[PolicyCase] = []


@fact(CASES)
async def _every_attribute_and_method_is_there(given: Examinee) -> None:
    parts = {name: part for name, part in vars(WalkPolicy).items() if not name.startswith("_")}
    missing = [name for name in parts if not hasattr(given.policy, name)]
    expect(not missing, f"expected all parts of airw.Policy, got none named {', '.join(missing)}")
    for name in (name for name, part in parts.items() if isfunction(part)):
        expect(callable(getattr(given.policy, name)), f"expected a method {name}, got {getattr(given.policy, name)!r}")
    depth = given.policy.max_depth
    is_depth = depth is None or (isinstance(depth, int) and not isinstance(depth, bool) and depth >= 0)
    expect(is_depth, f"expected max_depth to be None or a whole number of at least 0, got {depth!r}")
    for name in ("keeps_frontier", "scores_paths"):
        said = getattr(given.policy, name)
        expect(isinstance(said, bool), f"expected {name} to be True or False, got {said!r}")


@fact(CASES)
async def _the_query_yields_hits_for_the_other_cases_to_look_at(given: Examinee) -> None:
    walked = await given.walked()
    expect(len(walked.hits) >= 2, f"expected at least 2 hits for {given.query!r}, got {len(walked.hits)}")


@fact(CASES)
async def _a_policy_is_a_frozen_value_that_equals_and_prints_like_its_copy(given: Examinee) -> None:
    policy = given.policy
    twin = copy.copy(policy)
    expect(
        twin == policy,
        f"expected a copy to be equal, got {short_repr(twin)} != {short_repr(policy)}; use a frozen dataclass",
    )
    expect(
        repr(twin) == repr(policy),
        f"expected a copy to print the same, got {short_repr(twin)} and {short_repr(policy)}",
    )
    for name in [*_parts(policy)] or ["max_depth"]:
        try:
            setattr(twin, name, getattr(policy, name))
        except (AttributeError, TypeError):
            continue
        raise AssertionError(f"expected an error from setting {name}, got none; use a frozen dataclass")


@fact(CASES, "factory")
async def _another_policy_made_the_same_way_is_equal_and_walks_the_same(given: Examinee) -> None:
    other = cast("Callable[[], WalkPolicy]", given.make_another)()
    expect(other == given.policy, f"expected equal policies, got {short_repr(other)} and {short_repr(given.policy)}")
    expected = await given.walked()
    expect_equal((await given.walked(policy=other)).told, expected.told, "the walk of another one")


@fact(CASES)
async def _a_walk_leaves_nothing_in_the_policy(given: Examinee) -> None:
    before = repr(given.policy), _picture(given.policy)
    await given.walked()
    await given.walked(node_budget=1)
    after = repr(given.policy), _picture(given.policy)
    expect_equal(after, before, "the policy's own attributes after a walk; what a walk needs goes into state.cache")


def _parts(policy: Any) -> dict[str, Any]:
    """Give what a policy holds by name, whether it has a `__dict__` or slots."""
    named = {each.name: getattr(policy, each.name) for each in fields(policy)} if is_dataclass(policy) else {}
    return {**named, **getattr(policy, "__dict__", {})}


def _picture(value: Any) -> Any:
    """Give a value that changes with a policy, the policies in it and what they hold, but not with their models."""
    if isinstance(value, dict):
        return {short_repr(key): _picture(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_picture(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if callable(getattr(value, "node_id", None)) and callable(getattr(value, "expand", None)):
        return {name: _picture(part) for name, part in _parts(value).items()}
    return repr(value)


@fact(CASES)
async def _a_node_has_the_same_hashable_id_whenever_asked(given: Examinee) -> None:
    first, again = [await _ids(given) for _ in range(2)]
    expect_equal(again, first, "the ids of the nodes discovered in a second walk")


async def _ids(given: Examinee) -> list[Hashable]:
    """Give the ids of all nodes that are scored in a walk, asked for after it."""
    ids: list[Hashable] = []
    for node in [node for call in (await given.watched())[1] if call.method == "score" for node in call.items]:
        id, again = given.policy.node_id(node), given.policy.node_id(node)
        expect(
            id == again and hash(id) == hash(again), f"expected one id for {short_repr(node)}, got {id!r} and {again!r}"
        )
        ids.append(id)
    return ids


@fact(CASES)
async def _score_gives_one_number_a_node_and_never_nan(given: Examinee) -> None:
    def check(call: Asked) -> None:
        if call.method != "score":
            return
        scores = list(islice(call.answer, len(call.items) + 1))
        expect(
            len(scores) == len(call.items),
            f"expected {len(call.items)} scores, one a node, got {short_repr(call.answer)}",
        )
        for node, score in zip(call.items, scores, strict=True):
            is_number = isinstance(score, Real | np.floating | np.integer) and score == score  # noqa: PLR0124 - not NaN
            expect(is_number, f"expected a number for {short_repr(node)}, got {score!r}")

    await given.watch(check)


@fact(CASES)
async def _select_gives_positions_that_are_live(given: Examinee) -> None:
    def check(call: Asked) -> None:
        live = set(call.items) if call.method == "select" else set()
        for position in call.answer if call.method == "select" else ():
            is_whole = isinstance(position, int | np.integer) and not isinstance(position, bool)
            expect(is_whole, f"expected positions, whole numbers, got {position!r}")
            expect(int(position) in live, f"expected only positions of {short_repr(sorted(live))}, got {position}")

    await given.watch(check)


@fact(CASES)
async def _stop_says_true_or_false(given: Examinee) -> None:
    def check(call: Asked) -> None:
        said = call.answer if call.method == "stop" else False
        expect(isinstance(said, bool | np.bool_), f"expected True or False, got {said!r}")

    await given.watch(check)


@fact(CASES)
async def _expand_gives_one_iterable_for_each_node(given: Examinee) -> None:
    def check(call: Asked) -> None:
        if call.method != "expand":
            return
        expect(
            len(call.answer) == len(call.items), f"expected {len(call.items)} iterables, got {short_repr(call.answer)}"
        )
        for found in call.answer:
            is_many = isinstance(found, Iterable | AsyncIterable) and not isinstance(found, str | bytes)
            expect(is_many, f"expected an iterable of nodes, got {short_repr(found)}")

    await given.watch(check)


@fact(CASES)
async def _to_hits_gives_a_hit_or_none_for_each_node(given: Examinee) -> None:
    def check(call: Asked) -> None:
        if call.method != "to_hits":
            return
        expect(
            len(call.answer) == len(call.items), f"expected {len(call.items)} answers, got {short_repr(call.answer)}"
        )
        for hit in call.answer:
            expect(hit is None or isinstance(hit, SearchHit), f"expected a SearchHit or None, got {short_repr(hit)}")

    await given.watch(check)


@fact(CASES)
async def _edge_of_gives_an_edge_or_none_and_a_hit_tells_its_type(given: Examinee) -> None:
    edges: dict[int, Edge | None] = {}

    def check(call: Asked) -> None:
        if call.method != "to_hits":
            return
        for entry, hit in zip(call.items, call.answer, strict=True):
            edge = given.policy.edge_of(entry.node)
            expect(edge is None or isinstance(edge, Edge), f"expected an Edge or None, got {edge!r}")
            edges[id(hit)] = edge

    walked = await given.watch(check)
    for hit in walked.hits:
        edge = edges[id(hit)]
        told, wanted = hit.metadata.get("walk_edge"), None if edge is None else edge.type
        expect(told == wanted, f"expected the walk_edge {wanted!r} at hit {hit.artifact_id!r}, got {told!r}")


@fact(CASES)
async def _a_hit_is_made_of_what_it_says_and_can_be_told_as_json(given: Examinee) -> None:
    for hit in (await given.walked()).hits:
        texts = (hit.artifact_id, hit.surface_kind, hit.text)
        expect(
            all(isinstance(part, str) for part in texts),
            f"expected id, kind and text as strings, got {short_repr(texts)}",
        )
        is_number = isinstance(hit.score, Real | np.floating) and hit.score == hit.score
        expect(is_number, f"expected a number as score of hit {hit.artifact_id!r}, got {hit.score!r}")
        told = json.dumps(hit.to_dict(), allow_nan=False)
        expect(
            " object at 0x" not in told,
            f"expected values, not objects, in hit {hit.artifact_id!r}, got {short_repr(told)}",
        )


@fact(CASES)
async def _rank_orders_the_hits_it_is_given_and_adds_none(given: Examinee) -> None:
    walked, asked = await given.watched()
    state, hits = asked[-1].state, list(walked.hits)
    first, again = (_ranked(given, state, hits) for _ in range(2))
    expect(
        [*map(id, hits)] == [*map(id, walked.hits)], "expected rank to leave the list of hits as it is, got it changed"
    )
    expect(len(first) <= len(hits), f"expected at most the {len(hits)} hits of the walk, got more")
    foreign = {*map(identity, first)} - {*map(identity, hits)}
    expect(not foreign, f"expected hits of the walk only, got {short_repr(foreign)}")
    expect_equal([hit.to_dict() for hit in again], [hit.to_dict() for hit in first], "the ranking, asked for again")


def _ranked(given: Examinee, state: Any, hits: Sequence[SearchHit]) -> list[SearchHit]:
    return list(islice(given.policy.rank(state, hits), len(hits) + 1))


@fact(CASES)
async def _of_the_state_only_the_cache_is_written_to(given: Examinee) -> None:
    def check(call: Asked) -> None:
        expect(
            not call.changed, f"expected {call.method} to leave the state alone, got {', '.join(call.changed)} changed"
        )

    await given.watch(check)
