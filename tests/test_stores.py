"""What every store promises, asked of each of them; `MemoryStore` on asyncio and trio, `SqliteStore` on asyncio."""

import asyncio
import gc
import math
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, StoreBusy, StoreError
from airw.filters import matches, parse_filter
from airw.stores import MemoryStore, SqliteStore
from airw.values import ArtifactChange, Edge, Extraction, LedgerEntry, Link, Record

ODD_IDS = ["../../evil", "a/b", "a", ".", "..", " ", "🦊", "é", "e\u0301", "x" * 10_000, "a\nb", "'; DROP TABLE record"]


def vector_of(text, dim=4):
    """A unit vector that only depends on the text."""
    row = np.random.default_rng(list(text.encode(errors="surrogatepass"))).standard_normal(dim)
    return (row / np.linalg.norm(row)).astype(np.float32)


def put(name, *texts, kinds=("chunk",), metadata=None, vectors=None, links=(), names=(), version="1", dim=4):
    records = [
        Record(Record.make_id(name, kinds[at % len(kinds)], at), name, kinds[at % len(kinds)], at, text, metadata or {})
        for at, text in enumerate(texts)
    ]
    if vectors is None:
        vectors = [vector_of(text, dim) for text in texts]
    return ArtifactChange(
        LedgerEntry(name, version, "embedder", "strategy", "extractor", "source", [each.id for each in records]),
        records,
        np.array(vectors, np.float32).reshape(len(records), -1) if records else np.empty((0, 0), np.float32),
        Extraction(list(links), list(names)),
    )


def axes(*angles):
    """Unit vectors in the plane at these angles; their cosine to the query (1, 0) falls from 0 to 180."""
    return [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]


EAST = np.array([[1.0, 0.0]], np.float32)


async def content(store, queries=("one two", "three")):
    """Everything that can be seen of a store."""
    names = await store.artifact_ids()
    records = await store.records_of(names)
    ids = [record.id for each in records for record in each]
    points = np.array([vector_of(query) for query in queries], np.float32)
    rankings = [
        ranking
        for per_artifact in (False, True)
        for ranking in [
            *(await store.search_vectors(points, 5, per_artifact=per_artifact) if ids else []),
            *await store.search_text(queries, 5, per_artifact=per_artifact),
        ]
    ]
    return {
        "ledger": await store.ledger(),
        "records": records,
        "vectors": (await store.vectors(ids)).tolist(),
        "edges": [await store.neighbors(names, direction=direction) for direction in ("out", "in", "both")],
        "counts": await store.counts(),
        "matching": await store.matching("tag", ["x", "y"]),
        "rankings": [(list(each.record_ids), list(each.artifact_ids)) for each in rankings],
        "scores": [each.scores.tolist() for each in rankings],
    }


