"""Walks along shared values instead of links: pairs of fields, or a custom function."""

import datetime
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import open_corpus, traverse
from airw.errors import ArgumentError, PolicyError
from airw.policies import Eager, Mmr, Scope, Scored
from airw.protocols import Matching
from airw.testing import ScriptedStore
from airw.values import Edge, Limits
from airw.walking import EdgeFound
from tests.support.artifact_corpora import EIGHTHS, corpus_of, find_ids, graph_of, ids, item, walk_all
from tests.support.asked import Asked
from tests.support.drawing import examples


def from_root(edges, **options):
    return Eager(**{"start_k": 0, "roots": ["a"], "select_k": None, "adjacent_k": None, "edges": edges, **options})


def at_equal_distance(**fields):
    """Return artifacts that are equally near to the query.

    The order of a walk is then that of discovery.
    """
    return {name: item("0", **each) for name, each in fields.items()}


async def leads_to(edges, items, **options):
    """Return what a walk from `a` finds in one step."""
    return (await find_ids(items, from_root(edges, **options), max_depth=1))[1:]


class TestPairs:
    @pytest.mark.parametrize(
        ("here", "there"), [("x", "x"), ("x", ["y", "x"]), (["w", "x"], "x"), (["w", "x"], ["x", "y"])]
    )
    async def test_a_scalar_or_a_list_leads_to_equal_values_and_lists_that_contain_one(self, here, there):
        items = at_equal_distance(a={"tag": here}, b={"tag": there}, c={"tag": "z"}, d={"tag": ["z"]}, e={})
        assert await leads_to([("tag", "tag")], items) == ["b"]

    async def test_one_field_leads_to_another(self):
        items = at_equal_distance(
            a={"needs": ["x"], "gives": "y"}, b={"gives": "x"}, c={"needs": "x"}, d={"needs": "y"}
        )
        assert await leads_to([("needs", "gives")], items) == ["b"]
        assert await leads_to([("gives", "needs")], items) == ["d"]

    async def test_parts_of_a_value_are_no_edges(self):
        items = at_equal_distance(a={"tag": "abc"}, b={"tag": "a"}, c={"tag": ["b", "c"]}, d={"tag": "abcd"})
        assert await leads_to([("tag", "tag")], items) == []

    async def test_fields_may_be_dotted_and_a_literal_key_comes_first(self):
        items = at_equal_distance(
            a={"by": {"name": "x"}},
            b={"by": {"name": ["x"]}},
            c={"by.name": "x", "by": {"name": "z"}},
            d={"by.name": "z", "by": {"name": "x"}},
            e={"by": "x"},
        )
        assert await leads_to([("by.name", "by.name")], items) == ["b", "c"]

    @pytest.mark.parametrize("one", [1, 1.0, True])
    async def test_numbers_are_compared_as_in_filters(self, one):
        items = at_equal_distance(
            a={"n": one}, b={"n": 1}, c={"n": 1.0}, d={"n": True}, e={"n": [2, 1]}, f={"n": "1"}, g={"n": 0}, h={"n": 2}
        )
        assert await leads_to([("n", "n")], items) == ["b", "c", "d", "e"]

    async def test_missing_and_null_values_are_no_edge(self):
        items = at_equal_distance(a={"x": None, "y": [None]}, b={"x": None}, c={"y": [None]}, d={}, e={"x": [None]})
        assert await leads_to([("x", "x"), ("y", "y"), ("z", "z")], items) == []

    async def test_false_zero_and_the_empty_text_are_values(self):
        items = at_equal_distance(a={"x": 0, "y": ""}, b={"x": False}, c={"y": ""}, d={"x": None})
        assert await leads_to([("x", "x"), ("y", "y")], items) == ["b", "c"]

    async def test_mappings_and_lists_in_lists_are_compared_whole(self):
        items = at_equal_distance(
            a={"x": {"k": [1]}, "y": [[1, 2]]},
            b={"x": {"k": [1.0]}},
            c={"x": {"k": [1], "l": 2}},
            d={"x": [{"k": [1]}]},
            e={"y": [[2, 1], [1, 2]]},
            f={"y": [1, 2]},
            g={"y": 1},
        )
        assert await leads_to([("x", "x"), ("y", "y")], items) == ["b", "d", "e", "f"]

    async def test_the_id_may_be_the_right_field(self):
        items = at_equal_distance(a={"mentions": ["c", "b"]}, b={}, c={}, d={})
        assert await leads_to([("mentions", "$id")], items) == ["c", "b"]

    async def test_the_id_may_be_the_left_field(self):
        items = at_equal_distance(a={}, b={"mentions": ["z", "a"]}, c={"mentions": "a"}, d={"mentions": "b"})
        assert await leads_to([("$id", "mentions")], items) == ["b", "c"]

    async def test_numbers_that_are_ids_are_read_as_text(self):
        items = {**at_equal_distance(a={"next": [7, 8.5]}), "7": item("0"), "8.5": item("0")}
        assert await leads_to([("next", "$id")], items) == ["7", "8.5"]

    async def test_unknown_ids_are_neither_hits_nor_committed(self):
        items = at_equal_distance(a={"mentions": ["nowhere", "b", "A"]}, b={"mentions": "gone"})
        for make in (Eager, Scored, Mmr):
            policy = make(start_k=0, roots=["a"], select_k=None, edges=[("mentions", "$id")])
            async with corpus_of(items) as corpus:
                hits, walk = await walk_all(corpus, policy)
            assert ids(hits) == ["a", "b"]
            assert (walk.summary.committed, walk.summary.stop) == (2, "exhausted")

    async def test_unknown_ids_do_not_count_in_adjacent_k(self):
        items = at_equal_distance(a={"mentions": ["nowhere", "b", "gone", "c"]}, b={}, c={})
        assert await leads_to([("mentions", "$id")], items, adjacent_k=2) == ["b", "c"]

    async def test_artifacts_without_surfaces_are_skipped(self):
        items = {"a": item("0", tag="x"), "b": item(tag="x", next="c"), "c": item("0", next="d")}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, from_root([("tag", "tag"), ("next", "$id")], roots=["b", "a"]))
        assert (ids(hits), walk.summary.committed) == (["a"], 1)

    @pytest.mark.parametrize("edges", [[("tag", "tag")], [("tag", "$id"), ("$id", "tag")], lambda _: [("tag", "a")]])
    async def test_an_artifact_does_not_lead_to_itself(self, edges):
        async with corpus_of(at_equal_distance(a={"tag": ["a"]}, b={})) as corpus:
            hits, walk = await walk_all(corpus, from_root(edges))
        assert (ids(hits), walk.summary.stop, walk.summary.left_out) == (["a"], "exhausted", {})

    async def test_neighbours_come_by_pair_then_by_value_then_by_id(self):
        items = at_equal_distance(
            a={"x": [2, 1], "y": "t"}, b={"y": "t"}, c={"x": 1}, d={"x": 2}, e={"x": [1, 2]}, f={"x": 2}
        )
        assert await leads_to([("x", "x"), ("y", "y")], items) == ["d", "e", "f", "c", "b"]
        assert await leads_to([("y", "y"), ("x", "x")], items) == ["b", "d", "e", "f", "c"]

    async def test_without_pairs_there_are_no_edges(self):
        items = {"a": item("0", to=["b"]), "b": item("0")}
        assert await leads_to([], items) == []

    async def test_links_are_not_followed(self):
        items = {"a": item("0", to=["b"], tag="x"), "b": item("0"), "c": item("0", tag="x")}
        assert await leads_to([("tag", "tag")], items) == ["c"]


