"""Cases of reading: records, vectors and rankings come in the order of the arguments."""

import math
from dataclasses import replace

import numpy as np

from airw.errors import EmbedderError, StoreError
from airw.protocols import ArtifactIds, Change, Counts, Ledger, Rank, Records, RecordsOf, Vectors, VectorsOf, ask
from airw.testing.changes import EAST, ODD_IDS, axes, put, record_id, vector_of
from airw.testing.exam import case, expect, expect_equal, expect_refusal
from airw.values import LedgerEntry
from airw.values.filters import parse_filter

CASES = []


def columns(ranking):
    """Return a ranking as values that can be compared."""
    return list(ranking.record_ids), list(ranking.artifact_ids), ranking.scores


@case(CASES, "ledger", "records", "counts")
async def _a_new_store_holds_no_records(fixture):
    store = await fixture.open_store()
    expect_equal(await ask(store, ArtifactIds()), [], "artifact_ids()")
    expect_equal(await ask(store, Ledger()), [], "ledger()")
    expect_equal(await ask(store, Ledger(["a"])), [None], "ledger(['a'])")
    expect_equal(await ask(store, Records(["a"])), [None], "get_records(['a'])")
    expect_equal(await ask(store, RecordsOf(["a"])), [None], "records_of(['a'])")
    counts = await ask(store, Counts())
    for name in ("artifacts", "records", "resolved", "dangling", "ambiguous", "foreign"):
        expect_equal(counts.get(name), 0, f"counts()[{name!r}]")


@case(CASES, "records")
async def _records_come_back_in_the_order_of_the_ids_with_none_for_missing_ones(fixture):
    one, two = put("b", "first", "second"), put("a", "third", metadata={"n": [1, {"m": None}], "yes": True})
    store = await fixture.open_store([one, two])
    asked = [one.records[1].id, "absent", two.records[0].id, one.records[1].id, "\ud800", "nul\0"]
    expected = [one.records[1], None, two.records[0], one.records[1], None, None]
    expect_equal(await ask(store, Records(asked)), expected, "get_records")
    expect_equal(await ask(store, Records([])), [], "get_records([])")


@case(CASES, "records")
async def _records_of_artifacts_come_in_plan_order_and_by_kind(fixture):
    one, two = put("b", "z", "y", "x", kinds=("title", "chunk")), put("a", "third")
    store = await fixture.open_store([one, two, put("empty")])
    expected = [list(two.records), None, list(one.records), [], list(two.records)]
    expect_equal(await ask(store, RecordsOf(["a", "absent", "b", "empty", "a"])), expected, "records_of")
    for kinds, positions in ((["chunk"], [1]), (["chunk", "title"], [0, 1, 2]), (["unknown"], []), ([], [])):
        found = await ask(store, RecordsOf(["b", "absent"], kinds=kinds))
        expect_equal(found, [[one.records[at] for at in positions], None], f"records_of(kinds={kinds})")
        first = await ask(store, RecordsOf(["b", "absent"], kinds=kinds, limit=1))
        expect_equal(first, [[one.records[at] for at in positions[:1]], None], f"records_of(kinds={kinds}, limit=1)")
    for limit in (0, 1, 2, 9):
        found = await ask(store, RecordsOf(["a", "b", "absent", "empty"], limit=limit))
        expected = [list(two.records)[:limit], list(one.records)[:limit], None, []]
        expect_equal(found, expected, f"records_of(limit={limit})")


@case(CASES, "ledger")
async def _the_ledger_tells_all_entries_ordered_by_id_or_as_the_requested_ids(fixture):
    store = await fixture.open_store([put("b", "x", "y", version="7"), put("é"), put("B", "z"), put("a")])
    names = ["B", "a", "b", "é"]
    expect_equal(await ask(store, ArtifactIds()), names, "artifact_ids()")
    expect_equal([each and each.artifact_id for each in await ask(store, Ledger())], names, "ids in ledger()")
    found, missing, empty = await ask(store, Ledger(["b", "absent", "é"]))
    stamps = LedgerEntry("b", "7", "embedder", "strategy", "extractor", "source")
    ids = (record_id("b"), record_id("b", 1))
    for name in ("artifact_id", "version", "embedder_id", "strategy_id", "extractor_id", "source"):
        expect_equal(getattr(found, name), getattr(stamps, name), f"{name} in ledger(['b'])")
    expect_equal([found and tuple(found.record_ids), missing], [ids, None], "ledger(['b', 'absent'])")
    expect_equal(empty and tuple(empty.record_ids), (), "record_ids of an artifact without records")


