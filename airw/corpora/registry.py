"""The registry: definitions of corpora by name, in one file, to build and search them."""

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
from airw.corpora.definitions import Definition, Maintenance, check_name, embedder_to_spec, strategy_to_spec
from airw.corpora.naming import PRESETS, corpus_names, home, list_similar_first
from airw.corpora.opening import Corpus, Opening
from airw.corpora.places import CorpusAddress
from airw.corpora.searching import CorpusRetriever, as_retriever
from airw.errors import AirwError, CorpusNotFound, StoreCorrupt, StoreError
from airw.protocols import IndexingStrategy
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery
from airw.stores import is_server_address

_VERSION = 1
_LOCK_TIMEOUT = 30.0  # seconds that one registration waits for others

Entries: TypeAlias = dict[str, Definition]


def list_corpora() -> dict[str, Definition]:
    """Return the definitions of all registered corpora by name, sorted.

    This reads one file and creates none.

    Raises:
        StoreCorrupt: If the registry is damaged, or was written by a newer version of airw.
        StoreError: If the registry cannot be read.

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
        return _parse_registry(json.loads(text))
    except StoreCorrupt as error:
        raise StoreCorrupt(f"the registry {str(path)!r} {error}") from error
    except (AirwError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreCorrupt(
            f"the registry {str(path)!r} is damaged ({one_line(str(error))}); repair or remove the file"
        ) from error


def _parse_registry(content: Any) -> Entries:
    if content["version"] != _VERSION:
        raise StoreCorrupt(f"has version {content['version']!r}, but this airw reads version {_VERSION}; update airw")
    entries = {name: Definition(name=name, **entry) for name, entry in sorted(content["corpora"].items())}
    if len({name.casefold() for name in entries}) < len(entries):
        raise ValueError("two names differ only in case")
    return entries


async def register(
    name: str,
    kind: str,
    *,
    embedder: str | os.PathLike[str] = "default",
    strategy: IndexingStrategy | Mapping[str, Any] | None = None,
    maintenance: Maintenance | None = None,
    store: str | None = None,
    **params: Any,
) -> Definition:
    """Register a corpus, so that `build_corpus`, `maintain` and `coverage` know it by name.

    A corpus of the same name is replaced; names are compared without case. Nothing is built, and no source is read.
    The parameters are checked before anything is written. It runs on asyncio and on trio, and any number of processes
    may register at the same time.

    ```text
    kind            parameters
    files, notes    root=..., and the other parameters of from_files or from_notes
    jsonl           path=..., and the other parameters of from_jsonl
    records         fetcher="module:attribute", and the other parameters of from_records

    packages        those of from_packages
    reports         those of from_md_reports
    skills          those of from_skills
    ```

    All values must be such that they can be written as JSON. `packages`, `reports` and `skills` can be built without
    being registered.

    Every build imports the fetcher and calls it. A registry file alone must never be able to run code, so the
    environment variable `AIRW_FETCHERS` must list its module or a package above it, separated by commas. It is
    checked when the corpus is registered and whenever it is built.

    Args:
        name: At most 100 letters, digits and `._-`, beginning with a letter or digit.
        kind: The kind of its source.
        embedder: The specification of an embedder.
        strategy: An indexing strategy that comes with airw, or its specification; the default depends on the kind.
        maintenance: The schedule of `maintain`. The default is every run, which costs little if nothing changed. For
            `records` it is every 24 hours, because only fetching them shows whether they changed.
        store: The address of the corpus on a server: `postgresql://user:$NAME@host/database`. `$NAME` stands for the
            environment variable with the password, which itself is never registered. From then on, the name leads to
            that server. By default, the corpus is a file in the home folder.
        params: The parameters of the source; paths are stored absolute.

    Returns:
        The definition, as it is stored.

    Raises:
        ArgumentError: If the name, the kind or a parameter cannot be used, or cannot be written as JSON; or if `store`
            contains a password.
        StoreCorrupt: If the registry is damaged.
        StoreError: If the registry cannot be read or written.
        StoreBusy: If other registrations keep it locked for 30 seconds.

    Example:
        >>> async def main():
        ...     await register("vault", "notes", root="/srv/vault", embedder="light")
        ...     known = list_corpora()
        ...     await unregister("vault")
        ...     return known["vault"].params, list_corpora()
        >>> anyio.run(main)
        ({'root': '/srv/vault'}, {})
    """
    spec = strategy_to_spec(strategy)
    definition = Definition(name, kind, params, embedder_to_spec(embedder), spec, maintenance, store)
    # Making the source checks the kind and its parameters.
    await in_thread(definition.source)
    return await save_definition(definition)


async def save_definition(definition: Definition, *, replace: bool = True) -> Definition:
    """Write a definition to the registry and return it.

    With `replace=False`, an existing definition of that name stays, and is returned.
    """

    def change(entries: Entries) -> Entries:
        existing = match_name(entries, definition.name)
        if existing is not None and not replace:
            return entries
        others = {name: entry for name, entry in entries.items() if name != existing}
        return {**others, definition.name: definition}

    entries = await _update_registry(change)
    return entries[str(match_name(entries, definition.name))]


async def unregister(name: str) -> None:
    """Remove a corpus from the registry; a built corpus stays.

    Raises:
        CorpusNotFound: If it is not registered.
        StoreError: If the registry cannot be read or written.

    Example:
        >>> async def main():
        ...     await register("vault", "notes", root="/srv/vault")
        ...     await unregister("Vault")
        ...     return list(list_corpora())
        >>> anyio.run(main)
        []
    """
    # Fail for an unknown name before the home folder and the lock file are created.
    await in_thread(get_registered, name)

    def change(entries: Entries) -> Entries:
        return {key: entry for key, entry in entries.items() if key.casefold() != name.casefold()}

    await _update_registry(change)


def get_registered(name: str) -> Definition:
    """Return the definition of a registered corpus.

    Raises:
        CorpusNotFound: If it is not registered; the message lists similar names and how to register it.
    """
    entries = list_corpora()
    key = match_name(entries, check_name(name))
    if key is not None:
        return entries[key]
    raise _not_found(name, entries)


def find_definition(name: str) -> Definition:
    """Return the definition of a registered corpus, by its name or address, or of a preset.

    Raises:
        CorpusNotFound: If it is none of these.
    """
    if is_server_address(name):
        return _find_at(CorpusAddress.parse(name))
    preset = match_name(PRESETS, check_name(name))
    if preset is not None and match_name(list_corpora(), name) is None:
        return Definition(preset, preset)
    return get_registered(name)


def _find_at(address: CorpusAddress) -> Definition:
    for definition in list_corpora().values():
        if definition.store is not None and CorpusAddress.parse(definition.store, definition.name) == address:
            return definition
    raise CorpusNotFound(
        f"no corpus is registered with the store {str(address)!r}, so its source is not known; register it first"
    )


def match_name(names: Iterable[str], name: str) -> str | None:
    """Return the first of the names that equals `name` without case, or `None`."""
    return next((candidate for candidate in names if candidate.casefold() == name.casefold()), None)


def _not_found(name: str, entries: Mapping[str, Definition]) -> CorpusNotFound:
    import difflib

    built_names = corpus_names()
    if match_name(built_names, name) is not None:
        return CorpusNotFound(f"corpus {name!r} is built, but not registered; call register({name!r}, kind, ...)")
    # Presets are named below anyway; here only if one is probably meant.
    similar_presets = difflib.get_close_matches(name, PRESETS)
    names = {*entries, *built_names, *similar_presets}
    known = f"; known: {list_similar_first(name, names)}" if names else ""
    return CorpusNotFound(
        f"no corpus {name!r} is registered{known}; call register({name!r}, kind, ...), "
        f"or use {', '.join(PRESETS)}, which need no registration"
    )


async def _update_registry(change: Callable[[Entries], Entries]) -> Entries:
    """Apply a change to the registry and return all its entries."""
    folder = await ensure_home()
    # One lock from reading to writing: otherwise two processes read the same entries, and one change is lost.
    async with hold_file(folder / "registry.lock", timeout=_LOCK_TIMEOUT, holder="registration"):
        return await in_thread(_apply_change, change)


def _apply_change(change: Callable[[Entries], Entries]) -> Entries:
    old_entries = list_corpora()
    entries = change(old_entries)
    if entries != old_entries:
        _replace_file(_path(), _format_registry(entries).encode())
    return entries


def _format_registry(entries: Entries) -> str:
    """Return the registry as JSON with one corpus per line."""
    lines = []
    for name in sorted(entries):
        entry = entries[name].to_dict()
        del entry["name"]
        lines.append(f"{json.dumps(name)}: {json.dumps(entry)}")
    joined = ",\n".join(lines)
    return f'{{"version": {_VERSION}, "corpora": {{\n{joined}\n}}}}\n'


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file by new content, all or nothing, even if the power fails."""
    # Always the same name: a draft that a killed process left behind is overwritten. The lock excludes other writers.
    draft = path.with_name(f"{path.name}.new")
    try:
        # The data must be on disk before the rename, or a power failure could leave an empty file.
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        # The rename itself is on disk only after the folder is synced.
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StoreError(f"the registry {str(path)!r} cannot be written ({error.strerror})") from error


