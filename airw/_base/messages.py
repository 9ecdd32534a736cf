"""Values, errors and foreign texts as parts of a one-line message.

Texts of documents, files, servers and models are strangers' words. Whatever shows them on a terminal, in a log or on a
page passes them through `escape_controls`.
"""

import re
from collections.abc import Iterator

_LONGEST = 200
_MAX_BITS = 10_000  # Python refuses to print numbers of more than 4,300 digits, about 14,300 bits
_MAX_REPR = 1_000  # characters of a text
CONTROLS = (
    "\x00-\x1f\x7f-\x9f"  # what ends a line, rings, or begins a command to a terminal
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"  # line separators, and what changes the direction of text
    "\u200b\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # what hides a text or takes no space
    "\ud800-\udfff"  # unpaired surrogates, which no encoding can write
)
"""The characters that `escape_controls` replaces, as ranges of a regular expression."""
_IN_LINES = f"[{CONTROLS}]"  # compiled at first use, since that takes a millisecond
_IN_TEXT = rf"(?!\t|\r?\n)[{CONTROLS}]"
_OTHER_ESCAPES = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}


def escape_controls(text: str, *, multiline: bool = False) -> str:
    r"""Return a text whose control characters are visible, so that they cannot act.

    These are control characters, line separators, what changes the direction of text, what is invisible, and unpaired
    surrogates. The joiners inside emoji and Persian words stay. The escapes are those of JSON, such as `\u001b`, so
    JSON stays the same JSON. They are for reading: the text itself may contain the same escapes.

    Args:
        text: The text, from anywhere.
        multiline: Keep line ends and tabs. Without it, the result is always one line.

    Example:
        >>> print(escape_controls("a\nb\x1b[2J \u202egnp.exe"))
        a\nb\u001b[2J \u202egnp.exe
        >>> print(escape_controls("two\nlines\x07", multiline=True))
        two
        lines\u0007
    """
    return re.sub(_IN_TEXT if multiline else _IN_LINES, _escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _OTHER_ESCAPES:
        return _OTHER_ESCAPES[character]
    # JSON writes a character above U+FFFF as two surrogates.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def one_line(text: str, *, longest: int = _LONGEST) -> str:
    r"""Return a text on one line, escaped and cut to at most `longest` characters.

    Example:
        >>> one_line("a\n  b"), one_line("long " * 100, longest=12)
        ('a b', 'long long l…')
        >>> print(one_line("\x1b[2J"))
        \u001b[2J
    """
    text = escape_controls(" ".join(text.split()))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def short_repr(value: object) -> str:
    """Return the `repr` of a value on one line, cut to 200 characters.

    If its `repr` fails, the default one is used. A number of thousands of digits is described instead.

    Example:
        >>> print(short_repr(range(3)), len(short_repr("long " * 1000)))
        range(0, 3) 200
    """
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"a number of about {value.bit_length() * 3 // 10:,} digits"
    try:
        text = repr(_cut(value, iter(range(_LONGEST))))
    except Exception:  # noqa: BLE001 - a broken repr must not hide the error that is being reported
        text = object.__repr__(value)
    return one_line(text)


def _cut(value: object, places: Iterator[int]) -> object:
    """Return a value without what the beginning of its `repr` does not show.

    The `repr` of megabytes takes long. Each item of a list takes a place, and is at least a character.
    """
    if isinstance(value, str | bytes | bytearray):
        return value[:_MAX_REPR] if len(value) > _MAX_REPR else value
    if type(value) is list or type(value) is tuple:
        return type(value)(_cut(item, places) for item, _ in zip(value, places, strict=False))
    if type(value) is dict:
        return {_cut(key, places): _cut(item, places) for (key, item), _ in zip(value.items(), places, strict=False)}
    return value


def error_text(error: BaseException) -> str:
    r"""Return the type and the message of an error on one line, cut to 200 characters.

    Example:
        >>> error_text(ValueError("not\na number"))
        'ValueError: not a number'
    """
    return one_line(f"{type(error).__name__}: {error}")
