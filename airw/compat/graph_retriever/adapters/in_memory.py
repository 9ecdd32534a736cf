"""Contents in memory."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import numpy as np

from airw._base.json import json_clean
from airw._base.vectors import unit_rows
from airw.compat._missing import missing
from airw.compat.graph_retriever.content import Content
from airw.embedders import embedder_from
from airw.protocols import Embedder
from airw.stores import MemoryStore
from airw.values import ArtifactChange, LedgerEntry, Record

_EMBEDDER = "given"


class InMemory:
    """Contents in memory, and what embeds a query: a corpus that can be walked.

    Args:
        embedding: A function of one text.
        content: The contents, with their vectors.
    """

    name = ""

    def __init__(self, embedding: Callable[[str], Sequence[float]], content: Sequence[Content]) -> None:
        self.contents = {each.id: each for each in content}
        self.store = MemoryStore()
        self._filling = anyio.Lock()
        self._embedding = embedding

    @property
    def embedder(self) -> Embedder:
        """What embeds a query."""
        dim = len(next(iter(self.contents.values())).embedding) if self.contents else 1
        return embedder_from(lambda texts: [self._embedding(text) for text in texts], id=_EMBEDDER, dim=dim)

    async def filled(self) -> "InMemory":
        """Write the contents into the store, once, and return itself."""
        async with self._filling:
            if self.contents and not (await self.store.counts())["artifacts"]:
                await self.store.apply([_change(each) for each in self.contents.values()])
        return self


def _change(content: Content) -> ArtifactChange:
    record_id = Record.make_id(content.id, "document", 0)
    metadata: dict[str, Any] = {key: json_clean(value) for key, value in content.metadata.items()}
    record = Record(record_id, content.id, "document", 0, content.content, metadata)
    entry = LedgerEntry(content.id, "", _EMBEDDER, "", record_ids=[record_id])
    return ArtifactChange(entry, [record], unit_rows(np.asarray([content.embedding]), count=1, of=content.id))


__getattr__ = missing(
    __name__, {"InMemoryBase": "values of fields are compared whole, or with those in a list: InMemory does both"}
)
