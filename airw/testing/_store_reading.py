"""Cases of reading: a store answers as a `MemoryStore`, and refuses what it lacks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from airw.errors import ArgumentError, EmbedderMismatch
from airw.protocols import (
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
    TextLanguage,
    VectorsOf,
    Words,
    ask,
    fill,
)
from airw.stores import MemoryStore
from airw.testing._store_tools import (
    StoreCase,
    StoreFixture,
    artifacts_with_names,
    describe,
    diverse_artifacts,
    read_all,
    requests_about,
    to_comparable,
)
from airw.testing.changes import EAST, put, record_id, vector_of
from airw.testing.exam import Case, case, expect_equal, expect_refusal
from airw.values import ArtifactChange, Language, Ranking, TermCounts

CASES: list[StoreCase] = []


async def _answers_as_a_memory_store_does(
    capability: str, content: Sequence[ArtifactChange], fixture: StoreFixture
) -> None:
    requests = [request for request in requests_about(content) if request.needs == capability]
    store = await fixture.open_store([] if "writing" in fixture.offers else content)
    async with MemoryStore() as fresh:
        # An empty store must answer too, and must not remember that answer after a write.
        if "writing" in fixture.offers:
            expected = await read_all(fresh, requests)
            expect_equal(await read_all(store, requests), expected, "in an empty store: ")
            await store.apply(Change(content))
        await fresh.apply(Change(content))
        expect_equal(await read_all(store, requests), await read_all(fresh, requests), "")


CASES += [
    Case(
        f"{capability}{how}_answers_as_a_memory_store_does",
        f"Requests for {capability}{how.replace('_', ' ')} are answered as by a `MemoryStore` with the same content.",
        partial(_answers_as_a_memory_store_does, capability, content),
        frozenset([capability, *needs]),
    )
    for how, content, capabilities, needs in (
        ("", diverse_artifacts(), sorted({request.needs for request in requests_about([])}), ()),
        ("_by_name", artifacts_with_names(), ("edges", "names", "links"), ("names",)),
    )
    for capability in capabilities
]


@case(CASES, promise="A store offers what it was said to offer, and refuses any other request by its name.")
async def _what_is_not_offered_is_refused_by_name(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "x")])
    requests = requests_about([put("a", "x")])
    offered = sorted(fixture.offers & {"writing", *(request.needs for request in requests)})
    expect_equal(sorted(store.capabilities), offered, "capabilities")
    for request in requests:
        if request.needs not in offered:
            await expect_refusal(ArgumentError, store.read(request), describe(request), type(request).__name__)
    if "writing" not in offered:
        await expect_refusal(ArgumentError, store.apply(Change()), "a write to a read-only store")


_ENDS = Edges(["a", "absent", "A"], "both", limit=5)
_SCORES = Fed(Rank(vector_of("one two")[None], among=(), per_artifact=True), Ends(_ENDS, limit=2, without=["b"]))
_NEAREST = Rank(vector_of("three")[None], 3)
_CHAINS: Mapping[str, Sequence[Request[Any]]] = {
    "step": [_ENDS, _SCORES, Fed(Records(()), Best(_SCORES, limit=1))],
    "walk": [_ENDS, Fed(Edges((), "in"), Ends(_ENDS)), Fed(RecordsOf((), limit=1), Ends(_ENDS, limit=4))],
    "map": [_ENDS, Fed(VectorsOf(()), Ends(_ENDS))],
    "search": [_NEAREST, Fed(Records(()), Best(_NEAREST, limit=2))],
    "comparison": [_NEAREST, Fed(Rank(vector_of("one")[None], records=()), Best(_NEAREST))],
}


async def _a_chain_equals_its_parts(name: str, fixture: StoreFixture) -> None:
    store = await fixture.open_store(diverse_artifacts())
    chain, parts = _CHAINS[name], dict[int, Any]()
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
    for name, chain in _CHAINS.items()
]


async def _thousands_are_asked_about_at_once(kind: Any, fixture: StoreFixture) -> None:
    # More ids than SQLite and other databases accept as parameters of one statement.
    changes = diverse_artifacts()[:3]
    names = [change.entry.artifact_id for change in changes]
    request = kind([*(f"absent {number}" for number in range(40_000)), *names, *map(record_id, names)])
    store = await fixture.open_store(changes)
    async with MemoryStore() as fresh:
        await fresh.apply(Change(changes))
        expect_equal(await ask(store, request), await ask(fresh, request), f"{describe(request)} of 40,006 ids")


CASES += [
    Case(
        f"thousands_of_{name}_are_asked_about_at_once",
        f"One request asks for the {name.replace('_', ' ')} of tens of thousands of ids.",
        partial(_thousands_are_asked_about_at_once, kind),
        frozenset([kind([]).needs]),
    )
    for name, kind in {"records": Records, "records_of_artifacts": RecordsOf, "edges": Edges, "names": Names}.items()
]


def _rank_keys(ranking: Ranking) -> list[tuple[float, str, str]]:
    """Return the rows of a ranking as tuples that sort by score, then by artifact."""
    scores = (-np.asarray(ranking.scores, np.float64)).tolist()
    return list(zip(scores, ranking.artifact_ids, ranking.record_ids, strict=True))


def _text_searches(content: Sequence[ArtifactChange]) -> list[Rank]:
    return [request for request in requests_about(content) if isinstance(request, Rank) and request.needs == "lexical"]


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
        for request in _text_searches(content):
            pooled = TermCounts.sum([await ask(each, Words([*map(str, request.queries)])) for each in (store, other)])
            parts = [await ask(each, replace(request, statistics=pooled)) for each in (store, other)]
            for one, two, ranking in zip(*parts, await ask(whole, request), strict=True):
                # By score, then artifact. A stable sort, so that ties within an artifact keep their order.
                got = sorted(_rank_keys(one) + _rank_keys(two), key=lambda row: row[:2])[: request.k]
                expect_equal(got, _rank_keys(ranking), f"{describe(request)} with pooled counts")


@case(
    CASES,
    "writing",
    "words",
    "lexical",
    promise="After a change of the language, and after writes that follow, words and scores are those of a new store.",
)
async def _texts_are_indexed_again_for_another_language(fixture: StoreFixture) -> None:
    content = [*diverse_artifacts(), put("walk", "walking the keys"), put("walks", "keys that walked")]
    requests = [*_text_searches(content), Rank(["walks", "the key", "that"], 50)]
    store = await fixture.open_store(content[::2])
    steps: list[tuple[Language | None, list[ArtifactChange]]] = [(None, content[::2]), ("en", content)]
    for language, present in steps:
        await store.apply(Change(language=language))
        await store.apply(Change(present))
        expect_equal(await ask(store, TextLanguage()), language, "the language")
        async with MemoryStore(language=language) as fresh:
            await fresh.apply(Change(present))
            for request in requests:
                got, expected = [[*map(_rank_keys, await ask(each, request))] for each in (store, fresh)]
                expect_equal(got, expected, f"{describe(request)} in the language {language!r}")


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


async def _a_query_of_another_width_is_refused_naming_both(request: Rank, fixture: StoreFixture) -> None:
    store = await fixture.open_store([put("a", "x")])
    await expect_refusal(EmbedderMismatch, ask(store, request), "a query of width 2 instead of 4", "2", "4")


CASES += [
    Case(
        f"a_query_of_another_width_is_refused_by_{request.needs}",
        f"A query vector of the wrong width ({request.needs}) is refused with a message that names both widths.",
        partial(_a_query_of_another_width_is_refused_naming_both, request),
        frozenset([request.needs]),
    )
    for request in (Rank(EAST, 5), Rank(EAST, records=[record_id("a")]))
]


@case(CASES, "writing", "records", promise="Metadata are returned as JSON values.")
async def _metadata_comes_back_as_json(fixture: StoreFixture) -> None:
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), "yes": True, "big": 2**63 + 1}
    store = await fixture.open_store([put("a", "t", metadata=odd)])
    [record] = await ask(store, Records([record_id("a")]))
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "yes": True, "big": 2**63 + 1}
    expect_equal(record and record.metadata, expected, "metadata")
