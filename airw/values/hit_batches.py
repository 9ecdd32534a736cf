"""Hits in columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from airw._base.arrays import NDArray
from airw.values.hits import SearchHit, make_unread_hits


class HitBatch(Sequence[SearchHit | None]):
    """Hits in columns, from which a `SearchHit` is made when it is looked at.

    A hit of a batch equals one that was made at once in every field. Its metadata is made with it, and is the hit's own
    from then on.

    Args:
        artifact_ids: The artifact of each hit; `None` for a node that is no hit.
        surface_kinds: The kind of each surface, or one kind for all.
        scores: The scores, `(n,) float64`.
        texts: The text of each hit; `None` for empty texts.
        metadata: A function that returns a new dict for the hit in a row; `None` for empty dicts. It is called when the
            hit is looked at, perhaps in another thread.
        sources: The corpus of each hit, or one for all.
        surface_indexes: The position of each surface in its artifact; `None` if not known.

    Example:
        >>> batch = HitBatch(["a.md", "b.md"], "chunk", np.array([0.5, 0.25]), ["keys", "cake"], sources="notes")
        >>> len(batch), batch[1].text, batch[1] == SearchHit("b.md", "chunk", 0.25, "cake", source="notes")
        (2, 'cake', True)
    """

    __slots__ = (
        "_add",
        "_hits",
        "artifact_ids",
        "metadata",
        "scores",
        "sources",
        "surface_indexes",
        "surface_kinds",
        "texts",
    )

    def __init__(  # noqa: PLR0917 - the columns, in the order of the fields of a hit
        self,
        artifact_ids: Sequence[str | None],
        surface_kinds: str | Sequence[str],
        scores: NDArray[np.float64],
        texts: Sequence[str] | None = None,
        metadata: Callable[[int], dict[str, Any]] | None = None,
        sources: str | Sequence[str | None] | None = None,
        surface_indexes: Sequence[int | None] | None = None,
    ) -> None:
        # The collector of cycles does not look into tuples of strings, however many a consumer keeps.
        self.artifact_ids, self.texts = tuple(artifact_ids), None if texts is None else tuple(texts)
        self.surface_kinds, self.scores = surface_kinds, scores
        self.metadata, self.sources, self.surface_indexes = metadata, sources, surface_indexes
        self._add: Callable[[int, dict[str, Any]], None] | None = None
        self._hits: list[SearchHit | None] | None = None

    def add_metadata(self, add: Callable[[int, dict[str, Any]], None]) -> "HitBatch":
        """Return the same hits, unread, with more metadata.

        Args:
            add: A function that writes into the metadata of the hit in a row. It is called when the hit is looked at.
        """
        columns = (self.artifact_ids, self.surface_kinds, self.scores, self.texts)
        batch = HitBatch(*columns, self.metadata, self.sources, self.surface_indexes)
        batch._add = add
        return batch

    @property
    def has_routers(self) -> bool:
        """True if a row is no hit."""
        return None in self.artifact_ids

    def source_of(self, row: int) -> str | None:
        """Return the corpus of the hit in a row."""
        sources = self.sources
        return sources if sources is None or isinstance(sources, str) else sources[row]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.artifact_ids)

    @overload
    def __getitem__(self, row: int) -> SearchHit | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[SearchHit | None]: ...
    def __getitem__(self, row: int | slice) -> SearchHit | list[SearchHit | None] | None:
        """Return the hit of a row, or a list of those of a slice."""
        return self._all_hits()[row]

    def __iter__(self) -> Iterator[SearchHit | None]:
        """Iterate over the hits."""
        return iter(self._all_hits())

    def _all_hits(self) -> list[SearchHit | None]:
        if self._hits is None:
            hits: list[SearchHit | None] = list(make_unread_hits(self._read_row, len(self)))
            if self.has_routers:
                hits = [None if id is None else hit for id, hit in zip(self.artifact_ids, hits, strict=True)]
            self._hits = hits
        return self._hits

    def _read_row(self, row: int) -> tuple[Any, ...]:
        """Return the fields of the hit in a row, with new metadata."""
        metadata = {} if self.metadata is None else self.metadata(row)
        if self._add is not None:
            self._add(row, metadata)
        kinds, indexes = self.surface_kinds, self.surface_indexes
        return (
            self.artifact_ids[row],
            kinds if isinstance(kinds, str) else kinds[row],
            float(self.scores[row]),
            "" if self.texts is None else self.texts[row],
            metadata,
            self.source_of(row),
            None if indexes is None else indexes[row],
        )
