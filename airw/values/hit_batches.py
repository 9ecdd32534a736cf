"""Hits in columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias, overload

import numpy as np

from airw._base.arrays import NDArray
from airw.values.hits import SearchHit, make_unread_hits, set_hit_fields

MetadataWriter: TypeAlias = Callable[[Sequence[int], Sequence[dict[str, Any]]], None]
"""A function that writes into the metadata of the hits in some rows."""

_LONGEST_RUN = 128  # hits that are made at once, in about a tenth of a millisecond


class HitBatch(Sequence[SearchHit | None]):
    """Hits in columns, from which a `SearchHit` is made when it is looked at.

    A hit of a batch equals one that was made at once in every field. Its metadata is made with it, and is the hit's own
    from then on. For a reader who looks at one hit after the other, more and more of the next ones are made together.

    Args:
        artifact_ids: The artifact of each hit; `None` for a node that is no hit.
        surface_kinds: The kind of each surface, or one kind for all.
        scores: The scores, `(n,) float64`.
        texts: The text of each hit; `None` for empty texts.
        metadata: A function that returns a new dict for the hit in a row; `None` for empty dicts. It is called when the
            hit, or one before it, is looked at, perhaps in another thread.
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
        "_next_row",
        "_run",
        "_unread_hits",
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
        self.artifact_ids: tuple[str | None, ...] = tuple(artifact_ids)
        self.texts: tuple[str, ...] | None = None if texts is None else tuple(texts)
        self.surface_kinds: str | Sequence[str] = surface_kinds
        self.scores: NDArray[np.float64] = scores
        self.metadata: Callable[[int], dict[str, Any]] | None = metadata
        self.sources: str | Sequence[str | None] | None = sources
        self.surface_indexes: Sequence[int | None] | None = surface_indexes
        self._add: MetadataWriter | None = None
        self._hits: list[SearchHit | None] | None = None
        self._unread_hits: list[SearchHit] = []  # one per row, also for rows that are no hits
        # All hits from this row on are unread. And how many hits were made at the last look.
        self._next_row, self._run = 0, 1

    def add_metadata(self, add: MetadataWriter) -> "HitBatch":
        """Return the same hits, unread, with more metadata.

        Args:
            add: A function of rows and the metadata of their hits, into which it writes. It is called when a hit is
                looked at.
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
            self._unread_hits = make_unread_hits(self._make_hit, len(self))
            pairs = zip(self.artifact_ids, self._unread_hits, strict=True)
            self._hits = (
                [None if id is None else hit for id, hit in pairs] if self.has_routers else [*self._unread_hits]
            )
        return self._hits

    def _make_hit(self, row: int) -> None:
        """Make the hit in a row.

        For a reader who goes on from the hits that were made last, make some of the next ones, too.
        """
        self._run = min(2 * self._run, _LONGEST_RUN) if 0 < row == self._next_row else 1
        rows = range(row, min(row + self._run, len(self)))
        try:
            self._make_hits(rows)
        except Exception:
            # The metadata of a later hit may be at fault: that is for whoever looks at that hit.
            if len(rows) == 1:
                raise
            rows = rows[:1]
            self._make_hits(rows)
        self._next_row = max(self._next_row, rows.stop)

    def _make_hits(self, rows: Sequence[int]) -> None:
        if self.has_routers:
            rows = [row for row in rows if self.artifact_ids[row] is not None]
        metadata = [{} for _ in rows] if self.metadata is None else [*map(self.metadata, rows)]
        if self._add is not None:
            self._add(rows, metadata)
        columns = (
            [self.artifact_ids[row] for row in rows],
            _select(self.surface_kinds, rows),
            self.scores[[*rows]].astype(np.float64).tolist(),
            _select("" if self.texts is None else self.texts, rows),
            metadata,
            _select(self.sources, rows),
            _select(self.surface_indexes, rows),
        )
        set_hit_fields([self._unread_hits[row] for row in rows], columns)


def _select(column: Any, rows: Sequence[int]) -> Iterable[Any]:
    """Return the values of some rows; a text or `None` is the value of every row."""
    return repeat(column) if column is None or isinstance(column, str) else [column[row] for row in rows]
