"""Packages of this environment or in folders of projects: their fields and problems."""

import errno
import importlib.metadata
import os
import sys
import warnings
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from ir.sources import CorpusSource as IrSource

from airw._base.requirements import distribution_name, requirement_name
from airw.corpora import build, search
from airw.errors import ArgumentError, SourceError
from airw.indexing import Package, WholeText
from airw.links import extractor_from
from airw.protocols import ArtifactIds, Edges, Source, ask
from airw.sources import from_packages
from airw.stores import MemoryStore
from airw.values import Artifact
from tests.support.reading import read_items, write


async def read_single_project(root, files, **options):
    """Read a root with the one project `p` of these files."""
    write(root / "p", files)
    packages, problems = await read_items(from_packages(root=root, **options))
    assert list(packages) == ["p"]
    assert {problem.item for problem in problems} <= {"p"}
    assert not any(problem.lost for problem in problems)
    return packages["p"], [problem.reason for problem in problems]


# The environment


def distribution(site, name, version="1.0", *, folder=None, readme="", **fields):
    lines = [f"Name: {name}", f"Version: {version}"]
    for key, value in fields.items():
        values = value if isinstance(value, list) else [value]
        lines += [f"{key.replace('_', '-')}: {each}" for each in values]
    folder = folder or f"{name}-{version}.dist-info"
    write(site, {f"{folder}/METADATA": "\n".join(["Metadata-Version: 2.1", *lines, "", readme])})


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that comes first on the path."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.mark.slow
async def test_every_installed_distribution_is_listed_once_with_its_own_metadata():
    packages, problems = await read_items(from_packages())
    known = {}
    for each in importlib.metadata.distributions():
        known.setdefault(distribution_name(each.metadata["Name"]), each)
    assert packages.keys() == known.keys()
    assert problems == []
    for name, package in packages.items():
        about = known[name].metadata
        assert package.raw["name"] == about["Name"]
        assert package.raw["description"] == (about.get("Summary") or "").strip()
        assert package.metadata["version"] == about["Version"]
        assert f"Name: {about['Name']}" in lines_of(package.metadata["path"])


def lines_of(path):
    return Path(path).read_text("utf-8").splitlines()


@pytest.mark.slow
async def test_dependencies_are_the_requirements_without_those_of_extras():
    packages, _ = await read_items(from_packages())
    assert {requirement_name(each) for each in packages["httpx"].raw["deps"]} == {
        "anyio",
        "certifi",
        "httpcore",
        "idna",
    }
    assert packages["numpy"].raw["deps"] == []
    for package in packages.values():
        extra = [each for each in package.raw["deps"] if "extra ==" in each]
        assert extra == []


@pytest.mark.slow
async def test_the_environment_is_searched_by_descriptions_and_walked_along_requirements():
    wanted = ("numpy", "anyio", "httpx", "idna", "certifi", "httpcore", "h11", "rich", "pytest", "trio")
    others = {name for name in list_distributions() if name not in wanted}
    source = from_packages(
        exclude=sorted(others),
        readme_chars=2_000,
        embedder="light",
        edge_extractor=extractor_from(
            lambda _, fields: {"REF": list(map(requirement_name, fields["deps"]))}, id="deps-1"
        ),
    )
    async with build(source, store=MemoryStore()) as corpus:
        assert corpus.report.added == len(wanted)
        hits = await search(corpus, "array computing in Python", surfaces=["description"], k=1)
        assert hits[0].artifact_id == "numpy"
        found = await ask(corpus.store, Edges(["httpx"]))
        assert {edge.target for edge in found[0]} == {"anyio", "certifi", "httpcore", "idna"}


def list_distributions():
    return {distribution_name(each.metadata["Name"]) for each in importlib.metadata.distributions()}


@pytest.mark.slow
async def test_a_second_build_of_the_whole_environment_changes_nothing():
    source, store = from_packages(embedder="light"), MemoryStore()
    first = await build(source, store=store)
    assert first.report.added == len(list_distributions())
    again = await build(source, store=store)
    assert (again.report.added, again.report.updated, again.report.unchanged) == (0, 0, first.report.added)


