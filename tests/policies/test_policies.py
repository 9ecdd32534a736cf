"""The shipped walk policies on real stores."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from airw import build, embedder_from, from_mapping, top_k, traverse
from airw.errors import ArgumentError
from airw.links import extractor_from
from airw.policies import CollapsedTree, Eager
from airw.stores import MemoryStore
from airw.values import IndexPlan, Limits, Surface
from tests.support.asked import Asked


def angle(texts):
    """Embed a text that is a number x as the unit vector at the angle x * pi.

    Cosines can then be computed by hand.
    """
    return [[math.cos(float(text) * math.pi), math.sin(float(text) * math.pi)] for text in texts]


ANGLE = embedder_from(angle, id="angle", dim=2)


@dataclass(frozen=True)
class Kinds:
    """Decompose a mapping of surface kinds to texts, in order; a list makes several surfaces."""

    id: str = "kinds"

    def decompose(self, artifact):
        texts = [
            (kind, text)
            for kind, value in artifact.raw.items()
            if kind != "links"
            for text in ([value] if isinstance(value, str) else value)
        ]
        return IndexPlan(
            {"links": artifact.raw.get("links", {})}, [Surface(artifact.id, kind, text) for kind, text in texts]
        )


LINKS = extractor_from(lambda _id, fields: fields.get("links", {}), id="links")


def corpus_of(items):
    source = from_mapping(items, name="test", strategy=Kinds(), embedder=ANGLE, edge_extractor=LINKS)
    return build(source, store=MemoryStore())


def chain(**links):
    """Return artifacts whose text is their distance from the query 0."""
    return {name: {"document": text, "links": {"REF": targets}} for name, (text, targets) in links.items()}


GRAPH = chain(a=("0.0", ["c", "b"]), b=("0.1", ["d"]), c=("0.2", ["d", "a"]), d=("0.3", ["e"]), e=("0.4", []))


async def walk_all(corpus, query="0", **options):
    async with traverse(query, corpus, **options) as walk:
        hits = [hit async for hit in walk]
    return hits, walk.summary


class TestEager:
    async def test_it_commits_layer_by_layer_nearest_first(self):
        async with corpus_of(GRAPH) as corpus:
            hits, summary = await walk_all(corpus, policy=Eager(start_k=1))
        assert [(hit.artifact_id, hit.metadata["walk_depth"]) for hit in hits] == [
            ("a", 0),
            ("b", 1),
            ("c", 1),
            ("d", 2),
            ("e", 3),
        ]
        assert [hit.score for hit in hits] == pytest.approx([math.cos(x * math.pi) for x in (0, 0.1, 0.2, 0.3, 0.4)])
        assert summary.stop == "sufficient"

    async def test_a_hit_contains_how_it_was_reached(self):
        async with corpus_of(GRAPH) as corpus:
            hits, _ = await walk_all(corpus, policy=Eager(start_k=1))
        assert hits[3].source == "test"
        assert {key: value for key, value in hits[3].metadata.items() if key != "links"} == {
            "walk_depth": 2,
            "walk_parent": "b",
            "walk_path": ["a", "b", "d"],
            "walk_edge": "REF",
            "seed": "a",
        }

    async def test_it_stops_after_select_k_hits(self):
        async with corpus_of(GRAPH) as corpus:
            hits, summary = await walk_all(corpus, policy=Eager(start_k=1, select_k=2))
        assert [hit.artifact_id for hit in hits] == ["a", "b"]
        assert summary.stop == "sufficient"

    async def test_adjacent_k_keeps_the_nearest_of_each_layer_and_all_seeds(self):
        async with corpus_of(GRAPH) as corpus:
            hits, _ = await walk_all(corpus, policy=Eager(start_k=2, adjacent_k=1, select_k=None), max_depth=1)
        assert [(hit.artifact_id, hit.metadata["walk_depth"]) for hit in hits] == [("a", 0), ("b", 0), ("c", 1)]

    @pytest.mark.parametrize(
        ("direction", "found"), [("out", ["d", "e"]), ("in", ["d", "b", "c", "a"]), ("both", ["d", "b", "c", "e", "a"])]
    )
    async def test_it_follows_links_in_the_given_direction(self, direction, found):
        policy = Eager(start_k=0, roots=["d"], direction=direction, select_k=None)
        async with corpus_of(GRAPH) as corpus:
            hits, summary = await walk_all(corpus, policy=policy)
        assert [hit.artifact_id for hit in hits] == found
        assert summary.stop == "exhausted"

    async def test_it_follows_links_of_the_given_types(self):
        items = {
            "a": {"document": "0", "links": {"x": ["b"], "y": ["c"]}},
            "b": {"document": "0"},
            "c": {"document": "0"},
        }
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy=Eager(start_k=0, roots=["a"], types=["y"]))
        assert [(hit.artifact_id, hit.metadata.get("walk_edge")) for hit in hits] == [("a", None), ("c", "y")]

    async def test_an_artifact_scores_by_its_best_surface_and_that_surface_is_the_hit(self):
        async with corpus_of({"a": {"description": "0.5", "chunk": ["0.4", "0.1", "0.3"]}}) as corpus:
            hits, _ = await walk_all(corpus, policy=Eager())
        assert [(hit.surface_kind, hit.surface_index, hit.text) for hit in hits] == [("chunk", 2, "0.1")]

    async def test_an_artifact_without_surfaces_only_routes(self):
        items = {
            "a": {"document": "0", "links": {"REF": ["b"]}},
            "b": {"links": {"REF": ["c"]}},
            "c": {"document": "1"},
        }
        async with corpus_of(items) as corpus:
            async with traverse("0", corpus, policy=Eager(start_k=1)) as walk:
                hits = [hit async for hit in walk]
            assert [hit.artifact_id for hit in hits] == ["a", "c"]
            assert walk.path(hits[1]) == ["a", "b", "c"]
            assert walk.summary.routed == 1

    async def test_links_to_other_corpora_and_dangling_links_are_not_followed(self):
        items = {"a": {"document": "0", "links": {"REF": [["other", "b"], "nowhere"]}}, "b": {"document": "0"}}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy=Eager(start_k=0, roots=["a"]))
        assert [hit.artifact_id for hit in hits] == ["a"]

    async def test_a_step_of_any_size_costs_one_store_call(self):
        wide = {f"n{i:03}": {"document": "0.1", "links": {"REF": []}} for i in range(200)}
        wide["hub"] = {"document": "0", "links": {"REF": sorted(wide)}}
        async with corpus_of(wide) as corpus:
            store = Asked(corpus.store)
            policy = Eager(start_k=1, adjacent_k=None, select_k=None, seeding="dense")
            hits, _ = await walk_all(replace(corpus, store=store), policy=policy, node_budget=500)
        assert len(hits) == 201
        step = ["Edges", "scores", "Records"]
        assert store.reads == [["dense"], ["Records", *step], step]

    @pytest.mark.parametrize("seeding", ["dense", "lexical", "hybrid"])
    async def test_every_search_mode_can_find_the_start(self, seeding):
        async with corpus_of(GRAPH) as corpus:
            hits, _ = await walk_all(corpus, "0.3", policy=Eager(start_k=1, select_k=1, seeding=seeding))
        assert [hit.artifact_id for hit in hits] == ["d"]

    def test_bad_parameters_are_refused_when_it_is_created(self):
        for options in ({"select_k": -1}, {"start_k": None}, {"adjacent_k": 1.5}, {"roots": "abc"}):
            with pytest.raises(ArgumentError):
                Eager(**options)

    def test_an_unknown_direction_or_seeding_is_refused_when_it_is_created(self):
        for options in ({"direction": "sideways"}, {"seeding": "psychic"}):
            with pytest.raises(ArgumentError, match="must be one of"):
                Eager(**options)


NOTES = {
    "gold": {"description": "0.05", "chunk": ["0.7", "0.4"]},
    "trap": {"description": "0.9", "chunk": ["0.1"]},
    "other": {"description": "0.5", "chunk": ["0.6"]},
}


class TestCollapsedTree:
    async def test_it_routes_by_summaries_and_returns_their_parts(self):
        async with corpus_of(NOTES) as corpus:
            flat = await corpus.search("0", surfaces=["chunk"])
            hits = await top_k(traverse("0", corpus, policy=CollapsedTree(seed_k=1)))
        assert flat[0].artifact_id == "trap"
        assert [(hit.artifact_id, hit.text) for hit in hits] == [("gold", "0.4"), ("gold", "0.7")]

    async def test_routers_are_not_hits_and_their_parts_name_them(self):
        async with corpus_of(NOTES) as corpus:
            hits, summary = await walk_all(corpus, policy=CollapsedTree())
        assert {hit.surface_kind for hit in hits} == {"chunk"}
        assert all(hit.metadata["seed"] == hit.artifact_id and hit.metadata["walk_depth"] == 1 for hit in hits)
        assert (summary.routed, summary.emitted, summary.stop) == (3, 4, "exhausted")

    async def test_summaries_without_parts_are_hits_themselves(self):
        async with corpus_of({"a": {"document": "0.2"}, "b": {"capability": "0.1"}, "c": NOTES["trap"]}) as corpus:
            hits = await top_k(traverse("0", corpus, policy=CollapsedTree()))
        assert [(hit.artifact_id, hit.metadata["walk_depth"]) for hit in hits] == [("b", 0), ("c", 1), ("a", 0)]
        assert "seed" not in hits[0].metadata

    async def test_the_summary_that_matched_is_the_hit_not_the_first_one(self):
        async with corpus_of({"a": {"synopsis": "0.5", "description": "0"}}) as corpus:
            hits = await top_k(traverse("0", corpus, policy=CollapsedTree()))
        assert [(hit.surface_kind, hit.score) for hit in hits] == [("description", pytest.approx(1.0))]

    async def test_a_corpus_of_parts_alone_has_no_hits(self):
        async with corpus_of({"a": {"chunk": ["0.1", "0.2"]}}) as corpus:
            assert await top_k(traverse("0", corpus, policy=CollapsedTree())) == []

    async def test_a_budget_spent_on_routers_is_reported(self):
        async with corpus_of(NOTES) as corpus:
            hits, summary = await walk_all(
                corpus, policy=CollapsedTree(), node_budget=3, limits=Limits(count_beyond_limits=True)
            )
        assert hits == []
        assert (summary.stop, summary.routed, summary.left_out) == ("node_budget", 3, {"node_budget": 4})

    async def test_a_walk_costs_at_most_three_store_calls_a_step(self):
        async with corpus_of(NOTES) as corpus:
            store = Asked(corpus.store)
            await walk_all(replace(corpus, store=store), policy=CollapsedTree())
        assert store.reads == [["dense"], ["RecordsOf"], ["scores"]]


@pytest.mark.parametrize("policy", [Eager(), Eager(start_k=0, roots=["a"]), CollapsedTree()])
async def test_a_store_that_is_no_open_corpus_is_refused(policy):
    async with MemoryStore() as store:
        with pytest.raises(ArgumentError, match="expected an open corpus"):
            await top_k(traverse("0", store, policy=policy))


async def test_the_query_is_embedded_once_per_walk():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return np.asarray(angle(texts), np.float32)

    source = from_mapping(
        GRAPH, name="test", strategy=Kinds(), embedder=embedder_from(embed, id="counted", dim=2), edge_extractor=LINKS
    )
    async with build(source, store=MemoryStore()) as corpus:
        asked.clear()
        await top_k(traverse("0", corpus, policy=Eager(select_k=None, seeding="lexical")))
    assert asked == ["0"]
