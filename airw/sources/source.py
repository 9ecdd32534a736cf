"""The source of a corpus: a name, a scope to read, and settings for indexing."""

import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeAlias

import anyio.lowlevel
import numpy as np

from airw._base.checks import NAME_RULE, find_text_fault, is_valid_name
from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.values import Artifact, ItemProblem

Item: TypeAlias = Artifact | ItemProblem
Pages: TypeAlias = Generator[Sequence[Item], None, None]
AsyncPages: TypeAlias = AsyncGenerator[Sequence[Item], None]
MetadataOf: TypeAlias = Callable[[str, Any], Mapping[str, Any]]

PAGE = 64
_MAX_FIELD = 1_000  # characters
_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=json_clean)


def content_hash(artifact: Artifact) -> str:
    """Return a hash of an artifact's raw value and metadata: 32 hex digits (BLAKE2b).

    Strings and bytes are hashed unchanged, other values as canonical JSON, so that the order of keys does not matter.

    Example:
        >>> content_hash(Artifact("a", {"x": 1, "y": 2})) == content_hash(Artifact("b", {"y": 2, "x": 1}))
        True
        >>> content_hash(Artifact("a", "text")) == content_hash(Artifact("a", "text", {"owner": "me"}))
        False
    """
    raw = artifact.raw
    if isinstance(raw, str):
        kind, body = b"s", raw.encode("utf-8", "surrogatepass")
    elif isinstance(raw, (bytes, bytearray, memoryview)):
        kind, body = b"b", bytes(raw)
    else:
        kind, body = b"j", _canonical(raw)
    fields = _canonical(artifact.metadata) if artifact.metadata else b""
    # The length keeps raw value and metadata apart.
    return blake2b(b"%b%d:%b%b" % (kind, len(body), body, fields), digest_size=16).hexdigest()


def _canonical(value: Any) -> bytes:
    try:
        text = _CANONICAL.encode(value)
    except (TypeError, ValueError, RecursionError):  # keys that cannot be sorted, or a value inside itself
        text = _encode_clean(value)
    return text.encode("utf-8", "surrogatepass")


def _encode_clean(value: Any) -> str:
    try:
        return _CANONICAL.encode(json_clean(value))
    except RecursionError:
        return repr(value)


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
        if isinstance(self.scope, Mapping):
            return self._read_mapping(self.scope)
        pages = self.scope()
        return self._read_pages(pages if isinstance(pages, AsyncGenerator) else _run_in_threads(pages))

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

    async def _read_mapping(self, scope: Mapping[str, Any]) -> AsyncIterator[Item]:
        for number, key in enumerate(scope):
            if number % PAGE == 0:
                await anyio.lowlevel.checkpoint()
            yield self._read_key(scope, key)

    async def _read_pages(self, pages: AsyncPages) -> AsyncIterator[Item]:
        try:
            async for page in pages:
                for item in page:
                    yield self._check_item(item.id, item.raw, item.metadata) if isinstance(item, Artifact) else item
        finally:
            await pages.aclose()

    def _read_key(self, scope: Mapping[str, Any], key: Any) -> Item:
        try:
            raw = scope[key]
        except Exception as error:  # noqa: BLE001 - if a lazy mapping fails on one item, the others can be read
            return ItemProblem(_to_printable(key), f"cannot be read: {error_text(error)}")
        return self._check_item(key, raw, to_metadata(raw, getattr(self.indexing_strategy, "text_key", None)))

    def _check_item(self, name: Any, raw: Any, metadata: Mapping[str, Any]) -> Item:
        """Return an artifact with the fields of `metadata_of`, or a problem if it is not valid."""
        if not isinstance(name, str) or not name:
            return ItemProblem(_to_printable(name), f"an id must be a non-empty string, not {name!r:.80}")
        if self.metadata_of is not None:
            try:
                metadata = {**metadata, **self.metadata_of(name, raw)}
            except Exception as error:  # noqa: BLE001 - the caller's function failed on this item
                return ItemProblem(_to_printable(name), f"metadata_of failed: {error_text(error)}")
        try:
            if fault := _find_fault((name, raw, metadata)):
                return ItemProblem(_to_printable(name), f"contains {fault}, so it is not UTF-8; clean the text first")
        except RecursionError:
            return ItemProblem(_to_printable(name), "its fields contain themselves or nest too deeply")
        return Artifact(name, raw, metadata)


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
        strategy: The strategy that splits the artifacts into surfaces; `WholeText()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the artifacts' links; `None` for no links.
        metadata_of: A function of id and raw value. The fields it returns override the metadata.

    Raises:
        ArgumentError: If the name is not valid, or `mapping` is not a mapping.

    Example:
        >>> source = from_mapping({"a": "alpha"}, name="letters", metadata_of=lambda id, raw: {"size": len(raw)})
        >>> source.name, source.indexing_strategy
        ('letters', WholeText(text_key=None, kind='document'))
    """
    if not isinstance(mapping, Mapping):
        raise ArgumentError(f"mapping must be a mapping of id to raw value, not {short_repr(mapping)}")
    return CorpusSource(
        name,
        mapping,
        WholeText() if strategy is None else strategy,
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
    )
