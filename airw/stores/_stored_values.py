"""Values that a store reads back, and may find damaged.

A file or a server can return what airw never wrote: a disk fails, or somebody changes a table. Functions that decode
rows raise `DamagedValue` for it. Each store names the place and raises `StoreCorrupt` instead.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airw._base.messages import error_text


class DamagedValue(ValueError):
    """A stored value that airw never writes."""


@contextmanager
def detect_damage() -> Iterator[None]:
    """Raise errors of decoding rows as `DamagedValue`; it is for code that does nothing else.

    Example:
        >>> @detect_damage()
        ... def decode(text):
        ...     return text.decode()
        >>> decode(None)
        Traceback (most recent call last):
        ...
        airw.stores._stored_values.DamagedValue: a row cannot be read: AttributeError: 'NoneType' object has no ...
    """
    try:
        yield
    except DamagedValue:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise DamagedValue(f"a row cannot be read: {error_text(error)}") from error


def check_types(columns: Sequence[Sequence[object]], types: Sequence[type]) -> None:
    """Check that each column contains only values of its type.

    SQLite keeps a value of another type than the column's, and the columns of a server may have been changed.

    Raises:
        DamagedValue: If one contains another value.
    """
    if any({*map(type, column)} - {kind} for column, kind in zip(columns, types, strict=True)):
        raise DamagedValue("a record has a value of another type")


def parse_mappings(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the mappings that these JSON texts contain.

    Raises:
        DamagedValue: If one is not JSON, or not a mapping; this is damage, as airw wrote it.
    """
    try:
        # One call parses all texts, as one call each takes longer.
        mappings: list[Any] = json.loads(f"[{','.join(texts)}]")
        # Another number of values means a damaged text. Parsing each text by itself raises an error for it.
        if len(mappings) != len(texts):
            mappings = [json.loads(text) for text in texts]
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedValue(f"a value is no JSON text: {error_text(error)}") from error
    if not {*map(type, mappings)} <= {dict}:
        raise DamagedValue("a value is JSON, but no mapping")
    return mappings
