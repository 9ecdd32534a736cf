"""The command that measures this edition of the library beside the first one.

    python -m tests.benchmarks.editions
    python -m tests.benchmarks.editions --rows search ir --rounds 21

A ratio is the median over the rounds; below 1, this edition is faster or smaller. The middle half of the ratios says
how sure that is: run again, on an idle machine, if it is wide.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.benchmarks.editions.measuring import ROOT, Comparison, EditionError, compare_program, unpack_edition
from tests.benchmarks.editions.rows import FIRST, IR, NEW, PROGRAMS

MOST = 1.25  # the highest ratio that a simpler library may cost
HEAD = f"{'':52}{'new':>10}{'first':>10}{'ratio':>8}   middle half"


def format_figure(value: float, unit: str) -> str:
    """Return a figure with three digits and its unit."""
    if unit == "s":
        unit, value = next(
            ((name, value * factor) for name, factor in (("s", 1), ("ms", 1e3)) if value * factor >= 1),
            ("us", value * 1e6),
        )
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:#.3g} {unit}"


def format_row(row: Comparison) -> str:
    """Return the line of a row, and a line for its peer."""
    low, high = row.spread(NEW, FIRST)
    middles = {name: format_figure(median(figures), row.unit) for name, figures in row.figures.items()}
    line = f"{row.name:52}{middles[NEW]:>10}{middles[FIRST]:>10}{row.ratio(NEW, FIRST):8.2f}   {low:.2f} to {high:.2f}"
    differing, total = row.differing
    if differing:
        line += f"   ANSWERS DIFFER in {differing} of {total} turns"
    if IR in middles:
        line += f"\n    ir: {middles[IR]}; new / ir {row.ratio(NEW, IR):.2f}, first / ir {row.ratio(FIRST, IR):.2f}"
    return line


def find_gap(program: str) -> str | None:
    """Return why a program cannot run here, or `None` if it can."""
    data_set = PROGRAMS[program].data_set
    if data_set and not (Path(os.environ.get("AIRW_DATA", "/nowhere")) / data_set).is_dir():
        return f"AIRW_DATA names no folder with {data_set}"
    return None


def run(names: Sequence[str], libraries: Mapping[str, Path], scale: float, rounds: int | None) -> int:
    """Print the rows of programs; return 1 if an edition failed."""
    start, rows, failed = time.perf_counter(), [], []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="airw-editions-") as folder:
        for name in names:
            if gap := find_gap(name):
                print(f"{name}: left out, {gap}", flush=True)
                continue
            taking_part = {**libraries, **dict.fromkeys(PROGRAMS[name].peers, ROOT)}
            try:
                for row in compare_program(name, taking_part, Path(folder), scale=scale, rounds=rounds):
                    rows.append(row)
                    print(format_row(row), flush=True)
            except EditionError as error:
                failed.append(name)
                print(f"{name}: {error}", flush=True)
    worse = [row.name for row in rows if row.ratio(NEW, FIRST) > MOST]
    print(f"\n{len(rows)} rows in {time.perf_counter() - start:.0f} s; above {MOST}: {'; '.join(worse) or 'none'}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return min(1, len(failed))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.editions", description="Measure this edition of airw beside the first one."
    )
    parser.add_argument(
        "--rows", nargs="+", choices=PROGRAMS, metavar="NAME", default=list(PROGRAMS), help=", ".join(PROGRAMS)
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each row; by default fewer of slow rows")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the sizes of corpora, for a quick look")
    options = parser.parse_args(arguments)
    try:
        first = unpack_edition()
    except EditionError as error:
        print(error, file=sys.stderr)
        return 1
    return run(options.rows, {NEW: ROOT, FIRST: first}, options.scale, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
