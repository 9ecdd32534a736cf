"""JSON Lines: one object a line."""

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
    """A file of objects, and which of their fields mean what."""

    path: Path
    id_key: str
    text_key: str
    metadata_keys: tuple[str, ...] | None

    def pages(self) -> Pages:
        try:
            with self._open() as file:
                items = self._items(file)
                empty = True
                while page := list(islice(items, PAGE)):
                    yield page
                    empty = False
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"cannot read {str(self.path)!r}: {error}") from error
        if empty:
            raise SourceError(f"{str(self.path)!r} holds no lines: expected one JSON object a line")

    def _open(self) -> IO[bytes]:
        if self.path.suffix != ".gz":
            return self.path.open("rb")
        import gzip

        return cast("IO[bytes]", gzip.open(self.path))

    def _items(self, file: Iterable[bytes]) -> Iterator[Item]:
        lines: dict[str, int] = {}
        for number, line in enumerate(file, 1):
            if not (written := line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip():
                continue
            item = self._item(written, number)
            if isinstance(item, Artifact) and lines.setdefault(item.id, number) != number:
                reason = f"the id {item.id!r} on line {number} is already on line {lines[item.id]}"
                yield ItemProblem(f"{self.path.name}:{number}", reason)
            else:
                yield item

    def _item(self, line: bytes, number: int) -> Item:
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
            return ItemProblem(where, f"line {number} needs a non-empty string or a number as {self.id_key!r}")
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
    """Make a source of a JSON Lines file: one object a line, in UTF-8, gzipped where the name ends in `.gz`.

    The file is streamed. An artifact's raw value is its object without the id; a number as id becomes its decimal
    text; blank lines do not count. A line that is no JSON object, or has no id or one seen before, is an `ItemProblem`
    that names the line. The file is looked at when the items are, not here.

    Args:
        path: The file.
        name: Unless given, the file's name without `.jsonl` and `.gz`, with `-` for what a name cannot hold.
        id_key: The field that holds the id.
        text_key: The field that holds the text; unless given `text`, else all string fields, one a line.
        metadata_keys: The fields that become metadata; unless given, all but id and text.
        strategy: Decomposes the objects; `WholeText(text_key=text_key)` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the objects' links.

    Raises:
        ArgumentError: `name` or a key cannot be used.
        SourceError: While iterating: the file is missing, empty, or damaged.

    Example:
        >>> from_jsonl("data/corpus.jsonl.gz", text_key="body").indexing_strategy
        WholeText(text_key='body', kind='document')
    """
    if isinstance(metadata_keys, str):
        raise ArgumentError(f"metadata_keys must be a sequence of field names, not the string {metadata_keys!r}")
    whole = WholeText(text_key=text_key)
    file = Path(path)
    keys = None if metadata_keys is None else tuple(metadata_keys)
    return CorpusSource(
        name_from(file.name.removesuffix(".gz").removesuffix(".jsonl"), "records") if name is None else name,
        _Lines(file, id_key, text_key or "text", keys).pages,
        strategy or whole,
        embedder=embedder,
        edge_extractor=edge_extractor,
    )
