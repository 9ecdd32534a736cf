"""The path beam, on real stores and compared with a reference in plain Python."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, embedder_from, from_mapping, open_corpus, top_k, traverse
from airw.errors import ArgumentError
from airw.links import extractor_from
from airw.policies import Beam, Scope, beam
from airw.protocols import Rank, ask
from airw.stores import MemoryStore, Wrapper
from airw.testing import PolicySuite
from airw.values import IndexPlan, Limits, Surface
from tests.support.asked import Asked, kind_of
from tests.support.drawing import examples

LINKS = extractor_from(lambda _, fields: fields["links"], id="links")


def angle(texts):
    """Embed a text that is a number x as the unit vector at the angle x * pi.

    Cosines can then be computed by hand.
    """
    return [[math.cos(float(text) * math.pi), math.sin(float(text) * math.pi)] for text in texts]


ANGLE = embedder_from(angle, id="angle", dim=2)


@dataclass(frozen=True)
class Texts:
    """A strategy with one surface per text; the other fields are metadata."""

    id: str = "texts"

    def decompose(self, artifact):
        fields = {name: value for name, value in artifact.raw.items() if name != "texts"}
        return IndexPlan(fields, [Surface(artifact.id, "chunk", text) for text in artifact.raw["texts"]])


def item(*texts, to=(), links=None, **fields):
    return {"texts": list(texts), "links": {"REF": list(to)} if links is None else links, **fields}


def corpus_of(items, store=None):
    source = from_mapping(items, name="test", strategy=Texts(), embedder=ANGLE, edge_extractor=LINKS)
    return build(source, store=store or MemoryStore())


def from_root(**options):
    return Beam(seed_k=0, roots=["a"], **options)


async def walk_all(corpus, policy, query="0", **options):
    async with traverse(query, corpus, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return hits, walk


async def paths(items, policy, **options):
    async with corpus_of(items) as corpus:
        return ["".join(hit.metadata["walk_path"]) for hit in (await walk_all(corpus, policy, **options))[0]]


def cos(x):
    return pytest.approx(math.cos(x * math.pi), abs=1e-6)


# The nearest of all lies behind the far b; a little farther one lies behind the near c.
FORK = {
    "a": item("0", to=["b", "c"]),
    "b": item("0.5", to=["d"]),
    "c": item("0.1", to=["e"]),
    "d": item("0"),
    "e": item("0.2"),
}


class TestWhatIsCommitted:
    async def test_a_path_scores_by_the_mean_of_its_cosines(self):
        async with corpus_of(FORK) as corpus:
            hits, _ = await walk_all(corpus, from_root())
        each = {name: math.cos(float(FORK[name]["texts"][0]) * math.pi) for name in FORK}
        assert {hit.artifact_id: hit.score for hit in hits} == {
            name: pytest.approx(sum(each[step] for step in path) / len(path), abs=1e-6)
            for name, path in {"a": "a", "b": "ab", "c": "ac", "d": "abd", "e": "ace"}.items()
        }

    async def test_a_near_artifact_behind_a_far_one_ranks_below_a_farther_one_behind_a_near_one(self):
        assert await paths(FORK, from_root(width=2)) == ["a", "ac", "ab", "ace", "abd"]

    async def test_each_step_commits_the_width_best_and_drops_the_rest(self):
        assert await paths(FORK, from_root(width=1)) == ["a", "ac", "ace"]

    async def test_of_several_paths_to_an_artifact_the_best_is_committed(self):
        items = {
            "a": item("0", to=["b", "c"]), "b": item("0.2", to=["d"]), "c": item("0.1", to=["d"]), "d": item("0"),
        }  # fmt: skip
        assert await paths(items, from_root()) == ["a", "ac", "ab", "acd"]

    async def test_the_best_path_is_committed_even_if_a_subclass_scores_edges_and_finds_it_last(self):
        class Citing(Beam):
            async def score(self, state, nodes, store):
                cited = [node.edge is not None and node.edge.type == "cites" for node in nodes]
                return await super().score(state, nodes, store) + cited

        items = {
            "a": item("0", to=["b", "c"]), "b": item("0.1", to=["d"]), "c": item("0.2", links={"cites": ["d"]}),
            "d": item("0"),
        }  # fmt: skip
        assert await paths(items, Citing(seed_k=0, roots=["a"])) == ["a", "ab", "ac", "acd"]

    async def test_of_equal_paths_the_first_found_is_committed(self):
        items = {
            "a": item("0", to=["c", "b"]), "b": item("0.1", to=["d"]), "c": item("0.1", to=["d"]), "d": item("0"),
        }  # fmt: skip
        assert await paths(items, from_root()) == ["a", "ab", "ac", "abd"]

    async def test_a_dropped_artifact_behind_the_budget_counts_as_left_out(self):
        items = {"a": item("0", to=["b"]), "b": item("0.1")}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(
                corpus, Beam(width=1, seed_k=2), node_budget=1, limits=Limits(count_beyond_limits=True)
            )
        assert [hit.artifact_id for hit in hits] == ["a"]
        assert (walk.summary.truncated, walk.summary.left_out) == (True, {"node_budget": 1})

    async def test_a_dropped_artifact_can_be_reached_again(self):
        items = {"a": item("0", to=["b", "c"]), "b": item("0.1", to=["c"]), "c": item("0.3")}
        assert await paths(items, from_root(width=1)) == ["a", "ab", "abc"]

    async def test_a_dropped_artifact_can_be_reached_again_by_shared_values(self):
        items = {"a": item("0", tags=["x"]), "b": item("0.1", tags=["x"]), "c": item("0.3", tags=["x"])}
        assert await paths(items, from_root(width=1, edges=[("tags", "tags")])) == ["a", "ab", "abc"]

    async def test_seeds_are_cut_at_the_width_too(self):
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, Beam(width=2, seed_k=5), max_depth=0)
            assert [hit.artifact_id for hit in hits] == ["a", "d"]
            hits, _ = await walk_all(corpus, Beam(width=2, seed_k=1, roots=["e", "c"]), max_depth=0)
            assert [hit.artifact_id for hit in hits] == ["a", "c"]
        assert walk.summary.stop == "exhausted"

    async def test_an_artifact_scores_by_its_best_surface_which_is_the_hit(self):
        async with corpus_of({"a": item("0.5", "0.1", "0.4")}) as corpus:
            hits, _ = await walk_all(corpus, Beam())
        assert [(hit.text, hit.surface_index, hit.score) for hit in hits] == [("0.1", 1, cos(0.1))]

    async def test_artifacts_without_surfaces_are_skipped_and_do_not_count_in_the_width(self):
        items = {"a": item("0", to=["b", "c"]), "b": item(to=["d"]), "c": item("1"), "d": item("0")}
        assert await paths(items, from_root(width=1)) == ["a", "ac"]
        assert await paths(items, Beam(seed_k=0, roots=["b"])) == []

    async def test_each_step_is_one_layer_and_cycles_end(self):
        ring = {f"{at:02}": item(f"0.{at:02}", to=[f"{(at + step) % 20:02}" for step in (1, 2, 7)]) for at in range(20)}
        async with corpus_of(ring) as corpus:
            hits, walk = await walk_all(corpus, Beam(width=3, seed_k=2, max_depth=None))
        depths = [hit.metadata["walk_depth"] for hit in hits]
        assert depths == sorted(depths)
        assert Counter(depths)[0] == 2
        assert max(Counter(depths).values()) == 3
        assert len({hit.artifact_id for hit in hits}) == len(hits) == 20
        assert walk.summary.stop == "exhausted"

    async def test_the_ranking_is_by_path_score_over_all_depths(self):
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, from_root(width=2))
        assert [hit.artifact_id for hit in hits] == ["a", "c", "b", "e", "d"]
        assert [hit.artifact_id for hit in walk.ranking] == ["a", "c", "e", "d", "b"]

    async def test_a_router_counts_in_the_width_and_in_paths_through_it(self):
        items = {name: {**FORK[name], "kind": "index" if name in "bc" else "note"} for name in FORK}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, from_root(width=1, scope=Scope(keep={"kind": "note"})))
            assert [(hit.artifact_id, walk.path(hit)) for hit in hits] == [("a", ["a"]), ("e", ["a", "c", "e"])]
        assert hits[1].score == pytest.approx(sum(math.cos(x * math.pi) for x in (0, 0.1, 0.2)) / 3, abs=1e-6)
        assert walk.summary.routed == 1


# --- against a reference ---------------------------------------------------------------------------------------------

FILTERS = {"start": {"group": {"$ne": 0}}, "cross": {"group": {"$ne": 1}}, "keep": {"group": {"$ne": 2}}}


@dataclass(frozen=True)
class Graph:
    items: dict
    roots: list
    scope: dict

    def neighbours(self, id, direction):
        """Return the other ends of links, by type, then by id."""
        out = [(kind, end) for kind, ends in self.items[id]["links"].items() for end in ends]
        back = [(kind, start) for start, each in self.items.items() for kind, ends in each["links"].items()
                for end in ends if end == id]  # fmt: skip
        found = (out if direction != "in" else []) + (back if direction != "out" else [])
        return [end for _, end in sorted(found) if end != id]

    def passes(self, name, id):
        return name not in self.scope or self.items[id]["group"] != self.scope[name]["group"]["$ne"]


def graph_of(number):
    chance = Random(number)
    ids = [f"n{at}" for at in range(chance.choice([5, 9, 14]))]
    degree = chance.choice([1, 2, 4])
    items = {
        id: item(
            *[f"{chance.randrange(10) / 10}" for _ in range(chance.choice([0, 1, 1, 1, 2]))],
            links={kind: chance.choices(ids, k=chance.randint(0, degree)) for kind in "xy"},
            group=chance.randrange(4),
        )
        for id in ids
    }
    scope = {name: FILTERS[name] for name in FILTERS if chance.random() < 0.25}
    return Graph(items, chance.sample(ids, chance.randint(1, 4)), scope)


def beam_by_hand(graph, cosines, *, width, max_depth, direction):
    """Return the paths of the hits and their scores, layer by layer."""
    found, visited, depth = [], set(), 0
    waiting = [[root] for root in dict.fromkeys(graph.roots)]
    while waiting:
        score = lambda path: sum(cosines[id] for id in path) / len(path)  # noqa: E731 (one line)
        able = [path for path in waiting if path[-1] not in visited and path[-1] in cosines]
        able = [path for path in able if graph.passes("cross", path[-1]) or graph.passes("keep", path[-1])]
        able = [path for path in able if depth or graph.passes("start", path[-1])]
        best = {}
        for path in sorted(able, key=lambda path: -score(path)):
            best.setdefault(path[-1], path)
        layer = list(best.values())[:width]
        visited |= {path[-1] for path in layer}
        found += [(path, score(path)) for path in layer if graph.passes("keep", path[-1])]
        layer = [path for path in layer if graph.passes("cross", path[-1]) and depth != max_depth]
        waiting = [[*path, end] for path in layer for end in graph.neighbours(path[-1], direction)]
        depth += 1
    return found


async def hits_and_ranking(corpus, policy, **options):
    hits, walk = await walk_all(corpus, policy, **options)
    assert all(hit.metadata["walk_path"] == walk.path(hit) for hit in hits)
    ranked = [(hit.metadata["walk_path"], hit.score) for hit in walk.ranking]
    return [(hit.metadata["walk_path"], hit.score) for hit in hits], ranked


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(
    st.integers(0, 2**32).map(graph_of),
    st.integers(1, 4),
    st.none() | st.integers(0, 4),
    st.sampled_from(["out", "in", "both"]),
)
@settings(max_examples=examples(100))
def test_paths_scores_and_order_equal_those_of_a_simple_reference(backend, graph, width, max_depth, direction):
    policy = Beam(seed_k=0, roots=graph.roots, width=width, direction=direction, scope=Scope(**graph.scope))

    async def main():
        async with corpus_of(graph.items) as corpus:
            ids = list(graph.items)
            query = await corpus.embedder.embed_query("0")
            [ranking] = await ask(corpus.store, Rank(query[np.newaxis], among=ids, per_artifact=True))
            cosines = dict(zip(ranking.artifact_ids, ranking.scores.tolist(), strict=True))
            expected = beam_by_hand(graph, cosines, width=width, max_depth=max_depth, direction=direction)
            hits, ranked = await hits_and_ranking(corpus, policy, max_depth=max_depth)
            assert hits == expected
            assert ranked == sorted(expected, key=lambda hit: -hit[1])
            less = max(max_depth or 0, 1) - 1
            shorter, _ = await hits_and_ranking(corpus, policy, max_depth=less)
            assert shorter == [hit for hit in expected if len(hit[0]) <= less + 1]
            for budget in (1, 3):
                fewer, _ = await hits_and_ranking(corpus, policy, max_depth=max_depth, node_budget=budget)
                assert fewer == expected[: len(fewer)]

    anyio.run(main, backend=backend)


# --- what a walk costs -----------------------------------------------------------------------------------------------


class Counting:
    """Records the calls of an embedder."""

    def __init__(self, counted):
        self._counted, self.calls = counted, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._counted, name)


def layers_of(width):
    """Return a root and four layers of `width` artifacts, each linked to all of the next."""
    layers = [["a"], *[[f"{layer}{at:03}" for at in range(width)] for layer in "bcd"]]
    after = [*layers[1:], []]
    return {
        id: item(f"0.{at:03}", to=behind, tag=id[0], next=behind[0][0] if behind else "")
        for layer, behind in zip(layers, after, strict=True)
        for at, id in enumerate(layer)
    }


@pytest.mark.parametrize("width", [2, 20])
@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({}, [["Edges", "scores", "Records"]]),
        ({"scope": Scope(cross={"tag": {"$ne": "x"}})}, [["Edges", "scores", "Records"]]),
        ({"edges": [("next", "tag")]}, [["Matching"], ["scores", "Records"]]),
    ],
)
async def test_a_step_of_any_width_costs_two_store_calls_at_most(width, options, step):
    async with corpus_of(layers_of(width)) as corpus:
        store, embedder = Asked(corpus.store), Counting(corpus.embedder)
        policy = from_root(width=width, **options)
        hits, _ = await walk_all(replace(corpus, store=store, embedder=embedder), policy)
    assert len(hits) == 1 + 3 * width
    assert store.calls == ["scores", "Records", *chain.from_iterable(step * 3)]
    assert len(store.reads) <= 1 + len(step) * 3
    assert embedder.calls.count("embed_query") == 1


async def test_each_artifact_is_scored_once_however_many_paths_lead_to_it():
    asked = []

    class Scored(Wrapper):
        async def read(self, *requests):
            answers = await super().read(*requests)
            kinds = map(kind_of, requests)
            asked.extend(len(*answer) for kind, answer in zip(kinds, answers, strict=True) if kind == "scores")
            return answers

    async with corpus_of(layers_of(5)) as corpus:
        await walk_all(replace(corpus, store=Scored(corpus.store)), from_root(width=5))
    assert asked == [1, 5, 5, 5]


async def test_many_paths_are_compared_in_a_thread_with_the_same_outcome(monkeypatch):
    async with corpus_of(layers_of(6)) as corpus:
        expected = await hits_and_ranking(corpus, from_root(width=5))
        monkeypatch.setattr(beam, "_OFFLOAD_ABOVE", 5)
        monkeypatch.setattr(beam, "offload_if", counted := CountingThreads(beam.offload_if))
        assert await hits_and_ranking(corpus, from_root(width=5)) == expected
    assert counted.count == 3


class CountingThreads:
    def __init__(self, offload_if):
        self.offload_if, self.count = offload_if, 0

    def __call__(self, is_long, *arguments):
        self.count += is_long
        return self.offload_if(is_long, *arguments)


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"width": None}, {"seed_k": -1}, {"seed_k": 1.5}, {"roots": "a"}, {"max_depth": -1}]
)
def test_bad_parameters_are_refused_when_it_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        Beam(**options)


def test_the_default_depth_cap_is_three():
    assert Beam().max_depth == 3


async def test_an_object_that_is_no_open_corpus_is_refused():
    async with MemoryStore() as store:
        with pytest.raises(ArgumentError, match="expected an open corpus"):
            await top_k(traverse("0", store, policy=Beam()))


# --- the exam --------------------------------------------------------------------------------------------------------


def ring(store=None):
    """Build artifacts in a ring with many cycles; one of them has no surface."""
    items = {
        f"{at:02}": item(
            *([] if at == 9 else [f"0.{at:02}", f"0.{(at * 7) % 10}"]),
            to=[f"{(at + step) % 14:02}" for step in (1, 3, 5)],
            tags=[at % 4, {"deep": [at]}],
            kind="ab"[at % 2],
        )
        for at in range(14)
    }
    return corpus_of(items, store)


EXAMINED = {
    "default": Beam,
    "narrow": lambda: Beam(width=1, seed_k=2, direction="both", max_depth=None),
    "scope": lambda: Beam(width=3, roots=["09", "13"], scope=Scope(cross={"kind": "a"}, keep={"tags": {"$ne": []}})),
    "values": lambda: Beam(seeding="hybrid", edges=[("tags", "tags")]),
}
SUITES = {name: PolicySuite(make, ring, "0.3") for name, make in EXAMINED.items()}


@pytest.mark.parametrize(
    ("suite", "case"),
    [
        pytest.param(suite, case, id=f"{name}-{case}", marks=() if name == "default" else pytest.mark.slow)
        for name, suite in SUITES.items()
        for case in suite.cases
    ],
)
async def test_it_passes_the_exam(suite, case):
    await suite.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", EXAMINED)
async def test_it_passes_the_exam_over_a_file(name, tmp_path):
    path = tmp_path / "ring.airw"
    async with ring(path):
        pass
    opened = lambda: open_corpus(path, embedder=ANGLE)  # noqa: E731 (one line)
    report = await PolicySuite(EXAMINED[name], opened, "0.3").run()
    assert report.passed, str(report)
