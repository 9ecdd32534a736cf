"""Cases of steps: one call reads what `neighbors`, `best_of` and `get_records` would."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw.errors import ArgumentError
from airw.protocols import BestRecords, StepAnswer
from airw.testing._store_tools import StoreCase, StoreFixture, diverse_artifacts
from airw.testing.changes import EAST, put, vector_of
from airw.testing.exam import case, expect, expect_equal, expect_refusal
from airw.values import Edge, Link, Record

CASES: list[StoreCase] = []


async def compose_step(
    store: Any,
    ids: Sequence[str],
    query: Floats | None,
    *,
    hit_ids: Sequence[str] = (),
    known_ids: Sequence[str] = (),
    max_ends: int = 0,
    max_records: int = 0,
    with_vectors: bool = False,
    **links: Any,
) -> StepAnswer:
    """Return what `read_step` returns, put together from other calls of a store.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         return await compose_step(store, ["a"], None)
        >>> anyio.run(main).edges
        [[]]
    """
    edges = await store.neighbors(ids, **links)
    # 1. The artifacts to compare: those asked for, then the ends, without duplicates.
    ends_of = [list(dict.fromkeys(_ends(*pair))) for pair in zip(ids, edges, strict=True)]
    hits = list(dict.fromkeys(hit_ids))
    ends = dict.fromkeys(end for ends in ends_of for end in ends)
    compared = [*hits, *[end for end in ends if end not in {*hits, *known_ids}][:max_ends]]
    best = await _best_records(store, query, compared)
    place_of = {id: place for place, id in enumerate(compared)}
    # 2. The nearest ends of each artifact.
    wanted = set(range(len(hits)))
    for own in ends_of:
        places = [place_of[end] for end in own if end in place_of and end not in hits]
        near = [place for place in places if best.record_ids[place] is not None]
        if query is not None:
            near.sort(key=lambda place: -best.scores[place])
        wanted.update(near[:max_records])
    # 3. Their records.
    found = await store.get_records([id or "" for id in best.record_ids])
    records = [record if place in wanted else None for place, record in enumerate(found)]
    return StepAnswer(edges, compared, best, records, await store.vectors_of(compared) if with_vectors else None)


def _ends(id: str, edges: Sequence[Edge]) -> list[str]:
    """Return the artifacts of this corpus at the other ends of edges."""
    return [str(edge.target if edge.source == id else edge.source) for edge in edges if not edge.leads_out]


async def _best_records(store: Any, query: Floats | None, ids: Sequence[str]) -> BestRecords:
    if query is not None:
        answer: BestRecords = await store.best_of(query, ids)
        return answer
    surfaces: list[list[Record] | None] = await store.records_of(ids, limit=1)
    return BestRecords([of[0].id if of else None for of in surfaces], np.full(len(ids), np.nan, np.float32))


_LINKS: list[dict[str, Any]] = [{}, {"direction": "both"}, {"direction": "in", "types": ["r"]}]
_READS: list[dict[str, Any]] = [
    {},
    {"max_ends": 100},
    {"max_ends": 100, "max_records": 1},
    {"max_ends": 2, "max_records": 100, "with_vectors": True},
]


def _to_comparable(answer: StepAnswer) -> list[Any]:
    vectors = None if answer.vectors is None else [*answer.vectors]
    return [answer.edges, answer.artifact_ids, [*answer.best], answer.records, vectors]


async def _expect_step(store: Any, ids: Sequence[str], query: Floats | None, **options: Any) -> None:
    expected = await compose_step(store, ids, query, **options)
    answer = await store.read_step(ids, query, **options)
    expect_equal(_to_comparable(answer), _to_comparable(expected), f"read_step({[*ids][:4]}, {options})")


_NEEDS = ("read_step", "neighbors", "best_of", "get_records", "records_of", "vectors_of")


@case(
    CASES,
    *_NEEDS,
    promise="`read_step` returns what `neighbors`, `best_of`, `get_records` and `vectors_of` return.",
)
async def _a_step_equals_the_calls_that_it_replaces(fixture: StoreFixture) -> None:
    store: Any = await fixture.open_store(diverse_artifacts())
    ids = ["a", "b", "c", "weighted", "absent", "\ud800", "nul\0", "crowd"]
    for query in (vector_of("one two"), None):
        for links in _LINKS:
            for reads in _READS:
                await _expect_step(store, ids, query, **links, **reads)
        await _expect_step(store, ids[:2], query, direction="both", limit=1, max_ends=9, max_records=9)
        await _expect_step(store, ids[:2], query, exclude=["r"], origins=["typed", "derived"], max_ends=9)
        await _expect_step(store, [], query, hit_ids=["odd", "t01", "t01", "absent", "nul\0", "c"], with_vectors=True)
        hits, known = ["b", "absent", "backwards"], ["c", "no", "\ud800", "weighted"]
        for reads in _READS:
            await _expect_step(store, ids, query, direction="both", hit_ids=hits, known_ids=known, **reads)
    await _expect_step(store, [], vector_of("one two"))


@case(
    CASES, *_NEEDS, "apply", promise="`read_step` of an empty store, and of artifacts without records, has no records."
)
async def _a_step_without_records_is_empty(fixture: StoreFixture) -> None:
    store: Any = await fixture.open_store()
    await _expect_step(store, ["a"], EAST[0], hit_ids=["a"], max_ends=9, max_records=9)
    await store.apply([put("a", links=[Link("b"), Link("c")]), put("b"), put("c", "three")])
    query = vector_of("three")
    await _expect_step(store, ["a"], query, hit_ids=["a"], max_ends=9, max_records=9, with_vectors=True)
    await _expect_step(store, ["a"], None, hit_ids=["a", "b"], max_ends=9, max_records=9)


@case(CASES, "read_step", promise="`read_step` refuses a direction, an origin and a limit that do not exist.")
async def _options_that_do_not_exist_are_refused_in_a_step(fixture: StoreFixture) -> None:
    store: Any = await fixture.open_store([put("a", "one", links=[Link("b")]), put("b", "two")])
    bad: list[dict[str, Any]] = [{"direction": "up"}, {"origins": ["odd"]}, {"limit": -1}, {"max_ends": -1}]
    for options in [*bad, {"max_records": -1}]:
        await expect_refusal(ArgumentError, store.read_step(["a"], None, **options), f"read_step(['a'], {options})")


@case(CASES, *_NEEDS, promise="`read_step` of an artifact with thousands of links reads no more ends than asked for.")
async def _a_step_of_a_hub_is_bounded(fixture: StoreFixture) -> None:
    spokes = [f"s{number:04}" for number in range(3_000)]
    hub = put("hub", "one", links=[Link(spoke) for spoke in spokes])
    store: Any = await fixture.open_store([hub, *(put(spoke, spoke) for spoke in spokes)])
    answer = await store.read_step(["hub"], vector_of("one"), max_ends=50, max_records=3)
    expect_equal(answer.artifact_ids, spokes[:50], "the ends that were compared")
    expect_equal(sum(record is not None for record in answer.records), 3, "the number of records")
    expect(len(answer.edges[0]) == len(spokes), f"{len(answer.edges[0])} edges of {len(spokes)} were returned")
