"""Read the text or the fields of an artifact, and check the settings of strategies."""

from collections.abc import Mapping
from typing import Any

from airw._base.checks import check_filled
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.values import Artifact, Surface


def check_kind(kind: object, text_key: object = None) -> None:
    """Check the surface kind and the text key of a strategy.

    Raises:
        ArgumentError: If one of them is not a non-empty string; `text_key` may be `None`.
    """
    check_filled("kind", kind)
    if text_key is not None and (not isinstance(text_key, str) or not text_key):
        raise ArgumentError(f"text_key must be a non-empty string or None, not {short_repr(text_key)}")


def check_name(parameter: str, value: object) -> None:
    """Check that a name is `None` or a string with more than white space.

    Raises:
        ArgumentError: If it is not.
    """
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ArgumentError(f"{parameter} must be a string that is not blank, not {short_repr(value)}")


def text_of(artifact: Artifact, text_key: str | None = None) -> str:
    r"""Return the text of an artifact whose raw value is a string, UTF-8 bytes or a mapping.

    The text of a mapping is its field `text_key`, or `""` if the mapping lacks that field. Without a `text_key` it is
    the field `text`; if there is none, all string values, one per line.

    Raises:
        SourceError: If the raw value is of another type, is not UTF-8, or its text field is not a string.

    Example:
        >>> text_of(Artifact("a", {"title": "T", "year": 1, "body": "B"}))
        'T\nB'
    """
    raw = artifact.raw
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bytes):
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"{artifact.id!r} contains bytes that are not UTF-8 at offset {error.start}") from error
    if isinstance(raw, Mapping):
        return _field_text(artifact.id, raw, text_key)
    expected = "a string, UTF-8 bytes or a mapping of fields"
    raise SourceError(f"{artifact.id!r} has raw content of type {type(raw).__name__}; the strategy reads {expected}")


def _field_text(artifact_id: str, raw: Mapping[Any, Any], text_key: str | None) -> str:
    if text_key is None and "text" not in raw:
        return "\n".join(value for value in raw.values() if isinstance(value, str))
    key = text_key or "text"
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise SourceError(f"the field {key!r} of {artifact_id!r} must be a string, not {type(value).__name__}")
    return value or ""


def read_with_title(artifact: Artifact, text_key: str | None = None) -> str:
    r"""Return the text of an artifact, after its title if its raw value is a mapping with both.

    The title is the field `title`. It is not repeated if the text begins with it, and not added to a text that
    `text_key` names: that text is what the caller wants.

    Raises:
        SourceError: As `text_of`.

    Example:
        >>> read_with_title(Artifact("a", {"title": "Keys", "text": "Rotate them."}))
        'Keys\n\nRotate them.'
    """
    text = text_of(artifact, text_key)
    if (
        text_key is not None
        or text is artifact.raw
        or not isinstance(artifact.raw, Mapping)
        or "text" not in artifact.raw
    ):
        return text
    title = artifact.raw.get("title")
    title = title.strip() if isinstance(title, str) else ""
    if not title or text.lstrip("# \t\r\n").startswith(title):
        return text
    return f"{title}\n\n{text}" if text.strip() else title


def text_id(strategy: object, text_key: str | None) -> str:
    """Return the id of a strategy that calls `read_with_title`.

    It names the class and every parameter.
    """
    return repr(strategy) if text_key is not None else f"{strategy!r} with titles"


def merge_fields(artifact: Artifact, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a strategy read, overridden by the metadata.

    `None` in the metadata overrides no field.
    """
    metadata = clean_fields(artifact)
    return {**fields, **{key: value for key, value in metadata.items() if value is not None or key not in fields}}


def clean_fields(artifact: Artifact) -> dict[str, Any]:
    """Return the metadata of an artifact as filter fields, with JSON values only."""
    fields: dict[str, Any] = json_clean(artifact.metadata)
    return fields


def record_of(artifact: Artifact) -> Mapping[str, Any]:
    """Return the fields of an artifact; a plain text becomes the field `name`.

    Raises:
        SourceError: If the raw value is neither a mapping, a string nor UTF-8 bytes.
    """
    return artifact.raw if isinstance(artifact.raw, Mapping) else {"name": text_of(artifact)}


def text_field(artifact: Artifact, record: Mapping[str, Any], field: str, default: str = "") -> str:
    """Return the text of a field, or the default if the field is missing or `None`.

    Raises:
        SourceError: If the value is not a string.
    """
    value = record.get(field)
    if value is None:
        return default
    if not isinstance(value, str):
        raise SourceError(f"the field {field!r} of {artifact.id!r} must be a string, not {short_repr(value)}")
    return value


def text_list(artifact: Artifact, record: Mapping[str, Any], field: str) -> list[str]:
    """Return the strings of a list field; an empty list if the field is missing or `None`.

    Raises:
        SourceError: If the value is not a list of strings.
    """
    values = record.get(field)
    if values is None:
        return []
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise SourceError(f"the field {field!r} of {artifact.id!r} must be a list of strings, not {short_repr(values)}")
    return list(values)


def field_surface(artifact_id: str, kind: str, parts: tuple[str, ...], separator: str) -> list[Surface]:
    """Return one surface that joins the parts that are not blank; no surface if all are blank."""
    text = separator.join(part for part in parts if part.strip()).strip()
    return [Surface(artifact_id, kind, text, "field")] if text else []
