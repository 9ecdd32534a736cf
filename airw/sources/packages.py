"""A source of packages: distributions of this Python environment, or projects in folders."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airw._base.checks import check_count, check_flag, check_strings
from airw._base.requirements import distribution_name
from airw.errors import ArgumentError, SourceError
from airw.indexing import Package
from airw.links import DependencyLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources._projects import PARSERS, read_project
from airw.sources.files import HIDDEN, IGNORED, Folder, group_by_reason, to_printable
from airw.sources.source import PAGE, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

if TYPE_CHECKING:
    from importlib.metadata import Distribution, PackageMetadata

README_CHARS = 20_000
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_EXTRA = re.compile(r"\bextra\b")


@dataclass(frozen=True, slots=True)
class _PackageOptions:
    """The packages to leave out, and the characters of a README to keep."""

    exclude: Sequence[str]
    readme_chars: int

    @property
    def error_suffix(self) -> str:
        """The note on excluded packages for an error that no package was found."""
        return f", except those in exclude {list(self.exclude)}" if self.exclude else ""

    def excludes(self, *spellings: str) -> bool:
        """Return whether a pattern matches one of the spellings of a package's name."""
        return any(fnmatchcase(spelling, pattern) for spelling in spellings for pattern in self.exclude)

    def to_artifact(self, artifact_id: str, fields: Mapping[str, Any], metadata: Mapping[str, str]) -> Artifact:
        """Return an artifact with a cut README and without empty metadata."""
        readme = fields["readme"]
        all_metadata: dict[str, Any] = {key: value for key, value in metadata.items() if value}
        if len(readme) > self.readme_chars:
            all_metadata["readme_cut"] = True
        return Artifact(artifact_id, {**fields, "readme": readme[: self.readme_chars]}, all_metadata)


class _PackageScope(Protocol):
    """The place where packages are searched."""

    def items(self) -> Iterator[Item]: ...
    def find_excluded(self) -> dict[str, list[str]]: ...


@dataclass(frozen=True, slots=True)
class _InstalledPackage:
    """A distribution of the environment, perhaps a damaged one.

    Args:
        location: The folder or file of its metadata.
        name: The name as spelled there; empty if the metadata cannot be read.
        version: The version; empty if there is none.
        fields: The fields to index.
        metadata: Further fields.
    """

    location: str
    name: str = ""
    version: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in the spelling of PEP 503, which links from requirements use."""
        return distribution_name(self.name)


@dataclass(frozen=True, slots=True)
class _Environment:
    """The distributions that this Python process can import."""

    options: _PackageOptions

    def items(self) -> Iterator[Item]:
        first: dict[str, str] = {}
        for package in _read_environment():
            if not package.name:
                reason = "the metadata of this distribution cannot be read; install it again"
                yield ItemProblem(package.location, reason)
            elif self.options.excludes(package.name, package.id):
                continue
            elif package.id in first:
                reason = f"version {package.version} in {package.location!r} is hidden by {first[package.id]}"
                yield ItemProblem(package.id, reason, lost=False)
            else:
                first[package.id] = f"version {package.version} in {package.location!r}"
                yield self.options.to_artifact(package.id, {**package.fields, "owner": "installed"}, package.metadata)
        if not first:
            raise SourceError(f"no package in this Python environment{self.options.error_suffix}")

    def find_excluded(self) -> dict[str, list[str]]:
        packages = (package for package in _read_environment() if self.options.excludes(package.name, package.id))
        return group_by_reason(("excluded", package.name) for package in packages)


def _read_environment() -> Iterator[_InstalledPackage]:
    """Yield the distributions in the order of an import: by folder, then by location."""
    from importlib.metadata import distributions

    # A folder that is on the path twice has the same locations twice: keep the first of each.
    by_location: dict[str, Distribution] = {}
    for distribution in distributions():
        by_location.setdefault(_location(distribution), distribution)
    folders = dict.fromkeys(map(_folder, by_location.values()))
    order = {folder: index for index, folder in enumerate(folders)}
    for location in sorted(by_location, key=lambda location: (order[_folder(by_location[location])], location)):
        yield _read_distribution(location, by_location[location])


def _folder(distribution: "Distribution") -> str:
    return str(distribution.locate_file(""))


def _location(distribution: "Distribution") -> str:
    # The public methods return only the folder of the installation. Other finders than importlib's may have no path.
    return str(getattr(distribution, "_path", None) or _folder(distribution))


def _read_distribution(location: str, distribution: "Distribution") -> _InstalledPackage:
    try:
        metadata = distribution.metadata
        name = _read_field(metadata, "Name")
        requirements = metadata.get_all("Requires-Dist") or distribution.requires or ()
    except Exception:  # noqa: BLE001 - a finder may raise any error: this distribution cannot be read
        return _InstalledPackage(location)
    version = _read_field(metadata, "Version")
    fields = {
        "name": name,
        "description": _read_field(metadata, "Summary"),
        "readme": _read_field(metadata, "Description"),
        "deps": [requirement for requirement in requirements if not _belongs_to_extra(requirement)],
    }
    more = {"version": version, "home_page": _home_page(metadata), "path": _metadata_file(location)}
    return _InstalledPackage(location, name, version, fields, more)


def _read_field(metadata: "PackageMetadata", name: str) -> str:
    value = str(metadata[name]) if name in metadata else ""
    return "" if value.strip() == "UNKNOWN" else value.strip()  # old versions of setuptools wrote it for no value


def _home_page(metadata: "PackageMetadata") -> str:
    entries = (entry.partition(",") for entry in metadata.get_all("Project-URL") or ())
    urls = {re.sub(r"[\W_]", "", label).casefold(): url.strip() for label, _, url in entries}
    return _read_field(metadata, "Home-page") or urls.get("homepage", "")


def _metadata_file(location: str) -> str:
    """Return the file of the metadata, which contains the long description, too; or `""`."""
    return next((str(file) for name in ("METADATA", "PKG-INFO", "") if (file := Path(location, name)).is_file()), "")


def _belongs_to_extra(requirement: str) -> bool:
    return _EXTRA.search(_QUOTED.sub("", requirement.partition(";")[2])) is not None


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The projects that a `.pth` file lists."""

    path: Path
    options: _PackageOptions

    def items(self) -> Iterator[Item]:
        folders = [folder for folder in self._read_folders() if not self._excludes(folder)]
        if not folders:
            raise SourceError(f"{str(self.path)!r} lists no folder{self.options.error_suffix}; write one per line")
        for artifact_id, folder in _add_ids(folders):
            yield from _read_items(artifact_id, folder, self.options)

    def find_excluded(self) -> dict[str, list[str]]:
        return group_by_reason(("excluded", str(folder)) for folder in self._read_folders() if self._excludes(folder))

    def _excludes(self, folder: Path) -> bool:
        return self.options.excludes(folder.name, folder.as_posix())

    def _read_folders(self) -> list[Path]:
        """Return the folders without duplicates, as Python reads them when it starts."""
        if self.path.exists() and not self.path.is_file():
            raise SourceError(f"the manifest {str(self.path)!r} is not a file")
        try:
            lines = self.path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read the manifest {str(self.path)!r}: {error}") from error
        paths = [line for line in lines if line.strip() and not line.startswith(("#", "import ", "import\t"))]
        # Relative paths begin at the folder of the file.
        return list(dict.fromkeys(_to_absolute(self.path.parent / path.rstrip()) for path in paths))


