"""`RemoteEmbedder`: the embedder of a corpus on another machine."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_query, check_texts
from airw.errors import EmbedderError, EmbedderMismatch
from airw.protocols.wire import WireFault, unpack_array
from airw.remote.calls import CorpusServer, TooMuchAtOnce, encode_json


class RemoteEmbedder:
    """The embedder of a corpus on another machine, which embeds queries there.

    Args:
        server: The server.
        corpus: The name of the corpus.
        id: The id of the embedder.
        dim: The width of its vectors.
        max_texts: The largest number of texts that the server embeds at once.
    """

    def __init__(self, server: CorpusServer, corpus: str, *, id: str, dim: int, max_texts: int) -> None:
        self._server, self._corpus, self._max_texts = server, corpus, max_texts
        self._id, self._dim = id, dim

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id!r} at {self._server.url})"

    @property
    def id(self) -> str:
        """Return the identity of model and weights."""
        return self._id

    @property
    def dim(self) -> int:
        """Return the width of the vectors."""
        return self._dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, `(len(texts), dim) float32`.

        Raises:
            EmbedderError: If the embedder of the server fails, or a text cannot be sent.
            RemoteError: If the server cannot be reached, or its answer cannot be used.
        """
        items, size = check_texts(texts, of="RemoteEmbedder", error=EmbedderError, encodable=True), self._max_texts
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        rows = [await self._embed_texts(part) for part in parts]
        return np.concatenate(rows) if rows else np.zeros((0, self._dim), np.float32)

    async def _embed_texts(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, in halves while they are too long for one call."""
        try:
            return await self._embed({"texts": texts}, (len(texts), self._dim))
        except TooMuchAtOnce:
            if len(texts) < 2:
                raise
        middle = len(texts) // 2
        return np.concatenate([await self._embed_texts(half) for half in (texts[:middle], texts[middle:])])

    async def embed_query(self, text: str) -> Floats:
        """Return the vector of a query, `(dim,) float32`.

        Raises:
            EmbedderMismatch: If the corpus was built again with another embedder since it was opened.
            EmbedderError: If the embedder of the server fails.
            RemoteError: If the server cannot be reached, or its answer cannot be used.
        """
        return await self._embed({"query": check_query(text)}, (self._dim,))

    async def _embed(self, fields: dict[str, Any], shape: tuple[int, ...]) -> Floats:
        body = await encode_json({"corpus": self._corpus, **fields})
        embedder_id, vectors = await self._server.call(
            "POST", "/embed", of=self._corpus, body=body, read=partial(_read_vectors, shape=shape)
        )
        if embedder_id != self._id:
            raise EmbedderMismatch(
                f"{self._server.label(self._corpus)} has another embedder than when it was opened; open it again"
            )
        return vectors


def _read_vectors(answer: Any, *, shape: tuple[int, ...]) -> tuple[str, Floats]:
    fields = answer if isinstance(answer, dict) else {}
    vectors = unpack_array(fields.get("vectors"), dimensions=len(shape)).astype(np.float32)
    if vectors.shape != shape or not np.isfinite(vectors).all():
        raise WireFault(f"vectors of the shape {vectors.shape} are not finite ones of the shape {shape}")
    return str(fields.get("embedder_id")), vectors
