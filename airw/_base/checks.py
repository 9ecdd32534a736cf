"""Checks of arguments: each returns the value, or raises an error that names the argument."""

import math
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, TypeVar

from airw._base.messages import short_repr
from airw.errors import AirwError, ArgumentError, ArgumentKindError

Choice = TypeVar("Choice", bound=str)
T = TypeVar("T")

NAME_RULE = "1 to 100 letters, digits, '.', '_' or '-', beginning with a letter or digit"
MAX_HITS = 1_000_000
"""The largest number of hits that one search can be asked for."""

_MAX_COUNT = 10**18  # fits 64 bits, and so do small multiples of it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def find_text_fault(text: str, *, allow_nul: bool = True) -> str | None:
    r"""Return a description of why a string cannot be stored or sent as UTF-8, or `None`.

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


def check_count(name: str, value: object, *, least: int = 0, most: int = _MAX_COUNT) -> int:
    """Return `value` if it is a whole number from `least` to `most`, or to what 64 bits hold.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_count("k", 10, least=1)
        10
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}, not {short_repr(value)}")
    if value > most:
        raise ArgumentError(f"{name} must be at most {most:,}, not {short_repr(value)}")
    return value


def check_kind(name: str, value: T, kind: Any, what: str, *, error: type[ArgumentError] = ArgumentKindError) -> T:
    """Return `value` if it is of a kind.

    Args:
        name: The argument.
        value: Its value.
        kind: A class, or a union of some, as for `isinstance`; `Callable` for functions.
        what: What it must do, in words, for the message.
        error: The class of the error.

    Raises:
        ArgumentError: If it is of another kind.

    Example:
        >>> check_kind("limits", (3, 4), tuple | None, "be a pair of numbers")
        (3, 4)
    """
    if not isinstance(value, kind):
        raise error(f"{name} must {what}, not {short_repr(value)}")
    return value


def check_filled(name: str, value: object, what: str = "be a non-empty string") -> None:
    """Check that a value is a string with at least one character.

    Raises:
        ArgumentError: If it is not; the message says `what` it must do.

    Example:
        >>> check_filled("type", "")
        Traceback (most recent call last):
        airw.errors.ArgumentError: type must be a non-empty string, not ''
    """
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} must {what}, not {short_repr(value)}")


def check_limit(limit: object) -> int | None:
    """Return `limit` if it is `None` or a whole number of at least 0.

    Raises:
        ArgumentError: If it is neither.

    Example:
        >>> check_limit(None), check_limit(0)
        (None, 0)
    """
    return None if limit is None else check_count("limit", limit)


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is true or false.

    Raises:
        ArgumentError: If it is anything else.

    Example:
        >>> check_flag("full", True)
        True
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, not {short_repr(value)}")
    return value


