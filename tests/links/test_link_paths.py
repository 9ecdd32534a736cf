"""Shortest and cheapest paths along links.

They are compared with a one-sided search, with networkx, and with all simple paths.
"""

from itertools import pairwise
from random import Random

import anyio
import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import INVERSES, CorpusGraph, Inverses, LinkPath
from airw.links.costs import link_cost
from airw.stores import SqliteStore, Wrapper
from airw.values import Edge
from tests.support.drawing import examples
from tests.support.linked_stores import Counting, fill, store_of

IDS = "abcdefgh"
TYPES = ("part-of", "supports", "supported-by", "x")
ORIGINS = ("typed", "inline", "derived")
DIRECTIONS = ("out", "in", "both")


async def path_in(edges, start, end, *, values=(), **options):
    async with store_of(edges, values=values) as store:
        return await CorpusGraph(store).path(start, end, **options)


def names(path):
    return "".join(path.nodes)


def list_steps(edges, *, direction="both", types=None, exclude=(), origins=None, inverses=None):
    """Yield every step that a path may take as `(start, end, edge, key)`."""
    for edge in set(edges):
        for start, end in ((edge.source, edge.target), (edge.target, edge.source)):
            along = start == edge.source
            name = edge.type if along or inverses is None else inverses.of(edge.type)
            allowed = direction in ("both", "out" if along else "in")
            allowed = allowed and (types is None or name in types) and name not in exclude
            if allowed and (origins is None or edge.origin in origins):
                yield start, end, edge, (name, end, not along, edge.origin)


def all_paths(edges, start, end, longest, **options):
    """Yield every simple path as a list of steps."""
    steps = sorted(list_steps(edges, **options), key=lambda step: step[3])

    def extend(at, seen, steps_so_far):
        if at == end:
            yield steps_so_far
        elif len(steps_so_far) < longest:
            for step in steps:
                if step[0] == at and step[1] not in seen:
                    yield from extend(step[1], {*seen, step[1]}, [*steps_so_far, step])

    yield from extend(start, {start}, [])


def price(steps, values):
    return sum(link_cost(edge.type, values.get(end, 50)) for _, end, edge, _ in steps) / 200


def as_network(edges, values=(), **options):
    graph = nx.DiGraph()
    graph.add_nodes_from(IDS)
    for start, end, edge, _ in list_steps(edges, **options):
        cost = link_cost(edge.type, dict(values).get(end, 50))
        if cost < graph.get_edge_data(start, end, {"cost": 1e9})["cost"]:
            graph.add_edge(start, end, cost=cost)
    return graph


@st.composite
def edge_lists(draw, most=14):
    pairs = st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda pair: pair[0] != pair[1])
    triples = st.tuples(pairs, st.sampled_from(TYPES), st.sampled_from(ORIGINS))
    return [Edge(*pair, type, origin) for pair, type, origin in draw(st.lists(triples, max_size=most))]


FILTERS = st.fixed_dictionaries({
    "direction": st.sampled_from(DIRECTIONS),
    "types": st.none() | st.lists(st.sampled_from(TYPES), max_size=3),
    "exclude": st.lists(st.sampled_from(TYPES), max_size=1),
    "origins": st.none() | st.lists(st.sampled_from(ORIGINS), min_size=1, max_size=2),
    "inverses": st.sampled_from([None, INVERSES, Inverses({"x": "part-of"})]),
})  # fmt: skip
LIMITS = st.fixed_dictionaries({
    "max_hops": st.none() | st.integers(0, 8),
    "max_nodes": st.none() | st.integers(2, 8),
    "max_edges": st.none() | st.integers(0, 12),
    "max_fanout": st.none() | st.integers(0, 3),
})  # fmt: skip
VALUES = st.dictionaries(st.sampled_from(IDS), st.sampled_from([0, 20, 100]))


