"""The whole of a build: open, check, run the stages, prune, report."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw.corpora.building._job import Job, config_after, file_store, gone_from, job_for, outdated_by
from airw.corpora.ingestion.drafts import OnError
from airw.corpora.ingestion.pipeline import Builder, BuildProgress, Pages
from airw.corpora.ingestion.report import BuildReport
from airw.corpora.ingestion.surveys import surveyed
from airw.corpora.opening import Corpus, Opening
from airw.protocols import EdgeExtractor, EmbedderLike, Source, Store
from airw.stores import SqliteStore

__all__ = ["build"]


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
