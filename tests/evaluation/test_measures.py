"""Measures of rankings, compared with other libraries."""

import math

import pytest
from ef import evaluation as ef
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.evaluation import MEASURES, Measure, parse_measures

IDS = "abcdefgh"
RANKINGS = st.permutations(IDS).flatmap(lambda ids: st.integers(0, len(ids)).map(lambda n: list(ids[:n])))
GRADES = st.dictionaries(st.sampled_from(IDS + "xyz"), st.integers(0, 3).map(float), max_size=6)
DEPTHS = st.none() | st.integers(1, 12)


class TestEachMeasure:
    @given(RANKINGS, GRADES, st.integers(1, 12))
    def test_equals_that_of_ir(self, ranking, grades, k):
        """The evaluation of `ir` has these five; the others are in the next test."""
        for name, theirs in ef.RETRIEVAL_METRICS.items():
            assert MEASURES[name](ranking, grades, k) == pytest.approx(theirs(ranking, grades, k), abs=1e-12)

    @given(RANKINGS, st.sets(st.sampled_from(IDS + "xyz"), min_size=1, max_size=6), st.integers(1, 12))
    def test_equals_that_of_ir_measures(self, ranking, gold, k):
        ir_measures = pytest.importorskip("ir_measures")
        names = {"ndcg": "nDCG", "recall": "R", "precision": "P", "mrr": "RR", "map": "AP", "success": "Success"}
        measures = {name: ir_measures.parse_measure(f"{theirs}@{k}") for name, theirs in names.items()}
        qrels = {"q": dict.fromkeys(gold, 1)}
        run = {"q": {id: float(len(ranking) - place) for place, id in enumerate(ranking)}}
        found = ir_measures.calc_aggregate(measures.values(), qrels, run) if ranking else {}
        for name, theirs in measures.items():
            ours = MEASURES[name](ranking, dict.fromkeys(gold, 1.0), k)
            assert ours == pytest.approx(found.get(theirs, 0.0), abs=1e-9), name
        assert MEASURES["all_gold"](ranking, dict.fromkeys(gold, 1.0), k) == (found.get(measures["recall"], 0.0) == 1)

    @given(RANKINGS, GRADES, DEPTHS)
    def test_is_a_number_from_0_to_1_and_the_cut_ranking_has_the_same(self, ranking, grades, k):
        for name, measure in MEASURES.items():
            value = measure(ranking, grades, k)
            assert 0 <= value <= 1 + 1e-12
            if k is not None:
                assert value == measure(ranking[:k], grades, k), name

    @given(RANKINGS, GRADES)
    def test_is_0_without_an_answer_and_no_measure_prefers_a_ranking_without_its_best(self, ranking, grades):
        for name, measure in MEASURES.items():
            assert measure(ranking, dict.fromkeys(grades, 0.0), 5) == 0, name
            if ranking and grades.get(ranking[0], 0) == 0:
                assert measure(ranking[1:], grades, 3) >= measure(ranking, grades, 3), name

    @pytest.mark.parametrize("name", MEASURES)
    def test_refuses_a_negative_depth(self, name):
        with pytest.raises(ArgumentError, match="k must be a whole number of at least 0, not -1"):
            MEASURES[name](["a"], {"a": 1.0}, -1)

    def test_of_a_graded_ranking_counts_the_grade_as_gain(self):
        best = 3 + 1 / math.log2(3)
        assert MEASURES["ndcg"](["b", "a"], {"a": 3.0, "b": 1.0}, 2) == pytest.approx((1 + 3 / math.log2(3)) / best)


class TestTheNameOfAMeasure:
    @pytest.mark.parametrize("name", ["recall@5", "mrr", "all_gold@2", "ndcg@10"])
    def test_is_read_and_written_alike(self, name):
        assert str(Measure.parse(name)) == name

    @pytest.mark.parametrize("name", ["recall@0", "recall@", "f1@5", "Recall@5", "", 5, "recall@5 ", "recall@-1"])
    def test_is_refused_with_the_measures_that_exist_or_an_example(self, name):
        with pytest.raises(ArgumentError, match=r"a measure|k of recall"):
            Measure.parse(name)

    def test_counts_once_if_it_is_given_twice(self):
        assert len(parse_measures(["mrr", "mrr", "mrr@10"])) == 2
        with pytest.raises(ArgumentError, match="at least one"):
            parse_measures([])
