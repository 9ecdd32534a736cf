"""Faulty notes: each fault is reported with file and line, and the rest is indexed."""

import time
from urllib.parse import quote

import pytest

from airw import build
from airw.errors import SourceError
from airw.links import CorpusGraph
from airw.protocols import ArtifactIds, Edges, RecordsOf, UnresolvedLinks, ask
from airw.sources import from_notes
from airw.stores import MemoryStore
from tests.support.reading import write


async def build_notes(root, files=None):
    """Build a corpus of a folder with one good note; return it and the other edges."""
    write(root, {"good.md": "# Good\n\n[next](next.md)", "next.md": "# Next", **(files or {})})
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light")
    edges = await edges_of(corpus)
    assert ("good.md", "next.md") in edges
    return corpus, edges - {("good.md", "next.md")}


async def edges_of(corpus):
    ids = await ask(corpus.store, ArtifactIds())
    return {(edge.source, edge.target) for edges in await ask(corpus.store, Edges(ids)) for edge in edges}


async def list_unresolved(corpus):
    """Return file, line, reference and candidate notes of each unresolved link."""
    links = await ask(corpus.store, UnresolvedLinks())
    return [
        (unresolved.link.file, unresolved.link.line, unresolved.link.target_ref, unresolved.candidates)
        for unresolved in links
    ]


def list_problems(corpus):
    assert not any(problem.lost for problem in corpus.report.problems)
    return [(problem.item, problem.reason) for problem in corpus.report.problems]


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("title: [a", "not valid YAML"),
        ("title: a: b", "not valid YAML"),
        ("a: &a [x]\nb: *a", "YAML alias *a"),
        ("a: &a [*a]", "YAML alias *a"),
        ("a: " + "[" * 100 + "]" * 100, "nests deeper than 50 levels"),
        ("a: " + "[" * 10_000, "the frontmatter "),  # the YAML library may refuse it first
        ("a: 0x" + "f" * 10_000, "a number or date of more than 100 characters"),
        ("a: " + "9" * 10_000, "a number or date of more than 100 characters"),
        ("a: !!int " + "9" * 10_000, "a number or date of more than 100 characters"),
        ("a: [1.5, 1." + "0" * 10_000 + "]", "a number or date of more than 100 characters"),
        ("a: 2026-01-01 00:00:00." + "0" * 10_000, "a number or date of more than 100 characters"),
    ],
)
async def test_broken_frontmatter_is_reported_with_its_line_and_only_its_fields_are_lost(tmp_path, yaml, words):
    corpus, edges = await build_notes(tmp_path, {"bad.md": f"---\nid: x\n{yaml}\n---\n\n[n](next.md)"})
    assert edges == {("bad.md", "next.md")}
    assert {item for item, _ in list_problems(corpus)} == {"bad.md"}
    assert all("(line " in reason for _, reason in list_problems(corpus))
    assert words in list_problems(corpus)[0][1]


@pytest.mark.slow
async def test_frontmatter_of_half_a_megabyte_costs_its_fields_alone(tmp_path):
    aliases = "a," * 300_000
    corpus, edges = await build_notes(tmp_path, {"n.md": f"---\naliases: [{aliases}]\n---\n[n](next.md)"})
    reason = "the frontmatter has 600011 characters, more than 500000"
    assert (edges, list_problems(corpus)[0]) == ({("n.md", "next.md")}, ("n.md", reason))


async def test_short_numbers_and_dates_of_every_form_are_read(tmp_path):
    yaml = "hex: 0xff\nbig: " + "9" * 90 + "\nratio: 1.5e+3\nday: 2026-11-22\ntext: '" + "9" * 500 + "'"
    corpus, _ = await build_notes(tmp_path, {"n.md": f"---\n{yaml}\n---\n# N"})
    [[record, *_]] = await ask(corpus.store, RecordsOf(["n.md"]))
    expected = {"hex": 255, "big": int("9" * 90), "ratio": 1500.0, "day": "2026-11-22", "text": "9" * 500}
    assert expected.items() <= record.metadata.items()
    assert list_problems(corpus) == []


async def test_a_note_above_two_megabytes_is_a_problem_that_names_it_and_the_option(tmp_path):
    write(tmp_path, {"good.md": "# Good", "large.md": "x" * 2_000_001, "allowed.md": "x" * 1_000})
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light", on_error="skip") as corpus:
        assert await ask(corpus.store, ArtifactIds()) == ["allowed.md", "good.md"]
        [problem] = corpus.report.problems
    assert (problem.item, problem.reason) == (
        "large.md",
        "cannot be read: has 2000001 bytes, more than max_bytes=2000000",
    )
    with pytest.raises(SourceError, match=r"'large\.md'.*more than max_bytes=2000000"):
        await build(from_notes(tmp_path), store=MemoryStore(), embedder="light")


