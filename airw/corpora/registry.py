"""Named corpora: kept in one file, which is replaced whole under a lock; built and searched by name."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias, Unpack

import anyio

from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.messages import one_line, short_repr
from airw._base.signatures import check_option_names, shows_options
from airw.corpora.building import BUILD_DEFAULTS, BuildOptions, build
from airw.corpora.definitions import PRESETS, Definition, Maintenance, check_name, storable_embedder, storable_strategy
from airw.corpora.naming import corpus_names, home
from airw.corpora.opening import Corpus, Opening
from airw.corpora.searching import CorpusRetriever, as_retriever
from airw.errors import AirwError, CorpusNotFound, StoreCorrupt, StoreError
from airw.protocols import IndexingStrategy
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery

_VERSION = 1
_PATIENCE = 30.0  # seconds that one registration waits for others

Entries: TypeAlias = dict[str, Definition]


def list_corpora() -> dict[str, Definition]:
    """Give the definition of every registered corpus, by name, sorted; reads one file and makes none.

    Raises:
        StoreCorrupt: The registry is damaged, or from a newer version of airw.
        StoreError: It cannot be read.

    Example:
        >>> list_corpora()
        {}
    """
    path = _path()
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"the registry {str(path)!r} cannot be read ({error.strerror})") from error
    try:
        return _parsed(json.loads(text))
    except StoreCorrupt as error:
        raise StoreCorrupt(f"the registry {str(path)!r} {error}") from error
    except (AirwError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreCorrupt(
            f"the registry {str(path)!r} is damaged ({one_line(str(error))}): mend it or remove it"
        ) from error


def _parsed(content: Any) -> Entries:
    if content["version"] != _VERSION:
        raise StoreCorrupt(f"is of version {content['version']!r}, this airw reads version {_VERSION}: update airw")
    found = {name: Definition(name=name, **entry) for name, entry in sorted(content["corpora"].items())}
    if len({name.casefold() for name in found}) < len(found):
        raise ValueError("two names differ only in case")
    return found


async def register(
    name: str,
    kind: str,
    *,
    embedder: str | os.PathLike[str] = "default",
    strategy: IndexingStrategy | Mapping[str, Any] | None = None,
    maintenance: Maintenance | None = None,
    **params: Any,
) -> Definition:
    """Keep how a corpus is made, so that `build_corpus`, `maintain` and `coverage` know it by its name.

    One of the same name, in whatever case of letters, is replaced. Nothing is built and no source is read: what is
    wrong with the parameters themselves is refused before anything is written. On asyncio and on trio; any number of
    processes may register at once.

    ```text
    files notes     root=..., and what else from_files and from_notes take that JSON can say
    jsonl           path=..., and what else from_jsonl takes
    packages        as from_packages; also without being registered
    records         fetcher="module:attribute", and what else from_records takes
    reports         as from_md_reports; also without being registered
    skills          as from_skills; also without being registered
    ```

    A fetcher is imported and called by every build. So that a file alone can never make a program do that, its module,
    or a package that holds it, must be listed in the environment variable `AIRW_FETCHERS`, separated by commas, when
    the corpus is registered and whenever it is built.

    Args:
        name: Letters, digits and `._-`, at most 100, beginning with a letter or digit.
        kind: What makes its source.
        embedder: The specification of an embedder.
        strategy: An indexing strategy that comes with airw, or its specification; the kind's own unless given.
        maintenance: When `maintain` builds it; unless given every 24 hours for `records`, whose changes nothing else
            tells, and with each change of the source for the others.
        params: The parameters of the source; paths are kept absolute.

    Raises:
        ArgumentError: The name, the kind or a parameter cannot be used, or cannot be kept as JSON.
        StoreCorrupt: The registry is damaged.
        StoreError: It cannot be read or written.
        StoreBusy: Other registrations held it for 30 seconds.

    Example:
        >>> async def main():
        ...     await register("vault", "notes", root="/srv/vault", embedder="light")
        ...     known = list_corpora()
        ...     await unregister("vault")
        ...     return known["vault"].params, list_corpora()
        >>> anyio.run(main)
        ({'root': '/srv/vault'}, {})
    """
    own = storable_strategy(strategy)
    definition = Definition(name, kind, params, storable_embedder(embedder), own, maintenance)
    await in_thread(definition.source)
    return await save_definition(definition)


async def save_definition(definition: Definition, *, replace: bool = True) -> Definition:
    """Keep a definition, or give the one that is kept under its name already."""

    def change(entries: Entries) -> Entries:
        known = match_name(entries, definition.name)
        if known is not None and not replace:
            return entries
        rest = {name: each for name, each in entries.items() if name != known}
        return {**rest, definition.name: definition}

    entries = await _changed(change)
    return entries[str(match_name(entries, definition.name))]


async def unregister(name: str) -> None:
    """Forget how a corpus is made; what was built of it stays.

    Raises:
        CorpusNotFound: It is not registered.
        StoreError: The registry cannot be read or written.

    Example:
        >>> async def main():
        ...     await register("vault", "notes", root="/srv/vault")
        ...     await unregister("Vault")
        ...     return list(list_corpora())
        >>> anyio.run(main)
        []
    """
    await in_thread(registered, name)  # before a folder or a lock is made for it

    def change(entries: Entries) -> Entries:
        return {known: each for known, each in entries.items() if known.casefold() != name.casefold()}

    await _changed(change)


def registered(name: str) -> Definition:
    """Give the definition of a registered corpus.

    Raises:
        CorpusNotFound: It is not registered; the message says which are like it, and how to register one.
    """
    entries = list_corpora()
    known = match_name(entries, check_name(name))
    if known is not None:
        return entries[known]
    raise _not_found(name, entries)


def find_definition(name: str) -> Definition:
    """Give the definition of a registered corpus, or of a preset.

    Raises:
        CorpusNotFound: It is neither.
    """
    preset = match_name(PRESETS, check_name(name))
    if preset is not None and match_name(list_corpora(), name) is None:
        return Definition(preset, preset)
    return registered(name)


def match_name(names: Iterable[str], name: str) -> str | None:
    """Give the one of the names that is this one, whatever the case of its letters."""
    return next((known for known in names if known.casefold() == name.casefold()), None)


def _not_found(name: str, entries: Mapping[str, Definition]) -> CorpusNotFound:
    import difflib

    built = corpus_names()
    if match_name(built, name) is not None:
        return CorpusNotFound(f"corpus {name!r} is built, but not registered: register({name!r}, kind, ...) does that")
    near = difflib.get_close_matches(name, sorted({*entries, *built, *PRESETS})) or sorted(entries)[:3]
    known = f"; known: {', '.join(near)}" if near else ""
    return CorpusNotFound(
        f"no corpus {name!r} is registered{known}; register({name!r}, kind, ...) does that, "
        f"and {', '.join(PRESETS)} need none"
    )


async def _changed(change: Callable[[Entries], Entries]) -> Entries:
    """Read, change and replace the registry while nobody else does."""
    folder = await made_home()
    async with hold_file(folder / "registry.lock", timeout=_PATIENCE, holder="registration"):
        return await in_thread(_replaced, change)


def _replaced(change: Callable[[Entries], Entries]) -> Entries:
    before = list_corpora()
    entries = change(before)
    if entries != before:
        _write(_path(), _written(entries).encode())
    return entries


def _written(entries: Entries) -> str:
    """Give the registry as JSON, one corpus a line."""
    listed = [(name, entries[name].to_dict()) for name in sorted(entries)]
    kept = [(name, {key: value for key, value in each.items() if key != "name"}) for name, each in listed]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in kept)
    return f'{{"version": {_VERSION}, "corpora": {{\n{lines}\n}}}}\n'


def _write(path: Path, data: bytes) -> None:
    """Put new content in a file's place at once, so that it holds the old or the new, even when the power fails."""
    draft = path.with_name(f"{path.name}.new")  # always this name: what a killed process left is overwritten
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StoreError(f"the registry {str(path)!r} cannot be written ({error.strerror})") from error


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def made_home() -> Path:
    """Give the home folder, made where there is none.

    Raises:
        StoreError: It cannot be made.
    """
    folder = home()
    try:
        await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from error
    return folder


