"""Cases of links: edges and their order, resolved references, referrers, shared values."""

from dataclasses import replace

from airw.errors import StoreError
from airw.protocols import Change, Counts, Edges, LinkCounts, Matching, MaxFanIn, Names, Referrers, UnresolvedLinks, ask
from airw.testing.changes import ODD_IDS, put
from airw.testing.exam import case, expect_equal, expect_refusal
from airw.values import Edge, Link, LinkCount, LinkFilter, UnresolvedLink

CASES = []


async def expect_edges(store, asked, expected, direction="out", limit=None, **links):
    found = await ask(store, Edges(asked, direction, LinkFilter(**links), limit))
    expect_equal(found, [list(each) for each in expected], f"edges of {list(asked)}, {direction}, {limit}, {links}")


@case(CASES, "edges", "matching")
async def _a_new_store_has_no_edges_and_no_values(fixture):
    store = await fixture.open_store()
    await expect_edges(store, ["a", "b"], [[], []], direction="both")
    expect_equal(await ask(store, Matching([("f", 1), ("f", None)])), [[], []], "matching in an empty store")
    expect_equal(await ask(store, Edges([])), [], "neighbors([])")
    expect_equal(await ask(store, Matching([])), [], "matching without values")


@case(CASES, "edges", "names")
async def _an_edge_follows_the_name_in_the_strongest_tier(fixture):
    store = await fixture.open_store(
        [
            put("a.md", names=[["a.md"], ["Title"], ["alias", "both"]]),
            put("b.md", names=[[], ["both"], ["Title"]]),
            put("x", links=[Link("Title"), Link("alias", "t2"), Link("both", "t3"), Link("b.md", "t4")]),
        ]
    )
    targets = (("a.md", "related"), ("a.md", "t2"), ("b.md", "t3"), ("b.md", "t4"))
    await expect_edges(store, ["x"], [[Edge("x", target, type) for target, type in targets]])


@case(CASES, "writing", "edges", "names")
async def _an_id_outranks_every_weaker_name_of_another(fixture):
    store = await fixture.open_store([put("a", names=[[], ["b"]]), put("b"), put("x", links=[Link("b")])])
    await expect_edges(store, ["x"], [[Edge("x", "b", "related")]])
    await store.apply(Change(removals=["b"]))
    await expect_edges(store, ["x"], [[Edge("x", "a", "related")]])


@case(CASES, "writing", "edges", "names")
async def _a_dangling_link_becomes_an_edge_once_its_target_is_added_until_it_is_removed(
    fixture,
) -> None:
    edge = Edge("x", "y", "related")
    store = await fixture.open_store([put("x", links=[Link("Later"), Link("x2")])])
    await expect_edges(store, ["x"], [[]])
    await store.apply(Change([put("y", names=[[], ["Later"]])]))
    await expect_edges(store, ["x"], [[edge]])
    await expect_edges(store, ["y"], [[edge]], direction="in")
    await store.apply(Change([put("y", names=[[], ["Renamed"]])]))
    await expect_edges(store, ["x", "y"], [[], []], direction="both")
    await store.apply(Change([put("z", names=[["Later"]])], removals=["y"]))
    await expect_edges(store, ["x"], [[Edge("x", "z", "related")]])
    await store.apply(Change(removals=["x"]))
    await expect_edges(store, ["x", "z"], [[], []], direction="both")


@case(CASES, "writing", "edges", "names")
async def _an_ambiguous_link_is_no_edge_until_one_artifact_has_the_name(fixture):
    store = await fixture.open_store([put("a", names=[[], ["T"]]), put("x", links=[Link("T")])])
    await expect_edges(store, ["x"], [[Edge("x", "a", "related")]])
    await store.apply(Change([put("b", names=[[], ["T"]])]))
    await expect_edges(store, ["x", "a", "b"], [[], [], []], direction="both")
    await store.apply(Change([put("c", names=[["T"]])]))
    await expect_edges(store, ["x"], [[Edge("x", "c", "related")]])
    await store.apply(Change(removals=["c", "a"]))
    await expect_edges(store, ["x"], [[Edge("x", "b", "related")]])


