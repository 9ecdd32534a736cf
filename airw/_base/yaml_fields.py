"""YAML as authors of notes read it: plain values by the core schema of YAML 1.2.

PyYAML reads the text, but its values are those of YAML 1.1: `NO` is False there, `12:30` is 750 and `01234` is 668. So
only its events are used. They come as a flat stream: no depth can overflow a stack, and nothing is expanded.
"""

import math
import re
from contextlib import suppress
from typing import Any, TypeAlias

from airw._base.messages import one_line, short_repr

FieldPath: TypeAlias = tuple[str | int, ...]
"""The place of a value: the names of fields and the numbers of list items that lead to it."""

MAX_DEPTH = 50  # levels of lists and mappings
MAX_SCALAR = 100  # characters of a number or a date with a time; some conversions take quadratic time
_MAX_PATH = 10  # parts of a path whose line is kept, so that deep values cost little memory
_TAG = "tag:yaml.org,2002:"
_WORDS = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    # JSON has no such numbers.
    **dict.fromkeys([f"{sign}.{word}" for sign in ("", "-", "+") for word in ("inf", "Inf", "INF")]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"]),
}
# A number with a leading zero is text: whoever writes 01234 means these digits, though YAML 1.2 reads 1234.
_DIGITS = r"[-+]?(?:0|[1-9][0-9]*+)"
_INTEGER = re.compile(rf"{_DIGITS}|0o[0-7]++|0x[0-9a-fA-F]++")
_FLOAT = re.compile(rf"(?:{_DIGITS}(?:\.[0-9]*+)?|[-+]?\.[0-9]++)(?:[eE][-+]?[0-9]++)?")
_DATE_TIME = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]++)\d\d?:\d\d:\d\d(?:\.\d*+)?(?:[ \t]*+(?:Z|[-+]\d\d?(?::\d\d)?))?", re.ASCII
)


class UnreadableFields(ValueError):
    """Frontmatter that cannot be read; the message is the reason."""


