"""Runs of the word index on a server: packed, found, merged and shrunk without a loss."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.stores.postgres import _word_runs
from airw.stores.postgres._word_runs import (
    MAX_PAIRS,
    SPAN,
    Blocks,
    Pairs,
    Run,
    analyse,
    choose_depth,
    count_records,
    drop_records,
    find_codes,
    find_group,
    find_keys,
    hash_words,
    list_codes,
    merge_runs,
    pack_rows,
    split_runs,
)
from airw.values import Analyser

NAMES = [f"word{number}" for number in range(40)]
# A count or a length may be too large for the short form of an entry.
PAIRS = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.integers(5, 5_000)),
    st.tuples(st.integers(1, 9) | st.just(1 << 20), st.integers(1, 99) | st.just(1 << 31)),
    max_size=60,
)


def make_pairs(entries):
    words, numbers = [name for name, _ in entries], [number for _, number in entries]
    counts, lengths = ([value[at] for value in entries.values()] for at in (0, 1))
    return Pairs(hash_words(words), *(np.array(column, np.int64) for column in (numbers, counts, lengths)))


def to_set(pairs):
    return {*zip(*(column.tolist() for column in pairs), strict=True)}


@given(
    entries=PAIRS,
    depth=st.sampled_from(range(0, 17, 2)),
    common=st.sampled_from([1, 3, 512]),
    gone=st.sets(st.integers(5, 5_000)),
)
def test_rows_contain_the_pairs_and_lose_those_of_removed_records(entries, depth, common, gone):
    pairs, run = make_pairs(entries), Run(5, 5_000, 1, 1, len(entries), depth)
    gone |= {number for place, (_, number) in enumerate(entries) if place % 3 == 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_word_runs, "_COMMON", common)
        rows = pack_rows(run, pairs)
    assert to_set(Blocks(rows).to_pairs()) == to_set(pairs)
    assert {row[:3] for row in rows} <= {*zip(*find_keys(run, pairs).tolist(), strict=True)}
    for name in NAMES:
        code = hash_words([name])
        read = Blocks([row for row in rows if row[0] in list_codes(code)])
        expected = {number: value for (word, number), value in entries.items() if word == name}
        places = read.find(int(code[0]))
        numbers = (read.runs + read.offsets)[places].tolist()
        assert numbers == sorted(expected)
        values = zip(read.counts[places].tolist(), read.lengths[places].tolist(), strict=True)
        assert dict(zip(numbers, values, strict=True)) == expected
        assert count_records([row[3] for row in rows], code) == [len(expected)]
    kept = {key: value for key, value in entries.items() if key[1] not in gone}
    left, count = drop_records(rows, np.array(sorted(gone), np.int64))
    assert (to_set(Blocks(left).to_pairs()), count) == (to_set(make_pairs(kept)), len(entries) - len(kept))
    assert {row[:3] for row in left} <= {row[:3] for row in rows}


@given(texts=st.lists(st.text(max_size=40) | st.sampled_from(["ა" * 11_000, "x" * 33_000, "one two one"]), max_size=9))
def test_the_words_of_texts_are_those_of_the_analyser(texts):
    words = analyse(texts, "en")
    expected = [Counter(each) for each in Analyser("en").split(texts)]
    names = {int(hash_words([name])[0]): name for each in expected for name in each}
    found = [Counter() for _ in texts]
    for word, at, count, length in to_set(words.pairs):
        found[at][names[word]] = count
        assert length == words.lengths[at]
    assert found == expected
    assert words.lengths.tolist() == [Analyser("en").count(text) for text in texts]


@given(
    sizes=st.lists(st.integers(0, 9) | st.sampled_from([1_000, 40_000, MAX_PAIRS // 2, MAX_PAIRS]), max_size=300),
    gap=st.sampled_from([0, 1_000, SPAN]),
)
def test_few_runs_are_left_and_none_is_too_large(sizes, gap):
    runs, last = [], 0
    for size in sizes:
        runs.append(Run(last + 1, last + 10, 10, size, size, choose_depth(size)))
        last += 10 + gap
        while (group := find_group(runs)) is not None:
            merged = merge_runs(runs[group])
            assert merged.pairs == sum(run.pairs for run in runs[group]) <= MAX_PAIRS
            assert merged.last - merged.first < SPAN
            runs[group] = [merged]
    if gap < SPAN and max(sizes, default=0) <= 9:
        assert len(runs) <= 7 * 4 + 1
    assert sum(run.words for run in runs) == sum(sizes)
    assert runs == sorted(runs)


def test_a_large_write_is_cut_into_runs_between_records():
    lengths = np.array([3, 0, 2, 2, 1], np.int64)
    numbers = np.array([7, 8, 9, SPAN + 9, SPAN + 10], np.int64)
    at = np.repeat(np.arange(5), lengths)
    pairs = Pairs(np.arange(8, dtype=np.uint64), numbers[at], np.ones(8, np.int64), lengths[at])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_word_runs, "MAX_PAIRS", 4)
        runs = split_runs(pairs, numbers, lengths)
    assert [(run.first, run.last, run.records, run.words, run.pairs) for run, _ in runs] == [
        (7, 8, 2, 3, 3),
        (9, 9, 1, 2, 2),
        (SPAN + 9, SPAN + 10, 2, 3, 3),
    ]
    assert [len(each.words) for _, each in runs] == [3, 2, 3]


def test_the_first_bits_of_a_hash_tell_the_row():
    words = np.array([0, 1 << 63, (1 << 64) - 1], np.uint64)
    assert find_codes(words, 0).tolist() == [1, 1, 1]
    assert find_codes(words, 2).tolist() == [4, 6, 7]
    assert list_codes(words[:1]) == [1 << depth for depth in range(0, 17, 2)]
