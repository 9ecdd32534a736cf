"""What the files of a project say about it: pyproject.toml, setup.cfg, package.json, the README."""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from airw._base.messages import one_line, short_repr
from airw.sources.files import Folder
from airw.values import ItemProblem

Kind = TypeVar("Kind")

READMES = ("readme.md", "readme.rst", "readme.txt")


@dataclass(frozen=True, slots=True)
class Project:
    """What is known about a project.

    Args:
        description: One line; blank where no file has it.
        deps: What it needs, as its files write it: requirements, or bare names where versions are not PEP 508's.
        readme: The whole text.
        problems: What could not be read, one line each.
    """

    description: str
    deps: Sequence[str]
    readme: str
    problems: Sequence[str]


@dataclass(slots=True)
class _Said:
    """What one file says; `None` where it is silent, and why where it only names another place."""

    description: str = ""
    deps: list[str] | None = None
    readme: str = ""
    readme_file: str = ""
    elsewhere: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def table(self, value: Any, where: str) -> Mapping[str, Any]:
        return self._of_kind(value, where, dict, "a table") or {}

    def text(self, value: Any, where: str) -> str:
        return (self._of_kind(value, where, str, "a string") or "").strip()

    def texts(self, value: Any, where: str) -> list[str] | None:
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            value = short_repr(value)
        return self._of_kind(value, where, list, "a list of strings")

    def _of_kind(self, value: Any, where: str, kind: type[Kind], called: str) -> Kind | None:
        if value is None or isinstance(value, kind):
            return value
        self.problems.append(f"{where} must be {called}, not {short_repr(value)}")
        return None


def read_project(folder: Path, names: Collection[str]) -> Project:
    """Read a project: of each field what the first file that has it says, in the order of `PARSERS`.

    Args:
        folder: The project's folder.
        names: The names in it.
    """
    files = Folder(folder)
    said = [_said(files, name, parse) for name, parse in PARSERS.items() if name in names]
    description = next((each.description for each in said if each.description), "")
    deps = next((each.deps for each in said if each.deps is not None), None)
    problems = [problem for each in said for problem in each.problems]
    for missing in ["description"] * (not description) + ["dependencies"] * (deps is None):
        problems += [each.elsewhere[missing] for each in said if missing in each.elsewhere]
    readme = _readme(files, names, said, problems)
    return Project(description, deps or [], readme, problems)


def _said(files: Folder, name: str, parse: Callable[[str, _Said], None]) -> _Said:
    said = _Said()
    item = files.read(name)
    if isinstance(item, ItemProblem):
        said.problems.append(item.reason)
    else:
        try:
            parse(item.raw, said)
        except (ValueError, RecursionError) as error:
            said.problems.append(f"cannot be parsed: {one_line(str(error))}")
    said.problems = [f"{name}: {problem}" for problem in said.problems]
    said.elsewhere = {key: f"{name}: {reason}" for key, reason in said.elsewhere.items()}
    return said


def _pyproject(text: str, said: _Said) -> None:
    import tomllib

    data = tomllib.loads(text)
    project = said.table(data.get("project"), "[project]")
    poetry = said.table(said.table(data.get("tool"), "[tool]").get("poetry"), "[tool.poetry]")
    said.description = said.text(project.get("description"), "description")
    said.description = said.description or said.text(poetry.get("description"), "[tool.poetry] description")
    said.deps = said.texts(project.get("dependencies"), "dependencies")
    if "dependencies" not in project and "dependencies" in poetry:
        said.deps = _of_poetry(said.table(poetry["dependencies"], "[tool.poetry.dependencies]"))
    for name in said.texts(project.get("dynamic"), "dynamic") or ():
        said.elsewhere[name] = f"{name} is dynamic, made by the build; list it in a file to have it indexed"
    _declare_readme(project.get("readme") or poetry.get("readme"), said)


def _of_poetry(table: Mapping[str, Any]) -> list[str]:
    """Return the names; Poetry's versions are not PEP 508's, and an optional one is of an extra."""
    optional = {name for name, value in table.items() if isinstance(value, dict) and value.get("optional")}
    return [name for name in table if name != "python" and name not in optional]


def _declare_readme(value: Any, said: _Said) -> None:
    if isinstance(value, dict):
        said.readme = said.text(value.get("text"), "the readme's text")
        said.readme_file = said.text(value.get("file"), "the readme's file")
    else:  # Poetry takes several
        several = isinstance(value, list) and value
        said.readme_file = said.text(value[0] if several else value, "readme")


def _setup_cfg(text: str, said: _Said) -> None:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error

    def value(section: str, option: str, called: str) -> str:
        found = parser.get(section, option, fallback="").strip()
        if not found.startswith(("file:", "attr:")):
            return found
        said.elsewhere[called] = f"{option} is {found!r}, which is not followed"
        return ""

    said.description = value("metadata", "description", "description")
    required = value("options", "install_requires", "dependencies")
    # As setuptools reads it: a requirement a line, or, on one line, between semicolons.
    lines = map(str.strip, required.splitlines() if "\n" in required else required.split(";"))
    said.deps = [line for line in lines if line] or None


def _package_json(text: str, said: _Said) -> None:
    data = said.table(json.loads(text), "it")
    said.description = said.text(data.get("description"), "description")
    if "dependencies" in data:
        said.deps = list(said.table(data["dependencies"], "dependencies"))


PARSERS: dict[str, Callable[[str, _Said], None]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "package.json": _package_json,
}
"""The files that make a folder a project, in order of precedence."""


def _readme(files: Folder, names: Collection[str], said: Sequence[_Said], problems: list[str]) -> str:
    """Return the README that a file declares, else the first of `READMES`; each that cannot be read is a problem."""
    if given := next((each.readme for each in said if each.readme), ""):
        return given
    declared = [each.readme_file for each in said if each.readme_file]
    spelled = {name.casefold(): name for name in sorted(names, reverse=True)}
    for name in dict.fromkeys([*declared, *(spelled[each] for each in READMES if each in spelled)]):
        found = _text(files, name)
        if not isinstance(found, ItemProblem):
            return found
        problems.append(f"{found.item}: {found.reason}")
    return ""


def _text(files: Folder, name: str) -> str | ItemProblem:
    path = files.root / name
    if not os.path.lexists(path):
        return ItemProblem(name, "the readme that the project declares does not exist")
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(files.root)):
        return ItemProblem(name, "leads out of the project's folder")
    item = files.read(name)
    return item if isinstance(item, ItemProblem) else str(item.raw)
