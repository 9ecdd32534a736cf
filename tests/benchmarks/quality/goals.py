"""The goals of walks: what to find, at what cost, and never much below a search."""

from collections.abc import Sequence
from statistics import fmean

from airw.evaluation import Evaluation
from tests.benchmarks.quality.corpora import FLAT, MULTI_HOP, Library
from tests.benchmarks.quality.multi_hop import name_row
from tests.benchmarks.quality.systems import CANDIDATES, SEARCH
from tests.benchmarks.quality.tables import Table, show

RECALL = dict(zip(MULTI_HOP, (0.97, 0.97, 0.75, 0.96, 0.95, 0.70), strict=True))
"""The recall@5 that a walk should reach on each set."""

MOST_TEXTS, MOST_COSINES = 50, 100  # of a question, on average
MOST_BELOW = 0.01  # of the value of the search
MISSED = ", missed"


async def measure(library: Library, names: Sequence[str] = (*MULTI_HOP, *FLAT)) -> list[Table]:
    """Return a table with a row for each set and walk."""
    head = ["set", "walk", "R@5", "goal", "texts", "cosines", "R@5 beside `search`", "nDCG@10 beside `search`"]
    rows = []
    for name in names:
        flat = await library.evaluate(name, SEARCH)
        for system, links in CANDIDATES:
            found = await library.evaluate(name, system, links)
            beside = [relate(found, flat, measure) for measure in ("recall@5", "ndcg@10")]
            rows.append([name, name_row(system, links), *judge(name, found), *beside])
    return [
        Table(f"Goals: at most {MOST_TEXTS} texts and {MOST_COSINES} cosines, at most 1 % below `search`", head, rows)
    ]


def judge(name: str, found: Evaluation) -> list[str]:
    """Return the recall with its goal, and the costs."""
    recall, goal, costs = fmean(found.values("recall@5")), RECALL.get(name), found.costs()
    reached = "" if goal is None else f"{goal:.2f}" + (MISSED if recall < goal else "")
    amounts = [(costs["texts"], MOST_TEXTS), (costs["cosines"], MOST_COSINES)]
    return [show(recall), reached, *(show(value, 1) + (MISSED if value > most else "") for value, most in amounts)]


def relate(found: Evaluation, flat: Evaluation, measure: str) -> str:
    """Return by how much a walk is better than the search, as a share."""
    share = fmean(found.values(measure)) / fmean(flat.values(measure)) - 1
    return f"{share:+.1%}" + (MISSED if share < -MOST_BELOW else "")
