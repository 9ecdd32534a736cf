"""Selection of a few hits or none: rules, reasons and numbers, also compared with `ir`."""

import inspect
import json
import math
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel
import ir
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.discovery import REASONS, STRATEGIES, make_llm_selector, select
from airw.discovery.llm_selection import parse_labels
from airw.discovery.selection import abstain
from airw.errors import ArgumentError, ArgumentKindError
from airw.values import SearchHit


def hit(name, score=1.0, source=None, text=None, **metadata):
    return SearchHit(name, "document", score, f"text of {name}" if text is None else text, metadata, source)


def hits(*scores):
    return [hit("abcdefgh"[at], score) for at, score in enumerate(scores)]


def ids(chosen):
    return "".join(chosen.selected_ids)


def outcome(*scores, **options):
    chosen = select(hits(*scores), **options)
    return ids(chosen), chosen.reason


@pytest.mark.parametrize(
    ("scores", "options", "chosen", "reason"),
    [
        ((), {}, "", "abstain:no_candidates"),
        ((0.7,), {}, "a", "single"),
        ((0.9, 0.85, 0.5), {}, "ab", "rel_threshold"),
        ((0.9, 0.5), {}, "a", "rel_threshold"),
        ((0.9, 0.9, 0.9, 0.9), {}, "abc", "max_k"),
        ((0.9, 0.9, 0.9, 0.9), {"max_k": 1}, "a", "max_k"),
        ((0.9, 0.88), {}, "ab", "exhausted"),
        ((0.9, 0.1), {"rel": 0}, "ab", "exhausted"),
        ((0.5, 0.45), {"rel": 0.9}, "ab", "exhausted"),
        ((-0.1, -0.2), {}, "a", "nonpositive_top"),
        ((-0.1,), {}, "a", "single"),
        ((0.9, -0.9), {"rel": 0}, "a", "rel_threshold"),
        ((0.3, 0.29), {"min_score": 0.31}, "", "abstain:below_floor"),
        ((0.3, 0.29), {"min_score": 0.3}, "ab", "exhausted"),
        ((0.01, 0.5), {}, "ab", "exhausted"),
        ((math.inf, math.inf, 1.0), {}, "ab", "rel_threshold"),
    ],
)
def test_the_conservative_rule_keeps_the_first_hit_and_those_close_to_it(scores, options, chosen, reason):
    assert outcome(*scores, **options) == (chosen, reason)


def test_a_first_score_of_zero_is_no_evidence():
    """F9: a query whose words no text has selects nothing."""
    assert outcome(0.0, 0.0) == ("", "abstain:no_evidence")
    assert outcome(-0.0) == ("", "abstain:no_evidence")
    assert outcome(0.0, min_score=-1) == ("", "abstain:no_evidence")
    assert outcome(0.0, min_score=0.1) == ("", "abstain:below_floor")
    assert outcome(0.0, 0.0, strategy="rel_threshold") == ("", "abstain:no_evidence")


def test_the_signals_of_the_conservative_rule_describe_the_hits_it_kept():
    assert select(hits(0.8, 0.78, 0.1)).signals == {
        "n_candidates": 3,
        "top_score": 0.8,
        "min_ratio": 0.78 / 0.8,
        "n_selected": 2,
    }
    assert select(hits(0.8, 0.1)).signals["min_ratio"] == 1
    assert select(hits(0.3), min_score=0.5).signals == {
        "n_candidates": 1,
        "top_score": 0.3,
        "min_ratio": None,
        "n_selected": 0,
        "min_score": 0.5,
    }


