"""The command that measures rankings and prints the tables of docs/quality.md.

    python -m tests.benchmarks.quality all --vectors FILE
    python -m tests.benchmarks.quality multi-hop --sets musique-100
    python -m tests.benchmarks.quality page

A run of all sets keeps its tables in `results.json` beside this file; `page` puts them into the page. The data sets are
in the folder that `AIRW_DATA` names, and the model is all-MiniLM-L6-v2 from the dependency group `models`.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.benchmarks.quality import abstention, anytime, flat_sets, goals, links, multi_hop, promotion, times
from tests.benchmarks.quality.corpora import Library, open_library
from tests.benchmarks.quality.tables import KEPT, Section, keep, write_page

MEASURED = {
    "multi-hop": multi_hop.measure,
    "goals": goals.measure,
    "flat-sets": flat_sets.measure,
    "links": links.measure,
    "promotion": promotion.measure,
    "anytime": anytime.measure,
    "abstention": abstention.measure,
    "times": times.measure,
}


async def run(names: Sequence[str], options: argparse.Namespace, out: Path | None) -> None:
    """Measure, print and keep what was named."""
    async with open_library(options.vectors, options.rerank) as library:
        for name in names:
            section = await measure(library, name, options.sets)
            print(section.to_markdown(), end="\n\n", flush=True)
            if out is not None:
                keep(section, out)


async def measure(library: Library, name: str, sets: Sequence[str] | None) -> Section:
    """Return the tables of a command."""
    start = time.perf_counter()
    tables = await (MEASURED[name](library) if sets is None else MEASURED[name](library, sets))
    return Section(name, tables, time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.quality", description="Measure the quality of rankings."
    )
    parser.add_argument("what", choices=[*MEASURED, "all", "page"], help="what to measure; page: fill docs/quality.md")
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="keep the vectors of all texts in this file")
    parser.add_argument(
        "--sets", type=lambda text: text.split(","), metavar="NAMES", help="only these data sets, for a trial"
    )
    parser.add_argument("--rerank", metavar="SPEC", help="the reranker that a walk must beat, such as cross-encoder")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the tables in this file; not with --sets")
    options = parser.parse_args(arguments)
    if options.what == "page":
        write_page(kept=options.out or KEPT)
        return
    if options.sets and options.out:
        parser.error("tables of some sets are not kept: drop --sets or --out")
    os.environ["HF_HUB_OFFLINE"] = "1"
    out = None if options.sets else options.out or KEPT
    names = list(MEASURED) if options.what == "all" else [options.what]
    anyio.run(run, names, options, out)


if __name__ == "__main__":
    sys.exit(main())
