"""Records that a function gives, or a list holds."""

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.checks import check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError
from airw.indexing import Chunked
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources._fetching import Fetched, Fetcher, check_records
from airw.sources.source import CorpusSource, Item, id_from
from airw.values import Artifact, ItemProblem


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of the records: which of their fields mean what, and where each id was first."""

    source: str
    id_key: str
    text_key: str
    metadata_keys: tuple[str, ...] | None
    positions: dict[str, int] = field(default_factory=dict)

    def items(self, record: object, position: int) -> list[Item]:
        item = self._artifact(record, position)
        if isinstance(item, Artifact) and (first := self.positions.setdefault(item.id, position)) != position:
            reason = f"the id {item.id!r} at position {position} is already at position {first}, counted from 0"
            item = ItemProblem(f"{self.source}[{position}]", reason)
        return [item]

    def _artifact(self, record: object, position: int) -> Item:
        where = f"{self.source}[{position}]"
        if not isinstance(record, Mapping):
            return ItemProblem(where, f"a record must be a mapping of fields, not {short_repr(record)}")
        given = record.get(self.id_key)
        name = f"{self.source}_{position}" if given is None or given == "" else id_from(given)
        if name is None:
            return ItemProblem(where, f"{self.id_key!r} must hold a string or a number, not {short_repr(given)}")
        fields = {key: value for key, value in record.items() if key != self.id_key}
        keys = fields if self.metadata_keys is None else self.metadata_keys
        metadata = {key: fields[key] for key in keys if key in fields and key != self.text_key}
        return Artifact(name, fields, metadata)


def from_records(
    fetcher: Fetcher | Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
    *,
    name: str,
    id_key: str = "id",
    text_key: str | None = None,
    metadata_keys: Sequence[str] | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
) -> CorpusSource:
    """Make a source of records, mappings of fields, that a function gives each time they are read.

    An artifact's raw value is its record without the id; a number as id becomes its decimal text, and a record without
    one is called `<name>_<position>`, counted from 0. A record that is no mapping, or has an id seen before or one that
    is no string or number, is an `ItemProblem` that names its position. Nothing is read or imported here.

    Args:
        fetcher: A function, async or called in a worker thread, that gives an async iterable of records, or an
            iterable, which is read in worker threads, not always the same; `"module:attribute"` or
            `"module.attribute"`, which is imported and called when the records are read, so only names you trust; or a
            list, or whatever else can be iterated again.
        name: Letters, digits and `._-`; the default name of the corpus.
        id_key: The field that holds the id.
        text_key: The field that holds the text; unless given `text`, else all string fields, one a line.
        metadata_keys: The fields that become metadata, to filter on; unless given, all but id and text.
        strategy: Decomposes the records; `Chunked(text_key=text_key)` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the records' links.

    Raises:
        ArgumentError: `name`, a key or `fetcher` cannot be used; where `fetcher` is of another kind, or an iterator,
            which could be read only once, an `ArgumentKindError`.
        SourceError: While iterating: `fetcher` leads nowhere, fails, or gives what are no records.

    Example:
        >>> import anyio
        >>> source = from_records(lambda: [{"id": 0, "text": "Knead.", "step": 1}, {"text": "Bake."}], name="loaf")
        >>> async def main():
        ...     return [(item.id, item.raw, item.metadata) async for item in source.items()]
        >>> anyio.run(main)
        [('0', {'text': 'Knead.', 'step': 1}, {'step': 1}), ('loaf_1', {'text': 'Bake.'}, {})]
    """
    if isinstance(fetcher, Mapping):
        raise ArgumentKindError("fetcher is a mapping: pass its values, or use from_mapping, which keeps its keys")
    check_records("fetcher", fetcher)
    if not isinstance(id_key, str) or not id_key:
        raise ArgumentError(f"id_key must be a non-empty string, not {short_repr(id_key)}")
    keys = None if metadata_keys is None else check_strings("metadata_keys", metadata_keys)
    chunked = Chunked(text_key=text_key)
    fetched = Fetched(fetcher)
    return CorpusSource(
        name,
        lambda: fetched.pages(_Reading(name, id_key, text_key or "text", keys).items),
        strategy or chunked,
        embedder=embedder,
        edge_extractor=edge_extractor,
    )
