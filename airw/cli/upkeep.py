"""The commands that look after corpora: maintain, coverage."""

import argparse
import sys

from airw import corpora as registry
from airw.cli import inventory, output
from airw.cli.choosing import chosen, named

__all__ = ["coverage", "maintain"]


async def maintain(arguments: argparse.Namespace) -> int:
    """Bring one corpus, or all that are due, up to date, and tell of each."""
    with output.progress_of_many("maintaining") as report_progress:
        report = await registry.maintain(named(arguments), dry_run=arguments.dry_run, progress=report_progress)
    inventory.maintained(report, arguments.format)
    if report.failed:
        print(f"airw: {len(report.failed)} of {len(report.corpora)} corpora failed", file=sys.stderr)
    return int(not report.ok)


async def coverage(arguments: argparse.Namespace) -> int:
    """Compare a corpus with its source."""
    name = chosen(named(arguments), registry.list_corpora())
    found = await registry.coverage(name)
    inventory.covered(found, arguments.format, verbose=arguments.verbose)
    return int(bool(found.missing) or any(problem.lost for problem in found.problems))
