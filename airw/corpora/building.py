"""A build from a source: open the store, run the stages, prune, report."""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw.corpora.naming import corpus_path, is_name
from airw.corpora.opening import CUSTOM, Corpus, Opening
from airw.corpora.pipeline import Builder, BuildProgress, BuildReport, Pages, surveyed
from airw.corpora.recipes import BY_HAND, OnError, Recipe, recipes_with
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable, SourceError, StoreError
from airw.protocols import EdgeExtractor, Embedder, EmbedderLike, Source, Store
from airw.stores import SqliteStore


@dataclass(frozen=True, slots=True)
class Job:
    """What a build was asked for."""

    source: Source
    where: Store | Path
    name: str | None
    spec: EmbedderLike
    extractor: EdgeExtractor | None
    on_error: OnError
    full: bool
    force: bool

    def resolved(self) -> tuple[Embedder, Recipe]:
        """Give the embedder, and what it makes of an artifact; its id may be read from a model's weights."""
        embedder = resolve_embedder(self.spec)
        return embedder, Recipe(self.source, embedder.id, self.extractor, self.on_error)


def job_for(
    source: Source,
    *,
    store: Store | str | os.PathLike[str] | None,
    embedder: EmbedderLike | None,
    edge_extractor: EdgeExtractor | None,
    on_error: OnError,
    full: bool,
    force: bool,
    what: str,
) -> Job:
    """Check what a build, or `what` else it is, was asked for, and fill in what the source says.

    Raises:
        ArgumentError: It cannot be used.
    """
    if isinstance(source, type) or not all(hasattr(source, part) for part in ("name", "items", "change_signal")):
        raise ArgumentError(
            f"{what} takes a source, such as from_notes(folder) or from_mapping(items, name=...), not {source!r}"
        )
    if on_error not in ("raise", "skip"):
        raise ArgumentError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    if store is not None and not isinstance(store, str | os.PathLike) and not hasattr(store, "writing"):
        raise ArgumentError(f"store must be a Store, or the name or path of a corpus, not {store!r}")
    place: Store | str | os.PathLike[str] = store if store is not None else _named(source)
    return Job(
        source=source,
        where=corpus_path(place) if isinstance(place, str | os.PathLike) else place,
        name=corpus_path(place).stem if isinstance(place, str) and is_name(place) else None,
        spec=source.embedder if embedder is None else embedder,
        extractor=source.edge_extractor if edge_extractor is None else edge_extractor,
        on_error=on_error,
        full=full,
        force=force,
    )


def _named(source: Source) -> str:
    """Give the source's name when a corpus can have it."""
    if not isinstance(source.name, str) or not is_name(source.name):
        raise ArgumentError(f"source {source.name!r} cannot name a corpus; say where it goes: store=Path(...)")
    return source.name


async def file_store(path: Path, before: Callable[[], Awaitable[None]]) -> SqliteStore:
    """Give the store of a corpus's file, not yet open; its folder is made only once `before` has come back."""
    with suppress(PermissionError):  # else it may exist, and locking it says what is wrong
        if await anyio.Path(path).exists():
            return SqliteStore(path)
        await before()
        try:
            await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(path.parent)!r} cannot be made: {error.strerror}") from error
    return SqliteStore(path)


async def config_after(job: Job, recipe: Recipe, store: Store, embedder: Embedder) -> dict[str, Any]:
    """Give the settings of the corpus after this build."""
    stored = await store.config()
    same = stored.get("embedder_id") == recipe.embedder_id
    keeps_spec = same and not isinstance(job.spec, str | os.PathLike)
    return {
        **stored,
        "name": job.name or stored.get("name", job.source.name),
        "embedder": stored["embedder"] if keeps_spec else await in_thread(_spec, job.spec, recipe.embedder_id),
        "embedder_id": recipe.embedder_id,
        "dim": stored["dim"] if same else await _width(embedder),
        "strategy_id": recipe.strategy_id,
        "extractor_id": recipe.extractor_id,
        "source": job.source.name,
        "recipes": await in_thread(recipes_with, recipe, stored),
    }


