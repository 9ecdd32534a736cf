"""Cases of reading: a store answers as a `MemoryStore` does and refuses invalid values."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from airw.errors import ArgumentError, EmbedderMismatch, StoreError
from airw.stores import MemoryStore
from airw.testing._store_tools import (
    GROUPS,
    StoreCall,
    StoreCase,
    StoreFixture,
    artifacts_with_links,
    artifacts_with_names,
    calls_about,
    diverse_artifacts,
)
from airw.testing.changes import EAST, put, record_id
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Language, Link, Ranking, TermCounts

CASES: list[StoreCase] = []


async def _answers_as_a_memory_store_does(method: str, content: list[ArtifactChange], fixture: StoreFixture) -> None:
    calls = calls_about(content)[method]
    is_writable = "apply" in fixture.offers
    store = await fixture.open_store([] if is_writable else content)
    async with MemoryStore() as fresh:
        # An empty store must answer too, and must not remember that answer after a write.
        if is_writable:
            for call in calls:
                expected = await call.run(fresh, method)
                expect_equal(await call.run(store, method), expected, f"{method}{call} of an empty store")
            await store.apply(content)
        await fresh.apply(content)
        for call in calls:
            expected = await call.run(fresh, method)
            expect_equal(await call.run(store, method), expected, f"{method}{call}")


CASES += [
    Case(
        f"{method}_answers_as_a_memory_store_does",
        f"`{method}` returns the same as that of a `MemoryStore` with the same content.",
        partial(_answers_as_a_memory_store_does, method, content),
        frozenset([method, "artifact_numbers"] if method == "neighbor_columns" else [method]),
    )
    for content, methods in (
        (
            diverse_artifacts(),
            [*GROUPS["records"], *GROUPS["vectors"], *GROUPS["text"], "neighbors", "neighbor_columns", "matching"],
        ),
        (diverse_artifacts(), ["surface_kinds", "has_fields", "field_names"]),
        (artifacts_with_names(), ["resolve", "referrers", "fan_in", "max_fan_in", "unresolved_links", "link_counts"]),
    )
    for method in methods
]


@case(CASES, "neighbors", "resolve", promise="A link by name is an edge if the name belongs to exactly one artifact.")
async def _edges_lead_to_what_names_mean_where_that_is_one_artifact(fixture: StoreFixture) -> None:
    await _answers_as_a_memory_store_does("neighbors", artifacts_with_names(), fixture)


@case(
    CASES,
    "neighbor_columns",
    "artifact_numbers",
    "neighbors",
    promise="`neighbor_columns` returns the edges of `neighbors` in the same order, under every filter.",
)
async def _columns_have_the_edges_of_neighbors(fixture: StoreFixture) -> None:
    for content in (diverse_artifacts(), artifacts_with_names()):
        store = await fixture.open_store(content)
        for call in calls_about(content)["neighbors"]:
            expected = await call.run(store, "neighbors")
            expect_equal(await call.run(store, "neighbor_columns"), expected, f"neighbor_columns{call}")


@case(
    CASES,
    "neighbor_columns",
    "artifact_numbers",
    promise="`artifact_numbers` returns -1 for an unknown id; `neighbor_columns` refuses numbers, directions and limits"
    " that do not exist.",
)
async def _numbers_that_nothing_has_are_refused(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "x", links=[Link("b")]), put("b", "x")])
    numbers = await store.artifact_numbers(["a", "none", "a", "\ud800", "nul\0"])
    expect_equal(numbers[[1, 3, 4]].tolist(), [-1, -1, -1], "the numbers of unknown ids")
    expect(numbers[0] == numbers[2] >= 0, f"one id has the numbers {numbers[0]} and {numbers[2]}")
    columns = await store.neighbor_columns(numbers)
    expect_equal(columns.offsets.tolist(), [0, 1, 1, 2, 2, 2], "the offsets of known and unknown artifacts")
    expect_equal([columns.nodes[end] for end in columns.ends], ["b", "b"], "the names of the ends")
    bad: list[tuple[list[int], dict[str, Any]]] = [([1 << 40], {}), ([], {"direction": "up"}), ([], {"limit": -1})]
    for chosen, options in bad:
        await expect_refusal(
            ArgumentError, store.neighbor_columns(chosen, **options), f"neighbor_columns({chosen}, {options})"
        )


async def _thousands_are_asked_about_in_one_call(method: str, fixture: StoreFixture) -> None:
    # More ids than SQLite and other databases accept as parameters of one statement.
    changes = artifacts_with_links()[:3]
    artifact_ids = [change.entry.artifact_id for change in changes]
    present = [*map(record_id, artifact_ids)] if method == "get_records" else artifact_ids
    ids = [*(f"absent {number}" for number in range(40_000)), *present]
    store = await fixture.open_store(changes)
    async with MemoryStore() as fresh:
        await fresh.apply(changes)
        expected = await getattr(fresh, method)(ids)
    expect_equal(await getattr(store, method)(ids), expected, f"{method} of 40,003 ids")


CASES += [
    Case(
        f"thousands_are_asked_about_in_one_call_of_{method}",
        f"`{method}` accepts tens of thousands of ids in one call.",
        partial(_thousands_are_asked_about_in_one_call, method),
        frozenset([method]),
    )
    for method in ("get_records", "records_of", "neighbors", "resolve")
]


@case(
    CASES,
    "term_statistics",
    "search_text",
    promise="With the word counts of several stores, scores are, to the last bit, those of one store with all records.",
)
async def _searches_with_pooled_counts_rank_as_one_store(fixture: StoreFixture) -> None:
    content = diverse_artifacts()
    here, there = content[::2], content[1::2]
    is_writable = "apply" in fixture.offers
    store = await fixture.open_store([] if is_writable else here)
    if is_writable:
        await store.apply(here)
    calls = calls_about(content)["search_text"]
    async with MemoryStore() as other, MemoryStore() as whole:
        await other.apply(there)
        await whole.apply(content)
        for call in calls:
            queries, k = call.arguments
            pooled = TermCounts.sum([await each.term_statistics(queries) for each in (store, other)])
            parts = [await each.search_text(queries, k, **call.options, statistics=pooled) for each in (store, other)]
            expected = await whole.search_text(queries, k, **call.options)
            for query, one, two, ranking in zip(queries, *parts, expected, strict=True):
                # By score, then artifact. A stable sort, so that ties within an artifact keep their order.
                got = sorted(_rank_keys(one) + _rank_keys(two), key=lambda row: row[:2])[:k]
                expect_equal(got, _rank_keys(ranking), f"search_text{call} with pooled counts, for {query!r}")


def _rank_keys(ranking: Ranking) -> list[tuple[float, str, str]]:
    """Return the rows of a ranking as tuples that sort by score, then by artifact."""
    scores = (-np.asarray(ranking.scores, np.float64)).tolist()
    return list(zip(scores, ranking.artifact_ids, ranking.record_ids, strict=True))


@case(
    CASES,
    "language",
    "set_language",
    "apply",
    "term_statistics",
    "search_text",
    promise="After `set_language`, and after writes that follow, words and scores are those of a new store.",
)
async def _texts_are_indexed_again_for_another_language(fixture: StoreFixture) -> None:
    content = [*diverse_artifacts(), put("walk", "walking the keys"), put("walks", "keys that walked")]
    calls = [*calls_about(content)["search_text"], StoreCall((["walks", "the key", "that"], 50), {})]
    store = await fixture.open_store(content[::2])
    steps: list[tuple[Language | None, list[ArtifactChange]]] = [(None, content[::2]), ("en", content)]
    for language, present in steps:
        await store.set_language(language)
        await store.apply(present)
        expect_equal(await store.language(), language, "the language")
        async with MemoryStore(language=language) as fresh:
            await fresh.apply(present)
            for call in calls:
                got = [_rank_keys(ranking) for ranking in await store.search_text(*call.arguments, **call.options)]
                expected = [_rank_keys(each) for each in await fresh.search_text(*call.arguments, **call.options)]
                expect_equal(got, expected, f"search_text{call} in the language {language!r}")


@case(
    CASES,
    "term_statistics",
    "search_text",
    promise="`search_text` refuses word counts of another formula or of other queries, and names what is wrong.",
)
async def _counts_that_do_not_fit_are_refused(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "rotate the keys")])
    counts = await store.term_statistics(["keys"])
    bad: dict[str, tuple[Any, str]] = {
        "counts of other queries": (counts, "'rotat"),  # in a language, its stem
        "counts of another formula": (replace(counts, formula="tf-idf"), "'tf-idf'"),
        "a mapping instead of counts": ({"keys": 1}, "TermCounts"),
    }
    for fault, (statistics, named) in bad.items():
        call = store.search_text(["rotate keys"], 5, statistics=statistics)
        await expect_refusal(ArgumentError, call, f"search_text with {fault}", "statistics", named)


@case(CASES, "neighbors", promise="`neighbors` refuses an unknown direction and names it.")
async def _a_direction_that_does_not_exist_is_refused(fixture: StoreFixture) -> None:
    store = await fixture.open_store(artifacts_with_links())
    direction: Any = "upwards"
    await expect_refusal(ArgumentError, store.neighbors(["a"], direction=direction), "direction='upwards'", direction)


_LIMITED: dict[str, tuple[list[Any], ...]] = {
    "records_of": (["a"],),
    "neighbors": (["a"],),
    "matching": ([("tag", "x")],),
    "unresolved_links": (),
}


async def _a_limit_below_zero_is_refused(method: str, fixture: StoreFixture) -> None:
    store = await fixture.open_store(artifacts_with_links())
    for arguments in (_LIMITED[method], *([([],)] if _LIMITED[method] else [])):
        call = getattr(store, method)(*arguments, limit=-1)
        await expect_refusal(ArgumentError, call, f"{method} with limit=-1", "limit", "-1")


CASES += [
    Case(
        f"a_limit_below_zero_is_refused_by_{method}",
        f"`{method}` refuses a negative limit and names it.",
        partial(_a_limit_below_zero_is_refused, method),
        frozenset([method]),
    )
    for method in _LIMITED
]


@case(
    CASES,
    "search_vectors",
    promise="A query vector of the wrong width is refused with a message that names both widths.",
)
async def _a_query_of_another_width_is_refused_naming_both(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "x")])
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "search_vectors": lambda: store.search_vectors(EAST, 5),
        "similarities": lambda: store.similarities(EAST[0], [record_id("a")]),
        "best_of": lambda: store.best_of(EAST[0], ["a"]),
    }
    for method, call in calls.items():
        if method in fixture.offers:
            await expect_refusal(EmbedderMismatch, call(), f"{method} with a query of width 2 instead of 4", "2", "4")


@case(
    CASES,
    "apply",
    "records_of",
    "search_vectors",
    promise="A write with a value that cannot be stored is refused, and changes nothing.",
)
async def _what_no_store_can_hold_is_refused_in_one_line_and_nothing_of_the_call_is_kept(fixture: StoreFixture) -> None:
    existing = put("kept", "one")
    store = await fixture.open_store([existing])
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
    for fault, change in bad.items():
        call = store.apply([put("good", "three"), change], removals=["kept"])
        await expect_refusal(StoreError, call, fault)
        records = await store.records_of(["kept", "good", "bad"])
        expect_equal(records, [list(existing.records), None, None], f"records after {fault} was refused")
        [ranking] = await store.search_vectors(existing.vectors, 10)
        expect_equal(list(ranking.artifact_ids), ["kept"], f"hits of a search after {fault} was refused")
    await store.apply([put("good", "three")])
    groups = await store.records_of(["kept", "good"])
    expect_equal([group is None for group in groups], [False, False], "artifacts missing after a valid write")


@case(CASES, "apply", "records_of", promise="Metadata are returned as JSON values.")
async def _metadata_comes_back_as_json(fixture: StoreFixture) -> None:
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), "yes": True, "big": 2**63 + 1}
    store = await fixture.open_store([put("a", "t", metadata=odd)])
    metadata = [record.metadata for records in await store.records_of(["a"]) for record in records or ()]
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "yes": True, "big": 2**63 + 1}
    expect_equal(metadata, [expected], "metadata")


@case(
    CASES,
    "apply",
    "records_of",
    promise="Changing metadata after they were passed in or returned does not change the store.",
)
async def _nothing_given_or_received_is_a_handle_on_the_records(fixture: StoreFixture) -> None:
    metadata = {"tags": ["x"]}
    store = await fixture.open_store([put("a", "text", metadata=metadata)])
    metadata["tags"].append("passed")
    for records in await store.records_of(["a"]):
        for record in records or ():
            if isinstance(record.metadata, dict):
                record.metadata["tags"].append("returned")
    stored = [record.metadata for records in await store.records_of(["a"]) for record in records or ()]
    expect_equal(stored, [{"tags": ["x"]}], "metadata after the passed and the returned values were changed")
