"""Cases of reading: a store answers as a `MemoryStore`, and refuses what it lacks."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from itertools import chain
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
    Words,
    ask,
    fill,
)
from airw.stores import MemoryStore
from airw.testing._store_tools import (
    DELAYS,
    StoreCase,
    StoreFixture,
    artifacts_with_names,
    describe,
    diverse_artifacts,
    expect_answers,
    read_all,
    read_fresh,
    requests_about,
    to_comparable,
    two_artifacts,
    width_of,
    write_history,
)
from airw.testing.changes import put, record_id, vector_of
from airw.testing.exam import Case, case, expect, expect_equal, expect_refusal
from airw.values import ArtifactChange, Ranking, TermCounts
from airw.values.filters import matches

CASES: list[StoreCase] = []
"""Cases of stores that the exam fills."""
CASES_OF_CONTENT: list[StoreCase] = []
"""Cases of stores whose authors name their content."""
CASES_OF_ALL: list[StoreCase] = []
"""Cases of both."""


async def _answer_as_in_memory(
    requests: Sequence[Request[Any]], content: Sequence[ArtifactChange], fixture: StoreFixture
) -> None:
    """Check answers against those of a `MemoryStore`."""
    if fixture.content is None and "writing" in fixture.offers:
        # An empty store must answer too, and must not remember that answer after a write.
        await write_history(fixture, [Change(), Change(content)], requests)
    else:
        store = await fixture.open_store(content)
        expect_answers(requests, await read_all(store, requests), await read_fresh(Change(content), requests), "")


def _requests_for(capability: str, content: Sequence[ArtifactChange]) -> list[Request[Any]]:
    requests = [request for request in requests_about(content) if capability in request.all_needs]
    return [request for request in requests if capability == "phrases" or "phrases" not in request.all_needs]


async def _answer_right_or_refuse(capability: str, fixture: StoreFixture) -> None:
    """Check the answers about a store's own content; it may refuse options, by name."""
    content, store = await fixture.open_with(())
    is_scored_by_author = capability == "lexical" and "words" not in fixture.offers
    wholes, plain = dict[str, Ranking](), set[type]()
    is_one_way = False
    request: Any
    for request in _requests_for(capability, content):
        if not request.all_needs <= fixture.offers:
            continue
        try:
            answer = await ask(store, request)
        except ArgumentError as error:
            options = [item for item in fields(request) if item.default is not MISSING]
            given = [item.name for item in options if getattr(request, item.name) is not item.default]
            refused = next((name for name in given if str(error).startswith(f"{name} ")), None)
            # Whoever cannot answer with an option answers without it.
            expect(refused and type(request) in plain, f"{describe(request)}: expected an answer, got {error!r}")
            is_one_way |= refused == "direction"
            continue
        plain.add(type(request))
        if is_scored_by_author:
            expect_equal(len(answer), len(request.queries), f"the number of rankings of {describe(request)}")
            for query, ranking in zip(request.queries, answer, strict=True):
                where = f"{short_repr(query)} in {describe(request)}: "
                _check_ranking(ranking, request, content, wholes.setdefault(query, ranking), where)
        else:
            is_out = is_one_way and isinstance(request, Edges) and request.direction == "both"
            expected = await read_fresh(Change(content), [replace(request, direction="out") if is_out else request])
            expect_answers([request], [to_comparable(answer, request)], expected, "")


def _check_ranking(
    ranking: Ranking, request: Rank, content: Sequence[ArtifactChange], whole: Ranking, where: str
) -> None:
    """Check a ranking whose scores are the author's.

    It has those rows of a ranking without options that are asked for.

    Args:
        ranking: The ranking.
        request: The request.
        content: The content of the store.
        whole: The ranking of the same query without options.
        where: The begin of messages.
    """
    kept = {
        record.id: record.artifact_id
        for change in content
        for record in change.records
        if matches(request.filter, record.metadata)
        and (request.surfaces is None or record.surface_kind in request.surfaces)
        and (request.among is None or record.artifact_id in request.among)
        and (request.records is None or record.id in request.records)
    }
    firsts: dict[str, str] = {}
    for id in whole.record_ids:
        if id in kept:
            firsts.setdefault(kept[id] if request.per_artifact else id, id)
    expected, scores = [*firsts.values()][: request.k], np.asarray(ranking.scores, np.float64)
    expect_equal([*ranking.record_ids], expected, f"{where}records")
    expect_equal([*ranking.artifact_ids], [kept[id] for id in expected], f"{where}artifacts")
    expect_equal(len(scores), len(expected), f"{where}the number of scores")
    expect(np.isfinite(scores).all() and (np.diff(scores) <= 0).all(), f"{where}expected falling scores, got {scores}")


def _add(
    cases: list[StoreCase], name: str, promise: str, check: Callable[[StoreFixture], Awaitable[None]], *needs: str
) -> None:
    cases.append(Case(name, promise, check, frozenset(needs)))


