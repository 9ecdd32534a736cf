"""A walk that the server of a corpus walks is the walk of its own machine, hit by hit."""

import re

import httpx
import pytest
from hypothesis import given, settings, strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from airw import Corpus, Limits, Walk, traverse
from airw.errors import ArgumentError, WalkNotExtendable
from airw.policies import Beam, LinkWalk
from airw.protocols import Change
from airw.remote import RemoteWalk
from airw.serving import ServingLimits, sse
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.testing.changes import put
from airw.values import Link
from airw.views import bundle, read_tree
from airw.walking import merge, prefetch, top_k
from airw.walking.events import StepDone, WalkEnded
from tests.support.drawn_walks import EMBEDDER, draw_changes, draw_policy
from tests.support.remote_corpora import use_remotely
from tests.support.waiting import wait_for

QUERY = "n1 n2"
FORMS = {
    "hits": lambda walk: walk,
    "events": lambda walk: walk.events(),
    "events without edges": lambda walk: walk.events(edges=False),
}


def without_seconds(events):
    return [{name: value for name, value in event.items() if name != "seconds"} for event in events]


async def read_walk(walk, form):
    """Return all that a walk tells: what is read, the summary, the ranking and the paths."""
    async with walk:
        items = [item async for item in FORMS[form](walk)]
    summary = {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}
    paths = [walk.path(hit) for hit in walk.ranking]
    ranking = [hit.to_dict() for hit in walk.ranking]
    return without_seconds([item.to_dict() for item in items]), summary, ranking, paths, walk.policy


async def compare_walks(draw):
    async with MemoryStore() as store:
        corpus = Corpus("drawn", store, EMBEDDER)
        await store.apply(Change(draw_changes(draw)))
        async with use_remotely(corpus) as ([remote], requests):
            for _ in range(4):
                policy, options = draw_policy(draw), {"node_budget": draw.choice([3, 30])}
                options["limits"] = Limits(max_hits=draw.choice([None, 4]), max_fanout=draw.choice([1_000, 2]))
                form = draw.choice([*FORMS])
                here = await read_walk(traverse(QUERY, corpus, policy=policy, **options), form)
                requests.take()
                there = remote.traverse(QUERY, policy=policy, **options)
                assert await read_walk(there, form) == here
                if isinstance(there, RemoteWalk):
                    assert requests.take() == ["/traverse"]


@settings(max_examples=3)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_on_the_server_are_the_same(draw):
    await compare_walks(draw)


@pytest.mark.slow
@settings(max_examples=40)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_on_the_server_are_the_same_in_many_cases(draw):
    await compare_walks(draw)


# --- what works with every walk --------------------------------------------------------------------------------------


def chain(count):
    return [put(f"n{at}", f"n{at}", links=[Link(f"n{at + 1}", "a")], dim=8) for at in range(count)]


POLICY = LinkWalk(roots=["n0"], max_depth=None)


async def test_a_walk_on_a_server_is_a_walk():
    async with MemoryStore() as store, use_remotely(Corpus("chain", store, EMBEDDER)) as ([remote], _):
        await store.apply(Change(chain(9)))
        walks = [remote.traverse(QUERY, policy=POLICY) for _ in range(4)]
        assert {*map(type, walks)} == {RemoteWalk}
        assert [hit.artifact_id for hit in await top_k(walks[0], k=2)] == ["n0", "n1"]
        async with prefetch(walks[1], buffer=2) as hits:
            assert len([hit async for hit in hits]) == 9
        async with merge(walks[2], traverse(QUERY, remote, policy=POLICY), order="turns") as pairs:
            assert [hit.artifact_id async for walk, hit in pairs if walk is walks[2]] == [f"n{at}" for at in range(9)]
        assert [link.hop for link in (await read_tree(walks[3])).spanning_tree] == [*range(1, 9)]


