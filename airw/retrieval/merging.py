"""Merge the rankings of the channels into one: fuse, weight, collapse to artifacts.

Two fusions weigh the channels anew for each query. Both need them on one scale, that of `airw.retrieval.balance`: a
cosine as it is, and a BM25 score as its share of the highest one that the query allows.

- `"scores"` adds these numbers, so a channel whose scores hardly differ decides little.
- `"ranks"` adds reciprocal ranks, and a rank counts as much as the scores of its channel differ.

Nothing here does I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import consume_in_slices, empty_in_slices, iterate_slices, sort_in_slices
from airw.retrieval.balance import rank_shares, weigh_channels
from airw.retrieval.fusion import fuse_ranks
from airw.retrieval.query import Mode, SearchQuery
from airw.values import Ranking, Record

_SHORT = 512  # hits of a ranking that are handled at once, because that takes no time


class Candidate(NamedTuple):
    """A ranked record that is not read yet, and its score.

    `earlier_scores` are the scores of earlier stages, by their name in the metadata of a hit.
    """

    record_id: str
    artifact_id: str
    score: float
    earlier_scores: Mapping[str, float]


class RankedRecord(NamedTuple):
    """A candidate together with its record."""

    record: Record
    candidate: Candidate


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
    """A ranking and the keys that it is merged by: artifact ids or record ids.

    Rankings of the same query and of channels of one kind have the same `slot`.
    """

    slot: int
    kind: str
    weight: float
    keys: Sequence[str]
    ranking: Ranking


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
    # Group by query, because a blend adds up the channels of one query before queries are fused.
    by_query = [_key_rankings(channels, row, query) for row in range(len(channels[0].rankings))]
    every = [ranking for query_rankings in by_query for ranking in query_rankings]
    # A single ranking needs no fusion: its scores stay cosines or BM25 scores.
    if len(every) == 1 and weigh is None:
        return list(_to_candidates(every[0].ranking))[:limit]
    best_places = _find_best_places(every)
    channel_scores = _collect_channel_scores(every)
    weights = _explain_weights(every, query) if len(by_query) == 1 else {}
    if query.adds_scores and query.fusion == "scores" and len(by_query) == 1:
        channel_scores |= _collect_shares(every)
    fused = _fuse(by_query, query)

    def find_best(key: str) -> tuple[str, str]:
        rank, number = divmod(best_places[key], len(every))
        return every[number].ranking.record_ids[rank], every[number].ranking.artifact_ids[rank]

    if weigh is not None:
        fused = [(key, score * weigh(find_best(key)[1])) for key, score in fused]
    # First appearance already orders the ties, unless channels of one kind have equal ranks.
    if weigh is not None or len({ranking.slot for ranking in every}) < len(every):
        first_places = _find_first_places(every)
        fused.sort(key=lambda pair: (-pair[1], first_places[pair[0]], _evidence_key(channel_scores, pair[0]), pair[0]))
    words, cosines = channel_scores.get("lexical_score", {}), channel_scores.get("dense_score", {})
    ranked = consume_in_slices(fused)
    if needs_evidence and query.mode == "hybrid":
        ranked = (pair for pair in ranked if pair[0] in words or cosines.get(pair[0]))
    candidates = [
        Candidate(
            *find_best(key), score, {name: each[key] for name, each in channel_scores.items() if key in each} | weights
        )
        for key, score in islice(ranked, limit)
    ]
    empty_in_slices(best_places, *channel_scores.values())
    return candidates


def _key_rankings(channels: Sequence[ChannelRankings], row: int, query: SearchQuery) -> list[_KeyedRanking]:
    """Return the ranking of each channel for one query, dense channels first."""
    ordered = sorted(channels, key=lambda channel: query.channels.index(channel.kind))
    weights = [channel.weight for channel in ordered]
    if query.fusion == "ranks":
        weights = weigh_channels([(channel.kind, channel.rankings[row]) for channel in ordered], weights)
    keyed = []
    for channel, weight in zip(ordered, weights, strict=True):
        ranking = channel.rankings[row]
        slot = row * len(query.channels) + query.channels.index(channel.kind)
        keys = ranking.artifact_ids if query.ranks_artifacts else ranking.record_ids
        keyed.append(_KeyedRanking(slot, channel.kind, weight, keys, ranking))
    return keyed


def _to_candidates(ranking: Ranking) -> Iterator[Candidate]:
    for record_id, artifact_id, score in zip(
        ranking.record_ids, ranking.artifact_ids, ranking.scores.tolist(), strict=True
    ):
        yield Candidate(record_id, artifact_id, score, {})


def _find_best_places(rankings: Sequence[_KeyedRanking]) -> dict[str, int]:
    """Return where each key ranks highest, as one number.

    It is the rank times the number of rankings, plus the number of the ranking. Tuples would take long to release.
    """
    places: dict[str, int] = {}
    count = len(rankings)
    for number, ranking in enumerate(rankings):
        # The first of a short list is done in one call; from its end, so that the best place of a key is set last.
        if not places and len(ranking.keys) <= _SHORT:
            last = (len(ranking.keys) - 1) * count + number
            places.update(zip(reversed(ranking.keys), range(last, -1, -count), strict=True))
            continue
        for part in iterate_slices(enumerate(ranking.keys)):
            for rank, key in part:
                place = rank * count + number
                if place < places.get(key, place + 1):
                    places[key] = place
    return places


def _find_first_places(rankings: Iterable[_KeyedRanking]) -> dict[str, tuple[int, int]]:
    """Return the slot of the first ranking that contains each key, and the rank there."""
    places: dict[str, tuple[int, int]] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking.keys):
            places.setdefault(key, (ranking.slot, rank))
    return places


def _evidence_key(channel_scores: Mapping[str, Mapping[str, float]], key: str) -> tuple[float, float]:
    """Return a sort key that puts the better channel scores of a key first."""
    dense, lexical = (channel_scores.get(f"{kind}_score", {}) for kind in ("dense", "lexical"))
    return -lexical.get(key, 0.0), -dense.get(key, 0.0)


def _collect_channel_scores(rankings: Sequence[_KeyedRanking]) -> dict[str, dict[str, float]]:
    """Return the best `dense_score` and `lexical_score` of each key, by these names."""
    scores_by_name: dict[str, dict[str, float]] = {}
    for _, kind, _, keys, ranking in rankings:
        scores = scores_by_name.setdefault(f"{kind}_score", {})
        if not scores and len(keys) <= _SHORT:
            scores.update(zip(reversed(keys), ranking.scores[::-1].tolist(), strict=True))
            continue
        for part in iterate_slices(zip(keys, ranking.scores.tolist(), strict=True)):
            scores.update((key, max(score, scores.get(key, score))) for key, score in part)
    return scores_by_name


def _explain_weights(rankings: Sequence[_KeyedRanking], query: SearchQuery) -> dict[str, float]:
    """Return the weights of the channels for the metadata of hits.

    There are none if the weights do not depend on the query.
    """
    kinds = [ranking.kind for ranking in rankings]
    # Several channels of a kind have several weights.
    if query.fusion != "ranks" or query.mode != "hybrid" or len(set(kinds)) < len(kinds):
        return {}
    return {f"{ranking.kind}_weight": ranking.weight for ranking in rankings}


def _collect_shares(rankings: Sequence[_KeyedRanking]) -> dict[str, dict[str, float]]:
    """Return the `lexical_share` of each key, by this name."""
    shares: dict[str, float] = {}
    for ranking in rankings:
        if ranking.kind == "lexical" and (scaled := rank_shares(ranking.ranking)) is not None:
            shares.update(zip(ranking.keys, scaled.tolist(), strict=True))
    return {"lexical_share": shares}


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
        key_lists = [ranking.keys for query_rankings in by_query for ranking in query_rankings]
        weights = [ranking.weight for query_rankings in by_query for ranking in query_rankings]
    fused = fuse_ranks(key_lists, rrf_k=query.rank_constant, weights=weights)
    if len(by_query) == 1:
        return fused
    return [(key, score / len(by_query)) for key, score in fused]


def _blend(query_rankings: Sequence[_KeyedRanking], query: SearchQuery) -> list[tuple[str, float]]:
    """Add the weighted scores of both channels; ties in order of first appearance."""
    scores: dict[str, dict[str, float]] = {"dense": {}, "lexical": {}}
    for ranking in query_rankings:
        values = ranking.ranking.scores if ranking.kind == "dense" else scale_words(ranking.ranking, query)
        for part in iterate_slices(zip(ranking.keys, values.tolist(), strict=True)):
            scores[ranking.kind].update(part)
    dense, lexical, alpha = scores["dense"], scores["lexical"], query.alpha or 0.0
    # A channel that did not rank a key counts 0 for it.
    blend = [
        (key, alpha * score + (1 - alpha) * lexical.get(key, 0.0))
        for part in iterate_slices(dense.items())
        for key, score in part
    ]
    blend += [
        (key, (1 - alpha) * score)
        for part in iterate_slices(lexical.items())
        for key, score in part
        if key not in dense
    ]
    empty_in_slices(dense, lexical)
    return sort_in_slices(consume_in_slices(blend), key=lambda pair: -pair[1])


def scale_words(ranking: Ranking, query: SearchQuery) -> NDArray[np.float64]:
    """Return BM25 scores in the range 0 to 1.

    They can be added to cosines then.
    """
    shares = rank_shares(ranking) if query.fusion == "scores" else None
    return ranking.scores / (ranking.scores + query.bm25_sat_k) if shares is None else shares


def apply_weights(ranked: Sequence[RankedRecord], query: SearchQuery) -> list[RankedRecord]:
    """Multiply each score by the weight of its surface kind and sort, best first.

    Ties stay in order. If the search is for artifacts, only the best record of each artifact remains.
    """
    weights = query.surface_weights or {}
    weighted = [
        RankedRecord(record, candidate._replace(score=candidate.score * weights.get(record.surface_kind, 1.0)))
        for record, candidate in ranked
    ]
    weighted.sort(key=lambda item: -item.candidate.score)
    if not query.per_artifact:
        return weighted
    best: dict[str, RankedRecord] = {}
    for item in weighted:
        best.setdefault(item.candidate.artifact_id, item)
    return list(best.values())


def was_cut_short(ranking: Ranking, depth: int, k: int) -> bool:
    """Return whether a ranking of records ends at `depth` before it contains `k` artifacts."""
    return len(ranking) == depth and len(set(ranking.artifact_ids)) < k


def append_artifacts(ranking: Ranking, artifacts: Ranking) -> Ranking:
    """Append the artifacts that a ranking of records lacks, each by its best record.

    They belong at the end: the best record of any artifact above the cut is in the ranking already.
    """
    ranked_ids = set(ranking.artifact_ids)
    rows = [row for row, artifact_id in enumerate(artifacts.artifact_ids) if artifact_id not in ranked_ids]
    return Ranking(
        [*ranking.record_ids, *(artifacts.record_ids[row] for row in rows)],
        [*ranking.artifact_ids, *(artifacts.artifact_ids[row] for row in rows)],
        np.concatenate([ranking.scores, artifacts.scores[rows]]),
        ranking.max_score,
    )
