"""Searching a corpus that is open or named, once or with options bound."""

import os
from typing import Any, Self, Unpack, cast

import anyio

from airw._base.checks import name_missing_method
from airw._base.signatures import shows_options
from airw.corpora.naming import corpus_path
from airw.corpora.opening import Corpus, CorpusLike, open_corpus, use_corpus, use_store
from airw.errors import NoLedgerEntry, StoreError
from airw.protocols import OpenCorpus, RecordsByArtifact, SearchStore
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, check_corpus, run_search
from airw.values import Record, SearchHit


@shows_options(SearchOptions, SEARCH_DEFAULTS)
async def search(corpus: CorpusLike[SearchStore], query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank what a corpus holds against a query.

    ```text
    mode       score of a hit                                   what is ranked
    dense      cosine, -1 to 1                                  every record, zero scores too
    lexical    BM25, above 0                                    records with at least one word of the query
    hybrid     mass: sum of 1 / (rrf_k + rank) over the two,    the union of the two channels
               or, blended: alpha * cosine +
               (1 - alpha) * BM25 / (BM25 + bm25_sat_k);
               also where one of them found nothing
    ```

    The stages, each left out unless asked for: `formulate` queries → rank in each channel → fuse → `surface_weights` →
    collapse to artifacts → cut at `fetch_k` → `rerank` → `boost` → cut at `k`. Without weights, channels rank artifacts
    to begin with, so that no artifact crowds out the others, however many of its surfaces match.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        query: What to look for.
        k: Give at most this many hits; 10 when left out.
        mode: `"dense"` (when left out), `"lexical"` or `"hybrid"`.
        filter: Rank only records whose metadata satisfy it; see `airw.values.filters`.
        surfaces: Rank only surfaces of these kinds.
        per_artifact: Rank artifacts, each by its best surface, instead of surfaces; on when left out.
        fusion: What a hybrid search does: `"rrf"` (when left out) or `"blend"`, as above; a side that did not find a
            record counts 0.
        rrf_k: The rank constant; 60 when left out.
        alpha: The share of the cosine in a blend, 0 to 1; 0.5 when left out.
        bm25_sat_k: The BM25 score that counts half in a blend, above 0; 8 when left out.
        fetch_k: How deep to read each channel, and how many candidates a reranker or a boost is shown;
            `max(5 * k, 50)` when left out. A lone channel that nothing comes after is read `k` deep.
        rerank: Replaces the scores of the candidates: a function `(query, texts) -> scores`, sync or async, or
            `"cross-encoder"`, `"cross-encoder:<model or folder>"`. It reads the query as it was asked. Ties stay as
            they were ranked; a score that is not a number comes last.
        rerank_text: What it reads of a candidate: `"surface"`, the text that matched (when left out); `"artifact"`, all
            texts of its artifact in plan order; or what a function `(corpus, record) -> str`, sync or async, gives.
            Functions may be called for several candidates at once. Equal texts are scored once.
        rerank_max_chars: Where the text of an artifact is cut; 2000 when left out.
        formulate: Gives the query or queries to search with; see `airw.retrieval.formulation`. Several are ranked each
            in each channel and fused by rank: the score is then the mean, over the queries, of what each gives as a
            mass, in every mode.
        surface_weights: Factors for the scores of surfaces by kind, 0 or more, 1 where not named. Meant for scores
            above 0: a negative cosine moves down when multiplied by more than 1.
        boost: Gives for a hit what to add to its score, a finite number; called in a worker thread.

    Returns:
        Hits, best first; ties by `(artifact_id, surface_index)`, where rankings are fused by the dense one first. The
        surface of a fused hit is that of the ranking where it stands highest. Each metadata dict belongs to the caller;
        that of a fused hit tells what the channels gave, `dense_score` and `lexical_score` (the best over several
        queries), that of a reranked hit the score it had before, `retrieval_score`.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        ArgumentError: A parameter's value cannot be used, or a function gave what cannot.
        FilterError: The filter is malformed.
        EmbedderError: The embedder failed, or does not fit the stored vectors (`EmbedderMismatch`).
        RerankerError: The reranker failed; what it needs is not there (`RerankerUnavailable`).
        StoreError: The store failed.

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
    async with use_corpus(corpus) as opened:
        return await run_search(opened, parsed)


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
    async with use_store(corpus) as (name, store):
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
        return await run_search(await self._open(), parsed)

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
    """Bind a corpus and options to a function of a query; see `airw.search` for the options.

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