@pytest.mark.parametrize(
    ("strategy", "scores", "options", "chosen"),
    [
        ("top_k", (3, 2, 1), {"max_k": 2}, "ab"),
        ("top_k", (0.0, 0.0), {}, "ab"),
        ("abs_threshold", (0.9, 0.5, 0.4), {"min_score": 0.5}, "ab"),
        ("abs_threshold", (0.9, 0.8, 0.7), {"min_score": 0.5, "max_k": 1}, "a"),
        ("abs_threshold", (0.3,), {"min_score": 0.5}, ""),
        ("abs_threshold", (0.1, 0.9), {"min_score": 0.5}, "b"),
        ("rel_threshold", (1.0, 0.6, 0.5, 0.4), {"rel": 0.5}, "abc"),
        ("rel_threshold", (-0.1, -0.1), {}, "a"),
        ("rel_threshold", (math.inf, math.inf, 1.0), {"rel": 0}, "ab"),
        ("score_gap", (1.0, 0.9, 0.2, 0.19), {}, "ab"),
        ("score_gap", (1.0, 0.5), {}, "ab"),
        ("score_gap", (1.0, 0.9, 0.8, 0.7), {}, "abc"),
        ("score_gap", (0.0, 0.0, 0.0), {}, "a"),
        ("score_gap", (1.0, 0.0, 0.0), {"gap_ratio": 0}, "ab"),
        ("score_gap", (), {}, ""),
        ("rel_threshold", (), {}, ""),
    ],
)
def test_the_reason_of_the_other_rules_is_their_name(strategy, scores, options, chosen):
    found = select(hits(*scores), strategy=strategy, **options)
    assert (ids(found), found.abstained) == (chosen, not chosen)
    assert found.reason == (strategy if chosen else f"abstain:{strategy}")
    assert found.signals == {
        "n_candidates": len(scores),
        "n_selected": len(chosen),
        "top_score": scores[0] if scores else None,
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hit_with_a_score_of_nan_is_never_chosen_by_a_named_rule(strategy):
    """F24."""
    nan = math.nan
    found = select(hits(nan, 0.9, nan, 0.89), strategy=strategy, min_score=0.5)
    assert (ids(found), found.signals["top_score"], found.signals["n_candidates"]) == ("bd", 0.9, 4)
    lost = select(hits(nan, nan), strategy=strategy, min_score=0.5)
    assert (ids(lost), lost.reason, lost.abstained) == ("", "abstain:no_scores", True)
    assert "NaN" not in json.dumps([found.to_dict(), lost.to_dict()], allow_nan=False)
    assert select(hits(np.float32(nan), 0.9), strategy=strategy, min_score=0.5).selected_ids == ["b"]


def test_the_order_of_the_hits_is_not_changed():
    assert outcome(0.2, 0.9, 0.1, strategy="top_k", max_k=2) == ("ab", "top_k")


@pytest.mark.parametrize(
    "options",
    [
        {"max_k": 0},
        {"max_k": -1},
        {"max_k": 1.5},
        {"max_k": True},
        {"rel": -0.1},
        {"rel": 1.1},
        {"rel": math.nan},
        {"rel": "0.9"},
        {"rel": True},
        {"gap_ratio": -1},
        {"gap_ratio": 2},
        {"gap_ratio": math.nan},
        {"gap_ratio": None},
        {"min_score": math.nan},
        {"min_score": math.inf},
        {"min_score": "auto"},
        {"min_score": True},
        {"strategy": "best"},
        {"strategy": None},
        {"strategy": "abs_threshold"},
    ],
)
@pytest.mark.parametrize("scores", [(), (0.5, 0.4)])
def test_invalid_parameters_are_refused_with_any_hits(options, scores):
    """F31: one rule for all strategies."""
    with pytest.raises(ArgumentError) as caught:
        select(hits(*scores), **options)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert next(iter(options)) in str(caught.value)


def test_numpy_numbers_are_accepted():
    assert outcome(np.float32(0.9), np.float64(0.88), rel=np.float32(0.5), min_score=np.float64(0.1))[0] == "ab"


def test_a_function_chooses_among_the_hits_and_is_cut_at_max_k():
    found = select(hits(4, 3, 2, 1), strategy=reversed, max_k=2)
    assert (ids(found), found.reason) == ("dc", "custom")
    assert found.signals == {"n_candidates": 4, "n_selected": 2, "top_score": 4}
    nothing = select(hits(4, 3), strategy=lambda _: [])
    assert (nothing.reason, nothing.abstained) == ("abstain:custom", True)


def test_a_hit_that_a_function_chooses_twice_counts_once():
    """F30."""
    chosen = select(hits(2, 1), strategy=lambda given: [given[1], given[1], replace(given[1]), given[0]])
    assert ids(chosen) == "ba"


def test_a_function_may_return_equal_hits_and_the_original_ones_are_selected():
    given = hits(2, 1)
    chosen = select(given, strategy=lambda _: [replace(given[1])])
    assert chosen.selected[0] is given[1]


def test_equal_hits_that_occur_twice_may_be_chosen_twice():
    twice = [hit("a"), hit("a")]
    assert ids(select(twice, strategy=lambda given: given)) == "aa"


@pytest.mark.parametrize("foreign", [hit("z"), hit("a", 0.1), "a", None])
def test_a_function_that_returns_another_hit_is_refused(foreign):
    with pytest.raises(ArgumentError, match="may only select hits that it received"):
        select(hits(2, 1), strategy=lambda given: [given[0], foreign])


@pytest.mark.parametrize("answer", [None, 3])
def test_a_function_that_returns_no_list_of_hits_is_refused(answer):
    with pytest.raises(ArgumentKindError, match="must return a list of the hits it selects"):
        select(hits(2, 1), strategy=lambda _: answer)


def test_a_function_cannot_change_what_it_chooses_from():
    given = hits(2, 1)
    found = select(given, strategy=lambda own: own.clear() or [])
    assert found.candidates == given == hits(2, 1)


def test_an_async_function_is_refused_with_a_remedy_and_leaves_no_warning():
    async def choose(given):
        return given

    for strategy in (choose, make_llm_selector("q", chooser=list)):
        with pytest.raises(ArgumentError, match=r"await selector\(hits\).*lambda _: chosen.*discover") as caught:
            select(hits(2, 1), strategy=strategy)
        assert "\n" not in str(caught.value)


def test_a_selection_with_hits_is_sufficient():
    assert select(hits(0.5)).sufficient
    assert not select([]).sufficient
    assert not replace(select(hits(0.5)), abstained=True).sufficient


def test_a_selection_converts_to_json():
    told = select([hit("a", np.float32(0.5), "notes", path="p", odd={1, 2}), hit("b", math.inf)], strategy="top_k")
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False)) == {
        "selected": [
            {
                "artifact_id": "a",
                "surface_kind": "document",
                "score": 0.5,
                "text": "text of a",
                "metadata": {"path": "p", "odd": [1, 2]},
                "source": "notes",
                "surface_index": None,
            },
            hit("b", math.inf).to_dict(),
        ],
        "selected_ids": ["a", "b"],
        "abstained": False,
        "sufficient": True,
        "reason": "top_k",
        "signals": {"n_candidates": 2, "n_selected": 2, "top_score": 0.5},
        "n_candidates": 2,
    }