class TestFunctions:
    ITEMS = staticmethod(lambda: at_equal_distance(a={"n": 1}, b={"n": 2}, c={"n": [2, 3]}, d={"m": "2"}, e={"n": 3}))

    async def test_it_may_return_any_fields_and_values(self):
        seen = []

        def next_number(record):
            seen.append((record.artifact_id, record.text, record.metadata["n"]))
            return [("n", record.metadata["n"] + 1)] if record.artifact_id == "a" else ()

        assert await find_ids(self.ITEMS(), from_root(next_number)) == ["a", "b", "c"]
        assert seen == [("a", "0", 1), ("b", "0", 2), ("c", "0", [2, 3])]

    async def test_it_may_return_ids(self):
        assert await leads_to(lambda record: [("$id", "e"), ("$id", "nowhere"), ("$id", "b")], self.ITEMS()) == [
            "e",
            "b",
        ]

    async def test_it_may_be_a_generator_and_yield_lists_for_pairs(self):
        def edges(record):
            yield ["n", 3]
            yield ("m", "2")

        assert await leads_to(edges, self.ITEMS()) == ["c", "e", "d"]

    async def test_values_are_read_as_json(self):
        day = datetime.date(2026, 11, 21)
        items = at_equal_distance(
            a={}, b={"day": "2026-11-21"}, c={"pair": [1, 2]}, d={"pair": 1}, e={"set": ["x", "y"]}
        )
        ways = [("day", day), ("pair", np.array([1, 2])), ("set", {"y", "x"}), ("pair", (1, 2))]
        assert await leads_to(lambda _: ways, items) == ["b", "c", "e"]

    @pytest.mark.parametrize("value", [None, float("nan")])
    async def test_null_is_no_edge(self, value):
        assert await leads_to(lambda _: [("x", value)], at_equal_distance(a={"x": None}, b={"x": None})) == []

    @pytest.mark.parametrize("answer", [None, 3, "x", [("n",)], [("n", 1, 2)], [(1, "n")], ["nn"], {"ab": 1}, [None]])
    async def test_any_other_answer_is_an_error_of_one_line_that_names_the_artifact(self, answer):
        async with corpus_of(self.ITEMS()) as corpus:
            with pytest.raises(PolicyError) as raised:
                await walk_all(corpus, from_root(lambda _: answer))
        assert re.fullmatch(r"edges returned .* for 'a'; return \(field, value\) pairs", str(raised.value))

    async def test_its_errors_end_the_walk_unchanged(self):
        error = KeyError("n")

        def edges(record):
            raise error

        async with corpus_of(self.ITEMS()) as corpus:
            with pytest.raises(KeyError) as raised:
                await walk_all(corpus, from_root(edges))
        assert raised.value is error
        assert "raised in Eager.expand during a walk" in error.__notes__