async def test_links_of_a_note_to_itself_are_reported_and_are_no_edges(tmp_path):
    links = [
        "[a](self.md)",
        "[[self]]",
        "[[Self Same]]",
        "[b](../sub/self)",
        "[c](self.md#part)",
        "[d](#part)",
        "[n](../next.md)",
    ]
    corpus, edges = await build_notes(
        tmp_path, {"sub/self.md": "---\nlinks: [self]\ntitle: Self Same\n---\n" + "\n".join(links)}
    )
    assert edges == {("sub/self.md", "next.md")}
    assert list_problems(corpus) == [
        ("sub/self.md", f"the link {written!r} refers to its own note ({where})")
        for written, where in [
            ("self", "line 2"),
            ("self.md", "line 5"),
            ("[[self]]", "line 6"),
            ("[[Self Same]]", "line 7"),
            ("../sub/self", "line 8"),
        ]
    ]
    assert await list_unresolved(corpus) == []


async def test_aliases_that_equal_titles_of_other_notes_are_reported_and_their_links_are_ambiguous(tmp_path):
    notes = {
        "a.md": "---\ntitle: Alpha\naliases: [Beta]\n---\n[[Beta]]",
        "b.md": "---\ntitle: Beta\naliases:\n- Alpha\n---\n[[alpha]] [[a]]",
    }
    corpus, edges = await build_notes(tmp_path, notes)
    assert edges == {("b.md", "a.md")}
    assert list_problems(corpus) == [
        ("b.md", "title: 'a.md' also has the name 'Beta', so links to it are ambiguous (line 2)"),
        ("b.md", "aliases: 'a.md' also has the name 'Alpha', so links to it are ambiguous (line 3)"),
        ("a.md", "the link '[[Beta]]' refers to its own note (line 5)"),
        ("b.md", "the link '[[alpha]]' refers to its own note (line 6)"),
    ]
    both = ("a.md", "b.md")
    assert await list_unresolved(corpus) == [("a.md", 5, "beta", both), ("b.md", 6, "alpha", both)]


async def test_an_id_of_two_notes_is_reported_and_links_by_it_are_ambiguous(tmp_path):
    corpus, edges = await build_notes(
        tmp_path,
        {
            "one.md": "---\nid: same\n---\n",
            "two.md": "---\ntitle: Two\nid: same\n---\n",
            "user.md": "---\nlinks:\n- {type: needs, id: same}\n---\n\n[[same]] [[Two]] [[two|same]]",
        },
    )
    assert edges == {("user.md", "two.md")}
    assert list_problems(corpus) == [
        ("two.md", "id: 'one.md' also has the name 'same', so links to it are ambiguous (line 3)")
    ]
    both = ("one.md", "two.md")
    assert await list_unresolved(corpus) == [("user.md", 3, "same", both), ("user.md", 6, "same", both)]


@pytest.mark.slow
async def test_a_note_of_a_hundred_thousand_links_is_built_in_seconds(tmp_path):
    text = " ".join(f"[t](n{number}.md)" for number in range(100_000))
    began = time.perf_counter()
    corpus, edges = await build_notes(tmp_path, {"many.md": f"{text}\n[[next]]", "n7.md": "seven"})
    assert time.perf_counter() - began < 60
    assert edges == {("many.md", "n7.md"), ("many.md", "next.md")}
    assert len(await ask(corpus.store, UnresolvedLinks(["many.md"]))) == 99_999
    assert list_problems(corpus) == []


@pytest.mark.slow
async def test_deep_nesting_costs_no_time_and_the_text_after_it_is_read(tmp_path):
    deep = {
        "quotes.md": "\n".join("> " * depth + f"[t](q{depth}.md)" for depth in range(500)),
        "lists.md": "\n".join("  " * depth + f"- [t](q{depth}.md)" for depth in range(500)),
        "line.md": "> - " * 10_000,
        "brackets.md": "[" * 10_000,
        "yaml.md": "---\nlinks: " + "{a: " * 1_000 + "x" + "}" * 1_000 + "\n---\n",
    }
    began = time.perf_counter()
    corpus, edges = await build_notes(tmp_path, {name: f"{text}\n\n[n](next.md)" for name, text in deep.items()})
    assert time.perf_counter() - began < 60
    assert edges == {(name, "next.md") for name in deep}
    assert {item for item, reason in list_problems(corpus) if "(line " in reason} == deep.keys()
    assert len(await ask(corpus.store, UnresolvedLinks(["quotes.md", "lists.md"]))) == 1_000


async def test_line_ends_of_windows_and_a_byte_order_mark_have_no_effect(tmp_path):
    text = "---\nid: N\nlinks:\n- good\n---\n# Title\n\n[n](next.md)\n[[Nowhere]]\n[r]\n\n[r]: gone.md\n"
    marked = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    for root, content in [(tmp_path / "plain", text), (tmp_path / "marked", marked)]:
        corpus, edges = await build_notes(root, {"note.md": content, "user.md": "[[N]] [[title]]"})
        assert edges == {("note.md", "good.md"), ("note.md", "next.md"), ("user.md", "note.md")}
        assert await list_unresolved(corpus) == [("note.md", 9, "nowhere", ()), ("note.md", 10, "gone.md", ())]
        assert list_problems(corpus) == []


