"""Markdown notes with frontmatter."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airw._base.frontmatter import note_title, read_frontmatter_with_lines
from airw.indexing import Notes
from airw.links import MarkdownLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MARKDOWN, MAX_BYTES, Folder, folder_name
from airw.sources.source import CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem

_RIVALS = {"id": ("id",), "title": ("aliases",), "aliases": ("title", "aliases")}


class _Bearers:
    """Who bears which id, title and alias, to tell of those that make references ambiguous.

    Two notes of one title are usual, and told of where a link names them; but an id is meant to be the only one, and an
    alias is of no use where another note bears the name.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def shared(
        self, artifact_id: str, title: str, fields: Mapping[str, Any], lines: Mapping[str, Sequence[int]]
    ) -> list[str]:
        """Return one line for each name of a note that a note before it bears too, then count it as a bearer."""
        given = [
            ("title", title),
            *((field, name) for field in ("id", "aliases") for name in _names(fields.get(field))),
        ]
        told = [line for field, name in given if (line := self._told(field, name, lines.get(field)))]
        for field, name in given:
            self._first.setdefault((field, name.casefold()), artifact_id)
        return told

    def _told(self, field: str, name: str, lines: Sequence[int] | None) -> str | None:
        other = next(
            (self._first[key] for rival in _RIVALS[field] if (key := (rival, name.casefold())) in self._first), ""
        )
        where = f" (line {lines[0]})" if lines else ""
        return f"{field}: {other!r} bears the name {name!r} too: links by it are ambiguous{where}" if other else None


def _names(given: Any) -> list[str]:
    values = given if isinstance(given, list) else [given]
    return [str(each).strip() for each in values if isinstance(each, (str, int, float)) and str(each).strip()]


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
) -> CorpusSource:
    """Make a source of the markdown notes below a folder: `from_files` with frontmatter, descriptions and links.

    Metadata are the frontmatter's fields, JSON-clean, and over them `title` (the frontmatter's, else the first heading,
    else the file's stem), `path` and `filename`. Frontmatter that cannot be read is a problem with `lost=False`: the
    note is indexed, its fields are not; and so is an `id` that a note before it has, or one of `aliases` that another
    note's title or alias is.

    Args:
        root: The folder.
        name: Unless given, the folder's name, with `-` for what a name cannot hold.
        pattern: A regular expression, searched for in the relative path.
        exclude: Called with the relative path; true leaves the file out.
        strategy: Decomposes the notes; `Notes()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the notes' links; `MarkdownLinks()` unless given.
        max_bytes: The largest file read.

    Raises:
        ArgumentError: `name`, `pattern` or `max_bytes` cannot be used.
        SourceError: While iterating: the folder is missing or no folder, or no file matches.

    Example:
        >>> source = from_notes("vault")
        >>> source.name, source.indexing_strategy.chunk_size, source.edge_extractor.inline_type
        ('vault', 1200, 'related')
    """
    folder = Folder(Path(root), pattern, exclude, max_bytes)

    def pages() -> Pages:
        bearers = _Bearers()
        for page in folder.pages():
            yield [note for item in page for note in _with_fields(item, bearers)]

    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        pages,
        strategy or Notes(),
        embedder=embedder,
        edge_extractor=edge_extractor or MarkdownLinks(),
        excluded=folder.excluded,
    )


def _with_fields(item: Item, bearers: _Bearers) -> Iterator[Item]:
    if isinstance(item, ItemProblem):
        yield item
        return
    front, lines = read_frontmatter_with_lines(item.raw)
    title = note_title(item.id, front.fields, item.raw, front.body)
    problems = [front.problem] if front.problem else bearers.shared(item.id, title, front.fields, lines)
    for problem in problems:
        yield ItemProblem(item.id, problem, lost=False)
    yield Artifact(item.id, item.raw, {**front.fields, "title": title, **item.metadata})
