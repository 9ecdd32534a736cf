"""The one kind of source: a name, a scope to read, and how its artifacts are to be indexed."""

import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any, TypeAlias

import anyio.lowlevel

from airw._base.checks import NAME_RULE, find_text_fault, is_valid_name
from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import error_text
from airw.errors import ArgumentError
from airw.indexing import WholeText
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.values import Artifact, ItemProblem

Item: TypeAlias = Artifact | ItemProblem
Pages: TypeAlias = Generator[Sequence[Item], None, None]
AsyncPages: TypeAlias = AsyncGenerator[Sequence[Item], None]
MetadataOf: TypeAlias = Callable[[str, Any], Mapping[str, Any]]

PAGE = 64
_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=json_clean)


def content_hash(artifact: Artifact) -> str:
    """Hash what is indexed of an artifact, its raw value and its metadata, to 32 hex digits (BLAKE2b).

    Strings and bytes are hashed as they are, anything else as canonical JSON: the order of keys does not count.

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
    except (TypeError, ValueError, RecursionError):  # keys that do not sort, or a value inside itself
        text = _cleaned(value)
    return text.encode("utf-8", "surrogatepass")


def _cleaned(value: Any) -> str:
    try:
        return _CANONICAL.encode(json_clean(value))
    except RecursionError:
        return repr(value)


def id_from(value: object) -> str | None:
    """Return a string itself and a number as its decimal text; `None` for what can be no id.

    Example:
        >>> id_from("a"), id_from(0), id_from(""), id_from(True)
        ('a', '0', None, None)
    """
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return str(value) if isinstance(value, (str, int, float)) and value != "" else None


def name_from(text: str, default: str) -> str:
    """Make a valid name of a file's or folder's name.

    Example:
        >>> name_from("My notes (2026)", "files"), name_from("…", "files")
        ('My-notes-2026', 'files')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100] or default


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """A named scope of artifacts, and how they are to be indexed.

    Args:
        name: Letters, digits and `._-`, at most 100, beginning with a letter or digit.
        scope: A mapping of id to raw value, read lazily in its own order; or a function that makes a generator of
            pages of artifacts and problems, which is run in a worker thread unless it is an async one.
        indexing_strategy: Decomposes the artifacts.
        change_signal: Gives a text that changes whenever what would be indexed of an artifact changes.
        embedder: An embedder, or the specification of one.
        metadata_of: Called with id and raw value; what it gives is laid over the artifact's metadata.
        edge_extractor: Finds the artifacts' links; `None` for no links.
        excluded: Gives what lies where the artifacts do and is left out on purpose, by reason, for
            `airw.corpora.coverage`.

    Raises:
        ArgumentError: The name is not valid, or the scope is neither a mapping nor a function.

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

    def __post_init__(self) -> None:
        """Check name and scope at birth."""
        if not is_valid_name(self.name):
            raise ArgumentError(f"a source's name must be {NAME_RULE}, not {self.name!r}")
        if not isinstance(self.scope, Mapping) and not callable(self.scope):
            kind = type(self.scope).__name__
            raise ArgumentError(f"a source's scope must be a mapping of id to raw value, not of type {kind}")

    def items(self) -> AsyncIterator[Item]:
        """Stream the artifacts, and a problem for each that cannot be stored or read.

        Raises:
            SourceError: The source itself is missing or cannot be read.
        """
        if isinstance(self.scope, Mapping):
            return self._mapped(self.scope)
        pages = self.scope()
        return self._paged(pages if isinstance(pages, AsyncGenerator) else _in_threads(pages))

    async def _mapped(self, scope: Mapping[str, Any]) -> AsyncIterator[Item]:
        for number, key in enumerate(scope):
            if number % PAGE == 0:
                await anyio.lowlevel.checkpoint()
            yield self._looked_up(scope, key)

    async def _paged(self, pages: AsyncPages) -> AsyncIterator[Item]:
        try:
            async for page in pages:
                for item in page:
                    yield self._checked(item.id, item.raw, item.metadata) if isinstance(item, Artifact) else item
        finally:
            await pages.aclose()

    def _looked_up(self, scope: Mapping[str, Any], key: Any) -> Item:
        try:
            raw = scope[key]
        except Exception as error:  # noqa: BLE001 - a lazy mapping's failure to read one item is that item's problem
            return ItemProblem(_shown(key), f"cannot be read: {error_text(error)}")
        return self._checked(key, raw, {})

    def _checked(self, name: Any, raw: Any, metadata: Mapping[str, Any]) -> Item:
        """Make an artifact, `metadata_of` laid over its metadata; refuse what no store can hold."""
        if not isinstance(name, str) or not name:
            return ItemProblem(_shown(name), f"an id must be a non-empty string, not {name!r:.80}")
        if self.metadata_of is not None:
            try:
                metadata = {**metadata, **self.metadata_of(name, raw)}
            except Exception as error:  # noqa: BLE001 - the caller's function failed on this item
                return ItemProblem(_shown(name), f"metadata_of failed: {error_text(error)}")
        try:
            if fault := _fault_in((name, raw, metadata)):
                return ItemProblem(_shown(name), f"holds {fault}, which is no text in UTF-8: clean the text first")
        except RecursionError:
            return ItemProblem(_shown(name), "its fields contain themselves or nest too deeply")
        return Artifact(name, raw, metadata)


async def _in_threads(pages: Pages) -> AsyncPages:
    try:
        while (page := await in_thread(next, pages, None)) is not None:
            yield page
    finally:
        pages.close()


def _fault_in(value: Any) -> str | None:
    """Return what keeps the texts in a value from being stored, if anything does."""
    if isinstance(value, str):
        return None if value.isascii() else find_text_fault(value)
    if value is None or isinstance(value, (int, float)):
        return None
    if isinstance(value, (dict, Mapping)):  # of the two, the first is asked much faster
        return next(filter(None, map(_fault_in, chain(value, value.values()))), None)
    return next(filter(None, map(_fault_in, value)), None) if isinstance(value, (list, tuple)) else None


def _shown(key: Any) -> str:
    """Make any id printable."""
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
    """Make a source of a mapping of id to raw value, read lazily and in its own order.

    Args:
        mapping: Raw values are what the strategy reads: strings, or mappings of fields.
        name: Letters, digits and `._-`; the default name of the corpus.
        strategy: Decomposes the artifacts; `WholeText()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the artifacts' links.
        metadata_of: Called with id and raw value; gives the artifact's metadata, its filter fields.

    Raises:
        ArgumentError: The name is not valid, or `mapping` is no mapping.

    Example:
        >>> source = from_mapping({"a": "alpha"}, name="letters", metadata_of=lambda id, raw: {"size": len(raw)})
        >>> source.name, source.indexing_strategy
        ('letters', WholeText(text_key=None, kind='document'))
    """
    if not isinstance(mapping, Mapping):
        raise ArgumentError(f"from_mapping takes a mapping of id to raw value, not of type {type(mapping).__name__}")
    return CorpusSource(
        name,
        mapping,
        strategy or WholeText(),
        embedder=embedder,
        metadata_of=metadata_of,
        edge_extractor=edge_extractor,
    )
