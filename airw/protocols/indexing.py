"""Protocols of building a corpus: sources, strategies, extractors and embedders."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from airw._base.arrays import Floats
from airw.protocols.finding import MaybeAwaitable
from airw.values import Artifact, Extraction, IndexPlan, ItemProblem


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors.

    A text in which the embedder recognizes nothing may become the zero vector.

    The model may read only the beginning of a long text. Then builds use two members more, if the embedder has them:
    `max_tokens`, and an async `find_ends(texts)`, which returns the position up to which it reads each text.
    """

    @property
    def id(self) -> str:
        """Return the identity of model and weights, never a path.

        Equal ids mean interchangeable vectors. A corpus stores the id, and refuses queries from an embedder with
        another id.
        """
        ...

    @property
    def dim(self) -> int:
        """Return the width of the vectors."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts to be indexed.

        Returns:
            `(len(texts), dim) float32`, unit rows in the order of `texts`.
        """
        ...

    async def embed_query(self, text: str) -> Floats:
        """Return the vector of a query.

        Many models embed queries in another way than documents.

        Returns:
            `(dim,) float32`, of length one.
        """
        ...


@runtime_checkable
class IndexingStrategy(Protocol):
    """Decomposes an artifact into filter fields and surfaces."""

    @property
    def id(self) -> str:
        """Return the identity of the strategy and of all settings that change its plans.

        A build decomposes an artifact again when this id differs from the stored one.
        """
        ...

    def decompose(self, artifact: Artifact) -> MaybeAwaitable[IndexPlan]:
        """Return the plan for one artifact, possibly without surfaces.

        Builds call this for each new or changed artifact. A plain function must be pure; it is called in a worker
        thread. A function that asks a server is `async`, and is awaited for several artifacts at once. The next build
        decomposes an artifact again if its plan has `problems`.

        Raises:
            SourceError: If the strategy cannot read raw values of this type.
        """
        ...


@runtime_checkable
class EdgeExtractor(Protocol):
    """Finds the links of an artifact, and the names by which other artifacts may refer to it."""

    @property
    def id(self) -> str:
        """Return the identity of the extractor and its settings.

        A build extracts again when this id differs from the stored one.
        """
        ...

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links and names of one artifact; a pure function of its arguments.

        The raw value contains the links; `fields` are the filter fields of its plan.
        """
        ...


class Survey(Protocol):
    """Collects from all artifacts of a source the facts that an edge extractor needs."""

    def add(self, artifacts: Sequence[Artifact]) -> None:
        """Add the facts of more artifacts; called in a worker thread.

        An id may occur again in a later call.
        """
        ...

    def extractor(self) -> EdgeExtractor:
        """Return an extractor that uses the collected facts.

        Its id must identify these facts: if they differ, artifacts are extracted again.
        """
        ...


@runtime_checkable
class CorpusWideExtractor(EdgeExtractor, Protocol):
    """An edge extractor that must see all artifacts before it can extract from one."""

    def survey(self) -> Survey:
        """Return an empty survey.

        A build adds all artifacts of its source to the survey, then uses `Survey.extractor()` in place of this one.
        """
        ...


@runtime_checkable
class Source(Protocol):
    """Provides the artifacts of a corpus, and the default way to index them."""

    @property
    def name(self) -> str:
        """Return the name of the source, which is also the default name of a corpus built from it."""
        ...

    @property
    def indexing_strategy(self) -> IndexingStrategy:
        """Return the default strategy to decompose its artifacts."""
        ...

    @property
    def embedder(self) -> "str | Embedder":
        """Return the default embedder, or its specification such as `"default"` or `"light"`."""
        ...

    @property
    def edge_extractor(self) -> EdgeExtractor | None:
        """Return the default extractor of links; `None` for a corpus without links."""
        ...

    def change_signal(self, artifact: Artifact, /) -> str:
        """Return a short text that changes whenever the indexed content of the artifact changes.

        Builds compare it with the stored signal to skip unchanged artifacts.
        """
        ...

    def items(self) -> AsyncIterator[Artifact | ItemProblem]:
        """Yield all artifacts in a repeatable order, and a problem for each unreadable item.

        Raises:
            SourceError: If the source itself is missing, or empty by mistake.
        """
        ...


EmbedderLike: TypeAlias = str | os.PathLike[str] | Embedder

Synthesizer: TypeAlias = Callable[[Artifact], MaybeAwaitable[str]]
"""Writes a synopsis of an artifact; `""` means that it has none.

An attribute `id` identifies the synthesizer and its settings. If the id changes, all synopses are written again.
"""
