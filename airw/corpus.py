"""Corpora and their names: here, and nowhere below, a name becomes an open corpus.

A corpus is one file, `corpora/<name>.airw` under `$AIRW_HOME`, else `$XDG_DATA_HOME/airw`, else `~/.local/share/airw`.
A string is a name unless it holds a separator or ends in `.airw`; an `os.PathLike` is always a path.
"""

import os
from collections.abc import Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

import anyio

from airw._concurrency import in_thread
from airw.embedders import check_embedder, resolve_embedder
from airw.errors import ArgumentError, CorpusNotFound, EmbedderMismatch, EmbedderUnavailable, NoLedgerEntry
from airw.protocols import Embedder, EmbedderLike, OpenCorpus, Store
from airw.retrieval import SearchOptions, check_corpus, retrieve
from airw.sources import is_valid_name
from airw.stores import SqliteStore
from airw.values import ItemProblem, Record, SearchHit

__all__ = [
    "CUSTOM",
    "BuildReport",
    "Corpus",
    "Opening",
    "corpus_names",
    "corpus_path",
    "existing_path",
    "home",
    "is_name",
    "open_corpus",
    "records_for_artifact",
    "search",
]

CUSTOM = "custom"
"""What the settings of a corpus say in place of a specification when its embedder was given as an object."""

_SUFFIX = ".airw"


