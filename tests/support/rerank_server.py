"""A real reranking server on the loopback interface: `tests.embedding_server`, with scores instead of vectors.

It speaks both APIs, each in its own form, and answers best first, as such servers do.
"""

from zlib import crc32

from tests.support.embedding_server import EmbeddingServer


class RerankServer(EmbeddingServer):
    """Scores a text by chance, but always the same for the same query."""

    def score(self, query: str, text: str) -> float:
        return crc32(f"{query}\n{text}".encode()) / 2**32

    def answer(self, texts):
        (asked,) = [request for request in self.requests if request.texts is texts]
        scores = [self.score(asked.payload["query"], text) for text in texts]
        ranked = sorted(range(len(texts)), key=lambda at: -scores[at])
        if "texts" in asked.payload:
            return [{"index": at, "score": scores[at]} for at in ranked]
        items = [{"index": at, "document": {"text": texts[at]}, "relevance_score": scores[at]} for at in ranked]
        return {"id": "1", "model": asked.payload["model"], "results": items}
