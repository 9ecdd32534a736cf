"""Corpora and their names: here, and nowhere below, a name becomes an open corpus."""

from airw.corpus.naming import corpus_names, corpus_path, existing_path, home, is_name
from airw.corpus.opening import CUSTOM, Corpus, CorpusLike, Opening, borrowed, open_corpus
from airw.corpus.retriever import CorpusRetriever, as_retriever
from airw.corpus.searching import reading, records_for_artifact, search

__all__ = [
    "CUSTOM",
    "Corpus",
    "CorpusLike",
    "CorpusRetriever",
    "Opening",
    "as_retriever",
    "borrowed",
    "corpus_names",
    "corpus_path",
    "existing_path",
    "home",
    "is_name",
    "open_corpus",
    "reading",
    "records_for_artifact",
    "search",
]
