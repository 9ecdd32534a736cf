"""Cases of reading: a store answers as a `MemoryStore` of the same content, and refuses what it cannot take."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from airw.errors import ArgumentError, EmbedderMismatch, StoreError
from airw.stores import MemoryStore
from airw.testing._store_tools import GROUPS, ExaminedStore, StoreCase, linked, named, questions_about, rich
from airw.testing.changes import EAST, put, record_id
from airw.testing.exam import Case, case, expect_equal, expect_refusal
from airw.values import ArtifactChange

CASES: list[StoreCase] = []


async def _answers_as_a_memory_store_does(method: str, held: list[ArtifactChange], given: ExaminedStore) -> None:
    """Where the store can be written, also before it holds anything."""
    questions = questions_about(held)[method]
    is_written = "apply" in given.offers
    store = await given.store([] if is_written else held)
    async with MemoryStore() as fresh:
        if is_written:
            for question in questions:
                expected = await question.put_to(fresh, method)
                expect_equal(await question.put_to(store, method), expected, f"{method}{question} of an empty store")
            await store.apply(held)
        await fresh.apply(held)
        for question in questions:
            expected = await question.put_to(fresh, method)
            expect_equal(await question.put_to(store, method), expected, f"{method}{question}")


CASES += [
    Case(
        f"{method}_answers_as_a_memory_store_does",
        f"`{method}` answers as that of a `MemoryStore` with the same content.",
        partial(_answers_as_a_memory_store_does, method, held),
        frozenset([method]),
    )
    for held, methods in (
        (rich(), [*GROUPS["records"], *GROUPS["vectors"], *GROUPS["text"], "neighbors", "matching"]),
        (named(), ["resolve", "referrers", "fan_in", "max_fan_in", "unresolved_links", "link_counts"]),
    )
    for method in methods
]


@case(CASES, "neighbors", "resolve")
async def _edges_lead_to_what_names_mean_where_that_is_one_artifact(given: ExaminedStore) -> None:
    await _answers_as_a_memory_store_does("neighbors", named(), given)


async def _thousands_are_asked_about_in_one_call(method: str, given: ExaminedStore) -> None:
    """More than any database takes as separate parameters."""
    changes = linked()[:3]
    ids = [record_id(each.entry.artifact_id) if method == "get_records" else each.entry.artifact_id for each in changes]
    asked = [*(f"absent {at}" for at in range(40_000)), *ids]
    store = await given.store(changes)
    async with MemoryStore() as fresh:
        await fresh.apply(changes)
        expected = await getattr(fresh, method)(asked)
    expect_equal(await getattr(store, method)(asked), expected, f"{method} of 40,003 ids")


CASES += [
    Case.of(
        f"thousands_are_asked_about_in_one_call_of_{method}",
        partial(_thousands_are_asked_about_in_one_call, method),
        [method],
    )
    for method in ("get_records", "records_of", "neighbors", "resolve")
]


@case(CASES, "neighbors")
async def _a_direction_that_does_not_exist_is_refused(given: ExaminedStore) -> None:
    store = await given.store(linked())
    direction: Any = "upwards"
    await expect_refusal(ArgumentError, store.neighbors(["a"], direction=direction), "direction='upwards'", direction)


@case(CASES, "search_vectors")
async def _a_query_of_another_width_is_refused_naming_both(given: ExaminedStore) -> None:
    store = await given.store([put("a", "x")])
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "search_vectors": lambda: store.search_vectors(EAST, 5),
        "similarities": lambda: store.similarities(EAST[0], [record_id("a")]),
        "best_of": lambda: store.best_of(EAST[0], ["a"]),
    }
    for method, call in calls.items():
        if method in given.offers:
            await expect_refusal(EmbedderMismatch, call(), f"{method}, 2 wide instead of 4", "2", "4")


@case(CASES, "apply", "records_of", "search_vectors")
async def _what_no_store_can_hold_is_refused_in_one_line_and_nothing_of_the_call_is_kept(given: ExaminedStore) -> None:
    kept = put("kept", "one")
    store = await given.store([kept])
    bad = {
        "an artifact put twice": put("good", "twice"),
        "an id with a lone surrogate": put("\ud800", "x"),
        "an id with NUL": put("b\0d", "x"),
        "a text with a lone surrogate": put("bad", "lone \ud800 surrogate"),
        "metadata with a lone surrogate": put("bad", "x", metadata={"k": ["\ud800"]}),
        "a vector with NaN": put("bad", "x", vectors=[[1.0, math.nan, 0.0, 0.0]]),
        "a vector with infinity": put("bad", "x", vectors=[[math.inf, 0.0, 0.0, 0.0]]),
        "a vector of another width": put("bad", "x", dim=3),
        "two vectors for one record": replace(put("bad", "x"), vectors=np.zeros((2, 4), np.float32)),
    }
    for what, change in bad.items():
        call = store.apply([put("good", "three"), change], removals=["kept"])
        await expect_refusal(StoreError, call, what)
        found = await store.records_of(["kept", "good", "bad"])
        expect_equal(found, [list(kept.records), None, None], f"records after {what} was refused")
        [ranking] = await store.search_vectors(kept.vectors, 10)
        expect_equal(list(ranking.artifact_ids), ["kept"], f"artifacts found after {what} was refused")
    await store.apply([put("good", "three")])
    expect_equal([group is None for group in await store.records_of(["kept", "good"])], [False] * 2, "a good write")


@case(CASES, "apply", "records_of")
async def _metadata_comes_back_as_json(given: ExaminedStore) -> None:
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), "yes": True, "big": 2**63 + 1}
    store = await given.store([put("a", "t", metadata=odd)])
    found = [each.metadata for group in await store.records_of(["a"]) for each in group or ()]
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "yes": True, "big": 2**63 + 1}
    expect_equal(found, [expected], "metadata")


@case(CASES, "apply", "records_of")
async def _nothing_given_or_received_is_a_handle_on_the_records(given: ExaminedStore) -> None:
    metadata = {"tags": ["x"]}
    store = await given.store([put("a", "text", metadata=metadata)])
    metadata["tags"].append("given")
    for group in await store.records_of(["a"]):
        for record in group or ():
            if isinstance(record.metadata, dict):
                record.metadata["tags"].append("received")
    found = [each.metadata for group in await store.records_of(["a"]) for each in group or ()]
    expect_equal(found, [{"tags": ["x"]}], "metadata after changing what was given and received")
