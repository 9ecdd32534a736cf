"""Texts as parameters of statements, and as keys of indexes of at most 2,704 bytes.

A name or a reference may have any length. So an index contains the first characters of a text; whoever reads by it
compares whole texts besides.
"""

import zlib
from collections.abc import Iterable

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import StoreError

PREFIX = 300
"""The characters of a text that an index contains: at most 1,200 bytes."""

MAX_COVERED = 500
"""The characters that the texts of a covered link have together: at most 2,000 bytes."""


def prefix_of(column: str) -> str:
    """Return the SQL of what an index on a column contains.

    Example:
        >>> prefix_of("link.ref")
        'left(link.ref, 300)'
    """
    return f"left({column}, {PREFIX})"


def to_keys(texts: Iterable[str]) -> list[str]:
    r"""Return texts and their prefixes, once each, without those that no server can store.

    A statement compares this array with columns or with their prefixes.

    Example:
        >>> to_keys(["a", "b", "a", "x\0"]), [len(key) for key in to_keys(["x" * 1_000])]
        (['a', 'b'], [1000, 300])
    """
    keys = dict.fromkeys(texts)
    keys.update(dict.fromkeys([key[:PREFIX] for key in keys if len(key) > PREFIX]))
    return keep_storable(keys)


def check_key(name: str, text: str, most: int) -> None:
    """Check that a text fits an index that contains the whole of it.

    Args:
        name: The public name of the text, for the message.
        text: The text.
        most: The bytes that it may have, as UTF-8.

    Raises:
        StoreError: If it is too long.

    Example:
        >>> check_key("id", "a/b.md", most=2_000)
    """
    if len(text) <= most // 4:
        return
    encoded = text.encode()
    # PostgreSQL compresses keys, but less than zlib does.
    if len(encoded) > most and 2 * len(zlib.compress(encoded)) > most:
        raise StoreError(
            f"the {name} {short_repr(text)} has {len(encoded):,} bytes, too many for an index of PostgreSQL; "
            f"use one of at most {most:,}"
        )


def keep_storable(texts: Iterable[object]) -> list[str]:
    r"""Return the texts that a server can store.

    It stores no text with NUL or an unpaired surrogate, and refuses one as a parameter. Pairs, which name artifacts of
    other corpora, are left out, too.

    Example:
        >>> keep_storable(["a", "nul\0", "b"])
        ['a', 'b']
    """
    found = [text for text in texts if isinstance(text, str)]
    # Nearly always, no text is at fault: then one check of all together is enough.
    if not find_text_fault("".join(found), allow_nul=False):
        return found
    return [text for text in found if not find_text_fault(text, allow_nul=False)]
