"""Calibration of floors: the best floor for two sets of scores, and stored floors."""

import functools
import json
import math
from fractions import Fraction

import anyio
import ir.eval
import pytest
from hypothesis import given, strategies as st

from airw import build, from_mapping, search
from airw.corpora import Corpus
from airw.discovery import discover
from airw.errors import ArgumentError, CorpusNotFound
from airw.evaluation import (
    DiscoveryCase,
    MinScoreCalibration,
    calibrate_min_score,
    load_calibration,
    measure_evidence,
    separating_floor,
)
from airw.protocols import Calibrations, Change, ask
from airw.stores import MemoryStore, Wrapper

SCORES = st.lists(st.integers(-8, 8).map(lambda n: n / 8) | st.just(-math.inf), max_size=8)
SOME = st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=1, max_size=8)
WEIGHTS = st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0])
ANY_SCORES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8)


class TestTheFloorBetweenTwoSetsOfScores:
    @given(positives=SCORES, negatives=SCORES, weight=WEIGHTS, grid=st.none() | SOME)
    def test_equals_the_floor_of_ir(self, positives, negatives, weight, grid):
        """If one kind of case is missing, `ir` reports a sensitivity or specificity of 1.

        This library reports that it was not measured.
        """
        ours = separating_floor(positives, negatives, sensitivity_weight=weight, floor_grid=grid)
        assert ours.positive_scores == ir.eval._score_summary(positives)
        assert ours.abstention_scores == ir.eval._score_summary(negatives)
        if not positives or not negatives:
            assert ours.min_score is None
            return
        floors = ir.eval._candidate_floors(positives + negatives) if grid is None else grid
        theirs = [ir.eval._score_floor(floor, positives, negatives) for floor in floors]
        best = ir.eval._pick_floor(theirs, weight)
        assert list(ours.grid) == theirs
        assert {name: getattr(ours, name) for name in best} == best
        assert ours.separable == any(each["youden_j"] >= 1 - 1e-9 for each in theirs)

    @given(positives=ANY_SCORES, negatives=ANY_SCORES, weight=WEIGHTS)
    def test_is_at_least_as_good_as_any_other_number(self, positives, negatives, weight):
        def worth(floor):
            kept = Fraction(sum(score >= floor for score in positives), len(positives))
            stopped = Fraction(sum(score < floor for score in negatives), len(negatives))
            return Fraction(weight) * kept + (1 - Fraction(weight)) * stopped

        found = separating_floor(positives, negatives, sensitivity_weight=weight)
        best = max(
            worth(floor) for score in positives + negatives for floor in (score, math.nextafter(score, math.inf))
        )
        assert float(worth(found.min_score)) == pytest.approx(float(best), abs=1e-12)
        assert found.balanced_accuracy == pytest.approx((found.sensitivity + found.specificity) / 2)

    def test_separates_adjacent_floating_point_scores(self):
        low = 1 - 2**-53
        assert separating_floor([1.0], [low]).youden_j == 1
        assert separating_floor([math.nextafter(1.0, 2)], [1.0]).youden_j == 1
        above = 1 + 2**-51
        assert separating_floor([1 + 2**-52], [above], sensitivity_weight=0).specificity == 1

    def test_is_the_highest_of_equally_good_floors(self):
        assert separating_floor([0.9], [0.1], floor_grid=[0.2, 0.8, 0.5]).min_score == 0.8

    def test_favours_sensitivity_or_specificity_by_the_weight(self):
        positives, negatives = [0.2, 0.9], [0.1, 0.5]
        kept = separating_floor(positives, negatives, sensitivity_weight=0.9)
        stopped = separating_floor(positives, negatives, sensitivity_weight=0.1)
        assert (kept.sensitivity, stopped.specificity) == (1, 1)
        assert kept.min_score < 0.2
        assert stopped.min_score > 0.5

    @pytest.mark.parametrize("nothing", [-math.inf, math.nan])
    def test_does_not_depend_on_searches_without_hits(self, nothing):
        """They abstain with any floor: correctly if there is no answer, wrongly if there is one."""
        found = separating_floor([0.9, nothing], [0.1, nothing])
        assert (found.min_score, found.sensitivity, found.specificity) == (0.5, 0.5, 1)
        assert found.abstention_scores == {"min": 0.1, "median": 0.1, "max": 0.1}

    def test_is_finite_even_if_a_score_is_not(self):
        found = separating_floor([math.inf, 0.9], [0.1])
        assert (found.min_score, found.youden_j) == (0.5, 1)
        assert all(math.isfinite(at["min_score"]) for at in found.grid)

    @pytest.mark.parametrize(
        ("positives", "negatives", "reason"),
        [([], [], "no_cases"), ([0.5], [], "no_abstention_cases"), ([], [0.5], "no_positive_cases")],
    )
    def test_needs_cases_of_both_kinds(self, positives, negatives, reason):
        found = separating_floor(positives, negatives)
        assert (found.min_score, found.reason, found.sensitivity, found.specificity) == (None, reason, None, None)

    @pytest.mark.parametrize("grid", [[], [0.1, math.nan], [math.inf], [True], ["0.5"], [None]])
    def test_accepts_only_a_grid_of_finite_numbers(self, grid):
        with pytest.raises(ArgumentError, match=r"floor_grid must (be|contain)"):
            separating_floor([0.9], [0.1], floor_grid=grid)

    @pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan, True, "0.5", None])
    def test_accepts_only_a_weight_from_0_to_1(self, weight):
        with pytest.raises(ArgumentError, match="sensitivity_weight must be"):
            separating_floor([0.9], [0.1], sensitivity_weight=weight)