def _sync_folder(folder: Path) -> None:
    # Windows cannot open a folder as a file.
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def ensure_home() -> Path:
    """Return the home folder, and create it if it does not exist.

    Raises:
        StoreError: If it cannot be created.
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
    """Build or update a registered corpus and open it.

    `await` the result, or enter it with `async with` to close the corpus afterwards. `packages`, `reports` and
    `skills` need not be registered: their first successful build registers them, with the embedder
    specification that it received, if any. It runs on asyncio only.

    Args:
        name: The name of the corpus in the registry.
        options: The options of `airw.build`. A store, embedder or extractor passed here is used for this build only;
            `maintain` uses the registered ones.

    Returns:
        An `Opening` of the corpus; `corpus.report` has the counts and the problems.

    Raises:
        ArgumentError: If the name, an option or the definition cannot be used.
        CorpusNotFound: If the name is neither registered nor one of those three; nothing is created then.
        SourceError: If the source or an item cannot be read or indexed.
        EmbedderError: If the embedder fails.
        StoreError: If the registry or the store fails.

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
            await save_definition(_with_embedder(definition, options), replace=False)
    except BaseException:
        await corpus.aclose()
        raise
    return corpus


def _with_embedder(definition: Definition, options: BuildOptions) -> Definition:
    """Return the definition with the embedder of this build, for later builds."""
    embedder = options.get("embedder")
    if not isinstance(embedder, str | os.PathLike):
        return definition
    return replace(definition, embedder=embedder_to_spec(embedder))


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def retriever_for(name: str, **options: Unpack[SearchOptions]) -> CorpusRetriever:
    """Return a function of a query that searches a named corpus; the first call opens it.

    Args:
        name: The name of a corpus that is registered or built.
        options: Options of every call, those of `airw.search`; a call may replace them.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If the corpus is neither registered nor built; nothing is created then.

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
        get_registered(name)
    return CorpusRetriever(name, options, "retriever_for")


class Retrievers(Mapping[str, CorpusRetriever]):
    """A mapping of name to retriever for all registered corpora; `retrievers` returns one."""

    def __init__(self, options: SearchOptions) -> None:
        SearchQuery.preset("retrievers", options)
        self._options = options
        self._retrievers: dict[str, CorpusRetriever] = {}
        self._closed = False

    def __getitem__(self, name: str) -> CorpusRetriever:
        """Return the retriever of a corpus, the same one each time.

        Raises:
            CorpusNotFound: If the corpus is not registered.
            StoreError: If the retrievers are closed.
        """
        if not isinstance(name, str):
            raise CorpusNotFound(f"the name of a corpus must be a string, not {short_repr(name)}")
        corpus_name = get_registered(name).name
        if self._closed:
            raise StoreError("the retrievers are closed; create others with retrievers()")
        key = corpus_name.casefold()
        if key not in self._retrievers:
            self._retrievers[key] = as_retriever(corpus_name, **self._options)
        return self._retrievers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list_corpora())

    def __len__(self) -> int:
        return len(list_corpora())

    def __repr__(self) -> str:
        return f"retrievers({', '.join(f'{key}={value!r}' for key, value in self._options.items())})"

    async def aclose(self) -> None:
        """Close all corpora that were opened; closing twice is harmless."""
        self._closed = True
        # The stack closes all of them, even if closing one fails.
        async with AsyncExitStack() as exit_stack:
            for retriever in self._retrievers.values():
                exit_stack.push_async_callback(retriever.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def retrievers(**options: Unpack[SearchOptions]) -> Retrievers:
    """Return the registry as a mapping of name to retriever; a first call opens a corpus.

    The mapping is a view: it always shows the corpora that are registered now.

    Args:
        options: Options of every call, those of `airw.search`; a call may replace them.

    Returns:
        A read-only mapping. Enter it with `async with`, or `await` its `aclose()`, to close the corpora that were
        opened. For an unknown name it raises `CorpusNotFound`, which is a `KeyError`.

    Raises:
        ArgumentError: If an option's value cannot be used.
        FilterError: If the filter is malformed.

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
