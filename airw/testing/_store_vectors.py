"""Cases of `VectorSearch`: cosine, alignment, order, ties, the collapse to artifacts, and what is refused."""

import math
from dataclasses import replace

import numpy as np

from airw._base.arrays import Floats
from airw.errors import EmbedderError, EmbedderMismatch, StoreError
from airw.protocols import Store
from airw.testing._exam import expect
from airw.testing._store_tools import (
    EAST,
    StoreCase,
    axes,
    columns,
    expect_equal,
    expect_refusal,
    fact,
    put,
    record_id,
    vector_of,
)
from airw.values import ArtifactChange

__all__ = ["CASES"]

CASES: list[StoreCase] = []


def _floats(*values: float) -> Floats:
    return np.array(values, np.float32)


@fact(CASES, "vectors")
async def _a_new_store_ranks_nothing_by_vector(store: Store) -> None:
    [ranking] = await store.search_vectors(EAST, 5)
    expect_equal(columns(ranking), ([], [], np.empty(0, np.float64)), "search_vectors in an empty store")
    expect_equal((await store.vectors(["x", "y"])).shape[0], 2, "rows of vectors(['x', 'y'])")
    found = await store.vectors_of(["x", "y"])
    expect_equal(tuple(found), ([[], []], np.empty((0, 0), np.float32)), "vectors_of(['x', 'y']) in an empty store")


@fact(CASES, "vectors")
async def _vectors_come_back_aligned_with_the_ids_asked_and_nan_where_nothing_is(store: Store) -> None:
    one, two = put("b", "first", "second"), put("a", "third")
    await store.apply([one, two])
    found = await store.vectors([record_id("b", 1), "absent", record_id("a"), record_id("b", 1)])
    nothing = np.full(4, np.nan, np.float32)
    expect_equal(found, np.array([one.vectors[1], nothing, two.vectors[0], one.vectors[1]], np.float32), "vectors")


@fact(CASES, "vectors")
async def _the_vectors_of_artifacts_come_with_their_records_in_plan_order_as_often_as_asked(store: Store) -> None:
    def backwards(*texts: str) -> ArtifactChange:
        change = put("b", *texts)
        return replace(change, records=[replace(each, surface_index=9 - each.surface_index) for each in change.records])

    one, two = backwards(*"pqrstuvwxyz"), put("a", "third")
    await store.apply([backwards("old"), put("c", "1", "2"), two])
    await store.apply([one, put("empty")], removals=["c"])
    asked = ["b", "absent", "a", "empty", "b", "c", "\ud800", "b\0"]
    held = [one, None, two, None, one, None, None, None]
    ids = [[record.id for record in each.records] if each else [] for each in held]
    rows = np.concatenate([each.vectors for each in held if each])
    expect_equal(tuple(await store.vectors_of(asked)), (ids, rows), f"vectors_of({asked})")
    for nothing in ([], ["absent"], ["empty", "absent"]):
        found = await store.vectors_of(nothing)
        expect_equal(tuple(found), ([[] for _ in nothing], np.empty((0, 4), np.float32)), f"vectors_of({nothing})")


@fact(CASES, "vectors")
async def _similarities_are_cosines_in_the_order_asked_and_nan_where_nothing_is(store: Store) -> None:
    await store.apply([put("a", "x", "y", vectors=axes(0, 60)), put("b", "z", vectors=axes(90))])
    found = await store.similarities(EAST[0], [record_id("a", 1), "absent", record_id("b"), record_id("a")])
    expect_equal(found, _floats(0.5, math.nan, 0.0, 1.0), "similarities")


@fact(CASES, "vectors")
async def _the_best_record_of_an_artifact_is_found_and_ties_go_to_the_lower_surface(store: Store) -> None:
    tied = put("a", "p", "q", "r", kinds=("title", "chunk", "chunk"), vectors=axes(80, 60, 60))
    await store.apply([tied, put("b", "x", vectors=axes(0)), put("empty")])
    best, other = record_id("a", 1), record_id("b")
    found = await store.best_of(EAST[0], ["a", "absent", "empty", "b", "a"])
    scores = _floats(0.5, math.nan, math.nan, 1.0, 0.5)
    expect_equal(list(found), [[best, None, None, other, best], scores], "best_of")
    found = await store.best_of(EAST[0], ["a", "b"], surfaces=["title"])
    title = [record_id("a", 0, "title"), None]
    expect_equal(list(found), [title, _floats(math.cos(math.radians(80)), math.nan)], "best_of(surfaces=['title'])")


