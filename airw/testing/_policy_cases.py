"""Cases of policies: their attributes and answers, their walks, their use of the store."""

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import isfunction
from itertools import count, islice
from numbers import Real
from random import Random
from typing import Any, cast

import anyio
import numpy as np

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import StoreError, WalkNotExtendable
from airw.testing._policy_tools import (
    FinishedWalk,
    PolicyCall,
    PolicyCase,
    PolicyFixture,
    collect_hits,
    containers,
    hit_key,
    track_generators,
)
from airw.testing.exam import case, expect, expect_equal
from airw.testing.scripted import Asked
from airw.values import Edge, Limits, SearchHit
from airw.values.hits import get_fact
from airw.walking import Walk, WalkPolicy, WalkSummary

CASES: list[PolicyCase] = []

_LARGE_BUDGET = 1_000
_PATH_DEPTH = 64  # hits below this depth have no `walk_path`
_HANG = 1.5  # seconds that a call of the store hangs when the walk is cancelled
_MOST_PARTS = 30  # of a walk that deadlines interrupt
_PART = 0.05  # seconds of each of them
_MAX_DELAY = 1.0  # seconds until the cancelled walk must have ended; long enough for a busy machine


@case(CASES, promise="All attributes and methods of `airw.Policy` exist and have valid values.")
async def _every_attribute_and_method_is_there(fixture: PolicyFixture) -> None:
    parts = {name: part for name, part in vars(WalkPolicy).items() if not name.startswith("_")}
    missing = [name for name in parts if not hasattr(fixture.policy, name)]
    expect(not missing, f"expected all attributes of airw.Policy, got none named {', '.join(missing)}")
    for name, part in parts.items():
        own = getattr(fixture.policy, name)
        expect(callable(own) or not isfunction(part), f"expected a method {name}, got {own!r}")
    depth = fixture.policy.max_depth
    is_depth = depth is None or (isinstance(depth, int) and not isinstance(depth, bool) and depth >= 0)
    expect(is_depth, f"expected max_depth to be None or a whole number of at least 0, got {depth!r}")
    for name in ("keeps_frontier", "scores_paths"):
        flag = getattr(fixture.policy, name)
        expect(isinstance(flag, bool), f"expected {name} to be True or False, got {flag!r}")


@case(CASES, promise="The query has at least two hits, which the other cases need.")
async def _the_query_yields_hits_for_the_other_cases_to_look_at(fixture: PolicyFixture) -> None:
    walked = await fixture.run_walk()
    expect(len(walked.hits) >= 2, f"expected at least 2 hits for {fixture.query!r}, got {len(walked.hits)}")


@case(CASES, promise="A policy cannot be changed, and a copy of it is equal and prints the same.")
async def _a_policy_is_a_frozen_value_that_equals_and_prints_like_its_copy(fixture: PolicyFixture) -> None:
    policy = fixture.policy
    twin = copy.copy(policy)
    expect_equal(twin, policy, "a copy (use a frozen dataclass)")
    expect_equal(repr(twin), repr(policy), "what a copy prints")
    for name in [*_attributes(policy)] or ["max_depth"]:
        try:
            setattr(twin, name, getattr(policy, name))
        except (AttributeError, TypeError):
            continue
        raise AssertionError(f"expected an error from setting {name}, got none; use a frozen dataclass")


@case(CASES, "factory", promise="A second policy made by the same function is equal and walks the same.")
async def _another_policy_made_the_same_way_is_equal_and_walks_the_same(fixture: PolicyFixture) -> None:
    other = cast("Callable[[], WalkPolicy]", fixture.make_another)()
    expect_equal(other, fixture.policy, "another policy")
    await _walk_alike(fixture, {"of another policy": {"policy": other}})


