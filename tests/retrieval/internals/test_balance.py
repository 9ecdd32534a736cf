"""The weights of the channels for one query, from their scores alone."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.retrieval.balance import find_spread, rank_shares, weigh_channels
from airw.retrieval.merging import ChannelRankings, merge_rankings
from airw.retrieval.query import SearchQuery
from airw.values import Ranking


def ranking(scores, start=0, max_score=None):
    ids = [f"a{place}" for place in range(start, start + len(scores))]
    return Ranking(ids, ids, np.array(scores, float), max_score)


def test_the_channel_whose_scores_differ_more_counts_more():
    peaked, flat = ranking([0.9, 0.1, 0.1]), ranking([5.0, 5.0, 4.0], max_score=10.0)
    dense, lexical = weigh_channels([("dense", peaked), ("lexical", flat)], [1.0, 1.0])
    assert dense > 1 > lexical
    assert dense + lexical == pytest.approx(2)


def test_words_that_only_the_best_text_has_count_more_than_words_that_many_have():
    dense = ranking([0.5, 0.4, 0.3, 0.2])
    rare, common = ([6.0], [6.0, 6.0, 6.0, 6.0])
    weights = [
        weigh_channels([("dense", dense), ("lexical", ranking(scores, max_score=10.0))], [1.0, 1.0])[1]
        for scores in (rare, common)
    ]
    assert weights[0] > 1 > weights[1] == 0


def test_if_no_text_has_much_of_the_query_words_count_little():
    dense, words = ranking([0.5, 0.3]), [6.0, 3.0]
    weak, strong = (
        weigh_channels([("dense", dense), ("lexical", ranking(words, max_score=most))], [1.0, 1.0])[1]
        for most in (60.0, 7.0)
    )
    assert weak < 1 < strong


@pytest.mark.parametrize("max_score", [None, float("inf")])
def test_without_the_highest_possible_score_the_weights_stay(max_score):
    rankings = [("dense", ranking([0.5, 0.1])), ("lexical", ranking([3.0], max_score=max_score))]
    assert weigh_channels(rankings, [0.2, 1.8]) == [0.2, 1.8]
    assert rank_shares(rankings[1][1]) is None


def test_a_lone_channel_and_channels_without_differences_keep_their_weights():
    same = ranking([0.5, 0.5])
    assert weigh_channels([("dense", ranking([0.5, 0.1]))], [1.0]) == [1.0]
    assert weigh_channels([("dense", same), ("lexical", ranking([], max_score=0.0))], [1.0, 1.0]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=60), st.integers(0, 60))
def test_a_spread_is_at_most_half_of_the_range(scores, length):
    ordered = np.array(sorted(scores, reverse=True))
    assert 0 <= find_spread(ordered, length) <= 0.5 + 1e-12


def test_hits_of_weighted_ranks_name_the_weights_and_add_up():
    dense, lexical = ranking([0.9, 0.5, 0.1]), ranking([8.0, 1.0], start=1, max_score=10.0)
    query = SearchQuery.parse("search", "keys", {"fusion": "ranks"}).for_embedder("bert-384")
    channels = [ChannelRankings("dense", [dense]), ChannelRankings("lexical", [lexical])]
    best = {each.artifact_id: each for each in merge_rankings(channels, query, None)}
    weights = best["a1"].earlier_scores
    assert weights["dense_weight"] + weights["lexical_weight"] == pytest.approx(2)
    assert best["a1"].score == pytest.approx(weights["dense_weight"] / 12 + weights["lexical_weight"] / 11)
