"""Searching a corpus that is open or named, once or with options bound."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, Unpack

import anyio

from airw.corpora.naming import corpus_path, existing_path, is_name
from airw.corpora.opening import Corpus, CorpusLike, borrowed, open_corpus
from airw.errors import NoLedgerEntry, StoreError
from airw.protocols import OpenCorpus, RecordReader
from airw.retrieval import SearchOptions, answer, ask, check_corpus, retrieve
from airw.stores import SqliteStore
from airw.values import Record, SearchHit


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
        >>> from airw.corpora.building import build
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
        >>> from airw.corpora.building import build
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


class CorpusRetriever:
    """Searches one corpus with options bound beforehand; `as_retriever` makes it."""

    def __init__(self, corpus: OpenCorpus | str | os.PathLike[str], options: SearchOptions) -> None:
        self._corpus = corpus
        self._opened: Corpus | None = None
        self._opening = anyio.Lock()
        self._closed = False
        checked = ask("", **options)
        # As they were checked: an iterator is read once, and what the caller changes later changes nothing here.
        self._options: dict[str, Any] = {
            name: value if value is None else getattr(checked, name) for name, value in options.items()
        }

    @property
    def corpus(self) -> OpenCorpus | str | os.PathLike[str]:
        """Give the corpus it searches: as it was given, until a name or path is opened."""
        return self._opened or self._corpus

    def __repr__(self) -> str:
        name = self._corpus if isinstance(self._corpus, str | os.PathLike) else self._corpus.name
        options = "".join(f", {key}={value!r}" for key, value in self._options.items())
        return f"{type(self).__name__}({name!r}{options})"

    async def __call__(self, query: str, **options: Any) -> list[SearchHit]:
        """Rank what the corpus holds against a query; options given here replace those bound.

        Raises:
            ArgumentError: A parameter's value cannot be used.
            CorpusNotFound: There is no corpus of that name or at that path.
            StoreError: The store failed, or the retriever is closed.
        """
        question = ask(query, **{**self._options, **options})
        return await answer(await self._open(), question)

    async def _open(self) -> OpenCorpus:
        if not isinstance(self._corpus, str | os.PathLike):
            return self._corpus
        async with self._opening:
            if self._closed:
                raise StoreError(f"the retriever is closed; make another with as_retriever({self._corpus!r})")
            if self._opened is None:
                self._opened = await open_corpus(self._corpus)
            return self._opened

    async def aclose(self) -> None:
        """Close the corpus if the retriever opened it; closing twice is harmless."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with self._opening:
                if self._opened is not None:
                    await self._opened.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def as_retriever(
    corpus_or_name: OpenCorpus | str | os.PathLike[str], **defaults: Unpack[SearchOptions]
) -> CorpusRetriever:
    """Bind a corpus and options to a function of a query; see `airw.retrieval.retrieve` for the options.

    Args:
        corpus_or_name: An open corpus, which stays its owner's to close; or a name or path, which the first call opens,
            once for all calls, and which stays open until `await retriever.aclose()` or the end of
            `async with retriever`.
        defaults: Options for every call; those that a call gives replace them.

    Raises:
        ArgumentError: A parameter's value cannot be used, or what is given is no corpus, nor a name that one can have.
        FilterError: The filter is malformed.
        RerankerUnavailable: What the reranker needs is not installed or not found.

    Example:
        >>> import anyio
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         retriever = as_retriever(corpus, mode="lexical", k=1)
        ...         return retriever, [hit.artifact_id for hit in await retriever("bread", k=2)]
        >>> anyio.run(main)
        (CorpusRetriever('notes', mode='lexical', k=1), ['b'])
    """
    if isinstance(corpus_or_name, str | os.PathLike):
        corpus_path(corpus_or_name)
    else:
        check_corpus(corpus_or_name)
    return CorpusRetriever(corpus_or_name, defaults)