class TestCost:
    @pytest.mark.parametrize("count", [1, 300])
    @pytest.mark.parametrize("make", [Eager, Scored, Mmr])
    async def test_a_step_costs_one_lookup_for_any_number_of_values_and_fields(self, make, count):
        tags = [f"t{at:03}" for at in range(count)]
        items = {"a": item("0", tags=tags, also=tags, more=tags), "z": item("0.1", tags="t000", also=7, more=8)}
        items |= {f"b{tag}": item("0.2", tags=tag, also=tag, more=9) for tag in tags}
        edges = [("tags", "also"), ("also", "tags"), ("more", "more"), ("tags", "$id")]
        async with corpus_of(items) as corpus:
            store = ScriptedStore(corpus.store)
            policy = make(start_k=0, roots=["a"], edges=edges, select_k=None, adjacent_k=None)
            _, walk = await walk_all(replace(corpus, store=store), policy, max_depth=1, node_budget=999)
        assert walk.summary.committed == count + 2
        asked = [each for each in store.log if isinstance(each, Matching)]
        assert len(asked) == 1
        assert len(asked[0].wanted) == 3 * count
        # The start, the values, and what they lead to; further records are read with the hits.
        assert store.reads <= 2 + walk.summary.steps

    async def test_ids_are_looked_up_without_a_call(self):
        async with corpus_of(at_equal_distance(a={"next": ["b", "c"]}, b={"next": "c"}, c={})) as corpus:
            store = Asked(corpus.store)
            await walk_all(replace(corpus, store=store), from_root([("next", "$id")]))
        assert store.calls == ["scores", "Records"] * 2

    async def test_artifacts_without_edges_cost_no_call(self):
        async with corpus_of(at_equal_distance(a={}, b={"x": 1})) as corpus:
            store = Asked(corpus.store)
            await walk_all(replace(corpus, store=store), from_root([("x", "x")]))
        assert store.calls == ["scores", "Records"]

    @pytest.mark.parametrize("make", [Eager, Scored, Mmr])
    async def test_a_value_is_looked_up_once_per_walk(self, make):
        graph = graph_of(3)
        edges = [("tags", "tags"), ("rank", "rank"), ("rank", "group")]
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            store = ScriptedStore(corpus.store)
            policy = make(edges=edges, select_k=None, adjacent_k=None)
            hits, _ = await walk_all(replace(corpus, store=store), policy, graph.query)
        asked = [way for each in store.log if isinstance(each, Matching) for way in each.wanted]
        assert len(asked) == len(set(asked)) > 5
        assert len(hits) == 8

    async def test_equal_numbers_are_one_value(self):
        items = at_equal_distance(a={"n": [1, 1.0, True], "m": 1}, b={"n": [1.0]}, c={"n": True})
        async with corpus_of(items) as corpus:
            store = ScriptedStore(corpus.store)
            await walk_all(replace(corpus, store=store), from_root([("n", "n"), ("m", "n")]))
        assert [each.wanted for each in store.log if isinstance(each, Matching)] == [[("n", 1)]]


