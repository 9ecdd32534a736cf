"""A build from a source: open the store, run the stages, prune, report."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import anyio

from airw._base.checks import check_choice, check_count, check_methods
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names, shows_options
from airw.corpora.naming import corpus_path, is_corpus_name
from airw.corpora.opening import CUSTOM, Corpus, Opening
from airw.corpora.pipeline import Builder, BuildProgress, BuildReport, SourcePages, report_of, with_survey
from airw.corpora.recipes import UPSERT_SOURCE, BuildRecipe, OnError, recipes_by_source
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable, SourceError, StoreError
from airw.protocols import EdgeExtractor, Embedder, EmbedderLike, Source, Store
from airw.stores import SqliteStore

_METHODS = ("writing", "config", "set_config", "artifact_ids", "ledger", "get_records", "vectors", "apply")


class BuildOptions(TypedDict, total=False):
    """The options of `build`, which says what they mean."""

    store: Store | str | os.PathLike[str] | None
    embedder: EmbedderLike | None
    full: bool
    force: bool
    batch_size: int
    edge_extractor: EdgeExtractor | None
    progress: Callable[[BuildProgress], None] | None
    on_error: OnError


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What a build was asked for, with what the source says filled in; fields with a default are options of `build`.

    Args:
        source: Where the artifacts come from.
        place: The store, or the file of the corpus.
        name: The name that the corpus was given; `None` where it was given a store or a path.
        spec: The embedder or its specification.
        extractor: What finds links.
    """

    source: Source
    place: Store | Path
    name: str | None
    spec: EmbedderLike
    extractor: EdgeExtractor | None
    full: bool = True
    force: bool = False
    batch_size: int = 256
    progress: Callable[[BuildProgress], None] | None = None
    on_error: OnError = "raise"

    @classmethod
    def from_options(cls, verb: str, source: Source, options: BuildOptions) -> Self:
        """Check a source and the options that were given; `verb` is the function that was called.

        Raises:
            ArgumentError: A value cannot be used.
            TypeError: There is no such option.
        """
        check_option_names(verb, options, BUILD_DEFAULTS)
        given: dict[str, Any] = {**options}
        store, embedder, extractor = (given.pop(name, None) for name in ("store", "embedder", "edge_extractor"))
        if isinstance(source, type) or not all(hasattr(source, part) for part in ("name", "items", "change_signal")):
            makers = "from_notes(folder) or from_mapping(items, name=...)"
            raise ArgumentError(f"{verb} takes a source, such as {makers}, not {short_repr(source)}")
        check_choice("on_error", given.get("on_error", "raise"), ("raise", "skip"))
        check_count("batch_size", given.get("batch_size", 1), least=1)
        place, name = _named(source) if store is None else store, None
        if isinstance(place, str | os.PathLike):
            path = corpus_path(place)
            place, name = path, path.stem if is_corpus_name(place) else None
        elif not hasattr(place, "writing"):
            raise ArgumentError(f"store must be a Store, or the name or path of a corpus, not {short_repr(place)}")
        return cls(
            source=source,
            place=place,
            name=name,
            spec=source.embedder if embedder is None else embedder,
            extractor=source.edge_extractor if extractor is None else extractor,
            **given,
        )

    def resolve(self) -> tuple[Embedder, BuildRecipe]:
        """Return the embedder, and what it makes of an artifact; its id may be read from a model's weights."""
        embedder = resolve_embedder(self.spec)
        return embedder, BuildRecipe.of(self.source, embedder.id, self.extractor, self.on_error)

    @asynccontextmanager
    async def hold_store(self, opened: AsyncExitStack, before: Callable[[], Awaitable[object]]) -> AsyncIterator[Store]:
        """Hold the store for writing; a file is opened as long as `opened` is, and made only once `before` is back."""
        if not isinstance(self.place, Path):
            async with self.place.writing():
                yield self.place
            return
        store = await _file_store(self.place, before)
        async with store.writing():
            await opened.enter_async_context(store)  # under the lock: two builders never make one file at once
            yield store


_DEFAULTS = {each.name: each.default for each in fields(BuildRequest) if each.name in BuildOptions.__annotations__}
BUILD_DEFAULTS: Mapping[str, Any] = {"store": None, "embedder": None, **_DEFAULTS, "edge_extractor": None}
"""What each option of `build` is when it is left out."""


