"""The source of a corpus: a name, a scope to read, and settings for indexing."""

import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeAlias

import anyio.lowlevel
import numpy as np

from airw._base.checks import NAME_RULE, check_kind, find_text_fault, is_valid_name
from airw._base.concurrency import in_thread
from airw._base.json import list_flat_texts
from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources._hashing import content_hash, hash_contents
from airw.values import Artifact, ItemProblem

Item: TypeAlias = Artifact | ItemProblem
Pages: TypeAlias = Generator[Sequence[Item], None, None]
AsyncPages: TypeAlias = AsyncGenerator[Sequence[Item], None]
MetadataOf: TypeAlias = Callable[[str, Any], Mapping[str, Any]]

PAGE = 64
_TURN = 0.002  # seconds that reading a mapping may keep other tasks waiting
_MAX_FIELD = 1_000  # characters
_PAGE_CHARS = 1_000_000  # a page of a mapping ends with this many characters


def to_metadata(raw: object, text_key: str | None = None) -> dict[str, Any]:
    """Return the fields of a raw value that filters can use.

    Those are all fields of a mapping but its text: `text_key`, or `text` by default. Without a field `text` all strings
    are the text. Then those of more than 1,000 characters are left out. Bytes and arrays are left out as well.

    Example:
        >>> to_metadata({"title": "Keys", "text": "Rotate them.", "year": 2026})
        {'title': 'Keys', 'year': 2026}
    """
    if not isinstance(raw, Mapping):
        return {}
    key = text_key or "text"
    longest = _MAX_FIELD if text_key is None and key not in raw else math.inf
    return {name: value for name, value in raw.items() if name != key and _is_field(value, longest)}


def _is_field(value: object, longest: float) -> bool:
    if isinstance(value, str):
        return len(value) <= longest
    return not isinstance(value, bytes | bytearray | memoryview | np.ndarray)


