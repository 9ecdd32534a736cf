"""Corpora and their names: here, and nowhere below, a name becomes an open corpus."""

from airw.corpus.naming import corpus_names, corpus_path, existing_path, home, is_name
from airw.corpus.opening import CUSTOM, BuildReport, Corpus, Opening, borrowed, open_corpus
from airw.corpus.retriever import CorpusRetriever, as_retriever
from airw.corpus.searching import records_for_artifact, search

__all__ = [
    "CUSTOM",
    "BuildReport",
    "Corpus",
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
    "records_for_artifact",
    "search",
]