class TestByHops:
    @given(edges=edge_lists(), chosen=FILTERS, longest=st.integers(0, 8))
    def test_the_path_is_the_first_of_all_shortest_paths(self, edges, chosen, longest):
        path = anyio.run(lambda: path_in(edges, "a", "h", max_hops=longest, **chosen))
        paths = list(all_paths(edges, "a", "h", longest, **chosen))
        expected = min(paths, key=lambda steps: (len(steps), [step[3] for step in steps]), default=None)
        assert path.found == (expected is not None)
        if expected is not None:
            assert path.nodes == ("a", *(step[1] for step in expected))
            assert path.edges == tuple(step[2] for step in expected)
            assert path.cost == len(expected)
            assert path.left_out == {}
        else:
            exists = nx.has_path(as_network(edges, **chosen), "a", "h")
            assert not exists or set(path.left_out) == {"max_hops"}

    @given(edges=edge_lists(), chosen=FILTERS, limits=LIMITS, end=st.sampled_from(("h", ("other", "h"), "nobody")))
    def test_a_store_without_columns_finds_the_same_path(self, edges, chosen, limits, end):
        async def check():
            async with store_of([*edges, Edge("a", ("other", "h"), "x")]) as store:
                answers = []
                for form in (store, Wrapper(store)):
                    try:
                        answers.append(await CorpusGraph(form).path("a", end, **limits, **chosen))
                    except NoLedgerEntry as error:
                        answers.append(str(error))
                assert answers[0] == answers[1]

        anyio.run(check)

    @pytest.mark.slow
    @settings(max_examples=examples(25))
    @given(seed=st.integers(0, 10**6), direction=st.sampled_from(DIRECTIONS))
    def test_the_path_is_as_long_as_that_of_networkx_in_larger_graphs(self, seed, direction):
        random = Random(seed)
        ids = [f"n{number:03}" for number in range(150)]
        edges = [Edge(*random.sample(ids, 2), random.choice(TYPES)) for _ in range(random.choice([100, 200, 500]))]
        graph = nx.DiGraph([(start, end) for start, end, *_ in list_steps(edges, direction=direction)])
        graph.add_nodes_from(ids)

        async def check():
            async with store_of(edges, ids=ids) as store:
                for _ in range(10):
                    start, end = random.sample(ids, 2)
                    path = await CorpusGraph(store).path(start, end, direction=direction, max_hops=None)
                    assert path.found == nx.has_path(graph, start, end)
                    assert not path.found or len(path.edges) == nx.shortest_path_length(graph, start, end)
                    assert path.left_out == {}

        anyio.run(check)

    async def test_the_edges_are_as_stored_in_any_direction_of_the_walk(self):
        edges = [Edge("a", "b", "supports", "typed"), Edge("c", "b", "x")]
        path = await path_in(edges, "a", "c")
        assert path == LinkPath("a", "c", "both", 10, ("a", "b", "c"), tuple(edges), 2.0, 3)

    async def test_ties_are_resolved_hop_by_hop_by_type_then_id_then_direction_then_origin(self):
        edges = [Edge("a", "b", "y"), Edge("a", "c", "x"), Edge("b", "h", "x"), Edge("c", "h", "y")]
        assert names(await path_in(edges, "a", "h")) == "ach"
        edges = [Edge("a", "c", "x"), Edge("a", "b", "x"), Edge("b", "h", "x"), Edge("c", "h", "x")]
        assert names(await path_in(edges, "a", "h")) == "abh"
        edges = [Edge("h", "a", "x", "derived"), Edge("a", "h", "x", "typed"), Edge("a", "h", "x", "inline")]
        assert (await path_in(edges, "a", "h")).edges == (Edge("a", "h", "x", "inline"),)

    async def test_the_path_of_an_artifact_to_itself_has_no_edges(self):
        path = await path_in([Edge("a", "b", "x")], "a", "a", max_hops=0)
        assert (path.found, path.nodes, path.edges, path.cost, path.visited) == (True, ("a",), (), 0.0, 1)

    async def test_the_error_names_an_artifact_that_does_not_exist(self):
        async with store_of([]) as store:
            with pytest.raises(NoLedgerEntry, match=r"^the graph has no artifact 'nowhere'; a path needs"):
                await CorpusGraph(store).path("a", "nowhere")
            with pytest.raises(NoLedgerEntry, match="'nobody'"):
                await CorpusGraph(store).path("nobody", "nobody")

    async def test_links_to_another_corpus_are_not_followed(self):
        async with store_of([Edge("a", ("other", "h"), "x"), Edge("b", ("other", "h"), "x")]) as store:
            path = await CorpusGraph(store).path("a", "b", max_hops=1)
        assert (path.found, path.visited, path.left_out) == (False, 2, {})

    async def test_filters_compare_the_name_of_a_link_in_its_walked_direction(self):
        edges = [Edge("h", "a", "supports")]
        assert not (await path_in(edges, "a", "h", types=["supports"], inverses=INVERSES)).found
        assert (await path_in(edges, "a", "h", types=["supported-by"], inverses=INVERSES)).found
        assert (await path_in(edges, "a", "h", types=["supports"])).found
        assert not (await path_in(edges, "a", "h", exclude=["supported-by"], inverses=INVERSES)).found

    async def test_a_level_is_one_call_of_the_store(self):
        edges = [Edge(one, other, "x") for one, other in zip("abcdefg", "bcdefgh", strict=True)]
        edges += [Edge("a", each, "y") for each in "cd"] + [Edge(each, "h", "y") for each in "ef"]
        async with store_of(edges) as store:
            counting = Counting(store)
            path = await CorpusGraph(counting).path("a", "h", direction="out")
        assert names(path) == "adeh"
        assert counting.calls == {"Edges": 3, "RecordsOf": 1}

    @pytest.mark.slow
    async def test_the_search_continues_from_the_end_with_fewer_visited_nodes(self):
        edges = [Edge("hub", f"n{number:04}", "x") for number in range(3_000)] + [
            Edge("n0007", "b", "x"), Edge("b", "h", "x"), Edge("a", "hub", "x"),
        ]  # fmt: skip
        async with store_of(edges) as store:
            counting = Counting(store)
            path = await CorpusGraph(counting).path("a", "h", direction="out")
        assert path.nodes == ("a", "hub", "n0007", "b", "h")
        assert counting.largest == 1


