"""Searches and the functions around them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airw import corpora
from airw.compat._sync import run, to_async
from airw.compat.ir.base import Record, SearchHit
from airw.compat.ir.index import Corpus, open_corpus, store_of, to_airw
from airw.errors import ArgumentError
from airw.errors import NoLedgerEntry as NoLedgerEntry
from airw.reranking import dependency_evidence_boost as dependency_evidence_boost
from airw.retrieval import MODES as MODES
from airw.retrieval import fuse_hits as fuse_hits

Retriever = Callable[..., list[SearchHit]]
FUSIONS = ("rrf", "blend")
DFLT_RRF_K = 60
DFLT_BLEND_ALPHA = 0.5
DFLT_BM25_SAT_K = 8.0
DFLT_RERANK_MAX_CHARS = 2000


def search(
    corpus: Corpus | str,
    query: str,
    *,
    k: int = 10,
    filter: Mapping[str, Any] | None = None,
    surfaces: Iterable[str] | None = None,
    per_artifact: bool = True,
    mode: str = "dense",
    fusion: str = "rrf",
    rrf_k: int = DFLT_RRF_K,
    alpha: float = DFLT_BLEND_ALPHA,
    bm25_sat_k: float = DFLT_BM25_SAT_K,
    fetch_k: int | None = None,
    rerank: Any = None,
    rerank_text: Any = "surface",
    rerank_max_chars: int = DFLT_RERANK_MAX_CHARS,
    bm25: Mapping[str, Any] | None = None,
    formulate: Any = None,
    surface_weights: Mapping[str, float] | None = None,
    dep_boost: Callable[[SearchHit], float] | None = None,
) -> list[SearchHit]:
    """Search a corpus; see `airw.search`.

    Raises:
        ArgumentError: If a parameter is not valid, or `bm25` is given; airw does not have it.
        CorpusNotFound: If there is no corpus with that name.
    """
    options = to_airw_options(
        corpus,
        {
            "fusion": fusion,
            "rrf_k": rrf_k,
            "alpha": alpha,
            "bm25_sat_k": bm25_sat_k,
            "fetch_k": fetch_k,
            "rerank": rerank,
            "rerank_text": rerank_text,
            "rerank_max_chars": rerank_max_chars,
            "bm25": bm25,
            "formulate": formulate,
            "surface_weights": surface_weights,
            "dep_boost": dep_boost,
        },
    )
    query_options = {"k": k, "filter": filter, "surfaces": surfaces, "per_artifact": per_artifact, "mode": mode}
    return run(corpora.search, to_airw(corpus), query, **query_options, **options)


def to_airw_options(corpus: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search with the names and function signatures of airw.

    Raises:
        ArgumentError: If `bm25` is given.
    """
    converted = dict(options)
    if converted.pop("bm25", None):
        raise ArgumentError("bm25 cannot be set: airw uses the constants of SQLite FTS5, 1.2 and 0.75")
    if (boost := converted.pop("dep_boost", None)) is not None:
        converted["boost"] = boost
    if callable(converted.get("rerank")):
        converted["rerank"] = _Reranker(converted["rerank"])
    if callable(converted.get("rerank_text")):
        rerank_text = converted["rerank_text"]
        converted["rerank_text"] = lambda _, record: rerank_text(corpus, _meta(record))
    if "formulate" in converted:
        converted["formulate"] = to_async(converted["formulate"])
    return converted


class _Reranker:
    """A reranker of texts made of one of `ir`, which takes segments; it keeps the same name."""

    def __init__(self, rerank: Callable[..., Any]) -> None:
        self.rerank = rerank
        name = getattr(rerank, "id", None) or getattr(rerank, "rerank_id", None) or getattr(rerank, "model_name", None)
        if name:
            self.id = str(name)

    def __call__(self, query: str, texts: Iterable[str]) -> Any:
        return self.rerank(query, [{"text": text} for text in texts])


def _meta(record: Any) -> dict[str, Any]:
    fields = ("artifact_id", "surface_kind", "surface_index", "text", "metadata")
    return {name: getattr(record, name) for name in fields}


def records_for_artifact(store_or_corpus: Any, artifact_id: str, *, surface_kind: str | None = None) -> list[Record]:
    """Return the records of an artifact in plan order, with their vectors.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
        NoLedgerEntry: If the corpus does not contain the artifact.
    """
    records = store_of(store_or_corpus)[0].records_of(artifact_id)
    if records is None:
        raise NoLedgerEntry(f"the corpus has no artifact {artifact_id!r}")
    return [record for record in records if surface_kind in (None, record.surface_kind)]


def as_retriever(corpus_or_name: Any, **search_defaults: Any) -> Retriever:
    """Return a function that searches a corpus with these defaults.

    Its attribute `corpus` is the corpus.
    """
    corpus = open_corpus(corpus_or_name) if isinstance(corpus_or_name, str) else corpus_or_name

    def retrieve(query: str, **options: Any) -> list[SearchHit]:
        return search(corpus, query, **{**search_defaults, **options})

    retrieve.corpus = corpus  # type: ignore[attr-defined]
    return retrieve
