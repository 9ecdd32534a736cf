"""Evaluations: rows, means, costs, and what became of each case."""

import json

import numpy as np
import pytest

from airw.corpora import Corpus
from airw.errors import ArgumentError, ArgumentKindError, CorpusNotFound
from airw.evaluation import (
    DiscoveryCase,
    FlatSearch,
    Meter,
    PolicyWalk,
    evaluate,
    find_missing_gold,
    tabulate_evaluations,
)
from airw.policies import Beam, Eager, LinkWalk, PersonalizedPageRank
from airw.protocols import ArtifactIds, Best, Edges, Fed, Rank, Records, RecordsOf, Vectors, VectorsOf, ask, fill
from airw.stores import MemoryStore, OwnStore, SqliteStore, Wrapper
from airw.traversal import traverse
from tests.support.evaluation_corpus import CASES, small_corpus

WALK = PolicyWalk(Beam(seed_k=1, width=2), "beam", node_budget=4)


class TestAnEvaluation:
    async def test_measures_each_ranking_as_the_search_returned_it(self):
        async with small_corpus() as corpus:
            found = await evaluate(
                corpus, CASES, FlatSearch({"mode": "lexical"}, "words"), measures=["recall@5", "mrr"]
            )
            for row, case in zip(found.rows, CASES, strict=True):
                hits = await corpus.search(case.query, mode="lexical")
                assert row.case is case
                assert list(row.ranking) == [hit.artifact_id for hit in hits]
                assert list(row.scores) == [hit.score for hit in hits]
        assert (found.label, found.corpus_name, found.n_gold, found.n_abstention) == ("words", "notes", 3, 1)
        assert found.values("mrr") == [1, 1, 1]
        assert found.means()["recall@5"] == pytest.approx((0.5 + 0.5 + 1) / 3)

    async def test_of_a_walk_takes_the_ranking_of_its_policy(self):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, CASES[:2], WALK, measures=["all_gold@2"])
            async with traverse(CASES[0].query, corpus, policy=WALK.policy, node_budget=4) as walk:
                order = [hit.artifact_id async for hit in walk]
        assert found.means() == {"all_gold@2": 1}
        [row, _] = found.rows
        assert [each.artifact_id for each in row.arrivals] == order
        assert list(row.ranking) == [hit.artifact_id for hit in walk.ranking]
        assert row.cost.nodes == walk.summary.committed

    async def test_of_a_walk_without_a_policy_is_that_of_traverse(self):
        async with small_corpus() as corpus:
            async with traverse(CASES[0].query, corpus) as walk:
                found = [hit async for hit in walk]
            [row] = (await evaluate(corpus, CASES[:1], PolicyWalk())).rows
        assert (row.ranking, len(row.arrivals)) == (tuple(hit.artifact_id for hit in walk.ranking), len(found))

    async def test_of_a_filled_walk_adds_the_hits_of_the_search_that_are_new(self):
        filled = PolicyWalk(WALK.policy, fill=FlatSearch({"mode": "dense"}))
        async with small_corpus() as corpus:
            [row] = (await evaluate(corpus, CASES[:1], filled)).rows
            [alone] = (await evaluate(corpus, CASES[:1], WALK)).rows
        assert row.ranking[: len(alone.ranking)] == alone.ranking
        assert sorted(row.ranking) == sorted({each.artifact_id for each in row.arrivals})
        assert len(row.ranking) == len(row.arrivals) == 5

    async def test_of_cases_without_an_answer_has_no_measures(self):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, [CASES[-1]])
        assert found.means() == {}
        assert found.failure_classes() == {"abstention_unscored": 1}
        assert "ndcg@10" not in found.per_query()[0]

    async def test_is_the_same_at_any_concurrency(self):
        async with small_corpus() as corpus:
            one, many = [await evaluate(corpus, CASES, WALK, max_concurrency=n) for n in (1, 4)]
        assert [row.ranking for row in one.rows] == [row.ranking for row in many.rows]
        assert [(row.cost.calls, row.cost.texts) for row in one.rows] == [
            (row.cost.calls, row.cost.texts) for row in many.rows
        ]

    async def test_can_be_read_as_json_and_as_a_table(self):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, CASES, measures=["mrr"])
        values = json.loads(json.dumps(found.to_dict(rows=True)))
        assert values["measures"] == found.means()
        assert [row["query"] for row in values["rows"]] == [case.query for case in CASES]
        assert "rows" not in found.to_dict()
        header, line = tabulate_evaluations([found]).splitlines()
        assert header.split()[:3] == ["system", "mrr", "calls"]
        assert line.split()[:2] == ["flat", f"{found.means()['mrr']:.3f}"]
        assert str(found).startswith("flat: 3 cases with an answer, 1 without\n")

    async def test_asks_for_as_many_hits_as_its_measures_need(self):
        class Probe:
            label, asked = "probe", 0

            async def find(self, corpus, query, k, meter):
                self.asked = k
                return []

        probe = Probe()
        async with small_corpus() as corpus:
            for measures, k, depth in ((["mrr"], None, 10), (["recall@50"], None, 50), (["recall@50"], 3, 3)):
                found = await evaluate(corpus, CASES[:1], probe, measures=measures, k=k)
                assert probe.asked == depth
        assert found.rows[0].cost.first_ms is None
        assert found.rows[0].top_score is None

    @pytest.mark.parametrize("system", [FlatSearch, "flat", Beam(), object()])
    async def test_refuses_what_is_no_system(self, system):
        with pytest.raises(ArgumentKindError, match=r"^system must have a label and a method find"):
            await evaluate("notes", [], system)

    async def test_refuses_other_wrong_arguments(self):
        with pytest.raises(ArgumentKindError, match="cases must be DiscoveryCases"):
            await evaluate("notes", ["query"])
        with pytest.raises(ArgumentError, match="a measure"):
            await evaluate("notes", [], measures=["f1"])
        with pytest.raises(CorpusNotFound):
            await evaluate("notes", [])