class TestByCost:
    @given(edges=edge_lists(), chosen=FILTERS, longest=st.none() | st.integers(0, 8), values=VALUES)
    def test_the_path_is_the_first_of_the_cheapest_paths_with_the_fewest_hops(self, edges, chosen, longest, values):
        path = anyio.run(lambda: path_in(edges, "a", "h", values=values, max_hops=longest, weighted=True, **chosen))
        paths = list(all_paths(edges, "a", "h", 8 if longest is None else longest, **chosen))
        expected = min(
            paths, key=lambda steps: (price(steps, values), len(steps), [step[3] for step in steps]), default=None
        )
        assert path.found == (expected is not None)
        cheapest = min((price(steps, values) for steps in all_paths(edges, "a", "h", 8, **chosen)), default=None)
        if expected is not None:
            assert path.nodes == ("a", *(step[1] for step in expected))
            assert path.edges == tuple(step[2] for step in expected)
            assert path.cost == price(expected, values)
            assert path.cost == cheapest or set(path.left_out) == {"max_hops"}
        else:
            assert cheapest is None or set(path.left_out) == {"max_hops"}

    @pytest.mark.slow
    @settings(max_examples=examples(25))
    @given(seed=st.integers(0, 10**6), direction=st.sampled_from(DIRECTIONS))
    def test_the_cost_is_that_of_networkx_in_larger_graphs(self, seed, direction):
        random = Random(seed)
        ids = [f"n{number:03}" for number in range(120)]
        edges = [Edge(*random.sample(ids, 2), random.choice(TYPES)) for _ in range(random.choice([150, 400]))]
        values = {id: random.choice([0, 33, 50, 99.5, 100]) for id in ids}
        graph = as_network(edges, values, direction=direction)
        graph.add_nodes_from(ids)

        async def check():
            async with store_of(edges, ids=ids, values=values) as store:
                for _ in range(5):
                    start, end = random.sample(ids, 2)
                    path = await CorpusGraph(store).path(start, end, direction=direction, max_hops=None, weighted=True)
                    assert path.found == nx.has_path(graph, start, end)
                    if path.found:
                        expected = nx.dijkstra_path_length(graph, start, end, weight="cost")
                        assert path.cost * 200 == pytest.approx(expected)

        anyio.run(check)

    @pytest.mark.slow
    @settings(max_examples=examples(40))
    @given(seed=st.integers(0, 10**6), direction=st.sampled_from(DIRECTIONS), longest=st.none() | st.integers(1, 6))
    def test_a_search_from_both_ends_finds_the_same_as_from_one_end(self, seed, direction, longest):
        random = Random(seed)
        ids = [f"n{number:02}" for number in range(40)]
        edges = [Edge(*random.sample(ids, 2), random.choice(TYPES)) for _ in range(random.choice([50, 90, 200]))]
        values = {id: random.choice([0, 50, 100]) for id in ids}

        async def check():
            async with store_of(edges, ids=ids, values=values) as store:
                for _ in range(5):
                    ends = random.sample(ids, 2)
                    options = {"direction": direction, "max_hops": longest, "weighted": True}
                    one = await CorpusGraph(store).path(*ends, **options, max_edges=10**6)
                    both = await CorpusGraph(store).path(*ends, **options)
                    assert (both.nodes, both.edges, both.cost) == (one.nodes, one.edges, one.cost)
                    assert one.left_out or not both.left_out

        anyio.run(check)

    async def test_a_cheap_detour_is_preferred_to_an_expensive_link(self):
        edges = [Edge("a", "h", "x"), Edge("a", "b", "part-of"), Edge("b", "h", "part-of")]
        path = await path_in(edges, "a", "h", weighted=True, values={"b": 100, "h": 0})
        assert (names(path), path.cost) == ("abh", 1.5)
        path = await path_in(edges, "a", "h", weighted=True, values={"b": 100, "h": 0}, max_hops=1)
        assert (names(path), path.cost, path.left_out) == ("ah", 2.0, {"max_hops": 1})

    async def test_a_round_reads_the_links_and_values_of_all_final_nodes_at_once(self):
        edges = [Edge("a", each, "x") for each in "bcd"] + [Edge(each, "h", "x") for each in "bcd"]
        async with store_of(edges) as store:
            counting = Counting(store)
            path = await CorpusGraph(counting).path("a", "h", weighted=True)
        assert names(path) == "abh"
        assert counting.calls == {"RecordsOf": 3, "Edges": 2}

    async def test_an_invalid_value_counts_as_fifty(self):
        for value in ("100", True, -1, 101, None):
            assert (await path_in([Edge("a", "h", "x")], "a", "h", weighted=True, values={"h": value})).cost == 1.5


