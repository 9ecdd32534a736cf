"""Running a search in an open corpus: rank in each channel, merge, rescore."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, Unpack, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_number, name_missing_method
from airw._base.concurrency import call_user_function, in_thread, map_bounded, offload_if
from airw._base.messages import short_repr
from airw._base.signatures import shows_options
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import OpenCorpus, Reranker, SearchStore
from airw.protocols.stores import StoreT_co
from airw.reranking import score_texts
from airw.retrieval.merging import (
    Candidate,
    RankedRecord,
    append_artifacts,
    apply_weights,
    merge_rankings,
    was_cut_short,
)
from airw.retrieval.query import SEARCH_DEFAULTS, Boost, Mode, PassageReader, SearchOptions, SearchQuery, queries_of
from airw.retrieval.stitching import stitch
from airw.values import Ranking, Record, SearchHit

Vectors: TypeAlias = Callable[[], Awaitable[Floats]]
"""Gives the vectors of the queries, embedded when first asked for."""

_EMBEDDINGS = 16  # at once
_READERS = 16  # at once
_FEW = 1_000  # candidates, merge_rankings in less than a millisecond


@shows_options(SearchOptions, SEARCH_DEFAULTS)
async def retrieve(corpus: OpenCorpus[SearchStore], query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank the surfaces of an open corpus against a query, as `airw.search` does.

    Args:
        corpus: Anything with a name, a store and an embedder.
        query: What to look for.
        options: Those of `airw.search`, which explains them.

    Raises:
        ArgumentError: A parameter's value cannot be used, or a function gave what cannot.
        FilterError: The filter is malformed.
        EmbedderError: The embedder failed, or does not fit the stored vectors (`EmbedderMismatch`).
        RerankerError: The reranker failed; what it needs is not there (`RerankerUnavailable`).
        StoreError: The store failed.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return [hit.artifact_id for hit in await retrieve(corpus, "signing keys", k=1)]
        >>> anyio.run(main)
        ['a']
    """
    return await run_search(check_corpus(corpus), SearchQuery.parse("retrieve", query, options))


async def formulate_queries(query: SearchQuery) -> tuple[str, ...]:
    """Give the queries to search with: the query's own, or what its formulator makes of it, each once.

    Raises:
        ArgumentError: The formulator gives neither a string nor a list of strings.
    """
    if query.formulate is None:
        return (query.text,)
    return queries_of(await call_user_function(query.formulate, query.text)) or (query.text,)


async def run_search(
    corpus: OpenCorpus[SearchStore], query: SearchQuery, queries: Sequence[str] | None = None
) -> list[SearchHit]:
    """Answer a query as `retrieve` does; `queries`, at least one, are what `formulate_queries` gave where it was asked.

    Raises:
        ArgumentError: The store lacks a method that the search calls.
    """
    if not query.k:
        return []
    with name_missing_method(query.verb, corpus.store):
        found = await _Search(corpus, query, await formulate_queries(query) if queries is None else queries).run()
        if query.rerank is not None:
            found = await _reranked(corpus, query, found, query.rerank)
    if query.boost is not None:
        return (await _boosted(_hits(corpus.name, found), query.boost))[: query.k]
    return _hits(corpus.name, found[: query.k])


def _hits(corpus: str, found: Sequence[RankedRecord]) -> list[SearchHit]:
    hits = [record.as_hit(candidate.score, corpus) for record, candidate in found]
    for hit, (_, candidate) in zip(hits, found, strict=True):
        hit.metadata.update(candidate.before)
    return hits


