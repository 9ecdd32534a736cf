"""Metadata as JSON for filters, which a PostgreSQL server compares as Python does.

PostgreSQL compares numbers exactly and strings by their bytes. Four kinds of values differ from filters there. Truth
values are numbers in Python. A large float is not the number that its digits show. `jsonb` has no U+0000. And one
moment has several texts: it has one code, and under the key `WRITTEN` stands its field as it was written.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from airw.values.filters import Moment, read_text

# Floats below this compare by their digits as they do by their value. Above, all of them are whole numbers.
_EXACT = 2.0**53

# U+0001 begins a code of three characters, which U+0002 and U+0003 only continue. So codes sort like the characters
# that they stand for, and a text contains another exactly if its code does.
_CODES = {0: "\1\2\2", 1: "\1\2\3", 2: "\1\3\2", 3: "\1\3\3"}
_CHARACTERS = {code: chr(number) for number, code in _CODES.items()}

WRITTEN, KIND = "\1\4", 3
_BEFORE = 10**12  # microseconds from the first moment in any zone to the first in UTC, and some more

# Each truth value, control character and whole float contains one of these in JSON.
_SIGNS = ("true", "false", "\\u000", ".0", "e+")
_TIME = re.compile(r'"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:')  # so begins each moment
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_text(text: str) -> str:
    r"""Return the code of a text, without U+0000.

    Codes are equal, sort and contain each other exactly as the texts do.

    Example:
        >>> encode_text("a\0b")
        'a\x01\x02\x02b'
    """
    return text.translate(_CODES)


def decode_text(code: str) -> str:
    r"""Return the text of a code.

    Example:
        >>> decode_text(encode_text("a\0\1\2\3")) == "a\0\1\2\3"
        True
    """
    if "\1" not in code:
        return code
    first, *parts = code.split("\1")
    return first + "".join([_CHARACTERS["\1" + part[:2]] + part[2:] for part in parts])


def encode_value(value: Any, encode: Callable[[str], str] | None = None) -> Any:
    """Return a JSON value with numbers for truth values, exact floats and codes for texts.

    Args:
        value: The value.
        encode: Returns the code of a text that is no key; the default encodes what it means.

    Example:
        >>> encode_value({"a": [True, 1e23]})
        {'a': [1, 99999999999999991611392]}
    """
    kind = type(value)
    if kind is str:
        return (encode or _encode_meaning)(value)
    if kind is float:
        return int(value) if abs(value) >= _EXACT else value
    if kind is bool:
        return int(value)
    if kind is dict:
        return {encode_text(key): encode_value(item, encode) for key, item in value.items()}
    if kind is list:
        return [encode_value(item, encode) for item in value]
    return value


def _encode_meaning(text: str) -> str:
    meant = read_text(text)
    return encode_moment(meant) if isinstance(meant, Moment) else encode_text(text)


def encode_moment(moment: Moment) -> str:
    """Return the code of a moment.

    Codes of moments with a zone sort like these, and so do those of moments without one. The first `KIND` characters
    tell which it is. No text has such a code.
    """
    return f"\1\4{'+' if moment.has_zone else '-'}{moment.ticks + _BEFORE:018}"


def to_fields(metadata: str) -> str:
    """Return the JSON text of metadata for filters.

    Args:
        metadata: A text of `metadata_json`.
    """
    # Nearly always, no value differs.
    if not any(sign in metadata for sign in _SIGNS) and _TIME.search(metadata) is None:
        return metadata
    parsed = json.loads(metadata)
    fields, written = encode_value(parsed), encode_value(parsed, encode_text)
    if differing := {key: value for key, value in written.items() if value != fields[key]}:
        fields[WRITTEN] = differing
    return _ENCODER.encode(fields)


def dump_value(value: Any) -> str:
    """Return a JSON value for filters as text."""
    return _ENCODER.encode(encode_value(value))
