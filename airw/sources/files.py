"""A source of the files below a folder."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.source import PAGE, CorpusSource, Item, MetadataOf, Pages, name_from
from airw.values import Artifact, ItemProblem

MARKDOWN = r".*\.md$"
MAX_BYTES = 2_000_000
"""The largest file that sources read by default: larger notes take seconds to parse, and are rarely notes."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, and the choice of the files in it to read.

    Args:
        root: The folder.
        pattern: A regular expression that the relative path must contain.
        exclude: A function of the relative path that returns True to leave the file out.
        max_bytes: The largest file to read.

    Raises:
        ArgumentError: If `pattern` is not a regular expression, or `max_bytes` is below 1.
    """

    root: Path
    pattern: str = MARKDOWN
    exclude: Callable[[str], bool] | None = None
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        """Check pattern and size."""
        check_count("max_bytes", self.max_bytes, least=1)
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise ArgumentError(
                f"pattern must be a regular expression, not {short_repr(self.pattern)}: {error}"
            ) from error

    def pages(self) -> Pages:
        """Yield the files a page at a time, in order of path; the list is made first.

        Raises:
            SourceError: If the root is missing or not a folder, or no file matches.
        """
        files, problems, folder_links = self._walk(self._enters)
        names = [name for name in files if self._exclusion_reason(name) is None]
        if not names and not problems:
            conditions = f"pattern {self.pattern!r}" + (" and exclude" if self.exclude else "")
            raise SourceError(
                f"no file below {str(self.root)!r} matches {conditions}; {len(files)} other files there, "
                "outside of hidden folders and node_modules"
            )
        if problems or folder_links:
            yield [*problems, *folder_links]
        for start in range(0, len(names), PAGE):
            yield [self.read(name) for name in names[start : start + PAGE]]

    @property
    def origin(self) -> str:
        """Return the absolute path of the folder; links in it stay."""
        return os.path.abspath(self.root)  # noqa: PTH100 - `resolve` would follow a link to the root

    def count(self) -> int:
        """Return the number of files that are read.

        Raises:
            SourceError: If the root is missing or not a folder.
        """
        return sum(self._exclusion_reason(name) is None for name in self.list_files(self._enters)[0])

    def find_excluded(self) -> dict[str, list[str]]:
        """Return the files that are left out on purpose, by reason, in order of path.

        No file is read.

        Raises:
            SourceError: If the root is missing or not a folder.
        """
        return group_by_reason((self._exclusion_reason(name), name) for name in self.list_files()[0])

    def list_files(self, enters: Callable[[str], bool] | None = None) -> tuple[list[str], list[Item]]:
        """Return the relative paths of all files, sorted, and a problem per unreadable folder.

        Args:
            enters: A function of the relative path of a folder; False leaves out everything below it.

        Raises:
            SourceError: If the root is missing, not a folder, or cannot be listed.
        """
        names, problems, _ = self._walk(enters)
        return names, problems

    def _walk(self, enters: Callable[[str], bool] | None = None) -> tuple[list[str], list[Item], list[Item]]:
        """Return the files, a problem per unreadable folder, and one per link to a folder."""
        if not self.root.is_dir():
            fault = "is not a folder" if self.root.exists() else "does not exist"
            raise SourceError(f"the folder to read {fault}: {str(self.root)!r}")
        names: list[str] = []
        problems: list[Item] = []
        folder_links: list[str] = []

        def add_problem(error: OSError) -> None:
            name = os.path.relpath(os.fsdecode(error.filename), self.root)
            if name == ".":
                raise SourceError(f"cannot list the folder {str(self.root)!r}: {error.strerror}") from error
            problems.append(ItemProblem(to_printable(name), f"the folder cannot be listed: {error.strerror}"))

        for folder, subfolders, files in os.walk(self.root, onerror=add_problem):
            path = Path(os.path.relpath(folder, self.root)).as_posix()
            prefix = "" if path == "." else f"{path}/"
            if enters is not None:
                subfolders[:] = [name for name in subfolders if enters(prefix + name)]
            names += [prefix + file for file in files]
            folder_links += [prefix + name for name in subfolders if Path(folder, name).is_symlink()]
        reason = "a link to a folder, which is not followed: the files there are not indexed under this path"
        reported = [name for name in sorted(folder_links) if not (self.exclude and self.exclude(name))]
        return sorted(names), problems, [ItemProblem(to_printable(name), reason, lost=False) for name in reported]

    def _exclusion_reason(self, name: str) -> str | None:
        """Return the reason for which a file is left out; `None` if it is read."""
        if re.search(self.pattern, name) is None:
            return "does not match the pattern"
        if not all(map(self._enters, name.split("/")[:-1])):
            return "in a hidden folder or node_modules"
        return "excluded" if self.exclude and self.exclude(name) else None

    def _enters(self, path: str) -> bool:
        """Return whether the files of a folder are read, as far as its name tells.

        Hidden folders contain what programs keep: deleted notes, settings, the history of git.
        """
        name = path.rpartition("/")[2]
        is_hidden = name.startswith(".") or name == "node_modules"
        return not is_hidden or f"{name}/" in self.pattern.replace("\\", "")

    def read(self, name: str) -> Item:
        """Return a file by its relative path, or a problem if it cannot be read."""
        try:
            name.encode()
            data = self._read_bytes(self.root / name)
            text = data.decode("utf-8-sig")
        except OSError as error:
            return ItemProblem(to_printable(name), f"cannot be read: {error.strerror or error}")
        except UnicodeEncodeError:
            return ItemProblem(to_printable(name), "the file name is not UTF-8; rename the file")
        except UnicodeDecodeError as error:
            return ItemProblem(name, f"is not UTF-8 at byte {error.start}; convert the file")
        if "\0" in text:
            return ItemProblem(name, "contains NUL bytes, so it is binary or UTF-16; exclude or convert the file")
        path = os.path.abspath(self.root / name)  # noqa: PTH100 - `resolve` would follow a link to the root
        return Artifact(name, text, {"path": path, "filename": os.path.basename(name)})  # noqa: PTH119 - a plain string

    def _read_bytes(self, path: Path) -> bytes:
        status = path.stat()  # first, because it fails for a loop of links, which `resolve` could not handle
        if path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve()):
            raise OSError("a link that leads out of the folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        data = b""
        if status.st_size <= self.max_bytes:
            with path.open("rb") as file:
                data = file.read(self.max_bytes + 1)  # the file may have grown meanwhile
        size = max(status.st_size, len(data))
        if size > self.max_bytes:
            raise OSError(f"has {size} bytes, more than max_bytes={self.max_bytes}")
        return data


def add_location(fields: Mapping[str, Any], location: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a document and those that say where it is; the document's own stay.

    If the document has a field with the name of its pointer, the pointer is in `airw_path`.

    Args:
        fields: The fields of the document.
        location: The fields that say where it is, the pointer first.

    Example:
        >>> add_location({"path": "hall 3"}, {"path": "/notes/fair.md", "filename": "fair.md"})
        {'path': 'hall 3', 'filename': 'fair.md', 'airw_path': '/notes/fair.md'}
    """
    pointer = next(iter(location))
    more = {name: value for name, value in location.items() if name not in fields}
    return {**fields, **more, **({} if pointer in more else {"airw_path": location[pointer]})}


