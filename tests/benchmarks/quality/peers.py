"""Searches of other libraries, each with its defaults, over the same texts and vectors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import starmap
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from airw.evaluation import DataSet
from airw.values import SearchHit
from tests.benchmarks.quality.corpora import FLAT, Library, cases_of, read
from tests.benchmarks.quality.systems import SEARCH
from tests.benchmarks.quality.tables import Table, show

SETS = tuple(name for name in FLAT if name != "scifact")  # whose texts would double the time of the run

Answer = Callable[[str, np.ndarray, int], Any]
"""Returns the ids of the best documents for a question and its vector; sync or async."""


@dataclass(frozen=True)
class Defaults:
    """A search of another library.

    Args:
        label: The name in tables.
        answer: The search.
    """

    label: str
    answer: Answer = field(repr=False)

    async def find(self, corpus, query, k, meter) -> Sequence[SearchHit]:
        """Return the first `k` hits."""
        found = self.answer(query, await corpus.embedder.embed_query(query), k)
        ids = found if isinstance(found, list) else await found
        for id in ids:
            meter.arrive(id)
        return [SearchHit(id, "document", 1 / place, "") for place, id in enumerate(ids, start=1)]


async def measure(library: Library, names: Sequence[str] = SETS) -> list[Table]:
    """Return a table for each of two measures, with a row for each data set."""
    found = {}
    for name in names:
        with TemporaryDirectory() as folder:
            systems = [SEARCH, *await make_peers(library, read(name), folder)]
            found[name] = {system.label: await library.evaluate(name, system) for system in systems}
    head = ["set", "questions", *next(iter(found.values()))]
    return [
        Table(
            title,
            head,
            [[n, str(len(cases_of(n))), *(show(e.means()[key]) for e in each.values())] for n, each in found.items()],
        )
        for key, title in (("ndcg@10", "nDCG@10"), ("recall@5", "R@5"))
    ]


async def make_peers(library: Library, data: DataSet, folder: str) -> list[Defaults]:
    """Return the libraries that are installed, with the documents of a data set."""
    texts = {id: f"{row.get('title') or ''}\n{row['text']}".strip() for id, row in data.documents.items()}
    texts = {id: text for id, text in texts.items() if text}
    vectors = np.asarray(await library.embedder.embed_documents(list(texts.values())))
    peers = [Defaults("LangChain, InMemoryVectorStore", fill_langchain(texts, vectors))]
    peers.append(Defaults("LlamaIndex, VectorStoreIndex", fill_llama_index(texts, vectors)))
    if find_spec("rank_bm25"):
        peers.append(Defaults("LangChain, BM25Retriever", fill_bm25(texts)))
    if find_spec("lancedb"):
        peers += list(starmap(Defaults, (await fill_lancedb(texts, vectors, folder)).items()))
    return peers


def fill_langchain(texts, vectors) -> Answer:
    """Return the search of LangChain's own vector store."""
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=2))  # which embeds nothing: all vectors are given
    rows = zip(texts.items(), vectors.tolist(), strict=True)
    store.store = {id: {"id": id, "text": text, "vector": row, "metadata": {}} for (id, text), row in rows}
    return lambda _, vector, k: [each.id for each in store.similarity_search_by_vector(vector.tolist(), k=k)]


def fill_llama_index(texts, vectors) -> Answer:
    """Return the search of an index of LlamaIndex."""
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.schema import QueryBundle, TextNode

    rows = zip(texts.items(), vectors.tolist(), strict=True)
    nodes = [TextNode(id_=id, text=text, embedding=row) for (id, text), row in rows]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(vectors.shape[1]))

    def answer(text, vector, k):
        retriever = index.as_retriever(similarity_top_k=k)
        return [each.node.node_id for each in retriever.retrieve(QueryBundle(text, embedding=vector.tolist()))]

    return answer


def fill_bm25(texts) -> Answer:
    """Return the search of LangChain's retriever by words."""
    from langchain_community.retrievers import BM25Retriever

    retriever = BM25Retriever.from_texts(list(texts.values()), ids=list(texts))
    return lambda text, _, k: [each.id for each in retriever.model_copy(update={"k": k}).invoke(text)]


async def fill_lancedb(texts, vectors, folder: str) -> dict[str, Answer]:
    """Return the searches of a table of LanceDB with an index of words."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    columns = {"id": list(texts), "text": list(texts.values()), "vector": rows}
    table = await (await lancedb.connect_async(folder)).create_table("texts", pa.table(columns))
    await table.create_index("text", config=FTS())

    async def by_words(text, _, k):
        return [row["id"] for row in await table.query().nearest_to_text(text).limit(k).to_list()]

    async def hybrid(text, vector, k):
        query = table.query().nearest_to(vector).distance_type("cosine").nearest_to_text(text)
        return [row["id"] for row in await query.limit(k).rerank().to_list()]

    return {"LanceDB, words": by_words, "LanceDB, hybrid": hybrid}
