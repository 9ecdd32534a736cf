"""Markdown notes with frontmatter."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from airw._frontmatter import note_title, read_frontmatter
from airw.indexing import Notes
from airw.links import MarkdownLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MARKDOWN, MAX_BYTES, Folder, folder_name
from airw.sources.source import CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem


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
    note is indexed, its fields are not.

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
        for page in folder.pages():
            yield [note for item in page for note in _with_fields(item)]

    return CorpusSource(
        folder_name(folder.root) if name is None else name,
        pages,
        strategy or Notes(),
        embedder=embedder,
        edge_extractor=edge_extractor or MarkdownLinks(),
        excluded=folder.excluded,
    )


def _with_fields(item: Item) -> Iterator[Item]:
    if isinstance(item, ItemProblem):
        yield item
        return
    fields, body, problem = read_frontmatter(item.raw)
    title = note_title(item.id, fields, item.raw, body)
    if problem:
        yield ItemProblem(item.id, problem, lost=False)
    yield Artifact(item.id, item.raw, {**fields, "title": title, **item.metadata})
