"""How a corpus is made: sources, strategies, link extractors, embedders."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from airw._base.arrays import Floats
from airw.protocols.finding import MaybeAwaitable
from airw.values import Artifact, Extraction, IndexPlan, ItemProblem


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors; text without any evidence may become the zero vector."""

    @property
    def id(self) -> str:
        """Name the model and its weights, never a path; equal ids mean interchangeable vectors."""
        ...

    @property
    def dim(self) -> int:
        """Give the width of the vectors."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Give `(len(texts), dim) float32` unit rows, in the order of the texts."""
        ...

    async def embed_query(self, text: str) -> Floats:
        """Give `(dim,) float32`, of length one."""
        ...


@runtime_checkable
class IndexingStrategy(Protocol):
    """Decomposes an artifact into fields to filter on and surfaces to search."""

    @property
    def id(self) -> str:
        """Name the strategy and everything that changes what it makes; another id means a new decomposition."""
        ...

    def decompose(self, artifact: Artifact) -> MaybeAwaitable[IndexPlan]:
        """Give the plan for one artifact, perhaps without surfaces.

        A plain function is pure, and called in a worker thread. One that is `async`, because it asks a server, is
        awaited for several artifacts at once; those whose plan has `problems` are asked for again at the next build.

        Raises:
            SourceError: The artifact's raw value is not of a kind this strategy reads.
        """
        ...


@runtime_checkable
class EdgeExtractor(Protocol):
    """Finds an artifact's links to others, and the names others may call it by."""

    @property
    def id(self) -> str:
        """Name the extractor and its settings; another id means extracting again."""
        ...

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give links and names of one artifact from its raw value and its filter fields; pure."""
        ...


class Survey(Protocol):
    """What an edge extractor learns from all artifacts of a source."""

    def add(self, artifacts: Sequence[Artifact]) -> None:
        """Look at some more artifacts; called in a worker thread, and the same id may come again."""
        ...

    def extractor(self) -> EdgeExtractor:
        """Give the extractor that knows what it learnt; its id names that, so that another lesson is another id."""
        ...


@runtime_checkable
class CorpusWideExtractor(EdgeExtractor, Protocol):
    """An edge extractor that has to have seen all artifacts before it can find the links of one."""

    def survey(self) -> Survey:
        """Begin to look at artifacts; a build shows all that its source gives, then uses what it gets for this one."""
        ...


@runtime_checkable
class Source(Protocol):
    """Where artifacts come from, and how they are to be indexed unless the caller says otherwise."""

    @property
    def name(self) -> str:
        """Name the source; also the default name of the corpus built from it."""
        ...

    @property
    def indexing_strategy(self) -> IndexingStrategy:
        """Give the strategy that decomposes its artifacts."""
        ...

    @property
    def embedder(self) -> "str | Embedder":
        """Give the embedder, or its specification, such as `"default"` or `"light"`."""
        ...

    @property
    def edge_extractor(self) -> EdgeExtractor | None:
        """Give what finds the links of its artifacts; `None` for no links."""
        ...

    def change_signal(self, artifact: Artifact, /) -> str:
        """Give a short text that changes whenever what would be indexed of the artifact changes."""
        ...

    def items(self) -> AsyncIterator[Artifact | ItemProblem]:
        """Stream the artifacts, and a problem for each thing that could not be read, in a repeatable order.

        Raises:
            SourceError: The source itself is missing or empty by mistake.
        """
        ...


EmbedderLike: TypeAlias = str | os.PathLike[str] | Embedder

Synthesizer: TypeAlias = Callable[[Artifact], MaybeAwaitable[str]]
"""Writes a synopsis of an artifact; `""` where there is nothing to say.

An attribute `id` names it and its settings; another id means writing all synopses again.
"""
