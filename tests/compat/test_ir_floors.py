"""A floor of `ir` is for the scores that `ir` returns."""

import anyio.to_thread
import pytest

from airw import build, from_mapping
from airw.compat import ir
from airw.compat.ir import eval as ir_eval
from airw.evaluation import DiscoveryCase, calibrate_min_score

TEXTS = {
    "keys": "rotate the signing keys",
    "bread": "bake a loaf of bread",
    "lamp": "a moon lamp",
    "list": "sort a list",
}
CASES = [
    DiscoveryCase("signing keys", "keys"),
    DiscoveryCase("loaf of bread", "bread"),
    DiscoveryCase("moon lamp", "lamp"),
    DiscoveryCase("water of Paris"),
    DiscoveryCase("winter in a zebra"),
]


@pytest.mark.asyncio_only
async def test_a_hybrid_floor_is_on_the_scale_of_its_searches(tmp_path):
    path = tmp_path / "notes.airw"
    async with build(from_mapping(TEXTS, name="notes", embedder="light"), store=path) as corpus:
        await calibrate_min_score(corpus, CASES, mode="hybrid", persist=True)

    def use_ir():
        corpus = ir.open_corpus(path)
        before = ir_eval.load_calibration(corpus, "hybrid")
        floor = ir_eval.calibrate_min_score(corpus, CASES, mode="hybrid", k=10).min_score
        hits = ir.search(corpus, "signing keys", mode="hybrid")
        return before, floor, [hit.score for hit in hits], ir.select(hits, min_score=floor).reason

    before, floor, scores, reason = await anyio.to_thread.run_sync(use_ir)
    assert before is None  # the floor of airw is for the evidence
    assert 0 < floor <= max(scores)
    assert not reason.startswith("abstain")
