"""Results, errors and limits of `discover` over one corpus and over several."""

import math
import re
from dataclasses import replace
from functools import partial

import anyio
import pytest
from hypothesis import given, settings, strategies as st

import airw
from airw.corpora import adapt
from airw.discovery import FederatedCorpus, WholeArtifact, discover
from airw.errors import (
    ArgumentError,
    CorpusNotFound,
    DiscoveryError,
    EmbedderError,
    FilterError,
    RerankerError,
    StoreBusy,
    StoreError,
)
from airw.links import extractor_from
from airw.policies import CollapsedTree, Eager, LinkWalk
from airw.protocols import Calibrations, Change, Edges, Rank, Records, Words
from airw.reranking import calibration_key
from airw.testing import ScriptedStore, run_on_virtual_clock
from tests.support.discoveries import ALL, FOOD, KEYS, Counting, corpora
from tests.support.drawing import examples
from tests.support.virtual_time import on_virtual_clock


def per_source(result):
    return result.signals["per_source"]


def statuses(result):
    return {name: report["status"] for name, report in per_source(result).items()}


@pytest.mark.parametrize("slow", [Words, Calibrations])
@on_virtual_clock
async def test_a_source_reads_its_records_while_it_counts_its_words(slow):
    async with corpora({"keys": KEYS, "food": FOOD}) as (keys, food):
        far = replace(food, store=ScriptedStore(food.store, delays={slow: 0.2, Records: 0.2}))
        began = anyio.current_time()
        result = await discover([keys, far], "rotate the signing keys", source_timeout=0.3)
        assert (anyio.current_time() - began, result.missing) == (pytest.approx(0.2), {})


async def test_one_corpus_commits_to_the_best_hits_with_a_reason():
    async with corpora({"keys": KEYS}) as (keys,):
        result = await discover(keys, "rotate the signing keys")
    assert result.ids[0] == "k1"
    assert (result.mode, result.strategy, result.disclose_level) == ("hybrid", "conservative", "metadata")
    assert (result.abstained, result.n_retrieved) == (False, 2)
    assert "per_source" not in result.signals
    assert result.to_dict()["n_selected"] == len(result.ids)
    assert result.results[0].source == "keys"


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_a_query_without_any_evidence_abstains(mode):
    """No text has the word, and this embedder embeds such a query as a zero vector."""
    async with corpora(ALL) as many:
        one = await discover(many[0], "zebra", mode=mode)
        all_of_them = await discover(many, "zebra", mode=mode)
    reason = "abstain:no_candidates" if mode == "lexical" else "abstain:no_evidence"
    assert (one.ids, one.abstained, one.reason) == ([], True, reason)
    assert (all_of_them.ids, all_of_them.reason) == ([], reason)


async def test_a_corpus_without_evidence_takes_no_part_in_the_fusion():
    async with corpora({"food": {"f1": "bake a loaf"}, "keys": KEYS}) as many:
        result = await discover(many, "signing")
    assert [each.source for each in result.results] == ["keys"]
    assert per_source(result)["food"]["reason"] == "no_evidence"


async def test_the_order_of_the_list_does_not_matter_unless_sources_are_fused_one_by_one():
    async with corpora(ALL) as many:
        result = await discover(many, "keys", strategy="top_k")
        turned = await discover(many[::-1], "keys", strategy="top_k")
        by_source = await discover(many, "keys", strategy="top_k", merge="rrf-by-source")
        turned_by_source = await discover(many[::-1], "keys", strategy="top_k", merge="rrf-by-source")
    assert [each.source for each in result.results] == ["food", "keys", "cars"]
    assert turned.ids == result.ids
    assert [each.source for each in by_source.results] == ["keys", "food", "cars"]
    assert [each.source for each in turned_by_source.results] == ["cars", "food", "keys"]
    assert result.signals["merge"] == "rrf"
    assert result.signals["merge_rrf_k"] == 10
    assert result.signals["sources"] == ["keys", "food", "cars"]
    assert by_source.results[0].metadata["source_rank"] == 1


