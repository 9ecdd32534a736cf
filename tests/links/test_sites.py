"""What a build finds out of all notes together: a root, an order, and files."""

import tarfile
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from airw import build
from airw.indexing import WholeText, with_synopsis
from airw.links import CorpusGraph, MarkdownLinks, TitleMentions
from airw.protocols import ArtifactIds, Change, Config, ask
from airw.sources import from_notes
from airw.stores import MemoryStore
from tests.support.archives import unpack
from tests.support.drawing import examples
from tests.support.reading import write


def open_notes(folder, store=None, **options):
    source = from_notes(folder, name="n", embedder="light", **options)
    return build(source, store=MemoryStore() if store is None else store, on_error="skip")


async def edges_of(corpus):
    ids = await ask(corpus.store, ArtifactIds())
    return {(edge.source, edge.target) for edges in await CorpusGraph(corpus).neighbors(ids) for edge in edges}


async def states_of(corpus):
    return [(each.link.target_ref, each.state) for each in await CorpusGraph(corpus).unresolved_links()]


@pytest.mark.parametrize(
    ("files", "edges"),
    [
        ({"site/a.md": "[b](/x/b)", "site/x/b.md": ""}, {("site/a.md", "site/x/b.md")}),
        (
            {"a.md": "[b](x/b.md) [c](/c/)", "docs/x/b.md": "", "docs/c/index.md": ""},
            {("a.md", "docs/x/b.md"), ("a.md", "docs/c/index.md")},
        ),
        ({"a.md": '<a href="/x/b.html#t">b</a>', "book/x/b.md": ""}, {("a.md", "book/x/b.md")}),
        # The root of the tree comes first, and of equal folders the highest.
        ({"a.md": "[b](/b.md)", "b.md": "", "x/b.md": ""}, {("a.md", "b.md")}),
        ({"y/a.md": "[b](/b)", "x/b.md": "", "y/z/b.md": ""}, {("y/a.md", "x/b.md")}),
        # Most links decide.
        (
            {"a.md": "[b](/b) [c](/c)", "x/b.md": "", "y/b.md": "", "y/c.md": ""},
            {("a.md", "y/b.md"), ("a.md", "y/c.md")},
        ),
        # Templates of site generators tell, code and images do not.
        (
            {"d/a.md": "[b]({{ '/b/' | relative_url }}) [c]({% link c.md %})", "d/b.md": "", "d/c.md": ""},
            {("d/a.md", "d/b.md"), ("d/a.md", "d/c.md")},
        ),
        (
            {
                "d/a.md": "[b](/b)\n\n```\n[x](/k) [x](/l)\n```\n![](/k) `[](/l)`",
                "d/b.md": "",
                "o/k.md": "",
                "o/l.md": "",
            },
            {("d/a.md", "d/b.md")},
        ),
        # Of equal folders, the one where the links are written.
        ({"c/en/a.md": "[b](/p/b/)", "c/en/p/b.md": "", "c/de/p/b.md": ""}, {("c/en/a.md", "c/en/p/b.md")}),
        # Slugs are published below the root, and permalinks are met by relative links, too.
        (
            {"c/p/a.md": "[b](/p/my-b/) [c](/p/c)", "c/p/b.md": "---\nslug: my-b\n---\n", "c/p/c.md": ""},
            {("c/p/a.md", "c/p/b.md"), ("c/p/a.md", "c/p/c.md")},
        ),
        (
            {
                "g/a.md": "[b](../team/) [c](c.html)",
                "b.md": "---\npermalink: /team/\n---\n",
                "x.md": "---\npermalink: /g/c.html\n---\n",
            },
            {("g/a.md", "b.md"), ("g/a.md", "x.md")},
        ),
        # The tree may be the folder that a site publishes as `/docs`.
        (
            {"a.md": "[b](/docs/b) [c](/docs/x/c/) [d](/docs/d.md)", "b.md": "", "x/c.md": "", "d.md": ""},
            {("a.md", "b.md"), ("a.md", "x/c.md"), ("a.md", "d.md")},
        ),
        ({"a.md": "[b](/docs/b) [c](/gone/c)", "b.md": "", "c.md": ""}, set()),
        # Pages of wikis of GitHub, bundles of Hugo, and posts of Jekyll with categories.
        ({"Home.md": "[[Getting Started]]", "Getting-Started.md": ""}, {("Home.md", "Getting-Started.md")}),
        ({"c/a.md": '[b]({{< ref "b" >}})', "c/p/b/index.md": ""}, {("c/a.md", "c/p/b/index.md")}),
        (
            {"a.md": "[b](/news/py/2024/05/01/b.html)", "_posts/2024-05-01-b.md": "---\ncategories: News py\n---\n"},
            {("a.md", "_posts/2024-05-01-b.md")},
        ),
        # Journals of Logseq by their days, and card indexes by their numbers.
        (
            {"pages/a.md": "- [[Jan 2nd, 2024]] [[2024-01-02]]", "journals/2024_01_02.md": "- [[A]]"},
            {("pages/a.md", "journals/2024_01_02.md"), ("journals/2024_01_02.md", "pages/a.md")},
        ),
        (
            {"202401011230 New.md": "[[202401011231 Old title]]", "202401011231.md": "[[202401011230]]"},
            {("202401011230 New.md", "202401011231.md"), ("202401011231.md", "202401011230 New.md")},
        ),
        # Docusaurus leaves out the prefixes by which files and folders are sorted.
        (
            {
                "docs/01-b/02-p.md": "[o](other) [r](/docs/c/ren) [s](/docs/b/sl)",
                "docs/01-b/03-other.md": "",
                "docs/02-c/r.md": "---\nid: ren\n---\n",
                "docs/01-b/04-s.md": "---\nslug: sl\n---\n",
            },
            {("docs/01-b/02-p.md", f"docs/{end}.md") for end in ("01-b/03-other", "02-c/r", "01-b/04-s")},
        ),
        # A link from the note, or from the root of the tree, needs no root of a site.
        ({"a.md": "[b](b) [c](/c)", "b.md": "", "x/b.md": "", "x/c.md": ""}, {("a.md", "b.md"), ("a.md", "x/c.md")}),
    ],
)
async def test_links_from_a_root_lead_below_the_folder_under_which_most_of_them_do(files, edges, tmp_path):
    async with open_notes(write(tmp_path, files)) as corpus:
        assert await edges_of(corpus) == edges


