"""Uses of the public names for mypy and pyright; nothing runs this file."""

from collections.abc import Sequence
from typing import Any, assert_type

import airw
from airw import (
    ArtifactRef,
    Corpus,
    DiscoveryResult,
    Edge,
    Frontier,
    Policy,
    Record,
    SearchHit,
    Walk,
    WalkState,
    WalkSummary,
    adapt,
    build,
    discover,
    discover_stream,
    from_mapping,
    from_notes,
    merge,
    open_corpus,
    prefetch,
    search,
    sync,
    top_k,
    traverse,
)
from airw.corpora import BuildReport
from airw.discovery import SourceAnswered
from airw.embedders import HashingEmbedder
from airw.integrations.langchain import AirwRetriever, from_vector_store, search_retriever, walk_retriever
from airw.mcp import app as mcp_app
from airw.policies import Beam, Eager
from airw.protocols import Counts, Edges, Rank, Records, ask, ask_all
from airw.remote import RemoteCorpus
from airw.stores import MemoryStore, OwnStore, SqliteStore
from airw.testing import ScriptedStore, StoreSuite
from airw.testing.exam import Report
from airw.tools import Tool, discover_tool, read_tool, walk_tool
from airw.values import Ranking


class WalkedStore(OwnStore):
    """A third-party store that can be walked."""

    capabilities = frozenset({"dense", "edges", "records", "scores"})

    async def rank(self, request: Rank) -> list[Ranking]:
        raise LookupError

    async def edges(self, request: Edges) -> Sequence[Sequence[Edge]]:
        return [[] for _ in request.ids]


class Counted(Policy[int]):
    """A policy whose walks remember a number."""

    def begin(self, state: WalkState[int]) -> int:
        return 0

    def select(self, state: WalkState[int], frontier: Frontier) -> list[int]:
        assert_type(state.memory, int)
        return [int(position) for position in frontier.live]


async def verbs() -> None:
    source = from_mapping({"a": "text"}, name="notes", embedder="light")
    async with build(source, store=MemoryStore()) as built:
        assert_type(built, Corpus)
        assert_type(built.report, BuildReport | None)
        assert_type(await built.search("keys", k=3, mode="hybrid"), list[SearchHit])
    corpus = await open_corpus("notes")
    assert_type(await search(corpus, "keys", k=3), list[SearchHit])
    assert_type(await search("notes", "keys", filter={"lang": "en"}), list[SearchHit])
    assert_type(await discover([corpus], "keys", strategy="top_k"), DiscoveryResult)
    walk = traverse("keys", corpus, policy=Beam(width=2))
    assert_type(walk, Walk)
    assert_type([hit async for hit in walk], list[SearchHit])
    assert_type(walk.summary, WalkSummary | None)
    assert_type(await top_k(walk, k=3), list[SearchHit])
    assert_type(walk.extend(node_budget=200, max_depth=None), Walk)
    assert_type(walk.extend(timeout=2.5), Walk)
    assert_type(walk.ranking, list[SearchHit] | None)
    async with prefetch(walk, buffer=8) as hits:
        assert_type([hit async for hit in hits], list[SearchHit])
    async with discover_stream([corpus, "mail"], "keys") as updates:
        assert_type([update async for update in updates], list[SourceAnswered | DiscoveryResult])
    walk.extend(node_budget="200")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def find(query: str, k: int) -> list[tuple[str, float]]:
    return [("a", 1.0)][:k]


async def read(ids: Sequence[str]) -> list[str | None]:
    return [None for _ in ids]


async def corpora_of_others(store: Any) -> None:
    adapted = adapt(search=find, get=read, name="wiki")
    assert_type(adapted, Corpus)
    assert_type(await search(adapted, "keys"), list[SearchHit])
    traverse("keys", adapted, policy=Eager())
    adapt(search="find")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(from_vector_store(store, filter_for=lambda field, value: {field: value}), Corpus)


