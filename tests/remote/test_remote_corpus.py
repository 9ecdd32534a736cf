"""A corpus on another machine is searched, walked and federated like one on this machine."""

import asyncio
import inspect
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, build, discover, from_mapping, search, traverse
from airw.discovery import FederatedCorpus
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, CorpusNotFound, EmbedderMismatch, RemoteError
from airw.links import extractor_from
from airw.policies import Beam, Eager, LinkWalk, Mmr, PathCoverage, PersonalizedPageRank
from airw.protocols import CAPABILITIES, ArtifactIds, Change, Counts, RecordsOf, Words, ask
from airw.remote import RemoteCorpus, Timeouts
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore
from tests.support.artifact_corpora import walk_all
from tests.support.drawing import examples
from tests.support.drawn_walks import EMBEDDER, draw_changes, draw_limits, draw_policy, walk_of
from tests.support.federated_walks import parts_story, policy_of, story
from tests.support.federations import part, split_of
from tests.support.remote_corpora import use_remotely
from tests.support.serving import serve
from tests.support.watched import Limited

QUERY = "how to rotate the keys"
WORDS = ("keys", "bread", "vault", "tyres", "audits")


@asynccontextmanager
async def notes(name="notes", count=15):
    texts = {f"{name}-{at:02}": f"how to rotate the {WORDS[at % 5]} of house {at // 5}" for at in range(count)}

    def link(id, _):
        return {"next": [f"{name}-{(int(id[-2:]) * 3 + 1) % count:02}"], "odd": ["missing"]}

    source = from_mapping(texts, name=name, embedder="light", edge_extractor=extractor_from(link, id="next"))
    async with build(source, store=MemoryStore()) as corpus:
        yield corpus


def as_dicts(hits):
    return [hit.to_dict() for hit in hits]


def without_times(result):
    return re.sub(r'"seconds": [^,}]+', "", json.dumps(result.to_dict()))


# --- the same answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_a_search_has_the_same_hits(mode):
    async with notes() as corpus, use_remotely(corpus) as ([remote], _):
        options = {"k": 7, "mode": mode, "filter": {"$not": {"id": "notes-03"}}}
        assert as_dicts(await search(remote, QUERY, **options)) == as_dicts(await search(corpus, QUERY, **options))


@pytest.mark.slow
async def test_a_discovery_in_several_has_the_same_hits():
    async with notes() as one, notes("other", 9) as two, use_remotely(one, two) as (remotes, _):
        for options in ({}, {"mode": "lexical"}, {"walk": True}, {"disclose_level": "metadata"}):
            here, there = [await discover(corpora, QUERY, k=5, **options) for corpora in ([one, two], remotes)]
            assert without_times(there) == without_times(here)
            assert there.results


async def compare_drawn_walks(draw):
    async with MemoryStore() as store, use_remotely(Corpus("drawn", store, EMBEDDER)) as ([remote], _):
        await store.apply(Change(draw_changes(draw)))
        for _ in range(4):
            policy, options = draw_policy(draw), {"node_budget": draw.choice([3, 30]), "limits": draw_limits(draw)}
            options["has_events"] = draw.random() < 0.5
            assert await walk_of(policy, remote.store, **options) == await walk_of(policy, store, **options)


@settings(max_examples=3)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_are_the_same(draw):
    await compare_drawn_walks(draw)


@pytest.mark.slow
@settings(max_examples=40)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_are_the_same_in_many_cases(draw):
    await compare_drawn_walks(draw)


async def compare_split_walk(name, number):
    split = split_of(number)
    async with part(split.graph.items) as whole:
        hits, walk = await walk_all(whole, policy_of(name, split.graph.roots), split.graph.query)
        expected = [(split.pair(hit.artifact_id), hit.score) for hit in hits]
    async with AsyncExitStack() as stack:
        parts = [await stack.enter_async_context(part(items, each)) for each, items in split.parts.items()]
        remotes, _ = await stack.enter_async_context(use_remotely(*parts))
        hits, walk = await walk_all(FederatedCorpus(remotes), policy_of(name, split.roots), split.graph.query)
        assert [(hit.key, hit.score) for hit in hits] == expected
        here = await parts_story(FederatedCorpus(parts), policy_of(name, split.roots), split.graph.query)
        assert [story(each, walk, lambda hit: hit.key) for each in (hits, walk.ranking)] == here[0]
        assert walk.summary.to_dict() | {"seconds": 0} == here[1]