SCORES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.1, 0.5, 0.9, 1.0, 30.0]) | st.floats(-2, 2), max_size=6)
SHARES = st.sampled_from([0, 0.0, 0.5, 0.9, 1]) | st.floats(0, 1)
RULES = {
    "first": lambda given: given[:1],
    "none": lambda _: [],
    "last first": lambda given: given[::-1],
}


@given(
    SCORES,
    st.booleans(),
    st.sampled_from([*STRATEGIES, *RULES]),
    st.fixed_dictionaries(
        {"min_score": st.floats(-2, 2)},
        optional={"max_k": st.integers(1, 7), "rel": SHARES, "gap_ratio": SHARES},
    ),
)
def test_random_hits_are_selected_like_in_ir(scores, ranked, strategy, options):
    """Selected hits, reason and numbers are equal, except where the two differ on purpose.

    Not compared are `max_k` below 1, shares outside 0 to 1 and floors that are not finite: this library refuses
    them. Not compared are scores that are not finite, and a first score of 0: `ir` commits to it under two rules.
    """
    scores = sorted(scores, reverse=True) if ranked else scores
    options["strategy"] = RULES.get(strategy, strategy)
    ours = select(hits(*scores), **options)
    theirs = ir.select(
        [ir.SearchHit(each.artifact_id, "document", each.score, each.text) for each in hits(*scores)], **options
    )
    if scores and scores[0] == 0 and strategy in ("conservative", "rel_threshold") and not theirs.abstained:
        assert (ids(ours), ours.reason) == ("", "abstain:no_evidence")
        return
    assert (ours.selected_ids, ours.reason, ours.signals, ours.abstained, ours.sufficient) == (
        theirs.selected_ids,
        theirs.reason,
        theirs.signals,
        theirs.abstained,
        theirs.sufficient,
    )
    assert ours.to_dict() == theirs.to_dict()


@given(SCORES, st.sampled_from(STRATEGIES), st.integers(1, 7))
def test_selected_hits_keep_their_order(scores, strategy, max_k):
    given_hits = hits(*scores)
    found = select(given_hits, strategy=strategy, max_k=max_k, min_score=0.0)
    assert len(found.selected) <= max_k
    assert found.selected == [each for each in given_hits if each in found.selected]
    assert found.abstained == (not found.selected) == found.reason.startswith("abstain:")


# A language model chooses


