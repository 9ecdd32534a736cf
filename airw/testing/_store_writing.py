"""Cases of writing: all or nothing, one state per call, no trace of the way to it; settings, the lock, and closing."""

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
from airw.testing._store_tools import GROUPS, ExaminedStore, FullStore, StoreCase, anchored, questions_about
from airw.testing.changes import put, vector_of
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Edge, Link, Ranking

CASES: list[StoreCase] = []
DELAYS = (0.0, 0.001, 0.003, 0.01)  # seconds until a call is cancelled


@case(CASES, "config", "calibration")
async def _a_new_store_has_no_settings_and_no_calibration(given: ExaminedStore) -> None:
    store = await given.store()
    expect_equal(await store.config(), {}, "config()")
    expect_equal(await store.calibration(), {}, "calibration()")
    expect_equal(await store.calibration("k"), {}, "calibration('k')")


@case(CASES, "apply", "set_config", "config", "set_calibration", "calibration")
async def _settings_and_calibrations_are_replaced_whole_and_apart(given: ExaminedStore) -> None:
    store = await given.store()
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


@case(CASES, "set_config", "set_calibration", "config", "calibration")
async def _no_setting_given_or_received_is_a_handle_on_the_store(given: ExaminedStore) -> None:
    store = await given.store()
    value: dict[str, Any] = {"tags": [1]}
    await store.set_config(value)
    await store.set_calibration("k", value)
    value["tags"].append(2)
    (await store.config())["tags"].append(3)
    (await store.calibration("k"))["tags"].append(3)
    (await store.calibration())["k"]["tags"].append(3)
    expect_equal(await store.config(), {"tags": [1]}, "config() after changing what was given and received")
    expect_equal(await store.calibration(), {"k": {"tags": [1]}}, "calibration() after changing what was received")


@case(CASES, "set_config", "set_calibration", "config", "calibration")
async def _a_setting_that_is_not_json_is_refused_and_the_old_ones_stay(given: ExaminedStore) -> None:
    store = await given.store()
    await store.set_config({"a": 1})
    for value in (math.nan, math.inf, {1}, object()):
        await expect_refusal(StoreError, store.set_config({"a": value}), f"set_config with {value!r}")
        await expect_refusal(StoreError, store.set_calibration("k", {"a": value}), f"set_calibration with {value!r}")
    expect_equal(await store.config(), {"a": 1}, "config() after refusals")
    expect_equal(await store.calibration(), {}, "calibration() after refusals")


async def _hold(store: FullStore, seconds: float) -> None:
    """Take the builder's lock, and give it back."""
    async with store.writing(timeout=seconds):
        pass


@case(CASES, "writing")
async def _a_second_builder_waits_for_the_first_and_gives_up_in_time(given: ExaminedStore) -> None:
    store = await given.store()
    async with store.writing():
        start = anyio.current_time()
        await expect_refusal(StoreBusy, _hold(store, 0.05), "a second builder that waits 0.05 s")
        waited = anyio.current_time() - start
        expect(0.04 < waited < 5, f"expected StoreBusy after 0.05 s, got it after {waited:.3f} s")
        await expect_refusal(StoreBusy, _hold(store, 0), "a second builder that does not wait")
    await _hold(store, 0)


@case(CASES, "apply", "writing")
async def _builders_take_turns(given: ExaminedStore) -> None:
    store = await given.store()

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
    expect_equal([each.split()[1] for each in order], ["begins", "ends"] * 3, f"the turns {order}")


@case(CASES, "writing")
async def _a_builder_that_fails_or_is_cancelled_lets_the_next_one_in(given: ExaminedStore) -> None:
    store = await given.store()
    try:
        async with store.writing():
            raise ZeroDivisionError  # noqa: TRY301 - the lock is to see it pass
    except ZeroDivisionError:
        await _hold(store, 0.5)
    with anyio.move_on_after(0.02):
        async with store.writing():
            await anyio.sleep(30)
    await _hold(store, 0.5)
    async with store.writing():
        with anyio.move_on_after(0.02):
            await _hold(store, 30)
    await _hold(store, 0.5)


