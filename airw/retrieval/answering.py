"""Asking an open corpus: retrieve what a question is about, stage by stage."""

from collections.abc import Sequence
from typing import TypeVar, TypeVarTuple, Unpack, cast

from airw._base.arrays import Floats
from airw._base.concurrency import called, offload_if
from airw.protocols import OpenCorpus
from airw.retrieval.channels import Vectors, check_corpus, embedded_queries, query_rankings
from airw.retrieval.formulation import queries_of
from airw.retrieval.merging import Candidate, Found, holds_too_few, lengthened, merged, weighed
from airw.retrieval.question import Question, SearchOptions, ask
from airw.retrieval.rescoring import boosted, reranked
from airw.values import Ranking, SearchHit

__all__ = ["answer", "formulated", "retrieve"]

_FEW = 1_000  # candidates, merged in less than a millisecond
R = TypeVar("R")
Args = TypeVarTuple("Args")


async def retrieve(corpus: OpenCorpus, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank the surfaces of an open corpus against a query.

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
        corpus: Anything with a name, a store and an embedder.
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
    return await answer(check_corpus(corpus), ask(query, **options))


async def formulated(question: Question) -> tuple[str, ...]:
    """Give the queries to search with: the question's own, or what its formulator makes of it, each once.

    Raises:
        ArgumentError: The formulator gives neither a string nor a list of strings.
    """
    if question.formulate is None:
        return (question.text,)
    return queries_of(await called(question.formulate, question.text)) or (question.text,)


async def answer(corpus: OpenCorpus, question: Question, queries: Sequence[str] | None = None) -> list[SearchHit]:
    """Answer a question as `retrieve` does; `queries`, at least one, are what `formulated` gave where it was asked."""
    if not question.k:
        return []
    found = await _found(corpus, question, await formulated(question) if queries is None else queries)
    if question.rerank is not None:
        found = await reranked(corpus, question, found, question.rerank)
    if question.boost is not None:
        return (await boosted(_hits(corpus, found), question.boost))[: question.k]
    return _hits(corpus, found[: question.k])


def _hits(corpus: OpenCorpus, found: Sequence[Found]) -> list[SearchHit]:
    hits = [record.as_hit(candidate.score, corpus.name) for record, candidate in found]
    for hit, (_, candidate) in zip(hits, found, strict=True):
        hit.metadata.update(candidate.before)
    return hits


async def _found(corpus: OpenCorpus, question: Question, queries: Sequence[str]) -> list[Found]:
    """Rank and read the candidates of the second stage; without one, what is given."""
    vectors, limit = _once(corpus, queries), question.fetch_k if question.has_second_stage else question.k
    found: list[Found] = []
    # A writer may remove a record between ranking and reading: then the answer is of two states, and we ask once more.
    for _ in range(2):
        candidates = await _candidates(corpus, question, queries, vectors, limit)
        records = await corpus.store.get_records([candidate.record_id for candidate in candidates])
        pairs = zip(records, candidates, strict=True)
        found = [Found(record, candidate) for record, candidate in pairs if record is not None]
        if len(found) == len(candidates):
            break
    return (
        (await offload_if(len(found) > _FEW, weighed, found, question))[:limit] if question.surface_weights else found
    )


def _once(corpus: OpenCorpus, queries: Sequence[str]) -> Vectors:
    """Embed queries when they are first asked for."""
    kept = cast("list[Floats]", [])

    async def vectors() -> Floats:
        if not kept:
            kept.append(await embedded_queries(corpus, queries))
        return kept[0]

    return vectors


async def _candidates(
    corpus: OpenCorpus, question: Question, queries: Sequence[str], vectors: Vectors, limit: int
) -> list[Candidate]:
    """Rank in each channel and merge; weights, which need the records, act on everything that was ranked."""
    rankings = await _rankings(corpus, question, queries, vectors)
    cut = None if question.surface_weights else limit
    return await offload_if(
        sum(len(each) for ranked in rankings for each in ranked) > _FEW, merged, rankings, question, cut
    )


async def _rankings(
    corpus: OpenCorpus, question: Question, queries: Sequence[str], vectors: Vectors
) -> list[list[Ranking]]:
    """Rank each query in each channel: artifacts, or surfaces where these are weighed or asked for."""
    channels, scope = question.channels, {"filter": question.filter, "surfaces": question.surfaces}
    lone = len(channels) == len(queries) == 1 and not question.has_second_stage
    depth = question.k if lone else question.fetch_k
    rankings = await query_rankings(
        corpus, channels, queries, vectors, depth, per_artifact=question.ranks_artifacts, **scope
    )
    if question.ranks_artifacts or not question.per_artifact:
        return rankings
    short = [
        channel
        for channel, ranked in zip(channels, rankings, strict=True)
        if any(holds_too_few(ranking, depth, question.k) for ranking in ranked)
    ]
    behind = await query_rankings(corpus, short, queries, vectors, question.k, per_artifact=True, **scope)
    for channel, artifacts in zip(short, behind, strict=True):
        at = channels.index(channel)
        rankings[at] = list(map(lengthened, rankings[at], artifacts))
    return rankings
