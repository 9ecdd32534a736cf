"""Markdown reports in the documentation folders of projects."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airw._base.frontmatter import note_title, read_frontmatter
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.indexing import Chunked
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MAX_BYTES, Folder, grouped
from airw.sources.source import PAGE, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

PROJECTS = "AIRW_PROJECTS"
_DOCS = (["docs"], ["misc", "docs"])
_CAPITALS = re.compile(r"[0-9_ ]*[A-Z][A-Z0-9_ ]*\.md")
_VENDORED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class _Reports:
    """Which markdown files below a folder of projects are reports."""

    folder: Folder
    recursive: bool

    def pages(self) -> Pages:
        listed, problems = self.folder.listed(self._may_lead_to_reports)
        names = [name for name in listed if name.endswith(".md") and self._reason(name) is None]
        if problems:
            yield problems
        given = bool(problems)
        for first in range(0, len(names), PAGE):
            read = map(self.folder.read, names[first : first + PAGE])
            page = [each for item in read for each in self._reported(item)]
            given = given or bool(page)
            yield page
        if not given:
            where = "<group>/<project>/docs or .../misc/docs"
            raise SourceError(f"no report below {str(self.folder.root)!r}: looked for markdown in {where}")

    def excluded(self) -> dict[str, list[str]]:
        listed, _ = self.folder.listed(self._may_hold_markdown)
        return grouped((self._reason(name) or self._blank(name), name) for name in listed if name.endswith(".md"))

    def _reason(self, name: str) -> str | None:
        found = self._located(name.split("/"))
        if found is None:
            return "outside docs"
        *folders, file = found[1]
        if _CAPITALS.fullmatch(file):
            return "all-capitals name"
        if any(map(_is_hidden, folders)):
            return "hidden folder"
        if not _VENDORED.isdisjoint(folders):
            return "vendored folder"
        if folders and not self.recursive:
            return "nested folder"
        return "excluded" if self.folder.exclude and self.folder.exclude(name) else None

    def _blank(self, name: str) -> str | None:
        item = self.folder.read(name)
        return "blank" if isinstance(item, Artifact) and not item.raw.strip() else None

    def _located(self, parts: Sequence[str]) -> tuple[str, Sequence[str]] | None:
        """Return the project of a path and what the path is below the project's docs; `None` outside of these."""
        for depth in (3, 2) if self._is_in_pocket(parts) else (2,):
            for docs in _DOCS:
                start = depth + len(docs)
                if parts[depth:start] == docs:
                    return parts[depth - 1], parts[start:]
        return None

    def _is_in_pocket(self, parts: Sequence[str]) -> bool:
        """Return whether a path lies in a repository of a folder of repositories.

        A `.git` that is a file marks a work tree or a submodule, whose reports are those of another folder.
        """
        pocket = self.folder.root.joinpath(*parts[:2])
        return len(parts) > 2 and not (pocket / ".git").exists() and (pocket / parts[2] / ".git").is_dir()

    def _may_lead_to_reports(self, path: str) -> bool:
        parts = path.split("/")
        if _is_hidden(parts[-1]):
            return False
        if found := self._located(parts):
            return not found[1] or (self.recursive and parts[-1] not in _VENDORED)
        return len(parts) < 3 or self._located([*parts, "docs"]) is not None

    def _may_hold_markdown(self, path: str) -> bool:
        *above, last = path.split("/")
        if self._located([*above, last]):
            return True
        return not _is_hidden(last) and (len(above) < 2 or last not in _VENDORED)

    def _reported(self, item: Item) -> Iterator[Item]:
        if isinstance(item, ItemProblem):
            yield item
        elif item.raw.strip():
            fields, body, problem = read_frontmatter(item.raw)
            if problem:
                yield ItemProblem(item.id, problem, lost=False)
            found = self._located(item.id.split("/"))
            project = found[0] if found else ""
            title = note_title(item.id, fields, item.raw, body)
            yield Artifact(item.id, item.raw, {"project": project, "title": title, **item.metadata})


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".")


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
) -> CorpusSource:
    """Make a source of the markdown reports in the `docs` and `misc/docs` folders of projects.

    Projects are folders two below the root, `<group>/<project>`, and git repositories three below it whose parent is
    no repository. Left out are files with a name all in capitals (`README.md`), blank ones, and what lies in hidden
    folders or below the docs in vendored ones (`node_modules`, `build`, …). Ids are POSIX paths relative to the root,
    sorted. Metadata are `project` (its folder's name), `title` (the frontmatter's, else the first heading, else the
    file's stem), `path` and `filename`. Files are read as `from_files` reads them, with the same problems.

    Args:
        name: The default name of the corpus.
        projects_root: The folder of the groups; unless given, what the environment variable `AIRW_PROJECTS` names.
        recursive: Also take what lies in folders of the docs.
        exclude: Called with the relative path; true leaves the report out.
        strategy: Decomposes the reports; `Chunked()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the reports' links.
        max_bytes: The largest file read.

    Raises:
        ArgumentError: No root is given or named, or `name`, `recursive` or `max_bytes` cannot be used.
        SourceError: While iterating: the root is missing, no folder or cannot be listed, or there is no report.

    Example:
        >>> source = from_md_reports(projects_root="projects")
        >>> source.name, source.indexing_strategy.kind
        ('reports', 'chunk')
    """
    if not isinstance(recursive, bool):
        raise ArgumentError(f"recursive must be True or False, not {short_repr(recursive)}")
    reports = _Reports(Folder(_projects_root(projects_root), exclude=exclude, max_bytes=max_bytes), recursive)
    return CorpusSource(
        name,
        reports.pages,
        strategy or Chunked(),
        embedder=embedder,
        edge_extractor=edge_extractor,
        excluded=reports.excluded,
    )


def _projects_root(given: str | os.PathLike[str] | None) -> Path:
    if given is not None:
        return Path(given)
    named = os.environ.get(PROJECTS)
    if not named:
        raise ArgumentError(f"give projects_root, the folder of your projects, or name it in ${PROJECTS}")
    return Path(named).expanduser()