async def _nothing_of_a_refused_write_is_kept(group: str, given: ExaminedStore) -> None:
    before, new = anchored(), [put(f"new{at}", "three", metadata={"tag": "x"}, links=[Link("T")]) for at in range(20)]
    asked = [*before, *new]
    store = await given.store(before)
    for bad in (put("new0", "twice"), put("bad\ud800", "x")):
        what = f"a write that ends with {short_repr(bad.entry.artifact_id)}"
        await expect_refusal(StoreError, store.apply([*new, bad], removals=["old"]), what)
        found = await given.see(group, store, asked)
        expect_equal(found, await given.see_fresh(group, before, asked), f"after {what} was refused: ")
    await store.apply(new, removals=["old"])
    expected = await given.see_fresh(group, [before[0], *new], asked)
    expect_equal(await given.see(group, store, asked), expected, "after the same write without its end: ")


async def _a_cancelled_write_is_done_or_was_never_begun(group: str, given: ExaminedStore) -> None:
    state = {each.entry.artifact_id: each for each in anchored()}
    store = await given.store(list(state.values()))
    for step, delay in enumerate(DELAYS):
        new = [
            put(f"new{at}", f"three {step}", metadata={"tag": "x"}, links=[Link("T", f"t{step}")]) for at in range(100)
        ]
        after = {name: each for name, each in state.items() if name != "old"} | {
            each.entry.artifact_id: each for each in new
        }
        asked = [*state.values(), *new[::10]]
        with anyio.move_on_after(delay):
            await store.apply(new, removals=["old"])
        found = await given.see(group, store, asked)
        try:
            expect_equal(found, await given.see_fresh(group, state.values(), asked), "")
        except AssertionError:
            expected = await given.see_fresh(group, after.values(), asked)
            expect_equal(found, expected, f"after a write cancelled at {delay} s, neither undone nor done: ")
            state = after
    await store.apply([put("last", "still usable")])


def _crowd(version: int) -> list[ArtifactChange]:
    """Return forty artifacts that show by every method whether the version is even or odd."""
    text, tag = (("one two", "x"), ("three", "y"))[version % 2]
    return [
        put(f"a{at}", text, version=tag, metadata={"tag": tag}, links=[Link("hub", tag)], names=[[], [tag]])
        for at in range(40)
    ]


async def _a_reader_sees_all_of_a_write_or_nothing(group: str, given: ExaminedStore) -> None:
    crowds = [[put("hub"), *_crowd(version)] for version in (0, 1)]
    one, other = [await given.see_fresh(group, crowd, crowd) for crowd in crowds]

    async def write() -> None:
        for version in range(1, 13):
            await store.apply(_crowd(version))
            await anyio.lowlevel.checkpoint()
        done.set()

    async def look() -> None:
        while not done.is_set():
            for question, answer in (await given.see(group, store, crowds[0])).items():
                try:
                    expect_equal(answer, one[question], question)
                except AssertionError:
                    expect_equal(answer, other[question], f"between two versions of 41 artifacts, {question}")
            await anyio.lowlevel.checkpoint()

    done = anyio.Event()
    store = await given.store(crowds[0])
    with first_error():
        async with anyio.create_task_group() as tasks:
            for task in (write, look, look):
                tasks.start_soon(task)


async def _any_history_ends_as_one_write_of_what_is_left(group: str, given: ExaminedStore) -> None:
    """What was asked on the way must not matter either."""
    random = np.random.default_rng(3)
    history = list(_history(random))
    asked = [*anchored(), *(each for puts, _ in history for each in puts)]
    state = {each.entry.artifact_id: each for each in anchored()[:1]}
    store = await given.store(list(state.values()))
    for step, (puts, removals) in enumerate(history):
        await store.apply(puts, removals=removals)
        state = {name: each for name, each in state.items() if name not in removals}
        state |= {each.entry.artifact_id: each for each in puts}
        expected = await given.see_fresh(group, state.values(), asked)
        expect_equal(await given.see(group, store, asked), expected, f"after {step + 1} writes: ")


