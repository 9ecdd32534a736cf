"""Records that a function gives, or a list holds; functions may be given by name."""

import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from itertools import islice
from typing import Any, TypeAlias

from airw._base.checks import check_strings
from airw._base.concurrency import call_user_function, in_thread
from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Chunked
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.source import PAGE, AsyncPages, CorpusSource, Item, id_from
from airw.values import Artifact, ItemProblem

Fetcher: TypeAlias = Callable[[], Any] | str

_MODULE = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"({_MODULE}):({_MODULE})|({_MODULE})\.([^\W\d]\w*)")


def split_reference(text: str) -> tuple[str, str]:
    """Return the module and the attribute that a reference names; nothing is imported.

    Raises:
        ArgumentError: It is no reference.

    Example:
        >>> split_reference("package.module.records")
        ('package.module', 'records')
    """
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise ArgumentError(f"a function is named as 'module:attribute' or 'module.attribute', not {short_repr(text)}")
    module, attribute = (part for part in found.groups() if part is not None)
    return module, attribute


def resolve_reference(text: str) -> Any:
    """Import what a reference names; this runs the module's code, so only names you trust.

    Raises:
        ArgumentError: It is no reference.
        SourceError: The module cannot be imported, or has no such attribute.

    Example:
        >>> resolve_reference("math:pi")
        3.141592653589793
    """
    module, attribute = split_reference(text)
    try:
        found = import_module(module)
    except Exception as error:  # a module may raise anything while it is imported
        raise SourceError(f"{text!r}: cannot import {module!r}: {error_text(error)}") from error
    try:
        return reduce(getattr, attribute.split("."), found)
    except AttributeError as error:
        raise SourceError(f"{text!r}: the module {module!r} has no {attribute!r}") from error


def check_fetcher(name: str, fetcher: object) -> None:
    """Check that something is a function, or is written as a reference to one; nothing is imported.

    Raises:
        ArgumentKindError: It is neither a function nor a string.
        ArgumentError: It is a string that names no module.
    """
    if isinstance(fetcher, str):
        split_reference(fetcher)
    elif not callable(fetcher):
        raise ArgumentKindError(f"{name} must be a function or 'module:attribute', not {short_repr(fetcher)}")


def check_records(name: str, given: object) -> None:
    """Check that something is a fetcher, or holds records that can be read more than once.

    Raises:
        ArgumentKindError: It is neither, or an iterator, which could be read only once.
        ArgumentError: It is a string that names no module.
    """
    if isinstance(given, Iterator | AsyncIterator):
        raise ArgumentKindError(f"{name} can be read only once: pass a function that makes it, not {short_repr(given)}")
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable | AsyncIterable):
        check_fetcher(name, given)
    elif isinstance(given, str):
        split_reference(given)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records, or the function that gives them, or the name of one.

    Args:
        given: A function, async or called in a worker thread, which gives an iterable or an async iterable; the name of
            one; or the iterable itself.
        from_mapping: Makes the records of a mapping; without it, a mapping in place of records is an error.
    """

    given: Any
    from_mapping: Callable[[Mapping[Any, Any]], Iterable[Any]] | None = None

    async def pages(self, read: Callable[[Any, int], Iterable[Item]]) -> AsyncPages:
        """Make pages of items; what is not async is done in a worker thread.

        Args:
            read: Makes items of a record and its position, counted from 0.

        Raises:
            SourceError: The name leads nowhere, or the function fails or gives what are no records.
        """
        records = await self._records()
        count = 0
        pages = _awaited(records) if isinstance(records, AsyncIterable) else _iterated(records)
        try:
            while page := await self._next(pages, count):
                yield [item for position, record in enumerate(page, count) for item in read(record, position)]
                count += len(page)
        finally:
            await pages.aclose()

    async def _next(self, pages: AsyncGenerator[list[Any], None], count: int) -> list[Any]:
        try:
            return await anext(pages, [])
        except Exception as error:
            raise self._error(f"failed after {count} records", error) from error

    async def _records(self) -> Any:
        found = await in_thread(resolve_reference, self.given) if isinstance(self.given, str) else self.given
        try:
            records = await call_user_function(found) if callable(found) else found
        except Exception as error:
            raise self._error("failed", error) from error
        if isinstance(records, Mapping) and self.from_mapping is not None:
            return self.from_mapping(records)
        if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable | AsyncIterable):
            raise SourceError(f"{self._called} must give an iterable of records, not {short_repr(records)}")
        return records

    def _error(self, happened: str, error: Exception) -> SourceError:
        return SourceError(f"{self._called} {happened}: {error_text(error)}")

    @property
    def _called(self) -> str:
        if isinstance(self.given, str):
            return f"the fetcher {self.given!r}"
        return f"the fetcher {getattr(self.given, '__qualname__', type(self.given).__qualname__)!r}"


async def _awaited(records: AsyncIterable[Any]) -> AsyncGenerator[list[Any], None]:
    page: list[Any] = []
    iterator = aiter(records)
    try:
        async for record in iterator:
            page.append(record)
            if len(page) == PAGE:
                yield page
                page = []
    finally:
        if isinstance(iterator, AsyncGenerator):
            await iterator.aclose()
    yield page


async def _iterated(records: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    iterator = await in_thread(iter, records)
    try:
        while page := await in_thread(_taken, iterator):
            yield page
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def _taken(iterator: Iterator[Any]) -> list[Any]:
    return list(islice(iterator, PAGE))


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
