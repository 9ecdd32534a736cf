"""Cases of writing: atomic changes, consistent reads, settings, the lock and closing."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

from airw._base.concurrency import first_error
from airw.errors import StoreBusy, StoreError
from airw.protocols import Change, Rank, Request, Store
from airw.testing._store_tools import DELAYS, StoreCase, StoreFixture, draw_artifact, read_all, two_artifacts
from airw.testing.changes import put
from airw.testing.exam import case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Link, Record

CASES: list[StoreCase] = []


async def _lock_once(store: Store, seconds: float) -> None:
    """Acquire the lock for builders and release it at once."""
    async with store.writing(timeout=seconds):
        pass


@case(CASES, "writing", promise="`writing` waits for another builder and raises `StoreBusy` after its timeout.")
async def _a_second_builder_waits_for_the_first_and_gives_up_in_time(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    async with store.writing():
        start = anyio.current_time()
        await expect_refusal(StoreBusy, _lock_once(store, 0.05), "a second builder that waits 0.05 s")
        waited = anyio.current_time() - start
        expect(0.04 < waited < 5, f"expected StoreBusy after 0.05 s, got it after {waited:.3f} s")
        await expect_refusal(StoreBusy, _lock_once(store, 0), "a second builder that does not wait")
    await _lock_once(store, 0)


@case(CASES, "writing", promise="Only one builder at a time is inside `writing`.")
async def _builders_take_turns(fixture: StoreFixture) -> None:
    store = await fixture.open_store()

    async def build(name: str) -> None:
        async with store.writing(timeout=20):
            order.append(f"{name} begins")
            await store.apply(Change([put(name, "text")]))
            await anyio.sleep(0.02)
            order.append(f"{name} ends")

    order: list[str] = []
    with first_error():
        async with anyio.create_task_group() as group:
            for name in ("one", "two", "three"):
                group.start_soon(build, name)
    expect_equal([event.split()[1] for event in order], ["begins", "ends"] * 3, f"the turns in {order}")


@case(CASES, "writing", promise="`writing` releases the lock if a builder fails or is cancelled.")
async def _a_builder_that_fails_or_is_cancelled_lets_the_next_one_in(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    try:
        async with store.writing():
            raise ZeroDivisionError  # noqa: TRY301 - the error must pass through the lock
    except ZeroDivisionError:
        await _lock_once(store, 0.5)
    with anyio.move_on_after(0.02):
        async with store.writing():
            await anyio.sleep(30)
    await _lock_once(store, 0.5)
    async with store.writing():
        with anyio.move_on_after(0.02):
            await _lock_once(store, 30)
    await _lock_once(store, 0.5)


@case(CASES, "shared", "writing", promise="`writing` locks all stores that are open on the same content.")
async def _one_builder_holds_all_stores_on_the_same_content(fixture: StoreFixture) -> None:
    async with fixture.open([]) as one, fixture.open([]) as two:
        async with one.writing():
            await expect_refusal(StoreBusy, _lock_once(two, 0.05), "a builder in another store on the same content")
        await _lock_once(two, 5)


@case(
    CASES,
    "writing",
    "settings",
    promise="Settings that JSON cannot represent are refused, and nothing of the change is kept.",
)
async def _a_setting_that_is_not_json_is_refused_and_the_old_ones_stay(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("old", "x")])
    await store.apply(Change(config={"a": 1}))
    before = await fixture.observe(store, two_artifacts())
    for value in (math.nan, math.inf, {1}, object()):
        for change in (Change(config={"a": value}), Change(config={"b": 2}, calibrations={"k": {"a": value}})):
            await expect_refusal(StoreError, store.apply(change), f"a setting that is {value!r}")
            write = replace(change, puts=[put("new", "x")], removals=["old"])
            await expect_refusal(StoreError, store.apply(write), f"artifacts with a setting that is {value!r}")
            expect_equal(await fixture.observe(store, two_artifacts()), before, "after a refusal: ")


@case(CASES, "writing", promise="A change with a value that cannot be stored is refused, and changes nothing.")
async def _nothing_of_a_refused_write_is_kept(fixture: StoreFixture) -> None:
    before = two_artifacts()
    new = [put(f"new{number}", "three", metadata={"tag": "x"}, links=[Link("T")]) for number in range(20)]
    watched = [*before, *new]
    bad = {
        "an artifact put twice": put("new0", "twice"),
        "an id with a lone surrogate": put("bad\ud800", "x"),
        "an id with NUL": put("b\0d", "x"),
        "a text with a lone surrogate": put("bad", "lone \ud800 surrogate"),
        "metadata with a lone surrogate": put("bad", "x", metadata={"k": ["\ud800"]}),
        "a vector with NaN": put("bad", "x", vectors=[[1.0, math.nan, 0.0, 0.0]]),
        "a vector with infinity": put("bad", "x", vectors=[[math.inf, 0.0, 0.0, 0.0]]),
        "a vector of another width": put("bad", "x", dim=3),
        "two vectors for one record": replace(put("bad", "x"), vectors=np.zeros((2, 4), np.float32)),
    }
    store = await fixture.open_store(before)
    expected = await fixture.observe_fresh(Change(before), watched)
    for fault, change in bad.items():
        await expect_refusal(StoreError, store.apply(Change([*new, change], removals=["old"])), fault)
        expect_equal(await fixture.observe(store, watched), expected, f"after {fault} was refused: ")
    await store.apply(Change(new, removals=["old"]))
    expected = await fixture.observe_fresh(Change([before[0], *new]), watched)
    expect_equal(await fixture.observe(store, watched), expected, "after the same write without the bad artifact: ")


def _after(state: Change, change: Change) -> Change:
    """Return one change that stores what two stored in turn."""
    puts = {each.entry.artifact_id: each for each in state.puts if each.entry.artifact_id not in change.removals}
    puts |= {each.entry.artifact_id: each for each in change.puts}
    config = state.config if change.config is None else change.config
    return Change(list(puts.values()), (), config, {**state.calibrations, **change.calibrations})


@case(CASES, "writing", promise="A cancelled write is done completely or not at all.")
async def _a_cancelled_write_is_done_or_was_never_begun(fixture: StoreFixture) -> None:
    state = Change(two_artifacts())
    store = await fixture.open_store(state.puts)
    for step, delay in enumerate(DELAYS):
        new = [
            put(f"new{number}", f"three {step}", metadata={"tag": "x"}, links=[Link("T", f"t{step}")])
            for number in range(100)
        ]
        change, watched = Change(new, ["old"]), [*state.puts[:5], *new[::10]]
        with anyio.move_on_after(delay):
            await store.apply(change)
        answers = await fixture.observe(store, watched)
        try:
            expect_equal(answers, await fixture.observe_fresh(state, watched), "")
        except AssertionError:
            state = _after(state, change)
            expected = await fixture.observe_fresh(state, watched)
            expect_equal(answers, expected, f"after a write cancelled after {delay} s, neither undone nor done: ")
    await store.apply(Change([put("last", "still usable")]))


def _crowd(version: int) -> list[ArtifactChange]:
    """Return forty-one artifacts with one content for even versions and another for odd ones."""
    text, tag = (("one two", "x"), ("three", "y"))[version % 2]
    return [
        put("hub"),
        *(
            put(f"a{number}", text, version=tag, metadata={"tag": tag}, links=[Link("hub", tag)], names=[[], [tag]])
            for number in range(40)
        ),
    ]


def _ranks_all(request: Request[Any]) -> bool:
    """Return whether a request is for rankings of all records."""
    return isinstance(request, Rank) and request.k is None and request.among is None and request.records is None


@case(CASES, "writing", promise="All answers of one call are those before a write, or all are those after it.")
async def _a_reader_sees_all_of_a_write_or_nothing(fixture: StoreFixture) -> None:
    even, odd = [await fixture.observe_fresh(Change(_crowd(version)), _crowd(0)) for version in (0, 1)]

    async def write() -> None:
        for version in range(1, 13):
            await store.apply(Change(_crowd(version)))
            await anyio.lowlevel.checkpoint()
        done.set()

    # As many, of different kinds, as a server takes in one message, which may not be two rankings of all records.
    requests = [request for request in fixture.requests_offered(_crowd(0)) if not _ranks_all(request)]
    number = len(requests) // 16 + 1
    calls = [requests[at::number] for at in range(number)]

    async def read() -> None:
        while not done.is_set():
            for call in calls:
                answers = await read_all(store, call)
                try:
                    expect_equal(answers, {name: even[name] for name in answers}, "")
                except AssertionError:
                    expected = {name: odd[name] for name in answers}
                    expect_equal(answers, expected, "between two versions of 41 artifacts: ")
            await anyio.lowlevel.checkpoint()

    done = anyio.Event()
    store = await fixture.open_store(_crowd(0))
    with first_error():
        async with anyio.create_task_group() as tasks:
            for task in (write, read, read):
                tasks.start_soon(task)


@case(CASES, "writing", promise="After any writes, a store answers as if its content had been written at once.")
async def _any_history_ends_as_one_write_of_what_is_left(fixture: StoreFixture) -> None:
    random = np.random.default_rng(3)
    store = await fixture.open_store()
    history = [Change(two_artifacts()[:1]), Change(), *(_random_write(random, fixture) for _ in range(10))]
    await _write_and_compare(fixture, [store], history)


async def _write_and_compare(fixture: StoreFixture, stores: Sequence[Store], history: Sequence[Change]) -> None:
    """Write changes to stores in turn; after each, all answer as a new store does."""
    watched = [*two_artifacts(), *(each for change in history for each in change.puts)]
    state = Change()
    for step, change in enumerate(history):
        await stores[step % len(stores)].apply(change)
        state = _after(state, change)
        # Read after every write: the answers of earlier reads must not matter either, as in a stale cache.
        expected = await fixture.observe_fresh(state, watched)
        for number, store in enumerate(stores, 1):
            where = f"in store {number} of {len(stores)} after {step + 1} writes: "
            expect_equal(await fixture.observe(store, watched), expected, where)


def _random_write(random: np.random.Generator, fixture: StoreFixture) -> Change:
    names = [*map(str, random.choice(list("abcdef"), 3, replace=False))]
    puts = [draw_artifact(random, name) for name in names[: random.integers(1, 4)]]
    removals = [str(random.choice(list("abcdef")))]
    if "settings" not in fixture.offers:
        return Change(puts, removals)
    config, calibrations = [
        (None, {}, {name: {"é": [1, None, True, 0.5]}})[random.integers(0, 3)] for name in names[1:]
    ]
    return Change(puts, removals, config, calibrations or {})


@case(CASES, "writing", promise="Changing what was passed in or returned does not change the store.")
async def _nothing_given_or_received_is_a_handle_on_the_store(fixture: StoreFixture) -> None:
    settings: dict[str, Any] = {"config": {"tags": [1]}, "calibrations": {"k": {"tags": [1]}}}
    given = Change([put("a", "text", metadata={"tags": ["x"]})], **(settings if "settings" in fixture.offers else {}))
    requests = fixture.requests_offered(given.puts)
    answers = await fixture.observe_fresh(copy.deepcopy(given), given.puts)
    store = await fixture.open_store()
    await store.apply(given)
    _spoil([given.config, given.calibrations, *((each.vectors, *each.records) for each in given.puts)])
    for _ in range(2):
        expect_equal(await read_all(store, requests), answers, "after what was given or returned changed: ")
        _spoil(await store.read(*requests))


def _spoil(value: Any) -> None:
    """Change what can be changed in a value, and in its parts."""
    if isinstance(value, Record):
        _spoil(value.metadata)
    elif isinstance(value, np.ndarray):
        value.fill(7)
    elif isinstance(value, list | dict | tuple):
        for part in [*(value.values() if isinstance(value, dict) else value)]:
            _spoil(part)
        if isinstance(value, list | dict):
            value.clear()


@case(CASES, "persistent", "writing", promise="The content is still there after the store is closed and opened again.")
async def _what_was_put_is_there_when_opened_again(fixture: StoreFixture) -> None:
    state, random = Change(), np.random.default_rng(5)
    for step in range(4):
        change = _random_write(random, fixture)
        state = _after(state, change)
        async with fixture.open([]) as store:
            await store.apply(change)
        async with fixture.open([]) as store:
            expected = await fixture.observe_fresh(state, state.puts)
            expect_equal(await fixture.observe(store, state.puts), expected, f"opened again after {step + 1} writes: ")


@case(CASES, "shared", "writing", promise="A write is visible at once in another store on the same content.")
async def _each_write_is_seen_by_the_next_question_to_another_store(fixture: StoreFixture) -> None:
    random = np.random.default_rng(6)
    async with fixture.open([]) as one, fixture.open([]) as two:
        await _write_and_compare(fixture, [one, two], [_random_write(random, fixture) for _ in range(6)])
