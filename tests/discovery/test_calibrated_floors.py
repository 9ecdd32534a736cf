"""Discoveries with calibrated floors, and with floors that do not fit any more."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from airw import build, discover
from airw.corpora.floors import BuiltFloor
from airw.errors import ArgumentError
from airw.evaluation import DiscoveryCase, calibrate_min_score
from airw.policies import Beam
from airw.protocols import Calibrations, Change, Rank, Words, ask
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from tests.support.manuals import FOREIGN, OWN, manual

pytestmark = pytest.mark.asyncio_only

CASES = [
    *(DiscoveryCase(text, answer) for text, answer in zip(OWN, ("page014", "page001", "page008"), strict=False)),
    *(DiscoveryCase(text) for text in FOREIGN),
]


@asynccontextmanager
async def open_calibrated(store=None, **options):
    """Yield a corpus with a calibrated floor; it is too small for a build to measure one."""
    async with build(manual(15), store=store or MemoryStore()) as corpus:
        found = await calibrate_min_score(corpus, CASES, persist=True, **options)
        yield corpus, found


async def store_built_floor(corpus, mode, **fields):
    weights = {mode: 1.0} if mode != "hybrid" else {"dense": 1.0, "lexical": 1.0}
    counts = await ask(corpus.store, Words([""]))
    given = {"weights": weights, "formula": counts.formula, **fields}
    floor = BuiltFloor(-9.0, mode, corpus.embedder.id, **given)
    await corpus.store.apply(Change(calibrations={floor.key: floor.to_dict()}))


async def change(corpus, key, **changes):
    await corpus.store.apply(
        Change(calibrations={key: {**(await ask(corpus.store, Calibrations())).get(key, {}), **changes}})
    )


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_the_result_explains_in_words_and_figures_why_it_abstains(mode):
    # Without stop words, the foreign question would have no word in common with the corpus.
    async with open_calibrated(MemoryStore(language=None), mode=mode) as (corpus, found):
        result = await discover(corpus, FOREIGN[0], mode=mode)
    signals = result.signals
    assert (result.reason, signals["floor"], signals["floor_kind"]) == (
        "abstain:below_floor",
        found.min_score,
        "calibrated",
    )
    assert signals["evidence"] < signals["floor"]
    words = signals["explanation"]
    assert words.startswith(f"evidence {signals['evidence']:.3f} is below the calibrated floor {found.min_score:.3f}: ")
    assert ("best cosine" in words, "best match of words" in words) == (mode != "lexical", mode != "dense")
    assert "lead of the best artifact" in words


async def test_each_of_several_corpora_has_its_floor():
    async with open_calibrated() as (corpus, found), build(manual(15), store=MemoryStore()) as other:
        await store_built_floor(other, "hybrid")
        result = await discover({"one": corpus, "two": other}, OWN[0])
        reports = result.signals["per_source"]
    assert result.ids
    assert (reports["one"]["floor"], reports["one"]["floor_kind"]) == (found.min_score, "calibrated")
    assert reports["two"]["floor_kind"] == "built"
    assert "reaches the calibrated floor" in reports["one"]["explanation"]
    assert "reaches the built floor" in reports["two"]["explanation"]


async def test_a_hybrid_discovery_asks_no_more_for_its_evidence():
    async with open_calibrated() as (corpus, _):
        searched = []
        for options in ({"min_score": None}, {}):
            store = ScriptedStore(corpus.store)
            await discover(replace(corpus, store=store), OWN[0], **options)
            searched.append(sorted(request.needs for request in store.log if isinstance(request, Rank)))
        assert searched == [["dense", "lexical"]] * 2


async def test_a_floor_of_the_evidence_fits_searches_that_move_scores():
    async with open_calibrated() as (corpus, found):
        signals = (await discover(corpus, OWN[0], boost=lambda hit: 0.5, min_score="auto")).signals
    assert (signals["floor"], signals["floor_kind"]) == (found.min_score, "calibrated")


@pytest.mark.parametrize(("signal", "kind"), [("evidence", "calibrated"), ("score", None)])
async def test_a_walk_abstains_by_the_calibrated_floor_of_the_evidence(signal, kind):
    async with open_calibrated(signal=signal) as (corpus, _):
        far, near = [await discover(corpus, text, walk=Beam()) for text in (FOREIGN[0], OWN[0])]
        without_floor = await discover(corpus, FOREIGN[0], walk=Beam(), min_score=None)
    assert near.ids
    assert far.signals.get("floor_kind") == kind
    assert far.ids == ([] if kind else without_floor.ids)
    assert without_floor.reason == "nonpositive_top"


async def test_a_floor_of_the_scores_of_another_fusion_is_missed():
    async with open_calibrated(signal="score", fusion="rrf") as (corpus, _):
        with pytest.warns(UserWarning, match=r"nothing is calibrated for 'hybrid\+blend', only for 'hybrid': call"):
            assert (await discover(corpus, OWN[0], fusion="blend")).ids
        # As of a file of the time when another fusion was the default.
        with pytest.warns(UserWarning, match=r"only for 'hybrid': call"):
            assert (await discover(corpus, OWN[0])).ids


async def test_a_floor_of_the_evidence_is_no_threshold_of_each_score():
    async with open_calibrated() as (corpus, _):
        with pytest.raises(ArgumentError, match="not for each score: call calibrate_min_score"):
            await discover(corpus, OWN[0], strategy="abs_threshold", min_score="auto")


@pytest.mark.parametrize("signal", ["evidence", "score"])
async def test_a_floor_of_texts_that_were_split_in_another_way_is_refused_and_the_built_one_applies(signal):
    async with open_calibrated(mode="lexical", signal=signal) as (corpus, _):
        await change(corpus, "lexical", formula="stems of Elvish")
        await store_built_floor(corpus, "lexical")
        with pytest.warns(UserWarning, match=r"split or weighed in another way: call calibrate_min_score.* again"):
            signals = (await discover(corpus, OWN[0], mode="lexical")).signals
    assert signals["floor_kind"] == "built"
    assert "another way" in signals["floor_note"]


async def test_a_floor_of_cosines_does_not_depend_on_how_texts_are_split():
    async with open_calibrated(mode="dense") as (corpus, _):
        await change(corpus, "dense", formula="stems of Elvish")
        assert (await discover(corpus, OWN[0], mode="dense")).signals["floor_kind"] == "calibrated"


@pytest.mark.parametrize(
    ("way", "is_valid"),
    [
        ({"mode": "dense"}, True),
        ({"fusion": "rrf"}, True),
        ({"fusion": "blend"}, False),
        ({"mode": "lexical"}, False),
    ],
)
async def test_a_floor_of_an_older_file_stays_valid_unless_its_scores_mean_something_else(way, is_valid):
    async with open_calibrated(signal="score", **way) as (corpus, found):
        record = (await ask(corpus.store, Calibrations())).get(found.key, {})
        older = {name: value for name, value in record.items() if name not in ("signal", "weights", "formula")}
        await corpus.store.apply(Change(calibrations={found.key: older}))
        if is_valid:
            signals = (await discover(corpus, OWN[0], **way)).signals
            assert (signals["floor"], signals["floor_kind"]) == (found.min_score, "calibrated")
            assert signals["explanation"].startswith("best score ")
        else:
            with pytest.warns(UserWarning, match="call calibrate_min_score"):
                await discover(corpus, OWN[0], **way)


@pytest.mark.slow
async def test_a_built_floor_of_another_formula_waits_for_the_next_build():
    store = MemoryStore()
    async with build(manual(), store=store) as corpus:
        await change(corpus, "built:lexical", formula="stems of Elvish")
        assert "floor" not in (await discover(corpus, OWN[0], mode="lexical")).signals
    async with build(manual(), store=store) as corpus:
        assert (await discover(corpus, OWN[0], mode="lexical")).signals["floor_kind"] == "built"


@pytest.mark.parametrize(
    "damage",
    [
        {"min_evidence": "high"},
        {"weights": None},
        {"weights": {"dense": "x"}},
        {"enough": None},
        {"enough": {"evil": 1}},
        {"offset": "x"},
    ],
)
async def test_a_damaged_built_floor_is_none_and_ends_no_discovery(damage):
    async with build(manual(15), store=MemoryStore()) as corpus:
        await store_built_floor(corpus, "hybrid")
        assert (await discover(corpus, OWN[0])).signals["floor_kind"] == "built"
        await change(corpus, "built:hybrid", **damage)
        result = await discover(corpus, OWN[0])
        assert result.ids
        assert "floor" not in result.signals


@pytest.mark.parametrize("weights", [None, {}, {"dense": "much"}, {"color": 1.0}, [1.0]])
async def test_weights_that_a_file_should_not_contain_are_refused(weights):
    async with open_calibrated() as (corpus, found):
        await change(corpus, found.key, weights=weights)
        with pytest.warns(UserWarning, match="weights stored under 'hybrid"):
            assert (await discover(corpus, OWN[0], min_score="auto")).ids