async def test_notes_can_be_bundled_along_a_walk_on_a_server():
    async with MemoryStore() as store, use_remotely(Corpus("chain", store, EMBEDDER)) as ([remote], _):
        await store.apply(Change(chain(5)))
        there, here = [
            [note async for note in bundle(remote, walk=walk)]
            for walk in (remote.traverse("", policy=POLICY), traverse("", remote, policy=POLICY))
        ]
        assert there == here
        assert len(there) == 5


async def test_a_walk_on_a_server_can_be_streamed_on():
    async with MemoryStore() as store, use_remotely(Corpus("chain", store, EMBEDDER)) as ([remote], _):
        await store.apply(Change(chain(5)))
        policy, texts = Beam(seed_k=0, roots=["n0"], max_depth=None), []
        for start in (lambda: remote.traverse(QUERY, policy=policy), lambda: traverse(QUERY, remote, policy=policy)):

            async def answer(_, start=start):
                return sse(start(), edges=True)

            transport = httpx.ASGITransport(Starlette(routes=[Route("/walk", answer)]))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                texts.append(re.sub(r'"seconds": [-.e\d]+', "", (await client.get("/walk")).text))
        assert texts[0] == texts[1]
        assert texts[0].count("event: hit") == 5


async def test_a_path_leads_through_routers_however_deep():
    async with MemoryStore() as store, use_remotely(Corpus("chain", store, EMBEDDER)) as ([remote], _):
        await store.apply(Change([*chain(70), put("n70", links=[Link("n71", "a")]), put("n71", "n71", dim=8)]))
        async with remote.traverse("", policy=POLICY, node_budget=100) as walk:
            hits = [hit async for hit in walk]
        assert walk.path(hits[-1]) == [f"n{at}" for at in range(72)]
        assert walk.summary.routed == 1
        with pytest.raises(ArgumentError, match="hit 'n0' is not of this walk"):
            remote.traverse("", policy=POLICY).path(hits[0])


def serve_chain(store):
    return Corpus("chain", store, EMBEDDER)


# --- going on --------------------------------------------------------------------------------------------------------


async def read_on(walk, form, further):
    """Return what `read_walk` does, for a walk that goes on with further limits."""
    stream = FORMS[form](walk)
    items = [item async for item in stream]
    for raised in further:
        walk.extend(**raised)
        items += [item async for item in stream]
    summary = {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}
    ranking = walk.ranking
    return items, summary, [hit.to_dict() for hit in ranking], [walk.path(hit) for hit in ranking]


def without_progress(events):
    """Return what is equal in one walk and in its parts: all but the ends and the steps."""
    return [event.to_dict() for event in events if not isinstance(event, StepDone | WalkEnded)]


