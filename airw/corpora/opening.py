"""Open corpora, and how a name or path becomes one."""

import os
from collections.abc import AsyncIterator, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, Unpack

import anyio

from airw._base.checks import check_number
from airw._base.concurrency import Closable, in_thread
from airw._base.local_models import FIT_HINT, MODEL_FOLDER_HINT, is_folder, require_folder
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.signatures import shows_options
from airw.corpora.places import find_location, open_store
from airw.corpora.settings import check_settings
from airw.corpora.trust import check_allowed, is_network_path
from airw.embedders import check_embedder, is_same_model, resolve_embedder
from airw.errors import ArgumentError, CorpusNotFound, EmbedderError, EmbedderUnavailable, StoreCorrupt
from airw.protocols import (
    Config,
    EdgeExtractor,
    Embedder,
    EmbedderLike,
    IndexingStrategy,
    OpenCorpus,
    Store,
    ask,
    check_capabilities,
    check_store,
)
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, answer_query, check_corpus
from airw.stores import Durability
from airw.values import SearchHit

if TYPE_CHECKING:  # the code that changes a corpus is loaded only when one is changed
    from airw.corpora.changing import Changes, UpsertItems
    from airw.corpora.pipeline import BuildReport
    from airw.corpora.recipes import OnError

CorpusLike: TypeAlias = OpenCorpus | str | os.PathLike[str]
"""An open corpus, or the name, path or address of one."""

_ADVICE = "pass embedder=..., or search with mode='lexical'"
_MODEL_ADVICE = "pass embedder=..., set AIRW_MODEL_DIR to the folder of its model, or search with mode='lexical'"

CUSTOM = "custom"
"""The embedder in the settings of a corpus that was built with an embedder object, not a specification."""


Opened = TypeVar("Opened", bound=Closable)