def _mesh():
    """Return three artifacts with links of several types; some are self-links or dangle."""
    return [
        put("a", links=[Link("c", "r"), Link("b", "r"), Link("a", "r"), Link("b", "q", "typed"), Link("gone", "r")]),
        put("b", links=[Link("a", "r"), Link("b2", "z", "derived", "else"), Link("zz", "r", target_source="else")]),
        put("c", links=[Link("a", "r", "typed"), Link("a", "r", file="f", line=1), Link("a", "r", line=2)]),
    ]


_OUT = [Edge("a", "b", "q", "typed"), Edge("a", "b", "r"), Edge("a", "c", "r")]
_IN = [Edge("b", "a", "r"), Edge("c", "a", "r", "inline"), Edge("c", "a", "r", "typed")]
_BOTH = [_OUT[0], _OUT[1], _IN[0], _OUT[2], _IN[1], _IN[2]]


@case(CASES, "edges")
async def _edges_come_by_direction_ordered_by_type_then_other_end_without_self_links_and_repeats(
    fixture,
) -> None:
    store = await fixture.open_store(_mesh())
    await expect_edges(store, ["a"], [_OUT])
    await expect_edges(store, ["a"], [_OUT], direction="out")
    await expect_edges(store, ["a"], [_IN], direction="in")
    await expect_edges(store, ["a", "absent", "a", "\ud800"], [_BOTH, [], _BOTH, []], direction="both")


@case(CASES, "edges")
async def _types_and_origins_select_edges_and_exclude_drops_them(fixture):
    store = await fixture.open_store(_mesh())
    await expect_edges(store, ["a"], [_OUT[:1]], types=["q"])
    await expect_edges(store, ["a"], [_OUT[:1]], types=["q", "none"], direction="both")
    await expect_edges(store, ["a"], [[]], types=[], direction="both")
    await expect_edges(store, ["a"], [_OUT[:1]], exclude=["r"])
    await expect_edges(store, ["a"], [[]], types=["q"], exclude=["q"])
    await expect_edges(store, ["a"], [[_OUT[0], _IN[2]]], origins=["typed"], direction="both")
    await expect_edges(store, ["a"], [[]], origins=[], direction="both")


@case(CASES, "edges")
async def _a_limit_cuts_each_list_after_the_selection(fixture):
    store = await fixture.open_store(_mesh())
    for limit in (0, 1, 2, 3, 100):
        await expect_edges(store, ["a"], [_OUT[:limit]], limit=limit)
        await expect_edges(store, ["a", "a"], [_BOTH[:limit]] * 2, limit=limit, direction="both")
        await expect_edges(store, ["a"], [_OUT[1:][:limit]], limit=limit, exclude=["q"])


@case(CASES, "edges")
async def _links_to_other_corpora_are_edges_after_those_within_the_corpus_and_never_resolved(fixture):
    store = await fixture.open_store([*_mesh(), put("zz")])
    home, away = Edge("b", "a", "r"), [Edge("b", ("else", "zz"), "r"), Edge("b", ("else", "b2"), "z", "derived")]
    await expect_edges(store, ["b", "zz", "b"], [[home, *away], [], [home, *away]])
    await expect_edges(store, ["zz"], [[]], direction="in")


@case(CASES, "edges")
async def _any_text_can_be_linked_to(fixture):
    store = await fixture.open_store([put(name, links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS)])
    found = [[each.target for each in edges] for edges in await ask(store, Edges(ODD_IDS))]
    expect_equal(found, [[each] for each in (ODD_IDS[-1], *ODD_IDS[:-1])], "targets of links to odd ids")


