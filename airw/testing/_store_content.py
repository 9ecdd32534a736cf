"""Cases of any store: one that the exam fills, and one whose content its author names."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from typing import Any

import anyio
import numpy as np

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import ArgumentError, EmbedderMismatch, StoreError
from airw.protocols import (
    CAPABILITIES,
    Best,
    Change,
    Edges,
    Ends,
    Fed,
    Names,
    Rank,
    Records,
    RecordsOf,
    Request,
    VectorsOf,
    ask,
    fill,
)
from airw.stores import MemoryStore
from airw.testing._store_tools import (
    DELAYS,
    StoreCase,
    StoreFixture,
    describe,
    diverse_artifacts,
    read_all,
    requests_about,
    to_comparable,
    two_artifacts,
    width_of,
)
from airw.testing.changes import put, vector_of
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Ranking, Record
from airw.values.filters import matches

CASES: list[StoreCase] = []


async def _answers_are_right_or_refused(capability: str, fixture: StoreFixture) -> None:
    content = fixture.content or ()
    records = {record.id: record for change in content for record in change.records}
    store = await fixture.open_store()
    is_scored_by_author = capability == "lexical" and "words" not in fixture.offers
    wholes, plain = dict[str, Ranking](), set[type]()
    is_one_way = False
    async with MemoryStore() as memory:
        await memory.apply(Change(content))
        requests: list[Any] = [request for request in requests_about(content) if request.needs == capability]
        for request in requests:
            try:
                answer = await ask(store, request)
            except ArgumentError as error:
                name = _find_refused(request, error)
                # Whoever cannot answer with an option answers without it.
                expect(name and type(request) in plain, f"{describe(request)}: expected an answer, got {error!r}")
                is_one_way |= name == "direction"
                continue
            plain.add(type(request))
            if is_scored_by_author:
                _check_rankings(request, answer, records, wholes)
                continue
            is_out = is_one_way and isinstance(request, Edges) and request.direction == "both"
            expected = await ask(memory, replace(request, direction="out") if is_out else request)
            expect_equal(to_comparable(answer), to_comparable(expected), describe(request))


def _find_refused(request: Request[Any], error: ArgumentError) -> str | None:
    """Return the option of a request that an error names, if the request has it."""
    options = [item for item in fields(request) if item.default is not MISSING]  # type: ignore[arg-type]
    given = [item.name for item in options if getattr(request, item.name) is not item.default]
    return next((name for name in given if str(error).startswith(f"{name} ")), None)


def _check_rankings(
    request: Any, rankings: Sequence[Ranking], records: Mapping[str, Record], wholes: dict[str, Ranking]
) -> None:
    """Check rankings whose scores are the author's.

    Args:
        request: The request.
        rankings: The answer.
        records: The records of the store, by id.
        wholes: Longer rankings, by query; this adds some.
    """
    expect_equal(len(rankings), len(request.queries), f"the number of rankings of {describe(request)}")
    kept = {
        id: record.artifact_id
        for id, record in records.items()
        if matches(request.filter, record.metadata)
        and (request.surfaces is None or record.surface_kind in request.surfaces)
        and (request.among is None or record.artifact_id in request.among)
        and (request.records is None or id in request.records)
    }
    is_whole = len(kept) == len(records) and not request.per_artifact
    for query, ranking in zip(request.queries, rankings, strict=True):
        where = f"{short_repr(query)} in {describe(request)}: "
        record_ids, scores = [*ranking.record_ids], np.asarray(ranking.scores, np.float64)
        ids = ranking.artifact_ids if request.per_artifact else record_ids
        # What was not asked for, and what is not there, has no artifact here.
        expect_equal([*ranking.artifact_ids], [*map(kept.get, record_ids)], f"{where}artifacts")
        expect_equal(
            (len(scores), len({*ids})), (len(ids), len(ids)), f"{where}the number of scores and of different ids"
        )
        expect(np.isfinite(scores).all() and (np.diff(scores) <= 0).all(), f"{where}expected falling scores: {scores}")
        whole = [*wholes.setdefault(query, ranking).record_ids] if is_whole else record_ids
        expect_equal(record_ids, whole[: request.k], f"{where}the first of a longer ranking")


OF_CONTENT: list[StoreCase] = [
    Case(
        f"{capability}_of_the_content_are_right",
        f"Requests for {capability} are answered right for the content, or refused by an error that names the option.",
        partial(_answers_are_right_or_refused, capability),
        frozenset([capability]),
    )
    for capability in sorted(CAPABILITIES - {"writing"})
]


@case(CASES, promise="A store offers what it was said to offer, and refuses any other request by its name.")
async def _what_is_not_offered_is_refused_by_name(fixture: StoreFixture) -> None:
    content = fixture.choose([put("a", "x")])
    store = await fixture.open_store(content)
    requests = requests_about(content)
    offered = sorted(fixture.offers & {"writing", *(request.needs for request in requests)})
    expect_equal(sorted(store.capabilities), offered, "capabilities")
    for request in requests:
        if request.needs not in offered:
            await expect_refusal(ArgumentError, store.read(request), describe(request), type(request).__name__)
    if "writing" not in offered:
        await expect_refusal(ArgumentError, store.apply(Change()), "a write to a read-only store")


def _make_chains(content: Sequence[ArtifactChange]) -> Mapping[str, Sequence[Request[Any]]]:
    ids, dim = sorted(change.entry.artifact_id for change in content), width_of(content)
    edges = Edges([*ids[:2], "absent", "a", "A"], "both", limit=5)
    scores = Fed(
        Rank(vector_of("one two", dim)[None], among=(), per_artifact=True),
        Ends(edges, limit=2, without=["b", *ids[2:3]]),
    )
    nearest = Rank(vector_of("three", dim)[None], 3)
    return {
        "step": [edges, scores, Fed(Records(()), Best(scores, limit=1))],
        "walk": [edges, Fed(Edges((), "both"), Ends(edges)), Fed(RecordsOf((), limit=1), Ends(edges, limit=4))],
        "map": [edges, Fed(VectorsOf(()), Ends(edges))],
        "search": [nearest, Fed(Records(()), Best(nearest, limit=2))],
        "comparison": [nearest, Fed(Rank(vector_of("one", dim)[None], records=()), Best(nearest))],
    }


async def _a_chain_equals_its_parts(name: str, fixture: StoreFixture) -> None:
    content = fixture.choose(diverse_artifacts())
    store = await fixture.open_store(content)
    chain, parts = _make_chains(content)[name], dict[int, Any]()
    for request in chain:
        parts[id(request)] = await ask(store, fill(request, parts))
    for request, answer in zip(chain, await store.read(*chain), strict=True):
        expect_equal(to_comparable(answer), to_comparable(parts[id(request)]), f"{describe(request)} of a chain")
    await expect_refusal(ArgumentError, store.read(*chain[::-1]), "a chain that begins with its end")


CASES += [
    Case(
        f"a_{name}_as_a_chain_equals_its_parts",
        f"A {name} in one call, as a chain, is answered as its requests one by one.",
        partial(_a_chain_equals_its_parts, name),
        frozenset(request.needs for request in chain),
    )
    for name, chain in _make_chains(()).items()
]


async def _thousands_are_asked_about_at_once(kind: Any, fixture: StoreFixture) -> None:
    # More ids than SQLite and other databases accept as parameters of one statement.
    content = fixture.choose(diverse_artifacts()[:3])
    names = [change.entry.artifact_id for change in content]
    records = [record.id for change in content for record in change.records]
    request = kind([*(f"absent {number}" for number in range(40_000)), *names, *records])
    store = await fixture.open_store(content)
    async with MemoryStore() as fresh:
        await fresh.apply(Change(content))
        expect_equal(await ask(store, request), await ask(fresh, request), f"{describe(request)} of 40,000 ids")


CASES += [
    Case(
        f"thousands_of_{name}_are_asked_about_at_once",
        f"One request asks for the {name.replace('_', ' ')} of tens of thousands of ids.",
        partial(_thousands_are_asked_about_at_once, kind),
        frozenset([kind([]).needs]),
    )
    for name, kind in {"records": Records, "records_of_artifacts": RecordsOf, "edges": Edges, "names": Names}.items()
]


async def _a_query_of_another_width_is_refused_naming_both(capability: str, fixture: StoreFixture) -> None:
    content = fixture.choose([put("a", "x")])
    store, dim = await fixture.open_store(content), width_of(content)
    records = [record.id for change in content for record in change.records] if capability == "scores" else None
    call = ask(store, Rank(np.ones((1, dim + 1), np.float32), 5, records=records))
    await expect_refusal(EmbedderMismatch, call, f"a query of width {dim + 1}", str(dim), str(dim + 1))


CASES += [
    Case(
        f"a_query_of_another_width_is_refused_by_{capability}",
        f"A query vector of the wrong width ({capability}) is refused with a message that names both widths.",
        partial(_a_query_of_another_width_is_refused_naming_both, capability),
        frozenset([capability]),
    )
    for capability in ("dense", "scores")
]


@case(CASES, promise="Each of several calls at the same time gets its own answer.")
async def _questions_asked_at_once_get_their_own_answers(fixture: StoreFixture) -> None:
    async def ask_again(request: Request[Any], expected: dict[str, Any]) -> None:
        expect_equal(await read_all(store, [request]), expected, "among many calls: ")

    content = fixture.choose(two_artifacts())
    store = await fixture.open_store(content)
    requests = await fixture.list_answered(store, content)
    answers = [await read_all(store, [request]) for request in requests]
    with first_error():
        async with anyio.create_task_group() as tasks:
            for pair in zip(requests, answers, strict=True):
                tasks.start_soon(ask_again, *pair)


@case(CASES, promise="A store works normally after a call was cancelled.")
async def _a_cancelled_question_leaves_the_store_usable(fixture: StoreFixture) -> None:
    content = fixture.choose(two_artifacts())
    store = await fixture.open_store(content)
    requests = await fixture.list_answered(store, content)
    answers = await read_all(store, requests)
    for delay in DELAYS:
        with anyio.move_on_after(delay):
            for request in requests:
                await store.read(request)
        expect_equal(await read_all(store, requests), answers, f"after a call was cancelled after {delay} s: ")
    if "writing" in fixture.offers:
        await store.apply(Change(content))
        expect_equal(await read_all(store, requests), answers, "after a write: ")


@case(CASES, "closing", promise="A closed store refuses reads and writes, and closing it again does nothing.")
async def _a_closed_store_answers_nothing_and_closes_again(fixture: StoreFixture) -> None:
    content = fixture.choose(two_artifacts())
    store = await fixture.open_store(content)
    await store.aclose()
    await store.aclose()
    kinds = {type(request): request for request in fixture.requests_offered(content)}
    for request in kinds.values():
        await expect_refusal(StoreError, store.read(request), f"{describe(request)} of a closed store")
    if "writing" in fixture.offers:
        await expect_refusal(StoreError, store.apply(Change([put("b", "x")])), "a write to a closed store")
