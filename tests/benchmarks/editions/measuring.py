"""Editions side by side: a process each, which run every row in turn, round by round."""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median, quantiles

from tests.support.archives import unpack

ROOT = Path(__file__).parents[3]
COMMIT = "08028c4109b98d44c0e00cd7333fd6f89bd88359"
"""The first edition."""

ROUND = 0.25  # seconds that a round of a quick row takes at least
ROUNDS, FEWEST_ROUNDS, LONGEST_ROW = 11, 3, 30.0  # seconds: a row that would take longer gets fewer rounds
MOST_TURNS, SLOW_TURN = 5_000, 2.0  # seconds


class EditionError(Exception):
    """Report that an edition is missing, or failed."""


def unpack_edition(commit: str = COMMIT, root: Path = ROOT) -> Path:
    """Return the folder with the library of a commit, taken from the history of the clone.

    Raises:
        EditionError: If the history does not have the commit.
    """
    folder = root / "build" / "editions" / commit[:12]
    if folder.exists():
        return folder
    done = subprocess.run(["git", "archive", commit, "airw"], cwd=root, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode().strip().rpartition("\n")[2]
        raise EditionError(
            f"this clone does not have the commit {commit[:7]}, the first edition ({said}); "
            "in a shallow clone, fetch the whole history: git fetch --unshallow"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = tempfile.mkdtemp(dir=folder.parent)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        unpack(archive, made)
    return Path(made).rename(folder)  # only what is complete gets the name


class Worker:
    """A process that runs rows of one program with one edition."""

    def __init__(self, library: Path, plan: Mapping[str, object]) -> None:
        self.name = str(plan["edition"])
        self.library = library
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, [library, ROOT]))),
            "PYTHONSAFEPATH": "1",  # else a working folder would come before the library
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "tests.benchmarks.editions.worker", json.dumps(plan)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> dict:
        """Return what the process reports next.

        Raises:
            EditionError: If it has failed.
        """
        line = self._process.stdout.readline()
        facts = json.loads(line) if line else {"error": "its process ended"}
        if "error" in facts:
            raise EditionError(f"{self.name} edition: {facts['error']}")
        return facts

    def prepare(self) -> list[tuple[str, str]]:
        """Return the names and units of the rows when they are prepared."""
        facts = self.read()
        if not Path(facts["library"]).is_relative_to(self.library):
            raise EditionError(f"{self.name} edition: airw comes from {facts['library']}, not from {self.library}")
        return [(name, unit) for name, unit in facts["rows"]]

    def run(self, row: int, turns: range) -> dict:
        """Return the figure of a row, its seconds, and marks of its answers."""
        print(json.dumps({"row": row, "turns": [turns.start, turns.stop]}), file=self._process.stdin, flush=True)
        return self.read()

    def stop(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.communicate()


@contextmanager
def start_workers(program: str, libraries: Mapping[str, Path], folder: Path, scale: float) -> Iterator[list[Worker]]:
    """Yield a worker for each edition; all prepare their rows at the same time."""
    with ExitStack() as stack:
        workers = []
        for edition, library in libraries.items():
            place = folder / edition
            place.mkdir(exist_ok=True)
            plan = {"program": program, "edition": edition, "folder": str(place), "scale": scale}
            workers.append(Worker(library, plan))
            stack.callback(workers[-1].stop)
        yield workers


@dataclass(frozen=True)
class Comparison:
    """The rounds of one row.

    Args:
        name: The name of the row.
        unit: The unit of the figures, `"s"` or `"MB"`.
        figures: The figures of each round, by edition; those of one round belong together.
        differing: The number of turns in which the editions gave different answers, and of all turns.
    """

    name: str
    unit: str
    figures: dict[str, list[float]]
    differing: tuple[int, int]

    def ratios(self, edition: str, base: str) -> list[float]:
        """Return the ratio of each round: what slows down the machine for a while slows down both."""
        pairs = zip(self.figures[edition], self.figures[base], strict=True)
        return [figure / other for figure, other in pairs]

    def ratio(self, edition: str, base: str) -> float:
        """Return the median of the ratios."""
        return median(self.ratios(edition, base))

    def spread(self, edition: str, base: str) -> tuple[float, float]:
        """Return the ends of the middle half of the ratios."""
        ratios = self.ratios(edition, base)
        if len(ratios) < 2:
            return ratios[0], ratios[0]
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        return low, high


def compare_row(workers: list[Worker], row: int, name: str, unit: str, rounds: int | None = None) -> Comparison:
    """Measure one row in all workers.

    The first turn loads what is loaded once, the second tells how many turns make a round; neither counts. In a row
    that takes seconds, what is loaded once hardly matters, and one turn tells enough.
    """
    differing = total = 0
    slowest = max(worker.run(row, range(1))["seconds"] for worker in workers)
    if slowest < SLOW_TURN:
        slowest = max(worker.run(row, range(1, 2))["seconds"] for worker in workers)
    turns = min(MOST_TURNS, max(1, round(ROUND / slowest)))
    count = rounds or max(FEWEST_ROUNDS, min(ROUNDS, int(LONGEST_ROW / (slowest * turns * len(workers)))))
    figures: dict[str, list[float]] = {worker.name: [] for worker in workers}
    for at in range(count):
        asked = range(2 + at * turns, 2 + (at + 1) * turns)
        # Who comes first takes turns, too: the first one finds the caches of the processor as others left them.
        order = workers if at % 2 else workers[::-1]
        answers = {worker.name: worker.run(row, asked) for worker in order}
        for edition, answer in answers.items():
            figures[edition].append(answer["figure"])
        marks = zip(*(answer["marks"] for answer in answers.values()), strict=True)
        differing += sum(len(set(each)) > 1 for each in marks)
        total += turns
    return Comparison(name, unit, figures, (differing, total))


def compare_program(
    program: str, libraries: Mapping[str, Path], folder: Path, *, scale: float = 1.0, rounds: int | None = None
) -> Iterator[Comparison]:
    """Yield the comparison of each row of a program.

    Args:
        program: The name of the program.
        libraries: The folder that contains the package of each edition, by the name of the edition.
        folder: A folder for files.
        scale: A factor for the sizes of all corpora.
        rounds: The number of rounds; `None` for fewer of slow rows than of quick ones.

    Raises:
        EditionError: If an edition fails.
    """
    with start_workers(program, libraries, folder, scale) as workers:
        [rows, *_] = [worker.prepare() for worker in workers]
        for at, (name, unit) in enumerate(rows):
            yield compare_row(workers, at, name, unit, rounds)
