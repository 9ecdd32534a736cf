"""Fusion by rank: facts, laws, and agreement with the function of `ir`."""

import math

import ir
import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.retrieval import fuse_hits, tag_source
from airw.retrieval.fusion import fuse_ranks
from airw.values import SearchHit


def hit(name, score=1.0, source=None, **metadata):
    return SearchHit(name, "document", score, f"text of {name}", metadata, source)


def keys(hits):
    return [each.key for each in hits]


def test_ranks_decide_and_the_scale_of_scores_does_not_matter():
    fused = fuse_hits({"dense": [hit("a", 0.9), hit("b", 0.8)], "bm25": [hit("c", 31.0), hit("d", 29.0)]})
    assert keys(fused) == [("dense", "a"), ("bm25", "c"), ("dense", "b"), ("bm25", "d")]
    assert [each.score for each in fused] == [1 / 61, 1 / 61, 1 / 62, 1 / 62]


def test_the_same_id_in_two_sources_is_two_hits():
    fused = fuse_hits({"x": [hit("a", 0.2)], "y": [hit("a", 0.9)]})
    assert keys(fused) == [("x", "a"), ("y", "a")]
    assert all("fused_sources" not in each.metadata for each in fused)


def test_within_a_source_only_the_best_surface_of_an_artifact_counts():
    many = [SearchHit("a", "chunk", 0.1 * at, "", surface_index=at) for at in range(5)]
    fused = fuse_hits({"x": [hit("b", 0.35), *many], "y": [hit("c")]})
    assert [(each.artifact_id, each.surface_index) for each in fused] == [("a", 4), ("c", None), ("b", None)]
    assert fused[0].score == 1 / 61


def test_nothing_fuses_to_nothing():
    assert fuse_hits({}) == []
    assert fuse_hits({"x": [], "y": ()}) == []


def test_a_single_source_that_answers_keeps_its_raw_scores_and_gets_its_name():
    fused = fuse_hits({"x": [], "y": [hit("a", 0.7), hit("b", 0.9)]}, weights={"y": 5})
    assert [(each.key, each.score, each.metadata) for each in fused] == [(("y", "b"), 0.9, {}), (("y", "a"), 0.7, {})]
    assert keys(fuse_hits({"y": [hit("a", 0.7), hit("b", 0.9)]}, k=1)) == [("y", "b")]


def test_hits_keep_their_score_and_rank_before_the_fusion_in_metadata():
    fused = fuse_hits({"x": [hit("a", 0.7, path="p")], "y": [hit("b", 3.0), hit("c", 2.0)]})
    assert {each.artifact_id: each.metadata for each in fused} == {
        "a": {"path": "p", "source_score": 0.7, "source_rank": 1},
        "b": {"source_score": 3.0, "source_rank": 1},
        "c": {"source_score": 2.0, "source_rank": 2},
    }


def test_the_input_hits_are_not_changed():
    given_hit = hit("a", 0.5, path="p")
    fuse_hits({"x": [given_hit], "y": [hit("b")]})
    assert given_hit == hit("a", 0.5, path="p")


def test_weights_scale_a_source_and_weights_of_absent_sources_are_ignored():
    sources = {"x": [hit("a")], "y": [hit("b")]}
    assert keys(fuse_hits(sources, weights={"y": 2, "absent": 7})) == [("y", "b"), ("x", "a")]
    assert [each.score for each in fuse_hits(sources, weights={"y": 2})] == [2 / 61, 1 / 61]
    assert [each.score for each in fuse_hits(sources, weights={"y": 0})] == [1 / 61, 0.0]


def test_hits_with_the_same_pointer_merge_with_summed_scores_and_both_sources():
    fused = fuse_hits(
        {"x": [hit("b", 0.9), hit("a", 0.5, path="/f")], "y": [hit("a2", 7.0, path="/f")], "z": [hit("q")]},
        identity="pointer",
    )
    assert fused[0].key == ("y", "a2"), "the merged hit is the one of the best rank"
    assert fused[0].score == 1 / 62 + 1 / 61
    assert fused[0].metadata["fused_sources"] == ["x", "y"]
    assert fused[0].metadata["source_rank"] == 1
    assert "fused_sources" not in fused[1].metadata


def test_a_source_of_any_name_keeps_its_hits_apart_from_identities():
    hits = {"identity": [hit("x", 0.9)], "other": [hit("y", 0.8)]}
    fused = fuse_hits(hits, identity=lambda each: each.artifact_id == "y" and "x")
    assert sorted(each.artifact_id for each in fused) == ["x", "y"]


def test_one_identity_inside_one_source_counts_once():
    fused = fuse_hits(
        {"x": [hit("a", 0.9, path="/f"), hit("b", 0.8, path="/f"), hit("c", 0.7)], "y": [hit("d")]}, identity="pointer"
    )
    assert [(each.artifact_id, each.score) for each in fused] == [("a", 1 / 61), ("d", 1 / 61), ("c", 1 / 62)]


def test_a_corpus_bound_under_two_names_is_one_source_and_both_names_are_listed():
    fused = fuse_hits({"x": [hit("a", source="corpus")], "y": [hit("a", source="corpus")]})
    assert keys(fused) == [("corpus", "a")]
    assert fused[0].score == 2 / 61
    assert fused[0].metadata["fused_sources"] == ["x", "y"]


def test_hits_under_the_key_none_get_no_source():
    assert keys(fuse_hits({None: [hit("a")], "y": [hit("a")]})) == [(None, "a"), ("y", "a")]


