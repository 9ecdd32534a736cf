"""PathCoverage: passages that hold the words of a query together."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from airw import FederatedCorpus, search, top_k, traverse
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import extractor_from
from airw.policies import PathCoverage, Scope
from airw.stores import Wrapper
from airw.values import Extraction, Limits, Link
from tests.support.artifact_corpora import corpus_of, ids, item, walk_all
from tests.support.asked import Asked, Without, kind_of

LIGHT = HashingEmbedder(dim=256)
TEAMS = {
    "kestrel": item("the kestrel team does train at the harbour", to=["harbour", "bread"]),
    "harbour": item("bergen is a city of rain and fish", to=["rain"]),
    "rain": item("rain is autumn weather"),
    "bread": item("a loaf of bread"),
    "osprey": item("ospreys and a kestrel"),
    "team": item("each kestrel team is listed here"),
}
QUERY = "which city does the kestrel team train in"


def teams(items=None, store=None, **options):
    return corpus_of(TEAMS if items is None else items, store, embedder=LIGHT, **options)


def policy(**options):
    return PathCoverage(**{"seed_k": 2, **options})


async def ranking_of(corpus, policy, query=QUERY, **options):
    _, walk = await walk_all(corpus, policy, query, **options)
    return walk.ranking


def paths(hits):
    return [hit.metadata["walk_path"] for hit in hits]


class TestSearch:
    """What the search finds keeps its order."""

    @pytest.mark.parametrize("query", [QUERY, "The League Of Bread", "rain"])
    async def test_without_links_it_returns_the_hits_of_the_search_in_their_order(self, query):
        items = {id: {**fields, "links": {}} for id, fields in TEAMS.items()}
        async with teams(items) as corpus:
            expected = ids(await search(corpus, query, k=50))
            hits, walk = await walk_all(corpus, PathCoverage(), query)
            first, _ = await walk_all(corpus, PathCoverage(seed_k=2), query)
        assert ids(hits) == ids(walk.ranking) == expected
        assert ids(first) == expected[:2]
        assert walk.summary.stop == "exhausted"

    async def test_links_that_add_no_words_leave_the_order_as_it_is(self):
        items = {id: {**fields, "links": {"to": ["bread"]}} for id, fields in TEAMS.items()}
        async with teams(items) as corpus:
            expected = ids(await search(corpus, QUERY, k=50))[:2]
            ranking = ids(await ranking_of(corpus, policy(direction="out")))
        assert [id for id in ranking if id in expected] == expected
        assert ranking[0] == expected[0]

    async def test_scores_of_the_hits_of_the_search_fall(self):
        async with teams() as corpus:
            expected = ids(await search(corpus, QUERY, k=50))
            ranking = await ranking_of(corpus, PathCoverage(seed_k=6, lead_k=0))
        assert ids(ranking) == expected
        assert [hit.score for hit in ranking] == sorted((hit.score for hit in ranking), reverse=True)
        assert sorted(hit.score for hit in ranking) == sorted(hit.metadata["path_value"] for hit in ranking)

    async def test_the_first_hit_leaves_before_a_link_is_read(self):
        async with teams() as corpus:
            store = Asked(corpus.store)
            async with traverse(QUERY, replace(corpus, store=store), policy=policy()) as walk:
                first = await anext(walk)
                assert first.artifact_id == ids(await search(corpus, QUERY, k=50))[0]
                assert "Edges" not in store.calls
                await anext(walk)
                assert store.calls.count("Edges") == 1


class TestPaths:
    async def test_a_passage_that_adds_words_to_its_path_comes_up(self):
        async with teams() as corpus:
            ranking = await ranking_of(corpus, policy())
        assert paths(ranking)[:2] == [["kestrel"], ["kestrel", "harbour"]]
        hit = ranking[1]
        assert hit.metadata["path_added"] == ["city"]
        parts = (hit.metadata[name] for name in ("path_cosine", "path_coverage", "path_loss"))
        cosine, coverage, loss = parts
        assert hit.score == hit.metadata["path_value"] == pytest.approx(cosine + 0.5 * coverage - loss)
        assert 0 < coverage <= 1
        assert loss == 0

    async def test_words_are_told_as_the_query_writes_them(self):
        async with teams() as corpus:
            ranking = await ranking_of(corpus, policy(), "Which CITY? (Kestrel)")
        added = {hit.artifact_id: hit.metadata["path_added"] for hit in ranking}
        assert added["kestrel"] == ["Kestrel"]
        assert "CITY" in added["harbour"]

    async def test_without_word_counts_a_path_is_worth_its_mean_cosine(self):
        async with teams() as corpus:
            small = replace(corpus, store=Without(corpus.store, "lexical", "words"))
            ranking = await ranking_of(small, policy())
            expected = ids(await search(corpus, QUERY, k=2, mode="dense"))
        assert [id for id in ids(ranking) if id in expected] == expected
        assert {hit.metadata["path_coverage"] for hit in ranking} == {0.0}
        assert not any(hit.metadata["path_added"] for hit in ranking)

    async def test_a_store_without_links_is_searched_alone(self):
        async with teams() as corpus:
            hits, _ = await walk_all(
                replace(corpus, store=Without(corpus.store, "lexical", "words", "edges")), policy(), QUERY
            )
            assert ids(hits) == ids(await search(corpus, QUERY, k=2, mode="dense"))

    async def test_a_hit_of_the_search_on_a_better_path_moves_up_in_the_ranking(self):
        items = {**TEAMS, "harbour": item("bergen, a city of rain, fish and a team", to=["rain"])}
        async with teams(items) as corpus:
            flat = ids(await search(corpus, QUERY, k=50))
            hits, walk = await walk_all(corpus, PathCoverage(seed_k=6, lead_k=6), QUERY)
        by_search = next(hit for hit in hits if hit.artifact_id == "harbour")
        by_path = next(hit for hit in walk.ranking if hit.artifact_id == "harbour")
        assert by_search.metadata["path_added"] != by_path.metadata["path_added"]
        assert by_path.score > by_search.score
        assert ids(walk.ranking).index("harbour") <= flat.index("harbour")
        assert {*ids(hits)} == {*ids(walk.ranking)} == {*flat, "bread"}, "a link of kestrel leads to bread"

    async def test_deeper_walks_go_on_from_the_neighbours(self):
        async with teams() as corpus:
            shallow = await ranking_of(corpus, policy(seed_k=1, direction="out"))
            deep = await ranking_of(corpus, policy(seed_k=1, direction="out"), max_depth=2)
            flat = await ranking_of(corpus, policy(), max_depth=0)
        assert "rain" not in ids(shallow)
        assert ["kestrel", "harbour", "rain"] in paths(deep)
        assert paths(flat) == [[id] for id in ids(flat)]
        assert len(flat) == 2


class TestLimits:
    """Limits of the walk keep out what competes least."""

    @staticmethod
    def hub(count):
        crowd = [f"c{number}" for number in range(count)]
        return {
            **{id: item("rain") for id in crowd},
            "kestrel": item(*TEAMS["kestrel"]["texts"], to=[*crowd, "harbour"]),
            "harbour": TEAMS["harbour"],
        }

    async def test_a_cap_of_links_keeps_the_best_path(self):
        async with teams(self.hub(20)) as corpus:
            for limits in (Limits(max_fanout=3), Limits(max_edges=3), Limits()):
                ranking = await ranking_of(corpus, policy(seed_k=1, direction="out"), limits=limits)
                assert ["kestrel", "harbour"] in paths(ranking)

    async def test_a_walk_under_a_cap_leaves_no_path_waiting(self):
        items = {
            f"n{at}": item(f"kestrel {at}", to=[f"n{(at + step) % 12}" for step in (1, 2, 3, 5)]) for at in range(12)
        }
        async with teams(items) as corpus:
            for cap in range(1, 5):
                _, walk = await walk_all(corpus, policy(seed_k=6), QUERY, limits=Limits(max_fanout=cap))
                assert walk.summary.stop == "exhausted"

    async def test_nothing_is_counted_behind_an_artifact_that_may_not_be_crossed(self):
        left_out = []
        async with teams() as corpus:
            for scope in (Scope(), Scope(cross={"kind": "nothing"})):
                options = {"max_depth": 0, "limits": Limits(count_beyond_limits=True)}
                _, walk = await walk_all(corpus, policy(scope=scope), QUERY, **options)
                left_out.append(walk.summary.left_out)
        assert left_out == [{"max_depth": 2}, {}]


class TestNames:
    async def test_the_first_hits_hold_the_names_of_the_query_together(self):
        filler = "and many other things that nobody has asked for but that stand here all the same to make it long"
        items = {f"a{at}": item(f"devi {at}", to=["c"]) for at in range(4)}
        items |= {f"b{at}": item(f"broad {filler}") for at in range(4)} | {"c": item("something")}
        async with teams(items) as corpus:
            query = "tell me of Devi and Broad"
            names = ids(await ranking_of(corpus, PathCoverage(), query))
            none = ids(await ranking_of(corpus, PathCoverage(), query.lower()))
        assert [id[0] for id in names[:2]] == ["a", "b"]
        assert [id[0] for id in none[:2]] == ["a", "a"]

    @pytest.mark.parametrize("query", ["Broad? Devi is", "Broad. Devi: Is\nBroad", "broad devi", "A B"])
    async def test_the_start_of_a_sentence_is_no_name(self, query):
        items = {"a": item("devi is", to=["c"]), "b": item("broad"), "c": item("x")}
        async with teams(items) as corpus:
            order = [ids(await ranking_of(corpus, PathCoverage(), text)) for text in (query, query.lower())]
        assert order[0] == order[1]


class TestLinks:
    @staticmethod
    def weigh_links(weight):
        class Weighted:
            id = f"weighted {weight}"

            def extract(self, artifact, fields):
                return Extraction([Link(to, "to", weight=weight) for to in artifact.raw["links"]["REF"]])

        return Weighted()

    async def test_a_weak_link_is_worth_less(self):
        scores = []
        for weight in (1.0, 0.9, 0.5):
            async with teams(links=self.weigh_links(weight)) as corpus:
                hits = await ranking_of(corpus, policy())
            scores += [hit.score for hit in hits if hit.artifact_id == "harbour"]
        assert scores[0] - scores[1] == pytest.approx(0.1)
        assert scores[0] - scores[2] == pytest.approx(0.5)

    async def test_a_link_of_no_particular_relation_counts_less(self):
        items = {**TEAMS, "kestrel": item(*TEAMS["kestrel"]["texts"], links={"related": ["harbour"]})}
        links = extractor_from(lambda _, raw: raw["links"], id="links")
        async with teams(items, links=links) as corpus:
            hits = {hit.artifact_id: hit for hit in await ranking_of(corpus, policy(seed_k=1, direction="out"))}
        assert hits["harbour"].metadata["path_loss"] == pytest.approx(0.15)

    @pytest.mark.parametrize(("count", "loss"), [(7, 0), (8, 0.07 * log(8 / 7)), (70, 0.07 * log(10))])
    async def test_each_link_of_an_artifact_with_many_neighbours_costs_more(self, count, loss):
        crowd = [f"c{number}" for number in range(count - 1)]
        items = {
            **{id: item("rain") for id in crowd},
            "harbour": TEAMS["harbour"],
            "kestrel": item(*TEAMS["kestrel"]["texts"], to=["harbour", *crowd]),
        }
        async with teams(items) as corpus:
            hits = {hit.artifact_id: hit for hit in await ranking_of(corpus, policy(seed_k=1, direction="out"))}
        assert hits["harbour"].metadata["path_loss"] == pytest.approx(loss)

    async def test_the_links_of_a_root_are_followed_though_the_search_finds_it_too(self):
        items = {f"n{at}": item(f"kestrel team train {at}") for at in range(6)}
        items |= {"root": item("a kestrel with bread and jam", to=["end"]), "end": item("a lake")}
        async with teams(items) as corpus:
            found = [await ranking_of(corpus, policy(seed_k=k, lead_k=1, roots=["root"])) for k in (0, 8)]
        assert all(["root", "end"] in paths(ranking) for ranking in found)

    async def test_an_incoming_link_counts_less(self):
        items = {
            **TEAMS,
            "kestrel": item(*TEAMS["kestrel"]["texts"]),
            "harbour": item(*TEAMS["harbour"]["texts"], to=["kestrel"]),
        }
        async with teams(items) as corpus:
            both = {hit.artifact_id: hit for hit in await ranking_of(corpus, policy(seed_k=1))}
            out = ids(await ranking_of(corpus, policy(seed_k=1, direction="out")))
        assert both["harbour"].metadata["path_loss"] == pytest.approx(0.15)
        assert "harbour" not in out

    async def test_the_work_of_a_query_is_bounded(self):
        items = {
            f"h{at:02}": item(f"kestrel team {at}", to=[f"n{other:03}" for other in range(at, 300, 7)])
            for at in range(20)
        }
        items |= {f"n{at:03}": item(f"city number {at}") for at in range(300)}

        class Sizes(Wrapper):
            texts = 0

            async def read(self, *requests):
                answers = await super().read(*requests)
                rows = zip(requests, answers, strict=True)
                self.texts += sum(len(answer) for each, answer in rows if kind_of(each) == "Records")
                return answers

        async with teams(items) as corpus:
            store = Sizes(corpus.store)
            hits, _ = await walk_all(replace(corpus, store=store), PathCoverage(), QUERY)
        assert len(hits) == 15 + 5 * 7
        # The 35 nearest are read with the links; of those that compete, which have the best paths, some may be others.
        assert store.texts <= 15 + 2 * 35

    async def test_limits_of_the_walk_hold(self):
        async with teams() as corpus:
            for limits in (Limits(max_fanout=1), Limits(max_edges=1), Limits(max_frontier=4), Limits(max_hits=2)):
                hits, walk = await walk_all(corpus, policy(direction="out"), QUERY, limits=limits)
                assert hits[0].artifact_id == "kestrel"
                assert len(ids(hits)) == len({*ids(hits)})
                assert {*ids(walk.ranking)} == {*ids(hits)}
            for budget in range(1, 6):
                hits, walk = await walk_all(corpus, policy(), QUERY, node_budget=budget)
                assert len(hits) <= budget
            best = await top_k(traverse(QUERY, corpus, policy=policy()), k=2)
        assert ids(best) == ["kestrel", "harbour"]


class TestOptions:
    async def test_scope_roots_types_and_fields(self):
        async with teams() as corpus:
            scope = Scope(keep={"links": {"$exists": True}})
            assert ids(await ranking_of(corpus, policy(scope=scope)))
            roots = await ranking_of(corpus, policy(seed_k=0, roots=["kestrel"], direction="out"))
            none = await ranking_of(corpus, policy(seed_k=1, types=["other"]))
            with pytest.raises(NoLedgerEntry):
                await ranking_of(corpus, policy(roots=["nowhere"]))
        assert paths(roots)[:2] == [["kestrel"], ["kestrel", "harbour"]]
        assert "harbour" not in ids(none)

    async def test_a_router_is_crossed_and_is_no_hit(self):
        items = {id: {**fields, "kind": "team" if id == "kestrel" else "place"} for id, fields in TEAMS.items()}
        async with teams(items) as corpus:
            kept = await ranking_of(corpus, policy(scope=Scope(keep={"kind": "place"})))
            walled = await ranking_of(corpus, policy(scope=Scope(cross={"kind": "place"}), direction="out"))
            started = await ranking_of(corpus, policy(scope=Scope(start={"kind": "place"}), direction="out"))
        assert "kestrel" not in ids(kept)
        assert ["kestrel", "harbour"] in paths(kept)
        assert "kestrel" in ids(walled)
        assert ["kestrel", "harbour"] not in paths(walled)
        assert "kestrel" not in ids(started)

    async def test_it_follows_shared_fields(self):
        items = {id: {**fields, "links": {}, "place": id in ("kestrel", "harbour")} for id, fields in TEAMS.items()}
        async with teams(items) as corpus:
            found = paths(await ranking_of(corpus, policy(edges=[("place", "place")])))
        assert ["kestrel", "harbour"] in found

    async def test_several_corpora_are_walked_as_one(self):
        async with teams() as one, corpus_of({"bergen": item("bergen is a city")}, embedder=LIGHT) as two:
            both = FederatedCorpus([one, replace(two, name="other")])
            ranking = await ranking_of(both, policy())
            alone = await ranking_of(one, policy())
        assert ids(ranking)[0] == ids(alone)[0]
        assert any(hit.metadata["path_coverage"] for hit in ranking)
        assert [("test", "kestrel"), ("test", "harbour")] in [[tuple(id) for id in path] for path in paths(ranking)]

    @pytest.mark.parametrize(
        "options", [{"seed_k": -1}, {"lead_k": 1.5}, {"coverage": -1}, {"names": "x"}, {"seeding": "x"}]
    )
    def test_unusable_parameters_are_errors(self, options):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            PathCoverage(**options)


@pytest.mark.asyncio_only
async def test_both_stores_give_the_same_walk(tmp_path):
    async with teams() as memory, teams(store=tmp_path / "teams.airw") as file:
        one, other = [await ranking_of(corpus, policy()) for corpus in (memory, file)]
    assert paths(one) == paths(other)
    np.testing.assert_allclose([hit.score for hit in one], [hit.score for hit in other], atol=1e-5)
