"""Records of walks: they can be parsed, list edges early, and keep a budget exactly."""

import json
import re
from urllib.parse import unquote

import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError
from airw.links import LinkPath
from airw.values import Edge
from airw.views import NodeView, WalkTree, path_records, tree_records
from tests.support.drawing import examples
from tests.support.link_corpora import bounds, graphs, note, text_of_graph, tree_of, vault

NODE = re.compile(r'N (\S+) (\S+) ("(?:[^"\\]|\\.)*") tags=(\S+) path=(\S+)\Z')
EDGE = re.compile(r"E (\S+) (\S+) (\S+) (\S+)\Z")


def text_of(token):
    return None if token == "-" else unquote(token, errors="surrogatepass")


def id_of(token):
    source, bar, id = token.partition("|")
    return (text_of(source), text_of(id)) if bar else text_of(token)


def header_of(line):
    kind, *pairs = line.split(" ")
    assert kind == "H"
    return dict(pair.split("=", 1) for pair in pairs)


def parse_records(records):
    """Return the header, the artifacts, the edges, and the kinds of the lines in their order."""
    assert records.endswith("\n")
    header, *lines = records.removesuffix("\n").split("\n")
    nodes, edges = [], []
    for line in lines:
        if line[0] == "N":
            id, type_, title, tags, path = NODE.fullmatch(line).groups()
            tags = () if tags == "-" else tuple(map(text_of, tags.split(",")))
            nodes.append(NodeView(id_of(id), json.loads(title) or None, text_of(type_), tags, text_of(path)))
        else:
            source, type_, target, origin = EDGE.fullmatch(line).groups()
            edges.append(Edge(id_of(source), id_of(target), text_of(type_), text_of(origin)))
    return header_of(header), nodes, edges, "".join(line[0] for line in lines)


odd = st.text("aZ0 -%\\\"',|=/\n\r\t\x00\x1b\x7f\x85\u00a0\u00e9\u2028\u202e\ud800\U0001f511", min_size=1, max_size=6)
ids = odd | st.tuples(odd, odd)
views = st.builds(
    NodeView, ids, st.none() | odd, st.none() | odd, st.lists(odd, max_size=3).map(tuple), st.none() | odd
)


@st.composite
def trees(draw):
    nodes = draw(st.lists(views, max_size=5, unique_by=lambda node: node.id))
    listed = st.sampled_from([node.id for node in nodes] or ["a"])
    edges = draw(st.lists(st.builds(Edge, listed, listed, odd, odd), max_size=6, unique=True)) if nodes else []
    counts = st.integers(1, 10**6)
    left_out = draw(st.fixed_dictionaries({}, optional={"max_hops": counts, "max_nodes": counts}))
    roots = [node.id for node in nodes[:2]]
    hops = draw(st.none() | st.integers(0, 9))
    return WalkTree(roots, "both", hops, nodes, edges, [], left_out=left_out, at_least=tuple(left_out)[:1])


@given(trees())
@settings(max_examples=examples(60))
def test_every_line_can_be_parsed_back(tree):
    records = tree_records(tree)
    header, nodes, edges, _ = parse_records(records)
    assert nodes == list(tree.nodes)
    assert sorted(map(repr, edges)) == sorted(map(repr, tree.edges))
    roots = [] if header["root"] == "-" else header["root"].split(",")
    assert [id_of(root) for root in roots] == tree.roots
    assert header["max_hops"] == ("-" if tree.max_hops is None else str(tree.max_hops))
    assert header["truncated"] == str(tree.truncated).lower()
    said = dict(pair.split(":") for pair in header.get("left_out", "").split(",") if pair)
    assert {name: int(count.rstrip("+")) for name, count in said.items()} == tree.left_out
    assert {name for name, count in said.items() if count.endswith("+")} == set(tree.at_least)
    records.encode()
    assert len(records.splitlines()) == 1 + len(tree.nodes) + len(tree.edges)


@given(trees())
@settings(max_examples=examples(40))
def test_an_edge_is_listed_as_soon_as_both_its_ends_are(tree):
    _, nodes, edges, kinds = parse_records(tree_records(tree))
    listed, rest, written = set(), list(nodes), list(edges)
    for kind in kinds:
        if kind == "N":
            assert not [edge for edge in written if {edge.source, edge.target} <= listed]
            listed.add(rest.pop(0).id)
        else:
            edge = written.pop(0)
            assert {edge.source, edge.target} <= listed


