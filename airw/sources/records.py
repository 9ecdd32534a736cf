"""A source of records from a function or a list, and references to functions by name."""

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

from airw._base.checks import check_filled, check_strings
from airw._base.concurrency import call_user_function, in_thread
from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Chunked
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.source import PAGE, AsyncPages, CorpusSource, Item, id_from, to_metadata
from airw.values import Artifact, ItemProblem

Fetcher: TypeAlias = Callable[[], Any] | str

_MODULE = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"({_MODULE}):({_MODULE})|({_MODULE})\.([^\W\d]\w*)")


def split_reference(text: str) -> tuple[str, str]:
    """Return the module and the attribute of a reference such as `"module:attribute"`.

    Nothing is imported.

    Raises:
        ArgumentError: If the text is not a reference.

    Example:
        >>> split_reference("package.module.records")
        ('package.module', 'records')
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ArgumentError(f"a reference must be 'module:attribute' or 'module.attribute', not {short_repr(text)}")
    module, attribute = (part for part in match.groups() if part is not None)
    return module, attribute


def resolve_reference(text: str) -> Any:
    """Import and return the object that a reference names.

    This runs the code of the module, so use only references that you trust.

    Raises:
        ArgumentError: If the text is not a reference.
        SourceError: If the module cannot be imported, or has no such attribute.

    Example:
        >>> resolve_reference("math:pi")
        3.141592653589793
    """
    module, attribute = split_reference(text)
    try:
        imported = import_module(module)
    except Exception as error:  # the code of a module may raise any error
        raise SourceError(f"{text!r}: cannot import {module!r}: {error_text(error)}") from error
    try:
        return reduce(getattr, attribute.split("."), imported)
    except AttributeError as error:
        raise SourceError(f"{text!r}: the module {module!r} has no {attribute!r}") from error


def check_fetcher(name: str, fetcher: object) -> None:
    """Check that a value is a function, or a reference to one; nothing is imported.

    Raises:
        ArgumentKindError: If it is neither a function nor a string.
        ArgumentError: If it is a string that is not a reference.
    """
    if isinstance(fetcher, str):
        split_reference(fetcher)
    elif not callable(fetcher):
        raise ArgumentKindError(f"{name} must be a function or 'module:attribute', not {short_repr(fetcher)}")


def check_records(name: str, records: object) -> None:
    """Check that a value is a fetcher, or an iterable that can be read more than once.

    Raises:
        ArgumentKindError: If it is neither, or an iterator, which can be read only once.
        ArgumentError: If it is a string that is not a reference.
    """
    if isinstance(records, Iterator | AsyncIterator):
        raise ArgumentKindError(
            f"{name} can be read only once; pass a function that returns it, not {short_repr(records)}"
        )
    if isinstance(records, bytes | bytearray) or not isinstance(records, Iterable | AsyncIterable):
        check_fetcher(name, records)
    elif isinstance(records, str):
        split_reference(records)


@dataclass(frozen=True, slots=True)
class RecordFetcher:
    """Reads records from an iterable, or from a function that returns one.

    Args:
        origin: The iterable; or a function that returns one, sync or async; or a reference to such a function. The
            iterable may be async.
        from_mapping: A function that makes records from a mapping. Without it, a mapping instead of records is an
            error.
    """

    origin: Any
    from_mapping: Callable[[Mapping[Any, Any]], Iterable[Any]] | None = None

    async def pages(self, read: Callable[[Any, int], Iterable[Item]]) -> AsyncPages:
        """Yield pages of items; sync functions and iterables run in worker threads.

        Args:
            read: A function of a record and its position, counted from 0, that returns items.

        Raises:
            SourceError: If the reference cannot be resolved, or the function fails or does not return records.
        """
        records = await self._fetch()
        count = 0
        pages = _async_pages(records) if isinstance(records, AsyncIterable) else _thread_pages(records)
        try:
            while page := await self._next_page(pages, count):
                yield [item for position, record in enumerate(page, count) for item in read(record, position)]
                count += len(page)
        finally:
            await pages.aclose()

    async def _next_page(self, pages: AsyncGenerator[list[Any], None], count: int) -> list[Any]:
        try:
            return await anext(pages, [])
        except Exception as error:
            raise self._error(f"failed after {count} records", error) from error

    async def _fetch(self) -> Any:
        origin = await in_thread(resolve_reference, self.origin) if isinstance(self.origin, str) else self.origin
        try:
            records = await call_user_function(origin) if callable(origin) else origin
        except Exception as error:
            raise self._error("failed", error) from error
        if isinstance(records, Mapping) and self.from_mapping is not None:
            return self.from_mapping(records)
        if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable | AsyncIterable):
            raise SourceError(f"{self._label} returned {short_repr(records)}; return an iterable of records")
        return records

    def _error(self, event: str, error: Exception) -> SourceError:
        return SourceError(f"{self._label} {event}: {error_text(error)}")

    @property
    def _label(self) -> str:
        if isinstance(self.origin, str):
            return f"the fetcher {self.origin!r}"
        return f"the fetcher {getattr(self.origin, '__qualname__', type(self.origin).__qualname__)!r}"


async def _async_pages(records: AsyncIterable[Any]) -> AsyncGenerator[list[Any], None]:
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


async def _thread_pages(records: Iterable[Any]) -> AsyncGenerator[list[Any], None]:
    iterator = await in_thread(iter, records)
    try:
        while page := await in_thread(_read_page, iterator):
            yield page
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def _read_page(iterator: Iterator[Any]) -> list[Any]:
    return list(islice(iterator, PAGE))


@dataclass(frozen=True, slots=True)
class _RecordReader:
    """Makes artifacts from records, for one iteration of a source.

    `positions` contains the first position of each id, to report duplicates.
    """

    source: str
    id_key: str
    text_key: str | None
    metadata_keys: tuple[str, ...] | None
    positions: dict[str, int] = field(default_factory=dict)

    def read(self, record: object, position: int) -> list[Item]:
        item = self._to_artifact(record, position)
        if isinstance(item, Artifact) and (first := self.positions.setdefault(item.id, position)) != position:
            reason = f"the id {item.id!r} at position {position} is already at position {first}, counted from 0"
            item = ItemProblem(f"{self.source}[{position}]", reason)
        return [item]

    def _to_artifact(self, record: object, position: int) -> Item:
        where = f"{self.source}[{position}]"
        if not isinstance(record, Mapping):
            return ItemProblem(where, f"a record must be a mapping of fields, not {short_repr(record)}")
        value = record.get(self.id_key)
        name = f"{self.source}_{position}" if value is None or value == "" else id_from(value)
        if name is None:
            return ItemProblem(where, f"{self.id_key!r} must be a string or a number, not {short_repr(value)}")
        fields = {key: value for key, value in record.items() if key != self.id_key}
        if self.metadata_keys is None:
            return Artifact(name, fields, to_metadata(fields, self.text_key))
        keys = (key for key in self.metadata_keys if key in fields and key != (self.text_key or "text"))
        return Artifact(name, fields, {key: fields[key] for key in keys})


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
    """Return a source of records, which are mappings of fields.

    The raw value of an artifact is its record without the id. A number as id becomes decimal text. A record without an
    id is named `<name>_<position>`, counted from 0. A record is an `ItemProblem` with its position if it is not a
    mapping, or its id is a duplicate or neither a string nor a number. Nothing is read or imported in this call.

    Args:
        fetcher: The records, in one of these forms:

            - a list, or another iterable that can be read several times;
            - a function that returns an iterable, sync or async. It is called for each iteration of the source. A sync
              function, and a sync iterable, run in worker threads, not always in the same one;
            - `"module:attribute"` or `"module.attribute"`, a reference to such a function. The module is imported
              when the records are read, which runs its code: use only references that you trust.
        name: The name of the source, and the default name of the corpus: letters, digits and `._-`.
        id_key: The field with the id.
        text_key: The field with the text. By default it is `title` and `text`, or all string fields, one per line, if
            `text` is missing.
        metadata_keys: The fields that become metadata, for filters; by default all except id and text, see
            `to_metadata`.
        strategy: The strategy that splits the records into surfaces; `Chunked(text_key=text_key)` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the records' links. By default, they are the ids in the field `links`: a list,
            or a mapping of edge types to lists.

    Raises:
        ArgumentError: If `name`, a key or `fetcher` is not valid. It is an `ArgumentKindError` if `fetcher` has another
            type, or is an iterator, which can be read only once.
        SourceError: During iteration, if the reference cannot be resolved, or the function fails or does not return
            records.

    Example:
        >>> import anyio
        >>> source = from_records(lambda: [{"id": 0, "text": "Knead.", "step": 1}, {"text": "Bake."}], name="loaf")
        >>> async def main():
        ...     return [(item.id, item.raw, item.metadata) async for item in source.items()]
        >>> anyio.run(main)
        [('0', {'text': 'Knead.', 'step': 1}, {'step': 1}), ('loaf_1', {'text': 'Bake.'}, {})]
    """
    if isinstance(fetcher, Mapping):
        raise ArgumentKindError("fetcher must not be a mapping; pass its values, or use from_mapping to keep its keys")
    check_records("fetcher", fetcher)
    check_filled("id_key", id_key)
    keys = None if metadata_keys is None else check_strings("metadata_keys", metadata_keys)
    chunked = Chunked(text_key=text_key)
    record_fetcher = RecordFetcher(fetcher)
    return CorpusSource(
        name,
        lambda: record_fetcher.pages(_RecordReader(name, id_key, text_key, keys).read),
        chunked if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=edge_extractor,
    )
