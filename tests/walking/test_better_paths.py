"""Nodes that a walk finds again by a better path: they rise in the ranking."""

from collections import Counter
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError, PolicyError
from airw.values import Edge, Limits, SearchHit
from airw.walking import EdgeFound, Policy

from airw import traverse  # isort: skip
from tests.support.drawing import examples


@dataclass
class Paths(Policy):
    """A policy whose nodes are paths; a path scores by the values of the edges it follows."""

    edges: dict[str, str]
    values: dict[str, float] = field(default_factory=dict)
    seeds: str = "a"
    rescores: bool = True
    keeps_frontier: bool = False
    width: int | None = None
    scored: list[list[str]] = field(default_factory=list)
    scores_paths = True

    @property
    def rescores_committed(self):
        return self.rescores

    async def seed(self, state, store):
        return list(self.seeds)

    async def score(self, state, nodes, store):
        self.scored.append([*nodes])
        return [self.value(path) for path in nodes]

    def value(self, path):
        return self.values.get(path, self.values.get(path[-2:], 0.0))

    def select(self, state, frontier):
        return frontier.best_first(self.width)

    async def expand(self, state, committed, store):
        return [[entry.node + end for end in self.edges.get(entry.id, "")] for entry in committed]

    def node_id(self, path):
        return path[-1]

    def edge_of(self, path):
        return Edge(path[-2], path[-1], path[-2:]) if len(path) > 1 else None

    async def to_hits(self, state, committed, store):
        return [SearchHit(entry.id, "node", entry.score, "", {"words": [entry.id]}) for entry in committed]


DIAMOND = {"a": "bc", "b": "d", "c": "e", "e": "d", "d": "a"}
VALUES = {"a": 0.5, "ab": 0.4, "ac": 0.3, "bd": 0.2, "ed": 0.9, "ce": 0.1, "da": 0.8}