@case(CASES, "writing", "counts")
async def _counts_count_artifacts_and_records(fixture):
    store = await fixture.open_store([put("a", "x", "y"), put("b", "z"), put("empty")])
    await store.apply(Change([put("a", "w")], removals=["b"]))
    counts = await ask(store, Counts())
    expect_equal([counts["artifacts"], counts["records"]], [2, 1], "artifacts and records in counts()")


@case(CASES, "writing", "records", "ledger")
async def _a_replaced_artifact_loses_its_old_records(fixture):
    store = await fixture.open_store([put("a", "alpha", "more alpha", metadata={"tag": "old"}), put("b", "other")])
    new = put("a", "beta", metadata={"tag": "new"}, version="2")
    await store.apply(Change([new]))
    found = await ask(store, Records([record_id("a"), record_id("a", 1)]))
    expect_equal(found, [new.records[0], None], "records of a replaced artifact")
    expect_equal(await ask(store, RecordsOf(["a"])), [list(new.records)], "records_of a replaced artifact")
    expect_equal([each and each.version for each in await ask(store, Ledger())], ["2", "1"], "versions in ledger()")


@case(CASES, "writing", "ledger", "records")
async def _a_removed_artifact_disappears_and_removing_a_missing_one_is_no_error(fixture):
    store = await fixture.open_store([put("a", "alpha"), put("b", "beta")])
    await store.apply(Change(removals=["a", "never there", "\ud800"]))
    expect_equal(await ask(store, ArtifactIds()), ["b"], "artifact_ids()")
    expect_equal(await ask(store, RecordsOf(["a"])), [None], "records_of a removed artifact")
    expect_equal(await ask(store, Records([record_id("a")])), [None], "get_records of a removed artifact")
    expect_equal(await ask(store, Ledger(["a"])), [None], "ledger of a removed artifact")


@case(CASES, "writing", "records")
async def _an_artifact_put_and_removed_in_one_call_is_put(fixture):
    store = await fixture.open_store([put("a", "old")])
    new = put("a", "new")
    await store.apply(Change([new], removals=["a"]))
    expect_equal(
        await ask(store, RecordsOf(["a"])), [list(new.records)], "records_of an artifact put and removed at once"
    )


@case(CASES, "writing", "ledger", "records")
async def _any_text_can_be_an_id(fixture):
    store = await fixture.open_store([put(name, f"text of {at}") for at, name in enumerate(ODD_IDS)])
    expect_equal(await ask(store, ArtifactIds()), sorted(ODD_IDS), "artifact_ids()")
    found = [[each.text for each in group or []] for group in await ask(store, RecordsOf(ODD_IDS))]
    expect_equal(found, [[f"text of {at}"] for at in range(len(ODD_IDS))], "texts of artifacts with odd ids")
    await store.apply(Change(removals=ODD_IDS[:-1]))
    expect_equal(await ask(store, ArtifactIds()), ODD_IDS[-1:], "artifact_ids() after removing the others")


@case(CASES, "records")
async def _empty_texts_odd_texts_and_artifacts_without_records_are_stored(fixture):
    texts = ["", "\n \t", "nul \0 inside", "a\r\nb", "🦊 é e\u0301", "long " * 20_000]
    store = await fixture.open_store([put("a", *texts), put("b")])
    found = [[each.text for each in group or []] for group in await ask(store, RecordsOf(["a", "b"]))]
    expect_equal(found, [texts, []], "texts")