@case(CASES, "writing", "links")
async def _links_that_are_no_edge_are_listed_in_order_as_written_with_their_candidates(fixture):
    store = await fixture.open_store()
    expect_equal(await ask(store, UnresolvedLinks()), [], "unresolved in an empty store")
    many = Link("T", "z", "typed", file="f.md", line=3)
    lost, either = Link("gone", "a"), Link("gone", "b", or_ref="T")
    wider = Link("U", "c", or_ref="T")
    await store.apply(
        Change(
            [
                put("b", names=[[], ["T"]], links=[many, Link("a"), lost, lost]),
                put("a", names=[[], ["T"], ["U"]], links=[either, Link("b"), Link("T", target_source="else"), wider]),
                put("c", names=[[], [], ["U"]], links=[Link("gone", or_ref="gone too"), Link("T", or_ref="c")]),
            ]
        )
    )
    expected = [
        UnresolvedLink("a", either, ("a", "b")),
        UnresolvedLink("a", wider, ("a", "b", "c")),
        UnresolvedLink("b", many, ("a", "b")),
        *[UnresolvedLink("b", lost)] * 2,
        UnresolvedLink("c", Link("gone", or_ref="gone too")),
    ]
    expect_equal(await ask(store, UnresolvedLinks()), expected, "unresolved_links()")
    for limit in (0, 1, 4, 9):
        expect_equal(
            await ask(store, UnresolvedLinks(limit=limit)), expected[:limit], f"unresolved_links(limit={limit})"
        )
    asked = ["c", "absent", "b", "\ud800", "c"]
    expect_equal(await ask(store, UnresolvedLinks(asked)), expected[2:], f"unresolved_links({asked})")
    expect_equal(
        await ask(store, UnresolvedLinks(asked, limit=2)), expected[2:4], f"unresolved_links({asked}, limit=2)"
    )
    expect_equal(await ask(store, UnresolvedLinks([])), [], "unresolved_links([])")
    await store.apply(Change([put("gone"), put("a")]))
    expect_equal(await ask(store, UnresolvedLinks()), [], "unresolved once each means one artifact")


@case(CASES, "writing", "links")
async def _links_are_counted_by_type_origin_and_state(fixture):
    store = await fixture.open_store()
    expect_equal(await ask(store, LinkCounts()), [], "link_counts in an empty store")
    await store.apply(
        Change([*_mesh(), put("T1", names=[["T"]]), put("T2", names=[["T"]], links=[Link("T", "q", "typed")])])
    )
    expected = [
        LinkCount("q", "typed", "ambiguous", 1),
        LinkCount("q", "typed", "resolved", 1),
        LinkCount("r", "inline", "dangling", 1),
        LinkCount("r", "inline", "foreign", 1),
        LinkCount("r", "inline", "resolved", 6),
        LinkCount("r", "typed", "resolved", 1),
        LinkCount("z", "derived", "foreign", 1),
    ]
    expect_equal(await ask(store, LinkCounts()), expected, "link_counts()")
    await store.apply(Change(removals=["a", "T2"]))
    expected = [
        LinkCount("r", "inline", "dangling", 3),
        LinkCount("r", "inline", "foreign", 1),
        LinkCount("r", "typed", "dangling", 1),
        LinkCount("z", "derived", "foreign", 1),
    ]
    expect_equal(await ask(store, LinkCounts()), expected, "link_counts() after removals")


async def expect_matching(store, field, expected, **limit):
    """Expect these artifacts, one letter each, for each value."""
    wanted = [(field, value) for value, _ in expected]
    found = await ask(store, Matching(wanted, **limit))
    expect_equal(found, [list(names) for _, names in expected], f"matching({wanted}, {limit})")


