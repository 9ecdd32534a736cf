"""The best hits of a walk so far, for clients that want only the current top."""

import math
from bisect import insort
from collections.abc import Iterable

from airw.values import SearchHit


class BestHits:
    """The `size` hits with the highest scores; of equal scores, those that came first.

    Example:
        >>> best = BestHits(2)
        >>> hits = [SearchHit(id, "chunk", score, "") for id, score in [("a", 0.1), ("b", 0.3), ("c", 0.2)]]
        >>> [best.add([hit]) for hit in hits], [hit.artifact_id for hit in best.hits]
        ([True, True, True], ['b', 'c'])
        >>> best.add([SearchHit("d", "chunk", 0.1, "")])
        False
    """

    def __init__(self, size: int) -> None:
        """Start without hits."""
        self._size = size
        self._entries: list[tuple[float, int, SearchHit]] = []  # by falling score, then by arrival
        self._count = 0

    def add(self, hits: Iterable[SearchHit]) -> bool:
        """Add hits; return whether the best ones changed."""
        before = self._entries[:]
        for hit in hits:
            score = -math.inf if math.isnan(hit.score) else float(hit.score)
            insort(self._entries, (-score, self._count, hit))  # the count differs, so no two hits are compared
            self._count += 1
            del self._entries[self._size :]
        return [entry[1] for entry in self._entries] != [entry[1] for entry in before]

    @property
    def hits(self) -> list[SearchHit]:
        """Return the best hits, best first."""
        return [hit for _, _, hit in self._entries]
