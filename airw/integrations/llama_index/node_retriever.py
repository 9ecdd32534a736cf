"""LlamaIndex's retriever over corpora."""

from hashlib import sha256

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from airw._base.overriding import override
from airw.integrations._finder import FACTS, Finder, FoundDocument


class AirwNodeRetriever(BaseRetriever):  # type: ignore[misc]
    """A retriever of LlamaIndex that asks corpora.

    `search_retriever`, `discover_retriever` and `walk_retriever` return one.

    Args:
        finder: What it asks.
    """

    def __init__(self, finder: Finder) -> None:
        super().__init__()
        self.finder = finder

    @override
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_nodes(self.finder.find(query_bundle.query_str))

    @override
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_nodes(await self.finder.find_async(query_bundle.query_str))


class AirwNode(TextNode):  # type: ignore[misc]
    """A node whose identity does not depend on the question that found it.

    Fusions of LlamaIndex take nodes of one hash for one document. Its own hash covers the metadata, so the scores of a
    question would make each answer another document.
    """

    _identity: tuple[str | None, str] = PrivateAttr()

    @property
    @override
    def hash(self) -> str:
        """Return the hash of the corpus and the artifact.

        If an artifact may have several nodes, it is also that of the surface.
        """
        return sha256(repr(self._identity).encode("utf-8", "surrogatepass")).hexdigest()


def to_nodes(documents: list[FoundDocument]) -> list[NodeWithScore]:
    """Return documents as nodes.

    Their ids differ, because LlamaIndex drops all but one node of an id.
    """
    nodes: dict[str, NodeWithScore] = {}
    for found in documents:
        own = f"{found.id}#{found.surface}" if found.surface else found.id
        id, number = own, 1
        while id in nodes:  # an artifact of that id in another corpus
            number += 1
            id = f"{own}#{number}"
        node = AirwNode(
            id_=id,
            text=found.text,
            metadata=found.metadata,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=found.id)},
            # A language model shall read the fields of the document, not scores and paths.
            excluded_llm_metadata_keys=[FACTS],
            excluded_embed_metadata_keys=[FACTS],
        )
        node._identity = found.source, own  # noqa: SLF001 - a private attribute is no field
        nodes[id] = NodeWithScore(node=node, score=found.score)
    return list(nodes.values())
