"""The graph of a corpus: its methods over any store, ids, and walks."""

from dataclasses import replace

import pytest

from airw import build, from_mapping, traverse
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, EmbedderUnavailable, NoLedgerEntry
from airw.links import CorpusGraph, extractor_from
from airw.policies import LinkWalk, ReverseDependency
from airw.protocols import Change
from airw.stores import MemoryStore, OwnStore, SqliteStore
from airw.values import Edge, Extraction, LinkCount, Record
from tests.support.linked_stores import Counting, change, fill, store_of

EDGES = [
    Edge("a", "b", "REF", "derived"), Edge("a", "c", "PARENT", "typed"), Edge("b", "c", "REF", "derived"),
    Edge("a", ("other", "z"), "REF", "derived"), Edge("c", "gone", "REF", "derived"),
]  # fmt: skip
LINKS = extractor_from(lambda _, fields: {"REF": fields["to"]}, id="to")


def corpus_of(name, links):
    source = from_mapping(
        dict.fromkeys(links, "some text"), name=name, embedder="light", edge_extractor=LINKS,
        metadata_of=lambda name, _: {"to": links[name]},
    )  # fmt: skip
    return build(source, store=MemoryStore())


async def read_all(graph):
    return [
        await graph.neighbors(["a", "b", "nobody"]),
        await graph.neighbors(["c"], direction="in"),
        await graph.neighbors(["a"], types=["REF"], limit=1),
        await graph.neighbors(["a"], exclude=["REF"], origins=["typed"]),
        await graph.edge_types(["a", "c", "nobody"]),
        await graph.reverse_neighbors(["c", "gone", ("other", "z"), "nobody"]),
        await graph.reverse_neighbors(["c"], types=["REF"]),
        await graph.fan_in(["c", "a"]),
        await graph.fan_in(["c"], types=["PARENT"]),
        await graph.max_fan_in(),
        await graph.max_fan_in(types=["PARENT"]),
        await graph.resolve(["a", "gone", ("other", "z")]),
        [(each.source, each.link.target_ref, each.state) for each in await graph.unresolved_links()],
        await graph.unresolved_links(["a"]),
        await graph.link_counts(),
    ]


EXPECTED = [
    [
        [EDGES[1], EDGES[0], EDGES[3]],
        [EDGES[2]],
        [],
    ],
    [[EDGES[1], EDGES[2]]],
    [[EDGES[0]]],
    [[EDGES[1]]],
    [["PARENT", "REF"], [], []],
    [["a", "b"], ["c"], ["a"], []],
    [["b"]],
    [2, 0],
    [1],
    2,
    1,
    ["a", "gone", ("other", "z")],
    [("c", "gone", "dangling")],
    [],
    [
        LinkCount("PARENT", "typed", "resolved", 1),
        LinkCount("REF", "derived", "dangling", 1),
        LinkCount("REF", "derived", "foreign", 1),
        LinkCount("REF", "derived", "resolved", 2),
    ],
]


