"""The diagnosis of a graph: its numbers equal plain counting, and its verdicts are right.

The verdicts are tested on graphs whose use is known.
"""

import json
import tarfile
from itertools import combinations
from random import Random

import networkx as nx
import numpy as np
import pytest

from airw import build, from_mapping, from_notes
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, NoLedgerEntry
from airw.evaluation import load_data_set
from airw.links import CorpusGraph, DependencyLinks, TitleMentions, extractor_from
from airw.protocols import VectorsOf
from airw.stores import MemoryStore, SqliteStore
from airw.values import Artifact, Edge, LinkCount
from tests.support.archives import unpack
from tests.support.linked_stores import Counting, fill, store_of

ENCYCLOPAEDIC = ["2wiki-101", "hotpotqa-100", "musique-100"]
OTHERS = ["cacm", "skills"]  # of all that we have, these name others most
TOPICS = 20
IDS = [f"n{number:03}" for number in range(200)]


def topic(id):
    return int(id[1:]) % TOPICS


def vector(id, random):
    """Return a unit vector near the direction of the topic of an id."""
    row = np.array([random.gauss(0, 0.15) for _ in range(TOPICS)])
    row[topic(id)] += 1
    return (tuple(row / np.linalg.norm(row)),)


def draw_edges(random, count, *, related):
    groups = [[id for id in IDS if topic(id) == each] for each in range(TOPICS)] if related else [IDS]
    return [Edge(*random.sample(random.choice(groups), 2), "x") for _ in range(count)]


async def diagnose(edges, *, gold=None, seed=0, **options):
    async with store_of(edges, **options) as store:
        return await CorpusGraph(store).diagnose(gold=gold, seed=seed)


def names(diagnosis):
    return {finding.name: finding.is_good for finding in diagnosis.findings}


class TestNumbers:
    async def test_the_numbers_are_those_of_plain_counting(self):
        random = Random(2)
        edges = [Edge(*random.sample(IDS, 2), random.choice("xy")) for _ in range(150)]
        found = await diagnose(edges, ids=IDS)
        graph = nx.DiGraph([(edge.source, edge.target) for edge in edges])
        graph.add_nodes_from(IDS)
        plain = graph.to_undirected()
        assert (found.artifacts, found.edges) == (200, graph.number_of_edges())
        assert sum(count.count for count in found.links) == 150
        assert found.isolated == nx.number_of_isolates(graph) / 200
        assert found.largest_component == max(map(len, nx.weakly_connected_components(graph))) / 200
        expected = sorted(graph.in_degree(), key=lambda pair: (-pair[1], pair[0]))
        assert found.hubs == tuple(expected[:5])
        assert found.hub_share == sum(degree for _, degree in expected[:2]) / found.edges
        near = [len(nx.single_source_shortest_path_length(plain, id, cutoff=2)) - 1 for id in IDS]
        assert found.reach == pytest.approx(sum(near) / (200 * 199))

    async def test_shares_of_links_that_lead_nowhere(self):
        edges = [Edge("a", "b", "x"), Edge("a", "gone", "x"), Edge("b", "gone", "y"), Edge("b", ("o", "a"), "x")]
        found = await diagnose(edges, ids="ab", missing=["gone"])
        assert (found.dangling, found.ambiguous, found.edges) == (0.5, 0.0, 1)
        assert found.links[0] == LinkCount("x", "inline", "dangling", 1)

    async def test_the_references_that_most_links_have_in_vain_are_listed_with_their_state(self):
        gone = [f"gone{number:02}" for number in range(12)]
        edges = [Edge("a", each, type) for number, each in enumerate(gone) for type in "xy"[: 1 + number % 2]]
        found = await diagnose(edges, ids="a", missing=gone)
        twice, once = [(each, 2, "dangling") for each in gone[1::2]], [(each, 1, "dangling") for each in gone[::2]]
        assert found.missing == (*twice, *once[:4])
        assert found.to_dict()["missing"][0] == {"ref": "gone01", "links": 2, "state": "dangling"}
        assert "missing: 'gone01' (2, dangling)" in str(found)

    async def test_gold_pairs_are_counted_within_one_and_two_hops_in_any_direction(self):
        edges = [Edge("b", "a", "x"), Edge("b", "c", "x"), Edge("d", "e", "x")]
        found = await diagnose(edges, ids="abcdef", gold=[{"a", "b", "c"}, ["e", "d"], ["a", "f"], ["a"]])
        assert (found.gold_pairs, found.gold_linked, found.gold_near) == (5, 0.6, 0.8)
        empty = await diagnose(edges, ids="abcdef", gold=[["a"]])
        assert (empty.gold_pairs, empty.gold_linked, empty.gold_near) == (0, None, None)
        with pytest.raises(NoLedgerEntry, match="gold: the graph has no artifact 'nowhere'"):
            await diagnose(edges, gold=[["a", "nowhere"]])

    async def test_graphs_without_edges_cause_no_division_by_zero(self):
        found = await diagnose([], ids="")
        assert (found.artifacts, found.isolated, found.largest_component, found.reach) == (0, 0, 0, 0)
        assert (found.outlook, names(found)) == ("bad", {"edges": False})
        alone = await diagnose([], ids="a")
        assert (alone.isolated, alone.reach, alone.outlook) == (1, 0, "bad")


