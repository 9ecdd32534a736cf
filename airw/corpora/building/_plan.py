"""What the workers of an ingest share, and what each makes of it in its own process."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

from airw.corpora.ingestion.drafts import OnError, Recipe
from airw.embedders import check_embedder, resolve_embedder
from airw.errors import ArgumentError, EmbedderMismatch, SourceError
from airw.protocols import Embedder, Run, RunKeeper, Store
from airw.sources import CorpusSource
from airw.stores import SqliteStore

__all__ = ["IngestPlan", "RunStore", "begun", "open_store", "other_embedder", "resolved", "run_store"]


class RunStore(Store, RunKeeper, Protocol):
    """A store that keeps the rows of runs."""


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What every partition of an ingest has to know; made by `prepare_ingest`, and pickled to wherever that is.

    Args:
        run: Tells this ingest from all others.
        store: The corpus's file; or an open store, which only serves the process it is in.
        source: How the artifacts are indexed; it holds none.
        embedder: The specification of the embedder, or the embedder that was given.
        on_error: What becomes of an item that cannot be indexed, as in `build`.
        began: When the ingest was prepared, in seconds since 1970.
    """

    run: Run
    store: Path | Store
    source: CorpusSource
    embedder: str | Embedder
    on_error: OnError
    began: float


async def open_store(plan: IngestPlan, opened: AsyncExitStack) -> RunStore:
    """Give the store of an ingest, opened for as long as `opened` is; one that was given stays its owner's."""
    if isinstance(plan.store, Path):
        return await opened.enter_async_context(await SqliteStore.open(plan.store))
    return run_store(plan.store)


def run_store(store: Store) -> RunStore:
    """Give the store, when it can keep the rows of an ingest."""
    if not isinstance(store, RunKeeper):
        raise ArgumentError(
            f"an ingest in partitions needs a store that keeps runs, as SqliteStore does; not {store!r}"
        )
    return cast("RunStore", store)


async def begun(
    plan: IngestPlan, store: RunStore, parts: Sequence[int] | None = None
) -> tuple[frozenset[str], dict[int, dict[str, Any]]]:
    """Give what was outdated when the ingest began, and the rows of its partitions; it must still be under way."""
    found = await store.read_run(plan.run, parts)
    if found is None:
        raise SourceError(
            f"this ingest of source {plan.source.name!r} has ended: it was finished, or another one was prepared; "
            "prepare_ingest begins a new one"
        )
    if not plan.run.fits(await store.config()):
        raise other_embedder(plan)
    return frozenset(found[0]["outdated"]), found[1]


def other_embedder(plan: IngestPlan) -> EmbedderMismatch:
    """Make the error that says so."""
    return EmbedderMismatch(
        f"the corpus is no longer one of embedder {plan.run.settings['embedder_id']!r}, for which this ingest of "
        f"source {plan.source.name!r} was prepared; prepare_ingest begins a new one"
    )


def resolved(plan: IngestPlan) -> tuple[Embedder, Recipe]:
    """Give the embedder, checked to be that of the plan, and what it makes of an artifact."""
    embedder = _made(plan.embedder) if isinstance(plan.embedder, str) else plan.embedder
    settings = plan.run.settings
    check_embedder(embedder, settings["embedder_id"], settings["dim"], plan.source.name)
    return embedder, Recipe(plan.source, settings["embedder_id"], plan.source.edge_extractor, plan.on_error)


@lru_cache(maxsize=4)
def _made(spec: str) -> Embedder:
    """Make an embedder once in each process: its model may take seconds to load."""
    return resolve_embedder(spec)