@pytest.mark.parametrize("name", ["Eager", "LinkWalk-in"])
async def test_a_walk_over_a_graph_on_several_servers_equals_the_walk_over_it_in_one_piece(name):
    await compare_split_walk(name, 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Eager-fields", "Mmr", "Beam", "PersonalizedPageRank", "LinkWalk-weighted", "ReverseDependency", "Scored"]
)
@given(number=st.integers(0, 2**32))
@settings(max_examples=examples(8))
async def test_walks_over_graphs_on_several_servers_equal_walks_over_them_in_one_piece(name, number):
    await compare_split_walk(name, number)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", ["Eager-fields", "PersonalizedPageRank", "LinkWalk"])
async def test_a_walk_over_three_servers_on_sockets_equals_the_walk_over_it_in_one_piece(name):
    number = next(number for number in range(99) if len(split_of(number).parts) == 3)
    split = split_of(number)
    async with part(split.graph.items) as whole:
        hits, _ = await walk_all(whole, policy_of(name, split.graph.roots), split.graph.query)
    async with AsyncExitStack() as stack:
        remotes = []
        for each, items in split.parts.items():
            corpus = await stack.enter_async_context(part(items, each))
            server = stack.enter_context(serve(app([corpus])))
            remotes.append(await stack.enter_async_context(RemoteCorpus(server.url, each)))
        found, _ = await walk_all(FederatedCorpus(remotes), policy_of(name, split.roots), split.graph.query)
    assert [(hit.key, hit.score) for hit in found] == [(split.pair(hit.artifact_id), hit.score) for hit in hits]


# --- few requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [Eager(start_k=2, select_k=20), Beam(seed_k=2), PersonalizedPageRank(), PathCoverage()],
    ids=lambda policy: type(policy).__name__,
)
async def test_a_step_of_a_walk_is_one_request(policy):
    async with notes() as corpus, use_remotely(corpus) as ([remote], requests):
        async with traverse(QUERY, remote, policy=policy, node_budget=20) as walk:
            async for _ in walk:
                pass
        paths = requests.take()
        # One for each step, and to begin: the query is embedded, and its seeds are ranked and read.
        assert {*paths} <= {"/embed", "/store/read"}
        assert paths.count("/embed") <= 1
        assert paths.count("/store/read") <= walk.summary.steps + 4


MOST = {
    "Beam": (7, 36),
    "Eager": (11, 68),
    "LinkWalk": (3, 20),
    "Mmr": (5, 18),
    "PathCoverage": (6, 27),
    "PersonalizedPageRank": (13, 93),
}
"""The messages of a walk of 64 nodes over one server and over three, when each step was one call of its own."""


@pytest.fixture(scope="module")
async def circle(anyio_backend):
    async with AsyncExitStack() as stack:
        names = ("one", "two", "three")
        yield [
            await stack.enter_async_context(build_linked_notes(name, other))
            for name, other in zip(names, (*names[1:], names[0]), strict=True)
        ]


def build_linked_notes(name, other, count=300):
    """Open a corpus in which one artifact in five links to another corpus."""
    texts = {f"{name}-{at:03}": f"how to rotate the {WORDS[at % 5]} of house {at // 5}" for at in range(count)}

    def link(id, _):
        at = int(id[-3:])
        near = [f"{name}-{(3 * at + step) % count:03}" for step in (1, 2, 5)]
        return {"next": near if at % 5 else [*near, [other, f"{other}-{at:03}"]]}

    source = from_mapping(texts, name=name, embedder="light", edge_extractor=extractor_from(link, id="next"))
    return build(source, store=MemoryStore())


@pytest.mark.parametrize("kind", MOST)
async def test_a_walk_of_64_nodes_takes_few_messages(circle, kind):
    policies = {"Eager": Eager(start_k=2, select_k=64), "Beam": Beam(seed_k=2)}
    policies |= {"Mmr": Mmr(), "PersonalizedPageRank": PersonalizedPageRank(), "PathCoverage": PathCoverage()}
    async with use_remotely(*circle) as (remotes, requests):
        for corpus, root, most in zip(
            (remotes[0], FederatedCorpus(remotes)), ("one-000", ("one", "one-000")), MOST[kind], strict=True
        ):
            policy = policies.get(kind) or LinkWalk(roots=[root])
            async with traverse(QUERY, corpus, policy=policy, node_budget=64) as walk:
                assert [hit async for hit in walk]
            assert len(requests.take()) <= most


async def test_a_step_over_several_servers_is_one_request_of_each():
    async with notes("one", 9) as one, notes("two", 9) as two, use_remotely(one, two) as (remotes, requests):
        policy = Eager(start_k=2, select_k=20, direction="out")
        async with traverse(QUERY, FederatedCorpus(remotes), policy=policy) as walk:
            hits = [hit.key async for hit in walk]
        paths = requests.take()
        assert {source for source, _ in hits} == {"one", "two"}
        assert paths.count("/embed") <= 1
        assert paths.count("/store/read") <= 2 * walk.summary.steps + 2 * 3  # to find the start


