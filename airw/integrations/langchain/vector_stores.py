"""LangChain's vector stores as corpora."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import NAME_RULE, check_kind, is_valid_name
from airw._base.concurrency import in_thread, map_bounded, offload_if
from airw._base.json import json_clean
from airw._base.lru import LruCache
from airw._base.messages import error_text, short_repr
from airw._base.overriding import override
from airw._base.vectors import exact_scores, unit_rows
from airw.corpora import Corpus
from airw.errors import ArgumentError, EmbedderError, StoreError
from airw.protocols import Capability, Matching, Rank
from airw.stores import FunctionStore
from airw.values import Ranking
from airw.values.filters import MISSING, And, Compare, Filter, as_key, get_field, matches

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

MetadataFilter: TypeAlias = Callable[[str, Any], Any]
"""Returns the filter, in the language of a vector store, of the documents with a value in a field."""

_MAX_CALLS = 16  # calls of the vector store at once
_MAX_MATCHES = 10_000  # documents with one value
_MAX_VECTORS = 4_096  # texts whose vectors are remembered
_OFFLOAD_ABOVE = 200  # documents; reading more takes longer than about a millisecond


def from_vector_store(
    store: "VectorStore", *, name: str = "langchain", filter_for: MetadataFilter | None = None
) -> Corpus:
    """Return a corpus over a LangChain vector store, which can be searched and walked.

    Nothing is copied: each call asks the vector store. Documents need ids; each is an artifact, and its metadata are
    the fields. Searches are dense. Walks follow shared values of metadata, with the `edges` of `Eager`, `Scored` or
    `Mmr`: `edges=[("keywords", "keywords")]`. For each value of a field that leads on, the vector store is searched
    with a filter. A filter of airw needs a condition that demands one value, as `{"lang": "en"}` or
    `Scope.only({"lang": "en"})`: the vector store finds its documents, and airw applies the other conditions.

    Scores are cosines. LangChain's interface returns no vectors, so the texts found are embedded with the embeddings of
    the store; the vectors of the last 4,096 texts are remembered.

    Args:
        store: The vector store. It must have `embeddings`, and implement `similarity_search_by_vector` and
            `get_by_ids`; a walk along metadata needs the keyword `filter`, too.
        name: The name of the corpus; hits carry it as their source.
        filter_for: A function from a field and a value to a filter in the language of the store, for the documents
            whose field equals the value or contains it. By default `{field: value}`, or a function for LangChain's
            in-memory store. At most 10,000 documents may share a value.

    Raises:
        ArgumentError: If the vector store has no embeddings, or is something else, or the name is not valid.

    Searches and walks raise a `StoreError` if the vector store or `filter_for` fails, or lacks a method.

    Example:
        >>> import anyio
        >>> from langchain_core.documents import Document
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> from airw import traverse
        >>> from airw.policies import Eager
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
        >>> words = {"fox": ["red"], "hen": ["red", "farm"], "cow": ["farm"]}
        >>> documents = [Document(id, id=id, metadata={"words": own}) for id, own in words.items()]
        >>> _ = store.add_documents(documents)
        >>> async def main():
        ...     policy = Eager(start_k=1, edges=[("words", "words")])
        ...     walk = traverse("fox", from_vector_store(store, name="farm"), policy=policy)
        ...     print([(hit.artifact_id, hit.metadata["walk_depth"]) async for hit in walk])
        >>> anyio.run(main)
        [('fox', 0), ('hen', 1), ('cow', 2)]
    """
    embeddings = getattr(store, "embeddings", None)
    if embeddings is None or not hasattr(type(store), "similarity_search_by_vector"):
        raise ArgumentError(
            f"store must be a LangChain vector store with embeddings, not {short_repr(store)}; else use airw.adapt"
        )
    check_kind("filter_for", filter_for, Callable | None, "be a function", error=ArgumentError)
    if not is_valid_name(name):
        raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
    embedder = _LangChainEmbedder(embeddings)
    return Corpus(name, _VectorStoreReader(store, embedder, filter_for or _default_filter(store)), embedder)


def _default_filter(store: "VectorStore") -> MetadataFilter:
    from langchain_core.vectorstores import InMemoryVectorStore

    if isinstance(store, InMemoryVectorStore):
        return lambda field, value: lambda document: _has_value(document.metadata, field, value)
    return lambda field, value: {field: value}


def _has_value(metadata: Mapping[str, Any], field: str, value: Any) -> bool:
    """Return whether a field equals a value or contains it, as `matching` of a store compares."""
    own = json_clean(get_field(metadata, field)) if get_field(metadata, field) is not MISSING else []
    wanted = as_key(value)
    return as_key(own) == wanted or (isinstance(own, list) and any(as_key(item) == wanted for item in own))


class _LangChainEmbedder:
    """LangChain's embeddings as an embedder that remembers the vectors of texts."""

    def __init__(self, embeddings: "Embeddings") -> None:
        self._embeddings = embeddings
        self._vectors = LruCache[str, Floats](_MAX_VECTORS)
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        # Vectors of embeddings without a name of the model are compared with none of other embeddings.
        own = model if isinstance(model, str) else f"{id(embeddings):x}"
        self._id, self._dim = f"langchain-{type(embeddings).__name__}-{own}", 0

    @property
    def id(self) -> str:
        """Return the class of the embeddings and their model."""
        return self._id

    @property
    def dim(self) -> int:
        """Return the width of the vectors; 0 until the first text is embedded."""
        return self._dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, `(len(texts), dim) float32`."""
        rows = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            vectors = await self._call("embed_documents", missing)
            new = unit_rows(vectors, count=len(missing), of=f"embedder {self._id!r}")
            self._dim = new.shape[1]
            rows.update(zip(missing, new, strict=True))
        for text, row in rows.items():
            self._vectors.get_or_create(text, lambda _, row=row: row)  # type: ignore[misc]
        return np.array([rows[text] for text in texts], np.float32).reshape(len(texts), self._dim)

    async def embed_query(self, text: str) -> Floats:
        """Return the vector of a query, `(dim,) float32`."""
        row: Floats = unit_rows([await self._call("embed_query", text)], count=1, of=f"embedder {self._id!r}")[0]
        self._dim = len(row)
        return row

    async def _call(self, method: str, argument: object) -> Any:
        try:
            return await _call_langchain(self._embeddings, method, argument)
        except Exception as error:
            raise EmbedderError(f"{method} of {type(self._embeddings).__name__} failed: {error_text(error)}") from error


async def _call_langchain(target: object, method: str, *arguments: object, **options: object) -> Any:
    """Call a method of LangChain.

    Its async methods run on asyncio alone, so on trio the sync method runs in a worker thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await in_thread(lambda: getattr(target, method)(*arguments, **options))
    return await getattr(target, f"a{method}")(*arguments, **options)


