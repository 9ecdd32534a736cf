"""Anytime curves, risk-coverage curves, and how well a signal separates."""

import json
import math

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.evaluation import (
    Arrival,
    DiscoveryCase,
    Evaluation,
    FlatSearch,
    PolicyWalk,
    QueryRow,
    area_under_roc,
    evaluate,
    measure_abstention,
    measure_anytime,
    measure_risk,
    score_margin,
    top_score,
)
from airw.policies import Beam
from tests.support.evaluation_corpus import CASES, small_corpus

SIGNALS = st.lists(st.integers(-3, 3).map(float) | st.just(-math.inf) | st.just(math.nan), min_size=1, max_size=12)


class TestAnAnytimeCurve:
    @given(
        st.lists(
            st.tuples(
                st.sets(st.sampled_from("abc"), min_size=1),
                st.lists(st.sampled_from("abcxyz"), max_size=6),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def test_is_the_recall_of_what_arrived_until_then(self, queries):
        rows = []
        for gold, ids in queries:
            arrivals = tuple(Arrival(each, 2 * place, place / 2) for place, each in enumerate(ids, 1))
            rows.append(QueryRow(DiscoveryCase("q", gold), tuple(dict.fromkeys(ids)), arrivals=arrivals))
        evaluation = Evaluation("walk", tuple(rows))
        for by, scale in (("hits", 1), ("reads", 2), ("ms", 0.5)):
            points = [scale * place for place in range(8)]
            expected = [
                sum(len(set(ids[:place]) & gold) / len(gold) for gold, ids in queries) / len(queries)
                for place in range(8)
            ]
            assert measure_anytime(evaluation, by=by, at=points).recall == pytest.approx(expected)
            assert len(measure_anytime(evaluation, by=by).at) <= 51

    async def test_of_a_walk_ends_with_the_recall_of_all_its_hits(self):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, CASES, PolicyWalk(Beam(seed_k=1, width=2)), measures=["recall"])
            flat = await evaluate(corpus, CASES, FlatSearch({"mode": "dense"}))
        for by in ("hits", "reads", "ms"):
            curve = measure_anytime(found, by=by)
            assert curve.recall[-1] == pytest.approx(found.means()["recall"])
            assert list(curve.recall) == sorted(curve.recall)
        assert measure_anytime(flat, by="reads").recall[-2] == 0  # all hits are read by one call
        assert json.loads(json.dumps(curve.to_dict()))["by"] == "ms"

    @pytest.mark.parametrize("options", [{"by": "pages"}, {"at": [2, 1]}, {"at": [-1]}])
    def test_refuses_wrong_points(self, options):
        with pytest.raises(ArgumentError):
            measure_anytime(Evaluation("walk", ()), **options)

    def test_without_an_answer_is_flat(self):
        assert set(measure_anytime(Evaluation("walk", (QueryRow(DiscoveryCase("q"), ("a",)),))).recall) == {0}


class TestTheAreaUnderTheRocCurve:
    @given(SIGNALS, SIGNALS)
    def test_is_the_share_of_pairs_in_the_right_order(self, positives, negatives):
        def number(value):
            return -math.inf if math.isnan(value) else value

        pairs = [(number(one), number(other)) for one in positives for other in negatives]
        wins = sum((one > other) + 0.5 * (one == other) for one, other in pairs)
        assert area_under_roc(positives, negatives) == pytest.approx(wins / len(pairs))

    def test_needs_scores_of_both_kinds(self):
        with pytest.raises(ArgumentError, match="at least one positive and one negative"):
            area_under_roc([], [1.0])


class TestARiskCurve:
    @given(st.lists(st.tuples(st.integers(0, 4).map(float), st.booleans()), min_size=1, max_size=12))
    def test_counts_the_wrong_answers_above_each_threshold(self, pairs):
        curve = measure_risk(*map(list, zip(*pairs, strict=True)))
        for threshold, coverage, risk in zip(curve.thresholds, curve.coverage, curve.risk, strict=True):
            answered = [right for signal, right in pairs if signal >= threshold]
            assert coverage == len(answered) / len(pairs)
            assert risk == pytest.approx(answered.count(False) / len(answered))
        assert list(curve.thresholds) == sorted({signal for signal, _ in pairs}, reverse=True)
        assert 0 <= curve.area <= 1
        assert curve.coverage_at(1) == 1

    def test_has_no_infinite_number_in_json(self):
        values = json.loads(json.dumps(measure_risk([1.0, -math.inf], [True, False]).to_dict(), allow_nan=False))
        assert values["thresholds"] == [1.0, None]


class TestAbstention:
    async def test_is_measured_by_any_signal(self):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, CASES, FlatSearch({"mode": "lexical"}))
        for signal in (top_score, score_margin, lambda row: -len(row.case.query)):
            report = measure_abstention(found, signal=signal)
            positives, negatives = [signal(row) for row in found.rows[:3]], [signal(found.rows[3])]
            assert report.auc == area_under_roc(positives, negatives)
            assert (report.n_gold, report.n_abstention) == (3, 1)
        assert json.loads(json.dumps(report.to_dict()))["auc"] == report.auc

    def test_of_cases_of_one_kind_has_no_auc(self):
        report = measure_abstention(Evaluation("flat", (QueryRow(DiscoveryCase("q", "a"), ("a",), (1.0,)),)))
        assert report.auc is None
        assert str(report).startswith("AUC - (1 cases")
        assert report.curve.risk == (0.0,)
