"""The results of benchmarks: rows with their peers and goals, printed and kept as JSON.

`make bench` writes `benchmarks.json`: the machine, and the rows with their commits. A later run replaces the rows that
it measured again. Compare two such files, or print one as the tables of docs/benchmarks.md:

    python -m tests.benchmarks.results compare OLD NEW
    python -m tests.benchmarks.results tables FILE
"""

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
REGRESSION = 1.15  # a row is worse if its ratio or amount grew by more than this factor
# The version of each is kept beside the rows.
PEERS = [
    "PyStemmer",
    "asyncpg",
    "bm25s",
    "graph-retriever",
    "igraph",
    "ir",
    "lancedb",
    "langchain-community",
    "langchain-core",
    "langchain-postgres",
    "llama-index-core",
    "networkx",
    "onnxruntime",
    "rank-bm25",
    "scipy",
    "sentence-transformers",
    "sqlite-vec",
    "tantivy",
    "torch",
    "usearch",
]


@dataclass(frozen=True)
class Row:
    """One measured row.

    Args:
        question: The question of a user that the table of this row answers.
        work: What was done.
        peer: What airw was compared with; empty for an amount.
        value: The ratio of airw's best round to the peer's, or the amount. Lower is better.
        low: The lowest of all rounds.
        high: The highest of all rounds.
        goal: The highest value that meets the goal; `None` for no goal.
        airw: The best round of airw, in `unit`.
        other: The best round of the peer, in `unit`.
        unit: The unit of `airw` and `other`.
        date: The day of the measurement.
        commit: The commit that was measured, with `+` if files were changed since.
    """

    question: str
    work: str
    peer: str
    value: float
    low: float
    high: float
    goal: float | None
    airw: float
    other: float | None
    unit: str
    date: str
    commit: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells this row from others."""
        return self.question, self.work, self.peer

    @property
    def name(self) -> str:
        """Return the key as one line."""
        return " | ".join(part for part in self.key if part)

    @property
    def is_met(self) -> bool:
        """Return whether the goal is met; True if there is none."""
        return self.goal is None or self.value <= self.goal

    def to_cells(self) -> list[str]:
        """Return the cells of this row in a table."""
        goal = "" if self.goal is None else f"{self.goal:g}" + ("" if self.is_met else ", missed")
        scatter = f"{format_number(self.low)} to {format_number(self.high)}"
        if not self.peer:
            return [self.work, "", f"{format_number(self.airw)} {self.unit}", "", "", scatter, goal]
        other = "" if self.other is None else f"{format_number(self.other)} {self.unit}"
        ratio = f"{format_number(self.value)} x"
        return [self.work, self.peer, f"{format_number(self.airw)} {self.unit}", other, ratio, scatter, goal]


HEAD = ["work", "peer", "airw", "the peer", "airw / peer", "all rounds", "goal"]


class Results:
    """Collects rows, prints each one, and writes them to a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def compare(
        self,
        question: str,
        work: str,
        rounds: Mapping[str, Sequence[float]],
        goals: Mapping[str, float | None],
        *,
        unit: str = "ms",
    ) -> None:
        """Add a row per peer: the rounds of airw beside those of the peer, run in turn.

        Args:
            question: The question that the table answers.
            work: What was done.
            rounds: The figures of each round, lower is better: `"airw"`, and one entry per peer.
            goals: The highest accepted ratio airw / peer, by peer; `None` for no goal.
            unit: The unit of the figures.
        """
        own = rounds["airw"]
        for peer, goal in goals.items():
            ratios = [mine / theirs for mine, theirs in zip(own, rounds[peer], strict=True)]
            other = min(rounds[peer])
            # The best rounds of two ways need not be one round: their ratio may lie outside those of the rounds.
            best = min(own) / other
            low, high = min(best, *ratios), max(best, *ratios)
            self._keep(Row(question, work, peer, best, low, high, goal, min(own), other, unit, today(), commit()))

    def amount(self, question: str, work: str, rounds: Sequence[float], *, goal: float | None, unit: str) -> None:
        """Add a row for an amount without a peer; lower is better."""
        best = min(rounds)
        self._keep(Row(question, work, "", best, best, max(rounds), goal, best, None, unit, today(), commit()))

    def _keep(self, row: Row) -> None:
        print("\n" + " | ".join(cell for cell in row.to_cells() if cell))
        if self._path is not None:
            rows = {old.key: old for old in load(self._path)} if self._path.exists() else {}
            rows[row.key] = row
            kept = {"machine": describe_machine(), "rows": [asdict(each) for each in rows.values()]}
            self._path.write_text(json.dumps(kept, indent=1) + "\n")


