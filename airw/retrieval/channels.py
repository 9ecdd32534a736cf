"""What the stores of corpora are asked: rankings by cosine and by BM25, and vectors for queries."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import map_bounded
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError
from airw.protocols import OpenCorpus
from airw.retrieval.question import Mode
from airw.values import Ranking

__all__ = ["Vectors", "channel_rankings", "check_corpus", "embedded", "embedded_queries", "query_rankings"]

Vectors: TypeAlias = Callable[[], Awaitable[Floats]]

_EMBEDDINGS = 16  # at once


def check_corpus(corpus: OpenCorpus) -> OpenCorpus:
    """Give an open corpus back when it is one.

    Raises:
        ArgumentError: It has no name, store or embedder.
    """
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        raise ArgumentError(f"expected an open corpus, as `build` and `open_corpus` give, not {corpus!r}")
    return corpus


async def channel_rankings(
    corpus: OpenCorpus, channels: Sequence[Mode], text: str, vector: Vectors, depth: int, **scope: Any
) -> list[Ranking]:
    """Rank `depth` deep in each channel, `"dense"` or `"lexical"`, at once; answers are in the order of `channels`.

    `vector` gives the query as a `(dim,)` or `(1, dim)` row, asked for where a channel needs it; `scope` is what both
    searches of a store take.
    """
    return [ranking for (ranking,) in await query_rankings(corpus, channels, [text], vector, depth, **scope)]


async def query_rankings(
    corpus: OpenCorpus, channels: Sequence[Mode], texts: Sequence[str], vectors: Vectors, depth: int, **scope: Any
) -> list[list[Ranking]]:
    """Rank each of several queries in each channel: one store call a channel, one list of rankings for each."""

    async def dense() -> list[Ranking]:
        return await corpus.store.search_vectors(np.atleast_2d(await vectors()), depth, **scope)

    async def lexical() -> list[Ranking]:
        return await corpus.store.search_text(texts, depth, **scope)

    searches: dict[Mode, Callable[[], Awaitable[list[Ranking]]]] = {"dense": dense, "lexical": lexical}
    return await map_bounded(lambda channel: searches[channel](), channels, limit=2)


async def embedded(corpus: OpenCorpus, text: str) -> Floats:
    """Embed a query: `(1, dim) float32`, a unit row.

    Raises:
        EmbedderError: The embedder failed, or answered with what is no vector.
    """
    vector = np.asarray(await corpus.embedder.embed_query(text))
    return unit_rows(vector[np.newaxis], count=1, of=_embedder_of(corpus))


async def embedded_queries(corpus: OpenCorpus, texts: Sequence[str]) -> Floats:
    """Embed several queries at once: `(m, dim) float32`, unit rows in their order.

    Raises:
        EmbedderError: The embedder failed, or answered with what is no vector, or with vectors of several widths.
    """
    if len(texts) == 1:
        return await embedded(corpus, texts[0])
    rows = await map_bounded(partial(embedded, corpus), texts, limit=_EMBEDDINGS)
    return unit_rows([row[0] for row in rows], count=len(texts), of=_embedder_of(corpus))


def _embedder_of(corpus: OpenCorpus) -> str:
    return f"the embedder of corpus {corpus.name!r}"
