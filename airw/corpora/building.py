"""A build from a source: open the store, run the stages, prune, report."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

import anyio

from airw._base.checks import check_choice, check_count, check_flag, check_kind
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names, shows_options
from airw.corpora.floors import refresh_floors
from airw.corpora.locking import lock_file, lock_server
from airw.corpora.naming import is_corpus_name
from airw.corpora.opening import CUSTOM, Corpus, Opening
from airw.corpora.pipeline import BatchSize, Builder, BuildReport, sum_reports, with_survey
from airw.corpora.places import CorpusAddress, locate
from airw.corpora.problems import forget_problems
from airw.corpora.progress import Progress, ProgressMeter
from airw.corpora.recipes import UPSERT_SOURCE, BuildRecipe, OnError, fit_strategy, keep_extractor, recipes_by_source
from airw.corpora.settings import check_settings
from airw.corpora.source_pages import SourcePages
from airw.corpora.trust import remember_embedder
from airw.embedders import HashingEmbedder, MissingEmbedder, is_same_model, resolve_embedder
from airw.errors import (
    ArgumentError,
    EmbedderError,
    EmbedderMismatch,
    EmbedderUnavailable,
    SourceError,
)
from airw.links.sites import SiteSurvey, site_of
from airw.links.unresolved import find_files
from airw.protocols import (
    ArtifactIds,
    Change,
    Config,
    EdgeExtractor,
    Embedder,
    EmbedderLike,
    Ledger,
    Source,
    Store,
    ask,
    check_capabilities,
    check_store,
)
from airw.stores import DURABILITIES, Durability, SqliteStore
from airw.values import Language, check_language

R = TypeVar("R")

_LARGEST_BATCH, _LARGEST_PAGE = 512, 2_048


class BuildOptions(TypedDict, total=False):
    """The options of `build`; see there for their meaning."""

    store: Store | str | os.PathLike[str] | None
    embedder: EmbedderLike | None
    full: bool
    force: bool
    batch_size: int
    edge_extractor: EdgeExtractor | None
    progress: Progress | None
    on_error: OnError
    durability: Durability
    language: Language | Literal["auto"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """The checked arguments of a build, with the defaults that the source provides.

    The fields with a default are options of `build`.

    Args:
        source: Where the artifacts come from.
        target: The store, or the path of the corpus file, or its address on a server.
        name: The corpus name that the caller passed; `None` if the caller passed a store or a path.
        spec: The embedder or its specification.
        extractor: The extractor of links; `None` for no links.
        largest_batch: The largest number of artifacts that are embedded and written at once.
        largest_page: The largest number of items that are read and compared with the corpus at once.
    """

    source: Source
    target: Store | Path | CorpusAddress
    name: str | None
    spec: EmbedderLike
    extractor: EdgeExtractor | None
    largest_batch: int
    largest_page: int
    full: bool = True
    force: bool = False
    batch_size: int = 256
    progress: Progress | None = None
    on_error: OnError = "raise"
    durability: Durability = "normal"
    language: Language | Literal["auto"] | None = "auto"

    @classmethod
    def from_options(cls, verb: str, source: Source, options: BuildOptions) -> Self:
        """Check the arguments of `verb`, the function that the caller used.

        Raises:
            ArgumentError: If a value cannot be used.
            TypeError: If there is no such option.
        """
        check_option_names(verb, options, BUILD_DEFAULTS)
        values: dict[str, Any] = {**options}
        store, embedder, extractor = (values.pop(name, None) for name in ("store", "embedder", "edge_extractor"))
        if isinstance(source, type) or not all(hasattr(source, part) for part in ("name", "items", "change_signal")):
            makers = "from_notes(folder) or from_mapping(items, name=...)"
            raise ArgumentError(f"{verb} takes a source, such as {makers}, not {short_repr(source)}")
        check_choice("on_error", values.get("on_error", "raise"), ("raise", "skip"))
        check_count("batch_size", values.get("batch_size", 1), least=1)
        if values.get("language", "auto") != "auto":
            check_language(values["language"])
        check_choice("durability", values.get("durability", "normal"), DURABILITIES)
        for flag in ("full", "force"):
            check_flag(flag, values.get(flag, False))
        progress = values.get("progress")
        check_kind("progress", progress, Callable | None, "be a function of a BuildProgress")
        target = _check_source_name(source) if store is None else store
        name = None
        if isinstance(target, type):
            kind = target.__name__
            raise ArgumentError(f"store must be an instance, not the class {kind}; pass {kind}(...)")
        if isinstance(target, str | os.PathLike):
            target, name = _locate_target(target, source)
        elif not hasattr(target, "writing"):
            raise ArgumentError(
                f"store must be a Store, or the name, path or address of a corpus, not {short_repr(target)}"
            )
        if not isinstance(target, Path) and "durability" in values:
            kind = f"for {str(target)!r}" if isinstance(target, CorpusAddress) else "for a store that is passed"
            raise ArgumentError(f"durability is for a corpus file, not {kind}")
        return cls(
            source=source,
            target=target,
            name=name,
            spec=source.embedder if embedder is None else embedder,
            extractor=source.edge_extractor if extractor is None else extractor,
            largest_batch=values.get("batch_size", _LARGEST_BATCH),
            largest_page=values.get("batch_size", _LARGEST_PAGE),
            **values,
        )

    def resolve(self) -> tuple[Embedder, BuildRecipe]:
        """Return the embedder and the recipe of the build.

        Call it in a worker thread: it reads the embedder's id, which may mean hashing a model's weights.

        Raises:
            EmbedderError: If the embedder is one that is not here.
        """
        embedder = resolve_embedder(self.spec)
        # Even if nothing had to be embedded: the settings would keep an embedder that nobody here allowed.
        if isinstance(embedder, MissingEmbedder):
            raise embedder.make_error()
        return embedder, BuildRecipe.of(self.source, embedder.id, self.extractor, self.on_error)

    @asynccontextmanager
    async def lock_store(
        self, exit_stack: AsyncExitStack, before_create: Callable[[], Awaitable[object]]
    ) -> AsyncIterator[Store]:
        """Lock the store for writing and yield it.

        If the target is a file, it is checked. If the target is no store, `exit_stack` closes its store. If the corpus
        does not exist yet, `before_create` runs first; if that fails, nothing is created. If the block fails before it
        has written an artifact into a new corpus, the corpus is removed.

        Raises:
            StoreCorrupt: If the file is damaged.
        """
        language = "en" if self.language == "auto" else self.language
        if isinstance(self.target, Path):
            file_store = SqliteStore(self.target, durability=self.durability, language=language)
            async with lock_file(file_store, self.target, exit_stack, before_create):
                yield file_store
        elif isinstance(self.target, CorpusAddress):
            server_store = self.target.new_store(language)
            async with lock_server(server_store, exit_stack, before_create):
                yield server_store
        else:
            async with self.target.writing():
                yield self.target

    async def set_language(self, store: Store) -> None:
        """Index the texts of a store again if the caller passed another language."""
        if self.language == "auto":
            return
        check_capabilities(f"language={self.language!r} in build", store, "words")
        await store.apply(Change(language=self.language))


_DEFAULTS = {field.name: field.default for field in fields(BuildRequest) if field.name in BuildOptions.__annotations__}
BUILD_DEFAULTS: Mapping[str, Any] = {"store": None, "embedder": None, **_DEFAULTS, "edge_extractor": None}
"""The default of each option of `build`."""


def _check_source_name(source: Source) -> str:
    """Return the source's name if a corpus can have it."""
    if not isinstance(source.name, str) or not is_corpus_name(source.name):
        raise ArgumentError(f"source name {source.name!r} cannot name a corpus; pass a path: store=Path(...)")
    return source.name


