"""Open corpora, and what is on its way to being open."""

import os
from collections.abc import AsyncIterator, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar, Unpack, cast

import anyio

from airw._base.checks import check_methods
from airw._base.concurrency import in_thread
from airw._base.signatures import shows_options
from airw.corpora.naming import find_corpus_path, is_corpus_name
from airw.embedders import check_embedder, resolve_embedder
from airw.errors import CorpusNotFound, EmbedderMismatch, EmbedderUnavailable
from airw.protocols import EdgeExtractor, Embedder, EmbedderLike, IndexingStrategy, OpenCorpus, SearchStore, Store
from airw.protocols.stores import StoreT_co
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, check_corpus, run_search
from airw.stores import SqliteStore
from airw.values import SearchHit

if TYPE_CHECKING:  # what changes a corpus is loaded when one is changed
    from airw.corpora.changing import Changes, Given
    from airw.corpora.pipeline import BuildReport
    from airw.corpora.recipes import OnError

CorpusLike: TypeAlias = OpenCorpus[StoreT_co] | str | os.PathLike[str]
"""An open corpus, or the name or path of one."""

CUSTOM = "custom"
"""What the settings of a corpus say in place of a specification when its embedder was given as an object."""


class _Closable(Protocol):
    async def aclose(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


class Opening(Generic[Opened]):
    """Something on its way to being open: await it and close it yourself, or enter it and it is closed for you.

    Example:
        >>> import anyio
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     corpus = await build(from_mapping({"a": "text"}, name="notes"), store=MemoryStore(), embedder="light")
        ...     async with corpus:
        ...         return corpus.name
        >>> anyio.run(main)
        'notes'
    """

    __slots__ = ("_opened", "_opening")

    def __init__(self, opening: Coroutine[Any, Any, Opened]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, Any, Opened]:
        return self._opening.__await__()

    async def __aenter__(self) -> Opened:
        self._opened: Opened = await self._opening
        return self._opened

    async def __aexit__(self, *exc_info: object) -> None:
        await self._opened.aclose()


@dataclass(frozen=True, slots=True, eq=False)
class Corpus(Generic[StoreT_co]):
    """An open corpus, made by `build` or `open_corpus`: a name, a store, and the embedder its vectors came from.

    One over a store of your own needs only the store's methods that its verbs call: a `WalkStore` can be walked, a
    `SearchStore` searched, and what changes the corpus needs a whole `Store`.

    Args:
        name: Hits carry it as their source.
        store: Where everything is held.
        embedder: What embeds queries.
        report: What the build did that opened it; `None` when it was opened otherwise.
        owns_store: Whether closing the corpus closes the store.
        strategy: What decomposes artifacts that are put in; left out, the one that the corpus's settings name.
        edge_extractor: What finds their links; left out, the one that the corpus's settings name.

    Example:
        >>> import anyio
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "text"}, name="notes")
        ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
        ...         return corpus.report.added, [hit.artifact_id for hit in await corpus.search("text")]
        >>> anyio.run(main)
        (1, ['a'])
    """

    name: str
    store: StoreT_co
    embedder: Embedder
    report: "BuildReport | None" = None
    owns_store: bool = False
    strategy: IndexingStrategy | None = None
    edge_extractor: EdgeExtractor | None = None

    @property
    def embedder_id(self) -> str:
        """Name the model and weights that its vectors came from."""
        return self.embedder.id

    @shows_options(SearchOptions, SEARCH_DEFAULTS)
    async def search(self: "Corpus[SearchStore]", query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """Rank what this corpus holds against a query; the options are those of `airw.search`."""
        return await run_search(self, SearchQuery.parse("search", query, options))

    async def upsert(self: "Corpus[Store]", items: "Given", *, on_error: "OnError" = "raise") -> "BuildReport":
        """Put artifacts in, or in the place of those with their ids; whoever searches next, finds them.

        They are indexed as a build would: what did not change is not embedded again, an artifact is never seen half,
        and up to 256 are written in one transaction. One that came from a source stays that source's, whose next full
        build has the last word on it; one that is new belongs to none, and no build prunes it.

        Args:
            items: A mapping of id to raw value, or artifacts as the corpus's source gives them.
            on_error: `"raise"`: the first item that cannot be indexed ends it. `"skip"`: it is left out and reported.

        Raises:
            ArgumentError: The items are no such thing, or the corpus's strategy has to be named: see `open_corpus`.
            SourceError: An item cannot be indexed.
            EmbedderError: The embedder failed, or is no longer the one that the corpus was built with.
            CorpusNotFound: The corpus was never built.
            StoreError: The store failed, or a build held it for longer than 30 seconds (`StoreBusy`).

        Example:
            >>> from airw.corpora.building import build
            >>> from airw.sources import from_mapping
            >>> from airw.stores import MemoryStore
            >>> async def main():
            ...     source = from_mapping({}, name="memory")
            ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
            ...         await corpus.upsert({"a": "rotate the signing keys", "b": "bake a loaf of bread"})
            ...         removed = await corpus.delete(["a", "c"])
            ...         return removed, [hit.artifact_id for hit in await corpus.search("keys")]
            >>> anyio.run(main)
            (1, ['b'])
        """
        check_methods("upsert", self.store, ("writing", "config", "ledger", "get_records", "vectors", "apply"))
        return await self._changes().upsert(items, on_error)

    async def delete(self: "Corpus[Store]", artifact_ids: Iterable[str]) -> int:
        """Take artifacts out, in one transaction, and count them; an id that is not there is no error.

        What its source still has, the next build puts in again.

        Raises:
            ArgumentError: They are not a list of ids.
            StoreError: The store failed, or a build held it for longer than 30 seconds (`StoreBusy`).
        """
        check_methods("delete", self.store, ("writing", "ledger", "apply"))
        return await self._changes().delete(artifact_ids)

    def _changes(self: "Corpus[Store]") -> "Changes":
        from airw.corpora.changing import Changes

        return Changes(self.name, self.store, self.embedder, self.strategy, self.edge_extractor)

    async def aclose(self) -> None:
        """Close the store if the corpus opened it; closing twice is harmless."""
        if self.owns_store:
            with anyio.CancelScope(shield=True):
                await cast("_Closable", self.store).aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def open_corpus(
    name_or_path: str | os.PathLike[str],
    *,
    embedder: EmbedderLike | None = None,
    strategy: IndexingStrategy | None = None,
    edge_extractor: EdgeExtractor | None = None,
) -> Opening[Corpus]:
    """Open a corpus that was built before; awaitable, and an async context manager that closes it again.

    No model is loaded before the first query that needs one, and nothing is written: a folder that cannot be written
    will do, as long as nobody else writes to it meanwhile. On asyncio only.

    Args:
        name_or_path: Its name, or the path of its file.
        embedder: The embedder it was built with; left out, the one that its settings name. One given as an object at
            the build must be given again.
        strategy: The strategy it was built with; needed only to `upsert`, where it is one of your own.
        edge_extractor: The extractor of links it was built with; needed as `strategy` is.

    Raises:
        CorpusNotFound: There is none, or its first build was cut short before it wrote anything.
        EmbedderMismatch: It was built with another embedder.
        StoreCorrupt: The file is not a corpus, or is damaged.

    Example:
        >>> import anyio, tempfile
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> async def main(file):
        ...     async with build(from_mapping({"a": "signing keys"}, name="notes"), store=file, embedder="light"):
        ...         pass
        ...     async with open_corpus(file) as corpus:
        ...         return [hit.artifact_id for hit in await corpus.search("keys", mode="lexical")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, Path(folder, "notes.airw"))
        ['a']
    """
    return Opening(_open(name_or_path, embedder, strategy, edge_extractor))


async def _open(
    name_or_path: str | os.PathLike[str],
    embedder: EmbedderLike | None,
    strategy: IndexingStrategy | None,
    edge_extractor: EdgeExtractor | None,
) -> Corpus:
    path = find_corpus_path(name_or_path)
    store = await SqliteStore.open(path)
    try:
        config = await store.config()
        name = path.stem if is_corpus_name(name_or_path) else config.get("name", path.stem)
        resolved = await in_thread(_embedder, name, config, embedder)
        return Corpus(name, store, resolved, owns_store=True, strategy=strategy, edge_extractor=edge_extractor)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await store.aclose()
        raise


def _embedder(name: str, config: Mapping[str, Any], given: EmbedderLike | None) -> Embedder:
    if "embedder_id" not in config:
        raise CorpusNotFound(f"corpus {name!r} holds nothing yet: its first build was cut short; build it again")
    if given is None and config["embedder"] == CUSTOM:
        raise EmbedderMismatch(
            f"corpus {name!r} was built with an embedder of its own, {config['embedder_id']!r}: "
            f"open it with open_corpus({name!r}, embedder=...)"
        )
    embedder = resolve_embedder(_spec_here(config) if given is None else given)
    check_embedder(embedder, config["embedder_id"], config["dim"], name)
    return embedder


def _spec_here(config: Mapping[str, Any]) -> str:
    """Give the specification a corpus was built with, or the default where that is the same model in another folder."""
    spec = str(config["embedder"])
    if Path(spec).is_absolute() and not Path(spec).is_dir():
        with suppress(EmbedderUnavailable):
            if resolve_embedder("default").id == config["embedder_id"]:
                return "default"
    return spec


def use_corpus(corpus: CorpusLike[StoreT_co]) -> AbstractAsyncContextManager[OpenCorpus[StoreT_co]]:
    """Give an open corpus for a while: one that is opened for it, by its name or path, is closed again.

    Raises:
        ArgumentError: It is no corpus; raised by this call.
        CorpusNotFound: There is none of that name or at that path.
    """
    if isinstance(corpus, str | os.PathLike):
        return cast("Opening[Any]", open_corpus(corpus))
    return nullcontext(check_corpus(corpus))


@asynccontextmanager
async def use_store(corpus: CorpusLike[StoreT_co]) -> AsyncIterator[tuple[str, StoreT_co]]:
    """Yield the name and the store of a corpus; one that is named is opened without its embedder, and closed again.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        ArgumentError: It is no corpus.
    """
    if not isinstance(corpus, str | os.PathLike):
        yield check_corpus(corpus).name, corpus.store
        return
    path = find_corpus_path(corpus)
    async with await SqliteStore.open(path) as store:
        name = path.stem if is_corpus_name(corpus) else (await store.config()).get("name", path.stem)
        yield name, cast("StoreT_co", store)