@cache
def commit() -> str:
    """Return the commit of this checkout; empty outside one.

    It ends in `+` if files were changed since.
    """
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=9", "--exclude=*"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def today() -> str:
    """Return the date of today."""
    return time.strftime("%Y-%m-%d")


@cache
def describe_machine() -> dict[str, str]:
    """Return what times depend on: the processor, Python, and the versions of the peers."""
    processors = [line for line in _read_lines("/proc/cpuinfo") if line.startswith("model name")]
    found = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processors[0].partition(":")[2].strip() if processors else platform.processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "numpy": np.__version__,
    }
    for package in PEERS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _read_lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def run_in_turn(
    ways: Mapping[str, Callable[[], object]], *, rounds: int = 5, scale: float = 1e3
) -> dict[str, list[float]]:
    """Return the time of each round of each way, in milliseconds by default.

    A round runs every way once, so that other work on the machine affects all of them.
    A way that returns a number has measured itself, in seconds.
    """
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            own = way()
            seconds = own if isinstance(own, float) else time.perf_counter() - start
            figures[name].append(seconds * scale)
    return figures


def format_number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def load(path: Path) -> list[Row]:
    """Return the rows of a file."""
    return [Row(**row) for row in json.loads(path.read_text())["rows"]]


def load_machine(path: Path) -> dict[str, str]:
    """Return the machine on which the rows of a file were measured last."""
    machine: dict[str, str] = json.loads(path.read_text())["machine"]
    return machine


def print_machines(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Print what differs between the machines of two files."""
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            print(f"machine  {name}: {old.get(name, 'none')} -> {new.get(name, 'none')}")


def print_tables(rows: Sequence[Row]) -> None:
    """Print one markdown table per question."""
    for question in dict.fromkeys(row.question for row in rows):
        print(f"\n## {question}\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
        for row in rows:
            if row.question == question:
                print(f"| {' | '.join(row.to_cells())} |")


def print_changes(old_rows: Sequence[Row], new_rows: Sequence[Row]) -> int:
    """Print the rows of both files side by side, and return how many got worse."""
    old, worse = {row.key: row for row in old_rows}, 0
    for row in new_rows:
        before = old.pop(row.key, None)
        if before is None:
            print(f"new      {row.name}: {format_number(row.value)}")
            continue
        # Noise is no regression: the best of the new rounds must be worse than all rounds of before, too.
        is_worse = row.value > before.value * REGRESSION and row.value > before.high
        is_better = row.value * REGRESSION < before.value and row.value < before.low
        worse += is_worse
        verdict = "WORSE" if is_worse else "better" if is_better else "same"
        missed = "" if row.is_met else f" (goal {row.goal:g}, missed)"
        print(f"{verdict:8} {row.name}: {format_number(before.value)} -> {format_number(row.value)}{missed}")
    for row in old.values():
        print(f"missing  {row.name}")
    return worse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a row got worse."""
    parser = argparse.ArgumentParser(description="Compare or print results of benchmarks.")
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser("compare", help="show what got better or worse")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    tables = commands.add_parser("tables", help="print markdown tables")
    tables.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "tables":
        print_tables(load(options.file))
        return 0
    print_machines(load_machine(options.old), load_machine(options.new))
    return min(1, print_changes(load(options.old), load(options.new)))


if __name__ == "__main__":
    sys.exit(main())