class Facts:
    @pytest.fixture
    async def store(self, tmp_path):
        async with self.make(tmp_path / "corpus.airw") as store:
            yield store

    async def test_a_new_store_is_empty_in_every_respect(self, store):
        assert await store.artifact_ids() == []
        assert await store.ledger() == []
        assert await store.config() == {}
        assert await store.calibration() == {}
        assert await store.calibration("k") == {}
        assert {"artifacts": 0, "records": 0, "resolved": 0, "dangling": 0, "ambiguous": 0, "foreign": 0}.items() <= (
            await store.counts()
        ).items()
        [ranking] = await store.search_vectors(EAST, 5)
        assert (len(ranking), ranking.scores.dtype) == (0, np.float64)
        assert [len(each) for each in await store.search_text(["a", "b"], 5)] == [0, 0]
        assert await store.neighbors(["a"]) == [[]]
        assert await store.matching("f", [1, 2]) == [[], []]
        assert (await store.vectors(["x"])).shape[0] == 1

    async def test_what_was_put_comes_back_aligned_with_what_was_asked_and_none_where_nothing_is(self, store):
        one, two = (
            put("b", "first", "second", kinds=("title", "chunk")),
            put("a", "third", metadata={"n": [1, {"m": None}]}),
        )
        await store.apply([one, two])
        ids = [one.records[1].id, "absent", two.records[0].id, one.records[1].id]
        assert await store.get_records(ids) == [one.records[1], None, two.records[0], one.records[1]]
        assert await store.records_of(["a", "absent", "b", "a"]) == [two.records, None, one.records, two.records]
        assert await store.records_of(["b", "absent"], kinds=["chunk"]) == [[one.records[1]], None]
        assert await store.records_of(["b"], kinds=["unknown"]) == [[]]
        assert await store.records_of(["b"], kinds=[]) == [[]]
        assert await store.artifact_ids() == ["a", "b"]
        entries = await store.ledger(["b", "absent"])
        assert entries == [replace(one.entry, record_ids=tuple(one.entry.record_ids)), None]
        assert [each.artifact_id for each in await store.ledger()] == ["a", "b"]
        vectors = await store.vectors(ids)
        assert np.array_equal(vectors[[0, 2, 3]], [one.vectors[1], two.vectors[0], one.vectors[1]])
        assert np.isnan(vectors[1]).all()
        assert vectors.dtype == np.float32

    async def test_similarities_are_cosines_in_the_order_asked_and_nan_where_nothing_is(self, store):
        await store.apply([put("a", "x", "y", vectors=axes(0, 60)), put("b", "z", vectors=axes(90))])
        ids = [each for entry in await store.ledger() for each in entry.record_ids]
        found = await store.similarities(EAST[0], [ids[1], "absent", ids[2], ids[0]])
        assert found.dtype == np.float32
        assert found.tolist() == pytest.approx([0.5, math.nan, 0.0, 1.0], abs=1e-6, nan_ok=True)

    async def test_the_best_record_of_an_artifact_is_found_and_ties_go_to_the_lower_surface(self, store):
        tied = put("a", "p", "q", "r", kinds=("title", "chunk", "chunk"), vectors=axes(80, 60, 60))
        await store.apply([tied, put("b", "x", vectors=axes(0)), put("empty")])
        ids, scores = await store.best_of(EAST[0], ["a", "absent", "empty", "b", "a"])
        best = tied.records[1].id
        assert ids == [best, None, None, Record.make_id("b", "chunk", 0), best]
        assert scores.tolist() == pytest.approx([0.5, math.nan, math.nan, 1.0, 0.5], abs=1e-6, nan_ok=True)
        ids, scores = await store.best_of(EAST[0], ["a", "b"], surfaces=["title"])
        assert ids == [tied.records[0].id, None]
        assert np.isnan(scores).tolist() == [False, True]

    async def test_a_replaced_artifact_leaves_nothing_of_what_it_was(self, store):
        old = put("a", "alpha words", "more alpha", metadata={"tag": "old"}, links=[Link("b")], names=[["nick"]])
        others = [put("b", "other"), put("c", "other", links=[Link("nick")])]
        await store.apply([old, *others])
        new = put("a", "beta words", metadata={"tag": "new"}, version="2")
        await store.apply([new])
        assert await store.get_records(old.entry.record_ids[1:]) == [None]
        assert [len(each) for each in await store.search_text(["alpha", "beta"], 5)] == [0, 1]
        assert [len(each) for each in await store.search_vectors(vector_of("more alpha")[None], 10)] == [3]
        assert np.isnan(await store.vectors(old.entry.record_ids[1:])).all()
        assert await store.matching("tag", ["old", "new"]) == [[], ["a"]]
        assert await store.neighbors(["a", "b", "c"], direction="both") == [[], [], []]
        assert (await store.ledger(["a"]))[0].version == "2"
        assert (await store.counts())["records"] == 3

    async def test_a_removed_artifact_is_gone_and_removing_what_is_not_there_is_silent(self, store):
        gone = put("a", "alpha", metadata={"tag": "t"}, links=[Link("b")])
        await store.apply([gone, put("b", "beta", links=[Link("a")])])
        await store.apply([], removals=["a", "never there", "\ud800"])
        assert await store.artifact_ids() == ["b"]
        assert await store.records_of(["a"]) == [None]
        assert await store.ledger(["a"]) == [None]
        assert [len(each) for each in await store.search_text(["alpha"], 5)] == [0]
        assert [list(each.artifact_ids) for each in await store.search_vectors(vector_of("alpha")[None], 5)] == [["b"]]
        assert await store.matching("tag", ["t"]) == [[]]
        assert await store.neighbors(["a", "b"], direction="both") == [[], []]
        assert (await store.counts())["dangling"] == 1

    async def test_an_artifact_put_and_removed_in_one_call_is_put(self, store):
        await store.apply([put("a", "old")])
        await store.apply([put("a", "new")], removals=["a"])
        assert [record.text for record in (await store.records_of(["a"]))[0]] == ["new"]

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (put("bad", "x", vectors=[[1.0, math.nan, 0.0, 0.0]]), "NaN"),
            (put("bad", "x", vectors=[[math.inf, 0.0, 0.0, 0.0]]), "NaN or infinity"),
            (put("bad", "x", dim=3), "3 wide.* 4"),
            (replace(put("bad", "x"), vectors=np.zeros((2, 4), np.float32)), r"\(1, dim\), not \(2, 4\)"),
            (put("bad", "lone \ud800 surrogate"), "surrogate"),
            (put("bad", "x", metadata={"k": "\ud800"}), "surrogate"),
            (put("\ud800", "x"), "surrogate"),
            (put("bad", "x", links=[Link("\ud800")]), "surrogate"),
            (put("bad", "x", names=[["\ud800"]]), "surrogate"),
            (put("b\0d", "x"), "NUL"),
            (put("good", "put twice"), "'good' is put"),
            (replace(put("bad", "x"), records=put("kept", "kept one").records), "'kept'.*'bad'"),
        ],
    )
    async def test_what_cannot_be_stored_is_refused_and_nothing_of_the_call_is_kept(self, store, bad, message):
        await store.apply(
            [put("kept", "kept one", metadata={"tag": "x"}), put("gone", "kept two", links=[Link("kept")])]
        )
        before = await content(store)
        with pytest.raises(StoreError, match=message) as caught:
            await store.apply([put("good", "three", links=[Link("kept")]), bad], removals=["gone"])
        assert "\n" not in str(caught.value)
        assert await content(store) == before
        await store.apply([put("good", "three")])
        assert await store.artifact_ids() == ["gone", "good", "kept"]

    async def test_the_width_may_change_only_when_no_other_vector_stays(self, store):
        await store.apply([put("a", "x"), put("b", "y"), put("empty")])
        with pytest.raises(StoreError):
            await store.apply([put("a", "x", dim=3)], removals=["empty"])
        await store.apply([put("a", "x", dim=3)], removals=["b"])
        assert (await store.vectors([Record.make_id("a", "chunk", 0)])).shape == (1, 3)

    async def test_a_query_of_another_width_is_refused_naming_both(self, store):
        await store.apply([put("a", "x")])
        for ask in (
            lambda: store.search_vectors(EAST, 5),
            lambda: store.similarities(EAST[0], ["a"]),
            lambda: store.best_of(EAST[0], ["a"]),
        ):
            with pytest.raises(EmbedderMismatch, match=r"2 wide.*4 wide"):
                await ask()

    async def test_a_query_that_is_not_finite_is_refused(self, store):
        await store.apply([put("a", "x", vectors=axes(0))])
        with pytest.raises(EmbedderError, match="NaN"):
            await store.search_vectors(np.array([[math.nan, 1.0]], np.float32), 5)

    async def test_an_artifact_with_many_good_records_does_not_crowd_out_the_others(self, store):
        crowd = put("crowd", *(f"word {at}" for at in range(200)), vectors=axes(*(at / 100 for at in range(200))))
        others = [put(f"o{at:02}", "some other word here", vectors=axes(10 + at)) for at in range(20)]
        await store.apply([crowd, *others])
        [dense] = await store.search_vectors(EAST, 10, per_artifact=True)
        assert list(dense.artifact_ids) == ["crowd", *(f"o{at:02}" for at in range(9))]
        assert dense.record_ids[0] == crowd.records[0].id
        [words] = await store.search_text(["word"], 10, per_artifact=True)
        assert list(words.artifact_ids) == ["crowd", *(f"o{at:02}" for at in range(9))]
        [rows] = await store.search_vectors(EAST, 10)
        assert set(rows.artifact_ids) == {"crowd"}

    async def test_ties_go_by_artifact_and_then_surface_also_at_the_cut(self, store):
        names = ["d", "b", "c", "a", "B", "é"]
        for name in names:
            await store.apply([put(name, "same", "same", vectors=axes(30, 30))])
        expected = [(name, at) for name in sorted(names) for at in range(2)]
        ids = [Record.make_id(name, "chunk", at) for name, at in expected]
        for k in (1, 3, 5, 12, 50):
            for [ranking] in (await store.search_vectors(EAST, k), await store.search_text(["same"], k)):
                assert list(ranking.record_ids) == ids[:k]
                assert len(set(ranking.scores.tolist())) == 1
        for [ranking] in (
            await store.search_vectors(EAST, 3, per_artifact=True),
            await store.search_text(["same"], 3, per_artifact=True),
        ):
            assert list(ranking.record_ids) == ids[:6:2]

    async def test_records_without_any_likeness_are_ranked_too(self, store):
        await store.apply([put("a", "x", vectors=axes(90)), put("b", "y", vectors=[[0.0, 0.0]])])
        [ranking] = await store.search_vectors(EAST, 5)
        assert list(ranking.artifact_ids) == ["a", "b"]
        assert ranking.scores.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)

    async def test_several_queries_are_answered_in_their_order(self, store):
        await store.apply([put("a", "alpha", vectors=axes(0)), put("b", "beta", vectors=axes(90))])
        dense = await store.search_vectors(np.array(axes(80, 10), np.float32), 1)
        assert [list(each.artifact_ids) for each in dense] == [["b"], ["a"]]
        words = await store.search_text(["beta", "?!", "alpha beta", ""], 5)
        assert [list(each.artifact_ids) for each in words] == [["b"], [], ["a", "b"], []]
        assert await store.search_text([], 5) == []
        assert [len(each) for each in await store.search_vectors(EAST, 0)] == [0]

    async def test_only_the_wanted_surfaces_are_searched(self, store):
        await store.apply([put("a", "word", "word", kinds=("title", "chunk"), vectors=axes(0, 50))])
        for surfaces, kinds in ((["chunk"], ["chunk"]), (["title", "chunk", "no"], ["title", "chunk"]), ([], [])):
            for [ranking] in (
                await store.search_vectors(EAST, 5, surfaces=surfaces),
                await store.search_text(["word"], 5, surfaces=surfaces),
            ):
                found = await store.get_records(ranking.record_ids)
                assert [each.surface_kind for each in found] == kinds

    async def test_words_are_cut_as_fts5_does_and_query_syntax_is_only_words(self, store):
        await store.apply(
            [put("a", "Café-Bücher: rotate the KEYS"), put("b", "日本語 text"), put("c", "AND or not near")]
        )
        queries = ["cafe", "keys' OR", '"rotate', "日本語", "AND", "text:rotate*", "NEAR(", "(", "\ud800", "ro"]
        found = [list(each.artifact_ids) for each in await store.search_text(queries, 5)]
        assert found == [["a"], ["a", "c"], ["a"], ["b"], ["c"], ["a", "b"], ["c"], [], [], []] or found[5] == [
            "b",
            "a",
        ]
        assert all((each.scores > 0).all() for each in await store.search_text(["the"], 5))

    async def test_bm25_statistics_are_those_of_the_whole_corpus_whatever_the_filter(self, store):
        await store.apply([put(f"a{at}", f"word number{at}", metadata={"n": at}) for at in range(6)])
        [free] = await store.search_text(["number3 word"], 10)
        [held] = await store.search_text(["number3 word"], 10, filter=parse_filter({"n": 3}))
        assert list(held.artifact_ids) == ["a3"]
        assert held.scores.tolist() == pytest.approx([free.scores[list(free.artifact_ids).index("a3")]], abs=1e-9)

    async def test_settings_and_calibrations_are_replaced_and_come_back_as_copies(self, store):
        given_config = {"embedder": {"id": "e"}, "tags": [1]}
        await store.set_config(given_config)
        given_config["tags"].append(2)
        (await store.config())["tags"].append(3)
        assert await store.config() == {"embedder": {"id": "e"}, "tags": [1]}
        await store.set_config({"other": None})
        assert await store.config() == {"other": None}
        await store.set_calibration("dense/é", {"floor": 0.25})
        await store.set_calibration("bm25", {"floor": 3})
        await store.set_calibration("bm25", {"ceiling": 9})
        assert await store.calibration() == {"dense/é": {"floor": 0.25}, "bm25": {"ceiling": 9}}
        assert await store.calibration("bm25") == {"ceiling": 9}
        assert await store.config() == {"other": None}

    @pytest.mark.parametrize("value", [math.nan, {1}, object()])
    async def test_a_setting_that_is_not_json_is_refused_and_the_old_ones_stay(self, store, value):
        await store.set_config({"a": 1})
        for write in (store.set_config({"a": value}), store.set_calibration("k", {"a": value})):
            with pytest.raises(StoreError, match="JSON"):
                await write
        assert await store.config() == {"a": 1}
        assert await store.calibration() == {}

    async def test_an_edge_follows_the_name_in_the_strongest_tier(self, store):
        await store.apply(
            [
                put("a.md", names=[["a.md"], ["Title"], ["alias", "both"]]),
                put("b.md", names=[[], ["both"], ["Title"]]),
                put("x", links=[Link("Title"), Link("alias", "t2"), Link("both", "t3"), Link("b.md", "t4")]),
            ]
        )
        assert (await store.neighbors(["x"]))[0] == [
            Edge("x", "a.md", "related"),
            Edge("x", "a.md", "t2"),
            Edge("x", "b.md", "t3"),
            Edge("x", "b.md", "t4"),
        ]

    async def test_an_id_outranks_every_weaker_name_of_another(self, store):
        await store.apply([put("a", names=[[], ["b"]]), put("b"), put("x", links=[Link("b")])])
        assert await store.neighbors(["x"]) == [[Edge("x", "b", "related")]]
        await store.apply([], removals=["b"])
        assert await store.neighbors(["x"]) == [[Edge("x", "a", "related")]]

    async def test_a_dangling_link_becomes_an_edge_when_its_target_comes_and_dangles_again_when_it_goes(self, store):
        async def state():
            counts = await store.counts()
            return counts["resolved"], counts["dangling"], [len(each) for each in await store.neighbors(["x"])]

        await store.apply([put("x", links=[Link("Later"), Link("x2")])])
        assert await state() == (0, 2, [0])
        await store.apply([put("y", names=[[], ["Later"]])])
        assert await state() == (1, 1, [1])
        assert await store.neighbors(["y"], direction="in") == [[Edge("x", "y", "related")]]
        await store.apply([put("y", names=[[], ["Renamed"]])])
        assert await state() == (0, 2, [0])
        await store.apply([put("z", names=[["Later"]])], removals=["y"])
        assert await state() == (1, 1, [1])
        await store.apply([], removals=["x"])
        assert await state() == (0, 0, [0])

    async def test_an_ambiguous_link_is_no_edge_until_it_means_one_thing_again(self, store):
        async def state():
            counts = await store.counts()
            return counts["resolved"], counts["ambiguous"]

        await store.apply([put("a", names=[[], ["T"]]), put("x", links=[Link("T")])])
        assert await state() == (1, 0)
        await store.apply([put("b", names=[[], ["T"]])])
        assert await state() == (0, 1)
        assert await store.neighbors(["x", "a", "b"], direction="both") == [[], [], []]
        await store.apply([put("c", names=[["T"]])])
        assert await store.neighbors(["x"]) == [[Edge("x", "c", "related")]]
        await store.apply([], removals=["c", "a"])
        assert await store.neighbors(["x"]) == [[Edge("x", "b", "related")]]
        assert await state() == (1, 0)

    @pytest.fixture
    async def linked(self, store):
        await store.apply(
            [
                put(
                    "a",
                    links=[Link("c", "r"), Link("b", "r"), Link("a", "r"), Link("b", "q", "typed"), Link("gone", "r")],
                ),
                put(
                    "b",
                    links=[Link("a", "r"), Link("b2", "z", "derived", "else"), Link("zz", "r", target_source="else")],
                ),
                put(
                    "c",
                    links=[Link("a", "r", "typed"), Link("a", "r", "inline", file="f", line=1), Link("a", "r", line=2)],
                ),
            ]
        )
        return store

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [("a", "b", "q", "typed"), ("a", "b", "r", "inline"), ("a", "c", "r", "inline")]),
            ({"direction": "in"}, [("b", "a", "r", "inline"), ("c", "a", "r", "inline"), ("c", "a", "r", "typed")]),
            (
                {"direction": "both"},
                [
                    ("a", "b", "q", "typed"),
                    ("a", "b", "r", "inline"),
                    ("b", "a", "r", "inline"),
                    ("a", "c", "r", "inline"),
                    ("c", "a", "r", "inline"),
                    ("c", "a", "r", "typed"),
                ],
            ),
            ({"types": ["q"]}, [("a", "b", "q", "typed")]),
            ({"types": ["q", "none"], "direction": "both"}, [("a", "b", "q", "typed")]),
            ({"types": []}, []),
            ({"exclude": ["r"]}, [("a", "b", "q", "typed")]),
            ({"exclude": ["q"], "limit": 1}, [("a", "b", "r", "inline")]),
            ({"origins": ["typed"], "direction": "both"}, [("a", "b", "q", "typed"), ("c", "a", "r", "typed")]),
            ({"origins": []}, []),
            ({"limit": 2}, [("a", "b", "q", "typed"), ("a", "b", "r", "inline")]),
            ({"limit": 0}, []),
            (
                {"limit": 3, "direction": "both"},
                [("a", "b", "q", "typed"), ("a", "b", "r", "inline"), ("b", "a", "r", "inline")],
            ),
        ],
    )
    async def test_edges_come_by_direction_type_and_origin_ordered_by_type_then_other_end(
        self, linked, options, expected
    ):
        assert await linked.neighbors(["a"], **options) == [[Edge(*each) for each in expected]]

    async def test_links_to_other_corpora_are_edges_after_those_at_home(self, linked):
        await linked.apply([put("zz", links=[])])
        assert await linked.neighbors(["b", "absent", "b"], direction="out") == [
            [
                Edge("b", "a", "r"),
                Edge("b", ("else", "zz"), "r"),
                Edge("b", ("else", "b2"), "z", "derived"),
            ],
            [],
            [Edge("b", "a", "r"), Edge("b", ("else", "zz"), "r"), Edge("b", ("else", "b2"), "z", "derived")],
        ]
        assert await linked.neighbors(["zz"], direction="both") == [[]]
        counts = await linked.counts()
        assert (counts["foreign"], counts["dangling"], counts["resolved"]) == (2, 1, 8)

    async def test_a_direction_that_does_not_exist_is_refused(self, store):
        with pytest.raises(ArgumentError, match="'up'"):
            await store.neighbors(["a"], direction="up")

    async def test_matching_finds_equal_values_and_lists_that_hold_them(self, store):
        fields = [
            {"tag": "x", "n": 1, "who": {"name": "Ada"}},
            {"tag": ["x", "y"], "n": 1.0, "who.name": "Ada"},
            {"tag": ["y", ["x"]], "n": True, "who": "Ada"},
            {"tag": None, "n": "1"},
            {"tag": [], "n": {"m": [1]}},
            {},
        ]
        await store.apply([put(name, "t", "t", metadata=each) for name, each in zip("fedcba", fields, strict=True)])
        assert await store.matching("tag", ["x", "y", ["x"], ["x", "y"], ("x", "y"), None, [], "z"]) == [
            ["e", "f"], ["d", "e"], ["d"], ["e"], ["e"], ["c"], ["b"], [],
        ]  # fmt: skip
        assert await store.matching("n", [1, True, "1", {"m": [1]}, {"m": [True]}]) == [
            ["d", "e", "f"], ["d", "e", "f"], ["c"], ["b"], ["b"],
        ]  # fmt: skip
        assert await store.matching("who.name", ["Ada"]) == [["e", "f"]]
        assert await store.matching("tag", ["y", "x"], limit=1) == [["d"], ["e"]]
        await store.apply([put("f", "t", metadata={"tag": "y"}), put("g", "t", metadata={"tag": "x"})], removals=["e"])
        assert await store.matching("tag", ["x", "y"]) == [["g"], ["d", "f"]]

    async def test_any_text_can_be_an_id(self, store):
        await store.apply(
            [put(name, f"text of {at}", links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS)]
        )
        assert await store.artifact_ids() == sorted(ODD_IDS)
        assert [each[0].text for each in await store.records_of(ODD_IDS)] == [
            f"text of {at}" for at in range(len(ODD_IDS))
        ]
        assert [each[0].target for each in await store.neighbors(ODD_IDS)] == [ODD_IDS[-1], *ODD_IDS[:-1]]
        await store.apply([], removals=ODD_IDS[:-1])
        assert await store.artifact_ids() == ODD_IDS[-1:]

    async def test_empty_texts_and_artifacts_without_records_are_kept(self, store):
        await store.apply(
            [put("a", "", vectors=axes(0)), put("b"), put("c", "\n \t", "nul \0 inside", vectors=axes(1, 2))]
        )
        assert await store.artifact_ids() == ["a", "b", "c"]
        assert [[each.text for each in group] for group in await store.records_of(["a", "b", "c"])] == [
            [""], [], ["\n \t", "nul \0 inside"],
        ]  # fmt: skip
        assert [list(each.artifact_ids) for each in await store.search_vectors(EAST, 1)] == [["a"]]
        assert (await store.ledger(["b"]))[0].record_ids == ()

    async def test_a_thousand_ids_are_one_call(self, store):
        names = [f"a{at:04}" for at in range(1_000)]
        await store.apply([put(name, f"text {name}", links=[Link(names[at - 1])]) for at, name in enumerate(names)])
        ids = [Record.make_id(name, "chunk", 0) for name in names]
        assert [each.artifact_id for each in await store.get_records(ids)] == names
        assert not np.isnan(await store.similarities(vector_of("x"), ids)).any()
        assert (await store.best_of(vector_of("x"), names))[0] == ids
        assert all(len(each) == 2 for each in await store.neighbors(names, direction="both"))
        assert len((await store.search_text(["text"], 1_000))[0]) == 1_000
        await store.apply([], removals=names)
        assert await store.artifact_ids() == []

    async def test_nothing_given_or_received_is_a_handle_on_the_store(self, store):
        metadata = {"tags": ["x"]}
        given_change = put("a", "text", metadata=metadata)
        await store.apply([given_change])
        metadata["tags"].append("y")
        given_change.vectors[:] = 9.0
        [[record]] = await store.records_of(["a"])
        record.metadata["tags"].append("z")
        (await store.vectors([record.id]))[:] = 7.0
        (await store.get_records([record.id]))[0].metadata.clear()
        (await store.artifact_ids()).clear()
        (await store.ledger()).clear()
        assert (await store.get_records([record.id]))[0].metadata == {"tags": ["x"]}
        assert await store.matching("tags", ["x", "y", "z"]) == [["a"], [], []]
        assert np.array_equal(await store.vectors([record.id]), [vector_of("text")])
        assert await store.artifact_ids() == ["a"]

    async def test_metadata_comes_back_as_json(self, store):
        await store.apply([put("a", "t", metadata={"pair": (1, 2), "nan": math.nan, "n": np.float32(0.5), 3: "key"})])
        [[record]] = await store.records_of(["a"])
        assert record.metadata == {"pair": [1, 2], "nan": None, "n": 0.5, "3": "key"}

    async def test_readers_see_all_of_a_write_or_nothing(self, store):
        async def write():
            for version in range(2, 12):
                await store.apply([put(name, f"text {version}", version=str(version)) for name in names])
            done.set()

        async def read():
            while not done.is_set():
                versions = {each.version for each in await store.ledger(names)}
                texts = {each[0].text for each in await store.records_of(names)}
                [words] = await store.search_text(["text"], 100)
                assert (len(versions), len(texts), len(words)) == (1, 1, 40)
                [dense] = await store.search_vectors(vector_of("text 5")[None], 100)
                assert len(dense) == 40
                assert len(set(dense.scores.tolist())) == 1
                await anyio.lowlevel.checkpoint()

        names, done = [f"a{at}" for at in range(40)], anyio.Event()
        await store.apply([put(name, "text 1", version="1") for name in names])
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            group.start_soon(read)
            group.start_soon(read)

    @pytest.mark.parametrize("delay", [0, 0.001, 0.003, 0.01])
    async def test_a_cancelled_write_is_done_or_was_never_begun(self, store, delay):
        await store.apply([put("a", "one"), put("old", "two", links=[Link("a")])])
        before = await content(store)
        changes = [put(f"n{at}", f"three {at}", links=[Link("a")]) for at in range(200)]
        with anyio.move_on_after(delay):
            await store.apply(changes, removals=["old"])
        after = await content(store)
        if len(after["ledger"]) == 2:
            assert after == before
        else:
            async with MemoryStore() as fresh:
                await fresh.apply([put("a", "one"), *changes])
                assert after == await content(fresh)
        await store.apply([put("b", "still usable")])

    async def test_a_second_builder_waits_for_the_first_and_gives_up_in_time(self, store):
        async def build(name):
            async with store.writing(timeout=5):
                order.append(f"{name} begins")
                await anyio.sleep(0.02)
                order.append(f"{name} ends")

        order = []
        async with store.writing():
            with pytest.raises(StoreBusy) as caught:
                async with store.writing(timeout=0.05):
                    pytest.fail("two builders at once")
            assert isinstance(caught.value, TimeoutError)
        async with store.writing(timeout=0):
            pass
        async with anyio.create_task_group() as group:
            group.start_soon(build, "one")
            group.start_soon(build, "two")
        assert [each.split()[1] for each in order] == ["begins", "ends"] * 2

    async def test_a_builder_that_fails_lets_the_next_one_in(self, store):
        with pytest.raises(ZeroDivisionError):
            async with store.writing():
                raise ZeroDivisionError
        async with store.writing(timeout=0.5):
            await store.apply([put("a", "x")])

    async def test_closing_twice_is_harmless_and_a_closed_store_says_so(self, store):
        await store.apply([put("a", "x")])
        await store.aclose()
        await store.aclose()
        for call in (store.artifact_ids(), store.apply([put("b", "x")]), store.search_text(["x"], 1)):
            with pytest.raises(StoreError, match="closed"):
                await call


