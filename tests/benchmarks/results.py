"""The results of benchmarks: ratios to peers and amounts, with their goals, printed and kept as JSON.

`make bench` writes `benchmarks.json`; a later run replaces the rows that it measured again. Compare two such files, or
print one as the tables of docs/benchmarks.md:

    python -m tests.benchmarks.results compare OLD NEW
    python -m tests.benchmarks.results tables FILE
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REGRESSION = 1.15  # a row is worse if its ratio or amount grew by more than this factor


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

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells this row from others."""
        return self.question, self.work, self.peer

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
            best = min(own) / min(rounds[peer])
            low, high = min(ratios), max(ratios)
            self._add(question, work, peer, best, low, high, goal, min(own), min(rounds[peer]), unit)

    def amount(self, question: str, work: str, rounds: Sequence[float], *, goal: float | None, unit: str) -> None:
        """Add a row for an amount without a peer; lower is better."""
        best = min(rounds)
        self._add(question, work, "", best, best, max(rounds), goal, best, None, unit)

    def _add(self, *cells: object) -> None:
        row = Row(*cells, time.strftime("%Y-%m-%d"))  # type: ignore[arg-type]
        print("\n" + " | ".join(cell for cell in row.to_cells() if cell))
        if self._path is not None:
            rows = {old.key: old for old in load(self._path)} if self._path.exists() else {}
            rows[row.key] = row
            self._path.write_text(json.dumps([asdict(each) for each in rows.values()], indent=1) + "\n")


def run_in_turn(
    ways: Mapping[str, Callable[[], object]], *, rounds: int = 5, scale: float = 1e3
) -> dict[str, list[float]]:
    """Return the time of each round of each way, in milliseconds by default; a round runs every way once.

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
    return [Row(**row) for row in json.loads(path.read_text())]


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
            print(f"new      {' | '.join(row.key)}: {format_number(row.value)}")
            continue
        # Noise is no regression: the best of the new rounds must be worse than all rounds of before, too.
        is_worse = row.value > before.value * REGRESSION and row.value > before.high
        is_better = row.value * REGRESSION < before.value and row.value < before.low
        worse += is_worse
        verdict = "WORSE" if is_worse else "better" if is_better else "same"
        print(f"{verdict:8} {' | '.join(row.key)}: {format_number(before.value)} -> {format_number(row.value)}")
    for row in old.values():
        print(f"missing  {' | '.join(row.key)}")
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
    return min(1, print_changes(load(options.old), load(options.new)))


if __name__ == "__main__":
    sys.exit(main())
