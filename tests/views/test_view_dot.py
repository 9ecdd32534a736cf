"""Walks and paths for Graphviz: valid DOT text with any ids and titles."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from airw.links import LinkPath
from airw.values import Edge
from airw.views import NodeView, TreeLink, WalkTree, path_dot, tree_dot
from tests.support.drawing import examples
from tests.support.link_corpora import bounds, graphs, note, text_of_graph, tree_of, vault

QUOTED = r'"((?:[^"\\\n]|\\.)*)"'
ATTRIBUTE = rf"(?:label={QUOTED}|peripheries=2|style=dashed)"
NODE = re.compile(rf"  {QUOTED} \[label={QUOTED}(, peripheries=2)?\];")
EDGE = re.compile(rf"  {QUOTED} -> {QUOTED} \[label={QUOTED}(, style=dashed)?\];")


def parse_dot(dot):
    """Return label, nodes and edges of a graph; fail on any other line."""
    first, shape, *lines, last, end = dot.split("\n")
    assert (first, shape, last, end) == ("digraph {", "  node [shape=box];", "}", "")
    label = re.fullmatch(rf"  label={QUOTED};", lines[0]) if lines else None
    nodes, edges = {}, []
    for line in lines[1:] if label else lines:
        if found := NODE.fullmatch(line):
            assert not edges
            nodes[found[1]] = (found[2], bool(found[3]))
        else:
            source, target, type_, dashed = EDGE.fullmatch(line).groups()
            assert {source, target} <= nodes.keys()
            edges.append((source, target, type_, bool(dashed)))
    return label and label[1], nodes, edges


odd = st.text("ab \\\"'{}[];->\n\x00\x85\u2028\u202e\ud800é%|", min_size=1, max_size=5)


@given(st.lists(st.builds(NodeView, odd | st.tuples(odd, odd), odd | st.none()), min_size=1, max_size=4), odd)
def test_with_any_ids_titles_and_types_the_text_is_a_graph(nodes, type_):
    nodes = list({node.id: node for node in nodes}.values())
    edges = [Edge(nodes[0].id, node.id, type_) for node in nodes]
    dot = tree_dot(WalkTree([nodes[0].id], "out", 1, nodes, edges, []))
    _, named, linked = parse_dot(dot)
    assert (len(named), len(linked)) == (len(nodes), len(edges))
    dot.encode()
    assert dot.replace("\n", "").isprintable()


async def test_tree_edges_are_solid_others_dashed_and_all_have_their_stored_direction(tmp_path):
    notes = {"a": note("b", title="Alpha"), "b": note("c"), "c": note("a", ("supports", "b"))}
    async with vault(tmp_path, notes) as corpus:
        label, nodes, edges = parse_dot(tree_dot(await tree_of(corpus, "a.md")))
    assert (label, nodes["a.md"], nodes["b.md"]) == (None, (r"a.md\nAlpha", True), (r"b.md\nb", False))
    assert edges == [
        ("a.md", "b.md", "related", False), ("c.md", "a.md", "related", False),
        ("b.md", "c.md", "related", True), ("c.md", "b.md", "supports", True),
    ]  # fmt: skip


async def test_what_was_left_out_is_the_label(tmp_path):
    async with vault(tmp_path, {"a": note("b"), "b": note()}) as corpus:
        assert parse_dot(tree_dot(await tree_of(corpus, "a.md", max_hops=0)))[0] == "left out: max_hops 1"


def test_a_path_has_its_ends_in_double_lines():
    path = LinkPath("a", "c", "both", 9, ("a", "b", "c"), (Edge("b", "a", "x"), Edge("b", "c", 'y"')), 2.0)
    _, nodes, edges = parse_dot(path_dot(path, [NodeView("a"), NodeView("b"), NodeView("c")]))
    assert {id: is_end for id, (_, is_end) in nodes.items()} == {"a": True, "b": False, "c": True}
    assert edges == [("b", "a", "x", False), ("b", "c", r"y\"", False)]


def test_no_path_is_a_graph_without_nodes():
    assert parse_dot(path_dot(LinkPath("a", "b", "both", 9, left_out={"max_hops": 2}), [])) == (
        "left out: max_hops 2", {}, [],
    )  # fmt: skip


@given(graphs(), bounds)
@settings(max_examples=examples(20))
def test_the_graph_of_a_walk_equals_that_of_its_tree(graph, given_bounds):
    tree = text_of_graph(graph, **given_bounds).tree
    _, nodes, edges = parse_dot(tree_dot(tree))
    assert list(nodes) == [node.id for node in tree.nodes]
    assert [edge[:3] for edge in edges] == [(edge.source, edge.target, edge.type) for edge in tree.edges]
    assert sum(not dashed for *_, dashed in edges) == len(tree.spanning_tree)


@pytest.mark.parametrize("text", ["plain", '"\\', "\\", "\\n\n", "}];", "<b>"])
def test_a_label_shows_the_title_unchanged(text):
    """Graphviz reads `\\"` and `\\\\` in a quoted label as one character, `\\n` as a line end."""
    link = TreeLink("a", "b", 1, text, Edge("a", "b", text))
    tree = WalkTree(["a"], "out", 1, [NodeView("a", text), NodeView("b")], [link.edge], [link])
    _, nodes, edges = parse_dot(tree_dot(tree))
    assert read(nodes["a"][0]) == ["a", text.replace("\n", "\\n")]
    assert read(edges[0][2]) == [text.replace("\n", "\\n")]


def read(label):
    said = re.sub(r"\\(.)", lambda found: "\0" if found[1] == "n" else found[1], label)
    return said.split("\0")


if shutil.which("dot"):

    @pytest.mark.slow
    def test_graphviz_reads_it():
        link = TreeLink("a", 'b"\\', 1, "x\\", Edge("a", 'b"\\', "x\\"))
        dot = tree_dot(WalkTree(["a"], "out", 1, [NodeView("a", "\\"), NodeView('b"\\')], [link.edge], [link]))
        plain = subprocess.run(["dot", "-Tplain"], input=dot, capture_output=True, text=True, check=True).stdout
        assert plain.count("\nnode ") == 2
