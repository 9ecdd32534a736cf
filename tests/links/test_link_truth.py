"""The links of public trees of notes agree with those of an independent resolver.

Each difference has one of a few reasons, which is checked in the text of the note.
"""

from collections import Counter
from functools import cache

import pytest

from airw import build
from airw.protocols import Edges, UnresolvedLinks, ask
from airw.sources import from_notes
from airw.stores import MemoryStore
from tests.support.note_trees import FOLLOWS_LABEL, explain, read_tree, resolve_links

TREES = ["md-dendron", "md-eips", "md-jekyll", "md-notes", "md-rustbook", "md-uv"]


@pytest.fixture(scope="module")
def trees(data, tmp_path_factory):
    """Return a function that unpacks and reads a tree."""
    return cache(lambda name: read_tree(data / name, tmp_path_factory.mktemp("notes")))


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        pytest.param(
            "md-dendron",
            {"it is in a comment": 9, "it is a wiki link that ends with .md": 4, FOLLOWS_LABEL: 57},
            marks=pytest.mark.slow,
        ),
        pytest.param("md-eips", {}, marks=pytest.mark.slow),
        (
            "md-jekyll",
            {
                "it is a template of a site generator": 94,
                "it is a tag in HTML": 8,
                "it is relative to the published page": 8,
                "it is an address that the note declares, or at which it is published": 5,
            },
        ),
        (
            "md-notes",
            {
                "it is an address that the note declares, or at which it is published": 2,
                "it names a title or an alias": 2,
                "its target contains spaces": 1,
                "three backticks before it are taken for code that goes on": 2,
            },
        ),
        ("md-rustbook", {}),
        ("md-uv", {}),
    ],
)
def test_links_agree_with_an_independent_extraction_except_for_known_reasons(trees, name, reasons):
    tree = trees(name)
    edges, reasons_of_edges = explain(tree)
    assert [edge for edge, reason in reasons_of_edges.items() if reason is None] == []
    assert Counter(reasons_of_edges.values()) == reasons
    assert len(edges.keys() & tree.edges) / len(tree.edges) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
async def test_a_built_corpus_contains_exactly_these_edges_and_the_line_of_each_unresolved_link(trees, name):
    tree = trees(name)
    corpus = await build(from_notes(tree.root), store=MemoryStore(), embedder="light", on_error="skip")
    found = {(edge.source, edge.target) for edges in await ask(corpus.store, Edges(list(tree.notes))) for edge in edges}
    expected = [resolve_links(tree.extractions, origin) for origin in ("inline", "typed")]
    assert found == expected[0].keys() | expected[1].keys()
    unresolved = await ask(corpus.store, UnresolvedLinks())
    assert all(tree.notes[each.source] and each.link.file == each.source and each.link.line for each in unresolved)
    resolved = {(id, link) for edges in expected for (id, _), (link, _) in edges.items()}
    assert not {(each.source, each.link) for each in unresolved} & resolved


@pytest.mark.slow
def test_numbers_in_requires_resolve_to_the_notes_with_these_numbers(trees):
    edges = resolve_links(trees("md-eips").extractions, "typed")
    assert ("EIPS/eip-1559.md", "EIPS/eip-2718.md") in edges
    assert len(edges) > 700
