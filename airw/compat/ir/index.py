"""Corpora: build, open and search them from sync code."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airw import corpora
from airw.compat._sync import run
from airw.compat.ir.embed import EmbedderFunction, embedder_of
from airw.compat.ir.sources import as_source
from airw.compat.ir.store import CorpusStore
from airw.indexing import identity
from airw.links import extractor_from
from airw.values import SearchHit


@dataclass(eq=False)
class Corpus:
    """An open corpus: a name, a store and the embedder of its vectors.

    It is closed when the program ends or the object is garbage-collected; `close` closes it at once.

    Example:
        >>> from airw.compat import ir
        >>> corpus = ir.build(
        ...     ir.CorpusSource.from_mapping({"a": "signing keys"}, name="notes"),
        ...     store=ir.CorpusStore.memory(),
        ...     embedder="light",
        ... )
        >>> len(corpus), [hit.artifact_id for hit in corpus.search("keys")]
        (1, ['a'])
    """

    name: str
    store: CorpusStore
    embedder: Callable[..., Any] = field(repr=False)
    embedder_id: str

    @property
    def opened(self) -> corpora.Corpus:
        """The same corpus as an object of airw."""
        return corpora.Corpus(self.name, self.store.opened, embedder_of(self.embedder))

    def search(self, query: str, **options: Any) -> list[SearchHit]:
        """Search this corpus; the options are those of the function `search`."""
        from airw.compat import ir

        return ir.search(self, query, **options)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.store)


def build(
    source: Any,
    *,
    store: CorpusStore | None = None,
    embedder: Any = None,
    full: bool = True,
    batch_size: int = 256,
    edge_extractor: Callable[..., Any] | None = None,
) -> Corpus:
    """Update a corpus from its source and open it; see `airw.build`.

    Raises:
        SourceError: If an item cannot be indexed, or an empty source would remove all artifacts.
        EmbedderError: If the embedder fails or is not available.
    """
    options = {
        "store": store.build_target if isinstance(store, CorpusStore) else store,
        "embedder": None if embedder is None else embedder_of(embedder),
        "edge_extractor": extractor_of(edge_extractor),
        "full": full,
        "batch_size": batch_size,
    }
    corpus = run(corpora.build, as_source(source, embed=embedder is None), **options)
    return to_ir(corpus, store if isinstance(store, CorpusStore) else None)


def open_corpus(name: str, *, embedder: Any = None) -> Corpus:
    """Open a corpus that has been built.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
        EmbedderMismatch: If the corpus was built with another embedder.
    """
    return to_ir(run(corpora.open_corpus, name, embedder=None if embedder is None else embedder_of(embedder)))


def to_ir(corpus: corpora.Corpus, store: CorpusStore | None = None) -> Corpus:
    """Return an open corpus of airw as one of `ir`; `store` is the one it was built in."""
    if store is None:
        store = CorpusStore.over(corpus.store, owned=corpus.owns_store)
    elif store.build_target is not corpus.store:
        store.set_store(corpus.store, owned=corpus.owns_store)
    return Corpus(corpus.name, store, EmbedderFunction(corpus.embedder), corpus.embedder_id)


def extractor_of(function: Any) -> Any:
    """Return an edge extractor of airw for a function of an id and filter fields.

    An extractor of airw is returned unchanged.
    """
    if function is None or hasattr(function, "extract"):
        return function
    return extractor_from(function, id=identity(function))


def to_airw(corpus: Any) -> Any:
    """Return a corpus, or several, as objects of airw; names are returned unchanged."""
    if isinstance(corpus, Corpus):
        return corpus.opened
    if isinstance(corpus, list | tuple):
        return [to_airw(item) for item in corpus]
    return {name: to_airw(item) for name, item in corpus.items()} if isinstance(corpus, dict) else corpus


def store_of(store_or_corpus: Any) -> tuple[CorpusStore, str | None]:
    """Return the store of a corpus, a name or a store, and the name of the corpus if any."""
    if isinstance(store_or_corpus, str):
        return CorpusStore.local(store_or_corpus), store_or_corpus
    store = getattr(store_or_corpus, "store", store_or_corpus)
    name = getattr(store_or_corpus, "name", None) if store is not store_or_corpus else None
    return (store if isinstance(store, CorpusStore) else CorpusStore.over(store)), name
