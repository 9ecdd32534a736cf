"""The three homes answer alike: odd ids, named texts and vectors, and what they refuse."""

import numpy as np
import pytest

from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch
from airw.protocols import (
    Change,
    Edges,
    Ledger,
    LinkCounts,
    Matching,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Schema,
    Stale,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    Words,
    ask,
)
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import ArtifactRef, LedgerEntry, Link, LinkFilter, Ranking
from tests.support.postgres import fresh_store

pytestmark = pytest.mark.asyncio_only  # files and servers need asyncio

QUERY = np.full((1, 4), 0.5, np.float32)
TWO = np.concatenate([QUERY, -QUERY])
CONTENT = [
    put("a", "word one", "word", kinds=("title", "chunk"), metadata={"n": 1}, links=[Link("b"), Link("nowhere")]),
    put("b", "word two", "", kinds=("title", "chunk"), metadata={"n": 2}, links=[Link("a", target_source="else")]),
    put("c", "three words, words", metadata={"n": 1}, links=[Link("a"), Link("b", "r")], names=[["See"]]),
    put('["else", "a"]', "an id like a pair"),
]
PAIRS = [("else", "a"), "a", ArtifactRef("else", "a"), "nul\0", "absent", "a"]
REQUESTS = [
    *(Edges(PAIRS, direction) for direction in ("out", "in", "both")),
    Edges(PAIRS, links=LinkFilter(types=["r"]), limit=1),
    Edges(np.array(["a", "c"])),
    Edges({"c": 1}.keys(), "both"),
    RecordsOf(PAIRS),
    RecordsOf(PAIRS, kinds=["title"], limit=1),
    RecordsOf(np.array(["a", "c"])),
    Records(np.array(["x"])),
    VectorsOf(PAIRS),
    Vectors(["absent", "nul\0"]),
    Ledger(PAIRS),
    UnresolvedLinks(PAIRS),
    Referrers([*PAIRS, "nowhere"]),
    Names(["SEE", "a", "nul\0", "absent"]),
    LinkCounts(),
    Matching([("n", 1), ("n", object()), ("absent", 1)]),
    Schema(["n", "n.x", "nul\0"]),
    Stale({"a": "1", "b": "2", "absent": "1"}, LedgerEntry("", "1", "e", "s")),
    Words(["word", "absent words"]),
    *(
        Rank(queries, k, surfaces=surfaces, filter=filter, per_artifact=per_artifact, **named)
        for queries in (TWO, ["word", "words three", ""])
        for k in (None, 2)
        for surfaces in (None, ["title"], [])
        for filter in (None, {"n": 1})
        for per_artifact in (False, True)
        for named in ({}, {"among": PAIRS[:3]}, {"among": []}, {"records": [CONTENT[0].records[1].id, "absent"]})
    ),
    Rank(TWO, 3, among=["a", "b"], records=[CONTENT[1].records[0].id, CONTENT[2].records[0].id]),
    Rank(["word"], 3, among=["a", "b"], records=[CONTENT[1].records[0].id, CONTENT[2].records[0].id]),
    Rank(QUERY[:0], 3, among=["a"]),
    Rank(QUERY.astype(float), 2),
]


def to_plain(answer):
    """Return an answer as lists, in which numbers that differ by rounding are equal."""
    if isinstance(answer, np.ndarray):
        return [answer.shape, str(answer.dtype), np.nan_to_num(answer, nan=-9).round(5).tolist()]
    if isinstance(answer, Ranking):
        return [list(answer.record_ids), list(answer.artifact_ids), to_plain(np.asarray(answer.scores, float))]
    return [to_plain(each) for each in answer] if isinstance(answer, list | tuple) else answer


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def test_each_home_answers_as_the_one_in_memory(kind, tmp_path):
    other = SqliteStore(tmp_path / "s.airw") if kind == "sqlite" else fresh_store()
    async with MemoryStore() as memory, other as store:
        for each in (memory, store):
            await each.apply(Change(CONTENT))
        expected = [to_plain(await ask(memory, request)) for request in REQUESTS]
        for _ in range(2):  # the second time, some are answered from memory
            for request, answer in zip(REQUESTS, expected, strict=True):
                assert to_plain(await ask(store, request)) == answer, request
        assert to_plain(await store.read(*REQUESTS)) == to_plain(await memory.read(*REQUESTS)) == expected


@pytest.mark.parametrize("kind", ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def test_queries_that_fit_no_stored_vector_are_refused_by_all(kind, tmp_path):
    stores = {"memory": MemoryStore, "sqlite": lambda: SqliteStore(tmp_path / "s.airw"), "postgres": fresh_store}
    async with stores[kind]() as store:
        await store.apply(Change(CONTENT))
        for named in ({}, {"among": ["a"]}, {"records": []}):
            with pytest.raises(ArgumentError, match=r"shape \(m, dim\), not \(4,\)"):
                await ask(store, Rank(QUERY[0], 3, **named))
            with pytest.raises(EmbedderMismatch, match=r"3 wide.*4 wide"):
                await ask(store, Rank(QUERY[:, :3], 3, **named))
            with pytest.raises(EmbedderError, match="NaN"):
                await ask(store, Rank(QUERY * np.nan, 3, **named))


@pytest.mark.parametrize("queries", [[1], [None], [[0.5, 0.5]], "word", np.array(["word"]), [b"word"]])
def test_queries_that_are_neither_texts_nor_vectors_are_refused_when_asked(queries):
    with pytest.raises(ArgumentError, match="queries must be"):
        Rank(queries, 3)


def test_a_kind_that_is_no_list_of_kinds_is_refused_when_asked():
    with pytest.raises(ArgumentError, match="kinds must be a list, not 'chunk'"):
        RecordsOf(["a"], kinds="chunk")
