"""Cases of `LinkReader`: what a reference means, who links to a node, and how many do."""

from collections.abc import Mapping, Sequence

from airw.protocols import Store
from airw.testing._store_records import ODD_IDS
from airw.testing._store_tools import StoreCase, expect_equal, fact, put
from airw.values import ArtifactChange, Link, NodeId

__all__ = ["CASES"]

CASES: list[StoreCase] = []


async def _expect_referrers(
    store: Store, expected: Mapping[NodeId, Sequence[str]], types: Sequence[str] | None = None
) -> None:
    """Expect these referrers, of one letter each, and their number."""
    found = await store.referrers([*expected], types=types)
    expect_equal(found, [list(each) for each in expected.values()], f"referrers({[*expected]}, types={types})")
    counted = await store.fan_in([*expected], types=types)
    expect_equal(counted, [len(each) for each in expected.values()], f"fan_in({[*expected]}, types={types})")


@fact(CASES, "links")
async def _in_a_new_store_no_reference_means_anything_and_nothing_has_referrers(store: Store) -> None:
    expect_equal(await store.resolve(["a", "", "a"]), [[], [], []], "resolve in an empty store")
    expect_equal(await store.resolve([]), [], "resolve([])")
    await _expect_referrers(store, {"a": "", ("else", "a"): "", "": ""})
    await _expect_referrers(store, {})
    expect_equal(await store.max_fan_in(), 0, "max_fan_in in an empty store")


@fact(CASES, "links")
async def _a_reference_means_all_that_carry_it_in_the_strongest_tier_sorted_by_id(store: Store) -> None:
    await store.apply(
        [
            put("c", names=[["T"], ["U"]]),
            put("b", names=[[], ["T"], ["V"]]),
            put("a", names=[["T"], ["U"], ["V", "b"]]),
            put("B", names=[[], ["U"], ["T"]]),
        ]
    )
    meant = {"T": "ac", "U": "Bac", "V": "ab", "b": "b", "t": "", "T\0": "", "\ud800": "", "B": "B"}
    for _ in range(2):
        found = await store.resolve([*meant, "T"])
        expect_equal(found, [*map(list, meant.values()), ["a", "c"]], f"resolve({[*meant, 'T']})")
    await store.apply([put("c")], removals=["b"])
    expect_equal(await store.resolve(["T", "U", "b"]), [["a"], ["B", "a"], ["a"]], "resolve after a write")


def _hub() -> list[ArtifactChange]:
    """Make an artifact that others link to by three names, and more than once; it links to itself too."""
    return [
        put("h", names=[["H"], ["Title"]], links=[Link("h"), Link("Title"), Link("b")]),
        put("d", links=[Link("h", "r"), Link("H", "q"), Link("h", line=2)]),
        put("c", links=[Link("Title", "q"), Link("c")]),
        put("b", links=[Link("H", "r", "typed"), Link("h", "r", target_source="else"), Link("gone", "r")]),
    ]


@fact(CASES, "links")
async def _referrers_of_an_artifact_link_to_it_by_any_name_and_come_once_sorted_without_itself(store: Store) -> None:
    await store.apply(_hub())
    await _expect_referrers(store, {"h": "bcd", "b": "h", "c": "", "absent": "", "h\0": "", "\ud800": ""})
    found = await store.referrers(["h", "b", "h"])
    expect_equal(found, [["b", "c", "d"], ["h"], ["b", "c", "d"]], "referrers(['h', 'b', 'h'])")
    expect_equal(await store.fan_in(["h", "b", "h"]), [3, 1, 3], "fan_in(['h', 'b', 'h'])")


@fact(CASES, "links")
async def _referrers_are_those_whose_links_are_of_the_types_asked_for(store: Store) -> None:
    await store.apply(_hub())
    nodes: list[NodeId] = ["h", "gone", ("else", "h")]
    for types, expected, most in (
        (["r"], ("bd", "b", "b"), 2),
        (["q"], ("cd", "", ""), 2),
        (["related"], ("d", "", ""), 1),
        (["r", "q", "none"], ("bcd", "b", "b"), 3),
        (["none"], ("", "", ""), 0),
        ([], ("", "", ""), 0),
    ):
        await _expect_referrers(store, dict(zip(nodes, expected, strict=True)), types)
        expect_equal(await store.max_fan_in(types=types), most, f"max_fan_in(types={types})")


