"""Cases of writing: atomic writes, consistent reads, settings, the lock and closing."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import StoreBusy, StoreError
from airw.testing._store_tools import GROUPS, FullStore, StoreCase, StoreFixture, calls_about, two_artifacts
from airw.testing.changes import put, vector_of
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Edge, Link, Ranking

CASES: list[StoreCase] = []
DELAYS = (0.0, 0.001, 0.003, 0.01)  # seconds until a call is cancelled


@case(CASES, "config", "calibration", promise="The settings and the calibration of a new store are empty.")
async def _a_new_store_has_no_settings_and_no_calibration(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    expect_equal(await store.config(), {}, "config()")
    expect_equal(await store.calibration(), {}, "calibration()")
    expect_equal(await store.calibration("k"), {}, "calibration('k')")


@case(
    CASES,
    "apply",
    "set_config",
    "config",
    "set_calibration",
    "calibration",
    promise="`set_config` replaces all settings, `set_calibration` the calibration of one key, and nothing else.",
)
async def _settings_and_calibrations_are_replaced_whole_and_apart(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    await store.set_config({"embedder": {"id": "e"}, "n": [1, None, True, 0.5, "é"]})
    expect_equal(await store.config(), {"embedder": {"id": "e"}, "n": [1, None, True, 0.5, "é"]}, "config()")
    await store.set_config({"other": None})
    await store.set_calibration("dense/é", {"floor": 0.25})
    await store.set_calibration("bm25", {"floor": 3})
    await store.set_calibration("bm25", {"ceiling": 9})
    expect_equal(await store.config(), {"other": None}, "config() after another set_config")
    expect_equal(await store.calibration(), {"dense/é": {"floor": 0.25}, "bm25": {"ceiling": 9}}, "calibration()")
    expect_equal(await store.calibration("bm25"), {"ceiling": 9}, "calibration('bm25')")
    await store.apply([put("a", "x")])
    expect_equal(await store.config(), {"other": None}, "config() after a write")


@case(
    CASES,
    "apply",
    "neighbor_columns",
    "artifact_numbers",
    promise="The number of an artifact stays the same, and is never that of another, while others write.",
)
async def _numbers_of_artifacts_are_never_used_again(fixture: StoreFixture) -> None:
    names = ["a", "b", "c"]
    store = await fixture.open_store([put(name, "x", links=[Link(end) for end in names]) for name in names])
    before = (await store.artifact_numbers(names)).tolist()
    await store.neighbor_columns(before, direction="both")
    await store.apply([put("new", "x", links=[Link("a")]), put("b", "y", links=[Link("new")])], removals=["a", "c"])
    expect_equal((await store.artifact_numbers(names)).tolist(), before, "numbers after two were removed")
    columns = await store.neighbor_columns(before, direction="both")
    expect_equal(columns.to_edges(names), [[], [Edge("b", "new", "related")], []], "edges after two were removed")
    await store.apply([put("a", "z")])
    both = (await store.artifact_numbers(["a", "new"])).tolist()
    expect_equal(
        (both[0], both[1] in before), (before[0], False), "the number of an artifact that is back, and of a new one"
    )
    columns = await store.neighbor_columns([both[0]], direction="in")
    expect_equal([columns.nodes[end] for end in columns.ends], ["new"], "the end of a link to an artifact that is back")


@case(
    CASES,
    "set_config",
    "set_calibration",
    "config",
    "calibration",
    promise="Changing settings after they were passed in or returned does not change the store.",
)
async def _no_setting_given_or_received_is_a_handle_on_the_store(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    value: dict[str, Any] = {"tags": [1]}
    await store.set_config(value)
    await store.set_calibration("k", value)
    value["tags"].append(2)
    (await store.config())["tags"].append(3)
    (await store.calibration("k"))["tags"].append(3)
    (await store.calibration())["k"]["tags"].append(3)
    changes = "after the passed and the returned values were changed"
    expect_equal(await store.config(), {"tags": [1]}, f"config() {changes}")
    expect_equal(await store.calibration(), {"k": {"tags": [1]}}, f"calibration() {changes}")


@case(
    CASES,
    "set_config",
    "set_calibration",
    "config",
    "calibration",
    promise="Settings that JSON cannot represent are refused, and the previous settings stay.",
)
async def _a_setting_that_is_not_json_is_refused_and_the_old_ones_stay(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    await store.set_config({"a": 1})
    for value in (math.nan, math.inf, {1}, object()):
        await expect_refusal(StoreError, store.set_config({"a": value}), f"set_config with {value!r}")
        await expect_refusal(StoreError, store.set_calibration("k", {"a": value}), f"set_calibration with {value!r}")
    expect_equal(await store.config(), {"a": 1}, "config() after refusals")
    expect_equal(await store.calibration(), {}, "calibration() after refusals")


async def _lock_once(store: FullStore, seconds: float) -> None:
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


@case(CASES, "apply", "writing", promise="Only one builder at a time is inside `writing`.")
async def _builders_take_turns(fixture: StoreFixture) -> None:
    store = await fixture.open_store()

    async def build(name: str) -> None:
        async with store.writing(timeout=20):
            order.append(f"{name} begins")
            await store.apply([put(name, "text")])
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


async def _nothing_of_a_refused_write_is_kept(group: str, fixture: StoreFixture) -> None:
    before = two_artifacts()
    new = [put(f"new{number}", "three", metadata={"tag": "x"}, links=[Link("T")]) for number in range(20)]
    watched = [*before, *new]
    store = await fixture.open_store(before)
    for bad in (put("new0", "twice"), put("bad\ud800", "x")):
        write = f"a write that ends with {short_repr(bad.entry.artifact_id)}"
        await expect_refusal(StoreError, store.apply([*new, bad], removals=["old"]), write)
        answers = await fixture.observe(group, store, watched)
        expect_equal(answers, await fixture.observe_fresh(group, before, watched), f"after {write} was refused: ")
    await store.apply(new, removals=["old"])
    expected = await fixture.observe_fresh(group, [before[0], *new], watched)
    answers = await fixture.observe(group, store, watched)
    expect_equal(answers, expected, "after the same write without the bad artifact: ")


def _by_id(changes: Iterable[ArtifactChange]) -> dict[str, ArtifactChange]:
    return {change.entry.artifact_id: change for change in changes}


async def _a_cancelled_write_is_done_or_was_never_begun(group: str, fixture: StoreFixture) -> None:
    state = _by_id(two_artifacts())
    store = await fixture.open_store(list(state.values()))
    for step, delay in enumerate(DELAYS):
        new = [
            put(f"new{number}", f"three {step}", metadata={"tag": "x"}, links=[Link("T", f"t{step}")])
            for number in range(100)
        ]
        state_after = {id: change for id, change in state.items() if id != "old"} | _by_id(new)
        watched = [*state.values(), *new[::10]]
        with anyio.move_on_after(delay):
            await store.apply(new, removals=["old"])
        answers = await fixture.observe(group, store, watched)
        try:
            expect_equal(answers, await fixture.observe_fresh(group, state.values(), watched), "")
        except AssertionError:
            expected = await fixture.observe_fresh(group, state_after.values(), watched)
            expect_equal(answers, expected, f"after a write cancelled after {delay} s, neither undone nor done: ")
            state = state_after
    await store.apply([put("last", "still usable")])


def _crowd(version: int) -> list[ArtifactChange]:
    """Return forty artifacts with one content for even versions and another for odd ones."""
    text, tag = (("one two", "x"), ("three", "y"))[version % 2]
    return [
        put(f"a{number}", text, version=tag, metadata={"tag": tag}, links=[Link("hub", tag)], names=[[], [tag]])
        for number in range(40)
    ]


async def _a_reader_sees_all_of_a_write_or_nothing(group: str, fixture: StoreFixture) -> None:
    crowds = [[put("hub"), *_crowd(version)] for version in (0, 1)]
    even, odd = [await fixture.observe_fresh(group, crowd, crowd) for crowd in crowds]

    async def write() -> None:
        for version in range(1, 13):
            await store.apply(_crowd(version))
            await anyio.lowlevel.checkpoint()
        done.set()

    async def read() -> None:
        while not done.is_set():
            for call, answer in (await fixture.observe(group, store, crowds[0])).items():
                try:
                    expect_equal(answer, even[call], call)
                except AssertionError:
                    expect_equal(answer, odd[call], f"between two versions of 41 artifacts, {call}")
            await anyio.lowlevel.checkpoint()

    done = anyio.Event()
    store = await fixture.open_store(crowds[0])
    with first_error():
        async with anyio.create_task_group() as tasks:
            for task in (write, read, read):
                tasks.start_soon(task)


async def _any_history_ends_as_one_write_of_what_is_left(group: str, fixture: StoreFixture) -> None:
    random = np.random.default_rng(3)
    history = list(_random_writes(random))
    watched = [*two_artifacts(), *(change for puts, _ in history for change in puts)]
    state = _by_id(two_artifacts()[:1])
    store = await fixture.open_store(list(state.values()))
    for step, (puts, removals) in enumerate(history):
        await store.apply(puts, removals=removals)
        state = {id: change for id, change in state.items() if id not in removals} | _by_id(puts)
        expected = await fixture.observe_fresh(group, state.values(), watched)
        # Read after every write: the answers of earlier reads must not matter either, as in a stale cache.
        expect_equal(await fixture.observe(group, store, watched), expected, f"after {step + 1} writes: ")


def _random_writes(random: np.random.Generator) -> Iterable[tuple[list[ArtifactChange], list[str]]]:
    for _ in range(15):
        names = random.choice(list("abcdef"), 3, replace=False)
        yield (
            [_random_change(random, str(name)) for name in names[: random.integers(1, 4)]],
            [str(random.choice(list("abcdef")))],
        )


def _random_change(random: np.random.Generator, name: str) -> ArtifactChange:
    def pick(choices: Sequence[Any], at_most: int) -> list[Any]:
        return [choices[position] for position in random.integers(0, len(choices), random.integers(0, at_most + 1))]

    texts = [" ".join(pick(["one", "two", "three", "four"], 4)) for _ in range(random.integers(0, 4))]
    links = [
        Link(
            ref,
            str(random.choice(["r", "q"])),
            target_source=("else" if random.integers(0, 6) == 0 else None),
            or_ref=next(iter(pick(["b", "d", "T", "U"], 1)), None),
            weight=float(random.choice([0.25, 0.85, 1, 1])),
        )
        for ref in pick(["a", "b", "c", "T", "U"], 3)
    ]
    metadata = {"tag": pick(["x", "y", ["x", "z"], None, 1], 1) or "x"}
    names = [pick(["T", "U", "a"], 1) for _ in range(random.integers(0, 3))]
    version = str(random.integers(0, 100))
    return put(name, *texts, kinds=("title", "chunk"), metadata=metadata, links=links, names=names, version=version)


_LOOKUPS: Mapping[str, Callable[[FullStore, int], Awaitable[Any]]] = {
    "records": lambda store, number: store.records_of([f"a{number}"]),
    "vectors": lambda store, number: store.search_vectors(vector_of(f"word n{number}")[None], 1),
    "text": lambda store, number: store.search_text([f"n{number}"], 5),
    "links": lambda store, number: store.neighbors([f"a{number}"]),
}


async def _look_up(group: str, store: FullStore, number: int) -> list[object]:
    """Return the ids in the answer of the store to a call about one of `_sequence`."""
    [answer] = await _LOOKUPS[group](store, number)
    if isinstance(answer, Ranking):
        return list(answer.artifact_ids)
    return [item.source if isinstance(item, Edge) else item.artifact_id for item in answer or ()]


def _sequence(count: int) -> list[ArtifactChange]:
    """Return artifacts that `_look_up` finds by their numbers."""
    return [put(f"a{number}", f"word n{number}", links=[Link("x", target_source="else")]) for number in range(count)]


async def _questions_asked_at_once_get_their_own_answers(group: str, fixture: StoreFixture) -> None:
    async def check(number: int) -> None:
        expect_equal(await _look_up(group, store, number), [f"a{number}"], f"the answer to call {number} of 30")

    store = await fixture.open_store(_sequence(30))
    with first_error():
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(check, number)


async def _a_cancelled_question_leaves_the_store_usable(group: str, fixture: StoreFixture) -> None:
    store = await fixture.open_store(_sequence(300))
    for number, delay in enumerate(DELAYS):
        with anyio.move_on_after(delay):
            for other in range(20):
                await _look_up(group, store, other)
        answer = await _look_up(group, store, number)
        expect_equal(answer, [f"a{number}"], f"the answer after a call was cancelled after {delay} s")
    if "apply" in fixture.offers:
        await store.apply([put("a0", "word new")])
        expect_equal(await _look_up(group, store, 1), ["a1"], "the answer after a write")


async def _a_closed_store_answers_nothing_and_closes_again(group: str, fixture: StoreFixture) -> None:
    store = await fixture.open_store(two_artifacts())
    await store.aclose()
    await store.aclose()
    for method in GROUPS[group]:
        if method in fixture.offers:
            call = calls_about(two_artifacts())[method][0].run(store, method)
            await expect_refusal(StoreError, call, f"{method} of a closed store")


@case(CASES, "apply", "aclose", promise="A closed store refuses writes.")
async def _a_closed_store_takes_nothing(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "x")])
    await store.aclose()
    await expect_refusal(StoreError, store.apply([put("b", "x")]), "a write to a closed store")


@case(
    CASES,
    "apply",
    "surface_kinds",
    "has_fields",
    "field_names",
    promise="Surface kinds and fields are those of the present records.",
)
async def _the_schema_is_that_of_the_present_records(fixture: StoreFixture) -> None:
    async def read(store: FullStore) -> tuple[object, ...]:
        return await store.surface_kinds(), await store.has_fields(["b", "a", "a.in", "c"]), await store.field_names()

    store = await fixture.open_store([put("one", "x", kinds=["title"], metadata={"a": {"in": None}})])
    expect_equal(await read(store), (["title"], [False, True, True, False], ["a"]), "the schema of one record")
    await store.apply([put("two", "x", metadata={"b": 1, "a": 2})], removals=["one"])
    expect_equal(await read(store), (["chunk"], [True, True, False, False], ["a", "b"]), "the schema after a write")
    await store.apply([], removals=["two"])
    expect_equal(await read(store), ([], [False] * 4, []), "the schema of an empty store")


async def _what_was_put_is_there_when_opened_again(group: str, fixture: StoreFixture) -> None:
    changes = two_artifacts()
    async with fixture.open(changes) as store:
        await store.apply([put("old", "replaced"), put("more", "x")])
        await store.apply([], removals=["more"])
    async with fixture.open([]) as store:
        expected = await fixture.observe_fresh(group, [changes[0], put("old", "replaced")], changes)
        expect_equal(await fixture.observe(group, store, changes), expected, "after the store was opened again: ")
        await store.apply(changes)
    async with fixture.open([]) as store:
        expected = await fixture.observe_fresh(group, changes, changes)
        expect_equal(await fixture.observe(group, store, changes), expected, "after a write and opening a third time: ")


@case(
    CASES,
    "persistent",
    "config",
    "set_config",
    "calibration",
    "set_calibration",
    promise="Settings and calibration are still there after the store is closed and opened again.",
)
async def _settings_are_there_when_opened_again(fixture: StoreFixture) -> None:
    async with fixture.open([]) as store:
        await store.set_config({"a": [1]})
        await store.set_calibration("k", {"floor": 0.5})
    async with fixture.open([]) as store:
        expect_equal(await store.config(), {"a": [1]}, "config() after opening again")
        expect_equal(await store.calibration(), {"k": {"floor": 0.5}}, "calibration() after opening again")


async def _each_write_is_seen_by_the_next_question_to_another_store(group: str, fixture: StoreFixture) -> None:
    state = _by_id(two_artifacts())
    async with fixture.open([]) as one, fixture.open([]) as two:
        await one.apply(list(state.values()))
        watched = [*state.values(), *(put(f"new{number}", "three") for number in range(6))]
        for step in range(6):
            new = put(f"new{step}", f"three {step}", metadata={"tag": "x"})
            await (one, two)[step % 2].apply([new], removals=[f"new{step - 2}"])
            state.pop(f"new{step - 2}", None)
            state[f"new{step}"] = new
            expected = await fixture.observe_fresh(group, state.values(), watched)
            for ordinal, store in (("first", one), ("second", two)):
                answers = await fixture.observe(group, store, watched)
                expect_equal(answers, expected, f"in the {ordinal} store after {step + 1} writes to both in turn: ")


@case(CASES, "shared", "writing", promise="`writing` locks all stores that are open on the same content.")
async def _one_builder_holds_all_stores_on_the_same_content(fixture: StoreFixture) -> None:
    async with fixture.open([]) as one, fixture.open([]) as two:
        async with one.writing():
            await expect_refusal(StoreBusy, _lock_once(two, 0.05), "a builder in another store on the same content")
        await _lock_once(two, 5)


@case(
    CASES,
    "shared",
    "config",
    "set_config",
    "calibration",
    "set_calibration",
    promise="Settings and calibration are visible at once in another store on the same content.",
)
async def _settings_are_seen_by_another_store(fixture: StoreFixture) -> None:
    async with fixture.open([]) as one, fixture.open([]) as two:
        await one.set_config({"a": 1})
        await two.set_calibration("k", {"floor": 0.5})
        expect_equal(await two.config(), {"a": 1}, "config() of another store")
        expect_equal(await one.calibration("k"), {"floor": 0.5}, "calibration('k') of another store")


_GROUP_CHECKS: Sequence[tuple[Callable[[str, StoreFixture], Awaitable[None]], str, str]] = (
    (_nothing_of_a_refused_write_is_kept, "apply", "A refused write changes nothing"),
    (_a_cancelled_write_is_done_or_was_never_begun, "apply", "A cancelled write is done completely or not at all"),
    (_a_reader_sees_all_of_a_write_or_nothing, "apply", "A reader sees a write completely or not at all"),
    (
        _any_history_ends_as_one_write_of_what_is_left,
        "apply",
        "After any writes, a store answers as if its content had been written at once",
    ),
    (_questions_asked_at_once_get_their_own_answers, "", "Each of several calls at the same time gets its own answer"),
    (_a_cancelled_question_leaves_the_store_usable, "", "A store works normally after a call was cancelled"),
    (
        _a_closed_store_answers_nothing_and_closes_again,
        "aclose",
        "A closed store refuses reads, and closing it again does nothing",
    ),
    (
        _what_was_put_is_there_when_opened_again,
        "persistent apply",
        "The content is still there after the store is closed and opened again",
    ),
    (
        _each_write_is_seen_by_the_next_question_to_another_store,
        "shared apply",
        "A write is visible at once in another store on the same content",
    ),
)
"""Checks that run once for each group of methods, with what they need besides its first method, and their promise."""

CASES += [
    Case(
        f"{check.__name__[1:]}_as_{group}_tell",
        f"{promise} (seen through the methods for {group}).",
        partial(check, group),
        frozenset([*needs.split(), methods[0]]),
    )
    for check, needs, promise in _GROUP_CHECKS
    for group, methods in GROUPS.items()
]
