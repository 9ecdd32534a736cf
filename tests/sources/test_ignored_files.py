"""What sources of folders read: the suffixes of notes, hidden and ignored files."""

import os

import anyio
import pytest

from airw import build
from airw.corpora import coverage
from airw.errors import ArgumentError, SourceError
from airw.protocols import ArtifactIds, ask
from airw.sources import from_files, from_md_reports, from_notes, from_packages, from_skills
from airw.stores import MemoryStore
from airw.values import Artifact
from tests.support.reading import read, read_both, write

HIDDEN, IGNORED = "hidden or named node_modules", "named in .gitignore"
NAMES = [
    "a.md", "b.log.md", "keep.log.md", "drafts/a.md", "drafts/deep/b.md", "docs/a.md", "docs/drafts/x.md",
    "docs/todo.md", "todo.md", "docs/todo/x.md", "docs/b c.md", "docs/é.md", "build/a.md", "docs/build/a.md",
    "docs/#1.md", "docs/!x.md", "docs/a1.md", "docs/a2.md", "docs/api/v1/x.md", "docs/api/y.md", "out/keep/x.md",
]  # fmt: skip


def ids(items):
    return [item.id for item in items if isinstance(item, Artifact)]


@pytest.mark.parametrize("make", [from_notes, from_files])
async def test_markdown_files_are_notes_under_each_suffix_in_any_case(make, tmp_path):
    names = ["a.md", "b.MD", "c.markdown", "d.Markdown", "e.mdx", "f.MDX"]
    write(tmp_path, dict.fromkeys([*names, "md", "x.mdxx", "x.mdown", "x.md.txt"], "text"))
    source = make(tmp_path)
    assert (ids(await read(source)), source.count()) == (names, len(names))


@pytest.mark.parametrize(
    "rules",
    [
        {".gitignore": "drafts/\n*.log.md\n!keep.log.md\n"},
        {".gitignore": "/todo.md\n/build\n"},
        {".gitignore": "todo*\n# a comment\n\n  \n"},
        {".gitignore": "docs/api/**/x.md\n**/drafts\n"},
        {".gitignore": "docs/*\n!docs/a.md\n!docs/api/\n"},
        {".gitignore": "docs/b\\ c.md\nd\\ocs/\\#1.md\n\\!x.md\ndocs/é.md\n"},
        {".gitignore": "docs/a[12].md\r\nbuild/\r\n"},
        {".gitignore": "out/*\n!out/keep/\n"},
        {".gitignore": "out/\n!out/keep/x.md\n"},
        {".gitignore": "\ufeffa.md\n"},
        {".gitignore": "*\n!*/\n!*.log.md\n!/docs/**\n"},
        {".gitignore": "**\n!**/\n!a.md\n"},
        {".gitignore": "*\n!docs/\n!docs/*.md\n"},
        {".gitignore": "docs/*\n!docs/\n!out/\nout\n"},
        {".gitignore": "*.md\n", "docs/.gitignore": "!a.md\n!/todo.md\n"},
        {"docs/.gitignore": "/a.md\nbuild\napi/y.md\n", "drafts/.gitignore": "*\n!deep\n"},
    ],
)
async def test_rules_are_read_as_git_reads_them(rules, tmp_path):
    write(tmp_path, {**dict.fromkeys(NAMES, "text"), **rules})
    here = {"cwd": tmp_path, "env": {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}}
    await anyio.run_process(["git", "init", "-q"], **here)
    listing = ["git", "ls-files", "-z", "--others", "--exclude-standard", "*.md"]
    listed = (await anyio.run_process(listing, **here)).stdout.decode().split("\0")
    assert ids(await read(from_notes(tmp_path))) == sorted(filter(None, listed))


async def test_the_rules_of_the_repository_count_in_a_folder_of_it_unless_they_name_that_folder(tmp_path):
    write(tmp_path, {".gitignore": "a.md\n/docs/c.md\n/built/\n", "docs/a.md": "", "docs/b.md": "", "docs/c.md": ""})
    write(tmp_path, {"built/a.md": "", "built/b.md": ""})
    assert ids(await read(from_notes(tmp_path / "docs"))) == ["a.md", "b.md", "c.md"]
    (tmp_path / ".git").mkdir()
    assert ids(await read(from_notes(tmp_path / "docs"))) == ["b.md"]
    assert ids(await read(from_notes(tmp_path / "built"))) == ["a.md", "b.md"]


