"""Reports on selections, sweeps of their settings, and distractor curves."""

import math
import random
import threading

import pytest

from airw.corpora import Corpus, build
from airw.errors import ArgumentError
from airw.evaluation import (
    Candidates,
    DiscoveryCase,
    SelectionGridPoint,
    SelectionSweep,
    evaluate_selection,
    find_candidates,
    measure_distractors,
    score_selection,
    sweep_selection,
)
from airw.protocols import Rank
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.values import SearchHit
from tests.support.evaluation_corpus import CASES, small_corpus


def candidates(gold, *scores):
    """Return candidates a, b, c, … with these scores."""
    hits = [SearchHit(name, "document", score, "") for name, score in zip("abcdef", scores, strict=False)]
    return Candidates(DiscoveryCase("q", gold), tuple(hits))


class TestASelectionReport:
    def test_leaves_out_what_the_search_missed(self):
        report = score_selection([candidates("a", 0.9), candidates("gone", 0.9), candidates([], 0.9)])
        assert (report.n_cases, report.n_gold, report.n_gold_retrieved, report.n_abstention) == (3, 2, 1, 1)
        assert (report.conditional_commit_rate, report.abstention_accuracy) == (1, 0)

    def test_measures_recall_by_what_was_found(self):
        report = score_selection([candidates(["a", "b", "gone"], 0.9, 0.1)])
        assert (report.selection_precision, report.selection_recall) == (1, 0.5)
        assert report.selection_f1 == pytest.approx(2 / 3)

    def test_without_a_selection_has_no_precision_and_an_f1_of_0(self):
        report = score_selection([candidates("a", 0.3)], min_score=0.5)
        assert (report.selection_precision, report.selection_f1, report.mean_selected_size) == (None, 0, 0)

    def test_takes_a_function_of_the_hits(self):
        report = score_selection([candidates("b", 0.9, 0.8)], strategy=lambda hits: hits[1:])
        assert (report.strategy, report.selection_precision) == ("custom", 1)

    async def test_is_made_in_a_thread_of_its_own(self):
        threads = set()

        def choose(hits):
            threads.add(threading.get_ident())
            return hits[:1]

        async with small_corpus() as corpus:
            await evaluate_selection(corpus, CASES, mode="lexical", strategy=choose)
        assert threads
        assert threading.get_ident() not in threads

    async def test_of_a_corpus_is_that_of_its_candidates(self):
        async with small_corpus() as corpus:
            report = await evaluate_selection(corpus, CASES, mode="lexical", max_k=1)
            found = await find_candidates(corpus, CASES, mode="lexical")
        assert report.to_dict() == {**score_selection(found, max_k=1).to_dict(), "mode": "lexical"}
        assert "commit rate" in str(report)


class TestASweep:
    async def test_searches_once_per_case(self):
        async with small_corpus() as corpus:
            store = ScriptedStore(corpus.store)
            sweep = await sweep_selection(Corpus("notes", store, corpus.embedder), CASES, mode="dense")
        assert store.calls[Rank] == len(CASES)
        assert len(sweep.points) == 30
        assert len(sweep.table().splitlines()) == 31
        assert str(sweep).endswith(f"best selection_f1: {sweep.best()}")
        assert sweep.to_dict()["best"]["max_k"] == sweep.best().max_k

    def test_prefers_the_smaller_selection_among_equals(self):
        reports = {rel: score_selection([candidates("a", 0.9, 0.5)], rel=rel, max_k=2) for rel in (0.2, 0.8, 0.9)}
        points = tuple(SelectionGridPoint(2, rel, None, report) for rel, report in reports.items())
        sweep = SelectionSweep(points, "conditional_commit_rate", "conservative", "dense", 10)
        assert sweep.best().rel == 0.9
        assert [point.rel for point in sweep.frontier()] == [0.8, 0.9]

    async def test_refuses_unknown_measures(self):
        with pytest.raises(ArgumentError, match="objective must be one of 'selection_f1'"):
            await sweep_selection("notes", [], objective="f1")
        with pytest.raises(ArgumentError, match="has no best one"):
            SelectionSweep((), "selection_f1", "conservative", "dense", 10).best()


class TestADistractorCurve:
    @pytest.mark.slow
    async def test_is_the_mean_over_random_catalogues(self):
        generator = random.Random(7)
        words = [f"w{number}" for number in range(12)]
        texts = {f"n{number}": " ".join(generator.choices(words, k=6)) for number in range(30)}
        cases = [DiscoveryCase(" ".join(generator.choices(words, k=2)), f"n{number}") for number in range(6)]
        async with build(from_mapping(texts, name="n"), store=MemoryStore(), embedder="light") as corpus:
            curve = await measure_distractors(corpus, cases, sizes=[1, 5, 10, 99], k=2)
            rankings = [
                [hit.artifact_id for hit in await corpus.search(case.query, k=30, mode="dense")] for case in cases
            ]
        assert list(curve) == [1, 5, 10, 30]
        assert curve[1] == 1
        for size in (5, 10, 30):
            hits = 0
            for _ in range(400):
                for case, ranking in zip(cases, rankings, strict=True):
                    others = generator.sample([id for id in texts if id != case.gold[0]], size - 1)
                    hits += case.gold[0] in [id for id in ranking if id in {*others, *case.gold}][:2]
            assert curve[size] == pytest.approx(hits / 2400, abs=0.05)

    async def test_needs_cases_with_one_answer_that_exists(self):
        async with small_corpus() as corpus:
            gone = [DiscoveryCase("bread", "gone"), CASES[0], CASES[3]]
            assert await measure_distractors(corpus, gone) == {}
            found = await measure_distractors(corpus, [DiscoveryCase("zzz", "bread")], mode="lexical")
        assert set(found.values()) == {0}
        assert not any(map(math.isnan, found.values()))