@dataclass(frozen=True, slots=True)
class _ProjectsFolder:
    """The projects in the direct subfolders of a folder."""

    path: Path
    options: _PackageOptions

    hidden: bool

    def items(self) -> Iterator[Item]:
        reasons = self._find_reasons()
        folders = [folder for folder, reason in reasons.items() if reason is None]
        if not folders:
            files = " or ".join(PARSERS)
            raise SourceError(f"no folder in {str(self.path)!r} has {files}{self.options.error_suffix}")
        for folder in folders:
            yield from _read_items(folder.name, folder, self.options)

    def find_excluded(self) -> dict[str, list[str]]:
        return group_by_reason((reason, folder.name) for folder, reason in self._find_reasons().items())

    def count_left_out(self) -> dict[str, int]:
        reasons = [*self._find_reasons().values()]
        return {reason: reasons.count(reason) for reason in (HIDDEN, IGNORED) if reason in reasons}

    def _find_reasons(self) -> dict[Path, str | None]:
        """Return the subfolders in order of name, each with the reason for which it is left out."""
        folders = self._list_folders()
        listing = Folder(_to_absolute(self.path), hidden=self.hidden).list_files(lambda path: "/" not in path)
        left_out = {path: reason for reason, paths in listing.left_out.items() for path in paths}
        return {folder: self._exclusion_reason(folder) or left_out.get(f"{folder.name}/") for folder in folders}

    def _list_folders(self) -> list[Path]:
        try:
            folders = [path for path in _to_absolute(self.path).iterdir() if path.is_dir()]
        except OSError as error:
            raise SourceError(f"cannot list the folder of projects {str(self.path)!r}: {error.strerror}") from error
        return sorted(folders)

    def _exclusion_reason(self, folder: Path) -> str | None:
        if folder.is_symlink():
            return "a link"
        if self.options.excludes(folder.name, folder.as_posix()):
            return "excluded"
        try:
            return "no project" if PARSERS.keys().isdisjoint(_list_names(folder)) else None
        except OSError:
            return None  # `_read_items` reports it


def _to_absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