class TestVerdicts:
    async def test_links_within_topics_look_good_and_links_at_random_do_not(self):
        random = Random(4)
        vectors = {id: vector(id, random) for id in IDS}
        good = await diagnose(draw_edges(random, 300, related=True), ids=IDS, vectors=vectors)
        assert (good.outlook, names(good)) == ("good", {"alike": True})
        assert good.linked_cosine > good.random_cosine + 0.2
        bad = await diagnose(draw_edges(random, 300, related=False), ids=IDS, vectors=vectors)
        assert bad.outlook == "doubtful"
        assert names(bad) == {"alike": False}
        assert abs(bad.gain) < 0.2

    async def test_links_of_a_third_of_the_artifacts_are_doubtful_however_good_they_are(self):
        random = Random(4)
        vectors = {id: vector(id, random) for id in IDS}
        few = [id for id in IDS if topic(id) < 7]
        linked = [(one, other) for one, other in combinations(few, 2) if topic(one) == topic(other)]
        found = await diagnose([Edge(*pair, "x") for pair in linked], ids=IDS, vectors=vectors)
        assert (found.isolated, found.outlook, names(found)) == (0.65, "doubtful", {"isolated": False, "alike": True})
        assert str(found).splitlines()[1].startswith("- 65% of the artifacts have no link")

    async def test_the_most_similar_records_count(self):
        apart, same = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
        ids = [f"n{number:02}" for number in range(80)]
        vectors = {id: (apart if number % 2 else (0.0, 0.0, 1.0), same) for number, id in enumerate(ids)}
        edges = [Edge(one, other, "x") for one, other in zip(ids[::2], ids[1::2], strict=True)]
        found = await diagnose(edges, ids=ids, vectors=vectors)
        assert (found.linked_cosine, found.random_cosine, found.gain) == (1.0, 1.0, 0.0)

    async def test_without_vectors_no_similarity_is_reported(self):
        random = Random(4)
        vectors = dict.fromkeys(IDS, ((0.0, 0.0),))
        found = await diagnose(draw_edges(random, 400, related=False), ids=IDS, vectors=vectors)
        assert (found.pairs, found.linked_cosine, found.random_cosine, found.gain) == (0, None, None, None)
        assert found.outlook == "doubtful"
        few = await diagnose([Edge("a", "b", "x")])
        assert (few.pairs, few.gain) == (1, None)

    async def test_gold_that_is_linked_looks_good_with_any_cosines(self):
        random = Random(6)
        edges = draw_edges(random, 100, related=False)
        gold = [(edge.source, edge.target) for edge in edges[:50]]
        assert (await diagnose(edges, ids=IDS, gold=gold)).outlook == "good"
        apart = [random.sample(IDS, 2) for _ in range(50)]
        found = await diagnose(edges, ids=IDS, gold=apart)
        assert (found.outlook, names(found)["gold"]) == ("bad", False)

    async def test_each_fault_is_found_with_its_number(self):
        star = [Edge(id, "n000", "x") for id in IDS[1:]]
        found = await diagnose(star, ids=IDS)
        assert names(found) == {"reach": False, "hubs": False}
        assert "100% of the edges lead to the top 1 % of the artifacts (n000)" in str(found)
        few = await diagnose([Edge("n001", "n002", "x")], ids=IDS)
        assert names(few) == {"isolated": False, "reach": False}

    @pytest.mark.parametrize(("leaves", "is_reported"), [(64, False), (65, True)])
    async def test_the_reach_within_two_hops_is_a_fault_only_if_a_walk_cannot_visit_all(self, leaves, is_reported):
        ids = IDS[: leaves + 1]
        found = await diagnose([Edge(each, ids[0], "x") for each in ids[1:]], ids=ids)
        assert found.reach == 1
        assert ("reach" in names(found)) == is_reported
        dangling = [Edge("n001", f"gone{number}", "x") for number in range(9)]
        found = await diagnose([*dangling, Edge("n001", "n002", "x")], ids=IDS, missing=[e.target for e in dangling])
        assert "90% of the links are dangling" in str(found)
        nowhere = await diagnose(dangling, ids=IDS, missing=[e.target for e in dangling])
        assert (nowhere.outlook, nowhere.findings[0].value) == ("bad", 0)
        assert "compare the missing references" in str(nowhere)
        assert "give the source an edge extractor" in str(await diagnose([], ids="ab"))