def _spec(given: EmbedderLike, embedder_id: str) -> str:
    """Give the specification that makes an embedder again, from any working folder, where there is one."""
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
    """Give the width of the vectors; some models know it only once they have been asked for vectors."""
    try:
        return await in_thread(lambda: embedder.dim)
    except EmbedderUnavailable:
        raise
    except EmbedderError:
        await embedder.embed_documents([])
        return embedder.dim


async def outdated_by(job: Job, recipe: Recipe, store: Store, config: Mapping[str, Any]) -> frozenset[str]:
    """Give the artifacts that another embedder made, which must all be this source's to embed again."""
    old = (await store.config()).get("embedder_id", config["embedder_id"])
    if old == config["embedder_id"]:
        return frozenset()
    entries = [entry for entry in await store.ledger() if entry is not None]
    others = sorted({entry.source or BY_HAND for entry in entries if not recipe.owns(entry)})
    if others or (entries and not job.full):
        why = f"holds artifacts of {', '.join(map(repr, others))}" if others else "may hold what full=False leaves out"
        raise EmbedderMismatch(
            f"corpus {config['name']!r} cannot change from embedder {old!r} to {recipe.embedder_id!r}, as it {why}: "
            f"build with the old one{'' if others else ', with full=True'} or into another store"
        )
    return frozenset(entry.artifact_id for entry in entries)


@dataclass(frozen=True, slots=True)
class Gone:
    """What leaves a corpus at the end of a build: how many artifacts, and which of them are still stored."""

    count: int = 0
    stored: tuple[str, ...] = ()


async def gone_from(job: Job, builder: Builder) -> Gone:
    """Give what the source no longer has; never all there is, without force."""
    if not job.full:
        return Gone()
    unseen = builder.unheld(await builder.store.artifact_ids())
    entries = await builder.store.ledger(unseen)
    vanished = [entry.artifact_id for entry in entries if entry is not None and builder.recipe.owns(entry)]
    gone = builder.outdated.difference(builder.held).union(vanished)
    if gone and not builder.held and not job.force:
        raise SourceError(
            f"source {job.source.name!r} gave nothing to index, but {len(gone)} of its artifacts are indexed: "
            "check the source, or build with force=True to remove them all"
        )
    return Gone(len(gone), tuple(vanished))


def build(
    source: Source,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    embedder: EmbedderLike | None = None,
    full: bool = True,
    force: bool = False,
    batch_size: int = 256,
    edge_extractor: EdgeExtractor | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
    on_error: OnError = "raise",
) -> Opening[Corpus]:
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
    job = job_for(
        source,
        store=store,
        embedder=embedder,
        edge_extractor=edge_extractor,
        on_error=on_error,
        full=full,
        force=force,
        what="build",
    )
    check_count("batch_size", batch_size, least=1)
    return Opening(_build(job, batch_size, progress))


async def _build(job: Job, batch_size: int, progress: Callable[[BuildProgress], None] | None) -> Corpus:
    start = time.perf_counter()
    embedder, recipe = await in_thread(job.resolved)
    async with AsyncExitStack() as opened, aclosing(Pages(job.source, batch_size)) as pages:
        store = await file_store(job.where, pages.peek) if isinstance(job.where, Path) else job.where
        async with store.writing():
            if isinstance(store, SqliteStore) and store is not job.where:
                await opened.enter_async_context(store)  # under the lock: two builders never make one file at once
            recipe = await surveyed(recipe, job.source, batch_size)
            config = await config_after(job, recipe, store, embedder)
            outdated = await outdated_by(job, recipe, store, config)
            builder = Builder(recipe, store, embedder, config, outdated, progress)
            await builder.run(pages)
            gone = await gone_from(job, builder)
            if gone.stored:
                await store.apply([], removals=gone.stored)
            await builder.adopt()
        opened.pop_all()
    report = _report(builder, gone.count, time.perf_counter() - start)
    return Corpus(
        config["name"],
        store,
        embedder,
        report,
        owns_store=isinstance(job.where, Path),
        strategy=recipe.strategy,
        edge_extractor=recipe.extractor,
    )


def _report(builder: Builder, removed: int, seconds: float) -> BuildReport:
    counts = builder.counts
    return BuildReport(
        added=counts.added,
        updated=counts.updated,
        unchanged=counts.unchanged,
        removed=removed,
        problems=tuple(builder.problems),
        seconds=seconds,
    )
