"""Cases of `LinkReader`: which edges are told in which order, which links are none, and shared field values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airw.errors import ArgumentError, StoreError
from airw.protocols import Store
from airw.testing._store_records import ODD_IDS
from airw.testing._store_tools import StoreCase, expect_equal, expect_refusal, fact, put
from airw.values import ArtifactChange, Edge, Link, LinkCount, NodeId, UnresolvedLink

__all__ = ["CASES"]

CASES: list[StoreCase] = []


async def _expect_edges(store: Store, asked: Sequence[str], expected: Sequence[Sequence[Edge]], **options: Any) -> None:
    found = await store.neighbors(asked, **options)
    expect_equal(found, [list(each) for each in expected], f"neighbors({list(asked)}, {options})")


@fact(CASES, "links")
async def _a_new_store_has_no_edges_and_no_values(store: Store) -> None:
    await _expect_edges(store, ["a", "b"], [[], []], direction="both")
    expect_equal(await store.matching([("f", 1), ("f", None)]), [[], []], "matching in an empty store")
    expect_equal(await store.neighbors([]), [], "neighbors([])")
    expect_equal(await store.matching([]), [], "matching without values")


@fact(CASES, "links")
async def _an_edge_follows_the_name_in_the_strongest_tier(store: Store) -> None:
    await store.apply(
        [
            put("a.md", names=[["a.md"], ["Title"], ["alias", "both"]]),
            put("b.md", names=[[], ["both"], ["Title"]]),
            put("x", links=[Link("Title"), Link("alias", "t2"), Link("both", "t3"), Link("b.md", "t4")]),
        ]
    )
    targets = (("a.md", "related"), ("a.md", "t2"), ("b.md", "t3"), ("b.md", "t4"))
    await _expect_edges(store, ["x"], [[Edge("x", target, type) for target, type in targets]])


@fact(CASES, "links")
async def _an_id_outranks_every_weaker_name_of_another(store: Store) -> None:
    await store.apply([put("a", names=[[], ["b"]]), put("b"), put("x", links=[Link("b")])])
    await _expect_edges(store, ["x"], [[Edge("x", "b", "related")]])
    await store.apply([], removals=["b"])
    await _expect_edges(store, ["x"], [[Edge("x", "a", "related")]])


@fact(CASES, "links")
async def _names_are_compared_letter_by_letter(store: Store) -> None:
    await store.apply([put("a", names=[[], ["Title"]]), put("x", links=[Link("title"), Link("Title "), Link("A")])])
    await _expect_edges(store, ["x"], [[]])


@fact(CASES, "links")
async def _a_dangling_link_becomes_an_edge_when_its_target_comes_and_dangles_again_when_it_goes(store: Store) -> None:
    edge = Edge("x", "y", "related")
    await store.apply([put("x", links=[Link("Later"), Link("x2")])])
    await _expect_edges(store, ["x"], [[]])
    await store.apply([put("y", names=[[], ["Later"]])])
    await _expect_edges(store, ["x"], [[edge]])
    await _expect_edges(store, ["y"], [[edge]], direction="in")
    await store.apply([put("y", names=[[], ["Renamed"]])])
    await _expect_edges(store, ["x", "y"], [[], []], direction="both")
    await store.apply([put("z", names=[["Later"]])], removals=["y"])
    await _expect_edges(store, ["x"], [[Edge("x", "z", "related")]])
    await store.apply([], removals=["x"])
    await _expect_edges(store, ["x", "z"], [[], []], direction="both")


@fact(CASES, "links")
async def _an_ambiguous_link_is_no_edge_until_it_means_one_thing_again(store: Store) -> None:
    await store.apply([put("a", names=[[], ["T"]]), put("x", links=[Link("T")])])
    await _expect_edges(store, ["x"], [[Edge("x", "a", "related")]])
    await store.apply([put("b", names=[[], ["T"]])])
    await _expect_edges(store, ["x", "a", "b"], [[], [], []], direction="both")
    await store.apply([put("c", names=[["T"]])])
    await _expect_edges(store, ["x"], [[Edge("x", "c", "related")]])
    await store.apply([], removals=["c", "a"])
    await _expect_edges(store, ["x"], [[Edge("x", "b", "related")]])


@fact(CASES, "links", "records")
async def _counts_count_links_by_what_they_mean(store: Store) -> None:
    foreign = Link("a", target_source="else")
    await store.apply([put("a", names=[[], ["T"]]), put("x", links=[Link("T"), Link("no"), foreign, Link("x")])])
    for puts, removals, expected in (
        ([put("b", names=[[], ["T"]])], [], (1, 1, 1, 1)),
        ([put("no")], [], (2, 0, 1, 1)),
        ([], ["b", "no"], (2, 1, 0, 1)),
        ([put("x", links=[foreign, foreign, Link("gone"), Link("gone", line=2)])], [], (0, 2, 0, 2)),
        ([], ["x"], (0, 0, 0, 0)),
    ):
        await store.apply(puts, removals=removals)
        counts = await store.counts()
        found = tuple(counts[each] for each in ("resolved", "dangling", "ambiguous", "foreign"))
        what = (
            f"resolved, dangling, ambiguous and foreign links after putting {[each.entry.artifact_id for each in puts]}"
        )
        expect_equal(found, expected, f"{what} and removing {removals}")


def _linked() -> list[ArtifactChange]:
    """Make three artifacts with links of several types and origins, to themselves and to nowhere among them."""
    return [
        put("a", links=[Link("c", "r"), Link("b", "r"), Link("a", "r"), Link("b", "q", "typed"), Link("gone", "r")]),
        put("b", links=[Link("a", "r"), Link("b2", "z", "derived", "else"), Link("zz", "r", target_source="else")]),
        put("c", links=[Link("a", "r", "typed"), Link("a", "r", file="f", line=1), Link("a", "r", line=2)]),
    ]


_OUT = [Edge("a", "b", "q", "typed"), Edge("a", "b", "r"), Edge("a", "c", "r")]
_IN = [Edge("b", "a", "r"), Edge("c", "a", "r", "inline"), Edge("c", "a", "r", "typed")]
_BOTH = [_OUT[0], _OUT[1], _IN[0], _OUT[2], _IN[1], _IN[2]]


@fact(CASES, "links")
async def _edges_come_by_direction_ordered_by_type_then_other_end_without_self_links_and_repeats(store: Store) -> None:
    await store.apply(_linked())
    await _expect_edges(store, ["a"], [_OUT])
    await _expect_edges(store, ["a"], [_OUT], direction="out")
    await _expect_edges(store, ["a"], [_IN], direction="in")
    await _expect_edges(store, ["a", "absent", "a", "\ud800"], [_BOTH, [], _BOTH, []], direction="both")


@fact(CASES, "links")
async def _types_and_origins_keep_and_exclude_drops(store: Store) -> None:
    await store.apply(_linked())
    await _expect_edges(store, ["a"], [_OUT[:1]], types=["q"])
    await _expect_edges(store, ["a"], [_OUT[:1]], types=["q", "none"], direction="both")
    await _expect_edges(store, ["a"], [[]], types=[], direction="both")
    await _expect_edges(store, ["a"], [_OUT[:1]], exclude=["r"])
    await _expect_edges(store, ["a"], [[]], types=["q"], exclude=["q"])
    await _expect_edges(store, ["a"], [[_OUT[0], _IN[2]]], origins=["typed"], direction="both")
    await _expect_edges(store, ["a"], [[]], origins=[], direction="both")


@fact(CASES, "links")
async def _a_limit_cuts_each_list_after_the_choice(store: Store) -> None:
    await store.apply(_linked())
    for limit in (0, 1, 2, 3, 100):
        await _expect_edges(store, ["a"], [_OUT[:limit]], limit=limit)
        await _expect_edges(store, ["a", "a"], [_BOTH[:limit]] * 2, limit=limit, direction="both")
        await _expect_edges(store, ["a"], [_OUT[1:][:limit]], limit=limit, exclude=["q"])


@fact(CASES, "links")
async def _links_to_other_corpora_are_edges_after_those_at_home_and_never_resolved_here(store: Store) -> None:
    await store.apply([*_linked(), put("zz")])
    home, away = Edge("b", "a", "r"), [Edge("b", ("else", "zz"), "r"), Edge("b", ("else", "b2"), "z", "derived")]
    await _expect_edges(store, ["b", "zz", "b"], [[home, *away], [], [home, *away]])
    await _expect_edges(store, ["zz"], [[]], direction="in")


@fact(CASES, "links")
async def _the_links_of_a_replaced_artifact_are_forgotten_and_those_to_it_stay(store: Store) -> None:
    await store.apply(
        [put("a", links=[Link("b")], names=[["nick"]]), put("b"), put("c", links=[Link("nick"), Link("a", "s")])]
    )
    await store.apply([put("a")])
    await _expect_edges(store, ["a", "b", "c"], [[Edge("c", "a", "s")], [], [Edge("c", "a", "s")]], direction="both")


@fact(CASES, "links")
async def _any_text_can_be_linked_to(store: Store) -> None:
    await store.apply([put(name, links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS)])
    found = [[each.target for each in edges] for edges in await store.neighbors(ODD_IDS)]
    expect_equal(found, [[each] for each in (ODD_IDS[-1], *ODD_IDS[:-1])], "targets of links to odd ids")


@fact(CASES, "links")
async def _a_direction_that_does_not_exist_is_refused(store: Store) -> None:
    call = store.neighbors(["a"], direction="up")  # type: ignore[arg-type]
    await expect_refusal(ArgumentError, call, "direction='up'", "'up'")


@fact(CASES, "links")
async def _a_link_or_name_that_cannot_be_stored_is_refused_in_one_line(store: Store) -> None:
    await store.apply([put("a", links=[Link("b")])])
    half = Link("b", or_ref="\ud800")
    for bad in (
        *(put("b", links=[each]) for each in (Link("\ud800"), half, Link("b", or_ref="x\0"))),
        *(put("b", names=[[each]]) for each in ("\ud800", "x\0")),
    ):
        await expect_refusal(StoreError, store.apply([bad]), f"putting {bad.extraction}", "'b'")
        await _expect_edges(store, ["a"], [[]])


@fact(CASES, "links")
async def _edges_are_asked_for_by_the_ten_thousand_in_one_call(store: Store) -> None:
    names = [f"a{at:04}" for at in range(1_000)]
    await store.apply([put(name, links=[Link(names[at - 1])]) for at, name in enumerate(names)])
    absent = [f"absent {at}" for at in range(40_000)]
    found = await store.neighbors([*absent, *names])
    expected = [*[[]] * len(absent), *([Edge(name, names[at - 1], "related")] for at, name in enumerate(names))]
    expect_equal(found, expected, "neighbors of 41,000 ids")


@fact(CASES, "links")
async def _a_second_name_counts_where_the_first_means_nothing_or_several(store: Store) -> None:
    await store.apply([put("a", names=[[], ["A"], ["T"]]), put("b", names=[[], ["B"], ["T"]])])
    refs = {("gone", "B"): "b", ("A", "gone"): "a", ("T", "B"): "b", ("A", "T"): "a", ("A", "A"): "a", ("T", "T"): ""}
    links = [Link(ref, f"t{at}", or_ref=other) for at, (ref, other) in enumerate(refs)]
    await store.apply([put("x", links=links)])
    edges = [Edge("x", meant, f"t{at}") for at, meant in enumerate(refs.values()) if meant]
    await _expect_edges(store, ["x"], [edges])
    await _expect_edges(store, ["a", "b"], [edges[1:2] + edges[3:], [edges[0], edges[2]]], direction="in")


@fact(CASES, "links")
async def _of_two_names_that_mean_one_artifact_each_the_stronger_tier_counts_of_equals_the_first(store: Store) -> None:
    await store.apply([put("a", names=[[], ["strong"], ["weak a"]]), put("b", names=[[], [], ["weak b"]])])
    refs = {("strong", "weak b"): "a", ("weak b", "strong"): "a", ("weak b", "weak a"): "b", ("weak a", "weak b"): "a"}
    refs[("strong", "b")] = "b"
    links = [Link(ref, f"t{at}", or_ref=other) for at, (ref, other) in enumerate(refs)]
    await store.apply([put("x", links=links)])
    await _expect_edges(store, ["x"], [[Edge("x", meant, f"t{at}") for at, meant in enumerate(refs.values())]])


@fact(CASES, "links")
async def _a_link_of_two_names_follows_both_as_they_come_and_go_and_become_ambiguous(store: Store) -> None:
    await store.apply([put("x", links=[Link("One", or_ref="Two")])])
    for puts, removals, meant in (
        ([put("a", names=[[], [], ["Two"]])], [], "a"),
        ([put("b", names=[[], ["One"]])], [], "b"),
        ([put("c", names=[[], ["One"]])], [], "a"),
        ([put("d", names=[[], ["Two"]])], [], "d"),
        ([], ["c"], "b"),
        ([put("a"), put("b")], ["d"], ""),
        ([put("e", names=[["Two"]])], [], "e"),
        ([], ["e"], ""),
    ):
        await store.apply(puts, removals=removals)
        edges = [Edge("x", meant, "related")] if meant else []
        await _expect_edges(store, ["x"], [edges])
        await _expect_edges(store, list("abcde"), [edges if name == meant else [] for name in "abcde"], direction="in")


@fact(CASES, "links")
async def _a_link_of_two_names_that_mean_nothing_is_known_by_the_first(store: Store) -> None:
    await store.apply([put("x", links=[Link("One", or_ref="Two")]), put("y", links=[Link("Two", or_ref="One")])])
    nodes: list[NodeId] = ["One", "Two", "a", ("else", "One")]
    expect_equal(await store.referrers(nodes), [["x"], ["y"], [], []], f"referrers({nodes}) while both dangle")
    await store.apply([put(name, names=[[], ["Two"]]) for name in "ab"])
    expect_equal(await store.fan_in(nodes), [1, 1, 0, 0], f"fan_in({nodes}) while one dangles, one is ambiguous")
    await store.apply([], removals=["b"])
    expect_equal(await store.referrers(nodes), [[], [], ["x", "y"], []], f"referrers({nodes}) once one is resolved")
    expect_equal(await store.max_fan_in(), 2, "max_fan_in")


@fact(CASES, "links")
async def _links_that_are_no_edge_are_told_in_order_as_written_with_what_they_may_mean(store: Store) -> None:
    expect_equal(await store.unresolved(), [], "unresolved in an empty store")
    many = Link("T", "z", "typed", file="f.md", line=3)
    lost, either = Link("gone", "a"), Link("gone", "b", or_ref="T")
    wider = Link("U", "c", or_ref="T")
    await store.apply(
        [
            put("b", names=[[], ["T"]], links=[many, Link("a"), lost, lost]),
            put("a", names=[[], ["T"], ["U"]], links=[either, Link("b"), Link("T", target_source="else"), wider]),
            put("c", names=[[], [], ["U"]], links=[Link("gone", or_ref="gone too"), Link("T", or_ref="c")]),
        ]
    )
    expected = [
        UnresolvedLink("a", either, ("a", "b")),
        UnresolvedLink("a", wider, ("a", "b", "c")),
        UnresolvedLink("b", many, ("a", "b")),
        *[UnresolvedLink("b", lost)] * 2,
        UnresolvedLink("c", Link("gone", or_ref="gone too")),
    ]
    expect_equal(await store.unresolved(), expected, "unresolved()")
    for limit in (0, 1, 4, 9):
        expect_equal(await store.unresolved(limit=limit), expected[:limit], f"unresolved(limit={limit})")
    asked = ["c", "absent", "b", "\ud800", "c"]
    expect_equal(await store.unresolved(asked), expected[2:], f"unresolved({asked})")
    expect_equal(await store.unresolved(asked, limit=2), expected[2:4], f"unresolved({asked}, limit=2)")
    expect_equal(await store.unresolved([]), [], "unresolved([])")
    await store.apply([put("gone"), put("a")])
    expect_equal(await store.unresolved(), [], "unresolved once each means one artifact")


@fact(CASES, "links")
async def _links_are_counted_by_type_origin_and_state(store: Store) -> None:
    expect_equal(await store.link_counts(), [], "link_counts in an empty store")
    await store.apply([*_linked(), put("T1", names=[["T"]]), put("T2", names=[["T"]], links=[Link("T", "q", "typed")])])
    expected = [
        LinkCount("q", "typed", "ambiguous", 1),
        LinkCount("q", "typed", "resolved", 1),
        LinkCount("r", "inline", "dangling", 1),
        LinkCount("r", "inline", "foreign", 1),
        LinkCount("r", "inline", "resolved", 6),
        LinkCount("r", "typed", "resolved", 1),
        LinkCount("z", "derived", "foreign", 1),
    ]
    expect_equal(await store.link_counts(), expected, "link_counts()")
    await store.apply([], removals=["a", "T2"])
    expected = [
        LinkCount("r", "inline", "dangling", 3),
        LinkCount("r", "inline", "foreign", 1),
        LinkCount("r", "typed", "dangling", 1),
        LinkCount("z", "derived", "foreign", 1),
    ]
    expect_equal(await store.link_counts(), expected, "link_counts() after removals")


async def _expect_matching(
    store: Store, field: str, expected: Sequence[tuple[Any, Sequence[str]]], **limit: int
) -> None:
    """Expect these artifacts, of one letter each, for each value."""
    wanted = [(field, value) for value, _ in expected]
    found = await store.matching(wanted, **limit)
    expect_equal(found, [list(names) for _, names in expected], f"matching({wanted}, {limit})")


@fact(CASES, "links")
async def _matching_finds_equal_values_and_lists_that_hold_them(store: Store) -> None:
    fields: list[dict[str, Any]] = [
        {"tag": "x", "n": 1, "who": {"name": "Ada"}},
        {"tag": ["x", "y"], "n": 1.0, "who.name": "Ada"},
        {"tag": ["y", ["x"]], "n": True, "who": "Ada"},
        {"tag": None, "n": "1"},
        {"tag": [], "n": {"m": [1]}},
        {},
    ]
    await store.apply([put(name, "t", "t", metadata=each) for name, each in zip("fedcba", fields, strict=True)])
    tags = [("x", "ef"), ("y", "de"), (None, "c"), ("z", ""), (["x"], "d"), (["x", "y"], "e"), ([], "b"), ("x", "ef")]
    await _expect_matching(store, "tag", tags)
    numbers = [(1, "def"), (True, "def"), (1.0, "def"), ("1", "c"), ({"m": [1]}, "b"), (2, "")]
    await _expect_matching(store, "n", numbers)
    await _expect_matching(store, "who.name", [("Ada", "ef")])
    await _expect_matching(store, "tag", [("y", "d"), ("x", "e")], limit=1)
    await _expect_matching(store, "tag", [("y", "")], limit=0)


@fact(CASES, "links")
async def _matching_asks_about_many_fields_in_one_call(store: Store) -> None:
    """More than any store would remember, each of them twice."""
    fields = {f"f{at}": at % 3 for at in range(100)}
    await store.apply([put("b", "t", metadata=fields), put("a", "t", metadata=fields | {"f1": "other"})])
    wanted = [(field, value) for _ in range(2) for field, value in (*fields.items(), ("f1", "other"), ("none", 0))]
    once = [["b"] if field == "f1" else ["a", "b"] for field in fields] + [["a"], []]
    expect_equal(await store.matching(wanted), once * 2, "matching of 102 pairs, asked twice")


@fact(CASES, "links")
async def _matching_follows_every_write(store: Store) -> None:
    await store.apply([put(name, "t", metadata={"tag": ["x", name]}) for name in "fe"])
    await _expect_matching(store, "tag", [("x", "ef"), ("f", "f")])
    await store.apply([put("f", "t", metadata={"tag": "y"}), put("g", "t", metadata={"tag": "x"})], removals=["e"])
    await _expect_matching(store, "tag", [("x", "g"), ("y", "f"), ("e", "")])


@fact(CASES, "links")
async def _matching_counts_an_artifact_while_any_of_its_records_holds_the_value(store: Store) -> None:
    def of_records(*values: str) -> ArtifactChange:
        change = put("a", *values)
        return replace(change, records=[replace(r, metadata={"v": r.text}) for r in change.records])

    for values in (["x", "y"], ["y"], ["x", "x"]):
        await store.apply([of_records(*values)])
        await _expect_matching(store, "v", [(value, "a" if value in values else "") for value in "xy"])