class TestMemoryStore(Facts):
    def make(self, path):
        return MemoryStore()

    async def test_a_forgotten_store_closes_its_database(self):
        store = MemoryStore()
        await store.apply([put("a", "text")])
        database, closing = store._content._texts, store._close
        del store
        gc.collect()
        for _ in range(100):  # the worker thread may hold the last reference for a moment, and close in its turn
            await anyio.sleep(0.05)
            if not closing.alive:
                break
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")

    def test_one_store_serves_several_event_loops_one_after_the_other(self):
        async def write(name):
            async with store.writing():
                await store.apply([put(name, "text")])

        store = MemoryStore()
        anyio.run(write, "a")
        anyio.run(write, "b", backend="trio")
        assert anyio.run(store.artifact_ids) == ["a", "b"]
        anyio.run(store.aclose)

    @pytest.mark.asyncio_only
    async def test_a_task_cancelled_in_the_middle_of_a_write_leaves_a_whole_store(self, store):
        """As `asyncio.timeout` does it, which knows nothing of shields."""
        changes = [put(f"n{at}", f"three {at}", links=[Link("n0")]) for at in range(300)]
        writing = asyncio.ensure_future(store.apply(changes))
        await asyncio.sleep(0.005)
        writing.cancel()
        await asyncio.wait([writing])
        after = await content(store)
        async with MemoryStore() as fresh:
            await fresh.apply(changes if after["ledger"] else [])
            assert after == await content(fresh)


