"""A source of the objects in a JSON Lines file."""

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from airw._base.checks import check_count
from airw.errors import ArgumentError, SourceError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import MAX_BYTES
from airw.sources.source import PAGE, CorpusSource, Item, Pages, id_from, name_from, to_metadata
from airw.values import Artifact, ItemProblem

_PAGE_BYTES = 4 * 2**20  # a page ends when its lines have this many bytes
_BLOCK = 2**20  # bytes read at once to count lines, or of a line that is too long
_MAX_EXPANSION = 200  # bytes per compressed byte; JSON Lines usually have 3 to 20
_FREE_EXPANSION = 64 * 2**20  # bytes that any file may expand to


@dataclass(frozen=True, slots=True)
class _Lines:
    """A JSON Lines file, and the fields for id, text and metadata."""

    path: Path
    id_key: str
    text_key: str | None
    metadata_keys: tuple[str, ...] | None
    max_bytes: int

    def pages(self) -> Pages:
        """Yield the items a page at a time.

        A page may be empty: while a long line is passed over, the thread that reads comes back often, so that a build
        can be cancelled.
        """
        is_empty = True
        page: list[Item] = []
        page_bytes = 0
        try:
            with self._open() as (file, compressed):
                total = 0
                for item, length in self._read_items(file):
                    page += [] if item is None else [item]
                    page_bytes, total = page_bytes + length, total + length
                    if compressed is not None:
                        self._check_expansion(total, compressed.tell())
                    if len(page) == PAGE or page_bytes >= _PAGE_BYTES:
                        is_empty = is_empty and not page
                        yield page
                        page, page_bytes = [], 0
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"cannot read {str(self.path)!r}: {error}") from error
        if is_empty and not page:
            raise SourceError(f"{str(self.path)!r} has no lines; it must have one JSON object per line")
        yield page

    def count(self) -> int | None:
        """Return the number of lines, or `None` for a compressed file.

        That would have to be unpacked.
        """
        if self.path.suffix == ".gz" or not self.path.is_file():
            return None
        count, last = 0, b"\n"
        with self.path.open("rb") as file:
            while chunk := file.read(_BLOCK):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
        return count + (last != b"\n")

    @contextmanager
    def _open(self) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
        """Open the file; yield what to read lines from, and the compressed file or `None`."""
        # A pipe or a device could block the thread, or never end.
        if self.path.exists() and not self.path.is_file():
            raise OSError("not a regular file")
        with self.path.open("rb") as file:
            if self.path.suffix != ".gz":
                yield file, None
                return
            import gzip

            with gzip.open(file) as lines:
                yield cast("IO[bytes]", lines), file

    def _check_expansion(self, total: int, compressed: int) -> None:
        if total > _MAX_EXPANSION * compressed + _FREE_EXPANSION:
            raise SourceError(
                f"{str(self.path)!r} expands to more than {_MAX_EXPANSION} times its size; "
                "if you trust it, decompress it and pass the .jsonl file"
            )

    def _read_items(self, file: IO[bytes]) -> Iterator[tuple[Item | None, int]]:
        """Yield an item or `None` for each part that was read, with its length in bytes."""
        line_of: dict[str, int] = {}
        number = 0
        # One byte more than allowed shows that a line is too long.
        while line := file.readline(self.max_bytes + 1):
            number += 1
            length = len(line)
            if length > self.max_bytes:
                while not line.endswith(b"\n") and (line := file.readline(_BLOCK)):
                    length += len(line)
                    yield None, len(line)
                reason = f"line {number} has {length} bytes, more than max_bytes={self.max_bytes}"
                yield ItemProblem(f"{self.path.name}:{number}", reason), 0
                continue
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            item = self._parse_line(text, number) if text.strip() else None
            if isinstance(item, Artifact) and line_of.setdefault(item.id, number) != number:
                reason = f"the id {item.id!r} on line {number} is already on line {line_of[item.id]}"
                item = ItemProblem(f"{self.path.name}:{number}", reason)
            yield item, length

    def _parse_line(self, line: bytes, number: int) -> Item:
        where = f"{self.path.name}:{number}"
        try:
            fields = json.loads(line.decode())
        except UnicodeDecodeError as error:
            return ItemProblem(where, f"line {number} is not UTF-8 at byte {error.start}")
        except (ValueError, RecursionError) as error:
            return ItemProblem(where, f"line {number} is not JSON: {error}")
        if not isinstance(fields, dict):
            return ItemProblem(where, f"line {number} must be a JSON object, not {type(fields).__name__}")
        artifact_id = id_from(fields.pop(self.id_key, None))
        if artifact_id is None:
            return ItemProblem(where, f"line {number} needs the field {self.id_key!r}: a non-empty string or a number")
        return Artifact(artifact_id, fields, self._metadata(fields))

    def _metadata(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        if self.metadata_keys is None:
            return to_metadata(fields, self.text_key)
        return {key: fields[key] for key in self.metadata_keys if key in fields and key != (self.text_key or "text")}


def from_jsonl(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    id_key: str = "id",
    text_key: str | None = None,
    metadata_keys: Sequence[str] | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
    max_bytes: int = MAX_BYTES,
) -> CorpusSource:
    """Return a source of a JSON Lines file in UTF-8, with one object per line.

    A file whose name ends in `.gz` is decompressed. The file is read during iteration, a page at a time. The raw value
    of an artifact is its object without the id. A number as id becomes decimal text. Blank lines are skipped. A line is
    an `ItemProblem` if it is too long or not a JSON object, or its id is missing or a duplicate.

    Args:
        path: The file.
        name: The name of the source. The default is the name of the file without `.jsonl` and `.gz`, with `-` for
            invalid characters.
        id_key: The field with the id.
        text_key: The field with the text. By default it is `title` and `text`, or all string fields, one per line, if
            `text` is missing.
        metadata_keys: The fields that become metadata; by default all except id and text, see `to_metadata`.
        strategy: The strategy that splits the objects into surfaces; by default `WholeText(text_key=text_key)`, and
            `FittedText` for an embedder with `max_tokens`.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the objects' links. By default, they are the ids in the field `links`: a list,
            or a mapping of edge types to lists.
        max_bytes: The longest line to read, its end included.

    Raises:
        ArgumentError: If `name`, a key or `max_bytes` is not valid.
        SourceError: During iteration, if the file is missing, empty, damaged or not a regular file, or if it expands to
            more than 200 times its size and 64 MiB.

    Example:
        >>> from_jsonl("data/corpus.jsonl.gz", text_key="body").indexing_strategy
        WholeText(text_key='body', kind='document')
    """
    if isinstance(metadata_keys, str):
        raise ArgumentError(f"metadata_keys must be a list of field names, not the string {metadata_keys!r}")
    whole_text = WholeText(text_key=text_key)
    file = Path(path)
    keys = None if metadata_keys is None else tuple(metadata_keys)
    lines = _Lines(file, id_key, text_key, keys, check_count("max_bytes", max_bytes, least=1))
    return CorpusSource(
        name_from(file.name.removesuffix(".gz").removesuffix(".jsonl"), "records") if name is None else name,
        lines.pages,
        whole_text if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=edge_extractor,
        count=lines.count,
        origin=os.path.abspath(file),  # noqa: PTH100 - `resolve` would follow a link to the file
        fits_model=strategy is None,
    )