async def compare_walks_that_go_on(draw, *, holds_walks):
    async with MemoryStore() as store:
        corpus = Corpus("drawn", store, EMBEDDER)
        await store.apply(Change(draw_changes(draw)))
        async with use_remotely(corpus, holds_walks=holds_walks) as ([remote], requests):
            for _ in range(3):
                policy, form = draw_policy(draw), draw.choice([*FORMS])
                first, *further = [{"node_budget": budget} for budget in sorted(draw.sample(range(1, 30), 3))]
                there = remote.traverse(QUERY, policy=policy, **first)
                requests.take()
                items, *rest = await read_on(there, form, further)
                whole = traverse(QUERY, corpus, policy=policy, **further[-1])
                expected, *others = await read_on(whole, form, [])
                assert without_progress(items) == without_progress(expected)
                assert rest == others
                if isinstance(there, RemoteWalk) and not holds_walks:
                    assert requests.take() == ["/traverse"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("holds_walks", [True, False])
@settings(max_examples=20)
@given(draw=st.randoms(use_true_random=False))
async def test_a_walk_on_a_server_goes_on_as_one_walk(draw, holds_walks):
    await compare_walks_that_go_on(draw, holds_walks=holds_walks)


@pytest.mark.slow
@pytest.mark.parametrize(("holds_walks", "further"), [(True, "/traverse/continue"), (False, "/traverse")])
async def test_a_server_that_holds_the_walk_is_asked_nothing_twice(holds_walks, further):
    async with MemoryStore() as store:
        await store.apply(Change(chain(9)))
        scripted = ScriptedStore(store)
        async with use_remotely(Corpus("chain", scripted, EMBEDDER), holds_walks=holds_walks) as ([remote], requests):
            async with remote.traverse(QUERY, policy=POLICY, node_budget=8) as walk:
                assert len([hit async for hit in walk]) == 8
            whole = scripted.calls.total()
            requests.take()
            walk = remote.traverse(QUERY, policy=POLICY, node_budget=2)
            ids = [hit.artifact_id async for hit in walk]
            ids += [hit.artifact_id async for hit in walk.extend(node_budget=8)]
            assert ids == [f"n{at}" for at in range(8)]
            assert requests.take() == ["/traverse", further]
            assert (scripted.calls.total() == 2 * whole) == holds_walks


async def test_a_walk_goes_on_deeper_and_after_a_token_was_lost():
    async with (
        MemoryStore() as store,
        use_remotely(serve_chain(store), holds_walks=True) as ([remote], _),
    ):
        await store.apply(Change(chain(9)))
        limits = ServingLimits(max_held_per_client=1)
        async with use_remotely(serve_chain(store), holds_walks=True, limits=limits) as ([few], requests):
            walks = [server.traverse(QUERY, policy=POLICY, max_depth=1) for server in (remote, few, few)]
            for walk in walks:
                assert [hit.artifact_id async for hit in walk] == ["n0", "n1"]
            requests.take()
            for walk in walks:
                assert [hit.artifact_id async for hit in walk.extend(max_depth=3)] == ["n2", "n3"]
                assert walk.summary.depth == 3
            # Each walk that the second server holds takes the place of the one before.
            assert requests.take() == ["/traverse/continue", "/traverse"] * 2


async def test_what_cannot_go_on_says_so_at_once():
    async with (
        MemoryStore() as store,
        use_remotely(serve_chain(store), holds_walks=True) as ([remote], _),
    ):
        await store.apply(Change(chain(9)))
        walk = remote.traverse(QUERY, policy=POLICY, node_budget=5)
        with pytest.raises(WalkNotExtendable, match="it has not ended"):
            walk.extend(node_budget=9)
        await walk.aclose()
        with pytest.raises(WalkNotExtendable, match="it was closed"):
            walk.extend(node_budget=9)
        ended = remote.traverse(QUERY, policy=POLICY, node_budget=2, timeout=20)
        assert len([hit async for hit in ended]) == 2
        for lowered in ({"node_budget": 1}, {"timeout": 3}):
            with pytest.raises(ArgumentError, match="as before"):
                ended.extend(**lowered)
        left = remote.traverse(QUERY, policy=POLICY, node_budget=6)
        async with prefetch(left, buffer=20) as hits:
            async for _ in hits:
                await wait_for(lambda: left.summary is not None)
                break
        with pytest.raises(WalkNotExtendable, match="prefetch or merge"):
            left.extend(node_budget=9)


async def test_a_walk_with_a_policy_of_ones_own_goes_on_over_a_remote_store():
    class Own(LinkWalk):
        """A policy that no server knows, so it is walked here."""

    async with MemoryStore() as store, use_remotely(serve_chain(store)) as ([remote], _):
        await store.apply(Change(chain(9)))
        walk = remote.traverse(QUERY, policy=Own(roots=["n0"], max_depth=None), node_budget=2)
        assert not isinstance(walk, RemoteWalk)
        assert [hit.artifact_id async for hit in walk] == ["n0", "n1"]
        assert [hit.artifact_id async for hit in walk.extend(node_budget=4)] == ["n2", "n3"]


def test_a_walk_on_a_server_has_all_that_a_walk_has():
    members = {name for name in vars(Walk) if not name.startswith("_")}
    assert members - vars(RemoteWalk).keys() == {"asend", "athrow"}  # these two use the others