async def test_an_installed_distribution_has_its_fields_from_its_metadata(site):
    distribution(
        site,
        "Made.Up_thing",
        "2.5",
        Summary="Does things.",
        Project_URL=["Source, https://e.org/s", "home page, https://e.org"],
        Requires_Dist=["A-b>=1", 'c; python_version > "3"', 'd; extra == "x"', 'e; platform_machine == "extra"'],
        readme="# Made up\n\nSays caf\u00e9.",
    )
    distribution(site, "bare", Summary="UNKNOWN", Home_page="https://h.org")
    packages, problems = await read_items(from_packages())
    assert problems == []
    assert packages["made-up-thing"] == Artifact(
        "made-up-thing",
        {
            "name": "Made.Up_thing",
            "description": "Does things.",
            "readme": "# Made up\n\nSays caf\u00e9.",
            "deps": ["A-b>=1", 'c; python_version > "3"', 'e; platform_machine == "extra"'],
            "owner": "installed",
        },
        {
            "version": "2.5",
            "home_page": "https://e.org",
            "path": str(site / "Made.Up_thing-2.5.dist-info" / "METADATA"),
        },
    )
    assert packages["bare"].raw["description"] == ""
    assert packages["bare"].metadata["home_page"] == "https://h.org"
    assert list(packages)[:2] == ["made-up-thing", "bare"]  # by folder name below the first entry of the path


@pytest.mark.slow
async def test_an_egg_also_has_its_requirements(site):
    write(
        site,
        {
            "old.egg-info/PKG-INFO": "Metadata-Version: 1.1\nName: old\nVersion: 1\nDescription: Line\n        next\n",
            "old.egg-info/requires.txt": "six>=1\n\n[test]\npytest\n",
        },
    )
    packages, _ = await read_items(from_packages())
    assert packages["old"].raw["deps"] == ["six>=1"]
    assert packages["old"].raw["readme"] == "Line\nnext"
    assert packages["old"].metadata["path"] == str(site / "old.egg-info" / "PKG-INFO")


@pytest.mark.slow
async def test_of_two_distributions_of_one_name_the_first_on_the_path_is_used_and_the_other_reported(site, monkeypatch):
    distribution(site, "NumPy", "0.0.1", Summary="Shadow.")
    last = site.with_name("a-last")
    distribution(last, "numpy", "0.0.2")
    monkeypatch.setattr(sys, "path", [*sys.path, str(last), str(site)])  # a duplicate folder counts once
    packages, problems = await read_items(from_packages())
    assert packages["numpy"].raw["description"] == "Shadow."
    assert [(problem.item, problem.lost) for problem in problems] == [("numpy", False), ("numpy", False)]
    assert all(f"version 0.0.1 in '{site}" in problem.reason for problem in problems)
    assert problems[1].reason.startswith(f"version 0.0.2 in '{last}")


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, b"", b"Metadata-Version: 2.1\n", b"Name: caf\xe9\n"])
async def test_the_remains_of_a_distribution_are_a_problem_with_their_path(site, content):
    place = site / "~roken-1.0.dist-info"
    place.mkdir(parents=True)
    if content is not None:
        (place / "METADATA").write_bytes(content)
    packages, (problem,) = await read_items(from_packages())
    assert (problem.item, problem.lost) == (str(place), True)
    assert "numpy" in packages


@pytest.mark.slow
async def test_a_broken_distribution_ends_a_build_or_is_left_out_with_skip(site):
    (site / "gone-1.0.dist-info").mkdir(parents=True)
    distribution(site, "fine")
    source = from_packages(exclude=["[!f]*"], embedder="light")
    with pytest.raises(SourceError, match=r"gone-1\.0\.dist-info"):
        await build(source, store=MemoryStore())
    corpus = await build(source, store=MemoryStore(), on_error="skip")
    assert "fine" in await ask(corpus.store, ArtifactIds())
    assert [problem.item for problem in corpus.report.problems] == [str(site / "gone-1.0.dist-info")]


@pytest.mark.slow
async def test_packages_are_excluded_by_name_in_any_spelling_or_by_pattern_and_listed(site):
    for name in ("Zz.One", "zz_two", "zz-three"):
        distribution(site, name)
    packages, _ = await read_items(from_packages(exclude=["zz-one", "zz_t*"]))
    assert {name for name in packages if name.startswith("zz")} == {"zz-three"}
    assert from_packages(exclude=["Zz.One", "zz_t*"]).excluded() == {"excluded": ["Zz.One", "zz_two"]}
    with pytest.raises(SourceError, match=r"Python environment.*\['\*'\]"):
        await read_items(from_packages(exclude=["*"]))


# Projects


