"""What requests ask for: JSON bodies and query strings, read and checked within bounds."""

import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from types import NoneType
from typing import Any, NoReturn, TypeAlias

from airw._base.checks import find_text_fault
from airw._base.concurrency import offload_if
from airw._base.json import is_deeper
from airw._base.messages import one_line, short_repr
from airw.errors import ArgumentError

_LONG_BODY = 20_000  # bytes; parsing more takes about a millisecond
_MOST_DIGITS = 400  # the largest float has 309
_WHOLE = re.compile(r"-?[0-9]{1,20}")

FieldKinds: TypeAlias = Mapping[str, type | tuple[type, ...]]
"""The fields that a request may have, and their types; `NoneType` where `null` is allowed."""


class BodyTooLarge(ArgumentError):
    """The body of a request has more bytes than the server reads."""


async def read_body(stream: AsyncIterable[bytes], *, max_bytes: int) -> bytes:
    """Return the body of a request; no more than one piece beyond the limit is read.

    Raises:
        BodyTooLarge: If it is longer than `max_bytes`.
    """
    pieces, size = [], 0
    async for piece in stream:
        size += len(piece)
        if size > max_bytes:
            raise BodyTooLarge(f"the body must have at most {max_bytes:,} bytes; send less at once")
        pieces.append(piece)
    return b"".join(pieces)


async def parse_object(body: bytes, *, max_nesting: int) -> dict[str, Any]:
    """Return the JSON object in a body; an empty body is an empty object.

    Raises:
        ArgumentError: If it is not JSON in UTF-8, not an object, or nested deeper than `max_nesting`. Also if it has a
            field twice, or a number that is not finite or has hundreds of digits.
    """
    if not body:
        return {}
    return await offload_if(len(body) > _LONG_BODY, _parse_object, body, max_nesting)


def _parse_object(body: bytes, max_nesting: int) -> dict[str, Any]:
    try:
        value = json.loads(
            body.decode(),
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_doubles,
        )
    except ArgumentError:
        raise
    except UnicodeDecodeError as error:
        raise ArgumentError(f"the body must be JSON in UTF-8; byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise ArgumentError(f"the body must nest at most {max_nesting} levels deep") from error
    except ValueError as error:
        raise ArgumentError(f"the body must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentError(f"the body must be a JSON object, not {short_repr(value)}")
    if is_deeper(value, max_nesting):
        raise ArgumentError(f"the body must nest at most {max_nesting} levels deep")
    return value


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(double, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ArgumentError(f"the body must not contain {short_repr(double)} twice in one object")
    return fields


def _parse_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ArgumentError(f"the body must not contain numbers of {len(digits):,} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    if len(digits) > _MOST_DIGITS:
        raise ArgumentError(f"the body must not contain numbers of {len(digits):,} digits")
    value = float(digits)
    if not math.isfinite(value):  # also the `nan` of a query string
        raise ArgumentError(f"the request must not contain numbers such as {one_line(digits, longest=40)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ArgumentError(f"the body must be JSON, which has no {name}")


def check_texts_of(body: Mapping[str, Any], *, allow_nul: bool = True) -> None:
    r"""Refuse half a character, which JSON can write as an escape.

    No file and no log can keep it.

    Args:
        body: The fields.
        allow_nul: Whether a text may contain NUL.

    Raises:
        ArgumentError: If a text or a name in the body has one.

    Example:
        >>> check_texts_of({"filter": {"tag": "\ud83d"}})
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: filter contains an unpaired surrogate at position 0
    """
    for name, value in body.items():
        waiting = [name, value]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                waiting += [*part, *part.values()]
            elif isinstance(part, list):
                waiting += part
            elif isinstance(part, str) and (fault := find_text_fault(part, allow_nul=allow_nul)):
                raise ArgumentError(f"{one_line(name)} contains {fault}")


def check_fields(body: Mapping[str, Any], known: FieldKinds, *, of: str) -> None:
    """Refuse a body with a field that is unknown, or of another type.

    `True` and `False` are no numbers. A number may be whole where a fraction is allowed.

    Args:
        body: The body.
        known: The types of the known fields, by name. `null` is allowed where `NoneType` is named.
        of: The request, for the message, such as `"/search"`.

    Raises:
        ArgumentError: For the first wrong field.

    Example:
        >>> check_fields({"k": "ten"}, {"query": str, "k": int}, of="/search")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: k must be a whole number, not 'ten'
    """
    for name, value in body.items():
        if name not in known:
            raise ArgumentError(f"{of} takes {', '.join(known)}, not {short_repr(name)}")
        kinds = _kinds_of(known[name])
        allowed = (*kinds, int) if float in kinds else kinds
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(_NAMES.get(kind, kind.__name__) for kind in kinds)
            raise ArgumentError(f"{name} must be {names}, not {short_repr(value)}")


def parse_query(
    parameters: Iterable[tuple[str, str]], known: FieldKinds, *, of: str, max_nesting: int
) -> dict[str, Any]:
    """Return the fields in a query string, each as the type that a body would have.

    A list is a parameter that is repeated. An object is written as JSON.

    Args:
        parameters: The names and values of the query string, decoded.
        known: The types of the known fields, by name.
        of: The request, for the message.
        max_nesting: The largest depth of an object.

    Raises:
        ArgumentError: If a parameter is unknown, repeated without being a list, or not written as its type.

    Example:
        >>> parse_query([("ids", "a"), ("k", "3"), ("ids", "b")], {"ids": list, "k": int}, of="/search", max_nesting=9)
        {'ids': ['a', 'b'], 'k': 3}
    """
    fields: dict[str, Any] = {}
    for name, text in parameters:
        if name not in known:
            raise ArgumentError(f"{of} takes {', '.join(known)}, not {short_repr(name)}")
        kinds = _kinds_of(known[name])
        if list in kinds:
            fields.setdefault(name, []).append(text)
        elif name in fields:
            raise ArgumentError(f"{name} must be there only once in the query string")
        else:
            fields[name] = _parse_parameter(name, text, kinds, max_nesting)
    check_fields(fields, known, of=of)
    return fields


def _parse_parameter(name: str, text: str, kinds: tuple[type, ...], max_nesting: int) -> Any:
    if dict in kinds and text.startswith("{"):
        try:
            return _parse_object(text.encode(), max_nesting)
        except ArgumentError as error:
            rule = f"an object in JSON, at most {max_nesting} levels deep"
            raise ArgumentError(f"{name} must be {rule}, not {short_repr(text)}") from error
    for kind in kinds:
        if kind in _PARSERS:
            try:
                return _PARSERS[kind](text)
            except (ValueError, KeyError):
                continue
    if str in kinds:
        return text
    names = " or ".join(_NAMES.get(kind, kind.__name__) for kind in kinds if kind is not NoneType)
    raise ArgumentError(f"{name} must be {names}, not {short_repr(text)}")


def _parse_whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError
    return int(text)


_PARSERS: Mapping[type, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: _parse_whole,
    float: _parse_float,
}


def _kinds_of(kinds: type | tuple[type, ...]) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
