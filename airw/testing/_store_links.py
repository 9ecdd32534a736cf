"""Cases of `LinkReader`: what a reference means, which edges are told in which order, and shared field values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from airw.errors import ArgumentError, StoreError
from airw.protocols import Store
from airw.testing._store_records import ODD_IDS
from airw.testing._store_tools import StoreCase, expect_equal, expect_refusal, fact, put
from airw.values import ArtifactChange, Edge, Link

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
    for bad in (put("b", links=[Link("\ud800")]), put("b", names=[["\ud800"]]), put("b", names=[["x\0"]])):
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
