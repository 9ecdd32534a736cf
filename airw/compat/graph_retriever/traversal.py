"""Walks that return a list of nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from airw import walking
from airw.compat._sync import run
from airw.compat.graph_retriever.adapters.in_memory import InMemory
from airw.compat.graph_retriever.edges import EdgeFunction, EdgeSpec, edges_of
from airw.corpora import use_corpus
from airw.errors import ArgumentError
from airw.policies import Node, Scope, Scored, Strategy
from airw.values import Limits, SearchHit

_UNBOUNDED = 1_000_000
_SCORES = {"mmr_score": "_mmr_score", "redundancy": "_redundancy"}


def traverse(
    query: str,
    *,
    edges: list[EdgeSpec] | EdgeFunction,
    strategy: Any,
    store: Any,
    metadata_filter: dict[str, Any] | None = None,
    initial_root_ids: Sequence[str] = (),
    store_kwargs: Mapping[str, Any] = {},
) -> list[Node]:
    """Walk with a strategy and return the nodes that it selects, in its order.

    Args:
        query: The text to search for.
        edges: Pairs of fields, or a function of a content.
        strategy: One of `strategies`, or a strategy of your own.
        store: An `InMemory`, an open corpus of airw such as `from_vector_store` returns, or the name of a corpus.
        metadata_filter: Values that fields must equal or contain, in root nodes too.
        initial_root_ids: Nodes to start from, besides those that the search finds.
        store_kwargs: Must be empty, since stores of airw take no such options.

    Raises:
        ArgumentError: If a parameter is not valid.

    Example:
        >>> from airw.compat.graph_retriever import Content
        >>> from airw.compat.graph_retriever.adapters.in_memory import InMemory
        >>> from airw.compat.graph_retriever.strategies import Eager
        >>> vectors = {"fox": [1.0, 0.0], "hen": [0.6, 0.8], "oak": [0.0, 1.0]}
        >>> words = {"fox": ["red"], "hen": ["red", "farm"], "oak": ["tree"]}
        >>> animals = [Content(id, id, vector, {"words": words[id]}) for id, vector in vectors.items()]
        >>> nodes = traverse(
        ...     "fox", edges=[("words", "words")], strategy=Eager(start_k=1), store=InMemory(vectors.get, animals)
        ... )
        >>> [(node.id, node.depth, round(node.similarity_score, 2)) for node in nodes]
        [('fox', 0, 1.0), ('hen', 1, 0.6)]
    """
    return run(
        atraverse,
        query,
        edges=edges,
        strategy=strategy,
        store=store,
        metadata_filter=metadata_filter,
        initial_root_ids=initial_root_ids,
        store_kwargs=store_kwargs,
    )


async def atraverse(
    query: str,
    *,
    edges: list[EdgeSpec] | EdgeFunction,
    strategy: Any,
    store: Any,
    metadata_filter: dict[str, Any] | None = None,
    initial_root_ids: Sequence[str] = (),
    store_kwargs: Mapping[str, Any] = {},
) -> list[Node]:
    """Walk as `traverse` does, as an async function.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    if store_kwargs:
        raise ArgumentError("store_kwargs must be empty: configure the store of airw before the walk")
    options: dict[str, Any] = {"edges": edges_of(edges), "seeding": "dense"}
    if metadata_filter:
        options["scope"] = Scope.only({name: {"$in": [value]} for name, value in metadata_filter.items()})
    async with use_corpus(await store.fill() if isinstance(store, InMemory) else store) as corpus:
        if isinstance(store, InMemory) and not store.contents:
            return []
        # graph-retriever skips roots that do not exist; a policy refuses them.
        known = zip(initial_root_ids, await corpus.store.records_of(list(initial_root_ids), limit=1), strict=True)
        policy = Strategy.build(strategy, roots=[id for id, records in known if records], **options)
        limits = Limits(max_edges=_UNBOUNDED, max_fanout=_UNBOUNDED, max_frontier=_UNBOUNDED)
        walk = walking.start_walk(query, corpus, policy, node_budget=_UNBOUNDED, limits=limits)
        async with walk:
            async for _ in walk:
                pass
        return await _nodes(query, corpus, walk.ranking or (), policy, getattr(store, "contents", {}))


async def _nodes(
    query: str, corpus: Any, hits: Sequence[SearchHit], policy: object, contents: Mapping[str, Any]
) -> list[Node]:
    vector = await corpus.embedder.embed_query(query)
    ids = [hit.artifact_id for hit in hits]
    best = await corpus.store.best_of(vector, ids)
    record_ids, rows = await corpus.store.vectors_of(ids)
    row_of = dict(zip((id for own in record_ids for id in own), rows, strict=True))
    nodes = [
        _node(hit, float(np.nan_to_num(score)), row_of.get(id, ()), contents.get(hit.artifact_id))
        for hit, id, score in zip(hits, best.record_ids, best.scores, strict=True)
    ]
    if isinstance(policy, Scored):
        for hit, node in zip(hits, nodes, strict=True):
            node.extra_metadata["_score"] = hit.score
    return nodes


def _node(hit: SearchHit, similarity: float, row: Any, content: Any) -> Node:
    depth = hit.metadata["walk_depth"]
    extra = {name: value for name, value in hit.metadata.items() if name.startswith("_")}
    extra |= {their_name: hit.metadata[name] for name, their_name in _SCORES.items() if name in hit.metadata}
    extra |= {"_depth": depth, "_similarity_score": similarity}
    if content is None:
        return Node(hit.artifact_id, hit.text, depth, similarity, row, hit.metadata, extra)
    return Node(content.id, content.content, depth, similarity, content.embedding, content.metadata, extra)
