"""What can be asked of a corpus by its name as well: searches and the records of an artifact."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

from airw.corpora.naming import existing_path, is_name
from airw.corpora.opening import CorpusLike, borrowed
from airw.errors import NoLedgerEntry
from airw.protocols import RecordReader
from airw.retrieval import SearchOptions, check_corpus, retrieve
from airw.stores import SqliteStore
from airw.values import Record, SearchHit

__all__ = ["reading", "records_for_artifact", "search"]


async def search(corpus: CorpusLike, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank what a corpus holds against a query, as `airw.retrieval.retrieve` does.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        query: What to look for.
        options: As in `retrieve`, which explains them: `k`, `mode`, `filter`, `surfaces`, `per_artifact`; of a hybrid
            search `fusion`, `rrf_k`, `alpha`, `bm25_sat_k`; of a second stage `fetch_k`, `rerank`, `rerank_text`,
            `rerank_max_chars`, `surface_weights`, `boost`; and `formulate`.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        ArgumentError: A parameter's value cannot be used.
        FilterError: The filter is malformed.
        RerankerError: The reranker failed.

    Example:
        >>> import anyio
        >>> from airw.corpora.building.builder import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return [hit.artifact_id for hit in await search(corpus, "bread", mode="lexical")]
        >>> anyio.run(main)
        ['b']
    """
    async with borrowed(corpus) as opened:
        return await retrieve(opened, query, **options)


async def records_for_artifact(
    corpus: CorpusLike, artifact_id: str, *, surface_kind: str | None = None
) -> list[Record]:
    """Give all records of one artifact in plan order, or those of one surface kind; needs no embedder.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        NoLedgerEntry: The corpus does not hold the artifact.

    Example:
        >>> import anyio
        >>> from airw.corpora.building.builder import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "text"}, name="notes")
        ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
        ...         return [record.surface_kind for record in await records_for_artifact(corpus, "a")]
        >>> anyio.run(main)
        ['document']
    """
    kinds = None if surface_kind is None else [surface_kind]
    async with reading(corpus) as (name, store):
        [records] = await store.records_of([artifact_id], kinds=kinds)
    if records is None:
        raise NoLedgerEntry(f"corpus {name!r} holds no artifact {artifact_id!r}")
    return records


@asynccontextmanager
async def reading(corpus: CorpusLike) -> AsyncIterator[tuple[str, RecordReader]]:
    """Give the name and the store of a corpus; one that is named is opened without its embedder, and closed again.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        ArgumentError: It is no corpus.
    """
    if not isinstance(corpus, str | os.PathLike):
        yield check_corpus(corpus).name, corpus.store
        return
    path = existing_path(corpus)
    async with await SqliteStore.open(path) as store:
        yield path.stem if is_name(corpus) else (await store.config()).get("name", path.stem), store
