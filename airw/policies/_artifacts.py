"""What every policy whose nodes are artifacts shares: the query's vector, scores by best surface, records, hits."""

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import in_thread
from airw._base.vectors import exact_scores
from airw.policies.scope import Scope
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus, embedded
from airw.values import Edge, Record, SearchHit
from airw.values.filters import matches
from airw.walking import Entry, Frontier, WalkState

OPEN = Scope()
_MANY = 1 << 20  # numbers, compared with a query in about a millisecond


class ArtifactNode(NamedTuple):
    """An artifact on the frontier, by its id or, of several corpora, by `(source, id)`; and the edge to it."""

    id: Any
    edge: Edge | None = None


class Verdict(NamedTuple):
    """What a scope says of one artifact."""

    start: bool
    cross: bool
    keep: bool


_FREE = Verdict(start=True, cross=True, keep=True)


async def query_vector(state: WalkState, corpus: OpenCorpus) -> Floats:
    """Embed the query, once a walk: `(dim,) float32`."""
    if "query_vector" not in state.cache:
        state.cache["query_vector"] = (await embedded(check_corpus(corpus), state.query))[0]
    query: Floats = state.cache["query_vector"]
    return query


def best_of(state: WalkState) -> dict[Any, tuple[str | None, float]]:
    """Give what is known of artifacts: the record of each one's best surface, and its cosine."""
    best: dict[Any, tuple[str | None, float]] = state.cache.setdefault("best", {})
    return best


def cosines(state: WalkState, ids: Iterable[Any]) -> NDArray[np.float64]:
    """Give the cosines of artifacts that were scored; `-inf` for one without surfaces."""
    best = best_of(state)
    return np.array([best[id][1] for id in ids], np.float64)


async def score_artifacts(state: WalkState, ids: Sequence[str], corpus: OpenCorpus) -> NDArray[np.float64]:
    """Give each artifact the cosine of its best surface, `-inf` where it has none, and remember that surface."""
    query, best = await query_vector(state, corpus), best_of(state)
    new = [id for id in ids if id not in best]
    if new:
        records, scores = await corpus.store.best_of(query, new)
        remember(state, new, records, scores)
    return cosines(state, ids)


def remember(state: WalkState, ids: Sequence[str], records: Sequence[str | None], scores: Floats) -> None:
    """Keep the best surface of each artifact, and its cosine."""
    known = np.where(np.isnan(scores), -np.inf, scores).tolist()
    best_of(state).update(zip(ids, zip(records, known, strict=True), strict=True))


async def best_records(state: WalkState, ids: Sequence[str], corpus: OpenCorpus) -> list[Record | None]:
    """Give the record of each artifact's best surface; those that `keep_records` made the state keep are not read."""
    best, kept = best_of(state), state.cache.get("records", {})
    wanted = [best[id][0] for id in ids]
    new = [id for id in wanted if id is not None and id not in kept]
    read = dict(zip(new, await corpus.store.get_records(new), strict=True)) if new else {}
    kept.update(read)
    return [None if id is None else kept.get(id) for id in wanted]


def keep_records(state: WalkState) -> None:
    """Let the state keep the records that are read: their fields lead on, or decide."""
    state.cache.setdefault("records", {})


async def judge(state: WalkState, ids: Sequence[str], corpus: OpenCorpus, scope: Scope) -> None:
    """Ask a scope about artifacts that were scored; one store call, none where it lets all through."""
    if scope == OPEN:
        return
    verdicts = state.cache.setdefault("verdicts", {})
    filters = (scope.start, scope.cross, scope.keep)
    for id, record in zip(ids, await best_records(state, ids, corpus), strict=True):
        fields = {} if record is None else record.metadata
        verdicts[id] = Verdict(*(matches(each, fields) for each in filters))  # type: ignore[arg-type]


def verdict(state: WalkState, id: Any) -> Verdict:
    """Give what the scope said of an artifact."""
    said: Verdict = state.cache.get("verdicts", {}).get(id, _FREE)
    return said


