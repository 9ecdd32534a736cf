"""Skills from folders and functions: their names, fields, problems and filters."""

import gzip
import json
import os
import sys
from pathlib import Path

import anyio.lowlevel
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from airw.corpora import build
from airw.discovery import disclose, select
from airw.embedders import embedder_from
from airw.errors import ArgumentError, ArgumentKindError, FilterError, SourceError
from airw.indexing import Chunked, Skill
from airw.links import extractor_from
from airw.protocols import ArtifactIds, RecordsOf, ask
from airw.sources import SKILL_FOLDERS, from_skills
from airw.stores import MemoryStore
from airw.values import Artifact, ItemProblem
from tests.support.drawing import examples
from tests.support.reading import read, read_both, write


def skill(name=None, description="Does it.", body="# Use\n\nBody.\n", **fields):
    given = {"name": name, "description": description, **fields}
    written = yaml.safe_dump({key: value for key, value in given.items() if value is not None}, allow_unicode=True)
    return f"---\n{written}---\n\n{body}"


async def read_single_skill(root, **options):
    (item,) = await read(from_skills(roots=root, **options))
    return item


# The fields of a skill


async def test_a_skill_consists_of_its_frontmatter_and_its_path(tmp_path):
    text = skill("pdf-forms", "Fill in forms.", license="MIT", **{"allowed-tools": ["Read", "Bash"], "version": 1.2})
    write(tmp_path, {"tools/skills/pdf/SKILL.md": text})
    folder = tmp_path / "tools" / "skills" / "pdf"
    item = await read_single_skill(tmp_path)
    assert item.id == "pdf-forms"
    said = {"name": "pdf-forms", "description": "Fill in forms.", "parent": "tools"}
    assert item.raw == said
    assert (await read_single_skill(tmp_path, strategy=Chunked())).raw == {**said, "body": "\n# Use\n\nBody.\n"}
    extractor = extractor_from(lambda *_: {}, id="none")
    assert (await read_single_skill(tmp_path, edge_extractor=extractor)).raw == {**said, "body": "\n# Use\n\nBody.\n"}
    assert item.metadata == {
        "name": "pdf-forms",
        "parent": "tools",
        "skill_path": str(folder / "SKILL.md"),
        "base_path": str(folder),
        "license": "MIT",
        "allowed-tools": ["Read", "Bash"],
        "version": 1.2,
    }


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\r\nname: x\r\ndescription: Fill in forms.\r\n---\r\nBody.\r\n", "Fill in forms."),
        ("\ufeff---\nname: x\ndescription: Fill in forms.\n---\n", "Fill in forms."),
        ("---\nname: x\ndescription: >\n  Fill in\n  forms.\n\n  Daily.\n---\n", "Fill in forms.\nDaily."),
        ("---\nname: x\ndescription: |\n  Fill in\n  forms.\n---\n", "Fill in\nforms."),
        ("---\nname: x\ndescription: >-\n  Fill in\n  forms.\n---\n", "Fill in forms."),
        ("---\nname: x\ndescription: Fill in\n  forms.\n---\n", "Fill in forms."),
        ('---\nname: \'x\'\ndescription: "Use when: forms, \\"fields\\""\n---\n', 'Use when: forms, "fields"'),
        ("---\nname: x\ndescription: 'It''s: quoted'\n---\n", "It's: quoted"),
        ("---\nname: x\ndescription: 2026\n---\n", "2026"),
        ("---\nname: x\ndescription: 日本語のフォーム\n...\nBody", "日本語のフォーム"),
    ],
)
async def test_frontmatter_is_read_as_yaml(tmp_path, text, description):
    write(tmp_path, {"x/SKILL.md": text})
    item = await read_single_skill(tmp_path)
    assert (item.id, item.raw["description"]) == ("x", description)


