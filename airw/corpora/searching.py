"""Searching a corpus that is open or named, once or with options bound."""

import os
from typing import Any, Self, Unpack, cast

import anyio

from airw._base.checks import name_missing_method
from airw._base.signatures import shows_options
from airw.corpora.naming import corpus_path
from airw.corpora.opening import Corpus, CorpusLike, borrowed, open_corpus, reading
from airw.errors import NoLedgerEntry, StoreError
from airw.protocols import OpenCorpus, RecordsByArtifact, SearchStore
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, answer, check_corpus
from airw.values import Record, SearchHit


@shows_options(SearchOptions, SEARCH_DEFAULTS)
async def search(corpus: CorpusLike[SearchStore], query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank what a corpus holds against a query, as `airw.retrieval.retrieve` does.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        query: What to look for.
        options: As in `retrieve`, which explains them.

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
    parsed = SearchQuery.parse("search", query, options)
    async with borrowed(corpus) as opened:
        return await answer(opened, parsed)


async def records_for_artifact(
    corpus: CorpusLike[RecordsByArtifact], artifact_id: str, *, surface_kind: str | None = None
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
        with name_missing_method("records_for_artifact", store):
            [records] = await store.records_of([artifact_id], kinds=kinds)
    if records is None:
        raise NoLedgerEntry(f"corpus {name!r} holds no artifact {artifact_id!r}")
    return records


class CorpusRetriever:
    """Searches one corpus with options bound beforehand; `as_retriever` makes it."""

    def __init__(self, corpus: CorpusLike[SearchStore], options: SearchOptions, verb: str = "as_retriever") -> None:
        self._corpus = corpus
        self._opened: Corpus | None = None
        self._opening = anyio.Lock()
        self._closed = False
        checked = SearchQuery.parse(verb, "", options)
        # As they were checked: an iterator is read once, and what the caller changes later changes nothing here.
        self._options: dict[str, Any] = {
            name: value if value is None else getattr(checked, name) for name, value in options.items()
        }

    @property
    def corpus(self) -> CorpusLike[SearchStore]:
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
        parsed = SearchQuery.parse("retriever", query, cast("SearchOptions", {**self._options, **options}))
        return await answer(await self._open(), parsed)

    async def _open(self) -> OpenCorpus[SearchStore]:
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


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def as_retriever(corpus_or_name: CorpusLike[SearchStore], **options: Unpack[SearchOptions]) -> CorpusRetriever:
    """Bind a corpus and options to a function of a query; see `airw.retrieval.retrieve` for the options.

    Args:
        corpus_or_name: An open corpus, which stays its owner's to close; or a name or path, which the first call opens,
            once for all calls, and which stays open until `await retriever.aclose()` or the end of
            `async with retriever`.
        options: Options for every call; those that a call gives replace them.

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
    return CorpusRetriever(corpus_or_name, options)