@case(CASES, "matching")
async def _matching_finds_equal_values_and_lists_that_contain_them(fixture):
    fields = [
        {"tag": "x", "n": 1, "who": {"name": "Ada"}},
        {"tag": ["x", "y"], "n": 1.0, "who.name": "Ada"},
        {"tag": ["y", ["x"]], "n": True, "who": "Ada"},
        {"tag": None, "n": "1"},
        {"tag": [], "n": {"m": [1]}},
        {},
    ]
    store = await fixture.open_store(
        [put(name, "t", "t", metadata=each) for name, each in zip("fedcba", fields, strict=True)]
    )
    tags = [("x", "ef"), ("y", "de"), (None, "c"), ("z", ""), (["x"], "d"), (["x", "y"], "e"), ([], "b"), ("x", "ef")]
    await expect_matching(store, "tag", tags)
    numbers = [(1, "def"), (True, "def"), (1.0, "def"), ("1", "c"), ({"m": [1]}, "b"), (2, "")]
    await expect_matching(store, "n", numbers)
    await expect_matching(store, "who.name", [("Ada", "ef")])
    await expect_matching(store, "tag", [("y", "d"), ("x", "e")], limit=1)
    await expect_matching(store, "tag", [("y", "")], limit=0)


async def expect_referrers(store, expected, types=None):
    """Expect these referrers, one letter each, and their number."""
    found = await ask(store, Referrers([*expected], types=types))
    expect_equal(found, [list(each) for each in expected.values()], f"referrers({[*expected]}, types={types})")
    counted = [len(ids) for ids in await ask(store, Referrers([*expected], types=types))]
    expect_equal(counted, [len(each) for each in expected.values()], f"fan_in({[*expected]}, types={types})")


@case(CASES, "names", "links")
async def _in_a_new_store_no_reference_resolves_and_nothing_has_referrers(fixture):
    store = await fixture.open_store()
    expect_equal(await ask(store, Names(["a", "", "a"])), [[], [], []], "resolve in an empty store")
    expect_equal(await ask(store, Names([])), [], "resolve([])")
    await expect_referrers(store, {"a": "", ("else", "a"): "", "": ""})
    await expect_referrers(store, {})
    expect_equal(await ask(store, MaxFanIn()), 0, "max_fan_in in an empty store")


@case(CASES, "writing", "names")
async def _a_reference_means_all_artifacts_with_that_name_in_the_strongest_tier_sorted_by_id(fixture):
    store = await fixture.open_store(
        [
            put("c", names=[["T"], ["U"]]),
            put("b", names=[[], ["T"], ["V"]]),
            put("a", names=[["T"], ["U"], ["V", "b"]]),
            put("B", names=[[], ["U"], ["T"]]),
        ]
    )
    meant = {"T": "ac", "U": "Bac", "V": "ab", "b": "b", "t": "", "T\0": "", "\ud800": "", "B": "B"}
    for _ in range(2):
        found = await ask(store, Names([*meant, "T"]))
        expect_equal(found, [*map(list, meant.values()), ["a", "c"]], f"resolve({[*meant, 'T']})")
    await store.apply(Change([put("c")], removals=["b"]))
    expect_equal(await ask(store, Names(["T", "U", "b"])), [["a"], ["B", "a"], ["a"]], "resolve after a write")


def _hub():
    """Return artifacts that link to one of them by three names, with duplicates."""
    return [
        put("h", names=[["H"], ["Title"]], links=[Link("h"), Link("Title"), Link("b")]),
        put("d", links=[Link("h", "r"), Link("H", "q"), Link("h", line=2)]),
        put("c", links=[Link("Title", "q"), Link("c")]),
        put("b", links=[Link("H", "r", "typed"), Link("h", "r", target_source="else"), Link("gone", "r")]),
    ]


@case(CASES, "links")
async def _referrers_of_an_artifact_link_to_it_by_any_name_sorted_without_duplicates_and_itself(
    fixture,
) -> None:
    store = await fixture.open_store(_hub())
    await expect_referrers(store, {"h": "bcd", "b": "h", "c": "", "absent": "", "h\0": "", "\ud800": ""})
    found = await ask(store, Referrers(["h", "b", "h"]))
    expect_equal(found, [["b", "c", "d"], ["h"], ["b", "c", "d"]], "referrers(['h', 'b', 'h'])")
    expect_equal(
        [len(ids) for ids in await ask(store, Referrers(["h", "b", "h"]))], [3, 1, 3], "fan_in(['h', 'b', 'h'])"
    )