def check_choice(name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return `value` if it is one of `choices`.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_choice("mode", "dense", ("dense", "lexical"))
        'dense'
    """
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise ArgumentError(f"{name} must be one of {', '.join(map(repr, choices))}, not {short_repr(value)}")


def check_number(name: str, value: object, *, least: float = -math.inf, most: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number from `least` to `most`, inclusive.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_number("alpha", 1, least=0, most=1)
        1.0
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if math.isfinite(number) and least <= number <= most:
                return number
    span = f" from {least:g} to {most:g}" if math.isfinite(most) else f" of at least {least:g}"
    raise ArgumentError(
        f"{name} must be a finite number{span if math.isfinite(least) else ''}, not {short_repr(value)}"
    )


def check_seconds(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite number above 0.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_seconds("timeout", 5)
        5.0
    """
    with suppress(ArgumentError):
        if seconds := check_number(name, value, least=0):
            return seconds
    raise ArgumentError(f"{name} must be a number of seconds above 0, not {short_repr(value)}")


def check_token(name: str, value: object) -> str:
    """Return `value` if a header can contain it as a token; the message does not repeat it.

    Raises:
        ArgumentError: If it is empty, or has other characters than printable ASCII, or a space.

    Example:
        >>> check_token("token", "correct-horse-battery")
        'correct-horse-battery'
    """
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ArgumentError(f"{name} must contain printable ASCII characters only, and no space")
    return value


def check_weight(name: str, value: object) -> float:
    """Return `value` as a float if it is a finite number of at least 0.

    Raises:
        ArgumentError: If it is not.

    Example:
        >>> check_weight("title_weight", 0.05)
        0.05
    """
    return check_number(name, value, least=0)


def check_strings(name: str, value: object) -> tuple[str, ...]:
    """Return the items of `value` if it is a list, or any other iterable, of strings.

    Raises:
        ArgumentKindError: If it is not; a single string is refused too.

    Example:
        >>> check_strings("roots", ["a.md"])
        ('a.md',)
    """
    return check_items(name, value, str, "strings")


def check_items(name: str, value: object, kind: Any, what: str) -> tuple[Any, ...]:
    """Return the items of `value` if it is a list, or any other iterable, of one kind.

    Args:
        name: The argument.
        value: Its value.
        kind: A class, or a union of some, as for `isinstance`.
        what: The items in a word, such as `"strings"`, for the message.

    Raises:
        ArgumentKindError: If it is not; a single text or path is refused too.

    Example:
        >>> check_items("levels", [1, 2], int, "whole numbers")
        (1, 2)
    """
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike):
        items = tuple(value)
        if all(isinstance(item, kind) for item in items):
            return items
    hint = f"; for one {what.removesuffix('s')} pass [{short_repr(value)}]" if isinstance(value, kind) else ""
    raise ArgumentKindError(f"{name} must be a list of {what}, not {short_repr(value)}{hint}")


def check_texts(texts: Sequence[str], *, of: str, error: type[AirwError], encodable: bool = False) -> list[str]:
    """Return the input texts of a model as a list.

    Args:
        texts: The texts that the caller passed.
        of: The name of the model in error messages.
        error: The type of the error.
        encodable: Whether to check as well that each text can be encoded as UTF-8.

    Raises:
        AirwError: If `texts` is a single string, or one of them is not a string or cannot be encoded; of type `error`.

    Example:
        >>> check_texts(("a", "b"), of="the model", error=ArgumentError)
        ['a', 'b']
    """
    if isinstance(texts, str):
        raise error(f"{of} takes a list of texts, not one string")
    items = list(texts)
    # Collecting the types takes one fast pass over a long list; only if it fails, look for the position.
    if not {*map(type, items)} <= {str}:
        for position, text in enumerate(items):
            if not isinstance(text, str):
                raise error(f"{of} takes strings, not {short_repr(text)} (text {position} of {len(items)})")
    for position, text in enumerate(items) if encodable else ():
        if fault := find_text_fault(text):
            raise error(f"{of} cannot read text {position}: it contains {fault}")
    return items


def check_text_query(query: object) -> str:
    """Return a query if it is a string with more than white space.

    Raises:
        ArgumentError: If it is not, or contains an unpaired surrogate.

    Example:
        >>> check_text_query(" ")
        Traceback (most recent call last):
        airw.errors.ArgumentError: query is blank; write what to search for
    """
    text = check_query(query)
    if not text.strip():
        raise ArgumentError("query is blank; write what to search for")
    return text


def check_query(query: object) -> str:
    """Return a query if it is a string that can be encoded as UTF-8.

    Raises:
        ArgumentError: If it is not a string, or contains an unpaired surrogate.

    Example:
        >>> check_query("rotate the signing keys")
        'rotate the signing keys'
    """
    if not isinstance(query, str):
        is_corpus = hasattr(query, "store") and hasattr(query, "embedder")
        orders = "search(corpus, query), discover(corpus, query), traverse(query, corpus)"
        shown = f"a corpus; the orders are {orders}" if is_corpus else short_repr(query)
        raise ArgumentError(f"query must be a string, not {shown}")
    if fault := find_text_fault(query):
        raise ArgumentError(f"query contains {fault}")
    return query