@case(CASES, "writing", "records", "ledger")
async def _ids_are_asked_for_by_the_ten_thousand_in_one_call(fixture):
    names = [f"a{at:04}" for at in range(1_000)]
    store = await fixture.open_store([put(name, f"text {name}") for name in names])
    absent = [f"absent {at}" for at in range(40_000)]  # more than databases accept as parameters of one statement
    ids = [record_id(name) for name in names]
    found = [each and each.artifact_id for each in await ask(store, Records([*absent, *ids]))]
    expect_equal(found, [*[None] * len(absent), *names], "get_records of 41,000 ids")
    groups = await ask(store, RecordsOf([*absent, *names]))
    expect_equal([group and group[0].artifact_id for group in groups], [*[None] * len(absent), *names], "records_of")
    entries = await ask(store, Ledger([*absent, *names]))
    expect_equal([each and each.artifact_id for each in entries], [*[None] * len(absent), *names], "ledger")
    await store.apply(Change(removals=[*absent, *names]))
    expect_equal(await ask(store, ArtifactIds()), [], "artifact_ids() after removing all")


@case(CASES, "records", "ledger")
async def _no_record_given_or_received_changes_the_store_when_changed(fixture):
    metadata = {"tags": ["x"]}
    store = await fixture.open_store([put("a", "text", metadata=metadata)])
    metadata["tags"].append("given")
    [group], [record] = await ask(store, RecordsOf(["a"])), await ask(store, Records([record_id("a")]))
    for each in (*(group or []), record):
        if each is not None and isinstance(each.metadata, dict):
            each.metadata["tags"].append("received")
    (await ask(store, ArtifactIds())).clear()
    (await ask(store, Ledger())).clear()
    found = [each and each.metadata for each in await ask(store, Records([record_id("a")]))]
    expect_equal(found, [{"tags": ["x"]}], "metadata after changing what was given and received")
    expect_equal(await ask(store, ArtifactIds()), ["a"], "artifact_ids() after clearing what was received")


@case(CASES, "records")
async def _metadata_comes_back_as_json_per_record(fixture):
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), 3: "key", "yes": True, "big": 2**63 + 1}
    store = await fixture.open_store([put("a", "t", metadata={str(key): value for key, value in odd.items()})])
    found = [each and each.metadata for each in await ask(store, Records([record_id("a")]))]
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "3": "key", "yes": True, "big": 2**63 + 1}
    expect_equal(found, [expected], "metadata")


def _floats(*values):
    return np.array(values, np.float32)


@case(CASES, "dense", "vectors")
async def _a_new_store_ranks_nothing_by_vector(fixture):
    store = await fixture.open_store()
    [ranking] = await ask(store, Rank(EAST, 5))
    expect_equal(columns(ranking), ([], [], np.empty(0, np.float64)), "search_vectors in an empty store")
    expect_equal((await ask(store, Vectors(["x", "y"]))).shape[0], 2, "rows of vectors(['x', 'y'])")
    found = await ask(store, VectorsOf(["x", "y"]))
    expect_equal(tuple(found), ([[], []], np.empty((0, 0), np.float32)), "vectors_of(['x', 'y']) in an empty store")


@case(CASES, "vectors")
async def _vectors_come_back_in_the_order_of_the_ids_with_nan_for_missing_ones(fixture):
    one, two = put("b", "first", "second"), put("a", "third")
    store = await fixture.open_store([one, two])
    found = await ask(store, Vectors([record_id("b", 1), "absent", record_id("a"), record_id("b", 1)]))
    nothing = np.full(4, np.nan, np.float32)
    expect_equal(found, np.array([one.vectors[1], nothing, two.vectors[0], one.vectors[1]], np.float32), "vectors")


@case(CASES, "writing", "vectors")
async def _the_vectors_of_artifacts_are_in_plan_order_and_repeated_for_repeated_ids(
    fixture,
) -> None:
    def backwards(*texts):
        change = put("b", *texts)
        return replace(change, records=[replace(each, surface_index=9 - each.surface_index) for each in change.records])

    one, two = backwards(*"pqrstuvwxyz"), put("a", "third")
    store = await fixture.open_store([backwards("old"), put("c", "1", "2"), two])
    await store.apply(Change([one, put("empty")], removals=["c"]))
    asked = ["b", "absent", "a", "empty", "b", "c", "\ud800", "b\0"]
    changes = [one, None, two, None, one, None, None, None]
    ids = [[record.id for record in each.records] if each else [] for each in changes]
    rows = np.concatenate([each.vectors for each in changes if each])
    expect_equal(tuple(await ask(store, VectorsOf(asked))), (ids, rows), f"vectors_of({asked})")
    for nothing in ([], ["absent"], ["empty", "absent"]):
        found = await ask(store, VectorsOf(nothing))
        expect_equal(tuple(found), ([[] for _ in nothing], np.empty((0, 4), np.float32)), f"vectors_of({nothing})")