@case(CASES, "links")
async def _referrers_are_those_with_links_of_the_requested_types(fixture):
    store = await fixture.open_store(_hub())
    nodes = ["h", "gone", ("else", "h")]
    for types, expected, most in (
        (["r"], ("bd", "b", "b"), 2),
        (["q"], ("cd", "", ""), 2),
        (["related"], ("d", "", ""), 1),
        (["r", "q", "none"], ("bcd", "b", "b"), 3),
        (["none"], ("", "", ""), 0),
        ([], ("", "", ""), 0),
    ):
        await expect_referrers(store, dict(zip(nodes, expected, strict=True)), types)
        expect_equal(await ask(store, MaxFanIn(types=types)), most, f"max_fan_in(types={types})")


@case(CASES, "writing", "links")
async def _a_reference_has_referrers_while_unresolved_and_its_artifact_has_them_once_resolved(
    fixture,
) -> None:
    store = await fixture.open_store(
        [put("x", links=[Link("T"), Link("u")]), put("y", links=[Link("T", "r"), Link("T")])]
    )
    await expect_referrers(store, {"T": "xy", "u": "x", "a": ""})
    await store.apply(Change([put("a", names=[[], ["T"]])]))
    await expect_referrers(store, {"T": "", "u": "x", "a": "xy"})
    await store.apply(Change([put("b", names=[[], ["T"]], links=[Link("T")])]))
    await expect_referrers(store, {"T": "bxy", "a": "", "b": ""})
    await store.apply(Change([put("T")]))
    await expect_referrers(store, {"T": "bxy", "a": "", "b": ""})
    await store.apply(Change(removals=["T", "a", "x"]))
    await expect_referrers(store, {"T": "", "b": "y", "u": ""})


@case(CASES, "writing", "links")
async def _nodes_of_other_corpora_have_the_referrers_that_link_to_corpus_and_id(fixture):
    def away(corpus):
        return Link("a", target_source=corpus)

    store = await fixture.open_store(
        [put("a", links=[away("else")]), put("b", links=[away("else"), away("other"), Link("a")])]
    )
    pairs = {
        ("else", "a"): "ab",
        ("other", "a"): "b",
        ("none", "a"): "",
        ("else", "b"): "",
        ("else\0", "a"): "",
    }
    await expect_referrers(store, {**pairs, "a": "b", ("", "a"): ""})
    await store.apply(Change([put("a")], removals=["b"]))
    await expect_referrers(store, dict.fromkeys(pairs, ""))


@case(CASES, "edges")
async def _names_are_compared_letter_by_letter(fixture):
    store = await fixture.open_store(
        [put("a", names=[[], ["Title"]]), put("x", links=[Link("title"), Link("Title "), Link("A")])]
    )
    await expect_edges(store, ["x"], [[]])


@case(CASES, "writing", "edges", "names")
async def _if_no_name_is_written_so_the_names_of_artifacts_that_fold_case_are_compared_in_any_case(fixture):
    links = [Link("/A/BETA/"), Link("label", "pair", or_ref="/a/BETA/")]
    store = await fixture.open_store([put("a/Beta.md", names=[["/a/Beta/"]], fold_case=True), put("x", links=links)])
    folded = [Edge("x", "a/Beta.md", "pair"), Edge("x", "a/Beta.md", "related")]
    await expect_edges(store, ["x"], [folded])
    await expect_edges(store, ["a/Beta.md"], [folded], direction="in")
    expect_equal(await ask(store, Names(["A/BETA.md", "/a/beta/"])), [["a/Beta.md"]] * 2, "names in another case")
    # Two artifacts that fit are no answer, whatever their tiers; a name as written outranks both.
    await store.apply(Change([put("b", names=[[], [], ["/a/beta/"]], fold_case=True)]))
    await expect_edges(store, ["x"], [[]])
    expect_equal(await ask(store, Names(["/A/BETA/"])), [["a/Beta.md", "b"]], "two artifacts that fit")
    await store.apply(Change([put("c", names=[[], [], [], ["/A/BETA/", "/a/BETA/"]])]))
    await expect_edges(store, ["x"], [[Edge("x", "c", "pair"), Edge("x", "c", "related")]])
    await store.apply(Change([put("b", names=[["/a/beta/"]])], removals=["c"]))  # its names now count as written only
    await expect_edges(store, ["x"], [folded])
    await store.apply(Change(removals=["a/Beta.md"]))
    await expect_edges(store, ["x"], [[]])