def _path() -> Path:
    return home() / "registry.json"


@shows_options(BuildOptions, BUILD_DEFAULTS)
def build_corpus(name: str, **options: Unpack[BuildOptions]) -> Opening[Corpus]:
    """Bring a registered corpus up to date and open it; awaitable, and an async context manager that closes it.

    `packages`, `reports` and `skills` need not be registered: the first build under one of those names that succeeds
    registers it, with the specification of the embedder that was given. On asyncio only.

    Args:
        name: The name it is registered under.
        options: Those of `airw.build`. A store, an embedder or an extractor given here is for this build; what
            `maintain` builds later is what is registered.

    Raises:
        ArgumentError: The name, an option or the definition cannot be used.
        CorpusNotFound: It is neither registered nor one of those three; nothing is made for it.
        SourceError: The source or an item of it cannot be read or indexed.
        EmbedderError: The embedder failed.
        StoreError: The registry or the store failed.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault") as corpus:
        ...         return corpus.name, corpus.report.added
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ('vault', 1)
    """
    check_option_names("build_corpus", options, BUILD_DEFAULTS)
    return Opening(_build(name, options))


async def _build(name: str, options: BuildOptions) -> Corpus:
    definition = await in_thread(find_definition, name)
    source = await in_thread(definition.source)
    corpus = await build(source, **options)
    try:
        if definition.name in PRESETS:
            await save_definition(_built_with(definition, options), replace=False)
    except BaseException:
        await corpus.aclose()
        raise
    return corpus


