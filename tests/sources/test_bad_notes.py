"""Folders of notes that are wrong in every known way: each fault is told with file and line, the rest is indexed."""

import time
from urllib.parse import quote

import pytest

from airw import build
from airw.sources import from_notes
from airw.stores import MemoryStore
from tests.support.reading import write


async def built(root, files=None):
    """Build a corpus of a folder, with one good note in it, and read what became of each link."""
    write(root, {"good.md": "# Good\n\n[next](next.md)", "next.md": "# Next", **(files or {})})
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light")
    edges = await edges_of(corpus)
    assert ("good.md", "next.md") in edges
    return corpus, edges - {("good.md", "next.md")}


async def edges_of(corpus):
    ids = await corpus.store.artifact_ids()
    return {(edge.source, edge.target) for found in await corpus.store.neighbors(ids) for edge in found}


async def unresolved(corpus):
    """Give where each link is that is no edge, what it names, and the notes it may mean."""
    found = await corpus.store.unresolved_links()
    return [(each.link.file, each.link.line, each.link.target_ref, each.candidates) for each in found]


def told(corpus):
    assert not any(problem.lost for problem in corpus.report.problems)
    return [(problem.item, problem.reason) for problem in corpus.report.problems]


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("title: [a", "not valid YAML"),
        ("title: a: b", "not valid YAML"),
        ("a: &a [x]\nb: *a", "YAML alias *a"),
        ("a: &a [*a]", "YAML alias *a"),
        ("a: " + "[" * 10_000, "nests deeper"),
    ],
)
async def test_broken_frontmatter_is_told_with_its_line_and_costs_the_fields_alone(tmp_path, yaml, words):
    corpus, edges = await built(tmp_path, {"bad.md": f"---\nid: x\n{yaml}\n---\n\n[n](next.md)"})
    assert edges == {("bad.md", "next.md")}
    assert {item for item, _ in told(corpus)} == {"bad.md"}
    assert all("(line " in reason for _, reason in told(corpus))
    assert words in told(corpus)[0][1]


async def test_links_of_a_note_to_itself_are_told_and_are_no_edges(tmp_path):
    links = [
        "[a](self.md)",
        "[[self]]",
        "[[Self Same]]",
        "[b](../sub/self)",
        "[c](self.md#part)",
        "[d](#part)",
        "[n](../next.md)",
    ]
    corpus, edges = await built(
        tmp_path, {"sub/self.md": "---\nlinks: [self]\ntitle: Self Same\n---\n" + "\n".join(links)}
    )
    assert edges == {("sub/self.md", "next.md")}
    assert told(corpus) == [
        ("sub/self.md", f"the link {written!r} refers to its own note ({where})")
        for written, where in [
            ("self", "lines 2, 6"),
            ("self.md", "line 5"),
            ("Self Same", "line 7"),
            ("../sub/self", "line 8"),
        ]
    ]
    assert await unresolved(corpus) == []


async def test_aliases_that_are_each_others_titles_are_told_and_links_by_them_are_ambiguous(tmp_path):
    notes = {
        "a.md": "---\ntitle: Alpha\naliases: [Beta]\n---\n[[Beta]]",
        "b.md": "---\ntitle: Beta\naliases:\n- Alpha\n---\n[[alpha]] [[a]]",
    }
    corpus, edges = await built(tmp_path, notes)
    assert edges == {("b.md", "a.md")}
    assert told(corpus) == [
        ("b.md", "title: 'a.md' also has the name 'Beta', so links to it are ambiguous (line 2)"),
        ("b.md", "aliases: 'a.md' also has the name 'Alpha', so links to it are ambiguous (line 3)"),
        ("a.md", "the link 'Beta' refers to its own note (line 5)"),
        ("b.md", "the link 'alpha' refers to its own note (line 6)"),
    ]
    both = ("a.md", "b.md")
    assert await unresolved(corpus) == [("a.md", 5, "beta", both), ("b.md", 6, "alpha", both)]


async def test_an_id_that_two_notes_bear_is_told_and_links_by_it_are_ambiguous(tmp_path):
    corpus, edges = await built(
        tmp_path,
        {
            "one.md": "---\nid: same\n---\n",
            "two.md": "---\ntitle: Two\nid: same\n---\n",
            "user.md": "---\nlinks:\n- {type: needs, id: same}\n---\n\n[[same]] [[Two]] [[two|same]]",
        },
    )
    assert edges == {("user.md", "two.md")}
    assert told(corpus) == [("two.md", "id: 'one.md' also has the name 'same', so links to it are ambiguous (line 3)")]
    both = ("one.md", "two.md")
    assert await unresolved(corpus) == [("user.md", 3, "same", both), ("user.md", 6, "same", both)]


@pytest.mark.slow
async def test_a_note_of_a_hundred_thousand_links_is_built_in_seconds(tmp_path):
    text = " ".join(f"[t](n{number}.md)" for number in range(100_000))
    began = time.perf_counter()
    corpus, edges = await built(tmp_path, {"many.md": f"{text}\n[[next]]", "n7.md": "seven"})
    assert time.perf_counter() - began < 60
    assert edges == {("many.md", "n7.md"), ("many.md", "next.md")}
    assert len(await corpus.store.unresolved_links(["many.md"])) == 99_999
    assert told(corpus) == []


