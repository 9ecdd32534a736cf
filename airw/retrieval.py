"""Ranking in one open corpus: dense, lexical or hybrid, each on one scale; names are the business of `airw.corpus`."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast

import numpy as np

from airw._concurrency import map_bounded
from airw._vectors import unit_rows
from airw.errors import ArgumentError
from airw.filters import Filter, parse_filter
from airw.fusion import fuse_ranks
from airw.limits import check_choice, check_count, check_query, check_strings
from airw.protocols import OpenCorpus
from airw.values import Floats, Ranking, Record, SearchHit

__all__ = [
    "MODES",
    "Mode",
    "SearchOptions",
    "channel_rankings",
    "channels_of",
    "check_corpus",
    "embedded",
    "hybrid_depth",
    "retrieve",
]

Mode: TypeAlias = Literal["dense", "lexical", "hybrid"]

MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
"""The ways to rank: by cosine, by BM25, by reciprocal rank over both."""


class SearchOptions(TypedDict, total=False):
    """The keywords of `retrieve`, for those who pass them on."""

    k: int
    mode: Mode
    filter: Mapping[str, Any] | Filter | None
    surfaces: Iterable[str] | None
    per_artifact: bool
    fetch_k: int | None
    rrf_k: int


Ranked: TypeAlias = list[tuple[str, float]]


async def retrieve(
    corpus: OpenCorpus,
    query: str,
    *,
    k: int = 10,
    mode: Mode = "dense",
    filter: Mapping[str, Any] | Filter | None = None,
    surfaces: Iterable[str] | None = None,
    per_artifact: bool = True,
    fetch_k: int | None = None,
    rrf_k: int = 60,
) -> list[SearchHit]:
    """Rank the surfaces of an open corpus against a query.

    ```text
    mode       score of a hit                                   what is ranked
    dense      cosine, -1 to 1                                  every record, zero scores too
    lexical    BM25, above 0                                    records with at least one word of the query
    hybrid     mass: sum of 1 / (rrf_k + rank) over the two,    the union of the two channels
               also where one of them found nothing
    ```

    Args:
        corpus: Anything with a name, a store and an embedder.
        query: What to look for.
        k: Give at most this many hits.
        mode: `"dense"`, `"lexical"` or `"hybrid"`.
        filter: Rank only records whose metadata satisfy it; see `airw.filters`.
        surfaces: Rank only surfaces of these kinds.
        per_artifact: Rank artifacts, each by its best surface, instead of surfaces.
        fetch_k: How deep a hybrid search reads each channel; `max(5 * k, 50)` when left out.
        rrf_k: The rank constant of a hybrid search.

    Returns:
        Hits, best first; ties by `(artifact_id, surface_index)`, in a hybrid search by the dense ranking first. The
        surface of a hybrid hit is that of the channel where it ranks best. Each metadata dict belongs to the caller.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        FilterError: The filter is malformed.
        EmbedderError: The embedder failed, or does not fit the stored vectors (`EmbedderMismatch`).
        StoreError: The store failed.

    Example:
        >>> import anyio
        >>> from airw.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return [hit.artifact_id for hit in await retrieve(corpus, "signing keys", k=1)]
        >>> anyio.run(main)
        ['a']
    """
    check_corpus(corpus)
    question = _Question(
        text=check_query(query),
        k=check_count("k", k),
        channels=channels_of(mode),
        filter=parse_filter(filter),
        surfaces=None if surfaces is None else check_strings("surfaces", surfaces),
        per_artifact=per_artifact,
        fetch_k=hybrid_depth(k) if fetch_k is None else check_count("fetch_k", fetch_k, least=1),
        rrf_k=check_count("rrf_k", rrf_k),
    )
    return await _answer(corpus, question) if k else []


def check_corpus(corpus: OpenCorpus) -> OpenCorpus:
    """Give an open corpus back when it is one.

    Raises:
        ArgumentError: It has no name, store or embedder.
    """
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        raise ArgumentError(f"expected an open corpus, as `build` and `open_corpus` give, not {corpus!r}")
    return corpus


def hybrid_depth(k: int) -> int:
    """Tell how deep a hybrid search for `k` reads each channel."""
    return max(5 * k, 50)


@dataclass(frozen=True, slots=True)
class _Question:
    """A search after validation."""

    text: str
    k: int
    channels: tuple[Mode, ...]
    filter: Filter | None
    surfaces: tuple[str, ...] | None
    per_artifact: bool
    fetch_k: int
    rrf_k: int

    @property
    def depth(self) -> int:
        """How many each channel ranks: a lone channel is cut at `k`, since nothing is fused after it."""
        return self.fetch_k if len(self.channels) > 1 else self.k

    @property
    def scope(self) -> dict[str, Any]:
        """Give the keywords that both channels of a store take."""
        return {"filter": self.filter, "surfaces": self.surfaces, "per_artifact": self.per_artifact}


async def _answer(corpus: OpenCorpus, question: _Question) -> list[SearchHit]:
    vectors = cast("list[Floats]", [])

    async def vector() -> Floats:
        if not vectors:
            vectors.append(await embedded(corpus, question.text))
        return vectors[0]

    ranked: Ranked = []
    records: list[Record | None] = []
    # A writer may remove a record between ranking and reading: then the answer is of two states, and we ask once more.
    for _ in range(2):
        rankings = await channel_rankings(
            corpus, question.channels, question.text, vector, question.depth, **question.scope
        )
        ranked = _merged(rankings, question)
        records = await corpus.store.get_records([record_id for record_id, _ in ranked])
        if None not in records:
            break
    pairs = zip(records, ranked, strict=True)
    return [record.as_hit(score, corpus.name) for record, (_, score) in pairs if record is not None]


async def channel_rankings(
    corpus: OpenCorpus,
    channels: Sequence[Mode],
    text: str,
    vector: Callable[[], Awaitable[Floats]],
    depth: int,
    **scope: Any,
) -> list[Ranking]:
    """Rank `depth` deep in each channel, `"dense"` or `"lexical"`, at once; answers are in the order of `channels`.

    `vector` gives the query as a `(dim,)` or `(1, dim)` row, asked for where a channel needs it; `scope` is what both
    searches of a store take.
    """

    async def dense() -> Ranking:
        return (await corpus.store.search_vectors(np.atleast_2d(await vector()), depth, **scope))[0]

    async def lexical() -> Ranking:
        return (await corpus.store.search_text([text], depth, **scope))[0]

    ask: dict[Mode, Callable[[], Awaitable[Ranking]]] = {"dense": dense, "lexical": lexical}
    return await map_bounded(lambda channel: ask[channel](), channels, limit=2)


async def embedded(corpus: OpenCorpus, text: str) -> Floats:
    """Embed a query: `(1, dim) float32`, a unit row.

    Raises:
        EmbedderError: The embedder failed, or answered with what is no vector.
    """
    vector = np.asarray(await corpus.embedder.embed_query(text))
    return unit_rows(vector[np.newaxis], count=1, of=f"the embedder of corpus {corpus.name!r}")


def _merged(rankings: list[Ranking], question: _Question) -> Ranked:
    """Give `(record id, score)` pairs, best first: the lone channel's, or the masses of two fused by what is ranked."""
    if len(rankings) == 1:
        return list(zip(rankings[0].record_ids, rankings[0].scores.tolist(), strict=True))
    keyed = [ranking.artifact_ids if question.per_artifact else ranking.record_ids for ranking in rankings]
    places: dict[str, tuple[int, str]] = {}
    for keys, ranking in zip(keyed, rankings, strict=True):
        for rank, (key, record_id) in enumerate(zip(keys, ranking.record_ids, strict=True)):
            if key not in places or rank < places[key][0]:
                places[key] = (rank, record_id)
    return [(places[key][1], mass) for key, mass in fuse_ranks(keyed, rrf_k=question.rrf_k)[: question.k]]


def channels_of(mode: object) -> tuple[Mode, ...]:
    """Give the channels that a mode ranks in.

    Raises:
        ArgumentError: There is no such mode.
    """
    checked = check_choice("mode", mode, MODES)
    return ("dense", "lexical") if checked == "hybrid" else (checked,)
