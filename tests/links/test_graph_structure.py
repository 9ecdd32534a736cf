"""Components and cycles of a graph equal those of networkx."""

from itertools import pairwise
from random import Random

import anyio
import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError
from airw.links import CorpusGraph, LinkCycle
from airw.stores import SqliteStore
from airw.values import Edge
from tests.support.drawing import examples
from tests.support.linked_stores import IDS, Counting, fill, store_of

PAIRS = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda pair: pair[0] != pair[1]))


def in_order(groups):
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group[0]))


def network(edges, ids=IDS):
    graph = nx.DiGraph()
    graph.add_nodes_from(ids)
    graph.add_edges_from((edge.source, edge.target) for edge in edges)
    return graph


def first_shortest_ring(graph, group):
    """Return the shortest simple cycle of a group, starting at its first id.

    Of several, return the first one in the order of ids.
    """
    rings = nx.simple_cycles(graph.subgraph(group))
    turned = (ring[ring.index(min(ring)) :] + ring[: ring.index(min(ring))] for ring in rings)
    return min(turned, key=lambda ring: (len(ring), ring))


async def structure_of(edges, **options):
    async with store_of(edges, **options) as store:
        graph = CorpusGraph(store)
        return await graph.components(), await graph.cycles()


def edge_line(ids):
    return [Edge(one, other, "x") for one, other in pairwise(ids)]


class TestComponents:
    @given(pairs=PAIRS)
    def test_components_are_weakly_connected_and_ordered_by_size(self, pairs):
        edges = [Edge(*pair, "x") for pair in pairs]
        components, _ = anyio.run(lambda: structure_of(edges))
        assert components == in_order(nx.weakly_connected_components(network(edges)))

    @pytest.mark.slow
    async def test_long_lines_over_many_pages_are_one_component(self):
        ids = [f"n{number:05}" for number in range(4_000)]
        shuffled = Random(5).sample(ids[1:], len(ids) - 1)
        async with store_of(edge_line(shuffled), ids=ids) as store:
            counting = Counting(store)
            components = await CorpusGraph(counting).components()
        assert components == [ids[1:], ids[:1]]
        assert (counting.calls["Edges"], counting.largest) == (4, 1_000)

    async def test_only_selected_links_connect(self):
        edges = [Edge("a", "b", "x"), Edge("b", "c", "y"), Edge("c", "d", "x", "typed"), Edge("d", ("o", "a"), "x")]
        async with store_of(edges, ids="abcd") as store:
            graph = CorpusGraph(store)
            assert await graph.components() == [["a", "b", "c", "d"]]
            assert await graph.components(types=["x"]) == [["a", "b"], ["c", "d"]]
            assert await graph.components(exclude=["x"]) == [["b", "c"], ["a"], ["d"]]
            assert await graph.components(origins=["typed"]) == [["c", "d"], ["a"], ["b"]]

    async def test_an_empty_graph_has_no_components_and_no_cycles(self):
        assert await structure_of([], ids="") == ([], [])


class TestCycles:
    @settings(max_examples=examples(150))
    @given(pairs=PAIRS)
    def test_each_group_has_its_first_shortest_cycle(self, pairs):
        edges = [Edge(*pair, "x") for pair in pairs]
        graph = network(edges)
        _, cycles = anyio.run(lambda: structure_of(edges))
        groups = in_order(group for group in nx.strongly_connected_components(graph) if len(group) > 1)
        assert [list(cycle.members) for cycle in cycles] == groups
        for cycle in cycles:
            assert list(cycle.nodes) == first_shortest_ring(graph, cycle.members)
            around = [*cycle.nodes[1:], cycle.nodes[0]]
            assert cycle.edges == tuple(Edge(*pair, "x") for pair in zip(cycle.nodes, around, strict=True))

    @pytest.mark.slow
    @settings(max_examples=examples(20))
    @given(seed=st.integers(0, 10**6))
    def test_groups_of_larger_graphs_are_those_of_networkx(self, seed):
        random = Random(seed)
        ids = [f"n{number:03}" for number in range(200)]
        edges = [Edge(*random.sample(ids, 2), "x") for _ in range(random.choice([150, 220, 400]))]
        graph = network(edges, ids)
        _, cycles = anyio.run(lambda: structure_of(edges, ids=ids))
        assert [list(cycle.members) for cycle in cycles] == in_order(
            group for group in nx.strongly_connected_components(graph) if len(group) > 1
        )
        for cycle in cycles:
            inside = graph.subgraph(cycle.members)
            girth = min(nx.shortest_path_length(inside, end, start) + 1 for start, end in inside.edges)
            assert len(cycle.edges) == len(cycle.nodes) == girth

    async def test_of_equally_short_cycles_the_first_is_returned(self):
        edges = [Edge(*pair, "x") for pair in ("ab", "bc", "ca", "cd", "de", "ec")]
        _, [cycle] = await structure_of(edges, ids="abcde")
        assert (cycle.members, cycle.nodes) == (tuple("abcde"), tuple("abc"))

    @pytest.mark.slow
    async def test_a_ring_of_thousands_is_one_cycle_without_recursion(self):
        ids = [f"n{number:05}" for number in range(5_000)]
        _, [cycle] = await structure_of([*edge_line(ids), Edge(ids[-1], ids[0], "x")], ids=ids)
        assert cycle.nodes == cycle.members == tuple(ids)

    async def test_the_edges_of_a_cycle_are_the_first_selected_ones(self):
        edges = [
            Edge("a", "b", "x"), Edge("a", "b", "REF", "derived"), Edge("b", "a", "REF", "typed"),
            Edge("b", "a", "REF", "derived"), Edge("c", "a", "REF"),
        ]  # fmt: skip
        async with store_of(edges, ids="abc") as store:
            graph = CorpusGraph(store)
            [cycle] = await graph.cycles()
            assert cycle == LinkCycle(
                ("a", "b"), ("a", "b"), (Edge("a", "b", "REF", "derived"), Edge("b", "a", "REF", "derived"))
            )
            assert await graph.cycles(types=["x"]) == []
            assert [each.edges[0].type for each in await graph.cycles(exclude=["y"])] == ["REF"]
            assert await graph.cycles(origins=["typed"]) == []

    async def test_work_on_a_whole_graph_can_be_cancelled(self):
        ids = [f"n{number:05}" for number in range(2_000)]

        class Slow(Counting):
            async def read(self, *requests):
                answers = await super().read(*requests)
                if self.calls["Edges"]:
                    scope.cancel()
                return answers

        async with store_of(edge_line(ids), ids=ids) as store:
            slow = Slow(store)
            with anyio.CancelScope() as scope:
                await CorpusGraph(slow).cycles()
        assert scope.cancelled_caught
        assert slow.calls["Edges"] == 1


@pytest.mark.asyncio_only
async def test_a_file_returns_the_same_as_memory(tmp_path):
    random = Random(3)
    edges = [Edge(*random.sample(IDS, 2), random.choice("xy")) for _ in range(9)]
    async with SqliteStore(tmp_path / "graph.airw") as store:
        await fill(store, edges)
        found = await CorpusGraph(store).components(), await CorpusGraph(store).cycles()
    assert found == await structure_of(edges)


async def test_filters_are_checked():
    with pytest.raises(ArgumentError, match="types must be a list of strings"):
        async with store_of([]) as store:
            await CorpusGraph(store).components(types="x")
    with pytest.raises(ArgumentError, match="origins must be one of"):
        async with store_of([]) as store:
            await CorpusGraph(store).cycles(origins=["x"])
