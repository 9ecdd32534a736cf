"""Packages: the distributions of this Python environment, or projects in folders."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airw._base.checks import check_count, check_strings
from airw._base.requirements import distribution_name
from airw.errors import ArgumentError, SourceError
from airw.indexing import Package
from airw.links import DependencyLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources._projects import PARSERS, read_project
from airw.sources.files import grouped, printable
from airw.sources.source import PAGE, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

if TYPE_CHECKING:
    from importlib.metadata import Distribution, PackageMetadata

README_CHARS = 20_000
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_EXTRA = re.compile(r"\bextra\b")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which packages are taken, and how much of each."""

    exclude: Sequence[str]
    readme_chars: int

    @property
    def but_excluded(self) -> str:
        return f", but what exclude {list(self.exclude)} leaves out" if self.exclude else ""

    def leaves_out(self, *spellings: str) -> bool:
        return any(fnmatchcase(each, pattern) for each in spellings for pattern in self.exclude)

    def artifact(self, artifact_id: str, fields: Mapping[str, Any], metadata: Mapping[str, str]) -> Artifact:
        readme = fields["readme"]
        known = {key: value for key, value in metadata.items() if value}
        cut = {"readme_cut": True} if len(readme) > self.readme_chars else {}
        return Artifact(artifact_id, {**fields, "readme": readme[: self.readme_chars]}, {**known, **cut})


class _Scope(Protocol):
    """Where packages are looked for."""

    def items(self) -> Iterator[Item]: ...
    def excluded(self) -> dict[str, list[str]]: ...