async def test_the_rules_of_a_repository_do_not_count_in_one_inside_it(tmp_path):
    write(tmp_path, {".gitignore": "a.md\n", "a.md": "", "inner/a.md": "", "inner/.git/HEAD": ""})
    assert ids(await read(from_notes(tmp_path))) == ["inner/a.md"]


TREE = {
    "a.md": "text", ".trash/old.md": "deleted", ".draft.md": "hidden", "node_modules/p/README.md": "of a package",
    "secret/plan.md": "ignored", "docs/.git/x.md": "history", ".gitignore": "secret/\n", "x.txt": "no note",
}  # fmt: skip


@pytest.mark.parametrize("make", [from_notes, from_files])
async def test_coverage_and_the_report_of_a_build_say_what_is_left_out(make, tmp_path):
    source = make(write(tmp_path, TREE), name="n", embedder="light")
    async with await build(source, store=MemoryStore()) as corpus:
        assert corpus.report.left_out == {HIDDEN: 3, IGNORED: 1}
        excluded = (await coverage(source, corpus=corpus)).excluded
    assert excluded == {
        HIDDEN: (".draft.md", ".trash/", "node_modules/"),
        IGNORED: ("secret/",),
        "does not match the pattern": (".gitignore", "x.txt"),
    }


@pytest.mark.parametrize("make", [from_notes, from_files])
async def test_hidden_reads_all_but_what_git_keeps(make, tmp_path):
    source = make(write(tmp_path, TREE), name="n", hidden=True, embedder="light")
    expected = [".draft.md", ".trash/old.md", "a.md", "node_modules/p/README.md", "secret/plan.md"]
    assert (ids(await read(source)), source.count()) == (expected, 5)
    assert (await build(source, store=MemoryStore())).report.left_out == {}


async def test_a_pattern_enters_the_hidden_folder_that_it_names_even_if_a_rule_names_it(tmp_path):
    write(tmp_path, TREE | {".gitignore": ".trash/\nnode_modules\nsecret/\n"})
    assert ids(await read(from_notes(tmp_path, pattern=r"\.trash/.*\.md$"))) == [".trash/old.md"]
    assert ids(await read(from_notes(tmp_path, pattern=r"node_modules/.*\.md$"))) == ["node_modules/p/README.md"]
    with pytest.raises(SourceError, match=r"1 left out: named in \.gitignore; hidden=True reads these"):
        await read(from_notes(tmp_path, pattern=r"secret/.*\.md$"))


async def test_what_is_left_out_is_not_entered(tmp_path, monkeypatch):
    write(tmp_path, TREE)
    listed, scanned = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.path.relpath(path, tmp_path)) or scanned(path))
    source = from_notes(tmp_path)
    await read(source)
    source.excluded(), source.left_out(), source.count()
    assert {*listed} == {".", "docs"}