@case(CASES, "writing", "counts")
async def _counts_count_links_by_state(fixture):
    foreign = Link("a", target_source="else")
    store = await fixture.open_store(
        [put("a", names=[[], ["T"]]), put("x", links=[Link("T"), Link("no"), foreign, Link("x")])]
    )
    for puts, removals, expected in (
        ([put("b", names=[[], ["T"]])], [], (1, 1, 1, 1)),
        ([put("no")], [], (2, 0, 1, 1)),
        ([], ["b", "no"], (2, 1, 0, 1)),
        ([put("x", links=[foreign, foreign, Link("gone"), Link("gone", line=2)])], [], (0, 2, 0, 2)),
        ([], ["x"], (0, 0, 0, 0)),
    ):
        await store.apply(Change(puts, removals=removals))
        counts = await ask(store, Counts())
        found = tuple(counts[each] for each in ("resolved", "dangling", "ambiguous", "foreign"))
        what = (
            f"resolved, dangling, ambiguous and foreign links after putting {[each.entry.artifact_id for each in puts]}"
        )
        expect_equal(found, expected, f"{what} and removing {removals}")


@case(CASES, "writing", "edges")
async def _the_links_of_a_replaced_artifact_are_removed_and_those_to_it_stay(fixture):
    store = await fixture.open_store(
        [put("a", links=[Link("b")], names=[["nick"]]), put("b"), put("c", links=[Link("nick"), Link("a", "s")])]
    )
    await store.apply(Change([put("a")]))
    await expect_edges(store, ["a", "b", "c"], [[Edge("c", "a", "s")], [], [Edge("c", "a", "s")]], direction="both")


@case(CASES, "writing", "edges")
async def _a_link_or_name_that_cannot_be_stored_is_refused_in_one_line(fixture):
    store = await fixture.open_store([put("a", links=[Link("bad one")])])
    half = Link("b", or_ref="\ud800")
    for bad in (
        *(put("bad one", links=[each]) for each in (Link("\ud800"), half, Link("b", or_ref="x\0"))),
        *(put("bad one", names=[[each]]) for each in ("\ud800", "x\0")),
    ):
        await expect_refusal(StoreError, store.apply(Change([bad])), f"putting {bad.extraction}", "bad one")
        await expect_edges(store, ["a"], [[]])


@case(CASES, "edges")
async def _edges_are_asked_for_by_the_ten_thousand_in_one_call(fixture):
    names = [f"a{at:04}" for at in range(1_000)]
    store = await fixture.open_store([put(name, links=[Link(names[at - 1])]) for at, name in enumerate(names)])
    absent = [f"absent {at}" for at in range(40_000)]
    found = await ask(store, Edges([*absent, *names]))
    expected = [*[[]] * len(absent), *([Edge(name, names[at - 1], "related")] for at, name in enumerate(names))]
    expect_equal(found, expected, "neighbors of 41,000 ids")


@case(CASES, "writing", "edges")
async def _a_second_name_of_a_link_counts_if_the_first_is_dangling_or_ambiguous(fixture):
    store = await fixture.open_store([put("a", names=[[], ["A"], ["T"]]), put("b", names=[[], ["B"], ["T"]])])
    refs = {("gone", "B"): "b", ("A", "gone"): "a", ("T", "B"): "b", ("A", "T"): "a", ("A", "A"): "a", ("T", "T"): ""}
    links = [Link(ref, f"t{at}", or_ref=other) for at, (ref, other) in enumerate(refs)]
    await store.apply(Change([put("x", links=links)]))
    edges = [Edge("x", meant, f"t{at}") for at, meant in enumerate(refs.values()) if meant]
    await expect_edges(store, ["x"], [edges])
    await expect_edges(store, ["a", "b"], [edges[1:2] + edges[3:], [edges[0], edges[2]]], direction="in")