@pytest.mark.parametrize(
    ("text", "name", "description", "words"),
    [
        ("# Forms\n\nFill in *forms*.\n\nMore.", "pdf", "Fill in forms.", "has no description in its frontmatter"),
        ("# Forms only", "pdf", "Forms only", "has no description"),
        ("---\nname: x\n---\n# T\n\nFill in.", "x", "Fill in.", "has no description"),
        ("---\nname: x\n---\n", "x", "", "has no description"),
        ("---\nname: x\ndescription: ' '\n---\nFill in.", "x", "Fill in.", "has no description"),
        ("---\ndescription: a: b\nname: x\n---\nFill in.", "pdf", "Fill in.", "not valid YAML"),
        ("---\n\n- a\n\n- b\n---\n\nFill in.", "pdf", "Fill in.", "not a mapping"),
        ("long " * 1000, "pdf", ("long " * 1000)[:1024].rstrip(), "has no description"),
        ("字" * 2000, "pdf", "字" * 1024, "has no description"),
        ("---\nname: [x]\ndescription: Fill in.\n---\n", "pdf", "Fill in.", "the name in its frontmatter must be text"),
        ("---\nname: true\ndescription: Fill in.\n---\n", "pdf", "Fill in.", "must be text, not True"),
        (
            "---\nname: x\ndescription: {a: b}\n---\nFill in.",
            "x",
            "Fill in.",
            "the description in its frontmatter must",
        ),
    ],
)
async def test_a_skill_without_valid_frontmatter_is_indexed_and_reported(tmp_path, text, name, description, words):
    write(tmp_path, {"pdf/SKILL.md": text})
    *problems, item = await read(from_skills(roots=tmp_path))
    assert (item.id, item.raw["name"], item.raw["description"]) == (name, name, description)
    assert {(problem.item, problem.lost) for problem in problems} == {(name, False)}
    assert any(words in problem.reason and "pdf/SKILL.md" in problem.reason for problem in problems)


async def test_frontmatter_does_not_override_the_paths_of_a_skill(tmp_path):
    write(tmp_path, {"px/x/SKILL.md": skill("x", parent="evil", skill_path="/etc/passwd", base_path="/etc")})
    item = await read_single_skill(tmp_path)
    path = tmp_path / "px" / "x" / "SKILL.md"
    assert item.metadata == {"name": "x", "parent": "px", "skill_path": str(path), "base_path": str(path.parent)}


async def test_a_name_becomes_one_line_and_may_be_a_number(tmp_path):
    write(tmp_path, {"a/SKILL.md": "---\nname: 2048\ndescription: x\n---\n", "b/SKILL.md": skill("two\nlines")})
    assert [item.id for item in await read(from_skills(roots=tmp_path))] == ["2048", "two lines"]


async def test_an_unreadable_or_empty_file_is_a_problem_named_after_its_folder(tmp_path):
    root = write(
        tmp_path / "root",
        {
            "binary/SKILL.md": b"\x7fELF\0",
            "blank/SKILL.md": " \n\n",
            "broken/SKILL.md": "---\na: b: c\n---\n",
            "code/SKILL.md": "```sh\nls\n```\n",
            "latin/SKILL.md": "caf\u00e9".encode("latin-1"),
            "ok/SKILL.md": skill("ok"),
        },
    )
    (root / "large").mkdir()
    with (root / "large" / "SKILL.md").open("wb") as file:
        file.truncate(200 * 2**20)
    write(tmp_path, {"secret/SKILL.md": skill("secret")})
    (root / "leak").mkdir()
    (root / "leak" / "SKILL.md").symlink_to(tmp_path / "secret" / "SKILL.md")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / os.fsdecode(b"caf\xe9")).mkdir()
    (root / os.fsdecode(b"caf\xe9") / "SKILL.md").write_text(skill("cafe"))
    artifacts, problems = await read_both(from_skills(roots=root))
    assert list(artifacts) == ["ok"]
    expected = {
        "binary": "NUL",
        "blank": "no text to index",
        "broken": "not valid YAML: mapping values are not allowed in this context; write the value",
        "code": "no text to index",
        "latin": "not UTF-8",
        "large": "more than max_bytes",
        "leak": "leads out of the folder",
        "pipe": "not a regular file",
        "caf\\xe9": "not UTF-8",
    }
    assert problems.keys() == expected.keys()
    for name, words in expected.items():
        assert problems[name].lost
        assert problems[name].reason.startswith(f"{name}/SKILL.md: ")
        assert words in problems[name].reason