async def test_a_federation_of_one_finds_what_the_corpus_alone_finds():
    async with corpora({"keys": KEYS}) as (keys,):
        alone, federated = await discover(keys, "signing keys"), await discover([keys], "signing keys")
    assert alone.results == federated.results
    assert alone.reason == federated.reason


async def test_a_mapping_names_the_corpora_and_attributes_their_hits():
    async with corpora({"keys": KEYS}) as (keys,), corpora({"keys": FOOD}) as (other,):
        result = await discover({"one": keys, "two": other}, "keys", strategy="top_k")
        for given in ([keys, other], {"Keys": keys, "keys": other}):
            with pytest.raises(ArgumentError, match="name: corpus"):
                await discover(given, "keys")
    assert {each.source for each in result.results} == {"one", "two"}


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_names_and_paths_are_opened_and_closed_again(tmp_path):
    for name, texts in (("keys", KEYS), ("food", FOOD)):
        async with airw.build(airw.from_mapping(texts, name=name, embedder="light")):
            pass
    path = tmp_path / "cars.airw"
    async with airw.build(airw.from_mapping(ALL["cars"], name="cars", embedder="light"), store=path):
        pass
    result = await discover(["keys", "food", path], "keys", strategy="top_k", expand=WholeArtifact())
    assert [each.source for each in result.results] == ["food", "keys", "cars"]
    assert all(each.passage for each in result.results)


async def test_an_unknown_name_is_an_error_before_any_search():
    async with corpora({"keys": KEYS}) as (keys,):
        with pytest.raises(CorpusNotFound, match="nowhere"):
            await discover([keys, "nowhere"], "keys")
    assert not keys.store.calls


def test_all_sources_are_searched_concurrently():
    async def main():
        async with corpora(ALL, delays=dict.fromkeys(ALL, 1.0)) as many:
            start = anyio.current_time()
            await discover(many, "keys", mode="lexical")
            return anyio.current_time() - start

    assert run_on_virtual_clock(main) == pytest.approx(2)  # a search and its records


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_source_that_hangs_costs_only_its_own_time_and_the_others_are_fused(backend):
    async def main():
        async with corpora(ALL, delays={"food": math.inf}) as many:
            start = anyio.current_time()
            result = await discover(many, "keys", strategy="top_k", source_timeout=2)
            return result, anyio.current_time() - start, [corpus.store.running for corpus in many]

    result, seconds, running = run_on_virtual_clock(main, backend=backend)
    assert seconds == 2
    assert running == [0, 0, 0]
    assert statuses(result) == {"keys": "ok", "food": "timeout", "cars": "ok"}
    assert result.missing == {"food": "TimeoutError: no answer within 2 s"}
    assert result.to_dict()["missing"] == [{"source": "food", "error": "TimeoutError: no answer within 2 s"}]
    assert per_source(result)["food"]["error"] == "TimeoutError: no answer within 2 s"
    assert per_source(result)["food"]["seconds"] == 2
    assert [each.source for each in result.results] == ["keys", "cars", "keys"]


def test_the_whole_search_ends_at_the_smaller_of_both_time_limits():
    async def main():
        async with corpora(ALL, delays={"food": math.inf}) as many:
            start = anyio.current_time()
            await discover(many, "keys", timeout=1, source_timeout=9)
            return anyio.current_time() - start

    assert run_on_virtual_clock(main) == pytest.approx(0.9)  # a tenth is kept for the union of the others


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_formulating_is_limited_by_the_total_time_and_raises_its_own_errors(backend):
    async def slow(query):
        await anyio.sleep(9)

    async def broken(query):
        raise TimeoutError("the model's server is slow")

    async def main():
        async with corpora(ALL) as many:
            with pytest.raises(DiscoveryError, match="formulating the query took all of timeout=2 s"):
                await discover(many, "keys", formulate=slow, timeout=2)
            with pytest.raises(TimeoutError, match="server is slow"):
                await discover(many, "keys", formulate=broken, timeout=2)
            return anyio.current_time()

    assert run_on_virtual_clock(main, backend=backend) == 2


