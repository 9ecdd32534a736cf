"""How long a walk takes beside a flat hybrid search."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from airw.evaluation import FlatSearch, Meter
from tests.benchmarks.quality.corpora import MULTI_HOP, Library, cases_of
from tests.benchmarks.quality.multi_hop import name_row
from tests.benchmarks.quality.systems import RRF, WALKS
from tests.benchmarks.quality.tables import Table

ROUNDS = 3
SEARCH = FlatSearch(RRF.options, "hybrid search, 50 hits")
SYSTEMS = ((SEARCH, "own"), *((replace(walk, fill=None), links) for walk, links in WALKS))
GOAL = 3


async def measure(library: Library, names: Sequence[str] = MULTI_HOP) -> list[Table]:
    """Return a table with the milliseconds of a search and the ratios of walks."""
    rows = []
    for name in names:
        base, *others = await time_set(library, name)
        ratios = [f"{ms / base:.2f}" + ("" if ms <= GOAL * base else ", missed") for ms in others]
        rows.append([name, f"{base:.2f} ms", *ratios])
    head = ["set", *(name_row(*each) for each in SYSTEMS)]
    return [Table(f"Time of a question, as a multiple of a hybrid search (goal: {GOAL})", head, rows)]


async def time_set(library: Library, name: str) -> list[float]:
    """Return the mean milliseconds of a question by system, in its fastest round.

    Systems take turns question by question, so that other work on the machine meets all of them.
    """
    pairs = [(system, await library.open(name, links)) for system, links in SYSTEMS]
    best = []
    for case in cases_of(name):
        rounds = [[await time_one(system, corpus, case.query) for system, corpus in pairs] for _ in range(ROUNDS)]
        best.append([min(times) for times in zip(*rounds, strict=True)])
    return [fmean(times) for times in zip(*best, strict=True)]


async def time_one(system, corpus, query: str) -> float:
    """Return the milliseconds of a question."""
    start = time.perf_counter()
    await system.find(corpus, query, 50, Meter())
    return 1000 * (time.perf_counter() - start)
