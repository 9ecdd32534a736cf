"""The calls of a walk to its store, counted and not timed."""

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from airw import build, embedder_from, from_mapping, search, traverse
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.policies import CollapsedTree, Eager
from airw.protocols import Rank, Records, ask
from airw.stores import MemoryStore
from airw.values import IndexPlan, Limits, Surface
from tests.support.asked import Asked

QUERY = "w1 w2 w3"
STEP = [["Edges", "scores", "Records"]]


class Counting:
    """Records the calls of an embedder."""

    def __init__(self, embedder):
        self._embedder, self.calls = embedder, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._embedder, name)


@dataclass(frozen=True)
class Surfaces:
    """Decompose a list of texts into a description and chunks."""

    id: str = "surfaces"

    def decompose(self, artifact):
        description, *chunks = artifact.raw["texts"]
        surfaces = [Surface(artifact.id, "description", description)]
        surfaces += [Surface(artifact.id, "chunk", text) for text in chunks]
        return IndexPlan({"links": {"REF": artifact.raw["links"]}}, surfaces)


def items(count=400, degree=6):
    """Return artifacts of one to four short texts, linked at random.

    There are so few words that many artifacts have equal scores.
    """
    draw, ids = random.Random(3), [f"n{number:03}" for number in range(count)]
    text = lambda: " ".join(f"w{draw.randrange(40)}" for _ in range(3))  # noqa: E731 (one line)
    return {id: {"texts": [text() for _ in range(draw.randint(1, 4))], "links": draw.sample(ids, degree)} for id in ids}


@pytest.fixture(scope="module")
async def corpus():
    links = extractor_from(lambda _id, fields: fields["links"], id="links")
    source = from_mapping(
        items(), name="linked", strategy=Surfaces(), embedder=HashingEmbedder(dim=256), edge_extractor=links
    )
    async with build(source, store=MemoryStore()) as opened:
        yield opened


def eager(factor=1, **options):
    """Return a policy whose walk to depth 3 commits `64 * factor` nodes in four steps."""
    return Eager(**{"select_k": None, "seeding": "dense", "start_k": 4 * factor, "adjacent_k": 20 * factor, **options})


async def walk_and_count(corpus, policy, *, budget=64, **options):
    """Return the hits of a walk, its summary, and its calls by step.

    The last list contains the calls after the last hit.
    """
    store, hits, steps, noted = Asked(corpus.store), [], [], 0
    walk = traverse(QUERY, replace(corpus, store=store), policy=policy, max_depth=3, node_budget=budget, **options)
    async for hit in walk:
        if not hits or hit.metadata["walk_depth"] > hits[-1].metadata["walk_depth"]:
            steps.append(store.reads[noted:])
            noted = len(store.reads)
        hits.append(hit)
    return hits, walk.summary, [*steps, store.reads[noted:]]


@pytest.mark.slow
async def test_a_walk_of_64_nodes_to_depth_3_costs_five_calls(corpus):
    hits, summary, steps = await walk_and_count(corpus, eager())
    assert (len(hits), summary.depth, summary.steps) == (64, 3, 4)
    assert (summary.left_out, summary.unknown) == ({}, ("max_depth",))
    # A step is one call, which also reads the records of what an earlier step has compared and not committed.
    again = [["Records", *STEP[0]]]
    assert steps[:1] == [[["dense"], *again]]
    assert all(step in ([], STEP, again, [["Records"]]) for step in steps[1:])
    assert sum(map(len, steps)) <= 5


async def test_the_count_beyond_the_limits_costs_one_call_more(corpus):
    _, summary, steps = await walk_and_count(corpus, eager(), limits=Limits(count_beyond_limits=True))
    assert summary.left_out["max_depth"] > 0
    assert steps[-1] == [["Edges"]]