async def test_a_query_is_formulated_once_for_all_corpora():
    asked = []

    def twice(query):
        asked.append(query)
        return [query, "bread"]

    async with corpora(ALL) as many:
        result = await discover(many, "keys", formulate=twice, mode="lexical", strategy="top_k", max_k=9)
    assert asked == ["keys"]
    assert "f1" in result.ids


async def test_a_source_that_fails_is_reported_and_the_others_are_fused():
    failures = {"cars": {Rank: StoreBusy("somebody\nwrites")}}
    async with corpora(ALL, failures=failures) as many:
        result = await discover(many, "keys", strategy="top_k")
    assert statuses(result) == {"keys": "ok", "food": "ok", "cars": "failed"}
    assert per_source(result)["cars"]["error"] == "StoreBusy: somebody writes"
    assert per_source(result)["cars"]["abstained"] is True
    assert {each.source for each in result.results} == {"keys", "food"}


async def test_if_all_fail_the_error_contains_every_cause():
    broken, busy = StoreError("broken"), OSError("gone")
    failures = {"keys": {Rank: broken}, "food": {Rank: busy}}
    async with corpora({"keys": KEYS, "food": FOOD}, failures=failures) as many:
        with pytest.raises(DiscoveryError, match="keys: StoreError: broken; food: OSError: gone") as caught:
            await discover(many, "keys", mode="lexical")
    assert caught.value.causes == {"keys": broken, "food": busy}
    assert caught.value.__cause__.exceptions == (broken, busy)


@on_virtual_clock
async def test_a_single_corpus_raises_its_own_error_or_a_discovery_error_if_it_hangs():
    async with corpora({"keys": KEYS}, failures={"keys": {Rank: StoreError("broken")}}) as (keys,):
        with pytest.raises(StoreError, match="broken"):
            await discover(keys, "keys")
    async with corpora({"keys": KEYS}, delays={"keys": math.inf}) as (keys,):
        with pytest.raises(DiscoveryError, match=r"no answer within 0\.01 s"):
            await discover(keys, "keys", source_timeout=0.01)


async def test_a_mistake_of_the_caller_is_raised_at_once_however_many_corpora_there_are():
    async with corpora(ALL) as many:
        with pytest.raises(FilterError):
            await discover(many, "keys", filter={"a": {"$regex": "x"}})
        with pytest.raises(ArgumentError, match="boost"):
            await discover(many, "keys", boost=lambda hit: math.nan)


@on_virtual_clock
async def test_leaving_cancels_all_sources():
    async with corpora(ALL, delays=dict.fromkeys(ALL, math.inf)) as many:
        with anyio.move_on_after(0.02) as scope:
            await discover(many, "keys")
        assert scope.cancelled_caught
        assert [corpus.store.running for corpus in many] == [0, 0, 0]


async def test_a_query_is_embedded_once_for_each_distinct_embedder():
    same, other = Counting("same"), Counting("other")
    twin = Counting("same")
    async with corpora(ALL, embedders={"keys": same, "food": twin, "cars": other}) as many:
        await discover(many, "keys")
        assert len(same.queries) + len(twin.queries) == 1
        assert len(other.queries) == 1
        await discover(many, "keys", walk=CollapsedTree())
        assert len(same.queries) + len(twin.queries) == 2
        await discover(many, "keys", mode="lexical")
    assert len(same.queries) + len(twin.queries) == 2


async def test_a_failing_embedder_is_called_once_and_fails_all_corpora_that_share_it():
    broken = Counting("broken", error=EmbedderError("no model"))
    async with corpora(ALL, embedders={"keys": broken, "food": broken}) as many:
        result = await discover(many, "keys")
    assert broken.queries == ["keys"]
    assert statuses(result) == {"keys": "failed", "food": "failed", "cars": "ok"}


