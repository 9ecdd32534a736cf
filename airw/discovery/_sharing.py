"""What the sources of a discovery remember: embeddings, records and scores of a reranker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio

from airw._base.arrays import Floats
from airw.embedders import MissingEmbedder
from airw.protocols import Embedder, Records, Request, Reranker, Store
from airw.reranking import score_texts
from airw.stores import Wrapper
from airw.values import Record

Embeddings: TypeAlias = dict[tuple[str, bool, str], tuple[anyio.Lock, list[Floats | Exception]]]
"""The outcome of each query that is embedded or will be, by embedder id, and the lock of the task that embeds it."""


@dataclass(frozen=True, slots=True, eq=False)
class SharingEmbedder:
    """An embedder that shares its queries with the others of the same id.

    Each query is embedded once for all of their corpora.

    Args:
        embedder: The embedder of a corpus.
        embeddings: Those of the discovery.
    """

    embedder: Embedder
    embeddings: Embeddings

    @property
    def id(self) -> str:
        """The id of the embedder."""
        return self.embedder.id

    @property
    def dim(self) -> int:
        """The width of its vectors."""
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Embed texts; nobody shares them."""
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        """Return the embedding of a query: `(dim,) float32`."""
        # An embedder that is not here fails alone: another corpus of the same id may have brought it.
        key = self.id, isinstance(self.embedder, MissingEmbedder), text
        lock, outcome = self.embeddings.setdefault(key, (anyio.Lock(), []))
        # If the task with the lock is cancelled, for example by its deadline, the next one computes the embedding.
        async with lock:
            if not outcome:
                try:
                    outcome.append(await self.embedder.embed_query(text))
                except Exception as error:  # noqa: BLE001 - it is raised below, for all who ask
                    outcome.append(error)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]


@dataclass(frozen=True, slots=True, eq=False)
class CorpusView:
    """A corpus with another store or another embedder."""

    name: str
    store: Store
    embedder: Embedder


class RememberingStore(Wrapper):
    """A store that remembers records.

    Many of those that a source finds alone are found in the union, too.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._records: dict[str, Record | None] = {}

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request; known records are not read again."""
        match requests:
            case [Records(ids)]:
                if new := [id for id in ids if id not in self._records]:
                    [records] = await self.store.read(Records(new))
                    self._records.update(zip(new, records, strict=True))
                return [[self._records[id] for id in ids]]
        return await self.store.read(*requests)


class RememberingReranker:
    """A reranker that remembers its scores during one discovery.

    The candidates of a union are candidates of its sources too, and a reranker is slow.
    """

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._scores: dict[tuple[str, str], float] = {}

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text."""
        new_texts = [text for text in texts if (query, text) not in self._scores]
        if new_texts:
            scores = await score_texts(self._reranker, query, new_texts)
            self._scores.update(((query, text), score) for text, score in zip(new_texts, scores, strict=True))
        return [self._scores[query, text] for text in texts]
