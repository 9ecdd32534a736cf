"""A hit that is marked final keeps its place, whatever the pending sources return."""

import pytest
from hypothesis import given, settings, strategies as st

from airw.discovery._final_places import final_places
from airw.retrieval.fusion import fuse_entries
from airw.values import SearchHit
from tests.support.drawing import examples


def hit(name, path=None):
    return SearchHit(name, "document", 0.0, "", {} if path is None else {"path": path})


def make_ranking(names, paths=()):
    """Hits in rank order, which scores follow."""
    hits = [SearchHit(name, "document", -float(at), "", {}) for at, name in enumerate(dict.fromkeys(names))]
    for each, path in zip(hits, paths, strict=False):
        if path:
            each.metadata["path"] = path
    return hits


def final_ids(answered, pending, **options):
    names = answered | dict.fromkeys(pending, ())
    order = sorted(names)
    hits = {name: names[name] for name in order}
    weights = options.pop("weights", {})
    entries = fuse_entries(hits, weights=weights, **options)
    waiting = {at: weights.get(name, 1.0) for at, name in enumerate(order) if name in pending}
    places = final_places(
        entries, waiting, rrf_k=options.get("rrf_k", 60), may_merge=options.get("identity") is not None
    )
    return [entry.hit.artifact_id for entry, is_final in zip(entries, places, strict=True) if is_final]


def test_while_the_third_of_three_equal_sources_is_pending_only_the_first_hits_of_the_others_are_final():
    a, b = make_ranking(["A1", "A2", "A3"]), make_ranking(["B1", "B2", "B3"])
    assert final_ids({"A": a, "B": b}, ["C"]) == ["A1", "B1"]


def test_while_the_first_of_three_equal_sources_is_pending_nothing_is_final():
    assert final_ids({"B": make_ranking(["B1"]), "C": make_ranking(["C1"])}, ["A"]) == []


def test_while_the_second_of_three_sources_is_pending_the_first_hit_of_the_first_is_final():
    assert final_ids({"A": make_ranking(["A1", "A2"]), "C": make_ranking(["C1"])}, ["B"]) == ["A1"]


def test_a_pending_source_of_low_weight_displaces_fewer_hits():
    ten = make_ranking([f"A{at}" for at in range(10)])
    assert final_ids({"A": ten}, ["B"], weights={"B": 0.9}) == [f"A{at}" for at in range(7)]
    assert final_ids({"A": ten}, ["B"], weights={"B": 0.0}) == [f"A{at}" for at in range(10)]


def test_if_hits_may_merge_a_hit_may_still_rise_past_the_one_above_it():
    a, b = make_ranking(["A1", "A2"], ["/1", "/2"]), make_ranking(["B1"], ["/1"])
    assert final_ids({"A": a, "B": b}, ["C"], identity="pointer") == ["A1"]
    assert final_ids({"A": a}, ["C"], identity="pointer") == []
    assert final_ids({"A": make_ranking(["A1"]), "B": make_ranking(["B1"])}, ["C"], identity="pointer") == ["A1", "B1"]


def test_a_hit_that_may_still_rise_is_not_final():
    assert final_ids({"A": make_ranking(["A1"]), "B": make_ranking(["B1"], ["/1"])}, ["C"], identity="pointer") == []
    assert final_ids({"A": make_ranking(["A1"]), "B": make_ranking(["B1"])}, ["C"], identity="pointer") == ["A1", "B1"]


def test_without_pending_sources_everything_is_final():
    a = make_ranking(["A1", "A2"], ["/1", "/2"])
    assert final_ids({"A": a, "B": a}, [], identity="pointer") == ["A1", "A2"]


PATHS = st.lists(st.sampled_from([None, "/1", "/2", "/3"]), max_size=4)
LISTS = st.tuples(st.lists(st.sampled_from(list("abcdef")), max_size=5), PATHS)


@pytest.mark.slow
@given(
    st.lists(LISTS, min_size=1, max_size=4),
    st.data(),
    st.sampled_from([None, "pointer"]),
    st.sampled_from([0, 1, 60]),
    st.dictionaries(st.sampled_from("0123"), st.sampled_from([0.0, 0.5, 1.0, 2.0, 0.984]), max_size=4),
)
@settings(max_examples=examples(600))
def test_no_hit_marked_final_ever_moves(lists, data, identity, rrf_k, weights):
    """Its place, its fields and all hits above it stay, whichever sources are pending.

    They may return any hits or none.
    """
    names = [str(at) for at in range(len(lists))]
    hits = {name: make_ranking(*each) for name, each in zip(names, lists, strict=True)}
    pending = data.draw(st.sets(st.sampled_from(names)), label="pending")
    options = {"rrf_k": rrf_k, "weights": weights, "identity": identity}
    so_far = fuse_entries({name: () if name in pending else hits[name] for name in names}, **options)
    waiting = {at: weights.get(name, 1.0) for at, name in enumerate(names) if name in pending}
    places = final_places(so_far, waiting, rrf_k=rrf_k, may_merge=identity is not None)
    assert pending or all(places)
    end = fuse_entries(hits, **options)
    for at, is_final in enumerate(places):
        if is_final:
            assert end[at].hit == so_far[at].hit
            assert end[at].key == so_far[at].key


@given(st.lists(LISTS, min_size=1, max_size=4), st.data(), st.sampled_from([0, 60]))
def test_a_hit_is_final_as_soon_as_no_answer_could_displace_it(lists, data, rrf_k):
    """Without identities the bound is exact.

    If each pending source returns one hit, every hit that is not final moves.
    """
    names = [str(at) for at in range(len(lists))]
    pending = data.draw(st.sets(st.sampled_from(names)))
    hits = {name: [] if name in pending else make_ranking(*each) for name, each in zip(names, lists, strict=True)}
    so_far = fuse_entries(hits, rrf_k=rrf_k)
    waiting = {at: 1.0 for at, name in enumerate(names) if name in pending}
    places = final_places(so_far, waiting, rrf_k=rrf_k)
    end = fuse_entries(hits | {name: make_ranking(["new"]) for name in pending}, rrf_k=rrf_k)
    assert places == [end[at].key == entry.key for at, entry in enumerate(so_far)]