def _built_with(definition: Definition, options: BuildOptions) -> Definition:
    """Give the definition with the embedder that was asked for, so that later builds do not change it."""
    asked = options.get("embedder")
    return (
        replace(definition, embedder=storable_embedder(asked)) if isinstance(asked, str | os.PathLike) else definition
    )


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def retriever_for(name: str, **options: Unpack[SearchOptions]) -> CorpusRetriever:
    """Bind a corpus, by its name, and options to a function of a query; the first call opens it.

    Args:
        name: The name of a corpus that is registered or built.
        options: Options for every call, those of `airw.search`; those that a call gives replace them.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        CorpusNotFound: It is neither registered nor built; nothing is made for it.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry import build_corpus
        >>> from airw.corpora.registry import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault"), retriever_for("vault", mode="lexical", k=1) as retriever:
        ...         return [hit.artifact_id for hit in await retriever("keys")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ['a.md']
    """
    if match_name(corpus_names(), check_name(name)) is None:
        registered(name)
    return CorpusRetriever(name, options, "retriever_for")


class Retrievers(Mapping[str, CorpusRetriever]):
    """The retrievers of all registered corpora by name; `retrievers` makes it."""

    def __init__(self, options: SearchOptions) -> None:
        SearchQuery.parse("retrievers", "", options)
        self._options = options
        self._made: dict[str, CorpusRetriever] = {}
        self._closed = False

    def __getitem__(self, name: str) -> CorpusRetriever:
        """Give the retriever of a corpus, the same one each time.

        Raises:
            CorpusNotFound: It is not registered.
            StoreError: All are closed.
        """
        if not isinstance(name, str):
            raise CorpusNotFound(f"a corpus is named by a string, not {short_repr(name)}")
        known = registered(name).name
        if self._closed:
            raise StoreError("the retrievers are closed; make others with retrievers()")
        if known.casefold() not in self._made:
            self._made[known.casefold()] = as_retriever(known, **self._options)
        return self._made[known.casefold()]

    def __iter__(self) -> Iterator[str]:
        return iter(list_corpora())

    def __len__(self) -> int:
        return len(list_corpora())

    def __repr__(self) -> str:
        return f"retrievers({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"

    async def aclose(self) -> None:
        """Close all that were opened; closing twice is harmless."""
        self._closed = True
        async with AsyncExitStack() as closing:  # which goes on where one fails
            for retriever in self._made.values():
                closing.push_async_callback(retriever.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def retrievers(**options: Unpack[SearchOptions]) -> Retrievers:
    """Give a view of the registry as a mapping of name to retriever, always current; each opens at its first call.

    Args:
        options: Options for every call, those of `airw.search`; those that a call gives replace them.

    Returns:
        A read-only mapping; `async with` it, or `await` its `aclose()`, to close the corpora that were opened. An
        unknown name is a `CorpusNotFound`, which is a `KeyError`.

    Raises:
        ArgumentError: An option's value cannot be used.
        FilterError: The filter is malformed.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry import build_corpus
        >>> from airw.corpora.registry import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault"), retrievers(mode="lexical") as known:
        ...         return [(name, len(await retriever("keys"))) for name, retriever in known.items()]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        [('vault', 1)]
    """
    return Retrievers(options)