@case(CASES, "writing", "edges")
async def _of_two_names_that_resolve_the_stronger_tier_counts_and_of_equals_the_first(fixture):
    store = await fixture.open_store(
        [put("a", names=[[], ["strong"], ["weak a"]]), put("b", names=[[], [], ["weak b"]])]
    )
    refs = {("strong", "weak b"): "a", ("weak b", "strong"): "a", ("weak b", "weak a"): "b", ("weak a", "weak b"): "a"}
    refs[("strong", "b")] = "b"
    links = [Link(ref, f"t{at}", or_ref=other) for at, (ref, other) in enumerate(refs)]
    await store.apply(Change([put("x", links=links)]))
    await expect_edges(store, ["x"], [[Edge("x", meant, f"t{at}") for at, meant in enumerate(refs.values())]])


@case(CASES, "writing", "edges")
async def _a_link_of_two_names_follows_both_after_each_write(fixture):
    store = await fixture.open_store([put("x", links=[Link("One", or_ref="Two")])])
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
        await store.apply(Change(puts, removals=removals))
        edges = [Edge("x", meant, "related")] if meant else []
        await expect_edges(store, ["x"], [edges])
        await expect_edges(store, list("abcde"), [edges if name == meant else [] for name in "abcde"], direction="in")


@case(CASES, "writing", "links")
async def _a_link_of_two_names_that_dangle_is_stored_under_the_first(fixture):
    store = await fixture.open_store(
        [put("x", links=[Link("One", or_ref="Two")]), put("y", links=[Link("Two", or_ref="One")])]
    )
    nodes = ["One", "Two", "a", ("else", "One")]
    expect_equal(await ask(store, Referrers(nodes)), [["x"], ["y"], [], []], f"referrers({nodes}) while both dangle")
    await store.apply(Change([put(name, names=[[], ["Two"]]) for name in "ab"]))
    expect_equal(
        [len(ids) for ids in await ask(store, Referrers(nodes))],
        [1, 1, 0, 0],
        f"fan_in({nodes}) while one dangles, one is ambiguous",
    )
    await store.apply(Change(removals=["b"]))
    expect_equal(
        await ask(store, Referrers(nodes)), [[], [], ["x", "y"], []], f"referrers({nodes}) once one is resolved"
    )
    expect_equal(await ask(store, MaxFanIn()), 2, "max_fan_in")


@case(CASES, "matching")
async def _matching_asks_about_many_fields_in_one_call(fixture):
    """Ask for more ids than a cache keeps, each of them twice."""
    fields = {f"f{at}": at % 3 for at in range(100)}
    store = await fixture.open_store([put("b", "t", metadata=fields), put("a", "t", metadata=fields | {"f1": "other"})])
    wanted = [(field, value) for _ in range(2) for field, value in (*fields.items(), ("f1", "other"), ("none", 0))]
    once = [["b"] if field == "f1" else ["a", "b"] for field in fields] + [["a"], []]
    expect_equal(await ask(store, Matching(wanted)), once * 2, "matching of 102 pairs, asked twice")


@case(CASES, "writing", "matching")
async def _matching_follows_every_write(fixture):
    store = await fixture.open_store([put(name, "t", metadata={"tag": ["x", name]}) for name in "fe"])
    await expect_matching(store, "tag", [("x", "ef"), ("f", "f")])
    await store.apply(
        Change([put("f", "t", metadata={"tag": "y"}), put("g", "t", metadata={"tag": "x"})], removals=["e"])
    )
    await expect_matching(store, "tag", [("x", "g"), ("y", "f"), ("e", "")])