def are_shut(state: WalkState, ids: Iterable[Any]) -> list[bool]:
    """Say of artifacts whether to pass them over: they may be neither crossed nor kept, or not be started from."""
    is_start = not state.visited
    verdicts = [verdict(state, id) for id in ids]
    return [not (each.cross or each.keep) or (is_start and not each.start) for each in verdicts]


def open_positions(frontier: Frontier, are_shut: Callable[[Sequence[Any]], list[bool]]) -> NDArray[np.intp]:
    """Give the live positions without those just discovered that are to be passed over, which wait no longer."""
    fresh = frontier.fresh
    shut = list(compress(fresh, are_shut(frontier.ids[fresh.start : fresh.stop])))
    if not shut:
        return frontier.live
    frontier.drop(shut)
    return frontier.live[~np.isin(frontier.live, shut)]


def node_of_hit(hit: SearchHit, known: Container[Any]) -> Any:
    """Give the artifact of a hit as the walk knows it: by its id or, of several corpora, by `(source, id)`."""
    return hit.key if hit.key in known else hit.artifact_id


async def artifact_hits(state: WalkState, committed: Sequence[Entry], corpus: OpenCorpus) -> list[SearchHit | None]:
    """Give for each artifact its best surface as a hit; `None` for one without surfaces, or not to be kept."""
    kept = [entry for entry in committed if verdict(state, entry.id).keep]
    records = await best_records(state, [entry.node.id for entry in kept], corpus)
    found = dict(zip((entry.id for entry in kept), records, strict=True))
    pairs = [(entry, found.get(entry.id)) for entry in committed]
    return [None if record is None else record.as_hit(entry.score, corpus.name) for entry, record in pairs]


async def best_vectors(state: WalkState, ids: Sequence[str], corpus: OpenCorpus) -> Floats:
    """Give the vector of each artifact's best surface, `(n, dim) float32`, and remember that surface and its cosine.

    One store call. An artifact without surfaces has the zero vector.
    """
    query = await query_vector(state, corpus)
    records, rows = await corpus.store.vectors_of(ids)
    if rows.size > _MANY:
        places, scores = await in_thread(_best_rows, rows, query, records)
    else:
        places, scores = _best_rows(rows, query, records)
    flat, best, start = [id for each in records for id in each], best_of(state), 0
    for position, (id, owned) in enumerate(zip(ids, records, strict=True)):
        held = best[id][0] if id in best else None
        if held is not None and held in owned:  # the search has chosen
            places[position] = start + owned.index(held)
        start += len(owned)
    chosen = [flat[at] if at >= 0 else None for at in places.tolist()]
    new = [position for position, id in enumerate(ids) if id not in best]
    remember(state, [ids[at] for at in new], [chosen[at] for at in new], scores[new])
    found = np.zeros((len(ids), len(query)), np.float32)
    if len(rows):  # where there are none, they may have no width either
        found[places >= 0] = rows[places[places >= 0]]
    return found


def _best_rows(rows: Floats, query: Floats, owned: Sequence[Sequence[str]]) -> tuple[NDArray[np.intp], Floats]:
    """Give for each owner of rows the place of the best one, the first of equals, and its cosine.

    The rows of an owner lie together; one without rows has the place `-1` and NaN.
    """
    counts = np.array([len(each) for each in owned], np.intp)
    if len(rows) and (counts == 1).all():
        return np.arange(len(owned)), exact_scores(rows, query)
    has_any, starts = counts > 0, np.cumsum(counts) - counts
    places, best = np.full(len(owned), -1, np.intp), np.full(len(owned), np.nan, np.float32)
    if len(rows):
        scores = exact_scores(rows, query)
        order = np.lexsort((-scores, np.repeat(np.arange(len(owned)), counts)))
        places[has_any] = order[starts[has_any]]
        best[has_any] = scores[places[has_any]]
    return places, best
