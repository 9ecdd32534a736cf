"""The best rows are found without scoring all rows, with the same scores to the last bit."""

import numpy as np
from hypothesis import given, settings, strategies as st

from airw.stores._indexes.best_rows import Postings, Word, find_best
from tests.support.drawing import examples

ROWS = 60
POSTINGS = st.dictionaries(st.integers(0, ROWS - 1), st.sampled_from([1, 1, 1, 2, 3, 40]), max_size=ROWS)


@given(
    counts_by_word=st.lists(POSTINGS, max_size=5),
    lengths=st.lists(st.sampled_from([1, 7, 7, 7, 30, 900]), min_size=ROWS, max_size=ROWS),
    depths=st.lists(st.integers(1, 70), min_size=1, max_size=3),
    removed=st.none() | st.sets(st.integers(0, ROWS - 1), max_size=ROWS),
    frequency=st.none() | st.integers(0, 500),
)
@settings(max_examples=examples(60))
def test_the_best_rows_are_those_of_scoring_all_rows(counts_by_word, lengths, depths, removed, frequency):
    words, lengths = [], np.array(lengths, np.int32)
    for counts in counts_by_word:
        rows = np.array(sorted(counts), np.int32)
        postings = Postings(rows, np.array([counts[row] for row in sorted(counts)], np.int32), lengths[rows])
        corpus = (len(rows), ROWS, int(lengths.sum())) if frequency is None else (frequency, 500, 900)
        words.append(Word(postings, *corpus))
    scores = np.zeros(ROWS)
    for word in words:
        scores[word.rows] += word.score_all()
    may = np.ones(ROWS, bool)
    may[[*(removed or ())]] = False
    for depth in depths:
        rows, found = find_best(words, depth, ROWS, None if removed is None else may)
        assert len({*rows.tolist()}) == len(rows)
        assert found.tolist() == scores[rows].tolist()  # equal to the last bit
        matches = np.flatnonzero(may & (scores > 0))
        last = sorted(scores[matches], reverse=True)[: min(depth, len(matches))][-1:]
        needed = matches[scores[matches] >= last[0]] if last else matches
        assert {*needed.tolist()} <= {*rows.tolist()} <= {*matches.tolist()}
