"""The best rows are found without scoring all rows, with the same scores to the last bit."""

import numpy as np
from hypothesis import given, settings, strategies as st

from airw.stores._indexes.best_rows import Postings, RowScorer, Weighing, Word
from tests.support.drawing import examples

ROWS = 60
POSTINGS = st.dictionaries(st.integers(0, ROWS - 1), st.sampled_from([1, 1, 1, 2, 3, 40]), max_size=ROWS)


def make_postings(counts):
    rows = sorted(counts)
    return Postings(np.array(rows, np.int32), np.array([counts[row] for row in rows], np.int32))


def score_all_rows(postings, weighings, lengths):
    """Return the score of each row, added up word by word."""
    scores = np.zeros(ROWS)
    for each, weighing in zip(postings, weighings, strict=True):
        scores[each.rows] += weighing.score(each.counts, lengths[each.rows])
    return scores


@given(
    counts_by_word=st.lists(POSTINGS, max_size=5),
    lengths=st.lists(st.sampled_from([1, 7, 7, 7, 30, 900]), min_size=ROWS, max_size=ROWS),
    depths=st.lists(st.integers(1, 70), min_size=1, max_size=3),
    removed_known=st.tuples(st.none() | st.sets(st.integers(0, ROWS - 1), max_size=ROWS), st.sets(st.integers(0, 4))),
    frequency=st.none() | st.integers(0, 500),
)
@settings(max_examples=examples(60))
def test_the_best_rows_are_those_of_scoring_all_rows(counts_by_word, lengths, depths, removed_known, frequency):
    removed, known = removed_known  # rows that the scope leaves out; words whose gains are known
    lengths, scorer = np.array(lengths, float), RowScorer(ROWS)
    postings = [make_postings(counts) for counts in counts_by_word]
    weighings = [
        Weighing.of(len(each.rows), ROWS, int(lengths.sum())) if frequency is None else Weighing.of(frequency, 500, 900)
        for each in postings
    ]
    scores = score_all_rows(postings, weighings, lengths)
    may = np.ones(ROWS, bool)
    may[[*(removed or ())]] = False
    for depth in depths:
        words = [Word(each, weighing, lengths.take) for each, weighing in zip(postings, weighings, strict=True)]
        for at, word in enumerate(words):
            if at in known:
                word.score_all()
        rows, found = scorer.find_best(words, depth, None if removed is None else may.take)
        assert len({*rows.tolist()}) == len(rows)
        assert found.tolist() == scores[rows].tolist()  # equal to the last bit
        matches = np.flatnonzero(may & (scores > 0))
        last = sorted(scores[matches], reverse=True)[: min(depth, len(matches))][-1:]
        needed = matches[scores[matches] >= last[0]] if last else matches
        assert {*needed.tolist()} <= {*rows.tolist()} <= {*matches.tolist()}


def test_only_few_rows_of_a_word_in_many_rows_are_scored():
    many = Postings(np.arange(10_000, dtype=np.int32), np.ones(10_000, np.int32))
    rare = Postings(np.arange(0, 10_000, 500, dtype=np.int32), np.ones(20, np.int32))
    asked = []

    def read_lengths(rows):
        asked.append(len(rows))
        return np.full(len(rows), 9.0)

    words = [Word(each, Weighing.of(len(each.rows), 10_000, 90_000), read_lengths) for each in (many, rare)]
    rows, _ = RowScorer(10_000).find_best(words, 10, None)
    assert rows.tolist() == rare.rows.tolist()
    assert max(asked) == 20