class TestOverAnyStore:
    async def test_memory_returns_the_links_of_many_artifacts_at_once(self):
        async with store_of(EDGES, ids="abc", missing=["gone"]) as store:
            assert await read_all(CorpusGraph(store)) == EXPECTED

    @pytest.mark.asyncio_only
    async def test_a_file_returns_the_same(self, tmp_path):
        async with SqliteStore(tmp_path / "graph.airw") as store:
            await fill(store, EDGES, ids="abc", missing=["gone"])
            assert await read_all(CorpusGraph(store)) == EXPECTED

    async def test_each_method_is_one_call_for_any_number_of_artifacts(self):
        async with store_of(EDGES, ids="abc", missing=["gone"]) as store:
            counting = Counting(store)
            graph = CorpusGraph(counting)
            await graph.neighbors(["a", "b", "c"])
            await graph.edge_types(["a", "b", "c"])
            await graph.surface_order(["a", "b", "c"])
        assert counting.calls == {"Edges": 2, "RecordsOf": 1}

    async def test_a_custom_graph_is_enough_for_methods_that_need_no_more(self):
        class Ring(OwnStore):
            """A graph of numbers in a ring."""

            capabilities = frozenset({"edges", "records"})

            async def records(self, request):
                return [Record(id, id, "n", 0, id) if id.isdigit() else None for id in request.ids]

            async def edges(self, request):
                steps = {"out": [1], "in": [-1], "both": [1, -1]}[request.direction]
                ends = [[(id, str((int(id) + step) % 10)) for step in steps] for id in request.ids]
                return [
                    [Edge(here, there, "x") if there == str((int(here) + 1) % 10) else Edge(there, here, "x")
                     for here, there in each] for each in ends
                ]  # fmt: skip

        graph = CorpusGraph(Ring())
        assert (await graph.path("8", "1")).nodes == ("8", "9", "0", "1")
        assert len((await graph.path("0", "9", direction="out")).edges) == 9
        with pytest.raises(NoLedgerEntry, match="'x'"):
            await graph.path("x", "1")
        with pytest.raises(ArgumentError, match=r"ArtifactIds needs .* 'ledger'; Ring offers edges, records"):
            await graph.components()

    async def test_it_is_a_graph_itself(self):
        async with store_of(EDGES) as store:
            graph = CorpusGraph(store)
            again = CorpusGraph(CorpusGraph(graph))
            assert again.store is graph.store
            assert (again.source, again.name) == (None, "")

    @pytest.mark.parametrize("given", ["notes", None, 3])
    def test_a_value_that_is_neither_corpus_nor_store_is_refused(self, given):
        with pytest.raises(ArgumentError, match="CorpusGraph needs a corpus"):
            CorpusGraph(given)


class TestIds:
    async def test_a_pair_of_the_corpus_itself_equals_the_plain_id(self):
        async with corpus_of("notes", {"a": ["b"], "b": []}) as corpus:
            graph = CorpusGraph(corpus)
            assert (graph.source, graph.name, graph.store, graph.embedder) == (
                "notes", "notes", corpus.store, corpus.embedder,
            )  # fmt: skip
            assert await graph.resolve([("notes", "b"), ["notes", "b"], ("other", "b"), "c"]) == [
                "b", "b", ("other", "b"), "c",
            ]  # fmt: skip
            assert await graph.neighbors([("notes", "a")]) == [[Edge("a", "b", "REF", "derived")]]
            assert (await graph.path(("notes", "a"), "b")).nodes == ("a", "b")

    async def test_a_store_has_no_name_so_a_pair_belongs_to_another_corpus(self):
        async with store_of([Edge("a", ("notes", "b"), "x")], ids="ab") as store:
            graph = CorpusGraph(store)
            assert await graph.resolve([("notes", "b")]) == [("notes", "b")]
            assert await graph.reverse_neighbors([("notes", "b")]) == [["a"]]

    async def test_a_name_of_several_artifacts_means_the_one_with_that_id_or_the_first(self):
        async with MemoryStore() as store:
            names = {"My_Lib": ["my-lib"], "my.lib": ["my-lib"], "x": ["y"], "y": []}
            await store.apply(Change([
                replace(change(id), extraction=Extraction(names=[[id, *others]])) for id, others in names.items()
            ]))  # fmt: skip
            assert await CorpusGraph(store).resolve(["my-lib", "my.lib", "y"]) == ["My_Lib", "my.lib", "y"]

    async def test_those_who_link_to_an_artifact_are_found_by_any_of_its_names(self):
        async with corpus_of("notes", {"PyYAML": [], "a": ["PyYAML"], "b": ["pyyaml"], "c": ["gone"]}) as corpus:
            graph = CorpusGraph(corpus)
            names = ["PyYAML", "pyyaml", ("notes", "pyyaml"), "gone", "PYYAML"]
            assert await graph.reverse_neighbors(names) == [["a", "b"], ["a", "b"], ["a", "b"], ["c"], []]
            assert await graph.fan_in(names) == [2, 2, 2, 1, 0]

    async def test_an_ambiguous_name_stands_for_the_links_that_are_written_so(self):
        async with corpus_of("notes", {"My_Lib": [], "my.lib": [], "a": ["my-lib"], "b": ["my.lib"]}) as corpus:
            assert await CorpusGraph(corpus).reverse_neighbors(["my-lib", "my.lib"]) == [["a"], ["b"]]

    @pytest.mark.parametrize(
        "ask",
        [
            lambda graph: graph.records_of("a"),
            lambda graph: graph.neighbors("a"),
            lambda graph: graph.edge_types("a"),
            lambda graph: graph.reverse_neighbors("a"),
            lambda graph: graph.fan_in("a"),
            lambda graph: graph.resolve("a"),
            lambda graph: graph.unresolved_links("a"),
            lambda graph: graph.surface_order("a"),
            lambda graph: graph.diagnose(gold="a"),
            lambda graph: graph.diagnose(gold=["a"]),
        ],
    )
    async def test_the_error_for_a_single_string_names_a_valid_value(self, ask):
        async with store_of([]) as store:
            with pytest.raises(TypeError, match=r"must be a list of ids, not 'a'; use \['a'\]"):
                await ask(CorpusGraph(store))

    @pytest.mark.parametrize("id", [3, ("a",), ("a", "b", "c"), None])
    async def test_an_invalid_id_is_refused(self, id):
        async with store_of([]) as store:
            with pytest.raises(ArgumentError, match=r"ids must be ids or \(source, id\) pairs"):
                await CorpusGraph(store).neighbors([id])


