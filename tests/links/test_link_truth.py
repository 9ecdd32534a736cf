"""The links of three collections of notes agree with those of an independent resolver.

Each difference has one of a few reasons, which is checked in the text of the note.
"""

import gzip
import re
import tarfile
from collections import Counter, defaultdict
from functools import cache

import pytest

from airw import build
from airw.links import MarkdownLinks
from airw.sources import from_notes
from airw.stores import MemoryStore
from airw.values import Artifact

NOTHING = (9, frozenset())
FOLLOWS_LABEL = "the other resolver follows its label"
COLLECTIONS = ["md-dendron", "md-eips", "md-notes"]


@pytest.fixture(scope="module")
def trees(data, tmp_path_factory):
    """Return the folder, texts, extractions and edges of the other resolver of a collection."""
    return cache(lambda name: read_collection(data / name, tmp_path_factory.mktemp("notes")))


def read_collection(source, folder):
    with tarfile.open(source / f"{source.name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / source.name
    paths = sorted(root.rglob("*.md"))
    with gzip.open(source / "edges.tsv.gz", "rt", encoding="utf-8") as lines:
        edges = {tuple(line.rstrip("\n").split("\t")) for line in list(lines)[1:]}
    notes = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
    return root, notes, {id: MarkdownLinks().extract(Artifact(id, text), {}) for id, text in notes.items()}, edges


def resolve_links(extractions, origin="inline"):
    """Resolve every link by the tiers of names.

    Return the link and the tier of each edge.
    """
    tiers = [defaultdict(set) for _ in range(4)]
    for id, extraction in extractions.items():
        for tier, names in zip(tiers, extraction.names, strict=True):
            for name in names:
                tier[name].add(id)
    edges = {}
    for id, extraction in extractions.items():
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
    """Return the reason why only the other resolver finds an edge."""
    stem = target.rpartition("/")[2].removesuffix(".md")
    shown = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    if stem not in shown:
        return "it is in a comment"
    if re.search(rf"\[\[{re.escape(stem)}\|", shown, re.IGNORECASE):
        return FOLLOWS_LABEL
    if re.search(rf"\|\s*{re.escape(stem)}\]\]", shown):
        return "only its second side is the plain name of a note"
    return None


def why_extra(text, link, tier):
    """Return the reason why the other resolver does not find a link."""
    lines = text.splitlines()
    if tier == 3:
        return "it names a title or an alias"
    if re.search(r"\.md(?:#[^\]]*)?\]\]", lines[link.line - 1]):
        return "it is a wiki link that ends with .md"
    if re.search(rf"\[\[[^\]|]+\|[^\]]*{re.escape(link.target_ref)}", lines[link.line - 1], re.IGNORECASE):
        return FOLLOWS_LABEL
    if sum(line.count("```") for line in lines[: link.line - 1]) % 2:
        return "three backticks before it are taken for code that goes on"
    return None


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        pytest.param(
            "md-dendron",
            {
                "it is in a comment": 9,
                "it names a title or an alias": 3,
                "it is a wiki link that ends with .md": 4,
                "only its second side is the plain name of a note": 3,
                FOLLOWS_LABEL: 57,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param("md-eips", {}, marks=pytest.mark.slow),
        (
            "md-notes",
            {"it names a title or an alias": 2, "three backticks before it are taken for code that goes on": 2},
        ),
    ],
)
def test_links_agree_with_an_independent_extraction_except_for_known_reasons(trees, name, reasons):
    _, notes, extractions, expected = trees(name)
    edges = resolve_links(extractions)
    common = edges.keys() & expected
    assert len(common) / len(edges) >= 0.98
    assert len(common) / len(expected) >= 0.98
    reasons_of_edges = {(id, target): why_missed(notes[id], target) for id, target in expected - edges.keys()}
    reasons_of_edges |= {edge: why_extra(notes[edge[0]], *edges[edge]) for edge in edges.keys() - expected}
    assert [edge for edge, reason in reasons_of_edges.items() if reason is None] == []
    assert Counter(reasons_of_edges.values()) == reasons


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTIONS)
async def test_a_built_corpus_contains_exactly_these_edges_and_the_line_of_each_unresolved_link(trees, name):
    root, notes, extractions, _ = trees(name)
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light")
    found = {(edge.source, edge.target) for edges in await corpus.store.neighbors(list(notes)) for edge in edges}
    assert found == resolve_links(extractions).keys() | resolve_links(extractions, "typed").keys()
    unresolved = await corpus.store.unresolved_links()
    assert all(notes[each.source] and each.link.file == each.source and each.link.line for each in unresolved)
    assert not {(each.source, each.link) for each in unresolved} & {
        (id, link) for (id, _), (link, _) in resolve_links(extractions).items()
    }


@pytest.mark.slow
def test_numbers_in_requires_resolve_to_the_notes_with_these_numbers(trees):
    edges = resolve_links(trees("md-eips")[2], "typed")
    assert ("EIPS/eip-1559.md", "EIPS/eip-2718.md") in edges
    assert len(edges) > 700