def id_from(value: object) -> str | None:
    """Return a string unchanged and a number as decimal text; `None` if the value is no id.

    Example:
        >>> id_from("a"), id_from(0), id_from(""), id_from(True)
        ('a', '0', None, None)
    """
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def name_from(text: str, default: str) -> str:
    """Return a valid name of a source, made from the name of a file or folder.

    Example:
        >>> name_from("My notes (2026)", "files"), name_from("…", "files")
        ('My-notes-2026', 'files')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or default


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """A source with a name, artifacts to read, and settings for indexing them.

    Args:
        name: 1 to 100 letters, digits and `._-`; the first is a letter or digit.
        scope: A mapping of id to raw value, which is read lazily and in its own order. Or a function that returns a
            generator of pages of artifacts and problems. A sync generator runs in a worker thread.
        indexing_strategy: The strategy that splits the artifacts into surfaces.
        change_signal: A function that returns a text for an artifact. The text must change if anything changes that
            would be indexed.
        embedder: An embedder, or the specification of one.
        metadata_of: A function of id and raw value. The fields it returns override those of the artifact's metadata.
        edge_extractor: The extractor of the artifacts' links; `None` for no links.
        excluded: A function that returns the items that are left out on purpose, by reason; `airw.corpora.coverage`
            uses it.
        count: A function that returns how many items the scope has, without reading them, or `None` if it cannot tell.
            It may be a little too high. A mapping needs none.
        origin: The absolute path of the folder or file that the artifacts come from; `None` if there is none. A build
            refuses to replace the artifacts of another origin.
        left_out: A function that returns how many files and folders are left out although their kind would be read,
            by reason; the report of a build has it. It reads no item.
        fits_model: Whether a build may replace `WholeText` by `FittedText` if the embedder has `max_tokens`; sources do
            so whose caller named no strategy.

    Raises:
        ArgumentError: If the name is not valid, or the scope is neither a mapping nor a function.

    Example:
        >>> source = CorpusSource("letters", {"a": "alpha", "": "nameless"})
        >>> async def main():
        ...     async for item in source.items():
        ...         print(item)
        >>> anyio.run(main)
        Artifact(id='a', raw='alpha', metadata={})
        ItemProblem(item='', reason="an id must be a non-empty string, not ''", lost=True)
    """

    name: str
    scope: Mapping[str, Any] | Callable[[], Pages | AsyncPages]
    indexing_strategy: IndexingStrategy = field(default_factory=WholeText)
    change_signal: Callable[[Artifact], str] = content_hash
    embedder: str | Embedder = "default"
    metadata_of: MetadataOf | None = None
    edge_extractor: EdgeExtractor | None = None
    excluded: Callable[[], Mapping[str, Sequence[str]]] | None = None
    count: Callable[[], int | None] | None = None
    origin: str | None = None
    left_out: Callable[[], Mapping[str, int]] | None = None
    fits_model: bool = False

    def __post_init__(self) -> None:
        """Check name and scope."""
        if not is_valid_name(self.name):
            raise ArgumentError(f"name must be {NAME_RULE}, not {short_repr(self.name)}")
        if not isinstance(self.scope, Mapping) and not callable(self.scope):
            raise ArgumentError(
                f"scope must be a mapping of id to raw value, or a function, not {short_repr(self.scope)}"
            )

    def items(self) -> AsyncIterator[Item]:
        """Yield the artifacts, and a problem for each item that cannot be read or stored.

        Raises:
            SourceError: If the source itself is missing or cannot be read.
        """
        return self._read_items()

    def pages(self) -> AsyncIterator[list[Item]]:
        """Yield what `items` yields, in short lists.

        Builds read many items at once, because this takes less time than one by one.

        Raises:
            SourceError: If the source itself is missing or cannot be read.

        Example:
            >>> async def main():
            ...     return [len(page) async for page in CorpusSource("letters", {"a": "alpha", "b": "beta"}).pages()]
            >>> anyio.run(main)
            [2]
        """
        return self._read_scope(PAGE)

    def signal_changes(self, artifacts: Sequence[Artifact]) -> list[str]:
        """Return the change signal of each artifact.

        Example:
            >>> source = CorpusSource("letters", {})
            >>> source.signal_changes([Artifact("a", "alpha")]) == [content_hash(Artifact("a", "alpha"))]
            True
        """
        if self.change_signal is content_hash:
            return hash_contents(artifacts)
        return [self.change_signal(artifact) for artifact in artifacts]

    def count_items(self) -> int | None:
        """Return the number of items, or `None` if only reading them can tell.

        A build shows it in its progress. Call it in a worker thread: it may list a folder.

        Example:
            >>> CorpusSource("letters", {"a": "alpha", "b": "beta"}).count_items()
            2
        """
        if self.count is not None:
            return self.count()
        return len(self.scope) if isinstance(self.scope, Mapping) else None

    def _read_scope(self, size: int) -> AsyncGenerator[list[Item], None]:
        return self._read_mapping(self.scope, size) if isinstance(self.scope, Mapping) else self._read_pages(self.scope)

    async def _read_items(self) -> AsyncGenerator[Item, None]:
        # One at a time, as whoever asks may not want all: reading a key of a lazy mapping may take long.
        pages = self._read_scope(1)
        try:
            async for page in pages:
                for item in page:
                    yield item
        finally:
            await pages.aclose()

    async def _read_mapping(self, scope: Mapping[str, Any], size: int) -> AsyncGenerator[list[Item], None]:
        keys, turn_end = iter(scope), 0.0
        while True:
            # To let other tasks run after each page would take a third of the time.
            if time.perf_counter() >= turn_end:
                await anyio.lowlevel.checkpoint()
                turn_end = time.perf_counter() + _TURN
            names, raws, metadata = self._read_keys(scope, islice(keys, size))
            if not names:
                return
            yield self._check_items(names, raws, metadata)

    def _read_keys(
        self, scope: Mapping[str, Any], keys: Iterator[Any]
    ) -> tuple[list[Any], list[Any], list[Mapping[str, Any] | ItemProblem]]:
        """Return keys, raw values and metadata, or a problem as metadata if reading fails."""
        names: list[Any] = []
        raws: list[Any] = []
        metadata: list[Mapping[str, Any] | ItemProblem] = []
        text_key, chars = getattr(self.indexing_strategy, "text_key", None), 0
        for key in keys:
            names.append(key)
            try:
                raw = scope[key]
            except Exception as error:  # noqa: BLE001 - if a lazy mapping fails on one item, the others can be read
                raws.append(None)
                metadata.append(ItemProblem(_to_printable(key), f"cannot be read: {error_text(error)}"))
                continue
            raws.append(raw)
            # A text has no fields.
            metadata.append({} if type(raw) is str else to_metadata(raw, text_key))
            chars += len(raw) if type(raw) is str else _count_chars(raw)
            if chars >= _PAGE_CHARS:
                break
        return names, raws, metadata

    async def _read_pages(self, scope: Callable[[], Pages | AsyncPages]) -> AsyncGenerator[list[Item], None]:
        made = scope()
        pages = made if isinstance(made, AsyncGenerator) else _run_in_threads(made)
        try:
            async for page in pages:
                artifacts = [item for item in page if isinstance(item, Artifact)]
                checked = iter(
                    self._check_items(
                        [item.id for item in artifacts],
                        [item.raw for item in artifacts],
                        [item.metadata for item in artifacts],
                    )
                )
                yield [next(checked) if isinstance(item, Artifact) else item for item in page]
        finally:
            await pages.aclose()

    def _check_items(
        self, names: Sequence[Any], raws: Sequence[Any], metadata: Sequence[Mapping[str, Any] | ItemProblem]
    ) -> list[Item]:
        """Return artifacts with the fields of `metadata_of`, or problems."""
        if self.metadata_of is not None:
            metadata = self._add_fields(self.metadata_of, names, raws, metadata)
        # Nearly always, all are valid: then one check of all texts together is enough.
        if {*map(type, names)} == {str} and all(names) and _are_sound(names, raws, metadata):
            return list(map(Artifact, names, raws, metadata))  # type: ignore[arg-type]
        return list(map(self._check_item, names, raws, metadata))

    @staticmethod
    def _add_fields(
        metadata_of: MetadataOf,
        names: Sequence[Any],
        raws: Sequence[Any],
        metadata: Sequence[Mapping[str, Any] | ItemProblem],
    ) -> list[Mapping[str, Any] | ItemProblem]:
        """Return the metadata with the fields of `metadata_of`, or a problem where that fails."""
        added: list[Mapping[str, Any] | ItemProblem] = []
        for name, raw, fields in zip(names, raws, metadata, strict=True):
            if isinstance(fields, ItemProblem) or not isinstance(name, str) or not name:
                added.append(fields)
                continue
            try:
                added.append({**fields, **metadata_of(name, raw)})
            except Exception as error:  # noqa: BLE001 - the caller's function failed on this item
                added.append(ItemProblem(_to_printable(name), f"metadata_of failed: {error_text(error)}"))
        return added

    def _check_item(self, name: Any, raw: Any, metadata: Mapping[str, Any] | ItemProblem) -> Item:
        """Return an artifact, or a problem if it is not valid."""
        if isinstance(metadata, ItemProblem):
            return metadata
        if not isinstance(name, str) or not name:
            shown = _to_printable(name)
            kind = "" if isinstance(name, str) else f"the {type(name).__name__} "
            return ItemProblem(shown, f"an id must be a non-empty string, not {kind}{short_repr(shown)}")
        try:
            if fault := _find_fault((name, raw, metadata)):
                return ItemProblem(_to_printable(name), f"contains {fault}, so it is not UTF-8; clean the text first")
        except RecursionError:
            return ItemProblem(_to_printable(name), "its fields contain themselves or nest too deeply")
        return Artifact(name, raw, metadata)


def _count_chars(raw: object) -> int:
    """Return the length of a text, or of the texts that are the values of a mapping."""
    if isinstance(raw, str | bytes):
        return len(raw)
    return sum(len(value) for value in raw.values() if isinstance(value, str)) if isinstance(raw, dict) else 0


def _are_sound(names: Sequence[str], raws: Sequence[Any], metadata: Sequence[Any]) -> bool:
    """Return whether these are texts and flat mappings that can be stored."""
    fields = list_flat_texts(metadata)
    texts = raws if {*map(type, raws)} == {str} else list_flat_texts(raws)
    if fields is None or texts is None:
        return False
    return all(map(str.isascii, chain(names, fields, texts))) or not find_text_fault(
        "".join(chain(names, fields, texts))
    )


async def _run_in_threads(pages: Pages) -> AsyncPages:
    try:
        while (page := await in_thread(next, pages, None)) is not None:
            yield page
    finally:
        pages.close()


def _find_fault(value: Any) -> str | None:
    """Return the first fault that prevents a text in a value from being stored, or `None`."""
    if isinstance(value, str):
        return None if value.isascii() else find_text_fault(value)
    if value is None or isinstance(value, (int, float)):
        return None
    if isinstance(value, (dict, Mapping)):  # `dict` is checked first, because that check is much faster
        return next(filter(None, map(_find_fault, chain(value, value.values()))), None)
    return next(filter(None, map(_find_fault, value)), None) if isinstance(value, (list, tuple)) else None


def _to_printable(key: Any) -> str:
    return str(key).encode("utf-8", "backslashreplace").decode()


def from_mapping(
    mapping: Mapping[str, Any],
    *,
    name: str,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
    metadata_of: MetadataOf | None = None,
) -> CorpusSource:
    """Return a source of a mapping of id to raw value.

    The mapping is read lazily and in its own order. The metadata of a mapping of fields are all of them but its text;
    see `to_metadata`.

    Args:
        mapping: The raw values by id: strings, or mappings of fields, as the strategy needs them.
        name: The name of the source, and the default name of the corpus: letters, digits and `._-`.
        strategy: The strategy that splits the artifacts into surfaces; by default `WholeText()`, and `FittedText` for
            an embedder with `max_tokens`.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the artifacts' links. By default, they are the ids in the field `links` of a
            raw mapping: a list, or a mapping of edge types to lists.
        metadata_of: A function of id and raw value. The fields it returns override the metadata.

    Raises:
        ArgumentError: If the name is not valid, or `mapping` is not a mapping.

    Example:
        >>> source = from_mapping({"a": "alpha"}, name="letters", metadata_of=lambda id, raw: {"size": len(raw)})
        >>> source.name, source.indexing_strategy
        ('letters', WholeText(text_key=None, kind='document'))
    """
    check_kind("mapping", mapping, Mapping, "be a mapping of id to raw value", error=ArgumentError)
    return CorpusSource(
        name,
        mapping,
        WholeText() if strategy is None else strategy,
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
        fits_model=strategy is None,
    )