async def tools_of_agents(corpus: Corpus) -> None:
    tools = [discover_tool([corpus, "other"]), walk_tool(corpus, timeout=5.0), read_tool(corpus)]
    assert_type(tools, list[Tool])
    assert_type(await tools[0].call({"query": "keys"}), str)


async def corpora_on_other_machines() -> None:
    async with RemoteCorpus.open("http://localhost", "notes", token="secret") as corpus:
        assert_type(corpus, RemoteCorpus)
        walk = corpus.traverse("keys", policy=Beam(width=2))
        assert_type(walk, Walk)
        assert_type(await top_k(walk, k=3), list[SearchHit])
        async with merge(corpus.traverse("keys"), traverse("keys", corpus)) as pairs:
            assert_type([pair async for pair in pairs], list[tuple[Walk, SearchHit]])


async def stores_of_others() -> None:
    walked = Corpus("mine", WalkedStore(), HashingEmbedder())
    assert_type(walked, Corpus)
    traverse("keys", walked, policy=Eager())
    await search(walked, "keys")
    await walked.search("keys")
    Corpus("mine", {"a": "text"}, HashingEmbedder())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(await ask(walked.store, Records(["a"])), list[Record | None])
    rankings, edges = await ask_all(walked.store, Rank(["keys"], 3), Edges(["a"]))
    assert_type(rankings, list[Ranking])
    assert_type(edges, Sequence[Sequence[Edge]])


async def stores_in_tests() -> None:
    store = ScriptedStore(MemoryStore(), delays={Edges: 0.5}, failures={Counts: LookupError("gone")})
    assert_type(store, ScriptedStore)
    async with build(from_notes("notes"), store=store) as corpus:
        await search(corpus, "keys")
    assert_type(await ask(store, Counts()), dict[str, int])
    assert_type(store.calls[Counts], int)
    assert_type(await StoreSuite(lambda folder: MemoryStore(), capabilities=["edges"]).run(), Report)


def servers(corpus: Corpus) -> None:
    mcp_app([corpus])
    mcp_app([corpus], port=80)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def scripts() -> None:
    with sync.build(from_mapping({"a": "text"}, name="notes")) as built:
        assert_type(built, sync.SyncCorpus)
        assert_type(built.search("keys", k=3), list[SearchHit])
        assert_type(sync.search(built, "keys", mode="lexical"), list[SearchHit])
        assert_type(sync.discover([built, "other"], "keys"), DiscoveryResult)
        assert_type(sync.run(ask, built.store, Counts()), dict[str, int])
        sync.search(built, "keys", limit=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    walk = sync.traverse("keys", built, policy=Beam(width=2), node_budget=8)
    assert_type(walk, sync.SyncWalk)
    assert_type([hit for hit in walk], list[SearchHit])  # noqa: C416 - what a loop sees
    assert_type(walk.extend(timeout=5.0), sync.SyncWalk)
    assert_type(walk.summary, WalkSummary | None)
    with sync.merge(walk, walk) as pairs:
        assert_type(next(pairs), tuple[sync.SyncWalk, SearchHit])
    with sync.discover_stream(built, "keys") as updates:
        assert_type(next(updates), SourceAnswered | DiscoveryResult)
    assert_type(sync.SyncCorpus(sync.run(RemoteCorpus.open("http://host", "notes").__aenter__)), sync.SyncCorpus)
    sync.SyncCorpus("notes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def retrievers() -> None:
    retriever = search_retriever("notes", k=3, timeout=2.0)
    assert_type(retriever, AirwRetriever)
    walk_retriever(["notes", "mail"], policy=Beam(width=2), max_depth=None)
    search_retriever("notes", limit=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def misspelt_options(corpus: Corpus) -> None:
    await search(corpus, "keys", limit=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await discover(corpus, "keys", mode="best")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


assert_type(airw.stores.SqliteStore, type[SqliteStore])
assert_type(ArtifactRef("notes", "a").source, str)
airw.nothing  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
