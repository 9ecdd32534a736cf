"""Reports of projects: which markdown files are reports, and why others are left out."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st
from ir.sources import CorpusSource as IrSource

from airw.corpora import build
from airw.errors import ArgumentError, SourceError
from airw.indexing import Chunked, WholeText
from airw.protocols import Source
from airw.sources import from_files, from_md_reports, from_notes
from airw.stores import MemoryStore
from airw.values import Artifact, ItemProblem
from tests.support.drawing import examples
from tests.support.reading import read, write

REPORTS = {
    "a/walker/docs/plan.md": "walker",
    "a/walker/docs/research/deep/er.md": "walker",
    "a/walker/docs/Readme.md": "walker",
    "a/walker/docs/misc/docs/inner.md": "walker",
    "a/walker/misc/docs/note.md": "walker",
    "a/walker/misc/docs/docs/note.md": "walker",
    "b/build/docs/x.md": "build",
    "b/build/docs/x-Y.md": "build",
    "b/build/docs/ÉTÉ.md": "build",
    "b/pocket/repo/docs/x.md": "repo",
    "b/pocket/repo/misc/docs/sub/x.md": "repo",
    "b/pocket/docs/own.md": "pocket",
    "d/pocket/misc/docs/x.md": "misc",
}
LEFT_OUT = {
    "a/walker/docs/README.md": "all-capitals name",
    "a/walker/docs/adr/CHANGES 2_0.md": "all-capitals name",
    "a/walker/misc/docs/build/out.md": "vendored folder",
    "a/walker/docs/blank.md": " \n\n",
    "a/walker/notes.md": "outside docs",
    "a/walker/src/docs/x.md": "outside docs",
    "a/walker/misc/x.md": "outside docs",
    "a/docs/x.md": "outside docs",
    "docs/x.md": "outside docs",
    "b/pocket/worktree/docs/x.md": "outside docs",
    "b/pocket/plain/docs/x.md": "outside docs",
    "c/repo/nested/docs/x.md": "outside docs",
    "x.md": "outside docs",
}
HIDDEN = {
    "a/walker/.venv/docs/x.md": "a/walker/.venv/",
    "a/walker/docs/.hidden.md": "a/walker/docs/.hidden.md",
    "a/walker/docs/.obsidian/x.md": "a/walker/docs/.obsidian/",
    "a/walker/docs/a/.b/c/x.md": "a/walker/docs/a/.b/",
    "a/walker/docs/node_modules/dep/guide.md": "a/walker/docs/node_modules/",
    "a/walker/node_modules/dep/x.md": "a/walker/node_modules/",
}
UNSEEN = ["a/walker/docs/x.txt", *HIDDEN]


@pytest.fixture
def projects(tmp_path):
    blank = {name: text if not text.strip() else "# Left\n" for name, text in LEFT_OUT.items()}
    write(tmp_path, {name: f"# Of {project}\n\nText." for name, project in REPORTS.items()} | blank)
    write(tmp_path, dict.fromkeys(UNSEEN, "# Unseen\n"))
    for repository in ("b/pocket/repo", "c/repo", "c/repo/nested", "d/pocket/misc"):
        (tmp_path / repository / ".git").mkdir(parents=True)
    write(tmp_path, {"b/pocket/worktree/.git": "gitdir: elsewhere"})
    return tmp_path


def reasons():
    expected = {"hidden or named node_modules": sorted(HIDDEN.values())}
    for name, reason in sorted(LEFT_OUT.items()):
        expected.setdefault(reason.strip() or "blank", []).append(name)
    return expected


async def test_reports_of_projects_and_of_repositories_in_pockets_are_found_in_order_of_path(projects):
    items = await read(from_md_reports(projects_root=projects))
    assert {item.id: item.metadata["project"] for item in items} == REPORTS
    assert [item.id for item in items] == sorted(REPORTS)
    first = next(item for item in items if item.id == "a/walker/docs/plan.md")
    path = str(projects / "a/walker/docs/plan.md")
    metadata = {"project": "walker", "title": "Of walker", "path": path, "filename": "plan.md"}
    assert first == Artifact("a/walker/docs/plan.md", "# Of walker\n\nText.", metadata)


async def test_every_markdown_file_is_a_report_or_left_out_for_a_stated_reason(projects):
    assert from_md_reports(projects_root=projects).excluded() == reasons()


@pytest.mark.parametrize("recursive", [True, False])
async def test_the_reports_are_those_of_ir(projects, recursive):
    (projects / "a/walker/docs/.hidden.md").unlink()  # ir reads hidden files
    theirs = IrSource.from_md_reports(projects_root=projects, recursive=recursive)
    items = await read(from_md_reports(projects_root=projects, recursive=recursive))
    assert {item.id: item.raw for item in items} == {key: raw["text"] for key, raw in theirs.items()}
    for item in items:
        ours = {key: value for key, value in item.metadata.items() if key != "title"}
        assert ours == theirs.metadata_of(item.id, None)


async def test_without_recursion_nested_reports_are_left_out_and_listed(projects):
    source = from_md_reports(projects_root=projects, recursive=False)
    nested = [name for name in sorted(REPORTS) if "sub/" in name or "deep/" in name or "docs/misc/" in name]
    nested = sorted([*nested, "a/walker/misc/docs/docs/note.md"])
    assert source.excluded() == {**reasons(), "nested folder": nested}
    assert [item.id for item in await read(source)] == sorted(REPORTS.keys() - set(nested))


async def test_folders_that_can_contain_no_report_are_not_read(projects, monkeypatch):
    listed, scanned = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(Path(path).name) or scanned(path))
    await read(from_md_reports(projects_root=projects))
    assert {"walker", "research", "deep", "misc", "repo"} <= set(listed)
    assert {"node_modules", "src", ".obsidian", ".venv", "worktree", "nested"}.isdisjoint(listed)


async def test_excluded_reports_are_not_read_but_listed(projects):
    source = from_md_reports(projects_root=projects, exclude=lambda path: path.startswith("b/"))
    assert [item.id for item in await read(source)] == sorted(name for name in REPORTS if not name.startswith("b/"))
    assert source.excluded()["excluded"] == sorted(name for name in REPORTS if name.startswith("b/"))


async def test_links_to_folders_are_not_followed_and_unreadable_reports_are_problems(tmp_path):
    root = write(tmp_path / "root", {"a/p/docs/latin.md": b"caf\xe9", "a/p/docs/ok.md": "ok"})
    write(tmp_path, {"other/docs/x.md": "x", "secret.md": "s"})
    (root / "a/linked").symlink_to(tmp_path / "other")
    (root / "a/p/docs/leak.md").symlink_to(tmp_path / "secret.md")
    (root / "a/p/docs/near.md").symlink_to(root / "a/p/docs/ok.md")
    source = from_md_reports(projects_root=root)
    items = await read(source)
    assert [item.id for item in items if isinstance(item, Artifact)] == ["a/p/docs/near.md", "a/p/docs/ok.md"]
    problems = {item.item: item.reason for item in items if isinstance(item, ItemProblem)}
    assert problems.keys() == {"a/p/docs/latin.md", "a/p/docs/leak.md"}
    with pytest.raises(SourceError, match=r"latin\.md.* is not UTF-8"):
        await build(source, store=MemoryStore(), embedder="light")
    corpus = await build(source, store=MemoryStore(), embedder="light", on_error="skip")
    assert corpus.report.added == 2
    assert {problem.item for problem in corpus.report.problems} == problems.keys()


async def test_the_title_comes_from_the_frontmatter_and_broken_frontmatter_is_only_reported(tmp_path):
    good, bad = "---\ntitle: Given\nproject: theirs\n---\n# Heading\n", "---\na: [\n---\n# Heading\n"
    write(tmp_path, {"a/p/docs/bad.md": bad, "a/p/docs/good.md": good, "a/p/docs/none.md": "text"})
    problem, *items = await read(from_md_reports(projects_root=tmp_path))
    assert (problem.item, problem.lost) == ("a/p/docs/bad.md", False)
    assert [item.metadata["title"] for item in items] == ["Heading", "Given", "none"]
    assert [item.metadata["project"] for item in items] == ["p", "p", "p"]


async def test_the_fields_of_the_frontmatter_are_metadata(tmp_path):
    write(tmp_path, {"a/p/docs/r.md": "---\nstatus: Final\ntags: [x]\npath: theirs\n---\n# R"})
    [report] = await read(from_md_reports(projects_root=tmp_path))
    expected = {"status": "Final", "tags": ["x"], "project": "p", "title": "R", "filename": "r.md", "path": "theirs"}
    assert expected.items() <= report.metadata.items()
    assert report.metadata["airw_path"].endswith("a/p/docs/r.md")


async def test_more_reports_than_a_page_are_all_read(tmp_path):
    names = [f"a/p/docs/{number:03}.md" for number in range(150)]
    write(tmp_path, {name: " " if "07" in name else "x" for name in names})
    items = await read(from_md_reports(projects_root=tmp_path))
    assert [item.id for item in items] == [name for name in names if "07" not in name]


async def test_a_number_is_not_a_name_in_capitals_unlike_in_ir(tmp_path):
    write(tmp_path, {"a/p/docs/0001.md": "x", "a/p/docs/2026 1.md": "x", "a/p/docs/2026 A.md": "x"})
    items = await read(from_md_reports(projects_root=tmp_path))
    assert [item.metadata["filename"] for item in items] == ["0001.md", "2026 1.md"]
    assert list(IrSource.from_md_reports(projects_root=tmp_path).scope) == []


async def test_the_root_comes_from_the_argument_or_the_environment(projects, monkeypatch):
    monkeypatch.delenv("AIRW_PROJECTS", raising=False)
    with pytest.raises(ArgumentError, match=r"projects_root.*AIRW_PROJECTS"):
        from_md_reports()
    monkeypatch.setenv("AIRW_PROJECTS", "")
    with pytest.raises(ArgumentError, match="AIRW_PROJECTS"):
        from_md_reports()
    monkeypatch.setenv("AIRW_PROJECTS", f"~/{projects.name}")
    monkeypatch.setenv("HOME", str(projects.parent))
    assert len(await read(from_md_reports())) == len(REPORTS)
    with pytest.raises(SourceError, match="gone"):
        await read(from_md_reports(projects_root="gone"))


async def test_a_missing_root_or_one_without_reports_is_an_error_on_reading_and_no_empty_corpus(tmp_path):
    write(tmp_path, {"file": "", "empty/x.md": "x", "blank/a/p/docs/x.md": " "})
    for root, words in [("gone", "does not exist"), ("file", "not a folder"), ("empty", "docs"), ("blank", "docs")]:
        source = from_md_reports(projects_root=tmp_path / root)
        with pytest.raises(SourceError, match=words):
            await read(source)
        with pytest.raises(SourceError, match=words):
            await build(source, store=MemoryStore(), embedder="light")


@pytest.mark.parametrize("options", [{"name": "a/b"}, {"recursive": "no"}, {"max_bytes": 0}])
def test_settings_that_cannot_work_are_refused_on_construction(options):
    with pytest.raises(ArgumentError, match="|".join(options)):
        from_md_reports(projects_root=".", **options)


def test_the_defaults_are_as_documented():
    source = from_md_reports(projects_root=".")
    assert isinstance(source, Source)
    assert (source.name, source.indexing_strategy, source.embedder) == ("reports", Chunked(), "default")
    assert from_md_reports(projects_root=".", strategy=WholeText(), name="x").indexing_strategy == WholeText()


async def test_a_folder_that_cannot_be_listed_is_a_problem(projects, monkeypatch):
    scanned = os.scandir

    def refuse(path):
        if str(path).endswith("research"):
            raise PermissionError(13, "Permission denied", str(path))
        return scanned(path)

    monkeypatch.setattr(os, "scandir", refuse)  # as root, a test can list any folder
    problem, *items = await read(from_md_reports(projects_root=projects))
    assert (problem.item, problem.lost) == ("a/walker/docs/research", True)
    assert len(items) == len(REPORTS) - 1


FOLDERS = st.lists(st.sampled_from(["docs", "misc", "r", "build", ".h"]), max_size=4)
NAMES = st.sampled_from(["a.md", "A.md", "B_2 C.md", "a.txt", "A-b.md"])
PATHS = st.tuples(st.sampled_from(["g/p", "g/docs", "h/misc"]), FOLDERS, NAMES)


@settings(max_examples=examples(40))
@given(
    st.sets(PATHS.map(lambda path: "/".join([path[0], *path[1], path[2]])), min_size=1, max_size=12),
    st.sets(st.sampled_from(["g/p", "g/p/r", "g/docs/r", "g/p/misc", "h/misc/r", "h/misc"])),
    st.booleans(),
)
async def test_any_tree_has_the_reports_of_ir_and_all_other_markdown_is_accounted_for(paths, repositories, recursive):
    with TemporaryDirectory() as folder:
        root = write(Path(folder), dict.fromkeys(paths, "x"))
        for repository in repositories:
            (root / repository / ".git").mkdir(parents=True, exist_ok=True)
        theirs = IrSource.from_md_reports(projects_root=root, recursive=recursive)
        source = from_md_reports(projects_root=root, recursive=recursive)
        ours = {item.id: item.metadata["project"] for item in await read(source)} if theirs.scope else {}
        left_out = [path for found in source.excluded().values() for path in found]
        expected = {key: theirs.metadata_of(key, None)["project"] for key in theirs.scope}
    assert ours == {key: project for key, project in expected.items() if not above_docs_is_hidden(key)}
    unseen = {path for path in paths if ".h/" in path or "build/" in path or path.endswith(".txt")}
    assert len(left_out) == len(set(left_out) - ours.keys())
    assert paths - unseen <= ours.keys() | set(left_out)
    assert {path for path in left_out if not path.endswith("/")} <= paths


def above_docs_is_hidden(path):
    return path.split("/")[2].startswith(".")


# Excluded files and notes


@pytest.mark.parametrize("make", [from_files, from_notes])
def test_files_and_notes_list_excluded_files_without_reading_them(make, tmp_path):
    write(tmp_path, {"b.md": "B", "a/x.txt": b"\xff", "a.md": b"\xff", "a/draft.md": "D"})
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    source = make(tmp_path, exclude=lambda path: "draft" in path)
    assert source.excluded() == {"does not match the pattern": ["a/x.txt", "caf\\xe9.txt"], "excluded": ["a/draft.md"]}
    with pytest.raises(SourceError, match="does not exist"):
        make(tmp_path / "gone").excluded()
