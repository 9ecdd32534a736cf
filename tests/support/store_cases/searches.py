"""Cases of both searches: limits, ties, best record per artifact, surfaces, filters."""

from dataclasses import replace
from functools import partial

from airw.protocols import Change, Rank, ask
from airw.testing.changes import EAST, axes, put, record_id
from airw.testing.exam import Case, expect, expect_equal
from airw.values.filters import parse_filter


async def _by_vector(store, k, **options):
    [ranking] = await ask(store, Rank(EAST, k, **options))
    return ranking


async def _by_words(store, k, **options):
    [ranking] = await ask(store, Rank(["word"], k, **options))
    return ranking


async def _filters_act_before_the_cut(search, fixture):
    """Search 60 artifacts of two records, of which only the ten worst pass the filter."""
    changes = [
        put(f"a{at:02}", f"word {'pad ' * at}", f"word {'pad ' * at}", vectors=axes(at, at), metadata={"n": at})
        for at in range(60)
    ]
    store = await fixture.open_store(changes)
    worst, third = parse_filter({"n": {"$gte": 50}}), parse_filter({"n": {"$gte": 50, "$lt": 53}})
    for k, options, expected in (
        (4, {"filter": worst}, ["a50", "a50", "a51", "a51"]),
        (4, {"filter": worst, "per_artifact": True}, ["a50", "a51", "a52", "a53"]),
        (100, {"filter": third, "per_artifact": True}, ["a50", "a51", "a52"]),
        (0, {"filter": worst}, []),
        (5, {"filter": parse_filter({"n": -1})}, []),
    ):
        found = list((await search(store, k, **options)).artifact_ids)
        expect_equal(found, expected, f"artifacts found with k={k} and {options}")


async def _filters_see_each_record_by_itself(search, fixture):
    """Check that filters apply to records: one record of an artifact may pass and another not."""
    change = put("a", "word", "word", vectors=axes(0, 10))
    records = [replace(record, metadata={"page": at}) for at, record in enumerate(change.records)]
    store = await fixture.open_store([replace(change, records=records)])
    for page in (0, 1):
        ranking = await search(store, 5, filter=parse_filter({"page": page}))
        expect_equal(list(ranking.record_ids), [change.records[page].id], f"records found on page {page}")


async def _filters_follow_every_write(search, fixture):
    store = await fixture.open_store([put(name, "word", vectors=axes(0), metadata={"tag": "old"}) for name in "abc"])
    await search(store, 5, filter=parse_filter({"tag": "old"}))
    await store.apply(Change([put("a", "word", vectors=axes(0), metadata={"tag": "new"})], removals=["b"]))
    for tag, expected in (("old", ["c"]), ("new", ["a"])):
        found = list((await search(store, 5, filter=parse_filter({"tag": tag}))).artifact_ids)
        expect_equal(found, expected, f"artifacts found with the tag {tag!r}")


async def _artifacts_with_many_good_records_do_not_crowd_out(search, fixture):
    crowd = put("crowd", *(f"word {at}" for at in range(200)), vectors=axes(*(at / 100 for at in range(200))))
    others = [put(f"o{at:02}", "some other word here", vectors=axes(10 + at)) for at in range(20)]
    store = await fixture.open_store([crowd, *others])
    found = await search(store, 10, per_artifact=True)
    expect_equal(list(found.artifact_ids), ["crowd", *(f"o{at:02}" for at in range(9))], "artifacts found")
    expect_equal(found.record_ids[0], record_id("crowd"), "the best record of the first")
    rows = await search(store, 10)
    expect_equal(set(rows.artifact_ids), {"crowd"}, "artifacts of the best records")


async def _equal_scores_go_by_artifact_and_then_surface(search, fixture):
    names = ["d", "b", "c", "a", "B", "é"]
    store = await fixture.open_store([put(name, *["word"] * 11, vectors=axes(*[30] * 11)) for name in names])
    ids = [record_id(name, at) for name in sorted(names) for at in range(11)]
    for k in (1, 3, 5, 12, 100):
        ranking = await search(store, k)
        expect_equal(list(ranking.record_ids), ids[:k], f"the search with k={k} among equals")
        expect(len(set(ranking.scores.tolist())) == 1, f"expected equal scores, got {ranking.scores.tolist()}")
    ranking = await search(store, 3, per_artifact=True)
    expect_equal(list(ranking.record_ids), ids[:33:11], "the search with k=3, per_artifact=True among equals")


async def _only_the_wanted_surfaces_are_searched(search, fixture):
    two = put("a", "word", "word and much more", kinds=("title", "chunk"), vectors=axes(0, 50))
    store = await fixture.open_store([two, put("b", "word more", vectors=axes(20))])
    title, chunk, other = record_id("a", 0, "title"), record_id("a", 1), record_id("b")
    wanted = {("chunk",): [other, chunk], ("title", "chunk", "no"): [title, other, chunk], ("title",): [title], (): []}
    for surfaces, ids in wanted.items():
        ranking = await search(store, 5, surfaces=list(surfaces))
        expect_equal(list(ranking.record_ids), ids, f"the search with surfaces={list(surfaces)}")
    ranking = await search(store, 1, surfaces=["chunk"], per_artifact=True)
    expect_equal(list(ranking.record_ids), [other], "the search with k=1, surfaces=['chunk'], per_artifact=True")


_CHECKS = {
    "artifacts_with_many_good_records_do_not_crowd_out_the_others": _artifacts_with_many_good_records_do_not_crowd_out,
    "equal_scores_go_by_artifact_and_then_surface_also_at_the_cut": _equal_scores_go_by_artifact_and_then_surface,
    "only_the_wanted_surfaces_are_searched": _only_the_wanted_surfaces_are_searched,
    "filters_act_before_the_cut": _filters_act_before_the_cut,
    "filters_see_each_record_by_itself": _filters_see_each_record_by_itself,
    "filters_follow_every_write": _filters_follow_every_write,
}

CASES = [
    Case.of(f"{name}_in_search_by_{how}", partial(check, search), [*needs, *(["writing"] if "write" in name else ())])
    for how, search, needs in (("vector", _by_vector, ["dense"]), ("words", _by_words, ["lexical"]))
    for name, check in _CHECKS.items()
]
