"""What has arrived when a user stops early."""

from collections.abc import Sequence
from dataclasses import replace

from airw.evaluation import measure_anytime
from tests.benchmarks.quality.corpora import MULTI_HOP, Library
from tests.benchmarks.quality.multi_hop import name_row
from tests.benchmarks.quality.systems import SEARCH, WALKS
from tests.benchmarks.quality.tables import Table, show

# Without the search that fills a ranking: it would read its hits last.
SYSTEMS = ((SEARCH, "own"), *((replace(walk, fill=None), links) for walk, links in WALKS))
HITS = 50
POINTS = {"hits": (1, 2, 5, 10, 20, 50), "reads": (5, 10, 20, 30, 50), "ms": (2, 5, 10, 20, 50)}


async def measure(library: Library, names: Sequence[str] = MULTI_HOP) -> list[Table]:
    """Return a table for each kind of progress."""
    tables = []
    for by, points in POINTS.items():
        rows = []
        for name in names:
            for system, links in SYSTEMS:
                found = await library.evaluate(name, system, links, k=HITS)
                curve = measure_anytime(found, by=by, at=points)
                rows.append([name, name_row(system, links), *map(show, curve.recall)])
        tables.append(Table(f"Recall after so many {by}", ["set", "system", *map(str, points)], rows))
    return tables
