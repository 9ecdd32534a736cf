"""Cases of writing: atomic changes, consistent reads, settings, runs and the lock."""

import copy
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

from airw._base.concurrency import first_error
from airw._base.messages import one_line
from airw.errors import StoreBusy, StoreError
from airw.protocols import ArtifactIds, Change, IngestRun, Ledger, Rank, Store, ask
from airw.stores import MemoryStore
from airw.testing._store_tools import (
    DELAYS,
    StoreCase,
    StoreFixture,
    diverse_artifacts,
    draw_artifact,
    expect_answers,
    merge_changes,
    read_all,
    read_fresh,
    requests_about,
    two_artifacts,
    write_history,
)
from airw.testing.changes import put
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal, find_difference
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
    order: list[str] = []

    async def build(name: str) -> None:
        async with store.writing(timeout=20):
            order.append(name)
            await store.apply(Change([put(name, "text")]))
            await anyio.sleep(0.02)
            order.append(name)

    with first_error():
        async with anyio.create_task_group() as group:
            for name in ("one", "two", "three"):
                group.start_soon(build, name)
    expect_equal(order[1::2], order[::2], f"who ends in {order}, where each builder begins and ends,")


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
    one, two = await fixture.open_store(), await fixture.open_store()
    async with one.writing():
        await expect_refusal(StoreBusy, _lock_once(two, 0.05), "a builder in another store on the same content")
    await _lock_once(two, 5)