async def test_an_indexed_skill_that_cannot_be_read_now_is_kept_under_its_id(tmp_path):
    write(tmp_path, {"a/skills/x/SKILL.md": skill("x", "One."), "b/skills/x/SKILL.md": skill("x", "Two.")})
    store = MemoryStore()
    await build(from_skills(roots=tmp_path, embedder="light"), store=store)
    write(tmp_path, {"a/skills/x/SKILL.md": b"\xff"})
    corpus = await build(from_skills(roots=tmp_path, embedder="light"), store=store, on_error="skip")
    (problem,) = corpus.report.problems
    assert (problem.item, "is kept" in problem.reason) == ("x", True)
    texts = [found[0].text for found in await ask(store, RecordsOf(["x", "x@b"]))]
    assert texts == ["x\n\nOne.", "x\n\nTwo."]
    with pytest.raises(SourceError, match=r"a/skills/x/SKILL\.md: is not UTF-8"):
        await build(from_skills(roots=tmp_path, embedder="light"), store=store)


# Files and ids


async def test_skills_are_found_at_any_depth_in_any_case_and_nothing_else_is(tmp_path):
    names = ["SKILL.md", "a/SKILL.md", "a/b/c/skill.md", ".claude/skills/d/Skill.MD", "a/README.md", "a/MY-SKILL.md"]
    write(tmp_path, {name: skill(name.replace("/", "-")) for name in names})
    items = await read(from_skills(roots=tmp_path))
    assert [item.id for item in items] == [
        ".claude-skills-d-Skill.MD",
        "SKILL.md",
        "a-SKILL.md",
        "a-b-c-skill.md",
    ]


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("px/skills/pdf/SKILL.md", "px"),
        ("px/pdf/SKILL.md", "px"),
        ("px/Skills/pdf/SKILL.md", "px"),
        ("px/.claude/skills/pdf/SKILL.md", "px"),
        ("px/Skills/office/pdf/SKILL.md", "office"),
    ],
)
async def test_the_parent_is_the_folder_that_the_skill_belongs_to(tmp_path, path, parent):
    write(tmp_path, {path: skill()})
    assert (await read_single_skill(tmp_path)).metadata["parent"] == parent
    assert (await read_single_skill((tmp_path / path).parent)).metadata["parent"] == parent


async def test_skills_of_one_name_are_all_kept_each_under_its_own_id(tmp_path):
    paths = ["a/skills/x", "b/skills/x", "c/b/x", "d/b/.claude/x", "d/b/x"]
    write(tmp_path / "one", {f"{path}/SKILL.md": skill("x", path) for path in paths})
    write(tmp_path / "two", {"c/b/x/SKILL.md": skill("x", "two")})
    write(tmp_path / "three", {"c/b/x/SKILL.md": skill("x", "three")})
    roots = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    items = await read(from_skills(roots=roots))
    assert [(item.id, item.raw["description"]) for item in items] == [
        ("x", "a/skills/x"),
        ("x@b", "b/skills/x"),
        ("x@c/b/x", "c/b/x"),
        ("x@d/b/.claude/x", "d/b/.claude/x"),
        ("x@d/b/x", "d/b/x"),
        ("x@c/b/x/SKILL.md", "two"),
        ("x@c/b/x/SKILL.md#2", "three"),
    ]
    assert [item.metadata["name"] for item in items] == ["x"] * 7
    assert not any(str(tmp_path) in item.id for item in items)  # clients of a server see ids
    assert await read(from_skills(roots=roots)) == items


async def test_nested_and_linked_folders_yield_each_skill_without_duplicates(tmp_path):
    write(tmp_path, {"a/skills/x/SKILL.md": skill("x"), "a/y/SKILL.md": skill("y")})
    (tmp_path / "link").symlink_to(tmp_path / "a")
    roots = [tmp_path / "a" / "skills", tmp_path / "a", tmp_path / "link"]
    assert [item.id for item in await read(from_skills(roots=roots))] == ["x", "y"]