async def test_a_note_that_becomes_ignored_is_removed_like_a_deleted_one(tmp_path):
    source, store = from_notes(write(tmp_path, TREE), name="n", embedder="light"), MemoryStore()
    await build(source, store=store)
    write(tmp_path, {".gitignore": "a.md\n"})
    report = (await build(source, store=store)).report
    assert (report.added, report.removed, await ask(store, ArtifactIds())) == (1, 1, ["secret/plan.md"])


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (b"!\nsecret/\n", "'!' is not valid, so it is ignored (line 1)"),
        (b"secret/\n[z-a].md\n", "(line 2)"),
        (b"secret/\na[[:alpha:]]\n", "is not understood"),
        (b"*a*a*a*a*a*a*a*b\nsecret/\n!\n", "stars, so it is ignored (line 1); so are 1 other lines"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_a_problem_and_the_others_count(rules, words, tmp_path):
    write(tmp_path, TREE | {".gitignore": rules, f"{'a' * 200}.md": "long"})
    artifacts, problems = await read_both(from_notes(tmp_path))
    assert artifacts.keys() == {"a.md", f"{'a' * 200}.md"}
    assert (list(problems), problems[".gitignore"].lost) == ([".gitignore"], False)
    assert words in problems[".gitignore"].reason


async def test_rules_that_cannot_be_read_are_a_problem_and_leave_nothing_out(tmp_path):
    write(tmp_path, {"large/.gitignore": b"a.md\n" * 30_000, "large/a.md": "", "pipe/a.md": "", "leak/a.md": ""})
    write(tmp_path, {"bytes/.gitignore": b"caf\xe9\n\xff\xfe/\na.md\n", "bytes/a.md": "", "bytes/b.md": ""})
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    (tmp_path / "leak" / ".gitignore").symlink_to("/etc/passwd")
    artifacts, problems = await read_both(from_notes(tmp_path))
    assert list(artifacts) == ["bytes/b.md", "large/a.md", "leak/a.md", "pipe/a.md"]
    assert {name: problem.lost for name, problem in problems.items()} == {
        f"{folder}/.gitignore": False for folder in ("large", "leak", "pipe")
    }


async def test_skills_leave_out_the_same_but_not_the_hidden_folders_of_agents(tmp_path):
    names = [".claude/skills/a", ".codex/skills/.system/b", ".trash/c", "node_modules/d", "skills/e", "ignored/f"]
    write(tmp_path, {f"{name}/SKILL.md": f"---\nname: {name[-1]}\ndescription: x\n---\n" for name in names})
    write(tmp_path, {".gitignore": "ignored/\n"})
    source = from_skills(roots=tmp_path, embedder="light")
    assert ids(await read(source)) == ["a", "b", "e"]
    left_out = {HIDDEN: [f"{tmp_path}/.trash/", f"{tmp_path}/node_modules/"], IGNORED: [f"{tmp_path}/ignored/"]}
    assert source.excluded() == left_out
    assert (await build(source, store=MemoryStore())).report.left_out == {HIDDEN: 2, IGNORED: 1}
    assert sorted(ids(await read(from_skills(roots=tmp_path, hidden=True)))) == ["a", "b", "c", "d", "e", "f"]


async def test_projects_leave_out_the_same(tmp_path):
    write(tmp_path, {f"{name}/package.json": "{}" for name in ("app", ".old", "node_modules", "ignored")})
    write(tmp_path, {".gitignore": "ignored/\n", ".cache/x": "no project"})
    source = from_packages(root=tmp_path, embedder="light")
    assert ids(await read(source)) == ["app"]
    assert source.excluded() == {HIDDEN: [".old", "node_modules"], "no project": [".cache"], IGNORED: ["ignored"]}
    assert source.left_out() == {HIDDEN: 2, IGNORED: 1}
    assert ids(await read(from_packages(root=tmp_path, hidden=True))) == [".old", "app", "ignored", "node_modules"]


async def test_reports_leave_out_the_same_and_have_the_same_suffixes(tmp_path):
    files = ["a.md", "b.mdx", "C.MD", "README.MDX", ".x/a.md", "node_modules/p/a.md", "ignored/a.md", "build/a.md"]
    write(tmp_path, {f"g/p/docs/{name}": "text" for name in files} | {"g/p/.gitignore": "docs/ignored\n"})
    source = from_md_reports(projects_root=tmp_path)
    assert ids(await read(source)) == ["g/p/docs/a.md", "g/p/docs/b.mdx"]
    assert source.left_out() == {HIDDEN: 2, IGNORED: 1}
    more = [".x/a.md", "a.md", "b.mdx", "ignored/a.md", "node_modules/p/a.md"]
    assert ids(await read(from_md_reports(projects_root=tmp_path, hidden=True))) == [
        f"g/p/docs/{name}" for name in more
    ]


@pytest.mark.parametrize("make", [from_notes, from_files, from_skills, from_packages, from_md_reports])
def test_hidden_must_be_a_flag(make):
    places = {from_notes: {"root": "."}, from_files: {"root": "."}, from_md_reports: {"projects_root": "."}}
    with pytest.raises(ArgumentError, match="hidden must be True or False, not 'yes'"):
        make(**places.get(make, {}), hidden="yes")