@dataclass(frozen=True, slots=True)
class _Installed:
    """One distribution, or what is left of one.

    Args:
        place: Where its metadata lie.
        name: As it is spelled there; blank where the metadata cannot be read.
        version: Blank where there is none.
        fields: What is indexed of it.
        metadata: What else is known of it.
    """

    place: str
    name: str = ""
    version: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the name as PEP 503 spells it, so that requirements find it."""
        return distribution_name(self.name)


@dataclass(frozen=True, slots=True)
class _Environment:
    """The distributions that this Python process can import."""

    shape: _Shape

    def items(self) -> Iterator[Item]:
        first: dict[str, str] = {}
        for each in _installed():
            if not each.name:
                yield ItemProblem(each.place, "the metadata of this distribution cannot be read: install it again")
            elif self.shape.leaves_out(each.name, each.id):
                continue
            elif each.id in first:
                reason = f"version {each.version} in {each.place!r} is not what is imported: {first[each.id]} is"
                yield ItemProblem(each.id, reason, lost=False)
            else:
                first[each.id] = f"version {each.version} in {each.place!r}"
                yield self.shape.artifact(each.id, {**each.fields, "owner": "installed"}, each.metadata)
        if not first:
            raise SourceError(f"no package in this Python environment{self.shape.but_excluded}")

    def excluded(self) -> dict[str, list[str]]:
        names = [each.name for each in _installed() if self.shape.leaves_out(each.name, each.id)]
        return grouped(("excluded", name) for name in names)


def _installed() -> Iterator[_Installed]:
    """Read the distributions in the order in which an import looks for them, those of one folder by name.

    A folder that is on the path twice counts once.
    """
    from importlib.metadata import distributions

    found: dict[str, Distribution] = {}
    for each in distributions():
        found.setdefault(_place(each), each)
    order = {folder: at for at, folder in enumerate(dict.fromkeys(map(_folder, found.values())))}
    for place in sorted(found, key=lambda place: (order[_folder(found[place])], place)):
        yield _read_distribution(place, found[place])


def _folder(distribution: "Distribution") -> str:
    return str(distribution.locate_file(""))


def _place(distribution: "Distribution") -> str:
    # Public names lead to the folder it is installed in only; finders other than importlib's may have no path at all.
    return str(getattr(distribution, "_path", None) or _folder(distribution))


def _read_distribution(place: str, distribution: "Distribution") -> _Installed:
    try:
        about = distribution.metadata
        name = _said(about, "Name")
        required = about.get_all("Requires-Dist") or distribution.requires or ()
    except Exception:  # noqa: BLE001 - whatever a finder raises, this distribution cannot be read
        return _Installed(place)
    version = _said(about, "Version")
    fields = {
        "name": name,
        "description": _said(about, "Summary"),
        "readme": _said(about, "Description"),
        "deps": [each for each in required if not _is_of_extra(each)],
    }
    metadata = {"version": version, "home_page": _home_page(about), "path": _file(place)}
    return _Installed(place, name, version, fields, metadata)


def _said(about: "PackageMetadata", name: str) -> str:
    value = str(about[name]) if name in about else ""
    return "" if value.strip() == "UNKNOWN" else value.strip()  # what setuptools once wrote for nothing


def _home_page(about: "PackageMetadata") -> str:
    labelled = (each.partition(",") for each in about.get_all("Project-URL") or ())
    urls = {re.sub(r"[\W_]", "", label).casefold(): url.strip() for label, _, url in labelled}
    return _said(about, "Home-page") or urls.get("homepage", "")


def _file(place: str) -> str:
    """Return the file of the metadata, which also holds the long description; blank where there is none."""
    return next((str(file) for name in ("METADATA", "PKG-INFO", "") if (file := Path(place, name)).is_file()), "")


def _is_of_extra(requirement: str) -> bool:
    return _EXTRA.search(_QUOTED.sub("", requirement.partition(";")[2])) is not None


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The projects that a `.pth` file lists."""

    path: Path
    shape: _Shape

    def items(self) -> Iterator[Item]:
        listed = [folder for folder in self._listed() if not self._leaves_out(folder)]
        if not listed:
            raise SourceError(f"{str(self.path)!r} lists no folder, one a line{self.shape.but_excluded}")
        for artifact_id, folder in _named(listed):
            yield from _project(artifact_id, folder, self.shape)

    def excluded(self) -> dict[str, list[str]]:
        return grouped(("excluded", str(folder)) for folder in self._listed() if self._leaves_out(folder))

    def _leaves_out(self, folder: Path) -> bool:
        return self.shape.leaves_out(folder.name, folder.as_posix())

    def _listed(self) -> list[Path]:
        """Read the lines as Python does at its start: relative ones from the file's folder, each folder once."""
        if self.path.exists() and not self.path.is_file():
            raise SourceError(f"the list of projects is not a file: {str(self.path)!r}")
        try:
            lines = self.path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read the list of projects {str(self.path)!r}: {error}") from error
        listed = [line for line in lines if line.strip() and not line.startswith(("#", "import ", "import\t"))]
        return list(dict.fromkeys(_absolute(self.path.parent / line.rstrip()) for line in listed))