def read_yaml(text: str, first_line: int = 1) -> tuple[Any, dict[FieldPath, int]]:
    r"""Return the value of a YAML text as JSON, and the line of each value in it.

    Names are text as written. Dates are text; a date with a time has the ISO form. The line of a field is that of its
    name. Lines are kept of values at most 10 levels deep.

    Args:
        text: The text.
        first_line: The number of its first line.

    Raises:
        UnreadableFields: If it is not valid, contains an alias (`*name`), nests deeper than 50 levels, or a number has
            more than 100 characters. A few hundred bytes of aliases could fill any memory.

    Example:
        >>> read_yaml("country: NO\nzip: 01234\nhours: [9, 12:30]")[0]
        {'country': 'NO', 'zip': '01234', 'hours': [9, '12:30']}
        >>> read_yaml("a:\n- x\n- b: y")[1]
        {('a',): 1, ('a', 0): 2, ('a', 1): 3, ('a', 1, 'b'): 3}
    """
    import yaml

    builder = _Builder(first_line)
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.add(type(event).__name__.removesuffix("Event"), event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        advice = "indent with spaces"
        if not re.match(rf"(?:.*\n){{{line}}} *\t", text):
            advice = "write the value in quotes, and close quotes and brackets"
            # What is not closed is reported where it begins.
            if error.context_mark and "block" not in str(error.context):
                line = error.context_mark.line
        raise _invalid(f"{one_line(str(error.problem))}; {advice}", line + first_line) from error
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        position = error.start if isinstance(error, UnicodeEncodeError) else error.position
        raise _invalid("a character is not allowed; remove it", text.count("\n", 0, position) + first_line) from error
    return builder.documents[0] if builder.documents else None, builder.lines


def _invalid(reason: str, line: int) -> UnreadableFields:
    return UnreadableFields(f"the frontmatter is not valid YAML: {reason} (line {line})")


class _Builder:
    """Makes the value that a stream of events describes."""

    def __init__(self, first_line: int) -> None:
        self.documents: list[Any] = []
        self.lines: dict[FieldPath, int] = {}
        self._first_line = first_line
        # The lists and mappings that are open, and the place in each; `None` if a mapping waits for a name.
        self._opened: list[Any] = [self.documents]
        self._places: list[Any] = [0]

    def add(self, kind: str, event: Any) -> None:
        """Take the next event.

        Raises:
            UnreadableFields: If the value is not allowed.
        """
        line = event.start_mark.line + self._first_line
        if kind in ("SequenceEnd", "MappingEnd"):
            self._opened.pop()
            self._places.pop()
            self._end_value()
        elif kind == "Alias":
            reason = f"the frontmatter uses the YAML alias *{event.anchor:.80}: write the value out (line {line})"
            raise UnreadableFields(reason)
        elif kind == "DocumentStart" and self.documents:
            raise _invalid("a second document begins; remove that line", line)
        elif kind in ("Scalar", "SequenceStart", "MappingStart"):
            if self._places[-1] is not None:
                self._add_value(kind, event, line)
            elif kind == "Scalar" and event.value in self._opened[-1]:
                raise _invalid(f"the field {short_repr(event.value)} is written twice; write one list", line)
            elif kind == "Scalar":
                self._places[-1] = event.value
                self._keep_line(line)
            else:
                raise _invalid("the name of a field is a list or a mapping; write a template in quotes", line)

    def _add_value(self, kind: str, event: Any, line: int) -> None:
        value = _read_scalar(event, line) if kind == "Scalar" else _read_collection(kind, event, line)
        parent = self._opened[-1]
        if isinstance(parent, list):
            self._places[-1] = len(parent)
            self._keep_line(line)
            parent.append(value)
        else:
            parent[self._places[-1]] = value
        if kind == "Scalar":
            self._end_value()
        elif len(self._opened) > MAX_DEPTH:
            raise UnreadableFields(f"the frontmatter nests deeper than {MAX_DEPTH} levels (line {line})")
        else:
            self._opened.append(value)
            self._places.append(None if kind == "MappingStart" else 0)

    def _end_value(self) -> None:
        if isinstance(self._opened[-1], dict):
            self._places[-1] = None

    def _keep_line(self, line: int) -> None:
        if 1 < len(self._places) <= _MAX_PATH + 1:
            self.lines[tuple(self._places[1:])] = line


def _read_collection(kind: str, event: Any, line: int) -> Any:
    if event.tag not in (None, "!", f"{_TAG}seq", f"{_TAG}map"):
        raise _unknown_tag(event.tag, line)
    return {} if kind == "MappingStart" else []


def _read_scalar(event: Any, line: int) -> Any:
    text, tag = event.value, event.tag
    is_plain = event.implicit[0] and tag is None
    if tag in ("!", f"{_TAG}str") or (tag is None and not is_plain):
        return text
    value = _read_plain(text, line)
    if is_plain:
        return value
    if tag == f"{_TAG}float" and type(value) is int:
        return float(value)
    if tag not in (f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null")):
        raise _unknown_tag(tag, line)
    if tag != f"{_TAG}{'null' if value is None else type(value).__name__}":
        raise _invalid(f"{short_repr(text)} is no !!{tag.removeprefix(_TAG)}; remove the tag", line)
    return value


def _unknown_tag(tag: str, line: int) -> UnreadableFields:
    return _invalid(f"the tag {short_repr(tag.replace(_TAG, '!!'))} is not known; remove it", line)


def _read_plain(text: str, line: int) -> Any:
    """Return the value of a text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    is_integer, is_time = _INTEGER.fullmatch(text), _DATE_TIME.fullmatch(text)
    if not is_integer and not is_time and not _FLOAT.fullmatch(text):
        return text
    if len(text) > MAX_SCALAR:
        raise _invalid(f"a number or date of more than {MAX_SCALAR} characters: write it as text, in quotes", line)
    if is_integer:
        return int(text, 0)
    # A number beyond the floats and a moment that no calendar has are text.
    if not is_time:
        return number if math.isfinite(number := float(text)) else text
    with suppress(ValueError, OverflowError):
        return _to_iso(text)
    return text


def _to_iso(text: str) -> str:
    from yaml import ScalarNode
    from yaml.constructor import SafeConstructor

    moment = SafeConstructor().construct_yaml_timestamp(ScalarNode(f"{_TAG}timestamp", text))
    return str(moment.isoformat())