async def walk_all(policy, **options):
    async with traverse("query", None, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return walk, hits


async def test_a_node_found_again_on_a_better_path_moves_up_in_the_ranking_only():
    policy = Paths(DIAMOND, VALUES)
    walk, hits = await walk_all(policy)
    assert [(hit.artifact_id, hit.score) for hit in hits] == [
        ("a", 0.5), ("b", 0.4), ("c", 0.3), ("d", 0.2), ("e", 0.1),
    ]  # fmt: skip
    assert [(hit.artifact_id, hit.score) for hit in walk.ranking] == [
        ("d", 0.9), ("a", 0.5), ("b", 0.4), ("c", 0.3), ("e", 0.1),
    ]  # fmt: skip
    assert walk.summary.improved == 1


async def test_the_hit_in_the_ranking_has_the_better_path():
    walk, hits = await walk_all(Paths(DIAMOND, VALUES))
    best, before = walk.ranking[0], next(hit for hit in hits if hit.artifact_id == "d")
    assert before.metadata == {
        "words": ["d"], "walk_depth": 2, "walk_parent": "b", "walk_path": ["a", "b", "d"], "seed": "a",
        "walk_edge": "bd",
    }  # fmt: skip
    assert best.metadata == {
        "words": ["d"], "walk_depth": 3, "walk_parent": "e", "walk_path": ["a", "c", "e", "d"], "seed": "a",
        "walk_edge": "ed",
    }  # fmt: skip
    assert walk.path(before) == walk.path(best) == ["a", "b", "d"]


async def test_paths_to_committed_nodes_come_after_the_new_nodes_in_the_same_call():
    policy = Paths({"a": "bc", "b": "ce", "c": "bd"}, width=2)
    await walk_all(policy)
    assert policy.scored == [["a"], ["ab", "ac"], ["abe", "acd", "abc", "acb"]]


async def test_a_circle_is_not_scored():
    policy = Paths({"a": "b", "b": "ac", "c": "ab"}, VALUES)
    walk, _ = await walk_all(policy)
    assert policy.scored == [["a"], ["ab"], ["abc"]]
    assert walk.summary.improved == 0


async def test_a_seed_found_again_keeps_its_place_in_the_stream_and_gets_the_path():
    policy = Paths({"a": "b"}, {"a": 0.9, "b": 0.1, "ab": 0.95}, seeds="ab")
    walk, hits = await walk_all(policy)
    assert [(hit.artifact_id, hit.metadata["walk_path"]) for hit in hits] == [("a", ["a"]), ("b", ["b"])]
    assert [(hit.artifact_id, hit.metadata["walk_path"]) for hit in walk.ranking] == [("b", ["a", "b"]), ("a", ["a"])]
    assert "seed" not in hits[1].metadata
    assert walk.ranking[0].metadata["seed"] == "a"


async def test_a_seed_that_the_policy_wrote_stays():
    class Writes(Paths):
        async def to_hits(self, state, committed, store):
            return [SearchHit(entry.id, "node", entry.score, "", {"seed": "mine"}) for entry in committed]

    walk, _ = await walk_all(Writes(DIAMOND, VALUES))
    assert {hit.metadata["seed"] for hit in walk.ranking} == {"mine"}


async def test_rank_of_the_policy_gets_the_better_hits():
    class Worst(Paths):
        def rank(self, state, hits):
            return sorted(hits, key=lambda hit: hit.score)

    walk, _ = await walk_all(Worst(DIAMOND, VALUES))
    assert [hit.artifact_id for hit in walk.ranking] == ["e", "c", "b", "a", "d"]


async def test_the_best_of_several_better_paths_counts_once_and_ties_keep_the_first():
    edges = {"a": "bcde", "b": "z", "c": "z", "d": "z", "e": "z"}
    values = {"a": 0.0, "ab": 0.9, "ac": 0.8, "ad": 0.7, "ae": 0.6, "bz": 0.1, "cz": 0.5}
    walk, _ = await walk_all(Paths(edges, values, keeps_frontier=True, width=1))
    assert walk.summary.improved == 0, "all paths to z wait until it is committed, so it is not found again"
    values |= {"bz": 0.85}
    walk, hits = await walk_all(Paths(edges, values, keeps_frontier=True, width=1))
    assert [hit.artifact_id for hit in hits] == ["a", "b", "z", "c", "d", "e"]
    assert walk.summary.improved == 0
    values |= {"cz": 0.86, "dz": 0.95, "ez": 0.95}
    walk, _ = await walk_all(Paths(edges, values, keeps_frontier=True, width=1))
    assert walk.summary.improved == 1
    assert (walk.ranking[0].artifact_id, walk.ranking[0].metadata["walk_path"]) == ("z", ["a", "d", "z"])


async def test_nan_for_a_path_to_a_committed_node_is_an_error():
    with pytest.raises(PolicyError, match=r"score returned NaN for node 'aced'"):
        await walk_all(Paths(DIAMOND, {**VALUES, "ed": float("nan")}))


def test_it_needs_paths_that_are_scored():
    @dataclass
    class Single(Paths):
        scores_paths = False

    with pytest.raises(ArgumentError, match=r"rescores_committed of the policy Single needs scores_paths = True"):
        traverse("query", None, policy=Single({}))


letters = st.text("abcdefgh", max_size=4)
graphs = st.dictionaries(st.sampled_from("abcdefgh"), letters, max_size=8)
values = st.dictionaries(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")).map("".join),
    st.sampled_from([0.1, 0.2, 0.3, 0.4]),
)
bounds = st.fixed_dictionaries(
    {
        "node_budget": st.integers(0, 9),
        "max_depth": st.none() | st.integers(0, 3),
        "limits": st.builds(Limits, max_edges=st.sampled_from([100, 4]), max_frontier=st.sampled_from([100, 3])),
    }
)


@given(graphs, values, bounds, st.booleans(), st.none() | st.integers(1, 2))
@settings(max_examples=examples(80))
def test_a_walk_that_scores_again_is_the_same_walk_with_a_better_ranking(graph, values, bounds, keeps, width):
    async def main():
        ways = {"keeps_frontier": keeps, "width": width}
        plain, expected = await walk_all(Paths(graph, values, rescores=False, **ways), **bounds)
        policy = Paths(graph, values, **ways)
        walk, hits = await walk_all(policy, **bounds)
        assert [hit.to_dict() for hit in hits] == [hit.to_dict() for hit in expected]
        same = {"seconds": 0, "improved": 0}
        assert walk.summary.to_dict() | same == plain.summary.to_dict() | same
        # By hand: the best path found to each committed node, circles left out.
        best, first = {}, {hit.artifact_id: hit for hit in hits}
        for path in [path for call in policy.scored for path in call]:
            best[path[-1]] = max(best.get(path[-1], -1.0), policy.value(path))
            assert len(set(path)) == len(path) or path[-1] not in path[:-1]
        for hit in walk.ranking:
            assert hit.score in (first[hit.artifact_id].score, best[hit.artifact_id])
            assert hit.score >= first[hit.artifact_id].score
            path = "".join(hit.metadata["walk_path"])
            assert hit.score == policy.value(path)
            assert hit.metadata["walk_depth"] == len(path) - 1
        improved = sum(hit.score > first[hit.artifact_id].score for hit in walk.ranking)
        assert walk.summary.improved == improved
        assert [hit.score for hit in walk.ranking] == sorted((hit.score for hit in walk.ranking), reverse=True)

    anyio.run(main)


async def test_an_edge_to_a_committed_node_is_an_event_as_before():
    walk = traverse("query", None, policy=Paths(DIAMOND, VALUES))
    events = [event async for event in walk.events()]
    found = Counter((event.source, event.target, event.known) for event in events if isinstance(event, EdgeFound))
    assert found["e", "d", True] == 1
    assert events[-1].to_dict()["improved"] == 1