class TestARecordOfACalibration:
    @given(positives=SCORES, negatives=SCORES)
    def test_survives_a_round_trip_through_json(self, positives, negatives):
        found = separating_floor(positives, negatives)
        written = json.dumps(found.to_dict(), allow_nan=False)
        assert MinScoreCalibration.from_dict(json.loads(written)) == found

    def test_can_be_read_from_a_record_with_missing_and_unknown_fields(self):
        read = MinScoreCalibration.from_dict({"min_score": 0.5, "mode": "dense", "vd_degraded": False})
        assert read == MinScoreCalibration(0.5, mode="dense")
        assert read.key == "dense"
        with pytest.raises(ArgumentError, match="min_score"):
            MinScoreCalibration.from_dict({"mode": "dense"})

    def test_sums_up_in_four_lines(self):
        assert str(separating_floor([0.75, 0.5], [0.25])).splitlines() == [
            "floor: 0.3750 (calibrated) for hybrid search of '', k=10",
            "with an answer: 2 cases, best scores 0.5000 to 0.7500; 0 more were not found",
            "without one: 1 cases, best scores 0.2500 to 0.2500",
            "sensitivity 1.0000, specificity 1.0000, Youden's J 1.0000, perfectly separable, weight 0.5",
        ]
        assert str(separating_floor([], [])).splitlines()[0] == "floor: none (no cases) for hybrid search of '', k=10"


TEXTS = {
    "keys": "rotate the signing keys of the server every month",
    "bread": "bake a loaf of bread with flour water and salt",
    "roses": "prune the roses in the garden before spring",
    "tyres": "change the tyres of the bicycle",
}
CASES = [
    DiscoveryCase("rotate signing keys", "keys"),
    DiscoveryCase("bake bread with salt", "bread"),
    DiscoveryCase("prune roses", ("roses", "tyres")),
    DiscoveryCase("the month of the comet"),
    DiscoveryCase("salt"),
    DiscoveryCase("zebra"),
    DiscoveryCase("SALT"),
    DiscoveryCase("tyres", gold="a manual that was thrown away"),
]
UNANSWERED = [case for case in CASES if case.gold_is_none]


def by_words(query, texts):
    """Return the share of the query's words that a text contains, in the same case."""
    words = set(query.split())
    return [len(words.intersection(text.split())) / len(words) for text in texts]


@pytest.fixture
async def notes():
    source = from_mapping(TEXTS, name="notes", embedder="light")
    async with build(source, store=MemoryStore()) as corpus:
        yield corpus


WAYS = [
    {"mode": "dense"},
    {"mode": "lexical"},
    {"mode": "hybrid", "fusion": "blend"},
    {"mode": "hybrid", "fusion": "rrf", "rrf_k": 20},
    {"mode": "lexical", "rerank": by_words},
]


