"""Cases of what holds of every walk of a policy: the same sequence, prefixes, ends, and hits that belong to it."""

from typing import Any

import anyio

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.testing._policy_tools import Examinee, PolicyCase, Walked, containers, fact, generators, identity, take
from airw.testing.exam import expect, expect_equal
from airw.values import Limits
from airw.walking import Walk

__all__ = ["CASES"]

CASES: list[PolicyCase] = []

_LARGE_BUDGET = 1_000
_PATH_DEPTH = 64  # down to which a hit tells its whole path


@fact(CASES)
async def _walks_one_after_another_are_the_same(given: Examinee) -> None:
    expected = await given.walked()
    for time in ("a second", "a third"):
        expect_equal((await given.walked()).told, expected.told, f"{time} walk")


@fact(CASES)
async def _walks_at_the_same_time_are_each_as_one_alone(given: Examinee) -> None:
    variants: list[dict[str, Any]] = [{}, {"node_budget": 2}, {"max_depth": 0}, *await _other_queries(given), {}]
    alone = [(await given.walked(**variant)).told for variant in variants]
    for what, found in (
        ("taking turns at hits", await _in_turns([given.start(**variant) for variant in variants])),
        ("in tasks of their own", await _in_tasks([given.start(**variant) for variant in variants])),
    ):
        for variant, told, expected in zip(variants, found, alone, strict=True):
            expect_equal(told, expected, f"a walk {short_repr(variant)} among others, {what}")


async def _other_queries(given: Examinee) -> list[dict[str, Any]]:
    """Give the text of a hit as a query, where the policy understands it as one."""
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
    found: dict[int, Walked] = {}

    async def run(at: int) -> None:
        found[at] = await take(walks[at])

    with first_error():
        async with anyio.create_task_group() as group:
            for at in range(len(walks)):
                group.start_soon(run, at)
    return [found[at].told for at in range(len(walks))]


@fact(CASES)
async def _a_walk_is_the_same_whatever_may_run_at_once(given: Examinee) -> None:
    expected = await given.walked()
    for width in (1, 2, 3, 64):
        walked = await given.walked(limits=Limits(max_concurrency=width))
        expect_equal(walked.told, expected.told, f"the walk with max_concurrency={width}")


@fact(CASES)
async def _a_walk_of_at_most_n_hits_yields_the_first_n(given: Examinee) -> None:
    whole = (await given.walked()).told
    for count in sorted({0, 1, 2, 3, 5, len(whole) // 2, max(len(whole) - 1, 0), len(whole)}):
        walked = await given.walked(limits=Limits(max_hits=count))
        expect_equal(walked.told, whole[:count], f"the walk with max_hits={count}")


@fact(CASES)
async def _a_walk_with_a_timeout_yields_a_prefix_of_the_walk_without(given: Examinee) -> None:
    whole = (await given.walked()).told
    for seconds in (3_600.0, 0.5, 0.02, 0.01, 0.005, 0.0):
        walked = await given.walked(timeout=seconds, store=given.scripted(delays=0.001)[0] if given.is_corpus else None)
        ended = walked.summary.stop != "timeout"
        expected = whole if ended else whole[: len(walked.told)]
        expect_equal(walked.told, expected, f"the walk with timeout={seconds}, which {'ended' if ended else 'was cut'}")


@fact(CASES)
async def _small_bounds_end_a_walk_and_are_no_errors(given: Examinee) -> None:
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


@fact(CASES)
async def _a_walk_without_a_depth_cap_goes_round_no_cycle(given: Examinee) -> None:
    walked = await given.walked(max_depth=None, node_budget=_LARGE_BUDGET)
    _expect_each_once(walked)
    half = await given.walked(max_depth=None, node_budget=_LARGE_BUDGET // 2)
    grows = len(walked.hits) > len(half.hits) or walked.summary.stop in ("exhausted", "sufficient")
    expect(grows, f"expected the walk to end or to find more, got none in the last {_LARGE_BUDGET // 2} nodes")


@fact(CASES)
async def _every_hit_comes_once(given: Examinee) -> None:
    _expect_each_once(await given.walked())


def _expect_each_once(walked: Walked) -> None:
    seen = set()
    for hit in walked.hits:
        expect(identity(hit) not in seen, f"expected each hit once, got {identity(hit)!r} again")
        seen.add(identity(hit))


@fact(CASES)
async def _a_hit_says_truly_how_it_was_reached(given: Examinee) -> None:
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


@fact(CASES)
async def _hits_are_fresh_and_share_nothing(given: Examinee) -> None:
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


@fact(CASES)
async def _what_is_done_to_a_hit_changes_no_walk(given: Examinee) -> None:
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


@fact(CASES)
async def _a_walk_leaves_no_task_and_no_iterator_behind(given: Examinee) -> None:
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
