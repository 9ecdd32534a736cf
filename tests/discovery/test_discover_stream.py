"""The updates that a running discovery reports, and its result."""

import math
from contextlib import suppress
from functools import partial
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.discovery import DiscoveryResult, SourceAnswered, discover, discover_stream
from airw.errors import ArgumentError, DiscoveryError, StoreError
from airw.protocols import Rank, Words
from airw.testing import run_on_virtual_clock
from tests.support.discoveries import ALL, KEYS, corpora
from tests.support.drawing import examples
from tests.support.virtual_time import on_virtual_clock

THREE = {name: {f"{name}{at}": "keys " * (4 - at) for at in (1, 2, 3)} for name in "ABC"}


def without_times(result):
    """Return a result as a dict without its times."""
    told = result.to_dict()
    for report in told["signals"].get("per_source", {}).values():
        del report["seconds"]
    return told


async def collect_updates(many, query="keys", **options):
    """Return every update with the time when it came."""
    updates = []
    async with discover_stream(many, query, **options) as stream:
        async for update in stream:
            updates.append((anyio.current_time(), update))  # noqa: PERF401 - kept when an error comes
    assert stream.result is updates[-1][1]
    return updates


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_source_is_reported_when_it_answers_and_the_result_comes_last(backend):
    async def main():
        delays = {"keys": {Rank: 3.0}, "food": {Rank: 1.0}, "cars": {Rank: 2.0}}
        async with corpora(ALL, delays=delays) as many:
            updates = await collect_updates(many, mode="lexical")
            plain = await discover(many, "keys", mode="lexical")
            return updates, plain

    updates, plain = run_on_virtual_clock(main, backend=backend)
    *answers, (end, result) = updates
    assert [(at, each.source, each.pending) for at, each in answers] == [
        (1, "food", ("keys", "cars")),
        (2, "cars", ("keys",)),
        (3, "keys", ()),
    ]
    assert end == 3
    assert without_times(result) == without_times(plain)
    assert all(each.report["status"] == "ok" for _, each in answers)
    assert [hit.artifact_id for hit in answers[0][1].hits] == ["f2"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_while_the_third_of_three_equal_sources_is_pending_the_first_hits_of_the_others_are_final(backend):
    async def main():
        async with corpora(THREE, delays={"C": {Rank: 1.0}}) as many:
            options = {"mode": "lexical", "merge": "rrf-by-source"}
            return [update for _, update in await collect_updates(many, **options)]

    _, second, third, result = run_on_virtual_clock(main, backend=backend)
    assert second.pending == ("C",)
    assert [hit.artifact_id for hit in second.final] == ["A1", "B1"]
    assert [hit.artifact_id for hit in second.ranking] == ["A1", "B1", "A2", "B2", "A3", "B3"]
    assert third.final == third.ranking
    assert result.ids == ["A1", "B1", "C1"]


@pytest.mark.parametrize("merge", ["rrf", "blend"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_union_knows_the_final_hits_while_a_source_is_pending_that_lacks_the_words(backend, merge):
    others = {f"other{number}": "the weather of today" for number in range(5)}
    texts = {"A": {"a": "keys keys", "b": "rotate the keys of the car", **others}, "B": {"c": "bread"}}

    async def main():
        async with corpora(texts, delays={"A": {Rank: 1.0}, "B": {Rank: 2.0}}) as many:
            return [update for _, update in await collect_updates(many, merge=merge)]

    first, _, result = run_on_virtual_clock(main, backend=backend)
    assert first.pending == ("B",)
    assert [hit.artifact_id for hit in first.final][:2] == ["a", "b"]
    assert result.ids[0] == "a"


def test_nothing_is_final_while_a_source_is_pending_whose_words_nobody_knows():
    async def main():
        async with corpora(THREE, delays={"C": {Words: 1.0}}) as many:
            return [update for _, update in await collect_updates(many, mode="lexical")]

    first, second, third, _ = run_on_virtual_clock(main)
    assert first.final == second.final == ()
    assert third.final == third.ranking


def test_a_source_that_fails_or_hangs_is_reported_and_no_longer_pending():
    async def main():
        options = {"delays": {"A": math.inf}, "failures": {"B": {Rank: StoreError("broken")}}}
        async with corpora(THREE, **options) as many:
            return [update for _, update in await collect_updates(many, mode="lexical", source_timeout=1)]

    first, second, third, result = run_on_virtual_clock(main)
    reports = {each.source: each.report["status"] for each in (first, second, third)}
    assert reports == {"A": "timeout", "B": "failed", "C": "ok"}
    assert third.source == "A"
    assert third.hits == ()
    assert result.ids == ["C1", "C2", "C3"][: len(result.ids)]


async def test_leaving_early_stops_the_sources_that_have_not_answered():
    async with corpora(THREE, delays={"B": math.inf, "C": math.inf}) as many:
        with anyio.fail_after(60):
            async with discover_stream(many, "keys", mode="lexical") as updates:
                async for update in updates:
                    assert update.source == "A"
                    break
        assert [corpus.store.running for corpus in many] == [0, 0, 0]


@on_virtual_clock
async def test_a_cancelled_stream_leaves_nothing_running():
    async with corpora(THREE, delays=dict.fromkeys("ABC", math.inf)) as many:
        with anyio.move_on_after(0.02) as scope:
            await collect_updates(many)
        assert scope.cancelled_caught
        assert [corpus.store.running for corpus in many] == [0, 0, 0]


async def test_if_no_source_answers_an_error_is_raised_in_place_of_the_result():
    failures = {name: {Rank: StoreError("broken")} for name in "ABC"}
    async with corpora(THREE, failures=failures) as many:
        seen = []
        stream = discover_stream(many, "keys", mode="lexical")
        async with stream:
            for _ in many:
                seen.append((await anext(stream)).source)  # noqa: PERF401 - not a stream that ends
            with pytest.raises(DiscoveryError):
                await anext(stream)
    assert sorted(seen) == ["A", "B", "C"]


async def test_one_corpus_streams_too():
    async with corpora({"keys": KEYS}) as (keys,):
        (_, answer), (_, result) = await collect_updates(keys, "signing keys")
        assert (answer.source, answer.pending) == ("keys", ())
        assert without_times(result) == without_times(await discover(keys, "signing keys"))


async def test_updates_convert_to_strict_json():
    import json

    async with corpora(ALL) as many:
        for _, update in await collect_updates(many):
            json.dumps(update.to_dict(), allow_nan=False)


async def test_a_merge_of_the_callers_own_reports_no_ranking_before_all_sources_have_answered():
    async with corpora(ALL) as many:
        *answers, (_, result) = await collect_updates(many, merge=lambda hits: hits["keys"])
    assert all(each.ranking == () for _, each in answers)
    assert result.ids


async def test_a_stream_works_once_and_only_inside_its_block():
    async with corpora(ALL) as many:
        stream = discover_stream(many, "keys")
        with pytest.raises(ArgumentError, match="async with"):
            await anext(stream)
        async with stream:
            with pytest.raises(ArgumentError, match="once"):
                await stream.__aenter__()
            assert len([update async for update in stream]) == 4
            with pytest.raises(StopAsyncIteration):
                await anext(stream)


def test_an_invalid_argument_is_refused_by_the_call_itself():
    with pytest.raises(ArgumentError):
        discover_stream([], "keys")


async def test_an_error_that_is_not_the_fault_of_a_source_is_raised_unchanged():
    async with corpora(ALL) as many:
        with pytest.raises(ArgumentError, match="boost"):
            await collect_updates(many, boost=lambda hit: math.nan)


WORDS = st.lists(st.sampled_from(["keys", "keys keys bread", "bread", "keys and oil"]), max_size=4)


@pytest.mark.slow
@given(st.lists(WORDS, min_size=2, max_size=4), st.data())
@settings(max_examples=examples(50))
def test_no_hit_marked_final_ever_moves(texts, data):
    """This is true for all delays, failures, modes, fusions, weights, floors and identities."""
    names = [f"n{at}" for at in range(len(texts))]
    named = {
        name: {f"{name}-{place}" if word != "bread" else "bread": word for place, word in enumerate(each)}
        for name, each in zip(names, texts, strict=True)
    }
    seconds = st.integers(0, 3).map(float)
    delays = {name: {kind: data.draw(seconds) for kind in (Rank, Words)} for name in names}
    failing = data.draw(st.sets(st.sampled_from(names), max_size=1))
    options = {
        "merge_weights": data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from([0.5, 1.0, 2.0]))),
        "min_score": data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from([0.0, 0.3, 9.0]))),
        "identity": data.draw(st.sampled_from([None, lambda hit: hit.artifact_id == "bread" and "bread"])),
        "mode": data.draw(st.sampled_from(["lexical", "hybrid", "dense"])),
        "merge": data.draw(st.sampled_from(["rrf", "rrf-by-source"])),
        "fusion": data.draw(st.sampled_from(["scores", "ranks", "rrf", "blend"])),
        "k": data.draw(st.sampled_from([1, 2, 10])),
    }

    async def main():
        failures = {name: {Rank: StoreError("broken")} for name in failing}
        async with corpora(named, delays=delays, failures=failures) as many:
            with suppress(DiscoveryError):
                return [update for _, update in await collect_updates(many, "keys bread", **options)]

    updates = run_on_virtual_clock(main) or []
    answers = [update for update in updates if isinstance(update, SourceAnswered)]
    for earlier, later in pairwise(answers):
        for place, hit in enumerate(earlier.ranking):
            if hit.metadata["rank_final"]:
                assert later.ranking[place].key == hit.key
                assert later.ranking[place].metadata["rank_final"]
    assert not updates or isinstance(updates[-1], DiscoveryResult)


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.lists(st.integers(0, 4), min_size=3, max_size=3))
@settings(max_examples=examples(20))
def test_the_result_does_not_depend_on_the_order_of_the_answers(delays, others):
    async def main(seconds):
        by_name = {name: {Rank: float(each)} for name, each in zip(ALL, seconds, strict=True)}
        async with corpora(ALL, delays=by_name) as many:
            return without_times((await collect_updates(many))[-1][1])

    assert run_on_virtual_clock(partial(main, delays)) == run_on_virtual_clock(partial(main, others))


async def test_a_stream_that_has_raised_an_error_is_at_its_end():
    async with corpora({"A": {"a": "keys"}}, failures={"A": {Rank: StoreError("broken")}}) as many:
        async with discover_stream(many, "keys") as stream:
            assert (await anext(stream)).report["status"] == "failed"
            with pytest.raises(DiscoveryError):
                await anext(stream)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        async with discover_stream(many, "keys", boost=lambda hit: math.nan) as stream:
            with suppress(ArgumentError, DiscoveryError):
                async for _ in stream:
                    pass
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
