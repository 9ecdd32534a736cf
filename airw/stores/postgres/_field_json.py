"""Metadata as JSON for filters, which a PostgreSQL server compares as Python does.

PostgreSQL compares numbers exactly and strings by their bytes. Three kinds of values differ from Python there. Truth
values are numbers in Python. A large float is not the number that its digits show. And `jsonb` has no U+0000.
"""

import json
from typing import Any

# Floats below this compare by their digits as they do by their value. Above, all of them are whole numbers.
_EXACT = 2.0**53

# U+0001 begins a code of three characters, which U+0002 and U+0003 only continue. So codes sort like the characters
# that they stand for, and a text contains another exactly if its code does.
_CODES = {0: "\1\2\2", 1: "\1\2\3", 2: "\1\3\2", 3: "\1\3\3"}
_CHARACTERS = {code: chr(number) for number, code in _CODES.items()}

# Each truth value, control character and whole float contains one of these in JSON.
_SIGNS = ("true", "false", "\\u000", ".0", "e+")
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


def encode_value(value: Any) -> Any:
    """Return a JSON value with numbers for truth values, exact floats and codes for texts.

    Example:
        >>> encode_value({"a": [True, 1e23]})
        {'a': [1, 99999999999999991611392]}
    """
    kind = type(value)
    if kind is str:
        return value.translate(_CODES)
    if kind is float:
        return int(value) if abs(value) >= _EXACT else value
    if kind is bool:
        return int(value)
    if kind is dict:
        return {key.translate(_CODES): encode_value(item) for key, item in value.items()}
    if kind is list:
        return [encode_value(item) for item in value]
    return value


def to_fields(metadata: str) -> str:
    """Return the JSON text of metadata for filters.

    Args:
        metadata: A text of `metadata_json`.
    """
    # Nearly always, none of these is in the text, and so no value differs.
    if any(sign in metadata for sign in _SIGNS):
        return dump_value(json.loads(metadata))
    return metadata


def dump_value(value: Any) -> str:
    """Return a JSON value for filters as text."""
    return _ENCODER.encode(encode_value(value))