@dataclass(slots=True)
class _Search:
    """The first stage of one search: rank in each channel, merge, read."""

    corpus: OpenCorpus[SearchStore]
    query: SearchQuery
    queries: Sequence[str]
    vectors: Floats | None = None

    async def run(self) -> list[RankedRecord]:
        """Return the candidates of the second stage; without one, what is found."""
        limit = self.query.depth if self.query.has_second_stage else self.query.k
        found: list[RankedRecord] = []
        # A writer may remove a record between ranking and reading: the answer is then of two states, so ask once more.
        for _ in range(2):
            candidates = await self._candidates(limit)
            records = await self.corpus.store.get_records([candidate.record_id for candidate in candidates])
            pairs = zip(records, candidates, strict=True)
            found = [RankedRecord(record, candidate) for record, candidate in pairs if record is not None]
            if len(found) == len(candidates):
                break
        if not self.query.surface_weights:
            return found
        return (await offload_if(len(found) > _FEW, apply_weights, found, self.query))[:limit]

    async def _candidates(self, limit: int) -> list[Candidate]:
        """Rank in each channel and merge; weights, which need the records, act on everything that was ranked."""
        rankings = await self._rankings()
        count = sum(len(ranking) for of_channel in rankings for ranking in of_channel)
        cut = None if self.query.surface_weights else limit
        return await offload_if(count > _FEW, merge_rankings, rankings, self.query, cut)

    async def _rankings(self) -> list[list[Ranking]]:
        """Rank each query in each channel: artifacts, or surfaces where these are weighted or asked for."""
        query, channels = self.query, self.query.channels
        lone = len(channels) == len(self.queries) == 1 and not query.has_second_stage
        depth = query.k if lone else query.depth
        rankings = await self._ranked(channels, depth, per_artifact=query.ranks_artifacts)
        if query.ranks_artifacts or not query.per_artifact:
            return rankings
        short: list[Mode] = [
            channel
            for channel, of_channel in zip(channels, rankings, strict=True)
            if any(was_cut_short(ranking, depth, query.k) for ranking in of_channel)
        ]
        behind = await self._ranked(short, query.k, per_artifact=True)
        for channel, artifacts in zip(short, behind, strict=True):
            at = channels.index(channel)
            rankings[at] = list(map(append_artifacts, rankings[at], artifacts))
        return rankings

    async def _ranked(self, channels: Sequence[Mode], depth: int, *, per_artifact: bool) -> list[list[Ranking]]:
        scope = {"filter": self.query.filter, "surfaces": self.query.surfaces, "per_artifact": per_artifact}
        return await query_rankings(self.corpus, channels, self.queries, self._vectors, depth, **scope)

    async def _vectors(self) -> Floats:
        """Embed the queries when a channel first asks for them."""
        if self.vectors is None:
            self.vectors = await embedded_queries(self.corpus, self.queries)
        return self.vectors


async def _reranked(
    corpus: OpenCorpus[SearchStore], query: SearchQuery, found: Sequence[RankedRecord], reranker: Reranker
) -> list[RankedRecord]:
    """Return candidates with the reranker's scores, best first: ties stay in order, what is not a number comes last.

    Candidates of equal texts share one score.
    """
    texts = await _passages(corpus, query, [record for record, _ in found])
    distinct = list(dict.fromkeys(texts))
    scores = dict(zip(distinct, await score_texts(reranker, query.text, distinct), strict=True))
    moved = [_rescored(each, scores[text]) for each, text in zip(found, texts, strict=True)]
    return sorted(moved, key=lambda each: _place(each.candidate.score))


def _rescored(found: RankedRecord, score: float) -> RankedRecord:
    before = {**found.candidate.before, "retrieval_score": found.candidate.score}
    return found._replace(candidate=found.candidate._replace(score=score, before=before))


def _place(score: float) -> tuple[bool, float]:
    """Give what to sort by, for best first."""
    return (True, 0.0) if math.isnan(score) else (False, -score)


async def _passages(corpus: OpenCorpus[SearchStore], query: SearchQuery, records: Sequence[Record]) -> list[str]:
    """Give what a reranker reads of each record."""
    if callable(query.rerank_text):
        return await _read(corpus, query.rerank_text, records)
    if query.rerank_text == "surface":
        return [record.text for record in records]
    ids = list(dict.fromkeys(record.artifact_id for record in records))
    siblings = await corpus.store.records_of(ids)
    whole = dict(zip(ids, await in_thread(_joined, siblings, query.rerank_max_chars), strict=True))
    return [whole[record.artifact_id] or record.text for record in records]


