"""Evidence as one number: the strength of the best artifact, and its lead."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.retrieval.evidence import Evidence, evidence_of, evidence_weights
from airw.values import Ranking, TermCounts
from tests.support.drawing import examples

BOTH = {"dense": 1.0, "lexical": 1.0}
PAIRS = st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 3)), min_size=1, max_size=20).map(tuple)


def evidence(*candidates):
    return Evidence(max(pair[0] for pair in candidates), max(pair[1] for pair in candidates), candidates)


def test_a_cosine_and_a_match_of_one_artifact_are_stronger_than_those_of_two():
    together, apart = evidence((0.5, 0.5), (0.0, 0.0)), evidence((0.5, 0.0), (0.0, 0.5))
    assert together.weigh(BOTH) > apart.weigh(BOTH)


def test_a_vague_question_has_less_evidence_than_one_with_a_leading_artifact():
    vague, clear = evidence(*[(0.5, 0.0)] * 10), evidence((0.5, 0.0), *[(0.1, 0.0)] * 9)
    assert vague.weigh(BOTH) == 0.5
    assert clear.weigh(BOTH) == pytest.approx(0.9)


@settings(max_examples=examples(50))
@given(PAIRS, st.randoms(), st.floats(0, 2), st.floats(0, 2))
def test_neither_order_nor_scale_matters_and_a_lead_is_never_negative(pairs, chance, dense, lexical):
    weights, shuffled = {"dense": dense, "lexical": lexical}, list(pairs)
    chance.shuffle(shuffled)
    value = evidence(*pairs).weigh(weights)
    assert evidence(*shuffled).weigh(weights) == value
    assert value >= max(dense * cosine + lexical * match for cosine, match in pairs) - 1e-9
    assert evidence(*pairs).weigh({"dense": 2 * dense, "lexical": 2 * lexical}) == pytest.approx(2 * value)


def test_the_best_record_of_an_artifact_counts_and_what_a_channel_does_not_list_is_not_guessed_high():
    dense = Ranking(["r1", "r2", "r3"], ["a", "a", "b"], np.array([0.75, 0.5, 0.25]))
    lexical = Ranking(["r4"], ["c"], np.array([4.0]))
    counts = TermCounts("bm25", 100, 900, {"keys": 1})
    found = evidence_of(dense, lexical, counts)
    assert (found.dense, found.formula) == (0.75, "bm25")
    assert found.candidates == ((0.75, 0.0), (0.25, 0.0), (0.25, found.lexical))
    assert found.weigh({"dense": 1.0}) == 0.75 + (0.75 - 0.25)


def test_matches_count_more_with_vectors_that_know_words_but_no_meaning():
    assert evidence_weights("dense", "any") == {"dense": 1.0}
    assert evidence_weights("hybrid", "hashing-v1-512")["lexical"] > evidence_weights("hybrid", "bert-384")["lexical"]
