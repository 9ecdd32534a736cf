"""Cost of the sync functions, of retrievers, and of corpora of functions.

The peer is `await search`. All ask one corpus in memory the same questions, with vectors that are given, on one
background loop.
"""

import time
from functools import partial

import pytest

from airw import adapt, build, embedder_from, from_mapping, search, sync
from airw.integrations import langchain, llama_index
from tests.benchmarks.results import run_in_turn
from tests.support.vector_corpora import near_centres

QUESTION = "What do the sync functions and the retrievers cost?"
PEER = "await search"
DIM, K, QUERIES, ROUNDS = 384, 10, 50, 15


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_cost_of_wrappers(make_texts, results, count):
    texts, vectors = make_texts(count), near_centres(count, DIM)
    row_of = {text: row for row, text in enumerate(texts)}
    embedder = embedder_from(lambda given: vectors[[row_of[text] for text in given]], id="given", dim=DIM)
    source = from_mapping({f"{row:06}": text for row, text in enumerate(texts)}, name="notes")
    questions = texts[:: count // QUERIES]

    async def open_corpus():
        return await build(source, embedder=embedder)

    async def await_all(corpus, **options):
        start = time.perf_counter()
        for text in questions:
            assert len(await search(corpus, text, k=K, **options)) == K
        return time.perf_counter() - start

    def ask_all(ask):
        for text in questions:
            assert len(ask(text)) == K

    corpus = sync.run(open_corpus)

    async def find(query, k):
        return await search(corpus, query, k=k, mode="dense")

    with sync.SyncCorpus(corpus) as own:
        options = {"k": K, "mode": "dense"}
        ways = {
            PEER: lambda: sync.run(await_all, corpus, mode="dense"),
            "sync.search": partial(ask_all, partial(sync.search, own, **options)),
            "the retriever of LangChain": partial(ask_all, langchain.search_retriever(own, **options).invoke),
            "the retriever of LlamaIndex": partial(ask_all, llama_index.search_retriever(own, **options).retrieve),
            "a corpus of airw.adapt": lambda: sync.run(await_all, adapt(search=find)),
        }
        rounds = run_in_turn(ways, rounds=ROUNDS, scale=1e3 / QUERIES)
    for name, figures in rounds.items():
        if name != PEER:
            results.compare(QUESTION, f"{name}, {count:,} records", {"airw": figures, PEER: rounds[PEER]}, {PEER: None})