async def choose_by(answer, given, **options):
    """Return the keys of the chosen hits, and the candidates that the model saw."""
    shown = []

    def chooser(*, query, candidates):
        shown.append((query, candidates))
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = await make_llm_selector("the query", chooser=chooser, **options)(given)
    assert all(query == "the query" for query, _ in shown)
    return [each.key for each in found], [candidates for _, candidates in shown]


async def test_a_model_sees_one_line_per_candidate_and_its_order_is_kept():
    given = [hit("a", text="one\n\n two"), hit("b", text="three"), hit("c", text="")]
    assert await choose_by(["b", "a"], given) == ([(None, "b"), (None, "a")], ["a: one two\nb: three\nc: "])


async def test_a_model_that_names_nothing_abstains():
    """F30."""
    for nothing in ([], (), set(), iter([])):
        assert (await choose_by(nothing, hits(1, 1)))[0] == []


@pytest.mark.parametrize(
    "answer",
    [RuntimeError("the model is down"), ["z"], ["z", ""], [1], [None, ["a"]], "a", "", None, 3],
    ids=repr,
)
async def test_if_a_model_fails_or_answers_nonsense_the_conservative_rule_decides(answer):
    assert (await choose_by(answer, hits(1.0, 0.95, 0.1)))[0] == [(None, "a"), (None, "b")]
    assert (await choose_by(answer, hits(1.0, 0.95, 0.1), fallback=lambda given: given[2:]))[0] == [(None, "c")]


async def test_a_fallback_may_be_async():
    async def last(given):
        await anyio.lowlevel.checkpoint()
        return given[-1:]

    assert (await choose_by(["z"], hits(1, 1), fallback=last))[0] == [(None, "b")]


async def test_unknown_labels_are_dropped_and_repeated_ones_count_once():
    """F30."""
    found, _ = await choose_by(["z", "b", " b ", "a", 7, "b"], hits(1, 1, 1))
    assert found == [(None, "b"), (None, "a")]


async def test_one_id_in_two_sources_is_two_candidates():
    """F30."""
    given = [hit("a", source="x"), hit("a", source="y"), hit("b", source="y")]
    found, [candidates] = await choose_by(["y/a", "x/a", "b", "a"], given)
    assert found == [("y", "a"), ("x", "a"), ("y", "b")]
    assert [line.split(":")[0] for line in candidates.splitlines()] == ["x/a", "y/a", "b"]


async def test_an_id_that_looks_like_the_label_of_another_has_a_label_of_its_own():
    given = [hit("x/a", source="z"), hit("a", source="x"), hit("a", source="y"), hit("a"), hit("b\n"), hit("b")]
    _, [candidates] = await choose_by([], given)
    labels = [line.split(":")[0] for line in candidates.splitlines()]
    assert labels == ["x/a", "x/a*", "y/a", "a", "b", "b*"]
    assert (await choose_by(labels, given))[0] == [each.key for each in given]


async def test_an_artifact_is_one_candidate_with_its_first_hit():
    given = [hit("a", 0.9, text="best"), hit("a", 0.8, text="worse"), hit("b", 0.7)]
    found, [candidates] = await choose_by(["a"], given)
    assert (found, candidates) == ([(None, "a")], "a: best\nb: text of b")


async def test_a_model_sees_at_most_max_candidates():
    found, [candidates] = await choose_by(["c", "b"], hits(1, 1, 1), max_candidates=2)
    assert (found, len(candidates.splitlines())) == ([(None, "b")], 2)


async def test_without_hits_the_model_is_not_called():
    assert await choose_by(["a"], []) == ([], [])


async def test_a_set_of_labels_comes_in_the_order_of_the_candidates():
    assert (await choose_by(set("fedcba"), hits(*[1] * 6)))[0] == [(None, name) for name in "abcdef"]


async def test_an_async_model_is_awaited_and_cancelling_is_not_a_failure():
    async def chooser(*, query, candidates):
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await make_llm_selector("q", chooser=chooser)(hits(1))
    assert scope.cancelled_caught

    async def quick(*, query, candidates):
        await anyio.lowlevel.checkpoint()
        return ["b"]

    assert [each.artifact_id for each in await make_llm_selector("q", chooser=quick)(hits(1, 1))] == ["b"]


async def test_a_sync_model_does_not_block_the_event_loop():
    started = anyio.Event()
    release = []

    def chooser(*, query, candidates):
        anyio.from_thread.run_sync(started.set)
        while not release:
            anyio.from_thread.run(anyio.sleep, 0.001)
        return ["a"]

    async with anyio.create_task_group() as group:
        group.start_soon(make_llm_selector("q", chooser=chooser), hits(1))
        with anyio.fail_after(60):
            await started.wait()
        release.append(True)