def test_ties_go_by_best_rank_then_source_then_id():
    tied = fuse_hits({"b": [hit("z"), hit("y")], "a": [hit("x"), hit("w")]}, weights={"a": 62 / 61})
    assert [each.artifact_id for each in tied][:1] == ["x"]
    same = fuse_hits({"b": [hit("z", 1), hit("m", 1)], "a": [hit("x", 1)]})
    assert [each.artifact_id for each in same] == ["z", "x", "m"]


def test_a_score_of_nan_never_ranks_above_a_number():
    worst = [hit("a", math.nan), hit("a", -5.0), hit("b", math.nan), hit("c", 0.1)]
    fused = fuse_hits({"x": worst})
    assert [(each.artifact_id, each.score) for each in fused][:2] == [("c", 0.1), ("a", -5.0)]


@pytest.mark.parametrize(
    "options",
    [
        {"rrf_k": -1},
        {"rrf_k": 1.5},
        {"rrf_k": True},
        {"k": -1},
        {"k": "3"},
        {"identity": "path"},
        {"identity": 3},
        {"identity": lambda each: [each.artifact_id]},
        {"weights": {"x": -1}},
        {"weights": {"x": math.nan}},
        {"weights": {"x": math.inf}},
        {"weights": {"x": "2"}},
        {"weights": {"x": True}},
    ],
)
@pytest.mark.parametrize("sources", [{"x": [hit("a")]}, {"x": [hit("a")], "y": [hit("b")]}])
def test_invalid_arguments_are_refused_for_any_number_of_sources(options, sources):
    with pytest.raises(ArgumentError) as caught:
        fuse_hits(sources, **options)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_a_source_is_filled_in_only_if_it_is_missing():
    tagged = tag_source([hit("a"), hit("b", source="old")], "new")
    assert keys(tagged) == [("new", "a"), ("old", "b")]
    assert keys(tag_source(tagged, None)) == [("new", "a"), ("old", "b")]


def test_fused_ranks_sum_the_reciprocals_of_one_based_ranks():
    fused = fuse_ranks([["a", "b", "c"], ["c", "a"], []], rrf_k=10)
    assert fused == [("a", 1 / 11 + 1 / 12), ("c", 1 / 13 + 1 / 11), ("b", 1 / 12)]


def test_a_repeated_key_in_one_ranking_counts_once_at_its_best_rank_and_takes_no_further_rank():
    assert fuse_ranks([["a", "a", "b"]]) == [("a", 1 / 61), ("b", 1 / 62)]


def test_fused_ranks_tie_in_order_of_first_appearance():
    assert [key for key, _ in fuse_ranks([["b"], ["a"], ["c"]])] == ["b", "a", "c"]


def test_invalid_rank_constants_and_weights_are_refused():
    for options in ({"rrf_k": -1}, {"weights": []}, {"weights": [1.0, 1.0]}):
        with pytest.raises(ArgumentError):
            fuse_ranks([["a"]], **options)


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SCORES = st.sampled_from([0.0, -1.0, 0.5, 1.0, 30.0]) | st.floats(-5, 5)
METADATA = st.fixed_dictionaries(
    {}, optional={"path": st.sampled_from(["", "/1", "/2"]), "skill_path": st.sampled_from([None, "/1", "/3"])}
)
ROWS = st.lists(st.tuples(NAMES, SCORES, METADATA, st.sampled_from([None, None, "x", "other"])), max_size=8)
SOURCES = st.dictionaries(st.sampled_from([None, "x", "y", "z"]), ROWS, max_size=4)


def make_hits(sources, make):
    return {
        name: [
            make(artifact, "chunk", score, "t", dict(metadata), source, at)
            for at, row in enumerate(rows)
            for artifact, score, metadata, source in [row]
        ]
        for name, rows in sources.items()
    }


@given(
    SOURCES,
    st.sampled_from([None, "pointer", "id"]),
    st.dictionaries(st.sampled_from(["x", "y", "absent"]), st.floats(0, 3)),
    st.sampled_from([0, 1, 60]),
    st.none() | st.integers(0, 6),
)
def test_random_hit_lists_fuse_exactly_like_in_ir(sources, identity, weights, rrf_k, k):
    """Hits, scores and metadata are equal, except for inputs where this library is stricter.

    These inputs are not generated:

    - scores that are not numbers;
    - rank constants and cuts that are negative or not whole;
    - weights that are negative, not finite or for the key None;
    - identities that do not hash, or that equal the `(source, id)` of another hit.
    """
    if identity == "id":
        identity = lambda each: each.artifact_id if each.artifact_id != "e" else None  # noqa: E731
    options = {"identity": identity, "weights": weights, "rrf_k": rrf_k, "k": k}
    ours = fuse_hits(make_hits(sources, SearchHit), **options)
    theirs = ir.fuse_hits(make_hits(sources, ir.SearchHit), **options)
    assert [each.to_dict() for each in ours] == [
        {name: getattr(each, name) for name in SearchHit.__slots__} for each in theirs
    ]


@given(SOURCES)
def test_fused_hits_come_best_first_without_repeats(sources):
    fused = fuse_hits(make_hits(sources, SearchHit))
    assert [each.score for each in fused] == sorted((each.score for each in fused), reverse=True)
    assert len(set(keys(fused))) == len(fused)
    assert set(keys(fused)) == {
        (source or name, artifact) for name, rows in sources.items() for artifact, _, _, source in rows
    }