for _capability in sorted(CAPABILITIES - {"writing"}):
    _add(
        CASES_OF_CONTENT,
        f"{_capability}_of_the_content_are_right",
        f"Requests for {_capability} are answered right for the content, or refused by an error that names the option.",
        partial(_answer_right_or_refuse, _capability),
        _capability,
    )
for _name, _content, _kinds in (
    ("", diverse_artifacts(), sorted(CAPABILITIES - {"writing"})),
    ("_by_name", artifacts_with_names(), ["edges", "links", "names"]),
):
    for _kind in _kinds:
        _add(
            CASES,
            f"{_kind}{_name}_answers_as_a_memory_store_does",
            f"Requests for {_kind}{_name.replace('_', ' ')} are answered as by a `MemoryStore` with the same content.",
            partial(_answer_as_in_memory, _requests_for(_kind, _content), _content),
            *{_kind, *["names"] * bool(_name), *chain(*(each.all_needs for each in _requests_for(_kind, _content)))},
        )
_add(
    CASES,
    "metadata_comes_back_as_json",
    "Metadata are returned as JSON values.",
    partial(
        _answer_as_in_memory,
        [Records([record_id("a")])],
        [put("a", "t", metadata={"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), "big": 2**63 + 1})],
    ),
    "writing",
    "records",
)


def _list_rows(rankings: Iterable[Ranking]) -> list[list[tuple[float, str, str]]]:
    """Return the rows of rankings as tuples that sort by score, then by artifact."""
    return [[*zip((-each.scores).tolist(), each.artifact_ids, each.record_ids, strict=True)] for each in rankings]


@case(
    CASES,
    "words",
    "lexical",
    promise="With the word counts of several stores, scores are, to the last bit, those of one store with all records.",
)
async def _searches_with_pooled_counts_rank_as_one_store(fixture: StoreFixture) -> None:
    content = diverse_artifacts()
    store = await fixture.open_store(content[::2])
    async with MemoryStore() as other, MemoryStore() as whole:
        await other.apply(Change(content[1::2]))
        await whole.apply(Change(content))
        request: Any
        for request in _requests_for("lexical", content):
            pooled = TermCounts.sum([await ask(each, Words(request.queries)) for each in (store, other)])
            counted = replace(request, statistics=pooled)
            parts = [_list_rows(await ask(each, counted)) for each in (store, other)]
            # By score, then artifact. A stable sort, so that ties within an artifact keep their order.
            got = [sorted(one + two, key=lambda row: row[:2])[: request.k] for one, two in zip(*parts, strict=True)]
            expect_equal(got, _list_rows(await ask(whole, request)), f"{describe(request)} with pooled counts")


@case(
    CASES,
    "words",
    "lexical",
    promise="A search refuses word counts of another formula or of other queries, and names what is wrong.",
)
async def _counts_that_do_not_fit_are_refused(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "rotate the keys")])
    counts = await ask(store, Words(["keys"]))
    bad = {"'rotat": counts, "'tf-idf'": replace(counts, formula="tf-idf")}  # in a language, the stem of a word
    for named, statistics in bad.items():
        call = ask(store, Rank(["rotate keys"], 5, statistics=statistics))
        await expect_refusal(ArgumentError, call, f"a search with {statistics}", "statistics", named)


@case(CASES_OF_ALL, promise="A store offers what it was said to offer, and refuses any other request by its name.")
async def _what_is_not_offered_is_refused_by_name(fixture: StoreFixture) -> None:
    content, store = await fixture.open_with([put("a", "x")])
    requests = requests_about(content)
    offered = sorted(fixture.offers & {"writing", *chain(*(request.all_needs for request in requests))})
    expect_equal(sorted(store.capabilities), offered, "capabilities")
    for request in requests:
        if not request.all_needs <= {*offered}:
            await expect_refusal(ArgumentError, store.read(request), describe(request), type(request).__name__)
    if "writing" not in offered:
        await expect_refusal(ArgumentError, store.apply(Change()), "a write to a read-only store")


def _make_chains(content: Sequence[ArtifactChange]) -> Mapping[str, Sequence[Request[Any]]]:
    ids = sorted(change.entry.artifact_id for change in content)
    one, three, likely = [vector_of(text, width_of(content))[None] for text in ("one", "three", "one two")]
    edges, nearest = Edges([*ids[:2], "absent", "a", "A"], "both", limit=5), Rank(three, 3)
    scores = Fed(Rank(likely, among=(), per_artifact=True), Ends(edges, limit=2, without=["b", *ids[2:3]]))
    return {
        "step": [edges, scores, Fed(Records(()), Best(scores, limit=1))],
        "walk": [edges, Fed(Edges((), "both"), Ends(edges)), Fed(RecordsOf((), limit=1), Ends(edges, limit=4))],
        "map": [edges, Fed(VectorsOf(()), Ends(edges))],
        "search": [nearest, Fed(Records(()), Best(nearest, limit=2))],
        "comparison": [nearest, Fed(Rank(one, records=()), Best(nearest))],
    }


async def _answer_a_chain(name: str, fixture: StoreFixture) -> None:
    """Check a chain against its requests one by one."""
    content, store = await fixture.open_with(diverse_artifacts())
    chain, parts = _make_chains(content)[name], dict[int, Any]()
    for request in chain:
        parts[id(request)] = await ask(store, fill(request, parts))
    alone = [to_comparable(parts[id(request)], request) for request in chain]
    expect_answers(chain, await read_all(store, chain), alone, "as a chain, ")
    await expect_refusal(ArgumentError, store.read(*chain[::-1]), "a chain that begins with its end")


for _name, _chain in _make_chains(()).items():
    _add(
        CASES_OF_ALL,
        f"a_{_name}_as_a_chain_equals_its_parts",
        f"A {_name} in one call, as a chain, is answered as its requests one by one.",
        partial(_answer_a_chain, _name),
        *(request.needs for request in _chain),
    )


async def _answer_about_thousands(kind: Any, fixture: StoreFixture) -> None:
    """Check a request about tens of thousands of ids.

    They are more than SQLite and other databases accept as parameters of one statement.
    """
    content, store = await fixture.open_with(diverse_artifacts()[:3])
    ids = [f"absent {number}" for number in range(40_000)]
    for change in content:
        ids += [change.entry.artifact_id, *change.entry.record_ids]
    requests = [kind(ids)]
    expect_answers(requests, await read_all(store, requests), await read_fresh(Change(content), requests), "")


_KINDS: Mapping[str, Any] = {"records": Records, "records_of_artifacts": RecordsOf, "edges": Edges, "names": Names}
for _name, _request in _KINDS.items():
    _add(
        CASES_OF_ALL,
        f"thousands_of_{_name}_are_asked_about_at_once",
        f"One request asks for the {_name.replace('_', ' ')} of tens of thousands of ids.",
        partial(_answer_about_thousands, _request),
        _request([]).needs,
    )


async def _refuse_another_width(capability: str, fixture: StoreFixture) -> None:
    """Check that a query vector of another width is refused with both widths."""
    content, store = await fixture.open_with([put("a", "x")])
    dim, records = width_of(content), [id for change in content for id in change.entry.record_ids]
    rank = Rank(np.ones((1, dim + 1), np.float32), 5, records=records if capability == "scores" else None)
    await expect_refusal(EmbedderMismatch, ask(store, rank), f"a query of width {dim + 1}", str(dim), str(dim + 1))


for _capability in ("dense", "scores"):
    _add(
        CASES_OF_ALL,
        f"a_query_of_another_width_is_refused_by_{_capability}",
        f"A query vector of the wrong width ({_capability}) is refused with a message that names both widths.",
        partial(_refuse_another_width, _capability),
        _capability,
    )


@case(CASES_OF_ALL, promise="Each of several calls at the same time gets its own answer.")
async def _questions_asked_at_once_get_their_own_answers(fixture: StoreFixture) -> None:
    async def ask_again(request: Request[Any], expected: list[Any]) -> None:
        expect_answers([request], await read_all(store, [request]), expected, "among many calls: ")

    content, store = await fixture.open_with(two_artifacts())
    requests = await fixture.list_answered(store, content)
    answers = [await read_all(store, [request]) for request in requests]
    with first_error():
        async with anyio.create_task_group() as tasks:
            for pair in zip(requests, answers, strict=True):
                tasks.start_soon(ask_again, *pair)


@case(CASES_OF_ALL, promise="A store works normally after a call was cancelled.")
async def _a_cancelled_question_leaves_the_store_usable(fixture: StoreFixture) -> None:
    content, store = await fixture.open_with(two_artifacts())
    requests = await fixture.list_answered(store, content)
    answers = await read_all(store, requests)
    for delay in DELAYS:
        with anyio.move_on_after(delay):
            for request in requests:
                await store.read(request)
        got = await read_all(store, requests)
        expect_answers(requests, got, answers, f"after a call was cancelled after {delay} s: ")
    if "writing" in fixture.offers:
        await store.apply(Change(content))
        expect_answers(requests, await read_all(store, requests), answers, "after a write: ")


@case(CASES_OF_ALL, "closing", promise="A closed store refuses reads and writes, and closing it again does nothing.")
async def _a_closed_store_answers_nothing_and_closes_again(fixture: StoreFixture) -> None:
    content, store = await fixture.open_with(two_artifacts())
    await store.aclose()
    await store.aclose()
    kinds = {type(request): request for request in fixture.requests_offered(content)}
    for request in kinds.values():
        await expect_refusal(StoreError, store.read(request), f"{describe(request)} of a closed store")
    if "writing" in fixture.offers:
        await expect_refusal(StoreError, store.apply(Change([put("b", "x")])), "a write to a closed store")