@fact(CASES, "links")
async def _a_reference_has_referrers_while_it_dangles_or_is_ambiguous_and_its_artifact_has_them_else(
    store: Store,
) -> None:
    await store.apply([put("x", links=[Link("T"), Link("u")]), put("y", links=[Link("T", "r"), Link("T")])])
    await _expect_referrers(store, {"T": "xy", "u": "x", "a": ""})
    await store.apply([put("a", names=[[], ["T"]])])
    await _expect_referrers(store, {"T": "", "u": "x", "a": "xy"})
    await store.apply([put("b", names=[[], ["T"]], links=[Link("T")])])
    await _expect_referrers(store, {"T": "bxy", "a": "", "b": ""})
    await store.apply([put("T")])
    await _expect_referrers(store, {"T": "bxy", "a": "", "b": ""})
    await store.apply([], removals=["T", "a", "x"])
    await _expect_referrers(store, {"T": "", "b": "y", "u": ""})


@fact(CASES, "links")
async def _an_id_of_the_corpus_is_no_ambiguous_reference_even_where_another_carries_it_too(store: Store) -> None:
    await store.apply([put("a", names=[[], ["A"]]), put("b", names=[["a"]]), put("x", links=[Link("a")])])
    await _expect_referrers(store, {"a": "", "b": "", "A": ""})
    expect_equal(await store.max_fan_in(), 0, "max_fan_in of one link to nothing that is a node")
    await store.apply([put("y", links=[Link("A")])])
    await _expect_referrers(store, {"a": "y", "A": ""})
    await store.apply([], removals=["b"])
    await _expect_referrers(store, {"a": "xy"})


@fact(CASES, "links")
async def _nodes_of_other_corpora_have_the_referrers_that_name_corpus_and_id(store: Store) -> None:
    def away(corpus: str) -> Link:
        return Link("a", target_source=corpus)

    await store.apply([put("a", links=[away("else")]), put("b", links=[away("else"), away("other"), Link("a")])])
    pairs: dict[NodeId, str] = {
        ("else", "a"): "ab",
        ("other", "a"): "b",
        ("none", "a"): "",
        ("else", "b"): "",
        ("else\0", "a"): "",
    }
    await _expect_referrers(store, {**pairs, "a": "b", ("", "a"): ""})
    await store.apply([put("a")], removals=["b"])
    await _expect_referrers(store, dict.fromkeys(pairs, ""))


@fact(CASES, "links")
async def _the_largest_fan_in_is_that_of_any_node_of_the_three_kinds(store: Store) -> None:
    async def expect_most(count: int, what: str, *links: Link) -> None:
        await store.apply([put(each, links=links) for each in "xyz"[:count]])
        expect_equal(await store.max_fan_in(), count, f"max_fan_in with {count} links to {what}")
        await store.apply([], removals=list("xyz"))

    await store.apply([put("a", names=[["A"], ["T"]], links=[Link("a"), Link("A")]), put("b", names=[[], ["T"]])])
    expect_equal(await store.max_fan_in(), 0, "max_fan_in with links of an artifact to itself alone")
    await expect_most(2, "an artifact by two names", Link("a"), Link("A"))
    await expect_most(
        3, "an artifact of another corpus", Link("a", target_source="else"), Link("a", "r", "typed", "else")
    )
    await expect_most(2, "nothing", Link("gone"), Link("gone", line=2))
    await expect_most(3, "two artifacts at once", Link("T"))
    await store.apply([put("x", links=[Link("a"), Link("a", target_source="else"), Link("T"), Link("gone")])])
    expect_equal(await store.max_fan_in(), 1, "max_fan_in with one link to each of four nodes")


@fact(CASES, "links")
async def _any_text_can_be_asked_about(store: Store) -> None:
    await store.apply([put(name, links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS)])
    expect_equal(await store.resolve(ODD_IDS), [[each] for each in ODD_IDS], "resolve of odd ids")
    found = await store.referrers(ODD_IDS)
    expect_equal(found, [[each] for each in (*ODD_IDS[1:], ODD_IDS[0])], "referrers of odd ids")


@fact(CASES, "links")
async def _references_and_nodes_are_asked_for_by_the_ten_thousand_in_one_call(store: Store) -> None:
    names = [f"a{at:04}" for at in range(1_000)]
    await store.apply([put(name, links=[Link(names[at - 1])]) for at, name in enumerate(names)])
    asked = [*(f"absent {at}" for at in range(40_000)), *names]
    nothing: list[list[str]] = [[]] * 40_000
    expect_equal(await store.resolve(asked), [*nothing, *([name] for name in names)], "resolve of 41,000 references")
    expected = [*nothing, *([each] for each in (*names[1:], names[0]))]
    expect_equal(await store.referrers(asked), expected, "referrers of 41,000 nodes")
    expect_equal(await store.fan_in(asked), [0] * 40_000 + [1] * 1_000, "fan_in of 41,000 nodes")
