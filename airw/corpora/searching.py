"""Searching one corpus, open or by name: one query, or a retriever for many."""

import os
from typing import Any, Self, Unpack, cast

import anyio

from airw._base.checks import check_kind
from airw._base.messages import short_repr
from airw._base.sharing import SharedLock
from airw._base.signatures import shows_options
from airw.corpora.opening import Corpus, CorpusLike, open_corpus, use_corpus, use_store
from airw.corpora.places import locate
from airw.errors import NoLedgerEntry, StoreError
from airw.protocols import OpenCorpus, RecordsOf, ask
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, answer_query, check_corpus
from airw.stores import hide_password
from airw.values import Record, SearchHit


@shows_options(SearchOptions, SEARCH_DEFAULTS)
async def search(corpus: CorpusLike, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Search a corpus and return at most `k` hits, best first.

    The scores of each mode:

    ```text
    mode       score of a hit                                   records that are ranked
    dense      cosine, -1 to 1                                  all, also those with score 0

    lexical    BM25, above 0                                    those with at least one word of the query

    hybrid     fusion="scores": alpha * cosine +                the union of both rankings
               (1 - alpha) * BM25 / highest possible BM25

               fusion="ranks": dense weight / (rrf_k + dense rank)
               + lexical weight / (rrf_k + lexical rank)

               fusion="blend": alpha * cosine +
               (1 - alpha) * BM25 / (BM25 + bm25_sat_k)

               fusion="rrf": 2 * alpha / (rrf_k + dense rank) +
               2 * (1 - alpha) / (rrf_k + lexical rank)
    ```

    The highest possible BM25 score is that of a text full of the query's words; words that no text has do not count.
    So both numbers are shares, and a query whose words hardly match is decided by the cosines. The weights of `"ranks"`
    are in proportion to the spread of these shares in each ranking, which is their standard deviation.

    A hybrid search scores this way even if one of the two rankings is empty. It leaves out hits without evidence, which
    have no word of the query and a cosine of exactly 0. So it may return fewer than `k` hits, or none.

    A search runs in stages; each is skipped unless its option is set:

    ```text
    formulate queries → rank in each channel → fuse → surface_weights → collapse to artifacts → cut at fetch_k
    → rerank → boost → cut at k
    ```

    Without `surface_weights` the channels rank artifacts from the start: an artifact with many matching surfaces
    cannot crowd out the others.

    Args:
        corpus: An open corpus, which stays open; or a name, path or address, which is opened and closed again.
        query: The text to search for; it must not be blank.
        k: The largest number of hits; 10 by default, at most 1,000,000.
        mode: `"dense"`, `"lexical"` or `"hybrid"` (the default). If the store has only one of the two channels, a
            hybrid search is one in that channel, with its scores.
        filter: Rank only records whose metadata satisfies it; see `airw.values.filters`.
        surfaces: Rank only surfaces of these kinds.
        per_artifact: Rank artifacts, each by its best surface, instead of surfaces; true by default.
        operators: Read operators in the query; false by default, as a question may contain such signs by chance. Then
            an artifact must contain `"a phrase"` word for word, and a word that begins with `prefix` for `prefix*`. It
            must not contain `word` for `-word`, nor what `-"a phrase"` and `-prefix*` name. Hyphens and stars inside
            words, and a minus before a number, mean nothing. See `airw.values.read_operators`.
        fusion: How a hybrid search joins the two rankings, as above: `"scores"` (the default), `"ranks"` (the default
            of `discover`), `"blend"` or `"rrf"`. A record that is missing in one ranking counts 0 there. If `rrf_k`,
            `alpha` or `bm25_sat_k` is given and `fusion` is not, the default is `"blend"`, and `"rrf"` in `discover`.
        rrf_k: The rank constant; 60 by default, and 10 for `"ranks"`.
        alpha: The share of the dense ranking, 0 to 1. By default 0.5, and 0.1 for the `light` embedder, whose vectors
            know words but no meaning.
        bm25_sat_k: The BM25 score that counts as one half in a `"blend"`, above 0; 8 by default. Also in `"scores"`, if
            the store does not know the highest possible score.
        fetch_k: The number of candidates that each channel returns, and that `rerank` and `boost` receive, at most
            1,000,000; `max(5 * k, 50)` by default. A single channel without a later stage returns `k`, and a channel
            returns at least 100 for `"scores"`.
        rerank: Replaces the scores of the candidates: a function `(query, texts) -> scores`, sync or async, or
            `"cross-encoder"`, or `"cross-encoder:<model or folder>"`. It receives the query as the caller wrote it.
            Ties keep their order.
        rerank_text: The text of a candidate that the reranker reads. `"surface"` (the default): the text that matched.
            `"artifact"`: all texts of its artifact in plan order. Or a function `(corpus, record) -> str`, sync or
            async, which may be called for several candidates at once. Equal texts are scored once.
        rerank_max_chars: The length in characters at which the text of an artifact is cut; 2000 by default.
        formulate: Turns the query into one or several queries; see `airw.retrieval.formulation`. Several queries are
            ranked in each channel and fused by rank. The score is then, in every mode, the mean over the queries of
            the reciprocal rank scores.
        surface_weights: Factors for the scores of surfaces by kind, 0 or more; 1 for kinds without a factor. They are
            meant for scores above 0: a factor above 1 moves a negative cosine down.
        boost: A function of a hit that returns the finite number to add to its score, called in a worker thread; or
            `"recency:<field>:<half-life>"`, such as `"recency:date:90d"`, which prefers newer artifacts: see
            `airw.reranking.recency`.

    Returns:
        Hits, best first. Ties are ordered by `(artifact_id, surface_index)`; in fused rankings, by the dense ranking
        first. A fused hit has the surface of the ranking in which it is highest. Each metadata dict belongs to the
        caller. In a fused hit it contains `dense_score` and `lexical_score`, the scores of the channels (with several
        queries, the best of each). `"scores"` adds `lexical_share`, and `"ranks"` adds `dense_weight` and
        `lexical_weight`. In a reranked hit it contains `retrieval_score`, the score before reranking.

    Raises:
        CorpusNotFound: If there is no corpus of that name or at that path.
        ArgumentError: If a value cannot be used, or a function returns a value that cannot be used. Also if nothing
            is found and no record is of the kinds in `surfaces`.
        FilterError: If the filter is malformed, too deep or too large.
        EmbedderError: If the embedder fails, or does not fit the stored vectors (`EmbedderMismatch`).
        RerankerError: If the reranker fails, or its model or package is missing (`RerankerUnavailable`).
        StoreError: If the store fails.

    If nothing is found and no record has a field of the filter, an `UnknownFieldWarning` names it.

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
        return await answer_query(opened, parsed)


async def records_for_artifact(
    corpus: CorpusLike, artifact_id: str, *, surface_kind: str | None = None
) -> list[Record]:
    """Return the records of one artifact in plan order; no embedder is needed.

    Args:
        corpus: An open corpus, or the name, path or address of one.
        artifact_id: The id of the artifact.
        surface_kind: Return only the records of this surface kind.

    Raises:
        ArgumentError: If `artifact_id` or `surface_kind` is not a string.
        CorpusNotFound: If there is no corpus of that name or at that path.
        NoLedgerEntry: If the corpus does not contain the artifact.

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
    check_kind("artifact_id", artifact_id, str, "be a string")
    check_kind("surface_kind", surface_kind, str | None, "be a string or None")
    kinds = None if surface_kind is None else [surface_kind]
    async with use_store(corpus) as (name, store):
        [records] = await ask(store, RecordsOf([artifact_id], kinds=kinds))
    if records is None:
        raise NoLedgerEntry(f"corpus {name!r} contains no artifact {short_repr(artifact_id)}")
    return records


class CorpusRetriever:
    """A search function of one corpus with fixed options; `as_retriever` returns one."""

    def __init__(self, corpus: CorpusLike, options: SearchOptions, verb: str = "as_retriever") -> None:
        self._corpus = corpus
        self._opened: Corpus | None = None
        self._opening = SharedLock("the retriever")
        self._closed = False
        checked = SearchQuery.preset(verb, options)
        # Keep the checked values, not the caller's: an iterator can be read only once, and a list may change later.
        self._options: dict[str, Any] = {
            name: value if value is None else getattr(checked, name) for name, value in options.items()
        }

    @property
    def corpus(self) -> CorpusLike:
        """Return the open corpus, or before the first search the name or path of it."""
        return self._opened or self._corpus

    def __repr__(self) -> str:
        name = _show(self._corpus) if isinstance(self._corpus, str | os.PathLike) else self._corpus.name
        options = "".join(f", {key}={value!r}" for key, value in self._options.items())
        return f"{type(self).__name__}({name!r}{options})"

    async def __call__(self, query: str, **options: Any) -> list[SearchHit]:
        """Search the corpus and return hits, best first; these options replace the fixed ones.

        Raises:
            ArgumentError: If a value cannot be used.
            CorpusNotFound: If there is no corpus of that name or at that path.
            StoreError: If the store fails, or the retriever is closed.
        """
        parsed = SearchQuery.parse("retriever", query, cast("SearchOptions", {**self._options, **options}))
        return await answer_query(await self._open(), parsed)

    async def _open(self) -> OpenCorpus:
        if not isinstance(self._corpus, str | os.PathLike):
            return self._corpus
        # Under the lock: several searches at once open the corpus only once.
        async with self._opening.hold():
            if self._closed:
                raise StoreError(f"the retriever is closed; create another with as_retriever({_show(self._corpus)!r})")
            if self._opened is None:
                self._opened = await open_corpus(self._corpus)
            return self._opened

    async def aclose(self) -> None:
        """Close the corpus if this retriever opened it; closing twice is harmless."""
        self._closed = True
        # Shielded: a cancelled task still closes the file. The lock waits for a search that is opening it.
        with anyio.CancelScope(shield=True):
            async with self._opening.hold():
                if self._opened is not None:
                    await self._opened.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _show(name_or_path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return a name or path as it may be printed: an address without its password."""
    return hide_password(name_or_path) if isinstance(name_or_path, str) else name_or_path


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def as_retriever(corpus_or_name: CorpusLike, **options: Unpack[SearchOptions]) -> CorpusRetriever:
    """Return a function of a query that searches one corpus with fixed options.

    Args:
        corpus_or_name: An open corpus, which its owner closes; or a name, path or address. The first call opens the
            corpus for all calls. It stays open until `await retriever.aclose()` or the end of `async with retriever`.
        options: Options of every call, those of `airw.search`; a call may replace them.

    Raises:
        ArgumentError: If a value cannot be used, or `corpus_or_name` is neither a corpus nor a valid name or path.
        FilterError: If the filter is malformed.
        RerankerUnavailable: If the reranker's model or package is missing.

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
        locate(corpus_or_name)
    else:
        check_corpus(corpus_or_name)
    return CorpusRetriever(corpus_or_name, options)
