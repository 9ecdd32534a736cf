"""Questions that need several passages: what a walk finds beside a search."""

from collections.abc import Sequence
from statistics import fmean

from airw.evaluation import Evaluation, bootstrap_pairs
from tests.benchmarks.quality.corpora import MULTI_HOP, Library
from tests.benchmarks.quality.systems import BLEND, DENSE, LEXICAL, RRF, SEARCH, WALKS
from tests.benchmarks.quality.tables import Table, show

SYSTEMS = (*((system, "own") for system in (LEXICAL, DENSE, RRF, BLEND, SEARCH)), *WALKS)
MEASURES = {
    "R@2": "recall@2",
    "R@5": "recall@5",
    "R@10": "recall@10",
    "all@5": "all_gold@5",
    "nDCG@10": "ndcg@10",
    "MRR": "mrr@10",
}
DIFFERENCE = "R@5 - `search`"
COSTS = ("calls", "nodes", "texts", "cosines", "first ms", "last ms")


async def measure(library: Library, names: Sequence[str] = MULTI_HOP) -> list[Table]:
    """Return a table for each set, and one for all questions together."""
    found = {name: [await library.evaluate(name, *each) for each in SYSTEMS] for name in names}
    return [*(tabulate(name, each) for name, each in found.items()), tabulate_all(list(found.values()))]


def tabulate(name: str, found: Sequence[Evaluation]) -> Table:
    """Return the table of a set: a row for each system."""
    base = next(each for (system, _), each in zip(SYSTEMS, found, strict=True) if system is SEARCH)
    rows = []
    for (system, links), evaluation in zip(SYSTEMS, found, strict=True):
        means, costs = evaluation.means(), evaluation.costs().values()
        values = evaluation.values("recall@5")
        difference = "" if evaluation is base else str(bootstrap_pairs(values, base.values("recall@5")))
        measures = [show(means[measure]) for measure in MEASURES.values()]
        rows.append([name_row(system, links), *measures, difference, *(show(cost, 1) for cost in costs)])
    return Table(f"{name}, {found[0].n_gold} questions", ["system", *MEASURES, DIFFERENCE, *COSTS], rows)


def tabulate_all(found: Sequence[Sequence[Evaluation]]) -> Table:
    """Return the table of all questions of all sets together."""
    by_system = [
        {measure: [value for each in evaluations for value in each.values(measure)] for measure in MEASURES.values()}
        for evaluations in zip(*found, strict=True)
    ]
    base = next(values for (system, _), values in zip(SYSTEMS, by_system, strict=True) if system is SEARCH)
    rows = []
    for (system, links), values in zip(SYSTEMS, by_system, strict=True):
        difference = "" if values is base else str(bootstrap_pairs(values["recall@5"], base["recall@5"]))
        rows.append([name_row(system, links), *(show(fmean(each)) for each in values.values()), difference])
    return Table(f"All {len(base['recall@5'])} questions", ["system", *MEASURES, DIFFERENCE], rows)


def name_row(system, links: str) -> str:
    """Return the name of a system and its links, if they are not those of the set."""
    return system.label if links == "own" else f"{system.label}, {links}"
