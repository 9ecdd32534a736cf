"""What strategies read of an artifact: its text, or the fields of a record."""

from collections.abc import Mapping
from typing import Any

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.values import Artifact, Surface


def check_kind(kind: object, text_key: object = None) -> None:
    """Check a surface kind and a text key at birth."""
    if not isinstance(kind, str) or not kind:
        raise ArgumentError(f"kind must be a non-empty string, not {kind!r}")
    if text_key is not None and (not isinstance(text_key, str) or not text_key):
        raise ArgumentError(f"text_key must be a non-empty string or None, not {text_key!r}")


def check_name(what: str, value: object) -> None:
    """Check a name at birth, where one is given."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ArgumentError(f"{what} must be a text that is not blank, not {short_repr(value)}")


def text_of(artifact: Artifact, text_key: str | None = None) -> str:
    r"""Return an artifact's text: a string itself, UTF-8 bytes decoded, or what a mapping holds.

    Of a mapping: the field `text_key` where one is given (missing is blank), else its `text`, else its string values,
    one a line.

    Raises:
        SourceError: The raw value holds no text.

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
            raise SourceError(f"{artifact.id!r} holds bytes that are not UTF-8 at offset {error.start}") from error
    if isinstance(raw, Mapping):
        return _field_text(artifact.id, raw, text_key)
    wanted = "a string, UTF-8 bytes or a mapping of fields"
    raise SourceError(f"{artifact.id!r} is of type {type(raw).__name__}; the strategy reads {wanted}")


def _field_text(artifact_id: str, raw: Mapping[Any, Any], text_key: str | None) -> str:
    if text_key is None and "text" not in raw:
        return "\n".join(value for value in raw.values() if isinstance(value, str))
    key = text_key or "text"
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise SourceError(f"the field {key!r} of {artifact_id!r} must hold a string, not {type(value).__name__}")
    return value or ""


def clean_fields(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact's metadata as filter fields that JSON can say."""
    fields: dict[str, Any] = json_clean(artifact.metadata)
    return fields


def record_of(artifact: Artifact) -> Mapping[str, Any]:
    """Return the fields of an artifact; a text, or UTF-8 bytes, are a name.

    Raises:
        SourceError: The raw value is neither a mapping nor a text.
    """
    return artifact.raw if isinstance(artifact.raw, Mapping) else {"name": text_of(artifact)}


def text_field(artifact: Artifact, record: Mapping[str, Any], field: str, default: str = "") -> str:
    """Return the text of a field, the default where it is missing or `None`.

    Raises:
        SourceError: It is no text.
    """
    value = record.get(field)
    if value is None:
        return default
    if not isinstance(value, str):
        raise SourceError(f"the field {field!r} of {artifact.id!r} must hold a string, not {short_repr(value)}")
    return value


def text_list(artifact: Artifact, record: Mapping[str, Any], field: str) -> list[str]:
    """Return the texts in the list of a field, none where it is missing or `None`.

    Raises:
        SourceError: It is no list of strings.
    """
    values = record.get(field)
    if values is None:
        return []
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise SourceError(
            f"the field {field!r} of {artifact.id!r} must hold a list of strings, not {short_repr(values)}"
        )
    return list(values)


def field_surface(artifact_id: str, kind: str, parts: tuple[str, ...], between: str) -> list[Surface]:
    """Make one surface of the parts that are not blank, or none where all are."""
    text = between.join(part for part in parts if part.strip()).strip()
    return [Surface(artifact_id, kind, text, "field")] if text else []
