"""Which hits of a fused ranking keep their places, whatever the sources say that have not answered.

A source that has not answered gives a hit at most `weight / (rrf_k + 1)`: the mass of its first rank. The idea is that
of the threshold algorithms (Fagin, Lotem and Naor, "Optimal aggregation algorithms for middleware", 2003): what is
beyond the bound of the rest is decided.
"""

from collections.abc import Mapping, Sequence

from airw.retrieval.fusion import Fused

__all__ = ["final_places"]


def final_places(
    entries: Sequence[Fused], pending: Mapping[int, float], *, rrf_k: int = 60, may_merge: bool = False
) -> list[bool]:
    """Say of each entry of a fused ranking whether its place, and the hit that stands there, can still change.

    Args:
        entries: The ranking so far, as `airw.retrieval.fusion.fused` gives it.
        pending: The weight of each source that has not answered, by its position among all.
        rrf_k: The rank constant.
        may_merge: Whether hits of several sources may be one thing, so that known ones can still grow.

    Returns:
        One answer an entry, true where it is final.

    Example:
        >>> from airw.retrieval.fusion import fused
        >>> from airw.values import SearchHit
        >>> entries = fused({"a": [SearchHit("x", "document", 1.0, ""), SearchHit("y", "document", 1.0, "")], "b": []})
        >>> final_places(entries, {1: 1.0})
        [True, False]
    """
    firsts = {position: weight / (rrf_k + 1) for position, weight in pending.items()}
    if not may_merge:
        return [not any(_before(mass, position, entry) for position, mass in firsts.items()) for entry in entries]
    if not firsts:
        return [True] * len(entries)
    growth = sum(firsts.values())
    grown = [entry.mass + (growth if _may_grow(entry) else 0.0) for entry in entries]
    return [_is_settled(at, entries, grown, firsts, growth) for at in range(len(entries))]


def _before(mass: float, position: int, entry: Fused) -> bool:
    """Say whether a source's first hit would stand before an entry."""
    return (-mass, 1, position) < (-entry.mass, entry.rank, entry.position)


def _may_grow(entry: Fused) -> bool:
    """Say whether another source may hold it: what is known by its source and id alone cannot be found elsewhere."""
    return entry.key != entry.hit.key


def _is_settled(
    at: int, entries: Sequence[Fused], grown: Sequence[float], firsts: Mapping[int, float], growth: float
) -> bool:
    entry = entries[at]
    if _may_grow(entry) and any((1, position) < (entry.rank, entry.position) for position in firsts):
        return False  # another hit may come to stand for it
    if len(firsts) == 1:
        displaced = any(_before(mass, position, entry) for position, mass in firsts.items())
    else:
        displaced = not _exceeds(entry.mass, growth)  # one thing may be first in all of them
    return (
        not displaced
        and all(_stays_above(entries[other], entry, grown[at]) for other in range(at))
        and all(_stays_above(entry, entries[other], grown[other]) for other in range(at + 1, len(entries)))
    )


def _stays_above(upper: Fused, lower: Fused, grown: float) -> bool:
    """Say whether an entry stays above another one that may grow to a mass; its own growth only helps."""
    return not _may_grow(lower) or _exceeds(upper.mass, grown)


def _exceeds(mass: float, bound: float) -> bool:
    """Compare beyond what sums of the same terms in another order may differ by."""
    return mass > bound * (1 + 1e-12)