class TestOutput:
    async def test_it_is_json_and_text(self):
        random = Random(4)
        vectors = {id: vector(id, random) for id in IDS}
        found = await diagnose(draw_edges(random, 300, related=True), ids=IDS, vectors=vectors, gold=[IDS[:3]])
        as_json = json.loads(json.dumps(found.to_dict()))
        assert as_json["outlook"] == found.outlook
        assert as_json["hubs"][0] == {"id": found.hubs[0][0], "edges": found.hubs[0][1]}
        assert [each["name"] for each in as_json["findings"]] == [each.name for each in found.findings]
        assert str(found).startswith(f"outlook: {found.outlook}\n")
        assert f"edges: {found.edges}" in str(found)

    @pytest.mark.slow
    async def test_the_sample_depends_on_the_seed(self):
        random = Random(4)
        vectors = {id: vector(id, random) for id in IDS}
        edges = draw_edges(random, 1_500, related=True)
        async with store_of(edges, ids=IDS, vectors=vectors) as store:
            graph = CorpusGraph(store)
            assert await graph.diagnose() == await graph.diagnose()
            assert (await graph.diagnose()).linked_cosine != (await graph.diagnose(seed=1)).linked_cosine
            with pytest.raises(ArgumentError, match="seed must be a whole number"):
                await graph.diagnose(seed=-1)

    async def test_vectors_are_read_in_pages_of_pairs(self):
        class Watching(Counting):
            most = 0

            async def read(self, *requests):
                sizes = [len(each.artifact_ids) for each in requests if isinstance(each, VectorsOf)]
                self.most = max([self.most, *sizes])
                return await super().read(*requests)

        random = Random(4)
        async with store_of(draw_edges(random, 3_000, related=False), ids=IDS) as store:
            watching = Watching(store)
            await CorpusGraph(watching).diagnose()
        assert 50 < watching.most <= 100

    @pytest.mark.asyncio_only
    async def test_a_file_has_the_diagnosis_of_memory(self, tmp_path):
        random = Random(4)
        vectors = {id: vector(id, random) for id in IDS}
        edges = draw_edges(random, 100, related=True)
        async with SqliteStore(tmp_path / "graph.airw") as store:
            await fill(store, edges, ids=IDS, vectors=vectors)
            found = await CorpusGraph(store).diagnose(gold=[IDS[:5]])
        expected = await diagnose(edges, ids=IDS, vectors=vectors, gold=[IDS[:5]])
        assert found.linked_cosine == pytest.approx(expected.linked_cosine)
        assert [each.text for each in found.findings] == [each.text for each in expected.findings]

    async def test_several_corpora_are_one_graph(self):
        links = extractor_from(lambda _, fields: {"x": fields["to"]}, id="to")

        def source(name, to, embedder):
            return from_mapping(
                dict.fromkeys(to, "text"), name=name, embedder=embedder, edge_extractor=links,
                metadata_of=lambda name, _: {"to": to[name]},
            )  # fmt: skip

        one = await build(source("one", {"a": [["two", "b"]]}, "light"), store=MemoryStore())
        two = await build(source("two", {"b": [], "c": []}, "light"), store=MemoryStore())
        async with one, two:
            found = await CorpusGraph(FederatedCorpus([one, two])).diagnose(gold=[[("one", "a"), ("two", "b")]])
        assert (found.artifacts, found.edges, found.gold_linked) == (3, 1, 1.0)
        assert found.hubs == ((("two", "b"), 1),)


