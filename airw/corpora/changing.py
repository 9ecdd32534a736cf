"""Changing an open corpus: what is put in by hand, and what is taken out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airw._base.checks import check_choice, check_strings
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.corpora.pipeline import Builder, BuildReport, report_of
from airw.corpora.recipes import BuildRecipe, OnError, edge_extractor_of, strategy_of
from airw.embedders import check_embedder
from airw.errors import ArgumentError, ArgumentKindError, CorpusNotFound
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy, Store
from airw.sources import content_hash
from airw.values import Artifact

_PAGE = 256

Given = Mapping[str, Any] | Iterable[Artifact]
"""What `upsert` takes."""


@dataclass(frozen=True, slots=True)
class _ByHand:
    """Where artifacts given by hand belong: to the source of those in whose place they are; `""` names none."""

    name: str
    indexing_strategy: IndexingStrategy

    def change_signal(self, artifact: Artifact) -> str:
        return content_hash(artifact)


@dataclass(frozen=True, slots=True)
class Changes:
    """What changing a corpus takes: its name, its store, and what its artifacts were made with."""

    name: str
    store: Store
    embedder: Embedder
    strategy: IndexingStrategy | None
    edge_extractor: EdgeExtractor | None

    async def upsert(self, items: Given, on_error: OnError) -> BuildReport:
        """Do what `Corpus.upsert` says."""
        check_choice("on_error", on_error, ("raise", "skip"))
        artifacts = _artifacts(items)
        start = time.perf_counter()
        async with self.store.writing():
            config = await self.store.config()
            await in_thread(self._check, config)
            entries = await self.store.ledger([artifact.id for artifact in artifacts])
            # What came from a source stays that source's, whose next full build goes on looking after it.
            owners = [entry.source if entry is not None else "" for entry in entries]
            builders = await in_thread(self._builders, dict.fromkeys(owners), config, on_error)
            for first in range(0, len(artifacts), _PAGE):
                page = slice(first, first + _PAGE)
                await self._put(builders, list(zip(owners[page], artifacts[page], strict=True)))
        return report_of(builders.values(), seconds=time.perf_counter() - start)

    async def delete(self, artifact_ids: Iterable[str]) -> int:
        """Do what `Corpus.delete` says."""
        ids = list(dict.fromkeys(check_strings("artifact_ids", artifact_ids)))
        async with self.store.writing():
            held = [entry.artifact_id for entry in await self.store.ledger(ids) if entry is not None]
            if held:
                await self.store.apply([], removals=held)
        return len(held)

    def _check(self, config: Mapping[str, Any]) -> None:
        if "embedder_id" not in config:
            raise CorpusNotFound(
                f"corpus {self.name!r} was never built, so nothing says how to index: build it first, "
                "from_mapping({}, name=...) will do"
            )
        check_embedder(self.embedder, config["embedder_id"], config["dim"], self.name)

    def _builders(self, owners: Iterable[str], config: Mapping[str, Any], on_error: OnError) -> dict[str, Builder]:
        return {owner: self._builder(owner, config, on_error) for owner in owners}

    def _builder(self, owner: str, config: Mapping[str, Any], on_error: OnError) -> Builder:
        origin = _ByHand(owner, strategy_of(owner, config, self.strategy))
        extractor = edge_extractor_of(owner, config, self.edge_extractor)
        recipe = BuildRecipe.of(origin, config["embedder_id"], extractor, on_error)
        return Builder(recipe, self.store, self.embedder, config, frozenset(), None)

    async def _put(self, builders: Mapping[str, Builder], owned: Sequence[tuple[str, Artifact]]) -> None:
        """Write one page of artifacts in one transaction, whosever they are."""
        prepared = [
            (builder, await builder.prepare([artifact for owner, artifact in owned if owner == name]))
            for name, builder in builders.items()
        ]
        if changes := [change for _, (_, theirs) in prepared for change in theirs]:
            await self.store.apply(changes)
        for builder, (page, theirs) in prepared:
            builder.record(page, theirs)


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