@dataclass(frozen=True, slots=True)
class _Root:
    """The projects right below a folder."""

    path: Path
    shape: _Shape

    def items(self) -> Iterator[Item]:
        folders = [folder for folder in self._folders() if self._reason(folder) is None]
        if not folders:
            wanted = " or ".join(PARSERS)
            raise SourceError(f"no folder in {str(self.path)!r} has {wanted}{self.shape.but_excluded}")
        for folder in folders:
            yield from _project(folder.name, folder, self.shape)

    def excluded(self) -> dict[str, list[str]]:
        return grouped((self._reason(folder), folder.name) for folder in self._folders())

    def _folders(self) -> list[Path]:
        try:
            folders = [each for each in _absolute(self.path).iterdir() if each.is_dir()]
        except OSError as error:
            raise SourceError(f"cannot list the folder of projects {str(self.path)!r}: {error.strerror}") from error
        return sorted(folders)

    def _reason(self, folder: Path) -> str | None:
        if folder.is_symlink():
            return "a link"
        if self.shape.leaves_out(folder.name, folder.as_posix()):
            return "excluded"
        try:
            return "no project" if PARSERS.keys().isdisjoint(_names(folder)) else None
        except OSError:
            return None  # which is told when it is read


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def _named(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield each folder with an id of its own: its name, or the name with as many folders above as tell it apart."""
    taken: set[str] = set()
    for folder in folders:
        *above, name = folder.parts
        nearer = (f"{name}@{'/'.join(above[-count:])}" for count in range(1, len(above) + 1))
        artifact_id = next(each for each in (name, *nearer) if each not in taken)
        taken.add(artifact_id)
        yield artifact_id, folder


def _project(artifact_id: str, folder: Path, shape: _Shape) -> Iterator[Item]:
    try:
        names = _names(folder)
    except (OSError, ValueError) as error:
        yield ItemProblem(printable(artifact_id), f"the project's folder cannot be listed: {error}")
        return
    project = read_project(folder, names)
    for problem in project.problems:
        yield ItemProblem(printable(artifact_id), problem, lost=False)
    fields = {
        "name": folder.name,
        "description": project.description,
        "readme": project.readme,
        "owner": "ours",
        "deps": list(project.deps),
    }
    yield shape.artifact(artifact_id, fields, {"path": str(folder)})


def from_packages(
    *,
    name: str = "packages",
    manifest: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    readme_chars: int = README_CHARS,
    exclude: Sequence[str] = (),
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
) -> CorpusSource:
    """Make a source of packages: those installed in this Python environment, or the projects of `manifest` or `root`.

    The raw values are mappings of `name`, `description`, `readme`, `owner` and `deps`, which `Package` reads.

    Installed distributions have their name as PEP 503 spells it as id, `"installed"` as owner, as `deps` what they
    require without extras, and as metadata `version`, `home_page` and `path`, the file with their long description.
    Of two with one name the first on the path is taken, the other is a problem with `lost=False`.

    A project has its folder's name as id and `name` (a further one of the same name is `name@parent`, or with as many
    folders as tell it apart), `"ours"` as owner, and as metadata its `path`. Each field is taken from the first that
    has it: `pyproject.toml` (PEP 621, then Poetry's tables), `setup.cfg`, `package.json`. The README is the one they
    declare, else README.md, .rst or .txt. A file that cannot be read, and a field that only the build could tell, is
    a problem with `lost=False` that names the file; a listed folder that is not there is a lost one.

    Args:
        name: The default name of the corpus.
        manifest: A `.pth` file with a project's folder a line.
        root: A folder; its direct subfolders that have a `pyproject.toml`, `setup.cfg` or `package.json` are projects.
        readme_chars: Characters of a README, at most; of one cut there the metadata say `readme_cut`.
        exclude: Names, or patterns as of `fnmatch`, of packages to leave out; of projects also paths.
        strategy: Decomposes the packages; `Package()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the packages' links; `DependencyLinks()` unless given.

    Raises:
        ArgumentError: Both `manifest` and `root` are given, or `name`, `readme_chars` or `exclude` cannot be used.
        SourceError: While iterating: manifest or root is missing or cannot be read, or there is no package.

    Example:
        >>> source = from_packages(exclude=["types-*"])
        >>> source.name, source.indexing_strategy.chunk_size
        ('packages', 1500)
    """
    scope = _scope(manifest, root, _Shape(check_strings("exclude", exclude), check_count("readme_chars", readme_chars)))

    def pages() -> Pages:
        items = scope.items()
        while page := list(islice(items, PAGE)):
            yield page

    return CorpusSource(
        name,
        pages,
        strategy or Package(),
        embedder=embedder,
        edge_extractor=edge_extractor or DependencyLinks(),
        excluded=scope.excluded,
    )


def _scope(manifest: str | os.PathLike[str] | None, root: str | os.PathLike[str] | None, shape: _Shape) -> _Scope:
    if manifest is not None and root is not None:
        raise ArgumentError("give manifest or root, not both: either says where the projects are")
    if manifest is not None:
        return _Manifest(Path(manifest), shape)
    return _Environment(shape) if root is None else _Root(Path(root), shape)