class TestTheFailureClasses:
    @pytest.mark.parametrize(
        ("floor", "expected"),
        [(None, "abstention_unscored"), (-1.0, "false_action"), (1e9, "abstention_ok")],
    )
    async def test_of_a_case_without_an_answer_depend_on_the_floor(self, floor, expected):
        async with small_corpus() as corpus:
            found = await evaluate(corpus, CASES, FlatSearch({"mode": "dense"}))
        assert found.failure_classes(floor=floor)[expected] == 1
        if floor is not None:
            assert found.abstention_accuracy(floor) == (expected == "abstention_ok")

    async def test_of_an_answer_tell_its_rank(self):
        gold = ["keys", "vault", "roses"]
        async with small_corpus() as corpus:
            cases = [DiscoveryCase("signing keys", id) for id in (*gold, "gone")]
            found = await evaluate(corpus, cases, FlatSearch({"mode": "dense"}))
        classes = [row.classify() for row in found.rows]
        assert classes == ["hit_rank_1", "surfaced_low_rank", "surfaced_low_rank", "retrieval_miss"]
        assert {row.classify(1) for row in found.rows[1:]} == {"retrieval_miss"}


class OneByOne(Wrapper):
    """A store that is asked for the parts of a chain one by one, and logs them."""

    def __init__(self, store):
        super().__init__(store)
        self.log = []

    async def read(self, *requests):
        answers = {}
        for request in requests:
            self.log.append(fill(request, answers))
            [answers[id(request)]] = await super().read(self.log[-1])
        return [answers[id(request)] for request in requests]


