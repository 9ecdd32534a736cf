"""Discoveries without a calibration: few hits, or none, by the floors that builds measure."""

import pytest

from airw import build, discover
from airw.evaluation import DiscoveryCase, calibrate_min_score
from airw.policies import Beam
from airw.sources import from_mapping
from airw.stores import MemoryStore
from tests.support.manuals import FOREIGN, OWN, manual

pytestmark = pytest.mark.asyncio_only


@pytest.fixture(params=["list", "one"])
async def corpora(request):
    async with build(manual(), store=MemoryStore()) as corpus:
        yield corpus if request.param == "one" else [corpus]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"mode": "lexical"}, {"fusion": "blend"}, {"rerank": lambda q, t: [1.0] * len(t)}]
)
async def test_foreign_questions_get_none_and_own_ones_an_answer_without_calibration(corpora, options):
    for question in FOREIGN:
        result = await discover(corpora, question, **options)
        assert result.ids == []
        assert result.reason in {"abstain:below_floor", "abstain:all_sources_below_floor", "abstain:no_evidence"}
    for question in OWN:
        assert (await discover(corpora, question, **options)).ids


@pytest.mark.slow
async def test_no_floor_is_asked_for_with_none(corpora):
    assert (await discover(corpora, "What is the capital of the proxy?", min_score=None)).ids


@pytest.mark.slow
async def test_the_report_names_the_floor_and_the_evidence():
    async with build(manual(), store=MemoryStore()) as corpus:
        report = (await discover([corpus], FOREIGN[0])).signals["per_source"]["manual"]
        assert report["floor_kind"] == "built"
        assert report["evidence"] < report["floor"] == corpus.report.floors["hybrid"].min_evidence


@pytest.mark.slow
async def test_a_calibration_replaces_the_built_floor():
    async with build(manual(), store=MemoryStore()) as corpus:
        cases = [
            DiscoveryCase(text, corpus_id)
            for text, corpus_id in zip(OWN, ("page014", "page001", "page008"), strict=False)
        ]
        cases += [DiscoveryCase(text) for text in FOREIGN]
        await calibrate_min_score(corpus, cases, persist=True, fusion="ranks")
        report = (await discover([corpus], FOREIGN[0])).signals["per_source"]["manual"]
        assert report["floor_kind"] == "calibrated"


async def test_a_walk_abstains_too():
    async with build(manual(), store=MemoryStore()) as corpus:
        assert (await discover(corpus, FOREIGN[0], walk=Beam())).ids == []


async def test_a_few_notes_answer_without_a_floor_and_without_a_warning():
    texts = {"keys": "rotate the signing keys", "bread": "bake a loaf of bread", "list": "sort a list"}
    async with build(from_mapping(texts, name="notes", embedder="light"), store=MemoryStore()) as corpus:
        assert (await discover(corpus, "signing keys")).ids == ["keys"]
