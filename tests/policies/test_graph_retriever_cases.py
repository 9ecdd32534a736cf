"""Recorded answers of graph-retriever 0.8.0: ids in order, depths and scores equal ours.

The recording lies beside the data sets. If it contains a quirk, the test is named for the better answer. The last tests
are those of graph-retriever itself, on the recorded animals or on vectors made by hand.
"""

import json
import math
from functools import partial

import pytest

from airw import build, embedder_from, from_mapping, traverse
from airw.errors import ArgumentError, PolicyError
from airw.links import extractor_from
from airw.policies import Eager, Mmr, Scope, Scored
from airw.stores import MemoryStore
from tests.support.graph_retriever_oracle import QUERY, Whole, corpus_of, depths_of, ranking_of, vectors_at, walk_graph

KEYWORDS, HABITAT, LINKS = [("keywords", "keywords")], [("habitat", "habitat")], [("links", "$id")]
AGILE = "small agile mammal?"

RECORDED_ANIMALS = [
    "eager-keywords-d1",
    "eager-keywords-d2",
    "eager-keywords-select5",
    "eager-habitat-d2",
    "eager-roots-only-d2",
    "eager-two-roots-d2",
    "eager-adjacent3-d2",
    "eager-two-edge-specs-d2",
    "scored-keywords-d1-k8",
    "scored-habitat-d2-k8",
    "scored-sim-keywords-limit2-k12-d3",
    "mmr-keywords-d0-k4",
    "mmr-keywords-d2-k6",
    "mmr-habitat-d2-k10",
    "mmr-keywords-l01-k12",
    "mmr-keywords-min0-k20",
    "eager-habitat-to-keywords-start8",
]
RECORDED_GRAPHS = 16
SCORERS = {
    "animal_name": lambda node: (20 - len(node.id)) + (ord(node.id[0]) - ord("a")) / 100,
    "similarity": lambda node: node.similarity_score,
}