def _locate_target(name_or_path: str | os.PathLike[str], source: Source) -> tuple[Path | CorpusAddress, str | None]:
    """Return where a build writes, and the name that the corpus gets; `None` for a path.

    An address without a corpus is completed by the name of the source.
    """
    place, name = locate(name_or_path, source.name if isinstance(source.name, str) else None)
    return place, place.name if name is None and isinstance(place, CorpusAddress) else name


@shows_options(BuildOptions, BUILD_DEFAULTS)
def build(source: Source, **options: Unpack[BuildOptions]) -> Opening[Corpus]:
    """Build or update a corpus from its source and open it.

    `await` the result, or enter it with `async with` to close the corpus afterwards.

    A build is incremental. An artifact is decomposed again, and its links extracted again, only if its change signal,
    the embedder, the strategy or the extractor has changed. It is embedded again only if the text of a surface, its
    context or the embedder has changed. Some extractors, such as `TitleMentions`, must see all artifacts first; the
    source is then read twice.

    Reading, decomposing, embedding and writing overlap. Each page of artifacts is written in one transaction: a build
    that is killed, cancelled or fails leaves a valid corpus, and the next build completes it. A first build that fails
    or is cancelled before it has written a page leaves no file. A second builder of the same corpus waits.

    With another embedder everything is embedded again. The artifacts of the old embedder are removed just before the
    first new vectors are written, because vectors of two embedders cannot be compared. Files and servers need asyncio;
    a `MemoryStore` works on trio too.

    Args:
        source: Where the artifacts come from, and how they are indexed.
        store: A store, which the caller closes; or the name, path or address of a corpus. The default is the source's
            name. An address is `postgresql://user@host/database#name`; without `#name`, the corpus has the source's
            name.
        embedder: An embedder or its specification; the default is the source's.
        full: Remove the artifacts that came from this source and are no longer in it.
        force: Allow a source without any artifact to empty the corpus, and a source that reads another folder or file
            to replace the artifacts of the earlier one. A build without an edge extractor may then remove all links.
        batch_size: The number of items that are read, embedded and written at once. If you do not pass it, the build
            embeds and writes up to 512 at once while it is quick, and reads up to 2,048.
        edge_extractor: The extractor of links; the default is the source's, else that of the last build.
        progress: A function that is called with the counts so far, a `BuildProgress`: after each page that is read,
            each batch that is embedded, and each page that is written.
        on_error: `"raise"`: the first item that cannot be indexed ends the build. `"skip"`: the item is left out and
            reported; if it was indexed before by the same embedder, the old version stays.
        durability: What a written page survives: `"normal"`, a kill of this process; `"full"`, a power failure, too.
            Only for a corpus file.
        language: The language of the texts: `"en"`, or `None` for words as they are. `"auto"` keeps that of the
            corpus, and is English for a new one. With another language, all texts are indexed again, but none is
            embedded.

    Returns:
        An `Opening` of the corpus; `corpus.report` has the counts and the problems.

    Raises:
        ArgumentError: If a value cannot be used, or the source's name cannot name a corpus.
        SourceError: If the source or an item cannot be read or indexed, or the build would remove all artifacts or
            replace those of another folder.
        EmbedderError: If the embedder fails, or the corpus also contains artifacts of another source that were made
            with another embedder (`EmbedderMismatch`).
        StoreCorrupt: If the corpus file is damaged.
        StoreError: If the store fails, or another builder keeps it locked for too long (`StoreBusy`).

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
    if not isinstance(request.target, Path | CorpusAddress):
        check_store(request.target)
        check_capabilities("build", request.target, "writing", "settings", "ledger", "records", "vectors")
    return Opening(_build(request))


async def _build(request: BuildRequest) -> Corpus:
    start = time.perf_counter()
    embedder, recipe = await in_thread(request.resolve)
    all_pages = SourcePages(request.source, request.batch_size, largest=request.largest_page)
    async with AsyncExitStack() as exit_stack, aclosing(all_pages) as pages:
        # Read the first page before a new file is created: a source that is missing then leaves no empty corpus.
        async with request.lock_store(exit_stack, pages.peek) as store:
            recipe, embedder = await keep_settings(request, recipe, store, embedder)
            meter = ProgressMeter(request.progress)
            recipe = await with_survey(recipe, request.source, request.batch_size, meter)
            await check_origin(request, store)
            config = await make_config(request, recipe, store, embedder)
            outdated = await find_outdated(request, recipe, store, config)
            count_left_out: Callable[[], Mapping[str, int]] | None = getattr(request.source, "left_out", None)
            left_out = await in_thread(count_left_out) if count_left_out else {}
            # Only now, as a build that is refused changes nothing.
            await request.set_language(store)
            site = SiteSurvey() if recipe.extractor and site_of(recipe.extractor) and request.full else None
            builder = Builder(recipe, store, embedder, config, outdated, meter, site=site)
            await builder.run(pages, BatchSize(request.batch_size, request.largest_batch))
            first = builder
            if site is not None and recipe.extractor is not None:
                # All notes are read: if their links have another root than was assumed, extract the links again.
                recipe = recipe.with_extractor(await in_thread(site.prepare, recipe.extractor))
            if recipe.extractor_id != builder.recipe.extractor_id:
                config = await make_config(request, recipe, store, embedder)
                meter = ProgressMeter(request.progress)
                builder = Builder(recipe, store, embedder, config, frozenset(), meter)
                all_pages = SourcePages(request.source, request.batch_size, largest=request.largest_page)
                async with aclosing(all_pages) as pages_again:
                    await builder.run(pages_again, BatchSize(request.batch_size, request.largest_batch))
            # Prune last: only now it is certain which artifacts the source no longer has.
            meter.advance(stage="finish")
            pruning = await find_pruning(builder, full=request.full, force=request.force)
            if pruning.stored:
                await store.apply(Change(removals=pruning.stored))
            await forget_problems(store, pruning.removed.intersection(builder.earlier_problems))
            # After a change of embedder without any new vector the settings are not written yet.
            await builder.write_settings()
            await _keep_files(request.source, recipe, store)
            changed = first.meter.counts.written + len(pruning.removed)
            floors = await refresh_floors(config["name"], store, embedder, changed)
        # The build succeeded: the store stays open, and closing the corpus will close it.
        exit_stack.pop_all()
    seconds, removed = time.perf_counter() - start, len(pruning.removed)
    report = sum_reports([builder], removed=removed, floors=floors, left_out=left_out, seconds=seconds)
    if builder is not first:  # what was added has been updated when its links were extracted again
        added = first.meter.counts.added
        report = replace(report, added=added, updated=max(0, report.updated - added))
    return to_corpus(builder, report, owns_store=isinstance(request.target, Path | CorpusAddress))


def to_corpus(builder: Builder, report: BuildReport, *, owns_store: bool) -> Corpus:
    """Return the open corpus of a builder that has finished."""
    return Corpus(
        builder.config["name"],
        builder.store,
        builder.embedder,
        report,
        owns_store=owns_store,
        strategy=builder.recipe.strategy,
        edge_extractor=builder.recipe.extractor,
    )


async def _keep_files(source: Source, recipe: BuildRecipe, store: Store) -> None:
    """Write into the settings which unresolved links lead to files.

    Only a build sees the folder of the notes.
    """
    site, folder, name = recipe.extractor and site_of(recipe.extractor), _origin_of(source), source.name.casefold()
    if not site or folder is None:
        return
    found = await find_files(store, folder, site["root"])
    config = await ask(store, Config())
    files = {**config.get("files", {}), name: found}
    if not found:
        del files[name]
    if files != config.get("files", {}):
        await store.apply(Change(config={**config, "files": files}))


async def keep_settings(
    request: BuildRequest, recipe: BuildRecipe, store: Store, embedder: Embedder
) -> tuple[BuildRecipe, Embedder]:
    """Return the recipe and the embedder with what the settings of the corpus decide.

    An older index may know the same weights by another id, and `"light"` stays the version that made the vectors. Then
    nothing needs to be embedded again. And a build that names no link extractor uses that of the last build. A source
    that leaves the strategy open gets one for texts that are longer than the model reads.
    """
    if getattr(request.source, "fits_model", False):
        recipe = fit_strategy(recipe, await _ask_model(embedder, lambda: getattr(embedder, "max_tokens", None)))
    stored = await ask(store, Config())
    if not request.force:
        recipe = await in_thread(keep_extractor, recipe, stored)
    stored_id = stored.get("embedder_id")
    if not isinstance(stored_id, str):
        return recipe, embedder
    if isinstance(request.spec, str) and isinstance(embedder, HashingEmbedder):
        embedder = resolve_embedder(request.spec, stored_id)
    if await in_thread(is_same_model, embedder, stored_id):
        recipe = replace(recipe, embedder_id=stored_id)
    return recipe, embedder


async def make_config(request: BuildRequest, recipe: BuildRecipe, store: Store, embedder: Embedder) -> dict[str, Any]:
    """Return the settings that the corpus will have after this build."""
    stored = await ask(store, Config())
    check_settings(request.source.name, stored)
    is_same_embedder = stored.get("embedder_id") == recipe.embedder_id
    # An embedder object has no specification: if the corpus already has one for the same embedder, that one stays.
    if is_same_embedder and not isinstance(request.spec, str | os.PathLike):
        spec = stored["embedder"]
    else:
        spec = await in_thread(_storable_spec, request.spec, recipe.embedder_id)
        # The user named it here, so the corpus may name it when it is opened here.
        if isinstance(request.target, Path | CorpusAddress):
            await in_thread(remember_embedder, spec)
    return {
        **stored,
        "name": request.name or stored.get("name", request.source.name),
        "embedder": spec,
        "embedder_id": recipe.embedder_id,
        "dim": stored["dim"] if is_same_embedder else await _ask_model(embedder, lambda: embedder.dim),
        "strategy_id": recipe.strategy_id,
        "extractor_id": recipe.extractor_id,
        "source": request.source.name,
        **_origins(request.source, stored),
        "recipes": await in_thread(recipes_by_source, recipe, stored),
    }


async def check_origin(request: BuildRequest, store: Store) -> None:
    """Check that a build does not replace the artifacts of another folder or file by mistake.

    A folder that is gone was probably moved, so another one may take its place.

    Raises:
        SourceError: If the corpus contains artifacts of a source of this name from elsewhere, and `force` is false.
    """
    name, origin = request.source.name, _origin_of(request.source)
    before = (await ask(store, Config())).get("origins", {}).get(name.casefold())
    if request.force or not request.full or None in (origin, before) or origin == before:
        return
    if await anyio.Path(before).exists() and any(
        entry is not None and entry.source.casefold() == name.casefold() for entry in await ask(store, Ledger())
    ):
        raise SourceError(
            f"source {name!r} reads {origin!r}, but this corpus was built from {before!r}, whose artifacts it would "
            "replace; build with another name, or with force=True to replace them"
        )


def _origins(source: Source, stored: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the setting with the origin of each source that has one."""
    origin, others = _origin_of(source), stored.get("origins", {})
    origins = others if origin is None else {**others, source.name.casefold(): origin}
    return {"origins": origins} if origins else {}


