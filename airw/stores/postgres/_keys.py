"""Texts as keys: an index on a server contains the first characters of a text.

A key of an index has at most 2,704 bytes, but an id, a name or a reference may have any length.
"""

from collections.abc import Iterable

from airw._base.checks import find_text_fault

PREFIX = 300
"""The characters of a text that an index contains: at most 1,200 bytes."""


def prefix_of(column: str) -> str:
    """Return the SQL of what an index on a column contains.

    Example:
        >>> prefix_of("link.ref")
        'left(link.ref, 300)'
    """
    return f"left({column}, {PREFIX})"


def to_prefixes(texts: Iterable[str]) -> list[str]:
    r"""Return the distinct prefixes of texts, without those that no server can store.

    Statements pass them as an array, and compare whole texts besides.

    Example:
        >>> to_prefixes(["a", "b", "a", "x\0"])
        ['a', 'b']
    """
    return list_storable({text[:PREFIX]: None for text in texts})


def list_storable(texts: Iterable[str]) -> list[str]:
    r"""Return the texts that a server can store: without NUL and unpaired surrogates.

    Example:
        >>> list_storable(["a", "x\0", "\ud800"])
        ['a']
    """
    texts = [*texts]
    # Nearly always all are sound: then one check of all together is enough.
    if not find_text_fault("".join(texts), allow_nul=False):
        return texts
    return [text for text in texts if not find_text_fault(text, allow_nul=False)]