class TestTold:
    async def test_a_hit_contains_the_field_that_led_to_it(self):
        items = at_equal_distance(
            a={"tags": "x", "next": "c", "by.name": "y"},
            b={"topics": "x"},
            c={},
            d={"about": "a"},
            e={"by": {"name": "y"}},
        )
        edges = [("tags", "topics"), ("next", "$id"), ("$id", "about"), ("by.name", "by.name")]
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, from_root(edges))
            assert [(hit.artifact_id, hit.metadata.get("walk_edge")) for hit in hits] == [
                ("a", None), ("b", "tags"), ("c", "next"), ("d", "about"), ("e", "by.name"),
            ]  # fmt: skip
            hits, _ = await walk_all(corpus, from_root(lambda _: [("topics", "x"), ("$id", "c")]))
        assert [hit.metadata.get("walk_edge") for hit in hits] == [None, "topics", "$id"]

    async def test_an_artifact_with_several_edges_is_found_by_the_first(self):
        items = at_equal_distance(a={"x": 1, "y": 2}, b={"x": 1, "y": 2})
        for edges, first in (([("x", "x"), ("y", "y")], "x"), ([("y", "y"), ("x", "x")], "y")):
            async with corpus_of(items) as corpus:
                hits, walk = await walk_all(corpus, from_root(edges))
            assert [hit.metadata.get("walk_edge") for hit in hits] == [None, first]
            assert walk.summary.edges == 1

    async def test_an_edge_of_several_fields_is_named_after_the_first(self):
        items = at_equal_distance(a={"x": 1, "y": 1}, b={"z": 1})
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, from_root([("x", "z"), ("y", "z")]))
        assert [hit.metadata.get("walk_edge") for hit in hits] == [None, "x"]

    async def test_edges_are_events_from_the_expanded_artifact_to_those_found(self):
        async with corpus_of(at_equal_distance(a={"tag": "x"}, b={"tag": "x"})) as corpus:
            walk = traverse("0", corpus, policy=from_root([("tag", "tag")]))
            edges = [event async for event in walk.events() if isinstance(event, EdgeFound)]
        assert edges == [EdgeFound("a", "b", "tag", known=False, edge=Edge("a", "b", "tag", "derived"))]


