"""JSON values: converting other values to them, copying them, and writing them as text."""

import copy
import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import fields
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from airw._base.messages import escape_controls

# Values of exactly these types are JSON already. A float is not always: it may be NaN or infinite.
_CLEAN = frozenset({str, int, bool, type(None)})
_FLAT = _CLEAN | {float}
_MAX_DIGITS = 300  # of a decimal that becomes a whole number; a float has at most 309
# With a line feed after each comma: JSON escapes those inside strings, so each one is between two values.
_FLAT_ENCODERS = [
    json.JSONEncoder(ensure_ascii=False, separators=(",\n", ":"), sort_keys=sort_keys) for sort_keys in (False, True)
]


def deep_copy(value: Any) -> Any:
    """Return a deep copy of a value.

    For JSON values it takes a third of the time of `copy.deepcopy`, which matters for the metadata of many hits.
    """
    kind = type(value)
    if kind in _CLEAN or kind is float:
        return value
    if kind is list:
        return [item if type(item) in _CLEAN else deep_copy(item) for item in value]
    if kind is dict:
        return {key: deep_copy(item) for key, item in value.items()}
    return copy.deepcopy(value)


def to_whole(value: object) -> object:
    """Return a number like 5.0 as a whole one, and any other value as it is.

    JSON does not tell them apart, and language models write both.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def dump_json(value: Any) -> str:
    r"""Return a JSON value as one line of text, for people and programs.

    Text is written as it is, but control characters, and others that `escape_controls` replaces, as escapes.

    Raises:
        ValueError: If it contains NaN or an infinite number.

    Example:
        >>> print(dump_json({"title": "café \u202e"}))
        {"title": "café \u202e"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # JSON escapes the controls of ASCII itself, but for one; looking for others takes as long as encoding.
    return text if text.isascii() and "\x7f" not in text else escape_controls(text)


def iter_json(value: Any, dump: Callable[[Any], str] = dump_json) -> Iterator[str]:
    """Yield the text of a JSON value in pieces.

    One call that encodes megabytes keeps all other threads waiting. A piece takes a tenth of a millisecond.

    Args:
        value: The value; keys are strings.
        dump: Returns the text of a part of it.

    Example:
        >>> pieces = [*iter_json({"texts": ["long " * 1_000] * 100})]
        >>> len(pieces) > 50, json.loads("".join(pieces))["texts"][99][:9]
        (True, 'long long')
    """
    if _weigh(value) <= _LIGHT:
        yield dump(value)
    elif isinstance(value, str):
        yield '"'
        yield from (dump(value[at : at + _LIGHT])[1:-1] for at in range(0, len(value), _LIGHT))
        yield '"'
    elif isinstance(value, dict):
        before = "{"
        for name, item in value.items():
            yield f"{before}{dump(name)}: "
            yield from iter_json(item, dump)
            before = ", "
        yield "}"
    else:
        yield from _iter_list(value, dump)


def _iter_list(values: Sequence[Any], dump: Callable[[Any], str]) -> Iterator[str]:
    before, weight = "[", 0
    light: list[Any] = []  # neighbours that are one piece
    for value in values:
        own = _weigh(value)
        if light and weight + own > _LIGHT:
            yield before + dump(light)[1:-1]
            before, weight, light = ", ", 0, []
        if own > _LIGHT:
            yield before
            yield from iter_json(value, dump)
            before = ", "
        else:
            light.append(value)
            weight += own
    if light:
        yield before + dump(light)[1:-1]
    yield "]"


_LIGHT = 8_000  # characters


def _weigh(value: Any) -> int:
    """Return about how many characters the JSON of a value has.

    It stops counting once the value is not light.
    """
    if isinstance(value, str):
        return len(value) + 4
    if not isinstance(value, dict | list | tuple):
        return 8
    weight = 2
    for item in chain(value, value.values()) if isinstance(value, dict) else value:
        weight += _weigh(item)
        if weight > _LIGHT:
            break
    return weight


def is_deeper(value: Any, levels: int = 100) -> bool:
    """Return whether lists and mappings nest deeper than `levels`.

    Copying and encoding recurse: a deeper value could fail wherever it is used.

    Example:
        >>> is_deeper({"a": [1]}, 2), is_deeper({"a": [[1]]}, 2)
        (False, True)
    """
    if not isinstance(value, dict | list | tuple):
        return False
    items = value.values() if isinstance(value, dict) else value
    return not levels or any(is_deeper(item, levels - 1) for item in items if isinstance(item, dict | list | tuple))


def json_clean(value: Any) -> Any:
    """Return a value converted to JSON: no numpy, no objects, no NaN.

    Tuples and arrays become lists, sets become sorted lists, dates become ISO text, and decimals become numbers. A
    number that is not finite becomes `None`. Keys become strings, and any other object becomes its `str`.

    Example:
        >>> json_clean({"id": ("a", 1), "score": float("inf"), "day": datetime.date(2026, 11, 21)})
        {'id': ['a', 1], 'score': None, 'day': '2026-11-21'}
    """
    if type(value) in _CLEAN:
        return value
    if type(value) is dict:  # nearly always, so it is checked first
        return {str(key): item if type(item) in _CLEAN else json_clean(item) for key, item in value.items()}
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (np.generic, np.ndarray)):
        return json_clean(value.tolist())
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in _CLEAN else json_clean(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((json_clean(item) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [json_clean(item) for item in value]
    return _clean_object(value)


def fields_to_json(value: Any, *names: str) -> dict[str, Any]:
    """Return fields and properties of a dataclass as JSON values.

    What has a `to_dict` becomes what that returns, also in a list.

    Args:
        value: An instance of a dataclass.
        names: The names of the fields and properties; by default all fields.

    Example:
        >>> fields_to_json(datetime.date(2026, 11, 21), "day", "year")
        {'day': 21, 'year': 2026}
    """
    return {name: _part_to_json(getattr(value, name)) for name in names or [item.name for item in fields(value)]}


def _part_to_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_part_to_json, value)]
    return value.to_dict() if hasattr(value, "to_dict") else json_clean(value)


def _clean_object(value: object) -> str | float | None:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return _to_number(value) if isinstance(value, Decimal) else str(value)


def _to_number(value: Decimal) -> int | float | None:
    """Return a decimal as a whole number if it is one, else as the nearest float."""
    # The integer of a large exponent would have as many digits.
    if value.is_finite() and value.adjusted() < _MAX_DIGITS and value == value.to_integral_value():
        return int(value)
    number = float(value) if not value.is_snan() else math.nan
    return number if math.isfinite(number) else None


def list_flat_texts(values: Sequence[Any]) -> list[str] | None:
    """Return all keys and texts of flat JSON mappings; `None` if one is not.

    The keys of a flat `dict` are strings, and its values texts, numbers, truth values and `None`. Checking many at once
    takes little time.

    Example:
        >>> list_flat_texts([{"a": "x", "n": 1}]), list_flat_texts([{"a": ["x"]}])
        (['a', 'n', 'x'], None)
    """
    if not {*map(type, values)} <= {dict}:
        return None
    keys = sorted(set().union(*values), key=str)
    items = [*chain.from_iterable(map(dict.values, values))]
    types = {*map(type, items)}
    if not ({*map(type, keys)} <= {str} and types <= _FLAT):
        return None
    if float in types and not all(math.isfinite(item) for item in items if type(item) is float):
        return None
    return keys + [item for item in items if type(item) is str] if str in types else keys


def dump_flat(values: Sequence[Mapping[str, Any]], *, sort_keys: bool = False) -> list[str]:
    """Return the JSON text of each flat mapping, without spaces; see `list_flat_texts`.

    One call encodes all, which takes half the time of one call each.

    Raises:
        ValueError: If a number has more digits than Python converts.

    Example:
        >>> dump_flat([{"b": "x", "a": 1}, {}], sort_keys=True)
        ['{"a":1,"b":"x"}', '{}']
    """
    if not values:
        return []
    text = _FLAT_ENCODERS[sort_keys].encode(values)
    return text[1:-1].replace("},\n{", "}\0{").replace("\n", "").split("\0")
