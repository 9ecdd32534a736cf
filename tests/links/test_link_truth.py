"""The links of three collections of notes, beside those that a simple resolver of another hand found in them.

Wherever the two differ the reason is one of a few, and each difference is looked up in the note.
"""

import gzip
import re
import tarfile
from collections import Counter, defaultdict

import pytest

from airw import build
from airw.links import MarkdownLinks
from airw.sources import from_notes
from airw.stores import MemoryStore
from airw.values import Artifact

NOTHING = (9, frozenset())
COLLECTIONS = ["md-dendron", "md-eips", "md-notes"]


@pytest.fixture(scope="module")
def trees(data, tmp_path_factory):
    """Of each collection its folder, its notes, what they say, and the edges of the other resolver."""
    return {name: unpacked(data / name, tmp_path_factory.mktemp("notes")) for name in COLLECTIONS}


def unpacked(given, folder):
    with tarfile.open(given / f"{given.name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / given.name
    paths = sorted(root.rglob("*.md"))
    with gzip.open(given / "edges.tsv.gz", "rt", encoding="utf-8") as lines:
        edges = {tuple(line.rstrip("\n").split("\t")) for line in list(lines)[1:]}
    notes = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
    return root, notes, {id: MarkdownLinks().extract(Artifact(id, text), {}) for id, text in notes.items()}, edges


def resolved(found, origin="inline"):
    """Resolve every link by the tiers of names; give of each edge the link and the tier that made it."""
    tiers = [defaultdict(set) for _ in range(4)]
    for id, extraction in found.items():
        for tier, names in zip(tiers, extraction.names, strict=True):
            for name in names:
                tier[name].add(id)
    edges = {}
    for id, extraction in found.items():
        for link in extraction.links:
            meant = [meaning(tiers, ref) for ref in (link.target_ref, link.or_ref) if ref is not None]
            tier, holders = min(
                (each for each in meant if len(each[1]) == 1), key=lambda each: each[0], default=NOTHING
            )
            if link.origin == origin and holders - {id}:
                edges.setdefault((id, *holders), (link, tier))
    return edges


def meaning(tiers, ref):
    return next(((number, tier[ref]) for number, tier in enumerate(tiers) if ref in tier), NOTHING)


def why_missed(text, target):
    """Say why the other resolver finds an edge where there is no link."""
    stem = target.rpartition("/")[2].removesuffix(".md")
    if stem not in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        return "it is in a comment"
    return None


def why_extra(text, link, tier):
    """Say why the other resolver does not find a link."""
    lines = text.splitlines()
    if tier == 3:
        return "it names a title or an alias"
    if re.search(r"\.md(?:#[^\]]*)?\]\]", lines[link.line - 1]):
        return "it is a wiki link that ends with .md"
    if sum(line.count("```") for line in lines[: link.line - 1]) % 2:
        return "three backticks before it are taken for code that goes on"
    return None


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        (
            "md-dendron",
            {"it is in a comment": 9, "it names a title or an alias": 6, "it is a wiki link that ends with .md": 4},
        ),
        ("md-eips", {}),
        (
            "md-notes",
            {"it names a title or an alias": 2, "three backticks before it are taken for code that goes on": 2},
        ),
    ],
)
def test_links_agree_with_an_independent_extraction_but_for_reasons_that_are_known(trees, name, reasons):
    _, notes, said, expected = trees[name]
    edges = resolved(said)
    common = edges.keys() & expected
    assert len(common) / len(edges) >= 0.98
    assert len(common) / len(expected) >= 0.98
    told = {(id, target): why_missed(notes[id], target) for id, target in expected - edges.keys()}
    told |= {edge: why_extra(notes[edge[0]], *edges[edge]) for edge in edges.keys() - expected}
    assert [edge for edge, reason in told.items() if reason is None] == []
    assert Counter(told.values()) == reasons


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTIONS)
async def test_a_built_corpus_holds_exactly_these_edges_and_knows_the_line_of_each_other_link(trees, name):
    root, notes, said, _ = trees[name]
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light")
    found = {(edge.source, edge.target) for edges in await corpus.store.neighbors(list(notes)) for edge in edges}
    assert found == resolved(said).keys() | resolved(said, "typed").keys()
    unresolved = await corpus.store.unresolved_links()
    assert all(notes[each.source] and each.link.file == each.source and each.link.line for each in unresolved)
    assert not {(each.source, each.link) for each in unresolved} & {
        (id, link) for (id, _), (link, _) in resolved(said).items()
    }


def test_numbers_in_requires_resolve_to_the_notes_that_bear_them(trees):
    edges = resolved(trees["md-eips"][2], "typed")
    assert ("EIPS/eip-1559.md", "EIPS/eip-2718.md") in edges
    assert len(edges) > 700
