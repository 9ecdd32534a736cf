"""The texts that a PostgreSQL server can store and compare."""

from collections.abc import Iterable

from airw._base.checks import find_text_fault


def keep_storable(texts: Iterable[str]) -> list[str]:
    r"""Return the texts that a server can store.

    It stores no text with NUL or an unpaired surrogate, and refuses one as a parameter. Pairs, which name artifacts of
    other corpora, are left out, too.

    Example:
        >>> keep_storable(["a", "nul\0", "b"])
        ['a', 'b']
    """
    texts = [text for text in texts if isinstance(text, str)]
    # Nearly always, no text is at fault: then one check of all together is enough.
    if not find_text_fault("".join(texts), allow_nul=False):
        return texts
    return [text for text in texts if not find_text_fault(text, allow_nul=False)]
