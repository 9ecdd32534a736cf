"""Best-first walks by a score of whole paths."""

from dataclasses import replace

import numpy as np
import pytest

from airw.errors import ArgumentError, PolicyError
from airw.policies import Scope, Scored
from airw.testing import PolicySuite
from airw.testing.scripted import ScriptedStore
from tests.support.artifact_corpora import corpus_of, find_ids, ids, item, walk_all

# Two ways lead to d: by b, which is worth little, and by c.
DIAMOND = {
    "a": item("0", to=["b", "c"], worth=1),
    "b": item("0.1", to=["d"], worth=1),
    "c": item("0.2", to=["d"], worth=5),
    "d": item("0.3", to=["e"], worth=1),
    "e": item("0.4", worth=1),
}


def total(paths):
    return [sum(node.metadata["worth"] for node in path.nodes) for path in paths]


def from_root(path_scorer=total, **options):
    given = {"start_k": 0, "roots": ["a"], "direction": "out", "select_k": None, **options}
    return Scored(path_scorer=path_scorer, **given)


async def test_the_best_path_to_an_artifact_is_the_one_it_is_committed_by():
    async with corpus_of(DIAMOND) as corpus:
        hits, walk = await walk_all(corpus, from_root())
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 1), ("c", 6), ("b", 2), ("d", 7), ("e", 8)]
    assert walk.path(hits[3]) == ["a", "c", "d"]
    assert [hit.artifact_id for hit in walk.ranking] == ["e", "d", "c", "b", "a"]


async def test_one_call_a_step_shows_every_path_with_its_records_and_edges():
    seen = []

    async def note(paths):
        seen.append([("".join(node.id for node in path.nodes), [edge.type for edge in path.edges]) for path in paths])
        assert all(node.content and node.embedding.shape == (2,) for path in paths for node in path.nodes)
        assert [path.nodes[-1].depth for path in paths] == [len(path.edges) for path in paths]
        return np.array(total(paths))

    async with corpus_of(DIAMOND) as corpus:
        await walk_all(corpus, from_root(note))
    assert seen == [
        [("a", [])],
        [("ab", ["REF"]), ("ac", ["REF"])],
        [("acd", ["REF", "REF"]), ("abd", ["REF", "REF"])],
        [("acde", ["REF"] * 3)],
    ]


async def test_a_later_path_that_is_better_wins_while_the_artifact_waits():
    items = {
        "a": item("0", to=["b", "z"], worth=1),
        "b": item("0.1", to=["z"], worth=9),
        "z": item("0.2", worth=0.5),
    }
    async with corpus_of(items) as corpus:
        hits, walk = await walk_all(corpus, from_root(per_iteration_limit=1))
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 1), ("b", 10), ("z", 10.5)]
    assert (walk.path(hits[-1]), walk.summary.stop) == (["a", "b", "z"], "exhausted")


async def test_the_last_node_alone_gives_the_walk_of_a_scorer_of_nodes():
    for limit in (None, 1):
        options = {"roots": ["a"], "start_k": 2, "select_k": None, "per_iteration_limit": limit}
        by_path = Scored(path_scorer=lambda paths: [path.nodes[-1].metadata["worth"] for path in paths], **options)
        by_node = Scored(scorer=lambda node: node.metadata["worth"], **options)
        assert await find_ids(DIAMOND, by_path) == await find_ids(DIAMOND, by_node)


async def test_adjacent_k_counts_artifacts_and_admits_all_their_paths():
    async with corpus_of(DIAMOND) as corpus:
        hits, walk = await walk_all(corpus, from_root(adjacent_k=2))
    assert ids(hits) == ["a", "c", "b", "d", "e"]
    assert walk.path(hits[3]) == ["a", "c", "d"]


async def test_links_walked_backwards_and_routers_are_on_the_path():
    paths_seen = []

    def note(paths):
        paths_seen.extend("".join(node.id for node in path.nodes) for path in paths)
        return total(paths)

    policy = Scored(start_k=0, roots=["e"], path_scorer=note, scope=Scope(keep={"worth": {"$lt": 5}}), select_k=None)
    async with corpus_of(DIAMOND) as corpus:
        hits, _ = await walk_all(corpus, policy)
    assert {"ed", "edb", "edc", "edca"} <= {*paths_seen}
    assert "c" not in ids(hits)


async def test_an_artifact_without_surfaces_begins_a_path_anew():
    items = {"a": item("0", to=["x"], worth=1), "x": item(to=["b"], worth=1), "b": item("0.1", worth=2)}
    async with corpus_of(items) as corpus:
        hits, _ = await walk_all(corpus, from_root())
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 1), ("b", 2)]


async def test_with_edges_an_artifact_has_one_path():
    items = {id: item(number, tag=tag, worth=1) for id, number, tag in [("a", "0", "x"), ("b", "0.1", "x")]}
    policy = Scored(start_k=0, roots=["a"], edges=[("tag", "tag")], path_scorer=total, select_k=None)
    async with corpus_of(items) as corpus:
        hits, _ = await walk_all(corpus, policy)
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 1), ("b", 2)]


async def test_a_step_costs_as_many_store_calls_as_with_a_scorer_of_nodes():
    logs = []
    for policy in (from_root(), from_root(path_scorer=None, scorer=lambda node: 1.0)):
        async with corpus_of(DIAMOND) as corpus:
            store = ScriptedStore(corpus.store)
            await walk_all(replace(corpus, store=store), policy)
        logs.append({*store.calls} - {"artifact_numbers", "neighbor_columns", "neighbors"})
        assert max(store.calls.values()) <= 5
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], r"path_scorer returned \[\]; return 1 numbers, one per path"),
        (7, "path_scorer returned 7; return 1 numbers"),
        (["x"], "path_scorer returned 'x' for 'a'; return a number"),
        ([float("nan")], "path_scorer returned nan for 'a'; return a number"),
        ([True], "path_scorer returned True for 'a'; return a number"),
    ],
)
async def test_an_answer_that_is_not_one_number_per_path_is_an_error(answer, message):
    with pytest.raises(PolicyError, match=message):
        await find_ids(DIAMOND, from_root(lambda paths: answer))


def test_it_takes_the_place_of_a_scorer():
    with pytest.raises(ArgumentError, match="path_scorer must be a function of paths or None, not 3"):
        Scored(path_scorer=3)
    with pytest.raises(ArgumentError, match="pass one of the two"):
        Scored(path_scorer=total, scorer=len)


@pytest.mark.slow
async def test_it_passes_the_exam_of_policies():
    report = await PolicySuite(from_root(), lambda: corpus_of(DIAMOND), "0").run()
    assert report.passed, report


async def test_artifacts_that_wait_do_not_count_as_new_ones():
    items = {
        "a": item("0", to=["x"], worth=3),
        "b": item("0.1", to=["x", "y"], worth=2),
        "x": item("0.2", worth=1),
        "y": item("0.3", worth=0),
    }
    options = {"roots": ["a", "b"], "adjacent_k": 1, "per_iteration_limit": 1}
    async with corpus_of(items) as corpus:
        hits, _ = await walk_all(
            corpus, from_root(lambda paths: [path.nodes[-1].metadata["worth"] for path in paths], **options)
        )
    assert ids(hits) == ["a", "b", "x", "y"]
