"""What a discovery remembers while it runs.

These are embeddings of queries, answers of stores, and scores of a reranker. A discovery asks each source for its own
ranking, for the evidence of its best hits, and for its part of the union of all. Most of the answers are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw.embedders import MissingEmbedder
from airw.protocols import Calibrations, Config, Embedder, Fed, Rank, Records, Request, Reranker, Store, Words
from airw.reranking import score_texts
from airw.stores import Wrapper
from airw.values import Ranking, Record

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
    """A store that remembers its answers during one discovery.

    A discovery asks each source for its own ranking, for the evidence of its best hits, and then for its part of the
    union: most answers are the same. All searches of a discovery have the same filter and surfaces.

    Args:
        store: The store.
        depth: The length of the longest ranking that will be needed; a shorter one is read as long at once.
    """

    def __init__(self, store: Store, depth: int = 0) -> None:
        super().__init__(store)
        self._depth = depth
        self._rankings: dict[tuple[object, ...], tuple[int, list[Ranking]]] = {}
        self._records: dict[str, Record | None] = {}
        self._others: dict[object, Any] = {}  # counts of words, by the queries, and settings, by the kind of request

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request; the store is asked for what is not known yet."""
        if any(isinstance(request, Fed) for request in requests):
            return await self.store.read(*requests)  # a chain names requests that must be sent then
        new = [self._find_new(request) for request in requests]
        answers = iter(await self.store.read(*(request for request in new if request is not None)) if any(new) else ())
        return [
            self._recall(request, asked, None if asked is None else next(answers))
            for request, asked in zip(requests, new, strict=True)
        ]

    def learn(self, request: Request[Any], answer: Any) -> None:
        """Remember an answer of the store that somebody else has."""
        self._recall(request, request, answer)

    def _find_new(self, request: Request[Any]) -> Request[Any] | None:
        """Return what the store must be asked for an answer, or `None`."""
        match request:
            case Records():
                ids = [id for id in request.ids if id not in self._records]
                return Records(ids) if ids else None
            case Words() | Calibrations() | Config():
                return None if _key_of_other(request) in self._others else request
            case Rank(k=int(k), among=None, records=None):
                depth, _ = self._rankings.get(_key_of(request), (-1, []))
                return None if depth >= k else replace(request, k=max(k, self._depth))
        return request

    def _recall(self, request: Request[Any], asked: Any, answer: Any) -> Any:
        """Note an answer of the store, and return that of the request."""
        match request:
            case Records():
                if asked is not None:
                    self._records.update(zip(asked.ids, answer, strict=True))
                return [self._records[id] for id in request.ids]
            case Words() | Calibrations() | Config():
                return self._others.setdefault(_key_of_other(request), answer)
            case Rank(k=int(k), among=None, records=None):
                if asked is not None:
                    self._rankings[_key_of(request)] = asked.k, answer
                depth, rankings = self._rankings[_key_of(request)]
                # A longer ranking begins with the shorter one.
                return rankings if depth == k else [ranking.first(k) for ranking in rankings]
        return answer


def _key_of(rank: Rank) -> tuple[object, ...]:
    queries = rank.queries.tobytes() if isinstance(rank.queries, np.ndarray) else tuple(rank.queries)
    return queries, rank.per_artifact, id(rank.statistics)


def _key_of_other(request: Request[Any]) -> object:
    return tuple(request.queries) if isinstance(request, Words) else type(request)


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