PYPROJECTS = {
    "none": None,
    "description": '[project]\nname = "x"\ndescription = "P"\n',
    "deps": '[project]\nname = "x"\ndependencies = ["A>=1", "b[c]"]\n',
    "empty": '[project]\ndescription = ""\ndependencies = []\n',
    "both": '[project]\ndescription = "P"\ndependencies = ["a"]\n',
    "broken": "[project\n",
    "other": '[build-system]\nrequires = ["hatchling"]\n',
    "array": 'project = "x"\n',
}
SETUPS = {
    "none": None,
    "description": "[metadata]\ndescription = S % x\n",
    "lines": "[options]\ninstall_requires =\n    c>=1\n    # no\n    d; python_version < '3'\n",
    "line": "[metadata]\ndescription: S\n[options]\ninstall_requires = c>=1; d\n",
    "twice": "[metadata]\ndescription = R\n[metadata]\ndescription = S\ndescription = T\n",
    "file": "[metadata]\ndescription = file: X\n[options]\ninstall_requires = file: r.txt\n",
    "broken": "no section\n",
}
SCRIPTS = {"none": None, "description": '{"description": "J"}', "null": '{"description": null}', "broken": "{"}
READMES = [{}, {"README.md": "M\n"}, {"README.rst": "R\n", "README.txt": "T\n"}]


@pytest.mark.slow
async def test_names_descriptions_readmes_and_requirements_of_projects_are_those_of_ir(tmp_path):
    folders = []
    for at, (python, setup, script) in enumerate(product(PYPROJECTS, SETUPS, SCRIPTS)):
        files = {"pyproject.toml": PYPROJECTS[python], "setup.cfg": SETUPS[setup], "package.json": SCRIPTS[script]}
        present = {name: text for name, text in files.items() if text is not None}
        folders.append(f"g{at % 2}/{python}-{setup}-{script}")
        (tmp_path / folders[-1]).mkdir(parents=True)
        write(tmp_path / folders[-1], present | READMES[at % 3])
    folders += ["g2/both-none-none", "g3/none-none-null"]
    write(tmp_path, {f"{folder}/README.md": "again" for folder in folders[-2:]})
    manifest = tmp_path / "all.pth"
    manifest.write_text("\n".join(str(tmp_path / folder) for folder in folders))
    with warnings.catch_warnings(action="ignore"):
        theirs = IrSource.from_packages(manifest=manifest, exclude=[])
    packages, _ = await read_items(from_packages(manifest=manifest))
    assert len(packages) == len(folders)
    assert list(packages) == list(theirs.scope)
    for name, raw in theirs.scope.items():
        assert {**packages[name].raw, "path": packages[name].metadata["path"]} == raw


async def test_each_field_comes_from_the_first_file_that_has_it(tmp_path):
    files = {
        "pyproject.toml": '[project]\ndependencies = ["a"]\n[tool.poetry]\ndescription = "P"\n',
        "setup.cfg": "[metadata]\ndescription = S\n[options]\ninstall_requires = b\n",
        "package.json": '{"description": "J", "dependencies": {"@scope/x": "^1"}}',
    }
    package, problems = await read_single_project(tmp_path, files)
    assert (package.raw["description"], package.raw["deps"], problems) == ("P", ["a"], [])
    for gone, description, deps in [("pyproject.toml", "S", ["b"]), ("setup.cfg", "J", ["@scope/x"])]:
        (tmp_path / "p" / gone).unlink()
        package, problems = await read_single_project(tmp_path, {})
        assert (package.raw["description"], package.raw["deps"], problems) == (description, deps, [])