def _named(source: Source) -> str:
    """Return the source's name when a corpus can have it."""
    if not isinstance(source.name, str) or not is_corpus_name(source.name):
        raise ArgumentError(f"source {source.name!r} cannot name a corpus; say where it goes: store=Path(...)")
    return source.name


async def _file_store(path: Path, before: Callable[[], Awaitable[object]]) -> SqliteStore:
    """Return the store of a corpus's file, not yet open; its folder is made only once `before` has come back."""
    with suppress(PermissionError):  # else it may exist, and locking it says what is wrong
        if await anyio.Path(path).exists():
            return SqliteStore(path)
        await before()
        try:
            await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(path.parent)!r} cannot be made: {error.strerror}") from error
    return SqliteStore(path)


@shows_options(BuildOptions, BUILD_DEFAULTS)
def build(source: Source, **options: Unpack[BuildOptions]) -> Opening[Corpus]:
    """Bring a corpus up to date with its source and open it; awaitable, and an async context manager that closes it.

    Incremental: an artifact is decomposed and its links are found again only when the source's change signal for it,
    the embedder, the strategy or the extractor is another; it is embedded again only when the text of a surface or the
    embedder is. An extractor that has to know all artifacts, as `TitleMentions` does, is shown them first: the source
    is read twice then. Each page is written in one transaction, so that a build that is killed, is cancelled or fails
    leaves a valid corpus, which the next build completes. Reading, decomposing, embedding and writing overlap. A second
    builder of the same corpus waits.

    With another embedder everything is embedded again. What the old one made leaves just before the first new vectors
    arrive, since the two cannot be compared. Files need asyncio; a `MemoryStore` works on trio, too.

    Args:
        source: Where the artifacts come from, and how they are indexed.
        store: A store, which stays the caller's; or the name or path of a corpus. Left out, the source's name.
        embedder: A specification or an embedder; the source's when left out.
        full: Remove the artifacts that came from this source and are no longer in it.
        force: Let a source without any artifact empty the corpus.
        batch_size: Items read, embedded and written at once.
        edge_extractor: What finds links; the source's when left out.
        progress: Called with the counts so far after each page.
        on_error: `"raise"`: the first item that cannot be indexed ends the build. `"skip"`: it is left out and
            reported; what was indexed of it before is kept, unless another embedder made it.

    Returns:
        The open corpus; `corpus.report` says what was done.

    Raises:
        ArgumentError: A parameter's value cannot be used, or the source's name cannot name a corpus.
        SourceError: The source or an item of it cannot be read or indexed, or nothing of it would be left.
        EmbedderError: The embedder failed, or the corpus also holds what another embedder made (`EmbedderMismatch`).
        StoreError: The store failed, or another builder held it for too long (`StoreBusy`).

    Example:
        >>> import anyio
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts, store = {"a": "one", "b": "two"}, MemoryStore()
        ...     await build(from_mapping(texts, name="notes"), store=store, embedder="light")
        ...     texts = {"a": "one!", "c": "three"}
        ...     async with build(from_mapping(texts, name="notes"), store=store, embedder="light") as corpus:
        ...         report = corpus.report
        ...     return report.added, report.updated, report.unchanged, report.removed
        >>> anyio.run(main)
        (1, 1, 0, 1)
    """
    request = BuildRequest.from_options("build", source, options)
    if not isinstance(request.place, Path):
        check_methods("build", request.place, _METHODS)
    return Opening(_build(request))


async def _build(request: BuildRequest) -> Corpus:
    start = time.perf_counter()
    embedder, recipe = await in_thread(request.resolve)
    async with AsyncExitStack() as opened, aclosing(SourcePages(request.source, request.batch_size)) as pages:
        async with request.hold_store(opened, pages.peek) as store:
            recipe = await with_survey(recipe, request.source, request.batch_size)
            config = await make_config(request, recipe, store, embedder)
            outdated = await find_outdated(request, recipe, store, config)
            builder = Builder(recipe, store, embedder, config, outdated, request.progress)
            await builder.run(pages)
            pruning = await find_pruning(builder, full=request.full, force=request.force)
            if pruning.stored:
                await store.apply([], removals=pruning.stored)
            await builder.write_settings()
        opened.pop_all()
    report = report_of([builder], removed=pruning.count, seconds=time.perf_counter() - start)
    return built_corpus(builder, report, owns_store=isinstance(request.place, Path))