@pytest.fixture(scope="module")
def recording(data):
    return json.loads((data.parent / "research" / "graph-retriever-cases.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
async def animals(recording):
    """The corpus of the recorded animals.

    Queries end with a question mark, since one of them is also an animal.
    """
    offsets = recording["animals"]["embedding"]["offsets"]

    def vector(hits):
        return [1.0 + 100 / offset if at in hits else 0.2 / (at + 1) for at, offset in enumerate(offsets)]

    documents = {each["id"]: each for each in recording["animals"]["documents"]}
    vectors = {id: vector(set(each["embedding_hits"])) for id, each in documents.items()}
    vectors |= {f"{query}?": vector(set(hits)) for query, hits in recording["animals"]["queries"].items()}
    async with corpus_of({id: each["metadata"] for id, each in documents.items()}, vectors) as corpus:
        yield corpus


def graph_corpus(graph):
    """Build a recorded graph, whose query is "query"."""
    vectors = graph["vectors"]
    if not isinstance(vectors, dict):
        vectors = dict(zip(graph["ids"], vectors, strict=True))
    fields = {id: {"links": graph["links"].get(id, [])} for id in vectors}
    return corpus_of(fields, {**vectors, QUERY: graph["query_vector"]})


def policy_of(case, similarities):
    """Return our policy for a recorded strategy.

    The similarities that a scorer sees are written to `similarities`.
    """
    kind = {"eager": Eager, "scored": Scored, "mmr": Mmr}[case["strategy"]["type"]]
    options = {name: value for name, value in case["strategy"].items() if name != "type"}
    if "scorer" in options:
        scorer = SCORERS[options["scorer"]]
        options["scorer"] = lambda node: similarities.update({node.id: node.similarity_score}) or scorer(node)
    roots, filter = case.get("initial_root_ids", []), case.get("metadata_filter") or {}
    edges = case.get("edges", LINKS)
    return kind(edges=[tuple(pair) for pair in edges], roots=roots, scope=Scope.only(filter), **options)


def fields_of(hit, policy, similarities):
    """Return the recorded fields of a hit, by their names in the recording."""
    said = {"id": hit.artifact_id, "depth": hit.metadata["walk_depth"]}
    said["similarity"] = similarities.get(hit.artifact_id, hit.score)
    if isinstance(policy, Scored):
        said["_score"] = hit.score
    if isinstance(policy, Mmr):
        said |= {"_mmr_score": hit.metadata["mmr_score"], "_redundancy": hit.metadata["redundancy"]}
    return said


def hits_of(case):
    """Return the recorded fields of each hit, in order.

    Ids and depths are those without the leak of depths, if it changes them.
    """
    hits = {hit["id"]: hit for hit in case["expected"]["hits"]}
    better = case.get("expected_with_per_node_depth", case["expected"])
    pairs = zip(better["ids"], better["depths"], strict=True)
    return [{**hits.get(id, {}), "id": id, "depth": depth} for id, depth in pairs]


async def check(case, corpus, query):
    similarities = {}
    policy = policy_of(case, similarities)
    said = [fields_of(hit, policy, similarities) for hit in await ranking_of(query, corpus, policy)]
    expected = hits_of(case)
    assert [each["id"] for each in said] == [each["id"] for each in expected], case["strategy"]
    for mine, other in zip(said, expected, strict=True):
        assert {name: mine[name] for name in other} == pytest.approx(other, abs=1e-5)


async def check_graph(recording, number):
    case = recording["synthetic"]["cases"][number]
    async with graph_corpus(recording["synthetic"]["graphs"][case["graph"]]) as corpus:
        await check(case, corpus, QUERY)


class TestRecorded:
    @pytest.mark.parametrize("name", RECORDED_ANIMALS)
    async def test_animals_are_walked_as_recorded(self, recording, animals, name):
        [case] = [case for case in recording["animals"]["cases"] if case["name"] == name]
        await check(case, animals, case["query"] + "?")

    @pytest.mark.parametrize("number", range(RECORDED_GRAPHS))
    async def test_graphs_are_walked_as_recorded(self, recording, number):
        await check_graph(recording, number)

    async def test_cases_that_were_added_to_the_recording_are_walked_as_recorded(self, recording, animals):
        """These are the cases that the lists above do not name."""
        for case in recording["animals"]["cases"]:
            if case["name"] not in RECORDED_ANIMALS:
                await check(case, animals, case["query"] + "?")
        for number in range(RECORDED_GRAPHS, len(recording["synthetic"]["cases"])):
            await check_graph(recording, number)

    @pytest.mark.parametrize("kind", [Eager, Mmr])
    async def test_the_order_of_the_stream_is_final(self, animals, kind):
        async with traverse(AGILE, animals, policy=kind(edges=KEYWORDS, select_k=9, start_k=2)) as walk:
            hits = [hit async for hit in walk]
        assert len(hits) == 9
        assert walk.ranking == hits


def quirk_of(recording, name):
    [quirk] = [quirk for quirk in recording["quirks"] if quirk["name"] == name]
    return quirk


def items_of(**links):
    return {id: {"links": list(ends)} for id, ends in links.items()}


COMPLETE = [f"c{number}" for number in range(8)]  # each is linked to all, itself included


def complete(recording, name):
    """Return a complete graph, and the policy of a quirk recorded on it."""
    quirk = quirk_of(recording, name)
    vectors = {id: [1.0, float(at)] for at, id in enumerate(COMPLETE)}
    fields = {id: {"links": COMPLETE} for id in COMPLETE}
    return fields, {**vectors, QUERY: quirk["query_vector"]}, policy_of(quirk, {})


class TestQuirks:
    def test_each_recorded_quirk_has_a_test(self, recording):
        assert [quirk["name"] for quirk in recording["quirks"]] == [
            "depth-leak",
            "zero-query-adjacent_k2",
            "adjacent_k0-with-id-edges",
            "discovered-nodes-use-slots",
            "orthogonal-dropped",
            "filter-overrides-edge",
            "roots-bypass-filter",
            "per-iteration-limit-ignored-at-max-depth",
            "mmr-lambda-0",
            "mmr-lambda-1",
        ]

    async def test_each_artifact_has_the_depth_of_its_own_path(self, recording):
        quirk = quirk_of(recording, "depth-leak")
        policy = partial(
            Scored,
            scorer=lambda node: quirk["scores"][node.id],
            edges=LINKS,
            per_iteration_limit=2,
            start_k=1,
            select_k=7,
        )
        async with graph_corpus(quirk) as corpus:
            assert depths_of(await ranking_of(QUERY, corpus, policy())) == list(
                zip(quirk["ids"], quirk["true_depths"], strict=True)
            )
            assert "H" in dict(depths_of(await ranking_of(QUERY, corpus, policy(max_depth=2))))

    @pytest.mark.parametrize("kind", [partial(Scored, per_iteration_limit=1), partial(Mmr, lambda_mult=1)])
    async def test_a_waiting_artifact_found_on_a_shorter_path_takes_the_smaller_depth(self, kind):
        """By another edge: an edge that was used is not used again."""
        fields = {
            "near": {"to": ["a"]},
            "middle": {"to": ["b"], "from": ["a"]},
            "far": {"to": ["c"]},
            "late": {"to": ["d"], "from": ["b", "c"]},
            "last": {"from": ["d"]},
        }
        vectors = vectors_at(near=0.0, middle=0.1, far=0.2, late=0.3, last=0.4)
        policy = kind(edges=[("to", "from")], start_k=0, roots=["near", "far"], max_depth=2)
        assert await walk_graph(fields, vectors, policy) == [
            ("near", 0),
            ("middle", 1),
            ("far", 0),
            ("late", 1),
            ("last", 2),
        ]

    async def test_an_edge_is_used_once_per_walk_even_if_a_nearer_artifact_has_it_later(self):
        fields = items_of(near=["middle"], middle=["late"], far=["late"], late=["last"], last=[])
        vectors = vectors_at(near=0.0, middle=0.1, far=0.2, late=0.3, last=0.4)
        policy = Scored(per_iteration_limit=1, edges=LINKS, start_k=0, roots=["near", "far"], max_depth=2)
        assert await walk_graph(fields, vectors, policy) == [("near", 0), ("middle", 1), ("far", 0), ("late", 2)]

    async def test_an_edge_of_several_artifacts_has_the_depth_of_the_nearest_one(self):
        """These are middle and third, which are committed in one step."""
        fields = items_of(near=["middle"], middle=["late"], other=[], third=["late"], late=[])
        vectors = vectors_at(near=0.0, other=0.1, middle=0.2, third=0.3, late=0.4)
        policy = Scored(per_iteration_limit=2, edges=LINKS, start_k=0, roots=["near", "other", "third"])
        expected = [("near", 0), ("other", 0), ("middle", 1), ("third", 0), ("late", 1)]
        assert await walk_graph(fields, vectors, policy) == expected

    async def test_adjacent_k_applies_even_if_all_similarities_are_zero(self, recording):
        """The root is found again and takes one of the two places.

        Of equals, the first discovered takes the other.
        """
        assert await walk_graph(*complete(recording, "zero-query-adjacent_k2")) == [("c0", 0), ("c1", 1)]

    async def test_adjacent_k_of_0_admits_nothing(self, recording):
        assert await walk_graph(*complete(recording, "adjacent_k0-with-id-edges")) == [("c3", 0)]

    async def test_with_edges_visited_artifacts_count_in_adjacent_k_as_recorded(self, recording):
        quirk = quirk_of(recording, "discovered-nodes-use-slots")
        expected = list(zip(quirk["ids"], quirk["depths"], strict=True))
        assert await walk_graph(*complete(recording, "discovered-nodes-use-slots")) == expected

    async def test_with_links_only_new_artifacts_count_in_adjacent_k(self):
        links = extractor_from(lambda *_: {"REF": COMPLETE}, id="all")
        vectors = {id: [1.0, float(at)] for at, id in enumerate(COMPLETE)} | {QUERY: [1.0, 0.0]}
        embedder = embedder_from(lambda texts: [vectors[text] for text in texts], id="given", dim=2)
        items = {id: {} for id in COMPLETE}
        source = from_mapping(items, name="test", strategy=Whole(), embedder=embedder, edge_extractor=links)
        async with build(source, store=MemoryStore()) as corpus:
            hits = await ranking_of(QUERY, corpus, Eager(start_k=0, roots=["c3"], adjacent_k=2, select_k=100))
        assert depths_of(hits) == [
            ("c3", 0),
            ("c0", 1),
            ("c1", 1),
            ("c2", 2),
            ("c4", 2),
            ("c5", 3),
            ("c6", 3),
            ("c7", 4),
        ]

    async def test_an_artifact_of_similarity_zero_is_found_among_others(self, recording):
        quirk = quirk_of(recording, "orthogonal-dropped")
        async with graph_corpus(quirk) as corpus:
            hits = await ranking_of(QUERY, corpus, policy_of(quirk, {}))
        assert depths_of(hits) == [("a", 0), ("c", 1), ("b", 1)]
        assert hits[-1].score == 0

    async def test_a_filter_on_the_field_of_an_edge_applies_in_addition_to_the_edge(self, recording, animals):
        quirk = quirk_of(recording, "filter-overrides-edge")
        scope = Scope.only({"keywords": {"$contains": quirk["metadata_filter"]["keywords"]}})
        hits = await ranking_of(
            AGILE, animals, Eager(edges=KEYWORDS, start_k=1, select_k=100, max_depth=1, scope=scope)
        )
        assert depths_of(hits) == [("mongoose", 0), ("fox", 1), ("cat", 1), ("gazelle", 1)]

    async def test_a_filter_on_the_field_of_an_edge_adds_no_artifacts(self):
        """Theirs would reach c, which has the value of the filter but not that of the edge."""
        fields = {
            "a": {"to": ["x"], "tags": ["good"]},
            "b": {"tags": ["good", "x"]},
            "c": {"tags": ["good"]},
            "d": {"tags": ["x"]},
        }
        scope = Scope.only({"tags": {"$contains": "good"}})
        policy = Eager(edges=[("to", "tags")], start_k=0, roots=["a"], scope=scope)
        assert await walk_graph(fields, vectors_at(a=0, b=0.1, c=0.2, d=0.3), policy) == [("a", 0), ("b", 1)]

    async def test_a_filter_applies_to_roots_too(self, recording, animals):
        quirk = quirk_of(recording, "roots-bypass-filter")
        assert await ranking_of(AGILE, animals, policy_of(quirk, {})) == []
        hits = await ranking_of(AGILE, animals, policy_of({**quirk, "initial_root_ids": ["bobcat", "lark"]}, {}))
        birds = [id for id in quirk["ids"] if id not in ("bobcat", "lark")]
        assert depths_of(hits) == [("lark", 0), *((id, 1) for id in birds)]
        start_only = Eager(edges=[("type", "type")], start_k=0, roots=["bobcat"], scope=Scope(start={"type": "bird"}))
        assert await ranking_of(AGILE, animals, start_only) == []

    async def test_per_iteration_limit_does_not_count_artifacts_at_the_depth_cap_as_recorded(self, recording, animals):
        quirk = quirk_of(recording, "per-iteration-limit-ignored-at-max-depth")
        expected = list(zip(quirk["ids"], quirk["depths"], strict=True))
        assert depths_of(await ranking_of(AGILE, animals, policy_of(quirk, {}))) == expected

    async def test_of_equal_mmr_scores_the_first_discovered_is_chosen(self, recording, animals):
        """The start is mongoose and fox, and nothing is redundant before the first choice."""
        policy = policy_of(quirk_of(recording, "mmr-lambda-0"), {})
        hits = await ranking_of(AGILE, animals, policy)
        assert depths_of(hits) == [("mongoose", 0), ("gazelle", 1), ("cat", 1), ("hyena", 1)]

    async def test_of_equal_scores_the_first_discovered_is_chosen(self):
        fields = items_of(a="ecbd", b="", c="", d="", e="")
        policy = Scored(scorer=lambda node: 7, per_iteration_limit=1, edges=LINKS, start_k=1, select_k=4)
        found = await walk_graph(fields, vectors_at(a=0, b=0.1, c=0.2, d=0.3, e=0.4), policy)
        assert found == [("a", 0), ("e", 1), ("c", 1), ("b", 1)]

    async def test_a_lambda_of_1_chooses_by_similarity_alone(self, recording, animals):
        assert quirk_of(recording, "mmr-lambda-1")["raises"] == "ZeroDivisionError"
        hits = await ranking_of(AGILE, animals, Mmr(lambda_mult=1.0, edges=KEYWORDS, start_k=2, select_k=6))
        assert depths_of(hits) == [("mongoose", 0), ("fox", 0), ("cat", 1), ("gazelle", 1), ("jackal", 1), ("hyena", 1)]
        assert [hit.metadata["mmr_score"] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=1e-6)

    @pytest.mark.parametrize("value", [-0.1, 1.1, 2, math.nan, True, "0.5"])
    def test_a_lambda_out_of_range_is_refused_when_the_policy_is_created(self, value):
        with pytest.raises(ArgumentError, match="lambda_mult must be a number from 0 to 1"):
            Mmr(lambda_mult=value)

    @pytest.mark.parametrize(("most", "expected"), [(0, "a"), (1, "abc"), (2, "abcd"), (3, "abcde"), (None, "abcdef")])
    async def test_max_traverse_limits_the_expanded_artifacts(self, most, expected):
        fields = items_of(a=["b", "c"], b=["d"], c=["e"], d=["f"], e=[], f=[])
        vectors = vectors_at(a=0, b=0.1, c=0.2, d=0.3, e=0.4, f=0.5)
        policy = Eager(edges=LINKS, start_k=1, select_k=None, max_traverse=most)
        assert "".join(id for id, _ in await walk_graph(fields, vectors, policy)) == expected

    @pytest.mark.parametrize("kind", [Eager, Scored, Mmr])
    async def test_once_enough_is_selected_the_search_ends(self, kind):
        asked = []

        def edges(record):
            asked.append(record.artifact_id)
            return [("$id", end) for end in record.metadata["links"]]

        policy = kind(edges=edges, start_k=1, select_k=2)
        found = await walk_graph(items_of(a="b", b="c", c="a"), vectors_at(a=0, b=0.1, c=0.2), policy)
        assert (found, asked) == ([("a", 0), ("b", 1)], ["a"])

    async def test_none_in_a_field_is_no_edge(self):
        fields = {"a": {"word": None, "words": [None]}, "b": {"word": None, "words": [None]}}
        policy = Eager(edges=[("word", "word"), ("words", "words")], start_k=1)
        assert await walk_graph(fields, vectors_at(a=0, b=0.1), policy) == [("a", 0)]

    async def test_an_artifact_behind_a_shared_edge_is_found_once(self):
        """Equal values of any type are one edge: True is 1 is 1.0."""
        fields = {"a": {"n": [True, 1, 1.0]}, "b": {"n": 1}, "c": {"n": [1.0]}, "d": {"n": "1"}}
        policy = Eager(edges=[("n", "n")], start_k=1, select_k=None)
        assert await walk_graph(fields, vectors_at(a=0, b=0.1, c=0.2, d=0.3), policy) == [("a", 0), ("b", 1), ("c", 1)]


def eager(edges=KEYWORDS, **options):
    return Eager(edges=edges, **{"start_k": 2, "select_k": 100, **options})


def mmr(edges=KEYWORDS, **options):
    return Mmr(edges=edges, **{"start_k": 2, **options})


def by_name(edges=KEYWORDS, **options):
    return Scored(edges=edges, scorer=SCORERS["animal_name"], start_k=2, **options)


FROM_HABITAT = [("habitat", "keywords")]
AROUND = "cat coyote fox gazelle hyena jackal mongoose"
ANIMALS = {
    "keywords-d0": (eager(max_depth=0), "fox mongoose"),
    "keywords-d1": (eager(max_depth=1), AROUND),
    "keywords-d2": (eager(max_depth=2), AROUND + " alpaca bison crow dog horse"),
    "habitat-d1": (eager(HABITAT, max_depth=1), "bobcat cobra deer elk fox mongoose"),
    "habitat-d2": (eager(HABITAT, max_depth=2), "bobcat cobra deer elk fox mongoose"),
    "habitat-to-keywords-d1": (eager(FROM_HABITAT, select_k=10, max_depth=1), "bear bobcat fox mongoose"),
    "habitat-to-keywords-d2": (eager(FROM_HABITAT, select_k=10, max_depth=2), "bear bobcat caribou fox mongoose"),
    "mmr-habitat-to-keywords-d1": (mmr(FROM_HABITAT, select_k=10, max_depth=1), "bear bobcat fox mongoose"),
    "mmr-habitat-to-keywords-d2": (mmr(FROM_HABITAT, select_k=10, max_depth=2), "bear bobcat caribou fox mongoose"),
    "root-d0": (eager(start_k=0, roots=["bobcat"], max_depth=0), "bobcat"),
    "root-d1": (eager(start_k=0, roots=["bobcat"], max_depth=1), "bear bobcat"),
    "root-d2": (eager(start_k=0, roots=["bobcat"], max_depth=2), "bear bobcat moose ostrich"),
    "two-roots-d2": (
        eager(start_k=0, roots=["bobcat", "cheetah"], select_k=20, max_depth=2),
        "bear bobcat cassowary cheetah dingo eagle emu falcon hawk jaguar kangaroo leopard moose",
    ),
    "scored-d0": (by_name(max_depth=0), "fox mongoose"),
    "scored-d1-k8": (by_name(select_k=8, max_depth=1), AROUND),
    "scored-d1-k4": (by_name(select_k=4, max_depth=1), "cat fox hyena jackal"),
    "mmr-d0": (mmr(select_k=4, max_depth=0), "fox mongoose"),
    "mmr-d1": (mmr(select_k=4, max_depth=1), "cat fox gazelle mongoose"),
    "mmr-d2": (mmr(select_k=6, max_depth=2), "cat fox gazelle hyena jackal mongoose"),
}


class TestTheirOwnTestsOnAnimals:
    @pytest.mark.parametrize("case", ANIMALS)
    async def test_each_walk_finds_the_expected_animals(self, animals, case):
        policy, expected = ANIMALS[case]
        hits = await ranking_of(AGILE, animals, policy)
        assert sorted(hit.artifact_id for hit in hits) == sorted(expected.split())

    @pytest.mark.parametrize("select_k", [3, 5])
    async def test_select_k_hits_are_returned(self, animals, select_k):
        hits = await ranking_of(AGILE, animals, Eager(edges=KEYWORDS, select_k=select_k))
        assert [hit.artifact_id for hit in hits] == ["mongoose", "fox", "hedgehog", "ferret", "cat"][:select_k]

    async def test_each_layer_is_ordered_by_similarity(self, animals):
        hits = await ranking_of(AGILE, animals, eager(HABITAT, max_depth=2))
        assert depths_of(hits) == [("mongoose", 0), ("fox", 0), ("deer", 1), ("elk", 1), ("bobcat", 1), ("cobra", 1)]

    async def test_scored_orders_by_the_score(self, animals):
        hits = await ranking_of(AGILE, animals, by_name(HABITAT, select_k=8, max_depth=2))
        assert [(hit.artifact_id, round(hit.score, 2)) for hit in hits] == [
            ("fox", 17.05),
            ("elk", 17.04),
            ("deer", 16.03),
            ("cobra", 15.02),
            ("bobcat", 14.01),
            ("mongoose", 12.12),
        ]

    async def test_mmr_adds_its_reasons_to_hits(self, animals):
        hits = await ranking_of(AGILE, animals, mmr(HABITAT, select_k=10, max_depth=2))
        assert [hit.artifact_id for hit in hits] == ["mongoose", "fox", "deer", "bobcat", "cobra", "elk"]
        scores = [0.28934, 0.11235, 0.03904, 0.00314, -0.11166, -0.22759]
        assert [hit.metadata["mmr_score"] for hit in hits] == pytest.approx(scores, abs=1e-5)
        redundancies = [0, 0.30861, 0.10891, 0.01670, 0.24437, 0.48395]
        assert [hit.metadata["redundancy"] for hit in hits] == pytest.approx(redundancies, abs=1e-5)

    async def test_mmr_returns_each_artifact_once_even_if_it_is_found_repeatedly(self, animals):
        policy = Mmr(edges=HABITAT, select_k=97, start_k=100, adjacent_k=100, lambda_mult=0.9)
        hits = await ranking_of("cat?", animals, policy)
        assert len({hit.artifact_id for hit in hits}) == len(hits) == 97


ANGLES = {"v0": -0.124, "v1": 0.127, "v2": 0.25, "v3": 1.0}
GREETINGS = {
    "greetings": {"incoming": "parent"},
    "doc1": {"outgoing": "parent", "keywords": ["greeting", "world"]},
    "doc2": {"outgoing": "parent", "keywords": ["greeting", "earth"]},
}


class TestTheirOwnTestsByHand:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"select_k": 2, "start_k": 2, "max_depth": 2}, ["v0", "v2"]),
            ({"select_k": 2, "start_k": 2, "max_depth": 0}, ["v0", "v1"]),
            ({"select_k": 2, "start_k": 3, "max_depth": 0}, ["v0", "v2"]),
            ({"select_k": 2, "start_k": 2, "max_depth": 2, "min_mmr_score": 0.2}, ["v0"]),
            ({"select_k": 4, "start_k": 2, "max_depth": 2}, ["v0", "v1", "v2", "v3"]),
        ],
    )
    async def test_mmr_prefers_the_artifact_on_the_other_side(self, options, expected):
        """Two walks with the same object are equal."""
        policy = Mmr(edges=LINKS, **options)
        async with corpus_of(items_of(v0=["v2", "v3"], v1=[], v2=[], v3=[]), vectors_at(**ANGLES)) as corpus:
            for _ in range(2):
                assert sorted(hit.artifact_id for hit in await ranking_of(QUERY, corpus, policy)) == expected

    @pytest.mark.parametrize(
        ("edge", "query", "expected"),
        [
            (("mentions", "$id"), 0.249, ["v2", "v1 v2 v3", "v0 v1 v2 v3"]),
            (("$id", "mentions"), -0.125, ["v0", "v0 v1", "v0 v1 v2"]),
        ],
    )
    async def test_ids_are_edges_in_both_directions(self, edge, query, expected):
        fields = {"v0": {}, "v1": {"mentions": ["v0"]}, "v2": {"mentions": ["v1", "v3"]}, "v3": {}}
        for depth, names in enumerate(expected):
            policy = Eager(edges=[edge], start_k=1, select_k=10, max_depth=depth)
            found = await walk_graph(fields, vectors_at(query, **ANGLES), policy)
            assert sorted(id for id, _ in found) == names.split()

    @pytest.mark.parametrize(("max_depth", "expected"), [(0, [("v0", 0)]), (1, [("v0", 0), ("v1", 1)])])
    async def test_a_function_may_return_the_edges(self, max_depth, expected):
        fields = {id: {"links": [["a", weight]], "incoming": ["a"]} for id, weight in (("v0", 4), ("v1", 5))}
        policy = Eager(
            edges=lambda record: [("incoming", name) for name, _ in record.metadata["links"]],
            start_k=1,
            max_depth=max_depth,
        )
        assert await walk_graph(fields, vectors_at(v0=0, v1=0.1), policy) == expected

    @pytest.mark.parametrize(
        ("max_depth", "expected"), [(0, "a0 a1"), (1, "a0 a1 b0 b1 t0 t1"), (2, "a0 a1 b0 b1 t0 t1")]
    )
    async def test_edges_are_walked_in_their_direction_only(self, max_depth, expected):
        """A and B lead to each other, A leads to T, and F leads to A: F must not be found."""
        fields = {}
        for at in "01":
            fields[f"a{at}"] = {"to": [f"ab{at}", f"at{at}"], "from": [f"ab{at}", f"fa{at}"]}
            fields[f"b{at}"] = {"to": [f"ab{at}"], "from": [f"ab{at}"]}
            fields[f"f{at}"] = {"to": [f"fa{at}"], "from": []}
            fields[f"t{at}"] = {"to": [], "from": [f"at{at}"]}
        vectors = vectors_at(a0=0.01, a1=0.02, b0=0.1, b1=0.2, f0=0.05, f1=0.06, t0=0.3, t1=0.4)
        policy = Eager(edges=[("to", "from")], start_k=2, select_k=100, max_depth=max_depth)
        assert sorted(id for id, _ in await walk_graph(fields, vectors, policy)) == expected.split()

    @pytest.mark.parametrize(
        ("start_k", "max_depth", "expected"),
        [(1, 0, "doc2"), (2, 0, "doc1 doc2"), (1, 1, "doc1 doc2 greetings")],
    )
    async def test_several_pairs_are_walked_together(self, start_k, max_depth, expected):
        pairs = [("outgoing", "incoming"), ("keywords", "keywords")]
        policy = Eager(edges=pairs, start_k=start_k, select_k=10, max_depth=max_depth)
        found = await walk_graph(GREETINGS, vectors_at(doc2=0, doc1=0.1, greetings=0.3), policy)
        assert sorted(id for id, _ in found) == expected.split()

    async def test_a_pair_leads_from_values_of_the_one_field_to_the_same_in_the_other(self):
        fields = {
            "here": {"href": ["a", "c"], "url": ["b", "d"]},
            "list": {"url": ["a", "z"]},
            "scalar": {"url": "c"},
            "same": {"href": ["a"]},
            "back": {"href": ["b"]},
            "other": {"url": "b"},
        }
        vectors = vectors_at(here=0, list=0.1, scalar=0.2, same=0.3, back=0.4, other=0.5)
        policy = Eager(edges=[("href", "url")], start_k=1, select_k=None, max_depth=1)
        assert await walk_graph(fields, vectors, policy) == [("here", 0), ("list", 1), ("scalar", 1)]

    async def test_a_dotted_path_leads_from_nested_fields_to_others(self):
        fields = {
            "here": {"a": {"b": 5}, "b": {"c": 7}},
            "there": {"b": {"c": 5}},
            "back": {"a": {"b": 7}},
            "flat": {"b": 5},
        }
        policy = Eager(edges=[("a.b", "b.c")], start_k=1, select_k=None)
        assert await walk_graph(fields, vectors_at(here=0, there=0.1, back=0.2, flat=0.3), policy) == [
            ("here", 0),
            ("there", 1),
        ]

    @pytest.mark.parametrize(
        ("ways", "expected"),
        [
            ([("tags", {"a": 5, "b": 7})], ["aardvark"]),
            ([("tags", {"a": 5, "b": 7}), ("tags", {"b": 8, "a": 5})], ["aardvark", "albatross"]),
            ([("tags", {"a": 5, "b": 10})], []),
            ([("tags", {"a": 5})], []),
            ([("nested.a", 5)], ["alligator", "alpaca"]),
            ([("nested.a", 5), ("nested.a", 6)], ["alligator", "alpaca", "ant"]),
            ([("nested.a", 5), ("nested.b", 5)], ["alligator", "alpaca", "anteater"]),
        ],
    )
    async def test_a_mapping_in_a_list_is_compared_whole_and_a_nested_field_by_its_path(self, ways, expected):
        fields = {
            "root": {},
            "aardvark": {"tags": [{"a": 5, "b": 7}, {"a": 8, "b": 10}]},
            "albatross": {"tags": [{"a": 5, "b": 8}]},
            "alligator": {"nested": {"a": 5}},
            "alpaca": {"nested": {"a": 5, "b": 6}},
            "ant": {"nested": {"a": 6}},
            "anteater": {"nested": {"b": 5}},
        }
        vectors = vectors_at(**{id: at / 10 for at, id in enumerate(fields)})
        policy = Eager(edges=lambda record: ways, start_k=1, select_k=None)
        assert await walk_graph(fields, vectors, policy) == [("root", 0), *((id, 1) for id in expected)]

    async def test_without_pairs_the_walk_ends_at_the_seeds(self):
        policy = Eager(edges=[], start_k=2, roots=["c"])
        vectors = vectors_at(a=0, b=0.1, c=0.2, d=0.3)
        assert await walk_graph(items_of(a="d", b="d", c="d", d=""), vectors, policy) == [("a", 0), ("b", 0), ("c", 0)]

    @pytest.mark.parametrize("edges", ["links", {("a", "b")}, [("a",)], [("a", 1)], [None], 7])
    def test_edges_that_are_neither_pairs_nor_a_function_are_refused_at_once(self, edges):
        with pytest.raises(ArgumentError, match="edge"):
            Eager(edges=edges)

    @pytest.mark.parametrize("answer", [7, ["links"], [("links",)], [(1, 2)]])
    async def test_a_function_that_returns_no_pairs_is_an_error_of_the_policy(self, answer):
        with pytest.raises(PolicyError, match=r"edges returned .* for 'a'"):
            await walk_graph({"a": {}}, vectors_at(a=0), Eager(edges=lambda record: answer))