@fact(CASES, "vectors")
async def _a_search_equals_the_exact_ranking_by_cosine_then_artifact_then_surface(store: Store) -> None:
    random = np.random.default_rng(7)
    points = random.standard_normal((12, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    changes = [
        put(f"a{at:03}", "t", "t", vectors=points[random.integers(0, 12, 2)].tolist()) for at in random.permutation(150)
    ]
    await store.apply(changes)
    rows = sorted(
        (record for each in changes for record in each.records), key=lambda r: (r.artifact_id, r.surface_index)
    )
    stored = {record.id: row for each in changes for record, row in zip(each.records, each.vectors, strict=True)}
    queries = np.array([vector_of("one"), vector_of("two")], np.float32)
    for k in (1, 10, 10_000):
        for query, ranking in zip(queries, await store.search_vectors(queries, k), strict=True):
            scores = np.array([np.dot(stored[row.id].astype(float), query) for row in rows]).round(7)
            order = np.argsort(-scores, kind="stable")[:k]
            expected = [rows[at].id for at in order], [rows[at].artifact_id for at in order], scores[order]
            expect_equal(columns(ranking), expected, f"search_vectors(k={k})")


@fact(CASES, "vectors")
async def _vectors_of_a_replaced_or_removed_artifact_are_forgotten(store: Store) -> None:
    await store.apply([put("a", "alpha", "more alpha"), put("b", "beta"), put("c", "gamma")])
    await store.apply([put("a", "delta")], removals=["b"])
    [ranking] = await store.search_vectors(vector_of("beta")[None], 10)
    expect_equal(sorted(ranking.artifact_ids), ["a", "c"], "artifacts found after a replacement and a removal")
    gone = await store.vectors([record_id("a", 1), record_id("b")])
    expect(np.isnan(gone).all(), f"expected rows of NaN for records that are gone, got {gone.tolist()}")
    expect_equal(await store.vectors([record_id("a")]), vector_of("delta")[None], "the vector of a replaced record")


@fact(CASES, "vectors")
async def _an_artifact_with_many_good_records_does_not_crowd_out_the_others_by_vector(store: Store) -> None:
    crowd = put("crowd", *(f"word {at}" for at in range(200)), vectors=axes(*(at / 100 for at in range(200))))
    await store.apply([crowd, *(put(f"o{at:02}", "word", vectors=axes(10 + at)) for at in range(20))])
    [found] = await store.search_vectors(EAST, 10, per_artifact=True)
    expect_equal(list(found.artifact_ids), ["crowd", *(f"o{at:02}" for at in range(9))], "artifacts found")
    expect_equal(found.record_ids[0], record_id("crowd"), "the best record of the first")
    [rows] = await store.search_vectors(EAST, 10)
    expect_equal(set(rows.artifact_ids), {"crowd"}, "artifacts of the best records")


@fact(CASES, "vectors")
async def _equal_cosines_go_by_artifact_and_then_surface_also_at_the_cut(store: Store) -> None:
    names = ["d", "b", "c", "a", "B", "é"]
    for name in names:
        await store.apply([put(name, *["same"] * 11, vectors=axes(*[30] * 11))])
    ids = [record_id(name, at) for name in sorted(names) for at in range(11)]
    for k in (1, 3, 5, 12, 100):
        [ranking] = await store.search_vectors(EAST, k)
        expect_equal(list(ranking.record_ids), ids[:k], f"search_vectors(k={k}) among equals")
        expect(len(set(ranking.scores.tolist())) == 1, f"expected equal scores, got {ranking.scores.tolist()}")
    [ranking] = await store.search_vectors(EAST, 3, per_artifact=True)
    expect_equal(list(ranking.record_ids), ids[:33:11], "search_vectors(k=3, per_artifact=True) among equals")


@fact(CASES, "vectors")
async def _records_without_any_likeness_are_ranked_too(store: Store) -> None:
    await store.apply(
        [put("a", "x", vectors=axes(90)), put("b", "y", vectors=[[0, 0]]), put("c", "", vectors=axes(180))]
    )
    [ranking] = await store.search_vectors(EAST, 5)
    expect_equal(list(ranking.artifact_ids)[-1:], ["c"], "the last, at cosine -1")
    expect_equal(sorted(ranking.artifact_ids), ["a", "b", "c"], "artifacts ranked")
    expect_equal(ranking.scores, np.array([0.0, 0.0, -1.0]), "scores")


@fact(CASES, "vectors")
async def _several_vectors_are_answered_in_their_order_and_k_may_be_zero_or_large(store: Store) -> None:
    await store.apply([put("a", "alpha", vectors=axes(0)), put("b", "beta", vectors=axes(90))])
    queries = np.array(axes(80, 10), np.float32)
    for k, expected in ((1, [["b"], ["a"]]), (0, [[], []]), (1_000, [["b", "a"], ["a", "b"]])):
        found = [list(each.artifact_ids) for each in await store.search_vectors(queries, k)]
        expect_equal(found, expected, f"search_vectors(k={k})")
    expect_equal(await store.search_vectors(np.empty((0, 2), np.float32), 5), [], "search_vectors without queries")


@fact(CASES, "vectors")
async def _only_the_wanted_surfaces_are_searched_by_vector(store: Store) -> None:
    await store.apply(
        [put("a", "w", "w", kinds=("title", "chunk"), vectors=axes(0, 50)), put("b", "w", vectors=axes(20))]
    )
    title, chunk, other = record_id("a", 0, "title"), record_id("a", 1), record_id("b")
    wanted = {("chunk",): [other, chunk], ("title", "chunk", "no"): [title, other, chunk], ("title",): [title], (): []}
    for surfaces, ids in wanted.items():
        [ranking] = await store.search_vectors(EAST, 5, surfaces=list(surfaces))
        expect_equal(list(ranking.record_ids), ids, f"search_vectors(surfaces={list(surfaces)})")
    [ranking] = await store.search_vectors(EAST, 1, surfaces=["chunk"], per_artifact=True)
    expect_equal(list(ranking.record_ids), [other], "search_vectors(k=1, surfaces=['chunk'], per_artifact=True)")


@fact(CASES, "vectors")
async def _a_vector_that_cannot_be_stored_is_refused_in_one_line_and_nothing_of_the_call_is_kept(store: Store) -> None:
    await store.apply([put("kept", "one"), put("gone", "two")])
    bad = {
        "a vector with NaN": put("bad", "x", vectors=[[1.0, math.nan, 0.0, 0.0]]),
        "a vector with infinity": put("bad", "x", vectors=[[math.inf, 0.0, 0.0, 0.0]]),
        "a vector of another width": put("bad", "x", dim=3),
        "two vectors for one record": replace(put("bad", "x"), vectors=np.zeros((2, 4), np.float32)),
    }
    for what, change in bad.items():
        await expect_refusal(StoreError, store.apply([put("good", "y"), change], removals=["gone"]), what)
        [ranking] = await store.search_vectors(vector_of("one")[None], 10)
        expect_equal(sorted(ranking.artifact_ids), ["gone", "kept"], f"artifacts found after {what} was refused")


@fact(CASES, "vectors")
async def _the_width_may_change_only_when_no_other_vector_stays(store: Store) -> None:
    await store.apply([put("a", "x"), put("b", "y"), put("empty")])
    call = store.apply([put("a", "x", dim=3)], removals=["empty"])
    await expect_refusal(StoreError, call, "a new width beside an old one", "3", "4")
    await store.apply([put("a", "x", dim=3)], removals=["b"])
    expect_equal(await store.vectors([record_id("a")]), vector_of("x", 3)[None], "vectors after a change of width")
    [ranking] = await store.search_vectors(vector_of("x", 3)[None], 5)
    expect_equal(list(ranking.artifact_ids), ["a"], "artifacts found after a change of width")


@fact(CASES, "vectors")
async def _a_query_of_another_width_is_refused_naming_both(store: Store) -> None:
    await store.apply([put("a", "x")])
    await expect_refusal(
        EmbedderMismatch, store.search_vectors(EAST, 5), "search_vectors, 2 wide instead of 4", "2", "4"
    )
    call = store.similarities(EAST[0], [record_id("a")])
    await expect_refusal(EmbedderMismatch, call, "similarities, 2 wide instead of 4", "2", "4")
    await expect_refusal(EmbedderMismatch, store.best_of(EAST[0], ["a"]), "best_of, 2 wide instead of 4", "2", "4")


@fact(CASES, "vectors")
async def _a_query_that_is_not_finite_is_refused(store: Store) -> None:
    await store.apply([put("a", "x", vectors=axes(0))])
    for value in (math.nan, math.inf):
        query = np.array([[value, 1.0]], np.float32)
        await expect_refusal(EmbedderError, store.search_vectors(query, 5), f"a query with {value}")


@fact(CASES, "vectors")
async def _vectors_are_asked_for_by_the_ten_thousand_in_one_call(store: Store) -> None:
    names = [f"a{at:04}" for at in range(1_000)]
    await store.apply([put(name, f"text {name}") for name in names])
    ids = [record_id(name) for name in names] * 40
    query = vector_of("x")
    expected = np.array([float(vector_of(f"text {name}") @ query) for name in names] * 40, np.float32)
    expect_equal(await store.similarities(query, ids), expected, "similarities of 40,000 ids")
    expect_equal(
        await store.vectors(ids[:3_000]), np.array([vector_of(f"text {name}") for name in names] * 3), "vectors"
    )
    expect_equal((await store.best_of(query, names))[0], ids[:1_000], "best_of 1,000 artifacts")
    found = (await store.vectors_of(names * 40))[0]
    expect_equal(found, [[each] for each in ids], "ids in vectors_of 40,000 artifacts")


@fact(CASES, "vectors")
async def _no_vector_given_or_received_is_a_handle_on_the_store(store: Store) -> None:
    change = put("a", "text")
    await store.apply([change])
    change.vectors[:] = 9.0
    (await store.vectors([record_id("a")]))[:] = 7.0
    (await store.vectors_of(["a"]))[1][:] = 7.0
    found = await store.vectors([record_id("a")])
    expect_equal(found, vector_of("text")[None], "vectors after changing what was given and received")
