"""The text of an artifact."""

from collections.abc import Mapping
from typing import Any

from airw._base.json import json_clean
from airw.errors import ArgumentError, SourceError
from airw.values import Artifact


def check_kind(kind: object, text_key: object = None) -> None:
    """Check a surface kind and a text key at birth."""
    if not isinstance(kind, str) or not kind:
        raise ArgumentError(f"kind must be a non-empty string, not {kind!r}")
    if text_key is not None and (not isinstance(text_key, str) or not text_key):
        raise ArgumentError(f"text_key must be a non-empty string or None, not {text_key!r}")


def text_of(artifact: Artifact, text_key: str | None = None) -> str:
    r"""Give an artifact's text: a string itself, UTF-8 bytes decoded, or what a mapping holds.

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
    """Give an artifact's metadata as filter fields that JSON can say."""
    fields: dict[str, Any] = json_clean(artifact.metadata)
    return fields