def test_model_selectors_compare_by_value():
    make = partial(make_llm_selector, "q", chooser=sorted)
    assert make() == make() != make(max_candidates=3)
    assert "max_candidates=10" in repr(make())
    assert inspect.iscoroutinefunction(type(make()).__call__)


@pytest.mark.parametrize("options", [{"query": 3}, {"max_candidates": 0}, {"chooser": ["a"]}, {"fallback": "top_k"}])
def test_a_model_selector_checks_its_arguments(options):
    with pytest.raises(ArgumentError):
        make_llm_selector(**{"query": "q", "chooser": sorted, **options})


async def test_a_choice_of_a_model_passes_through_select_as_a_strategy():
    given = hits(1.0, 0.2, 0.1)
    chosen = await make_llm_selector("q", chooser=lambda **_: ["c", "b"])(given)
    found = select(given, strategy=lambda _: chosen, max_k=1)
    assert (ids(found), found.reason) == ("c", "custom")


KNOWN = ["a.md", "b.md", "b.md: x", "a b", "notes/a.md", "c,d", "1. e"]


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("b.md\na.md", ["b.md", "a.md"]),
        ("1. `b.md`\n2. **a.md**", ["b.md", "a.md"]),
        ("The helpful ones:\n- notes/a.md: it says so", ["notes/a.md"]),
        ("b.md, a.md,z.md", ["b.md", "a.md"]),
        ('["a.md", "b.md"]', ["a.md", "b.md"]),
        ("c,d", ["c,d"]),
        ("1. e", ["1. e"]),
        ("b.md: x", ["b.md: x"]),
        ("b.md: x: y", ["b.md: x"]),
        ("b.md: y", ["b.md"]),
        ("2. a.md — it says so", ["a.md"]),
        ("a.md (the best)", ["a.md"]),
        ("a.mdx", None),
        ("a.md\nz.md\na.md", ["a.md"]),
        ("a   b", ["a b"]),
        ("None", []),
        ("none.", []),
        ("- none", []),
        ("**None** of the candidates helps.", []),
        ("None\n\nThey only share words.", []),
        ("[]", []),
        ("```json\n[]\n```", []),
        ("None, but a.md\na.md", ["a.md"]),
        ("none.md", None),
        ("nonesuch", None),
        ("I would take the first.", None),
        ("z.md", None),
        ("", None),
        ("```\n```", None),
    ],
)
def test_the_answer_of_a_model_is_read_as_labels_none_or_nonsense(answer, labels):
    assert parse_labels(answer, KNOWN) == labels


def test_a_candidate_that_is_called_none_can_be_chosen():
    assert parse_labels("none", ["none", "a"]) == ["none"]


@given(st.lists(st.sampled_from(KNOWN), unique=True), st.sampled_from(["{}", "- {}", "`{}`", "{}: why"]))
def test_each_label_is_read_with_any_decoration(labels, decoration):
    assert parse_labels("\n".join(map(decoration.format, labels)), KNOWN) == (labels or None)


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_no_answer_yields_an_unknown_label(answer, known):
    assert {*(parse_labels(answer, known) or [])} <= {*known}


def test_abstain_keeps_the_candidates_and_the_signals():
    selection = abstain([hit("a", 0.8), hit("b", math.nan)], "below_floor", floor=0.4, evidence=0.1)
    assert (selection.selected, selection.abstained, selection.sufficient) == ([], True, False)
    assert selection.reason == "abstain:below_floor"
    assert len(selection.candidates) == 2
    assert selection.signals == {
        "n_candidates": 2,
        "n_selected": 0,
        "top_score": 0.8,
        "min_ratio": None,
        "floor": 0.4,
        "evidence": 0.1,
    }
    assert abstain([], "below_floor").signals["top_score"] is None


def test_each_reason_that_a_strategy_gives_is_explained():
    scores = ((), (0.0,), (-1.0,), (-1.0, -2.0), (math.nan,), (1.0,), (1.0, 0.1), (1.0, 1.0), (1.0, 1.0, 1.0))
    selections = [
        select(hits(*each), strategy=strategy, max_k=2, min_score=floor)
        for strategy in (*STRATEGIES, lambda hits: hits, lambda _: ())
        for each in scores
        for floor in (0.5, 2.0)
    ]
    for found in selections:
        assert found.explanation == REASONS[found.reason]