@pytest.mark.slow
async def test_nesting_however_deep_costs_neither_time_nor_what_follows(tmp_path):
    deep = {
        "quotes.md": "\n".join("> " * depth + f"[t](q{depth}.md)" for depth in range(500)),
        "lists.md": "\n".join("  " * depth + f"- [t](q{depth}.md)" for depth in range(500)),
        "line.md": "> - " * 10_000,
        "brackets.md": "[" * 10_000,
        "yaml.md": "---\nlinks: " + "{a: " * 1_000 + "x" + "}" * 1_000 + "\n---\n",
    }
    began = time.perf_counter()
    corpus, edges = await built(tmp_path, {name: f"{text}\n\n[n](next.md)" for name, text in deep.items()})
    assert time.perf_counter() - began < 60
    assert edges == {(name, "next.md") for name in deep}
    assert {item for item, reason in told(corpus) if "(line " in reason} == deep.keys()
    assert len(await corpus.store.unresolved_links(["quotes.md", "lists.md"])) == 1_000


async def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(tmp_path):
    text = "---\nid: N\nlinks:\n- good\n---\n# Title\n\n[n](next.md)\n[[Nowhere]]\n[r]\n\n[r]: gone.md\n"
    marked = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    for root, content in [(tmp_path / "plain", text), (tmp_path / "marked", marked)]:
        corpus, edges = await built(root, {"note.md": content, "user.md": "[[N]] [[title]]"})
        assert edges == {("note.md", "good.md"), ("note.md", "next.md"), ("user.md", "note.md")}
        assert await unresolved(corpus) == [("note.md", 9, "nowhere", ()), ("note.md", 10, "gone.md", ())]
        assert told(corpus) == []


async def test_names_in_any_script_and_composition_meet(tmp_path):
    composed, apart = "caf\u00e9", "cafe\u0301"
    files = {
        f"{composed}.md": "# one",
        f"ordner/{apart}.md": "# two",
        "日本語/ノート.md": "# 三",
        "a.md": f"[t]({apart}.md) [u](ordner/{composed}.md) [v]({quote('日本語/ノート')}.md)",
        "b.md": f"[t](caf%C3%A9.md) [[ordner/{composed}]] [[ノート]]",
        "c.md": f"[t](ordner/{composed}) [u](日本語/ノート) [v](<ordner/{apart}.md>) [[{apart.upper()}]]",
    }
    corpus, edges = await built(tmp_path, files)
    targets = {f"{composed}.md", f"ordner/{apart}.md", "日本語/ノート.md"}
    assert edges == {(source, target) for source in ("a.md", "b.md", "c.md") for target in targets}
    assert (await unresolved(corpus), told(corpus)) == ([], [])


async def test_links_between_files_that_loop_or_lead_out_are_not_followed_but_told(tmp_path):
    root = tmp_path / "notes"
    write(tmp_path, {"secret.md": "# Secret", "other/far.md": "# Far"})
    write(root, {"sub/near.md": "[up](../good.md)"})
    (root / "a.md").symlink_to(root / "b.md")
    (root / "b.md").symlink_to(root / "a.md")
    (root / "leak.md").symlink_to(tmp_path / "secret.md")
    (root / "sub/loop").symlink_to(root)
    (root / "way-out").symlink_to(tmp_path / "other")
    corpus, edges = await skipping(root)
    assert edges == {("good.md", "next.md"), ("sub/near.md", "good.md")}
    lost = {problem.item: problem.lost for problem in corpus.report.problems}
    assert lost == {"a.md": True, "b.md": True, "leak.md": True, "sub/loop": False, "way-out": False}
    assert await corpus.store.artifact_ids() == ["good.md", "next.md", "sub/near.md"]


async def skipping(root):
    write(root, {"good.md": "# Good\n\n[next](next.md)", "next.md": "# Next"})
    corpus = await build(from_notes(root), store=MemoryStore(), embedder="light", on_error="skip")
    return corpus, await edges_of(corpus)


async def test_links_that_climb_out_of_the_root_are_told_and_never_followed(tmp_path):
    write(tmp_path, {"secret.md": "# Secret"})
    ways = ["../secret.md", "/../secret.md", "sub/../../secret.md", "%2e%2e/secret.md", "..%2Fsecret.md"]
    text = (
        "---\nlinks: [../secret.md]\n---\n" + "\n".join(f"[t]({way})" for way in ways) + "\n[[../secret]]\n[n](next.md)"
    )
    corpus, edges = await built(tmp_path / "notes", {"out.md": text})
    assert edges == {("out.md", "next.md")}
    lines = ["line 2", "lines 4, 7, 8", "line 5", "line 6", "line 9"]
    assert [reason.rpartition("(")[2].rstrip(")") for _, reason in told(corpus)] == lines
    assert all("leads out of the root" in reason for _, reason in told(corpus))
    assert await unresolved(corpus) == []


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
        (["a.md"], "[t](A.md)", None),
        (["a.md"], "[t](A)", None),
        (["page.md"], "[t](page.html)", None),
        (["deep/sub/x.md"], "[t](sub/x.md)", None),
        (["deep/sub/x.md"], "[t](sub/x)", None),
        (["deep/sub/x.md"], "[[sub/X]]", "deep/sub/x.md"),
        (["deep/x.md"], "[[./x]]", None),
        (["sub/index.md", "sub/_index.md"], "[t](sub/)", None),
        (["deep/x.md", "far/x.md"], "[[x]]", None),
        (["x.md", "far/x.md"], "[[x]]", "x.md"),
        (["x.md", "target.md"], "[[x|Target]]", "x.md"),
        (["target.md"], "[[label|Target]]", "target.md"),
    ],
)
async def test_a_link_means_the_one_note_in_that_place_or_of_that_name_or_none(tmp_path, files, links, expected):
    corpus, edges = await built(tmp_path, {**dict.fromkeys(files, "text"), "user.md": links})
    assert edges == ({("user.md", expected)} if expected else set())
    assert [place[:2] for place in await unresolved(corpus)] == ([] if expected else [("user.md", 1)])
