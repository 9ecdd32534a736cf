"""Walks in columns equal walks of lists."""

import re
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings, strategies as st

from airw import build, from_mapping, traverse
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.policies import Beam, Eager, LinkWalk, Mmr, PersonalizedPageRank, Scope, Scored
from airw.stores import MemoryStore, SqliteStore
from airw.walking import Policy
from tests.support.drawn_walks import draw_limits
from tests.support.internals.step_stores import StepStore

SCOPES = [Scope(), Scope(), Scope(keep={"c": 0}), Scope(cross={"c": {"$ne": 1}}), Scope(start={"c": 1})]
ADMITTING = [Eager, Mmr, Scored]


class Plain:
    """A class that overrides a method, as a user's class might: it is called with lists."""

    async def score(self, state, nodes, store):
        assert isinstance(nodes, list)
        return await super().score(state, nodes, store)


def to_lists(policy):
    """Return a policy that does the same, and walks in lists."""
    kind = type(policy)
    twin = type(kind.__name__, (Plain, kind), {"__qualname__": kind.__qualname__})
    return twin(**{each.name: getattr(policy, each.name) for each in fields(policy)})


def draw_source(draw):
    count = draw.randint(2, 20)
    names = [f"n{number}" for number in range(count)]
    texts = {name: " ".join(draw.choices(names, k=4)) for name in names}
    # The last two do not exist.
    ends = [*names, "m", "o"]
    links = {name: {kind: draw.choices(ends, k=draw.randint(0, 3)) for kind in "ab"} for name in names}
    return from_mapping(
        texts,
        name="drawn",
        embedder=HashingEmbedder(dim=16),
        edge_extractor=extractor_from(lambda name, _: links[name], id="drawn"),
        metadata_of=lambda name, _: {"c": int(name[1:]) % 3},
    )


def rate(node):
    return node.depth + len(node.content) % 3


def draw_policy(draw):
    choose = draw.choice
    options = {
        "direction": choose(["out", "in", "both"]),
        "types": choose([None, ["a"]]),
        "scope": choose(SCOPES),
        "roots": choose([(), ("n0",)]),
        "max_depth": choose([None, 1, 3]),
    }
    admitting = {
        "select_k": choose([None, 3, 8]),
        "start_k": choose([1, 3]),
        "adjacent_k": choose([None, 2, 5]),
        "max_traverse": choose([None, 3]),
    }
    return choose(
        [
            *(kind(**options, **admitting) for kind in ADMITTING),
            Scored(**options, **admitting, per_iteration_limit=1),
            Scored(scorer=rate, **options, **admitting),
            Beam(width=choose([1, 3]), seed_k=2, **options),
            PersonalizedPageRank(seed_k=2, width=3, degree_exponent=choose([0, 1]), **options),
        ]
    )


async def walk_of(policy, corpus, *, has_events, **options):
    async with traverse("n1 n2", corpus, policy=policy, **options) as walk:
        items = [repr(item) async for item in (walk.events() if has_events else walk)]
    summary = {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}
    items = [re.sub(r"seconds=[-.\de]+", "", item) for item in items]
    return items, summary, [hit.to_dict() for hit in walk.ranking], walk


async def compare(draw):
    async with build(draw_source(draw), store=MemoryStore()) as corpus:
        for _ in range(3):
            policy, options = draw_policy(draw), {"node_budget": draw.choice([3, 30]), "limits": draw_limits(draw)}
            options["has_events"] = draw.random() < 0.5
            *found, walk = await walk_of(policy, corpus, **options)
            *expected, other = await walk_of(to_lists(policy), corpus, **options)
            assert walk._steps.state.memory.reader is not None
            assert other._steps.state.memory.reader is None
            assert found == expected


@settings(max_examples=12)
@given(draw=st.randoms(use_true_random=False))
async def test_they_are_equal(draw):
    await compare(draw)


@pytest.mark.slow
@settings(max_examples=150)
@given(draw=st.randoms(use_true_random=False))
async def test_many_of_them_are_equal(draw):
    await compare(draw)


async def test_a_walk_over_fields_is_one_of_lists():
    source = from_mapping({"a": "x"}, name="one", embedder=HashingEmbedder(dim=16))
    async with build(source, store=MemoryStore()) as corpus:
        *_, walk = await walk_of(Eager(edges=[("c", "c")]), corpus, has_events=False)
        assert walk._steps.state.memory.reader is None


FOUR = {"a": ["b", "c"], "b": ["c"], "c": []}


def four_notes():
    return from_mapping(
        {name: f"text {name}" for name in FOUR},
        name="four",
        embedder=HashingEmbedder(dim=16),
        edge_extractor=extractor_from(lambda name, _: {"REF": FOUR[name]}, id="four"),
    )


class HidesLinks:
    """A class to mix in that hides the links to `c`, as one with permissions might do."""

    async def neighbors(self, ids, **options):
        rows = await super().neighbors(ids, **options)
        return [[edge for edge in row if "c" not in (edge.source, edge.target)] for row in rows]


class Without(MemoryStore):
    """A store that hides links itself."""

    async def neighbors(self, ids, **options):
        rows = await super().neighbors(ids, **options)
        return [[edge for edge in row if "c" not in (edge.source, edge.target)] for row in rows]


class MixedWithMemory(HidesLinks, MemoryStore):
    pass


class MixedWithSteps(HidesLinks, StepStore):
    pass


class MixedWithSqlite(HidesLinks, SqliteStore):
    pass


@pytest.mark.parametrize("hiding", [Without, MixedWithMemory, MixedWithSteps])
@pytest.mark.parametrize("kind", [Eager, Mmr, Scored, Beam, PersonalizedPageRank, LinkWalk])
async def test_links_that_a_subclass_of_a_store_hides_stay_hidden(kind, hiding):
    starts = {Beam: {"seed_k": 0}, PersonalizedPageRank: {"seed_k": 0}, LinkWalk: {}}.get(kind, {"start_k": 0})
    async with build(four_notes(), store=hiding()) as corpus:
        walk = traverse("text", corpus, policy=kind(roots=["a"], **starts))
        assert [hit.artifact_id async for hit in walk] == ["a", "b"]


@pytest.mark.asyncio_only
async def test_links_of_a_file_that_another_class_hides_stay_hidden(tmp_path):
    async with MixedWithSqlite(tmp_path / "four.airw") as store, build(four_notes(), store=store) as corpus:
        for kind in (Eager, LinkWalk):
            walk = traverse("text", corpus, policy=kind(roots=["a"], **({"start_k": 0} if kind is Eager else {})))
            assert [hit.artifact_id async for hit in walk] == ["a", "b"]


class Redacted(SqliteStore):
    """A store that hides words in its records."""

    async def records_of(self, ids, **options):
        rows = await super().records_of(ids, **options)
        return [row and [replace(record, text="hidden") for record in row] for row in rows]


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
