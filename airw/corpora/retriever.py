"""One corpus with options bound: a retriever, as orchestration layers take them."""

import os
from typing import Any, Self, Unpack

import anyio

from airw.corpora.naming import corpus_path
from airw.corpora.opening import Corpus, open_corpus
from airw.errors import StoreError
from airw.protocols import OpenCorpus
from airw.retrieval import SearchOptions, answer, ask, check_corpus
from airw.values import SearchHit

__all__ = ["CorpusRetriever", "as_retriever"]


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
        >>> from airw.corpora.building.builder import build
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