async def test_a_link_to_a_skill_is_reported(tmp_path):
    write(tmp_path, {"elsewhere/y/SKILL.md": skill("y"), "skills/x/SKILL.md": skill("x"), "plain/note.md": "no skill"})
    for name, target in [("y", "elsewhere/y"), ("plain", "plain"), ("gone", "gone")]:
        (tmp_path / "skills" / name).symlink_to(tmp_path / target)
    link, x = await read(from_skills(roots=tmp_path / "skills"))
    assert (link.item, link.lost, x.id) == ("y", False, "x")
    assert link.reason.startswith(f"a link to {str(tmp_path / 'elsewhere' / 'y')!r}")
    items = await read(from_skills(roots=[tmp_path / "skills", tmp_path / "elsewhere"]))
    assert [item.id for item in items if not isinstance(item, ItemProblem)] == ["x", "y"]


async def test_the_folders_of_the_user_are_read_by_default(tmp_path, monkeypatch):
    home, project = tmp_path / "home", tmp_path / "project"
    write(home, {".claude/skills/x/SKILL.md": skill("x", "home"), ".codex/skills/y/SKILL.md": skill("y")})
    write(home, {".claude/plugins/cache/px/skills/z/SKILL.md": skill("z")})
    (home / ".agents" / "skills").mkdir(parents=True)
    write(project, {".claude/skills/x/SKILL.md": skill("x", "project")})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    items = await read(from_skills())
    assert [(item.id, item.raw["description"]) for item in items] == [
        ("x", "home"),
        ("y", "Does it."),
        ("z", "Does it."),
    ]
    assert [item.metadata["parent"] for item in items] == ["home", "home", "px"]


async def test_a_root_may_be_below_the_home_folder(tmp_path, monkeypatch):
    write(tmp_path, {"mine/x/SKILL.md": skill("x")})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (await read_single_skill("~/mine")).metadata["base_path"] == str(tmp_path / "mine" / "x")


async def test_the_error_without_any_skill_lists_the_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"no SKILL\.md below") as caught:
        await read(from_skills())
    assert all(repr(folder) in str(caught.value) for folder in SKILL_FOLDERS)
    assert "roots=" in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no SKILL\.md below '.*/empty'$"):
        await read(from_skills(roots=[tmp_path / "empty"]))


async def test_a_missing_root_is_an_error_and_one_without_skills_is_not(tmp_path):
    write(tmp_path, {"a/x/SKILL.md": skill("x"), "empty/README.md": "x"})
    assert len(await read(from_skills(roots=[tmp_path / "empty", tmp_path / "a"]))) == 1
    with pytest.raises(SourceError, match=r"does not exist: '.*/gone'"):
        await read(from_skills(roots=[tmp_path / "a", tmp_path / "gone"]))


# The filter


async def test_the_filter_leaves_skills_out_and_changes_no_id(tmp_path):
    write(
        tmp_path,
        {
            "a/x/SKILL.md": skill("x", license="GPL"),
            "b/x/SKILL.md": skill("x", license="MIT"),
            "c/y/SKILL.md": skill("y", license="MIT"),
            "d/z/SKILL.md": skill("z"),
        },
    )
    source = from_skills(roots=tmp_path, filter={"license": "MIT"})
    assert [item.id for item in await read(source)] == ["x@b", "y"]
    left_out = [str(tmp_path / name / "SKILL.md") for name in ("a/x", "d/z")]
    assert source.excluded() == {"filter": left_out}
    assert [item.id for item in await read(from_skills(roots=tmp_path, filter={"parent": {"$in": ["a"]}}))] == ["x"]
    assert from_skills(roots=tmp_path, filter={"name": {"$exists": True}}).excluded() == {}
    assert from_skills(roots=tmp_path).excluded() == {}


async def test_a_filter_that_leaves_no_skills_is_an_error_and_not_an_empty_corpus(tmp_path):
    write(tmp_path, {"x/SKILL.md": skill("x")})
    with pytest.raises(SourceError, match="filter matches none of the 1 skills"):
        await read(from_skills(roots=tmp_path, filter={"plugni": "x"}))
    with pytest.raises(SourceError, match="filter matches none of the 2 skills"):
        await read(from_skills(fetcher=lambda: [{"name": "x"}, {"name": "y"}], filter={"plugni": "x"}))


