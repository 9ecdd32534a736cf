"""Final places: the hits of a union that no pending source can move.

A pending source has counted its words before it answers, so the best that it can do is known: a cosine of at most 1, a
BM25 score of at most what a record full of its rarest words would get, and no more artifacts than it has records. A
place is final if no answer within these bounds can change it. The idea is that of the threshold algorithms (Fagin,
Lotem and Naor, "Optimal aggregation algorithms for middleware", 2003): stop when bounds prove the answer. Here each
place is proven on its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airw.retrieval import Mode, SearchQuery
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
    fusion = _Fusion(channels, pending, search)
    return [fusion.is_final((hit.source, hit.artifact_id)) for hit in hits]


class _Fusion:
    """The fused scores of all ranked artifacts, and their bounds."""

    def __init__(
        self,
        channels: Mapping[Mode, ChannelRankings],
        pending: Sequence[Mapping[Mode, PendingBound]],
        search: SearchQuery,
    ) -> None:
        self.search, self.is_lone = search, len(channels) == 1
        self.weights = {kind: channel.weight for kind, channel in channels.items()}
        self.shares: dict[_Key, dict[Mode, _Share]] = {}
        rankings = {kind: channel.rankings[0] for kind, channel in channels.items()}
        for channel, ranking in rankings.items():
            bounds = [bound[channel] for bound in pending]
            pairs = zip(ranking.artifact_ids, ranking.scores.tolist(), strict=True)
            for rank, (key, score) in enumerate(pairs, start=1):
                share = self._share(channel, rank, score, bounds)
                self.shares.setdefault(_as_key(key), {})[channel] = share
        self.newcomer = max((self._best_newcomer(rankings, bound) for bound in pending), default=-math.inf)

    def is_final(self, key: _Key) -> bool:
        """Return whether an artifact keeps its place."""
        least = self._least(key)
        if not _exceeds(least, self.newcomer):
            return False
        now = self._now(key)
        return all(
            self._stays_above(other, key) if (self._now(other), other) > (now, key) else self._stays_above(key, other)
            for other in self.shares
            if other != key
        )

    def _share(self, channel: Mode, rank: int, score: float, bounds: Sequence[PendingBound]) -> _Share:
        """Return what a channel adds to the score of an artifact."""
        # Artifacts of pending sources may be inserted before this one.
        shift = sum(bound.count for bound in bounds if bound.count and bound.score >= score)
        now = self._add(channel, rank, score)
        if self.is_lone:
            return _Share(rank, now, now)
        # At the end of the ranking it may fall out, and then adds nothing.
        if rank + shift > self.search.depth:
            return _Share(rank, now, min(now, 0.0))
        return _Share(rank, now, self._add(channel, rank + shift, score))

    def _add(self, channel: Mode, rank: int, score: float) -> float:
        if self.is_lone:
            return score
        if self.search.fusion == "rrf":
            return self.weights[channel] / (self.search.rrf_k + rank)
        alpha = self.search.alpha or 0.0
        return alpha * score if channel == "dense" else (1 - alpha) * score / (score + self.search.bm25_sat_k)

    def _best_newcomer(self, rankings: Mapping[Mode, Ranking], bounds: Mapping[Mode, PendingBound]) -> float:
        """Return the largest fused score that an artifact of a pending source can get."""
        shares = []
        for channel, ranking in rankings.items():
            bound = bounds[channel]
            if bound.count:
                rank = 1 + int((ranking.scores > bound.score).sum())
                shares.append(self._add(channel, rank, bound.score))
        return sum(shares) if shares else -math.inf

    def _now(self, key: _Key) -> float:
        return sum(share.now for share in self.shares[key].values())

    def _least(self, key: _Key) -> float:
        return sum(share.least for share in self.shares[key].values())

    def _most(self, key: _Key) -> float:
        # A negative share may disappear.
        return sum(max(share.now, share.least) for share in self.shares[key].values())

    def _is_fixed(self, key: _Key) -> bool:
        return all(share.least == share.now for share in self.shares[key].values())

    def _stays_above(self, upper: _Key, lower: _Key) -> bool:
        """Return whether an artifact stays above another one."""
        if _exceeds(self._least(upper), self._most(lower)):
            return True
        # Scores that cannot change keep their order, also if they are equal.
        if self._is_fixed(upper) and self._is_fixed(lower):
            return True
        # Insertions keep the order within a channel: who is ahead in all of them stays ahead.
        ahead, behind = self.shares[upper], self.shares[lower]
        by_rank = not self.is_lone and self.search.fusion == "rrf"
        return by_rank and all(
            channel in ahead and ahead[channel].rank < share.rank for channel, share in behind.items()
        )


def _as_key(ref: Any) -> _Key:
    return ref[0], ref[1]


def _exceeds(score: float, bound: float) -> bool:
    """Return whether a score is above a bound by more than the rounding error of sums."""
    return score > bound * _MARGIN if bound > 0 else score > bound