class TestLimits:
    @pytest.mark.slow
    @given(
        edges=edge_lists(18), chosen=FILTERS, values=VALUES, weighted=st.booleans(),
        limits=st.fixed_dictionaries({
            "max_hops": st.none() | st.integers(0, 6), "max_nodes": st.none() | st.integers(2, 8),
            "max_edges": st.none() | st.integers(0, 12), "max_fanout": st.none() | st.integers(0, 3),
        }),
    )  # fmt: skip
    @settings(max_examples=examples(200))
    def test_only_the_effects_of_limits_are_reported(self, edges, chosen, values, weighted, limits):
        path = anyio.run(lambda: path_in(edges, "a", "h", values=values, weighted=weighted, **limits, **chosen))
        paths = list(all_paths(edges, "a", "h", 8, **chosen))
        costs = [price(steps, values) if weighted else len(steps) for steps in paths]
        if path.found:
            taken = [(*ends, edge) for ends, edge in zip(pairwise(path.nodes), path.edges, strict=True)]
            assert any([step[:3] for step in steps] == taken for steps in paths)
            assert path.cost >= min(costs)
            assert limits["max_hops"] is None or len(path.edges) <= limits["max_hops"]
        if not path.left_out:
            assert path.cost == min(costs, default=None)
        assert all(limits[name] is not None and count > 0 for name, count in path.left_out.items())
        assert set(path.at_least) <= set(path.left_out)
        assert limits["max_nodes"] is None or path.visited <= limits["max_nodes"]

    async def test_a_path_found_within_a_limit_may_be_longer_and_the_result_says_so(self):
        edges = [Edge("a", "b", "first"), Edge("a", "h", "second"), Edge("b", "h", "first")]
        found = await path_in(edges, "a", "h", direction="out", max_fanout=1)
        shortest = await path_in(edges, "a", "h", direction="out")
        assert (names(found), found.left_out.keys()) == ("abh", {"max_fanout"})
        assert (names(shortest), shortest.left_out) == ("ah", {})

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_limits_that_are_just_enough_leave_nothing_out(self, weighted):
        edges = [Edge("a", "b", "x"), Edge("b", "h", "x")]
        async with store_of(edges, ids="abh") as store:
            path = await CorpusGraph(store).path(
                "a", "h", max_hops=2, max_nodes=3, max_edges=4, max_fanout=2, weighted=weighted
            )
        assert (names(path), path.left_out, path.at_least) == ("abh", {}, ())

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("limit", [{"max_fanout": 1}, {"max_edges": 1}])
    async def test_an_unread_link_to_a_visited_node_is_not_reported(self, limit, weighted):
        edges = [
            Edge("a", "b", "x"),
            Edge("a", "b", "y"),
            Edge("c", "h", "x"),
            Edge("d", "c", "x"),
            Edge("e", "d", "x"),
        ]
        path = await path_in(edges, "a", "h", direction="out", weighted=weighted, **limit)
        assert (path.found, path.left_out, path.at_least) == (False, {}, ())

    async def test_a_second_link_to_the_same_artifact_does_not_end_a_search_by_cost(self):
        edges = [Edge("a", "b", "x"), Edge("a", "b", "y"), Edge("b", "h", "x")]
        path = await path_in(edges, "a", "h", direction="out", weighted=True, max_edges=1)
        assert (path.found, path.left_out) == (False, {"max_edges": 1})

    async def test_links_of_artifacts_at_the_cap_on_hops_do_not_use_up_the_edges(self):
        edges = [Edge("a", "b", "part-of"), Edge("b", "c", "part-of"), Edge("a", "d", "x"), Edge("d", "h", "x")]
        edges += [Edge("c", each, "x") for each in "efg"]
        path = await path_in(
            edges, "a", "h", direction="out", weighted=True, max_hops=2, max_edges=4, values={"b": 100}
        )
        assert (names(path), path.left_out) == ("adh", {"max_hops": 3})

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("limit", [{"max_fanout": 2}, {"max_edges": 2}, {"max_nodes": 2}])
    async def test_links_that_cannot_shorten_the_path_are_not_reported(self, limit, weighted):
        edges = [Edge("a", "h", "w"), *(Edge("a", each, "x") for each in "bcde")]
        path = await path_in(edges, "a", "h", direction="out", weighted=weighted, **limit)
        assert (names(path), path.left_out) == ("ah", {})

    async def test_an_expensive_path_of_few_hops_is_found_if_the_cheap_one_is_too_long(self):
        edges = [Edge("a", "b", "part-of"), Edge("b", "c", "part-of"), Edge("a", "c", "x"), Edge("c", "h", "x")]
        async with store_of(edges, values={"b": 100}) as store:
            graph = CorpusGraph(store)
            assert (await graph.path("a", "h", weighted=True)).cost == 2.75
            for limit in ({}, {"max_edges": 100}):
                path = await graph.path("a", "h", weighted=True, max_hops=2, **limit)
                assert (names(path), path.cost, path.left_out) == ("ach", 3.0, {"max_hops": 1})

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_no_path_within_some_hops_differs_from_no_path_at_all(self, weighted):
        edges = [Edge("a", "b", "x"), Edge("b", "c", "x"), Edge("c", "h", "x"), Edge("e", "f", "x")]
        async with store_of(edges) as store:
            graph = CorpusGraph(store)
            near = await graph.path("a", "h", max_hops=2, weighted=weighted)
            none = await graph.path("a", "e", max_hops=3, weighted=weighted)
            still_none = await graph.path("a", "e", max_hops=1, direction="in", weighted=weighted)
        assert (near.found, near.left_out) == (False, {"max_hops": 1})
        assert (none.found, none.left_out) == (False, {})
        assert (still_none.found, still_none.left_out) == (False, {})

    @pytest.mark.parametrize(
        ("limit", "left_out"),
        [({"max_nodes": 4}, {"max_nodes": 2}), ({"max_fanout": 2}, {"max_fanout": 2}), ({"max_edges": 3}, None)],
    )
    @pytest.mark.parametrize("weighted", [False, True])
    async def test_each_limit_counts_what_it_left_out(self, limit, left_out, weighted):
        edges = [Edge("a", each, "x") for each in "bcde"] + [Edge("e", "f", "x"), Edge("f", "g", "x")]
        edges += [Edge("h", each, "x") for each in "ijkl"] + [Edge("l", "m", "x"), Edge("m", "g", "x")]
        async with store_of(edges) as store:
            path = await CorpusGraph(store).path("a", "h", **limit, weighted=weighted)
            assert (await CorpusGraph(store).path("a", "h", weighted=weighted)).found
        assert not path.found
        assert set(path.left_out) == set(limit)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"direction": "sideways"}, r"^direction must be one of 'out', 'in', 'both', not 'sideways'$"),
            ({"max_hops": -1}, r"^max_hops must be a whole number of at least 0, not -1$"),
            ({"max_nodes": 1}, r"^max_nodes must be a whole number of at least 2, not 1$"),
            ({"max_edges": True}, "max_edges must be a whole number"),
            ({"max_fanout": 1.5}, "max_fanout must be a whole number"),
            (
                {"types": "related"},
                r"types must be a list of strings, not 'related'; for one string pass \['related'\]",
            ),
            ({"exclude": "related"}, "exclude must be a list of strings"),
            ({"origins": ["virtual"]}, "origins must be one of 'typed', 'inline', 'derived', not 'virtual'"),
            ({"weighted": 1}, r"^weighted must be True or False, not 1$"),
            ({"inverses": {"a": "b"}}, "inverses must be None or Inverses"),
        ],
    )
    async def test_meaningless_arguments_are_refused(self, options, message):
        with pytest.raises(ArgumentError, match=message):
            await path_in([], "a", "b", **options)


