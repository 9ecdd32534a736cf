"""A source of the objects in a JSON Lines file."""

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from airw.errors import ArgumentError, SourceError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.source import PAGE, CorpusSource, Item, Pages, id_from, name_from
from airw.values import Artifact, ItemProblem


@dataclass(frozen=True, slots=True)
class _Lines:
    """A JSON Lines file, and the fields for id, text and metadata."""

    path: Path
    id_key: str
    text_key: str
    metadata_keys: tuple[str, ...] | None

    def pages(self) -> Pages:
        try:
            with self._open() as file:
                items = self._read_items(file)
                is_empty = True
                while page := list(islice(items, PAGE)):
                    yield page
                    is_empty = False
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"cannot read {str(self.path)!r}: {error}") from error
        if is_empty:
            raise SourceError(f"{str(self.path)!r} has no lines; it must have one JSON object per line")

    def _open(self) -> IO[bytes]:
        if self.path.suffix != ".gz":
            return self.path.open("rb")
        import gzip

        return cast("IO[bytes]", gzip.open(self.path))

    def _read_items(self, file: Iterable[bytes]) -> Iterator[Item]:
        line_of: dict[str, int] = {}
        for number, line in enumerate(file, 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not text.strip():
                continue
            item = self._parse_line(text, number)
            if isinstance(item, Artifact) and line_of.setdefault(item.id, number) != number:
                reason = f"the id {item.id!r} on line {number} is already on line {line_of[item.id]}"
                yield ItemProblem(f"{self.path.name}:{number}", reason)
            else:
                yield item

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
        keys = fields if self.metadata_keys is None else self.metadata_keys
        return {key: fields[key] for key in keys if key in fields and key != self.text_key}


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
) -> CorpusSource:
    """Return a source of a JSON Lines file in UTF-8, with one object per line.

    A file whose name ends in `.gz` is decompressed. The file is read during iteration, a page at a time. The raw value
    of an artifact is its object without the id. A number as id becomes decimal text. Blank lines are skipped. A line is
    an `ItemProblem` if it is not a JSON object, or its id is missing or a duplicate.

    Args:
        path: The file.
        name: The name of the source. The default is the name of the file without `.jsonl` and `.gz`, with `-` for
            invalid characters.
        id_key: The field with the id.
        text_key: The field with the text. By default it is `text`, or all string fields, one per line, if that is
            missing.
        metadata_keys: The fields that become metadata; by default all except id and text.
        strategy: The strategy that splits the objects into surfaces; `WholeText(text_key=text_key)` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the objects' links; `None` for no links.

    Raises:
        ArgumentError: If `name` or a key is not valid.
        SourceError: During iteration, if the file is missing, empty or damaged.

    Example:
        >>> from_jsonl("data/corpus.jsonl.gz", text_key="body").indexing_strategy
        WholeText(text_key='body', kind='document')
    """
    if isinstance(metadata_keys, str):
        raise ArgumentError(f"metadata_keys must be a list of field names, not the string {metadata_keys!r}")
    whole_text = WholeText(text_key=text_key)
    file = Path(path)
    keys = None if metadata_keys is None else tuple(metadata_keys)
    return CorpusSource(
        name_from(file.name.removesuffix(".gz").removesuffix(".jsonl"), "records") if name is None else name,
        _Lines(file, id_key, text_key or "text", keys).pages,
        strategy or whole_text,
        embedder=embedder,
        edge_extractor=edge_extractor,
    )