@pytest.mark.asyncio_only
class TestSqliteStore(Facts):
    def make(self, path):
        return SqliteStore(path)

    async def test_everything_is_there_when_the_file_is_opened_again(self, store, tmp_path):
        await store.apply([put("a", "one", metadata={"tag": "x"}, links=[Link("b")]), put("b", "two")])
        before = await content(store)
        await store.aclose()
        async with await SqliteStore.open(tmp_path / "corpus.airw") as again:
            assert await content(again) == before


WORDS = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=4).map(" ".join)
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SCALARS = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.5, 1.0, "x", "xy", ""])
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "tag": st.lists(st.sampled_from(["x", "y"]), max_size=2) | SCALARS,
        "n": SCALARS,
        "deep": st.fixed_dictionaries({}, optional={"n": SCALARS | st.lists(SCALARS, max_size=2)}),
        "deep.n": SCALARS,
    },
)
LINKS = st.builds(
    Link,
    NAMES | st.sampled_from(["T", "U"]),
    st.sampled_from(["r", "q"]),
    st.sampled_from(["typed", "inline"]),
    st.sampled_from([None, None, None, "else"]),
)
TIERS = st.lists(st.lists(st.sampled_from(["T", "U", "a", "b"]), max_size=2), max_size=3)
PUTS = st.builds(
    lambda name, texts, metadata, links, names: put(
        name, *texts, kinds=("title", "chunk"), metadata=metadata, links=links, names=names
    ),
    NAMES,
    st.lists(WORDS, max_size=3),
    METADATA,
    st.lists(LINKS, max_size=3),
    TIERS,
)
STEPS = st.tuples(
    st.lists(PUTS, max_size=3, unique_by=lambda each: each.entry.artifact_id), st.lists(NAMES, max_size=2)
)
LEAVES = st.one_of(
    st.builds(lambda path, op, value: {path: {op: value}}, st.sampled_from(["tag", "n", "deep.n"]),
              st.sampled_from(["$eq", "$ne", "$gt", "$lte", "$contains"]), SCALARS),
    st.builds(lambda path, op, value: {path: {op: value}}, st.sampled_from(["tag", "n", "deep.n"]),
              st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=2)),
    st.builds(lambda path, flag: {path: {"$exists": flag}}, st.sampled_from(["tag", "deep", "deep.n"]), st.booleans()),
)  # fmt: skip
FILTERS = (
    LEAVES
    | st.builds(lambda parts: {"$or": parts}, st.lists(LEAVES, max_size=2))
    | LEAVES.map(lambda part: {"$not": part})
)