async def test_a_thousand_ids_are_one_request():
    async with notes(count=3) as corpus, use_remotely(corpus) as ([remote], requests):
        ids = [f"n{at}" for at in range(997)]
        assert await ask(remote.store, RecordsOf(ids)) == [None] * 997
        assert requests.take() == ["/store/read"]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_a_search_on_the_server_is_one_request(mode):
    async with notes() as corpus, use_remotely(corpus) as ([remote], requests):
        options = {"k": 4, "mode": mode, "filter": {"none": {"$exists": False}}, "surfaces": ["document"]}
        assert as_dicts(await remote.search(QUERY, **options)) == as_dicts(await corpus.search(QUERY, **options))
        await remote.search(QUERY, rerank_text="surface", rerank_max_chars=99)  # for a reranker of the server
        assert requests.take() == ["/search"] * 2


async def test_a_search_with_a_function_is_ranked_here():
    async with notes() as corpus, use_remotely(corpus) as ([remote], requests):
        options = {"rerank": lambda _, texts: [len(text) for text in texts], "k": 3}
        assert as_dicts(await remote.search(QUERY, **options)) == as_dicts(await corpus.search(QUERY, **options))
        assert "/search" not in requests.take()


async def test_a_search_refuses_what_a_search_here_refuses():
    async with notes() as corpus, use_remotely(corpus) as ([remote], _):
        with pytest.raises(TypeError, match="did you mean 'surfaces'"):
            await remote.search(QUERY, surface=["document"])
        with pytest.raises(ArgumentError, match="blank"):
            await remote.search(" ")
        with pytest.raises(ArgumentError, match="mode must be one of"):
            await remote.search(QUERY, mode="odd")


async def test_artifacts_are_inserted_and_deleted_if_the_server_allows_it():
    async with notes(count=2) as corpus, use_remotely(corpus, writable=["notes"]) as ([remote], _):
        report = await remote.upsert({"notes-55": "rotate the keys", "notes-00": "rotate the tyres"})
        assert (report.added, report.updated, report.unchanged) == (1, 1, 0)
        assert await ask(remote.store, ArtifactIds()) == ["notes-00", "notes-01", "notes-55"]
        assert await remote.delete(["notes-55", "absent"]) == 1
        assert await ask(corpus.store, ArtifactIds()) == ["notes-00", "notes-01"]
    async with notes(count=2) as corpus, use_remotely(corpus) as ([remote], _):
        with pytest.raises(RemoteError, match="cannot be changed"):
            await remote.upsert({"new": "text"})
        with pytest.raises(ArgumentError, match="items must be a mapping"):
            await remote.upsert(["new"])


async def test_it_has_the_capabilities_of_the_served_store():
    async with notes() as corpus, use_remotely(corpus) as ([remote], _):
        assert {*remote.store.capabilities} == CAPABILITIES - {"writing"}
        plain = Corpus("notes", Limited(corpus.store, without=["words", "schema"]), corpus.embedder)
        async with use_remotely(plain) as ([other], _):
            assert {*other.store.capabilities} == CAPABILITIES - {"writing", "words", "schema"}
            with pytest.raises(ArgumentError, match="Words needs a store with the capability 'words'"):
                await ask(other.store, Words(["keys"]))
            here, there = [await discover([each], QUERY, mode="lexical") for each in (plain, other)]
            assert without_times(there) == without_times(here)


# --- the same members ------------------------------------------------------------------------------------------------

OTHERWISE = {
    "report": "a server builds its corpora itself",
    "owns_store": "the connections are its own, unless a client is passed",
    "strategy": "the server indexes what is upserted",
    "edge_extractor": "the server indexes what is upserted",
}
"""The members of a corpus that one on another machine lacks, and why."""


def parameters(method):
    found = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


def test_it_has_the_members_of_a_corpus_with_the_same_parameters():
    members = {name for name in dir(Corpus) if not name.startswith("_")}
    assert members - set(dir(RemoteCorpus)) - {"name"} == OTHERWISE.keys()
    for name in ("search", "upsert", "delete", "aclose", "__aenter__", "__aexit__"):
        assert parameters(getattr(RemoteCorpus, name)) == parameters(getattr(Corpus, name)), name
    walk = [each for each in parameters(traverse) if each[0] != "store"]
    assert parameters(RemoteCorpus.traverse)[1:] == walk
    assert parameters(RemoteCorpus.open) == parameters(RemoteCorpus)


async def test_it_tells_what_a_change_survives():
    async with notes(count=2) as corpus, use_remotely(corpus) as ([remote], _):
        assert remote.store.durability == "memory"
        assert remote.embedder_id == corpus.embedder_id


# --- opening ---------------------------------------------------------------------------------------------------------