async def test_floors_apply_to_each_corpus_before_the_fusion():
    async with corpora(ALL) as many:
        result = await discover(many, "keys", mode="dense", min_score={"keys": 0.9, "cars": 0.0}, strategy="top_k")
        none = await discover(many, "keys", mode="dense", min_score=dict.fromkeys(ALL, 2.0))
        some = await discover(many[:2], "zebra keys", mode="dense", min_score={"keys": 2.0, "food": None})
    assert {each.source for each in result.results} == {"food", "cars"}
    assert per_source(result)["keys"]["floor"] == 0.9
    assert per_source(result)["keys"]["reason"] == "below_floor"
    assert (none.abstained, none.reason) == (True, "abstain:all_sources_below_floor")
    assert some.ids


async def test_if_only_some_corpora_have_floors_and_nothing_is_left_the_reason_mentions_it():
    async with corpora({"keys": KEYS, "none": {}}) as many:
        result = await discover(many, "keys", mode="dense", min_score={"keys": 2.0})
    assert result.reason == "abstain:no_surviving_sources"


@pytest.mark.parametrize("strategy", ["conservative", "top_k", "rel_threshold", "score_gap", lambda hits: hits])
async def test_the_floor_of_one_corpus_applies_with_every_strategy(strategy):
    async with corpora({"keys": KEYS}) as (keys,):
        result = await discover(keys, "keys", mode="dense", min_score=2.0, strategy=strategy)
        passes = await discover(keys, "keys", mode="dense", min_score=0.01, strategy=strategy)
    assert (result.ids, result.reason) == ([], "abstain:below_floor")
    assert result.signals["min_score"] == 2.0
    assert result.signals["top_score"] > 0
    assert passes.ids


async def test_as_a_strategy_of_its_own_a_floor_applies_to_each_hit():
    async with corpora({"keys": KEYS}) as (keys,):
        options = {"mode": "dense", "strategy": "abs_threshold"}
        some = await discover(keys, "rotate the signing keys", min_score=0.9, **options)
        none = await discover(keys, "rotate the signing keys", min_score=2.0, **options)
    assert (some.ids, some.n_retrieved) == (["k1"], 2)
    assert none.reason == "abstain:abs_threshold"


async def test_a_reranker_that_returns_nan_fails_each_source():
    async with corpora({"keys": KEYS, "cars": ALL["cars"]}) as many:
        with pytest.raises(DiscoveryError, match="finite numbers, not nan") as caught:
            await discover(many, "keys", rerank=lambda query, texts: [math.nan] * len(texts))
    assert {type(error) for error in caught.value.causes.values()} == {RerankerError}


async def test_an_async_selector_is_awaited():
    async def last(hits):
        await anyio.lowlevel.checkpoint()
        return hits[-1:]

    async with corpora(ALL) as many:
        result = await discover(many, "keys", strategy=last)
        capped = await discover(many, "keys", strategy=list, max_k=2)
    assert len(result.ids) == 1
    assert result.strategy == "custom"
    assert len(capped.ids) == 2


async def test_a_merge_may_be_a_function_of_the_surviving_hits_by_name():
    def take_first_hits(hits_by_name):
        assert list(hits_by_name) == ["keys", "cars"]
        return [hits[0] for hits in reversed(hits_by_name.values())]

    async with corpora({"keys": KEYS, "none": {}, "cars": ALL["cars"]}) as many:
        result = await discover(many, "keys", merge=take_first_hits, strategy="top_k")
    assert [each.source for each in result.results] == ["cars", "keys"]
    assert result.signals["merge"] == "custom"
    assert "merge_rrf_k" not in result.signals


