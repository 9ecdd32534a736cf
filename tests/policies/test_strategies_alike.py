"""The common behaviour of Eager, Scored, Mmr and custom strategies."""

import pytest

from airw import Limits, traverse
from airw.errors import ArgumentError, PolicyError
from airw.policies import Eager, Mmr, Scope, Scored, Strategy
from tests.support.graph_retriever_oracle import QUERY, corpus_of, vectors_at, walk_graph
from tests.support.strategies import LINKS, Everything, KeepsHeap, ids, strategy_class, strategy_from, walk_of

EVERYTHING = strategy_class(Everything)
ALL = [Eager, Scored, Mmr, EVERYTHING]


@pytest.mark.parametrize("kind", [Eager, EVERYTHING])
async def test_a_walk_cut_by_the_depth_cap_counts_the_nodes_below(kind):
    walk, _ = await walk_of(
        kind(edges=LINKS, start_k=1, select_k=None), max_depth=1, limits=Limits(count_beyond_limits=True)
    )
    assert (walk.summary.left_out, walk.summary.truncated) == ({"max_depth": 2}, True)


@pytest.mark.parametrize("kind", ALL)
async def test_routers_do_not_count_in_select_k(kind):
    keep = Scope(keep={"weight": {"$gte": 4}})
    assert ids((await walk_of(kind(edges=LINKS, start_k=1, select_k=2, scope=keep)))[1]) == "ef"


async def test_max_traverse_does_not_count_artifacts_that_may_not_be_crossed():
    scope = Scope(cross={"weight": {"$ne": 1}})
    policy = Eager(edges=LINKS, start_k=1, select_k=None, max_traverse=2, scope=scope)
    assert ids((await walk_of(policy))[1]) == "abce"


@pytest.mark.parametrize("kind", ALL)
async def test_select_k_of_0_streams_nothing(kind):
    assert (await walk_of(kind(edges=LINKS, select_k=0)))[1] == []


@pytest.mark.parametrize("options", [{"select_k": -1}, {"start_k": "x"}, {"edges": 7}, {"roots": "abc"}])
def test_a_custom_strategy_checks_its_parameters_when_it_is_created_too(options):
    with pytest.raises(ArgumentError):
        Strategy.build(EVERYTHING(), **options)


async def test_a_waiting_node_found_on_a_shorter_path_takes_the_smaller_depth():
    fields = {
        "near": {"to": ["a"], "weight": 9},
        "middle": {"to": ["b"], "from": ["a"], "weight": 8},
        "far": {"to": ["c"], "weight": 7},
        "late": {"to": ["d"], "from": ["b", "c"], "weight": 6},
        "last": {"from": ["d"], "weight": 5},
    }
    vectors = vectors_at(near=0.0, middle=0.1, far=0.2, late=0.3, last=0.4)
    policy = strategy_class(KeepsHeap)(edges=[("to", "from")], start_k=0, roots=["near", "far"], max_depth=2)
    _, hits = await walk_of(policy, (fields, vectors))
    depths = [(hit.artifact_id, hit.metadata["walk_depth"], hit.metadata["_depth"]) for hit in hits]
    assert depths[3:] == [("late", 1, 1), ("last", 2, 2)]


async def test_a_scorer_sees_the_depth_at_which_an_artifact_is_admitted():
    """Found at depth 2, x is not admitted; found again at depth 1, it is."""
    fields = {
        "near": {"to": ["a"]},
        "middle": {"to": ["b"], "from": ["a"]},
        "other": {"from": ["b"]},
        "far": {"to": ["c"]},
        "x": {"from": ["b", "c"]},
    }
    vectors = vectors_at(near=0.0, middle=0.1, other=0.2, far=0.3, x=0.4)
    order = {"near": 9, "middle": 8, "far": 7, "other": 6, "x": 5}
    policy = Scored(
        scorer=lambda node: order[node.id] - node.depth / 10,
        per_iteration_limit=1,
        adjacent_k=1,
        edges=[("to", "from")],
        start_k=0,
        roots=["near", "far"],
        select_k=None,
    )
    async with corpus_of(fields, vectors) as corpus, traverse(QUERY, corpus, policy=policy) as walk:
        hits = {hit.artifact_id: (hit.metadata["walk_depth"], hit.score) async for hit in walk}
    assert hits["x"] == (1, pytest.approx(4.9))


async def test_a_scorer_is_called_once_for_each_admitted_node_and_no_other():
    asked = []
    scorer = lambda node: asked.append(node.id) or -node.metadata["weight"]  # noqa: E731 (one line)
    policy = Scored(scorer=scorer, edges=LINKS, start_k=1, adjacent_k=1, select_k=None)
    assert ids((await walk_of(policy))[1]) == "abdf"
    assert asked == list("abdf")


@pytest.mark.parametrize("said", ["1.5", None, True, float("nan"), [1.0]])
async def test_a_score_that_is_no_number_is_an_error_that_names_the_node(said):
    with pytest.raises(PolicyError, match=r"^scorer returned .* for 'a'; return a number"):
        await walk_of(Scored(scorer=lambda node: said, edges=LINKS, start_k=1))


async def test_an_iteration_may_be_async():
    async def iteration(self, nodes, tracker):
        tracker.select_and_traverse(nodes)

    assert ids((await walk_of(strategy_from(iteration)))[1]) == "abcdef"


async def test_metadata_written_by_finalize_nodes_is_in_the_ranking():
    class Ranked(EVERYTHING):
        def finalize_nodes(self, selected):
            for at, node in enumerate(selected := list(selected)):
                node.extra_metadata["place"] = at
            return selected

    walk, _ = await walk_of(Ranked(edges=LINKS, start_k=1))
    assert [hit.metadata["place"] for hit in walk.ranking] == list(range(len(walk.ranking)))


async def test_a_mapping_in_a_field_is_compared_whole():
    fields = {"a": {"by": {"name": "Ada"}}, "b": {"by": {"name": "Ada"}}, "c": {"by": {"name": "Ada", "born": 1815}}}
    assert await walk_graph(fields, vectors_at(a=0, b=0.1, c=0.2), Eager(edges=[("by", "by")], start_k=1)) == [
        ("a", 0),
        ("b", 1),
    ]