class TestSearch:
    @pytest.mark.asyncio_only
    @pytest.mark.parametrize("weighted", [False, True])
    async def test_a_file_returns_the_same_path_as_memory(self, tmp_path, weighted):
        random = Random(7)
        edges = [Edge(*random.sample(IDS, 2), random.choice(TYPES), random.choice(ORIGINS)) for _ in range(16)]
        async with store_of(edges) as memory, SqliteStore(tmp_path / "graph.airw") as file:
            await fill(file, edges)
            for direction in DIRECTIONS:
                for inverses in (None, INVERSES):
                    for end in IDS[1:]:
                        options = {"direction": direction, "inverses": inverses, "weighted": weighted}
                        expected = await CorpusGraph(memory).path("a", end, **options)
                        assert await CorpusGraph(file).path("a", end, **options) == expected

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_a_search_that_is_cancelled_stops(self, weighted):
        edges = [Edge("a", "b", "x"), Edge("b", "h", "x")]

        class Hanging(Counting):
            async def read(self, *requests):
                answers = await super().read(*requests)
                if self.calls["Edges"]:
                    scope.cancel()
                    await anyio.sleep_forever()
                return answers

        async with store_of(edges) as store:
            hanging = Hanging(store)
            with anyio.CancelScope() as scope:
                await CorpusGraph(hanging).path("a", "h", weighted=weighted)
        assert scope.cancelled_caught
        assert hanging.calls["Edges"] == 1

    @pytest.mark.slow
    async def test_large_levels_are_read_in_pages_and_do_not_block_other_tasks(self):
        ids = [f"n{number:04}" for number in range(2_500)]
        edges = [Edge("a", id, "x") for id in ids] + [Edge(id, f"{id}-on", "x") for id in ids]
        edges += [Edge(f"z{number:04}", "h", "x") for number in range(3_000)]
        async with store_of(edges) as store:
            counting = Counting(store)
            path = await CorpusGraph(counting).path("a", "h", direction="out")
        assert (path.found, path.left_out) == (False, {})
        assert counting.largest <= 1_000