class Opening(Coroutine[Any, Any, Opened], Generic[Opened]):
    """An object that is about to be open: await it or enter it with `async with`.

    `await` returns the open object, which you close yourself. `async with` closes it for you. What runs a coroutine
    runs an opening, too: `asyncio.run`, `create_task`, `gather`.

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

    @override
    def send(self, value: Any, /) -> Any:
        """Run until it waits, as an event loop does."""
        return self._opening.send(value)

    @override
    def throw(self, *error: Any) -> Any:
        """Raise an error where it waits, as an event loop does."""
        return self._opening.throw(*error)

    @override
    def close(self) -> None:
        """Close what has not opened yet: it never opens then."""
        self._opening.close()

    async def __aenter__(self) -> Opened:
        self._opened: Opened = await self._opening
        return self._opened

    async def __aexit__(self, *exc_info: object) -> None:
        await self._opened.aclose()

    if not TYPE_CHECKING:  # a type checker reports the missing attribute itself

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"{name!r} belongs to the open object; await this {type(self).__name__}, or enter it with `async with`"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """An open corpus: a name, a store, and the embedder that made its vectors.

    `build` and `open_corpus` return one. The store of a corpus of your own needs only the capabilities that you use:
    a search ranks and reads records, a walk asks for edges, too; `upsert` and `delete` write.

    Args:
        name: The name of the corpus; hits carry it as their source.
        store: The store with the records, vectors and links.
        embedder: The embedder of queries.
        report: The report of the build that opened the corpus; `None` if no build did.
        owns_store: Whether closing the corpus closes the store.
        strategy: The strategy that decomposes upserted artifacts; by default the one named in the corpus's settings.
        edge_extractor: The extractor of their links; by default the one named in the corpus's settings.

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
    store: Store
    embedder: Embedder
    report: "BuildReport | None" = None
    owns_store: bool = False
    strategy: IndexingStrategy | None = None
    edge_extractor: EdgeExtractor | None = None

    def __post_init__(self) -> None:
        if isinstance(self.embedder, str):
            advice = f"pass airw.embedders.resolve_embedder({self.embedder!r})"
            raise ArgumentError(f"embedder must be an Embedder, not {self.embedder!r}; {advice}")
        check_store(self.store)

    @property
    def embedder_id(self) -> str:
        """Return the id of the embedder that made the vectors: its model and weights."""
        return self.embedder.id

    @shows_options(SearchOptions, SEARCH_DEFAULTS)
    async def search(self, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """Search this corpus and return the hits, best first; see `airw.search` for the options."""
        return await answer_query(self, SearchQuery.parse("search", query, options))

    async def upsert(
        self, items: "UpsertItems", *, on_error: "OnError" = "raise", lock_timeout: float = 30.0
    ) -> "BuildReport":
        """Insert artifacts, or replace those with the same ids; the next search finds them.

        They are indexed as a build does it. Unchanged texts are not embedded again, and readers never see half an
        artifact. Up to 256 artifacts are written in one transaction. An artifact that came from a source still belongs
        to that source, and its next full build updates or removes it. A new artifact belongs to no source, and no
        build prunes it.

        Args:
            items: A mapping of id to raw value, or artifacts as the corpus's source yields them.
            on_error: `"raise"`: stop at the first item that cannot be indexed. `"skip"`: leave it out and report it.
            lock_timeout: How many seconds to wait for a build or another change.

        Returns:
            The counts and the problems.

        Raises:
            ArgumentError: If the items are of another kind, or the corpus was built with a strategy of your own and
                `open_corpus` did not receive it.
            SourceError: If an item cannot be indexed.
            EmbedderError: If the embedder fails, or is not the one that the corpus was built with.
            CorpusNotFound: If the corpus was never built.
            StoreError: If the store fails, or a build keeps it locked for longer than `lock_timeout` (`StoreBusy`).

        Example:
            >>> from airw.corpora.building import build
            >>> from airw.sources import from_mapping
            >>> from airw.stores import MemoryStore
            >>> async def main():
            ...     source = from_mapping({}, name="memory")
            ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
            ...         await corpus.upsert({"a": "rotate the signing keys", "b": "bake a loaf of bread"})
            ...         removed = await corpus.delete(["a", "c"])
            ...         return removed, [hit.artifact_id for hit in await corpus.search("keys, bread")]
            >>> anyio.run(main)
            (1, ['b'])
        """
        check_capabilities("upsert", self.store, "writing", "settings", "ledger", "records", "vectors")
        return await self._changes(lock_timeout).upsert(items, on_error)

    async def delete(self, artifact_ids: Iterable[str], *, lock_timeout: float = 30.0) -> int:
        """Delete artifacts in one transaction and return how many were deleted.

        An id that is not in the corpus is ignored. If the source still has a deleted artifact, the next build adds it
        again.

        Args:
            artifact_ids: The ids.
            lock_timeout: How many seconds to wait for a build or another change.

        Raises:
            ArgumentError: If `artifact_ids` is not a list of ids.
            StoreError: If the store fails, or a build keeps it locked for longer than `lock_timeout` (`StoreBusy`).
        """
        check_capabilities("delete", self.store, "writing", "ledger")
        return await self._changes(lock_timeout).delete(artifact_ids)

    def _changes(self, lock_timeout: float) -> "Changes":
        from airw.corpora.changing import Changes

        check_number("lock_timeout", lock_timeout, least=0)
        return Changes(self.name, self.store, self.embedder, self.strategy, self.edge_extractor, lock_timeout)

    async def aclose(self) -> None:
        """Close the store if the corpus owns it; closing twice is harmless."""
        if self.owns_store:
            with anyio.CancelScope(shield=True):
                await self.store.aclose()

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
    durability: Durability = "normal",
) -> Opening[Corpus]:
    """Open a corpus that has been built.

    `await` the call and close the corpus yourself, or use `async with`. In sync code, `airw.sync.open_corpus` returns
    an open corpus, and its block is `with`.

    No model is loaded until a query needs one. Nothing is written, so a read-only folder works, as long as nobody
    else writes to it at the same time. It runs on asyncio only.

    A corpus on a PostgreSQL server has the address `postgresql://user@host/database#name`. A name that is registered
    with a `store` leads to its server. In the place of a password, an address may contain `$NAME`, the name of an
    environment variable in capital letters.

    The settings of the corpus name the embedder. A server or a model folder is used only if it was named on this
    machine too: by a build or a registration, or in `AIRW_ALLOWED_ORIGINS` or `AIRW_ALLOWED_FOLDERS`. Without its
    embedder the corpus opens all the same, and only what needs a new vector fails.

    Args:
        name_or_path: The name of the corpus, the path of its file, or its address on a server.
        embedder: The embedder that the corpus was built with; by default the one named in its settings. If the build
            received an embedder object, pass it again, or search with `mode="lexical"`.
        strategy: The strategy that the corpus was built with. Only `upsert` needs it, and only if it is your own.
        edge_extractor: The link extractor that the corpus was built with; needed in the same case.
        durability: What an upsert or a deletion survives: `"normal"`, a kill of this process; `"full"`, a power
            failure, too. Each then waits for the disk. Only for a corpus file.

    Returns:
        An `Opening` of the corpus.

    Raises:
        CorpusNotFound: If there is no such corpus, or its first build stopped before it wrote anything.
        EmbedderMismatch: If the corpus was built with another embedder than the one passed.
        EmbedderUnavailable: If the embedder that is passed cannot be made, such as a model folder that does not exist.
        StoreCorrupt: If the file is not a corpus, or is damaged.
        StoreError: If the corpus cannot be read, or its server cannot be reached.

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
    return Opening(_open(name_or_path, embedder, strategy, edge_extractor, durability))


async def _open(
    name_or_path: str | os.PathLike[str],
    embedder: EmbedderLike | None,
    strategy: IndexingStrategy | None,
    edge_extractor: EdgeExtractor | None,
    durability: Durability,
) -> Corpus:
    location = find_location(name_or_path)
    store = await open_store(location.place, durability)
    try:
        config = await ask(store, Config())
        check_settings(location.default_name, config)
        name = location.name_in(config)
        resolved = await in_thread(_resolve_embedder, name, config, embedder)
        return Corpus(name, store, resolved, owns_store=True, strategy=strategy, edge_extractor=edge_extractor)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await store.aclose()
        raise


def _resolve_embedder(name: str, config: Mapping[str, Any], requested: EmbedderLike | None) -> Embedder:
    """Return the embedder of a corpus: the requested one, or the one that its settings name.

    Raises:
        CorpusNotFound: If the corpus was never built.
        StoreCorrupt: If the settings are not those of a corpus.
        EmbedderError: If the requested embedder does not fit or cannot be made.
    """
    if "embedder_id" not in config:
        raise CorpusNotFound(f"corpus {name!r} is empty, because its first build did not finish; build it again")
    spec, stored_id, dim = config.get("embedder"), config["embedder_id"], config.get("dim")
    if not isinstance(spec, str) or not isinstance(stored_id, str) or type(dim) is not int:
        raise StoreCorrupt(f"the settings of corpus {name!r} do not name its embedder; build the corpus again")
    if requested is not None:
        embedder = resolve_embedder(requested, stored_id)
        check_embedder(embedder, stored_id, dim, name)
        return embedder
    # A corpus without its embedder is still of use: lexical searches, links and lists need no vector.
    try:
        return _make_stored(spec, stored_id, dim, name)
    except EmbedderError as error:
        from airw.embedders import MissingEmbedder

        return MissingEmbedder(stored_id, dim, _explain(error, name, stored_id))


def _explain(error: EmbedderError, name: str, stored_id: str) -> EmbedderError:
    """Return an error with the advice for whoever opens the corpus."""
    message = str(error)
    advice = _MODEL_ADVICE if message.endswith((MODEL_FOLDER_HINT, _MODEL_ADVICE)) else _ADVICE
    # The error itself advises whoever chooses an embedder for new vectors.
    for hint in (MODEL_FOLDER_HINT, _MODEL_ADVICE, FIT_HINT):
        message = message.removesuffix(f"; {hint}")
    explained = type(error)(
        f"the embedder of corpus {name!r}, {short_repr(stored_id)}, is not here: {message}; {advice}"
    )
    explained.__cause__ = error
    return explained


def _make_stored(spec: str, stored_id: str, dim: int, name: str) -> Embedder:
    """Return the embedder that the settings of a corpus name.

    Raises:
        EmbedderError: If it is not allowed, cannot be made on this machine, or does not fit.
    """
    if spec == CUSTOM:
        raise EmbedderUnavailable("the corpus was built with an object, which settings cannot contain")
    # The settings may name a model folder that exists only where the corpus was built. The default embedder may be
    # the same model.
    if Path(spec).is_absolute() and not is_network_path(spec) and not is_folder(spec):
        if (default := _find_default(stored_id)) is not None:
            return default
        require_folder(Path(spec))
    check_allowed(spec)
    # The modules of embedders are loaded only when a file names one: it takes as long as the opening itself.
    from airw.embedders import HashingEmbedder

    try:
        # Whatever the settings call the one that needs no model: its id says that it made the vectors.
        light = resolve_embedder("light", stored_id)
        embedder = light if light.id == stored_id else resolve_embedder(spec)
    except ArgumentError as error:
        raise EmbedderUnavailable(f"its settings name no embedder: {error}") from error
    if isinstance(embedder, HashingEmbedder):
        check_embedder(embedder, stored_id, dim, name)
        return embedder
    from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder

    if isinstance(embedder, SentenceTransformerEmbedder):
        embedder.adopt(stored_id, _MODEL_ADVICE)
    check_embedder(embedder, stored_id, dim, name)
    if isinstance(embedder, OnnxEmbedder | SentenceTransformerEmbedder):
        embedder.check_runnable()
    return embedder


def _find_default(stored_id: str) -> Embedder | None:
    """Return the default embedder if it is the model of these vectors."""
    with suppress(EmbedderUnavailable):
        default = resolve_embedder("default")
        if is_same_model(default, stored_id):
            return default
    return None


def use_corpus(corpus: CorpusLike) -> AbstractAsyncContextManager[OpenCorpus]:
    """Return an async context manager that enters an open corpus.

    A corpus passed by name, path or address is opened, and closed on leaving. An open corpus stays open.

    Raises:
        ArgumentError: If `corpus` is not a corpus; this call raises it, before the context is entered.
        CorpusNotFound: If there is no corpus of that name or at that path.
    """
    if isinstance(corpus, str | os.PathLike):
        return open_corpus(corpus)
    return nullcontext(check_corpus(corpus))


@asynccontextmanager
async def use_store(corpus: CorpusLike) -> AsyncIterator[tuple[str, Store]]:
    """Yield the name and the store of a corpus, without its embedder.

    A corpus passed by name, path or address is opened, and closed on leaving. An open corpus stays open.

    Raises:
        CorpusNotFound: If there is no corpus of that name or at that path.
        ArgumentError: If `corpus` is not a corpus.
    """
    if not isinstance(corpus, str | os.PathLike):
        yield check_corpus(corpus).name, corpus.store
        return
    location = find_location(corpus)
    async with await open_store(location.place) as store:
        config = await ask(store, Config())
        check_settings(location.default_name, config)
        yield location.name_in(config), store