@case(CASES, "writing", "matching")
async def _matching_counts_an_artifact_while_any_of_its_records_has_the_value(fixture):
    def of_records(*values):
        change = put("a", *values)
        return replace(change, records=[replace(r, metadata={"v": r.text}) for r in change.records])

    store = await fixture.open_store()
    for values in (["x", "y"], ["y"], ["x", "x"]):
        await store.apply(Change([of_records(*values)]))
        await expect_matching(store, "v", [(value, "a" if value in values else "") for value in "xy"])


@case(CASES, "writing", "links")
async def _an_id_of_the_corpus_is_no_ambiguous_reference_even_if_another_artifact_has_that_name(fixture):
    store = await fixture.open_store(
        [put("a", names=[[], ["A"]]), put("b", names=[["a"]]), put("x", links=[Link("a")])]
    )
    await expect_referrers(store, {"a": "", "b": "", "A": ""})
    expect_equal(await ask(store, MaxFanIn()), 0, "max_fan_in of one link to nothing that is a node")
    await store.apply(Change([put("y", links=[Link("A")])]))
    await expect_referrers(store, {"a": "y", "A": ""})
    await store.apply(Change(removals=["b"]))
    await expect_referrers(store, {"a": "xy"})


@case(CASES, "writing", "links")
async def _the_largest_fan_in_counts_artifacts_references_and_foreign_nodes(fixture):
    store = await fixture.open_store()

    async def expect_most(count, what, *links):
        await store.apply(Change([put(each, links=links) for each in "xyz"[:count]]))
        expect_equal(await ask(store, MaxFanIn()), count, f"max_fan_in with {count} links to {what}")
        await store.apply(Change(removals=list("xyz")))

    await store.apply(
        Change([put("a", names=[["A"], ["T"]], links=[Link("a"), Link("A")]), put("b", names=[[], ["T"]])])
    )
    expect_equal(await ask(store, MaxFanIn()), 0, "max_fan_in with links of an artifact to itself alone")
    await expect_most(2, "an artifact by two names", Link("a"), Link("A"))
    await expect_most(
        3, "an artifact of another corpus", Link("a", target_source="else"), Link("a", "r", "typed", "else")
    )
    await expect_most(2, "nothing", Link("gone"), Link("gone", line=2))
    await expect_most(3, "two artifacts at once", Link("T"))
    await store.apply(Change([put("x", links=[Link("a"), Link("a", target_source="else"), Link("T"), Link("gone")])]))
    expect_equal(await ask(store, MaxFanIn()), 1, "max_fan_in with one link to each of four nodes")


@case(CASES, "names", "links")
async def _any_text_can_be_asked_about(fixture):
    store = await fixture.open_store([put(name, links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS)])
    expect_equal(await ask(store, Names(ODD_IDS)), [[each] for each in ODD_IDS], "resolve of odd ids")
    found = await ask(store, Referrers(ODD_IDS))
    expect_equal(found, [[each] for each in (*ODD_IDS[1:], ODD_IDS[0])], "referrers of odd ids")


@case(CASES, "names", "links")
async def _references_and_nodes_are_asked_for_by_the_ten_thousand_in_one_call(fixture):
    names = [f"a{at:04}" for at in range(1_000)]
    store = await fixture.open_store([put(name, links=[Link(names[at - 1])]) for at, name in enumerate(names)])
    asked = [*(f"absent {at}" for at in range(40_000)), *names]
    nothing = [[]] * 40_000
    expect_equal(
        await ask(store, Names(asked)), [*nothing, *([name] for name in names)], "resolve of 41,000 references"
    )
    expected = [*nothing, *([each] for each in (*names[1:], names[0]))]
    expect_equal(await ask(store, Referrers(asked)), expected, "referrers of 41,000 nodes")
    expect_equal(
        [len(ids) for ids in await ask(store, Referrers(asked))], [0] * 40_000 + [1] * 1_000, "fan_in of 41,000 nodes"
    )