async def test_surfaces_are_in_plan_order():
    async with MemoryStore() as store:
        await store.apply(Change([change("a", vectors=((1.0, 0.0),) * 3), change("b")]))
        ids = [Record.make_id("a", "document", place) for place in range(3)]
        assert await CorpusGraph(store).surface_order(["a", "b", "nobody"]) == [
            [Edge(ids[0], ids[1], "NEXT", "derived"), Edge(ids[1], ids[2], "NEXT", "derived")],
            [],
            [],
        ]


class TestWalking:
    async def test_a_graph_of_a_corpus_is_walked_like_the_corpus(self):
        async with corpus_of("notes", {"a": ["b"], "b": ["c"], "c": []}) as corpus:
            for policy in (LinkWalk(roots=["a"]), LinkWalk(start_k=1), ReverseDependency(seeds=["c"])):
                expected = [hit async for hit in traverse("some text", corpus, policy=policy)]
                assert expected
                assert [hit async for hit in traverse("some text", CorpusGraph(corpus), policy=policy)] == expected

    async def test_a_store_is_walked_as_long_as_nothing_is_embedded(self):
        async with store_of(EDGES, ids="abc", missing=["gone"]) as store:
            graph = CorpusGraph(store)
            walk = traverse("", graph, policy=LinkWalk(roots=["a"], direction="out"))
            assert [hit.artifact_id async for hit in walk] == ["a", "c", "b"]
            with pytest.raises(EmbedderUnavailable, match="store alone cannot embed a query; pass it an open corpus"):
                _ = [hit async for hit in traverse("text", graph, policy=LinkWalk())]

    async def test_several_corpora_are_one_graph_of_pairs(self):
        async with (
            corpus_of("notes", {"n": [["books", "b"]], "m": []}) as notes,
            corpus_of("books", {"b": ["c"], "c": []}) as books,
        ):
            several = FederatedCorpus([notes, books])
            n, b, c = ("notes", "n"), ("books", "b"), ("books", "c")
            for graph in (CorpusGraph(several), CorpusGraph(several.store)):
                assert (await graph.path(n, c)).nodes == (n, b, c)
                assert (await graph.path(c, n, direction="in", weighted=True)).nodes == (c, b, n)
                assert await graph.components() == [[n, b, c], [("notes", "m")]]
                with pytest.raises(NoLedgerEntry):
                    await graph.path(n, "c")
            assert await CorpusGraph(several).resolve(["c", ("notes", "n"), ("films", "f")]) == [c, n, ("films", "f")]
            assert await CorpusGraph(several).reverse_neighbors(["c", b, "m"]) == [[b], [n], []]
            walk = traverse("", CorpusGraph(several), policy=LinkWalk(roots=[n]))
            assert [(hit.source, hit.artifact_id) async for hit in walk] == [n, b, c]
