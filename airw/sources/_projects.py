"""Projects as their files describe them: pyproject.toml, setup.cfg, package.json, README."""

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
    """The description of a project.

    Args:
        description: One line; empty if no file has it.
        deps: The dependencies as written: requirements, or names alone if versions do not follow PEP 508.
        readme: The whole text.
        problems: The parts that could not be read, one line each.
    """

    description: str
    deps: Sequence[str]
    readme: str
    problems: Sequence[str]


@dataclass(slots=True)
class _ProjectFile:
    """The fields of one project file, and its problems.

    Args:
        description: Empty if the file has none.
        deps: `None` if the file has none.
        readme: The text, if the file contains it.
        readme_file: The name of the README, if the file declares one.
        unresolved: The reason why a field has no value, if the file refers to another place; by field.
        problems: The parts that could not be read, one line each.
    """

    description: str = ""
    deps: list[str] | None = None
    readme: str = ""
    readme_file: str = ""
    unresolved: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def as_table(self, value: Any, where: str) -> Mapping[str, Any]:
        return self._as_type(value, where, dict, "a table") or {}

    def as_text(self, value: Any, where: str) -> str:
        return (self._as_type(value, where, str, "a string") or "").strip()

    def as_texts(self, value: Any, where: str) -> list[str] | None:
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            value = short_repr(value)
        return self._as_type(value, where, list, "a list of strings")

    def _as_type(self, value: Any, where: str, type_: type[Kind], type_name: str) -> Kind | None:
        if value is None or isinstance(value, type_):
            return value
        self.problems.append(f"{where} must be {type_name}, not {short_repr(value)}")
        return None


def read_project(folder: Path, names: Collection[str]) -> Project:
    """Read a project; each field comes from the first file that has it, in order of `PARSERS`.

    Args:
        folder: The folder of the project.
        names: The names of the files in it.
    """
    folder_reader = Folder(folder)
    files = [_read_file(folder_reader, name, parse) for name, parse in PARSERS.items() if name in names]
    description = next((file.description for file in files if file.description), "")
    deps = next((file.deps for file in files if file.deps is not None), None)
    problems = [problem for file in files for problem in file.problems]
    missing = ["description"] * (not description) + ["dependencies"] * (deps is None)
    for name in missing:
        problems += [file.unresolved[name] for file in files if name in file.unresolved]
    readme = _read_readme(folder_reader, names, files, problems)
    return Project(description, deps or [], readme, problems)


def _read_file(folder: Folder, name: str, parse: Callable[[str, _ProjectFile], None]) -> _ProjectFile:
    file = _ProjectFile()
    item = folder.read(name)
    if isinstance(item, ItemProblem):
        file.problems.append(item.reason)
    else:
        try:
            parse(item.raw, file)
        except (ValueError, RecursionError) as error:
            file.problems.append(f"cannot be parsed: {one_line(str(error))}")
    file.problems = [f"{name}: {problem}" for problem in file.problems]
    file.unresolved = {key: f"{name}: {reason}" for key, reason in file.unresolved.items()}
    return file


def _parse_pyproject(text: str, file: _ProjectFile) -> None:
    import tomllib

    data = tomllib.loads(text)
    project = file.as_table(data.get("project"), "[project]")
    poetry = file.as_table(file.as_table(data.get("tool"), "[tool]").get("poetry"), "[tool.poetry]")
    file.description = file.as_text(project.get("description"), "description")
    file.description = file.description or file.as_text(poetry.get("description"), "[tool.poetry] description")
    file.deps = file.as_texts(project.get("dependencies"), "dependencies")
    if "dependencies" not in project and "dependencies" in poetry:
        file.deps = _poetry_dependencies(file.as_table(poetry["dependencies"], "[tool.poetry.dependencies]"))
    for name in file.as_texts(project.get("dynamic"), "dynamic") or ():
        file.unresolved[name] = f"{name} is dynamic, so only a build could compute it; list it in a file"
    _declare_readme(project.get("readme") or poetry.get("readme"), file)


def _poetry_dependencies(table: Mapping[str, Any]) -> list[str]:
    # Names alone, because Poetry's versions do not follow PEP 508. An optional dependency belongs to an extra.
    optional = {name for name, value in table.items() if isinstance(value, dict) and value.get("optional")}
    return [name for name in table if name != "python" and name not in optional]


def _declare_readme(value: Any, file: _ProjectFile) -> None:
    if isinstance(value, dict):
        file.readme = file.as_text(value.get("text"), "the text of readme")
        file.readme_file = file.as_text(value.get("file"), "the file of readme")
    else:
        is_list = isinstance(value, list) and value  # Poetry accepts several files
        file.readme_file = file.as_text(value[0] if is_list else value, "readme")


def _parse_setup_cfg(text: str, file: _ProjectFile) -> None:
    import configparser

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error

    def read_option(section: str, option: str, field: str) -> str:
        value = parser.get(section, option, fallback="").strip()
        if not value.startswith(("file:", "attr:")):
            return value
        file.unresolved[field] = f"{option} is {value!r}, which is not followed"
        return ""

    file.description = read_option("metadata", "description", "description")
    requirements = read_option("options", "install_requires", "dependencies")
    # As setuptools reads it: one requirement per line or, on a single line, separated by semicolons.
    lines = map(str.strip, requirements.splitlines() if "\n" in requirements else requirements.split(";"))
    file.deps = [line for line in lines if line] or None


def _parse_package_json(text: str, file: _ProjectFile) -> None:
    data = file.as_table(json.loads(text), "it")
    file.description = file.as_text(data.get("description"), "description")
    if "dependencies" in data:
        file.deps = list(file.as_table(data["dependencies"], "dependencies"))


PARSERS: dict[str, Callable[[str, _ProjectFile], None]] = {
    "pyproject.toml": _parse_pyproject,
    "setup.cfg": _parse_setup_cfg,
    "package.json": _parse_package_json,
}
"""The files that make a folder a project, in order of precedence."""


def _read_readme(folder: Folder, names: Collection[str], files: Sequence[_ProjectFile], problems: list[str]) -> str:
    """Return the README that a file declares, else the first of `READMES`; add problems."""
    if text := next((file.readme for file in files if file.readme), ""):
        return text
    declared = [file.readme_file for file in files if file.readme_file]
    spelling_of = {name.casefold(): name for name in sorted(names, reverse=True)}
    usual = [spelling_of[name] for name in READMES if name in spelling_of]
    for name in dict.fromkeys([*declared, *usual]):
        item = _read_text(folder, name)
        if not isinstance(item, ItemProblem):
            return item
        problems.append(f"{item.item}: {item.reason}")
    return ""


def _read_text(folder: Folder, name: str) -> str | ItemProblem:
    path = folder.root / name
    if not os.path.lexists(path):
        return ItemProblem(name, "the readme that the project declares does not exist")
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder.root)):
        return ItemProblem(name, "leads out of the folder of the project")
    item = folder.read(name)
    return item if isinstance(item, ItemProblem) else str(item.raw)
