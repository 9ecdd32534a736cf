"""Trees of walks: requirements from the tests of qipu, its known faults, and laws."""

from collections import deque

import anyio
import pytest
from hypothesis import example, given, settings, strategies as st

from airw import FederatedCorpus, traverse
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.links import INVERSES, Inverses
from airw.policies import CollapsedTree, LinkWalk
from airw.values import Edge
from airw.views import TreeReader, describe, read_tree, walk_links
from airw.walking import EdgeFound, NodeCommitted, StepDone
from tests.support.drawing import examples
from tests.support.link_corpora import (
    BACKENDS,
    Graph,
    bounds,
    corpus_of,
    edge_counts,
    graphs,
    ids,
    links,
    name_of,
    note,
    tree_of,
    vault,
)


@pytest.fixture
def tree(tmp_path):
    """Return a function that returns the tree of a walk through notes, from one of them."""

    async def of(notes, *roots, **options):
        async with vault(tmp_path, notes) as corpus:
            return await tree_of(corpus, *(f"{root}.md" for root in roots), **options)

    return of


CHAIN = {"a": note("b"), "b": note("c"), "c": note("d"), "d": note("e"), "e": note("f"), "f": note()}
HUB = {"root": note("a", "b", "c", "d", "e"), **{name: note() for name in "abcde"}}


class TestWhatIsListed:
    async def test_a_note_without_links_stands_alone(self, tree):
        alone = await tree({"a": note(title="Alpha"), "b": note()}, "a")
        assert (ids(alone), alone.nodes[0].title) == (["a"], "Alpha")
        assert (alone.edges, alone.spanning_tree, alone.references, alone.truncated) == ((), (), (), False)

    async def test_links_are_followed_from_note_to_note(self, tree):
        assert ids(await tree({"1": note("2"), "2": note("3"), "3": note()}, "1")) == ["1", "2", "3"]

    @pytest.mark.parametrize(
        ("direction", "found"), [("out", ["a", "b"]), ("in", ["a", "c"]), ("both", ["a", "b", "c"])]
    )
    async def test_the_direction_is_honoured(self, tree, direction, found):
        notes = {"a": note("b"), "b": note(), "c": note("a")}
        for weighted in (False, True):
            walked = await tree(notes, "a", direction=direction, weighted=weighted)
            assert (ids(walked), walked.direction) == (found, direction)

    async def test_hops_are_limited_and_notes_beyond_are_counted(self, tree):
        walked = await tree(CHAIN, "a", max_hops=2)
        assert (ids(walked), walked.max_hops, walked.truncated) == (["a", "b", "c"], 2, True)
        assert walked.left_out == {"max_hops": 1}

    async def test_the_default_is_three_hops_for_any_values(self, tree):
        for weighted in (False, True):
            walked = await tree(CHAIN, "a", weighted=weighted)
            assert [link.hop for link in walked.spanning_tree] == [1, 2, 3]
            assert (walked.max_hops, walked.left_out) == (3, {"max_hops": 1})

    async def test_notes_are_limited_and_every_link_ends_at_listed_notes(self, tree):
        notes = {"root": note("a", "b", "c"), **{name: note(f"{name}{name}") for name in "abc"}}
        notes |= {name * 2: note() for name in "abc"}
        walked = await tree(notes, "root", max_nodes=3)
        assert (ids(walked), walked.left_out) == (["root", "a", "b"], {"max_nodes": 1})
        assert edge_counts(walked) == {("root", "a"): 1, ("root", "b"): 1}
        assert walked.unlisted == {"root.md": 1}

    async def test_edges_are_limited(self, tree):
        walked = await tree(HUB, "root", max_edges=2)
        assert (len(walked.edges), walked.left_out) == (2, {"max_edges": 3})

    @pytest.mark.parametrize("direction", ["out", "in", "both"])
    async def test_edges_of_each_note_are_limited(self, tree, direction):
        notes = {"root": note(), **{name: note("root") for name in "abcde"}} if direction == "in" else HUB
        walked = await tree(notes, "root", max_fanout=2, direction=direction)
        assert (ids(walked), len(walked.edges), walked.left_out) == (["root", "a", "b"], 2, {"max_fanout": 3})

    async def test_all_limits_that_left_something_out_are_named(self, tree):
        walked = await tree({**HUB, "a": note("f"), "f": note()}, "root", max_fanout=2, max_hops=1)
        assert walked.left_out == {"max_fanout": 3, "max_hops": 1}

    async def test_a_deadline_is_reported(self, tree):
        walked = await tree(CHAIN, "a", timeout=0)
        assert (walked.timed_out, walked.truncated, walked.unknown, ids(walked)) == (True, True, ("timeout",), [])
        assert walked.to_dict()["unknown"] == ["timeout"]

    async def test_several_roots_are_listed_in_their_order(self, tree):
        walked = await tree({"a": note("c"), "b": note("c", "a"), "c": note()}, "b", "a")
        assert (walked.roots, ids(walked)) == (("b.md", "a.md"), ["b", "a", "c"])
        assert links(walked) == ["b>c related"]
        assert links(walked, "references") == ["b>a related", "a>c related"]

    async def test_nodes_have_titles_types_tags_and_paths(self, tree, tmp_path):
        walked = await tree({"sub/a": note(title="Alpha", type="idea", tags="[x, 7]"), "b": note()}, "sub/a")
        [node] = walked.nodes
        assert (node.id, node.title, node.type, node.tags) == ("sub/a.md", "Alpha", "idea", ("x", "7"))
        assert node.path == str(tmp_path / "sub" / "a.md")

    async def test_an_artifact_without_surfaces_is_a_node_like_any_other(self):
        graph = Graph(3, ((0, 1, "related", "typed"), (1, 2, "related", "typed")), frozenset({1}))
        async with corpus_of(graph) as corpus:
            walked = await tree_of(corpus, "n0")
        assert [(node.id, node.title) for node in walked.nodes] == [("n0", "Node n0"), ("n1", None), ("n2", "Node n2")]
        assert links(walked) == ["n0>n1 related", "n1>n2 related"]