class TestCalibrating:
    @pytest.mark.parametrize("way", WAYS)
    async def test_finds_the_floor_between_the_best_scores_of_the_searches(self, notes, way):
        async def best(case):
            hits = await search(notes, case.query, **way)
            nothing = not hits or case.query == "zebra" or hits[0].score == 0
            return -math.inf if nothing else hits[0].score

        found = await calibrate_min_score(notes, CASES, signal="score", **way)
        positives = [await best(case) for case in CASES[:3]]
        expected = separating_floor(positives, [await best(case) for case in UNANSWERED])
        assert (found.min_score, found.grid) == (expected.min_score, expected.grid)
        assert (found.n_positive, found.n_abstention, found.n_retrieval_miss) == (3, 4, 1)
        assert (found.corpus_name, found.embedder_id, found.k) == ("notes", notes.embedder_id, 10)

    @pytest.mark.parametrize("signal", ["evidence", "score"])
    @pytest.mark.parametrize("way", WAYS)
    async def test_counts_equal_those_of_discoveries_with_that_floor(self, notes, way, signal):
        found = await calibrate_min_score(notes, CASES, persist=True, signal=signal, **way)
        assert found.signal == signal
        answered = [
            case for case in CASES if not (await discover(notes, case.query, min_score="auto", **way)).abstained
        ]
        let_through = sum(case in answered for case in CASES[:3])
        stopped = sum(case not in answered for case in UNANSWERED)
        assert (found.sensitivity, found.specificity) == (let_through / 3, stopped / 4)

    async def test_the_signal_is_the_evidence_or_the_score_of_a_reranker(self, notes):
        evidence = await measure_evidence(notes, CASES, mode="dense")
        found = await calibrate_min_score(notes, CASES, mode="dense")
        assert (found.signal, found.weights, found.formula) == ("evidence", {"dense": 1.0}, None)
        assert found.positive_scores["max"] == max(evidence.by_query[case.query] for case in CASES[:3])
        hybrid = await calibrate_min_score(notes, CASES)
        assert (list(hybrid.weights), hybrid.formula is None) == (["dense", "lexical"], False)
        assert (await calibrate_min_score(notes, CASES, mode="lexical", rerank=by_words)).signal == "score"

    async def test_a_store_that_cannot_count_words_is_calibrated_on_scores(self, notes):
        class Uncounted(Wrapper):
            @property
            def capabilities(self):
                return {*super().capabilities} - {"words"}

        corpus = Corpus("notes", Uncounted(notes.store), notes.embedder)
        assert (await calibrate_min_score(corpus, CASES, mode="lexical")).signal == "score"
        assert (await calibrate_min_score(corpus, CASES, mode="dense")).signal == "evidence"

    @pytest.mark.slow
    async def test_finds_no_floor_of_the_evidence_if_chance_alone_separates_the_cases(self, notes):
        """Both kinds of cases are the same questions: a floor turns away as many of each."""
        same = [DiscoveryCase(text, id) for id, text in TEXTS.items()] * 3
        found = await calibrate_min_score(notes, [*same, *(DiscoveryCase(case.query) for case in same)], persist=True)
        assert (found.min_score, found.reason, found.auc) == (None, "inseparable", 0.5)
        assert await load_calibration(notes) is None
        clear = [*same, *(DiscoveryCase("the month of the comet") for _ in same)]
        assert (await calibrate_min_score(notes, clear)).reason == "calibrated"

    async def test_counts_an_answer_outside_the_depth_as_not_found(self, notes):
        case = DiscoveryCase("rotate signing keys", "bread")
        found = await calibrate_min_score(notes, [case, *UNANSWERED], mode="dense", k=1)
        assert (found.min_score, found.reason, found.n_retrieval_miss) == (None, "no_positive_cases", 1)

    async def test_counts_a_search_without_evidence_as_abstaining(self, notes):
        """A cosine of 0 to all texts without a common word is no score, not a low one."""
        for mode in ("dense", "hybrid"):
            found = await calibrate_min_score(notes, [*CASES[:3], DiscoveryCase("zebra")], mode=mode)
            assert (found.abstention_scores, found.specificity) == ({}, 1)

    async def test_accepts_a_grid_and_a_weight(self, notes):
        found = await calibrate_min_score(notes, CASES, mode="dense", floor_grid=iter([0.0, 2.0]), sensitivity_weight=1)
        assert [at["min_score"] for at in found.grid] == [0, 2]
        assert (found.min_score, found.sensitivity, found.sensitivity_weight) == (0, 1, 1)

    async def test_searches_only_the_given_surfaces(self, notes):
        found = await calibrate_min_score(notes, CASES, mode="dense", surfaces=iter(["chunk"]))
        assert (found.n_positive, found.n_retrieval_miss) == (0, 4)

    async def test_searches_several_cases_concurrently_but_not_all(self, notes):
        class Slow:
            id, dim, running, most = notes.embedder.id, notes.embedder.dim, 0, 0

            async def embed_query(self, text):
                self.running += 1
                self.most = max(self.most, self.running)
                await anyio.sleep(0.01)
                self.running -= 1
                return await notes.embedder.embed_query(text)

        corpus = type("Slowly", (), {"name": "notes", "store": notes.store, "embedder": Slow()})
        found = await calibrate_min_score(corpus, CASES * 4, mode="dense")
        assert 2 <= corpus.embedder.most <= 8
        assert found.n_positive == 12

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"mode": "deep"}, "mode must be"),
            ({"k": -1}, "k must be"),
            ({"sensitivity_weight": 2}, "sensitivity_weight"),
            ({"floor_grid": [math.nan]}, "floor_grid"),
            ({"rerank": "oracle"}, "oracle"),
            ({"persist": True, "rerank": functools.partial(by_words)}, "add an attribute `id`"),
            ({"persist": True, "signal": "score", "boost": lambda hit: 1.0}, "boost moves scores"),
            ({"signal": "margin"}, "signal must be"),
            ({"cases": ["rotate signing keys"]}, "cases must be DiscoveryCases, as load_cases returns them"),
        ],
    )
    async def test_refuses_invalid_arguments_before_opening_the_corpus(self, wrong, said):
        """The corpus does not exist, so a later check would raise another error."""
        with pytest.raises(ArgumentError, match=said):
            await calibrate_min_score("nowhere", **{"cases": CASES, **wrong})

    async def test_of_an_unknown_corpus_is_an_error(self):
        with pytest.raises(CorpusNotFound):
            await calibrate_min_score("nowhere", CASES)


