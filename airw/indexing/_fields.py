"""The fields of a record: of a mapping its own, of a text its name."""

from collections.abc import Mapping
from typing import Any

from airw._base.messages import short_repr
from airw.errors import SourceError
from airw.indexing._text import text_of
from airw.values import Artifact, Surface


def record_of(artifact: Artifact) -> Mapping[str, Any]:
    """Give the fields of an artifact; a text, or UTF-8 bytes, are a name.

    Raises:
        SourceError: The raw value is neither a mapping nor a text.
    """
    return artifact.raw if isinstance(artifact.raw, Mapping) else {"name": text_of(artifact)}


def text_field(artifact: Artifact, record: Mapping[str, Any], field: str, default: str = "") -> str:
    """Give the text of a field, the default where it is missing or `None`.

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
    """Give the texts in the list of a field, none where it is missing or `None`.

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
