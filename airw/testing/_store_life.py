"""Cases of settings, the builder's lock, closing, opening again, and several stores open on the same content."""

import math
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio

from airw._base.concurrency import first_error
from airw.errors import StoreBusy, StoreError
from airw.protocols import Store
from airw.testing._exam import expect
from airw.testing._store_tools import (
    VIEWS,
    Asked,
    Opener,
    StoreCase,
    expect_equal,
    expect_refusal,
    fact,
    fact_of_several,
    put,
    store_case,
)
from airw.testing._store_writes import anchored, view_of_fresh

__all__ = ["CASES"]

CASES: list[StoreCase] = []


@fact(CASES, "settings")
async def _a_new_store_has_no_settings_and_no_calibration(store: Store) -> None:
    expect_equal(await store.config(), {}, "config()")
    expect_equal(await store.calibration(), {}, "calibration()")
    expect_equal(await store.calibration("k"), {}, "calibration('k')")


@fact(CASES, "settings")
async def _settings_and_calibrations_are_replaced_whole_and_apart(store: Store) -> None:
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


@fact(CASES, "settings")
async def _no_setting_given_or_received_is_a_handle_on_the_store(store: Store) -> None:
    given: dict[str, Any] = {"tags": [1]}
    await store.set_config(given)
    await store.set_calibration("k", given)
    given["tags"].append(2)
    (await store.config())["tags"].append(3)
    (await store.calibration("k"))["tags"].append(3)
    (await store.calibration())["k"]["tags"].append(3)
    expect_equal(await store.config(), {"tags": [1]}, "config() after changing what was given and received")
    expect_equal(await store.calibration(), {"k": {"tags": [1]}}, "calibration() after changing what was received")


@fact(CASES, "settings")
async def _a_setting_that_is_not_json_is_refused_and_the_old_ones_stay(store: Store) -> None:
    await store.set_config({"a": 1})
    for value in (math.nan, math.inf, {1}, object()):
        await expect_refusal(StoreError, store.set_config({"a": value}), f"set_config with {value!r}")
        await expect_refusal(StoreError, store.set_calibration("k", {"a": value}), f"set_calibration with {value!r}")
    expect_equal(await store.config(), {"a": 1}, "config() after refusals")
    expect_equal(await store.calibration(), {}, "calibration() after refusals")


async def _hold(store: Store, seconds: float) -> None:
    """Take the builder's lock, and give it back."""
    async with store.writing(timeout=seconds):
        pass


@fact(CASES, "writing")
async def _a_second_builder_waits_for_the_first_and_gives_up_in_time(store: Store) -> None:
    async with store.writing():
        start = anyio.current_time()
        error = await expect_refusal(StoreBusy, _hold(store, 0.05), "a second builder that waits 0.05 s")
        waited = anyio.current_time() - start
        expect(isinstance(error, TimeoutError), f"expected a TimeoutError too, got {error!r}")
        expect(0.04 < waited < 5, f"expected StoreBusy after 0.05 s, got it after {waited:.3f} s")
        await expect_refusal(StoreBusy, _hold(store, 0), "a second builder that does not wait")
    await _hold(store, 0)


@fact(CASES, "writing")
async def _builders_take_turns(store: Store) -> None:
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


@fact(CASES, "writing")
async def _a_builder_that_fails_or_is_cancelled_lets_the_next_one_in(store: Store) -> None:
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


@fact(CASES, "closing")
async def _closing_twice_is_harmless_and_a_closed_store_says_so(store: Store) -> None:
    await store.apply([put("a", "x")])
    await store.aclose()
    await store.aclose()
    await expect_refusal(StoreError, store.apply([put("b", "x")]), "a write to a closed store", "closed")


async def _a_closed_store_answers_nothing(capability: str, open_store: Opener) -> None:
    async with open_store() as store:
        await store.apply(anchored())
        await store.aclose()
        call = VIEWS[capability](store, Asked.of(anchored()))
        await expect_refusal(StoreError, call, "a question to a closed store", "closed")


async def _what_was_put_is_there_when_opened_again(capability: str, open_store: Opener) -> None:
    changes = anchored()
    asked = Asked.of(changes)
    async with open_store() as store:
        await store.apply(changes)
        await store.apply([put("old", "gone"), put("more", "x")])
        await store.apply([], removals=["more"])
    async with open_store() as store:
        expected = await view_of_fresh(capability, [changes[0], put("old", "gone")], asked)
        expect_equal(await VIEWS[capability](store, asked), expected, "after opening again: ")
        await store.apply(changes)
    async with open_store() as store:
        expected = await view_of_fresh(capability, changes, asked)
        expect_equal(await VIEWS[capability](store, asked), expected, "after a write, and opening once more: ")


@fact_of_several(CASES, "persistent", "settings")
async def _settings_are_there_when_opened_again(open_store: Opener) -> None:
    async with open_store() as store:
        await store.set_config({"a": [1]})
        await store.set_calibration("k", {"floor": 0.5})
    async with open_store() as store:
        expect_equal(await store.config(), {"a": [1]}, "config() after opening again")
        expect_equal(await store.calibration(), {"k": {"floor": 0.5}}, "calibration() after opening again")


async def _each_write_is_seen_by_the_next_question_to_another_store(capability: str, open_store: Opener) -> None:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(open_store()) for _ in range(2)]
        state = {each.entry.artifact_id: each for each in anchored()}
        await one.apply(list(state.values()))
        asked = Asked.of([*state.values(), *(put(f"new{at}", "three") for at in range(6))])
        for step in range(6):
            new = put(f"new{step}", f"three {step}", metadata={"tag": "x"})
            await (one, two)[step % 2].apply([new], removals=[f"new{step - 2}"])
            state.pop(f"new{step - 2}", None)
            state[f"new{step}"] = new
            expected = await view_of_fresh(capability, state.values(), asked)
            for which, store in (("first", one), ("second", two)):
                found = await VIEWS[capability](store, asked)
                expect_equal(found, expected, f"in the {which} store after {step + 1} writes to both in turn: ")


@fact_of_several(CASES, "shared", "writing")
async def _one_builder_holds_all_stores_on_the_same_content(open_store: Opener) -> None:
    async with open_store() as one, open_store() as two:
        async with one.writing():
            await expect_refusal(StoreBusy, _hold(two, 0.05), "a builder in another store on the same content")
        await _hold(two, 5)


@fact_of_several(CASES, "shared", "settings")
async def _settings_are_seen_by_another_store(open_store: Opener) -> None:
    async with open_store() as one, open_store() as two:
        await one.set_config({"a": 1})
        await two.set_calibration("k", {"floor": 0.5})
        expect_equal(await two.config(), {"a": 1}, "config() of another store")
        expect_equal(await one.calibration("k"), {"floor": 0.5}, "calibration('k') of another store")


CASES += [
    store_case(f"{check.__name__[1:]}_as_{capability}_tell", [needed, capability], partial(check, capability))
    for needed, check in (
        ("closing", _a_closed_store_answers_nothing),
        ("persistent", _what_was_put_is_there_when_opened_again),
        ("shared", _each_write_is_seen_by_the_next_question_to_another_store),
    )
    for capability in VIEWS
]
