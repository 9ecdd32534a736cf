"""Exact dense search depends on the stored records only.

Neither the order of the rows nor the other queries of a call change a ranking.
"""

import time

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from airw.errors import ArgumentError, EmbedderMismatch, StoreError
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.vector_rows import FirstRows
from tests.support.drawing import examples
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.slow  # the exam of stores asks the same of whole stores


def unit(rows):
    rows = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def number(name, surface):
    """Return the number of a record; it depends on the name and the surface only."""
    return int.from_bytes(name.encode()) * 1000 + surface


def numbers(ids):
    return None if ids is None else np.array([number(*split(each)) for each in ids], np.int64)


def split(record_id):
    name, _, surface = record_id.partition("#")
    return name, int(surface)


def fill_index(rows, order=None):
    """Return an index over `(artifact, kind, surface index, vector)` rows.

    The rows are put one at a time in this order.
    """
    index = DenseIndex()
    for at in range(len(rows)) if order is None else order:
        name, kind, surface, vector = rows[at]
        row = np.array([vector], np.float32)
        index.put([f"{name}#{surface}"], [number(name, surface)], [name], [kind], [surface], vectors=row)
    return index


def to_lists(rankings):
    return [(list(each.record_ids), list(each.artifact_ids), each.scores.tolist()) for each in rankings]


