"""What extractors promise: which links a note holds, where, and by which names others reach it."""

import gzip
import tarfile
import time
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airw.errors import ArgumentError, SourceError
from airw.links import MarkdownLinks, extractor_from
from airw.protocols import EdgeExtractor
from airw.values import Artifact, Link


def extracted(text, *, id="folder/note.md", **settings):
    return MarkdownLinks(**settings).extract(Artifact(id, text), {})


def refs(text, **settings):
    return [link.target_ref for link in extracted(text, **settings).links]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[t](a.md)", ["folder/a.md"]),
        ("[t](./a.md#part)", ["folder/a.md"]),
        ("[t](../a.md?v=1)", ["a.md"]),
        ("[t](/deep/./a.md)", ["deep/a.md"]),
        ("[t](x/../y//a.md 'title')", ["folder/y/a.md"]),
        ("[t](caf%C3%A9%20bar.md)", ["folder/café bar.md"]),
        ("[t](<a b.md>)", ["folder/a b.md"]),
        ("[t](a)", ["folder/a"]),
        ("[t](A.md)", ["folder/A.md"]),
        ("[t](a_(b).md)", ["folder/a_(b).md"]),
        ("[t][r]\n\n[r]: a.md", ["folder/a.md"]),
        ("[r]\n\n[r]: a.md", ["folder/a.md"]),
        ("[unused]: a.md 'title'", ["folder/a.md"]),
        ("# [t](a.md)\n\n> - **[u](b.md)**", ["folder/a.md", "folder/b.md"]),
        ("| [t](a.md) | [u](b.md) |\n|---|---|", ["folder/a.md", "folder/b.md"]),
        ("[![alt](i.png)](a.md)", ["folder/a.md"]),
        ("[t](a.md) [u](a.md#x) [[a]]", ["folder/a.md", "a"]),
    ],
)
def test_markdown_links_resolve_against_the_notes_own_folder(text, found):
    assert refs(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[Some Note]]", ["some note"]),
        ("[[deep/Note.md|label]]", ["deep/note"]),
        ("[[Note#Heading|label]] ![[Embed]]", ["note"]),
        ("| [[Note\\|label]] |", ["note"]),
        ("[[CAFE\u0301]]", ["café"]),
        ("[[Dune: Part One]]", ["dune: part one"]),
        ("[[a]][[b]]", ["a", "b"]),
        ("[[1]](a.md)", ["folder/a.md"]),
        ("[see [[a]] here](b.md)", ["a"]),
    ],
)
def test_wiki_links_name_notes_without_regard_to_case(text, found):
    assert refs(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "[t](https://example.org/a.md) <https://example.org>",
        "[t](mailto:me@example.org) [t](//example.org/a.md)",
        "[t](#part) [t](?q) [t]() [t](.) [t](sub/) [t](..) [[#part]] [[ ]] [[https://example.org]]",
        "![t](a.png) ![t][r]\n\n[r]: b.png",
        "`[t](a.md)` `[[a]]`",
        "```\n[t](a.md) [[a]]\n```\n\n    [t](a.md)",
        "<!-- [t](a.md) [[a]] -->\n\ntext <!-- [t](a.md) --> text",
        "<div>\n[t](a.md)\n</div>",
        r"\[t](a.md) \[[a]]",
        "[t](note.md) [t](../folder/note) [t](./note.md#x)",
        "![alt [t](a.md)](i.png)",
    ],
)
def test_what_is_no_link_to_another_note_is_left_alone(text):
    extraction = extracted(text)
    assert (extraction.links, extraction.problems) == ([], [])


