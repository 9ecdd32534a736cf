"""Cases of policies: what one is, what its methods answer, what holds of every walk of it, and how it uses a store."""

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, is_dataclass
from inspect import isfunction
from itertools import count, islice
from numbers import Real
from random import Random
from typing import Any, cast

import anyio
import numpy as np

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.testing._policy_tools import (
    ExaminedPolicy,
    FinishedWalk,
    PolicyCall,
    PolicyCase,
    containers,
    generators,
    identity,
    take,
)
from airw.testing.exam import case, expect, expect_equal
from airw.values import Edge, Limits, SearchHit
from airw.walking import Walk, WalkPolicy

CASES: list[PolicyCase] = []

_LARGE_BUDGET = 1_000
_PATH_DEPTH = 64  # down to which a hit tells its whole path
_HANG = 1.5  # seconds that a call of the store hangs when the walk is cancelled
_PROMPT = 1.0  # seconds after which the cancelled walk must be over, on a busy machine too


@case(CASES)
async def _every_attribute_and_method_is_there(given: ExaminedPolicy) -> None:
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


@case(CASES)
async def _the_query_yields_hits_for_the_other_cases_to_look_at(given: ExaminedPolicy) -> None:
    walked = await given.walked()
    expect(len(walked.hits) >= 2, f"expected at least 2 hits for {given.query!r}, got {len(walked.hits)}")


@case(CASES)
async def _a_policy_is_a_frozen_value_that_equals_and_prints_like_its_copy(given: ExaminedPolicy) -> None:
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


@case(CASES, "factory")
async def _another_policy_made_the_same_way_is_equal_and_walks_the_same(given: ExaminedPolicy) -> None:
    other = cast("Callable[[], WalkPolicy]", given.make_another)()
    expect(other == given.policy, f"expected equal policies, got {short_repr(other)} and {short_repr(given.policy)}")
    expected = await given.walked()
    expect_equal((await given.walked(policy=other)).told, expected.told, "the walk of another one")


@case(CASES)
async def _a_walk_leaves_nothing_in_the_policy(given: ExaminedPolicy) -> None:
    before = repr(given.policy), _picture(given.policy)
    await given.walked()
    await given.walked(node_budget=1)
    after = repr(given.policy), _picture(given.policy)
    expect_equal(after, before, "the policy's own attributes after a walk; what a walk needs goes into state.memory")


def _parts(policy: Any) -> dict[str, Any]:
    """Return what a policy holds by name, whether it has a `__dict__` or slots."""
    named = {each.name: getattr(policy, each.name) for each in fields(policy)} if is_dataclass(policy) else {}
    return {**named, **getattr(policy, "__dict__", {})}


def _picture(value: Any) -> Any:
    """Return a value that changes with a policy, the policies in it and what they hold, but not with their models."""
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


@case(CASES)
async def _a_node_has_the_same_hashable_id_whenever_asked(given: ExaminedPolicy) -> None:
    first, again = [await _ids(given) for _ in range(2)]
    expect_equal(again, first, "the ids of the nodes discovered in a second walk")


async def _ids(given: ExaminedPolicy) -> list[Hashable]:
    """Return the ids of all nodes that are scored in a walk, asked for after it."""
    ids: list[Hashable] = []
    for node in [node for call in (await given.watched())[1] if call.method == "score" for node in call.items]:
        id, again = given.policy.node_id(node), given.policy.node_id(node)
        expect(
            id == again and hash(id) == hash(again), f"expected one id for {short_repr(node)}, got {id!r} and {again!r}"
        )
        ids.append(id)
    return ids


@case(CASES)
async def _a_walk_takes_every_answer_as_it_comes(given: ExaminedPolicy) -> None:
    """It refuses what is no answer, and says which method gave it."""
    walked = await given.walked()
    expect(walked.walk.ranking is not None, "expected a ranking of a walk that has ended, got None")


@case(CASES)
async def _edge_of_gives_an_edge_or_none_and_a_hit_tells_its_type(given: ExaminedPolicy) -> None:
    edges: dict[int, Edge | None] = {}

    def check(call: PolicyCall) -> None:
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


@case(CASES)
async def _a_hit_is_made_of_what_it_says_and_can_be_told_as_json(given: ExaminedPolicy) -> None:
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


@case(CASES)
async def _rank_orders_the_hits_it_is_given_and_adds_none(given: ExaminedPolicy) -> None:
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


def _ranked(given: ExaminedPolicy, state: Any, hits: Sequence[SearchHit]) -> list[SearchHit]:
    return list(islice(given.policy.rank(state, hits), len(hits) + 1))


