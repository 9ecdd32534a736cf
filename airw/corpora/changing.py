"""Changing an open corpus: artifacts that a caller upserts or deletes, without a source."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airw._base.checks import check_choice, check_strings
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.corpora.pipeline import Builder, BuildReport, sum_reports
from airw.corpora.problems import forget_problems, keep_problems
from airw.corpora.recipes import BuildRecipe, OnError, edge_extractor_of, strategy_of
from airw.corpora.settings import check_settings
from airw.embedders import check_embedder
from airw.errors import ArgumentError, ArgumentKindError, CorpusNotFound
from airw.protocols import Change, Config, EdgeExtractor, Embedder, IndexingStrategy, Ledger, Store, ask
from airw.sources import content_hash, to_metadata
from airw.values import Artifact

_PAGE = 256

UpsertItems = Mapping[str, Any] | Iterable[Artifact]
"""The items that `upsert` accepts: raw values by id, or artifacts."""


@dataclass(frozen=True, slots=True)
class _UpsertOrigin:
    """The source that upserted artifacts belong to.

    An artifact that replaces another one belongs to the source of that one. A new one belongs to none, named `""`.
    """

    name: str
    indexing_strategy: IndexingStrategy

    def change_signal(self, artifact: Artifact) -> str:
        return content_hash(artifact)


@dataclass(frozen=True, slots=True)
class Changes:
    """Upserts and deletions in one corpus.

    Args:
        name: The name of the corpus.
        store: Its store.
        embedder: The embedder that made its vectors.
        strategy: The caller's strategy, for corpora that were built with one of their own.
        edge_extractor: The caller's link extractor, likewise.
        lock_timeout: The seconds to wait for a build.
    """

    name: str
    store: Store
    embedder: Embedder
    strategy: IndexingStrategy | None
    edge_extractor: EdgeExtractor | None
    lock_timeout: float = 30.0

    async def upsert(self, items: UpsertItems, on_error: OnError) -> BuildReport:
        """Insert or replace artifacts; see `Corpus.upsert`."""
        check_choice("on_error", on_error, ("raise", "skip"))
        artifacts = _artifacts(items)
        start = time.perf_counter()
        async with self.store.writing(timeout=self.lock_timeout):
            config = await ask(self.store, Config())
            await in_thread(self._check, config)
            entries = await ask(self.store, Ledger([artifact.id for artifact in artifacts]))
            # An artifact that came from a source still belongs to it: its next full build can update or prune it.
            owners = [entry.source if entry is not None else "" for entry in entries]
            builders = await in_thread(self._builders, dict.fromkeys(owners), config, on_error)
            if isinstance(items, Mapping):
                artifacts = [
                    _add_metadata(each, builders[owner]) for each, owner in zip(artifacts, owners, strict=True)
                ]
            for first in range(0, len(artifacts), _PAGE):
                page = slice(first, first + _PAGE)
                await self._write_page(builders, list(zip(owners[page], artifacts[page], strict=True)))
        return sum_reports(builders.values(), seconds=time.perf_counter() - start)

    async def delete(self, artifact_ids: Iterable[str]) -> int:
        """Delete artifacts and return how many; see `Corpus.delete`."""
        ids = list(dict.fromkeys(check_strings("artifact_ids", artifact_ids)))
        async with self.store.writing(timeout=self.lock_timeout):
            stored_ids = [entry.artifact_id for entry in await ask(self.store, Ledger(ids)) if entry is not None]
            if stored_ids:
                await self.store.apply(Change(removals=stored_ids))
                await forget_problems(self.store, stored_ids)
        return len(stored_ids)

    def _check(self, config: Mapping[str, Any]) -> None:
        if "embedder_id" not in config:
            raise CorpusNotFound(
                f"corpus {self.name!r} was never built, so it has no strategy to index with; build it first, "
                "for example from an empty source: from_mapping({}, name=...)"
            )
        check_settings(self.name, config)
        check_embedder(self.embedder, config["embedder_id"], config["dim"], self.name)

    def _builders(self, owners: Iterable[str], config: Mapping[str, Any], on_error: OnError) -> dict[str, Builder]:
        return {owner: self._builder(owner, config, on_error) for owner in owners}

    def _builder(self, owner: str, config: Mapping[str, Any], on_error: OnError) -> Builder:
        origin = _UpsertOrigin(owner, strategy_of(owner, config, self.strategy))
        extractor = edge_extractor_of(owner, config, self.edge_extractor)
        recipe = BuildRecipe.of(origin, config["embedder_id"], extractor, on_error)
        return Builder(recipe, self.store, self.embedder, config, frozenset())

    async def _write_page(self, builders: Mapping[str, Builder], owned: Sequence[tuple[str, Artifact]]) -> None:
        """Write one page of artifacts in one transaction, whichever sources own them."""
        # Each source has its own strategy and extractor: its builder indexes its share of the page.
        prepared = [
            (builder, await builder.prepare([artifact for owner, artifact in owned if owner == name]))
            for name, builder in builders.items()
        ]
        if all_changes := [change for _, (_, changes) in prepared for change in changes]:
            for builder, (page, _) in prepared:
                await keep_problems(self.store, builder.compare_problems([page]))
            await self.store.apply(Change(all_changes))
        # Count the artifacts only once they are written.
        for builder, (page, changes) in prepared:
            builder.record(page, changes)


def _add_metadata(artifact: Artifact, builder: Builder) -> Artifact:
    """Return an artifact with the metadata that `from_mapping` gives it."""
    text_key = getattr(builder.recipe.strategy, "text_key", None)
    return replace(artifact, metadata=to_metadata(artifact.raw, text_key))


def _artifacts(items: object) -> list[Artifact]:
    if isinstance(items, Mapping):
        items = [Artifact(key, raw) for key, raw in items.items()]
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ArgumentKindError(f"upsert takes {{id: raw value}} or a list of Artifact, not {short_repr(items)}")
    artifacts = list(items)
    for item in artifacts:
        if not isinstance(item, Artifact) or not isinstance(item.id, str) or not item.id:
            raise ArgumentError(
                f"upsert takes artifacts whose id is a string that is not empty, not {short_repr(item)}"
            )
    return artifacts
