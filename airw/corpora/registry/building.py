"""Building a corpus by the name it is registered under."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict, Unpack

from airw._base.concurrency import in_thread
from airw.corpora.building.builder import build
from airw.corpora.ingestion.drafts import OnError
from airw.corpora.ingestion.pipeline import BuildProgress
from airw.corpora.opening import Corpus, Opening
from airw.corpora.registry.definitions import Definition
from airw.corpora.registry.file import find, put
from airw.corpora.registry.kinds import PRESETS, storable_embedder
from airw.protocols import EdgeExtractor, EmbedderLike, Store

__all__ = ["BuildOptions", "build_corpus"]


class BuildOptions(TypedDict, total=False):
    """The keywords of `build`, for those who pass them on."""

    store: Store | str | os.PathLike[str] | None
    embedder: EmbedderLike | None
    full: bool
    force: bool
    batch_size: int
    edge_extractor: EdgeExtractor | None
    progress: Callable[[BuildProgress], None] | None
    on_error: OnError


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
        >>> from airw.corpora.registry.file import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault") as corpus:
        ...         return corpus.name, corpus.report.added
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ('vault', 1)
    """
    return Opening(_build(name, options))


async def _build(name: str, options: BuildOptions) -> Corpus:
    definition = await in_thread(find, name)
    source = await in_thread(definition.source)
    corpus = await build(source, **options)
    try:
        if definition.name in PRESETS:
            await put(_built_with(definition, options), replace=False)
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
