"""Comparisons of systems: intervals, one table, promotion."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.evaluation import (
    DiscoveryCase,
    Evaluation,
    FlatSearch,
    Measure,
    QueryRow,
    bootstrap_pairs,
    compare,
    evaluate,
    promote,
)
from tests.support.evaluation_corpus import CASES, small_corpus

MRR = (Measure("mrr"),)
VALUES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20)


def system(label, values, measures=MRR):
    """Return an evaluation whose reciprocal ranks are 1, 1/2 or 0."""
    rankings = {1: ("a", "x"), 0.5: ("x", "a"), 0: ("x",)}
    rows = [QueryRow(DiscoveryCase(f"q{n}", "a"), rankings[value]) for n, value in enumerate(values)]
    return Evaluation(label, tuple(rows), measures)


class TestThePairedBootstrap:
    @given(VALUES)
    def test_interval_contains_the_mean_and_is_the_same_each_time(self, pairs):
        ours, theirs = zip(*pairs, strict=True)
        found = bootstrap_pairs(ours, theirs, resamples=50)
        assert found == bootstrap_pairs(ours, theirs, resamples=50)
        assert found.mean == pytest.approx(np.mean(np.subtract(ours, theirs)))
        reverse = bootstrap_pairs(theirs, ours, resamples=50)
        assert (reverse.low, reverse.high) == pytest.approx((-found.high, -found.low))

    def test_interval_is_close_to_that_of_the_normal_distribution(self):
        draws = np.random.default_rng(1).normal(0.1, 0.5, 400)
        found = bootstrap_pairs(draws, np.zeros(400))
        half = 1.96 * draws.std() / math.sqrt(400)
        assert found.low == pytest.approx(draws.mean() - half, abs=0.005)
        assert found.high == pytest.approx(draws.mean() + half, abs=0.005)

    def test_interval_does_not_depend_on_how_many_are_drawn_at_once(self):
        many = bootstrap_pairs([1.0] * 3000 + [0.0] * 3000, [0.5] * 6000, resamples=400)
        assert many.low < 0 < many.high
        assert not many.excludes_zero

    def test_interval_of_a_clear_difference_excludes_zero(self):
        assert bootstrap_pairs([1.0] * 8, [0.0] * 8).excludes_zero
        assert bootstrap_pairs([0.0] * 8, [1.0] * 8).excludes_zero

    @pytest.mark.parametrize("pair", [([], []), ([1.0], []), ([1.0], [1.0, 2.0])])
    def test_needs_a_value_for_each_query(self, pair):
        with pytest.raises(ArgumentError, match=r"^ours and theirs must have a value for each query"):
            bootstrap_pairs(*pair)


class TestAComparison:
    def test_subtracts_the_baseline_query_by_query(self):
        found = compare([system("flat", [0.5, 1, 0]), system("beam", [1, 1, 0]), system("ppr", [0, 0.5, 0])])
        assert {label: by["mrr"].mean for label, by in found.differences.items()} == pytest.approx(
            {"beam": 0.5 / 3, "ppr": -1 / 3}
        )
        other = compare(found.evaluations, baseline="beam")
        assert other.differences["flat"]["mrr"].mean == pytest.approx(-0.5 / 3)

    def test_is_one_table_and_json(self):
        found = compare([system("flat", [0.5, 0.5]), system("beam", [1, 1])])
        header, *lines = str(found).splitlines()
        assert header.startswith("system    mrr")
        assert "mrr - flat" in header
        assert [line.split()[:2] for line in lines] == [["flat", "0.500"], ["beam", "1.000"]]
        assert "+0.500 [+0.500, +0.500]" in lines[1]
        values = json.loads(json.dumps(found.to_dict()))
        assert values["differences"]["beam"]["mrr"]["n"] == 2

    def test_of_one_system_is_a_table_of_it(self):
        assert len(str(compare([system("flat", [1])])).splitlines()) == 2

    @pytest.mark.parametrize(
        ("evaluations", "message"),
        [
            ([], "at least one evaluation"),
            ([system("flat", [1]), system("beam", [1, 1])], "'flat' and 'beam' were asked different cases"),
            ([system("flat", [1]), system("flat", [1])], "a label of its own"),
            ([system("flat", [1]), system("beam", [1], (Measure("map"),))], "the same measures"),
            ([Evaluation("flat", (QueryRow(DiscoveryCase("q"), ()),), MRR)], "no case has an answer"),
        ],
    )
    def test_refuses_what_cannot_be_compared(self, evaluations, message):
        with pytest.raises(ArgumentError, match=message):
            compare(evaluations)

    async def test_of_real_systems_on_a_corpus(self):
        async with small_corpus() as corpus:
            modes = [FlatSearch({"mode": mode}, mode) for mode in ("lexical", "dense", "hybrid")]
            found = compare([await evaluate(corpus, CASES, mode, measures=["mrr"]) for mode in modes])
        assert [each.label for each in found.evaluations] == ["lexical", "dense", "hybrid"]
        assert set(found.differences) == {"dense", "hybrid"}


class TestPromotion:
    GOOD, MIDDLE, BAD = [1] * 30, [0.5] * 30, [0] * 30

    def test_needs_to_beat_the_search_and_the_reranked_search(self):
        verdict = promote(system("walk", self.GOOD), flat=system("flat", self.BAD), reranked=system("re", self.MIDDLE))
        assert verdict.promoted
        assert str(verdict).startswith("walk is promoted: better than flat: mrr +1.000 [+1.000, +1.000] over 30 cases")

    @pytest.mark.parametrize(
        ("flat", "reranked", "reason"),
        [
            (BAD, GOOD, "not better than re"),
            (GOOD, BAD, "not better than flat"),
            (BAD, [1] * 15 + [0.5, 0] * 7 + [1], "better than re"),
        ],
    )
    def test_compares_each_by_its_interval(self, flat, reranked, reason):
        verdict = promote(system("walk", self.GOOD), flat=system("flat", flat), reranked=system("re", reranked))
        assert verdict.promoted == (reason == "better than re")
        assert any(each.startswith(f"{reason}: mrr ") for each in verdict.reasons)

    def test_says_that_a_system_is_worse(self):
        verdict = promote(system("walk", self.BAD), flat=system("flat", self.GOOD), reranked=system("re", self.BAD))
        assert verdict.reasons[0].startswith("worse than flat: mrr -1.000")
        assert not verdict.promoted

    def test_needs_a_label_for_each_system(self):
        flat, walk = system("flat", [1] * 30), system("walk", [0.5] * 30)
        with pytest.raises(ArgumentError, match="a label each"):
            promote(walk, flat=flat, reranked=system("flat", [0] * 30))

    def test_counts_cases_of_one_source_once(self):
        rows = [QueryRow(DiscoveryCase("q", "a"), ("a",)) for _ in range(30)]
        best = Evaluation("walk", tuple(rows), MRR)
        worse = [Evaluation(label, tuple(replace(row, ranking=("x",)) for row in rows), MRR) for label in "fr"]
        verdict = promote(best, flat=worse[0], reranked=worse[1])
        assert not verdict.promoted
        assert "1 case" in verdict.reasons[-1]

    def test_needs_enough_cases(self):
        few = promote(system("walk", [1] * 8), flat=system("flat", [0] * 8), reranked=system("re", [0] * 8))
        assert not few.promoted
        assert few.reasons[-1] == "8 cases with an answer are too few, 20 are needed"

    def test_can_be_decided_by_another_measure_and_read_as_json(self):
        arms = {"flat": system("flat", self.MIDDLE), "reranked": system("re", self.MIDDLE)}
        verdict = promote(system("walk", self.GOOD), **arms, measure="recall@2")
        assert not verdict.promoted
        assert json.loads(json.dumps(verdict.to_dict()))["differences"]["flat"]["mean"] == 0