def corpus(count, dim, seed=0, artifacts=7):
    """Return rows, in which every vector occurs in three artifacts, and five queries."""
    random = np.random.default_rng(seed)
    vectors = np.repeat(unit(random.standard_normal((count // 3 + 1, dim))), 3, axis=0)[:count]
    return [
        (f"a{at % artifacts}", ("title", "chunk")[at % 2], at // artifacts, vectors[at]) for at in range(count)
    ], unit(random.standard_normal((5, dim)))


@pytest.mark.parametrize(
    ("dim", "count"), [(1, 7), (1, 1001), (3, 1), (3, 61), (17, 2), (17, 1001), (64, 7), (384, 61), (384, 1001)]
)
def test_rankings_and_scores_do_not_depend_on_the_order_of_insertion(dim, count):
    rows, queries = corpus(count, dim)
    queries = np.concatenate([queries, [rows[0][3]], np.zeros((1, dim), np.float32)])
    options = [
        {},
        {"per_artifact": True},
        {"surfaces": ["chunk"]},
        {"allowed": numbers({f"a{at}#0" for at in range(5)})},
    ]
    expected = [to_lists(fill_index(rows).search(queries, 4, **each)) for each in options]
    for seed in range(3):
        index = fill_index(rows, np.random.default_rng(seed).permutation(count))
        assert [to_lists(index.search(queries, 4, **each)) for each in options] == expected


def test_equal_vectors_tie_exactly_at_any_position():
    """The last bits of their scores differ in a plain matrix product."""
    row = unit(np.random.default_rng(1).standard_normal((1, 384)))[0]
    query = unit(np.random.default_rng(2).standard_normal((1, 384)))
    for count in (3, 5, 7, 1001):
        rows = [(f"a{at:04}", "chunk", 0, row) for at in range(count)]
        [ranking] = fill_index(rows, range(count - 1, -1, -1)).search(query, count)
        assert len(set(ranking.scores.tolist())) == 1
        assert list(ranking.artifact_ids) == [f"a{at:04}" for at in range(count)]


def test_a_query_has_the_same_ranking_alone_and_among_others():
    rows, queries = corpus(500, 48)
    index = fill_index(rows)
    together = to_lists(index.search(queries, 10))
    assert [to_lists(index.search(query[None], 10))[0] for query in queries] == together


def test_a_search_ranks_all_as_if_each_were_named():
    rows, queries = corpus(300, 48)
    index = fill_index(rows)
    [ranking] = index.search(queries[:1], 300)
    named = index.rank_named(queries[:1], None, artifacts=None, records=ranking.record_ids[::-1])
    assert to_lists(named) == to_lists([ranking])
    [best] = index.search(queries[:1], 300, per_artifact=True)
    named = index.rank_named(queries[:1], None, artifacts=best.artifact_ids[::-1], records=None, per_artifact=True)
    assert to_lists(named) == to_lists([best])


GRID = st.integers(-2, 2)
ROW = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["title", "chunk"]),
    st.integers(0, 5),
    st.lists(GRID, min_size=3, max_size=3),
)
CORPORA = st.lists(ROW, max_size=15, unique_by=lambda row: (row[0], row[2]))


@given(
    CORPORA,
    st.lists(GRID, min_size=3, max_size=3),
    st.integers(0, 16),
    st.fixed_dictionaries(
        {
            "allowed": st.none() | st.sets(st.sampled_from([f"{name}#{at}" for name in "abcd" for at in range(6)])),
            "surfaces": st.none() | st.lists(st.sampled_from(["title", "chunk", "none"])),
            "per_artifact": st.booleans(),
        }
    ),
)
def test_a_search_is_filter_then_collapse_then_sort_then_cut(rows, query, k, options):
    """Integer vectors, so that every score is exact and ties are many."""
    allowed, surfaces = options["allowed"], options["surfaces"]
    kept = [
        (-float(np.dot(query, vector)), name, surface)
        for name, kind, surface, vector in rows
        if (allowed is None or f"{name}#{surface}" in allowed) and (surfaces is None or kind in surfaces)
    ]
    expected = sorted(kept)
    if options["per_artifact"]:
        seen = set()
        expected = [row for row in expected if not (row[1] in seen or seen.add(row[1]))]
    [ranking] = fill_index(rows).search(np.array([query], np.float32), k, **options | {"allowed": numbers(allowed)})
    found = list(zip((-ranking.scores).tolist(), ranking.artifact_ids, ranking.record_ids, strict=True))
    assert found == [(score, name, f"{name}#{surface}") for score, name, surface in expected[:k]]


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(CORPORA, st.sets(st.sampled_from([f"{name}#{at}" for name in "abcd" for at in range(6)])))))
def test_any_history_of_puts_and_drops_equals_one_fresh_put_of_the_remaining_rows(steps):
    index, left = DenseIndex(), {}
    for rows, dropped in steps:
        columns = list(zip(*[(f"{n}#{s}", number(n, s), n, kind, s, row) for n, kind, s, row in rows], strict=True))
        *columns, vectors = columns or [()] * 6
        index.put(*columns, vectors=np.array(vectors, np.float32).reshape(len(rows), 3))
        index.drop([*dropped, "absent"])
        left |= {f"{row[0]}#{row[2]}": row for row in rows}
        left = {each: row for each, row in left.items() if each not in dropped}
    queries, fresh = np.array([[1, 2, 0], [0, 0, 0]], np.float32), fill_index(list(left.values()))
    assert (len(index), index.dim) == (len(left), 3 if left else None)
    for options in ({}, {"per_artifact": True}, {"surfaces": ["title"]}):
        assert to_lists(index.search(queries, 4, **options)) == to_lists(fresh.search(queries, 4, **options))
    assert index.vectors(list(left)).tolist() == [row[3] for row in left.values()]
    assert rank_artifacts(index, queries) == rank_artifacts(fresh, queries)


def rank_artifacts(index, queries):
    return to_lists(index.rank_named(queries, None, artifacts="abcd", records=None, per_artifact=True))


def fix(rows):
    """Return the same rows as those that an index begins with."""
    names, kinds = sorted({row[0] for row in rows}), ["chunk", "title"]
    codes = [(names.index(n), kinds.index(kind), s, at) for at, (n, kind, s, _) in enumerate(rows, 1)]
    vectors = np.array([row[3] for row in rows], np.float32)
    longest = max(1.0, float(np.linalg.norm(vectors, axis=1).max()))
    return FirstRows(vectors, np.array(codes, np.int64).T, [f"{n}#{s}" for n, _, s, _ in rows], names, kinds, longest)


NO_LENGTH = ("a", "title", 0, [0, 0, 0])
NAMES = st.sets(st.sampled_from([f"{name}#{at}" for name in "abcd" for at in range(6)]))


@settings(max_examples=examples(60))
@given(CORPORA.filter(bool), st.lists(st.tuples(CORPORA, NAMES), max_size=4), st.integers(0, 4))
@example(
    [NO_LENGTH], [([], set()), ([], set()), ([], {"a#0"}), ([NO_LENGTH], set())], 4
)  # frozen without rows, then a put
def test_rows_of_a_file_and_added_ones_equal_one_fresh_put_of_the_remaining_rows_at_any_time(first, steps, frozen_at):
    """A frozen index stays as it was then."""
    first = sorted(first, key=lambda row: row[0])  # the records of an artifact are consecutive
    index, left, number = DenseIndex(first=fix(first)), {}, len(first)
    left = {f"{row[0]}#{row[2]}": row for row in first}
    queries, checks = np.array([[1, 2, 0], [0, 0, 0]], np.float32), []
    for at, (rows, dropped) in enumerate([([], set()), *steps]):
        if at == frozen_at:
            checks.append((index.freeze(), dict(left)))
        for n, kind, s, row in rows:
            number += 1
            index.put([f"{n}#{s}"], [number], [n], [kind], [s], vectors=np.array([row], np.float32))
        index.drop([*dropped, "absent", "\udc80"])
        left |= {f"{row[0]}#{row[2]}": row for row in rows}
        left = {each: row for each, row in left.items() if each not in dropped}
    for found, expected in [*checks, (index, left)]:
        fresh = fill_index(list(expected.values()))
        assert (len(found), found.dim) == (len(expected), 3 if expected else None)
        for options in ({}, {"per_artifact": True}, {"surfaces": ["title"]}):
            assert to_lists(found.search(queries, 4, **options)) == to_lists(fresh.search(queries, 4, **options))
        assert found.vectors(list(expected)).tolist() == [row[3] for row in expected.values()]
        assert found.vectors(["absent"]).shape == (1, 3 if expected else 0)
        assert rank_artifacts(found, queries) == rank_artifacts(fresh, queries)
        records = [found.vectors_of("abda"), fresh.vectors_of("abda")]
        assert [[sorted(ids) for ids in each.record_ids] for each in records] == 2 * [
            [sorted(id for id in expected if id[0] == name) for name in "abda"]
        ]


@settings(max_examples=examples(40))
@given(CORPORA, st.lists(ROW.map(lambda row: row[3]), min_size=1, max_size=3), st.integers(1, 8), st.booleans())
def test_a_quick_search_is_a_search(rows, queries, k, per_artifact):
    index, queries = fill_index(rows), np.array(queries, np.float32)
    found = index.search_if_quick(queries, k, per_artifact=per_artifact)
    assert (found is not None) == bool(rows)
    if rows:
        assert to_lists(found) == to_lists(index.search(queries, k, per_artifact=per_artifact))


def test_a_search_is_not_quick_with_many_rows_or_many_equal_ones():
    index = fill_index([(f"{at}", "chunk", 0, [1.0, 0.0]) for at in range(300)])
    assert index.search_if_quick(np.ones((1, 2), np.float32), 3) is None
    assert index.search_if_quick(np.ones((20_000, 2), np.float32), 3) is None


@pytest.mark.parametrize("per_artifact", [True, False])
def test_a_quick_search_among_many_rows_is_a_search_or_none(per_artifact):
    """There are equal scores, several rows of an artifact, and dead rows."""
    draw = np.random.default_rng(5)
    vectors = np.concatenate([draw.standard_normal((400, 6)), draw.integers(-1, 2, (100, 6))]).astype(np.float32)
    index = fill_index([(f"{at % 350:03}", "chunk", at // 350, vector.tolist()) for at, vector in enumerate(vectors)])
    index.drop([f"{at:03}#0" for at in range(0, 350, 3)])
    queries, found = np.concatenate([vectors[:20], vectors[-5:]]), []
    for query in queries[:, np.newaxis]:
        for k in (1, 4, 30):
            rankings = index.search_if_quick(query, k, per_artifact=per_artifact)
            if rankings is not None:
                assert to_lists(rankings) == to_lists(index.search(query, k, per_artifact=per_artifact))
            found.append(rankings is not None)
    assert sum(found) > len(found) / 2


def test_the_best_of_many_rows_are_found_in_any_order():
    """Many rows share places when a shortlist is made."""
    rows = np.random.default_rng(4).integers(-3, 4, (1_000, 5)).astype(np.float32)
    queries = np.random.default_rng(5).integers(-3, 4, (9, 5)).astype(np.float32)
    for order in (slice(None), np.argsort(rows @ queries[0])):
        index = fill_index([(f"{at:04}", "chunk", 0, rows[at].tolist()) for at in np.arange(1_000)[order]])
        for query, found in zip(queries, index.search(queries, 7), strict=True):
            expected = sorted(range(1_000), key=lambda at: (-float(rows[at] @ query), at))[:7]
            assert [int(name) for name in found.artifact_ids] == expected


def test_a_put_that_cannot_be_stored_changes_nothing():
    index = fill_index([("a", "chunk", 0, [1.0, 0.0]), ("b", "chunk", 0, [0.0, 1.0])])
    for vectors in (np.ones((1, 3), np.float32), np.ones((2, 2), np.float32), np.ones(2, np.float32)):
        with pytest.raises(StoreError):
            index.put(["a#0"], [1], ["a"], ["chunk"], [0], vectors=vectors)
    assert index.vectors(["a#0", "b#0"]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_last_row_may_be_replaced_by_one_of_another_width():
    index = fill_index([("a", "chunk", 0, [1.0, 0.0])])
    index.put(["a#0"], [1], ["a"], ["chunk"], [0], vectors=np.ones((1, 3), np.float32))
    assert index.dim == 3
    index.drop(["a#0"])
    assert index.dim is None
    assert index.vectors(["a#0"]).shape == (1, 0)


def test_queries_of_another_shape_are_refused():
    index = fill_index([("a", "chunk", 0, [1.0, 0.0])])
    with pytest.raises(EmbedderMismatch, match=r"3 wide.*2 wide"):
        index.search(np.ones((1, 3), np.float32), 1)
    with pytest.raises(ArgumentError, match=r"\(m, dim\), not \(2,\)"):
        index.search(np.ones(2, np.float32), 1)


def test_twenty_thousand_ties_at_the_cut_are_cut_quickly():
    """The query is like no record, as happens with a hashing embedder."""
    count = 20_000
    index = DenseIndex()
    names = [f"a{(at * 7919) % count:05}" for at in range(count)]
    ids, zeros = [f"{name}#0" for name in names], [0] * count
    index.put(ids, range(count), names, ["chunk"] * count, zeros, vectors=np.zeros((count, 8), np.float32))
    started = time.process_time()
    [ranking] = index.search(np.ones((1, 8), np.float32), 3, per_artifact=True)
    assert list(ranking.artifact_ids) == ["a00000", "a00001", "a00002"]
    assert time.process_time() - started < PATIENCE


def test_putting_row_after_row_does_not_copy_the_matrix_each_time():
    index = DenseIndex()
    moves = 0
    for at in range(2_000):
        before = index._table.matrices[1]
        index.put([str(at)], [at], ["a"], ["chunk"], [at], vectors=np.ones((1, 2), np.float32))
        moves += index._table.matrices[1] is not before
    assert moves <= 12
    moves = 0
    for at in range(4_000):
        before = index._table.matrices[1]
        index.drop([str(at)])
        index.put([str(at + 2_000)], [2_000 + at], ["a"], ["chunk"], [at], vectors=np.ones((1, 2), np.float32))
        moves += index._table.matrices[1] is not before
    assert moves <= 12
    assert len(index) == 2_000
    assert len(index._table.matrices[1]) <= 8_000


@pytest.mark.parametrize("dim", [1, 3, 17, 64, 384, 1000, 4096])
def test_a_score_does_not_depend_on_the_other_rows_of_the_index(dim):
    """So the rankings of several stores can be merged as if they were one store."""
    rows, queries = corpus(61, dim)
    whole = {id: score for id, _, score in zip(*to_lists(fill_index(rows).search(queries[:1], 61))[0], strict=True)}
    for size in (1, 2, 7, 30):
        for start in range(0, 61, size):
            [ranking] = fill_index(rows[start : start + size]).search(queries[:1], 61)
            assert {id: whole[id] for id in ranking.record_ids} == dict(
                zip(ranking.record_ids, ranking.scores.tolist(), strict=True)
            )