@pytest.mark.parametrize("policy", [eager, lambda factor=1: CollapsedTree(seed_k=20 * factor)])
async def test_twice_the_nodes_cost_the_same_calls(corpus, policy):
    hits, _, steps = await walk_and_count(corpus, policy())
    more, _, others = await walk_and_count(corpus, policy(2), budget=128)
    assert len(more) > 1.5 * len(hits)
    assert others == steps


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"seeding": "lexical"}, [["lexical"], ["scores", "Records", "Records"]]),
        ({"start_k": 0, "roots": ["n007", "n100"]}, [["scores", "Records"]]),
        ({"roots": ["n007", "n100"]}, [["dense"], ["scores", "Records", "Records"]]),
        ({"seeding": "hybrid"}, [["dense", "lexical"], ["Records"]]),
    ],
)
async def test_other_kinds_of_seeds_cost_at_most_two_calls_to_the_first_hit(corpus, options, first):
    hits, _, steps = await walk_and_count(corpus, eager(**options))
    *before, last = steps[0]
    assert [*before, last[: -len(STEP[0])]] == first
    assert sum(map(len, steps)) <= len(first) + 3
    assert len(hits) > 60


async def test_a_seed_that_only_the_lexical_search_found_is_scored_by_one_more_call():
    """The dense ranking of 300 artifacts is read 250 deep.

    The only artifact with the word is the last of it.
    """
    texts = {f"n{number:03}": {"texts": ["other"], "links": []} for number in range(300)}
    texts["last"] = {"texts": ["wanted here"], "links": []}
    vectors = {"wanted": [1.0, 0.0], "wanted here": [0.0, 1.0], "other": [0.1, 0.99**0.5]}
    far = embedder_from(lambda given: [vectors[text] for text in given], id="far", dim=2)
    source = from_mapping(texts, name="far", strategy=Surfaces(), embedder=far)
    async with build(source, store=MemoryStore()) as corpus:
        store = Asked(corpus.store)
        policy = Eager(start_k=10, select_k=None, seeding="hybrid")
        walk = traverse("wanted", replace(corpus, store=store), policy=policy, max_depth=0)
        scores = {hit.artifact_id: hit.score async for hit in walk}
    assert scores["last"] == 0.0
    assert store.reads == [["dense", "lexical"], ["scores", "Records", "Records"]]


@pytest.mark.parametrize("seeding", ["dense", "lexical", "hybrid"])
async def test_a_walk_starts_from_the_hits_of_a_search_in_their_order(corpus, seeding):
    found = await search(corpus, QUERY, k=12, mode=seeding)
    order = []

    class Start(Eager):
        async def score(self, state, nodes, store):
            order.extend(node.id for node in nodes)
            return await super().score(state, nodes, store)

    await walk_and_count(corpus, Start(select_k=None, start_k=12, seeding=seeding), budget=12)
    assert order == [hit.artifact_id for hit in found]


@pytest.mark.parametrize("seeding", ["dense", "lexical", "hybrid"])
async def test_every_hit_has_the_cosine_of_its_best_surface_and_the_text_that_a_search_shows(corpus, seeding):
    hits, _, _ = await walk_and_count(corpus, eager(seeding=seeding, roots=["n007"]))
    query = await corpus.embedder.embed_query(QUERY)
    ids = [hit.artifact_id for hit in hits]
    [ranking] = await ask(corpus.store, Rank(query[np.newaxis], among=ids, per_artifact=True))
    rows = zip(ranking.artifact_ids, ranking.record_ids, ranking.scores.tolist(), strict=True)
    best = {id: (record_id, cosine) for id, record_id, cosine in rows}
    assert [hit.score for hit in hits] == [best[id][1] for id in ids]
    assert len({hit.score for hit in hits}) < len(hits)  # ties are among them
    found = {hit.artifact_id: (hit.text, hit.surface_index) for hit in await search(corpus, QUERY, mode=seeding, k=4)}
    shown = {hit.artifact_id: (hit.text, hit.surface_index) for hit in hits}
    assert shown.keys() >= found.keys()
    assert {id: shown[id] for id in found} == found
    # What only links or an id lead to shows its best surface.
    [record] = await ask(corpus.store, Records([best["n007"][0]]))
    assert shown["n007"] == (record.text, record.surface_index)


async def test_the_query_is_embedded_once_per_walk_for_all_kinds_of_seeds(corpus):
    for seeding in ("dense", "lexical", "hybrid"):
        embedder = Counting(corpus.embedder)
        await walk_and_count(replace(corpus, embedder=embedder), eager(seeding=seeding))
        assert embedder.calls.count("embed_query") == 1


async def test_summary_routing_costs_three_calls_to_the_first_leaf_and_none_after(corpus):
    _, _, steps = await walk_and_count(corpus, CollapsedTree(seed_k=20))
    assert [call for step in steps for call in step] == [["dense"], ["RecordsOf"], ["scores"]]
