"""Merge the rankings of the channels into one: fuse, weight, collapse to artifacts.

Two fusions weigh the channels anew for each query. Both need them on one scale, that of `airw.retrieval.balance`: a
cosine as it is, and a BM25 score as its share of the highest one that the query allows.

- `"scores"` adds these numbers, so a channel whose scores hardly differ decides little.
- `"ranks"` adds reciprocal ranks, and a rank counts as much as the scores of its channel differ.

Nothing here does I/O.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import consume_in_slices, empty_in_slices, iterate_slices, sort_in_slices
from airw.retrieval.balance import rank_shares, weigh_channels
from airw.retrieval.fusion import fuse_ranks
from airw.retrieval.query import Mode, SearchQuery
from airw.values import Ranking, Record


class Candidate(NamedTuple):
    """A ranked record that is not read yet, and its score.

    `earlier_scores` are the scores of earlier stages, by their name in the metadata of a hit.
    """

    record_id: str
    artifact_id: str
    score: float
    earlier_scores: Mapping[str, float]


class RankedRecord(NamedTuple):
    """A candidate whose record is read."""

    record: Record
    artifact_id: str
    score: float
    earlier_scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ChannelRankings:
    """What one channel has ranked.

    Usually a search has one dense and one lexical channel. A search in several corpora may have several of a kind:
    cosines of two embedders cannot be compared, so each embedder is a channel of its own.

    Args:
        kind: `"dense"` or `"lexical"`.
        rankings: One ranking a query.
        weight: The factor of its ranks in a fusion by rank. With `"ranks"`, the query decides, too.
    """

    kind: Mode
    rankings: Sequence[Ranking]
    weight: float = 1.0


ArtifactWeight: TypeAlias = Callable[[Any], float]
"""Returns the factor of the score of an artifact."""


class _KeyedRanking(NamedTuple):
    """A ranking, and the rank of each key that it is merged by: an artifact id or a record id.

    Rankings of the same query and of channels of one kind have the same `slot`. With `"scores"`, BM25 scores are also
    there as shares of the highest possible one, if it is known.
    """

    slot: int
    kind: Mode
    weight: float
    ranking: Ranking
    scores: Sequence[float]
    shares: NDArray[np.float64] | None
    ranks: dict[str, int]


def merge_rankings(
    channels: Sequence[ChannelRankings],
    query: SearchQuery,
    limit: int | None,
    weigh: ArtifactWeight | None = None,
    *,
    needs_evidence: bool = False,
) -> list[Candidate]:
    """Merge the rankings of all channels and queries.

    A lone ranking keeps its scores; otherwise the artifacts, or the records, are fused. A fused artifact is represented
    by its record in the ranking that ranks it highest, the earlier ranking on a tie.

    Args:
        channels: The rankings of each channel.
        query: The search.
        limit: Return at most this many candidates; `None` returns all.
        weigh: Returns the factor of the score of each artifact. The scores are then fused even if there is only one
            ranking, because a factor means something else for a negative cosine.
        needs_evidence: Whether a hybrid search leaves out what has no word of the query and a cosine of 0.

    Returns:
        Candidates, best first. Equal scores are in the order of first appearance: dense rankings come before lexical
        ones. If channels of one kind have ranked two artifacts alike, the larger BM25 score, the larger cosine and then
        the smaller id come first.
    """
    if not channels:  # all sources of a union have failed
        return []
    n_queries = len(channels[0].rankings)
    # A single ranking needs no fusion: its scores stay cosines or BM25 scores.
    if len(channels) == n_queries == 1 and weigh is None:
        lone = channels[0].rankings[0]
        columns = zip(lone.record_ids, lone.artifact_ids, lone.scores.tolist(), strict=True)
        return [Candidate(*row, {}) for row in islice(columns, limit)]
    by_query = [_key_rankings(channels, row, query) for row in range(n_queries)]
    every = [*chain(*by_query)]
    fused, known = _fuse(by_query, query), _KeyedRankings(every, query)
    if weigh is not None:
        fused = [(key, score * weigh(known.describe(key, score).artifact_id)) for key, score in fused]
    # First appearance already orders the ties, unless channels of one kind have equal ranks.
    if weigh is not None or len({ranking.slot for ranking in every}) < len(every):
        fused.sort(key=lambda pair: (-pair[1], *known.order_ties(pair[0])))
    merged: Iterator[Candidate] = (known.describe(key, score) for key, score in consume_in_slices(fused))
    if needs_evidence and query.mode == "hybrid":
        merged = filter(_has_evidence, merged)
    candidates = [*islice(merged, limit)]
    empty_in_slices(*(ranking.ranks for ranking in every))
    return candidates


def _has_evidence(candidate: Candidate) -> bool:
    scores = candidate.earlier_scores
    return "lexical_score" in scores or bool(scores.get("dense_score"))


def _key_rankings(channels: Sequence[ChannelRankings], row: int, query: SearchQuery) -> list[_KeyedRanking]:
    """Return the ranking of each channel for one query, dense channels first."""
    ordered = sorted(channels, key=lambda channel: query.channels.index(channel.kind))
    weights = [channel.weight for channel in ordered]
    if query.fusion == "ranks":
        weights = weigh_channels([(channel.kind, channel.rankings[row]) for channel in ordered], weights)
    keyed = []
    for channel, weight in zip(ordered, weights, strict=True):
        ranking, ranks = channel.rankings[row], dict[str, int]()
        for part in iterate_slices(enumerate(ranking.artifact_ids if query.ranks_artifacts else ranking.record_ids)):
            for rank, key in part:
                ranks.setdefault(key, rank)
        slot = row * len(query.channels) + query.channels.index(channel.kind)
        shares = rank_shares(ranking) if channel.kind == "lexical" and query.fusion == "scores" else None
        keyed.append(_KeyedRanking(slot, channel.kind, weight, ranking, ranking.scores.tolist(), shares, ranks))
    return keyed


class _KeyedRankings:
    """Where the rankings list each key, and with which scores.

    Args:
        rankings: The rankings.
        query: The search.
    """

    def __init__(self, rankings: Sequence[_KeyedRanking], query: SearchQuery) -> None:
        self._rankings = rankings
        rows = [(number, f"{ranking.kind}_score", ranking) for number, ranking in enumerate(rankings)]
        self._by_kind = sorted(rows, key=itemgetter(1))
        self._weights: dict[str, float] = {}
        # Several channels of a kind have several weights.
        kinds = {ranking.kind for ranking in rankings}
        if query.mode == "hybrid" and query.fusion == "ranks" and len(kinds) == len(rankings):
            self._weights = {f"{ranking.kind}_weight": ranking.weight for ranking in rankings}
        # Several queries have several shares.
        self._has_shares = query.adds_scores and rankings[-1].slot < len(query.channels)

    def describe(self, key: str, score: float) -> Candidate:
        """Return the record that represents a key, with the best score of each kind."""
        scores: dict[str, float] = {}
        share, best, count = None, math.inf, len(self._by_kind)
        for number, name, ranking in self._by_kind:
            rank = ranking.ranks.get(key)
            if rank is None:
                continue
            best = min(best, rank * count + number)
            own = ranking.scores[rank]
            scores[name] = max(own, scores.get(name, own))
            if ranking.shares is not None and self._has_shares:
                share = float(ranking.shares[rank])
        if share is not None:
            scores["lexical_share"] = share
        if self._weights:
            scores.update(self._weights)
        rank, number = divmod(int(best), count)
        chosen = self._rankings[number].ranking
        return Candidate(chosen.record_ids[rank], chosen.artifact_ids[rank], score, scores)

    def order_ties(self, key: str) -> tuple[object, ...]:
        """Return what orders keys of equal scores: the first place, the better scores, the key."""
        first = next((each.slot, each.ranks[key]) for each in self._rankings if key in each.ranks)
        scores = self.describe(key, 0.0).earlier_scores
        return first, -scores.get("lexical_score", 0.0), -scores.get("dense_score", 0.0), key


def _fuse(by_query: Sequence[Sequence[_KeyedRanking]], query: SearchQuery) -> list[tuple[str, float]]:
    """Return `(key, score)` pairs, best first.

    The score is the blended score, or the RRF score. Over several queries it is the mean of the RRF scores.
    """
    if query.adds_scores:
        blends = [_blend(query_rankings, query) for query_rankings in by_query]
        if len(blends) == 1:
            return blends[0]
        # Blended scores of different queries are not comparable, so several queries are fused by rank.
        key_lists: list[Sequence[str]] = [[key for key, _ in blend] for blend in blends]
        weights = [1.0] * len(blends)
    else:
        every = [*chain(*by_query)]
        key_lists, weights = [[*ranking.ranks] for ranking in every], [ranking.weight for ranking in every]
    fused = fuse_ranks(key_lists, rrf_k=query.rank_constant, weights=weights)
    return fused if len(by_query) == 1 else [(key, score / len(by_query)) for key, score in fused]


def _blend(query_rankings: Sequence[_KeyedRanking], query: SearchQuery) -> list[tuple[str, float]]:
    """Add the weighted scores of both channels; ties in order of first appearance."""
    total: dict[str, float] = {}
    # A channel that did not rank a key counts 0 for it.
    for ranking in query_rankings:
        share, scores = query.alpha or 0.0, ranking.scores
        if ranking.kind == "lexical":
            # BM25 scores in the range 0 to 1 can be added to cosines.
            words, shares = ranking.ranking.scores, ranking.shares
            share, scores = 1 - share, (words / (words + query.bm25_sat_k) if shares is None else shares).tolist()
        for part in iterate_slices(ranking.ranks.items()):
            for key, rank in part:
                total[key] = total.get(key, 0.0) + share * scores[rank]
    return sort_in_slices(consume_in_slices([*total.items()]), key=lambda pair: -pair[1])


def apply_weights(ranked: Sequence[RankedRecord], query: SearchQuery) -> list[RankedRecord]:
    """Multiply each score by the weight of its surface kind and sort, best first.

    Ties stay in order. If the search is for artifacts, only the best record of each artifact remains.
    """
    weights = query.surface_weights or {}
    weighted = [item._replace(score=item.score * weights.get(item.record.surface_kind, 1.0)) for item in ranked]
    weighted.sort(key=lambda item: -item.score)
    if not query.per_artifact:
        return weighted
    best: dict[str, RankedRecord] = {}
    for item in weighted:
        best.setdefault(item.artifact_id, item)
    return list(best.values())


def extends_rankings(query: SearchQuery) -> bool:
    """Return whether a search for artifacts ranks surfaces.

    A long artifact may then fill a ranking.
    """
    return query.per_artifact and not query.ranks_artifacts


def was_cut_short(ranking: Ranking, depth: int, k: int) -> bool:
    """Return whether a ranking of records ends at `depth` before it contains `k` artifacts."""
    return len(ranking) == depth and len({*ranking.artifact_ids}) < k


def append_artifacts(ranking: Ranking, artifacts: Ranking) -> Ranking:
    """Append the artifacts that a ranking of records lacks, each by its best record.

    They belong at the end: the best record of any artifact above the cut is in the ranking already.

    Args:
        ranking: The ranking of records.
        artifacts: A ranking of artifacts; of each, the first row counts.
    """
    ranked_ids, rows = set(ranking.artifact_ids), list[int]()
    for row, artifact_id in enumerate(artifacts.artifact_ids):
        if artifact_id not in ranked_ids:
            ranked_ids.add(artifact_id)
            rows.append(row)
    return Ranking(
        [*ranking.record_ids, *(artifacts.record_ids[row] for row in rows)],
        [*ranking.artifact_ids, *(artifacts.artifact_ids[row] for row in rows)],
        np.concatenate([ranking.scores, artifacts.scores[rows]]),
        ranking.max_score,
    )


def cut_ranking(ranking: Ranking, depth: int, query: SearchQuery) -> Ranking:
    """Return the `depth` best rows of a ranking.

    In a weighted search for artifacts, there are at least `k` artifacts, if so many are ranked.

    Args:
        ranking: A ranking that is as long or longer, as `rank_channels` makes it.
        depth: The number of rows.
        query: The search.
    """
    best = ranking.first(depth)
    lacking = query.k - len({*best.artifact_ids}) if extends_rankings(query) else 0
    return append_artifacts(best, ranking).first(len(best) + lacking) if lacking > 0 else best