# Functions

CYCLE = []
CYCLE.append(CYCLE)


def skills_now():
    return [{"name": "x", "description": "Does it.", "parent": "a", "skill_path": "/s/x/SKILL.md", "stars": 3}]


async def skills_later():
    for record in skills_now():
        await anyio.lowlevel.checkpoint()
        yield record


@pytest.mark.parametrize("fetcher", [skills_now, skills_later, f"{__name__}:skills_now"])
async def test_a_function_can_return_the_skills(fetcher, monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, type(sys)("stand_in"))
    monkeypatch.setattr(sys.modules[__name__], "skills_now", skills_now, raising=False)
    source = from_skills(fetcher=fetcher)
    (item,) = await read(source)
    assert item == Artifact(
        "x", skills_now()[0], {"name": "x", "parent": "a", "skill_path": "/s/x/SKILL.md", "stars": 3}
    )
    assert source.indexing_strategy == Skill()


async def test_a_strategy_can_read_the_bodies_of_skills_from_a_function():
    fetcher = lambda: [{"name": "x", "body": "B"}]  # noqa: E731
    for strategy, raw in ((None, {"name": "x"}), (Chunked(), {"name": "x", "body": "B"})):
        (item,) = await read(from_skills(fetcher=fetcher, strategy=strategy))
        assert (item.raw, item.metadata) == (raw, {"name": "x"})


async def test_skills_of_one_name_from_a_function_are_all_kept():
    records = [{"name": "x", "parent": "a"}, {"name": "x", "parent": "b"}, {"name": "x", "parent": "b"}]
    records += [{"name": "x", "parent": "b", "skill_path": "s"}, {"name": "x", "parent": "b"}, {"name": "x"}]
    records += [{"name": "x", "parent": "b", "skill_path": place} for place in ("/s", r"C:\s", r"\\s\x")]
    items = await read(from_skills(fetcher=lambda: records))
    places = ["x", "x@b", "x@b#2", "x@s", "x@b#3", "x#2"]
    assert [item.id for item in items] == [*places, "x@b#4", "x@b#5", "x@b#6"]


@pytest.mark.parametrize(
    ("record", "item", "words"),
    [
        ({"description": "x"}, "skills[1]", "a skill needs a name, a string that is not blank; skills[1] has None"),
        ({"name": " "}, "skills[1]", "has ' '"),
        ({"name": 3}, "skills[1]", "has 3"),
        ("x", "skills[1]", "must be a mapping of fields, not 'x'"),
        ({"name": "z", "description": 3}, "z", "the description must be a string, not 3"),
        ({"name": "z", "n": CYCLE}, "z", "contain themselves"),
    ],
)
async def test_a_record_that_is_no_skill_is_a_problem_that_names_it(record, item, words):
    source = from_skills(fetcher=lambda: [{"name": "x"}, record, {"name": "y"}], embedder="light")
    artifacts, problems = await read_both(source)
    assert list(artifacts) == ["x", "y"]
    assert words in problems[item].reason
    with pytest.raises(SourceError, match="source 'skills'"):
        await build(source, store=MemoryStore())
    corpus = await build(source, store=MemoryStore(), on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == [item]


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["x", "x@a", "x#2", "x@a#2"])},
            optional={"parent": st.sampled_from(["a", "b", "", None])},
        ),
        max_size=8,
    )
)
async def test_every_skill_of_a_function_is_an_artifact_or_a_problem(records):
    items = await read(from_skills(fetcher=lambda: records))
    assert [item.raw for item in items] == records
    assert len({item.id for item in items}) == len(records)


# Settings


