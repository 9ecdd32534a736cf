"""A source of markdown reports in the documentation folders of projects."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airw._base.checks import check_flag
from airw._base.frontmatter import note_title, read_frontmatter
from airw.errors import ArgumentError, SourceError
from airw.indexing import Chunked
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MAX_BYTES, OTHER, Folder, add_location, group_by_reason
from airw.sources.source import PAGE, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

VARIABLE = "AIRW_PROJECTS"
_DOCS_FOLDERS = (["docs"], ["misc", "docs"])
_ALL_CAPITALS = re.compile(r"[0-9_ ]*[A-Z][A-Z0-9_ ]*\.(?i:md|markdown|mdx)")
_VENDORED = frozenset({"__pycache__", "build", "dist", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class _Reports:
    """The reports below a folder of projects."""

    folder: Folder
    recursive: bool
    exclude: Callable[[str], bool] | None

    def pages(self) -> Pages:
        listing = self.folder.list_files(self._may_lead_to_reports)
        names = [name for name in listing.names if self._exclusion_reason(name) is None]
        if listing.problems:
            yield listing.problems
        has_items = any(problem.lost for problem in listing.problems)
        for start in range(0, len(names), PAGE):
            items = map(self.folder.read, names[start : start + PAGE])
            page = [report for item in items for report in self._to_reports(item)]
            has_items = has_items or bool(page)
            yield page
        if not has_items:
            where = "<group>/<project>/docs or .../misc/docs"
            raise SourceError(f"no report below {str(self.folder.root)!r}; reports are markdown files in {where}")

    def find_excluded(self) -> dict[str, list[str]]:
        names, _, _, left_out = self.folder.list_files(self._may_contain_markdown)
        left_out.pop(OTHER, None)
        reasons = group_by_reason((self._exclusion_reason(name) or self._blank_reason(name), name) for name in names)
        return {**left_out, **reasons}

    def count_left_out(self) -> dict[str, int]:
        return self.folder.count_left_out(self._may_lead_to_reports)

    def _exclusion_reason(self, name: str) -> str | None:
        location = self._locate(name.split("/"))
        if location is None:
            return "outside docs"
        *folders, file = location[1]
        if _ALL_CAPITALS.fullmatch(file):
            return "all-capitals name"
        if not _VENDORED.isdisjoint(folders):
            return "vendored folder"
        if folders and not self.recursive:
            return "nested folder"
        return "excluded" if self.exclude and self.exclude(name) else None

    def _blank_reason(self, name: str) -> str | None:
        item = self.folder.read(name)
        return "blank" if isinstance(item, Artifact) and not item.raw.strip() else None

    def _locate(self, parts: Sequence[str]) -> tuple[str, Sequence[str]] | None:
        """Return the project of a path, and the path relative to its docs; `None` if outside."""
        for depth in (3, 2) if self._is_in_nested_repository(parts) else (2,):
            for docs in _DOCS_FOLDERS:
                start = depth + len(docs)
                if parts[depth:start] == docs:
                    return parts[depth - 1], parts[start:]
        return None

    def _is_in_nested_repository(self, parts: Sequence[str]) -> bool:
        """Return whether a path is in a repository three levels below the root.

        Its parent folder must not be a repository itself. A `.git` that is a file does not count: it marks a work tree
        or a submodule, whose reports are also in another folder.
        """
        parent = self.folder.root.joinpath(*parts[:2])
        return len(parts) > 2 and not (parent / ".git").exists() and (parent / parts[2] / ".git").is_dir()

    def _may_lead_to_reports(self, path: str) -> bool:
        parts = path.split("/")
        if location := self._locate(parts):
            return not location[1] or (self.recursive and parts[-1] not in _VENDORED)
        return len(parts) < 3 or self._locate([*parts, "docs"]) is not None

    def _may_contain_markdown(self, path: str) -> bool:
        *parents, folder = path.split("/")
        if self._locate([*parents, folder]):
            return True
        return len(parents) < 2 or folder not in _VENDORED

    def _to_reports(self, item: Item) -> Iterator[Item]:
        if isinstance(item, ItemProblem):
            yield item
        elif item.raw.strip():
            fields, body, problem = read_frontmatter(item.raw)
            if problem:
                yield ItemProblem(item.id, problem, lost=False)
            location = self._locate(item.id.split("/"))
            project = location[0] if location else ""
            title = note_title(item.id, fields, item.raw, body)
            fields = {**fields, "project": project, "title": title}
            yield Artifact(item.id, item.raw, add_location(fields, item.metadata))


def from_md_reports(
    *,
    name: str = "reports",
    projects_root: str | os.PathLike[str] | None = None,
    recursive: bool = True,
    exclude: Callable[[str], bool] | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
    max_bytes: int = MAX_BYTES,
    hidden: bool = False,
) -> CorpusSource:
    """Return a source of markdown reports in the folders `docs` and `misc/docs` of projects.

    A project is a folder two levels below the root, `<group>/<project>`, or a git repository three levels below it
    whose parent folder is not a repository. These files are left out:

    - files with a name in capitals, such as `README.md`;
    - blank files;
    - files in vendored folders within the docs (`build`, `dist`, …);
    - what is hidden, named `node_modules`, or named in a `.gitignore`, as in `from_files`.

    The ids are POSIX paths relative to the root, sorted. Metadata are the fields of the frontmatter, JSON-clean, and
    `project`, `title`, `path` and `filename`. The project is always the name of its folder. The title is that of the
    frontmatter, else the heading of the first level that begins the body. Without these it is the only heading of that
    level, else the stem of the file. A `path` or `filename` in the frontmatter stays; the path of the file is then in
    `airw_path`. Files are read as in `from_files`, with the same problems.

    Args:
        name: The name of the source, and the default name of the corpus.
        projects_root: The folder of the groups; by default, the environment variable `AIRW_PROJECTS`.
        recursive: Read the subfolders of the docs, too.
        exclude: A function of the relative path that returns True to leave the report out.
        strategy: The strategy that splits the reports into surfaces; `Chunked()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the reports' links; `None` for no links.
        max_bytes: The largest file to read.
        hidden: Also read hidden files and folders, those named `node_modules`, and what a `.gitignore` names.

    Raises:
        ArgumentError: If there is no root, or `name`, `recursive`, `max_bytes` or `hidden` is not valid.
        SourceError: During iteration, if the root is missing, not a folder or cannot be listed, or there is no report.

    Example:
        >>> source = from_md_reports(projects_root="projects")
        >>> source.name, source.indexing_strategy.kind
        ('reports', 'chunk')
    """
    check_flag("recursive", recursive)
    folder = Folder(_find_root(projects_root), max_bytes=max_bytes, hidden=hidden)
    reports = _Reports(folder, recursive, exclude)
    return CorpusSource(
        name,
        reports.pages,
        Chunked() if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=edge_extractor,
        excluded=reports.find_excluded,
        left_out=reports.count_left_out,
    )


def _find_root(projects_root: str | os.PathLike[str] | None) -> Path:
    if projects_root is not None:
        return Path(projects_root)
    path = os.environ.get(VARIABLE)
    if not path:
        raise ArgumentError(
            f"projects_root is not set; pass the folder of your projects, or set the environment variable {VARIABLE}"
        )
    return Path(path).expanduser()