def _list_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _add_ids(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield each folder with a unique id.

    The id is the name of the folder or, if it is used already, the name with as many parents as make it unique. Clients
    of a server see ids, so none contains an absolute path: rather, a number follows.
    """
    used_ids: set[str] = set()
    for folder in folders:
        *parents, name = folder.relative_to(folder.anchor).parts
        longer_ids = [f"{name}@{'/'.join(parents[-count:])}" for count in range(1, len(parents) + 1)]
        possible_ids = [name, *longer_ids]
        numbered_ids = (f"{possible_ids[-1]}#{number}" for number in range(2, len(folders) + 2))
        artifact_id = next(each for each in (*possible_ids, *numbered_ids) if each not in used_ids)
        used_ids.add(artifact_id)
        yield artifact_id, folder


def _read_items(artifact_id: str, folder: Path, options: _PackageOptions) -> Iterator[Item]:
    try:
        names = _list_names(folder)
    except (OSError, ValueError) as error:
        yield ItemProblem(to_printable(artifact_id), f"the folder of the project cannot be listed: {error}")
        return
    project = read_project(folder, names)
    for problem in project.problems:
        yield ItemProblem(to_printable(artifact_id), problem, lost=False)
    fields = {
        "name": folder.name,
        "description": project.description,
        "readme": project.readme,
        "owner": "ours",
        "deps": list(project.deps),
    }
    yield options.to_artifact(artifact_id, fields, {"path": str(folder)})


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
    hidden: bool = False,
) -> CorpusSource:
    """Return a source of the installed packages, or of the projects of `manifest` or `root`.

    Without `manifest` and `root`, the packages are those of this Python environment. The raw values are mappings of
    `name`, `description`, `readme`, `owner` and `deps`, which `Package` reads.

    An installed distribution:

    - has its name as id, in the spelling of PEP 503;
    - has the owner `"installed"`;
    - has as `deps` its requirements without those of extras;
    - has the metadata `version`, `home_page` and `path`, the file with its long description.

    If two have the same name, the first on the path is indexed; the other is a problem with `lost=False`.

    A project:

    - has the name of its folder as id and as `name`; if an earlier project has that id, the id is `name@parent`, with
      as many parents as make it unique. If no parent is left, a number follows: `#2`;
    - has the owner `"ours"`, and the metadata `path`;
    - has each field from the first file that has it: `pyproject.toml` (PEP 621, then Poetry's tables), `setup.cfg`,
      `package.json`;
    - has the README that these files declare, else README.md, .rst or .txt.

    A file that cannot be read, and a field that only a build could compute, is a problem with `lost=False`. A folder
    that is listed but does not exist is a problem with `lost=True`.

    Args:
        name: The name of the source, and the default name of the corpus.
        manifest: A `.pth` file with the folder of a project on each line.
        root: A folder. Its direct subfolders with a `pyproject.toml`, `setup.cfg` or `package.json` are projects,
            except those that are hidden, named `node_modules`, or named in a `.gitignore`.
        readme_chars: The most characters of a README to keep. If one is cut, its metadata contain `readme_cut`.
        exclude: Names of packages to leave out, or patterns for `fnmatch`; for projects also paths.
        strategy: The strategy that splits the packages into surfaces; `Package()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the packages' links; `DependencyLinks()` by default.
        hidden: Also read the projects of `root` that are hidden, named `node_modules`, or named in a `.gitignore`.

    Raises:
        ArgumentError: If `manifest` and `root` are both set, or another argument is not valid.
        SourceError: During iteration, if manifest or root is missing or cannot be read, or there is no package.

    Example:
        >>> source = from_packages(exclude=["types-*"])
        >>> source.name, source.indexing_strategy.chunk_size
        ('packages', 1500)
    """
    options = _PackageOptions(check_strings("exclude", exclude), check_count("readme_chars", readme_chars))
    scope = _choose_scope(manifest, root, options, hidden=check_flag("hidden", hidden))

    def pages() -> Pages:
        items = scope.items()
        while page := list(islice(items, PAGE)):
            yield page

    return CorpusSource(
        name,
        pages,
        Package() if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=DependencyLinks() if edge_extractor is None else edge_extractor,
        excluded=scope.find_excluded,
        left_out=scope.count_left_out if isinstance(scope, _ProjectsFolder) else None,
    )


def _choose_scope(
    manifest: str | os.PathLike[str] | None,
    root: str | os.PathLike[str] | None,
    options: _PackageOptions,
    *,
    hidden: bool,
) -> _PackageScope:
    if manifest is not None and root is not None:
        raise ArgumentError("manifest and root are both set; pass only one of them")
    if manifest is not None:
        return _Manifest(Path(manifest), options)
    return _Environment(options) if root is None else _ProjectsFolder(Path(root), options, hidden)