class _Closable(Protocol):
    async def aclose(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


class Opening(Generic[Opened]):
    """Something on its way to being open: await it and close it yourself, or enter it and it is closed for you.

    Example:
        >>> import anyio
        >>> from airw.building import build
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


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did.

    Args:
        added: Artifacts that were not in the corpus before.
        updated: Artifacts written again, because they or the way to index them changed.
        unchanged: Artifacts that needed nothing.
        removed: Artifacts taken out, because their source no longer has them.
        problems: What could not be indexed, or not whole, in the order of the pages read.
        seconds: How long it took, waiting for another builder included.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    problems: tuple[ItemProblem, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """An open corpus, made by `build` or `open_corpus`: a name, a store, and the embedder its vectors came from.

    Args:
        name: Hits carry it as their source.
        store: Where everything is held.
        embedder: What embeds queries.
        report: What the build did that opened it; `None` when it was opened otherwise.
        owns_store: Whether closing the corpus closes the store.

    Example:
        >>> import anyio
        >>> from airw.building import build
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
    report: BuildReport | None = None
    owns_store: bool = False

    @property
    def embedder_id(self) -> str:
        """Name the model and weights that its vectors came from."""
        return self.embedder.id

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """Rank what this corpus holds against a query; the options are those of `airw.retrieval.retrieve`."""
        return await retrieve(self, query, **options)

    async def aclose(self) -> None:
        """Close the store if the corpus opened it; closing twice is harmless."""
        if self.owns_store:
            with anyio.CancelScope(shield=True):
                await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def home() -> Path:
    """Give the folder that holds what airw keeps; it need not exist."""
    if own := os.environ.get("AIRW_HOME"):
        return Path(own).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "airw"


def is_name(name_or_path: str | os.PathLike[str]) -> bool:
    """Say whether something means a corpus by its name rather than by its path.

    Example:
        >>> is_name("notes"), is_name("./notes"), is_name("notes.airw"), is_name(Path("notes"))
        (True, False, False, False)
    """
    if not isinstance(name_or_path, str):
        return False
    return not name_or_path.endswith(_SUFFIX) and not {"/", os.sep, os.altsep}.intersection(name_or_path)


def corpus_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Give the file of a corpus, whether it exists or not; a name finds its file whatever the case of its letters.

    Raises:
        ArgumentError: It is neither a path nor a name that a corpus can have.

    Example:
        >>> corpus_path("notes").name
        'notes.airw'
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise ArgumentError(f"a corpus is named by a string or a path, not {name_or_path!r}")
    if not is_name(name_or_path):
        return Path(name_or_path)
    name = os.fspath(name_or_path)
    if not is_valid_name(name):
        rule = "use 1 to 100 letters, digits, '.', '_' or '-', a letter or digit first"
        raise ArgumentError(f"{name[:120]!r} cannot name a corpus: {rule}")
    spelled = {known.casefold(): known for known in corpus_names()}
    return _folder() / f"{spelled.get(name.casefold(), name)}{_SUFFIX}"


def corpus_names() -> list[str]:
    """Give the names of all corpora in the home folder, sorted.

    Example:
        >>> corpus_names()
        []
    """
    return sorted(file.stem for file in _folder().glob(f"*{_SUFFIX}") if is_valid_name(file.stem))


def open_corpus(name_or_path: str | os.PathLike[str], *, embedder: EmbedderLike | None = None) -> Opening[Corpus]:
    """Open a corpus that was built before; awaitable, and an async context manager that closes it again.

    No model is loaded before the first query that needs one, and nothing is written: a folder that cannot be written
    will do, as long as nobody else writes to it meanwhile. On asyncio only.

    Args:
        name_or_path: Its name, or the path of its file.
        embedder: The embedder it was built with; left out, the one that its settings name. One given as an object at
            the build must be given again.

    Raises:
        CorpusNotFound: There is none, or its first build was cut short before it wrote anything.
        EmbedderMismatch: It was built with another embedder.
        StoreCorrupt: The file is not a corpus, or is damaged.

    Example:
        >>> import anyio, tempfile
        >>> from airw.building import build
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
    return Opening(_open(name_or_path, embedder))


async def _open(name_or_path: str | os.PathLike[str], embedder: EmbedderLike | None) -> Corpus:
    path = existing_path(name_or_path)
    store = await SqliteStore.open(path)
    try:
        config = await store.config()
        name = path.stem if is_name(name_or_path) else config.get("name", path.stem)
        return Corpus(name, store, await in_thread(_embedder, name, config, embedder), owns_store=True)
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


async def search(
    corpus: OpenCorpus | str | os.PathLike[str], query: str, **options: Unpack[SearchOptions]
) -> list[SearchHit]:
    """Rank what a corpus holds against a query, as `airw.retrieval.retrieve` does.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        query: What to look for.
        k: Give at most this many hits; this and what follows as in `retrieve`.
        mode: `"dense"`, `"lexical"` or `"hybrid"`.
        filter: Rank only records whose metadata satisfy it.
        surfaces: Rank only surfaces of these kinds.
        per_artifact: Rank artifacts instead of surfaces.
        fetch_k: How deep a hybrid search reads each channel.
        rrf_k: The rank constant of a hybrid search.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        ArgumentError: A parameter's value cannot be used.
        FilterError: The filter is malformed.

    Example:
        >>> import anyio
        >>> from airw.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return [hit.artifact_id for hit in await search(corpus, "bread", mode="lexical")]
        >>> anyio.run(main)
        ['b']
    """
    async with _borrowed(corpus) as opened:
        return await retrieve(opened, query, **options)


def _borrowed(corpus: OpenCorpus | str | os.PathLike[str]) -> AbstractAsyncContextManager[OpenCorpus]:
    return open_corpus(corpus) if isinstance(corpus, str | os.PathLike) else nullcontext(check_corpus(corpus))


async def records_for_artifact(
    corpus: OpenCorpus | str | os.PathLike[str], artifact_id: str, *, surface_kind: str | None = None
) -> list[Record]:
    """Give all records of one artifact in plan order, or those of one surface kind; needs no embedder.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        NoLedgerEntry: The corpus does not hold the artifact.

    Example:
        >>> import anyio
        >>> from airw.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "text"}, name="notes")
        ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
        ...         return [record.surface_kind for record in await records_for_artifact(corpus, "a")]
        >>> anyio.run(main)
        ['document']
    """
    kinds = None if surface_kind is None else [surface_kind]
    if isinstance(corpus, str | os.PathLike):
        async with await SqliteStore.open(existing_path(corpus)) as store:
            name, (records,) = os.fspath(corpus), await store.records_of([artifact_id], kinds=kinds)
    else:
        name, (records,) = check_corpus(corpus).name, await corpus.store.records_of([artifact_id], kinds=kinds)
    if records is None:
        raise NoLedgerEntry(f"corpus {name!r} holds no artifact {artifact_id!r}")
    return records


def existing_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Give the file of a corpus that exists.

    Raises:
        CorpusNotFound: There is none; where a name was given, the message lists those like it.
    """
    path = corpus_path(name_or_path)
    try:
        if path.is_file():
            return path
    except OSError:  # it may be there: opening it says what is wrong
        return path
    if not is_name(name_or_path):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build(source, store=Path(...)) makes one")
    import difflib

    near = difflib.get_close_matches(path.stem, corpus_names()) or corpus_names()[:3]
    known = f"; known: {', '.join(near)}" if near else ", nor any other"
    raise CorpusNotFound(f"there is no corpus {path.stem!r} in {str(path.parent)!r}{known}; build(source) makes one")


def _folder() -> Path:
    return home() / "corpora"