async def test_a_root_that_is_given_is_not_looked_for(tmp_path):
    files = {"a.md": "[b](/b) [c](/c)", "x/b.md": "", "y/b.md": "", "y/c.md": ""}
    async with open_notes(write(tmp_path, files), edge_extractor=MarkdownLinks(root="./x/")) as corpus:
        assert await edges_of(corpus) == {("a.md", "x/b.md")}


@pytest.mark.parametrize("extractor", [MarkdownLinks(), TitleMentions(min_chars=100)])
async def test_a_later_build_keeps_the_root_while_it_fits_and_finds_another_one_when_it_does_not(extractor, tmp_path):
    if isinstance(extractor, TitleMentions):
        pytest.importorskip("ahocorasick_rs")
    store = MemoryStore()
    open_again = partial(open_notes, tmp_path, store, edge_extractor=extractor)
    write(tmp_path, {"a.md": "[b](/b)", "x/b.md": "b", "y/c.md": "c"})
    async with open_again() as corpus:
        assert (corpus.report.added, corpus.report.updated, await edges_of(corpus)) == (3, 0, {("a.md", "x/b.md")})
    async with open_again() as corpus:
        assert (corpus.report.unchanged, corpus.report.updated) == (3, 0)
    write(tmp_path, {"y/c.md": "[c](/c) [d](/d)", "y/d.md": "d"})
    async with open_again() as corpus:
        assert (corpus.report.added, corpus.report.updated) == (1, 3)
        assert await edges_of(corpus) == {("y/c.md", "y/d.md")}
    async with open_again() as corpus:
        assert corpus.report.unchanged == 4


async def test_artifacts_upserted_between_builds_use_the_root_of_the_last_build(tmp_path):
    write(tmp_path, {"a.md": "[b](/b)", "x/b.md": "b"})
    async with open_notes(tmp_path) as corpus:
        await corpus.upsert({"c.md": "[b](/b)"})
        assert ("c.md", "x/b.md") in await edges_of(corpus)


