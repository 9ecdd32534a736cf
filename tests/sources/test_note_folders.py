"""Folders of notes: what is read, and what is the title of a note."""

import pytest

from airw import build
from airw.corpora import coverage
from airw.errors import SourceError
from airw.links import CorpusGraph
from airw.sources import from_files, from_notes
from airw.stores import MemoryStore
from tests.support.reading import read, write

VAULT = {
    "a.md": "[[Old]] [[Guide]]",
    "sub/Old.md": "live",
    "docs/Guide.md": "ours",
    ".trash/Old.md": "deleted",
    ".obsidian/plugins/x/README.md": "# Plugin",
    "docs/.git/Guide.md": "history",
    "docs/node_modules/p/Guide.md": "of a package",
}
READ = ["a.md", "docs/Guide.md", "sub/Old.md"]


@pytest.mark.parametrize("make", [from_notes, from_files])
async def test_hidden_and_vendored_folders_are_left_out_and_reported(make, tmp_path):
    source = make(write(tmp_path, VAULT), name="vault", embedder="light")
    assert [item.id for item in await read(source)] == READ
    assert source.count() == len(READ)
    async with await build(source, store=MemoryStore()) as corpus:
        report = await coverage(source, corpus=corpus)
    left_out = (".obsidian/", ".trash/", "docs/node_modules/")
    assert report.excluded == {"hidden or named node_modules": left_out}
    assert corpus.report.left_out == {"hidden or named node_modules": 3}


async def test_links_do_not_lead_to_deleted_notes_and_packages(tmp_path):
    source = from_notes(write(tmp_path, VAULT), name="vault", embedder="light")
    async with await build(source, store=MemoryStore()) as corpus:
        [edges] = await CorpusGraph(corpus).neighbors(["a.md"])
        assert [edge.target for edge in edges] == ["docs/Guide.md", "sub/Old.md"]


async def test_a_hidden_folder_is_read_if_it_is_the_root_or_the_pattern_names_it(tmp_path):
    write(tmp_path, VAULT)
    assert [item.id for item in await read(from_notes(tmp_path / ".trash"))] == ["Old.md"]
    named = from_notes(tmp_path, pattern=r"^(\.trash/|docs/).*\.md$")
    assert [item.id for item in await read(named)] == [".trash/Old.md", "docs/Guide.md"]
    assert [item.id for item in await read(from_files(tmp_path, pattern="node_modules/.*md"))] == [
        "docs/node_modules/p/Guide.md"
    ]


async def test_a_vault_with_hidden_notes_only_is_an_error_that_says_so(tmp_path):
    with pytest.raises(SourceError, match="1 left out: hidden or named node_modules; hidden=True reads"):
        await read(from_notes(write(tmp_path, {".trash/a.md": "deleted"})))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("A city.\n\n## Trips\n\nnone yet\n\n## Food\n", "kyoto"),
        ("A city.\n\n# Trips\n", "Trips"),
        ("A city.\n\nTrips\n=====\n\n## To do\n", "Trips"),
        ("A city.\n\n# Trips\n\n# Food\n", "kyoto"),
        ("## Trips\n\nnone yet\n", "kyoto"),
        ("# Kyoto, *Japan* #\n\n# Trips\n", "Kyoto, Japan"),
        ("Kyoto city\n===\n\ntext", "Kyoto city"),
        ("\n<!-- draft -->\n![map](map.png)\n[![build](b.svg)](ci)\n\n# Kyoto city\n", "Kyoto city"),
        ("---\nkind: place\n---\n\n# Kyoto city\n", "Kyoto city"),
        ("---\nkind: [place\n---\n# Kyoto city\n", "Kyoto city"),
        ("---\ntitle: Old capital\n---\n# Kyoto city\n", "Old capital"),
        ("```\n# a comment\n```\n", "kyoto"),
        ("#place\n\ntext", "kyoto"),
        ("", "kyoto"),
    ],
)
async def test_the_title_of_a_note_is_the_heading_that_begins_it_or_is_alone_and_no_section(text, title, tmp_path):
    *_, note = await read(from_notes(write(tmp_path, {"kyoto.md": text})))
    assert note.metadata["title"] == title