class TestSharing:
    async def test_of_several_artifacts_with_a_value_the_first_committed_uses_the_edge(self):
        items = at_equal_distance(a={"tag": "x"}, b={"tag": "x"}, c={"tag": "x"})
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, from_root([("tag", "tag")], roots=["b", "a"]))
        assert [walk.path(hit) for hit in hits] == [["b"], ["a"], ["b", "c"]]

    async def test_of_several_artifacts_at_different_depths_the_shallowest_uses_the_edge(self):
        """The routers come first.

        Then one step commits d, a step away from the seeds, and s, which is one of them.
        """
        items = {
            "q": item("0", next="d", kind="router"),
            "r": item("0.01", kind="router"),
            "s": item("0.3", key=1, kind="note"),
            "d": item("0.1", key=1, kind="note"),
            "t": item("0.5", key=1, kind="note"),
        }
        edges, notes = [("next", "$id"), ("key", "key")], Scope(keep={"kind": "note"})
        policy = Scored(start_k=0, roots=["q", "r", "s"], per_iteration_limit=2, edges=edges, scope=notes)
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy)
        assert [walk.path(hit) for hit in hits] == [["q", "d"], ["s"], ["s", "t"]]

    @pytest.mark.parametrize(
        ("adjacent_k", "paths"),
        [(1, ["a"]), (2, ["a", "ab", "ac"]), (3, ["a", "ab", "ac"]), (4, ["a", "ab", "ac", "ad"])],
    )
    async def test_visited_artifacts_count_in_adjacent_k_and_refused_ones_wait(self, adjacent_k, paths):
        """By the first value a finds itself, b, c and d; by the second, b finds itself and c."""
        tags = {"a": ["x"], "b": ["x", "y"], "c": ["x", "y"], "d": ["x"]}
        items = {name: item(f"0.{at}", tag=each) for at, (name, each) in enumerate(tags.items())}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, from_root([("tag", "tag")], adjacent_k=adjacent_k))
        assert ["".join(walk.path(hit)) for hit in hits] == paths
        assert (walk.summary.stop, walk.summary.left_out) == ("exhausted", {})

    @pytest.mark.parametrize("make", [Eager, Scored, Mmr])
    async def test_an_artifact_found_again_is_admitted_by_the_edge_that_was_found_first(self, make):
        items = {
            "a": item("0", next=["b", "c", "d"]),
            "b": item("0.1", also="x"),
            "c": item("0.2", tag="x"),
            "d": item("0.3", tag="x"),
        }
        policy = make(start_k=0, roots=["a"], adjacent_k=1, edges=[("next", "$id"), ("also", "tag")], select_k=None)
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy)
        assert [walk.path(hit) for hit in hits] == [["a"], ["a", "b"], ["a", "c"]]
        assert (walk.summary.stop, walk.summary.left_out) == ("exhausted", {})

    async def test_refused_artifacts_wait_and_count_as_left_out_by_a_budget(self):
        items = at_equal_distance(a={"next": ["b", "c"]}, b={}, c={})
        policy = from_root([("next", "$id")], adjacent_k=1)
        async with corpus_of(items) as corpus:
            _, whole = await walk_all(corpus, policy)
            _, walk = await walk_all(corpus, policy, node_budget=2)
        assert (whole.summary.committed, whole.summary.left_out) == (2, {})
        assert walk.summary.left_out == {"node_budget": 1}


@pytest.mark.parametrize("make", [Eager, Scored, Mmr])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"edges": [("a", "a")], "types": ["REF"]}, "types filters links"),
        ({"edges": [], "types": []}, "types filters links"),
        ({"edges": "keywords"}, "edges must be a list of pairs of fields or a function of a record, not 'keywords'"),
        ({"edges": {"a": "b"}}, "edges must be a list of pairs"),
        ({"edges": 3}, "edges must be a list of pairs"),
        ({"edges": [("a", "b", "c")]}, r"edges must be pairs of fields .*, not \('a', 'b', 'c'\)"),
        ({"edges": [("a", 1)]}, "edges must be pairs of fields"),
        ({"edges": ["ab"]}, "edges must be pairs of fields .*, not 'ab'"),
        ({"edges": ("keywords", "keywords")}, "edges must be pairs of fields .*, not 'keywords'"),
    ],
)
def test_invalid_edges_are_refused_when_the_policy_is_created(make, options, told):
    with pytest.raises(ArgumentError, match=told):
        make(**options)