class TestRealCorpora:
    @pytest.mark.slow
    @pytest.mark.asyncio_only
    async def test_a_vault_looks_good(self, data, tmp_path):
        with tarfile.open(data / "md-notes" / "md-notes.tar.gz") as archive:
            unpack(archive, tmp_path)
        source = from_notes(tmp_path / "md-notes", embedder="light")
        async with build(source, store=MemoryStore(), on_error="skip") as corpus:
            found = await CorpusGraph(corpus).diagnose()
        assert found.outlook == "good"
        assert found.hubs[0][0] == "permanent/vector.md"
        assert found.gain > 0.5
        assert found.dangling < 0.25

    @pytest.mark.slow
    @pytest.mark.asyncio_only
    async def test_title_mentions_link_multi_hop_gold(self, data):
        def lines(name):
            text = (data / "hotpotqa-100" / name).read_text("utf-8")
            return [json.loads(line) for line in text.splitlines()]

        items = {each["id"]: each for each in lines("corpus.jsonl")}
        titles = {each["title"]: id for id, each in items.items() if len(each["title"]) > 3}
        mentions = {
            id: [other for title, other in titles.items() if other != id and title in each["text"]]
            for id, each in items.items()
        }
        links = extractor_from(lambda _, fields: {"mentions": fields["to"]}, id="to")
        source = from_mapping(
            {id: each["text"] for id, each in items.items()}, name="hotpot", embedder="light", edge_extractor=links,
            metadata_of=lambda name, _: {"to": mentions[name]},
        )  # fmt: skip
        gold = [each["gold"] for each in lines("queries.jsonl")]
        async with build(source, store=MemoryStore()) as corpus:
            found = await CorpusGraph(corpus).diagnose(gold=gold)
        assert (found.outlook, found.findings[0].name) == ("good", "gold")
        assert found.gold_near > 50 * found.reach


class TestNames:
    """Whether texts name other artifacts, so that shared names are bridges."""

    @staticmethod
    def draw(targets):
        mentions = [Edge(IDS[-1 - number], IDS[number], "mentions", "derived") for number in range(targets)]
        return [*mentions, *(Edge(IDS[50], id, "mentions") for id in IDS[60:90])]  # inline, so no mention of a title

    async def test_the_share_of_artifacts_that_others_mention_is_counted(self):
        found = await diagnose(self.draw(30), ids=IDS)
        assert found.named == 30 / len(IDS)
        assert names(found)["named"] is True
        assert "mentioned by title: 15.0% of the artifacts" in str(found)

    async def test_links_by_shared_names_are_doubted_where_texts_name_few_others(self):
        edges = self.draw(10)
        assert "named" not in names(await diagnose(edges, ids=IDS))
        found = await diagnose([*edges, Edge("n001", "n002", "shares", "derived")], ids=IDS)
        assert (found.named, names(found)["named"]) == (0.05, False)

    async def test_without_mentions_nothing_is_known(self):
        found = await diagnose([Edge("n001", "n002", "shares", "derived")], ids=IDS)
        assert found.named is None
        assert "named" not in names(found)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", [*ENCYCLOPAEDIC, *OTHERS])
    def test_the_texts_of_an_encyclopaedia_name_others(self, data, name):
        """Run it with `-s` to see the shares."""
        documents = [
            Artifact(
                id, {"text": "\n".join([row.get("title") or "", row["text"]]).strip()}, {"title": row.get("title")}
            )
            for id, row in load_data_set(name).documents.items()
        ]
        named = share_named(documents)
        print(f"{name}: {named:.1%}")
        assert (named >= 0.125) == (name in ENCYCLOPAEDIC)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["md-eips"])  # it names others least
    def test_notes_name_others_too(self, data, tmp_path, name):
        with tarfile.open(data / name / f"{name}.tar.gz") as archive:
            unpack(archive, tmp_path)
        paths = sorted(tmp_path.rglob("*.md"))
        named = share_named([Artifact(str(path), path.read_text("utf-8", errors="replace")) for path in paths])
        print(f"{name}: {named:.1%}")
        assert named >= 0.125


def share_named(artifacts):
    """Return the share of artifacts that others mention by title."""
    finder = TitleMentions(inner=DependencyLinks()).over(artifacts)
    return len({link.target_ref for each in artifacts for link in finder.extract(each, {}).links}) / len(artifacts)
