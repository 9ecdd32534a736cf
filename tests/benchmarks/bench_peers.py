"""Searches beside those of frameworks and LanceDB, each with its defaults.

All have the same texts and vectors. Texts have 60 words by Zipf's law, vectors 384 dimensions in clusters; no model is
asked. In memory, airw is beside the vector stores of LangChain and LlamaIndex and LangChain's BM25 retriever. In files,
it is beside LanceDB with an index of words, and with and without one of vectors. Every answer contains ids and texts.
`AIRW_BENCH_ROWS` names one size of files instead of both.
"""

import json
import os
import warnings
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from airw import build, embedder_from, from_mapping, open_corpus, search
from tests.benchmarks.results import run_in_turn
from tests.support.new_processes import SEARCH, run_process
from tests.support.vector_corpora import near_centres

FRAMEWORKS = "How fast is a search beside those of LangChain and LlamaIndex?"
LANCE = "How fast is a corpus file beside a table of LanceDB?"
SIZES = [int(os.environ["AIRW_BENCH_ROWS"])] if "AIRW_BENCH_ROWS" in os.environ else [10_000, 100_000]
DIM, K, QUERIES, ROUNDS, STARTS = 384, 10, 20, 5, 5
IN_MEMORY, REFINE = 10_000, (1, 10, 50)
os.environ.setdefault("LANCEDB_LOG", "error")  # a hybrid query warns each time of a column that will not be there

THEIR_START = """
import asyncio, json, sys
import lancedb

async def main(folder, mode, text, vector):
    table = await (await lancedb.connect_async(folder)).open_table("notes")
    if mode == "dense":
        query = table.query().nearest_to(vector).distance_type("cosine").select(["id", "text", "_distance"])
    else:
        query = table.query().nearest_to_text(text).select(["id", "text", "_score"])
    print(*(row["id"] for row in await query.limit(10).to_list()))

asyncio.run(main(*sys.argv[1:4], json.loads(sys.argv[4])))
"""


class Trial:
    """Texts, questions of a few words of some of them, and the vectors of all."""

    def __init__(self, texts):
        self.texts = texts
        self.vectors = near_centres(len(texts) + QUERIES, DIM)
        self.questions = [" ".join(texts[(at * 37) % len(texts)].split()[at % 7 : at % 7 + 4]) for at in range(QUERIES)]
        self._row_of = {text: row for row, text in enumerate([*texts, *self.questions])}
        self.embedder = embedder_from(self.embed, id="given", dim=DIM)

    def embed(self, texts):
        return self.vectors[[self._row_of[text] for text in texts]]

    def source(self):
        return from_mapping({f"{row:06}": text for row, text in enumerate(self.texts)}, name="notes")

    def ask_all(self, answer):
        return [answer(question) for question in self.questions]


def agree(ours, theirs, least):
    """Return the share of the answers that is the same, and assert that it is large enough."""
    same = sum(len({*mine} & {*others}) for mine, others in zip(ours, theirs, strict=True)) / (K * QUERIES)
    assert same >= least, same
    return same


@pytest.fixture
def trial(make_texts, request):
    return Trial(make_texts(getattr(request, "param", IN_MEMORY)))


def open_frameworks(trial):
    """Return a function per mode and framework that answers a question with ids."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.schema import QueryBundle, TextNode

    with warnings.catch_warnings(action="ignore"):
        from langchain_community.retrievers import BM25Retriever

    class Table(Embeddings):
        def embed_documents(self, texts):
            return trial.embed(texts).tolist()

        def embed_query(self, text):
            return trial.embed([text])[0].tolist()

    ids = [f"{row:06}" for row in range(len(trial.texts))]
    vectors = InMemoryVectorStore(Table())
    vectors.add_texts(trial.texts, ids=ids)
    words = BM25Retriever.from_texts(trial.texts, ids=ids, k=K)
    rows = zip(ids, trial.texts, trial.vectors[: len(ids)].tolist(), strict=True)
    nodes = [TextNode(id_=id, text=text, embedding=vector) for id, text, vector in rows]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(DIM)).as_retriever(similarity_top_k=K)

    def ask_index(text):
        return [each.node.node_id for each in index.retrieve(QueryBundle(text, embedding=Table().embed_query(text)))]

    return {
        ("dense", "LangChain, InMemoryVectorStore"): lambda text: [d.id for d in vectors.similarity_search(text, k=K)],
        ("dense", "LlamaIndex, VectorStoreIndex"): ask_index,
        ("lexical", "LangChain, BM25Retriever"): lambda text: [document.id for document in words.invoke(text)],
    }


def test_search_beside_frameworks(trial, results):
    peers = open_frameworks(trial)
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(build(trial.source(), embedder=trial.embedder)) as corpus,
    ):

        def ask(text, **options):
            return [hit.artifact_id for hit in portal.call(partial(search, corpus, text, k=K, **options))]

        for mode in ("dense", "lexical"):
            ways = {name: answer for (of, name), answer in peers.items() if of == mode}
            for answer in ways.values():  # BM25Retriever splits at spaces and has other constants
                agree(trial.ask_all(partial(ask, mode=mode)), trial.ask_all(answer), 1 if mode == "dense" else 0.7)
            timed = {name: partial(trial.ask_all, answer) for name, answer in ways.items()}
            rounds = run_in_turn({"airw": partial(trial.ask_all, partial(ask, mode=mode))} | timed, rounds=ROUNDS)
            each = {name: [value / QUERIES for value in values] for name, values in rounds.items()}
            results.compare(FRAMEWORKS, f"{mode}, {IN_MEMORY:,} records", each, dict.fromkeys(ways))


async def write_lance(folder, trial):
    """Write a table with an index of words, as its documentation does for a hybrid search."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    rows = trial.vectors[: len(trial.texts)]
    columns = {
        "id": [f"{row:06}" for row in range(len(rows))],
        "text": trial.texts,
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIM),
    }
    database = await lancedb.connect_async(folder)
    table = await database.create_table("notes", pa.table(columns), mode="overwrite")
    await table.create_index("text", config=FTS())
    return table