def test_a_link_out_of_the_root_is_reported_with_its_line():
    extraction = extracted("one\n\n[t](../../a.md) [u](../ok.md)")
    assert [link.target_ref for link in extraction.links] == ["ok.md"]
    assert extraction.problems == ["the link '../../a.md' leads out of the root (line 3)"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_links_carry_file_and_line_of_the_whole_file_and_come_in_that_order(newline):
    text = newline.join(
        [
            "---",
            "title: T",
            "requires:",
            "- 12",
            "- 2",
            "---",
            "",
            "a [t](a.md)",
            "b [[b]] and",
            "c [c][r]",
            "",
            "> d",
            "> [d](d.md)",
            "",
            "[r]: c.md",
            "[e]: e.md",
        ]
    )
    links = extracted(text).links
    assert {link.file for link in links} == {"folder/note.md"}
    assert [(link.line, link.target_ref) for link in links] == [
        (4, "12"),
        (5, "2"),
        (8, "folder/a.md"),
        (9, "b"),
        (10, "folder/c.md"),
        (13, "folder/d.md"),
        (16, "folder/e.md"),
    ]


@pytest.mark.parametrize(
    ("yaml", "found"),
    [
        ("requires: 165", [("165", "requires")]),
        ("requires: 165, 721", [("165", "requires"), ("721", "requires")]),
        ("requires: [165, eip-721]", [("165", "requires"), ("eip-721", "requires")]),
        ("links: [a, 'b, c']", [("a", "related"), ("b, c", "related")]),
        ("links: [{type: supports, id: a}, {id: b}]", [("a", "supports"), ("b", "related")]),
        ("links: {type: supports, id: a}", [("a", "supports")]),
        ("links: '[[Some Note|x]]'", [("some note", "related")]),
        ("links: [../a.md, /b.md, c/d.md]", [("a.md", "related"), ("b.md", "related"), ("c/d.md", "related")]),
        ("links: ['https://example.org', folder/note]", []),
        ("requires:\nlinks: []\nother: a", []),
    ],
)
def test_typed_links_are_read_from_the_frontmatter(yaml, found):
    extraction = extracted(f"---\n{yaml}\n---\nbody")
    assert [(link.target_ref, link.type) for link in extraction.links] == found
    assert {link.origin for link in extraction.links} <= {"typed"}
    assert not extraction.problems


@pytest.mark.parametrize("entry", ["[[a]]", "{type: supports}", "{id: a, type: 3}", "true", "[null]"])
def test_a_typed_entry_that_cannot_be_understood_is_reported(entry):
    extraction = extracted(f"---\nlinks: {entry}\n---\n")
    assert extraction.links == []
    assert [problem.split(":")[0] for problem in extraction.problems] == ["links"]


def test_broken_frontmatter_costs_the_typed_links_alone_and_says_so():
    extraction = extracted("---\nlinks: [a\n---\n[t](b.md)")
    assert [link.target_ref for link in extraction.links] == ["folder/b.md"]
    assert len(extraction.problems) == 1
    assert "not valid YAML" in extraction.problems[0]


def test_fields_that_the_text_does_not_declare_come_from_the_filter_fields():
    extraction = MarkdownLinks().extract(Artifact("1", {"text": "[[x]]"}), {"links": ["2"], "title": "T", "id": 1})
    assert [(link.target_ref, link.origin, link.line) for link in extraction.links] == [
        ("2", "typed", None),
        ("x", "inline", 1),
    ]
    assert extraction.names[3] == ["T", "t"]


def test_the_names_of_a_note_come_in_four_tiers():
    text = "---\nid: Ab1\neip: 165\ntitle: The Title\naliases: [Other, 7]\n---\n"
    assert extracted(text, id="EIPS/eip-165.md").names == [
        ["EIPS/eip-165.md"],
        ["EIPS/eip-165", "eips/eip-165"],
        ["eip-165", "Ab1", "ab1", "165"],
        ["The Title", "the title", "Other", "other", "7"],
    ]
    assert extracted("# A heading", id="x.md").names[3] == ["A heading", "a heading"]


def test_settings_choose_fields_and_type_and_make_the_id():
    settings = {"fields": ["see"], "inline_type": "mentions"}
    links = extracted("---\nsee: a\nlinks: b\n---\n[[c]]", **settings).links
    assert [(link.target_ref, link.type) for link in links] == [("a", "see"), ("c", "mentions")]
    assert (
        MarkdownLinks(**settings).id == "MarkdownLinks(fields=('see',), inline_type='mentions')" != MarkdownLinks().id
    )
    assert isinstance(MarkdownLinks(), EdgeExtractor)


@pytest.mark.parametrize("settings", [{"fields": "links"}, {"fields": ("",)}, {"inline_type": ""}, {"inline_type": 3}])
def test_settings_that_cannot_work_are_refused_at_birth(settings):
    with pytest.raises(ArgumentError, match=r"fields|inline_type"):
        MarkdownLinks(**settings)


@pytest.mark.parametrize("raw", [b"bytes", ["list"], {"title": "no text"}])
def test_a_raw_value_without_text_is_an_error_that_names_the_artifact(raw):
    with pytest.raises(SourceError, match="'odd'"):
        MarkdownLinks().extract(Artifact("odd", raw), {})


@given(st.text(st.sampled_from("[]()<>!`\\|#:-/. \n\rab&"), max_size=80))
def test_any_text_gives_links_that_stay_in_the_root_and_in_the_file(text):
    for link in extracted(text, id="n.md").links:
        assert link.target_ref
        assert 1 <= link.line <= len(text.splitlines()) + 1


@pytest.mark.parametrize(
    "hostile",
    [
        "[" * 300_000,
        "![x" * 100_000,
        "[[" * 100_000,
        "a <!-- " * 50_000,
        "<a " * 90_000,
        "[a](" * 50_000,
        "> " * 50_000,
        "- " * 50_000,
    ],
)
def test_a_hostile_paragraph_costs_its_own_links_at_most_and_no_time(hostile):
    began = time.perf_counter()
    extraction = extracted(f"[t](before.md)\n\n[x](x.md) {hostile}\n\n[t](after.md)")
    assert time.perf_counter() - began < 5
    found = [link.target_ref for link in extraction.links]
    assert (found[0], found[-1]) == ("folder/before.md", "folder/after.md")


def test_a_paragraph_of_many_links_is_read_line_by_line():
    text = "\n".join(f"[t]({number}.md)" for number in range(3_000))
    links = extracted(text).links
    assert [(link.target_ref, link.line) for link in links[::2_999]] == [("folder/0.md", 1), ("folder/2999.md", 3_000)]


@pytest.mark.parametrize(
    ("yaml", "reason"),
    [
        ("a: &a [x]\nb: [*a, *a]", "alias"),
        ("a: &a [*a]", "alias"),
        ("a: " + "[" * 60_000, "deeper"),
        ("a: " + "[" * 100 + "]" * 100, "deeper"),
        ("a: 2021-13-45", "month"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("a: !!int x", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: " + "9" * 5_000, "not valid YAML"),
        ("? [a]\n: b", "not valid YAML"),
        ("a: \x01", "not valid YAML"),
    ],
)
def test_frontmatter_that_could_hang_or_crash_a_build_is_a_problem(yaml, reason):
    problems = extracted(f"---\n{yaml}\n---\n").problems
    assert reason in problems[0]
    assert not any("\n" in problem for problem in problems)


def test_a_functions_edges_become_derived_links():
    answer = {"REF": ["numpy", ("pypi", "anyio"), ["pypi", "anyio"], "numpy"], "PARENT": ("up",)}
    extractor = extractor_from(lambda key, fields: answer if (key, fields) == ("app", {"x": 1}) else {}, id="deps-1")
    assert extractor.extract(Artifact("app", None), {"x": 1}).links == [
        Link("numpy", "REF", "derived"),
        Link("anyio", "REF", "derived", target_source="pypi"),
        Link("up", "PARENT", "derived"),
    ]
    assert (extractor.id, isinstance(extractor, EdgeExtractor)) == ("deps-1", True)


def test_a_package_answers_to_any_spelling_of_its_name():
    names = extractor_from(lambda key, fields: {}, id="x").extract(Artifact("Zope.Interface", ""), {}).names
    assert names == [["Zope.Interface"], ["zope.interface", "zope-interface", "zope_interface"]]


@pytest.mark.parametrize(
    "answer", [None, ["x"], {"REF": "numpy"}, {"REF": [3]}, {"REF": [("a", "b", "c")]}, {"REF": [""]}, {3: ["a"]}]
)
def test_an_answer_that_is_no_edges_is_an_error_that_names_the_extractor(answer):
    with pytest.raises(SourceError, match="deps-1"):
        extractor_from(lambda key, fields: answer, id="deps-1").extract(Artifact("a", ""), {})


@pytest.mark.parametrize(("function", "id"), [("no function", "x"), (dict, ""), (dict, None)])
def test_an_extractor_needs_a_function_and_an_id(function, id):
    with pytest.raises(ArgumentError, match=r"function|id"):
        extractor_from(function, id=id)


def tree(data, tmp_path, name):
    """Unpack one markdown set and give its notes, and the edges that an independent resolver found."""
    with tarfile.open(data / name / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / name
    notes = [
        Artifact(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in sorted(root.rglob("*.md"))
    ]
    with gzip.open(data / name / "edges.tsv.gz", "rt", encoding="utf-8") as lines:
        return notes, {tuple(line.rstrip("\n").split("\t")) for line in list(lines)[1:]}


def resolved(notes, origin):
    """Resolve every link by the tiers of names, as a store does."""
    found = [(note.id, MarkdownLinks().extract(note, {})) for note in notes]
    tiers = [defaultdict(set) for _ in range(4)]
    for id, extraction in found:
        for tier, names in zip(tiers, extraction.names, strict=True):
            for name in names:
                tier[name].add(id)
    edges = set()
    for id, extraction in found:
        for link in extraction.links:
            holders = next((tier[link.target_ref] for tier in tiers if link.target_ref in tier), ())
            if link.origin == origin and len(holders) == 1 and id not in holders:
                edges.add((id, *holders))
    return edges


@pytest.mark.parametrize("name", ["md-eips", "md-notes"])
def test_path_links_agree_with_an_independent_extraction(data, tmp_path, name):
    notes, expected = tree(data, tmp_path, name)
    edges = resolved(notes, "inline")
    assert len(edges & expected) / len(edges) >= 0.98
    assert len(edges & expected) / len(expected) >= 0.98


def test_numbers_in_requires_resolve_to_the_notes_that_bear_them(data, tmp_path):
    notes, _ = tree(data, tmp_path, "md-eips")
    edges = resolved(notes, "typed")
    assert ("EIPS/eip-1559.md", "EIPS/eip-2718.md") in edges
    assert len(edges) > 700
