"""Cases of reading: a store answers as a `MemoryStore`, and refuses what it lacks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from airw.errors import ArgumentError
from airw.protocols import (
    Change,
    Rank,
    Records,
    TextLanguage,
    Words,
    ask,
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
)
from airw.testing.changes import put, record_id
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


@case(CASES, "writing", "records", promise="Metadata are returned as JSON values.")
async def _metadata_comes_back_as_json(fixture: StoreFixture) -> None:
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), "yes": True, "big": 2**63 + 1}
    store = await fixture.open_store([put("a", "t", metadata=odd)])
    [record] = await ask(store, Records([record_id("a")]))
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "yes": True, "big": 2**63 + 1}
    expect_equal(record and record.metadata, expected, "metadata")
