"""Records that somebody else's function gives, a page at a time; functions may be given by name."""

import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from itertools import islice
from typing import Any, TypeAlias

from airw._base.concurrency import called, in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.sources.source import PAGE, AsyncPages, Item, told

Fetcher: TypeAlias = Callable[[], Any] | str

_MODULE = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"({_MODULE}):({_MODULE})|({_MODULE})\.([^\W\d]\w*)")


def is_reference(text: object) -> bool:
    """Say whether something is written as `"module:attribute"` or `"module.attribute"`; nothing is imported.

    Example:
        >>> is_reference("package.module:records"), is_reference("package.module.records"), is_reference("records")
        (True, True, False)
    """
    return isinstance(text, str) and _REFERENCE.fullmatch(text) is not None


def split_reference(text: str) -> tuple[str, str]:
    """Give the module and the attribute that a reference names; nothing is imported.

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


def resolve(text: str) -> Any:
    """Import what a reference names; this runs the module's code, so only names you trust.

    Raises:
        ArgumentError: It is no reference.
        SourceError: The module cannot be imported, or has no such attribute.

    Example:
        >>> resolve("math:pi")
        3.141592653589793
    """
    module, attribute = split_reference(text)
    try:
        found = import_module(module)
    except Exception as error:  # a module may raise anything while it is imported
        raise SourceError(f"{text!r}: cannot import {module!r}: {told(error)}") from error
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
        found = await in_thread(resolve, self.given) if isinstance(self.given, str) else self.given
        try:
            records = await called(found) if callable(found) else found
        except Exception as error:
            raise self._error("failed", error) from error
        if isinstance(records, Mapping) and self.from_mapping is not None:
            return self.from_mapping(records)
        if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable | AsyncIterable):
            raise SourceError(f"{self._called} must give an iterable of records, not {short_repr(records)}")
        return records

    def _error(self, happened: str, error: Exception) -> SourceError:
        return SourceError(f"{self._called} {happened}: {told(error)}")

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
