"""Final places: the entries of a fused ranking that no pending source can move.

`discover_stream` shows a hit as final as soon as no pending source can change its place. A pending source adds at most
`weight / (rrf_k + 1)` to the score of a hit, the RRF score of the first rank in that source. A place is final if no
score within these bounds can change it. The idea is that of the threshold algorithms (Fagin, Lotem and Naor, "Optimal
aggregation algorithms for middleware", 2003): stop when bounds prove the answer. Here each place is proven on its own.
"""

from collections.abc import Mapping, Sequence

from airw.retrieval.fusion import FusedEntry


def final_places(
    entries: Sequence[FusedEntry], pending: Mapping[int, float], *, rrf_k: int = 60, may_merge: bool = False
) -> list[bool]:
    """Return, for each entry, True if no pending source can move it or replace its hit.

    With `may_merge`, the RRF score of a final entry may still grow, and so may its `fused_sources`.

    Args:
        entries: The fused ranking, as `fuse_entries` returns it. Pending sources take part in it as empty lists, or the
            positions of the sources would shift.
        pending: The weight of each pending source, by the position of the source among all sources.
        rrf_k: The rank constant.
        may_merge: True if hits of several sources may be the same thing. A pending source can then raise the score of
            an entry that is in the ranking already.

    Returns:
        One bool an entry: True if its place is final, False if a pending source may still change it.

    Example:
        >>> from airw.retrieval.fusion import fuse_entries
        >>> from airw.values import SearchHit
        >>> hits = [SearchHit("x", "document", 1.0, ""), SearchHit("y", "document", 1.0, "")]
        >>> entries = fuse_entries({"a": hits, "b": []})
        >>> final_places(entries, {1: 1.0})
        [True, False]
    """
    # The best that a pending source can add to any hit: the RRF score of its first rank.
    first_scores = {position: weight / (rrf_k + 1) for position, weight in pending.items()}
    # Without merging, a pending source only inserts new hits. If its first hit cannot come before an entry, none can.
    if not may_merge:
        return [
            not any(_comes_before(score, position, entry) for position, score in first_scores.items())
            for entry in entries
        ]
    if not first_scores:
        return [True] * len(entries)
    # With merging, an entry may be first in every pending source, so its score may grow by all their first scores.
    max_growth = sum(first_scores.values())
    upper_bounds = [entry.rrf_score + (max_growth if _may_grow(entry) else 0.0) for entry in entries]
    return [_is_final(place, entries, upper_bounds, first_scores) for place in range(len(entries))]


def _is_final(
    place: int, entries: Sequence[FusedEntry], upper_bounds: Sequence[float], first_scores: Mapping[int, float]
) -> bool:
    """Return whether an entry keeps its place and its hit, for hits that may merge.

    Args:
        place: The place of the entry in the ranking.
        entries: The ranking.
        upper_bounds: The largest RRF score that each entry can reach.
        first_scores: The RRF score of the first hit of each pending source, by the position of the source.
    """
    entry = entries[place]
    # A pending source may return the same thing at a better rank, or at an equal rank and be an earlier source: its
    # hit would then represent the entry.
    if _may_grow(entry) and any((1, position) < (entry.rank, entry.position) for position in first_scores):
        return False
    # A new thing may come before the entry. One pending source gives it at most its first score, and rank and position
    # decide a tie.
    if len(first_scores) == 1:
        is_displaced = any(_comes_before(score, position, entry) for position, score in first_scores.items())
    # Several pending sources may all have the same new thing at their first rank, so their first scores add up.
    # Rounding of that sum must not decide, so the entry must be clearly above it.
    else:
        is_displaced = not _exceeds(entry.rrf_score, sum(first_scores.values()))
    # An entry above may be overtaken by this one, or this one by an entry below, if the lower one grows.
    above, below = range(place), range(place + 1, len(entries))
    return (
        not is_displaced
        and all(_stays_above(entries[other], entry, upper_bounds[place]) for other in above)
        and all(_stays_above(entry, entries[other], upper_bounds[other]) for other in below)
    )


def _comes_before(score: float, position: int, entry: FusedEntry) -> bool:
    """Return whether the first hit of a source would be sorted before an entry.

    `score` is the RRF score of that hit, `position` the position of its source.
    """
    return (-score, 1, position) < (-entry.rrf_score, entry.rank, entry.position)


def _may_grow(entry: FusedEntry) -> bool:
    """Return whether another source may contain the same thing.

    An entry without an identity has the key of its hit, `(source, artifact_id)`, which no other source can have.
    """
    return entry.key != entry.hit.key


def _stays_above(upper: FusedEntry, lower: FusedEntry, lower_can_reach: float) -> bool:
    """Return whether `upper` stays above `lower`, whose score can grow to `lower_can_reach`.

    If `upper` grows too, it only moves further up.
    """
    return not _may_grow(lower) or _exceeds(upper.rrf_score, lower_can_reach)


def _exceeds(score: float, bound: float) -> bool:
    """Return whether a score is above a bound by more than the rounding error of sums."""
    return score > bound * (1 + 1e-12)
