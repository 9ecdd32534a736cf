"""How many hits `discover` commits to, if the scores of the ranking are sums of ranks."""

import pytest
from hypothesis import given, settings, strategies as st

from airw import adapt, discover, select
from airw.discovery import STRATEGIES, make_llm_selector
from airw.discovery.selection import select_by_evidence
from airw.evaluation import DiscoveryCase, evaluate_selection
from airw.values import SearchHit
from tests.support.discoveries import Counting, corpora
from tests.support.drawing import examples

SAME = "rotate the signing keys each spring"
FAR = "bake a loaf of bread with the keys of an oven, in spring"


def texts_of(equal, others=0):
    return {f"d{at}": SAME for at in range(equal)} | {f"far{at}": FAR for at in range(others)}


@pytest.mark.parametrize("options", [{}, {"fusion": "rrf"}, {"mode": "dense"}, {"mode": "lexical"}])
@pytest.mark.parametrize(("equal", "reason"), [(6, "max_k"), (3, "exhausted"), (2, "exhausted"), (1, "single")])
async def test_equal_documents_are_selected_up_to_the_limit(equal, reason, options):
    async with corpora({"notes": texts_of(equal)}) as (notes,):
        result = await discover(notes, "signing keys", **options)
    assert result.ids == [f"d{at}" for at in range(min(equal, 3))]
    assert result.reason == reason


@pytest.mark.parametrize("strategy", ["conservative", "rel_threshold", "score_gap"])
@pytest.mark.parametrize("split", [False, True])
async def test_documents_that_fit_far_less_are_cut_whatever_their_rank(strategy, split):
    texts = {"one": texts_of(2, others=4)} if not split else {"one": {"d0": SAME}, "two": {"d1": SAME, "far0": FAR}}
    async with corpora(texts) as many:
        result = await discover(many if split else many[0], "signing keys", strategy=strategy, max_k=6)
    assert result.ids == ["d0", "d1"]
    assert result.reason == ("rel_threshold" if strategy == "conservative" else strategy)
    assert result.signals.get("min_ratio", 1) == 1


@given(st.lists(st.sampled_from([SAME, FAR, "signing papers", "keys"]), min_size=1, max_size=8), st.integers(1, 8))
@settings(max_examples=examples(40))
async def test_equal_documents_are_all_selected_or_all_left_out(texts, max_k):
    async with corpora({"notes": {f"d{at}": text for at, text in enumerate(texts)}}) as (notes,):
        result = await discover(notes, "signing keys", max_k=max_k)
    if len(result.ids) < max_k:
        selected = {texts[int(id[1:])] for id in result.ids}
        assert sorted(result.ids) == sorted(f"d{at}" for at, text in enumerate(texts) if text in selected)


async def test_a_ratio_of_zero_selects_all_and_the_order_stays_that_of_the_ranking():
    async with corpora({"notes": texts_of(2, others=3)}) as (notes,):
        result = await discover(notes, "signing keys", rel=0, max_k=5)
        ranked = await discover(notes, "signing keys", strategy="top_k", max_k=5)
    assert result.ids == ranked.ids == ["d0", "d1", "far0", "far1", "far2"]
    assert [hit.score for hit in result.results] == [hit.score for hit in ranked.results]


async def test_scores_of_other_embedders_and_stores_are_compared_with_the_best_of_their_own():
    async def search(query, k):
        return [("first", 250.0), ("second", 30.0)]

    embedders = {"two": Counting("other")}
    async with corpora({"one": texts_of(1), "two": texts_of(1, others=2)}, embedders=embedders) as many:
        result = await discover([*many, adapt(search=search, name="three")], "signing keys", max_k=6)
    assert {(hit.source, hit.artifact_id) for hit in result.results} >= {("one", "d0"), ("two", "d0")}
    assert "second" not in result.ids
    assert not {"far0", "far1"} & set(result.ids)


async def test_the_best_of_several_walks_are_compared_with_the_best_hit_of_their_walk():
    async with corpora({"one": texts_of(2, others=2), "two": texts_of(1, others=1)}) as many:
        result = await discover(many, "signing keys", walk=True, max_k=6)
    assert sorted(result.ids) == ["d0", "d0", "d1"]


async def test_select_itself_compares_the_scores_that_it_is_given():
    async with corpora({"notes": texts_of(6)}) as (notes,):
        selection = select(await notes.search("signing keys", fusion="ranks"))
    assert (selection.selected_ids, selection.reason) == (["d0", "d1"], "rel_threshold")


SHARES = st.sampled_from([0.1, 0.5, 0.9, 0.95, 1.0]) | st.floats(0.01, 1)


@given(
    st.lists(SHARES, max_size=6).map(lambda scores: sorted(scores, reverse=True)),
    st.sampled_from(STRATEGIES),
    st.fixed_dictionaries({"min_score": SHARES, "max_k": st.integers(1, 7), "rel": SHARES, "gap_ratio": SHARES}),
)
def test_evidence_that_equals_the_scores_selects_what_the_scores_select(scores, strategy, options):
    hits = [SearchHit(f"d{place}", "document", score, "") for place, score in enumerate(scores)]
    expected = select(hits, strategy=strategy, **options)
    assert select_by_evidence(hits, scores, strategy=strategy, **options) == expected
    # Only ratios count: evidence on another scale changes nothing, and the floor is one of scores.
    doubled = [2 * score for score in scores]
    assert select_by_evidence(hits, doubled, strategy=strategy, **options) == expected


async def test_if_a_language_model_fails_equal_documents_are_all_selected():
    def fail(*, query, candidates):
        raise OSError("no model")

    async with corpora({"notes": texts_of(3, others=2)}) as (notes,):
        strategy = make_llm_selector("signing keys", chooser=fail)
        result = await discover(notes, "signing keys", strategy=strategy)
    assert result.ids == ["d0", "d1", "d2"]


@pytest.mark.parametrize("options", [{}, {"fusion": "scores"}, {"mode": "dense"}])
async def test_what_discover_commits_to_is_what_an_evaluation_measures(options):
    async with corpora({"notes": texts_of(3, others=4)}) as (notes,):
        case = DiscoveryCase("signing keys", ("d0", "d1", "d2"))
        report = await evaluate_selection(notes, [case], max_k=5, **options)
        result = await discover(notes, "signing keys", max_k=5, **options)
    assert result.ids == ["d0", "d1", "d2"]
    assert (report.mean_selected_size, report.selection_f1) == (3, 1)


@pytest.mark.parametrize(("strategy", "size"), [("rel_threshold", 3), ("score_gap", 3), ("conservative", 0)])
async def test_only_the_strategy_that_has_a_floor_compares_the_score_with_it(strategy, size):
    async with corpora({"notes": texts_of(3, others=4)}) as (notes,):
        case = DiscoveryCase("signing keys", ("d0", "d1", "d2"))
        report = await evaluate_selection(notes, [case], max_k=5, strategy=strategy, min_score=0.9)
    assert report.mean_selected_size == size