async def test_a_merge_by_score_needs_one_dense_scale():
    async with corpora(ALL) as many:
        result = await discover(many, "keys", mode="dense", merge="score", strategy="top_k", max_k=9)
        scores = [each.score for each in result.results]
        reranked = {"mode": "dense", "rerank": lambda query, texts: [1] * len(texts)}
        for options in ({"mode": "lexical"}, {"mode": "hybrid"}, reranked):
            with pytest.raises(ArgumentError, match="dense"):
                await discover(many, "keys", merge="score", **options)
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4  # the other two share nothing with the query
    async with corpora(ALL, embedders={"cars": Counting("other")}) as many:
        with pytest.raises(ArgumentError, match="one embedder"):
            await discover(many, "keys", mode="dense", merge="score")


async def test_weights_count_by_source():
    async with corpora(ALL) as many:
        result = await discover(many, "keys", merge_weights={"cars": 3.0}, max_k=1)
    assert result.results[0].source == "cars"


async def test_hits_of_equal_identity_merge_across_corpora():
    async with corpora({"one": KEYS, "two": KEYS}) as many:
        result = await discover(many, "signing keys", identity=lambda hit: hit.artifact_id)
    assert result.results[0].metadata["fused_sources"] == ["one", "two"]


async def test_copies_of_a_skill_merge_and_other_corpora_keep_their_hits():
    copies = {"a": "rotate keys", "b": "rotate keys", "c": "keys"}
    names = {"a": "rotate", "b": "rotate", "c": "other"}
    options = {"metadata_of": lambda name, _: {"name": names[name]}}
    async with corpora({"skills": copies, "notes": copies}, **options) as (skills, notes):
        assert (await discover(skills, "rotate keys", strategy="top_k")).ids == ["a", "c"]
        assert (await discover(notes, "rotate keys", strategy="top_k")).ids == ["a", "b", "c"]
        assert (await discover(skills, "rotate keys", strategy="top_k", dedup_by=None)).ids == ["a", "b", "c"]
        assert (await discover(notes, "rotate keys", strategy="top_k", dedup_by="name")).ids == ["a", "c"]


async def test_hits_without_the_identity_field_do_not_merge():
    async with corpora({"notes": {"a": "rotate keys", "b": "rotate keys", "c": "keys"}}) as (notes,):
        result = await discover(notes, "rotate keys", strategy="top_k", dedup_by="name")
    assert result.ids == ["a", "b", "c"]


async def test_a_walk_replaces_the_search():
    async with corpora(ALL) as many:
        result = await discover(many, "keys", walk=CollapsedTree(), strategy="top_k", node_budget=1)
        one = await discover(many[0], "signing keys", walk=CollapsedTree())
        searched = await discover(many[0], "signing keys", mode="dense")
        assert (await discover(many[0], "signing keys", walk=CollapsedTree(), k=1)).n_retrieved == 1
    assert result.mode == "walk"
    assert [each.source for each in result.results] == ["food", "keys", "cars"]
    assert per_source(result)["keys"]["walk"]["committed"] == 1
    assert one.ids == searched.ids
    assert one.results[0].metadata["walk_depth"] == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_walk_that_runs_out_of_time_returns_its_hits_so_far(backend):
    async def main():
        delays = {"keys": {Edges: [0.0, math.inf]}, "food": math.inf}
        links = extractor_from(lambda name, _: {"next": ["k2"] if name == "k1" else []}, id="next")
        async with corpora({"keys": KEYS, "food": FOOD}, delays=delays, edge_extractor=links) as many:
            result = await discover(many, "signing keys", walk=Eager(start_k=1), source_timeout=2)
            return result, anyio.current_time()

    result, seconds = run_on_virtual_clock(main, backend=backend)
    assert seconds == 2
    assert statuses(result) == {"keys": "timeout", "food": "timeout"}
    assert "cut by the deadline" in per_source(result)["keys"]["error"]
    assert per_source(result)["keys"]["walk"]["stop"] == "timeout"
    assert result.ids == ["k1"]


