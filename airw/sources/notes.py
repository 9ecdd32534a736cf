"""A source of markdown notes with frontmatter."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airw._base.frontmatter import line_at, note_title, read_frontmatter_with_lines
from airw._base.yaml_fields import FieldPath
from airw.indexing import Notes
from airw.links import MarkdownLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MARKDOWN, MAX_BYTES, Folder, add_location, folder_name
from airw.sources.source import CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

_CONFLICTING_FIELDS = {
    "id": ("id",),
    "title": ("aliases", "alias"),
    **dict.fromkeys(["aliases", "alias"], ("title", "aliases", "alias")),
}


class _NameRegistry:
    """The ids, titles and aliases of the notes so far, to report ambiguous names.

    Notes with the same title are common, so a build reports them only if a link uses the title. But an id should be
    unique, and an alias is useless if another note has that name.
    """

    def __init__(self) -> None:
        self._first_note: dict[tuple[str, str], str] = {}

    def add(self, artifact_id: str, title: str, fields: Mapping[str, Any], lines: Mapping[FieldPath, int]) -> list[str]:
        """Add a note, and return a problem for each of its names that an earlier note has."""
        names = [
            ("title", title),
            *((field, name) for field in ("id", "aliases", "alias") for name in _names_in(fields.get(field))),
        ]
        problems = [text for field, name in names if (text := self._conflict(field, name, line_at(lines, (field,))))]
        for field, name in names:
            self._first_note.setdefault((field, name.casefold()), artifact_id)
        return problems

    def _conflict(self, field: str, name: str, line: int | None) -> str | None:
        keys = ((other, name.casefold()) for other in _CONFLICTING_FIELDS[field])
        note = next((self._first_note[key] for key in keys if key in self._first_note), None)
        if note is None:
            return None
        where = f" (line {line})" if line else ""
        return f"{field}: {note!r} also has the name {name!r}, so links to it are ambiguous{where}"


def _names_in(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(name).strip() for name in values if isinstance(name, (str, int, float)) and str(name).strip()]


def from_notes(
    root: str | os.PathLike[str],
    *,
    name: str | None = None,
    pattern: str = MARKDOWN,
    exclude: Callable[[str], bool] | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
    max_bytes: int = MAX_BYTES,
    hidden: bool = False,
) -> CorpusSource:
    r"""Return a source of the markdown notes below a folder.

    It is `from_files` with frontmatter, descriptions and links. Metadata are the fields of the frontmatter, JSON-clean,
    and `title`, `path` and `filename`. The title is that of the frontmatter, else the heading of the first level that
    begins the body. Without these it is the only heading of that level, else the stem of the file. A `path` or
    `filename` in the frontmatter stays; the path of the file is then in `airw_path`.

    These are problems with `lost=False`:

    - frontmatter that cannot be read: the note is indexed without its fields;
    - an `id` that an earlier note has;
    - one of `aliases` that is a title or an alias of another note.

    Args:
        root: The folder.
        name: The name of the source. The default is the name of the folder, with `-` for invalid characters.
        pattern: A regular expression that the relative path must contain; by default that of markdown files, which
            are named `.md`, `.markdown` or `.mdx` in any case. What is hidden or named `node_modules` is left out
            unless it names it, as in `r"\.github/.*\.md$"`.
        exclude: A function of the relative path that returns True to leave the file out.
        strategy: The strategy that splits the notes into surfaces; `Notes()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the notes' links; `MarkdownLinks()` by default.
        max_bytes: The largest file to read.
        hidden: Also read hidden files and folders, those named `node_modules`, and what a `.gitignore` names.

    Raises:
        ArgumentError: If `name`, `pattern`, `max_bytes` or `hidden` is not valid.
        SourceError: During iteration, if the folder is missing or not a folder, or no file matches.

    Example:
        >>> source = from_notes("vault")
        >>> source.name, source.indexing_strategy.chunk_size, source.edge_extractor.inline_type
        ('vault', 1200, 'related')
    """
    folder = Folder(Path(root), pattern, exclude, max_bytes, hidden)

    def pages() -> Pages:
        registry = _NameRegistry()
        for page in folder.pages():
            yield [note for item in page for note in _add_fields(item, registry)]

    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        pages,
        Notes() if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=MarkdownLinks() if edge_extractor is None else edge_extractor,
        excluded=folder.find_excluded,
        left_out=folder.count_left_out,
        count=folder.count,
        origin=folder.origin,
    )


def _add_fields(item: Item, registry: _NameRegistry) -> Iterator[Item]:
    if isinstance(item, ItemProblem):
        yield item
        return
    front, lines = read_frontmatter_with_lines(item.raw)
    title = note_title(item.id, front.fields, item.raw, front.body)
    problems = [front.problem] if front.problem else registry.add(item.id, title, front.fields, lines)
    for problem in problems:
        yield ItemProblem(item.id, problem, lost=False)
    yield Artifact(item.id, item.raw, add_location({**front.fields, "title": title}, item.metadata))