_NEW = [put(f"new{number}", "three", metadata={"tag": "x"}, links=[Link("T")]) for number in range(20)]
_BAD_PUTS: Mapping[str, ArtifactChange] = {
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
_BAD_VALUES: list[Any] = [math.nan, math.inf, {1}, object()]


async def _refuse_and_keep_nothing(
    settings: Change, faults: Sequence[tuple[str, Change]], fixture: StoreFixture
) -> None:
    """Check that faults are refused, and that the store is as before."""
    before, good = replace(settings, puts=two_artifacts()), Change(_NEW, removals=["old"])
    requests = fixture.requests_offered([*before.puts, *_NEW])
    store = await fixture.open_store()
    await store.apply(before)
    expected = await read_fresh(before, requests)
    for fault, change in faults:
        await expect_refusal(StoreError, store.apply(change), fault)
        expect_answers(requests, await read_all(store, requests), expected, f"after {fault} was refused: ")
    await store.apply(good)
    expected = await read_fresh(merge_changes(before, good), requests)
    expect_answers(requests, await read_all(store, requests), expected, "after the same write without what is bad: ")


CASES += [
    Case(
        "a_setting_that_is_not_json_is_refused_and_the_old_ones_stay",
        "Settings that JSON cannot represent are refused, and nothing of the change is kept.",
        partial(
            _refuse_and_keep_nothing,
            Change(config={"a": 1}),
            [
                (f"a setting that is {value!r}", Change(puts, removals, config, calibrations))
                for value in _BAD_VALUES
                for config, calibrations in (({"a": value}, {}), ({"b": 2}, {"k": {"a": value}}))
                for puts, removals in (((), ()), (_NEW, ["old"]))
            ],
        ),
        frozenset(["writing", "settings"]),
    ),
    Case(
        "nothing_of_a_refused_write_is_kept",
        "A change with a value that cannot be stored is refused, and changes nothing.",
        partial(
            _refuse_and_keep_nothing,
            Change(),
            [(fault, Change([*_NEW, bad], removals=["old"])) for fault, bad in _BAD_PUTS.items()],
        ),
        frozenset(["writing"]),
    ),
]


def _crowd(version: int) -> list[ArtifactChange]:
    """Return forty-one artifacts with one content for even versions and another for odd ones."""
    text, tag = (("one two", "x"), ("three", "y"))[version % 2]
    options: Any = {"version": tag, "metadata": {"tag": tag}, "links": [Link("hub", tag)], "names": [[], [tag]]}
    return [put("hub"), *(put(f"a{number}", text, **options) for number in range(40))]


@case(CASES, "writing", promise="All answers of one call are those before a write, or all are those after it.")
async def _a_reader_sees_all_of_a_write_or_nothing(fixture: StoreFixture) -> None:
    # As many, of different kinds, as a server takes in one message, which may not be two rankings of all records.
    requests = [
        request
        for request in fixture.requests_offered(_crowd(0))
        if not isinstance(request, Rank) or (request.k, request.among, request.records) != (None, None, None)
    ]
    number = len(requests) // 16 + 1
    even, odd = [await read_fresh(Change(_crowd(version)), requests) for version in (0, 1)]
    done = anyio.Event()
    store = await fixture.open_store(_crowd(0))

    async def write() -> None:
        for version in range(1, 13):
            await store.apply(Change(_crowd(version)))
            await anyio.lowlevel.checkpoint()
        done.set()

    async def read() -> None:
        while not done.is_set():
            for at in range(number):
                some = slice(at, None, number)
                got = await read_all(store, requests[some])
                if find_difference(got, even[some]):
                    expect_answers(requests[some], got, odd[some], "between two versions of 41 artifacts: ")
            await anyio.lowlevel.checkpoint()

    with first_error():
        async with anyio.create_task_group() as tasks:
            for task in (write, read, read):
                tasks.start_soon(task)


async def _write_drawn(fixture: StoreFixture, open_stores: int) -> None:
    random = np.random.default_rng(3)
    history = [Change(two_artifacts()[:1]), Change()]
    for _ in range(8):
        names = [*map(str, random.choice(list("abcdef"), 4, replace=False))]
        puts = [draw_artifact(random, name) for name in names[: random.integers(1, 4)]]
        settings: list[Any] = [None, {}, {names[0]: {"é": [1, None, True, 0.5]}}]
        config, calibrations = random.choice(settings, 2) if "settings" in fixture.offers else (None, None)
        history.append(Change(puts, names[-1:], config, calibrations or {}))
    watched = [*two_artifacts(), *(each for change in history for each in change.puts)]
    await write_history(fixture, history, fixture.requests_offered(watched), open_stores=open_stores)


@case(CASES, "writing", promise="After any writes, a store answers as if its content had been written at once.")
async def _any_history_ends_as_one_write_of_what_is_left(fixture: StoreFixture) -> None:
    await _write_drawn(fixture, 1)


@case(CASES, "persistent", "writing", promise="The content is still there after the store is closed and opened again.")
async def _what_was_put_is_there_when_opened_again(fixture: StoreFixture) -> None:
    await _write_drawn(fixture, 0)


@case(CASES, "shared", "writing", promise="A write is visible at once in another store on the same content.")
async def _each_write_is_seen_by_the_next_question_to_another_store(fixture: StoreFixture) -> None:
    await _write_drawn(fixture, 2)


@case(CASES, "writing", promise="A cancelled write is done completely or not at all.")
async def _a_cancelled_write_is_done_or_was_never_begun(fixture: StoreFixture) -> None:
    history = [Change(two_artifacts())]
    for step in range(len(DELAYS)):
        link = Link("T", f"t{step}")
        puts = [put(f"new{at}", f"three {step}", metadata={"tag": "x"}, links=[link]) for at in range(100)]
        history.append(Change(puts, ["old"]))
    requests = fixture.requests_offered([*two_artifacts(), *history[-1].puts[::10]])
    await write_history(fixture, [*history, Change()], requests, delays=[math.inf, *DELAYS, math.inf])


@case(
    CASES,
    "writing",
    "words",
    "lexical",
    promise="After a change of the language, and after writes that follow, words and scores are those of a new store.",
)
async def _texts_are_indexed_again_for_another_language(fixture: StoreFixture) -> None:
    content = [*diverse_artifacts(), put("walk", "walking the keys"), put("walks", "keys that walked")]
    requests = [request for request in requests_about(content) if request.all_needs <= {"lexical", "words"}]
    half = content[::2]
    history = [Change(half), Change(language=None), Change(half), Change(language="en"), Change(content)]
    await write_history(fixture, history, requests)


@case(CASES, "writing", promise="Changing what was passed in or returned does not change the store.")
async def _nothing_given_or_received_is_a_handle_on_the_store(fixture: StoreFixture) -> None:
    settings: dict[str, Any] = {"config": {"tags": [1]}, "calibrations": {"k": {"tags": [1]}}}
    given = Change([put("a", "text", metadata={"tags": ["x"]})], **(settings if "settings" in fixture.offers else {}))
    requests = fixture.requests_offered(given.puts)
    answers = await read_fresh(copy.deepcopy(given), requests)
    store = await fixture.open_store()
    await store.apply(given)
    _spoil([given.config, given.calibrations, *((each.vectors, *each.records) for each in given.puts)])
    for _ in range(2):
        got = await read_all(store, requests)
        expect_answers(requests, got, answers, "after what was given or returned changed: ")
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


# Runs: parts and their rows are stored together, and only once.

_RUN, _LATER, _OTHER = (
    IngestRun("notes", "first", {}),
    IngestRun("notes", "second", {}),
    IngestRun("mails", "first", {}),
)
_PICKY = IngestRun("picky", "first", {"embedder_id": "e", "dim": 2})
_ROW: Mapping[str, Any] = {"held": {"a": "1"}, "é": [1, None, True]}
_begin, _part, _forget = [partial(methodcaller, name) for name in ("begin_run", "apply_part", "forget_run")]
_apply: Any = partial(methodcaller, "apply")
_Step = Callable[[Any], Awaitable[Any]]


async def _show_runs(store: Any, fixture: StoreFixture) -> list[Any]:
    """Return all that a store has of runs, with parts in their order, and the artifacts."""
    found = [await store.read_run(run) for run in (_RUN, _LATER, _OTHER, _PICKY)]
    shown: list[Any] = [each and (each[0], [*each[1].items()]) for each in found]
    shown += [await store.read_run(_RUN, parts) for parts in ([9, 3], [])]
    return [*shown, *(await store.read(ArtifactIds(), Ledger()) if "ledger" in fixture.offers else ())]


async def _take_steps(steps: Sequence[_Step], fixture: StoreFixture) -> None:
    """Check that calls in turn return, store and refuse what they do in a `MemoryStore`."""
    store = await fixture.open_store()
    async with MemoryStore() as memory:
        for step in steps:
            described = one_line(repr(step).partition("methodcaller")[2], longest=200)
            try:
                expected = await step(memory)
            except StoreError:
                await expect_refusal(StoreError, step(store), described)
            else:
                expect_equal(await step(store), expected, f"the answer to {described}")
            got = await _show_runs(store, fixture)
            expect_equal(got, await _show_runs(memory, fixture), f"runs, ids and ledger after {described}: ")


def _add_steps(name: str, promise: str, steps: Sequence[_Step], *needs: str) -> None:
    CASES.append(Case(name, promise, partial(_take_steps, steps), frozenset(["runs", *needs])))


_add_steps(
    "rows_of_a_run_are_read_by_part_and_apart_from_those_of_other_runs",
    "`read_run` returns the rows of one run in the order of their parts, without those of other runs.",
    [
        _begin(_RUN, {"of": "notes"}),
        _begin(_OTHER, {"of": "mails"}),
        *(_part(_RUN, part, {"at": part}, []) for part in (10, 9, 2)),
    ],
)
_add_steps(
    "a_part_that_is_there_is_not_written_again_and_gives_its_row",
    "`apply_part` returns the stored row of a part that exists, and writes nothing.",
    [
        _begin(_RUN, {}),
        _part(_RUN, 0, _ROW, [put("a", "x", version="1")]),
        _part(_RUN, 0, {"other": 1}, [put("a", "y", version="2"), put("b", "z")]),
        _forget(_RUN, [0]),
        _part(_RUN, 0, {"other": 1}, [put("a", "y", version="2")]),
    ],
    "ledger",
)
_add_steps(
    "a_run_that_was_replaced_or_forgotten_takes_no_part_and_says_so",
    "`apply_part` returns `None` and writes nothing if its run was replaced or forgotten.",
    [
        _begin(_RUN, {}),
        _part(_RUN, 0, _ROW, [put("a", "x")]),
        _begin(_LATER, {"later": True}),
        _part(_RUN, 1, _ROW, [put("b", "y")]),
        _forget(_RUN, removals=["a"]),
        _forget(_LATER),
        _part(_LATER, 1, _ROW, [put("b", "y")]),
    ],
    "ledger",
)
_add_steps(
    "a_part_is_refused_while_the_settings_are_not_what_its_run_needs",
    "`apply_part` writes nothing while the settings are not those that its run needs.",
    [
        _begin(_PICKY, {}),
        *(
            step
            for config in ({}, {"embedder_id": "e"}, {"embedder_id": "f", "dim": 2}, {**_PICKY.settings, "more": 1})
            for step in (_apply(Change(config=config)), _part(_PICKY, 0, _ROW, [put("a", "x")]))
        ),
    ],
    "ledger",
    "settings",
    "writing",
)
_add_steps(
    "a_run_begins_and_ends_with_removals_in_the_same_write",
    "`begin_run` and `forget_run` remove artifacts in the same write.",
    [
        _begin(_OTHER, {}),
        _part(_OTHER, 0, {}, [put(name, "x") for name in "abc"]),
        _begin(_RUN, {"a": math.nan}, removals=["a"]),
        _begin(_RUN, {}, removals=["a", "never there"]),
        _forget(_RUN, removals=["b"]),
    ],
    "ledger",
)


@case(
    CASES, "runs", "ledger", promise="`apply_part` stores the row and the artifacts of a part together or not at all."
)
async def _a_part_of_a_run_and_its_artifacts_come_together_or_not_at_all(fixture: StoreFixture) -> None:
    twice, nan = [put("b", "y"), put("b", "z")], {"held": math.nan}
    steps = [_part(_RUN, 0, _ROW, [put("a", "x")]), _part(_RUN, 1, _ROW, twice), _part(_RUN, 1, nan, twice[:1])]
    await _take_steps([_begin(_RUN, {}), *steps], fixture)
    async with fixture.open([]) as store:
        await store.begin_run(_RUN, {})
        for part, delay in enumerate(DELAYS):
            names = [f"p{part}n{number:02}" for number in range(50)]
            with anyio.move_on_after(delay):
                await store.apply_part(_RUN, part, _ROW, [put(name, "text") for name in names])
            has_row = bool((await store.read_run(_RUN, [part]))[1])
            stored = [id for id in await ask(store, ArtifactIds()) if id in names]
            where = f"artifacts of a part cancelled after {delay} s ({'with' if has_row else 'without'} its row)"
            expect_equal(stored, names * has_row, where)


@case(
    CASES,
    "shared",
    "runs",
    "ledger",
    promise="If several stores write the same part at once, one does and all return its row.",
)
async def _of_stores_that_write_one_part_at_once_one_does(fixture: StoreFixture) -> None:
    rows: list[Any] = []
    one, other = await fixture.open_store(), await fixture.open_store()
    await one.begin_run(_RUN, {})

    async def write(store: Any, number: int) -> None:
        change = put("a", f"text {number}", version=str(number))
        rows.append(await store.apply_part(_RUN, 0, {"by": number}, [change]))

    async with anyio.create_task_group() as group:
        for number, store in enumerate((one, other, one, other)):
            group.start_soon(write, store, number)
    expect(all(row == rows[0] for row in rows), f"expected the same row from all writers, got {rows}")
    versions = [entry and entry.version for entry in await ask(other, Ledger())]
    expect_equal(versions, [str((rows[0] or {})["by"])], "the stored version")
