"""Searching, and what goes with it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airw import corpora
from airw.compat._sync import run, unsynced
from airw.compat.ir.base import Record, SearchHit
from airw.compat.ir.index import Corpus, open_corpus, opened, store_of
from airw.errors import ArgumentError
from airw.errors import NoLedgerEntry as NoLedgerEntry
from airw.reranking import dependency_evidence_boost as dependency_evidence_boost
from airw.retrieval import FUSIONS as FUSIONS
from airw.retrieval import MODES as MODES
from airw.retrieval import fuse_hits as fuse_hits

Retriever = Callable[..., list[SearchHit]]
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
    """Rank what a corpus holds against a query; see `airw.search`.

    Raises:
        ArgumentError: A parameter's value cannot be used; `bm25` is one that airw has not.
        CorpusNotFound: There is no corpus of that name.
    """
    options = tuned(
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
    what = {"k": k, "filter": filter, "surfaces": surfaces, "per_artifact": per_artifact, "mode": mode}
    return run(corpora.search, opened(corpus), query, **what, **options)


def tuned(corpus: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search as airw names them, and functions as airw calls them.

    Raises:
        ArgumentError: `bm25` is given.
    """
    made = dict(options)
    if made.pop("bm25", None):
        raise ArgumentError("bm25 is of ir: the constants of airw are those of FTS5, 1.2 and 0.75")
    if (boost := made.pop("dep_boost", None)) is not None:
        made["boost"] = boost
    if callable(made.get("rerank")):
        made["rerank"] = _Reranker(made["rerank"])
    if callable(made.get("rerank_text")):
        read = made["rerank_text"]
        made["rerank_text"] = lambda _, record: read(corpus, _meta(record))
    if "formulate" in made:
        made["formulate"] = unsynced(made["formulate"])
    return made


class _Reranker:
    """A reranker of segments, as `ir` calls it, as one of texts; it has the name that the other gives itself."""

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
        CorpusNotFound: There is no corpus of that name.
        NoLedgerEntry: The corpus does not hold the artifact.
    """
    records = store_of(store_or_corpus)[0].records_of(artifact_id)
    if records is None:
        raise NoLedgerEntry(f"there is no artifact {artifact_id!r} here")
    return [record for record in records if surface_kind in (None, record.surface_kind)]


def as_retriever(corpus_or_name: Any, **search_defaults: Any) -> Retriever:
    """Bind a corpus and options to a function of a query, whose attribute `corpus` is the corpus."""
    corpus = open_corpus(corpus_or_name) if isinstance(corpus_or_name, str) else corpus_or_name

    def retrieve(query: str, **options: Any) -> list[SearchHit]:
        return search(corpus, query, **{**search_defaults, **options})

    retrieve.corpus = corpus  # type: ignore[attr-defined]
    return retrieve
