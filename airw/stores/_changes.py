"""Checks of what is to be stored, the same in every store, and its JSON."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.values import ArtifactChange, Record

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as JSON text in which every number and string has one spelling."""
    return _ENCODER.encode(json_clean(metadata))


def settings_json(value: Mapping[str, Any]) -> str:
    """Return settings as JSON text.

    Raises:
        StoreError: They are not JSON.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"settings must be JSON: {error}") from error


def check_changes(puts: Sequence[ArtifactChange]) -> Floats | None:
    """Return the vectors of all records as one `(n, dim) float32`; `None` when there are no records.

    Everything is checked but texts and metadata: for these see `check_record`.

    Raises:
        StoreError: Something cannot be stored.
    """
    for artifact_id, count in Counter(change.entry.artifact_id for change in puts).items():
        if count > 1:
            raise StoreError(f"{artifact_id!r} is put twice in one call; put it once")
    _check_keys(puts)
    return _stack_vectors(puts)


def check_record(record: Record, artifact_id: str) -> str:
    """Return the metadata of a record as JSON text.

    Raises:
        StoreError: The record is another artifact's, or its text or metadata cannot be stored.
    """
    if record.artifact_id != artifact_id:
        raise StoreError(
            f"record {record.id!r} of {record.artifact_id!r} came with {artifact_id!r}; put it with its own"
        )
    try:
        metadata = metadata_json(record.metadata)
    except ValueError as error:  # a number too long to write
        raise StoreError(
            f"the metadata of record {record.id!r} of {artifact_id!r} cannot be stored: {error}"
        ) from error
    for name, text in (("text", record.text), ("metadata", metadata)):
        if fault := find_text_fault(text):
            raise StoreError(f"the {name} of record {record.id!r} of {artifact_id!r} holds {fault}; take it out")
    return metadata


def check_width(puts: Sequence[ArtifactChange], vectors: Floats, stored: int) -> None:
    """Refuse vectors of another width than those that stay.

    Raises:
        StoreError: They are.
    """
    if vectors.shape[1] != stored:
        first = next(change.entry.artifact_id for change in puts if change.records)
        raise StoreError(
            f"the vectors, such as those of {first!r}, are {vectors.shape[1]} wide, those of the corpus {stored}; "
            "use the embedder it was built with"
        )


def _keys_of(change: ArtifactChange) -> Iterator[str]:
    """Yield the texts by which something is looked up."""
    entry = change.entry
    yield from (
        entry.artifact_id,
        entry.version,
        entry.embedder_id,
        entry.strategy_id,
        entry.extractor_id,
        entry.source,
    )
    for record in change.records:
        yield from (record.id, record.surface_kind)
    for link in change.extraction.links:
        yield from (link.target_ref, link.or_ref or "", link.type, link.origin)
        yield from (link.target_source or "", link.file or "")
    for names in change.extraction.names:
        yield from names


def _check_keys(puts: Sequence[ArtifactChange]) -> None:
    """Refuse what UTF-8 has no bytes for, and NUL, which SQLite reads as the end of a text."""
    if not find_text_fault("".join(text for change in puts for text in _keys_of(change)), allow_nul=False):
        return
    for change in puts:
        for text in _keys_of(change):
            if fault := find_text_fault(text, allow_nul=False):
                whose = short_repr(change.entry.artifact_id)
                raise StoreError(f"{short_repr(text)} of {whose} holds {fault} and cannot be stored; take it out")


def _stack_vectors(puts: Sequence[ArtifactChange]) -> Floats | None:
    blocks: list[Floats] = []
    for change in puts:
        if change.records:
            blocks.append(_check_block(change))
            if blocks[-1].shape[1] != blocks[0].shape[1]:
                raise StoreError(
                    f"the vectors of {change.entry.artifact_id!r} are {blocks[-1].shape[1]} wide, others of the call "
                    f"{blocks[0].shape[1]}; use one embedder"
                )
    if not blocks:
        return None
    vectors = np.concatenate(blocks)
    are_finite = np.isfinite(vectors).all(axis=1)
    if not are_finite.all():
        record = [record for change in puts for record in change.records][int(are_finite.argmin())]
        raise StoreError(f"the vector of record {record.id!r} of {record.artifact_id!r} holds NaN or infinity")
    return vectors


def _check_block(change: ArtifactChange) -> Floats:
    vectors = np.asarray(change.vectors, np.float32)
    if vectors.ndim != 2 or vectors.shape[0] != len(change.records):
        raise StoreError(
            f"{change.entry.artifact_id!r} has {len(change.records)} records and needs vectors of shape "
            f"({len(change.records)}, dim), not {vectors.shape}"
        )
    return vectors