async def test_a_strategy_that_asks_a_model_is_asked_once_for_each_note(tmp_path):
    asked = []

    async def sum_up(artifact):
        asked.append(artifact.id)
        return "a summary"

    strategy = with_synopsis(WholeText(), synthesize=sum_up, synthesizer_id="s")
    write(tmp_path, {"a.md": "[b](/b)", "x/b.md": "b"})
    async with open_notes(tmp_path, strategy=strategy) as corpus:
        assert await edges_of(corpus) == {("a.md", "x/b.md")}
    assert sorted(asked) == ["a.md", "x/b.md"]


@pytest.mark.parametrize(
    ("files", "edges"),
    [
        # Obsidian's order: the target stands first.
        ({"a.md": "[[b|c]]", "b.md": "", "c.md": ""}, {("a.md", "b.md")}),
        # Dendron's order, which an address elsewhere shows.
        (
            {"a.md": "[[b|c]] [[label|d.e]]", "b.md": "", "c.md": "", "d.e.md": ""},
            {("a.md", "c.md"), ("a.md", "d.e.md")},
        ),
        # Names of notes show it, too, if they are more than one chance.
        (
            {"a.md": "[[Start here|b]] [[More|c]] [[Last|d]]", "b.md": "", "c.md": "", "d.md": ""},
            {("a.md", "b.md"), ("a.md", "c.md"), ("a.md", "d.md")},
        ),
        # An address wins over the order.
        (
            {"a.md": "[[d.e|c]]", "x.md": "[[b|d.e]] [[c|d.e]]", "b.md": "", "c.md": "", "d.e.md": ""},
            {("a.md", "d.e.md"), ("x.md", "d.e.md")},
        ),
    ],
)
async def test_of_a_wiki_link_with_two_sides_the_address_counts_else_the_order_of_the_corpus(files, edges, tmp_path):
    async with open_notes(write(tmp_path, files)) as corpus:
        assert await edges_of(corpus) == edges


async def test_a_link_to_a_file_or_a_folder_has_a_state_of_its_own_until_that_is_gone(tmp_path):
    store = MemoryStore()
    text = "[r](../) [l](LICENSE) [s](src/) [c](/src/run.py) ![[Table.base]] [g](gone.py) [o](../up.md)"
    text += " [p](src/page.html)"
    write(
        tmp_path,
        {"doc/a.md": text, "doc/LICENSE": "", "src/run.py": "", "deep/table.base": "", "doc/src/page.html": ""},
    )
    async with open_notes(tmp_path, store) as corpus:
        assert await states_of(corpus) == [
            ("./", "file"),
            ("./doc/LICENSE", "file"),
            ("./doc/src/", "file"),
            ("/src/run.py", "file"),
            ("table.base", "file"),
            ("./doc/gone.py", "dangling"),
            ("up.md", "dangling"),
            ("./doc/src/page", "file"),
        ]
        counts = {count.state: count.count for count in await CorpusGraph(corpus).link_counts()}
        assert counts == {"file": 6, "dangling": 2}
    (tmp_path / "src/run.py").unlink()
    write(tmp_path, {"doc/gone.py": ""})
    async with open_notes(tmp_path, store) as corpus:
        states = dict(await states_of(corpus))
        assert (states["/src/run.py"], states["./doc/gone.py"]) == ("dangling", "file")


async def test_a_name_of_a_folder_anywhere_is_no_dangling_link(tmp_path):
    write(tmp_path, {"a.md": "[[Projects/]] [[Nothing/]]", "x/Projects/b.md": ""})
    async with open_notes(tmp_path) as corpus:
        assert sorted(await states_of(corpus)) == [("nothing/", "dangling"), ("projects/", "file")]


async def test_broken_frontmatter_is_reported_once_in_each_build(tmp_path):
    store = MemoryStore()
    write(tmp_path, {"a.md": "---\nx: [[b]], [[b]]\n---\n", "b.md": ""})
    for _ in range(2):
        async with open_notes(tmp_path, store) as corpus:
            assert [problem.item for problem in corpus.report.problems] == ["a.md"]


