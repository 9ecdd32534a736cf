"""What every build asks before and after: where to, with which settings, and what has to go."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from airw._base.concurrency import in_thread
from airw.corpora.ingestion.drafts import OnError, Recipe
from airw.corpora.ingestion.pipeline import Builder
from airw.corpora.ingestion.settings import BY_HAND, recipes_with
from airw.corpora.naming import corpus_path, is_name
from airw.corpora.opening import CUSTOM
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable, SourceError, StoreError
from airw.protocols import EdgeExtractor, Embedder, EmbedderLike, Source, Store
from airw.stores import SqliteStore

__all__ = ["Gone", "Job", "config_after", "file_store", "gone_from", "job_for", "outdated_by"]


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