async def test_a_section_is_no_target_of_links(tmp_path):
    write(tmp_path, {"kyoto.md": "A city.\n\n## Trips\n", "plan.md": "See [[Trips]] some day."})
    async with await build(from_notes(tmp_path, name="n", embedder="light"), store=MemoryStore()) as corpus:
        graph = CorpusGraph(corpus)
        assert [(each.link.target_ref, each.state) for each in await graph.unresolved_links()] == [
            ("trips", "dangling")
        ]


@pytest.mark.parametrize(
    ("files", "edges"),
    [
        ({"a.md": "[[My Note|setup]]", "n.md": "---\ntitle: My Note\n---\n", "setup.md": "other"}, ["n.md"]),
        ({"a.md": "[[K8s|install]]", "k.md": "---\naliases: [K8s]\n---\n", "install.md": "other"}, ["k.md"]),
        ({"a.md": "[[gone|setup]]", "setup.md": "other"}, []),
        ({"a.md": "---\nlinks: '[[gone|setup]]'\n---\n", "setup.md": "other"}, []),
        (
            {"a.md": "[[Tags|dendron://my.vault/topic.tags]]", "topic.tags.md": "t", "tags.md": "other"},
            ["topic.tags.md"],
        ),
        ({"a.md": "[[Tags|topic.tags#h]]", "topic.tags.md": "t", "tags.md": "other"}, ["topic.tags.md"]),
        ({"a.md": "[[Tags|topic.tags]]", "topic.tags.md": "t"}, ["topic.tags.md"]),
        ({"a.md": "[[tags|topic.tags]]", "tags.md": "t"}, ["tags.md"]),
        ({"a.md": "[[Network|TCP/IP]] [[Node|node.js]]", "network.md": "", "node.md": ""}, ["network.md", "node.md"]),
    ],
)
async def test_the_target_of_a_wiki_link_stands_first_and_a_label_is_no_target(files, edges, tmp_path):
    source = from_notes(write(tmp_path, files), name="n", embedder="light")
    async with await build(source, store=MemoryStore()) as corpus:
        [found] = await CorpusGraph(corpus).neighbors(["a.md"])
    assert [edge.target for edge in found] == edges


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("[b](thoughts/b%20c.md)", ["thoughts/b c.md"]),
        ("[p](posts/p.md#top) [q](posts/q)", ["posts/p.md", "posts/q.md"]),
        ("[i](docs/)", ["docs/index.md"]),
        ("[same](same.md) [same](same)", ["thoughts/same.md"]),
        ("[root](/same.md)", ["same.md"]),
        ("[only here](./posts/p.md) [above](../thoughts/posts/p.md)", []),
        ("[gone](posts/gone.md)", []),
    ],
)
async def test_a_path_begins_at_the_folder_of_the_note_or_else_at_the_root(text, edges, tmp_path):
    others = ["thoughts/b c.md", "posts/p.md", "posts/q.md", "docs/index.md", "same.md", "thoughts/same.md"]
    write(tmp_path, {**dict.fromkeys(others, "text"), "thoughts/a.md": text})
    async with await build(from_notes(tmp_path, name="n", embedder="light"), store=MemoryStore()) as corpus:
        [found] = await CorpusGraph(corpus).neighbors(["thoughts/a.md"])
    assert [edge.target for edge in found] == edges


@pytest.mark.parametrize("suffix", [".md", ".MD", ".mdx", ".MDX", ".markdown", ".Markdown"])
@pytest.mark.parametrize(
    "link", ["[g](docs/guide)", "[g](/docs/guide)", "[g](docs/guide{suffix})", "[[guide]]", "[[Guide]]"]
)
async def test_links_may_leave_out_each_suffix_of_notes(link, suffix, tmp_path):
    write(tmp_path, {"a.md": link.format(suffix=suffix), f"docs/guide{suffix}": "text"})
    async with await build(from_notes(tmp_path, name="n", embedder="light"), store=MemoryStore()) as corpus:
        [found] = await CorpusGraph(corpus).neighbors(["a.md"])
    assert [edge.target for edge in found] == [f"docs/guide{suffix}"]