async def test_poetrys_tables_are_read_without_python_and_optional_ones(tmp_path):
    text = """
        [tool.poetry]
        description = "Poetic."
        readme = ["docs/about.md", "CHANGES.md"]
        [tool.poetry.dependencies]
        python = "^3.11"
        anyio = "^4"
        numpy = {version = "^2", extras = ["x"]}
        trio = {version = "*", optional = true}
        scipy = [{version = "<1", python = "<3.9"}, {version = ">1"}]
        """
    package, problems = await read_single_project(tmp_path, {"pyproject.toml": text, "docs/about.md": "About."})
    assert package.raw == {
        "name": "p",
        "description": "Poetic.",
        "readme": "About.",
        "owner": "ours",
        "deps": ["anyio", "numpy", "scipy"],
    }
    assert problems == []
    package, _ = await read_single_project(tmp_path, {"pyproject.toml": f"project.dependencies = ['a>=1']\n{text}"})
    assert package.raw["deps"] == ["a>=1"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pyproject.toml": "[project"}, ["pyproject.toml", "cannot be parsed"]),
        ({"pyproject.toml": b"\xff"}, ["pyproject.toml", "UTF-8"]),
        ({"pyproject.toml": "project = 3"}, ["pyproject.toml", "[project] must be a table", "3"]),
        ({"pyproject.toml": "project.description = 3"}, ["pyproject.toml", "description must be a string"]),
        ({"pyproject.toml": 'project.dependencies = "a"'}, ["pyproject.toml", "dependencies must be a list"]),
        ({"pyproject.toml": "project.dependencies = [1]"}, ["pyproject.toml", "list of strings"]),
        ({"pyproject.toml": "tool.poetry.dependencies = 3"}, ["[tool.poetry.dependencies]", "table"]),
        ({"pyproject.toml": "a = " + "[" * 50_000}, ["pyproject.toml", "cannot be parsed"]),
        ({"setup.cfg": "x"}, ["setup.cfg", "section"]),
        ({"package.json": "{"}, ["package.json", "cannot be parsed"]),
        ({"package.json": "[]"}, ["package.json", "table"]),
        ({"package.json": "[" * 50_000}, ["package.json", "cannot be parsed"]),
        ({"package.json": '{"dependencies": ["a"]}'}, ["package.json", "dependencies must be a table"]),
    ],
)
async def test_a_broken_file_is_reported_and_the_project_is_indexed_without_it(tmp_path, files, words):
    package, (problem,) = await read_single_project(
        tmp_path, {"setup.cfg": "[metadata]\nname=x\n", "README.md": "R", **files}
    )
    assert package.raw == {"name": "p", "description": "", "readme": "R", "owner": "ours", "deps": []}
    assert [word for word in words if word not in problem] == []


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"pyproject.toml": 'project.dynamic = ["dependencies", "version"]\nproject.description = "D"'}, "dynamic"),
        ({"setup.cfg": "[metadata]\ndescription=D\n[options]\ninstall_requires = file: r.txt"}, "file: r.txt"),
    ],
)
async def test_fields_known_only_to_a_package_build_are_reported_unless_another_file_has_them(tmp_path, files, word):
    _, (problem,) = await read_single_project(tmp_path, files)
    assert word in problem
    package, problems = await read_single_project(tmp_path, {"package.json": '{"dependencies": {"x": "1"}}'})
    assert (package.raw["deps"], problems) == (["x"], [])


# Readmes


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("", "md"),
        ('readme = "docs/long.rst"', "long"),
        ('readme = {file = "docs/long.rst", content-type = "text/x-rst"}', "long"),
        ('readme = {text = "Said here.", content-type = "text/plain"}', "Said here."),
    ],
)
async def test_the_declared_readme_takes_precedence_over_the_usual_names(tmp_path, declared, expected):
    files = {"docs/long.rst": "long", "README.md": "md", "README.rst": "rst"}
    package, problems = await read_single_project(tmp_path, {"pyproject.toml": f"[project]\n{declared}\n", **files})
    assert (package.raw["readme"], problems) == (expected, [])


async def test_readmes_in_any_case_are_found_and_markdown_takes_precedence(tmp_path):
    package, _ = await read_single_project(tmp_path, {"setup.cfg": "", "readme.rst": "rst", "Readme.MD": "md"})
    assert package.raw["readme"] == "md"
    package, _ = await read_single_project(
        tmp_path, {"README.md": "capitals", "readme.md": "small", "rEADME.md": "mixed"}
    )
    assert package.raw["readme"] == "capitals"


async def test_a_readme_that_cannot_be_read_is_reported_and_the_next_one_is_used(tmp_path):
    write(tmp_path, {"secret/s.md": "S"})
    root = tmp_path / "root"
    (root / "p").mkdir(parents=True)
    (root / "p" / "linked").symlink_to(tmp_path / "secret")
    for declared, words in [
        ("gone.md", "does not exist"),
        ("../../secret/s.md", "leads out of"),
        (str(tmp_path / "secret" / "s.md"), "leads out of"),
        ("linked/s.md", "leads out of"),
        ("docs", "not a regular file"),
    ]:
        files = {"pyproject.toml": f'[project]\nreadme = "{declared}"\n', "docs/x": "", "README.md": "R"}
        package, (problem,) = await read_single_project(root, files)
        assert package.raw["readme"] == "R"
        assert words in problem
        assert declared in problem
    package, problems = await read_single_project(root, {"pyproject.toml": "", "README.md": b"\xff", "README.txt": "T"})
    assert package.raw["readme"] == "T"
    assert problems == ["README.md: is not UTF-8 at byte 0; convert the file"]