def _history(random: np.random.Generator) -> Iterable[tuple[list[ArtifactChange], list[str]]]:
    for _ in range(15):
        names = random.choice(list("abcdef"), 3, replace=False)
        yield (
            [_drawn(random, str(name)) for name in names[: random.integers(1, 4)]],
            [str(random.choice(list("abcdef")))],
        )


def _drawn(random: np.random.Generator, name: str) -> ArtifactChange:
    def some(choices: Sequence[Any], most: int) -> list[Any]:
        return [choices[at] for at in random.integers(0, len(choices), random.integers(0, most + 1))]

    texts = [" ".join(some(["one", "two", "three", "four"], 4)) for _ in range(random.integers(0, 4))]
    links = [
        Link(
            ref,
            str(random.choice(["r", "q"])),
            target_source=("else" if random.integers(0, 6) == 0 else None),
            or_ref=next(iter(some(["b", "d", "T", "U"], 1)), None),
        )
        for ref in some(["a", "b", "c", "T", "U"], 3)
    ]
    metadata = {"tag": some(["x", "y", ["x", "z"], None, 1], 1) or "x"}
    names = [some(["T", "U", "a"], 1) for _ in range(random.integers(0, 3))]
    version = str(random.integers(0, 100))
    return put(name, *texts, kinds=("title", "chunk"), metadata=metadata, links=links, names=names, version=version)


_ASK: Mapping[str, Callable[[FullStore, int], Awaitable[Any]]] = {
    "records": lambda store, at: store.records_of([f"a{at}"]),
    "vectors": lambda store, at: store.search_vectors(vector_of(f"word n{at}")[None], 1),
    "text": lambda store, at: store.search_text([f"n{at}"], 5),
    "links": lambda store, at: store.neighbors([f"a{at}"]),
}


async def _find(group: str, store: FullStore, at: int) -> list[object]:
    """Return the ids of the artifacts that the store tells of when it is asked about one of `_numbered`."""
    [found] = await _ASK[group](store, at)
    if isinstance(found, Ranking):
        return list(found.artifact_ids)
    return [each.source if isinstance(each, Edge) else each.artifact_id for each in found or ()]


def _numbered(count: int) -> list[ArtifactChange]:
    """Return artifacts that `_find` finds by their numbers."""
    return [put(f"a{at}", f"word n{at}", links=[Link("x", target_source="else")]) for at in range(count)]


async def _questions_asked_at_once_get_their_own_answers(group: str, given: ExaminedStore) -> None:
    async def ask(at: int) -> None:
        expect_equal(await _find(group, store, at), [f"a{at}"], f"the answer to question {at} of 30")

    store = await given.store(_numbered(30))
    with first_error():
        async with anyio.create_task_group() as tasks:
            for at in range(30):
                tasks.start_soon(ask, at)


async def _a_cancelled_question_leaves_the_store_usable(group: str, given: ExaminedStore) -> None:
    store = await given.store(_numbered(300))
    for at, delay in enumerate(DELAYS):
        with anyio.move_on_after(delay):
            for other in range(20):
                await _find(group, store, other)
        expect_equal(await _find(group, store, at), [f"a{at}"], f"the answer after one cancelled at {delay} s")
    if "apply" in given.offers:
        await store.apply([put("a0", "word new")])
        expect_equal(await _find(group, store, 1), ["a1"], "the answer after a write")


async def _a_closed_store_answers_nothing_and_closes_again(group: str, given: ExaminedStore) -> None:
    store = await given.store(anchored())
    await store.aclose()
    await store.aclose()
    for method in GROUPS[group]:
        if method in given.offers:
            call = questions_about(anchored())[method][0].put_to(store, method)
            await expect_refusal(StoreError, call, f"{method} of a closed store")


@case(CASES, "apply", "aclose")
async def _a_closed_store_takes_nothing(given: ExaminedStore) -> None:
    store = await given.store([put("a", "x")])
    await store.aclose()
    await expect_refusal(StoreError, store.apply([put("b", "x")]), "a write to a closed store")


