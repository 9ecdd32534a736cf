"""Cases of `TextSearch`: words, BM25 as FTS5 counts it, order, ties, and the collapse to artifacts."""

import math
from collections.abc import Sequence

import numpy as np

from airw.protocols import Store
from airw.testing._exam import expect
from airw.testing._store_tools import StoreCase, columns, expect_equal, fact, put, record_id
from airw.values import ArtifactChange
from airw.values.filters import parse_filter

__all__ = ["CASES"]

CASES: list[StoreCase] = []


def _bm25(texts: Sequence[Sequence[str]], query: str) -> list[float]:
    """Score each text, given as words, as FTS5's `bm25()` does, made positive; 0.0 where no word is shared.

    That is Robertson's formula (k1 = 1.2, b = 0.75) with an inverse document frequency of at least 1e-6.
    """
    mean = sum(map(len, texts)) / len(texts)
    scores = [0.0] * len(texts)
    for word in sorted(set(query.split())):
        holders = sum(word in text for text in texts)
        rarity = math.log((len(texts) - holders + 0.5) / (holders + 0.5))
        for at, text in enumerate(texts):
            count = text.count(word)
            scores[at] += max(rarity, 1e-6) * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return scores


def _prose() -> list[ArtifactChange]:
    """Make a hundred artifacts of up to three records, in common words and rare ones."""
    random = np.random.default_rng(11)
    words = [f"w{at}" for at in range(40)]
    chances = 1 / np.arange(1, 41)
    chances /= chances.sum()
    texts = [" ".join(random.choice(words, random.integers(1, 12), p=chances)) for _ in range(200)]
    return [put(f"a{at:03}", *texts[2 * at : 2 * at + 1 + at % 3], metadata={"n": at % 3}) for at in range(100)]


@fact(CASES, "text")
async def _a_new_store_finds_no_words(store: Store) -> None:
    found = [columns(each) for each in await store.search_text(["a", "b"], 5)]
    expect_equal(found, [([], [], np.empty(0, np.float64))] * 2, "search_text in an empty store")


@fact(CASES, "text")
async def _scores_are_those_of_bm25_to_a_millionth_best_first(store: Store) -> None:
    changes = _prose()
    await store.apply(changes)
    rows = [record for each in changes for record in each.records]
    queries = ["w0", "w7 w30", "w39 w1 w12", "absent w3"]
    for k in (3, 1_000):
        for query, ranking in zip(queries, await store.search_text(queries, k), strict=True):
            scores = _bm25([row.text.split() for row in rows], query)
            expect_equal(len(ranking), min(k, sum(score > 0 for score in scores)), f"records found for {query!r}")
            expected = {row.id: score for row, score in zip(rows, scores, strict=True)}
            ratios = ranking.scores / np.array([expected[each] for each in ranking.record_ids])
            expect_equal(ratios, np.ones(len(ranking)), f"scores divided by those of BM25 for {query!r}")
            best = np.sort(scores)[::-1][: len(ranking)]
            expect_equal(ranking.scores / best, np.ones(len(ranking)), f"scores divided by the best for {query!r}")


@fact(CASES, "text")
async def _bm25_statistics_are_those_of_the_whole_corpus_whatever_the_filter(store: Store) -> None:
    changes = _prose()
    await store.apply(changes)
    [free] = await store.search_text(["w7 w30"], 1_000)
    for options in ({"filter": parse_filter({"n": 2})}, {"filter": parse_filter({"n": 1}), "per_artifact": True}):
        [held] = await store.search_text(["w7 w30"], 1_000, **options)
        expect(len(held), f"expected records for {options}, got none")
        scores = dict(zip(free.record_ids, free.scores.tolist(), strict=True))
        ratios = held.scores / np.array([scores[each] for each in held.record_ids])
        expect_equal(ratios, np.ones(len(held)), "scores with a filter divided by those without")


@fact(CASES, "text")
async def _statistics_follow_every_write(store: Store) -> None:
    changes = _prose()
    await store.apply(changes[:50])
    await store.apply([put("a003", "w7 replaced"), *changes[50:]], removals=["a001", "a090"])
    rest = [row for each in changes for row in each.records if row.artifact_id not in ("a001", "a003")]
    texts = [*(row.text.split() for row in rest), ["w7", "replaced"]]
    expected = dict(zip([*(row.id for row in rest), record_id("a003")], _bm25(texts, "w7"), strict=True))
    [ranking] = await store.search_text(["w7"], 1_000)
    expect_equal(set(ranking.record_ids), {each for each, score in expected.items() if score}, "records with 'w7'")
    ratios = ranking.scores / np.array([expected[each] for each in ranking.record_ids])
    expect_equal(ratios, np.ones(len(ranking)), "scores divided by those of BM25 after some writes")


@fact(CASES, "text")
async def _scores_are_positive_also_of_words_that_every_record_holds(store: Store) -> None:
    await store.apply([put(f"a{at}", f"the number {at}") for at in range(5)])
    [ranking] = await store.search_text(["the"], 10)
    expect_equal(len(ranking), 5, "records with 'the'")
    expect((ranking.scores > 0).all(), f"expected positive scores, got {ranking.scores.tolist()}")


