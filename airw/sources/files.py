"""Files below a folder, read a page at a time."""

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from airw._base.checks import check_count
from airw.errors import ArgumentError, SourceError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.source import PAGE, CorpusSource, Item, MetadataOf, Pages, name_from
from airw.values import Artifact, ItemProblem

MARKDOWN = r".*\.md$"
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Folder:
    """Which files below a root are read, and how large they may be.

    Raises:
        ArgumentError: `pattern` is not a regular expression, or `max_bytes` is below 1.
    """

    root: Path
    pattern: str = MARKDOWN
    exclude: Callable[[str], bool] | None = None
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        """Check pattern and size at birth."""
        check_count("max_bytes", self.max_bytes, least=1)
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise ArgumentError(f"pattern must be a regular expression, not {self.pattern!r}: {error}") from error

    def pages(self) -> Pages:
        """List the files, then read them a page at a time, in order of path.

        Raises:
            SourceError: The root is missing or no folder, or no file matches.
        """
        listed, problems, linked = self._walked()
        names = [name for name in listed if self._reason(name) is None]
        if not names and not problems:
            wanted = f"pattern {self.pattern!r}" + (" and exclude" if self.exclude else "")
            raise SourceError(f"no file below {str(self.root)!r} matches {wanted}; {len(listed)} seen")
        if problems or linked:
            yield [*problems, *linked]
        for first in range(0, len(names), PAGE):
            yield [self.read(name) for name in names[first : first + PAGE]]

    def excluded(self) -> dict[str, list[str]]:
        """Return the files that are left out on purpose, by reason, in order of path; none is read.

        Raises:
            SourceError: The root is missing or no folder.
        """
        return grouped((self._reason(name), name) for name in self.listed()[0])

    def listed(self, enters: Callable[[str], bool] | None = None) -> tuple[list[str], list[Item]]:
        """Return the paths of all files below the root, sorted, and the folders that cannot be listed.

        Args:
            enters: Called with the relative path of a folder; false leaves out what is below it.

        Raises:
            SourceError: The root is missing, no folder, or cannot be listed.
        """
        names, problems, _ = self._walked(enters)
        return names, problems

    def _walked(self, enters: Callable[[str], bool] | None = None) -> tuple[list[str], list[Item], list[Item]]:
        """Return the files, the folders that cannot be listed, and the links to folders, which are not followed."""
        if not self.root.is_dir():
            found = "is not a folder" if self.root.exists() else "does not exist"
            raise SourceError(f"the folder to read {found}: {str(self.root)!r}")
        names: list[str] = []
        problems: list[Item] = []
        linked: list[str] = []

        def unreadable(error: OSError) -> None:
            name = os.path.relpath(os.fsdecode(error.filename), self.root)
            if name == ".":
                raise SourceError(f"cannot list the folder {str(self.root)!r}: {error.strerror}") from error
            problems.append(ItemProblem(printable(name), f"the folder cannot be listed: {error.strerror}"))

        for folder, folders, files in os.walk(self.root, onerror=unreadable):
            below = Path(os.path.relpath(folder, self.root)).as_posix()
            prefix = "" if below == "." else f"{below}/"
            if enters is not None:
                folders[:] = [each for each in folders if enters(prefix + each)]
            names += [prefix + file for file in files]
            linked += [prefix + each for each in folders if Path(folder, each).is_symlink()]
        reason = "a link to a folder, which is not followed: what lies there is not indexed under this path"
        told = [each for each in sorted(linked) if not (self.exclude and self.exclude(each))]
        return sorted(names), problems, [ItemProblem(printable(each), reason, lost=False) for each in told]

    def _reason(self, name: str) -> str | None:
        """Return why a file is left out; `None` when it is not."""
        if re.search(self.pattern, name) is None:
            return "not of the pattern"
        return "excluded" if self.exclude and self.exclude(name) else None

    def read(self, name: str) -> Item:
        """Read one file, given by its relative path; what cannot be read is a problem."""
        try:
            name.encode()
            data = self._bytes(self.root / name)
            text = data.decode("utf-8-sig")
        except OSError as error:
            return ItemProblem(printable(name), f"cannot be read: {error.strerror or error}")
        except UnicodeEncodeError:
            return ItemProblem(printable(name), "the file's name is not UTF-8: rename it")
        except UnicodeDecodeError as error:
            return ItemProblem(name, f"is not UTF-8 at byte {error.start}: convert it")
        if "\0" in text:
            return ItemProblem(name, "holds NUL bytes: it is binary, or text in UTF-16")
        path = os.path.abspath(self.root / name)  # noqa: PTH100 - `resolve` would follow a link to the root
        return Artifact(name, text, {"path": path, "filename": os.path.basename(name)})  # noqa: PTH119 - a plain string

    def _bytes(self, path: Path) -> bytes:
        found = path.stat()  # before anything resolves the path: a loop of links ends here
        if path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve()):
            raise OSError("a link that leads out of the folder")
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a regular file")
        data = b""
        if found.st_size <= self.max_bytes:
            with path.open("rb") as file:
                data = file.read(self.max_bytes + 1)  # it may have grown since
        if max(found.st_size, len(data)) > self.max_bytes:
            raise OSError(f"larger than max_bytes ({self.max_bytes}): {max(found.st_size, len(data))} bytes")
        return data


def grouped(reasons: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
    """Return the paths of each reason; those without one are none of it.

    Example:
        >>> grouped([("blank", "b.md"), (None, "c.md"), ("blank", "a.md")])
        {'blank': ['b.md', 'a.md']}
    """
    paths: dict[str, list[str]] = {}
    for reason, path in reasons:
        if reason is not None:
            paths.setdefault(reason, []).append(printable(path))
    return paths


def printable(name: str) -> str:
    """Return a file's name with the bytes of it that are not UTF-8 as escapes."""
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
    r"""Make a source of the UTF-8 files below a folder; their ids are POSIX paths relative to it, sorted.

    Metadata are `path` (absolute) and `filename`. A byte order mark is dropped; line ends stay as they are. A file that
    is too large, binary, not UTF-8, gone meanwhile, unreadable, or a link that leads out of the folder is an
    `ItemProblem` that names it; so is a link to a folder, which is not followed, with `lost=False`. The folder is
    looked at when the items are, not here.

    Args:
        root: The folder.
        name: Unless given, the folder's name, with `-` for what a name cannot hold.
        pattern: A regular expression, searched for in the relative path.
        exclude: Called with the relative path; true leaves the file out.
        strategy: Decomposes the files; `WholeText()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the files' links.
        metadata_of: Called with id and text; what it gives is laid over the metadata.
        max_bytes: The largest file read.

    Raises:
        ArgumentError: `name`, `pattern` or `max_bytes` cannot be used.
        SourceError: While iterating: the folder is missing, no folder or cannot be listed, or no file matches.

    Example:
        >>> from_files("my notes", pattern=r"\.(md|txt)$").name
        'my-notes'
    """
    folder = Folder(Path(root), pattern, exclude, max_bytes)
    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        folder.pages,
        strategy or WholeText(),
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
        excluded=folder.excluded,
    )


def folder_name(root: Path) -> str:
    """Make a source's name of its folder's."""
    return name_from(Path(os.path.abspath(root)).name, "files")  # noqa: PTH100 - "..", without following links
