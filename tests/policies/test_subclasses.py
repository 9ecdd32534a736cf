"""Walks of stores and policies that derive from those of the library, or call them."""

from dataclasses import replace

import pytest

from airw import build, from_mapping, traverse
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.policies import Beam, Eager, LinkWalk, Mmr, PersonalizedPageRank, Scored
from airw.protocols import Edges, fill
from airw.stores import MemoryStore, SqliteStore, Wrapper
from airw.values import Record
from airw.walking import Policy

FOUR = {"a": ["b", "c"], "b": ["c"], "c": []}


def four_notes():
    return from_mapping(
        {name: f"text {name}" for name in FOUR},
        name="four",
        embedder=HashingEmbedder(dim=16),
        edge_extractor=extractor_from(lambda name, _: {"REF": FOUR[name]}, id="four"),
    )


class HidesLinks(Wrapper):
    """A store that hides the links to `c`, as one with permissions might do."""

    async def read(self, *requests):
        answers = {}
        for request in requests:
            plain = fill(request, answers)  # of the edges that are left, not of those that are stored
            [answer] = await super().read(plain)
            if isinstance(plain, Edges):
                answer = [[edge for edge in row if "c" not in (edge.source, edge.target)] for row in answer]
            answers[id(request)] = answer
        return [answers[id(request)] for request in requests]


@pytest.mark.parametrize("kind", [Eager, Mmr, Scored, Beam, PersonalizedPageRank, LinkWalk])
async def test_links_that_a_store_hides_stay_hidden(kind):
    starts = {Beam: {"seed_k": 0}, PersonalizedPageRank: {"seed_k": 0}, LinkWalk: {}}.get(kind, {"start_k": 0})
    async with build(four_notes(), store=HidesLinks(MemoryStore())) as corpus:
        walk = traverse("text", corpus, policy=kind(roots=["a"], **starts))
        assert [hit.artifact_id async for hit in walk] == ["a", "b"]


@pytest.mark.asyncio_only
async def test_links_of_a_file_that_a_store_hides_stay_hidden(tmp_path):
    async with SqliteStore(tmp_path / "four.airw") as file, build(four_notes(), store=HidesLinks(file)) as corpus:
        for kind in (Eager, LinkWalk):
            walk = traverse("text", corpus, policy=kind(roots=["a"], **({"start_k": 0} if kind is Eager else {})))
            assert [hit.artifact_id async for hit in walk] == ["a", "b"]


class Redacted(SqliteStore):
    """A store that hides words in its records."""

    async def read(self, *requests):
        return [self.redact(answer) for answer in await super().read(*requests)]

    def redact(self, answer):
        if isinstance(answer, list):
            return [self.redact(part) for part in answer]
        return replace(answer, text="hidden") if isinstance(answer, Record) else answer


@pytest.mark.asyncio_only
async def test_texts_that_a_subclass_of_a_store_hides_stay_hidden(tmp_path):
    async with Redacted(tmp_path / "four.airw") as store, build(four_notes(), store=store) as corpus:
        walk = traverse("text", corpus, policy=LinkWalk(roots=["a"]))
        assert {hit.text async for hit in walk} == {"hidden"}


class Calling(Policy):
    """A policy that lets another one do its work, and names nodes itself."""

    def __init__(self, inner):
        self.inner = inner
        self.keeps_frontier = inner.keeps_frontier

    def begin(self, state):
        return self.inner.begin(state)

    async def seed(self, state, store):
        return await self.inner.seed(state, store)

    async def score(self, state, nodes, store):
        return await self.inner.score(state, nodes, store)

    async def select(self, state, frontier):
        return await self.inner.select(state, frontier)

    async def expand(self, state, committed, store):
        return await self.inner.expand(state, committed, store)

    async def to_hits(self, state, committed, store):
        return await self.inner.to_hits(state, committed, store)

    def node_id(self, node):
        return node.id

    def edge_of(self, node):
        return node.edge


@pytest.mark.parametrize("kind", [Mmr, Scored])
async def test_a_policy_may_call_another_one(kind):
    async with build(four_notes(), store=MemoryStore()) as corpus:
        found = [
            [hit.artifact_id async for hit in traverse("text a", corpus, policy=policy)]
            for policy in (Calling(kind()), kind())
        ]
    assert found[0] == found[1] != []


@pytest.mark.parametrize("kind", [Eager, Mmr, Scored])
async def test_a_subclass_may_make_hits_of_some_committed_nodes_only(kind):
    class Some(kind):
        async def to_hits(self, state, committed, store):
            kept = [entry for entry in committed if entry.id != "b"]
            hits = iter(await super().to_hits(state, kept, store))
            return [next(hits) if entry in kept else None for entry in committed]

    async with build(four_notes(), store=MemoryStore()) as corpus:
        assert {hit.artifact_id async for hit in traverse("text a", corpus, policy=Some())} == {"a", "c"}