def group_by_reason(reasons: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
    """Return paths by reason, without those that have none.

    Example:
        >>> group_by_reason([("blank", "b.md"), (None, "c.md"), ("blank", "a.md")])
        {'blank': ['b.md', 'a.md']}
    """
    paths: dict[str, list[str]] = {}
    for reason, path in reasons:
        if reason is not None:
            paths.setdefault(reason, []).append(to_printable(path))
    return paths


def to_printable(name: str) -> str:
    """Return a file name with escapes for the bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def from_files(
    root: str | os.PathLike[str],
    *,
    name: str | None = None,
    pattern: str = MARKDOWN,
    exclude: Callable[[str], bool] | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
    metadata_of: MetadataOf | None = None,
    max_bytes: int = MAX_BYTES,
) -> CorpusSource:
    r"""Return a source of the UTF-8 files below a folder.

    The ids are POSIX paths relative to the folder, sorted. Metadata are `path` (absolute) and `filename`. A byte order
    mark is removed; line ends stay unchanged. The folder is read during iteration, not in this call.

    A file is an `ItemProblem` if it is too large, binary, not UTF-8, unreadable, removed meanwhile, or a link that
    leads out of the folder. Links to folders are not followed; each is an `ItemProblem` with `lost=False`.

    Args:
        root: The folder.
        name: The name of the source. The default is the name of the folder, with `-` for invalid characters.
        pattern: A regular expression that the relative path must contain. Folders that are hidden or named
            `node_modules` are left out, unless it names them, as in `r"\.github/.*\.md$"`.
        exclude: A function of the relative path that returns True to leave the file out.
        strategy: The strategy that splits the files into surfaces; `WholeText()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the files' links; `None` for no links.
        metadata_of: A function of id and text. The fields it returns override the metadata.
        max_bytes: The largest file to read.

    Raises:
        ArgumentError: If `name`, `pattern` or `max_bytes` is not valid.
        SourceError: During iteration, if the folder is missing, not a folder or cannot be listed, or no file matches.

    Example:
        >>> from_files("my notes", pattern=r"\.(md|txt)$").name
        'my-notes'
    """
    folder = Folder(Path(root), pattern, exclude, max_bytes)
    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        folder.pages,
        WholeText() if strategy is None else strategy,
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
        excluded=folder.find_excluded,
        count=folder.count,
        origin=folder.origin,
    )


def folder_name(root: Path) -> str:
    """Return the name of a source, made from the name of its folder."""
    return name_from(Path(os.path.abspath(root)).name, "files")  # noqa: PTH100 - "..", without following links