def test_settings_that_cannot_work_are_refused_on_construction(tmp_path):
    for wrong in ({"roots": []}, {"roots": [""]}, {"roots": ""}, {"roots": [3]}, {"name": "a/b"}):
        with pytest.raises(ArgumentError, match="|".join(wrong)):
            from_skills(**wrong)
    for wrong in ({"roots": 3}, {"roots": b"x"}, {"fetcher": 3}):
        with pytest.raises(ArgumentKindError, match="|".join(wrong)):
            from_skills(**wrong)
    with pytest.raises(ArgumentError, match="module:attribute"):
        from_skills(fetcher="skills")
    with pytest.raises(ArgumentError, match="roots and fetcher"):
        from_skills(roots=tmp_path, fetcher=skills_now)
    with pytest.raises(FilterError):
        from_skills(filter={"x": {"$near": 1}})


# In a corpus


async def test_only_a_change_of_indexed_fields_indexes_a_skill_again(tmp_path):
    embedded, store = [], MemoryStore()

    def embed(texts):
        embedded.extend(texts)
        return [[1.0] * 4] * len(texts)

    async def outcome(text, **options):
        write(tmp_path, {"x/SKILL.md": text})
        options = {"embedder": embedder_from(embed, id="counting", dim=4), **options}
        report = (await build(from_skills(roots=tmp_path, **options), store=store)).report
        return report.added, report.updated, report.unchanged

    assert await outcome(skill("x")) == (1, 0, 0)
    assert await outcome(skill("x", body="Another body.")) == (0, 0, 1)
    assert await outcome(skill("x", license="MIT")) == (0, 1, 0)
    assert await outcome(skill("x", "Does more.", license="MIT")) == (0, 1, 0)
    assert embedded == ["x\n\nDoes it.", "x\n\nDoes more."]
    chunked = {"strategy": Chunked(text_key="body")}
    assert await outcome(skill("x", body="One."), **chunked) == (0, 1, 0)
    assert await outcome(skill("x", body="Two."), **chunked) == (0, 1, 0)
    assert embedded[2:] == ["One.", "Two."]


async def test_a_hit_leads_to_the_body_and_the_files_beside_it(tmp_path):
    write(tmp_path, {"pdf/SKILL.md": skill("pdf", "Fill in forms."), "pdf/scripts/fill.py": "pass"})
    corpus = await build(from_skills(roots=tmp_path, embedder="light"), store=MemoryStore())
    hits = await corpus.search("fill in a form")
    (shown,) = await disclose(select(hits), level="bundled", roots=[tmp_path])
    assert (shown.name, shown.pointer) == ("pdf", str(tmp_path / "pdf" / "SKILL.md"))
    assert shown.body.endswith("# Use\n\nBody.\n")
    assert shown.bundle == ("scripts/fill.py",)


@pytest.fixture(scope="module")
def real(data, tmp_path_factory):
    """The tree of 606 real skills, and the queries with the folders of their gold skills."""
    root = tmp_path_factory.mktemp("skills")
    with gzip.open(data / "skills" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            description, rest = row["metadata"].get("description") or "", row["text"]
            body = rest.removeprefix(description).lstrip("\n")
            text = skill(row["title"], description or None, body, license=row["metadata"]["license"])
            write(root, {f"{row['id'].replace(':', '/')}/SKILL.md": text})
    queries = (data / "skills" / "queries.jsonl").read_text().splitlines()
    return root, [(row["text"], row["gold"]) for row in map(json.loads, queries)]


@pytest.mark.slow
async def test_real_skills_are_all_indexed_and_found(real):
    """With `light` and k=10, recall is about 0.39 dense, 0.72 lexical and 0.53 hybrid."""
    root, queries = real
    corpus = await build(from_skills(roots=root, embedder="light"), store=MemoryStore())
    assert (corpus.report.added, len(await ask(corpus.store, ArtifactIds()))) == (606, 606)
    assert not any(problem.lost for problem in corpus.report.problems)
    for mode, least in (("dense", 0.36), ("lexical", 0.69), ("hybrid", 0.5)):
        recalls = []
        for text, gold in queries:
            hits = await corpus.search(text, k=10, mode=mode)
            found = {Path(hit.metadata["base_path"]).relative_to(root).as_posix().replace("/", ":", 1) for hit in hits}
            recalls.append(len(found & set(gold)) / len(gold))
        assert sum(recalls) / len(recalls) >= least
