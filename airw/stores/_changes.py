"""Checks of artifacts before they are stored, the same in every store, and their JSON."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.values import ArtifactChange

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as JSON text, in which equal numbers and strings have the same spelling.

    Filters compiled to SQL compare these texts.
    """
    return _ENCODER.encode(json_clean(metadata))


def settings_json(value: Mapping[str, Any]) -> str:
    """Return settings as JSON text.

    Raises:
        StoreError: If a value is not JSON.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"settings must be JSON: {error}") from error


def check_changes(puts: Sequence[ArtifactChange]) -> Floats | None:
    """Check the ids, keys and vectors of changes, and return all vectors in one array.

    Texts and metadata are checked by `encode_metadata`.

    Returns:
        `(n, dim) float32`, the vectors of all records in order; `None` if there are no records.

    Raises:
        StoreError: If a change cannot be stored.
    """
    ids = [change.entry.artifact_id for change in puts]
    if len({*ids}) < len(ids):
        artifact_id, count = Counter(ids).most_common(1)[0]
        raise StoreError(f"puts contains {artifact_id!r} {count} times; pass one change per artifact")
    # Nearly always, no key is at fault: then one check of all keys together is enough.
    if find_text_fault("".join([text for change in puts for text in _list_keys(change)]), allow_nul=False):
        for change in puts:
            for text in _list_keys(change):
                # UTF-8 cannot encode an unpaired surrogate, and SQLite reads NUL as the end of a text.
                if fault := find_text_fault(text, allow_nul=False):
                    owner = short_repr(change.entry.artifact_id)
                    raise StoreError(f"{short_repr(text)} of {owner} contains {fault} and cannot be stored; remove it")
    blocks = list[Floats]()
    for change in puts:
        if change.records:
            blocks.append(np.asarray(change.vectors, np.float32))
            _check_shape(change, blocks)
    if not blocks:
        return None
    vectors = np.concatenate(blocks)
    are_finite = np.isfinite(vectors).all(axis=1)
    if not are_finite.all():
        record = [record for change in puts for record in change.records][int(are_finite.argmin())]
        raise StoreError(
            f"the vector of record {record.id!r} of {record.artifact_id!r} contains NaN or infinity; "
            "pass finite numbers"
        )
    return vectors


def _check_shape(change: ArtifactChange, blocks: Sequence[Floats]) -> None:
    """Check that a change has one vector per record, as wide as those of the changes before."""
    shape = blocks[-1].shape
    if len(shape) != 2 or shape[0] != len(change.records):
        raise StoreError(
            f"the vectors of {change.entry.artifact_id!r} must have one row per record, "
            f"shape ({len(change.records)}, dim), not {shape}"
        )
    if shape[1] != blocks[0].shape[1]:
        raise StoreError(
            f"the vectors of {change.entry.artifact_id!r} are {shape[1]} wide, but others in puts "
            f"{blocks[0].shape[1]}; use one embedder for all"
        )


def encode_metadata(puts: Sequence[ArtifactChange]) -> list[str]:
    """Check all records of changes, and return their metadata as JSON texts, in order.

    Raises:
        StoreError: If a record belongs to another artifact, or its text or metadata cannot be stored.
    """
    texts = list[str]()
    for record, artifact_id in ((record, change.entry.artifact_id) for change in puts for record in change.records):
        if record.artifact_id != artifact_id:
            raise StoreError(
                f"puts contains record {record.id!r} of {record.artifact_id!r} in the change of {artifact_id!r}; "
                "pass it with its own artifact"
            )
        try:
            metadata = metadata_json(record.metadata)
        except ValueError as error:  # an int with more digits than Python converts
            raise StoreError(
                f"the metadata of record {record.id!r} of {artifact_id!r} cannot be stored: {error}"
            ) from error
        for name, text in (("text", record.text), ("metadata", metadata)):
            if fault := find_text_fault(text):
                raise StoreError(f"the {name} of record {record.id!r} of {artifact_id!r} contains {fault}; remove it")
        texts.append(metadata)
    return texts


def check_width(puts: Sequence[ArtifactChange], vectors: Floats, stored: int) -> None:
    """Check that new vectors are as wide as the stored ones.

    Raises:
        StoreError: If they are not.
    """
    if vectors.shape[1] != stored:
        first = next(change.entry.artifact_id for change in puts if change.records)
        raise StoreError(
            f"the vectors of {first!r} are {vectors.shape[1]} wide, but those of the corpus {stored}; "
            "use the embedder that the corpus was built with"
        )


def _list_keys(change: ArtifactChange) -> list[str]:
    """Return all texts of a change that a store uses as keys."""
    entry, extraction = change.entry, change.extraction
    keys = [
        entry.artifact_id,
        entry.version,
        entry.embedder_id,
        entry.strategy_id,
        entry.extractor_id,
        entry.source,
    ]
    for record in change.records:
        keys += (record.id, record.surface_kind)
    for link in extraction.links:
        keys += (link.target_ref, link.or_ref or "", link.type, link.origin, link.target_source or "", link.file or "")
    for names in extraction.names:
        keys += names
    return keys