@case(CASES)
async def _of_the_state_only_the_cache_is_written_to(given: ExaminedPolicy) -> None:
    def check(call: PolicyCall) -> None:
        expect(
            not call.changed, f"expected {call.method} to leave the state alone, got {', '.join(call.changed)} changed"
        )

    await given.watch(check)


@case(CASES)
async def _walks_one_after_another_are_the_same(given: ExaminedPolicy) -> None:
    expected = await given.walked()
    for time in ("a second", "a third"):
        expect_equal((await given.walked()).told, expected.told, f"{time} walk")


@case(CASES)
async def _walks_at_the_same_time_are_each_as_one_alone(given: ExaminedPolicy) -> None:
    variants: list[dict[str, Any]] = [{}, {"node_budget": 2}, {"max_depth": 0}, *await _other_queries(given), {}]
    alone = [(await given.walked(**variant)).told for variant in variants]
    for what, found in (
        ("taking turns at hits", await _in_turns([given.start(**variant) for variant in variants])),
        ("in tasks of their own", await _in_tasks([given.start(**variant) for variant in variants])),
    ):
        for variant, told, expected in zip(variants, found, alone, strict=True):
            expect_equal(told, expected, f"a walk {short_repr(variant)} among others, {what}")


async def _other_queries(given: ExaminedPolicy) -> list[dict[str, Any]]:
    """Return the text of a hit as a query, where the policy understands it as one."""
    texts = [hit.text for hit in (await given.walked()).hits[-1:]]
    try:
        return [{"query": text} for text in texts if await given.walked(query=text)]
    except Exception:  # noqa: BLE001 - not every text need be a query
        return []


async def _in_turns(walks: list[Walk]) -> list[Any]:
    hits: dict[int, list[Any]] = {at: [] for at in range(len(walks))}
    waiting = list(hits)
    while waiting:
        for at in list(waiting):
            hit = await anext(walks[at], None)
            waiting.remove(at) if hit is None else hits[at].append(hit)
    return [[hit.to_dict() for hit in found] for found in hits.values()]


async def _in_tasks(walks: list[Walk]) -> list[Any]:
    found: dict[int, FinishedWalk] = {}

    async def run(at: int) -> None:
        found[at] = await take(walks[at])

    with first_error():
        async with anyio.create_task_group() as group:
            for at in range(len(walks)):
                group.start_soon(run, at)
    return [found[at].told for at in range(len(walks))]


@case(CASES)
async def _a_walk_is_the_same_whatever_may_run_at_once(given: ExaminedPolicy) -> None:
    expected = await given.walked()
    for width in (1, 2, 3, 64):
        walked = await given.walked(limits=Limits(max_concurrency=width))
        expect_equal(walked.told, expected.told, f"the walk with max_concurrency={width}")


