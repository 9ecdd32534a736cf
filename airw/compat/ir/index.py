"""Corpora: built, opened, and searched without waiting for anything."""

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
    """An open corpus: a name, a store and the embedder that its vectors came from.

    It is closed when the program ends, or nothing refers to it any more; `close` does so now.

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
        """The corpus as airw has it."""
        return corpora.Corpus(self.name, self.store.opened, embedder_of(self.embedder))

    def search(self, query: str, **options: Any) -> list[SearchHit]:
        """Rank what this corpus holds against a query; the options are those of `search`."""
        from airw.compat import ir

        return ir.search(self, query, **options)

    def close(self) -> None:
        """Close the store now."""
        self.store.close()

    def __len__(self) -> int:
        """Count the records."""
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
    """Bring a corpus up to date with its source and open it; see `airw.build`.

    Raises:
        SourceError: An item cannot be indexed, or the source is empty and would empty the corpus.
        EmbedderError: The embedder failed, or is not there.
    """
    options = {
        "store": store.target if isinstance(store, CorpusStore) else store,
        "embedder": None if embedder is None else embedder_of(embedder),
        "edge_extractor": extractor_of(edge_extractor),
        "full": full,
        "batch_size": batch_size,
    }
    made = run(corpora.build, as_source(source, embed=embedder is None), **options)
    return facade(made, store if isinstance(store, CorpusStore) else None)


def open_corpus(name: str, *, embedder: Any = None) -> Corpus:
    """Open a corpus that was built before.

    Raises:
        CorpusNotFound: There is none of that name.
        EmbedderMismatch: It was built with another embedder.
    """
    return facade(run(corpora.open_corpus, name, embedder=None if embedder is None else embedder_of(embedder)))


def facade(made: corpora.Corpus, store: CorpusStore | None = None) -> Corpus:
    """Return an open corpus of airw as one of `ir`; `store` is the one of `ir` that it was built in."""
    if store is None:
        store = CorpusStore.over(made.store, owned=made.owns_store)
    elif store.target is not made.store:
        store.settle(made.store, owned=made.owns_store)
    return Corpus(made.name, store, EmbedderFunction(made.embedder), made.embedder_id)


def extractor_of(function: Any) -> Any:
    """Return an edge extractor of airw for a function of an id and filter fields; one of airw as it is."""
    if function is None or hasattr(function, "extract"):
        return function
    return extractor_from(function, id=identity(function))


def opened(corpus: Any) -> Any:
    """Return what airw is given for a corpus, a name, or several of them."""
    if isinstance(corpus, Corpus):
        return corpus.opened
    if isinstance(corpus, list | tuple):
        return [opened(each) for each in corpus]
    return {name: opened(each) for name, each in corpus.items()} if isinstance(corpus, dict) else corpus


def store_of(store_or_corpus: Any) -> tuple[CorpusStore, str | None]:
    """Return the store of a corpus, of a name or of a store itself, and the name where one is known."""
    if isinstance(store_or_corpus, str):
        return CorpusStore.local(store_or_corpus), store_or_corpus
    store = getattr(store_or_corpus, "store", store_or_corpus)
    name = getattr(store_or_corpus, "name", None) if store is not store_or_corpus else None
    return (store if isinstance(store, CorpusStore) else CorpusStore.over(store)), name