async def test_a_long_readme_is_cut_and_marked_as_cut_in_the_metadata(tmp_path):
    package, _ = await read_single_project(tmp_path, {"setup.cfg": "", "README.md": "\u00e9" * 20_000})
    assert (len(package.raw["readme"]), package.metadata) == (20_000, {"path": str(tmp_path / "p")})
    package, problems = await read_single_project(tmp_path, {"README.md": "\u00e9" * 20_001})
    assert (len(package.raw["readme"]), package.metadata["readme_cut"], problems) == (20_000, True, [])
    package, _ = await read_single_project(tmp_path, {}, readme_chars=0)
    assert package.raw["readme"] == ""


# Folders of projects, and lists of them


async def test_the_projects_of_a_folder_are_its_direct_subfolders_with_a_project_file(tmp_path):
    write(
        tmp_path,
        {
            "b/pyproject.toml": "",
            "a/setup.cfg": "",
            "C/package.json": "{}",
            "inner/deep/pyproject.toml": "",
            "readme/README.md": "R",
            "pyproject.toml": "",
            "xx/setup.cfg": "",
        },
    )
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    source = from_packages(root=tmp_path, exclude=["x?"])
    packages, problems = await read_items(source)
    assert (list(packages), problems) == (["C", "a", "b"], [])
    assert source.excluded() == {"no project": ["inner", "readme"], "a link": ["linked"], "excluded": ["xx"]}


async def test_a_list_is_read_as_python_reads_it(tmp_path):
    write(tmp_path, {f"{name}/setup.cfg": "" for name in ("a", "b", "lib/c", "e\u2028e")})
    lines = ["# a comment", "import os; os.environ", "import\tsys", "", "   ", f"{tmp_path}/b  ", "../a", "d d", "../b"]
    write(tmp_path, {"lists/all.pth": b"\xef\xbb\xbf" + "\r\n".join([*lines, "../lib/c", "../e\u2028e"]).encode()})
    (tmp_path / "lists" / "d d").mkdir()
    packages, problems = await read_items(from_packages(manifest=tmp_path / "lists" / "all.pth"))
    assert (list(packages), problems) == (["b", "a", "d d", "c", "e\u2028e"], [])
    assert packages["c"].metadata["path"] == str(tmp_path / "lib" / "c")


async def test_a_listed_folder_that_was_removed_is_a_problem_and_its_artifact_stays(tmp_path):
    write(tmp_path, {"a/setup.cfg": "[metadata]\ndescription = A", "b/setup.cfg": "[metadata]\ndescription = B"})
    write(tmp_path, {"all.pth": "a\nb\n"})
    source, store = from_packages(manifest=tmp_path / "all.pth", embedder="light"), MemoryStore()
    await build(source, store=store)
    (tmp_path / "a").rename(tmp_path / "away")
    with pytest.raises(SourceError, match=r"'packages'.*'a'"):
        await build(source, store=store)
    corpus = await build(source, store=store, on_error="skip")
    assert await ask(store, ArtifactIds()) == ["a", "b"]
    assert [problem.item for problem in corpus.report.problems] == ["a"]


async def test_projects_of_one_name_are_all_kept_with_their_folders_in_the_id(tmp_path):
    folders = ["x/p", "y/p", "z/y/p", "w/z/y/p", "p@y", "q"]
    write(tmp_path, {f"{folder}/setup.cfg": f"[metadata]\ndescription={folder}" for folder in folders})
    write(tmp_path, {"all.pth": "\n".join(folders)})
    packages, _ = await read_items(from_packages(manifest=tmp_path / "all.pth"))
    assert list(packages) == ["p", "p@y", "p@z/y", "p@w/z/y", f"p@y@{tmp_path.name}", "q"]
    assert [package.raw["description"] for package in packages.values()] == folders
    assert [package.raw["name"] for package in packages.values()] == ["p", "p", "p", "p", "p@y", "q"]


async def test_no_id_of_a_project_is_an_absolute_path(tmp_path):
    """Clients of a server see ids."""
    write(tmp_path, {"all.pth": "/nowhere/p\n/nowhere/z/p\n/z/p\n"})
    _, problems = await read_items(from_packages(manifest=tmp_path / "all.pth"))
    assert [problem.item for problem in problems] == ["p", "p@z", "p@z#2"]


