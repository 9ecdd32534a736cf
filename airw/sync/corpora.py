"""Corpora in sync code."""

from collections.abc import Iterable
from typing import Any, Final, Protocol, Self, Unpack, cast

from airw import corpora
from airw._base.background import background_loop, close, close_with_owner, run
from airw._base.concurrency import Closable
from airw._base.messages import short_repr
from airw._base.signatures import convert_result, shows_options
from airw.corpora import BuildReport, Corpus, CorpusRetriever, OnError, Opening
from airw.corpora.changing import UpsertItems
from airw.errors import ArgumentError
from airw.protocols import Embedder, OpenCorpus, Store
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, check_corpus
from airw.sync._wrapping import blocking, check_process
from airw.values import SearchHit


class ClosableCorpus(OpenCorpus, Closable, Protocol):
    """An open corpus that its opener closes, such as a `Corpus` or a `RemoteCorpus`."""


class SyncCorpus:
    """An open corpus for sync code.

    `airw.sync.build` and `airw.sync.open_corpus` return one; for a `RemoteCorpus` or `from_vector_store(...)` make it
    yourself. Every function that takes an open corpus takes it, too. The store is async as always:
    `airw.sync.run(ask, corpus.store, Counts())`. A corpus that you forget is closed when it is garbage-collected, or at
    the end of the program. Any thread may use it. A forked process must open its own.

    Example:
        >>> from airw import from_mapping, sync
        >>> from airw.protocols import Counts, ask
        >>> from airw.stores import MemoryStore
        >>> source = from_mapping({"a": "signing keys"}, name="notes", embedder="light")
        >>> with sync.build(source, store=MemoryStore()) as corpus:
        ...     print(corpus.search("keys")[0].artifact_id, sync.run(ask, corpus.store, Counts())["records"])
        a 1
    """

    def __init__(self, corpus: ClosableCorpus) -> None:
        if not callable(getattr(corpus, "aclose", None)):
            raise ArgumentError(
                f"SyncCorpus takes an open corpus with aclose, not {short_repr(corpus)}; pass a Corpus or RemoteCorpus"
            )
        self._corpus = cast("Corpus", check_corpus(corpus))  # another one may lack some of its methods
        self._loop = background_loop()
        close_with_owner(self, corpus)

    @property
    def name(self) -> str:
        """The name of the corpus."""
        return self._corpus.name

    @property
    def store(self) -> Store:
        """The store, whose methods are async.

        Raises:
            StoreError: If the process was forked since the corpus was opened.
        """
        return self._own_corpus().store

    @property
    def embedder(self) -> Embedder:
        """The embedder of queries, whose methods are async."""
        return self._corpus.embedder

    @property
    def report(self) -> BuildReport | None:
        """The report of the build that opened the corpus; `None` if no build did."""
        return self._corpus.report if isinstance(self._corpus, Corpus) else None

    @shows_options(SearchOptions, SEARCH_DEFAULTS)
    def search(self, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """Search this corpus and return the hits, best first; see `airw.search` for the options."""
        return run(self._own_corpus().search, query, **options)

    def upsert(self, items: UpsertItems, *, on_error: OnError = "raise", lock_timeout: float = 30.0) -> BuildReport:
        """Insert artifacts, or replace those with the same ids; see `airw.Corpus.upsert`."""
        return run(self._own_corpus().upsert, items, on_error=on_error, lock_timeout=lock_timeout)

    def delete(self, artifact_ids: Iterable[str], *, lock_timeout: float = 30.0) -> int:
        """Delete artifacts and return how many were deleted; see `airw.Corpus.delete`."""
        return run(self._own_corpus().delete, artifact_ids, lock_timeout=lock_timeout)

    def close(self) -> None:
        """Close the corpus; closing twice is harmless."""
        close(self._own_corpus())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _own_corpus(self) -> Corpus:
        check_process(self._loop, f"corpus {self.name!r} was opened", "open it again")
        return self._corpus


def _open(opening: Opening[Corpus]) -> SyncCorpus:
    async def wait() -> Corpus:
        return await opening

    return SyncCorpus(run(wait))


class SyncRetriever:
    """A search function of one corpus, as `airw.sync.as_retriever` returns it."""

    def __init__(self, retriever: CorpusRetriever) -> None:
        self._retriever = retriever
        self._loop = background_loop()
        close_with_owner(self, retriever)

    def __call__(self, query: str, **options: Any) -> list[SearchHit]:
        """Search the corpus and return hits, best first; these options replace the fixed ones."""
        self._check_process()
        return run(self._retriever, query, **options)

    def close(self) -> None:
        """Close the corpus if this retriever opened it; closing twice is harmless."""
        self._check_process()
        close(self._retriever)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._retriever!r})"

    def _check_process(self) -> None:
        check_process(self._loop, "this retriever was created", "create another one")


open_corpus: Final = convert_result(corpora.open_corpus, _open)
build: Final = convert_result(corpora.build, _open)
adapt: Final = convert_result(corpora.adapt, SyncCorpus)
build_corpus: Final = convert_result(corpora.build_corpus, _open)
as_retriever: Final = convert_result(corpora.as_retriever, SyncRetriever)
search: Final = blocking(corpora.search)
register: Final = blocking(corpora.register)
maintain: Final = blocking(corpora.maintain)