async def test_it_can_be_awaited_or_entered():
    async with notes() as corpus:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app([corpus])))
        opened = await RemoteCorpus.open("http://localhost", "notes", client=client)
        assert (opened.name, opened.embedder.id, opened.embedder.dim) == ("notes", corpus.embedder.id, 512)
        await opened.aclose()
        await opened.aclose()
        assert not client.is_closed  # its opener closes it
        async with RemoteCorpus.open("http://localhost", "notes", client=client) as again:
            assert await ask(again.store, Counts()) == await ask(corpus.store, Counts())
        with pytest.raises(RemoteError, match="is closed"):
            await ask(again.store, Counts())
        await client.aclose()


async def test_what_was_not_opened_says_so():
    corpus = RemoteCorpus("http://localhost", "notes")
    with pytest.raises(RemoteError, match="is not open; enter it with"):
        await search(corpus, "keys")


async def test_a_corpus_that_the_server_does_not_have_is_not_found():
    async with notes() as corpus:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app([corpus])))
        with pytest.raises(CorpusNotFound, match=r"corpus 'none' at http://localhost: there is no corpus"):
            await RemoteCorpus.open("http://localhost", "none", client=client)
        await client.aclose()


async def test_an_embedder_of_ones_own_must_be_that_of_the_corpus():
    async with notes() as corpus:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app([corpus])))
        own = {"client": client, "embedder": HashingEmbedder()}
        async with RemoteCorpus.open("http://localhost", "notes", **own) as remote:
            assert as_dicts(await search(remote, QUERY)) == as_dicts(await search(corpus, QUERY))
        with pytest.raises(EmbedderMismatch, match="'hashing"):
            await RemoteCorpus.open("http://localhost", "notes", client=client, embedder=HashingEmbedder(dim=8))
        await client.aclose()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"url": "http://ada:hunter2@corpora.example"}, "url must not contain a user or password"),
        ({"url": "corpora.example"}, "url must be the base of an API"),
        ({"name": "a/b"}, "cannot name a corpus"),
        ({"token": "two words"}, "token must contain printable ASCII"),
        ({"client": object()}, "client must be an httpx.AsyncClient"),
        ({"timeouts": 5}, "timeouts must be a Timeouts object"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(options, fault):
    with pytest.raises(ArgumentError, match=fault) as error:
        RemoteCorpus(**{"url": "http://localhost", "name": "notes", **options})
    assert "hunter2" not in str(error.value)
    assert "two words" not in str(error.value)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "5"])
def test_times_are_numbers_of_seconds(value):
    with pytest.raises(ArgumentError, match="read must be"):
        Timeouts(read=value)


def test_a_token_is_shown_nowhere():
    corpus = RemoteCorpus("http://localhost", "notes", token="correct-horse-battery")
    assert "horse" not in repr(corpus) + repr(vars(corpus))


async def test_long_texts_are_embedded_in_smaller_batches():
    """A character of this script is three bytes, so 256 texts are too long."""
    limits = ServingLimits(max_body=20_000)
    async with notes() as corpus, use_remotely(corpus, limits=limits) as ([remote], requests):
        texts = [f"{at} {'鍵' * 100}" for at in range(256)]
        rows = await remote.embedder.embed_documents(texts)
        assert (rows == await corpus.embedder.embed_documents(texts)).all()
        assert len(requests.take()) > 1
        with pytest.raises(RemoteError, match="20,000 bytes"):
            await remote.embedder.embed_documents(["鍵" * 10_000])


async def test_texts_are_embedded_in_batches():
    async with notes() as corpus, use_remotely(corpus) as ([remote], requests):
        texts = [f"text {at}" for at in range(600)]
        rows = await remote.embedder.embed_documents(texts)
        assert (rows == await corpus.embedder.embed_documents(texts)).all()
        assert requests.take() == ["/embed"] * 3
        assert (await remote.embedder.embed_documents([])).shape == (0, 512)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_event_loops_one_after_the_other_and_at_the_same_time_share_a_remote_corpus():
    async with notes() as corpus:
        with serve(app({"notes": corpus})) as server:
            expected = as_dicts(await search(corpus, QUERY, k=5))
            remote = await RemoteCorpus(server.url, "notes").__aenter__()

            async def ask():
                return as_dicts(await search(remote, QUERY, k=5))

            def use_loops(_):
                return [asyncio.run(ask()) for _ in range(5)]

            with ThreadPoolExecutor(4) as threads:
                asked = [asyncio.wrap_future(threads.submit(use_loops, number)) for number in range(4)]
                assert await ask() == expected
                assert await asyncio.gather(*asked) == [[expected] * 5] * 4
            await remote.aclose()
            with pytest.raises(RemoteError, match="is closed"):
                await ask()
