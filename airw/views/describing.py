"""What a corpus tells of artifacts in short."""

from collections.abc import Sequence
from typing import Any

from airw._base.concurrency import in_thread
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus
from airw.values import NodeId, Record
from airw.views.model import NodeView, node_view

__all__ = ["describe"]

_MANY = 200  # artifacts, described in about a millisecond


async def describe(corpus: OpenCorpus, ids: Sequence[NodeId]) -> list[NodeView]:
    """Give for each artifact its title, type, tags and path, by its first surface; one store call.

    Of an artifact without surfaces, and of one that the corpus does not hold, only the id is told.

    Args:
        corpus: An open corpus.
        ids: The artifacts; of several corpora, `(source, id)` pairs.

    Raises:
        ArgumentError: It is no open corpus.

    Example:
        >>> import anyio
        >>> from airw import build, from_records
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> records = [{"id": "a", "text": "Rotate them.", "title": "Keys"}]
        >>> async def main():
        ...     source = from_records(records, name="docs", text_key="text", embedder=HashingEmbedder())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return await describe(corpus, ["a", "b"])
        >>> [(node.id, node.title) for node in anyio.run(main)]
        [('a', 'Keys'), ('b', None)]
    """
    store: Any = check_corpus(corpus).store  # of several corpora, ids are pairs
    found = await store.records_of(list(ids), limit=1) if ids else []
    return await in_thread(_views, ids, found) if len(ids) > _MANY else _views(ids, found)


def _views(ids: Sequence[NodeId], found: Sequence[Sequence[Record] | None]) -> list[NodeView]:
    return [node_view(id, records[0] if records else None) for id, records in zip(ids, found, strict=True)]
