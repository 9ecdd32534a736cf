"""Small artifacts as a store is given them, for tests of stores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record

EAST: Floats = np.array([[1.0, 0.0]], np.float32)
ODD_IDS = [
    *("../../evil", "a/b", "a", "A", "Z", ".", "..", " ", "🦊", "é", "e\u0301"),
    *("x" * 10_000, "a\nb", "%", 'it\'s; "q"'),
]
"""Ids that no store may take for a path, a pattern, SQL, or one another."""


def axes(*angles: float) -> list[list[float]]:
    """Return unit vectors in the plane at these angles; their cosine to `EAST` falls from 0 to 180."""
    return [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]


def record_id(name: str, at: int = 0, kind: str = "chunk") -> str:
    """Return the id of one record that `put` makes."""
    return Record.make_id(name, kind, at)


def vector_of(text: str, dim: int = 4) -> Floats:
    """Return a unit vector `(dim,)` that only depends on the text."""
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
    version: str = "1",
    dim: int = 4,
) -> ArtifactChange:
    """Return an artifact of these texts, one record each, with vectors that follow from the texts unless given.

    Example:
        >>> change = put("a", "some text", links=[Link("b")])
        >>> change.entry.artifact_id, [record.text for record in change.records], change.vectors.shape
        ('a', ['some text'], (1, 4))
    """
    records = [
        Record(record_id(name, at, kinds[at % len(kinds)]), name, kinds[at % len(kinds)], at, text, metadata or {})
        for at, text in enumerate(texts)
    ]
    rows = [vector_of(text, dim) for text in texts] if vectors is None else vectors
    return ArtifactChange(
        LedgerEntry(name, version, "embedder", "strategy", "extractor", "source", tuple(each.id for each in records)),
        records,
        np.array(rows, np.float32).reshape(len(records), -1) if records else np.empty((0, 0), np.float32),
        Extraction(links, names),
    )
