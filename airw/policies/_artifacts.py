"""What every policy whose nodes are artifacts shares: the query's vector, scores by best surface, hits, seeding."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from airw.protocols import OpenCorpus
from airw.retrieval import Mode, check_corpus, retrieve
from airw.values import Edge, Floats, NDArray, SearchHit
from airw.walk import Entry, WalkState


class ArtifactNode(NamedTuple):
    """An artifact on the frontier, and the edge it was reached by."""

    id: str
    edge: Edge | None = None


async def query_vector(state: WalkState, corpus: OpenCorpus) -> Floats:
    """Embed the query, once a walk: `(dim,) float32`."""
    if "query_vector" not in state.cache:
        state.cache["query_vector"] = await check_corpus(corpus).embedder.embed_query(state.query)
    vector: Floats = state.cache["query_vector"]
    return vector


async def seed_artifacts(
    state: WalkState, corpus: OpenCorpus, *, k: int, seeding: Mode, roots: Sequence[str]
) -> list[ArtifactNode]:
    """Give the `k` artifacts that a search finds, best first, then the given roots."""
    found = await retrieve(corpus, state.query, k=k, mode=seeding) if k else []
    return [ArtifactNode(id) for id in dict.fromkeys([*(hit.artifact_id for hit in found), *roots])]


async def score_artifacts(state: WalkState, ids: Sequence[str], corpus: OpenCorpus) -> NDArray[np.float64]:
    """Give each artifact the cosine of its best surface, `-inf` where it has none, and remember that surface."""
    query = await query_vector(state, corpus)
    records, scores = await corpus.store.best_of(query, ids)
    state.cache.setdefault("best_record", {}).update(zip(ids, records, strict=True))
    return np.nan_to_num(scores.astype(np.float64), nan=-np.inf, neginf=-np.inf)


async def artifact_hits(state: WalkState, committed: Sequence[Entry], corpus: OpenCorpus) -> list[SearchHit | None]:
    """Give for each artifact its best surface as a hit; `None` for artifacts without surfaces."""
    best: dict[Any, str | None] = state.cache["best_record"]
    wanted = [best[entry.id] for entry in committed]
    read = await corpus.store.get_records([id for id in wanted if id is not None])
    records = {record.id: record for record in read if record is not None}
    found = [records.get(id) if id is not None else None for id in wanted]
    pairs = zip(committed, found, strict=True)
    return [None if record is None else record.as_hit(entry.score, corpus.name) for entry, record in pairs]