@case(CASES, "scores")
async def _similarities_are_cosines_best_first_without_missing_records(fixture):
    store = await fixture.open_store([put("a", "x", "y", vectors=axes(0, 60)), put("b", "z", vectors=axes(90))])
    ids = [record_id("a", 1), "absent", record_id("b"), record_id("a"), record_id("b")]
    [ranking] = await ask(store, Rank(EAST, records=ids))
    expected = [record_id("a"), record_id("a", 1), record_id("b")], ["a", "a", "b"], np.array([1.0, 0.5, 0.0])
    expect_equal(columns(ranking), expected, "records ranked")
    [ranking] = await ask(store, Rank(EAST, 1, records=ids[:3]))
    expect_equal(columns(ranking), (ids[:1], ["a"], np.array([0.5])), "the best of three records")


@case(CASES, "scores")
async def _the_best_record_of_an_artifact_is_returned_and_on_ties_the_first_surface(fixture):
    tied = put("a", "p", "q", "r", kinds=("title", "chunk", "chunk"), vectors=axes(80, 60, 60))
    store = await fixture.open_store([tied, put("b", "x", vectors=axes(0)), put("empty")])
    asked = ["a", "absent", "empty", "b", "a"]
    [ranking] = await ask(store, Rank(EAST, among=asked, per_artifact=True))
    expected = [record_id("b"), record_id("a", 1)], ["b", "a"], np.array([1.0, 0.5])
    expect_equal(columns(ranking), expected, "artifacts ranked")
    [ranking] = await ask(store, Rank(EAST, among=["a", "b"], per_artifact=True, surfaces=["title"]))
    expected = [record_id("a", 0, "title")], ["a"], np.array([math.cos(math.radians(80))])
    expect_equal(columns(ranking), expected, "artifacts ranked by their titles")


