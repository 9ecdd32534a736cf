"""What strings can be stored and sent, and what names corpora can have."""

import re

__all__ = ["NAME_RULE", "find_text_fault", "is_valid_name"]

NAME_RULE = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter or digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def find_text_fault(text: str, *, allow_nul: bool = True) -> str | None:
    r"""Return what keeps a string from being stored or sent as UTF-8; `None` where nothing does.

    Example:
        >>> find_text_fault("key"), find_text_fault("k\ud83d"), find_text_fault("k\0", allow_nul=False)
        (None, 'an unpaired surrogate at position 1', 'a NUL character at position 1')
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"an unpaired surrogate at position {error.start}"
    if not allow_nul and "\0" in text:
        return f"a NUL character at position {text.index(chr(0))}"
    return None


def is_valid_name(name: object) -> bool:
    """Return whether a corpus can have this name: see `NAME_RULE`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
