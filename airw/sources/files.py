"""A source of the files below a folder."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from airw._base.checks import check_count, check_flag
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources._gitignore import MAX_RULES, IgnoreRules, find_repository
from airw.sources.source import PAGE, CorpusSource, Item, MetadataOf, Pages, name_from
from airw.values import Artifact, ItemProblem

MARKDOWN = r"(?i:\.(?:md|markdown|mdx))$"
MAX_BYTES = 2_000_000
"""The largest file that sources read by default: larger notes take seconds to parse, and are rarely notes."""

OTHER, HIDDEN, IGNORED = "does not match the pattern", "hidden or named node_modules", "named in .gitignore"


class Listing(NamedTuple):
    """The files below a folder.

    Args:
        names: The relative paths of the files to read, sorted.
        problems: One for each folder that cannot be listed, and for each `.gitignore` with a fault.
        links: A problem for each link to a folder.
        left_out: The files that are left out on purpose, by reason, and the folders that are not entered, which end
            with "/". Those of a reason are in order of path.
    """

    names: list[str]
    problems: list[ItemProblem]
    links: list[ItemProblem]
    left_out: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, and the choice of the files in it to read.

    Args:
        root: The folder.
        pattern: A regular expression that the relative path must contain.
        exclude: A function of the relative path that returns True to leave the file out.
        max_bytes: The largest file to read.
        hidden: Read what is hidden, named `node_modules` or named in a `.gitignore`, too.

    Raises:
        ArgumentError: If `pattern` is not a regular expression, `max_bytes` is below 1, or `hidden` is no boolean.
    """

    root: Path
    pattern: str = MARKDOWN
    exclude: Callable[[str], bool] | None = None
    max_bytes: int = MAX_BYTES
    hidden: bool = False

    def __post_init__(self) -> None:
        """Check pattern, size and flag."""
        check_count("max_bytes", self.max_bytes, least=1)
        check_flag("hidden", self.hidden)
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
        names, problems, links, left_out = self.list_files()
        if not names and not any(problem.lost for problem in problems):
            conditions = f"pattern {self.pattern!r}" + (" and exclude" if self.exclude else "")
            counts = "".join(f"; {len(paths)} left out: {reason}" for reason, paths in left_out.items())
            advice = "; hidden=True reads these, too" if left_out.keys() & {HIDDEN, IGNORED} else ""
            raise SourceError(f"no file below {str(self.root)!r} matches {conditions}{counts}{advice}")
        if problems or links:
            yield [*problems, *links]
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
        return len(self.list_files().names)

    def find_excluded(self) -> dict[str, list[str]]:
        """Return the files that are left out and the folders not entered, by reason.

        No file is read.

        Raises:
            SourceError: If the root is missing or not a folder.
        """
        return self.list_files().left_out

    def count_left_out(self, enters: Callable[[str], bool] | None = None) -> dict[str, int]:
        """Return how many files and folders are left out, by reason.

        Files that do not match the pattern are not counted.

        Raises:
            SourceError: If the root is missing or not a folder.
        """
        left_out = self.list_files(enters).left_out
        return {reason: len(paths) for reason, paths in left_out.items() if reason != OTHER}

    def list_files(self, enters: Callable[[str], bool] | None = None) -> Listing:
        """Return the files to read, and what is left out.

        Args:
            enters: A function of the relative path of a folder; False leaves out everything below it.

        Raises:
            SourceError: If the root is missing, not a folder, or cannot be listed.
        """
        if not self.root.is_dir():
            fault = "is not a folder" if self.root.exists() else "does not exist"
            raise SourceError(f"the folder to read {fault}: {str(self.root)!r}")
        names: list[str] = []
        problems: list[ItemProblem] = []
        folder_links: list[str] = []
        reasons: list[tuple[str, str]] = []

        def add_problem(error: OSError) -> None:
            name = os.path.relpath(os.fsdecode(error.filename), self.root)
            if name == ".":
                raise SourceError(f"cannot list the folder {str(self.root)!r}: {error.strerror}") from error
            problems.append(ItemProblem(to_printable(name), f"the folder cannot be listed: {error.strerror}"))

        base = os.path.realpath(self.root).removesuffix(os.sep) + "/"
        rules_in = {"": self._read_rules_above(Path(base), problems)}
        for folder, subfolders, files in os.walk(self.root, onerror=add_problem):
            path = Path(os.path.relpath(folder, self.root)).as_posix()
            prefix = "" if path == "." else f"{path}/"
            rules = self._add_rules(rules_in.pop(prefix), Path(base, prefix), problems)
            entered = [name for name in subfolders if name != ".git" and (enters is None or enters(f"{prefix}{name}"))]
            subfolders[:] = []
            for name in (*(f"{name}/" for name in entered), *files):
                reason = self._find_reason(prefix + name, base, rules)
                if reason is not None:
                    reasons.append((prefix + name, reason))
                elif name.endswith("/"):
                    subfolders.append(name[:-1])
                    # Rules that leave out a folder that the pattern names would leave out all that is in it.
                    rules_in[prefix + name] = IgnoreRules() if rules.ignores(base + prefix + name) else rules
                elif name != ".git":
                    names.append(prefix + name)
            folder_links += [prefix + name for name in subfolders if Path(folder, name).is_symlink()]
        text = "a link to a folder, which is not followed: the files there are not indexed under this path"
        reported = [name for name in sorted(folder_links) if not (self.exclude and self.exclude(name))]
        links = [ItemProblem(to_printable(name), text, lost=False) for name in reported]
        return Listing(
            sorted(names), problems, links, group_by_reason((reason, path) for path, reason in sorted(reasons))
        )

    def _find_reason(self, path: str, base: str, rules: IgnoreRules) -> str | None:
        """Return why a file is left out, or a folder is not entered; `None` if it is read.

        Hidden folders contain what programs keep: deleted notes, settings. The pattern may name one.
        """
        is_folder = path.endswith("/")
        if not is_folder and re.search(self.pattern, path) is None:
            return OTHER
        name = path.removesuffix("/").rpartition("/")[2] + "/" * is_folder
        if not self.hidden:
            if name.startswith(".") or name == "node_modules/":
                if name not in self.pattern.replace("\\", ""):
                    return HIDDEN
            elif rules.ignores(base + path):
                return IGNORED
        return "excluded" if not is_folder and self.exclude and self.exclude(path) else None

    def _read_rules_above(self, root: Path, problems: list[ItemProblem]) -> IgnoreRules:
        """Return the rules of the repository around the root.

        There are none if they leave out the root itself: whoever names a folder wants to read it.
        """
        repository = find_repository(root)
        rules = IgnoreRules()
        if self.hidden or repository is None:
            return rules
        for folder in reversed(root.parents[: len(root.parts) - len(repository.parts)]):
            rules = self._add_rules(rules, folder, problems)
            child = folder / root.parts[len(folder.parts)]
            if rules.ignores(child.as_posix() + "/"):
                return IgnoreRules()
        return rules

    def _add_rules(self, rules: IgnoreRules, folder: Path, problems: list[ItemProblem]) -> IgnoreRules:
        """Return the rules and those of the `.gitignore` in a folder; add its problem."""
        if self.hidden:
            return rules
        if os.path.lexists(folder / ".git"):  # a repository of its own
            rules = IgnoreRules()
        try:
            data = self._read_bytes(folder / ".gitignore", MAX_RULES)
        except FileNotFoundError:
            return rules
        except OSError as error:
            problem: str | None = f"cannot be read: {error.strerror or error}; nothing is left out by it"
        else:
            rules, problem = rules.extend(folder.as_posix().removesuffix("/") + "/", data)
        if problem:
            name = os.path.relpath(folder / ".gitignore", os.path.realpath(self.root))
            problems.append(ItemProblem(to_printable(name), problem, lost=False))
        return rules

    def read(self, name: str) -> Item:
        """Return a file by its relative path, or a problem if it cannot be read."""
        try:
            name.encode()
            data = self._read_bytes(self.root / name, self.max_bytes)
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

    def _read_bytes(self, path: Path, max_bytes: int) -> bytes:
        status = path.stat()  # first, because it fails for a loop of links, which `resolve` could not handle
        if path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve()):
            raise OSError("a link that leads out of the folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        data = b""
        if status.st_size <= max_bytes:
            with path.open("rb") as file:
                data = file.read(max_bytes + 1)  # the file may have grown meanwhile
        size = max(status.st_size, len(data))
        if size > max_bytes:
            raise OSError(f"has {size} bytes, more than max_bytes={max_bytes}")
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
    hidden: bool = False,
) -> CorpusSource:
    r"""Return a source of the UTF-8 files below a folder.

    The ids are POSIX paths relative to the folder, sorted. Metadata are `path` (absolute) and `filename`. A byte order
    mark is removed; line ends stay unchanged. The folder is read during iteration, not in this call.

    A file is an `ItemProblem` if it is too large, binary, not UTF-8, unreadable, removed meanwhile, or a link that
    leads out of the folder. Links to folders are not followed; each is an `ItemProblem` with `lost=False`.

    Hidden files and folders, folders named `node_modules`, and what `.gitignore` files name, as git reads them, are
    left out; the report of a build counts them. Of the `.gitignore` files above the folder, those of its repository
    count, unless they name the folder itself. What cannot be read in one is a problem with `lost=False`.

    Args:
        root: The folder.
        name: The name of the source. The default is the name of the folder, with `-` for invalid characters.
        pattern: A regular expression that the relative path must contain; by default that of markdown files, which
            are named `.md`, `.markdown` or `.mdx` in any case. What is hidden or named `node_modules` is left out
            unless it names it, as in `r"\.github/.*\.md$"`.
        exclude: A function of the relative path that returns True to leave the file out.
        strategy: The strategy that splits the files into surfaces; by default `WholeText()`, and `FittedText` for an
            embedder with `max_tokens`.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the files' links; `None` for no links.
        metadata_of: A function of id and text. The fields it returns override the metadata.
        max_bytes: The largest file to read.
        hidden: Also read hidden files and folders, those named `node_modules`, and what a `.gitignore` names.

    Raises:
        ArgumentError: If `name`, `pattern`, `max_bytes` or `hidden` is not valid.
        SourceError: During iteration, if the folder is missing, not a folder or cannot be listed, or no file matches.

    Example:
        >>> from_files("my notes", pattern=r"\.(md|txt)$").name
        'my-notes'
    """
    folder = Folder(Path(root), pattern, exclude, max_bytes, hidden)
    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        folder.pages,
        WholeText() if strategy is None else strategy,
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
        excluded=folder.find_excluded,
        left_out=folder.count_left_out,
        count=folder.count,
        origin=folder.origin,
        fits_model=strategy is None,
    )


def folder_name(root: Path) -> str:
    """Return the name of a source, made from the name of its folder."""
    return name_from(Path(os.path.abspath(root)).name, "files")  # noqa: PTH100 - "..", without following links