@case(CASES, "dense")
async def _a_search_equals_the_exact_ranking_by_cosine_then_artifact_then_surface(fixture):
    random = np.random.default_rng(7)
    points = random.standard_normal((12, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    changes = [
        put(f"a{at:03}", "t", "t", vectors=points[random.integers(0, 12, 2)].tolist()) for at in random.permutation(150)
    ]
    store = await fixture.open_store(changes)
    rows = sorted(
        (record for each in changes for record in each.records), key=lambda r: (r.artifact_id, r.surface_index)
    )
    stored = {record.id: row for each in changes for record, row in zip(each.records, each.vectors, strict=True)}
    queries = np.array([vector_of("one"), vector_of("two")], np.float32)
    for k in (1, 10, 10_000):
        for query, ranking in zip(queries, await ask(store, Rank(queries, k)), strict=True):
            scores = np.array([np.dot(stored[row.id].astype(float), query) for row in rows]).round(7)
            order = np.argsort(-scores, kind="stable")[:k]
            expected = [rows[at].id for at in order], [rows[at].artifact_id for at in order], scores[order]
            expect_equal(columns(ranking), expected, f"search_vectors(k={k})")


@case(CASES, "dense")
async def _records_without_any_likeness_to_the_query_are_ranked_too(fixture):
    store = await fixture.open_store(
        [put("a", "x", vectors=axes(90)), put("b", "y", vectors=[[0, 0]]), put("c", "", vectors=axes(180))]
    )
    [ranking] = await ask(store, Rank(EAST, 5))
    expect_equal(list(ranking.artifact_ids)[-1:], ["c"], "the last, at cosine -1")
    expect_equal(sorted(ranking.artifact_ids), ["a", "b", "c"], "artifacts ranked")
    expect_equal(ranking.scores, np.array([0.0, 0.0, -1.0]), "scores")


@case(CASES, "dense")
async def _several_vectors_are_answered_in_their_order_and_k_may_be_zero_or_large(fixture):
    store = await fixture.open_store([put("a", "alpha", vectors=axes(0)), put("b", "beta", vectors=axes(90))])
    queries = np.array(axes(80, 10), np.float32)
    for k, expected in ((1, [["b"], ["a"]]), (0, [[], []]), (1_000, [["b", "a"], ["a", "b"]])):
        found = [list(each.artifact_ids) for each in await ask(store, Rank(queries, k))]
        expect_equal(found, expected, f"search_vectors(k={k})")
    expect_equal(await ask(store, Rank(np.empty((0, 2), np.float32), 5)), [], "search_vectors without queries")


def _bm25(texts, query):
    """Return the BM25 score of each list of words; 0.0 without a shared word.

    The formula is that of Robertson (k1 = 1.2, b = 0.75) with the inverse document frequency of Lucene. A word of the
    query counts as often as it is there.
    """
    mean = sum(map(len, texts)) / len(texts)
    scores = [0.0] * len(texts)
    for word in sorted(query.split()):
        holders = sum(word in text for text in texts)
        rarity = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
        for at, text in enumerate(texts):
            count = text.count(word)
            scores[at] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


def _prose():
    """Return a hundred artifacts of up to three records with common and rare words."""
    random = np.random.default_rng(11)
    words = [f"w{at}" for at in range(40)]
    chances = 1 / np.arange(1, 41)
    chances /= chances.sum()
    texts = [" ".join(random.choice(words, random.integers(1, 12), p=chances)) for _ in range(200)]
    return [put(f"a{at:03}", *texts[2 * at : 2 * at + 1 + at % 3], metadata={"n": at % 3}) for at in range(100)]


@case(CASES, "lexical")
async def _a_new_store_finds_no_words(fixture):
    store = await fixture.open_store()
    found = [columns(each) for each in await ask(store, Rank(["a", "b"], 5))]
    expect_equal(found, [([], [], np.empty(0, np.float64))] * 2, "search_text in an empty store")


@case(CASES, "lexical")
async def _scores_are_those_of_bm25_to_a_millionth_best_first(fixture):
    changes = _prose()
    store = await fixture.open_store(changes)
    rows = [record for each in changes for record in each.records]
    queries = ["w0", "w7 w30", "w39 w1 w12", "absent w3", "w5 w2 w5"]
    for k in (3, 1_000):
        for query, ranking in zip(queries, await ask(store, Rank(queries, k)), strict=True):
            scores = _bm25([row.text.split() for row in rows], query)
            expect_equal(len(ranking), min(k, sum(score > 0 for score in scores)), f"records found for {query!r}")
            expected = {row.id: score for row, score in zip(rows, scores, strict=True)}
            ratios = ranking.scores / np.array([expected[each] for each in ranking.record_ids])
            expect_equal(ratios, np.ones(len(ranking)), f"scores divided by those of BM25 for {query!r}")
            best = np.sort(scores)[::-1][: len(ranking)]
            expect_equal(ranking.scores / best, np.ones(len(ranking)), f"scores divided by the best for {query!r}")


@case(CASES, "lexical")
async def _bm25_statistics_are_those_of_the_whole_corpus_whatever_the_filter(fixture):
    changes = _prose()
    store = await fixture.open_store(changes)
    [free] = await ask(store, Rank(["w7 w30"], 1_000))
    for options in ({"filter": parse_filter({"n": 2})}, {"filter": parse_filter({"n": 1}), "per_artifact": True}):
        [filtered] = await ask(store, Rank(["w7 w30"], 1_000, **options))
        expect(len(filtered), f"expected records for {options}, got none")
        scores = dict(zip(free.record_ids, free.scores.tolist(), strict=True))
        ratios = filtered.scores / np.array([scores[each] for each in filtered.record_ids])
        expect_equal(ratios, np.ones(len(filtered)), "scores with a filter divided by those without")


@case(CASES, "writing", "lexical")
async def _statistics_follow_every_write(fixture):
    changes = _prose()
    store = await fixture.open_store(changes[:50])
    await store.apply(Change([put("a003", "w7 replaced"), *changes[50:]], removals=["a001", "a090"]))
    rest = [row for each in changes for row in each.records if row.artifact_id not in ("a001", "a003")]
    texts = [*(row.text.split() for row in rest), ["w7", "replaced"]]
    expected = dict(zip([*(row.id for row in rest), record_id("a003")], _bm25(texts, "w7"), strict=True))
    [ranking] = await ask(store, Rank(["w7"], 1_000))
    expect_equal(set(ranking.record_ids), {each for each, score in expected.items() if score}, "records with 'w7'")
    ratios = ranking.scores / np.array([expected[each] for each in ranking.record_ids])
    expect_equal(ratios, np.ones(len(ranking)), "scores divided by those of BM25 after some writes")


@case(CASES, "lexical")
async def _words_are_cut_and_stemmed_without_stop_words_and_query_syntax_is_plain_words(fixture):
    texts = {"a": "Café-Bücher: rotate the KEYS", "b": "日本語 text", "c": "AND or not near", "d": "it's snake_case x1"}
    store = await fixture.open_store([put(name, text) for name, text in texts.items()])
    expected = {
        "cafe": ["a"], "BUCHER": ["a"], "keys' OR": ["a"], "OR": ["c"], "Key, rotating": ["a"], '"rotate': ["a"],
        "日本語": ["b"],
        "日本": ["b"], "本": ["b"], "日語": [],
        "AND": ["c"], "text:rotate*": ["a", "b"], "NEAR(": ["c"], "(": [], "-": [], "": [], "\ud800": [], "ro": [],
        "snake": ["d"], "s": ["d"], "x": [], "x1 OR": ["d"], "rotate\0keys": ["a"], "NOT rotate": ["a"],
    }  # fmt: skip
    found = await ask(store, Rank(list(expected), 5))
    for (query, names), ranking in zip(expected.items(), found, strict=True):
        expect_equal(sorted(ranking.artifact_ids), names, f"artifacts found for {query!r}")


@case(CASES, "lexical")
async def _several_queries_are_answered_in_their_order_and_k_may_be_zero_or_large(fixture):
    store = await fixture.open_store([put("a", "alpha"), put("b", "beta")])
    for k, both in ((5, ["a", "b"]), (1, ["a"]), (10_000, ["a", "b"])):
        found = [list(each.artifact_ids) for each in await ask(store, Rank(["beta", "?!", "alpha beta", ""], k))]
        expect_equal(found, [["b"], [], both, []], f"search_text(k={k})")
    expect_equal([len(each) for each in await ask(store, Rank(["beta"], 0))], [0], "lengths for search_text(k=0)")
    expect_equal(await ask(store, Rank([], 5)), [], "search_text without queries")


@case(CASES, "writing", "ledger")
async def _writing_nothing_changes_nothing(fixture):
    store = await fixture.open_store([put("a", "x")])
    await store.apply(Change())
    expect_equal(await ask(store, ArtifactIds()), ["a"], "artifact_ids()")


@case(CASES, "writing", "ledger")
async def _a_record_of_one_artifact_cannot_be_written_for_another(fixture):
    stranger = put("theirs", "x")
    change = type(stranger)(put("mine", "x").entry, stranger.records, stranger.vectors)
    store = await fixture.open_store()
    await expect_refusal(
        StoreError, store.apply(Change([change])), "a record of 'theirs' put as one of 'mine'", "mine", "theirs"
    )
    expect(not await ask(store, ArtifactIds()), "expected an empty store after the refusal")


@case(CASES, "writing", "dense", "vectors")
async def _vectors_of_a_replaced_or_removed_artifact_are_removed(fixture):
    store = await fixture.open_store([put("a", "alpha", "more alpha"), put("b", "beta"), put("c", "gamma")])
    await store.apply(Change([put("a", "delta")], removals=["b"]))
    [ranking] = await ask(store, Rank(vector_of("beta")[None], 10))
    expect_equal(sorted(ranking.artifact_ids), ["a", "c"], "artifacts found after a replacement and a removal")
    missing = await ask(store, Vectors([record_id("a", 1), record_id("b")]))
    expect(np.isnan(missing).all(), f"expected rows of NaN for removed records, got {missing.tolist()}")
    expect_equal(
        await ask(store, Vectors([record_id("a")])), vector_of("delta")[None], "the vector of a replaced record"
    )


@case(CASES, "writing", "vectors", "dense")
async def _the_width_may_change_only_if_no_other_vector_remains(fixture):
    store = await fixture.open_store([put("a", "x"), put("b", "y"), put("empty")])
    call = store.apply(Change([put("a", "x", dim=3)], removals=["empty"]))
    await expect_refusal(StoreError, call, "a new width beside an old one", "3", "4")
    await store.apply(Change([put("a", "x", dim=3)], removals=["b"]))
    expect_equal(
        await ask(store, Vectors([record_id("a")])), vector_of("x", 3)[None], "vectors after a change of width"
    )
    [ranking] = await ask(store, Rank(vector_of("x", 3)[None], 5))
    expect_equal(list(ranking.artifact_ids), ["a"], "artifacts found after a change of width")


@case(CASES, "dense")
async def _a_query_that_is_not_finite_is_refused(fixture):
    store = await fixture.open_store([put("a", "x", vectors=axes(0))])
    for value in (math.nan, math.inf):
        query = np.array([[value, 1.0]], np.float32)
        await expect_refusal(EmbedderError, ask(store, Rank(query, 5)), f"a query with {value}")


@case(CASES, "scores", "vectors")
async def _vectors_are_asked_for_by_the_ten_thousand_in_one_call(fixture):
    names = [f"a{at:04}" for at in range(1_000)]
    store = await fixture.open_store([put(name, f"text {name}") for name in names])
    ids = [record_id(name) for name in names] * 40
    query = vector_of("x")
    cosines = {record_id(name): float(vector_of(f"text {name}") @ query) for name in names}
    absent = [f"absent {at}" for at in range(40_000)]
    [ranking] = await ask(store, Rank(query[None], records=[*absent, *ids]))
    best = sorted(cosines, key=cosines.get, reverse=True)
    expect_equal(list(ranking.record_ids), best, "records ranked among 41,000 ids")
    expect_equal(ranking.scores, np.array([cosines[id] for id in best]), "the scores of 41,000 ids")
    expect_equal(
        await ask(store, Vectors(ids[:3_000])), np.array([vector_of(f"text {name}") for name in names] * 3), "vectors"
    )
    [ranking] = await ask(store, Rank(query[None], among=[*absent, *names], per_artifact=True))
    expect_equal(list(ranking.record_ids), best, "artifacts ranked among 41,000 ids")
    found = (await ask(store, VectorsOf(names * 40)))[0]
    expect_equal(found, [[each] for each in ids], "ids in vectors_of 40,000 artifacts")


@case(CASES, "vectors")
async def _no_vector_given_or_received_changes_the_store_when_changed(fixture):
    change = put("a", "text")
    store = await fixture.open_store([change])
    change.vectors[:] = 9.0
    (await ask(store, Vectors([record_id("a")])))[:] = 7.0
    (await ask(store, VectorsOf(["a"])))[1][:] = 7.0
    found = await ask(store, Vectors([record_id("a")]))
    expect_equal(found, vector_of("text")[None], "vectors after changing what was given and received")


@case(CASES, "lexical")
async def _scores_are_positive_even_for_words_in_every_record(fixture):
    store = await fixture.open_store([put(f"a{at}", f"the number {at}") for at in range(5)])
    [ranking] = await ask(store, Rank(["the"], 10))
    expect_equal(len(ranking), 5, "records with 'the'")
    expect((ranking.scores > 0).all(), f"expected positive scores, got {ranking.scores.tolist()}")


@case(CASES, "writing", "lexical")
async def _words_of_a_replaced_or_removed_artifact_are_removed(fixture):
    store = await fixture.open_store([put("a", "alpha words", "more alpha"), put("b", "beta words")])
    await store.apply(Change([put("a", "gamma words")], removals=["b"]))
    found = await ask(store, Rank(["alpha", "beta", "gamma", "words"], 5))
    expect_equal([list(each.artifact_ids) for each in found], [[], [], ["a"], ["a"]], "artifacts found by their words")


@case(CASES, "lexical")
async def _long_texts_and_long_queries_are_searched(fixture):
    store = await fixture.open_store([put("a", "word " * 10_000 + "needle"), put("b", "x" * 100_000)])
    queries = ["needle", " ".join(f"q{at}" for at in range(2_000)) + " needle", "x" * 100_000]
    found = [list(each.artifact_ids) for each in await ask(store, Rank(queries, 5))]
    expect_equal(found[:2], [["a"], ["a"]], "artifacts found for one word, and for 2,001")
