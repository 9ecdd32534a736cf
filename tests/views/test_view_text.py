"""Walks and paths as text: the layout, stored examples, and lines that stream early."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus
from airw.errors import ArgumentError
from airw.links import LinkPath
from airw.values import Edge
from airw.views import (
    NodeView,
    TreeLink,
    TreeTextWriter,
    WalkTree,
    path_dict,
    path_text,
    tree_dot,
    tree_records,
    tree_text,
    walk_links,
)
from airw.walking import EdgeFound, NodeCommitted, StepDone, WalkEnded
from tests.support.drawing import examples
from tests.support.link_corpora import (
    BACKENDS,
    Graph,
    bounds,
    corpus_of,
    graphs,
    note,
    text_of_graph,
    text_of_walk,
    tree_of,
    vault,
)

GOLDEN = Path(__file__).parent / "golden"
VAULT = {
    "index": note("keys/rotation", ("has-part", "glossary"), title="Index of the vault", type="map", tags="[start]"),
    "keys/rotation": note(
        ("derived-from", "policy"), ("supports", "audit"), title="Rotating keys", tags="[keys, how-to]",
        body="See [[glossary]] and [[Signing keys]].",
    ),
    "keys/signing": note(("part-of", "index"), ("contradicts", "policy"), title="Signing keys", tags="[keys]"),
    "policy": note(title='The "policy", 50% done', type="source"),
    "audit": note(("answers", "policy"), title="Audit of 2026", body="Back to the [index](index.md)."),
    "glossary": note(("precedes", "keys/rotation"), title="Glossary", value=100),
    "island": note(title="An island"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "write", "options"),
    [
        ("tree.txt", tree_text, {}),
        ("tree-out.txt", tree_text, {"direction": "out"}),
        ("tree-weighted.txt", tree_text, {"weighted": True}),
        ("tree-cut.txt", tree_text, {"max_hops": 2, "max_nodes": 4}),
        ("tree.records", tree_records, {}),
        ("tree-cut.records", lambda tree: tree_records(tree, max_chars=400), {"max_nodes": 4}),
        ("tree.dot", tree_dot, {}),
    ],
)
async def test_the_text_of_a_vault_equals_the_stored_file(tmp_path, name, write, options):
    async with vault(tmp_path, VAULT) as corpus:
        tree = await tree_of(corpus, "index.md", **options)
    nodes = [replace(node, path=str(Path(node.path).relative_to(tmp_path))) for node in tree.nodes]
    written = write(replace(tree, nodes=nodes)).rstrip("\n") + "\n"
    assert written == (GOLDEN / name).read_text(encoding="utf-8")


class TestLayout:
    async def test_each_note_and_reference_has_one_line_indented_below_its_parent(self, tmp_path):
        notes = {
            "a": note(("supports", "b"), "c", title="Alpha"), "b": note("c", title="Beta"), "c": note("d", title="C"),
            "d": note(("part-of", "a"), title="Delta"),
        }  # fmt: skip
        async with vault(tmp_path, notes) as corpus:
            tree = await tree_of(corpus, "a.md")
        assert tree_text(tree).splitlines() == [
            "a.md  Alpha",
            "├─ ← has-part  d.md  Delta",
            "│  └─ ← related  c.md  C (seen)",
            "├─ → related  c.md  C",
            "│  └─ ← related  b.md  Beta (seen)",
            "└─ → supports  b.md  Beta",
        ]

    async def test_a_cycle_ends_and_each_note_is_expanded_once(self, tmp_path):
        async with vault(tmp_path, {"a": note("b"), "b": note("c"), "c": note("a")}) as corpus:
            text = tree_text(await tree_of(corpus, "a.md", direction="out", max_hops=None))
        assert text.splitlines() == [
            "a.md  a", "└─ → related  b.md  b", "   └─ → related  c.md  c", "      └─ → related  a.md  a (seen)",
        ]  # fmt: skip

    async def test_what_was_left_out_is_reported_in_place_and_at_the_end(self, tmp_path):
        notes = {"a": note("b", "c", "d"), "b": note("e"), **{name: note() for name in "cde"}}
        async with vault(tmp_path, notes) as corpus:
            cut = tree_text(await tree_of(corpus, "a.md", max_nodes=2))
            near = tree_text(await tree_of(corpus, "a.md", max_hops=1))
            late = tree_text(await tree_of(corpus, "a.md", timeout=0))
        assert cut.splitlines() == ["a.md  a", "├─ → related  b.md  b", "└─ … 2 more", "left out: max_nodes 2"]
        assert near.splitlines()[-1] == "left out: max_hops 1"
        assert late == "left out: timeout unknown"

    def test_counts_that_are_lower_bounds_or_unknown_are_marked(self):
        tree = WalkTree(["a"], "both", 1, [NodeView("a")], [], [], left_out={"max_nodes": 1, "max_hops": 3},
                        at_least=["max_nodes"], unknown=["max_edges"])  # fmt: skip
        assert tree_text(tree) == "a\nleft out: max_edges unknown, max_hops 3, max_nodes at least 1"

    async def test_several_roots_have_a_tree_each(self, tmp_path):
        async with vault(tmp_path, {"a": note("c"), "b": note("c"), "c": note()}) as corpus:
            text = tree_text(await tree_of(corpus, "b.md", "a.md"))
        assert text.splitlines() == [
            "b.md  b", "└─ → related  c.md  c", "a.md  a", "└─ → related  c.md  c (seen)",
        ]  # fmt: skip

    async def test_ids_of_several_corpora_contain_the_name_of_the_corpus(self, tmp_path):
        graph = Graph(2, ((0, 1, "cites", "typed"),))
        async with vault(tmp_path, {"a": note()}) as one, corpus_of(graph) as two:
            text = tree_text(await tree_of(FederatedCorpus([one, two]), ("graph", "n0")))
        assert text == "graph/n0  Node n0\n└─ → cites  graph/n1  Node n1"

    def test_with_any_ids_titles_and_types_each_artifact_has_one_line(self):
        bad = "a\r\nb\tc\x00\x1b[2J\x85\u2028\u202e\ud800"
        nodes = [NodeView(bad, bad), NodeView(("s\n", bad), bad)]
        link = TreeLink(bad, ("s\n", bad), 1, bad, Edge(bad, ("s\n", bad), bad))
        text = tree_text(WalkTree([bad], "out", 1, nodes, [link.edge], [link]))
        said = r"a\r\nb\tc\u0000\u001b[2J\u0085\u2028\u202e\ud800"
        assert text == f"{said}  {said}\n└─ → {said}  s\\n/{said}  {said}"

    async def test_a_deep_chain_needs_no_recursion(self):
        depth = 1_500
        nodes = [NodeView(f"n{at}") for at in range(depth)]
        steps = [
            TreeLink(f"n{at}", f"n{at + 1}", at + 1, "x", Edge(f"n{at}", f"n{at + 1}", "x")) for at in range(depth - 1)
        ]
        lines = tree_text(WalkTree(["n0"], "out", None, nodes, [step.edge for step in steps], steps)).splitlines()
        assert len(lines) == depth
        assert lines[-1].endswith(f" └─ → x  n{depth - 1}")


def render_lines(tree):
    """Yield the lines of the layout by recursion, from the tree alone."""
    nodes = {node.id: node for node in tree.nodes}
    place = {edge: at for at, edge in enumerate(tree.edges)}
    seen = {link.edge for link in tree.references}

    def below(id, indent):
        found = sorted(
            (link for link in (*tree.spanning_tree, *tree.references) if link.source == id),
            key=lambda link: place[link.edge],
        )
        rows = [*found, *([None] if id in tree.unlisted else [])]
        for at, link in enumerate(rows):
            is_last = at == len(rows) - 1
            branch = indent + ("└─ " if is_last else "├─ ")
            if link is None:
                yield f"{branch}… {tree.unlisted[id]} more"
                continue
            node = nodes[link.target]
            said = f"{branch}{'←' if link.edge.target == id else '→'} {link.type}  {node.id}"
            said += f"  {node.title}" if node.title else ""
            yield f"{said} (seen)" if link.edge in seen else said
            if link.edge not in seen:
                yield from below(link.target, indent + ("   " if is_last else "│  "))

    for root in tree.roots:
        yield f"{root}  {nodes[root].title}" if nodes[root].title else root
        yield from below(root, "")


class Due:
    """The events after which a line can no longer change or get another before it.

    The line of an artifact is final when the artifact is committed and the step that found it is done. The end of
    the lines below an artifact is final when the step of the artifact is done. The line about what was left out is
    final at the end of the walk. A line is due when it and all lines before it are final.
    """

    def __init__(self, steps):
        self.events = [event for event, _ in steps]
        self.end = len(steps) - 1
        self.committed = {event.id: at for at, event in enumerate(self.events) if isinstance(event, NodeCommitted)}
        self.found, met = {}, set()
        for event in self.events:
            if isinstance(event, EdgeFound) and event.edge not in met:
                met.add(event.edge)
                self.found.setdefault(event.source, []).append(event)
        self.marks = []

    def of_lines(self):
        for id, at in self.committed.items():
            if self.events[at].parent is None:
                self.note(at)
                self.below(id)
        if self.events[-1].summary.truncated:
            self.note(self.end)
        return [at for at, is_line in self.marks if is_line]

    def note(self, at, *, is_line=True):
        self.marks.append((max(at, self.marks[-1][0] if self.marks else 0), is_line))

    def below(self, id):
        steps_done = (at for at in range(self.committed[id], self.end) if isinstance(self.events[at], StepDone))
        self.note(next(steps_done, self.end), is_line=False)
        cut = False
        for each in self.found.get(id, []):
            if each.target in self.committed:
                self.note(self.committed[each.target])
                if self.is_way(each):
                    self.below(each.target)
            else:
                cut = True
                self.note(self.end, is_line=False)
        if cut:
            self.note(self.end)

    def is_way(self, found):
        reached = self.events[self.committed[found.target]]
        parallel = [each for each in self.found[found.source] if each.target == found.target]
        named = [each for each in parallel if reached.hit and each.type == reached.hit.metadata.get("walk_edge")]
        return reached.parent == found.source and found is (named or parallel)[0]


@pytest.mark.slow
@given(graphs(), st.integers(1, 3), bounds, st.sampled_from(BACKENDS))
@settings(max_examples=examples(100))
def test_streamed_lines_equal_the_whole_text_and_come_as_early_as_possible(graph, roots, given_bounds, backend):
    answer = text_of_graph(graph, roots, backend, **given_bounds)
    expected = list(render_lines(answer.tree))
    rest = [line for line in answer.lines[len(expected) :] if line.startswith("left out: ")]
    assert answer.lines == [*expected, *rest]
    assert len(rest) == answer.tree.truncated
    assert "\n".join(answer.lines) == tree_text(answer.tree)
    assert [at for at, (_, lines) in enumerate(answer.steps) for _ in lines] == Due(answer.steps).of_lines()


async def test_the_root_is_printed_at_the_first_event_and_its_first_child_at_the_second_commit(tmp_path):
    async with vault(tmp_path, {"a": note("b", "c"), "b": note("d"), "c": note(), "d": note()}) as corpus:
        steps = (await text_of_walk(corpus, "a.md", direction="out")).steps
    given_at = [(type(event).__name__, [line.split()[-1] for line in lines]) for event, lines in steps if lines]
    assert given_at == [
        ("NodeCommitted", ["a"]),
        ("NodeCommitted", ["b"]),
        ("NodeCommitted", ["d"]),
        ("StepDone", ["c"]),
    ]
    assert [type(event) for event, _ in steps][-1] is WalkEnded


async def test_a_walk_that_fails_or_is_closed_printed_only_final_lines(tmp_path):
    async with vault(tmp_path, VAULT) as corpus:
        whole = tree_text(await tree_of(corpus, "index.md")).splitlines()
        lines, given_lines = TreeTextWriter(), []
        walk = walk_links(corpus, ["index.md"])
        async for event in walk.events():
            given_lines += lines.add(event)
            if isinstance(event, StepDone) and event.step == 2:
                await walk.aclose()
    assert 1 < len(given_lines) < len(whole)
    assert given_lines == whole[: len(given_lines)]


def test_the_text_of_a_long_chain_grows_with_its_length_only():
    edges = [Edge(f"n{number}", f"n{number + 1}", "x") for number in range(2_000)]
    links = [TreeLink(edge.source, edge.target, hop, "x", edge) for hop, edge in enumerate(edges, 1)]
    nodes = [NodeView(f"n{number}") for number in range(2_001)]
    lines = tree_text(WalkTree(["n0"], "out", None, nodes, edges, links)).splitlines()
    assert max(map(len, lines)) < 330
    assert lines[99:102] == [" " * 294 + "└─ → x  n99", " " * 297 + "└─ → x  n100", "[101] └─ → x  n101"]
    assert lines[102] == "[101]    └─ → x  n102"


def test_lines_of_a_walk_without_edges_are_refused():
    lines = TreeTextWriter()
    lines.add(NodeCommitted("a", 0, 0.0, None, None))
    with pytest.raises(ArgumentError, match="reports no edge"):
        lines.add(EdgeFound("a", "b", None, known=False))


class TestPaths:
    PATH = LinkPath("a", "c", "both", 10, ("a", "b", "c"), (Edge("b", "a", "supports"), Edge("b", "c", "cites")), 1.25)
    NODES = (NodeView("a", "Alpha"), NodeView("b"), NodeView("c", "Two\x1blines"))

    def test_each_step_shows_the_direction_in_which_the_edge_was_walked(self):
        assert path_text(self.PATH, self.NODES).splitlines() == [
            "a  Alpha", "← supported-by  b", r"→ cites  c  Two\u001blines", "2 hops, cost 1.25",
        ]  # fmt: skip
        assert path_text(self.PATH, self.NODES, inverses=None).splitlines()[1] == "← supports  b"

    def test_a_path_to_itself_has_no_hops(self):
        assert path_text(LinkPath("a", "a", "both", 10, ("a",), (), 0.0), self.NODES[:1]) == "a  Alpha\n0 hops"

    def test_a_missing_path_reports_whether_a_limit_may_have_hidden_it(self):
        assert path_text(LinkPath("a", "b\n", "out", 10), ()) == (
            "no path from a to b\\n within 10 hops\nthere is no path of any length"
        )
        assert path_text(LinkPath("a", "b", "out", None), ()).splitlines()[0] == "no path from a to b"
        limited = LinkPath("a", "b", "out", 1, left_out={"max_hops": 3, "max_nodes": 1}, at_least=("max_nodes",))
        assert path_text(limited, ()).splitlines() == [
            "no path from a to b within 1 hop", "left out: max_hops 3, max_nodes at least 1",
        ]  # fmt: skip
        assert path_dict(limited, ())["reason"] == "left out: max_hops 3, max_nodes at least 1"

    def test_a_path_reports_the_limit_that_may_have_hidden_a_shorter_one(self):
        path = LinkPath("a", "a", "both", 10, ("a",), (), 0.0, left_out={"max_fanout": 2})
        assert path_text(path, self.NODES[:1]).splitlines()[-1] == "a shorter one may have been left out: max_fanout 2"
        assert path_dict(path, self.NODES[:1])["truncated"]

    def test_in_json_edges_have_their_stored_direction_and_the_length_is_that_of_the_path(self):
        told_path = path_dict(self.PATH, self.NODES)
        assert (told_path["path_length"], told_path["cost"], told_path["reason"]) == (2, 1.25, None)
        assert told_path["edges"][0] == {"from": "b", "to": "a", "type": "supports", "source": "inline"}
        assert [node["id"] for node in told_path["nodes"]] == ["a", "b", "c"]
