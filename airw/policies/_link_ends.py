"""Where the links of artifacts lead; in one corpus ends are ids, and a pair, of another corpus, is none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import Any, TypeAlias

from airw.links import Inverses
from airw.values import Direction, Edge

__all__ = ["Ends", "NamedEnds", "stored_ends"]

Ends: TypeAlias = tuple[Sequence[Any], Sequence[Edge]]
"""The artifacts at the other ends of the edges of one, and these edges, aligned."""


def stored_ends(id: Any, edges: Sequence[Edge]) -> Ends:
    """Give the other ends of the edges of one artifact, in their order."""
    ends = [edge.target if edge.source == id else edge.source for edge in edges]
    if {type(id)}.issuperset(map(type, ends)):
        return ends, edges
    are_ends = [type(end) is type(id) for end in ends]
    return list(compress(ends, are_ends)), list(compress(edges, are_ends))


@dataclass(frozen=True, slots=True)
class NamedEnds:
    """Which links are followed, and in which order, where one that is walked against is called by its inverse."""

    inverses: Inverses
    direction: Direction
    types: Sequence[str] | None
    exclude: Sequence[str]

    def asked(self) -> dict[str, Any]:
        """Give what to ask a store for: the types that may have a right name, without those that never have."""
        types = None if self.types is None else self.inverses.stored(self.types, self.direction)
        exclude = self.inverses.stored(self.exclude, self.direction)
        if self.direction == "both":  # what a store drops is dropped either way
            exclude = tuple(each for each in exclude if {each, self.inverses.of(each)} <= set(self.exclude))
        return {"types": types, "exclude": exclude}

    def followed(self, ids: Sequence[Any], edges: Sequence[Sequence[Edge]], places: Mapping[str, int]) -> list[Ends]:
        """Give the other ends of the edges of each artifact that are followed.

        In order of the name, then of the end, out before in, then of the origin; pairs by the place of their corpus.
        """
        inverse = cache(self.inverses.of)
        return [
            self._followed(id, *stored_ends(id, each), inverse, places) for id, each in zip(ids, edges, strict=True)
        ]

    def _followed(
        self,
        id: Any,
        ends: Sequence[Any],
        edges: Sequence[Edge],
        inverse: Callable[[str], str],
        places: Mapping[str, int],
    ) -> Ends:
        types, exclude = self.types, self.exclude
        names = [edge.type if edge.source == id else inverse(edge.type) for edge in edges]
        if types is not None or exclude:
            are_right = [(types is None or name in types) and name not in exclude for name in names]
            names, ends, edges = (list(compress(each, are_right)) for each in (names, ends, edges))
        if names == [edge.type for edge in edges]:  # so they are in order
            return ends, edges
        rows = zip(names, [_place(end, places) for end in ends], edges, strict=True)
        keys = [(name, place, edge.source != id, edge.origin, edge.type) for name, place, edge in rows]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [ends[at] for at in order], [edges[at] for at in order]


def _place(end: Any, places: Mapping[str, int]) -> Any:
    return end if isinstance(end, str) else (places.get(end[0], len(places)), end)