@pytest.mark.slow
@given(trees())
@settings(max_examples=examples(20))
def test_a_budget_is_kept_exactly_and_no_line_that_fits_is_left_out(tree):
    whole = tree_records(tree)
    lines = whole.splitlines(keepends=True)
    shortest = None
    for budget in range(len(whole) + 40):
        try:
            records = tree_records(tree, max_chars=budget)
        except ArgumentError as error:
            needed = int(re.search(r"at least (\d+)", str(error))[1])
            assert budget < needed
            assert shortest in (None, needed)
            shortest = needed
            continue
        assert len(records) <= budget
        assert budget >= (shortest or 0)
        kept = records.splitlines(keepends=True)
        assert kept[1:] == lines[1 : len(kept)]
        header, cut = header_of(kept[0].rstrip()), len(lines) - len(kept)
        assert ("max_chars:" in header.get("left_out", "")) == bool(cut)
        if cut:
            assert f"max_chars:{cut}" in header["left_out"].split(",")
            assert header["truncated"] == "true"
            longer = kept[0].replace(f"max_chars:{cut}", f"max_chars:{cut - 1}") if cut > 1 else lines[0]
            assert len(longer) + sum(map(len, lines[1 : len(kept) + 1])) > budget
        else:
            assert records == whole
    assert tree_records(tree, max_chars=len(whole)) == whole


@given(graphs(), bounds)
@settings(max_examples=examples(30))
def test_the_records_of_a_walk_list_the_artifacts_and_edges_of_its_tree(graph, given_bounds):
    tree = text_of_graph(graph, **given_bounds).tree
    header, nodes, edges, _ = parse_records(tree_records(tree))
    assert (nodes, set(edges), len(edges)) == (list(tree.nodes), set(tree.edges), len(tree.edges))
    assert header["truncated"] == str(tree.truncated).lower()


def test_an_edge_is_written_as_qipu_specifies_it():
    tree = WalkTree(["a"], "out", 3, [NodeView("a"), NodeView("b")], [Edge("a", "b", "supports", "typed")], [])
    assert tree_records(tree).splitlines()[-1] == "E a supports b typed"


async def test_two_notes_and_their_link(tmp_path):
    async with vault(tmp_path, {"a": note("b"), "b": note()}) as corpus:
        tree = await tree_of(corpus, "a.md")
    records = tree_records(tree, max_chars=10_000)
    assert header_of(records.splitlines()[0]) == {
        "airw": "1", "records": "1", "mode": "link.tree", "root": "a.md", "direction": "both", "max_hops": "3",
        "truncated": "false",
    }  # fmt: skip
    assert [line[0] for line in records.splitlines()] == ["H", "N", "N", "E"]
    assert records == tree_records(tree)
    alone = tree_records(tree, max_chars=120)
    assert [line[0] for line in alone.splitlines()] == ["H"]
    assert "truncated=true left_out=max_chars:3" in alone


async def test_if_a_walk_and_a_budget_both_leave_something_out_both_are_named(tmp_path):
    async with vault(tmp_path, {"root": note(*"abcde"), **{name: note() for name in "abcde"}}) as corpus:
        tree = await tree_of(corpus, "root.md", max_fanout=2)
    whole = tree_records(tree)
    assert header_of(whole.splitlines()[0])["left_out"] == "max_fanout:3"
    assert [line[0] for line in whole.splitlines()] == ["H", "N", "N", "E", "N", "E"]
    cut = tree_records(tree, max_chars=len(whole) - 1)
    assert header_of(cut.splitlines()[0])["left_out"].startswith("max_chars:")
    assert header_of(cut.splitlines()[0])["left_out"].endswith(",max_fanout:3")


@pytest.mark.parametrize("max_chars", [-1, 1.5, True, "100"])
def test_a_budget_is_a_whole_number(max_chars):
    with pytest.raises(ArgumentError, match="max_chars must be a whole number"):
        tree_records(WalkTree(["a"], "both", 3, [NodeView("a")], [], []), max_chars=max_chars)


def test_a_path_names_its_ends_its_length_and_its_cost():
    path = LinkPath("a b", "c", "both", 10, ("a b", "c"), (Edge("c", "a b", "cites", "typed"),), 1.5)
    header, nodes, edges, kinds = parse_records(path_records(path, [NodeView("a b"), NodeView("c")]))
    assert header == {
        "airw": "1", "records": "1", "mode": "link.path", "from": "a%20b", "to": "c", "direction": "both",
        "max_hops": "10", "found": "true", "length": "1", "cost": "1.5", "truncated": "false",
    }  # fmt: skip
    assert ([node.id for node in nodes], edges, kinds) == (["a b", "c"], list(path.edges), "NNE")


def test_a_missing_path_names_the_limit_that_may_have_hidden_it():
    path = LinkPath("a", "b", "out", None, left_out={"max_nodes": 1}, at_least=("max_nodes",))
    header, nodes, edges, _ = parse_records(path_records(path, []))
    assert (nodes, edges) == ([], [])
    assert [header[name] for name in ("found", "length", "cost", "max_hops", "truncated", "left_out")] == [
        "false", "-", "-", "-", "true", "max_nodes:1+",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match=r"max_chars must be at least \d+"):
        path_records(path, [], max_chars=20)