class TestStoring:
    async def test_a_floor_is_stored_only_on_request(self, notes):
        found = await calibrate_min_score(notes, CASES, mode="dense")
        assert await load_calibration(notes, "dense") is None
        assert await found.save(notes) is found
        assert await load_calibration(notes, "dense") == found

    async def test_each_kind_of_search_has_a_floor_of_its_own(self, notes):
        found = [await calibrate_min_score(notes, CASES, persist=True, signal="score", **way) for way in WAYS]
        assert [await load_calibration(notes, **way) for way in WAYS] == found
        assert len({each.key for each in found}) == len(WAYS)
        assert await load_calibration(notes) is None

    async def test_all_fusions_share_the_floor_of_the_evidence(self, notes):
        await calibrate_min_score(notes, CASES, persist=True, signal="score", fusion="rrf", rrf_k=20)
        found = await calibrate_min_score(notes, CASES, persist=True, fusion="blend")
        assert await load_calibration(notes, fusion="rrf", rrf_k=20) == await load_calibration(notes) == found
        assert await load_calibration(notes, "lexical", rerank=by_words) is None

    async def test_a_calibration_without_a_floor_does_not_replace_one_with_a_floor(self, notes):
        found = await calibrate_min_score(notes, CASES, mode="dense", persist=True)
        none = await calibrate_min_score(notes, UNANSWERED, mode="dense", persist=True)
        assert none.min_score is None
        assert await load_calibration(notes, "dense") == found

    async def test_a_floor_of_an_anonymous_reranker_is_computed_but_not_stored(self, notes):
        nameless = {"mode": "lexical", "rerank": functools.partial(by_words)}
        found = await calibrate_min_score(notes, CASES, **nameless)
        assert found.min_score is not None
        with pytest.raises(ArgumentError, match="add an attribute `id`"):
            await calibrate_min_score(notes, CASES, persist=True, **nameless)
        with pytest.raises(ArgumentError, match="add an attribute `id`"):
            await found.save(notes)
        assert await load_calibration(notes, **nameless) is None
        assert await ask(notes.store, Calibrations()) == {}

    @pytest.mark.parametrize(
        "moved",
        [
            {"surface_weights": {"document": 2}},
            {"boost": lambda hit: 1.0},
            {"formulate": lambda query: [query, "more"]},
        ],
    )
    async def test_a_floor_of_rescaled_scores_is_computed_but_not_stored(self, notes, moved):
        way = {"mode": "dense", "signal": "score"}
        plain = await calibrate_min_score(notes, CASES, persist=True, **way)
        found = await calibrate_min_score(notes, CASES, **way, **moved)
        assert found.rescaled == tuple(moved)
        with pytest.raises(ArgumentError, match=f"{next(iter(moved))} moves scores"):
            await calibrate_min_score(notes, CASES, persist=True, **way, **moved)
        with pytest.raises(ArgumentError, match="as min_score instead of storing it"):
            await found.save(notes)
        assert await load_calibration(notes, "dense", **moved) is None
        assert await load_calibration(notes, "dense") == plain

    async def test_a_record_under_the_key_of_another_kind_of_search_is_ignored(self, notes):
        await notes.store.apply(Change(calibrations={"dense": MinScoreCalibration(0.5, mode="lexical").to_dict()}))
        assert await load_calibration(notes, "dense") is None

    @pytest.mark.asyncio_only
    async def test_a_stored_floor_outlives_the_open_corpus(self):
        async with build(from_mapping(TEXTS, name="notes", embedder="light")):
            pass
        found = await calibrate_min_score("notes", CASES, mode="dense", persist=True)
        assert await load_calibration("notes", "dense") == found
        signals = (await discover("notes", "salt", mode="dense", min_score="auto")).signals
        assert (signals["floor"], signals["floor_kind"]) == (found.min_score, "calibrated")
