"""What every policy whose nodes are artifacts shares: the query's vector, scores by best surface, hits, seeding."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from airw.fusion import fuse_ranks
from airw.protocols import OpenCorpus
from airw.retrieval import Mode, channel_rankings, channels_of, check_corpus, embedded, hybrid_depth
from airw.values import Edge, Floats, NDArray, SearchHit
from airw.walk import Entry, WalkState


class ArtifactNode(NamedTuple):
    """An artifact on the frontier, and the edge it was reached by."""

    id: str
    edge: Edge | None = None


async def query_vector(state: WalkState, corpus: OpenCorpus) -> Floats:
    """Embed the query, once a walk: `(dim,) float32`."""
    if "query_vector" not in state.cache:
        state.cache["query_vector"] = (await embedded(check_corpus(corpus), state.query))[0]
    query: Floats = state.cache["query_vector"]
    return query


async def seed_artifacts(
    state: WalkState, corpus: OpenCorpus, *, k: int, seeding: Mode, roots: Sequence[str]
) -> list[ArtifactNode]:
    """Give the `k` artifacts that a search finds, best first, then the given roots."""
    found = await _search(state, corpus, k, seeding) if k else []
    return [ArtifactNode(id) for id in dict.fromkeys([*found, *roots])]


async def _search(state: WalkState, corpus: OpenCorpus, k: int, mode: Mode) -> list[str]:
    """Find the artifacts that `retrieve` finds; no records are read, and cosines are kept: two store calls fewer."""
    channels, depth = channels_of(mode), hybrid_depth(k) if mode == "hybrid" else k
    vector = partial(query_vector, state, corpus)
    rankings = await channel_rankings(check_corpus(corpus), channels, state.query, vector, depth, per_artifact=True)
    for channel, ranking in zip(channels, rankings, strict=True):
        if channel == "dense":
            best = zip(ranking.record_ids, ranking.scores.tolist(), strict=True)
            _best(state).update(zip(ranking.artifact_ids, best, strict=True))
    return [id for id, _ in fuse_ranks([ranking.artifact_ids for ranking in rankings])[:k]]


async def score_artifacts(state: WalkState, ids: Sequence[str], corpus: OpenCorpus) -> NDArray[np.float64]:
    """Give each artifact the cosine of its best surface, `-inf` where it has none, and remember that surface."""
    query, best = await query_vector(state, corpus), _best(state)
    new = [id for id in ids if id not in best]
    if new:
        records, cosines = await corpus.store.best_of(query, new)
        scores = np.nan_to_num(cosines.astype(np.float64), nan=-np.inf, neginf=-np.inf)
        best.update(zip(new, zip(records, scores.tolist(), strict=True), strict=True))
    return np.array([best[id][1] for id in ids])


def _best(state: WalkState) -> dict[Any, tuple[str | None, float]]:
    """Give what is known of artifacts: the record of each one's best surface, and its cosine."""
    best: dict[Any, tuple[str | None, float]] = state.cache.setdefault("best", {})
    return best


async def artifact_hits(state: WalkState, committed: Sequence[Entry], corpus: OpenCorpus) -> list[SearchHit | None]:
    """Give for each artifact its best surface as a hit; `None` for artifacts without surfaces."""
    wanted = [_best(state)[entry.id][0] for entry in committed]
    read = await corpus.store.get_records([id for id in wanted if id is not None])
    records = {record.id: record for record in read if record is not None}
    found = [records.get(id) if id is not None else None for id in wanted]
    pairs = zip(committed, found, strict=True)
    return [None if record is None else record.as_hit(entry.score, corpus.name) for entry, record in pairs]