def built_corpus(builder: Builder, report: BuildReport, *, owns_store: bool) -> Corpus:
    """Return the open corpus that a builder has finished."""
    return Corpus(
        builder.config["name"],
        builder.store,
        builder.embedder,
        report,
        owns_store=owns_store,
        strategy=builder.recipe.strategy,
        edge_extractor=builder.recipe.extractor,
    )


async def make_config(request: BuildRequest, recipe: BuildRecipe, store: Store, embedder: Embedder) -> dict[str, Any]:
    """Return the settings of the corpus after this build."""
    stored = await store.config()
    same = stored.get("embedder_id") == recipe.embedder_id
    keeps_spec = same and not isinstance(request.spec, str | os.PathLike)
    return {
        **stored,
        "name": request.name or stored.get("name", request.source.name),
        "embedder": stored["embedder"] if keeps_spec else await in_thread(_spec, request.spec, recipe.embedder_id),
        "embedder_id": recipe.embedder_id,
        "dim": stored["dim"] if same else await _width(embedder),
        "strategy_id": recipe.strategy_id,
        "extractor_id": recipe.extractor_id,
        "source": request.source.name,
        "recipes": await in_thread(recipes_by_source, recipe, stored),
    }


def _spec(given: EmbedderLike, embedder_id: str) -> str:
    """Return the specification that makes an embedder again, from any working folder, where there is one."""
    if isinstance(given, str | os.PathLike):
        folder = Path(given).expanduser()
        return str(folder.absolute()) if isinstance(given, os.PathLike) or _is_folder(given) else given
    for spec in ("light", "default"):
        with suppress(EmbedderUnavailable):
            if resolve_embedder(spec).id == embedder_id:
                return spec
    return CUSTOM


def _is_folder(spec: str) -> bool:
    return bool({os.sep, os.altsep}.intersection(spec)) and Path(spec).expanduser().is_dir()


async def _width(embedder: Embedder) -> int:
    """Return the width of the vectors; some models know it only once they have been asked for vectors."""
    try:
        return await in_thread(lambda: embedder.dim)
    except EmbedderUnavailable:
        raise
    except EmbedderError:
        await embedder.embed_documents([])
        return embedder.dim


async def find_outdated(
    request: BuildRequest, recipe: BuildRecipe, store: Store, config: Mapping[str, Any]
) -> frozenset[str]:
    """Return the artifacts that another embedder made, all of which must be this source's to embed again.

    Raises:
        EmbedderMismatch: There are others.
    """
    old = (await store.config()).get("embedder_id", config["embedder_id"])
    if old == config["embedder_id"]:
        return frozenset()
    entries = [entry for entry in await store.ledger() if entry is not None]
    others = sorted({entry.source or UPSERT_SOURCE for entry in entries if not recipe.owns(entry)})
    if others or (entries and not request.full):
        why = f"holds artifacts of {', '.join(map(repr, others))}" if others else "may hold what full=False leaves out"
        raise EmbedderMismatch(
            f"corpus {config['name']!r} cannot change from embedder {old!r} to {recipe.embedder_id!r}, as it {why}: "
            f"build with the old one{'' if others else ', with full=True'} or into another store"
        )
    return frozenset(entry.artifact_id for entry in entries)


@dataclass(frozen=True, slots=True)
class Pruning:
    """What leaves a corpus at the end of a build: how many artifacts, and which of them are still stored."""

    count: int = 0
    stored: tuple[str, ...] = ()


async def find_pruning(builder: Builder, *, full: bool, force: bool) -> Pruning:
    """Return what the source no longer has.

    Raises:
        SourceError: That is all there is, without `force`.
    """
    if not full:
        return Pruning()
    unseen = builder.find_unseen(await builder.store.artifact_ids())
    entries = await builder.store.ledger(unseen)
    vanished = [entry.artifact_id for entry in entries if entry is not None and builder.recipe.owns(entry)]
    gone = builder.outdated.difference(builder.held).union(vanished)
    if gone and not builder.held and not force:
        raise SourceError(
            f"source {builder.recipe.source.name!r} gave nothing to index, but {len(gone)} of its artifacts are "
            "indexed: check the source, or build with force=True to remove them all"
        )
    return Pruning(len(gone), tuple(vanished))
