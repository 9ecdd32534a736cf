"""A reranking server on the loopback interface, built on `embedding_server`.

It answers both APIs in their own formats, best first, as such servers do.
"""

from zlib import crc32

from tests.support.embedding_server import EmbeddingServer


class RerankServer(EmbeddingServer):
    """A server with random scores that are always the same for a query and a text."""

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
