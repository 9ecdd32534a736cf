"""A store of contents in memory."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import numpy as np

from airw._base.json import json_clean
from airw._base.vectors import unit_rows
from airw.compat._missing_names import explain_missing
from airw.compat.graph_retriever.content import Content
from airw.embedders import embedder_from
from airw.protocols import Embedder
from airw.stores import MemoryStore
from airw.values import ArtifactChange, LedgerEntry, Record

_EMBEDDER = "given"


class InMemory:
    """A corpus of contents in memory that `traverse` can walk.

    Args:
        embedding: A function from one text to its vector, for queries.
        content: The contents with their vectors.
    """

    name = ""

    def __init__(self, embedding: Callable[[str], Sequence[float]], content: Sequence[Content]) -> None:
        self.contents: dict[str, Content] = {item.id: item for item in content}
        self.store: MemoryStore = MemoryStore()
        self._fill_lock = anyio.Lock()
        self._embedding = embedding

    @property
    def embedder(self) -> Embedder:
        """The embedder of queries."""
        dim = len(next(iter(self.contents.values())).embedding) if self.contents else 1
        return embedder_from(lambda texts: [self._embedding(text) for text in texts], id=_EMBEDDER, dim=dim)

    async def fill(self) -> "InMemory":
        """Write the contents into the store if it is empty; return this object."""
        async with self._fill_lock:
            if self.contents and not (await self.store.counts())["artifacts"]:
                await self.store.apply([_to_change(content) for content in self.contents.values()])
        return self


def _to_change(content: Content) -> ArtifactChange:
    record_id = Record.make_id(content.id, "document", 0)
    metadata: dict[str, Any] = {key: json_clean(value) for key, value in content.metadata.items()}
    record = Record(record_id, content.id, "document", 0, content.content, metadata)
    entry = LedgerEntry(content.id, "", _EMBEDDER, "", record_ids=[record_id])
    return ArtifactChange(entry, [record], unit_rows(np.asarray([content.embedding]), count=1, of=content.id))


__getattr__: Final = explain_missing(
    __name__, {"InMemoryBase": "use InMemory: it compares whole values and the items of lists"}
)