class TestTheCost:
    @pytest.mark.parametrize(
        "system",
        [FlatSearch({"mode": mode}) for mode in ("dense", "lexical", "hybrid")]
        + [PolicyWalk(policy) for policy in (Eager(), Beam(), Beam(seeding="hybrid"), PersonalizedPageRank())],
    )
    async def test_is_that_of_the_calls_a_store_received(self, system):
        async with small_corpus() as corpus:
            store = OneByOne(corpus.store)
            [row] = (await evaluate(Corpus("notes", store, corpus.embedder), CASES[:1], system)).rows
        texts = sum(len(request.ids) for request in store.log if isinstance(request, Records))
        ranked = [request for request in store.log if isinstance(request, Rank) and request.needs == "scores"]
        cosines = sum(len(request.among or request.records or ()) for request in ranked)
        assert row.cost.calls == len(store.log)
        assert row.cost.texts == texts
        assert row.cost.cosines == cosines
        assert 0 <= row.cost.first_ms <= row.cost.last_ms

    @pytest.mark.asyncio_only
    async def test_of_a_walk_along_links_is_the_same_in_memory_and_in_a_file(self, tmp_path):
        costs = []
        for store in (MemoryStore(), SqliteStore(tmp_path / "notes.airw")):
            async with store, small_corpus(store) as corpus:
                walk = PolicyWalk(LinkWalk(roots=(await ask(corpus.store, ArtifactIds()))[:1]))
                [row] = (await evaluate(corpus, CASES[:1], walk)).rows
                costs.append((row.cost.calls, row.cost.nodes, row.cost.texts))
        assert costs[0] == costs[1]

    async def test_counts_by_kind_what_is_asked_also_in_a_chain(self):
        async with small_corpus() as corpus:
            meter = Meter()
            store = meter.watch(corpus).store
            ids = await ask(store, ArtifactIds())
            query = np.ones((1, corpus.embedder.dim), np.float32)
            costs = []

            async def cost_of(*requests):
                before = np.array([meter.calls, meter.texts, meter.cosines])
                await store.read(*requests)
                costs.append((np.array([meter.calls, meter.texts, meter.cosines]) - before).tolist())

            rank = Rank(query, 2)
            await cost_of(rank, Fed(Records(()), Best(rank)))
            await cost_of(RecordsOf([*ids, "none"], limit=1))
            await cost_of(Rank(query, among=[*ids, "none"], per_artifact=True), Rank(["keys"]))
            [[first]] = await ask(store, RecordsOf(ids[:1], limit=1))
            await cost_of(Vectors([first.id, "none"]), VectorsOf(ids[:1]), Rank(query, records=[first.id]))
            records = await ask(store, RecordsOf(ids[:1]))
            assert costs == [
                [2, 2, 0],
                [1, len(ids), 0],
                [2, 0, len(ids) + 1],
                [3, 0, 2 + len(records[0]) + 1],
            ]

    async def test_of_a_store_keeps_its_capabilities(self):
        class Partial(OwnStore):
            capabilities = frozenset({"records"})

            async def records(self, request):
                return [None for _ in request.ids]

        async with small_corpus() as corpus:
            assert {*Meter().watch(corpus).store.capabilities} == {*corpus.store.capabilities}
        meter = Meter()
        partial = meter.watch(Corpus("notes", Partial(), corpus.embedder)).store
        assert {*partial.capabilities} == {"records"}
        with pytest.raises(ArgumentError, match="Edges needs a store with the capability"):
            await ask(partial, Edges(["a"]))
        meter.calls = 0
        assert await ask(partial, Records(["a"])) == [None]
        assert (meter.calls, meter.texts) == (1, 0)

    @pytest.mark.asyncio_only
    async def test_is_the_same_in_memory_and_in_a_file(self, tmp_path):
        costs = []
        async with small_corpus() as corpus:
            costs += [(await evaluate(corpus, CASES, WALK)).costs()]
        async with small_corpus(tmp_path / "notes.airw") as corpus:
            costs += [(await evaluate(corpus, CASES, WALK)).costs()]
        one, other = ({name: cost[name] for name in ("nodes", "texts", "cosines")} for cost in costs)
        assert one == other


class TestMissingGold:
    async def test_is_found_by_the_position_of_the_case(self):
        async with small_corpus() as corpus:
            cases = [*CASES, DiscoveryCase("x", ["keys", "gone", "lost"])]
            assert await find_missing_gold(corpus, cases) == {4: ["gone", "lost"]}
            assert await find_missing_gold(corpus, []) == {}