async def test_a_name_of_a_file_outside_the_folder_tells_nothing(tmp_path):
    write(
        tmp_path,
        {
            "secret.txt": "",
            "notes/a.md": "[[x/../../secret.txt]] [[secret.txt]] [s](%2e%2e/secret.txt)",
            "notes/x/b.md": "",
        },
    )
    async with open_notes(tmp_path / "notes") as corpus:
        assert [state for _, state in await states_of(corpus)] == ["dangling", "dangling", "outside"]


@pytest.mark.parametrize("files", [3, ["a"], {"n": 3}, {"n": [3, ["x"]]}, {3: ["gone"]}])
async def test_settings_of_a_stranger_about_files_do_no_harm(files, tmp_path):
    write(tmp_path, {"a.md": "[g](gone)"})
    async with open_notes(tmp_path) as corpus:
        await corpus.store.apply(Change(config={**await ask(corpus.store, Config()), "files": files}))
        assert await states_of(corpus) == [("./gone", "dangling")]


LINKS = ["[t](/b)", "[t](b.md)", "[[b]]", "[t](../b.md)", "[[x|b]]", "[[a.b|x]]", "[t](run.py)", "[t](../../up.md)"]
LINKS += ["[t]({{ url }})", "[[A]]", '<a href="/x/b/">b</a>', "[t](<a b.md>)", "---\nup: '[[b]]'\nid: b\n---\n"]
PLACES = st.sampled_from(
    ["a.md", "b.md", "x/a.md", "x/b.md", "x/index.md", "y/b.mdx", "y/a.b.md", "a b.md", "B.md", "run.py"]
)
STEPS = st.one_of(
    st.tuples(st.just("write"), PLACES, st.lists(st.sampled_from(LINKS), max_size=3).map(" ".join)),
    st.tuples(st.just("move"), PLACES, PLACES),
    st.tuples(st.just("delete"), PLACES, st.none()),
)


def apply_step(folder, kind, place, other):
    path = folder / place
    if kind == "write":
        write(folder, {place: other})
    elif path.exists():
        if kind == "move":
            write(folder, {other: path.read_text("utf-8")})
        if other != place:
            path.unlink()


async def read_all(corpus):
    """Return all that a build says of the links of notes."""
    return (
        await edges_of(corpus),
        await CorpusGraph(corpus).unresolved_links(),
        await CorpusGraph(corpus).link_counts(),
        sorted((problem.item, problem.reason) for problem in corpus.report.problems),
    )


@pytest.mark.slow
@given(st.lists(st.lists(STEPS, max_size=4), max_size=4))
@settings(max_examples=examples(25))
async def test_after_any_edits_and_moves_a_build_says_what_a_fresh_build_does(tmp_path_factory, rounds):
    folder, store = tmp_path_factory.mktemp("notes"), MemoryStore()
    write(folder, {"start.md": "[[b]]"})
    for steps in [[], *rounds]:
        for step in steps:
            apply_step(folder, *step)
        async with open_notes(folder, store) as corpus, open_notes(folder) as fresh:
            assert await read_all(corpus) == await read_all(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["md-jekyll", "md-rustbook", "md-uv"])
async def test_after_many_edits_of_a_public_tree_a_build_says_what_a_fresh_build_does(data, name, tmp_path):
    random, store = Random(name), MemoryStore()
    with tarfile.open(data / name / f"{name}.tar.gz") as archive:
        unpack(archive, tmp_path)
    folder = tmp_path / name
    for _ in range(3):
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in random.sample(paths, 12):
            other = random.choice(paths)
            match random.choice(["edit", "rename", "move", "delete"]):
                case "edit":
                    links = f"[t](/{other.relative_to(folder)}) [u]({other.name}) [[{other.stem}|{path.stem}]]"
                    path.write_text(f"{path.read_text('utf-8')}\n{links}\n", "utf-8")
                case "rename":
                    path.rename(path.with_name(f"new-{path.name}"))
                case "move":
                    path.rename(other.parent / f"{random.random()}-{path.name}")
                case "delete":
                    path.unlink()
        async with open_notes(folder, store) as corpus, open_notes(folder) as fresh:
            assert await read_all(corpus) == await read_all(fresh)