async def with_both(use):
    """Call `use(store)` with a fresh store of each kind and give what it returns."""
    results = []
    async with MemoryStore() as store:
        results.append(await use(store))
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore(Path(folder) / "corpus.airw") as store:
            results.append(await use(store))
    return results


@settings(max_examples=40)
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_any_sequence_of_writes_ends_where_one_fresh_write_of_the_final_content_does(steps):
    final = {}
    for puts, removals in steps:
        for name in removals:
            final.pop(name, None)
        final |= {each.entry.artifact_id: each for each in puts}

    async def step_by_step(store):
        for puts, removals in steps:
            await content(store)  # what is asked on the way must not matter
            await store.apply(puts, removals=removals)
        return await content(store)

    async def at_once(store):
        await store.apply(sorted(final.values(), key=lambda each: each.entry.artifact_id, reverse=True))
        return await content(store)

    async def main():
        memory, sqlite = await with_both(step_by_step)
        assert memory == sqlite
        assert await with_both(at_once) == [memory, memory]

    anyio.run(main)


@settings(max_examples=40)
@given(
    st.lists(PUTS, max_size=5, unique_by=lambda each: each.entry.artifact_id),
    st.lists(FILTERS, min_size=1, max_size=4),
    st.sampled_from([None, ["title"], ["chunk", "title"]]),
    st.integers(1, 12),
    st.booleans(),
)
def test_filters_keep_what_they_match_and_all_stores_rank_alike(puts, conditions, surfaces, k, per_artifact):
    """Scores bit for bit, order, ties and the collapse to artifacts included."""
    records = {record.id: record for each in puts for record in each.records}

    async def search(store):
        await store.apply(puts)
        found = []
        for condition in conditions:
            parsed = parse_filter(condition)
            options = {"filter": parsed, "surfaces": surfaces, "per_artifact": per_artifact}
            for rankings in (
                await store.search_vectors(np.array([vector_of("one"), vector_of("q")], np.float32), k, **options),
                await store.search_text(["one two", "three"], k, **options),
            ):
                for ranking in rankings:
                    assert all(matches(parsed, records[each].metadata) for each in ranking.record_ids)
                    found.append((list(ranking.record_ids), ranking.scores.tolist()))
            kept = {
                each.id
                for each in records.values()
                if matches(parsed, each.metadata) and (surfaces is None or each.surface_kind in surfaces)
            }
            [everything] = await store.search_vectors(vector_of("one")[None], 100, filter=parsed, surfaces=surfaces)
            assert set(everything.record_ids) == kept
            [words] = await store.search_text(["one"], 100, filter=parsed, surfaces=surfaces)
            assert set(words.record_ids) == {each for each in kept if "one" in records[each].text.split()}
        return found

    async def main():
        memory, sqlite = await with_both(search)
        assert memory == sqlite

    anyio.run(main)