async def _walk_alike(fixture: PolicyFixture, walks: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that walks with options, by what they are called, have the hits of one without."""
    expected = (await fixture.run_walk()).hit_dicts
    for name, options in walks.items():
        expect_equal((await fixture.run_walk(**options)).hit_dicts, expected, f"the walk {name}")


@case(CASES, promise="A walk does not change the attributes of the policy.")
async def _a_walk_leaves_nothing_in_the_policy(fixture: PolicyFixture) -> None:
    before = repr(fixture.policy), _to_plain(fixture.policy)
    await fixture.run_walk()
    await fixture.run_walk(node_budget=1)
    after = repr(fixture.policy), _to_plain(fixture.policy)
    expect_equal(after, before, "attributes of the policy after a walk (keep the data of a walk in state.memory)")


def _attributes(policy: Any) -> dict[str, Any]:
    """Return the attributes of a policy by name, whether it has a `__dict__` or slots."""
    declared = {field.name: getattr(policy, field.name) for field in fields(policy)} if is_dataclass(policy) else {}
    return {**declared, **getattr(policy, "__dict__", {})}


def _to_plain(value: Any) -> Any:
    """Return values to compare: the attributes of a policy and of the policies inside it.

    Other objects, such as models, are compared by their `repr`, since their own state may change.
    """
    if isinstance(value, dict):
        return {short_repr(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if callable(getattr(value, "node_id", None)) and callable(getattr(value, "expand", None)):
        return {name: _to_plain(part) for name, part in _attributes(value).items()}
    return repr(value)


@case(CASES, promise="`node_id` returns the same hashable id whenever it is called with a node.")
async def _a_node_has_the_same_hashable_id_whenever_asked(fixture: PolicyFixture) -> None:
    first, again = [await _ids(fixture) for _ in range(2)]
    expect_equal(again, first, "the ids of the nodes discovered in a second walk")


async def _ids(fixture: PolicyFixture) -> list[Hashable]:
    """Return the ids of all nodes that a walk scores, computed after the walk."""
    ids: list[Hashable] = []
    calls = [call for call in (await fixture.record_walk())[1] if call.method == "score"]
    for node in [node for call in calls for node in call.items]:
        id, again = fixture.policy.node_id(node), fixture.policy.node_id(node)
        is_same = id == again and hash(id) == hash(again)
        expect(is_same, f"expected one id for {short_repr(node)}, got {id!r} and {again!r}")
        ids.append(id)
    return ids


@case(CASES, promise="Every method returns values that a walk accepts.")
async def _a_walk_takes_every_answer_as_it_comes(fixture: PolicyFixture) -> None:
    # The walk itself raises an error that names the method if it gets anything else.
    walked = await fixture.run_walk()
    expect(walked.walk.ranking is not None, "expected a ranking after the end of the walk, got None")


@case(CASES, promise="`edge_of` returns an `Edge` or `None`, and the metadata of a hit contain the type of that edge.")
async def _edge_of_gives_an_edge_or_none_and_a_hit_tells_its_type(fixture: PolicyFixture) -> None:
    edges: dict[int, Edge | None] = {}

    def check(call: PolicyCall) -> None:
        if call.method != "to_hits":
            return
        for committed, hit in zip(call.items, call.answer, strict=True):
            edge = fixture.policy.edge_of(committed.node)
            expect(edge is None or isinstance(edge, Edge), f"expected an Edge or None, got {edge!r}")
            edges[id(hit)] = edge

    walked = await fixture.observe_walk(check)
    for hit in walked.hits:
        if id(hit) not in edges:
            continue
        edge = edges[id(hit)]
        edge_type = None if edge is None else edge.type
        stated = get_fact(hit.metadata, "walk_edge")
        expect_equal(stated, edge_type, f"walk_edge of hit {hit.artifact_id!r}")


@case(CASES, promise="A hit has a string id, kind and text and a numeric score, and JSON can represent it.")
async def _a_hit_is_made_of_what_it_says_and_can_be_told_as_json(fixture: PolicyFixture) -> None:
    for hit in (await fixture.run_walk()).hits:
        texts = (hit.artifact_id, hit.surface_kind, hit.text)
        are_texts = all(isinstance(part, str) for part in texts)
        expect(are_texts, f"expected id, kind and text as strings, got {short_repr(texts)}")
        is_number = isinstance(hit.score, Real | np.floating) and hit.score == hit.score
        expect(is_number, f"expected a number as the score of hit {hit.artifact_id!r}, got {hit.score!r}")
        text = json.dumps(hit.to_dict(), allow_nan=False)
        expect(
            " object at 0x" not in text,
            f"expected JSON values in hit {hit.artifact_id!r}, got {short_repr(text)}",
        )


@case(
    CASES, promise="`rank` returns hits of the walk in an order, adds none, and does not change the list it is passed."
)
async def _rank_orders_the_hits_it_is_given_and_adds_none(fixture: PolicyFixture) -> None:
    walked, calls = await fixture.record_walk()
    state, hits = calls[-1].state, list(walked.hits)
    first, again = (_rank(fixture, state, hits) for _ in range(2))
    expect([*map(id, hits)] == [*map(id, walked.hits)], "expected rank not to change the list of hits, got it changed")
    expect(len(first) <= len(hits), f"expected at most the {len(hits)} hits of the walk, got more")
    foreign = {*map(hit_key, first)} - {*map(hit_key, hits)}
    expect(not foreign, f"expected hits of the walk only, got {short_repr(foreign)}")
    expect_equal([hit.to_dict() for hit in again], [hit.to_dict() for hit in first], "the ranking, computed again")


def _rank(fixture: PolicyFixture, state: Any, hits: Sequence[SearchHit]) -> list[SearchHit]:
    return list(islice(fixture.policy.rank(state, hits), len(hits) + 1))


@case(CASES, promise="A policy changes no part of the state except its own memory.")
async def _of_the_state_only_the_cache_is_written_to(fixture: PolicyFixture) -> None:
    def check(call: PolicyCall) -> None:
        expect(
            not call.changed, f"expected {call.method} not to change the state, got {', '.join(call.changed)} changed"
        )

    await fixture.observe_walk(check)


@case(CASES, promise="Walks one after another yield the same hits.")
async def _walks_one_after_another_are_the_same(fixture: PolicyFixture) -> None:
    await _walk_alike(fixture, {"that is the second": {}, "that is the third": {}})


@case(CASES, promise="Walks at the same time do not influence each other.")
async def _walks_at_the_same_time_are_each_as_one_alone(fixture: PolicyFixture) -> None:
    variants: list[dict[str, Any]] = [{}, {"node_budget": 2}, {"max_depth": 0}, *await _other_queries(fixture), {}]
    alone = [(await fixture.run_walk(**variant)).hit_dicts for variant in variants]
    for how, together in (
        ("one hit of each walk in turn", await _run_in_turns([fixture.start(**variant) for variant in variants])),
        ("one task per walk", await _run_in_tasks([fixture.start(**variant) for variant in variants])),
    ):
        for variant, hits, expected in zip(variants, together, alone, strict=True):
            expect_equal(hits, expected, f"a walk {short_repr(variant)} at the same time as others, {how}")


async def _other_queries(fixture: PolicyFixture) -> list[dict[str, Any]]:
    """Return options with the text of a hit as the query, if the policy accepts it."""
    texts = [hit.text for hit in (await fixture.run_walk()).hits[-1:]]
    try:
        return [{"query": text} for text in texts if await fixture.run_walk(query=text)]
    except Exception:  # noqa: BLE001 - a policy need not accept any text
        return []


async def _run_in_turns(walks: list[Walk]) -> list[Any]:
    hits: list[list[Any]] = [[] for _ in walks]
    unfinished = [*zip(walks, hits, strict=True)]
    while unfinished:
        for walk, own in [*unfinished]:
            hit = await anext(walk, None)
            if hit is None:
                unfinished.remove((walk, own))
            else:
                own.append(hit)
    return [[hit.to_dict() for hit in own] for own in hits]


async def _run_in_tasks(walks: list[Walk]) -> list[Any]:
    hits: dict[Walk, Any] = dict.fromkeys(walks)

    async def run(walk: Walk) -> None:
        hits[walk] = (await collect_hits(walk)).hit_dicts

    with first_error():
        async with anyio.create_task_group() as group:
            for walk in walks:
                group.start_soon(run, walk)
    return [*hits.values()]


@case(CASES, promise="`max_concurrency` does not change the hits of a walk.")
async def _a_walk_is_the_same_whatever_may_run_at_once(fixture: PolicyFixture) -> None:
    limits = {f"with max_concurrency={width}": Limits(max_concurrency=width) for width in (1, 2, 3, 64)}
    await _walk_alike(fixture, {name: {"limits": own} for name, own in limits.items()})


@case(CASES, promise="A walk with `max_hits=n` yields the first n hits of the walk without it.")
async def _a_walk_of_at_most_n_hits_yields_the_first_n(fixture: PolicyFixture) -> None:
    whole = (await fixture.run_walk()).hit_dicts
    for number in sorted({0, 1, 2, 3, 5, len(whole) // 2, max(len(whole) - 1, 0), len(whole)}):
        walked = await fixture.run_walk(limits=Limits(max_hits=number))
        expect_equal(walked.hit_dicts, whole[:number], f"the walk with max_hits={number}")


@case(CASES, promise="A walk with a timeout yields the first hits of the walk without it.")
async def _a_walk_with_a_timeout_yields_a_prefix_of_the_walk_without(fixture: PolicyFixture) -> None:
    whole = (await fixture.run_walk()).hit_dicts
    for seconds in (3_600.0, 0.5, 0.02, 0.01, 0.005, 0.0):
        store = fixture.with_scripted_store(delays=0.001)[0] if fixture.is_corpus else None
        walked = await fixture.run_walk(timeout=seconds, store=store)
        stop = walked.summary.stop
        expected = whole[: len(walked.hit_dicts)] if stop == "timeout" else whole
        expect_equal(walked.hit_dicts, expected, f"the walk with timeout={seconds}, which ended by {stop}")


@case(CASES, "corpus", promise="A walk that deadlines interrupt and that goes on yields the hits of one walk.")
async def _a_walk_that_goes_on_after_deadlines_is_as_one_without(fixture: PolicyFixture) -> None:
    expected = (await fixture.run_walk()).hit_dicts
    hits: list[dict[str, Any]] = []
    cancelled: set[str] = set()
    is_last_part = False

    def delay() -> float:
        # Each call hangs when it is made first, until the deadline of the part cancels it.
        call = repr(store.log[-1])
        if call in cancelled or is_last_part:
            return 0.0
        cancelled.add(call)
        return _HANG

    corpus, store = fixture.with_scripted_store(delays=delay)
    walk = fixture.start(store=corpus, timeout=_PART)
    try:
        for _ in range(_MOST_PARTS):
            hits += [hit.to_dict() async for hit in walk]
            summary = cast("WalkSummary", walk.summary)
            if summary.stop != "timeout":
                break
            walk.extend(timeout=summary.seconds + _PART)
        is_last_part = True
        hits += [hit.to_dict() async for hit in walk.extend(timeout=None)]
    except WalkNotExtendable:  # the policy says that this call cannot be repeated
        expected = expected[: len(hits)]
    expect_equal(hits, expected, f"the walk in parts of {_PART:g} s")


@case(CASES, promise="Small budgets and limits end a walk without an error.")
async def _small_bounds_end_a_walk_and_are_no_errors(fixture: PolicyFixture) -> None:
    bounds: list[dict[str, Any]] = [{"node_budget": count} for count in (0, 1, 2, 3)]
    bounds += [{"max_depth": depth} for depth in (0, 1)]
    bounds += [
        {"limits": Limits(**dict[str, Any]({name: count}))}
        for name in ("max_hits", "max_fanout", "max_edges", "max_frontier", "max_concurrency")
        for count in (0, 1, 2)
        if count or name in ("max_hits", "max_fanout", "max_edges")
    ]
    for bound in [*bounds, {"timeout": 0}, {"node_budget": 1, "limits": Limits(max_frontier=1, max_fanout=1)}]:
        walk = fixture.start(**bound)
        try:
            await collect_hits(walk)
        except Exception as error:
            raise AssertionError(f"expected a walk {short_repr(bound)} to end, got {short_repr(error)}") from error


@case(CASES, promise="A walk without a depth cap does not go round in a cycle.")
async def _a_walk_without_a_depth_cap_goes_round_no_cycle(fixture: PolicyFixture) -> None:
    walked = await fixture.run_walk(max_depth=None, node_budget=_LARGE_BUDGET)
    _expect_no_duplicates(walked)
    # A policy that goes round without repeating hits spends its budget and finds nothing new.
    half = await fixture.run_walk(max_depth=None, node_budget=_LARGE_BUDGET // 2)
    grows = len(walked.hits) > len(half.hits) or walked.summary.stop in ("exhausted", "sufficient")
    expect(grows, f"expected the walk to end or to yield more hits, got none in the last {_LARGE_BUDGET // 2} nodes")


@case(CASES, promise="No hit comes twice.")
async def _every_hit_comes_once(fixture: PolicyFixture) -> None:
    _expect_no_duplicates(await fixture.run_walk())


def _expect_no_duplicates(walked: FinishedWalk) -> None:
    seen = set()
    for hit in walked.hits:
        expect(hit_key(hit) not in seen, f"expected each hit once, got {hit_key(hit)!r} again")
        seen.add(hit_key(hit))


@case(CASES, promise="The depth, parent and path in the metadata of a hit are correct.")
async def _a_hit_says_truly_how_it_was_reached(fixture: PolicyFixture) -> None:
    walked, calls = await fixture.record_walk()
    first = [call for call in calls if call.method == "score"][:1]
    seeds = [fixture.policy.node_id(node) for call in first for node in call.items]
    for hit in walked.hits:
        depth, path = get_fact(hit.metadata, "walk_depth"), walked.walk.path(hit)
        name = f"hit {hit.artifact_id!r}"
        expect_equal(depth, len(path) - 1, f"the walk_depth of {name}")
        expect(path[0] in seeds, f"expected the path of {name} to begin at a seed, got {short_repr(path)}")
        parent = path[-2] if depth else None
        expect_equal(get_fact(hit.metadata, "walk_parent"), parent, f"the walk_parent of {name}")
        if len(path) <= _PATH_DEPTH:
            expect_equal(get_fact(hit.metadata, "walk_path"), path, f"the walk_path of {name}")


@case(CASES, promise="Each hit is a new object, and no two hits share a dict, list or set.")
async def _hits_are_fresh_and_share_nothing(fixture: PolicyFixture) -> None:
    walks = [await fixture.run_walk() for _ in range(2)]
    owners: dict[int, object] = {}
    for hit in [*walks[0].hits, *walks[1].hits]:
        expect(id(hit) not in owners, f"expected a new hit each time, got {hit.artifact_id!r} again")
        for part in (hit, *containers(hit.metadata)):
            other = owners.setdefault(id(part), hit)
            expect(
                other is hit,
                f"expected metadata that only hit {hit.artifact_id!r} has, got a shared {short_repr(part)}",
            )


@case(CASES, promise="Changing a hit changes neither other hits nor other walks.")
async def _what_is_done_to_a_hit_changes_no_walk(fixture: PolicyFixture) -> None:
    earlier = await fixture.run_walk()
    expected, hit_dicts = earlier.hit_dicts, []
    async with fixture.start() as walk:
        async for hit in walk:
            hit_dicts.append(hit.to_dict())
            for part in [*containers(hit.metadata)]:
                part.clear()
            hit.metadata["spoiled"] = True
    expect_equal(hit_dicts, expected, "the hits of a walk whose earlier hits were changed")
    expect_equal(
        [hit.to_dict() for hit in earlier.hits], expected, "the hits of a walk after those of another were changed"
    )
    expect_equal((await fixture.run_walk()).hit_dicts, expected, "a walk after the hits of another were changed")


@case(CASES, promise="A walk that ended or was closed leaves no task running and no iterator open.")
async def _a_walk_leaves_no_task_and_no_iterator_behind(fixture: PolicyFixture) -> None:
    for hits in (0, 1, None):
        before = {task.id for task in anyio.get_running_tasks()}
        with track_generators() as started:
            async with fixture.start() as walk:
                count_read = 0
                while count_read != hits and await anext(walk, None) is not None:
                    count_read += 1
        where = "at its end" if hits is None else f"closed after {hits} hits"
        tasks = [task for task in anyio.get_running_tasks() if task.id not in before]
        still_open = [generator for generator in started if getattr(generator, "ag_frame", None) is not None]
        for generator in still_open:
            await generator.aclose()
        expect(not tasks, f"expected no task after a walk {where}, got {', '.join(str(task.name) for task in tasks)}")
        expect(
            not still_open,
            f"expected every async generator of a walk {where} to be closed, got {short_repr(still_open)}",
        )


@case(CASES, "corpus", promise="Slow answers of the store do not change the hits of a walk.")
async def _a_walk_is_the_same_however_long_the_store_takes_to_answer(fixture: PolicyFixture) -> None:
    walks = {}
    for number in range(4):
        random = Random(number)  # noqa: S311 - not used for secrets
        store, _ = fixture.with_scripted_store(delays=partial(random.choice, (0.0, 0.0, 0.0003, 0.001, 0.002)))
        walks[f"over a store that answers slowly ({number})"] = {"store": store}
    await _walk_alike(fixture, walks)


async def _first_and_last_requests(fixture: PolicyFixture) -> list[tuple[type[Asked], int]]:
    """Return the kind and number of the first and last request of each kind."""
    corpus, store = fixture.with_scripted_store()
    await fixture.run_walk(store=corpus)
    return [(kind, number) for kind, total in store.calls.items() for number in sorted({1, total})]


@case(CASES, "corpus", promise="An error of the store ends the walk and reaches the caller unchanged.")
async def _an_error_of_the_store_ends_the_walk_as_itself(fixture: PolicyFixture) -> None:
    whole = (await fixture.run_walk()).hit_dicts
    for kind, number in await _first_and_last_requests(fixture):
        error = StoreError("a scripted failure")
        corpus, _ = fixture.with_scripted_store(failures={kind: [*[None] * (number - 1), error]})
        description = f"the error of {kind.__name__} {number}"
        walk, hits = fixture.start(store=corpus), []
        got: Exception | None = None
        try:
            async for hit in walk:
                hits.append(hit.to_dict())  # noqa: PERF401 - keep the hits before the error
        except Exception as raised:  # noqa: BLE001 - checked below
            got = raised
        expect(got is error, f"expected {description} unchanged, got {short_repr(got) if got else 'no error'}")
        expect_equal(hits, whole[: len(hits)], f"the hits before {description}")


@case(CASES, "corpus", promise="A cancelled walk ends at once, even while a call of the store hangs.")
async def _a_cancelled_walk_ends_at_once_though_the_store_hangs(fixture: PolicyFixture) -> None:
    for kind, number in await _first_and_last_requests(fixture):
        hanging = anyio.Event()
        corpus, store = fixture.with_scripted_store(delays={kind: _hang_in_call(number, hanging)})
        walk, description = fixture.start(store=corpus), f"a walk cancelled in {kind.__name__} {number}"
        was_caught, seconds = await _cancel_walk(walk, hanging)
        expect(was_caught, f"expected {description} to raise the cancellation, got it swallowed")
        expect(seconds < _MAX_DELAY, f"expected {description} to end within {_MAX_DELAY:g} s, got {seconds:.2f} s")
        expect(store.running == 0, f"expected no call to run on after {description}, got {store.running}")


def _hang_in_call(number: int, hanging: anyio.Event) -> Callable[[], float]:
    """Return a delay function that sets `hanging` and delays long in one call; 1 is the first."""
    calls = count(1)

    def delay() -> float:
        if next(calls) != number:
            return 0.0
        hanging.set()
        return _HANG

    return delay


async def _cancel_walk(walk: Walk, hanging: anyio.Event) -> tuple[bool, float]:
    """Cancel a walk as soon as `hanging` is set.

    Returns:
        Whether the walk raised the cancellation, and the seconds until it ended.
    """
    scope, times = anyio.CancelScope(), [math.inf]

    async def cancel() -> None:
        await hanging.wait()
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


@case(CASES, "corpus", "max_calls", promise="A step asks for each kind of request in at most `max_calls` calls.")
async def _a_step_takes_few_calls_of_the_store(fixture: PolicyFixture) -> None:
    _, policy_calls = await fixture.record_walk()
    steps: list[Counter[str]] = [Counter()]
    for call in policy_calls:
        # A call that lacks something for hits may read ahead what `expand` needs, so both are of one step.
        if call.method == "to_hits":
            steps.append(Counter())
        if call.method != "seed":
            steps[-1] += call.calls
    # A request takes many nodes at once. So a step that needs several kinds of data may make several calls, but a
    # second one with the same kind of request is a call per node, or asks again.
    worst = max(steps, key=lambda calls: max(calls.values(), default=0))
    most = fixture.max_calls or 0
    expect(
        all(number <= most for number in worst.values()),
        f"expected at most {most} calls of the store with each kind of request in a step, got {dict(worst)}",
    )


@case(CASES, "corpus", "max_calls", promise="More nodes in a step need no more calls of the store.")
async def _more_nodes_in_a_step_take_no_more_calls_of_the_store(fixture: PolicyFixture) -> None:
    narrow, wide = [
        _most_calls((await fixture.record_walk(limits=limits))[1]) for limits in (Limits(max_frontier=2), None)
    ]
    for (method, kind), number in wide.items():
        most = max(narrow[method, kind], 1)
        expect(
            number <= most,
            f"expected {method} to ask for {kind} at most {most} times for any number of nodes, got {number}",
        )


def _most_calls(policy_calls: list[PolicyCall]) -> Counter[tuple[str, str]]:
    """Return the most calls with a kind of request in one call of a policy method, by both."""
    most: Counter[tuple[str, str]] = Counter()
    for call in policy_calls:
        for kind, number in call.calls.items():
            most[call.method, kind] = max(most[call.method, kind], number)
    return most