class _VectorStoreReader(FunctionStore):
    """A LangChain vector store that ranks by vectors and finds documents by metadata."""

    advice: Mapping[Capability, str] = {
        "edges": "follow shared metadata with edges=[(field, field)] in the policy",
        "lexical": "a LangChain vector store ranks by vectors alone",
    }

    def __init__(self, store: "VectorStore", embedder: _LangChainEmbedder, filter_for: MetadataFilter) -> None:
        super().__init__(None, self._read_documents, None, embedder)
        self._store, self._filter_for = store, filter_for
        self.capabilities = {*self.capabilities, "dense", "matching"}

    async def _read_documents(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        documents = await self._find("get_by_ids", list(ids))
        return {id: {"text": document.page_content, "metadata": document.metadata} for id, document in documents}

    @override
    async def rank(self, request: Rank) -> list[Ranking]:
        if request.needs != "dense":
            return await super().rank(request)
        value = None if request.filter is None else _find_value(request.filter)
        if request.filter is not None and value is None:
            raise ArgumentError(
                "filter cannot be used: LangChain's stores find documents by a value of a field; pass at least one "
                "condition such as {'field': 'value'} that all hits must satisfy"
            )
        await self._check_width(request.queries)
        k = _MAX_MATCHES if request.k is None else request.k
        empty = Ranking([], [], np.zeros(0))
        if not k or (request.surfaces is not None and "document" not in request.surfaces):
            return [empty for _ in request.queries]

        async def rank(query: Floats) -> Ranking:
            documents = await self._find_nearest(query, k, request.filter, value)
            scores = exact_scores(await self._embed([own.page_content for _, own in documents]), query)
            rows = sorted(zip(scores.tolist(), documents, strict=True), key=lambda row: (-row[0], row[1][0]))
            ids = [id for _, (id, _) in rows]
            return Ranking(ids, ids, np.array([score for score, _ in rows], np.float64))

        return await map_bounded(rank, list(cast("Floats", request.queries)), limit=_MAX_CALLS)

    async def _find_nearest(
        self, query: Floats, k: int, filter: Filter | None, value: tuple[str, Any] | None
    ) -> list[tuple[str, "Document"]]:
        """Return the `k` documents nearest to a query that satisfy a filter.

        The store filters by one value, and the rest is done here.
        """
        if value is None:
            return (await self._find("similarity_search_by_vector", query.tolist(), k=k))[:k]
        own_filter, kept = await self._call("filter_for", self._filter_for, *value), list[tuple[str, "Document"]]()
        for count in (k, _MAX_MATCHES):  # all that have the value, if the other conditions drop any of the first
            found = await self._find("similarity_search_by_vector", query.tolist(), k=count, filter=own_filter)
            kept = [(id, document) for id, document in found if matches(filter, json_clean(document.metadata))]
            if len(kept) >= k or len(kept) == len(found) or len(found) < count:
                break
        return kept[:k]

    async def matching(self, request: Matching) -> list[list[str]]:
        """Return, for each pair of field and value, the documents that have it, as sorted ids."""
        wanted = request.wanted
        if not wanted:
            return []
        # All that have the value are wanted, so it does not matter what they are near to.
        anywhere = [1.0] + [0.0] * (await self._find_width() - 1)

        async def find(pair: tuple[str, Any]) -> list[str]:
            own_filter = await self._call("filter_for", self._filter_for, *pair)
            documents = await self._find("similarity_search_by_vector", anywhere, k=_MAX_MATCHES, filter=own_filter)
            # A store may ignore a filter that it does not understand.
            return await offload_if(len(documents) > _OFFLOAD_ABOVE, _select_ids, documents, *pair)

        return [ids[: request.limit] for ids in await map_bounded(find, wanted, limit=_MAX_CALLS)]

    async def _find(self, method: str, *arguments: object, **options: object) -> list[tuple[str, "Document"]]:
        """Call a method of the vector store, and return the documents by their ids.

        Raises:
            StoreError: If the call fails or returns something else, or a document has no id.
        """
        try:
            documents = await _call_langchain(self._store, method, *arguments, **options)
            return [(self._id_of(document), document) for document in documents]
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"{method} of {type(self._store).__name__} failed: {error_text(error)}") from error

    def _id_of(self, document: "Document") -> str:
        id = document.id or document.metadata.get("_id")  # where the stores of Qdrant and MongoDB write it
        if not id:
            start = short_repr(document.page_content[:40])
            raise StoreError(f"{type(self._store).__name__} returned the document {start} without an id; add ids")
        return str(id)


def _find_value(filter: Filter) -> tuple[str, Any] | None:
    """Return a field and the value that a filter demands of it; `None` if it demands none."""
    match filter:
        case Compare(path, "$eq", str() | int() | float() as value) | Compare(path, "$in", [value]):
            return path, value
        case And(parts):
            return next((found for part in parts if (found := _find_value(part)) is not None), None)
    return None


def _select_ids(documents: Sequence[tuple[str, "Document"]], field: str, value: Any) -> list[str]:
    return sorted({id for id, document in documents if _has_value(document.metadata, field, value)})
