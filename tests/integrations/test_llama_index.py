"""Nodes and the postprocessor of LlamaIndex, with its own query engine."""

import pytest

from airw import sync
from airw.errors import ArgumentError

pytest.importorskip("llama_index.core")

from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from airw.integrations.llama_index import LinkPostprocessor, search_retriever, walk_retriever
from tests.support.retrievers import QUERY, write_notes

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]  # to import LlamaIndex takes seconds


@pytest.fixture
def name(tmp_path):
    ovens = {"ovens.md": "# Ovens\nSome ovens are hot. See [bread](bread.md)."}
    sync.build(write_notes(tmp_path / "notes", ovens)).close()
    return "notes"


def ids(nodes):
    return [node.node_id for node in nodes]


def test_a_model_reads_the_fields_of_the_document_alone(name):
    [scored] = walk_retriever(name, k=1, node_budget=1).retrieve(QUERY)
    assert "source: handbook" in scored.node.get_content(MetadataMode.LLM)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "walk_path" not in scored.node.get_content(mode)
    facts = scored.metadata["airw"]
    assert (facts["walk_path"], facts["stop"], facts["truncated"]) == (["keys.md"], "node_budget", True)


def test_nodes_of_one_artifact_have_different_ids_and_one_source_document(name):
    nodes = search_retriever(name, k=20, per_artifact=False).retrieve("the vault")
    assert len(set(ids(nodes))) == len(nodes) > len({node.node.ref_doc_id for node in nodes})


def test_a_node_is_the_same_whatever_question_finds_it(name):
    for options in ({}, {"per_artifact": False}):
        retriever = search_retriever(name, k=20, mode="dense", **options)
        answers = [retriever.retrieve(query) for query in ("the vault", "bread", QUERY)]
        hashes = [{node.node_id: node.node.hash for node in answer} for answer in answers]
        common = hashes[0].keys() & hashes[1].keys() & hashes[2].keys()
        assert common
        assert all(len({each[id] for each in hashes}) == 1 for id in common)


def test_a_fusion_counts_a_document_once_and_adds_up_its_ranks(name):
    parts = [search_retriever(name, k=5, mode=mode) for mode in ("lexical", "hybrid")]
    options = {"mode": "reciprocal_rerank", "num_queries": 1, "use_async": False, "llm": MockLLM()}
    fused = QueryFusionRetriever(parts, similarity_top_k=5, **options).retrieve(QUERY)
    expected = {id for part in parts for id in ids(part.retrieve(QUERY))}
    assert set(ids(fused)) == expected
    assert fused[0].score == pytest.approx(2 / 60, rel=0.05)


def test_what_the_postprocessor_cannot_use_is_refused(name):
    with pytest.raises(ArgumentError, match="k must be"):
        LinkPostprocessor(name, k=-1)
    with pytest.raises(ArgumentError, match="expected an open corpus"):
        LinkPostprocessor([name])


def test_it_works_in_query_engines_and_fusions(name):
    retriever = search_retriever(name, k=2)
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(), node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.0)]
    )
    response = engine.query(QUERY)
    assert "Rotate the signing keys" in str(response)
    assert ids(response.source_nodes) == ids(retriever.retrieve(QUERY))
    parts = [retriever, walk_retriever(name, k=2)]
    fusion = QueryFusionRetriever(parts, llm=MockLLM(), num_queries=1, similarity_top_k=3, use_async=False)
    assert fusion.retrieve(QUERY)[0].node_id == "keys.md"


async def test_the_postprocessor_adds_what_is_linked(name):
    found = search_retriever(name, k=1).retrieve(QUERY)
    add_linked = LinkPostprocessor(name, k=3)
    both = add_linked.postprocess_nodes(found, query_str="vault")
    assert both[: len(found)] == found
    assert ids(both) == ["keys.md", "vault.md"]
    assert both[1].metadata["airw"]["walk_path"] == ["keys.md", "vault.md"]
    assert ids(await add_linked.apostprocess_nodes(found, query_str="vault")) == ids(both)
    deeper = LinkPostprocessor(name, k=3, max_depth=2)
    assert ids(deeper.postprocess_nodes(found, query_str="vault")) == ["keys.md", "vault.md", "people.md"]
    assert ids(LinkPostprocessor(name, k=1, max_depth=2).postprocess_nodes(found)) == ["keys.md", "vault.md"]


def test_it_reads_the_artifact_of_foreign_nodes_from_their_source_document(name):
    chunk = TextNode(id_="chunk-17", text="hot")
    chunk.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="ovens.md")
    foreign = [NodeWithScore(node=chunk, score=0.1), NodeWithScore(node=TextNode(id_="people.md", text="people"))]
    added = LinkPostprocessor(name).postprocess_nodes(foreign, query_str="bread")[2:]
    assert ids(added) == ["bread.md", "vault.md"]  # a link is followed both ways, the nearer to the query comes first


def test_nodes_of_another_corpus_lead_nowhere_and_a_warning_says_so(name):
    alien = TextNode(id_="keys.md", text="", metadata={"airw": {"id": "keys.md", "source": "other"}})
    known = TextNode(id_="ovens.md", text="")
    nodes = [NodeWithScore(node=alien), NodeWithScore(node=known)]
    add_linked = LinkPostprocessor(name)
    assert ids(add_linked.postprocess_nodes(nodes)) == ["keys.md", "ovens.md", "bread.md"]
    with pytest.warns(UserWarning, match="corpus 'notes' contains no artifact of the 1 nodes, such as 'keys.md'"):
        assert add_linked.postprocess_nodes(nodes[:1]) == nodes[:1]
    assert add_linked.postprocess_nodes([]) == []


async def test_it_is_a_part_of_a_query_engine(name):
    engine = RetrieverQueryEngine.from_args(
        search_retriever(name, k=1), llm=MockLLM(), node_postprocessors=[LinkPostprocessor(name)]
    )
    for response in (engine.query(QUERY), await engine.aquery(QUERY)):
        assert ids(response.source_nodes) == ["keys.md", "vault.md"]
