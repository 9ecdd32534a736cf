"""Final places: the hits of a fused ranking that no pending source can move.

`discover_stream` shows a hit as final as soon as no answer of a pending source can change its place. The idea is that
of the threshold algorithms (Fagin, Lotem and Naor, "Optimal aggregation algorithms for middleware", 2003): stop when
bounds prove the answer. Here each place is proven on its own.

Where sources are fused by rank, a pending one adds at most `weight / (rrf_k + 1)` to the score of a hit, the RRF score
of the first rank in that source.

In a union, a pending source has counted its words, so the best that it can do is known: a cosine of at most 1, a BM25
score of at most what a record full of its rarest words would get, and no more artifacts than it has records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw.retrieval import Mode, SearchQuery
from airw.retrieval.balance import LIST_LENGTH, find_spread, rank_shares, share_weights
from airw.retrieval.fusion import FusedEntry
from airw.retrieval.merging import ChannelRankings
from airw.values import SearchHit, TermCounts

_Key: TypeAlias = tuple[str | None, str]

_MAX_COSINE = 1 + 1e-6  # float32 vectors are of unit length up to rounding
_MARGIN = 1 + 1e-12  # sums of the same numbers in another order differ by less


def _exceeds(score: float, bound: float) -> bool:
    """Return whether a score is above a bound by more than the rounding error of sums."""
    return score > bound * _MARGIN if bound > 0 else score > bound


# Sources that are fused by rank


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
    firsts = {position: weight / (rrf_k + 1) for position, weight in pending.items()}
    growth = sum(firsts.values())

    def may_grow(entry: FusedEntry) -> bool:
        # An entry without an identity has the key of its hit, `(source, artifact_id)`, which no other source can have.
        return may_merge and bool(firsts) and entry.key != entry.hit.key

    def is_displaced(entry: FusedEntry) -> bool:
        # Several pending sources may all have the same new thing at their first rank, so their first scores add up.
        # Rounding of that sum must not decide, so the entry must be clearly above it.
        if may_merge and len(firsts) > 1:
            return not _exceeds(entry.rrf_score, growth)
        # Otherwise each inserts new hits of its own, and rank and position decide a tie.
        order = -entry.rrf_score, entry.rank, entry.position
        return any((-score, 1, position) < order for position, score in firsts.items())

    final: list[bool] = []
    # From the last entry to the first, because an entry may be overtaken by one below it that grows: the best of those.
    best_below = -math.inf
    for place in reversed(range(len(entries))):
        entry = entries[place]
        is_final = not is_displaced(entry) and _exceeds(entry.rrf_score, best_below + growth)
        if may_grow(entry):
            # A pending source may have the same thing at a better rank, or at an equal rank and be an earlier source:
            # its hit would then represent the entry. If the entry above grows too, it only moves further up.
            is_replaced = any((1, position) < (entry.rank, entry.position) for position in firsts)
            overtakes = place > 0 and not _exceeds(entries[place - 1].rrf_score, entry.rrf_score + growth)
            is_final = is_final and not is_replaced and not overtakes
            best_below = max(best_below, entry.rrf_score)
        final.append(is_final)
    return final[::-1]


# The union of sources


@dataclass(frozen=True, slots=True)
class PendingBound:
    """The best that the artifacts of a pending source can do in one channel.

    Args:
        score: The largest score.
        count: The largest number of artifacts that it can rank.
    """

    score: float
    count: int


def bounds_of(counts: TermCounts, pooled: TermCounts, channels: Sequence[Mode]) -> dict[Mode, PendingBound]:
    """Return the bounds of a source in each channel.

    Args:
        counts: The word counts of the source.
        pooled: The word counts of all sources.
        channels: The channels of the search.

    Example:
        >>> pooled = TermCounts("bm25", records=9, words=90, frequencies={"keys": 1})
        >>> bounds_of(TermCounts("bm25", 4, 40, {"keys": 0}), pooled, ["dense", "lexical"])["lexical"]
        PendingBound(score=0.0, count=0)
    """
    matches = min(counts.records, sum(counts.frequencies.values()))
    bounds: dict[Mode, PendingBound] = {
        "dense": PendingBound(_MAX_COSINE, counts.records),
        "lexical": PendingBound(pooled.max_score(counts), matches),
    }
    return {channel: bounds[channel] for channel in channels}


def final_union_places(
    hits: Sequence[SearchHit],
    channels: Mapping[Mode, ChannelRankings],
    pending: Sequence[Mapping[Mode, PendingBound]],
    search: SearchQuery,
) -> list[bool]:
    """Return, for each hit, True if no pending source can move it.

    Args:
        hits: The hits of the sources that have answered, best first.
        channels: Their ranking in each channel.
        pending: The bounds of each pending source.
        search: The search in the union, without reranking, boost and weights of surfaces.

    Returns:
        One bool a hit, in the order of the hits.
    """
    # A fused score is linear in the weights. So what holds for the extreme weights holds for all between them.
    fusions = [_Fusion(channels, pending, search, weights) for weights in _extreme_weights(channels, pending, search)]
    ranks: dict[_Key, dict[Mode, int]] = {}
    for kind, channel in channels.items():
        for rank, key in enumerate(cast("Sequence[_Key]", channel.rankings[0].artifact_ids)):
            ranks.setdefault(key, {})[kind] = rank
    by_rank = len(channels) > 1 and not search.adds_scores

    def stays_above(upper: _Key, lower: _Key) -> bool:
        # Insertions keep the order within a channel: who is ahead in all of them stays ahead.
        ahead = ranks[upper]
        if by_rank and all(kind in ahead and ahead[kind] < rank for kind, rank in ranks[lower].items()):
            return True
        return all(fusion.stays_above(upper, lower) for fusion in fusions)

    def is_final(key: _Key) -> bool:
        others = (other for other in ranks if other != key)
        is_first = all(_exceeds(fusion.bounds[key].least, fusion.newcomer) for fusion in fusions)
        return is_first and all(stays_above(key, other) or stays_above(other, key) for other in others)

    return [is_final((hit.source, hit.artifact_id)) for hit in hits]


def _extreme_weights(
    channels: Mapping[Mode, ChannelRankings], pending: Sequence[Mapping[Mode, PendingBound]], search: SearchQuery
) -> list[Mapping[Mode, float]]:
    """Return the weights of the channels that pending sources can lead to: the extreme ones.

    With `"ranks"`, the weights depend on the scores of the lists; see `airw.retrieval.balance`.
    """
    given = {kind: channel.weight for kind, channel in channels.items()}
    shares = rank_shares(channels["lexical"].rankings[0]) if "lexical" in channels else None
    if search.fusion != "ranks" or len(channels) < 2 or shares is None:
        return [given]
    cosines = channels["dense"].rankings[0].scores
    most = [sum(bound[kind].count for bound in pending) for kind in ("dense", "lexical")]
    longest = min(max(len(cosines), len(shares)), LIST_LENGTH)
    dense = _find_spreads(cosines, min(len(cosines), LIST_LENGTH), most[0], most[0], highest=_MAX_COSINE, lowest=-1.0)
    # Shorter lists of words are filled with 0, up to the length of the cosines.
    lexical = _find_spreads(shares, longest, most[1], max(most), highest=1.0, lowest=0.0)
    factors = [given["dense"], given["lexical"]]
    pairs = (dense[0], lexical[1]), (dense[1], lexical[0])
    return [dict(zip(("dense", "lexical"), share_weights(pair, factors), strict=True)) for pair in pairs]


def _find_spreads(
    scores: NDArray[np.float64], length: int, count: int, growth: int, *, highest: float, lowest: float
) -> tuple[float, float]:
    """Return the least and the largest spread of the scores at the end.

    Args:
        scores: The scores so far, best first.
        length: The number of scores that count so far.
        count: The largest number of scores that can be added.
        growth: The largest number of places by which the list can grow.
        highest: The largest score that can be added.
        lowest: The least score, of an added hit or of an empty place.
    """
    if not count:
        # Only empty places can be added, whose score is 0.
        lengths = range(length, min(length + growth, LIST_LENGTH) + 1)
        spreads = [find_spread(scores, each) for each in lengths]
        return min(spreads), max(spreads)
    # A deviation is at most half of the range (Popoviciu). A full list only loses its last scores.
    is_full = min(len(scores), length) >= LIST_LENGTH
    return 0.0, (highest - (float(scores[LIST_LENGTH - 1]) if is_full else lowest)) / 2


class _Bounds(NamedTuple):
    """A fused score now, and its bounds at the end."""

    now: float = 0.0
    least: float = 0.0
    most: float = 0.0


class _Fusion:
    """The fused scores with certain weights.

    Attributes:
        bounds: The bounds of the score of each ranked artifact.
        newcomer: The largest score that an artifact of a pending source can get.
    """

    def __init__(
        self,
        channels: Mapping[Mode, ChannelRankings],
        pending: Sequence[Mapping[Mode, PendingBound]],
        search: SearchQuery,
        weights: Mapping[Mode, float],
    ) -> None:
        self._search, self._is_lone, self._weights = search, len(channels) == 1, weights
        rankings = {kind: channel.rankings[0] for kind, channel in channels.items()}
        highest = rankings["lexical"].max_score if search.fusion == "scores" and "lexical" in rankings else None
        self._highest = highest if highest is not None and math.isfinite(highest) else None
        self.bounds: dict[_Key, _Bounds] = {}
        firsts: list[list[float]] = [[] for _ in pending]
        for kind, ranking in rankings.items():
            limits = [each[kind] for each in pending if each[kind].count]
            pairs = zip(cast("Sequence[_Key]", ranking.artifact_ids), ranking.scores.tolist(), strict=True)
            for rank, (key, score) in enumerate(pairs, start=1):
                known, share = self.bounds.get(key, _Bounds()), self._find_bounds(kind, rank, score, limits)
                self.bounds[key] = _Bounds(*(a + b for a, b in zip(known, share, strict=True)))
            for own, each in zip(firsts, pending, strict=True):
                if each[kind].count:
                    rank = 1 + int((ranking.scores > each[kind].score).sum())
                    own.append(self._add(kind, rank, each[kind].score))
        self.newcomer = max((sum(own) for own in firsts if own), default=-math.inf)

    def stays_above(self, upper: _Key, lower: _Key) -> bool:
        """Return whether an artifact stays above another one that the same sources have found."""
        above, below = self.bounds[upper], self.bounds[lower]
        # Scores that cannot change keep their order, also if they are equal.
        are_fixed = above.least == above.most and below.least == below.most
        return _exceeds(above.least, below.most) or (are_fixed and above.now >= below.now)

    def _find_bounds(self, kind: Mode, rank: int, score: float, limits: Sequence[PendingBound]) -> _Bounds:
        """Return what a channel adds to the score of an artifact."""
        now = self._add(kind, rank, score)
        if self._is_lone:
            return _Bounds(now, now, now)
        # Artifacts of pending sources may be inserted before this one.
        rank += sum(limit.count for limit in limits if limit.score >= score)
        # At the end of the ranking it may fall out, and then adds nothing.
        if rank > self._search.list_depth:
            return _Bounds(now, min(now, 0.0), max(now, 0.0))
        return _Bounds(now, self._add(kind, rank, score), now)

    def _add(self, kind: Mode, rank: int, score: float) -> float:
        if self._is_lone:
            return score
        if not self._search.adds_scores:
            return self._weights[kind] / (self._search.rank_constant + rank)
        alpha = self._search.alpha or 0.0
        return alpha * score if kind == "dense" else (1 - alpha) * self._scale_words(score)

    def _scale_words(self, score: float) -> float:
        """Return a BM25 score in the range 0 to 1."""
        if self._highest is None:
            return score / (score + self._search.bm25_sat_k) if math.isfinite(score) else 1.0
        return min(score / self._highest, 1.0) if self._highest else 0.0