async def ask_lance(table, trial, mode, text, refine=1):
    query = table.query()
    if mode != "lexical":
        query = query.nearest_to(trial.embed([text])[0]).distance_type("cosine")
        query = query.refine_factor(refine) if refine > 1 else query
    if mode != "dense":
        query = query.nearest_to_text(text)
    scores = {"dense": ["_distance"], "lexical": ["_score"], "hybrid": []}[mode]
    query = query.rerank() if mode == "hybrid" else query
    return [row["id"] for row in await query.select(["id", "text", *scores]).limit(K).to_list()]


async def ask_ours(corpus, mode, text):
    return [hit.artifact_id for hit in await search(corpus, text, mode=mode, k=K)]


async def write_ours(path, trial):
    path.unlink(missing_ok=True)
    async with build(trial.source(), store=path, embedder=trial.embedder):
        pass


@asynccontextmanager
async def both(folder: Path, trial):
    """Write both, and yield the table and a function per name that answers a question."""
    table = await write_lance(folder / "lance", trial)
    await write_ours(folder / "notes.airw", trial)
    async with open_corpus(folder / "notes.airw", embedder=trial.embedder) as corpus:
        yield table, {"airw": partial(ask_ours, corpus), "LanceDB": partial(ask_lance, table, trial)}


async def index_vectors(table):
    """Add the default index of vectors to a table; it is not exact."""
    from lancedb.index import IvfPq

    await table.create_index("vector", config=IvfPq(distance_type="cosine"))


@pytest.mark.parametrize("trial", SIZES, indirect=True, ids="{:,}".format)
def test_a_file_beside_a_table_of_lancedb(trial, results, tmp_path):
    pytest.importorskip("lancedb")
    count = f"{len(trial.texts):,} records"

    async def ask_all(answer, mode):
        return [await answer(mode, text) for text in trial.questions]

    with anyio.from_thread.start_blocking_portal() as portal:
        writers = {
            "airw": partial(portal.call, write_ours, tmp_path / "built.airw", trial),
            "LanceDB": partial(portal.call, write_lance, tmp_path / "built", trial),
        }
        results.compare(LANCE, f"build, {count}", run_in_turn(writers, rounds=3), {"LanceDB": None})
        with portal.wrap_async_context_manager(both(tmp_path, trial)) as (table, answers):

            def compare(answers, mode, work, least=0.0):
                ways = {name: partial(portal.call, ask_all, answer, mode) for name, answer in answers.items()}
                same = agree(ways["airw"](), ways["LanceDB"](), least)
                rounds = run_in_turn(ways, rounds=ROUNDS)
                each = {name: [value / QUERIES for value in values] for name, values in rounds.items()}
                results.compare(LANCE, f"{work}, {count}", each, {"LanceDB": None})
                print(f"{same:.0%} of the answers are the same")

            compare(answers, "dense", "dense", 1)
            compare(answers, "lexical", "lexical", 0.8)
            compare(answers, "hybrid", "hybrid")
            portal.call(index_vectors, table)
            for refine in REFINE:  # how many times ten candidates are compared exactly
                theirs = partial(ask_lance, table, trial, refine=refine)
                compare(answers | {"LanceDB": theirs}, "dense", f"dense, its index, refined {refine} x")
    text, vector = trial.questions[0], json.dumps(trial.embed(trial.questions[:1])[0].tolist())
    for mode in ("dense", "lexical"):
        ours = partial(run_process, SEARCH, tmp_path / "notes.airw", mode, text, vector)
        theirs = partial(run_process, THEIR_START, tmp_path / "lance", mode, text, vector)
        ours(), theirs()  # compiles modules, and reads the files from the disk
        rounds = run_in_turn({"airw": ours, "LanceDB": theirs}, rounds=STARTS)
        results.compare(LANCE, f"a new process, {mode}, {count}", rounds, {"LanceDB": None})
