"""Values, errors and foreign texts as parts of a one-line message."""

_LONGEST = 200
_MAX_BITS = 10_000  # Python refuses to print numbers of more than 4,300 digits, about 14,300 bits
_MAX_REPR = 10_000  # characters


def one_line(text: str, *, longest: int = _LONGEST) -> str:
    r"""Return a text on one line, cut to at most `longest` characters.

    Example:
        >>> one_line("a\n  b"), one_line("long " * 100, longest=12)
        ('a b', 'long long l…')
    """
    text = " ".join(text.split())
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
    if isinstance(value, str | bytes | bytearray) and len(value) > _MAX_REPR:
        value = value[:_MAX_REPR]  # the rest would be copied and then cut off
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a broken repr must not hide the error that is being reported
        text = object.__repr__(value)
    return one_line(text)


def error_text(error: BaseException) -> str:
    r"""Return the type and the message of an error on one line, cut to 200 characters.

    Example:
        >>> error_text(ValueError("not\na number"))
        'ValueError: not a number'
    """
    return one_line(f"{type(error).__name__}: {error}")