class TestAWholeGraphIsNotTruncated:
    """A graph that fits a limit exactly is whole."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("direction", ["out", "both"])
    @pytest.mark.parametrize("limit", [{"max_hops": 1}, {"max_nodes": 2}, {"max_edges": 1}, {"max_fanout": 1}])
    async def test_two_notes_and_a_link(self, tree, limit, direction, weighted):
        walked = await tree({"a": note("b"), "b": note()}, "a", direction=direction, weighted=weighted, **limit)
        assert (ids(walked), links(walked)) == (["a", "b"], ["a>b related"])
        assert (walked.truncated, walked.left_out, walked.at_least, walked.unknown) == (False, {}, (), ())

    async def test_a_hub_that_fits_every_limit_at_once(self, tree):
        walked = await tree(HUB, "root", max_hops=1, max_nodes=6, max_edges=5, max_fanout=5)
        assert (len(walked.nodes), len(walked.edges), walked.truncated) == (6, 5, False)

    async def test_a_cycle(self, tree):
        notes = {"a": note("b"), "b": note("c"), "c": note("a")}
        walked = await tree(notes, "a", max_hops=2, max_nodes=4, max_edges=3, max_fanout=2)
        assert links(walked) == ["a>b related", "a<c related"]
        assert links(walked, "references") == ["b>c related"]
        assert not walked.truncated

    async def test_edges_between_notes_at_a_limit_are_not_read(self, tree):
        notes = {"a": note("b"), "b": note("c"), "c": note("a")}
        for limit in ({"max_hops": 1}, {"max_nodes": 3}):
            walked = await tree(notes, "a", **limit)
            assert (ids(walked), len(walked.edges), walked.truncated) == (["a", "b", "c"], 2, False)


class TestHowItWasReached:
    async def test_neighbours_come_by_type_then_by_id(self, tree):
        notes = {"root": note(("supports", "c"), ("related", "a"), ("derived-from", "b")), **{n: note() for n in "abc"}}
        assert links(await tree(notes, "root")) == ["root>b derived-from", "root>a related", "root>c supports"]

    async def test_a_note_found_again_is_a_reference_and_is_in_the_tree_once(self, tree):
        notes = {"root": note("a", "b", "c"), "a": note("b", "c"), "b": note("c"), "c": note()}
        walked = await tree(notes, "root")
        assert [(link.source, link.hop) for link in walked.spanning_tree] == [("root.md", 1)] * 3
        assert links(walked, "references") == ["a>b related", "a>c related", "b>c related"]
        assert [link.hop for link in walked.references] == [1, 1, 1]
        assert len(walked.edges) == 6

    async def test_an_edge_walked_backwards_has_its_inverse_name_and_keeps_its_stored_direction(self, tree):
        notes = {"a": note(("supports", "b")), "b": note()}
        walked = await tree(notes, "b", direction="in")
        assert links(walked) == ["b<a supported-by"]
        assert walked.edges == (Edge("a.md", "b.md", "supports", "typed"),)
        assert links(await tree(notes, "b", direction="in", inverses=None)) == ["b<a supports"]
        own = await tree(notes, "b", direction="in", inverses=Inverses({"supports": "upheld-by"}))
        assert links(own) == ["b<a upheld-by"]

    @pytest.mark.parametrize(
        ("chosen", "found"),
        [
            ({"types": ["supported-by"]}, ["b", "a"]),
            ({"types": ["supports"]}, ["b"]),
            ({"exclude": ["supported-by"]}, ["b"]),
            ({"types": ["supported-by"], "inverses": None}, ["b"]),
            ({"types": ["supports"], "inverses": None}, ["b", "a"]),
        ],
    )
    async def test_types_are_compared_with_the_name_of_an_edge_in_the_walked_direction(self, tree, chosen, found):
        assert ids(await tree({"a": note(("supports", "b")), "b": note()}, "b", **chosen)) == found

    async def test_types_and_origins_can_be_filtered(self, tree):
        notes = {"a": note(("supports", "b"), body="[[c]]"), "b": note(), "c": note()}
        assert ids(await tree(notes, "a", types=["supports"])) == ["a", "b"]
        assert ids(await tree(notes, "a", exclude=["supports"])) == ["a", "c"]
        assert ids(await tree(notes, "a", origins=["typed"])) == ["a", "b"]
        assert ids(await tree(notes, "a", origins=["inline"])) == ["a", "c"]

    async def test_by_cost_the_cheapest_path_counts_and_hops_are_integers(self, tree):
        notes = {
            "a": note(("cites", "z"), ("part-of", "b")), "b": note(("part-of", "z")),
            "z": note(value=100),
        }  # fmt: skip
        cheap = await tree(notes, "a", weighted=True, direction="out")
        assert links(cheap) == ["a>b part-of", "a>z cites"]
        notes["b"] = note(("part-of", "z"), value=100)
        cheaper = await tree({**notes, "a": note(("cites", "z"), ("part-of", "b")), "z": note()}, "a", weighted=True)
        assert links(cheaper) == ["a>b part-of", "b>z part-of"]
        assert [link.hop for link in cheaper.spanning_tree] == [1, 2]
        assert links(cheaper, "references") == ["a>z cites"]

    async def test_of_parallel_edges_the_one_taken_is_in_the_tree(self, tree):
        notes = {"a": note(("cites", "b"), ("part-of", "b")), "b": note()}
        assert links(await tree(notes, "a")) == ["a>b cites"]
        walked = await tree(notes, "a", weighted=True)
        assert (links(walked), links(walked, "references")) == (["a>b part-of"], ["a>b cites"])

    async def test_values_do_not_change_the_hops_of_a_walk_that_is_not_by_cost(self, tree):
        notes = {"a": note("b", value=100), "b": note("c", value=0), "c": note(value=100)}
        assert [link.hop for link in (await tree(notes, "a")).spanning_tree] == [1, 2]


class TestUse:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"direction": "sideways"}, "direction must be one of 'out', 'in', 'both'"),
            ({"max_hops": -1}, "max_hops"),
            ({"max_hops": True}, "max_hops"),
            ({"max_nodes": None}, "max_nodes"),
            ({"max_nodes": 1.5}, "max_nodes"),
            ({"max_edges": -1}, "max_edges"),
            ({"max_fanout": "2"}, "max_fanout"),
            ({"types": "supports"}, "types must be a list"),
            ({"origins": ["typo"]}, "origins must be one of"),
            ({"inverses": {}}, "inverses"),
            ({"weighted": 1}, "weighted"),
            ({"timeout": -1}, "timeout"),
        ],
    )
    def test_invalid_arguments_are_refused_by_the_call(self, options, named):
        with pytest.raises(ArgumentError, match=named):
            walk_links(None, ["a"], **options)

    def test_roots_must_be_a_non_empty_list(self):
        with pytest.raises(ArgumentKindError, match="roots must be a list"):
            walk_links(None, "a.md")
        with pytest.raises(ArgumentError, match="roots must contain at least one"):
            walk_links(None, [])

    async def test_a_missing_root_is_named_in_the_error(self, tree):
        with pytest.raises(NoLedgerEntry, match=r"nowhere\.md"):
            await tree(CHAIN, "nowhere")

    async def test_a_walk_is_read_once_and_other_values_are_refused(self, tmp_path):
        async with vault(tmp_path, CHAIN) as corpus:
            walk = walk_links(corpus, ["a.md"])
            await read_tree(walk)
            with pytest.raises(RuntimeError, match="being read already"):
                await read_tree(walk)
        with pytest.raises(ArgumentError, match="walk must be a walk, such as walk_links returns"):
            await read_tree("a.md")

    async def test_a_walk_of_another_policy_is_read_with_the_given_bounds(self, tmp_path):
        async with vault(tmp_path, CHAIN) as corpus:
            policy = LinkWalk(roots=["b.md"], direction="in")
            plain = await read_tree(traverse("", corpus, policy=policy))
            said = await read_tree(traverse("", corpus, policy=policy, max_depth=None), max_hops=None, direction="both")
        assert (plain.direction, plain.max_hops) == ("in", 2)
        assert (said.direction, said.max_hops) == ("both", None)
        assert links(plain) == links(said) == ["b<a related"]

    async def test_a_walk_that_returns_over_its_edges_lists_each_edge_once(self, tmp_path):
        async with vault(tmp_path, CHAIN) as corpus:
            walked = await read_tree(traverse("", corpus, policy=LinkWalk(roots=["c.md"]), max_depth=9))
        assert (len(walked.edges), walked.references) == (5, ())

    async def test_a_walk_without_edges_is_refused(self, tmp_path):
        async with vault(tmp_path, CHAIN) as corpus:
            alone = await read_tree(traverse("b", corpus, policy=CollapsedTree(seed_k=1)))
        assert alone.spanning_tree == ()
        reader = TreeReader()
        with pytest.raises(ArgumentError, match="reports no edge from 'a' to 'b'"):
            reader.add(EdgeFound("a", "b", None, known=False))
        with pytest.raises(ArgumentError, match="reports no edge from 'a' to 'b'"):
            reader.add(NodeCommitted("b", 1, 0.0, "a", None))

    def test_before_the_end_the_tree_so_far_is_truncated(self):
        reader = TreeReader(direction="out", max_hops=2)
        assert reader.tree().roots == ()
        reader.add(NodeCommitted("a", 0, 0.0, None, None))
        reader.add(EdgeFound("a", "b", "x", known=False, edge=Edge("a", "b", "x")))
        reader.add(StepDone(1, 1, 1, 1))
        sofar = reader.tree()
        assert (ids(sofar), sofar.edges, sofar.unlisted) == (["a"], (), {"a": 1})
        assert (sofar.truncated, sofar.unknown, sofar.direction, sofar.max_hops) == (True, ("closed",), "out", 2)

    async def test_several_corpora_are_walked_as_one_graph(self, tmp_path):
        async with (
            vault(tmp_path / "one", {"a": note("b"), "b": note()}) as one,
            corpus_of(Graph(2, ((0, 1, "cites", "typed"),))) as two,
        ):
            both = FederatedCorpus([one, two])
            walked = await tree_of(both, ("vault", "a.md"), ("graph", "n0"))
            told = await describe(both, [("graph", "n1"), ("vault", "none.md")])
        assert [node.id for node in walked.nodes] == [
            ("vault", "a.md"), ("graph", "n0"), ("vault", "b.md"), ("graph", "n1"),
        ]  # fmt: skip
        assert walked.to_dict()["spanning_tree"][0] == {
            "from": ["vault", "a.md"], "to": ["vault", "b.md"], "hop": 1, "type": "related",
        }  # fmt: skip
        assert [(node.id, node.title) for node in told] == [(("graph", "n1"), "Node n1"), (("vault", "none.md"), None)]

    @pytest.mark.slow
    async def test_describing_many_artifacts_is_one_store_call_and_describing_none_is_no_call(self, tmp_path):
        async with corpus_of(Graph(300, (), frozenset({7}))) as corpus:
            counted = Counting(corpus)
            nodes = await describe(counted, [*map(name_of, range(300)), "n0", "nowhere"])
            assert counted.calls == ["read"]
            assert await describe(counted, []) == []
            assert len(counted.calls) == 1
        assert [node.title for node in nodes[6:9]] == ["Node n6", None, "Node n8"]
        assert [(node.id, node.title) for node in nodes[-2:]] == [("n0", "Node n0"), ("nowhere", None)]


class Counting:
    """A corpus that is its own store and records the calls."""

    def __init__(self, corpus):
        self._inner, self.calls = corpus.store, []
        self.name, self.embedder, self.store = corpus.name, corpus.embedder, self

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._inner, name)


def breadth_first(graph, roots, direction="both", max_hops=None):
    """Walk breadth-first; return the hops of nodes, the edges, and the edge to each node.

    Each edge is mapped to its first `(node, end, type)`.
    """
    queue, hops, met, ways = deque(roots), dict.fromkeys(roots, 0), {}, {}
    while queue:
        here = queue.popleft()
        if hops[here] == max_hops:
            continue
        steps = []
        for edge in graph.edges:
            source, target, type_, origin = name_of(edge[0]), name_of(edge[1]), edge[2], edge[3]
            if source == target:
                continue  # a link of an artifact to itself is no edge
            if source == here and direction != "in":
                steps.append((type_, target, 0, origin, Edge(source, target, type_, origin)))
            elif target == here and direction != "out":
                steps.append((INVERSES.of(type_), source, 1, origin, Edge(source, target, type_, origin)))
        for type_, end, _, _, edge in sorted(steps, key=lambda step: step[:4]):
            if edge in met:
                continue
            met[edge] = (here, end, type_)
            if end not in hops:
                hops[end], ways[end] = hops[here] + 1, edge
                queue.append(end)
    return hops, met, ways


@given(graphs(), st.integers(1, 2), st.sampled_from(("out", "in", "both")), st.none() | st.integers(0, 3))
@settings(max_examples=examples(60))
def test_a_tree_equals_breadth_first_search(graph, roots, direction, max_hops):
    roots = graph.ids[:roots]
    hops, met, ways = breadth_first(graph, roots, direction, max_hops)
    tree = run(graph, roots, direction=direction, max_hops=max_hops)
    assert [node.id for node in tree.nodes] == list(hops)
    assert tree.edges == tuple(met)
    assert {link.target: (link.source, link.edge, link.hop) for link in tree.spanning_tree} == {
        end: (met[edge][0], edge, hops[end]) for end, edge in ways.items()
    }
    named = {link.edge: (link.source, link.target, link.type) for link in (*tree.spanning_tree, *tree.references)}
    assert named == met
    whole = breadth_first(graph, roots, direction)[0]
    assert tree.truncated == (whole != hops) == ("max_hops" in tree.left_out)


def run(graph, roots, backend="asyncio", **options):
    async def main():
        async with corpus_of(graph) as corpus:
            return await tree_of(corpus, *roots, **options)

    return anyio.run(main, backend=backend)


@given(graphs(), st.integers(1, 2), bounds, st.sampled_from(BACKENDS))
@settings(max_examples=examples(80))
def test_a_tree_is_consistent_with_any_limits(graph, roots, given_bounds, backend):
    tree = run(graph, graph.ids[:roots], backend, **given_bounds)
    listed = [node.id for node in tree.nodes]
    hops = dict.fromkeys(tree.roots, 0) | {link.target: link.hop for link in tree.spanning_tree}
    assert len(set(listed)) == len(listed) <= given_bounds.get("max_nodes", 10_000)
    assert list(hops) == listed
    assert len(set(tree.edges)) == len(tree.edges) <= given_bounds.get("max_edges", 100_000)
    both = [*tree.spanning_tree, *tree.references]
    assert sorted(map(repr, tree.edges)) == sorted(repr(link.edge) for link in both)
    for link in both:
        assert {link.edge.source, link.edge.target} == {link.source, link.target} <= set(listed)
        assert link.hop == hops[link.target]
        assert link.type == (INVERSES.of(link.edge.type) if link.is_against else link.edge.type)
    for link in tree.spanning_tree:
        assert link.hop == hops[link.source] + 1 <= (given_bounds.get("max_hops", 3) or 99)
    for source in listed:
        assert sum(link.source == source for link in both) <= given_bounds.get("max_fanout", 1_000)
    assert tree.truncated == bool(tree.left_out or tree.at_least or tree.unknown)
    assert set(tree.left_out) <= {"max_hops", *given_bounds}


@pytest.mark.slow
@given(graphs(), st.sampled_from(("max_nodes", "max_edges")), st.integers(1, 9))
@settings(max_examples=examples(60))
@example(Graph(2, ((0, 1, "related", "typed"), (1, 0, "related", "typed"))), "max_edges", 2)
def test_a_tree_is_truncated_exactly_if_the_graph_contains_more(graph, limit, count):
    whole = run(graph, ["n0"], max_hops=None)
    tree = run(graph, ["n0"], max_hops=None, **{limit: count})
    assert not whole.truncated
    left_out = {"max_nodes": tree.nodes != whole.nodes, "max_edges": tree.edges != whole.edges}
    assert tree.truncated == left_out[limit] == (limit in tree.left_out)