async def test_one_walk_crosses_between_corpora_that_are_one_graph():
    links = extractor_from(lambda _, fields: {"about": fields["about"]}, id="about")
    about = {"k1": [["cars", "c2"]], "k2": [], "c1": [], "c2": []}
    source = {"metadata_of": lambda name, _: {"about": about[name]}, "edge_extractor": links}
    async with corpora({"keys": KEYS, "cars": ALL["cars"]}, **source) as many:
        graph = FederatedCorpus(many)
        walk = LinkWalk(roots=[("keys", "k1")], direction="out")
        result = await discover(graph, "keys", walk=walk, strategy="top_k", expand=WholeArtifact())
        assert [(each.source, each.artifact_id, each.passage) for each in result.results] == [
            ("keys", "k1", KEYS["k1"]),
            ("cars", "c2", ALL["cars"]["c2"]),
        ]
        assert result.results[1].metadata["seed"] == ("keys", "k1")
        assert result.to_dict()["results"][1]["metadata"]["walk_path"] == [["keys", "k1"], ["cars", "c2"]]
        with pytest.raises(ArgumentError, match="can only be walked: pass walk=True, walk=policy, or its corpora"):
            await discover(graph, "keys")
        with pytest.raises(ArgumentError, match="itself"):
            await discover([graph, many[0]], "keys")


async def test_options_that_a_walk_does_not_use_are_refused():
    async with corpora({"keys": KEYS}) as (keys,):
        for options in ({"filter": {}}, {"mode": "dense"}, {"surfaces": ["x"]}, {"rerank": len}, {"min_score": "auto"}):
            with pytest.raises(ArgumentError, match=r"walk"):
                await discover(keys, "keys", walk=CollapsedTree(), **options)


