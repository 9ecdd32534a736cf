"""Small artifacts as `ArtifactChange` values, for tests of stores."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record

EAST: Floats = np.array([[1.0, 0.0]], np.float32)
ODD_IDS = [
    *("../../evil", "a/b", "a", "A", "Z", ".", "..", " ", "🦊", "é", "e\u0301"),
    *("x" * 10_000, "a\nb", "%", 'it\'s; "q"'),
]
"""Ids that a store must not confuse with a path, a pattern, SQL, or one another."""


def axes(*angles: float) -> list[list[float]]:
    """Return unit vectors in the plane at angles in degrees to `EAST`.

    The cosine to `EAST` falls from 0 to 180 degrees.
    """
    return [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]


def record_id(name: str, number: int = 0, kind: str = "chunk") -> str:
    """Return the id of a record that `put` makes."""
    return Record.make_id(name, kind, number)


def vector_of(text: str, dim: int = 4) -> Floats:
    """Return a unit vector `(dim,)` that depends only on the text."""
    row = np.random.default_rng(list(text.encode(errors="surrogatepass"))).standard_normal(dim)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def put(
    name: str,
    *texts: str,
    kinds: Sequence[str] = ("chunk",),
    metadata: Mapping[str, Any] | None = None,
    vectors: Sequence[Sequence[float]] | None = None,
    links: Sequence[Link] = (),
    names: Sequence[Sequence[str]] = (),
    fold_case: bool = False,
    version: str = "1",
    dim: int = 4,
) -> ArtifactChange:
    """Return an artifact with one record per text.

    Without `vectors`, the vectors are made of the texts by `vector_of`.

    Example:
        >>> change = put("a", "some text", links=[Link("b")])
        >>> change.entry.artifact_id, [record.text for record in change.records], change.vectors.shape
        ('a', ['some text'], (1, 4))
    """
    records = [
        Record(record_id(name, number, kind), name, kind, number, text, metadata or {})
        for (number, text), kind in zip(enumerate(texts), cycle(kinds), strict=False)
    ]
    rows = [vector_of(text, dim) for text in texts] if vectors is None else vectors
    return ArtifactChange(
        LedgerEntry(
            name, version, "embedder", "strategy", "extractor", "source", tuple(record.id for record in records)
        ),
        records,
        np.array(rows, np.float32).reshape(len(records), -1) if records else np.empty((0, 0), np.float32),
        Extraction(links, names, fold_case=fold_case),
    )


def put_document(
    name: str,
    text: str,
    vector: Floats,
    *,
    metadata: Mapping[str, Any] | None = None,
    links: Sequence[Link] = (),
) -> ArtifactChange:
    """Return an artifact that is its own only record, as those of `airw.adapt` are.

    Example:
        >>> change = put_document("a", "some text", vector_of("some text"))
        >>> change.records[0].id, change.records[0].surface_kind
        ('a', 'document')
    """
    record = Record(name, name, "document", 0, text, metadata or {})
    entry = LedgerEntry(name, "1", "embedder", "strategy", "extractor", "source", (name,))
    return ArtifactChange(entry, [record], vector[None], Extraction(links))