def _joined(artifacts: Sequence[Sequence[Record] | None], most: int) -> list[str]:
    """Give the text of each artifact, cut; `""` for one without any, or that is gone since."""
    return [stitch([record for record in records or () if record.text])[:most] for records in artifacts]


async def _read(corpus: OpenCorpus[SearchStore], reader: PassageReader, records: Sequence[Record]) -> list[str]:
    async def read(record: Record) -> str:
        text: Any = await call_user_function(cast("Callable[[OpenCorpus[Any], Record], Any]", reader), corpus, record)
        if not isinstance(text, str):
            raise ArgumentKindError(
                f"rerank_text must give a string, not {short_repr(text)} (for {short_repr(record.artifact_id)})"
            )
        return text

    return await map_bounded(read, records, limit=_READERS)


async def _boosted(hits: Sequence[SearchHit], boost: Boost) -> list[SearchHit]:
    """Add to each hit's score what the boost gives for it, best first; ties stay in order.

    Raises:
        ArgumentError: It gives what is no finite number.
    """
    extras = await in_thread(lambda: [_extra(boost, hit) for hit in hits])
    moved = [replace(hit, score=hit.score + extra) for hit, extra in zip(hits, extras, strict=True)]
    return sorted(moved, key=lambda hit: _place(hit.score))


def _extra(boost: Boost, hit: SearchHit) -> float:
    return check_number(f"what boost gives for {short_repr(hit.artifact_id)}", boost(hit))


def check_corpus(corpus: OpenCorpus[StoreT_co]) -> OpenCorpus[StoreT_co]:
    """Give an open corpus back when it is one.

    Raises:
        ArgumentError: It has no name, store or embedder.
    """
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        raise ArgumentError(f"expected an open corpus, as `build` and `open_corpus` give, not {corpus!r}")
    return corpus


async def channel_rankings(
    corpus: OpenCorpus[Any], channels: Sequence[Mode], text: str, vector: Vectors, depth: int, **scope: Any
) -> list[Ranking]:
    """Rank `depth` deep in each channel, `"dense"` or `"lexical"`, at once; answers are in the order of `channels`.

    `vector` gives the query as a `(dim,)` or `(1, dim)` row, asked for where a channel needs it; `scope` is what both
    searches of a store take.
    """
    return [ranking for (ranking,) in await query_rankings(corpus, channels, [text], vector, depth, **scope)]


async def query_rankings(
    corpus: OpenCorpus[Any], channels: Sequence[Mode], texts: Sequence[str], vectors: Vectors, depth: int, **scope: Any
) -> list[list[Ranking]]:
    """Rank each of several queries in each channel: one store call a channel, one list of rankings for each."""

    async def dense() -> Any:
        return await corpus.store.search_vectors(np.atleast_2d(await vectors()), depth, **scope)

    async def lexical() -> Any:
        return await corpus.store.search_text(texts, depth, **scope)

    searches: dict[Mode, Callable[[], Awaitable[list[Ranking]]]] = {"dense": dense, "lexical": lexical}
    return await map_bounded(lambda channel: searches[channel](), channels, limit=2)


async def embed_text(corpus: OpenCorpus[object], text: str) -> Floats:
    """Embed a query: `(1, dim) float32`, a unit row.

    Raises:
        EmbedderError: The embedder failed, or answered with what is no vector.
    """
    vector = np.asarray(await corpus.embedder.embed_query(text))
    return unit_rows(vector[np.newaxis], count=1, of=_embedder_of(corpus))


async def embedded_queries(corpus: OpenCorpus[object], texts: Sequence[str]) -> Floats:
    """Embed several queries at once: `(m, dim) float32`, unit rows in their order.

    Raises:
        EmbedderError: The embedder failed, or answered with what is no vector, or with vectors of several widths.
    """
    if len(texts) == 1:
        return await embed_text(corpus, texts[0])
    rows = await map_bounded(partial(embed_text, corpus), texts, limit=_EMBEDDINGS)
    return unit_rows([row[0] for row in rows], count=len(texts), of=_embedder_of(corpus))


def _embedder_of(corpus: OpenCorpus[object]) -> str:
    return f"the embedder of corpus {corpus.name!r}"
