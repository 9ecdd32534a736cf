"""What an evaluation measures, on a handful of questions.

Rankings, selections, sweeps, floors and comparisons.
"""

import airw
from airw import evaluation, policies
from airw.evaluation import DiscoveryCase, FlatSearch, PolicyWalk
from tests.support.golden_corpora import EACH_WAY, eips, open_new, run
from tests.support.golden_rows import digest

PARTS = ("eips",)
WAYS = EACH_WAY
QUICK = {"eips": []}

CASES = [
    DiscoveryCase("how do wallets sign typed structured data", ("eip-712.md",)),
    DiscoveryCase("fungible token standard", ("eip-20.md",)),
    DiscoveryCase("replay protection by chain id", ("eip-155.md", "eip-1344.md")),
    DiscoveryCase("fee market with a base fee that is burned", ("eip-1559.md",)),
    DiscoveryCase("blob transactions for data availability", ("eip-4844.md",)),
    DiscoveryCase("transient storage opcodes", ("eip-1153.md",)),
    DiscoveryCase("no such document answers this", ("not-there.md",)),
    DiscoveryCase("sourdough bread recipe"),
    DiscoveryCase("train times on sundays"),
    DiscoveryCase("who won the cup in 1998"),
]
SYSTEMS = {
    "flat": FlatSearch(),
    "dense": FlatSearch({"mode": "dense"}, "dense"),
    "lexical": FlatSearch({"mode": "lexical", "k": 5}, "lexical"),
    "default walk": PolicyWalk(),
    "eager": PolicyWalk(policies.Eager(start_k=2, select_k=8), "eager", node_budget=8),
    "eager, filled": PolicyWalk(policies.Eager(start_k=1, select_k=3), "filled", node_budget=4, fill=FlatSearch()),
}


def record(part, way, folder):
    return run(record_eips, way, folder)


async def record_eips(way, folder):
    """Return the rows of one corpus, which the last rows change."""
    async with open_new(way, folder, eips(pattern=r"^eip-\d{2,4}\.md$")) as corpus:
        rows = {}
        evaluations = {name: await evaluation.evaluate(corpus, CASES, system) for name, system in SYSTEMS.items()}
        for name, found in evaluations.items():
            rows |= evaluation_rows(name, found)
        rows |= comparison_rows(evaluations)
        rows |= await record_selections(corpus)
        rows |= await record_floors(corpus)
        return rows


def evaluation_rows(name, found):
    """Return what one system reached."""
    answers = [[digest(list(row.ranking)), len(row.ranking), row.top_score] for row in found.rows]
    recall = evaluation.measure_anytime(found, by="hits", at=[1, 3, 10]).recall
    return {
        f"means of {name}": found.means(),
        f"success of {name}, by question": found.values("success@5"),
        f"answers of {name}": answers,
        f"classes of {name}": dict(sorted(found.failure_classes(floor=0.3).items())),
        f"abstention of {name}": [found.abstention_accuracy(0.4), evaluation.measure_abstention(found).auc],
        f"recall of {name} after 1, 3 and 10 hits": list(recall),
    }


def comparison_rows(evaluations):
    """Return the mean differences between systems, without intervals, which are drawn."""
    flat = evaluations["flat"]
    comparison = evaluation.compare(list(evaluations.values()), baseline="flat")
    rows = {
        f"{label} less flat": {measure: [interval.mean, interval.n] for measure, interval in measures.items()}
        for label, measures in comparison.differences.items()
    }
    for name in ("default walk", "eager"):
        found = evaluation.promote(evaluations[name], flat=flat, reranked=evaluations["lexical"], measure="recall@5")
        rows[f"promotion of {name}"] = [found.promoted, [interval.mean for interval in found.differences.values()]]
    return rows


async def record_selections(corpus):
    """Return how well strategies select, and the best of a grid."""
    rows = {}
    for options in (
        {},
        {"strategy": "top_k", "max_k": 2},
        {"mode": "dense", "min_score": 0.2},
        {"strategy": "score_gap"},
    ):
        report = await evaluation.evaluate_selection(corpus, CASES, **options)
        rows[f"selection {options}"] = report.to_dict()
    grid = {"max_k_grid": (1, 3), "rel_grid": (0.5, 0.9), "min_score_grid": (None, 0.4)}
    sweep = await evaluation.sweep_selection(corpus, CASES, **grid)
    for point in sweep.points:
        rows[f"sweep {point.params}"] = [point.worth(name) for name in evaluation.SWEEP_MEASURES]
    rows["best of the sweep"] = [sweep.best().params, sweep.best("abstention_accuracy").params]
    rows["frontier of the sweep"] = [point.params for point in sweep.frontier()]
    found = await evaluation.measure_distractors(corpus, CASES, sizes=(1, 4, 16), mode="lexical")
    rows["success among distractors"] = [[size, share] for size, share in found.items()]
    return rows


async def record_floors(corpus):
    """Return the floors that questions measure, and what they turn away."""
    rows = {}
    for options in (
        {},
        {"mode": "dense"},
        {"mode": "lexical"},
        {"signal": "score"},
        {"signal": "score", "mode": "dense"},
    ):
        found = await evaluation.calibrate_min_score(corpus, CASES, **options)
        facts = ("min_score", "reason", "signal", "auc", "sensitivity", "specificity", "youden_j", "separable")
        rows[f"calibration {options}"] = {name: getattr(found, name) for name in facts}
    evidence = await evaluation.measure_evidence(corpus, CASES)
    rows["evidence by question"] = [[case.query, evidence.by_query[case.query]] for case in CASES]
    await evaluation.calibrate_min_score(corpus, CASES, persist=True)
    for case in CASES:
        result = await airw.discover(corpus, case.query)
        rows[f"calibrated: {case.query}"] = [result.ids, result.reason, result.signals.get("floor_kind")]
    return rows
