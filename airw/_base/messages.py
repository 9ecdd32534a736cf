"""Values, errors and texts of strangers, as parts of a one-line message."""

_LONGEST = 200


def one_line(text: str, *, longest: int = _LONGEST) -> str:
    r"""Return a text on one line, cut where it is too long.

    Example:
        >>> one_line("a\n  b"), one_line("long " * 100, longest=12)
        ('a b', 'long long l…')
    """
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def short_repr(value: object) -> str:
    """Return the `repr` of a value on one line and cut; a `repr` that fails is replaced by the default one.

    Example:
        >>> print(short_repr(range(3)), len(short_repr("long " * 1000)))
        range(0, 3) 200
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - somebody else's repr must not hide the error that is being told
        text = object.__repr__(value)
    return one_line(text)


def error_text(error: BaseException) -> str:
    r"""Return the type and the message of an error on one line and cut.

    Example:
        >>> error_text(ValueError("not\na number"))
        'ValueError: not a number'
    """
    return one_line(f"{type(error).__name__}: {error}")