async def _what_was_put_is_there_when_opened_again(group: str, given: ExaminedStore) -> None:
    changes = anchored()
    async with given.open(changes) as store:
        await store.apply([put("old", "gone"), put("more", "x")])
        await store.apply([], removals=["more"])
    async with given.open([]) as store:
        expected = await given.see_fresh(group, [changes[0], put("old", "gone")], changes)
        expect_equal(await given.see(group, store, changes), expected, "after opening again: ")
        await store.apply(changes)
    async with given.open([]) as store:
        expected = await given.see_fresh(group, changes, changes)
        expect_equal(await given.see(group, store, changes), expected, "after a write, and opening once more: ")


@case(CASES, "persistent", "config", "set_config", "calibration", "set_calibration")
async def _settings_are_there_when_opened_again(given: ExaminedStore) -> None:
    async with given.open([]) as store:
        await store.set_config({"a": [1]})
        await store.set_calibration("k", {"floor": 0.5})
    async with given.open([]) as store:
        expect_equal(await store.config(), {"a": [1]}, "config() after opening again")
        expect_equal(await store.calibration(), {"k": {"floor": 0.5}}, "calibration() after opening again")


async def _each_write_is_seen_by_the_next_question_to_another_store(group: str, given: ExaminedStore) -> None:
    state = {each.entry.artifact_id: each for each in anchored()}
    async with given.open([]) as one, given.open([]) as two:
        await one.apply(list(state.values()))
        asked = [*state.values(), *(put(f"new{at}", "three") for at in range(6))]
        for step in range(6):
            new = put(f"new{step}", f"three {step}", metadata={"tag": "x"})
            await (one, two)[step % 2].apply([new], removals=[f"new{step - 2}"])
            state.pop(f"new{step - 2}", None)
            state[f"new{step}"] = new
            expected = await given.see_fresh(group, state.values(), asked)
            for which, store in (("first", one), ("second", two)):
                found = await given.see(group, store, asked)
                expect_equal(found, expected, f"in the {which} store after {step + 1} writes to both in turn: ")


@case(CASES, "shared", "writing")
async def _one_builder_holds_all_stores_on_the_same_content(given: ExaminedStore) -> None:
    async with given.open([]) as one, given.open([]) as two:
        async with one.writing():
            await expect_refusal(StoreBusy, _hold(two, 0.05), "a builder in another store on the same content")
        await _hold(two, 5)


@case(CASES, "shared", "config", "set_config", "calibration", "set_calibration")
async def _settings_are_seen_by_another_store(given: ExaminedStore) -> None:
    async with given.open([]) as one, given.open([]) as two:
        await one.set_config({"a": 1})
        await two.set_calibration("k", {"floor": 0.5})
        expect_equal(await two.config(), {"a": 1}, "config() of another store")
        expect_equal(await one.calibration("k"), {"floor": 0.5}, "calibration('k') of another store")


_LAWS: Sequence[tuple[Callable[[str, ExaminedStore], Awaitable[None]], str]] = (
    (_nothing_of_a_refused_write_is_kept, "apply"),
    (_a_cancelled_write_is_done_or_was_never_begun, "apply"),
    (_a_reader_sees_all_of_a_write_or_nothing, "apply"),
    (_any_history_ends_as_one_write_of_what_is_left, "apply"),
    (_questions_asked_at_once_get_their_own_answers, ""),
    (_a_cancelled_question_leaves_the_store_usable, ""),
    (_a_closed_store_answers_nothing_and_closes_again, "aclose"),
    (_what_was_put_is_there_when_opened_again, "persistent apply"),
    (_each_write_is_seen_by_the_next_question_to_another_store, "shared apply"),
)
"""What is asked once for each group of methods that shows content, with what it needs besides the first of them."""

CASES += [
    Case.of(f"{law.__name__[1:]}_as_{group}_tell", partial(law, group), [*needs.split(), methods[0]])
    for law, needs in _LAWS
    for group, methods in GROUPS.items()
]
