"""LlamaIndex's retriever over corpora."""

from llama_index.core.base.base_retriever import BaseRetriever
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


def to_nodes(documents: list[FoundDocument]) -> list[NodeWithScore]:
    """Return documents as nodes.

    Their ids differ, because LlamaIndex drops all but one node of an id.
    """
    nodes: dict[str, NodeWithScore] = {}
    for found in documents:
        id, number = found.id, 1
        while id in nodes:  # another surface of the artifact, or an artifact of that id in another corpus
            number += 1
            id = f"{found.id}#{number}"
        node = TextNode(
            id_=id,
            text=found.text,
            metadata=found.metadata,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=found.id)},
            # A language model shall read the fields of the document, not scores and paths.
            excluded_llm_metadata_keys=[FACTS],
            excluded_embed_metadata_keys=[FACTS],
        )
        nodes[id] = NodeWithScore(node=node, score=found.score)
    return list(nodes.values())
