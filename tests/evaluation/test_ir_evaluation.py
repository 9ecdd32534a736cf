"""Evaluations and generated cases are those of `ir`, with the same corpus and cases.

`ir` is the published package, used as an oracle. Its curve of distractors is drawn, ours is exact; both agree where the
catalogue has one artifact, or all of them.
"""

import math

import pytest
from ir import eval as their_eval, eval_gen as their_generator
from ir.sources import CorpusSource

from airw import evaluation, from_mapping
from airw.evaluation import DiscoveryCase, FlatSearch, evaluate
from tests.support.ir_twins import DEFAULTS, TEXTS, embed, our_corpus, simple, their_corpus

pytestmark = pytest.mark.slow

ASKED = [
    ("rotate the signing keys", ("keys.md",)),
    ("sign the build", ("deploy.md", "gone")),
    ("plant bread", ("bread.md", "garden.md")),
    ("zebra crossing", ()),
    ("the", ("gone",)),
]
CASES = [DiscoveryCase(query, gold) for query, gold in ASKED]
THEIR_CASES = [their_eval.DiscoveryCase(query, gold) for query, gold in ASKED]
DENSE = {**DEFAULTS, "mode": "dense"}


@pytest.mark.parametrize(("k", "floor"), [(2, None), (10, 0.1), (10, 0.9)])
async def test_rankings_and_failures_are_measured_like_in_ir(k, floor):
    options = {"mode": "dense", "primary_k": k, "k_values": (1, 3), "abstain_threshold": floor}
    theirs = their_eval.evaluate_discovery(their_corpus(TEXTS), THEIR_CASES, **options)
    measures = sorted(theirs.retrieval.metrics)
    async with our_corpus(TEXTS) as corpus:
        ours = await evaluate(corpus, CASES, FlatSearch(DENSE), measures=measures, k=max(3, k))
    assert simple(ours.means()) == simple(dict(theirs.retrieval.metrics))
    assert ours.failure_classes(k, floor) == dict(theirs.failure_classes)
    assert (ours.n_gold, ours.n_abstention) == (theirs.n_gold, theirs.n_abstention)
    assert (None if floor is None else ours.abstention_accuracy(floor)) == theirs.abstention_accuracy
    for at, row in enumerate(ours.rows):
        if row.case.gold:
            values = {str(measure): row.measure(measure) for measure in ours.measures}
            assert simple(values) == simple(dict(theirs.retrieval.per_query[f"q{at:05d}"]))


@pytest.mark.parametrize(
    ("strategy", "max_k", "rel"), [("conservative", 3, 0.9), ("top_k", 2, 0.5), ("score_gap", 3, 0.9)]
)
async def test_selections_are_measured_like_in_ir(strategy, max_k, rel):
    options = {"strategy": strategy, "max_k": max_k, "rel": rel}
    theirs = their_eval.evaluate_selection(their_corpus(TEXTS), THEIR_CASES, mode="dense", **options)
    async with our_corpus(TEXTS) as corpus:
        ours = await evaluation.evaluate_selection(corpus, CASES, **options, **DENSE)
    assert simple(ours.to_dict()) == simple(theirs.to_dict())


async def test_a_sweep_has_the_points_and_the_best_ones_of_ir():
    grid = {"max_k_grid": (1, 2), "rel_grid": (0.3, 0.9)}
    theirs = their_eval.sweep_selector(their_corpus(TEXTS), THEIR_CASES, mode="dense", **grid)
    async with our_corpus(TEXTS) as corpus:
        ours = await evaluation.sweep_selection(corpus, CASES, **grid, **DENSE)
    found = [
        [
            [(point.params, point.report.to_dict()) for point in sweep.points],
            sweep.best().params,
            sweep.best("mean_selected_size").params,
            sweep.best("selection_recall", minimize=True).params,
            [point.params for point in sweep.frontier()],
        ]
        for sweep in (ours, theirs)
    ]
    assert simple(found[0]) == simple(found[1])


async def test_the_ends_of_a_curve_of_distractors_are_those_of_ir():
    probes = [("signing keys", "deploy.md"), ("bread", "bread.md"), ("water", "garden.md")]
    theirs = their_eval.distractor_robustness_curve(TEXTS, probes, embedder=embed, sizes=(1, 4))
    cases = [DiscoveryCase(query, gold) for query, gold in probes]
    async with our_corpus(TEXTS) as corpus:
        ours = await evaluation.measure_distractors(corpus, cases, sizes=(1, 4), **DENSE)
    assert simple(ours) == simple(theirs)
    assert not math.isnan(ours[4])


async def test_missing_gold_and_qrels_are_those_of_ir():
    async with our_corpus(TEXTS) as corpus:
        missing = await evaluation.find_missing_gold(corpus, CASES)
    assert dict(missing) == their_eval.validate_cases(their_corpus(TEXTS), THEIR_CASES)
    assert evaluation.to_qrels(CASES, grade=2.0) == their_eval.to_qrels(THEIR_CASES, grade=2.0)


TOOLS = {
    "ci-advisor": {"name": "ci-advisor", "description": "The CI advisor explains why a run of the CI failed."},
    "bread": {"text": "Bake a loaf of bread in the oven, and wait until it is brown."},
}


async def test_generated_cases_are_those_of_ir():
    def write(description, *, n):
        return ["  why did it fail? ", "ask an advisor about CI", "", f"what is {description[:4]}", "ci_advisor please"]

    def invent(*, n, theme):
        return [f"{theme} {number}" for number in range(n + 2)]

    options = {"k": 2, "theme": "gardens", "corpus_name": "tools"}
    theirs = their_generator.build_eval_set(
        CorpusSource.from_mapping(TOOLS, name="tools"),
        abstention_frac=0.25,
        query_generator=write,
        abstention_generator=invent,
        **options,
    )
    ours = await evaluation.generate_case_set(
        from_mapping(TOOLS, name="tools"), abstention_share=0.25, writer=write, abstention_writer=invent, **options
    )
    assert [case.to_dict() for case in ours.cases] == [case.to_dict() for case in theirs]


@pytest.mark.parametrize(
    ("text", "name"),
    [("CI advisor, ci_advisor and ciadvisor; specific", "ci-advisor"), ("a capability", "capability"), ("x y", "x-")],
)
def test_names_are_masked_like_in_ir(text, name):
    assert evaluation.mask_name(text, name) == their_generator.mask_name(text, name)


def test_the_signature_of_a_corpus_is_that_of_ir():
    assert evaluation.sign_corpus(TOOLS) == their_generator.corpus_signature(
        CorpusSource.from_mapping(TOOLS, name="tools")
    )