async def test_names_match_in_any_script_and_unicode_composition(tmp_path):
    composed, apart = "caf\u00e9", "cafe\u0301"
    files = {
        f"{composed}.md": "# one",
        f"ordner/{apart}.md": "# two",
        "日本語/ノート.md": "# 三",
        "a.md": f"[t]({apart}.md) [u](ordner/{composed}.md) [v]({quote('日本語/ノート')}.md)",
        "b.md": f"[t](caf%C3%A9.md) [[ordner/{composed}]] [[ノート]]",
        "c.md": f"[t](ordner/{composed}) [u](日本語/ノート) [v](<ordner/{apart}.md>) [[{apart.upper()}]]",
    }
    corpus, edges = await build_notes(tmp_path, files)
    targets = {f"{composed}.md", f"ordner/{apart}.md", "日本語/ノート.md"}
    assert edges == {(source, target) for source in ("a.md", "b.md", "c.md") for target in targets}
    assert (await list_unresolved(corpus), list_problems(corpus)) == ([], [])


async def test_symbolic_links_that_loop_or_lead_out_are_reported_and_not_followed(tmp_path):
    root = tmp_path / "notes"
    write(tmp_path, {"secret.md": "# Secret", "other/far.md": "# Far"})
    write(root, {"sub/near.md": "[up](../good.md)"})
    (root / "a.md").symlink_to(root / "b.md")
    (root / "b.md").symlink_to(root / "a.md")
    (root / "leak.md").symlink_to(tmp_path / "secret.md")
    (root / "sub/loop").symlink_to(root)
    (root / "way-out").symlink_to(tmp_path / "other")
    corpus, edges = await build_skipping(root)
    assert edges == {("good.md", "next.md"), ("sub/near.md", "good.md")}
    lost = {problem.item: problem.lost for problem in corpus.report.problems}
    assert lost == {"a.md": True, "b.md": True, "leak.md": True, "sub/loop": False, "way-out": False}
    assert await ask(corpus.store, ArtifactIds()) == ["good.md", "next.md", "sub/near.md"]


async def build_skipping(root):
    write(root, {"good.md": "# Good\n\n[next](next.md)", "next.md": "# Next"})
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light", on_error="skip")
    return corpus, await edges_of(corpus)


async def test_links_out_of_the_root_are_listed_and_never_followed(tmp_path):
    write(tmp_path, {"secret.md": "# Secret"})
    ways = ["../secret.md", "/../secret.md", "sub/../../secret.md", "%2e%2e/secret.md", "..%2Fsecret.md"]
    text = (
        "---\nlinks: [../secret.md]\n---\n" + "\n".join(f"[t]({way})" for way in ways) + "\n[[../secret]]\n[n](next.md)"
    )
    corpus, edges = await build_notes(tmp_path / "notes", {"out.md": text})
    assert edges == {("out.md", "next.md")}
    assert list_problems(corpus) == []
    unresolved = await CorpusGraph(corpus).unresolved_links()
    # The same link on several lines is one link.
    assert [(each.link.line, each.link.target_ref, each.state) for each in unresolved] == [
        (2, "../secret.md", "outside"),
        (4, "../secret.md", "outside"),
        (9, "../secret", "outside"),
    ]


@pytest.mark.parametrize(
    ("files", "links", "expected"),
    [
        (["sub/index.md"], "[t](sub/)", "sub/index.md"),
        (["sub/_index.md"], "[t](/sub/#x)", "sub/_index.md"),
        (["sub/README.md"], "[t](sub)", "sub/README.md"),
        (["sub/README.md", "sub/index.md"], "[t](./sub/)", "sub/index.md"),
        (["sub.md", "sub/index.md"], "[t](sub)", "sub.md"),
        (["sub.md", "sub/index.md"], "[t](sub/)", "sub/index.md"),
        (["sub.md"], "[t](sub/)", "sub.md"),
        (["index.md"], "[t](/)", "index.md"),
        (["page.mdx.md"], "[t](page.mdx.md)", "page.mdx.md"),
        (["A.md", "a.md"], "[t](A)", "A.md"),
        (["a.md"], "[t](A.md)", "a.md"),
        (["a.md"], "[t](A)", "a.md"),
        (["page.md"], "[t](page.html)", "page.md"),
        (["deep/sub/x.md"], "[t](sub/x.md)", None),
        (["deep/sub/x.md"], "[t](sub/x)", None),
        (["deep/sub/x.md"], "[[sub/X]]", "deep/sub/x.md"),
        (["deep/x.md"], "[[./x]]", None),
        (["sub/index.md", "sub/_index.md"], "[t](sub/)", None),
        (["deep/x.md", "far/x.md"], "[[x]]", None),
        (["x.md", "far/x.md"], "[[x]]", "x.md"),
        (["x.md", "target.md"], "[[x|Target]]", "x.md"),
        (["target.md"], "[[label|Target.md]]", "target.md"),
    ],
)
async def test_a_link_leads_to_the_only_note_with_that_path_or_name(tmp_path, files, links, expected):
    corpus, edges = await build_notes(tmp_path, {**dict.fromkeys(files, "text"), "user.md": links})
    assert edges == ({("user.md", expected)} if expected else set())
    assert [place[:2] for place in await list_unresolved(corpus)] == ([] if expected else [("user.md", 1)])