@case(CASES)
async def _a_walk_of_at_most_n_hits_yields_the_first_n(given: ExaminedPolicy) -> None:
    whole = (await given.walked()).told
    for number in sorted({0, 1, 2, 3, 5, len(whole) // 2, max(len(whole) - 1, 0), len(whole)}):
        walked = await given.walked(limits=Limits(max_hits=number))
        expect_equal(walked.told, whole[:number], f"the walk with max_hits={number}")


@case(CASES)
async def _a_walk_with_a_timeout_yields_a_prefix_of_the_walk_without(given: ExaminedPolicy) -> None:
    whole = (await given.walked()).told
    for seconds in (3_600.0, 0.5, 0.02, 0.01, 0.005, 0.0):
        walked = await given.walked(timeout=seconds, store=given.scripted(delays=0.001)[0] if given.is_corpus else None)
        ended = walked.summary.stop != "timeout"
        expected = whole if ended else whole[: len(walked.told)]
        expect_equal(walked.told, expected, f"the walk with timeout={seconds}, which {'ended' if ended else 'was cut'}")


@case(CASES)
async def _small_bounds_end_a_walk_and_are_no_errors(given: ExaminedPolicy) -> None:
    bounds: list[dict[str, Any]] = [{"node_budget": count} for count in (0, 1, 2, 3)]
    bounds += [{"max_depth": depth} for depth in (0, 1)]
    bounds += [
        {"limits": Limits(**dict[str, Any]({name: count}))}
        for name in ("max_hits", "max_fanout", "max_edges", "max_frontier", "max_concurrency")
        for count in (0, 1, 2)
        if count or name in ("max_hits", "max_fanout", "max_edges")
    ]
    for bound in [*bounds, {"timeout": 0}, {"node_budget": 1, "limits": Limits(max_frontier=1, max_fanout=1)}]:
        walk = given.start(**bound)
        try:
            await take(walk)
        except Exception as error:
            raise AssertionError(f"expected a walk {short_repr(bound)} to end, got {short_repr(error)}") from error


@case(CASES)
async def _a_walk_without_a_depth_cap_goes_round_no_cycle(given: ExaminedPolicy) -> None:
    walked = await given.walked(max_depth=None, node_budget=_LARGE_BUDGET)
    _expect_each_once(walked)
    half = await given.walked(max_depth=None, node_budget=_LARGE_BUDGET // 2)
    grows = len(walked.hits) > len(half.hits) or walked.summary.stop in ("exhausted", "sufficient")
    expect(grows, f"expected the walk to end or to find more, got none in the last {_LARGE_BUDGET // 2} nodes")


@case(CASES)
async def _every_hit_comes_once(given: ExaminedPolicy) -> None:
    _expect_each_once(await given.walked())


def _expect_each_once(walked: FinishedWalk) -> None:
    seen = set()
    for hit in walked.hits:
        expect(identity(hit) not in seen, f"expected each hit once, got {identity(hit)!r} again")
        seen.add(identity(hit))


@case(CASES)
async def _a_hit_says_truly_how_it_was_reached(given: ExaminedPolicy) -> None:
    walked, asked = await given.watched()
    first = [call for call in asked if call.method == "score"][:1]
    seeds = [given.policy.node_id(node) for call in first for node in call.items]
    for hit in walked.hits:
        depth, path = hit.metadata.get("walk_depth"), walked.walk.path(hit)
        who = f"hit {hit.artifact_id!r}"
        expect(depth == len(path) - 1, f"expected the walk_depth of {who} to be {len(path) - 1}, got {depth!r}")
        expect(path[0] in seeds, f"expected the path of {who} to begin at a seed, got {short_repr(path)}")
        parent = path[-2] if depth else None
        told = hit.metadata.get("walk_parent")
        expect(told == parent, f"expected the walk_parent of {who} to be {parent!r}, got {told!r}")
        told = hit.metadata.get("walk_path") if len(path) <= _PATH_DEPTH else path
        expect(told == path, f"expected the walk_path of {who} to be {short_repr(path)}, got {short_repr(told)}")


@case(CASES)
async def _hits_are_fresh_and_share_nothing(given: ExaminedPolicy) -> None:
    walks = [await given.walked() for _ in range(2)]
    owners: dict[int, object] = {}
    for hit in [*walks[0].hits, *walks[1].hits]:
        expect(id(hit) not in owners, f"expected a fresh hit each time, got {hit.artifact_id!r} again")
        for part in (hit, *containers(hit.metadata)):
            other = owners.setdefault(id(part), hit)
            expect(
                other is hit,
                f"expected metadata of its own at hit {hit.artifact_id!r}, got a shared {short_repr(part)}",
            )


@case(CASES)
async def _what_is_done_to_a_hit_changes_no_walk(given: ExaminedPolicy) -> None:
    kept = await given.walked()
    expected, told = kept.told, []
    async with given.start() as walk:
        async for hit in walk:
            told.append(hit.to_dict())
            for part in [*containers(hit.metadata)]:
                part.clear()
            hit.metadata["spoiled"] = True
    expect_equal(told, expected, "the hits of a walk whose earlier hits were changed")
    expect_equal(
        [hit.to_dict() for hit in kept.hits], expected, "the hits of a walk after those of another were changed"
    )
    expect_equal((await given.walked()).told, expected, "a walk after the hits of another were changed")


@case(CASES)
async def _a_walk_leaves_no_task_and_no_iterator_behind(given: ExaminedPolicy) -> None:
    for hits in (0, 1, None):
        before = {task.id for task in anyio.get_running_tasks()}
        with generators() as begun:
            async with given.start() as walk:
                taken = 0
                while taken != hits and await anext(walk, None) is not None:
                    taken += 1
        where = "at its end" if hits is None else f"closed after {hits} hits"
        tasks = [task for task in anyio.get_running_tasks() if task.id not in before]
        still_open = [each for each in begun if getattr(each, "ag_frame", None) is not None]
        for each in still_open:
            await each.aclose()
        expect(not tasks, f"expected no task left by a walk {where}, got {', '.join(str(task.name) for task in tasks)}")
        expect(
            not still_open,
            f"expected every async generator of a walk {where} to be closed, got {short_repr(still_open)}",
        )


@case(CASES, "corpus")
async def _a_walk_is_the_same_however_long_the_store_takes_to_answer(given: ExaminedPolicy) -> None:
    expected = await given.walked()
    for number in range(4):
        chance = Random(number)  # noqa: S311 - nothing secret
        store, _ = given.scripted(delays=lambda: chance.choice((0.0, 0.0, 0.0003, 0.001, 0.002)))  # noqa: B023 - used here
        expect_equal((await given.walked(store=store)).told, expected.told, "the walk over a store that answers late")


async def _moments(given: ExaminedPolicy) -> list[tuple[str, int]]:
    """Return the first and the last call of each method of the store in a walk, by its number."""
    corpus, store = given.scripted()
    await given.walked(store=corpus)
    return [(method, at) for method, count in store.calls.items() for at in sorted({1, count})]


@case(CASES, "corpus")
async def _an_error_of_the_store_ends_the_walk_as_itself(given: ExaminedPolicy) -> None:
    whole = (await given.walked()).told
    for method, at in await _moments(given):
        error = StoreError("a scripted failure")
        corpus, _ = given.scripted(failures={method: [*[None] * (at - 1), error]})
        what = f"the error of call {at} of {method}"
        walk, told = given.start(store=corpus), []
        got: Exception | None = None
        try:
            async for hit in walk:
                told.append(hit.to_dict())  # noqa: PERF401 - what came before the error counts
        except Exception as raised:  # noqa: BLE001 - which one is the question
            got = raised
        expect(got is error, f"expected {what} as itself, got {short_repr(got) if got else 'no error'}")
        expect_equal(told, whole[: len(told)], f"the hits before {what}")


@case(CASES, "corpus")
async def _a_cancelled_walk_ends_at_once_though_the_store_hangs(given: ExaminedPolicy) -> None:
    for method, at in await _moments(given):
        begun = anyio.Event()
        corpus, store = given.scripted(delays={method: _hang(at, begun)})
        walk, what = given.start(store=corpus), f"a walk cancelled in call {at} of {method}"
        was_caught, seconds = await _cancelled(walk, begun)
        expect(was_caught, f"expected {what} to let the cancellation through, got it swallowed")
        expect(seconds < _PROMPT, f"expected {what} to end within {_PROMPT:g} s, got {seconds:.2f} s")
        expect(store.running == 0, f"expected no call to outlive {what}, got {store.running}")


def _hang(at: int, begun: anyio.Event) -> Callable[[], float]:
    """Return delays of which the `at`-th is long, and says so."""
    calls = count(1)

    def delay() -> float:
        if next(calls) != at:
            return 0.0
        begun.set()
        return _HANG

    return delay


async def _cancelled(walk: Walk, begun: anyio.Event) -> tuple[bool, float]:
    """Cancel a walk when `begun` is set: whether the cancellation came through, and the seconds that it took."""
    scope, times = anyio.CancelScope(), [math.inf]

    async def cancel() -> None:
        await begun.wait()
        times.append(anyio.current_time())
        scope.cancel()

    with first_error():
        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            with scope:
                async for _ in walk:
                    pass
            group.cancel_scope.cancel()
    return scope.cancelled_caught, anyio.current_time() - times[-1]


@case(CASES, "corpus", "max_calls")
async def _a_step_takes_few_calls_of_the_store(given: ExaminedPolicy) -> None:
    _, asked = await given.watched()
    steps: list[Counter[str]] = [Counter()]
    for call in asked:
        if call.method == "expand":
            steps.append(Counter())
        if call.method != "seed":
            steps[-1] += call.calls
    worst = max(steps, key=Counter.total)
    most = given.max_calls or 0
    expect(
        worst.total() <= most, f"expected at most {most} calls in a step after the seeds are there, got {dict(worst)}"
    )


@case(CASES, "corpus", "max_calls")
async def _more_nodes_in_a_step_take_no_more_calls_of_the_store(given: ExaminedPolicy) -> None:
    narrow, wide = [_most_calls((await given.watched(limits=limits))[1]) for limits in (Limits(max_frontier=2), None)]
    for (asked, method), number in wide.items():
        most = max(narrow[asked, method], 1)
        expect(
            number <= most,
            f"expected {asked} to call {method} at most {most} times whatever the number of nodes, got {number}",
        )


def _most_calls(asked: list[PolicyCall]) -> Counter[tuple[str, str]]:
    """Return by method of the policy and of the store the most calls that one call made."""
    most: Counter[tuple[str, str]] = Counter()
    for call in asked:
        for method, number in call.calls.items():
            most[call.method, method] = max(most[call.method, method], number)
    return most
