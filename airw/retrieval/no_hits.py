"""Why a search found nothing: a surface kind or a field that no record has."""

import warnings
from collections.abc import Iterator, Sequence

from airw._base.concurrency import map_bounded
from airw._base.messages import one_line, short_repr
from airw.errors import ArgumentError, UnknownFieldWarning
from airw.protocols import OpenCorpus, Schema, ask
from airw.retrieval.query import SearchQuery
from airw.values.filters import And, Compare, Filter, Or

_MAX_STORES = 16  # stores asked at once
_MAX_NAMES = 10  # names in a list of a message
_MAX_NAME = 60  # characters
_MAX_MESSAGE = 800
_MOST_REMEMBERED = 100  # warnings
_MATCH_ABSENT = ("$exists", "$ne", "$nin")  # operators that mean something for a field that no record has


async def explain_no_hits(query: SearchQuery, corpora: Sequence[OpenCorpus]) -> None:
    """Raise or warn if a search found nothing because no record has a name in it.

    Call it only after a search of these corpora found no hit: it may read all records. A corpus whose store has no
    schema may contain any name, so nothing is reported then.

    Args:
        query: The search.
        corpora: All corpora that were searched.

    Raises:
        ArgumentError: If there are records, and none has one of the surface kinds.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> query = SearchQuery.parse("search", "keys", {"surfaces": ["chunks"]})
        >>> async def main():
        ...     source = from_mapping({"a": "rotate the keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         await explain_no_hits(query, [corpus])
        >>> anyio.run(main)
        Traceback (most recent call last):
        airw.errors.ArgumentError: surfaces: no record of 'notes' is of the kind 'chunks'; there are: 'document'
    """
    stores = [corpus.store for corpus in corpora]
    has_names = query.surfaces or query.filter
    if not query.k or not has_names or not all("schema" in store.capabilities for store in stores):
        return
    paths = sorted(set(_find_required(query.filter)))
    columns = await map_bounded(lambda store: ask(store, Schema(paths)), stores, limit=_MAX_STORES)
    kinds = sorted({kind for each in columns for kind in each.kinds})
    # Without kinds there are no records, and no field of an empty corpus is unknown.
    if not kinds:
        return
    names = _join(sorted(corpus.name for corpus in corpora))
    if query.surfaces and set(query.surfaces).isdisjoint(kinds):
        wanted = _join(query.surfaces, " or ")
        message = f"surfaces: no record of {names} is of the kind {wanted}; there are: {_join(kinds)}"
        raise ArgumentError(one_line(message, longest=_MAX_MESSAGE))
    has_fields = zip(paths, *(each.has_fields for each in columns), strict=True)
    unknown = [path for path, *has_path in has_fields if not any(has_path)]
    if unknown:
        from difflib import get_close_matches

        known = sorted({name for each in columns for name in each.fields})
        similar = get_close_matches(one_line(unknown[0]), known, n=3)
        hint = f"similar: {_join(similar)}" if similar else f"there are: {_join(known) or 'none'}"
        message = f"filter: no record of {names} has the field {_join(unknown)}; {hint}"
        # Python keeps the text of each warning for ever, and clients of a server choose the texts.
        remembered = globals().get("__warningregistry__", {})
        if len(remembered) > _MOST_REMEMBERED:
            remembered.clear()
        warnings.warn(UnknownFieldWarning(one_line(message, longest=_MAX_MESSAGE)), stacklevel=1)


def _find_required(filter: Filter | None) -> Iterator[str]:
    """Yield the fields that a record must have to match some condition of the filter."""
    match filter:
        case Compare(path, op) if op not in _MATCH_ABSENT:
            yield path
        case And(parts) | Or(parts):
            for part in parts:
                yield from _find_required(part)
    # Not: an absent field satisfies it.


def _join(names: Sequence[str], separator: str = ", ") -> str:
    shown = [one_line(short_repr(name), longest=_MAX_NAME) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        shown.append(f"{len(names) - _MAX_NAMES} more")
    return separator.join(shown)
