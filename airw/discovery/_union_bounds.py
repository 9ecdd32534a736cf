"""Final places: the hits of a union that no pending source can move.

A pending source has counted its words before it answers, so the best that it can do is known: a cosine of at most 1, a
BM25 score of at most what a record full of its rarest words would get, and no more artifacts than it has records. A
place is final if no answer within these bounds can change it. The idea is that of the threshold algorithms (Fagin,
Lotem and Naor, "Optimal aggregation algorithms for middleware", 2003): stop when bounds prove the answer. Here each
place is proven on its own.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.retrieval import Mode, SearchQuery
from airw.retrieval.balance import LIST_LENGTH, find_spread, rank_shares, share_weights
from airw.retrieval.merging import ChannelRankings
from airw.values import Ranking, SearchHit, TermCounts

_Key: TypeAlias = tuple[str | None, str]

_MAX_COSINE = 1 + 1e-6  # float32 vectors are of unit length up to rounding
_MARGIN = 1 + 1e-12  # sums of the same numbers in another order differ by less


@dataclass(frozen=True, slots=True)
class PendingBound:
    """The best that the artifacts of a pending source can do in one channel.

    Args:
        score: The largest score.
        count: The largest number of artifacts that it can rank.
    """

    score: float
    count: int


@dataclass(frozen=True, slots=True)
class _Share:
    """The part of a fused score that one channel adds, now and at least at the end."""

    rank: int
    now: float
    least: float


class _Total(NamedTuple):
    """A fused score now, and its bounds at the end."""

    now: float
    least: float
    most: float
    is_fixed: bool

    @classmethod
    def of(cls, shares: Collection[_Share]) -> Self:
        """Return the sum of the parts that the channels add."""
        return cls(
            sum(share.now for share in shares),
            sum(share.least for share in shares),
            # A negative share may disappear.
            sum(max(share.now, share.least) for share in shares),
            all(share.least == share.now for share in shares),
        )


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
    extremes = extreme_weights(channels, pending, search)
    fusions = [_Fusion(channels, pending, search, weights) for weights in extremes]
    return [_is_final((hit.source, hit.artifact_id), fusions) for hit in hits]


def _is_final(key: _Key, fusions: Sequence["_Fusion"]) -> bool:
    """Return whether an artifact keeps its place with all these weights."""
    return all(fusion.is_above_newcomers(key) for fusion in fusions) and all(
        all(fusion.stays_above(key, other) for fusion in fusions)
        or all(fusion.stays_above(other, key) for fusion in fusions)
        for other in fusions[0].shares
        if other != key
    )


def extreme_weights(
    channels: Mapping[Mode, ChannelRankings], pending: Sequence[Mapping[Mode, PendingBound]], search: SearchQuery
) -> list[Mapping[Mode, float]]:
    """Return the weights of the channels that pending sources can lead to: the extreme ones.

    With `"ranks"`, the weights depend on the scores of the lists; see `airw.retrieval.balance`.

    Args:
        channels: The ranking in each channel.
        pending: The bounds of each pending source.
        search: The search.
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


class _Fusion:
    """The fused scores of all ranked artifacts, and their bounds."""

    def __init__(
        self,
        channels: Mapping[Mode, ChannelRankings],
        pending: Sequence[Mapping[Mode, PendingBound]],
        search: SearchQuery,
        weights: Mapping[Mode, float],
    ) -> None:
        self.search, self.is_lone, self.weights = search, len(channels) == 1, weights
        self.shares: dict[_Key, dict[Mode, _Share]] = {}
        rankings = {kind: channel.rankings[0] for kind, channel in channels.items()}
        highest = rankings["lexical"].max_score if search.fusion == "scores" and "lexical" in rankings else None
        self.highest = highest if highest is not None and math.isfinite(highest) else None
        for channel, ranking in rankings.items():
            bounds = [bound[channel] for bound in pending]
            pairs = zip(ranking.artifact_ids, ranking.scores.tolist(), strict=True)
            for rank, (key, score) in enumerate(pairs, start=1):
                share = self._share(channel, rank, score, bounds)
                self.shares.setdefault(_as_key(key), {})[channel] = share
        self.totals = {key: _Total.of(shares.values()) for key, shares in self.shares.items()}
        self.newcomer = max((self._best_newcomer(rankings, bound) for bound in pending), default=-math.inf)

    def is_above_newcomers(self, key: _Key) -> bool:
        """Return whether an artifact stays above all artifacts of pending sources."""
        return _exceeds(self.totals[key].least, self.newcomer)

    def stays_above(self, upper: _Key, lower: _Key) -> bool:
        """Return whether an artifact stays above another one that the same sources have found."""
        above, below = self.totals[upper], self.totals[lower]
        if _exceeds(above.least, below.most):
            return True
        # Scores that cannot change keep their order, also if they are equal.
        if above.is_fixed and below.is_fixed:
            return above.now >= below.now
        # Insertions keep the order within a channel: who is ahead in all of them stays ahead.
        ahead, behind = self.shares[upper], self.shares[lower]
        by_rank = not self.is_lone and not self.search.adds_scores
        return by_rank and all(
            channel in ahead and ahead[channel].rank < share.rank for channel, share in behind.items()
        )

    def _share(self, channel: Mode, rank: int, score: float, bounds: Sequence[PendingBound]) -> _Share:
        """Return what a channel adds to the score of an artifact."""
        # Artifacts of pending sources may be inserted before this one.
        shift = sum(bound.count for bound in bounds if bound.count and bound.score >= score)
        now = self._add(channel, rank, score)
        if self.is_lone:
            return _Share(rank, now, now)
        # At the end of the ranking it may fall out, and then adds nothing.
        if rank + shift > self.search.list_depth:
            return _Share(rank, now, min(now, 0.0))
        return _Share(rank, now, self._add(channel, rank + shift, score))

    def _add(self, channel: Mode, rank: int, score: float) -> float:
        if self.is_lone:
            return score
        if not self.search.adds_scores:
            return self.weights[channel] / (self.search.rank_constant + rank)
        alpha = self.search.alpha or 0.0
        return alpha * score if channel == "dense" else (1 - alpha) * self._scale_words(score)

    def _scale_words(self, score: float) -> float:
        """Return a BM25 score in the range 0 to 1."""
        if self.highest is None:
            return score / (score + self.search.bm25_sat_k) if math.isfinite(score) else 1.0
        return min(score / self.highest, 1.0) if self.highest else 0.0

    def _best_newcomer(self, rankings: Mapping[Mode, Ranking], bounds: Mapping[Mode, PendingBound]) -> float:
        """Return the largest fused score that an artifact of a pending source can get."""
        shares = []
        for channel, ranking in rankings.items():
            bound = bounds[channel]
            if bound.count:
                rank = 1 + int((ranking.scores > bound.score).sum())
                shares.append(self._add(channel, rank, bound.score))
        return sum(shares) if shares else -math.inf


def _as_key(ref: Any) -> _Key:
    return ref[0], ref[1]


def _exceeds(score: float, bound: float) -> bool:
    """Return whether a score is above a bound by more than the rounding error of sums."""
    return score > bound * _MARGIN if bound > 0 else score > bound