# --- against a reference ---------------------------------------------------------------------------------------------

VALUES = st.sampled_from([0, 1, 1.0, True, False, None, "1", "x", "n1", "n2", [1], [True, "x"], {"k": 1}, {"k": [1.0]}])
FIELDS = st.dictionaries(
    st.sampled_from(["x", "y", "y.k"]), VALUES | st.lists(VALUES, max_size=3) | st.fixed_dictionaries({"k": VALUES})
)
EDGES = st.lists(
    st.tuples(st.sampled_from(["x", "y", "y.k", "$id"]), st.sampled_from(["x", "y", "y.k", "$id"])), max_size=3
)


def value_of(fields, name, path):
    if path == "$id":
        return name
    if path == "y.k" and path not in fields:
        return fields["y"].get("k") if isinstance(fields.get("y"), dict) else None
    return fields.get(path)


def breadth_first(fields, edges):
    """Return the paths from n0 in order of discovery; values are equal as in Python."""
    paths, known, taken = [["n0"]], {"n0"}, []
    for path in paths:  # which grows meanwhile
        for left, right in edges:
            given = value_of(fields[path[-1]], path[-1], left)
            for value in given if isinstance(given, list) else [given]:
                if value is not None and (right, value) not in taken:
                    taken.append((right, value))
                    ends = [name for name in fields if holds(value_of(fields[name], name, right), value)]
                    paths += [[*path, end] for end in ends if end not in known]
                    known |= {*ends}
    return paths


def holds(held, value):
    return held == value or (isinstance(held, list) and value in held)


async def check_paths(corpus, fields, edges):
    async with corpus:
        hits, walk = await walk_all(corpus, from_root(edges, roots=["n0"]))
    assert [walk.path(hit) for hit in hits] == breadth_first(fields, edges)


def corpus_with(fields, store=None):
    return corpus_of(at_equal_distance(**fields), store)


CASES = {
    "fields": st.lists(FIELDS, min_size=1, max_size=9).map(
        lambda drawn: {f"n{at}": each for at, each in enumerate(drawn)}
    ),
    "edges": EDGES,
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(**CASES)
@settings(max_examples=examples(75))
def test_walks_are_those_of_a_simple_reference(backend, fields, edges):
    async def main():
        await check_paths(await corpus_with(fields), fields, edges)

    anyio.run(main, backend=backend)


@pytest.mark.slow
@given(**CASES)
@settings(max_examples=examples(50))
def test_walks_of_a_file_are_too(fields, edges):
    async def main():
        with TemporaryDirectory() as folder:
            await check_paths(await corpus_with(fields, Path(folder) / "some.airw"), fields, edges)

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("make", [Eager, Scored, Mmr])
@pytest.mark.parametrize(
    "edges", [[("tags", "tags")], [("rank", "group"), ("group", "rank"), ("tags", "$id")], lambda each: [("rank", 1)]]
)
async def test_a_file_is_walked_as_memory_is(make, edges, tmp_path):
    for number in range(4):
        graph = graph_of(number)
        policy = make(roots=graph.roots, edges=edges, select_k=None, adjacent_k=3)
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            expected, walk = await walk_all(corpus, policy, graph.query, limits=Limits(max_fanout=6))
        path = tmp_path / f"{number}.airw"
        async with corpus_of(graph.items, path, embedder=EIGHTHS):
            pass
        async with open_corpus(path, embedder=EIGHTHS) as corpus:
            hits, other = await walk_all(corpus, policy, graph.query, limits=Limits(max_fanout=6))
        assert [hit.to_dict() for hit in hits] == [hit.to_dict() for hit in expected]
        assert other.summary.left_out == walk.summary.left_out