@fact(CASES, "text")
async def _words_are_cut_as_unicode61_does_and_query_syntax_is_only_words(store: Store) -> None:
    texts = {"a": "Café-Bücher: rotate the KEYS", "b": "日本語 text", "c": "AND or not near", "d": "it's snake_case x1"}
    await store.apply([put(name, text) for name, text in texts.items()])
    expected = {
        "cafe": ["a"], "BUCHER": ["a"], "keys' OR": ["a", "c"], '"rotate': ["a"], "日本語": ["b"], "日本": [],
        "AND": ["c"], "text:rotate*": ["a", "b"], "NEAR(": ["c"], "(": [], "-": [], "": [], "\ud800": [], "ro": [],
        "snake": ["d"], "s": ["d"], "x": [], "x1 OR": ["c", "d"], "rotate\0keys": ["a"], "NOT rotate": ["a", "c"],
    }  # fmt: skip
    found = await store.search_text(list(expected), 5)
    for (query, names), ranking in zip(expected.items(), found, strict=True):
        expect_equal(sorted(ranking.artifact_ids), names, f"artifacts found for {query!r}")


@fact(CASES, "text")
async def _equal_bm25_scores_go_by_artifact_and_then_surface_also_at_the_cut(store: Store) -> None:
    names = ["d", "b", "c", "a", "B", "é"]
    for name in names:
        await store.apply([put(name, *["same"] * 11)])
    ids = [record_id(name, at) for name in sorted(names) for at in range(11)]
    for k in (1, 3, 5, 12, 100):
        [ranking] = await store.search_text(["same"], k)
        expect_equal(list(ranking.record_ids), ids[:k], f"search_text(k={k}) among equals")
    [ranking] = await store.search_text(["same"], 3, per_artifact=True)
    expect_equal(list(ranking.record_ids), ids[:33:11], "search_text(k=3, per_artifact=True) among equals")


@fact(CASES, "text")
async def _an_artifact_with_many_good_records_does_not_crowd_out_the_others_by_words(store: Store) -> None:
    crowd = put("crowd", *(f"word {at}" for at in range(200)))
    await store.apply([crowd, *(put(f"o{at:02}", "some other word here") for at in range(20))])
    [found] = await store.search_text(["word"], 10, per_artifact=True)
    expect_equal(list(found.artifact_ids), ["crowd", *(f"o{at:02}" for at in range(9))], "artifacts found")
    [rows] = await store.search_text(["word"], 10)
    expect_equal(set(rows.artifact_ids), {"crowd"}, "artifacts of the best records")


@fact(CASES, "text")
async def _several_queries_are_answered_in_their_order_and_k_may_be_zero_or_large(store: Store) -> None:
    await store.apply([put("a", "alpha"), put("b", "beta")])
    for k, both in ((5, ["a", "b"]), (1, ["a"]), (10_000, ["a", "b"])):
        found = [list(each.artifact_ids) for each in await store.search_text(["beta", "?!", "alpha beta", ""], k)]
        expect_equal(found, [["b"], [], both, []], f"search_text(k={k})")
    expect_equal([len(each) for each in await store.search_text(["beta"], 0)], [0], "lengths for search_text(k=0)")
    expect_equal(await store.search_text([], 5), [], "search_text without queries")


@fact(CASES, "text")
async def _only_the_wanted_surfaces_are_searched_by_words(store: Store) -> None:
    await store.apply([put("a", "word", "word", kinds=("title", "chunk")), put("b", "word and more")])
    title, chunk, other = record_id("a", 0, "title"), record_id("a", 1), record_id("b")
    wanted = {("chunk",): [chunk, other], ("title", "chunk", "no"): [title, chunk, other], ("title",): [title], (): []}
    for surfaces, ids in wanted.items():
        [ranking] = await store.search_text(["word"], 5, surfaces=list(surfaces))
        expect_equal(list(ranking.record_ids), ids, f"search_text(surfaces={list(surfaces)})")
    [ranking] = await store.search_text(["word"], 1, surfaces=["chunk"], per_artifact=True)
    expect_equal(list(ranking.record_ids), [chunk], "search_text(k=1, surfaces=['chunk'], per_artifact=True)")


@fact(CASES, "text")
async def _words_of_a_replaced_or_removed_artifact_are_forgotten(store: Store) -> None:
    await store.apply([put("a", "alpha words", "more alpha"), put("b", "beta words")])
    await store.apply([put("a", "gamma words")], removals=["b"])
    found = await store.search_text(["alpha", "beta", "gamma", "words"], 5)
    expect_equal([list(each.artifact_ids) for each in found], [[], [], ["a"], ["a"]], "artifacts found by their words")


@fact(CASES, "text")
async def _long_texts_and_long_queries_are_only_words(store: Store) -> None:
    await store.apply([put("a", "word " * 10_000 + "needle"), put("b", "x" * 100_000)])
    queries = ["needle", " ".join(f"q{at}" for at in range(2_000)) + " needle", "x" * 100_000]
    found = [list(each.artifact_ids) for each in await store.search_text(queries, 5)]
    expect_equal(found[:2], [["a"], ["a"]], "artifacts found for one word, and for 2,001")