async def test_listed_projects_are_excluded_by_name_or_path(tmp_path):
    write(tmp_path, {f"{folder}/setup.cfg": "" for folder in ("x/p", "y/p", "y/q", "z/r")})
    write(tmp_path, {"all.pth": "x/p\ny/p\ny/q\nz/r\n"})
    source = from_packages(manifest=tmp_path / "all.pth", exclude=["*/y/*", "r"])
    assert list((await read_items(source))[0]) == ["p"]
    assert source.excluded() == {"excluded": [str(tmp_path / each) for each in ("y/p", "y/q", "z/r")]}


async def test_a_missing_list_or_folder_or_one_without_projects_is_an_error_on_reading(tmp_path):
    write(tmp_path, {"file": "", "empty.pth": "# nothing\n", "latin.pth": b"\xff", "dir.pth/x": "", "none/x/y": ""})
    for options, words in [
        ({"root": "gone"}, "gone"),
        ({"root": "file"}, "file"),
        ({"root": "none"}, r"no folder in .*none' has pyproject\.toml or setup\.cfg or package\.json$"),
        ({"manifest": "gone.pth"}, "gone"),
        ({"manifest": "dir.pth"}, "not a file"),
        ({"manifest": "latin.pth"}, r"latin\.pth"),
        ({"manifest": "empty.pth"}, "lists no folder"),
    ]:
        source = from_packages(**{key: tmp_path / name for key, name in options.items()})
        with pytest.raises(SourceError, match=words):
            await read_items(source)


async def test_the_paths_of_a_relative_folder_are_absolute(tmp_path, monkeypatch):
    write(tmp_path, {"projects/p/setup.cfg": "", "here/x": ""})
    monkeypatch.chdir(tmp_path / "here")
    packages, _ = await read_items(from_packages(root="../projects"))
    assert packages["p"].metadata == {"path": str(tmp_path / "projects" / "p")}


async def test_projects_whose_names_are_not_valid_text_are_problems(tmp_path):
    write(tmp_path, {"p/setup.cfg": ""})
    write(tmp_path / os.fsdecode(b"caf\xe9"), {"setup.cfg": "x"})
    packages, problems = await read_items(from_packages(root=tmp_path))
    assert list(packages) == ["p"]
    assert {problem.item.encode() for problem in problems} >= {b"caf\\udce9"}


async def test_a_project_whose_folder_cannot_be_listed_is_a_problem(tmp_path, monkeypatch):
    write(tmp_path, {"p/setup.cfg": "", "q/setup.cfg": ""})
    listed = Path.iterdir

    def refuse(path):
        if path.name == "q":
            raise PermissionError(errno.EACCES, "not yours", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)  # as root, a test can list any folder
    packages, (problem,) = await read_items(from_packages(root=tmp_path))
    assert list(packages) == ["p"]
    assert (problem.item, problem.lost) == ("q", True)
    assert "not yours" in problem.reason


parts = st.sampled_from(["a", "b", "a@b", "b@a"])


@given(st.lists(st.lists(parts, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12, unique=True))
async def test_no_two_folders_ever_share_an_id(tmp_path_factory, folders):
    manifest = tmp_path_factory.getbasetemp() / "law.pth"
    manifest.write_text("\n".join(folders))
    packages, problems = await read_items(from_packages(manifest=manifest))
    assert packages == {}
    ids = [problem.item for problem in problems]
    assert len(set(ids)) == len(folders)
    names = [folder.split("/")[-1] for folder in folders]
    assert all(id == name or id.startswith(f"{name}@") for id, name in zip(ids, names, strict=True))
    assert ids[0] == names[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"manifest": "a.pth", "root": "b"}, "both set"),
        ({"readme_chars": -1}, "readme_chars"),
        ({"readme_chars": True}, "readme_chars"),
        ({"exclude": "numpy"}, "exclude"),
        ({"exclude": [3]}, "exclude"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_settings_that_cannot_work_are_refused_on_construction(settings, words):
    with pytest.raises(ArgumentError, match=words):
        from_packages(**settings)


def test_the_defaults_are_as_documented_and_nothing_is_read_at_the_call():
    source = from_packages(root="gone")
    assert isinstance(source, Source)
    assert (source.name, source.indexing_strategy, source.embedder) == ("packages", Package(), "default")
    assert from_packages(strategy=WholeText(), name="x").indexing_strategy == WholeText()