BAD = [
    ({"merge": "sum"}, "merge must be one of"),
    ({"min_score": 0.5}, "different scales"),
    ({"min_score": "calibrated"}, "'auto'"),
    ({"min_score": {"nobody": 1.0}}, "nobody"),
    ({"min_score": {"keys": math.nan}}, "finite"),
    ({"min_score": {"keys": True}}, "finite"),
    ({"min_score": {"keys": "1"}}, "finite"),
    ({"merge_weights": {"nobody": 1.0}}, "nobody"),
    ({"merge_weights": {"keys": -1.0}}, "weight"),
    ({"merge_rrf_k": -1}, "merge_rrf_k"),
    ({"strategy": "abs_threshold", "min_score": "auto"}, "abs_threshold"),
    ({"strategy": "best"}, "strategy"),
    ({"disclose_level": "all"}, "level"),
    ({"mode": "fuzzy"}, "mode"),
    ({"k": -1}, "k must"),
    ({"max_k": 0}, "max_k"),
    ({"source_timeout": -1}, "source_timeout"),
    ({"timeout": math.nan}, "timeout"),
    ({"node_budget": 0}, "node_budget"),
    ({"identity": "path"}, "identity"),
    ({"per_artifact": False}, "per_artifact"),
    ({"loader": str, "store": {}}, "loader"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
async def test_an_invalid_argument_is_refused_before_any_search(options, message):
    async with corpora({"keys": KEYS, "food": FOOD}) as many:
        with pytest.raises(ArgumentError, match=message) as caught:
            await discover(many, "keys", **options)
        assert "\n" not in str(caught.value)
        assert not any(corpus.store.calls for corpus in many)


@pytest.mark.parametrize(
    "given",
    [[], {}, None, 3, [None], [[]], {"": "keys"}, {3: "keys"}],
)
async def test_a_value_that_is_not_a_corpus_is_refused(given):
    with pytest.raises(ArgumentError):
        await discover(given, "keys")


@pytest.mark.parametrize(
    "options",
    [{"merge": "score"}, {"merge_weights": {"keys": 1}}, {"merge_rrf_k": 1}, {"min_score": {"keys": 1}}],
)
async def test_options_for_several_corpora_are_refused_for_one(options):
    async with corpora({"keys": KEYS}) as (keys,):
        with pytest.raises(ArgumentError, match=rf"{next(iter(options))}\b.* is for several corpora"):
            await discover(keys, "keys", **options)


async def store_floor(corpus, floor, **record):
    known = {"mode": "hybrid", "rerank": None, "embedder_id": corpus.embedder_id, "min_score": floor}
    await corpus.store.apply(Change(calibrations={calibration_key("hybrid", fusion="ranks"): known | record}))


async def test_auto_uses_the_calibrated_floor_of_each_corpus():
    async with corpora(ALL) as many:
        for corpus, floor in zip(many, (0.99, 0.0, -5.0), strict=True):
            await store_floor(corpus, floor)
        result = await discover(many, "keys", min_score="auto")
        one = await discover(many[0], "keys", min_score="auto")
    assert {name: report["floor"] for name, report in per_source(result).items()} == {
        "keys": 0.99,
        "food": 0.0,
        "cars": -5.0,
    }
    assert per_source(result)["keys"]["abstained"]
    assert one.reason == "abstain:below_floor"


@pytest.mark.parametrize(
    ("record", "options", "note"),
    [
        (None, {}, "nothing is calibrated"),
        ({"embedder_id": "other"}, {}, "embedder 'other'"),
        ({"rerank": "rerank-x"}, {}, "another kind of search"),
        ({"mode": "dense"}, {}, "another kind of search"),
        ({"min_score": "much"}, {}, "not a finite number"),
        ({"min_score": None, "reason": "no_cases"}, {}, "no_cases"),
        ({}, {"surface_weights": {"document": 2.0}}, "surface_weights"),
        ({}, {"boost": lambda hit: 0.1}, "boost"),
        ({}, {"formulate": lambda query: [query, "signing"]}, "formulate"),
        ({}, {"rerank": lambda query, texts: [1.0] * len(texts)}, "reranker has no name"),
        ({}, {"fusion": "blend"}, "nothing is calibrated for 'hybrid+blend'"),
    ],
)
async def test_if_no_calibrated_floor_fits_there_is_none_and_a_warning(record, options, note):
    async with corpora({"keys": KEYS}) as (keys,):
        if record is not None:
            record = dict(record)
            await store_floor(keys, record.pop("min_score", 99.0), **record)
        with pytest.warns(UserWarning, match=re.escape(note)):
            result = await discover(keys, "keys", min_score="auto", **options)
    assert result.ids
    assert note in result.signals["floor_note"]


DELAYS = st.lists(st.integers(0, 5), min_size=4, max_size=4)
TEXTS = st.lists(st.sampled_from(["keys", "signing keys", "bread", "keys and bread", "oil"]), max_size=4)


@pytest.mark.slow
@given(
    st.lists(TEXTS, min_size=4, max_size=4),
    DELAYS,
    DELAYS,
    st.sets(st.integers(0, 3), max_size=2),
    st.sampled_from(["dense", "lexical", "hybrid"]),
)
@settings(max_examples=examples(40))
def test_the_result_does_not_depend_on_which_source_answers_first(texts, delays, others, failing, mode):
    named = {f"n{at}": {f"{word}{place}": word for place, word in enumerate(each)} for at, each in enumerate(texts)}
    failures = {f"n{at}": {Records: StoreError("broken")} for at in failing}

    async def main(seconds):
        by_name = {f"n{at}": float(each) for at, each in enumerate(seconds)}
        async with corpora(named, delays=by_name, failures=failures) as many:
            result = (await discover(many, "signing keys", mode=mode, strategy="top_k", max_k=9)).to_dict()
        for report in result["signals"]["per_source"].values():
            del report["seconds"]
        return result

    assert run_on_virtual_clock(partial(main, delays)) == run_on_virtual_clock(partial(main, others))


async def test_a_store_that_cannot_keep_the_floor_that_is_asked_for_is_named():
    async def search(query, k):
        return [("a", 1.0)]

    corpus = adapt(search=search, name="other")
    with pytest.raises(ArgumentError, match=f"'settings'; {type(corpus.store).__name__} offers lexical"):
        await discover(corpus, "keys", min_score="auto")
