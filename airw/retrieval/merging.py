"""From the rankings of channels to one ranking: fused, weighted, collapsed to artifacts; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from airw.retrieval.fusion import fuse_ranks
from airw.retrieval.query import SearchQuery
from airw.values import Ranking, Record


class Candidate(NamedTuple):
    """A record that was ranked, its score, and the scores it had before, by the name that a hit tells them under."""

    record_id: str
    artifact_id: str
    score: float
    before: Mapping[str, float]


class RankedRecord(NamedTuple):
    """A candidate that was read."""

    record: Record
    candidate: Candidate


class _Keyed(NamedTuple):
    """A ranking with what is ranked in it: artifacts or records."""

    channel: str
    keys: Sequence[str]
    ranking: Ranking


def merge_rankings(rankings: Sequence[Sequence[Ranking]], query: SearchQuery, limit: int | None) -> list[Candidate]:
    """Merge the rankings of each channel, one a query, into the `limit` best candidates, best first.

    A lone ranking keeps its scores. Otherwise what is ranked, artifacts or records, is fused; the record of an artifact
    is the one of the ranking where it stands highest, the earlier one on a tie.
    """
    keyed = [
        [_keyed(channel, ranking, query) for channel, ranking in zip(query.channels, of_query, strict=True)]
        for of_query in zip(*rankings, strict=True)
    ]
    flat = [each for of_query in keyed for each in of_query]
    if len(flat) == 1:
        return list(_candidates(flat[0].ranking))[:limit]
    places, before = _places(flat), _before(flat)
    return [Candidate(*places[key][1:], score, before[key]) for key, score in _fused(keyed, query)[:limit]]


def _keyed(channel: str, ranking: Ranking, query: SearchQuery) -> _Keyed:
    return _Keyed(channel, ranking.artifact_ids if query.ranks_artifacts else ranking.record_ids, ranking)


def _candidates(ranking: Ranking) -> Iterator[Candidate]:
    for record_id, artifact_id, score in zip(
        ranking.record_ids, ranking.artifact_ids, ranking.scores.tolist(), strict=True
    ):
        yield Candidate(record_id, artifact_id, score, {})


def _places(rankings: Sequence[_Keyed]) -> dict[str, tuple[int, str, str]]:
    """Give for each key the rank, the record and the artifact where it stands highest."""
    places: dict[str, tuple[int, str, str]] = {}
    for _, keys, ranking in rankings:
        for rank, key in enumerate(keys):
            if key not in places or rank < places[key][0]:
                places[key] = (rank, ranking.record_ids[rank], ranking.artifact_ids[rank])
    return places


def _before(rankings: Sequence[_Keyed]) -> dict[str, dict[str, float]]:
    """Give for each key the best score that each channel gave it."""
    before: dict[str, dict[str, float]] = {}
    for channel, keys, ranking in rankings:
        name = f"{channel}_score"
        for key, score in zip(keys, ranking.scores.tolist(), strict=True):
            given = before.setdefault(key, {})
            given[name] = max(score, given.get(name, score))
    return before


def _fused(keyed: Sequence[Sequence[_Keyed]], query: SearchQuery) -> list[tuple[str, float]]:
    """Give `(key, score)` pairs, best first: blended scores, or masses, as the mean over several queries."""
    if query.mode == "hybrid" and query.fusion == "blend":
        blends = [_blended(of_query, query) for of_query in keyed]
        if len(blends) == 1:
            return blends[0]
        lists: list[Sequence[str]] = [[key for key, _ in blend] for blend in blends]
    else:
        lists = [each.keys for of_query in keyed for each in of_query]
    masses = fuse_ranks(lists, rrf_k=query.rrf_k)
    return masses if len(keyed) == 1 else [(key, mass / len(keyed)) for key, mass in masses]


def _blended(of_query: Sequence[_Keyed], query: SearchQuery) -> list[tuple[str, float]]:
    """Add up what both channels gave, which are dense and lexical; ties in order of first appearance."""
    dense, lexical = (dict(zip(each.keys, each.ranking.scores.tolist(), strict=True)) for each in of_query)
    alpha, level = query.alpha, query.bm25_sat_k
    blend = {
        key: alpha * dense.get(key, 0.0) + (1 - alpha) * _saturated(lexical.get(key, 0.0), level)
        for key in [*dense, *lexical]
    }
    return sorted(blend.items(), key=lambda pair: -pair[1])


def _saturated(score: float, level: float) -> float:
    return score / (score + level)


def apply_weights(found: Sequence[RankedRecord], query: SearchQuery) -> list[RankedRecord]:
    """Multiply scores by the weights of the surfaces' kinds, best first; ties stay in order.

    Where artifacts are what is asked for, each is there once.
    """
    weights = query.surface_weights or {}
    moved = [
        RankedRecord(record, candidate._replace(score=candidate.score * weights.get(record.surface_kind, 1.0)))
        for record, candidate in found
    ]
    moved.sort(key=lambda each: -each.candidate.score)
    if not query.per_artifact:
        return moved
    best: dict[str, RankedRecord] = {}
    for each in moved:
        best.setdefault(each.record.artifact_id, each)
    return list(best.values())


def was_cut_short(ranking: Ranking, depth: int, k: int) -> bool:
    """Say whether a ranking of records was cut before it held `k` artifacts."""
    return len(ranking) == depth and len(set(ranking.artifact_ids)) < k


def append_artifacts(ranking: Ranking, artifacts: Ranking) -> Ranking:
    """Put the artifacts that a ranking of records lacks behind it, each by its best record.

    They belong there: an artifact above the cut would have its best record in the ranking.
    """
    known = set(ranking.artifact_ids)
    rows = [at for at, artifact_id in enumerate(artifacts.artifact_ids) if artifact_id not in known]
    return Ranking(
        [*ranking.record_ids, *(artifacts.record_ids[at] for at in rows)],
        [*ranking.artifact_ids, *(artifacts.artifact_ids[at] for at in rows)],
        np.concatenate([ranking.scores, artifacts.scores[rows]]),
    )