def _origin_of(source: Source) -> str | None:
    """Return the folder or file that a source reads; `None` if it has none."""
    return getattr(source, "origin", None)


def _storable_spec(embedder: EmbedderLike, embedder_id: str) -> str:
    """Return a specification that makes the embedder again in any working folder, or `CUSTOM`."""
    if isinstance(embedder, str | os.PathLike):
        if isinstance(embedder, os.PathLike) or _is_folder(embedder):
            return str(Path(embedder).expanduser().absolute())
        return embedder
    for spec in ("light", "default"):
        with suppress(EmbedderUnavailable):
            if resolve_embedder(spec, embedder_id).id == embedder_id:
                return spec
    return CUSTOM


def _is_folder(spec: str) -> bool:
    return bool({os.sep, os.altsep}.intersection(spec)) and Path(spec).expanduser().is_dir()


async def _ask_model(embedder: Embedder, read: Callable[[], R]) -> R:
    """Return a property of the embedder; some know theirs only after their first request."""
    try:
        return await in_thread(read)
    except EmbedderUnavailable:
        raise
    except EmbedderError:
        await embedder.embed_documents([])
        return read()


async def find_outdated(
    request: BuildRequest, recipe: BuildRecipe, store: Store, config: Mapping[str, Any]
) -> frozenset[str]:
    """Return the ids of the artifacts whose vectors another embedder made.

    A build with a new embedder must be able to embed all of them again, so all must belong to its source.

    Raises:
        EmbedderMismatch: If some belong to another source, or `full=False` may leave some out.
    """
    old_id = (await ask(store, Config())).get("embedder_id", config["embedder_id"])
    if old_id == config["embedder_id"]:
        return frozenset()
    entries = [entry for entry in await ask(store, Ledger()) if entry is not None]
    other_sources = sorted({entry.source or UPSERT_SOURCE for entry in entries if not recipe.owns(entry)})
    change = f"corpus {config['name']!r} cannot change from embedder {old_id!r} to {recipe.embedder_id!r}"
    if other_sources:
        raise EmbedderMismatch(
            f"{change}, because it also contains artifacts of {', '.join(map(repr, other_sources))}; "
            "build with the old embedder, or into another store"
        )
    if entries and not request.full:
        raise EmbedderMismatch(
            f"{change} with full=False, which may leave artifacts of the old embedder; "
            "build with the old embedder, with full=True, or into another store"
        )
    return frozenset(entry.artifact_id for entry in entries)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The artifacts that the end of a build removes.

    Args:
        removed: The ids of the artifacts that this build removes, including those that are already removed.
        stored: The ids of those that are still in the store.
    """

    removed: frozenset[str] = frozenset()
    stored: tuple[str, ...] = ()


async def find_pruning(builder: Builder, *, full: bool, force: bool) -> Pruning:
    """Return the artifacts that the source no longer has.

    Raises:
        SourceError: If no artifact of the source would be left and `force` is false.
    """
    if not full:
        return Pruning()
    unseen = builder.find_unseen(await ask(builder.store, ArtifactIds()))
    entries = await ask(builder.store, Ledger(unseen)) if unseen else []
    stored_ids = [entry.artifact_id for entry in entries if entry is not None and builder.recipe.owns(entry)]
    # Artifacts of an old embedder are removed before the first new vectors: if not indexed again, they count too.
    removed_ids = builder.outdated.difference(builder.kept_ids).union(stored_ids)
    # An empty source is more often a mistake, such as a folder that is not mounted, than a wish.
    if removed_ids and not builder.kept_ids and not force:
        raise SourceError(
            f"source {builder.recipe.source.name!r} returned nothing to index, but {len(removed_ids)} of its "
            "artifacts are indexed; check the source, or build with force=True to remove them all"
        )
    return Pruning(removed_ids, tuple(stored_ids))
